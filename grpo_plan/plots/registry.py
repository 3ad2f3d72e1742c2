"""Which function draws which result, and which results have no picture and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Function -> module of this package that defines it.
WHERE: Mapping[str, str] = MappingProxyType(
    {
        "plot_advantages": "estimators",
        "plot_allocation": "mix",
        "plot_amplification": "estimators",
        "plot_comparison": "comparison",
        "plot_composition": "run",
        "plot_composition_bounds": "ahead",
        "plot_dead": "pilot",
        "plot_dead_against_plan": "run",
        "plot_dead_counts": "temperature",
        "plot_dead_fraction": "pilot",
        "plot_dropping": "mix",
        "plot_duplicates": "independence",
        "plot_effective_batch": "plan",
        "plot_effective_batch_over_steps": "run",
        "plot_expectation": "ahead",
        "plot_forecast": "ahead",
        "plot_frontier": "plan",
        "plot_group_sizes": "remedies",
        "plot_groups": "log",
        "plot_independence": "independence",
        "plot_kappa": "kappa",
        "plot_kappa_sensitivity": "plan",
        "plot_length_bias": "losses",
        "plot_mix": "mix",
        "plot_mixed_groups": "batches",
        "plot_pass_curve": "passk",
        "plot_pass_rates": "pilot",
        "plot_pass_tail": "passk",
        "plot_pilot": "pilot",
        "plot_pilot_size": "plan",
        "plot_quantity": "log",
        "plot_recovered": "ahead",
        "plot_recovered_share": "ahead",
        "plot_recovered_steps": "ahead",
        "plot_refill": "batches",
        "plot_remedies": "remedies",
        "plot_sampling": "batches",
        "plot_sequence": "independence",
        "plot_sessions": "independence",
        "plot_simulation": "simulation",
        "plot_simulation_comparison": "simulation",
        "plot_split_errors": "losses",
        "plot_split_weights": "losses",
        "plot_temperature": "temperature",
        "plot_token_weights": "losses",
    }
)
# Public type -> what draws it, the picture of `plot` first.
PLOTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "AdaptiveSampling": ("plot_sampling",),
        "Advantages": ("plot_advantages",),
        "Allocation": ("plot_allocation",),
        "Amplification": ("plot_amplification",),
        "Comparison": ("plot_comparison",),
        "CompositionBounds": ("plot_composition_bounds",),
        "DeadCountComparison": ("plot_dead_counts",),
        "DeadFraction": ("plot_dead",),
        "Diagnosis": ("plot_composition", "plot_dead_against_plan", "plot_effective_batch_over_steps"),
        "Dropping": ("plot_dropping",),
        "DuplicateCheck": ("plot_duplicates",),
        "EffectiveBatch": ("plot_mixed_groups",),
        "Expectation": ("plot_expectation",),
        "Forecast": ("plot_forecast",),
        "GroupLog": ("plot_groups",),
        "IndependenceCheck": ("plot_sessions",),
        "IndependenceReport": ("plot_independence",),
        "KappaMeasurement": ("plot_kappa",),
        "LengthBias": ("plot_length_bias",),
        "Mix": ("plot_mix",),
        "PassComparison": ("plot_pass_curve",),
        "PassCurve": ("plot_pass_curve",),
        "PassRateFit": ("plot_dead_fraction", "plot_pass_rates", "plot_refill"),
        "PassTail": ("plot_pass_tail",),
        "Pilot": ("plot_pilot",),
        "PilotPlan": ("plot_pilot_size",),
        "Plan": ("plot_frontier", "plot_effective_batch", "plot_kappa_sensitivity"),
        "Quantity": ("plot_quantity",),
        "Recovered": ("plot_recovered",),
        "RecoveredShare": ("plot_recovered_share",),
        "RecoveredSteps": ("plot_recovered_steps",),
        "Refill": ("plot_refill",),
        "RemedyComparison": ("plot_remedies", "plot_group_sizes"),
        "RunLog": ("plot_composition", "plot_dead_against_plan", "plot_effective_batch_over_steps"),
        "SamplingCost": ("plot_sampling",),
        "SequenceCheck": ("plot_sequence",),
        "Simulation": ("plot_simulation",),
        "SimulationComparison": ("plot_simulation_comparison",),
        "SplitErrors": ("plot_split_errors",),
        "SplitWeights": ("plot_split_weights",),
        "TemperaturePlan": ("plot_temperature",),
        "TokenWeights": ("plot_token_weights",),
    }
)
_GIVEN = "it is what you give, not a result"
_PART = "it is a part of {}, which is drawn"
_WORDS = "it is words or a few numbers: print it"
NOT_DRAWN: Mapping[str, str] = MappingProxyType(
    {
        "Absent": _WORDS,
        "Aggregation": _WORDS,
        "Alert": _WORDS,
        "BatchSplit": _GIVEN,
        "Block": _WORDS,
        "Budget": _GIVEN,
        "Convention": _WORDS,
        "Cost": _WORDS,
        "CostModel": _GIVEN,
        "Curriculum": _GIVEN,
        "Design": _WORDS,
        "DiagnosisSettings": _GIVEN,
        "Estimate": "it is one number with its interval: print it",
        "EstimatorEffect": _PART.format("RemedyComparison"),
        "Finding": _PART.format("Diagnosis"),
        "GradientProbe": "it is measuring: draw its measurement()",
        "GroupContent": _WORDS,
        "Hardware": _GIVEN,
        "Hint": _GIVEN,
        "KappaRange": _PART.format("Plan"),
        "Monitor": "it is watching: draw its diagnosis",
        "NearestDesigns": _WORDS,
        "PilotSize": _PART.format("PilotPlan"),
        "RefillAt": _PART.format("Refill"),
        "Refilling": _GIVEN,
        "Remedy": _PART.format("Diagnosis"),
        "Report": "it is a page, which draws its own pictures",
        "Rollouts": "it is raw rollouts: draw length_bias(rollouts), or a pilot of them",
        "RunFollower": "it is reading: draw its log",
        "SamplingEffect": _PART.format("RemedyComparison"),
        "Scaling": _WORDS,
        "SimulatedPolicy": _GIVEN,
        "SimulatedTraining": _GIVEN,
        "SolvedDesign": _WORDS,
        "SplitError": _PART.format("SplitErrors"),
        "Throughput": _WORDS,
        "TokenLengths": _WORDS,
        "Waste": _WORDS,
        "WeightShares": _PART.format("LengthBias"),
    }
)


def plot(result: Any, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw any result: the first function of `PLOTS` for its type.

    Args:
        result: What a function of this package returned; of `compare_estimates` and `compare_sampling` the list.
        ax: Where to draw; a new figure if None.
        **options: Those of the function that draws it.

    Returns:
        The axes; their ``.figure`` is the picture: end a notebook's cell with ``plot(result).figure``, and
        ``.figure.savefig(path)`` writes it.

    Raises:
        DomainError: There is no picture of it.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> plot(fit.dead(4)).get_title(loc="left")
    'Dead groups at G = 4'
    """
    drawn = result[0] if isinstance(result, list | tuple) and result and not hasattr(result, "_fields") else result
    for kind in type(drawn).__mro__:
        if kind.__module__.split(".")[0] == "grpo_plan" and kind.__name__ in PLOTS:
            draw = function(PLOTS[kind.__name__][0])
            axes: Axes = draw(result if draw.__name__ in ("plot_comparison", "plot_sampling") else drawn, ax, **options)
            return axes
    name = type(drawn).__name__
    why = f": {NOT_DRAWN[name]}" if name in NOT_DRAWN else ""
    raise DomainError(
        f"result must be of a type that has a picture; got {name}{why}. grpo_plan.plots.PLOTS lists them."
    )


def function(name: str) -> Callable[..., Axes]:
    """The function of that name."""
    found: Callable[..., Axes] = getattr(import_module(f"grpo_plan.plots.{WHERE[name]}"), name)
    return found
