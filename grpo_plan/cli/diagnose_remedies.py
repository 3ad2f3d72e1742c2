"""What could be done about findings: each remedy once, with its numbers and its price."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from grpo_plan.cli.diagnose_numbers import UNKNOWN, pairs
from grpo_plan.cli.diagnose_reading import SENTENCE
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part
from grpo_plan.runs.finding import Finding, Remedy, Severity

SHOWN = 4  # remedies of the short page, which fit best
NUMBER = re.compile(r"\d|unknown")
SHOWN_QUIET = 2  # where nothing is graver than worth knowing
TELLS_NOTHING = ("unknown", "cannot tell")


def remedy_parts(findings: Sequence[Finding], *, details: bool) -> Iterator[Part]:
    """Remedies of warnings and worse, else of the first finding that has some.

    In short the few that fit best, with the first sentence of what each would do and of its price.
    """
    grave = [f for f in findings if f.severity is not Severity.INFO] or [f for f in findings if f.remedies][:1]
    found: dict[tuple[str, ...], tuple[Remedy, list[str]]] = {}
    for finding in grave:
        for remedy in finding.remedies:
            found.setdefault((remedy.action, remedy.expected, remedy.price), (remedy, []))[1].append(finding.id)
    if not found:
        return
    yield Heading("What could be done")
    shown = SHOWN if grave[0].severity is not Severity.INFO else SHOWN_QUIET
    for i, (remedy, ids) in enumerate(list(found.values())[: None if details else shown], 1):
        if not details:
            yield Bullet(f"{remedy.action} {_first(remedy.expected)} Price: {_first(remedy.price)}", mark=f"{i}.")
            continue
        yield Bullet(remedy.action, mark=f"{i}.")
        yield Line("Expected", remedy.expected, indent=5)
        yield Line("Price", remedy.price, indent=5)
        if len(grave) > 1:
            yield Line("For", ", ".join(ids), indent=5)
    if details:
        yield from _numbers([remedy for remedy, _ in found.values()])
        return
    more = max(len(found) - shown, 0)
    yield Paragraph(f"{f'{more} more, and what' if more else 'What'} these rest on: --details.")


def _first(text: str) -> str:
    """The first sentence without a last clause that neither has a number nor says that one is unknown.

    >>> _first("D falls to 0.4 at best; with none of them it stays. Assumed: much."), _first("Unknown. No size.")
    ('D falls to 0.4 at best.', 'Unknown. No size.')
    """
    sentences = SENTENCE.split(text)
    if sentences[0].lower().startswith(TELLS_NOTHING):
        return " ".join(sentences[:2])
    head, mark, rest = sentences[0].rpartition("; ")
    return f"{head}." if mark and not NUMBER.search(rest) else sentences[0]


def _numbers(remedies: Sequence[Remedy]) -> Iterator[Part]:
    rows: list[list[str]] = []
    told: set[tuple[str, str]] = set()
    for i, remedy in enumerate(remedies, 1):
        for pair in pairs(remedy.numbers):
            if pair not in told and pair[1] != UNKNOWN:
                rows.append([f"{i}.", *pair])
            told.add(pair)
    if len(rows) > 1:
        yield Heading("In numbers", part=True)
        yield Grid(["", "number", "value"], rows)
