"""A plain, slow reader of rollouts: the csv and json modules, one row at a time. What it counts is what is right."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import defaultdict
from typing import Any

from grpo_plan.readers.values import reward_of, text_of

Counts = dict[str, tuple[int, int]]
PROMPT, REWARD = "id", "reward"


def rows_of_json_lines(data: bytes) -> tuple[list[dict[str, Any]], list[int]]:
    """Valid rows, and the numbers of the lines that are none."""
    rows, bad = [], []
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode())
        except (ValueError, RecursionError):
            if number < len(lines):  # the last line may still be being written
                bad.append(number)
            continue
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad.append(number)
    return rows, bad


def rows_of_csv(data: bytes, separator: str = ",") -> tuple[list[dict[str, Any]], list[int]]:
    """Valid rows, and the numbers of the rows that are none."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header, rows, bad = next(reader), [], []
    for number, row in enumerate(reader, start=1):
        damaged = any("\0" in field or any("\ud800" <= c <= "\udfff" for c in field) for field in row)
        if len(row) > len(header) or damaged:
            bad.append(number)
        else:
            first = dict(reversed(list(zip(header, row, strict=False))))  # of two columns of one name the first
            rows.append(first)
    return rows, bad


def count(rows: list[dict[str, Any]]) -> Counts:
    """Passes and rollouts of each prompt; rewards other than 0, 1 and missing raise ValueError."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        reward = reward_of(row.get(REWARD))
        prompt = text_of(row.get(PROMPT))
        if reward is not None and math.isfinite(reward) and reward not in (0.0, 1.0):
            raise ValueError(row)
        if prompt is not None and reward is not None and math.isfinite(reward):
            counts[prompt.encode("utf-8", "backslashreplace").decode()][0] += int(reward)
            counts[prompt.encode("utf-8", "backslashreplace").decode()][1] += 1
    return {prompt: (k, n) for prompt, (k, n) in counts.items()}
