"""Runs in which nothing is wrong: what is said of them at warning or above is a false alarm."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from figures.scenarios.base import Row, Scenario, Simulated
from figures.scenarios.draws import Floats, beta, binary, expit, graded, humps, normal, ramp, refilled, wobble
from figures.scenarios.logs import beside, verl
from figures.scenarios.make import PER_STEP, SIZE, STEPS, logged, simple, trained

EVEN = normal(0.0, 0.4)
BROAD = normal(-0.4, 1.2)
TWO_HUMPS = humps((0.5, -3.0, 1.7), (0.5, 3.0, 1.7))  # about 60 % dead at G = 8
SATURATING = humps((0.3, -3.4, 1.4), (0.7, 3.2, 1.3))
U_SHAPED = humps((0.45, -3.8, 1.5), (0.55, 0.6, 1.7))


def _falling(rng: Generator) -> Simulated:
    """Both humps come closer: hard prompts are learned, and easy ones get harder company."""
    logits, _, drawn = trained(rng, TWO_HUMPS)
    scale = ramp(1.0, 0.8, STEPS)[:, None]
    rates = expit(scale * logits[drawn] + wobble(rng, STEPS)[:, None])
    return logged(rng, "trl", binary(rng, rates, SIZE, drawn), pilot=expit(logits))


def _never_ties(rng: Generator) -> Simulated:
    _, rates, drawn = trained(rng, normal(0.0, 1.0), drift=(0.0, 1.0))
    rewards = rates[..., None] + 0.15 * rng.standard_normal((*rates.shape, SIZE))
    return logged(rng, "trl", graded(np.round(rewards, 6), drawn, passes_at=0.5))


def _ties_by_design(rng: Generator) -> Simulated:
    """Rewards 0, 0.1 (well formed) and 1 (right): half of the groups tie, most of them at 0.1, and the run learns."""
    _, rates, drawn = trained(rng, humps((0.75, -4.0, 1.5), (0.25, 0.5, 1.2)), drift=(0.0, 1.2))
    right = rng.random((*rates.shape, SIZE)) < rates[..., None]
    formed = rng.random(right.shape) < 0.98
    return logged(rng, "trl", graded(np.where(right, 1.0, np.where(formed, 0.1, 0.0)), drawn, passes_at=1.0))


def _filtered(rng: Generator) -> Simulated:
    """The filter_groups of verl: dead groups are thrown away and counted."""
    logits = TWO_HUMPS(rng, 2000)
    shift = wobble(rng, STEPS)[:, None]

    def rates(count: int) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        drawn = rng.integers(logits.size, size=(STEPS, count))
        return expit(logits[drawn] + shift), drawn

    found = refilled(rng, rates, SIZE, PER_STEP)
    columns = verl(found.kept, beside(rng, STEPS)) | {
        "training/filter_groups/evicted_samples": found.evicted.astype(float),
        "training/filter_groups/discarded_surplus_samples": rng.integers(0, 4, STEPS).astype(float),
    }
    config: dict[str, object] = {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc"}
    return logged(rng, "verl", found.kept, columns=columns, pilot=expit(logits), config=config)


def _refilled_below_cap(rng: Generator) -> Simulated:
    """The DAPO recipe: 2 to 4 batches a step where 10 are allowed."""
    logits = TWO_HUMPS(rng, 2000)
    shift = wobble(rng, STEPS)[:, None]

    def rates(count: int) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        drawn = rng.integers(logits.size, size=(STEPS, count))
        return expit(logits[drawn] + shift), drawn

    found = refilled(rng, rates, SIZE, PER_STEP)
    columns = verl(found.kept, beside(rng, STEPS)) | {"train/num_gen_batches": found.batches.astype(float)}
    config: dict[str, object] = {
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.max_num_gen_batches": 10,
        "data.gen_batch_size": PER_STEP,
    }
    return logged(rng, "verl", found.kept, columns=columns, config=config)


def _with_evaluations(rng: Generator) -> Simulated:
    found = simple(BROAD, drift=(0.0, 1.0))(rng)
    rows: list[Row] = []
    for row in found.rows:
        rows.append(row)
        if row["step"] % 25 == 0:
            score = 0.5 + 0.001 * row["step"] + rng.normal(0, 0.01)
            zero = {"eval_frac_reward_zero_std": 0.9, "eval_reward_std": 0.1, "eval_runtime": 61.0}
            rows.append({"step": row["step"], "eval_loss": 0.0, "eval_reward": score, **zero})
    return Simulated(tool="trl", rows=rows, config=found.config, design=found.design)


def _one_prompt(rng: Generator) -> Simulated:
    """All groups of a step are of one prompt, which is learned."""
    rates = np.tile(expit(ramp(-1.6, 1.6, STEPS) + wobble(rng, STEPS))[:, None], (1, PER_STEP))
    groups = binary(rng, rates, SIZE, np.zeros(rates.shape, dtype=np.int64))
    return logged(rng, "trl", groups)


def _resumed(rng: Generator) -> Simulated:
    """Stopped at step 180, taken up again from the checkpoint of step 150."""
    found = simple(BROAD, drift=(0.0, 0.8), planned=True)(rng)
    again = simple(BROAD, drift=(0.0, 0.8))(rng)
    rows = [*found.rows[:180], *again.rows[150:]]
    return Simulated(tool="trl", rows=rows, config=found.config, design=found.design, pilot=found.pilot)


def _scenario(name: str, about: str, draw: object, tells: tuple[str, ...] = ()) -> Scenario:
    return Scenario(name=name, about=about, draw=draw, healthy=True, tells=tells)  # type: ignore[arg-type]


HEALTHY = (
    _scenario("even", "Pass rates near one half; 2 % of the groups are dead.", simple(EVEN)),
    _scenario("improving", "Mean reward from .42 to .70.", simple(BROAD, drift=(0.0, 1.5))),
    _scenario("improving, planned", "The same with its plan.", simple(BROAD, drift=(0.0, 1.5), planned=True)),
    _scenario(
        "until saturated",
        "Dead from about .65 to .86 because prompts are learned; the reward rises.",
        simple(SATURATING, drift=(-0.1, 6.3)),
        tells=("SATURATED",),
    ),
    _scenario(
        "until saturated, planned",
        "The same with its plan: more are dead than planned, since the prompts are learned.",
        simple(SATURATING, drift=(-0.1, 6.3), planned=True),
        tells=("SATURATED",),
    ),
    _scenario("dead by design", "Two humps, 60 % dead as planned.", simple(TWO_HUMPS, planned=True)),
    _scenario("dead by design, falling", "60 % dead as planned, slowly falling.", _falling),
    _scenario(
        "dead by design, tinker", "The same under the names of tinker.", simple(TWO_HUMPS, tool="tinker", planned=True)
    ),
    _scenario(
        "u-shaped",
        "All-fail from .36 to .29, all-pass from .08 to .21, as in One-Shot-RLVR.",
        simple(U_SHAPED, drift=(-0.1, 1.0)),
    ),
    _scenario("u-shaped, planned", "The same with its plan.", simple(U_SHAPED, drift=(-0.1, 1.0), planned=True)),
    _scenario("graded, no ties", "Graded rewards that never tie.", _never_ties),
    _scenario(
        "graded, ties by design", "Rewards 0, 0.1 and 1: half of the groups tie, and the run learns.", _ties_by_design
    ),
    _scenario("8 rows", "A log of 8 rows.", simple(BROAD, steps=8, planned=True)),
    _scenario("20 rows", "A log of 20 rows, 60 % dead as planned.", simple(TWO_HUMPS, steps=20, planned=True)),
    _scenario(
        "logged every 10",
        "500 steps, a row every 10.",
        simple(BROAD, steps=500, every=10, planned=True, drift=(0.0, 0.4)),
    ),
    _scenario(
        "logged every 5", "TRL's means over 5 steps, 60 % dead as planned.", simple(TWO_HUMPS, every=5, planned=True)
    ),
    _scenario(
        "2 groups a step",
        "Two groups a step: the share of dead ones is 0, .5 or 1.",
        simple(beta(0.6, 0.9), per_step=2, planned=True),
    ),
    _scenario("G = 2", "Groups of 2: 80 % dead as planned.", simple(TWO_HUMPS, size=2, planned=True)),
    _scenario(
        "G = 64", "Groups of 64.", simple(normal(-1.0, 2.2), size=64, per_step=16, planned=True, drift=(0.0, 0.5))
    ),
    _scenario("filtered, verl", "filter_groups of verl, working as meant.", _filtered),
    _scenario("refill below its cap", "2 to 4 batches a step where 10 are allowed.", _refilled_below_cap),
    _scenario("noisy step times", "Step times vary by a factor of 3.", simple(BROAD, drift=(0.0, 1.0), jitter=0.6)),
    _scenario("evaluations between", "Rows of evaluations between those of training.", _with_evaluations),
    _scenario("one prompt", "One prompt, learned from .17 to .83.", _one_prompt),
    _scenario("resumed", "Steps 151 to 180 are logged twice.", _resumed),
    _scenario(
        "few failed scores",
        "0.5 % of the rollouts have no reward.",
        simple(BROAD, drift=(0.0, 0.8), steps=100, failed=0.005, dumped=True),
    ),
    _scenario("openrlhf", "Improving, under the names of OpenRLHF.", simple(BROAD, tool="openrlhf", drift=(0.0, 1.0))),
    _scenario(
        "prime-rl",
        "Improving as planned, under the names of prime-rl.",
        simple(BROAD, tool="prime-rl", drift=(0.0, 1.0), planned=True),
    ),
    _scenario(
        "ms-swift",
        "Improving, under the names of ms-swift, a row every 5 steps.",
        simple(BROAD, tool="ms-swift", every=5, drift=(0.0, 1.0)),
    ),
    _scenario(
        "verl",
        "Improving, under the names of verl, with its rollouts.",
        simple(BROAD, tool="verl", steps=100, drift=(0.0, 1.0), dumped=True),
    ),
)
