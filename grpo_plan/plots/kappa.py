"""Picture of a measurement of kappa: squared norms of group gradients on their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.planning.kappa import KappaMeasurement, KappaStatus, Measured
from grpo_plan.plots.parts import percent
from grpo_plan.plots.style import BLUE, GREY, SMALL, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_kappa(measurement: KappaMeasurement, ax: Axes | None = None) -> Axes:
    """Mean squared norm of one group's gradient against 1/(G-1): the intercept is contrast, the slope is noise.

    Args:
        measurement: What `measure_kappa` or a probe returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Bars are intervals of the means over prompts; the mark at 0 is the intercept with its own.
    """
    require(measurement, KappaMeasurement, "measurement", "Take one of measure_kappa({4: norms, 16: norms}).")
    from scipy.special import stdtrit

    m = measurement
    x = 1.0 / (np.array(m.group_sizes, dtype=np.float64) - 1.0)
    means = np.array(m.mean_squared_norms)
    with canvas(ax) as axes:
        if m.prompts > 1:
            reach = float(stdtrit(m.prompts - 1, 0.5 + m.level / 2.0))
            errors = reach * m.squared_norms.std(axis=0, ddof=1) / np.sqrt(m.prompts)
            axes.vlines(x, means - errors, means + errors, color=BLUE, lw=1.6, label="_mean squared norm: interval")
        axes.plot(x, means, "o", color=BLUE, ms=6, label="_mean squared norm")
        start, slope = m.intercept.value or 0.0, m.slope.value or 0.0
        ends = np.array([0.0, 1.15 * x.max()])
        axes.plot(ends, start + slope * ends, color=BLUE, ls="--", lw=1.2, label="_line")
        axes.plot([0.0], [start], "D", color=VERMILION, ms=6, mfc="white", clip_on=False, label="_intercept")
        if m.intercept.high is not None:
            ends_of = m.intercept.low, m.intercept.high
            axes.vlines([0.0], *ends_of, color=VERMILION, lw=1.6, clip_on=False, label="_intercept: interval")
        for at, height, g in zip(x, means, m.group_sizes, strict=True):
            axes.annotate(f"G = {g}", (at, height), (6, -10), textcoords="offset points", fontsize=SMALL, color=GREY)
        axes.set_xlim(0.0, ends[1])
        axes.set_ylim(min(0.0, float(axes.get_ylim()[0])), None)
        axes.set_xlabel("1 / (G - 1)")
        axes.set_ylabel("mean squared norm of a group's gradient")
        kappa = "unknown (needs 0/1 rewards or a pilot)" if m.kappa is None else _said(m.kappa)
        status = "" if m.status is KappaStatus.OK else f" {m.status.name}: {m.status.sentence}"
        titled(
            axes,
            f"Best G: {_said(m.group_size())}",
            f"where a prompt costs nothing; kappa {kappa}, {percent(m.level)} intervals, {m.prompts:,} prompts."
            f"{status}",
        )
    return axes


def _said(found: Measured) -> str:
    value = "unknown" if found.value is None else f"{found.value:.3g}"
    return f"{value} [{found.low:.3g}, {'no limit' if found.high is None else f'{found.high:.3g}'}]"
