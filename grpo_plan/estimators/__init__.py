"""Advantage estimators: rewards of groups to advantages, and their closed-form signal and noise at 0/1 rewards."""

from grpo_plan.estimators.amplification import Amplification, amplification
from grpo_plan.estimators.base import Estimator
from grpo_plan.estimators.computing import advantages
from grpo_plan.estimators.moments import PAIRS_OF_FOUR, TWO_PAIRS_OF_FOUR, GroupMoments
from grpo_plan.estimators.registry import ESTIMATORS, get_estimator, parse_estimator
from grpo_plan.estimators.result import Advantages
from grpo_plan.estimators.thresholds import sign_threshold_kappa

__all__ = [
    "ESTIMATORS",
    "PAIRS_OF_FOUR",
    "TWO_PAIRS_OF_FOUR",
    "Advantages",
    "Amplification",
    "Estimator",
    "GroupMoments",
    "advantages",
    "amplification",
    "get_estimator",
    "parse_estimator",
    "sign_threshold_kappa",
]
