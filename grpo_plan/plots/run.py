"""Pictures of a run: what its groups are made of, dead groups against the plan, mixed groups of a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import DomainError
from grpo_plan.plots.parts import legend_below, nothing, percent
from grpo_plan.plots.style import (
    BAND,
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SILVER,
    SKY,
    SMALL,
    VERMILION,
    WHITE,
    canvas,
    figure,
    save_figure,
    styled,
    titled,
)
from grpo_plan.quantities import Absent, Stage
from grpo_plan.run_log import RunLog
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.expectation import ExpectedGroups
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Floats, Measured
from grpo_plan.runs.series import share_over
from grpo_plan.runs.shares import groups_per_step, other_dead

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 100  # rows are averaged to at most so many
WINDOWS = 120  # ends of the moving window
LEAST_WINDOW = 10
ROOM_FOR_NAME = 0.09  # share of the groups
HATCH = "////"
UNSEEN = 0.002  # share that no line is drawn for: rounding of the log leaves such rests
FEW_ROWS = 60  # up to so many, each is a marker that can be seen by itself
FILTERED = " of kept groups"


def plot_composition(run: Diagnosis | Facts | RunLog, ax: Axes | None = None) -> Axes:
    """What the groups of each step are made of: all-fail, otherwise dead, mixed and all-pass, stacked.

    Where a log tells only limits of a share, what may be either is hatched.

    Args:
        run: A diagnosis, its facts, or the log alone.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    with canvas(ax) as axes:
        _composition(axes, _facts(run))
    return axes


def _composition(axes: Axes, facts: Facts) -> None:
    titled(axes, "What the groups are made of")
    dead = facts.dead
    if isinstance(dead, Absent):
        nothing(axes, dead.reason)
        return
    x = dead.steps
    layers = _layers(facts, dead)
    at = _binned(x.astype(np.float64), np.ones(x.size), x.size)
    shares = np.array([_binned(values, dead.groups.astype(np.float64), x.size) for _, _, _, values in layers])
    if at[0] == at[-1]:  # one row, or steps too large to be told apart
        half = max(0.5, 2.0 * float(np.spacing(at[0])))
        at, shares = at[0] + np.array([-half, half]), np.repeat(shares.mean(axis=1, keepdims=True), 2, axis=1)
    base = np.zeros(at.size)
    for (label, colour, hatch, _), share in zip(layers, shares, strict=True):
        if np.all(share <= UNSEEN):
            continue
        top = base + share
        edge = GREY if hatch else colour
        axes.fill_between(
            at, base, top, facecolor=colour, hatch=hatch, edgecolor=edge, linewidth=0.3, label=label, alpha=0.9
        )
        if share[-1] > ROOM_FOR_NAME and hatch is None:
            ink, middle = INK if colour in (SKY, SILVER, PALE) else WHITE, float(base[-1] + top[-1]) / 2.0
            across = axes.get_yaxis_transform()
            axes.text(0.985, middle, label, transform=across, ha="right", va="center", color=ink, fontsize=SMALL)
        base = top
    axes.set_xlim(at[0], at[-1])
    axes.set_ylim(0.0, 1.0)
    _one_step(axes, dead)
    axes.set_xlabel("training step")
    axes.set_ylabel(f"share of groups{FILTERED if dead.stage is Stage.AFTER else ''}")
    handles, labels = axes.get_legend_handles_labels()
    legend_below(axes, columns=2 if len(labels) > 3 else 3, handles=handles[::-1], names=labels[::-1])


def _layers(facts: Facts, dead: Measured) -> list[tuple[str, str, str | None, Floats]]:
    """Name, colour, hatch and share of each layer from the bottom, at the rows of the dead fraction."""
    passes, fails, other = (_at(dead, part) for part in (facts.all_pass, facts.all_fail, other_dead(facts)))
    unsure = dead.upper - dead.lower
    if passes is None or fails is None:
        return [
            ("dead, kind not known", SILVER, None, dead.lower),
            ("dead or mixed", PALE, HATCH, unsure),
            ("mixed", SKY, None, 1.0 - dead.upper),
        ]
    low, fail = np.minimum(passes[0], dead.lower), np.minimum(fails[0], dead.lower)
    low = np.minimum(low, dead.lower - fail)
    rest = np.clip(dead.lower - low - fail, 0.0, 1.0)
    told = other is not None
    return [
        ("all-fail", VERMILION, None, fail),
        ("dead otherwise", ORANGE, None, rest) if told else ("all-fail or all-pass", SILVER, HATCH, rest),
        ("dead or mixed", PALE, HATCH, unsure),
        ("mixed", SKY, None, 1.0 - dead.upper),
        ("all-pass", GREEN, None, low),
    ]


