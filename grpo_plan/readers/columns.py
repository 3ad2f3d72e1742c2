"""Which column is what: usual names, confirmed by the values of a sample; what the user names comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.rates import decimal_of
from grpo_plan.readers.values import is_missing, list_of, number_of, one_line, reward_of, shown

PROMPT_NAMES = (
    "prompt_id problem_id question_id qid task_id example_id group_id doc_id prompt_hash prompt question problem query "
    "instruction input"
).split()
ROW_OR_PROMPT_NAMES = "uid id idx index".split()  # these may number the rows; taken only if nothing else names a prompt
REWARD_NAMES = (
    "reward rewards score scores correct is_correct passed pass success is_success solved acc accuracy outcome"
).split()
N_NAMES = (
    "n num_samples n_samples num_rollouts n_rollouts rollouts num_generations attempts num_attempts trials total "
    "num_total samples"
).split()
K_NAMES = (
    "k c num_correct n_correct num_right n_right correct_count num_passed n_passed pass_count successes num_success "
    "num_successes passes num_pass solved_count"
).split()
RATE_NAMES = "pass_rate solve_rate success_rate correct_rate solved_rate pass@1 mean_reward avg_reward".split()
FAIL_NAMES = "fail_rate failure_rate failed_rate".split()
MAYBE_FAIL_NAMES = "difficulty error_rate fail failed failures".split()  # never taken: they may mean either
COUNT_OR_REWARD = frozenset({"correct", "passed", "pass", "success", "solved"})
RATE_OR_REWARD = frozenset({"acc", "accuracy", "score", "reward"})
STRATUM_NAMES = "stratum data_source dataset benchmark domain subject category level source".split()
TEMPERATURE_NAMES = "temperature sampling_temperature temp".split()
TOKEN_NAMES = (
    "response_tokens completion_tokens output_tokens num_tokens n_tokens response_length completion_length "
    "num_output_tokens generated_tokens token_count response_len completion_len tokens"
).split()
POLICY_NAMES = "model model_name model_id policy checkpoint".split()
PROMPT_COUNT_NAMES = "prompts prompt_count num_prompts n_prompts number_of_prompts".split()
BARE_COUNT_NAMES = "count counts frequency".split()  # only in a table that has nothing else
USUAL_NAMES = {
    "prompt": PROMPT_NAMES, "reward": REWARD_NAMES, "n": N_NAMES, "k": K_NAMES, "pass_rate": RATE_NAMES,
    "fail_rate": FAIL_NAMES, "stratum": STRATUM_NAMES, "temperature": TEMPERATURE_NAMES, "policy": POLICY_NAMES,
    "response_tokens": TOKEN_NAMES, "prompt_count": PROMPT_COUNT_NAMES,
}  # fmt: skip
STEP_NAMES = "step global_step training_step iteration visit epoch".split()


class RatesAlone(PilotFormatError):
    """A column of rates whose n is not given; the rates themselves may show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """Name of the column that plays each role, or None.

    ``shape`` is ``"long"`` (a row is a rollout), ``"wide"`` (a row is a prompt with counts), ``"lists"``
    (a row is a prompt with a list of rewards) or ``"histogram"`` (a row is a number of prompts with the same counts).
    """

    shape: str
    prompt: str | None = None
    reward: str | None = None
    n: str | None = None
    k: str | None = None
    pass_rate: str | None = None
    fail_rate: str | None = None  # only if named so
    stratum: str | None = None
    temperature: str | None = None
    response_tokens: str | None = None
    policy: str | None = None
    session: str | None = None  # only if named, as is text
    text: str | None = None
    prompt_count: str | None = None
    step: str | None = None  # of training

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
        names = [one_line(name) for name in list(self.columns)[:21]]
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
    by_name |= {name: name for name in sample.columns}  # an exact name wins over one that differs in case
    named = {role: column for role, column in given.items() if column is not None}
    for role, column in named.items():
        if column not in sample.columns:
            raise PilotFormatError(
                f"{sample.name}: no column {column!r} (asked for as {role}). Columns: {sample.listing}."
                f"{_meant(column, role, by_name, sample)}"
            )
    for column in named.values():
        roles = [role for role, other in named.items() if other == column]
        if len(roles) > 1:
            raise PilotFormatError(f"{sample.name}: column {column!r} was given as {' and as '.join(roles)}; pick one.")

    def first(role: str, names: Sequence[str]) -> str | None:
        taken = set(named.values())
        return named.get(role) or next((by_name[n] for n in names if n in by_name and by_name[n] not in taken), None)

    prompt = first("prompt", PROMPT_NAMES) or _repeating(sample, by_name, set(named.values()))
    n, k, rate = first("n", N_NAMES), first("k", K_NAMES), first("pass_rate", RATE_NAMES)
    reward = first("reward", REWARD_NAMES)
    failing = named.get("fail_rate")
    if failing is None and k is None and rate is None and reward is None:
        failing = first("fail_rate", FAIL_NAMES)
    rate = failing or rate
    has_n = n is not None or constant_n
    rows_are_prompts = prompt is None or not _repeats(sample.columns[prompt])
    if reward is not None and "reward" not in named and has_n and k is None and rate is None and rows_are_prompts:
        plain = _plain(reward)
        if plain in COUNT_OR_REWARD and _is_count(sample.columns[reward]):
            k, reward = reward, None
        elif plain in RATE_OR_REWARD and _is_rate(sample.columns[reward], whole_too=plain in ("acc", "accuracy")):
            rate, reward = reward, None
    wide_named = bool({"k", "pass_rate", "fail_rate"} & named.keys())
    if reward is not None and not wide_named and not rows_are_prompts:
        n = k = rate = None  # one row a rollout: counts beside the reward describe the prompt as a whole
    common = {
        "stratum": first("stratum", STRATUM_NAMES),
        "temperature": first("temperature", TEMPERATURE_NAMES),
        "response_tokens": first("response_tokens", TOKEN_NAMES),
        "policy": first("policy", POLICY_NAMES),
        "session": named.get("session"),
        "text": named.get("text"),
    }
    # What the user names decides the shape; otherwise counts, then rewards, then rates.
    if reward is not None and not wide_named and _is_list(sample.columns[reward]):
        if prompt is not None and any(_is_list_of_prompts(v) for v in sample.columns[prompt]):
            raise PilotFormatError(
                f"{sample.name}: column {prompt!r} holds lists of prompts: one row is a whole batch, not a prompt. "
                "Write one row a rollout, or one row a prompt."
            )
        found = ColumnMap(shape="lists", prompt=prompt, reward=reward, **common)
    elif "reward" not in named and has_n and (k is not None or (rate is not None and reward is None) or wide_named):
        rate_used = None if k is not None and not {"pass_rate", "fail_rate"} & named.keys() else rate
        found = ColumnMap(
            shape="wide",
            prompt=prompt,
            n=n,
            k=None if rate_used else k,
            pass_rate=None if failing else rate_used,
            fail_rate=rate_used if failing else None,
            **common,
        )
    elif reward is not None and not wide_named:
        if "reward" not in named and prompt is not None and rows_are_prompts:
            _refuse_rates(sample, reward, has_n)
        if prompt is None:
            raise PilotFormatError(
                f"{sample.name}: no column names the prompt of a rollout. Columns: {sample.listing}. "
                "Name it with --prompt-column (prompt=)."
            )
        found = ColumnMap(shape="long", prompt=prompt, reward=reward, **common)
    elif k is not None or rate is not None:
        counted = k is not None and not {"pass_rate", "fail_rate"} & named.keys()
        error = PilotFormatError if counted else RatesAlone
        raise error(
            f"{sample.name}: column {k if counted else rate!r} needs the number of rollouts behind it, and no column "
            f"gives it. Columns: {sample.listing}. Name it with --n-column (n=), or give it with "
            "--rollouts-per-prompt (rollouts_per_prompt=)."
        )
    else:
        _refuse_a_column_a_run(sample, prompt)
        maybe = next((by_name[n] for n in MAYBE_FAIL_NAMES if n in by_name), None)
        hint = f" Is {maybe!r} the share that failed? Then give --fail-rate-column {maybe}." if maybe else ""
        hint += f" Its {n!r} was taken for the rollouts of a prompt." if n is not None else ""
        raise PilotFormatError(
            f"{sample.name}: no column holds rewards or counts. Columns: {sample.listing}. "
            f"Name it with --reward-column (reward=), or --k-column and --n-column (k=, n=).{hint}"
        )
    found, doubts = _as_histogram(sample, found, named, by_name)
    found, notes = _only_numbers(sample, found)
    notes = [*doubts, *notes]
    return found, [*_notes(sample, found, by_name), *notes, *_without_effect(sample, found, named, constant_n)]


