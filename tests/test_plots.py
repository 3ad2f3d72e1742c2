"""Pictures: what is drawn is the data; every kind of pilot can be drawn; committed figure data are fresh."""

from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.container import BarContainer

from figures import dead_fraction, passk_picture, plan, refill
from figures import run as run_figure
from grpo_plan.batches import refill as plan_refill
from grpo_plan.costs import Budget, CostModel
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning import plan_group_size
from grpo_plan.plots import (
    draw_pilot,
    draw_plan,
    plot_dead_fraction,
    plot_effective_batch,
    plot_frontier,
    plot_pass_rates,
    plot_refill,
)
from tests.conftest import ROOT, pilot_of

pytestmark = pytest.mark.usefixtures("equal_pilots_share")


def test_dead_fraction_is_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    figure, ax = plt.subplots()
    assert plot_dead_fraction(example_fit, ax, max_group_size=32) is ax
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    iid = lines["i.i.d. formula (too low)"]
    x, y = np.asarray(iid.get_xdata()), np.asarray(iid.get_ydata())
    assert y[list(x).index(8)] == pytest.approx(example_fit.dead(8).iid)
    points = np.asarray(lines["measured (subgroup counts)"].get_xydata())
    assert points[:, 0].tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert points[-1, 1] == pytest.approx(example_fit.dead(8).value)
    beyond = np.asarray(lines["estimate (auto)"].get_xydata())
    assert beyond[0].tolist() == points[-1].tolist()
    assert beyond[-1] == pytest.approx((32, example_fit.dead(32).value))
    assert ax.get_xscale() == "log"
    bands = {str(band.get_label()): band for band in ax.collections}
    for label, (low, high) in {
        "95% interval": example_fit.dead(32).interval,
        "left open by n = 8 for ever": example_fit.dead(32).identified or (0.0, 0.0),
    }.items():
        corners = np.asarray(bands[label].get_paths()[0].vertices)
        at_end = corners[corners[:, 0] == 32][:, 1]
        assert (at_end.min(), at_end.max()) == pytest.approx((low, high))
    plt.close(figure)


def test_pass_rates_are_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    figure, ax = plt.subplots()
    assert plot_pass_rates(example_fit, ax) is ax
    (bars,) = [c for c in ax.containers if isinstance(c, BarContainer)]
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx(np.array([439, 151, 103, 91, 73, 76, 88, 96, 92]) / 1209)
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    expected = np.asarray(lines["expected by the smooth fit"].get_ydata())
    assert expected == pytest.approx(example_fit.smooth_rates.group_pmf(8))
    atoms = np.asarray(lines["atoms of the nonparametric fit"].get_xydata())
    assert len(atoms) == 4
    assert atoms[:, 1].sum() == pytest.approx(1.0)
    assert atoms[:, 0] @ atoms[:, 1] == pytest.approx(example_fit.mean_pass_rate, abs=1e-3)
    plt.close(figure)


@pytest.mark.parametrize(
    "pilot",
    [
        pytest.param(pilot_of((50, 0, 0)), id="nothing passes"),
        pytest.param(pilot_of((0, 0, 50)), id="nothing fails"),
        pytest.param(pilot_of((20, 0, 0, 20)), id="all dead"),
        pytest.param(pilot_of((20, 30)), id="one rollout each"),
        pytest.param(pilot_of((0, 0, 1, 0)), id="one prompt"),
        pytest.param(pilot_of((0, 0, 0, 0, 40, 0, 0, 0, 0)), id="no spread"),
        pytest.param(Pilot.from_counts([1, 50, 300], [3, 100, 1000]), id="unequal n"),
    ],
)
def test_odd_pilots_can_be_drawn(pilot: Pilot, tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    draw_pilot(fit_pass_rates(pilot), path)
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize("kind", ["dead", "pass-rates", "observed", "compare"])
def test_one_kind_can_be_drawn(example_fit: PassRateFit, kind: str, tmp_path: Path) -> None:
    draw_pilot(example_fit, tmp_path / "p.svg", kind=kind)
    titles = {
        "dead": "Dead groups",
        "pass-rates": "prompts, fitted",
        "observed": "as observed",
        "compare": "usual estimates",
    }
    text = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert [k for k, title in titles.items() if title in text] == [kind]


def test_too_small_a_range_is_refused(example_fit: PassRateFit) -> None:
    with pytest.raises(DomainError, match="max_group_size must be at least 4; got 2"):
        plot_dead_fraction(example_fit, max_group_size=2)


def test_refill_is_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    figure, ax = plt.subplots()
    assert plot_refill(example_fit, ax, prompts_per_step=128, group_size=8) is ax
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    curve = np.asarray(lines["drawn in generation batches (mean)"].get_xydata())
    for x, y in curve[[0, 60, -1]]:
        plan = plan_refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=round(128 * x))
        assert y == pytest.approx(plan.at_value.prompts.mean / 128)
    (level,) = set(np.asarray(lines["drawn one at a time: 1 / (1 - D)"].get_ydata()))
    assert level == pytest.approx(1 / (1 - 0.4392), rel=1e-4)
    assert np.all(curve[:, 1] > level)
    (band,) = ax.collections
    corners = np.asarray(band.get_paths()[0].vertices)
    ends = corners[corners[:, 0] == curve[60, 0]][:, 1]
    plan = plan_refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=round(128 * curve[60, 0]))
    assert (ends.min(), ends.max()) == pytest.approx(plan.limits(lambda at: at.prompts.mean / 128))
    marks = [np.asarray(line.get_xdata())[0] for line in ax.get_lines() if line.get_linestyle() == ":"]
    one_round = plan.at_value.one_round_gen_batch_size
    assert max(marks) == min(x for x in curve[:, 0] if round(128 * x) >= one_round)
    assert {"1 round", "2 rounds", "3 rounds"} <= {t.get_text() for t in ax.texts}
    plt.close(figure)


