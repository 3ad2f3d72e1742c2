"""Limits at any group size: published values, thresholds, identified range, census, and properties."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting import FitStatus, PassRateFit, fit_pass_rates
from grpo_plan.fitting.functionals import GROUP_FAMILIES, all_fail, all_pass, dead
from grpo_plan.fitting.identified import identified_range, range_at
from grpo_plan.fitting.intervals import mean_interval
from grpo_plan.fitting.thresholds import (
    MANY_EVENTS,
    chi_square_quantile,
    mid_p_threshold,
    pointwise,
    simultaneous,
)
from grpo_plan.pilot import Pilot
from tests.conftest import pilot_of

STARVED = (1792, 417, 282, 255, 454)
SIZES = (2, 4, 8, 16, 32, 64)

counts_lists = st.integers(2, 8).flatmap(lambda n: st.lists(st.integers(0, 60), min_size=n + 1, max_size=n + 1))
pilots = counts_lists.filter(lambda counts: sum(counts) > 0).map(pilot_of)
mixed_pilots = st.lists(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=40
).map(lambda rows: Pilot.from_counts([k for k, _ in rows], [n for _, n in rows]))


# --- values that others have published or computed ---------------------------------------------------------------


def test_likelihood_limits_of_the_example(example_fit: PassRateFit) -> None:
    """Before the Wilson hull and the mid-P thresholds: D(4) [.5647, .6089], D(8) [.4114, .4673], D(16) [.2809, .3726]."""
    profile = example_fit._points.profile
    for g, low, high in ((4, 0.5647, 0.6089), (8, 0.4114, 0.4673), (16, 0.2809, 0.3726)):
        phi = dead(g).phi(profile.mixing.passing, profile.mixing.failing)
        ends = profile.lower(phi, chi_square_quantile(0.95)).value, profile.upper(phi, chi_square_quantile(0.95)).value
        assert ends == pytest.approx((low, high), abs=1e-3)
        d = example_fit.dead(g)
        assert d.low <= ends[0] + 1e-6
        assert d.high >= ends[1] - 1e-6
        assert (d.low, d.high) == pytest.approx((low, high), abs=2e-3)


def test_the_starved_run() -> None:
    """Published counts of a starved run at n = 4: D(8) .591 [.557, .624]; given the counts exactly, [.5849, .5975]."""
    d = fit_pass_rates(pilot_of(STARVED)).dead(8)
    assert d.value == pytest.approx(0.591, abs=1e-3)
    assert d.interval == pytest.approx((0.557, 0.624), abs=1e-3)
    shares = np.array(STARVED) / sum(STARVED)
    assert identified_range(shares, dead(8)) == pytest.approx((0.5849, 0.5975), abs=1e-4)
    assert d.identified is not None
    assert d.low < d.identified[0] < (d.value or 0) < d.identified[1] < d.high


def test_identified_ranges_of_known_distributions() -> None:
    """A Beta(.3,.3), exactly known at n: [.368, .488] for D(16) at n = 4, [.333, .369] for D(32) at n = 8."""
    from grpo_plan.passrates import BetaPassRates
    from grpo_plan.planning.pilot_size import on_grid

    rates = on_grid(BetaPassRates.from_shape(0.3, 0.3))
    cases = (
        (4, 16, 0.368, 0.488),
        (4, 64, 0.043, 0.481),
        (8, 16, 0.433, 0.434),
        (8, 32, 0.333, 0.369),
        (16, 64, 0.284, 0.288),
    )
    for n, g, low, high in cases:
        assert range_at(rates, n, dead(g)) == pytest.approx((low, high), abs=2e-3), (n, g)
        exact = np.array(BetaPassRates.from_shape(0.3, 0.3).group_pmf(n))
        assert identified_range(exact, dead(g)) == pytest.approx((low, high), abs=2e-3), (n, g)


def test_identified_range_refuses_what_no_distribution_gives() -> None:
    with pytest.raises(DomainError, match="No distribution of pass rates gives these frequencies"):
        identified_range([0.0, 1.0, 0.0], dead(8))  # always exactly one of two: less spread than any p allows
    with pytest.raises(DomainError, match="shares of k ="):
        identified_range([0.5, 0.6], dead(8))


# --- thresholds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("prompts", [50, 1000])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_mid_p_thresholds_are_likelihood_ratios_of_the_mid_p_limit(events: int, prompts: int, level: float) -> None:
    """SciPy's binomial: at the limit the mid-P tail is (1 - level)/2, and the ratio is that of the observed share."""
    threshold = mid_p_threshold(events, prompts, level)
    shares = np.linspace(events / prompts + 1e-9, min(1.0, events / prompts + 0.5), 200_001)
    ratio = 2 * (binom.logpmf(events, prompts, events / prompts) - binom.logpmf(events, prompts, shares))
    limit = shares[np.searchsorted(ratio, threshold)]
    tail = binom.cdf(events, prompts, limit) - 0.5 * binom.pmf(events, prompts, limit)
    assert tail == pytest.approx((1 - level) / 2, abs=2e-4) or threshold == chi_square_quantile(level)
    assert threshold >= chi_square_quantile(level)


