"""What the checks of a run look at: its series with their meaning, exact or bounded, worked out once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.quantities import DEFINITIONS, Absent, Cause, Quantity, RunView, Stage
from grpo_plan.run_log import RunLog
from grpo_plan.runs.bounds import SLACK, dead_bounds_from_batches, dead_bounds_from_spread
from grpo_plan.runs.composition import composition_bounds
from grpo_plan.runs.expectation import Expectation, ExpectedGroups
from grpo_plan.runs.measured import Counts, Floats, Measured
from grpo_plan.runs.rewards import Rewards, rewards_of
from grpo_plan.runs.series import groups_at_least
from grpo_plan.runs.settings import LARGEST_GROUP, MOST_PROMPTS, DiagnosisSettings

NOTHING_SAID = 0.98  # bounds this far apart tell nothing
ANY_SIZE = LARGEST_GROUP  # bounds of the composition hold for every group size at a large one
AVERAGED_ROWS = frozenset({"trl", "ms-swift"})  # a row is the mean over the steps since the last one
SHARES = ("dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction")


@dataclass(frozen=True, eq=False)
class Facts:
    """A run as its checks see it.

    Attributes:
        run: The log.
        settings: What the user said, and the knobs.
        expectation: What was planned, or None.
    """

    run: RunLog
    settings: DiagnosisSettings = field(default_factory=DiagnosisSettings)
    expectation: Expectation | None = None

    @cached_property
    def view(self) -> RunView:
        """Metrics and settings as the rules of quantities see them."""
        return self.run.view()

    @cached_property
    def group_size(self) -> int | None:
        """Rollouts per prompt: as said, or as the log tells; none is larger than `LARGEST_GROUP`."""
        told = self.run.rollouts_per_prompt
        return self.settings.group_size or (told if told is not None and 1 <= told <= LARGEST_GROUP else None)

    @cached_property
    def prompts_per_step(self) -> int | None:
        """Groups of a step: as said, or as the log tells where it is the same at every step."""
        if self.settings.prompts_per_step is not None:
            return self.settings.prompts_per_step
        found = self.run.quantity("prompts_per_step")
        if not isinstance(found, Quantity):
            return None
        known = np.unique(found.values[np.isfinite(found.values)])
        return int(known[0]) if known.size == 1 and 1.0 <= known[0] <= MOST_PROMPTS else None

    @cached_property
    def steps_per_row(self) -> int:
        """Steps that a row is the mean of: only some tools average."""
        return self.run.steps_per_row if self.view.tool in AVERAGED_ROWS else 1

    @cached_property
    def rewards(self) -> Rewards:
        """Whether rewards are 0 and 1."""
        size, prompts = self.group_size, self.prompts_per_step
        row = None if size is None or prompts is None else size * prompts * self.steps_per_row
        return rewards_of(self.run, self.view, row)

    @cached_property
    def planned(self) -> ExpectedGroups | None:
        """What was expected at the group size of the run; at the planned one where the run's is not known."""
        if self.expectation is None:
            return None
        size = self.group_size or self.expectation.group_size
        return None if size is None else self.expectation.at(size)

    @cached_property
    def dead(self) -> Measured | Absent:
        """The dead fraction: as counted or logged, else bounded by what the log does say."""
        found = self.measured("dead_fraction")
        if isinstance(found, Measured):
            return found
        bounds = self._dead_bounds(found)
        return found if bounds is None else bounds

    @cached_property
    def all_pass(self) -> Measured | Absent:
        """The share of groups that all pass: as counted or logged, else between bounds."""
        return self._part("all_pass_fraction")

    @cached_property
    def all_fail(self) -> Measured | Absent:
        """The share of groups that all fail: as counted or logged, else between bounds."""
        return self._part("all_fail_fraction")

    @cached_property
    def reward(self) -> Measured | Absent:
        """The mean reward."""
        return self.measured("reward_mean")

    @cached_property
    def pass_rate(self) -> Measured | Absent:
        """The mean pass rate: as logged, or the mean of 0/1 rewards."""
        found = self.measured("pass_rate_mean")
        if isinstance(found, Measured) or not self.rewards.binary:
            return found
        return self.reward

    def measured(self, name: str) -> Measured | Absent:
        """A quantity at the rows that have it, with the groups behind each."""
        if name not in self._known:
            self._known[name] = self._measure(name)
        return self._known[name]

    def late(self, series: Measured) -> Measured:
        """The last rows of a series, as the published rule takes them."""
        return series.late(self.settings.late_share, self.settings.late_rows)

    @cached_property
    def _known(self) -> dict[str, Measured | Absent]:
        return {}

    def _measure(self, name: str) -> Measured | Absent:
        found = self.run.quantity(name)
        if not isinstance(found, Quantity):
            return found
        at = np.isfinite(found.values)
        if not at.any():
            return Absent(
                name=name, cause=Cause.NOT_LOGGED, reason=f"{name}: no step has a value.", metrics=found.metrics
            )
        off = at & ((found.values < -SLACK) | (found.values > 1.0 + SLACK))
        if DEFINITIONS[name].unit == "fraction" and off.any():
            first, logged = int(np.argmax(off)), ", ".join(found.metrics) or name
            reason = f"{name}: {logged} is {found.values[first]:g} at step {self.run.steps[first]:,}, and a share lies "
            reason += "between 0 and 1. Log it as a share."
            return Absent(name=name, cause=Cause.MEANING_UNKNOWN, reason=reason, metrics=found.metrics)
        groups, known = self._groups_behind(found, at)
        words = ", ".join(found.metrics) if found.metrics else "counted from the rollouts"
        return Measured(
            name=name, steps=self.run.steps[at], values=found.values[at], groups=groups, groups_known=known,
            stage=found.stage, words=words,
        )  # fmt: skip

    def _groups_behind(self, found: Quantity, at: NDArray[np.bool_]) -> tuple[Counts, bool]:
        """Groups behind each row, and whether that is exact; else it is at least so many."""
        steps = self.run.steps[at]
        if not found.metrics and self.run.groups is not None and self.run.groups.groups:
            known, counts, _ = self.run.groups.dead_by_step()
            where = np.searchsorted(known, steps)
            if bool(np.all(known[np.minimum(where, known.size - 1)] == steps)):
                return counts[where], True
        shown = self._shown_groups if found.name in SHARES else 1
        planned = self.prompts_per_step
        if planned is None:
            return np.full(steps.size, max(shown, 1), dtype=np.int64), False
        count = max(planned, shown)  # values that need more groups than a step has are means over several steps
        whole = planned * self.steps_per_row
        if found.name in SHARES and whole > count and self._fits(found.values[at], whole):
            if not self._fits(found.values[at], planned):  # one step does not explain the shares, all of a row do
                count = whole
        return np.full(steps.size, count, dtype=np.int64), self.steps_per_row == 1 and count == planned

    @staticmethod
    def _fits(shares: Floats, groups: int) -> bool:
        """Whether every share is one of so many groups."""
        counts = np.clip(shares, 0.0, 1.0) * groups
        return bool(np.all(np.abs(counts - np.round(counts)) <= SLACK * groups))

    @cached_property
    def _shown_groups(self) -> int:
        """Fewest groups of a row that explain the logged shares, all of them: they are of the same groups."""
        found = [self.run.quantity(name) for name in SHARES]
        logged = [q.values for q in found if isinstance(q, Quantity) and q.metrics]
        within = [v for v in logged if not bool(np.any((v < -SLACK) | (v > 1.0 + SLACK)))]  # others are no shares
        return max((groups_at_least(v) for v in within), default=1)

    def _part(self, name: str) -> Measured | Absent:
        """All-pass or all-fail groups; from mean and dead fraction where 0/1 rewards leave a narrow range."""
        found = self.measured(name)
        dead, mean, size = self.dead, self.pass_rate, self.group_size or ANY_SIZE
        if isinstance(found, Measured) or found.cause is not Cause.NOT_LOGGED:
            return found
        if not isinstance(dead, Measured) or not isinstance(mean, Measured) or size < 2:
            return self._no_part(found)
        filtered = {Stage.BEFORE, Stage.AFTER}
        if mean.stage is not dead.stage and (mean.stage in filtered or dead.stage in filtered):
            reason = f"{_words(name)}: it is not logged, and the mean reward is of other groups than the dead fraction "
            reason += f"({mean.stage.value}, {dead.stage.value}). Dump rollouts, or log it."
            return Absent(name=name, cause=found.cause, reason=reason, metrics=found.metrics)
        steps, a, b = np.intersect1d(dead.steps, mean.steps, assume_unique=True, return_indices=True)
        if not steps.size:
            return found
        ends = [composition_bounds(mean.values[b], share[a], size) for share in (dead.lower, dead.upper)]
        if bool(np.any(ends[0].inconsistent | ends[1].inconsistent)) and dead.exact:
            reason = f"{name}: not logged, and mean reward and dead fraction do not fit 0/1 rewards."
            return Absent(name=name, cause=Cause.NOT_LOGGED, reason=reason)
        which = "pass" if name == "all_pass_fraction" else "fail"
        low = np.minimum(*(getattr(e, f"{which}_low") for e in ends))
        high = np.maximum(*(getattr(e, f"{which}_high") for e in ends))
        good = np.isfinite(low) & np.isfinite(high)
        words = f"from {', '.join(dict.fromkeys((mean.words, dead.words.removeprefix('bounds by '))))}, for 0/1 rewards"
        bounded = Measured(
            name=name, steps=steps, values=0.5 * (low + high), groups=dead.groups[a], groups_known=dead.groups_known,
            stage=dead.stage, words=words, low=low, high=high,
        )  # fmt: skip
        return bounded.take(good) if good.any() else found

    def _no_part(self, found: Absent) -> Absent:
        """Why all-pass and all-fail groups cannot be told apart."""
        if isinstance(self.dead, Measured) and isinstance(self.reward, Measured):
            more = f"the mean reward would bound them if rewards were 0 and 1 ({self.rewards.because})"
        elif isinstance(self.dead, Measured):
            more = "the mean reward beside the dead fraction would bound them"
        else:
            more = "neither is the dead fraction"
        reason = f"{_words(found.name)}: it is not logged, and {more}. Dump rollouts, or log it."
        return Absent(name=found.name, cause=found.cause, reason=reason, metrics=found.metrics)

    def _dead_of_one(self, spread: Quantity) -> Measured:
        """One group a row, of any rewards: dead where they do not differ, mixed where they do (theory.md, eq. 92)."""
        at = np.isfinite(spread.values)
        return Measured(
            name="dead_fraction", steps=self.run.steps[at], values=(spread.values[at] <= SLACK).astype(np.float64),
            groups=np.ones(int(at.sum()), dtype=np.int64), groups_known=True, stage=spread.stage,
            words=f"{', '.join(spread.metrics) or 'the rollouts'}, of one group a row",
        )  # fmt: skip

    def _dead_bounds(self, found: Absent) -> Measured | None:
        """A dead fraction that is not logged: bounds, or exact with one group a row; None if the log says nothing."""
        size = self.run.steps.size
        low = np.zeros(size) if found.lower is None else np.nan_to_num(found.lower, nan=0.0)
        high = np.ones(size) if found.upper is None else np.nan_to_num(found.upper, nan=1.0)
        said = np.zeros(size, dtype=bool)
        words = []
        if found.lower is not None or found.upper is not None:
            said |= np.isfinite(found.lower if found.lower is not None else np.asarray(found.upper))
            words.append(", ".join(found.metrics))
        spread, batches = self.run.quantity("group_reward_std"), self.run.quantity("generation_batches")
        single = self.prompts_per_step == 1 and self.steps_per_row == 1 and found.cause is not Cause.SURVIVORS_ONLY
        if single and isinstance(spread, Quantity) and bool(np.isfinite(spread.values).any()):
            return self._dead_of_one(spread)
        if isinstance(spread, Quantity) and self.rewards.binary and self.group_size is not None and self.group_size > 1:
            at = np.isfinite(spread.values)
            below, above = dead_bounds_from_spread(spread.values[at], self.group_size)
            low[at], high[at] = np.maximum(low[at], below - SLACK), np.minimum(high[at], above + SLACK)
            said |= at
            words.append(", ".join(spread.metrics) or "the rollouts")
        if found.cause is Cause.SURVIVORS_ONLY and isinstance(batches, Quantity):
            at = np.isfinite(batches.values)
            low[at], high[at] = dead_bounds_from_batches(batches.values[at])
            said |= at
            words.append(", ".join(batches.metrics))
        if not said.any():
            return None
        low, high = np.clip(low, 0.0, 1.0)[said], np.clip(high, 0.0, 1.0)[said]
        low = np.minimum(low, high)
        if bool(np.all(high - low > NOTHING_SAID)):
            return None
        stage = Stage.BEFORE if found.cause is Cause.SURVIVORS_ONLY else Stage.UNFILTERED
        return Measured(
            name="dead_fraction", steps=self.run.steps[said], values=0.5 * (low + high),
            groups=np.full(int(said.sum()), self.prompts_per_step or 1, dtype=np.int64),
            groups_known=self.prompts_per_step is not None and self.steps_per_row == 1,
            stage=stage, words=f"bounds by {', '.join(dict.fromkeys(w for w in words if w))}", low=low, high=high,
        )  # fmt: skip


def _words(name: str) -> str:
    return f"the share of {name.removesuffix('_fraction').replace('_', '-')} groups"


def is_counted(found: Measured | Absent) -> bool:
    """Whether a series is there and its values are known, not only bounded."""
    return isinstance(found, Measured) and found.exact


__all__ = ["Facts", "Floats", "is_counted"]
