"""Slips that would be easy to make in estimation, each with the test that sees it."""

# mypy: disable-error-code="operator, index, arg-type, union-attr, misc"
# ruff: noqa: F811
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import binom

from grpo_plan.errors import InfeasiblePlanError
from grpo_plan.fitting import FitStatus, PassRateFit, fit_pass_rates, identified
from grpo_plan.fitting.average import nonparametric_share
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.fitting.functionals import all_fail, custom, dead, jensen_gap, stopping_cost
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.intervals import LEAST_WITHIN, wilson_limits
from grpo_plan.fitting.mixing import NEAR_ENDS, build_mixing, condensed, expected_mixing
from grpo_plan.fitting.points import joined
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.thresholds import (
    chi_square_quantile,
    mid_p_threshold,
    pointwise,
    simultaneous,
    thresholds_for,
)
from grpo_plan.fitting.uncertainty import _score_variance
from grpo_plan.passrates import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pilot_size import advice, expected_limits, on_grid, plan_pilot
from tests.conftest import pilot_of
from tests.test_cli import Run, document, lines, run  # noqa: F401


def three_atoms(prompts: int, n: Any) -> Pilot:
    rng = np.random.default_rng(1)
    p = rng.choice([0.02, 0.4, 0.95], prompts)
    return Pilot.from_counts(rng.binomial(n, p), n)


def test_group_pmf_of_a_misfit_is_that_of_the_nonparametric_fit() -> None:
    fit = fit_pass_rates(three_atoms(5000, 16))
    pmf, raw = fit.group_pmf(64)[1:-1], fit.nonparametric.group_pmf(64)[1:-1]
    assert pmf / pmf.sum() == pytest.approx(raw / raw.sum(), abs=1e-3)


def test_the_weight_of_a_misfit_goes_by_the_measured_n() -> None:
    n = np.array([6] * 700 + [16] * 300)
    fit = fit_pass_rates(three_atoms(1000, n))
    lost = fit._points.profile.log_likelihood - fit._points.average.log_likelihood
    assert fit.max_counted_group_size < fit.max_measured_group_size == 16
    assert 0.0 < fit.nonparametric_share < 0.999
    assert fit.nonparametric_share == pytest.approx(nonparametric_share(lost, 16), rel=1e-12)


def test_stopping_cost_at_unequal_n_sums_the_dead_fractions() -> None:
    fit = fit_pass_rates(Pilot.from_counts([0] * 10 + [1] * 5 + [2] * 85, [6] * 15 + [8] * 85))
    for g in (8, 9, 20):
        assert fit.stopping_cost(g).value == pytest.approx(1 + sum(fit.dead(t).value for t in range(1, g)), abs=1e-9)


def test_a_band_is_wider_than_a_pointwise_interval(example_fit: PassRateFit) -> None:
    for fit in (fit_pass_rates(example_fit.pilot),):
        plain, band = fit.dead(8).interval, fit.dead(8, simultaneous=True).interval
        assert band[0] < plain[0] - 0.005
        assert band[1] > plain[1] + 0.005


def test_a_census_never_leaves_out_all_variance(example_fit: PassRateFit) -> None:
    fit = fit_pass_rates(example_fit.pilot, population="census")
    profile = fit._points.profile
    phi = dead(8).phi(profile.mixing.passing, profile.mixing.failing)
    bound = replace(profile.upper(phi, 3.84), tilt=1e3)
    assert fit._uncertainty.variance_factor(bound, phi) == LEAST_WITHIN


def test_a_band_is_wider_up_to_n_too() -> None:
    fit = fit_pass_rates(pilot_of((20, 6, 5, 4, 15)))
    sizes, means, trials = fit._uncertainty._measured["dead"]
    wider = simultaneous(0.95, 4).upper / chi_square_quantile(0.95)
    lows, highs = wilson_limits(means, trials / wider, 0.95)
    for i, g in enumerate(sizes):
        d = fit.dead(int(g), simultaneous=True)
        assert d.low <= lows[i] + 1e-12
        assert d.high >= highs[i] - 1e-12


