"""Shares over windows and the groups behind them (theory.md, eq. 84 and 85)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import symbolic
from grpo_plan.errors import DomainError
from grpo_plan.runs.series import groups_at_least, late_window, share_over


@pytest.mark.parametrize(("count", "total"), [(0, 5), (1, 5), (3, 8), (8, 8), (7, 16)])
def test_limits_solve_the_binomial_tails(count: int, total: int) -> None:
    share = share_over([count / total], total, level=0.9)
    if count:
        assert float(symbolic.at_least(total, count, share.low)) == pytest.approx(0.05, abs=1e-12)
    else:
        assert share.low == 0.0
    if count < total:
        assert 1.0 - float(symbolic.at_least(total, count + 1, share.high)) == pytest.approx(0.05, abs=1e-12)
    else:
        assert share.high == 1.0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.data())
def test_unequal_chances_spread_less_than_equal_ones(numerators: list[int], data: st.DataObject) -> None:
    """Hoeffding's order of tails, by exact enumeration, beyond the mean by one."""
    chances = [Fraction(k, 10) for k in numerators]
    law = [Fraction(1)]
    for p in chances:
        law = [a * (1 - p) + b * p for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    mean = sum(chances, Fraction(0)) / len(chances)
    for c in range(len(law)):
        if c >= len(chances) * mean + 1:
            assert sum(law[c:]) <= Fraction(
                str(symbolic.at_least(len(chances), c, sp.Rational(mean.numerator, mean.denominator)))
            )


def test_limits_hold_while_the_share_drifts() -> None:
    """2,000 windows of 10 rows of 16 groups, chance from .1 to .7: at most 5 % misses, and 3 standard errors."""
    rng = np.random.default_rng(84)
    chance = np.linspace(0.1, 0.7, 10)
    found = [share_over(rng.binomial(16, chance) / 16, 16) for _ in range(2000)]
    missed = np.mean([not share.low <= chance.mean() <= share.high for share in found])
    assert missed <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_share_lies_within_its_limits(values: list[float], groups: int, level: float) -> None:
    share = share_over(values, groups, level=level)
    assert share.value is not None
    assert 0.0 <= share.low <= share.value + 1e-9
    assert share.value - 1e-9 <= share.high <= 1.0
    turned = share_over([1.0 - v for v in values], groups, level=level)
    assert turned.low == pytest.approx(1.0 - share.high, abs=1e-6)
    wider = share_over(values, 1, level=level)
    assert wider.high - wider.low >= share.high - share.low - 1e-9
    assert share_over([*values, float("nan")], groups, level=level) == share


def test_rows_weigh_by_their_groups() -> None:
    share = share_over([0.0, 1.0, np.nan], [10, 30, 5])
    assert (share.value, share.groups, share.rows) == (0.75, 40.0, 2)
    assert share_over([0.0, 1.0], [np.nan, 3]).groups == 4.0


def test_no_rows_say_nothing() -> None:
    for values in ([], [np.nan, np.nan]):
        share = share_over(values, 8)
        assert (share.value, share.low, share.high, share.rows) == (None, 0.0, 1.0, 0)


def test_late_window_is_a_fifth_or_ten_rows() -> None:
    for rows in (0, 1, 9, 10, 11, 49, 50, 51, 1000):
        window = late_window(rows)
        assert len(range(rows)[window]) == min(rows, max(10, rows // 5))
        assert window.stop == rows


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 400), st.integers(0, 2**32 - 1), st.sampled_from(["float64", "float32", "mean", "rounded", "cut"])
)
def test_never_more_groups_than_there_are(groups: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.binomial(groups, rng.uniform(0.2, 0.8), 60)
    values: np.ndarray = counts / groups
    if kind == "float32":
        values = values.astype(np.float32).astype(np.float64)
    elif kind == "mean":
        values = np.array(
            [np.mean(np.repeat([1.0, 0.0], [k, groups - k]).astype(np.float32)) for k in counts], dtype=float
        )
    elif kind == "rounded":
        values = np.round(values, 4)
    elif kind == "cut":
        values = np.floor(values * 1000) / 1000
    assert 1 <= groups_at_least(values) <= groups


@pytest.mark.parametrize("groups", [2, 8, 12, 64, 128, 384, 1280])
def test_groups_are_found(groups: int) -> None:
    counts = np.random.default_rng(groups).binomial(groups, 0.4, 80)
    assert groups_at_least(counts / groups) == groups
    assert groups_at_least((counts / groups).astype(np.float32)) == groups
    if groups <= 64:
        assert groups_at_least(np.round(counts / groups, 4)) == groups


def test_doubt_is_one() -> None:
    rng = np.random.default_rng(1)
    assert groups_at_least([]) == 1
    assert groups_at_least([0.0, 1.0, np.nan]) == 1
    assert groups_at_least([0.125, 0.375]) == 1  # too few
    assert groups_at_least(rng.uniform(size=50)) == 1  # no share of groups
    rows = np.concatenate([rng.binomial(7, 0.5, 40) / 7, rng.binomial(8, 0.5, 40) / 8])
    assert groups_at_least(rows) == 1  # 56 is no row's


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 99), min_size=3, max_size=5))
def test_smallest_number_is_that_of_the_equation(hundredths: list[int]) -> None:
    shares = [sp.Rational(k, 100) for k in hundredths]
    decimals = max(len(str(k / 100).split(".")[1]) for k in hundredths)
    wanted = symbolic.fewest_groups(shares, sp.Rational(1, 10**decimals))
    assert groups_at_least([k / 100 for k in hundredths]) in (1, wanted)


def test_a_mean_of_more_groups_is_smaller_in_convex_order() -> None:
    """Eq. 85's lemma for the evidence of eq. 86, by enumeration: fewer groups assumed, smaller mean."""
    p, m, d = sp.Rational(3, 4), sp.Rational(1, 2), sp.Rational(1, 2)
    for true in (2, 3, 5):
        for assumed in range(1, true + 1):
            mean = sum(
                sp.binomial(true, k)
                * d**k
                * (1 - d) ** (true - k)
                * symbolic.row_evidence(sp.Rational(k, true), assumed, p, m)
                for k in range(true + 1)
            )
            assert float(mean) <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("values", "groups", "words"),
    [
        ([40.0], None, "values must be shares in \\[0, 1\\]; got 40 at index 0. Percentages"),
        ([0.2, np.inf], None, "must be finite"),
        ([[0.2]], None, "one row of numbers"),
        (["x"], None, "must be numbers"),
        ([0.2, 0.3], [1, 2, 3], "one number or one per row"),
        ([0.2], -1, "at least 1"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(values: object, groups: object, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        share_over(values, groups)  # type: ignore[arg-type]


def test_rounding_beyond_the_ends_is_put_back() -> None:
    assert share_over([1.0000001, 1.0], 8).value == 1.0


def test_few_decimals_are_taken_as_rounded() -> None:
    """k/500 has three decimals like a rounded number: no claim is made of it."""
    assert groups_at_least(np.random.default_rng(5).binomial(500, 0.4, 80) / 500) == 1
