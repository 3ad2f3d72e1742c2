"""The common steps of a draw: a training set, a policy that drifts, a log and a pilot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from figures.scenarios.base import PILOT_PROMPTS, Simulated, pilot_of
from figures.scenarios.draws import PROMPTS, Floats, Groups, Ints, Law, binary, expit, order, ramp, wobble
from figures.scenarios.logs import NAMED, Beside, Columns, beside, rows_of, settings

STEPS, PER_STEP, SIZE = 300, 64, 8


def trained(
    rng: Generator,
    law: Law,
    steps: int = STEPS,
    per_step: int = PER_STEP,
    drift: tuple[float, float] = (0.0, 0.0),
    prompts: int = PROMPTS,
) -> tuple[Floats, Floats, Ints]:
    """Logits of the training set, pass rates of the prompts of each step, and which these are."""
    logits = law(rng, prompts)
    drawn = order(rng, prompts, steps, per_step)
    shift = ramp(*drift, steps) + wobble(rng, steps)
    return logits, expit(logits[drawn] + shift[:, None]), drawn


def logged(
    rng: Generator,
    tool: str,
    groups: Groups,
    *,
    more: Beside | None = None,
    columns: Columns | None = None,
    every: int = 1,
    pilot: Floats | None = None,
    dumped: bool = False,
    config: dict[str, object] | None = None,
) -> Simulated:
    """A run as its trainer logs it; ``pilot`` holds the pass rates of the prompts from which a pilot is drawn."""
    noise = more or beside(rng, groups.steps, gradient=np.sqrt(1.02 - groups.share(groups.dead)))
    named = NAMED[tool](groups, noise) if columns is None else columns
    held = settings(tool, groups.size, groups.per_step) | (config or {})
    if tool == "trl":
        held.setdefault("logging_steps", every)
        held["logging_steps"] = every
    return Simulated(
        tool=tool,
        rows=rows_of(named, every),
        config=held,
        design=(groups.size, groups.per_step, groups.steps),
        groups=groups if dumped else None,
        pilot=None
        if pilot is None
        else pilot_of(rng, rng.choice(pilot, PILOT_PROMPTS, replace=pilot.size < PILOT_PROMPTS)),
    )


def simple(
    law: Law,
    *,
    tool: str = "trl",
    steps: int = STEPS,
    per_step: int = PER_STEP,
    size: int = SIZE,
    drift: tuple[float, float] = (0.0, 0.0),
    every: int = 1,
    planned: bool = False,
    jitter: float = 0.05,
    prompts: int = PROMPTS,
    failed: float = 0.0,
    dumped: bool = False,
    entropy: tuple[float, float] = (0.62, 0.45),
    config: dict[str, object] | None = None,
) -> Callable[[Generator], Simulated]:
    """A run with rewards 0 and 1, a straight drift and nothing special."""

    def draw(rng: Generator) -> Simulated:
        logits, rates, drawn = trained(rng, law, steps, per_step, drift, prompts)
        groups = binary(rng, rates, size, drawn, failed=failed)
        gradient = np.sqrt(1.02 - groups.share(groups.dead))
        more = beside(rng, steps, jitter=jitter, gradient=gradient, entropy=entropy)
        pilot = expit(logits + drift[0]) if planned else None
        return logged(rng, tool, groups, more=more, every=every, pilot=pilot, dumped=dumped, config=config)

    return draw
