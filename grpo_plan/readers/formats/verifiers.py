"""verifiers 1 (episodes of traces), as vf-eval and prime-rl write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._rows import chosen_reward, json_rows, summed
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import number_of, shown, text_of

TRUNCATED = frozenset({"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"})
PLAIN_AGENT = "agent"  # the name of the only agent of an ordinary environment
STEP = re.compile(r"(?:^|/)step_(\d+)(?:/|$)")


class _Call(msgspec.Struct, gc=False):
    finish_reason: Any = None
    error: Any = None


class _Trace(msgspec.Struct):
    rewards: dict[str, Any] | None = None
    ok: Any = True
    stop_condition: Any = None
    agent: Any = None
    calls: list[_Call] | None = None
    num_output_tokens: Any = None


class _Node(msgspec.Struct):
    sampled: Any = None
    message: Any = None


class _ToldTrace(_Trace):
    """A trace with its messages, which only the groups need."""

    nodes: msgspec.Raw = msgspec.Raw(b"")


class _Row(_Trace):
    """An episode, or (with no ``traces``) a trace that stands alone."""

    id: Any = None
    env: Any = None
    task: Any = None
    group: Any = None
    run: Any = None
    info: Any = None
    traces: list[_Trace] | msgspec.UnsetType | None = msgspec.UNSET


class _ToldRow(_Row):
    nodes: msgspec.Raw = msgspec.Raw(b"")
    traces: list[_ToldTrace] | msgspec.UnsetType | None = msgspec.UNSET  # type: ignore[assignment]


def _looks(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has("id", "task"):
        return False
    return all(_is_episode(row) or _is_trace(row) for row in candidate.rows)


def _is_episode(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("traces"), list) and "ok" in row and "env" in row and isinstance(row["task"], dict)


def _is_trace(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("rewards"), dict) and "nodes" in row and "agent" in row and isinstance(row["task"], dict)


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What is kept between batches."""

    sink: RolloutSink
    seen: set[str] = field(default_factory=set)
    weights: Mapping[str, float] | None = None
    names: dict[str, None] = field(default_factory=dict)
    rollouts: int = 0
    truncated: int = 0
    partly: int = 0
    lacking: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    other_agents: int = 0
    without_step: bool = False


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Episodes of all files; of prime-rl's two streams the complete one."""
    reading = _Reading(sink=sink)
    for file in _complete_streams(files, sink):
        path = str(file.path or file.name).replace("\\", "/")
        found = STEP.search(path)
        place = {"step": None if found is None else int(found.group(1)), "split": _split_of_path(path)}
        for batch in json_rows(file, _ToldRow if sink.details else _Row, sink):
            _choose(batch.rows, reading, file.name)
            rows = list(_rollouts(batch.rows, reading, place, batch.place))
            if rows:
                columns = {name: [row[name] for row in rows] for name in rows[0] if name != "at"}
                if all(v is None for v in columns["split"]):
                    del columns["split"]  # an evaluation of its own
                if all(v is None for v in columns["step"]):
                    del columns["step"]
                name = "reward" if reading.weights else _sum_name(reading.names)
                sink.add(columns, lambda i, b=batch, r=rows: b.place(r[i]["at"]), reward_name=name)  # type: ignore[misc]
    _tell(reading)


def _complete_streams(files: Sequence[InputFile], sink: RolloutSink) -> list[InputFile]:
    """Files to read: ``effective/`` is a part of the ``all/`` beside it, and alone a filtered source."""
    runs = {file.path.parent.parent for file in files if file.path is not None and file.path.parent.name == "all"}
    kept, left, alone = [], 0, []
    for file in files:
        if file.path is None or file.path.parent.name != "effective":
            kept.append(file)
        elif file.path.parent.parent in runs:
            left += 1
        else:
            kept.append(file)
            alone.append(file.path)
    if left:
        files_left = f"{left:,} file{'s' * (left > 1)}"
        sink.note(f"{files_left} in effective/ left out: the all/ beside holds the same rollouts, and the others.")
        sink.files -= left
    if alone:
        sink.filtered = "effective/ holds only what was trained on: groups without advantage may have been dropped"
        beside = next((p.parent.parent / "all" for p in alone if (p.parent.parent / "all").is_dir()), None)
        if beside is not None:
            sink.note(f"{beside} holds every rollout: read that instead.")
    return kept


