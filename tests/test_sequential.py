"""Sequential tests of shares and their onset (theory.md, eq. 86 to 88)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import symbolic
from grpo_plan.errors import DomainError
from grpo_plan.runs import sequential
from grpo_plan.runs.sequential import above, below, onset

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=25)
LIMITS = st.floats(0.05, 0.95)


def alternatives(limit: float) -> list[float]:
    return [
        limit + (1 - limit) * u for u in np.geomspace(sequential.NEAREST, sequential.FARTHEST, sequential.ALTERNATIVES)
    ]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_means_of_the_evidence_by_enumeration(groups: int) -> None:
    p, m, d = sp.symbols("p m D", positive=True)
    mean = sum(
        sp.binomial(groups, k) * d**k * (1 - d) ** (groups - k) * (p / m) ** k * ((1 - p) / (1 - m)) ** (groups - k)
        for k in range(groups + 1)
    )
    assert sp.simplify(mean - (1 + (p - m) * (d - m) / (m * (1 - m))) ** groups) == 0
    assert (
        sp.simplify(
            d * symbolic.bet(1, p, m) + (1 - d) * symbolic.bet(0, p, m) - (1 + (p - m) * (d - m) / (m * (1 - m)))
        )
        == 0
    )
    one = symbolic.row_evidence(sp.Rational(1, groups), groups, p, m)
    assert float(one.subs({p: 0.7, m: 0.4})) == pytest.approx(0.7 / 0.4 * 0.5 ** (groups - 1))


def test_weights_of_starts_sum_to_one() -> None:
    total = sum(symbolic.start_weight(r) for r in range(1, 41))
    assert float(total + 1 / sp.log(42, 2)) == pytest.approx(1.0, abs=1e-14)
    assert all(float(symbolic.start_weight(r)) > 0 for r in range(1, 41))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.sampled_from([0.25, 0.5, 0.8]), st.booleans())
def test_evidence_is_that_of_the_equation(counts: list[int], limit: float, counted: bool) -> None:
    x = [k / 8 for k in counts]
    factors = [
        [
            float(symbolic.row_evidence(s, 8, p, limit) if counted else symbolic.bet(s, p, limit))
            for p in alternatives(limit)
        ]
        for s in x
    ]
    test = above(x, limit, groups=8 if counted else None)
    for t in range(len(x)):
        wanted = math.log(float(symbolic.restarted_evidence(factors[: t + 1])))
        assert test.log_evidence[t] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("chance", [0.5, 0.3])
def test_evidence_is_a_supermartingale_by_enumeration(counted: bool, chance: float) -> None:
    """Over all counts of the next row, the mean evidence is at most the one before: exactly, after any past."""
    for past in ([], [0.0], [1.0, 0.75], [0.25] * 6, [0.75] * 9):
        groups = 4 if counted else None
        before = float(above(past, 0.5, groups=groups).log_evidence[-1]) if past else 0.0
        after = sum(
            math.comb(4, k)
            * chance**k
            * (1 - chance) ** (4 - k)
            * math.exp(above([*past, k / 4], 0.5, groups=groups).log_evidence[-1])
            for k in range(5)
        )
        assert after <= math.exp(before) * (1 + 1e-12)
        if chance == 0.5:
            assert after == pytest.approx(math.exp(before), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(SHARES, LIMITS, st.sampled_from([None, 1, 16]))
def test_above_and_below_are_one_test_turned(values: list[float], limit: float, groups: int | None) -> None:
    up = above(values, limit, groups=groups)
    down = below([1 - v for v in values], 1 - limit, groups=groups)
    np.testing.assert_allclose(up.log_evidence, down.log_evidence, atol=1e-6)
    assert 0.0 <= up.p_value <= 1.0
    assert up.crossed == (up.p_value <= up.alpha)


@settings(max_examples=40, deadline=None)
@given(SHARES, LIMITS, st.sampled_from([None, 1, 16]), st.integers(0, 24))
def test_more_of_a_share_is_more_evidence_and_rows_without_one_are_nothing(
    values: list[float], limit: float, groups: int | None, at: int
) -> None:
    test = above(values, limit, groups=groups)
    higher = above([min(1.0, v + 0.1) for v in values], limit, groups=groups)
    assert (higher.log_evidence >= test.log_evidence - 1e-9).all()
    where = min(at, len(values))
    holed = above([*values[:where], math.nan, *values[where:]], limit, groups=groups)
    np.testing.assert_allclose(np.delete(holed.log_evidence, where), test.log_evidence)
    assert holed.rows == test.rows
    prefix = above(values[: where or 1], limit, groups=groups)
    np.testing.assert_allclose(prefix.log_evidence, test.log_evidence[: where or 1])  # no look ahead


def test_ends_of_the_limit() -> None:
    assert not above([1.0] * 50, 1.0, groups=8).crossed
    assert not below([0.0] * 50, 0.0, groups=8).crossed
    assert above([0.0, 0.125, 0.0], 0.0, groups=8).crossed_at == 1
    assert above([0.0] * 50, 0.0, groups=8).p_value == pytest.approx(1.0)
    empty = above([], 0.5)
    assert (empty.crossed_at, empty.p_value, empty.rows) == (None, 1.0, 0)
    assert above([math.nan] * 3, 0.5).log_evidence.tolist() == [0.0, 0.0, 0.0]


def test_a_late_change_is_found_and_dated() -> None:
    """500 rows in line, then 40 rows .1 above, 32 groups a row: found in at least 85 of 100 runs, start named."""
    rng = np.random.default_rng(87)
    found, named = 0, 0
    for _ in range(100):
        x = np.concatenate([rng.binomial(32, 0.5, 500), rng.binomial(32, 0.6, 40)]) / 32
        began = onset(x, 0.5, groups=32)
        if began is not None and began.until >= 500:
            found += 1
            named += began.earliest <= 500 <= began.latest
            assert began.earliest <= began.row <= began.latest <= began.until
    assert found >= 85
    assert named >= 0.8 * found


def test_without_counts_an_onset_is_dated_by_the_noise_of_neighbours() -> None:
    rng = np.random.default_rng(88)
    errors = []
    for _ in range(30):
        x = np.concatenate([rng.binomial(128, 0.5, 100), rng.binomial(128, 0.7, 60)]) / 128
        began = onset(x, 0.5)
        assert began is not None
        errors.append(abs(began.row - 100))
        assert began.share == pytest.approx(0.7, abs=0.05)
    assert np.median(errors) <= 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=7), st.booleans())
def test_onset_is_the_best_stretch(counts: list[int], up: bool) -> None:
    values = [*(k / 8 for k in counts), 1.0, 1.0, 1.0, 1.0]
    values = values if up else [1 - v for v in values]
    test = above(values, 0.5, groups=8) if up else below(values, 0.5, groups=8)
    began = onset(values, 0.5, groups=8, direction="above" if up else "below")
    assert (began is None) == (test.crossed_at is None)
    if began is not None and test.crossed_at is not None:
        seen = values if up else [1 - v for v in values]
        logs = np.array(
            [[8 * (x * math.log(p / 0.5) + (1 - x) * math.log((1 - p) / 0.5)) for p in alternatives(0.5)] for x in seen]
        )
        first, last = symbolic.most_likely_stretch(np.exp(logs).tolist(), test.crossed_at)
        best = logs[first : last + 1].sum(axis=0).max()
        assert logs[began.row : began.until + 1].sum(axis=0).max() == pytest.approx(best, abs=1e-9)


def test_onset_skips_rows_without_a_value() -> None:
    began = onset([0.5] * 10 + [math.nan] * 5 + [0.9] * 10, 0.5, groups=32)
    assert began is not None
    assert (began.row, began.until) == (15, 24)
    assert onset([0.5] * 30, 0.5, groups=32) is None


Draw = Callable[[np.random.Generator], np.ndarray]
NULLS: dict[str, tuple[Draw, float, int]] = {
    "at the limit": (lambda g: g.binomial(32, 0.5, 300) / 32, 0.5, 32),
    "rare": (lambda g: g.binomial(8, 0.05, 300) / 8, 0.05, 8),
    "large rows": (lambda g: g.binomial(128, 0.9, 300) / 128, 0.9, 128),
    "slowly falling": (lambda g: g.binomial(32, np.linspace(0.5, 0.4, 300)) / 32, 0.5, 32),
    "ten steps a row": (lambda g: g.binomial(320, 0.5, 30) / 320, 0.5, 320),
    "a lower bound of the groups": (lambda g: g.binomial(64, 0.5, 300) / 64, 0.5, 16),
    "a share that wanders below": (
        lambda g: g.binomial(32, np.minimum(0.5, 0.5 + np.cumsum(g.normal(0, 0.02, 300)).clip(-0.4, 0))) / 32, 0.5, 32),
}  # fmt: skip


@pytest.mark.parametrize("name", NULLS)
def test_false_alarms_of_whole_runs(name: str) -> None:
    """At alpha = .1 over the whole run: 150 runs, both forms, at most .1 and 3 standard errors."""
    draw, limit, groups = NULLS[name]
    rng = np.random.default_rng(86)
    runs = [draw(rng) for _ in range(150)]
    allowed = 0.1 + 3 * math.sqrt(0.09 / 150)
    for counted in (groups, None):
        assert np.mean([above(x, limit, groups=counted, alpha=0.1).crossed for x in runs]) <= allowed


def shuffled_epochs(rng: np.random.Generator, epochs: int) -> tuple[np.ndarray, float]:
    """Rows of 32 of 640 prompts, each prompt once an epoch, their chances of a dead group far apart."""
    chance = rng.beta(0.3, 0.3, 640)
    rows = [(rng.random(640) < chance[rng.permutation(640)]).reshape(20, 32).mean(axis=1) for _ in range(epochs)]
    return np.concatenate(rows), float(chance.mean())


@pytest.mark.slow
def test_false_alarms_at_the_default_rate() -> None:
    """alpha = .005, 1,000 runs of 400 rows each: at most .005 and 3 standard errors (11 alarms)."""
    rng = np.random.default_rng(2)
    alarms = [0, 0, 0]
    for _ in range(1000):
        x = rng.binomial(32, 0.5, 400) / 32
        alarms[0] += above(x, 0.5, groups=32).crossed
        alarms[1] += above(x, 0.5).crossed
        rows, limit = shuffled_epochs(rng, 10)
        alarms[2] += above(rows, limit, groups=32).crossed
    assert max(alarms) <= 11


@pytest.mark.parametrize(("groups", "excess", "most"), [(8, 0.2, 16), (32, 0.1, 17), (128, 0.05, 17), (128, 0.2, 3)])
def test_power(groups: int, excess: float, most: int) -> None:
    """Median rows to the alarm as in the table of eq. 87, with a margin of a third."""
    rng = np.random.default_rng(groups)
    rows = [above(rng.binomial(groups, 0.5 + excess, 100) / groups, 0.5, groups=groups).crossed_at for _ in range(60)]
    assert np.median([100 if r is None else r + 1 for r in rows]) <= most


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limit": 1.5}, "limit must lie in"),
        ({"alpha": 0.0}, "alpha must lie strictly between 0 and 1"),
        ({"values": [30.0]}, "Percentages"),
        ({"direction": "up"}, "direction must be above or below"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"values": [0.5], "limit": 0.5, **change}
    with pytest.raises(DomainError, match=words):
        onset(arguments.pop("values"), arguments.pop("limit"), **arguments)  # type: ignore[arg-type]