def test_thresholds_fall_to_chi_square() -> None:
    values = [mid_p_threshold(x, 10**6, 0.95) for x in (0, 1, 2, 5, 20, MANY_EVENTS, MANY_EVENTS + 1, 1000, 10**6 - 1)]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(5.991, abs=1e-3)
    assert values[-1] == pytest.approx(chi2.ppf(0.95, 1), abs=1e-3)
    far = pointwise(0.95, prompts=10**8, for_low=10**7, for_high=10**7, far=True)
    assert far.lower == far.upper == pytest.approx(5.024, abs=1e-3)
    assert simultaneous(0.95, 8).lower == pytest.approx(chi2.ppf(0.95, 8))


# --- joined limits ------------------------------------------------------------------------------------------------


def test_limits_hold_the_wilson_limits_up_to_n(example_fit: PassRateFit) -> None:
    h = example_fit.pilot.histogram()
    for g in (2, 4, 8):
        functional = dead(g)
        wilson = mean_interval(functional.kernel(h.successes.astype(float), h.rollouts.astype(float)), h.prompts, 0.95)
        d = example_fit.dead(g)
        assert d.low <= wilson.low + 1e-12
        assert d.high >= wilson.high - 1e-12
        assert wilson.value == pytest.approx(d.value, rel=1e-12)


@settings(max_examples=60)
@given(st.one_of(pilots, mixed_pilots))
def test_limits_fall_with_g_and_hold_the_value(pilot: Pilot) -> None:
    fit = fit_pass_rates(pilot)
    for kind in ("dead", "all-pass", "all-fail"):
        before = (1.0, 1.0)
        for g in (2, 3, 5, 9, 17, 33, 80):
            low, high = fit.group_limits(kind, g, 0.95, False)
            assert 0.0 <= low <= high <= 1.0
            assert low <= before[0] + 1e-5, (kind, g)
            assert high <= before[1] + 1e-5, (kind, g)
            before = low, high
    for g in (2, 5, 33):
        d = fit.dead(g)
        if d.value is not None:
            assert d.low <= d.value <= d.high
            assert d.identified is None or d.identified[0] <= d.value <= d.identified[1]


