"""Limits of the smoke check, from committed numbers alone.

* **Mean pass rate and exact D(G)** of the policy taught: within the prediction interval (Student's t) of the same lessons with a
  few prompts changed, ``results/smoke.json``.
* **Counted dead groups** against exact D(G) of the policy at hand: a z-test.
* **Gain of 40 steps** (mean over looks, less the start) against the study's runs of the same recipe, ``results/runs.parquet``: the
  prediction interval of one more run. Its variance is pooled over the seeds of the study at each group size and the teachings with a
  few prompts changed, which spread as the seeds do.

Each number falls outside by chance one time in 1,000, so that of correct checks on new processors one in 140 alarms (7 numbers).

**Exactly.** Where the policy taught is the committed one to six digits (the same kind of processor), all else must be, too. This finds
what limits let pass, such as rewards that are not centred.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy import stats

from figures.validation.outcome import chosen

SIZES = (4, 32)
STEPS = 40
RATE = 2.5e-4
FALSE_ALARM = 1 / 1000  # of one number
EXACT = 2e-6  # the committed numbers are rounded to six digits
PATH = Path(__file__).parent / "results" / "smoke.json"

Numbers = dict[str, float]
Limits = dict[str, tuple[float, float]]


@lru_cache(maxsize=1)
def rows() -> tuple[Numbers, ...]:
    """The committed teachings."""
    return tuple(json.loads(PATH.read_text(encoding="utf-8")))


def _prediction(mean: float, spread: float, n: int, freedom: int) -> tuple[float, float]:
    reach = float(stats.t.isf(FALSE_ALARM / 2, freedom)) * spread * (1 + 1 / n) ** 0.5
    return mean - reach, mean + reach


def study_gains() -> dict[int, list[float]]:
    """Gain of the first steps of the study's runs at the learning rate of the check, by group size."""
    found: dict[int, list[float]] = {}
    for run in chosen("sizes", "all", lambda run: run.rate == RATE):
        curve = run.pass_rate[1 : 1 + STEPS // 10]
        found.setdefault(run.group, []).append(sum(curve) / len(curve) - run.pass_rate[0])
    return found


@lru_cache(maxsize=1)
def limits() -> Limits:
    """Lowest and highest value of each number that is no alarm."""
    near = [row for row in rows() if row["teaching"] == 1]
    found: Limits = {}
    for name in ("pass_rate", *(f"dead_{size}" for size in SIZES)):
        values = np.array([row[name] for row in near])
        found[name] = _prediction(float(values.mean()), float(values.std(ddof=1)), len(values), len(values) - 1)
    z = float(stats.norm.isf(FALSE_ALARM / 2))
    gains = study_gains()
    lines = [*gains.values(), *([row[f"gain_{size}"] for row in near] for size in SIZES)]
    parts = [(sum((g - np.mean(line)) ** 2 for g in line), len(line) - 1) for line in lines]
    squares, freedom = (sum(column) for column in zip(*parts, strict=True))
    for size in SIZES:
        found[f"z_{size}"] = (-z, z)
        spread = float((squares / freedom) ** 0.5)
        found[f"gain_{size}"] = _prediction(float(np.mean(gains[size])), spread, len(gains[size]), freedom)
    return found


def same_policy(found: Numbers) -> Numbers | None:
    """The committed numbers of the study's own start, where the policy taught is that one to six digits."""
    own = next(row for row in rows() if (row["teaching"], row["nudge"], row["seed"]) == (1, 0, 0))
    known = ("pass_rate", *(f"dead_{size}" for size in SIZES))
    return own if all(abs(found[name] - own[name]) < EXACT for name in known) else None


def alarms(found: Numbers) -> list[str]:
    """Names of the numbers outside their limits, or not those of the committed run where the policy is the committed one."""
    wrong = [name for name, (low, high) in limits().items() if not low <= found[name] <= high]
    own = same_policy(found)
    if own:
        wrong += [
            name for name in own if name in found and name not in wrong and abs(found[name] - own[name]) > 10 * EXACT
        ]
    return wrong


def table(found: Numbers) -> str:
    """The numbers beside their limits."""
    lines = [f"{'':12}{'now':>9}{'limits':>20}"]
    same = same_policy(found) is not None
    lines += [f"{name:12}{found[name]:9.4f}{low:11.4f}{high:9.4f}" for name, (low, high) in limits().items()]
    lines.append(
        f"The policy is {'' if same else 'not '}the committed one to six digits{': all else must be, too' if same else ''}."
    )
    return "\n".join(lines)
