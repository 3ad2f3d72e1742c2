"""Reading at scale: the same pilot by any number of processes, bad lines counted up to a limit, and odd files of each kind."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers import jsontasks, read_independence, read_pilot
from tests.conftest import ROOT
from tests.test_cli import Run, run
from tests.test_readers import table_of

__all__ = ["run"]  # a fixture
GOOD = b'{"id": "a", "reward": 1}\n{"id": "b", "reward": 0}\n'


def whole(pilot: Pilot) -> tuple[Any, ...]:
    """All that a pilot holds."""
    assert pilot.prompt_id is not None
    tokens = None if pilot.response_tokens is None else pilot.response_tokens.tobytes()
    return (
        pilot.prompt_id.tolist(), pilot.successes.tolist(), pilot.rollouts.tolist(), tokens, dict(pilot.dropped),
        pilot.notes, pilot.provenance,
    )  # fmt: skip


def rollouts(count: int, start: int = 0) -> bytes:
    rows = (
        {"id": f"p{(i * 7919) % 97}", "reward": i % 3 == 0, "tokens": i / 7, "text": "x" * (i % 40)}
        for i in range(start, start + count)
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of 20 kB, and processes for the smallest file."""
    monkeypatch.setattr(jsontasks, "TASK_BYTES", 20_000)
    monkeypatch.setattr(jsontasks, "PARALLEL_BYTES", 1)


# --- several processes -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_tasks")
def test_any_number_of_workers_gives_the_same_pilot(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.jsonl").write_bytes(rollouts(900, 900 * i) + b"oops\n" * i)
    (tmp_path / "3.jsonl").write_bytes(gzip.compress(rollouts(300, 5000)) + gzip.compress(b"oops\n" + rollouts(9)))
    results = [whole(read_pilot(tmp_path, workers=workers, skip_malformed=True)) for workers in (1, 2, 3)]
    assert results[0] == results[1] == results[2]
    assert results[0][4] == {"malformed_line": 4}
    assert sum(results[0][2]) == 3009


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("fault", ['{"id": "a", "reward": 0.5}', "oops", '{"id": "a", "reward": "maybe"}'])
def test_any_number_of_workers_gives_the_same_first_error(tmp_path: Path, fault: str) -> None:
    lines = [rollouts(1, i).decode() for i in range(3000)]
    for i in (2000, 2001, 2900):
        lines[i] = f"{fault}\n"
    (tmp_path / "a.jsonl").write_bytes(rollouts(50))
    (tmp_path / "b.jsonl").write_text("".join(lines))
    (tmp_path / "c.jsonl").write_bytes(b"nothing of use\n")
    errors = []
    for workers in (1, 2, 3):
        with pytest.raises(PilotFormatError, match=r"b\.jsonl:2001: ") as caught:
            read_pilot(tmp_path, workers=workers)
        errors.append(str(caught.value))
    assert errors[0] == errors[1] == errors[2]


@pytest.mark.usefixtures("small_tasks")
def test_a_worker_that_dies_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(rollouts(2000))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(PilotFormatError, match=r"A reading process ended early \(status -?\d+\).*--workers 1"):
        read_pilot(tmp_path / "a.jsonl", workers=2)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    os.mkfifo(tmp_path / "started")
    path.write_bytes(rollouts(2000))
    code = (
        "import os, sys; sys.argv = ['grpo-plan', 'fit', sys.argv[1], '--workers', '2']\n"
        "from grpo_plan.readers import jsontasks, workers\n"
        "jsontasks.TASK_BYTES, jsontasks.PARALLEL_BYTES = 20_000, 1\n"
        "workers.Workers._may_start = lambda self: False\n"  # tasks wait for ever
        "take = workers.Workers.take\n"
        "def told(self):\n"
        "    open(os.environ['STARTED'], 'w').write(' '.join(str(p.pid) for p in self._processes))\n"
        "    return take(self)\n"
        "workers.Workers.take = told\n"
        "from grpo_plan.__main__ import main; main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STARTED": str(tmp_path / "started")},
    )  # fmt: skip
    children = (tmp_path / "started").read_text().split()
    assert len(children) == 2
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told == b"grpo-plan: interrupted.\n"
    assert not any(Path(f"/proc/{child}").exists() for child in children)


