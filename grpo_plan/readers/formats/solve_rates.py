"""Data sets that ship the pass rate of some model for every prompt: weak priors for another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._columns import Columns, column_batches, first_values
from grpo_plan.readers.formats._dumps import distinct
from grpo_plan.readers.formats._rows import chosen_reward
from grpo_plan.readers.rates import NotARate, RateColumn, RateReading, decimal_of, reading_of
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.values import is_missing, number_of, shown, text_of

FRACTION = re.compile(r"^\s*(\d{1,9})\s*/\s*(\d{1,9})\s*$")
PROMPTS = ("problem", "question", "prompt", "problem_id")
STRATA = ("data_source", "source", "task_type", "problem_source", "domain", "topic")
RATE, FAILS, FAIL_PERCENT, PERCENT, RATIO = "rate", "fails", "fail-percent", "percent", "ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSet:
    """One data set, or a family of them.

    Attributes:
        columns: Columns of rates among the names of all columns: the name that the user chooses by, to the column.
        rollouts: n of the rates of a column; None where each row tells it or the rates must show it.
        meaning: What a value is: a rate, a number of fails, a percentage of fails or of passes, or a text k/n.
        model: Whose rates a column holds.
        inside: Field of the column that maps models to values, where that is how they are kept.
        lists: Column whose lists are the n of each row, for a column of rates.
        temperature: Sampling temperature, where it is documented.
        note: What else to say of it.
        removed: Which prompts were taken out of it by these rates (`grpo_plan.provenance.REMOVED`), if any.
    """

    columns: Callable[[Mapping[str, str]], Mapping[str, str]]
    rollouts: Callable[[str], int | None]
    meaning: str = RATE
    model: Callable[[str], str]
    inside: str | None = None
    lists: Callable[[str], str] | None = None
    temperature: float | None = None
    note: str | None = None
    removed: str | None = None


def _column(name: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    return lambda columns: {name: name} if name in columns else {}


def _matching(pattern: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    found = re.compile(pattern)
    return lambda columns: {name: name for name in columns if found.fullmatch(name)}


def _synthetic_2(columns: Mapping[str, str]) -> Mapping[str, str]:
    models = [n.removesuffix("_avg_reward") for n in columns if n.endswith("_avg_reward")]
    return {m: f"{m}_avg_reward" for m in models if f"{m}_responses" in columns}


def _always(value: Any) -> Callable[[str], Any]:
    return lambda _: value


SETS = {
    "big-math": RateSet(
        columns=_column("llama8b_solve_rate"), rollouts=_always(64), model=_always("Llama-3.1-8B"),
        note="n = 64 is that of the paper; the data set does not state it",
    ),
    "skywork-or1": RateSet(
        columns=_column("extra_info"), rollouts=_always(16), meaning=FAILS, model=lambda name: name,
        inside="model_difficulty", note="model_difficulty is the number of 16 rollouts that failed",
    ),
    "polaris": RateSet(
        columns=_column("difficulty"), rollouts=_always(None), meaning=RATIO,
        model=_always("DeepSeek-R1-Distill-Qwen-7B"),
        note="difficulty is the share that passed (0/8 is hardest); prompts with 8/8 were removed from the data set",
        removed="all-pass",
    ),
    "intellect-2": RateSet(
        columns=_matching(r"solve_rate_\w+"), rollouts=_always(None),
        model=lambda name: name.removeprefix("solve_rate_"),
    ),
    "intellect-3": RateSet(
        columns=_matching(r"avg@\d{1,9}_.+"), rollouts=lambda name: int(name[4:].partition("_")[0]),
        model=lambda name: name.partition("_")[2],
    ),
    "synthetic-2": RateSet(
        columns=_synthetic_2, rollouts=_always(None), model=lambda name: name,
        lists=lambda name: f"{name}_responses",
    ),
    "guru": RateSet(
        columns=_matching(r"qwen2\.5_7b_pass_rate|qwen3_30b_pass_rate"), rollouts=_always(16),
        model=lambda name: name.removesuffix("_pass_rate"),
        note="n = 16 is what the rates show; the data set does not state it",
    ),
    "openmath-reasoning": RateSet(
        columns=_column("pass_rate_72b_tir"), rollouts=_always(32),
        model=_always("Qwen2.5-Math-72B-Instruct with tools"),
        note="n = 32 is what the rates show; the data set does not state it",
    ),
    "lime-difficulty": RateSet(
        columns=_column("difficulty"), rollouts=_always(128), meaning=FAIL_PERCENT, model=_always("Qwen2.5-Math-7B"),
        temperature=0.6, note="difficulty is 100 times the share of 128 rollouts that failed",
    ),
    "lime-solved": RateSet(
        columns=_column("solved_percentage"), rollouts=_always(128), meaning=PERCENT, model=_always("Qwen2.5-Math-7B"),
        temperature=0.6, note="solved_percentage is 100 times the share of 128 rollouts that passed",
    ),
}  # fmt: skip


def read_rate_set(name: str, files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Counts of every prompt, from the rates of one model."""
    source, files = SETS[name], distinct(files, sink)
    columns = _columns_of(files)
    chosen = _chosen(source, columns, files, sink)
    model = source.model(chosen)
    sink.weak_prior, sink.removed = sink.weak_prior or model, source.removed
    column = chosen if source.inside is None else "extra_info"
    if source.inside is None:
        column = source.columns(columns)[chosen]
    lists = None if source.lists is None else source.lists(chosen)
    prompt, stratum = _named(request, "prompt", PROMPTS, columns), _named(request, "stratum", STRATA, columns)
    n = request.options.rollouts_per_prompt if lists is None else None
    n = source.rollouts(chosen) if n is None else n
    if lists is None and source.meaning == RATE and n is None:
        n = _shown_by_rates(files, column, sink)
    where = [name for name in request.options.where if name in columns]
    seen: set[tuple[str, int | None, int | None]] = set()
    needed = dict.fromkeys(c for c in (prompt, stratum, column, lists, *where) if c is not None)
    for file in files:
        for batch, place in column_batches(file, list(needed), sink, lengths=[lists] if lists else ()):
            values = [_value(v, source, chosen) for v in batch[column]]
            totals = batch[lists] if lists else [n] * len(values)
            counts = [
                _counts(v, t, source.meaning, chosen, partial(place, i))
                for i, (v, t) in enumerate(zip(values, totals, strict=True))
            ]
            kept = _new_problems(None if prompt is None else batch[prompt], counts, seen, sink)
            if len(kept) < len(counts):
                counts, place = [counts[i] for i in kept], partial(_moved, place, kept)
                batch = {name: [column[i] for i in kept] for name, column in batch.items()}
            filtered = {name: batch[name] for name in where}
            _add(sink, filtered, counts, batch, prompt, stratum, model, source, place, chosen)
    if again := sink.tally.dropped["repeated_problems"]:
        sink.note(
            f"{again:,} rows repeat a problem with the same rate, as where each solution has a row; it counts once."
        )
    if source.note is not None:
        sink.note(f"{source.note}.")
    _say_idle(request, sink, lists)


