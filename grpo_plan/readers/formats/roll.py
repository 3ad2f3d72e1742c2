"""ROLL: rollout dumps, one line a step, each an object of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
    add,
    asked,
    batches,
    distinct,
    note_unequal_groups,
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
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import json_text, number_of, shown, text_of

NEEDED = ("global_step", "responses", "scores")
NAMES = ("id", "prompt")
OWN = ("global_step", "scores", "domain", "tag", "sampling_params")
FILTER = "query_filter_config"


def _is_dump(candidate: Candidate) -> bool:
    if candidate.kind not in ("jsonl", "json") or not candidate.every_row_has(*NEEDED):
        return False
    return all(
        any(name in row for name in NAMES) and all(isinstance(row[name], list) for name in NEEDED)
        for row in candidate.rows
    )


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Lines of columns, one row a rollout: what has one id and one prompt in one step is a group."""
    files = distinct(files, sink)
    sink.groups_apart = True
    seen, where = peek(files), files[0].name
    weights = reward_weights("scores", (), sink, where)
    named = asked(sink, seen, where)
    names = [name for name in NAMES if name in seen]
    fields = dict.fromkeys((*OWN, *names, *(["responses"] if sink.details else []), *named.values()), Any)
    prefixes = runs_of(files, sink)
    for file in files:
        for batch in _steps(file, fields, names, sink):
            keys = [batch.fields[name] for name in names]
            own: dict[str, Sequence[Any]] = {
                "prompt": keys[-1],
                "group": [prefixes[file.name] + " ".join(map(str, key)) for key in zip(*keys, strict=True)],
                "step": batch.fields["global_step"],
                "reward": rewards(batch, weights),
                "temperature": _temperatures(batch.fields["sampling_params"]),
                "stratum": [
                    text_of(domain if domain is not None else tag)
                    for domain, tag in zip(batch.fields["domain"], batch.fields["tag"], strict=True)
                ],
                "domain": batch.fields["domain"],
                "tag": batch.fields["tag"],
            }
            if sink.details:
                own[TEXT] = batch.fields["responses"]
            add(sink, batch, own, named, reward_name(weights))
    note_unequal_groups(sink)
    judge(sink, FILTER)


def _steps(file: InputFile, fields: Mapping[str, Any], names: Sequence[str], sink: RolloutSink) -> Iterator[Batch]:
    """Each line as a batch with one row a rollout; a column that is not there holds nothing."""
    for found in batches(file, fields, sink):
        lines = usable(found, sink, partial(_fault, found.fields, names))
        for line in range(lines.size):
            size = len(lines.fields["scores"][line])
            columns = {name: _column(values[line], size) for name, values in lines.fields.items()}
            yield Batch(file=file, fields=columns, size=size, place=partial(_place, lines, line))


def _fault(fields: Mapping[str, Sequence[Any]], names: Sequence[str], i: int) -> str | None:
    scores = fields["scores"][i]
    if not isinstance(scores, list):
        return f"scores must be a list of rewards; got {shown([scores])}"
    for name in names:
        if not isinstance(fields[name][i], list):
            return f"{name} must be a list with one item a rollout; got {shown([fields[name][i]])}"
    for name, values in fields.items():
        if isinstance(values[i], list) and len(values[i]) != len(scores):
            return f"{name} holds {len(values[i]):,} items for {len(scores):,} scores"
    return None


def _column(value: object, size: int) -> list[Any]:
    return value if isinstance(value, list) else [value] * size


def _place(lines: Batch, line: int, i: int) -> str:
    return f"{lines.place(line)}, item {i + 1:,}"


def _temperatures(parameters: Sequence[Any]) -> list[float | None]:
    """Temperatures from sampling parameters, which are objects or JSON texts of them."""
    known: dict[str, float | None] = {}
    out = []
    for value in parameters:
        key = str(value)
        if key not in known:
            known[key] = _temperature(value)
        out.append(known[key])
    return out


def _temperature(value: object) -> float | None:
    if isinstance(value, str):
        value = json_text(value)
    if not isinstance(value, Mapping):
        return None
    inner = value.get("generation_config")
    return number_of((inner if isinstance(inner, Mapping) else value).get("temperature"))


FORMATS = (
    Format(
        name="roll",
        tool="ROLL",
        files="<rollout_dump_dir>/rollout_dump_data.step_<N>.jsonl",
        reads="scores by id and prompt, one line of columns a step; domain (else tag) as stratum; temperature",
        evidence=Evidence.SOURCE,
        versions="of August 2026",
        limits=(
            "whether query_filter_config dropped dead groups is not in the file: it is told from the rows",
            "a mean_filter may drop mixed groups too, which the rows do not show",
            "truncation and model are not in the file",
            "a line is one step and is held in memory as a whole, up to 256 MB",
        ),
        looks_like=_is_dump,
        pilot=_read,
    ),
)