# --- bad lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("small_tasks")
def test_bad_lines_are_skipped_up_to_a_limit(tmp_path: Path, workers: int) -> None:
    lines = [rollouts(1, i).decode() for i in range(3000)]
    bad = {5: "[1]", 700: "x" * 50, 1500: '{"id": "\xff"', 2500: "{", 2999: "null"}
    for i, text in bad.items():
        lines[i] = f"{text}\n"
    path = tmp_path / "t.jsonl"
    path.write_bytes("".join(lines).encode("latin-1"))
    assert read_pilot(path, skip_malformed=5, workers=workers).dropped["malformed_line"] == 5
    assert read_pilot(path, skip_malformed=True, workers=workers).dropped["malformed_line"] == 5
    with pytest.raises(PilotFormatError, match=r"t\.jsonl:6: is not a JSON object \('\[1\]'\)\. Repair the line, or"):
        read_pilot(path, workers=workers)
    expected = (
        r"t\.jsonl:1501: is not UTF-8 \('\{\"id\": \"�\"'\); 2 bad lines were skipped before it, as many as allowed\. "
        r"Repair the file, or raise --skip-bad"
    )
    with pytest.raises(PilotFormatError, match=expected):
        read_pilot(path, skip_malformed=2, workers=workers)
    with pytest.raises(PilotFormatError, match=r"t\.jsonl:3000: is not a JSON object \('null'\); 4 bad"):
        read_pilot(path, skip_malformed=4, workers=workers)


def test_the_limit_counts_over_files_and_kinds(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD + b"oops\n")
    (tmp_path / "b.csv").write_bytes(b"id,reward\na,1\nb,0,7\na,1\n")
    both = [tmp_path / "a.jsonl", tmp_path / "b.csv"]
    pilot = read_pilot(both, skip_malformed=2)
    assert (table_of(pilot), dict(pilot.dropped)) == ({"a": (3, 3), "b": (0, 1)}, {"malformed_line": 2})
    with pytest.raises(PilotFormatError, match=r"b\.csv, row 2: has 3 fields.*1 bad lines were skipped"):
        read_pilot(both, skip_malformed=1)
    answer = run("fit", *both, "--skip-bad", "1")
    assert answer.code == 1
    assert "b.csv, row 2" in answer.err
    assert run("fit", *both, "--skip-bad", "2").code == 0
    for wrong in (-1, 1.5, "1"):
        with pytest.raises(DomainError, match="skip_malformed must be True, False or a number"):
            read_pilot(both, skip_malformed=wrong)  # type: ignore[arg-type]


def test_two_objects_on_a_line_or_one_on_two_are_bad_lines(tmp_path: Path) -> None:
    """The decoder takes them; a line that was damaged so is no row."""
    path = tmp_path / "t"
    path.write_bytes(GOOD + b'{"id": "a", "reward": 1} {"id": "a", "reward": 1}\n' + GOOD)
    with pytest.raises(PilotFormatError, match="t:3: is not a JSON object"):
        read_pilot(path)
    path.write_bytes(GOOD + b'{"id": "a", "reward":\n1}\n{"id": "a", "reward": 1} {"id": "a", "reward": 1}\n' + GOOD)
    with pytest.raises(PilotFormatError, match="t:3: is not a JSON object"):
        read_pilot(path)
    pilot = read_pilot(path, skip_malformed=3)
    assert (table_of(pilot), dict(pilot.dropped)) == ({"a": (2, 2), "b": (0, 2)}, {"malformed_line": 3})