def _new_problems(
    prompts: Sequence[Any] | None,
    counts: Sequence[tuple[int | None, int | None]],
    seen: set[tuple[str, int | None, int | None]],
    sink: RolloutSink,
) -> list[int]:
    """Rows whose problem was not read before with the same counts; the others are counted as repeats."""
    if prompts is None:
        return list(range(len(counts)))
    kept = []
    for i, (prompt, (n, k)) in enumerate(zip(prompts, counts, strict=True)):
        key = (blake2b((text_of(prompt) or "").encode(errors="backslashreplace"), digest_size=12).hexdigest(), n, k)
        if prompt is None or key not in seen:
            kept.append(i)
            seen.add(key)
    sink.drop("repeated_problems", len(counts) - len(kept))
    return kept


def _moved(place: Callable[[int], str], kept: Sequence[int], i: int) -> str:
    return place(kept[i])


def _add(
    sink: RolloutSink,
    filtered: Columns,
    counts: Sequence[tuple[int | None, int | None]],
    batch: Columns,
    prompt: str | None,
    stratum: str | None,
    model: str,
    source: RateSet,
    place: Callable[[int], str],
    name: str,
) -> None:
    size = len(counts)
    columns: dict[str, Sequence[Any]] = {
        **filtered,
        "n": [n for n, _ in counts],
        "k": [k for _, k in counts],
        "policy": [model] * size,
    }
    if prompt is not None:
        columns["prompt"] = batch[prompt]
    if stratum is not None:
        columns["stratum"] = [text_of(v) for v in batch[stratum]]
    if source.temperature is not None:
        columns["temperature"] = [source.temperature] * size
    sink.add_counts(columns, place, k_name=name)


def _columns_of(files: Sequence[InputFile]) -> dict[str, str]:
    from grpo_plan.readers.candidates import look

    return dict(look(files[0]).columns)


