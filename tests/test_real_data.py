"""Published pass rates of real models: numbers to reproduce, and what each estimator gets wrong on them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.passrates import BetaPassRates
from grpo_plan.pilot import Pilot
from grpo_plan.readers import read_pilot

MONKEYS = "monkeys_llama3_gsm8k_math_n10000.csv"
MATH500 = "math500_llama32_1b_n1280.csv"
ONE_SHOT = "oneshot_rlvr_dsr1209_grpo_visits_G8.csv"
SETS = [
    (MONKEYS, {"model": "Llama-3-8B-Instruct", "benchmark": "GSM8K"}, (0.8127, 0.6579, 0.5248, 0.4125, 0.2513), 0.1217),
    (MONKEYS, {"model": "Llama-3-70B-Instruct", "benchmark": "GSM8K"}, (0.9234, 0.8597, 0.8031, 0.7494, 0.6168), 0.5617),
    (MONKEYS, {"model": "Llama-3-8B-Instruct", "benchmark": "MATH"}, (0.7971, 0.6294, 0.4856, 0.3667, 0.2076), 0.0821),
    (MONKEYS, {"model": "Llama-3-70B-Instruct", "benchmark": "MATH"}, (0.8038, 0.6417, 0.5025, 0.3813, 0.2030), 0.0082),
    (MATH500, {}, (0.7824, 0.6045, 0.4628, 0.3500, 0.1902), 0.1129),
]  # fmt: skip
IDS = ["gsm8k-8b papers-24", "gsm8k-70b", "math-8b", "math-70b", "math500-1b papers-25"]


def fit_of(folder: Path, file: str, where: dict[str, str]) -> PassRateFit:
    return fit_pass_rates(read_pilot(folder / file, where=where))


@pytest.mark.parametrize(("file", "where", "dead", "iid"), SETS, ids=IDS)
def test_dead_fractions_of_real_models(
    real_data: Path, file: str, where: dict[str, str], dead: tuple[float, ...], iid: float
) -> None:
    fit = fit_of(real_data, file, where)
    assert [fit.dead(g).value for g in (2, 4, 8, 16, 64)] == pytest.approx(dead, abs=1e-4)
    assert fit.dead(8).iid == pytest.approx(iid, abs=1e-4)


def test_beta_fits_of_real_models(real_data: Path) -> None:
    """Maximum-likelihood Betas on all 10,000 rollouts, as published."""
    for where, shape in (
        (SETS[0][1], (1.0436, 0.3394)),
        (SETS[1][1], (1.6061, 0.1671)),
        (SETS[2][1], (0.3518, 0.9044)),
        (SETS[3][1], (0.3831, 0.4059)),
    ):
        p = fit_of(real_data, MONKEYS, where).parameters
        assert (p["a"], p["b"]) == pytest.approx(shape, abs=2e-4)
    p = fit_of(real_data, MATH500, {}).parameters
    assert (p["a"], p["b"]) == pytest.approx((0.3882, 1.2391), abs=2e-4)


def test_a_published_beta_of_pythia() -> None:
    """papers-26, the part without the counts (these are not among the files): Beta(.2955, 12.365) says D(8) = .8600."""
    assert BetaPassRates.from_shape(0.2955, 12.365).dead(8) == pytest.approx(0.8600, abs=1e-4)


def test_how_far_off_the_iid_formula_is(real_data: Path) -> None:
    """The README's 1.4 to 61 times at G = 8, on these five sets and the example."""
    ratios = [fit_of(real_data, file, where).dead(8) for file, where, _, _ in SETS]
    ratios.append(fit_of(real_data, ONE_SHOT, {"visit": "0"}).dead(8))
    times = sorted((d.value or 0.0) / d.iid for d in ratios)
    assert times[0] == pytest.approx(1.4, abs=0.05)
    assert times[-1] == pytest.approx(61, abs=0.5)


@pytest.mark.parametrize(("file", "where", "dead", "iid"), SETS, ids=IDS)
def test_errors_of_each_estimator_from_eight_rollouts(
    real_data: Path, file: str, where: dict[str, str], dead: tuple[float, ...], iid: float
) -> None:
    """papers-27: 200 subsamples of 8 rollouts of the same prompts; bias at G = 8 of plug-in, Beta and U-statistic."""
    pilot = read_pilot(real_data / file, where=where)
    rng = np.random.default_rng(8)
    errors = []
    for _ in range(200):
        k = rng.hypergeometric(pilot.successes, pilot.rollouts - pilot.successes, 8)
        fit = fit_pass_rates(Pilot.from_counts(k, 8))
        d = fit.dead(8)
        assert d.value is not None
        errors.append([d.plug_in - dead[2], float(fit.beta.rates.dead(8)) - dead[2], d.value - dead[2]])
    plug_in, beta, unbiased = np.mean(errors, axis=0)
    assert plug_in > 0.03
    assert abs(beta) < 0.01
    assert abs(unbiased) < 0.006


