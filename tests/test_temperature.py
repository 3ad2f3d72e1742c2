"""Temperatures: paired differences against enumeration, limits that cover, verdicts with a family-wise error, inputs."""

from __future__ import annotations

import csv
import json
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest, multinomial, norm

import grpo_plan as gp
from figures.temperature import POPULATIONS, SIZES, TABLE, coverage, truth
from grpo_plan import symbolic
from grpo_plan.fitting.intervals import mean_interval
from grpo_plan.fitting.paired import (
    paired_difference,
    prompts_to_detect,
    score_limits,
    score_statistic,
    unpaired_difference,
)
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.pilot import Pilot
from grpo_plan.planning.dead_counts import compare_dead_counts, design_effect
from grpo_plan.planning.temperature import plan_temperature
from grpo_plan.planning.temperature_result import TemperaturePlan, TemperatureVerdict, nearest_to_one
from tests.conftest import ROOT
from tests.helpers import assert_mean

Floats = NDArray[np.float64]
Half, Third = sp.Rational(1, 2), sp.Rational(1, 3)
LOG = "logs/tinker_qwen3_8b_gsm8k_G8_temperature_rank_batch_sweeps.json"


def dead_share(k: NDArray[np.int64], n: int, g: int) -> Floats:
    return subgroup_all_pass(k, n, g) + subgroup_all_fail(k, n, g)


def two(k0: list[int], k1: list[int], n: int, temperatures: tuple[float, float] = (1.0, 0.6)) -> Pilot:
    """The same prompts at two temperatures."""
    ids = [f"q{i}" for i in range(len(k0))]
    t = [temperatures[0]] * len(k0) + [temperatures[1]] * len(k1)
    return Pilot.from_counts([*k0, *k1], n, prompt_id=ids * 2, temperature=t)


def simulated(rng: np.random.Generator, rates: dict[float, Floats], n: int, *, paired: bool = True) -> Pilot:
    k = np.concatenate([rng.binomial(n, p) for p in rates.values()])
    t = np.repeat(list(rates), [p.size for p in rates.values()])
    size = next(iter(rates.values())).size
    names = [f"q{i % size if paired else i}" for i in range(k.size)]
    return Pilot.from_counts(k, n, prompt_id=names, temperature=t)


def warmer(p: Floats, factor: float) -> Floats:
    odds = (p / (1.0 - p)) ** factor
    return np.asarray(odds / (1.0 + odds))


def kernels(rng: np.random.Generator, rates: Floats, n: int, g: int) -> Floats:
    """Kernels of many pilots, of the shape of the rates."""
    return np.asarray(dead_share(np.arange(n + 1), n, g)[rng.binomial(n, rates)])


def limits(d: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """Limits of many pilots, differences of shape (pilots, prompts)."""
    sums = np.maximum(d, 0.0).sum(axis=1), np.maximum(-d, 0.0).sum(axis=1), (d * d).sum(axis=1)
    return score_limits(*sums, d.shape[1], level)


# equations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_there", "g"), [(2, 2, 2), (3, 2, 2), (4, 4, 3), (4, 3, 2)])
def test_mean_and_variance_of_the_paired_difference_by_enumeration(n: int, n_there: int, g: int) -> None:
    """Eq. 56: every outcome of a random prompt's rollouts at both temperatures, exactly."""
    rates = [(Half, Third), (sp.Integer(1), sp.Rational(3, 4)), (sp.Rational(1, 5), sp.Integer(0))]
    weights = [sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)]
    first = second = sp.Integer(0)
    for (p, q), w in zip(rates, weights, strict=True):
        for k, m in product(range(n + 1), range(n_there + 1)):
            chance = w * comb(n, k) * p**k * (1 - p) ** (n - k)
            chance *= comb(n_there, m) * q**m * (1 - q) ** (n_there - m)
            d = symbolic.u_statistic(m, n_there, g) - symbolic.u_statistic(k, n, g)
            first, second = first + chance * d, second + chance * d**2
    assert sp.simplify(first - symbolic.paired_mean(rates, weights, g)) == 0
    assert sp.simplify(second - first**2 - symbolic.paired_variance(rates, weights, (n, n_there), g)) == 0


