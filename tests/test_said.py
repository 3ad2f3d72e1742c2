"""What commands say of their own answers: what dead means, what is lost without kappa, what cannot be told apart."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure

import grpo_plan as gp
from grpo_plan.fitting import PassRateFit
from grpo_plan.plots import plot_dead, plot_dead_fraction
from grpo_plan.provenance import Provenance
from grpo_plan.runs.diagnosis import diagnose
from tests.runs import expectation
from tests.test_cli import Run, document
from tests.test_cli import run as command  # noqa: F401, a fixture
from tests.test_diagnosis import planned_run

BUDGET = ("--rollouts-per-step", "1024", "--steps", "100")
MEANING = "A group is called dead where its rollouts all pass or all fail; a reward of 0.75 or more passes."


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """120 groups of 8 graded rewards, of which 3 are all equal."""
    rng = np.random.default_rng(1)
    rewards = np.clip(rng.normal(rng.random((120, 1)), 0.25, (120, 8)).round(3), 0.0, 1.0)
    rewards[:3] = 0.5
    rewards[3:, 0] += 0.001
    rows = [{"prompt_id": f"p{i}", "rewards": row.tolist()} for i, row in enumerate(rewards)]
    path = tmp_path / "graded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def plain(text: str) -> str:
    return " ".join(text.split())


def test_graded_lists_are_dead_by_pass_or_fail_and_the_count_by_reward_stands_beside(
    graded: Path,
    command: Run,  # noqa: F811
) -> None:
    rewards = np.array([json.loads(line)["rewards"] for line in graded.read_text().splitlines()])
    by_pass = int(((rewards >= 0.75).all(1) | (rewards < 0.75).all(1)).sum())
    words = (graded, "--pass-threshold", "0.75")
    first = plain(command("plan", *words, *BUDGET).out.split("Mixed")[0])
    assert MEANING in first
    assert f"3 of the 120 groups read are dead (2.5 %); by pass or fail {by_pass}." in first
    assert "dead by pass or fail" in first
    fit = plain(command("fit", *words).out)
    assert (
        f"counted: 3 of 120 dead by the full reward, which is what a trainer compares; by pass or fail {by_pass}" in fit
    )
    found = document(command("fit", *words, "--json"))["pilot"]["provenance"]
    assert found["pass_threshold"] == 0.75
    assert (found["dead_groups"]["by_full_reward"], found["dead_groups"]["by_pass_or_fail"]) == (3, by_pass)


def test_rows_that_name_no_groups_say_that_none_were_counted(graded: Path, tmp_path: Path, command: Run) -> None:  # noqa: F811
    rows = pl.read_ndjson(graded).explode("rewards").rename({"rewards": "reward"})
    rows.write_csv(tmp_path / "long.csv")
    for words in (("fit",), ("plan", *BUDGET)):
        text = plain(command(words[0], tmp_path / "long.csv", "--pass-threshold", "0.75", *words[1:]).out)
        assert MEANING in text
        assert "how many was not counted, as rows name no groups" in text


def test_rewards_of_pass_or_fail_need_no_word_on_what_dead_means(example_file: Path, command: Run) -> None:  # noqa: F811
    assert "called dead" not in command("plan", example_file, *BUDGET).out
    assert Provenance().meaning_of_dead == ""
    assert Provenance(pass_threshold=0.5, filtered="survivors only").meaning_of_dead.endswith("0.5 or more passes.")


def test_a_typed_kappa_is_given_not_measured(example_file: Path, command: Run) -> None:  # noqa: F811
    words = ("plan", example_file, *BUDGET, "--kappa", "50")
    text = command(*words).out
    assert "kappa 50 as given" in plain(text)
    assert "is measured" not in text
    kappa = document(command(*words, "--json"))["kappa"]
    assert (kappa["value"], kappa["measured"]) == (50.0, False)


def test_sizes_that_the_pilot_cannot_tell_from_the_best(example_fit: PassRateFit) -> None:
    plan = gp.plan_group_size(example_fit, budget=gp.Budget(rollouts=2_000_000, steps=500))
    sizes = [p.design.group_size for p in plan.frontier]
    for answer in plan.sensitivity:
        low, high = plan.not_told_apart(answer)
        assert low <= answer.group_size <= high
        at = {p.design.group_size: plan.progress_limits(p, answer.kappa)[1] for p in plan.frontier}
        assert at[low] >= 1.0
        assert at[high] >= 1.0
        shares = {p.design.group_size: plan.progress_at(p, answer.kappa) for p in plan.frontier}
        assert all(at[size] < 1.0 or shares[size] < 0.5 for size in sizes if not low <= size <= high)
    assert plan.not_told_apart(plan.sensitivity[0])[0] < plan.not_told_apart(plan.sensitivity[-1])[1]


def test_what_is_lost_without_kappa_is_what_measuring_can_win(example_file: Path, command: Run) -> None:  # noqa: F811
    words = ("plan", example_file, *BUDGET)
    found = document(command(*words, "--json"))
    lost = found["recommended"]["signal"]["worst_regret"]
    low, high = found["flat_range"]
    most = max(d["signal"]["worst_regret"] for d in found["frontier"] if low <= d["group_size"] <= high)
    text = plain(command(*words).out)
    assert (
        f"at least {1 - lost:.0%} of the best G's progress, any of G = {low} to {high} at least {1 - most:.0%}" in text
    )
    assert f"What a measured kappa can win back is those {lost:.0%} at most" in text
    assert f"lose at most {most:.0%} at any kappa" in text


@pytest.mark.parametrize(("option", "value"), [("--objective", "foo"), ("--kappa", "300:1"), ("--gpus", "0"), ("--trainer", "trll"), ("--format", "html"), ("--budget-rollouts", "1e15")])  # fmt: skip
def test_a_wrong_value_is_told_before_the_pilot_is_read(command: Run, option: str, value: str) -> None:  # noqa: F811
    answer = command("plan", "no such file", "--steps", "10", "--prompts-per-step", "8", option, value)
    assert answer.code == 2
    assert option.strip("-").split("-")[0] in answer.err
    assert "no such file" not in answer.err


def test_a_verdict_names_the_group_sizes_it_compares() -> None:
    planned = expectation()
    assert f"45 to 55 % at G = {planned.group_size}" in diagnose(planned_run(20, 0.3, 0.2), planned).verdict
    other = replace(planned, group_size=6)
    assert f"at G = {planned.group_size} (you planned 6)" in diagnose(planned_run(20, 0.3, 0.2), other).verdict


def test_two_numbers_of_rollouts_are_refused_and_two_temperatures_are_told(tmp_path: Path, command: Run) -> None:  # noqa: F811
    path = tmp_path / "t.csv"
    path.write_text("prompt_id,n,k,temperature\na,8,3,1.0\na,8,8,\nb,8,2,1.0\nb,8,8,\n")
    refused = command("fit", path, "--rollouts-per-prompt", "9")
    assert (refused.code, "column 'n' gives the rollouts of a prompt, e.g. 8" in refused.err) == (1, True)
    same = command("fit", path, "--rollouts-per-prompt", "8")
    assert same.code == 0
    assert "some rows name no temperature and are taken to be at 1" in same.err
    assert "t.csv: given 2 times, read once." in command("fit", path, path).err


def test_what_was_left_out_is_no_part_of_a_name(tmp_path: Path, command: Run) -> None:  # noqa: F811
    path = tmp_path / "s.csv"
    path.write_text("prompt_id,reward,step\n" + "".join(f"p{i},{i % 2},{i % 3 + 1}\n" for i in range(60)))
    assert "note: left out: rows outside policy steps: 40." in command("fit", path, "--policy-steps", "2:2").err


def test_advice_on_steps_ends_where_it_was_followed() -> None:
    many = Provenance(format="trl", rows=1, policy_steps=(1, 15), step_count=15)
    assert "e.g. --policy-steps 13:15" in many.warnings[0]
    few = replace(many, policy_steps=(13, 15), step_count=3)
    assert "does no harm; --policy-steps 15 keeps the last alone" in few.warnings[0]


def test_a_formula_is_called_too_low_only_where_it_is() -> None:
    rng = np.random.default_rng(0)
    apart = gp.fit_pass_rates(gp.Pilot.from_counts(rng.binomial(8, rng.beta(0.3, 0.3, 400)), 8))
    alike = gp.fit_pass_rates(gp.Pilot.from_counts([8] * 40, 8))
    for fit, said in ((apart, True), (alike, False)):
        for axes in (plot_dead(fit.dead(8)), plot_dead_fraction(fit)):
            assert isinstance(axes.figure, Figure)
            texts = [t.get_text() for t in axes.get_yticklabels()] + axes.get_legend_handles_labels()[1]
            assert any("(too low)" in text for text in texts) is said


def test_weights_of_reward_functions_are_taken_by_advantages(command: Run) -> None:  # noqa: F811
    refused = command("advantages", "--rewards", "1,0", "--reward-weights", "a=1")
    assert (refused.code, "has no use for --rewards" in refused.err) == (2, True)


def test_a_closed_output_is_told(example_file: Path) -> None:
    words = [sys.executable, "-m", "grpo_plan", "mixed", "--pass-rate", "0.5", "--group-size", "8"]
    script = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", script, *words], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "standard output is closed" in done.stderr) == (1, True)
