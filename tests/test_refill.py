"""Refill: laws of prompts and rounds against exact sums, enumeration, SciPy and simulation; requests that cannot be met."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nbinom, nhypergeom

from grpo_plan import symbolic as eq
from grpo_plan.batches import Refill, RefillStatus, capping, compare_sampling, refill
from grpo_plan.batches.capping import capped_rounds
from grpo_plan.batches.refilling import any_of, batch_multiplier_for
from grpo_plan.batches.tails import binomial_pmf, binomial_split, hypergeometric_split
from grpo_plan.batches.waiting import (
    EndlessPrompts,
    FinitePrompts,
    Waiting,
    fewest_prompts,
    prompts_summary,
    summed_rounds,
)
from grpo_plan.cli.refill_text import print_refill
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.passrates import BetaPassRates
from tests.conftest import pilot_of
from tests.helpers import assert_mean, assert_precise, assert_rate

SHARES = st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.4392, 0.5, 0.9, 0.999])


# tails -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 60])
@pytest.mark.parametrize("p", [Fraction(1, 10**9), Fraction(1, 3), Fraction(1, 2), Fraction(999, 1000)])
def test_binomial_tails_are_exact_sums(n: int, p: Fraction) -> None:
    law = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    for k in range(n + 1):
        assert_precise(binomial_pmf(n, k, float(p), float(1 - p)), law[k], rel=1e-11)
    for wanted in range(n + 2):
        below, reached = binomial_split(n, wanted, float(p), float(1 - p))
        small, large = sorted([(below, sum(law[:wanted])), (reached, sum(law[wanted:]))], key=lambda x: x[1])
        assert large[0] == pytest.approx(float(large[1]), rel=1e-11)
        if float(small[1]) > 1e-12:
            assert small[0] == pytest.approx(float(small[1]), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "wanted", "p"),
    [(1920, 300, 0.56), (128, 20, 0.56), (50_000, 200, 1e-3), (3000, 2990, 0.9999), (200, 128, 0.1)],
)
def test_far_tails_keep_their_digits(n: int, wanted: int, p: float) -> None:
    with mpmath.workdps(60):
        m = mpmath.mpf(p)
        law = [mpmath.binomial(n, k) * m**k * (1 - m) ** (n - k) for k in range(n + 1) if abs(k - wanted) < 900]
        first = max(0, wanted - 899)
        below = mpmath.fsum(law[: wanted - first])
        reached = mpmath.fsum(law[wanted - first :])
    got = binomial_split(n, wanted, p, 1.0 - p)
    assert_precise(min(got), min(below, reached), rel=1e-10)
    assert min(got) < 1e-9


@pytest.mark.parametrize(("prompts", "mixed"), [(1, 1), (7, 3), (20, 20), (40, 11), (60, 59)])
def test_hypergeometric_tails_are_exact_sums(prompts: int, mixed: int) -> None:
    for drawn in range(prompts + 1):
        ways = [math.comb(mixed, k) * math.comb(prompts - mixed, drawn - k) for k in range(min(mixed, drawn) + 1)]
        for wanted in range(mixed + 2):
            below, reached = hypergeometric_split(prompts, mixed, drawn, wanted)
            exact = Fraction(sum(ways[:wanted]), math.comb(prompts, drawn))
            assert below == pytest.approx(float(exact), rel=1e-10, abs=1e-14)
            assert below + reached == pytest.approx(1.0, abs=1e-12)


# prompts drawn at random (eq. 52 and 53) ---------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "mixed"), [(1, sp.Rational(1, 2)), (3, sp.Rational(2, 5)), (5, sp.Rational(9, 10))])
def test_eq_52_is_the_law_of_the_nth_mixed_group(wanted: int, mixed: sp.Rational) -> None:
    law = EndlessPrompts(wanted=wanted, dead=float(1 - mixed))
    chances = [eq.prompts_until_filled_pmf(t, wanted, mixed) for t in range(1, 12)]
    for t in range(1, 12):
        assert 1 - sum(chances[:t]) == eq.not_filled(t, wanted, mixed)
        assert law.beyond(t) == pytest.approx(float(eq.not_filled(t, wanted, mixed)), rel=1e-11)
    z = sp.symbols("z")
    generating = eq.prompts_generating_function(wanted, mixed, z)
    series = sp.series(generating, z, 0, 12).removeO()
    assert [series.coeff(z, t) for t in range(1, 12)] == chances
    mean = sp.diff(generating, z).subs(z, 1)
    assert sp.simplify(mean - eq.prompts_until_filled_mean(wanted, mixed)) == 0
    second = sp.diff(generating, z, 2).subs(z, 1) + mean - mean**2
    assert sp.simplify(second - eq.prompts_until_filled_variance(wanted, mixed)) == 0
    assert law.mean == pytest.approx(float(mean))
    assert law.variance == pytest.approx(float(second))


@pytest.mark.parametrize(
    ("wanted", "size", "mixed"), [(1, 2, (1, 2)), (3, 4, (2, 5)), (2, 5, (1, 10)), (4, 3, (9, 10))]
)
def test_eq_53_is_the_sum_of_the_tails(wanted: int, size: int, mixed: tuple[int, int]) -> None:
    m = sp.Rational(*mixed)
    reach = 700
    tails = [float(nbinom.sf(r * size - wanted, wanted, float(m))) for r in range(reach)]
    mean, square = sum(tails), sum((2 * r + 1) * t for r, t in enumerate(tails))
    exact_mean = complex(sp.N(eq.rounds_mean(wanted, m, size), 30))
    exact_square = complex(sp.N(eq.rounds_second_moment(wanted, m, size), 30))
    assert exact_mean == pytest.approx(mean, rel=1e-11)
    assert exact_square == pytest.approx(square, rel=1e-10)
    got = EndlessPrompts(wanted=wanted, dead=float(1 - m)).rounds(size)
    assert got.mean == pytest.approx(mean, rel=1e-11)
    assert got.variance == pytest.approx(square - mean**2, rel=1e-8)
    assert got.surplus == pytest.approx(float(eq.surplus_mixed(wanted, m, size, mean)), abs=1e-10)
    assert got.prompts_mean == pytest.approx(mean * size, rel=1e-11)


@settings(max_examples=50)
@given(wanted=st.integers(1, 300), dead=st.sampled_from([0.2, 0.5, 0.9, 0.99]), size=st.integers(1, 400))
def test_both_ways_to_sum_rounds_agree(wanted: int, dead: float, size: int) -> None:
    law = EndlessPrompts(wanted=wanted, dead=dead)
    t = np.arange(wanted, wanted + int(law.mean + 60 * law.variance**0.5 + 60))
    weights = nbinom.pmf(t - wanted, wanted, 1 - dead)
    rounds = np.ceil(t / size)
    mean = float(weights @ rounds)
    variance = float(weights @ (rounds - mean) ** 2)
    got = law.rounds(size)
    assert got.mean == pytest.approx(mean, rel=1e-9)
    assert got.variance == pytest.approx(variance, rel=1e-6, abs=1e-9)
    by_frequency = law._rounds_by_frequency(size)
    assert by_frequency[0] == pytest.approx(mean, rel=1e-9)
    assert by_frequency[1] == pytest.approx(variance, rel=1e-6, abs=1e-8)


def test_surplus_is_what_is_left_of_the_last_batch() -> None:
    """Every outcome of two rounds of 3 prompts with 2 wanted: the second round is drawn only if the first is short."""
    m = Fraction(2, 5)
    one = [math.comb(3, k) * m**k * (1 - m) ** (3 - k) for k in range(4)]

    def ahead(have: int, depth: int) -> Fraction:
        if have >= 2:
            return Fraction(have - 2)
        if depth == 0:
            return Fraction(0)
        return sum((one[k] * ahead(have + k, depth - 1) for k in range(4)), Fraction(0))

    got = EndlessPrompts(wanted=2, dead=float(1 - m)).rounds(3).surplus
    assert got == pytest.approx(float(ahead(0, 60)), rel=1e-9)


@given(wanted=st.integers(1, 2000), dead=SHARES, tail=st.sampled_from([0.95, 0.5, 0.05, 1e-6]))
def test_quantiles_are_the_least_that_suffice(wanted: int, dead: float, tail: float) -> None:
    law = EndlessPrompts(wanted=wanted, dead=dead)
    t = fewest_prompts(law, tail)
    assert law.beyond(t) <= tail * (1 + 1e-9)
    assert t == wanted or law.beyond(t - 1) > tail
    if tail > 1e-3:
        assert t == wanted + nbinom.ppf(1 - tail * (1 + 1e-9), wanted, 1 - dead)  # SciPy misses exact ties


@given(
    wanted=st.integers(1, 500),
    dead=st.floats(0.0, 0.999),
    more=st.floats(0.0, 0.9),
    size=st.integers(1, 600),
    prompts=st.integers(0, 5000),
)
def test_more_dead_groups_take_more_of_everything(
    wanted: int, dead: float, more: float, size: int, prompts: int
) -> None:
    worse = dead + more * (0.9995 - dead)
    low, high = EndlessPrompts(wanted=wanted, dead=dead), EndlessPrompts(wanted=wanted, dead=worse)
    assert low.mean <= high.mean
    assert low.beyond(prompts) <= high.beyond(prompts) * (1 + 1e-9) + 1e-15
    assert low.beyond(prompts + 1) <= low.beyond(prompts) * (1 + 1e-9) + 1e-15
    a, b = low.rounds(size), high.rounds(size)
    assert a.mean <= b.mean * (1 + 1e-9)
    assert fewest_prompts(low, 0.05) <= fewest_prompts(high, 0.05)
    for law, rounds in ((low, a), (high, b)):
        assert rounds.surplus >= -1e-9
        assert rounds.surplus <= size
        assert rounds.prompts_mean >= law.mean * (1 - 1e-9)
        assert rounds.variance >= 0.0


@pytest.mark.parametrize(
    ("wanted", "dead"),
    [(10**6, 0.44), (10**6, 1 - 1e-6), (128, 1 - 1e-15), (1, 1 - 2**-53), (10**9, 1e-12), (10**9, 0.5)],
)
def test_extremes_stay_exact(wanted: int, dead: float) -> None:
    law = EndlessPrompts(wanted=wanted, dead=dead)
    summary, rounds = prompts_summary(law), law.rounds(wanted)
    assert summary.p05 <= summary.p50 <= summary.p95
    near = (summary.p95 - law.mean) / max(summary.sd, 1.0)
    assert -0.01 < near < 3.1
    assert all(math.isfinite(x) for x in (rounds.mean, rounds.variance, rounds.surplus, summary.sd))
    assert rounds.mean >= law.mean / wanted * (1 - 1e-12)
    assert rounds.mean <= law.mean / wanted + 1
    t = int(law.mean)
    assert 0.3 < law.beyond(t) < 0.7 or dead < 1e-9 or wanted == 1


def test_no_dead_groups_take_no_refill() -> None:
    law = EndlessPrompts(wanted=128, dead=0.0)
    assert law.beyond(128) == 0.0
    assert law.beyond(127) == 1.0
    assert law.last == 128
    assert prompts_summary(law).p95 == 128
    assert law.rounds(50).mean == 3.0
    assert law.rounds(50).surplus == 22.0


# caps (eq. 139) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "size", "cap"), [(2, 3, 1), (2, 3, 3), (3, 2, 2), (1, 2, 4), (4, 2, 1), (5, 6, 2)])
@pytest.mark.parametrize("m", [Fraction(2, 5), Fraction(9, 10)])
def test_eq_139_against_every_outcome(wanted: int, size: int, cap: int, m: Fraction) -> None:
    """Round after round, each with every number of mixed groups that it can hold."""
    one = [math.comb(size, k) * m**k * (1 - m) ** (size - k) for k in range(size + 1)]
    ended: list[tuple[Fraction, int, int]] = []  # chance, rounds, mixed groups drawn
    going = [(Fraction(1), 0)]
    for r in range(1, cap + 1):
        drawn = [(chance * one[k], have + k) for chance, have in going for k in range(size + 1)]
        ended += [(chance, r, have) for chance, have in drawn if have >= wanted or r == cap]
        going = [(chance, have) for chance, have in drawn if have < wanted]
    mean = sum(chance * r for chance, r, _ in ended)
    square = sum(chance * r * r for chance, r, _ in ended)
    held = sum(chance * min(wanted, have) for chance, _, have in ended)
    surplus = sum(chance * max(0, have - wanted) for chance, _, have in ended)
    ratio = sp.Rational(m.numerator, m.denominator)
    for expression, value in (
        (eq.capped_rounds_mean(wanted, ratio, size, cap), mean),
        (eq.capped_rounds_square(wanted, ratio, size, cap), square),
        (eq.capped_mixed(wanted, ratio, size * cap), held),
    ):
        assert expression == sp.Rational(value.numerator, value.denominator)
    got = capped_rounds(EndlessPrompts(wanted=wanted, dead=float(1 - m)), size, cap)
    assert got.mean == pytest.approx(float(mean), rel=1e-12)
    assert got.variance == pytest.approx(float(square - mean**2), abs=1e-12)
    assert got.kept == pytest.approx(float(held), rel=1e-12)
    assert got.surplus == pytest.approx(float(surplus), abs=1e-12)
    assert got.prompts_mean == got.mean * size


@pytest.mark.parametrize(
    ("prompts", "mixed", "wanted", "size", "cap"), [(8, 3, 2, 3, 1), (8, 3, 3, 2, 2), (7, 7, 5, 3, 1), (9, 5, 4, 4, 2)]
)
def test_eq_139_of_a_set_against_every_order(prompts: int, mixed: int, wanted: int, size: int, cap: int) -> None:
    found = []
    for places in combinations(range(1, prompts + 1), mixed):
        rounds = min(cap, -(-places[wanted - 1] // size))
        have = sum(place <= min(rounds * size, prompts) for place in places)
        found.append((rounds, min(rounds * size, prompts), min(wanted, have), max(0, have - wanted)))
    means = np.mean(found, axis=0)
    got = capped_rounds(FinitePrompts(wanted=wanted, prompts=prompts, mixed=mixed), size, cap)
    assert [got.mean, got.prompts_mean, got.kept, got.surplus] == pytest.approx(means.tolist(), rel=1e-9, abs=1e-12)


def test_simulated_capped_steps(example_fit: PassRateFit) -> None:
    """The example, 128 mixed groups of 8 within one round of 192, and within three rounds of 77."""
    rng = np.random.default_rng(3)
    for size, cap in ((192, 1), (77, 3)):
        plan = refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=size, max_rounds=cap)
        at = plan.at_value
        have = rng.binomial(size, 1.0 - at.dead_fraction, (40_000, cap)).cumsum(axis=1)
        held = np.minimum(128, have[:, -1])
        assert_mean(held.astype(float), at.mixed_groups, catches=0.3)
        assert at.rollouts.mean <= 8 * size * cap
        with pytest.raises(AssertionError, match="z ="):  # a step that is always full
            assert_mean(held.astype(float), 128.0, catches=0.3)
        fixed, refilled = compare_sampling(example_fit, plan)[:2]
        assert refilled.rollouts_per_group is not None
        assert fixed.rollouts_per_group is not None
        assert refilled.rollouts_per_group.value == pytest.approx(at.rollouts.mean / at.mixed_groups)
        assert refilled.rollouts_per_group.value >= fixed.rollouts_per_group.value * (1 - 1e-9)


def test_many_rounds_within_a_cap_are_summed_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    law = EndlessPrompts(wanted=20_000, dead=0.9)
    cap = int(law.mean) + 300
    quick = capped_rounds(law, 1, cap)
    assert quick.mean == pytest.approx(quick.kept / law.mixed, rel=1e-9)  # of single prompts none is surplus
    monkeypatch.setattr(capping, "MOST_TERMS", 10**9)
    slow = capped_rounds(law, 1, cap)
    assert quick.mean == pytest.approx(slow.mean, rel=1e-10)
    assert quick.variance == pytest.approx(slow.variance, rel=1e-6)


def test_a_cap_is_in_all_that_a_refill_says(example_fit: PassRateFit, capsys: pytest.CaptureFixture[str]) -> None:
    """One round of 192 prompts is 1,536 rollouts, whatever filling the step would take."""
    options = {"prompts_per_step": 128, "group_size": 8, "max_rounds": 1}
    plan = refill(example_fit, batch_multiplier=1.5, **options)
    assert (plan.at_value.rounds.mean, plan.at_value.rollouts.mean) == (1.0, 1536.0)
    assert plan.at_value.mixed_groups == pytest.approx(192 * (1 - plan.at_value.dead_fraction), abs=0.01)
    assert plan.at_value.rounds_to_fill == 2
    print_refill(example_fit, plan, [plan], compare_sampling(example_fit, plan), 0.95)
    shown = " ".join(capsys.readouterr().out.split())
    assert "draw 1.50x in batches of 192, 1 round in 95 % of steps, which hold 108 [102, 113] of 128" in shown
    assert "1,536 rollouts a step, of which 861 (56%)" in shown
    free = refill(example_fit, batch_multiplier=1.5, prompts_per_step=128, group_size=8)
    assert free.at_value.mixed_groups == 128.0
    loose = refill(example_fit, batch_multiplier=1.5, prompts_per_step=128, group_size=8, max_rounds=50)
    assert loose.at_value.rollouts.mean == pytest.approx(free.at_value.rollouts.mean, rel=1e-12)


# finite sets (eq. 54) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompts", "mixed", "wanted", "size"), [(8, 3, 2, 3), (8, 3, 3, 2), (9, 4, 1, 4), (7, 7, 5, 3), (9, 5, 5, 9)]
)
def test_eq_54_against_every_order(prompts: int, mixed: int, wanted: int, size: int) -> None:
    """Every set of places that the mixed prompts can have."""
    taken, rounds, drawn, surplus = [], [], [], []
    for places in combinations(range(1, prompts + 1), mixed):
        t = places[wanted - 1]
        r = -(-t // size)
        d = min(r * size, prompts)
        taken.append(t)
        rounds.append(r)
        drawn.append(d)
        surplus.append(sum(p <= d for p in places) - wanted)
    count = len(taken)
    law = FinitePrompts(wanted=wanted, prompts=prompts, mixed=mixed)
    for t in range(prompts + 1):
        share = Fraction(sum(x == t for x in taken), count)
        assert eq.finite_prompts_pmf(t, prompts, mixed, wanted) == sp.Rational(share.numerator, share.denominator)
        assert law.beyond(t) == pytest.approx(sum(x > t for x in taken) / count, rel=1e-10, abs=1e-14)
    mean = Fraction(sum(taken), count)
    square = Fraction(sum(x * x for x in taken), count)
    assert eq.finite_prompts_mean(prompts, mixed, wanted) == sp.Rational(mean.numerator, mean.denominator)
    variance = square - mean**2
    assert eq.finite_prompts_variance(prompts, mixed, wanted) == sp.Rational(variance.numerator, variance.denominator)
    assert law.mean == pytest.approx(float(mean))
    assert law.variance == pytest.approx(float(variance), abs=1e-12)
    got = law.rounds(size)
    assert got.mean == pytest.approx(np.mean(rounds))
    assert got.variance == pytest.approx(np.var(rounds), abs=1e-12)
    assert got.prompts_mean == pytest.approx(np.mean(drawn))
    assert got.prompts_variance == pytest.approx(np.var(drawn), abs=1e-12)
    assert got.surplus == pytest.approx(np.mean(surplus), abs=1e-12)
    by_hand = sum(
        eq.finite_prompts_pmf(t, prompts, mixed, wanted)
        * eq.finite_surplus(t, min(-(-t // size) * size, prompts), prompts, mixed, wanted)
        for t in range(wanted, prompts - mixed + wanted + 1)
    )
    assert by_hand == sp.Rational(sum(surplus), count)
    assert summed_rounds(law, size)[0] == pytest.approx(np.mean(rounds))
    for tail in (0.95, 0.5, 0.05):
        least = min(t for t in range(prompts + 1) if sum(x > t for x in taken) / count <= tail)
        assert fewest_prompts(law, tail) == least


@given(prompts=st.integers(1, 3000), mixed=st.integers(1, 3000), wanted=st.integers(1, 3000))
def test_finite_sets_match_scipy_and_are_narrower(prompts: int, mixed: int, wanted: int) -> None:
    mixed = min(mixed, prompts)
    wanted = min(wanted, mixed)
    law = FinitePrompts(wanted=wanted, prompts=prompts, mixed=mixed)
    t, weights = law.pmf()
    assert weights.sum() == pytest.approx(1.0)
    assert float(weights @ t) == pytest.approx(law.mean, rel=1e-9)
    assert float(weights @ (t - law.mean) ** 2) == pytest.approx(law.variance, rel=1e-7, abs=1e-9)
    if prompts <= 300:
        assert weights == pytest.approx(
            nhypergeom.pmf(t - wanted, prompts, prompts - mixed, wanted), rel=1e-6, abs=1e-12
        )
    if mixed < prompts:
        endless = EndlessPrompts(wanted=wanted, dead=1 - mixed / prompts)
        assert law.variance <= endless.variance * (1 + 1e-9)


def test_a_huge_set_is_an_endless_stream() -> None:
    finite = FinitePrompts(wanted=128, prompts=10**7, mixed=5_600_000)
    endless = EndlessPrompts(wanted=128, dead=0.44)
    got, truth = prompts_summary(finite), prompts_summary(endless)
    assert (got.p05, got.p50, got.p95) == (truth.p05, truth.p50, truth.p95)
    assert got.sd == pytest.approx(truth.sd, rel=1e-4)
    assert finite.mean == pytest.approx(endless.mean, rel=1e-6)
    assert finite.rounds(192).mean == pytest.approx(endless.rounds(192).mean, rel=1e-4)
    assert finite.beyond(200) == pytest.approx(endless.beyond(200), rel=1e-3)


# published numbers -------------------------------------------------------------------------------------------------


def test_beta_reference() -> None:
    """Beta(.3, .3), G = 8, 128 wanted: 274.9 prompts on average, 247 to 305 in 9 of 10 steps."""
    law = EndlessPrompts(wanted=128, dead=float(sum(BetaPassRates.from_shape(0.3, 0.3).group_pmf(8)[[0, -1]])))
    summary = prompts_summary(law)
    assert summary.mean == pytest.approx(274.9, abs=0.05)
    assert (summary.p05, summary.p95) == (247.0, 305.0)


@pytest.mark.parametrize(("mixed", "drawn"), [(0.420, 2.38), (0.625, 1.60)])
def test_brorl_prompts_per_kept_group(mixed: float, drawn: float) -> None:
    assert EndlessPrompts(wanted=128, dead=1 - mixed).mean / 128 == pytest.approx(drawn, abs=0.005)


def test_one_shot_first_visit(example_fit: PassRateFit) -> None:
    """1,209 prompts of One-Shot-RLVR: 128 mixed groups of 8 take 228 prompts, 1,826 rollouts."""
    plan = refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=1)
    assert plan.at_value.one_by_one.mean == pytest.approx(228, abs=0.5)
    assert plan.at_value.rollouts.mean == pytest.approx(1826, abs=0.5)
    assert plan.at_value.rounds == plan.at_value.one_by_one
    assert plan.at_value.surplus_mixed_groups == pytest.approx(0.0, abs=1e-9)


# simulation --------------------------------------------------------------------------------------------------------


def simulated(mixed: np.ndarray, wanted: int, size: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounds and surplus of steps filled from generation batches drawn at random from a pilot's own groups."""
    rng = np.random.default_rng(seed)
    rounds, have = np.zeros(steps, dtype=int), np.zeros(steps, dtype=int)
    open_steps = np.arange(steps)
    while open_steps.size:
        batch = mixed[rng.integers(0, mixed.size, (open_steps.size, size))].sum(axis=1)
        rounds[open_steps] += 1
        have[open_steps] += batch
        open_steps = open_steps[have[open_steps] < wanted]
    return rounds, have - wanted


