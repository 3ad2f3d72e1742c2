"""Diagnosis: the published rules, the run against its plan, composition, verdicts, and the bounds that logs leave."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan import symbolic
from grpo_plan.errors import DomainError, PlanFormatError
from grpo_plan.quantities import Absent
from grpo_plan.runs.bounds import dead_bounds_from_batches, dead_bounds_from_spread
from grpo_plan.runs.detectors.published import first_stretch
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.expectation import Expectation, Expected
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Severity
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.rewards import RewardKind
from grpo_plan.runs.settings import DiagnosisSettings
from tests.runs import composed, expectation, plan_body, run_of

ROWS = 100


def ids(found: Diagnosis, severity: str = "info") -> set[str]:
    return {f.id for f in found.at_least(severity)}


def skipped(found: Diagnosis) -> dict[str, str]:
    return {s.id: s.needs for s in found.skipped}


# The published rule of DEGENERATE_GROUPS: both knobs, exactly.


def rule(values: list[float], threshold: float, rows: int) -> bool:
    """The rule in plain words, by loops."""
    run = longest = 0
    for value in values:
        run = run + 1 if value > threshold else 0
        longest = max(longest, run)
    tail = values[-max(10, int(0.2 * len(values))) :]
    return longest >= rows and sum(tail) / len(tail) > threshold


@example(values=[0.4] * 10 + [0.5] * 10, threshold=0.4, rows=15)  # at the threshold is not above it
@example(values=[0.5] * 20 + [0.4] * 30, threshold=0.4, rows=15)
@given(
    values=st.lists(st.sampled_from([0.0, 0.25, 0.375, 0.4, 0.5, 1.0]), min_size=15, max_size=80),
    threshold=st.sampled_from([0.3, 0.4, 0.45]),
    rows=st.sampled_from([3, 8, 15]),
)
def test_the_published_rule_is_the_published_rule(values: list[float], threshold: float, rows: int) -> None:
    knobs = DiagnosisSettings(dead_threshold=threshold, sustain_rows=rows, group_size=8, prompts_per_step=32)
    run = run_of("trl", {"dead": values}, config={"scale_rewards": "group"})
    found = diagnose(run, settings=knobs, remedies=False)
    assert ("DEGENERATE_GROUPS" in ids(found)) == rule(values, threshold, rows)


def test_the_rule_speaks_where_even_the_lower_bound_is_above_it() -> None:
    rate = np.tile([0.25, 0.375, 0.5, 0.4375, 0.3125], 12)
    for spread, fires in ((0.1, True), (0.25, False)):
        columns = {"group_reward_std": np.full(60, spread), "rollout/reward_mean": rate}
        found = diagnose(run_of("openrlhf", columns, group_size=8))
        dead = found.facts.dead
        assert isinstance(dead, Measured)
        assert not dead.exact
        assert bool(np.all(dead.upper > 0.4))
        assert bool(np.all(dead.lower > 0.4)) is fires
        assert ("DEGENERATE_GROUPS" in ids(found)) is fires
        assert fires or "is between 29.3 and 53.2 %" in skipped(found)["DEGENERATE_GROUPS"]
    columns["group_reward_std"] = np.where(np.arange(60) < 20, 0.25, 0.1)
    late = diagnose(run_of("openrlhf", columns, group_size=8)).finding("DEGENERATE_GROUPS")
    assert late is not None
    assert late.onset_step == 21
    assert late.evidence["bounded_only"] is True


def test_the_verdict_tells_all_fail_and_all_pass_apart() -> None:
    verdict = diagnose(composed(np.full(40, 0.25), np.full(40, 0.125))).verdict
    assert verdict.startswith("37.5 % (")
    assert "(25 % all fail, 12.5 % all pass)" in verdict


def test_more_dead_groups_than_planned_are_told_with_the_plan() -> None:
    rng = np.random.default_rng(0)
    run = composed(rng.binomial(32, 0.6, 60) / 32, np.zeros(60))
    found = diagnose(run, expectation(dead=(0.4, 0.35, 0.45)), settings=DiagnosisSettings(prompts_per_step=32))
    said = found.finding("DEAD_ABOVE_PLAN")
    assert said is not None
    planned = [said.evidence[f"planned_dead_fraction{end}"] for end in ("_low", "", "_high")]
    assert planned == [0.35, 0.4, 0.45]
    assert said.evidence["bounded_only"] is False


def test_the_onset_is_the_first_row_of_the_first_stretch() -> None:
    values = [0.1] * 5 + [0.5] * 14 + [0.1] + [0.5] * 30
    found = diagnose(run_of("trl", {"dead": values}, steps=np.arange(10, 510, 10))).finding("DEGENERATE_GROUPS")
    assert found is not None
    assert found.onset_step == 210
    assert first_stretch(np.array([False, True, True]), 2) == 1
    assert first_stretch(np.array([True, False] * 3), 2) is None


def test_a_short_log_is_judged_as_short() -> None:
    short = diagnose(run_of("trl", {"dead": [0.6] * 8, "reward": [0.4] * 8}))
    assert "the log has 8" in skipped(short)["DEGENERATE_GROUPS"]
    twenty = diagnose(run_of("trl", {"dead": [0.59375, 0.625] * 10, "reward": [0.40625, 0.4375] * 10}))
    found = twenty.finding("DEGENERATE_GROUPS")
    assert found is not None
    assert found.evidence["rows"] == 20
    assert found.evidence["late_rows"] == 10
    low, high = found.evidence["late_dead_fraction_low"], found.evidence["late_dead_fraction_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 0.609375 < high


@pytest.mark.parametrize(
    ("reward", "severity"),
    [(np.linspace(0.3, 0.6, ROWS), "info"), (np.full(ROWS, 0.45), "warning"), (np.linspace(0.6, 0.3, ROWS), "warning")],
    ids=["improving", "flat", "falling"],
)
def test_a_high_dead_fraction_is_a_warning_only_where_nothing_is_learnt(reward: Any, severity: str) -> None:
    noise = np.random.default_rng(1).normal(0.0, 0.005, ROWS)
    found = diagnose(run_of("trl", {"dead": np.full(ROWS, 0.6), "reward": reward + noise}))
    worst = found.finding("DEGENERATE_GROUPS")
    assert worst is not None
    assert worst.severity.value == severity


def test_nothing_to_learn_is_critical_unless_the_plan_or_the_ceiling_says_otherwise() -> None:
    columns = {"dead": np.ones(ROWS), "reward": np.full(ROWS, 0.5)}
    found = diagnose(run_of("trl", columns, group_size=8))
    assert found.worst is Severity.CRITICAL
    assert "refill never fills" in found.verdict
    planned = expectation(dead=(0.99, 0.98, 1.0), fail=(0.5, 0.4, 0.6), passes=(0.49, 0.4, 0.6))
    assert "DEGENERATE_GROUPS" not in ids(diagnose(run_of("trl", columns, group_size=8), planned), "warning")
    near_one = np.random.default_rng(0).binomial(256, 0.98, ROWS) / 256
    solved = diagnose(run_of("trl", {"dead": np.ones(ROWS), "reward": near_one}, group_size=8))
    assert "DEGENERATE_GROUPS" not in ids(solved, "critical")


# The other two published rules.


@pytest.mark.parametrize(
    ("early", "late", "fires"), [(0.9, 0.05, True), (0.9, 0.15, False), (0.45, 0.05, False), (0.51, 0.09, True)]
)
def test_adv_collapse_needs_a_fall_and_a_healthy_start(early: float, late: float, fires: bool) -> None:
    values = np.where(np.arange(ROWS) < 60, early, late)
    for tool in ("trl", "verl", "tinker"):
        found = diagnose(run_of(tool, {"advantages/std": values, "reward": np.full(ROWS, 0.5)}))
        collapse = found.finding("ADV_COLLAPSE")
        assert (collapse is not None) == fires
        assert collapse is None or collapse.onset_step == 61
    assert "ADV_COLLAPSE" in skipped(diagnose(run_of("trl", {"advantages/std": values[:8]})))


def test_advantages_that_are_all_zero() -> None:
    high = np.array([2.5] * 40 + [0.0] * 60)
    columns = {"critic/advantages/max": high, "critic/advantages/min": -high, "critic/score/mean": np.full(ROWS, 0.2)}
    found = diagnose(run_of("verl", columns)).finding("ADV_COLLAPSE")
    assert found is not None
    assert (found.severity, found.onset_step) == (Severity.CRITICAL, 41)
    columns["critic/advantages/max"] = np.full(ROWS, 2.5)
    assert "ADV_COLLAPSE" not in ids(diagnose(run_of("verl", columns)))


def test_reward_std_death_of_a_whole_batch() -> None:
    version = {"trl_version": "1.0"}
    fell = np.concatenate([np.full(50, 0.5), np.full(50, 0.01)])
    found = diagnose(run_of("trl", {"reward_std": fell, "reward": np.full(ROWS, 0.01)}, config=version))
    death = found.finding("REWARD_STD_DEATH")
    assert death is not None
    assert death.onset_step == 51
    assert death.severity is Severity.CRITICAL
    assert "fell" in death.says
    never = diagnose(run_of("trl", {"reward_std": np.zeros(ROWS), "reward": np.zeros(ROWS)}, config=version))
    death = never.finding("REWARD_STD_DEATH")
    assert death is not None
    assert "since the start" in death.says
    assert "fell" not in death.says
    steady = diagnose(run_of("trl", {"reward_std": np.full(ROWS, 0.04), "reward": np.full(ROWS, 0.5)}, config=version))
    assert "REWARD_STD_DEATH" not in ids(steady)


def test_a_solved_run_has_no_reward_std_death() -> None:
    fell = np.concatenate([np.full(50, 0.4), np.full(50, 0.01)])
    reward = np.linspace(0.8, 0.999, ROWS)
    run = run_of("trl", {"reward_std": fell, "reward": reward}, config={"trl_version": "1.0"})
    # rewards above 0.9 with rewards 0/1 not known: critical stays; known: the ceiling says it is solved
    run_binary = run_of(
        "trl",
        {"reward_std": fell, "reward": reward, "rewards/correct/mean": reward,
         "rewards/correct/std": np.sqrt(reward * (1 - reward))},
        config={"trl_version": "1.0"},
    )  # fmt: skip
    assert "REWARD_STD_DEATH" in ids(diagnose(run), "critical")
    assert "REWARD_STD_DEATH" not in ids(diagnose(run_binary), "warning")


# The run against its plan.


def planned_run(seed: int, fail: Any, passes: Any, rows: int = 200, groups: int = 32, **more: Any) -> Any:
    rng = np.random.default_rng(seed)
    f, p = (np.broadcast_to(np.asarray(x, dtype=float), (rows,)) for x in (fail, passes))
    counts = np.array([rng.multinomial(groups, [a, b, 1.0 - a - b]) for a, b in zip(f, p, strict=True)]) / groups
    return composed(counts[:, 0], counts[:, 1], config={"groups_per_batch": groups}, **more)


def test_a_run_as_planned_raises_no_alarm() -> None:
    fired = sum(
        "DEAD_ABOVE_PLAN" in ids(diagnose(planned_run(s, 0.30, 0.20), expectation(), remedies=False)) for s in range(60)
    )
    assert fired == 0  # at most 0.2 % of runs at the very limit; these lie inside
    clear = {c.id: c.because for c in diagnose(planned_run(0, 0.30, 0.20), expectation()).clear}
    assert "planned 45 to 55 %" in clear["DEAD_ABOVE_PLAN"]


def test_more_all_fail_groups_than_planned_are_found_and_dated() -> None:
    fail = np.where(np.arange(200) < 120, 0.30, 0.60)
    found = diagnose(planned_run(3, fail, 0.20), expectation()).finding("DEAD_ABOVE_PLAN")
    assert found is not None
    assert found.severity is Severity.WARNING
    assert found.onset_step is not None
    assert abs(found.onset_step - 121) <= 5
    assert "fail altogether" in found.says


def test_more_all_pass_groups_because_training_works_are_no_warning() -> None:
    passes, fail = np.linspace(0.20, 0.70, 200), np.linspace(0.30, 0.10, 200)
    found = diagnose(planned_run(4, fail, passes), expectation())
    above, told = found.finding("DEAD_ABOVE_PLAN"), found.finding("SATURATED")
    assert above is not None
    assert above.severity is Severity.INFO
    assert "easy" in above.says
    assert told is not None
    assert not found.at_least("warning")


def test_prompts_that_become_easy_are_no_warning_while_the_trend_is_unclear() -> None:
    passes, fail = np.linspace(0.20, 0.70, 200), np.linspace(0.30, 0.10, 200)
    seen = set()
    for rows in (60, 80, 100):
        whole = planned_run(4, fail, passes)
        young = run_of(
            "tinker", {name: values[:rows] for name, values in whole.metrics.items()}, group_size=8, config=whole.config
        )
        found = diagnose(young, expectation()).finding("DEAD_ABOVE_PLAN")
        if found is not None:
            seen.add(found.severity)
    assert seen <= {Severity.INFO}
    assert seen


def test_prompts_easier_than_the_pilot_from_the_start_are_a_warning() -> None:
    found = diagnose(planned_run(5, 0.10, 0.60), expectation()).finding("DEAD_ABOVE_PLAN")
    assert found is not None
    assert found.severity is Severity.WARNING
    assert "from the start" in found.says


def test_improving_does_not_excuse_what_was_above_the_plan_from_the_start() -> None:
    fail, passes = np.linspace(0.10, 0.05, 200), np.linspace(0.60, 0.75, 200)
    found = diagnose(planned_run(21, fail, passes), expectation())
    assert found.facts.run.steps.size == 200
    above = found.finding("DEAD_ABOVE_PLAN")
    assert above is not None
    assert (above.severity, "from the start" in above.says) == (Severity.WARNING, True)


def test_a_plan_for_other_group_sizes_is_not_compared() -> None:
    found = diagnose(planned_run(6, 0.6, 0.2, group_size=4), expectation())
    assert "--group-size" in skipped(found)["DEAD_ABOVE_PLAN"]
    assert "--plan" in skipped(diagnose(planned_run(6, 0.6, 0.2)))["DEAD_ABOVE_PLAN"]


# Composition.


def test_starved_needs_failing_groups_and_no_progress() -> None:
    stuck = planned_run(7, 0.80, 0.02)
    assert "STARVED" in ids(diagnose(stuck), "warning")
    improving = planned_run(8, np.linspace(0.9, 0.6, 200), np.linspace(0.0, 0.1, 200))
    assert "STARVED" not in ids(diagnose(improving))
    planned = expectation(dead=(0.82, 0.78, 0.86), fail=(0.80, 0.76, 0.84), passes=(0.02, 0.01, 0.04))
    assert "STARVED" not in ids(diagnose(stuck, planned))
    hopeless = diagnose(planned_run(9, 0.99, 0.0))
    assert "STARVED" in ids(hopeless, "critical")


def test_saturated_is_told_not_warned_while_it_improves() -> None:
    improving = diagnose(planned_run(10, np.linspace(0.4, 0.05, 200), np.linspace(0.2, 0.75, 200)))
    told = improving.finding("SATURATED")
    assert told is not None
    assert told.severity is Severity.INFO
    assert "harder" in told.remedy
    easy = diagnose(planned_run(11, 0.02, 0.93))
    assert "SATURATED" in ids(easy, "warning")


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("rows", [150, 40])
def test_a_run_whose_dead_fraction_rises_because_it_learns_raises_no_warning(planned: bool, rows: int) -> None:
    # G = 4, dead .65 to .86 while the pass rate goes from .36 to .73: a drift alarm on D would fire on the best run
    fail, passes = np.linspace(0.47, 0.20, rows), np.linspace(0.18, 0.66, rows)
    plan = expectation(group_size=4, dead=(0.65, 0.62, 0.68), fail=(0.47, 0.44, 0.50), passes=(0.18, 0.16, 0.21))
    for seed in range(5):
        run = planned_run(100 + seed, fail, passes, rows=rows, groups=128, group_size=4)
        found = diagnose(run, plan if planned else None, remedies=False)
        told = found.finding("SATURATED")
        assert not found.at_least("warning"), found
        assert told is not None
        assert "harder" in told.remedy
        metrics = {
            "dead": 1.0 - run.metrics["env/all/by_group/frac_mixed"],
            "reward": run.metrics["env/all/reward/total"],
        }
        bounded = run_of("trl", metrics, group_size=4, config={"scale_rewards": "group"})
        assert not diagnose(bounded, plan if planned else None, remedies=False).at_least("warning")


def test_composition_that_turns_and_turns_back() -> None:
    ramp = np.linspace(0.5, 0.05, 200)
    forth = diagnose(planned_run(12, ramp, ramp[::-1])).finding("COMPOSITION_TURNED")
    assert forth is not None
    assert forth.severity is Severity.INFO
    assert forth.evidence["turn"] == "to all-pass"
    assert forth.onset_step is not None
    assert abs(forth.onset_step - 100) <= 15
    back = diagnose(planned_run(13, ramp[::-1], ramp)).finding("COMPOSITION_TURNED")
    assert back is not None
    assert back.severity is Severity.WARNING
    still = diagnose(planned_run(14, 0.3, 0.3))
    assert "COMPOSITION_TURNED" not in ids(still)


def test_too_few_groups_decide_nothing() -> None:
    found = diagnose(composed([0.6, 0.7], [0.1, 0.0]))
    assert {"STARVED", "SATURATED", "COMPOSITION_TURNED", "DEGENERATE_GROUPS"} <= set(skipped(found))
    assert not found.findings


# What aggregates tell of composition.


def test_composition_from_mean_and_dead_fraction_holds_the_truth() -> None:
    rng = np.random.default_rng(15)
    p = rng.beta(0.4, 0.6, (60, 32))
    k = rng.binomial(8, p)
    columns = {"dead": ((k == 0) | (k == 8)).mean(axis=1), "reward": k.mean(axis=1) / 8}
    run = run_of("trl", columns, group_size=8, config={"scale_rewards": "group"})
    facts = Facts(run)
    assert facts.rewards.kind is RewardKind.BINARY
    for series, truth in ((facts.all_fail, (k == 0)), (facts.all_pass, (k == 8))):
        assert isinstance(series, Measured)
        share = truth.mean(axis=1)
        assert np.all(series.lower <= share + 1e-12)
        assert np.all(share <= series.upper + 1e-12)
    free = Facts(run_of("trl", columns, config={"scale_rewards": "group"}))  # any group size
    assert isinstance(free.all_pass, Measured)
    assert isinstance(facts.all_pass, Measured)
    assert np.all(free.all_pass.lower <= facts.all_pass.lower)


def test_graded_rewards_have_no_composition() -> None:
    rng = np.random.default_rng(16)
    run = run_of("trl", {"dead": rng.random(50) * 0.2, "reward": rng.normal(0.9, 0.01, 50)}, group_size=8)
    assert isinstance(Facts(run).all_pass, Absent)
    assert "rewards were 0 and 1" in skipped(diagnose(run))["STARVED"]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_dead_fraction_from_spread_holds_it(passes: list[int]) -> None:
    k = np.array(passes)
    dead = float(((k == 0) | (k == 6)).mean())
    rewards = (np.arange(6)[None, :] < k[:, None]).astype(float)
    for std, ddof in (("population", 0), ("sample", 1)):
        low, high = dead_bounds_from_spread(rewards.std(axis=1, ddof=ddof).mean(), 6, std=std)
        assert low - 1e-12 <= dead <= high + 1e-12


def test_bounds_are_those_of_theory() -> None:
    for group_size, s in product((2, 5, 8), (sp.Rational(1, 10), sp.Rational(1, 4))):
        low, high = symbolic.dead_from_spread(s, group_size)
        ours = dead_bounds_from_spread(float(s), group_size, std="population")
        assert np.allclose([float(low), float(high)], [float(x) for x in ours], atol=1e-12)
    for b in (1, 2, 5, 40):
        assert np.allclose([float(x) for x in symbolic.dead_from_batches(b)], dead_bounds_from_batches(b))
    with pytest.raises(DomainError, match="std must be"):
        dead_bounds_from_spread(0.1, 8, std="both")


def test_batches_of_a_refill_bound_the_dead_share_of_what_was_drawn() -> None:
    rng = np.random.default_rng(17)
    for dead in (0.05, 0.5, 0.8, 0.95):
        for _ in range(50):
            mixed, batches, drawn_dead = 0, 0, 0
            while mixed < 16:
                found = rng.random(16) >= dead
                mixed, batches, drawn_dead = mixed + found.sum(), batches + 1, drawn_dead + (~found).sum()
            low, high = dead_bounds_from_batches(batches)
            assert low <= drawn_dead / (16 * batches) <= high + 1e-12


# Expectation.


def test_the_tested_limit_is_that_of_theory() -> None:
    share = Expected(value=0.25, low=0.2, high=0.4, level=0.95)
    assert share.upper(0.025) == pytest.approx(0.4)
    from statistics import NormalDist

    ratio = NormalDist().inv_cdf(0.999) / NormalDist().inv_cdf(0.975)
    expected = float(symbolic.tested_limit(sp.Rational(1, 4), sp.Rational(2, 5), sp.Float(ratio, 30)))
    assert share.upper(0.001) == pytest.approx(expected, abs=1e-9)
    assert Expected(value=None, low=0.2, high=0.4, level=0.95).upper(0.001) > 0.4
    assert Expected(value=0.0, low=0.0, high=0.1, level=0.95).upper(0.001) == 0.1
    assert Expected(value=0.9, low=0.8, high=1.0, level=0.95).upper(0.001) == 1.0


def test_plans_in_memory_and_on_disk_expect_the_same(tmp_path: Any) -> None:
    counts = np.random.default_rng(18).binomial(8, np.random.default_rng(19).beta(0.5, 0.7, 400))
    fit = gp.fit_pass_rates(gp.Pilot.from_counts(counts, np.full(400, 8)))
    plan = gp.plan_group_size(fit, budget=gp.Budget(rollouts=100_000, steps=100), group_sizes=[4, 8])
    from grpo_plan.cli.plan_json import plan_document
    from grpo_plan.trainers.planned import recipe_of

    body = {"schema": 1, "command": "plan", **json.loads(json.dumps(plan_document(plan, None, recipe_of(plan))))}
    ours = Expectation.from_plan(plan, group_size=4)
    theirs = Expectation.from_json(body)
    assert ours.group_size == theirs.group_size
    for size in ours.by_group_size:
        assert ours.at(size) == theirs.at(size)
    assert ours.mean_pass_rate == theirs.mean_pass_rate


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "not the answer of plan or fit"),
        ('{"command": "plan", "schema": 2}', "schema is 2"),
        ('{"command": "plan", "schema": 1}', "fields are missing"),
        ('{"command": "fit", "schema": 1, "dead": [{"group_size": 0}]}', "fields are missing"),
        ('{"command": "plan", "schema": 1, "x": NaN}', "holds NaN"),
    ],
)
def test_files_that_hold_no_plan(tmp_path: Any, text: str, says: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanFormatError, match=says):
        Expectation.load(path)


def test_a_plan_with_limits_out_of_order_is_refused() -> None:
    for dead in ((0.5, 0.6, 0.7), (0.5, 0.4, 1.2), (0.5, math.nan, 0.6)):
        with pytest.raises(PlanFormatError, match="fields are missing"):
            Expectation.from_json(plan_body(dead=dead))
    with pytest.raises(PlanFormatError, match="cannot be read"):
        Expectation.load("no such file.json")


# Verdicts.


def test_verdicts_say_what_could_not_be_checked() -> None:
    blind = diagnose(run_of("trl", {"reward": np.random.default_rng(0).random(50) + 5.0}))
    assert blind.verdict.startswith("The log does not tell how many groups are dead.")
    assert "no clean bill" in blind.verdict
    empty = diagnose(run_of("trl", {"reward": np.empty(0)}))
    assert empty.verdict.startswith("The log holds no training step.")
    told = diagnose(planned_run(20, 0.3, 0.2), expectation())
    assert "in line with the plan's 45 to 55 %" in told.verdict
    assert "\n" not in told.verdict


def test_settings_are_checked() -> None:
    for bad in ({"level": 1.0}, {"sustain_rows": 0}, {"dead_threshold": 1.5}, {"gpus": 0}, {"usd_per_gpu_hour": -1.0}):
        with pytest.raises(DomainError):
            DiagnosisSettings(**bad)
    with pytest.raises(DomainError, match="run must be a RunLog"):
        diagnose({})  # type: ignore[arg-type]


def test_remedies_can_be_left_out() -> None:
    run = planned_run(30, 0.80, 0.02)
    full, bare = diagnose(run), diagnose(run, remedies=False)
    assert [f.id for f in full.findings] == [f.id for f in bare.findings]
    assert any(f.remedies for f in full.findings)
    assert not any(f.remedies or f.waste for f in bare.findings)
    assert full.verdict == bare.verdict
