"""Tables of group sizes: gains by learning rate, shares of the best, regret of rules, predicted against measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from figures.diagnosis_page import table
from figures.validation.outcome import (
    Floats,
    Ratio,
    Sweep,
    between,
    chosen,
    mean_error,
    ratio,
    sweep,
)
from figures.validation.outcome_plan import Plan, exact_dead, first_below

WORLDS = ("all", "hard", "tail", "hard_tail", "either", "easy")
NAMES = {
    "all": "all", "hard": "hard", "tail": "tail", "hard_tail": "hard + tail", "either": "either", "easy": "easy",
}  # fmt: skip
COMMON = (2.5e-4, 5e-4)
CLOSE = 0.05  # a rule comes true in a world where it loses at most this share of the best gain


@cache
def worlds() -> tuple[str, ...]:
    """Worlds whose sweep of sizes is there, with two seeds or more."""
    found = []
    for world in WORLDS:
        held = sizes_of(world)
        if len(held.seeds) > 1 and len(held.sizes) > 2:
            found.append(world)
    return tuple(found)


@cache
def sizes_of(world: str, measure: str = "gain") -> Sweep:
    """The sweep of sizes in a world: the rates that every seed has."""
    return sweep(chosen("sizes", world), measure)


def points(values: Floats) -> str:
    """Mean and standard error in points (hundredths of a pass rate)."""
    mean, error = mean_error(values)
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def share(value: Ratio) -> str:
    """A ratio with its limits."""
    if not np.isfinite(value.low) or not np.isfinite(value.high):
        return f"{value.value:.2f} (open)"
    return f"{value.value:.2f} ({value.low:.2f}, {value.high:.2f})"


def best_of(gains: dict[int, Floats]) -> int:
    """The size with the highest mean."""
    return max(gains, key=lambda size: float(gains[size].mean()))


def shares(gains: dict[int, Floats]) -> dict[int, Ratio]:
    """Gain of each size against that of the best."""
    top = gains[best_of(gains)]
    return {size: ratio(values, top) for size, values in gains.items()}


def rate_name(rate: float) -> str:
    """A learning rate in 1e-4.

    >>> rate_name(2.5e-4), rate_name(1e-3)
    ('2.5', '10')
    """
    return f"{rate * 1e4:g}"


def gains_table(world: str) -> list[str]:
    """Gain at each learning rate; dead groups and the end at the best one."""
    held, ends = sizes_of(world), sizes_of(world, "final")
    rates = sorted({rate for _, rate in held.gains})
    runs = chosen("sizes", world)
    rows = []
    for size in held.sizes:
        best = held.best_rate(size)
        cells = []
        for rate in rates:
            text = points(held.gains[size, rate]) if (size, rate) in held.gains else "-"
            cells.append(f"**{text}**" if rate == best else text)
        mine = [run for run in runs if run.group == size and run.rate == best]
        first, last = (np.mean([run.dead[i] for run in mine]) for i in (0, -1))
        rows.append([str(size), *cells, points(ends.gains[size, best]), f"{first:.2f}", f"{last:.2f}"])
    header = ["G", *(f"rate {rate_name(rate)}" for rate in rates), "at the end", "dead, first steps", "dead, last"]
    return table(header, rows)


def shares_table(world: str, plan: Plan | None) -> list[str]:
    """Share of the best size's gain, several ways, beside what was predicted."""
    held, early = sizes_of(world), sizes_of(world, "early")
    free = shares(held.held_out())
    columns = [shares(held.best()), *(shares(held.at(rate)) for rate in COMMON), shares(early.held_out())]
    efficiency, noise = (plan.progress, plan.relative()) if plan else ({}, {})
    rows = []
    for size in held.sizes:
        name = f"**{size}**" if size == best_of(held.held_out()) else str(size)
        cells = [share(free[size]), *(f"{column[size].value:.2f}" for column in columns[:-1]), share(columns[-1][size])]
        cells += [f"{column[size]:.2f}" if size in column else "-" for column in (efficiency, noise)]
        rows.append([name, *cells])
    common = (f"both at {rate_name(rate)}" for rate in COMMON)
    header = ["G", "measured", "rate of hindsight", *common, "first 50 steps", "planned, e(G)", "1 / (1 + NSR)"]
    return table(header, rows)


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to choose G: its name, and its choice in each world."""

    name: str
    sizes: dict[str, float]


def rules(plans: dict[str, Plan]) -> list[Rule]:
    """The rules that are compared, in worlds that were swept."""
    held = {world: sizes_of(world) for world in worlds()}
    found = [
        Rule("plan, kappa of a probe", {w: float(plans[w].pick) for w in held if w in plans}),
        Rule("most progress predicted, kappa of a probe", {w: float(plans[w].predicted) for w in held if w in plans}),
        Rule("plan, exact kappa", {w: float(plans[w].exact_pick) for w in held if w in plans}),
        Rule("plan, no kappa (range 1 to 300)", {w: float(plans[w].default_pick) for w in held if w in plans}),
        Rule("smallest of its flat range, no kappa", {w: float(plans[w].default_flat[0]) for w in held if w in plans}),
        Rule("G = 8", dict.fromkeys(held, 8.0)),
        Rule("G = 16", dict.fromkeys(held, 16.0)),
        Rule("largest G of the sweep", {w: float(h.sizes[-1]) for w, h in held.items()}),
        Rule("first G with D at most .4", {w: float(first_below(w, h.sizes)) for w, h in held.items()}),
        Rule("G = 4", dict.fromkeys(held, 4.0)),
    ]
    return [rule for rule in found if rule.sizes]


def regret(world: str, size: float, measure: str = "gain") -> Ratio:
    """Share of the best size's gain that a choice of G loses, with limits."""
    gains = sizes_of(world, measure).held_out()
    found = ratio(between(gains, size), gains[best_of(gains)])
    return Ratio(1 - found.value, 1 - found.high, 1 - found.low)


