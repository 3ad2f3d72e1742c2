"""Command line: answers on stdout, notes on stderr, one line an error, the exit codes of the contract."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from grpo_plan import __version__
from grpo_plan.cli.main import COMMANDS, main
from tests.shared_solves import shared_solves


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["grpo-plan", *map(str, arguments)])
        with shared_solves(), pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        captured = capsys.readouterr()
        return Answer(0 if code is None else int(code), captured.out, captured.err)

    return call


def document(answer: Answer) -> dict[str, Any]:
    """The JSON answer; NaN and infinities are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in JSON")

    assert answer.code == 0, answer.err
    body: dict[str, Any] = json.loads(answer.out, parse_constant=refuse)
    assert body["schema"] == 1
    return body


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "g", "printed"), [(0.2, 4, "0.5888"), (0.2, 8, "0.832225"), (0, 8, "0"), (1e-12, 2, "2e-12")]
)
def test_mixed(run: Run, p: float, g: int, printed: str) -> None:
    assert run("mixed", "--pass-rate", p, "--group-size", g) == (0, f"{printed}\n", "")
    body = document(run("mixed", "--pass-rate", p, "--group-size", g, "--json"))
    assert body["mixed"] == pytest.approx(float(printed), rel=1e-5)
    assert body["dead"] == pytest.approx(body["all_pass"] + body["all_fail"])


def test_example_is_written_once_and_never_over_something_else(run: Run) -> None:
    first = run("example", "pilot.jsonl")
    assert (first.code, first.out) == (0, "")
    assert "1,209 prompts x 8 rollouts" in first.err
    rows = [json.loads(line) for line in Path("pilot.jsonl").read_text().splitlines()]
    assert len(rows) == 9672
    frame = pl.DataFrame(rows).group_by("prompt_id").agg(pl.col("reward").sum())
    counts = frame["reward"].value_counts().sort("reward")["count"].to_list()
    assert counts == [439, 151, 103, 91, 73, 76, 88, 96, 92]
    assert run("example", "pilot.jsonl").code == 0
    assert run("example", "-").out == Path("pilot.jsonl").read_text()
    Path("mine.jsonl").write_text("mine")
    refused = run("example", "mine.jsonl")
    assert refused.code == 2
    assert "exists and holds something else" in refused.err
    assert Path("mine.jsonl").read_text() == "mine"
    assert run("example", "mine.jsonl", "--force").code == 0
    assert "is a folder" in run("example", ".").err
    assert "cannot be written" in run("example", "no/such/folder.jsonl").err


def test_fit_json(run: Run, example_file: Path) -> None:
    body = document(run("fit", example_file, "--group-sizes", "2,4,8,16", "--json"))
    assert body["command"] == "fit"
    assert body["pilot"]["prompts"] == 1209
    assert body["pilot"]["rollouts_per_prompt"] == {"min": 8, "median": 8.0, "max": 8}
    assert body["pilot"]["mean_pass_rate"]["value"] == pytest.approx(0.33478, abs=1e-5)
    assert body["pilot"]["dropped"] == {}
    assert body["model"]["parameters"]["a"] == pytest.approx(0.34886, abs=1e-4)
    assert body["model"]["status"] == "OK"
    rows = {row["group_size"]: row for row in body["dead"]}
    assert rows[4]["value"] == pytest.approx(0.5868, abs=5e-5)
    assert rows[8]["value"] == pytest.approx(0.4392, abs=5e-5)
    assert rows[8]["all_fail"] == pytest.approx(0.3631, abs=5e-5)
    assert rows[8]["all_pass"] == pytest.approx(0.0761, abs=5e-5)
    assert rows[8]["iid"] == pytest.approx(0.0385, abs=5e-5)
    assert rows[8]["mixed"] == pytest.approx(1 - rows[8]["value"])
    assert rows[16]["low"] == pytest.approx(0.2808, abs=2e-3)
    assert rows[16]["high"] == pytest.approx(0.3728, abs=2e-3)
    assert rows[16]["low"] < rows[16]["smooth"][0] < rows[16]["identified"][0] <= rows[16]["value"]
    assert (rows[16]["status"], rows[16]["method"]) == ("OK", "average")
    needed = "group_size value low high level all_pass all_fail mixed iid plug_in jensen_gap identified method".split()
    assert all(set(needed) <= set(row) for row in body["dead"])


