"""Cost of a group, a step and a run from the numbers in a report's tables (theory.md, eq. 66 and 67)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Amounts = dict[str, float | None]
COUNTED = ("groups", "trained_groups", "rollouts", "rollout_equivalents")
TOKENS = ("prefilled_tokens", "generated_tokens", "trained_tokens")
NAMES = (*COUNTED, *TOKENS, "seconds", "gpu_hours", "usd")


def contents(pmf: Sequence[float]) -> tuple[float, float, float]:
    """Mean passes of a group, share of mixed groups, and passes in mixed groups, from the law of k."""
    passes = mixed = inside = 0.0
    for k, chance in enumerate(pmf):
        passes += k * chance
        if 0 < k < len(pmf) - 1:
            mixed += chance
            inside += k * chance
    return passes, mixed, inside


def prompt_cost(
    cost: Mapping[str, Any], group_size: int, content: tuple[float, float, float], refill: bool, mixed: float,
    drawn: tuple[float, float] | None = None,
) -> Amounts | None:  # fmt: skip
    """What one more prompt a step adds to a step; None where a refill would never end.

    A refill draws prompts one at a time, ``1 / mixed`` of them; ``drawn`` says otherwise: groups drawn, and groups
    trained on, for each prompt a step.
    """
    passes, share, inside = content
    only_mixed = refill or bool(cost["train_mixed_only"])
    prompt, job = cost["prompt_tokens"], cost["job_tokens_per_s"]
    tokens = _responses(cost, passes, group_size - passes)
    if job is not None:
        counted = _sum(tokens, _times(prompt, group_size)) if cost["job_counts_prompts"] else tokens
        seconds = _over(counted, job)
    else:
        rate = cost["prefill_tokens_per_s"]
        reading = 0.0 if rate is None else _over(prompt, rate)
        scoring = group_size * cost["reward_s"] / cost["reward_parallel"]
        seconds = _sum(_over(tokens, cost["decode_tokens_per_s"]), reading, scoring)
    generated: Amounts = {
        "groups": 1.0, "trained_groups": 0.0, "rollouts": float(group_size),
        "rollout_equivalents": group_size + cost["prompt_rollouts"], "prefilled_tokens": prompt,
        "generated_tokens": tokens, "trained_tokens": 0.0, "seconds": seconds,
    }  # fmt: skip
    if only_mixed and share <= 0.0:
        trained_tokens, training = None, None
    else:
        held = inside / share if only_mixed else passes
        trained_tokens = _sum(_responses(cost, held, group_size - held), _times(prompt, group_size))
        training = 0.0 if job is not None else _over(trained_tokens, cost["train_tokens_per_s"])
    trained: Amounts = {
        **dict.fromkeys((*COUNTED, *TOKENS), 0.0), "trained_groups": 1.0, "trained_tokens": trained_tokens,
        "seconds": training,
    }  # fmt: skip
    if refill and drawn is None and mixed <= 0.0:
        return None
    times, trained_times = drawn or (1.0 / mixed if refill else 1.0, 1.0 if refill or not only_mixed else mixed)
    total = _scaled(generated, times)
    if trained_times != 0.0:
        total = {name: _sum(total[name], _times(trained[name], trained_times)) for name in total}
    return total


def run_cost(cost: Mapping[str, Any], each: Amounts | None, prompts: int, steps: int) -> Amounts | None:
    """Cost of a run in every unit; unknown units are None."""
    if each is None:
        return None
    total = {name: _times(value, prompts) for name, value in each.items()}
    total["seconds"] = _times(_sum(total["seconds"], cost["step_overhead_s"]), steps)
    total = {name: value if name == "seconds" else _times(value, steps) for name, value in total.items()}
    total["gpu_hours"] = _over(_times(total["seconds"], cost["gpus"]), 3600.0)
    total["usd"] = _times(total["gpu_hours"], cost["usd_per_gpu_hour"])
    return {name: total[name] for name in NAMES}


def _responses(cost: Mapping[str, Any], passes: float, fails: float) -> float | None:
    return _sum(_times(cost["pass_tokens"], passes), _times(cost["fail_tokens"], fails))


def _scaled(amounts: Amounts, factor: float) -> Amounts:
    return {name: _times(value, factor) for name, value in amounts.items()}


def _times(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def _over(value: float | None, rate: float | None) -> float | None:
    return None if value is None or rate is None else value / rate


def _sum(*values: float | None) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
