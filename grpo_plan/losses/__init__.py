"""One batch: how much each token weighs in the loss, per aggregation, and who gets that weight."""

from grpo_plan.losses.aggregations import Aggregation
from grpo_plan.losses.bias import LengthBias, WeightShares, length_bias, rollout_advantages
from grpo_plan.losses.names import aggregations, get_aggregation
from grpo_plan.losses.shares import Limits
from grpo_plan.losses.splits import BatchSplit, SplitWeights, split_weights
from grpo_plan.losses.steps import SplitError, SplitErrors, split_errors
from grpo_plan.losses.weights import TokenWeights, token_weights

__all__ = [
    "Aggregation",
    "BatchSplit",
    "LengthBias",
    "Limits",
    "SplitError",
    "SplitErrors",
    "SplitWeights",
    "TokenWeights",
    "WeightShares",
    "aggregations",
    "get_aggregation",
    "length_bias",
    "rollout_advantages",
    "split_errors",
    "split_weights",
    "token_weights",
]
