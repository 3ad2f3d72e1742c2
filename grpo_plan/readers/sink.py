"""Where the readers of formats put rollouts: filtered as asked for, counted per prompt, and noted per group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError, sentences
from grpo_plan.pilot import Pilot
from grpo_plan.provenance import DeadGroups, Provenance
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import Place, Tally
from grpo_plan.readers.group_details import CUT as CUT
from grpo_plan.readers.group_details import TEXT as TEXT
from grpo_plan.readers.group_details import GroupDetails
from grpo_plan.readers.group_table import GroupTable
from grpo_plan.readers.jsonlines import count_columns
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.selection import SEPARATOR as SEPARATOR
from grpo_plan.readers.thresholds import out_of_reach
from grpo_plan.readers.values import (
    distinct,
    is_whole,
    matches,
    number_of,
    shown,
    texts_of,
)

if TYPE_CHECKING:
    pass

COUNTED = ("prompt", "reward", "n", "k", "stratum", "temperature", "response_tokens", "policy", "session", "text")
BROKEN_LINES = ("malformed_line", "truncated_last_line")  # counted where lines are read, before they are rows
ESCAPED = "\\x1f"  # how the separator of groups is written in a prompt


@dataclass(slots=True, kw_only=True)
class RolloutSink:
    """Takes rollouts batch by batch.

    A reader calls `add` with columns of equal length. ``prompt`` (its identity: text or id) and ``reward`` (None where
    scoring failed) are needed. These are understood if given: ``stratum``, ``temperature``, ``response_tokens``,
    ``policy``, ``step`` (of training), ``group`` (what was sampled together for one prompt; needed for dead groups),
    ``split`` (``train`` or ``eval``), ``full_reward`` (what the trainer compares within a group, where ``reward`` is
    another), and, where `details` are asked for, `TEXT` and `CUT`. Any further column can be filtered by.

    A reader sets ``filtered`` before it adds rows, or, where only the rows themselves can tell, ``groups_apart`` before
    and ``filtered`` after them (`grpo_plan.readers.survivors.judge`).
    """

    tally: Tally
    request: ReadRequest
    format: str
    groups: GroupTable | None = None
    groups_apart: bool = False
    filtered: str | None = None
    removed: str | None = None
    weak_prior: str | None = None
    files: int = 0
    rows: int = 0
    steps: set[int] = field(default_factory=set)

    @property
    def _apart(self) -> bool:
        return self.groups_apart or self.request.options.groups_apart

    @property
    def details(self) -> bool:
        """Whether a reader is to give the texts of responses, and what else only the groups need."""
        return self.request.details is not None

    def _details(self) -> GroupDetails | None:
        asked = self.request.details
        return None if asked is None else GroupDetails(threshold=asked.pass_threshold)

    def note(self, sentence: str) -> None:
        """A sentence on how the source was read; said once."""
        if sentence not in self.tally.notes:
            self.tally.notes.append(sentence)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count rows that the reader leaves out before `add`."""
        if count:
            self.tally.dropped[reason] += count
            self.rows += count if reason not in BROKEN_LINES else 0  # these are added at the end

    def add(self, columns: Mapping[str, Sequence[Any]], place: Place, *, reward_name: str = "reward") -> None:
        """Take a batch with one row a rollout; ``place`` names the place of a row for errors.

        Raises:
            PilotFormatError: A reward cannot be read, or ``--where`` names a column that is not there.
        """
        size = len(columns["prompt"])
        if not size:
            return
        self.rows += size
        if "step" in columns:
            columns = {**columns, "step": _steps(columns["step"], place)}
        kept = self._kept(columns, size)
        if len(kept) < size:
            columns = {name: [values[i] for i in kept] for name, values in columns.items()}
            if not kept:
                return
        where: Place = place if len(kept) == size else lambda i: place(kept[i])
        if "step" in columns:
            self.steps |= set(columns["step"]) - {None}
        if "group" in columns:
            self.groups = self.groups or GroupTable(details=self._details())
            self.groups.add(columns, where, reward_name)
        counted: dict[str, Sequence[Any]] = {name: columns[name] for name in COUNTED if name in columns}
        for role in ("session", "text"):
            if (name := self.request.given.get(role)) is not None:
                counted[role] = columns[name] if name in columns else self._missing(name, role, columns)
        observer, observed = self.tally.observer, counted
        if observer is not None and "group" in columns:  # it sees what was sampled together, too
            observed = counted | {"group": columns["group"], "step": columns.get("step", [None] * len(kept))}
            observed |= {"advantage": columns["advantage"]} if "advantage" in columns else {}
            self.tally.observer = None
        if (self.filtered is not None or self._apart) and "group" in columns:  # dropped were groups
            prompts, steps = texts_of(columns["prompt"]), columns.get("step", [""] * len(kept))
            apart = [
                None if p is None else f"{p.replace(SEPARATOR, ESCAPED)}{SEPARATOR}{step}{SEPARATOR}{group}"
                for p, step, group in zip(prompts, steps, columns["group"], strict=True)
            ]
            counted, self.tally.observer = counted | {"prompt": apart}, None
        names = {role: role for role in counted if role != "reward"}
        roles = ColumnMap(shape="long", reward=reward_name, **names)
        self.tally.policy_column = self.tally.policy_column or "policy"
        count_columns(counted, roles, self.request.options, where, self.tally)
        if self.tally.observer is not observer:  # it looks at prompts, not at groups
            self.tally.observer = observer
            if observer is not None and self.tally.odd is None:
                observer(observed, roles, self.request.options, where, self.tally)

    def add_counts(self, columns: Mapping[str, Sequence[Any]], place: Place, *, k_name: str = "k") -> None:
        """Take a batch with one row a prompt: ``prompt``, ``n``, ``k``, and those that `add` understands."""
        size = len(columns["n"])
        if not size:
            return
        self.rows += size
        kept = self._kept(columns, size)
        if len(kept) < size:
            columns = {name: [values[i] for i in kept] for name, values in columns.items()}
            if not kept:
                return
        where: Place = place if len(kept) == size else lambda i: place(kept[i])
        counted = {name: columns[name] for name in COUNTED if name in columns}
        roles = ColumnMap(shape="wide", **{role: role for role in counted if role != "k"}, k=k_name)
        self.tally.policy_column = self.tally.policy_column or "policy"
        options = replace(self.request.options, rollouts_per_prompt=None)  # the reader says how many
        count_columns(counted, roles, options, where, self.tally)

    def provenance(self) -> Provenance:
        """What was read."""
        counts = None if self.groups is None else self.groups.frame()
        sizes = None if counts is None or not counts.height else counts["rollouts"]
        return Provenance(
            format=self.format,
            files=self.files,
            rows=self.rows + sum(self.tally.dropped[reason] for reason in BROKEN_LINES),
            groups=None if counts is None else counts.height,
            group_size=None if sizes is None else (int(sizes.min()), int(sizes.max())),  # type: ignore[arg-type]
            policy_steps=(min(self.steps), max(self.steps)) if self.steps else None,
            step_count=len(self.steps),
            filtered=self.filtered,
            removed=self.removed,
            weak_prior=self.weak_prior,
            dead_groups=self._dead_groups(),
            pass_threshold=None if self.tally.rewards is None else self.request.options.pass_threshold,
        )

    def _dead_groups(self) -> DeadGroups | None:
        """Of groups that were counted; None where the source dropped the dead ones, or says no groups."""
        request = self.request
        if self.groups is None or self.filtered is not None or request.any_reward:
            return None
        chosen = bool(request.reward_weights) or request.given.get("reward") is not None
        return self.groups.dead(request.options.pass_threshold, full_known=not chosen)

    def _kept(self, columns: Mapping[str, Sequence[Any]], size: int) -> list[int]:
        """Rows that the split, the steps and ``--where`` keep; the others are counted."""
        kept, request = list(range(size)), self.request
        if "split" in columns and request.split != "all":
            other = "eval" if request.split == "train" else "train"
            kept = self._where(kept, f"{other}_rows", lambda i: columns["split"][i] == request.split)
        if request.policy_steps is not None:
            if "step" not in columns:
                raise PilotFormatError(
                    f"{self.format}: rows hold no training step, so --policy-steps (policy_steps=) cannot be used."
                )
            low, high = request.policy_steps
            self.tally.take_steps((), columns["step"])
            steps = [number_of(v) for v in columns["step"]]
            kept = self._where(
                kept, "rows_outside_policy_steps", lambda i: (s := steps[i]) is not None and low <= s <= high
            )
        for column, wanted in request.options.where.items():
            values = columns[column] if column in columns else self._missing(column, "--where", columns)
            self.tally.where_seen.setdefault(column, distinct(values[:500]))
            kept = self._where(kept, "rows_outside_where", lambda i, v=values, w=wanted: matches(v[i], w))  # type: ignore[misc]
        return kept

    def _where(self, kept: list[int], reason: str, holds: Callable[[int], bool]) -> list[int]:
        found = [i for i in kept if holds(i)]
        if len(found) < len(kept):
            self.tally.dropped[reason] += len(kept) - len(found)
        return found

    def _missing(self, column: str, role: str, columns: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
        raise PilotFormatError(
            f"{self.format}: no column {column!r} (asked for as {role}). Columns: {', '.join(columns)}."
            f"{did_you_mean(column, columns)}"
        )


def _steps(values: Sequence[Any], place: Place) -> list[int | None]:
    """Training steps as whole numbers of at least 0; None stays.

    Raises:
        PilotFormatError: A step is something else.
    """
    if not set(map(type, values)) <= {int, NoneType}:
        values = [v if (x := None if isinstance(v, bool) else number_of(v)) is None or x != int(x) else int(x)
                  for v in values]  # fmt: skip
    for i, step in enumerate(values):
        if step is not None and not (is_whole(step) and step >= 0):
            raise PilotFormatError(f"{place(i)}: step must be a whole number of at least 0; got {shown([repr(step)])}.")
    return list(values)


def without_groups(prompts: Sequence[str]) -> list[str]:
    """Prompt names without the groups that were counted apart."""
    return [p.partition(SEPARATOR)[0] for p in prompts]


def with_threshold_note(pilot: Pilot, tally: Tally, request: ReadRequest) -> Pilot:
    """The pilot, with a note where its threshold is out of the reach of all rewards."""
    passes = int(pilot.successes @ pilot.prompts_per_row)
    found = out_of_reach(request.options.pass_threshold, tally.rewards, passes, pilot.total_rollouts)
    return replace(pilot, notes=(*pilot.notes, *found))


def without_group_names(pilot: Pilot) -> Pilot:
    """A pilot of groups that were counted apart, with the plain names of its prompts."""
    if pilot.prompt_id is None:
        return pilot
    bare = np.empty(len(pilot.prompt_id), dtype=object)
    bare[:] = without_groups([str(n) for n in pilot.prompt_id])
    return replace(pilot, prompt_id=bare)


def _check_removed(sink: RolloutSink, pilot: Pilot) -> Pilot:
    """Take back that prompts were removed where such are there: this is another edition of the source."""
    k, n, count = pilot.successes, pilot.rollouts, pilot.prompts_per_row
    ends = {"all-pass": [k == n], "all-fail": [k == 0], "dead": [k == 0, k == n]}[sink.removed or ""]
    found = sum(int(count[end].sum()) for end in ends)
    if not found:
        return pilot
    note = f"{found:,} {sink.removed} prompts are there, so none is taken to have been removed."
    sink.removed = None
    return replace(pilot, notes=(*pilot.notes, note))


def pilot_of(sink: RolloutSink, name: str) -> Pilot:
    """The Pilot of what a sink took in."""
    apart = sink.request.options.groups_apart
    if sink.groups_apart and sink.filtered is None and not apart:  # no group is missing: count by prompt
        import polars as pl

        bare_name = pl.col("prompt").str.splitn(SEPARATOR, 2).struct.field("field_0").alias("prompt")
        sink.tally.parts = [part.with_columns(bare_name) for part in sink.tally.parts]
    pilot = sink.tally.pilot(name)
    if sink.filtered is not None or apart:
        pilot = without_group_names(pilot)
    if sink.removed is not None:
        pilot = _check_removed(sink, pilot)
    pilot = with_threshold_note(pilot, sink.tally, sink.request)
    provenance = replace(sink.provenance(), policies=tuple(sink.tally.policies))
    return replace(pilot, provenance=provenance, notes=sentences(*provenance.sentences, *pilot.notes))
