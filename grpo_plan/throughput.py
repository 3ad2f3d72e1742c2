"""Tokens per second of a logged run: a ratio, or a line where the tokens of its steps vary enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Speed of a whole job, from the times and tokens of its steps.

    Attributes:
        tokens_per_s: Tokens per second: of the line if the overhead is told apart, else tokens over time.
        tokens_per_s_low: Lower limit.
        tokens_per_s_high: Upper limit.
        step_overhead_s: Seconds of a step that do not grow with its tokens; None if the log cannot tell.
        step_overhead_low_s: Lower limit.
        step_overhead_high_s: Upper limit.
        counts_prompts: Whether tokens count the prompt of every rollout, or responses only.
        level: Confidence level.
        steps_used: Optimiser steps that the estimate rests on.
        rows_used: Rows of the log that it rests on.
        dropped: Rows left out, by reason.
        gpus: GPUs of the job, if the log tells.
        notes: How the log was read, one sentence each.
    """

    tokens_per_s: float
    tokens_per_s_low: float | None
    tokens_per_s_high: float | None
    step_overhead_s: float | None
    step_overhead_low_s: float | None
    step_overhead_high_s: float | None
    counts_prompts: bool
    level: float
    steps_used: int
    rows_used: int
    dropped: dict[str, int]
    gpus: int | None
    notes: tuple[str, ...]
