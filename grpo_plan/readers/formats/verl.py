"""verl: rollout and validation dumps, of the trainer V1 (with uid) and of the older one (without)."""

from __future__ import annotations

import os
import re
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
    not_whole,
    note_unequal_groups,
    peek,
    reward_name,
    reward_weights,
    rewards,
    runs_of,
    usable,
)
from grpo_plan.readers.group_details import digests
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import shown

OWN = ("input", "output", "gts", "score", "step")
UID = re.compile(r"(.+)_([0-9]{1,15})_([0-9]{1,15})", re.DOTALL)  # prompt, session, index
VALIDATION = re.compile(r"(^|[^a-z])(val|valid|validation|eval|evaluation|test)([^a-z]|$)")
OUTPUT = "output"
FILTER = "algorithm.filter_groups"


def _is_dump(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has(*OWN):
        return False
    return all(isinstance(row["input"], str) and isinstance(row["step"], int) for row in candidate.rows)


def _is_v1(candidate: Candidate) -> bool:
    return _is_dump(candidate) and all(UID.fullmatch(str(row.get("uid"))) for row in candidate.rows)


def _is_legacy(candidate: Candidate) -> bool:
    return _is_dump(candidate) and not candidate.has("uid")


def _read_v1(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows of V1: padding is dropped, and of a session with several outputs the last one is kept."""
    _read(files, sink, v1=True)


def _read_legacy(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows without uid, in shuffled order: what has one input text in one step is a group."""
    _read(files, sink, v1=False)
    note_unequal_groups(sink)


def _read(files: Sequence[InputFile], sink: RolloutSink, *, v1: bool) -> None:
    sink.groups_apart = True
    files = distinct(files, sink)
    seen = peek(files)
    weights = reward_weights("score", _extra_rewards(seen), sink, files[0].name)
    named = asked(sink, seen, files[0].name)
    chosen = bool(sink.request.reward_weights) or sink.request.given.get("reward") is not None
    further = (*(["uid"] if v1 else []), *(["score"] if chosen else []), *([OUTPUT] if sink.details else []))
    fields = dict.fromkeys(("input", "step", *weights, *further, *named.values()), Any)
    hashed = sink.details and OUTPUT not in named.values()
    prefixes = runs_of(files, sink)
    splits = _splits(files, sink)
    for file in files:
        for batch in _last_outputs(file, fields, sink, hashed=hashed) if v1 else _sound(file, fields, sink):
            groups = [_prompt_of(u) for u in batch.fields["uid"]] if v1 else batch.fields["input"]
            prefix = prefixes[file.name]
            own = {
                "prompt": batch.fields["input"],
                "group": [prefix + group for group in groups] if prefix else groups,
                "reward": rewards(batch, weights),
                "step": batch.fields["step"],
            }
            if sink.details:
                own[TEXT] = batch.fields[OUTPUT]
            if chosen:
                own["full_reward"] = batch.fields["score"]
            if file.name in splits:
                own["split"] = [splits[file.name]] * batch.size
            add(sink, batch, own, named, reward_name(weights))
    judge(sink, FILTER)


def _extra_rewards(seen: Mapping[str, Sequence[Any]]) -> list[str]:
    """Fields beside verl's own whose values are numbers or truth values: what the reward function returned."""
    others = {k: v for k, v in seen.items() if k not in (*OWN, "uid", "request_id")}
    return [name for name, values in others.items() if values and all(isinstance(v, int | float) for v in values)]


def _prompt_of(uid: str) -> str:
    return uid.rsplit("_", 2)[0]


def _sound(file: InputFile, fields: Mapping[str, Any], sink: RolloutSink) -> Iterator[Batch]:
    """Batches of rows that have what every row must have."""
    for batch in batches(file, fields, sink):
        found = batch.fields
        plain = set(map(type, found["input"])) <= {str} and set(map(type, found["step"])) <= {int}
        plain = plain and not any(not_whole("step", step) for step in set(found["step"]))
        if plain and all(isinstance(uid, str) and UID.fullmatch(uid) for uid in found.get("uid", ())):
            yield batch
        else:
            yield usable(batch, sink, partial(_fault, found))


def _fault(fields: Mapping[str, Sequence[Any]], i: int) -> str | None:
    text, step = fields["input"][i], fields["step"][i]
    if not isinstance(text, str):
        return f"input must be a text; got {shown([text])}"
    uid = fields["uid"][i] if "uid" in fields else None
    if "uid" in fields and not (isinstance(uid, str) and UID.fullmatch(uid)):
        return f"uid must be prompt_session_index; got {shown([uid])}"
    return not_whole("step", step)


def _last_outputs(file: InputFile, fields: Mapping[str, Any], sink: RolloutSink, *, hashed: bool) -> Iterator[Batch]:
    """A file without padding, repeated rows and all outputs of a session but the last.

    The rows of one step are held at once, equal prompts only once, and outputs as hashes where they are ``hashed``.
    """
    texts: dict[str, str] = {}
    columns: dict[str, list[Any]] = {name: [] for name in fields}
    for found in _sound(file, fields, sink):
        batch = found.only([i for i, uid in enumerate(found.fields["uid"]) if not uid.startswith("pad")])
        sink.drop("padding_rows", found.size - batch.size)
        for name, given in batch.fields.items():
            values = digests(given).to_list() if hashed and name == OUTPUT else given
            columns[name] += [texts.setdefault(text, text) for text in values] if name == "input" else values
    last: dict[str, tuple[int, int]] = {}  # session to index and row of its last output
    for i, uid in enumerate(columns["uid"]):
        session, _, number = uid.rpartition("_")
        index, before = int(number), last.get(session)
        if before is not None:
            sink.drop("repeated_rows" if before[0] == index else "earlier_outputs_of_a_session")
        if before is None or before[0] < index:
            last[session] = (index, i)
    uids = columns["uid"]
    whole = Batch(file=file, fields=columns, size=len(uids), place=partial(_uid_place, file.name, uids))
    yield whole.only(sorted(i for _, i in last.values()))


def _uid_place(name: str, uids: Sequence[str], i: int) -> str:
    """Place of a row that is held: naming its line would keep the text of the file."""
    return f"{name}: uid {uids[i]}"


def _splits(files: Sequence[InputFile], sink: RolloutSink) -> dict[str, str]:
    """File to its split, where some folders are named for validation and some are not."""
    folders = {f.name: f.path.absolute().parent for f in files if f.path is not None}
    if len(set(folders.values())) < 2:
        return {}
    common = os.path.commonpath(set(folders.values()))
    names = {file: os.path.relpath(folder, common).lower() for file, folder in folders.items()}
    splits = {file: "eval" if VALIDATION.search(name) else "train" for file, name in names.items()}
    if len(set(splits.values())) < 2:
        return {}
    validation = sorted({names[file] for file, split in splits.items() if split == "eval"})
    sink.note(f"rows in {shown(validation)} are those of validation, by the name of the folder; --split chooses.")
    return splits


LIMITS = (
    "truncation, temperature and model are not in the file",
    "whether filter_groups dropped dead groups is not in the file: it is told from the rows",
    "training and validation dumps look alike: they are told apart by the names of their folders",
)
FORMATS = (
    Format(
        name="verl-v1",
        tool="verl, trainer V1",
        files="<rollout_data_dir>/<step>.jsonl, <validation_data_dir>/<step>.jsonl",
        reads="score (or a number that the reward function returned) by uid (prompt, session, index), step",
        evidence=Evidence.SOURCE,
        versions="0.9.0 to 0.9.1",
        limits=LIMITS,
        looks_like=_is_v1,
        pilot=_read_v1,
    ),
    Format(
        name="verl-legacy",
        tool="verl before 0.9, or with use_v1: false",
        files="<rollout_data_dir>/<step>.jsonl, <validation_data_dir>/<step>.jsonl",
        reads="score (or acc, or another number that the reward function returned) by input text and step",
        evidence=Evidence.SOURCE,
        versions="0.5 to 0.8",
        limits=(*LIMITS, "a prompt that is drawn twice in a step gives one group of twice the size"),
        looks_like=_is_legacy,
        pilot=_read_legacy,
    ),
)
