"""Pictures of a step: its mixed groups, what a refill draws, and what ways of sampling cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, require
from grpo_plan.batches import AdaptiveSampling, EffectiveBatch, Refill, RefillAt, RefillStatus, SamplingCost, refill
from grpo_plan.batches.waiting import EndlessPrompts
from grpo_plan.errors import DomainError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.plots.parts import Row, band, height_of, intervals, percent
from grpo_plan.plots.style import BLUE, GREY, INK, SKY, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
CURVE_POINTS = 160
ROOM_BELOW = 0.12  # for the number of rounds, as a share of the height
ROOM_FOR_WORDS, ROOM_FOR_NUMBER = 0.12, 0.03  # shares of the width
LEAST_CHANCE = 1e-9
UNSEEN = 1e-4  # chance of the tails that are cut off
SCHEMES = {
    "fixed": "groups of {g},\ndead ones kept",
    "refill": "groups of {g},\nrefilled",
    "adaptive": "until a pass and a fail,\n{g} at most",
    "until-pass": "until a pass, {g} at most\n(of one prompt)",
}


def plot_mixed_groups(batch: EffectiveBatch, ax: Axes | None = None) -> Axes:
    """Chance of each number of mixed groups in a step, and how sure the mean is.

    Args:
        batch: What `effective_batch` or `effective_batch_of_list` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Dark bars are 9 of 10 steps; the line above is the interval of the mean.
    """
    require(batch, EffectiveBatch, "batch", "Take one of effective_batch(fit, ...).")
    mixed, counts = batch.mixed_groups, np.arange(batch.prompts_per_step + 1)
    upto = np.array([batch.probability_fewer_than(int(k)) for k in (*counts, batch.prompts_per_step + 1)])
    chances = np.diff(upto)
    with canvas(ax) as axes:
        shown = np.flatnonzero((upto[1:] > UNSEEN) & (upto[:-1] < 1.0 - UNSEEN))
        inside = (counts >= mixed.p05) & (counts <= mixed.p95)
        for part, colour, label in ((~inside, SKY, "the rest"), (inside, BLUE, "9 of 10 steps")):
            kept = np.intersect1d(shown, np.flatnonzero(part))
            if kept.size:
                axes.bar(kept, chances[kept], width=0.85, color=colour, label=label)
        top = 1.22 * float(chances.max())
        limits = batch.mixed_groups_mean_interval
        if limits is not None and batch.dead is not None:
            axes.plot(
                limits, [0.92 * top] * 2, color=INK, lw=2.0, label=f"{percent(batch.dead.level)} interval of the mean"
            )
        axes.plot([mixed.mean], [0.92 * top], "o", color=INK, label="_mean")
        axes.axvline(mixed.mean, color=INK, lw=0.8, ls=":")
        axes.set_ylim(0.0, top)
        left, right = min(shown[0], *(limits or (shown[0],))), max(shown[-1], *(limits or (shown[-1],)))
        axes.set_xlim(left - 1.0 - 0.04 * (right - left), right + 1.0 + 0.04 * (right - left))
        axes.set(xlabel=f"mixed groups of the {batch.prompts_per_step:,} of a step", ylabel="chance")
        axes.legend(loc="center left" if mixed.mean > 0.5 * (left + right) else "center right")
        titled(
            axes,
            f"Mixed groups of a step at G = {batch.group_size}: {mixed.p05:.0f} to {mixed.p95:.0f}",
            f"mean {mixed.mean:.1f}; a step without any: chance {_chance(batch.dead_batch_probability)}",
        )
    return axes


def _chance(value: float) -> str:
    """A chance in few digits.

    >>> _chance(0.0312), _chance(1e-40), _chance(0.0)
    ('0.031', '<1e-9', '0')
    """
    return "<1e-9" if 0.0 < value < LEAST_CHANCE else f"{value:.2g}"


def plot_sampling(costs: SamplingCost | Sequence[SamplingCost] | AdaptiveSampling, ax: Axes | None = None) -> Axes:
    """Rollouts for one mixed group by the way of sampling, with limits.

    Args:
        costs: What `compare_sampling` or `adaptive_sampling` returned.
        ax: Where to draw; a new figure if None.
    """
    if isinstance(costs, AdaptiveSampling):
        found: list[tuple[str, object]] = [
            (f"per prompt,\n{costs.max_group_size} at most", costs.rollouts_per_prompt),
            ("per prompt\nthat is kept", costs.rollouts_per_kept_prompt),
        ]
        title = f"Sampling until {costs.passes} pass{'' if costs.passes == 1 else 'es'} and {costs.fails} fail"
        title, label, status = title + ("" if costs.fails == 1 else "s"), "rollouts", costs.status
    else:
        several = list(costs) if isinstance(costs, Sequence) else [costs]
        if not several or not all(isinstance(c, SamplingCost) for c in several):
            raise DomainError("costs must be what compare_sampling(fit, refill(...)) returned.")
        found = [(SCHEMES[c.scheme].format(g=c.group_size), c.rollouts_per_group) for c in several]
        title, label, status = "What one mixed group costs", "rollouts per mixed group", several[0].status
    with canvas(ax, height=height_of(len(found))) as axes:
        rows = []
        for name, bounded in found:
            if bounded is None:
                rows.append(Row(name, None, note="none comes"))
            else:
                rows.append(Row(name, bounded.value, bounded.low, bounded.high))  # type: ignore[attr-defined]
        intervals(axes, rows)
        axes.set_xlabel(label)
        titled(axes, title, "" if status.name == "OK" else f"{status.name}: {status.sentence}")
    return axes


def plot_refill(
    fit: PassRateFit | Refill,
    ax: Axes | None = None,
    *,
    prompts_per_step: int | None = None,
    group_size: int | None = None,
    max_rounds: int = 4,
    level: float = 0.95,
) -> Axes:
    """Prompts that a refilled step draws against its generation batch, both per mixed group wanted.

    Args:
        fit: A fitted pilot, or a planned refill, whose generation batch is marked then.
        ax: Where to draw; a new figure if None.
        prompts_per_step: Mixed groups wanted in a step, N; needed with a fit.
        group_size: Rollouts per prompt, G; needed with a fit.
        max_rounds: Rounds of the smallest generation batch shown, about; at least 2.
        level: Level of the limits of the dead fraction.

    Returns:
        The axes.

    Raises:
        InfeasiblePlanError: No group can be mixed.
    """
    most = as_count(max_rounds, "max_rounds", minimum=2)
    planned = fit if isinstance(fit, Refill) else None
    if planned is None:
        if prompts_per_step is None or group_size is None:
            raise DomainError("prompts_per_step and group_size must be given with a fit, e.g. 128 and 8.")
        first = refill(fit, prompts_per_step=prompts_per_step, group_size=group_size, level=level)  # type: ignore[arg-type]
    else:
        if prompts_per_step is not None or group_size is not None:
            raise DomainError("prompts_per_step and group_size are those of the refill. Leave them out.")
        first = planned
    n, single, high = first.prompts_per_step, first.at_value.one_by_one, first.at_high
    last = single.p95 if high is None else min(high.one_by_one.p95, 2.0 * single.p95)
    last = max(1.3 * last, 0.0 if planned is None else 1.05 * min(planned.gen_batch_size, 4.0 * last))
    sizes = sorted({max(1, round(b)) for b in np.linspace(single.mean / most, last, CURVE_POINTS)})
    x = np.array(sizes) / n
    drawn = _drawn(first.at_value, n, sizes)
    with canvas(ax) as axes:
        if high is not None:
            ends = _drawn(first.at_low, n, sizes), _drawn(high, n, sizes)
            band(axes, x, *ends, label=f"D at its {percent(first.dead.level)} limits")
        axes.plot(x, drawn, color=INK, lw=1.6, label="drawn in generation batches (mean)")
        axes.axhline(single.mean / n, color=VERMILION, ls="--", label="drawn one at a time: 1 / (1 - D)")
        if planned is not None and x[0] <= planned.batch_multiplier <= x[-1]:
            here = planned.at_value.prompts.mean / n
            axes.plot([planned.batch_multiplier], [here], "o", ms=7, mfc="white", color=INK, zorder=5, label="planned")
        top = 1.45 * float(drawn.max())
        axes.set_ylim(single.mean / n - ROOM_BELOW * (top - single.mean / n), top)
        axes.set_xlim(x[0], x[-1])
        _mark_rounds(axes, x, np.ceil(single.p95 / np.array(sizes)))
        axes.set_xlabel(f"generation batch over the {n:,} mixed group{'' if n == 1 else 's'} wanted")
        axes.set_ylabel("prompts drawn per mixed group used")
        said = "" if first.status is RefillStatus.FILLS else f"{first.status.name}: {first.status.sentence}"
        if first.data_prompts is not None:
            said = f"{said} The curve is that of an endless stream of prompts.".strip()
        titled(axes, f"Refill of groups of {first.group_size}: what a step draws", said)
        axes.legend(loc="upper right")
    return axes


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
