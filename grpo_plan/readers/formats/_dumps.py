"""What readers of trainers' dumps share: fields that the user named, faulty rows, runs side by side, the splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.counting import Place
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._rows import chosen_reward, json_rows, summed
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.values import is_whole, shown

OPTIONS = {
    "prompt": "--prompt-column",
    "stratum": "--stratum-column",
    "temperature": "--temperature-column",
    "response_tokens": "--tokens-column",
    "policy": "--model-column",
}
NO_COUNTS = {"n": "--n-column", "k": "--k-column", "pass_rate": "--pass-rate-column"}
BLANK_BYTES = 16  # a file of so few may be a line feed alone: a step without rows
Raw = msgspec.Raw  # a field that is passed over, or looked at as bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of a file as one list a field."""

    file: InputFile
    fields: Mapping[str, list[Any]]
    size: int
    place: Place

    def only(self, kept: Sequence[int]) -> Batch:
        """These rows."""
        if len(kept) == self.size:
            return self
        fields = {name: [values[i] for i in kept] for name, values in self.fields.items()}
        return Batch(file=self.file, fields=fields, size=len(kept), place=lambda i: self.place(kept[i]))


def batches(file: InputFile, fields: Mapping[str, Any], sink: RolloutSink) -> Iterator[Batch]:
    """Rows of a JSONL file, batch by batch; ``fields`` names what is decoded, each with its type (any, or raw)."""
    names = {field: f"c{i}" for i, field in enumerate(fields)}
    empty = {Raw: Raw(b"")}
    row = msgspec.defstruct(
        "Row",
        [(name, fields[field], empty.get(fields[field])) for field, name in names.items()],
        rename={name: field for field, name in names.items()},
        gc=False,
    )
    for batch in json_rows(file, row, sink):
        columns = {field: [getattr(r, name) for r in batch.rows] for field, name in names.items()}
        yield Batch(file=file, fields=columns, size=len(batch.rows), place=batch.place)


def distinct(
    files: Sequence[InputFile], sink: RolloutSink, step: Callable[[InputFile], object] = lambda _: None
) -> Sequence[InputFile]:
    """Files without those that are empty or hold what an earlier one of the same step holds; they are noted.

    Only files of equal size are compared; ``step`` is needed where rows do not hold it. A file that stands alone stays:
    reading it says what is wrong with it.
    """
    sizes: dict[int, list[InputFile]] = {}
    for file in files:
        if file.path is not None and file.path.is_file():
            sizes.setdefault(file.path.stat().st_size, []).append(file)
    left_out = {f.name for f in sizes.pop(0, ())}
    left_out |= {f.name for size, alike in sizes.items() if size <= BLANK_BYTES for f in alike if _is_blank(f)}
    for alike in sizes.values():
        seen: set[tuple[object, bytes]] = set()
        for file in alike if len(alike) > 1 else ():
            digest = (step(file), _digest(file))
            left_out |= {file.name} if digest in seen else set()
            seen.add(digest)
    kept = [file for file in files if file.name not in left_out]
    if not left_out or not kept:
        return files
    sink.files = len(kept)
    count = f"{len(left_out):,} file{'s are' if len(left_out) > 1 else ' is'}"
    sink.note(f"{count} empty or the copy of another, and left out: {shown(sorted(left_out), 3)}.")
    return kept


def _is_blank(file: InputFile) -> bool:
    return file.path is not None and not file.path.read_bytes().strip()


def _digest(file: InputFile) -> bytes:
    from hashlib import blake2b, file_digest

    if file.path is None:
        return b""
    with file.path.open("rb") as raw:
        return file_digest(raw, blake2b).digest()


def peek(files: Sequence[InputFile]) -> dict[str, list[Any]]:
    """Fields of the first rows of the first and of the last file, with the values that are there."""
    found: dict[str, list[Any]] = {}
    for file in {f.name: f for f in (files[0], files[-1])}.values():
        try:
            rows = look(file).rows
        except PilotFormatError:
            continue  # reading it says what is wrong
        for row in rows:
            for name, value in row.items():
                found.setdefault(name, [])
                if value is not None:
                    found[name].append(value)
    return found


def usable(batch: Batch, sink: RolloutSink, fault: Callable[[int], str | None]) -> Batch:
    """The rows without a fault; others are an error, or dropped and counted with ``--skip-malformed``.

    Raises:
        PilotFormatError: A row has a fault.
    """
    kept = []
    for i in range(batch.size):
        why = fault(i)
        if why is None:
            kept.append(i)
        elif sink.request.options.skip_malformed:
            sink.drop("malformed_line")
        else:
            raise PilotFormatError(
                f"{batch.place(i)}: {why}. Repair the line, or drop such lines with --skip-malformed."
            )
    return batch.only(kept)


def not_whole(name: str, value: object) -> str | None:
    """The fault of a value that must be a whole number of at least 0; None if it is one."""
    return None if is_whole(value) and value >= 0 else f"{name} must be a whole number; got {shown([repr(value)])}"  # type: ignore[operator]


