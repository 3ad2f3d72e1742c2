"""Section 18 of theory.md against the code: exact small cases, enumeration, independent linear programs, simulation.

Each test names the change of the formula that it catches ("Mutant").
"""

# mypy: disable-error-code="attr-defined, no-untyped-call"
from __future__ import annotations

import csv
import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom, binomtest

from grpo_plan import symbolic as eq
from grpo_plan.errors import DomainError
from grpo_plan.fitting.mixing import arcsine_grid
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.groups import dead_probability, expected_group_std
from grpo_plan.passrates import BetaPassRates
from grpo_plan.runs.aggregates import recover
from grpo_plan.runs.beta_matching import beta_dead, matched_correlation
from grpo_plan.runs.composition import composition_bounds, largest_std
from grpo_plan.runs.dead_range import dead_inflation, dead_range
from grpo_plan.runs.moment_range import Known, moment_range, smallest_inflation
from grpo_plan.runs.recovered import Recovered
from grpo_plan.runs.recovered_steps import recover_steps
from grpo_plan.runs.recovery_status import RecoveryStatus
from grpo_plan.runs.sampling_error import mean_limits
from tests.helpers import is_non_increasing

Floats = NDArray[np.float64]
quick = settings(max_examples=40)
SIZES = st.integers(2, 24)
R = sp.Rational


@st.composite
def pass_rates(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """F of up to five atoms: pass rates and masses."""
    rates = draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=len(rates), max_size=len(rates)))
    return np.array(rates), np.array(weights) / sum(weights)


def aggregates_of(f: tuple[Floats, Floats], g: int) -> dict[str, float]:
    p, w = f
    q = 1.0 - p
    return {
        "mean": min(1.0, float(w @ p)),
        "dead": min(1.0, float(w @ np.minimum(p**g + q**g, 1.0))),
        "all_pass": min(1.0, float(w @ p**g)),
        "all_fail": min(1.0, float(w @ q**g)),
    }


# --- eq. 79 ------------------------------------------------------------------------------------------------------


def test_composition_holds_every_set_of_three_groups_of_four() -> None:
    """Mutants: 1/G as (G-1)/G; the cut at D or at 0 left out; the std's points up to G/2 - 1 only."""
    k = np.array(list(product(range(5), repeat=3)))
    mean, dead = k.mean(axis=1) / 4, ((k == 0) | (k == 4)).mean(axis=1)
    spread = np.sqrt(k * (4 - k)).mean(axis=1) / 4
    passes, fails = (k == 4).mean(axis=1), (k == 0).mean(axis=1)
    plain = composition_bounds(mean, dead, 4)
    tight = composition_bounds(mean, dead, 4, group_std=spread)
    sample = composition_bounds(mean, dead, 4, group_std=spread * np.sqrt(4 / 3), std="sample")
    for found in (plain, tight, sample):
        assert not found.inconsistent.any()
        assert np.all((found.pass_low - 1e-9 <= passes) & (passes <= found.pass_high + 1e-9))
        assert np.all((found.fail_low - 1e-9 <= fails) & (fails <= found.fail_high + 1e-9))
    assert np.all(tight.pass_low >= plain.pass_low - 1e-12)
    assert np.all(tight.pass_high <= plain.pass_high + 1e-12)
    assert (tight.pass_high - tight.pass_low).mean() < 0.8 * (plain.pass_high - plain.pass_low).mean()
    assert sample.pass_low == pytest.approx(tight.pass_low)


@pytest.mark.parametrize(
    ("mean", "dead", "g"), [(R(1, 2), R(2, 5), 4), (R(1, 10), R(7, 10), 3), (R(9, 10), R(4, 5), 5), (R(1, 3), 1, 2)]
)
def test_composition_is_the_exact_one(mean: sp.Rational, dead: sp.Rational, g: int) -> None:
    ends = eq.pass_share_bounds(mean, dead, g)
    found = composition_bounds(float(mean), float(dead), g)
    assert ends is not None
    assert (float(found.pass_low), float(found.pass_high)) == pytest.approx([float(e) for e in ends], abs=1e-12)
    assert float(found.fail_low) == pytest.approx(float(dead - ends[1]))


def test_composition_with_std_is_the_exact_one() -> None:
    """Law of k of 5: 1/5, 1/10, 3/10, 0, 1/5, 1/5. Mutant: S not divided by the share of mixed groups."""
    law = [R(1, 5), R(1, 10), R(3, 10), R(0), R(1, 5), R(1, 5)]
    mean, dead = sum(w * R(k, 5) for k, w in enumerate(law)), law[0] + law[5]
    spread = sum(w * sp.sqrt(k * (5 - k)) / 5 for k, w in enumerate(law))
    ends = eq.pass_share_bounds(mean, dead, 5, spread)
    found = composition_bounds(float(mean), float(dead), 5, group_std=float(spread))
    assert ends is not None
    assert (float(found.pass_low), float(found.pass_high)) == pytest.approx([float(sp.N(e)) for e in ends], abs=1e-12)