def test_limits_of_condensed_pilots_fall_with_g() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(100, 1_000, 3_000)
    fit = fit_pass_rates(
        Pilot.from_counts(rng.binomial(n, np.where(rng.random(n.size) < 0.5, 1 / 300, rng.random(n.size))), n)
    )
    g = fit.max_counted_group_size
    for kind in ("dead", "all-pass", "all-fail"):
        assert fit.group_limits(kind, g + 1, 0.95, False)[1] <= fit.group_limits(kind, g, 0.95, False)[1] + 1e-9


FEW_DEAD = pilot_of((1, 60, 80, 58, 1))


def test_a_band_is_not_cut_to_a_pointwise_limit() -> None:
    fit = fit_pass_rates(pilot_of((1792, 417, 282, 255, 454)))
    for g in (17, 64):
        exact = fit._uncertainty.limits(dead(g), 0.95, everywhere=True)
        assert fit.dead(g, simultaneous=True).high >= exact[1] - 1e-9


def test_the_mid_p_threshold_of_few_dead_prompts_raises_the_high_end() -> None:
    fit = fit_pass_rates(FEW_DEAD)
    profile = fit._points.profile
    phi = dead(17).phi(profile.mixing.passing, profile.mixing.failing)
    near = thresholds_for(fit.pilot.histogram(), dead(17), 0.95, near=True)
    assert near.upper > near.lower + 0.3
    assert fit.dead(17).high >= profile.upper(phi, near.upper).value - 1e-5


def test_census_wilson_limits_at_unequal_n() -> None:
    k = [0] * 30 + [1] * 14 + [2] * 9 + [3] * 12 + [4] * 20 + [0] * 8 + [1] * 3 + [2] * 6
    n = [4] * 85 + [2] * 17
    pool, census = (fit_pass_rates(Pilot.from_counts(k, n), population=p) for p in ("sample", "census"))
    rates = census.smooth_rates
    sizes, means, trials = pool._uncertainty._measured["dead"]
    more = census._uncertainty._measured["dead"][2]
    assert sizes.tolist() == [2, 3, 4]
    for i, (g, prompts) in enumerate(zip(sizes, (102, 85, 85), strict=True)):
        phi = dead(int(g)).phi(rates.passing, rates.failing)
        between = float(rates.masses @ (phi - rates.masses @ phi) ** 2)
        total = means[i] * (1 - means[i]) / trials[i] * prompts
        assert trials[i] / more[i] == pytest.approx(max(1 - prompts / 102 * between / total, 0.02), rel=1e-9)


def test_dual_weights_of_an_exact_fit_have_no_variance() -> None:
    """Counts that F gives exactly: every dual weight is 1, whatever the shares of the two n."""
    k = [0] * 40 + [1] * 20 + [2] * 40 + [0] * 78 + [1] * 24 + [2] * 36 + [3] * 24 + [4] * 78
    n = [2] * 100 + [4] * 240
    profile = ProfileLikelihood.of(build_mixing(Pilot.from_counts(k, n).histogram()))
    assert _score_variance(profile.mixing, profile.best) == pytest.approx(0.0, abs=1e-4)


def test_the_grid_is_fine_next_to_0_and_1_for_the_largest_n() -> None:
    mixing = build_mixing(Pilot.from_counts([1500, 500_000], [3000, 1_000_000]).histogram())
    assert set((NEAR_ENDS / 1e6).tolist()) <= set(mixing.passing.tolist())


def many_cells() -> Pilot:
    rng = np.random.default_rng(0)
    n = np.concatenate([rng.integers(1, 900, 3000), [1, 1, 350, 350, 700]])
    return Pilot.from_counts(np.concatenate([rng.binomial(n[:-5], rng.random(3000)), [0, 1, 7, 300, 444]]), n)


def test_condensing_keeps_n_on_its_rung() -> None:
    Pilot.from_counts(np.arange(2, 1602), [2000] * 1600).histogram()
    k = np.concatenate([np.arange(1600), [0, 1, 350, 7]])
    n = np.concatenate([[1600] * 1600, [1, 1, 350, 350]])
    c = condensed(Pilot.from_counts(k, n).histogram())
    cells = set(zip(c.rollouts.tolist(), c.successes.tolist(), strict=False))
    assert {(1, 0), (1, 1), (350, 7), (350, 350)} <= cells
    assert {r for r, _ in cells} == {1, 350, 700}


