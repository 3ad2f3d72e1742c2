"""Changed files of every format: an answer or one error of one line, nothing lost silently, in bounded time.

The default run tries a few hundred mutants; ``GRPO_PLAN_FUZZ=400`` tries so many of every source, and more examples.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.group_log import GroupLog
from grpo_plan.pilot import Pilot
from grpo_plan.readers import read_groups
from grpo_plan.run_log import RunLog
from tests.fuzz_corpus import Source, sources
from tests.mutations import NO_REWARDS, dumps, mutant, row_mutant, without_row

MANY = int(os.environ.get("GRPO_PLAN_FUZZ", "0"))
MUTANTS = MANY or 5
ROW_MUTANTS = MANY or 6
EXAMPLES = 10 * MANY or 25
SECONDS = 120
ENGINE = "panicked at"  # written past Python by the table engine's threads; the command line keeps it away
ALL = sources()
NAMES = [source.name for source in ALL]
Counts = dict[str, tuple[int, int]]


@contextmanager
def time_limit(what: str) -> Iterator[None]:
    """Fails a test that hangs; a call into the engine is interrupted when it returns."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        pytest.fail(f"{what}: takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def put(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files; those that cannot stand beside another (a file where a folder is) are left out."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def is_one_line(text: str) -> bool:
    return text.isprintable() and len(text) < 2500


def tried(read: Callable[..., Any], folder: Path, what: str, **options: Any) -> Pilot | GroupLog | RunLog | str:
    """What a reader gives, or the message of its error; anything else fails."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with time_limit(what):
        try:
            found: Pilot | GroupLog | RunLog | str = read(folder, **options)
        except GrpoPlanError as error:
            found = str(error)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    if isinstance(found, str):
        assert is_one_line(found), what
    else:
        assert all(map(is_one_line, found.notes)), what
        assert all(count > 0 for count in found.dropped.values()), what
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, what
    return found


def of_groups(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "pass_threshold"}


@pytest.mark.parametrize("name", NAMES)
def test_mutants(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = ALL[NAMES.index(name)]
    if name == "slime":
        pytest.importorskip("torch", exc_type=ImportError)
    for seed in range(MUTANTS):
        changed = mutant(source, seed)
        what = f"{name}, seed {seed} ({changed.what})"
        folder = put(changed.files, tmp_path / str(seed))
        more = {"skip_malformed": True} if seed % 3 == 2 else {}
        if source.run:
            tried(gp.read_run, folder, what, **more)
        else:
            tried(gp.read_pilot, folder, what, **source.options, **more)
            tried(read_groups, folder, what, **of_groups(source.options), **more, details=seed % 2 == 1)
        said = capfd.readouterr()
        assert not said.out, what
        assert not said.err or ENGINE in said.err, what


# --- nothing is lost silently ---------------------------------------------------------------------------------------


def counts_of(pilot: Pilot) -> Counts:
    """Passes and rollouts of each prompt."""
    out: Counts = {}
    assert pilot.prompt_id is not None
    for prompt, k, n in zip(pilot.prompt_id, pilot.successes.tolist(), pilot.rollouts.tolist(), strict=True):
        before = out.get(prompt, (0, 0))
        out[prompt] = (before[0] + k, before[1] + n)
    return out


def accounted(pilot: Pilot) -> int:
    """Rows that were counted or left out; of a source with one row a prompt, prompts."""
    of_rows = pilot.provenance.groups is not None
    left = sum(count for reason, count in pilot.dropped.items() if not (of_rows and reason.startswith("prompts_")))
    return left + (pilot.total_rollouts if of_rows else pilot.prompts)


ROWS = [source.name for source in ALL if source.rows]


@pytest.mark.parametrize("name", ROWS)
def test_one_changed_row_changes_its_own_prompt_or_is_said(name: str, tmp_path: Path) -> None:
    source = ALL[NAMES.index(name)]
    clean = gp.read_pilot(put(source.files, tmp_path / "clean"), **source.options)
    counts, rows = counts_of(clean), accounted(clean)
    for seed in range(ROW_MUTANTS):
        changed = row_mutant(source, seed)
        what = f"{name}, seed {seed} ({changed.what})"
        assert changed.file is not None
        assert changed.line is not None
        found = tried(gp.read_pilot, put(changed.files, tmp_path / str(seed)), what, **source.options)
        if isinstance(found, str):
            assert Path(changed.file).name in found, what
            continue
        assert isinstance(found, Pilot)
        now = counts_of(found)
        other = {prompt for prompt in counts if now.get(prompt) != counts[prompt]}
        new = {prompt for prompt in now if prompt not in counts}
        assert accounted(found) == rows, what
        assert len(new) <= 1, what
        if not other and not new:
            continue
        fewer = put(without_row(source.files, changed.file, changed.line), tmp_path / f"{seed} without")
        without = tried(gp.read_pilot, fewer, what, **source.options)
        own = {p for p in counts if isinstance(without, Pilot) and counts_of(without).get(p) != counts[p]}
        joined = {p for p in other - own if now[p][1] == counts[p][1] + 1}  # it now names another prompt that is there
        assert isinstance(without, str) or other - joined <= own, what
        assert len(joined) <= 1, what


@pytest.mark.parametrize("name", [source.name for source in ALL if source.rows and source.reward])
def test_what_is_no_reward_is_refused_or_counted(name: str, tmp_path: Path) -> None:
    source = ALL[NAMES.index(name)]
    file = source.data[0]
    clean = gp.read_pilot(put(source.files, tmp_path / "clean"), **source.options)
    lines = source.files[file].splitlines(keepends=True)
    scored = next(i for i in range(len(lines)) if _is_scored(source, i, clean, tmp_path))
    for number, value in enumerate((*NO_REWARDS, None, float("nan"), float("inf"))):
        row = json.loads(lines[scored])
        inner = row
        for key in source.reward[:-1]:
            inner = inner[key]
        if inner[source.reward[-1]] == value or (value == [1] and name in ("nemo-rl", "skyrl-eval")):
            continue  # lists of one reward, or of one a token
        inner[source.reward[-1]] = value
        text = b"".join([*lines[:scored], dumps(row) + b"\n", *lines[scored + 1 :]])
        folder = put({**source.files, file: text}, tmp_path / str(number))
        found = tried(gp.read_pilot, folder, f"{name}, {value!r}", **source.options)
        if isinstance(found, str):
            assert Path(file).name in found
        else:
            assert isinstance(found, Pilot)
            assert sum(found.dropped.values()) > sum(clean.dropped.values()), value
            assert accounted(found) == accounted(clean), value


def _is_scored(source: Source, line: int, clean: Pilot, folder: Path) -> bool:
    """Whether a row counts: without it there is a rollout less."""
    files = without_row(source.files, source.data[0], line)
    try:
        found = gp.read_pilot(put(files, folder / f"row {line}"), **source.options)
    except PilotFormatError:
        return True
    return found.total_rollouts < clean.total_rollouts


# --- rows made up ---------------------------------------------------------------------------------------------------

REWARDS = st.sampled_from([0, 1, 0.0, 1.0, True, False, "C", "I", "1", None, float("nan")])
PASSES = {0: 0, 1: 1, "C": 1, "I": 0, "1": 1}
MESSAGES = [{"role": "user", "content": "x"}]


def v1(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    uid = f"{prompt}{step}{'0' * 30}_{i}_0"
    return {"input": f"q{prompt}", "output": "x", "gts": "1", "score": reward, "step": step, "uid": uid}


def legacy(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {"input": f"q{prompt}", "output": f"x{i}", "gts": "1", "score": reward, "step": step}


def skyrl(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {
        "input_prompt": f"q{prompt}", "output_response": f"x{i}", "score": reward, "stop_reason": "stop",
        "env_class": "gsm8k", "data_source": "toy",
    }  # fmt: skip


def open_instruct(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {
        "step": step, "sample_idx": i, "prompt_idx": prompt, "prompt_tokens": [prompt], "response_tokens": [1, 2],
        "reward": reward, "advantage": 0.0, "finish_reason": "stop", "dataset": "toy",
    }  # fmt: skip


def tinker(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {
        "schema_version": 1, "split": "train", "iteration": step, "group_idx": prompt, "traj_idx": i, "tags": [],
        "total_reward": reward, "final_reward": reward, "steps": [{"ac_len": 3, "metrics": {}}],
    }  # fmt: skip


def verifiers_v0(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {"example_id": prompt, "prompt": MESSAGES, "completion": MESSAGES, "reward": reward, "is_completed": True}


def verifiers(prompt: int, i: int, step: int, reward: Any) -> dict[str, Any]:
    return {
        "id": f"{prompt} {i} {step}", "env": {"id": "toy"}, "task": {"key": f"q{prompt}"}, "ok": True,
        "run": {"id": "r", "type": "eval"}, "traces": [{"rewards": {"correct": {"score": reward}}, "ok": True}],
    }  # fmt: skip


MADE = {
    "verl-v1": v1, "verl-legacy": legacy, "skyrl-eval": skyrl, "open-instruct": open_instruct, "tinker": tinker,
    "verifiers-v0": verifiers_v0, "verifiers": verifiers,
}  # fmt: skip
ROLLOUTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 3), REWARDS), min_size=3, max_size=30
)  # prompt, step, reward


@pytest.mark.parametrize("name", MADE)
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)  # fmt: skip
@given(rollouts=ROLLOUTS)
def test_made_up_rows_are_counted_as_by_hand(
    name: str, rollouts: list[tuple[int, int, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{name}.jsonl"
    rows = [MADE[name](prompt, i, step, reward) for i, (prompt, step, reward) in enumerate(rollouts)]
    path.write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
    passes, scored = Counter[Any](), Counter[Any]()
    joins = name not in ("tinker",)  # other formats name the prompt
    for prompt, step, reward in rollouts:
        if reward is None or reward != reward:
            continue
        key = prompt if joins else (prompt, step)
        scored[key] += 1
        passes[key] += PASSES[reward]
    missing = len(rollouts) - sum(scored.values())
    if not scored:
        with pytest.raises(PilotFormatError, match="at least one prompt with a scored rollout"):
            gp.read_pilot(path, pass_threshold=1.0)
        return
    pilot = gp.read_pilot(path, pass_threshold=1.0)
    assert pilot.provenance.format == name
    by_group = pilot.provenance.filtered is not None  # then each group counts apart
    found = sorted(counts_of(pilot).values()) if not by_group else None
    assert by_group or found == sorted((passes[key], scored[key]) for key in scored)
    assert int(pilot.successes.sum()) == sum(passes.values())
    assert pilot.total_rollouts == sum(scored.values())
    assert pilot.dropped.get("missing_reward", 0) == missing
    assert accounted(pilot) == len(rows)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", MADE)
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)  # fmt: skip
@given(data=st.data())
def test_odd_values_in_made_up_rows(name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = [MADE[name](prompt, i, 1, float(i % 2)) for prompt in range(3) for i in range(4)]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(ODD)
    folder = tmp_path_factory.getbasetemp() / f"odd {name}"
    folder.mkdir(exist_ok=True)
    (folder / "1.jsonl").write_bytes(b"".join(dumps(row) + b"\n" for row in rows))
    found = tried(gp.read_pilot, folder, name)
    if isinstance(found, Pilot) and found.provenance.format == name:
        traces = [row.get("traces") for row in rows]  # an episode has a rollout for each
        assert accounted(found) == sum(len(t) if isinstance(t, list) and t else 1 for t in traces)
    tried(read_groups, folder, name, details=True)
