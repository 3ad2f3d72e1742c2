"""Dead groups of every other tool: what each logs, and what it leaves out."""

from __future__ import annotations

import re

import numpy as np

from grpo_plan.quantities.base import Absent, Cause, Floats, Quantity, Stage
from grpo_plan.quantities.spread import all_advantages_zero
from grpo_plan.quantities.view import RunView

Answers = dict[str, Quantity | Absent]
DEAD, MIXED, PASS, FAIL = "dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction"
EVICTED, SURPLUS = "training/filter_groups/evicted_samples", "training/filter_groups/discarded_surplus_samples"
SHAPED = "With rewards other than 0 and 1, groups of equal rewards in between count as mixed."


def verl(view: RunView) -> Answers:
    """Evicted groups where dead ones are filtered; else what the advantages say."""
    evicted = view.get(EVICTED)
    if evicted is None:
        return _solved_counts(view) or {DEAD: _from_advantages(view)}
    kept, logged = view.prompts_per_step, view.logged(EVICTED, SURPLUS)
    if kept is None:
        reason = (
            f"{EVICTED} counts the dead groups thrown away, but their share needs data.train_batch_size, which the log "
            "does not hold."
        )
        return {DEAD: Absent(name=DEAD, cause=Cause.NEEDS_SETTING, reason=reason, metrics=logged)}
    surplus = view.get(SURPLUS)
    spare = np.zeros(view.size) if surplus is None else np.where(np.isfinite(surplus), surplus, 0.0)
    notes: tuple[str, ...] = (f"The groups kept are those of train_batch_size, {kept:,}.",)
    if surplus is None:
        notes += ("No surplus groups were logged as discarded; none were counted.",)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = evicted + spare + kept
        values = np.where(drawn > 0.0, evicted / drawn, np.nan)
    return {DEAD: Quantity(name=DEAD, values=values, metrics=logged, stage=Stage.BEFORE, notes=notes)}


def _from_advantages(view: RunView) -> Quantity | Absent:
    found = all_advantages_zero(view)
    reason = f"{view.tool} logs no share of dead groups. Dump the rollouts, so that the groups can be counted."
    if found is None:
        return Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)
    zero, logged = found
    if np.isfinite(zero).any() and bool(np.all(zero[np.isfinite(zero)] == 1.0)):
        return Quantity(name=DEAD, values=zero, metrics=logged, notes=("Every advantage is 0: all groups are dead.",))
    reason += " Where every advantage is 0, all groups are dead; elsewhere at least one is mixed."
    kept = view.prompts_per_step
    most = np.where(zero == 1.0, 1.0, 1.0 if kept is None else 1.0 - 1.0 / kept)
    upper = np.where(np.isfinite(zero), most, np.nan)
    return Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason, metrics=logged, lower=zero, upper=upper)


def _solved_counts(view: RunView) -> Answers:
    """``batch/solve_all`` and ``batch/solve_none`` of forks: numbers of prompts, or shares."""
    none, every = view.get("batch/solve_none"), view.get("batch/solve_all")
    if none is None or every is None:
        return {}
    if (some := view.get("batch/solve_partial")) is not None:  # of some forks: the prompts in between
        with np.errstate(invalid="ignore", divide="ignore"):
            groups = np.where((found := none + every + some) > 0, found, np.nan)
        logged = view.logged("batch/solve_none", "batch/solve_all", "batch/solve_partial")
        return _shares(view, every / groups, none / groups, logged)
    logged = view.logged("batch/solve_none", "batch/solve_all")
    both = np.concatenate([none, every])
    both = both[np.isfinite(both)]
    if not np.all(both == np.round(both)) and both.max(initial=0.0) <= 1.0:
        total = 1
    elif view.prompts_per_step is not None:
        total = view.prompts_per_step
    else:
        reason = "batch/solve_none and batch/solve_all count prompts; their share needs data.train_batch_size."
        return {DEAD: Absent(name=DEAD, cause=Cause.NEEDS_SETTING, reason=reason, metrics=logged)}
    return _shares(view, every / total, none / total, logged)


def _shares(
    view: RunView,
    every: Floats,
    none: Floats,
    logged: tuple[str, ...],
    stage: Stage = Stage.UNKNOWN,
    notes: tuple[str, ...] = (SHAPED,),
) -> Answers:
    """Dead groups as those that all pass and those that all fail."""
    values = {DEAD: every + none, PASS: every, FAIL: none, MIXED: 1.0 - every - none}
    return {
        name: Quantity(name=name, values=found, metrics=logged, stage=stage, notes=notes)
        for name, found in values.items()
    }