@quick
@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=12).filter(lambda w: sum(w) > 0.1), st.booleans())
def test_composition_agrees_with_a_linear_program(weights: list[float], with_std: bool) -> None:
    law = np.array(weights) / sum(weights)
    g = law.size - 1
    k = np.arange(g + 1.0)
    std_of = np.sqrt(k * (g - k)) / g
    mean, dead, spread = float(law @ k) / g, float(law[0] + law[-1]), float(law @ std_of)
    found = composition_bounds(mean, dead, g, group_std=spread if with_std else None)
    rows = np.vstack([np.ones(g + 1), k / g, np.eye(g + 1)[0] + np.eye(g + 1)[-1], *([std_of] if with_std else [])])
    wanted = [1.0, mean, dead, *([spread] if with_std else [])]
    assert not found.inconsistent
    for sign, end in ((1.0, found.pass_low), (-1.0, found.pass_high)):
        best = linprog(sign * np.eye(g + 1)[-1], A_eq=rows, b_eq=wanted, bounds=(0.0, None))
        assert best.status == 0
        assert float(end) == pytest.approx(sign * best.fun, abs=3e-5)  # the solver's slack moves steep ends


def test_composition_of_what_cannot_be() -> None:
    found = composition_bounds(
        [0.1, 1.2, 0.5, np.nan, 0.5, 0.9, 0.5], [0.0, 0.5, 1.3, 0.2, np.nan, 0.2, 1.0], [4, 4, 4, 4, 4, 4, 1]
    )
    assert found.inconsistent.tolist() == [True, True, True, False, False, True, False]
    assert np.isnan(found.pass_low).tolist() == [True] * 6 + [False]
    assert found.pass_high[-1] == 0.5
    assert composition_bounds(0.5, 0.5, 1).inconsistent
    assert composition_bounds(0.5, 0.5, 4, group_std=0.1).inconsistent  # one pass of four is .433
    assert composition_bounds(0.5, 0.5, 4, group_std=0.3).inconsistent  # two of four are .5
    assert not composition_bounds(0.1249, 0.5, 4).inconsistent  # rounded from .125
    assert composition_bounds(0.1249, 0.5, 4).pass_low == 0.0
    with pytest.raises(DomainError, match=r'std must be "population" or "sample"; got \'batch\''):
        composition_bounds(0.5, 0.5, 4, group_std=0.2, std="batch")
    with pytest.raises(DomainError, match="mean must be numbers"):
        composition_bounds("many", 0.5, 4)


# --- eq. 80 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "dead", "g"),
    [(R(1, 2), R(3, 4), 2), (R(1, 3), R(2, 3), 4), (R(9, 10), R(7, 8), 8), (R(1, 20), R(19, 20), 3)],
)
def test_correlation_is_the_root(mean: sp.Rational, dead: sp.Rational, g: int) -> None:
    """Mutants: j from 1 in the product; the mean's own factor times 1 - rho."""
    wanted = float(eq.aggregate_correlation(mean, dead, g))
    found = matched_correlation(np.array([float(mean)]), np.array([float(dead)]), g)
    assert found[0] == pytest.approx(wanted, abs=1e-13)
    one = recover(mean=float(mean), group_size=g, dead=float(dead))
    assert one.beta is not None
    assert one.beta.correlation == pytest.approx(wanted, abs=1e-9)


@quick
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), SIZES)
def test_beta_of_steps_is_the_beta(mean: float, correlation: float, g: int) -> None:
    wanted = BetaPassRates(mean=mean, correlation=correlation).dead(g)
    assert beta_dead(np.array([mean]), np.array([correlation]), g)[0] == pytest.approx(float(wanted), abs=1e-13)


