"""Told from the groups alone: were dead ones dropped before they were saved?"""

from __future__ import annotations

from math import comb, prod

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_plan.readers.counting import Tally
from grpo_plan.readers.group_table import GroupTable
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.survivors import RARE, chance_of_no_dead_group, dead_groups, judge
from tests.helpers import assert_rate


def table(totals: list[int], sizes: list[int], low: float = 0.0, high: float = 1.0) -> pl.DataFrame:
    """Groups of two-level rewards, by their passes."""
    k, n = np.array(totals), np.array(sizes)
    return pl.DataFrame(
        {
            "scored": n,
            "low": np.where(k < n, low, high),
            "high": np.where(k > 0, high, low),
            "total": low * (n - k) + high * k,
        }
    )


def test_the_limit_is_the_product_over_groups_at_the_mean_pass_rate() -> None:
    groups = table([2] * 40 + [4] * 20, [4] * 40 + [8] * 20)  # every group at 1/2, so no error is allowed for
    by_hand = prod(1 - 2 * 0.5**n for n in [4] * 40 + [8] * 20)
    assert chance_of_no_dead_group(groups) == pytest.approx(by_hand, rel=1e-12)


@given(
    rates=st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.9, 1.0]), min_size=1, max_size=4),
    size=st.integers(2, 9),
)
def test_any_spread_of_pass_rates_gives_no_dead_group_less_often_than_the_limit(rates: list[float], size: int) -> None:
    """Enumeration: the true chance for a spread of pass rates against that of one pass rate, their mean."""
    mixed = [sum(comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(1, size)) for p in rates]
    mean = sum(rates) / len(rates)
    assert float(np.mean(mixed)) <= 1 - mean**size - (1 - mean) ** size + 1e-12


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 10.0), (0.0, 1.0)])
def test_levels_do_not_matter(low: float, high: float) -> None:
    totals, sizes = [1] * 50 + [2] * 10, [4] * 60
    assert chance_of_no_dead_group(table(totals, sizes, low, high)) == pytest.approx(
        chance_of_no_dead_group(table(totals, sizes)), rel=1e-12
    )


def test_the_mean_is_taken_four_standard_errors_nearer_to_one_half() -> None:
    totals = [1] * 50 + [2] * 10
    mean, error = 7 / 24, (np.std(np.array(totals) / 4)) / 60**0.5
    nearest = mean + 4 * error
    assert nearest < 0.5
    expected = (1 - nearest**4 - (1 - nearest) ** 4) ** 60
    assert chance_of_no_dead_group(table(totals, [4] * 60)) == pytest.approx(float(expected), rel=1e-12)


def test_graded_rewards_cannot_tell() -> None:
    groups = pl.DataFrame({"scored": [4, 4], "low": [0.0, 0.25], "high": [1.0, 1.0], "total": [2.0, 2.5]})
    assert chance_of_no_dead_group(groups) is None


def test_false_alarms_are_as_rare_as_stated() -> None:
    """The worst case, all prompts at 1/2: 25 groups of 3 hold no dead one with a chance of .75**25 = 7.5e-4."""
    rng = np.random.default_rng(5)
    size, number, trials = 3, 25, 200_000
    k = rng.binomial(size, 0.5, (trials, number))
    none = np.flatnonzero(~((k == 0) | (k == size)).any(axis=1))
    alarms = sum((chance_of_no_dead_group(table(k[i].tolist(), [size] * number)) or 0) < RARE for i in none)
    assert alarms == none.size  # every mean is within four standard errors of 1/2
    assert_rate(alarms, trials, 0.75**number, catches=0.0005)
    assert 0.75**number < RARE


def filled(totals: list[int], size: int) -> RolloutSink:
    sink = RolloutSink(tally=Tally(), request=ReadRequest(), format="test", groups_apart=True)
    sink.groups = GroupTable()
    for i, k in enumerate(totals):
        rewards = [1.0] * k + [0.0] * (size - k)
        sink.groups.add({"prompt": ["p"] * size, "group": [i] * size, "reward": rewards}, str, "reward")
    return sink


def test_a_source_with_a_dead_group_holds_all_groups() -> None:
    sink = filled([0, *[2] * 99], 4)
    judge(sink, "the filter")
    assert sink.filtered is None
    assert not sink.tally.notes
    assert sink.groups is not None
    assert dead_groups(sink.groups.frame()) == 1


def test_many_groups_and_none_dead_were_filtered() -> None:
    sink = filled([2] * 60, 4)
    judge(sink, "the filter")
    assert sink.filtered == (
        "none of the 60 groups is dead; had all been saved, the chance of that is at most 0.0004, so the filter dropped "
        "them"
    )


def test_the_limit_is_one_in_a_thousand() -> None:
    below, above = filled([2] * 51, 4), filled([2] * 52, 4)  # .875**51 = .0011, .875**52 = .00096
    for sink in (below, above):
        judge(sink, "the filter")
    assert below.filtered is None
    assert above.filtered is not None


def test_few_groups_and_none_dead_leave_it_open() -> None:
    sink = filled([2] * 10, 4)
    judge(sink, "the filter")
    assert sink.filtered is None
    assert (
        "cannot be told from the rows: even if it was off, one would see none with a chance of up to 26%"
        in sink.tally.notes[0]
    )


def test_a_filter_that_is_on_by_default_needs_no_chance() -> None:
    sink = filled([2] * 3, 4)
    judge(sink, "the filter", by_default=True)
    assert sink.filtered is not None
