"""`gp.advantages` and `gp.amplification`: known numbers, definitions, properties, edges, and the command."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan import symbolic
from grpo_plan.cli.main import main
from grpo_plan.estimators import ESTIMATORS, arithmetic, get_estimator, special
from grpo_plan.estimators.amplification import gap_of_weight, proposed_tolerance
from grpo_plan.estimators.computed import COMPUTED
from grpo_plan.estimators.presets import presets
from tests.advantage_reference import reference
from tests.helpers import outcomes

NAN = math.nan
Array = np.ndarray[Any, np.dtype[np.float64]]
CENTRED = ("grpo", "grpo_sample", "grpo_batch", "dr_grpo", "rloo", "passk:2", "dapo", "opo")
STANDARDISED = ("grpo", "grpo_sample", "grpo_batch", "passk:2", "dapo", "reinforce_plus_plus_baseline", "gdpo")
ALL_NAMES = tuple(name if name != "passk" else "passk:2" for name in ESTIMATORS)


def values(rewards: Any, *positional: Any, **choices: Any) -> Array:
    return np.asarray(gp.advantages(rewards, *positional, **choices))


def floats(rewards: Any) -> Array:
    return np.array([[float(v) for v in row] for row in rewards])


# -- numbers that anyone can check ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ({}, [3**0.5, *[-(3**-0.5)] * 3]),
        ({"std": "population"}, [3**0.5, *[-(3**-0.5)] * 3]),
        ({"std": "sample"}, [1.5, -0.5, -0.5, -0.5]),
        ({"std": "sample", "eps": 1e-4}, [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]),
        ({"estimator": "grpo_sample"}, [1.5, -0.5, -0.5, -0.5]),
        ({"estimator": "dr_grpo"}, [0.75, -0.25, -0.25, -0.25]),
        ({"estimator": "rloo"}, [1, -1 / 3, -1 / 3, -1 / 3]),
        ({"estimator": "maxrl"}, [3, -1, -1, -1]),
        ({"estimator": "sign"}, [1, -1, -1, -1]),
        ({"estimator": "reinforce"}, [1, 0, 0, 0]),
        ({"estimator": "nsr"}, [0, -1, -1, -1]),
        ({"estimator": "w_reinforce"}, [0.1, -1, -1, -1]),
        ({"estimator": "f_grpo", "gamma": 1}, [0.75 * 3**0.5, *[-0.75 * 3**-0.5] * 3]),
        ({"estimator": "ngrpo"}, [0.6 / 0.3**0.5, *[-0.4 / 0.3**0.5] * 3]),
        ({"estimator": "grpo_passk"}, [2, 0, 0, 0]),
        ({"estimator": "passk:2"}, [1, -1 / 3, -1 / 3, -1 / 3]),
        ({"estimator": "passk", "k": 1}, [3**0.5, *[-(3**-0.5)] * 3]),
        ({"estimator": "opo", "lengths": [[6, 2, 2, 2]]}, [0.5, -0.5, -0.5, -0.5]),
        ({"estimator": "gpg"}, [3, -1, -1, -1]),
        ({"estimator": "reinforce_plus_plus"}, [3**0.5, *[-(3**-0.5)] * 3]),
        ({"trainer": "trl", "version": "1.16"}, [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]),
        ({"trainer": "trl", "scale_rewards": "none"}, [0.75, -0.25, -0.25, -0.25]),
        ({"trainer": "verl", "estimator": "rloo"}, [1, -1 / 3, -1 / 3, -1 / 3]),
    ],
)
def test_one_pass_of_four(choices: dict[str, Any], wanted: list[float]) -> None:
    assert values([[1, 0, 0, 0]], **choices)[0] == pytest.approx(wanted, rel=1e-12)


def test_a_gap_of_one_hundredth_is_standardised_to_the_same() -> None:
    both = values([[1, 0, 0, 0], [0.51, 0.5, 0.5, 0.5]])
    assert both[0] == pytest.approx(both[1], rel=1e-12)
    small = values([[0.51, 0.5, 0.5, 0.5]], std="sample", eps=1e-4)[0]
    assert small == pytest.approx([x / 1.02 for x in (1.5, -0.5, -0.5, -0.5)], rel=1e-12)


def test_the_result_says_what_it_is() -> None:
    found = gp.advantages([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, None], [None, None, 1, None], [1, 0, None, 0]])
    assert found.kinds.tolist() == ["mixed", "all_fail", "all_pass", "unscored", "mixed"]
    assert found.counts == {"mixed": 2, "all_pass": 1, "all_fail": 1, "dead": 0, "unscored": 1}
    assert found.failed.tolist() == [0, 0, 1, 3, 1]
    assert found.live_share == pytest.approx(7 / 20)
    assert found.largest == pytest.approx(3**0.5)
    assert found.done_with_dead == "all-pass: 0; all-fail: 0; unscored, fewer than two scored rollouts: 0"
    assert found.done_with_failed == "5 failed: left out of means and spreads, advantage 0"
    assert repr(found) == "<Advantages: grpo, groups: 2 mixed, 1 all_pass, 1 all_fail, 1 unscored>"
    assert not found.values.flags.writeable
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    frame = found.to_frame()
    assert frame.height == 20
    assert frame["reward"].null_count() == 5
    assert frame.filter(frame["group"] == 4)["advantage"].to_list() == pytest.approx(
        [2**0.5, -(2**-0.5), 0, -(2**-0.5)]
    )


# -- the same registry, the same numbers ------------------------------------------------------------------------------


def test_every_estimator_of_the_registry_is_computed_and_no_other() -> None:
    assert set(COMPUTED) == set(ESTIMATORS)
    assert all(ESTIMATORS[name].computed is COMPUTED[name] for name in ESTIMATORS)


@pytest.mark.parametrize("name", ALL_NAMES)
@pytest.mark.parametrize("group_size", [3, 4, 5, 8])
def test_at_0_and_1_the_advantages_are_the_pair(name: str, group_size: int) -> None:
    one = get_estimator(name)
    passes = np.arange(group_size + 1.0)
    rewards = (np.arange(group_size) < passes[:, None]).astype(float)
    up, down = one.in_batch(passes, group_size)
    wanted = np.where(rewards == 1, up[:, None], down[:, None])
    if name == "grpo_passk":  # of equal ones the first is the best
        wanted[:, 1:] = np.where(rewards[:, 1:] == 1, 0.0, wanted[:, 1:])
    assert values(rewards, name) == pytest.approx(wanted, rel=1e-12, abs=1e-13)
    if one.scale_of is None and not one.batch:
        alone = np.concatenate([values(row[None], name) for row in rewards])
        assert alone == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("rewards", list(outcomes(4)))
def test_exactly_by_the_definitions(rewards: tuple[int, ...]) -> None:
    for name, exact in (
        ("grpo", symbolic.standardised_rewards(rewards)),
        ("grpo_sample", symbolic.standardised_rewards(rewards, 1)),
        ("dr_grpo", symbolic.centred_rewards(rewards)),
        ("rloo", symbolic.centred_rewards(rewards, leave_one_out=True)),
        ("f_grpo", symbolic.focal_rewards(rewards, 0.5)),
        ("ngrpo", symbolic.virtual_best_rewards(rewards)),
        ("passk:2", symbolic.best_of_rewards(rewards, 2)),
        ("passk:3", symbolic.best_of_rewards(rewards, 3)),
    ):
        assert values([rewards], name)[0] == pytest.approx([float(v) for v in exact], rel=1e-12, abs=1e-14), name


@pytest.mark.parametrize(
    "rewards", [(0.0, 0.25, 1.0, 0.5, 0.25), (3.0, -1.0, 2.0, 2.0, 7.0), (0.5, 0.5, 0.5, 0.5, 0.75)]
)
@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_best_of_k_is_the_mean_over_all_choices(rewards: tuple[float, ...], kept: int) -> None:
    exact = [float(v) for v in symbolic.best_of_rewards(rewards, kept)]
    assert values([rewards], f"passk:{kept}")[0] == pytest.approx(exact, rel=1e-12, abs=1e-13)
    with_failed = values([[NAN, *rewards, NAN]], f"passk:{kept}")[0]
    assert with_failed[1:-1] == pytest.approx(exact, rel=1e-12, abs=1e-13)


def test_where_no_choice_of_k_misses_the_best_nothing_is_blown_up() -> None:
    assert not values([[1.0, 1.0, 0.5625], [0.1 + 0.2, 0.1 + 0.2, 0.1]], "passk:2").any()
    assert not values([[0.3, 0.1 + 0.2, 0.1]], "passk:2", tolerance=0)[0, 2] > 0


def test_several_reward_functions_by_hand() -> None:
    first: list[list[float]] = [[1, 0, 0, 1], [0, 0, 1, 0]]
    second = [[0.5, 0.25, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    rewards = np.moveaxis(np.array([first, second], dtype=float), 0, 2)
    exact = floats(symbolic.decoupled_rewards([first, second], [2, 1]))
    assert values(rewards, "gdpo", weights=[2, 1]) == pytest.approx(exact, rel=1e-12)
    summed = 2 * np.array(first) + np.array(second)
    assert values(rewards, "grpo", weights=[2, 1]) == pytest.approx(values(summed, "grpo"), rel=1e-12)


def test_equal_sums_of_two_functions_are_dead_only_in_the_sum() -> None:
    rewards = [[[1, 0], [0, 1]], [[0, 0], [0, 0]]]
    assert gp.advantages(rewards, "grpo").kinds.tolist() == ["all_pass", "all_fail"]
    assert not values(rewards, "grpo").any()
    found = gp.advantages(rewards, "gdpo", weights=[1, 3])
    assert found.kinds.tolist()[0] == "mixed"
    assert found.live.tolist() == [[True, True], [False, False]]


CANCELLING = [
    [[1, 0], [0, 1]],
    [[1, 0], [0, 1], [0, 1]],  # standardised, these sum to 2e-16 and not to 0
    [[0.3, 0], [0.1, 7], [0.1, 7]],
    [[1000.3, 5.1], [1000.1, 5.2]],
]


@pytest.mark.parametrize("group", CANCELLING)
@pytest.mark.parametrize("alone", [True, False])
def test_what_cancels_has_no_advantage_and_is_dead(group: list[list[float]], alone: bool) -> None:
    """Mutants: rounding left in the sum; kinds by the functions alone."""
    other = [[1, 1], *[[0, 0]] * (len(group) - 1)]
    found = gp.advantages([group] if alone else [group, other], "gdpo")
    assert found.values[0].tolist() == [0.0] * len(group)
    assert not found.live[0].any()
    assert (found.kinds[0] == "mixed", found.counts["mixed"]) == (False, 0 if alone else 1)
    assert "cancel" in " ".join(found.notes)
    uneven = gp.advantages([group] if alone else [group, other], "gdpo", weights=[2, 1])
    assert (uneven.kinds[0], bool(uneven.live[0].all())) == ("mixed", True)
    assert "cancel" not in " ".join(uneven.notes)


def test_what_cancels_under_a_trainer_and_a_convention() -> None:
    by_trainer = gp.advantages([[[1, 0], [0, 1]], [[1, 1], [0, 0]]], "gdpo", trainer="trl")
    assert by_trainer.kinds.tolist() == ["dead", "mixed"]  # with a sum of 2 in the batch nobody knows what passes
    assert by_trainer.done_with_dead.endswith(": 0")
    found = gp.advantages([[[1, 0], [0, 1], [0, 1]]], convention=by_trainer.convention)
    assert (found.kinds.tolist(), found.values.tolist()) == (["all_pass"], [[0.0, 0.0, 0.0]])
    small = gp.advantages([[[0.3, 0], [0.1, 7]]], "gdpo", trainer="trl")  # its eps tells the two spreads apart
    assert (small.kinds.tolist(), bool(small.live.all())) == (["mixed"], True)
    parts = gp.advantages([[[1, 0], [0, 1], [None, None]]], "gdpo")
    assert (parts.kinds.tolist(), parts.values.tolist()) == (["all_pass"], [[0.0, 0.0, 0.0]])


def test_a_function_without_a_reward_counts_nothing_and_one_rollout_without_any_fails() -> None:
    found = gp.advantages([[[1, None], [None, 1], [None, None], [0, 0]]], "dr_grpo")
    assert found.rewards[0].tolist()[:2] == [1.0, 1.0]
    assert math.isnan(found.rewards[0, 2])
    assert found.values[0] == pytest.approx([1 / 3, 1 / 3, 0.0, -2 / 3])


@pytest.mark.parametrize("preset", presets(), ids=lambda p: f"{p.trainer}-{p.since}-{p.setting}")
def test_arithmetic_equals_plain_loops(preset: Any) -> None:
    rng = np.random.default_rng(7)
    convention = preset.convention
    for trial in range(12):
        n, g, r = rng.integers(2, 5), rng.integers(2, 6), 1 + trial % 2
        rewards = rng.integers(0, 3, size=(n, g, r)) / 2 if trial % 3 else rng.normal(size=(n, g, r))
        if trial % 4 == 3 and "top_two" not in convention.baseline:
            rewards[rng.random(rewards.shape) < 0.2] = NAN
        lengths = rng.integers(1, 5, size=(n, g))
        weights = rng.choice([0.5, 1.0, 2.0], size=r)  # exact: no rounding to divide by
        try:
            wanted = reference(convention, rewards, weights=weights.tolist(), lengths=lengths)
        except ValueError:
            with pytest.raises(gp.DomainError, match=convention.name.split("/")[0]):
                values(rewards, convention=convention, weights=weights, lengths=lengths)
            continue
        found = values(rewards, convention=convention, weights=weights, lengths=lengths)
        assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


# -- properties -------------------------------------------------------------------------------------------------------

REWARD = st.one_of(st.sampled_from([0.0, 1.0, 0.5]), st.floats(0.0, 1.0, width=32))
GROUPS = st.integers(3, 7).flatmap(lambda g: st.lists(st.lists(REWARD, min_size=g, max_size=g), min_size=1, max_size=4))


@settings(max_examples=40)
@given(rewards=GROUPS, name=st.sampled_from(CENTRED))
def test_centred_advantages_sum_to_nothing(rewards: list[list[float]], name: str) -> None:
    found = values(rewards, name)
    assert np.abs(found.sum(axis=1)).max() <= 1e-9 * max(1.0, float(np.abs(found).max()))


@settings(max_examples=40)
@given(rewards=GROUPS, name=st.sampled_from(CENTRED), shift=st.sampled_from([-3.0, 0.25, 10.0]))
def test_a_shift_of_rewards_changes_nothing(rewards: list[list[float]], name: str, shift: float) -> None:
    rounded = np.round(np.array(rewards), 3)
    assert values(rounded + shift, name) == pytest.approx(values(rounded, name), rel=1e-6, abs=1e-9)


@settings(max_examples=40)
@given(rewards=GROUPS, name=st.sampled_from(STANDARDISED), scale=st.sampled_from([2.0, 0.125, 100.0]))
def test_a_scale_of_rewards_changes_nothing(rewards: list[list[float]], name: str, scale: float) -> None:
    rounded = np.round(np.array(rewards), 3)
    assert values(scale * rounded, name) == pytest.approx(values(rounded, name), rel=1e-9, abs=1e-12)
    assert values(scale * rounded, "rloo") == pytest.approx(scale * values(rounded, "rloo"), rel=1e-9, abs=1e-12)


@given(
    rewards=GROUPS, name=st.sampled_from(sorted(set(ALL_NAMES) - {"grpo_passk", "w_reinforce", "nsr"})), data=st.data()
)
def test_the_order_of_rollouts_and_groups_does_not_matter(rewards: list[list[float]], name: str, data: Any) -> None:
    array = np.array(rewards)
    rollouts = data.draw(st.permutations(range(array.shape[1])))
    groups = data.draw(st.permutations(range(array.shape[0])))
    wanted = values(array, name)[np.ix_(groups, rollouts)]
    assert values(array[np.ix_(groups, rollouts)], name) == pytest.approx(wanted, rel=1e-6, abs=1e-8)


@settings(max_examples=40)
@given(rewards=GROUPS)
def test_relations_between_estimators(rewards: list[list[float]]) -> None:
    array = np.array(rewards)
    n = array.shape[1]
    assert values(array, "rloo") == pytest.approx(values(array, "dr_grpo") * n / (n - 1), rel=1e-9, abs=1e-13)
    standard = values(array)
    assert values(array, std="sample") == pytest.approx(standard * ((n - 1) / n) ** 0.5, rel=1e-9, abs=1e-13)
    assert np.abs(standard).max() <= (n - 1) ** 0.5 * (1 + 1e-9)
    squares = (standard**2).sum(axis=1)
    assert np.all(np.isclose(squares, n) | (squares == 0))
    assert values(array, "passk", k=1) == pytest.approx(standard, rel=1e-6, abs=1e-9)


@settings(max_examples=40)
@given(rewards=GROUPS, name=st.sampled_from(ALL_NAMES), failed=st.integers(0, 2))
def test_failed_rollouts_change_no_others(rewards: list[list[float]], name: str, failed: int) -> None:
    array = np.round(np.array(rewards))
    wider = np.concatenate([array, np.full((array.shape[0], failed), NAN)], axis=1)
    found = gp.advantages(wider, name)
    assert found.values[:, : array.shape[1]] == pytest.approx(values(array, name), rel=1e-9, abs=1e-13)
    assert not found.values[:, array.shape[1] :].any()
    assert found.failed.tolist() == [failed] * array.shape[0]


# -- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_NAMES)
@pytest.mark.parametrize("rewards", [[[1, NAN, NAN]], [[NAN, NAN, NAN]], [[0, NAN, NAN]]])
def test_few_scored_rollouts_are_defined(name: str, rewards: list[list[float]]) -> None:
    found = gp.advantages(rewards, name)
    assert found.kinds.tolist() == ["unscored"]
    assert np.isfinite(found.values).all()
    if ESTIMATORS[name.partition(":")[0]].centred or name in ("ngrpo", "grpo_passk"):
        assert not found.values.any()


@pytest.mark.parametrize("name", [n for n in ALL_NAMES if not n.startswith("passk")])
def test_groups_of_one(name: str) -> None:
    found = gp.advantages([[1], [0]], name)
    assert found.kinds.tolist() == ["unscored", "unscored"]
    assert np.isfinite(found.values).all()


def test_kinds_do_not_follow_the_advantages() -> None:
    rewards = [[1, 1, 1], [0, 0, 0], [0.1 + 0.2, 0.3, 0.3]]
    for name in ("reinforce", "reinforce_plus_plus", "grpo", "dr_grpo", "ngrpo"):
        assert gp.advantages(rewards, name).kinds.tolist() == ["dead"] * 3, name
    for name in ("sign", "reinforce", "ngrpo"):
        known = gp.advantages(rewards[:2], name)
        assert known.kinds.tolist() == ["all_pass", "all_fail"], name
    assert gp.advantages(rewards, "sign", pass_threshold=0.25).kinds.tolist() == ["all_pass", "all_fail", "all_pass"]
    assert gp.advantages(rewards[:2], "sign").live_share == 1.0


def test_rounding_makes_no_group_live() -> None:
    noise = [[0.1 + 0.2, 0.3, 0.3, 0.3]]
    assert not gp.advantages(noise).live.any()
    assert not gp.advantages(noise, trainer="trl").live.any()
    as_it_is = gp.advantages(noise, tolerance=0)
    assert as_it_is.kinds.tolist() == ["mixed"]
    assert as_it_is.values[0] == pytest.approx([3**0.5, *[-(3**-0.5)] * 3])
    assert not gp.advantages([[0.1] * 3, [0.7] * 3], "reinforce_plus_plus_baseline", tolerance=0).values.any()


def test_groups_of_several_sizes() -> None:
    found = gp.advantages([[1, 0], [0, 0, 1, None], []])
    assert found.kinds.tolist() == ["mixed", "mixed", "unscored"]
    assert found.present.sum(axis=1).tolist() == [2, 4, 0]
    assert found.failed.tolist() == [0, 1, 0]
    assert np.isnan(found.values[0, 2:]).all()
    assert found.values[1, 3] == 0.0
    assert found.notes == ("Groups have 0 to 4 rollouts; shorter rows end in NaN, which is no rollout.",)
    assert found.to_frame().height == 6
    same = gp.advantages([[[1, 0], [0, 0]], [[0, 1]]], "dr_grpo")
    assert same.rewards[0].tolist() == [1, 0]


def test_extreme_sizes_neither_overflow_nor_vanish() -> None:
    for scale in (1e-100, 1e-7, 1e90):
        assert values([[scale, 0, 0, 0]], tolerance=0)[0] == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], rel=1e-9)


def test_a_trainers_failed_scoring_is_its_own() -> None:
    rewards = [[1, 0, None, 0], [1, 0, 0, 0]]
    left_out = gp.advantages(rewards, trainer="trl", version="1.16")
    assert left_out.values[0, 2] == 0.0
    as_zero = gp.advantages(rewards, trainer="trl", version="1.5")
    assert as_zero.values[0] == pytest.approx(as_zero.values[1])
    spread = gp.advantages(rewards, trainer="verl")
    assert np.isnan(spread.values[0]).all()
    assert np.isfinite(spread.values[1]).all()
    assert spread.largest == pytest.approx(1.5, rel=1e-5)
    assert spread.live_share == 0.5
    assert spread.to_frame()["advantage"].null_count() == 4


@pytest.mark.parametrize(
    ("rewards", "choices", "said"),
    [
        ([[1, math.inf]], {}, "rewards must be finite; got inf at group 0, rollout 1. NaN or None marks failed"),
        ([[1, 0], [-math.inf, 0]], {}, "got -inf at group 1, rollout 0"),
        ([[1e101, 0]], {}, "rewards must be at most 1e\\+100 in size"),
        ([], {}, "at least one rollout"),
        ([[]], {}, "at least one rollout"),
        ([[], []], {}, "at least one rollout"),
        (3.0, {}, "shape \\(N, G\\)"),
        ([[[[1.0]]]], {}, "got 4 axes"),
        ("abc", {}, "rewards must be numbers"),
        ([["a", 1]], {}, "rewards must be numbers"),
        ([[[1, 2]], [[1], [2]]], {}, "rewards"),
        (
            [[1, 2]],
            {"estimator": "sign"},
            "sign: rewards must lie in \\[0, 1\\]; got 2 at group 0, rollout 1. Pass pass_",
        ),
        ([[1, -0.5]], {"estimator": "f_grpo"}, "f_grpo: rewards must lie in \\[0, 1\\]; got -0.5"),
        ([[1, -1]], {"estimator": "maxrl"}, "at least 0; got -1"),
        ([[0.5, 0]], {"estimator": "w_reinforce"}, "must be 0 or 1; got 0.5"),
        ([[2, 0]], {"estimator": "ngrpo"}, "best_reward must be the largest reward there is; got 1, and 2"),
        ([[1, 0]], {"estimator": "ngrpo", "best_reward": NAN}, "one finite number"),
        ([[1, 0]], {"estimator": "passk"}, "k must be below the group size 2; got 4"),
        ([[1, 0]], {"estimator": "passk", "k": 0}, "at least 1"),
        ([[1, 0]], {"estimator": "nope"}, "estimator must be one of grpo"),
        ([[1, 0]], {"estimator": "rloo", "std": "sample"}, "rloo has no choice of std"),
        ([[1, 0]], {"estimator": "maxrl", "eps": 0.1}, "maxrl has no choice of eps"),
        ([[1, 0]], {"std": "bessel"}, "std must be population or sample; got 'bessel'"),
        ([[1, 0]], {"eps": -1}, "eps must be finite and at least 0; got -1"),
        ([[1, 0]], {"tolerance": -1}, "tolerance must be finite and at least 0"),
        ([[1, 0]], {"pass_threshold": NAN}, "pass_threshold must be one finite number"),
        ([[1, 0]], {"weights": [1, 2]}, "one number for each of the 1 reward functions"),
        ([[1, 0]], {"weights": [NAN]}, "weights must be finite"),
        ([[1, 0]], {"gamma": 1}, "grpo has no setting 'gamma'"),
        ([[1, 0]], {"lengths": [[1]]}, "one number for each rollout"),
        (
            [[1, 0]],
            {"estimator": "opo", "lengths": [[1, -1]]},
            "lengths must be numbers of tokens from 0 to 1e\\+12; got -1 at",
        ),
        ([[1, 0]], {"version": "1.16"}, "give trainer= too"),
        ([[1, 0]], {"trainer": "nope"}, "trainer must be one of trl"),
        ([[1, 0]], {"trainer": "trl", "std": "sample"}, "a trainer has its own std and eps"),
        ([[1, 0]], {"trainer": "trl", "estimator": "maxrl"}, "has no estimator maxrl; it has grpo"),
        (
            [[1, 0]],
            {"trainer": "trl", "estimator": "rloo", "scale_rewards": "batch"},
            "settings give grpo_batch, not rloo",
        ),
        ([[1, 0]], {"convention": "grpo"}, "convention must be a Convention"),
        ([[1, 0]], {"convention": gp.Convention(name="x"), "eps": 1.0}, "convention= says everything"),
        ([[1, None]], {"convention": gp.Convention(name="x", failed="refused")}, "x takes no failed scoring"),
        ([[1], [0]], {"convention": gp.Convention(name="x", single="refused")}, "needs two scored rollouts"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_line(rewards: Any, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(gp.DomainError, match=said) as caught:
        gp.advantages(rewards, **choices)
    assert "\n" not in str(caught.value)


# -- small gaps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["std", "variance", "floor_std", "floor_variance"])
@pytest.mark.parametrize(("ddof", "group_size"), [(0, 4), (1, 4), (1, 16)])
@pytest.mark.parametrize("weight", [0.25, 0.5, 0.99])
def test_the_gap_of_a_weight_has_that_weight(place: Any, ddof: int, group_size: int, weight: float) -> None:
    scaling = gp.Scaling(ddof=ddof, eps=1e-4, eps_place=place)
    gap = gap_of_weight(weight, group_size, scaling)
    by = gp.Convention(name="x", scale="group", scaling=scaling)
    small = values([[gap, *[0.0] * (group_size - 1)]], convention=by)[0, 0]
    largest = values([[1e6, *[0.0] * (group_size - 1)]], convention=by)[0, 0]
    assert small / largest == pytest.approx(weight, rel=1e-4)
    if place == "std":
        assert float(symbolic.gap_weight(gap, group_size, 1e-4, ddof)) == pytest.approx(weight, rel=1e-9)


def test_amplification_of_the_known_example() -> None:
    rewards = [[1, 0, 0, 0], [0.51, 0.5, 0.5, 0.5], [0.3, 0.1 + 0.2, 0.3, 0.3], [1, 1, 1, 1], [None, None, None, 1]]
    bare = gp.amplification(rewards)
    assert bare.amplifies
    assert bare.weights is not None
    assert bare.weights[:4].tolist() == [1, 1, 1, 0]
    assert (bare.half_gap, bare.full_gap) == (0.0, 0.0)
    assert bare.noise.tolist() == [False, False, True, False, False]
    assert bare.small_share == pytest.approx(1 / 3)
    held = gp.amplification(rewards, trainer="trl")
    assert held.half_gap == pytest.approx(2e-4)
    assert held.weights is not None
    assert held.weights[1] == pytest.approx(1 / 1.02)
    assert held.small_share is not None
    assert held.small_share < 1e-11
    assert held.smallest_gap == pytest.approx(2**-54)
    assert held.proposed is not None
    assert 1e-10 < held.proposed < 1e-8
    assert "rounding explains" in held.reason
    assert math.isnan(held.spreads[4])
    plain = gp.amplification(rewards, "rloo")
    assert (plain.amplifies, plain.weights, plain.half_gap) == (False, None, None)


def test_tolerances_are_proposed_only_where_spreads_fall_apart() -> None:
    rng = np.random.default_rng(3)
    noise, real = np.sort(rng.uniform(1e-9, 5e-8, 40)), np.sort(rng.uniform(0.1, 1, 60))
    found, why = proposed_tolerance(np.concatenate([noise, real]), 1.0)
    assert found is not None
    assert 5e-8 < found < 0.1
    assert why.startswith("40 of 100 spreads")
    judged, why = proposed_tolerance(np.concatenate([1e5 * noise, 1e4 * real]), 1e4)
    assert judged is not None
    assert "look at the small ones first" in why or "rounding" in why
    assert proposed_tolerance(real, 1.0)[0] is None
    assert proposed_tolerance(noise, 1.0)[0] is None
    assert proposed_tolerance(np.array([]), 1.0) == (None, "No group has unequal rewards.")
    assert proposed_tolerance(np.array([0.5]), 1.0)[0] is None


def test_groups_of_real_and_of_rounded_spreads_are_told_apart_in_simulation() -> None:
    """400 groups, half with noise of single precision on equal rewards: the proposal splits them in every one of 50."""
    rng = np.random.default_rng(11)
    for _ in range(50):
        equal = np.full((200, 4), 0.7) + rng.integers(-2, 3, size=(200, 4)) * 2.0**-24
        graded = rng.integers(0, 5, size=(200, 4)) / 4
        found = gp.amplification(np.concatenate([equal, graded]), "grpo", eps=1e-4)
        assert found.proposed is not None
        assert 2.0**-21 < found.proposed < 0.25
        assert not found.small[200:].any()


# -- what a wrong formula would do ------------------------------------------------------------------------------------


def test_a_wrong_divisor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    true = arithmetic.row_std
    monkeypatch.setattr(arithmetic, "row_std", lambda x, ddof: true(x, 1 - ddof))
    assert values([[1, 0, 0, 0]])[0] != pytest.approx([3**0.5, *[-(3**-0.5)] * 3], rel=1e-3)


def test_a_wrong_choice_of_k_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    true = special._choices
    monkeypatch.setattr(special, "_choices", lambda size, k: true(size, k + 1))
    exact = [float(v) for v in symbolic.best_of_rewards((0.0, 0.25, 1.0, 0.5, 0.25), 2)]
    assert values([(0.0, 0.25, 1.0, 0.5, 0.25)], "passk:2")[0] != pytest.approx(exact, rel=1e-3)


# -- the command ------------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["grpo-plan", "advantages", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_the_page(capsys: Any, monkeypatch: Any) -> None:
    code, out, err = run(
        capsys, monkeypatch, "--rewards", "1,0,0,0", "--rewards", "0,0,0,0", "--rewards", "1,1,none,1",
        "--std", "sample", "--eps", "1e-4",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert out.startswith("Answer   4 of 12 rollouts (33%) have an advantage; the largest is 1.5\n")
    assert "Formula  grpo: reward minus group mean, over (sample std + 1e-4)\n" in out
    assert "Groups   3: 1 mixed, 1 all-pass, 1 all-fail" in out
    assert "1, 0 x 3  1.4997, -0.4999 x 3" in out  # equal decimals: the sum is seen to be 0
    assert "Dead     their advantage: all-pass: 0; all-fail: 0" in out
    assert "Failed   1 failed: left out of means and spreads, advantage 0" in out
    assert "a gap of 0.0002 between one rollout" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_comparison(capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = run(capsys, monkeypatch, "--rewards", "1,0,0,0", "--rewards", "0,0,0,0", "--compare")
    assert code == 0
    table = {
        line.split()[0]: line for line in out.split("Group 0: ")[1].split("Group 1: ")[0].splitlines() if line.strip()
    }
    for name in ESTIMATORS:
        assert name in table or f"{name}:3" in table
    assert table["grpo"].split(maxsplit=1)[1].startswith("1.7321, -0.5774 x 3")
    assert table["sign"].split()[-1] == "-2"
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = run(capsys, monkeypatch, "--rewards", "2,0,0,0", "--compare")
    assert code == 0
    assert "sign                          refused" in out
    assert "Refused\n" in out
    assert "sign: rewards must lie in [0, 1]; got 2 at group 0, rollout 0." in out


def test_the_document(capsys: Any, monkeypatch: Any) -> None:
    code, out, _ = run(
        capsys, monkeypatch, "--rewards", "1,none,0", "--rewards", "none,none,1", "--json", "--trainer", "verl"
    )
    body = json.loads(out)
    assert (code, body["schema"], body["command"]) == (0, 1, "advantages")
    assert body["trainer"].startswith("verl ")
    assert body["groups"][0] == {"kind": "mixed", "rewards": [1.0, None, 0.0], "advantages": [None, None, None]}
    assert body["counts"] == {"mixed": 1, "all_pass": 0, "all_fail": 0, "dead": 0, "unscored": 1}
    assert body["largest"] is None
    assert body["amplification"]["amplifies"] is True
    code, out, _ = run(capsys, monkeypatch, "--rewards", "1,0", "--compare", "--json")
    rows = json.loads(out)["compare"]
    assert next(row["estimator"] for row in rows if row["refused"] is None) == "grpo"
    assert len(rows) == len(ESTIMATORS)


def write_dump(path: Any, groups: list[list[float]]) -> None:
    """As verl's trainer writes it."""
    rows = [
        {"input": f"q{i}", "output": "", "gts": "", "score": float(x), "step": 1, "uid": f"q{i}_{j}_0"}
        for i, group in enumerate(groups)
        for j, x in enumerate(group)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_dump_of_a_trainer(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    path = tmp_path / "1.jsonl"
    groups: list[list[float]] = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0.5, 0.5, 0, 0]]
    write_dump(path, groups)
    code, out, _ = run(capsys, monkeypatch, str(path), "--json", "--estimator", "rloo")
    body = json.loads(out)
    assert code == 0
    assert [sorted(g["rewards"]) for g in body["groups"]] == [sorted(float(x) for x in g) for g in groups]
    assert body["groups"][0]["advantages"] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    write_dump(path, [[1, 0.25, 0, 0], [0, 0, 0, 0]])
    code, out, _ = run(capsys, monkeypatch, str(path), "--json")  # graded rewards; the dump is verl's
    body = json.loads(out)
    assert (code, body["trainer"].split()[0]) == (0, "verl")
    assert body["groups"][0]["rewards"] == [1, 0.25, 0, 0]
    assert body["groups"][0]["advantages"] == pytest.approx(values([[1, 0.25, 0, 0]], std="sample", eps=1e-6)[0])
    assert any(note.startswith("The file is a dump of verl") for note in body["notes"])
    _, out, _ = run(capsys, monkeypatch, str(path), "--estimator", "grpo", "--json")
    assert json.loads(out)["trainer"] is None
    code, out, _ = run(capsys, monkeypatch, str(path), "--pass-threshold", "0.25", "--estimator", "sign", "--json")
    assert [g["kind"] for g in json.loads(out)["groups"]] == ["mixed", "all_fail"]
    assert json.loads(out)["groups"][0]["advantages"] == [1, 1, -1, -1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "advantages needs rewards: --rewards 1,0,0,0 for each group"),
        (("--rewards", "1,x"), "--rewards must be numbers with commas between them"),
        (("--rewards", ""), "--rewards must be numbers"),
        (("--rewards", "1,inf"), "rewards must be finite; got inf at group 0, rollout 1"),
        (("--rewards", "1,0", "--setting", "a=b"), "--setting is of a trainer"),
        (("--rewards", "1,0", "--trainer", "trl", "--setting", "ab"), "--setting must be KEY=VALUE"),
        (("--rewards", "1,0", "--trainer", "trl", "--setting", "eps=1"), "--setting must be KEY=VALUE"),
        (("--rewards", "1,0", "--compare", "--eps", "1"), "--compare shows every estimator's formula"),
        (("--rewards", "1,0", "--lengths", "1"), "--lengths must be given once for each --rewards"),
        (("--rewards", "1,0", "--lengths", "1,x"), "--lengths must be numbers"),
        (("--rewards", "1,0", "--best-reward", "2"), "grpo has no setting 'best_reward'"),
        (("--rewards", "1,0", "--reward", "r"), "--reward names a reward function of a file"),
        (("--rewards", "1,0", "--estimator", "passk"), "k must be below the group size 2"),
    ],
)
def test_bad_commands_are_one_line(words: tuple[str, ...], said: str, capsys: Any, monkeypatch: Any) -> None:
    code, out, err = run(capsys, monkeypatch, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def own_dump(path: Any, own: list[list[float]], rewards: list[list[float]]) -> None:
    """As TRL writes it, two groups a step."""
    import polars as pl

    rows = [
        {"step": 1 + i // 2, "prompt": f"q{i}", "completion": f"c{j}", "score": float(r), "advantage": float(a)}
        for i, (group, given) in enumerate(zip(rewards, own, strict=True))
        for j, (r, a) in enumerate(zip(group, given, strict=True))
    ]
    pl.DataFrame(rows).write_parquet(path)


GRADED: list[list[float]] = [[1, 0.25, 0, 0], [0, 0, 0, 0], [0.5, 0.75, 1, 0], [1, 0, 0, 0.5]]


def test_a_dumps_own_advantages_are_compared(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    """The default setting, another one (batch by batch), and none."""
    path = tmp_path / "completions_00001.parquet"
    own_dump(path, gp.advantages(GRADED, trainer="trl").values.tolist(), GRADED)
    body = json.loads(run(capsys, monkeypatch, str(path), "--json")[1])
    assert body["own_advantages"]["agree"]
    assert body["own_advantages"]["setting"] is None
    batched = [x for i in (0, 2) for x in gp.advantages(GRADED[i : i + 2], trainer="trl", scale_rewards="batch").values]
    own_dump(path, [x.tolist() for x in batched], GRADED)
    code, out, _ = run(capsys, monkeypatch, str(path))
    said = " ".join(out.split())
    assert code == 0
    assert "the dump's own advantages are these under" in said
    assert "scale_rewards=batch" in said
    own_dump(path, (3.0 * gp.advantages(GRADED, trainer="trl").values).tolist(), GRADED)
    said = " ".join(run(capsys, monkeypatch, str(path))[1].split())
    assert "the dump's own advantages are others: 12 of 16 differ, by up to" in said
    body = json.loads(run(capsys, monkeypatch, str(path), "--estimator", "dr_grpo", "--json")[1])
    assert not body["own_advantages"]["agree"]


def test_a_plain_table_of_rollouts(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    path = tmp_path / "pilot.jsonl"
    rows = [("a", 0.7), ("b", 1), ("a", -2.5), ("b", None), ("b", 0)]
    path.write_text("".join(json.dumps({"prompt_id": p, "reward": r}) + "\n" for p, r in rows))
    code, out, _ = run(capsys, monkeypatch, str(path), "--estimator", "dr_grpo", "--json")
    body = json.loads(out)
    assert code == 0
    assert [g["rewards"] for g in body["groups"]] == [[0.7, -2.5], [1, None, 0]]
    assert body["groups"][0]["advantages"] == pytest.approx([1.6, -1.6])
    assert any("the rollouts of a prompt are taken as one group" in note for note in body["notes"])
    assert not any("pass_threshold" in note for note in body["notes"])


def test_a_small_gap_is_said_first_and_what_to_do(capsys: Any, monkeypatch: Any) -> None:
    _, out, _ = run(capsys, monkeypatch, "--rewards", "1,0,0,0", "--rewards", ".51,.5,.5,.5", "--trainer", "trl")
    said = " ".join(out.split())
    assert "Gap group 1 gets 0.98 of the push of 1, 0 x 3 for a gap of 0.01 What to do: no division" in said
    assert "Tolerance for equal rewards: none suggests itself" in said
    _, out, _ = run(capsys, monkeypatch, "--rewards", ".51,.5,.5,.5")
    assert "Gap      group 0 gets 1.00 of the push" in out
    assert "none suggests itself" not in out
    for words in (("--rewards", "1,0"), ("--rewards", ".51,.5", "--estimator", "rloo")):
        assert "\nGap " not in run(capsys, monkeypatch, *words)[1]


@pytest.mark.parametrize("name", ["sign", "nsr", "w_reinforce"])
def test_a_threshold_is_not_called_a_small_gap(name: str, capsys: Any, monkeypatch: Any) -> None:
    words = ("--rewards", ".8,.51,.49,.2", "--pass-threshold", ".5", "--estimator", name)
    said = " ".join(run(capsys, monkeypatch, *words)[1].split())
    assert "has a small advantage" not in said
    assert "The threshold decides" in said
    assert "the smallest gap across it here is 0.02" in said
    plain = ("--rewards", ".8,.51,.49,.2", "--pass-threshold", ".5", "--estimator", "reinforce")
    assert "makes a small difference" in " ".join(run(capsys, monkeypatch, *plain)[1].split())  # the reward itself


def test_lengths_best_reward_and_a_trainer_beside_the_others(capsys: Any, monkeypatch: Any) -> None:
    words = ("--rewards", "2,0,0,0", "--best-reward", "2", "--lengths", "10,1,1,1", "--compare", "--trainer", "trl")
    code, out, _ = run(capsys, monkeypatch, *words, "--json")
    rows = json.loads(out)["compare"]
    assert code == 0
    assert rows[0]["estimator"].startswith("trl 1.")
    found = {row["estimator"]: row for row in rows}
    assert found["opo"]["groups"][0]["advantages"][0] == pytest.approx(2 - 20 / 13)
    assert not any("not given" in note for note in found["opo"]["notes"])
    scaled = values([[1, 0, 0, 0]], "ngrpo")[0]
    assert found["ngrpo"]["groups"][0]["advantages"] == pytest.approx(scaled)
    said = run(capsys, monkeypatch, "--rewards", "1,0", "--lengths", "1,2")[1]
    assert "--lengths do not count in grpo" in said


def test_a_version_newer_than_what_was_read_is_said(capsys: Any, monkeypatch: Any) -> None:
    said = " ".join(
        run(capsys, monkeypatch, "--rewards", "1,0", "--trainer", "trl", "--trainer-version", "9")[1].split()
    )
    assert "trl 9 (newer than what was read: 1.16.0)" in said
    assert (
        "newer" not in run(capsys, monkeypatch, "--rewards", "1,0", "--trainer", "trl", "--trainer-version", "1.16")[1]
    )


def test_missing_advantages_are_named(capsys: Any, monkeypatch: Any) -> None:
    out = run(capsys, monkeypatch, "--rewards", "1,none,0", "--trainer", "verl")[1]
    assert "Answer   1, none, 0 (mixed) gets NaN x 3" in out


def test_every_group_of_three_levels_against_loops() -> None:
    """All 81 groups of 4 rollouts with rewards 0, 1/2, 1, in one call, against the textbook formula in plain loops."""
    groups = list(product((0.0, 0.5, 1.0), repeat=4))
    found = values(groups)
    for group, got in zip(groups, found, strict=True):
        mean = sum(group) / 4
        std = (sum((r - mean) ** 2 for r in group) / 4) ** 0.5
        assert got == pytest.approx([(r - mean) / std if std else 0.0 for r in group], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    "how", [{"estimator": "gdpo"}, {"trainer": "trl", "multi_objective_aggregation": "normalize_then_sum"}]
)
def test_functions_that_cancel_leave_a_dead_group(how: dict[str, Any]) -> None:
    """Two functions that contradict each other add up to no advantage (theory.md, eq. 109); with weights 2 and 1 not."""
    rewards = [[[1, 0], [0, 1]], [[1, 1], [0, 0]]]
    found = gp.advantages(rewards, **how)
    assert found.kinds.tolist() == ["dead", "mixed"]
    assert np.all(found.values[0] == 0.0)
    assert gp.advantages(rewards, weights=[2.0, 1.0], **how).kinds.tolist() == ["mixed", "mixed"]