def test_many_cells_are_marked_as_condensed() -> None:
    assert build_mixing(many_cells().histogram()).condensed


def test_thresholds_of_pass_at_mirror_those_of_all_fail() -> None:
    h = pilot_of((3, 60, 80, 58, 50)).histogram()
    fails, passes = (
        thresholds_for(h, f, 0.95) for f in (all_fail(4), custom(lambda p: 1 - (1 - p) ** 4, "x", "some-pass"))
    )
    assert (passes.lower, passes.upper) == (fails.upper, fails.lower)
    assert fails.upper > fails.lower


def test_thresholds_of_any_function_go_by_the_rarer_kind() -> None:
    h = FEW_DEAD.histogram()
    t = thresholds_for(h, custom(lambda p: p, "x"), 0.95)
    assert t.lower == t.upper == mid_p_threshold(2, 200, 0.95)


def unequal() -> PassRateFit:
    rng = np.random.default_rng(5)
    n = np.array([8] * 700 + [16] * 300)
    return fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.beta(0.4, 0.6, 1000)), n))


def test_laws_of_very_large_groups_are_summed_in_blocks() -> None:
    g, p = 200_000, np.linspace(0.1, 0.9, 41)
    masses = np.arange(1.0, 42.0) / 861.0
    pmf = DiscretePassRates(passing=p, failing=1 - p, masses=masses).group_pmf(g)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-9)
    assert pmf @ np.arange(g + 1.0) / g == pytest.approx(float(masses @ p), rel=1e-9)


def test_ends_of_the_law_keep_their_digits() -> None:
    p = np.array([0.5, 0.5])
    rates = DiscretePassRates(passing=p, failing=1 - p, masses=np.array([0.5, 0.5]))
    assert rates.group_pmf(1000)[0] == pytest.approx(0.5**1000, rel=1e-9)


def test_an_interval_holds_the_value_of_a_family_that_the_data_refuse() -> None:
    fit = fit_pass_rates(three_atoms(5000, 16), "beta")
    e = fit.mean_of(lambda p: (1 - p) ** 40)
    low, high = fit.limits_of(e._functional, 0.95)
    assert e.value > high > low
    assert e.interval == (low, e.value)


def test_the_variance_of_a_reward_is_at_most_a_quarter() -> None:
    e = fit_pass_rates(pilot_of((0, 0, 60, 0, 0))).reward_variance()
    assert e.value == e.high == 0.25  # the subgroups say 1/3, which no pass rate gives
    assert e.low <= e.value


def test_the_band_of_a_part_is_a_band(example_fit: PassRateFit) -> None:
    plain, band = example_fit.dead(8), example_fit.dead(8, simultaneous=True)
    for part in ("all_pass_interval", "all_fail_interval"):
        (a, b), (c, d) = getattr(plain, part), getattr(band, part)
        assert c < a - 0.005
        assert d > b + 0.005


def test_pass_at_takes_its_level(example_fit: PassRateFit) -> None:
    e, d = example_fit.pass_at(8, 0.5), example_fit.dead(8, 0.5)
    assert e.interval == pytest.approx((1 - d.all_fail_interval[1], 1 - d.all_fail_interval[0]), abs=1e-12)


def test_beyond_reach_is_no_status_up_to_n() -> None:
    d = fit_pass_rates(Pilot.from_counts([3], 8)).dead(8)
    assert d.high - d.low > 0.5
    assert d.status is FitStatus.TOO_FEW_PROMPTS


def test_the_identified_range_goes_by_the_measured_n() -> None:
    fit = unequal()
    assert fit.identified_of(dead(32)) == pytest.approx(range_at(fit.smooth_rates, 16, dead(32)), abs=1e-12)
    wide = range_at(fit.smooth_rates, 8, dead(32))
    assert fit.dead(32).identified[1] - fit.dead(32).identified[0] < 0.6 * (wide[1] - wide[0])


def test_the_mean_of_a_function_is_blended_in_a_misfit() -> None:
    e = fit_pass_rates(three_atoms(5000, 16)).mean_of(lambda p: (1 - p) ** 40)
    assert e.value == pytest.approx((e.low + e.high) / 2, abs=3e-3)
    fit_pass_rates(three_atoms(5000, 16))


