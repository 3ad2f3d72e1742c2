"""Rollouts without a reward, and dead groups whose equal reward is neither pass nor fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.runs.detectors.windows import severity_by
from grpo_plan.runs.finding import Severity
from tests.made_runs import clear, found, made_groups, made_run, skipped

DATA = Path(__file__).parent / "data"
NAN = float("nan")
FAILED, FLAT = "FAILED_SCORING", "FLAT_REWARD"


def failing(shares: list[float], *, size: int = 8, per_step: int = 4, seed: int = 0) -> gp.RunLog:
    """A run whose rollouts fail to be scored with these chances, step by step."""
    rng = np.random.default_rng(seed)
    rewards, steps = [], []
    for step, share in enumerate(shares, start=1):
        for _ in range(per_step):
            row = rng.integers(0, 2, size).astype(float)
            row[rng.random(size) < share] = NAN
            rewards.append(row)
            steps.append(step)
    return made_run(groups=made_groups(rewards, steps))


def test_rollouts_of_trl_without_a_reward_are_found() -> None:
    """TRL's `none2`: 53 of 320 distinct rollouts were scored by no function."""
    said = found(FAILED, gp.read_run(DATA / "trl" / "none2"))
    assert said.severity is Severity.WARNING
    assert said.evidence["failed_fraction"] == pytest.approx(53 / 320)
    assert said.evidence["unscored_groups"] == 5
    assert "5 of 80 groups have fewer than two rewards" in said.says
    assert said.onset_step == 1


def test_no_group_that_is_dead_for_it_is_not_spoken_of() -> None:
    said = found(FAILED, failing([0.03] * 60, per_step=8))
    assert said.evidence["unscored_groups"] == 0
    assert "fewer than two rewards" not in said.says


def test_errors_of_verifiers_are_found_and_six_groups_are_no_proof_of_much() -> None:
    groups = gp.read_groups(DATA / "verifiers" / "out", details=True)  # an evaluation: taken as one step here
    run = gp.RunLog(steps=np.unique(groups.step), metrics={}, format="made", source="made", groups=groups)
    said = found(FAILED, run)
    assert said.severity is Severity.INFO
    assert said.evidence["failed_fraction"] == pytest.approx(3 / 24)
    assert said.onset_step is None


def test_a_fully_scored_run_of_trl_is_clear_and_a_short_one_is_too_short_to_tell() -> None:
    assert "0 %" in clear(FAILED, gp.read_run(DATA / "trl" / "binary")).because
    for name in ("gap", "batchstd"):
        needs = skipped(FAILED, gp.read_run(DATA / "trl" / name)).needs
        assert "more groups: the share of rollouts without a reward is 0 %" in needs


@pytest.mark.parametrize(
    ("share", "severity"), [(0.03, Severity.INFO), (0.12, Severity.WARNING), (0.8, Severity.CRITICAL)]
)
def test_severity_follows_the_share(share: float, severity: Severity) -> None:
    said = found(FAILED, failing([share] * 60, per_step=8))
    assert said.severity is severity
    low = said.evidence["failed_fraction_low"]
    assert isinstance(low, float)
    assert low < share < float(said.evidence["failed_fraction_high"] or 0)


def test_half_a_percent_is_clear() -> None:
    clear(FAILED, failing([0.004] * 60, per_step=8))


@pytest.mark.parametrize(("start", "severity"), [(30, Severity.CRITICAL), (52, Severity.WARNING)])
def test_a_service_that_goes_down_is_dated_and_judged_by_the_end(start: int, severity: Severity) -> None:
    said = found(FAILED, failing([0.0] * start + [0.9] * (60 - start)))
    assert said.onset_step == start + 1
    assert f"from step {start + 1} on" in said.says
    assert said.evidence["window"] == "late"
    assert said.severity is severity
    assert str(start + 1) in said.remedy


def test_groups_that_lose_all_but_one_reward_are_critical() -> None:
    """Fewer than half of the rollouts fail, but every group of two has one reward only."""
    run = made_run(groups=made_groups([[0, NAN, 1, 1][:2] if i % 10 else [0, 1] for i in range(100)]))
    said = found(FAILED, run)
    assert said.severity is Severity.CRITICAL
    assert said.evidence["unscored_groups"] == 90
    assert float(said.evidence["failed_fraction_low"] or 0) < 0.5


