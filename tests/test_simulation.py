"""Simulated learning: exact identities, Monte Carlo against closed forms, seeds, controls and degenerate cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan import symbolic
from grpo_plan.estimators import ESTIMATORS, get_estimator
from grpo_plan.passrates import BetaPassRates, DiscretePassRates
from grpo_plan.simulation import Curriculum, SimulatedPolicy, SimulatedTraining, compare_simulations, simulate
from grpo_plan.simulation.comparison import Verdict
from grpo_plan.simulation.drawing import Sampler, Streams, shuffled_rewards
from grpo_plan.simulation.moments import (
    cosine,
    expected_step,
    passes_law,
    prompt_moments,
    step_moments,
    true_gradient,
)
from grpo_plan.simulation.optimizers import Optimizer
from grpo_plan.simulation.pairs import pairs_of
from grpo_plan.simulation.policy import (
    Parameters,
    group_noise,
    group_signal,
    moved,
    sigmoid,
    weighted_gradient,
)
from grpo_plan.simulation.prompts import PromptSet, as_rates, draw_prompts, logit
from grpo_plan.simulation.recorder import divergence
from grpo_plan.simulation.result import seed_mean
from grpo_plan.simulation.step import draw_groups, estimate
from tests.helpers import assert_mean, enumerated

Floats = NDArray[np.float64]
RATES = [0.02, 0.1, 0.3, 0.5, 0.9]
SHORT = SimulatedTraining(steps=20, rollouts_per_step=64, learning_rate=0.3)
SMALL = SimulatedPolicy(prompts=60, held_out=40, dimension=8)
HARD = BetaPassRates.from_shape(0.19, 0.5)


def some_policy(
    rates: list[float], *, moved_by: float = 0.3, **options: Any
) -> tuple[PromptSet, Parameters, SimulatedPolicy]:
    """Prompts with these starting rates and parameters away from 0."""
    model = SimulatedPolicy(dimension=6, held_out=1, coherence=0.3, **options)
    rng = np.random.default_rng(5)
    train, _ = draw_prompts(rates, as_rates(rates), model, rng)
    parameters = Parameters(
        shared=moved_by * rng.standard_normal(6),
        private=moved_by * rng.standard_normal(len(rates)),
        nuisance=moved_by * rng.standard_normal(6),
    )
    return train, parameters, model


def rates_of(train: PromptSet, parameters: Parameters, model: SimulatedPolicy) -> tuple[Floats, Floats]:
    return sigmoid(train.start + moved(train, parameters, model))


# --- the policy ---------------------------------------------------------------------------------------------------


def test_logit_equals_its_symbolic_form_and_its_gradient_has_length_one() -> None:
    train, parameters, model = some_policy(RATES, damage=0.5, shared=0.3)
    change = moved(train, parameters, model)
    for i, start in enumerate(train.start):
        expected = symbolic.simulated_logit(
            start, 0.3, train.features[i].tolist(), parameters.shared.tolist(), parameters.private[i], 0.5,
            parameters.nuisance.tolist(),
        )  # fmt: skip
        assert start + change[i] == pytest.approx(float(expected), rel=1e-12)
    s, b = sp.symbols("s b", positive=True)
    x, w, u, v = sp.symbols("x:2"), sp.symbols("w:2"), sp.Symbol("u"), sp.symbols("v:2")
    z = symbolic.simulated_logit(0, s, x, w, u, b, v)
    square = sum(sp.diff(z, q) ** 2 for q in (*w, u, *v)).subs(x[1], sp.sqrt(1 - x[0] ** 2))
    assert sp.simplify(square - 1 - b**2 * (v[0] ** 2 + v[1] ** 2)) == 0


def test_weighted_gradient_is_the_derivative_of_the_logits() -> None:
    train, parameters, model = some_policy(RATES, damage=0.7)
    weights = np.array([0.5, -1.0, 0.0, 2.0, 0.3])
    gradient = weighted_gradient(train, parameters, model, weights)
    for part, own in zip(parameters.parts(), gradient.parts(), strict=True):
        for i in range(part.size):
            held, step = part[i], 1e-6
            part[i] = held + step
            up = weights @ moved(train, parameters, model)
            part[i] = held - step
            down = weights @ moved(train, parameters, model)
            part[i] = held
            assert own[i] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_prompts_that_occur_twice_count_twice() -> None:
    train, parameters, model = some_policy(RATES)
    rows = np.array([1, 3, 1])
    twice = weighted_gradient(train, parameters, model, np.array([1.0, 2.0, 3.0]), rows)
    once = weighted_gradient(train, parameters, model, np.array([0.0, 4.0, 0.0, 2.0, 0.0]))
    for a, b in zip(twice.parts(), once.parts(), strict=True):
        np.testing.assert_allclose(a, b)


def test_directions_are_unit_vectors_of_the_coherence_that_was_asked_for() -> None:
    for coherence in (0.0, 0.25, 1.0):
        model = SimulatedPolicy(prompts=400, held_out=400, dimension=32, coherence=coherence)
        train, held = draw_prompts(HARD, HARD, model, np.random.default_rng(1))
        assert np.linalg.norm(train.features, axis=1) == pytest.approx(1.0)
        inner = (train.features @ held.features.T).mean()
        assert inner == pytest.approx(coherence, abs=5 * (1 - coherence) / 400 / 31**0.5 + 5e-3)


@given(z=st.floats(-700.0, 700.0))
def test_sigmoid_keeps_the_digits_of_both_sides(z: float) -> None:
    p, q = sigmoid(np.array([z]))
    assert p[0] == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-12)
    assert q[0] == pytest.approx(1 / (1 + np.exp(z)), rel=1e-12)
    assert logit(p, q)[0] == pytest.approx(z, rel=1e-9, abs=1e-12)


# --- one group ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("more", [0, 1, 3])
def test_moments_of_a_prompt_by_enumeration_of_all_reward_tuples(name: str, more: int) -> None:
    p, size = sp.Rational(1, 5), get_estimator(name).min_group_size + more
    plus, minus = pairs_of(name).table(size, 0.2)

    def estimate_of(rewards: tuple[int, ...]) -> tuple[Any, Any]:
        k = sum(rewards)
        advantages = [plus[k] if r else minus[k] for r in rewards]
        t = sum(a * (r - float(p)) for a, r in zip(advantages, rewards, strict=True)) / size
        return t, sum(a**2 for a in advantages) / size**2

    moments = prompt_moments(np.array([0.2]), np.array([0.8]), (plus, minus))
    for got, value in (
        (moments.signal, lambda r: estimate_of(r)[0]),
        (moments.signal_square, lambda r: estimate_of(r)[0] ** 2),
        (moments.noise, lambda r: estimate_of(r)[1]),
    ):
        assert got[0] == pytest.approx(float(enumerated(value, p, size)), rel=1e-10, abs=1e-14)
    contrast = symbolic.expected_contrast([float(x) for x in plus], [float(x) for x in minus], p)
    assert moments.signal[0] == pytest.approx(0.16 * float(contrast), rel=1e-10, abs=1e-14)


def test_group_signal_and_noise_equal_their_symbolic_forms() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        kept, more, others = rng.integers(0, 4, 3)
        rewarded, passes, size = kept + more, kept + others, kept + more + others + 2
        plus, minus, p = rng.normal(size=3)
        pair = (np.array([plus]), np.array([minus]))
        got = group_signal(np.array([kept]), np.array([rewarded]), np.array([passes]), int(size), pair, np.array([p]))
        wanted = symbolic.simulated_signal(int(kept), int(rewarded), int(passes), int(size), plus, minus, p)
        assert got[0] == pytest.approx(float(wanted), rel=1e-12)
        noise = group_noise(np.array([rewarded]), int(size), pair)[0]
        assert noise == pytest.approx(float(symbolic.simulated_noise(int(rewarded), int(size), plus, minus)))


def test_centred_estimators_give_the_signal_of_theory() -> None:
    for name in ("grpo", "dr_grpo", "rloo", "maxrl"):
        k = np.arange(9)
        table = pairs_of(name).table(8, 0.5)
        t = group_signal(k, k, k, 8, table, np.full(9, 0.37))
        np.testing.assert_allclose(t, get_estimator(name).signal(8), atol=1e-12)
        np.testing.assert_allclose(group_noise(k, 8, table), get_estimator(name).noise(8), atol=1e-12)


@given(p=st.floats(0.0, 1.0), size=st.integers(2, 40))
def test_law_of_passes_sums_to_one(p: float, size: int) -> None:
    law = passes_law(np.array([p]), np.array([1.0 - p]), size)
    assert law.sum() == pytest.approx(1.0, rel=1e-10)
    assert law @ np.arange(size + 1) == pytest.approx(size * p, rel=1e-9, abs=1e-12)


# --- a step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "factor"), [("rloo", 1.0), ("sign", 2.0), ("dr_grpo", 3 / 4)])
def test_expected_step_is_the_gradient_of_the_mean_pass_rate(name: str, factor: float) -> None:
    train, parameters, model = some_policy(RATES, damage=0.2)
    p, q = rates_of(train, parameters, model)
    step = expected_step(train, parameters, model, prompt_moments(p, q, pairs_of(name).table(4, 0.5)))
    for part, own in zip(parameters.parts(), step.parts(), strict=True):
        for i in range(part.size):  # finite differences of exact J
            held, reach = part[i], 1e-5
            part[i] = held + reach
            up = rates_of(train, parameters, model)[0].mean()
            part[i] = held - reach
            down = rates_of(train, parameters, model)[0].mean()
            part[i] = held
            assert own[i] == pytest.approx(factor * (up - down) / (2 * reach), abs=1e-9)
    assert cosine(step, true_gradient(train, parameters, model, p, q)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_advantages_in_a_batch_are_those_of_the_registry(name: str) -> None:
    estimator, pairs = get_estimator(name), pairs_of(name)
    size = estimator.min_group_size + 2
    for passes in (np.arange(size + 1), np.array([1, 1, size]), np.array([2])):
        mixed = (passes > 0) & (passes < size)
        for got, wanted in zip(pairs.batch(passes, size), estimator.in_batch(passes.astype(float), size), strict=True):
            np.testing.assert_allclose(got[mixed], wanted[mixed], rtol=1e-12)
    for passes in (np.zeros(3, dtype=np.int64), np.full(3, size)):  # no spread in the whole batch
        assert all(np.isfinite(x).all() for x in pairs.batch(passes, size))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_of_the_registry_learns_without_a_nan(name: str) -> None:
    training = replace(SHORT, group_size=8, steps=10, kl_coefficient=0.1)
    for source in (HARD, [0.0, 0.0], [1.0]):
        run = simulate(source, estimator=name, training=training, model=SMALL, seeds=1)
        assert np.isfinite(run.train).all()
        assert np.isfinite(run.gradient_norm[:, 1:]).all()


def test_estimators_of_one_contrast_have_one_expected_step() -> None:
    train, parameters, model = some_policy(RATES)
    p, q = rates_of(train, parameters, model)
    rloo = pairs_of("rloo").table(6, 0.5)
    shifted = rloo[0] + np.concatenate([[0.0], np.arange(6.0)]), rloo[1] + np.concatenate([np.arange(6.0), [0.0]])
    a, b = (prompt_moments(p, q, table) for table in (rloo, shifted))
    np.testing.assert_allclose(a.signal, b.signal, rtol=1e-10)
    assert (b.noise > a.noise).all()


def test_noise_to_signal_equals_the_symbolic_sum_and_becomes_that_of_many_prompts() -> None:
    train, parameters, model = some_policy(RATES, kappa=3.0, damage=0.4, shared=0.6)
    p, q = rates_of(train, parameters, model)
    table = pairs_of("sign").table(4, 0.5)
    m = prompt_moments(p, q, table)
    unit = np.eye(5)
    single = [weighted_gradient(train, parameters, model, row) for row in unit]
    gram = [[a.dot(b) for b in single] for a in single]
    square, variance = symbolic.finite_step_moments(
        m.signal.tolist(), m.signal_square.tolist(), m.noise.tolist(), gram, 3.0, 7
    )
    found = step_moments(train, parameters, model, p, q, table, 7)
    assert (found.mean_square, found.variance) == pytest.approx((float(square), float(variance)), rel=1e-10)

    big = SimulatedPolicy(prompts=20_000, held_out=1, dimension=16, kappa=2.0, coherence=0.2, shared=0.5)
    train, _ = draw_prompts(HARD, HARD, big, np.random.default_rng(0))
    p, q = sigmoid(train.start)
    table = pairs_of("rloo").table(8, 0.5)
    own = step_moments(train, Parameters.zeros(big, 20_000), big, p, q, table, 64)
    m = prompt_moments(p, q, table)
    t, rho = float(m.signal.mean()), big.gradient_coherence
    closed = (m.signal_square.mean() + 2.0 * m.noise.mean() - rho * t**2) / (64 * rho * t**2)
    assert own.noise_to_signal == pytest.approx(closed, rel=0.02)


@pytest.mark.parametrize("name", ["rloo", "grpo", "sign"])
@pytest.mark.parametrize("harmful", [0.0, 1.0])
def test_simulated_steps_have_the_mean_and_the_noise_of_the_closed_forms(name: str, harmful: float) -> None:
    """Means of 1,500 steps within five standard errors: a false alarm in 6e-7 of such checks."""
    damage = 0.3 if name == "rloo" else 0.0
    train, parameters, model = some_policy(RATES, kappa=4.0, harmful=harmful, damage=damage)
    p, q = rates_of(train, parameters, model)
    pairs, streams = pairs_of(name), Streams(11)
    sampler = Sampler("uniform", 5, streams)
    truth = step_moments(train, parameters, model, p, q, pairs.table(4, 0.5), 3)
    expected = expected_step(train, parameters, model, prompt_moments(p, q, pairs.table(4, 0.5)))
    along, squares, nuisance = [], [], []
    for step in range(1500):
        groups = draw_groups(train, parameters, model, sampler, streams, step=step, turn=0, count=3, group_size=4)
        g = estimate(train, parameters, model, pairs, groups, 4, streams, step=step)
        along.append(g.dot(expected))
        squares.append(g.dot(g))
        nuisance.append(float(g.nuisance @ g.nuisance))
    assert_mean(along, truth.mean_square, catches=0.2 * truth.mean_square + 0.02)
    total = truth.mean_square + truth.variance
    assert_mean(squares, total, catches=0.3 * total)
    share = 4.0 * (1.0 - harmful) * float(prompt_moments(p, q, pairs.table(4, 0.5)).noise.mean()) / 3
    if harmful == 1.0 and not damage:
        assert max(nuisance) == 0.0
    elif not damage:
        assert_mean(nuisance, share, catches=0.3 * share)


def test_that_check_has_teeth() -> None:
    """Half the score noise is outside what the Monte Carlo would let pass."""
    train, parameters, model = some_policy(RATES, kappa=4.0)
    p, q = rates_of(train, parameters, model)
    table = pairs_of("rloo").table(4, 0.5)
    right = step_moments(train, parameters, model, p, q, table, 3)
    wrong = step_moments(train, parameters, replace(model, kappa=2.0), p, q, table, 3)
    assert wrong.variance < 0.7 * right.variance


def test_a_probe_of_the_policy_measures_the_kappa_that_was_set() -> None:
    """Squared norms of single-group gradients at G = 4 and 16, means over 64 rollouts a prompt; limits of 99.9 %."""
    rates = np.random.default_rng(1).beta(0.6, 0.9, 300).tolist()
    train, parameters, model = some_policy(rates, kappa=6.0, moved_by=0.0, harmful=0.4)
    pairs, streams, step = pairs_of("rloo"), Streams(2), 0
    norms: dict[int, list[float]] = {4: [], 16: []}
    sampler = Sampler("uniform", 1, streams)
    for row in range(300):
        one = PromptSet(start=train.start[[row]], features=train.features[[row]])
        at = Parameters(shared=parameters.shared, private=parameters.private[[row]], nuisance=parameters.nuisance)
        for size in norms:
            squares = []
            for _ in range(64 // size):
                step += 1
                groups = draw_groups(one, at, model, sampler, streams, step=step, turn=0, count=1, group_size=size)
                g = estimate(one, at, model, pairs, groups, size, streams, step=step)
                squares.append(g.dot(g))
            norms[size].append(float(np.mean(squares)))
    rewards = (np.random.default_rng(3).random((300, 64)) < np.array(rates)[:, None]).astype(float)
    measured = gp.measure_kappa(norms, rewards=rewards, level=0.999, resamples=500).kappa
    assert measured is not None
    assert measured.low is not None
    assert measured.high is not None
    assert measured.low < 6.0 < measured.high
    assert measured.high - measured.low < 9.0


def test_kl_pulls_back_along_its_own_gradient() -> None:
    train, parameters, model = some_policy(RATES, kappa=0.0)
    streams, pairs = Streams(1), pairs_of("rloo")
    groups = draw_groups(
        train, parameters, model, Sampler("uniform", 5, streams), streams, step=0, turn=0, count=9, group_size=4
    )
    plain = estimate(train, parameters, model, pairs, groups, 4, streams, step=0)
    pulled = estimate(train, parameters, model, pairs, groups, 4, streams, step=0, kl_coefficient=0.5)
    reach = 1e-6

    def divergence_now() -> float:
        change = moved(train, parameters, model, groups.rows)
        return float(divergence(train.start[groups.rows], change).mean())

    for part, a, b in zip(parameters.parts(), plain.parts(), pulled.parts(), strict=True):
        for i in range(part.size):
            held = part[i]
            part[i] = held + reach
            up = divergence_now()
            part[i] = held - reach
            down = divergence_now()
            part[i] = held
            assert b[i] - a[i] == pytest.approx(-0.5 * (up - down) / (2 * reach), abs=1e-8)


def test_divergence_equals_its_symbolic_form() -> None:
    p, p0, z, z0 = sp.symbols("p p0 z z0")
    del p, p0
    rate, start = 1 / (1 + sp.exp(-z)), 1 / (1 + sp.exp(-z0))
    slope = sp.diff(symbolic.bernoulli_divergence(rate, start), z)
    for a, b in ((0.3, -1.2), (-4.0, 2.0), (9.0, 8.5)):
        got = divergence(np.array([b]), np.array([a - b]))[0]
        pair = {z: sp.Rational(a), z0: sp.Rational(b)}
        wanted = symbolic.bernoulli_divergence(rate.subs(pair), start.subs(pair))
        assert got == pytest.approx(float(sp.N(wanted, 30)), rel=1e-9)
        q = 1 / (1 + np.exp(a))
        assert float(sp.N(slope.subs(pair), 30)) == pytest.approx((1 - q) * q * (a - b), rel=1e-9)


# --- optimisers ---------------------------------------------------------------------------------------------------


def gradient_of(values: list[float]) -> Parameters:
    return Parameters(shared=np.array(values[:2]), private=np.array(values[2:3]), nuisance=np.array(values[3:]))


def test_normed_adam_equals_its_symbolic_form() -> None:
    rng = np.random.default_rng(2)
    seen = [rng.normal(size=5).tolist() for _ in range(4)]
    theta = gradient_of([0.0] * 5)
    optimizer = Optimizer("adam-norm", theta)
    for i, g in enumerate(seen):
        before = np.concatenate(theta.parts())
        optimizer.move(theta, gradient_of(g), 0.3)
        step = np.concatenate(theta.parts()) - before
        wanted = symbolic.normed_adam(seen[: i + 1], 0.3, sp.Rational(9, 10), sp.Rational(999, 1000))
        np.testing.assert_allclose(step, [float(x) for x in wanted], rtol=1e-9)


def test_adam_is_the_textbook_one_and_sgd_is_plain() -> None:
    theta, other = gradient_of([0.0] * 5), gradient_of([0.0] * 5)
    adam, sgd = Optimizer("adam", theta), Optimizer("sgd", other)
    m = v = total = np.zeros(5)
    at = np.zeros(5)
    rng = np.random.default_rng(3)
    for n in range(1, 5):
        g = rng.normal(size=5)
        adam.move(theta, gradient_of(g.tolist()), 0.1)
        sgd.move(other, gradient_of(g.tolist()), 0.1)
        m, v, total = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2, total + 0.1 * g
        at = at + 0.1 * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-12)
    np.testing.assert_allclose(np.concatenate(theta.parts()), at, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate(other.parts()), total, rtol=1e-12)


def test_a_constant_factor_does_not_matter_to_adam_norm() -> None:
    a, b = (simulate(HARD, estimator=e, training=SHORT, model=SMALL, seeds=1) for e in ("rloo", "dr_grpo"))
    np.testing.assert_allclose(a.train, b.train, rtol=1e-9)
    sgd = replace(SHORT, optimizer="sgd", learning_rate=2.0)
    a, b = (simulate(HARD, estimator=e, training=sgd, model=SMALL, seeds=1) for e in ("rloo", "dr_grpo"))
    assert not np.allclose(a.train[:, 1:], b.train[:, 1:], rtol=1e-6)


# --- whole runs ---------------------------------------------------------------------------------------------------


def test_one_seed_gives_one_answer_and_another_another() -> None:
    a, b = (simulate(HARD, training=SHORT, model=SMALL, seeds=2, seed=3) for _ in range(2))
    c = simulate(HARD, training=SHORT, model=SMALL, seeds=1, seed=4)
    for name in ("train", "held_out", "kl", "gradient_norm", "held_out_pass_at"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.train[1], c.train[0])
    assert a.train[0, -1] != a.train[1, -1]


def test_estimators_share_prompts_and_random_numbers() -> None:
    still = replace(SHORT, learning_rate=0.0)
    a, b = (simulate(HARD, estimator=e, training=still, model=SMALL, seeds=2) for e in ("grpo", "sign"))
    for name in ("train", "dead", "all_fail", "all_pass", "dead_expected"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert not np.array_equal(a.gradient_norm, b.gradient_norm)


def test_it_learns_and_generalises_through_what_is_shared() -> None:
    training = SimulatedTraining(steps=150, rollouts_per_step=512, learning_rate=0.5)
    model = SimulatedPolicy(prompts=300, held_out=300, kappa=1.0, coherence=0.2)
    run = simulate(HARD, training=training, model=model, seeds=4, every=50)
    gain = run.gain("held_out")
    assert gain.low is not None
    assert gain.low > 0.1
    alone = simulate(HARD, training=training, model=replace(model, shared=0.0, damage=0.0), seeds=2, every=150)
    np.testing.assert_allclose(alone.held_out[:, -1], alone.held_out[:, 0])
    assert (alone.train[:, -1] > alone.train[:, 0] + 0.02).all()


def test_drawn_dead_groups_agree_with_what_was_expected() -> None:
    """32,000 groups of frozen prompts: within five standard errors."""
    training = SimulatedTraining(steps=250, rollouts_per_step=512, group_size=4, learning_rate=0.0)
    run = simulate(HARD, training=training, model=SMALL, seeds=1, every=250)
    drawn, expected = run.dead[0, -1], run.dead_expected[0, -1]
    assert abs(drawn - expected) < 5 * (expected * (1 - expected) / 32_000) ** 0.5
    assert expected == pytest.approx(run.dead_now[0, 0], abs=0.02)
    assert run.mixed[0, -1] == pytest.approx(1 - run.all_fail[0, -1] - run.all_pass[0, -1])


def test_records_are_the_exact_means_of_the_policy() -> None:
    rates = [0.1, 0.5, 0.0, 1.0]
    run = simulate(rates, training=replace(SHORT, group_size=4), model=SMALL, seeds=1, pass_at=(1, 3))
    p = np.array(rates)
    assert run.train[0, 0] == pytest.approx(p.mean())
    assert run.train_pass_at[0, 0].tolist() == pytest.approx([p.mean(), (1 - (1 - p) ** 3).mean()])
    assert run.mean_failure[0, 0] == pytest.approx(((1 - p) ** 4).mean())
    assert run.dead_now[0, 0] == pytest.approx((p**4 + (1 - p) ** 4).mean())
    assert run.turned[0, 0] == pytest.approx(float(symbolic.turned_share(rates, rates, 4)))
    assert run.turned_back[0, 0] == pytest.approx(run.turned[0, 0])
    assert run.kl[0, 0] == 0.0
    assert np.isnan(run.dead[0, 0])
    assert run.at("dead", 0).value is None
    assert run.generated_rollouts[0].tolist() == [0, 640, 1280]


def test_turned_groups_are_those_of_start_and_end() -> None:
    training = SimulatedTraining(steps=40, rollouts_per_step=64, group_size=4, learning_rate=0.5)
    run = simulate([0.3], training=training, model=SMALL, seeds=2)
    p = run.train[:, -1]
    assert (p > 0.5).all()
    np.testing.assert_allclose(run.turned[:, -1], 0.7**4 * p**4, rtol=1e-10)
    np.testing.assert_allclose(run.turned_back[:, -1], 0.3**4 * (1 - p) ** 4, rtol=1e-8)
    np.testing.assert_allclose(run.mean_failure[:, -1], (1 - p) ** 4, rtol=1e-8)
    assert run.model.prompts == 1
    assert run.average("dead").value == pytest.approx(run.dead[:, 1:].mean())


def test_refill_trains_on_mixed_groups_alone_and_counts_the_others() -> None:
    training = replace(SHORT, refill=True, max_rounds=4)
    run = simulate(HARD, training=training, model=SMALL, seeds=2)
    assert (run.generated_groups[:, -1] > run.trained_groups[:, -1]).all()
    assert (run.trained_groups[:, -1] <= 8 * 20).all()
    dead = simulate([0.0, 1.0], training=training, model=SMALL, seeds=1)
    assert dead.empty_steps[0, -1] == 20
    assert dead.generated_groups[0, -1] == 8 * 4 * 20
    assert dead.trained_groups[0, -1] == 0


def test_a_budget_of_rollouts_ends_the_training() -> None:
    run = simulate(HARD, training=replace(SHORT, budget_rollouts=640), model=SMALL, seeds=1)
    assert run.steps_done[0].tolist() == [0, 10, 10]
    assert run.train[0, 1] == run.train[0, 2]
    assert run.steps.tolist() == [0, 10, 20]


def test_a_schedule_changes_the_group_size() -> None:
    plan = SimulatedTraining(group_size=((0, 4), (10, 16)), rollouts_per_step=64, steps=20)
    assert [plan.group_size_at(s) for s in (0, 9, 10, 19)] == [4, 4, 16, 16]
    run = simulate(HARD, training=plan, model=SMALL, seeds=1)
    assert run.generated_groups[0].tolist() == [0, 160, 200]
    assert run.generated_rollouts[0].tolist() == [0, 640, 1280]


def test_epochs_draw_every_prompt_once_a_pass() -> None:
    streams = Streams(0)
    sampler = Sampler("epochs", 10, streams)
    drawn = np.concatenate([sampler.draw(4, step, 0, None) for step in range(10)])
    for first in range(0, 40, 10):
        assert sorted(drawn[first : first + 10]) == list(range(10))


def test_a_curriculum_draws_from_its_band() -> None:
    rates = np.linspace(0.0, 1.0, 11)
    sampler = Sampler(Curriculum(low=0.2, high=0.5), 11, Streams(0))
    drawn = sampler.draw(500, 0, 0, rates)
    assert set(drawn) == {2, 3, 4, 5}
    weighted = Sampler(Curriculum(weight=lambda p: p * (1 - p)), 11, Streams(0)).draw(20_000, 0, 0, rates)
    share = np.bincount(weighted, minlength=11) / 20_000
    wanted = rates * (1 - rates) / (rates * (1 - rates)).sum()
    assert np.abs(share - wanted).max() < 5 * 0.5 / 20_000**0.5
    empty = Sampler(Curriculum(low=0.91, high=0.95), 11, Streams(0))
    assert len(set(empty.draw(500, 0, 0, rates))) == 11
    assert empty.off_band == 1
    tracked = Sampler(Curriculum(low=0.4, high=0.6, by="tracked"), 3, Streams(0))
    tracked.tell(np.array([0, 1]), np.array([0, 8]), 8)
    assert set(tracked.draw(50, 1, 0, None)) == {2}


def test_a_curriculum_runs_and_says_when_its_band_was_empty() -> None:
    band = replace(SHORT, sampling=Curriculum(low=0.4, high=0.6))
    run = simulate([0.0, 0.01], training=band, model=SMALL, seeds=1)
    assert run.off_band_draws.tolist() == [20.0]
    for by in ("current", "tracked"):
        simulate(HARD, training=replace(SHORT, sampling=Curriculum(low=0.1, high=0.9, by=by)), model=SMALL, seeds=1)


def test_a_rate_that_is_too_high_ruins_the_policy_sooner_where_steps_are_noisier() -> None:
    hard = BetaPassRates(mean=0.024, correlation=0.03)
    model = SimulatedPolicy(prompts=300, held_out=300, kappa=1.4, damage=0.5, dimension=16)
    found: dict[tuple[str, float], float] = {}
    for name in ("rloo", "sign"):
        for rate in (0.3, 3.0):
            training = SimulatedTraining(group_size=4, rollouts_per_step=256, steps=100, learning_rate=rate)
            run = simulate(hard, estimator=name, training=training, model=model, seeds=2, every=100)
            found[name, rate] = float(run.held_out[:, -1].mean())
    assert found["sign", 0.3] > 0.03
    assert found["sign", 3.0] < 0.01
    assert found["rloo", 3.0] > 0.3


def test_noise_in_the_nuisance_parameters_hurts_only_with_damage() -> None:
    sgd = replace(SHORT, optimizer="sgd", learning_rate=1.0)
    quiet, harmless, harmful = (
        simulate(HARD, training=sgd, model=replace(SMALL, kappa=k, harmful=0.0, damage=d), seeds=1)
        for k, d in ((0.0, 0.0), (50.0, 0.0), (50.0, 1.0))
    )
    np.testing.assert_array_equal(quiet.train, harmless.train)
    assert harmful.train[0, -1] < quiet.train[0, -1]


def test_clipping_and_warm_up_shorten_steps() -> None:
    sgd = replace(SHORT, optimizer="sgd", learning_rate=1.0)
    free = simulate(HARD, training=sgd, model=SMALL, seeds=1)
    clipped = simulate(HARD, training=replace(sgd, max_gradient_norm=1e-3), model=SMALL, seeds=1)
    assert clipped.kl[0, -1] < 1e-3 * free.kl[0, -1]
    assert clipped.gradient_norm[0, 1] > 1e-3
    assert [replace(sgd, warmup_steps=4).rate_at(s) for s in (0, 1, 3, 9)] == [0.25, 0.5, 1.0, 1.0]


def test_kl_keeps_the_policy_nearer_to_its_start() -> None:
    free, held = (
        simulate(HARD, training=replace(SHORT, kl_coefficient=b, steps=60), model=SMALL, seeds=2) for b in (0.0, 2.0)
    )
    assert (held.kl[:, -1] < free.kl[:, -1]).all()


# --- negative control ---------------------------------------------------------------------------------------------


def test_shuffling_has_the_law_of_a_random_permutation() -> None:
    """Two groups of two with passes (2, 1): all 24 orders counted, against 8,000 draws, five standard errors."""
    from itertools import permutations

    outcomes = [1, 1, 1, 0]
    counts: dict[tuple[int, ...], float] = {}
    for order in permutations(outcomes):
        r = (order[0] + order[1], order[2] + order[3])
        c = (order[0] + order[1], order[2])
        counts[(*r, *c)] = counts.get((*r, *c), 0.0) + 1 / 24
    rng, trials = np.random.default_rng(0), 8_000
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(trials):
        r_, c_ = shuffled_rewards(np.array([2, 1]), 2, rng)
        key = (*r_.tolist(), *c_.tolist())
        seen[key] = seen.get(key, 0) + 1
    assert set(seen) == set(counts)
    for key, chance in counts.items():
        assert abs(seen[key] / trials - chance) < 5 * (chance * (1 - chance) / trials) ** 0.5


def test_what_shuffled_rewards_leave_is_nothing_or_one_part_in_the_batch() -> None:
    rates = [sp.Rational(1, 5), sp.Rational(1, 2), sp.Rational(2, 3)]
    for name in ("rloo", "maxrl", "grpo"):
        plus, minus = pairs_of(name).table(3, 0.5)
        left = symbolic.shuffled_contrast([float(x) for x in plus], [float(x) for x in minus], rates)
        assert float(left) == pytest.approx(0.0, abs=1e-12)
    assert symbolic.shuffled_contrast([1] * 4, [-1] * 4, rates) == sp.Rational(2, 9)
    general = np.array([0.0, 3.0, 1.0, -2.0]), np.array([1.0, -1.0, 0.5, 0.0])
    got = float(symbolic.shuffled_contrast(general[0].tolist(), general[1].tolist(), rates, row=1))
    train, parameters, model = some_policy([0.2, 0.5, 2 / 3], moved_by=0.0, kappa=0.0, shared=0.0)
    streams = Streams(4)
    pairs = pairs_of(lambda k, g: general)
    values = []
    for step in range(4_000):
        groups = draw_groups(
            train, parameters, model, Sampler("epochs", 3, streams), streams, step=step, turn=0, count=3, group_size=3
        )
        g = estimate(train, parameters, model, pairs, groups, 3, streams, step=step, shuffled=True)
        values.append(3.0 * g.private[1])
    assert_mean(values, 0.25 * got, catches=0.1)


@pytest.mark.parametrize("name", ["rloo", "grpo", "sign"])
def test_shuffled_rewards_teach_nothing(name: str) -> None:
    """The mean logit of 24 seeds stays at 0 within 4.5 standard errors; with true rewards it does not."""
    training = SimulatedTraining(steps=40, rollouts_per_step=256, learning_rate=0.3)
    model = SimulatedPolicy(prompts=200, held_out=200, kappa=0.5, coherence=0.2, dimension=16)
    shuffled = simulate(HARD, estimator=name, training=training, model=model, seeds=24, every=40, shuffled=True)
    true = simulate(HARD, estimator=name, training=training, model=model, seeds=4, every=40)
    for which in ("held_out_logit", "train_logit"):
        moved_by = shuffled.at(which)
        assert moved_by.value is not None
        assert moved_by.standard_error is not None
        assert abs(moved_by.value) < 4.5 * moved_by.standard_error
        learned = true.at(which)
        assert learned.value is not None
        assert learned.value > 10 * abs(moved_by.value)


# --- degenerate cases ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rloo", "grpo", "sign", "maxrl"])
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_prompts_that_never_or_always_pass_stay_so(name: str, rate: float) -> None:
    run = simulate([rate] * 3, estimator=name, training=SHORT, model=SMALL, seeds=2)
    assert (run.train == rate).all()
    assert (run.held_out == rate).all()
    assert (run.dead[:, 1:] == 1.0).all()
    assert (run.kl == 0.0).all()
    assert np.isnan(run.direction).all()
    assert np.isnan(run.noise_to_signal).all()
    assert run.at("noise_to_signal").value is None


def test_a_logit_for_the_ends_lets_them_move() -> None:
    run = simulate([0.0], training=replace(SHORT, steps=5), model=replace(SMALL, end_logit=3.0), seeds=1)
    assert run.train[0, 0] == pytest.approx(1 / (1 + np.exp(3.0)))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adam-norm"])
def test_groups_of_one_one_prompt_and_no_rate(optimizer: str) -> None:
    one = SimulatedTraining(group_size=1, rollouts_per_step=1, steps=6, learning_rate=0.3, optimizer=optimizer)
    for name in ("rloo", "grpo", "maxrl"):
        run = simulate([0.3], estimator=name, training=one, model=SMALL, seeds=1, every=3)
        assert run.train[0, -1] == run.train[0, 0]  # a group of one has no other rollout to compare with
        assert run.dead[0, -1] == 1.0
    run = simulate([0.3], estimator="sign", training=one, model=SMALL, seeds=1, every=3)
    assert run.train[0, -1] != run.train[0, 0]
    still = simulate(HARD, training=replace(SHORT, learning_rate=0.0, optimizer=optimizer), model=SMALL, seeds=1)
    assert (still.train == still.train[:, :1]).all()
    assert (still.kl == 0.0).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adam-norm"])
@pytest.mark.parametrize("name", ["rloo", "sign", "maxrl"])
def test_the_largest_settings_give_finite_numbers(optimizer: str, name: str) -> None:
    wild = replace(SHORT, optimizer=optimizer, learning_rate=1e6, kl_coefficient=1e6, steps=40)
    run = simulate(
        [0.0, 0.3, 1.0, 0.5], estimator=name, training=wild, model=replace(SMALL, kappa=1e12, damage=1e6), seeds=2
    )
    for field in ("train", "held_out", "kl", "drift_cost", "train_logit"):
        assert np.isfinite(getattr(run, field)).all()
    assert np.isfinite(run.gradient_norm[:, 1:]).all()


@pytest.mark.parametrize("source", [
    BetaPassRates(mean=0.3, correlation=0.0), BetaPassRates(mean=0.3, correlation=1.0), BetaPassRates.from_shape(0.01, 0.3),
    BetaPassRates(mean=0.0, correlation=0.5),
    DiscretePassRates(passing=np.array([0.0, 0.5]), failing=np.array([1.0, 0.5]), masses=np.array([0.5, 0.5])),
    gp.Pilot.from_counts([0, 1, 4] * 20, 4), gp.fit_pass_rates(gp.Pilot.from_counts([0] * 60, 4)), [0.2, 0.4],
])  # fmt: skip
def test_every_source_of_pass_rates(source: Any) -> None:
    run = simulate(source, training=replace(SHORT, steps=3), model=SMALL, seeds=1)
    assert np.isfinite(run.train).all()
    assert np.isfinite(run.kl).all()
    if not isinstance(source, list):
        assert run.model.prompts == 60


def test_prompts_drawn_from_a_beta_have_its_moments() -> None:
    model = SimulatedPolicy(prompts=40_000, held_out=1, dimension=2)
    train, _ = draw_prompts(HARD, HARD, model, np.random.default_rng(0))
    p, q = sigmoid(train.start)
    assert_mean(p, HARD.mean, catches=0.02)
    assert_mean(p**4 + q**4, float(HARD.dead(4)), catches=0.02)


@pytest.mark.parametrize(("options", "message"), [
    ({"estimator": "nope"}, "estimator must be one of"),
    ({"estimator": 3}, "estimator must be a name"),
    ({"estimator": lambda k, g: k}, "must give two arrays"),
    ({"estimator": lambda k, g: (k / 0.0, k)}, "must be finite; at k = "),
    ({"seeds": 0}, "seeds must be at least 1"),
    ({"seed": -1}, "seed must be at least 0"),
    ({"every": 0}, "every must be at least 1"),
    ({"level": 1.0}, "level must lie strictly between"),
    ({"pass_at": (0,)}, "k of pass@k must be at least 1"),
    ({"training": 3}, "training must be a SimulatedTraining"),
    ({"model": 3}, "model must be a SimulatedPolicy"),
    ({"shuffled": True, "training": SimulatedTraining(refill=True)}, "shuffled rewards need prompts"),
])  # fmt: skip
def test_bad_arguments_are_one_line(options: dict[str, Any], message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(gp.DomainError, match=message) as error:
        simulate(HARD, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", [[], [[0.5]], [float("nan")], [1.5], [float("inf")], "x"])
def test_bad_pass_rates_are_one_line(source: Any) -> None:
    with pytest.raises(gp.DomainError):
        simulate(source, training=SHORT, model=SMALL)


@pytest.mark.parametrize(
    "name", ["kappa", "damage", "shared", "coherence", "harmful", "dimension", "prompts", "held_out", "end_logit"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "x", True])
def test_a_policy_outside_its_domain_is_refused(name: str, value: Any) -> None:
    if name in ("shared", "coherence", "harmful") and value is True:
        value = 1.5  # numpy takes True for 1
    with pytest.raises(gp.DomainError):
        SimulatedPolicy(**{name: value})


@pytest.mark.parametrize(("options", "message"), [
    ({"learning_rate": float("inf")}, "learning_rate must be finite"),
    ({"learning_rate": -0.1}, "learning_rate must be finite and at least 0"),
    ({"learning_rate": 1e7}, "learning_rate must be at most 1e\\+06; got 1e\\+07"),
    ({"kl_coefficient": float("nan")}, "kl_coefficient must be finite"),
    ({"max_gradient_norm": 0.0}, "max_gradient_norm must be finite and above 0"),
    ({"group_size": 0}, "group_size must be at least 1"),
    ({"group_size": 513, "rollouts_per_step": 4096}, "group_size must be at most 512"),
    ({"group_size": 8, "rollouts_per_step": 4}, "must hold a group of 8"),
    ({"group_size": ((1, 4),)}, "needs rising first steps"),
    ({"group_size": ((0, 4), 3)}, "pairs"),
    ({"steps": 1.5}, "steps must be a whole number"),
    ({"optimizer": "lion"}, "optimizer must be one of"),
    ({"sampling": "sorted"}, "sampling must be one of"),
    ({"refill": 1}, "refill must be True or False"),
    ({"budget_rollouts": 0}, "budget_rollouts must be at least 1"),
])  # fmt: skip
def test_a_training_outside_its_domain_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gp.DomainError, match=message):
        SimulatedTraining(**options)


def test_a_curriculum_outside_its_domain_is_refused() -> None:
    with pytest.raises(gp.DomainError, match="low <= high"):
        Curriculum(low=0.6, high=0.5)
    with pytest.raises(gp.DomainError, match="by must be one of"):
        Curriculum(by="guess")
    bad = Curriculum(weight=lambda p: -p)
    with pytest.raises(gp.DomainError, match="finite numbers of at least 0"):
        simulate(HARD, training=replace(SHORT, sampling=bad), model=SMALL, seeds=1)


# --- means over seeds, and comparisons ----------------------------------------------------------------------------


def test_limits_over_seeds_are_those_of_student() -> None:
    from scipy import stats

    values = np.random.default_rng(0).normal(size=6)
    got = seed_mean(values, 0.9)
    low, high = stats.t.interval(0.9, 5, values.mean(), stats.sem(values))
    assert (got.low, got.high) == pytest.approx((low, high))
    wide = seed_mean(values, 0.9, comparisons=3)
    quantile = float(stats.t.ppf(1 - 0.1 / 6, 5))
    assert (wide.low, wide.high) == pytest.approx(
        tuple(map(float, symbolic.seed_limits(values.tolist(), quantile))), rel=1e-9
    )
    one = seed_mean(np.array([1.0]))
    assert (one.value, one.standard_error, one.low, one.seeds) == (1.0, None, None, 1)
    assert seed_mean(np.array([np.nan, np.nan])).value is None
    assert seed_mean(np.array([1.0, np.nan, 3.0])).seeds == 2


def test_a_comparison_is_paired_and_chooses_rates_on_other_seeds() -> None:
    seen: list[tuple[int, int]] = []
    found = compare_simulations(
        HARD, estimators=["rloo", "sign"], group_sizes=[4, 8], learning_rates=[0.1, 0.5, 0.02], training=SHORT,
        model=SMALL, seeds=3, progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert [(r.estimator, r.group_size) for r in found.runs] == [("rloo", 4), ("rloo", 8), ("sign", 4), ("sign", 8)]
    assert found.tuning_seeds == (3, 4, 5)
    assert found.runs[0].simulation.seeds == (0, 1, 2)
    assert seen[-1] == (4 * 4 * 3 * 2, 4 * 4 * 3 * 2)
    assert [done for done, _ in seen] == list(range(1, seen[-1][0] + 1))
    first = found.runs[0]
    for run in found.runs[1:]:
        assert [t.learning_rate for t in run.tried] == [0.02, 0.1, 0.5]
        assert run.difference is not None
        values = run.simulation.held_out[:, -1] - first.simulation.held_out[:, -1]
        assert run.difference == seed_mean(values, 0.95, comparisons=3)
        best = max(run.tried, key=lambda t: t.final.value or 0.0)
        assert run.learning_rate == best.learning_rate
        assert run.rate_at_end == (best.learning_rate != 0.1)
    assert first.verdict is Verdict.REFERENCE
    slow = replace(SHORT, group_size=4, learning_rate=0.02)
    assert first.tried[0].final == simulate(HARD, training=slow, model=SMALL, seeds=3, seed=3).at("held_out")
    assert any("Widen the list" in note for note in found.notes) == any(run.rate_at_end for run in found.runs)


def test_equal_estimators_cannot_be_told_apart_and_one_seed_tells_nothing() -> None:
    found = compare_simulations(HARD, estimators=["rloo", "dr_grpo"], training=SHORT, model=SMALL, seeds=3)
    assert found.runs[1].verdict is Verdict.CANNOT_TELL
    lonely = compare_simulations(HARD, training=SHORT, model=SMALL, seeds=1)
    assert lonely.runs[1].verdict is Verdict.CANNOT_TELL
    assert any("One seed" in note for note in lonely.notes)
    assert lonely.runs[1].difference is not None
    assert lonely.runs[1].difference.low is None


@pytest.mark.parametrize(("options", "message"), [
    ({"measure": "loss"}, "measure must be one of"), ({"estimators": []}, "must make 1 to"),
    ({"learning_rates": []}, "must make 1 to"), ({"group_sizes": [2048]}, "at most 512"),
    ({"learning_rates": [float("nan")]}, "learning_rate must be finite"),
])  # fmt: skip
def test_bad_comparisons_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gp.DomainError, match=message):
        compare_simulations(HARD, training=SHORT, model=SMALL, **options)


def test_names_and_records_of_a_result_are_checked() -> None:
    run = simulate(HARD, training=replace(SHORT, steps=2), model=SMALL, seeds=2)
    assert len(run.summary()) == 2
    assert run.average("held_out").value == pytest.approx(run.held_out.mean())
    with pytest.raises(gp.DomainError, match="name must be one of"):
        run.at("reward")
    with pytest.raises(gp.DomainError, match="record must be one of"):
        run.at("train", 9)
    with pytest.raises(ValueError, match="read-only"):
        run.train[0, 0] = 1.0
