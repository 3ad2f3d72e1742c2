"""Advantage estimators at 0/1 rewards: every formula by enumeration, by SymPy and by simulation of scores (eq. 100 to 104)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.cli.plan import plan as plan_command
from grpo_plan.costs import Budget
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.estimators import ESTIMATORS, GroupMoments, get_estimator, parse_estimator, sign_threshold_kappa
from grpo_plan.estimators.moments import centred_weights, flat_weights, general_weights
from grpo_plan.fitting import PassRateFit
from grpo_plan.pilot import Pilot
from grpo_plan.planning import plan_group_size
from grpo_plan.planning.precision import _influence, _slope_in_mean
from grpo_plan.planning.sign_threshold import sign_threshold
from tests.helpers import outcomes

Floats = NDArray[np.float64]
p = sp.symbols("p", positive=True)
BUDGET = Budget(rollouts=2_000_000, steps=500)
ASKED = (*sorted(set(ESTIMATORS) - {"passk"}), "passk:2", "f_grpo:1", "w_reinforce:0.5")
EVERY = (*ASKED, "passk:3", "passk")
BATCH = {"grpo_batch", "gpg", "gdpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"}
MIX = (
    [sp.Rational(1, 20), sp.Rational(1, 3), sp.Rational(9, 10)],
    [sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)],
)
quick = settings(max_examples=40, deadline=None)


def by_definition(asked: str, rewards: Floats, population: Sequence[tuple[float, float]] = ()) -> Floats:
    """Advantages of 0/1 rewards, shape (N, G), straight from the words of each paper; no count of passes is used.

    ``population``: pass rates and weights of a large batch, for what is divided by or taken from the batch; else the
    batch is the rewards.
    """
    name, _, setting = asked.partition(":")
    g = rewards.shape[1]
    mean = rewards.mean(axis=1, keepdims=True)
    std = rewards.std(axis=1, keepdims=True)
    centred = rewards - mean

    def over(x: Floats, y: Any) -> Floats:
        out = np.zeros(np.broadcast_shapes(x.shape, np.shape(y)))
        np.divide(x, y, out=out, where=np.asarray(y) > 1e-12)
        return out

    standardised = over(centred, std)
    if population:
        m = sum(w * x for x, w in population)
        batch = {
            "grpo_batch": math.sqrt(m * (1 - m)),
            "gpg": m,
            "gdpo": math.sqrt(sum(w * (1 - x**g - (1 - x) ** g) for x, w in population)),
            "reinforce_plus_plus_baseline": math.sqrt(sum(w * x * (1 - x) for x, w in population) * (g - 1) / g),
            "reinforce_plus_plus": math.sqrt(m * (1 - m)),
        }
    else:
        m = float(rewards.mean())
        batch = {
            "grpo_batch": float(rewards.std()),
            "gpg": float((rewards != 0).mean()),
            "gdpo": float(standardised.std()),
            "reinforce_plus_plus_baseline": float(centred.std()),
            "reinforce_plus_plus": float(rewards.std()),
        }
    table: dict[str, Callable[[], Floats]] = {
        "grpo": lambda: standardised,
        "dapo": lambda: standardised,
        "grpo_sample": lambda: over(centred, rewards.std(axis=1, ddof=1, keepdims=True)),
        "dr_grpo": lambda: centred,
        "opo": lambda: centred,
        "rloo": lambda: rewards - (rewards.sum(axis=1, keepdims=True) - rewards) / (g - 1),
        "maxrl": lambda: over(centred, mean),
        "grpo_batch": lambda: over(centred, batch["grpo_batch"]),
        "gpg": lambda: over(centred, batch["gpg"]),
        "gdpo": lambda: over(standardised, batch["gdpo"]),
        "reinforce_plus_plus_baseline": lambda: over(centred, batch["reinforce_plus_plus_baseline"]),
        "reinforce_plus_plus": lambda: over(rewards - m, batch["reinforce_plus_plus"]),
        "f_grpo": lambda: standardised * (1 - mean) ** float(setting or 0.5),
        "reinforce": lambda: rewards,
        "sign": lambda: 2 * rewards - 1,
        "nsr": lambda: rewards - 1,
        "w_reinforce": lambda: np.where(rewards > 0, float(setting or 0.1), -1.0),
        "ngrpo": lambda: _virtual(rewards),
        "grpo_passk": lambda: _best_alone(rewards),
        "passk": lambda: _best_of(rewards, int(setting or 4)),
    }
    found: Floats = table[name]()
    return found


def _virtual(rewards: Floats) -> Floats:
    more = np.concatenate([rewards, np.ones((rewards.shape[0], 1))], axis=1)
    mean, std = more.mean(axis=1, keepdims=True), more.std(axis=1, ddof=1, keepdims=True)
    out = np.zeros_like(rewards)
    np.divide(rewards - mean, std, out=out, where=std > 1e-12)
    return out


def _best_alone(rewards: Floats) -> Floats:
    ordered = np.sort(rewards, axis=1)
    gap = (ordered[:, -1] - ordered[:, -2]) / np.maximum(rewards.std(axis=1, ddof=1), 1e-12)
    best = rewards.argmax(axis=1)
    return np.asarray(np.eye(rewards.shape[1])[best] * gap[:, None])


def _best_of(rewards: Floats, kept: int) -> Floats:
    """Each choice of K rollouts is one rollout of a larger task: standardise, and give each member its mean."""
    choices = np.array(list(combinations(range(rewards.shape[1]), kept)))
    best = rewards[:, choices].max(axis=2)
    std = best.std(axis=1, keepdims=True)
    worth = np.divide(best - best.mean(axis=1, keepdims=True), std, out=np.zeros_like(best), where=std > 1e-12)
    member = (choices[..., None] == np.arange(rewards.shape[1])).any(axis=1).astype(float)
    return np.asarray(worth @ member / member.sum(axis=0))


def law_of(rates: Sequence[Any], weights: Sequence[Any]) -> Any:
    def law(size: int) -> Floats:
        pairs = zip(rates, weights, strict=True)
        return np.asarray(sum(float(w) * binom.pmf(np.arange(size + 1), size, float(x)) for x, w in pairs))

    return law


def mixture_moments(given_rate: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """Means over MIX of three moments of one rate."""
    each = [given_rate(x) for x in MIX[0]]
    return [sum(w * row[i] for w, row in zip(MIX[1], each, strict=True)) for i in range(3)]


def twin(asked: str, g: int, mean: Any = None) -> Any:
    """The symbolic pair of an estimator as a function of k."""
    found = parse_estimator(asked)
    names = {"k": "kept"}
    given = {names.get(key, key): sp.nsimplify(value) for key, value in found.parameters.items()}
    if found.batch:
        given["mean_pass_rate"] = mean
    return lambda k: eq.advantage_pair(found.name, k, g, **given)


# --- eq. 103: the pairs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("g", [3, 4, 6])
@pytest.mark.parametrize("asked", EVERY)
def test_eq_103_the_pairs_are_the_advantages_of_every_reward_vector(asked: str, g: int) -> None:
    found = parse_estimator(asked)
    if g < found.min_group_size:
        with pytest.raises(DomainError, match=rf"needs groups of at least {found.min_group_size} rollouts.*got {g}\. "):
            found.pair(g)
        return
    vectors = np.array(list(outcomes(g)), dtype=float)  # as a batch its mean pass rate is 1/2
    expected = by_definition(asked, vectors)
    k = vectors.sum(axis=1).astype(int)
    passed, failed = found.in_batch(k, g)
    if asked == "grpo_passk":  # of several best rollouts the first stands for all: its advantage is 0
        expected = np.where(k[:, None] == 1, expected, 0.0)
    np.testing.assert_allclose(np.where(vectors > 0, passed[:, None], failed[:, None]), expected, atol=1e-12)
    half = sp.Rational(1, 2)
    exact = [twin(asked, g, half)(i) for i in range(g + 1)]
    np.testing.assert_allclose(np.array(exact, dtype=float).T, found.for_mean(0.5).pair(g), atol=1e-12)


@pytest.mark.parametrize("asked", EVERY)
def test_the_flags_say_what_the_pairs_do(asked: str) -> None:
    found = parse_estimator(asked)
    passed, failed = found.for_mean(0.3).pair(7)
    k = np.arange(8.0)
    sums = k * passed + (7 - k) * failed
    assert found.centred == bool(np.allclose(sums, 0.0) and not passed[-1] and not failed[0])
    assert found.flat == bool(np.ptp(passed[1:]) < 1e-12 and np.ptp(failed[:-1]) < 1e-12)
    assert found.batch == (asked == "reinforce_plus_plus")
    assert (found.scale_of is not None) == (asked in BATCH - {"reinforce_plus_plus"})
    assert found.description
    assert found.objective
    assert found.source


@quick
@given(st.integers(2, 6), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from(sorted(BATCH)))
def test_eq_102_a_batch_by_definition(g: int, groups: int, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    rewards = (rng.random((groups, g)) < rng.beta(0.4, 0.6, (groups, 1))).astype(float)
    passed, failed = get_estimator(name).in_batch(rewards.sum(axis=1), g)
    found = np.where(rewards > 0, passed[:, None], failed[:, None])
    np.testing.assert_allclose(found, by_definition(name, rewards), atol=1e-9)


@pytest.mark.parametrize("name", sorted(BATCH))
def test_a_batch_of_equal_rewards_has_no_advantage(name: str) -> None:
    for k in (0, 4):
        assert not np.any(get_estimator(name).in_batch([k, k], 4))


def test_virtual_best_as_published() -> None:
    passed, failed = get_estimator("ngrpo").pair(8)
    assert (round(passed[1], 2), round(failed[1], 2)) == (1.76, -0.50)
    before = get_estimator("grpo_sample").pair(8)
    assert (round(before[0][1], 2), round(before[1][1], 2)) == (2.47, -0.35)
    assert failed[0] == pytest.approx(-1 / 3)
    assert passed[8] == 0.0


@pytest.mark.parametrize("g", [2, 5, 9])
def test_settings_that_reduce_to_another(g: int) -> None:
    same = [("f_grpo:0", "grpo"), ("passk:1", "grpo"), ("w_reinforce:0", "nsr"), ("w_reinforce:1", "sign")]
    for one, other in same:
        np.testing.assert_allclose(get_estimator(one).pair(g), get_estimator(other).pair(g), atol=1e-12)


# --- eq. 100 and 101: moments of any pair ---------------------------------------------------------------------------


@pytest.mark.parametrize("g", [2, 3, 6])
def test_eq_100_raised_laws(g: int) -> None:
    for k in range(g + 1):
        law = [eq.binomial_pmf(k + i, g + 2, p) for i in range(3)]
        products = [(1 - p) ** 2, p * (1 - p), p**2]
        for factor, chance, power in zip(eq.raised_binomial(k, g), law, products, strict=True):
            assert sp.expand(factor * chance - power * eq.binomial_pmf(k, g, p)) == 0


@pytest.mark.parametrize("g", [2, 3])
def test_eq_100_signal_and_noise_by_enumeration(g: int) -> None:
    """Any pair, as symbols: along u the estimate is the sum of A (r - p)/G, and its noise has weight sum A^2/G^2."""
    up, down = sp.symbols(f"u0:{g + 1}"), sp.symbols(f"d0:{g + 1}")
    totals = [sp.Integer(0)] * 3
    for rewards in outcomes(g):
        k = sum(rewards)
        advantages = [up[k] if r else down[k] for r in rewards]
        chance = p**k * (1 - p) ** (g - k)
        t = sum(a * (r - p) for a, r in zip(advantages, rewards, strict=True)) / g
        assert sp.expand(t - eq.pair_signal(k, p, g, up[k], down[k])) == 0
        v = sum(a**2 for a in advantages) / sp.Integer(g) ** 2
        assert sp.expand(v - eq.pair_noise(k, g, up[k], down[k])) == 0
        totals = [a + chance * b for a, b in zip(totals, (t, t**2, v), strict=True)]
    found = eq.pair_moments(lambda k: (up[k], down[k]), p, g)
    assert all(sp.expand(a - b) == 0 for a, b in zip(totals, found, strict=True))


@pytest.mark.parametrize("g", [5, 8])
@pytest.mark.parametrize("asked", EVERY)
def test_eq_100_the_library_on_a_mixture(asked: str, g: int) -> None:
    mean = eq.mixture_mean(lambda x: x, *MIX)
    pair = twin(asked, g, mean)
    moments = parse_estimator(asked).moments(law_of(*MIX), g)
    exact = mixture_moments(lambda x: eq.pair_moments(pair, x, g))
    got = (moments.signal, moments.signal_square, moments.noise)
    assert got == pytest.approx([float(x) for x in exact], rel=1e-11)
    rates = np.array([float(x) for x in MIX[0]])
    each = parse_estimator(asked).for_mean(float(mean)).given(rates, g)
    assert [float(row @ [float(w) for w in MIX[1]]) for row in each] == pytest.approx(got, rel=1e-11)


@quick
@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_eq_100_any_pair_at_any_rate(g: int, seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    up, down = rng.normal(size=g + 1), rng.normal(size=g + 1)
    up[0] = down[g] = 0.0
    size, *weights = general_weights(up, down)
    k, law = np.arange(g + 1), binom.pmf(np.arange(g + 1), g, rate)
    t = (k * up * (1 - rate) - (g - k) * down * rate) / g
    v = (k * up**2 + (g - k) * down**2) / g**2
    raised = binom.pmf(np.arange(size + 1), size, rate)
    assert [float(raised @ w) for w in weights] == pytest.approx([law @ t, law @ t**2, law @ v], rel=1e-9, abs=1e-12)


@quick
@given(st.integers(2, 9), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.0, 1.0))
def test_eq_101_flat_is_a_case_of_any(g: int, up: float, down: float, rate: float) -> None:
    pair = (np.full(g + 1, up), np.full(g + 1, down))
    for size, *weights in (flat_weights(up, down, g), general_weights(*pair)):
        law = np.array([comb(size, k) * rate**k * (1.0 - rate) ** (size - k) for k in range(size + 1)])  # any float
        exact = [float(x) for x in eq.flat_moments(up, down, rate, g)]
        assert [float(law @ w) for w in weights] == pytest.approx(exact, rel=1e-9, abs=1e-12)


@quick
@given(st.integers(2, 9), st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_eq_24_centred_is_a_case_of_any(g: int, seed: int, rate: float) -> None:
    k = np.arange(g + 1.0)
    up = np.where((k > 0) & (k < g), np.random.default_rng(seed).normal(size=g + 1), 0.0)
    down = np.where(k < g, -k * up / np.maximum(g - k, 1), 0.0)
    found = []
    for size, *weights in (centred_weights(up, down), general_weights(up, down)):
        found.append([float(binom.pmf(np.arange(size + 1), size, rate) @ w) for w in weights])
    assert found[0] == pytest.approx(found[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("g", [2, 3, 5])
def test_eq_101_symbols(g: int) -> None:
    a, b = sp.symbols("a b")
    pairs = zip(eq.flat_moments(a, b, p, g), eq.pair_moments(lambda k: (a, b), p, g), strict=True)
    assert all(sp.expand(x - y) == 0 for x, y in pairs)
    sign = (eq.sign_signal_mean(p), eq.sign_signal_second_moment(p, g), sp.Rational(1, g))
    assert all(sp.expand(x - y) == 0 for x, y in zip(eq.flat_moments(1, -1, p, g), sign, strict=True))


@pytest.mark.parametrize("g", [2, 3, 5])
def test_eq_103_means_in_the_table(g: int) -> None:
    q, m = 1 - p, sp.Rational(2, 5)
    s2 = m * (1 - m)
    w = sp.Rational(1, 10)
    table: dict[str, tuple[Any, Any]] = {
        "reinforce": (p * q, p / g),
        "nsr": (p * q, q / g),
        "w_reinforce": ((1 + w) * p * q, (w**2 * p + q) / g),
        "reinforce_plus_plus": (p * q / sp.sqrt(s2), ((1 - m) ** 2 * p + m**2 * q) / (g * s2)),
        "grpo_passk": (sp.sqrt(g) * p * q**g, p * q ** (g - 1)),
        "opo": (p * q * (g - 1) / g, p * q * (g - 1) / sp.Integer(g) ** 2),
    }
    for name, means in table.items():
        signal, _, noise = eq.pair_moments(twin(name, g, m), p, g)
        assert sp.simplify(signal - means[0]) == 0, name
        assert sp.simplify(noise - means[1]) == 0, name
    assert sp.expand(eq.pair_moments(twin("f_grpo", g), p, g)[2] - q * (1 - q ** (g - 1)) / g) == 0

    def virtual(k: int) -> Any:
        return sp.Rational(k * (g - k) + (k + 1) ** 2, (k + 1) * g * (g + 1)) if k < g else 0

    noise = eq.pair_moments(twin("ngrpo", g), p, g)[2]
    assert sp.expand(noise - sum(eq.binomial_pmf(k, g, p) * virtual(k) for k in range(g + 1))) == 0


@pytest.mark.parametrize("g", [5, 7])
def test_eq_103_passk_means(g: int) -> None:
    for kept in (1, 2, 4):
        signal, _, noise = eq.pair_moments(twin(f"passk:{kept}", g), p, g)
        t = v = sp.Integer(0)
        for k in range(1, g - kept + 1):
            none = sp.binomial(g - k, kept) / sp.binomial(g, kept)
            t += eq.binomial_pmf(k, g, p) * k * sp.sqrt(none / (1 - none)) / g
            v += eq.binomial_pmf(k, g, p) * k * none / ((1 - none) * g * (g - k))
        assert sp.expand(signal - t) == 0
        assert sp.expand(noise - v) == 0


# --- eq. 102: the batch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [sp.Integer(0), sp.Rational(1, 5)])
@pytest.mark.parametrize("kappa", [0, 7])
def test_eq_102_slope_in_closed_form(kappa: int, rho: Any) -> None:
    g = 6
    mean = eq.mixture_mean(lambda x: x, *MIX)
    signal, square, noise = mixture_moments(lambda x: eq.flat_moments(1 - mean, -mean, x, g))
    gap = eq.mixture_mean(lambda x: x * (1 - x) ** 2, *MIX) - mean * eq.mixture_mean(lambda x: x * (1 - x), *MIX)
    variance = square + kappa * noise - rho * signal**2
    slope = eq.batch_slope(*MIX, g, kappa, rho)
    assert sp.simplify(slope - 2 * gap / (g * variance)) == 0
    law = law_of(*MIX)(4)
    got = _slope_in_mean(get_estimator("reinforce_plus_plus"), g, law, float(kappa), float(rho), float(mean))
    assert got == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("kappa", [0.0, 7.0])
@pytest.mark.parametrize(
    "asked", ["reinforce_plus_plus", "ngrpo", "w_reinforce", "passk:2", "reinforce_plus_plus_baseline"]
)
def test_eq_102_influence_is_the_derivative(example_fit: PassRateFit, asked: str, kappa: float) -> None:
    advantage, g, rho, step = get_estimator(asked), 6, 0.2, 1e-5
    rates = np.array([0.02, 0.4, 0.95])
    law = example_fit.group_pmf
    found = _influence(advantage, g, advantage.moments(law, g), kappa, rho, rates, law(advantage.law_size(g)))
    for rate, slope in zip(rates, found, strict=True):
        ends = []
        for mass in (step, -step):

            def mixed(size: int, mass: float = mass, rate: float = rate) -> Floats:
                return np.asarray((1 - mass) * law(size) + mass * binom.pmf(np.arange(size + 1), size, rate))

            m = advantage.moments(mixed, g)
            ends.append(np.log(m.signal**2 / (m.signal_square + kappa * m.noise - rho * m.signal**2)))
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4, abs=1e-5)


def test_eq_102_without_its_term_the_influence_is_wrong(example_fit: PassRateFit) -> None:
    advantage, g = get_estimator("reinforce_plus_plus"), 2
    law = example_fit.group_pmf
    rates = np.array([0.02, 0.95])
    with_term = _influence(advantage, g, advantage.moments(law, g), 0.0, 0.0, rates, law(4))
    mean = float(law(4) @ np.arange(5)) / 4
    fixed = _influence(advantage.for_mean(mean), g, advantage.moments(law, g), 0.0, 0.0, rates)
    assert np.abs(with_term - fixed).max() > 0.01


@pytest.mark.parametrize("asked", ["reinforce_plus_plus", "ngrpo", "passk:4", "grpo_passk", "reinforce"])
def test_plans_have_limits_for_every_kind(example_fit: PassRateFit, asked: str) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, estimator=asked, kappa=(1.0, 50.0), group_sizes=[8, 16])
    assert plan.estimator == parse_estimator(asked).label
    for planned in plan.frontier:
        low, high = plan.progress_limits(planned, 1.0)
        assert low - 1e-9 <= planned.progress_low <= high + 1e-9


# --- eq. 104: what a step ascends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("g", [2, 5])
@pytest.mark.parametrize("asked", ASKED)
def test_eq_104_the_expected_step_by_enumeration(asked: str, g: int) -> None:
    """Without the score model: the mean score is grad p / p after a pass and -grad p / q after a fail."""
    if g < parse_estimator(asked).min_group_size:
        return
    pair = twin(asked, g, sp.Rational(2, 5))
    rate = sp.Rational(3, 10)
    step = sp.Integer(0)
    for rewards in outcomes(g):
        k = sum(rewards)
        up, down = pair(k)
        chance = rate**k * (1 - rate) ** (g - k)
        step += chance * sum(up / rate if r else -down / (1 - rate) for r in rewards) / g
    exact = float(step)
    assert float(eq.pull(pair, rate, g)) == pytest.approx(exact, rel=1e-12)
    assert float(eq.pair_moments(pair, rate, g)[0] / (rate * (1 - rate))) == pytest.approx(exact, rel=1e-12)
    found = parse_estimator(asked).for_mean(0.4)
    assert found.pull(np.array([0.3]), g)[0] == pytest.approx(exact, rel=1e-11)
    parts = found.parts(np.array([0.3]), g)
    assert sum(float(x[0]) for x in parts) == pytest.approx(0.21 * exact, rel=1e-11)


@pytest.mark.parametrize("g", [2, 3, 6])
def test_eq_104_objectives_of_finite_groups(g: int) -> None:
    q, m = 1 - p, sp.Rational(2, 5)
    pass_at_g = 1 - q**g
    objectives: dict[str, Any] = {
        "rloo": p, "reinforce": p, "nsr": p, "sign": 2 * p, "w_reinforce": sp.Rational(11, 10) * p,
        "dr_grpo": p * sp.Rational(g - 1, g), "reinforce_plus_plus": p / sp.sqrt(m * (1 - m)),
        "maxrl": -sum(q**j / sp.Integer(j) for j in range(1, g)), "grpo_passk": pass_at_g / sp.sqrt(g),
    }  # fmt: skip
    for name, objective in objectives.items():
        assert sp.simplify(sp.diff(objective, p) - eq.pull(twin(name, g, m), p, g)) == 0, name
    rates = np.array([0.0, 0.2, 0.7, 1.0])
    sign = get_estimator("sign").parts(rates, g)
    pq = rates * (1 - rates)
    assert sign[0] == pytest.approx(pq * (1 - rates) ** (g - 1))  # grad of pass@G, over G
    assert sign[2] == pytest.approx(pq * rates ** (g - 1))
    assert sp.expand(sp.diff(pass_at_g, p) / g - q ** (g - 1)) == 0
    virtual = get_estimator("ngrpo").parts(rates, g)
    assert virtual[0] == pytest.approx(pq * (1 - rates) ** (g - 1) / (g + 1) ** 0.5)
    assert not virtual[2].any()
    for name in ("rloo", "grpo", "maxrl", "passk:1", "f_grpo"):
        none, _, nothing = get_estimator(name).parts(rates, g)
        assert not none.any()
        assert not nothing.any()


def test_eq_104_objectives_of_large_groups() -> None:
    rates, g = np.array([0.1, 0.4, 0.8]), 20_000
    q = 1 - rates
    limits = {
        "grpo": 1 / np.sqrt(rates * q), "ngrpo": 1 / np.sqrt(rates * q), "f_grpo": 1 / np.sqrt(rates),
        "f_grpo:1": np.sqrt(q / rates), "maxrl": 1 / rates,
        "passk:2": 1 / np.sqrt(1 - q**2), "passk:4": q / np.sqrt(1 - q**4),
    }  # fmt: skip
    for asked, slope in limits.items():
        np.testing.assert_allclose(get_estimator(asked).pull(rates, g), slope, rtol=2e-3, err_msg=asked)
    kept = sp.symbols("K", positive=True)
    passes = 1 - (1 - p) ** kept
    target = (1 - p) ** (kept / 2 - 1) / sp.sqrt(passes)
    derivative = sp.diff(2 * sp.asin(sp.sqrt(passes)) / kept, p)
    for k, x in ((2, 0.2), (4, 0.6), (7, 0.1)):
        assert float((derivative - target).subs({kept: k, p: x})) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("g", [2, 3, 4, 7])
def test_eq_104_identities(g: int) -> None:
    rewards = np.array(list(outcomes(g)), dtype=float)
    k = rewards.sum(axis=1).astype(int)
    assert get_estimator("grpo").signal(g)[k] == pytest.approx(rewards.std(axis=1))  # group-std identity
    assert sp.expand(eq.group_mean(lambda i: eq.signal("grpo", i, g), p, g) - eq.expected_group_std(p, g)) == 0
    dr, rloo = get_estimator("dr_grpo"), get_estimator("rloo")
    assert dr.pair(g)[0] == pytest.approx(rloo.pair(g)[0] * (g - 1) / g)
    assert dr.pair(g)[1] == pytest.approx(rloo.pair(g)[1] * (g - 1) / g)
    assert sp.expand(eq.mixed(p, 3) - sp.Rational(3, 2) * eq.mixed(p, 2)) == 0
    curve = sp.diff(p**g + (1 - p) ** g, p, 2)
    assert sp.expand(curve - g * (g - 1) * (p ** (g - 2) + (1 - p) ** (g - 2))) == 0
    if g > 2:
        mixture = eq.mixture_mean(lambda x: eq.dead(x, g), *MIX)
        assert mixture > eq.dead(eq.mixture_mean(lambda x: x, *MIX), g)


# --- eq. 104: sign against mean-centred ------------------------------------------------------------------------------


def worth(m: GroupMoments, kappa: float, rho: float) -> float:
    return m.signal**2 / (m.signal_square + kappa * m.noise - rho * m.signal**2)


@pytest.mark.parametrize("g", [2, 3, 4, 8, 17])
def test_eq_104_lead_is_the_difference_of_the_two(g: int) -> None:
    mu, sigma, kappa, rho = sp.symbols("mu sigma kappa rho", positive=True)
    sign = (4 * sigma + (mu - 4 * sigma) / g + kappa / g) / (4 * mu**2)
    rloo = (sigma * sp.Rational((g - 2) * (g - 3), g * (g - 1)) + mu / g + kappa * mu / (g - 1)) / mu**2
    assert sp.expand(4 * g * mu**2 * (rloo - sign) - eq.sign_lead(mu, sigma, kappa, g)) == 0
    inverse = [sp.simplify(1 / (1 / (r - rho))) + rho for r in (sign, rloo)]
    assert sp.simplify(inverse[1] - inverse[0] - (rloo - sign)) == 0


@quick
@given(
    st.lists(st.tuples(st.floats(0.001, 0.999), st.floats(0.05, 1.0)), min_size=1, max_size=4),
    st.integers(2, 64),
    st.floats(0.0, 0.9),
)
def test_eq_104_the_threshold_is_where_the_order_turns(prompts: list[tuple[float, float]], g: int, rho: float) -> None:
    rates, weights = zip(*prompts, strict=True)
    law = law_of(rates, np.array(weights) / sum(weights))
    sign, rloo = (get_estimator(name).moments(law, g) for name in ("sign", "rloo"))
    threshold = sign_threshold_kappa(law, g)
    assert threshold > 0.0
    pq = sum(w * x * (1 - x) for x, w in prompts) / sum(weights)
    if math.isinf(threshold):
        assert 4 * pq * g / (g - 1) >= 1 - 1e-9
        assert worth(sign, 1e9, rho) > worth(rloo, 1e9, rho) * (1 - 1e-9)
        return
    exact = [
        eq.mixture_mean(f, rates, np.array(weights) / sum(weights))
        for f in (lambda x: x * (1 - x), lambda x: (x * (1 - x)) ** 2)
    ]
    assert threshold == pytest.approx(float(eq.sign_threshold_kappa(exact[0], exact[1], g)), rel=1e-6)
    for factor, first in ((0.99, True), (1.01, False)):
        kappa = threshold * factor
        if threshold < 1e6:
            assert (worth(sign, kappa, rho) > worth(rloo, kappa, rho)) == first


@pytest.mark.parametrize("g", [2, 4, 16])
def test_eq_104_without_score_noise_sign_wins(g: int) -> None:
    for rate in (0.001, 0.02, 0.3, 0.5, 0.99):
        law = law_of([rate], [1.0])
        sign, rloo = (get_estimator(name).moments(law, g) for name in ("sign", "rloo"))
        assert worth(sign, 0.0, 0.0) > worth(rloo, 0.0, 0.0)
        assert sign_threshold_kappa(law, g) >= 2 * rate * (1 - rate) / (g - 1)
    hard = law_of([1e-4], [1.0])
    sign, rloo = (get_estimator(name).moments(hard, g) for name in ("sign", "rloo"))
    assert worth(rloo, 0.0, 0.0) / worth(sign, 0.0, 0.0) == pytest.approx(0.25, rel=0.02)
    assert sign_threshold_kappa(hard, g) == pytest.approx(3e-4, rel=0.01)


def test_eq_104_against_the_measured_testbed() -> None:
    """Sign's NSR over that of mean-centred at G = 4, measured: 8.3 / 4.9 on mixed prompts, 161 / 15.2 on hard ones."""
    for pq, ppqq, kappa, threshold, ratio, measured in (
        (0.109, 0.0195, 0.87, 0.35, 1.2, 8.3 / 4.9),
        (0.023, 0.0012, 1.42, 0.07, 5.4, 161 / 15.2),
    ):
        assert float(eq.sign_threshold_kappa(pq, ppqq, 4)) == pytest.approx(threshold, abs=0.005)
        assert kappa > float(eq.sign_threshold_kappa(pq, ppqq, 4))  # sign should lose, and did
        sign = 4 * ppqq * 3 + pq + kappa
        rloo = 4 * ppqq * 2 / 3 + 4 * pq + 4 * kappa * pq * 4 / 3
        assert sign / rloo == pytest.approx(ratio, abs=0.05)
        assert sign / rloo > 1.0
        assert measured > 1.0


