"""Ratios of progress rest on one distribution of pass rates, at group sizes below and above the pilot's n (eq. 28)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from grpo_plan.costs import Budget
from grpo_plan.errors import PilotError
from grpo_plan.estimators import get_estimator
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.pilot import Pilot
from grpo_plan.planning import plan_group_size
from grpo_plan.planning.group_size import noise_over_probed
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.signal import group_moments, progress
from grpo_plan.remedies.planned import beside
from grpo_plan.remedies.progress import progress_ratio, side_by_side

Floats = NDArray[np.float64]
HARD = [318, 23, 22, 8, 13, 10, 3, 1, 2]  # prompts by passes of 8; drawn from Beta(0.15, 1.5)
KAPPA = 17.0
PER_COST = Budget(prompts_per_step=100, steps=10)  # progress per rollout, so no rounding of prompts


@pytest.fixture(scope="module")
def hard() -> PassRateFit:
    return fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(9), HARD), 8))


def per_rollout(laws: dict[int, Floats], g: int, kappa: float = KAPPA, name: str = "rloo") -> float:
    """Progress of a rollout by plain arithmetic."""
    m = get_estimator(name).moments(laws.__getitem__, g)
    return m.signal**2 / (m.signal_square + kappa * m.noise) / g


def mixed_laws(fit: PassRateFit, sizes: list[int]) -> dict[int, Floats]:
    """What must not be used for ratios: each size by the best answer for it alone."""
    return {g: fit.group_pmf(g) for g in sizes}


def planned(fit: PassRateFit, sizes: list[int], kappa: float | tuple[float, float] = KAPPA, name: str = "rloo") -> Plan:
    return plan_group_size(fit, budget=PER_COST, group_sizes=sizes, kappa=kappa, estimator=name)


def test_the_ratio_across_n_is_that_of_the_one_law(hard: PassRateFit) -> None:
    """The truth, Beta(0.15, 1.5), is 0.9984; the counts at 8 beside the fit at 16 would say 0.9686."""
    plan = planned(hard, [8, 16])
    first, second = (plan.progress_at(p, KAPPA) for p in plan.frontier)
    one = {g: hard.likely_rates.group_pmf(g) for g in (8, 16)}
    assert second / first == pytest.approx(per_rollout(one, 16) / per_rollout(one, 8), rel=1e-9)
    assert second / first == pytest.approx(0.9922, abs=1e-4)
    true = {g: BetaPassRates.from_shape(0.15, 1.5).group_pmf(g) for g in (8, 16)}
    assert per_rollout(true, 16) / per_rollout(true, 8) == pytest.approx(0.9984, abs=1e-4)
    two = mixed_laws(hard, [8, 16])
    assert per_rollout(two, 16) / per_rollout(two, 8) == pytest.approx(0.9686, abs=1e-4)


THREE, SHARES = np.array([0.05, 0.5, 0.95]), np.array([0.5, 0.3, 0.2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "pair", "missed"),
    [
        (False, (16, 8), (0.0156, 0.0024)),
        (True, (16, 8), (0.0092, 0.0025)),
        (False, (4, 8), (0.0018, 0.0011)),
        (True, (4, 8), (0.0014, 0.0012)),
    ],
)
def test_how_far_ratios_are_off_by_two_laws_and_by_one(
    values: bool, pair: tuple[int, int], missed: tuple[float, float]
) -> None:
    """The numbers of eq. 28: root mean square error of the log of a ratio over 40 pilots, of a table up to 16."""

    def law_of(g: int) -> Floats:
        if values:
            laws: Floats = SHARES @ binom.pmf(np.arange(g + 1)[None, :], g, THREE[:, None])
            return laws
        return BetaPassRates.from_shape(0.15, 1.5).group_pmf(g)

    errors = []
    for i in range(40):
        rng = np.random.default_rng([2800, i])
        rates = rng.choice(THREE, 400, p=SHARES) if values else rng.beta(0.15, 1.5, 400)
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(8, rates), 8))
        found = (mixed_laws(fit, list(pair)), laws_of_one(fit, [*pair, 16]), {g: law_of(g) for g in pair})
        two, one, true = (math.log(per_rollout(laws, pair[0]) / per_rollout(laws, pair[1])) for laws in found)
        errors.append([two - true, one - true])
    assert np.sqrt(np.mean(np.square(errors), axis=0)) == pytest.approx(missed, abs=1e-4)


def test_what_docs_say_of_the_packaged_pilot(example_fit: PassRateFit) -> None:
    """choosing.md: what a size of the flat range can lose, and how little a size beyond n moves the others here."""
    budget = Budget(rollouts=2_000_000, steps=500)

    def makes(plan: Plan, kappa: float) -> dict[int, float]:
        return {p.design.group_size: plan.progress_at(p, kappa) for p in plan.frontier}

    whole = plan_group_size(example_fit, budget=budget)
    assert whole.flat_range == (4, 8)
    low, high = (makes(whole, kappa) for kappa in (1.0, 300.0))
    assert low[8] / max(low.values()) == pytest.approx(0.86, abs=0.005)
    assert high[4] / max(high.values()) == pytest.approx(0.85, abs=0.005)
    for kappa in (1.0, 300.0):
        tables = [plan_group_size(example_fit, budget=budget, kappa=kappa, group_sizes=g) for g in ([4, 8], [4, 8, 16])]
        few, more = (m[4] / m[8] for m in (makes(plan, kappa) for plan in tables))
        assert 0 < abs(few - more) < 0.0045


LOW, LOW_SHARES = np.array([0.02, 0.1, 0.9]), np.array([0.5, 0.3, 0.2])


def low_law(g: int) -> Floats:
    """The law of passes where pass rates take three values, most of them low."""
    law: Floats = LOW_SHARES @ binom.pmf(np.arange(g + 1)[None, :], g, LOW[:, None])
    return law


def ends_law(g: int) -> Floats:
    """The law of passes where 30 % of the prompts never pass, 15 % always do, and the others are uniform."""
    law: Floats = np.full(g + 1, 0.55 / (g + 1)) + np.r_[0.3, np.zeros(g - 1), 0.15]
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "missed"),
    [
        (False, {(1.0, 4, 8): (0.0138, 0.0158), (1.0, 4, 16): (0.0340, 0.0411), (KAPPA, 4, 16): (0.0269, 0.0024)}),
        (True, {(1.0, 4, 8): (0.0122, 0.0141), (KAPPA, 4, 16): (0.0090, 0.0103)}),
    ],
)
def test_where_one_law_is_the_worse(low: bool, missed: dict[tuple[float, int, int], tuple[float, float]]) -> None:
    """The numbers of eq. 28 that speak against one law, of `grpo` in a table up to 16."""
    errors: dict[tuple[float, int, int], list[list[float]]] = {case: [] for case in missed}
    law_of = low_law if low else ends_law
    for i in range(40):
        rng = np.random.default_rng([2801, i])
        if low:
            rates = rng.choice(LOW, 400, p=LOW_SHARES)
        else:
            share = rng.random(200)
            rates = np.where(share < 0.45, share >= 0.3, rng.beta(1, 1, 200))
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(8, rates), 8))
        sizes = [4, 8, 16]
        found = (mixed_laws(fit, sizes), laws_of_one(fit, sizes), {g: law_of(g) for g in sizes})
        for (kappa, a, b), list_of in errors.items():
            two, one, true = (
                math.log(per_rollout(laws, a, kappa, "grpo") / per_rollout(laws, b, kappa, "grpo")) for laws in found
            )
            list_of.append([two - true, one - true])
    if not low:  # "by a hundredth in the first of these cases"
        moved = np.diff(errors[1.0, 4, 8], axis=1)
        assert abs(moved).mean() == pytest.approx(0.01, abs=0.003)
    for case, values in missed.items():
        assert np.sqrt(np.mean(np.square(errors[case]), axis=0)) == pytest.approx(values, abs=1e-4), case


@pytest.mark.parametrize("name", ["grpo", "rloo", "maxrl", "sign"])
def test_a_plan_and_a_comparison_give_one_ratio(hard: PassRateFit, name: str) -> None:
    """`remedies` and `plan` say the same of two designs, limits included."""
    for sizes in ([4, 8], [8, 16], [4, 64]):
        plan = planned(hard, sizes, name=name)
        low, high = (plan.progress_at(p, KAPPA) for p in plan.frontier)
        one, base = side_by_side(hard, *((get_estimator(name), g) for g in sizes[::-1]))
        found = progress_ratio(hard, one, base, kappa=KAPPA, coherence=0.0, level=0.95)
        assert found.value == pytest.approx(high / low, rel=1e-9)
        assert found.high is not None
        worse = int(np.argmin([low, high]))
        ends = (found.low, found.high) if worse == 1 else (1.0 / found.high, 1.0 / found.low)
        assert plan.progress_limits(plan.frontier[worse], KAPPA) == pytest.approx(ends, rel=1e-4)


def bend(laws: dict[int, Floats], sizes: list[int]) -> float:
    """Largest second difference of the logarithm of progress in equal steps of log G, of three neighbours."""
    logs = {g: math.log(per_rollout(laws, g)) for g in sizes}
    found = []
    for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False):
        left = (logs[b] - logs[a]) / math.log(b / a)
        right = (logs[c] - logs[b]) / math.log(c / b)
        found.append(abs(right - left))
    return max(found)


def test_progress_has_no_step_at_n(hard: PassRateFit) -> None:
    sizes = [5, 6, 7, 8, 9, 10, 11, 12]
    plan = planned(hard, sizes)
    log = np.log([plan.progress_at(p, KAPPA) for p in plan.frontier])
    slope = np.diff(log) / np.diff(np.log(sizes))
    smooth, broken = bend(laws_of_one(hard, sizes), sizes), bend(mixed_laws(hard, sizes), sizes)
    assert np.abs(np.diff(slope)).max() == pytest.approx(smooth)
    assert smooth < 0.1
    assert broken > 2 * smooth  # the law of the counts up to 8, of the fit from 9


def test_up_to_n_the_counts_decide(hard: PassRateFit, example_fit: PassRateFit) -> None:
    for fit in (hard, example_fit):
        plan = planned(fit, [2, 4, 6, 8])
        values = [per_rollout({g: fit.group_pmf(g)}, g) for g in (2, 4, 6, 8)]
        shares = [plan.progress_at(p, KAPPA) for p in plan.frontier]
        assert shares == pytest.approx([v / max(values) for v in values], rel=1e-9)


def test_range_regret_and_best_sizes_follow_the_one_law(hard: PassRateFit) -> None:
    sizes, kappas = [4, 6, 8, 10, 12, 16, 24, 32], (1.0, 300.0)
    plan = planned(hard, sizes, kappas)
    laws = {g: hard.likely_rates.group_pmf(g) for g in sizes}
    grid = plan.kappa.grid()
    table = np.array([[per_rollout(laws, g, k) for k in grid] for g in sizes])
    regret = 1.0 - (table / table.max(axis=0)).min(axis=1)
    assert [p.worst_regret for p in plan.frontier] == pytest.approx(list(regret), abs=1e-9)
    near = [g for g, r in zip(sizes, regret, strict=True) if r <= regret.min() + 0.1]
    assert plan.flat_range == (min(near), max(near))
    for answer in plan.sensitivity:
        column = np.array([per_rollout(laws, g, answer.kappa) for g in sizes])
        flat = [g for g, v in zip(sizes, column, strict=True) if v >= 0.9 * column.max()]
        assert (answer.group_size, answer.flat_low, answer.flat_high) == (
            sizes[int(column.argmax())],
            min(flat),
            max(flat),
        )


def test_dead_fractions_stay_the_best_answer_for_each_size(hard: PassRateFit) -> None:
    """A single mean takes the counts where there are some; only ratios of progress need the one law."""
    plan = planned(hard, [4, 8, 16])
    for p in plan.frontier:
        g = p.design.group_size
        assert p.dead.value == hard.dead(g).value
        assert p.batch.mixed_groups.mean == pytest.approx(100 * (1.0 - (hard.dead(g).value or 0.0)))


def test_the_noise_of_a_step_keeps_the_plan_s_ratios(hard: PassRateFit) -> None:
    plan = plan_group_size(
        hard, budget=Budget(rollouts=1_600_000, steps=100), group_sizes=[8, 16], kappa=KAPPA, coherence=0.02
    )
    noises = [p.noise_to_signal.value if p.noise_to_signal else None for p in plan.frontier]
    first, second = (plan.progress_at(p, KAPPA) for p in plan.frontier)
    assert noises[0] is not None
    assert noises[1] is not None
    assert noises[0] / noises[1] == pytest.approx(second / first)


@pytest.mark.parametrize(("g", "counted"), [(4, True), (8, False), (16, False)])
def test_a_probe_s_noise_is_carried_over_by_one_law(hard: PassRateFit, g: int, counted: bool) -> None:
    """ngrpo looks at groups of G + 2: at G = 8 the counts answer for rloo, but not for it."""
    name = "ngrpo"
    sizes = {get_estimator(n).law_size(g) for n in (name, "rloo")}
    laws = {n: (hard.group_pmf if counted else hard.likely_rates.group_pmf)(n) for n in sizes}
    expected = per_rollout(laws, g, KAPPA, "rloo") / per_rollout(laws, g, KAPPA, name)
    (found,) = noise_over_probed(hard, [g], get_estimator(name), KAPPA)
    assert found == pytest.approx(expected)


def test_beside_another_estimator_at_a_size_beyond_n(hard: PassRateFit) -> None:
    plan = planned(hard, [4, 16], 300.0, "sign")
    found = beside(plan)
    assert found is not None
    assert found.group_size == 16
    (at,) = found.progress
    sizes = {4, 16}  # sign needs groups of 4 alone, rloo at 16 those of 16
    laws = {n: hard.likely_rates.group_pmf(n) for n in sizes}
    expected = per_rollout(laws, plan.recommended.design.group_size, 300.0, "sign") / per_rollout(laws, 16, 300.0)
    assert at.ratio.value == pytest.approx(expected)


def test_laws_thin_into_each_other_at_any_distance(hard: PassRateFit) -> None:
    """Neighbours are thinned from each other and far ones summed afresh: the same law either way."""
    sizes = [512, 500, 300, 64, 63, 16, 8, 4, 2, 1]
    laws = laws_of_one(hard, sizes)
    assert set(laws) == set(sizes)
    for g in sizes:
        assert laws[g] == pytest.approx(hard.likely_rates.group_pmf(g), rel=1e-8, abs=1e-15)
    assert laws_of_one(hard, []) == {}


def test_unequal_rollouts_take_the_prompts_of_the_largest_size() -> None:
    fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [1] * 30 + [3] * 20 + [0, 1, 2] * 5, [8] * 90 + [2] * 15))
    assert fit.max_counted_group_size == 8
    laws = laws_of_one(fit, [2, 8])
    eight = fit_pass_rates(Pilot.from_counts([0] * 40 + [1] * 30 + [3] * 20, 8))
    assert laws[2] == pytest.approx(eight.group_pmf(2))
    assert np.abs(laws[2] - fit.group_pmf(2)).max() > 0.01  # which counts the other 15 prompts too


@pytest.mark.parametrize("family", ["beta", "tilted-beta", "nonparametric"])
def test_a_named_family_is_one_law_already(hard: PassRateFit, family: str) -> None:
    fit = fit_pass_rates(hard.pilot, family=family)
    laws = laws_of_one(fit, [4, 8, 16])
    for g, law in laws.items():
        assert law == pytest.approx(fit.group_pmf(g))


def test_a_pilot_of_single_rollouts_has_no_law() -> None:
    fit = fit_pass_rates(Pilot.from_counts([0, 1] * 40, 1))
    with pytest.raises(PilotError, match="does not determine groups of 4"):
        laws_of_one(fit, [2, 4])


def test_moments_for_ratios_are_of_one_law(hard: PassRateFit) -> None:
    rloo = get_estimator("rloo")
    table = progress(group_moments(hard, (8, 16), rloo), np.array([1 / 8, 1 / 16]), np.array([KAPPA]))[:, 0]
    assert table[1] / table[0] == pytest.approx(0.9922, abs=1e-4)
    (alone,) = group_moments(hard, (8,), rloo)
    assert alone == rloo.moments(hard.group_pmf, 8)
