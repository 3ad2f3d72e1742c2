"""What `gp.advantages` and the settings of estimators take and refuse, and that extremes stay finite."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan._binomial import choose_ratio
from grpo_plan._validate import as_float_array, as_group_size, plain_number
from grpo_plan.cli.advantages_input import typed_groups
from grpo_plan.errors import DomainError
from grpo_plan.estimators import ESTIMATORS, get_estimator, parse_estimator
from grpo_plan.planning.signal import as_kappa_range

NAN = math.nan


def refusal(call: Any) -> str:
    with pytest.raises(gp.DomainError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def masked(values: Any, hidden: Any) -> Any:
    return np.ma.array(values, mask=np.array(hidden, dtype=bool))


# -- what arrays hold -------------------------------------------------------------------------------------------------


def test_a_masked_reward_is_failed_scoring() -> None:
    hidden = masked([[1.0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 0]])
    as_list: Any = [masked([1, 0, 1], [0, 1, 0]), np.ma.array([1, 0, 0])]
    for rewards in (hidden, as_list, [[1, np.ma.masked, 1], [1, 0, 0]]):
        found = gp.advantages(rewards)
        assert found.kinds.tolist() == ["all_pass", "mixed"]
        assert found.failed.tolist() == [1, 0]
    assert gp.advantages(np.ma.array([[1, 0]])).kinds.tolist() == ["mixed"]


def test_a_masked_number_elsewhere_is_refused() -> None:
    assert "got nan at index 1" in refusal(lambda: gp.token_weights(masked([1, 5], [0, 1])))
    assert "got nan" in refusal(lambda: gp.dead_probability(masked([0.5, 0.2], [0, 1]), 4))


def test_tensors_are_read() -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    want = gp.advantages([[1, 0, 0, 0]]).values
    for tensor in (
        torch.tensor([[1.0, 0, 0, 0]], requires_grad=True),
        torch.tensor([[1.0, 0, 0, 0]], dtype=torch.bfloat16),
        torch.tensor([[1, 0, 0, 0]]),
        [torch.tensor([1.0, 0, 0, 0], dtype=torch.bfloat16)],
    ):
        assert np.array_equal(gp.advantages(tensor).values, want)
    ragged = gp.advantages([torch.tensor([1.0, 0], requires_grad=True), torch.tensor([1.0, 0, 0])])
    assert ragged.present.sum(axis=1).tolist() == [2, 3]
    assert gp.token_weights(torch.tensor([2, 8]), aggregation="grpo").values.tolist() == [0.25, 0.0625]


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        (np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "got dates"),
        (np.array([[1, 2]], dtype="timedelta64[s]"), "got time spans"),
        ([["1", "0"]], "got text"),
        ([["1", 0]], "got text"),
        ([[b"1", b"0"]], "got bytes"),
        (np.array([["1", 0]], dtype=object), "got text among them"),
        (np.array([[1j, 0]]), "complex"),
        ([[{}, 1]], "rewards must be numbers"),
    ],
)
def test_what_is_no_number_is_refused(rewards: Any, said: str) -> None:
    assert said in refusal(lambda: gp.advantages(rewards))


def test_truth_values_are_no_counts_and_no_kappa() -> None:
    assert gp.advantages([[True, False]]).kinds.tolist() == ["mixed"]
    assert "got True" in refusal(lambda: as_group_size(True))
    assert "got True" in refusal(lambda: as_kappa_range(True))
    assert "got True" in refusal(lambda: gp.advantages([[1, 0, 0]], "passk", k=True))
    assert "got True" in refusal(lambda: gp.advantages([[1, 0, 0]], "ngrpo", best_reward=True))


def test_numbers_stay_numbers() -> None:
    assert as_float_array(np.array([1, None, 2.5], dtype=object), "x").tolist()[::2] == [1.0, 2.5]
    assert as_float_array(Fraction(1, 2), "x") == 0.5  # type: ignore[arg-type]
    assert [plain_number(x) for x in (" 2", "1e-4", ".5", "+3.", "-inf")] == [2, 1e-4, 0.5, 3, -math.inf]
    for text in ("1_0", "٢", "", "0x1", "1e", ".", "1 2"):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            plain_number(text)


# -- tolerance --------------------------------------------------------------------------------------------------------


def test_no_tolerance_makes_passes_and_fails_equal() -> None:
    for choices in ({}, {"trainer": "trl"}, {"estimator": "sign"}):
        said = refusal(lambda c=choices: gp.advantages([[1, 1, 1, 1], [1, 0, 0, 0]], tolerance=5, **c))
        assert "tolerance must not make passes and fails equal; got 5, and rewards 0 and 1 in group 1" in said


def test_rewards_are_kept_as_given() -> None:
    found = gp.advantages([3, 0.5, 0.5, 0.5], tolerance=5)
    assert found.rewards.tolist() == [[3, 0.5, 0.5, 0.5]]
    assert (found.kinds.tolist(), found.values.tolist()) == (["dead"], [[0, 0, 0, 0]])
    both_sides = gp.advantages([[0.6, 0.4], [1, 0]], tolerance=0.3, pass_threshold=0.5)
    assert both_sides.rewards.tolist() == [[0.6, 0.4], [1, 0]]
    assert both_sides.notes[0].startswith("1 group has rewards on both sides of the pass threshold")


def test_a_trainer_that_tells_equal_rewards_apart_is_named() -> None:
    found = gp.advantages([[3, 0.5, 0.5, 0.5], [9, 0, 0, 0]], trainer="trl", tolerance=5)
    assert found.kinds.tolist() == ["dead", "mixed"]
    assert found.notes[-1] == (
        f"1 group is dead within the tolerance, yet {found.trainer} knows no tolerance and gives unequal advantages "
        "there."
    )
    assert not any("tolerance" in note for note in gp.advantages([[1, 1], [1, 0]], trainer="trl").notes)


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([[1, NAN, 1, 1]], "got nan at group 0, rollout 1"),
        ([[1, -1, 1, 1]], "got -1 at group 0, rollout 1"),
        ([[1, 1, 1, math.inf]], "got inf at group 0, rollout 3"),
        ("x", "lengths must be numbers"),
        ([[0, 0, 0, 0]], "got 0 for all of group 0"),
        ([[1, 2]], "shape (1, 4); got shape (1, 2)"),
    ],
)
def test_lengths_are_refused_by_name_value_and_place(lengths: Any, said: str) -> None:
    assert said in refusal(lambda: gp.advantages([[1, 0, 0, 0]], "opo", lengths=lengths))


def test_what_has_no_use_is_said() -> None:
    assert gp.advantages([[1, 0]], lengths=[[1, 2]]).notes == ("Lengths of responses do not count in grpo.",)
    found = gp.token_weights([3, 4], prompts=["a", "b"])
    assert found.note == "Prompts do not count in trl:dapo."
    assert "prompts do not count" in repr(found)
    assert gp.token_weights([3, 4]).note == ""
    assert "2 in all; got 1" in refusal(lambda: gp.token_weights([3, 4], prompts=["a"]))


def test_weights_are_bounded_and_say_so() -> None:
    two: list[list[list[float]]] = [[[1, 0], [0, 1]]]
    assert "at most 1e+100 in size; got 1e+308 at reward function 0" in refusal(
        lambda: gp.advantages(two, weights=[1e308, 1e308])
    )
    assert "got inf at reward function 1" in refusal(lambda: gp.advantages(two, weights=[1, math.inf]))
    assert "weighted rewards must be at most 1e+100" in refusal(lambda: gp.advantages([[1e100, 0]], weights=[1e100]))


def test_a_group_without_a_score_is_not_said_to_have_one() -> None:
    said = refusal(lambda: gp.advantages([[None]], trainer="openrlhf"))
    assert "got one rollout, and that without a score, in group 0. Leave that group out" in said
    assert "got one scored rollout in group 0" in refusal(lambda: gp.advantages([[1]], trainer="openrlhf"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ngrpo:2", "ngrpo has no settings behind a colon; got '2'. Write it as ngrpo. Its best_reward"),
        ("passk:2,3", "'k' is given twice; got 2 and 3. Give it once, as passk:k=4."),
        ("passk:x=1", "'x' is none of its settings (k). Write it as passk:k=4."),
        ("passk:0", "k must be at least 1; got 0. Write it as passk:k=4"),
        ("passk:1_0", "setting=number"),
        ("passk:٢", "setting=number"),
        ("w_reinforce:1e308", "positive_weight must be at most 1e+06; got 1e+308"),
        ("f_grpo:-1", "gamma must be finite and at least 0; got -1. Write it as f_grpo:gamma=0.5"),
    ],
)
def test_settings_are_refused_with_a_next_step(text: str, said: str) -> None:
    assert said in refusal(lambda: parse_estimator(text))


def test_other_refusals_name_a_next_step() -> None:
    assert "Leave one out" in refusal(lambda: gp.advantages([[1, 0, 0, 0]], "passk:2", k=3))
    assert "eps=1e-4" in refusal(lambda: gp.advantages([1, 0], eps=-1))
    assert "got 'x'. Leave it out" in refusal(lambda: gp.advantages([1, 0], std="x"))
    said = refusal(lambda: gp.BatchSplit(rank=[-1, 0], micro=[0, 0]))  # type: ignore[arg-type]
    assert "got -1 at index 0. Or build one with BatchSplit.even" in said


SETTINGS = [(name, key) for name, one in ESTIMATORS.items() for key in (*one.parameters, *one.computed.extras)]


@pytest.mark.parametrize(("name", "key"), SETTINGS)
@pytest.mark.parametrize("value", [0, -1, NAN, math.inf, 1e308, -1e308, 1e6, 1e100, True, "1", None, [1]])
def test_every_setting_is_finite_or_refused(name: str, key: str, value: Any) -> None:
    """Warnings are errors here, so nothing overflows in silence either."""
    try:
        found = gp.advantages([[1, 0, 0, 0], [0, 0, 0, 0]], name, **{key: value})
    except gp.DomainError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert key in said
        return
    assert np.isfinite(found.values).all()
    if key in ESTIMATORS[name].parameters:
        signal, square, noise = get_estimator(name, **{key: value}).given(np.array([0.0, 0.3, 1.0]), 8)
        assert np.isfinite([signal, square, noise]).all()


# -- large groups -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of", "size"), [(4, 2), (30, 7), (64, 1), (64, 64), (5, 0), (200, 90)])
def test_ratios_of_choices_are_exact(of: int, size: int) -> None:
    found = choose_ratio(np.arange(of + 1.0), of, size)
    wanted = [float(Fraction(math.comb(n, size), math.comb(of, size))) for n in range(of + 1)]
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("kept", [1, 2, 512, 500_000, 999_999])
def test_best_of_k_of_a_million_rollouts(kept: int) -> None:
    size, passes = 10**6, 300
    rewards = (np.arange(size) < passes).astype(float)
    found = gp.advantages(rewards, f"passk:{kept}").values[0]
    passed, failed = get_estimator("passk", k=kept).pair(size)
    assert found[0] == pytest.approx(passed[passes], rel=1e-7, abs=1e-12)
    assert found[-1] == pytest.approx(failed[passes], rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("passes", [20, 33, 34, 35, 50])
def test_a_tiny_chance_to_miss_the_best_is_not_lost(passes: int) -> None:
    """64 rollouts, best of 30: the chance that all 30 fail is as small as 1e-18."""
    size, kept = 64, 30
    miss = Fraction(math.comb(size - passes, kept), math.comb(size, kept))
    beside = Fraction(math.comb(size - passes - 1, kept - 1), math.comb(size - 1, kept - 1))
    std = math.sqrt(miss * (1 - miss))
    found = gp.advantages((np.arange(size) < passes).astype(float), f"passk:{kept}").values[0]
    assert found[0] == pytest.approx(float(miss) / std if std else 0.0, rel=1e-9)
    assert found[-1] == pytest.approx(float(miss - beside) / std if std else 0.0, rel=1e-9)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rewards = np.where(rng.random((40, 7)) < 0.2, NAN, rng.integers(0, 3, size=(40, 7)) / 2)
    whole = gp.advantages(rewards, "passk:3").values
    monkeypatch.setattr("grpo_plan.estimators.special.BLOCK", 10)
    assert np.array_equal(gp.advantages(rewards, "passk:3").values, whole)
    alone = np.concatenate([gp.advantages(row[None], "passk:3").values for row in rewards])
    assert np.allclose(whole, alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("typed", ["1_0,1", "٢,1", "0x1,0", "1;0"])
def test_typed_rewards_are_plain_numbers(typed: str) -> None:
    with pytest.raises(DomainError, match="must be numbers with commas"):
        typed_groups([typed])