def test_line_numbers_are_counted_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming a line reads what is before it; with a line to look at in every block that would be quadratic."""
    monkeypatch.setattr("grpo_plan.readers.jsonlines.BLOCK_BYTES", 500)
    asked: list[int] = []

    def line_at(_: Path, offset: int) -> int:
        asked.append(offset)
        return 0

    for module in ("jsontasks", "jsonlines"):
        monkeypatch.setattr(f"grpo_plan.readers.{module}.line_at", line_at)
    path = tmp_path / "t.jsonl"
    path.write_bytes((GOOD + b'{"id": "a", "reward": NaN}\noops\n') * 300)
    assert table_of(read_pilot(path, skip_malformed=True)) == {"a": (300, 300), "b": (0, 300)}
    assert not asked


# --- files of odd kinds ------------------------------------------------------------------------------------------


def test_links_pipes_and_folders_among_files(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(GOOD)
    (folder / "again").symlink_to(folder)  # a loop
    (folder / "self.jsonl").symlink_to(folder / "self.jsonl")  # a link to itself
    (folder / "gone.jsonl").symlink_to(folder / "nowhere.jsonl")
    (folder / "folder.jsonl").mkdir()  # a folder named like a file
    os.mkfifo(folder / "pipe.jsonl")
    expected = {"a": (1, 1), "b": (0, 1)}
    for source in (folder, str(folder / "a*"), str(folder / "**" / "a.jsonl")):
        assert table_of(read_pilot(source)) == expected
    for name in ("self.jsonl", "gone.jsonl"):
        with pytest.raises(PilotFormatError, match=r"no such file|cannot be opened"):
            read_pilot(folder / name)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = tmp_path / f"t.{kind}"
    path.write_bytes(GOOD)

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PilotFormatError, match=rf"t\.{kind}: cannot be opened \(Permission denied\)"):
        read_pilot(path)


@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 40, "-" + "9" * 30])
def test_huge_whole_numbers(tmp_path: Path, number: str) -> None:
    path = tmp_path / "t"
    path.write_text(f'{{"id": {number}, "reward": 1}}\n{{"id": {number}, "reward": 0}}\n')
    assert table_of(read_pilot(path)) == {number: (1, 2)}
    path.write_text(f"id,reward\n{number},1\n{number},0\n")
    assert table_of(read_pilot(path)) == {number: (1, 2)}
    path.write_text(f'{{"id": "a", "reward": {number}}}\n')
    with pytest.raises(PilotFormatError, match=r"t:1: reward is .*neither 0 nor 1"):
        read_pilot(path)
    path.write_text(f"id,reward\na,{number}\n")
    with pytest.raises(PilotFormatError, match=r"t, row 1: reward is .*neither 0 nor 1"):
        read_pilot(path)
    assert table_of(read_pilot(path, pass_threshold=1)) == {"a": (int(number[0] != "-"), 1)}


def test_numbers_beyond_every_float_name_their_row(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for text in ('{"id": "a", "reward": 1}\n{"id": "a", "reward": 1' + "0" * 400 + "}\n", "id,reward\na,1\na,1e999\n"):
        path.write_text(text)
        if text[0] == "{":
            with pytest.raises(PilotFormatError, match=r"t:2: reward is 1000"):
                read_pilot(path)
        else:
            assert dict(read_pilot(path).dropped) == {"non_finite_reward": 1}


def test_the_last_of_two_keys_and_the_first_of_two_columns_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text('{"id": "a", "reward": 0, "reward": 1}\n')  # as Python's json module
    assert table_of(read_pilot(path)) == {"a": (1, 1)}
    path.write_text('id,reward,"reward",id\na,1,0,z\n')
    pilot = read_pilot(path)
    assert table_of(pilot) == {"a": (1, 1)}
    assert any("'reward' occurs more than once; the first is used" in note for note in pilot.notes)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks(tmp_path: Path, end: str, mark: str) -> None:
    rows = ["id,reward,text", "a,1,x", 'a,0,"y\r\nz"', "b,1,w"]
    path = tmp_path / "t"
    for ends in ([end] * 4, [end, "\n", "\r\n", "\r"], [end, "\r", end, ""]):
        path.write_bytes((mark + "".join(row + e for row, e in zip(rows, ends, strict=True))).encode())
        assert table_of(read_pilot(path)) == {"a": (1, 2), "b": (1, 1)}
    path.write_bytes(b"id,reward\na\rb,1\n")  # `a` alone on its line, then `b,1`
    assert table_of(read_pilot(path)) == {"b": (1, 1)}
    text = mark + end.join(['{"id": "a", "reward": 1}', '{"id": "b", "reward": 0}', ""])
    path.write_bytes(text.encode())
    if end == "\r":
        with pytest.raises(PilotFormatError):
            read_pilot(path)
    else:
        assert table_of(read_pilot(path)) == {"a": (1, 1), "b": (0, 1)}


def test_other_encodings_and_nul_bytes_are_said(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = "id,reward\né,1\nb,0\n"
    for encoding, message in (
        ("utf-16", "is UTF-16 text"),
        ("latin-1", r"row 1: is not UTF-8 text"),
        ("utf-32", "t: "),
    ):
        path.write_bytes(table.encode(encoding))
        with pytest.raises(PilotFormatError, match=message):
            read_pilot(path)
    filler = b"c,1\n" * 100_000
    path.write_bytes(b"id,reward\n" + filler + b"a\0,1\nb,0\n")
    with pytest.raises(PilotFormatError, match=r"t, row 100,001: holds NUL bytes \('a.*0,1'\)"):
        read_pilot(path)
    assert table_of(read_pilot(path, skip_malformed=1)) == {"c": (100_000, 100_000), "b": (0, 1)}
    path.write_bytes(GOOD + b'{"id": "c\0", "reward": 1}\n' + GOOD)
    path.write_bytes(GOOD * 9000 + b"\0\0\0\0")  # the tail of a file after a crash
    assert dict(read_pilot(path).dropped) == {"truncated_last_line": 1}


def test_quotes_within_fields_are_read_as_they_are(tmp_path: Path) -> None:
    """A stray quote would swallow the rows up to the next one in a lenient reader."""
    path = tmp_path / "t"
    path.write_text('id,reward,text\na,1,5" nail\nb,0,x\na,0,6" nail\nb,1,y\n')
    assert table_of(read_pilot(path)) == {"a": (1, 2), "b": (1, 2)}


def test_a_csv_without_rows_and_long_fields(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for text in ("id,reward", "id,reward\n", "\ufeffid,reward\r\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PilotFormatError, match="has no rows"):
            read_pilot(path)
    path.write_text(f'id,reward,text\na,1,"{"x" * 300_000}"\nb,0,5"{"y" * 300_000}\n')
    assert table_of(read_pilot(path)) == {"a": (1, 1), "b": (0, 1)}


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD * 1000)

    def grow(_: int) -> None:
        with path.open("ab") as file:
            file.write(GOOD)

    assert read_pilot(path, progress=grow).total_rollouts == 2000
    path.write_bytes(GOOD * 1000 + GOOD[:30])
    assert dict(read_pilot(path).dropped) == {"truncated_last_line": 1}


def test_deep_nesting_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "t"
    deep = b'{"id": "a", "reward": 0, "z": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n"
    path.write_bytes(GOOD + deep + GOOD)
    with pytest.raises(PilotFormatError, match="t:3: is not a JSON object"):
        read_pilot(path)
    assert table_of(read_pilot(path, skip_malformed=1)) == {"a": (2, 2), "b": (0, 2)}
    path.write_bytes(b"[" + GOOD.replace(b"}\n", b"},") + deep.strip() + b"]")
    with pytest.raises(PilotFormatError, match="t, item 3: is not a JSON object"):
        read_pilot(path)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("small_tasks")
def test_overlong_lines_are_read_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr("grpo_plan.readers.jsonlines.MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("grpo_plan.readers.jsonlines.BLOCK_BYTES", 10_000)
    path = tmp_path / "t.jsonl"
    line = b'{"id": "a", "text": "' + b"x" * (3 << 20) + b'", "reward": 1}\n'
    path.write_bytes(GOOD * 800 + line + GOOD * 800)
    if workers == 1:  # other processes have the true limit
        with pytest.raises(PilotFormatError, match=r"t\.jsonl:1601: is longer than 1 MB \('\{\"id\": \"a\", \"text"):
            read_pilot(path, workers=workers)
        assert table_of(read_pilot(path, workers=workers, skip_malformed=1)) == {"a": (1600, 1600), "b": (0, 1600)}
    else:
        assert table_of(read_pilot(path, workers=workers)) == {"a": (1601, 1601), "b": (0, 1600)}


def test_interrupted_gzip_and_many_members(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    for data in (GOOD * 3000, b"id,reward\n" + b"a,1\nb,0\n" * 3000):
        for compress in (gzip.compress, zstandard.compress):
            path.write_bytes(compress(data))
            assert table_of(read_pilot(path)) == {"a": (3000, 3000), "b": (0, 3000)}
            path.write_bytes(compress(data)[:-9])
            with pytest.raises(PilotFormatError, match="end too early or are damaged"):
                read_pilot(path)
    path.write_bytes(gzip.compress(GOOD) + gzip.compress(GOOD))
    assert table_of(read_pilot(path)) == {"a": (2, 2), "b": (0, 2)}


def test_arrays_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_plan.readers.jsonarray.BLOCK_BYTES", 64)
    rows = [{"id": "a\\", "chat": [{"x": "},{"}, ["]", '"']], "reward": i % 2, "nan": float("nan")} for i in range(50)]
    path = tmp_path / "t"
    for text in (json.dumps(rows), json.dumps(rows, indent=1), f"\n {json.dumps(rows)} \n"):
        path.write_text(text)
        assert table_of(read_pilot(path)) == {"a\\": (25, 50)}
    for text, message in (
        (json.dumps(rows)[:-1], "the array is not closed"),
        (json.dumps(rows)[:-1] + ",]", "has a comma without an item|is not a JSON object"),
        (json.dumps(rows) + "{}", r"something follows the array \('\{\}'"),
        (json.dumps([*rows, 7]), r"t, item 51: is not a JSON object \('7"),
        (json.dumps([*rows[:30], {"id": "a", "reward": 0.5}]), r"t, item 31: reward is 0\.5"),
    ):
        path.write_text(text)
        with pytest.raises(PilotFormatError, match=message):
            read_pilot(path)


# --- tables ------------------------------------------------------------------------------------------------------


def test_columns_that_are_not_needed_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({"id": ["a", "b"] * 500, "text": ["x" * 500] * 1000, "reward": [1, 0] * 500})
    frame.write_parquet(tmp_path / "t.parquet")
    seen: list[list[str]] = []
    original = pl.LazyFrame.collect

    def collect(self: pl.LazyFrame, **options: Any) -> Any:
        seen.append(self.collect_schema().names())
        return original(self, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", collect)
    monkeypatch.setattr("grpo_plan.readers.chunks.FIRST_ROWS", 300)
    assert table_of(read_pilot(tmp_path / "t.parquet")) == {"a": (500, 500), "b": (0, 500)}
    assert sum("text" in names for names in seen) == 1  # the first rows alone


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_values_name_their_row_in_any_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("grpo_plan.readers.chunks.FIRST_ROWS", 100)
    monkeypatch.setattr("grpo_plan.readers.chunks.CHUNK_BYTES", 5_000)
    monkeypatch.setattr("grpo_plan.readers.csvtable.BLOCK_BYTES", 1_000)
    rewards: list[Any] = [float(i % 2) for i in range(2000)]
    rewards[1234] = 0.25
    frame = pl.DataFrame({"id": [f"p{i % 9}" for i in range(2000)], "keep": ["y", "n"] * 1000, "reward": rewards})
    path = tmp_path / "t"
    write = {"csv": "write_csv", "parquet": "write_parquet", "feather": "write_ipc"}[kind]
    getattr(frame, write)(path)
    with pytest.raises(PilotFormatError, match=r"t, row 1,235: reward is 0\.25"):
        read_pilot(path)
    with pytest.raises(PilotFormatError, match=r"t, row 1,235: reward is 0\.25"):
        read_pilot(path, where={"keep": "y"})
    assert read_pilot(path, where={"keep": "n"}).total_rollouts == 1000
    assert read_pilot(path, pass_threshold=0.5).mean_pass_rate == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("shape", ["wide", "rates", "lists"])
def test_prompts_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    monkeypatch.setattr("grpo_plan.readers.chunks.FIRST_ROWS", 7)
    monkeypatch.setattr("grpo_plan.readers.chunks.CHUNK_BYTES", 300)
    n, k = [4] * 40, [i % 5 for i in range(40)]
    data: dict[str, Any] = {"id": [f"p{i}" for i in range(40)]}
    shapes: dict[str, dict[str, Any]] = {
        "wide": {"n": n, "k": k},
        "rates": {"n": n, "pass_rate": [x / 4 for x in k]},
        "lists": {"rewards": [[1] * x + [0] * (4 - x) for x in k]},
    }
    data |= shapes[shape]
    expected = {f"p{i}": (i % 5, 4) for i in range(40)}
    frame = pl.DataFrame(data)
    frame.write_parquet(tmp_path / "t")
    assert table_of(read_pilot(tmp_path / "t")) == expected
    if shape != "lists":
        frame.write_csv(tmp_path / "t.csv")
        assert table_of(read_pilot(tmp_path / "t.csv")) == expected


# --- addresses ---------------------------------------------------------------------------------------------------


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """Serves files, and parts of them."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        data, wanted = path.read_bytes(), self.headers.get("Range")
        first, last = 0, len(data) - 1
        if wanted:
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            first, last = (int(start), min(int(end or last), last)) if start else (max(0, len(data) - int(end)), last)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(data[first : last + 1])

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Ranges, directory=tmp_path))
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


