"""Is a share beyond a limit, asked after every row of a run, with one false-alarm rate for all of them together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan._validate import as_one_probability
from grpo_plan.errors import DomainError
from grpo_plan.runs.series import MOST_GROUPS, Flags, Floats, as_groups, as_shares

Direction = Literal["above", "below"]
ALTERNATIVES = 24  # shares beyond the limit that are tried at once, as parts of the way from the limit to 1
NEAREST, FARTHEST = 0.005, 0.98
SMALLEST_LIMIT = 1e-9
AS_LIKELY = 3.0  # natural log of the likelihood that an onset may lack to be named as possible


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialTest:
    """A test that may be looked at after every row.

    Attributes:
        log_evidence: Natural log of the test martingale after each row, shape (S,); unchanged by rows without a value.
        crossed_at: First row (index) at which it reached ``1 / alpha``; None if it never did.
        p_value: Anytime p-value after the last row.
        limit: Share that every row is held against.
        alpha: Bound of the chance that a run within the limit ever crosses, at any length.
        direction: On which side of the limit it looks.
        rows: Rows with a value.
    """

    log_evidence: Floats
    crossed_at: int | None
    p_value: float
    limit: float
    alpha: float
    direction: Direction
    rows: int

    @property
    def crossed(self) -> bool:
        """Whether the share was beyond the limit, as far as the false-alarm rate allows to say so."""
        return self.crossed_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """Where a stretch beyond the limit began.

    Attributes:
        row: Most likely first row (index).
        earliest: First row that is about as likely (likelihood at least ``exp(-3)`` of the best).
        latest: Last such row.
        until: Last row of the stretch; the last row of the log if it goes on.
        share: Share over the stretch, ``row`` to ``until``.
    """

    row: int
    earliest: int
    latest: int
    until: int
    share: float


def above(values: ArrayLike, limit: float, *, groups: ArrayLike | None = None, alpha: float = 0.005) -> SequentialTest:
    """Test that the share of every row has a mean of at most the limit (theory.md, eq. 86, 87).

    A run for which that is true crosses with chance ``alpha`` at most, however long it is and however often one looks.
    A run that goes wrong late is found too: the test starts anew at every row.

    Args:
        values: Shares of groups, shape (S,), NaN where a row has none.
        limit: Share in [0, 1] that the rows are held against.
        groups: Groups behind each row (one number, or shape (S,)), or a lower bound: the evidence is then a binomial
            likelihood ratio. None: bets, which hold for any values in [0, 1], and are less sharp where N is large.
        alpha: False-alarm rate of a whole run.

    Raises:
        DomainError: A value is not a share, or an option is outside its domain.

    >>> test = above([0.5] * 20 + [0.75] * 20, 0.5, groups=32)
    >>> test.crossed_at, test.p_value < 0.001
    (23, True)
    >>> above([0.5] * 40, 0.5, groups=32).crossed
    False
    """
    return _test(values, limit, groups, alpha, "above")


def below(values: ArrayLike, limit: float, *, groups: ArrayLike | None = None, alpha: float = 0.005) -> SequentialTest:
    """Test that the share of every row has a mean of at least the limit: `above` with both turned round.

    >>> below([0.25] * 10, 0.5, groups=32).crossed_at
    2
    """
    return _test(values, limit, groups, alpha, "below")


def onset(
    values: ArrayLike,
    limit: float,
    *,
    groups: ArrayLike | None = None,
    alpha: float = 0.005,
    direction: Direction = "above",
) -> Onset | None:
    """Where the share went beyond the limit: the most likely start of the stretch (theory.md, eq. 88).

    It is an estimate: a small excess, or few groups a row, leave it uncertain by many rows. ``earliest`` and ``latest``
    say by how many; they are no confidence limits, though they held the true start in 88 % or more of simulated runs.
    Without groups, the noise of a row is taken from how neighbouring rows differ.

    Returns:
        None where the test does not cross.

    >>> found = onset([0.5] * 20 + [0.75] * 20, 0.5, groups=32)
    >>> found.row, found.earliest, found.latest, found.until, found.share
    (20, 20, 20, 39, 0.75)
    """
    test = _test(values, limit, groups, alpha, direction)
    if test.crossed_at is None:
        return None
    x, n, known = _turned(values, groups, direction)
    rows = np.flatnonzero(known)
    crossed = int(np.searchsorted(rows, test.crossed_at))
    if groups is None:
        n = np.full(x.size, _groups_by_noise(x))
    logs = np.cumsum(_log_factors(x, n, test.limit, direction, counted=True), axis=0)
    before = np.vstack([np.zeros(logs.shape[1]), logs[:-1]])
    gain = logs[crossed:].max(axis=0) - before[: crossed + 1].min(axis=0)  # best stretch around the crossing, per share
    best = int(np.argmax(gain))
    start = int(np.argmin(before[: crossed + 1, best]))
    end = crossed + int(np.argmax(logs[crossed:, best]))
    likely = np.flatnonzero(before[: crossed + 1, best] <= before[start, best] + AS_LIKELY)
    stretch = slice(start, end + 1)
    share = float(n[stretch] @ x[stretch] / n[stretch].sum())
    return Onset(
        row=int(rows[start]),
        earliest=int(rows[likely[0]]),
        latest=int(rows[likely[-1]]),
        until=int(rows[end]),
        share=share if direction == "above" else 1.0 - share,
    )


def _test(
    values: ArrayLike, limit: float, groups: ArrayLike | None, alpha: float, direction: Direction
) -> SequentialTest:
    bound = as_one_probability(limit, "limit")
    rate = as_one_probability(alpha, "alpha")
    if not 0.0 < rate < 1.0:
        raise DomainError(
            f"alpha must lie strictly between 0 and 1; got {rate:g}. Use 0.005 for one alarm in 200 runs."
        )
    if direction not in ("above", "below"):
        raise DomainError(f"direction must be above or below; got {direction!r}.")
    x, n, known = _turned(values, groups, direction)
    evidence = np.zeros(known.size)
    if x.size:
        path = _log_evidence(_log_factors(x, n, bound, direction, counted=groups is not None))
        seen = np.cumsum(known) - 1
        evidence = np.where(seen >= 0, path[np.maximum(seen, 0)], 0.0)
    over = evidence >= -math.log(rate)
    return SequentialTest(
        log_evidence=evidence,
        crossed_at=int(np.argmax(over)) if over.any() else None,
        p_value=float(np.exp(-max(0.0, float(evidence.max(initial=0.0))))),
        limit=bound,
        alpha=rate,
        direction=direction,
        rows=int(x.size),
    )


def _turned(values: ArrayLike, groups: ArrayLike | None, direction: Direction) -> tuple[Floats, Floats, Flags]:
    """Shares and groups of the rows that have a value, seen so that beyond is above, and which rows these are."""
    shares = as_shares(values)
    n = as_groups(groups, shares.size)
    known = np.isfinite(shares)
    x = shares[known]
    return (x if direction == "above" else 1.0 - x), n[known], known


def _log_factors(x: Floats, n: Floats, limit: float, direction: Direction, *, counted: bool) -> Floats:
    """Log of what each row multiplies the evidence for each alternative by, shape (rows, alternatives)."""
    m = max(limit if direction == "above" else 1.0 - limit, SMALLEST_LIMIT)
    if m >= 1.0:  # nothing lies beyond
        return np.zeros((x.size, 1))
    part = np.geomspace(NEAREST, FARTHEST, ALTERNATIVES)
    p = m + (1.0 - m) * part
    if not counted:
        return np.log1p(part * (x[:, None] / m - 1.0))
    return n[:, None] * (x[:, None] * np.log(p / m) + (1.0 - x[:, None]) * np.log1p(-part))


def _groups_by_noise(x: Floats) -> float:
    """Groups a row that would make binomial shares differ from row to row as much as these do; at least 1."""
    noise = float(np.mean(np.diff(x) ** 2)) / 2.0 if x.size > 1 else 0.0
    return float(np.clip(x.mean() * (1.0 - x.mean()) / max(noise, 1e-12), 1.0, MOST_GROUPS))


def _log_evidence(log_factors: Floats) -> Floats:
    """Log of the mixture over alternatives and over starts, after each row (theory.md, eq. 87)."""
    row = np.arange(1, log_factors.shape[0] + 1)
    later = 1.0 / np.log2(row + 2.0)  # weight of the starts after this row
    weight = 1.0 / np.log2(row + 1.0) - later
    total = np.cumsum(log_factors, axis=0)
    before = total - log_factors
    started = total + np.logaddexp.accumulate(np.log(weight)[:, None] - before, axis=0)
    mixed = np.logaddexp.reduce(started, axis=1) - math.log(log_factors.shape[1])
    evidence: Floats = np.logaddexp(mixed, np.log(later))
    return evidence
