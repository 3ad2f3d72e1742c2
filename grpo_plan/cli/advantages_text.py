"""Advantages as a page: the verdict, each kind of group apart, and what division does to small gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_plan.cli.numbers import plural
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part, print_page
from grpo_plan.errors import sentences
from grpo_plan.estimators.amplification import Amplification
from grpo_plan.estimators.arithmetic import divided, row_std
from grpo_plan.estimators.result import KIND_WORDS, Advantages

SHOWN = 6  # groups of each kind
ROW = 40  # characters of one row of numbers
DECIMALS = 4
LEAST_EVEN, MOST_EVEN = 1e-3, 1e4  # sizes of numbers that are shown with the same decimals
SMALL = 0.1  # of the largest gap
LEAST_PUSH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One estimator of a comparison: its advantages, or why it refused."""

    name: str
    result: Advantages | None
    refused: str = ""


def print_advantages(
    result: Advantages,
    gaps: Amplification,
    notes: Sequence[str] = (),
    *,
    own: str | None = None,
    threshold: float | None = None,
) -> None:
    """Print one estimator's answer; ``own`` is how it compares with a dump's advantages."""
    head = _head(result, gaps, own)
    print_page([*head, *_groups(result), *_gaps(result, gaps, threshold), *_notes((*result.notes, *notes))])


def print_comparison(rows: Sequence[Compared], rewards: Any, notes: Sequence[str] = ()) -> None:
    """Print what each estimator makes of the same groups: one table a group."""
    first = next(row.result for row in rows if row.result is not None)
    parts: list[Part] = [
        Line("Compared", f"{plural(len(rows), 'estimator')} on {plural(first.values.shape[0], 'group')}", strong=True),
        Line("Groups", _kinds(first)),
    ]
    order = np.arange(first.values.shape[0])
    for i in order[:SHOWN]:
        kind = KIND_WORDS[str(first.kinds[i])]
        parts.append(Heading(f"Group {i}: {runs(first.rewards[i], first.present[i])} ({kind})"))
        cells = [
            (row.name, "refused" if row.result is None else runs(row.result.values[i], first.present[i], "NaN"),
             "" if row.result is None else total(row.result.values[i]))
            for row in rows
        ]  # fmt: skip
        parts.append(Grid(("estimator", "advantages", "sum"), cells, right=frozenset((2,))))
    if order.size > SHOWN:
        parts.append(Paragraph(f"{order.size - SHOWN} more groups; --json has them all."))
    refused = [Bullet(f"{row.name}: {row.refused}") for row in rows if row.result is None]
    parts += [Heading("Refused"), *refused] if refused else []
    described = {row.name: row.result.description for row in rows if row.result is not None}
    parts.append(Heading("What they are"))
    parts += [Bullet(f"{name}: {text}") for name, text in described.items()]
    said = [f"{row.name}: {note}" for row in rows if row.result is not None for note in row.result.notes]
    parts += _notes((*said, "Estimators that look at the batch take these groups as one batch.", *notes))
    print_page(parts)


def _head(result: Advantages, gaps: Amplification, own: str | None) -> list[Part]:
    name = result.trainer or result.estimator or result.convention.name
    lines: list[Part] = [Line("Answer", _answer(result), strong=True)]
    small = small_gaps(gaps, of_trainer=result.trainer is not None)
    if small:
        lines += [Line("Gap", small[0]), Line("", f"What to do: {small[1]}")]
    if own is not None:
        lines.append(Line("Own", own))
    lines.append(Line("Formula", f"{name}: {result.description}"))
    if result.values.shape[0] > 1:
        lines.append(Line("Groups", _kinds(result)))
    if any(result.counts[kind] for kind in result.counts if kind != "mixed"):
        lines.append(Line("Dead", f"their advantage: {result.done_with_dead}"))
    if result.failed.sum():
        lines.append(Line("Failed", result.done_with_failed))
    return lines


