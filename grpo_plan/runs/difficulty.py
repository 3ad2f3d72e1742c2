"""The pass rates of a run at its end, and with them its dead fraction at any other group size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level, as_one_group_size
from grpo_plan.errors import GrpoPlanError
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.group_log import GroupLog
from grpo_plan.pilot import Pilot
from grpo_plan.planning.dropping import Dropping, effect_of_dropping
from grpo_plan.quantities import Stage
from grpo_plan.runs.aggregates import recover
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.recovered import Recovered, RecoveredShare
from grpo_plan.runs.recovery_status import RecoveryStatus

FEW_PROMPTS = 30
FILTERED_STAGES = frozenset({Stage.BEFORE, Stage.AFTER})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAt:
    """Groups of the same pass rates at one group size.

    Attributes:
        group_size: G'.
        dead: Dead fraction.
        all_pass: Its part that all passes.
        all_fail: Its part that all fails.
        says: What the numbers rest on, one sentence.
    """

    group_size: int
    dead: Expected
    all_pass: Expected
    all_fail: Expected
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undetermined:
    """Why a log does not tell the pass rates; false in a condition.

    Attributes:
        reason: One sentence that says what would.
    """

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Difficulty:
    """Pass rates of the prompts that a run visits at its end, under its policy of then.

    Attributes:
        group_size: Group size of the log; None where its groups differ in size.
        steps: First and last step of the rows behind it.
        source: "rollouts" or "aggregates".
        rests_on: What the numbers rest on, one sentence.
        level: Confidence level of the limits.
        basis: The fit of the rollouts, or what the aggregates say.
    """

    group_size: int | None
    steps: tuple[int, int]
    source: str
    rests_on: str
    level: float
    basis: PassRateFit | Recovered
    _cache: dict[int, GroupsAt] = field(default_factory=dict)
    _dead: dict[int, Expected] = field(default_factory=dict)
    _dropping: dict[int, Dropping] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Source and steps in one line."""
        return f"<Difficulty from {self.source}, steps {self.steps[0]:,} to {self.steps[1]:,}>"

    @property
    def fit(self) -> PassRateFit | None:
        """The fit of the rollouts; None without them."""
        return self.basis if isinstance(self.basis, PassRateFit) else None

    def at(self, group_size: int) -> GroupsAt:
        """Dead, all-pass and all-fail groups at a group size, with limits.

        Raises:
            DomainError: The group size is no whole number of at least 1.
        """
        g = as_one_group_size(group_size)
        if g not in self._cache:
            basis = self.basis
            found = self._of_fit(g, basis) if isinstance(basis, PassRateFit) else self._of_aggregates(g, basis)
            self._cache[g] = found
        return self._cache[g]

    def dead(self, group_size: int) -> Expected:
        """The dead fraction of `at` alone, for less: each part of an aggregate's has limits that are solved for.

        Raises:
            DomainError: The group size is no whole number of at least 1.
        """
        g = as_one_group_size(group_size)
        if g not in self._dead:
            if isinstance(self.basis, PassRateFit):
                d = self.basis.dead(g, self.level)
                self._dead[g] = Expected(value=d.value, low=d.low, high=d.high, level=self.level)
            else:
                self._dead[g] = _expected(self.basis.dead(g), self.level)
        return self._dead[g]

    def dropping(self, group_size: int) -> Dropping | None:
        """What leaving out prompts whose last group was dead would do; None without rollouts."""
        g = as_one_group_size(group_size)
        if self.fit is not None and g not in self._dropping:
            self._dropping[g] = effect_of_dropping(self.fit, g, self.level)
        return self._dropping.get(g)

    def _of_fit(self, g: int, fit: PassRateFit) -> GroupsAt:
        d: DeadFraction = fit.dead(g, self.level)
        ends = [
            Expected(value=value, low=limits[0], high=limits[1], level=self.level)
            for value, limits in ((d.all_pass, d.all_pass_interval), (d.all_fail, d.all_fail_interval))
        ]
        says = f"{self.rests_on} {d.status.sentence}"
        return GroupsAt(group_size=g, dead=self.dead(g), all_pass=ends[0], all_fail=ends[1], says=says)

    def _of_aggregates(self, g: int, recovered: Recovered) -> GroupsAt:
        passing, failing = (_expected(ask(g), self.level) for ask in (recovered.all_pass, recovered.all_fail))
        return GroupsAt(group_size=g, dead=self.dead(g), all_pass=passing, all_fail=failing, says=self.rests_on)