def _split_of_path(path: str) -> str | None:
    parts = path.split("/")
    if len(parts) >= 3 and parts[-2] in ("all", "effective") and parts[-3] in ("train", "eval"):
        return parts[-3]
    if STEP.search(path):
        return "eval" if parts[-1].startswith("eval_") else "train"
    return None


def _choose(rows: Sequence[_Row], reading: _Reading, where: str) -> None:
    """What to count by, where the user named it, from the rewards of all rows."""
    request = reading.sink.request
    if reading.weights is not None or (request.given.get("reward") is None and not request.reward_weights):
        return
    traces = (trace for row in rows for trace in (row.traces or [row] if row.traces is not msgspec.UNSET else [row]))
    names = dict.fromkeys(name for trace in traces for name in trace.rewards or {})
    if names:
        reading.weights = chosen_reward(list(names), reading.sink, where)


def _rollouts(
    rows: Sequence[_Row], reading: _Reading, place: Mapping[str, Any], line: Callable[[int], str]
) -> Iterator[dict[str, Any]]:
    """One row a rollout of a trained agent."""
    for at, row in enumerate(rows):
        identity = text_of(row.id)
        if identity is not None:
            if identity in reading.seen:
                reading.sink.drop("duplicate_episodes")
                continue
            reading.seen.add(identity)
        alone = row.traces is msgspec.UNSET
        traces: Sequence[_Trace] = [row] if alone else row.traces or []
        common = _common(row, place)
        if not traces:  # the episode failed before any agent answered: a rollout without a score
            reading.failed += 1
            reading.rollouts += 1
            yield {**common, **_of_agent(_Trace(), common), "reward": None, "at": at, TEXT: None, CUT: False}
        for trace in traces:
            if _get(trace.agent, "trainable") is False:
                reading.other_agents += 1
                continue
            reading.rollouts += 1
            cut = _is_cut(trace)
            reading.truncated += cut
            failed = trace.ok is False or row.ok is False
            reading.failed += failed
            reward = None if failed else _reward(trace, reading, partial(line, at))
            told = trace.calls is not None or isinstance(trace.stop_condition, str)
            rest = {"reward": reward, "truncated": cut, "at": at, TEXT: _response(trace), CUT: cut if told else None}
            yield {**common, **_of_agent(trace, common), **rest}


def _common(row: _Row, place: Mapping[str, Any]) -> dict[str, Any]:
    work, stamp = _get(row.run, "work"), _get(row.info, "prime_rl")
    kind = _get(work, "type")
    key = _get(row.task, "key") or _get(row.task, "hash") or _get(row.task, "data")
    group = _get(row.group, "id")
    run = _get(row.run, "id") or ""
    return {
        "prompt": key,
        "group": f"{run} {text_of(key)}" if group is None else text_of(group),
        "step": place["step"] if _get(work, "step") is None else _get(work, "step"),
        "split": kind if kind in ("train", "eval") else place["split"],
        "stratum": _get(row.env, "name") or _get(row.env, "id") or _get(stamp, "env_name"),
        "truncated": False,
    }


def _of_agent(trace: _Trace, common: Mapping[str, Any]) -> dict[str, Any]:
    """What depends on the agent: several agents of one task are prompts and groups of their own."""
    config, name = _get(trace.agent, "config"), _get(trace.agent, "name") or PLAIN_AGENT
    out = {
        "policy": _get(config, "model"),
        "temperature": _get(_get(config, "sampling"), "temperature"),
        "response_tokens": trace.num_output_tokens,
        "agent": name,
        "stop_condition": trace.stop_condition,
    }
    if name != PLAIN_AGENT:
        out |= {"prompt": f"{text_of(common['prompt'])} ({name})", "group": f"{common['group']} ({name})"}
    return out