def test_simulated_refills(example_fit: PassRateFit) -> None:
    """20,000 steps of 32 mixed groups from batches of 57, drawn from the pilot's own groups of 8."""
    k = example_fit.pilot.successes
    rounds, surplus = simulated((k > 0) & (k < 8), 32, 57, 20_000, seed=7)
    plan = refill(example_fit, prompts_per_step=32, group_size=8, batch_multiplier=1.78, max_rounds=2)
    at = plan.at_value
    assert_mean(rounds, at.rounds.mean, catches=0.03)
    assert_mean(surplus, at.surplus_mixed_groups, catches=1.0)
    assert at.cap_probability is not None
    assert_rate(
        int((rounds > 1).sum()), rounds.size, EndlessPrompts(wanted=32, dead=at.dead_fraction).beyond(57), catches=0.03
    )
    assert at.rounds.sd == pytest.approx(rounds.std(), rel=0.05)
    with pytest.raises(AssertionError, match="z ="):  # the mean number of prompts over B, as people reckon
        assert_mean(rounds, at.one_by_one.mean / 57, catches=0.03)


def test_simulated_caps() -> None:
    """A cap that 10 % of the steps hit, and the share of runs of 5 steps that hit it."""
    rng = np.random.default_rng(11)
    mixed = rng.random((40_000, 5, 3 * 20)) < 0.4
    failed = mixed.sum(axis=2) < 20
    law = EndlessPrompts(wanted=20, dead=0.6)
    chance = law.beyond(60)
    assert_rate(int(failed.sum()), failed.size, chance, catches=0.01)
    assert_rate(int(failed.any(axis=1).sum()), 40_000, any_of(chance, 5), catches=0.02)
    with pytest.raises(AssertionError, match="p ="):  # one prompt too many in the tail
        assert_rate(int(failed.sum()), failed.size, law.beyond(61), catches=0.01)


