"""Rates of error of comparisons of two policies and of the tail (theory.md, eq. 132 to 138). Writes figures/passk.csv.

Run ``python -m figures.passk``; about ten minutes on one core. Seeds are fixed.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.passk.compare import compare_pass
from grpo_plan.passk.tail import pass_tail
from grpo_plan.pilot import Pilot

TABLE = Path(__file__).with_suffix(".csv")
SEED = 20261202
PILOTS = 100
PAIRS_OF_PILOTS = 60
WITH_OCTAVES = 40  # of them, whose local exponents are looked at too
OCTAVES = ("counted octave", "next octave")
TRUTH_DRAWS = 1_000_000
FIELDS = ["what", "population", "prompts", "rollouts", "pilots", "measure", "value"]
Floats = NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Floats]
Pair = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def beta(a: float, b: float, never: float = 0.0) -> Law:
    """Beta pass rates, and a share of prompts that never pass."""
    return lambda rng, size: np.where(rng.random(size) < never, 0.0, rng.beta(a, b, size))


def humps(rng: np.random.Generator, size: int) -> Floats:
    """Two Betas: a power law with the exponent 0.5, but no Beta."""
    return np.where(rng.random(size) < 0.5, rng.beta(0.5, 2.0, size), rng.beta(8.0, 2.0, size))


def capped(most: float) -> Law:
    """Pass rates that go up to a number below 1: a power law with the exponent 0.4, but no Beta."""
    return lambda rng, size: most * rng.beta(0.4, 1.0, size)


def logit_normal(mean: float, spread: float) -> Law:
    """Pass rates with normal logits: the local exponent grows with k without end, so there is no power law."""
    return lambda rng, size: 1.0 / (1.0 + np.exp(-rng.normal(mean, spread, size)))


def moved(lost: float, factor: float) -> Pair:
    """Pass rates whose odds rise by a factor, but for a share of the hard prompts, which are lost."""

    def draw(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        p = rng.beta(0.4, 0.9, size)
        odds = factor * p / np.maximum(1.0 - p, 1e-12)
        after = odds / (1.0 + odds)
        return p, np.where((rng.random(size) < lost) & (p < 0.5), 0.0, after)

    return draw


LAWS: dict[str, tuple[Law, float | None]] = {  # with the true exponent; None where the share levels off
    "beta(.4,1.2)": (beta(0.4, 1.2), 0.4),
    "beta(.2,.5)": (beta(0.2, 0.5), 0.2),
    "beta(1,1)": (beta(1.0, 1.0), 1.0),
    "beta(.3,6)": (beta(0.3, 6.0), 0.3),
    "two humps": (humps, 0.5),
    ".3 never, beta(1,1.5)": (beta(1.0, 1.5, 0.3), None),
    ".1 never, beta(1,1.5)": (beta(1.0, 1.5, 0.1), None),
    ".2 never, beta(.4,1.2)": (beta(0.4, 1.2, 0.2), None),
    ".6 x beta(.4,1)": (capped(0.6), 0.4),
    ".9 x beta(.4,1)": (capped(0.9), 0.4),
    ".3 at .001, beta(2,2)": (lambda rng, size: np.where(rng.random(size) < 0.3, 1e-3, rng.beta(2.0, 2.0, size)), None),
    "logit-normal(-1,2)": (logit_normal(-1.0, 2.0), None),
    "logit-normal(-3,1.5)": (logit_normal(-3.0, 1.5), None),
}
PAIRS: dict[
    str, tuple[Pair, set[str]]
] = {  # with the verdicts that are right at 8 rollouts; the last pair crosses near k = 25
    "no change": (moved(0.0, 1.0), {"CANNOT_TELL"}),
    "odds x 2": (moved(0.0, 2.0), {"CAPACITY", "CANNOT_TELL"}),
    "odds x 3, .3 of the hard lost": (moved(0.3, 3.0), {"SEARCH_COMPRESSION", "NO_GAIN_AT_LARGE_K", "CANNOT_TELL"}),
    "odds x 3, .15 of the hard lost": (moved(0.15, 3.0), {"CAPACITY", "CANNOT_TELL"}),
}
DESIGNS = ((200, 8), (1000, 8))


def tail_rates(
    law: Law, exponent: float | None, prompts: int, rollouts: int, pilots: int, seed: int
) -> dict[str, float]:
    """How often each status is given, and how often the limits hold the truth."""
    rng = np.random.default_rng(seed)
    many = law(np.random.default_rng(SEED), TRUTH_DRAWS)
    local = [
        -float(np.log2(np.mean((1.0 - many) ** (2 * k)) / np.mean((1.0 - many) ** k)))
        for k in (rollouts // 2, rollouts)
    ]
    counts: Counter[str] = Counter()
    octaves = (rollouts // 2, rollouts)
    for i in range(pilots):
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(rollouts, law(rng, prompts)), rollouts))
        tail = pass_tail(fit, octaves=octaves if i < WITH_OCTAVES else ())
        counts[tail.status.name] += 1
        for name, found, truth in zip(OCTAVES, tail.local, local, strict=False):
            counts[name] += found.low <= truth and (found.high is None or truth <= found.high)
        if tail.low is not None and exponent is not None:
            counts["exponent held"] += tail.low <= exponent and (tail.high is None or exponent <= tail.high)
    rates = {name: counts[name] / pilots for name in ("POWER_LAW", "LEVELS_OFF", "NO_POWER_LAW", "UNKNOWN")}
    rates |= {f"{name} held": counts[name] / min(pilots, WITH_OCTAVES) for name in OCTAVES}
    if exponent is not None and counts["POWER_LAW"]:
        rates["exponent held"] = counts["exponent held"] / counts["POWER_LAW"]
    return rates


def pair_rates(pair: Pair, right: set[str], prompts: int, rollouts: int, pilots: int, seed: int) -> dict[str, float]:
    """How often the differences hold the truth, the set of crossings holds it, and each verdict is given."""
    rng = np.random.default_rng(seed)
    first, second = pair(np.random.default_rng(SEED), TRUTH_DRAWS)
    ks = [2**i for i in range(2 * rollouts.bit_length()) if 2**i <= 4 * rollouts]
    truth = [float(np.mean((1.0 - first) ** k - (1.0 - second) ** k)) for k in ks]
    apart = next((k for k, d in zip(ks, truth, strict=True) if d * truth[0] < 0.0 and abs(d) > 1e-3), None)
    names = [f"q{i}" for i in range(prompts)]
    counts: Counter[str] = Counter()
    for _ in range(pilots):
        here, there = pair(rng, prompts)
        both = (Pilot.from_counts(rng.binomial(rollouts, p), rollouts, prompt_id=names) for p in (here, there))
        found = compare_pass(*both, ks=ks)
        counts[found.verdict.name] += 1
        counts["wrong"] += found.verdict.name not in right
        for d, true in zip(found.differences, truth, strict=True):
            counts[f"difference at k = {d.k}"] += d.low - 1e-3 <= true <= d.high + 1e-3
        if apart is not None:
            held = found.crossing.low < apart and (found.crossing.high is None or found.crossing.high >= apart)
            counts["crossing held"] += held
        if found.turnover is not None:
            k = found.turnover.k
            x, y = (1.0 - first) ** k, (1.0 - second) ** k
            gain = 0.5 * float(np.mean((x - y) ** 2 + x - y))
            counts["least gain"] += found.turnover.gained.low - 1e-3 <= gain <= found.turnover.gained.high + 1e-3
            counts["gain said"] += found.turnover.gained.low > 0.0
            counts["loss said"] += found.turnover.lost.low > 0.0
    return {name: count / pilots for name, count in sorted(counts.items())}


def main() -> None:
    """Measure every population and write the table."""
    rows: list[list[object]] = []
    for i, (name, (law, exponent)) in enumerate(LAWS.items()):
        for prompts, rollouts in DESIGNS:
            found = tail_rates(law, exponent, prompts, rollouts, PILOTS, SEED + i)
            rows += [["tail", name, prompts, rollouts, PILOTS, measure, f"{v:.3f}"] for measure, v in found.items()]
    for i, (name, (pair, right)) in enumerate(PAIRS.items()):
        for prompts, rollouts in DESIGNS:
            found = pair_rates(pair, right, prompts, rollouts, PAIRS_OF_PILOTS, SEED + 100 + i)
            rows += [["pair", name, prompts, rollouts, PAIRS_OF_PILOTS, m, f"{v:.3f}"] for m, v in found.items()]
    write(rows)


def write(rows: list[list[object]]) -> None:
    """The table."""
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
