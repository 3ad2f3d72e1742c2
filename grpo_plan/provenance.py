"""Where the rollouts of a pilot came from, and what that means for answers that use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_plan._shown import Shown
from grpo_plan.errors import sentences

FEW_STEPS = 4  # steps pooled over which a policy moves little
REMOVED = ("all-pass", "all-fail", "dead")  # prompts with n of n passes, with none, or both


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadGroups:
    """The groups of a source that were counted, and how many of them are dead.

    Attributes:
        groups: Groups counted.
        all_fail: Groups whose scored rollouts all fail, at the pass threshold.
        all_pass: Groups whose scored rollouts all pass.
        unscored: Groups without a scored rollout.
        by_reward: Groups whose full reward, as the trainer compares it, is equal, or that have fewer than two scored
            rollouts; None where the reader does not know that reward.
        by_step: Training step, groups and dead groups (by the full reward where it is known) of each step; -1 where
            the source has no steps.
    """

    groups: int
    all_fail: int
    all_pass: int
    unscored: int = 0
    by_reward: int | None = None
    by_step: tuple[tuple[int, int, int], ...] = ()

    @property
    def by_pass(self) -> int:
        """Dead groups by pass or fail."""
        return self.all_fail + self.all_pass + self.unscored

    @property
    def dead(self) -> int:
        """Dead groups: by the full reward where it is known, else by pass or fail."""
        return self.by_pass if self.by_reward is None else self.by_reward

    @property
    def differ(self) -> bool:
        """Whether pass or fail and the full reward give another number."""
        return self.by_reward is not None and self.by_reward != self.by_pass


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Provenance(Shown):
    """What was read to make a pilot.

    Attributes:
        format: Name of the reader (see ``grpo-plan formats``); None for counts given as arrays.
        files: Number of files read; 0 if none was.
        rows: Rows read, those left out included.
        groups: Groups read, where rows say which rollouts were sampled together in one step; else None.
        group_size: Smallest and largest number of rollouts of a group, or None.
        policy_steps: First and last training step whose rollouts were read, or None.
        step_count: How many different steps were read.
        policies: Names of the models whose rollouts were read; empty if unknown.
        filtered: Why dead groups are missing from the source, or None if it holds all groups.
        merged_rows: Rows (n, k, how many) of one n and all mixed, before rows of one prompt were added up; else empty.
        removed: Which prompts were taken out of the source by their own count, one of `REMOVED`; None if none.
        weak_prior: Whose pass rates these are, if another model's than the one to be trained; else None.
        dead_groups: How many of the groups are dead; None where groups are not known or dead ones are missing.
        pass_threshold: Reward from which a rollout was taken to pass; None if rewards said pass or fail themselves.
    """

    format: str | None = None
    files: int = 0
    rows: int = 0
    groups: int | None = None
    group_size: tuple[int, int] | None = None
    policy_steps: tuple[int, int] | None = None
    step_count: int = 0
    policies: tuple[str, ...] = ()
    filtered: str | None = None
    removed: str | None = None
    weak_prior: str | None = None
    merged_rows: tuple[tuple[int, int, int], ...] = ()
    dead_groups: DeadGroups | None = None
    pass_threshold: float | None = None

    @property
    def mixed_policies(self) -> bool:
        """Whether rollouts of several training steps are pooled: their pass rates are no single policy's."""
        return self.step_count > 1

    @property
    def meaning_of_dead(self) -> str:
        """What a dead group of a fit is where rewards say more than pass or fail; empty where that is no question.

        >>> counted = DeadGroups(groups=250, all_fail=50, all_pass=8, by_reward=3)
        >>> Provenance(pass_threshold=0.75, dead_groups=counted).meaning_of_dead.split(", ")[-1]
        '3 of the 250 groups read are dead (1.2 %); by pass or fail 58.'
        """
        counted, threshold = self.dead_groups, self.pass_threshold
        passes = "" if threshold is None else f"; a reward of {threshold:g} or more passes"
        meaning = f"A group is called dead where its rollouts all pass or all fail{passes}."
        if counted is not None and counted.by_reward is not None and counted.groups:
            if not counted.differ:
                return ""
            share = 100.0 * counted.by_reward / counted.groups
            return (
                f"{meaning} By the full reward, which is what a trainer compares, {counted.by_reward:,} of the "
                f"{counted.groups:,} groups read are dead ({share:.3g} %); by pass or fail {counted.by_pass:,}."
            )
        if threshold is None:
            return ""
        if self.filtered is not None:
            return meaning
        return (
            f"{meaning} A trainer that compares the full reward has fewer dead groups if rewards are graded: how many "
            "was not counted, as rows name no groups."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was read, in words; empty where nothing is known.

        >>> Provenance(format="verl-v1", files=2, rows=128, groups=16, group_size=(8, 8), policy_steps=(1, 2),
        ...            step_count=2).sentences[0]
        'read as verl-v1: 2 files, 128 rows, 16 groups of 8, steps 1 to 2.'
        """
        if self.format is None:
            return ()
        parts = [_many(self.files, "file"), _many(self.rows, "row")] if self.files else [_many(self.rows, "row")]
        if self.groups is not None:
            parts.append(_many(self.groups, "group") + self._of_size())
        if self.policy_steps is not None:
            first, last = self.policy_steps
            parts.append(f"step {first:,}" if first == last else f"steps {first:,} to {last:,}")
        return sentences(f"read as {self.format}: {', '.join(parts)}.", *self.warnings)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of it makes the answers doubtful, in words."""
        out = []
        if self.mixed_policies:
            out.append(
                f"{_many(self.step_count, 'step')} of training are pooled: pass rates are averages over changing "
                f"policies. {self._last_steps()}"
            )
        if self.filtered is not None:
            out.append(f"filtered: {self.filtered}.")
        if self.removed is not None:
            out.append(f"selected: {self.removed} prompts were removed from the source by their own count.")
        if self.weak_prior is not None:
            out.append(f"weak prior: these are pass rates of {self.weak_prior}, not of the policy to be trained.")
        return sentences(*out)

    def _last_steps(self) -> str:
        """What to keep: the last quarter of many steps, so that some prompts are left; of few, the last alone."""
        if self.policy_steps is None:
            return "For the policy of now, keep the last steps."
        first, last = self.policy_steps
        if self.step_count <= FEW_STEPS:
            return (
                f"If it moved little over these steps, this does no harm; --policy-steps {last} keeps the last alone, "
                "with fewer prompts."
            )
        kept = max((last - first + 1) // 4, 1)
        return f"For the policy of now, keep the last steps, e.g. --policy-steps {last - kept + 1}:{last}."

    def _of_size(self) -> str:
        if self.group_size is None:
            return ""
        low, high = self.group_size
        return f" of {low:,}" if low == high else f" of {low:,} to {high:,}"


def merged(parts: Sequence[Provenance]) -> Provenance:
    """One provenance of several: counts add up, and a warning of any part holds for the whole.

    >>> merged([Provenance(rows=8), Provenance(rows=8, filtered="survivors only")]).filtered
    'survivors only'
    """
    if len(parts) == 1:
        return parts[0]
    formats = {p.format for p in parts if p.format is not None}
    sizes = [p.group_size for p in parts if p.group_size is not None]
    steps = [p.policy_steps for p in parts if p.policy_steps is not None]
    groups = [p.groups for p in parts]
    span = (min(s[0] for s in steps), max(s[1] for s in steps)) if steps else None
    return Provenance(
        format=formats.pop() if len(formats) == 1 else ("several formats" if formats else None),
        files=sum(p.files for p in parts),
        rows=sum(p.rows for p in parts),
        groups=None if any(g is None for g in groups) else sum(g or 0 for g in groups),
        group_size=(min(s[0] for s in sizes), max(s[1] for s in sizes)) if sizes else None,
        policy_steps=span,
        step_count=_steps_of(parts, span),
        policies=tuple(dict.fromkeys(name for p in parts for name in p.policies)),
        filtered=next((p.filtered for p in parts if p.filtered is not None), None),
        removed=next((p.removed for p in parts if p.removed is not None), None),
        weak_prior=next((p.weak_prior for p in parts if p.weak_prior is not None), None),
        merged_rows=_rows_of(parts),
        dead_groups=_dead_groups([p.dead_groups for p in parts]),
        pass_threshold=next((p.pass_threshold for p in parts if p.pass_threshold is not None), None),
    )


def _dead_groups(parts: Sequence[DeadGroups | None]) -> DeadGroups | None:
    """Dead groups of all parts; None if they are not known of one."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    steps: dict[int, tuple[int, int]] = {}
    for step, groups, dead in (row for part in known for row in part.by_step):
        before = steps.get(step, (0, 0))
        steps[step] = (before[0] + groups, before[1] + dead)
    by_reward = [part.by_reward for part in known]
    return DeadGroups(
        groups=sum(part.groups for part in known),
        all_fail=sum(part.all_fail for part in known),
        all_pass=sum(part.all_pass for part in known),
        unscored=sum(part.unscored for part in known),
        by_reward=None if any(n is None for n in by_reward) else sum(n or 0 for n in by_reward),
        by_step=tuple((step, *steps[step]) for step in sorted(steps)),
    )


def _steps_of(parts: Sequence[Provenance], span: tuple[int, int] | None) -> int:
    """Different steps of all parts, at least: shards of one step count once."""
    if span is None:
        return 0
    return min(span[1] - span[0] + 1, max(len({p.policy_steps for p in parts}), *(p.step_count for p in parts)))


def _rows_of(parts: Sequence[Provenance]) -> tuple[tuple[int, int, int], ...]:
    """Mixed rows of all parts, if each has some and they are of one n."""
    counts = Counter[tuple[int, int]]()
    for part in parts:
        counts.update({(n, k): rows for n, k, rows in part.merged_rows})
    if not all(p.merged_rows for p in parts) or len({n for n, _ in counts}) != 1:
        return ()
    return tuple((n, k, counts[n, k]) for n, k in sorted(counts))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