@settings(max_examples=40)
@given(pilots, st.sampled_from(SIZES))
def test_limits_hold_the_nonparametric_value_and_grow_with_the_level(pilot: Pilot, g: int) -> None:
    fit = fit_pass_rates(pilot)
    raw = fit.nonparametric.all_pass(g) + fit.nonparametric.all_fail(g)
    narrow, wide, all_at_once = fit.dead(g, 0.8), fit.dead(g, 0.99), fit.dead(g, 0.8, simultaneous=True)
    assert narrow.low - 1e-6 <= raw <= narrow.high + 1e-6
    assert wide.low <= narrow.low + 1e-5
    assert wide.high >= narrow.high - 1e-5
    assert all_at_once.low <= narrow.low + 1e-5 or fit.pilot.prompts < 30  # mid-P may exceed chi-square there
    assert all_at_once.high >= narrow.high - 1e-5 or fit.pilot.prompts < 30


@settings(max_examples=30)
@given(pilots, st.integers(3, 9), st.sampled_from((2, 8, 16)))
def test_more_of_the_same_narrows_the_limits(pilot: Pilot, times: int, g: int) -> None:
    more = Pilot.from_counts(np.tile(pilot.successes, times), np.tile(pilot.rollouts, times))
    few, many = fit_pass_rates(pilot).dead(g), fit_pass_rates(more).dead(g)
    assert many.high - many.low <= few.high - few.low + 1e-5


@settings(max_examples=30)
@given(mixed_pilots, st.randoms(use_true_random=False))
def test_order_and_pooling_do_not_matter(pilot: Pilot, random: object) -> None:
    order = np.random.default_rng(random.getrandbits(32)).permutation(pilot.prompts)  # type: ignore[attr-defined]
    shuffled = Pilot.from_counts(pilot.successes[order], pilot.rollouts[order])
    half = pilot.prompts // 2
    parts = [Pilot.from_counts(pilot.successes[rows], pilot.rollouts[rows]) for rows in (order[:half], order[half:])]
    pooled = Pilot.from_counts(
        np.concatenate([p.successes for p in parts]), np.concatenate([p.rollouts for p in parts])
    )
    fits = [fit_pass_rates(p) for p in (pilot, shuffled, pooled)]
    for g in (2, 8, 24):
        first, *others = (fit.dead(g) for fit in fits)
        for again in others:
            assert again.value == first.value
            assert again.interval == first.interval


def test_a_number_does_not_depend_on_what_was_asked_before(example_fit: PassRateFit) -> None:
    fresh = fit_pass_rates(example_fit.pilot)
    assert fresh.dead(32).interval == example_fit.dead(32).interval
    assert pickle.loads(pickle.dumps(fresh.dead(16))).interval == example_fit.dead(16).interval
    assert copy.deepcopy(fresh).dead(16).interval == example_fit.dead(16).interval


@pytest.mark.parametrize(("kind", "mirror"), [("dead", "dead"), ("all-pass", "all-fail"), ("all-fail", "all-pass")])
def test_passes_and_fails_are_mirror_images(example_fit: PassRateFit, kind: str, mirror: str) -> None:
    pilot = example_fit.pilot
    swapped = fit_pass_rates(Pilot.from_counts(pilot.rollouts - pilot.successes, pilot.rollouts))
    for g in (4, 16, 64):
        one = example_fit.group_limits(kind, g, 0.95, False)
        assert swapped.group_limits(mirror, g, 0.95, False) == pytest.approx(one, abs=6e-6)


# --- other means --------------------------------------------------------------------------------------------------


def test_other_means_are_consistent_with_d(example_fit: PassRateFit) -> None:
    for g in (4, 16):
        d, passing = example_fit.dead(g), example_fit.pass_at(g)
        assert d.all_fail is not None
        assert passing.value == pytest.approx(1 - d.all_fail)
        assert (passing.low, passing.high) == pytest.approx(
            (1 - d.all_fail_interval[1], 1 - d.all_fail_interval[0]), abs=4e-3
        )
    pairs = example_fit.dead(2)
    variance = example_fit.reward_variance()
    assert variance.value == pytest.approx((1 - (pairs.value or 0)) / 2)
    assert (variance.low, variance.high) == pytest.approx(((1 - pairs.high) / 2, (1 - pairs.low) / 2), abs=1e-3)
    gap = example_fit.jensen_gap(8)
    assert gap.value == pytest.approx(0.4392 - 0.0385, abs=1e-4)
    assert 0.3 < gap.low < (gap.value or 0) < gap.high < 0.5


