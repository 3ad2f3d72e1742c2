"""Unbiased subgroup counts: against enumeration of subsets, exact expectations, and identities."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_plan.errors import DomainError
from grpo_plan.fitting.ustatistics import pass_at_k, subgroup_all_fail, subgroup_all_pass, subgroup_pmf

CELLS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(1, n)))


def enumerated_share(k: int, n: int, g: int, passes: int) -> Fraction:
    rewards = [1] * k + [0] * (n - k)
    groups = list(combinations(rewards, g))
    return Fraction(sum(sum(group) == passes for group in groups), len(groups))


@pytest.mark.parametrize("n", range(1, 8))
def test_matches_every_subset(n: int) -> None:
    for k in range(n + 1):
        for g in range(1, n + 1):
            law = subgroup_pmf(np.array([k]), np.array([n]), g)[0]
            assert law == pytest.approx([float(enumerated_share(k, n, g, j)) for j in range(g + 1)], rel=1e-12)
            assert subgroup_all_pass(k, n, g).item() == pytest.approx(float(enumerated_share(k, n, g, g)), rel=1e-12)
            assert subgroup_all_fail(k, n, g).item() == pytest.approx(float(enumerated_share(k, n, g, 0)), rel=1e-12)


@given(cell=CELLS)
def test_matches_exact_binomial_coefficients(cell: tuple[int, int, int]) -> None:
    k, n, g = cell
    assert subgroup_all_pass(k, n, g).item() == pytest.approx(float(Fraction(comb(k, g), comb(n, g))), rel=1e-12)
    assert subgroup_all_fail(k, n, g).item() == pytest.approx(float(Fraction(comb(n - k, g), comb(n, g))), rel=1e-12)
    law = subgroup_pmf(np.array([k]), np.array([n]), g)[0]
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law[g] == pytest.approx(subgroup_all_pass(k, n, g).item(), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("g", [1, 2, 3, 5])
def test_is_unbiased_for_every_pass_rate(g: int) -> None:
    n = 6
    for p in (Fraction(1, 10), Fraction(1, 2), Fraction(7, 9)):
        mean = sum(
            comb(n, k)
            * p**k
            * (1 - p) ** (n - k)
            * Fraction(float(subgroup_all_pass(k, n, g))).limit_denominator(10**6)
            for k in range(n + 1)
        )
        assert float(mean) == pytest.approx(float(p**g), rel=1e-9)


def test_cells_of_different_n_are_handled_together() -> None:
    k, n = np.array([0, 3, 8, 5000]), np.array([4, 4, 8, 10_000])
    together = subgroup_all_pass(k, n, 4)
    assert together == pytest.approx([subgroup_all_pass(a, b, 4).item() for a, b in zip(k, n, strict=True)], rel=1e-13)
    assert subgroup_all_pass(9999, 10_000, 5000).item() == pytest.approx(0.5, rel=1e-11)


def test_group_larger_than_n_is_refused() -> None:
    with pytest.raises(DomainError, match="rollouts must be at least group_size = 8; got 4"):
        subgroup_all_pass([1, 2], [8, 4], 8)


def test_published_values() -> None:
    """papers-14: one pass of 8 in groups of 4, one of 4 in groups of 2; papers-31: pass@5 of 3 in 10."""
    assert subgroup_all_fail(1, 8, 4).item() == pytest.approx(0.5, rel=1e-12)
    assert subgroup_all_fail(1, 4, 2).item() == pytest.approx(0.5, rel=1e-12)
    assert pass_at_k(3, 10, 5).item() == pytest.approx(0.916667, abs=1e-6)
