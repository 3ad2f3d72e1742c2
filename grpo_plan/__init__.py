"""grpo-plan: before a GRPO / RLVR run, what fraction of it will be dead, and what to change.

>>> import grpo_plan as gp
>>> gp.mixed_probability(0.2, 4).item()
0.5888
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it. Names are loaded when first used: importing the package stays cheap.
_PUBLIC = {
    "Block": "trainers.base",
    "Budget": "costs",
    "Comparison": "fitting.comparison",
    "Cost": "costs",
    "CostModel": "costs",
    "DeadFraction": "fitting.estimates",
    "Design": "costs",
    "DomainError": "errors",
    "DuplicateCheck": "independence",
    "EffectiveBatch": "batches",
    "Estimate": "fitting.estimates",
    "FitError": "errors",
    "FitStatus": "fitting.status",
    "GroupContent": "costs",
    "GrpoPlanError": "errors",
    "Hardware": "trainers.base",
    "IndependenceCheck": "independence",
    "IndependenceReport": "readers.independence_reader",
    "IndependenceVerdict": "independence",
    "InfeasiblePlanError": "errors",
    "KappaRange": "planning.signal",
    "LengthStatus": "costs",
    "MissingExtraError": "errors",
    "NearestDesigns": "trainers.nearest",
    "PassRateFit": "fitting.result",
    "Pilot": "pilot",
    "PilotError": "errors",
    "PilotFormatError": "errors",
    "PilotPlan": "planning.pilot_size",
    "PilotSize": "planning.pilot_size",
    "Plan": "planning.plan",
    "PlanFormatError": "errors",
    "Refilling": "trainers.base",
    "SequenceCheck": "independence",
    "SolvedDesign": "costs",
    "Throughput": "throughput",
    "TokenLengths": "costs",
    "all_fail_probability": "groups",
    "all_pass_probability": "groups",
    "check_independence": "independence",
    "check_sequences": "independence",
    "compare_estimates": "fitting.comparison",
    "dead_probability": "groups",
    "duplicate_rollouts": "independence",
    "effective_batch": "batches",
    "effective_batch_of_list": "batches",
    "emit": "trainers.emit",
    "estimate_throughput": "throughput",
    "expected_group_std": "groups",
    "expected_group_variance": "groups",
    "fit_pass_rates": "fitting.fit",
    "graded_dead_probability": "groups",
    "group_size_for_fidelity": "groups",
    "group_std_fidelity": "groups",
    "identified_range": "fitting.identified",
    "largest_group_size": "costs",
    "mixed_probability": "groups",
    "nearest_design": "trainers.nearest",
    "pass_at": "groups",
    "pass_at_k": "fitting.ustatistics",
    "plan_group_size": "planning.group_size",
    "plan_pilot": "planning.pilot_size",
    "plot_dead_fraction": "plots",
    "plot_pass_rates": "plots",
    "rare_mode_miss_probability": "groups",
    "read_independence": "readers.independence_reader",
    "read_pilot": "readers.pilot_reader",
    "read_throughput": "readers.throughput_reader",
    "rules_for": "trainers.registry",
    "solve_design": "costs",
    "token_lengths": "costs",
}

__all__ = [
    "Block",
    "Budget",
    "Comparison",
    "Cost",
    "CostModel",
    "DeadFraction",
    "Design",
    "DomainError",
    "DuplicateCheck",
    "EffectiveBatch",
    "Estimate",
    "FitError",
    "FitStatus",
    "GroupContent",
    "GrpoPlanError",
    "Hardware",
    "IndependenceCheck",
    "IndependenceReport",
    "IndependenceVerdict",
    "InfeasiblePlanError",
    "KappaRange",
    "LengthStatus",
    "MissingExtraError",
    "NearestDesigns",
    "PassRateFit",
    "Pilot",
    "PilotError",
    "PilotFormatError",
    "PilotPlan",
    "PilotSize",
    "Plan",
    "PlanFormatError",
    "Refilling",
    "SequenceCheck",
    "SolvedDesign",
    "Throughput",
    "TokenLengths",
    "__version__",
    "all_fail_probability",
    "all_pass_probability",
    "check_independence",
    "check_sequences",
    "compare_estimates",
    "dead_probability",
    "duplicate_rollouts",
    "effective_batch",
    "effective_batch_of_list",
    "emit",
    "estimate_throughput",
    "expected_group_std",
    "expected_group_variance",
    "fit_pass_rates",
    "graded_dead_probability",
    "group_size_for_fidelity",
    "group_std_fidelity",
    "identified_range",
    "largest_group_size",
    "mixed_probability",
    "nearest_design",
    "pass_at",
    "pass_at_k",
    "plan_group_size",
    "plan_pilot",
    "plot_dead_fraction",
    "plot_pass_rates",
    "rare_mode_miss_probability",
    "read_independence",
    "read_pilot",
    "read_throughput",
    "rules_for",
    "solve_design",
    "token_lengths",
]

if TYPE_CHECKING:
    from grpo_plan.batches import EffectiveBatch, effective_batch, effective_batch_of_list
    from grpo_plan.costs import (
        Budget,
        Cost,
        CostModel,
        Design,
        GroupContent,
        LengthStatus,
        SolvedDesign,
        TokenLengths,
        largest_group_size,
        solve_design,
        token_lengths,
    )
    from grpo_plan.errors import (
        DomainError,
        FitError,
        GrpoPlanError,
        InfeasiblePlanError,
        MissingExtraError,
        PilotError,
        PilotFormatError,
        PlanFormatError,
    )
    from grpo_plan.fitting.comparison import Comparison, compare_estimates
    from grpo_plan.fitting.estimates import DeadFraction, Estimate
    from grpo_plan.fitting.fit import fit_pass_rates
    from grpo_plan.fitting.identified import identified_range
    from grpo_plan.fitting.result import PassRateFit
    from grpo_plan.fitting.status import FitStatus
    from grpo_plan.fitting.ustatistics import pass_at_k
    from grpo_plan.groups import (
        all_fail_probability,
        all_pass_probability,
        dead_probability,
        expected_group_std,
        expected_group_variance,
        graded_dead_probability,
        group_size_for_fidelity,
        group_std_fidelity,
        mixed_probability,
        pass_at,
        rare_mode_miss_probability,
    )
    from grpo_plan.independence import (
        DuplicateCheck,
        IndependenceCheck,
        IndependenceVerdict,
        SequenceCheck,
        check_independence,
        check_sequences,
        duplicate_rollouts,
    )
    from grpo_plan.pilot import Pilot
    from grpo_plan.planning.group_size import plan_group_size
    from grpo_plan.planning.pilot_size import PilotPlan, PilotSize, plan_pilot
    from grpo_plan.planning.plan import Plan
    from grpo_plan.planning.signal import KappaRange
    from grpo_plan.plots import plot_dead_fraction, plot_pass_rates
    from grpo_plan.readers.independence_reader import IndependenceReport, read_independence
    from grpo_plan.readers.pilot_reader import read_pilot
    from grpo_plan.readers.throughput_reader import read_throughput
    from grpo_plan.throughput import Throughput, estimate_throughput
    from grpo_plan.trainers.base import Block, Hardware, Refilling
    from grpo_plan.trainers.emit import emit
    from grpo_plan.trainers.nearest import NearestDesigns, nearest_design
    from grpo_plan.trainers.registry import rules_for


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'grpo_plan' has no attribute {name!r}")
    value = getattr(import_module(f"grpo_plan.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names."""
    return list(__all__)
