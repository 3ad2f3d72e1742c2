"""Groups of a log: how large they are, whether the advantages agree, and their way into the sink."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.group_log import EQUAL_REWARDS
from grpo_plan.readers.formats._logged import ROLES, LoggedBatch, LoggedRun, Names, Portion
from grpo_plan.readers.formats._rows import chosen_reward
from grpo_plan.readers.sink import TEXT, RolloutSink

BATCH_ROWS = 200_000
NO_ADVANTAGE = 1e-3  # of the largest one: what rounding leaves of equal rewards, divided by a standard deviation near 0
SUM_OF_ADVANTAGES = 1e-2  # of the largest one, per rollout
ENOUGH_GROUPS = 8
UNIT = 0.01
SHOW = "Give the group size with --rollouts-per-prompt (rollouts_per_prompt=; group_size= in read_run)."


def group_size(portions: Sequence[Portion], wanted: int | None, origin: str) -> tuple[int | None, str]:
    """Group size of portions, and where it comes from; None if every prompt stands alone.

    Raises:
        PilotFormatError: No group size fits the runs of equal prompts.
    """
    if wanted is not None:
        return wanted, origin
    lengths = [p.runs()[1 if p.cut and p.runs().size > 1 else 0 :] for p in portions]
    if not lengths:
        return None, ""
    runs = np.concatenate(lengths)
    size = math.gcd(*(int(n) for n in np.unique(runs)))
    if size == 1 and runs.max() > 1:
        usual = math.gcd(*(int(n) for n in np.unique(runs) if n > 1))
        odd = next(
            (p for p, found in zip(portions, lengths, strict=True) if (found % max(2, usual)).any()), portions[0]
        )
        raise PilotFormatError(
            f"{odd.batch.name}: equal prompts come in runs of {_listed(odd.runs())}, which fits no "
            "group size that the other tables have. Leave this file out if it is damaged."
        )
    return (None, "") if size == 1 else (_split_further(portions, size), "from runs of equal prompts")


def _split_further(portions: Sequence[Portion], size: int) -> int:
    """A smaller group size, where prompts always come several times in a row: its groups' advantages sum to 0."""
    blocks = [
        a[a.size % size :].reshape(-1, size)
        for p in portions
        if (a := p.advantage) is not None and not (p.cut and a.size < size)
    ]
    if not blocks:
        return size
    values = np.concatenate(blocks)
    scale = float(np.abs(values).max()) or 1.0
    mixed = values[np.abs(values).max(axis=1) > NO_ADVANTAGE * scale]
    for smaller in (d for d in range(2, size) if size % d == 0):
        parts = mixed.reshape(-1, smaller)
        if np.any(np.abs(parts.sum(axis=1)) > SUM_OF_ADVANTAGES * scale):
            continue
        spread = parts[np.abs(parts).max(axis=1) > NO_ADVANTAGE * scale].std(axis=1, ddof=1)
        scaled = spread.size and np.all(np.abs(spread - 1.0) < UNIT)  # each divided by its own standard deviation
        if scaled or len(mixed) >= ENOUGH_GROUPS:
            return smaller
    return size


def whole_groups(portion: Portion, size: int, origin: str, sink: RolloutSink) -> Portion | None:
    """A portion of whole groups; rows of a group whose beginning the log dropped are counted and left out.

    Raises:
        PilotFormatError: Rows are left over, or a prompt changes inside a group.
    """
    batch, left = portion.batch, (portion.stop - portion.start) % size
    again = "Give another --rollouts-per-prompt." if "--rollouts" in origin else SHOW
    if left and not portion.cut:
        raise PilotFormatError(
            f"{batch.name}: {portion.stop - portion.start:,} rows are no whole number of groups of {size} ({origin}); "
            f"{left} {'is' if left == 1 else 'are'} left over. {again}"
        )
    if left:
        sink.drop("rows_of_cut_groups", left)
        portion = Portion(batch=batch, start=portion.start + left, stop=portion.stop, split=portion.split, cut=True)
        if portion.start == portion.stop:
            return None
    keys = portion.keys.reshape(-1, size)
    changes = np.flatnonzero(keys != keys[:, :1])
    if changes.size:
        raise PilotFormatError(
            f"{batch.place(portion.start + int(changes[0]))}: the prompt changes inside a group of {size} ({origin}); "
            f"equal prompts come in runs of {_listed(portion.runs())}. {again}"
        )
    return portion


def _listed(runs: NDArray[np.int64]) -> str:
    return ", ".join(str(n) for n in runs[:6]) + (", ..." if runs.size > 6 else "")


