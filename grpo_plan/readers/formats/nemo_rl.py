"""NeMo-RL: train_data_step and val_data_step files: every value a list of one item, and rows that name no prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import groupby
from math import gcd
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
    Raw,
    add,
    asked,
    batches,
    distinct,
    labelled,
    not_whole,
    peek,
    reward_name,
    reward_weights,
    rewards,
    runs_of,
    usable,
)
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import shown

OWN = ("content", "rewards", "idx")
TOKENS = ("token_ids", "token_loss_mask")
FILTERED = "filtered_rewards"
PROMPT = "prompt tokens"  # a column of hashes made here
STEP = re.compile(r"step[_-]?(\d+)")
TRAINED = re.compile(rb"[1-9t]")  # the first entry of a mask that is not 0 or false
REASON = "NeMo-RL's dynamic sampling (grpo.use_dynamic_sampling) drops dead groups before the rows are written"


def _is_dump(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has(*OWN):
        return False
    return all(
        isinstance(row["idx"], int) and all(isinstance(row[name], list) and len(row[name]) == 1 for name in OWN[:2])
        for row in candidate.rows
    )


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows in the order of their idx, G consecutive ones a group; the prompt is known to its group only."""
    files = distinct(files, sink, _step_of)
    seen = {file.name: peek([file]) for file in files}
    splits = {name: "train" if "advantages" in fields else "eval" for name, fields in seen.items()}
    label, prefixes = labelled(splits.values(), sink), runs_of(files, sink)
    sizes: dict[tuple[str, str], int] = {}  # of a split and a run
    sink.note("rows name no prompt: each group is one, and prompts do not join across steps.")
    for file in files:
        split, base = splits[file.name], os.path.basename(file.name)
        if label and request.split not in ("all", split):
            sink.drop(f"{split}_rows", sum(b.size for b in batches(file, {"idx": Any}, sink)))
            continue
        weights = _weights(seen[file.name], sink, file)
        named = asked(sink, seen[file.name], file.name, groups_known=False)
        content = ["content"] if sink.details else []
        step = _whole(file, seen[file.name], ["idx", *weights, *content, *named.values()], sink)
        size = request.options.rollouts_per_prompt or sizes.get((split, prefixes[file.name]))
        size = sizes[split, prefixes[file.name]] = size or _told_size(step, file, sink)
        _check(step, size, file, sink)
        if request.options.rollouts_per_prompt is not None:
            _doubt(step, size, file, sink)
        stem = prefixes[file.name] + base.partition(".")[0]
        groups = [f"{stem} group {idx // size}" for idx in step.fields["idx"]]
        own: dict[str, Sequence[Any]] = {"prompt": groups, "group": groups, "reward": rewards(step, weights)}
        if (number := _step_of(file)) is not None:
            own["step"] = [number] * step.size
        if label:
            own["split"] = [split] * step.size
        if sink.details:  # prompt and response together: of one group they are equal where the responses are
            own[TEXT] = step.fields["content"]
        add(sink, step, own, named, reward_name(weights))


def _step_of(file: InputFile) -> int | None:
    found = STEP.search(os.path.basename(file.name))
    return None if found is None else int(found[1])


def _weights(seen: Mapping[str, Sequence[Any]], sink: RolloutSink, file: InputFile) -> Mapping[str, float]:
    """What to count by; with dynamic sampling it is another column than that of the rewards before filtering."""
    if FILTERED not in seen:
        return reward_weights("rewards", (), sink, file.name)
    if "rewards" in (sink.request.given.get("reward"), *sink.request.reward_weights):
        raise PilotFormatError(
            f"{file.name}: 'rewards' are those before filtering, of other rows than these, so they cannot be joined. "
            f"Leave out --reward-column to read {FILTERED!r}."
        )
    sink.filtered = REASON
    return reward_weights(FILTERED, (), sink, file.name)


def _whole(file: InputFile, seen: Mapping[str, Sequence[Any]], wanted: Sequence[str], sink: RolloutSink) -> Batch:
    """All rows of a file, which is one step, in the order of idx: the one item of every list, and prompt tokens."""
    tokens = [name for name in TOKENS if name in seen and name not in wanted]
    fields = dict.fromkeys(wanted, Any) | (dict.fromkeys(tokens, Raw) if len(tokens) == len(TOKENS) else {})
    columns: dict[str, list[Any]] = {name: [] for name in (*wanted, PROMPT)}
    seen_idx: set[int] = set()
    for found in batches(file, fields, sink):
        batch = usable(found, sink, partial(_fault, found.fields, seen_idx, wanted[1]))
        for name in wanted:
            columns[name] += [v[0] if isinstance(v, list) and len(v) == 1 else v for v in batch.fields[name]]
        columns[PROMPT] += _prompts(batch) if TOKENS[0] in fields else [None] * batch.size
    order = sorted(range(len(columns["idx"])), key=columns["idx"].__getitem__)
    ordered = {name: [values[i] for i in order] for name, values in columns.items()}
    numbers = ordered["idx"]
    return Batch(file=file, fields=ordered, size=len(order), place=lambda i: f"{file.name}: idx {numbers[i]}")


