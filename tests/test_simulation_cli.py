"""``grpo-plan simulate``: the page, its JSON, and refusals in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from tests.test_cli import Run, document, run  # noqa: F401

SHORT = (
    "--steps", 20, "--rollouts-per-step", 64, "--prompts", 60, "--held-out", 60, "--dimension", 8, "--seeds", 3,
    "--learning-rate", 0.3,
)  # fmt: skip


@pytest.fixture
def pilot(run: Run) -> str:  # noqa: F811
    rows = [{"prompt_id": f"p{i}", "n": 8, "k": (i * 3) % 9} for i in range(90)]
    Path("pilot.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "pilot.jsonl"


def test_page_says_the_verdict_first_and_what_the_model_leaves_out(run: Run, pilot: str) -> None:  # noqa: F811
    answer = run("simulate", pilot, *SHORT, "--estimators", "rloo,sign,dr_grpo", "--group-sizes", "4,8")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].startswith("Answer   ")
    assert "cannot tell" in answer.out
    assert max(map(len, lines)) <= 80
    page = " ".join(answer.out.split())
    for words in (
        "for all runs at once", "It is a model, not a language model", "kappa 10 (assumed)", "dr_grpo, G = 8",
        "Groups drawn last by kind", "against the first", "One learning rate for all runs", "95% intervals", "3 seeds",
    ):  # fmt: skip
        assert words in page


def test_json_is_finite_and_complete(run: Run, pilot: str) -> None:  # noqa: F811
    body = document(
        run("simulate", pilot, *SHORT, "--every", 10, "--sampling", "0.1:0.9", "--tracked", "--refill", "--json")
    )
    assert body["command"] == "simulate"
    assert body["runs"][0]["verdict"] == "REFERENCE"
    assert body["model"]["coherence"] == 0.01
    assert body["model"]["shared_coherence"] == 0.02
    assert body["training"]["sampling"] == {"low": 0.1, "high": 0.9, "by": "tracked"}
    first = body["runs"][0]
    assert first["difference"] is None
    assert [row["step"] for row in first["records"]] == [0, 10, 20]
    assert first["records"][0]["dead"]["value"] is None
    assert set(first["records"][0]["held_out_pass_at"]) == {"1", "8", "64"}
    difference = body["runs"][1]["difference"]
    assert difference["low"] <= difference["value"] <= difference["high"]
    kinds = [first["records"][-1][name]["value"] for name in ("all_fail", "all_pass", "mixed")]
    assert math.isclose(sum(kinds), 1.0)


def keys_of(value: Any) -> set[str]:
    """Every key of a document, at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_every_key_of_the_json_is_documented(run: Run, pilot: str) -> None:  # noqa: F811
    page = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")
    body = document(run("simulate", pilot, *SHORT, "--sampling", "0.1:0.9", "--json"))
    assert sorted(key for key in keys_of(body) if not key.isdigit() and f"`{key}`" not in page) == []


def test_a_sweep_is_said_and_so_is_its_end(run: Run, pilot: str) -> None:  # noqa: F811
    rest = [x for x in SHORT if x not in ("--learning-rate", 0.3)]
    answer = run("simulate", pilot, *rest, "--learning-rates", "0.001,1", "--estimators", "rloo")
    page = " ".join(answer.out.split())
    assert "the best of 0.001, 1 for each run, chosen on 3 other seeds" in page
    assert "an end of the learning rates tried. Widen the list." in page
    assert page.startswith("Answer rloo at G = 8 ends at a held-out pass rate of")


def test_the_first_lines_say_at_which_rate(run: Run, pilot: str) -> None:  # noqa: F811
    """One rate for all, the best of a list, the default list, and a best rate at its end."""
    rest = [x for x in SHORT if x not in ("--learning-rate", 0.3)]

    def top(*options: Any) -> str:
        return " ".join(run("simulate", pilot, *rest, *options).out.split("\n\n")[0].split())

    assert "At learning rate 0.3 alone" in top("--learning-rate", 0.3)
    assert "Each at its best learning rate of 0.3, 1, 3, 10, 30." in top("--seeds", 2)
    end = top("--learning-rates", "0.001,1", "--estimators", "rloo,sign")
    assert "At an end of that list: rloo at G = 8" in end
    assert "alone" in top("--shuffled")
    one = top("--learning-rate", 0.3, "--estimators", "rloo")
    assert "At learning rate 0.3 alone" in one