def test_fit_text_says_what_each_number_is(run: Run, example_file: Path) -> None:
    answer = run("fit", example_file)
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert "8 0.439 [0.411, 0.467] 0.363 [0.336, 0.391] 0.076 [0.062, 0.092] 0.039" in words
    assert "16 0.332 [0.281, 0.373] 0.290 [0.247, 0.327] 0.042 [0.020, 0.063]" in words
    assert "0.193 [0.037, 0.347]*" in answer.out
    assert "* EXTRAPOLATED: beyond twice the pilot's 8 rollouts" in " ".join(answer.out.split())
    assert "This pilot (n = 8) cannot tell D(64): between 0.04 and 0.35; 32 rollouts per prompt" in " ".join(
        answer.out.split()
    )
    assert "11 times too low" in answer.out
    assert "reward = 'reward'" in answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    assert not any(line != line.rstrip() for line in answer.out.splitlines())
    assert "\x1b" not in answer.out


def test_fit_by_stratum(run: Run) -> None:
    pl.DataFrame(
        {"id": range(80), "n": [8] * 80, "k": [1] * 40 + [7] * 40, "level": ["hard"] * 40 + ["easy"] * 40}
    ).write_csv("t.csv")
    body = document(run("fit", "t.csv", "--json"))
    strata = {s["stratum"]: s for s in body["strata"]}
    assert [s["stratum"] for s in body["strata"]] == ["hard", "easy"]
    # k = 7 of 8 in every prompt: a group of 4 is all-pass with chance C(7,4)/C(8,4) = 1/2 and never all-fail
    assert strata["easy"]["dead"][1]["all_pass"] == pytest.approx(0.5)
    assert strata["hard"]["dead"][1]["all_fail"] == pytest.approx(0.5)
    assert "By stratum" in run("fit", "t.csv").out


def test_plan_json(run: Run, example_file: Path) -> None:
    body = document(run("plan", example_file, "--budget-rollouts", "2e6", "--steps", 500, "--json"))
    best = body["recommended"]
    assert best["rollouts_per_step"] == best["group_size"] * best["prompts_per_step"] <= 4000
    assert best["steps"] == 500
    assert set(best) >= {"dead", "effective_batch", "cost", "signal"}
    assert set(best["effective_batch"]["mixed_groups"]) >= {"mean", "sd", "p05", "p95"}
    assert set(best["effective_batch"]) >= {"mixed_groups", "live_rollouts", "dead_batch_probability"}
    assert best["cost"]["rollouts"] <= 2_000_000
    assert body["flat_range"][0] <= best["group_size"] <= body["flat_range"][1]
    assert [row["group_size"] for row in body["frontier"]] == sorted({row["group_size"] for row in body["frontier"]})
    assert body["alternatives"][0]["objective"] == "max-dead"
    assert body["binding_constraint"] == "2,000,000 rollouts and 500 steps: 4,000 rollouts a step"
    assert body["assumptions"]
    assert body["trainer"] is None


def test_a_plan_shows_what_is_live_under_its_estimator(run: Run, example_file: Path) -> None:
    """Sign: all rollouts, and rloo at its own pick makes more; nsr: every fail; rloo: those of mixed groups."""
    words = ("plan", example_file, "--budget-rollouts", "2e6", "--steps", 500, "--group-sizes", "2,4,6,8")
    sign = " ".join(run(*words, "--estimator", "sign").out.split())
    assert (
        "4,000 of 4,000 rollouts a step have an advantage under sign: dead groups push too, all-fail ones down" in sign
    )
    assert "all-pass ones up (+1 each rollout)" in sign
    assert "is all dead" not in sign
    assert "of the progress of rloo at its own pick, G = " in sign
    assert "grpo-plan remedies" in sign
    plain = " ".join(run(*words, "--estimator", "rloo").out.split())
    assert "live rollouts a step; at this D a step is all dead" in plain
    assert "of the progress of rloo" not in plain
    body = document(run(*words, "--estimator", "nsr", "--json"))
    best = body["recommended"]
    assert best["live"]["all_pass"]["value"] == 0
    assert best["live"]["share"]["value"] == pytest.approx(1 - 3182 / 9672, abs=0.02)  # the fails of the pilot
    assert (best["live"]["all_fail_advantage"], best["live"]["all_pass_advantage"]) == (-1, 0)
    assert body["beside"]["progress"][0]["low"] < body["beside"]["progress"][0]["value"] < 1
    mixed = document(run(*words, "--json"))["recommended"]
    assert mixed["live"]["share"]["value"] == pytest.approx(1 - mixed["dead"]["value"])
    assert document(run(*words, "--refill", "--json"))["recommended"]["live"] is None


