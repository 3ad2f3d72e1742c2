"""Trends and changes of a series (theory.md, eq. 89)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import symbolic
from grpo_plan.errors import DomainError
from grpo_plan.runs.lasting import correlation, slowness
from grpo_plan.runs.trend import TrendStatus, changed, trend


def lasting(rng: np.random.Generator, rows: int, correlation: float) -> np.ndarray:
    """Noise of variance 1 with such a correlation of neighbouring rows."""
    from scipy.signal import lfilter

    noise = rng.normal(size=rows + 100)
    made: np.ndarray = lfilter([1.0], [1.0, -correlation], noise)[100:] * math.sqrt(1 - correlation**2)
    return made


def alarms(rng: np.random.Generator, rows: int, rho: float, runs: int) -> tuple[float, float]:
    found = []
    for _ in range(runs):
        x = 1 / (1 + np.exp(-0.3 * lasting(rng, rows, rho)))
        line, thirds = trend(range(rows), x), changed(x)
        assert line.p_value is not None
        assert thirds.p_value is not None
        found.append((line.p_value < 0.05, thirds.p_value < 0.05))
    a, b = np.mean(found, axis=0)
    return float(a), float(b)


def test_a_line_in_values_is_that_of_the_equation() -> None:
    y = [0, 3, 1, 4, 2, 8, 5, 7, 9, 6]
    t = list(range(10))
    one = [1] * 10
    waves = [[sp.cos(sp.pi * k * (sp.Rational(2 * i + 1, 2)) / 10).evalf(40) for i in t] for k in (2, 3, 4)]
    slope = sp.Rational(sum((i - sp.Rational(9, 2)) * v for i, v in zip(t, y, strict=True)), sp.Rational(165, 2))
    rest = [v - sp.Rational(9, 2) - slope * (i - sp.Rational(9, 2)) for i, v in zip(t, y, strict=True)]
    raw = sum(a * b for a, b in zip(rest[1:], rest, strict=False)) / sum(r * r for r in rest)
    rho = min(max((10 * raw + 2) / 6, sp.Integer(0)), sp.Rational(95, 100))
    variance = symbolic.wave_variance(rest, [one, t], waves) * symbolic.slowness(rho, [2, 3, 4], 10)
    error = math.sqrt(float(variance) / 82.5)
    line = trend(t, y)
    assert line.scale == "linear"
    assert line.slope == pytest.approx(float(slope))
    assert line.slope_high is not None
    assert line.slope is not None
    assert (line.slope_high - line.slope) / error == pytest.approx(3.182446, rel=1e-5)  # t, 3 degrees


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
def test_slowness_is_the_ratio_of_powers(rho: float) -> None:
    """Against the exact variances of a cosine sum of such noise, up to the ends of the log."""
    rows = 200
    lags = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
    power = []
    for k in (1, 2, 3, 4):
        wave = np.cos(np.pi * k * (np.arange(rows) + 0.5) / rows)
        power.append(wave @ rho**lags @ wave)
    assert slowness(rho, np.array([2, 3, 4]), rows) == pytest.approx(float(symbolic.slowness(rho, [2, 3, 4], rows)))
    assert float(symbolic.slowness(rho, [2, 3, 4], rows)) == pytest.approx(power[0] / np.mean(power[1:]), rel=0.1)


@pytest.mark.parametrize("scale", ["logit", "linear"])
def test_known_lines_are_found(scale: str) -> None:
    t = np.arange(0, 400, 10)
    eta = -1 + 0.004 * t
    x = 1 / (1 + np.exp(-eta)) if scale == "logit" else 3 + eta
    x = x + 1e-3 * np.cos(t)
    line = trend(t, x, scale=scale)  # type: ignore[arg-type]
    assert line.slope == pytest.approx(0.004, rel=0.02)
    assert line.start == pytest.approx(x[0], abs=0.005)
    assert line.end == pytest.approx(x[-1], abs=0.005)
    assert line.rising
    assert not line.falling


SERIES = st.lists(st.floats(0.01, 0.99), min_size=8, max_size=40)


@settings(max_examples=60, deadline=None)
@given(SERIES, st.sampled_from([None, 1, 64]), st.sampled_from([0.8, 0.95]))
def test_signs_agree_and_turning_round_turns_the_answer(values: list[float], groups: int | None, level: float) -> None:
    line = trend(range(len(values)), values, groups, level=level)
    change = changed(values, groups, level=level)
    if line.status is TrendStatus.CONSTANT:
        return
    for low, high, difference, p in (
        (line.low, line.high, line.difference, line.p_value),
        (change.low, change.high, change.difference, change.p_value),
    ):
        assert low is not None
        assert high is not None
        assert difference is not None
        assert p is not None
        assert low - 1e-12 <= difference <= high + 1e-12
        if abs(p - (1 - level)) > 1e-6:
            assert (low > 0 or high < 0) == (p < 1 - level)
    other = trend(range(len(values)), [1 - v for v in values], groups, level=level)
    assert other.slope == pytest.approx(-(line.slope or 0.0), abs=1e-6)
    assert other.p_value == pytest.approx(line.p_value, abs=1e-6)
    backwards = trend(range(len(values)), values[::-1], groups, level=level)
    assert backwards.difference == pytest.approx(-(line.difference or 0.0), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(SERIES, st.floats(0.5, 50), st.floats(-1000, 1000))
def test_units_of_steps_do_not_matter(values: list[float], scale: float, shift: float) -> None:
    here = trend(np.arange(len(values)), values, 8)
    there = trend(np.arange(len(values)) * scale + shift, values, 8)
    assert (
        there.p_value == pytest.approx(here.p_value, rel=1e-5, abs=1e-9)
        if here.p_value is not None
        else there.p_value is None
    )
    if here.slope is not None and there.slope is not None:
        assert there.slope * scale == pytest.approx(here.slope, rel=1e-4, abs=1e-8)
    holed = trend([-9, *range(len(values))], [math.nan, *values], 8)
    assert holed.difference == here.difference


def test_counts_set_the_least_noise() -> None:
    """A series smoother than its counts allow is held to the binomial noise."""
    x = 0.5 + 0.002 * np.arange(20)
    x[::2] += 1e-4
    free, held = trend(range(20), x), trend(range(20), x, groups=8)
    assert free.rising
    assert not held.rising
    assert held.p_value is not None
    assert held.p_value > 0.3
    assert changed(x).low is not None
    assert (changed(x, 8).low or 0.0) < 0.0 < (changed(x).low or 0.0)


def test_short_constant_and_separated_series() -> None:
    for status, line in (
        (TrendStatus.TOO_SHORT, trend([], [])),
        (TrendStatus.TOO_SHORT, trend(range(7), np.linspace(0, 1, 7))),
        (TrendStatus.TOO_SHORT, trend([3] * 9, np.linspace(0, 1, 9))),
        (TrendStatus.CONSTANT, trend(range(9), [0.0] * 9)),
    ):
        assert line.status is status
        assert line.p_value is None
        assert status.sentence.endswith(".")
    assert changed([]).first is None
    assert changed([0.5] * 6).status is TrendStatus.TOO_SHORT
    assert changed([0.5] * 9).difference == 0.0
    for n in (None, 1, 64):
        line = trend(range(20), [0.0] * 10 + [1.0] * 10, n)
        assert line.end == pytest.approx(1.0, abs=0.02)
        thirds = changed([0.0] * 10 + [1.0] * 10, n)
        assert thirds.difference == pytest.approx(1.0)
        one = trend(range(20), [0.0] * 19 + [1.0], n)
        assert one.status is TrendStatus.OK
        assert one.difference is not None


def test_a_change_of_shape_is_seen_by_thirds() -> None:
    rng = np.random.default_rng(3)
    x = rng.binomial(64, np.repeat([0.3, 0.5, 0.5], 20)) / 64
    change = changed(x, 64)
    assert change.low is not None
    assert change.low > 0.05
    assert change.difference == pytest.approx(0.2, abs=0.05)


def test_a_jump_late_in_a_short_run_is_seen_by_thirds() -> None:
    x = np.random.default_rng(6).binomial(64, np.repeat([0.2, 0.9], [14, 6])) / 64
    change = changed(x, 64)
    assert change.p_value is not None
    assert change.p_value < 0.001
    straight = changed(0.5 + 0.002 * np.arange(20) + 1e-4 * (np.arange(20) % 2))
    assert straight.low is not None
    assert straight.low > 0.02


def test_correlation_has_its_bias_put_back() -> None:
    rng = np.random.default_rng(4)
    for rho in (0.3, 0.6):
        found = []
        for _ in range(200):
            y = lasting(rng, 60, rho)
            t = np.arange(60.0)
            found.append(correlation(y - np.polyval(np.polyfit(t, y, 1), t), 2))
        assert np.mean(found) == pytest.approx(rho, abs=0.05)


@pytest.mark.parametrize(("rho", "most"), [(0.0, 0.05), (0.5, 0.09)])
def test_false_alarms_of_lasting_noise(rho: float, most: float) -> None:
    """250 series of 30 rows at 5 %: 5 % (9 %) and 3 standard errors."""
    found = alarms(np.random.default_rng(89), 30, rho, 250)
    assert max(found) <= most + 3 * math.sqrt(most * (1 - most) / 250)


def test_false_alarms_of_counts() -> None:
    """250 flat logs of 24 rows of 16 groups at .05 and .5, and of ten-step means: at most 5 % and 3 standard errors."""
    rng = np.random.default_rng(90)
    for chance, groups in ((0.05, 16), (0.5, 16), (0.5, 160)):
        found = [trend(range(24), rng.binomial(groups, chance, 24) / groups, groups).p_value or 1.0 for _ in range(250)]
        assert np.mean(np.array(found) < 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 250)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "rho", "most"), [(8, 0.0, 0.06), (60, 0.5, 0.08), (200, 0.8, 0.09), (30, 0.8, 0.25)])
def test_false_alarms_as_stated(rows: int, rho: float, most: float) -> None:
    """600 series each, both tests: the rates that eq. 89 states, and 2 standard errors."""
    found = alarms(np.random.default_rng(rows), rows, rho, 600)
    assert max(found) <= most + 2 * math.sqrt(most * (1 - most) / 600)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: trend([1, 2], [0.1]), "must be as many"),
        (lambda: trend(range(8), [math.inf] * 8), "must be finite"),
        (lambda: trend(range(8), [2.0] * 8, scale="logit"), "shares in"),
        (lambda: trend(range(8), [0.2] * 8, scale="log"), "scale must be logit or linear"),  # type: ignore[arg-type]
        (lambda: changed([0.1] * 9, level=95), "Percentages"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(call: object, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        call()  # type: ignore[operator]


def test_unbounded_rewards_are_fitted_in_values() -> None:
    rng = np.random.default_rng(5)
    y = -3 + 0.05 * np.arange(50) + rng.normal(0, 0.2, 50)
    line = trend(np.arange(50), y)
    assert line.scale == "linear"
    assert line.difference == pytest.approx(0.05 * 49, abs=0.3)
    assert trend(np.arange(50), -y).falling
