"""Pictures of a pilot and its fit: dead fraction against group size, and the pass rates of the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_level, require
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import Pilot
from grpo_plan.plots.comparison import plot_comparison
from grpo_plan.plots.parts import Row, band, height_of, intervals, log2_axis, percent, share_axis
from grpo_plan.plots.style import BLUE, GREY, INK, ORANGE, SKY, VERMILION, canvas, figure, save_figure, styled, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Place = Literal["upper right", "best", "lower left", "center right"]
HIGH_UP, HALF_UP = 0.9, 0.6  # heights of curves that are in the way of words
MAX_BARS = 64
STRIDE = 4
ONE_ATOM = 0.012  # radians of arcsin sqrt p: three steps of the grid
QUIET = (FitStatus.OK, FitStatus.EXTRAPOLATED)


def plot_pilot(pilot: Pilot, ax: Axes | None = None) -> Axes:
    """Observed pass rates of a pilot's prompts, as they were counted.

    Args:
        pilot: A pilot.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    require(pilot, Pilot, "pilot", "Read one first: read_pilot(...).")
    with canvas(ax) as axes:
        observed, width = _observed(axes, pilot)
        _pass_rate_axis(axes, width, float(observed.max()))
        n = {int(x) for x in (pilot.rollouts.min(), pilot.rollouts.max())}
        each = " to ".join(f"{x:,}" for x in sorted(n))
        agree = (pilot.successes == 0) | (pilot.successes == pilot.rollouts)
        share = float((pilot.prompts_per_row * agree).sum() / pilot.prompts)
        filtered = ", dead groups left out by the source" if pilot.filtered else ""
        titled(
            axes,
            "Pass rates of the prompts, as observed",
            f"{_prompts(pilot.prompts)} x {each} rollouts, mean pass rate {pilot.mean_pass_rate:.3f}; all rollouts of "
            f"{share:.0%} agree{filtered}",
        )
    return axes


def plot_dead(dead: DeadFraction, ax: Axes | None = None) -> Axes:
    """One dead fraction with its parts and limits, beside the formulas people use.

    Args:
        dead: What `PassRateFit.dead` returned.
        ax: Where to draw; a new figure if None.
    """
    require(dead, DeadFraction, "dead", "Take one from a fit: fit_pass_rates(pilot).dead(8).")
    with canvas(ax, height=height_of(5)) as axes:
        rows = [Row("dead", dead.value, dead.low, dead.high, INK)]
        for name, value, limits in (
            ("all-fail part", dead.all_fail, dead.all_fail_interval),
            ("all-pass part", dead.all_pass, dead.all_pass_interval),
        ):
            rows.append(Row(name, value, *limits, BLUE))
        rows.append(Row("plug-in k/n" + _judged([dead], [dead.plug_in]), dead.plug_in, colour=ORANGE, marker="s"))
        rows.append(Row("i.i.d. formula" + _judged([dead], [dead.iid]), dead.iid, colour=VERMILION, marker="D"))
        intervals(axes, rows, digits=".3f")
        axes.set_xlabel(f"share of groups ({percent(dead.level)} intervals)")
        titled(axes, f"Dead groups at G = {dead.group_size}", _said((dead.status,)))
    return axes


def _judged(dead: Sequence[DeadFraction], values: Sequence[float]) -> str:
    """Whether a formula lies outside the limits, always on one side; nothing where it does not."""
    below = any(value < d.low for d, value in zip(dead, values, strict=True))
    above = any(value > d.high for d, value in zip(dead, values, strict=True))
    if below == above:
        return ""
    return " (too low)" if below else " (too high)"


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
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    fit.require_all_groups("This picture")
    largest, level = as_count(max_group_size, "max_group_size", minimum=4), as_level(level)
    with canvas(ax) as axes:
        sizes = _sizes(largest)
        dead = [fit.dead(g, level) for g in sizes]
        every = np.array(sizes)
        low, high = np.array([d.interval for d in dead]).T
        band(axes, every, low, high, label=f"{percent(level)} interval")
        known = [d for d in dead if d.value is not None]
        if known:
            _draw_values(axes, fit, known, largest)
        for name, values, colour, dash in (
            ("plug-in k/n", [d.plug_in for d in dead], ORANGE, "-."),
            ("i.i.d. formula", [d.iid for d in dead], VERMILION, "--"),
        ):
            axes.plot(every, values, color=colour, ls=dash, label=name + _judged(dead, values))
        limit = fit.max_measured_group_size
        if 1 < limit < largest:
            axes.axvline(limit, color=GREY, lw=0.8, ls=":")
            crowded = max(d.high for d in dead if d.group_size >= limit) > HIGH_UP
            axes.text(
                limit / 1.04, 0.8 if crowded else 0.995, f"pilot: n = {limit}", color=GREY, fontsize=7, va="top",
                ha="right", bbox={"fc": "white", "ec": "none", "pad": 1.0, "alpha": 0.8},
            )  # fmt: skip
        log2_axis(axes, [2**i for i in range(1, 12) if 2**i <= largest], room=1.05)
        axes.set_xlim(1.9, largest * 1.06)
        share_axis(axes)
        titled(axes, "Dead groups: all rewards agree", _said(fit.statuses))
        right = [d for d in dead if d.group_size**2 > largest]
        _legend(axes, _free_place(right))
    return axes


