"""Pictures of what a log tells beyond its rows: a forecast, pass rates recovered from aggregates, an expectation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import as_count, require
from grpo_plan.errors import DomainError
from grpo_plan.plots.parts import (
    Row,
    band,
    height_of,
    intervals,
    log2_axis,
    nothing,
    percent,
    share_axis,
    whole_numbers,
)
from grpo_plan.plots.style import BLUE, GREY, INK, VERMILION, canvas, titled
from grpo_plan.runs.composition import CompositionBounds
from grpo_plan.runs.expectation import Expectation
from grpo_plan.runs.forecast import Forecast, ForecastStatus
from grpo_plan.runs.recovered import Recovered, RecoveredShare
from grpo_plan.runs.recovered_steps import RecoveredSteps
from grpo_plan.runs.recovery_status import RecoveryStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER_SIZES = (2, 4, 8, 16, 32, 64)


def plot_forecast(forecast: Forecast, ax: Axes | None = None, *, what: str = "share of groups") -> Axes:
    """Where a share is heading: the band of the rows to come, its limit, and when it passes.

    Args:
        forecast: What `forecast` returned.
        ax: Where to draw; a new figure if None.
        what: Name of the share, for the axis.
    """
    require(forecast, Forecast, "forecast", "Take one of forecast(steps, values, limit).")
    with canvas(ax) as axes:
        chance = "unknown" if forecast.chance is None else f"{forecast.chance:.0%}"
        horizon = f"{forecast.horizon_steps:,.6g} steps"
        titled(axes, f"Chance to pass {forecast.limit:g} within {horizon}: {chance}", forecast.status.sentence)
        if not forecast.steps.size:
            return nothing(axes, forecast.status.sentence)
        x = forecast.steps
        band(axes, x, forecast.low, forecast.high, label=f"{percent(forecast.level)} of a row's share")
        axes.plot(x, forecast.mid, color=BLUE, label="median")
        axes.axhline(forecast.limit, color=VERMILION, ls="--", label=f"limit {forecast.limit:g}")
        if forecast.crossing is not None and forecast.status is not ForecastStatus.ALREADY_BEYOND:
            axes.axvline(forecast.crossing, color=INK, lw=1.0, ls=":", label=f"passed by step {forecast.crossing:,.6g}")
        low = min(float(forecast.low.min()), forecast.limit)
        high = max(float(forecast.high.max()), forecast.limit)
        room = 0.1 * max(high - low, 0.02)
        axes.set_ylim(max(low - room, -0.02), min(high + 4.0 * room, 1.02 + 4.0 * room))
        axes.set(xlabel="training step", ylabel=what)
        axes.legend(loc="upper left", ncols=2)
    return axes


def plot_recovered(recovered: Recovered, ax: Axes | None = None, *, group_sizes: Iterable[int] = OTHER_SIZES) -> Axes:
    """Dead fraction at other group sizes, recovered from aggregates, with the range that these leave open.

    Args:
        recovered: What `recover` returned.
        ax: Where to draw; a new figure if None.
        group_sizes: G' to show, each at least 2.
    """
    require(recovered, Recovered, "recovered", "Take one of recover(group_size, mean=..., dead=...).")
    wanted = sorted({as_count(g, "group_size", minimum=2) for g in (*group_sizes, max(2, recovered.group_size))})
    found = [recovered.dead(g) for g in wanted]
    with canvas(ax) as axes:
        status = recovered.status
        said = recovered.range_means if status is RecoveryStatus.OK else f"{status.name}: {status.sentence}"
        band(axes, wanted, [f.low for f in found], [f.high for f in found], label="range of all that fit")
        known = [(f.group_size, f.value) for f in found if f.value is not None]
        if known:
            axes.plot([k[0] for k in known], [k[1] for k in known], "o--", color=BLUE, label="if pass rates are a Beta")
        axes.axvline(
            recovered.group_size, color=GREY, lw=0.9, ls=":", label=f"logged: groups of {recovered.group_size}"
        )
        for aggregate in recovered.known:
            if aggregate.name == "dead":
                at = [recovered.group_size], [aggregate.value]
                axes.plot(*at, "D", color=INK, mfc="white", ms=7, zorder=5, label="logged dead fraction")
        log2_axis(axes, wanted)
        share_axis(axes, "dead fraction")
        axes.legend(loc="upper right")
        titled(axes, "Dead groups at other group sizes", said)
    return axes


def plot_recovered_share(share: RecoveredShare, ax: Axes | None = None) -> Axes:
    """One recovered share with its range.

    Args:
        share: What `Recovered.dead` and its like return.
        ax: Where to draw; a new figure if None.
    """
    require(share, RecoveredShare, "share", "Take one of recover(...).dead(16).")
    with canvas(ax, height=height_of(1)) as axes:
        intervals(
            axes, [Row(f"{share.name}, G = {share.group_size}", share.value, share.low, share.high)], digits=".3f"
        )
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("share of groups (bar: range of all that fit)")
        titled(axes, f"Recovered share of {share.name} groups", f"{share.status.name}: {share.status.sentence}")
    return axes


def plot_recovered_steps(recovered: RecoveredSteps, ax: Axes | None = None, *, group_size: int | None = None) -> Axes:
    """Dead fraction at one other group size over the steps of a run.

    Args:
        recovered: What `recover_steps` returned.
        ax: Where to draw; a new figure if None.
        group_size: One of `sizes`; the first if None.
    """
    require(recovered, RecoveredSteps, "recovered", "Take one of recover_steps(mean, dead, group_size, sizes).")
    size = recovered.sizes[0] if group_size is None else group_size
    if size not in recovered.sizes:
        raise DomainError(f"group_size must be one of {', '.join(map(str, recovered.sizes))}; got {size!r}.")
    column = recovered.sizes.index(size)
    low, high, value = (a[:, column] for a in (recovered.low, recovered.high, recovered.value))
    x = np.arange(low.size)
    with canvas(ax) as axes:
        titled(
            axes,
            f"Dead groups if groups were of {size} (logged: {recovered.group_size})",
            "line: pass rates of a step taken as a Beta; band: all that fit",
        )
        if not np.isfinite(low).any():
            return nothing(axes, "No row has both a mean reward and a dead fraction.")
        if low.size == 1:
            axes.vlines(x, low, high, color=BLUE, lw=6, alpha=0.3)
        band(axes, x, low, high, label="_range")
        axes.plot(x, value, "o-" if low.size <= 60 else "-", color=BLUE, ms=3, label="_value")
        share_axis(axes, "dead fraction")
        axes.set_xlabel("row of the log")
    return axes


def plot_composition_bounds(bounds: CompositionBounds, ax: Axes | None = None) -> Axes:
    """What mean reward and dead fraction leave open for the shares of all-pass and all-fail groups, row by row.

    Args:
        bounds: What `composition_bounds` returned.
        ax: Where to draw; a new figure if None.
    """
    require(bounds, CompositionBounds, "bounds", "Take one of composition_bounds(mean, dead, group_size).")
    parts = (
        ("all-fail", bounds.fail_low, bounds.fail_high, VERMILION, -0.12),
        ("all-pass", bounds.pass_low, bounds.pass_high, BLUE, 0.12),
    )
    with canvas(ax) as axes:
        broken = int(np.atleast_1d(bounds.inconsistent).sum())
        said = (
            f"{broken:,} rows contradict themselves: rewards are not 0 or 1"
            if broken
            else "bars hold the share for sure"
        )
        titled(axes, "All-fail and all-pass groups", said)
        if not any(np.isfinite(low).any() for _, low, _, _, _ in parts):
            return nothing(axes, "No row has bounds.")
        for name, low, high, colour, shift in parts:
            floor, ceiling = np.atleast_1d(low).ravel(), np.atleast_1d(high).ravel()
            x = np.arange(floor.size) + shift
            axes.vlines(x, floor, ceiling, color=colour, lw=3.0 if floor.size <= 60 else 1.0, alpha=0.7, label=name)
            tight = floor == ceiling
            axes.plot(x[tight], floor[tight], "o", color=colour, ms=4)
        share_axis(axes, "share of groups")
        whole_numbers(axes)
        axes.set_xlabel("row of the log")
        axes.legend(loc="upper right", ncols=2)
    return axes


def plot_expectation(expectation: Expectation, ax: Axes | None = None) -> Axes:
    """What a plan or fit expects of a run: dead, all-fail and all-pass shares at each group size.

    Args:
        expectation: What `Expectation.load` or `Expectation.from_plan` returned.
        ax: Where to draw; a new figure if None.
    """
    require(expectation, Expectation, "expectation", 'Take one of Expectation.load("plan.json").')
    rows = []
    for size, groups in sorted(expectation.by_group_size.items()):
        for name, part, colour in (
            ("dead", groups.dead, INK), ("all-fail", groups.all_fail, VERMILION), ("all-pass", groups.all_pass, BLUE),
        ):  # fmt: skip
            label = f"{name}, G = {size}"
            rows.append(
                Row(label, None, note="not told")
                if part is None
                else Row(label, part.value, part.low, part.high, colour)
            )
    with canvas(ax, height=height_of(len(rows))) as axes:
        planned = "" if expectation.group_size is None else f"planned: G = {expectation.group_size}; "
        titled(axes, "What was expected", f"{planned}from {expectation.source}")
        if not rows:
            return nothing(axes, "Nothing is expected at any group size.")
        intervals(axes, rows, digits=".3f")
        axes.set_xlabel("share of groups")
    return axes
