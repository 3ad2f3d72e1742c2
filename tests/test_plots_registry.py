"""Every public result type has a picture or a reason; pictures say statuses; the style changes nothing global."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

import grpo_plan as gp
from grpo_plan import plots
from grpo_plan.errors import DomainError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.plots.parts import Row, intervals
from grpo_plan.plots.registry import NOT_DRAWN, PLOTS, WHERE, function
from grpo_plan.plots.style import INK, ROLES, SERIES, WHITE, save_figure
from grpo_plan.rollouts import Rollouts
from tests.conftest import pilot_of

NONE = pilot_of((50, 0, 0, 0, 0))
DEAD = pilot_of((20, 0, 0, 20))


def types() -> dict[str, type]:
    """Public classes that are no errors and no enums."""
    found = {name: getattr(gp, name) for name in gp._PUBLIC}
    return {
        name: kind
        for name, kind in found.items()
        if inspect.isclass(kind) and not issubclass(kind, Exception) and not hasattr(kind, "__members__")
    }


def said(ax: Axes) -> str:
    return " ".join(t.get_text() for t in (*ax.texts, ax.title, ax._left_title)).replace("\n", " ")  # type: ignore[attr-defined]


def test_every_public_type_has_a_picture_or_a_reason() -> None:
    assert set(types()) == set(PLOTS) | set(NOT_DRAWN), "add it to grpo_plan.plots.registry"
    assert not set(PLOTS) & set(NOT_DRAWN)


def test_every_function_draws_a_type_and_takes_axes() -> None:
    assert {name for names in PLOTS.values() for name in names} == set(WHERE)
    for name in WHERE:
        draw = function(name)
        assert list(inspect.signature(draw).parameters)[1] == "ax", name
        assert inspect.signature(draw).parameters["ax"].default is None
        assert inspect.signature(draw).return_annotation == "Axes"
        assert getattr(plots, name) is draw
        assert name in plots.__all__


@pytest.mark.parametrize("name", sorted(WHERE))
def test_what_is_no_result_is_refused_in_one_line(name: str) -> None:
    if name == "plot_refill":
        with pytest.raises(DomainError, match="prompts_per_step and group_size must be given"):
            function(name)("nonsense")
        return
    with pytest.raises(DomainError) as error:
        function(name)(object())
    assert "\n" not in str(error.value)
    assert "must be" in str(error.value)


def test_plot_says_what_has_no_picture() -> None:
    with pytest.raises(DomainError, match=r"got Budget: it is what you give, not a result\. grpo_plan\.plots\.PLOTS"):
        gp.plot(gp.Budget(rollouts=10, steps=1))
    with pytest.raises(DomainError, match="got dict"):
        gp.plot({})
    with pytest.raises(DomainError, match="got list"):
        gp.plot([])
    with pytest.raises(AttributeError, match="no attribute 'plot_nothing'"):
        _ = plots.plot_nothing


NO_PASS, ALL_DEAD = "NO_SUCCESS", "ALL_DEAD"
STATUSES: dict[str, tuple[Callable[[], Axes], str]] = {
    "no pass": (lambda: gp.plot(fit_pass_rates(NONE)), NO_PASS),
    "no pass, rates": (lambda: plots.plot_pass_rates(fit_pass_rates(NONE)), NO_PASS),
    "all dead": (lambda: gp.plot(fit_pass_rates(DEAD)), ALL_DEAD),
    "all dead, one G": (lambda: gp.plot(fit_pass_rates(DEAD).dead(8)), "D"),
    "one rollout": (lambda: gp.plot(fit_pass_rates(pilot_of((20, 30)))), "SINGLE_ROLLOUT"),
    "one rollout, one G": (lambda: gp.plot(fit_pass_rates(pilot_of((20, 30))).dead(4)), "unknown"),
    "one prompt": (lambda: plots.plot_pass_rates(fit_pass_rates(pilot_of((0, 0, 1, 0)))), "Pass rate of one prompt"),
    "one prompt, pilot": (lambda: gp.plot(pilot_of((0, 0, 1, 0))), "1 prompt x 3"),
    "far beyond": (lambda: gp.plot(gp.compare_estimates(fit_pass_rates(pilot_of((5, 4, 3))), [2, 64])), "BEYOND_REACH"),
    "pass@k of one rollout": (lambda: gp.plot(gp.pass_curve(pilot_of((20, 30)), ks=[2, 4])), "SINGLE_ROLLOUT"),
    "tail unknown": (lambda: gp.plot(gp.pass_tail(fit_pass_rates(NONE), octaves=())), "UNKNOWN"),
    "refill may never fill": (
        lambda: gp.plot(gp.refill(fit_pass_rates(pilot_of((60, 1, 0, 0))), prompts_per_step=4, group_size=3, level=0.999999)),
        "MAY_NEVER_FILL",
    ),
    "finite data": (
        lambda: gp.plot(
            gp.refill(fit_pass_rates(pilot_of((9, 9, 9, 9))), prompts_per_step=4, group_size=3, data_prompts=64)
        ),
        "endless stream",
    ),
    "forecast of few rows": (lambda: gp.plot(gp.forecast([1, 2, 3], [0.4, 0.5, 0.4], 0.9)), "too few to look ahead"),
    "only the mean": (lambda: gp.plot(gp.recover(group_size=8, mean=0.4)), "MEAN_ONLY"),
    "contradiction": (lambda: gp.plot(gp.composition_bounds([0.1, 0.5], [0.0, 0.4], 4)), "1 rows contradict"),
    "only contradictions": (lambda: gp.plot(gp.composition_bounds([0.1], [0.0], 4)), "No row has bounds"),
    "nothing logged": (lambda: gp.plot(gp.recover_steps([np.nan], [np.nan], 8, [16])), "No row has both"),
    "no texts": (lambda: gp.plot(gp.duplicate_rollouts([], [])), "No rollout has a text"),
    "sessions apart": (
        lambda: gp.plot(gp.check_independence([[1, 0], [0, 1]], [[2, 0], [0, 2]], names=["a", "b"])),
        "nothing can be compared",
    ),
    "few lists": (lambda: gp.plot(gp.check_sequences([[1, 0, 1], [0, 1, 1]])), "nothing is claimed"),
    "no division": (lambda: gp.plot(gp.amplification([[1, 0], [0, 1]], "dr_grpo")), "does not divide"),
    "equal rewards": (lambda: gp.plot(gp.amplification([[1, 1], [0, 0]], "grpo")), "equal rewards"),
    "empty responses": (lambda: gp.plot(gp.token_weights([0, 0], aggregation="dapo")), "No response has a loss token"),
    "no group in the range": (lambda: gp.plot(gp.compare_remedies(fit_pass_rates(NONE), 2)), "Nothing to compare"),
    "one seed": (
        lambda: gp.plot(
            gp.simulate(
                [0.2, 0.5, 0.7], training=gp.SimulatedTraining(steps=3), seeds=1,
                model=gp.SimulatedPolicy(prompts=8, held_out=4),
            )
        ),
        "one seed: no interval",
    ),
    "only noise": (
        lambda: gp.plot(gp.measure_kappa({4: np.linspace(1, 2, 50), 16: np.linspace(1, 2, 50)[::-1] / 9})),
        "kappa unknown",
    ),
    "cannot tell": (lambda: gp.plot(gp.compare_dead_counts({0.6: (5, 20), 1.0: (6, 20)})), "cannot tell"),
    "dropping nothing": (lambda: gp.plot(gp.effect_of_dropping(fit_pass_rates(pilot_of((0, 9, 9, 0))), 4)), "no such prompt"),
}  # fmt: skip


@pytest.mark.parametrize("case", STATUSES)
def test_what_cannot_be_told_is_said_on_the_axes(case: str, tmp_path: Path) -> None:
    draw, words = STATUSES[case]
    ax = draw()
    save_figure(ax.figure, tmp_path / "a.svg")  # type: ignore[arg-type]
    assert words in said(ax)
    assert "nan" not in said(ax)


def test_an_open_end_is_an_arrow_and_an_unknown_value_a_word() -> None:
    ax = Figure().subplots()
    intervals(ax, [Row("open", 2.0, 1.0, None), Row("none", None), Row("$x$ and $y$", 1.0, 0.5, 1.5)], zero=0.0)
    assert [line.get_marker() for line in ax.get_lines() if str(line.get_marker()) in "<>"] == [">"]
    assert [t.get_text() for t in ax.texts] == ["2 [1, no limit]", "unknown", "1 [0.5, 1.5]"]
    ax.figure.canvas.draw()
    assert ax.get_yticklabels()[2].get_text() == r"\$x\$ and \$y\$"  # no mathematics


def test_lengths_that_are_not_known_are_said() -> None:
    rollouts = Rollouts.from_arrays(["a", "a", "b", "b"], [1, 0, 0, 1], [3, 5, 4, 4])
    ax = plots.plot_length_bias(gp.length_bias(rollouts, ["dapo"]), share="wrong")
    assert "on wrong responses" in said(ax)
    with pytest.raises(DomainError, match="share must be one of"):
        plots.plot_length_bias(gp.length_bias(rollouts, ["dapo"]), share="none")  # type: ignore[arg-type]


def test_a_refill_marks_its_own_batch(example_fit: PassRateFit) -> None:
    planned = gp.refill(example_fit, prompts_per_step=128, group_size=8, batch_multiplier=1.5)
    ax = gp.plot(planned)
    mark = next(line for line in ax.get_lines() if line.get_label() == "planned")
    at = np.asarray(mark.get_xydata())[0].tolist()
    assert at == pytest.approx([1.5, planned.at_value.prompts.mean / 128])
    with pytest.raises(DomainError, match="those of the refill"):
        gp.plot_refill(planned, prompts_per_step=3)


def test_mixed_groups_are_their_law(example_fit: PassRateFit) -> None:
    batch = gp.effective_batch(example_fit, prompts_per_step=20, group_size=8)
    ax = gp.plot(batch)
    bars = {
        round(b.get_x() + b.get_width() / 2): b.get_height()
        for c in ax.containers
        if isinstance(c, BarContainer)
        for b in c
    }
    for k, chance in bars.items():
        assert chance == pytest.approx(batch.probability_fewer_than(k + 1) - batch.probability_fewer_than(k))
    assert sum(bars.values()) == pytest.approx(1.0, abs=1e-3)
    known = gp.plot(gp.effective_batch_of_list([0.0, 0.5, 0.5, 1.0], group_size=2))
    assert "1 / 4" not in said(known)  # no limits of the mean where pass rates are known
    assert not [line for line in known.get_lines() if "interval" in str(line.get_label())]


def test_sensitivity_is_the_answer_of_the_plan(example_fit: PassRateFit) -> None:
    plan = gp.plan_group_size(example_fit, budget=gp.Budget(rollouts=200_000, steps=50))
    ax = plots.plot_kappa_sensitivity(plan)
    best = next(line for line in ax.get_lines() if line.get_label() == "best G")
    assert np.asarray(best.get_ydata()).tolist() == [a.group_size for a in plan.sensitivity]
    assert f"recommended: G = {plan.recommended.design.group_size}" in [
        str(line.get_label()) for line in ax.get_lines()
    ]


def test_a_log_alone_is_drawn() -> None:
    run = gp.read_run([{"step": i, "frac_reward_zero_std": 0.5, "reward": 0.4} for i in range(20)])
    for draw in (plots.plot_composition, plots.plot_dead_against_plan, plots.plot_effective_batch_over_steps):
        assert draw(run).get_title(loc="left")


# --- the style ---------------------------------------------------------------------------------------------------


def test_no_global_setting_changes_and_the_ground_is_white(example_fit: PassRateFit, tmp_path: Path) -> None:
    with mpl.rc_context():
        mpl.rcParams.update({"axes.facecolor": "black", "text.color": "white", "font.size": 23.0})
        before = dict(mpl.rcParams)
        ax = gp.plot(example_fit.dead(8))
        given = Figure().subplots()
        assert gp.plot(example_fit.dead(8), given) is given
        save_figure(ax.figure, tmp_path / "a.svg")  # type: ignore[arg-type]
        assert dict(mpl.rcParams) == before
    for axes in (ax, given):
        assert axes.get_facecolor() == to_rgba(WHITE)
        assert not axes.spines["top"].get_visible()
    assert ax.figure.get_facecolor() == to_rgba(WHITE)
    assert ax.xaxis.label.get_color() == INK


def test_the_same_data_give_the_same_file(example_fit: PassRateFit, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_figure(gp.plot(example_fit.dead(8)).figure, tmp_path / name)  # type: ignore[arg-type]
    first = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert first == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert "<metadata>" not in first
    assert "0.439 [0.411, 0.467]" in first  # digits of the text are kept


def test_series_differ_in_more_than_colour() -> None:
    assert len({marker for _, _, marker in SERIES}) == len(SERIES)
    assert len({str(dash) for _, dash, _ in SERIES}) == len(SERIES)
    assert len(set(ROLES.values())) == len(ROLES)