def test_the_plan_shows_the_mean_difference_of_kernels_and_its_parts() -> None:
    k0, k1 = [4, 4, 3, 2, 0, 0] * 20, [3, 4, 1, 0, 0, 1] * 20
    plan = plan_temperature(two(k0, k1, 4), group_size=2)
    (d,) = plan.differences
    kernels = [
        float(symbolic.u_statistic(b, 4, 2) - symbolic.u_statistic(a, 4, 2)) for a, b in zip(k0, k1, strict=True)
    ]
    assert d.dead is not None
    assert d.dead.value == pytest.approx(np.mean(kernels))
    wanted = paired_difference(np.array(kernels), 0.95)
    assert (d.dead.low, d.dead.high) == pytest.approx((wanted.low, wanted.high))
    assert d.all_pass is not None
    assert d.all_fail is not None
    assert d.all_pass.value + d.all_fail.value == pytest.approx(d.dead.value)
    assert d.pass_rate.value == pytest.approx(np.mean(np.array(k1) - np.array(k0)) / 4)
    a, b = np.array(k0), np.array(k1)
    assert d.reward_variance is not None
    assert d.reward_variance.value == pytest.approx(np.mean(b * (4 - b) - a * (4 - a)) / 12)  # k (n - k) / (n (n - 1))
    moves = d.movement
    assert moves is not None
    net = (
        moves.mixed_to_all_pass.value
        + moves.mixed_to_all_fail.value
        - moves.all_pass_to_mixed.value
        - moves.all_fail_to_mixed.value
    )
    assert net == pytest.approx(d.dead.value)


def test_movement_is_unbiased_by_enumeration() -> None:
    """The share all-pass at the baseline and mixed at T of independent groups, from 3 rollouts each, G = 2."""
    p, q, total = 0.7, 0.4, 0.0
    for k, m in product(range(4), range(4)):
        chance = comb(3, k) * p**k * (1 - p) ** (3 - k) * comb(3, m) * q**m * (1 - q) ** (3 - m)
        moves = plan_temperature(two([k], [m], 3), group_size=2).differences[0].movement
        assert moves is not None
        total += chance * moves.all_pass_to_mixed.value
    assert total == pytest.approx(p**2 * 2 * q * (1 - q))


def test_the_share_of_falls_maximises_the_likelihood() -> None:
    """Eq. 57: the derivative of the log-likelihood at the closed form is 0, for several counts and differences."""
    y = sp.Symbol("y")
    for r, f, m, x in ((7, 3, 50, Third / 4), (5, 2, 30, -Half / 5), (sp.Rational(7, 2), Half, 21, sp.Rational(1, 10))):
        likelihood = symbolic.moved_log_likelihood(r, f, m, x, y)
        share = symbolic.moved_share(r, f, m, x)
        slope = sp.diff(likelihood, y).subs(y, share)
        assert abs(sp.N(slope, 40)) < 1e-30
        assert sp.N(sp.diff(likelihood, y, 2).subs(y, share)) < 0
        assert score_statistic(float(r), float(f), float(m), float(x)).item() == pytest.approx(
            float(symbolic.score_statistic(r, f, m, x)), rel=1e-9
        )


@settings(max_examples=40)
@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40))
def test_limits_are_the_roots_of_the_score_statistic(values: list[float]) -> None:
    d = np.array(values)
    found = paired_difference(d, 0.95)
    r, f, m, s = (float(v) for v in symbolic.pseudo_moves(values))
    up, down = float(d[d > 0].sum()), -float(d[d < 0].sum())
    low, high = (float(end) for end in score_limits(up, down, float(d @ d), d.size, 0.95))
    for end, sign in ((low, 1.0), (high, -1.0)):
        if abs(end) < 1.0 - 1e-9 and abs(end / s) < 1.0 - 1e-9:
            statistic = score_statistic(r, f, m, end / s).item()
            assert statistic == pytest.approx(sign * norm.ppf(0.975), rel=1e-6)
    assert found.low <= found.value <= found.high
    assert -1.0 <= found.low < found.high <= 1.0
    mirrored = paired_difference(-d, 0.95)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))
    assert paired_difference(d, 0.99).width >= found.width
    assert found.times(-1.0).low == pytest.approx(-found.high)