@pytest.mark.parametrize("name", ["dead", "all_pass", "all_fail", "group_std"])
def test_each_aggregate_gives_the_beta_back(name: str) -> None:
    """Mutant: the sign of group_std."""
    beta = BetaPassRates(mean=0.3, correlation=0.35)
    k = np.arange(9.0)
    value = (
        float(beta.group_pmf(8) @ np.sqrt(k * (8 - k))) / 8 if name == "group_std" else float(getattr(beta, name)(8))
    )
    found = recover(mean=0.3, group_size=8, **{name: value})  # type: ignore[arg-type]
    assert found.beta is not None
    assert found.beta.correlation == pytest.approx(0.35, abs=1e-9)
    assert found.misfit == pytest.approx(0.0, abs=1e-9)
    for share in ("dead", "all_pass", "all_fail", "mixed"):
        got = getattr(found, share)(3)
        wanted = 1 - float(beta.dead(3)) if share == "mixed" else float(getattr(beta, share)(3))
        assert got.low - 1e-12 <= got.value <= got.high + 1e-12
        assert got.value == pytest.approx(wanted, abs=2e-6)
    if name == "group_std":
        again = recover(mean=0.3, group_size=8, group_std=value * (8 / 7) ** 0.5, std="sample")
        assert again.beta is not None
        assert again.beta.correlation == pytest.approx(0.35, abs=1e-9)


def test_both_kinds_of_dead_groups_give_the_beta_of_their_sum() -> None:
    """Mutant: the all-pass share alone."""
    both = recover(mean=0.4, group_size=8, all_pass=0.15, all_fail=0.3)
    one = recover(mean=0.4, group_size=8, dead=0.45)
    assert both.beta == one.beta
    assert both.misfit is not None
    assert both.misfit > 0.001
    assert both.dead(8).value == pytest.approx(0.45, abs=2e-6)


# --- eq. 81 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("small", "large"), [(2, 3), (2, 5), (3, 4), (4, 9), (7, 8), (8, 20)])
def test_what_the_range_rests_on(small: int, large: int) -> None:
    """The series, and the two rising ratios, exactly."""
    y = sp.Symbol("y")
    for g in (small, large):
        series = sp.Add(*(eq.even_tail(g, power) * y**power for power in range(g)))
        assert sp.expand(sp.cancel(eq.mixed((1 - y) / 2, g) / (1 - y)) - series) == 0
    tops = [sp.Rational(sp.binomial(large, i), sp.binomial(small, i)) for i in range(0, small + 1, 2)]
    tails = [eq.even_tail(large, i) / eq.even_tail(small, i) for i in range(small) if eq.even_tail(small, i) > 0]
    assert tops == sorted(tops)
    assert tails == sorted(tails)


@pytest.mark.parametrize(
    ("mean", "dead", "g", "target"),
    [(R(2, 5), R(1, 2), 4, 8), (R(2, 5), R(1, 2), 8, 4), (R(1, 20), R(9, 10), 4, 6), (R(9, 10), R(4, 5), 5, 2), (R(1, 2), R(9, 10), 3, 7)],
)  # fmt: skip
def test_ends_are_the_exact_ones(mean: sp.Rational, dead: sp.Rational, g: int, target: int) -> None:
    """Mutants: s2 from m_G = (1 - D)/mu; the slack case at s2 = 1/2 left out; ends not swapped for G' < G."""
    wanted = [float(sp.N(end)) for end in eq.dead_range_ends(mean, dead, g, target)]
    found = recover(mean=float(mean), group_size=g, dead=float(dead)).dead(target)
    assert [found.low, found.high] == pytest.approx(wanted, abs=1e-12)


@quick
@given(st.floats(0.02, 0.98), st.floats(0.01, 1.0), SIZES, SIZES)
def test_ends_agree_with_a_linear_program(mean: float, part: float, g: int, target: int) -> None:
    least = float(dead_probability(mean, g))
    dead = least + (1.0 - least) * part
    found = recover(mean=mean, group_size=g, dead=dead).dead(target)
    p, q = arcsine_grid()
    rows = np.vstack([np.ones(p.size), p, p**g + q**g])
    for sign, end in ((1.0, found.low), (-1.0, found.high)):
        best = linprog(sign * (p**target + q**target), A_eq=rows, b_eq=[1.0, mean, dead], bounds=(0.0, None))
        if best.status == 0:
            assert -1e-6 <= sign * (sign * best.fun - end) <= 2e-3, "the program is over a grid, so its ends lie inside"


@quick
@given(pass_rates(), SIZES, st.integers(1, 40))
def test_range_holds_every_distribution(f: tuple[Floats, Floats], g: int, target: int) -> None:
    known, other = aggregates_of(f, g), aggregates_of(f, target)
    found = recover(mean=known["mean"], group_size=g, dead=known["dead"])
    share = found.dead(target)
    assert share.low - 1e-9 <= other["dead"] <= share.high + 1e-9
    assert found.status is not RecoveryStatus.INCONSISTENT
    alone = recover(mean=known["mean"], group_size=g).dead(target)
    assert alone.value is None
    assert alone.low - 1e-9 <= other["dead"] <= alone.high + 1e-9


