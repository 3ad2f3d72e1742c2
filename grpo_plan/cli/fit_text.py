"""A fit as a page that a person can read."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from grpo_plan.cli.common import console, cut, per_cent, percent, print_table, say, text_width, wrapped
from grpo_plan.cli.numbers import marked, plural, rate, with_interval
from grpo_plan.fitting.comparison import ERRORS, MEANINGS, Comparison
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pilot_size import advice
from grpo_plan.provenance import DeadGroups
from grpo_plan.readers.independence_reader import IndependenceReport
from grpo_plan.readers.registry import TABLE

NAME_COLUMNS = 12  # of a stratum, at least
OTHER_COLUMNS = 70  # of a table of strata, beside its names
MAX_STEPS = 12  # dead groups of each step are listed up to so many

COMPARED = {
    "i.i.d.": "iid",
    "plug-in": "plug_in",
    "Jeffreys": "jeffreys",
    "Beta": "beta",
    "subgroups": "u_statistic",
    "grpo-plan": "default",
}


def pilot_line(pilot: Pilot) -> str:
    """Size of a pilot in words."""
    low, high = int(pilot.rollouts.min()), int(pilot.rollouts.max())
    each = f"{low:,} each" if low == high else f"{low:,} to {high:,} each"
    return f"{plural(pilot.prompts, 'prompt')}, {plural(pilot.total_rollouts, 'rollout')} ({each})"


def source_lines(pilot: Pilot) -> list[str]:
    """What a pilot was read from and what that means; of a plain table only what makes it doubtful."""
    source = pilot.provenance
    return list(source.warnings if source.format in (None, TABLE) else source.sentences)


def print_fit(
    fitted: PassRateFit,
    dead: list[DeadFraction],
    strata: list[tuple[str, PassRateFit, list[DeadFraction]]],
    rows: list[Comparison],
    checks: IndependenceReport | None,
    level: float,
    *,
    by_threshold: bool = False,
) -> None:
    """Print the pilot, the table of dead fractions, what limits them, and what would help."""
    out = console()
    mean = fitted.mean_pass_rate_interval(level)
    out.print(wrapped(_in_short(fitted, dead), text_width(out), "Answer  "), style="bold", soft_wrap=True)
    say(out, pilot_line(fitted.pilot), "Pilot   ")
    out.print(f"        mean pass rate {with_interval(mean.value, mean.low, mean.high)}")
    if fitted.truncation is not None:
        say(out, _groups_line(fitted.truncation), "Groups  ")
    for line in source_lines(fitted.pilot):
        say(out, line, "Source  ")
    counted = fitted.pilot.provenance.dead_groups
    meaning = fitted.pilot.provenance.meaning_of_dead
    if meaning and (counted is None or fitted.truncation is not None):
        say(out, meaning, "        ")
    if counted is not None and fitted.truncation is None:
        say(out, _counted_line(counted), "Groups  ")
    if fitted.population is not None:
        say(out, _population_line(fitted), "For     ")
    if fitted.family == "auto":
        before = "" if fitted.removed is None else ", of all prompts before some were removed"
        say(out, _beta_line(fitted) + before, "Beta    ")
    else:
        say(out, f"values from the {fitted.family} fit at every G; the intervals are those of any family", "Family  ")
    for status in fitted.statuses:
        say(out, f"{status.name}: {status.sentence}", "Status  ")
    if checks is not None:
        for i, sentence in enumerate(checks.sentences):
            say(out, f"{checks.verdict.name}: {sentence}" if i == 0 else sentence, "Checked ")
    at_once = ", all at once" if dead[0].simultaneous else ""
    out.print("")
    by_pass = by_threshold or (counted is not None and counted.differ)
    agree = "that agree on pass or fail" if by_pass else "whose rewards all agree"
    say(out, f"Dead fraction D(G): share of groups {agree} ({percent(level)} intervals{at_once})")
    out.print("")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, side in (
        ("G", "right"),
        ("dead", "left"),
        ("all-fail", "left"),
        ("all-pass", "left"),
        ("i.i.d.", "left"),
    ):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for d in dead:
        table.add_row(str(d.group_size), *_cells(d), rate(d.iid))
    print_table(out, table)
    out.print()
    for line in _footnotes(fitted, dead, level):
        say(out, line, "  ")
    if rows:
        _print_comparison(out, rows)
    if strata:
        _print_strata(out, strata, level)


def _in_short(fitted: PassRateFit, dead: list[DeadFraction]) -> str:
    """The dead fraction at the largest group size shown that the pilot measures, and what the i.i.d. formula says."""
    reached = [d for d in dead if d.group_size <= fitted.max_measured_group_size] or dead[:1]
    d = reached[-1]
    if d.value is None or d.status is FitStatus.BEYOND_REACH:
        share = f"{per_cent(d.low)} to {per_cent(d.high)} of the groups are dead: this pilot cannot tell more closely"
    else:
        parts = (("all-fail", d.all_fail), ("all-pass", d.all_pass))
        told = ", ".join(f"{per_cent(v)} {name}" for name, v in parts if v is not None)
        share = f"{per_cent(d.value)} of the groups are dead [{per_cent(d.low, '')}, {per_cent(d.high, '')}]"
        share += f": {told}" if told else ""
    wrong = d.iid < d.low or d.iid > d.high
    iid = f"; i.i.d. would say {per_cent(d.iid)}" if wrong and not fitted.unknown_dead else ""
    return f"At G = {d.group_size}, {share}{iid}."


def _cells(d: DeadFraction) -> list[str]:
    """Dead fraction with its mark, all-fail and all-pass part of a row."""
    cells = [
        (d.value, *d.interval),
        (d.all_fail, *d.all_fail_interval),
        (d.all_pass, *d.all_pass_interval),
    ]
    texts = [with_interval(*cell).replace("unknown", "?") for cell in cells]
    return [marked(texts[0], d), *texts[1:]]


def _groups_line(truncation: dict[str, int | None]) -> str:
    """What is known of the groups of a pilot that lacks its dead ones."""
    mixed, others, dead = truncation["mixed_groups"] or 0, truncation["other_sizes"] or 0, truncation["dropped_groups"]
    known = (
        "the dead ones were dropped, their number is unknown" if dead is None else f"{dead:,} dead ones were dropped"
    )
    left = f"; left out: {others:,} of other sizes" if others else ""
    return f"{plural(mixed, 'mixed group')} of {truncation['group_size']} rollouts; {known}{left}"


def _counted_line(counted: DeadGroups) -> str:
    """How many of the groups that were read are dead, and where pass or fail and the full reward differ."""
    parts = f"all-fail {counted.all_fail:,}, all-pass {counted.all_pass:,}"
    parts += f", unscored {counted.unscored:,}" if counted.unscored else ""
    steps = [dead for _, _, dead in counted.by_step]
    if 1 < len(steps) <= MAX_STEPS:
        told = f"; by step: {', '.join(f'{dead:,}' for dead in steps)}"
    else:
        told = f"; {min(steps):,} to {max(steps):,} a step" if len(steps) > 1 else ""
    if not counted.differ:
        judged = " by pass or fail" if counted.by_reward is None else ""
        return f"counted: {counted.dead:,} of {counted.groups:,} dead{judged} ({parts}{told})"
    return (
        f"counted: {counted.dead:,} of {counted.groups:,} dead by the full reward, which is what a trainer "
        f"compares{told}; by pass or fail {counted.by_pass:,} ({parts}), which is what this page is about"
    )


def _population_line(fitted: PassRateFit) -> str:
    if fitted.population == fitted.pilot.prompts:
        return "exactly these prompts (census): the intervals leave out the luck of drawing prompts"
    return f"a set of {fitted.population:,} prompts that these were drawn from"


def _beta_line(fitted: PassRateFit) -> str:
    p = fitted.parameters
    if p["a"] is not None and p["b"] is not None:
        errors = "" if p["a_standard_error"] is None else " (standard errors)"
        a = f"{p['a']:.3g}" + (f" +- {p['a_standard_error']:.2g}" if p["a_standard_error"] is not None else "")
        b = f"{p['b']:.3g}" + (f" +- {p['b_standard_error']:.2g}" if p["b_standard_error"] is not None else "")
        return f"a = {a}, b = {b}{errors}"
    if p["correlation"] is None:
        return "spread of the pass rates unknown"
    if p["correlation"] == 0.0:
        return f"no spread found: all prompts near pass rate {p['mean']:.3f}"
    return "prompts pass always or never: no shape"


def _footnotes(fitted: PassRateFit, dead: list[DeadFraction], level: float) -> list[str]:
    largest, mean = fitted.max_measured_group_size, fitted.mean_pass_rate
    lines = [f"i.i.d.: p^G + (1-p)^G at the mean pass rate {mean:.3f}, the formula that people plan with."]
    if fitted.unknown_dead:
        lines[0] = f"i.i.d.: p^G + (1-p)^G at the mean pass rate {mean:.3f} of the smooth fit."
        return [*lines, "The all-fail and all-pass parts, and the mean, have no limits but 0 and 1 here."]
    compared = [d for d in dead if 1 < d.group_size <= min(largest, 16) and d.value is not None and d.iid > 0.0]
    if (
        compared
        and compared[-1].iid < compared[-1].low
        and (ratio := (compared[-1].value or 0.0) / compared[-1].iid) > 1
    ):
        times = f"{ratio:.2g}" if ratio < 100 else "over 100"
        lines[0] += (
            f" Here it is {times} times too low at G = {compared[-1].group_size}, because prompts differ (Jensen)."
        )
    partial = [d for d in dead if d.method == "u-statistic" and d.prompts_used < fitted.pilot.prompts]
    if partial:
        each = ", ".join(f"D({d.group_size}) from {d.prompts_used:,}" for d in partial)
        lines.append(f"Counted on the prompts with enough rollouts, of {fitted.pilot.prompts:,}: {each}.")
    found = {d.status for d in dead}
    if FitStatus.EXTRAPOLATED in found:
        lines.append(
            f"* EXTRAPOLATED: beyond twice the pilot's {plural(largest, 'rollout')} per prompt. The interval allows "
            "for any mix of pass rates; " + _value_rests_on(fitted)
        )
    if FitStatus.BEYOND_REACH in found:
        lines.append("! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.")
    if dead and not dead[-1].simultaneous and (text := advice(fitted, dead[-1].group_size, level)):
        lines.append(text)
    return lines


def _value_rests_on(fitted: PassRateFit) -> str:
    if fitted.family != "auto":
        return f"the value is that of the {fitted.family} fit alone."
    if fitted.nonparametric_share > 0.5:
        return "no smooth distribution fits this pilot, so the value is the middle of the interval."
    return "the value inside it assumes a smooth one."


def _print_comparison(out: Any, rows: list[Comparison]) -> None:
    out.print("\nThe usual estimates of D(G), side by side\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("G", justify="right", no_wrap=True)
    for name in (*COMPARED, "interval"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        values = [getattr(row, field) for field in COMPARED.values()]
        cells = [rate(v.value if isinstance(v, DeadFraction) else v) if v is not None else "-" for v in values]
        low, high = row.default.interval
        table.add_row(str(row.group_size), *cells, f"[{low:.3f}, {high:.3f}]")
    print_table(out, table)
    out.print()
    for name, field in COMPARED.items():
        say(out, f"{MEANINGS[field]}: {ERRORS[field]}", f"  {name:11}")


def _print_strata(out: Any, strata: list[tuple[str, PassRateFit, list[DeadFraction]]], level: float) -> None:
    sizes = [d.group_size for d in strata[0][2]]
    limit = min(8, *(part.max_measured_group_size for _, part, _ in strata))
    chosen = max((i for i, size in enumerate(sizes) if size <= limit), default=0)
    out.print(f"\nBy stratum, at G = {sizes[chosen]} ({percent(level)} intervals; every G with --json)\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stratum", no_wrap=True)
    for name in ("dead", "all-fail", "all-pass"):
        table.add_column(name, no_wrap=True)
    room = max(NAME_COLUMNS, out.width - OTHER_COLUMNS)
    for name, _, rows in strata:
        d = rows[chosen]
        table.add_row(cut(name, room), *_cells(d))
    print_table(out, table)