def test_square_and_add_equals_its_equation() -> None:
    a, b = (
        mean_interval(np.array([0.0, 0.5, 1.0]), np.array([5, 9, 3]), 0.95),
        mean_interval(np.array([0.0, 1.0]), np.array([12, 5]), 0.95),
    )
    found = unpaired_difference(a, b, 0.95, prompts=17)
    low, high = symbolic.square_and_add((a.value, a.low, a.high), (b.value, b.low, b.high))
    assert (found.low, found.high) == pytest.approx((float(low), float(high)))


def test_prompts_to_detect_equals_its_equation() -> None:
    for x, square, level, power in ((0.1, 0.2, 0.95, 0.8), (-0.03, 0.3, 0.975, 0.9), (0.5, 0.5, 0.99, 0.5)):
        exact = symbolic.prompts_to_detect(abs(x), square, norm.ppf(0.5 + level / 2), norm.ppf(power))
        assert prompts_to_detect(x, square, level=level, power=power) == int(np.ceil(float(exact)))


# coverage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prompts", "level", "least"), [(20, 0.95, 0.948), (50, 0.95, 0.948), (50, 0.99, 0.990)])
def test_exact_coverage_where_each_prompt_rises_falls_or_stays(prompts: int, level: float, least: float) -> None:
    """All (rises, falls) of M prompts, at many chances: no simulation. Without the pseudo-prompt it is .93."""
    a, b = (v.ravel() for v in np.meshgrid(np.arange(prompts + 1.0), np.arange(prompts + 1.0)))
    a, b = a[a + b <= prompts], b[a + b <= prompts]
    low, high = score_limits(a, b, a + b, prompts, level)
    shares = np.concatenate([[0.0], np.geomspace(0.2 / prompts, 0.5, 14)])
    held = []
    for p, q in product(shares, shares):
        if p <= q or p + q >= 1.0:
            continue
        law = multinomial.pmf(np.stack([a, b, prompts - a - b], axis=1), prompts, [p, q, 1.0 - p - q])
        held.append(float(law[(low <= p - q) & (high >= p - q)].sum()))
    assert min(held) >= least - 0.0005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "prompts", "n"),
    [
        ("0.02 at 1 to .5", 200, 8),
        ("0.1 at .3 to 0", 50, 8),
        ("0.1 at 0 to .5, rest 0.5", 20, 8),
        ("Beta(.05, .05) softer .6", 200, 4),
        ("same Beta(.05, .05)", 50, 4),
    ],
)
def test_coverage_in_hard_cases(name: str, prompts: int, n: int) -> None:
    """At least .93 of 95 % limits hold; 2,000 pilots, false alarm under 1e-6 at a true coverage of .95, and a true
    coverage of .89 is found with 99.9 %."""
    targets = {g: truth(POPULATIONS[name], g, 500_000) for g in SIZES if g <= n}
    for held, _ in coverage(POPULATIONS[name], prompts, n, targets, 2000, 7).values():
        assert held >= 0.93 - 0.0075


def test_the_coverage_table_holds_what_the_theory_says() -> None:
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["population"] for row in rows} == set(POPULATIONS)
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    for column, level, least in (("coverage95", 95, 0.93), ("coverage99", 99, 0.98)):
        held = np.array([float(row[column]) for row in rows])
        assert held.min() >= least
        shown = f"at {level} % at least {held.min():.3f}, median {np.median(held):.3f}".replace(" 0.", " .")
        assert shown in theory


