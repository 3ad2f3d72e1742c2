"""Readers: every container and shape gives the same counts; columns are found, named or asked for."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers import jsonlines as jsonlines_module
from grpo_plan.readers import read_pilot

Row = dict[str, Any]


def table_of(pilot: Pilot) -> dict[str, tuple[int, int]]:
    """Counts by prompt name."""
    assert pilot.prompt_id is not None
    return {
        str(name): (int(k), int(n)) for name, k, n in zip(pilot.prompt_id, pilot.successes, pilot.rollouts, strict=True)
    }


LONG = pl.DataFrame(
    {
        "prompt_id": ["a", "b", "a", "b", "c", "a", "c"],
        "completion": ["x", "y,\n", 'z"', "", "w", "é", "v"],
        "reward": [1.0, 0.0, 0.0, None, 1.0, 1.0, 1.0],
    }
)
LONG_COUNTS = {"a": (2, 3), "b": (0, 1), "c": (2, 2)}


def as_json_lines(frame: pl.DataFrame) -> bytes:
    return frame.write_ndjson().encode()


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


CONTAINERS: dict[str, Callable[[pl.DataFrame], bytes]] = {
    "jsonl": as_json_lines,
    "json": lambda f: json.dumps(f.to_dicts(), indent=1).encode(),
    "csv": lambda f: f.write_csv().encode(),
    "tsv": lambda f: f.write_csv(separator="\t").encode(),
    "parquet": lambda f: written(f.write_parquet),
    "feather": lambda f: written(f.write_ipc),
    "arrows": lambda f: written(f.write_ipc_stream),
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_container_gives_the_same_counts(tmp_path: Path, kind: str, compression: str) -> None:
    data = COMPRESSIONS[compression](CONTAINERS[kind](LONG))
    path = tmp_path / "misleading-name.txt"  # the kind is found by content
    path.write_bytes(data)
    pilot = read_pilot(path)
    assert table_of(pilot) == LONG_COUNTS
    assert dict(pilot.dropped) == {"missing_reward": 1}
    assert "prompt = 'prompt_id', reward = 'reward'" in pilot.notes[0]
    assert path.read_bytes() == data


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_standard_input(monkeypatch: pytest.MonkeyPatch, kind: str, compression: str) -> None:
    data = COMPRESSIONS[compression](CONTAINERS[kind](LONG))

    class Pipe:
        buffer = io.BytesIO(data)

    monkeypatch.setattr("sys.stdin", Pipe)
    assert table_of(read_pilot("-")) == LONG_COUNTS


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda f: f, id="polars"),
        pytest.param(lambda f: f.lazy(), id="polars-lazy"),
        pytest.param(lambda f: f.to_pandas(), id="pandas"),
        pytest.param(lambda f: f.to_pandas().astype({"reward": object}), id="pandas-object"),
        pytest.param(lambda f: f.to_arrow(), id="pyarrow"),
        pytest.param(lambda f: duckdb.from_arrow(f.to_arrow()), id="duckdb"),
    ],
)
def test_every_dataframe_gives_the_same_counts(convert: Callable[[pl.DataFrame], Any]) -> None:
    pilot = read_pilot(convert(LONG))
    assert table_of(pilot) == LONG_COUNTS
    assert dict(pilot.dropped) == {"missing_reward": 1}


@pytest.mark.parametrize(
    ("rewards", "passes"),
    [
        ([1, 0, 1], 2),
        ([1.0, 0.0, 1.0], 2),
        ([True, False, True], 2),
        (["true", "False", " TRUE "], 2),
        (["C", "I", "C"], 2),
        (["correct", "incorrect", "passed"], 2),
        (["1", "0", "1.0"], 2),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "frame", "pandas"])
def test_pass_and_fail_as_people_write_them(tmp_path: Path, rewards: list[Any], passes: int, kind: str) -> None:
    frame = pl.DataFrame({"task_id": ["q"] * 3, "score": rewards})
    if kind == "frame":
        source: Any = frame
    elif kind == "pandas":
        source = frame.to_pandas()
    else:
        source = tmp_path / "t"
        source.write_bytes(CONTAINERS[kind](frame))
    assert table_of(read_pilot(source)) == {"q": (passes, 3)}


def test_missing_rewards_are_never_failures(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"id": "a", "reward": NaN}\n{"id": "a", "reward": null}\n{"id": "a"}\n{"id": "a", "reward": Infinity}\n'
        '{"id": "a", "reward": 1}\n{"id": "a", "reward": "nan"}\n{"id": "b", "reward": null}\n{"reward": 1}\n'
    )
    pilot = read_pilot(path)
    assert table_of(pilot) == {"a": (1, 1)}
    assert dict(pilot.dropped) == {
        "missing_reward": 5, "non_finite_reward": 1, "missing_prompt": 1, "prompts_without_scored_rollouts": 1,
    }  # fmt: skip


def test_missing_rewards_in_a_frame_match_those_in_a_file() -> None:
    frame = pl.DataFrame(
        {"id": ["a", "a", "a", "a", "b", None], "reward": [float("nan"), None, float("inf"), 1.0, None, 1.0]}
    )
    for source in (frame, frame.to_pandas(), frame.lazy()):
        pilot = read_pilot(source)
        assert table_of(pilot) == {"a": (1, 1)}
        assert pilot.dropped["prompts_without_scored_rollouts"] == 1
        assert pilot.dropped["missing_prompt"] == 1


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "frame"])
def test_wide_and_list_shapes(tmp_path: Path, kind: str) -> None:
    wide = pl.DataFrame({"question": ["a", "b", "c"], "num_samples": [4, 4, 2], "num_correct": [1, 0, 2]})
    rated = pl.DataFrame({"question": ["a", "b", "c"], "n": [4, 4, 2], "solve_rate": [0.25, 0.0, 1.0]})
    lists = pl.DataFrame({"question": ["a", "b", "c"], "rewards": [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1]]})
    if kind == "csv":
        lists = lists.with_columns(rewards=pl.Series(["[1, 0, 0, 0]", "[0,0,0,0]", "[1, 1]"]))
    for frame, shape in ((wide, "one row a prompt"), (rated, "one row a prompt"), (lists, "rewards in a list")):
        source: Any = frame
        if kind != "frame":
            source = tmp_path / "t"
            source.write_bytes(CONTAINERS[kind](frame))
        pilot = read_pilot(source)
        assert table_of(pilot) == {"a": (1, 4), "b": (0, 4), "c": (2, 2)}
        assert shape in pilot.notes[0]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12).filter(str.strip)


@settings(max_examples=40)
@given(
    rows=st.dictionaries(NAMES, st.lists(st.booleans(), min_size=1, max_size=9), min_size=1, max_size=12),
    kind=st.sampled_from(["jsonl", "json", "csv", "parquet", "frame"]),
    seed=st.integers(0, 99),
)
def test_long_wide_and_lists_are_one_pilot(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[bool]], kind: str, seed: int
) -> None:
    expected = {name: (sum(rewards), len(rewards)) for name, rewards in rows.items()}
    flat = [(name, int(r)) for name, rewards in rows.items() for r in rewards]
    order = np.random.default_rng(seed).permutation(len(flat))
    long = pl.DataFrame([flat[i] for i in order], schema={"prompt_id": pl.String, "reward": pl.Int64}, orient="row")
    wide = pl.DataFrame(
        {"prompt_id": list(rows), "n": [n for _, n in expected.values()], "k": [k for k, _ in expected.values()]}
    )
    lists = pl.DataFrame({"prompt_id": list(rows), "rewards": [[int(r) for r in v] for v in rows.values()]})
    if kind == "csv":
        lists = lists.with_columns(rewards=pl.Series([json.dumps([int(r) for r in v]) for v in rows.values()]))
    path = tmp_path_factory.mktemp("round") / "t"
    for frame in (long, wide, lists):
        source: Any = frame
        if kind != "frame":
            path.write_bytes(CONTAINERS[kind](frame))
            source = path
        assert table_of(read_pilot(source)) == expected


def test_optional_columns(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "a", "reward": 1, "data_source": "gsm8k", "temperature": 0.6, "response_length": 100},
        {"prompt_id": "a", "reward": 0, "data_source": "gsm8k", "temperature": 0.6, "response_length": 300},
        {"prompt_id": "a", "reward": 1, "data_source": "math", "temperature": 1.0, "response_length": None},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    for source in (path, pl.DataFrame(rows), pd.DataFrame(rows)):
        pilot = read_pilot(source)
        assert pilot.strata == ("gsm8k", "math")
        assert pilot.temperatures == (0.6, 1.0)
        assert pilot.response_tokens is not None
        assert pilot.response_tokens[0] == 200.0
        assert np.isnan(pilot.response_tokens[1])
        assert any("occur in several strata or temperatures" in note for note in pilot.notes)


def test_chat_prompts_are_one_prompt_each(tmp_path: Path) -> None:
    chats = [[{"role": "user", "content": c}] for c in ("1+1?", "2+2?", "1+1?")]
    frame = pl.DataFrame({"prompt": chats, "reward": [1, 0, 0]})
    for kind in ("jsonl", "parquet"):
        path = tmp_path / "t"
        path.write_bytes(CONTAINERS[kind](frame))
        pilot = read_pilot(path)
        assert sorted(zip(pilot.successes.tolist(), pilot.rollouts.tolist(), strict=True)) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "frame"])
def test_where_keeps_rows(tmp_path: Path, kind: str) -> None:
    frame = pl.DataFrame(
        {"id": ["a", "a", "b", "b"], "reward": [1, 0, 1, 1], "model": ["x", "y", "x", "y"], "step": [0, 0, 1, 1]}
    )
    source: Any = frame
    if kind != "frame":
        source = tmp_path / "t"
        source.write_bytes(CONTAINERS[kind](frame))
    pilot = read_pilot(source, where={"model": "x"})
    assert table_of(pilot) == {"a": (1, 1), "b": (1, 1)}
    assert pilot.dropped["rows_outside_where"] == 2
    assert table_of(read_pilot(source, where={"model": "y", "step": 1})) == {"b": (1, 1)}
    assert table_of(read_pilot(source, where={"model": "y", "step": ["0", "1"]})) == {"a": (0, 1), "b": (1, 1)}
    with pytest.raises(PilotFormatError, match=r"rollouts of 2 models \(x, y\).* --where 'model=x'"):
        read_pilot(source)
    with pytest.raises(PilotFormatError, match=r"no column 'nope' \(asked for by --where\)"):
        read_pilot(source, where={"nope": "x"})
    with pytest.raises(PilotFormatError, match=r"no row fits --where. Values among the first rows: model: x, y."):
        read_pilot(source, where={"model": "z"})


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_rollout_passes_at_the_threshold_in_every_container(tmp_path: Path, kind: str) -> None:
    frame = pl.DataFrame({"id": ["a"] * 4, "reward": [0.0, 0.5, 0.75, 1.0]})
    (tmp_path / "t").write_bytes(CONTAINERS[kind](frame))
    assert table_of(read_pilot(tmp_path / "t", pass_threshold=0.5)) == {"a": (3, 4)}
    assert table_of(read_pilot(tmp_path / "t", pass_threshold=-1)) == {"a": (4, 4)}


def test_pass_threshold_on_graded_rewards() -> None:
    frame = pl.DataFrame({"id": ["a"] * 4, "reward": [0.0, 0.5, 0.9, 1.0]})
    assert table_of(read_pilot(frame, pass_threshold=0.9)) == {"a": (2, 4)}
    assert table_of(read_pilot(frame.to_pandas(), pass_threshold=0.5)) == {"a": (3, 4)}
    signed = pl.DataFrame({"id": ["a"] * 3, "reward": [-1, 1, 1]})
    with pytest.raises(PilotFormatError, match=r"values seen: -1, 1\).*--pass-threshold, e.g. 1"):
        read_pilot(signed)
    with pytest.raises(DomainError, match="pass_threshold must be a finite number"):
        read_pilot(frame, pass_threshold=float("nan"))


def test_several_files_a_glob_and_a_folder_are_one_pilot(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"part{i}.jsonl").write_text(f'{{"id": "a", "reward": 1}}\n{{"id": "b{i}", "reward": 0}}\n')
    expected = {"a": (3, 3), "b0": (0, 1), "b1": (0, 1), "b2": (0, 1)}
    paths = [str(p) for p in sorted(tmp_path.iterdir())]
    for source in (paths, str(tmp_path / "*.jsonl"), tmp_path, [*paths, paths[0]]):
        pilot = read_pilot(source)
        assert table_of(pilot) == expected
        assert "3 files were read as one pilot." in pilot.notes


def test_named_columns_win_over_usual_names() -> None:
    frame = pl.DataFrame({"prompt_id": [1, 2], "reward": [1, 1], "my_score": [0, 1], "problem": ["x", "x"]})
    assert table_of(read_pilot(frame, reward="my_score", prompt="problem")) == {"x": (1, 2)}
    assert table_of(read_pilot(frame)) == {"1": (1, 1), "2": (1, 1)}
    wide = pl.DataFrame({"q": ["a"], "tries": [8], "wins": [3], "reward": [0.375]})
    assert table_of(read_pilot(wide, prompt="q", n="tries", k="wins")) == {"a": (3, 8)}


def test_a_row_number_is_not_taken_for_the_prompt() -> None:
    frame = pl.DataFrame({"id": [0, 1, 2, 3], "question": ["a", "a", "b", "b"], "correct": [True, False, True, True]})
    assert table_of(read_pilot(frame)) == {"a": (1, 2), "b": (2, 2)}


def test_ambiguous_names_are_settled_by_the_values() -> None:
    counts = pl.DataFrame({"task_id": ["a", "b"], "n": [8, 8], "correct": [5, 0]})
    assert table_of(read_pilot(counts)) == {"a": (5, 8), "b": (0, 8)}
    rates = pl.DataFrame({"task_id": ["a", "b"], "n": [8, 8], "acc": [0.625, 0.0]})
    assert table_of(read_pilot(rates)) == {"a": (5, 8), "b": (0, 8)}
    constant = pl.DataFrame({"task_id": ["a", "b"], "pass_rate": [0.625, 0.0]})
    assert table_of(read_pilot(constant, rollouts_per_prompt=8)) == {"a": (5, 8), "b": (0, 8)}


def test_repeated_prompts_add_up_and_training_steps_are_noted() -> None:
    wide = pl.DataFrame({"id": ["a", "a", "b"], "n": [8, 8, 8], "k": [1, 2, 3], "visit": [0, 1, 0]})
    pilot = read_pilot(wide)
    assert table_of(pilot) == {"a": (3, 16), "b": (3, 8)}
    assert any("1 rows repeat a prompt" in note for note in pilot.notes)
    assert any("2 steps of training are pooled" in note and "--policy-steps 1 keeps" in note for note in pilot.notes)


def test_memory_does_not_follow_the_number_of_rollouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks and an early compaction give the same counts, and a line number stays right across blocks."""
    path = tmp_path / "t.jsonl"
    rows = [{"id": f"p{i % 7}", "reward": i % 2, "text": "x" * (i % 50)} for i in range(5000)]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    expected = table_of(read_pilot(path))
    monkeypatch.setattr(jsonlines_module, "BLOCK_BYTES", 1000)
    monkeypatch.setattr("grpo_plan.readers.counting.COMPACT_ROWS", 50)
    seen: list[int] = []
    assert table_of(read_pilot(path, progress=seen.append)) == expected
    assert sum(seen) == path.stat().st_size
    rows[4321]["reward"] = 0.5
    path.write_text("\n".join(json.dumps(r) for r in rows))
    with pytest.raises(PilotFormatError, match=r"t\.jsonl:4322: reward is 0\.5"):
        read_pilot(path)


