"""Budgets, the signal objective, and the plan: exact sums, simulation of the score model, and corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grpo_plan.costs import Budget, CostModel, binding_constraint, design_for
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.estimators import get_estimator
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning import KappaRange, plan_group_size
from grpo_plan.planning.frontier import candidate_group_sizes
from grpo_plan.planning.signal import group_moments, progress, two_stage_group_size
from tests.conftest import pilot_of
from tests.helpers import assert_mean

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

EVERY = range(2, 200)


def beta_fit(a: float, b: float, prompts: int = 20_000) -> PassRateFit:
    """A fit whose Beta is near (a, b), used with the Beta at every G."""
    rng = np.random.default_rng(0)
    return fit_pass_rates(Pilot.from_counts(rng.binomial(16, rng.beta(a, b, prompts)), 16), "beta")


# --- score model -------------------------------------------------------------------------------------------------


def simulated_groups(
    name: str, p: float, g: int, kappa: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ghat along the gradient and |ghat|**2, over h and h**2: scores (r - p)/(pq) g + eps, |g| = h pq, E|eps|**2 = kappa."""
    groups, dimensions = 60_000, 3
    rewards = (rng.random((groups, g)) < p).astype(float)
    eps = rng.normal(0.0, (kappa / dimensions) ** 0.5, (groups, g, dimensions))
    gradient = np.zeros(dimensions)
    gradient[0] = p * (1 - p)
    score = ((rewards - p) / (p * (1 - p)))[..., None] * gradient + eps
    mean = rewards.mean(axis=1, keepdims=True)
    centred = rewards - mean
    if name in ("grpo", "grpo_sample"):
        std = rewards.std(axis=1, keepdims=True, ddof=1 if name == "grpo_sample" else 0)
        advantage = np.divide(centred, std, out=np.zeros_like(centred), where=std > 0)
    elif name == "maxrl":
        advantage = np.divide(centred, mean, out=np.zeros_like(centred), where=mean > 0)
    elif name == "sign":
        advantage = 2.0 * rewards - 1.0
    else:
        advantage = centred * (g / (g - 1) if name == "rloo" else 1.0)
    estimate = (advantage[..., None] * score).mean(axis=1)
    return estimate[:, 0], np.asarray((estimate**2).sum(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dr_grpo", "grpo", "grpo_batch", "grpo_sample", "maxrl", "rloo", "sign"])
@pytest.mark.parametrize(("p", "g"), [(0.5, 2), (0.1, 4), (0.3, 8), (0.9, 16)])
def test_moments_of_a_group_by_simulation(name: str, p: float, g: int) -> None:
    """60,000 groups each, 5 standard errors: 56 checks, false alarm about 3e-5 in all."""
    rng = np.random.default_rng([g, len(name)])
    kappa = 2.0
    from scipy.stats import binom

    moments = get_estimator(name).moments(lambda size: binom.pmf(np.arange(size + 1), size, p), g)
    expected = moments.signal_square + kappa * moments.noise
    along, squares = simulated_groups(name, p, g, kappa, rng)
    assert_mean(along, moments.signal, catches=0.15 * abs(moments.signal))
    assert_mean(squares, expected, catches=0.15 * expected)
    with pytest.raises(AssertionError, match="z ="):  # the same sum without the dead groups' share is caught
        assert_mean(squares, expected * 1.3, catches=0.15 * expected)


@pytest.mark.parametrize("g", [2, 3, 4, 8, 33])
def test_constant_factors_do_not_change_the_plan(example_fit: PassRateFit, g: int) -> None:
    (rloo,), (centred,) = (group_moments(example_fit, [g], get_estimator(e)) for e in ("rloo", "dr_grpo"))
    factor = g / (g - 1)
    assert rloo.signal == pytest.approx(factor * centred.signal)
    assert rloo.signal_square == pytest.approx(factor**2 * centred.signal_square)
    assert rloo.noise == pytest.approx(factor**2 * centred.noise)


def test_grpo_signal_is_the_expected_group_std(example_fit: PassRateFit) -> None:
    from grpo_plan.groups import expected_group_std

    rates = np.linspace(0.01, 0.99, 7)
    from scipy.stats import binom

    signal = get_estimator("grpo").signal(8)
    law = binom.pmf(np.arange(9)[None, :], 8, rates[:, None])
    assert law @ signal == pytest.approx(expected_group_std(rates, 8), rel=1e-12)


@pytest.mark.parametrize(
    ("pq", "ppqq", "kappa", "measured", "exact_error", "closed_error"),
    [
        pytest.param(0.109, 0.0195, 0.87, [5.8, 4.9, 5.9, 8.6, 14.4, 26.1], 0.014, 0.075, id="all-prompts"),
        pytest.param(0.110, 0.0194, 5.64, [29.0, 20.3, 18.8, 21.0, 27.0, 39.8], 0.023, 0.029, id="tail-tokens"),
        pytest.param(0.023, 0.0012, 1.42, [23.3, 15.2, 14.3, 17.6, 25.0, 41.0], 0.162, 0.079, id="hard-prompts"),
    ],
)
def test_relative_progress_against_gradients_measured_in_training(
    pq: float, ppqq: float, kappa: float, measured: list[float], exact_error: float, closed_error: float
) -> None:
    """Noise-to-signal ratios of measured GRPO gradients at G = 2..64 (mean-centred, 512 rollouts a step).

    The errors are those of docs/design.md; the third condition is one where the model is wrong, and by how much.
    """
    g = np.array([2.0, 4, 8, 16, 32, 64])
    exact = g * (ppqq * (g - 2) * (g - 3) / (g * (g - 1)) + pq / g + kappa * pq / (g - 1))
    closed = g * (ppqq + kappa * pq / (g - 1))
    observed = min(measured) / np.array(measured)
    assert np.abs(exact.min() / exact - observed).max() == pytest.approx(exact_error, abs=0.001)
    assert np.abs(closed.min() / closed - observed).max() == pytest.approx(closed_error, abs=0.001)


def test_exact_slope_explains_group_sizes_fitted_to_gradient_norms() -> None:
    """Numbers of docs/design.md: kappa grows by 1 - 4 E[p**2 q**2]/E[pq] when it is read off norms at two sizes."""
    conditions = [(0.87, 0.109, 0.0195), (0.28, 0.095, 0.0178), (1.63, 0.160, 0.0332), (5.64, 0.110, 0.0194)]
    closed = [1 + (kappa * pq / ppqq) ** 0.5 for kappa, pq, ppqq in conditions]
    slope = [1 + ((kappa + 1 - 4 * ppqq / pq) * pq / ppqq) ** 0.5 for kappa, pq, ppqq in conditions]
    assert closed == pytest.approx([3.2, 2.2, 3.8, 6.6], abs=0.06)
    assert slope == pytest.approx([3.5, 2.7, 3.9, 6.8], abs=0.06)
    assert slope == pytest.approx([3.6, 2.7, 4.0, 7.1], abs=0.35)


def test_signal_optimum_is_near_the_two_stage_closed_form() -> None:
    """The closed form leaves out the spread of t within a prompt, which adds about 1 to kappa."""
    fit = beta_fit(0.3, 0.3)
    moments = group_moments(fit, EVERY, get_estimator("rloo"))
    for kappa, published in ((10.0, 8), (30.0, 14), (100.0, 25)):
        share = progress(moments, 1.0 / np.array(EVERY, dtype=float), np.array([kappa]))[:, 0]
        exact = EVERY[int(np.argmax(share))]
        closed = two_stage_group_size(fit, kappa)
        assert closed is not None
        assert closed == pytest.approx(published, abs=1.0)
        assert abs(exact - closed) <= 1.5


def test_prompt_cost_moves_the_optimum_up(example_fit: PassRateFit) -> None:
    free = plan_group_size(example_fit, budget=Budget(rollouts=10**6, steps=100), kappa=10.0, group_sizes=EVERY)
    dear = plan_group_size(
        example_fit, budget=Budget(rollouts=10**6, steps=100), kappa=10.0, group_sizes=EVERY,
        cost=CostModel(prompt_rollouts=8.0),
    )  # fmt: skip
    assert dear.sensitivity[0].group_size > free.sensitivity[0].group_size
    assert dear.recommended.cost_rollouts <= 10**6


# --- budgets -----------------------------------------------------------------------------------------------------

WHOLE = st.integers(1, 10**6)


@settings(max_examples=200)
@given(
    rollouts=st.none() | st.integers(1, 10**9), steps=st.none() | WHOLE, prompts=st.none() | WHOLE,
    per_step=st.none() | WHOLE, g=st.integers(2, 512), c0=st.sampled_from([0.0, 0.5, 7.0]),
)  # fmt: skip
def test_designs_stay_within_the_budget(
    rollouts: int | None, steps: int | None, prompts: int | None, per_step: int | None, g: int, c0: float
) -> None:
    try:
        budget = Budget(rollouts=rollouts, steps=steps, prompts_per_step=prompts, rollouts_per_step=per_step)
    except DomainError:
        return
    cost = CostModel(prompt_rollouts=c0)
    design = design_for(g, budget, cost)
    if design is None:
        return
    assert design.prompts_per_step >= 1
    if steps is not None:
        assert design.steps == steps
    if prompts is not None:
        assert design.prompts_per_step == prompts
    if per_step is not None:
        assert design.rollouts_per_step <= per_step
    if rollouts is not None:
        assert design.steps is not None
        assert design.steps * design.prompts_per_step * cost.group(g) <= rollouts * (1 + 1e-9)
    assert binding_constraint(budget)


def test_give_all_but_one() -> None:
    cost = CostModel()
    assert design_for(8, Budget(rollouts=2_000_000, steps=500), cost) == design_for(
        8, Budget(rollouts=2_000_000, prompts_per_step=500), cost
    )
    assert design_for(8, Budget(rollouts=2_000_000, rollouts_per_step=4000), cost) == design_for(
        8, Budget(steps=500, rollouts_per_step=4000), cost
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs a budget, or the size of a step; got neither"),
        ({"steps": 500}, "needs a budget, or the size of a step; got neither"),
        ({"rollouts": 1000}, "needs one more number to size a step"),
        ({"rollouts": 0, "steps": 1}, "rollouts must be at least 1; got 0"),
        ({"rollouts": 10.5, "steps": 1}, "rollouts must be a whole number; got 10.5"),
    ],
)
def test_budgets_that_fix_too_little_are_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Budget(**values)


# --- plans -------------------------------------------------------------------------------------------------------

BUDGET = Budget(rollouts=2_000_000, steps=500)


def test_plan_of_the_example(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET)
    best = plan.recommended
    assert best.design.rollouts_per_step <= 4000
    assert best.worst_regret == pytest.approx(min(p.worst_regret for p in plan.frontier), abs=0.0101)
    assert plan.flat_range[0] <= best.design.group_size <= plan.flat_range[1]
    assert [a.kappa for a in plan.sensitivity] == pytest.approx([1.0, 300**0.5, 300.0])
    assert [a.group_size for a in plan.sensitivity] == sorted(a.group_size for a in plan.sensitivity)
    assert plan.assumptions[0].startswith("kappa")
    assert any("current policy" in a for a in plan.assumptions)
    assert any("optimistic" in a for a in plan.assumptions)
    assert {p.design.group_size for p in plan.frontier} >= {2, 4, 8, 16, 32, 64, 128, 256, 512, 5, 125}


def test_regret_is_what_brute_force_says(example_fit: PassRateFit) -> None:
    kappas = KappaRange(low=1.0, high=300.0)
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=kappas, estimator="rloo")
    table = []
    for planned in plan.frontier:
        g, n = planned.design.group_size, planned.design.prompts_per_step
        pmf, k = example_fit.likely_rates.group_pmf(g), np.arange(g + 1)  # beyond n, and so at every size
        t = k * (g - k) / (g * (g - 1))
        v = k * (g - k) / (g * (g - 1) ** 2)
        table.append([n * 500 * (pmf @ t) ** 2 / (pmf @ t**2 + kappa * (pmf @ v)) for kappa in kappas.grid()])
    share = np.array(table) / np.max(table, axis=0)
    assert [p.worst_regret for p in plan.frontier] == pytest.approx(1 - share.min(axis=1), abs=1e-9)


