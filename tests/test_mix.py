"""The planned mix: limits, gain and its interval, what dropping prompts does, and what the commands print."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp

from grpo_plan import symbolic as eq
from grpo_plan.cli.mix import without_effect
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.estimators import get_estimator
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning.dropping import effect_of_dropping
from grpo_plan.planning.mix import plan_mix
from grpo_plan.planning.mix_plan import Mix
from grpo_plan.planning.mix_worth import MixWorth, dead_of, gain_of
from grpo_plan.planning.strata import named_strata
from grpo_plan.plots import draw_mix, plot_mix
from tests.conftest import pilot_of
from tests.test_cli import Run, run

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

__all__ = ["run"]  # a fixture

SHAPES = {"a": (0.5, 3.0), "b": (1.5, 1.5), "c": (3.0, 0.5)}
PILOTS = 300


def three(seed: int = 0, prompts: int = 200, rollouts: int = 8) -> Pilot:
    """Three strata with known Betas."""
    rng = np.random.default_rng(seed)
    k = np.concatenate([rng.binomial(rollouts, rng.beta(a, b, prompts)) for a, b in SHAPES.values()])
    return Pilot.from_counts(k, rollouts, stratum=np.repeat(list(SHAPES), prompts))


@pytest.fixture(scope="module")
def mix() -> Mix:
    return plan_mix(three(), group_size=4, prompts_per_step=64)


@pytest.fixture(scope="module")
def buckets() -> Mix:
    return plan_mix(pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES), buckets=True, kappa=10.0)


# the mix


def test_the_mix_moves_towards_the_stratum_that_teaches_most(mix: Mix) -> None:
    assert mix.shares["b"] > 0.5
    assert mix.kl == pytest.approx(0.1)
    assert mix.binding == ("KL bound 0.1",)
    assert mix.corner.stratum == "b"
    assert mix.corner.kl == pytest.approx(math.log(3.0))
    assert mix.sure
    assert mix.dead_after.value < mix.dead_before.value
    assert 0.0 <= mix.worst_regret < 0.01
    assert abs(mix.optimism) < 0.01
    gains = [point.gain for point in mix.frontier]
    assert gains == sorted(gains)
    assert mix.frontier[-1].max_kl is None
    assert mix.frontier[-1].gain == pytest.approx(mix.corner.gain, rel=1e-4)


@pytest.mark.parametrize("kappa", [(1.0, 300.0), (0.01, 1e4), 7.0])
@pytest.mark.parametrize("max_kl", [0.03, 0.07, math.inf])
@pytest.mark.parametrize("objective", ["signal", "dead"])
def test_the_row_of_the_bound_is_the_mix_itself(kappa: Any, max_kl: float, objective: str) -> None:
    plan = plan_mix(three(), group_size=4, kappa=kappa, max_kl=max_kl, objective=objective)
    row = next(p for p in plan.frontier if p.max_kl == (max_kl if math.isfinite(max_kl) else None))
    assert row.shares == tuple(s.after for s in plan.strata)
    assert row.kl == plan.kl
    at = plan.best_at_kappa
    assert plan.kappa.low <= at <= plan.kappa.high
    there = plan_mix(three(), group_size=4, kappa=at, max_kl=max_kl, objective=objective)
    assert row.gain == pytest.approx(there.gains[0].gain.value, rel=1e-9)
    assert row.shares == pytest.approx(tuple(there.shares.values()), abs=1e-9)
    assert [s.progress for s in plan.strata] == pytest.approx([s.progress for s in there.strata])
    gains = [p.gain for p in plan.frontier]
    assert objective == "dead" or gains == sorted(gains)


def test_the_moments_of_a_stratum_are_those_of_theory(mix: Mix) -> None:
    """Progress of each stratum and the gain, from the laws of k by SymPy; one kappa."""
    kappa, plan = 5.0, plan_mix(three(), group_size=4, kappa=5.0)
    laws = [list(s.law.law) for s in plan.strata]
    signals = [eq.law_mean(lambda k: eq.signal("grpo", k, 4), law) for law in laws]
    squares = [eq.second_moment("grpo", law, kappa) for law in laws]
    now = eq.mix_progress(signals, squares, [s.before for s in plan.strata])
    after = eq.mix_progress(signals, squares, [s.after for s in plan.strata])
    assert plan.gains[0].gain.value == pytest.approx(float(after / now), rel=1e-12)
    for i, s in enumerate(plan.strata):
        alone = eq.mix_progress([signals[i]], [squares[i]], [1])
        assert s.progress == pytest.approx(float(alone / now), rel=1e-12)


def test_the_same_seed_gives_the_same_answer_and_another_seed_another_interval() -> None:
    one, two, three_ = (plan_mix(three(), group_size=4, kappa=10.0, seed=s) for s in (7, 7, 8))
    assert one.gains == two.gains
    assert one.shares == three_.shares
    assert one.gains[0].gain.value == three_.gains[0].gain.value
    assert one.gains[0].gain.low != three_.gains[0].gain.low


@pytest.mark.slow
def test_the_interval_of_the_gain_covers() -> None:
    """300 pilots of 3 x 100 prompts, this mix: at 95 % a count below 270 has a chance of 1e-4. Each s.d. from 400
    resamples; the true gain from 2,000,000 prompts.
    """
    judge = MixWorth(estimator=get_estimator("grpo"), group_size=4, objective="signal")
    base, chosen = np.full(3, 1 / 3), np.array([0.2, 0.6, 0.2])
    rng = np.random.default_rng(62)
    exact_laws = np.array(
        [
            np.bincount(rng.binomial(4, rng.beta(*shape, 2_000_000)), minlength=5) / 2_000_000
            for shape in SHAPES.values()
        ]
    )
    truth = float(judge.worth(exact_laws, chosen, 10.0) / judge.worth(exact_laws, base, 10.0))
    hits = dead_hits = 0
    exact_dead = float((exact_laws[:, 0] + exact_laws[:, 4]) @ chosen)
    for seed in range(PILOTS):
        pilot = three(seed + 1000, prompts=100, rollouts=4)
        laws = np.array([np.bincount(p.successes, minlength=5) / 100 for p in pilot.by_stratum().values()])
        draws = np.stack([rng.multinomial(100, law, size=400) / 100 for law in laws], axis=1)
        found = gain_of(judge, laws, draws, chosen, base, 10.0, 0.95)
        hits += found.low <= truth <= found.high
        if seed < 100:
            dead = dead_of(named_strata(pilot, 4, 0.95).strata, chosen)
            dead_hits += dead.low <= exact_dead <= dead.high
    assert hits > 270
    assert dead_hits > 86  # of 100; 86 or fewer have a chance of 3e-4


def test_the_interval_resamples_prompts_within_strata(mix: Mix) -> None:
    laws = named_strata(three(), 4, 0.95)
    draws = laws.replicate(np.random.default_rng(0))
    np.testing.assert_allclose(draws.mean(axis=0), laws.laws(), atol=0.01)
    dead = draws[:, 1, 0] + draws[:, 1, -1]
    kernel = np.array([1.0, 0.5, 3 / 14, 1 / 14, 1 / 35, 1 / 14, 3 / 14, 0.5, 1.0])
    h = three().by_stratum()["b"].histogram()
    values = kernel[h.successes]
    share = h.prompts / 200
    spread = float(share @ values**2 - (share @ values) ** 2) / 200
    assert float(dead.var()) == pytest.approx(spread, rel=0.3)


def test_dead_by_name_is_the_same_as_mixed_groups_and_no_mix_of_a_grid_has_fewer() -> None:
    fewest, most = (plan_mix(three(), group_size=4, objective=o) for o in ("dead", "mixed-groups"))
    assert fewest.shares == most.shares
    dead = np.array([s.law.dead for s in fewest.strata])
    step = np.arange(0, 201)
    grid = np.array([(i, j, 200 - i - j) for i in step for j in step[: 201 - i]]) / 200.0
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(grid > 0, grid * np.log(3.0 * grid), 0.0).sum(axis=1)
    assert fewest.dead_after.value <= float((grid[kl <= 0.1] @ dead).min()) + 1e-9


def test_floors_caps_and_epochs_hold() -> None:
    plan = plan_mix(
        three(), group_size=4, kappa=10.0, max_kl=math.inf, floors={"a": 0.1}, caps={"b": 0.7}, prompts_per_step=64,
        steps=100, pools={"a": 3000, "b": 3000, "c": 3000}, max_epochs=1.0,
    )  # fmt: skip
    assert plan.shares["a"] == pytest.approx(0.1)
    assert plan.shares["b"] == pytest.approx(3000 / 6400)
    assert set(plan.binding) == {"floor 0.1 of a", "epochs of b (0.469)"}
    assert [s.epochs for s in plan.strata] == pytest.approx([0.1 * 6400 / 3000, 1.0, plan.shares["c"] * 6400 / 3000])
    capped = plan_mix(three(), group_size=4, kappa=10.0, max_kl=math.inf, caps=0.5)
    assert "cap of b (0.5)" in capped.binding
    assert capped.shares["b"] == pytest.approx(0.5)


def test_pools_say_what_the_mix_of_now_is() -> None:
    plan = plan_mix(three(), group_size=4, kappa=10.0, pools={"a": 7000, "b": 2000, "c": 1000})
    assert [s.before for s in plan.strata] == pytest.approx([0.7, 0.2, 0.1])
    assert plan.shares["b"] > 0.2


def test_a_pilot_that_cannot_tell_keeps_the_mix() -> None:
    rng = np.random.default_rng(3)
    k = rng.binomial(4, rng.beta(1.0, 1.0, 80))
    plan = plan_mix(Pilot.from_counts(k, 4, stratum=["x", "y"] * 40), group_size=4)
    assert not plan.sure
    assert min(g.gain.low for g in plan.gains) < 1.0


def test_many_small_strata_owe_their_gain_to_luck() -> None:
    """Twenty alike strata of 10 prompts: the gain on this pilot is luck, and the optimism says so."""
    rng = np.random.default_rng(4)
    k = rng.binomial(4, rng.beta(1.0, 1.0, 200))
    plan = plan_mix(Pilot.from_counts(k, 4, stratum=[f"s{i % 20}" for i in range(200)]), group_size=4, kappa=10.0)
    gain = plan.gains[0].gain.value - 1.0
    assert gain > 0.04
    assert plan.optimism > 0.8 * gain
    assert not plan.sure


@pytest.mark.slow
def test_beyond_the_pilot_s_rollouts_strata_are_refitted() -> None:
    plan = plan_mix(three(prompts=60, rollouts=4), group_size=8, kappa=10.0)
    assert plan.replicates == 40
    assert any("smooth" in note for note in plan.assumptions)
    assert plan.sure


# buckets


def test_buckets_of_the_example(buckets: Mix, example_fit: PassRateFit) -> None:
    assert [s.law.name for s in buckets.strata] == ["hard", "middle", "easy"]
    assert [s.law.prompts for s in buckets.strata] == [590, 431, 188]
    assert buckets.shares["middle"] > 0.5
    now = sum(s.before * s.law.dead for s in buckets.strata)
    assert now == pytest.approx(buckets.dead_before.value)
    assert now == pytest.approx(example_fit.dead(8).value or 0.0, abs=0.01)
    hard = buckets.strata[0].law
    assert hard.mean_pass_rate < 151 / 8 / 590 + 0.04  # near k/n, since the mean of k/n is fair over all prompts
    assert hard.dead_low < hard.dead < hard.dead_high
    passing = sum(s.before * s.law.mean_pass_rate for s in buckets.strata)
    assert passing == pytest.approx(example_fit.mean_pass_rate, abs=0.005)


def test_halves_and_posterior_agree_on_the_worth_of_a_bucket() -> None:
    pilot = pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES)
    half = plan_mix(pilot, buckets=True, correction="halves", group_size=4, kappa=10.0)
    assert half.method == "halves"
    first = fit_pass_rates(pilot).likely_rates
    hard = [eq.held_out_law(k, 8, 4, (0,), 4) for k in range(9)]
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    law = np.array([[float(x) for x in row] for row in hard]).T @ counts
    assert half.strata[0].law.dead == pytest.approx((law[0] + law[4]) / law.sum())
    weight = first.masses * first.failing**4
    model = float(weight @ (first.passing**4 + first.failing**4) / weight.sum())
    assert half.strata[0].law.dead == pytest.approx(model, abs=0.01)


# dropping


def test_dropping_is_that_of_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, weights = [sp.Rational(1, 10), sp.Rational(1, 2), sp.Rational(9, 10)], [sp.Rational(1, 3)] * 3
    p = np.array([0.1, 0.5, 0.9])
    from grpo_plan.passrates.discrete import DiscretePassRates

    known = DiscretePassRates(passing=p, failing=1.0 - p, masses=np.full(3, 1 / 3))
    monkeypatch.setattr(PassRateFit, "likely_rates", property(lambda self: known))
    expected = [float(eq.dead(r, 4) * 0 + eq.binomial_pmf(k, 4, r)) for k in range(5) for r in rates]
    counts = [round(1000 * sum(expected[3 * k : 3 * k + 3])) for k in range(5)]
    effect = effect_of_dropping(fit_pass_rates(pilot_of(counts)), 6, visits=3)
    assert effect.never.prompts == counts[0]
    for kind, passed in ((effect.never, False), (effect.always, True)):
        assert kind.mixed is not None
        assert kind.mixed_in_visits is not None
        once, later = (eq.mixed_after_agreeing(rates, weights, 4, 6, v, passed=passed) for v in (1, 3))
        assert kind.mixed.value == pytest.approx(float(once), rel=1e-12)
        assert kind.mixed_in_visits.value == pytest.approx(float(later), rel=1e-12)
        assert kind.mixed.low < kind.mixed.value < kind.mixed.high
    assert effect.rest_dead is not None
    # cells of the rest by their prompts, which are the expected ones up to rounding
    assert effect.rest_dead.value == pytest.approx(float(eq.rest_dead(rates, weights, 4, 6)), abs=2e-4)


def test_dropping_claims_too_much_at_the_pilot_s_own_size(example_fit: PassRateFit) -> None:
    effect = effect_of_dropping(example_fit, 8)
    assert (effect.never.prompts, effect.always.prompts, effect.rest) == (439, 92, 678)
    assert effect.naive_dead == 0.0
    assert effect.rest_dead is not None
    assert effect.rest_dead.low > 0.1
    assert effect.lost is not None
    assert 0.1 < effect.lost < 0.3


def test_the_next_visit_of_a_real_run_is_as_forecast(real_data: Path) -> None:
    """Visit 0 of the public run forecasts visit 1 of the same prompts: all three lie within their 95 % limits."""
    visits: dict[str, dict[int, int]] = defaultdict(dict)
    with (real_data / "oneshot_rlvr_dsr1209_grpo_visits_G8.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["visit"]) < 2:
                visits[row["prompt_id"]][int(row["visit"])] = int(row["k"])
    first, second = np.array([(v[0], v[1]) for v in visits.values() if len(v) == 2]).T
    effect = effect_of_dropping(fit_pass_rates(Pilot.from_counts(first, 8)), 8)
    mixed = (second > 0) & (second < 8)
    groups = {"never": first == 0, "always": first == 8}
    for name, inside in groups.items():
        kind = getattr(effect, name)
        assert kind.prompts == inside.sum()
        assert kind.mixed.low <= mixed[inside].mean() <= kind.mixed.high
        assert kind.mixed.value == pytest.approx(mixed[inside].mean(), abs=0.1)
    rest = (first > 0) & (first < 8)
    assert effect.rest_dead is not None
    assert effect.rest_dead.low <= 1.0 - mixed[rest].mean() <= effect.rest_dead.high


# real strata


def test_real_strata(real_data: Path) -> None:
    """GSM8K and MATH of two models, 16 rollouts drawn from 10,000: the plan's dead fractions hold the real ones."""
    with (real_data / "monkeys_llama3_gsm8k_math_n10000.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file)]
    rng = np.random.default_rng(5)
    k, n = np.array([int(r["k"]) for r in rows]), np.array([int(r["n"]) for r in rows])
    names = [f"{r['benchmark']} {r['model'].split('-')[2]}" for r in rows]
    seen = rng.hypergeometric(k, n - k, 16)
    plan = plan_mix(Pilot.from_counts(seen, 16, stratum=names), group_size=8)
    for s in plan.strata:
        inside = np.array([name == s.law.name for name in names])
        rates = k[inside] / n[inside]
        real = float(np.mean(rates**8 + (1.0 - rates) ** 8))
        assert s.law.dead_low <= real <= s.law.dead_high
    assert plan.shares["GSM8K 70B"] < 0.25  # four in five of its groups are dead
    assert plan.sure


# slips


def slip(error: type[Exception], text: str, **options: Any) -> None:
    with pytest.raises(error, match=text):
        plan_mix(three(), **{"group_size": 4, "kappa": 10.0, **options})


def test_contradictions_are_one_line_with_the_nearest_setting() -> None:
    slip(DomainError, r"floors must sum to at most 1; got 1.2. Multiply them by 0.833", floors=0.4)
    slip(DomainError, r"caps must sum to at least 1; got 0.9.*Multiply them by 1.111", caps=0.3)
    slip(DomainError, r"cap of a must be at least its floor.*lower the floor to 0.1", floors=0.2, caps={"a": 0.1})
    slip(DomainError, "floor names no stratum 'x'; the strata are a, b, c", floors={"x": 0.1})
    slip(DomainError, "objective must be one of signal, mixed-groups, dead", objective="entropy")
    slip(DomainError, "max_epochs needs prompts_per_step and steps", max_epochs=1.0)
    slip(DomainError, "not both", pools={"a": 1, "b": 1, "c": 1}, data_prompts=3)
    slip(DomainError, "pools must give the prompts of each of a, b, c; they lack 'c'", pools={"a": 1, "b": 1})


@pytest.mark.slow
def test_plans_that_cannot_be_name_the_nearest_that_can() -> None:
    run: dict[str, Any] = {"prompts_per_step": 64, "steps": 100, "data_prompts": 3000}
    slip(
        InfeasiblePlanError,
        r"draws 6,400 prompts; 2 epochs of 3,000 prompts within the caps give 6,000. Allow 2.14 epochs, or at most 93 "
        "steps",
        max_epochs=2.0,
        **run,
    )
    plan_mix(three(), group_size=4, kappa=10.0, max_epochs=2.14, max_kl=math.inf, **run)
    plan_mix(three(), group_size=4, kappa=10.0, max_epochs=2.0, max_kl=math.inf, **{**run, "steps": 93})
    slip(InfeasiblePlanError, r"The floor of a.*Lower the floor to 0.312.*or allow 3.2 epochs", floors={"a": 0.5},
         max_epochs=2.0, **run)  # fmt: skip
    plan_mix(three(), group_size=4, kappa=10.0, floors={"a": 0.5}, max_epochs=3.2, **run)
    slip(InfeasiblePlanError, r"move the mix by 0.7042 nats.*Allow at least 0.705 nats", floors={"a": 0.9}, max_kl=0.1)
    plan_mix(three(), group_size=4, kappa=10.0, floors={"a": 0.9}, max_kl=0.705)


def test_caps_and_epochs_together_name_the_epochs_that_do() -> None:
    """Cap 0.4 on each leaves a pool of 100 to be drawn more often: the named number is enough, less is not."""
    options: dict[str, Any] = {"group_size": 4, "kappa": 10.0, "max_kl": math.inf, "caps": 0.4, "prompts_per_step": 10, "steps": 100,
               "pools": {"a": 1000, "b": 1000, "c": 100}}  # fmt: skip
    with pytest.raises(InfeasiblePlanError, match="Allow 2 epochs"):
        plan_mix(three(), max_epochs=1.0, **options)
    plan_mix(three(), max_epochs=2.0, **options)
    with pytest.raises(InfeasiblePlanError):
        plan_mix(three(), max_epochs=1.99, **options)


def test_nothing_to_mix() -> None:
    with pytest.raises(DomainError, match=r"nothing to mix: the pilot has no strata.*--buckets"):
        plan_mix(pilot_of((10, 20, 10)))
    one = Pilot.from_counts([0, 1, 2] * 20, 2, stratum=["all"] * 60)
    with pytest.raises(DomainError, match=r"the pilot has one stratum \(all\)"):
        plan_mix(one, group_size=2)
    with pytest.raises(DomainError, match="every prompt of the pilot falls into the bucket middle"):
        plan_mix(pilot_of((0, 30, 40, 30, 0)), buckets=True, group_size=4)
    with pytest.raises(InfeasiblePlanError, match="no prompt of the pilot is mixed"):
        plan_mix(pilot_of((40, 0, 0, 40)), buckets=True)
    with pytest.raises(PilotError, match=r"at least 10 prompts; 2 of 3 have fewer \(x: 1, y: 9\). Merge small strata"):
        plan_mix(Pilot.from_counts([0, 1] * 15, 2, stratum=["x"] + ["y"] * 9 + ["z"] * 20), group_size=2)
    with pytest.raises(PilotError, match=r"A bucket needs at least 10 prompts; middle has 1. Give other edges"):
        plan_mix(pilot_of((40, 0, 1, 0, 40)), buckets=True, group_size=4)
    single = Pilot.from_counts([0, 1] * 20 + [0, 1, 2, 1] * 5, [1] * 40 + [2] * 20, stratum=["x"] * 40 + ["y"] * 20)
    with pytest.raises(PilotError, match="Stratum x: The pilot does not determine groups of 4"):
        plan_mix(single, group_size=4)


# commands and picture


@pytest.mark.slow
def test_the_screen_and_the_document(run: Run, example_file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "mix.svg"
    done = run("mix", str(example_file), "--buckets", "--prompts-per-step", "128", "--plot", str(picture))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "Mix     G = 8, more middle, less hard: 21% of a step's prompts change"
    assert max(map(len, lines)) <= 80
    assert "439 prompts failed every time" in done.out
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    body = json.loads(run("mix", str(example_file), "--buckets", "--prompts-per-step", "128", "--json").out)
    assert body["command"] == "mix"
    assert sum(s["after"] for s in body["strata"]) == pytest.approx(1.0)
    assert body["dropping"]["never"]["not_dead"]["value"] == pytest.approx(89, abs=1)
    assert body["mixed_groups_after"] == pytest.approx(128 * (1 - body["dead_after"]["value"]))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "nothing to mix: the pilot has no strata"),
        (["--buckets", "--floor", "0.5"], 2, "floors must sum to at most 1; got 1.5"),
        (["--buckets", "--floor", "hard=0.9", "--max-kl", "0.01"], 3, "beyond the KL bound of 0.01"),
        (["--buckets", "--floor", "often"], 2, "--floor must be SHARE or NAME=SHARE"),
        (["--edges", "0.8,0.2"], 2, "edges must rise strictly"),
        (["--buckets", "--max-kl", "much"], 2, "--max-kl must be a number of nats"),
        (["--buckets", "--plot", "x.txt"], 2, "--plot must end in"),
    ],
)
def test_slips_on_the_command_line(run: Run, example_file: Path, words: list[str], code: int, text: str) -> None:
    done = run("mix", str(example_file), *words)
    assert done.code == code
    last = done.err.splitlines()[-1]
    assert last.startswith("grpo-plan: ")
    assert text in last
    assert done.out == ""


