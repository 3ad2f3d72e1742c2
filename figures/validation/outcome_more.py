"""Tables of everything but group sizes: batch, cost of a prompt, estimators, refill, mix, updates, a finite set, SGD."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from scipy import stats

from figures.diagnosis_page import table
from figures.validation.outcome import Floats, Ratio, Run, Sweep, chosen, mean_error, ratio, sweep
from figures.validation.outcome_plan import Plan, exact_dead
from figures.validation.outcome_tables import points, rate_name, share, shares


def complete(found: Iterable[Run]) -> list[Run]:
    """Runs of the seeds that have as many runs as any."""
    held = list(found)
    counts = {seed: sum(run.seed == seed for run in held) for seed in {run.seed for run in held}}
    return [run for run in held if counts[run.seed] == max(counts.values())]


@cache
def part(name: str, world: str = "all", measure: str = "gain") -> Sweep:
    """The sweep of a part of the study."""
    return sweep(complete(chosen(name, world)), measure)


def base(of: Sweep, world: str = "all", measure: str = "gain") -> Sweep:
    """The sweep of sizes in a world at the sizes, learning rates and seeds of another sweep."""
    found = [r for r in chosen("sizes", world) if (r.group, r.rate) in of.gains and r.seed in of.seeds]
    return sweep(found, measure)


@cache
def there(name: str) -> bool:
    """Whether a part has two seeds or more."""
    return len({run.seed for run in complete(chosen(name))}) > 1 if chosen(name) else False


def difference(a: Floats, b: Floats, level: float = 0.95) -> str:
    """Paired difference of two gains in points, with Student's limits; bold where they leave out 0."""
    found = a - b
    mean, error = mean_error(found)
    reach = float(stats.t.ppf(0.5 + level / 2, len(found) - 1)) * error
    text = f"{100 * mean:+.1f} ({100 * (mean - reach):+.1f}, {100 * (mean + reach):+.1f})"
    return f"**{text}**" if abs(mean) > reach else text


def batch_table(plan: Plan | None) -> list[str]:
    """Shares of G = 4's gain at 512 and at 2048 rollouts a step, the same learning rates at both."""
    large = part("batch")
    small = base(large)
    rows = []
    for size in large.sizes:
        cells = []
        for held, rollouts in ((small, 512), (large, 2048)):
            gains = held.best()
            cells += [points(gains[size]), share(ratio(gains[size], gains[large.sizes[0]]))]
            predicted = plan.relative(rollouts=rollouts) if plan else {}
            cells.append(f"{predicted[size] / predicted[large.sizes[0]]:.2f}" if size in predicted else "-")
        rows.append([str(size), *cells])
    header = ["G", "B = 512, gain", f"share of G = {large.sizes[0]}", "1 / (1 + NSR)"]
    return table([*header, "B = 2048, gain", "share", "1 / (1 + NSR)"], rows)


