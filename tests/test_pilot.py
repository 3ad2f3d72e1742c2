"""Pilot: counts in, histogram out; everything wrong is refused with the value and the place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_plan.errors import PilotError
from grpo_plan.pilot import Pilot
from tests.conftest import pilot_of

COUNTS = st.lists(
    st.integers(0, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=60
).filter(lambda rows: any(n for _, n in rows))


@given(rows=COUNTS)
def test_the_histogram_holds_every_prompt_once(rows: list[tuple[int, int]]) -> None:
    pilot = Pilot.from_counts([k for k, _ in rows], [n for _, n in rows])
    h = pilot.histogram()
    back = sorted(
        pair for n, k, m in zip(h.rollouts, h.successes, h.prompts, strict=True) for pair in [(int(k), int(n))] * int(m)
    )
    assert back == sorted((k, n) for k, n in rows if n > 0)
    assert h.total_prompts == pilot.prompts


@given(rows=COUNTS, seed=st.integers(0, 1000))
def test_the_order_of_prompts_changes_nothing(rows: list[tuple[int, int]], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(rows))
    k, n = np.array(rows).T
    a, b = Pilot.from_counts(k, n).histogram(), Pilot.from_counts(k[order], n[order]).histogram()
    assert np.array_equal(a.prompts, b.prompts)
    assert np.array_equal(a.successes, b.successes)


def test_sparse_histograms_agree_with_dense_ones() -> None:
    small = Pilot.from_counts([0, 3, 3, 5], [5, 5, 5, 9]).histogram()
    large = Pilot.from_counts([0, 3, 3, 5, 0], [5, 5, 5, 9, 10**6]).histogram()  # too wide for a dense table
    assert large.prompts[:-1].tolist() == small.prompts.tolist()
    assert large.successes[:-1].tolist() == small.successes.tolist()


def test_prompts_without_rollouts_are_left_out_and_counted() -> None:
    pilot = Pilot.from_counts([0, 0, 2], [0, 4, 4], prompt_id=["a", "b", "c"], dropped={"missing_reward": 4})
    assert pilot.prompts == 2
    assert pilot.prompt_id is not None
    assert list(pilot.prompt_id) == ["b", "c"]
    assert dict(pilot.dropped) == {"missing_reward": 4, "prompts_without_scored_rollouts": 1}


def test_arrays_are_locked_copies_and_survive_pickling() -> None:
    k = np.array([1, 2])
    pilot = Pilot.from_counts(k, 4)
    k[0] = 4
    assert pilot.successes.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        pilot.successes[0] = 3
    assert pickle.loads(pickle.dumps(pilot)).successes.tolist() == [1, 2]


def test_select_keeps_one_stratum_and_one_temperature() -> None:
    pilot = Pilot.from_counts(
        [1, 2, 3, 4], 4, stratum=["easy", "hard", "easy", "hard"], temperature=[0.6, 0.6, 1.0, 1.0]
    )
    assert pilot.strata == ("easy", "hard")
    assert pilot.temperatures == (0.6, 1.0)
    assert pilot.select(stratum="hard").successes.tolist() == [2, 4]
    assert pilot.select(stratum="hard", temperature=1.0).successes.tolist() == [4]
    with pytest.raises(PilotError, match=r"stratum must be one of the pilot's easy, hard; got 'medium'"):
        pilot.select(stratum="medium")
    with pytest.raises(PilotError, match=r"temperature must be one of the pilot's 0.6, 1.0; got 0.8"):
        pilot.select(temperature=0.8)


@pytest.mark.parametrize(
    ("successes", "rollouts", "message"),
    [
        ([9], [8], "successes must not exceed rollouts; got k = 9 of n = 8 at index 0"),
        ([1, -1], 8, "successes must be whole numbers of at least 0; got -1 at index 1"),
        ([0.5], 8, "successes must be whole numbers of at least 0; got 0.5 at index 0"),
        ([float("nan")], 8, "successes must be whole numbers of at least 0; got nan"),
        ([1, 2], [8], "successes and rollouts must have one length; got 2 and 1"),
        ([[1, 2]], [8], "successes must be one-dimensional"),
        ([0], [0], "at least one prompt with a scored rollout; got none"),
        ([], [], "at least one prompt with a scored rollout; got none"),
        (["x"], [8], "successes must be numbers"),
    ],
)
def test_impossible_counts_are_refused(successes: list[float], rollouts: list[int], message: str) -> None:
    with pytest.raises(PilotError) as caught:
        Pilot.from_counts(successes, rollouts)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(PilotError, match=r"stratum must have one value a prompt \(2\); got 1"):
        Pilot.from_counts([1, 2], 4, stratum=["a"])
    with pytest.raises(PilotError, match="temperature must have one value a prompt"):
        Pilot.from_counts([1, 2], 4, temperature=[0.1, 0.2, 0.3])


def test_mean_pass_rate_is_over_prompts_not_rollouts() -> None:
    assert Pilot.from_counts([1, 0], [1, 99]).mean_pass_rate == 0.5
    assert pilot_of([0, 0, 1]).mean_pass_rate == 1.0
