"""Hints: groups whose pass rates are shifted, always or after an all-fail group (theory.md, eq. 120)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, as_one_probability, as_positive
from grpo_plan.errors import DomainError
from grpo_plan.fitting.functionals import Functional, dead
from grpo_plan.passrates.discrete import power

Floats = NDArray[np.float64]
MOMENTS = ("all-fail", "always")
MAX_TRIES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What a hint is taken to do. It is assumed, not known from the pilot.

    Attributes:
        odds: The odds of a pass, ``p / (1 - p)``, are multiplied by this; a prompt that never passes stays so.
        gain: This share of the fails becomes a pass, ``p + (1 - p) gain``; give one of the two.
        share: Share of the prompts that have a hint, whatever their pass rates.
        when: ``"all-fail"``: a group without a pass is drawn again with the hint (HiLL, SAGE); ``"always"``: the hint
            is there from the start.
        tries: Hints tried on an all-fail group, a group of G rollouts each; one that mixes is kept (HiLL: 4).
    """

    odds: float | None = None
    gain: float | None = None
    share: float = 1.0
    when: str = "all-fail"
    tries: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        if (self.odds is None) == (self.gain is None):
            raise DomainError(
                "A hint needs odds or gain, one of them: odds=3 triples the odds of a pass, gain=0.2 turns a fifth of "
                "the fails into passes."
            )
        if self.odds is not None:
            object.__setattr__(self, "odds", as_positive(self.odds, "hint odds"))
        if self.gain is not None:
            object.__setattr__(self, "gain", as_one_probability(self.gain, "hint gain"))
        object.__setattr__(self, "share", as_one_probability(self.share, "hint share"))
        object.__setattr__(self, "tries", as_count(self.tries, "hint tries", maximum=MAX_TRIES))
        if self.when not in MOMENTS:
            raise DomainError(not_one_of("hint when", self.when, MOMENTS))
        if self.when == "always" and self.tries > 1:
            raise DomainError(f"hint tries need when='all-fail': a hint from the start is one; got {self.tries} tries.")

    def shifted(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        """Pass and fail rate with the hint.

        >>> Hint(odds=3.0).shifted(np.array([0.25]), np.array([0.75]))[0].tolist()
        [0.5]
        """
        if self.gain is not None:
            return p + q * self.gain, q * (1.0 - self.gain)
        whole = q + p * float(self.odds or 0.0)
        return p * float(self.odds or 0.0) / whole, q / whole

    @property
    def words(self) -> str:
        """The shift in words."""
        shift = f"odds of a pass x {self.odds:g}" if self.odds is not None else f"p + (1 - p) x {self.gain:g}"
        return shift + ("" if self.share == 1.0 else f" on {self.share:g} of the prompts")


def hinted_parts(hint: Hint, group_size: int) -> dict[str, Functional]:
    """The dead share and its two parts among the groups that are trained on, and the share that is drawn again.

    Keys: "dead", "all-fail", "all-pass", "again" (all-fail groups of prompts with a hint), and "saved" (groups that
    the hint makes mixed; a hint from the start can make this negative).
    """
    g, w = group_size, hint.share
    of_group = dead(g).phi

    def again(p: Floats, q: Floats) -> Floats:
        return w * power(q, p, g) if hint.when == "all-fail" else np.zeros_like(p)

    def saved(p: Floats, q: Floats) -> Floats:
        after = of_group(*hint.shifted(p, q))
        if hint.when == "all-fail":
            return w * power(q, p, g) * (1.0 - after**hint.tries)
        return w * (of_group(p, q) - after)

    def fails(p: Floats, q: Floats) -> Floats:
        if hint.when == "all-fail":
            return power(q, p, g) - saved(p, q)
        ps, qs = hint.shifted(p, q)
        return (1.0 - w) * power(q, p, g) + w * power(qs, ps, g)

    def passes(p: Floats, q: Floats) -> Floats:
        if hint.when == "all-fail":
            return power(p, q, g)
        ps, qs = hint.shifted(p, q)
        return (1.0 - w) * power(p, q, g) + w * power(ps, qs, g)

    phis = {
        "dead": lambda p, q: fails(p, q) + passes(p, q),
        "all-fail": fails,
        "all-pass": passes,
        "again": again,
        "saved": saved,
    }
    pushed = {"dead": "dead", "all-fail": "all-fail", "all-pass": "all-pass", "again": "all-fail", "saved": "all-fail"}
    return {
        name: Functional(name=f"{name} with a hint", degree=g, phi=phi, kernel=no_kernel, pushed_up_by=pushed[name])
        for name, phi in phis.items()
    }


def no_kernel(k: Floats, n: Floats) -> Floats:
    """These means have limits by the likelihood alone."""
    raise NotImplementedError("no unbiased kernel")
