"""Distributions F of the pass rate over prompts: each gives moments and the law of k in a group of G."""

from grpo_plan.passrates.beta import BetaPassRates

__all__ = ["BetaPassRates"]
