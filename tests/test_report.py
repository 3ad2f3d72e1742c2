"""Reports: every number is that of the command it names, what is missing has its reason, and no input is touched."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_plan.cli.main import main
from grpo_plan.cli.report_sources import BOTH, PERHAPS, PILOT, RUN, kind_of
from grpo_plan.costs import Budget, CostModel
from grpo_plan.errors import DomainError
from grpo_plan.example import example_run_lines
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.report.build import EVERYTHING, build_report
from grpo_plan.report.first import MEND
from grpo_plan.report.request import ASSUMED_STEP
from tests.test_cli import Answer

Run = Callable[..., Answer]
DATE = "2025-01-31"
KEYS = {
    "schema", "command", "title", "verdict", *EVERYTHING, "assumptions", "provenance", "trainer", "missing",
}  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["grpo-plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        captured = capsys.readouterr()
        return Answer(0 if code is None else int(code), captured.out, captured.err)

    return call


def payload(run: Run, *arguments: object) -> dict[str, Any]:
    """The payload of a report; NaN and infinities are refused."""
    answer = run("report", *arguments, "--json", "--date", DATE)
    assert answer.code == 0, answer.err
    body: dict[str, Any] = json.loads(answer.out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert set(body) == KEYS
    assert body["schema"] == 1
    assert body["command"] == "report"
    reasons = {entry["section"]: entry["reason"] for entry in body["missing"]}
    for section in (*EVERYTHING, "trainer"):
        assert (body[section] is None) == (section in reasons), section
        assert body[section] is not None or len(reasons[section]) > 20
    return body


def rows(path: Path, lines: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def counts(path: Path, successes: list[int], n: int = 8, **columns: Any) -> Path:
    return rows(path, [{"prompt_id": f"p{i}", "k": k, "n": n, **columns} for i, k in enumerate(successes)])


def again(run: Run, command: str) -> dict[str, Any]:
    """The JSON of a command line as provenance prints it; ``A > FILE && B`` writes the answer of A first."""
    first, _, second = command.partition(" && ")
    if second:
        first, _, file = first.partition(" > ")
        Path(file).write_text(run(*shlex.split(first)[1:]).out, encoding="utf-8")
    answer = run(*shlex.split(second or first)[1:])
    assert answer.code == 0, answer.err
    body: dict[str, Any] = json.loads(answer.out)
    return body


def assert_same_as_commands(run: Run, body: dict[str, Any], *expected: str) -> None:
    commands = body["provenance"]["commands"]
    assert set(commands) == set(expected)
    for section, command in commands.items():
        assert again(run, command) == body[section], command


MIXED = [0] * 70 + [1, 2, 3, 4, 5, 6, 7] * 10 + [8] * 60


def test_every_number_is_that_of_the_command_it_names(run: Run, tmp_path: Path) -> None:
    lines = [
        {"q": f"p{i}", "score": 0.25 * (j < k) + 0.75 * (j < k - 2), "part": "ab"[i % 2], "step": 3}
        for i, k in enumerate(MIXED)
        for j in range(8)
    ]
    rows(tmp_path / "my pilot.jsonl", lines)
    rows(tmp_path / "log.jsonl", [json.loads(line) for line in example_run_lines()])
    body = payload(
        run, "my pilot.jsonl", "log.jsonl", "--prompt-column", "q", "--reward-column", "score", "--thresholds", "1,0.25",
        "--stratum-column", "part", "--budget-rollouts", "2e6", "--steps", 500, "--trainer", "trl", "--gpus", 4,
        "--level", 0.9, "--kappa", "2:40", "--prompt-tokens", 100, "--group-sizes", "2,4,8,16",
    )  # fmt: skip
    assert_same_as_commands(run, body, "fit", "plan", "refill", "mix", "diagnose")
    assert body["diagnose"]["plan"]["source"] == "plan.json"
    assert body["strata"] == body["fit"]["strata"]
    assert body["trainer"] == body["plan"]["trainer"]
    assert [p["threshold"] for p in body["what_if"]["presets"]] == [1.0, 0.25]
    source, log = body["provenance"]["sources"]
    assert (source["role"], source["rows"], len(source["sha256"])) == ("pilot", len(lines), 64)
    assert log["role"] == "run"
    assert body["provenance"]["made"] == "2025-01-31T00:00:00+00:00"


def test_several_temperatures(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "cool.jsonl", MIXED)
    counts(tmp_path / "warm.jsonl", [min(8, k + 1) for k in MIXED])
    body = payload(run, "--pilot", "0.6=cool.jsonl", "--pilot", "1.0=warm.jsonl", "--group-sizes", "2,4,8")
    assert_same_as_commands(run, body, "fit", "plan", "refill", "temperature")
    assert body["temperature"]["baseline"] == 1.0
    assert "warm.jsonl" in body["provenance"]["commands"]["plan"]
    assert body["provenance"]["assumed"] == [ASSUMED_STEP]
    refused = run("report", "cool.jsonl", "warm.jsonl", "--json")
    assert refused.code == 2
    assert "--pilot T=FILE" in refused.err
    assert refused.err.count("\n") == refused.err.count("note:") + 1


def test_temperatures_in_one_table(run: Run, tmp_path: Path) -> None:
    both = [{"prompt_id": f"p{i}", "k": k, "n": 8, "temp": t} for t in (0.6, 1.0) for i, k in enumerate(MIXED)]
    rows(tmp_path / "both.jsonl", both)
    body = payload(run, "both.jsonl", "--temperature-column", "temp", "--group-sizes", "2,4,8")
    assert_same_as_commands(run, body, "fit", "plan", "refill", "temperature")
    assert "--where temp=1" in body["provenance"]["commands"]["fit"]


@pytest.mark.parametrize(
    ("successes", "n", "status", "absent"),
    [
        ([0] * 60, 4, "NO_SUCCESS", {"plan", "refill"}),
        ([4] * 60, 4, "NO_FAILURE", {"plan", "refill"}),
        ([0] * 30 + [4] * 30, 4, "ALL_DEAD", {"plan", "refill"}),
        ([0, 1] * 40, 1, "SINGLE_ROLLOUT", {"plan", "refill", "what_if"}),
        ([3], 8, "TOO_FEW_PROMPTS", set()),
    ],
    ids=["no pass", "no fail", "all dead", "one rollout", "one prompt"],
)
def test_what_cannot_be_planned_is_said(
    run: Run, tmp_path: Path, successes: list[int], n: int, status: str, absent: set[str]
) -> None:
    counts(tmp_path / "pilot.jsonl", successes, n)
    body = payload(run, "pilot.jsonl", "--group-sizes", "2,4")
    assert body["verdict"]["status"] == status
    assert body["verdict"]["first"]
    assert {s for s in ("plan", "refill", "what_if", "fit", "difficulty", "curve") if body[s] is None} == absent
    assert all(row["high"] <= 1.0 for row in body["curve"])


def test_pilots_without_dead_groups(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "mixed.jsonl", [1, 2, 3, 5, 7] * 40)
    body = payload(run, "mixed.jsonl", "--truncated", "--group-sizes", "2,8")
    assert body["verdict"]["status"] == "TRUNCATED"
    commands = body["provenance"]["commands"]
    for section in commands:
        assert again(run, commands[section]) == body[section]


def test_a_run_alone_is_a_diagnosis_with_what_its_aggregates_say(run: Run, tmp_path: Path) -> None:
    rows(tmp_path / "log.jsonl", [json.loads(line) for line in example_run_lines()])
    body = payload(run, "log.jsonl")
    assert body["fit"] is None
    assert body["plan"] is None
    assert body["curve"] is None
    assert_same_as_commands(run, body, "diagnose")
    assert [row["group_size"] for row in body["diagnose"]["what_if"]["rows"]] == [2, 4, 8, 16, 32, 64]
    assert body["verdict"]["sentences"][0].startswith("The run: ")
    repeated = shlex.split(body["provenance"]["command"])
    assert repeated == ["grpo-plan", "report", "log.jsonl", "--date", DATE]
    assert payload(run, "log.jsonl") == body


def test_rollouts_of_steps_give_a_pilot_of_the_first_ones(run: Run, tmp_path: Path) -> None:
    lines = [
        {"step": step, "prompt_id": f"p{i}", "completion": "x", "reward": int(j < (i + step) % 9)}
        for step in range(1, 6)
        for i in range(120)
        for j in range(8)
    ]
    rows(tmp_path / "rollouts.jsonl", lines)
    body = payload(run, "rollouts.jsonl", "--policy-steps", "1:1", "--group-sizes", "4")
    assert_same_as_commands(run, body, *body["provenance"]["commands"])
    assert body["fit"]["pilot"]["prompts"] == 120


def test_kinds_of_sources(tmp_path: Path) -> None:
    root = Path(__file__).parent / "data"
    kinds = {name: kind_of(str(root / name)) for name in ("trl/binary", "verl/v1", "wandb_export", "human_eval")}
    assert kinds == {"trl/binary": BOTH, "verl/v1": PERHAPS, "wandb_export": RUN, "human_eval": PILOT}


def test_a_trainers_folder_gives_run_and_pilot(run: Run) -> None:
    folder = Path(__file__).parent / "data" / "trl" / "binary"
    body = payload(run, folder, "--group-sizes", "2,4,8")
    assert body["diagnose"]["run"]["tool"] == "trl"
    assert body["fit"] is not None
    assert "--policy-steps" in body["provenance"]["commands"]["fit"]
    assert_same_as_commands(run, body, "fit", "plan", "refill", "diagnose")


def test_a_plan_beside_a_run(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    rows(tmp_path / "log.jsonl", [json.loads(line) for line in example_run_lines()])
    Path("expected.json").write_text(run("fit", "pilot.jsonl", "--json").out, encoding="utf-8")
    body = payload(run, "log.jsonl", "--plan", "expected.json")
    assert body["diagnose"]["plan"]["source"] == "expected.json"
    assert_same_as_commands(run, body, "diagnose")
    assert [source["role"] for source in body["provenance"]["sources"]] == ["run", "plan"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "needs a pilot or a run"),
        (("pilot.jsonl", "--json", "-o", "x.html"), "give one of the two"),
        (("pilot.jsonl", "-o", "x.pdf"), "must end in .html"),
        (("pilot.jsonl", "-o", "nowhere/x.html"), "no such folder"),
        (("pilot.html", "-o", "pilot.html"), "inputs are never written to"),
        (("pilot.jsonl", "--plan", "plan.html", "-o", "plan.html"), "inputs are never written to"),
        (("pilot.jsonl", "--plan", "pilot.jsonl", "--json"), "are for a run"),
        (("pilot.jsonl", "--thresholds", "a", "--json"), "--thresholds must be numbers"),
        (("pilot.jsonl", "--thresholds", "1", "--pass-threshold", 1, "--json"), "say the same thing"),
        (("pilot.jsonl", "--pilot", "1=pilot.jsonl", "--json"), "got another one"),
        (("pilot.jsonl", "--date", "soon", "--json"), "--date must be a date"),
        (("pilot.jsonl", "--budget-rollouts", "1e6", "--kappa", "no.json", "--json"), "--kappa must be"),
    ],
)
def test_errors_are_one_line(run: Run, tmp_path: Path, arguments: tuple[object, ...], says: str) -> None:
    for name in ("pilot.jsonl", "pilot.html", "plan.html"):
        counts(tmp_path / name, [0, 4, 8] * 20)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    answer = run("report", *arguments)
    assert answer.code == 2
    assert says in answer.err
    assert not answer.out
    assert len([line for line in answer.err.splitlines() if not line.startswith("note: ")]) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_source_date_epoch(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows(tmp_path / "log.jsonl", [json.loads(line) for line in example_run_lines()])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    body = json.loads(run("report", "log.jsonl", "--json").out)
    assert body["provenance"]["made"] == "1970-01-02T00:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH must be" in run("report", "log.jsonl", "--json").err


def test_a_report_in_python_spells_its_commands() -> None:
    pilot = Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4)
    report = build_report(
        pilot, budget=Budget(rollouts=100_000, steps=100), cost_of=lambda one: CostModel(prompt_rollouts=2.0), kappa=5.0,
        group_sizes=(2, 4), estimator="dr_grpo",
    )  # fmt: skip
    commands = report.document()["provenance"]["commands"]
    assert commands["plan"] == (
        "grpo-plan plan PILOT --budget-rollouts 100000 --steps 100 --prompt-cost 2 --kappa 5 --estimator dr_grpo "
        "--group-sizes 2,4 --json"
    )
    assert json.loads(report.text()) == report.document()
    with pytest.raises(DomainError, match="got neither"):
        build_report(None)


def test_the_payload_is_small_and_its_numbers_are_finite(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    body = payload(run, "pilot.jsonl", "--budget-rollouts", "2e6", "--steps", 500)
    assert len(json.dumps(body)) < 600_000

    def numbers(value: object) -> Iterator[float]:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for child in children:
            yield from numbers(child)
        if isinstance(value, float):
            yield value

    assert all(math.isfinite(number) for number in numbers(body))
    difficulty = body["difficulty"]
    assert sum(difficulty["histogram"][0]["prompts"]) == len(MIXED)
    assert math.isclose(sum(b["share"] for b in difficulty["rates"]), 1.0)
    smooth = sum(b["mass"] for b in difficulty["smooth"])
    assert math.isclose(smooth + difficulty["at_zero"] + difficulty["at_one"], 1.0, rel_tol=1e-9)


def test_every_key_is_documented(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    body = payload(run, "pilot.jsonl", "--group-sizes", "2,4,16")
    page = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")

    def keys(value: object) -> Iterator[str]:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if isinstance(value, dict):
            yield from value
        for child in children:
            yield from keys(child)

    own = [body[section] for section in ("verdict", "difficulty", "what_if", "missing")]
    data = {*body["what_if"]["presets"][0]["cost"], *body["what_if"]["ranges"], *body["provenance"]["commands"]}
    found = {*body, *keys([own, body["provenance"]])} - data
    absent = {
        k for k in found if f"`{k}`" not in page and f"`{k.removesuffix('_low').removesuffix('_high')}`" not in page
    }
    assert not absent


def test_the_page_is_written_whole_or_not_at_all(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_plan.report import result

    rows(tmp_path / "log.jsonl", [json.loads(line) for line in example_run_lines()])
    answer = run("report", "log.jsonl", "-o", "page.html")
    assert answer.code == 0, answer.err
    assert not answer.out
    assert answer.err.endswith("note: page.html written.\n")
    page = (tmp_path / "page.html").read_bytes()
    assert page.startswith(b"<!doctype html>") or page.startswith(b"<!DOCTYPE html>")
    assert run("report", "log.jsonl", "-o", "page.html").err.endswith("note: page.html replaced.\n")

    def interrupted(target: Path, content: str) -> None:
        raise KeyboardInterrupt

    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr(result, "write_whole", interrupted)
    monkeypatch.setattr(sys, "argv", ["grpo-plan", "report", "log.jsonl", "-o", "page.html"])
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# what is said first, and what is refused ------------------------------------------------------------------------


def test_every_status_has_a_first_step_in_whole_sentences() -> None:
    assert set(MEND) == set(FitStatus)
    acted_on = {FitStatus.OK, FitStatus.DEAD_KINDS_UNKNOWN}
    for status, text in MEND.items():
        told = text.format(n=8, size=64, half=32)
        assert (not told) == (status in acted_on)
        assert not told or (told[0].isupper() and told.endswith(".") and "{" not in told)
    for status in FitStatus:
        if status.about_source:
            assert MEND[status].startswith("Mend the pilot before you act on it: "), status


@pytest.mark.parametrize(
    ("successes", "options", "first"),
    [
        ([3], (), "roll out more prompts"),
        (MIXED, ("--weak-prior", "other"), "roll out the policy that you will train"),
        ([0] * 40 + [4, 5, 6, 7] * 30, (), "were removed by their own count"),
    ],
    ids=["one prompt", "another model", "selected"],
)
def test_a_pilot_to_mend_comes_before_its_plan(
    run: Run, tmp_path: Path, successes: list[int], options: tuple[str, ...], first: str
) -> None:
    counts(tmp_path / "pilot.jsonl", successes)
    verdict = payload(run, "pilot.jsonl", "--group-sizes", "4,8", *options)["verdict"]
    assert first in verdict["first"]
    assert "Train with" not in verdict["first"]
    assert verdict["sentences"][0].startswith(f"Provisional ({verdict['status']}): ")
    assert ("in 9 of 10" in verdict["sentences"][1]) == (len(successes) > 30)


def test_a_verdict_names_the_objective_that_picked(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    verdict = payload(run, "pilot.jsonl", "--objective", "rare-mode", "--group-sizes", "4,8")["verdict"]
    assert verdict["sentences"][0].endswith(": picked by rare-mode.")
    assert "kappa" not in f"{verdict['sentences']}{verdict['first']}"
    alone = payload(run, "pilot.jsonl", "--group-sizes", "8")["verdict"]["sentences"]
    assert alone[0] == "Groups of 8, 128 prompts a step, the only group size that was compared."


def test_alike_prompts_are_judged_by_groups_that_were_seen(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    told = payload(run, "pilot.jsonl", "--group-sizes", "512")["verdict"]["sentences"][2]
    assert "<1e-9: it does not see that prompts differ" in told


def test_the_finding_of_a_run_comes_first(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    logged = [json.loads(line) for line in example_run_lines()]
    rows(tmp_path / "log.jsonl", logged)
    body = payload(run, "pilot.jsonl", "log.jsonl", "--group-sizes", "4,8")
    graver = [f for f in body["diagnose"]["findings"] if f["severity"] != "info"]
    first = body["verdict"]["first"]
    if graver:
        assert first.startswith(graver[0]["remedy"])
        assert graver[0]["id"] in first
    else:
        assert first.startswith("The run shows no warning. For the next run: ")


def test_the_step_of_an_example_is_one_that_the_trainer_takes(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    words = ("pilot.jsonl", "--trainer", "trl", "--gpus", 7, "--micro-batch", 3, "--group-sizes", "2,4,8")
    body = payload(run, *words)
    assert body["plan"]["recommended"]["prompts_per_step"] == 126
    assert body["provenance"]["assumed"][0].startswith(
        "No budget was given: the plan is of one step of 126 prompts (trl"
    )
    assert again(run, body["provenance"]["commands"]["plan"]) == body["plan"]


def test_a_page_without_its_plan_says_so(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    answer = run("report", "pilot.jsonl", "--budget-rollouts", 1000, "--steps", 900, "-o", "page.html")
    assert answer.code == 0
    assert answer.err.count("note: the page holds no plan. ") == 1
    first = payload(run, "pilot.jsonl", "--budget-rollouts", 1000, "--steps", 900)["verdict"]["first"]
    assert first.startswith("Change the budget or another option of the plan, then report again. No design fits ")


def test_large_groups_are_left_out_of_the_tables(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    body = payload(run, "pilot.jsonl", "--group-sizes", "8,40000")
    assert body["what_if"]["presets"][0]["group_sizes"] == [8]
    assert "up to 40,000" in next(m["reason"] for m in body["missing"] if m["section"] == "what_if of large groups")
    assert body["refill"] is not None
    assert len(json.dumps(body)) < 2_000_000


def test_a_log_that_is_no_pilot_is_a_run(run: Run, tmp_path: Path) -> None:
    rows(tmp_path / "log.jsonl", [{"step": i, "reward": 0.4} for i in range(1, 31)])
    body = payload(run, "log.jsonl")
    assert body["diagnose"]["run"]["steps"] == 30
    assert "holds no rollouts" in body["verdict"]["status_sentence"]


def test_sources_are_counted_once_and_one_temperature_is_none(run: Run, tmp_path: Path) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    answer = run("report", "pilot.jsonl", "pilot.jsonl", "--group-sizes", "8", "--json")
    assert answer.code == 0
    assert "note: a source that is given twice is read once.\n" in answer.err
    assert json.loads(answer.out)["fit"]["pilot"]["prompts"] == len(MIXED)
    refused = run("report", "--pilot", "1=pilot.jsonl", "--json")
    assert (refused.code, "give two or more" in refused.err) == (2, True)


@pytest.mark.parametrize(
    "options",
    [
        ("--objective", "nosuch"), ("--group-sizes", "1"), ("--group-sizes", "2,0"), ("--group-sizes", "-4"),
        ("--group-sizes", "1e9"), ("--coherence", "nan"), ("--coherence", "1"), ("--max-dead", "nan"),
        ("--rare-share", "0"), ("--removed", ""), ("--kappa", "300:1"), ("--level", "2"),
        ("--prompts-per-step", "0"), ("--budget-rollouts", "1e15", "--steps", "5"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_options_are_refused_as_by_plan_and_before_the_read(run: Run, options: tuple[str, ...]) -> None:
    told = run("report", "no such file", *options, "--json")
    assert told.code == 2
    assert " must " in told.err
    size = () if "--prompts-per-step" in options or "--steps" in options else ("--prompts-per-step", "128")
    planned = run("plan", "no such file", *size, *options)
    assert (planned.code, planned.err) == (2, told.err)


@pytest.mark.parametrize(
    "options", [("--population", "1"), ("--truncated",), ("--dropped-groups", "5"), ("--removed", "dead")], ids=" ".join
)
def test_a_pilot_that_cannot_be_fitted_is_refused_as_by_fit(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    counts(tmp_path / "pilot.jsonl", MIXED)
    told, fit = (run(command, "pilot.jsonl", *options, "--json") for command in ("report", "fit"))
    assert told.code == fit.code != 0
    assert told.err == fit.err
    assert not told.out
