"""A mix as a page that a person can act on."""

from __future__ import annotations

import math
from typing import Any

from rich.cells import cell_len
from rich.table import Table

from grpo_plan.cli.common import console, cut, padded, percent, print_table, say, text_width, wrapped
from grpo_plan.cli.fit_text import pilot_line, source_lines
from grpo_plan.cli.numbers import few, plural, rate, with_interval
from grpo_plan.fitting.intervals import Interval
from grpo_plan.planning.dropping import DroppedKind, Dropping
from grpo_plan.planning.mix_plan import Mix

BAR = 40
NAME_WIDTH = 18
FEW_STRATA = 4
WORTH_SAYING = 0.005  # gain that choosing and judging on one pilot adds


def print_mix(chosen: Mix) -> None:
    """Print the verdict, the shares before and after, the frontier, what dropping prompts would do, and the grounds."""
    out = console()
    for i, (label, text) in enumerate(_verdict(chosen)):
        out.print(
            wrapped(text, text_width(out), f"{label:8}"), style=None if i else "bold", markup=False, soft_wrap=True
        )
    out.print("\nShare of each stratum in a step", style="bold")
    _print_bars(out, chosen)
    out.print(f"\nStrata ({percent(chosen.level)} intervals)", style="bold")
    _print_strata(out, chosen)
    out.print("\nHow far to move", style="bold")
    _print_frontier(out, chosen)
    say(out, _corner(chosen), "  ")
    print_dropping(out, chosen.dropping)
    out.print("\nWhat this rests on", style="bold")
    for assumption in chosen.assumptions:
        say(out, assumption, "  - ")


def short_name(name: str) -> str:
    """A stratum's name that fits its column.

    >>> short_name("a very long name of a data set")
    'a very long nam...'
    """
    return cut(name, NAME_WIDTH)


def _verdict(chosen: Mix) -> list[tuple[str, str]]:
    moved = 0.5 * sum(abs(s.after - s.before) for s in chosen.strata)
    most = max(chosen.strata, key=lambda s: s.after - s.before)
    least = min(chosen.strata, key=lambda s: s.after - s.before)
    head = (
        f"more {short_name(most.law.name)}, less {short_name(least.law.name)}: {moved:.0%} of a step's prompts change"
    )
    if moved < 0.005:
        head = "keep the mix: the limits allow no change"
    elif not chosen.sure:
        head = "keep the mix: this pilot does not show that another gains"
    before, after = chosen.dead_before, chosen.dead_after
    lines = [
        ("Mix", f"G = {chosen.group_size}, {head}"),
        ("Gain", _gain(chosen)),
        ("Dead", f"{_shown(before)} -> {_shown(after)} of the groups"),
    ]
    n = chosen.prompts_per_step
    if n is not None:
        pair = " -> ".join(few(n * (1.0 - d.value)) for d in (before, after))
        lines.append(("Mixed", f"{pair} of {plural(n, 'group')} a step"))
    lines += [
        ("Limits", "; ".join(chosen.binding) or "none of them binds"),
        ("Pilot", pilot_line(chosen.fit.pilot)),
        *(("Source", line) for line in source_lines(chosen.fit.pilot)),
        *(("Status", f"{s.name}: {s.sentence}") for s in chosen.fit.statuses if s.about_source),
    ]
    return lines


def _gain(chosen: Mix) -> str:
    ends = [g.gain.value for g in chosen.gains]
    low, high = min(g.gain.low for g in chosen.gains), max(g.gain.high for g in chosen.gains)
    span = " to ".join(dict.fromkeys((f"x{min(ends):.2f}", f"x{max(ends):.2f}")))
    where = f"at kappa {chosen.kappa.low:.3g}"
    if len(ends) > 1:
        where = f"over kappa {chosen.kappa.low:.3g} to {chosen.kappa.high:.3g}"
    text = f"progress of a step {span} {where} ({percent(chosen.level)} interval x{low:.2f} to x{high:.2f})"
    if chosen.optimism >= WORTH_SAYING:
        text += f"; of that about {chosen.optimism:.2f} is the luck of choosing and judging on one pilot"
    return text


def _shown(value: Interval) -> str:
    return with_interval(value.value, value.low, value.high)


def _print_bars(out: Any, chosen: Mix) -> None:
    width = max(cell_len(short_name(s.law.name)) for s in chosen.strata)
    top = max(max(s.before, s.after) for s in chosen.strata)
    for s in chosen.strata:
        for label, share, mark in (("before", s.before, "."), ("after", s.after, "#")):
            bar = mark * max(round(BAR * share / top), 1 if share > 0.0 else 0)
            name = short_name(s.law.name) if label == "before" else ""
            out.print(f"  {padded(name, width)}  {label:6}  {bar:{BAR}}  {share:6.1%}", markup=False)


