"""slime: rollout data saved by torch. Only plain data are loaded: a file that needs more is refused, never executed."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from grpo_plan.errors import MissingExtraError, PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
    add,
    asked,
    distinct,
    labelled,
    many,
    not_whole,
    note_cut_off,
    reward_name,
    reward_weights,
    rewards,
    runs_of,
    usable,
)
from grpo_plan.readers.formats._rows import chosen_reward
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import shown, text_of

MARKS = (b"rollout_id", b"samples", b"group_index", b"reward", b"response")
PEEK_BYTES = 1 << 20
NOT_FINISHED = ("pending", "aborted", "failed")
FILTER = "the dynamic sampling filter (--dynamic-sampling-filter-path)"


def _is_dump(candidate: Candidate) -> bool:
    """By the texts of its pickle, which is not loaded."""
    pickles = [name for name in candidate.columns if name.endswith("/data.pkl")]
    if candidate.kind != "torch" or len(pickles) != 1 or candidate.file.path is None:
        return False
    import zipfile

    try:
        with zipfile.ZipFile(candidate.file.path) as archive, archive.open(pickles[0]) as member:
            head = member.read(PEEK_BYTES)
    except Exception:  # on a damaged archive its reader raises what it likes
        return False
    return all(mark in head for mark in MARKS)


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Samples by group_index; those that were not finished are dropped and counted."""
    files = distinct(files, sink)
    sink.groups_apart = True
    splits = {f.name: "eval" if os.path.basename(f.name).startswith("eval_") else "train" for f in files}
    label, prefixes = labelled(splits.values(), sink), runs_of(files, sink)
    cut = removed = 0
    for file in files:
        step, samples = _load(file)
        keys = dict.fromkeys(key for sample in samples[:50] for key in sample)
        named = asked(sink, keys, file.name)
        columns = dict.fromkeys(
            (*keys, "group_index", "prompt", "reward", "status", "remove_sample", "response_length", "response")
        )
        fields = {name: [sample.get(name) for sample in samples] for name in columns}
        whole = Batch(file=file, fields=fields, size=len(samples), place=partial(_place, file))
        sound = usable(whole, sink, partial(_fault, fields))
        batch = sound.only([i for i, s in enumerate(sound.fields["status"]) if s not in NOT_FINISHED])
        for status in NOT_FINISHED:
            sink.drop(f"{status}_rollouts", sound.fields["status"].count(status))
        stopped = [status == "truncated" for status in batch.fields["status"]]
        cut += sum(stopped)
        removed += sum(isinstance(r, int) and bool(r) for r in batch.fields["remove_sample"])
        weights, batch = _with_rewards(batch, sink)
        prompts = [text_of(prompt) for prompt in batch.fields["prompt"]]
        own: dict[str, Sequence[Any]] = {
            "prompt": prompts,
            "group": [f"{prefixes[file.name]}{group}" for group in _groups(batch, prompts, sink)],
            "reward": rewards(batch, weights),
            "response_tokens": batch.fields["response_length"],
            "truncated": stopped,
        }
        if sink.details:
            own[TEXT] = batch.fields["response"]
            own[CUT] = [None if s is None else s == "truncated" for s in batch.fields["status"]]
        if step is not None:
            own["step"] = [step] * batch.size
        if label:
            own["split"] = [splits[file.name]] * batch.size
        add(sink, batch, own, named, reward_name(weights))
    if removed:
        sink.note(f"{many(removed)} kept from training (remove_sample), and counted, since rewards say how they went.")
    note_cut_off(sink, cut)
    judge(sink, FILTER)


def _place(file: InputFile, i: int) -> str:
    return f"{file.name}: sample {i}"


def _fault(fields: Mapping[str, Sequence[Any]], i: int) -> str | None:
    group, prompt, reward = (fields[name][i] for name in ("group_index", "prompt", "reward"))
    if group is not None and (why := not_whole("group_index", group)):
        return why
    if not isinstance(prompt, str | list | dict | None):
        return f"prompt must be a text or messages; got {shown([prompt])}"
    if not isinstance(reward, int | float | dict | None):
        return f"reward must be a number, an object of numbers or nothing; got {shown([reward])}"
    if not isinstance(fields["status"][i], str | None):
        return f"status must be a word; got {shown([fields['status'][i]])}"
    return None


