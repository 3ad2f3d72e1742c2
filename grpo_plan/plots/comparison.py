"""Picture of the usual estimates of the dead fraction side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan.errors import DomainError
from grpo_plan.fitting.comparison import Comparison
from grpo_plan.fitting.status import FitStatus
from grpo_plan.plots.parts import band, curve_labels, log2_axis, percent, share_axis
from grpo_plan.plots.style import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ESTIMATES = (
    ("plug_in", "plug-in k/n", ORANGE, "-.", "s"),
    ("jeffreys", "posterior mean", PURPLE, (0, (1, 1)), "P"),
    ("beta", "one Beta", GREEN, (0, (6, 2)), "v"),
    ("iid", "i.i.d. formula", VERMILION, "--", "D"),
)


def plot_comparison(rows: Comparison | Sequence[Comparison], ax: Axes | None = None) -> Axes:
    """The usual estimates of D(G) and the default with its interval; what is far outside the band is wrong.

    Args:
        rows: What `compare_estimates` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Round filled marks are counts of subgroups, without bias; hollow ones the default beyond them.
    """
    several = list(rows) if isinstance(rows, Sequence) else [rows]
    if not several or not all(isinstance(row, Comparison) for row in several):
        raise DomainError("rows must be what compare_estimates(fit, [4, 8, 16]) returned.")
    several = sorted(several, key=lambda row: row.group_size)
    sizes = np.array([row.group_size for row in several])
    with canvas(ax, width=6.4) as axes:
        limits = np.array([row.default.interval for row in several])
        if sizes.size > 1:
            band(axes, sizes, *limits.T)
        axes.vlines(sizes, *limits.T, color=BLUE, lw=1.6, label="_this tool: interval")
        names = []
        for field, name, colour, dash, marker in ESTIMATES:
            values = np.array([np.nan if (v := getattr(row, field)) is None else v for row in several])
            if np.isfinite(values).any():
                axes.plot(sizes, values, color=colour, ls=dash, marker=marker, ms=4, lw=1.2, label=f"_{name}")
                names.append((float(values[np.isfinite(values)][-1]), name, colour))
        known = [
            (r.group_size, r.default.value, r.u_statistic is not None) for r in several if r.default.value is not None
        ]
        axes.plot([k[0] for k in known], [k[1] for k in known], color=INK, lw=1.4, label="_this tool")
        for counted, face in ((True, INK), (False, "white")):
            some = [k for k in known if k[2] is counted]
            name = f"_this tool, {'counted' if counted else 'beyond'}"
            axes.plot([k[0] for k in some], [k[1] for k in some], "o", color=INK, mfc=face, ms=6, zorder=5, label=name)
        if known:
            names.append((float(known[-1][1] or 0.0), "this tool", INK))
        log2_axis(axes, sizes, room=1.15)
        share_axis(axes, "share of dead groups")
        curve_labels(axes, names)
        last = several[-1].default
        grave = (
            ""
            if last.status in (FitStatus.OK, FitStatus.EXTRAPOLATED)
            else f" {last.status.name}: {last.status.sentence}"
        )
        titled(
            axes,
            "The usual estimates of D(G)",
            f"bars: {percent(last.level)} intervals, for any mix of pass rates.{grave}",
        )
    return axes
