"""Quantities of a run: what every tool's metrics mean, and when they do not say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_plan.errors import DomainError
from grpo_plan.group_log import GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.quantities import (
    DEFINITIONS,
    Absent,
    Cause,
    Quantity,
    RunView,
    Scope,
    Stage,
    quantity_of,
    recognised_names,
    tool_of,
)
from grpo_plan.run_log import RunLog


def view(columns: Mapping[str, Sequence[float]], **config: object) -> RunView:
    metrics = {name: np.array(values, dtype=float) for name, values in columns.items()}
    size = len(next(iter(metrics.values())))
    size_of_group = config.pop("group_size", None)
    assert size_of_group is None or isinstance(size_of_group, int)
    return RunView(tool=tool_of(metrics), size=size, metrics=metrics, config=config, group_size=size_of_group)


def told(name: str, columns: Mapping[str, Sequence[float]], **config: object) -> Quantity:
    found = quantity_of(name, view(columns, **config))
    assert isinstance(found, Quantity), found
    return found


def untold(name: str, columns: Mapping[str, Sequence[float]], **config: object) -> Absent:
    found = quantity_of(name, view(columns, **config))
    assert isinstance(found, Absent), found
    assert not found
    assert "\n" not in found.reason
    return found


TRL = {"reward": [0.4, 0.5, 0.6], "frac_reward_zero_std": [0.25, 0.5, 0.0], "loss": [0.0] * 3}


# --- trap 4: a share of groups, or a flag of the whole batch ------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [{"scale_rewards": "batch"}, {"multi_objective_aggregation": "normalize_then_sum", "scale_rewards": "group"}],
)
def test_trap_4_a_flag_of_the_whole_batch_is_no_share(config: dict[str, object]) -> None:
    found = untold("dead_fraction", TRL | {"frac_reward_zero_std": [0.0, 1.0, 0.0]}, **config)
    assert found.cause is Cause.BATCH_FLAG
    assert found.metrics == ("frac_reward_zero_std",)
    assert found.lower is not None
    assert found.lower.tolist() == [0.0, 1.0, 0.0]  # a batch of equal rewards has dead groups only
    assert told("dead_batch", TRL, **config).scope is Scope.BATCH
    assert untold("mixed_fraction", TRL, **config).cause is Cause.BATCH_FLAG


@pytest.mark.parametrize("scale", ["group", "none", True, False])
def test_trap_4_a_share_of_groups_under_group_and_none(scale: object) -> None:
    zeros = TRL | {"frac_reward_zero_std": [0.0, 0.0, 0.0]}
    found = told("dead_fraction", zeros, scale_rewards=scale)
    assert found.values.tolist() == [0.0] * 3
    assert found.stage is Stage.UNFILTERED
    assert any("fewer than two scored" in note for note in found.notes)
    assert not quantity_of("dead_batch", view(zeros, scale_rewards=scale))


def test_trap_4_without_settings_values_between_0_and_1_tell_and_others_do_not() -> None:
    assert "between 0 and 1" in told("dead_fraction", TRL).notes[-1]
    for values in ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0]):
        found = untold("dead_fraction", TRL | {"frac_reward_zero_std": values})
        assert found.cause is Cause.MEANING_UNKNOWN
        assert "scale_rewards settles it" in found.reason
    assert told("dead_fraction", TRL | {"frac_reward_zero_std": [1.0] * 3}).mean == 1.0  # dead in both readings
    one = told("dead_fraction", TRL | {"frac_reward_zero_std": [0.0, 1.0, 0.0]}, prompts_per_step=1)
    assert one.values.tolist() == [0.0, 1.0, 0.0]  # the share of one group
    beside = {"reward_std": [0.4, 0.3, 0.4], "frac_reward_zero_std": [0.0, 1.0, 0.0]}
    assert told("dead_fraction", TRL | beside, trl_version="1.16.0").mean == pytest.approx(
        1 / 3
    )  # a batch that differs


def test_ms_swift_counts_groups_whatever_the_scale() -> None:
    columns = TRL | {"memory(GiB)": [1.0] * 3, "frac_reward_zero_std": [0.0, 1.0, 0.0]}
    assert told("dead_fraction", columns, scale_rewards="batch").values.tolist() == [0.0, 1.0, 0.0]
    filtered = untold("dead_fraction", columns, dynamic_sample=True)
    assert filtered.cause is Cause.SURVIVORS_ONLY


def test_trap_7_shares_of_survivors_are_not_shares_of_groups() -> None:
    found = untold("dead_fraction", TRL | {"train/num_gen_batches": [5.0, 5.0, 4.0]})
    assert found.cause is Cause.SURVIVORS_ONLY
    assert "train/num_gen_batches is up to 5" in found.reason
    assert told("reward_mean", TRL | {"train/num_gen_batches": [5.0, 5.0, 4.0]}).stage is Stage.AFTER
    kept = told("dead_fraction", TRL | {"dapo/kept_prompts_ratio": [0.25, 0.5, 1.0]})
    assert (kept.values.tolist(), kept.stage) == ([0.75, 0.5, 0.0], Stage.BEFORE)


# --- trap 5: reward_std ------------------------------------------------------------------------------------------


STD = {"reward": [0.4] * 3, "reward_std": [0.5, 0.4, 0.45], "frac_reward_zero_std": [0.25] * 3}


@pytest.mark.parametrize(
    ("columns", "config", "meaning"),
    [
        (STD, {"trl_version": "0.26.2"}, "group_reward_std"),
        (STD, {"trl_version": "0.27.0"}, "reward_std"),
        (STD, {"trl_version": "1.16.0"}, "reward_std"),
        (STD, {"multi_objective_aggregation": "sum_then_normalize"}, "reward_std"),
        (STD, {"trl_version_at_least": "0.28.0"}, "reward_std"),
        (STD | {"completion_length": [9.0] * 3}, {}, "group_reward_std"),
        (STD | {"memory(GiB)": [9.0] * 3}, {}, "group_reward_std"),
        (STD | {"rewards/a/std": [0.5, 0.4, 0.45]}, {}, "reward_std"),
        (STD | {"rewards/a/std": [0.25, 0.2, 0.225]}, {}, "reward_std"),  # a weight of 2
        (STD | {"rewards/a/std": [0.5, 0.49, 0.5]}, {}, "group_reward_std"),
        (STD | {"frac_reward_zero_std": [0.5, 1.0, 0.5]}, {}, "reward_std"),
        (STD, {}, None),
        (STD | {"rewards/a/std": [0.5, 0.4, 0.45], "rewards/b/std": [0.5, 0.4, 0.45]}, {}, None),
        (STD, {"trl_version": "not a version"}, None),
    ],
)
def test_trap_5_reward_std_is_of_the_batch_or_of_the_groups(
    columns: dict[str, list[float]], config: dict[str, object], meaning: str | None
) -> None:
    for name in ("reward_std", "group_reward_std"):
        found = quantity_of(name, view(columns, **config))
        assert isinstance(found, Quantity) == (name == meaning)
        if meaning is None:
            assert isinstance(found, Absent)
            assert found.cause is Cause.MEANING_UNKNOWN
            assert "0.27" in found.reason


def test_without_the_metric_rewards_that_never_differ_say_it() -> None:
    atoms = {"reward": [0.6, 0.4], "reward_std": [0.0, 0.0]}
    assert told("dead_fraction", atoms, trl_version="0.20").values.tolist() == [1.0, 1.0]
    assert untold("dead_fraction", atoms, trl_version="1.0").lower is None
    some = untold("dead_fraction", {"reward": [0.6, 0.4], "reward_std": [0.0, 0.2]}, trl_version="0.20")
    assert some.lower is not None
    assert some.lower.tolist() == [1.0, 0.0]


# --- trap 8: NeMo-RL's baselines ---------------------------------------------------------------------------------


def nemo(rewards: np.ndarray[Any, Any], leave_one_out: bool) -> dict[str, list[float]]:
    """What NeMo-RL logs of groups of 0/1 rewards, shape (N, G)."""
    size = rewards.shape[1]
    total = rewards.sum(axis=1, keepdims=True)
    baseline = (total - rewards) / (size - 1) if leave_one_out else np.broadcast_to(total / size, rewards.shape)
    pct = [100.0 * float((baseline == value).mean()) for value in (0.0, 1.0)]
    return {
        "train/reward": [float(rewards.mean())],
        "train/baseline_reward/pct_0": pct[:1],
        "train/baseline_reward/pct_1": pct[1:],
    }


@given(st.integers(2, 6), st.integers(1, 12), st.integers(0, 10**6))
def test_trap_8_leave_one_out_baselines_bound_the_dead_fraction(size: int, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards = (rng.random((groups, size)) < rng.random((groups, 1))).astype(float)
    total = rewards.sum(axis=1)
    dead = float(((total == 0) | (total == size)).mean())
    exact = told("dead_fraction", nemo(rewards, False), use_leave_one_out_baseline=False)
    assert exact.values[0] == pytest.approx(dead)
    for known in ({}, {"use_leave_one_out_baseline": True}):
        found = untold("dead_fraction", nemo(rewards, True), group_size=size, **known)
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower[0] <= dead + 1e-12
        assert dead <= found.upper[0] + 1e-12


# --- trap 9: OpenRLHF's pass rate --------------------------------------------------------------------------------


def test_trap_9_full_acceptance_reads_100_times_the_rollouts_per_prompt() -> None:
    columns = {"train/dynamic_filtering_pass_rate": [800.0, 400.0], "train/reward": [0.5, 0.5]}
    found = told("dead_fraction", columns, group_size=8)
    assert (found.values.tolist(), found.stage) == ([0.0, 0.5], Stage.BEFORE)
    assert told("mixed_fraction", columns, n_samples_per_prompt=8).values.tolist() == [1.0, 0.5]
    needs = untold("dead_fraction", columns)
    assert needs.cause is Cause.NEEDS_SETTING
    low = {"train/dynamic_filtering_pass_rate": [40.0, 80.0]}
    unsure = untold("dead_fraction", low, group_size=4)
    assert unsure.cause is Cause.MEANING_UNKNOWN
    assert unsure.lower is not None
    assert unsure.upper is not None
    assert (unsure.lower[0], unsure.upper[0]) == (pytest.approx(0.6), pytest.approx(0.9))
    assert told("dead_fraction", low, group_size=4, openrlhf_version="0.11.2").values[0] == pytest.approx(0.9)
    assert told("dead_fraction", low, group_size=4, openrlhf_version="0.9.9").values[0] == pytest.approx(0.6)


def test_openrlhf_without_filtering_logs_the_groups_own_standard_deviation() -> None:
    assert told("group_reward_std", {"train/group_reward_std": [0.1]}).values.tolist() == [0.1]
    assert told("dead_fraction", {"train/group_reward_std": [0.0, 0.0]}).mean == 1.0
    assert untold("dead_fraction", {"train/group_reward_std": [0.1, 0.0]}).cause is Cause.NOT_LOGGED
    assert told("truncated_fraction", {"rollout/truncated_rate": [12.0], "group_reward_std": [0.1]}).values[0] == 0.12


# --- other tools -------------------------------------------------------------------------------------------------


EVICTED = "training/filter_groups/evicted_samples"
SURPLUS = "training/filter_groups/discarded_surplus_samples"


def test_verl_evicted_groups_over_all_groups() -> None:
    columns = {"critic/score/mean": [0.4, 0.4], EVICTED: [4.0, 12.0], SURPLUS: [0.0, 4.0]}
    found = told("dead_fraction", columns, **{"data.train_batch_size": 16})
    assert (found.values.tolist(), found.stage) == ([0.2, 0.375], Stage.BEFORE)
    assert untold("dead_fraction", columns).cause is Cause.NEEDS_SETTING
    assert told("reward_mean", columns).stage is Stage.AFTER
    del columns[SURPLUS]
    assert "surplus" in told("dead_fraction", columns, prompts_per_step=16).notes[-1]


def test_verl_advantages_of_0_mean_that_all_groups_are_dead() -> None:
    zero = {"critic/advantages/max": [0.0, 0.0], "critic/advantages/min": [0.0, 0.0]}
    assert told("dead_fraction", zero).values.tolist() == [1.0, 1.0]
    some = {"critic/advantages/max": [0.0, 2.0], "critic/advantages/mean": [0.0, 0.0]}
    found = untold("dead_fraction", some, prompts_per_step=8)
    assert found.lower is not None
    assert found.upper is not None
    assert (found.lower.tolist(), found.upper.tolist()) == ([1.0, 0.0], [1.0, 0.875])
    assert untold("mixed_fraction", some).upper is not None
    assert told("advantage_abs_max", {"critic/advantages/max": [2.0], "critic/advantages/min": [-3.0]}).values[0] == 3.0
    assert untold("dead_fraction", {"actor/pg_loss": [0.1]}).lower is None


def test_counts_and_shares_of_solved_prompts_in_forks_of_verl() -> None:
    columns = {"critic/score/mean": [0.4] * 2, "batch/solve_none": [4.0, 8.0], "batch/solve_all": [4.0, 0.0]}
    assert told("dead_fraction", columns, prompts_per_step=16).values.tolist() == [0.5, 0.5]
    assert untold("dead_fraction", columns).cause is Cause.NEEDS_SETTING
    shares = {"critic/score/mean": [0.4], "batch/solve_none": [0.25], "batch/solve_all": [0.125]}
    assert told("all_fail_fraction", shares).values.tolist() == [0.25]


def test_prime_rl_reads_its_trainable_agent() -> None:
    columns = {
        f"train/agg/all/{agent}/{name}": [value]
        for agent, share in (("agent", 0.25), ("judge", 0.5))
        for name, value in (("solved_none", share), ("solved_all", 0.0), ("has_error/mean", 0.1))
    }
    found = told("dead_fraction", columns)
    assert (found.values.tolist(), found.stage) == ([0.25], Stage.BEFORE)
    assert "judge" in found.notes[-1]
    assert told("failed_fraction", columns).values.tolist() == [0.1]
    assert untold("dead_fraction", {"effective_batch_size/all": [0.5]}).cause is Cause.NOT_LOGGED


def test_skyrl_zero_variance_groups_and_groups_without_a_reward() -> None:
    columns = {
        "reward/avg_pass_at_8": [0.75],
        "reward/avg_raw_reward": [0.3],
        "reward/num_zero_variance_filtered": [6.0],
    }
    assert told("all_fail_fraction", columns).values.tolist() == [0.25]
    assert told("dead_fraction", columns, **{"trainer.train_batch_size": 16}).values.tolist() == [0.375]
    assert told("group_size", columns).values.tolist() == [8.0]
    needs = untold("dead_fraction", columns)
    assert (needs.cause, needs.lower is not None) == (Cause.NEEDS_SETTING, True)
    del columns["reward/num_zero_variance_filtered"]
    assert untold("dead_fraction", columns).cause is Cause.NOT_LOGGED


def test_slime_counts_by_reward_and_absent_counts_are_0() -> None:
    nan = float("nan")
    columns = {
        "rollout/raw_reward": [0.4, 0.5],
        "rollout/zero_std/count_0.0": [4.0, nan],
        "rollout/dynamic_filter/drop_zero_std_1.0": [16.0, 0.0],
    }
    found = told("dead_fraction", columns, rollout_batch_size=16)
    assert (found.values.tolist(), found.stage) == ([20 / 32, 0.0], Stage.BEFORE)
    assert told("all_fail_fraction", columns, rollout_batch_size=16).values.tolist() == [4 / 32, 0.0]
    assert told("all_pass_fraction", columns, rollout_batch_size=16).values.tolist() == [0.5, 0.0]
    assert untold("dead_fraction", columns).cause is Cause.NEEDS_SETTING


def test_roll_tinker_and_summaries() -> None:
    roll = {
        "group/all_correct_groups_ratio": [0.1],
        "group/all_incorrect_groups_ratio": [0.3],
        "scheduler/query_filter_count": [2.0],
    }
    found = told("dead_fraction", roll)
    assert (found.values[0], found.stage) == (pytest.approx(0.4), Stage.AFTER)
    assert told("pass_rate_std", roll | {"group/correct_ratio/std": [0.2]}).values.tolist() == [0.2]
    tinker = {"env/all/by_group/frac_mixed": [0.25], "env/all/total_ac_tokens": [64.0], "env/all/total_episodes": [32.0],
              "env/all/total_ob_tokens": [320.0]}  # fmt: skip
    assert told("dead_fraction", tinker).values.tolist() == [0.75]
    assert told("dead_fraction", tinker, remove_constant_reward_groups=True).stage is Stage.UNKNOWN
    assert told("tokens", tinker).values.tolist() == [384.0]
    assert told("response_tokens_mean", tinker).values.tolist() == [2.0]
    assert told("prompts_per_step", tinker, group_size=4).values.tolist() == [8.0]
    assert told("dead_fraction", {"zvf": [0.5], "gu": [0.5]}).values.tolist() == [0.5]


def test_open_instruct_tells_by_its_percentage_what_the_total_holds() -> None:
    columns = {"batch/filtered_prompts": [8.0], "batch/total_prompts": [16.0], "batch/filtered_prompts_zero": [6.0]}
    unsure = untold("dead_fraction", columns)
    assert unsure.lower is not None
    assert unsure.upper is not None
    assert (unsure.lower[0], unsure.upper[0]) == (pytest.approx(1 / 3), 0.5)
    among = told("dead_fraction", columns | {"batch/filtered_prompts_pct": [50.0]})
    assert among.values.tolist() == [0.5]
    beside = columns | {"batch/filtered_prompts_pct": [1 / 3]}
    assert told("dead_fraction", beside).values[0] == pytest.approx(1 / 3)
    assert told("all_fail_fraction", beside).values[0] == pytest.approx(0.25)
    more = columns | {"batch/filtered_prompts": [20.0]}
    assert told("dead_fraction", more).values[0] == pytest.approx(20 / 36)


def test_quantities_that_are_not_there_say_why() -> None:
    with pytest.raises(DomainError, match="quantity must be one of"):
        quantity_of("nope", view(TRL))
    assert untold("all_pass_fraction", TRL).reason == "all_pass_fraction: not logged by trl."
    assert untold("kl", TRL).reason == "kl: not in the log, where trl calls it kl."
    assert "any name that is known" in untold("dead_fraction", {"mine": [1.0]}).reason
    for name in DEFINITIONS:
        for columns in (TRL, {"mine": [1.0]}, {"critic/score/mean": [0.1]}, {"baseline_reward/pct_0": [1.0]}):
            found = quantity_of(name, view(columns))
            assert found.name == name
            assert isinstance(found, Absent) or found.values.shape == (len(next(iter(columns.values()))),)


def test_names_tell_the_tool_and_unknown_names_are_listed() -> None:
    assert tool_of(["critic/score/mean", "group/mixed_groups_ratio"]) == "roll"
    assert tool_of(["batch/solve_none", "batch/effective_batch_size"]) == "prime-rl"
    assert tool_of(["batch/solve_none", "actor/pg_loss"]) == "verl"
    assert tool_of(["loss", "learning_rate"]) is None
    shown = view({"train/reward": [1.0], "my/own": [2.0], "train/agg/all/agent/solved_none": [0.1]})
    assert recognised_names(shown) == ("train/reward", "train/agg/all/agent/solved_none")


# --- rollouts beside the metrics ---------------------------------------------------------------------------------


def group_log(steps: list[int], low: list[float], high: list[float], **more: Any) -> GroupLog:
    size = len(steps)
    return GroupLog(
        step=np.array(steps), prompt_id=np.array([f"p{i}" for i in range(size)], dtype=object),
        rollouts=np.full(size, 4), scored=np.full(size, 4), reward_min=np.array(low), reward_max=np.array(high),
        reward_mean=(np.array(low) + np.array(high)) / 2, **more,
    )  # fmt: skip


def run_log(
    columns: Mapping[str, Sequence[float]], steps: list[int], groups: GroupLog | None, **config: object
) -> RunLog:
    metrics = {name: np.array(values, dtype=float) for name, values in columns.items()}
    return RunLog(
        steps=np.array(steps), metrics=metrics, format="metrics", source="log", config=config, groups=groups,
        tool=tool_of(metrics),
    )  # fmt: skip


GROUPS = group_log([1, 1, 2, 2], [0.0, 0.0, 0.0, 0.5], [1.0, 0.0, 0.0, 0.5])


def test_groups_that_were_counted_come_first_and_disagreement_is_said() -> None:
    run = run_log({"frac_reward_zero_std": [0.0, 0.0, 0.25]}, [1, 2, 3], GROUPS, scale_rewards="group")
    found = run.quantity("dead_fraction")
    assert isinstance(found, Quantity)
    assert found.values.tolist() == [0.5, 1.0, 0.25]
    assert found.metrics == ("frac_reward_zero_std",)  # at step 3
    assert any("says otherwise at 2 of 2 steps, first 0 against 0.5 counted at step 1" in n for n in found.notes)
    flag = run_log({"frac_reward_zero_std": [0.0, 0.0, 0.0]}, [1, 2, 3], GROUPS, scale_rewards="batch")
    counted = flag.quantity("dead_fraction")
    assert isinstance(counted, Quantity)
    np.testing.assert_array_equal(counted.values, [0.5, 1.0, np.nan])
    assert not run.quantity("all_pass_fraction")  # graded rewards: no threshold says what passes


def test_a_dump_of_the_last_batch_of_a_window_does_not_overrule_its_mean() -> None:
    groups = group_log([5, 10], [0.0, 0.0], [0.0, 1.0])
    run = run_log({"frac_reward_zero_std": [0.45, 0.4]}, [5, 10], groups, scale_rewards="group")
    logged = run.quantity("dead_fraction")
    assert isinstance(logged, Quantity)
    assert logged.values.tolist() == [0.45, 0.4]
    only = run_log({"loss": [0.1, 0.1]}, [5, 10], groups).quantity("dead_fraction")
    assert isinstance(only, Quantity)
    assert only.values.tolist() == [1.0, 0.0]
    assert any("last batch before each row" in note for note in only.notes)


def test_trap_7_survivors_in_a_dump_are_not_counted_as_all_groups() -> None:
    metrics = {"critic/score/mean": [0.4, 0.4], EVICTED: [2.0, 6.0]}
    run = run_log(metrics, [1, 2], group_log([1, 1, 2, 2], [0.0] * 4, [1.0] * 4))
    found = run.quantity("dead_fraction")
    assert isinstance(found, Quantity)
    assert found.values.tolist() == [0.5, 0.75]  # groups kept in a step: the two in the dump
    for name in ("all_fail_fraction", "all_pass_fraction"):
        absent = run.quantity(name)
        assert isinstance(absent, Absent)
        assert absent.cause is Cause.SURVIVORS_ONLY
    filtered = group_log([1, 2], [0.0, 0.0], [1.0, 1.0], provenance=Provenance(filtered="dead groups are dropped"))
    absent = run_log({"critic/score/mean": [0.4, 0.4]}, [1, 2], filtered).quantity("dead_fraction")
    assert isinstance(absent, Absent)
    assert "dead groups are dropped" in absent.reason


def test_a_dump_with_dead_groups_is_not_of_survivors_only() -> None:
    metrics = {"critic/score/mean": [0.4, 0.4], EVICTED: [2.0, 6.0]}
    found = run_log(metrics, [1, 2], GROUPS).quantity("dead_fraction")
    assert isinstance(found, Quantity)
    assert found.values.tolist() == [0.5, 1.0]
    assert any("3 of the 4 groups of rollouts are dead: they are not only those" in note for note in found.notes)
    lost = group_log([1, 1, 2, 2], [0.0] * 4, [1.0] * 4)  # a group whose scoring failed is no proof
    lost.scored[0] = 1
    kept = run_log(metrics, [1, 2], lost).quantity("dead_fraction")
    assert isinstance(kept, Quantity)
    assert kept.values.tolist() == [0.5, 0.75]


def test_rollouts_alone_tell_mean_reward_and_what_passes() -> None:
    two = group_log([1, 1, 2, 2], [0.1, 0.1, 1.1, 0.1], [0.1, 1.1, 1.1, 0.1])
    run = run_log({}, [1, 2], two)
    for name, values in {
        "all_pass_fraction": [0.0, 0.5], "all_fail_fraction": [0.5, 0.5], "reward_mean": [0.35, 0.6],
    }.items():  # fmt: skip
        found = run.quantity(name)
        assert isinstance(found, Quantity), found
        np.testing.assert_allclose(found.values, values)
    found = run.quantity("all_pass_fraction")
    assert isinstance(found, Quantity)
    assert any("levels 0.1 and 1.1: the upper one passes" in note for note in found.notes)
    three = group_log([1, 1], [0.0, 0.1], [0.1, 1.1])
    absent = run_log({}, [1], three).quantity("all_fail_fraction")
    assert isinstance(absent, Absent)
    assert absent.cause is Cause.NEEDS_SETTING
    assert "(0, 0.1, 1.1)" in absent.reason
    assert "pass_threshold=" in absent.reason
    given = replace(run_log({}, [1], three), pass_threshold=1.0).quantity("all_fail_fraction")
    assert isinstance(given, Quantity)
    assert given.values.tolist() == [0.5]


def test_sizes_come_from_the_rollouts_where_nothing_else_says_them() -> None:
    groups = group_log([1, 1], [0.0] * 2, [1.0] * 2, provenance=Provenance(group_size=(4, 4)))
    run = run_log({"critic/score/mean": [0.4]}, [1], groups)
    assert run.rollouts_per_prompt == 4
    per_step = run.quantity("prompts_per_step")
    assert isinstance(per_step, Quantity)
    assert per_step.values.tolist() == [2.0]
