"""The sections on the probe's interval, and on kappa against length, size and time, from committed raw results only."""

from __future__ import annotations

import json
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from figures.validation.gradients_page import NAMES, RESULTS, interval, table
from figures.validation.moments import Floats, Prompts, bootstrap, kappa_interval, two_size_interval

Numbers = dict[str, Any]
ENOUGH_LIVE = 30  # below it a measurement says FEW_PROMPTS


@lru_cache(maxsize=2)
def read(name: str) -> Numbers:
    """One file of raw results."""
    found: Numbers = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % limits of a share.

    >>> [round(x, 3) for x in wilson(95, 100)]
    [0.888, 0.978]
    """
    p, n = hits / trials, trials
    middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def covered(rows: list[list[float | None]], truth: float) -> tuple[int, int]:
    """How many intervals hold the truth, and how many have no upper limit."""
    held = sum(row[1] is not None and row[1] <= truth and (row[2] is None or truth <= row[2]) for row in rows)
    return held, sum(row[2] is None for row in rows)


def _coverage() -> list[str]:
    rows = []
    for world, given in read("probe_coverage").items():
        for drawn, probes in given["probes"].items():
            for quantity, name in (("kappa", "kappa"), ("best", "G\\*")):
                found, truth = probes[quantity], given[quantity]
                held, opened = covered(found, truth)
                exact, _ = covered(found, given[f"exact_{quantity}"])
                low, high = wilson(held, len(found))
                closed = [row[2] - row[1] for row in found if row[2] is not None and row[1] is not None]
                below = sum(row[2] is not None and row[2] < truth for row in found)
                above = len(found) - held - below
                values = [row[0] for row in found if row[0] is not None]
                rows.append([
                    NAMES[world], f"{drawn} ({np.median(probes['live']):.0f})", name, f"{truth:.2f} ({given[f'exact_{quantity}']:.2f})", f"{np.median(values):.2f}",
                    f"{held / len(found):.3f} [{low:.3f}, {high:.3f}]", f"{exact / len(found):.3f}",
                    f"{below / len(found):.3f} / {above / len(found):.3f}", f"{np.median(closed):.2f}" if closed else "-", f"{opened / len(found):.2f}",
                ])  # fmt: skip
    return table(
        [
            "world",
            "prompts (live)",
            "of",
            "true (exact)",
            "median estimate",
            "coverage of 95 % intervals",
            "of the exact value",
            "too low / too high",
            "median width",
            "open above",
        ],
        rows,
    )


def _few_live() -> str:
    """Coverage of kappa with and without the warning of few live prompts."""
    held = {True: 0, False: 0}
    tried = {True: 0, False: 0}
    for given in read("probe_coverage").values():
        for probes in given["probes"].values():
            for row, live in zip(probes["kappa"], probes["live"], strict=True):
                few = live < ENOUGH_LIVE
                held[few] += covered([row], given["kappa"])[0]
                tried[few] += 1
    parts = [
        f"of the {tried[few]:,} probes {label} {held[few] / tried[few]:.3f} [{low:.3f}, {high:.3f}]"
        for few, label in (
            (False, f"with at least {ENOUGH_LIVE} live prompts"),
            (True, "with fewer, which carry the status `FEW_PROMPTS`,"),
        )
        if tried[few]
        for low, high in (wilson(held[few], tried[few]),)
    ]
    return "All worlds together, the interval held kappa in a share " + ", and ".join(parts) + "."


def _rows(begin: str) -> list[tuple[Numbers, Prompts]]:
    return [(given, Prompts.of(given)) for key, given in read("kappa_scale").items() if key.startswith(begin)]


def tail_law() -> tuple[Floats, tuple[float, float, float], tuple[float, float, float], float]:
    """Tails; intercept and slope of ``kappa = a + b tail`` with intervals over prompts; largest relative miss.

    The prompts are the same at every tail, so they are resampled together.
    """
    given = sorted(_rows("tail"), key=lambda row: row[0]["tail"])
    tails = np.array([float(row["tail"]) for row, _ in given])
    pq, square = given[0][1].spread, given[0][1].square
    values = np.stack([pq, pq**2, square, *(pq * p.noise for _, p in given)], 1)
    weights = np.linalg.pinv(np.stack([np.ones_like(tails), tails], 1))

    def kappas(means: Floats) -> Floats:
        found: Floats = means[:, 3:] * (means[:, 1] / means[:, 0] / means[:, 2])[:, None]
        return found

    a = bootstrap(values, lambda m: kappas(m) @ weights[0])
    b = bootstrap(values, lambda m: kappas(m) @ weights[1])
    at = kappas(values.mean(0)[None])[0]
    misses = (a[0] + b[0] * tails) / at - 1
    return tails, a, b, float(misses[np.argmax(np.abs(misses))])


def _line(given: Numbers, prompts: Prompts, first: list[str]) -> list[str]:
    two, best = two_size_interval(prompts)
    return [*first, interval(*kappa_interval(prompts)), interval(*two), interval(*best, digits=1)]


HEAD = ("kappa, exact", "kappa, two sizes", "G\\*")


def _length() -> list[str]:
    tails, a, b, miss = tail_law()
    rows = sorted(_rows("tail"), key=lambda row: row[0]["tail"])
    return [
        f"*Length.* Free tokens behind the answer, on the same {len(rows[0][1])} prompts (*all*): p and its gradient stay what they are, only the noise of a score grows.",
        "",
        *table(("tokens after the answer", *HEAD), [_line(g, p, [str(g["tail"])]) for g, p in rows]),
        "",
        f"kappa = {interval(*a)} + {interval(*b, digits=3)} x tokens, by least squares over {len(tails)} lengths; the largest miss of the line is {100 * miss:+.0f} %. "
        "That kappa is a sum over tokens is no discovery: scores of tokens are uncorrelated given what stands before them, so their squares add up. What the "
        "data add is how far the noise of a token depends on where it stands in this model. They say nothing of tokens before the answer: reasoning tokens "
        "change which answers are right, so that their scores carry signal too.",
        "",
    ]


def _size() -> list[str]:
    rows = [_line(g, p, [f"{g['parameters']:,}", str(g["seed"]), f"{g['mean']:.3f}"]) for g, p in _rows("size")]
    head = ("parameters", "seed", "mean pass rate", *HEAD)
    return ["*Size.* The same task taught to the same mean pass rate:", "", *table(head, rows), "", _size_words(), ""]


def _time() -> list[str]:
    rows = [
        _line(g, p, [NAMES[g["world"]], str(g["steps"]), f"{g['mean']:.3f}", f"{p.spread.mean():.3f}"])
        for g, p in _rows("course")
    ]
    group, rate = (_rows("course")[0][0][name] for name in ("group", "rate_of_learning"))
    return [
        f"*Time.* Before and during training (mean-centred, Adam, G = {group}, rate {rate:g}, one seed), on the prompts of the start:",
        "",
        *table(("world", "steps", "mean pass rate", "E[pq]", *HEAD), rows),
        "",
    ]


def _scale() -> list[str]:
    parts = (("tail", 2, _length), ("size", 1, _size), ("course", 1, _time))
    lines = [line for begin, least, part in parts if len(_rows(begin)) >= least for line in part()]
    return ["## Kappa against length, size and time", "", *lines] if lines else []


def _size_words() -> str:
    rows = _rows("size")
    values = {(g["parameters"], g["seed"]): kappa_interval(p)[0] for g, p in rows}
    counts = sorted({n for n, _ in values})
    repeated = next((n for n in counts if sum(m == n for m, _ in values) > 1), None)
    spread = [v for (n, _), v in values.items() if n == repeated]
    words = f"From {counts[0]:,} to {counts[-1]:,} parameters kappa lies between {min(values.values()):.2f} and {max(values.values()):.2f}"
    if repeated is not None:
        words += f"; {len(spread)} seeds of one size ({repeated:,}) alone give {min(spread):.2f} to {max(spread):.2f}"
    return words + ". With so few models no law of size is fitted."


def _intervals() -> list[str]:
    given = read("probe_coverage")
    first = next(iter(given.values()))
    probes = len(next(iter(first["probes"].values()))["kappa"])
    sizes = " and ".join(f"{n:,}" for n in sorted({g["prompts"] for g in given.values()}))
    return [
        "## How often the probe's interval holds kappa",
        "",
        f"`measure_kappa` on {probes} probes of each kind: prompts drawn at random (with replacement) from a bank of {sizes}, 16 of the "
        f"{first['rollouts']} rollouts of each (without). The bank is the population, and *true* the kappa of all its rollouts, for whose means a probe is "
        "unbiased; in brackets that of exact gradients of the same prompts, which differs by the luck of the bank's own rollouts. Coverage with Wilson's "
        "limits; *too low*: the interval lies below the true value; width is of the intervals that have an upper limit; *live* prompts have a gradient (median).",
        "",
        *_coverage(),
        "",
        _few_live(),
        "",
    ]


def sections() -> list[str]:
    """Lines of both sections, of what has been measured."""
    parts = {"probe_coverage": _intervals, "kappa_scale": _scale}
    return [line for name, part in parts.items() if (RESULTS / f"{name}.json").exists() for line in part()]
