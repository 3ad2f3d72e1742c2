"""Which rows of a table are kept: by ``--where``, by training step, and by split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import STEP_NAMES, ColumnMap, Sample
from grpo_plan.readers.values import is_missing, matches, matches_text, number_of, shown, text_of

SEPARATOR = "\x1f"  # between a prompt and its group, where each group is counted apart; no text uses it
MAX_STEP = 2**53
MOST_STEPS = 100_000  # different steps that are told apart
STEPS, WHERE = "rows_outside_policy_steps", "rows_outside_where"
SPLITS = ("train", "eval")
OUTSIDE = (WHERE, STEPS, *(f"{split}_rows" for split in SPLITS))  # reasons of rows that were asked to be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Rows are kept whose column equals a wanted value, or lies in a span; the others are counted under a reason."""

    column: str
    wanted: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    reason: str = WHERE

    def holds(self, value: object, *, text: bool = False) -> bool:
        """Whether a value is kept; ``text``: a table may hold numbers and truth values as text."""
        if self.span is not None:
            number = number_of(value)
            return number is not None and self.span[0] <= number <= self.span[1]
        return (matches_text if text else matches)(value, self.wanted)


def whole_steps(values: Iterable[object]) -> set[int]:
    """The whole numbers among values."""
    numbers = (number_of(v) for v in {v for v in values if isinstance(v, int | float | str)})
    return {int(x) for x in numbers if x is not None and float(x).is_integer()}


def step_column(sample: Sample, roles: ColumnMap, *, asked: bool) -> tuple[str | None, list[str]]:
    """The column of the training step, where its values are numbers, and notes on one that cannot be used.

    An ``epoch`` may be a repetition of an evaluation, so that it is a step only where steps were ``asked`` for.
    """
    plain = {name.strip().lower().replace("-", "_").replace(" ", "_"): name for name in reversed(list(sample.columns))}
    free = [plain[s] for s in STEP_NAMES if s in plain and plain[s] not in roles.roles().values()]
    if not free:
        return None, []
    column = free[0]
    values = [v for v in sample.columns[column] if not is_missing(v)]
    if values and all(number_of(v) is not None for v in values) and (asked or column != plain.get("epoch")):
        return column, []
    different = list(dict.fromkeys(map(str, values)))
    if len(different) < 2 or asked:
        return None, []
    return None, [
        f"{sample.name}: column {column!r} takes several values; if they are training steps, rollouts of different "
        f"policies are pooled. Keep the last with --where '{column}={different[-1]}'."
    ]


def selected(sample: Sample, roles: ColumnMap, steps: tuple[int, int] | None, split: str) -> tuple[Condition, ...]:
    """What ``--policy-steps`` and ``--split`` mean for a table.

    Raises:
        PilotFormatError: The table has no column to select by.
    """
    found = []
    if steps is not None:
        if roles.step is None:
            raise PilotFormatError(
                f"{sample.name}: no column holds training steps as numbers, so --policy-steps cannot be used. Columns: "
                f"{sample.listing}. Rename one to step, or keep rows with --where COLUMN=VALUE."
            )
        found.append(Condition(column=roles.step, span=steps, reason=STEPS))
    column = next((c for c in sample.columns if c.strip().lower() == "split"), None)
    written = [] if column is None else list(dict.fromkeys(str(v) for v in sample.columns[column] if not is_missing(v)))
    known = {v: v.strip().lower() for v in written}
    if column is not None and known and set(known.values()) <= set(SPLITS):
        if split == "eval" or (split == "train" and "train" in known.values()):
            other = SPLITS[1 - SPLITS.index(split)]
            wanted = tuple(dict.fromkeys([split, *(v for v, plain in known.items() if plain == split)]))
            found.append(Condition(column=column, wanted=wanted, reason=f"{other}_rows"))
    elif split == "eval":
        there = f"column {column!r} holds {shown(written)}" if column is not None else "no column 'split'"
        raise PilotFormatError(
            f"{sample.name}: --split {split} needs a column 'split' with the values train and eval; {there}. Keep rows "
            "with --where COLUMN=VALUE."
        )
    return tuple(found)


def mixed_rows(counts: Mapping[tuple[int, int], int]) -> tuple[tuple[int, int, int], ...]:
    """Counts (n, k, how many) of rows that all have one n and are all mixed; else nothing."""
    if len({n for n, _ in counts}) != 1 or any(k in (0, n) for n, k in counts):
        return ()
    return tuple((n, k, counts[n, k]) for n, k in sorted(counts))


def apart(columns: Mapping[str, Sequence[Any]], roles: ColumnMap, start: int) -> dict[str, Sequence[Any]]:
    """Prompts named by group too: by row where a row is a group, else by step."""
    if roles.shape == "long" and "step" not in columns:
        return dict(columns)
    size = len(next(iter(columns.values())))
    prompts = columns.get("prompt") or [f"row {start + i + 1}" for i in range(size)]
    groups = range(start + 1, start + size + 1) if roles.shape != "long" else columns["step"]
    names = ((text_of(p), group) for p, group in zip(prompts, groups, strict=True))
    return {**columns, "prompt": [None if p is None else f"{p}{SEPARATOR}{group}" for p, group in names]}


def nothing_counted(
    name: str, dropped: Mapping[str, int], where_seen: Mapping[str, Sequence[object]], steps: Set[int]
) -> PilotFormatError:
    """The error for a source of which no row counts: why, and what there is."""
    left = {reason: count for reason, count in dropped.items() if count}
    if set(left) == {WHERE}:
        seen = "; ".join(f"{column}: {shown(list(values))}" for column, values in where_seen.items())
        return PilotFormatError(f"{name}: no row fits --where. Values among the first rows: {seen}.")
    why = ""
    if STEPS in left and steps:
        first, last = min(steps), max(steps)
        there = f"the only step is {first:,}" if first == last else f"the steps are {first} to {last}"
        why = f"no row fits --policy-steps; {there}. "
    for split, other in (SPLITS, SPLITS[::-1]):
        if f"{other}_rows" in left and not why:
            why = f"no row fits --split {split}; there are {left[f'{other}_rows']:,} of {other}. "
    shares = ", ".join(f"{reason.replace('_', ' ')}: {count:,}" for reason, count in left.items())
    step = "" if why else f" {_column_to_check(left)}"
    return PilotFormatError(
        f"{name}: {why or 'no rollout could be counted'}{f' ({shares})' if shares else ''}.{step}".replace(".  (", " (")
    )


def _column_to_check(left: Mapping[str, int]) -> str:
    """Where to look, by why rows were left out."""
    reasons = " ".join(left)
    if "count" in reasons:
        return "Check the columns of n and k, or name others: --n-column, --k-column."
    if "prompt" in reasons:
        return "Check the column of the prompt, or name another: --prompt-column."
    if "line" in reasons:
        return "Check that its lines are whole JSON objects."
    return "Check the column of the reward, or name another: --reward-column."


def nonzero(**counts: int) -> dict[str, int]:
    """Reasons with a count."""
    return {reason: count for reason, count in counts.items() if count}
