"""A log that grows while it is read: every row once, whatever happens to its file and to the one who reads."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.readers.follow import Happened, RunFollower, Update, follow_run
from grpo_plan.run_log import RunLog
from tests.conftest import ROOT

DATA = Path(__file__).parent / "data"


def row(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "reward": 0.25 + step / 64, "reward_std": 0.5, "frac_reward_zero_std": 0.5, **more}


def lines(rows: Sequence[Any]) -> bytes:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows).encode()


def put(path: Path, data: bytes, mode: str = "ab") -> None:
    with path.open(mode) as file:
        file.write(data)


def same(found: RunLog | None, expected: RunLog, *, dropped: bool = True) -> None:
    assert found is not None
    assert found.steps.tolist() == expected.steps.tolist()
    assert found.eval_steps.tolist() == expected.eval_steps.tolist()
    for have, want in ((found.metrics, expected.metrics), (found.eval_metrics, expected.eval_metrics)):
        assert list(have) == list(want)
        for name, values in want.items():
            np.testing.assert_array_equal(have[name], values, err_msg=name)
    assert (found.tool, found.format, found.group_size) == (expected.tool, expected.format, expected.group_size)
    assert dict(found.config) == dict(expected.config)
    if dropped:
        assert dict(found.dropped) == dict(expected.dropped)
        assert set(found.notes) == set(expected.notes)


def kinds(update: Update) -> list[str]:
    return [event.kind.value for event in update.events]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def follower(log: Path) -> Iterator[RunFollower]:
    with RunFollower(log) as found:
        yield found


# --- growing ------------------------------------------------------------------------------------------------------


def test_a_file_not_there_yet_is_waited_for_and_then_read(log: Path, follower: RunFollower) -> None:
    first, again = follower.poll(), follower.poll()
    assert kinds(first) == ["waiting"]
    assert kinds(again) == []
    assert first.log is None
    put(log, b"")
    assert kinds(follower.poll()) == ["waiting"]
    put(log, lines([row(1), row(2)]))
    update = follower.poll()
    assert kinds(update) == ["started"]
    assert (update.new_steps.tolist(), update.new_rows, update.changed) == ([1, 2], 2, True)
    same(update.log, gp.read_run(log))
    quiet = follower.poll()
    assert (quiet.changed, quiet.new_steps.size, quiet.new_rows, quiet.behind) == (False, 0, 0, False)
    assert quiet.log is update.log is follower.log


def test_half_a_line_waits_for_its_end_even_within_a_letter(log: Path, follower: RunFollower) -> None:
    data = lines([row(1), row(2, note="größer")])
    cut = data.index("ö".encode()) + 1
    put(log, data[:cut])
    assert follower.poll().new_steps.tolist() == [1]
    assert follower.poll().events == ()
    put(log, data[cut:])
    assert follower.poll().new_steps.tolist() == [2]
    same(follower.log, gp.read_run(log))


def test_a_last_line_without_a_break_is_taken_when_it_is_whole_and_only_once(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1), row(2)])[:-1])
    taken = [follower.poll().new_steps.tolist() for _ in range(10)]
    assert taken[0] == [1]
    assert taken.count([2]) == 1  # after it stayed as it is for some looks
    put(log, b"\n" + lines([row(3)]))
    assert follower.poll().new_steps.tolist() == [3]
    same(follower.log, gp.read_run(log))
    put(log, lines([row(4)])[:-1])
    assert follower.finish().new_steps.tolist() == [4]
    put(log, b' {"step": 5\n')  # cannot be a row any more
    assert kinds(follower.poll()) == ["damaged"]


def test_half_a_last_line_at_the_end_is_counted_but_not_kept_as_damage(log: Path, follower: RunFollower) -> None:
    data = lines([row(1), row(2)])
    put(log, data[:-9])
    follower.poll()
    last = follower.finish()
    same(last.log, gp.read_run(log))
    put(log, data[-9:])
    follower.poll()
    same(follower.log, gp.read_run(log))


def test_a_backlog_is_read_in_pieces(log: Path) -> None:
    put(log, lines([row(i, text="x" * 50_000) for i in range(400)]))
    with RunFollower(log, max_bytes=4 << 20) as follower:
        updates = [follower.poll()]
        while updates[-1].behind:
            updates.append(follower.poll())
    assert len(updates) > 3
    assert [s for u in updates for s in u.new_steps.tolist()] == list(range(400))
    same(updates[-1].log, gp.read_run(log))


def test_writers_of_one_step_and_evaluations_are_joined(log: Path, follower: RunFollower) -> None:
    for part in (
        [row(1)],
        [{"step": 1, "progress/loss": 0.5, "kl": 0.25}],
        [{"step": 1, "eval_reward": 0.5}],
        [row(2)],
    ):
        put(log, lines(part))
        follower.poll()
    same(follower.log, gp.read_run(log))
    assert follower.log is not None
    assert follower.log.metrics["kl"][0] == 0.25


def test_the_epoch_of_an_evaluation_before_its_step_is_kept(log: Path, follower: RunFollower) -> None:
    for part in ([row(1, epoch=0.1)], [{"step": 2, "epoch": 0.2, "eval_reward": 0.5}], [row(2)], [row(3)]):
        put(log, lines(part))
        follower.poll()
    same(follower.log, gp.read_run(log))


def test_a_run_taken_up_at_a_checkpoint_counts_its_later_rows(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(i) for i in range(1, 8)]))
    follower.poll()
    put(log, lines([row(i, reward=0.75) for i in (4, 5)]))
    update = follower.poll()
    assert kinds(update) == ["went back"]
    assert update.new_steps.tolist() == [4, 5]
    same(update.log, gp.read_run(log))
    assert follower.log is not None
    assert follower.log.steps.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "rows",
    [
        [{"_step": 0, "kl": 0.1}, {"_step": 9, "global_step": 1, "kl": 0.2}, {"step": 2, "global_step": 7, "kl": 0.3}],
        [{"kl": 0.1, "reward": 0.5}, {"kl": 0.2, "reward": 0.5}, {"kl": 0.3, "global_step/max_steps": "7/9"}],
        [
            {"step": 1, "data": {"actor/kl": 0.5, "x": 1}},
            {"step": 2, "data": {"actor/kl": 0.25}},
            {"step": 3, "kl": 0.1},
        ],
    ],
)
def test_a_better_column_of_steps_or_another_format_is_for_the_rows_before_too(
    log: Path, follower: RunFollower, rows: list[dict[str, Any]]
) -> None:
    for part in rows:
        put(log, lines([part]))
        follower.poll()
    same(follower.log, gp.read_run(log))


# --- damage -------------------------------------------------------------------------------------------------------


def test_damaged_lines_are_named_once_and_counted(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]) + b'{"step": 2, "rew{"step": 2}\n' + lines([row(3)]) + b"\xff\xfe\n" + b"[1, 2]\n")
    first = follower.poll()
    assert kinds(first) == ["started", "damaged"]
    assert ":2: is no row" in first.events[1].message
    put(log, b"garbage\n" + lines([row(4)]))
    then = follower.poll()
    assert then.events == ()
    assert then.log is not None
    assert then.log.steps.tolist() == [1, 3, 4]
    assert then.log.dropped == {"malformed_line": 3, "rows_that_are_no_objects": 1}


def test_null_bytes_of_a_crash_are_passed_over(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]) + b"\0" * 5000)
    assert follower.poll().new_steps.tolist() == [1]
    put(log, lines([row(2)]) + b'{"step": 3, "rew' + b"\0" * 300 + lines([row(3)]))
    update = follower.poll()
    assert update.new_steps.tolist() == [2, 3]
    assert kinds(update) == ["damaged"]


def test_a_damaged_first_line_and_a_byte_order_mark(log: Path, follower: RunFollower) -> None:
    put(log, b'\xef\xbb\xbf{"step": 0, "rew\n' + lines([row(1)]))
    assert kinds(follower.poll()) == ["started", "damaged"]
    assert follower.log is not None
    assert follower.log.steps.tolist() == [1]


def test_vanished_and_closed_files_are_one_line_each(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]))
    follower.poll()
    log.rename(log.with_name("elsewhere"))
    assert kinds(follower.poll()) == ["gone"]
    assert follower.poll().events == ()
    log.with_name("elsewhere").rename(log)
    put(log, lines([row(2)]))
    update = follower.poll()
    assert kinds(update) == ["back"]
    assert update.new_steps.tolist() == [2]
    if os.name == "posix" and os.geteuid():
        log.chmod(0)
        assert kinds(follower.poll()) == ["unreadable"]
        log.chmod(0o600)
        assert kinds(follower.poll()) == ["back"]
    os.replace(log, log.with_name("elsewhere"))
    log.mkdir()
    assert kinds(follower.poll()) == ["unreadable"]
    assert "no plain file" not in str(follower.poll().events)


def test_failing_reads_are_told_and_tried_again(
    log: Path, follower: RunFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_plan.readers import follow_tail

    put(log, lines([row(1)]))
    follower.poll()
    put(log, lines([row(2)]))

    def stale(*_: object) -> str:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(follow_tail, "_agreement", stale)
        assert kinds(follower.poll()) == ["unreadable"]
        assert follower.poll().events == ()
    assert follower.poll().new_steps.tolist() == [2]


# --- files that change under their name ---------------------------------------------------------------------------


def test_a_renamed_file_is_read_to_its_end_then_the_new_one(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]))
    follower.poll()
    put(log, lines([row(2)]))
    log.rename(log.with_name("log.jsonl.1"))
    put(log.with_name("log.jsonl.1"), lines([row(3)]))
    put(log, b"")
    assert follower.poll().new_steps.tolist() == [2, 3]
    put(log.with_name("log.jsonl.1"), lines([row(4)]))  # a writer that still has the old file open
    assert follower.poll().new_steps.tolist() == [4]
    put(log, lines([row(5)]))
    update = follower.poll()
    assert kinds(update) == ["rotated"]
    assert update.new_steps.tolist() == [5]
    whole = log.with_name("whole.jsonl")
    put(whole, lines([row(i) for i in range(1, 6)]))
    same(follower.log, gp.read_run(whole))


def test_a_removed_file_is_read_to_its_end_too(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]))
    follower.poll()
    put(log, lines([row(2)]))
    log.unlink()
    put(log, lines([row(3)]))
    assert follower.poll().new_steps.tolist() == [2, 3]


def test_two_rotations_between_two_looks(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]))
    follower.poll()
    for step in (2, 3):
        if log.with_name("log.jsonl.1").exists():
            log.with_name("log.jsonl.1").rename(log.with_name("log.jsonl.2"))
        log.rename(log.with_name("log.jsonl.1"))
        put(log, lines([row(step)]))
    update = follower.poll()
    assert update.new_steps.tolist() == [2, 3]
    assert follower.log is not None
    assert follower.log.steps.tolist() == [1, 2, 3]


def test_a_cut_file_goes_on_from_its_start_and_its_copy_is_read(log: Path, follower: RunFollower) -> None:
    data = lines([row(i) for i in range(1, 5)])
    put(log, data[: len(data) // 2 + 7])
    follower.poll()
    put(log, data[len(data) // 2 + 7 : -5])
    shutil.copy(log, log.with_name("log.jsonl.1"))
    os.truncate(log, 0)
    update = follower.poll()
    assert kinds(update) == ["truncated"]
    assert update.new_steps.tolist() == [3]
    put(log, data[-5:] + lines([row(5)]))  # the rest of the line that was cut in two
    update = follower.poll()
    assert update.new_steps.tolist() == [4, 5]
    whole = log.with_name("whole.jsonl")
    put(whole, data + lines([row(5)]))
    same(follower.log, gp.read_run(whole))


def test_a_cut_file_without_a_copy_says_what_may_be_missing(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1), row(2)]))
    follower.poll()
    put(log, lines([row(3)]), "wb")
    update = follower.poll()
    assert kinds(update) == ["lost", "truncated"]
    assert follower.log is not None
    assert follower.log.steps.tolist() == [1, 2, 3]


def test_a_longer_copy_in_the_place_of_a_file_is_gone_on_with(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1), row(2)]))
    follower.poll()
    put(log.with_name("new"), lines([row(1), row(2), row(3)]))
    os.replace(log.with_name("new"), log)
    update = follower.poll()
    assert kinds(update) == ["copied"]
    assert (update.new_steps.tolist(), update.new_rows) == ([3], 1)
    same(follower.log, gp.read_run(log))


@pytest.mark.parametrize("how", ["replaced", "written over", "cut"])
def test_a_log_that_starts_over_replaces_what_was_read(log: Path, follower: RunFollower, how: str) -> None:
    put(log, lines([row(1), row(2), row(3)]))
    follower.poll()
    again = lines(
        [row(1, reward=0.5), row(2, reward=0.5)] + ([row(3), row(4), row(5)] if how == "written over" else [])
    )
    if how == "replaced":
        put(log.with_name("new"), again)
        os.replace(log.with_name("new"), log)
    else:
        put(log, again, "r+b")
        os.truncate(log, len(again))
    update = follower.poll()
    assert "replaced" in kinds(update)
    same(update.log, gp.read_run(log))


def test_a_log_written_over_behind_a_long_beginning(log: Path, follower: RunFollower) -> None:
    start = lines([row(1, text="x" * 6000)])
    put(log, start + lines([row(2), row(3)]))
    follower.poll()
    put(log, start + lines([row(2, reward=0.5), row(3, reward=0.5), row(4)]), "wb")
    assert "replaced" in kinds(follower.poll())
    same(follower.log, gp.read_run(log))


def test_a_file_that_never_rests_does_not_hold_a_look(
    log: Path, follower: RunFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo_plan.readers import follow_tail

    put(log, lines([row(1), row(2)]))
    follower.poll()
    monkeypatch.setattr(follow_tail, "_agreement", lambda file, cursor: "other" if cursor.offset else "same")
    put(log, lines([row(3)]))
    for update in (follower.poll(), follower.finish()):
        assert "replaced" in kinds(update)
        same(update.log, gp.read_run(log))


def test_a_shorter_file_with_the_same_beginning_is_believed_after_some_looks(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1), row(2), row(3)]))
    follower.poll()
    whole = log.read_bytes()
    os.truncate(log, len(lines([row(1), row(2)])))
    follower.poll()
    put(log, whole, "r+b")  # an old size, as a file system over a network may tell it
    update = follower.poll()
    assert (update.events, update.new_rows) == ((), 0)
    os.truncate(log, len(lines([row(1), row(2)])))
    seen = [kind for _ in range(6) for kind in kinds(follower.poll())]
    assert "replaced" in seen
    same(follower.log, gp.read_run(log))


def test_times_of_change_do_not_matter(log: Path, follower: RunFollower) -> None:
    put(log, lines([row(1)]))
    os.utime(log, (2e9, 2e9))
    follower.poll()
    put(log, lines([row(2)]))
    os.utime(log, (1e9, 1e9))
    assert follower.poll().new_steps.tolist() == [2]
    put(log.with_name("new"), lines([row(1), row(2)]).replace(b"0.5", b"0.7"))
    os.replace(log.with_name("new"), log)
    os.utime(log, (1e9, 1e9))  # same size, same time
    assert "replaced" in kinds(follower.poll())
    same(follower.log, gp.read_run(log))


# --- tables, documents and folders --------------------------------------------------------------------------------


def table(rows: Sequence[dict[str, Any]], names: Sequence[str], header: bool = True) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names)
    if header:
        writer.writeheader()
    writer.writerows({name: r.get(name) for name in names} for r in rows)
    return out.getvalue().encode()


def test_a_table_with_quotes_and_breaks_in_them(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    names = ["step", "reward", "reward_std", "frac_reward_zero_std", "note"]
    data = table([row(1, note='a "b",\nc'), row(2), row(3, note="\n\n"), row(4, note="ä")], names)
    with RunFollower(path) as follower:
        for cut in range(len(data)):
            put(path, data[cut : cut + 1])
            follower.poll()
    same(follower.log, gp.read_run(path))


def test_a_table_written_over_with_more_columns(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    names = ["step", "reward", "reward_std", "frac_reward_zero_std"]
    with RunFollower(path) as follower:
        put(path, table([row(1), row(2)], names))
        follower.poll()
        put(path, table([row(1), row(2), row(3, kl=0.5)], [*names, "kl"]), "wb")
        assert "replaced" in kinds(follower.poll())
        same(follower.log, gp.read_run(path))
        os.replace(path, path.with_name("metrics.csv.1"))
        put(path, table([row(4, kl=0.1)], [*names, "kl"]))  # a new file names its columns again
        put(path, table([row(5, kl=0.1)], [*names, "kl"], header=False))
        follower.poll()
        put(path, table([row(6)], [*names, "kl"], header=False), "wb")  # one that was cut does not
        follower.poll()
        assert follower.log is not None
        assert follower.log.steps.tolist() == [1, 2, 3, 4, 5, 6]


def state_of(step: int) -> dict[str, Any]:
    return {"global_step": step, "log_history": [row(i) for i in range(1, step + 1)]}


def test_the_newest_checkpoint_of_a_folder_half_written_or_not(tmp_path: Path) -> None:
    with RunFollower(tmp_path / "run") as follower:
        assert kinds(follower.poll()) == ["waiting"]
        for step in (2, 4):
            folder = tmp_path / "run" / f"checkpoint-{step}"
            folder.mkdir(parents=True)
            text = json.dumps(state_of(step), indent=2)
            (folder / "trainer_state.json").write_text(text[: len(text) // 2])
            for _ in range(3):
                assert not follower.poll().new_steps.size
            (folder / "trainer_state.json").write_text(text)
            updates = [follower.poll() for _ in range(8)]
            assert [s for u in updates for s in u.new_steps.tolist()] == [step - 1, step]
            same(follower.log, gp.read_run(tmp_path / "run"))


def test_event_files_are_read_anew(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", exc_type=ImportError)
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    with RunFollower(tmp_path) as follower:
        follower.poll()
        writer = EventFileWriter(str(tmp_path))
        for step in (1, 2, 3):
            value = Summary.Value(tag="train/frac_reward_zero_std", simple_value=0.5)
            writer.add_event(Event(step=step, summary=Summary(value=[value]), wall_time=1.0))
            writer.flush()
            updates = [follower.poll() for _ in range(3)]
            assert [s for u in updates for s in u.new_steps.tolist()] == [step]
        writer.close()
        same(follower.log, gp.read_run(tmp_path))


@pytest.mark.parametrize("name", ["verl", "tinker", "prime-rl", "ms-swift", "generic"])
def test_logs_of_trainers_grow_to_what_is_read_at_once(tmp_path: Path, name: str) -> None:
    rows: dict[str, Callable[[int], dict[str, Any]]] = {
        "verl": lambda i: {"step": i, "data": {"critic/score/mean": i / 8, "actor/entropy": 0.5}},
        "tinker": lambda i: {"step": i, "env/all/by_group/frac_mixed": i / 8, "env/all/reward/total": 0.5},
        "prime-rl": lambda i: {"step": i, "batch/solve_none": i / 8, "batch/solve_all": 0.1, "reward/mean": 0.3},
        "ms-swift": lambda i: {"global_step/max_steps": f"{i}/9", "reward": 0.5, "frac_reward_zero_std": i / 8},
        "generic": lambda i: {"step": i, "my_metric": i / 8},
    }
    path = tmp_path / ("logging.jsonl" if name == "ms-swift" else "metrics.jsonl")
    with RunFollower(path) as follower:
        for i in range(9):
            put(path, lines([rows[name](i)]))
            follower.poll()
        same(follower.log, gp.read_run(path))


def test_a_log_before_a_resume_in_a_folder(tmp_path: Path) -> None:
    def tinker(i: int, mixed: float) -> dict[str, Any]:
        return {"step": i, "env/all/by_group/frac_mixed": mixed, "env/all/reward/total": 0.5}

    put(tmp_path / "metrics.jsonl.pre_resume_1", lines([tinker(i, 0.5) for i in range(6)]))
    put(tmp_path / "metrics.jsonl", lines([tinker(i, 0.25) for i in range(4, 8)]))
    with RunFollower(tmp_path) as follower:
        follower.poll()
        put(tmp_path / "metrics.jsonl", lines([tinker(8, 0.25)]))
        follower.poll()
        same(follower.log, gp.read_run(tmp_path), dropped=False)


def test_rollouts_beside_a_log_are_read_once_a_minute(tmp_path: Path) -> None:
    shutil.copytree(DATA / "trl" / "binary", tmp_path / "run")
    now = [0.0]
    with RunFollower(tmp_path / "run", clock=lambda: now[0]) as follower:
        update = follower.poll()
        same(update.log, gp.read_run(tmp_path / "run"))
    state = json.loads((DATA / "trl" / "binary" / "trainer_state.json").read_text())
    folder = tmp_path / "lines"
    shutil.copytree(DATA / "trl" / "binary", folder, ignore=shutil.ignore_patterns("trainer_state.json"))
    with RunFollower(folder / "log.jsonl") as alone:
        put(folder / "log.jsonl", lines(state["log_history"][:5]))
        found = alone.poll().log
        assert found is not None
        assert found.groups is None
    with RunFollower(folder, clock=lambda: now[0]) as follower:
        follower.poll()
        put(folder / "log.jsonl", lines(state["log_history"][5:]))
        follower.poll()
        now[0] = 61.0
        follower.poll()
        assert follower.log is not None
        assert follower.log.groups is not None
        same(follower.log, gp.read_run(folder))


# --- state --------------------------------------------------------------------------------------------------------


def again(follower: RunFollower) -> RunFollower:
    state = json.loads(json.dumps(follower.state()))
    follower.close()
    return RunFollower.resume(state)


def test_a_resumed_follower_finds_what_was_renamed_meanwhile(log: Path) -> None:
    put(log, lines([row(1)]) + b'{"step": 2, ')
    follower = RunFollower(log)
    follower.poll()
    follower = again(follower)
    put(log, lines([row(2)])[len(b'{"step": 2, ') :])
    for step in (3, 4):
        if log.with_name("log.jsonl.1").exists():
            log.with_name("log.jsonl.1").rename(log.with_name("log.jsonl.2"))
        log.rename(log.with_name("log.jsonl.1"))
        put(log, lines([row(step)]))
    update = follower.poll()
    follower.close()
    assert update.new_steps.tolist() == [2, 3, 4]
    assert "lost" not in kinds(update)
    whole = log.with_name("whole.jsonl")
    put(whole, lines([row(i) for i in range(1, 5)]))
    same(update.log, gp.read_run(whole))


def test_a_resumed_follower_says_what_it_cannot_find(log: Path) -> None:
    put(log, lines([row(1)]))
    follower = RunFollower(log)
    follower.poll()
    follower = again(follower)
    log.rename(log.with_name("far away"))
    put(log, lines([row(3)]))
    update = follower.poll()
    follower.close()
    assert kinds(update) == ["lost", "rotated"]
    assert update.log is not None
    assert update.log.steps.tolist() == [1, 3]


def test_states_are_checked(tmp_path: Path, log: Path) -> None:
    put(log, lines([row(1)]))
    with RunFollower(log, group_size=8, config={"beta": 0.0}) as follower:
        follower.poll()
        state = follower.state()
        follower.save(tmp_path / "state.json")
        with pytest.raises(gp.DomainError, match="cannot be written"):
            follower.save(tmp_path / "none" / "state.json")
    with RunFollower.load(tmp_path / "state.json") as found:
        assert found.log is not None
        assert (found.log.group_size, found.log.config["beta"]) == (8, 0.0)
        assert (found.poll().new_rows, found.state()) == (0, state)
    for damaged in (
        5,
        {},
        {**state, "grpo_plan_follow": 99},
        {**state, "lines": {"cursor": 3}},
        {**state, "options": {}},
    ):
        with pytest.raises(gp.DomainError, match="state"):
            RunFollower.resume(damaged)  # type: ignore[arg-type]
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(gp.DomainError, match="holds no state"):
        RunFollower.load(tmp_path / "state.json")
    with RunFollower(tmp_path / "later.jsonl") as waiting, RunFollower.resume(waiting.state()) as found:
        put(tmp_path / "later.jsonl", lines([row(1)]))
        assert found.poll().new_steps.tolist() == [1]


def test_an_interruption_leaves_a_whole_state(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_plan.readers.run_builder import RunBuilder

    put(log, lines([row(i) for i in range(1, 8)]))
    add, calls = RunBuilder.add, []

    def interrupted(builder: RunBuilder, found: Any, step: object) -> None:
        calls.append(step)
        if len(calls) == 4:
            raise KeyboardInterrupt
        add(builder, found, step)

    with RunFollower(log) as follower:
        with monkeypatch.context() as patch:
            patch.setattr(RunBuilder, "add", interrupted)
            with pytest.raises(KeyboardInterrupt):
                follower.poll()
        with RunFollower.resume(json.loads(json.dumps(follower.state()))) as found:
            put(log, lines([row(8)]))
            found.poll()
            same(found.log, gp.read_run(log))
        assert follower.poll().new_steps.tolist() == list(range(1, 9))
        same(follower.log, gp.read_run(log))


# --- the loop, and arguments ----------------------------------------------------------------------------------------


def test_the_loop_looks_waits_and_stops_with_a_last_look(log: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        put(log, lines([row(len(slept))])[: -1 if len(slept) == 3 else None])

    updates = list(follow_run(log, poll_s=2.5, sleep=sleep, stop=lambda: len(slept) == 3))
    assert slept == [2.5] * 3
    assert [u.new_steps.tolist() for u in updates] == [[], [1], [2], [3]]


def test_arguments_are_checked(log: Path) -> None:
    for bad in ({"path": ""}, {"path": "-"}, {"path": log, "max_bytes": 0}, {"path": log, "config": 3}):
        with pytest.raises(gp.DomainError):
            RunFollower(**bad)
    for more in ({"format": "no such"}, {"run": [3]}, {"group_size": 0}, {"pass_threshold": "x"}):
        with pytest.raises(gp.DomainError):
            RunFollower(log, **more)
    for pause in (0, -1, float("nan"), True):
        with pytest.raises(gp.DomainError, match="poll_s"):
            follow_run(log, poll_s=pause)
    with RunFollower(log) as follower, pytest.raises(gp.DomainError, match="options"):
        follow_run(follower, groups=False)


def test_several_logs_in_a_folder_are_told_until_one_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / f"{name}.jsonl", lines([row(1), row(2)]))
    with RunFollower(tmp_path) as follower:
        update = follower.poll()
        assert kinds(update) == ["waiting"]
        assert "holds 2 runs" in update.events[0].message
    with RunFollower(tmp_path, run="b.jsonl") as follower:
        same(follower.poll().log, gp.read_run(tmp_path, run="b.jsonl"))


# --- any log, cut anywhere ----------------------------------------------------------------------------------------

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-3, 3)
NAMES = st.sampled_from(["reward", "kl", "eval_reward", "grad_norm", "ä", "nested", "epoch"])
VALUES = NUMBERS | st.sampled_from([None, "x", "nan", [0.5], {"mean": 0.5}])
STEPS = st.fixed_dictionaries(
    {}, optional={"step": st.integers(0, 12), "_step": st.integers(0, 12), "global_step": st.integers(0, 12)}
)
ROWS = st.lists(
    st.tuples(STEPS, st.dictionaries(NAMES, VALUES, max_size=4)).map(lambda pair: {**pair[0], **pair[1]})
    | st.sampled_from(["garbage", "[1]", "", "  ", '{"step": 3, "kl": 1']),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ROWS, st.data())
def test_any_cutting_gives_the_log_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], data: st.DataObject
) -> None:
    rows = [{"step": 1, "reward": 0.5, "kl": 0.25}, *rows] if data.draw(st.booleans()) else rows
    text = "\n".join(r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows)
    whole = (text + data.draw(st.sampled_from(["", "\n", "\r\n"]))).encode()
    folder = tmp_path_factory.mktemp("any")
    expected = folder / "expected.jsonl"
    expected.write_bytes(whole)
    try:
        want = gp.read_run(expected, skip_malformed=True)
    except gp.PilotFormatError:
        want = None
    path = folder / "log.jsonl"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    follower = RunFollower(path)
    try:
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            put(path, whole[start:end])
            for _ in range(data.draw(st.integers(0, 2))):
                follower.poll()
            if data.draw(st.booleans()):
                follower = again(follower)
        follower.finish()
    finally:
        follower.close()
    if want is None:
        return
    same(follower.log, want)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.booleans(), st.data())
def test_any_renaming_cutting_and_replacing_gives_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, quoted: bool, data: st.DataObject
) -> None:
    """One change of the file between two looks, and restarts of the follower anywhere."""
    folder = tmp_path_factory.mktemp("any")
    count = data.draw(st.integers(4, 30))
    rows = [row(i, note='a "b", ü') for i in range(1, count + 1)]
    names = list(rows[0])
    suffix = "csv" if quoted else "jsonl"
    whole = table(rows, names) if quoted else lines(rows)
    expected, path = folder / f"expected.{suffix}", folder / f"log.{suffix}"
    expected.write_bytes(whole)
    sizes = data.draw(st.lists(st.integers(100, 400), max_size=8))
    cuts = [cut for cut in np.cumsum(sizes).tolist() if cut < len(whole) - 100]
    follower, copies = RunFollower(path), 0
    steps: list[int] = []
    try:
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            half = data.draw(st.integers(start + 100, max(end, start + 100)))  # a file is seen before it is changed
            put(path, whole[start:half])
            steps += follower.poll().new_steps.tolist()
            put(path, whole[half:end])
            change = data.draw(st.sampled_from(["none", "renamed", "cut", "replaced"])) if start else "none"
            if change.startswith("renamed"):
                for number in range(9, 0, -1):
                    if (old := path.with_name(f"{path.name}.{number}")).exists():
                        old.rename(path.with_name(f"{path.name}.{number + 1}"))
                path.rename(path.with_name(f"{path.name}.1"))
            elif change == "cut":
                copies += 1
                shutil.copy(path, path.with_name(f"{path.name}.copy{copies}"))
                os.truncate(path, 0)
            elif change == "replaced":
                shutil.copy(path, folder / "new")
                os.replace(folder / "new", path)
            if data.draw(st.booleans()):
                follower = again(follower)
            steps += follower.poll().new_steps.tolist()
        steps += follower.finish().new_steps.tolist()
    finally:
        follower.close()
    same(follower.log, gp.read_run(expected))
    assert sorted(steps) == list(range(1, count + 1))


# --- another process writes, and the follower is killed -----------------------------------------------------------

WRITER = """
import json, os, random, sys
path = sys.argv[1]
chance = random.Random(7)
rows = [json.dumps({"step": i, "reward": i / 64, "reward_std": 0.5, "frac_reward_zero_std": (i % 4) / 4, "w": "\\u00fc"},
        ensure_ascii=False) + "\\n" for i in range(1, 61)]