def _free_place(dead: list[DeadFraction]) -> Place:
    """Where a legend covers least, from what is drawn in the right half."""
    if max(max(d.high, d.plug_in) for d in dead) < HALF_UP:
        return "upper right"
    return "lower left" if min(d.iid for d in dead) > HALF_UP else "center right"


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
        ax.plot(x[outside], values[outside], color=INK, ls=(0, (4, 2)), label=f"estimate ({fit.family})", zorder=4)
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
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    fit.require_all_groups("This picture")
    pilot = fit.pilot
    with canvas(ax) as axes:
        observed, width = _observed(axes, pilot)
        top = max(float(observed.max()), 0.05)
        if FitStatus.SINGLE_ROLLOUT not in fit.statuses:
            top = max(top, _draw_fits(axes, fit, width))
        _pass_rate_axis(axes, width, top)
        titled(
            axes,
            "Pass rates of the prompts, fitted" if pilot.prompts > 1 else "Pass rate of one prompt",
            _said(fit.statuses),
        )
        _legend(axes, "best")
    return axes


def _draw_fits(ax: Axes, fit: PassRateFit, width: float) -> float:
    """The smooth fit and the atoms; the height that they need."""
    pilot, rates = fit.pilot, fit.smooth_rates
    n = int(pilot.rollouts.max())
    if int(pilot.rollouts.min()) == n and 1 < n < MAX_BARS:
        x = np.arange(n + 1) * width
        ax.plot(x, rates.group_pmf(n), "o", ms=4, color=INK, label="expected by the smooth fit")
    if rates.masses.size > 2:
        p, q = rates.passing, rates.failing
        inside = (p > width / 6) & (q > width / 6)
        logit = np.log(p[inside] / q[inside])
        density = rates.masses[inside] / np.gradient(logit) / (p[inside] * q[inside])
        ax.plot(p[inside], density * width, color=BLUE, label="smooth density of the pass rate, scaled")
    atoms, masses = _atoms(fit.nonparametric)
    ax.vlines(atoms, 0.0, masses, color=VERMILION, lw=1.4, label="_stems of the atoms")
    ax.plot(atoms, masses, "D", ms=4, mfc="white", color=VERMILION, label="atoms of the nonparametric fit")
    return float(masses.max())


def _observed(ax: Axes, pilot: Pilot) -> tuple[Floats, float]:
    """Bars of the observed rates; their heights and the distance between them."""
    n = int(pilot.rollouts.max())
    same = int(pilot.rollouts.min()) == n and n < MAX_BARS
    bins = n + 1 if same else 21
    width = 1.0 / (bins - 1)
    places = np.rint(pilot.successes / pilot.rollouts * (bins - 1)).astype(int)
    observed: Floats = np.bincount(places, weights=pilot.prompts_per_row, minlength=bins) / pilot.prompts
    label = f"observed k/n ({_prompts(pilot.prompts)})"
    ax.bar(np.arange(bins) * width, observed, width=0.86 * width, color=SKY, label=label)
    return observed, width


def _pass_rate_axis(ax: Axes, width: float, top: float) -> None:
    ax.set(xlim=(-0.7 * width, 1 + 0.7 * width), xlabel="pass rate of a prompt", ylabel="share of prompts")
    ax.set_ylim(0, 1.12 * max(top, 0.05))


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
    """Write a picture of a pilot.

    Args:
        fit: A fitted pilot.
        path: Where to; the suffix decides the kind of file.
        kind: ``"dead"``, ``"pass-rates"``, ``"both"``, ``"observed"`` or ``"compare"``.
        max_group_size: Largest G shown.
        level: Level of the limits.
    """
    with styled():
        made = figure(2 if kind == "both" else 1, width=6.4 if kind == "compare" else None)
        axes = made.axes
        if kind in ("both", "dead"):
            plot_dead_fraction(fit, axes[0], max_group_size=max_group_size, level=level)
        if kind in ("both", "pass-rates"):
            plot_pass_rates(fit, axes[-1])
        if kind == "observed":
            plot_pilot(fit.pilot, axes[0])
        if kind == "compare":
            sizes = [2**i for i in range(1, 31) if 2**i <= max_group_size]
            plot_comparison(compare_estimates(fit, sizes, level), axes[0])
        save_figure(made, path)


def _prompts(count: int) -> str:
    return f"{count:,} prompt{'' if count == 1 else 's'}"


def _said(statuses: tuple[FitStatus, ...]) -> str:
    """The gravest status in words, where it says more than that all is well."""
    grave = [s for s in statuses if s not in QUIET]
    return f"{grave[0].name}: {grave[0].sentence}" if grave else ""


def _legend(ax: Axes, place: Place) -> None:
    """A legend that shrinks with the axes, down to 5 points."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    width, height = box.width / dpi, box.height / dpi
    size = float(np.clip(8.0 * min(width / 3.8, height / 2.6), 5.0, 8.0))
    ax.legend(loc=place, fontsize=size)


def _sizes(largest: int) -> list[int]:
    """Every size to 8, then about eight an octave."""
    octaves = np.log2(max(largest, 9) / 8)
    steps = np.geomspace(8, max(largest, 8), max(2, int(8 * octaves)))
    powers = [2**i for i in range(1, 12) if 2**i <= largest]
    return sorted({*range(2, min(largest, 8) + 1), *(round(s) for s in steps), *powers, largest})
