"""Attacks on the readers of formats: sizes, links, archives, code in files, files that go away, Ctrl-C."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError, one_line
from grpo_plan.readers import discovery, jsonarray, jsonlines, read_groups
from grpo_plan.readers.counting import Tally, with_token_sums
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats import inspect_ai
from grpo_plan.readers.values import is_whole, numbers_of, whole_of
from tests import bad_inputs
from tests.bad_inputs import CASES, DATA, archive, dump, good, lines, v1
from tests.fuzz_corpus import sources
from tests.mutations import mutant
from tests.test_cli import Run
from tests.test_cli import run as command
from tests.test_fuzz_formats import time_limit

__all__ = ["command"]  # a fixture


def test_bad_inputs_give_what_the_page_says() -> None:
    pytest.importorskip("torch", reason="one of the inputs is a torch file", exc_type=ImportError)
    assert bad_inputs.PAGE.read_text(encoding="utf-8") == bad_inputs.page()


def test_no_code_of_a_file_was_run(tmp_path: Path) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    case = next(c for c in CASES if "code in it" in c.kind)
    mark = Path(tempfile.gettempdir()) / "grpo-plan-ran"
    mark.unlink(missing_ok=True)
    assert "holds more than plain data (posix.system)" in bad_inputs.outcome(case, tmp_path)
    assert not mark.exists()


# --- names and messages ---------------------------------------------------------------------------------------------


def test_messages_and_notes_are_one_line() -> None:
    error = PilotFormatError("a\nb\x1b[31m\u2028\ud800.")
    assert str(error) == "a?b?[31m??."
    assert isinstance(error, ValueError)
    long = str(PilotFormatError("x" * 50_000 + " The next step."))
    assert len(long) < 2500
    assert long.endswith("The next step.")
    assert one_line("plain text") == "plain text"


def test_prompts_that_differ_after_a_control_character_stay_apart(tmp_path: Path) -> None:
    rows = [v1(p, s, float(s < p), input=f"same\x1f{p}") for p in range(4) for s in range(4)]
    assert gp.read_pilot(lines(tmp_path / "1.jsonl", rows)).successes.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["²", "1²", "٣", "a\nb", "\udcff", "[x]*?", "x" * 200])
def test_names_of_files_and_folders(tmp_path: Path, name: str) -> None:
    lines(tmp_path / name / "1.jsonl", dump())
    lines(tmp_path / name / f"{name}.jsonl", [row | {"step": 2} for row in dump()])
    pilot = gp.read_pilot(tmp_path)
    assert (pilot.total_rollouts, pilot.provenance.files) == (24, 2)
    (tmp_path / name / "1.jsonl").write_text(json.dumps(v1(0, 0, "x")) + "\n")
    with pytest.raises(PilotFormatError) as caught:
        gp.read_pilot(tmp_path / name / "1.jsonl")
    assert str(caught.value).isprintable()


def test_whole_numbers_of_any_size() -> None:
    assert [is_whole(v) for v in (0, -(2**53), 2**53 + 1, True, 1.0, "1", None)] == [True, True, *[False] * 5]
    assert [whole_of(t) for t in ("12", "²", "٣", "", "1_0", " 1", "9" * 5000)] == [12, *[None] * 6]
    assert numbers_of([10**400, 1, None]).tolist()[1] == 1.0


# --- sizes ----------------------------------------------------------------------------------------------------------


def test_a_group_of_many_rows_and_many_groups_of_one(tmp_path: Path) -> None:
    one = lines(tmp_path / "one.jsonl", [v1(0, s, float(s % 2)) for s in range(30_000)])
    assert gp.read_pilot(one).rollouts.tolist() == [30_000]
    assert read_groups(one).rollouts.tolist() == [30_000]
    many = lines(tmp_path / "many.jsonl", [v1(p, 0, float(p % 2)) for p in range(30_000)])
    assert gp.read_pilot(many).prompts == 30_000
    assert read_groups(many).dead_groups == 30_000


def test_the_work_of_a_batch_does_not_grow_with_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 files took eight minutes once: every batch looked at all the cells so far."""
    monkeypatch.setattr("grpo_plan.readers.counting.COMPACT_ROWS", 100)
    merges: list[int] = []
    compact = Tally._compact

    def counted(self: Tally) -> None:
        merges.append(1)
        compact(self)

    monkeypatch.setattr(Tally, "_compact", counted)
    tally = Tally()
    keys = {"stratum": None, "temperature": None, "policy": None}
    for i in range(2000):  # every prompt is another one
        cells = pl.DataFrame({"prompt": [f"p{i}"], **keys, "n": [4], "k": [1]})
        cells = cells.cast({"stratum": pl.String, "temperature": pl.Float64, "policy": pl.String})
        tally.add(with_token_sums(cells))
    assert len(merges) <= 8  # each at twice the cells of the one before
    assert tally.pilot("x").prompts == 2000


