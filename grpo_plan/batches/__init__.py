"""One step: its mixed groups as a distribution, what refilling it takes, and adaptive stopping instead."""

from grpo_plan.batches.counts import MAX_PROMPTS_PER_STEP, CountSummary
from grpo_plan.batches.effective import (
    EffectiveBatch,
    effective_batch,
    effective_batch_of_list,
    poisson_binomial_pmf,
)
from grpo_plan.batches.refilling import Refill, RefillAt, RefillStatus, refill
from grpo_plan.batches.sampling import SamplingCost, compare_sampling
from grpo_plan.batches.stopping import AdaptiveSampling, Bounded, adaptive_sampling

__all__ = [
    "MAX_PROMPTS_PER_STEP",
    "AdaptiveSampling",
    "Bounded",
    "CountSummary",
    "EffectiveBatch",
    "Refill",
    "RefillAt",
    "RefillStatus",
    "SamplingCost",
    "adaptive_sampling",
    "compare_sampling",
    "effective_batch",
    "effective_batch_of_list",
    "poisson_binomial_pmf",
    "refill",
]
