"""A diagnosis as a page that a person can act on: the verdict first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from grpo_plan.cli.common import percent
from grpo_plan.cli.diagnose_numbers import (
    UNKNOWN,
    count_cell,
    expected_cell,
    pairs,
    share_cell,
    waste_text,
)
from grpo_plan.cli.diagnose_reading import SENTENCE, checks, contradictions, in_options, left_out, read_as
from grpo_plan.cli.diagnose_remedies import remedy_parts
from grpo_plan.cli.diagnose_strip import legend, strip
from grpo_plan.cli.numbers import plural
from grpo_plan.cli.page import Grid, Heading, Line, Paragraph, Part, Verbatim
from grpo_plan.quantities import Absent, Stage
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.expectation import Expected, ExpectedGroups
from grpo_plan.runs.finding import Finding
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.shares import GroupShares, group_shares
from grpo_plan.runs.waste import steps_behind

DETAILS = "--details: what each check saw or lacks, how the log was read, sources."
TELLS_LITTLE = (UNKNOWN, "no")
LEAST_CHART = 4  # rows; fewer are in the table
SAME = 1e-3  # shares closer than this are one, rounded
ROWS = (
    ("mixed", "mixed", None),
    ("dead", "dead", "dead"),
    ("  all-pass", "all_pass", "all_pass"),
    ("  all-fail", "all_fail", "all_fail"),
    ("  other dead", "other_dead", None),
)


def diagnosis_page(
    diagnosis: Diagnosis, *, extra: Sequence[Part] = (), unicode: bool = True, details: bool = True
) -> list[Part]:
    """The parts of the page.

    Args:
        diagnosis: What was found.
        extra: Parts of other questions, shown behind the findings.
        unicode: Whether the chart may use block characters.
        details: Whether everything is said: how the log was read, what each check saw or lacks, all remedies, sources.
    """
    parts: list[Part] = [Line("Verdict", diagnosis.verdict, strong=True)]
    parts += [Line("But", text) for text in contradictions(diagnosis)]
    parts.append(Line("Run", _run(diagnosis)))
    parts.append(Line("Log", f"{diagnosis.facts.view.tool or diagnosis.run.format}: {diagnosis.run.source}"))
    if dropped := left_out(diagnosis):
        parts.append(Line("Left out", dropped))
    parts += [Line("Plan", text) for text in _plan(diagnosis)]
    parts += _groups(diagnosis)
    parts += _chart(diagnosis, unicode)
    parts += _findings(diagnosis, details)
    parts += remedy_parts(diagnosis.findings, details=details)
    parts += extra
    parts += checks(diagnosis, details=details)
    if details:
        parts += read_as(diagnosis)
    else:
        parts.append(Paragraph(DETAILS, indent=0))
    return [p if isinstance(p, Grid | Verbatim) else replace(p, text=in_options(p.text)) for p in parts]


def run_span(diagnosis: Diagnosis) -> str:
    """Rows and steps in words."""
    steps = diagnosis.run.steps
    if not steps.size:
        return "no rows"
    return f"{plural(int(steps.size), 'row')}, steps {steps[0]:,} to {steps[-1]:,}"


def _run(diagnosis: Diagnosis) -> str:
    facts = diagnosis.facts
    size, prompts = facts.group_size, facts.prompts_per_step
    told = [run_span(diagnosis)]
    told.append("group size not known" if size is None else f"groups of {size:,}")
    told.append("prompts per step not known" if prompts is None else f"{plural(prompts, 'prompt')} a step")
    if facts.steps_per_row > 1:
        told.append(f"each row a mean over {facts.steps_per_row:,} steps")
    return ", ".join(told)


def _plan(diagnosis: Diagnosis) -> Iterator[str]:
    expectation, planned = diagnosis.facts.expectation, diagnosis.facts.planned
    if expectation is None:
        return
    if planned is None:
        sizes = ", ".join(f"{g:,}" for g in sorted(expectation.by_group_size))
        size = diagnosis.facts.group_size
        why = "the group size of the run is not known: give --group-size" if size is None else f"none of G = {size:,}"
        yield f"{expectation.source} speaks of G = {sizes}, and {why}: the run is not compared with it"
        return
    d = planned.dead
    where = "" if expectation.group_size in (None, planned.group_size) else f" (planned: {expectation.group_size:,})"
    yield (
        f"dead {expected_cell(d)} at G = {planned.group_size:,}{where} ({percent(d.level)} limits, before training); "
        f"{expectation.source}"
    )


def _groups(diagnosis: Diagnosis) -> Iterator[Part]:
    windows = group_shares(diagnosis.facts)
    yield Heading("What the groups are made of")
    if not windows:
        yield Paragraph("The log has no rows.")
        return
    if not any(w.dead.known for w in windows):
        yield Paragraph(f"{UNKNOWN.capitalize()}. {windows[-1].dead.reason}")
        return
    planned, binary = diagnosis.facts.planned, diagnosis.facts.rewards.binary
    columns = ["groups", *(_window(w) for w in windows), *(["plan"] if planned else [])]
    rows = []
    for name, attribute, expected in ROWS:
        found = [getattr(w, attribute) for w in windows]
        if attribute == "other_dead" and not any(part.known and (part.value or not binary) for part in found):
            continue
        cells = [share_cell(part) for part in found]
        rows.append([name, *cells, *([_planned_cell(planned, attribute, expected)] if planned else [])])
    if any(w.mixed_groups.known for w in windows):
        cells = [count_cell(w.mixed_groups) for w in windows]
        rows.append(["mixed a step", *cells, *([_planned_count(planned)] if planned else [])])
    yield Grid(columns, rows)
    for note in _group_notes(diagnosis, windows):
        yield Paragraph(note)
    if planned is not None and planned.mixed_low is not None and any(w.mixed_groups.known for w in windows):
        yield Paragraph("Mixed a step: the mean, and where 9 of 10 steps of the plan lie.")


def _window(window: GroupShares) -> str:
    if window.first_step == window.last_step:
        return f"step {window.first_step:,}"
    return f"{window.name}, {window.first_step:,} to {window.last_step:,}"


def _planned_cell(planned: ExpectedGroups, attribute: str, expected: str | None) -> str:
    if attribute == "mixed":
        d = planned.dead
        value = None if d.value is None else 1.0 - d.value
        return expected_cell(Expected(value=value, low=1.0 - d.high, high=1.0 - d.low, level=d.level))
    return "" if expected is None else expected_cell(getattr(planned, expected))


def _planned_count(planned: ExpectedGroups) -> str:
    if planned.mixed_low is None or planned.mixed_high is None:
        return UNKNOWN
    return f"{planned.mixed_low:,.0f} to {planned.mixed_high:,.0f} of {planned.prompts_per_step:,}"


def _group_notes(diagnosis: Diagnosis, windows: Sequence[GroupShares]) -> Iterator[str]:
    last = windows[-1]
    part = last.dead
    groups = f"{'' if part.groups_known else 'at least '}{plural(round(part.groups), 'group')}"
    kept = " Counted after filtering: only groups that were kept." if part.stage is Stage.AFTER else ""
    bounded = any(getattr(w, name).known and getattr(w, name).value is None for w in windows for _, name, _ in ROWS)
    seen = "a to b: what the log bounds the groups seen to; " if bounded else ""
    yield (
        f"Dead: {part.words} ({part.stage.value if part.stage else UNKNOWN}). {seen}[a, b]: {percent(last.level)} "
        f"limits; {last.name if last.name != 'all' else 'all rows'}: {plural(part.rows, 'row')}, {groups}.{kept}"
    )
    yield from _apart(last)
    for name, found in (("All-pass", last.all_pass), ("all-fail", last.all_fail)):
        if found.reason is None and "from" in found.words[:5]:
            yield f"All-pass and all-fail: limits {found.words}."
            return
        if found.reason is not None:
            facts = diagnosis.facts
            hint = ""
            if facts.rewards.binary and facts.group_size is None and isinstance(facts.pass_rate, Measured):
                hint = " With --group-size, limits follow from the mean reward."
            yield f"{name}: {found.reason.partition(': ')[2] or found.reason}{hint}"
            return


def _apart(window: GroupShares) -> Iterator[str]:
    """That dead groups are of one source and their kinds of another, so that they need not add up."""
    dead, kinds = window.dead, [p for p in (window.all_pass, window.all_fail) if p.known]
    sums = [p.value for p in (dead, *kinds) if p.value is not None]
    if len(kinds) < 2 or len(sums) < 3 or abs(sums[0] - sums[1] - sums[2]) <= SAME:
        return
    if all(p.words == dead.words and p.groups == dead.groups for p in kinds):
        return
    groups = plural(round(kinds[0].groups), "group")
    yield (
        f"These do not add up to the dead fraction: all-pass and all-fail are {kinds[0].words}, {groups}, and dead is "
        f"{dead.words}. The sources differ, or the groups they cover."
    )


def _chart(diagnosis: Diagnosis, unicode: bool) -> Iterator[Part]:
    dead, planned = diagnosis.facts.dead, diagnosis.facts.planned
    if isinstance(dead, Absent) or dead.rows < LEAST_CHART:
        return
    expected = None if planned is None else planned.dead
    yield Heading("Dead fraction by step")
    level = diagnosis.facts.settings.level
    yield Verbatim(strip(dead, expected, unicode=unicode, level=level))
    words = legend(dead, expected, unicode=unicode, level=level)
    yield Paragraph(f"{words[0].upper()}{words[1:]}.")


def _findings(diagnosis: Diagnosis, details: bool) -> Iterator[Part]:
    findings = diagnosis.findings
    if not findings:
        yield Heading("Findings: none")
        return
    counts = ((severity, len(list(same))) for severity, same in groupby(findings, key=lambda f: f.severity.value))
    words = {"critical": "critical", "warning": "warning", "info": "for information"}
    said = (f"{count} {words[s]}{'s' if s == 'warning' and count > 1 else ''}" for s, count in counts)
    yield Heading(f"Findings: {', '.join(said)}")
    told: set[str] = set()
    for finding in findings:
        since = "" if finding.onset_step is None else f", since step {finding.onset_step:,}"
        yield Heading(f"{finding.severity.value.upper()}  {finding.id}{since}", part=True)
        yield Paragraph(finding.says)
        yield from _detail(finding, told, _logged_steps(diagnosis), details)


def _logged_steps(diagnosis: Diagnosis) -> int | None:
    """Steps that all rows of the dead fraction stand for."""
    dead = diagnosis.facts.dead
    return None if isinstance(dead, Absent) else int(steps_behind(diagnosis.facts, dead).sum())


def _detail(finding: Finding, told: set[str], logged: int | None, details: bool) -> Iterator[Part]:
    """Evidence, cost and advice; a cost, or a part of it, that was told of an earlier finding is not told again."""
    if finding.evidence:
        shown = [f"{name} {value}" for name, value in pairs(finding.evidence) if details or value not in TELLS_LITTLE]
        yield Line("Evidence", "; ".join(shown) or UNKNOWN, indent=2)
    if finding.waste is not None:
        fresh = [text for text in SENTENCE.split(waste_text(finding.waste, logged)) if text not in told]
        told.update(fresh)
        if fresh:
            yield Line("Cost", " ".join(fresh), indent=2)
    yield Line("Do", finding.remedy, indent=2)
    if details:
        yield Line("Source", finding.reference, indent=2)
