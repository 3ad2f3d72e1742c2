"""Forecasts of a share (theory.md, eq. 90)."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import symbolic
from grpo_plan.errors import DomainError
from grpo_plan.runs import forecast as module
from grpo_plan.runs.forecast import ForecastStatus, first_passage, forecast, posterior

ONE_SHOT = "oneshot_rlvr_dsr1209_grpo_visits_G8.csv"


def walk(
    rng: np.random.Generator, rows: int, wander: float, drift: float, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of twice so many rows and the shares that they show; wander and drift over so many rows."""
    z = rng.normal() + np.arange(2 * rows) / rows * drift * rng.normal()
    z = z + np.cumsum(rng.normal(0, wander / math.sqrt(rows), 2 * rows))
    return z, rng.binomial(groups, 1 / (1 + np.exp(-z))) / groups


def test_filter_is_the_joint_normal_law() -> None:
    at = np.array([0.0, 1.0, 3.0, 4.0])
    x, n = np.array([0.25, 0.5, 0.375, 0.5]), np.full(4, 8.0)
    seen = posterior(at, x, n, counted=True)
    logits, variances = module._logits(x, n)
    for c in (0, 33, 79):
        mean, variance = symbolic.walk_ahead(
            at.tolist(),
            logits.tolist(),
            (seen.noise[c] * variances).tolist(),
            float(seen.wandering[c]),
            (module.STEEPEST / 4.0) ** 2,
            2.5,
        )
        cov = seen.covariance[c]
        assert seen.mean[c, 0] + 2.5 * seen.mean[c, 1] == pytest.approx(float(mean), rel=1e-9)
        ahead = cov[0, 0] + 5.0 * cov[0, 1] + 6.25 * cov[1, 1] + 2.5 * seen.wandering[c]
        assert ahead == pytest.approx(float(variance), rel=1e-9)
    assert seen.weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("groups", [8.0, 512.0])
def test_the_band_holds_the_noise_of_a_row(groups: float) -> None:
    """One pair, nothing wanders: the middle, and 1.96 binomial standard deviations on both sides in logits."""
    one = np.ones(1)
    cov = np.array([[[0.04, 0.0], [0.0, 0.0]]])
    seen = module.Posterior(one, np.array([[-1.0, 0.1]]), cov, 0.0 * one, 2.0 * one)
    low, mid, high = module._band(seen, np.array([10.0]), groups, 0.95)
    assert mid[0] == pytest.approx(0.5)
    half = 1.959964 * math.sqrt(0.04 + 2.0 / (groups * 0.25))
    assert high[0] == pytest.approx(1 / (1 + math.exp(-half)), abs=1e-6)
    assert low[0] == pytest.approx(1 - high[0], abs=1e-9)


def test_first_passage_is_the_inverse_gaussian_law() -> None:
    b, mu, v, t = (sp.Symbol(s, positive=True) for s in "bmvt")
    density = b / sp.sqrt(2 * sp.pi * v * t**3) * sp.exp(-((b - mu * t) ** 2) / (2 * v * t))
    slope = sp.diff(symbolic.first_passage_chance(b, mu, v, t), t)
    for values in ({b: 1, mu: sp.Rational(1, 3), v: 2, t: 5}, {b: 3, mu: 1, v: sp.Rational(1, 2), t: 2}):
        assert float(slope.subs(values)) == pytest.approx(float(density.subs(values)), rel=1e-12)
    grid = [(1.0, 0.5, 0.2, 3.0), (0.2, -0.1, 1.0, 10.0), (2.0, 0.0, 0.5, 1.0), (5.0, 3.0, 0.05, 1.0)]
    for case in grid:
        wanted = float(symbolic.first_passage_chance(*case).evalf(30))
        assert first_passage(*(np.array(c) for c in case)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_first_passage_of_simulated_walks() -> None:
    """20,000 fine walks: within 3 standard errors and the loss by looking at 500 times only."""
    rng = np.random.default_rng(90)
    found = 0.0
    for _ in range(4):
        steps = rng.normal(0.05 / 50, 0.3 / math.sqrt(50), (5000, 500))
        found += float((np.cumsum(steps, axis=1).max(axis=1) >= 1.0).mean()) / 4
    chance = float(first_passage(np.array(1.0), np.array(0.05), np.array(0.09), np.array(10.0)))
    assert 0.0 < chance - found + 3 * 0.005 < 0.05


SHARES = st.lists(st.floats(0.0, 1.0), min_size=8, max_size=20)


@settings(max_examples=12, deadline=None)
@given(SHARES, st.sampled_from([None, 8, 256]), st.floats(0.05, 0.95), st.sampled_from([0.8, 0.95]))
def test_forecasts_are_in_order(values: list[float], groups: int | None, limit: float, level: float) -> None:
    ahead = forecast(range(len(values)), values, limit, groups=groups, horizon_steps=9, level=level)
    assert (ahead.low >= 0.0).all()
    assert (ahead.high <= 1.0).all()
    assert (ahead.low <= ahead.mid).all()
    assert (ahead.mid <= ahead.high).all()
    assert ahead.steps[-1] == pytest.approx(len(values) + 8)
    assert ahead.chance is not None
    assert 0.0 <= ahead.chance <= 1.0
    known = [c for c in (ahead.crossing_low, ahead.crossing, ahead.crossing_high) if c is not None]
    assert known == sorted(known)
    if ahead.status is ForecastStatus.WITHIN:
        assert ahead.crossing is not None
    if ahead.status is ForecastStatus.NOT_WITHIN_HORIZON:
        assert ahead.crossing_low is None
    turned = forecast(
        range(len(values)), [1 - v for v in values], 1 - limit, groups=groups, horizon_steps=9, level=level, below=True
    )
    if groups is not None:
        assert turned.chance == pytest.approx(ahead.chance, abs=1e-6)
        np.testing.assert_allclose(turned.mid, 1 - ahead.mid, atol=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 20.0), st.floats(-500, 500))