def test_tables_on_the_web(tmp_path: Path, server: str) -> None:
    frame = pl.DataFrame({"prompt_id": ["a", "a", "b"], "text": ["x", "y", "z"], "reward": [1, 0, 1]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    frame.write_ndjson(tmp_path / "t.jsonl")
    frame.write_ipc(tmp_path / "t.arrow")
    for suffix in ("parquet", "csv", "jsonl", "arrow"):
        pilot = read_pilot(f"{server}/t.{suffix}")
        assert table_of(pilot) == {"a": (1, 2), "b": (1, 1)}
    both = read_pilot([f"{server}/t.parquet", str(tmp_path / "t.jsonl")])
    assert table_of(both) == {"a": (2, 4), "b": (2, 2)}
    with pytest.raises(PilotFormatError, match=r"/gone\.parquet: nothing is there\. Check the address\."):
        read_pilot(f"{server}/gone.parquet")
    with pytest.raises(PilotFormatError, match=r"/t\.md: the name does not say what kind of table this is"):
        read_pilot(f"{server}/t.md")


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "abfss", "hf", "https"])
def test_addresses_go_to_the_engine_with_their_settings(monkeypatch: pytest.MonkeyPatch, run: Run, scheme: str) -> None:
    address = f"{scheme}://bucket/rollouts/*.parquet"
    asked: list[tuple[str, object]] = []

    def scan(source: str, *, storage_options: object = None) -> pl.LazyFrame:
        asked.append((source, storage_options))
        return pl.LazyFrame({"prompt_id": ["a", "a"], "reward": [1, 0]})

    monkeypatch.setattr(pl, "scan_parquet", scan)
    assert table_of(read_pilot(address, storage_options={"region": "x"})) == {"a": (1, 2)}
    assert run("fit", address, "--storage-option", "token=a=b").code == 0
    assert asked == [(address, {"region": "x"}), (address, {"token": "a=b"})]
    for error in (OSError("no route\nto host"), pl.exceptions.ComputeError("Generic S3 error: InvalidToken")):

        def fail(*_: object, error: Exception = error, **__: object) -> pl.LazyFrame:
            raise error

        monkeypatch.setattr(pl, "scan_parquet", fail)
        answer = run("fit", address)
        assert answer.code == 1
        assert answer.err.startswith(f"grpo-plan: {address}: cannot be read (")
        assert "go into --storage-option KEY=VALUE.\n" in answer.err
        assert answer.err.count("\n") == 1
    with pytest.raises(DomainError, match="storage_options must map names to values"):
        read_pilot(address, storage_options="x")  # type: ignore[arg-type]
    assert "--storage-option must be KEY=VALUE" in run("fit", address, "--storage-option", "x").err