def difficulty_of(facts: Facts, *, level: float | None = None) -> Difficulty | Undetermined:
    """The pass rates of the last rows of a run: from its rollouts, else from mean reward and dead fraction.

    Rollouts give limits that hold for any distribution of pass rates. Aggregates give the value of a Beta, and the
    range over all distributions that they allow within the sampling error of the groups behind them.

    Args:
        facts: The run.
        level: Confidence level; that of the settings if not given.
    """
    chosen = facts.settings.level if level is None else as_level(level)
    found = _from_rollouts(facts, chosen)
    if found is None or (not found and isinstance(facts.dead, Measured)):
        other = _from_aggregates(facts, chosen)
        return other if other or found is None else found
    return found


def _from_rollouts(facts: Facts, level: float) -> Difficulty | Undetermined | None:
    """None where no rollouts lie beside the metrics."""
    groups = facts.run.groups
    if groups is None or not groups.groups:
        return None
    if groups.provenance.filtered is not None:
        kept = groups.provenance.filtered
        return Undetermined(reason=f"The rollouts are those of the groups that were kept ({kept}). Dump all groups.")
    passes = _passes(groups, facts)
    if passes is None:
        return Undetermined(reason="What passes is not known. Give --pass-threshold (pass_threshold= of read_run).")
    first, last = _window(facts, groups)
    inside = (groups.step >= first) & (groups.step <= last) & (groups.scored > 0)
    rows, visits = _one_visit_each(groups, inside)
    if not rows.any():
        return Undetermined(reason=f"No group of steps {first:,} to {last:,} has a scored rollout. Check the scoring.")
    pilot = Pilot.from_counts(passes[rows], groups.scored[rows])
    try:
        fit = fit_pass_rates(pilot)
    except GrpoPlanError as error:
        return Undetermined(reason=str(error))
    sizes = np.unique(groups.rollouts[rows])
    many = int(rows.sum())
    return Difficulty(
        group_size=int(sizes[0]) if sizes.size == 1 else None,
        steps=(first, last),
        source="rollouts",
        rests_on=f"Fitted to {many:,} groups of rollouts of steps {first:,} to {last:,}{visits}; the limits hold for "
        "any distribution of pass rates.",
        level=level,
        basis=fit,
    )  # fmt: skip


def _from_aggregates(facts: Facts, level: float) -> Difficulty | Undetermined:
    dead, mean, size = facts.dead, facts.pass_rate, facts.group_size
    if size is None or size < 2:
        return Undetermined(reason="The group size is not known. Give --group-size (DiagnosisSettings.group_size).")
    if not isinstance(dead, Measured):
        return Undetermined(reason=f"Nothing tells the dead fraction: {dead.reason}")
    if not isinstance(mean, Measured):
        what = f"Nothing tells the mean pass rate ({facts.rewards.kind.value} rewards: {facts.rewards.because})."
        return Undetermined(reason=f"{what} Keep the rollouts beside the metrics.")
    if mean.stage is not dead.stage and (mean.stage in FILTERED_STAGES or dead.stage in FILTERED_STAGES):
        return Undetermined(
            reason=f"The mean reward is {mean.stage.value} and the dead fraction {dead.stage.value}: they are of "
            "different groups. Log both before filtering."
        )
    given = {"dead": dead} if dead.exact else _spread(facts)
    if given is None:
        return Undetermined(reason=f"The dead fraction is only bounded ({dead.words}). Log it, or keep the rollouts.")
    parts = (("all_pass", facts.all_pass), ("all_fail", facts.all_fail))
    if dead.exact and all(isinstance(p, Measured) and p.exact for _, p in parts):
        given |= {name: part for name, part in parts if isinstance(part, Measured)}
    return _recovered(facts, mean, given, size, level)