def _chosen(source: RateSet, columns: Mapping[str, str], files: Sequence[InputFile], sink: RolloutSink) -> str:
    """The column (or model) of rates to read: the one named, or the only one."""
    names = list(source.columns(columns))
    if not names:
        raise PilotFormatError(f"{files[0].name}: no column of rates. Columns: {shown(list(columns), 20)}.")
    if source.inside is not None:
        from grpo_plan.readers.candidates import look

        inner = (_inner(v, source.inside) for v in first_values(look(files[0]), names[0]))
        names = list(dict.fromkeys(name for value in inner if value is not None for name in value))
    named = sink.request.given.get("reward") or sink.request.given.get("pass_rate")
    if named is not None and named not in names:
        raise PilotFormatError(f"{files[0].name}: no pass rates {named!r}. It has: {', '.join(names)}.")
    if named is None and len(names) > 1:
        raise PilotFormatError(
            f"{files[0].name}: holds pass rates of {len(names)} models ({', '.join(names)}). Choose one with "
            "--reward-column."
        )
    return named or next(iter(chosen_reward(names, sink, files[0].name)))


def _named(request: ReadRequest, role: str, usual: Sequence[str], columns: Mapping[str, str]) -> str | None:
    named = request.given.get(role)
    if named is not None and named not in columns:
        raise PilotFormatError(
            f"no column {named!r} (asked for as {role}). Columns: {', '.join(columns)}.{did_you_mean(named, columns)}"
        )
    return named or next((name for name in usual if name in columns), None)


def _shown_by_rates(files: Sequence[InputFile], column: str, sink: RolloutSink) -> int:
    """The n that the rates of all files show."""
    from grpo_plan.readers.counting import Tally

    rates, scratch = RateColumn(), RolloutSink(tally=Tally(), request=sink.request, format=sink.format)
    for file in files:
        for batch, place in column_batches(file, [column], scratch):
            for i, value in enumerate(batch[column]):
                if not is_missing(value) and decimal_of(value) is None:
                    raise PilotFormatError(f"{place(i)}: {column} is {shown([value])}, which is no rate.")
            rates.add(batch[column])
    reading, notes = reading_of(rates, files[0].name, column, fails=False, known_n=False)
    for note in notes:
        sink.note(note)
    return reading.rollouts or 0


def _inner(value: Any, field: str) -> Mapping[str, Any] | None:
    inner = value.get(field) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def _value(value: Any, source: RateSet, chosen: str) -> Any:
    if source.inside is None:
        return value
    inner = _inner(value, source.inside)
    return None if inner is None else inner.get(chosen)


def _counts(
    value: Any, n: int | None, meaning: str, name: str, place: Callable[[], str]
) -> tuple[int | None, int | None]:
    """Rollouts and passes of a prompt; None for passes where it has no rate."""
    if is_missing(value):
        return n, None
    if meaning == RATIO:
        found = FRACTION.match(str(value))
        if found is None or int(found[1]) > int(found[2]):
            raise PilotFormatError(f"{place()}: {name} is {shown([value])}, not passes/rollouts such as 3/8.")
        return int(found[2]), int(found[1])
    if n is None:
        return None, None
    if meaning == FAILS:
        failed = number_of(value)
        if failed is None or failed != int(failed) or not 0 <= failed <= n:
            raise PilotFormatError(f"{place()}: {name} is {shown([value])}, no number of fails of {n} rollouts.")
        return n, n - int(failed)
    reading = RateReading(percent=meaning in (PERCENT, FAIL_PERCENT), fails=meaning == FAIL_PERCENT)
    try:
        return n, reading.passes(value, n)
    except NotARate as error:
        why = {
            "range": "outside its range",
            "several": f"too coarse to tell how many of {n} rollouts passed",
            "none": f"no whole number of {n} rollouts",
        }[str(error)]
        raise PilotFormatError(
            f"{place()}: {name} is {shown([value])}, {why}. A mean of graded rewards? Keep other rows with --where; or "
            "give n with --rollouts-per-prompt (rollouts_per_prompt=)."
        ) from None


def _say_idle(request: ReadRequest, sink: RolloutSink, lists: str | None) -> None:
    idle = [r for r in ("n", "k", "fail_rate", "temperature", "policy") if request.given.get(r) is not None]
    if lists is not None and request.options.rollouts_per_prompt is not None:
        idle.append("rollouts_per_prompt")
    for role in idle:
        sink.note(f"{role} was given, but has no effect on this data set.")