def test_reward_variance_has_the_thresholds_of_pairs() -> None:
    fit = fit_pass_rates(pilot_of((120, 0, 1, 0, 80)))
    low, high = fit._uncertainty.limits(dead(2), 0.95)
    assert fit.limits_of(fit.reward_variance()._functional, 0.95) == pytest.approx(
        ((1 - high) / 2, (1 - low) / 2), abs=1e-5
    )


def test_an_average_is_not_called_a_subgroup_count() -> None:
    row = compare_estimates(unequal(), [16])[0]
    assert row.default.method == "average"
    assert row.u_statistic is None


def test_jeffreys_at_large_g() -> None:
    k, g = np.array([0, 3, 8]), 5000
    a, b = k + 0.5, 8.5 - k
    expected = np.mean(np.exp(betaln(a + g, b) - betaln(a, b)) + np.exp(betaln(a, b + g) - betaln(a, b)))
    assert compare_estimates(fit_pass_rates(Pilot.from_counts(k, 8)), [g])[0].jeffreys == pytest.approx(
        expected, rel=1e-8
    )


def test_stopping_cost_has_the_thresholds_of_dead() -> None:
    h = FEW_DEAD.histogram()
    assert thresholds_for(h, stopping_cost(9), 0.95) == thresholds_for(h, dead(9), 0.95)
    assert thresholds_for(h, dead(9), 0.95).upper > thresholds_for(h, dead(9), 0.95).lower + 0.3


def test_kernels_are_unbiased() -> None:
    n, p = 6, 0.3
    k = np.arange(n + 1.0)
    for f in (jensen_gap(4, 0.45), stopping_cost(4), dead(4)):
        mean = binom.pmf(k, n, p) @ f.kernel(k, np.full(7, 6.0))
        assert mean == pytest.approx(float(f.phi(np.array([p]), np.array([1 - p]))[0]), rel=1e-9)


def test_expected_limits_far_beyond_n_have_the_raised_threshold() -> None:
    rates = on_grid(BetaPassRates.from_shape(0.4, 0.6))
    from grpo_plan.fitting.mixing import expected_mixing

    profile = ProfileLikelihood.of(expected_mixing(rates, 500, 4))
    phi = dead(17).phi(profile.mixing.passing, profile.mixing.failing)
    dd = round(500 * (rates.all_pass(4) + rates.all_fail(4)))
    t = pointwise(0.95, prompts=500, for_low=500 - dd, for_high=dd, far=True)
    assert expected_limits(rates, 500, 4, 17, 0.95) == pytest.approx(
        (profile.lower(phi, t.lower).value, profile.upper(phi, t.upper).value), abs=1e-9
    )


def test_a_census_with_single_rollouts_leaves_their_luck_in() -> None:
    """Half the prompts with one rollout: a census must leave the luck of their rollouts in."""
    rng = np.random.default_rng(11)
    n = np.array([8] * 600 + [1] * 600)
    p = rng.beta(0.35, 0.7, 1200)
    widths, hits = [], 0
    for _ in range(100):
        mean = fit_pass_rates(Pilot.from_counts(rng.binomial(n, p), n), population="census").mean_pass_rate_interval()
        widths.append(mean.high - mean.low)
        hits += mean.low <= p.mean() <= mean.high
    assert hits >= 88


def test_expected_limits_take_each_end_by_its_prompts() -> None:
    rates = on_grid(BetaPassRates.from_shape(5, 5))
    profile = ProfileLikelihood.of(expected_mixing(rates, 100, 8))
    phi = dead(8).phi(profile.mixing.passing, profile.mixing.failing)
    dd = round(100 * (rates.all_pass(8) + rates.all_fail(8)))
    t = pointwise(0.95, prompts=100, for_low=100 - dd, for_high=dd, far=False)
    assert t.upper > t.lower + 0.3
    assert expected_limits(rates, 100, 8, 8, 0.95) == pytest.approx(
        (profile.lower(phi, t.lower).value, profile.upper(phi, t.upper).value), abs=1e-9
    )