def test_sign_threshold_of_a_pilot(example_fit: PassRateFit) -> None:
    found = sign_threshold(example_fit, 8)
    assert found.kappa == pytest.approx(sign_threshold_kappa(example_fit, 8))
    assert 0.0 < found.low < found.kappa < found.high < 1.0
    wider = sign_threshold(example_fit, 8, level=0.999)
    assert wider.low < found.low < found.high < wider.high
    assert found.better((1.0, 300.0)) == "rloo"
    assert found.better((1e-6, 1e-3)) == "sign"
    assert found.better((1e-6, 300.0)) is None


def test_sign_threshold_at_the_corners() -> None:
    half = gp.fit_pass_rates(Pilot.from_counts([4] * 50, 8))
    assert math.isinf(sign_threshold_kappa(law_of([0.5], [1.0]), 4))
    assert sign_threshold(half, 2).kappa == math.inf
    dead = gp.fit_pass_rates(Pilot.from_counts([0] * 60, 8))
    found = sign_threshold(dead, 4)
    assert (found.low, found.kappa) == (0.0, 0.0)
    assert found.better(0.5) in ("rloo", None)
    with pytest.raises(DomainError, match="group_size must be at least 2; got 1"):
        sign_threshold(half, 1)


# --- simulation of scores --------------------------------------------------------------------------------------------