def _reward(trace: _Trace, reading: _Reading, line: Callable[[], str]) -> float | None:
    """Reward of a trace: the sum of score times weight over what is there, or what the user chose; None if nothing."""
    rewards = trace.rewards or {}
    scores = {name: value.get("score") if isinstance(value, dict) else value for name, value in rewards.items()}
    reading.names |= dict.fromkeys(rewards)
    request = reading.sink.request
    if reading.weights is None and (request.given.get("reward") is not None or request.reward_weights) and scores:
        reading.weights = chosen_reward(list(scores), reading.sink, "verifiers")
    weights: Mapping[str, float] = reading.weights or {
        name: _weight(name, value, line) for name, value in rewards.items()
    }
    if reading.weights is not None and scores and not scores.keys() & weights.keys():
        here = ", ".join(scores)
        reading.lacking[here] = reading.lacking.get(here, 0) + 1
    if any(scores.get(name) is None for name in weights) and any(scores.get(name) is not None for name in weights):
        reading.partly += 1
    return summed(scores, weights, line)


def _weight(name: str, reward: Any, line: Callable[[], str]) -> float:
    """Weight of a reward: 1 where it has none."""
    weight = reward.get("weight", 1.0) if isinstance(reward, dict) else 1.0
    number = number_of(weight) if isinstance(weight, int | float) and not isinstance(weight, bool) else None
    if number is None:
        raise PilotFormatError(
            f"{line()}: the weight of {name} is {shown([weight])}, no number. Take one reward with --reward-column."
        )
    return number


def _is_cut(trace: _Trace) -> bool:
    calls = [call for call in trace.calls or [] if not call.error]
    stopped = trace.stop_condition
    return (isinstance(stopped, str) and stopped in TRUNCATED) or bool(calls and calls[-1].finish_reason == "length")


def _response(trace: _Trace) -> Sequence[Any] | None:
    """The messages that the policy wrote; None where the row does not hold them or was read without."""
    raw = getattr(trace, "nodes", b"")
    try:
        nodes: list[_Node] = msgspec.json.decode(raw, type=list[_Node])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return [node.message for node in nodes if node.sampled]


def _sum_name(names: Mapping[str, None]) -> str:
    if len(names) < 2:
        return "reward"
    return f"reward (the weighted sum of {', '.join(names)}; take one of them with --reward-column)"


def _tell(reading: _Reading) -> None:
    note = reading.sink.note
    if reading.weights is None and len(reading.names) > 1:
        note(
            f"reward is the weighted sum of {', '.join(reading.names)}, as the trainer takes it; count one of them "
            "with --reward-column."
        )
    if reading.failed:
        note(f"{reading.failed:,} of {reading.rollouts:,} rollouts failed (ok is false): they count as not scored.")
    if reading.partly:
        note(f"{reading.partly:,} rollouts lack one of the rewards: the others were summed.")
    for names, count in reading.lacking.items():
        note(
            f"{count:,} rollouts do not have the reward {' or '.join(reading.weights or ())} (they have {names}): they "
            "count as not scored. Keep one environment with --where stratum=NAME, or leave the choice to the sum."
        )
    if reading.truncated:
        note(f"{reading.truncated:,} of {reading.rollouts:,} rollouts were cut off by a limit; they count as scored.")
    if reading.other_agents:
        note(f"{reading.other_agents:,} traces are of agents that are not trained and were left out.")


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


FORMATS = (
    Format(
        name="verifiers",
        tool="verifiers 1 (vf-eval) and prime-rl 0.7 or later",
        files="rollouts/step_<N>/{train,eval}/{all,effective}/traces.jsonl (prime-rl), outputs/<run>/traces.jsonl",
        reads="sum of score times weight (or one reward), task key, group, environment, step, model, truncation",
        evidence=Evidence.RAN,
        versions="verifiers 0.4.0; prime-rl 0.7 to 0.8 (layout read in source)",
        limits=(
            "vf-eval writes no group: the rollouts of a task in one run are taken as one",
            "effective/ alone holds only what was trained on",
            "the reward is the trainer's sum; whether it stands for a pass is for --pass-threshold or --reward-column",
        ),
        looks_like=_looks,
        pilot=_read,
    ),
)
