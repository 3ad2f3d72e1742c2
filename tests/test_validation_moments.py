"""Second moments of groups from exact numbers of prompts, against all outcomes of small groups; and the page."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import grpo_plan as gp
from figures.validation import moments
from figures.validation.moments import ESTIMATORS, Prompts, group_squares, pulls, two_size_kappa
from grpo_plan.estimators import get_estimator

Floats = NDArray[np.float64]
SHARE = np.array([0.2, 0.15, 0.35, 0.3])  # of two kinds of passes and two kinds of fails
PASS = np.array([1, 1, 0, 0])


def _scores() -> Floats:
    """Scores (4, 3) of the four kinds of rollouts, of mean 0."""
    free = np.random.default_rng(5).normal(size=(4, 3))
    found: Floats = free - SHARE @ free
    return found


def _prompt() -> tuple[Prompts, Floats]:
    s = _scores()
    gradient: Floats = (SHARE * PASS) @ s
    lengths = (s**2).sum(1)
    rate = float(SHARE @ PASS)
    after_pass = float((SHARE * PASS) @ lengths) / rate
    after_fail = float((SHARE * (1 - PASS)) @ lengths) / (1 - rate)
    one = Prompts.of({
        "rate": [rate], "square": [float(gradient @ gradient)], "after_pass": [after_pass], "after_fail": [after_fail],
    })  # fmt: skip
    return one, gradient


def _enumerated(size: int, estimator: str) -> tuple[Floats, float]:
    """Mean estimate and mean squared estimate over all groups, by their chances."""
    s = _scores()
    passed, failed = get_estimator(ESTIMATORS[estimator]).pair(size)
    mean, square = np.zeros(3), 0.0
    for kinds in product(range(4), repeat=size):
        index = list(kinds)
        k = int(PASS[index].sum())
        weight = np.where(PASS[index] == 1, passed[k], failed[k])
        estimate = weight @ s[index] / size
        chance = float(np.prod(SHARE[index]))
        mean += chance * estimate
        square += chance * float(estimate @ estimate)
    return mean, square


@pytest.mark.parametrize("estimator", sorted(ESTIMATORS))
@pytest.mark.parametrize("size", [2, 3, 5])
def test_moments_of_a_group_are_those_of_all_its_outcomes(estimator: str, size: int) -> None:
    one, gradient = _prompt()
    mean, square = _enumerated(size, estimator)
    assert group_squares(one, size, estimator)[0] == pytest.approx(square, rel=1e-12)
    np.testing.assert_allclose(pulls(one.rate, size, estimator)[0] * gradient, mean, rtol=1e-10)


def test_in_the_model_of_theory_both_kappas_are_the_one_put_in() -> None:
    """|grad p| = h pq, and score noise S^2 alike after passes and fails."""
    p = np.linspace(0.02, 0.97, 40)
    h, kappa = 3.0, 2.5
    pq = p * (1 - p)
    square = (h * pq) ** 2
    noise = kappa * h**2
    made = Prompts(p, square, square / p**2 + noise, square / (1 - p) ** 2 + noise)
    assert moments.kappa(made) == pytest.approx(kappa, rel=1e-10)
    assert two_size_kappa(made)[0] == pytest.approx(kappa, rel=1e-10)
    np.testing.assert_allclose(made.noise, noise, rtol=1e-10)


def test_two_sizes_give_what_the_measurement_gives() -> None:
    rng = np.random.default_rng(2)
    rewards = (rng.random((60, 16)) < rng.random(60)[:, None]).astype(float)
    norms = {4: rng.gamma(2.0, size=60) + 1.0, 16: rng.gamma(2.0, size=60) / 3 + 0.5}
    measured = gp.measure_kappa(norms, rewards=rewards)
    pq, ppqq = moments.moments_of_rewards(rewards.sum(1), 16)
    kappa, best = moments.kappa_of_line((norms[4].mean(), norms[16].mean()), pq, ppqq)
    assert measured.kappa is not None
    assert measured.kappa.value == pytest.approx(kappa, rel=1e-10)
    assert measured.group_size().value == pytest.approx(best, rel=1e-10)


def test_unseen_fails_get_their_least_length() -> None:
    one = Prompts.of({"rate": [0.9], "square": [0.04], "after_pass": [1.0], "after_fail": [float("nan")]})
    assert one.after_fail[0] == pytest.approx(4.0)


def test_bootstrap_covers_a_mean() -> None:
    rng = np.random.default_rng(8)
    held = 0
    for seed in range(200):
        _, low, high = moments.bootstrap(rng.normal(size=(80, 1)), lambda m: m[:, 0], 300, seed)
        held += low <= 0.0 <= high
    assert 178 <= held <= 200  # binomial at .95: fewer in 4 of 10,000 such tests
