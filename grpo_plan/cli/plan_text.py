"""A plan as a page that a person can act on."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from grpo_plan.cli.common import console, percent, print_table, say
from grpo_plan.cli.fit_text import pilot_line
from grpo_plan.cli.numbers import HUGE, chance, few, few_at_least, marked, plural, rate, short_count, with_interval
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Plan, PlannedDesign

SHOWN_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
WORTH_A_COLUMN = 1e-4  # chance of an all-dead step


def print_plan(chosen: Plan, level: float) -> None:
    """Print the verdict, its reasons, the frontier, what other objectives pick, and what all of it rests on."""
    out = console()
    for i, (label, text) in enumerate(_verdict(chosen, level)):
        if i == 0:
            out.print(f"{label:8}{text}", style="bold", markup=False)
        else:
            say(out, text, f"{label:8}")
    out.print("\nWhy this G", style="bold")
    for line in _reasons(chosen):
        say(out, line, "  ")
    out.print("\nDesigns within the budget", style="bold")
    _print_frontier(out, chosen, level)
    for other in chosen.alternatives:
        out.print(f"\nBy {other.objective}", style="bold")
        pick = "No design."
        if other.planned is not None:
            d = other.planned.dead
            pick = f"G = {d.group_size}, D = {with_interval(d.value, d.low, d.high)}."
        say(out, f"{pick} {other.comment}", "  ")
    out.print("\nWhat this rests on", style="bold")
    for assumption in chosen.assumptions:
        say(out, assumption, "  - ")


def _verdict(chosen: Plan, level: float) -> list[tuple[str, str]]:
    best, batch = chosen.recommended, chosen.recommended.batch
    design, dead, mixed = best.design, best.dead, batch.mixed_groups
    run = "" if design.steps is None else f", {plural(design.steps, 'step')}"
    used = "" if design.rollouts is None else f"; uses {design.rollouts:,}"
    if best.cost_rollouts > design.rollouts_per_step * (design.steps or 1):
        used += f", {best.cost_rollouts:,.0f} with the cost of prompts"
    mean_rate = chosen.fit.mean_pass_rate_interval(level)
    far = dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH)
    note = f"{percent(level)} interval" + (f"; {dead.status.name}: trust the interval, not the value" if far else "")
    interval = batch.mixed_groups_mean_interval
    sure = "" if interval is None else f"; mean {few_at_least(interval[0])} to {few(interval[1])} ({percent(level)})"
    step = f"{plural(design.prompts_per_step, 'prompt')} a step ({plural(design.rollouts_per_step, 'rollout')})"
    lines = [
        ("Plan", f"G = {design.group_size}, {step}{run}"),
        ("Budget", f"{chosen.binding_constraint}{used}"),
        ("Pilot", pilot_line(chosen.fit.pilot)),
        ("", f"mean pass rate {with_interval(mean_rate.value, mean_rate.low, mean_rate.high)}"),
        *(("Status", f"{s.name}: {s.sentence}") for s in chosen.fit.statuses if s is not FitStatus.OK),
        ("Dead", f"{with_interval(dead.value, dead.low, dead.high)} of the groups ({note})"),
        ("", f"all-fail {rate(dead.all_fail)}, all-pass {rate(dead.all_pass)}"),
        (
            "Mixed",
            f"{few(mixed.mean)} of {design.prompts_per_step:,} groups a step, {mixed.p05:,.0f} to {mixed.p95:,.0f} "
            f"in 9 of 10 steps{sure}",
        ),
        (
            "",
            f"{few(batch.live_rollouts.mean)} live rollouts a step; at this D a step is all dead with chance "
            f"{chance(batch.dead_batch_probability)}",
        ),
        ("Flat", _flat(chosen)),
    ]
    if best.noise_to_signal is not None:
        lines.append(("NSR", _noise_to_signal(best.noise_to_signal)))
    return lines


def _flat(chosen: Plan) -> str:
    low, high = chosen.flat_range
    if low == high:
        return f"no other G of the table comes within 10 points of G = {low}"
    if chosen.kappa.measured:
        return f"G = {low} to {high} make within 10 % of the best progress; the upper end is optimistic"
    return f"G = {low} to {high} have a worst case within 10 points of the best one's; the upper end is optimistic"


def _noise_to_signal(ends: tuple[float, float]) -> str:
    low, high = ends
    span = f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g} over the range of kappa"
    verdict = "below 1, G matters little" if high < 1.0 else "where it is above 1, G matters"
    return f"noise to signal of a step {span}: {verdict}"


def _reasons(chosen: Plan) -> list[str]:
    best, kappa, exact = chosen.recommended, chosen.kappa, chosen.least_regret
    if chosen.objective == "max-dead":
        return [
            "Smallest of the group sizes below whose dead fraction is at most the limit. A low dead fraction is not a "
            "goal in itself: see what signal picks."
        ]
    same = len({a.group_size for a in chosen.sensitivity}) == 1
    if kappa.measured:
        lines = [f"Most progress within the budget at kappa = {kappa.low:g} (estimator {chosen.estimator})."]
    elif same:
        lines = [
            f"Best within the budget at every kappa from {kappa.low:g} to {kappa.high:g} "
            f"(estimator {chosen.estimator})."
        ]
        if len({(p.design.prompts_per_step, p.design.steps) for p in chosen.frontier}) == 1 < len(chosen.frontier):
            lines[0] += " Steps and prompts a step are fixed, so the largest group that fits is best."
    else:
        lines = [
            "kappa, the score noise over contrast, decides G, and rewards do not show it. Over "
            f"{kappa.low:g} to {kappa.high:g} this G loses least in the worst case: at most {best.worst_regret:.0%} "
            f"of the progress that the best G of the table makes within the budget (estimator {chosen.estimator})."
        ]
    if exact is not best:
        lines.append(
            f"G = {best.design.group_size} instead of {exact.design.group_size}: a rounder number, at a cost of at "
            "most 1 point."
        )
    if kappa.measured or not same:
        lines += [
            f"kappa = {a.kappa:<5.3g} best G = {a.group_size}, within 10 % of it: {a.flat_low} to {a.flat_high}"
            for a in chosen.sensitivity
        ]
    if not same:
        lines.append("A measured kappa would narrow this most: --kappa VALUE (docs/choosing.md, section 3).")
    return lines


def _print_frontier(out: Any, chosen: Plan, level: float) -> None:
    kappa = chosen.kappa
    special = {chosen.recommended.design.group_size, *(a.group_size for a in chosen.sensitivity)}
    special |= {a.planned.design.group_size for a in chosen.alternatives if a.planned is not None}
    shown = [p for p in chosen.frontier if p.design.group_size in SHOWN_SIZES or p.design.group_size in special]
    steps = len({p.design.prompts_per_step for p in shown}) == 1 and shown[0].design.steps is not None
    risky = any(p.batch.dead_batch_probability >= WORTH_A_COLUMN for p in shown)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    names = ["G", "steps" if steps else "prompts", "dead", "mixed groups", *(["all dead"] if risky else [])]
    names += [f"kappa {kappa.low:g}"] if kappa.measured else [f"kappa {kappa.low:g}", f"kappa {kappa.high:g}"]
    for name in names:
        table.add_column(name, justify="left" if name == "dead" else "right", no_wrap=True)
    for planned in shown:
        table.add_row(*_frontier_row(planned, chosen, steps, risky))
    print_table(out, table)
    each = "steps: of the run" if steps else "prompts: a step"
    hidden = len(chosen.frontier) - len(shown)
    each = f"{len(shown)} of {len(chosen.frontier)} group sizes; all with --json. {each}" if hidden else each
    dead = " all dead: chance that a step has no mixed group." if risky else ""
    say(
        out,
        f"{each}. dead: share of groups ({percent(level)} interval). mixed groups: mean a step (5 to 95 % of steps)."
        f"{dead} "
        "kappa: progress within the budget against the best G at that kappa.",
        "  ",
    )
    found = {p.dead.status for p in shown}
    if FitStatus.EXTRAPOLATED in found:
        say(
            out, "* EXTRAPOLATED beyond twice the pilot's rollouts per prompt: trust the interval, not the value.", "  "
        )
    if FitStatus.BEYOND_REACH in found:
        say(out, "! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.", "  ")


def _frontier_row(planned: PlannedDesign, chosen: Plan, steps: bool, risky: bool) -> list[str]:
    mixed, d, design = planned.batch.mixed_groups, planned.dead, planned.design
    row = [
        f"> {d.group_size}" if planned is chosen.recommended else str(d.group_size),
        short_count(design.steps or 0 if steps else design.prompts_per_step),
        marked(with_interval(d.value, d.low, d.high), d),
        f"{few(mixed.mean) if mixed.mean < HUGE else short_count(mixed.mean)} "
        f"({short_count(mixed.p05)}-{short_count(mixed.p95)})",
    ]
    if risky:
        row.append(chance(planned.batch.dead_batch_probability))
    row.append(f"{planned.progress_low:.2f}")
    return row if chosen.kappa.measured else [*row, f"{planned.progress_high:.2f}"]
