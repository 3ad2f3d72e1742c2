"""Runs made by hand for the checks: metrics by name, and groups of rollouts from their rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan.group_log import GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.run_log import RunLog
from grpo_plan.runs.detectors.registry import detectors
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Skipped
from grpo_plan.runs.settings import DiagnosisSettings


def made_groups(
    rewards: Sequence[ArrayLike],
    steps: Sequence[int] | None = None,
    *,
    threshold: float | None = 1.0,
    filtered: str | None = None,
    file_format: str = "trl",
    **more: Any,
) -> GroupLog:
    """Groups from the rewards of their rollouts, NaN where one has none."""
    rows = [np.asarray(r, dtype=float) for r in rewards]
    known = [r[np.isfinite(r)] for r in rows]
    passes = None if threshold is None else np.array([int((k >= threshold).sum()) for k in known], dtype=np.int64)
    counted: dict[str, Any] = {name: np.asarray(value) for name, value in more.items()}
    return GroupLog(
        step=np.asarray(steps if steps is not None else np.arange(1, len(rows) + 1), dtype=np.int64),
        prompt_id=np.array([str(i) for i in range(len(rows))], dtype=object),
        rollouts=np.array([r.size for r in rows], dtype=np.int64),
        scored=np.array([k.size for k in known], dtype=np.int64),
        reward_min=np.array([k.min() if k.size else np.nan for k in known]),
        reward_max=np.array([k.max() if k.size else np.nan for k in known]),
        reward_mean=np.array([k.mean() if k.size else np.nan for k in known]),
        provenance=Provenance(format=file_format, filtered=filtered),
        pass_threshold=threshold,
        passes=passes,
        **counted,
    )


def made_run(
    metrics: Mapping[str, ArrayLike] | None = None,
    *,
    groups: GroupLog | None = None,
    tool: str | None = "trl",
    config: Mapping[str, object] | None = None,
    group_size: int | None = 8,
    rows: int | None = None,
) -> RunLog:
    """A run of steps 1, 2, ...; of the steps of its groups where it has no metrics."""
    logged = {name: np.asarray(values, dtype=float) for name, values in (metrics or {}).items()}
    size = rows if rows is not None else max((v.size for v in logged.values()), default=0)
    steps = np.arange(1, size + 1) if size or groups is None else np.unique(groups.step)
    return RunLog(
        steps=steps.astype(np.int64), metrics=logged, format="made", source="made", tool=tool, groups=groups,
        config=config or {}, group_size=group_size,
    )  # fmt: skip


def outcome(id: str, run: RunLog, **settings: Any) -> Outcome:
    """What one check says of a run."""
    said = detectors()[id](Facts(run, DiagnosisSettings(**settings)))
    assert said.id == id
    return said


def found(id: str, run: RunLog, **settings: Any) -> Finding:
    """What it finds; fails if it finds nothing."""
    said = outcome(id, run, **settings)
    assert isinstance(said, Finding), said
    for name, value in said.evidence.items():
        assert value is None or isinstance(value, str | bool | int | float | np.generic), name
        assert not isinstance(value, float) or np.isfinite(value), name
    assert said.remedy.endswith(".")
    assert said.reference
    return said


def clear(id: str, run: RunLog, **settings: Any) -> Clear:
    """That it ran and saw nothing."""
    said = outcome(id, run, **settings)
    assert isinstance(said, Clear), said
    return said


def skipped(id: str, run: RunLog, **settings: Any) -> Skipped:
    """That it could not run."""
    said = outcome(id, run, **settings)
    assert isinstance(said, Skipped), said
    return said
