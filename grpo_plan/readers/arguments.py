"""Arguments of the functions that read, checked and put together as one request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Real

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError
from grpo_plan.readers.counting import ReadOptions
from grpo_plan.readers.request import SPLITS, ReadRequest
from grpo_plan.readers.selection import MAX_STEP

MAX_FLOAT = sys.float_info.max


def request_of(
    given: Mapping[str, object],
    *,
    pass_threshold: object = None,
    rollouts_per_prompt: object = None,
    where: object = None,
    skip_malformed: object = False,
    format: object = None,
    reward_weights: object = None,
    split: object = "train",
    policy_steps: object = None,
    groups_apart: bool = False,
    histogram: object = None,
    weak_prior: object = None,
    progress: Callable[[int], None] | None = None,
    workers: object = None,
    storage_options: object = None,
) -> ReadRequest:
    """A checked request.

    Raises:
        DomainError: An argument is outside its domain.
    """
    if format is not None and not isinstance(format, str):
        raise DomainError(f"format must be the name of a format; got {format!r}. See grpo-plan formats.")
    if weak_prior is not None and not (isinstance(weak_prior, str) and weak_prior.strip()):
        raise DomainError(f"weak_prior must be the name of a model; got {weak_prior!r}.")
    if given.get("pass_rate") is not None and given.get("fail_rate") is not None:
        raise DomainError("pass_rate and fail_rate were both given; a column of one of them is enough.")
    options = options_of(
        pass_threshold, rollouts_per_prompt, where, skip_malformed, workers, storage_options, histogram
    )
    steps, part = _as_steps(policy_steps), _as_split(split)
    return ReadRequest(
        given=_as_columns(given),
        options=replace(options, steps=steps, split=part, groups_apart=bool(groups_apart)),
        format=format,
        reward_weights=_as_weights(reward_weights),
        split=part,
        policy_steps=steps,
        weak_prior=weak_prior,
        progress=progress,
    )


def options_of(
    pass_threshold: object = None,
    rollouts_per_prompt: object = None,
    where: object = None,
    skip_malformed: object = False,
    workers: object = None,
    storage_options: object = None,
    histogram: object = None,
) -> ReadOptions:
    """Checked options of a read."""
    if histogram is not None and not isinstance(histogram, bool):
        raise DomainError(f"histogram must be True, False or None; got {histogram!r}.")
    count = None if rollouts_per_prompt is None else as_count(rollouts_per_prompt, "rollouts_per_prompt")
    return ReadOptions(
        pass_threshold=_as_threshold(pass_threshold),
        rollouts_per_prompt=count,
        where=_as_where(where),
        skip_malformed=_as_skipped(skip_malformed),
        workers=None if workers is None else as_count(workers, "workers"),
        storage_options=_as_settings(storage_options),
        histogram=histogram,
    )


def _as_skipped(skip: object) -> bool | int:
    if isinstance(skip, bool):
        return skip
    if not isinstance(skip, int) or skip < 0:
        raise DomainError(f"skip_malformed must be True, False or a number of at least 0; got {str(skip)[:40]!r}.")
    return skip


def _as_settings(settings: object) -> dict[str, str] | None:
    if settings is None:
        return None
    if not isinstance(settings, Mapping) or not all(isinstance(k, str) for k in settings):
        raise DomainError(f"storage_options must map names to values; got {str(settings)[:40]!r}.")
    return {str(key): str(value) for key, value in settings.items()}


def _as_threshold(threshold: object) -> float | None:
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not abs(threshold) <= MAX_FLOAT:  # type: ignore[operator]
        raise DomainError(f"pass_threshold must be a finite number; got {str(threshold)[:40]}.")
    return float(threshold)


def _as_columns(given: Mapping[str, object]) -> dict[str, str | None]:
    for role, column in given.items():
        if column is not None and not isinstance(column, str):
            raise DomainError(f"{role} must be the name of a column; got {column!r}.")
    return {role: column for role, column in given.items() if column is None or isinstance(column, str)}


def _as_weights(weights: object) -> dict[str, float]:
    if weights is None:
        return {}
    if not isinstance(weights, Mapping) or not weights:
        raise DomainError(f"reward_weights must map reward functions to weights; got {str(weights)[:40]!r}.")
    out = {}
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not abs(weight) <= MAX_FLOAT:  # type: ignore[operator]
            raise DomainError(f"reward_weights must be finite numbers; got {str(weight)[:40]} for {name!r}.")
        out[str(name)] = float(weight)
    return out


def _as_split(split: object) -> str:
    if split not in SPLITS:
        raise DomainError(not_one_of("split", split, SPLITS))
    return str(split)


def _as_steps(steps: object) -> tuple[int, int] | None:
    if steps is None:
        return None
    if not isinstance(steps, Sequence) or isinstance(steps, str) or len(steps) != 2:
        raise DomainError(f"policy_steps must be a first and a last step, e.g. (90, 100); got {steps!r}.")
    first, last = (end if given is None else given for given, end in zip(steps, (0, MAX_STEP), strict=True))
    if not all(isinstance(s, int) and not isinstance(s, bool) for s in (first, last)) or first > last:
        raise DomainError(
            f"policy_steps must be two whole numbers in rising order, None for an open end; got {steps!r}."
        )
    if first < 0:
        raise DomainError(
            f"policy_steps must be steps by their numbers, from 0 on; got {steps!r}. Steps are not counted from the "
            "end: a read without policy_steps says which is the last."
        )
    return int(first), int(last)


def _as_where(where: object) -> dict[str, list[str]]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise DomainError(f"where must map columns to values, e.g. {{'model': 'x'}}; got {where!r}.")
    out = {}
    for column, wanted in where.items():
        values = [wanted] if isinstance(wanted, str | Real) else wanted
        if not isinstance(values, Sequence) or not all(isinstance(v, str | Real) for v in values):
            raise DomainError(f"where must give a value or a list of values for {column!r}; got {wanted!r}.")
        out[str(column)] = [str(v) for v in values]
    return out
