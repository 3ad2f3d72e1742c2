"""Are rollouts of a prompt independent: exact moments, unbiased correlation, size and power of the tests, reading."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

import grpo_plan as gp
from grpo_plan.independence import IndependenceVerdict as Verdict
from grpo_plan.independence.inference import two_sided_p
from grpo_plan.independence.sequences import change_moments
from grpo_plan.independence.sessions import between_moments, pass_covariance
from grpo_plan.symbolic import independence as eq
from tests.helpers import assert_mean, assert_rate

quick = settings(deadline=None, max_examples=60)
SIZES = [(1, 1), (1, 2), (2, 2), (1, 1, 1), (3, 2), (4, 1), (2, 3, 4), (1, 1, 2, 3), (2, 2, 2, 2)]
PRIORS = {"U-shaped": (0.35, 0.7), "hard": (0.3, 3.0), "alike": (20.0, 20.0)}
Array = NDArray[Any]


def row(values: Any) -> Array:
    return np.array([values], dtype=float)


def filled(passes: int, rollouts: tuple[int, ...]) -> tuple[int, ...]:
    """Some table with these margins."""
    table = []
    for n in rollouts:
        table.append(min(n, passes))
        passes -= table[-1]
    return tuple(table)


# Exact moments


@pytest.mark.parametrize("rollouts", SIZES)
def test_squares_between_sessions_have_the_moments_of_the_enumerated_law(rollouts: tuple[int, ...]) -> None:
    for k in range(1, sum(rollouts)):

        def squares(table: tuple[int, ...]) -> Any:
            return eq.session_squares(list(zip(table, rollouts, strict=True)))

        mean = eq.session_mean(squares, k, rollouts)
        variance = eq.session_mean(lambda t, m=mean: (squares(t) - m) ** 2, k, rollouts)  # type: ignore[misc]
        assert eq.session_squares_mean(k, rollouts) == mean
        if sum(rollouts) >= 4:
            assert eq.session_squares_variance(k, rollouts) == variance
        table = filled(k, rollouts)
        got = between_moments(row(table), row(rollouts))
        assert [float(x[0]) for x in got] == pytest.approx([float(squares(table)), float(mean), float(variance)])


@pytest.mark.parametrize("rollouts", [(2, 2), (1, 3), (3, 2, 1)])
def test_covariance_within_a_session_is_unbiased_whatever_moves_the_sessions(rollouts: tuple[int, ...]) -> None:
    levels = {sp.Rational(1, 5): sp.Rational(1, 4), sp.Rational(3, 5): sp.Rational(3, 4)}
    p = sp.Add(*(x * w for x, w in levels.items()))
    truth = sp.Add(*((x - p) ** 2 * w for x, w in levels.items()))
    covariance = spread = sp.Integer(0)
    for table in product(*(range(n + 1) for n in rollouts)):
        chance = sp.Mul(
            *(
                sp.binomial(n, k) * sp.Add(*(w * x**k * (1 - x) ** (n - k) for x, w in levels.items()))
                for k, n in zip(table, rollouts, strict=True)
            )
        )
        c, s = eq.session_covariance(list(zip(table, rollouts, strict=True)))
        covariance, spread = covariance + chance * c, spread + chance * s
        fast_c, fast_s, slope = (float(x[0]) for x in pass_covariance(row(table), row(rollouts)))
        assert (fast_c, fast_s) == pytest.approx((float(c), float(s)), abs=1e-12)
        b, mean, _ = (float(x[0]) for x in between_moments(row(table), row(rollouts)))
        assert fast_c == pytest.approx(slope * (b - mean), abs=1e-12)
    assert (covariance, spread) == (truth, p * (1 - p))


@pytest.mark.parametrize("rollouts", [(2, 3), (1, 2, 2)])
def test_drift_has_the_covariance_of_the_enumerated_law(rollouts: tuple[int, ...]) -> None:
    n = sum(rollouts)
    for k in range(n + 1):
        expected = sp.zeros(len(rollouts))
        for table, chance in eq.session_law(k, rollouts):
            d = sp.Matrix([x - sp.Rational(m * k, n) for x, m in zip(table, rollouts, strict=True)])
            expected += chance * d * d.T
        assert eq.drift_covariance(k, rollouts) == expected


def test_drift_statistic_is_that_of_the_summed_covariance() -> None:
    k, n = [(3, 0, 1), (2, 2, 0), (0, 1, 3)], [(4, 2, 2), (3, 3, 1), (2, 2, 5)]
    h = sum((eq.drift_covariance(sum(a), b) for a, b in zip(k, n, strict=True)), sp.zeros(3))
    t = sp.zeros(3, 1)
    for a, b in zip(k, n, strict=True):
        t += sp.Matrix([x - sp.Rational(m * sum(a), sum(b)) for x, m in zip(a, b, strict=True)])
    check = gp.check_independence(k, n)
    assert check.drift_chi2 is not None
    assert check.drift_chi2 * check.drift_inflation == pytest.approx(float((t.T * h.pinv() * t)[0]))
    assert check.drift_degrees == 2


def test_one_prompt_s_drift_is_pearson_s_statistic() -> None:
    k, n = np.array([30, 18, 25]), np.array([50, 40, 45])
    pearson = chi2_contingency(np.stack([k, n - k]), correction=False).statistic
    chi2 = gp.check_independence([k], [n]).drift_chi2
    assert chi2 == pytest.approx(pearson * (n.sum() - 1) / n.sum())


@pytest.mark.parametrize("n", range(3, 8))
def test_changes_along_a_list_have_the_moments_of_all_its_orders(n: int) -> None:
    for k in range(1, n):
        orders = sorted(set(permutations([1] * k + [0] * (n - k))))
        changes = [sum(a != b for a, b in pairwise(x)) for x in orders]
        mean = sp.Rational(sum(changes), len(changes))
        variance = sp.Add(*((c - mean) ** 2 for c in changes)) / len(changes)
        assert (eq.changes_mean(k, n), eq.changes_variance(k, n)) == (mean, variance)
        got = change_moments(np.array([float(k)]), np.array([float(n)]))
        assert [float(x[0]) for x in got] == pytest.approx([float(mean), float(variance)])
        for x, c in zip(orders, changes, strict=True):
            assert eq.neighbour_covariance(x)[0] == sp.Rational(n, 2 * (n - 1) * (n - 2)) * (mean - c)


def test_pooled_correlation_and_its_test_are_the_weighted_sums_of_the_equations() -> None:
    k, n = [(3, 0, 1), (2, 2, 0), (0, 1, 3)], [(4, 2, 2), (3, 3, 1), (2, 2, 5)]
    top = bottom = variance = third = sp.Integer(0)
    for a, b in zip(k, n, strict=True):
        total = sum(b)
        slope = sp.Rational(total - 1, total - len(b)) / (total - sp.Rational(sum(m * m for m in b), total))
        weight = 1 / (slope**2 * (len(b) - 1))
        covariance, spread = eq.session_covariance(list(zip(a, b, strict=True)))
        mean, own = eq.session_squares_mean(sum(a), b), eq.session_squares_variance(sum(a), b)
        top, bottom = top + weight * covariance, bottom + weight * spread
        variance, third = variance + (weight * slope) ** 2 * own, third + (weight * slope) ** 3 * 2 * own**2 / mean
    check = gp.check_independence(k, n)
    z = float(top / sp.sqrt(variance))
    assert check.correlation == pytest.approx(float(top / bottom))
    assert check.correlation_z == pytest.approx(z)
    assert check.correlation_p == pytest.approx(two_sided_p(z, float(third / variance ** sp.Rational(3, 2))))


def test_pooled_neighbour_correlation_is_the_weighted_sum_of_the_equation() -> None:
    lists = [(1, 1, 0, 0, 1), (0, 1, 0), (0, 0, 0, 1, 1, 1, 0)]
    top = bottom = sp.Integer(0)
    for x in lists:
        size = len(x)
        weight = sp.Integer((2 * (size - 1) * (size - 2)) ** 2) / size**3
        covariance, spread = eq.neighbour_covariance(x)
        top, bottom = top + weight * covariance, bottom + weight * spread
    assert gp.check_sequences(lists).neighbour_correlation == pytest.approx(float(top / bottom))


def test_design_effect_is_the_ratio_of_variances() -> None:
    rho, pq = sp.symbols("rho pq")
    sizes = (2, 3, 5)
    covered = sum(m * (m - 1) for m in sizes)
    assert sp.simplify((10 * pq + covered * rho * pq) / (10 * pq) - eq.design_effect(sizes, rho)) == 0
    assert eq.design_effect([8], rho) == 1 + 7 * rho
    check = gp.check_independence([[4, 0], [0, 3], [1, 4], [4, 0]] * 10, [[4, 8]] * 40)
    assert check.correlation is not None
    assert check.design_effect is not None
    assert check.design_effect == pytest.approx(float(eq.design_effect((4, 8), check.correlation)))
    assert check.effective_rollouts == pytest.approx(12 / check.design_effect)


def test_tails_are_never_below_the_normal_ones() -> None:
    for z in (-4.0, -1.0, 0.5, 3.0):
        assert two_sided_p(z, 0.4) >= two_sided_p(z) - 1e-15
    assert two_sided_p(3.0, 0.01) == pytest.approx(two_sided_p(3.0), rel=0.06)
    exponential = 2.0 * np.exp(-4.0)  # skewness 2: 1 + z is exponential
    assert two_sided_p(3.0, 2.0) == pytest.approx(exponential)


# Properties

tables = st.integers(2, 4).flatmap(
    lambda s: st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=s, max_size=s), min_size=2, max_size=8
    )
)


def counts(table: list[list[tuple[int, int]]]) -> tuple[Array, Array]:
    fails_passes = np.array(table)
    return fails_passes[..., 1], fails_passes.sum(axis=2)


def numbers(check: gp.IndependenceCheck) -> list[float]:
    values = (
        check.correlation,
        check.low,
        check.high,
        check.correlation_p,
        check.drift_chi2,
        check.drift_p,
        check.drift_inflation,
        check.mixed_prompts,
    )
    return [-9.0 if v is None else float(v) for v in values]


@quick
@given(tables, st.randoms(use_true_random=False))
def test_order_of_prompts_and_names_of_sessions_do_not_matter(table: list[list[tuple[int, int]]], rnd: Any) -> None:
    k, n = counts(table)
    if not n.sum():
        return
    expected = gp.check_independence(k, n)
    rows, columns = list(range(len(k))), list(range(k.shape[1]))
    rnd.shuffle(rows)
    rnd.shuffle(columns)
    other = gp.check_independence(k[rows][:, columns], n[rows][:, columns])
    assert numbers(other) == pytest.approx(numbers(expected), rel=1e-7, abs=1e-9)
    swapped = gp.check_independence(n - k, n)  # passes and fails are alike
    assert numbers(swapped) == pytest.approx(numbers(expected), rel=1e-7, abs=1e-9)
    assert swapped.shifts == pytest.approx(-expected.shifts, nan_ok=True, abs=1e-12)


@quick
@given(tables, st.integers(0, 9))
def test_prompts_of_one_session_or_one_outcome_add_nothing(table: list[list[tuple[int, int]]], passes: int) -> None:
    k, n = counts(table)
    if not n.sum():
        return
    expected = numbers(gp.check_independence(k, n))
    zeros = [0] * (k.shape[1] - 1)
    for new_k, new_n in (([passes, *zeros], [9, *zeros]), ([0, *zeros], [4, 4, *zeros[1:]]), ([4, 4, *zeros[1:]],) * 2):
        more = gp.check_independence(np.vstack([k, new_k]), np.vstack([n, new_n]))
        assert numbers(more) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@quick
@given(tables)
def test_limits_hold(table: list[list[tuple[int, int]]]) -> None:
    k, n = counts(table)
    if not n.sum():
        return
    check = gp.check_independence(k, n)
    total = n.sum(axis=1)
    assert np.all(check.effective_rollouts <= total[total > 0] + 1e-9)
    assert np.all(check.effective_rollouts > 0)
    if check.correlation is not None:
        assert check.correlation <= 1 + 1e-9
    assert check.drift_inflation >= 1
    assert check.sentence.startswith(check.verdict.sentence)


# Simulation


def simulated(
    rng: np.random.Generator,
    prior: tuple[float, float],
    rollouts: tuple[int, ...],
    rho: float = 0.0,
    drift: float = 0.0,
) -> gp.IndependenceCheck:
    """150 prompts; pass rates of sessions are beta around the prompt's, or shifted in the last session."""
    p = rng.beta(*prior, size=(150, 1)) * np.ones(len(rollouts))
    if rho:
        p = rng.beta(p * (1 - rho) / rho + 1e-12, (1 - p) * (1 - rho) / rho + 1e-12)
    if drift:
        p[:, -1] = np.clip(p[:, -1] + drift, 0, 1)
    n = np.broadcast_to(rollouts, p.shape)
    return gp.check_independence(rng.binomial(n, p), n)


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("rollouts", [(4, 4), (1, 3, 8), (2, 2, 2, 2)], ids=str)
def test_false_alarms_keep_to_their_level(prior: tuple[float, float], rollouts: tuple[int, ...]) -> None:
    """Each test at 5 %: never more than 7 %, nor under 1.5 % (the tails err to the silent side)."""
    rng = np.random.default_rng(20)
    checks = [simulated(rng, prior, rollouts) for _ in range(2000)]
    for values in ([c.correlation_p for c in checks], [c.drift_p for c in checks]):
        share = np.mean([v is not None and v < 0.05 for v in values])
        assert 0.015 < share < 0.07  # 4 standard errors of 2,000 trials at 5 % are 2 points
    assert np.mean([c.verdict is not Verdict.INDEPENDENT for c in checks]) < 0.07
    covered = np.mean([c.low is not None and c.high is not None and c.low <= 0 <= c.high for c in checks])
    assert covered > 0.93