@settings(max_examples=25)
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), SIZES, st.sampled_from([None, 5, 64, 2000]))
def test_monotone_facts(mean: float, part: float, g: int, groups: int | None) -> None:
    """The range holds the value, is a point at G' = G, falls with G', stays in [0, 1], and widens with the box."""
    least = float(dead_probability(mean, g))
    dead = min(1.0, least + (1.0 - least) * part)
    found = recover(mean=mean, group_size=g, dead=dead, groups=groups)
    targets = sorted({1, 2, 3, 5, g, g + 1, 33})
    shares = [found.dead(target) for target in targets]
    values = [share.value for share in shares]
    assert all(
        value is not None and share.low <= value <= share.high for value, share in zip(values, shares, strict=True)
    )
    assert is_non_increasing([value for value in values if value is not None], slack=1e-9)
    assert is_non_increasing([share.low for share in shares], slack=1e-9)
    assert is_non_increasing([share.high for share in shares], slack=1e-9)
    assert min(share.low for share in shares) >= 0.0
    assert max(share.high for share in shares) <= 1.0
    at = found.dead(g)
    assert at.value == pytest.approx(dead, abs=1e-9)
    if groups is None:
        assert at.low == at.high == dead
        return
    exact = recover(mean=mean, group_size=g, dead=dead)
    surer = recover(mean=mean, group_size=g, dead=dead, groups=groups, level=0.8)
    for target, share in zip(targets, shares, strict=True):
        for inner in (exact.dead(target), surer.dead(target)):
            assert share.low - 1e-12 <= inner.low
            assert inner.high <= share.high + 1e-12


@quick
@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), SIZES)
def test_inflation_is_the_smallest(mean: float, share: float, g: int) -> None:
    dead = share * float(dead_probability(mean, g))
    m, d = np.array([mean]), np.array([dead])
    e = float(dead_inflation(m, m, d, g)[0])
    nearer = max(0.0, e * (1 - 1e-6) - 1e-9)
    assert not np.isnan(dead_range(np.minimum(np.minimum(m, 1 - m) + e, 0.5), d - e, d + e, g, g)[0]).any()
    if nearer > 0.0:
        assert np.isnan(
            dead_range(np.minimum(np.minimum(m, 1 - m) + nearer, 0.5), d - nearer, d + nearer, g, g)[0]
        ).all()


# --- eq. 82 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [0, 1])
def test_linear_program_is_the_exact_one(half: int) -> None:
    """Four pass rates, mean and D(2) between limits. Mutants: lower limits with the sign of the upper ones."""
    grid = [R(0), R(1, 4), R(1, 2), R(1)]
    width = R(half, 20)
    table = [grid, [eq.dead(p, 2) for p in grid]]
    middle = [R(2, 5), R(7, 10)]
    lower, upper = [m - width for m in middle], [m + width for m in middle]
    wanted = eq.aggregate_range(table, lower, upper, [p**3 for p in grid])
    known = [
        Known(name=name, value=float(m), low=float(low), high=float(high), group_size=2)
        for name, m, low, high in zip(("mean", "dead"), middle, lower, upper, strict=True)
    ]
    p = np.array([float(x) for x in grid])
    found = moment_range(known, lambda p, _: p**3, (p, 1 - p))
    assert wanted is not None
    assert found == pytest.approx([float(e) for e in wanted], abs=5e-6)
    assert smallest_inflation(known, (p, 1 - p)) == pytest.approx(0.0, abs=1e-9)


def test_smallest_inflation_of_two_prompts_that_are_both_mixed() -> None:
    """D(2) = 0 at mean 1/2: one rate has 1/2, and of all F near it the nearest is that one. Mutant: e in one limit only."""
    found = recover(mean=0.5, group_size=2, dead=0.0)
    assert found.status is RecoveryStatus.INCONSISTENT
    assert found.inflation == pytest.approx(0.5)
    known = [Known(name=n, value=v, low=v, high=v, group_size=2) for n, v in (("mean", 0.5), ("dead", 0.0))]
    assert smallest_inflation(known, arcsine_grid()) == pytest.approx(0.5, abs=1e-6)
    near = recover(mean=0.5, group_size=8, dead=0.0)  # D(8) is 1/128 for one rate
    assert near.status is RecoveryStatus.IID
    assert near.inflation == pytest.approx(1 / 128, abs=1e-6)
    assert near.dead(8).high == pytest.approx(1 / 128, abs=1e-6)