def _spread(facts: Facts) -> dict[str, Measured] | None:
    found = facts.measured("group_reward_std")
    return {"group_std": found} if isinstance(found, Measured) and facts.rewards.binary else None


def _recovered(
    facts: Facts, mean: Measured, given: dict[str, Measured], size: int, level: float
) -> Difficulty | Undetermined:
    shared = mean.steps
    for series in given.values():
        shared = np.intersect1d(shared, series.steps, assume_unique=True)
    late = facts.late(mean.take(np.isin(mean.steps, shared)))
    if not late.rows:
        return Undetermined(reason="No row has both the mean reward and the dead fraction. Log them at the same steps.")
    found = {name: series.take(np.isin(series.steps, late.steps)) for name, series in given.items()}
    weights = next(iter(found.values())).groups
    groups = int(weights.sum())
    values = {name: float(np.average(series.values, weights=weights)) for name, series in found.items()}
    std = {"std": "sample"} if "group_std" in values else {}
    try:
        recovered = recover(
            mean=min(max(float(np.average(late.values, weights=weights)), 0.0), 1.0),
            group_size=size,
            groups=groups,
            level=level,
            **{n: min(max(v, 0.0), 1.0) for n, v in values.items()},  # type: ignore[arg-type]
            **std,  # type: ignore[arg-type]
        )
    except GrpoPlanError as error:
        return Undetermined(reason=str(error))
    if recovered.status is RecoveryStatus.INCONSISTENT:
        return Undetermined(reason=recovered.status.sentence)
    names = ", ".join(dict.fromkeys([mean.words, *(series.words for series in found.values())]))
    doubt = "" if recovered.status is RecoveryStatus.OK else f" {recovered.status.sentence}"
    least = "" if all(s.groups_known for s in found.values()) else "at least "
    return Difficulty(
        group_size=size,
        steps=(int(late.steps[0]), int(late.steps[-1])),
        source="aggregates",
        rests_on=f"From {names} of {late.span}, {least}{groups:,} groups, for 0/1 rewards: the value is that of a "
        f"Beta, the limits are {recovered.range_means}.{doubt}",
        level=level,
        basis=recovered,
    )  # fmt: skip


def _passes(groups: GroupLog, facts: Facts) -> NDArray[np.int64] | None:
    if groups.passes is not None:
        return groups.passes
    if not facts.rewards.binary:
        return None
    means = np.where(groups.scored > 0, np.nan_to_num(groups.reward_mean), 0.0)
    counts: NDArray[np.int64] = np.rint(means * groups.scored).astype(np.int64)
    return counts


def _window(facts: Facts, groups: GroupLog) -> tuple[int, int]:
    """First and last step of the last rows that have groups."""
    steps = np.unique(groups.step)
    settings = facts.settings
    count = min(max(settings.late_rows, int(settings.late_share * steps.size)), steps.size)
    return int(steps[-count]), int(steps[-1])


def _one_visit_each(groups: GroupLog, inside: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], str]:
    """The last group of each prompt, so that rows are independent; all where the prompts are few and come again."""
    at = np.flatnonzero(inside)
    names = groups.prompt_id[at]
    if not at.size or any(name is None or name == "" for name in names):
        return inside, ""
    _, last = np.unique(names[::-1].astype(str), return_index=True)
    if last.size == at.size:
        return inside, ""
    if last.size < FEW_PROMPTS:
        return inside, f" ({'one prompt' if last.size == 1 else f'{last.size} prompts'} that come again and again)"
    rows = np.zeros(inside.size, dtype=bool)
    rows[at[at.size - 1 - last]] = True
    return rows, ", the last visit of each prompt"


def _expected(share: RecoveredShare, level: float) -> Expected:
    return Expected(value=share.value, low=share.low, high=share.high, level=level)


__all__ = ["Difficulty", "GroupsAt", "Undetermined", "difficulty_of"]
