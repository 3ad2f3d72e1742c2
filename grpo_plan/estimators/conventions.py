"""How a trainer turns the rewards of a batch of groups into advantages: every choice that changes a number.

Steps, in order: clip the rewards; combine the reward functions; subtract a baseline; divide by a spread; clip;
whiten over the batch; give failed rollouts theirs. `Convention` names the choice at each step and computes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from grpo_plan._suggest import not_one_of
from grpo_plan.errors import DomainError

EpsPlace = Literal["std", "variance", "floor_std", "floor_variance", "none"]
NotPositive = Literal["divide", "keep", "zero"]
Combine = Literal["sum", "normalize_then_sum"]
Partial = Literal["ignored", "spreads"]
Baseline = Literal[
    "none", "group_mean", "leave_one_out", "batch_mean", "length_weighted_mean", "top_two", "top_two_keep"
]
Scale = Literal["none", "group", "batch", "leave_one_out", "group_mean", "nonzero_share"]
Whiten = Literal["none", "rollouts", "tokens"]
Single = Literal["zero", "reward", "nan", "refused"]
Failed = Literal["left_out", "as_zero", "spreads", "refused"]


def _one_of(name: str, value: object, kind: object) -> None:
    if value not in get_args(kind):
        raise DomainError(not_one_of(name, value, get_args(kind)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """A division by a spread s.

    Attributes:
        ddof: 0 for the population spread, 1 for the sample spread. Of no effect where s is a mean.
        eps: What keeps the division from zero; at least 0.
        eps_place: ``std``: over s + eps. ``variance``: over sqrt(s**2 + eps). ``floor_std``: over max(s, eps).
            ``floor_variance``: over sqrt(max(s**2, eps)). ``none``: over s.
        not_positive: What happens where s is not above 0: ``divide`` all the same, ``keep`` the value undivided, or
            set it to ``zero``.

    >>> Scaling(ddof=1, eps=1e-4).divisor(0.5)
    0.5001
    """

    ddof: int
    eps: float
    eps_place: EpsPlace = "std"
    not_positive: NotPositive = "divide"

    def __post_init__(self) -> None:
        if self.ddof not in (0, 1):
            raise DomainError(f"ddof must be 0 (population) or 1 (sample); got {self.ddof!r}.")
        if not (isinstance(self.eps, (int, float)) and math.isfinite(self.eps) and self.eps >= 0):
            raise DomainError(f"eps must be a finite number of at least 0; got {self.eps!r}.")
        _one_of("eps_place", self.eps_place, EpsPlace)
        _one_of("not_positive", self.not_positive, NotPositive)

    def divisor(self, spread: float) -> float:
        """What a value is divided by when the spread is this.

        Raises:
            DomainError: The spread is negative, or the divisor would be 0.
        """
        if not spread >= 0:
            raise DomainError(f"a spread must be at least 0; got {spread!r}.")
        found = {
            "std": spread + self.eps,
            "variance": math.sqrt(spread**2 + self.eps),
            "floor_std": max(spread, self.eps),
            "floor_variance": math.sqrt(max(spread**2, self.eps)),
            "none": spread,
        }[self.eps_place]
        if found == 0:
            raise DomainError("the spread is 0 and no eps keeps the division from zero: set eps, or drop dead groups.")
        return found

    def words(self) -> str:
        """The division in words, e.g. ``sample std + 1e-4``."""
        std = "sample std" if self.ddof else "population std"
        eps = f"{self.eps:.0e}".replace("e-0", "e-")
        text = {
            "std": f"{std} + {eps}" if self.eps else std,
            "variance": f"sqrt({std}^2 + {eps})",
            "floor_std": f"max({std}, {eps})",
            "floor_variance": f"sqrt(max({std}^2, {eps}))",
            "none": std,
        }[self.eps_place]
        return text + {"divide": "", "keep": ", not divided if 0", "zero": ", 0 if not positive"}[self.not_positive]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One way to turn rewards, shape (N, G) or (N, G, R), into advantages.

    Attributes:
        name: Trainer and setting, e.g. ``trl/group``.
        combine: Several reward functions: ``sum`` their weighted rewards first, or ``normalize_then_sum``: baseline and
            scale for each function, then the weighted sum.
        partial: A rollout that some reward functions could not score: those are ``ignored``, or the failure ``spreads``
            to its sum. Under ``normalize_then_sum``, ``ignored`` also leaves it out of that function's mean and spread.
        baseline: What is subtracted. ``length_weighted_mean``: mean weighted by response lengths (OPO). ``top_two``:
            only the best rollout has an advantage, its distance to the second best. ``top_two_keep``: the same, and the
            others keep their reward.
        scale: What divides then. ``batch``: the spread of all rewards. ``leave_one_out``: the spread of the others of
            the group. ``group_mean``: the group's mean reward. ``nonzero_share``: the share of rollouts of the batch
            whose reward is not 0, and at least 1 rollout.
        scaling: How ``scale`` divides; None for ``none`` and ``nonzero_share``.
        clip: Bounds on the rewards or the advantages, or None.
        clip_of: Which of them: rewards before all else, or advantages after `scale` and before `whiten`.
        whiten: A last step over the batch, each rollout counted once, or once for each of its tokens.
        whiten_centre: Whether it subtracts the batch mean.
        whitening: How it divides; None if it does not.
        single: A group with one scored rollout: advantage ``zero``, the ``reward`` itself (mean taken as 0, spread as
            1), ``nan``, or ``refused``. Whitening still applies.
        failed: A rollout without a reward: ``left_out`` of means and spreads, with advantage 0; reward ``as_zero``;
            its NaN ``spreads`` to its group, and through whitening to the batch; ``refused``.
        filter_tolerance: Groups with a population spread of at most this are dropped first; None: none are.
        gain: Factor on the rewards, with `offset`: Sign is 2 r - 1 without baseline.
        offset: Added after `gain`.
    """

    name: str
    combine: Combine = "sum"
    partial: Partial = "spreads"
    baseline: Baseline = "group_mean"
    scale: Scale = "none"
    scaling: Scaling | None = None
    clip: tuple[float, float] | None = None
    clip_of: Literal["advantage", "reward"] = "advantage"
    whiten: Whiten = "none"
    whiten_centre: bool = True
    whitening: Scaling | None = None
    single: Single = "zero"
    failed: Failed = "spreads"
    filter_tolerance: float | None = None
    gain: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("combine", self.combine, Combine), ("partial", self.partial, Partial),
            ("baseline", self.baseline, Baseline), ("scale", self.scale, Scale),
            ("whiten", self.whiten, Whiten), ("single", self.single, Single), ("failed", self.failed, Failed),
            ("clip_of", self.clip_of, Literal["advantage", "reward"]),
        ):  # fmt: skip
            _one_of(name, value, kind)
        if (self.scaling is None) != (self.scale in ("none", "nonzero_share")):
            raise DomainError(f"scaling goes with scale; got scale {self.scale!r} and scaling {self.scaling!r}.")
        if self.whitening is not None and self.whiten == "none":
            raise DomainError("whitening says how whiten divides, and whiten is none: set whiten, or drop whitening.")
        if self.clip is not None and not self.clip[0] < self.clip[1]:
            raise DomainError(f"clip must be (low, high) with low below high; got {self.clip!r}.")
        if self.filter_tolerance is not None and not self.filter_tolerance >= 0:
            raise DomainError(f"filter_tolerance must be at least 0; got {self.filter_tolerance!r}.")
        if not (math.isfinite(self.gain) and math.isfinite(self.offset)):
            raise DomainError(f"gain and offset must be finite; got {self.gain!r} and {self.offset!r}.")

    @property
    def needs_lengths(self) -> bool:
        """Whether the advantages depend on the lengths of the responses."""
        return self.baseline == "length_weighted_mean" or self.whiten == "tokens"

    @property
    def needs_batch(self) -> bool:
        """Whether the advantages of a group depend on the other groups of its batch."""
        return self.whiten != "none" or self.scale in ("batch", "nonzero_share") or self.baseline == "batch_mean"

    @property
    def dead_group(self) -> str:
        """Advantage of the rollouts of a dead group, in words.

        >>> Convention(name="x", baseline="none").dead_group
        'as any rollout'
        """
        if self.baseline in ("none", "batch_mean"):
            return "as any rollout"
        if self.baseline == "top_two_keep":
            return "0 for one, the reward for the others"
        if self.whiten == "tokens" and self.whiten_centre:
            return "near 0: minus the token mean of the batch"
        if self.combine == "normalize_then_sum":
            return "0 if every function's rewards are equal, or cancel"
        return "0"

    def words(self) -> str:
        """The convention as one phrase.

        >>> Convention(name="x", scale="group", scaling=Scaling(ddof=1, eps=1e-4)).words()
        'reward minus group mean, over (sample std + 1e-4)'
        """
        base = {
            "none": "reward",
            "group_mean": "reward minus group mean",
            "leave_one_out": "reward minus mean of the others",
            "batch_mean": "reward minus batch mean",
            "length_weighted_mean": "reward minus length-weighted group mean",
            "top_two": "best reward minus second best, 0 for the others",
            "top_two_keep": "best reward minus second best, the others keep their reward",
        }[self.baseline]
        if (self.gain, self.offset) != (1.0, 0.0):
            base = base.replace("reward", f"({self.gain:g} reward {self.offset:+g})", 1)
        parts = [base]
        if self.scaling is not None:
            of = {"group": "", "batch": " of the batch", "leave_one_out": " of the others"}.get(self.scale, "")
            text = self.scaling.words()
            if self.scale == "group_mean":
                text = text.replace("sample std", "group mean").replace("population std", "group mean")
            division, _, rest = text.partition(", ")
            parts.append(f"over ({division}){of}" + (f", {rest}" if rest else ""))
        if self.scale == "nonzero_share":
            parts.append("over the share of nonzero rewards")
        if self.combine == "normalize_then_sum":
            parts.append("for each reward function, then the weighted sum")
        if self.clip is not None:
            parts.append(f"{self.clip_of}s clipped to [{self.clip[0]:g}, {self.clip[1]:g}]")
        if self.whiten != "none":
            done = "centred" if self.whiten_centre else ""
            if self.whitening is not None:
                done += (" and " if done else "") + f"divided by {self.whitening.words()}"
            parts.append(f"{done} over the {self.whiten} of the batch")
        return ", ".join(parts)