def test_plan_text_has_the_answer_first_and_its_reasons(run: Run, example_file: Path) -> None:
    answer = run("plan", example_file, "--budget-rollouts", "2e6", "--steps", "500")
    assert answer.out.startswith("Plan    G = 6, 666 prompts a step (3,996 rollouts), 500 steps\n")
    for needed in (
        "in 9 of 10 steps",
        "Why this G",
        "kappa",
        "within 10 %",
        "optimistic",
        "336 of 666 groups a step mixed, 50 % dead [47, 52]; at any kappa from 1 to 300 it makes at least",
        "not told apart",
        "What a measured kappa can win back is those",
        "max-dead G = 12",
        "mixed-groups G = 2",
        "That a step is mostly noise, so that G matters.",
        "What would change it",
        "2 assumptions more",
    ):
        assert needed in " ".join(answer.out.split())
    assert max(map(len, answer.out.splitlines())) <= 80
    assert answer.out.index("Dead ") < answer.out.index("Budget ") < answer.out.index("Pilot ")
    full = run("plan", example_file, "--budget-rollouts", "2e6", "--steps", "500", "--details").out
    assert len(full.splitlines()) > len(answer.out.splitlines()) + 15
    assert "not a goal" in " ".join(full.split())
    assert "assumptions more" not in full


@pytest.mark.parametrize(
    "options",
    [
        ["--rollouts-per-step", "1024"],
        ["--rollouts-per-step", "1_024", "--steps", "100", "--kappa", "10"],
        ["--budget-rollouts", "100,000", "--prompts-per-step", "64", "--estimator", "rloo"],
        ["--budget-rollouts", "1e5", "--rollouts-per-step", "512", "--objective", "max-dead"],
        ["--rollouts-per-step", "512", "--prompts-per-step", "64"],
        ["--rollouts-per-step", "512", "--group-sizes", "8", "--coherence", "0.01", "--prompt-cost", "2"],
        ["--budget-rollouts", "1e12", "--steps", "1", "--group-sizes", "128"],
    ],
)
def test_plans_of_many_kinds(run: Run, example_file: Path, options: list[str]) -> None:
    assert document(run("plan", example_file, *options, "--json"))["recommended"]["prompts_per_step"] >= 1
    text = run("plan", example_file, *options)
    assert text.code == 0
    assert max(map(len, text.out.splitlines())) <= 80


def test_a_value_beyond_the_pilot_is_marked_in_the_plan(run: Run, example_file: Path) -> None:
    text = " ".join(run("plan", example_file, "--rollouts-per-step", 512, "--group-sizes", 32).out.split())
    assert "EXTRAPOLATED: trust the interval, not the value" in text
    assert "of 16 groups a step" in text


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("kind", ["both", "dead", "pass-rates"])
def test_plot(run: Run, example_file: Path, suffix: str, kind: str) -> None:
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    answer = run("plot", example_file, "-o", f"p.{suffix}", "--kind", kind)
    assert (answer.code, answer.out) == (0, "")
    first = Path(f"p.{suffix}").read_bytes()
    assert first.startswith(magic)
    run("plot", example_file, "-o", f"p.{suffix}", "--kind", kind)
    assert Path(f"p.{suffix}").read_bytes() == first


def test_version_help_and_no_arguments(run: Run) -> None:
    assert run("--version").out == f"grpo-plan {__version__}\n"
    listing = run("--help").out
    assert all(f"  {name} " in listing for name in COMMANDS)
    for name in COMMANDS:
        page = run(name, "--help")
        assert page.code == 0
        assert f"\nExample:\n  grpo-plan {name} " in page.out
        assert max(map(len, page.out.splitlines())) <= 80
    assert "Usage" in run().out + run().err


# --- bad input ---------------------------------------------------------------------------------------------------


def lines(*rows: object) -> bytes:
    return "".join(json.dumps(r) + "\n" for r in rows).encode()


