"""Which column is what: usual names, confirmed by the values of a sample; what the user names comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.values import list_of, reward_of

PROMPT_NAMES = (
    "prompt_id problem_id question_id task_id example_id group_id doc_id prompt_hash uid prompt question problem query "
    "instruction input id idx index"
).split()
REWARD_NAMES = (
    "reward rewards score scores correct is_correct passed pass success is_success solved acc accuracy outcome"
).split()
N_NAMES = (
    "n num_samples n_samples num_rollouts n_rollouts rollouts num_generations attempts num_attempts trials total "
    "num_total samples"
).split()
K_NAMES = (
    "k c num_correct n_correct correct_count num_passed n_passed pass_count successes num_success num_successes passes "
    "num_pass solved_count"
).split()
RATE_NAMES = "pass_rate solve_rate success_rate correct_rate solved_rate pass@1 mean_reward avg_reward".split()
COUNT_OR_REWARD = frozenset({"correct", "passed", "pass", "success", "solved"})
RATE_OR_REWARD = frozenset({"acc", "accuracy", "score", "reward"})
STRATUM_NAMES = "stratum data_source dataset benchmark domain subject category level source".split()
TEMPERATURE_NAMES = "temperature sampling_temperature temp".split()
TOKEN_NAMES = (
    "response_tokens completion_tokens output_tokens num_tokens n_tokens response_length completion_length"
).split()
POLICY_NAMES = "model model_name model_id policy checkpoint".split()
STEP_NAMES = "step global_step training_step iteration visit epoch".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """Name of the column that plays each role, or None.

    ``shape`` is ``"long"`` (a row is a rollout), ``"wide"`` (a row is a prompt with counts) or ``"lists"``
    (a row is a prompt with a list of rewards).
    """

    shape: str
    prompt: str | None = None
    reward: str | None = None
    n: str | None = None
    k: str | None = None
    pass_rate: str | None = None
    stratum: str | None = None
    temperature: str | None = None
    response_tokens: str | None = None
    policy: str | None = None

    def roles(self) -> dict[str, str]:
        """Column of each role that has one."""
        names = (f.name for f in fields(self) if f.name != "shape")
        return {role: column for role in names if (column := getattr(self, role)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The first rows of a table: column names in order, and their values."""

    name: str
    columns: Mapping[str, Sequence[object]]

    @property
    def listing(self) -> str:
        """Column names for a message."""
        names = list(self.columns)
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "(none)"