CASES = (
    (4, ((0.1, 1.0),)),
    (3, ((0.5, 1.0),)),
    (8, ((0.05, 0.6), (0.6, 0.4))),
    (5, ((0.75, 1.0),)),
    (16, ((0.02, 0.5), (0.3, 0.3), (0.97, 0.2))),
)
GROUPS, DIMENSIONS, KAPPA, SLOPE = 24_000, 3, 2.5, 1.7


def simulated(g: int, population: tuple[tuple[float, float], ...], seed: int) -> tuple[Floats, Floats, Floats]:
    """Rewards (N, G), scores (N, G, 1 + d) with grad p along the first axis, and pass rates (N, 1)."""
    rng = np.random.default_rng([seed, g])
    rates, weights = zip(*population, strict=True)
    rate = rng.choice(rates, GROUPS, p=weights)[:, None]
    rewards = (rng.random((GROUPS, g)) < rate).astype(float)
    noise = SLOPE * math.sqrt(KAPPA / (1 + DIMENSIONS))  # S^2 = kappa h^2, spread over all axes
    scores = rng.normal(0.0, noise, (GROUPS, g, 1 + DIMENSIONS))
    gradient = SLOPE * rate * (1 - rate)  # |grad p| = h p q
    scores[..., 0] += (rewards - rate) / (rate * (1 - rate)) * gradient
    return rewards, scores, rate


