"""Groups of a run: prompts with pass rates, a policy that drifts, and the rewards of every step at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Law = Callable[[Generator, int], Floats]  # logits of the pass rates of that many prompts; infinite at 0 and 1

PROMPTS = 2000  # of a training set


def normal(mean: float, sd: float) -> Law:
    """Logits of one normal hump."""
    return lambda rng, count: rng.normal(mean, sd, count)


def humps(*parts: tuple[float, float, float]) -> Law:
    """A mixture of normal humps: share, mean, standard deviation; a mean may be infinite."""
    shares, means, sds = (np.array(column) for column in zip(*parts, strict=True))

    def draw(rng: Generator, count: int) -> Floats:
        at = rng.choice(shares.size, size=count, p=shares / shares.sum())
        found: Floats = means[at] + sds[at] * rng.standard_normal(count)
        return found

    return draw


def beta(a: float, b: float) -> Law:
    """Pass rates of a beta law, as logits."""

    def draw(rng: Generator, count: int) -> Floats:
        p = np.clip(rng.beta(a, b, count), 1e-12, 1 - 1e-12)
        found: Floats = np.log(p) - np.log1p(-p)
        return found

    return draw


def expit(logits: Floats) -> Floats:
    """Pass rates of logits, exact at both infinities."""
    with np.errstate(over="ignore"):
        found: Floats = 1.0 / (1.0 + np.exp(-logits))
    return found


def order(rng: Generator, prompts: int, steps: int, per_step: int) -> Ints:
    """Which prompts each step draws, shape (S, N): epoch after epoch, each in a new order."""
    epochs = -(-steps * per_step // prompts)
    drawn = np.concatenate([rng.permutation(prompts) for _ in range(epochs)])
    return drawn[: steps * per_step].reshape(steps, per_step)


def wobble(rng: Generator, steps: int, sd: float = 0.1, memory: float = 0.95) -> Floats:
    """A slow wander of the policy around its trend, in logits."""
    from scipy.signal import lfilter

    noise = rng.normal(0.0, sd * (1 - memory**2) ** 0.5, steps)
    found: Floats = lfilter([1.0], [1.0, -memory], noise)
    return found


def ramp(start: float, end: float, steps: int) -> Floats:
    """A straight line."""
    return np.linspace(start, end, steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of a run, S steps of N; every array has the shape (S, N).

    Attributes:
        size: Rollouts of a group.
        prompt: Number of the prompt.
        scored: Rollouts with a reward.
        mean: Mean reward of the scored rollouts, NaN where none was.
        squares: Mean squared reward of the scored rollouts, NaN where none was.
        low: Smallest reward.
        high: Largest reward.
        passes: Scored rollouts that pass.
        truncated: Rollouts cut off at the length limit.
        distinct: Different responses among the scored rollouts.
        rewards: All rewards, shape (S, N, G); None where they have two levels.
    """

    size: int
    prompt: Ints
    scored: Ints
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    passes: Ints
    truncated: Ints
    distinct: Ints
    rewards: Floats | None = None

    @property
    def levels(self) -> Floats:
        """Rewards that occur, in rising order; of graded ones the ends of groups."""
        ends = np.concatenate([self.low.ravel(), self.high.ravel()])
        return np.unique(ends[np.isfinite(ends)])

    @property
    def steps(self) -> int:
        """Number of steps S."""
        return int(self.scored.shape[0])

    @property
    def per_step(self) -> int:
        """Groups of a step N."""
        return int(self.scored.shape[1])

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Several scored rollouts, and all rewards equal: what trainers count as dead."""
        with np.errstate(invalid="ignore"):
            found: NDArray[np.bool_] = (self.scored >= 2) & (self.high - self.low <= 1e-8)
        return found

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Rewards that are equal, or fewer than two of them."""
        found: NDArray[np.bool_] = self.equal | (self.scored < 2)
        return found

    @property
    def all_pass(self) -> NDArray[np.bool_]:
        """Dead, and every scored rollout passes."""
        found: NDArray[np.bool_] = self.dead & (self.scored > 0) & (self.passes == self.scored)
        return found

    @property
    def all_fail(self) -> NDArray[np.bool_]:
        """Dead, and no scored rollout passes."""
        found: NDArray[np.bool_] = self.dead & (self.scored > 0) & (self.passes == 0)
        return found

    @property
    def std(self) -> Floats:
        """Sample standard deviation within each group, NaN below two scored rollouts."""
        n = np.where(self.scored >= 2, self.scored, 2)
        spread = np.maximum(self.squares - self.mean**2, 0.0) * n / (n - 1)
        found: Floats = np.where(self.scored >= 2, np.sqrt(spread), np.nan)
        return found

    def reward(self) -> tuple[Floats, Floats]:
        """Mean reward of each step and its standard deviation over the whole batch, two arrays of shape (S,)."""
        n = self.scored.sum(axis=1)
        held = np.maximum(n, 1)
        mean = np.nansum(self.scored * self.mean, axis=1) / held
        squares = np.nansum(self.scored * self.squares, axis=1) / held
        std = np.sqrt(np.maximum(squares - mean**2, 0.0) * n / np.maximum(n - 1, 1))
        return np.where(n > 0, mean, np.nan), np.where(n > 1, std, np.nan)

    def share(self, flags: NDArray[np.bool_]) -> Floats:
        """Share of the groups of each step, shape (S,)."""
        found: Floats = flags.mean(axis=1)
        return found


