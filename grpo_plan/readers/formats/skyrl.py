"""SkyRL: dumps of evaluations, also of a generation without training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
    add,
    asked,
    batches,
    distinct,
    note_cut_off,
    note_unequal_groups,
    peek,
    reward_name,
    reward_weights,
    rewards,
    usable,
)
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import number_of, shown, text_of

OWN = ("input_prompt", "score", "stop_reason", "data_source")
STEP = re.compile(r"global_step_(\d+)")


def _is_dump(candidate: Candidate) -> bool:
    return candidate.kind == "jsonl" and candidate.every_row_has(*OWN, "output_response", "env_class")


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows by prompt: what has one input_prompt in one file is a group. A score per token is summed."""
    files = distinct(files, sink, _step_of)
    seen = peek(files)
    weights = reward_weights("score", (), sink, files[0].name)
    named = asked(sink, seen, files[0].name)
    fields = dict.fromkeys((*OWN, *(["output_response"] if sink.details else []), *named.values()), Any)
    cut = 0
    for file in files:
        step = _step_of(file)
        for found in batches(file, fields, sink):
            batch = usable(found, sink, partial(_fault, found.fields))
            batch.fields["score"][:] = _scores(batch)
            stopped = [reason == "length" for reason in batch.fields["stop_reason"]]
            cut += sum(stopped)
            prompts = [text_of(p) for p in batch.fields["input_prompt"]]
            own: dict[str, Sequence[Any]] = {
                "prompt": prompts,
                "group": [f"{file.name}: {prompt}" for prompt in prompts],
                "reward": rewards(batch, weights),
                "stratum": batch.fields["data_source"],
                "truncated": stopped,
            }
            if step is not None:
                own["step"] = [step] * batch.size
            if sink.details:
                own[TEXT] = batch.fields["output_response"]
                own[CUT] = [None if r is None else r == "length" for r in batch.fields["stop_reason"]]
            add(sink, batch, own, named, reward_name(weights))
    note_cut_off(sink, cut)
    note_unequal_groups(sink)


def _step_of(file: InputFile) -> int | None:
    found = STEP.findall(file.name)
    return int(found[-1]) if found else None


def _fault(fields: Mapping[str, Sequence[Any]], i: int) -> str | None:
    return None if text_of(fields["input_prompt"][i]) is not None else "holds no input_prompt"


def _scores(batch: Batch) -> list[Any]:
    """Scores of rollouts: a number as it is, a list of one number a token as its sum; an empty list is no score."""
    return [
        score if not isinstance(score, list) else _total(score, batch, i)
        for i, score in enumerate(batch.fields["score"])
    ]


def _total(score: Sequence[Any], batch: Batch, i: int) -> float | None:
    numbers = [number_of(value) for value in score]
    total = [n for n in numbers if n is not None]
    if len(total) < len(numbers):
        raise PilotFormatError(
            f"{batch.place(i)}: score must be a number or a list of numbers; got {shown([score])}. Is it damaged?"
        )
    return sum(total) if total else None


FORMATS = (
    Format(
        name="skyrl-eval",
        tool="SkyRL, evaluation dump",
        files="<export_path>/dumped_evals/global_step_<N>_evals/<data source>.jsonl",
        reads="score by input_prompt; data source as stratum; truncation; step from the name of the folder",
        evidence=Evidence.SOURCE,
        versions="0.4.0",
        limits=(
            "there is no dump of training rollouts with rewards: a pilot comes from evaluation or main_generate",
            "dynamic_sampling filters training, not evaluation: all groups are here",
            "sampling of evaluation may differ from that of training",
            "the temperature and the model are not in the file",
        ),
        looks_like=_is_dump,
        pilot=_read,
    ),
)
