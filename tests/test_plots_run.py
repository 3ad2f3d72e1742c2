"""Pictures of a run: what is drawn is the data; every kind of log can be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from grpo_plan.errors import DomainError
from grpo_plan.plots.run import (
    COLUMNS,
    draw_run,
    plot_composition,
    plot_dead_against_plan,
    plot_effective_batch_over_steps,
)
from grpo_plan.run_log import RunLog
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.expectation import Expectation
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.settings import DiagnosisSettings
from tests.runs import composed, plan_body, run_of

RNG = np.random.default_rng(5)
FAIL, PASS = RNG.binomial(32, 0.4, 60) / 64, RNG.binomial(32, 0.3, 60) / 64
DRAWS = (plot_composition, plot_dead_against_plan, plot_effective_batch_over_steps)


def expected(**given: Any) -> Expectation:
    return Expectation.from_json(plan_body(**given))


def composed_run(**given: Any) -> Diagnosis:
    return diagnose(composed(FAIL, PASS), expected(), settings=DiagnosisSettings(**given))


def areas(ax: Axes) -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Lower and upper edge of each filled area, by its label."""
    found = {}
    for area in ax.collections:
        if isinstance(area, PolyCollection) and not str(area.get_label()).startswith("_"):
            points = np.asarray(area.get_paths()[0].vertices)
            x = np.unique(points[:, 0])
            found[str(area.get_label())] = (
                np.array([points[points[:, 0] == at, 1].min() for at in x]),
                np.array([points[points[:, 0] == at, 1].max() for at in x]),
            )
    return found


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_layers_are_the_shares_and_add_up() -> None:
    figure, ax = plt.subplots()
    assert plot_composition(composed_run(), ax) is ax
    found = areas(ax)
    assert set(found) == {"all-fail", "mixed", "all-pass"}
    assert found["all-fail"][0] == pytest.approx(np.zeros(60))
    assert found["all-fail"][1] == pytest.approx(FAIL)
    assert found["mixed"][0] == pytest.approx(FAIL)
    assert found["mixed"][1] == pytest.approx(1 - PASS)
    assert found["all-pass"][1] == pytest.approx(np.ones(60))
    assert labels(ax) == ["all-pass", "mixed", "all-fail"]  # as they lie, from the top
    plt.close(figure)


def test_bounds_are_hatched() -> None:
    dead, mean = np.tile([0.5, 0.25], 20), np.tile(np.arange(12, 22) / 32, 4)
    run = diagnose(run_of("trl", {"dead": dead, "reward": mean}), settings=DiagnosisSettings(group_size=4))
    ax = plot_composition(run)
    found = areas(ax)
    assert set(found) == {"all-fail", "all-fail or all-pass", "mixed", "all-pass"}
    hatched = [a for a in ax.collections if a.get_label() == "all-fail or all-pass"]
    assert hatched[0].get_hatch() == "////"
    assert found["mixed"][1] - found["mixed"][0] == pytest.approx(1 - dead)
    fail = run.facts.all_fail
    assert isinstance(fail, Measured)
    assert found["all-fail"][1] == pytest.approx(fail.lower)


def test_a_dead_fraction_alone_has_no_kinds() -> None:
    run = diagnose(run_of("trl", {"dead": np.full(20, 0.5), "reward": np.linspace(-3, 9, 20)}))
    assert labels(plot_composition(run)) == ["mixed", "dead, kind not known"]


def test_many_rows_are_averaged_not_dropped() -> None:
    dead = np.random.default_rng(0).binomial(8, 0.5, 1000) / 8
    ax = plot_composition(diagnose(run_of("trl", {"dead": dead, "reward": np.linspace(-3, 9, 1000)})))
    low, high = areas(ax)["dead, kind not known"]
    assert high.size == COLUMNS
    assert np.mean(high - low) == pytest.approx(dead.mean())


def test_the_plan_and_the_onset_are_drawn() -> None:
    dead = np.r_[RNG.binomial(32, 0.5, 40), RNG.binomial(32, 0.9, 60)] / 32
    run = diagnose(
        run_of("trl", {"dead": dead, "reward": RNG.binomial(256, 0.4, 100) / 256}),
        expected(),
        settings=DiagnosisSettings(group_size=8, prompts_per_step=32),
    )
    ax = plot_dead_against_plan(run)
    assert (
        ax.get_title(loc="left") == "Dead groups against the plan" or ax.get_title() == "Dead groups against the plan"
    )
    finding = run.finding("DEAD_ABOVE_PLAN")
    assert finding is not None
    assert finding.onset_step is not None
    assert labels(ax) == [
        "plan, G = 8", "rows", "mean of 10 rows, 95% limits", f"above the plan from {finding.onset_step}",
    ]  # fmt: skip
    lines = {str(line.get_label()): np.asarray(line.get_xydata()) for line in ax.get_lines()}
    assert lines["rows"][:, 1] == pytest.approx(dead)
    mean = lines["mean of 10 rows, 95% limits"]
    assert mean[0].tolist() == pytest.approx([5.5, dead[:10].mean()])
    assert mean[-1].tolist() == pytest.approx([95.5, dead[-10:].mean()])


