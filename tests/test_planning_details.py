"""Details of a plan that one slip would change: ends of intervals, units, what is fixed, what the page and JSON say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.costs import Budget, CostModel, Design
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.estimators import get_estimator
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.curve import LimitsCurve
from grpo_plan.fitting.functionals import custom
from grpo_plan.planning import KappaRange, plan_group_size
from grpo_plan.planning.frontier import candidate_group_sizes, fixed_cost
from grpo_plan.planning.objectives import flat_range, hard_coverage, hard_coverage_limits, least_regret, rare_mode_miss
from grpo_plan.planning.plan import PlannedDesign
from grpo_plan.planning.planned_kappa import planned_kappa
from grpo_plan.planning.precision import _influence, progress_limits
from grpo_plan.planning.signal import MAX_KAPPA, two_stage_group_size
from grpo_plan.rules import RuleCheck
from tests.conftest import pilot_of
from tests.test_cli import Run, document, run

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

__all__ = ["run"]
BUDGET = Budget(rollouts=2_000_000, steps=500)
SIZES = [2, 4, 8, 12, 16, 32]
PRICES = {
    "pass_tokens": 400.0, "fail_tokens": 900.0, "prompt_tokens": 100.0, "prefill_tokens_per_s": 1e5,
    "decode_tokens_per_s": 1e4, "train_tokens_per_s": 2e4, "gpus": 8, "usd_per_gpu_hour": 2.0,
}  # fmt: skip


def worth(fit: PassRateFit, g: int, kappa: float, rho: float, name: str = "grpo", largest: int = 8) -> float:
    """``E[t]**2 / (E[t**2] + kappa E[v] - rho E[t]**2)`` of eq. 26, in a table that goes up to ``largest``.

    Of the counts up to n = 8; of the likely law where the table goes beyond.
    """
    m = get_estimator(name).moments(fit.group_pmf if largest <= 8 else fit.likely_rates.group_pmf, g)
    return m.signal**2 / (m.signal_square + kappa * m.noise - rho * m.signal**2)


def by_size(plan: gp.Plan) -> dict[int, PlannedDesign]:
    return {p.design.group_size: p for p in plan.frontier}


# --- kappa ---------------------------------------------------------------------------------------------------------


def test_a_range_from_zero_or_near_it_starts_there() -> None:
    for low in (0.0, 1e-9):
        kappas = KappaRange(low=low, high=300.0)
        assert kappas.grid()[0] == low
        assert kappas.grid()[-1] == pytest.approx(300.0)
        assert np.diff(np.log(kappas.grid()[1:])).max() < 0.4  # fine enough for a maximum between the points
        assert kappas.shown()[0] == low
    assert KappaRange(low=1.0, high=MAX_KAPPA).high == MAX_KAPPA
    with pytest.raises(DomainError, match="kappa must be at most"):
        KappaRange(low=1.0, high=MAX_KAPPA * 1.001)


def measurement(noise: float, mean_square: float | None = None) -> gp.KappaMeasurement:
    lengths = np.random.default_rng(0).gamma(2.0, size=300)
    norms = {g: lengths * (1.0 + noise / (g - 1)) for g in (4, 16)}
    return gp.measure_kappa(norms, resamples=200, mean_gradient_square=mean_square)


class Found:
    """What `planned_kappa` asks a measurement for."""

    def __init__(self, value: float | None, low: float, high: float | None) -> None:
        self.answer = gp.planning.kappa.Measured(value=value, low=low, high=high)

    def kappa_for(self, fit: PassRateFit) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((5.0, 2.0, 9.0), (2.0, 9.0, 5.0)),
        ((5.0, -2.0, 9.0), (0.0, 9.0, 5.0)),
        ((5.0, 2.0, None), (2.0, 300.0, 5.0)),
        ((50.0, 2.0, None), (2.0, 1500.0, 50.0)),
        ((None, 20.0, None), (20.0, 600.0, None)),
        ((None, 2.0, 9.0), (2.0, 9.0, None)),
        ((5.0, 6.0, 9.0), (5.0, 9.0, 5.0)),
        ((5.0, 2.0, 4.0), (2.0, 5.0, 5.0)),
    ],
)
def test_what_a_measurement_is_planned_for(
    example_fit: PassRateFit, monkeypatch: pytest.MonkeyPatch, found: Any, expected: Any
) -> None:
    monkeypatch.setattr("grpo_plan.planning.planned_kappa.KappaMeasurement", Found)
    kappas = planned_kappa(Found(*found), example_fit)  # type: ignore[arg-type]
    assert (kappas.low, kappas.high, kappas.value) == expected


def test_a_plan_with_a_measurement_holds_for_its_value_and_says_so(example_fit: PassRateFit) -> None:
    probe = measurement(30.0, mean_square=0.01)
    found = probe.kappa_for(example_fit)
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=probe, group_sizes=SIZES, estimator="rloo")
    assert (plan.kappa.low, plan.kappa.high, plan.kappa.value) == (found.low, found.high, found.value)
    assert plan.assumptions[0].startswith(f"kappa {found.value:.3g} [{found.low:.3g}, {found.high:.3g}]: the gradients")
    for p in plan.frontier:
        direct = probe.noise_to_signal(p.design.prompts_per_step, p.design.group_size)
        assert direct is not None
        assert p.noise_to_signal is not None
        assert (p.noise_to_signal.value, p.noise_to_signal.low) == pytest.approx((direct.value, direct.low))


@pytest.mark.parametrize("name", ["grpo", "maxrl", "sign"])
def test_the_noise_that_a_probe_measured_is_that_of_rloo(example_fit: PassRateFit, name: str) -> None:
    probe = measurement(30.0, mean_square=0.01)
    own, rloo = (
        by_size(plan_group_size(example_fit, budget=BUDGET, kappa=probe, group_sizes=[8], estimator=e))[8]
        for e in (name, "rloo")
    )
    kappa = probe.kappa_for(example_fit).value
    assert kappa is not None
    factor = worth(example_fit, 8, kappa, 0.0, "rloo") / worth(example_fit, 8, kappa, 0.0, name)
    for end in ("value", "low", "high"):
        assert getattr(own.noise_to_signal, end) == pytest.approx(factor * getattr(rloo.noise_to_signal, end))


def test_a_kappa_that_is_given_is_an_assumption(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, kappa=10.0, group_sizes=SIZES)
    assert plan.assumptions[0].startswith("That the score noise over contrast, kappa, is 10, as given")


# --- closed form, noise of a step ----------------------------------------------------------------------------------


def test_eq_27_with_a_cost_per_prompt_and_coherence(example_fit: PassRateFit) -> None:
    law = example_fit.group_pmf(4)
    pq, ppqq = float(law @ [0, 1 / 4, 1 / 3, 1 / 4, 0]), float(law[2]) / 6
    for kappa, c0, rho in ((10.0, 0.0, 0.0), (10.0, 3.0, 0.0), (4.0, 3.0, 0.2)):
        expected = float(eq.two_stage_group_size(pq, ppqq, kappa, rho, c0))
        found = two_stage_group_size(example_fit, kappa, prompt_rollouts=c0, coherence=rho)
        assert found == pytest.approx(expected)
        plan = plan_group_size(
            example_fit, budget=BUDGET, kappa=kappa, coherence=rho, group_sizes=[4, 8],
            cost=CostModel(prompt_rollouts=c0),
        )  # fmt: skip
        assert plan.sensitivity[0].two_stage == pytest.approx(expected)
    assert two_stage_group_size(fit_pass_rates(pilot_of((40, 10, 10, 40))), 10.0) is None


@pytest.mark.parametrize("refilled", [False, True])
@pytest.mark.parametrize("steps", [None, 500])
def test_noise_to_signal_of_a_range(example_fit: PassRateFit, steps: int | None, refilled: bool) -> None:
    plan = plan_group_size(
        example_fit, budget=Budget(rollouts_per_step=4000, steps=steps), coherence=0.02, group_sizes=[8],
        cost=CostModel(refill=refilled),
    )  # fmt: skip
    drawn = 500 / (float(example_fit.group_pmf(8)[1:-1].sum()) if refilled else 1.0)
    found = plan.recommended.noise_to_signal
    assert found is not None
    assert found.value is None
    low, high = (1.0 / (drawn * 0.02 * worth(example_fit, 8, kappa, 0.02)) for kappa in (1.0, 300.0))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_regret_and_ends_with_coherence(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, coherence=0.3, group_sizes=SIZES)
    groups = np.array([p.design.prompts_per_step * 500 for p in plan.frontier])
    kappas = plan.kappa.grid()
    table = np.array(
        [[n * worth(example_fit, g, k, 0.3, largest=32) for k in kappas] for g, n in zip(SIZES, groups, strict=True)]
    )
    share = table / table.max(axis=0)
    assert [p.worst_regret for p in plan.frontier] == pytest.approx(list(1 - share.min(axis=1)))
    assert [p.progress_low for p in plan.frontier] == pytest.approx(list(share[:, 0]))
    assert [p.progress_high for p in plan.frontier] == pytest.approx(list(share[:, -1]))
    for column, answer in zip((0, 20, 40), plan.sensitivity, strict=True):
        flat = [g for g, s in zip(SIZES, share[:, column], strict=True) if s >= 0.9]
        best = SIZES[int(np.argmax(share[:, column]))]
        assert (answer.group_size, answer.flat_low, answer.flat_high) == (best, min(flat), max(flat))
        assert [plan.progress_at(p, answer.kappa) for p in plan.frontier] == pytest.approx(list(share[:, column]))
    least = min(p.worst_regret for p in plan.frontier)
    assert plan.least_regret.worst_regret == least
    close = [p.design.group_size for p in plan.frontier if p.worst_regret <= least + 0.1]
    assert plan.flat_range == (min(close), max(close))


# --- what is fixed, and what progress is measured against ----------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "per_cost"),
    [
        (Budget(rollouts=5_000_000, steps=1000, prompts_per_step=512), False),
        (Budget(rollouts_per_step=4096, prompts_per_step=100), False),
        (Budget(rollouts_per_step=4096), False),
        (Budget(prompts_per_step=100), True),
        (Budget(prompts_per_step=100, steps=10), True),
    ],
)
def test_progress_is_per_cost_only_where_nothing_limits_it(
    example_fit: PassRateFit, budget: Budget, per_cost: bool
) -> None:
    plan = plan_group_size(example_fit, budget=budget, group_sizes=[2, 4, 8], kappa=10.0)
    assert plan.per_cost == per_cost
    designs = by_size(plan)
    value = [designs[g].design.prompts_per_step * worth(example_fit, g, 10.0, 0.0) for g in (2, 4, 8)]
    if per_cost:
        value = [x / (designs[g].design.prompts_per_step * g) for g, x in zip((2, 4, 8), value, strict=True)]
    relative = [x / max(value) for x in value]
    assert [1 - designs[g].worst_regret for g in (2, 4, 8)] == pytest.approx(relative)


@pytest.mark.parametrize(
    ("words", "there", "absent"),
    [
        (["--budget-rollouts", "5e6", "--steps", "1000", "--prompts-per-step", "512"], "within the budget", "unit of"),
        (
            ["--rollouts-per-step", "4096", "--prompts-per-step", "100"],
            "the largest group that fits is best",
            "unit of",
        ),
        (["--prompts-per-step", "100", "--group-sizes", "2,4,8"], "per unit of cost", "within the budget at"),
    ],
)
def test_the_page_says_what_progress_is_against(
    run: Run, example_file: Any, words: list[str], there: str, absent: str
) -> None:
    page = " ".join(run("plan", example_file, *words).out.split())
    assert there in page
    assert absent not in page


def test_the_page_names_sizes_inside_the_flat_range_that_are_not_flat(run: Run, example_file: Any) -> None:
    page = " ".join(run("plan", example_file, "--rollouts-per-step", 64, "--kappa", 100, "--details").out.split())
    assert "G = 8 to 64 (but not 24, 40, 48), the flat range, make within 10 % of the best" in page


def test_mixed_groups_per_cost_counts_mixed_groups_once(example_fit: PassRateFit) -> None:
    for refill in (False, True):
        plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=SIZES, cost=CostModel(refill=refill))
        made = [p.batch.mixed_groups.mean for p in plan.frontier]
        assert [p.mixed_groups_per_cost for p in plan.frontier] == pytest.approx(
            [x / max(made) for x in made], rel=1e-6
        )
        assert [p.batch.live_rollouts.mean for p in plan.frontier] == pytest.approx(
            [x * g for x, g in zip(made, SIZES, strict=True)]
        )


def test_without_a_total_the_dearest_unit_known_is_the_cost(example_fit: PassRateFit) -> None:
    cost = CostModel(**PRICES)  # type: ignore[arg-type]
    plan = plan_group_size(
        example_fit, budget=Budget(prompts_per_step=100, steps=10), group_sizes=SIZES, cost=cost, kappa=10.0
    )
    value = np.array(
        [1000 * worth(example_fit, g, 10.0, 0.0, largest=32) / (by_size(plan)[g].cost.usd or 0.0) for g in SIZES]
    )
    assert [1 - p.worst_regret for p in plan.frontier] == pytest.approx(list(value / value.max()))
    assert plan.sensitivity[0].two_stage == pytest.approx(
        two_stage_group_size(example_fit, 10.0, prompt_rollouts=fixed_cost(plan_budget(), cost, 0.335)), rel=1e-3
    )


def plan_budget() -> Budget:
    return Budget(prompts_per_step=100, steps=10)


def test_the_fixed_cost_of_a_prompt_in_rollouts() -> None:
    """Reading a prompt of 100 tokens at 1e5 a second costs what 1 ms of decoding and training does."""
    cost = CostModel(**PRICES)  # type: ignore[arg-type]
    rate = 0.4
    tokens = rate * 400 + (1 - rate) * 900
    one = tokens / 1e4 + (100 + tokens) / 2e4
    assert fixed_cost(plan_budget(), cost, rate) == pytest.approx((100 / 1e5) / one)
    assert fixed_cost(Budget(usd=10.0, steps=1), cost, rate) == pytest.approx((100 / 1e5) / one)
    assert fixed_cost(Budget(tokens=10**9, steps=1), cost, rate) == pytest.approx(0.0, abs=1e-9)
    refilled = CostModel(prompt_rollouts=2.0, refill=True)
    assert fixed_cost(Budget(rollouts=1000, steps=10), refilled, rate) == pytest.approx(2.0)


def test_candidates_reach_both_ends(example_fit: PassRateFit) -> None:
    assert 384 in candidate_group_sizes(None)
    assert 512 in candidate_group_sizes(512.0 * 3)
    assert 511 in candidate_group_sizes(511.0 * 3)
    plan = plan_group_size(example_fit, budget=Budget(rollouts=10_000, steps=10, prompts_per_step=50))
    assert plan.frontier[-1].design.group_size == 20


def test_training_on_mixed_groups_only_has_a_cost_with_limits(example_fit: PassRateFit) -> None:
    cost = CostModel(**PRICES, trained="mixed")  # type: ignore[arg-type]
    plan = plan_group_size(example_fit, budget=Budget(usd=500.0, steps=100), group_sizes=[8], cost=cost)
    best = plan.recommended
    assert best.cost_low is not None
    assert best.cost_high is not None
    assert (
        (best.cost_low.usd or 0.0) > (best.cost.usd or 0.0) > (best.cost_high.usd or 0.0)
    )  # fewer dead, more to train


def test_the_level_reaches_every_limit(example_fit: PassRateFit) -> None:
    cost = CostModel(**PRICES, trained="mixed")  # type: ignore[arg-type]
    narrow, wide = (
        plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 8], cost=cost, level=x) for x in (0.5, 0.99)
    )
    for a, b in zip(narrow.frontier, wide.frontier, strict=True):
        assert b.dead.low < a.dead.low < a.dead.high < b.dead.high
        assert (a.dead.level, b.dead.level) == (0.5, 0.99)
        assert (b.cost_low.usd - b.cost_high.usd) > (a.cost_low.usd - a.cost_high.usd)  # type: ignore[union-attr, operator]
        inner, outer = a.batch.mixed_groups_mean_interval, b.batch.mixed_groups_mean_interval
        assert inner is not None
        assert outer is not None
        assert outer[0] < inner[0] < inner[1] < outer[1]
    inner, outer = (p.progress_limits(p.frontier[1], 1.0) for p in (narrow, wide))
    assert outer[0] < inner[0] < inner[1] < outer[1]
    inner, outer = (hard_coverage_limits(example_fit, 8, 0.25, level) for level in (0.5, 0.99))
    assert outer[0] < inner[0] < inner[1] < outer[1]


# --- trainers' rules -----------------------------------------------------------------------------------------------


class Chunks:
    """Whole chunks of 64 rollouts, and at most 300 prompts a step."""

    name = "Chunks"

    def prompt_multiple(self, group_size: int) -> int | None:
        return 64 // int(np.gcd(64, group_size))

    def checks(self, design: Design) -> tuple[RuleCheck, ...]:
        fits = design.prompts_per_step <= 300
        return (RuleCheck(rule="prompts <= 300", satisfied=fits, detail=f"{design.prompts_per_step}"),)


def test_designs_are_rounded_down_and_every_check_counts(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 12, 24, 48], rules=Chunks())
    assert {g: p.design.prompts_per_step for g, p in by_size(plan).items()} == {24: 160, 48: 80}
    assert [x.startswith(f"Chunks: G = {g} breaks prompts <= 300") for x, g in zip(plan.refused, (4, 12), strict=True)]
    assert all(x.startswith("Chunks: G = ") for x in plan.refused)
    fixed = Budget(rollouts_per_step=10**6, prompts_per_step=100)
    with pytest.raises(
        InfeasiblePlanError, match=r"needs a multiple of 32 prompts a step; got 100.*: G = 6 with 96 or 128"
    ):
        plan_group_size(example_fit, budget=fixed, group_sizes=[6], rules=Chunks())


# --- objectives ----------------------------------------------------------------------------------------------------


def test_lines_of_the_objectives_reach_their_columns(example_fit: PassRateFit) -> None:
    plan = plan_group_size(
        example_fit, budget=BUDGET, group_sizes=SIZES, hard_below=0.4, min_coverage=0.45, rare_share=0.3
    )
    for p in plan.frontier:
        g = p.design.group_size
        assert p.coverage == pytest.approx(hard_coverage(example_fit, g, 0.4))
        assert p.rare_mode_miss == pytest.approx(rare_mode_miss(example_fit.group_pmf(g), 0.3))
    found = {a.objective: a for a in plan.alternatives}
    first = next(p for p in plan.frontier if (p.coverage or 0.0) >= 0.45)
    assert found["coverage"].planned is first


def test_coverage_is_of_hard_prompts() -> None:
    """Half of the prompts at 0.05, half at 0.9: a hard one shows a pass in 8 with chance 1 - 0.95**8."""
    rng = np.random.default_rng(0)
    fit = fit_pass_rates(gp.Pilot.from_counts(rng.binomial(32, np.repeat([0.05, 0.9], 4000)), 32))
    assert hard_coverage(fit, 8, 0.5) == pytest.approx(1 - 0.95**8, abs=0.02)
    low, high = hard_coverage_limits(fit, 8, 0.5)
    assert low < 1 - 0.95**8 < high < 0.6


def test_picks_are_those_of_a_search(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, max_dead=0.4)
    rows = list(plan.frontier)
    least = min(p.worst_regret for p in rows)
    close = [p for p in rows if p.worst_regret <= least + 0.01]
    power = [p for p in close if p.design.group_size & (p.design.group_size - 1) == 0]
    assert least_regret(rows) in (power or close)
    assert (
        plan.pick.runner_up
        == min((p for p in rows if p is not plan.recommended), key=lambda p: p.worst_regret).design.group_size
    )
    found = {a.objective: a for a in plan.alternatives}
    dead = found["max-dead"]
    at = next(i for i, p in enumerate(rows) if (p.dead.value or 1.0) <= 0.4)
    assert dead.planned is rows[at]
    assert dead.runner_up == rows[at + 1].design.group_size
    assert f"(D({rows[at - 1].design.group_size}) is {rows[at - 1].dead.value:.4f})" in dead.comment
    assert dead.would_change == f"a limit below {rows[at].dead.value:.4f} or of {rows[at - 1].dead.value:.4f} and more."
    assert ("does not make sure" in dead.comment) == (rows[at].dead.high > 0.4)
    mixed = found["mixed-groups"]
    order = sorted(rows, key=lambda p: -p.mixed_groups_per_cost)
    assert mixed.planned is order[0]
    assert mixed.runner_up == order[1].design.group_size
    assert mixed.flat_range is not None
    assert mixed.flat_range[1] == max(p.design.group_size for p in rows if p.mixed_groups_per_cost >= 0.9)
    rare = found["rare-mode"]
    best = min(p.rare_mode_miss for p in rows)
    near = [p.design.group_size for p in rows if p.rare_mode_miss <= best / 0.9]
    assert rare.flat_range == (min(near), max(near))


def test_max_dead_says_when_the_pilot_does_not_make_sure(example_fit: PassRateFit) -> None:
    d = example_fit.dead(8)
    assert d.value is not None
    for limit, sure in ((0.5 * (d.value + d.high), False), (d.high + 1e-6, True)):
        plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=[8, 16], max_dead=limit)
        comment = plan.alternatives[0].comment
        assert plan.alternatives[0].planned is plan.frontier[0]
        assert ("does not make sure" in comment) != sure
    none = plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 8], max_dead=0.1).alternatives[0]
    assert none.planned is None
    assert f"D(8) is {d.value:.3f}" in none.comment
    assert none.would_change == f"a limit of {d.value:.4f} or more."


def test_mixed_groups_says_that_two_or_three_is_no_news(example_fit: PassRateFit) -> None:
    for sizes, c0, said in (([2, 4], 0.0, True), ([3, 4], 0.0, True), ([4, 8], 0.0, False), ([2, 4], 0.1, False)):
        plan = plan_group_size(
            example_fit, budget=BUDGET, group_sizes=sizes, objective="mixed-groups", cost=CostModel(prompt_rollouts=c0)
        )
        assert plan.recommended.design.group_size == sizes[0]
        assert ("2 or 3 for every pilot" in plan.pick.comment) == said


class Row:
    """A design of which only the group size and the regret matter."""

    def __init__(self, group_size: int, regret: float) -> None:
        self.design = Design(group_size=group_size, prompts_per_step=1, steps=1)
        self.worst_regret = regret


def test_round_numbers_and_flat_ranges_of_given_regrets() -> None:
    def pick(**regrets: float) -> int:
        rows = [Row(int(name[1:]), x) for name, x in regrets.items()]
        return least_regret(rows).design.group_size  # type: ignore[arg-type]

    assert pick(g6=0.30, g8=0.309, g12=0.31) == 8
    assert pick(g6=0.30, g8=0.32, g12=0.309) == 12
    assert pick(g6=0.305, g10=0.30, g7=0.302) == 10
    assert pick(g4=0.305, g8=0.30, g16=0.309) == 8
    rows = [Row(g, x) for g, x in ((4, 0.41), (6, 0.3), (8, 0.35), (16, 0.399), (32, 0.5))]
    assert flat_range(rows) == (6, 16)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "side"), [(4, "above"), (32, "below")])
def test_kappas_that_would_change_the_pick(example_fit: PassRateFit, size: int, side: str) -> None:
    from grpo_plan.planning.objectives import _kappas_that_keep

    plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=SIZES)
    grid = plan.kappa.grid()
    value = np.array([[worth(example_fit, g, k, 0.0, largest=32) / g for k in grid] for g in SIZES])
    table = value / value.max(axis=0)
    row = table[SIZES.index(size)]
    edge = grid[row >= 0.9][0 if side == "below" else -1]
    text = _kappas_that_keep(by_size(plan)[size], plan.frontier, plan.kappa, table)
    assert text == f"a kappa {side} {edge:.3g}, where G = {size} makes less than 90 % of the best."


# --- how sure ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.3])
@pytest.mark.parametrize("name", ["grpo", "sign"])
def test_eq_71_influence_is_the_derivative(example_fit: PassRateFit, rho: float, name: str) -> None:
    advantage, g, kappa, step = get_estimator(name), 6, 7.0, 1e-6
    p = np.array([0.03, 0.5, 0.8])
    moments = advantage.moments(example_fit.group_pmf, g)
    found = _influence(advantage, g, moments, kappa, rho, p)
    from scipy.stats import binom

    for value, slope in zip(p, found, strict=True):

        def law(size: int, mass: float, value: float = value) -> Any:
            return (1 - mass) * example_fit.group_pmf(size) + mass * binom.pmf(np.arange(size + 1), size, value)

        ends = []
        for mass in (step, -step):
            m = advantage.moments(lambda size, mass=mass: law(size, mass), g)  # type: ignore[misc]
            ends.append(np.log(m.signal**2 / (m.signal_square + kappa * m.noise - rho * m.signal**2)))
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)


def test_limits_of_progress_use_the_groups_the_kappa_and_the_coherence(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, group_sizes=[4, 8, 16], coherence=0.3, kappa=(1.0, 50.0))
    groups = [p.design.prompts_per_step * 500.0 for p in plan.frontier]
    for kappa in (1.0, 50.0):
        values = [n * worth(example_fit, g, kappa, 0.3, largest=16) for n, g in zip(groups, (4, 8, 16), strict=True)]
        best = int(np.argmax(values))
        for which, planned in enumerate(plan.frontier):
            low, high = plan.progress_limits(planned, kappa)
            direct = progress_limits(
                example_fit, sizes=[4, 8, 16], groups=groups, which=which, estimator="grpo", kappa=kappa,
                coherence=0.3, level=0.95,
            )  # fmt: skip
            assert (low, high) == pytest.approx(direct)
            ratio = values[which] / values[best]
            assert low <= ratio <= high
            if which != best:
                advantage = get_estimator("grpo")
                moments = {g: advantage.moments(example_fit.likely_rates.group_pmf, g) for g in (4, 8, 16)}
                sizes = ((4, 8, 16)[which], (4, 8, 16)[best])

                def tangent(
                    p: Any, sizes: tuple[int, int] = sizes, kappa: float = kappa, moments: Any = moments
                ) -> Any:
                    a, b = (_influence(get_estimator("grpo"), g, moments[g], kappa, 0.3, p) for g in sizes)
                    return a - b

                ends = example_fit.limits_of(custom(tangent, "difference"), 0.95)
                assert np.log([low / ratio, high / ratio]) == pytest.approx(
                    [min(ends[0], 0), max(ends[1], 0)], abs=1e-6
                )


# --- limits between knots ------------------------------------------------------------------------------------------


def test_eq_72_parts_and_kinks(example_fit: PassRateFit) -> None:
    curve = LimitsCurve.of(example_fit, 300)
    assert {7, 8, 9, 32, 33} <= set(curve.knots)
    for g in (19, 50, 111, 230):
        assert g not in curve.knots
        for kind in ("dead", "all-pass", "all-fail"):
            low, high = curve.group_limits(kind, g, 0.95, False)
            exact = example_fit.group_limits(kind, g, 0.95, False)
            assert exact[0] - 2e-3 <= low <= exact[0] + 1e-5
            assert exact[1] - 1e-5 <= high <= exact[1] + 2e-3
        d = curve.dead(g, 0.95)
        for value, interval in (
            (d.value, d.interval),
            (d.all_pass, d.all_pass_interval),
            (d.all_fail, d.all_fail_interval),
        ):
            assert value is not None
            assert interval[0] <= value <= interval[1]


def test_laws_of_pilots_with_unequal_rollouts_use_the_prompts_with_enough() -> None:
    """Of 160 prompts with 8 rollouts and 40 with 4, only the 160 speak of groups of 8; at 4 all of them do."""
    k, n = [0, 2, 8, 5] * 40 + [1, 4] * 20, [8] * 160 + [4] * 40
    fit, full = (fit_pass_rates(gp.Pilot.from_counts(k[:m], n[:m])) for m in (200, 160))
    laws = fit.group_pmfs([4, 8])
    assert laws[8] == pytest.approx(full.group_pmf(8))
    assert laws[8] == pytest.approx(np.bincount([0, 2, 5, 8], minlength=9) / 4)
    assert laws[4] == pytest.approx(0.8 * full.group_pmf(4) + 0.2 * np.array([0.0, 0.5, 0.0, 0.0, 0.5]))


@pytest.mark.parametrize("rates", [[0.1, 0.5, 0.9], [0.02, 0.3, 0.35, 0.8]])
def test_laws_beyond_the_pilot_are_near_the_truth_end_by_end(rates: list[float]) -> None:
    """Pass rates of few values, which no smooth distribution fits: groups of 12 and 16 from 8 rollouts."""
    from scipy.stats import binom

    k = np.concatenate(
        [np.repeat(np.arange(9), np.round(20_000 * binom.pmf(np.arange(9), 8, p)).astype(int)) for p in rates]
    )
    fit = fit_pass_rates(gp.Pilot.from_counts(k, 8))
    for g, law in fit.group_pmfs([12, 16]).items():
        truth = np.mean([binom.pmf(np.arange(g + 1), g, p) for p in rates], axis=0)
        assert np.abs(law - truth).max() < 0.005
        d = fit.dead(g)
        assert (law[0], law[-1]) == pytest.approx((d.all_fail, d.all_pass))


# --- page and JSON -------------------------------------------------------------------------------------------------


def test_json_says_what_the_plan_holds(run: Run, example_file: Any, example_fit: PassRateFit) -> None:
    words = ["--budget-usd", "500", "--steps", "100", "--prompt-tokens", "100", "--pass-tokens", "400",
             "--fail-tokens", "900", "--decode-tokens-per-s", "1e4", "--train-tokens-per-s", "2e4", "--gpus", "8",
             "--usd-per-gpu-hour", "2", "--refill", "--coherence", "0.02", "--level", "0.8", "--group-sizes", "4,6,8,16",
             "--max-dead", "0.45", "--hard-below", "0.4", "--min-coverage", "0.6", "--rare-share", "0.3"]  # fmt: skip
    body = document(run("plan", example_file, *words, "--json"))
    cost = CostModel(**{k: v for k, v in PRICES.items() if k != "prefill_tokens_per_s"}, refill=True)  # type: ignore[arg-type]
    plan = plan_group_size(
        example_fit, budget=Budget(usd=500.0, steps=100), cost=cost, coherence=0.02, level=0.8,
        group_sizes=[4, 6, 8, 16], max_dead=0.45, hard_below=0.4, min_coverage=0.6, rare_share=0.3,
    )  # fmt: skip
    assert body["least_regret_group_size"] == plan.least_regret.design.group_size
    assert body["recommended"]["group_size"] == plan.recommended.design.group_size
    assert (body["kappa"]["low"], body["kappa"]["high"]) == (1.0, 300.0)
    for row, p in zip(body["frontier"], plan.frontier, strict=True):
        assert row["dead"]["low"] == pytest.approx(p.dead.low)
        assert row["dead"]["level"] == 0.8
        signal = row["signal"]
        assert signal["progress_at_kappa_low"] == pytest.approx(p.progress_low)
        assert signal["progress_at_kappa_high"] == pytest.approx(p.progress_high)
        for end, kappa, share in (("low", 1.0, p.progress_low), ("high", 300.0, p.progress_high)):
            limits = signal[f"progress_at_kappa_{end}_limits"]
            if share < 0.8 and p is not plan.recommended:
                assert limits is None
            else:
                assert limits == pytest.approx(list(plan.progress_limits(p, kappa)))
        assert p.noise_to_signal is not None
        assert signal["noise_to_signal"]["high"] == pytest.approx(p.noise_to_signal.high)
        assert p.cost_low is not None
        assert p.cost_high is not None
        assert row["cost"]["of"] == "run"
        assert row["cost"]["at_dead_low"]["usd"] == pytest.approx(p.cost_low.usd)
        assert row["cost"]["at_dead_high"]["usd"] == pytest.approx(p.cost_high.usd)
        assert row["coverage"] == pytest.approx(p.coverage)
        assert row["rare_mode_miss"] == pytest.approx(p.rare_mode_miss)
    for answer, a in zip(body["sensitivity"], plan.sensitivity, strict=True):
        assert answer["flat_range"] == [a.flat_low, a.flat_high]
    picks = {a["objective"]: a["group_size"] for a in body["alternatives"]}
    assert picks == {a.objective: None if a.planned is None else a.planned.design.group_size for a in plan.alternatives}
    step = document(run("plan", example_file, "--rollouts-per-step", 512, "--group-sizes", "8", "--json"))
    assert step["recommended"]["cost"]["of"] == "step"


def test_every_size_that_the_page_speaks_of_has_a_row(run: Run, example_file: Any) -> None:
    page = [" ".join(line.split()) for line in run("plan", example_file, "--rollouts-per-step", 1024).out.splitlines()]
    assert any(line.startswith("> 6 170 ") for line in page)
    assert any(line.startswith("12 85 ") for line in page)  # the pick of max-dead
    assert not any(line.startswith("48 ") for line in page)


def test_a_rounder_pick_is_told_from_the_least_regret(run: Run, example_file: Any, example_fit: PassRateFit) -> None:
    """Over kappa .01 to 3,000 G = 5 loses 10.4 % at worst and G = 4 loses 11.0 %: 4 is picked, as the rounder number."""
    words = ["--rollouts-per-step", 241_920, "--group-sizes", "4,5,7", "--kappa", "0.01:3000"]
    plan = plan_group_size(
        example_fit, budget=Budget(rollouts_per_step=241_920), group_sizes=[4, 5, 7], kappa=(0.01, 3000.0)
    )
    assert (plan.least_regret.design.group_size, plan.recommended.design.group_size) == (5, 4)
    body = document(run("plan", example_file, *words, "--json"))
    assert (body["least_regret_group_size"], body["recommended"]["group_size"]) == (5, 4)
    page = " ".join(run("plan", example_file, *words).out.split())
    assert "at most 11% of the progress that the best G of the table makes within the budget" in page
    assert "G = 4 instead of 5: a rounder number, at a cost of at most 1 point" in page


def test_costs_on_the_page_have_limits_in_order(run: Run, example_file: Any) -> None:
    words = ["--rollouts-per-step", 2048, "--group-sizes", "8", "--refill", "--pass-tokens", 400, "--fail-tokens", 900]
    page = " ".join(run("plan", example_file, *words).out.split())
    found = re.search(r"a step takes ([\d,.]+) \(([\d,.]+) to ([\d,.]+)\) response tokens", page)
    assert found
    value, low, high = (float(x.replace(",", "")) for x in found.groups())
    assert low < value < high


def test_refill_on_the_page(run: Run, example_file: Any, example_fit: PassRateFit) -> None:
    """500 steps of N mixed groups: prompts of one step, the fewest at the low limit of D."""
    words = ["--budget-rollouts", "2e6", "--steps", "500", "--group-sizes", "8,32", "--refill", "--kappa", "1:3"]
    page = " ".join(run("plan", example_file, *words).out.split())
    plan = plan_group_size(
        example_fit, budget=BUDGET, group_sizes=[8, 32], cost=CostModel(refill=True), kappa=(1.0, 3.0)
    )
    best = plan.recommended
    assert best.design.group_size == 8
    n, d = best.design.prompts_per_step, best.dead
    assert d.value is not None
    low, value, high = (n / (1 - x) for x in (d.low, d.value, d.high))
    assert f"draws {value:,.0f} prompts for them on average ({low:,.0f} to {high:,.0f}, from the limits of D)" in page
    assert f"{value:,.0f} ({low:,.0f}-{high:,.0f}) {best.progress_low:.2f} {best.progress_high:.2f}" in page


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (None, 0.5, 0.9, "0.5 to 0.9: below 1, G matters less than the table says"),
        (None, 0.5, 2.0, "0.5 to 2: where it is above 1, G matters"),
        (1.5, 0.5, 2.0, "1.5 [0.5, 2]: where it is above 1, G matters"),
        (1.5, 1.2, None, "1.5 [1.2, no limit]: above 1, G matters"),
        (0.5, 0.5, 0.5, "0.5: below 1, G matters less than the table says"),
    ],
)
def test_noise_to_signal_in_words(value: float | None, low: float, high: float | None, words: str) -> None:
    from grpo_plan.cli.plan_text import _noise_to_signal
    from grpo_plan.planning.plan import NoiseToSignal

    assert _noise_to_signal(NoiseToSignal(value=value, low=low, high=high)) == f"noise to signal of a step {words}"


def test_a_measured_kappa_on_the_page(run: Run, example_file: Any, example_fit: PassRateFit) -> None:
    """Progress at the value of kappa, not at an end of its interval; each end has its line."""
    probe = measurement(30.0)
    probe.save("kappa.json")
    page = " ".join(
        run(
            "plan", example_file, "--rollouts-per-step", 1024, "--kappa", "kappa.json", "--group-sizes", "4,8,16"
        ).out.split()
    )
    plan = plan_group_size(example_fit, budget=Budget(rollouts_per_step=1024), kappa=probe, group_sizes=[4, 8, 16])
    assert f"is predicted to make most progress within the budget at kappa = {plan.kappa.value:.3g}" in page
    for p in plan.frontier:
        assert f"{p.progress_low:.2f}" != f"{1 - p.worst_regret:.2f}" or p.worst_regret == 0.0
    other = next(p for p in plan.frontier if p is not plan.recommended)
    spread = rf"\({other.batch.mixed_groups.p05:.0f}-{other.batch.mixed_groups.p95:.0f}\)"
    assert re.search(rf"{spread} (<1e-9 )?{1 - other.worst_regret:.2f} ", page)
    for answer in plan.sensitivity:
        if answer.group_size != plan.recommended.design.group_size:
            assert f"{plan.progress_at(plan.recommended, answer.kappa):.2f} [" in page


def test_a_census_narrows_the_plan(run: Run, example_file: Any) -> None:
    words = ["--rollouts-per-step", 512, "--group-sizes", "8", "--json"]
    sample, census = (
        document(run("plan", example_file, *words, *more))["recommended"]["dead"]
        for more in ([], ["--population", "census"])
    )
    assert census["high"] - census["low"] < sample["high"] - sample["low"]


def test_options_of_the_trainer_reach_the_block(run: Run, example_file: Any) -> None:
    words = ["--rollouts-per-step", 1024, "--group-sizes", "8", "--trainer", "trl", "--gpus", 8, "--micro-batch", 4,
             "--temperature", "0.7", "--max-response-tokens", 777, "--json"]  # fmt: skip
    trainer = document(run("plan", example_file, *words))["trainer"]
    settings = trainer["settings"]
    assert settings["per_device_train_batch_size"] == 4
    assert settings["temperature"] == 0.7
    assert settings["max_completion_length"] == 777
    assert 4 * 8 * settings["gradient_accumulation_steps"] == 1024
    assert all(check["satisfied"] for check in trainer["checks"])


def test_a_plan_with_refill_gives_a_block_with_refill(run: Run, example_file: Any) -> None:
    words = ["--rollouts-per-step", 1024, "--group-sizes", "8", "--trainer", "ms-swift", "--json"]
    plain, refilled = (
        document(run("plan", example_file, *words, *more))["trainer"]["settings"] for more in ([], ["--refill"])
    )
    assert refilled["dynamic_sample"] is True
    assert not plain.get("dynamic_sample", False)


def test_the_machine_shapes_the_design(run: Run, example_file: Any) -> None:
    """On 24 GPUs of 5 rollouts, TRL takes whole batches of 120 rollouts only."""
    words = ["--rollouts-per-step", 1000, "--group-sizes", "8", "--trainer", "trl", "--gpus", 24, "--micro-batch", 5]
    best = document(run("plan", example_file, *words, "--json"))["recommended"]
    assert best["rollouts_per_step"] == 960


def test_the_version_of_the_trainer_shapes_the_design(run: Run, example_file: Any) -> None:
    """From 0.19 on Axolotl wants every GPU to see whole groups."""
    words = ["--rollouts-per-step", 1008, "--group-sizes", "16", "--trainer", "axolotl", "--gpus", 4, "--json"]
    for version, prompts in (("0.16", 63), ("0.21", 60)):
        best = document(run("plan", example_file, *words, "--trainer-version", version))["recommended"]
        assert best["prompts_per_step"] == prompts
