"""``grpo-plan watch`` on logs that another process is writing, killed and started again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grpo_plan.cli.main import main
from grpo_plan.cli.watch import Signals
from grpo_plan.cli.watch_rows import Told
from grpo_plan.cli.watch_state import Stdout, load_state
from grpo_plan.cli.watch_view import view
from grpo_plan.errors import DomainError
from grpo_plan.runs.alerts import Alert, News
from grpo_plan.runs.diagnosis import diagnose
from grpo_plan.runs.finding import Severity
from tests.conftest import ROOT
from tests.runs import composed, expectation, plan_body, run_of

WRITER = """
import json, os, sys, time
path, first, last, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with open(path, "a", buffering=1) as log:
    for step in range(first, last + 1):
        while step % 40 == 1 and len(sys.argv) > 5 and not os.path.exists(sys.argv[5] + str(step)):
            time.sleep(0.01)
        row = json.dumps({"step": step, "env/all/by_group/frac_mixed": 0.5, "env/all/by_group/frac_all_good": 0.3,
                          "env/all/by_group/frac_all_bad": 0.2, "env/all/reward/total": 0.4 + 0.001 * step})
        log.write(row[:25]); log.flush(); log.write(row[25:] + "\\n")
        time.sleep(pause)
"""
QUICK = ("--every", "0.02")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "grpo_plan", "watch", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


def started(*arguments: object, **more: Any) -> subprocess.Popen[str]:
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(command(*arguments), text=True, cwd=ROOT, env=environment(), **given)


def watched(*arguments: object) -> SimpleNamespace:
    """The command in this process: exit status and what it printed."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["grpo-plan", "watch", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    return SimpleNamespace(returncode=ended.value.code, stdout=out.getvalue(), stderr=err.getvalue())


def write_rows(path: Path, first: int, last: int, mode: str = "a", **columns: float) -> None:
    """Rows of tinker's metrics."""
    fail, passes = columns.get("fail", 0.2), columns.get("passes", 0.3)
    with path.open(mode, encoding="utf-8") as log:
        for step in range(first, last + 1):
            row = {
                "step": step, "env/all/by_group/frac_mixed": 1.0 - fail - passes,
                "env/all/by_group/frac_all_good": passes, "env/all/by_group/frac_all_bad": fail,
                "env/all/reward/total": columns.get("reward", 0.4 + 0.001 * step),
            }  # fmt: skip
            log.write(json.dumps(row) + "\n")


