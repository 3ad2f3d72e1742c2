"""TensorBoard event files: the scalars of every trainer that logs to them, and arguments that some write as text."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_plan.errors import MissingExtraError, PilotFormatError
from grpo_plan.readers.discovery import natural
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import RunBuilder, flattened
from grpo_plan.readers.run_config import settings_beside
from grpo_plan.readers.run_rows import chosen_runs, place_of, run_names
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.run_log import RunLog

ARGUMENTS = "args/text_summary"  # the training arguments, as the HF Trainer writes them


def _is_events(candidate: Candidate) -> bool:
    return candidate.kind == "events"


def _read(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    """A folder is a run: its files are joined in the order of their names, which hold the time."""
    folders: dict[Path, list[InputFile]] = {}
    for file in files:
        folders.setdefault((file.path or Path(file.name)).parent, []).append(file)
    where = place_of(files)
    named = dict(zip(run_names(list(folders)), folders.values(), strict=True))
    wanted = chosen_runs(named, request, where) if request.runs else list(named.items())
    loaded: dict[str, list[Any]] = {}
    for name, held in wanted:
        parts = [part for file in _in_order(held) if (part := _load(file)).Tags()["scalars"]]
        if parts:
            loaded[name] = parts
        if len(loaded) > 1 and not request.runs:  # which of them, the user has to say: no need to read the rest
            chosen_runs(named, request, where)
    if not loaded:
        raise PilotFormatError(f"{where}: holds no scalars. Give the folder of the run that logged metrics.")
    builder, read = RunBuilder(), []
    for name, parts in loaded.items():
        read += named[name]
        for part in parts:
            _add(builder, part)
    builder.config.update(settings_beside(read, builder))
    return builder.run_log(format="tensorboard", source=place_of(read))


def _in_order(files: Sequence[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda file: natural(Path(file.name).name))


def _add(builder: RunBuilder, part: Any) -> None:
    """Scalars of one file; values logged as tensors of one number too."""
    tags = part.Tags()
    for tag in tags["scalars"]:
        builder.add_series(tag, ((event.step, event.value) for event in part.Scalars(tag)))
    if ARGUMENTS in tags["tensors"]:
        for event in part.Tensors(ARGUMENTS)[-1:]:
            try:
                found = json.loads(event.tensor_proto.string_val[0])
            except (ValueError, IndexError, RecursionError):
                continue
            if isinstance(found, dict):
                builder.config.update(flattened(found))
                builder.note(f"Settings were read from {ARGUMENTS} of the event file.")


def _load(file: InputFile) -> Any:
    """All events of a file; none is sampled away."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of protobuf, on import, by its version
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise MissingExtraError(
            f"{file.name}: TensorBoard event files need the extra tensorboard. Install it: pip install "
            "'grpo-plan[tensorboard]'."
        ) from None
    accumulator = EventAccumulator(
        file.name if file.path is None else str(file.path),
        size_guidance={"scalars": 0, "tensors": 0, "images": 1, "audio": 1, "histograms": 1, "compressedHistograms": 1},
        purge_orphaned_data=False,
    )
    try:
        accumulator.Reload()
    except Exception as error:  # its parsers raise what they like on a damaged file
        raise PilotFormatError(f"{file.name}: cannot be read as an event file ({str(error)[:80]}).") from None
    return accumulator


FORMATS = (
    Format(
        name="tensorboard",
        tool="any trainer that logs to TensorBoard: TRL, verl, OpenRLHF, NeMo-RL, SkyRL, slime, ROLL, ms-swift",
        files="events.out.tfevents.* of one folder",
        reads="all scalars by step; the arguments that the HF Trainer writes as text",
        evidence=Evidence.RAN,
        versions="tensorboard 2.21",
        limits=("a run taken up again in another folder is another run: name both", "histograms are not read"),
        extra="tensorboard",
        looks_like=_is_events,
        run=_read,
        preference=3,
    ),
)
