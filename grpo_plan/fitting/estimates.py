"""Estimates that find their limits when these are asked for: the dead fraction, and means over F in general."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from grpo_plan._shown import Shown
from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.status import FitStatus

Limits = tuple[float, float]
METHODS = {
    "exact": "one rollout always agrees with itself",
    "u-statistic": "unbiased subgroup count",
    "average": "Beta and tilted Betas, averaged by evidence and joined to the subgroup count at n; the middle of "
    "the likelihood interval where none of them fits",
    "beta": "Beta fit",
    "tilted-beta": "tilted Beta fits, averaged by evidence",
    "inflated-beta": "Beta fit with atoms at 0 and 1",
    "nonparametric": "nonparametric maximum likelihood",
    "survivors": "smooth distribution without prompts that always or never pass, fitted to the mixed groups alone",
    "unknown": "not determined by this pilot",
}


class LimitsSource(Protocol):
    """What an estimate asks its fit for."""

    def group_limits(self, kind: str, group_size: int, level: float, simultaneous: bool) -> Limits:
        """Confidence limits of "dead", "all-pass" or "all-fail" at one G."""

    def limits_of(self, functional: Functional, level: float) -> Limits:
        """Confidence limits of another mean."""

    def identified_of(self, functional: Functional) -> Limits | None:
        """Values that no number of prompts could rule out; None where no smooth F fits."""

    def smooth_limits(self, group_size: int, level: float) -> Limits | None:
        """Limits of D(G) if F is smooth; None where there is no smooth fit."""

    def dead_functional(self, group_size: int) -> Functional:
        """The functional of D(G)."""

    def status_at(self, group_size: int, value: float | None, limits: Limits) -> FitStatus:
        """What a number at this G can and cannot say."""


def _holding(limits: Limits | None, value: float | None) -> Limits | None:
    """A range that holds the value."""
    if limits is None or value is None:
        return limits
    return min(limits[0], value), max(limits[1], value)


def _shown(value: float | None, limits: Limits, level: float) -> str:
    known = "unknown" if value is None else f"{value:.4g}"
    return f"{known} [{limits[0]:.4g}, {limits[1]:.4g}] ({100 * level:.6g} %)"


@dataclass(frozen=True, kw_only=True, repr=False)
class DeadFraction(Shown):
    """Expected share of dead groups at one group size, and its two parts.

    Limits are computed when first read, from all F that the pilot leaves possible.

    Attributes:
        group_size: G.
        value: D(G), in [0, 1]; None when the pilot does not determine it.
        level: Confidence level of the limits.
        all_pass: Part whose rollouts all pass.
        all_fail: Part whose rollouts all fail.
        iid: ``pbar**G + (1 - pbar)**G`` at the mean pass rate: what the i.i.d. formula says.
        plug_in: Mean of the formula at each prompt's k/n: biased up.
        method: One of `METHODS`.
        prompts_used: Prompts that entered ``value``.
        simultaneous: Whether the limits hold at all G at once.
    """

    group_size: int
    value: float | None
    level: float
    all_pass: float | None
    all_fail: float | None
    iid: float
    plug_in: float
    method: str
    prompts_used: int
    simultaneous: bool = False
    _source: LimitsSource = field(repr=False, compare=False)

    @cached_property
    def interval(self) -> Limits:
        """``(low, high)``, the confidence limits of D(G)."""
        if self.group_size == 1:
            return 1.0, 1.0
        return self._source.group_limits("dead", self.group_size, self.level, self.simultaneous)

    @property
    def low(self) -> float:
        """Lower confidence limit."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """Upper confidence limit."""
        return self.interval[1]

    @cached_property
    def all_pass_interval(self) -> Limits:
        """Confidence limits of ``all_pass``."""
        return self._source.group_limits("all-pass", self.group_size, self.level, self.simultaneous)

    @cached_property
    def all_fail_interval(self) -> Limits:
        """Confidence limits of ``all_fail``."""
        return self._source.group_limits("all-fail", self.group_size, self.level, self.simultaneous)

    def __str__(self) -> str:
        """Value, limits and status in one line."""
        return f"D({self.group_size}) = {_shown(self.value, self.interval, self.level)}, {self.status.name}"

    @property
    def mixed(self) -> float | None:
        """Expected share of mixed groups, ``1 - value``."""
        return None if self.value is None else 1.0 - self.value

    @property
    def jensen_gap(self) -> float | None:
        """``value - iid``."""
        return None if self.value is None else self.value - self.iid

    @cached_property
    def identified(self) -> Limits | None:
        """Values that no number of prompts could rule out at this n, if F is as fitted; equal ends where G <= n.

        None where no smooth F fits the pilot: nothing is known then of the law behind it.
        """
        if self.method in ("exact", "u-statistic") and self.value is not None:
            return self.value, self.value
        return _holding(self._source.identified_of(self._source.dead_functional(self.group_size)), self.value)

    @cached_property
    def smooth_interval(self) -> Limits | None:
        """Narrower limits that assume a smooth F; not honest for atoms and far G (docs/calibration.md)."""
        return self._source.smooth_limits(self.group_size, self.level)

    @cached_property
    def status(self) -> FitStatus:
        """What the number can and cannot say."""
        return self._source.status_at(self.group_size, self.value, self.interval)


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Shown):
    """A mean over F with its limits.

    Attributes:
        name: What it is.
        value: The estimate; None when the pilot does not determine it.
        level: Confidence level of the limits.
    """

    name: str
    value: float | None
    level: float
    _functional: Functional = field(repr=False, compare=False)
    _source: LimitsSource = field(repr=False, compare=False)
    _known: Limits | None = field(default=None, repr=False, compare=False)

    @cached_property
    def interval(self) -> Limits:
        """``(low, high)``; they always hold the value."""
        low, high = self._known or self._source.limits_of(self._functional, self.level)
        return (low, high) if self.value is None else (min(low, self.value), max(high, self.value))

    @property
    def low(self) -> float:
        """Lower confidence limit."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """Upper confidence limit."""
        return self.interval[1]

    def __getstate__(self) -> dict[str, object]:
        """What a copy or a pickle holds: the limits themselves, since functions of p cannot be pickled."""
        kept = {"interval": self.interval, "identified": self.identified}
        return {**self.__dict__, **kept, "_functional": None, "_source": None}

    def __str__(self) -> str:
        """Value and limits in one line."""
        return f"{self.name} = {_shown(self.value, self.interval, self.level)}"

    @cached_property
    def identified(self) -> Limits | None:
        """Values that no number of prompts could rule out at this n, if F is as fitted; None where no smooth F fits."""
        return _holding(self._source.identified_of(self._functional), self.value)
