"""A diagnosis as a page that a person can act on: the verdict first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
from grpo_plan.cli.diagnose_strip import legend, strip
from grpo_plan.cli.numbers import plural
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part, Verbatim
from grpo_plan.quantities import DEFINITIONS, Absent, Quantity, Stage
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.expectation import Expected, ExpectedGroups
from grpo_plan.runs.finding import Finding, Remedy, Severity, Skipped
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.shares import GroupShares, group_shares

ABOUT_GROUPS = (
    "dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction", "group_reward_std", "reward_mean",
    "pass_rate_mean", "generation_batches",
)  # fmt: skip
SETTINGS = ("group_size", "prompts_per_step")  # said of the run
MOST_NAMES = 12
ROLLOUTS = "Rollouts would tell: "
_OPTIONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r" \(DiagnosisSettings\.\w+\)| \(\w+ of DiagnosisSettings\)| \(\w+= of read_run\)"), ""),
    (re.compile(r"(\w+)(?: of DiagnosisSettings|= of read_run)"), lambda found: f"--{found[1].replace('_', '-')}"),
    (re.compile(r"DiagnosisSettings\.(\w+)"), lambda found: f"--{found[1].replace('_', '-')}"),
    (re.compile(r"The setting (\w+) settles it"), r"--config \1=VALUE settles it"),
    (re.compile(r"--reward-column"), "--reward"),
)
_SENTENCE = re.compile(r"(?<=[.!?]) (?=\S)")
ROWS = (
    ("mixed", "mixed", None),
    ("dead", "dead", "dead"),
    ("  all-pass", "all_pass", "all_pass"),
    ("  all-fail", "all_fail", "all_fail"),
    ("  other dead", "other_dead", None),
)


def diagnosis_page(diagnosis: Diagnosis, *, extra: Sequence[Part] = (), unicode: bool = True) -> list[Part]:
    """The parts of the page.

    Args:
        diagnosis: What was found.
        extra: Parts of other questions, shown behind the findings.
        unicode: Whether the chart may use block characters.
    """
    parts: list[Part] = [
        Line("Verdict", diagnosis.verdict, strong=True),
        Line("Run", _run(diagnosis)),
        Line("Log", f"{diagnosis.facts.view.tool or diagnosis.run.format}: {diagnosis.run.source}"),
    ]
    parts += [Line("Plan", text) for text in _plan(diagnosis)]
    parts += _groups(diagnosis)
    parts += _chart(diagnosis, unicode)
    parts += _findings(diagnosis.findings)
    parts += _remedies(diagnosis.findings)
    parts += extra
    if diagnosis.clear:
        parts.append(Heading("Checked and clear"))
        parts += [Bullet(f"{clear.id}: {clear.because}") for clear in diagnosis.clear]
    if diagnosis.skipped:
        parts.append(Heading("Not checked, and what it needs"))
        parts += [Bullet(text) for text in _needs(diagnosis.skipped)]
    parts.append(Heading("How the log was read"))
    parts += [Bullet(text) for text in _reading(diagnosis)]
    return [p if isinstance(p, Grid | Verbatim) else replace(p, text=in_options(p.text)) for p in parts]


def in_options(text: str) -> str:
    """What a message asks for by the names of the library, by those of the command line.

    >>> in_options("Say what passes with pass_threshold= of read_run.")
    'Say what passes with --pass-threshold.'
    >>> in_options("the settings (beta), or kl_coefficient of DiagnosisSettings; give --gpus (DiagnosisSettings.gpus)")
    'the settings (beta), or --kl-coefficient; give --gpus'
    """
    for pattern, instead in _OPTIONS:
        text = pattern.sub(instead, text)
    return text


def _needs(skipped: Sequence[Skipped]) -> Iterator[str]:
    """What the checks need, those with the same need together; the advice that rollouts would tell stands once."""
    own: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for check in skipped:
        kept = []
        for sentence in dict.fromkeys(_SENTENCE.split(check.needs.strip())):
            if sentence.startswith(ROLLOUTS):
                shared.setdefault(sentence.removeprefix(ROLLOUTS), []).append(check.id)
            else:
                kept.append(sentence)
        own.setdefault(" ".join(kept) or "rollouts.", []).append(check.id)
    for needs, ids in own.items():
        yield f"{', '.join(ids)}: {needs}"
    for how, ids in shared.items():
        yield f"Rollouts would tell {', '.join(dict.fromkeys(ids))}: {how}"


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
    groups = f"{'' if part.groups_known else 'at least '}{part.groups:,.0f} groups"
    kept = " Counted after filtering: only groups that were kept." if part.stage is Stage.AFTER else ""
    yield (
        f"Dead: {part.words} ({part.stage.value if part.stage else UNKNOWN}). {percent(last.level)} limits; "
        f"{last.name if last.name != 'all' else 'all rows'}: {plural(part.rows, 'row')}, {groups}.{kept}"
    )
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


def _chart(diagnosis: Diagnosis, unicode: bool) -> Iterator[Part]:
    dead, planned = diagnosis.facts.dead, diagnosis.facts.planned
    if isinstance(dead, Absent) or dead.rows < 2:
        return
    expected = None if planned is None else planned.dead
    yield Heading("Dead fraction by step")
    yield Verbatim(strip(dead, expected, unicode=unicode))
    yield Paragraph(f"{legend(dead, expected, unicode=unicode).capitalize()}.")


def _findings(findings: Sequence[Finding]) -> Iterator[Part]:
    if not findings:
        yield Heading("Findings: none")
        return
    counts = ((severity, len(list(same))) for severity, same in groupby(findings, key=lambda f: f.severity.value))
    words = {"critical": "critical", "warning": "warning", "info": "for information"}
    said = (f"{count} {words[s]}{'s' if s == 'warning' and count > 1 else ''}" for s, count in counts)
    yield Heading(f"Findings: {', '.join(said)}")
    costs: set[str] = set()
    for finding in findings:
        since = "" if finding.onset_step is None else f", since step {finding.onset_step:,}"
        yield Heading(f"{finding.severity.value.upper()}  {finding.id}{since}", part=True)
        yield Paragraph(finding.says)
        yield from _detail(finding, costs)


def _detail(finding: Finding, costs: set[str]) -> Iterator[Part]:
    if finding.evidence:
        yield Line("Evidence", "; ".join(f"{name} {value}" for name, value in pairs(finding.evidence)), indent=2)
    cost = None if finding.waste is None else waste_text(finding.waste)
    if cost is not None and cost not in costs:
        yield Line("Cost", cost, indent=2)
        costs.add(cost)
    yield Line("Do", finding.remedy, indent=2)
    yield Line("Source", finding.reference, indent=2)


def _remedies(findings: Sequence[Finding]) -> Iterator[Part]:
    """What could be done about warnings and worse, else about the first finding; each remedy once, with its numbers."""
    grave = [f for f in findings if f.severity is not Severity.INFO] or [f for f in findings if f.remedies][:1]
    found: dict[tuple[str, ...], tuple[Remedy, list[str]]] = {}
    for finding in grave:
        for remedy in finding.remedies:
            found.setdefault((remedy.action, remedy.expected, remedy.price), (remedy, []))[1].append(finding.id)
    if not found:
        return
    yield Heading("What could be done")
    rows: list[list[str]] = []
    told: set[tuple[str, str]] = set()
    for i, (remedy, ids) in enumerate(found.values(), 1):
        yield Bullet(remedy.action, mark=f"{i}.")
        yield Line("Expected", remedy.expected, indent=5)
        yield Line("Price", remedy.price, indent=5)
        if len(grave) > 1:
            yield Line("For", ", ".join(ids), indent=5)
        for pair in pairs(remedy.numbers):
            if pair not in told and pair[1] != UNKNOWN:
                rows.append([f"{i}.", *pair])
            told.add(pair)
    if len(rows) > 1:
        yield Heading("In numbers", part=True)
        yield Grid(["", "number", "value"], rows)


def _reading(diagnosis: Diagnosis) -> Iterator[str]:
    run = diagnosis.run
    found = {name: run.quantity(name) for name in DEFINITIONS}
    for name in ABOUT_GROUPS:
        quantity, dead = found[name], found["dead_fraction"]
        if name == "mixed_fraction" and isinstance(dead, Quantity) and quantity.metrics == dead.metrics:
            continue
        if isinstance(quantity, Quantity):
            notes = "".join(f" {note}" for note in quantity.notes)
            yield f"{name}: {_logged_as(quantity)}; {quantity.stage.value}.{notes}"
    dead = found["dead_fraction"]
    if isinstance(dead, Absent):
        yield dead.reason
    others = [
        f"{n} ({_logged_as(q)})"
        for n, q in found.items()
        if isinstance(q, Quantity) and n not in ABOUT_GROUPS and n not in SETTINGS
    ]
    if others:
        yield f"Also read: {', '.join(others)}."
    yield f"Rewards: {diagnosis.facts.rewards.kind.value}; {diagnosis.facts.rewards.because}."
    yield from run.notes
    unknown = run.unknown_keys
    if unknown:
        more = f" and {len(unknown) - MOST_NAMES:,} more" if len(unknown) > MOST_NAMES else ""
        yield f"Unknown metrics, kept and not used: {', '.join(unknown[:MOST_NAMES])}{more}."
    if run.dropped:
        yield "Left out: " + ", ".join(f"{r.replace('_', ' ')} {c:,}" for r, c in run.dropped.items()) + "."


def _logged_as(quantity: Quantity) -> str:
    return ", ".join(quantity.metrics) or "counted from the rollouts"
