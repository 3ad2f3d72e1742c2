"""Advantage of a pass and of a fail at k of G passes, for every estimator (theory.md, eq. 24 and 103)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import choose_ratio
from grpo_plan.estimators.base import Parameters

Floats = NDArray[np.float64]
Two = tuple[Floats, Floats]


def grpo(k: Floats, g: int, _: Parameters) -> Two:
    """Over the population std of the group."""
    return np.sqrt((g - k) / k), -np.sqrt(k / (g - k))


def grpo_sample(k: Floats, g: int, _: Parameters) -> Two:
    """Over the sample std of the group."""
    bessel = np.sqrt((g - 1.0) / g)
    return bessel * np.sqrt((g - k) / k), -bessel * np.sqrt(k / (g - k))


def centred(k: Floats, g: int, _: Parameters) -> Two:
    """Reward minus group mean."""
    return 1.0 - k / g, -k / g


def rloo(k: Floats, g: int, _: Parameters) -> Two:
    """Reward minus the mean of the others."""
    return (g - k) / (g - 1.0), -k / (g - 1.0)


def maxrl(k: Floats, g: int, _: Parameters) -> Two:
    """Over the group mean."""
    return (g - k) / k, np.where(k > 0, -1.0, 0.0)


def focal(k: Floats, g: int, parameters: Parameters) -> Two:
    """The grpo pair times ``(1 - k / G) ** gamma``."""
    weight = (1.0 - k / g) ** parameters["gamma"]
    passed, failed = grpo(k, g, parameters)
    return weight * passed, weight * failed


def passk(k: Floats, g: int, parameters: Parameters) -> Two:
    """Mean and std of the best reward of K of the G rollouts; 0 where every choice of K has the same best."""
    kept = int(parameters["k"])
    fails = g - k
    none = choose_ratio(fails, g, kept)
    none_beside_a_fail = choose_ratio(fails - 1.0, g - 1, kept - 1)
    std = np.sqrt(none * (1.0 - none))
    live = std > 0.0
    passed = np.divide(none, std, out=np.zeros_like(none), where=live)
    failed = np.divide(none - none_beside_a_fail, std, out=np.zeros_like(none), where=live)
    return passed, failed


def sign(k: Floats, g: int, _: Parameters) -> Two:
    """+1 and -1."""
    return np.ones_like(k), -np.ones_like(k)


def reinforce(k: Floats, g: int, _: Parameters) -> Two:
    """The reward itself."""
    return np.ones_like(k), np.zeros_like(k)


def weighted(k: Floats, g: int, parameters: Parameters) -> Two:
    """A weight for every pass, -1 for every fail."""
    return np.full_like(k, parameters["positive_weight"]), -np.ones_like(k)


def negative(k: Floats, g: int, _: Parameters) -> Two:
    """-1 for every fail, nothing for a pass."""
    return np.zeros_like(k), -np.ones_like(k)


def batch_normalised(k: Floats, g: int, parameters: Parameters) -> Two:
    """Reward minus batch mean, over the batch's population std; 0 if all rewards of the batch are equal."""
    m = parameters["mean_pass_rate"]
    std = np.sqrt(m * (1.0 - m))
    live = 1.0 / std if std > 0.0 else 0.0
    return np.full_like(k, (1.0 - m) * live), np.full_like(k, -m * live)


def virtual_best(k: Floats, g: int, _: Parameters) -> Two:
    """Mean and sample std over the group and one more reward of 1; all-pass groups have none."""
    more = np.sqrt(g / (g + 1.0))
    return more * np.sqrt((g - k) / (k + 1.0)), -more * np.sqrt((k + 1.0) / (g - k))


def best_of_group(k: Floats, g: int, _: Parameters) -> Two:
    """Best minus second best, over the sample std, for the best rollout alone: a single pass."""
    return np.where(k == 1, np.sqrt(float(g)), 0.0), np.zeros_like(k)


# One number of the batch that a trainer divides by, from the law of k ------------------------------------------------


def reward_std(law: Floats, g: int) -> float:
    """Population std of all rewards of the batch."""
    mean = reward_mean(law, g)
    return float(np.sqrt(max(0.0, mean * (1.0 - mean))))


def reward_mean(law: Floats, g: int) -> float:
    """Mean reward: the share of rewards that are not 0."""
    return float(law @ np.arange(g + 1.0)) / g


def centred_std(law: Floats, g: int) -> float:
    """Population std of all rewards less the mean of their group."""
    k = np.arange(g + 1.0)
    return float(np.sqrt(law @ (k * (g - k)))) / g


def mixed_root(law: Floats, g: int) -> float:
    """Population std of the grpo advantages: they have mean square 1 in a mixed group and 0 in a dead one."""
    return float(np.sqrt(max(0.0, law[1:-1].sum())))
