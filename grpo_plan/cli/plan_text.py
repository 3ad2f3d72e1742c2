"""A plan as a page that a person can act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.table import Table

from grpo_plan.cli.common import console, per_cent, percent, print_table, say, text_width, wrapped
from grpo_plan.cli.fit_text import pilot_line, source_lines
from grpo_plan.cli.numbers import (
    HUGE,
    amount,
    chance,
    few,
    few_at_least,
    marked,
    plural,
    rate,
    short_count,
    with_interval,
)
from grpo_plan.cli.plan_estimator import beside_lines, live_lines
from grpo_plan.cli.plan_why import flat, print_sensitivity, reasons, worst_case
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Alternative, NoiseToSignal, Plan, PlannedDesign

if TYPE_CHECKING:
    from grpo_plan.trainers.base import Block

NOISE_UNKNOWN = (
    "That a step is mostly noise, so that G matters. The file of a probe (--kappa FILE), or --coherence, the mean "
    "cosine between the gradients of two prompts, would tell its noise to signal."
)
SHOWN_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
WIDE = 120  # columns of a page that has room for the parts of the dead fraction
BOLD_LINES = 2  # the answer in short
SHOWN_ASSUMPTIONS = 3  # the gravest ones, without --details
WORTH_A_COLUMN = 1e-4  # chance of an all-dead step


def print_plan(chosen: Plan, block: Block | None = None, *, details: bool = False) -> None:
    """Print the verdict, its numbers, its reasons, the designs, what it rests on, the block; more with details."""
    out = console()
    for i, (label, text) in enumerate(_verdict(chosen)):
        style = "bold" if i < BOLD_LINES else None
        out.print(wrapped(text, text_width(out), f"{label:8}"), style=style, markup=False, soft_wrap=True)
    out.print("\nWhy this G", style="bold")
    first_reason, *others = [*reasons(chosen), flat(chosen)]
    say(out, first_reason, "  ")
    if chosen.objective == "signal" and len(chosen.frontier) > 1:
        print_sensitivity(out, chosen)
    for line in others:
        say(out, line, "  ")
    out.print("\nDesigns and their cost" if chosen.per_cost else "\nDesigns within the budget", style="bold")
    _print_frontier(out, chosen)
    if details:
        out.print("\nWhat other objectives pick", style="bold")
        for other in chosen.alternatives:
            _print_alternative(out, other)
    elif chosen.alternatives:
        say(out, f"Other objectives: {', '.join(map(_picked, chosen.alternatives))}.", "  ")
    out.print("\nWhat this rests on", style="bold")
    shown = chosen.assumptions if details else chosen.assumptions[:SHOWN_ASSUMPTIONS]
    for assumption in shown:
        say(out, assumption, "  - ")
    if chosen.recommended.noise_to_signal is None:
        say(out, NOISE_UNKNOWN, "  - ")
    if (hidden := len(chosen.assumptions) - len(shown)) > 0:
        say(out, f"{plural(hidden, 'assumption')} more, and what other objectives ask for: --details.", "  ")
    if block is not None:
        _print_block(out, block)


def _picked(other: Alternative) -> str:
    size = "no design" if other.planned is None else f"G = {other.planned.dead.group_size}"
    return f"{other.objective} {size}"


def _print_alternative(out: Any, other: Alternative) -> None:
    pick = "no design"
    if other.planned is not None:
        d = other.planned.dead
        pick = f"G = {d.group_size}, D = {with_interval(d.value, d.low, d.high)}"
        if other.flat_range is not None and other.flat_range[0] < other.flat_range[1]:
            pick += f", about as good {other.flat_range[0]} to {other.flat_range[1]}"
        elif other.runner_up is not None:
            pick += f", next {other.runner_up}"
    say(out, f"{pick}. {other.comment}", f"  {other.objective:14}")


def _print_block(out: Any, block: Block) -> None:
    held = sum(check.satisfied for check in block.checks)
    out.print(f"\nBlock for {block.versions} ({block.language})", style="bold", markup=False)
    out.file.write("\n" + block.text.rstrip("\n") + "\n\n")
    say(out, f"{held} of {plural(len(block.checks), 'rule')} of {block.trainer} hold.", "  ")
    for note in block.notes:
        say(out, note, "  - ")


def _verdict(chosen: Plan) -> list[tuple[str, str]]:
    best, batch, level = chosen.recommended, chosen.recommended.batch, chosen.level
    design, dead, mixed = best.design, best.dead, batch.mixed_groups
    run = "" if design.steps is None else f", {plural(design.steps, 'step')}"
    mean_rate = chosen.fit.mean_pass_rate_interval(level)
    far = dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH)
    note = f"{percent(level)} interval" + (f"; {dead.status.name}: trust the interval, not the value" if far else "")
    interval = batch.mixed_groups_mean_interval
    sure = "" if interval is None else f"; mean {few_at_least(interval[0])} to {few(interval[1])} ({percent(level)})"
    step = f"{plural(design.prompts_per_step, 'prompt')} a step ({plural(design.rollouts_per_step, 'rollout')})"
    answer = f"G = {design.group_size}, {step}{run}"
    lines = [
        ("Plan", answer),
        ("", _in_short(chosen)),
        ("Dead", f"{with_interval(dead.value, dead.low, dead.high)} of the groups ({note})"),
        ("", f"all-fail {rate(dead.all_fail)}, all-pass {rate(dead.all_pass)}"),
        *((("", meaning),) if (meaning := chosen.fit.pilot.provenance.meaning_of_dead) else ()),
    ]
    if chosen.cost_model.refill:
        lines.append(("Refill", _refill(best)))
    else:
        lines += [
            (
                "Mixed",
                f"{few(mixed.mean)} of {design.prompts_per_step:,} groups a step, {mixed.p05:,.0f} to {mixed.p95:,.0f} "
                f"in 9 of 10 steps{sure}",
            ),
            *(("", text) for text in live_lines(chosen)),
        ]
    lines += [
        ("Budget", f"{chosen.binding_constraint}{_used(chosen)}"),
        *(("", text) for text in _other_units(best)),
        *((("Trainer", _trainer(chosen)),) if chosen.trainer else ()),
        ("Pilot", pilot_line(chosen.fit.pilot)),
        ("", f"mean pass rate {with_interval(mean_rate.value, mean_rate.low, mean_rate.high)}"),
        *(("Source", line) for line in source_lines(chosen.fit.pilot)),
        *(("Status", f"{s.name}: {s.sentence}") for s in chosen.fit.statuses if s is not FitStatus.OK),
        *((("Noise", _noise_to_signal(best.noise_to_signal)),) if best.noise_to_signal is not None else ()),
    ]
    lines += [("Beside", text) for text in beside_lines(chosen)]
    return lines


def _in_short(chosen: Plan) -> str:
    """What the plan brings, and how much it matters, in a sentence."""
    best = chosen.recommended
    dead, n = best.dead, best.design.prompts_per_step
    judged = " by pass or fail" if chosen.fit.pilot.provenance.meaning_of_dead else ""
    if dead.value is None or dead.status is FitStatus.BEYOND_REACH:
        share = f"{per_cent(dead.low)} to {per_cent(dead.high)}", ""
    else:
        share = per_cent(dead.value), f" [{per_cent(dead.low, '')}, {per_cent(dead.high, '')}]"
    if chosen.cost_model.refill:
        brings = f"{share[0]} of the groups dead{judged}{share[1]}; refill draws on until {n:,} a step are mixed"
    else:
        mixed = few(best.batch.mixed_groups.mean)
        brings = f"{mixed} of {plural(n, 'group')} a step mixed, {share[0]} dead{judged}{share[1]}"
    if chosen.objective != "signal":
        return f"{brings}; picked by {chosen.objective}"
    return f"{brings}; {worst_case(chosen)}"


def _used(chosen: Plan) -> str:
    best = chosen.recommended
    design, cost = best.design, best.cost
    if design.rollouts is None:
        return ""
    used = f"; uses {cost.rollouts:,.0f}"
    used += " rollouts" if chosen.cost_model.refill or "rollouts" not in chosen.binding_constraint else ""
    if cost.rollout_equivalents > cost.rollouts * (1 + 1e-9):
        used += f", {cost.rollout_equivalents:,.0f} with the cost of prompts"
    return used


def _other_units(best: PlannedDesign) -> list[str]:
    """What the run costs in tokens, GPU-hours and USD, where that is known; with limits where D enters."""
    parts = []
    for name, words in (("generated_tokens", "response tokens"), ("gpu_hours", "GPU-hours"), ("usd", "USD")):
        value = getattr(best.cost, name)
        if value is None:
            continue
        ends = [getattr(c, name) for c in (best.cost_low, best.cost_high) if c is not None]
        spread = f" ({amount(min(ends))} to {amount(max(ends))})" if len(ends) == 2 and max(ends) > min(ends) else ""
        parts.append(f"{amount(value)}{spread} {words}")
    if not parts:
        return []
    of = "a step" if best.design.steps is None else "the run"
    return [f"{of} takes {', '.join(parts)}"]


def _trainer(chosen: Plan) -> str:
    checks = chosen.recommended.checks
    text = f"{chosen.trainer}: {len(checks)} of {plural(len(checks), 'rule')} hold"
    if chosen.refused:
        text += f"; {plural(len(chosen.refused), 'group size')} that it or the budget refuses left out"
    return text


def _refill(best: PlannedDesign) -> str:
    n, dead = best.design.prompts_per_step, best.dead
    drawn = best.cost.groups / (best.design.steps or 1)
    most = f"{n / (1.0 - dead.high):,.0f}" if dead.high < 1.0 else "without end"
    return (
        f"{n:,} mixed groups each step; draws {drawn:,.0f} prompts for them on average ({n / (1.0 - dead.low):,.0f} to "
        f"{most}, from the limits of D). Rounds and caps: grpo-plan refill."
    )


def _noise_to_signal(found: NoiseToSignal) -> str:
    high = "no limit" if found.high is None else amount(found.high)
    span = amount(found.low) if found.high == found.low else f"{amount(found.low)} to {high}"
    if found.value is not None and found.high != found.low:
        span = f"{amount(found.value)} [{amount(found.low)}, {high}]"
    if found.high is not None and found.high < 1.0:
        verdict = "below 1, G matters less than the table says"
    else:
        verdict = "above 1, G matters" if found.low > 1.0 else "where it is above 1, G matters"
    return f"noise to signal of a step {span}: {verdict}"


def _print_frontier(out: Any, chosen: Plan) -> None:
    level = chosen.level
    special = {chosen.recommended.design.group_size, *(a.group_size for a in chosen.sensitivity)}
    special |= {a.planned.design.group_size for a in chosen.alternatives if a.planned is not None}
    shown = [p for p in chosen.frontier if p.design.group_size in SHOWN_SIZES or p.design.group_size in special]
    columns = _columns(chosen, shown, wide=out.width >= WIDE)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in ("dead", "all-fail", "all-pass") else "right", no_wrap=True)
    for planned in shown:
        style = "bold" if planned is chosen.recommended else None
        table.add_row(*(cell(planned) for cell in columns.values()), style=style)
    print_table(out, table)
    hidden = len(chosen.frontier) - len(shown)
    told = {
        "steps": "steps: of the run",
        "prompts": "prompts: a step",
        "dead": f"dead: share of groups ({percent(level)} interval)",
        "mixed groups": "mixed groups: mean a step (5 to 95 % of steps)",
        "drawn": "drawn: prompts a step, refill included, at the limits of D",
        "all dead": "all dead: chance that a step has no mixed group",
    }
    notes = [f"{len(shown)} of {len(chosen.frontier)} group sizes; all with --json"] if hidden else []
    notes += [text for name, text in told.items() if name in columns]
    per = "per unit of cost" if chosen.per_cost else "within the budget"
    notes.append(f"kappa: progress {per} against the best G at that kappa")
    say(out, ". ".join(notes) + ".", "  ")
    found = {p.dead.status for p in shown}
    if FitStatus.EXTRAPOLATED in found:
        say(
            out, "* EXTRAPOLATED beyond twice the pilot's rollouts per prompt: trust the interval, not the value.", "  "
        )
    if FitStatus.BEYOND_REACH in found:
        say(out, "! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.", "  ")


def _columns(chosen: Plan, shown: list[PlannedDesign], *, wide: bool) -> dict[str, Callable[[PlannedDesign], str]]:
    """Headings and cells of the table of designs."""
    kappa, first = chosen.kappa, shown[0].design
    alike = len({p.design.prompts_per_step for p in shown}) == 1 and first.steps is not None
    columns: dict[str, Callable[[PlannedDesign], str]] = {
        "G": lambda p: ("> " if p is chosen.recommended else "") + str(p.design.group_size),
    }
    if alike and len({p.design.steps for p in shown}) > 1:
        columns["steps"] = lambda p: short_count(p.design.steps or 0)
    elif not alike or len(shown) == 1:
        columns["prompts"] = lambda p: short_count(p.design.prompts_per_step)
    columns["dead"] = lambda p: marked(with_interval(p.dead.value, p.dead.low, p.dead.high), p.dead)
    if wide:
        columns["all-fail"] = lambda p: with_interval(p.dead.all_fail, *p.dead.all_fail_interval)
        columns["all-pass"] = lambda p: with_interval(p.dead.all_pass, *p.dead.all_pass_interval)
    if chosen.cost_model.refill:
        columns["drawn"] = _drawn
    else:
        columns["mixed groups"] = _mixed
        if any(p.batch.dead_batch_probability >= WORTH_A_COLUMN for p in shown):
            columns["all dead"] = lambda p: chance(p.batch.dead_batch_probability)
    if chosen.per_cost:
        unit = next((u for u in ("usd", "gpu_hours", "tokens") if shown[0].cost.of(u) is not None), "rollouts")
        words = {"usd": "USD", "gpu_hours": "GPU-hours"}.get(unit, unit)
        columns[words] = lambda p: amount(p.cost.of(unit) or 0.0)
    if kappa.known:
        columns[f"kappa {kappa.value:.3g}"] = lambda p: f"{1.0 - p.worst_regret:.2f}"
    else:
        columns[f"kappa {kappa.low:g}"] = lambda p: f"{p.progress_low:.2f}"
        columns[f"kappa {kappa.high:g}"] = lambda p: f"{p.progress_high:.2f}"
    return columns


def _mixed(planned: PlannedDesign) -> str:
    mixed = planned.batch.mixed_groups
    mean = few(mixed.mean) if mixed.mean < HUGE else short_count(mixed.mean)
    return f"{mean} ({short_count(mixed.p05)}-{short_count(mixed.p95)})"


def _drawn(planned: PlannedDesign) -> str:
    n, dead = planned.design.prompts_per_step, planned.dead
    drawn = planned.cost.groups / (planned.design.steps or 1)
    most = short_count(n / (1.0 - dead.high)) if dead.high < 1.0 else "no end"
    return f"{short_count(drawn)} ({short_count(n / (1.0 - dead.low))}-{most})"
