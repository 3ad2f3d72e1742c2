"""Pictures of checks of independence: sessions, order, repeated texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from grpo_plan._validate import require
from grpo_plan.errors import DomainError
from grpo_plan.independence import DuplicateCheck, IndependenceCheck, IndependenceVerdict, SequenceCheck
from grpo_plan.plots.parts import Row, height_of, intervals, nothing, percent, short, whole_numbers
from grpo_plan.plots.style import BLUE, GREY, SKY, SMALL, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SESSIONS = 30  # with a name each


class Checks(Protocol):
    """What a report of several checks has."""

    @property
    def sessions(self) -> IndependenceCheck | None:
        """By session."""

    @property
    def sequence(self) -> SequenceCheck | None:
        """By order."""

    @property
    def duplicates(self) -> DuplicateCheck | None:
        """By text."""


def plot_sessions(check: IndependenceCheck, ax: Axes | None = None) -> Axes:
    """Pass rate of each session minus that of the same prompts in the others, and the correlation within a session.

    Args:
        check: What `check_independence` returned.
        ax: Where to draw; a new figure if None.
    """
    require(check, IndependenceCheck, "check", "Take one of check_independence(successes, rollouts).")
    shifts = check.shifts
    shown = np.flatnonzero(np.isfinite(shifts))
    with canvas(ax) as axes:
        _titled(axes, "Sessions", check.verdict, _correlation(check.correlation, check.low, check.high, check.level))
        if not shown.size:
            return nothing(axes, "No session shares a prompt with another: nothing can be compared.")
        axes.axhline(0.0, color=GREY, lw=1.0)
        axes.bar(shown, shifts[shown], color=VERMILION if check.verdict.alarm else BLUE, width=0.7)
        if shifts.size <= MOST_SESSIONS:
            axes.set_xticks(np.arange(shifts.size), [short(name, 12) for name in check.names])
            if shifts.size > 6:
                axes.tick_params(axis="x", rotation=60)
        reach = 1.25 * max(float(np.abs(shifts[shown]).max()), 0.01)
        axes.set_ylim(-reach, reach)
        axes.set_xlim(-0.7, shifts.size - 0.3)
        p = "unknown" if check.drift_p is None else f"p = {check.drift_p:.2g}"
        axes.set(xlabel=f"session (one pass rate in all: {p})", ylabel="pass rate less that of the others")
    return axes


def plot_sequence(check: SequenceCheck, ax: Axes | None = None) -> Axes:
    """Correlation of neighbours in the order drawn, and of the two halves of each list.

    Args:
        check: What `check_sequences` returned.
        ax: Where to draw; a new figure if None.
    """
    require(check, SequenceCheck, "check", "Take one of check_sequences(rewards).")
    halves = check.halves
    rows = [
        Row("a rollout\nand the next", check.neighbour_correlation, check.low, check.high),
        Row("within a half\nof the list", halves.correlation, halves.low, halves.high),
    ]
    with canvas(ax, height=height_of(2) + 0.4) as axes:
        told = any(row.value is not None for row in rows)
        if told:
            intervals(axes, rows, zero=0.0, digits=".3f")
        _titled(axes, "Order of rollouts", check.verdict, f"{check.mixed_prompts:,} of {check.prompts:,} prompts tell.")
        if not told:
            return nothing(axes, check.verdict.sentence)
        axes.set_xlabel(f"correlation beyond the prompt's pass rate ({percent(check.level)} intervals)")
    return axes


def plot_duplicates(check: DuplicateCheck, ax: Axes | None = None) -> Axes:
    """How many prompts have how many different texts.

    Args:
        check: What `duplicate_rollouts` returned.
        ax: Where to draw; a new figure if None.
    """
    require(check, DuplicateCheck, "check", "Take one of duplicate_rollouts(prompt_ids, texts).")
    with canvas(ax) as axes:
        titled(
            axes, "Repeated texts", f"{check.share:.1%} of {check.rollouts:,} rollouts repeat a text of their prompt"
        )
        if not check.distinct.size:
            return nothing(axes, check.sentence)
        counts = np.bincount(check.distinct)
        x = np.flatnonzero(counts)
        axes.bar(x, counts[x], color=SKY, width=0.8)
        if x.size <= MOST_SESSIONS:
            for at in x:
                axes.annotate(
                    f"{counts[at]:,}", (at, counts[at]), (0, 2), textcoords="offset points", ha="center", fontsize=SMALL
                )
        whole_numbers(axes)
        axes.set_ylim(0, 1.15 * float(counts.max()))
        axes.set(xlabel="different texts of a prompt", ylabel="prompts")
    return axes


def plot_independence(report: Checks, ax: Axes | None = None) -> Axes:
    """The check that a report rests on: of sessions, else of order, else of texts.

    Args:
        report: What `read_independence` returned.
        ax: Where to draw; a new figure if None.
    """
    for name in ("sessions", "sequence", "duplicates"):
        if not hasattr(report, name):
            raise DomainError("report must be what read_independence(...) returned.")
    if report.sessions is not None:
        return plot_sessions(report.sessions, ax)
    if report.sequence is not None:
        return plot_sequence(report.sequence, ax)
    if report.duplicates is not None:
        return plot_duplicates(report.duplicates, ax)
    with canvas(ax) as axes:
        titled(axes, "Independence")
        return nothing(axes, "No check could be made: the source has neither sessions nor an order nor texts.")


def _titled(ax: Axes, what: str, verdict: IndependenceVerdict, more: str) -> None:
    titled(ax, f"{what}: {verdict.name.replace('_', ' ').lower()}", f"{verdict.sentence} {more}")


def _correlation(value: float | None, low: float | None, high: float | None, level: float) -> str:
    if value is None:
        return "Correlation within a session: unknown."
    limits = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}] ({percent(level)})"
    return f"Correlation within a session {value:.3f}{limits}."
