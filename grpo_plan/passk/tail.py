"""How the unsolved share 1 - pass@k falls: local exponents, a power law, or a floor (theory.md, eq. 136 to 138)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from math import log2
from typing import Any

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, as_one_group_size, require
from grpo_plan.fitting.average import fit_average
from grpo_plan.fitting.functionals import Functional, custom
from grpo_plan.fitting.mixing import condensed
from grpo_plan.fitting.result import MISFIT, PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passk.curve import as_ks, default_ks
from grpo_plan.passk.tail_likelihood import TailLikelihood, atom_threshold
from grpo_plan.passrates.discrete import power

ACCURACY = 1e-5  # of a ratio of unsolved shares
LEAST_EXPONENT = 0.01  # a smaller one is no fall: halving takes 2**100 times as many tries
FIT_FIRST = "Fit a pilot first: fit_pass_rates(read_pilot(...))."
BENT = 10.0  # likelihood ratio by which a smooth law of another shape refutes the Beta
BENT_FROM_ATOM = 4.0  # and by which it refutes the Beta with an atom


UNTOLD = {
    FitStatus.SINGLE_ROLLOUT, FitStatus.FEW_ROLLOUTS, FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD,
    FitStatus.TOO_FEW_PROMPTS,
}  # fmt: skip


class TailStatus(Enum):
    """What the tail of the unsolved share looks like. The value is a sentence."""

    POWER_LAW = (
        "The counts agree with a power law, 1 - pass@k ~ C k^-b. It assumes that pass rates go on towards 0 as a Beta "
        "does; prompts that never pass would end it."
    )
    LEVELS_OFF = (
        "The unsolved share seems to level off near the floor: the counts agree better with a Beta and some prompts "
        "that pass never, or far more rarely than the others, than with a Beta alone. Rates with a "
        "ceiling can look the same. No exponent is given."
    )
    NO_POWER_LAW = (
        "No Beta, with or without prompts that never pass, fits the counts: no exponent of the far tail is given. The "
        "local exponents hold all the same."
    )
    UNKNOWN = "The pilot does not determine how the unsolved share falls."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExponent:
    """Mean exponent of the unsolved share between k and 2k tries: ``log2`` of its ratio (theory.md, eq. 136).

    Attributes:
        k: Tries at the start.
        value: The exponent; None where an unsolved share is 0 or unknown.
        low: Lower limit over all distributions of pass rates.
        high: Upper limit; None where there is none.
        counted: Whether both ends are counted.
    """

    k: int
    value: float | None
    low: float
    high: float | None
    counted: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PassTail(Shown):
    """The tail of 1 - pass@k.

    Attributes:
        status: `TailStatus`; the exponent is given with POWER_LAW alone.
        exponent: b of ``1 - pass@k ~ C k**-b``; None otherwise.
        low: Its lower profile-likelihood limit under a Beta; None without an exponent.
        high: Its upper limit; None where there is none.
        floor: With LEVELS_OFF, the estimated share at which it levels off, else None.
        floor_low: Its lower limit.
        floor_high: Its upper limit.
        never_high: Largest share that may never pass, over all distributions; that it is above 0 no pilot can show.
        likelihood_ratio: By which an atom at 0 improves the Beta; None if unknown.
        reason: With UNKNOWN, why, in words; else empty.
        local: Local exponents, the last counted octave first.
        level: Confidence level.
    """

    status: TailStatus
    exponent: float | None
    low: float | None
    high: float | None
    floor: float | None
    floor_low: float | None
    floor_high: float | None
    never_high: float
    likelihood_ratio: float | None
    reason: str
    local: tuple[LocalExponent, ...] = field(repr=False)
    level: float

    @property
    def halving_factor(self) -> tuple[float | None, float, float | None] | None:
        """Factor on k that halves the unsolved share, ``2**(1/b)``: value, low, high; an end is None if unbounded."""
        if self.exponent is None or self.low is None:
            return None
        least = 1.0 if self.high is None else halving(self.high)
        return halving(self.exponent), 1.0 if least is None else least, halving(self.low)


def halving(exponent: float) -> float | None:
    """Factor on k that halves ``k**-b`` (theory.md, eq. 137); None where it is beyond any number of tries.

    >>> halving(0.5), round(halving(0.193), 1), halving(0.0)
    (4.0, 36.3, None)
    """
    return None if exponent <= LEAST_EXPONENT else float(2.0 ** (1.0 / exponent))


def pass_tail(
    fit: PassRateFit,
    *,
    octaves: Iterable[int] | None = None,
    ks: Iterable[int] | None = None,
    level: float = 0.95,
) -> PassTail:
    """How the unsolved share falls with k: locally for every distribution, and far out under a stated assumption.

    Args:
        fit: Fit of a pilot.
        octaves: k at which the local exponents start, each from k to 2k. Default: the last counted octave, and the
            next one.
        ks: k at which a floor must not lie above the unsolved share of the fit. Default: powers of 2 up to four times
            the rollouts of a prompt, as in `pass_curve`.
        level: Confidence level of each interval.

    Raises:
        DomainError: A k or the level is outside its domain.
        PilotError: The pilot lacks its dead groups, or prompts were removed by their count.

    >>> from grpo_plan.fitting.fit import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> flat = Pilot.from_counts([0, 1, 2, 3, 4] * 100, 4)  # uniform pass rates: 1 / (k + 1), exponent 1
    >>> tail = pass_tail(fit_pass_rates(flat))
    >>> tail.status.name, round(tail.exponent, 2), tail.low < 1.0 < tail.high
    ('POWER_LAW', 1.0, True)
    """
    sure = as_level(level)
    require(fit, PassRateFit, "fit", FIT_FIRST)
    fit.require_all_groups("The tail of pass@k")
    known: dict[str, Any] = {"never_high": _never(fit, sure), "local": _locals(fit, octaves, sure), "level": sure}
    shown = default_ks(fit) if ks is None else as_ks(ks)
    untold = [s for s in fit.statuses if s in UNTOLD]
    if untold:
        return _tail(TailStatus.UNKNOWN, reason=f"{untold[0].name}: {untold[0].sentence}", **known)
    histogram = fit.pilot.histogram()
    likelihood = TailLikelihood.of(histogram)
    ratio = likelihood.ratio
    known["likelihood_ratio"] = ratio
    smooth = fit_average(condensed(histogram), fit.beta.rates).fits
    bend = 2.0 * (max(f.log_likelihood for f in smooth) - smooth[0].log_likelihood)
    atom = ratio > atom_threshold(sure)
    if fit.nonparametric_share > MISFIT or bend - ratio > (BENT_FROM_ATOM if atom else BENT):
        return _tail(TailStatus.NO_POWER_LAW, **known)
    if atom:
        floor, floor_low, floor_high = likelihood.floor(sure)
        doubt = _doubt(fit, shown, floor, floor_low)
        if doubt:
            return _tail(TailStatus.UNKNOWN, reason=doubt, **known)
        return _tail(TailStatus.LEVELS_OFF, floor=floor, floor_low=floor_low, floor_high=floor_high, **known)
    exponent, low, high = likelihood.exponent(sure)
    if exponent is None:
        return _tail(TailStatus.UNKNOWN, reason="The pass rates are too much alike for an exponent.", **known)
    return _tail(TailStatus.POWER_LAW, exponent=exponent, low=low, high=high, **known)


def _tail(status: TailStatus, **known: Any) -> PassTail:
    blank: dict[str, Any] = dict.fromkeys(("exponent", "low", "high", "floor", "floor_low", "floor_high"))
    return PassTail(status=status, **{**blank, "likelihood_ratio": None, "reason": "", **known})


def _doubt(fit: PassRateFit, ks: Iterable[int], floor: float, floor_low: float) -> str:
    """Why a floor is not told, or nothing: its limits hold 0, or the fitted curve is below it (theory.md, eq. 138)."""
    better = "A Beta with prompts that never pass fits better than one without, but "
    if floor_low <= 0.0:
        return f"{better}that share may as well be 0."
    for k in sorted(set(ks)):
        passed = fit.pass_at(k).value
        if passed is not None and floor > 1.0 - passed:
            return f"{better}that share would be {floor:.3f}, above 1 - pass@{k} = {1.0 - passed:.3f} of the fit."
    return ""


def _never(fit: PassRateFit, level: float) -> float:
    never = replace(custom(lambda p: (p <= 0.0).astype(np.float64), "never"), pushed_up_by="all-fail")
    return min(fit.upper_limit_of(never, level), 1.0)


def _locals(fit: PassRateFit, octaves: Iterable[int] | None, level: float) -> tuple[LocalExponent, ...]:
    """Those asked for; by default the last counted octave, and the next one."""
    counted = fit.max_counted_group_size
    default = [counted // 2, counted] if counted > 1 else []
    starts = default if octaves is None else [as_one_group_size(k, "octaves") for k in octaves]
    return tuple(local_exponent(fit, k, level=level) for k in starts)


def local_exponent(fit: PassRateFit, k: int, *, level: float = 0.95) -> LocalExponent:
    """Mean exponent of the unsolved share between k and 2k, with limits over all F (theory.md, eq. 136).

    The ratio ``E[q**2k] / E[q**k]`` is below r for every F within the likelihood threshold exactly where the largest
    ``E[q**2k - r q**k]`` among them is below 0: its limits are roots of the limits of linear means.
    """
    size, sure = as_one_group_size(k, "k"), as_level(level)
    require(fit, PassRateFit, "fit", FIT_FIRST)
    parts = [fit.pass_at(j, sure).value for j in (size, 2 * size)]
    start, end = (None if p is None else 1.0 - p for p in parts)
    value = log2(start / end) + 0.0 if start and end and start > 0.0 and end > 0.0 else None
    most, least = _ratio_limit(fit, size, sure, 1.0), _ratio_limit(fit, size, sure, -1.0)
    low, high = -log2(most) + 0.0, -log2(least) if least > ACCURACY else None
    if value is not None:
        low, high = min(low, value), None if high is None else max(high, value)
    return LocalExponent(k=size, value=value, low=low, high=high, counted=2 * size <= fit.max_counted_group_size)


def _ratio_limit(fit: PassRateFit, k: int, level: float, sign: float) -> float:
    """Largest (sign 1) or smallest (sign -1) ratio of unsolved shares."""

    def excess(ratio: float) -> float:
        mean = Functional(
            name=f"unsolved({2 * k}) - {ratio:g} unsolved({k})",
            degree=2 * k,
            phi=lambda p, q: sign * (power(q, p, 2 * k) - ratio * power(q, p, k)),
            kernel=lambda s, n: s,
            pushed_up_by="all-fail" if sign > 0.0 else "some-pass",
        )
        return fit.upper_limit_of(mean, level)

    low, high = ACCURACY, 1.0 - ACCURACY
    at_low, at_high = excess(low), excess(high)
    if sign * at_high >= 0.0:  # falls in the ratio for the largest, rises for the smallest
        return 1.0
    if sign * at_low <= 0.0:
        return low
    from scipy.optimize import brentq

    return float(brentq(excess, low, high, xtol=ACCURACY))