@pytest.mark.parametrize("shape", ["long", "wide", "lists"])
def test_places_are_named_for_errors_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """Naming a place reads the block again; done for every row it would make reading quadratic."""
    row = {
        "long": {"id": "a", "reward": 1},
        "wide": {"id": "a", "n": 4, "k": 1},
        "lists": {"id": "a", "rewards": [1, 0]},
    }[shape]
    path = tmp_path / "t"
    path.write_text((json.dumps(row) + "\n") * 300)
    named: list[int] = []
    original = jsonlines_module._line_namer

    def counting(*arguments: Any) -> Callable[[int], str]:
        place = original(*arguments)
        return lambda index: named.append(index) or place(index)  # type: ignore[func-returns-value]

    monkeypatch.setattr(jsonlines_module, "_line_namer", counting)
    assert read_pilot(path).prompts == 1
    assert not named


def test_the_same_input_gives_the_same_pilot_twice(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": [f"p{i % 997}" for i in range(20_000)], "reward": [i % 3 == 0 for i in range(20_000)]})
    path = tmp_path / "t.parquet"
    frame.write_parquet(path)
    first, second = read_pilot(path), read_pilot(path)
    assert first.prompt_id is not None
    assert second.prompt_id is not None
    assert first.prompt_id.tolist() == second.prompt_id.tolist()


def test_something_that_is_no_table_is_refused() -> None:
    with pytest.raises(PilotFormatError, match="source must be a path, a list of paths, '-' or a dataframe; got int"):
        read_pilot(7)


def test_a_column_of_tokens_is_found_and_one_of_token_ids_is_not(tmp_path: Path) -> None:
    rows = [{"prompt": f"q{i}", "reward": j, "tokens": 10 + 5 * j} for i in range(4) for j in (0, 1)]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pilot = read_pilot(file)
    assert pilot.pass_tokens is not None
    assert pilot.pass_tokens.tolist() == [15.0] * 4
    ids = [{**row, "tokens": [1, 2, 3]} for row in rows]
    file.write_text("\n".join(map(json.dumps, ids)), encoding="utf-8")
    pilot = read_pilot(file)
    assert pilot.response_tokens is None
    assert any("'tokens' is not used as response_tokens" in note for note in pilot.notes)
