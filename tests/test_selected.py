"""Section 17 of theory.md: prompts that were removed by their own count. Exact cases, limits, simulation, refusals.

Each exact test names the changes of the formula that it is there to catch ("Mutants").
"""

# mypy: disable-error-code="attr-defined, no-untyped-call"
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import binom

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.cli.main import main
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting import FitStatus, fit_pass_rates, functionals
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.fitting.selected import Selected, kept_chance, kept_passes, kept_probability
from grpo_plan.fitting.selected_fit import OTHER_SIZES, SelectedFit, looks_selected
from grpo_plan.fitting.thresholds import chi_square_quantile
from grpo_plan.pilot import Pilot
from grpo_plan.planning.allocation import allocate_rollouts
from grpo_plan.planning.kappa import measure_kappa
from grpo_plan.planning.mix import plan_mix
from grpo_plan.provenance import REMOVED, Provenance, merged
from tests.helpers import assert_precise, enumerated, outcomes

Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=12)
RATES = [sp.Rational(1, 7), sp.Rational(1, 2), sp.Rational(4, 5)]
WEIGHTS = [sp.Rational(1, 4), sp.Rational(5, 12), sp.Rational(1, 3)]
ENDS = {"all-pass": (False, True), "all-fail": (True, False), "dead": (True, True)}


def gone(removed: str, n: int) -> list[int]:
    return [k for k, out in zip((0, n), ENDS[removed], strict=True) if out]


def has_passes(k: int, rewards: tuple[int, ...]) -> bool:
    return sum(rewards) == k


