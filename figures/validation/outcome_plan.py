"""What was predicted of the training runs, from committed results alone: the planner's words, and exact gradients.

``results/gradients.json`` holds, for each world, what the planner says from a pilot and a measured kappa and what it says without
one, and second moments of gradient estimates from exact gradients. ``results/starts.json`` holds exact dead fractions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
START_OF = {"all": "sum", "hard": "sum", "tail": "sum", "hard_tail": "sum", "either": "either", "easy": "easy"}
ROLLOUTS = 512


@dataclass(frozen=True, slots=True)
class Plan:
    """Predictions for one world.

    Attributes:
        kappa: From exact gradients, what a two-size probe of endless rollouts would say.
        probe: As measured by the probe, with 95 % limits.
        pick: Group size that the planner names with the probe's kappa: the smallest of ``flat``.
        predicted: Group size whose progress it predicts to be the most: the pick until this study.
        flat: Sizes that it calls about as good, lowest and highest.
        exact_pick: Group size that it names with the exact kappa.
        exact_flat: Its range.
        default_pick: Group size without a measured kappa.
        default_flat: Its range.
        progress: Of each size against the best one, by the planner (eq. 26, kappa of the probe).
        second: E|g|^2 of the estimate of one group (rloo) by size, from exact gradients.
        mean_square: |E g|^2, the same.
    """

    world: str
    kappa: float
    probe: tuple[float, float, float]
    pick: int
    predicted: int
    flat: tuple[int, int]
    exact_pick: int
    exact_flat: tuple[int, int]
    default_pick: int
    default_flat: tuple[int, int]
    progress: dict[int, float]
    second: dict[int, float]
    mean_square: float

    def nsr(self, size: int, rollouts: int = ROLLOUTS, prompt_cost: int = 0) -> float:
        """Noise to signal of a step of so many rollouts, by exact gradients (eq. 51)."""
        return (self.second[size] - self.mean_square) / (rollouts / (prompt_cost + size) * self.mean_square)

    def relative(self, *, rollouts: int = ROLLOUTS, prompt_cost: int = 0) -> dict[int, float]:
        """1 / (1 + NSR) of each size, against the best one; empty where |E g|^2 is not known to be above 0."""
        if self.mean_square <= 0:
            return {}
        return scaled({size: 1 / (1 + self.nsr(size, rollouts, prompt_cost)) for size in self.second})

    def efficiency(self, *, prompt_cost: int = 0) -> dict[int, float]:
        """The efficiency e(G) of eq. 26 with second moments from exact gradients, against the best size."""
        return scaled({size: 1 / ((prompt_cost + size) * value) for size, value in self.second.items()})


def scaled(values: dict[int, float]) -> dict[int, float]:
    """Values against the largest."""
    top = max(values.values())
    return {size: value / top for size, value in values.items()}


@lru_cache(maxsize=1)
def starts() -> dict[str, dict[str, Any]]:
    """What is known of the starting policies."""
    found: dict[str, dict[str, Any]] = json.loads((RESULTS / "starts.json").read_text(encoding="utf-8"))
    return found


def exact_dead(world: str) -> dict[int, float]:
    """Exact D(G) of the starting policy in a world."""
    name = "dead_hard" if world.startswith("hard") else "dead"
    return {int(size): value for size, value in starts()[START_OF[world]][name].items()}


def first_below(world: str, sizes: tuple[int, ...], most: float = 0.4) -> int:
    """The first size whose dead fraction is at most ``most``; the largest where none is."""
    dead = exact_dead(world)
    return next((size for size in sizes if dead[size] <= most), sizes[-1])


@lru_cache(maxsize=1)
def plans() -> dict[str, Plan]:
    """The predictions for each world of ``results/gradients.json``."""
    path = RESULTS / "gradients.json"
    if not path.exists():
        raise FileNotFoundError(f"{path.name}: run python -m figures.validation.gradients --work DIR first")
    found: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["worlds"]
    return {world: _plan(world, facts) for world, facts in found.items()}


def _plan(world: str, facts: Mapping[str, Any]) -> Plan:
    planner = facts["planner"]
    with_probe, without, exact = planner["probe"], planner["default"], planner["two_size"]
    measured = facts["probe"]["kappa"]
    value = with_probe["kappa"][1]  # by the pilot's E[pq], as the plan takes it
    answer = min(with_probe["answers"], key=lambda a: abs(float(a["kappa"]) - value))
    return Plan(
        world=world,
        kappa=facts["kappa"]["two_size"],
        probe=(measured["value"], *(math.inf if measured[end] is None else measured[end] for end in ("low", "high"))),
        pick=with_probe["flat"][0],
        predicted=answer["best"],
        flat=(with_probe["flat"][0], with_probe["flat"][1]),
        exact_pick=exact["flat"][0],
        exact_flat=(exact["flat"][0], exact["flat"][1]),
        default_pick=without["pick"],
        default_flat=(without["flat"][0], without["flat"][1]),
        progress=scaled({int(size): share for size, share in answer["progress"].items()}),
        second={int(size): square for size, square in facts["squares"]["rloo"].items()},
        mean_square=facts["mean_gradient"]["by_estimator"]["rloo"]["2"]["value"],
    )
