"""Advantages of a step, on tensors. ``tests/test_validation_testbed.py`` holds them to ``gp.advantages``."""

from __future__ import annotations

import torch
from torch import Tensor


def advantages(rewards: Tensor, estimator: str) -> Tensor:
    """Advantages (N, G) of rewards (N, G): mean, std (of the group, divided by G), rloo, sign or maxrl."""
    size = rewards.shape[1]
    mean = rewards.mean(1, keepdim=True)
    if estimator == "sign":
        return 2 * rewards - 1
    if estimator == "mean":
        return rewards - mean
    if estimator == "rloo":
        return (rewards - mean) * size / (size - 1)
    if estimator == "std":
        scale = rewards.std(1, correction=0, keepdim=True)
    elif estimator == "maxrl":
        scale = mean
    else:
        raise ValueError(f"estimator is mean, std, rloo, sign or maxrl; got {estimator!r}")
    return torch.where(scale > 0, (rewards - mean) / scale.clamp_min(1e-6), 0.0)
