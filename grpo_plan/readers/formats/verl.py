"""verl: rollout and validation dumps, of the trainer V1 (with uid) and of the older one (without)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._rows import json_rows
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format


class _V1(msgspec.Struct, gc=False):
    input: Any = None
    score: Any = None
    step: Any = None
    uid: Any = None


def _is_v1(candidate: Candidate) -> bool:
    return candidate.kind == "jsonl" and candidate.every_row_has("input", "output", "score", "step", "uid")


def _read_v1(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Rows of V1: ``uid`` is prompt, session and index; padding rows are dropped, the last index of a session kept."""
    for file in files:
        for batch in json_rows(file, _V1, sink):
            kept = [i for i, row in enumerate(batch.rows) if not str(row.uid).startswith("pad")]
            sink.drop("padding_rows", len(batch.rows) - len(kept))
            rows = [batch.rows[i] for i in kept]
            keys = [str(row.uid).rsplit("_", 2)[0] for row in rows]
            columns = {
                "prompt": [row.input for row in rows],
                "group": keys,
                "reward": [row.score for row in rows],
                "step": [row.step for row in rows],
            }
            sink.add(columns, lambda i, b=batch, k=kept: b.place(k[i]), reward_name="score")  # type: ignore[misc]


FORMATS = (
    Format(
        name="verl-v1",
        tool="verl, trainer V1",
        files="<rollout_data_dir>/<step>.jsonl, <validation_data_dir>/<step>.jsonl",
        reads="score by uid (prompt, session, index), step",
        evidence=Evidence.SOURCE,
        versions="0.9.0 to 0.9.1",
        limits=("truncation is not in the file",),
        looks_like=_is_v1,
        pilot=_read_v1,
    ),
)
