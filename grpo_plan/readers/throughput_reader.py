"""`read_throughput`: the speed of a run from its log of step times and tokens."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.quantities import Quantity
from grpo_plan.quantities.names import names_for
from grpo_plan.quantities.view import plain
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.run_reader import load_run
from grpo_plan.run_log import RunLog
from grpo_plan.throughput import Throughput, estimate_throughput

COUNTER = "num_tokens"  # counted since the start of the run, prompts of every rollout included
RATE_NAME = "perf/throughput"  # tokens per second and GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One logged step: its number, its seconds, and its tokens, None where the row has none."""

    step: int
    seconds: float
    tokens: float | None
    rate: float | None


def read_throughput(
    source: str | os.PathLike[str],
    *,
    step_time: str | None = None,
    tokens: str | None = None,
    rollouts_per_step: int | None = None,
    level: float = 0.95,
) -> Throughput:
    """Tokens per second of a logged run, and the overhead of a step where the log tells it apart.

    Read is whatever `read_run` reads: ``trainer_state.json`` and the folder of its checkpoints, files of metrics,
    TensorBoard, W&B, MLflow, as long as it holds step times and tokens. A logged average over several steps counts as
    so many steps; steps that reuse earlier rollouts are joined to the step that generated them; rows of evaluations
    are left out.

    Args:
        source: Path of the log.
        step_time: Column of the seconds of a step, if it has another name.
        tokens: Column of the tokens of a step (prompts and responses), if it has another name.
        rollouts_per_step: Rollouts of a step, where the log has only mean response lengths; the speed is then in
            response tokens.
        level: Confidence level.

    Raises:
        PilotFormatError: The file is no log, or has no step times or tokens.
        DomainError: A number outside its domain.
    """
    for name, value in (("step_time", step_time), ("tokens", tokens)):
        if value is not None and not isinstance(value, str):
            raise DomainError(f"{name} must be the name of a column; got {value!r}.")
    count = None if rollouts_per_step is None else as_count(rollouts_per_step, "rollouts_per_step")
    if not isinstance(source, str | os.PathLike):
        raise DomainError(f"source must be the path of a log; got {type(source).__name__}.")
    run, _ = load_run(source, request_of({}))
    time_name = _column(run, step_time, "step_time_s", "step times")
    kind, run, token_name = _token_column(run, tokens, count)
    dropped: Counter[str] = Counter(run.dropped)
    del dropped["summary_rows"], dropped["truncated_last_line"]  # neither is a step
    steps = _rows(run, time_name, token_name, count if kind == "length" else None, dropped)
    if kind == "cumulative":
        seconds, amounts, widths = _windows(steps, dropped)
    else:
        kept = [row for row in steps if row.tokens is not None and row.tokens > 0]
        dropped["rows_without_tokens"] += len(steps) - len(kept)
        seconds, amounts = [row.seconds for row in kept], [row.tokens or 0.0 for row in kept]
        widths = [1.0] * len(kept)
    if not seconds:
        left = ", ".join(f"{reason}: {number:,}" for reason, number in dropped.items() if number)
        raise PilotFormatError(
            f"{run.source}: no row has both a step time and tokens ({left or 'no rows'}). Log every step, or give the "
            "rates by hand (--decode-tokens-per-s, --train-tokens-per-s)."
        )
    how = {"cumulative": "counted since the start", "step": "of each step", "length": "mean length times rollouts"}
    return estimate_throughput(
        seconds,
        amounts,
        widths,
        counts_prompts=kind != "length",
        level=level,
        dropped={reason: number for reason, number in dropped.items() if number},
        gpus=_gpus(steps) if kind == "step" else None,
        notes=(f"{run.source}: seconds from {time_name!r}, tokens from {token_name!r} ({how[kind]}).",),
    )


def _rows(run: RunLog, time_name: str, token_name: str, times: int | None, dropped: Counter[str]) -> list[_Row]:
    """The steps that have a time; those of evaluations alone have none."""
    seconds, tokens = run.metrics[time_name], run.metrics[token_name]
    rate = next((run.metrics[name] for name in run.metrics if plain(name) == RATE_NAME), None)
    dropped["rows_without_step_time"] += len(set(run.eval_steps.tolist()) - set(run.steps.tolist()))
    found = []
    for i, step in enumerate(run.steps.tolist()):
        if not seconds[i] > 0:  # or absent
            dropped["rows_without_step_time"] += 1
            continue
        made = None if np.isnan(tokens[i]) else float(tokens[i]) * (1 if times is None else times)
        per_gpu = None if rate is None or np.isnan(rate[i]) else float(rate[i])
        found.append(_Row(step=step, seconds=float(seconds[i]), tokens=made, rate=per_gpu))
    return found


