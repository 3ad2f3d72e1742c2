"""Pictures of results: each function draws on given axes, or on those of a new figure, and returns them.

One style sheet (`grpo_plan.plots.style`) serves all of them; global settings of matplotlib are never changed. `plot`
draws any result; `PLOTS` lists what draws which type. Modules, and matplotlib, load when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from grpo_plan.plots.registry import NOT_DRAWN, PLOTS, WHERE, plot
from grpo_plan.plots.style import ROLES, STYLE, save_figure, styled

_DRAW = {
    "draw_mix": "mix",
    "draw_pass_curve": "passk",
    "draw_pilot": "pilot",
    "draw_plan": "plan",
    "draw_remedies": "remedies",
    "draw_run": "run",
    "draw_temperature": "temperature",
}

__all__ = [
    "NOT_DRAWN",
    "PLOTS",
    "ROLES",
    "STYLE",
    "draw_mix",
    "draw_pass_curve",
    "draw_pilot",
    "draw_plan",
    "draw_remedies",
    "draw_run",
    "draw_temperature",
    "plot",
    "plot_advantages",
    "plot_allocation",
    "plot_amplification",
    "plot_comparison",
    "plot_composition",
    "plot_composition_bounds",
    "plot_dead",
    "plot_dead_against_plan",
    "plot_dead_counts",
    "plot_dead_fraction",
    "plot_dropping",
    "plot_duplicates",
    "plot_effective_batch",
    "plot_effective_batch_over_steps",
    "plot_expectation",
    "plot_forecast",
    "plot_frontier",
    "plot_group_sizes",
    "plot_groups",
    "plot_independence",
    "plot_kappa",
    "plot_kappa_sensitivity",
    "plot_length_bias",
    "plot_mix",
    "plot_mixed_groups",
    "plot_pass_curve",
    "plot_pass_rates",
    "plot_pass_tail",
    "plot_pilot",
    "plot_pilot_size",
    "plot_quantity",
    "plot_recovered",
    "plot_recovered_share",
    "plot_recovered_steps",
    "plot_refill",
    "plot_remedies",
    "plot_sampling",
    "plot_sequence",
    "plot_sessions",
    "plot_simulation",
    "plot_simulation_comparison",
    "plot_split_errors",
    "plot_split_weights",
    "plot_temperature",
    "plot_token_weights",
    "save_figure",
    "styled",
]

if TYPE_CHECKING:
    from grpo_plan.plots.ahead import (
        plot_composition_bounds,
        plot_expectation,
        plot_forecast,
        plot_recovered,
        plot_recovered_share,
        plot_recovered_steps,
    )
    from grpo_plan.plots.batches import plot_mixed_groups, plot_refill, plot_sampling
    from grpo_plan.plots.comparison import plot_comparison
    from grpo_plan.plots.estimators import plot_advantages, plot_amplification
    from grpo_plan.plots.independence import plot_duplicates, plot_independence, plot_sequence, plot_sessions
    from grpo_plan.plots.kappa import plot_kappa
    from grpo_plan.plots.log import plot_groups, plot_quantity
    from grpo_plan.plots.losses import plot_length_bias, plot_split_errors, plot_split_weights, plot_token_weights
    from grpo_plan.plots.mix import draw_mix, plot_allocation, plot_dropping, plot_mix
    from grpo_plan.plots.passk import draw_pass_curve, plot_pass_curve, plot_pass_tail
    from grpo_plan.plots.pilot import draw_pilot, plot_dead, plot_dead_fraction, plot_pass_rates, plot_pilot
    from grpo_plan.plots.plan import (
        draw_plan,
        plot_effective_batch,
        plot_frontier,
        plot_kappa_sensitivity,
        plot_pilot_size,
    )
    from grpo_plan.plots.remedies import draw_remedies, plot_group_sizes, plot_remedies
    from grpo_plan.plots.run import draw_run, plot_composition, plot_dead_against_plan, plot_effective_batch_over_steps
    from grpo_plan.plots.simulation import plot_simulation, plot_simulation_comparison
    from grpo_plan.plots.temperature import draw_temperature, plot_dead_counts, plot_temperature


def __getattr__(name: str) -> Any:
    """Load a function on first use."""
    module = WHERE.get(name) or _DRAW.get(name)
    if module is None:
        raise AttributeError(f"module 'grpo_plan.plots' has no attribute {name!r}")
    value = getattr(import_module(f"grpo_plan.plots.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names."""
    return list(__all__)
