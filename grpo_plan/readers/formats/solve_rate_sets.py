"""What the data sets with pass rates look like: names of columns, and the values in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._columns import first_values
from grpo_plan.readers.formats.solve_rates import FRACTION, SETS, read_rate_set
from grpo_plan.readers.rates import COMPUTED_DIGITS, NotARate, RateReading
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import is_missing, list_of, number_of

TABLES = ("jsonl", "json-array", "csv", "parquet", "arrow")
ALMOST_ALL = 0.9  # of values must fit where only many together tell
FAILED_OF = 16  # rollouts behind Skywork's model_difficulty


def _all(candidate: Candidate, column: str, fits: Callable[[Any], bool]) -> bool:
    """Whether the first values of a column fit, those that are missing aside, and there is one."""
    values = [v for v in first_values(candidate, column) if not is_missing(v)]
    return bool(values) and all(fits(v) for v in values)


def _is_rate(value: Any) -> bool:
    number = None if isinstance(value, bool) else number_of(value)
    return number is not None and 0.0 <= number <= 1.0


def _percent_of_128(value: Any, digits: int | None = None) -> bool:
    try:
        RateReading(percent=True, digits=digits).passes(value, 128)
    except NotARate:
        return False
    return not isinstance(value, bool)


def _has_rates(candidate: Candidate, *, beside: Sequence[str], columns: Sequence[str]) -> bool:
    there = [name for name in columns if name in candidate.columns]
    if candidate.kind not in TABLES or not there or not candidate.has(*beside):
        return False
    return all(_all(candidate, name, _is_rate) or not _any(candidate, name) for name in there)


def _any(candidate: Candidate, column: str) -> bool:
    return any(not is_missing(v) for v in first_values(candidate, column))


def _is_skywork(candidate: Candidate) -> bool:
    if candidate.kind not in TABLES or not candidate.has("prompt", "extra_info"):
        return False
    return _all(candidate, "extra_info", _has_difficulty)


def _has_difficulty(value: Any) -> bool:
    inner = value.get("model_difficulty") if isinstance(value, dict) else None
    if not isinstance(inner, dict) or not inner:
        return False
    return all(v is None or (type(v) is int and 0 <= v <= FAILED_OF) for v in inner.values())


def _is_polaris(candidate: Candidate) -> bool:
    if candidate.kind not in TABLES or not candidate.has("problem", "difficulty"):
        return False
    return _all(candidate, "difficulty", lambda v: isinstance(v, str) and FRACTION.match(v) is not None)


def _is_intellect_3(candidate: Candidate) -> bool:
    names = [n for n in SETS["intellect-3"].columns(candidate.columns) if "_qwen3" in n]
    return _has_rates(candidate, beside=("question",), columns=names)


def _is_synthetic_2(candidate: Candidate) -> bool:
    found = SETS["synthetic-2"].columns(candidate.columns)
    if candidate.kind not in TABLES or not found or not all("/" in model for model in found):
        return False
    return candidate.has("prompt") and all(
        _all(candidate, f"{model}_responses", lambda v: list_of(v) is not None) for model in found
    )


def _is_lime_difficulty(candidate: Candidate) -> bool:
    if candidate.kind not in TABLES or not candidate.has("problem", "difficulty"):
        return False
    values = [v for v in first_values(candidate, "difficulty") if not is_missing(v)]
    fits = [v for v in values if _percent_of_128(v, digits=COMPUTED_DIGITS)]  # levels such as 5.5 come near too
    fractions = {n for v in fits if (n := number_of(v)) is not None and n != int(n)}
    return len(fractions) > 1 and len(fits) > ALMOST_ALL * len(values)


def _is_lime_solved(candidate: Candidate) -> bool:
    if candidate.kind not in TABLES or not candidate.has("problem", "ground_truth", "solved_percentage"):
        return False
    return _all(candidate, "solved_percentage", _percent_of_128)


def _is_deepmath(candidate: Candidate) -> bool:
    return candidate.kind in TABLES and candidate.has("question", "final_answer", "difficulty", "r1_solution_1")


def _refuse_deepmath(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    raise PilotFormatError(
        f"{files[0].name}: difficulty of DeepMath-103K is an annotated level, not a pass rate of any model. Roll out a "
        "pilot of your own policy on a sample of its prompts."
    )


def _format(
    name: str, tool: str, reads: str, evidence: Evidence, looks_like: Callable[[Candidate], bool], *limits: str
) -> Format:
    return Format(
        name=name,
        tool=tool,
        files="the data set as Parquet, JSONL or CSV",
        reads=reads,
        evidence=evidence,
        limits=("pass rates of another model than yours: a weak prior, and every answer says so", *limits),
        looks_like=looks_like,
        pilot=partial(read_rate_set, name),
    )


DOC, INF = Evidence.DOCUMENTED, Evidence.INFERRED
FORMATS = (
    _format(
        "big-math", "SynthLabsAI/Big-Math-RL-Verified", "llama8b_solve_rate (64 rollouts of Llama-3.1-8B)", INF,
        partial(_has_rates, beside=("problem",), columns=("llama8b_solve_rate",)),
        "n = 64 is that of the paper",
    ),
    _format(
        "skywork-or1", "Skywork/Skywork-OR1-RL-Data", "model_difficulty: how many of 16 rollouts failed", INF,
        _is_skywork,
        "several models: choose one with --reward-column",
    ),
    _format(
        "polaris", "POLARIS-Project/Polaris-Dataset-53K", "difficulty, k/8 passed (DeepSeek-R1-Distill-Qwen-7B)", DOC,
        _is_polaris, "prompts that always passed were removed from the data set",
    ),
    _format(
        "intellect-2", "PrimeIntellect/INTELLECT-2-RL-Dataset", "solve_rate_qwen_r1_distill_7b", DOC,
        partial(_has_rates, beside=("prompt",), columns=("solve_rate_qwen_r1_distill_7b",)),
        "n is not documented: it is told from the rates, or asked for",
    ),
    _format(
        "intellect-3", "PrimeIntellect/INTELLECT-3-RL", "avg@n_<model>: n is in the name of the column", DOC,
        _is_intellect_3, "a mean of graded rewards is refused",
    ),
    _format(
        "synthetic-2", "PrimeIntellect/SYNTHETIC-2", "<model>_avg_reward, n from <model>_responses", DOC,
        _is_synthetic_2,
        "several models: choose one with --reward-column", "a mean of graded rewards is refused",
    ),
    _format(
        "guru", "LLM360 Guru-RL", "qwen2.5_7b_pass_rate or qwen3_30b_pass_rate (16 rollouts)", INF,
        partial(_has_rates, beside=("prompt",), columns=("qwen2.5_7b_pass_rate", "qwen3_30b_pass_rate")),
        "n = 16 is what the rates show",
    ),
    _format(
        "openmath-reasoning", "nvidia/OpenMathReasoning",
        "pass_rate_72b_tir (32 rollouts of Qwen2.5-Math-72B-Instruct)",
        INF, partial(_has_rates, beside=("problem",), columns=("pass_rate_72b_tir",)), "n = 32 is what the rates show",
    ),
    _format(
        "lime-difficulty", "lime-nlp/*_Difficulty", "difficulty: percent of 128 rollouts that failed (Qwen2.5-Math-7B)",
        DOC, _is_lime_difficulty,
    ),
    _format(
        "lime-solved", "lime-nlp/*_Difficulty",
        "solved_percentage: percent of 128 rollouts that passed (Qwen2.5-Math-7B)", INF, _is_lime_solved,
        "the name of the column is known from a program that reads it",
    ),
    Format(
        name="deepmath",
        tool="zwhe99/DeepMath-103K",
        files="the data set as Parquet or JSONL",
        reads="nothing: its difficulty is an annotated level",
        evidence=DOC,
        limits=("no pass rate is in it, so it is refused",),
        looks_like=_is_deepmath,
        pilot=_refuse_deepmath,
    ),
)  # fmt: skip