@pytest.mark.parametrize("member", ["header.json", "summaries.json"])
def test_members_of_archives_do_not_inflate_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str
) -> None:
    monkeypatch.setattr(inspect_ai, "MAX_DOCUMENT_BYTES", 1 << 20)
    path = archive({"header.json": b"{}", "summaries.json": b"[]"} | {member: b"[" + b" " * (3 << 20)})(tmp_path)
    with pytest.raises(PilotFormatError, match=f"its member {member} takes more than 1 GB"):
        gp.read_pilot(path)
    data = path.read_bytes()  # and where its size is a lie
    size = (3 << 20) + 1
    path.write_bytes(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(PilotFormatError, match=r"archive|takes more than|as JSON"):
        gp.read_pilot(path)


def test_compressed_arrays_do_not_inflate_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonarray, "MAX_ITEM_BYTES", 1 << 20)
    row = b'{"problem": "a", "llama8b_solve_rate": 0.5}'
    for name, first in (("table", b'[{"id": "a", "reward": 1}'), ("big-math", b"[" + row)):
        path = tmp_path / f"{name}.json.gz"
        path.write_bytes(gzip.compress(first + b', {"x": "' + b" " * (20 << 20) + b'"}]'))
        with pytest.raises(PilotFormatError, match="an item is longer than"):
            gp.read_pilot(path)


# --- folders --------------------------------------------------------------------------------------------------------


def test_a_folder_is_of_a_format_though_its_first_file_is_damaged(tmp_path: Path) -> None:
    good(lambda d: (d / "1.jsonl").write_bytes(b"\x00\x01"))(tmp_path)
    with pytest.raises(PilotFormatError, match=r"1\.jsonl: is a binary file"):
        gp.read_pilot(tmp_path)
    lines(tmp_path / "1.jsonl", [{"input": "x"}, *dump()])  # or its first row
    with pytest.raises(PilotFormatError, match=r"1\.jsonl:1: uid must be prompt_session_index; got None"):
        gp.read_pilot(tmp_path)
    pilot = gp.read_pilot(tmp_path, skip_malformed=True)
    assert (pilot.total_rollouts, pilot.dropped) == (36, {"malformed_line": 1})


