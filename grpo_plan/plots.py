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

from grpo_plan._files import write_whole
from grpo_plan._validate import as_count, as_level
from grpo_plan.batches import RefillAt, refill
from grpo_plan.batches.waiting import EndlessPrompts
from grpo_plan.errors import DomainError
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates.discrete import DiscretePassRates

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
STRIDE = 4
CURVE_POINTS = 160
ROOM_BELOW = 0.12  # for the number of rounds, as a share of the height
ROOM_FOR_WORDS, ROOM_FOR_NUMBER = 0.12, 0.03  # shares of the width
ONE_ATOM = 0.012  # radians of arcsin sqrt p: three steps of the grid


def plot_dead_fraction(
    fit: PassRateFit, ax: Axes | None = None, *, max_group_size: int = 64, level: float = 0.95
) -> Axes:
    """Dead fraction against group size with its limits, and the two formulas people use.

    Args:
        fit: A fitted pilot.
        ax: Where to draw; a new figure if None.
        max_group_size: Largest G, at least 4.
        level: Level of the limits.

    Returns:
        The axes.
    """
    fit.require_all_groups("This picture")
    ax = _axes(ax)
    largest, level = as_count(max_group_size, "max_group_size", minimum=4), as_level(level)
    sizes = _sizes(largest)
    dead = [fit.dead(g, level) for g in sizes]
    every = np.array(sizes)
    low, high = np.array([d.interval for d in dead]).T
    shown = f"{100 * level:.6g}% interval"
    ax.fill_between(every, low, high, color=BLUE, alpha=0.22, lw=0, label=shown)
    known = [d for d in dead if d.value is not None]
    if known:
        _draw_values(ax, fit, known, largest)
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


def _draw_values(ax: Axes, fit: PassRateFit, dead: list[DeadFraction], largest: int) -> None:
    """Estimates: measured points up to n, a dashed curve beyond, the identified range, and the all-fail part."""
    x = np.array([d.group_size for d in dead])
    fails = np.array([d.all_fail for d in dead], dtype=np.float64)
    values = np.array([d.value for d in dead], dtype=np.float64)
    limit, counted = fit.max_measured_group_size, fit.max_counted_group_size
    ax.plot(x, fails, color=GREY, lw=1.0, ls=(0, (1, 1)), label="all-fail part")
    measured = x <= counted if fit.family == "auto" else x < 0
    if measured.any():
        ax.plot(
            x[measured], values[measured], "o-", ms=4, color=INK, lw=1.2, label="measured (subgroup counts)", zorder=5
        )
    outside = x >= counted if fit.family == "auto" else x > 0
    if outside.sum() > 1:
        ax.plot(
            x[outside], values[outside], color=INK, lw=1.4, ls=(0, (4, 2)), label=f"estimate ({fit.family})", zorder=4
        )
    beyond = [d for d in dead if d.group_size > limit][::STRIDE] + dead[-1:]  # each costs two linear programs
    if dead[-1].group_size > limit:
        ranges = [(d.group_size, *d.identified) for d in beyond if d.identified is not None]
        if ranges:
            ax.fill_between(
                *np.array(ranges).T, facecolor="none", edgecolor=INK, alpha=0.55, hatch="////", lw=0,
                label=f"left open by n = {limit} for ever",
            )  # fmt: skip