def _meant(column: str, role: str, by_name: Mapping[str, str], sample: Sample) -> str:
    """The column that was meant, by its spelling, or else the one that has a usual name of the role."""
    usual = next((by_name[name] for name in USUAL_NAMES.get(role, ()) if name in by_name), None)
    near = did_you_mean(column, sample.columns)
    return near if near or usual is None else f" Did you mean {one_line(usual)!r}?"


def _refuse_a_column_a_run(sample: Sample, prompt: str | None) -> None:
    """Say how to reshape a table with a column of 0 and 1 for each run."""
    runs = [
        one_line(name)
        for name, values in sample.columns.items()
        if name != prompt and (known := [v for v in values if not is_missing(v)]) and all(map(_is_pass_or_fail, known))
    ]
    if len(runs) < 2:
        return
    shown_runs = ", ".join(runs if len(runs) <= 4 else [*runs[:2], "...", runs[-1]])
    raise PilotFormatError(
        f"{sample.name}: {len(runs)} columns hold 0 and 1 ({shown_runs}), so it seems a column is a run. Reshape it "
        "to one row a rollout (unpivot or melt) with a column reward, or put them into one column of lists."
    )


def _is_pass_or_fail(value: object) -> bool:
    try:
        return not isinstance(value, list | tuple) and reward_of(value) in (0.0, 1.0)
    except (ValueError, OverflowError):
        return False


