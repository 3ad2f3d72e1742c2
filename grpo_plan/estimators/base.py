"""An advantage estimator: what it makes of rewards, and its closed-form signal and noise at 0/1 rewards.

Under 0/1 rewards an estimator is a pair of numbers for each count of passes k: the advantage of a pass and that of a
fail. Signal and noise of one group follow from the pair, and their means over prompts are linear in the law of the
passes in groups of one size (theory.md, eq. 24, 25 and 100 to 102):

- centred (the advantages of a group sum to 0, so dead groups count for nothing): the law of k in groups of G;
- flat (the pair is the same for every k): the law in groups of 4, whatever G is;
- any other: the law in groups of G + 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan._suggest import did_you_mean
from grpo_plan._validate import (
    MAX_SUMMED_GROUP_SIZE,
    as_count,
    as_float_array,
    as_one_probability,
    as_positive,
    as_probability,
)
from grpo_plan.errors import DomainError
from grpo_plan.estimators.computed import COMPUTED, Computed
from grpo_plan.estimators.moments import GroupMoments, Weights, centred_weights, flat_weights, general_weights

Floats = NDArray[np.float64]
Parameters = Mapping[str, float]
Pair = Callable[[Floats, int, Parameters], tuple[Floats, Floats]]
Scale = Callable[[Floats, int], float]
NONE: Parameters = MappingProxyType({})
WHOLE = ("k",)  # settings that are whole numbers of at least 1; the others are numbers of at least 0
LARGEST_SETTING = 1e6  # its square, over a batch, stays finite
PLAIN = COMPUTED["reinforce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """An advantage estimator.

    Attributes:
        name: How it is asked for.
        pair_of: Advantage of a pass and of a fail, each shape (G + 1,), from k = 0..G, G and the parameters. The entry
            for a pass at k = 0 and for a fail at k = G belongs to no rollout.
        description: The advantage in words.
        objective: What its expected step ascends, in words.
        source: Where the formula is from.
        centred: Whether the advantages of a group sum to 0 and dead groups have none.
        flat: Whether the pair does not depend on k.
        batch: Whether the pair depends on the mean pass rate of the batch (parameter ``mean_pass_rate``).
        parameters: Settings of the formula by name, with their values.
        scale_of: One number of the whole batch that a trainer divides the pair by, from the law of k, shape (G + 1,),
            and G; no plan depends on it (theory.md, eq. 102). None: it divides by none.
        above: The setting that the group size must exceed, "" if there is none.
        changed: Names of the settings that were given.
        computed: How any rewards become advantages; `grpo_plan.advantages` uses it.
    """

    name: str
    pair_of: Pair
    description: str
    objective: str = ""
    source: str = ""
    centred: bool = True
    flat: bool = False
    batch: bool = False
    parameters: Parameters = field(default_factory=lambda: NONE)
    scale_of: Scale | None = None
    above: str = ""
    changed: tuple[str, ...] = ()
    computed: Computed = PLAIN

    @property
    def label(self) -> str:
        """How it is asked for, settings that were given included: ``parse_estimator`` reads it back."""
        given = [f"{name}={self.parameters[name]:.12g}" for name in self.changed]
        return f"{self.name}:{','.join(given)}" if given else self.name

    @property
    def min_group_size(self) -> int:
        """Smallest group that can have an advantage."""
        return 1 + int(self.parameters[self.above]) if self.above else 2

    def with_parameters(self, **values: float) -> Estimator:
        """The same estimator with other settings.

        Raises:
            DomainError: It has no setting of that name, or the value lies outside its domain.
        """
        settings = set(self.parameters) - {"mean_pass_rate"}
        unknown = sorted(set(values) - settings - ({"mean_pass_rate"} if self.batch else set()))
        if unknown:
            known = ", ".join(sorted(settings)) or "none"
            raise DomainError(
                f"{self.name} has no setting {unknown[0]!r}; its settings: {known}.{did_you_mean(unknown[0], settings)}"
            )
        checked = {name: _as_setting(value, self, name) for name, value in values.items()}
        changed = tuple(name for name in self.parameters if name in settings & {*values, *self.changed})
        return replace(self, parameters=MappingProxyType({**self.parameters, **checked}), changed=changed)

    def pair(self, group_size: int) -> tuple[Floats, Floats]:
        """Advantages of a pass and of a fail at k = 0..G passes, each shape (G + 1,); 0 where there is no such rollout.

        >>> from grpo_plan.estimators import get_estimator
        >>> [x.tolist() for x in get_estimator("dr_grpo").pair(2)]
        [[0.0, 0.5, 0.0], [0.0, -0.5, 0.0]]
        """
        g = as_count(group_size, "group_size", minimum=2)
        if g < self.min_group_size:
            raise DomainError(
                f"{self.label} needs groups of at least {self.min_group_size} rollouts, one more than its "
                f"{self.above}; got {g}. Smaller groups have no advantage."
            )
        if self.batch and "mean_pass_rate" not in self.parameters:
            raise DomainError(
                f"{self.name} needs the mean pass rate of the batch: with_parameters(mean_pass_rate=...)."
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            passed, failed = self.pair_of(np.arange(g + 1.0), g, self.parameters)
        passed, failed = (np.array(np.broadcast_to(x, g + 1), dtype=np.float64) for x in (passed, failed))
        passed[0] = failed[g] = 0.0
        if self.centred:
            passed[g] = failed[0] = 0.0
        return passed, failed

    def signal(self, group_size: int) -> Floats:
        """``t(k) = k A+(k) / G`` for k = 0..G, shape (G + 1,): estimate along the true gradient, in units of h.

        Raises:
            DomainError: The estimator is not centred: its signal depends on p as well as on k.
        """
        if not self.centred:
            raise DomainError(f"{self.name} is not centred: ask for its moments, which need the pass rate.")
        passed, _ = self.pair(group_size)
        return np.arange(group_size + 1.0) * passed / group_size

    def noise(self, group_size: int) -> Floats:
        """``v(k) = (k A+**2 + (G - k) A-**2) / G**2`` for k = 0..G, shape (G + 1,): weight of the score noise."""
        passed, failed = self.pair(group_size)
        k = np.arange(group_size + 1.0)
        noise: Floats = (k * passed**2 + (group_size - k) * failed**2) / group_size**2
        return noise

    def weights(self, group_size: int) -> Weights:
        """Moments as linear functions of one law: its group size, and weights of E[t], E[t**2] and E[v].

        Each array has shape (size + 1,): the moment is its product with the law of k in groups of that size.
        """
        passed, failed = self.pair(group_size)
        if self.centred:
            return centred_weights(passed, failed)
        return flat_weights(passed[-1], failed[0], group_size) if self.flat else general_weights(passed, failed)

    def law_size(self, group_size: int) -> int:
        """Size of the groups whose law of passes the moments need."""
        return group_size if self.centred else 4 if self.flat else group_size + 2

    def for_mean(self, mean_pass_rate: float) -> Estimator:
        """The estimator in a large batch of this mean pass rate: itself if the batch does not matter to it."""
        if not self.batch:
            return self
        return self.with_parameters(mean_pass_rate=as_one_probability(mean_pass_rate, "mean_pass_rate"))

    def given(self, pass_rates: Floats, group_size: int) -> tuple[Floats, Floats, Floats]:
        """``E[t | p]``, ``E[t**2 | p]`` and ``E[v | p]`` of each prompt, each shape (P,) (theory.md, eq. 100).

        Args:
            pass_rates: p of each prompt, shape (P,), in [0, 1].
            group_size: G, at least 2.

        >>> from grpo_plan.estimators import get_estimator
        >>> [x.tolist() for x in get_estimator("rloo").given(np.array([0.5]), 2)]
        [[0.25], [0.125], [0.25]]
        """
        size, *weights = self.weights(group_size)
        counts, chances = binomial_window(size, as_probability(pass_rates, "pass_rates").ravel())
        signal, square, noise = ((chances * weight[counts]).sum(axis=1) for weight in weights)
        return signal, square, noise

    def parts(self, pass_rates: Floats, group_size: int) -> tuple[Floats, Floats, Floats]:
        """Shares of ``E[t | p]`` from all-fail, mixed and all-pass groups, each shape (P,) (theory.md, eq. 104).

        >>> from grpo_plan.estimators import get_estimator
        >>> [x.round(4).tolist() for x in get_estimator("sign").parts(np.array([0.5]), 2)]  # in all 2 p q
        [[0.125], [0.25], [0.125]]
        """
        p = as_probability(pass_rates, "pass_rates").ravel()
        passed, failed = self.pair(group_size)
        all_fail = -p * (1.0 - p) ** group_size * failed[0]
        all_pass = (1.0 - p) * p**group_size * passed[-1]
        return all_fail, self.given(p, group_size)[0] - all_fail - all_pass, all_pass

    def pull(self, pass_rates: Floats, group_size: int) -> Floats:
        """Weight of a prompt's grad p in the expected step, ``E[t | p] / (p q)``, shape (P,) (theory.md, eq. 104).

        It is the derivative in p of the objective that the estimator ascends: the mean gain in a rollout's own
        advantage if it passes instead of failing, ``E[A+(j + 1) - A-(j)]`` over j passes of the other G - 1.

        >>> from grpo_plan.estimators import get_estimator
        >>> get_estimator("maxrl").pull(np.array([0.5, 0.25]), 3).round(4).tolist()  # 1 + q
        [1.5, 1.75]
        """
        passed, failed = self.pair(group_size)
        counts, chances = binomial_window(group_size - 1, as_probability(pass_rates, "pass_rates").ravel())
        pull: Floats = (chances * (passed[1:] - failed[:-1])[counts]).sum(axis=1)
        return pull

    def in_batch(self, passes: ArrayLike, group_size: int) -> tuple[Floats, Floats]:
        """Advantages of a pass and of a fail in every group of a real batch, each shape (N,) (theory.md, eq. 102).

        What depends on the batch, its mean and standard deviation (population), is taken from these groups.

        Args:
            passes: k of each group, shape (N,), whole numbers in 0..G.
            group_size: G, at least 2.

        >>> from grpo_plan.estimators import get_estimator
        >>> [x.round(4).tolist() for x in get_estimator("reinforce_plus_plus").in_batch([0, 1, 2], 2)]
        [[0.0, 1.0, 1.0], [-1.0, -1.0, 0.0]]
        """
        k = as_float_array(passes, "passes")
        if k.ndim != 1 or not k.size or not np.all((k >= 0) & (k <= group_size) & (k == np.floor(k))):
            raise DomainError(f"passes must be whole numbers from 0 to {group_size}, one for each group.")
        which = k.astype(np.int64)
        law = np.bincount(which, minlength=group_size + 1) / k.size
        passed, failed = self.for_mean(float(k.mean()) / group_size).pair(group_size)
        scale = 1.0 if self.scale_of is None else self.scale_of(law, group_size)
        share = 1.0 / scale if scale > 0.0 else 0.0
        return share * passed[which], share * failed[which]

    def moments(self, law: Callable[[int], Floats], group_size: int) -> GroupMoments:
        """Moments of the estimate of one group.

        Args:
            law: Law of the passes k in groups of any size, shape (size + 1,).
            group_size: G, at least 2.

        >>> from grpo_plan.estimators import get_estimator
        >>> even = lambda g: np.full(g + 1, 1 / (g + 1))  # pass rates uniform on [0, 1]
        >>> round(get_estimator("sign").moments(even, 8).signal, 6)  # 2 E[p (1 - p)]
        0.333333
        """
        pmf = law(self.law_size(group_size))
        here = self.for_mean(float(pmf @ np.arange(pmf.size)) / (pmf.size - 1)) if self.batch else self
        _, *weights = here.weights(group_size)
        signal, square, noise = (float(pmf @ weight) for weight in weights)
        return GroupMoments(signal=signal, signal_square=square, noise=noise)


def _as_setting(value: float, of: Estimator, name: str) -> float:
    """A setting in its domain: the mean pass rate in [0, 1], whole numbers from 1, or numbers from 0 to 1e6."""
    what = f"{of.name}: {name}"
    if name == "mean_pass_rate":
        return as_one_probability(value, what)
    try:
        if name in WHOLE:
            return float(as_count(value, what, maximum=MAX_SUMMED_GROUP_SIZE))
        found = as_positive(value, what, allow_zero=True)
        if found > LARGEST_SETTING:
            raise DomainError(f"{what} must be at most {LARGEST_SETTING:g}; got {found:g}.")
    except DomainError as error:
        raise DomainError(f"{error} Write it as {of.name}:{name}={of.parameters[name]:g}, for example.") from None
    return found
