"""The study of simulated learning: a few cells measured anew, the whole study from its tables."""

from __future__ import annotations

import numpy as np
import pytest

from figures import learning, learning_page, learning_plan
from figures.learning import NUMBERS, PUBLISHED_STEPS, STUDIES, TESTBED_STEPS, Row, row_of, rows_of
from figures.learning_cells import NOISE, STEPS, Cell, gains, mean_of, sweep
from figures.learning_tables import MEAN, SIGN, agreement, count, duels, one, selected, sizes_of
from grpo_plan.estimators import sign_threshold_kappa

ROWS = rows_of()
PLANS = rows_of(learning_plan.PATH)
LEARNED = 0.002
# A few rows of several parts: kept small, for they are simulated anew in every run of the tests.
SMOKE = (
    {"study": "map", "rates": "hard", "kappa": "1", "prompts": "4", "optimizer": "sgd", "rate_is": "best"},
    {"study": "map", "rates": "middling", "kappa": "10", "prompts": "4", "noise": "spreads", "rate_is": "best"},
    {"study": "sizes", "kappa": "6", "group_size": "64", "noise": "spreads", "rate_is": "best"},
    {"study": "choice", "rates": "hard", "kappa": "10", "how": "refill"},
    {"study": "choice", "rates": "hard", "kappa": "10", "how": "band"},
)
SAME = ("start", "gain", "gain_se", "final", "final_se", "nsr", "dead", "failure", "turned", "logit", "trained_share")


def cell_of(row: Row) -> Cell:
    """The cell that a row is of."""
    steps = {"published": PUBLISHED_STEPS, "testbed": TESTBED_STEPS}.get(row["study"], STEPS)
    assert float(row["damage"]) == NOISE[row["noise"]][1] or row["study"] == "testbed"
    return Cell(
        study=row["study"], rates=row["rates"], kappa=float(row["kappa"]), coherence=row["coherence"],
        prompts=int(row["prompts"]), group_size=int(row["group_size"]), optimizer=row["optimizer"],
        noise=row["noise"], estimator=row["estimator"], how=row["how"], steps=steps, damage=float(row["damage"]),
        shuffled=row["study"] == "control",
    )  # fmt: skip


@pytest.mark.parametrize("wanted", SMOKE, ids=lambda w: f"{w['study']}-{w.get('rates', 'example')}-{w.get('how', '')}")
def test_rows_measured_anew_are_those_of_the_table(wanted: dict[str, str]) -> None:
    rows = selected(ROWS, **wanted)
    assert rows
    for row in rows:
        cell = cell_of(row)
        measure = "average" if row["study"] in ("map", "sizes") else "final"
        found = row_of(cell, cell.simulate(float(row["rate"])), rate_is=row["rate_is"], measure=measure)
        for name in SAME:
            assert float(found[name]) == pytest.approx(float(row[name]), rel=1e-4, abs=1e-9), (row, name)


def test_a_sweep_made_anew_finds_the_rate_of_the_table() -> None:
    row = one(ROWS, study="choice", rates="hard", kappa="10", how="")
    found = sweep(cell_of(row), learning.START["adam-norm"], "final")
    assert (f"{found.rate:.6g}", found.inside, len(found.tried)) == (row["rate"], True, int(row["rates_tried"]))


def test_the_page_is_that_of_its_tables() -> None:
    assert learning_page.page() == learning_page.PAGE.read_text(encoding="utf-8")


def test_the_plans_are_those_of_the_planner() -> None:
    assert learning_plan.rows() == PLANS


def test_every_part_is_there_and_every_number_finite() -> None:
    assert list(dict.fromkeys(row["study"] for row in ROWS)) == list(STUDIES)
    for row in ROWS:
        values = [float(row[name]) for name in NUMBERS if row[name] and name not in ("threshold", "by_seed")]
        assert np.isfinite(values).all(), row
        assert row["gain"] and row["gain_se"], row


def test_best_rates_lie_inside_their_sweeps() -> None:
    best = [row for row in ROWS if row["rate_is"] == "best"]
    assert all(int(row["rates_tried"]) >= 4 for row in best)
    assert all(row["inside"] == "1" for row in best if float(row["gain"]) >= LEARNED)


def test_shuffled_rewards_teach_nothing() -> None:
    """Limits hold for all cells at once, so that 95 of 100 such tables would pass."""
    for row in selected(ROWS, study="control"):
        assert float(row["logit_low"]) <= 0.0 <= float(row["logit_high"]), row


@pytest.mark.parametrize("estimator", ["rloo", "sign"])
def test_the_control_has_teeth(estimator: str) -> None:
    """Fresh seeds; the limits of shuffled rewards leave 0 out in 1 of 1,000 runs, those of true ones do not hold 0."""
    cell = Cell(study="control", rates="mixed", kappa=1.0, prompts=32, noise="spreads", estimator=estimator)
    limits = {}
    for shuffled in (True, False):
        run = Cell(**{**_fields(cell), "shuffled": shuffled}).simulate(0.25, first=5000)
        limits[shuffled] = mean_of(run.held_out_logit[:, -1], comparisons=50)
    assert limits[True].low is not None
    assert limits[True].low <= 0.0 <= (limits[True].high or 0.0)
    assert (limits[False].low or 0.0) > 0.0


def _fields(cell: Cell) -> dict[str, object]:
    return {name: getattr(cell, name) for name in Cell.__slots__}