def test_simulated_passes_over_a_set() -> None:
    """20,000 shuffles of 100 prompts of which 40 are mixed: the first and the second step of the pass have one law."""
    rng = np.random.default_rng(5)
    order = np.argsort(rng.random((20_000, 100)), axis=1) < 40
    places = np.cumsum(order, axis=1)
    first = (places < 12).sum(axis=1) + 1
    second = (places < 24).sum(axis=1) + 1 - first
    law = FinitePrompts(wanted=12, prompts=100, mixed=40)
    for taken in (first, second):
        assert_mean(taken, law.mean, catches=0.4)
        assert_rate(int((taken > 33).sum()), 20_000, law.beyond(33), catches=0.03)
    with pytest.raises(AssertionError, match="z ="):  # draws with replacement take longer
        assert_mean(first, 12 / 0.4, catches=0.4)


# the plan ----------------------------------------------------------------------------------------------------------


def test_the_interval_of_d_is_carried_through(example_fit: PassRateFit) -> None:
    plan = refill(example_fit, prompts_per_step=128, group_size=8, batch_multiplier=1.5, max_rounds=2, steps=500)
    d = example_fit.dead(8)
    assert d.value is not None
    assert plan.status is RefillStatus.FILLS
    assert plan.at_high is not None
    for at, fraction in ((plan.at_low, d.low), (plan.at_value, d.value), (plan.at_high, d.high)):
        law = EndlessPrompts(wanted=128, dead=fraction)
        assert at.dead_fraction == fraction
        assert at.one_by_one == prompts_summary(law)
        assert at.rounds.mean == pytest.approx(law.rounds(192).mean, rel=1e-12)
        assert at.cap_probability == law.beyond(384)
        assert at.run_cap_probability == pytest.approx(1 - (1 - law.beyond(384)) ** 500, abs=1e-13)
        assert at.one_round_gen_batch_size == 128 + nbinom.ppf(0.95, 128, 1 - fraction)
        assert at.rollouts.mean == pytest.approx(8 * at.prompts.mean)
        assert at.prompts.p95 == 192 * at.rounds.p95
        least = at.capped_gen_batch_size
        assert least is not None
        assert any_of(law.beyond(2 * least), 500) <= 0.05 < any_of(law.beyond(2 * (least - 1)), 500)
        cap = at.safe_max_rounds
        assert cap is not None
        assert any_of(law.beyond(192 * cap), 500) <= 0.05
        assert cap == 1 or any_of(law.beyond(192 * (cap - 1)), 500) > 0.05
    low, high = plan.limits(lambda at: at.prompts.mean)
    assert high is not None
    assert low <= plan.at_value.prompts.mean <= high
    assert plan.surplus_limits is not None
    assert plan.surplus_limits[0] <= plan.at_value.surplus_mixed_groups <= plan.surplus_limits[1]


