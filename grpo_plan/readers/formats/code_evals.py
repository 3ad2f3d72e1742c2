"""human-eval, EvalPlus and evalchemy: results of evaluations, one entry an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import distinct
from grpo_plan.readers.formats._rows import chosen_reward, document, json_rows
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import list_of, number_of, shown, text_of

BASE, PLUS = "base_status", "plus_status"
CORRECTNESS = ("correct", "is_correct", "correctness", "corrects", "model_correct")
ANSWERS = ("model_outputs", "model_answers")


class _Row(msgspec.Struct, gc=False):
    task_id: Any = None
    passed: Any = None
    result: Any = None


class _Told(_Row, gc=False):
    """A row with its answer, which only the groups need."""

    completion: Any = None


def _looks_like_human_eval(candidate: Candidate) -> bool:
    return (
        candidate.kind == "jsonl"
        and candidate.every_row_has("task_id", "completion", "passed", "result")
        and all(isinstance(row["passed"], bool) and isinstance(row["result"], str) for row in candidate.rows)
    )


def _read_human_eval(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    for file in distinct(files, sink):
        late = 0
        for batch in json_rows(file, _Told if sink.details else _Row, sink):
            rows: Sequence[Any] = batch.rows
            late += sum(row.result == "timed out" for row in rows)
            columns = {
                "prompt": [row.task_id for row in rows],
                "group": [f"{file.name} {text_of(row.task_id)}" for row in rows],
                "reward": [row.passed for row in rows],
                "result": [row.result for row in rows],
            }
            if sink.details:
                columns[TEXT] = [row.completion for row in rows]
            sink.add(columns, batch.place, reward_name="passed")
        if late:
            sink.note(f"{file.name}: {late:,} answers timed out; they count as failed.")


def _looks_like_evalplus(candidate: Candidate) -> bool:
    return candidate.kind in ("json", "jsonl") and len(candidate.rows) == 1 and _is_evalplus(candidate.rows[0])


def _is_evalplus(whole: Any) -> bool:
    tasks = whole.get("eval") if isinstance(whole, dict) else None
    if not isinstance(tasks, dict) or not tasks:
        return False
    return all(isinstance(a, list) and all(isinstance(x, dict) and BASE in x for x in a) for a in tasks.values())


def _checked(file: InputFile, is_of: Callable[[Any], bool], tool: str) -> dict[str, Any]:
    """A document, of the tool that the first of the files is of."""
    whole = document(file)
    if not is_of(whole):
        raise PilotFormatError(f"{file.name}: holds no results of {tool}. Is it damaged? Else leave it out.")
    return whole  # type: ignore[no-any-return]


def _read_evalplus(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    for file in distinct(files, sink):
        tasks: Mapping[str, Any] = _checked(file, _is_evalplus, "EvalPlus")["eval"]
        entries = [(str(task), answer) for task, answers in tasks.items() for answer in answers]
        names = [name for name in (BASE, PLUS) if any(_status(answer, name) is not None for _, answer in entries)]
        weights = chosen_reward(names, sink, file.name)
        if len(weights) != 1:
            raise PilotFormatError(f"{file.name}: {BASE} and {PLUS} are no sum. Choose one with --reward-column.")
        name = next(iter(weights))
        columns: dict[str, Sequence[Any]] = {
            "prompt": [task for task, _ in entries],
            "group": [f"{file.name} {task}" for task, _ in entries],
            "reward": [_passed(answer, name) for _, answer in entries],
        }
        sink.add(columns, lambda i, f=file, e=entries: f"{f.name}, {e[i][0]}", reward_name=name)  # type: ignore[misc]
        if name == PLUS:
            sink.note(f"{file.name}: an answer passes when it passes the base and the further tests.")


def _status(answer: Any, name: str) -> str | None:
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, str) else None


def _passed(answer: Any, name: str) -> bool | None:
    """Whether an answer passed; None where it was not tested."""
    wanted = [_status(answer, BASE)] if name == BASE else [_status(answer, BASE), _status(answer, PLUS)]
    if wanted[-1] is None:
        return None
    return all(status == "pass" for status in wanted)


def _looks_like_evalchemy(candidate: Candidate) -> bool:
    return candidate.kind in ("json", "jsonl") and len(candidate.rows) == 1 and _is_evalchemy(candidate.rows[0])


def _is_evalchemy(whole: Any) -> bool:
    results = whole.get("results") if isinstance(whole, dict) else None
    return isinstance(results, dict) and any(_examples(task) for task in results.values())


def _examples(task: Any) -> list[Any]:
    """Examples of a task that hold answers."""
    examples = task.get("examples") if isinstance(task, dict) else None
    if not isinstance(examples, list):
        return []
    return [e for e in examples if isinstance(e, dict) and any(isinstance(e.get(a), list) for a in ANSWERS)]


def _read_evalchemy(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    for file in distinct(files, sink):
        whole = _checked(file, _is_evalchemy, "evalchemy")
        model = whole.get("model_name")
        for name, task in whole["results"].items():
            examples = _examples(task)
            if not examples:
                continue
            graded = [_graded(example, f"{file.name}, {name}, example {i + 1}") for i, example in enumerate(examples)]
            flat = [(i, value) for i, values in enumerate(graded) for value in values]
            prompts = [
                text_of(e.get("problem") or e.get("question") or e.get("id") or i) for i, e in enumerate(examples)
            ]
            columns: dict[str, Sequence[Any]] = {
                "prompt": [prompts[i] for i, _ in flat],
                "group": [f"{file.name} {name} {i}" for i, _ in flat],
                "reward": [value for _, value in flat],
                "stratum": [name] * len(flat),
                "policy": [text_of(model)] * len(flat),
            }
            sink.add(columns, lambda j, n=name, x=flat, f=file: f"{f.name}, {n}, example {x[j][0] + 1}")  # type: ignore[misc]


def _graded(example: Mapping[str, Any], place: str) -> list[Any]:
    """Whether each answer of an example is right, where the example says so."""
    count = next(len(answers) for a in ANSWERS if (answers := list_of(example.get(a))) is not None)
    for name in CORRECTNESS:
        values = list_of(example.get(name))
        if values is None:
            continue
        if len(values) != count:
            raise PilotFormatError(
                f"{place}: {name} has {len(values)} items for {count} answers. Is the file complete?"
            )
        odd = [v for v in values if v is not None and number_of(v) is None]
        if odd:
            raise PilotFormatError(f"{place}: {name} holds {shown(odd[:1])}, which is neither right nor wrong.")
        return values
    raise PilotFormatError(
        f"{place}: evalchemy keeps {count} answers and the expected one, but not which are right. Grade them with the "
        "benchmark's own comparison, write a list of true and false beside them (as correct), and read the file again."
    )


FORMATS = (
    Format(
        name="human-eval",
        tool="human-eval",
        files="samples.jsonl_results.jsonl",
        reads="passed of every answer, task_id",
        evidence=Evidence.SOURCE,
        versions="1.0.3",
        limits=("model and temperature are not in the file",),
        looks_like=_looks_like_human_eval,
        pilot=_read_human_eval,
    ),
    Format(
        name="evalplus",
        tool="EvalPlus",
        files="*_eval_results.json",
        reads="base_status or plus_status of every answer, task",
        evidence=Evidence.INFERRED,
        limits=("model and temperature are not in the file",),
        looks_like=_looks_like_evalplus,
        pilot=_read_evalplus,
    ),
    Format(
        name="evalchemy",
        tool="evalchemy",
        files="<out>/<model>/results_<date>.json",
        reads="a list of right and wrong beside the answers of an example, if one was added",
        evidence=Evidence.SOURCE,
        versions="December 2025",
        limits=("evalchemy itself does not store which answers are right: they must be graded again",),
        looks_like=_looks_like_evalchemy,
        pilot=_read_evalchemy,
    ),
)