def z_scores(
    asked: str, g: int, population: tuple[tuple[float, float], ...], made: tuple[Floats, Floats, Floats]
) -> list[float]:
    """Of the estimate along grad p, of its square off it, and of its whole square."""
    rewards, scores, _ = made
    advantages = by_definition(asked, rewards, population)
    if asked == "grpo_passk":
        advantages = np.where(rewards.sum(axis=1, keepdims=True) == 1, advantages, 0.0)
    estimate = np.einsum("ng,ngd->nd", advantages, scores) / g / SLOPE
    law = law_of(*zip(*population, strict=True))
    found = get_estimator(asked)
    moments = found.moments(law, g)
    scale = 1.0 if found.scale_of is None else found.scale_of(law(g), g)
    off = KAPPA * moments.noise / scale**2 * DIMENSIONS / (1 + DIMENSIONS)
    whole = (moments.signal_square + KAPPA * moments.noise) / scale**2
    checks = (
        (estimate[:, 0], moments.signal / scale),
        ((estimate[:, 1:] ** 2).sum(axis=1), off),
        ((estimate**2).sum(axis=1), whole),
    )
    return [float((x.mean() - expected) / (x.std(ddof=1) / math.sqrt(x.size))) for x, expected in checks]


def test_signal_and_noise_of_every_estimator_by_simulation() -> None:
    """24,000 groups of real score vectors each: 22 estimators x 5 x 3 checks; one |z| above 4 has chance 0.02 in all."""
    worst: dict[str, float] = {}
    for g, population in CASES:
        made = simulated(g, population, seed=1)
        for asked in ASKED:
            for z in z_scores(asked, g, population, made):
                worst[asked] = max(worst.get(asked, 0.0), abs(z))
    assert set(worst) == set(ASKED)
    assert max(worst.values()) <= 4.0, worst
    assert max(worst.values()) >= 1.5  # the checks are not void


