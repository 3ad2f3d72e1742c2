"""Remedies compared: equations 117 to 122 three ways, limits, the comparison, its page and its JSON."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan import symbolic
from grpo_plan.costs import Budget
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.estimators import ESTIMATORS, Estimator, get_estimator, sign_threshold_kappa
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.planning.group_size import plan_group_size
from grpo_plan.planning.live import at_rates, live_rollouts, live_shares, mean_of_weights
from grpo_plan.planning.precision import progress_limits
from grpo_plan.planning.signal import group_moments, progress
from grpo_plan.plots import plot_group_sizes, plot_remedies
from grpo_plan.remedies import AtKappa, Effect, Hint, Ranged, RemedyComparison, compare_remedies
from grpo_plan.remedies.hints import hinted_parts
from grpo_plan.remedies.kinds import kind_weights, shares_by_kind
from grpo_plan.remedies.progress import Judged, effect_of, log_ratio, progress_ratio, same_plan, side_by_side
from grpo_plan.remedies.result import EstimatorEffect, SamplingEffect
from grpo_plan.remedies.sampling import per_mixed
from grpo_plan.remedies.turns import turn_parts, turning_kappa
from grpo_plan.remedies.variants import pooled_parts, variant_agreement
from tests.helpers import assert_mean, enumerated, outcomes
from tests.test_cli import Run, run  # noqa: F401

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

Floats = NDArray[np.float64]
HALF = Fraction(1, 2)
KINDS = ("all_fail", "mixed", "all_pass")


def usable(group_size: int) -> list[Estimator]:
    """Every estimator that judges groups of this size, in a batch of mean pass rate 0.3."""
    return [e.for_mean(0.3) for e in ESTIMATORS.values() if e.min_group_size <= group_size]


def kind_of(rewards: tuple[int, ...]) -> str:
    return "all_fail" if not any(rewards) else "all_pass" if all(rewards) else "mixed"


def fit_of(*counts: int) -> PassRateFit:
    """A fit to so many prompts with k = 0..n passes."""
    return fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(len(counts)), counts), len(counts) - 1))


@pytest.fixture(scope="module")
def compared(example_fit: PassRateFit) -> RemedyComparison:
    return compare_remedies(example_fit, 8, prompts_per_step=128)


def live(rewards: tuple[int, ...], kind: str, pair: tuple[Floats, Floats]) -> Fraction:
    """Share of the rollouts of a group of that kind with an advantage."""
    if kind_of(rewards) != kind:
        return Fraction(0)
    k = sum(rewards)
    return Fraction(sum(int(pair[0][k] != 0 if r else pair[1][k] != 0) for r in rewards), len(rewards))


# eq. 117 and 118: kinds of groups -------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_size", [2, 3, 5])
def test_eq_117_live_rollouts_by_counting_every_group(group_size: int) -> None:
    p = Fraction(3, 10)
    for estimator in usable(group_size):
        passed, failed = estimator.pair(group_size)

        shares = live_shares(estimator, group_size)
        twin = symbolic.live_share(list(passed), list(failed), sp.Rational(3, 10))
        for kind, slots in (("all_fail", [0]), ("mixed", range(1, group_size)), ("all_pass", [group_size])):
            truth = enumerated(partial(live, kind=kind, pair=(passed, failed)), p, group_size)
            only = np.zeros(group_size + 1)
            only[list(slots)] = shares[list(slots)]
            assert float(at_rates(only, np.array([0.3]))[0]) == pytest.approx(float(truth), abs=1e-12), estimator.name
            assert float(twin[kind]) == pytest.approx(float(truth), abs=1e-12)


@pytest.mark.parametrize("group_size", [2, 4, 5])
def test_eq_118_signal_and_noise_by_kind_by_counting_every_group(group_size: int) -> None:
    p = 0.3
    for estimator in usable(group_size):
        passed, failed = estimator.pair(group_size)
        sums = {(what, kind): 0.0 for what in ("signal", "noise") for kind in KINDS}
        for rewards in outcomes(group_size):
            k = sum(rewards)
            chance = p**k * (1 - p) ** (group_size - k)
            advantages = [passed[k] if r else failed[k] for r in rewards]
            kind = kind_of(rewards)
            sums["signal", kind] += (
                chance * sum(a * (r - p) for a, r in zip(advantages, rewards, strict=True)) / group_size
            )
            sums["noise", kind] += chance * sum(a * a for a in advantages) / group_size**2
        weights = kind_weights(estimator, group_size)
        for kind in KINDS:
            for what, found in (("signal", weights.signal), ("noise", weights.noise)):
                assert at_rates(found[kind], np.array([p]))[0] == pytest.approx(sums[what, kind], abs=1e-12)
        exact_p = sp.Rational(3, 10)
        signal = symbolic.dead_signal(float(passed[-1]), float(failed[0]), exact_p, group_size)
        noise = symbolic.dead_noise(float(passed[-1]), float(failed[0]), exact_p, group_size)
        assert [float(x) for x in signal] == pytest.approx([sums["signal", "all_fail"], sums["signal", "all_pass"]])
        assert [float(x) for x in noise] == pytest.approx([sums["noise", "all_fail"], sums["noise", "all_pass"]])


def test_eq_118_by_simulation_of_scores() -> None:
    """Scores in 3 dimensions, Sign, hard prompts: what all-fail groups add along the gradient, and their noise."""
    rng, p, g, s, groups = np.random.default_rng(118), 0.15, 4, 2.0, 200_000
    direction = np.array([2.0, -1.0, 2.0]) / 3.0
    rewards: Any = rng.random((groups, g)) < p
    noise = rng.normal(0.0, s / math.sqrt(3.0), (groups, g, 3))
    scores = (rewards - p)[..., None] * direction + noise  # h = 1, so grad p = p q u
    estimate = np.where(rewards, 1.0, -1.0)[..., None] * scores
    fails = ~rewards.any(axis=1)
    group: Any = estimate.mean(axis=1) * fails[:, None]
    weights = kind_weights(get_estimator("sign"), g)
    signal = float(at_rates(weights.signal["all_fail"], np.array([p]))[0])
    spread = float(at_rates(weights.noise["all_fail"], np.array([p]))[0])
    assert_mean(group @ direction, signal, catches=0.02)
    along = p * fails
    assert_mean(((group - along[:, None] * direction) ** 2).sum(axis=1), s**2 * spread, catches=0.02)


@given(st.floats(0.001, 0.3), st.integers(2, 12))
def test_all_fail_groups_of_hard_prompts_bring_more_noise_than_signal(p: float, group_size: int) -> None:
    weights = kind_weights(get_estimator("sign"), group_size)
    signal, noise = (
        {kind: float(at_rates(w, np.array([p]))[0]) for kind, w in part.items()}
        for part in (weights.signal, weights.noise)
    )
    assert signal["all_fail"] / sum(signal.values()) <= noise["all_fail"] / sum(noise.values())


def test_shares_by_kind_hold_together(example_fit: PassRateFit) -> None:
    for name in ("sign", "ngrpo", "reinforce"):
        for parts in shares_by_kind(example_fit, get_estimator(name), 8, 0.95):
            assert parts is not None
            values = [getattr(parts, kind).value for kind in KINDS]
            assert sum(values) == pytest.approx(1.0)
            for kind in KINDS:
                share = getattr(parts, kind)
                assert 0.0 <= share.low <= share.value <= share.high <= 1.0
    signal, noise = shares_by_kind(example_fit, get_estimator("rloo"), 8, 0.95)
    assert signal == noise
    assert signal is not None
    assert (signal.mixed.value, signal.all_fail.value) == (1.0, 0.0)


def part_less_share(p: Floats, share: float) -> Floats:
    """What all-fail groups of 8 add to the signal of Sign, less a share of all of it."""
    value: Floats = p * (1.0 - p) ** 8 - share * 2.0 * p * (1.0 - p)
    return value


def test_limits_of_shares_by_another_route(example_fit: PassRateFit) -> None:
    """The noise of Sign is the same in every group; for the signal, the ratios that the limits of part - r whole leave."""
    signal, noise = shares_by_kind(example_fit, get_estimator("sign"), 8, 0.95)
    assert signal is not None
    assert noise is not None
    fails = example_fit.mean_of(lambda p: (1.0 - p) ** 8)
    assert (noise.all_fail.low, noise.all_fail.high) == pytest.approx((fails.low, fails.high), abs=2e-3)
    inside = []
    for r in np.linspace(0.0, 0.15, 61):
        over = example_fit.mean_of(partial(part_less_share, share=float(r)))
        if over.low <= 0.0 <= over.high:
            inside.append(float(r))
    assert (signal.all_fail.low, signal.all_fail.high) == pytest.approx((inside[0], inside[-1]), abs=5e-3)


# eq. 119: progress and turns ------------------------------------------------------------------------------------------


def test_eq_119_turn_is_where_both_make_the_same_progress() -> None:
    ta, sa, va, tb, sb, vb, rho, ratio, kappa = sp.symbols("ta sa va tb sb vb rho r kappa", positive=True)
    one, base = (ta, sa, va), (tb, sb, vb)
    turn = symbolic.turning_kappa(one, base, rho, ratio)
    assert sp.simplify(symbolic.progress_ratio(one, base, turn, rho, ratio) - 1) == 0
    crossing = sp.numer(sp.together(symbolic.progress_ratio(one, base, kappa, rho, ratio) - 1))
    assert sp.degree(crossing, kappa) == 1  # at most one turn
    assert sp.simplify(sp.solve(crossing, kappa)[0] - turn) == 0
    assert sp.simplify(sp.diff(symbolic.turning_kappa(one, base, rho, 1), rho)) == 0
    assert sp.simplify(sp.diff(turn, rho)) != 0


@pytest.mark.parametrize("name", ["sign", "maxrl", "ngrpo", "reinforce_plus_plus", "grpo"])
def test_eq_119_code_against_symbols(example_fit: PassRateFit, name: str) -> None:
    one, base = side_by_side(example_fit, *((get_estimator(n), 8) for n in (name, "rloo")))
    sides: list[Any] = [(j.moments.signal, j.moments.signal_square, j.moments.noise) for j in (one, base)]
    for kappa in (0.0, 0.3, 50.0):
        found = progress_ratio(example_fit, one, base, kappa=kappa, coherence=0.02, level=0.95)
        assert found.value == pytest.approx(float(symbolic.progress_ratio(sides[0], sides[1], kappa, 0.02)))
        assert found.value is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
    top, bottom = turn_parts(one.moments, base.moments)
    turn = turning_kappa(example_fit, one, base, coherence=0.02, level=0.95)
    assert turn is not None
    if top / bottom <= 0.0:
        assert turn.kappa is None
        return
    assert turn.kappa is not None
    assert turn.kappa.value is not None
    assert turn.kappa.value == pytest.approx(float(symbolic.turning_kappa(sides[0], sides[1], 0.02)))
    ahead = turn.kappa.value * (2.0 if turn.better == "above" else 0.5)
    ratio = progress_ratio(example_fit, one, base, kappa=ahead, coherence=0.02, level=0.95).value
    assert ratio is not None
    assert ratio > 1.0


def test_progress_is_that_of_the_plan(example_fit: PassRateFit) -> None:
    """Plan and comparison use the same law, whether or not counts answer at the smaller group size."""
    rloo = get_estimator("rloo")
    moments = group_moments(example_fit, (8, 16), rloo)
    kappas = np.array([1.0, 300.0])
    table = progress(moments, np.array([1 / 8, 1 / 16]), kappas, 0.01)
    for column, kappa in enumerate(kappas):
        one, base = side_by_side(example_fit, (rloo, 16), (rloo, 8))
        found = progress_ratio(example_fit, one, base, kappa=float(kappa), coherence=0.01, level=0.95)
        assert found.value == pytest.approx(table[1, column] / table[0, column])
        assert found.high is not None
        worse = int(np.argmin(table[:, column]))
        sizes = [8, 16]
        limits = progress_limits(
            example_fit, sizes=sizes, groups=[1 / 8, 1 / 16], which=worse, estimator="rloo", kappa=float(kappa),
            coherence=0.01, level=0.95,
        )  # fmt: skip
        ends = (found.low, found.high) if worse == 1 else (1 / found.high, 1 / found.low)
        assert ends == pytest.approx(limits, rel=1e-6)


@pytest.mark.parametrize("group_size", [2, 4, 8])
def test_the_turn_of_sign_is_its_threshold(group_size: int) -> None:
    law = {g: np.array([math.comb(g, k) * 0.1**k * 0.9 ** (g - k) for k in range(g + 1)]) for g in (2, 4, 8)}
    one, base = (get_estimator(n).moments(law.__getitem__, group_size) for n in ("sign", "rloo"))
    top, bottom = turn_parts(one, base)
    assert bottom < 0.0  # sign is ahead below
    assert top / bottom == pytest.approx(sign_threshold_kappa(law.__getitem__, group_size))


@pytest.mark.parametrize("name", ["sign", "reinforce_plus_plus", "ngrpo", "maxrl"])
def test_influence_by_finite_differences(name: str) -> None:
    """Moving a little mass of F to one pass rate changes the logarithm of the worth by the influence."""
    rates, masses, g, kappa, rho = np.array([0.05, 0.4, 0.9]), np.array([0.5, 0.3, 0.2]), 6, 5.0, 0.03
    estimator = get_estimator(name)

    def judged(weights: Floats) -> Judged:
        size = estimator.law_size(g)
        binomial = np.array(
            [[math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)] for p in rates]
        )
        law = weights @ binomial
        mean = float(weights @ rates)
        moments = estimator.moments(lambda _: law, g)
        return Judged(estimator=estimator, group_size=g, moments=moments, mean_pass_rate=mean, _law=law)

    here = judged(masses)
    influence = here.influence(kappa, rho, rates)
    assert float(masses @ influence) == pytest.approx(0.0, abs=1e-9)
    for j in range(3):
        step = 1e-5
        ends = [judged((1 - e) * masses + e * np.eye(3)[j]).worth(kappa, rho) for e in (step, -step)]
        assert (math.log(ends[0]) - math.log(ends[1])) / (2 * step) == pytest.approx(influence[j], rel=1e-4, abs=1e-5)


def test_same_plans_are_found() -> None:
    assert same_plan(get_estimator("dr_grpo"), get_estimator("rloo"), 8, 0.3)
    assert same_plan(get_estimator("grpo"), get_estimator("dapo"), 8, 0.3)
    assert same_plan(get_estimator("grpo"), get_estimator("rloo"), 3, 0.3)  # one count of each kind
    assert not same_plan(get_estimator("grpo"), get_estimator("rloo"), 4, 0.3)
    assert not same_plan(get_estimator("sign"), get_estimator("rloo"), 4, 0.3)
    assert same_plan(get_estimator("sign"), get_estimator("reinforce_plus_plus"), 4, 0.5)


def test_effects(example_fit: PassRateFit) -> None:
    def effect(*limits: tuple[float, float | None]) -> Effect:
        ratios = [AtKappa(kappa=i, ratio=Ranged(value=low, low=low, high=high)) for i, (low, high) in enumerate(limits)]
        return effect_of(example_fit, [8], ratios, 0.95)

    assert effect((1.01, 1.2), (1.3, 2.0)) is Effect.HELPS
    assert effect((1.01, 1.05), (1.0, 1.09)) is Effect.ABOUT_THE_SAME
    assert effect((0.5, 0.8), (0.2, 0.99)) is Effect.DOES_NOT_HELP
    assert effect((0.5, 0.8), (1.2, 1.3)) is Effect.DEPENDS_ON_KAPPA
    assert effect((0.5, 1.8)) is Effect.CANNOT_TELL
    assert effect((1.1, None)) is Effect.HELPS
    assert effect() is Effect.CANNOT_TELL
    assert all(e.sentence.endswith((".", "kappa.")) for e in Effect)


def beta_fits(a: float, b: float, prompts: int, pilots: int, seed: int) -> list[PassRateFit]:
    """Fits to pilots of 8 rollouts a prompt, pass rates Beta(a, b)."""
    rng = np.random.default_rng(seed)
    draws = (rng.binomial(8, rng.beta(a, b, prompts)) for _ in range(pilots))
    return [fit_pass_rates(Pilot.from_counts(passes, 8)) for passes in draws]


def test_no_turn_lies_where_the_ratio_is_known() -> None:
    """The limits of a turn and the joint limits of the ratios never contradict each other, however flat the turn."""
    flat = 0
    for fit in beta_fits(0.5, 0.5, 400, 3, 1191):
        found = compare_remedies(fit, 8)
        rows: list[EstimatorEffect | SamplingEffect] = [*found.estimators[1:], *found.sampling[2:]]
        for row in rows:
            if row.turn is None or row.turn.kappa is None:
                continue
            kappa = row.turn.kappa
            assert kappa.value is not None
            high = math.inf if kappa.high is None else kappa.high
            assert kappa.low <= kappa.value <= high
            flat += kappa.low == 0.0
            for at in row.progress or ():
                sure = at.ratio.low > 1.0 or (at.ratio.high is not None and at.ratio.high < 1.0)
                assert not (sure and kappa.low < at.kappa < high), (row.name, at, kappa)
    assert flat  # reinforce and nsr: perhaps nowhere


def test_the_limits_of_a_turn_are_where_the_ratio_leaves_one(example_fit: PassRateFit) -> None:
    for name in ("sign", "f_grpo"):
        one, base = side_by_side(example_fit, (get_estimator(name), 8), (get_estimator("rloo"), 8))
        turn = turning_kappa(example_fit, one, base, coherence=0.0, level=0.95, shown=[1.0, 300.0])
        assert turn is not None
        assert turn.kappa is not None
        assert turn.kappa.high is not None
        at_low, at_high = (
            progress_ratio(example_fit, one, base, kappa=k, coherence=0.0, level=0.95)
            for k in (turn.kappa.low, turn.kappa.high)
        )
        if name == "sign":
            assert at_low.low == pytest.approx(1.0, abs=1e-3)  # ahead below, and no longer surely
        else:
            assert (turn.kappa.low, at_low.low < 1.0) == (0.0, True)  # perhaps ahead nowhere
        assert at_high.high == pytest.approx(1.0, abs=1e-3)


def test_ratios_rest_on_one_law() -> None:
    """Beyond the counts both sides are of the likely law, so the value is not at or beyond a limit of its own."""
    designs = [("rloo", 4), ("rloo", 16), ("rloo", 32), ("ngrpo", 8), ("maxrl", 16)]
    worst = 0.0
    for fit in beta_fits(0.15, 1.5, 400, 2, 1192) + beta_fits(0.5, 0.5, 400, 2, 1193):
        for name, size in designs:
            one, base = side_by_side(fit, (get_estimator(name), size), (get_estimator("rloo"), 8))
            found = progress_ratio(fit, one, base, kappa=17.3, coherence=0.0, level=0.95)
            assert found.value is not None
            assert found.high is not None
            left, right = math.log(found.value / found.low), math.log(found.high / found.value)
            worst = max(worst, abs(right - left) / (right + left))
    assert worst < 0.95


def test_laws_of_one_thin_into_each_other(example_fit: PassRateFit) -> None:
    for sizes in ([4, 8, 2], [4, 16, 8]):
        laws = laws_of_one(example_fit, sizes)
        assert set(laws) == set(sizes)
        means = [float(law @ np.arange(law.size)) / (law.size - 1) for law in laws.values()]
        assert means == pytest.approx([means[0]] * 3, rel=1e-9)
        seconds = [float(law @ (np.arange(law.size) * np.arange(-1, law.size - 1))) for law in laws.values()]
        pairs = [s / (law.size - 1) / max(law.size - 2, 1) for s, law in zip(seconds, laws.values(), strict=True)]
        assert pairs == pytest.approx([pairs[0]] * 3, rel=1e-9)  # E p^2 of one law
    one, base = side_by_side(example_fit, (get_estimator("rloo"), 8), (get_estimator("rloo"), 8))
    assert log_ratio(one, base, 1.0, 0.0) == 0.0


@pytest.mark.slow
def test_limits_of_ratios_hold_as_often_as_they_say() -> None:
    """100 pilots of 150 prompts x 8; the limits at 90 % miss at most 21 times (chance of more below 1e-3)."""
    rng, a, b, g = np.random.default_rng(1190), 0.5, 1.0, 8
    from scipy.special import betaln, comb

    def law(size: int) -> Floats:
        k = np.arange(size + 1.0)
        pmf: Floats = comb(size, k) * np.exp(betaln(k + a, size - k + b) - betaln(a, b))
        return pmf

    names = ("sign", "maxrl", "reinforce_plus_plus")
    truth = {}
    for name in (*names, "rloo"):
        m = get_estimator(name).moments(law, g)
        truth[name] = m.signal**2 / float(m.variance(np.array(17.0), 0.0))
    missed = dict.fromkeys(names, 0)
    for _ in range(100):
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(8, rng.beta(a, b, 150)), 8))
        base = Judged.of(fit, get_estimator("rloo"), g)
        for name in names:
            one = Judged.of(fit, get_estimator(name), g)
            found = progress_ratio(fit, one, base, kappa=17.0, coherence=0.0, level=0.9)
            assert found.high is not None
            missed[name] += not found.low <= truth[name] / truth["rloo"] <= found.high
    assert max(missed.values()) <= 21, missed


# eq. 120: hints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", [Hint(odds=3.0, share=0.5), Hint(gain=0.2, tries=3), Hint(odds=0.5, tries=2)])
def test_eq_120_against_symbols(hint: Hint) -> None:
    p = np.array([0.0, 0.01, 0.2, 0.75, 1.0])

    def shift(rate: sp.Expr) -> sp.Expr:
        if hint.odds is not None:
            return symbolic.shifted_odds(rate, hint.odds)
        return rate + (1 - rate) * symbolic.exact(hint.gain)

    found = hinted_parts(hint, 4)
    values = found["dead"].phi(p, 1 - p)
    for i, rate in enumerate(p):
        exact = sp.Rational(float(rate))
        truth = symbolic.hinted_dead(exact, 4, shift, symbolic.exact(hint.share), hint.tries)
        assert values[i] == pytest.approx(float(truth), abs=1e-12)
    split = found["all-fail"].phi(p, 1 - p) + found["all-pass"].phi(p, 1 - p)
    assert values == pytest.approx(split)


def test_eq_120_always_against_symbols_and_can_make_more_dead_groups() -> None:
    hint = Hint(odds=8.0, share=0.25, when="always")
    for rate in (0.05, 0.5, 0.8):
        p = np.array([rate])
        truth = symbolic.always_hinted_dead(
            sp.Rational(rate), 4, lambda x: symbolic.shifted_odds(x, 8), sp.Rational(1, 4)
        )
        assert hinted_parts(hint, 4)["dead"].phi(p, 1 - p)[0] == pytest.approx(float(truth))
    easy = np.array([0.8])
    whole = Hint(odds=8.0, when="always")
    assert hinted_parts(whole, 4)["dead"].phi(easy, 1 - easy)[0] > 0.8**4 + 0.2**4 + 0.4


def test_eq_120_by_simulation() -> None:
    """All-fail groups are drawn again with up to 3 hints; one that mixes is kept."""
    rng, g, groups, hint = np.random.default_rng(120), 4, 200_000, Hint(odds=4.0, share=0.6, tries=3)
    p = rng.choice([0.05, 0.3], groups)
    passes = rng.binomial(g, p)
    again = (passes == 0) & (rng.random(groups) < hint.share)
    better, _ = hint.shifted(p, 1 - p)
    drawn = rng.binomial(g, better[:, None], (groups, 3))
    mixes = ((drawn > 0) & (drawn < g)).any(axis=1)
    dead_after = ((passes == 0) & ~(again & mixes)) | (passes == g)
    phi = hinted_parts(hint, g)
    rates = np.array([0.05, 0.3])
    assert_mean(dead_after, float(phi["dead"].phi(rates, 1 - rates).mean()), catches=0.01)
    assert_mean(again, float(phi["again"].phi(rates, 1 - rates).mean()), catches=0.01)


@given(st.floats(0, 1), st.integers(2, 20), st.floats(0.01, 50), st.floats(0, 1), st.integers(1, 5))
def test_a_hint_after_failing_never_makes_more_dead_groups(p: float, g: int, odds: float, w: float, tries: int) -> None:
    rate = np.array([p])
    hint = Hint(odds=odds, share=w, tries=tries)
    parts = {kind: float(f.phi(rate, 1 - rate)[0]) for kind, f in hinted_parts(hint, g).items()}
    now = p**g + (1 - p) ** g
    assert -1e-12 <= parts["dead"] <= now + 1e-12
    more = hinted_parts(Hint(odds=odds, share=w, tries=tries + 1), g)["dead"].phi(rate, 1 - rate)[0]
    assert more <= parts["dead"] + 1e-12


def test_odds_leave_a_prompt_that_never_passes_and_gain_does_not() -> None:
    p, q = np.array([0.0]), np.array([1.0])
    assert hinted_parts(Hint(odds=1e6), 8)["dead"].phi(p, q)[0] == 1.0
    assert hinted_parts(Hint(gain=0.5), 8)["dead"].phi(p, q)[0] < 0.02


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "odds or gain"),
        ({"odds": 3.0, "gain": 0.1}, "odds or gain"),
        ({"odds": 0.0}, "hint odds"),
        ({"odds": math.inf}, "hint odds"),
        ({"gain": 1.5}, "hint gain"),
        ({"odds": 2.0, "share": -0.1}, "hint share"),
        ({"odds": 2.0, "when": "later"}, "hint when must be one of all-fail, always"),
        ({"odds": 2.0, "when": "always", "tries": 2}, "hint tries"),
        ({"odds": 2.0, "tries": 0}, "hint tries"),
    ],
)
def test_hints_are_checked(options: dict[str, float], words: str) -> None:
    with pytest.raises(DomainError, match=words):
        Hint(**options)  # type: ignore[arg-type]


# eq. 121: variants ----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 0.999), min_size=2, max_size=5), st.integers(1, 6))
def test_eq_121_pooled_variants_are_dead_no_more_often_than_one_prompt_at_their_mean(p: list[float], g: int) -> None:
    rates = [sp.Rational(x) for x in p]
    mean = sum(p) / len(p)
    pooled = float(symbolic.pooled_dead(rates, g))
    assert pooled <= mean ** (g * len(p)) + (1 - mean) ** (g * len(p)) + 1e-12


def test_eq_121_without_spread_is_a_larger_group() -> None:
    p = np.array([0.0, 0.03, 0.5, 0.99, 1.0])
    assert pooled_parts(4, 3, 0.0)["dead"].phi(p, 1 - p) == pytest.approx(p**12 + (1 - p) ** 12)


@pytest.mark.parametrize("spread", [0.5, 2.0, 4.0])
def test_eq_121_the_mean_over_variants_against_an_integral(spread: float) -> None:
    from scipy.integrate import quad
    from scipy.special import expit, logit
    from scipy.stats import norm

    for rate in (0.02, 0.5, 0.9):
        passes, fails = variant_agreement(np.array([rate]), np.array([1 - rate]), 8, spread)
        for sign, found in ((1, passes[0]), (-1, fails[0])):

            def integrand(z: float, side: int = sign, at: float = float(logit(rate))) -> float:
                return float(norm.pdf(z) * expit(side * (at + spread * z)) ** 8)

            assert found == pytest.approx(quad(integrand, -10, 10, epsabs=1e-12, limit=200)[0], abs=1e-9)


def test_eq_121_by_simulation() -> None:
    rng, g, m, spread, groups = np.random.default_rng(121), 3, 4, 1.2, 200_000
    p = rng.choice([0.04, 0.5], groups)
    z = rng.normal(0.0, spread, (groups, m))
    z[:, 0] = 0.0  # the prompt itself
    odds = (p / (1 - p))[:, None] * np.exp(z)
    passes = rng.binomial(g, odds / (1 + odds)).sum(axis=1)
    rates = np.array([0.04, 0.5])
    parts = pooled_parts(g, m, spread)
    assert_mean(passes == 0, float(parts["all-fail"].phi(rates, 1 - rates).mean()), catches=0.01)
    assert_mean((passes == 0) | (passes == g * m), float(parts["dead"].phi(rates, 1 - rates).mean()), catches=0.01)


def test_spread_helps_hard_prompts_and_hurts_middle_ones() -> None:
    for rate, fewer in ((0.01, True), (0.5, False)):
        p = np.array([rate])
        even, spread = (pooled_parts(4, 4, s)["dead"].phi(p, 1 - p)[0] for s in (0.0, 1.0))
        assert bool(spread < even) is fewer


# eq. 122: rollouts of a mixed group -----------------------------------------------------------------------------------


def test_eq_122_by_drawing_until_one_group_mixes() -> None:
    rng, g, hint = np.random.default_rng(122), 4, Hint(odds=5.0, tries=2)
    p = 0.08
    better = float(hint.shifted(np.array([p]), np.array([1 - p]))[0][0])
    prompts = 400_000
    passes = rng.binomial(g, p, prompts)
    again = passes == 0
    hinted = rng.binomial(g, better, (prompts, 2))
    mixed = ((passes > 0) & (passes < g)) | (again & ((hinted > 0) & (hinted < g)).any(axis=1))
    rollouts = g * (1 + 2 * again)
    cost = rollouts.sum() / mixed.sum()
    rate = np.array([p])
    parts = hinted_parts(hint, g)
    drawn = symbolic.hinted_rollouts(g, float(parts["again"].phi(rate, 1 - rate)[0]), 2)
    truth = float(symbolic.rollouts_per_mixed(drawn, float(parts["dead"].phi(rate, 1 - rate)[0])))
    residual = rollouts - truth * mixed  # mean 0: false alarm about 6e-7
    assert_mean(residual, 0.0, catches=0.1)
    assert cost == pytest.approx(truth, rel=0.02)


def test_per_mixed_takes_the_ends_that_make_it_so() -> None:
    cost = per_mixed(Ranged(value=8.0, low=8.0, high=10.0), Ranged(value=0.5, low=0.25, high=0.8))
    assert (cost.value, cost.low, cost.high) == pytest.approx((16.0, 32 / 3, 50.0))
    sure = per_mixed(Ranged.exact(8.0), Ranged(value=1.0, low=0.9, high=1.0))
    assert (sure.value, sure.high) == (None, None)
    assert sure.low == pytest.approx(80.0)
    assert per_mixed(Ranged.exact(8.0), Ranged.exact(1.0)).low == math.inf


# the comparison -------------------------------------------------------------------------------------------------------


def test_the_example(compared: RemedyComparison, example_fit: PassRateFit) -> None:
    assert compared.estimators[0].name == "rloo"
    assert {e.name for e in compared.estimators} == set(ESTIMATORS)
    sign = compared.estimator("sign")
    assert sign.live == Ranged.exact(1.0)
    assert sign.live_by_kind is not None
    dead = example_fit.dead(8)
    assert sign.live_by_kind.all_fail.value == dead.all_fail
    assert sign.live_by_kind.mixed.value == pytest.approx(dead.mixed)
    assert (sign.all_fail_advantage, sign.all_pass_advantage) == (-1.0, 1.0)
    assert sign.effect is Effect.DOES_NOT_HELP
    assert [round(at.ratio.value or 0, 2) for at in sign.progress] == [0.78, 0.54, 0.52]
    assert sign.turn is not None
    assert sign.turn.kappa is not None
    assert (sign.turn.better, round(sign.turn.kappa.value or 0, 3)) == ("below", 0.242)
    grpo = compared.estimator("grpo")
    assert (grpo.all_fail_advantage, grpo.all_pass_advantage, grpo.effect) == (0.0, 0.0, Effect.ABOUT_THE_SAME)
    assert grpo.live is not None
    assert grpo.live.value == pytest.approx(dead.mixed)
    assert compared.estimator("dapo").same_plan_as == "grpo"
    assert compared.estimator("dr_grpo").same_plan_as == "rloo"
    assert any("Would not help" in sentence and "sign" in sentence for sentence in compared.verdict)
    with pytest.raises(KeyError, match="nope"):
        compared.estimator("nope")
    assert str(compared).startswith("Nothing here is sure to make more progress per rollout than rloo at every kappa")
    assert compared.verdict[1].startswith("Outside kappa 1 to 300, but near it, these would help: f_grpo below 0.107 [")
    assert "sign below 0.242 [0.2" in compared.verdict[1]
    assert compared.verdict[-1].startswith(
        "At G = 8, 0.439 [0.411, 0.467] of the groups are dead: 0.363 all-fail, 0.076"
    )


def test_sampling_rows(compared: RemedyComparison) -> None:
    now, refill, *sizes = compared.sampling
    assert [s.group_size for s in sizes] == [4, 16, 32]
    assert sizes[-1].status is FitStatus.EXTRAPOLATED  # 32 of 8
    assert refill.rollouts_per_mixed == now.rollouts_per_mixed
    assert refill.effect is Effect.ABOUT_THE_SAME
    assert now.mixed_per_step is not None
    assert now.mixed_per_step.value == pytest.approx(128 * 0.560794, rel=1e-5)
    assert sizes[0].turn is not None
    assert sizes[0].turn.better == "below"
    plan = gp.refill(compared.fit, prompts_per_step=128, group_size=8)
    assert refill.rollouts.value == pytest.approx(8 * plan.at_value.one_by_one.mean / 128)


def test_ratios_are_joint(example_fit: PassRateFit) -> None:
    one = compare_remedies(example_fit, 8, kappa=10.0, estimators=["sign"], group_sizes=[])
    many = compare_remedies(example_fit, 8, kappa=(1.0, 300.0), estimators=["sign", "maxrl", "grpo"])
    narrow, wide = (c.estimator("sign").progress[0].ratio for c in (one, many))
    again = compare_remedies(example_fit, 8, kappa=(1.0, 300.0), estimators=["sign"], group_sizes=[])
    assert again.estimator("sign").progress[0].ratio.low > wide.low
    assert narrow.high is not None
    assert len(one.sampling) == 2


def test_distinct_ratios_are_counted(compared: RemedyComparison, example_fit: PassRateFit) -> None:
    """Those that are shown: neither the reference, nor what has its plan, nor refill, nor what cannot be judged."""
    own = [e for e in compared.estimators[1:] if e.same_plan_as is None and not e.refused]
    assert len(own) == 11
    assert any("hold for all 42 of the tables at once" in line for line in compared.assumptions)  # (11 + 3) x 3
    doubled = compare_remedies(example_fit, 8, estimators=["grpo", "dapo", "opo"], group_sizes=[16], variants=2)
    assert any("hold for all 6 of" in line for line in doubled.assumptions)
    spread = compare_remedies(example_fit, 8, estimators=[], group_sizes=[16], variants=4, variant_spread=1.0)
    assert any("hold for all 3 of" in line for line in spread.assumptions)


def test_what_lies_near_the_range_is_said(example_fit: PassRateFit) -> None:
    names = ["sign", "nsr"]
    near = compare_remedies(example_fit, 8, kappa=(1.0, 300.0), estimators=names, group_sizes=[])
    assert near.verdict[1].startswith("Outside kappa 1 to 300, but near it, these would help: sign below 0.242 [")
    assert "nsr" not in near.verdict[1]  # .009 is not near
    far = compare_remedies(example_fit, 8, kappa=(10.0, 300.0), estimators=names, group_sizes=[])
    assert not any("near it" in line for line in far.verdict)
    low = compare_remedies(example_fit, 8, kappa=0.1, estimators=["sign"], group_sizes=[])
    assert any("Outside kappa 0.1, but near it, these stop helping: sign above 0.242" in line for line in low.verdict)
    above = compare_remedies(example_fit, 8, kappa=1.0, estimators=["rloo"], group_sizes=[4])
    assert any("these stop helping: G = 4 above 3.46 [" in line for line in above.verdict)


def test_coherence_and_prompts_give_the_noise_of_a_step(example_fit: PassRateFit) -> None:
    found = compare_remedies(example_fit, 8, kappa=5.0, coherence=0.01, prompts_per_step=64, estimators=["sign"])
    (m,) = group_moments(example_fit, (8,), get_estimator("sign"))
    expected = float(m.variance(np.array(5.0), 0.01)) / (64 * 0.01 * m.signal**2)
    assert found.estimator("sign").progress[0].noise_to_signal == pytest.approx(expected)
    quiet = compare_remedies(example_fit, 8, kappa=1.0, coherence=0.3, prompts_per_step=4096, estimators=["sign"])
    assert any("noise to signal of a step falls to" in line for line in quiet.assumptions)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((50, 0, 0, 0, 0), "push every rollout down"),
        ((0, 0, 0, 0, 50), "push every rollout up"),
        ((30, 0, 0, 0, 30), "no prompt of the pilot is mixed"),
    ],
)
def test_no_mixed_prompt(counts: tuple[int, ...], words: str) -> None:
    found = compare_remedies(fit_of(*counts), 4, hint=Hint(gain=0.1), variants=2, variant_spread=0.5)
    assert words in found.verdict[0]
    assert found.verdict[0].startswith("Cannot tell")
    assert not found.decided
    assert all(e.effect is Effect.CANNOT_TELL for e in found.estimators)
    assert all(s.effect in (None, Effect.CANNOT_TELL) for s in found.sampling)
    assert found.estimator("sign").live == Ranged.exact(1.0)
    assert found.sampling[0].rollouts_per_mixed.value is None
    live = found.estimator("reinforce_plus_plus").live
    assert live is not None
    assert live.high == 1.0  # silent in this batch alone


def test_one_rollout_a_prompt() -> None:
    found = compare_remedies(fit_of(30, 30), 4, hint=Hint(odds=2.0), variants=2, variant_spread=1.0)
    assert "One rollout per prompt" in found.verdict[0]
    assert found.estimator("rloo").signal is None
    assert found.estimator("sign").progress[0].ratio == Ranged(value=None, low=0.0, high=None)
    assert all(s.dead.value is None or s.name == "refill" for s in found.sampling)


def test_few_prompts_decide_nothing() -> None:
    found = compare_remedies(fit_of(3, 5, 4, 3, 5), 4)
    assert all(e.effect is Effect.CANNOT_TELL for e in found.estimators)
    assert found.assumptions[0].startswith("Under 30 prompts")


@pytest.mark.parametrize("kappa", [0.0, 1e12])
def test_any_kappa(kappa: float, example_fit: PassRateFit) -> None:
    found = compare_remedies(example_fit, 8, kappa=kappa)
    assert all(math.isfinite(at.ratio.value or 0) for e in found.estimators for at in e.progress)
    sign = found.estimator("sign").progress[0].ratio.value
    assert sign is not None
    assert (sign > 1.0) is (kappa == 0.0)


def test_far_group_sizes_carry_their_status(example_fit: PassRateFit) -> None:
    found = compare_remedies(example_fit, 64)
    assert found.dead.status is FitStatus.EXTRAPOLATED
    assert "(EXTRAPOLATED)" in found.verdict[-1]


def test_a_reference_that_is_not_centred(example_fit: PassRateFit) -> None:
    found = compare_remedies(example_fit, 8, reference="sign", estimators=["rloo"], kappa=10.0)
    assert found.estimators[0].name == "sign"
    assert found.estimator("rloo").effect is Effect.HELPS
    assert "Most helpful in this model: rloo" in found.verdict[0]
    assert found.sampling[1].progress is None


def test_refused_estimators_say_why(example_fit: PassRateFit) -> None:
    found = compare_remedies(example_fit, 4)
    assert "needs groups of at least 5" in found.estimator("passk").refused
    assert found.estimator("passk").live is None
    named = compare_remedies(example_fit, 4, estimators=["passk:2"])
    assert not named.estimator("passk:k=2").refused
    led = compare_remedies(example_fit, 8, reference="passk", estimators=["rloo"], kappa=10.0)
    assert [s.group_size for s in led.sampling] == [8, 8, 16, 32]  # no group of 4 has an advantage


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group_size": 1}, "group_size must be at least 2"),
        ({"group_size": 5000}, "group_size"),
        ({"estimators": ["nope"]}, "estimator must be one of"),
        ({"estimators": "sign"}, "list of names"),
        ({"reference": "nope"}, "estimator must be one of"),
        ({"reference": "passk", "group_size": 4}, "reference: passk needs groups of at least 5"),
        ({"reference": "passk", "group_sizes": [4]}, "group_size must be at least 5"),
        ({"kappa": -1.0}, "kappa"),
        ({"coherence": 1.0}, "coherence"),
        ({"variants": 1}, "variants must be at least 2"),
        ({"variant_spread": 1.0}, "variant_spread needs variants"),
        ({"variants": 2, "variant_spread": 50.0}, "variant_spread must be at most"),
        ({"group_sizes": "4,8"}, "list of whole numbers"),
        ({"prompts_per_step": 0}, "prompts_per_step"),
        ({"hint": 3.0}, "hint"),
        ({"level": 1.0}, "level"),
    ],
)
def test_bad_options_are_one_line(example_fit: PassRateFit, options: dict[str, object], words: str) -> None:
    given_options = {"group_size": 8, **options}
    with pytest.raises(DomainError, match=words) as caught:
        compare_remedies(example_fit, **given_options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_mixed_groups_alone_are_refused() -> None:
    fit = fit_pass_rates(Pilot.from_counts([1, 2, 3] * 20, 4), truncated=True)
    with pytest.raises(PilotError, match="needs all groups"):
        compare_remedies(fit, 4)


def test_limits_of_live_rollouts_agree_both_ways(example_fit: PassRateFit) -> None:
    """Sign on mixed and all-fail groups alone (nsr): the share is 1 less the passes, found by weights."""
    live, parts = live_rollouts(example_fit, get_estimator("nsr"), 8, 0.95)
    fails = mean_of_weights(example_fit, np.arange(9)[::-1] / 8, 0.95, "fails")
    assert live.value == pytest.approx(fails.value)
    assert live.low == pytest.approx(fails.low)
    assert parts.all_pass.value == 0.0


# page, JSON, picture --------------------------------------------------------------------------------------------------


def test_the_page_says_the_verdict_first(run: Run, example_file: object) -> None:  # noqa: F811
    asked = ("remedies", example_file, "--group-size", 8, "--hint-odds", 3, "--hint-share", 0.5, "--variants", 4)
    answer = run(*asked, "--details")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("Answer   Nothing here is sure to make more progress per rollout than rloo at")
    assert max(map(len, lines)) <= 80
    text = " ".join(answer.out.split())
    for words in (
        "- sign 0.78 [",
        "= grpo",
        "Assumed: odds of a pass x 3 on 0.5 of the prompts, drawn again after an all-fail group",
        "Assumed: all variants of a prompt have its pass rate",
        "73.8 % against 28.4 %",
        ".158 to .192",
        "grpo-plan temperature",
        "sign 1 down by 1 up by 1",
        "= about the same: all within 0.9 to 1.1",
        "kappa 17.3 is the middle of the range on a log scale",
        "sign below 0.242 [0.2",
    ):
        assert words in text, words
    short = run(*asked).out
    assert len(short.splitlines()) < len(lines) - 35
    assert "--details" in short
    for title in ("What each climbs", "What others found", "of its signal and"):
        assert title in text
        assert title not in " ".join(short.split())


def test_json_is_stable_and_agrees_with_the_library(run: Run, example_file: object, compared: RemedyComparison) -> None:  # noqa: F811
    found = json.loads(run("remedies", example_file, "--group-size", 8, "--prompts-per-step", 128, "--json").out)
    assert (found["schema"], found["command"]) == (1, "remedies")
    assert (
        list(found)[2:]
        == (
            "group_size reference level kappa coherence prompts_per_step verdict dead estimators sampling elsewhere claims "
            "assumptions pilot model"
        ).split()
    )
    sign = next(e for e in found["estimators"] if e["name"] == "sign")
    library = compared.estimator("sign").progress[0].ratio
    assert sign["progress"][0]["ratio"] == pytest.approx(
        {"value": library.value, "low": library.low, "high": library.high}
    )
    assert sign["turn"]["better"] == "below"
    assert {s["name"] for s in found["sampling"]} == {"now", "refill", "G = 4", "G = 16", "G = 32"}
    assert found["verdict"] == list(compared.verdict)


def test_json_of_a_hopeless_pilot_is_finite(run: Run) -> None:  # noqa: F811
    from pathlib import Path

    Path("p.jsonl").write_text("".join(json.dumps({"prompt_id": i, "n": 4, "k": 0}) + "\n" for i in range(40)))
    answer = run("remedies", "p.jsonl", "--group-size", 4, "--json")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert found["sampling"][0]["rollouts_per_mixed"]["high"] is None
    page = run("remedies", "p.jsonl", "--group-size", 4).out
    assert len(page.splitlines()) < 12
    assert "?" not in page
    assert "No rollout passed" in " ".join(page.split())
    stated = run("remedies", "p.jsonl", "--group-size", 4, "--hint-gain", 0.2).out
    assert "hint  0." in stated


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hint-share", "0.5"], "need a hint"),
        (["--hint-odds", "3", "--hint-gain", "0.2"], "Give one of them"),
        (["--hint-odds", "-3"], "hint odds"),
        (["--kappa", "x"], "--kappa"),
        (["--variants", "1"], "variants"),
        (["--estimator", "nope"], "estimator must be one of"),
        (["--truncated"], "remedies cannot take --truncated"),
    ],
)
def test_bad_options_of_the_command(run: Run, example_file: object, options: list[str], words: str) -> None:  # noqa: F811
    answer = run("remedies", example_file, "--group-size", 8, *options)
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.strip().count("\n") == 0 or "note" in answer.err


def at_curves(ax: Any) -> set[str]:
    """Names at curves; the line below the title is none."""
    return {text.get_text() for text in ax.texts if not text.get_text().startswith("bars: ")}


def test_the_picture(run: Run, example_file: object, compared: RemedyComparison) -> None:  # noqa: F811
    from pathlib import Path

    answer = run("remedies", example_file, "--group-size", 8, "--estimator", "sign", "--plot", "a.png")
    assert answer.code == 0
    assert Path("a.png").stat().st_size > 5000
    ax = plot_remedies(compared)
    names = {str(line.get_label()) for line in ax.get_lines() if not str(line.get_label()).startswith("_")}
    assert names >= {"sign", "grpo", "ngrpo"}
    assert len(names) <= 6
    assert "dapo" not in names
    assert at_curves(ax) == {*names, "rloo"}
    bars = [float(np.asarray(line.get_xdata())[0]) for line in ax.get_lines() if line.get_linewidth() == 2.4]
    assert bars
    assert len(set(bars)) == len(bars)  # none hides another
    wanted = plot_remedies(compared, estimators=["nsr", "maxrl"])
    assert at_curves(wanted) == {"rloo", "nsr", "maxrl"}
    sizes = plot_group_sizes(compared)
    assert at_curves(sizes) == {"now, refill (G = 8)", "G = 4", "G = 16", "G = 32"}
    for draw in (plot_remedies, plot_group_sizes):
        draw(compare_remedies(fit_of(50, 0, 0), 2))  # nothing to draw is no error


@pytest.mark.parametrize("name", ["sign", "maxrl"])
def test_a_plan_beside_rloo_at_its_own_pick_by_plain_arithmetic(example_fit: PassRateFit, name: str) -> None:
    """One step's gradient at a time: groups * signal**2 / variance of both, each at its own group size."""
    from grpo_plan.remedies.planned import beside

    budget, kappas = Budget(rollouts=400_000, steps=100), (2.0, 50.0)
    plan = plan_group_size(example_fit, budget=budget, estimator=name, kappa=kappas, group_sizes=[2, 4, 8, 16])
    theirs = plan_group_size(example_fit, budget=budget, estimator="rloo", kappa=kappas, group_sizes=[2, 4, 8, 16])
    found = beside(plan)
    assert found is not None
    assert found.group_size == theirs.least_regret.design.group_size
    sides = ((plan.recommended.design, name), (theirs.least_regret.design, "rloo"))
    laws = laws_of_one(example_fit, {get_estimator(of).law_size(design.group_size) for design, of in sides})
    for at in found.progress:
        worth = []
        for design, of in sides:
            m = get_estimator(of).moments(laws.__getitem__, design.group_size)
            worth.append(design.prompts_per_step * m.signal**2 / (m.signal_square + at.kappa * m.noise))
        assert at.ratio.value == pytest.approx(worth[0] / worth[1])
        assert at.ratio.value is not None
        assert at.ratio.high is not None
        assert at.ratio.low < at.ratio.value < at.ratio.high
    assert beside(theirs) is None
