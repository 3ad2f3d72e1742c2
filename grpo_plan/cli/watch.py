"""``grpo-plan watch``."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from grpo_plan.cli.common import JsonOption
from grpo_plan.cli.diagnose import FOUND, FailOn, has_blocks
from grpo_plan.cli.run_options import RunRequest, reads_run
from grpo_plan.errors import DomainError, PilotFormatError

if TYPE_CHECKING:
    from grpo_plan.readers.follow import FollowEvent, RunFollower, Update
    from grpo_plan.runs.alerts import Alert
    from grpo_plan.runs.diagnosis import Diagnosis
    from grpo_plan.runs.facts import Facts


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_run(watch))


def watch(
    request: RunRequest,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="What was expected: JSON of plan --json or fit --json.")
    ] = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Pause between two looks at the log.")] = 2.0,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 4 as soon as a finding is at least so grave.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="FILE", help="File from which a watch that was ended goes on.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, say it and end.")] = False,
    until_idle: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End when nothing was logged for so long.")
    ] = None,
    format: str = "text",
    json: JsonOption = False,
) -> None:
    """Watch a run while it trains, and say when something is wrong.

    The log is read on as it grows, through renaming, cutting and restarts; it need not be there yet. A finding is told
    when it has held for a while, so that looking often makes no false alarm. Ctrl-C ends with a last verdict.

    Example: grpo-plan watch run.jsonl --plan plan.json --fail-on critical
    """
    from grpo_plan.readers.follow import RunFollower
    from grpo_plan.runs.expectation import Expectation
    from grpo_plan.runs.monitor import Monitor

    if len(request.sources) != 1:
        raise DomainError(f"watch follows one log; got {len(request.sources)}: {', '.join(request.sources)}.")
    if format == "markdown":
        raise DomainError("--format markdown is for a log that has ended: use grpo-plan diagnose.")
    for name, value in (("--every", every), ("--until-idle", until_idle)):
        if value is not None and not 0.0 < value < float("inf"):
            raise DomainError(f"{name} must be a number of seconds above 0; got {value:g}.")
    expectation = None if plan is None else Expectation.load(plan)
    options = {name: value for name, value in request.options.items() if name != "skip_malformed"}
    kept = None if state is None else Path(state)
    saved = None
    if kept is not None:
        from grpo_plan.cli.watch_state import load_state

        saved = load_state(kept, request.sources[0])
    follower = RunFollower(request.sources[0], **options) if saved is None else RunFollower.resume(saved["follow"])
    monitor = Monitor(expectation, settings=request.settings)
    shown: Shown = _shown(json or format == "json")
    session = Session(follower, monitor, shown, kept, saved)
    try:
        with follower:
            code = session.run(every, None if fail_on is None else fail_on.value, once=once, until_idle=until_idle)
    finally:
        shown.close()
    if code:
        raise typer.Exit(code)


class Shown(Protocol):
    """Where a watch says what it sees."""

    def happened(self, events: Sequence[FollowEvent]) -> None:
        """Something happened to the log."""

    def rows(self, documents: Sequence[dict[str, Any]], facts: Facts) -> None:
        """Steps were logged."""

    def alerts(self, alerts: Sequence[Alert]) -> None:
        """Something is wrong, or no longer."""

    def looked(self, diagnosis: Diagnosis | None, alerts: Sequence[Alert], age_s: float) -> None:
        """A look has ended."""

    def verdict(self, diagnosis: Diagnosis, age_s: float) -> None:
        """The watch ends."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Session:
    """One watch: from the log to what is told of it, and to the state from which it goes on."""

    def __init__(
        self, follower: RunFollower, monitor: Any, shown: Shown, kept: Path | None, saved: dict[str, Any] | None
    ) -> None:
        from grpo_plan.cli.watch_rows import Told
        from grpo_plan.cli.watch_state import Stdout

        self.follower, self.monitor, self.shown, self.kept = follower, monitor, shown, kept
        self.told, self.reason = Told(), ""
        self.fresh_at = time.monotonic()
        self.out: Stdout = getattr(shown, "out", None) or Stdout()
        if saved is None:
            self.save()  # before the first line, so that lines behind it are known to be of this watch
        else:
            monitor.book.restore(saved["alerts"])
            self.told.restore(saved["told"])
            self.out.go_on(saved["stdout"])

    def run(self, every: float, fail_on: str | None, *, once: bool, until_idle: float | None) -> int:
        """Watch until told to stop; the exit status."""
        from grpo_plan.readers.follow import follow_run

        ended = False

        def stop() -> bool:
            idle = until_idle is not None and time.monotonic() - self.fresh_at >= until_idle
            return ended or idle or signals.asked

        def sleep(seconds: float) -> None:
            if not once:
                signals.sleep(seconds if until_idle is None else min(seconds, until_idle))

        with Signals() as signals:
            for update in follow_run(self.follower, poll_s=every, stop=stop, sleep=sleep):
                self.take(update)
                if fail_on is not None and self.stands(fail_on):
                    self.end()
                    return FOUND
                ended = once and not update.behind
            diagnosis = self.end()
        if diagnosis is None and once:
            raise PilotFormatError(self.reason.removesuffix(" It is waited for.") or "The log holds no step yet.")
        failed = fail_on is not None and diagnosis is not None and bool(diagnosis.at_least(fail_on))
        return FOUND if failed and not signals.asked else 0

    def take(self, update: Update) -> None:
        """Say what a look at the log brought, then keep where it stands."""
        from grpo_plan.cli.watch_rows import step_documents
        from grpo_plan.runs.facts import Facts

        if update.events:
            self.shown.happened(update.events)
            self.reason = update.events[-1].message
        log = update.log
        if update.changed and log is not None:
            self.fresh_at = time.monotonic()
            alerts = self.monitor.look_if_due(log)
            facts = self.monitor.diagnosis.facts if self.monitor.diagnosis else None
            if facts is None or facts.run is not log:
                facts = Facts(log, self.monitor.settings, self.monitor.expectation)
            fresh = self.told.fresh(log, update.new_steps.tolist())
            if fresh:
                said = step_documents(facts, fresh)
                self.shown.rows(
                    [{**row, "again": again} for row, again in zip(said, fresh.values(), strict=True)], facts
                )
            if alerts:
                self.shown.alerts(alerts)
        self.shown.looked(self.monitor.diagnosis, self.monitor.alerts, time.monotonic() - self.fresh_at)
        if update.changed or update.events:
            self.save()

    def stands(self, severity: str) -> bool:
        """Whether a finding that was told is at least so grave."""
        from grpo_plan.runs.finding import Severity

        least = Severity(severity).rank
        return any(told.rank >= least for told in self.monitor.standing.values())

    def end(self) -> Diagnosis | None:
        """A last look and the verdict; None without a step."""
        log = self.follower.log
        if log is None or not log.steps.size:
            return None
        alerts = self.monitor.look(log)
        if alerts:
            self.shown.alerts(alerts)
        found: Diagnosis = self.monitor.diagnosis
        self.shown.verdict(found, time.monotonic() - self.fresh_at)
        self.save()
        return found

    def save(self) -> None:
        """Keep where the watch stands."""
        from grpo_plan.cli.watch_state import save_state

        if self.kept is not None:
            save_state(self.kept, self.follower, self.monitor.book, self.told, self.out.place())


def _shown(json: bool) -> Shown:
    from grpo_plan.cli.watch_shown import JsonLines, LivePage, TextLines

    if json:
        return JsonLines()
    unicode = has_blocks(sys.stdout.encoding)
    return LivePage(unicode=unicode) if sys.stdout.isatty() else TextLines()


class Signals:
    """Ctrl-C and a request to end are noted, and end a pause; what was begun is finished. A second one ends at once."""

    def __init__(self) -> None:
        self.asked = False
        self._asleep = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        with contextlib.suppress(ValueError):  # not the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float) -> None:
        """Pause, until someone asks to end."""
        try:
            self._asleep = True
            if not self.asked:
                time.sleep(seconds)
        except _Woken:
            pass
        finally:
            self._asleep = False

    def _note(self, *_: object) -> None:
        again, self.asked = self.asked, True
        if self._asleep:
            raise _Woken
        if again:
            raise KeyboardInterrupt


class _Woken(Exception):
    """A pause ends early."""