def openrlhf(view: RunView) -> Answers:
    """Accepted samples per consumed prompt, in percent: divided by the rollouts per prompt."""
    name = "dynamic_filtering_pass_rate"
    rate = view.get(name)
    if rate is None:
        return {DEAD: _from_group_std(view)}
    size, logged = view.rollouts_per_prompt, view.logged(name)
    high = float(np.nanmax(rate)) if np.isfinite(rate).any() else 0.0
    least = np.where(np.isfinite(rate), np.maximum(0.0, 1.0 - rate / 100.0), np.nan)  # a prompt has a rollout or more
    if size is None:
        reason = (
            f"{name} is 100 times the accepted samples per prompt in OpenRLHF 0.9.10 to 0.11.2, so it has to be "
            "divided by n_samples_per_prompt, which the log does not hold."
        )
        return {DEAD: Absent(name=DEAD, cause=Cause.NEEDS_SETTING, reason=reason, metrics=logged, lower=least)}
    if high <= 100.0 and _per_prompt(view) is None:
        reason = (
            f"{name} is at most {high:g}: a plain percentage, or 100 times the accepted samples per prompt of a run "
            f"with few accepted groups (divided by {size} then). The setting openrlhf_version settles it."
        )
        return {
            DEAD: Absent(
                name=DEAD,
                cause=Cause.MEANING_UNKNOWN,
                reason=reason,
                metrics=logged,
                lower=least,
                upper=1.0 - rate / (100.0 * size),
            )
        }
    plain = high <= 100.0 and _per_prompt(view) is False
    mixed = rate / (100.0 if plain else 100.0 * size)
    notes = (
        "A group is kept if its mean reward lies inside dynamic_filtering_range; with rewards other than 0 and 1 it "
        "may be dead all the same.",
    )
    return {
        MIXED: Quantity(name=MIXED, values=mixed, metrics=logged, stage=Stage.BEFORE, notes=notes),
        DEAD: Quantity(name=DEAD, values=1.0 - mixed, metrics=logged, stage=Stage.BEFORE, notes=notes),
    }


def _per_prompt(view: RunView) -> bool | None:
    """Whether the version counts samples per prompt; None if unknown, as after the last version that was read."""
    from packaging.version import InvalidVersion, Version

    given = view.setting("openrlhf_version")
    if given is None:
        return None
    try:
        version = Version(str(given))
    except InvalidVersion:
        return None
    return None if version > Version("0.11.2") else version >= Version("0.9.10")


def _from_group_std(view: RunView) -> Quantity | Absent:
    std = view.get("group_reward_std")
    reason = "OpenRLHF logs the share of kept groups only with dynamic filtering."
    if std is None:
        return Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)
    logged = view.logged("group_reward_std")
    floor = np.where(np.isfinite(std), np.where(std == 0.0, 1.0, 0.0), np.nan)
    if np.isfinite(std).any() and bool(np.all(floor[np.isfinite(floor)] == 1.0)):
        return Quantity(name=DEAD, values=floor, metrics=logged, notes=("group_reward_std is 0: all groups are dead.",))
    reason += " Where group_reward_std is 0, all groups are dead."
    return Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason, metrics=logged, lower=floor)


def nemo_rl(view: RunView) -> Answers:
    """Percent of samples whose baseline is 0 or 1: of dead groups only if the baseline is the mean of the group."""
    names = ("baseline_reward/pct_0", "baseline_reward/pct_1")
    fail, passed = view.get(names[0]), view.get(names[1])
    if fail is None or passed is None:
        reason = "NeMo-RL's baseline_reward/pct_0 and pct_1 are not in the log."
        return {DEAD: Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)}
    logged, size = view.logged(*names), view.rollouts_per_prompt
    dynamic = str(view.setting("use_dynamic_sampling")).lower() == "true"
    stage = Stage.UNKNOWN if dynamic or view.get("dynamic_sampling_num_gen_batches") is not None else Stage.UNFILTERED
    if str(view.setting("use_leave_one_out_baseline")).lower() == "false":
        return _shares(view, passed / 100.0, fail / 100.0, logged, stage)
    upper = (fail + passed) / 100.0
    counted_twice = 1.0 if size is None or size < 3 else 1.0 / size  # largest share of a mixed group's rollouts
    with np.errstate(invalid="ignore", divide="ignore"):
        lower = np.zeros_like(upper) if counted_twice == 1.0 else (upper - counted_twice) / (1.0 - counted_twice)
    known = "is on" if view.setting("use_leave_one_out_baseline") is not None else "may be on (it is in the examples)"
    reason = (
        f"use_leave_one_out_baseline {known}, and then pct_0 and pct_1 also count single rollouts of mixed groups: "
        "they overstate dead groups. The setting use_leave_one_out_baseline false makes them exact."
    )
    return {
        DEAD: Absent(
            name=DEAD,
            cause=Cause.MEANING_UNKNOWN,
            reason=reason,
            metrics=logged,
            lower=np.where(np.isfinite(upper), np.clip(lower, 0.0, 1.0), np.nan),
            upper=upper,
        )
    }


