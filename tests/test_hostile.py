"""Inputs meant to break things: each kind once found, each a test. Errors are one line; nothing is lost silently."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zstandard

from grpo_plan.cli.main import main
from grpo_plan.errors import DomainError, GrpoPlanError, PilotError, PilotFormatError
from grpo_plan.fitting import FitStatus, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.readers import read_pilot
from tests.test_cli import Run, document, run
from tests.test_readers import table_of

__all__ = ["run"]  # a fixture
Row = dict[str, Any]


def write(path: Path, *rows: object, end: str = "\n") -> Path:
    path.write_text("\n".join(json.dumps(r) for r in rows) + end, encoding="utf-8")
    return path


# --- nothing is overwritten --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["glob", "link", "stdin"])
def test_a_plot_never_overwrites_its_input(run: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    data = b'{"id": "a", "n": 8, "k": 3}\n' * 3
    Path("in.png").write_bytes(data)
    source, target = "./in.pn?", "in.png"
    if how == "link":
        Path("folder").mkdir()
        Path("folder/p.jsonl").write_bytes(data)
        Path("folder/l.png").symlink_to("p.jsonl")
        source, target = "folder", "folder/l.png"
    if how == "stdin":
        source = "-"
    with Path("in.png").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        answer = run("plot", source, "-o", target)
    assert answer.code == 2
    assert "inputs are never written to" in answer.err
    assert Path("in.png").read_bytes() == data


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_devices_are_not_files_and_a_full_disk_is_said(run: Run, example_file: Path) -> None:
    assert "is no regular file" in run("example", "/dev/full").err
    assert "must end in .png, .svg, .pdf" in run("plot", example_file, "-o", "/dev/full").err
    Path("device.png").symlink_to("/dev/full")
    assert "is no regular file" in run("plot", example_file, "-o", "device.png").err
    command = f"{sys.executable} -m grpo_plan mixed --pass-rate 0.2 --group-size 4 > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("grpo-plan: the answer cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1


# --- compressed and odd files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 20])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_cut_off_compressed_files_are_refused(tmp_path: Path, kind: str, compress: Any, cut: int) -> None:
    frame = pl.DataFrame({"id": [f"p{i}" for i in range(5000)], "reward": [1] * 5000})
    data = frame.write_ndjson() if kind == "jsonl" else frame.write_csv()
    path = tmp_path / "t"
    path.write_bytes(compress(data.encode())[:-cut])
    with pytest.raises(PilotFormatError, match="end too early or are damaged"):
        read_pilot(path)


def test_names_with_glob_characters_mean_one_file(tmp_path: Path) -> None:
    for name, prompt in (("a*.x", "star"), ("ab.x", "other"), ("a[1].x", "bracket")):
        for write_to in ("parquet", "ipc"):
            frame = pl.DataFrame({"id": [prompt], "n": [4], "k": [1]})
            path = tmp_path / f"{name}.{write_to}"
            with path.open("wb") as file:
                getattr(frame, f"write_{write_to}")(file)
            assert table_of(read_pilot(path)) == {prompt: (1, 4)}


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for content in ("id,reward\na,1\na,0\n", '{"id": "a", "reward": 1}\n{"id": "a", "reward": 0}\n'):
        writer = subprocess.Popen(["sh", "-c", f"printf '%s' '{content}' > '{pipe}'"])
        assert table_of(read_pilot(pipe)) == {"a": (1, 2)}
        writer.wait(timeout=10)


def test_very_long_first_lines(tmp_path: Path) -> None:
    rows = [{"text": "x" * 700_000, "id": "a", "reward": 1}, {"text": "y", "id": "a", "reward": 0}]
    assert table_of(read_pilot(write(tmp_path / "t", *rows))) == {"a": (1, 2)}
    (tmp_path / "t").write_text(json.dumps([{**r, "text": "x" * 2_000_000} for r in rows]))
    assert table_of(read_pilot(tmp_path / "t")) == {"a": (1, 2)}


def test_hard_links_are_one_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"id": "a", "reward": 1})
    os.link(path, tmp_path / "b.jsonl")
    assert table_of(read_pilot(tmp_path)) == {"a": (1, 1)}


@pytest.mark.parametrize("path", ["", "x" * 5000, "a\0b"])
def test_impossible_paths(path: str) -> None:
    with pytest.raises(PilotFormatError):
        read_pilot(path)


def test_deep_nesting_surrogates_and_huge_numbers_name_their_line(tmp_path: Path) -> None:
    good = '{"id": "a", "reward": 0}\n'
    path = tmp_path / "t"
    path.write_text(good + '{"id": "a", "reward": 0, "z": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(PilotFormatError, match="t:2: is not a JSON object"):
        read_pilot(path)
    path.write_text(good + '{"id": "a", "reward": 1' + "0" * 400 + "}\n")
    with pytest.raises(PilotFormatError, match="t:2: reward is 1000"):
        read_pilot(path)
    path.write_text('{"id": "\\ud800", "reward": 1}\n')
    assert read_pilot(path).prompts == 1
    path.write_text('{"id": "a", "n": 1e19, "k": 0}\n')
    with pytest.raises(PilotFormatError, match="t:1: n must be at most 10,000,000"):
        read_pilot(path)


def test_a_complete_last_line_that_is_no_row_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {"id": "a", "reward": 1}, [1, 2], end="")
    with pytest.raises(PilotFormatError, match="t:2: is not a JSON object"):
        read_pilot(path)


def test_columns_that_appear_late_are_seen(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": f"p{i % 50}", "reward": i % 2, "pad": "x" * 100} for i in range(6000)]
    rows += [{**row, "model": "b" if i % 2 else "a"} for i, row in enumerate(rows)]
    path = write(tmp_path / "t", *rows)
    with pytest.raises(PilotFormatError, match=r"rollouts of 2 models \(a, b\)"):
        read_pilot(path)
    assert read_pilot(path, where={"model": "a"}).total_rollouts == 3000


# --- which column is what ----------------------------------------------------------------------------------------


def test_rollouts_that_carry_their_prompts_counts_are_rollouts() -> None:
    rows = [
        {"prompt_id": p, "reward": int(i < p % 5), "num_samples": 4, "num_correct": p % 5}
        for p in range(9)
        for i in range(4)
    ]
    assert table_of(read_pilot(pl.DataFrame(rows))) == {str(p): (min(p % 5, 4), 4) for p in range(9)}


def test_the_order_of_rows_does_not_choose_the_prompt(tmp_path: Path) -> None:
    rows = [{"question_id": f"q{q}", "index": i, "reward": (q + i) % 2} for q in range(1000) for i in range(4)]
    by_prompt = table_of(read_pilot(write(tmp_path / "a", *rows)))
    by_rollout = table_of(read_pilot(write(tmp_path / "b", *sorted(rows, key=lambda r: str(r["index"])))))
    assert by_prompt == by_rollout
    assert len(by_prompt) == 1000


def test_counts_of_a_model_that_never_passes_twice_are_counts() -> None:
    frame = pl.DataFrame({"task_id": ["a", "b"], "total": [8, 8], "correct": [0, 1]})
    assert table_of(read_pilot(frame)) == {"a": (0, 8), "b": (1, 8)}


@pytest.mark.parametrize("dtype", ["string", "Int64", object])
def test_missing_prompts_strata_and_models_stay_missing(dtype: Any) -> None:
    values = [None, 1, 2, 2] if dtype == "Int64" else [None, "1", "2", "2"]
    frame = pd.DataFrame({"prompt_id": pd.array(values, dtype=dtype), "reward": [1, 1, 0, 1]})
    pilot = read_pilot(frame)
    assert table_of(pilot) == {"1": (1, 1), "2": (1, 2)}
    assert dict(pilot.dropped) == {"missing_prompt": 1}
    named = read_pilot(frame.assign(model=pd.array([None, "m", "m", "m"], dtype="string")))
    assert named.total_rollouts == 3


def test_null_chat_prompts_are_missing_and_text_is_the_same_everywhere(tmp_path: Path) -> None:
    chats = [None, [{"role": "user", "content": "1+1?"}], [{"role": "user", "content": "1+1?"}]]
    frame = pl.DataFrame({"prompt": chats, "reward": [1, 1, 0]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    pilots = [
        read_pilot(s) for s in (frame, frame.lazy(), frame.to_pandas(), tmp_path / "t.parquet", tmp_path / "t.jsonl")
    ]
    for pilot in pilots:
        assert table_of(pilot) == {'[{"content":"1+1?","role":"user"}]': (1, 2)}
        assert dict(pilot.dropped) == {"missing_prompt": 1}
    both = read_pilot([tmp_path / "t.parquet", tmp_path / "t.jsonl"])
    assert (both.prompts, both.total_rollouts) == (1, 4)


def test_whole_batches_in_one_row_are_refused_and_double_columns_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {"prompt_id": ["a", "b"], "reward": [1, 0]})
    with pytest.raises(PilotFormatError, match="holds lists of prompts: one row is a whole batch"):
        read_pilot(path)
    path.write_text("id,reward,reward\na,1,0\na,1,0\n")
    pilot = read_pilot(path)
    assert table_of(pilot) == {"a": (2, 2)}
    assert any("column 'reward' occurs more than once; the first is used" in note for note in pilot.notes)


def test_a_temperature_of_words_is_left_out_and_said() -> None:
    frame = pl.DataFrame({"id": ["a", "a"], "reward": [1, 0], "temperature": ["low", "high"]})
    pilot = read_pilot(frame)
    assert pilot.temperature is None
    assert any("'temperature' is not used as temperature: low is no number" in note for note in pilot.notes)


def test_a_partly_missing_temperature_or_model_is_the_only_one() -> None:
    frame = pl.DataFrame({"id": ["a", "a"], "reward": [1, 0], "temperature": [1.0, None], "model": ["m", None]})
    assert table_of(read_pilot(frame)) == {"a": (1, 2)}
    assert read_pilot(frame).temperatures == (1.0,)


def test_options_without_effect_are_noted_and_clashes_refused() -> None:
    frame = pl.DataFrame({"id": ["a", "a"], "reward": [1, 0], "x": [4, 4]})
    notes = read_pilot(frame, n="x", rollouts_per_prompt=4).notes
    assert any("n was given, but has no effect" in note for note in notes)
    assert any("rollouts_per_prompt was given, but has no effect" in note for note in notes)
    with pytest.raises(PilotFormatError, match="column 'reward' was given as prompt and as reward; pick one"):
        read_pilot(frame, prompt="reward", reward="reward")


def test_where_means_the_same_in_every_format(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "reward": 1, "lvl": 1, "ok": True, "t": 0.7},
        {"id": "b", "reward": 1, "lvl": 2, "ok": False, "t": 0.9},
    ]
    frame = pl.DataFrame(rows)
    write(tmp_path / "t.jsonl", *rows)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    sources = [
        tmp_path / "t.jsonl",
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
        frame,
        frame.to_pandas(),
        frame.cast({"t": pl.Float32}),
    ]
    for source in sources:
        for where in (
            {"lvl": "1"},
            {"lvl": "1.0"},
            {"lvl": 1.0},
            {"ok": "true"},
            {"ok": True},
            {"t": "0.7"},
            {"t": 0.70},
        ):
            assert table_of(read_pilot(source, where=where)) == {"a": (1, 1)}, (source, where)
    big = pl.DataFrame({"id": ["a", "b"], "reward": [1, 1], "w": [2**53, 2**53 + 1]})
    assert table_of(read_pilot(big, where={"w": str(2**53 + 1)})) == {"b": (1, 1)}


# --- numbers in all their types ----------------------------------------------------------------------------------


def test_types_beyond_the_table_engine_are_one_line(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["a"], "reward": pa.array([Decimal(1)], pa.decimal256(50, 0))}), tmp_path / "t")
    with pytest.raises(PilotFormatError, match="t: cannot be read as Parquet"):
        read_pilot(tmp_path / "t")


def test_decimals_count(tmp_path: Path) -> None:
    wide = pa.table(
        {
            "id": ["a"],
            "n": pa.array([Decimal(8)], pa.decimal128(38, 0)),
            "k": pa.array([Decimal(3)], pa.decimal128(38, 0)),
        }
    )
    assert table_of(read_pilot(wide)) == {"a": (3, 8)}
    assert table_of(read_pilot(pd.DataFrame({"id": ["a"], "rewards": [[Decimal(1), Decimal(0)]]}))) == {"a": (1, 2)}


@pytest.mark.parametrize("value", ["eight", [8], True, "inf"])
def test_counts_that_are_no_numbers_are_errors_with_a_place(tmp_path: Path, value: object) -> None:
    path = write(tmp_path / "t", {"id": "a", "n": 8, "k": 1}, {"id": "b", "n": value, "k": 1})
    with pytest.raises(PilotFormatError, match="t:2: n must be a whole number of at least 0; got"):
        read_pilot(path)


def test_missing_counts_are_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t", {"id": "a", "n": 8, "k": 1}, {"id": "b", "n": None, "k": 1}, {"id": "c", "n": 8, "k": "nan"}
    )
    assert dict(read_pilot(path).dropped) == {"prompts_with_missing_counts": 2}


@pytest.mark.parametrize(
    ("rate", "n", "k"),
    [(0.12, 16, 2), (0.02, 64, 1), (0.33, 3, 1), (0.3333, 3, 1), (0.625, 8, 5), (1.0, 8, 8), (0.0214, 10_000, 214)],
)
def test_rounded_rates_become_counts(rate: float, n: int, k: int) -> None:
    assert table_of(read_pilot(pl.DataFrame({"id": ["a"], "n": [n], "pass_rate": [rate]}))) == {"a": (k, n)}


def test_rates_with_too_few_digits_are_refused() -> None:
    with pytest.raises(PilotFormatError, match=r"pass_rate = 0.021 has too few digits to tell how many of n = 10,010"):
        read_pilot(pl.DataFrame({"id": ["a"], "n": [10_010], "pass_rate": [0.021]}))


def test_values_in_messages_keep_their_digits(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {"id": "a", "reward": 0.9999999999999999}, {"id": "a", "reward": 0})
    with pytest.raises(
        PilotFormatError, match=r"reward is 0.9999999999999999, .*--pass-threshold, e.g. 0.9999999999999999"
    ):
        read_pilot(path)


def test_one_scalar_among_lists_is_blamed(tmp_path: Path) -> None:
    path = write(tmp_path / "t", *({"id": i, "rewards": [0, 1]} for i in range(3)), {"id": 9, "rewards": 7})
    with pytest.raises(PilotFormatError, match="t:4: rewards must be a list of rewards; got '7'"):
        read_pilot(path)


# --- the Python interface ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (pd.DataFrame({0: ["a"], 1: [1]}), {}),
        (pd.DataFrame([["a", 1, 0]], columns=["id", "reward", "reward"]), {}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}).lazy().select("nope"), {}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}), {"where": "id=a"}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}), {"where": {"id": None}}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}), {"pass_threshold": "x"}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}), {"pass_threshold": 10**400}),
        (pl.DataFrame({"id": ["a"], "reward": [1]}), {"prompt": ["id"]}),
        (pl.DataFrame({"id": [], "reward": []}), {}),
        (None, {}),
    ],
)
def test_wrong_arguments_are_our_errors(source: object, options: dict[str, Any]) -> None:
    with pytest.raises(GrpoPlanError) as caught:
        read_pilot(source, **options)
    assert "\n" not in str(caught.value)


def test_objects_of_the_wrong_kind_are_named() -> None:
    from grpo_plan.batches import effective_batch
    from grpo_plan.costs import Budget
    from grpo_plan.planning import plan_group_size

    pilot = Pilot.from_counts([1, 2], 4)
    with pytest.raises(DomainError, match="pilot must be a Pilot; got DataFrame"):
        fit_pass_rates(pd.DataFrame())
    with pytest.raises(DomainError, match="fit must be a PassRateFit; got Pilot"):
        plan_group_size(pilot, budget=Budget(rollouts_per_step=64))  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="fit must be a PassRateFit; got Pilot"):
        effective_batch(pilot, prompts_per_step=8, group_size=8)  # type: ignore[arg-type]
    with pytest.raises(PilotError, match="rollouts must be at most 10,000,000 a prompt"):
        Pilot.from_counts([1], [10**9])


def test_representations_are_short(example_file: Path) -> None:
    from grpo_plan.costs import Budget
    from grpo_plan.planning import plan_group_size

    pilot = read_pilot(example_file)
    fit = fit_pass_rates(pilot)
    plan = plan_group_size(fit, budget=Budget(rollouts_per_step=64))
    assert all(len(repr(thing)) < 6000 for thing in (pilot, fit, plan, plan.recommended))
    assert repr(pilot) == "Pilot(prompts=1209, total_rollouts=9672, mean_pass_rate=0.3348, dropped={})"


# --- statistics at the edge --------------------------------------------------------------------------------------


def test_pilots_without_spread_are_fitted() -> None:
    """Large n and one pass rate put the maximum on or next to the edge of no spread."""
    rng = np.random.default_rng(0)
    for prompts, n in [(5, 1000), (30, 1000), (5000, 200), (2, 100_000)]:
        for _ in range(15):
            fit = fit_pass_rates(Pilot.from_counts(rng.binomial(n, 0.3, prompts), n))
            assert fit.beta.rates.correlation < 0.01
    fit = fit_pass_rates(Pilot.from_counts([321, 307, 296, 299, 295], 1000))
    assert fit.beta.rates.mean == pytest.approx(0.3036)


@pytest.mark.parametrize(
    "rows", [[(0, 3), (0, 3), (0, 4), (0, 4), (4, 4)], [(1, 1), (1, 1), (0, 4)], [(0, 2)] * 9 + [(7, 8)] * 9]
)
def test_the_law_of_a_group_sums_to_one_when_n_differs(rows: list[tuple[int, int]]) -> None:
    k, n = np.array(rows).T
    fit = fit_pass_rates(Pilot.from_counts(k, n))
    for g in range(2, 12):
        assert fit.group_pmf(g).sum() == pytest.approx(1.0, abs=1e-9)
        d = fit.dead(g)
        assert d.value is not None
        assert fit.group_pmf(g)[[0, -1]].sum() == pytest.approx(d.value, abs=1e-9)
    if np.all((k == 0) | (k == n)):
        assert fit.dead(16).value == 1.0


def test_rollouts_stopped_by_outcome_are_noticed() -> None:
    rows = [(2, 4)] * 60 + [(0, 16)] * 20
    k, n = np.array(rows).T
    fit = fit_pass_rates(Pilot.from_counts(k, n))
    assert FitStatus.UNEVEN_ROLLOUTS in fit.statuses
    rng = np.random.default_rng(4)
    alarms = 0
    for _ in range(200):  # rollouts that do not depend on outcomes: |z| > 4 has a chance of about 6e-5 each
        n = rng.choice([4, 16], 200)
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(n, rng.beta(0.4, 0.6, 200)), n))
        alarms += FitStatus.UNEVEN_ROLLOUTS in fit.statuses
    assert alarms <= 2


def test_the_law_of_mixed_groups_keeps_its_digits() -> None:
    from grpo_plan.batches import effective_batch

    fit = fit_pass_rates(Pilot.from_counts([32] * 50, 64), "beta")
    batch = effective_batch(fit, prompts_per_step=10**9, group_size=46)
    dead = batch.dead_fraction
    assert batch.mixed_groups.sd == pytest.approx((10**9 * dead * (1 - dead)) ** 0.5, rel=1e-9)


# --- names on the screen -----------------------------------------------------------------------------------------


def test_names_are_printed_as_they_are(run: Run) -> None:
    names = ["[/nope]", "math/[hard]", "[bold]red[/bold]", "a\x1b[31mb", "new\nline"]
    write(Path("t"), *({"id": i, "n": 8, "k": i % 9, "level": names[i % 5]} for i in range(200)))
    answer = run("fit", "t")
    assert answer.code == 0
    for shown in ("[/nope]", "math/[hard]", "[bold]red...", "a?[31mb", "new?line"):
        assert shown in answer.out
    assert {s["stratum"] for s in document(run("fit", "t", "--json"))["strata"]} == set(names)
    Path("bad\nname").write_bytes(b"")
    assert run("fit", "bad\nname").err.count("\n") == 1


def strata_file(path: Path) -> Path:
    return write(path, *({"id": i, "n": 8, "k": i % 9, "level": "Größe" if i % 2 else "長"} for i in range(60)))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_any_output_encoding_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, extra: list[str]
) -> None:
    path, streams = strata_file(tmp_path / "t"), [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    monkeypatch.setattr(sys, "argv", ["grpo-plan", "fit", str(path), *extra])
    with pytest.raises(SystemExit) as exit_:
        main()
    streams[0].flush()
    answer = streams[0].buffer.getvalue()
    assert exit_.value.code == 0
    if extra:
        assert {s["stratum"] for s in json.loads(answer)["strata"]} == {"Größe", "長"}
    else:
        lost = {"ascii": ("Gr\\xf6\\xdfe", "\\u9577"), "latin-1": ("Größe", "\\u9577"), "utf-8": ("Größe", "長")}
        assert all(name in answer.decode(encoding) for name in lost[encoding])


def test_a_process_with_an_ascii_terminal_answers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan", "fit", str(strata_file(tmp_path / "t"))], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert b"\\u9577" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "t", "--nope"],
        ["fit", "t", "--level", "abc"],
        ["fit", "t", "--format", "xml"],
        ["mixed", "--pass-rate", "0.2", "--group-size", "1e3"],
        ["nope"],
        ["fit", "t", "--level", "0.9999999999999999"],
        ["plan", "t", "--rollouts-per-step", "64", "--kappa", "1e308"],
    ],
)
def test_usage_errors_are_one_line(run: Run, arguments: list[str]) -> None:
    write(Path("t"), {"id": "a", "n": 8, "k": 3}, {"id": "b", "n": 8, "k": 5})
    answer = run(*arguments)
    errors = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    assert answer.code == 2
    assert len(errors) == 1
    assert errors[0].startswith("grpo-plan: ")


def test_a_tiny_coherence_gives_no_infinite_number(run: Run) -> None:
    write(Path("t"), *({"id": i, "n": 8, "k": i} for i in range(9)))
    body = document(run("plan", "t", "--rollouts-per-step", "64", "--coherence", "1e-300", "--kappa", "1e12", "--json"))
    assert body["recommended"]["signal"]["noise_to_signal"] is None


def test_many_strata_are_counted_and_not_listed(run: Run) -> None:
    write(Path("t"), *({"id": i, "n": 8, "k": i % 9, "level": f"s{i}"} for i in range(2000)))
    answer = run("fit", "t")
    assert answer.code == 0
    assert "2,000 strata are too many to report one by one" in answer.err


def test_blank_csv_lines_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,reward\na,1\n\n,\nb,0\n")
    dropped = dict(read_pilot(tmp_path / "t.csv").dropped)
    assert sum(dropped.values()) <= 2
    assert set(dropped) <= {"missing_prompt"}
