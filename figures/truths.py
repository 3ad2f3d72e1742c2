"""Distributions of pass rates with known dead fractions, for the calibration study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """A population of prompts.

    Attributes:
        name: Short name, as in the tables.
        what: What it stands for.
        draw: ``(generator, prompts) -> pass rates``.
        dead: ``G -> D(G)``, exact.
        all_pass: ``G -> E[p**G]``, exact.
        real: Whether it comes from measured counts.
    """

    name: str
    what: str
    draw: Callable[[Generator, int], Floats]
    dead: Callable[[int], float]
    all_pass: Callable[[int], float]
    real: bool = False


def _beta_pass(a: float, b: float, g: int) -> float:
    j = np.arange(g)
    return float(np.prod((a + j) / (a + b + j)))


def _beta_dead(a: float, b: float, g: int) -> float:
    return _beta_pass(a, b, g) + _beta_pass(b, a, g)


def beta(name: str, what: str, a: float, b: float) -> Truth:
    """Beta(a, b)."""
    return Truth(
        name=name,
        what=what,
        draw=lambda r, m: r.beta(a, b, m),
        dead=lambda g: _beta_dead(a, b, g),
        all_pass=lambda g: _beta_pass(a, b, g),
    )


def inflated(name: str, what: str, never: float, always: float, a: float, b: float) -> Truth:
    """Atoms at 0 and 1, the rest Beta(a, b)."""

    def draw(r: Generator, m: int) -> Floats:
        kind = r.random(m)
        return np.where(kind < never, 0.0, np.where(kind < never + always, 1.0, r.beta(a, b, m)))

    return Truth(
        name=name,
        what=what,
        draw=draw,
        dead=lambda g: never + always + (1 - never - always) * _beta_dead(a, b, g),
        all_pass=lambda g: always + (1 - never - always) * _beta_pass(a, b, g),
    )


def points(name: str, what: str, rates: Floats, *, real: bool = False) -> Truth:
    """Prompts with these pass rates, drawn with replacement."""
    return Truth(
        name=name,
        what=what,
        draw=lambda r, m: r.choice(rates, m),
        dead=lambda g: float(np.mean(rates**g + (1 - rates) ** g)),
        all_pass=lambda g: float(np.mean(rates**g)),
        real=real,
    )


def _two_humps(r: Generator, m: int) -> Floats:
    easy = r.random(m) < 0.5
    return np.where(easy, r.beta(18, 2, m), r.beta(2, 18, m))


SYNTHETIC = (
    beta("beta(.3,.3)", "both ends, smooth", 0.3, 0.3),
    beta("beta(2,2)", "in the middle", 2.0, 2.0),
    beta("beta(.2,2)", "hard", 0.2, 2.0),
    inflated("atoms", "30 % never, 20 % always, rest uniform", 0.3, 0.2, 1.0, 1.0),
    Truth(
        name="two humps",
        what="half beta(2,18), half beta(18,2)",
        draw=_two_humps,
        dead=lambda g: 0.5 * (_beta_dead(2, 18, g) + _beta_dead(18, 2, g)),
        all_pass=lambda g: 0.5 * (_beta_pass(2, 18, g) + _beta_pass(18, 2, g)),
    ),
    inflated("big set", "12 % never, 5 % always, rest beta(.5,.6)", 0.12, 0.05, 0.5, 0.6),
    points("three points", "a third each at .05, .5 and .95", np.array([0.05, 0.5, 0.95])),
    beta("beta(20,1)", "easy", 20.0, 1.0),
    beta("beta(.08,3)", "nearly hopeless", 0.08, 3.0),
)


FEW_VALUES = (
    points("one point", "all prompts at .5", np.array([0.5])),
    points("two points", "half at .3, half at .7", np.array([0.3, 0.7])),
    points("three points", "a third each at .05, .5 and .95", np.array([0.05, 0.5, 0.95])),
)


def real_truths(folder: Path) -> list[Truth]:
    """Populations from measured counts (k of 1,280 or 10,000), where the files are at hand."""
    import polars as pl

    found = []
    monkeys = folder / "monkeys_llama3_gsm8k_math_n10000.csv"
    if monkeys.is_file():
        table = pl.read_csv(monkeys)
        for (model, benchmark), part in table.group_by("model", "benchmark", maintain_order=True):
            size = "70B" if "70B" in str(model) else "8B"
            name = f"{str(benchmark).lower()} {size}"
            rates = (part["k"] / part["n"]).to_numpy()
            found.append(points(name, f"{model}, {benchmark}, {rates.size} prompts, n = 10,000", rates, real=True))
    small = folder / "math500_llama32_1b_n1280.csv"
    if small.is_file():
        table = pl.read_csv(small)
        rates = (table["k"] / table["n"]).to_numpy()
        found.append(points("math500 1B", "Llama-3.2-1B-Instruct, MATH-500, n = 1,280", rates, real=True))
    return found