def test_failures_of_aggregates_are_judged_by_rows() -> None:
    rng = np.random.default_rng(3)
    shares = rng.binomial(64, 0.12, 80) / 64
    run = made_run({"response/aborted_ratio": shares, "critic/score/mean": shares}, tool="verl", group_size=8)
    said = found(FAILED, run)
    assert said.severity is Severity.WARNING
    late = said.evidence["window"] == "late"
    assert said.evidence["failed_fraction"] == pytest.approx(shares[-16 if late else 0 :].mean())
    assert "response/aborted_ratio" in said.says
    assert said.evidence["unscored_groups"] is None
    skipped(FAILED, made_run({"response/aborted_ratio": [0.1], "critic/score/mean": [0.5]}, tool="verl"))


def test_what_is_missing_is_said() -> None:
    said = skipped(FAILED, made_run({"reward": [0.5] * 20}))
    assert "failed_fraction: not logged by trl" in said.needs
    assert "log_completions=True" in said.needs
    assert "response/aborted_ratio" in skipped(FAILED, made_run({"critic/score/mean": [0.5]}, tool="verl")).needs
    skipped(FAILED, made_run(rows=0))
    skipped(FAILED, made_run({"response/aborted_ratio": [NAN, NAN]}, tool="verl"))


@pytest.mark.parametrize("low", [0.01, 0.05, 0.5])
def test_thresholds_are_strict(low: float) -> None:
    below, above = severity_by(low, 0.01, 0.05, 0.5), severity_by(np.nextafter(low, 1), 0.01, 0.05, 0.5)
    assert below is not above


# --- flat rewards ------------------------------------------------------------------------------------------------


