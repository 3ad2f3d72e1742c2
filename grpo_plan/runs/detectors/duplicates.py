"""Groups whose rollouts are one text, or repeat texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import GroupLog
from grpo_plan.runs.clustered import Clusters
from grpo_plan.runs.detectors.asking import rollouts_wanted
from grpo_plan.runs.detectors.common import evidence_of, in_words, vague
from grpo_plan.runs.detectors.windows import CLUSTERED, graver, onset_of, severity_by
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.measured import Measured

SAME_INFO, SAME_WARNING, SAME_CRITICAL = 0.01, 0.10, 0.9  # shares of the groups
REPEATED_WARNING = 0.25  # share of the rollouts
TINY = 20.0  # tokens: shorter texts coincide by themselves


def duplicate_rollouts(facts: Facts) -> Outcome:
    """Groups whose responses are one text: a temperature of 0, a cache, or one seed for all."""
    id, groups, knobs = "DUPLICATE_ROLLOUTS", facts.run.groups, facts.settings
    if groups is None or groups.distinct is None or groups.identical is None or groups.repeated is None:
        return Skipped(
            id=id,
            needs=f"the texts of the rollouts; the {'log' if groups is None else 'dump'} holds none.{_dump(facts)}",
        )
    known = (groups.distinct >= 0) & (groups.scored >= 2)
    if not known.any():
        return Skipped(id=id, needs="groups with two or more scored rollouts whose texts are all known; there is none.")
    same = groups.identical & known
    clusters = Clusters.of_groups(groups, same, known, "groups")
    late = clusters.late(knobs.late_share, knobs.late_rows)
    share, is_late = graver(clusters.share(knobs.level), late.share(knobs.level))
    repeats = np.where(known, groups.scored - groups.distinct, 0)
    repeated = Clusters.of_groups(groups, repeats, np.where(known, groups.scored, 0), "rollouts").share(knobs.level)
    repeating = known & (groups.distinct < groups.scored)
    tokens = _tokens(facts, groups, repeating)
    seen = (
        f"{in_words(share)} of groups are one text in {(late if is_late else clusters).span}, and {in_words(repeated)} "
        "of rollouts repeat a text of their group"
    )
    severity = severity_by(share.low, SAME_INFO, SAME_WARNING, SAME_CRITICAL)
    if repeated.low > REPEATED_WARNING and severity in (None, Severity.INFO):
        severity = Severity.WARNING
    if severity is None:
        window = late if is_late else clusters
        doubt = vague(id, "the share of groups that are one text", share, window.span) or vague(
            id, "the share of rollouts that repeat a text", repeated, clusters.span
        )
        if doubt is not None:
            return doubt
        return Clear(id=id, because=f"{seen}.")
    if tokens is None:
        severity, why = Severity.INFO, "their length is not known, and short answers repeat by themselves"
    elif tokens <= TINY:
        severity, why = Severity.INFO, f"at {tokens:.3g} tokens on average, answers repeat by themselves"
    else:
        why = (
            f"at {tokens:.3g} tokens on average that is hardly chance, unless the policy has become sure of every token"
        )
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}: {why}.",
        onset_step=onset_of(clusters, SAME_INFO, knobs.false_alarm)[0],
        evidence={
            **evidence_of("identical_group_fraction", share),
            **evidence_of("repeated_rollout_fraction", repeated),
            "window": "late" if is_late else "whole run",
            "rows": (late if is_late else clusters).rows,
            "groups": int(known.sum()),
            "identical_groups": int(same.sum()),
            "identical_groups_dead": int((same & groups.dead).sum()),
            "response_tokens_mean": tokens,
        },
        remedy="Check that rollouts are sampled: a temperature above 0, another seed for each rollout, no cache of "
        "answers; then look at the entropy of the policy.",
        reference=f"{CLUSTERED}; equal texts get equal rewards, and equal rewards no gradient (docs/theory.md, "
        "section 1).",
    )


def _tokens(facts: Facts, groups: GroupLog, which: NDArray[np.bool_]) -> float | None:
    """Mean length of the responses of the groups that repeat; else of all that the log tells; None if nothing does."""
    if groups.response_tokens is not None and groups.measured is not None:
        at = which & (groups.measured > 0) & np.isfinite(groups.response_tokens)
        if at.any():
            return float(np.average(groups.response_tokens[at], weights=groups.measured[at]))
    logged = facts.measured("response_tokens_mean")
    return logged.mean if isinstance(logged, Measured) else None


def _dump(facts: Facts) -> str:
    return f" {rollouts_wanted(facts)}" if facts.run.groups is None else ""
