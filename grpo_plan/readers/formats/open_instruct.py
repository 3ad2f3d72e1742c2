"""open-instruct: saved rollouts, from which groups without variance are missing unless a setting says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
    Raw,
    add,
    asked,
    batches,
    distinct,
    not_whole,
    note_cut_off,
    peek,
    reward_name,
    reward_weights,
    rewards,
    runs_of,
    usable,
)
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import shown

OWN = ("step", "prompt_idx", "reward", "finish_reason", "dataset")
TOKENS = ("prompt_tokens", "response_tokens")
SHARD = "_rollouts_"
FILTER = "filter_zero_std_samples"


def _is_dump(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has(*OWN, *TOKENS, "sample_idx", "advantage"):
        return False
    return all(isinstance(row["prompt_tokens"], list) for row in candidate.rows)


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows of all shards: a group is a prompt_idx of a step; a prompt is told by its tokens."""
    files = distinct(files, sink)
    sink.groups_apart = True
    seen = peek(files)
    weights = reward_weights("reward", (), sink, files[0].name)
    named = asked(sink, seen, files[0].name)
    fields = dict.fromkeys((*OWN, "sample_idx", "advantage", *named.values()), Any) | dict.fromkeys(TOKENS, Raw)
    runs = {file.name: os.path.basename(file.name).partition(SHARD)[0] for file in files}
    prefixes = {name: folder + (f"{runs[name]} " if len(set(runs.values())) > 1 else "")
                for name, folder in runs_of(files, sink).items()}  # fmt: skip
    models = {name: _model(file, runs[name]) for name, file in ((f.name, f) for f in files)}
    sink.note("prompts are named by a hash of their tokens.")
    cut, numbered = 0, _Numbered()
    for file in files:
        for found in batches(file, fields, sink):
            batch = usable(found, sink, partial(_fault, found.fields))
            stopped = [reason == "length" for reason in batch.fields["finish_reason"]]
            cut += sum(stopped)
            own: dict[str, Sequence[Any]] = {
                "prompt": (prompts := [_name_of(tokens) for tokens in batch.fields["prompt_tokens"]]),
                "group": numbered.groups(batch, prefixes[file.name], prompts),
                "step": batch.fields["step"],
                "reward": rewards(batch, weights),
                "advantage": batch.fields["advantage"],
                "response_tokens": [_length_of(tokens) for tokens in batch.fields["response_tokens"]],
                "stratum": [d[0] if isinstance(d, list) and len(d) == 1 else d for d in batch.fields["dataset"]],
                "truncated": stopped,
            }
            if sink.details:
                own[TEXT] = [
                    _name_of(t) if bytes(t).startswith(b"[") else None for t in batch.fields["response_tokens"]
                ]
                own[CUT] = [None if r is None else r == "length" for r in batch.fields["finish_reason"]]
            if models[file.name] is not None:
                own["policy"] = [models[file.name]] * batch.size
            add(sink, batch, own, named, reward_name(weights))
    note_cut_off(sink, cut)
    if numbered.again:
        steps = f"{len(numbered.again):,} step{'s were' if len(numbered.again) > 1 else ' was'}"
        sink.note(f"{steps} saved more than once, as by a run taken up again: the groups of each time count apart.")
    judge(sink, FILTER, by_default=True)


@dataclass(slots=True, kw_only=True)
class _Numbered:
    """Names of groups: prompt_idx, which starts again in each step, and in a step that is saved again."""

    last: dict[tuple[str, int], tuple[int, tuple[int, int]]] = field(default_factory=dict)
    prompts: dict[tuple[str, int, str], str] = field(default_factory=dict)
    again: set[tuple[str, int]] = field(default_factory=set)

    def groups(self, batch: Batch, prefix: str, prompts: Sequence[str]) -> list[str]:
        """Names of the groups of a batch.

        Raises:
            PilotFormatError: One prompt_idx of a step holds two prompts.
        """
        out = []
        rows = zip(*(batch.fields[name] for name in ("step", "prompt_idx", "sample_idx")), prompts, strict=True)
        for i, (step, idx, sample, prompt) in enumerate(rows):
            at = (prefix, step)
            time, before = self.last.get(at, (0, (-1, -1)))
            number = (idx, sample if isinstance(sample, int) else 0)
            if number < before:  # rows are saved in this order
                time += 1
                self.again.add(at)
            self.last[at] = (time, number)
            group = f"{prefix}{idx}" + (f" (saved again {time})" if time else "")
            if self.prompts.setdefault((prefix, step, group), prompt) != prompt:
                raise PilotFormatError(
                    f"{batch.place(i)}: prompt_idx {idx} of step {step} holds two prompts, as where rows were left out "
                    "before they were numbered: what was sampled together is not known. Read it with --format table "
                    "--prompt-column prompt_tokens."
                )
            out.append(group)
        return out


def _fault(fields: Mapping[str, Sequence[Any]], i: int) -> str | None:
    for name in ("step", "prompt_idx"):
        if why := not_whole(name, fields[name][i]):
            return why
    if not bytes(fields["prompt_tokens"][i]).startswith(b"["):
        return f"prompt_tokens must be a list; got {shown([bytes(fields['prompt_tokens'][i]).decode() or None])}"
    return None


def _name_of(tokens: Raw) -> str:
    return blake2b(bytes(tokens).replace(b" ", b""), digest_size=8).hexdigest()


def _length_of(tokens: Raw) -> int | None:
    raw = bytes(tokens).strip()
    if not raw.startswith(b"["):
        return None
    return 0 if not raw.strip(b"[] ") else raw.count(b",") + 1


def _model(file: InputFile, run: str) -> str | None:
    """Name of the model, from the metadata that lie beside the shards of a run."""
    beside = Path(file.name).with_name(f"{run}_metadata.jsonl")
    if SHARD not in file.name or not beside.is_file():
        return None
    try:
        rows = look(InputFile(name=str(beside), path=beside)).rows
    except PilotFormatError:
        return None
    name = rows[0].get("model_name") if rows else None
    return name if isinstance(name, str) and name else None


FORMATS = (
    Format(
        name="open-instruct",
        tool="open-instruct, --save_traces",
        files="<rollouts_save_path>/<run>_rollouts_<shard>.jsonl, with <run>_metadata.jsonl",
        reads="reward by prompt tokens, step, dataset as stratum, length and truncation; model from the metadata",
        evidence=Evidence.SOURCE,
        versions="of August 2026",
        limits=(
            "by default only groups whose rewards differ are saved (filter_zero_std_samples)",
            "a verified answer has reward 10 by default: give --pass-threshold 10",
            "prompts are hashes of their tokens; the temperature is not in the file",
        ),
        looks_like=_is_dump,
        pilot=_read,
    ),
)
