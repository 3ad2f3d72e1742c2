"""Dead groups whose equal reward is neither pass nor fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import GroupLog
from grpo_plan.quantities import Absent
from grpo_plan.runs.clustered import Clusters
from grpo_plan.runs.detectors.asking import rollouts_wanted, wanted
from grpo_plan.runs.detectors.common import evidence_of, in_words, vague
from grpo_plan.runs.detectors.windows import CLUSTERED, graver, onset_of, severity_by
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Evidence, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import Learning, learning_curve
from grpo_plan.runs.measured import Measured

FLAT_INFO, FLAT_WARNING, FLAT_CRITICAL = 0.01, 0.10, 0.5  # shares of the groups
SAME_REWARD = 6  # decimals
LEVELS = r"rollout/(zero_std/count|dynamic_filter/drop_zero_std)_.+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """Groups whose equal reward is neither pass nor fail: how many, of what, and which reward."""

    clusters: Clusters
    words: str
    reward: float | None
    reward_share: float | None
    zero: int | None = None


def flat_reward(facts: Facts) -> Outcome:
    """Dead groups that earn a part of the reward: all for the same thing."""
    id, knobs = "FLAT_REWARD", facts.settings
    found = _flat_groups(facts) or _flat_levels(facts) or _flat_rest(facts)
    if isinstance(found, str):
        return Skipped(id=id, needs=found)
    late = found.clusters.late(knobs.late_share, knobs.late_rows)
    share, is_late = graver(found.clusters.share(knobs.level), late.share(knobs.level))
    unit, window = found.clusters.unit, late if is_late else found.clusters
    span = window.span
    seen = f"{in_words(share)} of {unit} earn one reward that is neither pass nor fail in {span}"
    severity = severity_by(share.low, FLAT_INFO, FLAT_WARNING, FLAT_CRITICAL)
    if severity is None:
        doubt = vague(
            id, f"the share of {unit} with one reward that is neither pass nor fail", share, f"{span} ({found.words})"
        )
        if doubt is not None:
            return doubt
        return Clear(id=id, because=f"{seen} ({found.words}).")
    curve = learning_curve(facts)
    if curve.improving or (not is_late and late.share(knobs.level).low <= FLAT_WARNING) or unit != "groups":
        severity = Severity.INFO
    elif severity is Severity.CRITICAL and curve.learning not in (Learning.FLAT, Learning.FALLING):
        severity = Severity.WARNING
    which = ""
    if found.reward is not None and found.reward_share is not None:
        which = f", most often {found.reward:g} ({100 * found.reward_share:.0f} % of them)"
    step, _ = onset_of(found.clusters, FLAT_INFO, knobs.false_alarm)
    evidence: Evidence = {
        **evidence_of("flat_fraction", share),
        "share_of": unit,
        "window": "late" if is_late else "whole run",
        "rows": window.rows,
        "reward_most_often": found.reward,
        "reward_most_often_share": found.reward_share,
        "equal_at_zero_groups": found.zero,
        "reward": curve.learning.value,
    }
    asked = "that reward" if found.reward is None else f"a reward of {found.reward:g}"
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}{which}; {curve.says} ({found.words}).",
        onset_step=step,
        evidence=evidence,
        remedy=f"Read a few of these groups: what earns {asked}? Where it is paid for the format, or for a part that "
        "all rollouts get, it no longer tells them apart: split it finer, or drop it.",
        reference=f"{CLUSTERED}; a dead group has no gradient whatever its reward (docs/theory.md, section 1).",
    )


def _flat_groups(facts: Facts) -> Flat | None:
    """From the rollouts. An equal reward of 0 above negative ones is a fail without a penalty: counted apart."""
    groups = facts.run.groups
    if groups is None or not groups.groups or groups.provenance.filtered is not None:
        return None
    paid, at_zero = paid_flat(groups)
    words = f"{groups.groups:,} groups of rollouts"
    words += f"; in {at_zero:,} of them all rewards are 0, which is a fail where others are negative" if at_zero else ""
    values, counts = np.unique(np.round(groups.reward_mean[paid], SAME_REWARD), return_counts=True)
    most = int(np.argmax(counts)) if counts.size else None
    return Flat(
        clusters=Clusters.of_groups(groups, paid, np.ones(groups.groups), "groups"),
        words=words,
        reward=None if most is None else float(values[most]),
        reward_share=None if most is None else float(counts[most] / counts.sum()),
        zero=at_zero,
    )


def paid_flat(groups: GroupLog) -> tuple[NDArray[np.bool_], int]:
    """Flat groups that earn something, shape (N,), and the number of those equal at 0 above negative rewards."""
    zero = groups.flat & (np.abs(np.nan_to_num(groups.reward_mean, nan=1.0)) <= 10.0**-SAME_REWARD)
    return groups.flat & ~zero, int(zero.sum())


def _flat_levels(facts: Facts) -> Flat | None:
    """From counts of dead groups by their reward, one metric a reward (slime)."""
    view = facts.view
    levels: dict[str, float] = {}
    for name in view.matching(LEVELS):
        try:
            levels[name] = float(name.rpartition("_")[2])
        except ValueError:
            continue
    if view.tool != "slime" or not levels:
        return None
    seen = np.array([v for v in levels.values() if np.isfinite(v)])
    fail, passed = min(0.0, float(seen.min(initial=0.0))), max(1.0, float(seen.max(initial=1.0)))
    flat = {name: v for name, v in levels.items() if fail < v < passed and v != 0.0}
    here = np.zeros(view.size, dtype=bool)
    for name in view.matching(r"rollout/.+"):
        here |= np.isfinite(np.asarray(view.get(name)))
    counts = {name: np.nan_to_num(np.asarray(view.get(name))) for name in levels}
    none = np.zeros(view.size)
    hits = np.sum([counts[name] for name in flat], axis=0) if flat else none
    dead = np.sum(list(counts.values()), axis=0)
    dropped = sum((counts[name] for name in levels if "drop_zero_std" in name), none)
    kept = facts.prompts_per_step
    totals = dead if kept is None else dropped + kept
    at = here & (totals > 0)
    sums = {v: float(sum(counts[n].sum() for n in flat if flat[n] == v)) for v in set(flat.values())}
    most = max(sums, key=lambda v: (sums[v], -abs(v))) if sums and sum(sums.values()) > 0 else None
    unit = "groups" if kept is not None else "dead groups"
    clusters = Clusters(steps=facts.run.steps[at], hits=np.minimum(hits, totals)[at], totals=totals[at], unit=unit)
    return Flat(
        clusters=clusters,
        words="rollout/zero_std/count_* and rollout/dynamic_filter/drop_zero_std_*, rewards rounded to 0.1",
        reward=most,
        reward_share=None if most is None else sums[most] / sum(sums.values()),
    )


def _flat_rest(facts: Facts) -> Flat | str:
    """What is left of the dead fraction without all-pass and all-fail groups, where each is logged by itself."""
    parts = [facts.measured(name) for name in ("dead_fraction", "all_pass_fraction", "all_fail_fraction")]
    for part in parts:
        if isinstance(part, Absent):
            return wanted(facts, part)
    dead, passed, failed = (p for p in parts if isinstance(p, Measured))
    if dead.words == passed.words or set(dead.words.split(", ")) <= set(f"{passed.words}, {failed.words}".split(", ")):
        return (
            f"the dead fraction by itself: {dead.words} counts only groups that all pass or all fail as dead. "
            f"{rollouts_wanted(facts, 'which groups are dead at a reward between the ends')}"
        )
    steps = np.intersect1d(np.intersect1d(dead.steps, passed.steps), failed.steps)
    at = [np.isin(p.steps, steps) for p in (dead, passed, failed)]
    rest = dead.values[at[0]] - passed.values[at[1]] - failed.values[at[2]]
    totals = dead.groups[at[0]].astype(np.float64)
    shares = np.where(rest > 1e-6, np.clip(rest, 0.0, 1.0), 0.0)
    clusters = Clusters(steps=steps, hits=shares * totals, totals=totals, unit="groups")
    words = f"{dead.words} less {passed.words} and {failed.words}"
    return Flat(clusters=clusters, words=words, reward=None, reward_share=None)
