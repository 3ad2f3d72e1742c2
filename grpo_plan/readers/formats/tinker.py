"""tinker-cookbook: summaries of rollouts, one file an iteration and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import (
    Batch,
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
from grpo_plan.readers.formats._rows import document
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import number_of, shown

OWN = ("split", "iteration", "group_idx", "total_reward", "steps")
FILTER = "remove_constant_reward_groups"
SUFFIX = "_rollout_summaries"


def _is_dump(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has(*OWN, "schema_version", "traj_idx"):
        return False
    return all(isinstance(row["steps"], list) and isinstance(row["split"], str) for row in candidate.rows)


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows by iteration and group_idx. No row names its prompt: it is known to its group only."""
    files = distinct(files, sink)
    seen, where = peek(files), files[0].name
    metrics = _metrics(seen)
    weights = reward_weights("total_reward", [*metrics, "final_reward"], sink, where)
    named = asked(sink, seen, where)
    fields = dict.fromkeys((*OWN, "final_reward", "tags", *named.values()), Any)
    label, prefixes = labelled(_splits(files), sink), runs_of(files, sink, up=2)
    configs = {prefix: _config(file) for prefix, file in ((prefixes[f.name], f) for f in reversed(files))}
    sink.groups_apart = any(config.get(FILTER) is not False for config in configs.values())  # else all are there
    sink.note("rows name no prompt: each group is one, and prompts do not join across iterations.")
    for file in files:
        prefix, config = prefixes[file.name], configs[prefixes[file.name]]
        for found in batches(file, fields, sink):
            sound = usable(found, sink, partial(_fault, found.fields))
            chosen = {name: _last(sound, name) for name in weights if name in metrics}
            batch = replace(sound, fields={**sound.fields, **chosen})
            groups = [f"{prefix}{group}" for group in _groups(batch, file)]
            own: dict[str, Sequence[Any]] = {
                "prompt": groups,
                "group": groups,
                "step": batch.fields["iteration"],
                "reward": rewards(batch, weights),
                "response_tokens": [_tokens(steps) for steps in batch.fields["steps"]],
                "stratum": [_tags(tags) for tags in batch.fields["tags"]],
            }
            if label:
                own["split"] = ["train" if split == "train" else "eval" for split in batch.fields["split"]]
            if label and request.split == "train" and number_of(config.get("temperature")) is not None:
                own["temperature"] = [config["temperature"]] * batch.size
            if isinstance(config.get("model_name"), str):
                own["policy"] = [config["model_name"]] * batch.size
            add(sink, batch, own, named, reward_name(weights))
    if sink.groups_apart:
        judge(sink, FILTER)


def _fault(fields: Mapping[str, Sequence[Any]], i: int) -> str | None:
    for name in ("iteration", "group_idx"):
        if why := not_whole(name, fields[name][i]):
            return why
    steps = fields["steps"][i]
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        return f"steps must be a list of objects; got {shown([steps])}"
    if not isinstance(fields["split"][i], str):
        return f"split must be a text; got {shown([fields['split'][i]])}"
    return None


def _metrics(seen: Mapping[str, Sequence[Any]]) -> list[str]:
    """Names of the metrics of steps whose values are numbers."""
    found: dict[str, bool] = {}
    for steps in seen.get("steps", ()):
        for step in steps if isinstance(steps, list) else ():
            metrics = step.get("metrics") if isinstance(step, Mapping) else None
            for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
                found[name] = found.get(name, True) and isinstance(value, int | float | None)
    return [name for name, numeric in found.items() if numeric]


def _last(batch: Batch, name: str) -> list[Any]:
    """A metric of each rollout: that of its last step that has one."""
    out = []
    for steps in batch.fields["steps"]:
        values = [m[name] for step in steps if isinstance(m := step.get("metrics"), Mapping) and name in m]
        out.append(values[-1] if values else None)
    return out


def _groups(batch: Batch, file: InputFile) -> list[str]:
    """Names of groups; each set of an evaluation counts its groups from 0, and the file is named for the set."""
    stem = Path(file.name).name.partition(SUFFIX)[0]
    return [
        f"{'' if split == 'train' else f'{stem} '}iteration {iteration} group {group}"
        for split, iteration, group in zip(
            *(batch.fields[name] for name in ("split", "iteration", "group_idx")), strict=True
        )
    ]


def _tokens(steps: Sequence[Mapping[str, Any]]) -> float | None:
    lengths = [number_of(step.get("ac_len")) for step in steps]
    return sum(n for n in lengths if n is not None) if lengths and None not in lengths else None


def _tags(tags: object) -> str | None:
    return ", ".join(map(str, tags)) or None if isinstance(tags, list) else None


def _splits(files: Sequence[InputFile]) -> Sequence[str]:
    """Splits of the files, up to the first of training."""
    out = []
    for file in files:
        try:
            rows = look(file).rows
        except PilotFormatError:
            continue
        out += [str(row.get("split")) for row in rows[:1]]
        if "train" in out:
            break
    return out


def _config(file: InputFile) -> Mapping[str, Any]:
    """The run's config.json, beside the folders of its iterations; empty without one."""
    path = None if file.path is None else file.path.absolute().parent.parent / "config.json"
    if path is None or not path.is_file():
        return {}
    try:
        config = document(InputFile(name=str(path), path=path))
    except PilotFormatError:
        return {}
    return config if isinstance(config, dict) else {}


FORMATS = (
    Format(
        name="tinker",
        tool="tinker-cookbook",
        files="<log_path>/iteration_<N>/train_rollout_summaries.jsonl, eval_<name>_rollout_summaries.jsonl",
        reads="total_reward, or a metric such as correct, by iteration and group_idx; tags as stratum; lengths; split; "
        "model and temperature from config.json",
        evidence=Evidence.RAN,
        versions="0.5.8 (own serialiser), 0.6.1 read in source",
        limits=(
            "no prompt is named, so prompts do not join across iterations",
            "rewards hold a format penalty in many recipes: choose --reward-column correct, or a pass threshold",
            "whether remove_constant_reward_groups was on is read in config.json, else told from the rows",
            "truncation is not in the file",
        ),
        looks_like=_is_dump,
        pilot=_read,
    ),
)
