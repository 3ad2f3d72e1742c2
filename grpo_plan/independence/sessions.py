"""Are rollouts of a prompt independent of the session that they were drawn in? Counts by prompt and session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan._shown import Shown
from grpo_plan._validate import as_float_array, as_level
from grpo_plan.errors import DomainError
from grpo_plan.independence.inference import (
    Correlation,
    Floats,
    chi2_tail,
    correlation_of,
    first_alarm,
    in_words,
    interval_in_words,
)
from grpo_plan.independence.verdict import MIN_MIXED_PROMPTS, IndependenceVerdict

MAX_SESSIONS = 1000
RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IndependenceCheck(Shown):
    """What the sessions of a pilot say about Assumption A. A number is None where the pilot does not determine it.

    Attributes:
        verdict: First alarm, or that there is none. All tests together raise a false one with chance ``1 - level``.
        level: Confidence level.
        prompts: M, prompts with a rollout.
        mixed_prompts: Prompts with a pass and a fail that were tried in two or more sessions; only they inform the
            tests.
        correlation: rho of two rollouts of one prompt and one session beyond the prompt's pass rate.
        low: Lower limit of rho (jackknife over prompts).
        high: Upper limit of rho.
        correlation_z: Standardised sum of the test of rho = 0.
        correlation_p: Its two-sided p-value.
        design_effect: ``1 + (m - 1) rho`` with m the rollouts that share a session with a rollout, itself included.
        effective_rollouts: n of each prompt over its own design effect, never above n, shape (M,).
        drift_chi2: Statistic of one pass rate in all sessions, already divided by ``drift_inflation``.
        drift_degrees: Its degrees of freedom.
        drift_p: Its p-value.
        drift_inflation: Spread over prompts against that of independent rollouts, at least 1.
        shifts: Pass rate in each session minus that of the same prompts in the others, shape (S,); NaN if a session
            shares no prompt with another.
        names: Name of each session, shape (S,).
    """

    verdict: IndependenceVerdict
    level: float
    prompts: int
    mixed_prompts: int
    correlation: float | None
    low: float | None
    high: float | None
    correlation_z: float | None
    correlation_p: float | None
    design_effect: float | None
    effective_rollouts: Floats
    drift_chi2: float | None
    drift_degrees: int
    drift_p: float | None
    drift_inflation: float
    shifts: Floats
    names: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The verdict and the numbers behind it."""
        parts = [self.verdict.sentence]
        if self.correlation is not None and self.correlation_p is not None:
            limits = interval_in_words(self.low, self.high)
            parts.append(
                f"Correlation within a session {self.correlation:.4f}{limits}, {in_words(self.correlation_p)}, from "
                f"{self.mixed_prompts:,} mixed of {self.prompts:,} prompts; design effect {self.design_effect:.3g}."
            )
        if self.drift_p is not None:
            largest = int(np.nanargmax(np.abs(self.shifts)))
            parts.append(
                f"Largest shift of the pass rate {self.shifts[largest]:+.4f} (session {self.names[largest]}); test of "
                f"one pass rate in all {len(self.names)} sessions {in_words(self.drift_p)}."
            )
        return " ".join(parts)


