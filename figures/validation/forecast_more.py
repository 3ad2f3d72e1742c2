"""More of what a plan says, held against the same policies: ``python -m figures.validation.forecast_more --work DIR``.

Effective batch, refill, temperature, mix, recovery from aggregates, and where training takes the dead fraction. Each
part is kept in ``DIR/forecast`` when it is done, so that a second start goes on from there. Run
`figures.validation.forecast` first: its pilots are used.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

import grpo_plan as gp
from figures.validation.conditions import WORLDS
from figures.validation.forecast import STARTS, Source, source
from figures.validation.forecast_counts import LEVEL, MORE, PILOTS, Counts, Floats, pilot_of, shares
from figures.validation.policy import pass_rates
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.tasks import draw
from figures.validation.training import Pools, Recipe, pools, train

Row = dict[str, str | float | int | None]
Rows = Iterator[Row]

STEP = 128  # prompts of a step
STEP_SIZES = (4, 8, 16)
LISTS = 10
MIXED = 64  # mixed groups that a refill wants, and prompts of its generation batch
REFILL_SIZE = 8
TEMPERATURES = (0.6, 0.8, 1.0, 1.2)
MIX_SIZE = 8
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
KAPPA = 3.0  # a mix asks for one; its dead fraction does not depend on it
LOGS, LOGGED = 40, 640  # logs of so many groups each
OTHER_SIZES = (2, 4, 8, 16, 32, 64)
COURSES = tuple((world, group) for world in ("all", "hard", "either", "easy") for group in (4, 16))
COURSE_SEEDS = range(50, 52)
ASKED_AT, ASKED_FOR, STEPS = 40, (80, 120), 120
ROWS_OF, ROWS_SEEN = 10, 8  # the runs of the study log a row every ten steps; a forecast needs eight


def _row(
    what: str,
    case: str,
    group: int,
    number: int,
    value: float | None,
    low: float,
    high: float,
    measured: float,
    **more: float,
) -> Row:
    return {
        "what": what, "case": case, "group": group, "number": number,
        "value": value, "low": low, "high": high, "measured": measured, **more,
    }  # fmt: skip


def _fits() -> list[gp.PassRateFit]:
    """Fits of the pilots of 500 prompts x 8 rollouts of the start ``sum``."""
    rows = pl.read_parquet(PILOTS).filter((pl.col("start") == "sum") & (pl.col("n") == 8)).sort("pilot")
    return [gp.fit_pass_rates(pilot_of(np.array(counts, dtype=np.int64))) for counts in rows["counts"]]


def _mixed(rewarded: Counts, group: int) -> NDArray[np.bool_]:
    """Which prompts are mixed by their first rollouts: (N,)."""
    passes = rewarded[:, :group].sum(1)
    mixed: NDArray[np.bool_] = (passes > 0) & (passes < group)
    return mixed


def predicted_count(batch: gp.EffectiveBatch, level: float = LEVEL) -> tuple[int, int]:
    """Ends of the central interval of the number of mixed groups of a step: at most (1 - level)/2 beyond each."""
    tail = (1 - level) / 2
    fewer = np.array([batch.probability_fewer_than(m) for m in range(batch.prompts_per_step + 2)])
    return int(np.flatnonzero(fewer <= tail)[-1]), int(np.flatnonzero(fewer >= 1 - tail)[0]) - 1


def _count_row(what: str, group: int, number: int, batch: gp.EffectiveBatch, measured: int) -> Row:
    below, up_to = batch.probability_fewer_than(measured), batch.probability_fewer_than(measured + 1)
    return _row(
        what,
        "",
        group,
        number,
        batch.mixed_groups.mean,
        *predicted_count(batch),
        measured,
        pit_low=below,
        pit_high=up_to,
    )


def steps(work: Path) -> Rows:
    """One step of 128 fresh prompts for every pilot."""
    given, generator = source("sum", work), torch.Generator().manual_seed(40_000)
    for number, fit in enumerate(_fits()):
        rewarded = given.rollouts(given.choose(STEP, generator), max(STEP_SIZES), generator)
        for g in STEP_SIZES:
            batch = gp.effective_batch(fit, prompts_per_step=STEP, group_size=g)
            yield _count_row("step", g, number, batch, int(_mixed(rewarded, g).sum()))


def lists(work: Path) -> Rows:
    """Ten lists of 128 prompts of known pass rates, 40 steps of each."""
    given, generator = source("sum", work), torch.Generator().manual_seed(41_000)
    for number in range(LISTS):
        chosen = given.choose(STEP, generator)
        batches = {g: gp.effective_batch_of_list(given.p[chosen.numpy()], group_size=g) for g in STEP_SIZES}
        for step in range(400 // LISTS):
            rewarded = given.rollouts(chosen, max(STEP_SIZES), generator)
            for g, batch in batches.items():
                yield _count_row("list", g, 1000 * number + step, batch, int(_mixed(rewarded, g).sum()))


def refills(work: Path) -> Rows:
    """One refill of a step to 64 mixed groups of 8 for every pilot: prompts one by one, and rounds of 64."""
    given, generator = source("sum", work), torch.Generator().manual_seed(42_000)
    predicted: list[gp.Refill] = []
    rounds: list[int] = []
    for number, fit in enumerate(_fits()):
        mixed = np.empty(0, dtype=bool)
        while mixed.sum() < MIXED:
            more = given.rollouts(given.choose(MIXED, generator), REFILL_SIZE, generator)
            mixed = np.append(mixed, _mixed(more, REFILL_SIZE))
        needed = int(np.flatnonzero(mixed.cumsum() >= MIXED)[0]) + 1
        plan = gp.refill(fit, prompts_per_step=MIXED, group_size=REFILL_SIZE, gen_batch_size=MIXED)
        predicted.append(plan)
        rounds.append(-(-needed // MIXED))
        single, whole, ends = plan.at_value.one_by_one, plan.at_value.rounds, (plan.at_low, plan.at_high)
        yield _row("refill", "prompts", REFILL_SIZE, number, single.mean, single.p05, single.p95, needed)
        yield _row("refill", "rounds", REFILL_SIZE, number, whole.mean, whole.p05, whole.p95, rounds[-1])
        if ends[1] is not None:
            wide = ends[0].one_by_one.p05, ends[1].one_by_one.p95
            yield _row("refill", "prompts, limits of D too", REFILL_SIZE, number, single.mean, *wide, needed)
    rollouts = REFILL_SIZE * MIXED * float(np.mean(rounds))
    for number, plan in enumerate(predicted):
        low, high = plan.limits(lambda at: at.rollouts.mean)
        most = math.inf if high is None else high
        yield _row("refill", "mean rollouts", REFILL_SIZE, number, plan.at_value.rollouts.mean, low, most, rollouts)


def temperatures(work: Path, count: int = 60) -> Rows:
    """The same 500 prompts at four temperatures, 8 rollouts each: differences of D to temperature 1."""
    given = source("sum", work)
    worlds = {t: replace(given.world, temperature=t) for t in TEMPERATURES}
    warm = {
        t: Source(given.model, w, given.prompts, pass_rates(given.model, w.task, given.prompts, t).numpy())
        for t, w in worlds.items()
    }
    generator = torch.Generator().manual_seed(43_000)
    names = [f"q{i}" for i in range(500)]
    for number in range(count):
        chosen = given.choose(500, generator)
        pilots = {
            t: gp.Pilot.from_counts(s.rollouts(chosen, 8, generator).sum(1), 8, prompt_id=names)
            for t, s in warm.items()
        }
        for g in (4, 8):
            exact = {t: shares(s.p, g)["dead"] for t, s in warm.items()}
            plan = gp.plan_temperature(pilots, group_size=g)
            for d in plan.differences:
                if d.dead is not None:
                    truth = exact[d.temperature] - exact[plan.baseline]
                    case = f"{d.temperature:g}"
                    yield _row("temperature", case, g, number, d.dead.value, d.dead.low, d.dead.high, truth)


def mixes(work: Path, count: int = 30) -> Rows:
    """One pilot of 250 hard prompts and 250 others, 8 rollouts each: D of their mixes."""
    given, generator = source("sum", work), torch.Generator().manual_seed(44_000)
    at = {"hard": np.flatnonzero(given.p < 0.1), "rest": np.flatnonzero(given.p >= 0.1)}
    names = [name for name in at for _ in range(250)]
    for number in range(count):
        chosen = torch.cat(
            [
                torch.from_numpy(places)[torch.randint(len(places), (250,), generator=generator)]
                for places in at.values()
            ]
        )
        passes = given.rollouts(chosen, 8, generator).sum(1)
        pilot = gp.Pilot.from_counts(passes, 8, stratum=names)
        exact = [shares(given.p[places], MIX_SIZE)["dead"] for places in at.values()]
        for share in SHARES:
            held = {"hard": share}
            mix = gp.plan_mix(pilot, group_size=MIX_SIZE, kappa=KAPPA, floors=held, caps=held, max_kl=math.inf)
            found, truth = mix.dead_after, share * exact[0] + (1 - share) * exact[1]
            yield _row("mix", f"{share:g}", MIX_SIZE, number, found.value, found.low, found.high, truth)


def _recovered(what: str, case: str, group: int, number: int, rewarded: Counts, p: Floats) -> Rows:
    """D at other sizes from mean reward and dead fraction of logged groups."""
    dead = 1 - float(_mixed(rewarded, group).mean())
    known = gp.recover(mean=float(rewarded.mean()), dead=dead, group_size=group, groups=len(rewarded))
    for g in OTHER_SIZES:
        if g != group:
            found = known.dead(g)
            yield _row(what, case, g, number, found.value, found.low, found.high, shares(p, g)["dead"])


def recovery(work: Path) -> Rows:
    """Logs of 640 groups of 8 of each start: D at other sizes from two numbers."""
    for index, start in enumerate(STARTS):
        given, generator = source(start, work), torch.Generator().manual_seed(45_000 + index)
        for number in range(LOGS):
            rewarded = given.rollouts(given.choose(LOGGED, generator), 8, generator)
            yield from _recovered("recovery", start, 8, number, rewarded, given.p)


def course(world: str, group: int, seed: int, work: Path, kept: dict[str, Pools]) -> Rows:
    """One training run: asked at step 40 for the dead fraction of steps 80 and 120; then recovered at other sizes."""
    start, setting = WORLDS[world]
    if world not in kept:
        made = pools(start_policy(start, work), setting)
        kept[world] = replace(made, held_out=made.held_out[:8])  # looked at after every step, and not used here
    recipe = Recipe(group, 512 // group, 5e-4 if group == 4 else 2.5e-4, seed, steps=STEPS)
    model = start_policy(start, work)
    dead = train(model, setting, recipe, kept[world], every=1).dead
    ahead = gp.forecast(
        range(1, ASKED_AT + 1), dead[:ASKED_AT], 0.5, groups=recipe.prompts, horizon_steps=STEPS - ASKED_AT
    )
    number = 1000 * seed + group
    for step in ASKED_FOR:
        at = int(np.flatnonzero(ahead.steps == step)[0])
        band = float(ahead.mid[at]), float(ahead.low[at]), float(ahead.high[at])
        now = float(np.mean(dead[ASKED_AT - 10 : ASKED_AT]))
        yield _row("drift", f"{world}, step {step}", group, number, *band, dead[step - 1], now=now)
    train_on = kept[world].train
    prompts = draw(4000, torch.Generator().manual_seed(46_000)) if train_on is None else train_on[:4000]
    given = Source(model, setting, prompts, pass_rates(model, setting.task, prompts, setting.temperature).numpy())
    generator = torch.Generator().manual_seed(47_000 + seed)
    rewarded = given.rollouts(given.choose(LOGGED, generator), group, generator)
    yield from _recovered("recovery, trained", f"{world}, G = {group}", group, number, rewarded, given.p)


def study_courses(work: Path) -> Rows:
    """The runs of the study: from their first 80 steps in rows of ten to the row of steps 111 to 120."""
    path = work / "runs.jsonl"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else []):
        run = json.loads(line)
        dead = run["dead"]
        if run["part"] != "sizes" or len(dead) != STEPS // ROWS_OF:
            continue
        at = [ROWS_OF * (i + 1) for i in range(ROWS_SEEN)]
        groups, horizon = ROWS_OF * run["prompts"], STEPS - at[-1]
        ahead = gp.forecast(at, dead[:ROWS_SEEN], 0.5, groups=groups, horizon_steps=horizon)
        band = float(ahead.mid[-1]), float(ahead.low[-1]), float(ahead.high[-1])
        yield _row("drift, rows of ten", run["world"], run["group"], number, *band, dead[-1], now=dead[ROWS_SEEN - 1])


def parts() -> dict[str, Callable[[Path], Rows]]:
    """What is measured, by name, in the order in which it is run."""
    kept: dict[str, Pools] = {}
    runs = {
        f"course-{world}-{group}-{seed}": partial(_course, world, group, seed, kept)
        for seed in COURSE_SEEDS
        for world, group in COURSES
    }
    first = {
        "steps": steps, "lists": lists, "refills": refills, "study": study_courses, "recovery": recovery,
        "temperatures": temperatures, "mixes": mixes,
    }  # fmt: skip
    return {**first, **runs}


def _course(world: str, group: int, seed: int, kept: dict[str, Pools], work: Path) -> Rows:
    return course(world, group, seed, work, kept)


def main() -> None:
    """Measure what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    work: Path = parser.parse_args().work
    torch.set_num_threads(1)
    folder = work / "forecast"
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name, part in parts().items():
        path = folder / f"{name}.json"
        if not path.exists() or name == "study":
            path.write_text(json.dumps(list(part(work))), encoding="utf-8")
            print(name, file=sys.stderr)
        rows += json.loads(path.read_text(encoding="utf-8"))
        _write(rows)


def _write(rows: list[Row]) -> None:
    """What there is so far."""
    table = pl.DataFrame(rows, infer_schema_length=None)
    table = table.with_columns(pl.col(pl.Float64).cast(pl.Float32), pl.col("what", "case").cast(pl.Categorical))
    table.cast({"group": pl.UInt8, "number": pl.UInt32}).write_parquet(MORE, compression_level=19)


if __name__ == "__main__":
    main()