def test_signal_takes_neither_trivial_corner(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET)
    assert 3 < plan.recommended.design.group_size < 512


def test_max_dead_picks_the_first_size_below_the_limit_and_warns(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, objective="max-dead", max_dead=0.45)
    assert plan.recommended.design.group_size == 8
    values = {p.design.group_size: p.dead.value for p in plan.frontier}
    assert values[6] is not None
    assert values[6] > 0.45
    alternative = plan_group_size(example_fit, budget=BUDGET).alternatives[0]
    assert alternative.objective == "max-dead"
    assert "not a goal in itself" in alternative.comment


def test_a_measured_kappa_has_one_answer(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=10.0)
    assert plan.kappa.known
    assert not plan.kappa.measured  # typed, not measured
    assert len(plan.sensitivity) == 1
    assert plan.recommended.design.group_size == plan.flat_range[0]  # the smallest within 10 % of the best
    assert plan.recommended.worst_regret <= 0.1
    assert plan.least_regret.worst_regret == 0.0
    assert not any(a.startswith("kappa") for a in plan.assumptions)


def test_noise_to_signal_needs_the_coherence(example_fit: PassRateFit) -> None:
    assert plan_group_size(example_fit, budget=BUDGET).recommended.noise_to_signal is None
    known = plan_group_size(example_fit, budget=BUDGET, kappa=10.0, coherence=0.01, group_sizes=[8]).recommended
    larger = plan_group_size(
        example_fit, budget=Budget(rollouts=8_000_000, steps=500), kappa=10.0, coherence=0.01, group_sizes=[8]
    ).recommended
    pmf, k = example_fit.group_pmf(8), np.arange(9)
    t = np.sqrt(k * (8 - k)) / 8
    mean = float(pmf @ t)
    v = float(pmf[1:-1].sum()) / 8
    expected = (float(pmf @ t**2) + 10.0 * v - 0.01 * mean**2) / (500 * 0.01 * mean**2)
    for found, truth in ((known.noise_to_signal, expected), (larger.noise_to_signal, expected / 4)):
        assert found is not None
        assert (found.value, found.low, found.high) == pytest.approx((truth, truth, truth))


