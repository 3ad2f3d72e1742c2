"""The simulated runs are what they say they are: their draws, their logs, their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from figures.diagnosis_page import rate
from figures.scenarios import HEALTHY, SCENARIOS, SICK, Scenario, Simulated, plan_of, run_log
from figures.scenarios.draws import FIELDS, binary, expit, graded, humps, order, refilled
from figures.scenarios.files import nested, rewards_of, write
from figures.scenarios.logs import beside, prime_rl, rows_of, tinker, trl
from grpo_plan.quantities import Absent, Cause, Quantity
from grpo_plan.readers.run_reader import read_run
from grpo_plan.run_log import RunLog
from tests.helpers import assert_mean, assert_rate

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
IDS = frozenset(
    "DEGENERATE_GROUPS ADV_COLLAPSE REWARD_STD_DEATH DEAD_ABOVE_PLAN COMPOSITION_TURNED SATURATED STARVED FAILED_SCORING "
    "FLAT_REWARD TRUNCATION_DEAD DUPLICATE_ROLLOUTS FILTERED_METRIC BATCH_SCALED_METRIC KL_ONLY_GRADIENT "
    "REFILL_CAP_RISK".split()
)


def shortened(simulated: Simulated, steps: int = 12) -> Simulated:
    """A few rows, and the rollouts of as many steps from its start and end: files are small then."""
    groups = simulated.groups
    if groups is None:
        return simulated
    last = [*range(steps // 2), *range(groups.steps - steps // 2, groups.steps)]
    parts = {name: getattr(groups, name)[last] for name in FIELDS}
    rewards = None if groups.rewards is None else groups.rewards[last]
    return replace(simulated, rows=simulated.rows[:steps], groups=replace(groups, rewards=rewards, **parts))


def ends(run: RunLog, name: str) -> tuple[float, float]:
    found = run.quantity(name)
    assert isinstance(found, Quantity), found
    part = max(1, found.values.size // 10)
    return float(np.nanmean(found.values[:part])), float(np.nanmean(found.values[-part:]))


def test_there_are_enough_and_every_finding_has_one() -> None:
    assert len(SCENARIOS) == len(BY_NAME) >= 24
    assert len(HEALTHY) >= 12
    assert len(SICK) >= 12
    required = {name for s in SCENARIOS for names in (*s.warns, *s.tells) for name in names.split("|")}
    assert required == IDS
    assert all(not s.warns for s in HEALTHY)
    assert all(s.warns or s.tells for s in SICK)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_run_is_drawn_from_its_seed_and_read(scenario: Scenario) -> None:
    first, again, other = scenario.simulate(0), scenario.simulate(0), scenario.simulate(1)
    assert first.rows == again.rows != other.rows
    run = run_log(first)
    assert run.tool == first.tool
    assert not run.unknown_keys
    assert run.rollouts_per_prompt == first.design[0]
    plan = plan_of(first)
    if plan is not None:
        design = plan.recommended.design
        assert (design.group_size, design.prompts_per_step, design.steps) == first.design


# Shares of groups in the first and the last tenth of a run, as its sentence says; the tolerance is that of one draw.
TRUTHS = {
    "even": ("dead_fraction", 0.02, 0.02),
    "until saturated": ("dead_fraction", 0.67, 0.86),
    "dead by design": ("dead_fraction", 0.61, 0.61),
    "G = 2": ("dead_fraction", 0.85, 0.85),
    "starved, tinker": ("all_fail_fraction", 0.81, 0.81),
    "order changed at 301": ("dead_fraction", 0.32, 0.72),
    "collapse, verl with rollouts": ("all_fail_fraction", 0.10, 1.0),
    "truncated, rollouts": ("all_fail_fraction", 0.11, 0.97),
    "copies": ("dead_fraction", 1.0, 1.0),
    "atoms": ("dead_fraction", 1.0, 1.0),
    "KL only": ("dead_fraction", 0.72, 0.72),
    "too easy": ("all_pass_fraction", 0.81, 0.81),
    "reward spread dies": ("dead_fraction", 0.0, 1.0),
    "flat reward, rollouts": ("dead_fraction", 0.985, 0.985),
    "filtered, verl": ("dead_fraction", 0.61, 0.61),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_shares_are_those_of_the_sentence(name: str) -> None:
    quantity, start, end = TRUTHS[name]
    found = ends(run_log(BY_NAME[name].simulate(3)), quantity)
    assert found == pytest.approx((start, end), abs=0.05)


def test_the_dead_fraction_stays_while_its_composition_turns() -> None:
    run = run_log(BY_NAME["composition turned"].simulate(3))
    dead, fails, passes = (ends(run, f"{name}_fraction") for name in ("dead", "all_fail", "all_pass"))
    assert abs(dead[1] - dead[0]) < 0.05
    assert fails[0] - fails[1] > 0.3
    assert passes[1] - passes[0] > 0.3


def test_misleading_metrics_mislead() -> None:
    for name, cause in (("batch-scaled metric", Cause.BATCH_FLAG), ("survivors-only metric", Cause.SURVIVORS_ONLY)):
        simulated = BY_NAME[name].simulate(0)
        assert all(row["frac_reward_zero_std"] == 0.0 for row in simulated.rows)
        found = run_log(simulated).quantity("dead_fraction")
        assert isinstance(found, Absent)
        assert found.cause is cause


def test_batches_of_a_refill_near_its_cap() -> None:
    found = run_log(BY_NAME["refill near its cap"].simulate(0)).quantity("generation_batches")
    assert isinstance(found, Quantity)
    assert 6 <= np.mean(found.values[:30]) < np.mean(found.values[-30:]) <= 10


def test_failed_scoring_begins_where_it_should() -> None:
    groups = BY_NAME["scorer fails, rollouts"].simulate(0).groups
    assert groups is not None
    missing = 1 - groups.scored.mean(axis=1) / groups.size
    assert np.all(missing[:60] == 0)
    assert_rate(int((groups.size - groups.scored[60:]).sum()), groups.scored[60:].size * groups.size, 0.3, catches=0.03)


def test_binary_groups_die_as_often_as_their_formula_says() -> None:
    rates = np.tile([0.1, 0.5, 0.9], (4000, 1))
    groups = binary(np.random.default_rng(1), rates, 4, np.zeros(rates.shape, dtype=np.int64))
    for column, p in enumerate((0.1, 0.5, 0.9)):
        assert_rate(int(groups.all_pass[:, column].sum()), 4000, p**4, catches=0.07)
        assert_rate(int(groups.dead[:, column].sum()), 4000, p**4 + (1 - p) ** 4, catches=0.07)


def test_two_ways_to_the_same_groups() -> None:
    """Moments and ends from counts are those of the rewards written out."""
    generator = np.random.default_rng(2)
    rates = generator.random((6, 5))
    counted = binary(generator, rates, 4, np.zeros(rates.shape, dtype=np.int64), levels=(-1.0, 1.0))
    rewards = np.array([[rewards_of(counted, s, g) for g in range(5)] for s in range(6)], dtype=float)
    written = graded(rewards, counted.prompt, passes_at=1.0)
    for name in ("mean", "squares", "low", "high", "passes", "scored"):
        np.testing.assert_allclose(getattr(counted, name), getattr(written, name), atol=1e-12, err_msg=name)
    np.testing.assert_allclose(counted.std, rewards.std(axis=-1, ddof=1), atol=1e-12)
    mean, std = counted.reward()
    np.testing.assert_allclose(mean, rewards.reshape(6, -1).mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(std, rewards.reshape(6, -1).std(axis=1, ddof=1), atol=1e-12)


def test_copies_agree_and_failed_scores_leave_n() -> None:
    generator = np.random.default_rng(3)
    rates = generator.random((50, 20))
    where = np.zeros(rates.shape, dtype=np.int64)
    assert binary(generator, rates, 8, where, copies=True).dead.all()
    failed = binary(generator, rates, 3, where, failed=0.5)
    assert failed.scored.min() == 0
    assert np.all(failed.dead[failed.scored < 2])
    assert not np.any(failed.equal[failed.scored < 2])
    assert np.all(failed.passes <= failed.scored)


def test_a_refill_draws_until_enough_are_mixed() -> None:
    """Evicted groups have the mean N D / (1 - D) of a negative binomial law."""
    generator = np.random.default_rng(4)
    found = refilled(generator, lambda n: (np.full((3000, n), 0.1), np.zeros((3000, n), dtype=np.int64)), 4, 16)
    dead = 0.1**4 + 0.9**4
    assert not found.kept.dead.any()
    assert found.kept.per_step == 16
    assert_mean(found.evicted, 16 * dead / (1 - dead), catches=1.5)
    assert np.array_equal(found.batches, -(-(found.evicted + 16) // 16))


def test_epochs_draw_every_prompt_once() -> None:
    drawn = order(np.random.default_rng(5), 40, 10, 8)
    assert np.array_equal(np.sort(drawn.ravel().reshape(2, 40), axis=1), np.tile(np.arange(40), (2, 1)))


def test_infinite_logits_are_certain() -> None:
    rates = expit(humps((0.5, -np.inf, 0.0), (0.5, np.inf, 0.0))(np.random.default_rng(6), 100))
    assert set(rates) == {0.0, 1.0}


def test_tools_agree_on_the_same_groups() -> None:
    generator = np.random.default_rng(7)
    groups = binary(generator, generator.random((12, 16)), 4, np.zeros((12, 16), dtype=np.int64))
    more = beside(generator, 12)
    dead = groups.dead.mean(axis=1)
    agent = "train/agg/all/agent"
    by_prime, by_tinker = prime_rl(groups, more), tinker(groups, more)
    np.testing.assert_allclose(trl(groups, more)["frac_reward_zero_std"], dead)
    np.testing.assert_allclose(1 - by_tinker["env/all/by_group/frac_mixed"], dead)
    np.testing.assert_allclose(by_prime[f"{agent}/solved_none"] + by_prime[f"{agent}/solved_all"], dead)
    np.testing.assert_allclose(by_prime[f"{agent}/solved_some"], 1 - dead)
    np.testing.assert_allclose(by_tinker["env/all/by_group/frac_all_good"], groups.all_pass.mean(axis=1))


def test_rows_are_means_of_a_window_and_leave_out_what_is_not_known() -> None:
    rows = rows_of({"a": np.array([1.0, 3.0, np.nan, 5.0, 9.0]), "b": np.full(5, np.nan)}, every=2)
    assert rows == [{"step": 2, "a": 2.0}, {"step": 4, "a": 5.0}]


COLUMNS = (
    "step", "rollouts", "scored", "reward_min", "reward_max", "reward_mean", "passes", "truncated", "distinct",
    "distinct_rewards", "reward_var",
)  # fmt: skip
ONE_OF_EACH = {s.simulate(0).tool: s for s in reversed(SCENARIOS)}
DUMPED = {s.name: s for s in SCENARIOS if s.simulate(0).groups is not None}


@pytest.mark.parametrize("scenario", {**ONE_OF_EACH, **DUMPED}.values(), ids=lambda s: s.name)
def test_files_are_read_as_the_rows_are(scenario: Scenario, tmp_path: Path) -> None:
    simulated = shortened(scenario.simulate(0))
    here = run_log(simulated)
    run = read_run(write(simulated, tmp_path / "run"), config=nested(simulated.config))
    assert (run.tool, run.steps.tolist(), run.config) == (here.tool, here.steps.tolist(), here.config)
    assert run.metrics.keys() == here.metrics.keys()
    for name in here.metrics:
        np.testing.assert_array_equal(run.metrics[name], here.metrics[name], err_msg=name)
    assert (run.groups is None) == (here.groups is None)
    if run.groups is not None and here.groups is not None:
        assert run.groups.pass_threshold == here.groups.pass_threshold
        for name in COLUMNS:
            read, made = getattr(run.groups, name), getattr(here.groups, name)
            assert (read is None) == (made is None), name
            if made is not None:
                np.testing.assert_allclose(read, made, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("hits", "trials", "text"), [(10, 200, ".050 (.015)"), (0, 200, "0 (< .019)"), (200, 200, "1 (> .981)")]
)
def test_rates_have_their_error(hits: int, trials: int, text: str) -> None:
    assert rate(hits, trials) == text