def test_the_simulation_tells_estimators_apart() -> None:
    """A negative control: one estimator's advantages against another's closed form."""
    g, population = CASES[2]
    made = simulated(g, population, seed=1)
    rewards, scores, _ = made
    estimate = np.einsum("ng,ngd->nd", by_definition("rloo", rewards), scores)[:, 0] / g / SLOPE
    law = law_of(*zip(*population, strict=True))
    z = (estimate.mean() - get_estimator("dr_grpo").moments(law, g).signal) / (estimate.std() / math.sqrt(GROUPS))
    assert abs(z) > 6.0


def test_eq_104_the_order_by_simulation() -> None:
    """Which step is less noisy, from gradients: sign below its threshold, rloo above; 12 standard errors or more apart."""
    g, rate, groups = 4, 0.1, 40_000
    threshold = sign_threshold_kappa(law_of([rate], [1.0]), g)
    for kappa, better in ((threshold / 8, "sign"), (threshold * 8, "rloo")):
        rng = np.random.default_rng([7, int(kappa * 1e6)])
        rewards = (rng.random((groups, g)) < rate).astype(float)
        scores = rng.normal(0.0, math.sqrt(kappa / 3), (groups, g, 3))
        scores[..., 0] += rewards - rate
        ratio = {}
        for name in ("sign", "rloo"):
            estimate = np.einsum("ng,ngd->nd", by_definition(name, rewards), scores) / g
            ratio[name] = float((estimate**2).sum(axis=1).mean() / estimate[:, 0].mean() ** 2)
        assert min(ratio, key=lambda name: ratio[name]) == better


