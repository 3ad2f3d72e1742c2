"""`quantity_of`: a quantity of a run by the rules of the tool that logged it."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from grpo_plan._suggest import not_one_of
from grpo_plan.errors import DomainError
from grpo_plan.quantities.base import DEFINITIONS, Absent, Cause, Quantity, Scope, Stage
from grpo_plan.quantities.dead import (
    Answers,
    nemo_rl,
    open_instruct,
    openrlhf,
    prime_rl,
    roll,
    skyrl,
    slime,
    tinker,
    verl,
)  # fmt: skip
from grpo_plan.quantities.names import is_known, names_for
from grpo_plan.quantities.spread import advantage_abs_max, reward_std
from grpo_plan.quantities.trl_family import dead_batch, dead_fraction
from grpo_plan.quantities.view import RunView

DEAD_RULES: dict[str, Callable[[RunView], Answers]] = {
    "verl": verl,
    "easyr1": verl,
    "openrlhf": openrlhf,
    "nemo-rl": nemo_rl,
    "prime-rl": prime_rl,
    "skyrl": skyrl,
    "slime": slime,
    "roll": roll,
    "tinker": tinker,
    "open-instruct": open_instruct,
}
SHARES = ("dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction")
MAY_FILTER = frozenset({"openrlhf", "nemo-rl", "prime-rl", "skyrl", "slime", "roll", "open-instruct", "easyr1"})
SAME_EVERYWHERE = frozenset({"step_time_s", "tokens", "advantage_std"})
PERCENT = frozenset({"truncated_fraction", "failed_fraction"})


def quantity_of(name: str, view: RunView) -> Quantity | Absent:
    """A quantity with its meaning, or why the log does not tell it.

    Raises:
        DomainError: There is no such quantity.
    """
    if name not in DEFINITIONS:
        raise DomainError(not_one_of("quantity", name, DEFINITIONS))
    found = _by_rule(name, view)
    if found is not None:
        return found
    direct = _direct(name, view)
    if direct is not None:
        return direct
    usual = names_for(view.tool, name)
    if view.tool is None:
        reason = "not in the log under any name that is known"
    elif usual:
        reason = f"not in the log, where {view.tool} calls it {' or '.join(usual)}"
    else:
        reason = f"not logged by {view.tool}"
    return Absent(name=name, cause=Cause.NOT_LOGGED, reason=f"{name}: {reason}.")


def recognised_names(view: RunView) -> tuple[str, ...]:
    """Metrics, as logged, that some tool is known to log."""
    return tuple(name for name in view.metrics if is_known(name))


def _by_rule(name: str, view: RunView) -> Quantity | Absent | None:
    if name in SHARES:
        return _share(name, view)
    if name == "dead_batch":
        return dead_batch(view) if view.tool == "trl" else None
    if name in ("reward_std", "group_reward_std"):
        return reward_std(name, view)
    if name == "advantage_abs_max":
        return advantage_abs_max(name, view)
    if name == "tokens":
        return _tokens(view)
    if name == "response_tokens_mean" and view.tool == "tinker":
        return _tinker_lengths(view)
    if name in ("group_size", "prompts_per_step"):
        size = view.rollouts_per_prompt if name == "group_size" else _prompts(view)
        return None if size is None else Quantity(name=name, values=np.full(view.size, float(size)))
    if name in ("truncated_fraction", "failed_fraction") and view.tool == "prime-rl":
        return _of_agent(name, view)
    return None


def _share(name: str, view: RunView) -> Quantity | Absent | None:
    """One of the four shares of groups, from the rules of the tool or from the others."""
    rule = DEAD_RULES.get(view.tool or "")
    answers: Answers = {} if rule is None else rule(view)
    if view.tool in ("trl", "ms-swift"):
        answers["dead_fraction"] = dead_fraction(view)
    if name in answers:
        return answers[name]
    direct = _direct(name, view)
    if direct is not None:
        return direct
    other = answers.get("dead_fraction") or _direct("dead_fraction", view)
    if name == "mixed_fraction" and isinstance(other, Quantity):
        return Quantity(
            name=name, values=1.0 - other.values, metrics=other.metrics, stage=other.stage, notes=other.notes
        )
    if name == "mixed_fraction" and isinstance(answers.get("dead_fraction"), Absent):
        return _complement(answers["dead_fraction"])
    return None


def _complement(found: Quantity | Absent) -> Absent | None:
    if not isinstance(found, Absent):
        return None
    return Absent(
        name="mixed_fraction",
        cause=found.cause,
        reason=found.reason,
        metrics=found.metrics,
        lower=None if found.upper is None else 1.0 - found.upper,
        upper=None if found.lower is None else 1.0 - found.lower,
    )


def _direct(name: str, view: RunView) -> Quantity | None:
    """A metric that is the quantity as it stands; shares above 1 are percentages."""
    names = names_for(view.tool, name)
    if name in SAME_EVERYWHERE:  # whoever logs it under such a name
        names = (*names, *names_for(None, name))
    plain = view.first(*names)
    values = None if plain is None else view.get(plain)
    if plain is None or values is None or not np.isfinite(values).any():
        return None
    notes: tuple[str, ...] = ()
    if name in PERCENT and float(np.nanmax(values)) > 1.0:
        values, notes = values / 100.0, (f"{view.names[plain]} was taken as a percentage.",)
    return Quantity(name=name, values=values, metrics=view.logged(plain), stage=_stage(name, plain, view), notes=notes)


def _stage(name: str, metric: str, view: RunView) -> Stage:
    """Whether a metric is of all groups, or of those that were kept."""
    if DEFINITIONS[name].scope is Scope.STEP:
        return Stage.UNFILTERED
    if view.tool == "prime-rl" and re.match(r"train/[^/]+/all/", metric):
        return Stage.BEFORE
    if drops_groups(view):
        return Stage.AFTER
    return Stage.UNKNOWN if view.tool in MAY_FILTER else Stage.UNFILTERED


def drops_groups(view: RunView) -> bool:
    """Whether the metrics say that groups were thrown away."""
    for quantity, least in (("evicted_groups", 0.0), ("generation_batches", 1.0)):
        for name in names_for(view.tool, quantity):
            values = view.get(name)
            if values is not None and bool(np.any(values > least)):
                return True
    return str(view.setting("dynamic_sample")).lower() == "true"


def _tokens(view: RunView) -> Quantity | None:
    """Tokens of a step, or TRL's counter since the start."""
    counter = view.get("num_tokens")
    if counter is not None and view.tool in ("trl", "ms-swift", None) and np.isfinite(counter).any():
        return Quantity(name="tokens", values=counter, metrics=view.logged("num_tokens"), cumulative=True)
    parts = ("env/all/total_ac_tokens", "env/all/total_ob_tokens")
    made, shown = view.get(parts[0]), view.get(parts[1])
    if made is not None and shown is not None:
        return Quantity(name="tokens", values=made + shown, metrics=view.logged(*parts))
    return None


