"""A plan as a page that a person can act on."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from grpo_plan.cli.common import console, print_table, say
from grpo_plan.cli.fit import pilot_line
from grpo_plan.cli.numbers import chance, rate, with_interval
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.group_size import Plan, PlannedDesign

SHOWN_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)


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
    run = "" if design.steps is None else f", {design.steps:,} steps"
    used = "" if design.rollouts is None else f"; uses {design.rollouts:,}"
    mean_rate = chosen.fit.mean_pass_rate_interval(level)
    note = "EXTRAPOLATED beyond the pilot's n, no interval yet" if dead.low is None else f"{level:.0%} interval"
    interval = batch.mixed_groups_mean_interval
    if interval is None:
        sure = _at_least(chosen, design.prompts_per_step, level)
    else:
        sure = f"; mean between {interval[0]:,.0f} and {interval[1]:,.0f} ({level:.0%})"
    lines = [
        ("Plan", f"G = {design.group_size}, {_step(design.prompts_per_step, design.rollouts_per_step)}{run}"),
        ("Budget", f"{chosen.binding_constraint}{used}"),
        ("Pilot", pilot_line(chosen.fit.pilot)),
        ("", f"mean pass rate {with_interval(mean_rate.value, mean_rate.low, mean_rate.high)}"),
        ("Dead", f"{with_interval(dead.value, dead.low, dead.high)} of the groups ({note})"),
        ("", f"all-fail {rate(dead.all_fail)}, all-pass {rate(dead.all_pass)}"),
        (
            "Mixed",
            f"{mixed.mean:,.0f} of {design.prompts_per_step:,} groups a step, {mixed.p05:,.0f} to {mixed.p95:,.0f} "
            f"in 9 of 10 steps{sure}",
        ),
        (
            "",
            f"{batch.live_rollouts.mean:,.0f} live rollouts a step; chance that a step is all dead "
            f"{chance(batch.dead_batch_probability)}",
        ),
        ("Flat", f"G = {chosen.flat_range[0]} to {chosen.flat_range[1]} {_flat_meaning(chosen)}"),
    ]
    if best.noise_to_signal is not None:
        lines.append(("NSR", _noise_to_signal(best.noise_to_signal)))
    return lines


def _at_least(chosen: Plan, prompts: int, level: float) -> str:
    """What is sure of the mean where the dead fraction has no interval: D never rises with G."""
    last = chosen.fit.dead(chosen.fit.max_measured_group_size, level)
    text = "; the uncertainty of D comes on top"
    if last.high is None or last.group_size < 2:
        return text
    return f"{text} (mean at least {prompts * (1.0 - last.high):,.0f}, since D never rises with G)"


def _step(prompts: int, rollouts: int) -> str:
    return f"{prompts:,} prompt{'' if prompts == 1 else 's'} a step ({rollouts:,} rollouts)"


def _flat_meaning(chosen: Plan) -> str:
    if chosen.kappa.measured:
        return "make within 10 % of the best progress; the upper end is optimistic"
    return "are about as safe over the range of kappa; the upper end is optimistic"


def _noise_to_signal(ends: tuple[float, float]) -> str:
    low, high = ends
    span = f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g} over the range of kappa"
    verdict = "below 1, G matters little" if high < 1.0 else "where it is above 1, G matters"
    return f"noise to signal of a step {span}: {verdict}"


def _reasons(chosen: Plan) -> list[str]:
    best, kappa = chosen.recommended, chosen.kappa
    if chosen.objective == "max-dead":
        return [
            "Smallest group size whose dead fraction is at most the limit. A low dead fraction is not a goal in "
            "itself: see what signal picks below."
        ]
    if kappa.measured:
        lines = [f"Most progress per rollout at kappa = {kappa.low:g} (estimator {chosen.estimator})."]
    else:
        lines = [
            "kappa, the score noise over contrast, decides G, and rewards do not show it. Over "
            f"{kappa.low:g} to {kappa.high:g} this G loses least in the worst case: at most {best.worst_regret:.0%} "
            f"of the progress per rollout of the best G (estimator {chosen.estimator})."
        ]
    for a in chosen.sensitivity:
        lines.append(
            f"kappa = {a.kappa:<5.3g} best G = {a.group_size}, within 10 % of it: {a.flat_low} to {a.flat_high}"
        )
    if not kappa.measured:
        lines.append("A measured kappa would narrow this most: give it with --kappa VALUE.")
    return lines


def _print_frontier(out: Any, chosen: Plan, level: float) -> None:
    kappa = chosen.kappa
    names = ["G", "prompts", "dead", "mixed groups", "all dead", f"kappa {kappa.low:g}"]
    names += [] if kappa.measured else [f"{kappa.high:g}"]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name == "dead" else "right", no_wrap=True)
    for planned in chosen.frontier:
        if planned.design.group_size in SHOWN_SIZES or planned is chosen.recommended:
            table.add_row(*_frontier_row(planned, planned is chosen.recommended, kappa.measured))
    print_table(out, table)
    say(
        out,
        f"dead: share of groups ({level:.0%} interval). mixed groups: mean a step (5 to 95 % of steps). all dead: "
        "chance that a step has no mixed group. kappa: progress per rollout against the best G at that kappa.",
        "  ",
    )
    if any(p.dead.status is FitStatus.EXTRAPOLATED for p in chosen.frontier):
        say(out, "* EXTRAPOLATED beyond the pilot's rollouts per prompt: a Beta fit, no interval yet.", "  ")


def _frontier_row(planned: PlannedDesign, recommended: bool, one_kappa: bool) -> list[str]:
    mixed, d = planned.batch.mixed_groups, planned.dead
    row = [
        f"> {d.group_size}" if recommended else str(d.group_size),
        f"{planned.design.prompts_per_step:,}",
        with_interval(d.value, d.low, d.high) + ("*" if d.status is FitStatus.EXTRAPOLATED else ""),
        f"{mixed.mean:,.0f} ({mixed.p05:,.0f}-{mixed.p95:,.0f})",
        chance(planned.batch.dead_batch_probability),
        f"{planned.progress_low:.2f}",
    ]
    return row if one_kappa else [*row, f"{planned.progress_high:.2f}"]