def test_the_surplus_neither_rises_nor_falls(example_fit: PassRateFit) -> None:
    """So its limits are searched; for some batches they lie inside the interval of D and not at the estimate."""
    inside = []
    for size in range(100, 260, 8):
        plan = refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=size)
        assert plan.at_high is not None
        assert plan.surplus_limits is not None
        fine = np.linspace(plan.dead.low, plan.dead.high, 401)
        surplus = [EndlessPrompts(wanted=128, dead=d).rounds(size).surplus for d in fine]
        assert plan.surplus_limits == pytest.approx((min(surplus), max(surplus)), abs=0.3)
        three = [at.surplus_mixed_groups for at in (plan.at_low, plan.at_value, plan.at_high)]
        inside.append(max(surplus) > max(three) + 0.6 or min(surplus) < min(three) - 0.6)
    assert any(inside)


@pytest.mark.parametrize(("chance", "times"), [(Fraction(1, 10), 2), (Fraction(1, 2), 7), (Fraction(1, 10**9), 10**6)])
def test_any_of_many_steps(chance: Fraction, times: int) -> None:
    with mpmath.workdps(40):
        exact = 1 - (1 - mpmath.mpf(chance.numerator) / chance.denominator) ** times
    assert_precise(any_of(float(chance), times), exact, rel=1e-12)
    assert any_of(1.0, times) == 1.0
    assert any_of(0.0, times) == 0.0