FIELDS = ("prompt", "scored", "mean", "squares", "low", "high", "passes", "truncated", "distinct")


def binary(
    rng: Generator,
    rates: Floats,
    size: int,
    prompt: Ints,
    *,
    failed: Floats | float = 0.0,
    levels: tuple[float, float] = (0.0, 1.0),
    truncated: Floats | float = 0.0,
    copies: bool = False,
) -> Groups:
    """Groups with rewards of two levels, from pass rates of shape (S, N).

    ``failed`` is the chance that a rollout is not scored, ``truncated`` that a failing one was cut off, of shape
    (S, 1). With ``copies`` all rollouts of a group are the same text, as at temperature 0.
    """
    scored = (
        np.full(rates.shape, size)
        if np.all(np.asarray(failed) == 0)
        else size - rng.binomial(size, failed, rates.shape)
    )
    passes = scored * (rates > 0.5) if copies else rng.binomial(scored, rates)
    low, high = levels
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(scored > 0, passes / np.maximum(scored, 1), np.nan)
    none = np.where(scored > 0, 0.0, np.nan)
    cut = rng.binomial(scored - passes, truncated)
    return Groups(
        size=size,
        prompt=prompt,
        scored=scored,
        mean=low + (high - low) * share,
        squares=low**2 + (high**2 - low**2) * share,
        low=np.where(passes == scored, high, low) + none,
        high=np.where(passes > 0, high, low) + none,
        passes=passes,
        truncated=cut,
        distinct=np.minimum(scored, 1) if copies else scored,
    )


def graded(rewards: Floats, prompt: Ints, *, passes_at: float) -> Groups:
    """Groups with rewards of any kind, shape (S, N, G)."""
    size = rewards.shape[-1]
    whole = np.full(rewards.shape[:2], size)
    return Groups(
        size=size,
        prompt=prompt,
        scored=whole,
        mean=rewards.mean(axis=-1),
        squares=(rewards**2).mean(axis=-1),
        low=rewards.min(axis=-1),
        high=rewards.max(axis=-1),
        passes=(rewards >= passes_at).sum(axis=-1),
        truncated=np.zeros_like(whole),
        distinct=whole,
        rewards=rewards,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """Mixed groups that a trainer kept, and what it threw away for them.

    Attributes:
        kept: The groups trained on.
        evicted: Dead groups thrown away, shape (S,).
        batches: Batches of N prompts drawn for the step, shape (S,).
    """

    kept: Groups
    evicted: Ints
    batches: Ints


def refilled(rng: Generator, rates: Callable[[int], tuple[Floats, Ints]], size: int, per_step: int) -> Refilled:
    """Draw prompts until N groups of a step are mixed.

    ``rates(count)`` gives the pass rates and the prompts of ``count`` groups of every step, shape (S, count).
    """
    count = 4 * per_step
    while True:
        p, prompt = rates(count)
        groups = binary(rng, p, size, prompt)
        mixed = np.cumsum(~groups.dead, axis=1)
        if bool(np.all(mixed[:, -1] >= per_step)):
            break
        count *= 2
    drawn = 1 + np.argmax(mixed >= per_step, axis=1)
    place = np.argsort(groups.dead, axis=1, kind="stable")[:, :per_step]
    parts = {name: np.take_along_axis(getattr(groups, name), place, axis=1) for name in FIELDS}
    return Refilled(kept=Groups(size=size, **parts), evicted=drawn - per_step, batches=-(-drawn // per_step))