def combined(batch: LoggedBatch, weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Weighted sum of the rewards that are there, NaN where none is: as the trainers sum them."""
    values = np.stack([weight * batch.rewards[name] for name, weight in weights.items()])
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(values).all(axis=0), np.nan, np.nansum(values, axis=0))


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values with NaN for what is infinite: such a reward counts as not scored."""
    return np.where(np.isfinite(values), values, np.nan)


def compare_with_advantages(
    run: LoggedRun, portions: Sequence[tuple[Portion, int]], rewards: Sequence[str], sink: RolloutSink
) -> None:
    """Note where the trainer's advantages say otherwise than the rewards which groups are dead, and why."""
    weights = {name: sink.request.reward_weights.get(name, 1.0) for name in rewards}
    by_reward, by_advantage, with_none, sums = [], [], [], []
    scored_none, scale = 0, _scale([p for p, _ in portions])
    for portion, size in portions:
        advantage = portion.advantage
        if advantage is None:
            continue
        values = finite(combined(portion.batch, weights))[portion.start : portion.stop]
        groups, blocks = values.reshape(-1, size), advantage.reshape(-1, size)
        scored = ~np.isnan(groups)
        span = np.where(scored, groups, -np.inf).max(axis=1) - np.where(scored, groups, np.inf).min(axis=1)
        by_reward.append((scored.sum(axis=1) < 2) | ~(span > EQUAL_REWARDS))
        by_advantage.append(np.abs(blocks).max(axis=1) <= NO_ADVANTAGE * scale)
        with_none.append(~scored.all(axis=1))
        sums.append(np.abs(blocks.sum(axis=1)) > SUM_OF_ADVANTAGES * scale * size)
        scored_none += int((~scored & (np.abs(blocks) > NO_ADVANTAGE * scale)).sum())
    if not by_reward:
        return
    dead, silent, none = np.concatenate(by_reward), np.concatenate(by_advantage), np.concatenate(with_none)
    total, other = dead.size, int((dead != silent).sum())
    if scored_none:
        sink.note(
            f"{run.name}: {scored_none} rollouts without any reward have an advantage: this trainer took failed "
            "scoring for a reward of 0 (TRL before 1.6, ms-swift). Here they are not scored."
        )
    if other:
        config = run.facts.config
        why = (
            "the rewards were normalised apart"
            if config.get("multi_objective_aggregation") == "normalize_then_sum"
            or config.get("scale_rewards") == "gdpo"
            else "failed scoring was taken for 0"
            if scored_none and bool(none[dead != silent].all())
            else "rewards weighted otherwise, or normalised apart?"
            if len(rewards) > 1
            else "the cause is not known"
        )
        sink.note(
            f"{run.name}: {int(dead.sum())} of {total} groups are dead by their rewards, {int(silent.sum())} by the "
            f"trainer's advantages; {other} {'differs' if other == 1 else 'differ'} ({why}). Here rewards decide."
        )
    if (wrong := int(np.concatenate(sums).sum())) and not scored_none:
        sink.note(
            f"{run.name}: the advantages of {wrong} of {total} groups do not sum to 0. Is the group size right? {SHOW}"
        )


def _scale(portions: Sequence[Portion]) -> float:
    return (
        max((float(np.abs(a).max()) for p in portions if (a := p.advantage) is not None and a.size), default=1.0) or 1.0
    )


def add_portions(
    portions: Sequence[tuple[str, Portion, int | None]], rewards: Sequence[str], run: LoggedRun, names: Names,
    sink: RolloutSink,
) -> None:  # fmt: skip
    """Put rows into the sink, many tables at a time; each portion has a name and a group size."""
    weights = chosen_reward(rewards, sink, run.name)
    label = next(iter(weights)) if len(weights) == 1 else "sum of rewards"
    chosen = bool(sink.request.reward_weights) or sink.request.given.get("reward") is not None
    full = _trainers_weights(rewards, run.facts.config) if chosen else None
    temperature = run.facts.config.get("temperature")
    waiting: list[tuple[str, Portion, int | None]] = []
    for i, item in enumerate(portions):
        waiting.append(item)
        if i + 1 == len(portions) or sum(p.stop - p.start for _, p, _ in waiting) >= BATCH_ROWS:
            _add(waiting, weights, full, label, temperature, names, sink)
            waiting = []


def _trainers_weights(rewards: Sequence[str], config: Mapping[str, Any]) -> dict[str, float]:
    """Weights of the reward functions in the sum that the trainer compares: 1 each unless settings say otherwise."""
    given = config.get("reward_weights")
    known = isinstance(given, list | tuple) and len(given) == len(rewards)
    numbers = [float(w) for w in given if isinstance(w, int | float)] if known and given is not None else []
    return dict(zip(rewards, numbers if len(numbers) == len(rewards) else [1.0] * len(rewards), strict=True))


def _add(
    portions: Sequence[tuple[str, Portion, int | None]], weights: Mapping[str, float],
    full: Mapping[str, float] | None, label: str, temperature: object, names: Names, sink: RolloutSink,
) -> None:  # fmt: skip
    columns: dict[str, list[Any]] = {"prompt": [], "reward": [], "advantage": [], "step": [], "split": []}
    grouped = all(size is not None for _, _, size in portions)
    starts, total = [], 0
    given = sink.request.given
    roles = {role: name for role in ROLES if (name := given.get(role)) is not None and name != role}
    for name, p, size in portions:
        rows = p.stop - p.start
        starts.append(total)
        total += rows
        columns["prompt"] += [names[int(key)] for key in p.keys]
        columns["reward"] += combined(p.batch, weights)[p.start : p.stop].tolist()
        if full is not None:
            columns.setdefault("full_reward", []).extend(combined(p.batch, full)[p.start : p.stop].tolist())
        own = p.batch.advantage
        columns["advantage"] += [float("nan")] * rows if own is None else own[p.start : p.stop].tolist()
        columns["step"] += [p.batch.step] * rows
        columns["split"] += [p.split] * rows
        if sink.details:
            columns.setdefault(TEXT, []).extend(p.batch.texts[p.start : p.stop])
        if grouped:
            columns.setdefault("group", []).extend(f"{name}.{i // (size or 1)}" for i in range(rows))
        for column, values in p.batch.asked.items():
            if column not in ("step", "split", "reward", "advantage", "group"):
                columns.setdefault(column, []).extend(values[p.start : p.stop])
    for role, column in roles.items():
        columns[role] = columns[column]
    if "temperature" not in columns and isinstance(temperature, int | float) and not isinstance(temperature, bool):
        columns["temperature"] = [temperature] * total

    def place(row: int) -> str:
        part = bisect_right(starts, row) - 1
        portion = portions[part][1]
        return portion.batch.place(portion.start + row - starts[part])

    sink.add(columns, place, reward_name=label)
