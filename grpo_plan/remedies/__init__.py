"""Remedies for dead groups compared on one pilot: estimators, refill, group sizes, hints, pooled variants."""

from grpo_plan.planning.live import ByKind, Ranged
from grpo_plan.remedies.compare import compare_remedies
from grpo_plan.remedies.hints import Hint
from grpo_plan.remedies.result import (
    AtKappa,
    Effect,
    EstimatorEffect,
    RemedyComparison,
    SamplingEffect,
    Turn,
)

__all__ = [
    "AtKappa",
    "ByKind",
    "Effect",
    "EstimatorEffect",
    "Hint",
    "Ranged",
    "RemedyComparison",
    "SamplingEffect",
    "Turn",
    "compare_remedies",
]