def _column(run: RunLog, given: str | None, quantity: str, what: str) -> str:
    """The column that plays a role, as logged: the given one, or that of the quantity."""
    if given is not None:
        wanted = plain(given)
        found = next((name for name in run.metrics if plain(name) == wanted), None)
        if found is not None:
            return found
        raise _missing(run, f"column {given!r}", what, ())
    known = run.quantity(quantity)
    if isinstance(known, Quantity) and len(known.metrics) == 1:
        return known.metrics[0]
    raise _missing(run, "no column", what, names_for(run.tool, quantity) or names_for(None, quantity))


def _missing(run: RunLog, looked: str, what: str, usual: tuple[str, ...]) -> PilotFormatError:
    listing = ", ".join(list(run.metrics)[:12]) + (", ..." if len(run.metrics) > 12 else "")
    names = f" ({', '.join(usual[:4])})" if usual else ""
    return PilotFormatError(
        f"{run.source}: {looked} holds {what}{names}. Columns: {listing or '(none)'}. Give the rates by hand instead "
        "(--decode-tokens-per-s, --train-tokens-per-s)."
    )


def _token_column(run: RunLog, given: str | None, rollouts_per_step: int | None) -> tuple[str, RunLog, str]:
    """Kind of the tokens, the run that holds them as one column, and its name."""
    if given is not None:
        name = _column(run, given, "tokens", "tokens")
        return ("cumulative" if plain(name) == COUNTER else "step"), run, name
    found = run.quantity("tokens")
    if isinstance(found, Quantity):
        name = " + ".join(found.metrics)
        joined = replace(run, metrics={**run.metrics, name: found.values})
        return ("cumulative" if found.cumulative else "step"), joined, name
    lengths = run.quantity("response_tokens_mean")
    if rollouts_per_step is not None and isinstance(lengths, Quantity):
        name = " / ".join(lengths.metrics)
        return "length", replace(run, metrics={**run.metrics, name: lengths.values}), name
    raise _missing(run, "no column", "tokens", tuple(dict.fromkeys((COUNTER, *names_for(None, "tokens")))))


def _windows(rows: list[_Row], dropped: Counter[str]) -> tuple[list[float], list[float], list[float]]:
    """Seconds, new tokens and steps of each stretch that starts with new rollouts and ends before the next ones.

    A row is an average over the steps since the row before. The counter of tokens starts at 0 with the run; a log that
    starts later gives no tokens for its first row.
    """
    gaps = [after.step - before.step for before, after in pairwise(rows)]
    usual = sorted(gaps)[len(gaps) // 2] if gaps else 1
    previous = 0.0 if rows and rows[0].step <= max(usual, 1) else None
    at = rows[0].step - usual if rows and previous is None else 0
    spans: list[list[float]] = []
    for row in rows:
        width, at = float(max(1, row.step - at)), row.step
        new = row.tokens is not None and (previous is None or row.tokens != previous)
        if not new:
            if spans:
                spans[-1][0] += row.seconds * width
                spans[-1][2] += width
            else:
                dropped["rows_without_tokens"] += 1
            continue
        tokens = row.tokens or 0.0
        fresh = math.nan if previous is None or tokens < previous else tokens - previous
        spans.append([row.seconds * width, fresh, width])
        previous = tokens
    widths = sorted(span[2] for span in spans)
    if spans and spans[-1][2] < widths[len(widths) // 2]:  # its rollouts would have served further steps
        spans.pop()
        dropped["unfinished_last_rollouts"] += 1
    kept = [span for span in spans if not math.isnan(span[1])]
    dropped["token_count_unknown"] += len(spans) - len(kept)
    return [s[0] for s in kept], [s[1] for s in kept], [s[2] for s in kept]


def _gpus(rows: list[_Row]) -> int | None:
    """GPUs behind a rate per GPU, where every row gives the same whole number."""
    ratios = [r.tokens / (r.seconds * r.rate) for r in rows if r.tokens and r.rate and r.rate > 0]
    whole = {round(ratio) for ratio in ratios}
    near = all(abs(ratio - round(ratio)) <= 0.02 * ratio for ratio in ratios)
    return whole.pop() if len(whole) == 1 and near and min(whole, default=0) >= 0 and round(ratios[0]) > 0 else None
