"""The study of simulated learning: when which estimator, group size and choice of prompts learns more.

Run ``python -m figures.learning`` to measure everything anew and write ``learning.csv`` beside this file, or
``python -m figures.learning map control`` for some parts; then ``python -m figures.learning_page`` for the page and
``python -m figures.learning_plot`` for the pictures. All parts take about a quarter of an hour of one core.
Random numbers come from the seeds stated in `figures.learning_cells`.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from figures.learning_cells import STEPS, Cell, Floats, gains, law_of, like, mean_of, sweep
from grpo_plan.estimators import sign_threshold_kappa
from grpo_plan.simulation import Simulation

HERE = Path(__file__).resolve().parent
PATH = HERE / "learning.csv"
KEYS = (
    "study", "rates", "kappa", "coherence", "prompts", "group_size", "optimizer", "noise", "how", "damage",
    "estimator", "rate_is",
)  # fmt: skip
NUMBERS = (
    "rate", "inside", "rates_tried", "seeds", "start", "gain", "gain_se", "final", "final_se", "difference", "low",
    "high", "nsr", "threshold", "dead", "failure_start", "failure", "turned", "turned_back", "logit", "logit_low",
    "logit_high", "trained_share", "shuffled", "by_seed",
)  # fmt: skip
Row = dict[str, str]
SETS = ("hard", "mixed", "example", "middling")
KAPPAS = (0.0, 0.05, 1.0, 10.0, 100.0)
SOME_KAPPAS = (0.05, 1.0, 10.0)
GROUP_SIZES = (2, 3, 4, 6, 8, 12, 16, 32, 64)
SIZE_KAPPAS = (0.3, 1.0, 6.0, 30.0)
ROLLOUTS = 512
TESTBED_STEPS, TESTBED_KAPPA = 150, 1.42
PUBLISHED_STEPS = 200
CONTROL_SEEDS = 16
OTHERS = ("grpo", "maxrl", "f_grpo", "ngrpo")
ONLY = {
    "turning": ("failure_start", "failure", "turned", "turned_back"),
    "control": ("logit", "logit_low", "logit_high"),
    "choice": ("trained_share", "dead"),
}  # numbers that one part alone is asked for
WALKS = ("map", "sizes")  # parts in which noise that harms nothing is also looked at alone, with shuffled rewards
START = {"sgd": 8.0, "adam-norm": 0.5}


def short(value: float | None) -> str:
    """A number of the table; empty where unknown.

    >>> short(0.123456789), short(None), short(2.0)
    ('0.123457', '', '2')
    """
    return "" if value is None else f"{value:.6g}"


def row_of(
    cell: Cell,
    simulation: Simulation,
    *,
    rate_is: str,
    measure: str = "average",
    reference: Floats | None = None,
    comparisons: int = 1,
    **more: float | None,
) -> Row:
    """One row: what was trained, how it ended, and its paired difference to a reference."""
    values = gains(simulation, measure)
    gain, final = mean_of(values), simulation.at("held_out")
    trained = simulation.at("trained_rollouts").value or 0.0
    generated = simulation.at("generated_rollouts").value or 1.0
    logit = mean_of(simulation.held_out_logit[:, -1], comparisons)
    numbers: dict[str, float | None] = {
        "rate": simulation.training.learning_rate, "seeds": float(len(simulation.seeds)),
        "start": simulation.at("held_out", 0).value, "gain": gain.value, "gain_se": gain.standard_error,
        "final": final.value, "final_se": final.standard_error, "nsr": simulation.at("noise_to_signal", 0).value,
        "threshold": sign_threshold_kappa(law_of(cell.rates), cell.group_size),
        "dead": simulation.average("dead").value, "failure_start": simulation.at("mean_failure", 0).value,
        "failure": simulation.at("mean_failure").value, "turned": simulation.at("turned").value,
        "turned_back": simulation.at("turned_back").value, "logit": logit.value, "logit_low": logit.low,
        "logit_high": logit.high, "trained_share": trained / generated, **more,
    }  # fmt: skip
    if (cell.noise == "spreads" or cell.kappa == 0.0) and cell.study in WALKS and rate_is != "common 1":
        walk = like(cell, shuffled=True).simulate(simulation.training.learning_rate)
        numbers["shuffled"] = mean_of(gains(walk, measure)).value
    if reference is not None:
        difference = mean_of(values - reference, comparisons)
        numbers |= {"difference": difference.value, "low": difference.low, "high": difference.high}
    keys: dict[str, object] = {
        "study": cell.study, "rates": cell.rates, "kappa": short(cell.kappa), "coherence": cell.coherence,
        "prompts": cell.prompts, "group_size": cell.group_size, "optimizer": cell.optimizer, "noise": cell.noise,
        "how": cell.how, "damage": short(simulation.model.damage), "estimator": cell.estimator, "rate_is": rate_is,
    }  # fmt: skip
    row = {k: str(v) for k, v in keys.items()} | {name: short(numbers.get(name)) for name in NUMBERS}
    for study, names in ONLY.items():
        if study != cell.study:
            row |= dict.fromkeys(names, "")
    if cell.study == "sizes":
        row["by_seed"] = " ".join(short(float(value)) for value in values)
    return row


def contest(cells: Iterable[Cell], *, measure: str = "average", common: Iterable[float] = ()) -> Iterator[Row]:
    """Cells at the best rate of each, compared with the first; then at shares of the first's best rate."""
    held = list(cells)
    rates: list[float] = []
    reference: Floats | None = None
    for cell in held:
        found = sweep(cell, rates[-1] if rates else START[cell.optimizer], measure)
        rates.append(found.rate)
        run = cell.simulate(found.rate)
        yield row_of(
            cell, run, rate_is="best", measure=measure, reference=reference, comparisons=max(1, len(held) - 1),
            inside=float(found.inside), rates_tried=float(len(found.tried)),
        )  # fmt: skip
        if reference is None:
            reference = gains(run, measure)
    for share in common:
        yield from at_rate(held, rates[0] * share, rate_is=f"common {share:g}", measure=measure)