def _answer(result: Advantages) -> str:
    live = int(result.live.sum())
    largest = "all are NaN" if result.largest is None else f"the largest is {number(result.largest)}"
    nans = int((np.isnan(result.values) & result.present).sum())
    unknown = f", {nans:,} have NaN" if nans else ""
    have = f"{live:,} of {plural(result.rollouts, 'rollout')} ({result.live_share:.0%}) have an advantage{unknown}"
    if result.values.shape[0] > 1:
        return f"{have}; {largest}"
    rewards = runs(result.rewards[0], result.present[0])
    return f"{rewards} ({KIND_WORDS[str(result.kinds[0])]}) gets {runs(result.values[0], result.present[0], 'NaN')}"


def small_gaps(gaps: Amplification, *, of_trainer: bool) -> tuple[str, str] | None:
    """Groups whose small gap gets the push of a large one, and what to do; None where there is none.

    Small is at most a tenth of the largest gap, or of 1 where all rewards lie between -1 and 1.
    """
    scaling = gaps.advantages.convention.scaling
    if gaps.weights is None or scaling is None:
        return None
    rewards = gaps.advantages.rewards
    spreads = np.nan_to_num(gaps.spreads)
    whole = 1.0 if float(np.nanmax(np.abs(rewards), initial=0.0)) <= 1.0 else float(spreads.max())
    small = (spreads > 0) & ~gaps.noise & (spreads <= SMALL * whole) & (np.nan_to_num(gaps.weights) >= LEAST_PUSH)
    if not small.any():
        return None
    i = int(np.where(small, spreads, np.inf).argmin())
    there = ~np.isnan(rewards[i])
    shape = (rewards[i][there] - rewards[i][there].min()) / spreads[i] * whole
    std = row_std(shape[None, :], scaling.ddof)
    push = float(gaps.weights[i] / divided(std, std, scaling)[0])
    n = int(small.sum())
    more = f" ({n - 1:,} more groups like it)" if n > 2 else " (1 more group like it)" if n == 2 else ""
    said = (
        f"group {i} gets {push:.2f} of the push of {runs(shape, np.ones(shape.size, dtype=bool))} for a gap of "
        f"{number(float(spreads[i]))}{more}"
    )
    steps = "rewards rounded to steps that mean something"
    if of_trainer:
        return said, f"no division by the spread (scale_rewards none in TRL), {steps}, or leave such groups out"
    tolerance = number(float(f"{1.05 * spreads[i]:.2g}"))
    return said, f"no division by the spread (dr_grpo, rloo), {steps}, or --tolerance {tolerance}"


def _kinds(result: Advantages) -> str:
    counts = [f"{n:,} {KIND_WORDS[kind]}" for kind, n in result.counts.items() if n]
    return f"{result.values.shape[0]:,}: {', '.join(counts)}"


def _groups(result: Advantages) -> list[Part]:
    parts: list[Part] = []
    for kind, n in result.counts.items():
        if not n:
            continue
        which = np.flatnonzero(result.kinds == kind)
        words = KIND_WORDS[kind]
        parts.append(Heading(f"{words[0].upper()}{words[1:]} ({plural(n, 'group')})"))
        rows = [
            (str(i), runs(result.rewards[i], result.present[i]), runs(result.values[i], result.present[i], "NaN"))
            for i in which[:SHOWN]
        ]
        parts.append(Grid(("group", "rewards", "advantages"), rows))
        if n > SHOWN:
            parts.append(Paragraph(f"{n - SHOWN:,} more; --json has them all."))
    return parts