def flat_groups(share: float, *, groups: int = 400, value: float = 0.1, seed: int = 1) -> gp.RunLog:
    rng = np.random.default_rng(seed)
    rewards = [[value] * 4 if rng.random() < share else list(rng.choice([0.0, value, 1.0], 4)) for _ in range(groups)]
    return made_run(groups=made_groups(rewards, [i // 10 + 1 for i in range(groups)]), group_size=4)


def test_groups_that_all_earn_the_format_reward_are_found_and_the_reward_is_named() -> None:
    said = found(FLAT, flat_groups(0.3))
    assert said.severity is Severity.WARNING
    assert said.evidence["reward_most_often"] == pytest.approx(0.1)
    assert "0.1" in said.says
    assert "what earns a reward of 0.1" in said.remedy


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_groups_that_all_fail_or_all_pass_are_not_flat(value: float) -> None:
    rewards = [[value] * 4] * 60 + [[0, 1, 1, 0]] * 40
    clear(FLAT, made_run(groups=made_groups(rewards), group_size=4))


def test_a_run_that_improves_is_told_no_more_than_that() -> None:
    rng = np.random.default_rng(0)
    rewards, steps = [], []
    for step in range(1, 61):
        for _ in range(8):
            p = 0.2 + 0.6 * step / 60
            row = np.where(rng.random(4) < p, 1.0, 0.1) if rng.random() > 0.4 else np.full(4, 0.1)
            rewards.append(row)
            steps.append(step)
    rewards[0] = np.array([0.0, 0.1, 1.0, 0.1])
    said = found(FLAT, made_run(groups=made_groups(rewards, steps), group_size=4))
    assert said.evidence["reward"] == "improving"
    assert said.severity is Severity.INFO


def test_most_groups_flat_is_critical_only_where_the_reward_surely_stands_still() -> None:
    short = found(FLAT, flat_groups(0.9, groups=60))  # six steps do not tell what the reward does
    assert short.evidence["reward"] == "unclear"
    assert short.severity is Severity.WARNING


def test_few_flat_groups_stay_a_note_where_the_reward_is_unclear() -> None:
    late = [i >= 140 and i % 8 == 0 for i in range(240)]  # one of eight, at the end only
    rng = np.random.default_rng(3)
    rewards = [[0.1] * 4 if flat else [0.0, 0.1, 1.0, rng.choice([0.0, 1.0])] for flat in late]
    few = found(FLAT, made_run(groups=made_groups(rewards, [i // 10 + 1 for i in range(240)]), group_size=4))
    assert few.evidence["window"] == "late"
    assert few.evidence["reward"] not in ("flat", "falling", "improving")
    assert few.severity is Severity.INFO


def test_groups_that_were_flat_once_are_told_only() -> None:
    rng = np.random.default_rng(5)
    mixed = [[0.1] * 4 if i % 12 == 0 else [0.0, 0.1, 1.0, rng.choice([0.0, 0.1, 1.0])] for i in range(320)]
    rewards = [[0.1] * 4] * 160 + mixed  # one of twelve is flat from step 21 on
    steps = [step for step in range(1, 61) for _ in range(8)]
    said = found(FLAT, made_run(groups=made_groups(rewards, steps), group_size=4))
    assert said.evidence["window"] == "whole run"
    assert said.severity is Severity.INFO


def test_half_of_the_groups_flat_without_progress_is_critical() -> None:
    rows = 300
    half = np.full(rows, 0.75)
    metrics = {"batch/filtered_prompts": half * 64, "batch/total_prompts": np.full(rows, 64.0)}
    metrics |= {"batch/filtered_prompts_pct": half, "batch/filtered_prompts_zero": np.full(rows, 4.0)}
    metrics |= {
        "batch/filtered_prompts_solved": np.full(rows, 4.0),
        "scores": np.full(rows, 0.3) + 1e-4 * (np.arange(rows) % 2),
    }
    said = found(FLAT, made_run(metrics, tool="open-instruct"), prompts_per_step=64)
    assert said.evidence["flat_fraction"] == pytest.approx(0.75 - 8 / 64)
    assert said.severity.rank >= Severity.WARNING.rank
    assert "batch/filtered_prompts_zero" in said.says


def test_an_equal_reward_of_0_above_a_penalty_is_a_fail() -> None:
    """tinker's own example: 0/1 less 0.1 for the format; 24 groups are equal at 0."""
    said = skipped(FLAT, gp.read_run(DATA / "tinker" / "run"))  # 12 steps: 0 to 26.5 %
    assert "in 24 of them all rewards are 0, which is a fail where others are negative" in said.needs


def slime(levels: dict[str, float], rows: int = 60, **more: object) -> gp.RunLog:
    metrics = {name: np.full(rows, count) for name, count in levels.items()}
    metrics["rollout/raw_reward"] = np.full(rows, 0.4) + 1e-5 * (np.arange(rows) % 2)
    return made_run(metrics, tool="slime", **more)  # type: ignore[arg-type]


def test_counts_of_slime_by_reward_are_read() -> None:
    levels = {"rollout/zero_std/count_0.0": 10.0, "rollout/zero_std/count_0.1": 12.0, "rollout/zero_std/count_1.0": 5.0}
    said = found(FLAT, slime(levels, config={"rollout_batch_size": 32}))
    assert said.evidence["flat_fraction"] == pytest.approx(12 / 32)
    assert said.evidence["reward_most_often"] == 0.1
    assert said.severity.rank >= Severity.WARNING.rank
    dropped = {name.replace("zero_std/count", "dynamic_filter/drop_zero_std"): n for name, n in levels.items()}
    said = found(FLAT, slime(dropped, config={"rollout_batch_size": 32}))
    assert said.evidence["flat_fraction"] == pytest.approx(12 / (32 + 27))
    of_dead = found(FLAT, slime(levels))
    assert of_dead.evidence["share_of"] == "dead groups"
    assert of_dead.evidence["flat_fraction"] == pytest.approx(12 / 27)
    assert of_dead.severity is Severity.INFO


@pytest.mark.parametrize("ends", [("0.0", "1.0"), ("-1.0", "1.0"), ("-1", "0")])
def test_the_ends_of_the_rewards_of_slime_are_not_flat(ends: tuple[str, str]) -> None:
    clear(FLAT, slime({f"rollout/zero_std/count_{e}": 9.0 for e in ends}, config={"rollout_batch_size": 32}))


def test_shares_that_count_solved_and_unsolved_only_cannot_tell() -> None:
    said = skipped(FLAT, gp.read_run(DATA / "prime_rl" / "v0.8"))
    assert "counts only groups that all pass or all fail as dead" in said.needs
    said = skipped(
        FLAT,
        made_run({"frac_reward_zero_std": [0.25, 0.5] * 10, "reward": [0.4] * 20}, config={"scale_rewards": "group"}),
    )
    assert "all_pass_fraction" in said.needs


def test_shares_that_add_up_are_clear_and_missing_rows_are_left_out() -> None:
    mixed = np.array([0.5, NAN, 0.25] * 10)
    good, bad = np.where(np.isfinite(mixed), 0.25, 0.25), 1 - mixed - 0.25
    run = made_run(
        {
            "env/all/by_group/frac_mixed": mixed,
            "env/all/by_group/frac_all_good": good,
            "env/all/by_group/frac_all_bad": bad,
        },
        tool="tinker",
    )
    assert "0 %" in clear(FLAT, run).because


def test_rollouts_that_survived_a_filter_are_not_counted() -> None:
    run = made_run(groups=made_groups([[0.1] * 4] * 30, filtered="dynamic sampling"), group_size=4)
    skipped(FLAT, run)
