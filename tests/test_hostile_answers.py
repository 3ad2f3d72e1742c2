"""Bad input of ``simulate``, ``passk``, ``losses``, ``remedies`` and ``advantages``: one line, before the work."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.cli.waiting import waiting
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.passk.tail import local_exponent
from grpo_plan.simulation import SimulatedPolicy, SimulatedTraining, Verdict, compare_simulations, simulate
from tests.test_cli import Run, document, run

__all__ = ["run"]  # a fixture
SHORT = ("--steps", 4, "--rollouts-per-step", 64, "--prompts", 40, "--held-out", 40, "--dimension", 4, "--seeds", 2,
         "--learning-rate", 0.3)  # fmt: skip
TRAINING = SimulatedTraining(steps=4, rollouts_per_step=64)
MODEL = SimulatedPolicy(prompts=30, held_out=30, dimension=4)


def counts(path: str, ks: list[int], n: int = 8, **more: Any) -> str:
    rows = [{"prompt_id": f"p{i}", "n": n, "k": k, **more} for i, k in enumerate(ks)]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refused(answer: Any, code: int, message: str) -> None:
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert message in answer.err
    assert answer.err.splitlines()[-1].startswith("grpo-plan: ")
    assert "Traceback" not in answer.err


# simulate: what the fit cannot tell ------------------------------------------------------------------------------


def test_one_rollout_per_prompt_is_refused(run: Run) -> None:
    refused(run("simulate", counts("one.jsonl", [0, 1, 1] * 40, 1), *SHORT), 1, "one rollout per prompt")
    with pytest.raises(gp.PilotError, match="one rollout per prompt"):
        simulate(gp.Pilot.from_counts([0, 1] * 40, 1), training=TRAINING, model=MODEL, seeds=1)


def test_statuses_of_the_fit_are_said(run: Run) -> None:
    answer = run("simulate", counts("few.jsonl", [0, 3, 5, 8]), *SHORT)
    assert "TOO_FEW_PROMPTS" in " ".join(answer.out.splitlines()[:6])
    found = document(run("simulate", "few.jsonl", *SHORT, "--json"))
    assert "TOO_FEW_PROMPTS" in found["statuses"]
    pilot = gp.Pilot.from_counts([4] * 200, 8)  # all alike: less spread than chance gives
    assert "UNDERDISPERSED" in [s.name for s in simulate(pilot, training=TRAINING, model=MODEL, seeds=1).statuses]
    assert simulate([0.5], training=TRAINING, model=MODEL, seeds=1).statuses == ()
    wide = gp.Pilot.from_counts([0] * 30 + [1] * 2, 4)
    at_64 = compare_simulations(wide, group_sizes=[8, 64], training=TRAINING, model=MODEL, seeds=1)
    assert "BEYOND_REACH" in [s.name for s in at_64.statuses]


def test_dead_prompts_end_exactly_alike(run: Run) -> None:
    answer = run("simulate", counts("dead.jsonl", [0, 8] * 40), *SHORT)
    assert answer.out.startswith("Answer   exactly alike in every seed: sign at G = 8 (as rloo at G = 8)")
    assert "cannot tell" not in answer.out
    assert "No group was mixed in any run" in " ".join(answer.out.split())
    both = compare_simulations([0.0, 1.0], training=TRAINING, model=MODEL, seeds=2)
    assert both.runs[1].verdict is Verdict.EQUAL
    some = compare_simulations([0.3, 0.6], training=TRAINING, model=MODEL, seeds=2)
    assert some.runs[1].verdict is not Verdict.EQUAL


def test_groups_of_one_that_learn_nothing_are_said(run: Run) -> None:
    answer = run("simulate", counts("ok.jsonl", [i % 9 for i in range(60)]), *SHORT, "--group-sizes", "1")
    assert "rloo at G = 1 gives every rollout the advantage 0" in " ".join(answer.out.split())
    assert "sign at G = 1 gives" not in " ".join(answer.out.split())


@pytest.mark.parametrize("source", [[True], [True, 0.5], ["0.5"], np.array([True, False]), "0.5"])
def test_pass_rates_are_numbers(source: Any) -> None:
    with pytest.raises(gp.DomainError, match="pass rates must be numbers"):
        simulate(source, training=TRAINING, model=MODEL, seeds=1)


@pytest.mark.parametrize(("pair", "message"), [
    (lambda k: (k, k), "failed at G = 8: TypeError"),
    (lambda k, g: (k / (g - 8), 1 / (g - 8)), "failed at G = 8: ZeroDivisionError"),
    (lambda k, g: (np.ones(1), np.ones(1)), "two arrays of 9 numbers"),
    (lambda k, g: (np.ones((9, 1)), np.ones(9)), "two arrays of 9 numbers"),
    (lambda k, g: (k, k, k), "two arrays of 9 numbers"),
    (lambda k, g: {"plus": k}, "two arrays of 9 numbers"),
    (lambda k, g: (k * 1j, k), "two arrays of 9 numbers"),
    (lambda k, g: ("1", "2"), "two arrays of 9 numbers"),
    (lambda k, g: None, "two arrays of 9 numbers"),
    (lambda k, g: (k * 1e300, -k), "at most 1e+50 in size"),
])  # fmt: skip
def test_own_pairs_fail_in_one_line(pair: Callable[..., Any], message: str) -> None:
    with pytest.raises(gp.DomainError) as error:
        simulate([0.5], estimator=pair, training=TRAINING, model=MODEL, seeds=1)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_own_pairs_may_be_two_numbers_or_arrays() -> None:
    pairs: list[Any] = [lambda k, g: (1.0, -1), lambda k, g: np.ones((2, g + 1)), lambda k, g: [1 / k, -1 / (g - k)]]
    for pair in pairs:
        run = simulate([0.5], estimator=pair, training=TRAINING, model=MODEL, seeds=1)
        assert np.isfinite(run.train).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adam-norm"])
def test_the_largest_advantages_stay_finite(optimizer: str) -> None:
    wild = SimulatedTraining(steps=20, rollouts_per_step=64, optimizer=optimizer, learning_rate=1e6, kl_coefficient=1e6)
    largest: Any = lambda k, g: (1e50, -1e50)  # noqa: E731
    run = simulate(
        [0.0, 0.3, 1.0, 0.5], estimator=largest, training=wild,
        model=SimulatedPolicy(held_out=30, dimension=4, kappa=1e12, damage=1e6), seeds=2,
    )  # fmt: skip
    for field in ("train", "held_out", "kl", "drift_cost", "train_logit"):
        assert np.isfinite(getattr(run, field)).all()


# Options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    (("simulate", "ok.jsonl", *SHORT, "--pass-at", ""), "--pass-at must be whole numbers"),
    (("simulate", "ok.jsonl", *SHORT, "--group-sizes", "4,,8"), "--group-sizes must be whole numbers"),
    (("simulate", "ok.jsonl", *SHORT, "--estimators", "rloo,,sign"), "--estimators must be names"),
    (("simulate", "ok.jsonl", *SHORT, "--estimators", "w_reinforce:1e49,w_reinforce:1e60"), "at most 1e+06"),
    (("passk", "ok.jsonl", "--ks", "1,,2"), "--ks must be whole numbers"),
    (("passk", "ok.jsonl", "--margin", "0.1"), "--margin is of a comparison"),
    (("passk", "ok.jsonl", "--margin", "nan"), "--margin is of a comparison"),
    (("passk", "ok.jsonl", "--after", "two.jsonl", "--margin", "nan"), "margin must be finite"),
    (("advantages", "--rewards", "1,0", "--trainer", "trl", "--setting", "scale_rewards=batch",
      "--setting", "scale_rewards=none"), "--setting scale_rewards is given twice"),
    (("passk", "-", "--after", "-"), "Standard input can be read once"),
    (("passk", "ok.jsonl", "--reward-weights", "a=1,a=2"), "names 'a' twice"),
    (("passk", "ok.jsonl", "--storage-option", "a=1", "--storage-option", "a=2"), "given twice"),
])  # fmt: skip
def test_nothing_is_ignored(run: Run, arguments: tuple[Any, ...], message: str) -> None:
    counts("ok.jsonl", [i % 9 for i in range(60)])
    counts("two.jsonl", [i % 9 for i in range(60)])
    refused(run(*arguments), 2, message)


def test_the_option_of_the_second_policy_is_named(run: Run) -> None:
    counts("ok.jsonl", [i % 9 for i in range(60)])
    rows = [{"prompt_id": f"p{i}", "n": 8, "k": i % 9, "temperature": t} for i in range(40) for t in (0.6, 1.0)]
    Path("two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(run("passk", "ok.jsonl", "--after", "two.jsonl"), 1, "--after-where temperature=0.6")
    refused(run("passk", "two.jsonl", "--after", "ok.jsonl"), 1, "--where temperature=0.6")
    answer = run("passk", "ok.jsonl", "--after-where", "x=1")
    refused(answer, 1, "asked for by --after-where")


def test_a_step_cut_to_the_pilot_is_said(run: Run) -> None:
    rows = [{"prompt_id": f"p{i}", "reward": (i + j) % 2, "tokens": 5 + j} for i in range(40) for j in range(4)]
    Path("tok.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ("losses", "tok.jsonl", "--tokens-column", "tokens", "--micro-batch", 8)
    assert "--prompts-per-step 1,000,000,000 is more than the pilot has" in run(*given, "--prompts-per-step", 10**9).err
    assert "more than the pilot has" not in run(*given, "--prompts-per-step", 20).err


@pytest.mark.parametrize("command", [
    ("passk", "-o"), ("remedies", "--group-size", 4, "--plot"), ("plan", "--budget-rollouts", 10**6, "--steps", 100, "--plot"), ("plot", "-o"),
])  # fmt: skip
def test_pictures_that_cannot_be_written_are_told_first(
    run: Run, command: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("needs a folder that takes no files")
    monkeypatch.setattr("grpo_plan.cli.pilot_options.PilotRequest.read", lambda *_, **__: pytest.fail("was read"))
    refused(run(command[0], counts("ok.jsonl", [1, 2, 3]), *command[1:], "/proc/x.png"), 2, "cannot be written (")


def test_trying_to_write_leaves_nothing_behind_and_changes_nothing(run: Run) -> None:
    counts("ok.jsonl", [i % 9 for i in range(60)])
    Path("there.png").write_bytes(b"kept")
    before = sorted(p.name for p in Path.cwd().iterdir())
    for target in ("new.png", "there.png"):
        assert run("passk", "ok.jsonl", "--level", "2", "-o", target).code == 2
    assert sorted(p.name for p in Path.cwd().iterdir()) == before
    assert Path("there.png").read_bytes() == b"kept"


# Sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [
    ("passk",), ("simulate",), ("remedies", "--group-size", 4), ("losses",), ("advantages",), ("fit",), ("diagnose",),
])  # fmt: skip
def test_an_empty_path_is_no_folder(run: Run, command: tuple[Any, ...]) -> None:
    counts("ok.jsonl", [i % 9 for i in range(60)])
    answer = run(command[0], "", *command[1:])
    assert answer.code in (1, 2)
    assert answer.out == ""
    assert "mpty path" in answer.err


@pytest.mark.parametrize(("content", "message"), [
    ('{"prompt_id":"é","reward":1}\n'.encode("latin-1") * 5, "is not UTF-8 text"),
    ("prompt_id,reward\né,1\n".encode("latin-1") * 5, "is not UTF-8 text"),
    (b"", "is empty"),
    (b'{"a": 1,\n', "holds no JSON object"),
    (b'{\n"a": 1,\n"b": 2}\n', "is one JSON object over several lines"),
])  # fmt: skip
def test_files_that_are_no_table_are_told_as_such(run: Run, content: bytes, message: str) -> None:
    Path("x.jsonl").write_bytes(content)
    for command in (("passk", "x.jsonl"), ("advantages", "x.jsonl")):
        answer = run(*command)
        if message.startswith("is one") and answer.code == 1 and command[0] == "passk":
            continue  # such an object may be a report of another format, which is told first
        assert answer.code == 1
        assert message in answer.err, (command, answer.err)


def test_why_no_rollout_counts_is_said_in_words_with_a_next_step(run: Run) -> None:
    Path("x.jsonl").write_text('{"prompt_id": "a", "n": null, "k": 1}\n')
    answer = run("passk", "x.jsonl")
    assert "(prompts with missing counts: 1). Check the columns of n and k" in answer.err
    assert "_counts" not in answer.err


# Library ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "x", 3, [0.5]])
def test_sources_of_pass_curves_are_told_what_is_taken(value: Any) -> None:
    for call in (gp.pass_tail, lambda x: local_exponent(x, 2)):
        with pytest.raises(gp.DomainError, match="fit must be a PassRateFit"):
            call(value)
    with pytest.raises(gp.DomainError, match="a Pilot or a PassRateFit"):
        gp.pass_curve(value)
    fit = fit_pass_rates(gp.Pilot.from_counts([0, 1, 2, 3, 4] * 20, 4))
    assert gp.pass_curve(fit).ks == (1, 2, 4, 8, 16)


# Waiting ---------------------------------------------------------------------------------------------------------


def test_a_waiting_line_is_shown_where_somebody_looks_on_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Event()

    class Screen(io.StringIO):
        looked_on = True

        def isatty(self) -> bool:
            return self.looked_on

        def write(self, text: str) -> int:
            size = super().write(text)
            shown.set()
            return size

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("grpo_plan.cli.waiting.PATIENCE", 0.001)
    with waiting("comparing"):
        assert shown.wait(30)
    assert screen.getvalue().startswith("\rcomparing (")
    assert screen.getvalue().endswith(" \r")
    screen.looked_on = False
    said = screen.getvalue()
    with waiting("comparing"):
        pass
    assert screen.getvalue() == said