def test_the_difference_is_unbiased_and_pairing_narrows_it() -> None:
    rng = np.random.default_rng(11)
    p = rng.beta(0.4, 0.6, 300)
    q = warmer(p, 0.7)
    wanted = float(np.mean(q**4 + (1 - q) ** 4 - p**4 - (1 - p) ** 4))
    first, second = (kernels(rng, np.broadcast_to(r, (1500, 300)), 6, 4) for r in (p, q))
    assert_mean((second - first).mean(axis=1), wanted, catches=0.005)
    ones = np.ones(300, dtype=np.int64)
    for a, b in zip(first[:10], second[:10], strict=True):
        sides = mean_interval(a, ones, 0.95), mean_interval(b, ones, 0.95)
        assert unpaired_difference(*sides, 0.95, prompts=300).width > 1.2 * paired_difference(b - a, 0.95).width


def test_unpaired_limits_cover() -> None:
    """Two separate samples, 95 %: 1,500 pilots of 100 prompts; false alarm under 1e-6, .91 is found with 99.9 %."""
    rng = np.random.default_rng(12)
    held, ones = 0, np.ones(100, dtype=np.int64)
    grid = np.random.default_rng(1).beta(0.3, 0.5, 1_000_000)
    there = warmer(grid, 0.6)
    wanted = float(np.mean(there**4 + (1 - there) ** 4 - grid**4 - (1 - grid) ** 4))
    shape = 1500, 100
    first, second = (
        kernels(rng, rng.beta(0.3, 0.5, shape), 4, 4),
        kernels(rng, warmer(rng.beta(0.3, 0.5, shape), 0.6), 4, 4),
    )
    for a, b in zip(first, second, strict=True):
        d = unpaired_difference(mean_interval(a, ones, 0.95), mean_interval(b, ones, 0.95), 0.95, prompts=100)
        held += d.low <= wanted <= d.high
    assert binomtest(held, 1500, 0.95, alternative="less").pvalue > 1e-6


# verdicts -----------------------------------------------------------------------------------------------------------


def test_no_difference_is_called_cannot_tell() -> None:
    """Four temperatures, one set of pass rates: some interval excludes 0 in at most 5 % of 3,000 pilots (false alarm
    1e-6). Without Bonferroni it is about 11 %, which is found for certain."""
    rng = np.random.default_rng(13)
    p = rng.beta(0.5, 0.7, (3000, 100))
    start = kernels(rng, p, 4, 4)
    wrong = np.zeros(3000, dtype=bool)
    for _ in range(3):
        low, high = limits(kernels(rng, p, 4, 4) - start, 1.0 - 0.05 / 3.0)
        wrong |= (low > 0.0) | (high < 0.0)
    assert binomtest(int(wrong.sum()), 3000, 0.05, alternative="greater").pvalue > 1e-6
    for seed in range(8):  # the plan decides by exactly these limits
        plan = plan_temperature(
            simulated(np.random.default_rng(seed), dict.fromkeys((0.6, 0.8, 1.0, 1.2), p[seed]), 4), group_size=4
        )
        found = [d.dead for d in plan.differences if d.dead is not None]
        assert [d.level for d in found] == pytest.approx([1.0 - 0.05 / 3.0] * 3)
        told = any(d.high < 0.0 for d in found) or all(d.low > 0.0 for d in found)
        assert told == (plan.verdict is not TemperatureVerdict.CANNOT_TELL) == (plan.recommended is not None)
        assert all((d.needed is None) == bool(d.dead and d.dead.excludes_zero) for d in plan.differences)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 8])
def test_a_true_difference_is_found_with_the_stated_power(n: int) -> None:
    """Eq. 58: at the proposed M the interval excludes 0 in 80 %. 1,500 pilots: .76 to .84 (4 standard errors of .01)."""
    rng = np.random.default_rng(14)
    grid = rng.beta(0.4, 0.6, 400_000)
    d = kernels(rng, warmer(grid, 0.75), n, 4) - kernels(rng, grid, n, 4)
    size = prompts_to_detect(float(d.mean()), float(np.mean(d**2)), level=0.95, power=0.8)
    p = rng.beta(0.4, 0.6, (1500, size))
    _, high = limits(kernels(rng, warmer(p, 0.75), n, 4) - kernels(rng, p, n, 4))
    assert 0.76 <= float(np.mean(high < 0.0)) <= 0.84


