"""What the readers of formats share: JSON lines as structs, one document, and the choice among several rewards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, open_sniffed
from grpo_plan.readers.jsonlines import RowBatch, RowShape, read_blocks, read_json_lines
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.values import number_of, shown

MAX_DOCUMENT_BYTES = 1 << 30


def json_rows(file: InputFile, row_type: type[Any], sink: RolloutSink) -> Iterator[RowBatch]:
    """Batches of the lines of a JSONL file as structs of ``row_type`` (msgspec), whose fields are all optional.

    Malformed lines are errors or counted, as asked for; a last line cut off while being written is counted.
    """
    shape = RowShape(row_type=row_type, field_of={})
    with open_sniffed(file) as sniffed:
        if sniffed.kind != "jsonl":
            raise PilotFormatError(f"{file.name}: is no JSON lines file. Name its format with --format.")
        path = None if sniffed.compressed else file.path
        yield from read_json_lines(
            read_blocks(sniffed.stream, file.name),
            file.name,
            shape,
            sink.request.options,
            sink.tally,
            path=path,
            progress=sink.request.progress,
        )


def document(file: InputFile) -> Any:
    """A file that is one JSON document, NaN and Infinity allowed.

    Raises:
        PilotFormatError: It is no JSON, or larger than 1 GB.
    """
    with open_sniffed(file) as sniffed:
        data = sniffed.stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise PilotFormatError(f"{file.name}: is one JSON document of more than 1 GB. Split it.")
    try:
        return json.loads(data.removeprefix(BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise PilotFormatError(f"{file.name}: cannot be read as JSON ({error}). Is it complete?") from None


def chosen_reward(names: Sequence[str], sink: RolloutSink, where: str) -> Mapping[str, float]:
    """Reward functions to count by, each with its weight: those that the user named, or the only one there is.

    Raises:
        PilotFormatError: The one asked for is not there, or there are several and none was chosen.
    """
    weights, named = sink.request.reward_weights, sink.request.given.get("reward")
    wanted = dict(weights) if weights else ({named: 1.0} if named is not None else {})
    listing = ", ".join(names) if names else "(none)"
    for name in wanted:
        if name not in names:
            raise PilotFormatError(f"{where}: no reward function {name!r}. It has: {listing}.")
    if wanted:
        return wanted
    if len(names) == 1:
        return {names[0]: 1.0}
    if names and sink.request.any_reward:
        return dict.fromkeys(names, 1.0)
    if not names:
        raise PilotFormatError(f"{where}: holds no reward.")
    example = ",".join(f"{name}=1" for name in names[:3])
    raise PilotFormatError(
        f"{where}: holds {len(names)} reward functions ({listing}). Choose one with --reward-column (reward=), or sum "
        f"them with --reward-weights {example} (reward_weights=) and give --pass-threshold (pass_threshold=)."
    )


def summed(values: Mapping[str, Any], weights: Mapping[str, float], where: Callable[[], str]) -> float | None:
    """Weighted sum of the rewards that are there; None if none is (failed scoring). ``where`` names the place.

    Raises:
        PilotFormatError: A reward is no number, or the sum is none.
    """
    total, seen = 0.0, False
    for name, weight in weights.items():
        value = values.get(name)
        if value is None or value != value:
            continue
        number = number_of(value)
        if number is None:
            raise PilotFormatError(f"{where()}: {name} is {shown([value])}, which is no reward. Choose another.")
        total, seen = total + weight * number, True
    if total - total != 0.0:
        raise PilotFormatError(f"{where()}: the weighted sum of {', '.join(weights)} is {total}, which is no reward.")
    return total if seen else None
