"""Pilot to PassRateFit: subgroup counts, smooth and nonparametric fits, limits over all F, status."""

from grpo_plan.fitting.estimates import DeadFraction, Estimate
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

__all__ = ["DeadFraction", "Estimate", "FitStatus", "Interval", "PassRateFit", "fit_pass_rates"]
