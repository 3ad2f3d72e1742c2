"""`read_rollouts`: any table of rollouts to single rollouts with their lengths, with the columns of `read_pilot`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError, sentences
from grpo_plan.pilot import Pilot
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import Place, ReadOptions, Tally, count_rewards
from grpo_plan.readers.pilot_reader import read_into
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.rows import flatten_lists
from grpo_plan.readers.values import number_of, numbers_of, rewards_of, texts_of
from grpo_plan.rollouts import RolloutLengths, Rollouts

Floats = NDArray[np.float64]
SEPARATOR = "\x1f"  # between the parts of a group's key; no text uses it
ANY_THRESHOLD = 0.0  # of what passes, where only the rewards are asked for
OF_PASSES = ("pass_threshold", "pass rates are averages")  # of notes that speak of passes
FEWEST_ALIKE = 3  # groups that must each have one length before lengths are taken to be means


def read_rollouts(
    source: object,
    *,
    prompt: str | None = None,
    reward: str | None = None,
    n: str | None = None,
    k: str | None = None,
    pass_rate: str | None = None,
    fail_rate: str | None = None,
    stratum: str | None = None,
    temperature: str | None = None,
    response_tokens: str | None = None,
    policy: str | None = None,
    pass_threshold: float | None = None,
    rollouts_per_prompt: int | None = None,
    where: Mapping[str, str | float | Sequence[str]] | None = None,
    skip_malformed: bool | int = False,
    progress: Callable[[int], None] | None = None,
    format: str | None = None,
    reward_weights: Mapping[str, float] | None = None,
    split: str = "train",
    policy_steps: tuple[int | None, int | None] | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    weak_prior: str | None = None,
    prompt_count: str | None = None,
    groups_apart: bool = False,
) -> Rollouts:
    """Read single rollouts: their group, whether they passed, and how long they are.

    Where rows are counts of prompts, right and wrong rollouts get the mean lengths of their row, if it has these:
    ``lengths`` says so. The rollouts of a prompt are one group; where a source says what was sampled together, in a
    dump of a trainer, that is the group.

    Args:
        source: What to read, as in `read_pilot`, as are all that follow.
        prompt: Column that names the prompt.
        reward: Column of the reward, or of the list of rewards.
        n: Column of the rollouts of a prompt.
        k: Column of its passes.
        pass_rate: Column of its pass rate.
        fail_rate: Column of its share of failures.
        stratum: Column of its named part; equal prompt names in two parts are two prompts.
        temperature: Column of the sampling temperature; each is a group of its own.
        response_tokens: Column of the response length in tokens.
        policy: Column of the model.
        pass_threshold: A rollout passes when its reward is at least this.
        rollouts_per_prompt: n of every prompt, when no column has it.
        where: Keep rows whose column equals the value (or one of the values).
        skip_malformed: Drop and count malformed lines.
        progress: Called with the number of bytes of each block read.
        format: Name of a format.
        reward_weights: Reward functions to sum, each times its weight.
        split: Rows of training or of evaluation.
        policy_steps: First and last training step to keep.
        workers: As in `read_pilot`; here rows are read by one process.
        storage_options: Credentials and settings of addresses.
        weak_prior: Model of the rollouts, if another than the one to be trained.
        prompt_count: Column of the number of prompts, where a row stands for many.
        groups_apart: Whether groups of one prompt are not added up.

    Raises:
        PilotFormatError: The source cannot be read.
        PilotError: No prompt has a scored rollout.
        DomainError: An option is outside its domain.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"prompt_id": ["a", "a"], "reward": [1, 0], "response_tokens": [2, 8]})
    >>> read_rollouts(rows).tokens.tolist()
    [2.0, 8.0]
    """
    given = {
        "prompt": prompt, "reward": reward, "n": n, "k": k, "pass_rate": pass_rate, "fail_rate": fail_rate,
        "stratum": stratum, "temperature": temperature, "response_tokens": response_tokens, "policy": policy,
        "prompt_count": prompt_count,
    }  # fmt: skip
    request = request_of(
        given, pass_threshold=pass_threshold, rollouts_per_prompt=rollouts_per_prompt, where=where,
        skip_malformed=skip_malformed, format=format, reward_weights=reward_weights, split=split,
        policy_steps=policy_steps, progress=progress, weak_prior=weak_prior, workers=workers,
        storage_options=storage_options, groups_apart=groups_apart,
    )  # fmt: skip
    if prompt_count is not None:
        return Rollouts.from_pilot(read_into(Tally(), source, request))
    return _read(source, request)


def read_graded(
    source: object, *, reward: str | None = None, reward_weights: Mapping[str, float] | None = None
) -> Rollouts:
    """Rollouts with their rewards as they are, whatever passes; each step's group of a prompt apart.

    Args:
        source: What to read, as in `read_pilot`.
        reward: Reward function, where a source has several; without it their sum.
        reward_weights: Reward functions to sum, each times its weight.

    Raises:
        PilotFormatError: The source cannot be read.
        PilotError: No prompt has a scored rollout.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"prompt_id": ["a", "a", "b", "b"], "reward": [0.7, 0.2, 1.5, -1.0]})
    >>> read_graded(rows).rewards.tolist()
    [0.7, 0.2, 1.5, -1.0]
    """
    request = request_of(
        {"reward": reward}, pass_threshold=ANY_THRESHOLD, groups_apart=True, reward_weights=reward_weights
    )
    found = _read(source, replace(request, any_reward=True))
    notes = tuple(note for note in found.notes if not any(word in note for word in OF_PASSES))
    return replace(found, notes=notes)


def _read(source: object, request: ReadRequest) -> Rollouts:
    taken = _Taken()
    pilot = read_into(Tally(observer=taken.take), source, request)
    return taken.rollouts(pilot)


@dataclass(slots=True, kw_only=True)
class _Taken:
    """Rollouts as they are read."""

    prompts: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    cluster: list[int] = field(default_factory=list)
    parts: list[tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_], Floats, Floats, Floats]] = field(
        default_factory=list
    )
    steps: dict[int, int] = field(default_factory=dict)
    counted: bool = False

    def take(
        self, columns: Mapping[str, Sequence[Any]], roles: ColumnMap, options: ReadOptions, place: Place, tally: Tally
    ) -> None:
        """Take in a batch that the tally has just counted, so that its values are known to be valid."""
        if roles.shape in ("wide", "histogram"):
            self.counted = True
            return
        rows: Mapping[str, Sequence[Any]] = columns
        if roles.shape == "lists":
            flat, row_of = flatten_lists(columns, roles, place, Tally(rows=tally.rows))
            rows = flat | {"response_tokens": flat["split_tokens"]} if "split_tokens" in flat else flat
            if options.groups_apart:
                rows = {**rows, "group": [str(tally.rows + i) for i in row_of]}
        size = len(rows["reward"])
        if not size:
            return
        found = rewards_of(rows["reward"])
        scored, passed, _ = count_rewards(found, options.pass_threshold, place, "reward")
        rewards = np.where(scored, found, np.nan)
        given = numbers_of(rows["advantage"]) if "advantage" in rows else np.full(size, np.nan)
        lengths = numbers_of(rows["response_tokens"]) if "response_tokens" in rows else np.full(size, np.nan)
        names = texts_of(rows["prompt"])
        parts = [texts_of(rows[r]) for r in ("stratum", "temperature") if r in rows]
        own = [texts_of(rows[r]) for r in ("group", "step") if r in rows and ("group" in rows or options.groups_apart)]
        codes = np.array([self._code(names, parts, own, i) for i in range(size)], dtype=np.int64)
        kept = codes >= 0
        self.parts.append((codes[kept], scored[kept], passed[kept], lengths[kept], rewards[kept], given[kept]))
        if "step" in rows:
            for code, step in zip(codes.tolist(), rows["step"], strict=True):
                number = number_of(step)
                if code >= 0 and number is not None:
                    self.steps[code] = int(number)

    def _code(
        self, names: Sequence[str | None], parts: list[list[str | None]], own: list[list[str | None]], i: int
    ) -> int:
        """Number of the group of a row; -1 where it names no prompt."""
        name = names[i]
        if name is None:
            return -1
        prompt = SEPARATOR.join([name, *(part[i] or "" for part in parts)]) if parts else name
        key = SEPARATOR.join([prompt, *(part[i] or "" for part in own)]) if own else prompt
        code = self.groups.setdefault(key, len(self.groups))
        if code == len(self.cluster):
            self.cluster.append(self.prompts.setdefault(prompt, len(self.prompts)))
        return code

    def rollouts(self, pilot: Pilot) -> Rollouts:
        """What was read; counts where the rows were counts."""
        if not self.parts:
            return Rollouts.from_pilot(pilot)
        if self.counted:
            raise PilotFormatError(
                "Some rows are single rollouts and others counts of prompts. Read them apart: lengths of both kinds "
                "cannot be compared."
            )
        group, scored, passed, tokens, rewards, given = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        step = np.array([self.steps.get(i, -1) for i in range(len(self.cluster))], dtype=np.int64)
        found = Rollouts(
            group=group, cluster=np.array(self.cluster, dtype=np.int64), scored=scored, passed=passed, tokens=tokens,
            lengths=RolloutLengths.EACH, dropped=pilot.dropped, notes=sentences(*pilot.notes), rewards=rewards,
            advantages=given if np.isfinite(given).any() else None, step=step if self.steps else None,
            format=pilot.provenance.format,
        )  # fmt: skip
        return replace(found, lengths=_kind(found))


def _kind(rollouts: Rollouts) -> RolloutLengths:
    """Whether lengths are of rollouts: not where each of several groups has one length on all its rollouts."""
    known = np.isfinite(rollouts.tokens)
    if not known.any():
        return RolloutLengths.ABSENT
    group, tokens = rollouts.group[known], rollouts.tokens[known]
    low, high = np.full(rollouts.groups, np.inf), np.full(rollouts.groups, -np.inf)
    np.minimum.at(low, group, tokens)
    np.maximum.at(high, group, tokens)
    several = np.bincount(group, minlength=rollouts.groups) >= 2
    alike = several.sum() >= FEWEST_ALIKE and bool((low == high)[several].all())
    constant = bool(np.unique(tokens).size == 1)  # as where all were cut at one limit: these are lengths
    return RolloutLengths.REPEATED if alike and not constant else RolloutLengths.EACH