@pytest.mark.slow
def test_drift_test_keeps_its_level_where_rollouts_are_correlated() -> None:
    rng = np.random.default_rng(3)
    checks = [simulated(rng, PRIORS["U-shaped"], (8, 8), rho=0.3) for _ in range(1000)]
    alarms = sum(c.drift_p is not None and c.drift_p < 0.05 for c in checks)
    assert_rate(alarms, 1000, 0.05, catches=0.06)
    uncorrected = [(c.drift_chi2 or 0.0) * c.drift_inflation > 3.8415 for c in checks]
    assert np.mean(uncorrected) > 0.2  # without the inflation it would not


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_rho_is_found_without_bias_and_covered(rho: float) -> None:
    """Unbiased up to order 1/M; the test rejects and the interval covers."""
    rng = np.random.default_rng(4)
    checks = [simulated(rng, PRIORS["alike"], (4, 4, 8), rho=rho) for _ in range(1000)]
    assert_mean([c.correlation or 0.0 for c in checks], rho, catches=0.02)
    covered = np.mean([(c.low or 0.0) <= rho <= (c.high or 0.0) for c in checks])
    assert 0.92 < covered < 0.98
    power = np.mean([c.verdict is Verdict.CORRELATED for c in checks])
    assert power > (0.4 if rho < 0.1 else 0.93)


