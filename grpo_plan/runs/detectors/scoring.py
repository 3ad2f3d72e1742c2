"""Rollouts that got no reward, and the groups that are dead for it."""

from __future__ import annotations

import numpy as np

from grpo_plan.quantities import Absent
from grpo_plan.runs.clustered import Clusters
from grpo_plan.runs.detectors.asking import wanted
from grpo_plan.runs.detectors.common import evidence_of, in_words, vague
from grpo_plan.runs.detectors.windows import CLUSTERED, graver, onset_of, severity_by
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped

FAILED_INFO, FAILED_WARNING, FAILED_CRITICAL = 0.01, 0.05, 0.5  # shares of the rollouts


def failed_scoring(facts: Facts) -> Outcome:
    """Rollouts without a reward, and the groups that are dead because fewer than two of theirs got one."""
    id, knobs, found = "FAILED_SCORING", facts.settings, facts.measured("failed_fraction")
    if isinstance(found, Absent):
        return Skipped(id=id, needs=wanted(facts, found))
    groups = facts.run.groups if found.words == "counted from the rollouts" else None
    if groups is None:
        failed, unscored = Clusters.of_rows(found, facts.group_size, "rollouts"), None
    else:
        failed = Clusters.of_groups(groups, groups.failed, groups.rollouts, "rollouts")
        unscored = Clusters.of_groups(groups, groups.unscored, np.ones(groups.groups), "groups")
    late = failed.late(knobs.late_share, knobs.late_rows)
    share, is_late = graver(failed.share(knobs.level), late.share(knobs.level))
    lost = None if unscored is None else unscored.share(knobs.level)
    severity = severity_by(share.low, FAILED_INFO, FAILED_WARNING, FAILED_CRITICAL)
    if lost is not None and lost.low > FAILED_CRITICAL:
        severity = Severity.CRITICAL
    seen = f"{in_words(share)} of rollouts have no reward in {(late if is_late else failed).span}"
    dead_for_it = 0 if groups is None else int(groups.unscored.sum())
    if groups is not None and dead_for_it:
        seen += f"; {dead_for_it:,} of {groups.groups:,} groups have fewer than two rewards and are dead for it"
    if severity is None:
        doubt = vague(id, "the share of rollouts without a reward", share, (late if is_late else failed).span)
        if doubt is not None:
            return doubt
        return Clear(id=id, because=f"{seen}.")
    step, from_start = onset_of(failed, FAILED_INFO, knobs.false_alarm)
    abrupt = step is not None and not from_start
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}{f', from step {step:,} on' if abrupt else ''} ({found.words}).",
        onset_step=step,
        evidence={
            **evidence_of("failed_fraction", share),
            "window": "late" if is_late else "whole run",
            "rows": (late if is_late else failed).rows,
            "rollouts": share.groups if groups is not None or facts.group_size else None,
            "unscored_groups": None if groups is None else dead_for_it,
            "unscored_group_fraction": None if lost is None else lost.value,
            "unscored_group_fraction_low": None if lost is None else lost.low,
        },
        remedy=(
            f"Look at the scoring service from step {step:,} on, and repair it before the run goes on."
            if abrupt
            else "Find which responses get no reward (time limits, answers that do not parse, errors of the judge). "
            "Score them again, or give them the lowest reward."
        ),
        reference=f"{CLUSTERED}; TRL leaves such rollouts out of their group since 1.6, and took them as reward 0 "
        "before.",
    )