def find_columns(sample: Sample, given: Mapping[str, str | None], *, constant_n: bool) -> tuple[ColumnMap, list[str]]:
    """Roles of the columns of a table, and notes on what was assumed.

    Args:
        sample: First rows.
        given: Role to column, as named by the user; these are never second-guessed.
        constant_n: The user said how many rollouts each prompt has.

    Raises:
        PilotFormatError: A named column is missing, or no column can play a needed role.
    """
    by_name = {_plain(name): name for name in reversed(list(sample.columns))}
    named = {role: column for role, column in given.items() if column is not None}
    for role, column in named.items():
        if column not in sample.columns:
            raise PilotFormatError(
                f"{sample.name}: no column {column!r} (asked for as {role}). Columns: {sample.listing}."
            )

    def first(role: str, names: Sequence[str]) -> str | None:
        return named.get(role) or next((by_name[n] for n in names if n in by_name), None)

    n, k, rate = first("n", N_NAMES), first("k", K_NAMES), first("pass_rate", RATE_NAMES)
    reward = first("reward", REWARD_NAMES)
    has_n = n is not None or constant_n
    if reward is not None and "reward" not in named and has_n and k is None and rate is None:
        plain = _plain(reward)
        if plain in COUNT_OR_REWARD and _is_count(sample.columns[reward]):
            k, reward = reward, None
        elif plain in RATE_OR_REWARD and _is_rate(sample.columns[reward]):
            rate, reward = reward, None
    common = {
        "stratum": first("stratum", STRATUM_NAMES),
        "temperature": first("temperature", TEMPERATURE_NAMES),
        "response_tokens": first("response_tokens", TOKEN_NAMES),
        "policy": first("policy", POLICY_NAMES),
    }
    # What the user names decides the shape; otherwise counts, then rewards, then rates.
    wide_named = "k" in named or "pass_rate" in named
    if reward is not None and not wide_named and _is_list(sample.columns[reward]):
        found = ColumnMap(shape="lists", prompt=first("prompt", PROMPT_NAMES), reward=reward, **common)
    elif "reward" not in named and has_n and (k is not None or (rate is not None and reward is None) or wide_named):
        rate_used = None if k is not None and "pass_rate" not in named else rate
        found = ColumnMap(
            shape="wide",
            prompt=first("prompt", PROMPT_NAMES),
            n=n,
            k=None if rate_used else k,
            pass_rate=rate_used,
            **common,
        )
    elif reward is not None and not wide_named:
        prompt = named.get("prompt") or _repeating(sample, by_name)
        if prompt is None:
            raise PilotFormatError(
                f"{sample.name}: no column names the prompt of a rollout. Columns: {sample.listing}. "
                "Name it with --prompt-column (prompt=)."
            )
        found = ColumnMap(shape="long", prompt=prompt, reward=reward, **common)
    elif k is not None or rate is not None:
        raise PilotFormatError(
            f"{sample.name}: column {k or rate!r} needs the number of rollouts behind it, and no column gives it. "
            f"Columns: {sample.listing}. Name it with --n-column (n=), or give it with --rollouts-per-prompt "
            "(rollouts_per_prompt=)."
        )
    else:
        raise PilotFormatError(
            f"{sample.name}: no column holds rewards or counts. Columns: {sample.listing}. "
            "Name it with --reward-column (reward=), or --k-column and --n-column (k=, n=)."
        )
    return found, _notes(sample, found, by_name)


def _notes(sample: Sample, found: ColumnMap, by_name: Mapping[str, str]) -> list[str]:
    shapes = {
        "long": "one row a rollout",
        "wide": "one row a prompt",
        "lists": "one row a prompt, rewards in a list",
    }
    used = ", ".join(f"{role} = {column!r}" for role, column in found.roles().items() if role != "policy")
    notes = [f"{sample.name}: {shapes[found.shape]}; {used}."]
    if found.prompt is None:
        notes.append(f"{sample.name}: no prompt column, so every row is its own prompt.")
    step = next((by_name[s] for s in STEP_NAMES if s in by_name), None)
    if step is not None and step not in found.roles().values():
        values = dict.fromkeys(map(str, sample.columns[step]))
        if len(values) > 1:
            notes.append(
                f"{sample.name}: column {step!r} takes several values; rollouts of different policies are pooled. "
                f"Keep one with --where {step}={next(iter(values))}."
            )
    return notes


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _repeating(sample: Sample, by_name: Mapping[str, str]) -> str | None:
    """First usual prompt column whose values repeat in the sample (``id`` may number the rows), else the first."""
    present = [by_name[n] for n in PROMPT_NAMES if n in by_name]
    for column in present:
        values = list(map(str, sample.columns[column]))
        if len(set(values)) < len(values):
            return column
    return present[0] if present else None


def _is_list(values: Sequence[object]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(list_of(v) is not None for v in known)


def _is_count(values: Sequence[object]) -> bool:
    numbers = _numbers(values)
    return bool(numbers) and all(v == int(v) for v in numbers) and max(numbers) > 1


def _is_rate(values: Sequence[object]) -> bool:
    numbers = _numbers(values)
    return bool(numbers) and any(v != int(v) for v in numbers) and min(numbers) >= 0 and max(numbers) <= 1


def _numbers(values: Sequence[object]) -> list[float]:
    out = []
    for value in values:
        if isinstance(value, bool):
            return []
        try:
            number = reward_of(value)
        except ValueError:
            return []
        if number is not None and abs(number) != float("inf"):
            out.append(number)
    return out
