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
    "Absent": "quantities",
    "AdaptiveSampling": "batches",
    "Advantages": "estimators.result",
    "Aggregation": "losses",
    "Alert": "runs.alerts",
    "Allocation": "planning.allocation",
    "Amplification": "estimators.amplification",
    "BatchSplit": "losses",
    "Block": "trainers.base",
    "Budget": "costs",
    "Comparison": "fitting.comparison",
    "CompositionBounds": "runs.composition",
    "Convention": "estimators.conventions",
    "Cost": "costs",
    "CostModel": "costs",
    "Curriculum": "simulation",
    "DeadCountComparison": "planning.dead_counts",
    "DeadFraction": "fitting.estimates",
    "Design": "costs",
    "Diagnosis": "runs.diagnosis",
    "DiagnosisSettings": "runs.settings",
    "DomainError": "errors",
    "Dropping": "planning.dropping",
    "DuplicateCheck": "independence",
    "Effect": "remedies",
    "EffectiveBatch": "batches",
    "Estimate": "fitting.estimates",
    "EstimatorEffect": "remedies",
    "Expectation": "runs.expectation",
    "Finding": "runs.finding",
    "FitError": "errors",
    "FitStatus": "fitting.status",
    "Forecast": "runs.forecast",
    "ForecastStatus": "runs.forecast",
    "GradientProbe": "probe",
    "GroupContent": "costs",
    "GroupLog": "group_log",
    "GrpoPlanError": "errors",
    "Hardware": "trainers.base",
    "Hint": "remedies",
    "IndependenceCheck": "independence",
    "IndependenceReport": "readers.independence_reader",
    "IndependenceVerdict": "independence",
    "InfeasiblePlanError": "errors",
    "KappaMeasurement": "planning.kappa",
    "KappaRange": "planning.signal",
    "LengthBias": "losses",
    "LengthStatus": "costs",
    "MissingExtraError": "errors",
    "Mix": "planning.mix_plan",
    "Monitor": "runs.monitor",
    "NearestDesigns": "trainers.nearest",
    "PassComparison": "passk.result",
    "PassCurve": "passk.curve",
    "PassRateFit": "fitting.result",
    "PassTail": "passk.tail",
    "PassVerdict": "passk.result",
    "Pilot": "pilot",
    "PilotError": "errors",
    "PilotFormatError": "errors",
    "PilotPlan": "planning.pilot_size",
    "PilotSize": "planning.pilot_size",
    "Plan": "planning.plan",
    "PlanFormatError": "errors",
    "Quantity": "quantities",
    "Recovered": "runs.recovered",
    "RecoveredShare": "runs.recovered",
    "RecoveredSteps": "runs.recovered_steps",
    "RecoveryStatus": "runs.recovery_status",
    "Refill": "batches",
    "RefillAt": "batches",
    "RefillStatus": "batches",
    "Refilling": "trainers.base",
    "Remedy": "runs.finding",
    "RemedyComparison": "remedies",
    "RolloutLengths": "rollouts",
    "Report": "report",
    "Rollouts": "rollouts",
    "RunFollower": "readers.follow",
    "RunLog": "run_log",
    "SamplingCost": "batches",
    "SamplingEffect": "remedies",
    "Scaling": "estimators.conventions",
    "SequenceCheck": "independence",
    "Severity": "runs.finding",
    "SimulatedPolicy": "simulation",
    "SimulatedTraining": "simulation",
    "Simulation": "simulation",
    "SimulationComparison": "simulation",
    "SolvedDesign": "costs",
    "SplitError": "losses",
    "SplitErrors": "losses",
    "SplitWeights": "losses",
    "TailStatus": "passk.tail",
    "TemperaturePlan": "planning.temperature_result",
    "TemperatureVerdict": "planning.temperature_result",
    "Throughput": "throughput",
    "TokenLengths": "costs",
    "TokenWeights": "losses",
    "Waste": "runs.finding",
    "WeightShares": "losses",
    "adaptive_sampling": "batches",
    "advantages": "estimators.computing",
    "aggregations": "losses",
    "all_fail_probability": "groups",
    "all_pass_probability": "groups",
    "allocate_rollouts": "planning.allocation",
    "amplification": "estimators.amplification",
    "build_report": "report",
    "check_independence": "independence",
    "check_sequences": "independence",
    "compare_dead_counts": "planning.dead_counts",
    "compare_estimates": "fitting.comparison",
    "compare_pass": "passk.compare",
    "compare_remedies": "remedies",
    "compare_sampling": "batches",
    "compare_simulations": "simulation",
    "composition_bounds": "runs.composition",
    "dead_probability": "groups",
    "diagnose": "runs.diagnosis",
    "duplicate_rollouts": "independence",
    "effect_of_dropping": "planning.dropping",
    "effective_batch": "batches",
    "effective_batch_of_list": "batches",
    "emit": "trainers.emit",
    "estimate_throughput": "throughput",
    "expected_group_std": "groups",
    "expected_group_variance": "groups",
    "fit_pass_rates": "fitting.fit",
    "follow_run": "readers.follow",
    "forecast": "runs.forecast",
    "get_aggregation": "losses",
    "graded_dead_probability": "groups",
    "group_size_for_fidelity": "groups",
    "group_std_fidelity": "groups",
    "hit_probability": "planning.first_pass",
    "identified_range": "fitting.identified",
    "kappa_callback": "probe",
    "largest_group_size": "costs",
    "length_bias": "losses",
    "measure_kappa": "planning.kappa",
    "mixed_probability": "groups",
    "nearest_design": "trainers.nearest",
    "pass_at": "groups",
    "pass_at_k": "fitting.ustatistics",
    "pass_curve": "passk.curve",
    "pass_tail": "passk.tail",
    "plan_group_size": "planning.group_size",
    "plan_mix": "planning.mix",
    "plan_pilot": "planning.pilot_size",
    "plan_temperature": "planning.temperature",
    "plot": "plots",
    "plot_composition": "plots",
    "plot_dead_against_plan": "plots",
    "plot_dead_fraction": "plots",
    "plot_effective_batch": "plots",
    "plot_effective_batch_over_steps": "plots",
    "plot_frontier": "plots",
    "plot_mix": "plots",
    "plot_pass_curve": "plots",
    "plot_pass_rates": "plots",
    "plot_refill": "plots",
    "plot_remedies": "plots",
    "plot_temperature": "plots",
    "probe_trainer": "probe",
    "rare_mode_miss_probability": "groups",
    "read_groups": "readers.groups_reader",
    "read_independence": "readers.independence_reader",
    "read_pilot": "readers.pilot_reader",
    "read_rollouts": "readers.rollouts_reader",
    "read_run": "readers.run_reader",
    "read_throughput": "readers.throughput_reader",
    "recover": "runs.aggregates",
    "recover_steps": "runs.recovered_steps",
    "refill": "batches",
    "rollout_advantages": "losses",
    "rollouts_to_first_pass": "planning.first_pass",
    "rules_for": "trainers.registry",
    "simulate": "simulation",
    "solve_design": "costs",
    "split_errors": "losses",
    "split_weights": "losses",
    "token_lengths": "costs",
    "token_weights": "losses",
}

