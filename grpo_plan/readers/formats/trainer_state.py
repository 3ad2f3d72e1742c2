"""HF Trainer: trainer_state.json of TRL and of what is built on it (Unsloth, Axolotl, ms-swift)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._rows import document
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import PART_OF_TOTAL, RunBuilder, as_step, flat
from grpo_plan.readers.run_config import settings_beside
from grpo_plan.readers.run_rows import chosen_runs, place_of, run_names
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.run_log import RunLog


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    file: InputFile
    history: list[Any]
    step: int


def _is_state(candidate: Candidate) -> bool:
    if candidate.kind not in ("json", "jsonl") or len(candidate.rows) != 1:
        return False
    row = candidate.rows[0]
    return "global_step" in row and isinstance(row.get("log_history"), list)


def _read(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    """The latest checkpoint of the run: its history holds that of the earlier ones."""
    folders: dict[Path, list[InputFile]] = {}
    for file in files:
        folders.setdefault(_run_folder(file), []).append(file)
    runs = dict(zip(run_names(list(folders)), folders.values(), strict=True))
    chosen = chosen_runs(runs, request, place_of(files))
    builder = RunBuilder()
    read: list[InputFile] = []
    swift = False
    for _, held in chosen:
        state = _latest(held)
        read.append(state.file)
        if len(held) > 1:
            builder.note(f"{state.file.name} was read, the latest of {len(held):,} checkpoints (step {state.step:,}).")
        for item in state.history:
            if isinstance(item, dict):
                builder.add(dict(flat(item)), item.get("step"))
                swift |= PART_OF_TOTAL in item
            else:
                builder.dropped["rows_that_are_no_objects"] += 1
    builder.config.update(settings_beside(read, builder))
    tool = "ms-swift" if swift or "dynamic_sample" in builder.config else None
    return builder.run_log(format="trainer-state", source=place_of(read), tool=tool)


def _run_folder(file: InputFile) -> Path:
    folder = (file.path or Path(file.name)).parent
    return folder.parent if folder.name.startswith("checkpoint-") else folder


def _latest(files: Sequence[InputFile]) -> _State:
    """The state that got furthest; of several, the one written last."""
    states, errors = [], []
    for file in files:
        try:
            states.append(_state(file))
        except PilotFormatError as error:  # a checkpoint that was being written when the run was stopped
            errors.append(error)
    if not states:
        raise errors[0]
    return max(states, key=lambda s: (s.step, 0.0 if s.file.path is None else s.file.path.stat().st_mtime))


def _state(file: InputFile) -> _State:
    found = document(file)
    history = found.get("log_history") if isinstance(found, dict) else None
    if not isinstance(history, list):
        raise PilotFormatError(f"{file.name}: holds no list log_history. Give the trainer_state.json of a checkpoint.")
    return _State(file=file, history=history, step=as_step(found.get("global_step")) or 0)


FORMATS = (
    Format(
        name="trainer-state",
        tool="TRL and what is built on it: Unsloth, Axolotl, ms-swift",
        files="<output_dir>/checkpoint-*/trainer_state.json",
        reads="all metrics by step, evaluations apart; the latest checkpoint of a folder",
        evidence=Evidence.RAN,
        versions="TRL 1.16.0 (written); real logs of TRL before 0.18; 0.14 to 1.16 (read in source)",
        limits=(
            "metrics are means over the logging window, and absent at steps that reuse rollouts",
            "frac_reward_zero_std is a flag of the whole batch with scale_rewards batch or normalize_then_sum",
            "reward_std changed its meaning in TRL 0.27; the version is not in the file",
            "settings are not in the file",
        ),
        looks_like=_is_state,
        run=_read,
    ),
)