def test_stopping_cost_is_one_plus_the_sum_of_d(example_fit: PassRateFit) -> None:
    for g in (2, 8, 9, 16, 40):
        values = [example_fit.dead(t).value or 0.0 for t in range(1, g)]
        cost = example_fit.stopping_cost(g)
        assert cost.value == pytest.approx(1 + sum(values), abs=1e-9)
        assert cost.low <= (cost.value or 0) <= cost.high
    assert example_fit.stopping_cost(1).interval == pytest.approx((1.0, 1.0), abs=1e-12)
    assert example_fit.stopping_cost(2).interval == pytest.approx((2.0, 2.0), abs=1e-12)
    lows = [example_fit.stopping_cost(g).low for g in (8, 16, 32, 33, 34, 64, 1000)]
    assert lows == sorted(lows)  # more can only cost more


def test_the_mean_of_any_function(example_fit: PassRateFit) -> None:
    """Of p itself it is the mean pass rate, whose limits Wilson's method gives too."""
    mean, wilson = example_fit.mean_of(lambda p: p), example_fit.mean_pass_rate_interval()
    assert mean.value == pytest.approx(wilson.value, abs=2e-3)
    assert (mean.low, mean.high) == pytest.approx((wilson.low, wilson.high), abs=2e-3)


def test_a_function_that_is_not_finite_is_refused() -> None:
    fit = fit_pass_rates(pilot_of(STARVED))
    with pytest.raises(DomainError, match="odds must be finite for every pass rate"):
        fit.mean_of(lambda p: np.where(p < 1, p / np.maximum(1 - p, 1e-300), np.inf), name="odds")


# --- what a pilot cannot say --------------------------------------------------------------------------------------


def test_one_rollout_per_prompt_leaves_jensen_to_one() -> None:
    """With n = 1 only the mean is known: D(G) lies between the formula at the mean and 1, with the mean's own doubt."""
    d = fit_pass_rates(Pilot.from_counts([0] * 500 + [1] * 500, 1)).dead(8)
    assert d.value is None
    assert d.status is FitStatus.UNKNOWN
    assert d.low == pytest.approx(2 * 0.5**8, abs=2e-3)
    assert d.high > 0.99
    assert d.identified == pytest.approx((2 * 0.5**8, 1.0), abs=1e-5)


def test_families_differ_in_value_and_share_limits(example_fit: PassRateFit) -> None:
    honest = example_fit.dead(16).interval
    for family in ("beta", "tilted-beta", "inflated-beta", "nonparametric"):
        fit = fit_pass_rates(example_fit.pilot, family)
        d = fit.dead(16)
        assert d.method == family
        assert d.interval == pytest.approx(honest, abs=1e-9)
        assert fit.group_pmf(16).sum() == pytest.approx(1.0)
        assert d.value == pytest.approx(fit.group_pmf(16)[0] + fit.group_pmf(16)[-1])
        assert (d.smooth_interval is None) == (family in ("inflated-beta", "nonparametric"))
    with pytest.raises(PilotError, match="inflated-beta needs at least 8 rollouts per prompt; got 4"):
        fit_pass_rates(pilot_of(STARVED), "inflated-beta")


# --- census -------------------------------------------------------------------------------------------------------


def test_a_census_is_never_wider_and_a_set_lies_between(example_fit: PassRateFit) -> None:
    pilot = example_fit.pilot
    census, some = fit_pass_rates(pilot, population="census"), fit_pass_rates(pilot, population=3 * pilot.prompts)
    for g in SIZES:
        widths = [f.dead(g).high - f.dead(g).low for f in (census, some, example_fit)]
        assert widths == sorted(widths)
        assert census.dead(g).value == example_fit.dead(g).value
    assert widths[0] < widths[2]
    huge = fit_pass_rates(pilot, population=10**9)
    assert huge.dead(8).interval == pytest.approx(example_fit.dead(8).interval, abs=1e-4)


