"""The sections on training outcomes in docs/validation.md: group sizes, rules, and everything else that was varied."""

from __future__ import annotations

import json

import numpy as np

from figures.validation import outcome_more as more
from figures.validation import outcome_tables as tables
from figures.validation.mix_plan import PATH as MIX
from figures.validation.outcome import chosen, ratio, runs, sweep
from figures.validation.outcome_plan import Plan, exact_dead, plans, starts
from figures.validation.outcome_tables import CLOSE, NAMES, best_of, sizes_of, worlds

RESULTS = "figures/validation/results"


def edges(world: str) -> tuple[list[int], list[int]]:
    """Sizes whose best learning rate is the lowest, and the highest, that was tried."""
    held = sizes_of(world)
    low = [size for size in held.sizes if held.best_rate(size) == held.rates(size)[0]]
    high = [size for size in held.sizes if held.best_rate(size) == held.rates(size)[-1]]
    return low, high


def listed(words: list[str]) -> str:
    """Words with commas and a last *and*.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if not words:
        return "none"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def method() -> list[str]:
    """What was trained, and how it is read."""
    count = len(runs())
    seeds = max(len(sizes_of(world).seeds) for world in worlds())
    facts = starts()
    sizes = {name: facts[name]["parameters"] for name in facts}
    return [
        "## Training: what the runs gained",
        "",
        f"{count} training runs. A decoder of {sizes['sum']:,} parameters, taught to add numbers of one to "
        "four digits until it solves a good third of them, is trained by GRPO for 120 steps of 512 rollouts (unless said), Adam with betas .9 and "
        ".99, 20 steps of warm-up, mean-centred advantages, one update a batch, fresh prompts at every step. Pass rates are exact: the right "
        "answers can be listed, and their probabilities are summed.",
        "",
        "| world | starting policy | what is different | mean pass rate | exact D(4), D(8), D(16), D(32) |",
        "|---|---|---|---|---|",
        *world_rows(),
        "",
        f"* **Gain**: exact mean pass rate of 1,000 held-out prompts, averaged over the 13 looks of a run (one every 10 steps), less that at the start; in "
        f"points (hundredths). ± is the standard error over {seeds} seeds. All runs of a world start from one policy: seeds differ in prompts and rollouts, not in the start.",
        "* **Learning rates**: two to five for each size (the tables show them); a lower or a higher one was added where the end of the sweep was best. *Measured* shares take each seed at the rate that is "
        "best in the mean of the *other* seeds, so that no seed chooses its own rate; *rate of hindsight* takes the best rate in the mean of all, which "
        "is slightly too kind to sizes whose rates differ little from noise.",
        "* **Shares** are ratios of mean gains to the best size's, with 95 % limits by Fieller's method with Student's t, paired by seed. The best size is itself "
        "chosen from these runs, which makes the losses of others look slightly larger than they are.",
        "* **Predictions** were computed from a pilot and gradients of the starting policy alone. *e(G)* is the planner's efficiency (eq. 26) with the kappa "
        "that a probe measured; *1 / (1 + NSR)* takes the noise of a step from exact gradients (eq. 51).",
        "",
    ]  # fmt: skip


def world_rows() -> list[str]:
    """The worlds in words."""
    words = {
        "all": "every prompt, temperature 1",
        "hard": "only prompts that pass less than 1 time in 10 at the start",
        "tail": "10 more tokens after the answer that the reward ignores",
        "hard_tail": "both",
        "either": "the sum or the difference is right: two right answers",
        "easy": "temperature .8, taught mostly short numbers: many prompts are always solved",
    }
    rows = []
    for world, text in words.items():
        held = sizes_of(world) if world in worlds() else None
        start = {"either": "either", "easy": "easy"}.get(world, "sum")
        mean = np.mean([run.pass_rate[0] for run in chosen("sizes", world)]) if held else float("nan")
        dead = exact_dead(world)
        values = ", ".join(f"{dead[size]:.2f}" for size in (4, 8, 16, 32))
        rows.append(f"| {NAMES[world]} | {start} | {text} | {mean:.2f} | {values} |")
    return rows


def sizes_section(found: dict[str, Plan]) -> list[str]:
    """Group sizes in each world, and the rules."""
    lines = ["## Group size: which G learned most, and which rule finds it", ""]
    lines += [
        "![Gain of each group size as a share of the best one's, in each world, with the planner's curve, flat range and pick]"
        "(../figures/validation_outcome.svg)",
        "",
    ]
    if found:
        lines += [*verdict(found), "", *tables.match_table(found), *agreement(found), ""]
    lines += [
        "### Regret of rules",
        "",
        "The size that each rule takes, and what share of the best size's gain it gives up, in percent, with 95 % limits. A size that was not swept is read from a straight line in log G "
        "between its neighbours. Where no size of the sweep has D of .4 or less, that rule takes the largest.",
        "",
        *tables.regret_table(found),
    ]
    lines += rules_words(found)
    lines += [
        "The same over the first 50 steps, in which the policy is still near the one that was planned for:",
        "",
        *tables.regret_table(found, "early"),
    ]
    for world in worlds():
        low, high = edges(world)
        lines += [
            f"### {NAMES[world][0].upper()}{NAMES[world][1:]}",
            "",
            "Gain in points at each learning rate (in 1e-4), best rate in bold:",
            "",
            *tables.gains_table(world),
            *edge_words(low, high),
            "As a share of the best size's:",
            "",
            *tables.shares_table(world, found.get(world)),
        ]
    return lines


def edge_words(low: list[int], high: list[int]) -> list[str]:
    """What the ends of the sweep of rates may hide."""
    parts = []
    if low:
        parts.append(f"the lowest for G = {listed([str(s) for s in low])}")
    if high:
        parts.append(f"the highest for G = {listed([str(s) for s in high])}")
    if not parts:
        return []
    return [
        f"The best rate is an end of the sweep ({'; '.join(parts)}): these sizes may gain more at rates that were not tried.",
        "",
    ]


def verdict(found: dict[str, Plan]) -> list[str]:
    """How often the plan was right."""
    held = [world for world in worlds() if world in found]
    lost = {world: tables.regret(world, found[world].predicted) for world in held}
    lean = [tables.regret(world, found[world].pick).value for world in held]
    close = [world for world in held if lost[world].value <= CLOSE]
    inside = [w for w in held if found[w].flat[0] <= best_of(sizes_of(w).held_out()) <= found[w].flat[1]]
    far = [world for world in held if world not in close]
    words = [
        f"**With a measured kappa, the size of most predicted progress is within {100 * CLOSE:.0f} % of the best gain in {len(close)} of {len(held)} worlds, the smallest size of the flat "
        f"range in {sum(value <= CLOSE for value in lean)}**; the best size lies in the flat range in {len(inside)} of {len(held)}. The plan took the first until this study, and takes the "
        "second since ([why](#why-large-groups-do-worse-than-predicted))."
    ]
    for world in far:
        value = lost[world]
        words.append(
            f"In *{NAMES[world]}* the first, G = {found[world].predicted}, gives up {100 * value.value:.0f} % ({100 * value.low:.0f} to {100 * value.high:.0f}) of what G = "
            f"{best_of(sizes_of(world).held_out())} gains."
        )
    return [" ".join(words)]


def agreement(found: dict[str, Plan]) -> list[str]:
    """Correlation and error over all worlds, and where the error lies."""
    lines = []
    for kind, name in (("plan", "e(G)"), ("nsr", "1 / (1 + NSR)")):
        held = tables.matches(found, kind)
        if not held:
            continue
        r = [m.correlation for m in held.values()]
        rms = float(np.sqrt(np.average([m.rms**2 for m in held.values()], weights=[m.cells for m in held.values()])))
        above = [m.bias_above for m in held.values() if np.isfinite(m.bias_above)]
        kinder = sum(value < 0 for value in above)
        lines.append(
            f"* **{name}**: correlation with measured shares {min(r):.2f} to {max(r):.2f} by world, root mean square error {rms:.2f} over "
            f"{sum(m.cells for m in held.values())} cells. Sizes above the best one gained {np.mean(above):+.2f} against it on average, and less than predicted in {kinder} of {len(above)} worlds."
        )
    return lines


def rules_words(found: dict[str, Plan]) -> list[str]:
    """The rules in order of their mean regret."""
    lines = []
    for rule in tables.rules(found):
        if rule.name in ("plan, kappa of a probe", "most progress predicted, kappa of a probe", "G = 4"):
            lost = [tables.hindsight_regret(world, size) for world, size in rule.sizes.items()]
            lines.append(f"{rule.name} {100 * np.mean(lost):.0f} % (worst {100 * max(lost):.0f} %)")
    return [
        f"The limits are wide: where a pick is not the best size, its loss may be a tenth to a half. At rates of hindsight (the best in the mean of all seeds) losses are, on average: {'; '.join(lines)}.",
        "",
    ]


def more_section(found: dict[str, Plan]) -> list[str]:
    """Everything else that was varied."""
    plan = found.get("all")
    lines = ["## Batch, prompt cost, estimators, refill, mix, several updates, small sets, SGD", ""]
    lines += ["All in the world *all* unless said. Learning rates are in 1e-4.", ""]
    if more.there("batch"):
        lines += ["### A larger batch", "", *batch_words(plan), "", *more.batch_table(plan)]
    if more.there("prompt_cost"):
        lines += ["### Prompts that cost", "", *cost_words(plan), "", *more.cost_table(plan)]
    if more.there("estimators"):
        lines += ["### Estimators", "", *estimator_words(), "", *more.estimator_table()]
    if more.there("refill"):
        lines += ["### Refill at equal generation", "", *refill_words(), "", *more.refill_table()]
    if more.there("mix"):
        lines += ["### Mix", "", *mix_words(), "", *more.mix_table(mix_said(), hard_share())]
    if more.there("updates"):
        lines += ["### Four updates a batch, with clipping", "", *updates_words(), "", *more.updates_table()]
    if more.there("finite"):
        lines += ["### A small set in epochs", "", *finite_words(), "", *more.finite_table()]
    if more.there("sgd"):
        lines += ["### Plain SGD", "", *sgd_words(), "", *more.sgd_table()]
    return lines


def batch_words(plan: Plan | None) -> list[str]:
    """Does a larger batch make G matter less?"""
    large = more.part("batch")
    small = more.base(large)
    first, words = large.sizes[0], []
    for size in large.sizes[1:]:
        a, b = (ratio(held.best()[size], held.best()[first]) for held in (small, large))
        known = plan is not None and plan.mean_square > 0
        said = ""
        if plan is not None and known:
            c, d = (plan.relative(rollouts=n) for n in (512, 2048))
            said = f" (predicted {c[size] / c[first]:.2f} and {d[size] / d[first]:.2f})"
        words.append(f"G = {size} gained {a.value:.2f} of G = {first} at 512 and {b.value:.2f} at 2,048{said}")
    return [
        f"Predicted: at 2,048 rollouts a step G matters less. Measured, {len(large.seeds)} seeds, two or three learning rates for each size: {'; '.join(words)}."
    ]


def cost_words(plan: Plan | None) -> list[str]:
    """Does the best G rise when prompts cost?"""
    dear = more.part("prompt_cost")
    free = more.base(dear)
    bests = [best_of(held.held_out()) for held in (free, dear)]
    text = f"A prompt costs as much as 4 rollouts, so a step has 512 / (4 + G) of them. The best size is G = {bests[1]}, against {bests[0]} at no cost."
    if plan:
        predicted = [
            best_of({s: np.array([v]) for s, v in plan.efficiency(prompt_cost=c).items() if s in dear.sizes})
            for c in (0, 4)
        ]
        text += f" By e(G) from exact gradients: G = {predicted[1]}, against {predicted[0]}."
    return [text]


def estimator_words() -> list[str]:
    """What is compared."""
    return [
        "Each estimator at the best of three learning rates, against mean-centred advantages at the best of theirs; *rloo* at the one rate 5, for under Adam it should "
        "be the same, but for the first steps. *std* divides by the group's standard deviation, *maxrl* by its mean. Brackets are 95 % limits of the paired difference, each by itself; bold: without 0.",
    ]


def refill_words() -> list[str]:
    """Did refill pay?"""
    found = more.refill_ratios()
    ahead = [key for key, value in found.items() if value.low > 1]
    behind = [key for key, value in found.items() if value.high < 1]
    return [
        "A step draws groups until so many are mixed and trains on these; runs end after the same number of generated rollouts as the fixed batch. Theory says that dead groups "
        "cost generation and nothing else, so that refill should gain nothing a generated rollout but steadier steps. "
        f"Of {len(found)} comparisons refill is surely ahead in {len(ahead)}, surely behind in {len(behind)}.",
    ]


def hard_share() -> float:
    """Share of prompts below .1 at the start of *sum*."""
    return float(starts()["sum"]["hard_share"])


def mix_said() -> dict[str, list[float]]:
    """The planner's words on the mix, if they were asked for."""
    found: dict[str, list[float]] = json.loads(MIX.read_text(encoding="utf-8")) if MIX.exists() else {}
    return found