def test_most_rows_decide_what_a_file_is(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", dump({0: {"uid": 7}}))
    with pytest.raises(PilotFormatError, match=r"x\.jsonl:1: uid must be prompt_session_index; got 7"):
        gp.read_pilot(path)
    mixed = lines(tmp_path / "y.jsonl", [*dump()[:2], *({"prompt_id": "a", "reward": 1},) * 3])
    assert discovery.discover(mixed, "pilot", None).format is None


def test_folders_that_cannot_be_opened_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(lambda d: lines(d / "closed" / "9.jsonl", dump()))(tmp_path)
    scan = os.scandir

    def refusing(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    for read in (gp.read_pilot, read_groups):
        notes = read(tmp_path).notes
        assert any("1 folder could not be opened, and what is in there was not read" in note for note in notes)


@pytest.mark.parametrize("moment", ["looking", "reading"])
@pytest.mark.parametrize("read", [gp.read_pilot, read_groups])
def test_a_file_that_goes_away_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any, moment: str
) -> None:
    good(lambda d: lines(d / "1.jsonl", dump({5: {"score": "x"}})))(tmp_path)
    if moment == "looking":
        identity = InputFile.identity.fget  # type: ignore[attr-defined]

        def vanishing(self: InputFile) -> object:
            (tmp_path / "2.jsonl").unlink(missing_ok=True)
            return identity(self)

        monkeypatch.setattr(InputFile, "identity", property(vanishing))
    else:
        shape = jsonlines.read_blocks

        def emptied(stream: Any, name: str) -> Iterator[bytes]:
            yield from shape(stream, name)
            shutil.rmtree(tmp_path, ignore_errors=True)

        monkeypatch.setattr("grpo_plan.readers.formats._rows.read_blocks", emptied)
    with pytest.raises(PilotFormatError) as caught:
        read(tmp_path)
    assert str(caught.value).isprintable()


def test_unreadable_files_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(lambda d: None)(tmp_path)
    opened = Path.open

    def refusing(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.name == "3.jsonl":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    for read in (gp.read_pilot, read_groups):
        with pytest.raises(PilotFormatError, match=r"3\.jsonl: cannot be (opened|read) \(Permission denied\)"):
            read(tmp_path)


def test_links_in_a_circle_are_one_line(tmp_path: Path) -> None:
    os.symlink("self.jsonl", tmp_path / "self.jsonl")
    with pytest.raises(PilotFormatError, match="Too many levels of symbolic links"):
        gp.read_pilot(tmp_path / "self.jsonl")


def test_archives_are_never_unpacked(tmp_path: Path) -> None:
    path = archive({"../../slip.json": b"{}", "/slip.json": b"{}", "summaries.json": b"[]"})(tmp_path)
    with pytest.raises(PilotFormatError, match="no rollout could be counted"):
        gp.read_pilot(path)
    assert not list(tmp_path.parent.glob("slip.json"))
    assert not Path("/slip.json").exists()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("read", [gp.read_run, gp.read_pilot])
def test_a_database_whose_schema_is_damaged_is_one_line(tmp_path: Path, read: Any) -> None:
    """SQLite quotes names in its messages, which then are no text that Python can decode."""
    path = bad_inputs.database(*bad_inputs.MLFLOW)(tmp_path)
    data = path.read_bytes().replace(b"tablerunsruns", b"tabler\xd4\xffsr\xd4\xffs")
    path.write_bytes(data.replace(b"CREATE TABLE runs (a)", b"CREATE TABLE runs (a("))
    with pytest.raises(PilotFormatError, match=r"mlflow\.db: cannot be read as an? .* database"):
        read(path)


def test_a_rate_beyond_single_precision_is_one_line(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{i}", "solve_rate_qwen_r1_distill_7b": 1e308 if i == 20 else i % 17 / 16} for i in range(60)]
    with pytest.raises(PilotFormatError, match=r"must lie in \[0, 1\]"):
        gp.read_pilot(lines(tmp_path / "x.jsonl", [*rows, *[{**rows[0], "prompt": "last"}]]), format="intellect-2")


# --- rewards of logs ------------------------------------------------------------------------------------------------


def test_a_reward_function_that_no_table_has_as_numbers_is_said(tmp_path: Path) -> None:
    source = DATA / "trl" / "none2"
    (tmp_path / "completions").mkdir()
    frame = pl.read_parquet(source / "completions" / "completions_00001.parquet")
    frame.cast({"sometimes_none": pl.String}).write_parquet(tmp_path / "completions" / "completions_00001.parquet")
    shutil.copy(source / "trainer_state.json", tmp_path)
    pilot = gp.read_pilot(tmp_path, pass_threshold=0.5)
    assert any("names rewards that no table has as numbers: sometimes_none" in note for note in pilot.notes)


# --- the command line -----------------------------------------------------------------------------------------------


def test_panics_of_the_table_engine_stay_off_the_terminal(tmp_path: Path) -> None:
    """This parquet file makes the engine's threads panic; they write to the standard error stream past Python."""
    source = next(s for s in sources() if s.name == "polaris, parquet")
    damaged = mutant(source, 47)
    assert "flipped a bit of byte 177" in damaged.what
    (tmp_path / "x.parquet").write_bytes(damaged.files["data.parquet"])
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan", "fit", "x.parquet"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "RUST_BACKTRACE": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("grpo-plan: x.parquet: ")
    assert done.stderr.count("\n") == 1


def test_notes_and_errors_still_reach_the_terminal(tmp_path: Path) -> None:
    good(lambda d: None)(tmp_path)
    lines(tmp_path / "bad" / "1.jsonl", dump({5: {"score": "x"}}))
    for source, said in ((tmp_path / "bad", "score is x"), (tmp_path / "2.jsonl", "note: ")):
        arguments = [sys.executable, "-m", "grpo_plan", "fit", str(source)]
        assert said in subprocess.run(arguments, capture_output=True, text=True, check=False).stderr


def test_ctrl_c_during_a_read_ends_with_130(tmp_path: Path) -> None:
    """The read is interrupted in the middle: a reader that waits at its second file gets the signal."""
    good(lambda d: None)(tmp_path)
    script = (
        "import os, signal, sys, time\n"
        "from grpo_plan.readers import jsonlines\n"
        "from grpo_plan.readers.formats import _rows\n"
        "plain, seen = jsonlines.read_blocks, []\n"
        "def waiting(stream, name):\n"
        "    seen.append(name)\n"
        "    if len(seen) == 2:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    yield from plain(stream, name)\n"
        "_rows.read_blocks = waiting\n"
        "from grpo_plan.__main__ import main\n"
        f"sys.argv = ['grpo-plan', 'fit', {str(tmp_path)!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "grpo-plan: interrupted.\n"
    assert done.stdout == ""


def test_ctrl_c_from_outside_ends_with_130(tmp_path: Path) -> None:
    """A pipe whose writer never ends keeps the read going until the signal comes."""
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_plan", "fit", str(tmp_path / "pipe")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with time_limit("a read of a pipe"), (tmp_path / "pipe").open("wb", 0) as pipe:  # opens when the other end does
        pipe.write(b'{"id": "a", "reward": 1}\n')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err) == ("", "grpo-plan: interrupted.\n")


def test_a_command_names_the_place_of_a_bad_row(command: Run, tmp_path: Path) -> None:
    lines(tmp_path / "1.jsonl", dump({5: {"step": -1}}))
    answer = command("fit", "1.jsonl")
    assert answer.code == 1
    assert answer.err.startswith("grpo-plan: 1.jsonl:6: step must be a whole number; got -1.")
