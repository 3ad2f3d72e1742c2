"""The body of ``fit --json``."""

from __future__ import annotations

from typing import Any

from grpo_plan.documents.parts import comparison_json, dead_json
from grpo_plan.documents.pilots import model_json, pilot_json
from grpo_plan.fitting.comparison import Comparison
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit

MAX_STRATA = 200
StratumFit = tuple[str, PassRateFit, list[DeadFraction]]


def fits_by_stratum(fitted: PassRateFit, sizes: list[int], level: float, simultaneous: bool) -> list[StratumFit]:
    """Each stratum fitted by itself; none where there are too many, or the pilot cannot be taken apart."""
    names = fitted.pilot.strata
    if not 2 <= len(names) <= MAX_STRATA:
        return []
    if fitted.truncation is not None and not fitted.unknown_dead:
        return []
    removed = fitted.removed
    kind = "sample" if fitted.population is None else "census"
    fits = [
        (name, fit_pass_rates(part, fitted.family, population=kind, truncated=fitted.unknown_dead, removed=removed))
        for name, part in fitted.pilot.by_stratum().items()
    ]
    return [(name, part, [part.dead(size, level, simultaneous=simultaneous) for size in sizes]) for name, part in fits]


def fit_document(
    fitted: PassRateFit,
    dead: list[DeadFraction],
    strata: list[StratumFit],
    rows: list[Comparison],
    checks: dict[str, Any] | None,
    level: float,
) -> dict[str, Any]:
    """The body: the pilot, its model, and the dead fraction at each group size."""
    document: dict[str, Any] = {
        "pilot": pilot_json(fitted, level),
        "model": model_json(fitted),
        "dead": [dead_json(d) for d in dead],
    }
    if strata:
        document["strata"] = [
            {
                "stratum": name,
                "pilot": pilot_json(part, level),
                "model": model_json(part),
                "dead": [dead_json(d) for d in rows],
            }
            for name, part, rows in strata
        ]
    if rows:
        document["compare"] = comparison_json(rows)
    if checks is not None:
        document["independence"] = checks
    return document