def visits(path: Path) -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            out.setdefault(int(row["visit"]), []).append(int(row["k"]))
    return out


def test_forecast_of_later_training_visits(real_data: Path) -> None:
    """papers-28 and papers-29: the first visit forecasts the pooled groups of later visits within .017, and its intervals hold them."""
    first = fit_of(real_data, ONE_SHOT, {"visit": "0"})
    assert first.dead(8).value == pytest.approx(0.4392, abs=5e-5)
    later = read_pilot(real_data / ONE_SHOT, where={"visit": [str(v) for v in range(1, 9)]})
    assert later.rollouts.max() == 64
    for g, last, measured, forecast in ((16, 2, 0.3284, 0.3319), (32, 4, 0.2366, 0.2522), (64, 8, 0.1770, 0.1933)):
        pooled = read_pilot(real_data / ONE_SHOT, where={"visit": [str(v) for v in range(1, last + 1)]})
        full = Pilot.from_counts(pooled.successes[pooled.rollouts == g], g)
        assert fit_pass_rates(full).dead(g).value == pytest.approx(measured, abs=1e-4)
        assert first.dead(g).value == pytest.approx(forecast, abs=1e-4)
        assert abs(forecast - measured) < 0.017
        assert first.dead(g).low < measured < first.dead(g).high


def test_the_example_is_the_first_visit(real_data: Path, example_file: Path) -> None:
    counts = np.bincount(visits(real_data / ONE_SHOT)[0], minlength=9)
    rows = [json.loads(line) for line in example_file.read_text().splitlines()]
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["prompt_id"]] = totals.get(row["prompt_id"], 0) + row["reward"]
    assert np.bincount(list(totals.values()), minlength=9).tolist() == counts.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("file", "where"), [(file, where) for file, where, _, _ in SETS], ids=IDS)
def test_a_census_of_measured_sets_holds_the_truth(real_data: Path, file: str, where: dict[str, str]) -> None:
    """25 pilots of 8 of each prompt's rollouts; 95 % limits of which fewer than 19 hold it once in 3,000."""
    full = fit_of(real_data, file, where)
    passes, rollouts = full.pilot.successes, full.pilot.rollouts
    rng = np.random.default_rng(6)
    hits = {16: 0, 64: 0}
    for _ in range(25):
        pilot = Pilot.from_counts(rng.hypergeometric(passes, rollouts - passes, 8), 8)
        fit = fit_pass_rates(pilot, population="census")
        for g in hits:
            d = fit.dead(g)
            hits[g] += d.low <= (full.dead(g).value or 0) <= d.high
    assert min(hits.values()) >= 19


@pytest.mark.parametrize("last", [0, 8], ids=["first visit", "nine visits pooled"])
def test_mixed_groups_alone_against_all_groups(real_data: Path, last: int) -> None:
    """Dead groups of real training visits left out: the limits still hold D(8), and the number of them restores it."""
    seen = visits(real_data / ONE_SHOT)
    k = np.concatenate([seen[visit] for visit in range(last + 1)])
    whole = fit_pass_rates(Pilot.from_counts(k, 8)).dead(8)
    if last == 0:
        assert whole.value == pytest.approx(0.4392, abs=5e-5)
    mixed = k[(k > 0) & (k < 8)]
    pilot = Pilot.from_counts(mixed, 8)
    unknown = fit_pass_rates(pilot, truncated=True).dead(8)
    counted = fit_pass_rates(pilot, dropped_groups=k.size - mixed.size).dead(8)
    assert whole.value is not None
    assert unknown.low < whole.low < whole.value < unknown.high == 1.0
    assert unknown.value is not None
    assert unknown.smooth_interval is not None
    assert unknown.smooth_interval[0] < whole.value < unknown.smooth_interval[1]
    assert counted.value == pytest.approx(whole.value)
    assert counted.interval == pytest.approx(whole.interval, abs=1e-3)
    wider = (unknown.high - unknown.low) / (whole.high - whole.low)
    print(f"{whole}; mixed groups alone {unknown}: {wider:.1f} times as wide; counted {counted}")
    assert wider == pytest.approx((15.3, 41.5)[last > 0], abs=0.3)
