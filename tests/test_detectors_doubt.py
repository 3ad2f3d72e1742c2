"""Checks that may not speak too soon: windows that overlap, wide limits, ends of the rewards, and what to do first."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.cli.diagnose_numbers import waste_text
from grpo_plan.runs.composition_now import DeadKind, composition_of
from grpo_plan.runs.detectors.common import WIDE, vague
from grpo_plan.runs.detectors.composition import MOSTLY_FAIL, starved
from grpo_plan.runs.detectors.published import BY_COMPOSITION
from grpo_plan.runs.diagnosis import diagnose
from grpo_plan.runs.difficulty import difficulty_of
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Severity, Waste
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.remedies import remedies_for
from grpo_plan.runs.rewards import RewardKind
from grpo_plan.runs.series import Share
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.runs.shares import group_shares
from tests.made_runs import clear, found, made_groups, made_run, outcome, skipped
from tests.runs import composed, expectation, run_of

ROWS = 100


def told(run: gp.RunLog, plan: Any = None, **settings: Any) -> Any:
    return diagnose(run, plan, settings=DiagnosisSettings(**settings))


# Windows and limits.


@given(rows=st.integers(5, 60))
def test_early_and_late_rows_are_never_the_same(rows: int) -> None:
    early, late = max(10, int(0.25 * rows)), max(10, int(0.2 * rows))
    values = np.where(np.arange(rows) < 5, 0.9, 0.01)
    run = run_of("trl", {"advantages/std": values, "reward_std": values}, config={"trl_version": "1.0"})
    for id in ("ADV_COLLAPSE", "REWARD_STD_DEATH"):
        said = outcome(id, run)
        if early + late > rows:
            assert f"the log has {rows}" in skipped(id, run).needs
        else:
            assert "steps 1 to" in (said.says if isinstance(said, Finding) else clear(id, run).because)


def test_a_spread_that_is_always_0_needs_no_early_rows() -> None:
    run = run_of("trl", {"reward_std": np.zeros(8)}, config={"trl_version": "1.0"})
    assert "since the start" in found("REWARD_STD_DEATH", run).says


@given(low=st.floats(0.0, 1.0), width=st.floats(0.0, 1.0))
def test_limits_that_are_wide_clear_nothing(low: float, width: float) -> None:
    high = min(low + width, 1.0)
    share = Share(value=low, low=low, high=high, rows=3, groups=12.0, level=0.95)
    assert (vague("X", "it", share, "step 1") is not None) == (high - low > WIDE)


def test_one_step_clears_no_check_of_the_rollouts() -> None:
    groups = made_groups([[0, 1, 0, 1]] * 3 + [[0.5] * 4], [1] * 4, truncated=[0] * 4)
    run = made_run(groups=groups, group_size=4)
    for id in ("FAILED_SCORING", "FLAT_REWARD", "TRUNCATION_DEAD"):
        assert "more groups" in skipped(id, run).needs


def test_rows_are_steps_though_groups_are_the_clusters_of_one_step() -> None:
    groups = made_groups([[np.nan, np.nan, 0.0, 1.0]] * 8, [7] * 8)
    assert found("FAILED_SCORING", made_run(groups=groups, group_size=4)).evidence["rows"] == 1


def test_dead_groups_of_neither_kind_have_the_limits_of_the_check() -> None:
    groups = made_groups([[0, 0], [1, 1], [0, 1], [0, 0]] * 44, np.repeat(np.arange(1, 45), 4).tolist())
    facts = Facts(made_run(groups=groups, group_size=2), DiagnosisSettings(late_rows=44))
    (whole,) = group_shares(facts)
    assert (whole.other_dead.value, whole.other_dead.low) == (0.0, 0.0)
    assert whole.other_dead.high == pytest.approx(1.0 - 0.025 ** (1 / 44))  # each step one unit
    assert "0 % (0 to 8" in clear("FLAT_REWARD", facts.run, late_rows=44).because


# Composition.


def test_the_clearest_turn_is_told_though_one_window_is_wide() -> None:
    rng = np.random.default_rng(2)
    fail, passes = np.linspace(0.18, 0.001, 90), np.linspace(0.1, 0.78, 90)
    fail[60:], passes[60:] = 0.001, 0.78
    counts = np.array([rng.multinomial(128, [f, p, 1 - f - p]) for f, p in zip(fail, passes, strict=True)]) / 128
    mean = counts[:, 1] + 0.5 * counts[:, 2]
    run = run_of(
        "trl", {"dead": counts[:, 0] + counts[:, 1], "reward": np.round(mean * 1024) / 1024}, group_size=8,
        config={"scale_rewards": "group"},
    )  # fmt: skip
    said = found("COMPOSITION_TURNED", run, prompts_per_step=128)
    assert "to all-pass" in str(said.evidence["turn"])
    assert said.severity is Severity.INFO
    assert said.says[0].isupper()


def test_windows_that_leave_a_turn_open_are_named() -> None:
    needs = skipped("COMPOSITION_TURNED", composed([0.5] * 9, [0.4] * 9)).needs
    assert needs.startswith("closer limits of the all-fail share in the first third and of the all-pass share in")
    assert "shares" not in needs


def test_no_turn_is_clear_where_the_ends_alone_rule_it_out() -> None:
    still = composed(np.full(90, 0.4), np.full(90, 0.0), config={"groups_per_batch": 64})
    assert "all-fail 40 %" in clear("COMPOSITION_TURNED", still).because


@pytest.mark.parametrize(
    ("share", "rows", "severity"), [(0.92, 200, "critical"), (0.92, 29, "warning"), (0.8, 200, "warning")]
)
def test_starved_and_surely_flat_is_critical(share: float, rows: int, severity: str) -> None:
    rng = np.random.default_rng(5)
    mixed = np.full(rows, 0.99 - share)
    fail = rng.binomial(256, share, rows) / 256
    run = composed(fail, np.minimum(1.0 - fail, 0.01), reward=0.05 + 0.0 * mixed, config={"groups_per_batch": 256})
    assert found("STARVED", run).severity.value == severity


def test_starved_but_not_surely_flat_is_not_critical() -> None:
    """Twenty rows of noise and a reward that crawls up: neither may be called hopeless."""
    for seed, rows in product(range(20), (20, 60)):
        rng = np.random.default_rng(seed)
        fail = rng.binomial(128, np.linspace(0.94, 0.80, rows)) / 128
        passes = np.minimum(rng.binomial(128, 0.01, rows) / 128, 1.0 - fail)
        run = composed(fail, passes, config={"groups_per_batch": 128})
        assert "critical" not in {f.severity.value for f in told(run).findings}
    assert MOSTLY_FAIL == 0.85


# Rewards that are always 0, or 1.


@pytest.mark.parametrize("columns", [{"reward_std": np.zeros(ROWS)}, {"dead": np.ones(ROWS)}])
@pytest.mark.parametrize("group_size", [8, None])
def test_a_reward_that_is_never_paid_is_told_as_that(columns: Any, group_size: int | None) -> None:
    both = {"reward": np.zeros(ROWS), "dead": np.ones(ROWS), **columns}
    run = run_of("trl", both, group_size=group_size, config={"trl_version": "1.0"})
    assert Facts(run).rewards.kind is RewardKind.BINARY
    said = told(run)
    worst = said.finding("STARVED")
    assert (worst.severity, worst.evidence["ever_paid"]) == (Severity.CRITICAL, False)
    assert "never paid" in worst.says
    assert "Check the scorer first" in said.verdict
    assert "100 % all fail" in said.verdict


def test_a_reward_that_is_always_full_is_a_solved_set() -> None:
    run = run_of("trl", {"reward": np.ones(ROWS), "dead": np.ones(ROWS)}, group_size=8)
    said = told(run)
    assert said.worst is Severity.WARNING
    assert "every rollout passes" in said.finding("SATURATED").says


@pytest.mark.parametrize(
    "columns",
    [
        {"reward": np.zeros(ROWS), "dead": np.r_[np.ones(ROWS - 1), 0.5]},  # rewards of -1 and 1 cancel
        {"reward": np.full(ROWS, 0.5), "dead": np.ones(ROWS)},
        {"reward": np.zeros(4), "dead": np.ones(4)},
        {"reward": np.zeros(ROWS)},
    ],
)
def test_rewards_are_not_taken_for_0_or_1_where_they_may_differ(columns: Any) -> None:
    assert Facts(run_of("trl", columns, group_size=8)).rewards.kind is RewardKind.UNKNOWN


def test_means_at_an_end_are_told_with_their_condition() -> None:
    reward = np.r_[np.ones(27), 0.99, 0.98, 0.97]
    verdict = told(run_of("tinker", {"reward": reward})).verdict
    assert "At 27 of 30 rows the mean reward is exactly 1: if no reward is above 1, all groups pass" in verdict
    assert "exactly" not in told(run_of("tinker", {"reward": np.r_[reward, 1.5]})).verdict


# Groups behind a row.


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=6, max_size=6), min_size=5, max_size=30))
def test_one_group_a_row_is_dead_or_mixed_and_nothing_between(rewards: list[list[float]]) -> None:
    """Eq. 92 at one group: a spread of 0 is a dead group, of whatever rewards."""
    r = np.array(rewards)
    columns = {"reward_std": r.std(axis=1, ddof=1), "reward": r.mean(axis=1), "completion_length": np.full(len(r), 9.0)}
    run = run_of("trl", columns, group_size=6)
    dead = Facts(run, DiagnosisSettings(prompts_per_step=1)).dead
    assert isinstance(dead, Measured)
    assert dead.exact
    assert dead.values.tolist() == (r.max(axis=1) == r.min(axis=1)).astype(float).tolist()
    other = Facts(run, DiagnosisSettings(prompts_per_step=2)).dead
    assert not isinstance(other, Measured) or not other.exact or bool(np.all(dead.values == 1.0))


@pytest.mark.parametrize(("shares", "groups"), [([0.45, 0.45, 0.4, 0.45], 20), ([0.5, 0.25, 0.5, 0.5], 4)])
def test_a_row_that_is_a_mean_over_steps_has_their_groups(shares: list[float], groups: int) -> None:
    run = run_of("trl", {"dead": shares}, steps=[5, 10, 15, 20], group_size=8)
    dead = Facts(run, DiagnosisSettings(prompts_per_step=4)).dead
    assert isinstance(dead, Measured)
    assert dead.groups.tolist() == [groups] * 4
    assert not dead.groups_known


# What is said, and what to do first.


def test_the_verdict_has_the_remedy_of_the_reason() -> None:
    rng = np.random.default_rng(7)
    fail = rng.binomial(32, 0.8, 200) / 32
    run = composed(fail, np.minimum(1.0 - fail, 0.02), reward=np.full(200, 0.1), config={"groups_per_batch": 32})
    said = told(run)
    rule, reason = said.finding("DEGENERATE_GROUPS"), said.finding("STARVED")
    assert rule.severity is reason.severity is Severity.WARNING
    assert said.verdict.endswith(reason.remedy)
    assert rule.remedy == f"As for STARVED: {reason.remedy}"
    alone = told(run_of("trl", {"dead": np.full(ROWS, 0.6), "reward": np.full(ROWS, 0.45)}))
    assert alone.verdict.endswith(BY_COMPOSITION)


def test_the_rule_says_where_it_dates_a_share_that_was_always_so() -> None:
    rng = np.random.default_rng(11)
    dead = rng.binomial(16, 0.45, 300) / 16
    dead[-40:] = 0.5
    says = found("DEGENERATE_GROUPS", run_of("trl", {"dead": dead}), prompts_per_step=16).says
    assert "where the rule dates it (that need not be the begin:" in says
    dead = np.r_[np.full(100, 0.125), np.full(100, 0.5)]
    says = found("DEGENERATE_GROUPS", run_of("trl", {"dead": dead}), prompts_per_step=16).says
    assert "from step 101 on, where the rule dates it;" in says


def test_above_the_plan_says_since_when_and_when_that_was_sure() -> None:
    rng = np.random.default_rng(3)
    fail = rng.binomial(32, np.where(np.arange(200) < 120, 0.30, 0.45)) / 32
    run = composed(fail, np.full(200, 0.1875), config={"groups_per_batch": 32})
    said = told(run, expectation()).finding("DEAD_ABOVE_PLAN")
    first, last = said.evidence["onset_step_earliest"], said.evidence["onset_step_latest"]
    assert first <= said.onset_step <= last <= said.evidence["detected_at_step"]
    assert f"most likely since step {said.onset_step} (between {first} and {last}); the test was sure" in said.says


def test_a_cost_beyond_the_plan_says_so() -> None:
    rng = np.random.default_rng(3)
    fail = np.minimum(rng.binomial(32, 0.6, 200) / 32, 0.8)
    said = told(composed(fail, np.full(200, 0.1875), config={"groups_per_batch": 32}), expectation())
    waste = said.finding("DEAD_ABOVE_PLAN").waste
    assert waste.beyond == 0.5
    assert "rollouts in dead groups beyond the 50 % planned" in waste_text(waste)
    everything = said.finding("DEGENERATE_GROUPS").waste
    assert everything.beyond is None
    assert everything.rollouts > waste.rollouts
    assert "planned" not in waste_text(everything)
    assert (
        Waste(rollouts=1.0, rollouts_low=1.0, rollouts_high=1.0, gpu_hours=None, usd=None, steps=1).what
        == "in dead groups"
    )


def test_leaving_out_dead_prompts_where_none_is_mixed_leaves_dead_ones() -> None:
    facts = Facts(composed(np.full(60, 0.6), np.full(60, 0.4), config={"groups_per_batch": 8}))
    for kind in (DeadKind.ALL_FAIL, DeadKind.ALL_PASS):
        made = remedies_for(facts, difficulty_of(facts), kind, composition_of(facts))
        drop = next(r for r in made if r.action.startswith("Leave out prompts"))
        assert "No group of the last rows is mixed" in drop.expected
        assert drop.numbers["dead_high_without"] == 1.0


def test_a_flag_of_the_batch_is_called_by_its_name() -> None:
    run = run_of("trl", {"dead": np.zeros(30)}, config={"scale_rewards": "batch"})
    assert found("BATCH_SCALED_METRIC", run).remedy.startswith("Do not read frac_reward_zero_std as the dead fraction")


def test_findings_are_sentences() -> None:
    rng = np.random.default_rng(0)
    runs = [composed(np.linspace(0.6, 0.05, 90), np.linspace(0.05, 0.6, 90), config={"groups_per_batch": 64}),
            run_of("trl", {"dead": rng.random(60), "reward": np.zeros(60)}, config={"trl_version": "1.0"}),
            run_of("verl", {"critic/advantages/max": np.zeros(60), "critic/advantages/min": np.zeros(60)})]  # fmt: skip
    for log, finding in [(one, f) for one in runs for f in told(one).findings]:
        word = finding.says.split()[0].rstrip(",")
        assert not word[0].islower() or word in log.metrics, finding.says


def test_starved_is_what_it_was_where_a_reward_is_paid() -> None:
    run = composed(np.full(100, 0.95), np.full(100, 0.0), config={"groups_per_batch": 64})
    said = starved(Facts(run))
    assert isinstance(said, Finding)
    assert said.evidence["ever_paid"] is True