def _refuse_rates(sample: Sample, column: str, has_n: bool) -> None:
    """Say which option reads a column of pass rates that has the name of a reward, one row a prompt."""
    values = [v for v in sample.columns[column] if not is_missing(v)]
    numbers = [x for v in values if (x := decimal_of(v)) is not None]
    plain = _plain(column)
    if plain not in RATE_OR_REWARD or len(values) < 2 or len(numbers) < len(values) or not 0 <= min(numbers):
        return
    written = any(isinstance(v, str) and ("%" in v or "," in v) for v in values)
    fractions = any(x != int(x) for x in numbers) and max(numbers) <= 1 and plain in ("acc", "accuracy")
    percent = 1 < max(numbers) <= 100 and (has_n or written)
    if percent or fractions or (written and max(numbers) <= 100):
        raise PilotFormatError(
            f"{sample.name}: column {column!r} holds {shown(values[:3])}, one row a prompt: pass rates, it seems, "
            f"and not rewards. Give --pass-rate-column {column} (pass_rate=), or for rewards --reward-column {column}."
        )


def _as_histogram(
    sample: Sample, found: ColumnMap, named: Mapping[str, str], by_name: Mapping[str, str]
) -> tuple[ColumnMap, list[str]]:
    """The roles of a histogram, if a column counts the prompts behind each row, and no column names a prompt."""
    column = named.get("prompt_count")
    if found.shape != "wide":
        if column is not None:
            raise PilotFormatError(
                f"{sample.name}: column {column!r} counts prompts, so each row needs counts n and k. Name their "
                "columns with --n-column and --k-column (n=, k=)."
            )
        return found, []
    if column is not None and "prompt" in named:
        raise PilotFormatError(
            f"{sample.name}: a row is one prompt (prompt=) or many (prompt_count=); give one of them."
        )
    if column is None:
        free = [c for c in sample.columns if c not in found.roles().values()]
        column = next((by_name[n] for n in PROMPT_COUNT_NAMES if by_name.get(n) in free), None)
        if column is None and len(free) == 1 and _plain(free[0]) in BARE_COUNT_NAMES and found.prompt is None:
            column = free[0]
        if column is None or not _is_count(sample.columns[column]):
            return found, []
        if found.prompt is not None and _plain(found.prompt) not in ROW_OR_PROMPT_NAMES:
            return found, [
                f"{sample.name}: column {column!r} is not used: column {found.prompt!r} names single prompts. If a row "
                "stands for many prompts, leave that column out."
            ]
    return replace(found, shape="histogram", prompt=None, response_tokens=None, prompt_count=column), []


