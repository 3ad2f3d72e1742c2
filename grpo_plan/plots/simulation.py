"""Pictures of simulated trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.plots.parts import Row, band, curve_labels, height_of, intervals, percent, share_axis
from grpo_plan.plots.style import BLUE, GREY, INK, VERMILION, canvas, titled
from grpo_plan.simulation import Simulation, SimulationComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = (
    ("held_out", "held out", BLUE, "-"),
    ("train", "trained on", INK, "-."),
    ("dead_now", "dead groups", VERMILION, "--"),
)


def plot_simulation(simulation: Simulation, ax: Axes | None = None) -> Axes:
    """Pass rates of trained and held-out prompts over a simulated training, and the dead fraction on the way.

    Args:
        simulation: What `simulate` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Bands are t intervals over seeds.
    """
    require(simulation, Simulation, "simulation", "Take one of simulate(fit).")
    steps, seeds = simulation.steps.astype(np.float64), len(simulation.seeds)
    with canvas(ax, width=6.0) as axes:
        names = []
        for field, name, colour, dash in CURVES:
            means = [simulation.at(field, i) for i in range(steps.size)]
            value, low, high = (
                np.array([np.nan if (v := getattr(m, end)) is None else v for m in means])
                for end in ("value", "low", "high")
            )
            if not np.isfinite(value).any():
                continue
            band(axes, steps, low, high, colour=colour, label=f"_{name}: interval")
            axes.plot(steps, value, color=colour, ls=dash, label=f"_{name}")
            names.append((float(value[np.isfinite(value)][-1]), name, colour))
        axes.set_xlim(steps.min(), max(steps.max(), steps.min() + 1))
        share_axis(axes, "share")
        axes.set_xlabel("step")
        curve_labels(axes, names)
        spread = "one seed: no interval" if seeds < 2 else f"bands: {percent(simulation.level)} over {seeds} seeds"
        size = simulation.training.group_size
        at = f"G = {size}" if isinstance(size, int) else "a schedule of G"
        titled(
            axes, f"Simulated training: {simulation.estimator}, {at}", f"a small model, not a language model; {spread}"
        )
    return axes


def plot_simulation_comparison(comparison: SimulationComparison, ax: Axes | None = None) -> Axes:
    """Final pass rate of each simulated training less that of the first, seed by seed.

    Args:
        comparison: What `compare_simulations` returned.
        ax: Where to draw; a new figure if None.
    """
    require(comparison, SimulationComparison, "comparison", "Take one of compare_simulations(fit).")
    rows = []
    for run in comparison.runs:
        name = f"{run.estimator}, G = {run.group_size}"
        if run.difference is None:
            rows.append(
                Row(name, 0.0, colour=GREY, marker="s", note=f"the first, ends at {run.final.value or 0.0:.3f}")
            )
        else:
            d = run.difference
            value = "unknown" if d.value is None else f"{d.value:+.2g}"
            rows.append(Row(name, d.value, d.low, d.high, BLUE, note=f"{value}: {run.verdict.value}"))
    with canvas(ax, width=6.4, height=height_of(len(rows)) + 0.2) as axes:
        intervals(axes, rows, zero=0.0)
        whose = "held-out" if comparison.measure == "held_out" else "trained"
        axes.set_xlabel(f"difference in final pass rate ({percent(comparison.level)} over seeds, all at once)")
        titled(axes, f"Simulated trainings on {whose} prompts", "a small model, not a language model")
    return axes