def test_units_of_steps_do_not_matter(scale: float, shift: float) -> None:
    x = [0.3, 0.32, 0.31, 0.36, 0.37, 0.38, 0.41, 0.42, 0.45]
    here = forecast(np.arange(9), x, 0.6, groups=64, horizon_steps=10)
    there = forecast(np.arange(9) * scale + shift, x, 0.6, groups=64, horizon_steps=10 * scale)
    assert there.status is here.status
    assert there.chance == pytest.approx(here.chance, abs=1e-6)
    np.testing.assert_allclose(there.mid, here.mid, atol=1e-6)


def test_statuses() -> None:
    t = np.arange(20)
    up = 0.3 + 0.01 * t
    assert forecast(t, up, 0.6, groups=500, horizon_steps=40).status is ForecastStatus.WITHIN
    assert forecast(t, up, 0.2, groups=500).status is ForecastStatus.ALREADY_BEYOND
    assert forecast(t, up, 0.97, groups=500, horizon_steps=3).status is ForecastStatus.NOT_WITHIN_HORIZON
    assert forecast(t[:8], [0.3, 0.5] * 4, 0.8, groups=4, horizon_steps=8).status is ForecastStatus.CANNOT_TELL
    short = forecast(t[:7], up[:7], 0.5)
    assert short.status is ForecastStatus.TOO_SHORT
    assert (short.chance, short.steps.size) == (None, 0)
    assert forecast([], [], 0.5).status is ForecastStatus.TOO_SHORT
    down = forecast(t, 1 - up, 0.4, groups=500, horizon_steps=40, below=True)
    assert (down.status, down.direction) == (ForecastStatus.WITHIN, "below")
    assert all(status.sentence.endswith(".") for status in ForecastStatus)


