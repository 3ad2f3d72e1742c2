"""Rollouts that an estimator gives a non-zero advantage, with limits (theory.md, eq. 117)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan.errors import PilotError
from grpo_plan.estimators import Estimator
from grpo_plan.fitting.functionals import custom
from grpo_plan.fitting.result import PassRateFit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """A number with its limits.

    Attributes:
        value: The estimate; None where the pilot does not determine it.
        low: Lower confidence limit.
        high: Upper confidence limit; None where there is none.
    """

    value: float | None
    low: float
    high: float | None

    @classmethod
    def exact(cls, value: float) -> Ranged:
        """A number that needs no pilot."""
        return cls(value=value, low=value, high=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKind:
    """A number split by the kind of group.

    Attributes:
        mixed: Groups with passes and fails.
        all_fail: Groups without a pass.
        all_pass: Groups without a fail.
    """

    mixed: Ranged
    all_fail: Ranged
    all_pass: Ranged


NOTHING = Ranged(value=0.0, low=0.0, high=0.0)


def live_shares(estimator: Estimator, group_size: int) -> Floats:
    """Share of the rollouts of a group with a non-zero advantage, for k = 0..G passes (theory.md, eq. 117).

    >>> from grpo_plan.estimators import get_estimator
    >>> live_shares(get_estimator("rloo"), 4).tolist(), live_shares(get_estimator("sign"), 2).tolist()
    ([0.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0])
    """
    passed, failed = estimator.pair(group_size)
    k = np.arange(group_size + 1.0)
    shares: Floats = (k * (passed != 0.0) + (group_size - k) * (failed != 0.0)) / group_size
    return shares


def live_rollouts(fit: PassRateFit, estimator: Estimator, group_size: int, level: float) -> tuple[Ranged, ByKind]:
    """Rollouts with a non-zero advantage, as a share of all, and its parts by kind of group (theory.md, eq. 117)."""
    shares = live_shares(estimator, group_size)
    dead = fit.dead(group_size, level)
    parts = {
        "all-fail": clipped(dead.all_fail, *dead.all_fail_interval) if shares[0] else NOTHING,
        "all-pass": clipped(dead.all_pass, *dead.all_pass_interval) if shares[-1] else NOTHING,
    }
    inner = shares.copy()
    inner[0] = inner[-1] = 0.0
    whole = bool(np.all(shares[1:-1] == 1.0))
    mixed = (
        clipped(dead.mixed, 1.0 - dead.high, 1.0 - dead.low)
        if whole
        else mean_of_weights(fit, inner, level, "live rollouts")
    )
    by_kind = ByKind(mixed=mixed, all_fail=parts["all-fail"], all_pass=parts["all-pass"])
    return _total(fit, shares, by_kind, level), by_kind


def _total(fit: PassRateFit, shares: Floats, parts: ByKind, level: float) -> Ranged:
    if np.all(shares == 1.0):
        return Ranged.exact(1.0)
    if not shares[0] and not shares[-1]:
        return parts.mixed
    if np.all(shares[:-1] == 1.0) or np.all(shares[1:] == 1.0):  # one kind of dead group alone is silent
        dead = fit.dead(shares.size - 1, level)
        silent, (low, high) = (
            (dead.all_fail, dead.all_fail_interval) if not shares[0] else (dead.all_pass, dead.all_pass_interval)
        )
        return clipped(None if silent is None else 1.0 - silent, 1.0 - high, 1.0 - low)
    return mean_of_weights(fit, shares, level, "live rollouts")


def at_rates(weights: Floats, pass_rates: Floats) -> Floats:
    """Mean of weights on k = 0..n at each pass rate: ``sum_k w_k P(k | n, p)``, shape of ``pass_rates``.

    >>> at_rates(np.array([0.0, 1.0, 0.0]), np.array([0.5])).tolist()
    [0.5]
    """
    counts, chances = binomial_window(weights.size - 1, pass_rates)
    value: Floats = (chances * weights[counts]).sum(axis=1)
    return value


def law_of(fit: PassRateFit, group_size: int) -> Floats | None:
    """Law of the passes in groups of that size; None where the pilot does not determine it."""
    try:
        return fit.group_pmf(group_size)
    except PilotError:
        return None


def mean_of_weights(fit: PassRateFit, weights: Floats, level: float, name: str) -> Ranged:
    """A mean over F that is linear in one law, with its limits."""
    law = law_of(fit, weights.size - 1)
    value = None if law is None else float(law @ weights)
    low, high = fit.limits_of(custom(lambda p: at_rates(weights, p), name), level)
    return clipped(value, low, high, float(weights.min()), float(weights.max()))


def clipped(value: float | None, low: float, high: float, least: float = 0.0, most: float = 1.0) -> Ranged:
    """Limits that hold the value and stay within a range."""
    if value is not None:
        value = min(max(value, least), most)
        low, high = min(low, value), max(high, value)
    return Ranged(value=value, low=max(low, least), high=min(high, most))