GOOD = lines({"id": "a", "reward": 1}, {"id": "a", "reward": 0}, {"id": "b", "reward": 1}, {"id": "b", "reward": 1})
BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty. Give a file with at least one row."),
    "blank": (b"\n \n", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "binary": (bytes(range(256)) * 20, "is a binary file of unknown kind"),
    "pickle": (b"\x80\x04\x95\x00", "is a pickle, not a table"),
    "zip": (b"PK\x03\x04rest", "is a damaged zip archive. Is it complete?"),
    "utf-16": ("id,reward\na,1\n".encode("utf-16"), "is UTF-16 text"),
    "latin-1 jsonl": (GOOD + '{"id": "é", "reward": 1}\n'.encode("latin-1"), "t:5: is not UTF-8"),
    "latin-1 csv": ("id,reward\né,1\n".encode("latin-1"), "t, row 1: is not UTF-8 text ('�,1'). Convert the file"),
    "prose": (b"hello world\nthis is text\n", "is no table that can be read"),
    "broken line": (GOOD + b'{"id": "c", "rew\n' + GOOD, "t:5: is not a JSON object"),
    "array lines": (GOOD + b"[1, 2]\n", "t:5: is not a JSON object"),
    "empty array": (b"[]", "holds no JSON array of objects"),
    "broken array": (b'[{"id": "a", "reward": 1}, {"id": ', "the array is not closed"),
    "pretty object": (b'{\n "id": "a",\n "reward": 1\n}\n', "is one JSON object over several lines"),
    "header only": (b"id,reward\n", "has no rows"),
    "ragged csv": (b"id,reward\na,1\nb,1,2,3\n", "t, row 2: has 4 fields, more fields than the header (2): 'b,1,2,3'. Repair the line"),
    "no reward": (lines({"id": "a", "foo": 1}), "no column holds rewards or counts. Columns: id, foo."),
    "no prompt": (lines({"foo": "a", "reward": 1}), "no column names the prompt of a rollout. Columns: foo, reward."),
    "half reward": (
        GOOD + lines({"id": "c", "reward": 0.5}),
        "t:5: reward is 0.5, neither 0 nor 1, and no pass threshold was given (values seen: 0, 0.5, 1). Pass --pass-threshold, e.g. 1",
    ),
    "half reward csv": (b"id,reward\na,1\na,0.5\n", "t, row 2: reward is 0.5, neither 0 nor 1"),
    "word reward": (GOOD + lines({"id": "c", "reward": "maybe"}), "t:5: reward is maybe, which is neither a number nor"),
    "word reward csv": (b"id,reward\na,1\na,maybe\n", "t, row 2: reward is maybe, which is neither"),
    "object reward": (lines({"id": "a", "reward": {"x": 1}}), "t:1: reward is {'x': 1}, which is neither"),
    "only missing": (lines({"id": "a", "reward": None}, {"id": "a", "reward": float("nan")}), "missing reward: 2"),
    "k over n": (lines({"id": "a", "n": 8, "k": 3}, {"id": "b", "n": 8, "k": 9}), "t:2: k = 9 exceeds n = 8"),
    "negative k": (lines({"id": "a", "n": 8, "k": -1}), "t:1: k must be a whole number of at least 0; got -1"),
    "fractional k": (lines({"id": "a", "n": 8, "k": 2.5}), "t:1: k must be a whole number of at least 0; got 2.5"),
    "fractional n": (b"id,n,k\na,8.5,2\n", "row 1: n must be a whole number of at least 0; got 8.5"),
    "percent rate": (lines({"id": "a", "n": 8, "pass_rate": 35}), "t: pass_rate holds whole numbers up to 35: percentages or counts?"),
    "odd rate": (lines({"id": "a", "n": 8, "pass_rate": 0.33}), "t:1: pass_rate = 0.33 of n = 8 is 2.64 passes"),
    "rate without n": (lines({"id": "a", "pass_rate": 0.5}), "too few different rates between 0 and 1: 1). How many rollouts per prompt is each the mean of?"),
    "not a list": (lines({"id": "a", "rewards": [1, 0]}, {"id": "b", "rewards": 7}), "reward"),
    "truncated gzip": (gzip.compress(GOOD * 3000)[:-40], "end too early or are damaged"),
    "truncated parquet": (b"PAR1" + b"\x00" * 50, "cannot be read as Parquet"),
    "truncated arrow": (b"ARROW1" + b"\x00" * 50, "cannot be read as Arrow"),
    "all zero n": (lines({"id": "a", "n": 0, "k": 0}), "needs at least one prompt with a scored rollout"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_bad_files_end_in_one_clear_line(run: Run, name: str) -> None:
    data, message = BAD_FILES[name]
    Path("t").write_bytes(data)
    answer = run("fit", "t")
    errors = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert answer.code == 1
    assert answer.out == ""
    assert len(errors) == 1, answer.err
    assert errors[0].startswith("grpo-plan: ")
    assert message in errors[0]
    assert Path("t").read_bytes() == data


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.jsonl", "nothing.jsonl: no such file"),
        ("*.parquet", "*.parquet: no file matches this pattern"),
        ("folder", "folder: is a folder without a table"),
        ("mixed", "mixed: is a folder of several kinds of table (1 .csv, 1 .jsonl). Name one, e.g. 'mixed/*.csv'"),
    ],
)
def test_missing_files_and_folders(run: Run, source: str, message: str) -> None:
    Path("folder").mkdir()
    Path("mixed").mkdir()
    Path("mixed/a.csv").write_text("id,reward\na,1\n")
    Path("mixed/b.jsonl").write_bytes(GOOD)
    answer = run("fit", source)
    assert answer.code == 1
    assert answer.err.startswith(f"grpo-plan: {message}")
    assert answer.err.count("\n") == 1


