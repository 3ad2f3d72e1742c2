"""Damaged tables: counts equal those of a plain slow reader, or one line of error; never a traceback, never other counts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan.errors import PilotError, PilotFormatError
from grpo_plan.readers import read_pilot
from tests.reference_reader import Counts, count, rows_of_csv, rows_of_json_lines
from tests.test_readers import table_of

SMALL_BLOCKS = {
    "grpo_plan.readers.jsonlines.BLOCK_BYTES": 90,
    "grpo_plan.readers.jsontasks.TASK_BYTES": 200,
    "grpo_plan.readers.csvtable.BLOCK_BYTES": 70,
    "grpo_plan.readers.jsonarray.BLOCK_BYTES": 50,
    "grpo_plan.readers.csvtable.ODD_ROWS": 3,
    "grpo_plan.readers.counting.COMPACT_ROWS": 4,
}
TEXT = st.text(st.sampled_from('ab,;"\n\r\t é\\{}[]:\u2028#0'), max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["a", "b", "c,d", 'q"', "é", "x\ny", "p1"]),
            "reward": st.sampled_from([0, 1, 1.0, None]),
        },
        optional={"text": TEXT, "n_tokens": st.integers(0, 99)},
    ),
    min_size=1,
    max_size=25,
)
DAMAGE = st.lists(
    st.tuples(
        st.sampled_from(["cut", "flip", "insert", "drop", "copy"]),
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(
            [b'"', b"\n", b"\r", b",", b"\0", b"\xff", b"{", b"}", b"[", b"]", b" ", b"1", b"\\", b"\xc3", b"\n\n"]
        ),
    ),
    max_size=3,
)


def damaged(data: bytes, damage: list[tuple[str, float, bytes]]) -> bytes:
    for how, where, byte in damage:
        i = int(where * len(data))
        if how == "cut":
            data = data[:i]
        elif how == "flip":
            data = data[:i] + byte + data[i + 1 :]
        elif how == "insert":
            data = data[:i] + byte + data[i:]
        elif how == "drop":
            data = data[:i] + data[i + 1 :]
        else:
            data = data[: i + 10] + data[i:]
    return data


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in SMALL_BLOCKS.items():
        monkeypatch.setattr(name, size)


def ours(path: Path, data: bytes, **options: Any) -> Counts | str:
    """Our counts, or our one-line error."""
    path.write_bytes(data)
    try:
        return table_of(read_pilot(path, prompt="id", reward="reward", format="table", **options))
    except (PilotFormatError, PilotError) as error:
        message = str(error)
    assert "\n" not in message
    return message


def check(path: Path, data: bytes, reference: Callable[[bytes], tuple[list[dict[str, Any]], list[int]]]) -> None:
    strict, lenient = ours(path, data), ours(path, data, skip_malformed=True)
    rows, bad = reference(data)
    if isinstance(strict, dict):
        assert not bad
        assert strict == lenient == count(rows)
    if isinstance(lenient, dict):
        assert lenient == count(rows)
    elif not bad:
        assert isinstance(strict, str)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, damage=DAMAGE, ascii=st.booleans(), gap=st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]))
@pytest.mark.usefixtures("small_blocks")
def test_damaged_json_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], damage: Any, ascii: bool, gap: str
) -> None:
    data = damaged("".join(json.dumps(row, ensure_ascii=ascii) + gap for row in rows).encode(), damage)
    check(tmp_path_factory.getbasetemp() / "t.jsonl", data, rows_of_json_lines)


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, damage=DAMAGE, separator=st.sampled_from([",", ";", "\t"]), quoted=st.booleans())
@pytest.mark.usefixtures("small_blocks")
def test_damaged_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], damage: Any, separator: str, quoted: bool
) -> None:
    frame = pl.DataFrame(rows, schema={"id": pl.String, "text": pl.String, "reward": pl.Float64, "n_tokens": pl.Int64})
    text = frame.write_csv(separator=separator, quote_style="always" if quoted else "necessary")
    header, _, body = text.encode().partition(b"\n")
    data = header + b"\n" + damaged(body, damage)
    check(tmp_path_factory.getbasetemp() / "t.csv", data, lambda data: rows_of_csv(data, separator))


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, damage=DAMAGE, indent=st.sampled_from([None, 1]), ascii=st.booleans())
@pytest.mark.usefixtures("small_blocks")
def test_damaged_arrays(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], damage: Any, indent: int | None, ascii: bool
) -> None:
    data = damaged(json.dumps(rows, indent=indent, ensure_ascii=ascii).encode(), damage)
    found = ours(tmp_path_factory.getbasetemp() / "t.json", data)
    if isinstance(found, dict) and data.lstrip()[:1] == b"[":
        assert found == count(json.loads(data.decode()))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, damage=DAMAGE)
def test_damaged_parquet_is_an_error_or_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], damage: Any
) -> None:
    frame = pl.DataFrame(rows, schema={"id": pl.String, "text": pl.String, "reward": pl.Float64, "n_tokens": pl.Int64})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    ours(tmp_path_factory.getbasetemp() / "t.parquet", damaged(buffer.getvalue(), damage))