data = "".join(rows).encode()
log, at, turn = open(path, "ab", buffering=0), 0, 0
for _ in sys.stdin:
    turn += 1
    if turn == 8:
        os.rename(path, path + ".1")
        log.write(data[at : at + 33]); at += 33
        log.close()
        log = open(path, "ab", buffering=0)
    if turn == 15:
        with open(path, "rb") as source, open(path + ".copy", "wb") as copy:
            copy.write(source.read())
        os.truncate(path, 0)
    step = chance.randrange(40, 500) if turn < 25 else len(data)
    log.write(data[at : at + step]); at += step
    print("done" if at >= len(data) else "more", flush=True)
"""
WATCHER = """
import sys
from pathlib import Path
from grpo_plan.readers.follow import RunFollower
path, state = sys.argv[1:3]
follower = RunFollower.load(state) if Path(state).exists() else RunFollower(path)
for _ in sys.stdin:
    update = follower.poll()
    print(*update.new_steps.tolist(), flush=True)
    if sys.stdin.readline().strip() == "save":
        follower.save(state)
        print("saved", flush=True)
"""


def ask(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(word + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_a_killed_follower_of_another_process_has_every_step_once(tmp_path: Path) -> None:
    path, state = tmp_path / "log.jsonl", tmp_path / "state.json"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def watch() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", WATCHER, str(path), str(state)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    seen: list[int] = []
    watcher = watch()
    turn, told = 0, ""
    while told != "done":
        turn += 1
        told = ask(writer, "write")
        fresh = [int(step) for step in ask(watcher, "poll").split()]
        if turn in (5, 9, 14):  # killed after it looked, before it could save: it looks at this again
            watcher.kill()
            watcher.communicate()
            watcher = watch()
            continue
        seen += fresh
        assert ask(watcher, "save") == "saved"
    for process in (watcher, writer):
        process.communicate()
    assert turn > 15
    assert sorted(seen) == list(range(1, 61))
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(
        b"".join((path.with_name(n)).read_bytes() for n in ("log.jsonl.1", "log.jsonl.copy", "log.jsonl"))
    )
    with RunFollower.load(state) as follower:
        assert follower.finish().new_rows == 0
        same(follower.log, gp.read_run(whole))
    assert Happened.GONE.value == "gone"
