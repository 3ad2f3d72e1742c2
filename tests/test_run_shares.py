"""Shares of the groups of a run over its early and late rows, against counts, and what they may never do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from grpo_plan.group_log import GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.run_log import RunLog
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.runs.shares import GroupShares, Part, group_shares, groups_per_step, other_dead
from tests.runs import composed, run_of

PARTS = ("dead", "mixed", "all_pass", "all_fail", "other_dead", "mixed_groups")


def shares(run: RunLog, **settings: object) -> tuple[GroupShares, ...]:
    return group_shares(Facts(run, DiagnosisSettings(**settings)))  # type: ignore[arg-type]


def clopper(count: float, total: float) -> tuple[float, float]:
    low = float(beta.ppf(0.025, count, total - count + 1)) if count else 0.0
    return low, float(beta.ppf(0.975, count + 1, total - count)) if count < total else 1.0


def test_windows_are_those_of_the_published_rule() -> None:
    early, late = shares(composed(np.full(200, 0.25), np.full(200, 0.25)))
    assert (early.name, early.first_step, early.last_step) == ("early", 1, 40)
    assert (late.name, late.first_step, late.last_step) == ("late", 161, 200)
    whole, last = shares(composed(np.full(19, 0.25), np.full(19, 0.25)))
    assert (whole.name, whole.first_step, last.name, last.first_step) == ("all", 1, "late", 10)
    (only,) = shares(composed(np.full(10, 0.25), np.full(10, 0.25)))
    assert only.name == "all"
    assert shares(RunLog(steps=np.empty(0, dtype=np.int64), metrics={}, format="table", source="x")) == ()


def test_counts_and_limits_by_hand() -> None:
    rng = np.random.default_rng(3)
    fail, passes = rng.binomial(16, 0.3, 40) / 32, rng.binomial(16, 0.2, 40) / 32
    _, late = shares(composed(fail, passes), prompts_per_step=32)
    for part, row in ((late.all_fail, fail), (late.all_pass, passes), (late.dead, fail + passes)):
        count = 32 * row[-10:].sum()
        assert part.value == pytest.approx(count / 320)
        assert [part.low, part.high] == pytest.approx(clopper(count, 320), abs=1e-9)
        assert (part.rows, part.groups, part.groups_known) == (10, 320.0, True)
    assert late.dead.value is not None
    assert late.dead.low is not None
    assert late.mixed_groups.value == pytest.approx(32 * (1 - late.dead.value))
    assert late.mixed_groups.high == pytest.approx(32 * (1 - late.dead.low))
    assert late.other_dead.value == pytest.approx(0.0, abs=1e-9)


def test_what_is_dead_otherwise() -> None:
    dead, fail, passes = np.full(20, 0.75), np.full(20, 0.25), np.full(20, 0.125)
    run = run_of("tinker", {"mixed": 1 - dead, "all_fail": fail, "all_pass": passes, "reward": np.linspace(0, 9, 20)})
    assert shares(run)[-1].other_dead.value == pytest.approx(0.375)
    found = other_dead(Facts(run))
    assert isinstance(found, Measured)
    assert found.values == pytest.approx(np.full(20, 0.375))
    beyond = run_of("tinker", {"mixed": 1 - dead, "all_fail": fail, "all_pass": np.full(20, 0.625)})
    assert not shares(beyond)[-1].other_dead.known
    assert "pass threshold" in str(shares(beyond)[-1].other_dead.reason)


def test_groups_counted_from_rollouts_give_the_size_of_a_step() -> None:
    rewards = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]] * 4)
    groups = GroupLog(
        step=np.repeat(np.arange(1, 5), 3), prompt_id=np.arange(12).astype(object), rollouts=np.full(12, 2),
        scored=np.full(12, 2), reward_min=rewards.min(axis=1), reward_max=rewards.max(axis=1),
        reward_mean=rewards.mean(axis=1), provenance=Provenance(),
    )  # fmt: skip
    run = RunLog(steps=np.arange(1, 5), metrics={}, format="table", source="x", groups=groups)
    (whole,) = shares(run)
    assert whole.dead.value == pytest.approx(8 / 12)
    assert whole.dead.groups == 12.0
    assert whole.mixed_groups.value == pytest.approx(1.0)
    assert groups_per_step(Facts(run), 1, 4) == 3.0
    assert groups_per_step(Facts(composed(np.full(9, 0.5), np.full(9, 0.25))), 1, 9) is None


def test_nothing_known_is_nothing_shown() -> None:
    run = RunLog(steps=np.arange(20), metrics={"loss": np.ones(20)}, format="table", source="x", tool="trl")
    late = shares(run)[-1]
    for name in PARTS:
        part = getattr(late, name)
        assert (part.value, part.low, part.high, part.known) == (None, None, None, False), name
        assert part.reason, name


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.lists(st.integers(0, 16), min_size=n, max_size=n), st.integers(1, 64), st.booleans())
    )
)
def test_parts_hold_together(drawn: tuple[list[int], int, bool]) -> None:
    counts, size, told = drawn
    dead = np.array(counts) / 16
    mean = 0.5 * np.ones(len(counts)) if not told else np.clip(0.5 + 0.01 * np.arange(len(counts)) / 60, 0, 1)
    run = run_of("tinker", {"mixed": 1 - dead, "reward": mean})
    for window in shares(run, group_size=size, prompts_per_step=16):
        assert window.dead.value is not None
        assert window.mixed.value == pytest.approx(1 - window.dead.value)
        for name in PARTS:
            part: Part = getattr(window, name)
            most = 16.0 if name == "mixed_groups" else 1.0
            if part.known:
                assert part.low is not None
                assert part.high is not None
                assert 0.0 <= part.low <= part.high <= most
                assert part.reason is None
                assert part.value is None or part.low - 1e-9 <= part.value <= part.high + 1e-9
            else:
                assert part.value is None
                assert part.reason
        at = slice(window.first_step - 1, window.last_step)
        assert window.dead.value == pytest.approx(dead[at].mean())


@pytest.mark.parametrize("groups", [8, 64])
def test_limits_hold_the_truth_as_often_as_they_say(groups: int) -> None:
    """The share of 10 rows that drift: limits of 95 % miss in at most 5 % of 400 runs, and 2.3 standard errors more."""
    rng = np.random.default_rng(11)
    truth = np.linspace(0.5, 0.7, 20)
    missed = 0
    for _ in range(400):
        run = run_of("trl", {"dead": rng.binomial(groups, truth) / groups, "reward": np.full(20, 0.5)})
        dead = shares(run, prompts_per_step=groups)[-1].dead
        assert dead.low is not None
        assert dead.high is not None
        missed += not dead.low <= truth[-10:].mean() <= dead.high
    assert missed <= 400 * 0.05 + 2.3 * np.sqrt(400 * 0.05 * 0.95)


def test_what_is_seen_lies_within_its_limits_and_is_the_value_where_told() -> None:
    dead, mean = np.tile([0.5, 0.25], 20), np.tile(np.arange(12, 22) / 32, 4)
    bounded = shares(run_of("trl", {"dead": dead, "reward": mean}), group_size=4, prompts_per_step=8)
    told = shares(composed(np.full(20, 0.25), np.full(20, 0.25)), prompts_per_step=16)
    for window in (*bounded, *told):
        for name in PARTS:
            part = getattr(window, name)
            if not part.known:
                continue
            assert part.low <= part.seen_low <= part.seen_high <= part.high
            assert (part.value is None) == (part.seen_high - part.seen_low > 1e-6)
            assert part.value is None or part.value == pytest.approx(part.seen_low)
    last = bounded[-1]
    assert last.all_pass.value is None
    assert last.dead.seen_high is not None
    assert last.mixed.seen_high is not None
    assert last.mixed.seen_low == pytest.approx(1.0 - last.dead.seen_high)
    assert last.mixed_groups.seen_high == pytest.approx(8.0 * last.mixed.seen_high)
