"""Runs in which something is wrong, and which finding says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from figures.scenarios.base import Scenario, Simulated
from figures.scenarios.draws import Floats, binary, expit, graded, humps, normal, order, ramp, refilled, wobble
from figures.scenarios.healthy import BROAD, TWO_HUMPS
from figures.scenarios.logs import MAX_TOKENS, beside, trl, verl
from figures.scenarios.make import PER_STEP, SIZE, STEPS, logged, simple, trained

HARD = humps((0.82, -6.5, 1.4), (0.18, -0.4, 1.2))  # about 80 % all-fail
EASY = humps((0.12, 0.5, 1.0), (0.88, 5.2, 1.5))
INF = float("inf")
ATOMS = humps((0.55, -INF, 0.0), (0.45, INF, 0.0))
Draw = Callable[[Generator], Simulated]


def _hotter_pilot(tool: str, every: int = 1) -> Draw:
    """The pilot was sampled at a higher temperature: its pass rates are nearer to one half."""

    def draw(rng: Generator) -> Simulated:
        logits, rates, drawn = trained(rng, TWO_HUMPS)
        return logged(rng, tool, binary(rng, rates, SIZE, drawn), every=every, pilot=expit(0.6 * logits))

    return draw


def _order_changed(rng: Generator) -> Simulated:
    """From step 301 on the data loader gives the prompts at both ends first."""
    logits = normal(0.0, 2.2)(rng, 4000)
    first = np.argsort(np.abs(logits))[::-1][:1200]
    drawn = order(rng, logits.size, 400, PER_STEP)
    drawn[300:] = first[order(rng, first.size, 100, PER_STEP)]
    rates = expit(logits[drawn] + wobble(rng, 400)[:, None])
    return logged(rng, "trl", binary(rng, rates, SIZE, drawn), pilot=expit(logits))


def _collapse(tool: str, dumped: bool = False) -> Draw:
    """From step 101 on the policy falls apart: entropy and reward go to 0."""

    def draw(rng: Generator) -> Simulated:
        logits = BROAD(rng, 2000)
        drawn = order(rng, 2000, STEPS, PER_STEP)
        shift = np.concatenate([ramp(0.0, 0.4, 100), ramp(0.4, -13.0, 100), np.full(100, -13.0)])
        groups = binary(rng, expit(logits[drawn] + shift[:, None]), SIZE, drawn)
        more = beside(rng, STEPS, gradient=np.sqrt(1.001 - groups.share(groups.dead)))
        fall = np.concatenate([np.ones(100), np.geomspace(1.0, 0.01, 100), np.full(100, 0.01)])
        return logged(rng, tool, groups, more=replace(more, entropy=more.entropy * fall), dumped=dumped)

    return draw


def _spread_dies(rng: Generator) -> Simulated:
    """A graded reward whose differences shrink to nothing at 0.62."""
    drawn = order(rng, 2000, STEPS, PER_STEP)
    spread = np.concatenate([np.full(80, 0.2), np.geomspace(0.2, 2e-4, 120), np.full(100, 2e-4)])
    noise = rng.standard_normal((STEPS, PER_STEP, SIZE))
    rewards = np.clip(np.round(0.62 + spread[:, None, None] * noise, 2), 0.0, 1.0)
    return logged(rng, "trl", graded(rewards, drawn, passes_at=0.9))


def _scorer_fails(tool: str, dumped: bool) -> Draw:
    """From step 61 on the scoring service gives no reward for 30 % of the rollouts."""

    def draw(rng: Generator) -> Simulated:
        _, rates, drawn = trained(rng, BROAD, steps=120)
        chance = np.where(np.arange(120) < 60, 0.0, 0.3)[:, None]
        return logged(rng, tool, binary(rng, rates, SIZE, drawn, failed=chance), dumped=dumped)

    return draw


def _truncated(tool: str, dumped: bool, steps: int) -> Draw:
    """Responses grow until nearly all are cut off at the length limit, and fail for it."""

    def draw(rng: Generator) -> Simulated:
        _, rates, drawn = trained(rng, BROAD, steps=steps)
        third = steps // 3
        cut = np.concatenate([np.full(third, 0.03), ramp(0.03, 0.985, third), np.full(steps - 2 * third, 0.985)])
        spoilt = rates * (1 - cut[:, None])
        chance = np.clip(cut[:, None] / (1 - spoilt), 0.0, 1.0)
        groups = binary(rng, spoilt, SIZE, drawn, truncated=chance)
        more = beside(rng, steps)
        seen = groups.truncated.sum(axis=1) / (PER_STEP * SIZE)
        more = replace(more, cut=seen, tokens=400 + 620 * seen, longest=np.full(steps, float(MAX_TOKENS)))
        return logged(rng, tool, groups, more=more, dumped=dumped)

    return draw


def _copies(rng: Generator) -> Simulated:
    """Sampled at temperature 0: the rollouts of a group are one text."""
    _, rates, drawn = trained(rng, BROAD, steps=60)
    return logged(rng, "trl", binary(rng, rates, SIZE, drawn, copies=True), dumped=True)


def _flat(dumped: bool, steps: int) -> Draw:
    """0.2 for the format, which nearly every rollout has; the checker finds nearly no answer right."""

    def draw(rng: Generator) -> Simulated:
        drawn = order(rng, 2000, steps, PER_STEP)
        chance = rng.random((steps, PER_STEP, SIZE))
        rewards = np.where(chance < 0.001, 0.0, np.where(chance > 0.999, 1.0, 0.2))
        return logged(rng, "trl", graded(rewards, drawn, passes_at=1.0), dumped=dumped)

    return draw


def _batch_scaled(rng: Generator) -> Simulated:
    """scale_rewards "batch": the metric is a flag of the whole batch, 0 at every step, while 60 % are dead."""
    _, rates, drawn = trained(rng, TWO_HUMPS)
    groups = binary(rng, rates, SIZE, drawn)
    columns = trl(groups, beside(rng, STEPS), scale="batch")
    return logged(rng, "trl", groups, columns=columns, config={"scale_rewards": "batch"})


def _resampled(rng: Generator, tool: str, spread: float, steps: int) -> tuple[Simulated, Floats]:
    logits = humps((0.5, -spread, 1.7), (0.5, spread, 1.7))(rng, 3000)
    shift = wobble(rng, steps)[:, None]
    widen = ramp(1.0, 1.12, steps)[:, None]

    def rates(count: int) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        drawn = rng.integers(logits.size, size=(steps, count))
        return expit(widen * logits[drawn] + shift), drawn

    found = refilled(rng, rates, SIZE, PER_STEP)
    batches = np.minimum(found.batches, 10).astype(float)
    more = beside(rng, steps)
    columns = trl(found.kept, more) if tool == "trl" else verl(found.kept, more)
    return logged(rng, tool, found.kept, columns=columns), batches


def _survivors_only(rng: Generator) -> Simulated:
    """The metric counts the groups that were kept, after about 5 batches of generation a step."""
    found, batches = _resampled(rng, "trl", 4.2, STEPS)
    rows = [row | {"num_gen_batches": float(b)} for row, b in zip(found.rows, batches, strict=True)]
    return replace(found, rows=rows)


def _near_cap(rng: Generator) -> Simulated:
    """The DAPO recipe of verl needs 7 to 10 batches a step where 10 are allowed, and ever more."""
    found, batches = _resampled(rng, "verl", 4.9, STEPS)
    rows = [row | {"train/num_gen_batches": float(b)} for row, b in zip(found.rows, batches, strict=True)]
    config = {
        **found.config,
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.max_num_gen_batches": 10,
        "data.gen_batch_size": PER_STEP,
    }
    return replace(found, rows=rows, config=config)


def _turned(rng: Generator) -> Simulated:
    """Hard prompts are learned for good, one after the other: all-fail becomes all-pass, the dead fraction stays."""
    logits = humps((0.8, -4.2, 1.3), (0.2, 4.2, 1.3))(rng, 2000)
    learned = np.where(rng.random(2000) < 0.7, rng.uniform(0, STEPS, 2000), INF)
    drawn = order(rng, 2000, STEPS, PER_STEP)
    jump = 8.4 * (np.arange(STEPS)[:, None] >= learned[drawn]) * (logits[drawn] < 0)
    rates = expit(logits[drawn] + jump + wobble(rng, STEPS)[:, None])
    return logged(rng, "tinker", binary(rng, rates, SIZE, drawn), pilot=expit(logits))


def _sick(
    name: str, about: str, draw: Draw, *warns: str, tells: tuple[str, ...] = (), onset: tuple[int, int] | None = None
) -> Scenario:
    return Scenario(name=name, about=about, draw=draw, healthy=False, warns=warns, tells=tells, onset=onset)


SICK = (
    _sick(
        "starved", "80 % of the groups fail as a whole, and nothing improves.", simple(HARD, dumped=False), "STARVED"
    ),
    _sick("starved, tinker", "The same under the names of tinker.", simple(HARD, tool="tinker"), "STARVED"),
    _sick("starved, logged every 10", "The same, 200 steps in 20 rows.", simple(HARD, steps=200, every=10), "STARVED"),
    _sick(
        "pilot too hot",
        "The pilot was sampled at another temperature.",
        _hotter_pilot("trl"),
        "DEAD_ABOVE_PLAN",
        onset=(1, 60),
    ),
    _sick(
        "pilot too hot, prime-rl",
        "The same under the names of prime-rl.",
        _hotter_pilot("prime-rl"),
        "DEAD_ABOVE_PLAN",
        onset=(1, 60),
    ),
    _sick(
        "pilot too hot, every 10",
        "The same, a row every 10 steps.",
        _hotter_pilot("trl", 10),
        "DEAD_ABOVE_PLAN",
        onset=(1, 60),
    ),
    _sick(
        "order changed at 301",
        "The data order changes at step 301 of 400.",
        _order_changed,
        "DEAD_ABOVE_PLAN",
        onset=(285, 330),
    ),
    _sick("collapse", "Entropy and reward go to 0; all groups fail.", _collapse("trl"), "STARVED", "REWARD_STD_DEATH"),
    _sick(
        "collapse, verl with rollouts",
        "The same under the names of verl, with its rollouts.",
        _collapse("verl", dumped=True),
        "STARVED",
    ),
    _sick(
        "reward spread dies", "The differences of a graded reward shrink to nothing.", _spread_dies, "REWARD_STD_DEATH"
    ),
    _sick(
        "scorer fails, rollouts",
        "30 % of the rollouts get no reward from step 61 on.",
        _scorer_fails("trl", True),
        "FAILED_SCORING",
        onset=(55, 75),
    ),
    _sick(
        "scorer fails, prime-rl",
        "The same, told by a metric of prime-rl.",
        _scorer_fails("prime-rl", False),
        "FAILED_SCORING",
        onset=(55, 75),
    ),
    _sick(
        "truncated", "Nearly all responses are cut off, and fail.", _truncated("trl", False, STEPS), "TRUNCATION_DEAD"
    ),
    _sick("truncated, rollouts", "The same with its rollouts.", _truncated("prime-rl", True, 90), "TRUNCATION_DEAD"),
    _sick("copies", "Temperature 0: the rollouts of a group are one text.", _copies, "DUPLICATE_ROLLOUTS"),
    _sick(
        "flat reward",
        "All rewards are 0.2, for the format; the log does not say that this is no failure.",
        _flat(False, STEPS),
        "DEGENERATE_GROUPS",
    ),
    _sick("flat reward, rollouts", "The same with its rollouts, which say it.", _flat(True, 60), "FLAT_REWARD"),
    _sick(
        "batch-scaled metric", "The metric says 0.0 while 60 % are dead.", _batch_scaled, tells=("BATCH_SCALED_METRIC",)
    ),
    _sick(
        "survivors-only metric",
        "The metric says 0.0 after 5 batches of generation.",
        _survivors_only,
        tells=("FILTERED_METRIC",),
    ),
    _sick("refill near its cap", "7 to 10 batches a step where 10 are allowed.", _near_cap, "REFILL_CAP_RISK"),
    _sick(
        "atoms",
        "Pass rates are 0 or 1: every group is dead.",
        simple(ATOMS),
        "ADV_COLLAPSE|DEGENERATE_GROUPS|REWARD_STD_DEATH|STARVED",
    ),
    _sick(
        "atoms, 20 rows",
        "The same, 20 rows.",
        simple(ATOMS, steps=20),
        "ADV_COLLAPSE|DEGENERATE_GROUPS|REWARD_STD_DEATH|STARVED",
    ),
    _sick(
        "composition turned",
        "All-fail becomes all-pass; the dead fraction stays as planned.",
        _turned,
        tells=("COMPOSITION_TURNED",),
    ),
    _sick(
        "KL only",
        "Two thirds dead, and beta is above 0.",
        simple(humps((0.5, -3.9, 1.7), (0.5, 3.9, 1.7)), config={"beta": 0.04}),
        tells=("KL_ONLY_GRADIENT",),
    ),
    _sick("too easy", "90 % of the rollouts pass from the start.", simple(EASY, tool="tinker"), "SATURATED"),
)
