"""Which view belongs to which type. Types are named, not imported: a result brings its own module along."""

from __future__ import annotations

from functools import cache
from typing import Any

from grpo_plan.shown.fields import View


@cache
def views() -> dict[str, View]:
    """The view of every result type by the name of the type."""
    from grpo_plan.shown import of_arithmetic, of_estimates, of_fits, of_plans, of_remedies, of_runs, of_steps

    modules = (of_fits, of_estimates, of_plans, of_steps, of_runs, of_remedies, of_arithmetic)
    return {name: view for module in modules for name, view in module.VIEWS.items()}


def view_of(result: Any) -> View:
    """The view of a result, by its type or the nearest one that it refines."""
    known = views()
    name = next((kind.__name__ for kind in type(result).__mro__ if kind.__name__ in known), None)
    if name is None:
        raise LookupError(f"nothing says what is shown of a {type(result).__name__}")
    return known[name]
