"""How each estimator of the registry turns any rewards into advantages (theory.md, eq. 105 and 108).

Without a trainer an estimator is its formula: nothing is added to a standard deviation, what cannot be divided gets 0,
and failed rollouts are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from grpo_plan.errors import DomainError
from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.rewards import Floats
from grpo_plan.estimators.special import best_of_k, focal, virtual_best, weighted_sign

Special = Callable[[Floats, Floats, Convention, Mapping[str, float]], Floats]
Wants = Literal["any", "unit", "unit_mean", "passes", "at_least_zero"]
STD = {"population": 0, "sample": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Rewards to advantages of one estimator.

    Attributes:
        convention: The steps; of a special one, its scaling and what happens at the edges.
        special: What replaces baseline and scale, if anything.
        extras: Settings beside those of the registry, which 0/1 rewards do not need.
        wants: Rewards it is defined for: ``any``; ``unit``: in [0, 1], or passes by a threshold instead; ``unit_mean``:
            the same for its group mean only; ``passes``: 0 and 1, or by a threshold; ``at_least_zero``.
    """

    convention: Convention
    special: Special | None = None
    extras: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    wants: Wants = "any"

    def with_spread(self, std: str | None, eps: float | None) -> Computed:
        """The same with another standard deviation or another number that keeps it from zero.

        Raises:
            DomainError: Nothing is divided, or ``std`` is unknown.
        """
        if std is None and eps is None:
            return self
        if std is not None and std not in STD:
            raise DomainError(f"std must be population or sample; got {std!r}.")
        scaling = self.convention.scaling or self.convention.whitening
        if scaling is None or self.convention.scale == "group_mean" or (std is not None and self.special is best_of_k):
            word = "std" if std is not None else "eps"
            raise DomainError(f"{self.convention.name} has no choice of {word}; leave it out.")
        changed = Scaling(
            ddof=scaling.ddof if std is None else STD[std],
            eps=scaling.eps if eps is None else eps,
            not_positive="divide" if eps else scaling.not_positive,
        )
        if self.convention.scaling is None:
            return replace(self, convention=replace(self.convention, whitening=changed))
        return replace(self, convention=replace(self.convention, scaling=changed))


def _std(ddof: int) -> Scaling:
    return Scaling(ddof=ddof, eps=0.0, not_positive="zero")


def _plain(name: str, **choices: object) -> Convention:
    return Convention(name=name, partial="ignored", failed="left_out", **choices)  # type: ignore[arg-type]


def _grpo(name: str, ddof: int = 0, **choices: object) -> Convention:
    return _plain(name, scale="group", scaling=_std(ddof), **choices)


COMPUTED: Mapping[str, Computed] = {
    "grpo": Computed(convention=_grpo("grpo")),
    "grpo_sample": Computed(convention=_grpo("grpo_sample", 1)),
    "grpo_batch": Computed(convention=_plain("grpo_batch", scale="batch", scaling=_std(0))),
    "dr_grpo": Computed(convention=_plain("dr_grpo")),
    "rloo": Computed(convention=_plain("rloo", baseline="leave_one_out")),
    "maxrl": Computed(convention=_plain("maxrl", scale="group_mean", scaling=_std(0)), wants="at_least_zero"),
    "sign": Computed(convention=_plain("sign", baseline="none", gain=2.0, offset=-1.0), wants="unit"),
    "reinforce": Computed(convention=_plain("reinforce", baseline="none")),
    "reinforce_plus_plus": Computed(
        convention=_plain("reinforce_plus_plus", baseline="none", whiten="rollouts", whitening=_std(0))
    ),
    "reinforce_plus_plus_baseline": Computed(
        convention=_plain("reinforce_plus_plus_baseline", whiten="rollouts", whitening=_std(0))
    ),
    "gdpo": Computed(convention=_grpo("gdpo", combine="normalize_then_sum", whiten="rollouts", whitening=_std(0))),
    "f_grpo": Computed(convention=_grpo("f_grpo"), special=focal, wants="unit_mean"),
    "ngrpo": Computed(convention=_grpo("ngrpo", 1), special=virtual_best, extras={"best_reward": 1.0}),
    "dapo": Computed(convention=_grpo("dapo", filter_tolerance=0.0)),
    "passk": Computed(convention=_grpo("passk"), special=best_of_k),
    "grpo_passk": Computed(convention=_grpo("grpo_passk", 1, baseline="top_two")),
    "opo": Computed(convention=_plain("opo", baseline="length_weighted_mean")),
    "gpg": Computed(convention=_plain("gpg", scale="nonzero_share")),
    "nsr": Computed(convention=_plain("nsr", baseline="none", offset=-1.0), wants="passes"),
    "w_reinforce": Computed(convention=_plain("w_reinforce", baseline="none"), special=weighted_sign, wants="passes"),
}
