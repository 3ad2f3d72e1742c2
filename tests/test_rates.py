"""Rates become the counts they stand for, n is inferred only where it is evident, and nothing is read as its opposite."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.fitting.status import FitStatus
from grpo_plan.readers.rates import (
    MAX_CHANCE,
    NotARate,
    RateColumn,
    RateReading,
    decimal_of,
    inferred_rollouts,
    passes_of,
    reading_of,
)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 2000))
    return draw(st.integers(0, n)), n


@given(counts(), st.integers(1, 17))
def test_counts_to_rates_to_counts(kn: tuple[int, int], digits: int) -> None:
    k, n = kn
    text = f"{Decimal(k) / Decimal(n):.{digits}f}"
    if 10**digits > 2 * n:  # neighbours are then further apart than the rounding
        assert passes_of(Decimal(text), n, digits) == k
        assert RateReading(digits=digits, fails=True).passes(text, n) == n - k
    else:
        fits = [j for j in range(n + 1) if abs(Fraction(j, n) - Fraction(text)) <= Fraction(1, 2 * 10**digits)]
        assert k in fits
        if len(fits) > 1:
            with pytest.raises(NotARate, match="several"):
                passes_of(Decimal(text), n, digits)


@given(counts())
def test_floats_and_single_precision_keep_their_counts(kn: tuple[int, int]) -> None:
    k, n = kn
    assert RateReading().passes(k / n, n) == k
    assert RateReading(fails=True).passes(1 - k / n, n) == k
    assert RateReading(percent=True).passes(100 * (k / n), n) == k
    assert RateReading().passes(float(np.float32(k / n)), n) == k


def test_a_rate_between_counts_and_a_coarse_one_are_refused() -> None:
    with pytest.raises(NotARate, match="none"):
        passes_of(Decimal("0.33"), 8)
    with pytest.raises(NotARate, match="several"):
        passes_of(Decimal("0.33"), 1024)
    with pytest.raises(NotARate, match="several"):
        passes_of(Decimal("0.5"), 1000, digits=1)
    assert passes_of(Decimal("0.5"), 1000) == 500
    with pytest.raises(NotARate, match="range"):
        RateReading().passes(-0.1, 8)
    assert [decimal_of(v) for v in (True, "x", float("inf"), None)] == [None] * 4


def interior_multiples(n: int, c: int, p: float) -> float:
    """Chance that k of n is a multiple of c, given that it is neither 0 nor n."""
    pmf = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    inner = sum(pmf[1:n])
    return sum(pmf[k] for k in range(c, n, c)) / inner


@pytest.mark.parametrize("n", range(4, 49))
def test_half_is_the_most_that_chance_makes_multiples(n: int) -> None:
    """The bound behind the inference, by enumeration; it is nearly reached, and a smaller one would be wrong."""
    rates = (1e-4, 0.01, 0.1, 0.2, 1 / 3, 0.45, 0.5, 0.8, 0.999)
    worst = max((interior_multiples(n, c, p) for c in range(2, n) if n % c == 0 for p in rates), default=0.0)
    assert worst <= 0.5 + 1e-12
    if n % 2 == 0 and n >= 12:
        assert worst > 0.49


def rates_of(
    n: int, prompts: int, seed: int, digits: int | None = None, sizes: tuple[int, ...] = ()
) -> dict[Decimal, int]:
    draw = random.Random(seed)
    column = RateColumn()
    values: list[object] = []
    for i in range(prompts):
        p, m = draw.betavariate(0.7, 0.9), sizes[i % len(sizes)] if sizes else n
        rate = sum(draw.random() < p for _ in range(m)) / m
        values.append(rate if digits is None else round(rate, digits))
    column.add(values)
    return dict(column.decimals())


@pytest.mark.parametrize("n", [3, 4, 5, 8, 12, 16, 24, 32, 64, 128, 256])
@pytest.mark.parametrize("digits", [None, 4, 3])
def test_n_is_found(n: int, digits: int | None) -> None:
    if digits is not None and 10**digits <= 4 * n:
        pytest.skip("rounded too coarsely")
    assert inferred_rollouts(rates_of(n, 600, n, digits)) == (n, "")


def test_a_wrong_n_is_almost_never_inferred() -> None:
    """2,000 columns of 10 to 60 prompts: a false n has a chance of some 2**-20 each, so one in 2,000 is an alarm."""
    wrong, found = 0, 0
    for seed in range(2000):
        n = (4, 6, 8, 12, 16)[seed % 5]
        got, _ = inferred_rollouts(rates_of(n, 10 + seed % 51, seed))
        found += got == n
        wrong += got not in (None, n)
    assert wrong == 0
    assert found > 800


def test_the_check_has_teeth() -> None:
    """With the evidence asked for left out, small columns do give a wrong n."""
    wrong = 0
    for seed in range(400):
        values = {v for v in rates_of(8, 4, seed) if 0 < v < 1}
        least = next((n for n in range(2, 513) if all((v * n) % 1 == 0 for v in values)), None)
        wrong += least != 8
    assert wrong > 40


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({Decimal("0"): 900, Decimal("0.5"): 900, Decimal("1"): 900}, "too few different rates between 0 and 1: 1"),
        ({Decimal("0"): 900, Decimal("1"): 900}, "too few different rates between 0 and 1: 0"),
        ({Decimal("0.25"): 9, Decimal("0.5"): 9}, "too few prompts with a rate between 0 and 1: 18"),
        ({Decimal(k) / 100: 5 for k in range(101)}, "n = 80 may be rounding or chance"),
        ({Decimal(k) / 1000: 5 for k in range(1001)}, "for no n up to 512"),
        (rates_of(0, 3000, 1, sizes=(8,) * 9 + (15,)), "n seems to differ between prompts"),
        (rates_of(0, 3000, 2, sizes=(7, 8)), "n seems to differ between prompts"),
    ],
)
def test_what_is_not_evident_is_not_assumed(values: dict[Decimal, int], why: str) -> None:
    n, reason = inferred_rollouts(values)
    assert n is None
    assert why in reason


def test_one_digit_may_be_rounding() -> None:
    """Tenths are what any rate becomes with one digit; fifths are not."""
    tenths = {Decimal(k) / 10: 50 for k in range(11)}
    assert inferred_rollouts(tenths)[1] == "with 1 digit and 9 different rates, n = 8 may be rounding or chance"
    assert inferred_rollouts({Decimal(k) / 5: 50 for k in range(6)}) == (5, "")
    few = {Decimal("0.42"): 500, Decimal("0.58"): 500}  # 5/12, and 8/19
    assert inferred_rollouts(few)[0] is None


def test_digits_are_those_of_the_column() -> None:
    assert MAX_CHANCE <= 1e-6
    column = RateColumn()
    column.add([0.5, 0.06, 0.12, 0.19, 0.25, None, "n/a"] * 5 + [0.44] * 5)
    reading, notes = reading_of(column, "t", "rate", fails=False, known_n=False)
    assert (reading.rollouts, reading.digits, column.rows) == (16, 2, 30)
    assert notes[0].startswith("t: all 30 rates in rate are multiples of 1/16: n = 16 assumed; confirm with")


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def eighths(name: str, value: Any) -> list[dict[str, Any]]:
    return [{"problem": f"q{i}", name: value(i % 9)} for i in range(90)]


def test_tables_of_rates_without_n(tmp_path: Path) -> None:
    rows = eighths("pass_rate", lambda k: k / 8)
    frame = pl.DataFrame(rows)
    frame.write_csv(tmp_path / "a.csv")
    frame.with_columns(pl.col("pass_rate").cast(pl.Float32)).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    sources = [
        write(tmp_path / "a.jsonl", rows),
        tmp_path / "a.csv",
        tmp_path / "a.parquet",
        tmp_path / "a.json",
        frame,
    ]
    for source in sources:
        pilot = gp.read_pilot(source)
        assert pilot.rollouts.tolist() == [8] * 90
        assert pilot.successes.tolist() == [i % 9 for i in range(90)]
        assert any("n = 8 assumed; confirm with --rollouts-per-prompt 8" in note for note in pilot.notes)


def test_n_is_inferred_over_all_files(tmp_path: Path) -> None:
    """The first file alone would show 1/8."""
    write(tmp_path / "1.jsonl", eighths("pass_rate", lambda k: k / 8))
    write(tmp_path / "2.jsonl", [{"problem": f"r{i}", "pass_rate": (i % 16 + 0.0) / 16} for i in range(300)])
    pilot = gp.read_pilot(tmp_path)
    assert set(pilot.rollouts.tolist()) == {16}


def test_rates_keep_to_where(tmp_path: Path) -> None:
    rows = [r | {"model": "a"} for r in eighths("pass_rate", lambda k: k / 8)]
    rows += [{"problem": f"q{i}", "pass_rate": (i % 12) / 11, "model": "b"} for i in range(90)]
    path = write(tmp_path / "t.jsonl", rows)
    assert set(gp.read_pilot(path, where={"model": "a"}).rollouts.tolist()) == {8}
    assert set(gp.read_pilot(path, where={"model": "b"}).rollouts.tolist()) == {11}
    with pytest.raises(gp.PilotFormatError, match="no row fits --where"):
        gp.read_pilot(path, where={"model": "c"})


def test_percentages(tmp_path: Path) -> None:
    percent = write(tmp_path / "p.jsonl", eighths("pass_rate", lambda k: 100 * k / 8))
    pilot = gp.read_pilot(percent)
    assert pilot.successes.tolist() == [i % 9 for i in range(90)]
    assert any("pass_rate holds percentages" in note for note in pilot.notes)
    signs = write(tmp_path / "s.jsonl", eighths("pass_rate", lambda k: f"{100 * k / 8:g}%"))
    assert gp.read_pilot(signs).successes.tolist() == [i % 9 for i in range(90)]
    with_n = write(tmp_path / "n.jsonl", [r | {"n": 8} for r in eighths("pass_rate", lambda k: 12.5 * k)])
    assert gp.read_pilot(with_n).successes.tolist() == [i % 9 for i in range(90)]
    counts = write(tmp_path / "c.jsonl", eighths("pass_rate", lambda k: k))
    with pytest.raises(gp.PilotFormatError, match="whole numbers up to 8: percentages or counts"):
        gp.read_pilot(counts)
    over = write(tmp_path / "o.jsonl", eighths("pass_rate", lambda k: 20 * k))
    with pytest.raises(gp.PilotFormatError, match=r"must lie in \[0, 1\] or \[0, 100\]; got 160"):
        gp.read_pilot(over)


def test_rates_of_failures_are_told_apart(tmp_path: Path) -> None:
    fails = write(tmp_path / "f.jsonl", eighths("fail_rate", lambda k: k / 8))
    pilot = gp.read_pilot(fails)
    assert pilot.successes.tolist() == [8 - i % 9 for i in range(90)]
    assert "fail_rate = 'fail_rate'" in pilot.notes[0]
    hard = write(tmp_path / "d.jsonl", eighths("difficulty", lambda k: k / 8))
    with pytest.raises(gp.PilotFormatError, match="Is 'difficulty' the share that failed"):
        gp.read_pilot(hard)
    assert gp.read_pilot(hard, fail_rate="difficulty").successes.tolist() == pilot.successes.tolist()
    named = gp.read_pilot(hard, pass_rate="difficulty")
    assert named.successes.tolist() == [i % 9 for i in range(90)]
    assert any("is read as the share that passed, as named" in note for note in named.notes)
    percent = write(tmp_path / "x.jsonl", eighths("error_rate", lambda k: 12.5 * k))
    assert gp.read_pilot(percent, fail_rate="error_rate").successes.tolist() == pilot.successes.tolist()
    with pytest.raises(gp.DomainError, match="pass_rate and fail_rate were both given"):
        gp.read_pilot(hard, fail_rate="difficulty", pass_rate="difficulty")
    with pytest.raises(gp.PilotFormatError, match="no column 'nope'"):
        gp.read_pilot(hard, fail_rate="nope")


def test_words_and_empty_columns_are_no_rates(tmp_path: Path) -> None:
    words = write(tmp_path / "w.jsonl", [{"problem": "a", "pass_rate": "often"}])
    with pytest.raises(gp.PilotFormatError, match="pass_rate is often, which is no rate"):
        gp.read_pilot(words)
    empty = write(tmp_path / "e.jsonl", [{"problem": "a", "pass_rate": None}])
    with pytest.raises(gp.PilotFormatError, match="pass_rate holds no rate at all"):
        gp.read_pilot(empty)


def test_a_weak_prior_is_a_status() -> None:
    rows = [{"prompt": f"q{i}", "n": 8, "k": i % 9} for i in range(90)]
    pilot = gp.read_pilot(pl.DataFrame(rows), weak_prior="some/model")
    assert pilot.provenance.weak_prior == "some/model"
    assert pilot.notes[-1] == "weak prior: these are pass rates of some/model, not of the policy to be trained."
    fit = gp.fit_pass_rates(pilot)
    assert fit.status is FitStatus.WEAK_PRIOR
    assert FitStatus.OK not in fit.statuses
    assert FitStatus.WEAK_PRIOR not in gp.fit_pass_rates(gp.read_pilot(pl.DataFrame(rows))).statuses
    with pytest.raises(gp.DomainError, match="weak_prior must be the name of a model"):
        gp.read_pilot(pl.DataFrame(rows), weak_prior=" ")


COMMANDS = {
    "fit": ["--group-sizes", "2,8"],
    "plan": ["--budget-rollouts", "100000", "--steps", "50"],
    "refill": ["--prompts-per-step", "16", "--group-size", "8"],
    "mix": [],
    "temperature": [],
    "allocate": [],
    "pilot-size": ["--group-size", "8", "--half-width", "0.1"],
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_every_answer_shows_a_weak_prior(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    json_too: bool,
) -> None:
    from grpo_plan.__main__ import main

    temperatures = (0.6, 1.0) if command == "temperature" else (1.0,)
    rows = [
        {"prompt": f"q{i}", "n": 8, "k": (i + int(10 * t)) % 9, "temperature": t, "stratum": "ab"[i % 2]}
        for i in range(90)
        for t in temperatures
    ]
    path = write(tmp_path / "t.jsonl", rows)
    arguments = [command, str(path), *COMMANDS[command], "--weak-prior", "M", *(["--json"] if json_too else [])]
    monkeypatch.setattr("sys.argv", ["grpo-plan", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    out = capsys.readouterr().out
    assert stop.value.code in (0, None), out
    assert "WEAK_PRIOR" in out
