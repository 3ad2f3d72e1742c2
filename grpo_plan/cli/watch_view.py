"""A watched run in words: one line a change, or a page that is drawn anew."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from grpo_plan.cli.diagnose_reading import in_options
from grpo_plan.cli.diagnose_strip import legend, strip
from grpo_plan.cli.terminal import prose_width
from grpo_plan.errors import one_line
from grpo_plan.runs.alerts import Alert
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.shares import Part, group_shares

BAR = 40
LAST_ALERTS = 6
STYLES = {"info": "", "warning": "yellow", "critical": "bold red"}
Styled = tuple[str, str]  # a line and its style


def update_line(facts: Facts, rows: int) -> str:
    """What new rows say, in one line."""
    steps = facts.run.steps
    told = [f"step {steps[-1]:,}" if rows == 1 else f"{rows:,} rows, to step {steps[-1]:,}"]
    for name, series in (
        ("dead", facts.dead),
        ("all-fail", facts.all_fail),
        ("all-pass", facts.all_pass),
        ("reward", facts.reward),
    ):
        if isinstance(series, Measured) and series.steps[-1] == steps[-1]:
            told.append(f"{name} {_last(series)}")
    planned = facts.planned
    if planned is not None:
        told.append(f"plan {planned.dead.low:.2f} to {planned.dead.high:.2f}")
    return "  ".join(told)


def alert_line(alert: Alert) -> str:
    """An alert, in one line."""
    head = f"{alert.severity.value.upper()} {alert.new.value} at step {alert.step:,}: {alert.id}: {alert.says}"
    return in_options(one_line(f"{head} {alert.remedy}".strip()))


def view(diagnosis: Diagnosis, alerts: Sequence[Alert], age_s: float, *, unicode: bool) -> list[Styled]:
    """The page: verdict, groups, the dead fraction over the steps, alerts, age of the last row."""
    facts = diagnosis.facts
    style = "bold" if diagnosis.worst is None else STYLES[diagnosis.worst.value] or "bold"
    lines = [(text, style) for text in textwrap.wrap(in_options(one_line(diagnosis.verdict)), prose_width())]
    steps = facts.run.steps
    if steps.size:
        last = f"{steps.size:,} rows, last step {steps[-1]:,}, new {_age(age_s)} ago"
        lines += [("", ""), (last, "dim")]
        lines += [(text, "") for text in _bars(facts, unicode)]
    if isinstance(facts.dead, Measured):
        planned = None if facts.planned is None else facts.planned.dead
        lines += [("", ""), ("Dead fraction", "bold")]
        lines += [(text, "") for text in strip(facts.dead, planned, unicode=unicode)]
        lines.append((legend(facts.dead, planned, unicode=unicode), "dim"))
    if alerts:
        lines += [("", ""), ("Alerts", "bold")]
        for alert in alerts[-LAST_ALERTS:]:
            found = textwrap.wrap(alert_line(alert), prose_width(), subsequent_indent="  ")
            lines += [(text, STYLES[alert.severity.value]) for text in found]
    return lines


def _bars(facts: Facts, unicode: bool) -> list[str]:
    """Shares of the last window as bars."""
    found = group_shares(facts)
    if not found:
        return []
    window = found[-1]
    out = [f"Groups, steps {window.first_step:,} to {window.last_step:,}:"]
    for name, part in (
        ("mixed", window.mixed),
        ("all-fail", window.all_fail),
        ("all-pass", window.all_pass),
        ("other dead", window.other_dead),
    ):
        out.append(f"  {name:10} {_bar(part, unicode)}")
    return out


def _bar(part: Part, unicode: bool) -> str:
    if part.low is None or part.high is None:
        return "not known"
    full, empty = ("█", "░") if unicode else ("#", ".")
    ends = f"{part.low:.2f} to {part.high:.2f}"
    if part.value is None:
        a, b = round(BAR * part.low), round(BAR * part.high)
        return f"{full * a}{empty * (b - a)}{' ' * (BAR - b)} {ends}"
    filled = round(BAR * part.value)
    return f"{full * filled}{' ' * (BAR - filled)} {part.value:.2f} [{ends}]"


def _last(series: Measured) -> str:
    if series.exact:
        return f"{series.values[-1]:.3g}"
    return f"{series.lower[-1]:.2f} to {series.upper[-1]:.2f}"


def _age(seconds: float) -> str:
    """How long ago, in words.

    >>> _age(3.2), _age(90.0), _age(7300.0)
    ('3 s', '1 min', '2 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min" if seconds < 3600 else f"{seconds // 3600:.0f} h"