def cut(rates: Floats, n: int, removed: str, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Counts and pass rates of the prompts that are kept."""
    k = np.random.default_rng(seed).binomial(n, rates)
    keep = ~np.isin(k, gone(removed, n))
    return k[keep], rates[keep]


def example(removed: str = "all-pass", prompts: int = 1500) -> Pilot:
    rates = np.random.default_rng(0).beta(0.9, 0.35, 8 * prompts)
    return Pilot.from_counts(cut(rates, 8, removed, 1)[0][:prompts], 8)


# --- eq. 77: the law ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", REMOVED)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_law_of_a_kept_prompt_is_that_of_all_given_kept(removed: str, n: int) -> None:
    """Mutants: p^n for q^n; no division by s; k = 0 or n as the limit at an end; a limit where nothing was removed."""
    p, out = Fraction(1, 5), gone(removed, n)
    kept = [rewards for rewards in outcomes(n) if sum(rewards) not in out]
    chance = enumerated(lambda rewards: rewards in kept, p, n)
    rates, x = np.array([0.0, float(p), 1.0]), sp.Symbol("x")
    passes = kept_passes(n, removed)
    assert passes.tolist() == [k for k in range(n + 1) if k not in out]
    found = kept_chance(n, passes, rates, 1.0 - rates, removed)
    assert_precise(float(kept_probability(n, rates, 1.0 - rates, removed)[1]), chance, rel=1e-14)
    for row, k in zip(found, passes.tolist(), strict=True):
        wanted = enumerated(partial(has_passes, k), p, n) / chance
        assert sp.Rational(wanted.numerator, wanted.denominator) == eq.kept_chance(k, n, sp.Rational(1, 5), out)
        assert_precise(float(row[1]), wanted, rel=1e-14)
        assert row[0] == float(sp.limit(eq.kept_chance(k, n, x, out), x, 0, "+"))
        assert row[2] == float(sp.limit(eq.kept_chance(k, n, x, out), x, 1, "-"))
    assert found.sum(axis=0) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("removed", REMOVED)
def test_no_cancellation_next_to_the_ends(removed: str) -> None:
    """Mutant: 1 - p**n."""
    small = np.array([1e-300, 1e-15, 1e-9])
    for p, q in ((small, 1.0 - small), (1.0 - small, small)):
        chance = kept_chance(8, kept_passes(8, removed), p, q, removed)
        assert chance.sum(axis=0) == pytest.approx(1.0, abs=1e-12)
    if removed != "all-fail":
        assert kept_probability(8, 1.0 - small, small, removed) == pytest.approx(8 * small, rel=1e-7)


@pytest.mark.parametrize("removed", REMOVED)
def test_new_groups_of_kept_prompts_by_enumeration(removed: str) -> None:
    """Mutants: H without s; F in place of H. Old and new rollouts of a prompt are enumerated together."""
    n, g, out = 3, 2, gone(removed, 3)
    h = eq.kept_weights(n, RATES, WEIGHTS, out)
    kept = dead = sp.Integer(0)
    for p, w in zip(RATES, WEIGHTS, strict=True):
        for rewards in outcomes(n + g):
            chance = w * p ** sum(rewards) * (1 - p) ** (n + g - sum(rewards))
            if sum(rewards[:n]) not in out:
                kept += chance
                dead += chance if len(set(rewards[n:])) == 1 else 0
    assert sp.simplify(dead / kept - eq.dead_fraction(RATES, h, g)) == 0
    for k in kept_passes(n, removed).tolist():
        law = sum(w * eq.kept_chance(k, n, p, out) for p, w in zip(RATES, h, strict=True))
        among = sum(w * eq.binomial_pmf(k, n, p) for p, w in zip(RATES, WEIGHTS, strict=True))
        assert sp.simplify(law - among / kept) == 0


def test_likelihood_is_that_of_the_kernel() -> None:
    """Mutants: rows that are not scaled back; weights that are not shares."""
    counts = np.array([4, 0, 3, 2, 0])
    selected = Selected(rollouts=4, removed="all-pass", counts=counts)
    mixing = selected.profile.mixing
    at, masses = [50, 200, 380], np.array([0.2, 0.5, 0.3])
    mine = mixing.prompts * float(mixing.weights @ np.log(mixing.likelihood[:, at] @ masses)) + mixing.log_constant
    p = mixing.passing[at]
    wanted = sum(c * np.log(masses @ (binom.pmf(k, 4, p) / (1 - p**4))) for k, c in enumerate(counts) if c)
    assert mine == pytest.approx(wanted, rel=1e-12)
    assert selected.profile.certificate < 1e-3


def largest_mean(selected: Selected, phi: Floats, threshold: float) -> float:
    """The high limit by another convex solver."""
    mixing = selected.profile.mixing
    masses = cp.Variable(mixing.passing.size, nonneg=True)
    floor = selected.profile.best.log_likelihood - threshold / (2.0 * selected.total)
    likely = [cp.sum(masses) == 1, mixing.weights @ cp.log(mixing.likelihood @ masses) >= floor]
    problem = cp.Problem(cp.Maximize(phi @ masses), likely)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@pytest.mark.parametrize("removed", REMOVED)
def test_limits_are_those_of_another_solver(removed: str) -> None:
    """Mutants: one degree of freedom; the kernel of all prompts."""
    fit = fit_pass_rates(example(removed, 400), removed=removed)
    assert isinstance(fit, SelectedFit)
    mixing = fit.selected.profile.mixing
    phi = functionals.dead(8).phi(mixing.passing, mixing.failing)
    low, high = fit.limits_of(functionals.dead(8), 0.95)
    both = chi_square_quantile(0.95, 2)
    assert high == pytest.approx(largest_mean(fit.selected, phi, both), abs=2e-4)
    assert low == pytest.approx(-largest_mean(fit.selected, -phi, both), abs=2e-4)


# --- eq. 78: smooth fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", REMOVED)
def test_smooth_fit_is_the_cut_beta(removed: str) -> None:
    """Mutants: the fit put back to F; no weight s. Integrals over p by quadrature."""
    fit = fit_pass_rates(example(removed), removed=removed, family="beta")
    a, b = fit.parameters["a"], fit.parameters["b"]
    assert a is not None
    assert b is not None

    def mean(values: Any) -> float:
        def integrand(p: float) -> float:
            s = 1.0 - sum(binom.pmf(k, 8, p) for k in gone(removed, 8))
            return float(values(p)) * float(s * np.exp((a - 1) * np.log(p) + (b - 1) * np.log1p(-p) - betaln(a, b)))

        return sum(float(quad(integrand, *ends, limit=400)[0]) for ends in ((0, 1e-6), (1e-6, 0.5), (0.5, 1 - 1e-9)))

    whole = mean(lambda p: 1.0)
    assert fit.mean_pass_rate == pytest.approx(mean(lambda p: p) / whole, abs=2e-5)
    for g in (2, 8, 20):
        wanted = mean(lambda p, g=g: p**g + (1.0 - p) ** g) / whole
        assert fit.dead(g).value == pytest.approx(wanted, abs=2e-5)
    assert 0.5 < a < 1.5
    assert 0.2 < b < 0.7


@pytest.mark.parametrize(("removed", "mirror"), [("all-pass", "all-fail"), ("dead", "dead")])
def test_passes_and_fails_may_change_places(removed: str, mirror: str) -> None:
    pilot = example(removed, 300)
    turned = Pilot.from_counts(8 - pilot.successes, 8)
    one, other = fit_pass_rates(pilot, removed=removed), fit_pass_rates(turned, removed=mirror)
    for g in (2, 8, 16):
        a, b = one.dead(g), other.dead(g)
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-4)
        assert a.all_pass == pytest.approx(b.all_fail, abs=1e-4)


@quick
@given(
    st.integers(2, 9).flatmap(lambda n: st.lists(st.integers(0, 40), min_size=n - 1, max_size=n - 1)),
    st.integers(0, 40),
    st.sampled_from(REMOVED),
)
def test_any_counts_give_values_within_limits(middle: list[int], end: int, removed: str) -> None:
    n = len(middle) + 1
    counts = [0 if out else end for out in ENDS[removed]]
    law = [counts[0], *middle, counts[1]]
    if not sum(law):
        return
    fit = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(n + 1), law), n), removed=removed)
    known = len(kept_passes(n, removed)) >= 3
    dead = [fit.dead(g) for g in (2, 3, n + 1, 4 * n)]
    for d in dead:
        assert (d.value is not None) is known
        assert 0.0 <= d.low <= d.high <= 1.0
        if d.value is not None:
            assert d.low <= d.value <= d.high
            inside = fit.identified_of(functionals.dead(d.group_size))
            assert inside is not None
            assert inside[0] - 1e-6 <= inside[1]
    if known:
        assert all((one.value or 0) >= (two.value or 0) - 1e-9 for one, two in pairwise(dead))
        for found in (fit.reward_variance(), fit.pass_at(4), fit.stopping_cost(8), fit.jensen_gap(4)):
            assert found.low <= found.value <= found.high  # type: ignore[operator]
        assert fit.group_pmf(5).sum() == pytest.approx(1.0)
    mean = fit.mean_pass_rate_interval()
    assert 0.0 <= mean.low <= mean.value <= mean.high <= 1.0


# --- simulation --------------------------------------------------------------------------------------------------

LAWS = {
    "smooth": lambda rng, size: rng.beta(0.9, 0.35, size),
    "atoms": lambda rng, size: rng.choice([0.05, 0.5, 0.95], size),
    "never": lambda rng, size: np.where(rng.random(size) < 0.3, 0.0, rng.beta(1.0, 1.0, size)),
}


@pytest.mark.parametrize("removed", ["all-pass", "dead"])
@pytest.mark.parametrize("law", LAWS)
def test_limits_hold_new_groups_of_the_kept_prompts(removed: str, law: str) -> None:
    """12 pilots. At the claimed 5 % four misses or more have chance 0.2 % a case; as measured (theory.md) far less."""
    rng = np.random.default_rng(11)
    k, p = cut(LAWS[law](rng, 300_000), 8, removed, 12)
    sizes = (4, 8, 16)
    truth = [float((p**g + (1.0 - p) ** g).mean()) for g in sizes]
    missed, ordinary, values = np.zeros(3), 0, []
    for _ in range(12):
        pilot = Pilot.from_counts(rng.choice(k, 600), 8)
        fit = fit_pass_rates(pilot, removed=removed)
        found = [fit.dead(g) for g in sizes]
        missed += [not d.low <= t <= d.high for d, t in zip(found, truth, strict=True)]
        values.append([d.value or 0.0 for d in found])
        ordinary += fit_pass_rates(pilot).dead(8).high < truth[1]
    assert missed.max() < 4
    if law == "smooth":
        assert np.mean(values, axis=0) == pytest.approx(truth, abs=0.015)
        assert ordinary == 12  # negative control: counts as they stand say too little, every time


# --- what is said, and what is refused ---------------------------------------------------------------------------


def test_the_status_says_it_and_the_check_finds_it() -> None:
    pilot = example()
    fit = fit_pass_rates(pilot, removed="all-pass")
    assert fit.status is FitStatus.SELECTED
    assert fit.status.about_source
    assert fit.dead(8).status is FitStatus.SELECTED
    assert FitStatus.LOOKS_SELECTED in fit_pass_rates(pilot).statuses
    assert FitStatus.LOOKS_SELECTED in fit_pass_rates(Pilot.from_counts(8 - pilot.successes, 8)).statuses
    both = fit_pass_rates(example("dead")).statuses
    assert FitStatus.LOOKS_FILTERED in both
    assert FitStatus.LOOKS_SELECTED not in both
    few = fit_pass_rates(Pilot.from_counts([0, 1, 2], 8), removed="all-pass")
    assert few.statuses == (FitStatus.SELECTED, FitStatus.TOO_FEW_PROMPTS)


def test_ordinary_pilots_without_one_kind_of_dead_prompt_are_not_suspected() -> None:
    """At the threshold (0.1 %) 60 pilots hold two alarms with chance 0.2 %."""
    rng, alarms, tried = np.random.default_rng(3), 0, 0
    for a, b in ((0.4, 4.0), (1.0, 8.0), (30.0, 10.0)):
        for _ in range(40):
            h = Pilot.from_counts(rng.binomial(8, rng.beta(a, b, 60)), 8).histogram()
            if int(h.successes.max()) < 8:
                tried += 1
                alarms += looks_selected(h)
    assert tried >= 30
    assert alarms < 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"removed": "easy"}, "all-pass, all-fail or dead; got 'easy'"),
        ({"removed": "all-pass", "truncated": True}, "a pilot is one or the other"),
        ({"removed": "all-pass", "dropped_groups": 3}, "a pilot is one or the other"),
        ({"removed": "all-pass", "family": "nonparametric"}, "auto, beta or tilted-beta"),
        ({"removed": "all-pass", "population": "census"}, "population must be sample"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], why: str) -> None:
    with pytest.raises(DomainError, match=why) as error:
        fit_pass_rates(example(prompts=60), **options)
    assert "\n" not in str(error.value)


def test_prompts_that_cannot_be_there_and_other_sizes() -> None:
    with pytest.raises(PilotError, match="3 with 4 of 4") as error:
        fit_pass_rates(Pilot.from_counts([4, 4, 4, 1], 4), removed="all-pass")
    assert "--removed" in str(error.value)
    with pytest.raises(PilotError, match="1 with 0 of 4"):
        fit_pass_rates(Pilot.from_counts([0, 1], 4), removed="dead")
    with pytest.raises(PilotError, match="at least 2 rollouts"):
        fit_pass_rates(Pilot.from_counts([0, 0], 1), removed="all-pass")
    with pytest.raises(PilotError, match="one number of rollouts; got 3"):
        fit_pass_rates(Pilot.from_counts([1, 1, 1], [2, 3, 4]), removed="all-pass")
    mixed = Pilot.from_counts([1] * 40 + [9], [8] * 40 + [16], stratum=["a"] * 41)
    fit = fit_pass_rates(mixed, removed="all-pass")
    assert fit.pilot.dropped == {OTHER_SIZES: 1}
    assert fit.fitted_prompts == 40


def test_what_needs_plain_counts_is_refused() -> None:
    pilot = replace(example(), stratum=np.array(["a", "b"] * 750, dtype=object))
    fit = fit_pass_rates(pilot, removed="all-pass")
    for call in (
        lambda: compare_estimates(fit, [8], 0.95),
        lambda: allocate_rollouts(fit, 10_000),
        lambda: measure_kappa({2: [1.0] * 20, 8: [0.4] * 20}, fit=fit),
    ):
        with pytest.raises(PilotError, match="decided which prompts were kept"):
            call()
    marked = replace(pilot, provenance=Provenance(removed="all-pass"))
    with pytest.raises(PilotError, match="all-pass prompts were removed"):
        plan_mix(marked, group_size=8)


def test_a_marked_pilot_is_fitted_as_such_and_planned() -> None:
    marked = replace(example(), provenance=Provenance(removed="all-pass"))
    fit = fit_pass_rates(marked)
    assert isinstance(fit, SelectedFit)
    assert fit.removed == "all-pass"
    plan = gp.plan_group_size(fit, budget=gp.Budget(rollouts=100_000, steps=100), kappa=5.0)
    assert FitStatus.SELECTED.sentence in plan.assumptions
    assert "selected: all-pass prompts were removed" in marked.provenance.warnings[0]


def test_pilots_that_lack_different_prompts_do_not_merge() -> None:
    one, other = (
        replace(example(prompts=50), provenance=Provenance(removed=removed)) for removed in ("all-pass", None)
    )
    assert Pilot.merge(one, one).provenance.removed == "all-pass"
    with pytest.raises(PilotError, match="all-pass, none"):
        Pilot.merge(one, other)
    assert merged([Provenance(removed="dead")] * 2).removed == "dead"


# --- sources -----------------------------------------------------------------------------------------------------


def polaris(path: Path, counts: NDArray[np.int64]) -> Path:
    rows = [{"problem": f"problem {i}", "difficulty": f"{k}/8", "answer": "1"} for i, k in enumerate(counts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_polaris_lacks_the_prompts_that_always_passed(tmp_path: Path) -> None:
    """The interval of D(8) holds the truth for the prompts of the data set; the counts as they stand miss it by far."""
    rates = np.random.default_rng(4).beta(0.9, 0.35, 20_000)
    k, p = cut(rates, 8, "all-pass", 5)
    truth = float((p**8 + (1.0 - p) ** 8).mean())
    pilot = gp.read_pilot(polaris(tmp_path / "p.jsonl", k[:3000]))
    assert pilot.provenance.removed == "all-pass"
    fit = fit_pass_rates(pilot)
    assert fit.statuses[:2] == (FitStatus.WEAK_PRIOR, FitStatus.SELECTED)
    assert fit.dead(8).low < truth < fit.dead(8).high
    assert fit.dead(8).value == pytest.approx(truth, abs=0.03)
    with_easy = gp.read_pilot(polaris(tmp_path / "q.jsonl", np.append(k[:100], 8)))
    assert with_easy.provenance.removed is None
    assert any("1 all-pass prompts are there" in note for note in with_easy.notes)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["grpo-plan", *arguments])
        code = 0
        try:
            main()
        except SystemExit as done:
            code = int(done.code or 0)
        return code, *capsys.readouterr()

    return call


def test_command_line(tmp_path: Path, run: Run) -> None:
    pilot = example(prompts=400)
    path = tmp_path / "t.csv"
    rows = [f"{i},{'ab'[i % 2]},8,{k}" for i, k in enumerate(pilot.successes)]
    path.write_text("\n".join(["prompt,stratum,n,k", *rows]) + "\n")
    code, out, _ = run("fit", str(path), "--removed", "all-pass", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["model"]["status"] == "SELECTED"
    assert {part["model"]["status"] for part in found["strata"]} == {"SELECTED"}
    code, out, _ = run("fit", str(path))
    assert "LOOKS_SELECTED" in out
    assert "--removed" in out
    code, out, _ = run("plan", str(path), "--removed", "all-pass", "--budget-rollouts", "100000", "--steps", "100")
    assert code == 0
    assert "SELECTED" in out
    code, _, err = run("mix", str(path), "--removed", "all-pass", "--group-size", "8")
    assert code != 0
    assert "--removed" in err
    code, out, _ = run("fit", str(polaris(tmp_path / "p.jsonl", pilot.successes)))
    assert code == 0
    assert "SELECTED" in out
    assert "all-pass prompts were removed" in out.replace("\n        ", " ")
