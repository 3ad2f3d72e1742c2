"""Pictures of results: each function draws on a given axes and returns it. Matplotlib loads when used.

Colours are Okabe and Ito's, distinct for colour-blind readers; every line also differs in dash or marker, so that
the pictures read in grey.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_level
from grpo_plan.errors import DomainError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
INK, BLUE, VERMILION, ORANGE, SKY, GREY = "#1a1a1a", "#0072B2", "#D55E00", "#E69F00", "#9ecae8", "#6e6e6e"
STYLE: Any = {  # of type Any: matplotlib names every key in its own type
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "grpo-plan",
    "svg.fonttype": "none",
    "savefig.dpi": 160,
}
MAX_BARS = 64


def plot_dead_fraction(
    fit: PassRateFit, ax: Axes | None = None, *, max_group_size: int = 64, level: float = 0.95
) -> Axes:
    """Dead fraction against group size: measured points, the Beta curve, and the two formulas people use.

    Args:
        fit: A fitted pilot.
        ax: Where to draw; a new figure if None.
        max_group_size: Largest G, at least 4.
        level: Level of the error bars.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    largest, level = as_count(max_group_size, "max_group_size", minimum=4), as_level(level)
    sizes = _sizes(largest)
    dead = [fit.dead(g, level) for g in sizes]
    measured = [d for d in dead if d.method == "u-statistic"]
    known = [d for d in dead if d.value is not None]
    x = np.array([d.group_size for d in known])
    if known:
        fails, total = (np.array([getattr(d, part) for d in known]) for part in ("all_fail", "value"))
        ax.fill_between(x, 0, fails, color=SKY, alpha=0.75, lw=0, label="all-fail part")
        ax.fill_between(x, fails, total, facecolor="white", edgecolor=SKY, hatch="///", lw=0, label="all-pass part")
        curve, inside = fit.beta.rates.dead(x), x <= max(fit.max_measured_group_size, 2)
        ax.plot(x[inside], curve[inside], color=BLUE, lw=1.6, label="Beta fit (dashed: no interval yet)")
        outside = x >= fit.max_measured_group_size
        if outside.sum() > 1:
            ax.plot(x[outside], total[outside], color=BLUE, lw=1.6, ls=(0, (4, 2)))
    if measured:
        middle = np.array([d.value for d in measured])
        bars = np.abs(np.array([[d.low, d.high] for d in measured], dtype=np.float64).T - middle)
        ax.errorbar(
            [d.group_size for d in measured], middle, yerr=bars, fmt="o", ms=4, color=INK, capsize=2, lw=1,
            label=f"measured, {100 * level:.6g}% interval", zorder=5,
        )  # fmt: skip
    every = np.array(sizes)
    ax.plot(every, [d.plug_in for d in dead], color=ORANGE, lw=1.4, ls="-.", label="plug-in k/n (too high)")
    ax.plot(every, [d.iid for d in dead], color=VERMILION, lw=1.6, ls="--", label="i.i.d. formula (too low)")
    limit = fit.max_measured_group_size
    if 1 < limit < largest:
        ax.axvline(limit, color=GREY, lw=0.8, ls=":")
        ax.text(limit * 1.04, 1.0, f"pilot: n = {limit}", color=GREY, fontsize=7, va="top", rotation=90)
    ax.set_xscale("log", base=2)
    ticks = [2**i for i in range(1, 12) if 2**i <= largest]
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.minorticks_off()
    ax.set(
        xlim=(1.9, largest * 1.05),
        ylim=(0, 1.02),
        xlabel="group size G (rollouts per prompt)",
        ylabel="share of groups",
    )
    ax.set_title("Dead groups: all rewards agree")
    _legend(ax)
    return ax


def plot_pass_rates(fit: PassRateFit, ax: Axes | None = None) -> Axes:
    """Observed pass rates of the pilot, what the Beta fit expects of them, and its density.

    Args:
        fit: A fitted pilot.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    ax = _axes(ax)
    pilot, rates = fit.pilot, fit.beta.rates
    n = int(pilot.rollouts.max())
    same = int(pilot.rollouts.min()) == n and n < MAX_BARS
    bins = n + 1 if same else 21
    width = 1.0 / (bins - 1)
    observed = np.bincount(np.rint(pilot.successes / pilot.rollouts * (bins - 1)).astype(int), minlength=bins)
    x = np.arange(bins) * width
    ax.bar(
        x,
        observed / pilot.prompts,
        width=0.86 * width,
        color=SKY,
        label=f"observed k/n ({pilot.prompts:,} prompts)",
    )
    known = fit.beta.identified or FitStatus.SINGLE_ROLLOUT not in fit.statuses
    if same and known and n > 1:
        ax.plot(x, rates.group_pmf(n), "o", ms=4, color=INK, label="expected by the Beta fit")
    p = np.linspace(width / 6, 1.0 - width / 6, 400)
    density = rates.density(p)
    if density is not None and known:
        ax.plot(p, density * width, color=BLUE, lw=1.6, label="Beta density of the true pass rate, scaled")
    ax.set(xlim=(-0.7 * width, 1 + 0.7 * width), xlabel="pass rate of a prompt", ylabel="share of prompts")
    ax.set_ylim(0, 1.18 * float(max(observed.max() / pilot.prompts, 0.05)))
    shape = rates.shape
    fitted = f": Beta({shape[0]:.3g}, {shape[1]:.3g})" if shape and known else ""
    ax.set_title(f"Prompts differ{fitted}")
    _legend(ax, "upper center")  # pass rates pile up at the ends
    return ax


def draw_pilot(
    fit: PassRateFit, path: Path, *, kind: str = "both", max_group_size: int = 64, level: float = 0.95
) -> None:
    """Write a picture of a pilot: ``kind`` is ``"dead"``, ``"pass-rates"`` or ``"both"``."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = _figure(2 if kind == "both" else 1)
        axes = figure.axes
        if kind != "pass-rates":
            plot_dead_fraction(fit, axes[0], max_group_size=max_group_size, level=level)
        if kind != "dead":
            plot_pass_rates(fit, axes[-1])
        save_figure(figure, path)


def save_figure(figure: Figure, path: Path) -> None:
    """Save without a date or maker, so that the same data give the same file."""
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    picture = BytesIO()
    figure.savefig(picture, format=suffix.removeprefix("."), metadata=metadata)
    try:
        path.write_bytes(picture.getvalue())
    except OSError as error:
        raise DomainError(f"{path} cannot be written ({error.strerror}). Give another place.") from None


def _figure(panels: int) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.9 * panels if panels > 1 else 5.6, 3.6), layout="constrained")
    figure.subplots(1, panels)
    return figure


def _axes(ax: Axes | None) -> Axes:
    return _figure(1).axes[0] if ax is None else ax


def _legend(ax: Axes, place: Literal["upper right", "upper center"] = "upper right") -> None:
    """A legend that shrinks with the axes, down to 5 points."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    width, height = box.width / dpi, box.height / dpi
    size = float(np.clip(8.0 * min(width / 3.8, height / 2.6), 5.0, 8.0))
    ax.legend(loc=place, fontsize=size, frameon=False, labelspacing=0.4)


def _sizes(largest: int) -> list[int]:
    """Every size to 8, then about eight an octave."""
    octaves = np.log2(max(largest, 9) / 8)
    steps = np.geomspace(8, max(largest, 8), max(2, int(8 * octaves)))
    powers = [2**i for i in range(1, 12) if 2**i <= largest]
    return sorted({*range(2, min(largest, 8) + 1), *(round(s) for s in steps), *powers, largest})
