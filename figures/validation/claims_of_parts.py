"""Rows of the first table of docs/validation.md on forecasts, the probe and TRL, from what their own pages compute."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from scipy import stats

from figures.validation.outcome_plan import RESULTS

TRUE, PART, NOT = "came true", "in part", "not"
HELD, NEARLY = 0.93, 0.85  # share of 95 % limits that hold the truth from which it came true, and in part
BIAS = 0.01
Row = tuple[str, str, str]


def part(name: str, *results: str) -> Any:
    """The module of a part, or None where it or its results are missing."""
    there = (Path(__file__).parent / f"{name}.py").exists() and all((RESULTS / file).exists() for file in results)
    return importlib.import_module(f"figures.validation.{name}") if there else None


def held(inside: int, count: int) -> str:
    """How often limits held the truth, graded, with limits of that share.

    >>> held(188, 200)
    'came true: 188 of 200, .940 (.898, .965)'
    """
    value = inside / count
    low, high = stats.binomtest(inside, count).proportion_ci(method="wilson")
    numbers = [f"{x:.3f}".removeprefix("0") for x in (value, low, high)]
    grade = TRUE if value >= HELD else PART if value >= NEARLY else NOT
    return f"{grade}: {inside:,} of {count:,}, {numbers[0]} ({numbers[1]}, {numbers[2]})"


def forecasts() -> list[Row]:
    """Limits and bias of D(G)."""
    page = part("forecast_page", "forecast.json")
    if page is None:
        return []
    cells = {key: scores["dead"] for key, scores in page.cells().items()}
    pilots = "exact pass rates of three policies, pilots of 500 prompts"
    found = []
    for name, keys in (
        ("Limits of D(G), G up to n", [key for key in cells if key[2] <= key[1]]),
        ("Limits of D(G) beyond n", [key for key in cells if key[2] > key[1]]),
    ):
        inside, count = (
            sum(column)
            for column in zip(*((round(cells[k].covered * cells[k].count), cells[k].count) for k in keys), strict=True)
        )
        found.append(
            (
                name,
                pilots,
                f"{held(inside, count)} in {len(keys)} cells; the lowest {min(cells[k].covered for k in keys):.3f}",
            )
        )
    near = [score for key, score in cells.items() if key[2] <= key[1]]
    worst = max(near, key=lambda score: abs(score.bias))
    small = sum(abs(score.bias) < BIAS for score in near)
    grade = TRUE if small == len(near) else PART if 2 * small >= len(near) else NOT
    found.append(
        (
            f"Bias of D(G) below {BIAS:g}, G up to n",
            pilots,
            f"{grade}: {small} of {len(near)} cells, the largest {worst.bias:+.3f} ± {worst.bias_error:.3f}",
        )
    )
    return found


def probe() -> list[Row]:
    """The interval of a measured kappa."""
    page = part("kappa_page", "probe_coverage.json")
    if page is None:
        return []
    rows = []
    for world, given in page.read("probe_coverage").items():
        for drawn, probes in given["probes"].items():
            inside, opened = page.covered(probes["kappa"], given["kappa"])
            count = len(probes["kappa"])
            result = f"{held(inside, count)}; open above in {opened}"
            rows.append(
                (
                    f"The probe's interval of kappa, *{page.NAMES[world].strip('*')}*",
                    f"exact gradients, probes of {drawn} prompts",
                    result,
                )
            )
    return rows


def client() -> list[Row]:
    """TRL's trainer against the plain loop."""
    page = part("client_page", "client.json")
    if page is None:
        return []
    results = page.load()
    steps = page.Steps.of(results)
    start, ends, _ = page.kappas(results)
    rows, hits = page.kappa_rows(results, start, ends)
    good = abs(steps.total_z) < 1.96
    return [
        (
            "TRL's runs have the dead groups that pass rates say",
            f"{len(steps.z)} steps of GRPOTrainer",
            f"{TRUE if good else NOT}: {steps.counted:,} dead, {steps.expected:,.0f} expected, z = {steps.total_z:+.2f}",
        ),
        (
            "The probe inside TRL finds kappa",
            "exact gradients at the start and the end of each run",
            held(hits[0], len(rows)),
        ),
    ]


def rows() -> list[Row]:
    """All of them, and what nobody knows."""
    return [
        *forecasts(),
        *probe(),
        *client(),
        ("Kappa of large models, long responses", "nothing", "unknown"),
        ("Planned progress at the scale at which GRPO is used", "nothing", "unknown"),
    ]