def _at(dead: Measured, part: Measured | Absent) -> tuple[Floats, Floats] | None:
    """Lower and upper bounds of a part at the rows of the dead fraction; None where it is missing at one of them."""
    if isinstance(part, Absent) or not np.isin(dead.steps, part.steps).all():
        return None
    where = np.searchsorted(part.steps, dead.steps)
    return part.lower[where], part.upper[where]


def plot_dead_against_plan(run: Diagnosis | Facts | RunLog, ax: Axes | None = None) -> Axes:
    """The dead fraction as logged, its mean over a moving window with limits, and what was planned.

    The window is a tenth of the rows, at least ten, and all of them where there are fewer than twenty; limits are those
    of theory.md, eq. 84, and hold the range where a share is only bounded.

    Args:
        run: A diagnosis, its facts, or the log alone.
        ax: Where to draw; a new figure if None.
    """
    found = run.finding("DEAD_ABOVE_PLAN") if isinstance(run, Diagnosis) else None
    with canvas(ax) as axes:
        _dead_against_plan(axes, _facts(run), None if found is None else found.onset_step)
    return axes


def _dead_against_plan(axes: Axes, facts: Facts, onset: int | None) -> None:
    titled(axes, "Dead groups against the plan" if facts.planned else "Dead groups")
    dead = facts.dead
    if isinstance(dead, Absent):
        nothing(axes, dead.reason)
        return
    axes.set_ylim(-0.02, 1.02)
    planned = facts.planned
    if planned is not None:
        d = planned.dead
        axes.axhspan(d.low, d.high, color=ORANGE, alpha=BAND, linewidth=0, label=f"plan, G = {planned.group_size}")
        if d.value is not None:
            axes.axhline(d.value, color=ORANGE, linewidth=1.2, linestyle="--")
    _draw_rows(axes, dead.steps.astype(np.float64), dead.lower, dead.upper, exact=dead.exact)
    _draw_moving(axes, dead, facts.settings.level, lambda share: share)
    if onset is not None:
        axes.axvline(onset, color=INK, linewidth=1.0, linestyle=":", label=f"above the plan from {onset:,}")
    axes.set_xlabel("training step")
    axes.set_ylabel(f"dead fraction{FILTERED if dead.stage is Stage.AFTER else ''}")
    legend_below(axes)


def plot_effective_batch_over_steps(run: Diagnosis | Facts | RunLog, ax: Axes | None = None) -> Axes:
    """Mixed groups of a step over the run, and where 9 of 10 steps were planned to lie.

    Without a number of prompts per step it is the mixed share that is drawn.

    Args:
        run: A diagnosis, its facts, or the log alone.
        ax: Where to draw; a new figure if None.
    """
    with canvas(ax) as axes:
        _mixed_over_steps(axes, _facts(run))
    return axes


def _mixed_over_steps(axes: Axes, facts: Facts) -> None:
    dead = facts.dead
    groups = None if isinstance(dead, Absent) else groups_per_step(facts, int(dead.steps[0]), int(dead.steps[-1]))
    shares = "" if groups or isinstance(dead, Absent) else "shares: the prompts per step are not known"
    titled(axes, "Mixed groups of a step", shares)
    if isinstance(dead, Absent):
        nothing(axes, dead.reason)
        return
    scale = 1.0 if groups is None else groups
    planned = facts.planned
    if planned is not None:
        _draw_planned(axes, planned, groups)
    x = dead.steps.astype(np.float64)
    _draw_rows(axes, x, scale * (1.0 - dead.upper), scale * (1.0 - dead.lower), exact=dead.exact)
    _draw_moving(axes, dead, facts.settings.level, lambda share: scale * (1.0 - share))
    if groups is not None:
        axes.axhline(groups, color=GREY, linestyle=":", linewidth=1.2, label="prompts a step")
    averaged = f", mean over {facts.steps_per_row}" if facts.steps_per_row > 1 else ""
    axes.set_ylim(-0.02 * scale, 1.05 * scale)
    axes.set_xlabel("training step")
    axes.set_ylabel("mixed share of the groups" if groups is None else f"mixed groups a step{averaged}")
    legend_below(axes)


def _draw_planned(axes: Axes, planned: ExpectedGroups, groups: float | None) -> None:
    """Where 9 of 10 steps were planned to lie, if the run has the planned prompts a step; else limits of the mean."""
    low, high = planned.mixed_low, planned.mixed_high
    if groups is not None and low is not None and high is not None and planned.prompts_per_step == groups:
        axes.axhspan(low, high, color=ORANGE, alpha=BAND, linewidth=0, label="plan: 9 of 10 steps")
        return
    scale = 1.0 if groups is None else groups
    d = planned.dead
    axes.axhspan(
        scale * (1.0 - d.high), scale * (1.0 - d.low), color=ORANGE, alpha=BAND, linewidth=0, label="plan: mean"
    )