def asked(sink: RolloutSink, fields: Iterable[str], where: str, *, groups_known: bool = True) -> dict[str, str]:
    """Name in the sink to the field of the rows that the user named for it.

    Raises:
        PilotFormatError: A field that was asked for is not there.
    """
    request, there = sink.request, list(fields)
    found = {}
    for role, option in OPTIONS.items():
        name = request.given.get(role)
        if name is not None and name not in there:
            raise PilotFormatError(
                f"{where}: no column {name!r} (asked for as {option}). Columns: {', '.join(there)}."
                f"{did_you_mean(name, there)}"
            )
        if name is not None:
            found[role] = name
    others = (*request.options.where, request.given.get("session"), request.given.get("text"))
    found |= {name: name for name in others if name in there and name is not None}
    for role, option in NO_COUNTS.items():
        if request.given.get(role) is not None:
            sink.note(f"{option} has no effect: a row is a rollout.")
    if groups_known and request.options.rollouts_per_prompt is not None:
        sink.note("--rollouts-per-prompt has no effect: the rows say what was sampled together.")
    return found


def add(
    sink: RolloutSink, batch: Batch, own: Mapping[str, Sequence[Any]], named: Mapping[str, str], reward: str
) -> None:
    """Add a batch with the reader's own columns and those that the user named."""
    columns = {name: batch.fields[field] for name, field in named.items() if name not in OPTIONS and name not in own}
    columns |= own  # type: ignore[arg-type]
    columns |= {name: batch.fields[field] for name, field in named.items() if name in OPTIONS}
    sink.add(columns, batch.place, reward_name=reward)


def reward_weights(main: str, others: Sequence[str], sink: RolloutSink, where: str) -> Mapping[str, float]:
    """What to count by: what the user named, else the reward that the trainer itself compares."""
    request = sink.request
    if request.reward_weights or request.given.get("reward") is not None:
        return chosen_reward([main, *others], sink, where)
    if others:
        sink.tally.other_rewards = list(others)
        sink.note(f"rewards are {main}; --reward-column can name {' or '.join(others)} instead.")
    return {main: 1.0}


def rewards(batch: Batch, weights: Mapping[str, float]) -> list[Any]:
    """Rewards of a batch: a field, or the weighted sum of several."""
    if list(weights.values()) == [1.0]:
        return batch.fields[next(iter(weights))]
    columns = {name: batch.fields[name] for name in weights}
    return [
        summed({name: values[i] for name, values in columns.items()}, weights, partial(batch.place, i))
        for i in range(batch.size)
    ]


def reward_name(weights: Mapping[str, float]) -> str:
    """Name of the reward for messages."""
    return " + ".join(name if weight == 1.0 else f"{weight:g} {name}" for name, weight in weights.items())


def runs_of(files: Sequence[InputFile], sink: RolloutSink, up: int = 1) -> dict[str, str]:
    """File to a prefix for the names of its groups: its folder, ``up`` levels above it, where there are several."""
    folders = {f.name: str(f.path.absolute().parents[up - 1]) if f.path is not None else "" for f in files}
    distinct = list(dict.fromkeys(folders.values()))
    if len(distinct) == 1:
        return dict.fromkeys(folders, "")
    common = os.path.commonpath(distinct)
    short = {folder: os.path.relpath(folder, common) for folder in distinct}
    sink.note(f"files of {len(distinct):,} folders are read as one source: {shown(list(short.values()))}.")
    return {name: f"{short[folder]} " for name, folder in folders.items()}


def labelled(splits: Iterable[str], sink: RolloutSink) -> bool:
    """Whether rows are kept by their split: not if rows of training are wanted, as is usual, and none is there."""
    if sink.request.split != "train" or "train" in splits:
        return True
    sink.note("holds rows of evaluation only; they are counted.")
    return False


def note_cut_off(sink: RolloutSink, count: int) -> None:
    """Say how many rollouts were cut off."""
    if count:
        sink.note(f"{many(count)} cut off at the limit of length, and counted as their rewards say.")


def many(count: int) -> str:
    """A number of rollouts, with the verb."""
    return f"{count:,} rollout{' was' if count == 1 else 's were'}"


def note_unequal_groups(sink: RolloutSink) -> None:
    """Say where groups told by their prompt hold several groups: a prompt that was drawn twice."""
    if sink.groups is None:
        return
    sizes = sink.groups.frame()["rollouts"].to_numpy()
    usual = int(np.bincount(sizes).argmax())
    several = int(((sizes > usual) & (sizes % usual == 0)).sum())
    if several:
        sink.note(
            f"{several:,} of {sizes.size:,} groups hold a multiple of {usual} rollouts: prompts that were drawn more "
            "than once in a step. Their groups cannot be told apart, and together they are dead less often."
        )
    other = int((sizes % usual != 0).sum())
    if other:
        sink.note(f"{other:,} of {sizes.size:,} groups hold another number of rollouts than {usual}: rows are missing.")