def test_a_large_difference_changes_the_temperature_and_shows_its_price() -> None:
    rng = np.random.default_rng(15)
    p = rng.beta(0.3, 0.5, 800)
    plan = plan_temperature(simulated(rng, {0.6: warmer(p, 2.0), 1.0: p, 1.3: 0.9 * warmer(p, 0.6)}, 8))
    assert plan.verdict is TemperatureVerdict.CHANGE
    assert plan.recommended == 1.3
    assert "T = 1.3 has fewer dead groups at G = 8 than T = 1" in plan.reason
    warm = plan.differences[1]
    assert warm.pass_rate.high < 0.0
    assert warm.needed is None
    assert plan.differences[0].dead is not None
    assert plan.differences[0].dead.low > 0.0
    assert [d.dead.level for d in plan.differences if d.dead] == pytest.approx([0.975, 0.975])
    cooler = plan_temperature(simulated(rng, {0.6: warmer(p, 2.0), 1.0: p}, 8))
    assert (cooler.verdict, cooler.recommended) == (TemperatureVerdict.KEEP, 1.0)


def test_the_recommendation_names_what_speaks_against_it() -> None:
    """Prompts go from .5 to .9: at G = 16 as good as never dead either way, but less signal; others leave 0."""
    k0, k1 = [8] * 50 + [0] * 50, [14] * 50 + [1] * 50
    plan = plan_temperature(two(k0, k1, 16), group_size=16)
    assert plan.recommended == 0.6
    assert plan.reason.endswith("But its signal E[p(1-p)] is smaller.")
    assert plan_temperature(two(k0, k1, 16), group_size=16, objective="signal").recommended == 1.0


def test_the_size_of_the_next_pilot() -> None:
    """About M (z_level + z_power)^2 / z^2; the smallest difference of interest where none is seen."""
    rng = np.random.default_rng(16)
    p = rng.beta(0.4, 0.6, 200)
    plan = plan_temperature(simulated(rng, {1.0: p, 0.9: p}, 8), smallest_difference=0.02, power=0.9)
    (need,) = [d.needed for d in plan.differences]
    d = plan.differences[0].dead
    assert need is not None
    assert d is not None
    assert need.observed == (abs(d.value) >= 0.02)
    assert need.prompts == prompts_to_detect(need.difference, d.scatter, level=0.95, power=0.9)
    assert need.rollouts == need.prompts * 16
    assert abs(need.difference) >= 0.02


def test_beyond_n_nothing_is_decided() -> None:
    k0, k1 = [4] * 60 + [0] * 60, [2] * 60 + [0] * 60
    plan = plan_temperature(two(k0, k1, 4), group_size=8)
    (d,) = plan.differences
    assert plan.verdict is TemperatureVerdict.CANNOT_TELL
    assert not d.counted
    assert d.dead is not None
    assert d.measured_group_size == 4
    assert d.measured_dead is not None
    assert d.measured_dead.excludes_zero
    assert "counted up to G = 4 only" in plan.reason
    assert d.needed is not None
    assert d.needed.rollouts_per_prompt == 8
    assert plan_temperature(two(k0, k1, 4), group_size=4).recommended == 0.6
    assert plan_temperature(two(k0, k1, 4), group_size=8, objective="signal").recommended == 0.6


# pairing ------------------------------------------------------------------------------------------------------------