def test_advice_names_at_most_g_rollouts() -> None:
    """Also S5: a width between 0.1 and 0.2 is advice, and no more than G rollouts are named."""
    text = advice(fit_pass_rates(pilot_of((100, 40, 32, 40, 60))), 10)
    assert text is not None
    assert "; 10 rollouts per prompt, with as many" in text


def test_the_interval_of_a_prior_has_the_level_asked_for(example_fit: PassRateFit) -> None:
    plan = plan_pilot(example_fit, target_group_size=16, half_width=0.05, level=0.8, rollouts_per_prompt=16)
    assert plan.expected_dead_interval == example_fit.dead(16, 0.8).interval


def test_an_infeasible_pilot_names_what_can_be_had() -> None:
    with pytest.raises(InfeasiblePlanError) as e:
        plan_pilot((0.3, 0.3), target_group_size=16, half_width=0.01, max_rollouts=1000)
    rates = on_grid(BetaPassRates.from_shape(0.3, 0.3))
    ends = {n: expected_limits(rates, 1000 // n, n, 16, 0.95) for n in (2, 4, 8, 16, 32)}
    best = min(ends, key=lambda n: ends[n][1] - ends[n][0])
    assert f"(n = {best})" in str(e.value)


def test_advice_says_when_more_rollouts_alone_do_not_help() -> None:
    fit = fit_pass_rates(pilot_of((25, 10, 8, 10, 15)))
    text = advice(fit, 32)
    low, high = expected_limits(fit.smooth_rates, 68, 32, 32, 0.95)
    assert 0.1 < high - low
    assert ("alone would not settle" in text) == (high - low > 0.2)


def strata_file() -> str:
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"{s}{i}", "n": 8, "k": int(rng.binomial(8, rng.beta(a, 1))), "level": s}
        for s, a in (("hard", 0.3), ("easy", 1.5))
        for i in range(60)
    ]
    Path("s.jsonl").write_bytes(lines(*rows))
    return "s.jsonl"


def test_strata_of_a_census_are_a_census(run: Run) -> None:
    f = strata_file()
    width = {}
    for p in ("sample", "census"):
        part = document(run("fit", f, "--population", p, "--group-sizes", 8, "--json"))["strata"][0]
        width[p] = part["dead"][0]["high"] - part["dead"][0]["low"]
        assert part["model"]["population"] == (60 if p == "census" else None)
    assert width["census"] < width["sample"]


def test_strata_of_a_band_are_a_band(run: Run) -> None:
    f = strata_file()
    for s in document(run("fit", f, "--simultaneous", "--group-sizes", 8, "--json"))["strata"]:
        assert s["dead"][0]["simultaneous"] is True


def test_comparison_has_the_level_asked_for(run: Run, example_file: Path) -> None:
    body = document(run("fit", example_file, "--compare", "--level", 0.5, "--group-sizes", 8, "--json"))
    assert (body["compare"]["rows"][0]["low"], body["compare"]["rows"][0]["high"]) == (
        body["dead"][0]["low"],
        body["dead"][0]["high"],
    )


def test_the_median_of_the_rollouts_is_one(run: Run) -> None:
    Path("u").write_bytes(lines(*({"id": i, "n": n, "k": 1} for i, n in enumerate([4, 4, 16]))))
    assert document(run("fit", "u", "--json"))["pilot"]["rollouts_per_prompt"] == {"min": 4, "median": 4.0, "max": 16}


def test_each_stratum_shows_its_own_model(run: Run) -> None:
    for s in document(run("fit", strata_file(), "--group-sizes", 8, "--json"))["strata"]:
        assert s["model"]["parameters"]["mean"] == pytest.approx(s["pilot"]["mean_pass_rate"]["value"], abs=0.05)


def test_checks_have_the_level_asked_for(run: Run, example_file: Path) -> None:
    w = []
    for level in (0.5, 0.95):
        o = document(run("fit", example_file, "--check-order", "--level", level, "--group-sizes", 8, "--json"))[
            "independence"
        ]["order"]
        w.append(o["high"] - o["low"])
    assert w[0] < 0.6 * w[1]


