"""A comparison of temperatures as a page that a person can act on."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from grpo_plan.cli.common import console, percent, print_table, say
from grpo_plan.cli.numbers import marked, plural, with_interval
from grpo_plan.fitting.paired import Difference
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.dead_counts import DeadCountComparison
from grpo_plan.planning.temperature_result import (
    AtTemperature,
    TemperatureDifference,
    TemperaturePlan,
    TemperatureVerdict,
)

WORTH_A_ROW = 0.001  # share of groups that move, in either way


def signed(difference: Difference | None) -> str:
    """A difference with its limits and signs.

    >>> signed(Difference(value=-0.05, low=-0.11, high=0.01, level=0.95, prompts=100, scatter=0.1))
    '-0.050 [-0.110, +0.010]'
    >>> signed(None)
    'unknown'
    """
    if difference is None:
        return "unknown"
    value, low, high = (number + 0.0 for number in (difference.value, difference.low, difference.high))
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def headline(verdict: TemperatureVerdict, recommended: float | None, baseline: float) -> str:
    """The answer in a few words."""
    if verdict is TemperatureVerdict.CANNOT_TELL or recommended is None:
        return "cannot tell"
    return f"keep T = {baseline:g}" if recommended == baseline else f"T = {recommended:g} instead of {baseline:g}"


def print_temperature(plan: TemperaturePlan) -> None:
    """Print the verdict, its price, each temperature, the differences, what moves, and what it rests on."""
    out = console()
    out.print(f"Answer  {headline(plan.verdict, plan.recommended, plan.baseline)}", style="bold", markup=False)
    say(out, plan.reason, "        ")
    for d in plan.differences:
        if plan.verdict is TemperatureVerdict.CHANGE and d.temperature == plan.recommended:
            say(out, f"pass@1 {signed(d.pass_rate)} at T = {d.temperature:g} ({_sure(plan)})", "Price   ")
    _print_needed(out, plan)
    _print_each(out, plan)
    _print_differences(out, plan)
    _print_movement(out, plan)
    out.print("\nWhat this rests on", style="bold")
    for line in (*plan.notes, *plan.assumptions):
        say(out, line, "  - ")


def _sure(plan: TemperaturePlan) -> str:
    several = ", for all temperatures at once" if len(plan.differences) > 1 else ""
    return f"{percent(plan.level)} interval{several}"


def _print_needed(out: Any, plan: TemperaturePlan) -> None:
    for d in plan.differences:
        need = d.needed
        if need is None:
            continue
        where = "at both temperatures" if d.paired or not d.counted else "at each temperature, other prompts"
        what = "a difference of" if not need.observed else "the observed" if d.counted else "the fitted"
        size = f"{need.difference:+.3f}" if need.observed else f"{abs(need.difference):g}"
        rest = "" if need.observed else "; a smaller one would stay open"
        say(
            out,
            f"T = {d.temperature:g}: {plural(need.prompts, 'prompt')} x {need.rollouts_per_prompt} rollouts {where}, "
            f"{need.rollouts:,} rollouts in all, would show {what} {size} with {percent(need.power)} chance{rest}",
            "To tell ",
        )


def _table(names: tuple[str, ...], right: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i < right else "left", no_wrap=True)
    return table


def _print_each(out: Any, plan: TemperaturePlan) -> None:
    out.print(f"\nEach temperature ({percent(plan.level)} intervals)", style="bold")
    table = _table(("T", "prompts", "rollouts", f"mixed at G = {plan.group_size}", "pass@1"), 3)
    for at in plan.temperatures:
        low, high = 1.0 - at.dead.high, 1.0 - at.dead.low
        table.add_row(
            f"{at.temperature:g}",
            f"{at.fit.pilot.prompts:,}",
            f"{at.fit.pilot.total_rollouts:,}",
            marked(with_interval(at.dead.mixed, low, high), at.dead),
            with_interval(at.pass_rate.value, at.pass_rate.low, at.pass_rate.high),
        )
    print_table(out, table)
    out.print()
    table = _table(("T", f"dead D({plan.group_size})", "all-fail", "all-pass"), 1)
    for at in plan.temperatures:
        table.add_row(f"{at.temperature:g}", *_dead_cells(at))
    print_table(out, table)
    for at in plan.temperatures:
        for status in at.fit.statuses:
            if status is not FitStatus.OK:
                say(out, f"T = {at.temperature:g}: {status.name}: {status.sentence}", "  ")
    found = {at.dead.status for at in plan.temperatures}
    if FitStatus.EXTRAPOLATED in found:
        say(out, "* EXTRAPOLATED beyond twice the pilot's rollouts per prompt: trust the interval.", "  ")
    if FitStatus.BEYOND_REACH in found:
        say(out, "! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.", "  ")


def _dead_cells(at: AtTemperature) -> list[str]:
    d = at.dead
    parts = [(d.value, *d.interval), (d.all_fail, *d.all_fail_interval), (d.all_pass, *d.all_pass_interval)]
    texts = [with_interval(*part).replace("unknown", "?") for part in parts]
    return [marked(texts[0], d), *texts[1:]]


def _print_differences(out: Any, plan: TemperaturePlan) -> None:
    out.print(f"\nDifferences to T = {plan.baseline:g} ({_sure(plan)})", style="bold")
    table = _table(("T", f"dead D({plan.group_size})", "pass@1", "signal E[p(1-p)]"), 1)
    for d in plan.differences:
        mark = "> " if d.temperature == plan.recommended else ""
        table.add_row(f"{mark}{d.temperature:g}", signed(d.dead), signed(d.pass_rate), signed(d.reward_variance))
    print_table(out, table)
    for d in plan.differences:
        say(out, _how(d), "  ")


def _how(d: TemperatureDifference) -> str:
    """How a difference came about."""
    size = d.measured_group_size
    if d.paired:
        text = f"T = {d.temperature:g}: {plural(d.prompts, 'prompt')} compared with themselves"
        if d.unpaired_width is not None:
            text += f"; without pairing the interval would be {d.unpaired_width:.2f} times as wide"
    else:
        text = f"T = {d.temperature:g}: two separate samples, {d.only_baseline:,} and {d.only_here:,} prompts"
        if d.paired_width is not None:
            text += f"; the same prompts at both might narrow the interval to {d.paired_width:.2f} of it"
    if not d.counted:
        text += f". D({d.group_size}) is fitted, not counted: it decides nothing"
        if size is not None:
            text += f". Counted: D({size}) {signed(d.measured_dead)}"
    return text + "."


def _print_movement(out: Any, plan: TemperaturePlan) -> None:
    shown = [d for d in plan.differences if d.measured_group_size is not None]
    if not shown:
        return
    out.print("\nWhere the dead groups come from and go to", style="bold")
    table = _table(("T", "G", "all-fail part", "all-pass part"), 2)
    for d in shown:
        table.add_row(f"{d.temperature:g}", str(d.measured_group_size), signed(d.all_fail), signed(d.all_pass))
    print_table(out, table)
    moved = [(d.temperature, d.movement) for d in shown if d.movement is not None]
    if not moved:
        return
    out.print(f"\n  Groups of the same prompts, T = {plan.baseline:g} to the other")
    table = _table(("T", "from", "to", "share", "and back"), 1)
    for temperature, ways in moved:
        rows = (
            ("all-pass", "mixed", ways.all_pass_to_mixed, ways.mixed_to_all_pass),
            ("all-fail", "mixed", ways.all_fail_to_mixed, ways.mixed_to_all_fail),
            ("all-pass", "all-fail", ways.all_pass_to_all_fail, ways.all_fail_to_all_pass),
        )
        seen = [row for row in rows if max(row[2].value, row[3].value) >= WORTH_A_ROW]
        for i, (start, end, there, back) in enumerate(seen):
            cells = (with_interval(way.value, way.low, way.high) for way in (there, back))
            table.add_row(f"{temperature:g}" if i == 0 else "", start, end, *cells)
    print_table(out, table)
    say(
        out,
        "Two groups of one prompt differ by chance too: what counts is one way against the way back, which is the "
        "difference of the parts above.",
        "  ",
    )


def print_counts(compared: DeadCountComparison) -> None:
    """Print a comparison of counts of dead groups."""
    out = console()
    several = ", for all temperatures at once" if len(compared.differences) > 1 else ""
    out.print(
        f"Answer  {headline(compared.verdict, compared.recommended, compared.baseline)}", style="bold", markup=False
    )
    say(out, compared.verdict.sentence, "        ")
    out.print(f"\nDead groups ({percent(compared.level)} intervals{several})", style="bold")
    table = _table(("T", "dead", "groups", "share", f"difference to T = {compared.baseline:g}"), 3)
    for count in compared.counts:
        share = count.share
        mark = "> " if count.temperature == compared.recommended else ""
        found = compared.differences.get(count.temperature)
        table.add_row(
            f"{mark}{count.temperature:g}",
            f"{count.dead:,}",
            f"{count.groups:,}",
            with_interval(share.value, share.low, share.high),
            "-" if found is None else signed(found),
        )
    print_table(out, table)
    out.print("\nWhat this rests on", style="bold")
    for line in compared.assumptions:
        say(out, line, "  - ")
