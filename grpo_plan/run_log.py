"""RunLog: the metrics of a run, step by step, under the names that the log gives them, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.group_log import GroupLog
from grpo_plan.group_steps import COUNTED, LOGGED_FIRST, counted_by_step
from grpo_plan.quantities import (
    Absent,
    Cause,
    Quantity,
    RunView,
    Stage,
    drops_groups,
    quantity_of,
    recognised_names,
    tool_of,
)

Floats = NDArray[np.float64]
SAME_SHARE = 1e-6
SAME_NUMBER = 1e-5  # relative: metrics are averages in single precision
SHARES = frozenset(("dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction"))
ENDS = ("all_pass_fraction", "all_fail_fraction")
OTHERWISE = "says otherwise"  # of a metric that the rollouts contradict


def _no_steps() -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunLog(Shown):
    """Metrics of one run, S steps, and of its E evaluations.

    Attributes:
        steps: Training steps in rising order, shape (S,).
        metrics: Name as logged to its values, shape (S,), NaN where a step has none.
        format: Name of the reader.
        source: What was read, for messages.
        tool: Trainer whose names the metrics have, where they tell it; else None.
        eval_steps: Training steps at which it was evaluated, in rising order, shape (E,).
        eval_metrics: Name as logged to its values, shape (E,).
        group_size: Rollouts per prompt, where the source tells it.
        config: Settings that the source holds, nested ones joined by dots.
        groups: The groups of rollouts that lie beside the metrics, if they were read.
        dropped: What was read and left out, by reason.
        notes: How the source was read, one sentence each.
        pass_threshold: Reward from which a rollout beside the metrics passes; None where rewards have two levels.

    >>> run = RunLog(steps=np.array([1, 2]), metrics={"env/all/by_group/frac_mixed": np.array([0.25, 0.5])},
    ...              format="tinker-metrics", source="metrics.jsonl", tool="tinker")
    >>> dead = run.quantity("dead_fraction")
    >>> dead.values.tolist(), dead.unit, dead.stage.value
    ([0.75, 0.5], 'fraction', 'nothing was filtered')
    >>> run.quantity("grad_norm").reason
    'grad_norm: not logged by tinker.'
    """

    steps: NDArray[np.int64]
    metrics: Mapping[str, Floats]
    format: str
    source: str
    tool: str | None = None
    eval_steps: NDArray[np.int64] = field(default_factory=_no_steps)
    eval_metrics: Mapping[str, Floats] = field(default_factory=dict)
    group_size: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    groups: GroupLog | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    pass_threshold: float | None = None

    def __repr__(self) -> str:
        """One line: what it was read from, its steps, metrics and groups."""
        span = f", {self.steps[0]} to {self.steps[-1]}" if self.steps.size else ""
        groups = "" if self.groups is None else f", {self.groups.groups:,} groups of rollouts"
        tool = "" if self.tool is None else f" of {self.tool}"
        return (
            f"<RunLog{tool} ({self.format}) {self.source}: {self.steps.size:,} steps{span}, "
            f"{len(self.metrics):,} metrics{groups}>"
        )

    def quantity(self, name: str) -> Quantity | Absent:
        """A quantity with its unit, scope and stage, whatever the tool calls it; or why the log does not tell it.

        Shares of groups are counted from the rollouts at the steps where these were read in full, and taken from the
        metrics elsewhere; so are the share of truncated rollouts, the mean response length and the standard deviations
        of rewards. The mean reward and the share of failed rollouts are those of the rollouts where the metrics do not
        say them.

        Args:
            name: ``dead_fraction``, ``mixed_fraction``, ``all_pass_fraction``, ``all_fail_fraction``, ``reward_mean``,
                ``group_reward_std``, ``entropy``, ``step_time_s``, ... (all: ``grpo_plan.quantities.DEFINITIONS``).

        Raises:
            DomainError: There is no such quantity.
        """
        logged = quantity_of(name, self._view())
        survivors = self._survivors(name, logged)
        if survivors is not None:
            return survivors
        counted = self._counted(name, logged)
        if counted is None:
            return self._needs_threshold(name, logged)
        values, notes = counted
        stage = Stage.BEFORE if self._drops_groups else Stage.UNFILTERED
        if isinstance(logged, Absent):
            why = [f"The metrics do not say it: {logged.reason}"] if self.metrics else []
            if self.metrics and not self.covers_steps:
                why.append("The rollouts are those of the last batch before each row only.")
            return Quantity(name=name, values=values, stage=stage, notes=(*notes, *why))
        if not self.covers_steps:
            return logged
        both = np.isfinite(values) & np.isfinite(logged.values)
        near = SAME_SHARE if name in SHARES else SAME_SHARE + SAME_NUMBER * np.abs(values)
        off = both & (np.abs(values - logged.values) > near)
        words = [*notes]
        if off.any():
            first = int(np.argmax(off))
            words.append(
                f"{', '.join(logged.metrics)} {OTHERWISE} at {int(off.sum()):,} of {int(both.sum()):,} steps, first "
                f"{logged.values[first]:.3g} against {values[first]:.3g} counted at step {self.steps[first]:,}."
            )
        merged = np.where(np.isfinite(values), values, logged.values)
        metrics = logged.metrics if bool(np.any(~np.isfinite(values) & np.isfinite(logged.values))) else ()
        return replace(logged, values=merged, metrics=metrics, stage=stage, notes=tuple(words))

    @property
    def rollouts_per_prompt(self) -> int | None:
        """Group size: as told by the source, its settings, or the rollouts; None if nothing says it."""
        found = self._view().rollouts_per_prompt
        sizes = None if self.groups is None else self.groups.provenance.group_size
        return sizes[0] if found is None and sizes is not None and sizes[0] == sizes[1] else found

    @property
    def _drops_groups(self) -> bool:
        """Whether the metrics say that groups were thrown away: a dump holds the others only."""
        return drops_groups(self._view())

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """Metrics that no tool is known to log, as logged; they are kept."""
        known = set(recognised_names(self._view()))
        return tuple(name for name in self.metrics if name not in known)

    @property
    def steps_per_row(self) -> int:
        """Usual distance between two rows: metrics are often means over so many steps."""
        gaps = np.diff(self.steps)
        return int(np.median(gaps)) if gaps.size else 1

    def view(self) -> RunView:
        """The metrics as the rules of the quantities see them."""
        return self._view()

    def _view(self) -> RunView:
        config = dict(self.config)
        per_step = None if self.groups is None else _constant(self.groups.dead_by_step()[1])
        view = RunView(
            tool=self.tool or tool_of(self.metrics),
            size=int(self.steps.size),
            metrics=self.metrics,
            config=config,
            group_size=self.group_size,
        )
        if per_step is not None and not (self._equal_groups and drops_groups(view)):
            config.setdefault("prompts_per_step", per_step)
        return view

    @property
    def _equal_groups(self) -> int:
        """Groups beside the metrics with several scored rollouts and equal rewards: no filter would have kept them."""
        return 0 if self.groups is None else int((self.groups.dead & (self.groups.scored >= 2)).sum())

    def _survivors(self, name: str, logged: Quantity | Absent) -> Quantity | Absent | None:
        """A share of groups where the rollouts are those of the groups that were kept: not to be counted from them."""
        if self.groups is None or name not in SHARES or not self.groups.groups:
            return None
        filtered = self.groups.provenance.filtered
        if filtered is None and self._drops_groups and not self._equal_groups:
            filtered = "the metrics count groups that were thrown away"
        if isinstance(logged, Absent) and logged.cause is Cause.SURVIVORS_ONLY:
            return logged
        if filtered is None:
            return None
        if isinstance(logged, Quantity) or logged.cause is not Cause.NOT_LOGGED:
            return logged
        reason = f"the rollouts are those of the groups that were kept ({filtered}), and the metrics do not say it."
        return Absent(name=name, cause=Cause.SURVIVORS_ONLY, reason=f"{name}: {reason}", metrics=logged.metrics)

    def _needs_threshold(self, name: str, logged: Quantity | Absent) -> Quantity | Absent:
        """Why the rollouts do not tell a share of groups that pass or fail, where that is all that lacks."""
        groups = self.groups
        if name not in ENDS or groups is None or not groups.groups or groups.provenance.filtered is not None:
            return logged
        if isinstance(logged, Quantity) or logged.cause is not Cause.NOT_LOGGED or self.pass_threshold is not None:
            return logged
        seen = np.unique(_ends(groups))
        if seen.size <= 2:
            return logged
        shown = ", ".join(f"{level:g}" for level in seen[:6]) + (", ..." if seen.size > 6 else "")
        reason = f"{name}: not logged, and the rollouts have rewards of several levels ({shown}). Say what passes with "
        reason += "pass_threshold= of read_run."
        return Absent(name=name, cause=Cause.NEEDS_SETTING, reason=reason, metrics=logged.metrics)

    def _counted(self, name: str, logged: Quantity | Absent) -> tuple[Floats, tuple[str, ...]] | None:
        """A quantity counted from the rollouts, NaN at steps without; None where they do not tell it."""
        groups = self.groups
        if groups is None or not groups.groups or groups.provenance.filtered is not None or not self.steps.size:
            return None
        found, index = np.unique(groups.step, return_inverse=True)
        notes: list[str] = []
        if name in COUNTED:
            held_back = self._drops_groups and (name == "reward_mean" or not self._equal_groups)
            if held_back or (name in LOGGED_FIRST and isinstance(logged, Quantity)):
                return None
            of_rollouts = counted_by_step(groups, name)
            if of_rollouts is None:
                return None
            shares, words = of_rollouts
            notes += words
        else:
            flags = _flags(groups, name, self.pass_threshold)
            if flags is None:
                return None
            shares = np.bincount(index, weights=flags, minlength=found.size) / np.bincount(index, minlength=found.size)
            levels = np.unique(_ends(groups))
            if name in ENDS and self.pass_threshold is None and not np.isin(levels, (0.0, 1.0)).all():
                notes.append(f"Rewards have the levels {' and '.join(f'{x:g}' for x in levels)}: the upper one passes.")
            if self._equal_groups and self._drops_groups:
                notes.append(
                    f"The metrics count groups that were thrown away, but {self._equal_groups:,} of the "
                    f"{groups.groups:,} groups of rollouts are dead: they are not only those that were kept."
                )
        values = np.full(self.steps.size, np.nan)
        at = np.searchsorted(self.steps, found)
        here = (at < self.steps.size) & (self.steps[np.minimum(at, self.steps.size - 1)] == found)
        values[at[here]] = shares[here]
        notes.insert(0, f"Counted from {int(np.isin(groups.step, found[here]).sum()):,} groups of rollouts.")
        if not here.all():
            notes.append(f"Rollouts of {int((~here).sum()):,} steps have no row of metrics.")
        return (values, tuple(notes)) if here.any() else None

    @property
    def covers_steps(self) -> bool:
        """Whether the rollouts beside the metrics are those of every step, not only of the steps that have a row."""
        if self.groups is None or not self.groups.groups:
            return False
        return self.steps_per_row == 1 or not bool(np.isin(self.groups.step, self.steps).all())


def _ends(groups: GroupLog) -> Floats:
    """Smallest and largest rewards of the groups that were scored."""
    ends = np.concatenate([groups.reward_min, groups.reward_max])
    finite: Floats = ends[np.isfinite(ends)]
    return finite


def _flags(groups: GroupLog, name: str, threshold: float | None) -> NDArray[np.bool_] | None:
    """Which groups count for a share; None if the groups do not tell it."""
    if name == "dead_fraction":
        return groups.dead
    if name == "mixed_fraction":
        return ~groups.dead
    if name not in ENDS:
        return None
    low, high = groups.reward_min, groups.reward_max
    if threshold is None:
        levels = np.unique(_ends(groups))
        if np.isin(levels, (0.0, 1.0)).all():
            threshold = 1.0
        elif levels.size == 2:
            threshold = float(levels[1])
        else:
            return None  # what passes is not known
    with np.errstate(invalid="ignore"):
        equal: NDArray[np.bool_] = low >= threshold if name == "all_pass_fraction" else high < threshold
    return equal


def _constant(counts: NDArray[np.int64]) -> int | None:
    return int(counts[0]) if counts.size and bool(np.all(counts == counts[0])) else None