def test_rows_without_a_value_and_rows_of_zero() -> None:
    x = np.array([0.0, np.nan, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for groups in (None, 8, 512):
        ahead = forecast(np.arange(11), x, 0.9, groups=groups, horizon_steps=2)
        assert ahead.rows == 10
        assert ahead.low.tolist() == [0.0, 0.0]
        assert np.isfinite(ahead.high).all()


def test_long_logs_are_pooled() -> None:
    rng = np.random.default_rng(4)
    x = rng.binomial(32, 1 / (1 + np.exp(-np.linspace(-1, 0, 3000)))) / 32
    ahead = forecast(np.arange(3000), x, 0.6, groups=32, horizon_steps=500)
    assert ahead.rows == 3000
    assert ahead.steps.size <= module.MOST_STEPS
    assert ahead.low[-1] < 1 / (1 + math.exp(-1 / 6)) < ahead.high[-1]
    assert ahead.high[-1] - ahead.low[-1] < 0.5


@pytest.mark.parametrize(
    ("wander", "drift", "groups", "rows"),
    [(0.0, 0.0, 32, 10), (0.0, 0.7, 32, 20), (1.0, 0.7, 256, 12), pytest.param(1.0, 0.7, 256, 20, marks=pytest.mark.slow),
     pytest.param(0.3, 0.7, 64, 60, marks=pytest.mark.slow)],
)  # fmt: skip
def test_bands_hold_the_rows_to_come(wander: float, drift: float, groups: int, rows: int) -> None:
    """95 % bands a quarter and all of the log ahead, counted or not: 95 % of 60 runs less 3 standard errors."""
    rng = np.random.default_rng(rows)
    held = []
    for _ in range(60):
        _, x = walk(rng, rows, wander, drift, groups)
        for counted in (groups, None):
            ahead = forecast(np.arange(rows), x[:rows], 0.9, groups=counted, horizon_steps=rows)
            held.append([ahead.low[h] <= x[rows + h] <= ahead.high[h] for h in (rows // 4, rows - 1)])
    for counted in range(2):
        assert np.mean(held[counted::2], axis=0).min() >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 60)


@pytest.mark.slow
def test_chances_of_a_crossing_are_not_too_low() -> None:
    """150 walks of 20 rows: the mean chance lies within 3 standard errors of the share that crossed, or above it."""
    rng = np.random.default_rng(12)
    told, crossed = [], []
    for _ in range(150):
        z, x = walk(rng, 20, 1.0, 0.7, 256)
        ahead = forecast(np.arange(20), x[:20], 0.75, groups=256, horizon_steps=20)
        if ahead.status is not ForecastStatus.ALREADY_BEYOND:
            assert ahead.chance is not None
            told.append(ahead.chance)
            crossed.append(bool((z[20:] >= math.log(3)).any()))
    error = math.sqrt(np.mean(np.array(told) * (1 - np.array(told))) / len(told))
    assert -3 * error <= np.mean(told) - np.mean(crossed) <= 0.2


def test_one_shot_rlvr(real_data: Path) -> None:
    """Forecasts of three shares from every visit from 8 on: the table of eq. 90."""
    passes: dict[int, list[int]] = defaultdict(list)
    with (real_data / ONE_SHOT).open() as file:
        for row in csv.DictReader(file):
            passes[int(row["visit"])].append(int(row["k"]))
    visits = [v for v in sorted(passes) if len(passes[v]) >= 1130]
    n = np.array([len(passes[v]) for v in visits])
    kinds = {"dead": (0, 8), "pass": (8,), "fail": (0,)}
    widths = {}
    for name, ends in kinds.items():
        x = np.array([np.mean([k in ends for k in passes[v]]) for v in visits])
        for h in (5, 10, 20):
            held, wide = [], []
            for v in range(8, x.size - h):
                ahead = forecast(np.arange(v + 1), x[: v + 1], 0.99, groups=n[: v + 1], horizon_steps=h)
                held.append(ahead.low[-1] <= x[v + h] <= ahead.high[-1])
                wide.append(ahead.high[-1] - ahead.low[-1])
            assert np.mean(held) >= 0.95
            widths[name, h] = float(np.mean(wide))
    assert widths["dead", 5] == pytest.approx(0.075, abs=0.01)
    assert widths["dead", 20] == pytest.approx(0.19, abs=0.02)
    assert widths["pass", 10] == pytest.approx(0.225, abs=0.02)
    assert widths["fail", 20] == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limit": 1.0}, "strictly between 0 and 1"),
        ({"steps": [1.0] * 9}, "steps must rise; got 1 after 1"),
        ({"steps": [1.0]}, "as many"),
        ({"horizon_steps": 0}, "horizon_steps must be finite and above 0"),
        ({"values": [50.0] * 9}, "Percentages"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"steps": range(9), "values": [0.5] * 9, "limit": 0.6, **change}
    with pytest.raises(DomainError, match=words):
        forecast(arguments.pop("steps"), arguments.pop("values"), arguments.pop("limit"), **arguments)  # type: ignore[arg-type]


def test_crossings_are_whole_steps_and_do_not_move_with_the_horizon() -> None:
    steps = np.arange(0, 400, 9)
    values = np.clip(0.3 + 0.001 * steps + np.random.default_rng(0).normal(0.0, 0.02, steps.size), 0.0, 1.0)
    found = [forecast(steps, values, 0.8, groups=64, horizon_steps=h) for h in (300, 400, 401, 406)]
    assert len({(f.crossing_low, f.crossing, f.crossing_high) for f in found}) == 1
    ahead = found[0]
    assert ahead.crossing is not None
    assert float(ahead.crossing).is_integer()
    assert (ahead.steps % 1.0 == 0.0).all()
    assert ahead.steps[-1] == steps[-1] + 300
    until = forecast(steps, values, 0.8, groups=64, horizon_steps=ahead.crossing - steps[-1])
    before = forecast(steps, values, 0.8, groups=64, horizon_steps=ahead.crossing - steps[-1] - 1)
    assert until.chance is not None
    assert before.chance is not None
    assert before.chance < 0.5 <= until.chance