def test_populations_are_checked(example_fit: PassRateFit) -> None:
    with pytest.raises(DomainError, match=r"population must be at least the pilot's 1,209 prompts; got 12"):
        fit_pass_rates(example_fit.pilot, population=12)
    with pytest.raises(DomainError, match="population must be sample, census or a number"):
        fit_pass_rates(example_fit.pilot, population="all")


def test_the_census_factor_at_g_equal_n(example_fit: PassRateFit) -> None:
    """At G = n the kernel is 0/1; what remains of D(1-D) is E[d(1-d)], here from the smooth fit, by hand."""
    rates = example_fit.smooth_rates
    phi = dead(8).phi(rates.passing, rates.failing)
    within = float(rates.masses @ (phi * (1 - phi)))
    d, census = example_fit.dead(8), fit_pass_rates(example_fit.pilot, population="census").dead(8)
    assert d.value is not None
    expected = np.sqrt(within / (d.value * (1 - d.value)))
    assert (census.high - census.low) / (d.high - d.low) == pytest.approx(expected, abs=0.04)


def test_group_families() -> None:
    p = np.array([0.0, 1e-12, 0.3, 0.5, 1.0])
    for g in (1, 2, 7, 1000):
        both = all_pass(g).phi(p, 1 - p) + all_fail(g).phi(p, 1 - p)
        assert dead(g).phi(p, 1 - p) == pytest.approx(np.minimum(both, 1.0), rel=1e-12)
    assert set(GROUP_FAMILIES) == {"dead", "all-pass", "all-fail"}


def test_means_that_are_one_functional_have_one_interval(example_fit: PassRateFit) -> None:
    for fit in (example_fit, fit_pass_rates(pilot_of((0, 0, 0, 200, 0, 0, 0))), fit_pass_rates(pilot_of((3, 9, 3)))):
        pairs, variance = fit.dead(2), fit.reward_variance()
        assert variance.low == pytest.approx((1 - pairs.high) / 2)
        assert variance.high == pytest.approx(min((1 - pairs.low) / 2, 0.25))
        assert variance.low <= (variance.value or 0) <= variance.high <= 0.25


def test_prompts_alike_do_not_exclude_a_jensen_gap_of_0() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(8, 0.3, 300), 8))
        for g in (4, 8, 16):
            d, gap = fit.dead(g), fit.jensen_gap(g)
            assert gap.low <= 0.0 or d.iid < d.low


def test_where_half_the_prompts_have_one_rollout_a_misfit_is_still_seen() -> None:
    """Pass rates .05, .5, .95 at n = 1 or 16: subgroups answer nothing, and no smooth F fits."""
    rng = np.random.default_rng(1)
    n = np.repeat([1, 16], 6000)
    fit = fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.choice([0.05, 0.5, 0.95], n.size)), n))
    assert fit.nonparametric_share > 0.9
    for g in (16, 32):
        d = fit.dead(g)
        assert d.value == pytest.approx((d.low + d.high) / 2, abs=5e-3)
        assert d.identified is None


def test_the_identified_range_is_a_point_up_to_n() -> None:
    rng = np.random.default_rng(1)
    n = np.repeat([2, 128], 100)
    fit = fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.beta(0.4, 0.6, n.size)), n))
    d = fit.dead(100)
    assert d.method == "average"
    assert d.identified is not None
    assert d.identified[1] - d.identified[0] < 0.02  # the joined value against the fit's own
    low, high = fit.identified_of(dead(100)) or (0.0, 1.0)
    assert low == high == pytest.approx(fit.smooth_rates.all_pass(100) + fit.smooth_rates.all_fail(100), rel=1e-9)