def test_a_line_cut_off_while_it_is_written_is_dropped_and_counted(run: Run) -> None:
    Path("t").write_bytes(GOOD + b'{"id": "c", "rew')
    answer = run("fit", "t", "--json")
    assert document(answer)["pilot"]["dropped"] == {"truncated_last_line": 1}
    assert "left out: truncated last line: 1." in answer.err


def test_malformed_lines_can_be_skipped_and_are_counted(run: Run) -> None:
    Path("t").write_bytes(b"{oops\n" + GOOD + b"\n\n[1]\n")
    assert "Repair the line, or drop such lines with --skip-malformed." in run("fit", "t").err
    assert document(run("fit", "t", "--skip-malformed", "--json"))["pilot"]["dropped"] == {"malformed_line": 2}


def test_odd_pilots_still_get_a_correct_answer(run: Run) -> None:
    Path("one").write_bytes(lines({"id": "a", "n": 8, "k": 3}))
    body = document(run("fit", "one", "--json"))
    assert body["model"]["status"] == "TOO_FEW_PROMPTS"
    d8 = next(d for d in body["dead"] if d["group_size"] == 8)
    assert d8["high"] - d8["low"] > 0.7
    Path("dead").write_bytes(lines(*({"id": i, "n": 8, "k": 0} for i in range(50))))
    body = document(run("fit", "dead", "--json"))
    assert body["model"]["status"] == "NO_SUCCESS"
    assert body["dead"][0]["value"] == 1.0
    assert 0.9 < body["dead"][0]["low"] < 1.0
    plan = run("plan", "dead", "--rollouts-per-step", 512)
    assert plan.code == 3
    assert "no prompt of the pilot is mixed. D(8) is at least 0.929" in plan.err
    Path("single").write_bytes(lines(*({"id": i, "reward": i % 2} for i in range(50))))
    body = document(run("fit", "single", "--json"))
    assert body["model"]["status"] == "SINGLE_ROLLOUT"
    assert body["dead"][0]["value"] is None
    assert run("fit", "single").code == 0
    plan = run("plan", "single", "--rollouts-per-step", 512)
    assert plan.code == 1
    assert "take at least 2, better 8, per prompt" in plan.err
    assert all(math.isfinite(v) for v in [body["model"]["parameters"]["mean"]])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["mixed", "--pass-rate", "35", "--group-size", "8"], 2, "pass_rate must lie in [0, 1]; got 35. Percentages?"),
        (["mixed", "--pass-rate", "nan", "--group-size", "8"], 2, "pass_rate must lie in [0, 1]; got nan."),
        (["mixed", "--pass-rate", "0.2", "--group-size", "0"], 2, "group_size must be a whole number of at least 1"),
        (
            ["fit", "t", "--group-sizes", "2,x"],
            2,
            "--group-sizes must be whole numbers separated by commas, e.g. 2,4,8; got '2,x'.",
        ),
        (["fit", "t", "--group-sizes", ","], 2, "--group-sizes must be whole numbers separated by commas"),
        (
            ["fit", "t", "--level", "95"],
            2,
            "level must lie strictly between 0 and 1 (at most 1 - 1e-12); got 95.0. Percentages?",
        ),
        (
            ["fit", "t", "--family", "gamma"],
            2,
            "family must be one of auto, beta, tilted-beta, inflated-beta, nonparametric; got 'gamma'.",
        ),
        (["fit", "t", "--where", "x"], 2, "--where must be COLUMN=VALUE; got 'x'."),
        (["fit", "t", "--reward-column", "nope"], 1, "no column 'nope' (asked for as reward). Columns: id, reward."),
        (["plan", "t"], 2, "A plan needs a budget, or the size of a step; got neither"),
        (["plan", "t", "--budget-rollouts", "many", "--steps", "1"], 2, "--budget-rollouts must be a whole number"),
        (["plan", "t", "--budget-rollouts", "1e6"], 2, "needs one more number to size a step"),
        (["plan", "t", "--budget-rollouts", "10", "--steps", "100"], 3, "No design fits 10 rollouts and 100 steps"),
        (
            ["plan", "t", "--rollouts-per-step", "64", "--kappa", "a:b"],
            2,
            "--kappa must be a number, LO:HI or the file of a probe",
        ),
        (["plan", "t", "--rollouts-per-step", "64", "--kappa", "nan"], 2, "kappa must be finite"),
        (
            ["plan", "t", "--rollouts-per-step", "64", "--objective", "x"],
            2,
            "objective must be one of signal, max-dead",
        ),
        (["plot", "t", "-o", "x.gif"], 2, "--output must end in .png, .svg, .pdf; got 'x.gif'."),
        (["plot", "t", "-o", "no/such/x.png"], 2, "cannot be written"),
        (
            ["plot", "t", "--kind", "pie"],
            2,
            "--kind must be one of both, dead, pass-rates, observed, compare; got 'pie'.",
        ),
    ],
)
def test_bad_usage(run: Run, arguments: list[str], code: int, message: str) -> None:
    Path("t").write_bytes(GOOD)
    answer = run(*arguments)
    assert answer.code == code
    assert answer.out == ""
    errors = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_unknown_commands_and_options_are_usage_errors(run: Run) -> None:
    assert run("nope").code == 2
    assert run("fit").code == 2
    assert run("fit", "t", "--nope").code == 2


