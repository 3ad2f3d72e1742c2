"""``grpo-plan temperature``: the page, its JSON, files by temperature, counts, the picture, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from grpo_plan.cli.temperature import SAME_PROMPTS
from grpo_plan.pilot import Pilot
from grpo_plan.planning.temperature import plan_temperature
from grpo_plan.plots import plot_temperature
from tests.test_cli import Run, run  # noqa: F401

PASSES = {0.6: [8, 8, 7, 1, 0, 0, 0, 8], 1.0: [7, 6, 5, 2, 1, 0, 0, 7], 1.3: [5, 6, 4, 3, 2, 1, 0, 6]}


def write(path: str, temperatures: list[float], *, column: bool = True, copies: int = 30) -> None:
    """Counts of 8 x copies prompts at each temperature."""
    rows = [
        {"prompt_id": f"q{8 * c + i}", "n": 8, "k": k, **({"temperature": t} if column else {})}
        for t in temperatures
        for c in range(copies)
        for i, k in enumerate(PASSES[t])
    ]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_the_page_says_the_verdict_first(run: Run) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0, 1.3])
    answer = run("temperature", "p.jsonl", "--group-size", 4)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "Answer  T = 1.3 instead of 1"
    assert "counted apart" not in answer.err
    assert "p.jsonl" in answer.err
    assert lines[1].startswith("        T = 1.3 has fewer dead groups at G = 4 than T = 1: the interval")
    assert any(line.startswith("Price   pass@1 -") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "> 1.3  -0." in answer.out
    assert "What this rests on" in answer.out


def test_the_note_left_out_is_one_that_the_reader_writes(run: Run) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0])
    assert SAME_PROMPTS in run("fit", "p.jsonl", "--json").err


def test_json_agrees_with_the_library(run: Run) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0, 1.3])
    found = json.loads(run("temperature", "p.jsonl", "--group-size", 4, "--json").out)
    k = np.concatenate([PASSES[t] * 30 for t in PASSES])
    pilot = Pilot.from_counts(
        k, 8, prompt_id=[f"q{i}" for i in range(240)] * 3, temperature=np.repeat(list(PASSES), 240)
    )
    plan = plan_temperature(pilot, group_size=4)
    assert (found["verdict"], found["recommended"]) == (plan.verdict.name, plan.recommended) == ("CHANGE", 1.3)
    for row, d in zip(found["differences"], plan.differences, strict=True):
        assert d.dead is not None
        assert row["dead"]["value"] == pytest.approx(d.dead.value)
        assert row["dead"]["low"] == pytest.approx(d.dead.low)
        assert row["prompts"] == 240
    assert [at["temperature"] for at in found["temperatures"]] == [0.6, 1.0, 1.3]


def test_one_file_a_temperature_is_the_same(run: Run) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0])
    write("cool.jsonl", [0.6], column=False)
    write("warm.jsonl", [1.0])
    one = json.loads(run("temperature", "p.jsonl", "--json").out)
    files = run("temperature", "--pilot", "0.6=cool.jsonl", "--pilot", "1=warm.jsonl", "--json")
    other = json.loads(files.out)
    assert other["differences"] == one["differences"]
    assert "cool.jsonl" in files.err


def test_counts(run: Run) -> None:  # noqa: F811
    arguments = ["--dead-counts", "0.2=17/60", "--dead-counts", "0.8=14/60", "--dead-counts", "1=18/60"]
    answer = run("temperature", *arguments)
    assert answer.out.startswith("Answer  cannot tell\n")
    found = json.loads(run("temperature", *arguments, "--json").out)
    assert (found["verdict"], found["recommended"], len(found["differences"])) == ("CANNOT_TELL", None, 2)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_picture_is_written(run: Run, suffix: str) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0])
    answer = run("temperature", "p.jsonl", "-o", f"t.{suffix}")
    assert answer.code == 0
    assert f"t.{suffix} written." in answer.err
    assert Path(f"t.{suffix}").stat().st_size > 3000


def test_the_picture_shows_the_differences() -> None:
    k = [*PASSES[1.0] * 10, *PASSES[0.6] * 10]
    pilot = Pilot.from_counts(k, 8, prompt_id=[f"q{i}" for i in range(80)] * 2, temperature=[1.0] * 80 + [0.6] * 80)
    for size, face in ((8, "#1a1a1a"), (16, "white")):
        plan = plan_temperature(pilot, group_size=size)
        figure, ax = plt.subplots()
        assert plot_temperature(plan, ax) is ax
        d = plan.differences[0]
        assert d.dead is not None
        lines = [np.asarray(line.get_xdata(), dtype=float).tolist() for line in ax.get_lines()]
        for shown in (d.dead, d.pass_rate, d.reward_variance):
            assert shown is not None
            assert [shown.low, shown.high] in lines
            assert [shown.value] in lines
        mark = next(line for line in ax.get_lines() if line.get_label() == f"dead groups at G = {size}")
        assert mark.get_markerfacecolor() == face
        plt.close(figure)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "needs one of these"),
        (["p.jsonl", "--pilot", "0.6=p.jsonl"], 2, "needs one of these"),
        (["--pilot", "p.jsonl"], 2, "--pilot must be T=FILE"),
        (["--pilot", "warm=p.jsonl"], 2, "--pilot must be T=FILE"),
        (["--pilot", "nan=p.jsonl"], 2, "--pilot must be T=FILE"),
        (["--pilot", "0.6=p.jsonl", "--pilot", "0.60=p.jsonl"], 2, "names temperature 0.6 twice"),
        (["--pilot", "0.6=p.jsonl", "--pilot", "1=p.jsonl"], 1, "holds rollouts at 0.6, 1"),
        (["--pilot", "0.6=one.jsonl"], 1, "two or more temperatures; got 1 (0.6)"),
        (["one.jsonl"], 1, "two or more temperatures; got 1 (0.6)"),
        (["none.jsonl"], 1, "--temperature-column"),
        (["p.jsonl", "--baseline", "0.7"], 2, "baseline must be one of the pilot's temperatures"),
        (["p.jsonl", "--group-size", "1"], 2, "group_size must be at least 2"),
        (["p.jsonl", "--objective", "x"], 2, "objective must be one of"),
        (["p.jsonl", "-o", "t.gif"], 2, "--output must end in"),
        (["--pilot", "0.6=p.svg", "--pilot", "1=one.jsonl", "-o", "p.svg"], 2, "inputs are never written to"),
        (["--dead-counts", "0.6=3"], 2, "--dead-counts must be T=DEAD/GROUPS"),
        (["--dead-counts", "0.6=3/x", "--dead-counts", "1=1/2"], 2, "--dead-counts must be a whole number"),
        (["--dead-counts", "0.6=3/2", "--dead-counts", "1=1/2"], 2, "dead = 3 of 2 groups"),
        (["--dead-counts", "0.6=1/2", "--dead-counts", "1=1/2", "-o", "t.png"], 2, "--output draws pilots"),
        (["--dead-counts", "0.6=1/2"], 1, "two or more temperatures"),
    ],
)
def test_refusals_are_one_line(run: Run, arguments: list[str], code: int, message: str) -> None:  # noqa: F811
    write("p.jsonl", [0.6, 1.0], copies=2)
    write("p.svg", [0.6], copies=2)
    write("one.jsonl", [0.6], copies=2)
    write("none.jsonl", [0.6], column=False, copies=2)
    answer = run("temperature", *arguments)
    assert answer.code == code, answer.err
    assert answer.out == ""
    last = answer.err.splitlines()[-1]
    assert last.startswith("grpo-plan: ")
    assert message in last
