"""``grpo-plan passk``: the pages, their JSON, two policies from one file or two, the picture, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from grpo_plan.passk import compare_pass
from grpo_plan.pilot import Pilot
from tests.conftest import ROOT
from tests.test_cli import Run, document, run
from tests.test_docs import keys_of

__all__ = ["run"]  # a fixture
BASE = [4, 3, 5, 1, 1, 4, 2, 6]
TRAINED = [8, 8, 8, 0, 0, 8, 7, 8]
COPIES = 25


def write(path: str, steps: dict[str, list[int]], *, column: bool = False, names: str = "q") -> None:
    rows = [
        {"prompt_id": f"{names}{8 * c + i}", "n": 8, "k": k, **({"step": step} if column else {})}
        for step, counts in steps.items()
        for c in range(COPIES)
        for i, k in enumerate(counts)
    ]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_one_pilot(run: Run) -> None:
    write("base.jsonl", {"0": BASE})
    answer = run("passk", "base.jsonl")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert re.match(r"Answer   pass@8 = 1\.000 \[0\.\d{3}, 1\.000\]$", lines[0])
    assert max(map(len, lines)) <= 80
    assert "  counted" in answer.out
    assert "  fitted" in answer.out
    assert "may never pass" in answer.out
    body = document(run("passk", "base.jsonl", "--ks", "1,4,9", "--json"))
    assert body["command"] == "passk"
    assert [(p["k"], p["counted"]) for p in body["points"]] == [(1, True), (4, True), (9, False)]
    assert body["points"][0]["value"] == pytest.approx(sum(BASE) / 64)
    assert body["tail"]["status"] in ("POWER_LAW", "LEVELS_OFF", "NO_POWER_LAW", "UNKNOWN")


def test_two_policies(run: Run) -> None:
    write("base.jsonl", {"0": BASE})
    write("trained.jsonl", {"1": TRAINED})
    answer = run("passk", "base.jsonl", "--after", "trained.jsonl", "--ks", "1,2,4,8")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0] == "Answer   search compression: the curves cross"
    assert lines[2].startswith("Crossing The curves cross between k = ")
    assert max(map(len, lines)) <= 80
    assert "200 prompts compared with themselves." in answer.out
    assert "no news by itself" in answer.out
    body = document(run("passk", "base.jsonl", "--after", "trained.jsonl", "--ks", "1,2,4,8", "--json"))
    names = [f"q{i}" for i in range(8 * COPIES)]
    found = compare_pass(*(Pilot.from_counts(k * COPIES, 8, prompt_id=names) for k in (BASE, TRAINED)), ks=[1, 2, 4, 8])
    assert body["verdict"] == found.verdict.name == "SEARCH_COMPRESSION"
    assert [d["low"] for d in body["differences"]] == pytest.approx([d.low for d in found.differences])
    assert (body["crossing"]["low"], body["crossing"]["high"]) == (found.crossing.low, found.crossing.high)
    assert found.turnover is not None
    assert body["turnover"]["lost"]["value"] == pytest.approx(found.turnover.lost.value)


def test_a_share_that_is_not_shown_has_no_sign(run: Run) -> None:
    write("base.jsonl", {"0": BASE})
    write("up.jsonl", {"1": [8, 8, 8, 6, 6, 8, 7, 8]})
    arguments = ("passk", "base.jsonl", "--after", "up.jsonl", "--ks", "1,4")
    answer = run(*arguments)
    lost = next(line for line in answer.out.splitlines() if line.startswith("  lost"))
    assert "none shown" in lost
    assert "-0." not in lost
    turnover = document(run(*arguments, "--json"))["turnover"]
    assert turnover["lost"]["value"] < 0.0
    assert (turnover["gained_shown"], turnover["lost_shown"]) == (True, False)


def test_shares_near_0_have_one_form(run: Run) -> None:
    write("hard.jsonl", {"0": [0, 0, 1, 0, 2, 0, 3, 1]})
    answer = run("passk", "hard.jsonl", "--ks", "8,64,4096")
    assert "e-" not in answer.out
    assert answer.out.count("<0.0005 [0.000,") == 3


def test_two_parts_of_one_file(run: Run) -> None:
    write("both.jsonl", {"0": BASE, "1": TRAINED}, column=True)
    write("base.jsonl", {"0": BASE})
    write("trained.jsonl", {"1": TRAINED})
    one = document(run("passk", "both.jsonl", "--where", "step=0", "--after-where", "step=1", "--json"))
    two = document(run("passk", "base.jsonl", "--after", "trained.jsonl", "--json"))
    assert one["differences"] == two["differences"]


def test_strangers_are_compared_apart(run: Run) -> None:
    write("base.jsonl", {"0": BASE})
    write("other.jsonl", {"1": TRAINED}, names="r")
    answer = run("passk", "base.jsonl", "--after", "other.jsonl", "--ks", "1,8")
    assert "Two separate samples: 200 prompts before, 200 after." in answer.out
    assert "share 0 named" in answer.out


def test_the_picture_is_written(run: Run) -> None:
    write("base.jsonl", {"0": BASE})
    write("trained.jsonl", {"1": TRAINED})
    assert run("passk", "base.jsonl", "--ks", "1,8", "-o", "one.svg").code == 0
    answer = run("passk", "base.jsonl", "--after", "trained.jsonl", "--ks", "1,8", "-o", "two.png")
    assert "two.png written." in answer.err
    assert Path("one.svg").stat().st_size > 3000
    assert Path("two.png").stat().st_size > 3000


def test_mixed_groups_alone_have_no_tail(run: Run) -> None:
    rows = [{"prompt_id": f"q{i}", "n": 4, "k": 1 + i % 3} for i in range(90)]
    Path("kept.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    answer = run("passk", "kept.jsonl", "--truncated", "--ks", "1,4")
    assert answer.code == 0, answer.err
    assert "TRUNCATED" in answer.out
    assert "Not told: it needs all groups" in answer.out
    refused = run("passk", "kept.jsonl", "--truncated", "--after", "kept.jsonl", "--after-where", "k=1")
    assert refused.code == 2
    assert "cannot take --truncated" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["base.jsonl", "--ks", "0"], 2, "--ks must be whole numbers of at least 1"),
        (["base.jsonl", "--ks", "x"], 2, "--ks must be whole numbers of at least 1"),
        (["base.jsonl", "--after", "base.jsonl"], 2, "names the rows of the first pilot again"),
        (["base.jsonl", "--after-where", "step"], 2, "--after-where must be COLUMN=VALUE"),
        (["base.jsonl", "--after", "other.jsonl", "--margin", "0.7"], 2, "margin must be at most"),
        (["base.jsonl", "--level", "1"], 2, "level"),
        (["base.jsonl", "-o", "x.gif"], 2, "--output must end in"),
        (["base.jsonl", "--after", "other.svg", "-o", "other.svg"], 2, "inputs are never written to"),
        (["missing.jsonl"], 1, "missing.jsonl"),
    ],
)
def test_refusals_are_one_line(run: Run, arguments: list[str], code: int, message: str) -> None:
    write("base.jsonl", {"0": BASE})
    write("other.jsonl", {"1": TRAINED})
    write("other.svg", {"1": TRAINED})
    answer = run("passk", *arguments)
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("grpo-plan: ")
    assert message in last


def test_every_json_key_is_documented(run: Run) -> None:
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    write("base.jsonl", {"0": BASE})
    write("trained.jsonl", {"1": TRAINED})
    for extra in ([], ["--after", "trained.jsonl"]):
        for key in keys_of(document(run("passk", "base.jsonl", *extra, "--ks", "1,4,8,16", "--json"))):
            stem = key.removesuffix("_low").removesuffix("_high").removesuffix("_standard_error")
            assert re.search(rf"`(?:\w+\.)?({key}|{stem})`", page), key
