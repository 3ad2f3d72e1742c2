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
from grpo_plan.estimators.result import KIND_WORDS, Advantages

SHOWN = 6  # groups of each kind
ROW = 40  # characters of one row of numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One estimator of a comparison: its advantages, or why it refused."""

    name: str
    result: Advantages | None
    refused: str = ""


def print_advantages(result: Advantages, gaps: Amplification, notes: Sequence[str] = ()) -> None:
    """Print one estimator's answer."""
    print_page([*_head(result), *_groups(result), *_gaps(gaps), *_notes((*result.notes, *notes))])


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
            (row.name, "refused" if row.result is None else runs(row.result.values[i], first.present[i]),
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


def _head(result: Advantages) -> list[Part]:
    live = int(result.live.sum())
    largest = "all NaN" if result.largest is None else f"the largest is {number(result.largest)}"
    name = result.trainer or result.estimator or result.convention.name
    lines: list[Part] = [
        Line("Formula", f"{name}: {result.description}", strong=True),
        Line("Groups", _kinds(result)),
        Line("Live", f"{live} of {plural(result.rollouts, 'rollout')} ({result.live_share:.0%}) have one; {largest}"),
        Line("Dead", result.done_with_dead),
    ]
    if result.failed.sum():
        lines.append(Line("Failed", result.done_with_failed))
    return lines


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
            (str(i), runs(result.rewards[i], result.present[i]), runs(result.values[i], result.present[i]))
            for i in which[:SHOWN]
        ]
        parts.append(Grid(("group", "rewards", "advantages"), rows))
        if n > SHOWN:
            parts.append(Paragraph(f"{n - SHOWN:,} more; --json has them all."))
    return parts


def _gaps(gaps: Amplification) -> list[Part]:
    parts: list[Part] = [Heading("Small gaps")]
    if gaps.weights is None:
        text = "The group's own spread is not divided out: a small gap has a small advantage."
    elif not gaps.half_gap:
        text = (
            "The group's own spread is divided out and nothing holds it back: any gap, however small, has weight one."
        )
    else:
        text = (
            f"The group's own spread is divided out: a gap of {gaps.half_gap:.2g} between one rollout and the others "
            f"has half weight, one of {gaps.full_gap:.2g} weight 0.99, and larger ones weight one."
        )
    parts.append(Bullet(text))
    if gaps.smallest_gap is not None:
        at = ""
        if gaps.weights is not None:
            smallest = int(np.nanargmin(np.where(gaps.spreads > 0, gaps.spreads, np.nan)))
            at = f", with weight {gaps.weights[smallest]:.3g}"
        parts.append(Bullet(f"The smallest spread of a group here that is not 0 is {gaps.smallest_gap:.3g}{at}."))
    if gaps.noise_groups:
        share = "" if gaps.small_share is None else f"; small spreads hold {gaps.small_share:.1%} of all advantages"
        parts.append(
            Bullet(
                f"{plural(gaps.noise_groups, 'group')} with unequal rewards within "
                f"{max(gaps.tolerance, gaps.rounding):.2g} of each other: dead but for rounding{share}."
            )
        )
    proposed = "none suggests itself" if gaps.proposed is None else f"{gaps.proposed:.1g}"
    parts.append(Bullet(f"Tolerance for equal rewards: {proposed}. {gaps.reason}"))
    return parts


def _notes(notes: Sequence[str]) -> list[Part]:
    said = sentences(*notes)
    return [Heading("What this rests on"), *(Bullet(note) for note in said)] if said else []


def number(value: float) -> str:
    """Four digits, and a dash for NaN.

    >>> number(1.7320508), number(0.0), number(float("nan"))
    ('1.732', '0', '-')
    """
    return "-" if np.isnan(value) else f"{float(f'{value:.4g}') + 0.0:g}"


def runs(values: Any, present: Any) -> str:
    """Numbers in order, equal neighbours together; a dash for NaN.

    >>> runs(np.array([1.5, -0.5, -0.5]), np.array([True, True, True]))
    '1.5, -0.5 x 2'
    """
    words: list[list[Any]] = []
    for value in np.asarray(values)[np.asarray(present)]:
        text = number(float(value))
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