def prime_rl(view: RunView) -> Answers:
    """Groups of which none or all are solved, under the names of three generations."""
    agents = sorted({m.group(1) for n in view.names if (m := re.fullmatch(r"train/agg/all/(.+)/solved_none", n))})
    agent = "agent" if "agent" in agents else (agents[0] if agents else "agent")
    for none_name, all_name in (
        (f"train/agg/all/{agent}/solved_none", f"train/agg/all/{agent}/solved_all"),
        ("solve_none/all", "solve_all/all"),
        ("batch/solve_none", "batch/solve_all"),
    ):
        none, every = view.get(none_name), view.get(all_name)
        if none is not None and every is not None:
            notes: tuple[str, ...] = (SHAPED, "Rollouts that ended in an error count as reward 0.")
            if len(agents) > 1:
                notes += (f"Of the agents {', '.join(agents)}, {agent} was read.",)
            stage = Stage.BEFORE if none_name.startswith("train/") else _before_0_7(view)
            return _shares(view, every, none, view.logged(none_name, all_name), stage, notes)
    reason = "prime-rl's shares of groups that are solved by none and by all are not in the log."
    return {DEAD: Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)}


def _before_0_7(view: RunView) -> Stage:
    """Older versions count the batch that they train on; online_difficulty_filtering keeps dead groups out of it."""
    given = view.setting("online_difficulty_filtering")
    stages = {"true": Stage.AFTER, "false": Stage.UNFILTERED}
    return stages.get(str(given).lower(), Stage.UNKNOWN)


def skyrl(view: RunView) -> Answers:
    """Groups without any reward above 0, and the number of zero-variance groups; both after dynamic sampling."""
    answers: Answers = {}
    found = view.matching(r"reward/avg_pass_at_\d+")
    stage = Stage.AFTER if view.setting("dynamic_sampling.type") not in (None, "null", "None") else Stage.UNKNOWN
    fail = 1.0 - np.asarray(view.get(found[0])) if found else None
    if fail is not None:
        note = "A group fails where no reward is above 0."
        answers[FAIL] = Quantity(name=FAIL, values=fail, metrics=view.logged(found[0]), stage=stage, notes=(note,))
    name = "reward/num_zero_variance_filtered"
    dead, kept = view.get(name), view.prompts_per_step
    if dead is not None and kept is not None:
        note = f"Groups of a step: {kept:,} (train_batch_size)."
        answers[DEAD] = Quantity(name=DEAD, values=dead / kept, metrics=view.logged(name), stage=stage, notes=(note,))
        return answers
    reason = (
        f"{name} counts the dead groups; their share needs trainer.train_batch_size, which the log does not hold."
        if dead is not None
        else "SkyRL logs dead groups only with zero_variance_filter; those without a reward above 0 are a part of them."
    )
    cause = Cause.NEEDS_SETTING if dead is not None else Cause.NOT_LOGGED
    answers[DEAD] = Absent(name=DEAD, cause=cause, reason=reason, metrics=view.logged(name, *found), lower=fail)
    return answers


