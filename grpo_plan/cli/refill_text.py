"""A refill as a page that a person can act on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from rich.table import Table

from grpo_plan.batches import Refill, RefillAt, RefillStatus, SamplingCost
from grpo_plan.batches.refilling import batch_multiplier_for
from grpo_plan.batches.stopping import Bounded
from grpo_plan.cli.common import console, percent, print_table, say, text_width
from grpo_plan.cli.fit_text import pilot_line, source_lines
from grpo_plan.cli.numbers import HUGE, chance, few, plural, rate, short_count, with_interval
from grpo_plan.documents.refill_advice import assumptions, better_option, rollouts_per_mixed_group, trainer_settings
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

NEVER, SURELY = 1e-9, 0.999
UNBOUNDED = "no limit"
NO_SHARE = 1e-9  # smaller ones are only said to be so
SCHEMES = {
    "fixed": "fixed G, dead kept",
    "refill": "refill, as above",
    "adaptive": "until mixed",
    "until-pass": "until a pass*",
}


def print_refill(
    fit: PassRateFit, plan: Refill, others: list[Refill], costs: tuple[SamplingCost, ...], level: float
) -> None:
    """Print the verdict, what it costs, other generation batches, other ways to sample, and trainer settings."""
    out = console()
    for i, (label, text) in enumerate(_verdict(fit, plan, others, level)):
        if i == 0:
            lines = textwrap.wrap(text, text_width(out) - 8)
            out.print("\n".join([f"{label:8}{lines[0]}", *(f"{'':8}{line}" for line in lines[1:])]), style="bold")
        else:
            say(out, text, f"{label:8}")
    out.print("\nBy generation batch", style="bold")
    _print_options(out, plan, others)
    out.print("\nRollouts, by way of sampling", style="bold")
    _print_costs(out, costs, level)
    out.print("\nSettings", style="bold")
    for trainer in trainer_settings(plan):
        say(out, f"{trainer.trainer}{'. ' + trainer.missing if trainer.missing else ''}", "  ")
        for key, value in trainer.settings:
            shown = str(value).lower() if isinstance(value, bool) else f"{value:g}" if _is_share(value) else value
            out.print(f"    {key} {shown}", markup=False, soft_wrap=True)
    out.print("\nWhat this rests on", style="bold")
    for assumption in assumptions(plan):
        say(out, assumption, "  - ")


def _is_share(value: object) -> bool:
    return isinstance(value, float)


def _verdict(fit: PassRateFit, plan: Refill, others: list[Refill], level: float) -> list[tuple[str, str]]:
    at, dead, n = plan.at_value, plan.dead, plan.prompts_per_step
    drawn, single = (plan.limits(of) for of in (lambda a: a.prompts.mean / n, lambda a: a.one_by_one.mean / n))
    far = dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH)
    note = f"{percent(level)} interval" + (f"; {dead.status.name}: trust the interval, not the value" if far else "")
    lines = [
        (
            "Refill",
            f"draw {at.prompts.mean / n:.2f}x{_range(*drawn, '.2f')} in batches of {plan.gen_batch_size:,}, "
            f"{_at_most(at.rounds.p95)}{_held_verdict(plan)}{_cap_verdict(plan)}; prompts one at a time take "
            f"{at.one_by_one.mean / n:.2f}x{_range(*single, '.2f')}",
        ),
        *([("Better", _better(better, plan))] if (better := better_option(plan, others)) is not None else []),
        ("Step", f"{plural(n, 'mixed group')} of {plan.group_size} from generation batches of {plan.gen_batch_size:,}"),
        ("Pilot", pilot_line(fit.pilot)),
        *(("Source", line) for line in source_lines(fit.pilot)),
        *(("Status", f"{s.name}: {s.sentence}") for s in fit.statuses if s is not FitStatus.OK),
        ("Dead", f"{with_interval(dead.value, dead.low, dead.high)} of groups of {plan.group_size} ({note})"),
        *([("", f"{plan.status.name}: {plan.status.sentence}")] if plan.status is not RefillStatus.FILLS else []),
        (
            "Prompts",
            f"{_mean(plan, lambda a: a.one_by_one.mean)} to find {plural(n, 'mixed group')} one at a time, "
            f"{_count(at.one_by_one.p05)} to {_count(at.one_by_one.p95)} in 9 of 10 steps",
        ),
        ("Rounds", _rounds(plan)),
        ("Cap", _cap(plan)),
        ("Cost", _cost(plan)),
        ("Size", _sizes(plan)),
        ("Steps", _steps(plan)),
    ]
    if plan.data_prompts is not None:
        lines.append(("Data", _data(plan)))
    return lines


def _at_most(rounds: float) -> str:
    return "1 round in 95 % of steps" if rounds == 1 else f"{_count(rounds)} rounds at most in 95 % of steps"


def _held_verdict(plan: Refill) -> str:
    """What a capped step holds, where that is fewer than wanted."""
    if plan.prompts_per_step - plan.at_value.mixed_groups < 0.05:
        return ""
    return f", which hold {_held(plan)} of {plural(plan.prompts_per_step, 'mixed group')} wanted"


def _held(plan: Refill) -> str:
    most, least = plan.limits(lambda a: a.mixed_groups)
    return few(plan.at_value.mixed_groups) + (
        "" if most == least else f" [{'0' if least is None else few(least)}, {few(most)}]"
    )


def _cap_verdict(plan: Refill) -> str:
    if plan.max_rounds is None:
        return ""
    cap, of = f"the cap of {plan.max_rounds:,}", "steps" if plan.steps is None else "runs"
    low, high = plan.limits(_hit)
    if high is None:
        return f"; {cap} may be hit"
    if high < NEVER:
        return f"; {cap} is never hit"
    if low > SURELY:
        return f"; {cap} will be hit"
    return f"; {cap} is hit in {_share(_hit(plan.at_value))} of {of} [{_share(low)}, {_share(high)}]"


def _hit(at: RefillAt) -> float:
    """Chance that a run hits the cap, or a step where the length of the run is not known."""
    return (at.cap_probability if at.run_cap_probability is None else at.run_cap_probability) or 0.0


def _better(better: Refill, plan: Refill) -> str:
    at, now = better.at_value, plan.at_value
    saved = 1.0 - rollouts_per_mixed_group(better) / rollouts_per_mixed_group(plan)
    per = "" if at.mixed_groups == now.mixed_groups else " for a mixed group"
    cost = (
        f"{abs(saved):.0%} {'fewer' if saved > 0 else 'more'} rollouts{per}"
        if abs(saved) >= 0.005
        else f"as many rollouts{per}"
    )
    return (
        f"generation batches of {better.gen_batch_size:,} ({better.batch_multiplier:.2f}x): "
        f"{_at_most(at.rounds.p95)}, {cost}"
    )


def _cap(plan: Refill) -> str:
    at = plan.at_value
    safe = ""
    if at.safe_max_rounds is not None:
        low, high = plan.limits(lambda a: float(a.safe_max_rounds or 0))
        ends = "" if low == high else _range(low, high, ",.0f")
        least = f"{_count(at.safe_max_rounds)}{ends}"
        safe = f" The smallest cap that 95 % of runs of {plan.steps:,} steps never hit: {least}."
    if plan.max_rounds is None or at.cap_probability is None:
        return f"none given.{safe}" if safe else "none given; --max-rounds gives the chance to hit one"
    low, high = plan.limits(lambda a: a.cap_probability or 0.0)
    leave = "leaves" if plan.max_rounds == 1 else "leave"
    words = f"{plural(plan.max_rounds, 'round')} {leave} a step short with chance "
    words += _chances(at.cap_probability, low, high)
    if at.run_cap_probability is not None:
        low, high = plan.limits(lambda a: a.run_cap_probability or 0.0)
        words += f", a run of {plan.steps:,} steps with {_chances(at.run_cap_probability, low, high)}"
    return f"{words}.{safe}"


def _cost(plan: Refill) -> str:
    at = plan.at_value
    used = at.mixed_groups * plan.group_size
    low, high = plan.surplus_limits or (None, None)
    surplus = "" if low is None or high is None else f" [{few(low)}, {few(high)}]"
    return (
        f"{_mean(plan, lambda a: a.rollouts.mean)} rollouts a step, of which {_count(used)} "
        f"({_share(used / at.rollouts.mean)}) are trained on; {few(at.surplus_mixed_groups)}{surplus} mixed groups are "
        "surplus, rolled out and thrown away"
    )


def _sizes(plan: Refill) -> str:
    n = plan.prompts_per_step
    one = plan.at_value.one_round_gen_batch_size
    low, high = plan.limits(lambda a: a.one_round_gen_batch_size)
    text = (
        f"{one:,}{_range(low, high, ',.0f')} prompts in a generation batch fill 95 % of steps in one round (multiplier "
        f"{batch_multiplier_for(one, n):.2f}"
        f"{'' if high is None else f'; {batch_multiplier_for(int(high), n):.2f} to be sure of it'})"
    )
    if plan.at_value.capped_gen_batch_size is not None and plan.max_rounds != 1:
        low, high = plan.limits(lambda a: float(a.capped_gen_batch_size or 0))
        of = "steps" if plan.steps is None else "runs"
        text += (
            f"; {plan.at_value.capped_gen_batch_size:,}{_range(low, high, ',.0f')} fill 95 % of {of} within "
            f"{plan.max_rounds:,} rounds"
        )
    return text


def _steps(plan: Refill) -> str:
    mean = plan.at_value.rounds.mean
    low, high = plan.limits(lambda a: a.rounds.mean)
    text = (
        f"where generation batches are counted as steps (verl, DAPO recipe), {mean:.2f} of them make 1 optimiser step"
    )
    if plan.steps is None:
        return f"{text}; set total steps and learning-rate schedule by that"
    ends = _range(plan.steps * low, None if high is None else plan.steps * high, ",.0f")
    return (
        f"{text}: {plan.steps:,} optimiser steps take {plan.steps * mean:,.0f}{ends}; set total steps and "
        "learning-rate schedule by that"
    )


def _data(plan: Refill) -> str:
    at = plan.at_value
    high = plan.at_low.steps_per_pass or 0.0
    low = None if plan.at_high is None else plan.at_high.steps_per_pass
    ends = f" [{few(low)}, {few(high)}]" if low is not None else f" [none, {few(high)}]"
    return (
        f"{plan.data_prompts:,} prompts hold about {at.mixed_prompts:,} mixed groups: {few(at.steps_per_pass or 0.0)}"
        f"{ends} steps from one pass over them"
    )


def _print_options(out: Any, plan: Refill, others: list[Refill]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    capped = plan.max_rounds is not None
    for name in (
        "B",
        "of N",
        "rounds",
        "95 %",
        "rollouts a step",
        *(("held",) if capped else ()),
        "trained on",
        "surplus",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for other in others:
        at = other.at_value
        used = at.mixed_groups * other.group_size
        low, high = other.limits(lambda a: a.rollouts.mean)
        size = short_count(other.gen_batch_size)
        table.add_row(
            f"> {size}" if other is plan else size,
            f"{other.batch_multiplier:.2f}",
            few(at.rounds.mean),
            _count(at.rounds.p95),
            f"{_count(at.rollouts.mean)}{_range(low, high, ',.0f')}",
            *((few(at.mixed_groups),) if capped else ()),
            _share(used / at.rollouts.mean),
            few(at.surplus_mixed_groups),
        )
    print_table(out, table)
    say(
        out,
        "B: prompts of a generation batch. 95 %: rounds that suffice in 95 % of steps"
        f"{', within the cap. held: mixed groups of a step, mean' if capped else ''}. Small batches waste little but "
        "wait for more rounds, each as long as its slowest rollout; a batch a little too small for one round wastes "
        "most.",
        "  ",
    )


def _print_costs(out: Any, costs: tuple[SamplingCost, ...], level: float) -> None:
    columns = {
        "sampling": [SCHEMES[cost.scheme] for cost in costs],
        "G": [f"{cost.group_size:,}" for cost in costs],
        "per prompt": [_bounded(cost.rollouts_per_prompt, _short) for cost in costs],
        "given up": [_bounded(cost.dropped_fraction, rate) for cost in costs],
        "per mixed group": [
            "never" if cost.rollouts_per_group is None else _bounded(cost.rollouts_per_group, _short) for cost in costs
        ],
    }
    names = list(columns)
    wide = sum(max(len(name), *map(len, columns[name])) for name in names) + 2 * (len(names) - 1)
    parts = [names] if wide <= out.width else [names[:-1], [names[0], names[-1]]]
    for i, part in enumerate(parts):
        if i:
            out.print()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in part:
            table.add_column(name, justify="right" if name == "G" else "left", no_wrap=True)
        for row in zip(*(columns[name] for name in part), strict=True):
            table.add_row(*row)
        print_table(out, table)
    last = costs[-1]
    at_a_time = "one" if last.round_size == 1 else f"{last.round_size}"
    note = (
        f"Until mixed (adaptive): rollouts of a prompt {at_a_time} at a time until it has a pass and a fail, at most "
        f"{last.group_size}; its groups differ in size, and their mean reward is biased by the stopping. "
        f"* for a prompt with a pass, all-pass ones included. Intervals: {percent(level)}."
    )
    if last.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        note += f" {last.status.name} at G = {last.group_size}: trust the intervals there."
    say(out, note, "  ")


def _short(value: float) -> str:
    return few(value) if value < HUGE else short_count(value)


def _bounded(number: Bounded, shown: Callable[[float], str]) -> str:
    if number.low == number.value == number.high:
        return shown(number.value)
    high = UNBOUNDED if number.high is None else shown(number.high)
    return f"{shown(number.value)} [{shown(number.low)}, {high}]"


def _mean(plan: Refill, of: Callable[[RefillAt], float], form: str = "") -> str:
    low, high = plan.limits(of)
    value = of(plan.at_value)
    return (f"{value:{form}}" if form else _count(value)) + _range(low, high, form or ",.0f")


def _rounds(plan: Refill) -> str:
    low, high = plan.limits(lambda a: a.rounds_to_fill)
    most = _count(plan.at_value.rounds_to_fill) + ("" if low == high else _range(low, high, ",.0f"))
    within = "" if plan.max_rounds is None else f", within the cap of {plan.max_rounds:,}"
    return f"{_mean(plan, lambda a: a.rounds.mean, '.2f')} a step{within}; 95 % of steps need {most} or fewer to fill"


def _share(value: float) -> str:
    if value >= 0.9995:
        return ">99.9%" if value < 1.0 else "100%"
    if 0.0 < value < NO_SHARE:
        return "<1e-9"
    return f"{value:.1%}" if value >= 0.995 else f"{value:.0%}" if value >= 0.095 else f"{100.0 * value:.2g}%"


def _count(value: float) -> str:
    return short_count(value)


def _range(low: float, high: float | None, form: str) -> str:
    if low == high:
        return ""

    def shown(value: float) -> str:
        return short_count(value) if value >= 1e7 else f"{value:{form}}"

    return f" [{shown(low)}, {UNBOUNDED if high is None else shown(high)}]"


def _chances(value: float, low: float, high: float | None) -> str:
    if high is not None and high < NEVER:
        return chance(high)
    return f"{chance(value)} [{chance(low)}, {'1' if high is None else chance(high)}]"