def objects(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(o["schema"] == 1 and o["command"] == "watch" for o in found)
    return found


def steps_in(found: list[dict[str, Any]]) -> list[int]:
    return [o["step"] for o in found if o["event"] == "row"]


def until(holds: Callable[[], bool], seconds: float = 40.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Those that are started are ended."""
    running: list[subprocess.Popen[str]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.slow
def test_killed_and_started_again_it_loses_and_doubles_no_step(
    log: Path, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    state, out, last, gate = tmp_path / "watch.state", tmp_path / "out.jsonl", 160, tmp_path / "go"
    arguments = [str(log), "1", str(last), "0.02", str(gate)]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *arguments], text=True)
    processes.append(writer)

    def told() -> int:
        return out.read_text(encoding="utf-8").count('"row"')

    for first in (1, 41, 81):  # killed three times while rows come in
        with out.open("a", encoding="utf-8") as file:
            process = started(log, "--json", "--state", state, *QUICK, stdout=file)
        processes.append(process)
        Path(f"{gate}{first}").touch()
        until(lambda: told() > first + 8)  # noqa: B023 - called at once
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert told() < last
    Path(f"{gate}121").touch()
    with out.open("a", encoding="utf-8") as file:
        process = started(log, "--json", "--state", state, "--until-idle", "1.5", *QUICK, stdout=file)
        processes.append(process)
        assert process.wait(timeout=60) == 0
    writer.wait(timeout=10)
    found = objects(out.read_text(encoding="utf-8"))
    assert steps_in(found) == list(range(1, last + 1))
    assert not any(o.get("again") for o in found)
    assert [o["event"] for o in found].count("verdict") == 1
    assert found[-1]["event"] == "verdict"
    assert found[-1]["rows"] == last


def test_through_pipes_it_goes_on_from_its_state(log: Path, tmp_path: Path) -> None:
    state = tmp_path / "watch.state"
    write_rows(log, 1, 30)
    first = objects(watched(log, "--once", "--json", "--state", state).stdout)
    with log.open("a", encoding="utf-8") as file:
        file.write('{"step": 31, "env/all/by_')
    write_rows(tmp_path / "later", 31, 45)
    rest = (tmp_path / "later").read_text(encoding="utf-8")
    with log.open("a", encoding="utf-8") as file:
        file.write(rest[len('{"step": 31, "env/all/by_') :])
    second = objects(watched(log, "--once", "--json", "--state", state).stdout)
    third = objects(watched(log, "--once", "--json", "--state", state).stdout)
    assert steps_in(first) == list(range(1, 31))
    assert steps_in(second) == list(range(31, 46))
    assert steps_in(third) == []
    assert [o["rows"] for part in (first, second, third) for o in part if o["event"] == "verdict"] == [30, 45, 45]


def test_steps_logged_again_are_told_again_and_marked(log: Path, tmp_path: Path) -> None:
    state = tmp_path / "watch.state"
    write_rows(log, 1, 20)
    watched(log, "--once", "--json", "--state", state)
    write_rows(log, 16, 22, reward=0.9)
    rows = [
        o for o in objects(watched(log, "--once", "--json", "--state", state).stdout) if o["event"] in ("row", "file")
    ]
    assert [(o["step"], o["again"]) for o in rows if o["event"] == "row"] == [
        *((s, True) for s in range(16, 21)), (21, False), (22, False),
    ]  # fmt: skip
    assert "went back" in {o["kind"] for o in rows if o["event"] == "file"}


def test_a_document_that_is_read_anew_is_told_once(tmp_path: Path) -> None:
    path, state = tmp_path / "trainer_state.json", tmp_path / "watch.state"

    def write(last: int) -> None:
        rows = [
            {"step": s, "loss": 0.1, "reward": 0.5, "reward_std": 0.4, "frac_reward_zero_std": 0.25}
            for s in range(1, last + 1)
        ]
        path.write_text(json.dumps({"global_step": last, "log_history": rows}), encoding="utf-8")

    write(12)
    first = objects(watched(path, "--once", "--json", "--state", state).stdout)
    write(15)
    second = objects(watched(path, "--once", "--json", "--state", state).stdout)
    assert steps_in(first) == list(range(1, 13))
    assert steps_in(second) == [13, 14, 15]


@pytest.mark.slow
def test_it_fails_as_soon_as_a_finding_is_grave_enough(
    log: Path, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    process = started(log, "--json", "--fail-on", "warning", *QUICK)
    processes.append(process)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER.replace("0.5, ", "0.02, ").replace("0.3", "0.0").replace("0.2,", "0.98,")
         .replace("0.4 + 0.001 * step", "0.01"), str(log), "1", "400", "0.03", str(tmp_path / "go")], text=True
    )  # fmt: skip
    processes.append(writer)
    (tmp_path / "go1").touch()  # no more than 40 rows: the next gate stays shut
    said, _ = process.communicate(timeout=50)
    assert process.returncode == 4
    found = objects(said)
    alerts = [o for o in found if o["event"] == "alert"]
    assert any(o["severity"] in ("warning", "critical") and o["new"] == "raised" for o in alerts)
    assert 10 <= max(steps_in(found)) <= 40
    assert found[-1]["event"] == "verdict"


def test_ctrl_c_ends_with_a_verdict_and_0(log: Path, tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    write_rows(log, 1, 25, fail=0.9, passes=0.0, reward=0.05)
    process = started(log, "--state", tmp_path / "state", "--every", "30")
    processes.append(process)
    until(lambda: (tmp_path / "state").exists())
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    lines = said.splitlines()
    assert lines[0].startswith("25 rows, to step 25")
    assert lines[-1].startswith("Verdict: ")


def test_the_last_look_decides_as_diagnose_does(log: Path) -> None:
    write_rows(log, 1, 30, fail=1.0, passes=0.0, reward=0.0)
    done = watched(log, "--once", "--fail-on", "critical")
    assert done.returncode == 4
    assert watched(log, "--once", "--fail-on", "warning", "--json").returncode == 4
    write_rows(log, 1, 30, mode="w", fail=0.1, passes=0.1)
    assert watched(log, "--once", "--fail-on", "warning").returncode == 0


def test_a_plan_is_compared(log: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_body()), encoding="utf-8")
    write_rows(log, 1, 30)
    said = watched(log, "--once", "--plan", plan, "--group-size", 8).stdout
    assert "plan 0.45 to 0.55" in said.splitlines()[0]
    assert "in line with the plan" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("a", "b", "--once"), 2, "watch follows one log; got 2"),
        (("nowhere/x.jsonl", "--once"), 1, "is not there"),
        (("x", "--every", "0"), 2, "--every must be a number of seconds above 0; got 0."),
        (("x", "--until-idle", "-1"), 2, "--until-idle must be a number of seconds above 0"),
        (("x", "--format", "markdown"), 2, "use grpo-plan diagnose"),
        (("-", "--once"), 2, "that can be read again"),
        (("x", "--once", "--state", "nowhere/state"), 2, "no such folder"),
        (("x", "--once", "--plan", "nowhere.json"), 1, "nowhere.json: cannot be read"),
    ],
)
def test_what_it_refuses(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = watched(*arguments)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith("grpo-plan: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_state_of_something_else_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert load_state(state, "log") is None
    for text in ("", "{", "[]", "{}", '{"grpo_plan_watch": 1, "follow": 3}'):
        state.write_text(text, encoding="utf-8")
        with pytest.raises(DomainError, match=r"holds no state of grpo-plan watch\. Give another file"):
            load_state(state, "log")
    state.write_text('{"grpo_plan_watch": 1, "follow": {"path": "other"}}', encoding="utf-8")
    with pytest.raises(DomainError, match="is that of other, not of log"):
        load_state(state, "log")


def test_lines_that_are_there_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    with path.open("a+", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        out = Stdout()
        out.write(["a\n"])
        saved = out.place()
        out.write(["b\n", "c\n"])
        file.write('{"half')
        file.flush()
        again = Stdout()
        again.go_on(saved)
        again.write(["b\n", "c\n", "c\n", "d\n"])
        again.go_on([0, 0, 0])
    assert path.read_text(encoding="utf-8") == 'a\nb\nc\n{"half\nc\nd\n'


def test_told_steps_survive_a_restart() -> None:
    run = run_of("trl", {"dead": [0.5, 0.25, np.nan], "reward": [0.1, 0.2, 0.3]})
    told = Told()
    assert told.fresh(run, [1, 2, 3]) == {1: False, 2: False, 3: False}
    other = Told()
    other.restore(json.loads(json.dumps(told.state())))
    changed = run_of("trl", {"dead": [0.5, 0.5, np.nan], "reward": [0.1, 0.2, 0.3]})
    assert other.fresh(changed, [1, 2, 3]) == {2: True}
    with pytest.raises(DomainError, match="damaged"):
        other.restore({"steps": [1]})


def test_the_page_holds_verdict_bars_band_and_alerts() -> None:
    run = composed(np.full(40, 0.6), np.full(40, 0.1))
    found = diagnose(run, expectation())
    alert = Alert(step=40, id="STARVED", severity=Severity.WARNING, says="it says so.", remedy="Do.", new=News.RAISED)
    for unicode, full in ((True, "█"), (False, "#")):
        text = [line for line, _ in view(found, [alert], 75.0, unicode=unicode)]
        assert text[0].startswith(found.verdict[:40])
        assert "40 rows, last step 40, new 1 min ago" in text
        assert any(line.startswith("  all-fail") and line.count(full) == 24 for line in text)
        assert any("the plan's 0.45 to 0.55" in line for line in text)
        assert "WARNING raised at step 40: STARVED: it says so. Do." in text
        assert all(len(line) <= 80 for line in text if not line.startswith("each"))
    assert any(style == "yellow" for _, style in view(found, [alert], 1.0, unicode=True))


def test_an_end_that_is_asked_for_twice_comes_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.asked
        signals.sleep(60.0)  # no pause any more
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
