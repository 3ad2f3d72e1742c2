"""What a watched log says at each step, and which steps were told already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from grpo_plan.cli.common import SCHEMA
from grpo_plan.errors import DomainError
from grpo_plan.run_log import RunLog
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured

SHARES = {"dead_fraction": "dead", "all_pass_fraction": "all_pass", "all_fail_fraction": "all_fail"}


def event(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A line of ``watch --json``."""
    return {"schema": SCHEMA, "command": "watch", "event": kind, **body}


def json_line(document: Mapping[str, Any]) -> str:
    """As one line; NaN is a bug and raises."""
    return json.dumps(document, allow_nan=False) + "\n"


def step_documents(facts: Facts, steps: Iterable[int]) -> list[dict[str, Any]]:
    """Dead, all-pass and all-fail shares and the mean reward at some steps; a share is bounded, known, or null.

    >>> from grpo_plan.run_log import RunLog
    >>> run = RunLog(steps=np.array([1, 2]), metrics={"env/all/by_group/frac_mixed": np.array([0.25, np.nan])},
    ...              format="tinker-metrics", source="metrics.jsonl", tool="tinker")
    >>> [(d["step"], d["dead_fraction"], d["dead_fraction_low"]) for d in step_documents(Facts(run), [1, 2])]
    [(1, 0.75, 0.75), (2, None, None)]
    """
    wanted = list(steps)
    columns = {name: _at(getattr(facts, short), wanted) for name, short in SHARES.items()}
    reward = _at(facts.reward, wanted)
    out = []
    for i, step in enumerate(wanted):
        body: dict[str, Any] = {"step": int(step)}
        for name, found in columns.items():
            value, low, high = found[i]
            body |= {name: value, f"{name}_low": low, f"{name}_high": high}
        out.append(body | {"reward_mean": reward[i][0]})
    return out


def _at(series: object, steps: list[int]) -> list[tuple[float | None, float | None, float | None]]:
    nothing = (None, None, None)
    if not isinstance(series, Measured) or not series.rows:
        return [nothing] * len(steps)
    at = np.minimum(np.searchsorted(series.steps, steps), series.rows - 1)
    return [
        (float(series.values[i]) if series.exact else None, float(series.lower[i]), float(series.upper[i]))
        if series.steps[i] == step
        else nothing
        for i, step in zip(at.tolist(), steps, strict=True)
    ]


class Told:
    """Steps that were told, each once, and again only where its metrics have changed since."""

    def __init__(self) -> None:
        self._said: dict[int, str] = {}

    def fresh(self, run: RunLog, steps: Iterable[int]) -> dict[int, bool]:
        """Those to be told, and whether they were told before with other metrics."""
        out: dict[int, bool] = {}
        for step in steps:
            mark = _mark(run, int(step))
            if self._said.get(step) != mark:
                out[step] = step in self._said
                self._said[step] = mark
        return out

    def state(self) -> dict[str, Any]:
        """As an object of JSON."""
        return {"steps": list(self._said), "marks": list(self._said.values())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`.

        Raises:
            DomainError: It is none.
        """
        try:
            self._said = {int(s): str(m) for s, m in zip(state["steps"], state["marks"], strict=True)}
        except (LookupError, TypeError, ValueError) as error:
            raise DomainError(f"state of steps is damaged ({type(error).__name__}: {error}). Start anew.") from None


def _mark(run: RunLog, step: int) -> str:
    at = int(np.searchsorted(run.steps, step))
    values = sorted((name, float(column[at])) for name, column in run.metrics.items() if np.isfinite(column[at]))
    return blake2b(json.dumps(values).encode(), digest_size=6).hexdigest()
