"""Rows of a log to a RunLog: steps in order, several writers of a step joined, a run taken up again counted once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import sentences
from grpo_plan.quantities import tool_of
from grpo_plan.readers.values import MISSING_WORDS
from grpo_plan.run_log import RunLog

STEP_NAMES = (
    "step", "global_step", "train/global_step", "training/global_step", "trainer/global_step", "rollout/step", "Step",
    "step_num", "_step",
)  # fmt: skip
MANY_ROWS = "Every step is logged again and again"
ROWS_A_STEP = 3  # from so many on
NO_STEP = "No column holds the training step: rows were numbered from 1."
PART_OF_TOTAL = "global_step/max_steps"  # "5/100": the step of logs that have no other
NO_METRICS = frozenset(
    (*STEP_NAMES, "train/train_global_step", "_runtime", "_timestamp", "_wandb", "wall_time", "time", "timestamp",
     "Relative Time (Process)", "Relative Time (Wall)", "Wall Time", PART_OF_TOTAL, "percentage", "elapsed_time",
     "remaining_time")
)  # fmt: skip
SUMMARY = frozenset(("train_runtime", "train_loss", "train_samples_per_second", "train_steps_per_second", "total_flos"))
EVALUATION = re.compile(r"(eval_|eval/|test/|validation/|val-core/|val-aux/|val_correct/).+")
CLOCKS = frozenset(("epoch", "train/epoch"))
MAX_STEP = 2**53


@dataclass(slots=True, kw_only=True)
class RunBuilder:
    """Takes rows in the order in which they were written.

    Attributes:
        dropped: What was left out, by reason.
        notes: How the log was read.
        labels: Columns without a number.
        config: Settings found on the way.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    labels: dict[str, None] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    rows: int = 0
    _train: dict[str, dict[int, float]] = field(default_factory=dict)
    _eval: dict[str, dict[int, float]] = field(default_factory=dict)
    _undone: set[int] = field(default_factory=set)
    _last: dict[str, int] = field(default_factory=dict)
    _totals: set[int] = field(default_factory=set)
    _roles: dict[str, str] = field(default_factory=dict)

    def note(self, sentence: str) -> None:
        """A sentence on how the log was read; said once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def add(self, row: Mapping[str, Any], step: object) -> None:
        """Take a flat row of a step; rows without a whole step are counted and left out."""
        self.rows += 1
        at = as_step(step)
        if at is None:
            self.dropped["rows_without_step"] += 1
            return
        train: dict[str, float] = {}
        summary = False
        for name, value in row.items():
            role = self._roles.get(name) or self._roles.setdefault(name, _role(name))
            if role == "other":
                continue
            number = value if type(value) is float and math.isfinite(value) else self._number(name, value)
            if number is None:
                continue
            if role == "summary":
                summary = True
            elif role == "eval":
                self._eval.setdefault(name, {})[at] = number
            else:
                train[name] = number
        if summary:  # the last row of a run: its totals are no metrics of a step
            self._totals.add(at)
            return
        repeated = self._repeats(train, at)
        for name, number in train.items():
            known = self._train.setdefault(name, {})
            if at in known and repeated:
                self._resumed(name, at, number)
            known[at] = number
            self._last[name] = at if repeated else max(at, self._last.get(name, at))

    def _repeats(self, train: Mapping[str, float], at: int) -> bool:
        """Whether a row is of a step logged before: most of its names are, not a few that two writers share."""
        return 2 * sum(at in self._train.get(name, ()) for name in train) > len(train)

    def add_series(self, name: str, points: Iterable[tuple[object, object]]) -> None:
        """Take all values of one metric, pairs of step and value, in the order in which they were written."""
        for step, value in points:
            self.add({name: value}, step)

    def _resumed(self, name: str, step: int, value: float) -> None:
        """A metric logged again at an earlier step: the run was taken up there, and what came after is undone.

        The same value at the same step again (an epoch beside an evaluation) is no second row.
        """
        known = self._train[name]
        if step == self._last[name] and known[step] == value:
            return
        if step < self._last[name]:
            undone = [s for s in known if s > step]
            self._undone.update(undone)
            for s in undone:
                del known[s]
        self._undone.add(step)

    def _number(self, name: str, value: object) -> float | None:
        """A finite number, also as text; None counts what is not finite, and keeps the names of what is no number."""
        while isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        if value is None or isinstance(value, Mapping | list | tuple):
            if value is not None:
                self.labels[name] = None
            return None
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            if not (isinstance(value, str) and value.strip().lower() in MISSING_WORDS):
                self.labels[name] = None
            return None
        if not math.isfinite(number):
            if not isinstance(value, str):
                self.dropped["values_not_finite"] += 1
            return None
        return number

    @property
    def empty(self) -> bool:
        """Whether no metric of training was found."""
        return not self._train

    @property
    def taken_back(self) -> int:
        """Steps that were logged again, or undone because the run was taken up before them."""
        return len(self._undone)

    def state(self) -> dict[str, Any]:
        """All that was taken in, as a document of JSON."""
        return {
            "dropped": dict(self.dropped),
            "notes": list(self.notes),
            "labels": list(self.labels),
            "config": dict(self.config),
            "rows": self.rows,
            "train": {name: [list(column), list(column.values())] for name, column in self._train.items()},
            "eval": {name: [list(column), list(column.values())] for name, column in self._eval.items()},
            "undone": sorted(self._undone),
            "last": dict(self._last),
            "totals": sorted(self._totals),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RunBuilder:
        """A builder as it was when `state` was asked for; what is no such document raises what it raises."""
        columns = [
            {str(name): dict(zip(map(int, steps), map(float, values), strict=True)) for name, (steps, values) in table}
            for table in (state["train"].items(), state["eval"].items())
        ]
        return cls(
            dropped=Counter({str(k): int(v) for k, v in state["dropped"].items()}),
            notes=[str(note) for note in state["notes"]],
            labels=dict.fromkeys(map(str, state["labels"])),
            config=dict(state["config"]),
            rows=int(state["rows"]),
            _train=columns[0],
            _eval=columns[1],
            _undone=set(map(int, state["undone"])),
            _last={str(k): int(v) for k, v in state["last"].items()},
            _totals=set(map(int, state["totals"])),
        )

    def run_log(self, *, format: str, source: str, tool: str | None = None, **more: Any) -> RunLog:
        """What was taken in."""
        clocks = [n for n in self._train if n in CLOCKS] if len(self._train) > len(CLOCKS & set(self._train)) else []
        steps = sorted({s for name, column in self._train.items() if name not in clocks for s in column})
        known = set(steps)
        train = dict(self._train)
        for name in clocks:  # an evaluation logs the epoch too, and is no step of training
            train[name] = {s: v for s, v in train[name].items() if s in known}
        again = self._undone & set(steps)
        dropped = Counter(self.dropped)
        dropped["steps_logged_twice"] += len(again)
        dropped["summary_rows"] += len(self._totals)
        dropped["steps_undone_by_a_resume"] += len(self._undone) - len(again)
        notes = list(self.notes)
        if again and len(again) == len(steps) and self.rows >= ROWS_A_STEP * len(steps):
            notes.append(f"{MANY_ROWS} ({self.rows:,} rows, steps: {len(steps):,}): the last row of each counts.")
        elif again:
            which = "1 step is" if len(again) == 1 else f"{len(again):,} steps are"
            notes.append(f"{which} logged twice, as by a run taken up again: the later row counts.")
        texts = [name for name in self.labels if name not in self._train and name not in self._eval]
        if texts:
            notes.append(f"No numbers are in: {', '.join(texts[:8])}{', ...' if len(texts) > 8 else ''}.")
        eval_steps = sorted({s for column in self._eval.values() for s in column})
        return RunLog(
            steps=np.array(steps, dtype=np.int64),
            metrics=_columns(train, steps),
            eval_steps=np.array(eval_steps, dtype=np.int64),
            eval_metrics=_columns(self._eval, eval_steps),
            format=format,
            source=source,
            tool=tool or tool_of(self._train),
            config=dict(self.config),
            dropped={reason: count for reason, count in dropped.items() if count},
            notes=sentences(*notes),
            **more,
        )


def _role(name: str) -> str:
    """What a column is: a metric of training or of an evaluation, a total of the run, or none of these."""
    if name in NO_METRICS:
        return "other"
    if name.removeprefix("train/") in SUMMARY:
        return "summary"
    return "eval" if EVALUATION.fullmatch(name) else "train"


def _columns(table: Mapping[str, Mapping[int, float]], steps: list[int]) -> dict[str, NDArray[np.float64]]:
    index = {step: i for i, step in enumerate(steps)}
    out = {}
    for name, values in table.items():
        column = np.full(len(steps), np.nan)
        column[[index[s] for s in values]] = list(values.values())
        out[name] = column
    return out


def as_step(value: object) -> int | None:
    """A training step: a whole number of at least 0, also as text; else None.

    >>> as_step("12"), as_step(3.0), as_step(-1), as_step(2.5)
    (12, 3, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and 0 <= number <= MAX_STEP else None


def flat(row: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested metrics joined by ``/``; tables and pictures of a logger are left out.

    >>> dict(flat({"critic": {"score": {"mean": 0.5}}, "step": 1}))
    {'critic/score/mean': 0.5, 'step': 1}
    """
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if "_type" not in value:
                yield from flat(value, f"{name}/")
        else:
            yield name, value


def step_name(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The column that holds the training step: one for the whole log; None if there is none."""
    names = {name for row in rows for name, value in row.items() if value is not None}
    return next((name for name in STEP_NAMES if name in names), None)


def add_rows(builder: RunBuilder, rows: list[dict[str, Any]]) -> None:
    """Take rows that hold their step; without any, their number stands for it."""
    name = step_name(rows)
    if name is None and any(PART_OF_TOTAL in row for row in rows):
        for row in rows:
            builder.add(row, str(row.get(PART_OF_TOTAL) or "").partition("/")[0].strip() or None)
        return
    if name is None and rows:
        builder.note(NO_STEP)
    for number, row in enumerate(rows, start=1):
        builder.add(row, number if name is None else row.get(name))


def with_config(run: RunLog, config: Mapping[str, object]) -> RunLog:
    """A run with further settings; those that it has stay unless ``config`` names them."""
    return replace(run, config={**run.config, **flattened(config)}) if config else run


def flattened(config: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings joined by dots.

    >>> flattened({"data": {"train_batch_size": 8}})
    {'data.train_batch_size': 8}
    """
    out: dict[str, object] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            out.update(flattened(value, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = value
    return out