def _fault(fields: Mapping[str, Sequence[Any]], seen_idx: set[int], reward: str, i: int) -> str | None:
    idx, value = fields["idx"][i], fields[reward][i]
    if not_whole("idx", idx):
        return f"idx must be the number of the row; got {shown([idx])}"
    if not isinstance(value, list) or len(value) != 1:
        return f"{reward} must be a list of one reward; got {shown([value])}"
    if idx in seen_idx:
        return f"idx {idx} occurs twice in the file, so its groups cannot be told"
    seen_idx.add(idx)
    return None


def _prompts(batch: Batch) -> list[bytes | None]:
    """Hash of the tokens of each prompt, those before the first that is trained on; None where no token is."""
    out: list[bytes | None] = []
    for ids, mask in zip(batch.fields["token_ids"], batch.fields["token_loss_mask"], strict=True):
        raw = bytes(mask)
        first = TRAINED.search(raw)
        if first is None:
            out.append(None)
            continue
        count = raw.count(b",", 0, first.start())
        out.append(blake2b(b",".join(bytes(ids).split(b",", count)[:count]), digest_size=8).digest())
    return out


def _shown_size(step: Batch) -> int:
    """The largest group size that divides every run of rows with the same prompt tokens; 1 where none is shown."""
    runs = [sum(1 for _ in rows) for _, rows in groupby(step.fields[PROMPT])]
    return gcd(*runs) if len(runs) > 1 and None not in step.fields[PROMPT] else 1


def _doubt(step: Batch, size: int, file: InputFile, sink: RolloutSink) -> None:
    """Say where prompt tokens show larger groups than those that were asked for."""
    shown_size = _shown_size(step)
    if shown_size > size:
        sink.note(
            f"{file.name}: every prompt has {shown_size} rows, or a multiple, one after the other: groups of "
            f"{shown_size}, it seems, and not of {size} as --rollouts-per-prompt says. Leave it out, or D(G) counts "
            "each prompt more than once."
        )


def _told_size(step: Batch, file: InputFile, sink: RolloutSink) -> int:
    """Group size: the largest that divides every run of rows with the same prompt tokens.

    Raises:
        PilotFormatError: It cannot be told, because prompts cannot be told apart.
    """
    size = _shown_size(step)
    if size > 1:
        sink.note(f"groups are {size} consecutive rows, as their prompt tokens say; --rollouts-per-prompt overrides.")
        return size
    raise PilotFormatError(
        f"{file.name}: its {step.size:,} rows name no prompt, and their tokens do not tell how many consecutive rows "
        "form a group. Give grpo.num_generations_per_prompt with "
        "--rollouts-per-prompt (rollouts_per_prompt=; group_size= in read_run)."
    )


def _check(step: Batch, size: int, file: InputFile, sink: RolloutSink) -> None:
    """Refuse groups that a group size cannot give.

    Raises:
        PilotFormatError: Rows remain, rows are missing, or a group holds two prompts.
    """
    numbers: list[int] = step.fields["idx"]
    rows = numbers[-1] + 1 if numbers else 0
    if not sink.tally.dropped["malformed_line"] + sink.tally.dropped["truncated_last_line"]:  # else it was said
        if rows > len(numbers):
            raise PilotFormatError(
                f"{file.name}: idx goes to {rows - 1:,} in {len(numbers):,} rows: rows are missing, so groups would be "
                "incomplete. Read the whole file."
            )
        if rows % size:
            raise PilotFormatError(
                f"{file.name}: {rows:,} rows are {rows // size:,} groups of {size} and {rows % size} more. Is the "
                "group size right? Give it with "
                "--rollouts-per-prompt (rollouts_per_prompt=; group_size= in read_run)."
            )
    firsts: dict[int, bytes] = {}
    for i, prompt in enumerate(step.fields[PROMPT]):
        if prompt is not None and firsts.setdefault(numbers[i] // size, prompt) != prompt:
            raise PilotFormatError(
                f"{step.place(i)}: has other prompt tokens than the rows before it in its group of {size}. Is the "
                "group size right? Give it with "
                "--rollouts-per-prompt (rollouts_per_prompt=; group_size= in read_run)."
            )


FORMATS = (
    Format(
        name="nemo-rl",
        tool="NeMo-RL",
        files="<log_dir>/exp_NNN/train_data_step<N>.jsonl, val_data_step<N>.jsonl",
        reads="rewards (filtered_rewards with dynamic sampling), in groups of consecutive rows; step from the name",
        evidence=Evidence.SOURCE,
        versions="0.6.0",
        limits=(
            "no prompt is named, so prompts do not join across steps",
            "the group size is told from prompt tokens, or given with --rollouts-per-prompt",
            "validation rows hold no tokens: give --rollouts-per-prompt",
            "with dynamic sampling the rewards of dropped groups do not match the rows and are not read",
        ),
        looks_like=_is_dump,
        pilot=_read,
    ),
)