def plot_pass_rates(fit: PassRateFit, ax: Axes | None = None) -> Axes:
    """Observed pass rates of the pilot, what the smooth fit expects, and the nonparametric fit's atoms.

    Args:
        fit: A fitted pilot.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    fit.require_all_groups("This picture")
    ax = _axes(ax)
    pilot, rates = fit.pilot, fit.smooth_rates
    n = int(pilot.rollouts.max())
    same = int(pilot.rollouts.min()) == n and n < MAX_BARS
    bins = n + 1 if same else 21
    width = 1.0 / (bins - 1)
    places = np.rint(pilot.successes / pilot.rollouts * (bins - 1)).astype(int)
    observed = np.bincount(places, weights=pilot.prompt_count, minlength=bins)
    x = np.arange(bins) * width
    ax.bar(
        x,
        observed / pilot.prompts,
        width=0.86 * width,
        color=SKY,
        label=f"observed k/n ({pilot.prompts:,} prompts)",
    )
    top = float(max(observed.max() / pilot.prompts, 0.05))
    if FitStatus.SINGLE_ROLLOUT not in fit.statuses:
        if same and n > 1:
            ax.plot(x, rates.group_pmf(n), "o", ms=4, color=INK, label="expected by the smooth fit")
        if rates.masses.size > 2:
            p, q = rates.passing, rates.failing
            inside = (p > width / 6) & (q > width / 6)
            logit = np.log(p[inside] / q[inside])
            density = rates.masses[inside] / np.gradient(logit) / (p[inside] * q[inside])
            ax.plot(p[inside], density * width, color=BLUE, lw=1.6, label="smooth density of the pass rate, scaled")
        atoms, masses = _atoms(fit.nonparametric)
        ax.vlines(atoms, 0.0, masses, color=VERMILION, lw=1.4)
        ax.plot(atoms, masses, "D", ms=4, mfc="white", color=VERMILION, label="atoms of the nonparametric fit")
        top = max(top, float(masses.max()))
    ax.set(xlim=(-0.7 * width, 1 + 0.7 * width), xlabel="pass rate of a prompt", ylabel="share of prompts")
    ax.set_ylim(0, 1.18 * top)
    ax.set_title("Prompts differ")
    _legend(ax, "upper center")  # pass rates pile up at the ends
    return ax


def plot_refill(
    fit: PassRateFit,
    ax: Axes | None = None,
    *,
    prompts_per_step: int,
    group_size: int,
    max_rounds: int = 4,
    level: float = 0.95,
) -> Axes:
    """Prompts that a refilled step draws against its generation batch, both per mixed group wanted.

    Args:
        fit: A fitted pilot.
        ax: Where to draw; a new figure if None.
        prompts_per_step: Mixed groups wanted in a step, N.
        group_size: Rollouts per prompt, G.
        max_rounds: Rounds of the smallest generation batch shown, about; at least 2.
        level: Level of the limits of the dead fraction.

    Returns:
        The axes.

    Raises:
        InfeasiblePlanError: No group can be mixed.
    """
    ax = _axes(ax)
    most, n = as_count(max_rounds, "max_rounds", minimum=2), prompts_per_step
    first = refill(fit, prompts_per_step=n, group_size=group_size, level=level)
    single, high = first.at_value.one_by_one, first.at_high
    last = single.p95 if high is None else min(high.one_by_one.p95, 2.0 * single.p95)
    sizes = sorted({max(1, round(b)) for b in np.linspace(single.mean / most, 1.3 * last, CURVE_POINTS)})
    x = np.array(sizes) / n
    drawn = _drawn(first.at_value, n, sizes)
    if high is not None:
        ends = _drawn(first.at_low, n, sizes), _drawn(high, n, sizes)
        ax.fill_between(x, *ends, color=BLUE, alpha=0.22, lw=0, label=f"D at its {100 * level:.6g}% limits")
    ax.plot(x, drawn, color=INK, lw=1.6, label="drawn in generation batches (mean)")
    ax.axhline(single.mean / n, color=VERMILION, lw=1.4, ls="--", label="drawn one at a time: 1 / (1 - D)")
    top = 1.45 * float(drawn.max())
    ax.set_ylim(single.mean / n - ROOM_BELOW * (top - single.mean / n), top)
    rounds = np.ceil(single.p95 / np.array(sizes))
    _mark_rounds(ax, x, rounds)
    ax.set(
        xlim=(x[0], x[-1]),
        xlabel=f"generation batch over the {n:,} mixed group{'' if n == 1 else 's'} wanted",
        ylabel="prompts drawn per mixed group used",
    )
    ax.set_title(f"Refill of groups of {group_size}: what a step draws")
    _legend(ax)
    return ax


def _drawn(at: RefillAt, wanted: int, sizes: list[int]) -> Floats:
    law = EndlessPrompts(wanted=wanted, dead=at.dead_fraction)
    return np.array([law.rounds(size).prompts_mean for size in sizes]) / wanted


def _mark_rounds(ax: Axes, x: Floats, rounds: Floats) -> None:
    """Where one more round is needed in 95 % of steps, with the number of rounds between."""
    edges = np.flatnonzero(np.diff(rounds)) + 1
    bottom = ax.get_ylim()[0]
    for start, stop in zip([0, *edges], [*edges, x.size], strict=True):
        if start:
            ax.axvline(x[start], color=GREY, lw=0.8, ls=":")
        count = int(rounds[start])
        words = f"{count} round{'' if count == 1 else 's'}"
        wide = (x[stop - 1] - x[start]) / (x[-1] - x[0])
        text = words if wide > ROOM_FOR_WORDS else str(count) if wide > ROOM_FOR_NUMBER else ""
        middle = 0.5 * (x[start] + x[stop - 1])
        ax.annotate(text, (middle, bottom), (0, 4), textcoords="offset points", color=GREY, fontsize=7, ha="center")


def _atoms(rates: DiscretePassRates) -> tuple[Floats, Floats]:
    """Atoms with the mass that the grid splits between neighbours put together."""
    angle = np.arcsin(np.sqrt(rates.passing))
    group = np.concatenate([[0], np.cumsum(np.diff(angle) > ONE_ATOM)])
    first = np.flatnonzero(np.diff(group, prepend=-1))
    masses = np.add.reduceat(rates.masses, first)
    return np.add.reduceat(rates.masses * rates.passing, first) / masses, masses


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
        write_whole(path, picture.getvalue())
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
