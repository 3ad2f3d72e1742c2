"""Runs of TRL and its family into the sink: rewards named, repeats and evaluation told apart, groups formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.formats._log_groups import (
    NO_ADVANTAGE,
    add_portions,
    combined,
    compare_with_advantages,
    finite,
    group_size,
    whole_groups,
)
from grpo_plan.readers.formats._log_portions import Seen, evaluated_batches, new_batches, portions_of
from grpo_plan.readers.formats._logged import LoggedBatch, LoggedRun, Names, Portion, rewards_asked
from grpo_plan.readers.sink import RolloutSink

Sized = tuple[str, Portion, int | None]
Survivors = Callable[[LoggedRun, Sequence[NDArray[np.float64]]], str | None]
CLOSE = 1e-3  # of advantages that follow a reward exactly, but for single precision and the constant added to the std


def add_runs(
    runs: Sequence[LoggedRun], names: Names, sink: RolloutSink, filtered: Survivors = lambda run, groups: None
) -> None:
    """Put the rollouts of runs into the sink.

    Args:
        runs: With their tables in the order in which they were written.
        names: Prompt of each hash.
        sink: Takes the rollouts.
        filtered: Says why dead groups of a run are missing, from its rewards by group; None if they are not.
    """
    seen: Seen = {}
    for role in ("n", "k", "pass_rate"):
        if sink.request.given.get(role) is not None:
            sink.note(f"{sink.format}: rows are rollouts; the column given as {role} is not used.")
    ready: list[tuple[LoggedRun, list[Sized], list[str]]] = []
    for index, run in enumerate(runs):
        if not run.batches:
            continue
        rewards = reward_names(run, sink)
        kept = new_batches(run, seen, sink)
        evaluated = evaluated_batches(run, kept, sink)
        _say_how_many(run, kept, evaluated, sink)
        sized = _sized(run, kept, evaluated, index, sink)
        split = sink.request.split
        judged = [(p, size) for _, p, size in sized if size is not None and split in ("all", p.split)]
        compare_with_advantages(run, judged, rewards, sink)
        groups = [g for p, size in judged for g in _rewards_by_group(p, size, rewards, sink)]
        sink.filtered = sink.filtered or filtered(run, groups)
        ready.append((run, sized, rewards))
    for run, sized, rewards in ready:  # whether dead groups are missing is known by now
        if sized:
            others = rewards_asked(sink) & set(run.batches[0].rewards) - set(rewards)
            add_portions(sized, [*rewards, *sorted(others)], run, names, sink)


def _rewards_by_group(portion: Portion, size: int, rewards: Sequence[str], sink: RolloutSink) -> NDArray[np.float64]:
    """Sum of the rewards, shape (groups, size)."""
    weights = {name: sink.request.reward_weights.get(name, 1.0) for name in rewards}
    return finite(combined(portion.batch, weights))[portion.start : portion.stop].reshape(-1, size)


def _sized(
    run: LoggedRun, kept: Sequence[LoggedBatch], evaluated: set[int], index: int, sink: RolloutSink
) -> list[Sized]:
    """Portions with the group size of their split; each has a name that no other has."""
    wanted, facts, origin = sink.request.options.rollouts_per_prompt, run.facts, "--rollouts-per-prompt"
    of_train = of_eval = wanted
    if wanted is None and (of_train := facts.whole("num_generations")) is not None:
        of_eval, origin = facts.whole("num_generations_eval") or of_train, f"num_generations of {facts.config_file}"
    plain = [Portion(batch=b, start=0, stop=b.rows, split="train") for i, b in enumerate(kept) if i not in evaluated]
    train, how = group_size(plain, of_train, origin)
    per_eval = of_eval or train
    prompts = {i: facts.evaluated.get(kept[i].step or 0) for i in evaluated}
    rows = {i: count * per_eval for i, count in prompts.items() if count is not None and per_eval is not None}
    portions = portions_of(run, kept, evaluated, rows, sink)
    sizes: dict[str, tuple[int | None, str]] = {"train": (train, how)}
    sizes["eval"] = group_size([p for p in portions if p.split == "eval"], of_eval, origin)
    out: list[Sized] = []
    for number, portion in enumerate(portions):
        size, source = sizes[portion.split]
        whole = portion if size is None else whole_groups(portion, size, source, sink)
        if whole is not None:
            out.append((f"{index}.{number}", whole, size))
    for split in dict.fromkeys(p.split for _, p, _ in out):
        size, source = sizes[split]
        if sink.request.split not in ("all", split):
            continue
        if size is None:
            sink.note(
                f"{run.name}: every prompt stands alone (log_unique_prompts?), so what was sampled together is not "
                "known, and a pilot has one rollout a prompt and table."
            )
        elif source != "--rollouts-per-prompt":
            sink.note(f"{run.name}: groups of {size} ({source}).")
    return out


def reward_names(run: LoggedRun, sink: RolloutSink) -> list[str]:
    """Columns that are reward functions: those of the log, else those that explain the advantages.

    Raises:
        PilotFormatError: A table lacks one that others have.
    """
    columns = list(dict.fromkeys(name for b in run.batches for name in b.rewards))
    if not columns:
        raise PilotFormatError(
            f"{run.batches[0].name}: no column holds rewards as numbers. Name it with --reward-column."
        )
    found = [name for name in columns if name in (run.facts.rewards or run.rewards)]
    floats = [c for c in columns if c not in rewards_asked(sink)] if found else columns
    if not found:
        found = floats if len(floats) < 2 else (_explaining(run.batches, floats) or floats)
        if len(floats) > 1:
            how = (
                "they explain the advantages"
                if len(found) < len(floats)
                else "all columns of numbers; log_extra adds such"
            )
            sink.note(f"{run.name}: taken as reward functions: {', '.join(found)} ({how}); no log names them.")
    if lost := [name for name in run.facts.rewards if name not in columns]:
        sink.note(
            f"{run.name}: {run.facts.log or 'the log'} names rewards that no table has as numbers: {', '.join(lost)}."
        )
    if not found:
        raise PilotFormatError(f"{run.name}: holds no column of rewards. Name one with --reward-column.")
    if others := [c for c in floats if c not in found]:
        sink.note(f"{run.name}: columns that are not summed into the reward, or have weight 0: {', '.join(others)}.")
    for batch in run.batches:
        if missing := [name for name in found if name not in batch.rewards]:
            raise PilotFormatError(
                f"{batch.name}: no column {missing[0]!r}, a reward function that other tables have. Read files "
                "with the same reward functions together."
            )
    return found


def _explaining(batches: Sequence[LoggedBatch], columns: Sequence[str]) -> list[str] | None:
    """The most first columns whose sum gives every advantage, up to the scale of a group; None if none do."""
    for count in range(len(columns), 0, -1):
        weights = dict.fromkeys(columns[:count], 1.0)
        if all(_explains(b, weights) for b in batches):
            return list(columns[:count])
    return None


def _explains(batch: LoggedBatch, weights: Mapping[str, float]) -> bool:
    if batch.advantage is None or any(name not in batch.rewards for name in weights):
        return False
    ends = np.flatnonzero(np.append(batch.keys[1:] != batch.keys[:-1], True)) + 1
    total = finite(combined(batch, weights))
    for rewards, advantages in zip(np.split(total, ends[:-1]), np.split(batch.advantage, ends[:-1]), strict=True):
        known = ~np.isnan(rewards) & ~np.isnan(advantages)
        r, a = rewards[known], advantages[known]
        if r.size < 2:
            continue
        r, a = r - r.mean(), a - a.mean()
        silent = float(np.abs(a).max()) <= NO_ADVANTAGE
        if silent or float(np.abs(r).max()) <= NO_ADVANTAGE:
            if not silent or float(np.abs(r).max()) > NO_ADVANTAGE:
                return False
            continue
        if float(r @ a) < (1 - CLOSE) * math.sqrt(float(r @ r) * float(a @ a)):
            return False
    return True


def _say_how_many(run: LoggedRun, kept: Sequence[LoggedBatch], evaluated: set[int], sink: RolloutSink) -> None:
    """A note on the generation batches of training that are not on disk, where there are such."""
    facts, read = run.facts, len({b.step for i, b in enumerate(kept) if i not in evaluated})
    lost = 0 if run.appended else len(evaluated - {i for i, b in enumerate(kept) if not b.step})
    every = facts.whole("logging_steps")
    why = f" (logging_steps = {every})" if every is not None and every > 1 else ""
    keeps = f"only the last generation batch before each log is written{why}"
    accumulation, per = facts.whole("gradient_accumulation_steps"), facts.whole("steps_per_generation")
    if facts.last_step and accumulation and per:
        total = math.ceil(facts.last_step * accumulation / (per * (facts.whole("num_iterations") or 1)))
        if read < total:
            causes = [f"{lost} overwritten by evaluation"] if lost else []
            causes += [keeps] if read + lost < total else []
            sink.note(
                f"{run.name}: {read} of the {total} generation batches of training were read: {'; '.join(causes)}."
            )
        return
    steps = {b.step for b in run.batches if b.step}
    last = max(facts.last_step or 0, *steps) if steps else 0
    if (gaps := last - len(steps)) > 0:
        sink.note(f"{run.name}: tables of {len(steps)} of {last} steps were read, {gaps} are missing: {keeps}.")