def test_mixed_groups_of_a_step_and_where_they_were_planned() -> None:
    ax = plot_effective_batch_over_steps(composed_run(prompts_per_step=32))
    assert labels(ax) == ["plan: 9 of 10 steps", "rows", "mean of 10 rows, 95% limits", "prompts a step"]
    rows = next(np.asarray(line.get_xydata()) for line in ax.get_lines() if line.get_label() == "rows")
    assert rows[:, 1] == pytest.approx(32 * (1 - FAIL - PASS))
    mean = next(np.asarray(line.get_xydata()) for line in ax.get_lines() if str(line.get_label()).startswith("mean"))
    assert mean[0, 1] == pytest.approx(32 * (1 - FAIL[:10] - PASS[:10]).mean())
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (band.y0, band.y1) == pytest.approx((12.0, 20.0))
    other = plot_effective_batch_over_steps(composed_run(prompts_per_step=64))
    assert "plan: mean" in labels(other)  # the plan's steps have other sizes
    unknown = plot_effective_batch_over_steps(composed_run())
    assert unknown.get_ylabel() == "mixed share of the groups"
    assert "the prompts per step are not known" in " ".join(text.get_text() for text in unknown.texts)


@pytest.mark.parametrize("rows", [1, 2, 5, 19, 21, 400])
@pytest.mark.parametrize("kind", ["counted", "bounded", "absent", "no row"])
def test_every_kind_of_log_is_drawn(rows: int, kind: str, tmp_path: Path) -> None:
    dead = np.random.default_rng(rows).binomial(8, 0.5, rows) / 8
    columns = {
        "counted": {"dead": dead, "reward": np.full(rows, 0.5)},
        "bounded": {"dead": np.zeros(rows), "num_gen_batches": np.full(rows, 3.0), "reward": np.full(rows, 0.5)},
        "absent": {"reward": np.full(rows, 0.5)},
        "no row": {"dead": np.full(rows, np.nan), "reward": np.full(rows, 0.5)},
    }[kind]
    run = diagnose(run_of("trl", columns), settings=DiagnosisSettings(group_size=8, prompts_per_step=8))
    for draw in DRAWS:
        for given in (run, run.facts):
            ax = draw(given)
            ax.figure.canvas.draw()
    if rows == 5:
        draw_run(run, tmp_path / "a.svg")
        assert (tmp_path / "a.svg").stat().st_size > 1000


def test_why_nothing_is_drawn_is_said() -> None:
    run = diagnose(RunLog(steps=np.arange(9), metrics={"reward": np.ones(9)}, format="table", source="x", tool="trl"))
    for draw in DRAWS:
        ax = draw(run)
        said = " ".join(text.get_text() for text in ax.texts).replace("\n", " ")
        assert "frac_reward_zero_std is not in the log" in said


def test_something_else_is_refused() -> None:
    for draw in DRAWS:
        with pytest.raises(DomainError, match=r"run must be a diagnosis, its facts or a log; got list\."):
            draw([1])  # type: ignore[arg-type]


def test_a_picture_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="cannot be written"):
        draw_run(composed_run(), tmp_path / "no" / "a.png")


def test_one_row_is_a_marker_with_limits_over_its_own_step() -> None:
    run = diagnose(
        run_of("trl", {"dead": np.array([0.5]), "reward": np.array([0.4])}),
        settings=DiagnosisSettings(group_size=8, prompts_per_step=32),
    )
    for draw in DRAWS:
        ax = draw(run)
        assert [text.get_text() for text in ax.get_xticklabels()] == ["1"]
    ax = plot_dead_against_plan(run)
    assert labels(ax) == ["the row", "95% limits"]
    assert next(line for line in ax.get_lines() if line.get_label() == "the row").get_markersize() > 5


def test_bounded_rows_are_strokes_between_two_lines_of_limits() -> None:
    rows = 200
    run = diagnose(
        run_of("trl", {"dead": np.zeros(rows), "num_gen_batches": np.full(rows, 3.0), "reward": np.full(rows, 0.5)}),
        settings=DiagnosisSettings(group_size=8, prompts_per_step=8),
    )
    dead = run.facts.dead
    assert isinstance(dead, Measured)
    assert not dead.exact
    ax = plot_dead_against_plan(run)
    assert labels(ax) == ["rows: mean range", "95% limits over 20 rows"]
    assert not areas(ax)


def test_a_layer_that_rounding_left_is_not_in_the_legend() -> None:
    ax = plot_composition(diagnose(composed(np.full(20, 0.25), np.full(20, 0.2501))))
    assert "dead otherwise" not in labels(ax)