def test_an_input_is_never_overwritten_by_a_plot(run: Run) -> None:
    Path("t.png").write_bytes(GOOD)
    answer = run("plot", "t.png", "-o", "t.png")
    assert answer.code == 2
    assert "inputs are never written to" in answer.err
    assert Path("t.png").read_bytes() == GOOD


def test_as_a_module_through_a_pipe() -> None:
    command = f"{sys.executable} -m grpo_plan example - | {sys.executable} -m grpo_plan fit - --group-sizes 8 --json"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["dead"][0]["value"] == pytest.approx(0.4392, abs=5e-5)


def test_a_closed_pipe_and_an_interrupt_leave_no_traceback(example_file: Path) -> None:
    closed = subprocess.run(
        f"{sys.executable} -m grpo_plan example - | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in closed.stderr
    script = (
        "import os, signal, sys, threading; from grpo_plan.__main__ import main;"
        "threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start();"
        "sys.argv = ['grpo-plan', 'fit', '-']; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.wait(timeout=30)  # waits on stdin until it is interrupted
    out, err = process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "grpo-plan: interrupted.\n")


# --- refill ------------------------------------------------------------------------------------------------------

STEP = ("--prompts-per-step", 128, "--group-size", 8)


def test_refill_answers_first_and_fits_the_page(run: Run, example_file: Path) -> None:
    answer = run("refill", example_file, *STEP, "--batch-multiplier", 1.5, "--max-rounds", 10, "--steps", 500)
    assert answer.code == 0
    first = " ".join(answer.out.split("\nBetter")[0].split())
    assert first == (
        "Refill draw 3.00x [2.98, 3.00] in batches of 192, 2 rounds at most in 95 % of steps; "
        "the cap of 10 is never hit; prompts one at a time take 1.78x [1.70, 1.88]"
    )
    assert "Better  generation batches of 256 (2.00x): 1 round" in answer.out
    assert "Refilling adds no signal to a rollout" in answer.out
    assert "algorithm.filter_groups.max_num_gen_batches 10" in answer.out
    assert "grpo.batch_multiplier 1.5" in answer.out
    long = [line for line in answer.out.splitlines() if len(line) > 80]
    assert [line.split()[0] for line in long] == ["--dynamic-sampling-filter-path"]


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        (("--gen-batch-size", 64, "--max-rounds", 2), "the cap of 2 will be hit"),
        (("--gen-batch-size", 64, "--max-rounds", 3), "the cap of 3 is hit in 99.8% of steps [98%, >99.9%]"),
        (
            ("--gen-batch-size", 80, "--max-rounds", 3, "--level", 0.99),
            "the cap of 3 is hit in 18% of steps [1.9%, 59%]",
        ),
        (("--max-rounds", 3, "--steps", 5000), "the cap of 3 is never hit"),
        (("--gen-batch-size", 24, "--max-rounds", 12, "--steps", 100), "is hit in 0.29% of runs [0.0031%, 11%]"),
    ],
)
def test_the_verdict_speaks_of_the_cap(run: Run, example_file: Path, options: tuple[object, ...], verdict: str) -> None:
    answer = run("refill", example_file, *STEP, *options)
    assert verdict in " ".join(answer.out.split())


