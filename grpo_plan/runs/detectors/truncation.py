"""Groups that fail altogether because their rollouts were cut off."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array
from grpo_plan.group_log import GroupLog
from grpo_plan.quantities import Absent
from grpo_plan.runs.clustered import Clusters, clustered_share
from grpo_plan.runs.detectors.asking import rollouts_wanted, wanted
from grpo_plan.runs.detectors.common import evidence_of, in_words, percent, vague
from grpo_plan.runs.detectors.windows import CLUSTERED, graver, onset_of, severity_by
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import learning_curve
from grpo_plan.runs.measured import Counts, Floats
from grpo_plan.runs.trend import trend

CUT_INFO, CUT_WARNING, CUT_CRITICAL = 0.01, 0.10, 0.5  # shares of the groups
CUT_IMPROVING = 0.25  # a run that improves all the same is warned from here on
RISE_LEVEL = 0.99
CUT_OFF = "which rollouts were cut off"
LACKS = (CUT_OFF, "which groups fail altogether")
LONGER = "Give more tokens (or shorten prompts), or keep cut-off rollouts out of the reward and the loss; both change "
LONGER += "what a step costs."
CutShare = tuple[float | None, float, float]  # value, low, high


def truncation_dead(facts: Facts) -> Outcome:
    """Groups that fail altogether with every rollout cut off at the length limit."""
    id, groups = "TRUNCATION_DEAD", facts.run.groups
    if groups is not None and groups.groups and groups.truncated is not None and groups.provenance.filtered is None:
        if groups.all_fail is not None:
            return _cut_groups(id, facts, groups, groups.truncated, groups.all_fail)
        missing = facts.measured("all_fail_fraction")
        reason = missing.reason if isinstance(missing, Absent) else "which rollouts pass. Say it with --pass-threshold."
        if isinstance(facts.all_fail, Absent):
            return Skipped(id=id, needs=reason)
    return _cut_rows(id, facts)


def _cut_groups(id: str, facts: Facts, groups: GroupLog, truncated: Counts, all_fail: NDArray[np.bool_]) -> Outcome:
    """From the rollouts: which all-fail groups were cut off, against what is cut off elsewhere."""
    knobs = facts.settings
    known = truncated >= 0
    if not known.any():
        return Skipped(id=id, needs="whether each rollout was cut off; no group says it of all.")
    fail = all_fail & known
    cut = np.where(known, truncated, 0)
    whole_cut = fail & (cut == groups.rollouts)
    clusters = Clusters.of_groups(groups, whole_cut, known, "groups")
    late = clusters.late(knobs.late_share, knobs.late_rows)
    share, is_late = graver(clusters.share(knobs.level), late.share(knobs.level))
    inside = _cut_share(groups, cut, fail, knobs.level)
    outside = _cut_share(groups, cut, known & ~fail, knobs.level)
    apart = outside[2] == 0 or inside[1] > outside[2]
    seen = (
        f"{in_words(share)} of groups fail with every rollout cut off in {(late if is_late else clusters).span}; "
        f"{_share_in_words(inside)} of the rollouts of all-fail groups are cut off, and {_share_in_words(outside)} of "
        "the others"
    )
    severity = severity_by(share.low, CUT_INFO, CUT_WARNING, CUT_CRITICAL)
    if severity is None:
        span = (late if is_late else clusters).span
        doubt = vague(id, "the share of groups that fail with every rollout cut off", share, span)
        if doubt is not None:
            return doubt
        return Clear(id=id, because=f"{seen}.")
    curve = learning_curve(facts)
    if not apart:
        severity, why = Severity.INFO, "cut-off rollouts are no more frequent where all fail, so length need not be why"
    elif curve.improving and share.low <= CUT_IMPROVING:
        severity, why = Severity.INFO, f"but {curve.says}"
    else:
        why = f"they may fail because they ran out of tokens; {curve.says}"
    most = fail & (2 * cut >= groups.rollouts)
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}: {why}.",
        onset_step=onset_of(clusters, CUT_INFO, knobs.false_alarm)[0],
        evidence={
            **evidence_of("cut_off_all_fail_fraction", share),
            "window": "late" if is_late else "whole run",
            "rows": (late if is_late else clusters).rows,
            "groups": int(known.sum()),
            "all_fail_groups": int(fail.sum()),
            "all_fail_groups_all_cut_off": int(whole_cut.sum()),
            "all_fail_groups_half_cut_off": int(most.sum()),
            "truncated_fraction_all_fail": inside[0],
            "truncated_fraction_all_fail_low": inside[1],
            "truncated_fraction_elsewhere": outside[0],
            "truncated_fraction_elsewhere_high": outside[2] if outside[0] is not None else None,
            "reward": curve.learning.value,
        },
        remedy=f"Read a few of these rollouts: are they on their way, or do they repeat themselves? {LONGER}",
        reference=f"{CLUSTERED}; DAPO masks or shapes overlong responses (arXiv 2503.14476, section 3.4).",
    )


def _cut_share(groups: GroupLog, cut: Counts, which: NDArray[np.bool_], level: float) -> CutShare:
    """Share of the rollouts of some groups that were cut off, with limits over steps; None and 0 without any group."""
    if not which.any():
        return None, 0.0, 0.0
    part = Clusters.of_groups(groups, np.where(which, cut, 0), np.where(which, groups.rollouts, 0), "rollouts")
    found = part.share(level)
    return found.value, found.low, found.high


def _share_in_words(share: CutShare) -> str:
    return "none" if share[0] is None else f"{percent(share[0])} %"


def _cut_rows(id: str, facts: Facts) -> Outcome:
    """From the metrics: how far the two shares must overlap, and whether they rise together."""
    cut, fail, knobs = facts.measured("truncated_fraction"), facts.all_fail, facts.settings
    if isinstance(cut, Absent) or isinstance(fail, Absent):
        return Skipped(
            id=id,
            needs=" ".join(
                dict.fromkeys(
                    wanted(facts, x, lacks)
                    for x, lacks in zip((cut, fail), LACKS, strict=True)
                    if isinstance(x, Absent)
                )
            ),
        )
    steps, a, b = np.intersect1d(cut.steps, fail.steps, assume_unique=True, return_indices=True)
    if not steps.size:
        return Skipped(id=id, needs=f"rows that hold both {cut.words} and {fail.words}; no step has both.")
    t, low, high = np.clip(cut.values[a], 0.0, 1.0), fail.lower[b], fail.upper[b]
    least, most = overlap_bounds(t, low)[0], overlap_bounds(t, high)[1]
    weights = fail.groups[b].astype(np.float64)
    window = slice(max(steps.size - max(knobs.late_rows, int(knobs.late_share * steps.size)), 0), None)
    bound = clustered_share(least[window] * weights[window], weights[window], level=knobs.level)
    top = clustered_share(most[window] * weights[window], weights[window], level=knobs.level)
    span = f"steps {int(steps[window][0]):,} to {int(steps[-1]):,} ({steps[window].size:,} rows)"
    rise = [trend(steps, x, level=RISE_LEVEL) for x in (t, fail.values[b])]
    together = bool(rise[0].rising and rise[1].rising)
    curve = learning_curve(facts)
    shown = (
        f"at least {percent(bound.value or 0.0)} and at most {percent(top.value or 0.0)} % of rollouts are cut off in "
    )
    shown += f"all-fail groups in {span}"
    severity = severity_by(bound.low, CUT_INFO, CUT_WARNING, CUT_CRITICAL)
    if severity is None and top.high < CUT_WARNING:
        return Clear(id=id, because=f"{shown}.")
    if severity is None and not together:
        return Skipped(id=id, needs=f"which groups are cut off: {shown}. {rollouts_wanted(facts, CUT_OFF)}")
    if severity is None or not together or curve.improving:
        severity = Severity.INFO  # the bound does not say that cut-off rollouts are more frequent where all fail
    why = "; both shares rise together" if together else ""
    return Finding(
        id=id,
        severity=severity,
        says=f"{shown[0].upper()}{shown[1:]}{why}; {curve.says}.",
        onset_step=None,
        evidence={
            "cut_off_all_fail_fraction": None,
            "cut_off_all_fail_fraction_low": bound.low,
            "cut_off_all_fail_fraction_high": top.high,
            "late_truncated_fraction": float(np.average(t[window], weights=weights[window])),
            "rise_together": together,
            "rows": bound.rows,
            "reward": curve.learning.value,
        },
        remedy=f"{rollouts_wanted(facts, CUT_OFF)} If all-fail groups are the ones cut off: "
        f"{LONGER[0].lower()}{LONGER[1:]}",
        reference="two shares a and b of the same rollouts overlap by at least a + b - 1 and at most the smaller of "
        "them (Frechet); DAPO, arXiv 2503.14476, section 3.4.",
    )


def overlap_bounds(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """Least and most that two shares of the same rollouts have in common (theory.md, eq. 96).

    >>> low, high = overlap_bounds([0.9, 0.3], [0.3, 0.4])
    >>> low.round(3).tolist(), high.tolist()
    ([0.2, 0.0], [0.3, 0.3])
    """
    a, b = as_float_array(first, "first"), as_float_array(second, "second")
    return np.maximum(a + b - 1.0, 0.0), np.minimum(a, b)
