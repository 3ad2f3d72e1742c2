"""Estimators, objectives, the frontier, and how sure a plan is: exact sums, simulation, corners, hostile input."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.costs import Budget, CostModel, Design
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.estimators import ESTIMATORS, get_estimator
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.curve import LimitsCurve
from grpo_plan.fitting.points import thinned
from grpo_plan.groups import rare_mode_miss_probability
from grpo_plan.pilot import Pilot
from grpo_plan.planning import KappaRange, plan_group_size
from grpo_plan.planning.objectives import hard_coverage, hard_coverage_limits, rare_mode_miss
from grpo_plan.rules import RuleCheck

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

BUDGET = Budget(rollouts=2_000_000, steps=500)
EVERY = range(2, 129)
p = sp.symbols("p", positive=True)
MIX = (
    [sp.Rational(1, 20), sp.Rational(1, 3), sp.Rational(9, 10)],
    [sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)],
)
quick = settings(max_examples=40, deadline=None)


def fit_of(a: float, b: float, prompts: int, n: int, seed: int = 0) -> PassRateFit:
    rng = np.random.default_rng(seed)
    return fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.beta(a, b, prompts)), n))


# --- estimators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("g", [2, 3, 4, 7])
def test_eq_68_sign_by_enumeration(g: int) -> None:
    mean = sum(eq.binomial_pmf(k, g, p) * eq.sign_signal(k, p, g) for k in range(g + 1))
    square = sum(eq.binomial_pmf(k, g, p) * eq.sign_signal(k, p, g) ** 2 for k in range(g + 1))
    assert sp.expand(mean - eq.sign_signal_mean(p)) == 0
    assert sp.expand(square - eq.sign_signal_second_moment(p, g)) == 0


@pytest.mark.parametrize("g", [2, 3, 5, 16])
def test_eq_68_the_library_needs_only_the_law_in_groups_of_four(g: int) -> None:
    law = [float(x) for x in eq.mixture_law(*MIX, 4)]
    moments = get_estimator("sign").moments(lambda size: np.array(law) if size == 4 else np.zeros(size + 1), g)
    assert moments.signal == pytest.approx(float(eq.mixture_mean(eq.sign_signal_mean, *MIX)))
    square = eq.mixture_mean(partial(eq.sign_signal_second_moment, group_size=g), *MIX)
    assert moments.signal_square == pytest.approx(float(square))
    assert moments.noise == pytest.approx(1.0 / g)


@pytest.mark.parametrize("g", range(2, 9))
def test_eq_24_means_of_maxrl_in_the_table(g: int) -> None:
    q = 1 - p
    signal = eq.group_mean(partial(eq.signal, "maxrl", group_size=g), p, g)
    noise = eq.group_mean(partial(eq.noise, "maxrl", group_size=g), p, g)
    h = sum((q ** (g - j) - q**g) / j for j in range(1, g + 1))
    assert sp.expand(signal - q * (1 - q ** (g - 1))) == 0
    assert sp.expand(noise - (h - (1 - q**g) / g)) == 0


@pytest.mark.parametrize("pair", [("grpo", "grpo_sample"), ("dr_grpo", "rloo"), ("dr_grpo", "grpo_batch")])
def test_pairs_that_share_one_plan(example_fit: PassRateFit, pair: tuple[str, str]) -> None:
    plans = [plan_group_size(example_fit, budget=BUDGET, estimator=name) for name in pair]
    shares = [[(x.progress_low, x.progress_high, x.worst_regret) for x in plan.frontier] for plan in plans]
    assert np.asarray(shares[0]) == pytest.approx(np.asarray(shares[1]), rel=1e-9)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_plans(example_fit: PassRateFit, name: str) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, estimator=name, kappa=10.0)
    assert plan.estimator == name
    assert 2 <= plan.recommended.design.group_size <= 64


def test_sign_has_no_signal_of_k_alone() -> None:
    with pytest.raises(DomainError, match="sign is not centred"):
        get_estimator("sign").signal(4)


# --- laws and limits at many group sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize("g", [2, 3, 6])
def test_eq_16_leaving_out_one_rollout(g: int) -> None:
    law = eq.mixture_law(*MIX, g)
    smaller = eq.mixture_law(*MIX, g - 1)
    assert all(sp.simplify(a - b) == 0 for a, b in zip(eq.thinned_law(law), smaller, strict=True))
    assert thinned(np.array([float(x) for x in law])) == pytest.approx([float(x) for x in smaller], rel=1e-12)


def test_laws_at_many_sizes_are_those_at_one(example_fit: PassRateFit) -> None:
    together = example_fit.group_pmfs([2, 8, 9, 10, 33, 64, 65, 512])
    for g, law in together.items():
        assert law == pytest.approx(example_fit.group_pmf(g), rel=1e-9, abs=1e-15)
        assert law.sum() == pytest.approx(1.0)
        assert law[0] + law[-1] == pytest.approx(example_fit.dead(g).value, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "prompts", "n"), [(0.35, 0.7, 1209, 8), (0.3, 0.3, 100_000, 8), (0.5, 2.0, 200, 4)])
def test_eq_72_limits_between_knots(a: float, b: float, prompts: int, n: int) -> None:
    fit = fit_of(a, b, prompts, n)
    curve = LimitsCurve.of(fit, 512)
    between = [g for g in range(2, 513) if g not in curve.knots][::23]
    assert len(between) > 15
    for g in between:
        exact, quick_one = fit.dead(g).interval, curve.dead(g, 0.95).interval
        assert exact[0] - 1e-3 <= quick_one[0] <= exact[0] + 1e-5  # never narrower than the exact ones by more than
        assert exact[1] - 1e-5 <= quick_one[1] <= exact[1] + 1e-3  # the accuracy of the solver


@quick
@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4), st.integers(2, 60), st.integers(1, 40), st.integers(1, 40)
)
def test_eq_72_log_d_is_convex(rates: list[float], first: int, one: int, two: int) -> None:
    sizes = (first, first + one, first + one + two)
    values = [float(np.mean([r**g + (1 - r) ** g for r in rates])) for g in sizes]
    if min(values) > 1e-200:
        chord = float(eq.log_chord(values[0], values[2], sizes[0], sizes[2], sizes[1]))
        assert values[1] <= chord * (1 + 1e-9)


def test_a_frontier_of_every_group_size_is_the_one_of_few(example_fit: PassRateFit) -> None:
    many = plan_group_size(example_fit, budget=BUDGET, group_sizes=range(2, 200))
    few = plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 8, 100])
    by_size = {x.design.group_size: x for x in many.frontier}
    for x in few.frontier:
        other = by_size[x.design.group_size]
        assert other.dead.value == x.dead.value
        assert other.dead.interval == pytest.approx(x.dead.interval, abs=1e-3)
        assert other.design == x.design


# --- objectives --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed-groups", "signal"])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (0.2, 2.0), (3.0, 1.0), (1.0, 1.0)])
def test_mixed_groups_takes_two_or_three_for_every_f_and_signal_does_not(a: float, b: float, name: str) -> None:
    plan = plan_group_size(
        fit_of(a, b, 2000, 8), budget=Budget(rollouts=10**7, steps=100), objective=name, group_sizes=EVERY
    )
    assert (plan.recommended.design.group_size <= 3) == (name == "mixed-groups")


def test_a_cost_per_prompt_moves_mixed_groups_up(example_fit: PassRateFit) -> None:
    plan = plan_group_size(
        example_fit, budget=BUDGET, objective="mixed-groups", cost=CostModel(prompt_rollouts=4.0), group_sizes=EVERY
    )
    assert plan.recommended.design.group_size > 3


def test_eq_70_is_eq_5_over_prompts() -> None:
    law = eq.mixture_law(*MIX, 6)
    share = sp.Rational(1, 10)
    direct = eq.mixture_mean(lambda r: eq.rare_mode_miss(r, share * r, 6), *MIX)
    assert sp.simplify(eq.rare_mode_miss_of_law(law, share) - direct) == 0
    assert rare_mode_miss(np.array([float(x) for x in law]), 0.1) == pytest.approx(float(direct))


def test_eq_70_published_values() -> None:
    from scipy.stats import binom

    for g, published in ((4, 0.7110), (5, 0.7241), (8, 0.6578), (16, 0.4401)):
        miss = rare_mode_miss(binom.pmf(np.arange(g + 1), g, 0.5), 0.1)
        assert miss == pytest.approx(published, abs=1e-4)
        assert miss == pytest.approx(float(rare_mode_miss_probability(0.5, 0.05, g)))


def test_rare_mode_avoids_the_middle(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, objective="rare-mode", group_sizes=[2, 8, 16])
    assert plan.recommended.design.group_size == 2
    assert "Most miss it at G = 8" in plan.pick.comment


def test_eq_69_coverage_of_known_rates() -> None:
    expected = eq.coverage_of_hard(*MIX, 8, sp.Rational(1, 2))
    rng = np.random.default_rng(1)
    rates = rng.choice([0.05, 1 / 3, 0.9], 40_000, p=[1 / 2, 1 / 3, 1 / 6])
    fit = fit_pass_rates(Pilot.from_counts(rng.binomial(16, rates), 16))
    value = hard_coverage(fit, 8, 0.5)
    assert value == pytest.approx(float(expected), abs=0.02)
    low, high = hard_coverage_limits(fit, 8, 0.5)
    assert low <= value <= high  # type: ignore[operator]
    assert low <= float(expected) <= high
    assert high - low < 0.2


@pytest.mark.slow
def test_eq_69_limits_cover() -> None:
    """40 pilots of 300 prompts: the limits hold the truth in at least 34 (below 5e-5 by luck at 95 %)."""
    from scipy.integrate import quad
    from scipy.stats import beta

    law = beta(0.4, 0.8)
    part = quad(lambda x: (1 - (1 - x) ** 8) * law.pdf(x), 0, 0.25)[0]
    truth = part / law.cdf(0.25)
    held = 0
    for seed in range(40):
        low, high = hard_coverage_limits(fit_of(0.4, 0.8, 300, 8, seed), 8, 0.25)
        held += low <= truth <= high
    assert held >= 34


def test_objectives_say_why_what_next_and_what_would_change_them(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET)
    assert [a.objective for a in plan.alternatives] == ["max-dead", "mixed-groups", "coverage", "rare-mode"]
    for found in (plan.pick, *plan.alternatives):
        assert found.planned is not None
        assert found.comment.endswith(".")
        assert found.would_change
        assert found.runner_up != found.planned.design.group_size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "max-dead", "max_dead": 0.01}, "No feasible group size has D"),
        ({"objective": "coverage", "min_coverage": 0.999}, "At no feasible group size"),
    ],
)
def test_an_objective_that_nothing_satisfies(
    example_fit: PassRateFit, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InfeasiblePlanError, match=message):
        plan_group_size(example_fit, budget=BUDGET, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["hard_below", "rare_share"])
@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan")])
def test_bad_lines_are_refused(example_fit: PassRateFit, name: str, value: float) -> None:
    with pytest.raises(DomainError, match=name):
        plan_group_size(example_fit, budget=BUDGET, **{name: value})  # type: ignore[arg-type]


# --- how sure -----------------------------------------------------------------------------------------------------


def test_eq_71_is_the_derivative_of_the_log() -> None:
    mass, t, u = sp.symbols("e t u", positive=True)
    signals, seconds, rho = sp.Rational(1, 8), sp.Rational(1, 5), sp.Rational(1, 100)
    mean, square = (1 - mass) * signals + mass * t, (1 - mass) * seconds + mass * u
    slope = sp.diff(sp.log(mean**2 / (square - rho * mean**2)), mass).subs(mass, 0)
    assert sp.simplify(slope - eq.log_worth_influence(t, u, signals, seconds, rho)) == 0


@pytest.mark.slow
def test_eq_71_limits_cover_the_true_ratio() -> None:
    """60 pilots of 400 prompts, G = 4 against 16 at n = 8: at least 51 hold the truth (below 3e-5 by luck at 95 %)."""
    truth_fit = fit_pass_rates(
        Pilot.from_counts(np.random.default_rng(9).binomial(32, np.random.default_rng(8).beta(0.4, 0.8, 300_000)), 32)
    )
    sizes = [4, 16]
    truth = plan_group_size(truth_fit, budget=Budget(rollouts=10**6, steps=10), group_sizes=sizes, kappa=5.0)
    ratio = truth.frontier[1].progress_high
    held, widths = 0, []
    for seed in range(60):
        plan = plan_group_size(
            fit_of(0.4, 0.8, 400, 8, seed), budget=Budget(rollouts=10**6, steps=10), group_sizes=sizes, kappa=5.0
        )
        low, high = plan.progress_limits(plan.frontier[1], 5.0)
        held += low <= ratio <= high
        widths.append(high - low)
    assert held >= 51
    assert max(widths) < 0.25


def test_a_measured_kappa_with_its_interval(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=KappaRange(low=2.0, high=12.0, value=5.0))
    alone = plan_group_size(example_fit, budget=BUDGET, kappa=5.0)
    assert plan.recommended.design == alone.recommended.design
    assert [a.kappa for a in plan.sensitivity] == [2.0, 5.0, 12.0]
    assert plan.recommended.worst_regret == alone.recommended.worst_regret
    assert "for kappa 5" in str(plan)
    with pytest.raises(DomainError, match="must lie in its interval"):
        KappaRange(low=1.0, high=2.0, value=3.0)


def test_the_best_design_needs_no_limits(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=5.0)
    best = max(plan.frontier, key=lambda x: 1 - x.worst_regret)
    assert plan.progress_limits(best, 5.0) == (1.0, 1.0)
    for x in plan.frontier[:6]:
        low, high = plan.progress_limits(x, 5.0)
        assert low <= plan.progress_at(x, 5.0) <= high


# --- rules, refill, cost as the answer -------------------------------------------------------------------------------


class EightAtATime:
    """Takes whole chunks of 64 rollouts, and no groups of 7 or 9."""

    name = "Chunky"

    def prompt_multiple(self, group_size: int) -> int | None:
        return None if group_size in (7, 9) else 64 // int(np.gcd(64, group_size))

    def checks(self, design: Design) -> tuple[RuleCheck, ...]:
        left = design.rollouts_per_step % 64
        return (RuleCheck(rule="rollouts % 64 == 0", satisfied=left == 0, detail=f"{design.rollouts_per_step} % 64"),)


@quick
@given(st.integers(200, 50_000), st.integers(1, 50), st.lists(st.integers(2, 80), min_size=1, max_size=6))
def test_every_design_of_the_frontier_obeys_the_rules(rollouts: int, steps: int, sizes: list[int]) -> None:
    fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    try:
        plan = plan_group_size(
            fit, budget=Budget(rollouts=rollouts, steps=steps), group_sizes=sizes, rules=EightAtATime()
        )
    except InfeasiblePlanError:
        return
    for x in plan.frontier:
        assert x.design.rollouts_per_step % 64 == 0
        assert x.design.rollouts_per_step * steps <= rollouts
        assert all(check.satisfied for check in x.checks)
        multiple = 64 // int(np.gcd(64, x.design.group_size))
        most = rollouts // (steps * x.design.group_size) // multiple * multiple  # nothing larger fits
        even = most // (8 * multiple) * 8 * multiple
        assert x.design.prompts_per_step == (even if even >= 0.98 * most else most)


def test_a_group_size_that_the_trainer_refuses(example_fit: PassRateFit) -> None:
    with pytest.raises(
        InfeasiblePlanError, match=r"Chunky accepts no groups of 7 here\. Nearest that it accepts: G = "
    ):
        plan_group_size(example_fit, budget=BUDGET, group_sizes=[7], rules=EightAtATime())
    fixed = Budget(rollouts_per_step=10**6, prompts_per_step=100)
    with pytest.raises(InfeasiblePlanError, match=r"G = 6 needs a multiple of 32 prompts a step; got 100.*96 or 128"):
        plan_group_size(example_fit, budget=fixed, group_sizes=[6], rules=EightAtATime())


def test_refill_fills_every_step_and_costs_more_prompts(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, cost=CostModel(refill=True), kappa=10.0)
    best = plan.recommended
    mixed = 1.0 - (best.dead.value or 0.0)
    assert best.batch.mixed_groups.mean == best.batch.mixed_groups.p05 == best.design.prompts_per_step
    assert best.cost.groups == pytest.approx(best.design.prompts_per_step * 500 / mixed)
    assert best.cost_low is not None
    assert best.cost_high is not None
    assert best.cost_low.rollouts < best.cost.rollouts < best.cost_high.rollouts
    plain = plan_group_size(example_fit, budget=BUDGET, kappa=10.0)
    same = {x.design.group_size: x.progress_high for x in plain.frontier}
    for x in plan.frontier:
        if x.design.group_size <= 32:  # the dead add nothing, so refill changes no progress per rollout
            assert x.progress_high == pytest.approx(same[x.design.group_size], rel=0.02)


def test_without_a_total_the_cost_is_the_answer(example_fit: PassRateFit) -> None:
    plan = plan_group_size(
        example_fit, budget=Budget(prompts_per_step=100, steps=10), group_sizes=[2, 4, 8, 16], kappa=5.0
    )
    assert [x.cost.rollouts for x in plan.frontier] == [1000 * g for g in (2, 4, 8, 16)]
    within = plan_group_size(example_fit, budget=Budget(rollouts=10**9, steps=10), group_sizes=[2, 4, 8, 16], kappa=5.0)
    assert plan.recommended.design.group_size == within.recommended.design.group_size  # best per cost either way


@pytest.mark.parametrize(
    "budget",
    [
        Budget(rollouts=10_000, steps=10),
        Budget(rollouts=10_000, prompts_per_step=50),
        Budget(prompts_per_step=50, steps=10),
        Budget(rollouts=10_000, steps=10, prompts_per_step=50),
    ],
)
def test_all_but_one(example_fit: PassRateFit, budget: Budget) -> None:
    sizes = None if budget.rollouts and budget.steps and budget.prompts_per_step else [4]
    plan = plan_group_size(example_fit, budget=budget, group_sizes=sizes, kappa=5.0)
    design = plan.recommended.design
    assert design.steps is not None
    assert (design.rollouts or 0) <= (budget.rollouts or 10**9)
    if sizes is None:
        assert design.group_size == 20  # 10,000 / (10 x 50)


# --- words -------------------------------------------------------------------------------------------------------


def measured(passes: list[int]) -> gp.KappaMeasurement:
    rng = np.random.default_rng(0)
    base = rng.gamma(4.0, 0.25, 200)
    norms = {4: base * (1 + 6 / 3), 16: base * (1 + 6 / 15)}
    rewards = np.array([[1.0] * k + [0.0] * (16 - k) for k in rng.choice(passes, 200)])
    return gp.measure_kappa(norms, rewards=rewards)


def test_a_probe_on_other_prompts_than_the_pilot_s_is_said(example_fit: PassRateFit) -> None:
    same = plan_group_size(example_fit, budget=BUDGET, kappa=measured([0, 0, 0, 1, 3, 8, 12, 15]))
    assert same.assumptions[0].startswith("kappa ")
    assert same.kappa.low < (same.kappa.value or 0.0) < same.kappa.high
    other = plan_group_size(example_fit, budget=BUDGET, kappa=measured([0, 0, 0, 1]))
    assert "The probe's own pass rates give" in other.assumptions[0]


def test_a_step_that_noise_does_not_dominate_is_said(example_fit: PassRateFit) -> None:
    words = "The formulas hold where noise dominates a step"
    large = plan_group_size(example_fit, budget=Budget(rollouts=10**8, steps=10), kappa=1.0, coherence=0.3)
    assert large.recommended.noise_to_signal is not None
    assert (large.recommended.noise_to_signal.value or 9.0) < 1.0
    assert any(words in text for text in large.assumptions)
    small = plan_group_size(example_fit, budget=Budget(rollouts=10**4, steps=10), kappa=10.0, coherence=0.001)
    assert not any(words in text for text in small.assumptions)


@pytest.mark.parametrize("kappa", ["1:10", (1.0, 2.0, 3.0), None, ("a", 2.0)])
def test_what_is_no_kappa(example_fit: PassRateFit, kappa: object) -> None:
    with pytest.raises(DomainError, match="kappa must be a number, a pair"):
        plan_group_size(example_fit, budget=BUDGET, kappa=kappa)  # type: ignore[arg-type]


def test_a_plan_survives_a_pickle(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 8, 16])
    before = plan.progress_limits(plan.frontier[2], plan.kappa.low)
    again = pickle.loads(pickle.dumps(plan))
    assert again.progress_limits(again.frontier[2], again.kappa.low) == before
    assert str(again) == str(plan)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 10.0, 100.0])
def test_a_known_kappa_takes_the_smallest_size_within_a_tenth_of_the_best(kappa: float) -> None:
    """By hand from the progress of each design; a range of kappa still takes the least worst case."""
    fit = gp.fit_pass_rates(gp.Pilot.from_counts([0] * 120 + [1] * 30 + [3] * 30 + [8] * 60, 8))
    plan = gp.plan_group_size(fit, budget=gp.Budget(rollouts=1_000_000, steps=100), kappa=kappa)
    close = [p.design.group_size for p in plan.frontier if plan.progress_at(p, kappa) >= 0.9]
    assert plan.recommended.design.group_size == min(close) == plan.flat_range[0]
    assert plan.least_regret.worst_regret == 0.0
    ranged = gp.plan_group_size(fit, budget=gp.Budget(rollouts=1_000_000, steps=100), kappa=(kappa / 3, kappa * 3))
    least = min(p.worst_regret for p in ranged.frontier)
    low = next(p for p in ranged.frontier if p.design.group_size == ranged.flat_range[0])
    leaned = low.worst_regret <= 0.1
    assert ranged.recommended is low if leaned else ranged.recommended.worst_regret <= least + 0.01
    fixed = gp.plan_group_size(fit, budget=gp.Budget(rollouts=1_000_000, steps=100, prompts_per_step=64), kappa=kappa)
    assert fixed.recommended.design.group_size >= 128  # larger groups cost no prompts here