def _tinker_lengths(view: RunView) -> Quantity | None:
    """Response tokens of a whole episode: all that it wrote over the episodes."""
    parts = ("env/all/total_ac_tokens", "env/all/total_episodes")
    made, episodes = view.get(parts[0]), view.get(parts[1])
    if made is None or episodes is None:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        return Quantity(name="response_tokens_mean", values=made / episodes, metrics=view.logged(*parts))


def _prompts(view: RunView) -> int | None:
    """Groups of a step from the settings; of tinker also from its episodes."""
    found, size = view.prompts_per_step, view.rollouts_per_prompt
    episodes = view.get("env/all/total_episodes")
    if found is not None or size is None or episodes is None:
        return found
    known = np.unique(episodes[np.isfinite(episodes)])
    return int(known[0]) // size if known.size == 1 and known[0] % size == 0 else None


def _of_agent(name: str, view: RunView) -> Quantity | None:
    """A share of prime-rl's rollouts, over all environments."""
    metric = {"truncated_fraction": "is_truncated", "failed_fraction": "has_error"}[name]
    found = view.matching(rf"train/agg/all/[^/]+/{metric}/mean")
    values = view.get(found[0]) if found else None
    if values is None:
        return None
    return Quantity(name=name, values=values, metrics=view.logged(found[0]), stage=Stage.BEFORE)
