"""Rows of several pilots as one table: prompts of one name added up, or cells of a histogram."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotError
from grpo_plan.provenance import Provenance

LENGTHS = ("response_tokens", "pass_tokens", "fail_tokens")
PER_PROMPT = ("prompt_id", "stratum", "temperature", *LENGTHS)
ROW_NAME = re.compile(r"row \d+")  # what the reader calls a prompt without a name
NO_STRATUM = "(none)"


class Rows(Protocol):
    """What is used of a pilot."""

    @property
    def successes(self) -> NDArray[np.int64]: ...
    @property
    def rollouts(self) -> NDArray[np.int64]: ...
    @property
    def prompts_per_row(self) -> NDArray[np.int64]: ...
    @property
    def prompt_id(self) -> NDArray[np.object_] | None: ...
    @property
    def stratum(self) -> NDArray[np.object_] | None: ...
    @property
    def temperature(self) -> NDArray[np.float64] | None: ...


def refuse_other_policies(parts: Sequence[Provenance]) -> None:
    """Raise PilotError where two pilots are known to be of different models."""
    for what in ({p.policies for p in parts if p.policies}, {p.weak_prior for p in parts}):
        if len({frozenset(w) if isinstance(w, tuple) else w for w in what}) > 1:
            shown = "; ".join(sorted(", ".join(w) if isinstance(w, tuple) else str(w or "unnamed") for w in what))
            raise PilotError(
                f"The pilots are of different models ({shown}), and a pilot describes one. Merge those of one model."
            )


def refuse_other_selection(parts: Sequence[Provenance]) -> None:
    """Raise PilotError where prompts were removed by their count from some pilots only, or other ones from each."""
    found = {p.removed for p in parts}
    if len(found) > 1:
        shown = ", ".join(sorted(name or "none" for name in found))
        raise PilotError(
            f"The pilots lack different prompts, removed by their own count ({shown}), so one fit does not hold for "
            "all. Fit each alone."
        )


def pooled(pilots: Sequence[Rows]) -> dict[str, Any]:
    """Arguments of ``from_counts``: every row of all pilots, those of one prompt added up."""
    k = np.concatenate([p.successes for p in pilots])
    n = np.concatenate([p.rollouts for p in pilots])
    strata, temperature = _strata(pilots), _numbers(pilots, "temperature")
    names: list[object] = list(chain.from_iterable(_names(p) for p in pilots))
    named = any(name is not None for name in names)
    place, size = _places(names, strata, temperature) if named else (np.arange(k.size), k.size)
    first = np.full(size, k.size, dtype=np.int64)
    np.minimum.at(first, place, np.arange(k.size))
    totals = [np.zeros(size, dtype=np.int64) for _ in range(2)]
    np.add.at(totals[0], place, k)
    np.add.at(totals[1], place, n)
    columns: dict[str, Any] = {"successes": totals[0], "rollouts": totals[1]}
    if named:
        columns["prompt_id"] = [names[i] for i in first]
    if strata is not None:
        columns["stratum"] = [strata[i] for i in first]
    if temperature is not None:
        columns["temperature"] = temperature[first]
    alone = np.bincount(place, minlength=size) == 1
    for name, weight in zip(LENGTHS, (n, k, n - k), strict=True):
        lengths = _numbers(pilots, name)
        if lengths is not None:
            parts = np.where(weight > 0, lengths * weight, 0.0)  # NaN stays: a part that is unknown
            sums, weights = (np.bincount(place, weights=w, minlength=size) for w in (parts, weight))
            means = np.divide(sums, weights, out=np.full(size, np.nan), where=weights > 0)
            columns[name] = np.where(alone, lengths[first], means)
    return columns


def summed(pilots: Sequence[Rows]) -> dict[str, Any]:
    """Arguments of ``from_histogram``: prompts of every cell (stratum, temperature, n, k) of all pilots."""
    k = np.concatenate([p.successes for p in pilots])
    n = np.concatenate([p.rollouts for p in pilots])
    count = np.concatenate([p.prompts_per_row for p in pilots])
    strata, temperature = _strata(pilots), _numbers(pilots, "temperature")
    codes: dict[object, int] = {}
    key = np.zeros(k.size, dtype=np.int64)
    if strata is not None:
        key += np.array([codes.setdefault(s, len(codes)) for s in strata], dtype=np.int64)
    for column in (temperature, n * (int(n.max()) + 1) + k):
        if column is not None:
            values, index = np.unique(column, return_inverse=True)
            key = key * values.size + index
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    prompts = np.zeros(first.size, dtype=np.int64)
    np.add.at(prompts, place, count)
    columns: dict[str, Any] = {"rollouts": n[first], "successes": k[first], "prompts": prompts}
    if strata is not None:
        columns["stratum"] = [strata[i] for i in first]
    if temperature is not None:
        columns["temperature"] = temperature[first]
    return columns


def has_row_names(names: NDArray[np.object_] | None) -> bool:
    """Whether the names only number the rows of a table: in another table they would be other prompts."""
    return names is not None and all(ROW_NAME.fullmatch(str(name)) for name in names)


def _names(pilot: Rows) -> Sequence[object]:
    """Name of each row, None where it has none."""
    if pilot.prompt_id is None or has_row_names(pilot.prompt_id):
        return [None] * pilot.successes.size
    return [None if name is None or name != name else name for name in pilot.prompt_id]


def _places(
    names: Sequence[object], strata: Sequence[str] | None, temperature: NDArray[np.float64] | None
) -> tuple[NDArray[np.int64], int]:
    """Row of each row in the answer, and the number of these."""
    size = len(names)
    parts: Sequence[object] = [None] * size if strata is None else strata
    heat: Sequence[object] = [None] * size
    if temperature is not None:
        heat = [None if t != t else t for t in temperature.tolist()]
    rows: dict[object, int] = {}
    place = np.empty(size, dtype=np.int64)
    for i, (name, part, t) in enumerate(zip(names, parts, heat, strict=True)):
        place[i] = rows.setdefault(i if name is None else (str(name), part, t), len(rows))
    return place, len(rows)


def _strata(pilots: Sequence[Rows]) -> list[str] | None:
    if all(p.stratum is None for p in pilots):
        return None
    missing = (None, NO_STRATUM)
    return [
        NO_STRATUM if s in missing else str(s)
        for p in pilots
        for s in ([None] * p.successes.size if p.stratum is None else p.stratum)
    ]


def _numbers(pilots: Sequence[Rows], name: str) -> NDArray[np.float64] | None:
    """A column of numbers of all pilots, NaN where one has none."""
    columns = [getattr(p, name) for p in pilots]
    if all(c is None for c in columns):
        return None
    return np.concatenate(
        [np.full(p.successes.size, np.nan) if c is None else c for p, c in zip(pilots, columns, strict=True)]
    )