def test_without_names_it_is_the_unpaired_comparison() -> None:
    """Names removed, or disjoint: square-and-add of the two means; said, and wider."""
    rng = np.random.default_rng(17)
    p = rng.beta(0.3, 0.5, 200)
    paired = simulated(rng, {1.0: p, 0.6: warmer(p, 1.3)}, 8)
    nameless = Pilot.from_counts(paired.successes, paired.rollouts, temperature=paired.temperature)
    disjoint = Pilot.from_counts(
        paired.successes, paired.rollouts, temperature=paired.temperature, prompt_id=np.arange(400)
    )
    a, b = (dead_share(paired.select(temperature=t).successes, 8, 8) for t in (1.0, 0.6))
    ones = np.ones(200, dtype=np.int64)
    wanted = unpaired_difference(mean_interval(a, ones, 0.95), mean_interval(b, ones, 0.95), 0.95, prompts=200)
    with_pairs = plan_temperature(paired).differences[0]
    assert with_pairs.dead is not None
    for pilot in (nameless, disjoint):
        plan = plan_temperature(pilot)
        d = plan.differences[0]
        assert d.dead is not None
        assert (d.dead.value, d.dead.low, d.dead.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
        assert not d.paired
        assert d.movement is None
        assert d.paired_width is not None
        assert 0.4 < d.paired_width < 1.0
        assert any("share too few named prompts" in note for note in plan.notes)
    assert with_pairs.unpaired_width is not None
    assert with_pairs.unpaired_width == pytest.approx(wanted.width / with_pairs.dead.width)
    assert with_pairs.unpaired_width > 1.2
    shuffled = rng.permutation(200)
    broken = paired_difference((b[shuffled] - a), 0.95)
    assert broken.width == pytest.approx(wanted.width, rel=0.06)


def test_missing_prompts_other_n_and_repeats_are_counted() -> None:
    ids: Any = ["a", "b", "c", "d", "a", "b", "c", "c", "e", None]
    t = [1.0] * 4 + [0.6] * 6
    pilot = Pilot.from_counts(
        [2, 4, 0, 1, 1, 3, 0, 1, 2, 1], [4, 4, 4, 4, 2, 8, 2, 2, 4, 4], prompt_id=ids, temperature=t
    )
    plan = plan_temperature(pilot, group_size=2)
    (d,) = plan.differences
    assert (d.paired, d.prompts, d.only_baseline, d.only_here) == (True, 3, 1, 2)
    assert any("1 row of prompts seen before" in note for note in plan.notes)
    assert any("3 common prompts; 1 only at 1 and 2 only at 0.6" in note for note in plan.notes)
    wanted = [
        symbolic.u_statistic(1, 2, 2) - symbolic.u_statistic(2, 4, 2),
        symbolic.u_statistic(3, 8, 2) - symbolic.u_statistic(4, 4, 2),
        symbolic.u_statistic(1, 4, 2) - symbolic.u_statistic(0, 4, 2),  # 0 of 2 and 1 of 2, added up
    ]
    assert d.dead is not None
    assert d.dead.value == pytest.approx(float(sum(wanted)) / 3)


def test_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(18)
    p = rng.beta(0.3, 0.5, 100)
    pilot = simulated(rng, {1.0: p, 0.6: p}, 4)
    order = rng.permutation(200)
    assert pilot.prompt_id is not None
    assert pilot.temperature is not None
    other = Pilot.from_counts(
        pilot.successes[order], 4, prompt_id=pilot.prompt_id[order], temperature=pilot.temperature[order]
    )
    one, two_ = (plan_temperature(x, group_size=4).differences[0].dead for x in (pilot, other))
    assert one is not None
    assert two_ is not None
    assert (one.value, one.low, one.high) == pytest.approx((two_.value, two_.low, two_.high))


def test_one_pilot_a_temperature_is_the_same_as_one_table() -> None:
    pilot = two([4, 3, 2, 0] * 20, [2, 3, 1, 0] * 20, 4)
    parts = {t: pilot.select(temperature=t) for t in (0.6, 1.0)}
    one, other = plan_temperature(pilot, group_size=4), plan_temperature(parts, group_size=4)
    assert one.differences[0].dead == other.differences[0].dead
    bare = {t: Pilot.from_counts(x.successes, 4, prompt_id=x.prompt_id) for t, x in parts.items()}
    assert plan_temperature(bare, group_size=4).differences[0].dead == one.differences[0].dead
    rows = {
        t: Pilot.from_counts(x.successes, 4, prompt_id=[f"row {i + 1}" for i in range(80)]) for t, x in parts.items()
    }
    assert not plan_temperature(rows, group_size=4).differences[0].paired  # row numbers of two files name nothing


# inputs -------------------------------------------------------------------------------------------------------------


def test_default_baseline() -> None:
    pilot = Pilot.from_counts([1] * 6, 4, prompt_id=["a", "b"] * 3, temperature=[0.6, 0.6, 0.9, 0.9, 1.4, 1.4])
    assert plan_temperature(pilot).baseline == 0.9
    assert plan_temperature(pilot, baseline=1.4).baseline == 1.4
    assert nearest_to_one([0.0, 2.0]) == 0.0


@pytest.mark.parametrize(
    ("k0", "k1", "n"),
    [([0] * 40, [0] * 40, 8), ([0] * 40, [4] * 40, 8), ([8] * 40, [8] * 40, 8), ([1] * 40, [0] * 40, 1), ([3], [5], 8)],
)
def test_dead_and_tiny_pilots_are_answered(k0: list[int], k1: list[int], n: int) -> None:
    plan = plan_temperature(two(k0, k1, n))
    (d,) = plan.differences
    assert np.isfinite([d.pass_rate.low, d.pass_rate.high]).all()
    if n == 1:
        assert d.dead is None
        assert d.measured_group_size is None
        assert d.reward_variance is None
        assert "single rollouts make no group" in plan.reason
        assert plan.verdict is TemperatureVerdict.CANNOT_TELL
    else:
        assert d.dead is not None
        assert d.dead.width > 0.0
    if k1 == [4] * 40:
        assert plan.recommended == 0.6
    if k0 == k1:
        assert plan.verdict is TemperatureVerdict.CANNOT_TELL


def test_unknown_temperatures_are_left_out_and_close_ones_are_one() -> None:
    t = [1.0, 1.0, float(np.float32(0.7)), 0.7, np.nan]
    pilot = Pilot.from_counts([1, 2, 3, 0, 4], 4, prompt_id=["a", "b", "a", "b", "c"], temperature=t)
    plan = plan_temperature(pilot, group_size=4)
    assert [at.temperature for at in plan.temperatures] == [0.7, 1.0]
    assert plan.notes[0] == "1 prompt of unknown temperature left out."
    greedy = plan_temperature(two([1, 2], [4, 0], 4, (1.0, 0.0)), group_size=4)
    assert any("greedy" in note for note in greedy.notes)


PILOT = two([1, 2], [3, 4], 4)


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (Pilot.from_counts([1, 2], 4), {}, gp.PilotError, "the pilot names none"),
        (Pilot.from_counts([1, 2], 4, temperature=np.nan), {}, gp.PilotError, "the pilot names none"),
        (Pilot.from_counts([1, 2], 4, temperature=0.7), {}, gp.PilotError, r"two or more temperatures; got 1 \(0.7\)"),
        (Pilot.from_counts([1, 2], 4, temperature=[-0.7, 1.0]), {}, gp.PilotError, "temperature must be at least 0; got -0.7"),
        ({0.7: PILOT.select(temperature=0.6), 1.0: PILOT}, {}, gp.PilotError, "given for temperature 0.7 holds rollouts at 0.6"),
        ({1.0: Pilot.from_counts([1], 4)}, {}, gp.PilotError, "got 1"),
        ({}, {}, gp.PilotError, r"got 0 \(none\)"),
        ({"0.7": PILOT}, {}, gp.DomainError, "temperature must be a finite number, the key of its pilot; got '0.7'"),
        ({0.7: [1, 2]}, {}, gp.DomainError, "must be a Pilot; got list"),
        ([1, 2], {}, gp.DomainError, "pilot must be a Pilot; got list"),
        (PILOT, {"baseline": 0.8}, gp.DomainError, "baseline must be one of the pilot's temperatures, 0.6, 1; got 0.8"),
        (PILOT, {"baseline": "1"}, gp.DomainError, "baseline must be a number"),
        (PILOT, {"group_size": 1}, gp.DomainError, "group_size must be at least 2"),
        (PILOT, {"objective": "pass@1"}, gp.DomainError, "objective must be one of dead, signal"),
        (PILOT, {"level": 95}, gp.DomainError, "level must lie strictly between 0 and 1"),
        (PILOT, {"power": 1.0}, gp.DomainError, "power must lie strictly between 0 and 1"),
        (PILOT, {"smallest_difference": 0}, gp.DomainError, "smallest_difference must be finite and above 0"),
        (PILOT, {"smallest_difference": 3}, gp.DomainError, "smallest_difference must be at most 0.5"),
    ],
)  # fmt: skip
def test_refusals(source: object, options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        plan_temperature(source, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# counts of dead groups ----------------------------------------------------------------------------------------------


def test_dead_counts_that_differ_and_that_do_not() -> None:
    found = compare_dead_counts({0.6: (60, 100), 1.0: (20, 100), 1.2: (22, 100)})
    assert found.verdict is TemperatureVerdict.CANNOT_TELL
    assert found.differences[0.6].low > 0.0
    assert compare_dead_counts({0.6: (20, 100), 1.0: (60, 100)}).recommended == 0.6
    assert compare_dead_counts({0.6: (60, 100), 1.0: (20, 100)}).verdict is TemperatureVerdict.KEEP
    assert compare_dead_counts({0.6: (0, 10), 1.0: (0, 10)}).differences[0.6].width > 0.0


def test_scattered_steps_widen_the_limits() -> None:
    even = [(5, 10)] * 20
    wild = [(0, 10), (10, 10)] * 10
    assert design_effect(np.array(even, dtype=float)) == 1.0
    assert design_effect(np.array(wild, dtype=float)) == pytest.approx(10 * 20 / 19)
    narrow, wide = (compare_dead_counts({0.6: rows, 1.0: even}).differences[0.6] for rows in (even, wild))
    assert wide.width > 1.5 * narrow.width


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({0.6: (3, 2), 1.0: (1, 2)}, "dead = 3 of 2 groups"),
        ({0.6: (0, 0), 1.0: (1, 2)}, "at least one group"),
        ({0.6: (1.5, 2), 1.0: (1, 2)}, "whole numbers"),
        ({0.6: (np.nan, 2), 1.0: (1, 2)}, "whole numbers"),
        ({0.6: 3, 1.0: (1, 2)}, "must be"),
        ({0.6: "x", 1.0: (1, 2)}, "must be numbers"),
        ({"a": (1, 2), 1.0: (1, 2)}, "temperature must be a number"),
        ({1.0: (1, 2)}, "two or more"),
        ([(1, 2)], "must map temperatures"),
    ],
)
def test_bad_counts(counts: object, message: str) -> None:
    with pytest.raises(gp.GrpoPlanError, match=message):
        compare_dead_counts(counts)  # type: ignore[arg-type]


def test_a_published_sweep_cannot_tell(real_data: Path) -> None:
    """Qwen3-8B, five temperatures, two groups of 8 a step: no trend, whatever part of the runs is taken."""
    sweep = json.loads((real_data / LOG).read_text(encoding="utf-8"))["temperature_sweep"]
    for steps in (slice(None), slice(20, None), slice(0, 10)):
        counts = {run["temperature"]: [(round(2 * row["zvf"]), 2) for row in run["step_log"][steps]] for run in sweep}
        assert len(counts) == 5
        found = compare_dead_counts(counts)
        assert found.verdict is TemperatureVerdict.CANNOT_TELL
        assert found.recommended is None
    everything = {run["temperature"]: (sum(round(2 * r["zvf"]) for r in run["step_log"]), 60) for run in sweep}
    assert everything == {0.2: (17, 60), 0.4: (21, 60), 0.6: (21, 60), 0.8: (14, 60), 1.0: (18, 60)}
    assert compare_dead_counts(everything).recommended is None


def test_a_plan_prints_no_arrays() -> None:
    plan = plan_temperature(PILOT, group_size=4)
    assert isinstance(plan, TemperaturePlan)
    assert len(repr(plan)) < 600
