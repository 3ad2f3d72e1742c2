"""Distributions F of the pass rate over prompts: each gives moments and the law of k in a group of G."""

from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.passrates.inflated import InflatedBetaPassRates

__all__ = ["BetaPassRates", "DiscretePassRates", "InflatedBetaPassRates"]
