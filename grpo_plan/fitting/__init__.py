"""Pilot to PassRateFit: unbiased subgroup counts, Beta fit, intervals, status."""

from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.result import DeadFraction, PassRateFit
from grpo_plan.fitting.status import FitStatus

__all__ = ["DeadFraction", "FitStatus", "Interval", "PassRateFit", "fit_pass_rates"]