def mix_words() -> list[str]:
    """Did the planner's mix learn more?"""
    said, got = mix_said(), more.mix_ratios()
    text = "Prompts below .1 (*hard*) and the rest are mixed at a fixed share, G = 4; what counts is the pass rate of prompts as they come. "
    if "advised" in said:
        value, low, high = said["advised"]
        text += f"From a pilot of 500 x 8 the planner advises a hard share of {said['advised_share'][0]:.2f} within its default bound and promises x{value:.2f} ({low:.2f} to {high:.2f}). "
    if "mix_20" in got:
        text += f"At .2 the gain was {tables.share(got['mix_20'])} times that of the prompts as they come."
    return [text]


def updates_words() -> list[str]:
    """Does the best G hold off-policy?"""
    many = more.part("updates")
    one = [r for r in chosen("sizes", "all") if r.group in many.sizes and r.seed in many.seeds]
    a, b = best_of(many.held_out()), best_of(sweep(one).held_out())
    return [
        f"The groups of a batch are split into four updates, with ratios clipped at .8 and 1.2. The best size is G = {a}, against {b} with one update; three learning rates each."
    ]


def finite_words() -> list[str]:
    """Does the best G hold on a small set?"""
    held, training = more.part("finite", "finite"), more.part("finite", "finite", "training")
    a, b = best_of(held.best()), best_of(training.best())
    return [
        f"256 prompts, each visited once an epoch, 120 steps of 512 rollouts: G = 2 sees each of them 120 times, G = 32 eight times. The best size is G = {a} on held-out prompts and G = {b} on the 256. "
        "Two or three learning rates for each size."
    ]


def sgd_words() -> list[str]:
    """Does Adam make the result?"""
    held = more.part("sgd")
    best = best_of(held.held_out())
    sank = sum(float(values.mean()) < 0 for values in more.part("sgd").best().values())
    if sank:
        return [
            f"Two learning rates for each size, no momentum. They were too high: {sank} of {len(more.part('sgd').sizes)} sizes lost on average, and lower ones were not tried. So "
            "this table compares nothing, and is here because the runs were made."
        ]
    return [
        f"Four learning rates for each size, no momentum; the two lower ones were added when the first two lost the policy. The best size is G = {best}."
    ]


def page() -> str:
    """Both sections."""
    try:
        found = plans()
    except FileNotFoundError:
        found = {}
    return "\n".join([*method(), *sizes_section(found), *more_section(found)]).rstrip() + "\n"