# --- names and settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [*EVERY, "passk:k=6", "f_grpo:gamma=0.25", "w_reinforce:positive_weight=2"])
def test_labels_are_read_back(asked: str) -> None:
    found = parse_estimator(asked)
    again = parse_estimator(found.label)
    assert (again.name, dict(again.parameters), again.label) == (found.name, dict(found.parameters), found.label)
    assert found.for_mean(0.4).label == found.label


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("ppo", r"estimator must be one of grpo, .*; got 'ppo'\."),
        ("", "estimator must be one of"),
        (None, "estimator must be one of"),
        (["grpo"], "estimator must be one of"),
        ("passk:", r"settings of passk must be setting=number, e\.g\. passk:k=4; got ''"),
        ("passk:x", "got 'x'"),
        ("passk:0", "passk: k must be at least 1; got 0"),
        ("passk:2.5", "passk: k must be a whole number"),
        ("passk:nan", "passk: k must be a whole number"),
        ("passk:inf", "passk: k must be a whole number"),
        ("passk:-1", "k must be at least 1"),
        ("f_grpo:-1", "f_grpo: gamma must be finite and at least 0"),
        ("f_grpo:inf", "gamma must be finite"),
        ("f_grpo:nan", "gamma must be finite"),
        ("f_grpo:alpha=1", r"f_grpo: 'alpha' is none of its settings \(gamma\)"),
        ("f_grpo:gamma=1,gamma=2", "'gamma' is given twice"),
        ("grpo:2", "grpo has no settings behind a colon; got .2.. Write it as grpo"),
        ("grpo:std=2", "grpo has no settings behind a colon; got .std=2."),
        ("reinforce_plus_plus:mean_pass_rate=.5", "has no settings behind a colon"),
    ],
)
def test_bad_names_are_refused_in_one_line(asked: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message) as refused:
        parse_estimator(asked)
    assert "\n" not in str(refused.value)