@pytest.mark.slow
def test_drift_is_found() -> None:
    rng = np.random.default_rng(5)
    checks = [simulated(rng, PRIORS["U-shaped"], (8, 8), drift=0.08) for _ in range(300)]
    assert np.mean([c.verdict is Verdict.DRIFTING for c in checks]) > 0.9
    shifts = [float(c.shifts[-1]) for c in checks]
    assert 0.05 < np.mean(shifts) < 0.08  # rates near 1 cannot rise by as much


def lists(rng: np.random.Generator, change: Callable[[Array], Array]) -> gp.SequenceCheck:
    p = rng.beta(0.35, 0.7, size=(150, 1)) * np.ones(8)
    return gp.check_sequences(change(rng.random((150, 8)) < p).astype(int).tolist())


@pytest.mark.slow
def test_lists_are_checked_for_repeats_and_drift() -> None:
    rng = np.random.default_rng(6)
    plain = [lists(rng, lambda x: x) for _ in range(1500)]
    assert_rate(sum((c.neighbour_p or 1.0) < 0.05 for c in plain), 1500, 0.05, catches=0.05)
    assert np.mean([c.verdict is not Verdict.INDEPENDENT for c in plain]) < 0.07

    def repeat_some(x: Array) -> Array:
        again = rng.random(x.shape) < 0.15
        again[:, 0] = False
        out = x.copy()
        for j in range(1, x.shape[1]):
            out[:, j] = np.where(again[:, j], out[:, j - 1], x[:, j])
        return out

    cached = [lists(rng, repeat_some) for _ in range(300)]
    assert np.mean([c.verdict is Verdict.CORRELATED for c in cached]) > 0.6
    late = [lists(rng, lambda x: x | ((rng.random(x.shape) < 0.12) & (np.arange(8) >= 4))) for _ in range(300)]
    assert np.mean([c.verdict is Verdict.DRIFTING for c in late]) > 0.8