def test_coherence_is_that_of_gradients(run: Run, pilot: str) -> None:  # noqa: F811
    """As in remedies and plan. Mutant: passed on as the inner product of the shared directions."""
    body = document(run("simulate", pilot, *SHORT, "--coherence", 0.1, "--shared", 0.4, "--json"))
    assert body["model"]["coherence"] == pytest.approx(0.1)
    assert body["model"]["shared_coherence"] == pytest.approx(0.25)
    assert "coherence of gradients 0.1," in " ".join(
        run("simulate", pilot, *SHORT, "--coherence", 0.1, "--shared", 0.4).out.split()
    )
    refused = run("simulate", pilot, *SHORT, "--coherence", 0.6)
    assert refused.code == 2
    assert "--coherence must be at most --shared, 0.5" in refused.err
    assert run("simulate", pilot, *SHORT, "--coherence", 0, "--shared", 0).code == 0


def test_no_table_is_folded(run: Run, pilot: str) -> None:  # noqa: F811
    out = run("simulate", pilot, *SHORT, "--group-sizes", "4,16").out
    for part in out.split("\n\n"):
        names = [line.split("  ")[1] for line in part.splitlines() if line.startswith("  rloo, G = 4")]
        assert len(names) <= 1, part
    assert "drawn: all-fail" not in out


def test_the_control_is_named(run: Run, pilot: str) -> None:  # noqa: F811
    answer = run("simulate", pilot, *SHORT, "--shuffled", "--estimators", "rloo,grpo")
    assert "Shuffled rewards, a control that cannot learn." in " ".join(answer.out.split())
    assert "The control: mean change of the logit, 0 where nothing was learned" in answer.out


def test_a_measured_kappa_is_taken_from_its_file(run: Run, pilot: str) -> None:  # noqa: F811
    rng = np.random.default_rng(0)
    length, noise = rng.gamma(2.0, size=300), 9.0 * rng.gamma(2.0, size=300)
    rewards = (rng.random((300, 8)) < 0.4).astype(float)
    m = gp.measure_kappa({g: length + noise / (g - 1) for g in (4, 16)}, rewards=rewards)
    m.save("kappa.json")
    body = document(run("simulate", pilot, *SHORT, "--kappa", "kappa.json", "--json"))
    assert m.kappa is not None
    assert body["model"]["kappa"] == m.kappa.value
    assert body["model"]["kappa_from"] == "measured"


def test_one_seed_tells_nothing(run: Run, pilot: str) -> None:  # noqa: F811
    answer = run("simulate", pilot, *SHORT, "--seeds", 1)
    page = " ".join(answer.out.split())
    assert "One seed gives no interval" in page
    assert "+- unknown" in page


@pytest.mark.parametrize(("options", "message"), [
    (("--estimators", "nope"), "estimator must be one of"), (("--estimators", ","), "--estimators must be names"),
    (("--learning-rates", "1,2"), "not both"), (("--sampling", "sorted"), "sampling must be one of"),
    (("--sampling", "a:b"), "--sampling must be"), (("--tracked",), "--tracked needs a band"),
    (("--kappa", "1:300"), "must be one number"), (("--kappa", "inf"), "kappa must be finite"),
    (("--group-sizes", "128"), "must hold a group of 128"), (("--seeds", 0), "seeds must be at least 1"),
    (("--optimizer", "lion"), "optimizer must be one of"), (("--measure", "loss"), "measure must be one of"),
    (("--pass-at", "x"), "--pass-at must be whole numbers"), (("--truncated",), "simulate cannot take --truncated"),
    (("--shuffled", "--refill"), "shuffled rewards need"), (("--harmful", "nan"), "harmful must lie in"),
    (("--coherence", 2), "--coherence must lie in"), (("--shared", "-1"), "--shared must lie in"),
])  # fmt: skip
def test_refusals_are_one_line(run: Run, pilot: str, options: tuple[Any, ...], message: str) -> None:  # noqa: F811
    answer = run("simulate", pilot, *SHORT, *options)
    assert answer.code == 2
    assert answer.out == ""
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_pilots_at_the_edges(run: Run) -> None:  # noqa: F811
    for k in (0, 8):
        Path("edge.jsonl").write_text("".join(f'{{"prompt_id": "p{i}", "n": 8, "k": {k}}}\n' for i in range(30)))
        body = document(run("simulate", "edge.jsonl", *SHORT, "--json"))
        assert body["runs"][1]["verdict"] == "EQUAL"
        assert body["runs"][0]["records"][-1]["noise_to_signal"]["value"] is None
        assert body["runs"][0]["final"]["value"] == k / 8
        answer = run("simulate", "edge.jsonl", *SHORT)
        assert "unknown" in answer.out
        rest = [x for x in SHORT if x not in ("--learning-rate", 0.3)]
        assert "At an end" not in run("simulate", "edge.jsonl", *rest, "--learning-rates", "0.3,1").out