# --- progress ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "gz"])
def test_progress_adds_up(tmp_path: Path, kind: str) -> None:
    frame = pl.DataFrame({"id": ["a", "b"] * 500, "reward": [1, 0] * 500})
    data = {
        "jsonl": frame.write_ndjson().encode(),
        "json": json.dumps(frame.to_dicts()).encode(),
        "csv": frame.write_csv().encode(),
        "gz": gzip.compress(frame.write_ndjson().encode()),
    }
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        frame.write_parquet(path)
    else:
        path.write_bytes(data[kind])
    steps: list[int] = []
    read_pilot(path, progress=steps.append)
    size = path.stat().st_size
    assert size - 40 <= sum(steps) <= size  # less a header or brackets


def test_a_bar_counts_the_files_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from grpo_plan.cli import pilot_options

    for i in range(2):
        (tmp_path / f"{i}.jsonl").write_bytes(GOOD)
    assert pilot_options._size(str(tmp_path)) == pilot_options._size(str(tmp_path / "*.jsonl")) == 2 * len(GOOD)
    monkeypatch.setattr(pilot_options, "PROGRESS_BYTES", 1)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with pilot_options.Progress([str(tmp_path)]) as progress:
        assert progress is not None
        progress(2 * len(GOOD))
    with pilot_options.Progress(["s3://bucket/t.parquet"]) as progress:
        assert progress is not None
    assert "reading" in capfd.readouterr().err


def test_observed_rows_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(rollouts(600))
    report = read_independence(path, workers=3)
    assert whole(report.pilot)[:3] == whole(read_pilot(path))[:3]