def hindsight_regret(world: str, size: float) -> float:
    """The same with each size at the rate that is best in the mean of all seeds."""
    gains = sizes_of(world).best()
    return 1 - float(between(gains, size).mean() / gains[best_of(gains)].mean())


def regret_table(plans: dict[str, Plan], measure: str = "gain") -> list[str]:
    """Regret of each rule in each world, in percent of the best gain; mean and worst."""
    held = worlds()
    rows = []
    for rule in rules(plans):
        cells, values = [], []
        for world in held:
            if world not in rule.sizes:
                cells.append("-")
                continue
            lost = regret(world, rule.sizes[world], measure)
            values.append(lost.value)
            edges = f"({100 * lost.low:.0f}, {100 * lost.high:.0f})" if np.isfinite(lost.high) else "(open)"
            cells.append(f"{rule.sizes[world]:g}: {100 * lost.value:.0f} {edges}")
        rows.append([rule.name, *cells, f"{100 * np.mean(values):.0f}", f"{100 * max(values):.0f}"])
    best = [str(best_of(sizes_of(world, measure).held_out())) for world in held]
    rows.append(["best in hindsight", *best, "0", "0"])
    return table(["rule", *(NAMES[world] for world in held), "mean", "worst"], rows)


@dataclass(frozen=True, slots=True)
class Match:
    """How well predicted shares agree with measured ones."""

    correlation: float
    rms: float
    bias_above: float  # measured less predicted, mean over sizes above the measured best
    cells: int


def match(predicted: dict[int, float], measured: dict[int, Ratio], top: int) -> Match:
    """Over the sizes that both have."""
    sizes = [size for size in measured if size in predicted]
    a = np.array([predicted[size] for size in sizes])
    b = np.array([measured[size].value for size in sizes])
    above = [measured[size].value - predicted[size] for size in sizes if size > top]
    correlation = float(np.corrcoef(a, b)[0, 1]) if len(sizes) > 2 else float("nan")
    return Match(
        correlation, float(np.sqrt(np.mean((a - b) ** 2))), float(np.mean(above)) if above else float("nan"), len(sizes)
    )


def matches(plans: dict[str, Plan], kind: str, measure: str = "gain") -> dict[str, Match]:
    """By world: predicted shares of one kind (``plan``, ``nsr``) against measured ones."""
    found = {}
    for world in worlds():
        if world not in plans:
            continue
        gains = sizes_of(world, measure).held_out()
        predicted = plans[world].progress if kind == "plan" else plans[world].relative()
        found[world] = match(predicted, shares(gains), best_of(gains))
    return found


def match_table(plans: dict[str, Plan]) -> list[str]:
    """Agreement by world, for both predictions, over the run and over its first 50 steps."""
    columns = [matches(plans, kind, measure) for measure in ("gain", "early") for kind in ("plan", "nsr")]
    rows = []
    for world in columns[0]:
        plan = plans[world]
        gains = sizes_of(world).held_out()
        lowest, highest = plan.flat
        best = best_of(gains)
        cells = [f"{c[world].correlation:.2f}, {c[world].rms:.2f}" for c in columns]
        inside = "yes" if lowest <= best <= highest else "no"
        kappa = f"{plan.probe[0]:.2f} ({_limit(plan.probe[1])} to {_limit(plan.probe[2])})"
        exact = f"{plan.exact_pick} ({plan.exact_flat[0]} to {plan.exact_flat[1]})"
        picked = f"{plan.predicted} ({lowest} to {highest})"
        rows.append([NAMES[world], kappa, f"{plan.kappa:.2f}", picked, exact, str(best), inside, *cells])
    header = [
        "world",
        "kappa, probe",
        "two sizes, exact",
        "most predicted (flat range)",
        "smallest, with exact kappa",
        "best G",
        "inside",
        "e(G): r, rms",
    ]
    return table([*header, "1/(1+NSR): r, rms", "e(G), 50 steps", "1/(1+NSR), 50 steps"], rows)


def _limit(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "open"


def dead_line(world: str, sizes: Iterable[int]) -> str:
    """Exact dead fractions in words."""
    dead = exact_dead(world)
    return ", ".join(f"{dead[size]:.2f} at {size}" for size in sizes)