@settings(max_examples=12)
@given(pass_rates(), st.integers(2, 12), st.integers(1, 24))
def test_ranges_from_more_aggregates_hold_the_truth_and_are_narrower(
    f: tuple[Floats, Floats], g: int, target: int
) -> None:
    """The grid keeps the ends inside by less than 2e-3."""
    known, other = aggregates_of(f, g), aggregates_of(f, target)
    spread = float(f[1] @ expected_group_std(f[0], g))
    both = recover(group_size=g, mean=known["mean"], all_pass=known["all_pass"], all_fail=known["all_fail"])
    std = recover(group_size=g, mean=known["mean"], dead=known["dead"], group_std=spread)
    plain = recover(group_size=g, mean=known["mean"], dead=known["dead"])
    for found in (both, std, plain):
        assert found.status is not RecoveryStatus.INCONSISTENT
        for name in ("dead", "all_pass", "all_fail"):
            share = getattr(found, name)(target)
            assert share.low - 2e-3 <= other[name] <= share.high + 2e-3
            assert 0.0 <= share.low <= share.high <= 1.0
    for found in (both, std):
        assert plain.dead(target).low - 2e-3 <= found.dead(target).low
        assert found.dead(target).high <= plain.dead(target).high + 2e-3


# --- eq. 83 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "groups"), [(0, 5), (1, 5), (7, 20), (20, 20)])
def test_limits_are_those_of_clopper_and_pearson(hits: int, groups: int) -> None:
    """Mutant: alpha instead of alpha / 2K."""
    low, high = mean_limits(np.array([hits / groups]), np.array([float(groups)]), 0.9, 2)
    if hits > 0:
        assert float(eq.trials_tail(hits, groups, float(low[0]))) == pytest.approx(0.025, rel=1e-9)
    else:
        assert low[0] == 0.0
    if hits < groups:
        assert 1 - float(eq.trials_tail(hits + 1, groups, float(high[0]))) == pytest.approx(0.025, rel=1e-9)
    else:
        assert high[0] == 1.0


LAWS = {
    "one rate": (np.array([0.3]), np.array([1.0])),
    "rare passes": (np.array([0.0, 0.04]), np.array([0.5, 0.5])),
    "atoms": (np.array([0.0, 0.1, 0.6, 1.0]), np.array([0.3, 0.3, 0.2, 0.2])),
    "U": ((np.arange(2000) + 0.5) / 2000, np.array([])),
    "hump": ((np.arange(2000) + 0.5) / 2000, np.array([])),
}


def law_of(name: str) -> tuple[Floats, Floats]:
    p, w = LAWS[name]
    if w.size == 0:
        w = (p * (1 - p)) ** (-0.6 if name == "U" else 3.0)
    return p, w / w.sum()


def coverage(name: str, g: int, groups: int, rounds: int = 1500) -> dict[str, float]:
    """Share of simulated steps whose box, and whose ranges at five G' at once, hold the truth."""
    rng = np.random.default_rng([g, groups, *name.encode()])
    p, w = law_of(name)
    k = rng.binomial(g, p[rng.choice(p.size, size=(rounds, groups), p=w)])
    mean, dead = k.mean(axis=1) / g, ((k == 0) | (k == g)).mean(axis=1)
    truth = aggregates_of((p, w), g)
    count = np.full(rounds, float(groups))
    box = np.ones(rounds, dtype=bool)
    for seen, wanted in ((mean, truth["mean"]), (dead, truth["dead"])):
        low, high = mean_limits(seen, count, 0.95, 2)
        box &= (low <= wanted) & (wanted <= high)
    sizes = (2, 4, 8, 16, 64)
    steps = recover_steps(mean, dead, g, sizes, groups=groups)
    true = np.array([aggregates_of((p, w), size)["dead"] for size in sizes])
    held = np.all((steps.low - 1e-9 <= true) & (true <= steps.high + 1e-9), axis=1)
    return {"box": float(box.mean()), "range": float(held.mean())}


@pytest.mark.parametrize("groups", [8, 64, 512])
@pytest.mark.parametrize("g", [4, 8, 16])
@pytest.mark.parametrize("name", list(LAWS))
def test_ranges_hold_the_truth_as_often_as_they_say(name: str, g: int, groups: int) -> None:
    """1,000 steps (300 of 512 groups); were the coverage 95 %, a false alarm is below 1e-6 in each case (the ranges have more)."""
    rounds = 300 if groups > 64 else 1000
    found = coverage(name, g, groups, rounds)
    floor = binom.ppf(1e-6, rounds, 0.95) / rounds
    assert min(found.values()) >= floor, found
    assert found["range"] >= found["box"]


