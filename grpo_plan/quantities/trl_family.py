"""Dead groups of TRL and of those that log its names: a share of the groups, or a flag of the whole batch."""

from __future__ import annotations

import numpy as np

from grpo_plan.quantities.base import Absent, Cause, Floats, Quantity, Stage
from grpo_plan.quantities.spread import BATCH, WITHIN, std_meaning
from grpo_plan.quantities.view import RunView

ZERO_STD = "frac_reward_zero_std"
UNCOUNTED = "groups with fewer than two scored rollouts are dead too, but not counted as such"


def dead_fraction(view: RunView) -> Quantity | Absent:
    """The share of dead groups, where ``frac_reward_zero_std`` says it."""
    kept = view.first("dapo/kept_prompts_ratio")
    if kept is not None:
        values = 1.0 - np.asarray(view.get(kept))
        return Quantity(name="dead_fraction", values=values, metrics=view.logged(kept), stage=Stage.BEFORE)
    values_or_none = view.get(ZERO_STD)
    if values_or_none is None:
        return _from_spread(view)
    values, logged = values_or_none, view.logged(ZERO_STD)
    filtered = _filtered(view)
    if filtered:
        reason = f"{ZERO_STD} is of the groups that were kept: {filtered}. Count the groups before they are dropped."
        return Absent(name="dead_fraction", cause=Cause.SURVIVORS_ONLY, reason=reason, metrics=logged)
    flag = _flag_because(view)
    if flag:
        reason = (
            f"{ZERO_STD} is 1 only where all rewards of a batch are equal: {flag}. Log completions, so that the groups "
            "can be counted."
        )
        return Absent(name="dead_fraction", cause=Cause.BATCH_FLAG, reason=reason, metrics=logged, lower=_floor(values))
    known = values[np.isfinite(values)]
    notes = [] if view.tool == "ms-swift" else [f"{UNCOUNTED}."]
    if _scale(view) is None and view.tool != "ms-swift":
        if _like_a_flag(known) and not _single_group(view) and not _told_by_std(view, values):
            reason = (
                f"{ZERO_STD} is only ever {' or '.join(f'{v:g}' for v in np.unique(known))}, as a flag of the whole "
                "batch would be (scale_rewards 'batch'), or the share of dead groups in a run that has none. The "
                "setting scale_rewards settles it."
            )
            return Absent(
                name="dead_fraction", cause=Cause.MEANING_UNKNOWN, reason=reason, metrics=logged, lower=_floor(values)
            )
        if not np.all(known == 1.0):
            notes.append(f"{ZERO_STD} was taken as the share of groups, since it takes values between 0 and 1.")
    return Quantity(name="dead_fraction", values=values, metrics=logged, notes=tuple(notes))


def dead_batch(view: RunView) -> Quantity | None:
    """The flag of the whole batch, where ``frac_reward_zero_std`` is one."""
    values = view.get(ZERO_STD)
    if values is None or not _flag_because(view):
        return None
    return Quantity(name="dead_batch", values=values, metrics=view.logged(ZERO_STD))


def _flag_because(view: RunView) -> str:
    """Why the metric is a flag of the whole batch; empty if it is not known to be one."""
    if view.tool == "ms-swift":
        return ""
    if str(_scale(view)).lower() == "batch":
        return "scale_rewards is 'batch'"
    if str(view.setting("multi_objective_aggregation")).lower() == "normalize_then_sum":
        return "multi_objective_aggregation is 'normalize_then_sum'"
    return ""


def _scale(view: RunView) -> object | None:
    return view.setting("scale_rewards")


def _filtered(view: RunView) -> str:
    """Why only survivors are counted; empty if nothing says so."""
    if str(view.setting("dynamic_sample")).lower() == "true":
        return "dynamic_sample is on"
    for name in ("num_gen_batches", "dapo/num_sampling_attempts"):
        batches = view.get(name)
        if batches is not None and bool(np.any(batches > 1)):
            return f"{view.names[name]} is up to {np.nanmax(batches):g} a step"
    return ""


def _like_a_flag(known: Floats) -> bool:
    """Whether only 0 and 1 occur, and not 1 alone: a batch whose rewards are all equal has dead groups only."""
    return bool(np.all((known == 0.0) | (known == 1.0)) and np.any(known == 0.0))


def _told_by_std(view: RunView, values: Floats) -> bool:
    """Whether a 1 stands beside rewards of a batch that differ: no flag of the whole batch then."""
    std = view.get("reward_std")
    return std is not None and std_meaning(view)[0] == BATCH and bool(np.any((values == 1.0) & (std > 0)))


def _single_group(view: RunView) -> bool:
    """Whether a step has one group: the share of its groups is 0 or 1 then."""
    return view.prompts_per_step == 1


def _floor(values: Floats) -> Floats:
    """A dead batch has dead groups only; another has any number."""
    return np.where(np.isfinite(values), np.where(values == 1.0, 1.0, 0.0), np.nan)


def _from_spread(view: RunView) -> Quantity | Absent:
    """Without the metric: rewards that never differ within a group are those of dead groups only."""
    std = view.get("reward_std")
    missing = "frac_reward_zero_std is not in the log (TRL logs it since 0.18)"
    if std is None or std_meaning(view)[0] != WITHIN:
        reason = f"{missing}. Log completions, so that the groups can be counted."
        return Absent(name="dead_fraction", cause=Cause.NOT_LOGGED, reason=reason)
    known = std[np.isfinite(std)]
    logged = view.logged("reward_std")
    if known.size and bool(np.all(known == 0.0)):
        values = np.where(np.isfinite(std), 1.0, np.nan)
        note = "No group has rewards that differ: reward_std, the mean of the groups' own, is 0 at every step."
        return Quantity(name="dead_fraction", values=values, metrics=logged, notes=(note,))
    reason = f"{missing}. Where reward_std is 0, all groups are dead; elsewhere it does not say how many."
    floor = np.where(np.isfinite(std), np.where(std == 0.0, 1.0, 0.0), np.nan)
    return Absent(name="dead_fraction", cause=Cause.NOT_LOGGED, reason=reason, metrics=logged, lower=floor)