def test_coherence_lowers_the_variance_of_large_groups_most(example_fit: PassRateFit) -> None:
    moments = group_moments(example_fit, (4, 64), get_estimator("rloo"))
    groups = np.array([16.0, 1.0])
    for rho in (0.0, 0.3):
        raw = [
            n * m.signal**2 / (m.signal_square + 5.0 * m.noise - rho * m.signal**2)
            for n, m in zip(groups, moments, strict=True)
        ]
        share = progress(moments, groups, np.array([5.0]), rho)[:, 0]
        assert share == pytest.approx(np.array(raw) / max(raw))
    with pytest.raises(DomainError, match="coherence must be below 1"):
        progress(moments, groups, np.array([5.0]), 1.0)


def test_prompt_costs_count_without_a_total_budget(example_fit: PassRateFit) -> None:
    """At 1,024 rollouts a step a dear prompt makes larger groups better, as it does under a total budget."""
    step = Budget(rollouts_per_step=1024)
    free, dear = (
        plan_group_size(example_fit, budget=step, kappa=10.0, cost=CostModel(prompt_rollouts=c0)).sensitivity[0]
        for c0 in (0.0, 50.0)
    )
    assert dear.group_size > free.group_size
    assert dear.two_stage is not None
    assert free.two_stage is not None
    assert dear.two_stage > free.two_stage