def at_rate(cells: Iterable[Cell], rate: float, *, rate_is: str, measure: str = "average") -> Iterator[Row]:
    """Cells at one rate, compared with the first."""
    held = list(cells)
    reference: Floats | None = None
    for cell in held:
        run = cell.simulate(rate)
        yield row_of(
            cell, run, rate_is=rate_is, measure=measure, reference=reference, comparisons=max(1, len(held) - 1)
        )
        if reference is None:
            reference = gains(run, measure)


def _map() -> Iterator[Row]:
    """Sign against mean-centred advantages at G = 4."""
    places = [("costs", "low", "sgd"), ("costs", "low", "adam-norm"), ("costs", "high", "adam-norm")]
    places.append(("spreads", "low", "adam-norm"))
    for rates in SETS:
        for noise, coherence, optimizer in places:
            for prompts in (4, 128):
                for kappa in KAPPAS:
                    cell = Cell(
                        study="map", rates=rates, kappa=kappa, coherence=coherence, prompts=prompts,
                        optimizer=optimizer, noise=noise,
                    )  # fmt: skip
                    common = (1.0, 0.125) if optimizer != "sgd" else (1.0,)
                    yield from contest((cell, like(cell, estimator="sign")), common=common)


def _groups() -> Iterator[Row]:
    """The same at other group sizes and equal rollouts a step."""
    for rates in SETS:
        for size in (2, 8, 16):
            for kappa in SOME_KAPPAS:
                cell = Cell(study="groups", rates=rates, kappa=kappa, prompts=ROLLOUTS // size, group_size=size)
                yield from contest((cell, like(cell, estimator="sign")), common=(0.125,))


def _estimators() -> Iterator[Row]:
    """Other estimators against rloo."""
    for rates in SETS:
        for kappa in SOME_KAPPAS:
            cell = Cell(study="estimators", rates=rates, kappa=kappa)
            yield from contest([cell, *(like(cell, estimator=name) for name in OTHERS)])


def _published() -> Iterator[Row]:
    """Four prompts a step, as in the published runs: best rates, and one rate for both."""
    for optimizer in ("sgd", "adam-norm"):
        for coherence in ("low", "high"):
            for kappa in SOME_KAPPAS:
                for size in (4, 8):
                    cell = Cell(
                        study="published", rates="mixed", kappa=kappa, coherence=coherence, prompts=4, group_size=size,
                        optimizer=optimizer, estimator="dr_grpo", steps=PUBLISHED_STEPS,
                    )  # fmt: skip
                    both = (cell, like(cell, estimator="sign"))
                    yield from contest(both, measure="final", common=(1.0, 0.25, 0.0625, 0.015625))


def _testbed() -> Iterator[Row]:
    """The setting of the small transformer on hard additions."""
    cell = Cell(study="testbed", rates="testbed", kappa=TESTBED_KAPPA, steps=TESTBED_STEPS)
    places = [like(cell, damage=damage) for damage in (0.1, 1.0, 3.0, 10.0, 30.0)] + [like(cell, noise="spreads")]
    for place in places:
        yield from contest((place, like(place, estimator="sign")), measure="final", common=(1.0,))


def _turning() -> Iterator[Row]:
    """Failure of groups, and prompts that turn from all-fail to all-pass."""
    for rates in ("hard", "mixed"):
        for kappa in (0.05, 1.0):
            cell = Cell(study="turning", rates=rates, kappa=kappa, optimizer="sgd")
            other = like(cell, estimator="sign")
            rows = list(contest((cell, other), measure="final"))
            yield from rows
            rate = float(rows[0]["rate"])
            reference = gains(cell.simulate(rate), "final")
            run = other.simulate(rate / 2.0)
            yield row_of(other, run, rate_is="equal step", measure="final", reference=reference)


def _sizes() -> Iterator[Row]:
    """Group sizes at equal rollouts."""
    for noise in ("costs", "spreads"):
        for kappa in SIZE_KAPPAS:
            cell = Cell(study="sizes", rates="example", kappa=kappa, noise=noise)
            cells = [like(cell, group_size=g, prompts=ROLLOUTS // g) for g in (8, *GROUP_SIZES)]
            rows = list(contest(cells, common=(0.125,)))
            count = len(cells)
            yield from rows[1:count]
            yield from rows[count + 1 :]


def _choice() -> Iterator[Row]:
    """Refill and curriculum against prompts drawn alike, at equal generated rollouts.

    A refilled step needs more rollouts, so it makes fewer steps; "large" makes as few steps of as many rollouts from
    prompts drawn alike.
    """
    for rates in ("example", "hard"):
        mixed = 1.0 - float(law_of(rates)(8)[[0, -1]].sum())
        for kappa in (1.0, 10.0):
            cell = Cell(study="choice", rates=rates, kappa=kappa, group_size=8, prompts=64)
            large = like(cell, how="large", prompts=round(64 / mixed), steps=round(STEPS * mixed))
            hows = (like(cell, how=how) for how in ("refill", "band", "band-true"))
            yield from contest([cell, large, *hows], measure="final")


def _control() -> Iterator[Row]:
    """Shuffled rewards."""
    names = ("rloo", "dr_grpo", *OTHERS, "sign")
    places = [(r, p, o) for r in ("hard", "mixed", "middling") for p in (4, 128) for o in ("sgd", "adam-norm")]
    for rates, prompts, optimizer in places:
        for name in names:
            cell = Cell(
                study="control", rates=rates, kappa=1.0, prompts=prompts, optimizer=optimizer, noise="spreads",
                estimator=name, shuffled=True,
            )  # fmt: skip
            run = cell.simulate({"sgd": 4.0, "adam-norm": 0.25}[optimizer], seeds=CONTROL_SEEDS)
            yield row_of(cell, run, rate_is="given", measure="final", comparisons=len(places) * len(names))


STUDIES: dict[str, Callable[[], Iterator[Row]]] = {
    "map": _map, "groups": _groups, "estimators": _estimators, "published": _published, "testbed": _testbed,
    "turning": _turning, "sizes": _sizes, "choice": _choice, "control": _control,
}  # fmt: skip


def rows_of(path: Path = PATH) -> list[Row]:
    """Rows of the table."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(rows: Iterable[Row], fields: Iterable[str], path: Path) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, tuple(fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(names: list[str], path: Path = PATH) -> None:
    """Measure these parts anew, or all; rows of other parts stay."""
    old = rows_of(path) if names and path.exists() else []
    rows: list[Row] = []
    for name, study in STUDIES.items():
        rows += study() if not names or name in names else [row for row in old if row["study"] == name]
        print(f"{name}: {len(rows)} rows so far", file=sys.stderr)
    write_rows(rows, (*KEYS, *NUMBERS), path)


if __name__ == "__main__":
    main(sys.argv[1:])