def test_odd_refills_can_be_drawn() -> None:
    for pilot, wanted in ((pilot_of((60, 1, 0, 0)), 4), (pilot_of((0, 0, 60, 0, 0)), 1)):
        ax = plot_refill(fit_pass_rates(pilot), prompts_per_step=wanted, group_size=3)
        assert ax.get_lines()
    unbounded = fit_pass_rates(pilot_of((60, 1, 0, 0, 0, 0, 0, 0, 0)))
    assert not plot_refill(unbounded, prompts_per_step=4, group_size=2, level=1 - 1e-12).collections
    with pytest.raises(InfeasiblePlanError, match="No refill can be planned"):
        plot_refill(fit_pass_rates(pilot_of((30, 0, 0))), prompts_per_step=4, group_size=2)
    with pytest.raises(DomainError, match="max_rounds must be at least 2; got 1"):
        plot_refill(unbounded, prompts_per_step=4, group_size=2, max_rounds=1)


@pytest.mark.parametrize("module", [dead_fraction, passk_picture, plan, refill, run_figure])
def test_the_data_of_the_pictures_are_fresh(module: ModuleType) -> None:
    name = module.__name__.split(".")[-1]
    with (ROOT / f"figures/{name}.csv").open(encoding="utf-8") as file:
        committed = list(csv.DictReader(file))
    rows = module.data()
    assert len(committed) == len(rows)
    for old, new in zip(committed, rows, strict=True):
        for key, value in new.items():
            if value is None:
                assert old[key] == ""
            else:
                assert float(old[key]) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("module", [dead_fraction, passk_picture, plan, refill, run_figure])
def test_the_pictures_can_be_drawn(module: ModuleType, tmp_path: Path) -> None:
    module.draw(module.data(), tmp_path / "p.svg")
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert picture.count("<path") > 20


# --- plans -------------------------------------------------------------------------------------------------------


def test_a_plan_is_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    from matplotlib.figure import Figure

    chosen = plan_group_size(example_fit, budget=Budget(rollouts=2_000_000, steps=500))
    left, right = Figure().subplots(1, 2)
    assert plot_frontier(chosen, left) is left
    lines = {line.get_label(): line for line in left.get_lines()}
    at = chosen.sensitivity[0]
    x, y = (np.asarray(v) for v in lines[f"kappa = {at.kappa:.3g}"].get_data())
    for size, cost in zip(x, y, strict=True):
        share = chosen.progress_at(next(p for p in chosen.frontier if p.design.group_size == size), at.kappa)
        assert cost == pytest.approx(1.0 / share)
    assert y.min() == 1.0
    assert plot_effective_batch(chosen, right) is right
    mean = next(line for line in right.get_lines() if line.get_label() == "mixed groups, mean")
    assert np.asarray(mean.get_ydata()) == pytest.approx([p.batch.mixed_groups.mean for p in chosen.frontier])


@pytest.mark.parametrize(
    "options",
    [
        {"group_sizes": [8]},
        {"kappa": 5.0, "group_sizes": [2, 3]},
        {"cost": CostModel(refill=True)},
        {"budget": Budget(prompts_per_step=1, steps=1), "group_sizes": [2, 512]},
    ],
)
def test_odd_plans_can_be_drawn(example_fit: PassRateFit, options: dict[str, Any], tmp_path: Path) -> None:
    chosen = plan_group_size(example_fit, **{"budget": Budget(rollouts=100_000, steps=100), **options})
    draw_plan(chosen, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    with pytest.raises(DomainError, match="plan must be a Plan"):
        plot_frontier("plan")  # type: ignore[arg-type]
