"""Costs in every unit: enumeration, SymPy, properties of the solved design, and simulated steps."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grpo_plan import symbolic as eq
from grpo_plan.costs import (
    Budget,
    Cost,
    CostModel,
    GroupContent,
    binding_constraint,
    design_for,
    largest_group_size,
    solve_design,
)
from grpo_plan.costs.budget import amount_words
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.fitting import PassRateFit
from grpo_plan.throughput import estimate_throughput
from tests.helpers import assert_mean, outcomes

RATES = [Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1)]
WEIGHTS = [Fraction(1, 4), Fraction(1, 3), Fraction(1, 6), Fraction(1, 4)]
FULL: dict[str, Any] = {
    "prompt_tokens": 120.0, "pass_tokens": 400.0, "fail_tokens": 900.0, "prefill_tokens_per_s": 2e5,
    "decode_tokens_per_s": 3e4, "train_tokens_per_s": 5e4, "reward_s": 0.2, "reward_parallel": 32,
    "step_overhead_s": 20.0, "gpus": 8, "usd_per_gpu_hour": 2.5,
}  # fmt: skip
UNITS = ("rollouts", "tokens", "gpu_hours", "usd")
AMOUNTS = [f.name for f in fields(Cost) if f.name != "missing"]
quick = settings(max_examples=80)


def law(group_size: int) -> list[Fraction]:
    """P(k of G) for the F of RATES and WEIGHTS, by enumerating every outcome of a group."""
    chance = [Fraction(0)] * (group_size + 1)
    for rate, weight in zip(RATES, WEIGHTS, strict=True):
        for rewards in outcomes(group_size):
            k = sum(rewards)
            chance[k] += weight * rate**k * (1 - rate) ** (group_size - k)
    return chance


def content(group_size: int, limits: tuple[float, float] | None = None) -> GroupContent:
    return GroupContent.from_pmf([float(c) for c in law(group_size)], limits)


# --- one group ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("g", [2, 3, 6])
def test_tokens_of_groups_and_of_kept_groups_by_enumeration(g: int) -> None:
    made = kept = kept_prompts = Fraction(0)
    for rate, weight in zip(RATES, WEIGHTS, strict=True):
        for rewards in outcomes(g):
            k = sum(rewards)
            chance = weight * rate**k * (1 - rate) ** (g - k)
            tokens = k * 400 + (g - k) * 900
            made += chance * tokens
            if 0 < k < g:
                kept += chance * (tokens + g * 120)
                kept_prompts += chance
    mixed_only = CostModel(**FULL, trained="mixed")
    group, step = mixed_only.generated_group(content(g)), mixed_only.step(content(g), 10)
    assert group.generated_tokens == pytest.approx(float(made), rel=1e-13)
    assert group.trained_tokens == 0.0
    assert step.trained_tokens == pytest.approx(10 * float(kept), rel=1e-13)
    assert step.trained_groups == pytest.approx(10 * float(kept_prompts), rel=1e-13)
    assert step.prefilled_tokens == pytest.approx(10 * 120)
    everything = CostModel(**FULL).step(content(g), 10)
    assert everything.trained_tokens == pytest.approx(10 * (float(made) + g * 120), rel=1e-13)
    refilled = CostModel(**FULL, refill=True).step(content(g), 10)
    assert refilled.groups == pytest.approx(10 / float(kept_prompts), rel=1e-13)
    assert refilled.trained_groups == 10
    assert refilled.trained_tokens == pytest.approx(10 * float(kept / kept_prompts), rel=1e-13)
    assert refilled.generated_tokens == pytest.approx(10 * float(made / kept_prompts), rel=1e-13)


@pytest.mark.parametrize("g", [2, 5])
def test_symbolic_sums_are_those_of_the_law(g: int) -> None:
    chances = [sp.Rational(c.numerator, c.denominator) for c in law(g)]
    c = content(g)
    assert float(eq.mixed_share(chances)) == pytest.approx(c.mixed_fraction, rel=1e-14)
    assert float(eq.mixed_passes(chances)) == pytest.approx(c.mixed_passes, rel=1e-14)
    kept = eq.group_tokens(chances, 400, 900, mixed_only=True)
    right, wrong = sp.symbols("right wrong")
    assert (
        sp.expand(
            eq.group_tokens(chances, right, wrong, mixed_only=True)
            - eq.mixed_passes(chances) * right
            - (g * eq.mixed_share(chances) - eq.mixed_passes(chances)) * wrong
        )
        == 0
    )
    model = CostModel(pass_tokens=400, fail_tokens=900, prompt_tokens=1e-9, trained="mixed")
    assert model.step(c, 1).trained_tokens == pytest.approx(float(kept), rel=1e-9)
    assert float(eq.group_tokens(chances, 400, 900)) == pytest.approx(model.step(c, 1).generated_tokens, rel=1e-14)


@pytest.mark.parametrize("rule", ["all", "mixed", "refill"])
def test_cost_of_a_run_is_the_closed_form(rule: str) -> None:
    c = content(4)
    model = CostModel(**FULL, refill=rule == "refill", trained=None if rule == "refill" else rule)
    make, use = model.generated_group(c), model.trained_group(c)
    for unit in ("seconds", "usd", "generated_tokens", "rollout_equivalents"):
        each = eq.prompt_cost(getattr(make, unit), getattr(use, unit), c.mixed_fraction, rule)
        overhead = getattr(model.overhead(), unit)
        expected = float(eq.run_cost(50, 7, each, overhead))
        assert getattr(model.run(c, 7, 50), unit) == pytest.approx(expected, rel=1e-12)
    seconds = 120 / 2e5 + (make.generated_tokens or 0) / 3e4 + 4 * 0.2 / 32
    assert make.seconds == pytest.approx(seconds, rel=1e-12)
    assert use.seconds == pytest.approx((use.trained_tokens or 0) / 5e4, rel=1e-12)
    run = model.run(c, 7, 50)
    assert run.gpu_hours == pytest.approx((run.seconds or 0) * 8 / 3600, rel=1e-12)
    assert run.usd == pytest.approx((run.gpu_hours or 0) * 2.5, rel=1e-12)


def test_one_rate_of_whole_steps_counts_what_the_log_counted() -> None:
    c = content(4)
    shared: dict[str, Any] = {
        "pass_tokens": 400,
        "fail_tokens": 900,
        "gpus": 2,
        "step_overhead_s": 3.0,
        "job_tokens_per_s": 1000.0,
    }
    tokens = CostModel(**shared).step(c, 5).generated_tokens or 0.0
    without = CostModel(**shared, job_counts_prompts=False).step(c, 5)
    assert without.seconds == pytest.approx(3 + tokens / 1000)
    assert CostModel(**shared).step(c, 5).seconds is None
    counted = CostModel(**shared, prompt_tokens=100).step(c, 5)
    assert counted.seconds == pytest.approx(3 + (tokens + 5 * 4 * 100) / 1000)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["all", "mixed", "refill"])
def test_cost_of_a_simulated_step(rule: str) -> None:
    """10,000 simulated steps of 12 groups, 5 standard errors a number: 9 checks, false alarm about 5e-6 in all."""
    rng = np.random.default_rng([12, len(rule)])
    g, groups, steps = 4, 12, 10_000
    model = CostModel(**FULL, refill=rule == "refill", trained=None if rule == "refill" else rule)
    drawn = steps * groups * (10 if rule == "refill" else 1)
    rate = rng.choice([float(r) for r in RATES], p=[float(w) for w in WEIGHTS], size=drawn)
    right = rng.random((drawn, g)) < rate[:, None]
    tokens = np.where(right, rng.exponential(400, (drawn, g)), rng.exponential(900, (drawn, g))).sum(axis=1)
    kept = np.ones(drawn, dtype=bool) if rule == "all" else (right.any(axis=1) & ~right.all(axis=1))
    # a step ends with its 12th group, or with its 12th mixed group
    step = (np.cumsum(kept) - kept) // groups if rule == "refill" else np.arange(drawn) // groups
    assert rule != "refill" or step.max() >= steps
    within = step < steps

    def per_step(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(step[within], weights=values[within], minlength=steps), dtype=float)

    made, trained, count = per_step(tokens), per_step(kept * (tokens + g * 120)), per_step(np.ones(drawn))
    seconds = 20 + count * (120 / 2e5 + g * 0.2 / 32) + made / 3e4 + trained / 5e4
    found = {"generated_tokens": made, "trained_tokens": trained, "seconds": seconds}
    cost = model.step(content(g), groups)
    for name, values in found.items():
        expected = getattr(cost, name)
        assert_mean(values, expected, catches=0.06 * expected)


def test_limits_of_the_dead_fraction_are_carried(example_fit: PassRateFit) -> None:
    c = GroupContent.of(example_fit, 8)
    dead = example_fit.dead(8)
    assert c.mixed_fraction == pytest.approx(1 - (dead.value or 0), abs=1e-9)
    assert (c.mixed_low, c.mixed_high) == pytest.approx((1 - dead.high, 1 - dead.low))
    refill = CostModel(**FULL, refill=True)
    low, value, high = (refill.step(c, 64, at) for at in ("low", "value", "high"))
    assert low.groups == pytest.approx(64 / (1 - dead.low))
    assert high.groups == pytest.approx(64 / (1 - dead.high))
    assert (low.seconds or 0) < (value.seconds or 0) < (high.seconds or 0)
    assert low.trained_tokens == value.trained_tokens == high.trained_tokens
    mixed = CostModel(**FULL, trained="mixed")
    assert (mixed.step(c, 64, "low").usd or 0) > (mixed.step(c, 64, "high").usd or 0)
    with pytest.raises(DomainError, match="needs the limits of the dead fraction"):
        refill.step(content(4), 3, "low")


# --- the largest design ------------------------------------------------------------------------------------------

counts = st.none() | st.integers(1, 2000)
numbers = st.floats(1e-3, 1e9, allow_nan=False)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Budget, CostModel, GroupContent]:
    g = draw(st.integers(2, 12))
    weights = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=g + 1, max_size=g + 1))) + 1e-3
    rule = draw(st.sampled_from(["all", "mixed", "refill"]))
    given_values: dict[str, Any] = {
        "rollouts": draw(st.none() | st.integers(1, 10**9)),
        "tokens": draw(st.none() | st.integers(1, 10**12)),
        "gpu_hours": draw(st.none() | numbers),
        "usd": draw(st.none() | numbers),
        "steps": draw(counts),
        "prompts_per_step": draw(counts),
        "rollouts_per_step": draw(counts),
    }
    try:
        budget = Budget(**given_values)
    except DomainError:
        assume(False)
    drawn: dict[str, Any] = {n: draw(st.floats(1e-2, 1e5)) for n in FULL if n not in ("gpus", "reward_parallel")}
    model = CostModel(
        **drawn,
        gpus=draw(st.integers(1, 64)), reward_parallel=draw(st.integers(1, 64)), refill=rule == "refill",
        trained=None if rule == "refill" else rule, prompt_rollouts=draw(st.sampled_from([0.0, 0.5, 7.0])),
    )  # fmt: skip
    return budget, model, GroupContent.from_pmf(weights / weights.sum())


def breaks(budget: Budget, cost: CostModel, c: GroupContent, prompts: int, steps: int) -> set[str]:
    """Limits that a design breaks, beyond rounding."""
    run = cost.run(c, prompts, steps)
    over = {unit for unit, most in budget.totals.items() if (run.of(unit) or 0.0) > most * (1 + 1e-9)}
    if budget.rollouts_per_step is not None and prompts * c.group_size > budget.rollouts_per_step:
        over.add("rollouts_per_step")
    return over


@settings(max_examples=300)
@given(situations())
def test_the_solved_design_fits_and_one_more_does_not(situation: tuple[Budget, CostModel, GroupContent]) -> None:
    budget, cost, c = situation
    solved = solve_design(budget, cost, c)
    if solved.design is None:
        assert solved.shortfalls
        assert not solved.binding
        prompts, steps = budget.prompts_per_step or 1, budget.steps or 1
        assert {s.limit for s in solved.shortfalls} == breaks(budget, cost, c, prompts, steps)
        assert all(s.needed > s.given for s in solved.shortfalls)
        if solved.largest_steps is not None:
            assert not breaks(budget, cost, c, prompts, solved.largest_steps)
        if solved.largest_prompts_per_step is not None:
            assert not breaks(budget, cost, c, solved.largest_prompts_per_step, steps)
        return
    assert not solved.shortfalls
    assert not solved.advice
    design = solved.design
    prompts, steps = design.prompts_per_step, design.steps or 1
    assert not breaks(budget, cost, c, prompts, steps)
    assert budget.steps in (None, design.steps)
    assert budget.prompts_per_step in (None, prompts)
    assert solved.cost == cost.run(c, prompts, steps)
    bound: set[str] = set()

    def check_one_more(prompts: int, steps: int, what: str) -> None:
        """Something breaks, and what breaks beyond rounding is named as binding."""
        surely, perhaps = (over(prompts, steps, slack) for slack in (1 + 1e-9, 1 - 1e-9))
        assert perhaps, f"one more {what} would have fitted"
        assert surely <= set(solved.binding)
        bound.update(perhaps)

    def over(prompts: int, steps: int, slack: float) -> set[str]:
        more = cost.run(c, prompts, steps)
        found = {u for u, most in budget.totals.items() if (more.of(u) or 0.0) > most * slack}
        wide = budget.rollouts_per_step is not None and prompts * c.group_size > budget.rollouts_per_step
        return found | ({"rollouts_per_step"} if wide else set())

    if budget.prompts_per_step is None and (budget.steps is not None or steps == 1):
        check_one_more(prompts + 1, budget.steps or 1, "prompt a step")
    if budget.steps is None and budget.totals:
        check_one_more(prompts, steps + 1, "step")
    if budget.prompts_per_step is None and budget.rollouts_per_step is not None and steps > 1:
        bound.add("rollouts_per_step")
        assert prompts == budget.rollouts_per_step // c.group_size
    assert set(solved.binding) <= bound
    if budget.prompts_per_step is not None and (budget.steps is not None or not budget.totals):
        assert solved.binding == ()


@quick
@given(
    budget=st.integers(1, 10**7), steps=st.integers(1, 300), each=st.integers(1, 500), overhead=st.integers(0, 900),
    prompts=st.integers(1, 300),
)  # fmt: skip
def test_solutions_are_the_symbolic_floors(budget: int, steps: int, each: int, overhead: int, prompts: int) -> None:
    cost = CostModel(
        job_tokens_per_s=1.0, job_counts_prompts=False, pass_tokens=each / 2, fail_tokens=each / 2, gpus=3600,
        step_overhead_s=overhead,
    )  # fmt: skip
    c = GroupContent.from_pmf([0.25, 0.5, 0.25])  # two rollouts of each/2 tokens: `each` seconds a group, GPU-hours too
    free = solve_design(Budget(gpu_hours=budget, steps=steps), cost, c).design
    most = int(eq.most_prompts(budget, steps, each, overhead))
    assert (0 if free is None else free.prompts_per_step) == max(most, 0)
    longest = solve_design(Budget(gpu_hours=budget, prompts_per_step=prompts), cost, c).design
    assert (0 if longest is None else longest.steps) == int(eq.most_steps(budget, prompts, each, overhead))


@quick
@given(situations(), st.sampled_from([n for n in FULL if n not in ("gpus", "reward_parallel")]), st.floats(1.01, 3.0))
def test_costs_rise_with_every_length_and_price_and_fall_with_every_rate(
    situation: tuple[Budget, CostModel, GroupContent], name: str, factor: float
) -> None:
    _, cost, c = situation
    higher = replace(cost, **{name: getattr(cost, name) * factor})
    before, after = cost.run(c, 7, 3), higher.run(c, 7, 3)
    for amount in AMOUNTS:
        old, new = getattr(before, amount), getattr(after, amount)
        assert old is not None
        if name.endswith("_per_s"):
            assert new <= old * (1 + 1e-12)
        else:
            assert new >= old * (1 - 1e-12)
    assert after.usd != before.usd
    longer, wider = cost.run(c, 7, 4), cost.run(c, 8, 3)
    for other in (longer, wider):
        assert all(getattr(other, a) >= getattr(before, a) for a in AMOUNTS)
        assert (other.usd or 0) > (before.usd or 0)


def test_larger_budgets_never_give_smaller_designs() -> None:
    cost = CostModel(**FULL)
    sizes = [
        solve_design(Budget(gpu_hours=hours, usd=5e4, steps=100), cost, content(4)).design
        for hours in (10, 100, 1e3, 1e5)
    ]
    prompts = [d.prompts_per_step for d in sizes if d is not None]
    assert len(prompts) == 4
    assert prompts == sorted(prompts)
    assert solve_design(Budget(gpu_hours=1e3, usd=1e4, steps=100), cost, content(4)).binding == ("gpu_hours",)
    assert solve_design(Budget(gpu_hours=1e3, usd=100, steps=100), cost, content(4)).binding == ("usd",)


def test_give_all_but_one_in_any_unit() -> None:
    cost, c = CostModel(**FULL), content(4)
    wanted = cost.run(c, 64, 200)
    for unit in UNITS:
        total: Any = math.ceil(wanted.of(unit) or 0) if unit in ("rollouts", "tokens") else wanted.of(unit)
        by_steps = solve_design(Budget(**{unit: total}, steps=200), cost, c).design
        by_prompts = solve_design(Budget(**{unit: total}, prompts_per_step=64), cost, c).design
        assert by_steps == by_prompts
        assert by_steps is not None
        assert (by_steps.prompts_per_step, by_steps.steps) == (64, 200)
    given_in_full = solve_design(Budget(prompts_per_step=64, steps=200), cost, c)
    assert given_in_full.cost == wanted
    assert given_in_full.binding == ()
    step = solve_design(Budget(prompts_per_step=64), cost, c)
    assert step.design is not None
    assert step.design.steps is None
    assert step.cost == cost.step(c, 64)


def test_rollouts_per_step_is_a_limit_beside_a_total() -> None:
    cost = CostModel()
    both = solve_design(Budget(rollouts=100_000, steps=100, rollouts_per_step=4096), cost, content(4))
    assert both.design == design_for(4, Budget(rollouts=100_000, steps=100), cost)
    assert both.binding == ("rollouts",)
    tight = solve_design(Budget(rollouts=100_000, steps=100, rollouts_per_step=512), cost, content(4))
    assert tight.design is not None
    assert tight.design.prompts_per_step == 128
    assert tight.binding == ("rollouts_per_step",)


@pytest.mark.parametrize("rule", ["all", "mixed", "refill"])
@pytest.mark.parametrize("total", [{"tokens": 30_000_000}, {"gpu_hours": 8.0}, {"rollouts": 70_000, "usd": 20.0}])
def test_the_largest_group_size_is_that_of_brute_force(
    rule: str, total: dict[str, Any], example_fit: PassRateFit
) -> None:
    cost = CostModel(**FULL, refill=rule == "refill", trained=None if rule == "refill" else rule)
    known = {g: GroupContent.from_pmf(example_fit.group_pmf(g)) for g in range(2, 65)}
    budget = Budget(**total, steps=40, prompts_per_step=40)
    fitting = [g for g, c in known.items() if solve_design(budget, cost, c).design is not None]
    assert largest_group_size(budget, cost, known.__getitem__, 64) == max(fitting, default=None)
    assert 2 < max(fitting) < 64
    generous = Budget(rollouts=10**9, steps=1, prompts_per_step=1)
    assert largest_group_size(generous, CostModel(), known.__getitem__, 50) == 50
    assert largest_group_size(Budget(rollouts=2, steps=2, prompts_per_step=2), cost, known.__getitem__, 64) is None
    assert largest_group_size(Budget(rollouts=2, steps=2), cost, known.__getitem__, 64) is None
    assert (
        largest_group_size(Budget(rollouts_per_step=100, prompts_per_step=3), CostModel(), known.__getitem__, 64) == 33
    )


def test_what_does_not_fit_says_what_would() -> None:
    cost, c = CostModel(**FULL), content(4)
    budget = Budget(gpu_hours=5.0, rollouts=2_000, steps=100, prompts_per_step=64)
    solved = solve_design(budget, cost, c)
    assert solved.design is None
    assert {s.limit for s in solved.shortfalls} == {"gpu_hours", "rollouts"}
    assert solved.advice.startswith("G = 4 with 64 prompts a step and 100 steps needs 25,600 rollouts (given 2,000), ")
    assert "raise both. Or take at most 7 steps or at most 5 prompts a step." in solved.advice
    assert (solved.largest_steps, solved.largest_prompts_per_step) == (7, 5)
    raised = {s.limit: s.needed for s in solved.shortfalls}
    again = Budget(
        gpu_hours=raised["gpu_hours"], rollouts=math.ceil(raised["rollouts"]), steps=100, prompts_per_step=64
    )
    assert solve_design(again, cost, c).design is not None
    overhead = solve_design(Budget(gpu_hours=0.01, steps=1), cost, c)
    assert overhead.advice.startswith("G = 4 with 1 prompt a step and 1 step needs ")
    assert "raise it." in overhead.advice
    wide = solve_design(Budget(prompts_per_step=64, rollouts_per_step=100), cost, c)
    assert wide.advice == (
        "G = 4 with 64 prompts a step needs 256 rollouts a step (given 100): raise it. Or take at most 25 prompts a step."
    )


# --- what is not known -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "unit", "sentence"),
    [
        ({}, "tokens", "Tokens need --pass-tokens and --fail-tokens; or a pilot with a column of response tokens"),
        ({"pass_tokens": 1}, "tokens", "Tokens need --fail-tokens; or"),
        (
            {"pass_tokens": 1, "fail_tokens": 1, "prompt_tokens": 1},
            "gpu_hours",
            "GPU-hours need --decode-tokens-per-s, --train-tokens-per-s and --gpus; or --calibrate RUN instead of the rates.",
        ),
        (
            {"pass_tokens": 1, "fail_tokens": 1, "job_tokens_per_s": 1, "gpus": 1},
            "usd",
            "USD need --prompt-tokens and --usd-per-gpu-hour.",
        ),
        ({"pass_tokens": 1, "fail_tokens": 1}, "tokens", None),
        (FULL, "usd", None),
        ({}, "rollouts", None),
    ],
)
def test_what_is_missing_is_named(values: dict[str, Any], unit: str, sentence: str | None) -> None:
    needs = CostModel(**values).needs(unit)
    assert needs is None if sentence is None else needs is not None and needs.startswith(sentence)


def test_unknown_is_none_with_the_reason_never_zero() -> None:
    bare = CostModel().run(content(4), 10, 10)
    assert bare.rollouts == 400
    for name in ("prefilled_tokens", "generated_tokens", "trained_tokens", "seconds", "gpu_hours", "usd"):
        assert getattr(bare, name) is None
        assert "need --" in bare.missing[name]
    lengths = CostModel(pass_tokens=1, fail_tokens=2).run(content(4), 10, 10)
    assert lengths.generated_tokens is not None
    assert "generated_tokens" not in lengths.missing
    assert lengths.trained_tokens is None
    with pytest.raises(DomainError, match=r"in GPU-hours, but their cost is unknown\. GPU-hours need --pass"):
        solve_design(Budget(gpu_hours=3, steps=1), CostModel(), content(4))
    with pytest.raises(DomainError, match="need what a group holds; got no content"):
        design_for(4, Budget(tokens=10**6, steps=1), CostModel())
    with pytest.raises(DomainError, match="unit must be one of"):
        CostModel().needs("euros")
    assert any("prefill" in note for note in replace(CostModel(**FULL), prefill_tokens_per_s=None).assumptions())
    assert CostModel().assumptions() == ()


def test_refill_without_mixed_groups_never_ends() -> None:
    dead = GroupContent.from_pmf([0.5, 0.0, 0.5], (0.9, 1.0))
    with pytest.raises(InfeasiblePlanError, match="Refill would never end: no group of 2 is mixed"):
        CostModel(refill=True).step(dead, 4)
    rare = GroupContent.from_pmf([0.45, 0.1, 0.45], (0.8, 1.0))
    solved = solve_design(Budget(rollouts=10_000, steps=10), CostModel(refill=True), rare)
    assert solved.cost_high is None
    assert solved.cost_low is not None
    assert solved.cost_low.groups < solved.cost.groups
    unseen = CostModel(**FULL, trained="mixed").step(dead, 4, "low")
    assert unseen.trained_tokens is None
    assert CostModel(**FULL, trained="mixed").step(dead, 4).trained_tokens == 0.0


# --- hostile input -----------------------------------------------------------------------------------------------

BAD: list[Any] = [0, -1, float("nan"), float("inf"), 1e16, 1e-10, True, "8", None]


@pytest.mark.parametrize(
    "name", [n for n in FULL if n not in ("gpus", "reward_parallel", "reward_s", "step_overhead_s")]
)
@pytest.mark.parametrize("value", BAD[:-1])
def test_amounts_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(DomainError, match=f"^{name} must be "):
        CostModel(**{name: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 0}, "gpus must be at least 1"),
        ({"gpus": 2.5}, "gpus must be a whole number"),
        ({"reward_parallel": 0}, "reward_parallel must be at least 1"),
        ({"reward_s": -1}, "reward_s must be finite and at least 0"),
        ({"step_overhead_s": float("nan")}, "step_overhead_s must be finite"),
        ({"prompt_rollouts": 1e300}, "prompt_rollouts must be at most 1e\\+15"),
        ({"trained": "none"}, "trained must be one of all, mixed"),
        ({"refill": True, "trained": "all"}, "refill trains on mixed groups only"),
        ({"job_tokens_per_s": 1, "decode_tokens_per_s": 1}, "already covers every phase; got decode_tokens_per_s"),
        ({"job_tokens_per_s": 1, "reward_s": 1}, "already covers every phase; got reward_s"),
    ],
)
def test_models_that_contradict_themselves_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        CostModel(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpu_hours": 0, "steps": 1}, "gpu_hours must be finite and above 0"),
        ({"usd": float("inf"), "steps": 1}, "usd must be finite"),
        ({"tokens": 1.5, "steps": 1}, "tokens must be a whole number"),
        ({"tokens": 10**19, "steps": 1}, "tokens must be at most"),
        ({"usd": 5}, "A budget in USD needs one more number"),
        ({"gpu_hours": "64", "steps": 1}, "gpu_hours must be a number"),
    ],
)
def test_budgets_out_of_range_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Budget(**values)


@pytest.mark.parametrize(
    "pmf", [[], [1.0], [0.5, 0.6], [[0.5, 0.5]], [float("nan"), 1.0], [-0.1, 1.1], "law", [0.2, 0.2, 0.2]]
)
def test_laws_that_are_none_are_refused(pmf: Any) -> None:
    with pytest.raises(DomainError):
        GroupContent.from_pmf(pmf)


def test_extreme_numbers_stay_finite() -> None:
    dear = CostModel(
        prompt_tokens=1e15, pass_tokens=1e15, fail_tokens=1e15, decode_tokens_per_s=1e-9, train_tokens_per_s=1e-9,
        prefill_tokens_per_s=1e-9, reward_s=1e15, step_overhead_s=1e15, gpus=10**7, usd_per_gpu_hour=1e15,
    )  # fmt: skip
    run = dear.run(GroupContent.from_pmf([0.5, 0.5]), 10**12, 10**12)
    assert all(math.isfinite(getattr(run, a)) for a in AMOUNTS)
    assert solve_design(Budget(usd=1e15, steps=10**12), dear, content(4)).design is None
    cheap = CostModel(
        pass_tokens=1e-9,
        fail_tokens=1e-9,
        prompt_tokens=1e-9,
        decode_tokens_per_s=1e15,
        train_tokens_per_s=1e15,
        gpus=1,
    )
    huge = solve_design(Budget(gpu_hours=1e15, steps=1), cheap, content(4))
    assert huge.design is not None
    assert huge.design.prompts_per_step == 10**12
    assert huge.binding == ()


@pytest.mark.parametrize("values", [(1, 2), ([1, -1], [1, 1]), ([], []), ([1, 2], [1]), ([1, float("nan")], [1, 1])])
def test_rows_that_are_no_times_are_refused(values: tuple[Any, Any]) -> None:
    with pytest.raises(DomainError):
        estimate_throughput(*values)


def test_words() -> None:
    assert amount_words("gpu_hours", 0.5) == "0.5 GPU-hours"
    text = binding_constraint(Budget(tokens=3 * 10**9, usd=1250.5, steps=200))
    assert text == "3,000,000,000 tokens, 1,250 USD and 200 steps"
    assert binding_constraint(Budget(prompts_per_step=64)) == "64 prompts a step"


def test_a_model_from_a_throughput_keeps_its_overhead() -> None:
    tokens: NDArray[np.float64] = np.linspace(1e5, 3e5, 40)
    speed = estimate_throughput(30 + tokens / 2e4, tokens)
    cost = CostModel.from_throughput(speed, pass_tokens=400, fail_tokens=900, prompt_tokens=100, gpus=8)
    assert cost.job_tokens_per_s == pytest.approx(2e4)
    assert cost.step_overhead_s == pytest.approx(30)
    assert cost.needs("gpu_hours") is None
    with pytest.raises(DomainError, match="throughput must be a Throughput"):
        CostModel.from_throughput(3)  # type: ignore[arg-type]