def check_independence(
    successes: ArrayLike, rollouts: ArrayLike, *, level: float = 0.95, names: Sequence[str] | None = None
) -> IndependenceCheck:
    """Test whether rollouts of a prompt depend on their session (theory.md, eq. 44 to 47).

    Sessions are runs, seeds, halves or any parts that were made before the rewards were seen. Everything is
    conditional on the passes of each prompt, so no distribution of pass rates enters.

    Args:
        successes: k of each prompt and session, shape (M, S), whole numbers in [0, n].
        rollouts: n of each prompt and session, shape (M, S), or one number; 0 where a prompt was not tried.
        level: Confidence level of the interval; ``1 - level`` is the false-alarm rate of the verdict.
        names: Name of each session, shape (S,); numbers from 1 without it.

    Raises:
        DomainError: Counts are no whole numbers, k > n, other shapes, no rollout, or over 1,000 sessions.

    >>> check = check_independence([[4, 0], [0, 3], [1, 4], [4, 0]] * 10, 4)
    >>> check.verdict.name, round(check.correlation, 3), check.effective_rollouts[:2].round(2).tolist()
    ('CORRELATED', 0.857, [2.24, 2.24])
    """
    level = as_level(level)
    k, n = _cells(successes, rollouts)
    labels = tuple(str(s + 1) for s in range(k.shape[1])) if names is None else tuple(map(str, names))
    if len(labels) != k.shape[1]:
        raise DomainError(f"names must have one value a session ({k.shape[1]}); got {len(labels)}.")
    tried = n.sum(axis=1) > 0
    k, n = k[tried], n[tried]
    passes, total, sessions = k.sum(axis=1), n.sum(axis=1), (n > 0).sum(axis=1)
    mixed = (passes > 0) & (passes < total) & (sessions >= 2)
    paired = mixed & (total > sessions)  # some session holds two rollouts
    rho = _correlation(k[paired], n[paired], level)
    chi2, degrees, inflation = _drift(k[mixed], n[mixed])
    drift_p = None if chi2 is None else chi2_tail(chi2, degrees)
    informed = int(mixed.sum())
    shifts = _shifts(k[sessions >= 2], n[sessions >= 2])
    shared = (n**2).sum(axis=1) / total
    return IndependenceCheck(
        verdict=(
            IndependenceVerdict.TOO_FEW
            if informed < MIN_MIXED_PROMPTS
            else first_alarm(drift_p, largest_shift(shifts), [rho], level)
        ),
        level=level,
        prompts=int(tried.sum()),
        mixed_prompts=informed,
        correlation=rho.value,
        low=rho.low,
        high=rho.high,
        correlation_z=rho.z,
        correlation_p=rho.p,
        design_effect=None if rho.value is None else 1.0 + (float((n**2).sum() / n.sum()) - 1.0) * rho.value,
        effective_rollouts=total / (1.0 + (shared - 1.0) * max(rho.value or 0.0, 0.0)),
        drift_chi2=chi2,
        drift_degrees=degrees,
        drift_p=drift_p,
        drift_inflation=inflation,
        shifts=shifts,
        names=labels,
    )


def _correlation(k: Floats, n: Floats, level: float) -> Correlation:
    """From mixed prompts, each with two sessions and a session of two rollouts."""
    if not len(k):
        return Correlation()
    between, mean, variance = between_moments(k, n)
    _, spread, slope = pass_covariance(k, n)
    return correlation_of(
        between - mean,
        variance,
        2.0 * variance**2 / mean,  # of a gamma law with this mean and variance
        slope,
        spread,
        1.0 / (slope**2 * ((n > 0).sum(axis=1) - 1.0)),
        level,
    )


def pass_covariance(successes: Floats, rollouts: Floats) -> tuple[Floats, Floats, Floats]:
    """Unbiased covariance of two rollouts of one session, and variance of one rollout (theory.md, eq. 44).

    Both are given the prompt's pass rate; shape (M,). The third array is the slope of the covariance in the sum of
    squares between sessions. Prompts need two sessions, and one session of two rollouts.
    """
    total, sessions = rollouts.sum(axis=1), (rollouts > 0).sum(axis=1)
    passes = successes.sum(axis=1)
    between = _between(successes, rollouts)
    within = (passes * (total - passes) / total - between) / (total - sessions)
    size = total - (rollouts**2).sum(axis=1) / total
    covariance = (between - (sessions - 1.0) * within) / size
    return covariance, within + covariance, (total - 1.0) / ((total - sessions) * size)


def between_moments(successes: Floats, rollouts: Floats) -> tuple[Floats, Floats, Floats]:
    """Sum of squares between sessions, and its mean and variance given k (theory.md, eq. 45); shape (M,)."""
    total, c = rollouts.sum(axis=1), (rollouts > 0).sum(axis=1).astype(float)
    passes = successes.sum(axis=1)
    product = passes * (total - passes)
    mean = (c - 1.0) * product / (total * (total - 1.0))
    inverse = np.divide(1.0, rollouts, out=np.zeros_like(rollouts), where=rollouts > 0).sum(axis=1)
    n = np.maximum(total, 4.0)  # below, the formula is 0 / 0: with 3 rollouts its first part is 0, with 2 all of it
    uneven = (n * inverse - c**2) / (n - 2.0)
    first = 2.0 * n**3 * ((c - 1.0) * (n - c) / (n - 1.0) - uneven) / ((n - 3.0) * (n - 1.0) * (n - 2.0))
    first *= product * (product - n + 1.0)
    second = n**2 / (n - 1.0) * uneven * (n**2 - 4.0 * product) * product / (n - 2.0)
    small = 9.0 / 2.0 * (3.0 * inverse - c**2) * np.maximum(9.0 - 4.0 * product, 0.0) * product
    variance = np.where(total > 3, (first + second) / n**4, np.where(total == 3, small / 81.0, 0.0))
    return _between(successes, rollouts), mean, np.maximum(variance, 0.0)