def _groups(batch: Batch, prompts: Sequence[str | None], sink: RolloutSink) -> list[str]:
    """Names of groups: their index, or the prompt where a sample has none, as in evaluation."""
    indices = batch.fields["group_index"]
    if None in indices:
        sink.note("samples without group_index are grouped by their prompt.")
    return [f"prompt {p}" if index is None else str(index) for index, p in zip(indices, prompts, strict=True)]


def _with_rewards(batch: Batch, sink: RolloutSink) -> tuple[Mapping[str, float], Batch]:
    """What to count by, and the batch with a column for each of it: a reward is a number or an object of numbers."""
    found = batch.fields["reward"]
    where = batch.file.name
    names = list(dict.fromkeys(name for reward in found if isinstance(reward, Mapping) for name in reward))
    if not names:
        return reward_weights("reward", (), sink, where), batch
    plain = next((i for i, reward in enumerate(found) if isinstance(reward, int | float)), None)
    if plain is not None:
        raise PilotFormatError(
            f"{batch.place(plain)}: reward is {shown([found[plain]])}, that of others an object ({', '.join(names)}). "
            "Are these samples of one run?"
        )
    weights = chosen_reward(names, sink, where)
    columns = {name: [None if r is None else r.get(name) for r in found] for name in weights}
    return weights, replace(batch, fields={**batch.fields, **columns})


def _load(file: InputFile) -> tuple[int | None, list[dict[str, Any]]]:
    """The step and the samples of a file, from plain data only.

    Raises:
        MissingExtraError: torch is not installed.
        PilotFormatError: The file is damaged, or would have to run code to be loaded.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{file.name}: slime saves its rollouts with torch, which is not installed. Install it: "
            "pip install 'grpo-plan[torch]'."
        ) from None
    try:
        _refuse_inflated(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = torch.load(file.path, map_location="cpu", weights_only=True)
    except PilotFormatError:
        raise
    except pickle.UnpicklingError as error:
        needs = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise PilotFormatError(
            f"{file.name}: holds more than plain data{f' ({needs[1]})' if needs else ''}. It is not loaded, since "
            "loading such a file can run any code in it. Write prompt, group_index and reward of its samples as JSONL."
        ) from None
    except Exception as error:  # a damaged pickle can make the loader fail in any way
        reason = str(error).partition("\n")[0][:80]
        raise PilotFormatError(f"{file.name}: cannot be loaded by torch ({reason}). Is it complete?") from None
    samples = data.get("samples") if isinstance(data, dict) else None
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise PilotFormatError(f"{file.name}: holds no list of samples. Is it rollout data of slime?")
    step = data.get("rollout_id")
    if step is not None and (why := not_whole("rollout_id", step)):
        raise PilotFormatError(f"{file.name}: {why}. Is it rollout data of slime?")
    return step, [{str(name): value for name, value in sample.items()} for sample in samples]


def _refuse_inflated(file: InputFile) -> None:
    """Refuse a file whose members are compressed: torch never does that, and a small one may inflate without limit."""
    import zipfile

    if file.path is None or not zipfile.is_zipfile(file.path):
        return  # what torch says of it
    with zipfile.ZipFile(file.path) as archive:
        if any(
            info.compress_type != zipfile.ZIP_STORED or info.file_size > info.compress_size
            for info in archive.infolist()
        ):
            raise PilotFormatError(
                f"{file.name}: holds compressed members, which torch does not write. It is not loaded."
            )


FORMATS = (
    Format(
        name="slime",
        tool="slime",
        files="<dump_details>/rollout_data/<rollout id>.pt, eval_<rollout id>.pt",
        reads="reward (a number, or one of several by --reward-column) by group_index, prompt, length, status",
        evidence=Evidence.SOURCE,
        versions="0.3.1",
        limits=(
            "groups that the dynamic sampling filter drops are counted in slime's log, not saved: told from the rows",
            "files that hold more than plain data are refused",
            "evaluation is told by the name of the file",
        ),
        extra="torch",
        looks_like=_is_dump,
        pilot=_read,
    ),
)