def test_the_picture_shows_the_shares(buckets: Mix, tmp_path: Path) -> None:
    figure, ax = plt.subplots()
    assert plot_mix(buckets, ax) is ax
    now, planned = ([bar.get_width() for bar in container] for container in ax.containers)
    assert now == pytest.approx([s.before for s in buckets.strata])
    assert planned == pytest.approx([s.after for s in buckets.strata])
    assert [t.get_text().split("\n")[0] for t in ax.get_yticklabels()] == ["hard", "middle", "easy"]
    plt.close(figure)
    draw_mix(buckets, tmp_path / "mix.png")
    assert (tmp_path / "mix.png").stat().st_size > 10_000


def test_options_that_change_nothing_are_told() -> None:
    def told(*, buckets: bool = False, correction: str = "posterior", edges: str | None = None, **given: Any) -> str:
        return " ".join(
            without_effect(("a", "b", "c"), {"buckets": buckets, **given}, correction=correction, edges=edges)
        )

    assert told() == ""
    assert "--correction has no effect on named strata: it needs --buckets" in told(correction="halves")
    assert "--steps has no effect without --prompts-per-step" in told(steps=100)
    assert "--data-prompts has no effect without --steps" in told(data_prompts=2000, steps=100)
    assert "--steps has no effect on named strata without --max-epochs" in told(steps=100, prompts_per_step=64)
    assert told(steps=100, prompts_per_step=64, data_prompts=2000) == ""
    assert told(steps=100, prompts_per_step=64, max_epochs=99.0) == ""
    dropped = told(buckets=True, edges="0.2,0.8", correction="halves")
    assert dropped == "--edges makes strata of observed pass rate: the pilot's 3 named ones (a, b, c) are not used."


def test_the_command_tells_of_an_option_without_effect(run: Run, example_file: Path) -> None:
    done = run("mix", str(example_file), "--buckets", "--data-prompts", "2000")
    assert done.code == 0
    assert "note: --data-prompts has no effect without --steps and --prompts-per-step" in done.err


def test_one_number_where_both_ends_round_to_it(run: Run, example_file: Path) -> None:
    gain = run("mix", str(example_file), "--buckets", "--kappa", "300:30000").out.splitlines()[1]
    assert gain.startswith("Gain    progress of a step x1.27 over kappa")