def slime(view: RunView) -> Answers:
    """Dead groups kept and dropped, one metric a reward; a metric that is absent at a step stands for 0."""
    kept_names = view.matching(r"rollout/zero_std/count_.+")
    dropped_names = view.matching(r"rollout/dynamic_filter/drop_zero_std_.+")
    prompts = view.prompts_per_step
    if prompts is None:
        reason = (
            "slime counts dead groups by reward; their share needs rollout_batch_size, which the log does not hold."
        )
        logged = view.logged(*kept_names, *dropped_names)
        cause = Cause.NEEDS_SETTING if logged else Cause.NOT_LOGGED
        return {DEAD: Absent(name=DEAD, cause=cause, reason=reason, metrics=logged)}
    here = np.zeros(view.size, dtype=bool)
    for values in (view.get(name) for name in view.matching(r"rollout/.+")):
        here |= np.isfinite(np.asarray(values))

    def total(names: list[str]) -> Floats:
        parts = [np.nan_to_num(np.asarray(view.get(name))) for name in names]
        return np.where(here, np.sum(parts, axis=0) if parts else 0.0, np.nan)

    def of(reward: float) -> list[str]:
        return [n for n in (*kept_names, *dropped_names) if _number(n.rpartition("_")[2]) == reward]

    groups = total(dropped_names) + prompts
    logged = view.logged(*kept_names, *dropped_names)
    stage = Stage.BEFORE if dropped_names else Stage.UNFILTERED
    notes = (f"Groups kept in a step: {prompts:,} (rollout_batch_size).",)
    parts = {DEAD: [*kept_names, *dropped_names], PASS: of(1.0), FAIL: of(0.0)}
    return {
        name: Quantity(name=name, values=total(names) / groups, metrics=logged, stage=stage, notes=notes)
        for name, names in parts.items()
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def roll(view: RunView) -> Answers:
    """Groups whose scores are all 1 or all 0, after query filtering."""
    passed, failed = "group/all_correct_groups_ratio", "group/all_incorrect_groups_ratio"
    every, none = view.get(passed), view.get(failed)
    if every is None or none is None:
        reason = (
            "ROLL logs shares of groups in RLVR pipelines with several responses a prompt; they are not in the log."
        )
        return {DEAD: Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)}
    stage = Stage.AFTER if "scheduler/query_filter_count" in view else Stage.UNKNOWN
    return _shares(view, every, none, view.logged(passed, failed), stage)


def tinker(view: RunView) -> Answers:
    """Groups whose total rewards are equal: the rest of ``frac_mixed``."""
    name = "env/all/by_group/frac_mixed"
    mixed = view.get(name)
    if mixed is None:
        reason = f"{name} is not in the log."
        return {DEAD: Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)}
    removed = str(view.setting("remove_constant_reward_groups")).lower() == "true"
    stage = Stage.UNKNOWN if removed else Stage.UNFILTERED
    note = "Total rewards are compared: a format penalty makes a group mixed whose answers are all right or all wrong."
    return {
        DEAD: Quantity(name=DEAD, values=1.0 - mixed, metrics=view.logged(name), stage=stage, notes=(note,)),
        MIXED: Quantity(name=MIXED, values=mixed, metrics=view.logged(name), stage=stage, notes=(note,)),
    }


def open_instruct(view: RunView) -> Answers:
    """Prompts filtered for equal rewards, over all prompts; whether the total holds them is told by the percentage."""
    prefix = "batch/filtered_prompts"
    filtered, total = view.get(prefix), view.get("batch/total_prompts")
    if filtered is None or total is None:
        reason = "open-instruct's batch/filtered_prompts and batch/total_prompts are not both in the log."
        return {DEAD: Absent(name=DEAD, cause=Cause.NOT_LOGGED, reason=reason)}
    with np.errstate(invalid="ignore", divide="ignore"):
        among, beside = filtered / total, filtered / (filtered + total)
    logged = view.logged(prefix, "batch/total_prompts", f"{prefix}_pct")
    share = view.get(f"{prefix}_pct")
    groups = None
    if share is not None and np.isfinite(share).any():
        for scale in (1.0, 100.0):
            for guess, base in ((among, total), (beside, filtered + total)):
                if _same(share / scale, guess):
                    groups = base
    if groups is None and bool(np.any(filtered > total)):
        groups = filtered + total
    if groups is None:
        reason = "Whether batch/total_prompts holds the filtered ones is not known, so the share is between two values."
        return {
            DEAD: Absent(
                name=DEAD, cause=Cause.MEANING_UNKNOWN, reason=reason, metrics=logged, lower=beside, upper=among
            )
        }
    parts = {DEAD: prefix, PASS: f"{prefix}_solved", FAIL: f"{prefix}_zero"}
    return {
        name: Quantity(name=name, values=count / groups, metrics=view.logged(metric), stage=Stage.BEFORE)
        for name, metric in parts.items()
        if (count := view.get(metric)) is not None
    }


def _same(a: Floats, b: Floats) -> bool:
    both = np.isfinite(a) & np.isfinite(b) & (b > 0)
    return bool(both.any() and np.allclose(a[both], b[both], rtol=1e-4))