def draw_run(run: Diagnosis | Facts | RunLog, path: Path) -> None:
    """All three pictures side by side, written to a file; the suffix decides the kind."""
    with styled():
        made = figure(3)
        for draw, axes in zip(
            (plot_composition, plot_dead_against_plan, plot_effective_batch_over_steps), made.axes, strict=True
        ):
            draw(run, axes)
        save_figure(made, path)


def _facts(run: Any) -> Facts:
    if isinstance(run, Diagnosis):
        return run.facts
    if isinstance(run, Facts):
        return run
    if isinstance(run, RunLog):
        return Facts(run)
    raise DomainError(
        f"run must be a diagnosis, its facts or a log; got {type(run).__name__}. Take diagnose(read_run(...))."
    )


def _one_step(axes: Axes, series: Measured) -> None:
    """A log of one row has one step, and no axis between fractions of steps."""
    if series.steps[0] == series.steps[-1]:
        step = float(series.steps[0])
        half = max(0.5, 2.0 * float(np.spacing(step)))
        axes.set_xlim(step - half, step + half)
        axes.set_xticks([step], [f"{series.steps[0]:,}"])


def _draw_rows(axes: Axes, x: Floats, low: Floats, high: Floats, *, exact: bool) -> None:
    """Each row: a point, or its range between two lines."""
    rows = "the row" if x.size == 1 else "rows"
    size = 7.0 if x.size == 1 else 4.5 if x.size <= FEW_ROWS else 2.5
    if exact:
        axes.plot(x, low, ".", color=GREY, markersize=size + 1.0, alpha=0.75, label=rows, zorder=3)
    elif x.size <= FEW_ROWS:
        axes.vlines(x, low, high, color=GREY, linewidth=2.0, alpha=0.6, label=f"{rows}: range")
    else:  # at most so many ranges side by side that they can be told apart
        at, floor, ceiling = (_binned(v, np.ones(x.size), x.size) for v in (x, low, high))
        axes.vlines(at, floor, ceiling, color=GREY, linewidth=0.8, alpha=0.55, label="rows: mean range")


def _draw_moving(axes: Axes, series: Measured, level: float, scaled: Callable[[Floats], Floats]) -> None:
    """Mean of a moving window with its limits; limits alone, as two lines, where a share is only bounded."""
    ends, value, low, high, size = _moving(series, level)
    limits = f"{percent(level)} limits"
    of = "1 row" if size == 1 else f"{size} rows"
    if series.steps[0] == series.steps[-1]:
        here, bottom, top = ends[:1], scaled(low[:1]), scaled(high[:1])
        axes.vlines(here, np.minimum(bottom, top), np.maximum(bottom, top), color=BLUE, linewidth=1.6, label=limits)
    elif series.exact:
        axes.fill_between(ends, scaled(low), scaled(high), color=BLUE, alpha=BAND, linewidth=0, label=f"_{limits}")
        axes.plot(ends, scaled(value), color=BLUE, linewidth=1.6, label=f"mean of {of}, {limits}")
    else:
        axes.plot(ends, scaled(low), color=BLUE, linewidth=1.6, label=f"{limits} over {of}")
        axes.plot(ends, scaled(high), color=BLUE, linewidth=1.6)
    _one_step(axes, series)


def _moving(series: Measured, level: float) -> tuple[Floats, Floats, Floats, Floats, int]:
    """Middle step, value and limits of windows over the rows, and the rows of a window."""
    size = max(LEAST_WINDOW, series.rows // 10)
    size = size if series.rows >= 2 * size else series.rows
    starts = np.unique(np.linspace(0, series.rows - size, min(WINDOWS, series.rows - size + 1)).astype(np.int64))
    at, values, lows, highs = [], [], [], []
    for start in starts:
        part = series.take(slice(int(start), int(start) + size))
        low = share_over(np.clip(part.lower, 0.0, 1.0), part.groups, level=level)
        high = low if part.exact else share_over(np.clip(part.upper, 0.0, 1.0), part.groups, level=level)
        at.append(float(np.mean(part.steps)))
        values.append(np.nan if low.value is None else low.value)
        lows.append(low.low)
        highs.append(high.high)
    if len(at) == 1:  # one window: over all of its steps
        ends = [float(series.steps[0]), float(series.steps[-1])]
        return np.array(ends), *(np.repeat(v, 2) for v in (values, lows, highs)), size  # type: ignore[return-value]
    return np.array(at), np.array(values), np.array(lows), np.array(highs), size


def _binned(values: Floats, weights: Floats, rows: int) -> Floats:
    """Weighted means of at most `COLUMNS` neighbouring rows each."""
    edges = np.linspace(0, rows, min(COLUMNS, rows) + 1).round().astype(np.int64)[:-1]
    means: Floats = np.add.reduceat(values * weights, edges) / np.add.reduceat(weights, edges)
    return means