def test_bad_use_is_refused() -> None:
    with pytest.raises(DomainError, match="reinforce_plus_plus needs the mean pass rate of the batch"):
        get_estimator("reinforce_plus_plus").pair(4)
    with pytest.raises(DomainError, match=r"passes must be whole numbers from 0 to 4"):
        get_estimator("grpo").in_batch([5], 4)
    for bad in ([], [1.5], [math.nan], [[1, 2]]):
        with pytest.raises(DomainError, match="passes must be whole numbers"):
            get_estimator("grpo").in_batch(bad, 4)
    with pytest.raises(DomainError, match="group_size must be at least 2; got 1"):
        get_estimator("ngrpo").pair(1)
    with pytest.raises(DomainError, match="pass_rates must lie in"):
        get_estimator("ngrpo").pull(np.array([1.5]), 4)


def test_planning_with_settings(example_fit: PassRateFit) -> None:
    plan = plan_group_size(example_fit, budget=BUDGET, estimator="passk:4", kappa=10.0)
    assert plan.estimator == "passk:k=4"
    assert min(x.design.group_size for x in plan.frontier) == 5
    with pytest.raises(DomainError, match="passk needs groups of at least 5 rollouts, one more than its k; got 4"):
        plan_group_size(example_fit, budget=BUDGET, estimator="passk", group_sizes=[4, 8])
    with pytest.raises(InfeasiblePlanError, match="the estimator needs at least 601"):
        plan_group_size(example_fit, budget=BUDGET, estimator="passk:600")