def test_the_footnote_counts_the_prompts_used(run: Run) -> None:
    Path("u").write_bytes(lines(*({"id": i, "n": 6 if i < 15 else 8, "k": i % 6} for i in range(100))))
    assert "of 100: D(8) from 85" in " ".join(run("fit", "u").out.split())


def test_advice_quotes_the_interval_of_the_table(run: Run, example_file: Path) -> None:
    a, _b = (" ".join(run("fit", example_file, "--level", level).out.split()) for level in (0.5, 0.95))
    low, high = (lambda d: (d["low"], d["high"]))(
        document(run("fit", example_file, "--level", 0.5, "--json"))["dead"][-1]
    )
    assert f"cannot tell D(64): between {low:.2f} and {high:.2f}" in a


def test_strata_are_shown_at_a_measured_g(run: Run) -> None:
    rng = np.random.default_rng(0)
    Path("x").write_bytes(
        lines(*({"id": i, "n": 16, "k": int(rng.integers(0, 17)), "level": "ab"[i % 2]} for i in range(80)))
    )
    assert "By stratum, at G = 8 (" in run("fit", "x").out
    Path("y").write_bytes(
        lines(
            *({"id": i, "n": 4 if i % 2 else 16, "k": int(rng.integers(0, 5)), "level": "ab"[i % 2]} for i in range(80))
        )
    )
    assert "By stratum, at G = 4 (" in run("fit", "y").out


def test_a_misfit_is_said(run: Run) -> None:
    p = three_atoms(3000, 16)
    Path("z").write_bytes(lines(*({"id": i, "n": 16, "k": int(k)} for i, k in enumerate(p.successes))))
    assert "no smooth distribution fits this pilot, so the value is the middle of the interval" in " ".join(
        run("fit", "z").out.split()
    )


def test_pilot_size_has_the_level_asked_for(run: Run) -> None:
    plan = document(
        run("pilot-size", "--beta", "0.3,0.3", "--level", 0.8, "--half-width", 0.06, "--try-rollouts", 16, "--json")
    )
    assert plan["level"] == 0.8


def test_a_vague_prior_is_said(run: Run, example_file: Path) -> None:
    assert "little to plan on" not in run("pilot-size", example_file, "--try-rollouts", 16).out
    rng = np.random.default_rng(0)
    Path("w").write_bytes(lines(*({"id": i, "n": 4, "k": int(rng.integers(0, 5))} for i in range(20))))
    assert "little to plan on" in " ".join(run("pilot-size", "w", "--try-rollouts", 16).out.split())


def test_designs_are_marked_by_what_stops_them(run: Run) -> None:
    args = (
        "pilot-size",
        "--beta",
        "0.3,0.3",
        "--group-size",
        32,
        "--half-width",
        0.05,
        "--max-prompts",
        1000,
        "--try-rollouts",
        "2,8,32",
    )
    text = run(*args).out.splitlines()
    for o in document(run(*args, "--json"))["options"]:
        row = next(line for line in text if line.lstrip("> ").startswith(f"{o['rollouts_per_prompt']} "))
        wanted = "" if o["prompts"] else "with all allowed" if o["settles"] else "open for ever"
        assert row.endswith(wanted or "]")


def test_a_wrong_count_names_its_option(run: Run) -> None:
    for option in ("--max-rollouts", "--max-prompts"):
        assert option in run("pilot-size", "--beta", "1,1", option, "many").err


def test_a_solver_that_gives_up_claims_nothing(monkeypatch: pytest.MonkeyPatch, example_fit: PassRateFit) -> None:
    monkeypatch.setattr(identified, "_range", lambda *_: None)
    low, high = example_fit.identified_of(dead(32))
    assert low == pytest.approx(2 * 0.5**32, rel=1e-9)
    assert high == 1.0


def test_a_part_that_was_never_seen_stays_0() -> None:
    assert joined(0.0, 0.1, 0.0) == 0.0


def test_an_identified_range_holds_the_fitted_value(monkeypatch: pytest.MonkeyPatch, example_fit: PassRateFit) -> None:
    monkeypatch.setattr(identified, "_range", lambda *_: (0.9, 0.95))
    assert example_fit.identified_of(dead(32))[0] < 0.9