def test_refill_as_json(run: Run, example_file: Path) -> None:
    import grpo_plan as gp

    body = document(run("refill", example_file, *STEP, "--max-rounds", 2, "--steps", "1e3", "--json"))
    plan = gp.refill(
        gp.fit_pass_rates(gp.read_pilot(example_file)), prompts_per_step=128, group_size=8, max_rounds=2, steps=1000
    )
    assert body["command"] == "refill"
    assert plan.at_high is not None
    for key in ("cap_probability", "run_cap_probability", "safe_max_rounds"):
        found = body[key]
        ends = [getattr(at, key) for at in (plan.at_value, plan.at_low, plan.at_high)]
        assert [found["value"], found["low"], found["high"]] == ends
        assert found["low"] <= found["value"] <= found["high"]
    assert body["rounds"]["mean"] == plan.at_value.rounds.mean
    assert (body["rounds"]["mean_low"], body["rounds"]["mean_high"]) == plan.limits(lambda a: a.rounds.mean)
    assert body["one_round"]["gen_batch_size"] == {"value": 251, "low": 238, "high": 265}
    assert body["one_round"]["batch_multiplier"]["value"] == 1.97
    assert body["within_max_rounds"]["gen_batch_size"]["value"] == plan.at_value.capped_gen_batch_size
    assert body["status"] == "FILLS"
    assert body["data_prompts"] is None
    assert body["steps_per_pass"] is None
    sizes = [o["gen_batch_size"] for o in body["options"]]
    assert sizes == sorted(set(sizes))
    assert {128, 265} <= set(sizes)
    assert [c["scheme"] for c in body["comparison"]] == ["fixed", "refill", "adaptive", "until-pass"]
    settings = {s["trainer"]: {x["key"]: x["value"] for x in s["settings"]} for s in body["settings"]}
    assert settings["NeMo-RL"]["grpo.dynamic_sampling_max_gen_batches"] == 2
    assert settings["SkyRL"]["trainer.algorithm.dynamic_sampling.max_sample_batches"] == 2
    assert settings["slime"]["--over-sampling-batch-size"] == 128


def test_refill_without_a_cap_says_so_in_each_trainers_way(run: Run, example_file: Path) -> None:
    body = document(run("refill", example_file, *STEP, "--gen-batch-size", 64, "--json"))
    assert body["cap_probability"] is None
    assert body["within_max_rounds"] is None
    settings = {s["trainer"]: {x["key"]: x["value"] for x in s["settings"]} for s in body["settings"]}
    notes = {s["trainer"]: s["note"] for s in body["settings"]}
    assert settings["verl, DAPO recipe"]["algorithm.filter_groups.max_num_gen_batches"] == 0
    assert settings["SkyRL"]["trainer.algorithm.dynamic_sampling.max_sample_batches"] == -1
    assert settings["NeMo-RL"]["grpo.batch_multiplier"] == 1.0
    assert "cannot be set" in notes["NeMo-RL"]
    assert "cannot be set" in notes["slime"]
    assert "--gen-batch-size 128" in notes["SkyRL"]
    text = run("refill", example_file, *STEP, "--gen-batch-size", 64).out
    assert "none given; --max-rounds gives the chance to hit one" in text