__all__ = [
    "Absent", "AdaptiveSampling", "Advantages", "Aggregation", "Alert", "Allocation", "Amplification", "BatchSplit",
    "Block", "Budget", "Comparison", "CompositionBounds", "Convention", "Cost", "CostModel", "Curriculum",
    "DeadCountComparison", "DeadFraction", "Design", "Diagnosis", "DiagnosisSettings", "DomainError", "Dropping",
    "DuplicateCheck", "Effect", "EffectiveBatch", "Estimate", "EstimatorEffect", "Expectation", "Finding", "FitError",
    "FitStatus", "Forecast", "ForecastStatus", "GradientProbe", "GroupContent", "GroupLog", "GrpoPlanError",
    "Hardware", "Hint", "IndependenceCheck", "IndependenceReport", "IndependenceVerdict", "InfeasiblePlanError",
    "KappaMeasurement", "KappaRange", "LengthBias", "LengthStatus", "MissingExtraError", "Mix", "Monitor",
    "NearestDesigns", "PassComparison", "PassCurve", "PassRateFit", "PassTail", "PassVerdict", "Pilot", "PilotError",
    "PilotFormatError", "PilotPlan", "PilotSize", "Plan", "PlanFormatError", "Quantity", "Recovered", "RecoveredShare",
    "RecoveredSteps", "RecoveryStatus", "Refill", "RefillAt", "RefillStatus", "Refilling", "Remedy",
    "RemedyComparison", "Report", "RolloutLengths", "Rollouts", "RunFollower", "RunLog", "SamplingCost",
    "SamplingEffect", "Scaling", "SequenceCheck", "Severity", "SimulatedPolicy", "SimulatedTraining", "Simulation",
    "SimulationComparison", "SolvedDesign", "SplitError", "SplitErrors", "SplitWeights", "TailStatus",
    "TemperaturePlan", "TemperatureVerdict", "Throughput", "TokenLengths", "TokenWeights", "Waste", "WeightShares",
    "__version__", "adaptive_sampling", "advantages", "aggregations", "all_fail_probability", "all_pass_probability",
    "allocate_rollouts", "amplification", "build_report", "check_independence", "check_sequences",
    "compare_dead_counts", "compare_estimates", "compare_pass", "compare_remedies", "compare_sampling",
    "compare_simulations", "composition_bounds", "dead_probability", "diagnose", "duplicate_rollouts",
    "effect_of_dropping", "effective_batch", "effective_batch_of_list", "emit", "estimate_throughput",
    "expected_group_std", "expected_group_variance", "fit_pass_rates", "follow_run", "forecast", "get_aggregation",
    "graded_dead_probability", "group_size_for_fidelity", "group_std_fidelity", "hit_probability", "identified_range",
    "kappa_callback", "largest_group_size", "length_bias", "measure_kappa", "mixed_probability", "nearest_design",
    "pass_at", "pass_at_k", "pass_curve", "pass_tail", "plan_group_size", "plan_mix", "plan_pilot", "plan_temperature",
    "plot", "plot_composition", "plot_dead_against_plan", "plot_dead_fraction", "plot_effective_batch",
    "plot_effective_batch_over_steps", "plot_frontier", "plot_mix", "plot_pass_curve", "plot_pass_rates",
    "plot_refill", "plot_remedies", "plot_temperature", "probe_trainer", "rare_mode_miss_probability", "read_groups",
    "read_independence", "read_pilot", "read_rollouts", "read_run", "read_throughput", "recover", "recover_steps",
    "refill", "rollout_advantages", "rollouts_to_first_pass", "rules_for", "simulate", "solve_design", "split_errors",
    "split_weights", "token_lengths", "token_weights",
]  # fmt: skip