def test_sorted_lists_and_few_prompts_are_named() -> None:
    assert gp.check_sequences([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]] * 12).verdict is Verdict.SORTED
    few = gp.check_independence([[1, 0]] * 5, 2)
    assert few.verdict is Verdict.TOO_FEW
    none = gp.check_independence([[2, 2], [0, 0]], 2)
    assert (none.correlation, none.drift_p, none.design_effect, none.effective_rollouts.tolist()) == (
        None,
        None,
        None,
        [4, 4],
    )
    single = gp.check_independence([[1, 0], [0, 1]] * 20, 1)  # no session holds two rollouts
    assert (single.correlation, single.drift_degrees) == (None, 1)
    assert single.verdict is Verdict.INDEPENDENT
    balanced = gp.check_independence([[2, 2]] * 40, 4)
    assert balanced.verdict is Verdict.REPELLED
    assert balanced.effective_rollouts.max() == 8


def test_missing_rewards_keep_the_order() -> None:
    plain, gaps = [[1, 0, 0, 1]] * 25, [[1, None, 0, 0, float("nan"), 1]] * 25
    assert gp.check_sequences(gaps).neighbour_p == gp.check_sequences(plain).neighbour_p


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gp.check_independence([[3, 0]], 2), "got k = 3 of n = 2 at prompt 0, session 0"),
        (lambda: gp.check_independence([1, 2], 2), "one shape"),
        (lambda: gp.check_independence([[0.5, 1]], 2), "whole numbers"),
        (lambda: gp.check_independence([[0, 0]], 0), "at least one rollout"),
        (lambda: gp.check_independence(np.zeros((1, 1001)), 1), "at most 1,000"),
        (lambda: gp.check_independence([[1, 1]], 2, names=["a"]), "one value a session"),
        (lambda: gp.check_independence([[1, 1]], 2, level=95), "Percentages"),
        (lambda: gp.check_sequences([[0.5, 1]]), "rewards must be 0 or 1; got 0.5 in list 0"),
        (lambda: gp.check_sequences([0, 1]), "one list"),  # type: ignore[list-item]
        (lambda: gp.check_sequences([]), "at least one reward"),
        (lambda: gp.duplicate_rollouts(["a"], []), "one length"),
        (lambda: gp.duplicate_rollouts(["a"], [3]), "text or None; got int at index 0"),  # type: ignore[list-item]
    ],
)
def test_errors_name_the_value_and_the_place(call: Callable[[], object], message: str) -> None:
    with pytest.raises(gp.DomainError, match=message):
        call()
