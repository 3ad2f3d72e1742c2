"""What TRL and its family say of a run beside its rollouts: reward functions, evaluations, settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._rows import document
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.values import number_of, whole_of

CONFIGS = ("run_config.json", "training_args.json", "grpo_config.json", "args.json")
REWARD_KEY = re.compile(r"^(?:train/)?rewards/(.+)/mean$")
YAML_VALUE = re.compile(r"^(\w+):\s*\n(?:\s+desc:.*\n)?\s+value:\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of one run.

    Attributes:
        rewards: Names of its reward functions, in their order; empty if unknown.
        evaluated: Step of each evaluation to the prompts that it used, None where that is not logged.
        generated: Steps whose log tells of new rollouts, to the step of the log of training before.
        last_step: The log goes up to this step; None if there is no log.
        config: Settings by name.
        log: Name of the log, or None.
        config_file: Name of the file of settings, or None.
    """

    rewards: tuple[str, ...] = ()
    evaluated: Mapping[int, int | None] = field(default_factory=dict)
    generated: Mapping[int, int] = field(default_factory=dict)
    last_step: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    log: str | None = None
    config_file: str | None = None

    def whole(self, name: str) -> int | None:
        """A setting that is a whole number of at least 1, else None."""
        number = number_of(self.config.get(name))
        return int(number) if number is not None and number >= 1 and number == int(number) else None

    def new_since(self, step: int | None, earlier: int | None) -> bool:
        """Whether the log says that rollouts were generated at this step or shortly before, but after the other."""
        if step is None or earlier is None or step not in self.generated:
            return False
        return earlier <= self.generated[step]

    def covers(self, step: int | None) -> bool:
        """Whether the log goes up to this step."""
        return step is not None and self.last_step is not None and step <= self.last_step


def facts_of(root: Path | None, sink: RolloutSink) -> RunFacts:
    """What the folder of a run says: ``trainer_state.json`` (also of the last checkpoint), ``logging.jsonl``, settings.

    A file that cannot be read is said in a note, and taken as not there.
    """
    if root is None:
        return RunFacts()
    config, config_file = _config(root, sink)
    log, history = _history(root, sink)
    rewards = [m[1] for entry in history for key in entry if (m := REWARD_KEY.match(key))]
    if not rewards:
        rewards = [m[1] for key in _summary(root, sink) if (m := REWARD_KEY.match(key))]
    evaluated: dict[int, int | None] = {}
    generated: dict[int, int] = {}
    before, last = 0, None
    for entry in history:
        if (step := _step(entry)) is None:
            continue
        last = step if last is None else max(last, step)
        if any(key.startswith("eval_") for key in entry):
            evaluated[step] = _sum(evaluated.get(step, 0), _prompts_evaluated(entry))
        elif any(REWARD_KEY.match(key) for key in entry):
            generated[step], before = before, step
        elif "loss" in entry:
            before = step
    return RunFacts(
        rewards=tuple(dict.fromkeys(rewards)),
        evaluated=evaluated,
        generated=generated,
        last_step=last,
        config=config,
        log=log,
        config_file=config_file,
    )


def _read(path: Path, sink: RolloutSink) -> Any:
    """One JSON document; None, with a note, if it cannot be read."""
    if not path.is_file():
        return None
    try:
        return document(InputFile(name=str(path), path=path))
    except PilotFormatError as error:
        sink.note(f"{error} It was not used.")
        return None


def _history(root: Path, sink: RolloutSink) -> tuple[str | None, Sequence[Mapping[str, Any]]]:
    """Rows of the newest log, and its name; settings that a trainer state repeats stay in it."""
    found: list[tuple[float, str, list[Any]]] = []
    checkpoints = [p for p in root.glob("checkpoint-*/trainer_state.json") if _number(p.parent.name) is not None]
    newest = sorted(checkpoints, key=lambda p: _number(p.parent.name) or 0)[-1:]
    for path in (root / "trainer_state.json", *newest):
        state = _read(path, sink)
        if isinstance(state, dict) and isinstance(state.get("log_history"), list):
            name = "trainer_state.json" if path.parent == root else f"{path.parent.name}/trainer_state.json"
            found.append((number_of(state.get("global_step")) or 0.0, name, state["log_history"]))
    if (root / "logging.jsonl").is_file():
        lines = _lines(root / "logging.jsonl")
        last = max((step for row in lines if isinstance(row, dict) and (step := _step(row)) is not None), default=0)
        found.append((float(last), "logging.jsonl", lines))
    if not found:
        return None, []
    _, name, rows = max(found, key=lambda item: item[0])
    return name, [row for row in rows if isinstance(row, dict)]


def _lines(path: Path) -> list[Any]:
    """Lines of a log; one cut off while being written is left out."""
    import json

    rows = []
    try:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                continue
    except OSError:
        return []
    return rows


def _number(name: str) -> int | None:
    return whole_of(name.rpartition("-")[2])


def _step(entry: Mapping[str, Any]) -> int | None:
    """Step of a row: a number, or ``5/100`` as ms-swift writes it."""
    value = entry.get("step")
    if value is None:
        value = str(entry.get("global_step/max_steps", "")).partition("/")[0] or None
    number = number_of(value)
    return None if number is None else int(number)


def _prompts_evaluated(entry: Mapping[str, Any]) -> int | None:
    """Prompts of an evaluation: its time times its speed; None if the rounding of these leaves it open."""
    time, speed = number_of(entry.get("eval_runtime")), number_of(entry.get("eval_samples_per_second"))
    if time is None or speed is None:
        return None
    prompts = time * speed
    slack = 0.0006 * time + 0.0001 * speed  # runtime has four digits after the point, the speed three
    whole = round(prompts)
    return whole if whole > 0 and abs(prompts - whole) <= slack < 0.5 else None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _config(root: Path, sink: RolloutSink) -> tuple[Mapping[str, Any], str | None]:
    for name in CONFIGS:
        settings = _read(root / name, sink)
        if isinstance(settings, dict) and ("num_generations" in settings or "per_device_train_batch_size" in settings):
            return settings, name
    yaml = root / "config.yaml"  # of W&B: "name:" and below it "value: ..."
    try:
        text = yaml.read_text(encoding="utf-8", errors="replace") if yaml.is_file() else ""
    except OSError:
        text = ""
    settings = {name: _plain(value) for name, value in YAML_VALUE.findall(text)}
    return (settings, yaml.name) if "num_generations" in settings else ({}, None)


def _plain(text: str) -> object:
    words: dict[str, object] = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    number = number_of(text)
    return text.strip("\"'") if number is None or not math.isfinite(number) else number


def _summary(root: Path, sink: RolloutSink) -> Sequence[str]:
    found = _read(root / "wandb-summary.json", sink)
    return list(found) if isinstance(found, dict) else []
