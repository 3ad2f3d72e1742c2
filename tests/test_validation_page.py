"""docs/validation.md against its raw results, and the numbers on it worked out in another way."""

from __future__ import annotations

import doctest
import json
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from figures.validation import claims, claims_of_parts, mix_plan, outcome, outcome_page, outcome_tables, page
from figures.validation.outcome import RUNS, between, ratio, runs
from figures.validation.outcome_plan import exact_dead, first_below, plans
from figures.validation.outcome_tables import gains_table, regret, sizes_of, worlds
from figures.validation.smoke_limits import alarms, limits, rows, study_gains


def test_the_page_is_that_of_its_results() -> None:
    assert page.page() == page.PAGE.read_text(encoding="utf-8"), "run python -m figures.validation.page"


def test_every_part_is_there() -> None:
    assert list(page.sections()) == list(page.PARTS)


@pytest.mark.parametrize("module", [claims, claims_of_parts, outcome, outcome_page, outcome_tables])
def test_examples_in_the_study_s_code(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def test_gains_are_those_of_the_raw_curves() -> None:
    """The table of a world, from the parquet file alone."""
    frame = pl.read_parquet(RUNS).filter((pl.col("part") == "sizes") & (pl.col("world") == "all"))
    gain = pl.col("pass_rate").list.mean() - pl.col("pass_rate").list.first()
    by = frame.with_columns(gain=gain).group_by("group", "rate").agg(pl.col("gain").mean(), pl.len())
    found = {(g, r): v for g, r, v, n in by.iter_rows() if n == 4}
    table = [line.split(" | ") for line in gains_table("all")[2:-1]]
    rates = [float(cell.split()[-1]) * 1e-4 for cell in gains_table("all")[0].strip("| ").split(" | ")[1:-3]]
    assert len(table) >= 9
    for cells in table:
        size = int(cells[0].strip("| "))
        for rate, cell in zip(rates, cells[1:], strict=False):
            if cell != "-":
                key = next(k for k in found if k[0] == size and k[1] == pytest.approx(rate))
                assert float(cell.strip("*").split()[0]) == pytest.approx(100 * found[key], abs=0.051)
        best = max((r for g, r in found if g == size), key=lambda r: found[size, r])
        bold = next(i for i, cell in enumerate(cells[1:]) if cell.startswith("**"))
        assert rates[bold] == pytest.approx(best)


def test_no_seed_chooses_its_own_rate() -> None:
    held = sizes_of("all")
    for size, values in held.held_out().items():
        for i in range(len(held.seeds)):
            others = [j for j in range(len(held.seeds)) if j != i]
            rate = max(held.rates(size), key=lambda r, others=others, size=size: held.gains[size, r][others].mean())  # type: ignore[misc]
            assert values[i] == held.gains[size, rate][i]
        assert values.mean() <= held.best()[size].mean() + 1e-12


def test_limits_of_a_ratio_hold_it() -> None:
    """Four pairs with a true ratio of .7; of 2,000 such limits at 95 % fewer than 1,860 would hold it one time in 10,000."""
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        shared, own = generator.normal(0, 0.3, 4), generator.normal(0, 0.3, (2, 4))
        found = ratio(7 + shared + own[0], 10 + shared + own[1])
        held += found.low <= 0.7 <= found.high
    assert 1860 <= held <= 1938


def test_a_ratio_to_a_gain_that_may_be_nothing_is_open() -> None:
    found = ratio(np.array([1.0, 1.1, 0.9, 1.0]), np.array([0.1, -0.2, 0.3, 0.0]))
    assert (found.low, found.high) == (-np.inf, np.inf)


def test_sizes_between_swept_ones_are_read_in_log_g() -> None:
    gains = {4: np.array([1.0, 2.0]), 16: np.array([0.0, 1.0])}
    assert between(gains, 8) == pytest.approx([0.5, 1.5])
    assert between(gains, 4) == pytest.approx([1.0, 2.0])
    assert between(gains, 16) == pytest.approx([0.0, 1.0])
    assert between(gains, 99) == pytest.approx([0.0, 1.0])
    assert between(gains, 2) == pytest.approx([1.0, 2.0])


def test_the_best_size_has_no_regret_and_no_other_has_less() -> None:
    for world in worlds():
        lost = [regret(world, size).value for size in sizes_of(world).sizes]
        assert min(lost) == 0.0


def test_the_rule_of_low_dead_fractions_takes_the_first() -> None:
    dead = exact_dead("all")
    size = first_below("all", tuple(dead))
    assert dead[size] <= 0.4
    assert all(dead[s] > 0.4 for s in dead if s < size)
    assert first_below("easy", (2, 4, 8, 16, 32)) == 32  # none is so low


def test_curves_start_at_the_policy_of_their_world() -> None:
    for world in worlds():
        starts = {run.pass_rate[0] for run in runs() if run.part == "sizes" and run.world == world}
        assert len(starts) == 1, world


def test_dead_fractions_of_first_steps_are_near_the_exact_ones() -> None:
    """Within four standard errors of a share, and .03 for what the policy moves in these 10 steps."""
    for world in worlds():
        exact = exact_dead(world)
        for size in sizes_of(world).sizes:
            found = [r for r in runs() if (r.part, r.world, r.group, r.rate) == ("sizes", world, size, 2.5e-4)]
            groups = sum(10 * run.prompts for run in found)
            error = (exact[size] * (1 - exact[size]) / groups) ** 0.5
            seen = np.mean([run.dead[0] for run in found])
            assert seen == pytest.approx(exact[size], abs=0.03 + 4 * error), (world, size)


def test_the_mix_is_what_the_planner_says() -> None:
    committed = json.loads(mix_plan.PATH.read_text(encoding="utf-8"))
    found = mix_plan.predictions(committed["kappa"][0])
    assert committed["kappa"] == [plans()["all"].probe[0]]
    for name, values in committed.items():
        assert found[name] == pytest.approx(values, rel=1e-3), name


def test_the_smoke_check_knows_right_from_wrong() -> None:
    own = next(row for row in rows() if (row["teaching"], row["nudge"]) == (1, 0))
    assert alarms(own) == []
    gains = study_gains()
    assert np.mean(gains[4]) - np.mean(gains[32]) > 0.01
    assert alarms({**own, "gain_4": -own["gain_4"]}) == ["gain_4"]  # wrong sign
    assert alarms({**own, "pass_rate": own["pass_rate"] + 1e-4, "gain_4": 0.0}) == ["gain_4"]  # learns nothing
    other = {**own, "pass_rate": own["pass_rate"] + 1e-4}  # another processor: limits alone
    assert alarms({**other, "dead_4": 0.5, "z_32": 4.0}) == ["dead_4", "z_32"]
    assert alarms({**own, "gain_4": own["gain_4"] + 0.009}) == [
        "gain_4"
    ]  # not centred: inside the limits, not the same
    assert alarms({**other, "gain_4": own["gain_4"] + 0.009}) == []
    assert len(limits()) == 7


def test_the_study_repeats_bit_by_bit_where_it_was_made() -> None:
    """The smoke check's own run is one of the study's."""
    own = next(row for row in rows() if (row["teaching"], row["nudge"]) == (1, 0))
    for size in (4, 32):
        assert own[f"gain_{size}"] == pytest.approx(study_gains()[size][0], abs=2e-5)