def test_generation_batches_are_rounded_up(example_fit: PassRateFit) -> None:
    def size(**options: float) -> int:
        return refill(example_fit, group_size=8, **options).gen_batch_size  # type: ignore[arg-type]

    assert size(prompts_per_step=128) == 128
    assert size(prompts_per_step=128, batch_multiplier=1.5) == 192
    assert 1.1 * 110 > 121
    assert size(prompts_per_step=110, batch_multiplier=1.1) == 121
    assert size(prompts_per_step=10, batch_multiplier=1.11) == 12
    assert size(prompts_per_step=10, gen_batch_size=3) == 3


@given(size=st.integers(1, 5000), wanted=st.integers(1, 2000))
def test_a_shown_multiplier_gives_at_least_the_batch(size: int, wanted: int) -> None:
    factor = batch_multiplier_for(size, wanted)
    assert int(factor * wanted) >= size
    assert factor == 1.0 or (factor - 0.02) * wanted < size


def test_a_data_set_is_used_up(example_fit: PassRateFit) -> None:
    plan = refill(example_fit, prompts_per_step=128, group_size=8, data_prompts=1209, gen_batch_size=64)
    at = plan.at_value
    assert at.mixed_prompts == 678  # the pilot's own count
    assert at.one_by_one.mean == pytest.approx(128 * 1210 / 679)
    assert at.steps_per_pass is not None
    assert at.steps_per_pass == pytest.approx(1209 / at.prompts.mean)
    assert 4.0 < at.steps_per_pass < 678 / 128
    late = refill(example_fit, prompts_per_step=670, group_size=8, data_prompts=1209, gen_batch_size=300)
    assert late.status is RefillStatus.MAY_RUN_DRY
    assert late.at_high is None
    assert late.surplus_limits is None
    assert late.limits(lambda at: at.prompts.mean)[1] is None
    assert late.at_value.prompts.p95 <= 1209
    with pytest.raises(InfeasiblePlanError, match=r"1,209 prompts hold 678 mixed groups .* fewer than the 679 wanted"):
        refill(example_fit, prompts_per_step=679, group_size=8, data_prompts=1209)


