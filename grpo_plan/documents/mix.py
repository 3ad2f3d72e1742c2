"""The body of ``mix --json``."""

from __future__ import annotations

import math
from typing import Any

from grpo_plan.documents.pilots import model_json, pilot_json
from grpo_plan.fitting.intervals import Interval
from grpo_plan.planning.dropping import DroppedKind, Dropping
from grpo_plan.planning.mix_plan import Mix


def _interval(value: Interval | None, times: float = 1.0) -> dict[str, float] | None:
    if value is None:
        return None
    return {"value": value.value * times, "low": value.low * times, "high": value.high * times}


def mix_document(chosen: Mix) -> dict[str, Any]:
    """The body: shares of the strata and what they bring."""
    n, kappa = chosen.prompts_per_step, chosen.kappa
    return {
        "objective": chosen.objective,
        "estimator": chosen.estimator,
        "group_size": chosen.group_size,
        "prompts_per_step": n,
        "steps": chosen.steps,
        "kappa": {"low": kappa.low, "high": kappa.high, "measured": kappa.measured},
        "best_at_kappa": chosen.best_at_kappa,
        "method": chosen.method,
        "strata": [
            {
                "stratum": s.law.name,
                "prompts": s.law.prompts,
                "mean_pass_rate": s.law.mean_pass_rate,
                "dead": {"value": s.law.dead, "low": s.law.dead_low, "high": s.law.dead_high},
                "status": s.law.statuses[0].name,
                "before": s.before,
                "after": s.after,
                "floor": s.floor,
                "cap": s.cap,
                "pool": s.pool,
                "epochs": s.epochs,
                "progress": s.progress,
            }
            for s in chosen.strata
        ],
        "kl": chosen.kl,
        "max_kl": chosen.max_kl if math.isfinite(chosen.max_kl) else None,
        "binding": list(chosen.binding),
        "gains": [{"kappa": g.kappa, "gain": _interval(g.gain)} for g in chosen.gains],
        "sure": chosen.sure,
        "worst_regret": chosen.worst_regret,
        "optimism": chosen.optimism,
        "frontier": [
            {"max_kl": p.max_kl, "kl": p.kl, "gain": p.gain, "shares": list(p.shares)} for p in chosen.frontier
        ],
        "corner": {"stratum": chosen.corner.stratum, "gain": chosen.corner.gain, "kl": chosen.corner.kl},
        "dead_before": _interval(chosen.dead_before),
        "dead_after": _interval(chosen.dead_after),
        "mixed_groups_before": None if n is None else n * (1.0 - chosen.dead_before.value),
        "mixed_groups_after": None if n is None else n * (1.0 - chosen.dead_after.value),
        "dropping": _dropping(chosen.dropping),
        "seed": chosen.seed,
        "replicates": chosen.replicates,
        "level": chosen.level,
        "assumptions": list(chosen.assumptions),
        "pilot": pilot_json(chosen.fit, chosen.level),
        "model": model_json(chosen.fit),
    }


def _dropping(effect: Dropping) -> dict[str, Any]:
    def kind(part: DroppedKind) -> dict[str, Any]:
        return {
            "prompts": part.prompts,
            "mixed": _interval(part.mixed),
            "mixed_in_visits": _interval(part.mixed_in_visits),
            "not_dead": _interval(part.mixed, part.prompts),
        }

    return {
        "group_size": effect.group_size,
        "visits": effect.visits,
        "never": kind(effect.never),
        "always": kind(effect.always),
        "rest": effect.rest,
        "rest_dead": _interval(effect.rest_dead),
        "naive_dead": effect.naive_dead,
        "lost": effect.lost,
    }
