"""pass@k of a population, two policies compared, and the tail of the unsolved share (theory.md, section 26)."""

from grpo_plan.passk.compare import compare_pass
from grpo_plan.passk.curve import PassCurve, PassPoint, pass_curve
from grpo_plan.passk.result import Crossing, PassComparison, PassDifference, PassVerdict, Turnover
from grpo_plan.passk.tail import LocalExponent, PassTail, TailStatus, pass_tail

__all__ = [
    "Crossing",
    "LocalExponent",
    "PassComparison",
    "PassCurve",
    "PassDifference",
    "PassPoint",
    "PassTail",
    "PassVerdict",
    "TailStatus",
    "Turnover",
    "compare_pass",
    "pass_curve",
    "pass_tail",
]