def test_fixed_steps_and_prompts_leave_the_largest_group_that_the_costs_allow(example_fit: PassRateFit) -> None:
    for c0, largest in ((0.0, 9), (2.0, 7)):
        plan = plan_group_size(
            example_fit, budget=Budget(rollouts=5_000_000, steps=1000, prompts_per_step=512),
            cost=CostModel(prompt_rollouts=c0),
        )  # fmt: skip
        assert plan.frontier[-1].design.group_size == largest == plan.least_regret.design.group_size


def test_candidates_are_powers_and_divisors() -> None:
    steps = {*(2**i for i in range(1, 10)), *(3 * 2**i for i in range(8)), *(5 * 2**i for i in range(7))}
    assert candidate_group_sizes(None) == tuple(sorted(steps))
    assert {5, 10, 20, 25, 40, 50, 100, 125, 200, 250, 400, 500} <= set(candidate_group_sizes(4000))
    assert candidate_group_sizes(4000.5) == candidate_group_sizes(None)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((60, 0, 0, 0, 0), "no prompt of the pilot is mixed. D(4) is at least 0.94"),
        ((0, 0, 0, 0, 60), "no prompt of the pilot is mixed"),
        ((30, 0, 0, 0, 30), "no prompt of the pilot is mixed"),
    ],
)
def test_dead_pilots_cannot_be_planned(counts: tuple[int, ...], message: str) -> None:
    with pytest.raises(InfeasiblePlanError) as caught:
        plan_group_size(fit_pass_rates(pilot_of(counts)), budget=BUDGET)
    assert message in str(caught.value)