@pytest.mark.parametrize("counts", [(30, 0, 0, 0, 20), (50, 0, 0), (0, 0, 50)])
def test_what_can_never_fill_is_refused(counts: tuple[int, ...]) -> None:
    fit = fit_pass_rates(pilot_of(counts))
    with pytest.raises(
        InfeasiblePlanError, match=r"No refill can be planned: no prompt of the pilot is mixed"
    ) as error:
        refill(fit, prompts_per_step=8, group_size=4)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)


def test_what_may_never_fill_has_no_upper_limit() -> None:
    """One mixed prompt of 61 at a level near 1: the interval of D reaches 1."""
    fit = fit_pass_rates(pilot_of((60, 1, 0, 0, 0, 0, 0, 0, 0)))
    plan = refill(fit, prompts_per_step=128, group_size=2, max_rounds=5, level=1 - 1e-12)
    assert plan.status is RefillStatus.MAY_NEVER_FILL
    assert plan.dead.high == 1.0
    assert plan.at_high is None
    assert plan.limits(lambda at: at.one_by_one.mean)[1] is None
    assert plan.at_value.one_by_one.mean == pytest.approx(128 / (1 - 0.99590), rel=1e-3)
    assert "no upper limit" in plan.status.sentence


def test_no_dead_group_at_all() -> None:
    fit = fit_pass_rates(pilot_of((0, 0, 60, 0, 0)))
    plan = refill(fit, prompts_per_step=1, group_size=4, max_rounds=1, steps=10)
    assert plan.at_low.dead_fraction == pytest.approx(0.0, abs=1e-3)
    assert plan.at_value.rounds.p95 == 1.0
    assert plan.at_value.one_round_gen_batch_size == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts_per_step": 0}, "prompts_per_step must be at least 1; got 0"),
        ({"prompts_per_step": 2.5}, "prompts_per_step must be a whole number; got 2.5"),
        ({"prompts_per_step": math.nan}, "prompts_per_step must be a whole number; got nan"),
        ({"prompts_per_step": 10**10}, "prompts_per_step must be at most 1,000,000,000"),
        ({"group_size": 1}, "group_size must be at least 2; got 1"),
        ({"max_rounds": 0}, r"max_rounds must be at least 1; got 0\. A trainer's 0 for no cap is max_rounds=None"),
        ({"max_rounds": -1}, "max_rounds must be at least 1; got -1"),
        ({"max_rounds": True}, "max_rounds must be a whole number; got True"),
        ({"batch_multiplier": 0.99}, "batch_multiplier must be at least 1; got 0.99"),
        ({"batch_multiplier": math.nan}, "batch_multiplier must be finite and above 0; got nan"),
        ({"batch_multiplier": math.inf}, "batch_multiplier must be finite and above 0; got inf"),
        ({"batch_multiplier": 1e300}, "must be at most 1,000,000,000,000"),
        ({"batch_multiplier": 2, "gen_batch_size": 4}, "give batch_multiplier or gen_batch_size, not both"),
        ({"gen_batch_size": 0}, "gen_batch_size must be at least 1; got 0"),
        ({"steps": 0}, "steps must be at least 1; got 0"),
        ({"data_prompts": 0}, "data_prompts must be at least 1; got 0"),
        ({"data_prompts": 10**9}, "data_prompts must be at most 10,000,000"),
        ({"data_prompts": 40, "gen_batch_size": 41}, "must not exceed data_prompts; got 41 of 40"),
        ({"level": 95}, "Percentages"),
    ],
)
def test_bad_requests_are_refused(example_fit: PassRateFit, options: dict[str, float], message: str) -> None:
    with pytest.raises(DomainError, match=message) as error:
        refill(example_fit, **{"prompts_per_step": 16, "group_size": 8, **options})  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_pilots_that_do_not_tell_are_refused() -> None:
    with pytest.raises(PilotError, match="dead fraction of groups of 8 is unknown"):
        refill(fit_pass_rates(pilot_of((30, 40))), prompts_per_step=8, group_size=8)
    with pytest.raises(DomainError, match="fit must be a PassRateFit; got Pilot"):
        refill(pilot_of((1, 1, 1)), prompts_per_step=8, group_size=8)  # type: ignore[arg-type]