def _print_strata(out: Any, chosen: Mix) -> None:
    epochs = any(s.epochs is not None for s in chosen.strata)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("stratum", "prompts", "pass rate", "dead", "progress", *(["epochs"] if epochs else [])):
        table.add_column(name, justify="left" if name in ("stratum", "dead") else "right", no_wrap=True)
    for s in chosen.strata:
        row = [short_name(s.law.name), f"{s.law.prompts:,.0f}", rate(s.law.mean_pass_rate)]
        row += [with_interval(s.law.dead, s.law.dead_low, s.law.dead_high), f"x{s.progress:.2f}"]
        table.add_row(*row, *([f"{s.epochs:.1f}"] if s.epochs is not None else []))
    print_table(out, table)
    judged = {
        "named": "",
        "posterior": " Buckets by k/n; pass rate and dead are those of the prompts behind, not their k/n.",
        "halves": " Buckets by half of the rollouts, judged by the other half.",
    }[chosen.method]
    drawn = " epochs: times that the run draws each prompt." if epochs else ""
    at = f"at kappa {chosen.best_at_kappa:.3g}"
    say(out, f"progress: of a group, against one of the mix of now, {at}.{drawn}{judged}", "  ")


def _print_frontier(out: Any, chosen: Mix) -> None:
    named = len(chosen.strata) <= FEW_STRATA
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("KL bound", "used", "gain", *([short_name(s.law.name) for s in chosen.strata] if named else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for point in chosen.frontier:
        bound = "none" if point.max_kl is None else f"{point.max_kl:g}"
        here = point.max_kl == chosen.max_kl or (point.max_kl is None and math.isinf(chosen.max_kl))
        shares = [f"{share:.1%}" for share in point.shares] if named else []
        table.add_row(f"> {bound}" if here else bound, f"{point.kl:.3f}", f"x{point.gain:.2f}", *shares)
    print_table(out, table)
    where = f"gain: at kappa {chosen.best_at_kappa:.3g}"
    if chosen.objective == "signal" and not chosen.kappa.known:
        where += ", where the planned mix (>) is the best one; over the whole range it loses least"
    say(out, f"{where}.", "  ")


def _corner(chosen: Mix) -> str:
    corner = chosen.corner
    text = (
        f"Without any limit the answer is always one stratum alone, here {short_name(corner.stratum)} "
        f"(x{corner.gain:.2f}): progress is convex in the shares. It is refused: the policy would see nothing else, "
        "that stratum would be used up, and its prompts would soon be easy."
    )
    if not math.isinf(chosen.max_kl):
        most = math.sqrt(chosen.max_kl / 2.0)
        text += f" A KL bound of {chosen.max_kl:g} moves at most {min(most, 1.0):.0%} of a step's prompts."
    return text


def print_dropping(out: Any, effect: Dropping) -> None:
    """What dropping prompts that always failed or always passed would do."""
    out.print("\nDropping prompts that always failed or always passed, instead", style="bold")
    kinds = (("failed", effect.never), ("passed", effect.always))
    if not effect.never.prompts and not effect.always.prompts:
        say(out, "The pilot has no such prompt.", "  ")
        return
    for verb, kind in kinds:
        if kind.prompts:
            say(out, _kind(verb, kind, effect), "  ")
    if effect.rest_dead is not None and effect.lost is not None:
        naive = "" if effect.naive_dead is None else (
            f" The pilot's own groups say {rate(effect.naive_dead)}: too low, since they chose these prompts."
        )  # fmt: skip
        say(
            out,
            f"Dropping them gives up {effect.lost:.0%} of all mixed groups. Of the {effect.rest:,} prompts that stay, "
            f"{_shown(effect.rest_dead)} of the groups would be dead.{naive}",
            "  ",
        )


def _kind(verb: str, kind: DroppedKind, effect: Dropping) -> str:
    if kind.mixed is None or kind.mixed_in_visits is None:
        return ""
    low, value, high = (kind.prompts * x for x in (kind.mixed.low, kind.mixed.value, kind.mixed.high))
    return (
        f"{plural(kind.prompts, 'prompt')} {verb} every time. A group of {effect.group_size} is mixed all the same "
        f"with chance {_shown(kind.mixed)}: about {value:,.0f} of them at the next visit ({low:,.0f} to {high:,.0f}); "
        f"at least once in {effect.visits} visits: {_shown(kind.mixed_in_visits)}."
    )