def test_infeasible_requests_name_the_cheapest_design(example_fit: PassRateFit) -> None:
    with pytest.raises(InfeasiblePlanError, match=r"No design fits 100 rollouts and 500 steps.* needs 1,000 rollouts"):
        plan_group_size(example_fit, budget=Budget(rollouts=100, steps=500))
    with pytest.raises(InfeasiblePlanError, match=r"No feasible group size has D\(G\) <= 0.001; D\(512\) is 0.09"):
        plan_group_size(example_fit, budget=BUDGET, objective="max-dead", max_dead=0.001)
    with pytest.raises(InfeasiblePlanError, match="No design fits"):
        plan_group_size(example_fit, budget=Budget(rollouts_per_step=8, prompts_per_step=100))
    with pytest.raises(PilotError, match="does not determine groups"):
        plan_group_size(fit_pass_rates(pilot_of((30, 70))), budget=BUDGET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"objective": "speed"},
            "objective must be one of signal, max-dead, mixed-groups, coverage, rare-mode; got 'speed'",
        ),
        (
            {"estimator": "ppo"},
            "estimator must be one of grpo, grpo_sample, grpo_batch, dr_grpo, rloo, maxrl, .*; got 'ppo'",
        ),
        ({"kappa": (300.0, 1.0)}, "kappa must be LO:HI with LO <= HI; got 300:1"),
        ({"kappa": -1.0}, "kappa must be finite and at least 0; got -1"),
        ({"group_sizes": [1]}, "group_size must be at least 2; got 1"),
        ({"group_sizes": []}, "group_sizes must hold at least one group size"),
        ({"max_dead": 40}, "max_dead must lie in .0, 1.; got 40. Percentages"),
        ({"coherence": 2.0}, "coherence must lie in .0, 1.; got 2"),
    ],
)
def test_bad_options_are_refused(example_fit: PassRateFit, options: dict[str, object], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        plan_group_size(example_fit, budget=BUDGET, **options)  # type: ignore[arg-type]
