"""Why a plan takes its group size: what kappa decides, what is lost without it, and whether measuring it pays."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from grpo_plan.cli.common import percent, print_table, say
from grpo_plan.cli.numbers import marked
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.objectives import LEAN_REASON
from grpo_plan.planning.plan import Plan, PlannedDesign
from grpo_plan.planning.signal import DEFAULT_KAPPA, FLAT_SHARE

HALF_A_PERCENT = 0.005
PROBE_ROLLOUTS = 4_000


def worst_case(chosen: Plan) -> str:
    """What is lost at most by the pick and by the sizes about as good, and whether kappa is known."""
    kappa = chosen.kappa
    if len(chosen.frontier) == 1:
        return "no other G was compared"
    if kappa.known:
        known = "as measured" if kappa.measured else "as given"
        return f"kappa {kappa.value:.3g} {known}: {_of_best(chosen)}{_smallest(chosen)}"
    span = f"at any kappa from {kappa.low:.4g} to {kappa.high:.4g}"
    return f"{span} {_of_best(chosen)}{_smallest(chosen)}"


def _of_best(chosen: Plan) -> str:
    regret = chosen.recommended.worst_regret
    if chosen.recommended is chosen.least_regret and regret < HALF_A_PERCENT:
        return "it is the best G"
    at_least = "" if chosen.kappa.known else "at least "
    share = "over 99%" if regret < HALF_A_PERCENT else f"{at_least}{1.0 - regret:.0%}"
    return f"it makes {share} of the best G's progress"


def leans(chosen: Plan) -> bool:
    """Whether the pick is the smallest size of a flat range, within 10 % of the best at every kappa."""
    low, high = chosen.flat_range
    best = chosen.recommended
    return low < high and best.design.group_size == low and best.worst_regret <= 1.0 - FLAT_SHARE


def _smallest(chosen: Plan) -> str:
    if not leans(chosen):
        return _others(chosen)
    low, high = chosen.flat_range
    if chosen.recommended is chosen.least_regret:
        return f", and the smallest of those within 10 % of it, G = {low} to {high}"
    return f", the smallest of G = {low} to {high}, which are about as good"


def _others(chosen: Plan) -> str:
    low, high = chosen.flat_range
    if low == high:
        return ""
    worst = max(p.worst_regret for p in _in_range(chosen))
    return f", any of G = {low} to {high} at least {1.0 - worst:.0%}"


def _in_range(chosen: Plan) -> list[PlannedDesign]:
    low, high = chosen.flat_range
    return [p for p in chosen.frontier if low <= p.design.group_size <= high]


def flat(chosen: Plan) -> str:
    """The flat range, and what it loses at most."""
    low, high = chosen.flat_range
    if low == high:
        return f"No other G of the table comes within 10 points of G = {low}."
    most = chosen.least_regret.worst_regret + (1.0 - FLAT_SHARE)
    sizes = {p.design.group_size: p.worst_regret <= most for p in chosen.frontier}
    worse = [str(size) for size, close in sizes.items() if low < size < high and not close]
    but = f" (but not {', '.join(worse)})" if worse else ""
    these = f"G = {low} to {high}{but}, the flat range,"
    if chosen.kappa.known:
        return f"{these} make within 10 % of the best progress; the upper end is optimistic."
    lost = max(p.worst_regret for p in _in_range(chosen) if str(p.design.group_size) not in worse)
    return f"{these} lose at most {lost:.0%} at any kappa of the range; the upper end is optimistic."


def reasons(chosen: Plan) -> list[str]:
    """Sentences that say why, what comes next, and whether measuring kappa pays."""
    best, kappa, exact = chosen.recommended, chosen.kappa, chosen.least_regret
    if chosen.objective != "signal":
        return [
            chosen.pick.comment,
            f"What would change it: {chosen.pick.would_change}",
            "signal, the default objective, is in the table below.",
        ]
    same = len({a.group_size for a in chosen.sensitivity}) == 1
    where = "per unit of cost" if chosen.per_cost else "within the budget"
    leaned = leans(chosen) and exact is not best
    if kappa.known:
        lines = [
            f"G = {exact.design.group_size} is predicted to make most progress {where} at kappa = {kappa.value:.3g} "
            f"(estimator {chosen.estimator})."
        ]
        if leaned:
            lines[0] += f" G = {best.design.group_size} is the smallest within 10 % of it: {LEAN_REASON}"
    elif leaned:
        lines = [
            f"Over kappa {kappa.low:g} to {kappa.high:g} G = {exact.design.group_size} loses least in the worst case: "
            f"at most {exact.worst_regret:.0%} of the progress that the best G makes {where} (estimator "
            f"{chosen.estimator}). G = {best.design.group_size}, which loses at most {best.worst_regret:.0%}, is the "
            f"smallest that is about as good: {LEAN_REASON}"
        ]
    elif same:
        lines = [f"Best {where} at every kappa from {kappa.low:g} to {kappa.high:g} (estimator {chosen.estimator})."]
    else:
        lines = [
            "kappa, the score noise over contrast, decides G, and rewards do not show it. Over "
            f"{kappa.low:g} to {kappa.high:g} this G loses least in the worst case: at most {best.worst_regret:.0%} "
            f"of the progress that the best G of the table makes {where} (estimator {chosen.estimator})."
        ]
    if same and not chosen.per_cost and len(chosen.frontier) > 1:
        if len({(p.design.prompts_per_step, p.design.steps) for p in chosen.frontier}) == 1:
            lines[0] += " Steps and prompts a step are fixed, so the largest group that fits is best."
    if exact is not best and not leaned:
        lines.append(
            f"G = {best.design.group_size} instead of {exact.design.group_size}: a rounder number, at a cost of at "
            "most 1 point."
        )
    if chosen.pick.runner_up is not None:
        lines.append(f"Next choice: G = {chosen.pick.runner_up}. What would change it: {chosen.pick.would_change}")
    if not same and not kappa.known:
        lines += _worth_measuring(chosen)
    return lines


def _worth_measuring(chosen: Plan) -> list[str]:
    """Whether measuring kappa pays: what it can win back at most, beside what it costs."""
    kappa, best = chosen.kappa, chosen.recommended
    ends = chosen.sensitivity
    lost = best.worst_regret
    run = "" if best.design.steps is None else f", {lost * best.cost.rollouts:,.0f} rollouts' worth of this run"
    lines = [
        f"What a measured kappa can win back is those {lost:.0%} at most{run}; a probe takes some {PROBE_ROLLOUTS:,} "
        "rollouts (--kappa FILE; docs/choosing.md, section 3)."
    ]
    if (kappa.low, kappa.high) == DEFAULT_KAPPA and ends[0].group_size < best.design.group_size < ends[-1].group_size:
        lines.append(
            f"The pick lies between the best at either end, G = {ends[0].group_size} and {ends[-1].group_size}: with "
            "kappa unknown, many pilots get G = 4 to 8."
        )
    return lines


def print_sensitivity(out: Any, chosen: Plan) -> None:
    """The answer at each kappa, and what the pick makes there."""
    size = chosen.recommended.design.group_size
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in ("  kappa", "best G", "within 10 %", "not told apart", f"G = {size} makes ({percent(chosen.level)})"):
        table.add_column(name, no_wrap=True)
    dead = {p.design.group_size: p.dead for p in chosen.frontier}
    for answer in chosen.sensitivity:
        low, high = chosen.progress_limits(chosen.recommended, answer.kappa)
        share = chosen.progress_at(chosen.recommended, answer.kappa)
        mine = "the best" if answer.group_size == size else f"{share:.2f} [{low:.2f}, {high:.2f}] of it"
        alike = chosen.not_told_apart(answer)
        spans = [
            str(first) if first == last else f"{first} to {marked(str(last), dead[last])}"
            for first, last in ((answer.flat_low, answer.flat_high), alike)
        ]
        best = marked(str(answer.group_size), dead[answer.group_size])
        table.add_row(f"  {answer.kappa:.3g}", best, *spans, mine)
    print_table(out, table)
    told = "not told apart: sizes that this pilot cannot tell from the best G"
    if any(d.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH) for d in dead.values()):
        told += "; * and !: beyond the pilot's reach, see the table of designs"
    say(out, f"{told}.", "  ")