def test_refill_from_a_data_set(run: Run, example_file: Path) -> None:
    body = document(run("refill", example_file, *STEP, "--data-prompts", "1,209", "--json"))
    assert body["mixed_prompts"]["value"] == 678
    passes = body["steps_per_pass"]
    assert passes["low"] < passes["value"] < passes["high"]  # falls as D rises: its ends are swapped
    assert all(o["gen_batch_size"] <= 1209 for o in body["options"])
    text = run("refill", example_file, *STEP, "--data-prompts", 1209).out
    assert "1,209 prompts hold about 678 mixed groups" in text
    dry = run("refill", example_file, "--prompts-per-step", 670, "--group-size", 8, "--data-prompts", 1209)
    assert dry.code == 0
    assert "MAY_RUN_DRY" in dry.out
    assert "no limit" in dry.out


def pilot_file(path: str, counts: tuple[int, ...]) -> Path:
    rows = [{"prompt_id": f"{k}-{i}", "n": len(counts) - 1, "k": k} for k, c in enumerate(counts) for i in range(c)]
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return Path(path)


def test_refill_that_may_never_fill(run: Run) -> None:
    pilot = pilot_file("rare.jsonl", (60, 1, 0, 0, 0, 0, 0, 0, 0))
    request = ("refill", pilot, "--prompts-per-step", 128, "--group-size", 2, "--max-rounds", 5, "--level", 1 - 1e-12)
    text = " ".join(run(*request).out.split())
    assert "the cap of 5 may be hit" in text
    assert "MAY_NEVER_FILL: The interval of the dead fraction reaches 1" in text
    assert "[5.18, no limit]" in text
    body = document(run(*request, "--json"))
    assert body["status"] == "MAY_NEVER_FILL"
    assert body["rounds"]["mean_high"] is None
    assert body["cap_probability"]["high"] is None
    assert body["surplus_mixed_groups"]["high"] is None
    assert body["comparison"][0]["rollouts_per_group"]["high"] is None


def test_huge_refills_are_answered(run: Run) -> None:
    pilot = pilot_file("rare.jsonl", (60, 1, 0, 0, 0, 0, 0, 0, 0))
    answer = run("refill", pilot, "--prompts-per-step", "1e6", "--group-size", 8, "--max-rounds", 5, "--steps", 900)
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 110
    assert document(run("refill", pilot, "--prompts-per-step", "1e6", "--group-size", 8, "--json"))


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--prompts-per-step", 0, "--group-size", 8), 2, "prompts_per_step must be at least 1; got 0."),
        (("--prompts-per-step", "many", "--group-size", 8), 2, "--prompts-per-step must be a whole number"),
        (("--prompts-per-step", 8), 2, "Missing option '--group-size'"),
        ((*STEP, "--max-rounds", 0), 2, "max_rounds must be at least 1; got 0."),
        ((*STEP, "--batch-multiplier", "nan"), 2, "batch_multiplier must be finite and above 0; got nan."),
        ((*STEP, "--batch-multiplier", 0.5), 2, "batch_multiplier must be at least 1; got 0.5."),
        ((*STEP, "--batch-multiplier", 2, "--gen-batch-size", 9), 2, "not both"),
        ((*STEP, "--data-prompts", 100), 3, "fewer than the 128 wanted"),
        ((*STEP, "--max-group-size", 6, "--round-size", 4), 2, "must be a multiple of round_size; got 6 and 4."),
    ],
)
def test_bad_refills_are_one_line(
    run: Run, example_file: Path, options: tuple[object, ...], code: int, said: str
) -> None:
    answer = run("refill", example_file, *options)
    assert (answer.code, answer.out) == (code, "")
    (error,) = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert said in error


def test_refill_of_a_dead_pilot_is_infeasible(run: Run) -> None:
    answer = run("refill", pilot_file("dead.jsonl", (30, 0, 0, 20)), *STEP)
    assert (answer.code, answer.out) == (3, "")
    assert "No refill can be planned: no prompt of the pilot is mixed" in answer.err


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (["--gpus", "8"], "--gpus has no effect yet. GPU-hours need"),
        (["--usd-per-gpu-hour", "3"], "--usd-per-gpu-hour has no effect yet. USD need"),
        (["--reward-s", "1", "--step-overhead-s", "2"], "--reward-s, --step-overhead-s have no effect yet."),
        (["--train-mixed-only"], "--train-mixed-only has no effect yet. Seconds need"),
        (["--gpus", "8", "--trainer", "trl"], None),
    ],
)
def test_options_without_effect_are_said(run: Run, example_file: Path, options: list[str], note: str | None) -> None:
    answer = run("plan", example_file, "--rollouts-per-step", "512", *options)
    assert answer.code == 0
    assert (note in answer.err) if note else "no effect" not in answer.err