@pytest.mark.parametrize("g", [4, 16])
@pytest.mark.parametrize("name", list(LAWS))
def test_limits_of_shares_and_std_hold_the_truth(name: str, g: int) -> None:
    """Mean, all-pass, all-fail and std of 64 groups at once, 1,000 steps; false alarm as above."""
    rng = np.random.default_rng([g, *name.encode()])
    p, w = law_of(name)
    k = rng.binomial(g, p[rng.choice(p.size, size=(1000, 64), p=w)])
    truth, top = aggregates_of((p, w), g), largest_std(g)
    spread = float(w @ expected_group_std(p, g))
    held = np.ones(1000, dtype=bool)
    for seen, wanted in (
        (k / g, truth["mean"]),
        (k == g, truth["all_pass"]),
        (k == 0, truth["all_fail"]),
        (np.sqrt(k * (g - k)) / g / top, spread / top),
    ):
        low, high = mean_limits(seen.mean(axis=1), np.full(1000, 64.0), 0.95, 4)
        held &= (low <= wanted) & (wanted <= high)
    assert held.mean() >= binom.ppf(1e-6, 1000, 0.95) / 1000


def test_a_box_half_as_wide_would_be_seen() -> None:
    """What the simulation can tell: limits at 50 % instead of 95 % fall short of the floor."""
    rng = np.random.default_rng(3)
    k = rng.binomial(8, rng.beta(0.5, 0.5, size=(1500, 64)))
    low, high = mean_limits(k.mean(axis=1) / 8, np.full(1500, 64.0), 0.5)
    hits = int(((low <= 0.5) & (0.5 <= high)).sum())
    assert hits < binom.ppf(1e-6, 1500, 0.95)
    assert binomtest(hits, 1500, 0.5).pvalue > 1e-6 or hits > 750


# --- statuses and messages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "status"),
    [
        ({"mean": 0.4, "dead": 0.5}, "OK"),
        ({"mean": 0.4}, "MEAN_ONLY"),
        ({"mean": 0.4, "dead": 1.0}, "POINT_MASSES"),
        ({"mean": 0.4, "dead": 0.0001}, "IID"),
        ({"mean": 0.0, "dead": 1.0}, "ONE_OUTCOME"),
        ({"mean": 0.4, "group_std": 0.5}, "IID"),
        ({"mean": 0.4, "group_std": 0.0}, "POINT_MASSES"),
        ({"mean": 0.4, "all_pass": 0.6}, "INCONSISTENT"),
        ({"mean": 0.4, "all_pass": 0.1, "all_fail": 0.2, "dead": 0.9}, "INCONSISTENT"),
        ({"mean": 0.4, "all_pass": 0.1, "all_fail": 0.2, "dead": 0.301}, "PROJECTED"),
        ({"mean": 0.4, "all_pass": 0.15, "all_fail": 0.3}, "OK"),
        ({"mean": 0.5, "dead": 0.0, "groups": 2000}, "INCONSISTENT"),
        ({"mean": 0.5, "dead": 0.0, "groups": 10}, "IID"),
        ({"mean": 0.4, "dead": 1.0, "groups": 10}, "POINT_MASSES"),
    ],
)
def test_statuses(given_: dict[str, float], status: str) -> None:
    found = recover(group_size=8, **given_)  # type: ignore[arg-type]
    assert found.status.name == status
    assert found.status.sentence.endswith(".")
    assert (found.beta is None) == (status in ("MEAN_ONLY", "INCONSISTENT"))
    share = found.dead(4)
    assert 0.125 <= share.low <= share.high <= 1.0
    assert share.status is found.status
    if status == "INCONSISTENT":
        assert (share.value, share.low, share.high) == (None, 0.125, 1.0)
        assert found.all_pass(4).low == 0.0
        assert "over all distributions of pass rates" in found.range_means


def test_projected_ranges_are_those_of_the_nearest() -> None:
    """Shares that add up to .300 beside D = .301: each moves by a third of .001. Mutant: limits not moved."""
    found = recover(mean=0.4, group_size=8, all_pass=0.1, all_fail=0.2, dead=0.301)
    assert found.inflation == pytest.approx(0.001 / 3, abs=1e-6)
    nearest = recover(mean=0.4, group_size=8, all_pass=0.1 + 0.001 / 3, all_fail=0.2 + 0.001 / 3)
    for target in (2, 8, 16):
        for name in ("dead", "all_pass", "all_fail"):
            share, near = getattr(found, name)(target), getattr(nearest, name)(target)
            assert [share.low, share.high] == pytest.approx([near.low, near.high], abs=5e-3)


