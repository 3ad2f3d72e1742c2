"""Checks of Assumption A: sessions, order, and equal texts."""

from grpo_plan.independence.duplicates import DuplicateCheck, duplicate_rollouts
from grpo_plan.independence.sequences import SequenceCheck, check_sequences
from grpo_plan.independence.sessions import IndependenceCheck, check_independence
from grpo_plan.independence.verdict import IndependenceVerdict

__all__ = [
    "DuplicateCheck",
    "IndependenceCheck",
    "IndependenceVerdict",
    "SequenceCheck",
    "check_independence",
    "check_sequences",
    "duplicate_rollouts",
]
