"""Where a watch says what it sees: lines of JSON, lines of text, or a page on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from grpo_plan.cli.common import console
from grpo_plan.cli.diagnose_reading import in_options
from grpo_plan.cli.watch_rows import event, json_line
from grpo_plan.cli.watch_state import Stdout
from grpo_plan.cli.watch_view import alert_line, update_line, view
from grpo_plan.errors import one_line
from grpo_plan.readers.follow import FollowEvent
from grpo_plan.runs.alerts import Alert
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.facts import Facts


class JsonLines:
    """One object a line."""

    def __init__(self) -> None:
        self.out = Stdout()

    def happened(self, events: Sequence[FollowEvent]) -> None:
        """An object of each event of the log."""
        self._write("file", [{"kind": e.kind.value, "message": e.message} for e in events])

    def rows(self, documents: Sequence[dict[str, Any]], facts: Facts) -> None:
        """An object of each step."""
        self._write("row", documents)

    def alerts(self, alerts: Sequence[Alert]) -> None:
        """An object of each alert."""
        self._write("alert", [alert.document() for alert in alerts])

    def looked(self, diagnosis: Diagnosis | None, alerts: Sequence[Alert], age_s: float) -> None:
        """Nothing: silence is no news."""

    def verdict(self, diagnosis: Diagnosis, age_s: float) -> None:
        """The last object."""
        steps = diagnosis.run.steps
        body = {
            "step": int(steps[-1]),
            "rows": int(steps.size),
            "verdict": diagnosis.verdict,
            "worst": None if diagnosis.worst is None else diagnosis.worst.value,
            "findings": [{"id": f.id, "severity": f.severity.value, "says": f.says} for f in diagnosis.findings],
        }
        self._write("verdict", [body])

    def _write(self, kind: str, bodies: Sequence[dict[str, Any]]) -> None:
        self.out.write([json_line(event(kind, body)) for body in bodies])

    def close(self) -> None:
        """Nothing to put back."""


class TextLines:
    """One line a change; what happens to the log goes to stderr."""

    def __init__(self) -> None:
        self.out = Stdout()

    def happened(self, events: Sequence[FollowEvent]) -> None:
        """A note of each event."""
        for e in events:
            sys.stderr.write(f"note: {one_line(e.message)}\n")

    def rows(self, documents: Sequence[dict[str, Any]], facts: Facts) -> None:
        """One line, of the last step."""
        self.out.write([update_line(facts, len(documents)) + "\n"])

    def alerts(self, alerts: Sequence[Alert]) -> None:
        """A line of each alert."""
        self.out.write([alert_line(alert) + "\n" for alert in alerts])

    def looked(self, diagnosis: Diagnosis | None, alerts: Sequence[Alert], age_s: float) -> None:
        """Nothing: silence is no news."""

    def verdict(self, diagnosis: Diagnosis, age_s: float) -> None:
        """The last line."""
        self.out.write([f"Verdict: {in_options(one_line(diagnosis.verdict))}\n"])

    def close(self) -> None:
        """Nothing to put back."""


class LivePage:
    """A page on a terminal that is drawn anew; the last one stays."""

    def __init__(self, *, unicode: bool) -> None:
        from rich.live import Live

        self._unicode = unicode
        self._live = Live(console=console(), auto_refresh=False)
        self._notes: list[str] = []
        self._diagnosis: Diagnosis | None = None
        self._alerts: Sequence[Alert] = ()
        self._live.start()

    def happened(self, events: Sequence[FollowEvent]) -> None:
        """Shown below the page."""
        self._notes = [*self._notes, *(one_line(e.message) for e in events)][-3:]

    def rows(self, documents: Sequence[dict[str, Any]], facts: Facts) -> None:
        """Shown with the next look."""

    def alerts(self, alerts: Sequence[Alert]) -> None:
        """Shown with the next look."""
        self._alerts = [*self._alerts, *alerts]

    def looked(self, diagnosis: Diagnosis | None, alerts: Sequence[Alert], age_s: float) -> None:
        """Draw the page."""
        from rich.text import Text

        page = Text()
        lines = [] if diagnosis is None else view(diagnosis, self._alerts, age_s, unicode=self._unicode)
        for line, style in [*lines, *(("note: " + note, "dim") for note in self._notes)]:
            page.append(line + "\n", style=style or None)
        self._live.update(page, refresh=True)

    def verdict(self, diagnosis: Diagnosis, age_s: float) -> None:
        """Draw it for the last time."""
        self.looked(diagnosis, self._alerts, age_s)
        self.close()

    def close(self) -> None:
        """The last page stays, and the cursor is there again."""
        self._live.stop()