def test_limits_of_a_group_std_are_in_its_own_units() -> None:
    """Mutant: the std as if it reached 1."""
    found = recover(mean=0.4, group_size=8, group_std=0.3, groups=64)
    std = next(k for k in found.known if k.name == "group-std")
    low, high = mean_limits(np.array([0.6]), np.array([64.0]), 0.95, 2)
    assert (std.low, std.high) == pytest.approx((low[0] / 2, high[0] / 2))
    assert std.low < 0.3 < std.high < 0.5


def test_one_rollout_per_prompt_says_the_mean_only() -> None:
    found = recover(mean=0.4, group_size=1, dead=1.0)
    assert found.status is RecoveryStatus.MEAN_ONLY
    assert found.dead(4).low == pytest.approx(0.4**4 + 0.6**4)
    assert found.all_pass(2).low == pytest.approx(0.16, abs=1e-6)
    assert found.dead(1).low == found.dead(1).high == 1.0
    assert recover(mean=0.4, group_size=1, dead=0.3).status is RecoveryStatus.INCONSISTENT


def test_results_print_and_travel() -> None:
    found = recover(mean=0.4, group_size=8, dead=0.5, groups=64)
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, Recovered)
    assert str(again.mixed(4)) == str(found.mixed(4))
    assert repr(found) == "<Recovered from mean, dead of groups of 8: OK>"
    assert "64 groups (95 % for all at once)" in found.range_means
    assert "with these aggregates" in recover(mean=0.4, group_size=8).range_means
    assert str(recover(mean=0.4, group_size=8).dead(2)) == "dead(2) = unknown in [0.5200, 1.0000]"
    assert repr(recover_steps([0.4], [0.5], 8, [2, 4])) == "<RecoveredSteps: D(2, 4) at 1 steps>"


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"mean": 1.2, "group_size": 8}, r"mean must lie in \[0, 1\]; got 1.2"),
        ({"mean": 0.5, "group_size": 8, "dead": float("nan")}, "dead must lie"),
        ({"mean": 0.5, "group_size": 8, "all_pass": -1}, "all_pass must lie"),
        ({"mean": 0.5, "group_size": 0}, "group_size must be at least 1"),
        ({"mean": 0.5, "group_size": 8, "groups": 0}, "groups must be at least 1"),
        ({"mean": 0.5, "group_size": 8, "level": 95}, "level must lie"),
        ({"mean": 0.5, "group_size": 8, "group_std": 0.6}, "group_std of 8 rewards that are 0 or 1 is at most 0.5"),
        ({"mean": 0.5, "group_size": 8, "group_std": 0.2, "std": "x"}, "std must be"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(given_: dict[str, object], message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        recover(**given_)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_bad_steps_are_refused() -> None:
    with pytest.raises(DomainError, match=r"one value for each step; got shapes \(2,\) and \(1,\)"):
        recover_steps([0.1, 0.2], [0.3], 8, [4])
    with pytest.raises(DomainError, match="groups must be one number or one for each of 1 steps"):
        recover_steps([0.1], [0.9], 8, [4], groups=[3, 4])
    with pytest.raises(DomainError, match="groups must be at least 1; got nan"):
        recover_steps([0.1], [0.9], 8, [4], groups=[np.nan])
    with pytest.raises(DomainError, match="group_size must be at least 2"):
        recover_steps([0.1], [0.9], 1, [4])


# --- steps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, 64])
def test_steps_are_single_recoveries(groups: int | None) -> None:
    rng = np.random.default_rng(1)
    mean, dead = rng.random(40), rng.random(40)
    mean[:3], dead[:3], dead[3:6] = [0.0, 1.0, 0.5], 1.0, np.nan
    sizes = (1, 2, 8, 16, 64)
    steps = recover_steps(mean, dead, 8, sizes, groups=groups)
    for i, (m, d) in enumerate(zip(mean, dead, strict=True)):
        one = recover(mean=m, group_size=8, dead=None if np.isnan(d) else d, groups=groups)
        assert steps.status[i] is one.status
        for j, size in enumerate(sizes):
            share = one.dead(size)
            assert [steps.low[i, j], steps.high[i, j]] == pytest.approx([share.low, share.high], abs=1e-12)
            assert steps.value[i, j] == pytest.approx(
                np.nan if share.value is None else share.value, abs=1e-8, nan_ok=True
            )


def test_no_step_is_lost() -> None:
    steps = recover_steps([np.nan, 0.5, 1.5, -np.inf, 0.5], [0.5, np.nan, 0.5, 0.2, 2.0], 8, [4])
    assert [s.name for s in steps.status] == ["UNKNOWN", "MEAN_ONLY"] + ["INCONSISTENT"] * 3
    assert steps.low[1:, 0] == pytest.approx([0.125] * 4)
    assert np.isnan(steps.low[0, 0])
    assert np.isnan(steps.value).all()
    assert recover_steps([], [], 8, [4]).value.shape == (0, 1)


# --- what it is for ----------------------------------------------------------------------------------------------


def unbiased_dead(k: NDArray[np.int64], g: int) -> float:
    n = np.full(k.size, 8)
    return float(np.mean(subgroup_all_pass(k, n, g) + subgroup_all_fail(k, n, g)))


def test_visits_simulated_in_place_of_measured_ones() -> None:
    """30 visits of 1,209 prompts whose pass rates rise; no Beta, as 15 % are at 0. D(2) and D(4) are found within .02."""
    rng = np.random.default_rng(12)
    base = np.where(rng.random(1209) < 0.15, -9.0, rng.logistic(-0.7, 1.6, size=1209))
    counts = [rng.binomial(8, 1 / (1 + np.exp(-(base + 0.03 * visit)))) for visit in range(30)]
    mean = [k.mean() / 8 for k in counts]
    steps = recover_steps(mean, [unbiased_dead(k, 8) for k in counts], 8, (2, 4))
    truth = np.array([[unbiased_dead(k, g) for g in (2, 4)] for k in counts])
    assert np.abs(steps.value - truth).max() < 0.02
    assert np.all((steps.low <= truth) & (truth <= steps.high))
    bounds = composition_bounds(mean, [unbiased_dead(k, 8) for k in counts], 8)
    passes = np.array([(k == 8).mean() for k in counts])
    assert np.all((bounds.pass_low <= passes) & (passes <= bounds.pass_high))


def measured_visits(folder: Path) -> dict[int, dict[str, int]]:
    """Passes of each prompt at each visit of at least 50 prompts."""
    out: dict[int, dict[str, int]] = {}
    with (folder / "oneshot_rlvr_dsr1209_grpo_visits_G8.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            out.setdefault(int(row["visit"]), {})[row["prompt_id"]] = int(row["k"])
    return {visit: passes for visit, passes in out.items() if len(passes) >= 50}


def test_visits_of_a_real_run(real_data: Path) -> None:
    """One-Shot-RLVR: D(2) and D(4) from mean and D(8) alone, at each of 56 visits of 93 to 1,209 prompts."""
    counts = [np.array(list(passes.values())) for passes in measured_visits(real_data).values()]
    mean, dead = [k.mean() / 8 for k in counts], [unbiased_dead(k, 8) for k in counts]
    steps = recover_steps(mean, dead, 8, (2, 4))
    truth = np.array([[unbiased_dead(k, g) for g in (2, 4)] for k in counts])
    errors = np.abs(steps.value - truth)
    print(f"largest errors {errors.max(axis=0)}, mean errors {errors.mean(axis=0)}")
    assert len(counts) == 56
    assert errors.max(axis=0) == pytest.approx([0.0082, 0.0124], abs=1e-4)
    assert np.all((steps.low <= truth) & (truth <= steps.high))
    assert {status.name for status in steps.status} == {"OK"}
    bounds = composition_bounds(mean, dead, 8)
    for ends, share in (((bounds.pass_low, bounds.pass_high), 8), ((bounds.fail_low, bounds.fail_high), 0)):
        seen = np.array([(k == share).mean() for k in counts])
        assert np.all((ends[0] <= seen + 1e-9) & (seen <= ends[1] + 1e-9))


def test_groups_twice_as_large_of_a_real_run(real_data: Path) -> None:
    """D(16) from mean and D(8), against the 16 rollouts of two visits in a row; the policy moves between them."""
    visits = measured_visits(real_data)
    rows = []
    for visit in range(max(visits)):
        both = sorted(visits[visit].keys() & visits[visit + 1].keys())
        if len(both) >= 50:
            k = np.array([[visits[v][prompt] for prompt in both] for v in (visit, visit + 1)])
            rows.append((k.mean() / 8, np.isin(k, (0, 8)).mean(), np.isin(k.sum(axis=0), (0, 16)).mean()))
    mean, dead, truth = np.array(rows).T
    steps = recover_steps(mean, dead, 8, [16])
    errors = steps.value[:, 0] - truth
    print(
        f"{errors.size} pairs: mean error {errors.mean():.4f}, mean size {np.abs(errors).mean():.4f}, largest {np.abs(errors).max():.4f}"
    )
    assert np.abs(errors).mean() < 0.01
    assert np.abs(errors).max() < 0.025
    assert np.all((steps.low[:, 0] <= truth) & (truth <= steps.high[:, 0]))