def _only_numbers(sample: Sample, found: ColumnMap) -> tuple[ColumnMap, list[str]]:
    """Temperature and tokens only if they are numbers; a column of words is left out, and said so."""
    notes = []
    for role in ("temperature", "response_tokens"):
        column = getattr(found, role)
        if column is None:
            continue
        lists_too = role != "response_tokens" or found.shape == "lists"  # else a list is the tokens themselves
        values = [v for v in sample.columns[column] if not is_missing(v)]
        odd = [v for v in values if number_of(v) is None and not (lists_too and list_of(v) is not None)]
        if odd:
            notes.append(f"{sample.name}: column {column!r} is not used as {role}: {shown(odd[:1])} is no number.")
            found = replace(found, temperature=None) if role == "temperature" else replace(found, response_tokens=None)
    return found, notes


def _without_effect(sample: Sample, found: ColumnMap, named: Mapping[str, str], constant_n: bool) -> list[str]:
    """Notes on what the user gave and this shape has no use for."""
    idle = [
        role for role in ("reward", "n", "k", "pass_rate", "fail_rate") if role in named and role not in found.roles()
    ]
    if constant_n and found.shape not in ("wide", "histogram"):
        idle.append("rollouts_per_prompt")
    return [f"{sample.name}: {role} was given, but has no effect on a table of this shape." for role in idle]


def _notes(sample: Sample, found: ColumnMap, by_name: Mapping[str, str]) -> list[str]:
    shapes = {
        "long": "one row a rollout",
        "wide": "one row a prompt",
        "lists": "one row a prompt, rewards in a list",
        "histogram": "a histogram, one row a number of prompts with the same counts",
    }
    used = ", ".join(f"{role} = {column!r}" for role, column in found.roles().items() if role != "policy")
    notes = [f"{sample.name}: {shapes[found.shape]}; {used}."]
    if found.prompt is None and found.shape != "histogram":
        notes.append(f"{sample.name}: no prompt column, so every row is its own prompt; else name it: --prompt-column.")
    if found.pass_rate is not None and _plain(found.pass_rate) in (*FAIL_NAMES, *MAYBE_FAIL_NAMES):
        notes.append(
            f"{sample.name}: column {found.pass_rate!r} is read as the share that passed, as named. If it is the share "
            "that failed, give --fail-rate-column."
        )
    twice = [c for c in sample.columns if c.endswith("_duplicated_0")]
    if twice:
        first = twice[0].removesuffix("_duplicated_0")
        notes.append(f"{sample.name}: column {first!r} occurs more than once; the first is used.")
    return notes


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _repeating(sample: Sample, by_name: Mapping[str, str], taken: set[str]) -> str | None:
    """First of ``uid``, ``id``, ``idx``, ``index`` that repeats (one that numbers the rows does not), else any."""
    present = [by_name[n] for n in ROW_OR_PROMPT_NAMES if n in by_name and by_name[n] not in taken]
    return next((c for c in present if _repeats(sample.columns[c])), present[0] if present else None)


def _repeats(values: Sequence[object]) -> bool:
    texts = [str(v) for v in values]
    return len(set(texts)) < len(texts)


def _is_list(values: Sequence[object]) -> bool:
    return any(not isinstance(v, str) and list_of(v) is not None for v in values) or (
        any(v is not None for v in values) and all(list_of(v) is not None for v in values if v is not None)
    )


def _is_list_of_prompts(value: object) -> bool:
    """Several texts in one cell; a list of chat messages is one prompt."""
    items = None if isinstance(value, str) else list_of(value)
    return bool(items) and all(isinstance(item, str | int) for item in items or [])


def _is_count(values: Sequence[object]) -> bool:
    numbers = _numbers(values)
    return bool(numbers) and all(v == int(v) for v in numbers)


def _is_rate(values: Sequence[object], *, whole_too: bool) -> bool:
    numbers = _numbers(values)
    fraction = any(v != int(v) for v in numbers)
    return bool(numbers) and (fraction or whole_too) and min(numbers) >= 0 and max(numbers) <= 1


def _numbers(values: Sequence[object]) -> list[float]:
    out = []
    for value in values:
        if isinstance(value, bool):
            return []
        try:
            number = reward_of(value)
        except (ValueError, OverflowError):
            return []
        if number is not None and abs(number) != float("inf"):
            out.append(number)
    return out