def test_the_help_names_every_estimator() -> None:
    text = str(plan_command.__annotations__["estimator"])
    assert all(name in text for name in ESTIMATORS)


DESIGN = gp.Design(group_size=8, prompts_per_step=64, steps=100)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("dapo", "DAPO is grpo with dead groups filtered out: use grpo and --refill."),
        ("gdpo", "grpo has the same plan: use it."),
        ("opo", "dr_grpo has the same plan: use it."),
        ("ngrpo", "Use grpo, dr_grpo, rloo, grpo_batch."),
        ("passk:k=8", "Use grpo, dr_grpo, rloo, grpo_batch."),
        ("reinforce_plus_plus_baseline", "grpo_batch has the same plan: use it."),
    ],
)
def test_trainers_refuse_what_they_lack_in_one_line(name: str, advice: str) -> None:
    with pytest.raises(DomainError) as refused:
        gp.emit(DESIGN, trainer="trl", estimator=name)
    assert str(refused.value) == f"TRL blocks cannot ask for the estimator {name!r}. {advice}"


def test_exact_fractions_of_one_group() -> None:
    """(1, 0, 0, 0) by hand."""
    values = {
        name: tuple(float(x[1]) for x in get_estimator(name).for_mean(0.25).pair(4))
        for name in ESTIMATORS
        if name != "passk"
    }
    third = 1 / math.sqrt(3)
    assert values["grpo"] == pytest.approx((math.sqrt(3), -third))
    assert values["grpo_sample"] == pytest.approx((1.5, -0.5))
    assert values["dr_grpo"] == pytest.approx((0.75, -0.25))
    assert values["rloo"] == pytest.approx((1.0, -1 / 3))
    assert values["maxrl"] == pytest.approx((3.0, -1.0))
    assert values["f_grpo"] == pytest.approx((1.5, -0.5))
    assert values["reinforce_plus_plus"] == pytest.approx((math.sqrt(3), -third))
    assert values["ngrpo"] == pytest.approx((math.sqrt(4 * 3 / (5 * 2)), -math.sqrt(4 * 2 / (5 * 3))))
    assert values["grpo_passk"] == (2.0, 0.0)
    half = Fraction(1, 2)
    assert get_estimator("passk:2").pair(4)[0][1] == pytest.approx(float(half) / 0.5)  # 3 of 6 pairs hold no pass