def cost_table(plan: Plan | None) -> list[str]:
    """Shares of the best gain where a prompt costs as much as 4 rollouts, beside those where it costs nothing."""
    dear = part("prompt_cost")
    free = base(dear)
    rows = []
    columns = [
        (shares(held.held_out()), plan.efficiency(prompt_cost=cost) if plan else {})
        for held, cost in ((free, 0), (dear, 4))
    ]
    tops = [max((predicted[size] for size in dear.sizes if size in predicted), default=1.0) for _, predicted in columns]
    for size in dear.sizes:
        cells = []
        for (measured, predicted), top in zip(columns, tops, strict=True):
            cells += [
                share(measured[size]) if size in measured else "-",
                f"{predicted[size] / top:.2f}" if predicted else "-",
            ]
        rows.append([str(size), str(512 // (4 + size)), *cells])
    return table(["G", "prompts a step at c0 = 4", "c0 = 0", "e(G)", "c0 = 4", "e(G)"], rows)


def estimator_rows() -> list[tuple[str, int, str, Sweep, Sweep]]:
    """World, size and name of each estimator, its sweep of rates, and that of mean-centred advantages."""
    made = []
    keys = sorted({(r.world, r.group, r.estimator) for r in chosen("estimators")}, key=lambda k: (*k[:2], ORDER[k[2]]))
    for world, size, name in keys:
        runs = chosen("estimators", world)
        held = sweep(complete(r for r in runs if (r.group, r.estimator) == (size, name)))
        mean = sweep(
            r
            for r in chosen("sizes", world)
            if r.group == size and r.seed in held.seeds and (name != "rloo" or r.rate in held.rates(size))
        )
        if len(held.seeds) > 1 and mean.seeds == held.seeds and mean.gains:
            made.append((world, size, name, held, mean))
    return made


ORDER = {"std": 0, "maxrl": 1, "sign": 2, "rloo": 3}


def estimator_table() -> list[str]:
    """Gain of each estimator at its best learning rate, and its difference to mean-centred advantages."""
    rows = []
    for world, size, name, held, mean in estimator_rows():
        a, b = held.best()[size], mean.best()[size]
        rates = f"{rate_name(held.best_rate(size))} ({rate_name(mean.best_rate(size))})"
        rows.append([world, str(size), name, str(len(held.seeds)), rates, points(a), points(b), difference(a, b)])
    header = ["world", "G", "estimator", "seeds", "best rate (of mean-centred)", "gain", "mean-centred"]
    return table([*header, "difference"], rows)


def refill_table() -> list[str]:
    """Refill against a fixed batch at equal generation, each at the better of two learning rates."""
    rows = []
    for (world, size, target), found in refill_ratios().items():
        mine = complete(r for r in chosen("refill", world) if (r.group, r.mixed) == (size, target))
        held = sweep(mine)
        gain, fixed = held.best()[size], base(held, world).best()[size]
        groups = 512 // size
        mixed = f"{groups * (1 - exact_dead(world)[size]):.1f} of {groups}"
        updates = float(np.mean([r.updates for r in mine]))
        rows.append([world, str(size), str(target), mixed, f"{updates:.0f}", points(gain), points(fixed), share(found)])
    header = [
        "world",
        "G",
        "mixed groups a step",
        "fixed batch, at the start",
        "updates",
        "gain",
        "fixed batch, 120 updates",
    ]
    return table([*header, "ratio"], rows)


@cache
def refill_ratios() -> dict[tuple[str, int, int], Ratio]:
    """Gain with refill against a fixed batch: world, size, target."""
    made: dict[tuple[str, int, int], Ratio] = {}
    for world, size, target in sorted({(r.world, r.group, r.mixed) for r in chosen("refill")}):
        held = sweep(complete(r for r in chosen("refill", world) if (r.group, r.mixed) == (size, target)))
        if len(held.seeds) > 1:
            made[world, size, target] = ratio(held.best()[size], base(held, world).best()[size])
    return made


def updates_table() -> list[str]:
    """Four clipped updates a batch against one."""
    many = part("updates")
    one = sweep(r for r in chosen("sizes", "all") if r.group in many.sizes and r.seed in many.seeds)
    a, b = many.held_out(), one.held_out()
    measured = [shares(gains) for gains in (a, b)]
    rows = []
    for size in many.sizes:
        rates = f"{rate_name(many.best_rate(size))} ({rate_name(one.best_rate(size))})"
        rows.append(
            [
                str(size),
                rates,
                points(a[size]),
                points(b[size]),
                *(share(m[size]) for m in measured),
                difference(a[size], b[size]),
            ]
        )
    header = ["G", "best rate (one update)", "gain, 4 updates", "one update", "share of best, 4 updates", "one update"]
    return table([*header, "difference"], rows)


def finite_table() -> list[str]:
    """256 prompts in epochs: gain on them and on held-out prompts, beside fresh prompts."""
    held, training = part("finite", "finite"), part("finite", "finite", "training")
    fresh, measured = base(held), shares(held.held_out())
    runs = chosen("finite", "finite")
    rows = []
    for size in held.sizes:
        rate = held.best_rate(size)
        mine = [r for r in runs if r.group == size and r.rate == rate and r.seed in held.seeds]
        visits = float(np.mean([r.drawn for r in mine])) / 256
        values = [held.gains[size, rate], training.gains[size, rate], fresh.best()[size]]
        dead = float(np.mean([r.dead[-1] for r in mine]))
        end = float(np.mean([r.training_pass_rate[-1] for r in mine]))
        rows.append(
            [
                str(size),
                f"{visits:.0f}",
                *(points(v) for v in values),
                share(measured[size]),
                f"{end:.2f}",
                f"{dead:.2f}",
            ]
        )
    header = ["G", "epochs", "gain, held out", "gain, the 256", "fresh prompts, held out", "share of best, held out"]
    return table([*header, "the 256 at the end", "dead, last steps"], rows)


def sgd_table() -> list[str]:
    """Group sizes under plain SGD."""
    held = part("sgd")
    measured = shares(held.held_out())
    adam = shares(sweep(r for r in chosen("sizes", "all") if r.group in held.sizes and r.seed in held.seeds).held_out())
    rows = [
        [
            str(size),
            f"{held.best_rate(size):g}",
            points(held.best()[size]),
            share(measured[size]),
            f"{adam[size].value:.2f}" if size in adam else "-",
        ]
        for size in held.sizes
    ]
    return table(["G", "best rate", "gain", "share of best", "under Adam"], rows)


@cache
def mix_ratios() -> dict[str, Ratio]:
    """Gain at G = 4 with another share of hard prompts against the prompts as they come, at the best of the same rates."""
    made: dict[str, Ratio] = {}
    for world in ("mix_20", "mix_80"):
        held = part("mix", world)
        natural = base(held)
        if len(held.seeds) > 1 and natural.gains and natural.seeds == held.seeds:
            made[world] = ratio(held.best()[4], natural.best()[4])
    return made


def mix_table(said: dict[str, list[float]], natural_share: float) -> list[str]:
    """Planner's progress of each mix beside the gain measured."""
    rows = []
    for world, key in (("mix_20", "0.2"), ("mix_80", "0.8")):
        held = part("mix", world)
        value, low, high = said.get(key, [float("nan")] * 3)
        rows.append([key, points(held.best()[4]), share(mix_ratios()[world]), f"x{value:.2f} ({low:.2f}, {high:.2f})"])
    rows.insert(1, [f"{natural_share:.2f}, as they come", points(base(part("mix", "mix_20")).best()[4]), "1", "1"])
    return table(["share of hard prompts", "gain, all prompts held out", "measured ratio", "planner's progress"], rows)