def _between(k: Floats, n: Floats) -> Floats:
    rate = k.sum(axis=1) / n.sum(axis=1)
    squares = np.divide((k - n * rate[:, None]) ** 2, n, out=np.zeros_like(n), where=n > 0)
    return np.asarray(squares.sum(axis=1))


def _drift(k: Floats, n: Floats) -> tuple[float | None, int, float]:
    """Chi-square of one pass rate in all sessions, its degrees of freedom, and the inflation (theory.md, eq. 47)."""
    if not len(k):
        return None, 0, 1.0
    total, passes = n.sum(axis=1), k.sum(axis=1)
    surplus = k - n * (passes / total)[:, None]
    h = passes * (total - passes) / (total**2 * (total - 1.0))
    expected = np.diag(((h * total)[:, None] * n).sum(axis=0)) - n.T @ (h[:, None] * n)
    values, vectors = np.linalg.eigh(expected)
    kept = values > RANK_TOLERANCE * max(float(values[-1]), 0.0)
    degrees = int(kept.sum())
    if degrees == 0:
        return None, 0, 1.0
    roots = vectors[:, kept] / np.sqrt(values[kept])
    scores = surplus @ roots  # of each prompt: independent of each other, variance 1 in all
    inflation = 1.0
    if len(k) > 1:
        inflation = max(1.0, float(scores.var(axis=0, ddof=1).sum()) * len(k) / degrees)
    return float((scores.sum(axis=0) ** 2).sum()) / inflation, degrees, inflation


def largest_shift(shifts: Floats) -> float:
    """Largest known shift of a session, whatever its sign."""
    known = np.abs(shifts[np.isfinite(shifts)])
    return float(known.max()) if known.size else 0.0


def _shifts(k: Floats, n: Floats) -> Floats:
    """Pass rate of a session minus that of the same prompts elsewhere: Mantel-Haenszel weights."""
    if not len(k):
        return np.full(n.shape[1], np.nan)
    total = n.sum(axis=1, keepdims=True)
    surplus = (k - n * k.sum(axis=1, keepdims=True) / total).sum(axis=0)
    weight = (n * (total - n) / total).sum(axis=0)
    shifts: Floats = np.divide(surplus, weight, out=np.full(n.shape[1], np.nan), where=weight > 0)
    return shifts


def _cells(successes: ArrayLike, rollouts: ArrayLike) -> tuple[Floats, Floats]:
    """Counts as two float arrays of one shape (M, S)."""
    k, n = as_float_array(successes, "successes"), as_float_array(rollouts, "rollouts")
    if k.ndim != 2 or n.ndim not in (0, 2) or (n.ndim == 2 and n.shape != k.shape):
        raise DomainError(
            f"successes and rollouts must have one shape (prompts, sessions); got {k.shape} and {n.shape}. "
            "Give n = 0 where a prompt was not tried in a session."
        )
    n = np.broadcast_to(n, k.shape)
    for name, array in (("successes", k), ("rollouts", n)):
        bad = ~((array >= 0) & (array < 2.0**31) & (array == np.floor(array)))
        if bad.any():
            i, s = (int(x[0]) for x in np.nonzero(bad))
            raise DomainError(
                f"{name} must be whole numbers from 0 to 2**31; got {array[i, s]:g} at prompt {i}, session {s} "
                f"({int(bad.sum())} of {array.size} values)."
            )
    over = k > n
    if over.any():
        i, s = (int(x[0]) for x in np.nonzero(over))
        raise DomainError(
            f"successes must not exceed rollouts; got k = {k[i, s]:g} of n = {n[i, s]:g} at prompt {i}, session {s}. "
            "Swapped arguments?"
        )
    if not n.sum():
        raise DomainError(f"rollouts must hold at least one rollout; got none in {n.size} values. Check the columns.")
    if k.shape[1] > MAX_SESSIONS:
        raise DomainError(
            f"sessions must number at most {MAX_SESSIONS:,}; got {k.shape[1]:,}. Name runs, seeds or halves, "
            "not single rollouts."
        )
    return k, n