def test_huge_steps_are_planned(example_fit: PassRateFit) -> None:
    plan = refill(example_fit, prompts_per_step=10**6, group_size=8, batch_multiplier=1.5, max_rounds=10, steps=10**6)
    assert plan.at_value.rounds.mean == pytest.approx(2.0)
    assert plan.at_value.one_by_one.p95 == 10**6 + nbinom.ppf(0.95, 10**6, 1 - plan.at_value.dead_fraction)
    assert isinstance(plan, Refill)


def test_laws_have_one_face() -> None:
    laws: list[Waiting] = [
        EndlessPrompts(wanted=2, dead=0.5), FinitePrompts(wanted=2, prompts=9, mixed=4)
    ]  # fmt: skip
    for law in laws:
        assert law.beyond(1) == 1.0
        assert law.wanted == 2
    assert laws[0].last == math.inf
    assert laws[1].last == 7


@pytest.mark.parametrize(("prompts", "group"), [(128, 8), (4096, 64), (100_000, 1024)])
def test_the_tables_keep_to_the_page(
    example_fit: PassRateFit, capsys: pytest.CaptureFixture[str], prompts: int, group: int
) -> None:
    plan = refill(example_fit, prompts_per_step=prompts, group_size=group)
    print_refill(example_fit, plan, [plan], compare_sampling(example_fit, plan), 0.95)
    page, settings = capsys.readouterr().out.split("\nSettings\n")
    lines = page.splitlines()
    assert max(map(len, lines)) <= 80
    heading = next(line for line in lines if line.startswith("sampling "))
    row = next(line for line in lines if line.startswith("until mixed "))
    place = heading.index("per prompt")
    assert heading[place - 2 : place] == row[place - 2 : place] == "  "
    assert heading[place] == "p"
    assert row[place].isdigit()
    assert settings