def _gaps(result: Advantages, gaps: Amplification, threshold: float | None) -> list[Part]:
    parts: list[Part] = [Heading("Small gaps (gap: highest less lowest reward of a group)")]
    if threshold is not None:
        across = _across(result, threshold)
        seen = "" if across is None else f"; the smallest gap across it here is {number(across)}"
        text = (
            f"The threshold decides: a reward of at least {threshold:g} passes, one below fails, however small the gap "
            f"between them{seen}. Gaps on one side of it have none."
        )
    elif gaps.weights is None:
        text = "The group's own standard deviation is not divided out: a small gap has a small advantage."
        if result.convention.baseline == "none":
            text = "Rewards are not compared within the group: a small gap makes a small difference of advantages."
    elif not gaps.half_gap:
        text = (
            "The group's own standard deviation is divided out and nothing holds it back: any gap, however small, has "
            "the push of a gap of 1 (weight one)."
        )
    else:
        text = (
            "The group's own standard deviation is divided out. Weight is what is left of the push: a gap of "
            f"{gaps.half_gap:.2g} between one rollout and the others has half of it, one of {gaps.full_gap:.2g} 0.99, "
            "larger ones all."
        )
    parts.append(Bullet(text))
    if gaps.smallest_gap is not None and threshold is None:
        at = ""
        if gaps.weights is not None:
            smallest = int(np.nanargmin(np.where(gaps.spreads > 0, gaps.spreads, np.nan)))
            at = f", with weight {gaps.weights[smallest]:.3g}"
        parts.append(Bullet(f"The smallest gap of a group here that is not 0 is {gaps.smallest_gap:.3g}{at}."))
    if gaps.noise_groups:
        share = "" if gaps.small_share is None else f"; small gaps hold {gaps.small_share:.1%} of all advantages"
        parts.append(
            Bullet(
                f"{plural(gaps.noise_groups, 'group')} with unequal rewards within "
                f"{max(gaps.tolerance, gaps.rounding):.2g} of each other: dead but for rounding{share}."
            )
        )
    unequal = int((np.nan_to_num(gaps.spreads) > 0).sum())
    if gaps.proposed is not None or unequal > 1:
        proposed = "none suggests itself" if gaps.proposed is None else f"{gaps.proposed:.1g}"
        parts.append(Bullet(f"Tolerance for equal rewards: {proposed}. {gaps.reason}"))
    return parts


def _across(result: Advantages, threshold: float) -> float | None:
    """Smallest gap between a pass and a fail of one group; None where no group has both."""
    with np.errstate(invalid="ignore"):
        passed, failed = result.rewards >= threshold, result.rewards < threshold
    lowest = np.where(passed, result.rewards, np.inf).min(axis=1)
    highest = np.where(failed, result.rewards, -np.inf).max(axis=1)
    least = float((lowest - highest).min())
    return least if np.isfinite(least) else None


def _notes(notes: Sequence[str]) -> list[Part]:
    said = sentences(*notes)
    return [Heading("What this rests on"), *(Bullet(note) for note in said)] if said else []


def number(value: float) -> str:
    """Four digits.

    >>> number(1.7320508), number(0.0), number(float("nan"))
    ('1.732', '0', 'NaN')
    """
    return "NaN" if np.isnan(value) else f"{float(f'{value:.4g}') + 0.0:g}"


def _even(values: Any) -> list[str]:
    """Numbers with the same decimals, so that what sums to 0 is seen to; four digits where they differ too much."""
    known = np.abs(values[np.isfinite(values)])
    nonzero = known[known > 0.0]
    if not nonzero.size or nonzero.max() >= MOST_EVEN or nonzero.min() < LEAST_EVEN:
        return [number(float(value)) for value in values]
    return ["NaN" if np.isnan(v) else f"{float(f'{v:.{DECIMALS}f}') + 0.0:.10g}" for v in values.tolist()]


def runs(values: Any, present: Any, missing: str = "none") -> str:
    """Numbers in order with equal decimals, equal neighbours together; a word for what is missing.

    >>> runs(np.array([1.5, -0.5, -0.5]), np.array([True, True, True]))
    '1.5, -0.5 x 2'
    """
    words: list[list[Any]] = []
    for text in _even(np.asarray(values, dtype=float)[np.asarray(present)]):
        text = missing if text == "NaN" else text
        if words and words[-1][0] == text:
            words[-1][1] += 1
        else:
            words.append([text, 1])
    parts = [text if n == 1 else f"{text} x {n}" for text, n in words]
    shown = ", ".join(parts)
    if len(shown) <= ROW:
        return shown
    while len(", ".join(parts)) > ROW - 5:
        parts.pop()
    return ", ".join(parts) + ", ..."


def total(values: Any) -> str:
    """Sum of advantages, 0 where rounding alone is left."""
    known = np.nan_to_num(np.asarray(values, dtype=float))
    found = float(known.sum())
    return number(0.0 if abs(found) <= 1e-12 * max(float(np.abs(known).sum()), 1e-300) else found)