if TYPE_CHECKING:
    from grpo_plan.batches import (
        AdaptiveSampling,
        EffectiveBatch,
        Refill,
        RefillAt,
        RefillStatus,
        SamplingCost,
        adaptive_sampling,
        compare_sampling,
        effective_batch,
        effective_batch_of_list,
        refill,
    )
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
    from grpo_plan.estimators.amplification import Amplification, amplification
    from grpo_plan.estimators.computing import advantages
    from grpo_plan.estimators.conventions import Convention, Scaling
    from grpo_plan.estimators.result import Advantages
    from grpo_plan.fitting.comparison import Comparison, compare_estimates
    from grpo_plan.fitting.estimates import DeadFraction, Estimate
    from grpo_plan.fitting.fit import fit_pass_rates
    from grpo_plan.fitting.identified import identified_range
    from grpo_plan.fitting.result import PassRateFit
    from grpo_plan.fitting.status import FitStatus
    from grpo_plan.fitting.ustatistics import pass_at_k
    from grpo_plan.group_log import GroupLog
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
    from grpo_plan.losses import (
        Aggregation,
        BatchSplit,
        LengthBias,
        SplitError,
        SplitErrors,
        SplitWeights,
        TokenWeights,
        WeightShares,
        aggregations,
        get_aggregation,
        length_bias,
        rollout_advantages,
        split_errors,
        split_weights,
        token_weights,
    )
    from grpo_plan.passk.compare import compare_pass
    from grpo_plan.passk.curve import PassCurve, pass_curve
    from grpo_plan.passk.result import PassComparison, PassVerdict
    from grpo_plan.passk.tail import PassTail, TailStatus, pass_tail
    from grpo_plan.pilot import Pilot
    from grpo_plan.planning.allocation import Allocation, allocate_rollouts
    from grpo_plan.planning.dead_counts import DeadCountComparison, compare_dead_counts
    from grpo_plan.planning.dropping import Dropping, effect_of_dropping
    from grpo_plan.planning.first_pass import hit_probability, rollouts_to_first_pass
    from grpo_plan.planning.group_size import plan_group_size
    from grpo_plan.planning.kappa import KappaMeasurement, measure_kappa
    from grpo_plan.planning.mix import plan_mix
    from grpo_plan.planning.mix_plan import Mix
    from grpo_plan.planning.pilot_size import PilotPlan, PilotSize, plan_pilot
    from grpo_plan.planning.plan import Plan
    from grpo_plan.planning.signal import KappaRange
    from grpo_plan.planning.temperature import plan_temperature
    from grpo_plan.planning.temperature_result import TemperaturePlan, TemperatureVerdict
    from grpo_plan.plots.batches import plot_refill
    from grpo_plan.plots.mix import plot_mix
    from grpo_plan.plots.passk import plot_pass_curve
    from grpo_plan.plots.pilot import plot_dead_fraction, plot_pass_rates
    from grpo_plan.plots.plan import plot_effective_batch, plot_frontier
    from grpo_plan.plots.registry import plot
    from grpo_plan.plots.remedies import plot_remedies
    from grpo_plan.plots.run import plot_composition, plot_dead_against_plan, plot_effective_batch_over_steps
    from grpo_plan.plots.temperature import plot_temperature
    from grpo_plan.probe import GradientProbe, kappa_callback, probe_trainer
    from grpo_plan.quantities import Absent, Quantity
    from grpo_plan.readers.follow import RunFollower, follow_run
    from grpo_plan.readers.groups_reader import read_groups
    from grpo_plan.readers.independence_reader import IndependenceReport, read_independence
    from grpo_plan.readers.pilot_reader import read_pilot
    from grpo_plan.readers.rollouts_reader import read_rollouts
    from grpo_plan.readers.run_reader import read_run
    from grpo_plan.readers.throughput_reader import read_throughput
    from grpo_plan.remedies import Effect, EstimatorEffect, Hint, RemedyComparison, SamplingEffect, compare_remedies
    from grpo_plan.report import Report, build_report
    from grpo_plan.rollouts import RolloutLengths, Rollouts
    from grpo_plan.run_log import RunLog
    from grpo_plan.runs.aggregates import recover
    from grpo_plan.runs.alerts import Alert
    from grpo_plan.runs.composition import CompositionBounds, composition_bounds
    from grpo_plan.runs.diagnosis import Diagnosis, diagnose
    from grpo_plan.runs.expectation import Expectation
    from grpo_plan.runs.finding import Finding, Remedy, Severity, Waste
    from grpo_plan.runs.forecast import Forecast, ForecastStatus, forecast
    from grpo_plan.runs.monitor import Monitor
    from grpo_plan.runs.recovered import Recovered, RecoveredShare
    from grpo_plan.runs.recovered_steps import RecoveredSteps, recover_steps
    from grpo_plan.runs.recovery_status import RecoveryStatus
    from grpo_plan.runs.settings import DiagnosisSettings
    from grpo_plan.simulation import Curriculum, SimulatedPolicy, SimulatedTraining, Simulation, simulate
    from grpo_plan.simulation.comparison import SimulationComparison, compare_simulations
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
