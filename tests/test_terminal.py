"""The terminal: help, completion, names that are mistyped, width and colour, progress, ends that come early."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from grpo_plan._files import write_whole
from grpo_plan._suggest import closest, did_you_mean, not_one_of
from grpo_plan.cli.common import console, cut, padded, print_table, say, wrapped
from grpo_plan.cli.help_groups import COMMAND_GROUPS, OPTION_GROUPS, QUESTION, group_of
from grpo_plan.cli.main import COMMANDS, build_app
from grpo_plan.cli.terminal import colours, page_width, prose_width
from grpo_plan.cli.waiting import counting, waiting
from grpo_plan.cli.words import OTHER_WORDS, without_arguments
from grpo_plan.estimators.registry import ESTIMATORS
from grpo_plan.example import example_run_lines
from tests.conftest import ROOT
from tests.test_cli import Run, run

__all__ = ["run"]  # a fixture

ESCAPE = "\x1b["


@cache
def commands() -> dict[str, Any]:
    import typer

    group: Any = typer.main.get_command(build_app([]))
    found: dict[str, Any] = group.commands
    return found


# help ----------------------------------------------------------------------------------------------------------------


def test_every_command_has_a_place_in_the_help_and_the_four_most_used_are_first(run: Run) -> None:
    placed = [name for names in COMMAND_GROUPS.values() for name in names]
    assert set(COMMANDS) <= set(placed)
    assert len(placed) == len(set(placed))
    listed = re.findall(r"^  ([a-z][a-z-]+) {2,}[A-Z]", run("--help").out, re.MULTILINE)
    assert listed[:4] == ["example", "fit", "plan", "diagnose"]
    assert sorted(listed) == sorted(COMMANDS)
    assert run().out == run("--help").out == run("-h").out
    assert run("-V").out == run("--version").out


def test_options_are_grouped_in_one_order_in_every_command(run: Run) -> None:
    order = [*OPTION_GROUPS]
    for name in COMMANDS:
        page = run(name, "--help").out
        headings = [h for h in re.findall(r"^([A-Z][A-Za-z ]+):$", page, re.MULTILINE) if h in order]
        assert headings == sorted(headings, key=order.index), name
        assert headings[-1] == "Answer"
        options = [max(p.opts, key=len).lstrip("-") for p in commands()[name].params if p.param_type_name == "option"]
        shown = re.findall(r"^  (?:-\w, )?--([a-z-]+)", page, re.MULTILINE)
        assert sorted(shown) == sorted([*options, "help"]), name
    assert group_of("prompt-column", "fit") == group_of("prompt-column", "mix") == "Columns"
    assert group_of("kappa", "plan") == QUESTION


@pytest.fixture(scope="module")
def make_docs() -> Any:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example_of(name: str) -> list[str]:
    return shlex.split(re.search(r"Example: grpo-plan (.*)", commands()[name].help)[1])  # type: ignore[index]


@pytest.mark.slow
def test_the_example_of_every_command_runs_as_printed(run: Run, example_file: Path, make_docs: Any) -> None:
    """The watch ends after one look; the simulation is cut to a few steps, as only its options are of interest here."""
    for name in ("pilot.jsonl", "cool.jsonl", "warm.jsonl"):
        Path(name).write_bytes(example_file.read_bytes())
    Path("run.jsonl").write_text("".join(f"{line}\n" for line in example_run_lines()))
    make_docs.write_policies(Path("base.jsonl"), Path("trained.jsonl"))
    plan = run("plan", "pilot.jsonl", "--budget-rollouts", "2e6", "--steps", 500, "--json").out
    Path("plan.json").write_text(plan)
    less = {"watch": ["--once"], "simulate": ["--steps", "5", "--seeds", "2", "--learning-rate", "1"]}
    for name in COMMANDS:
        words = example_of(name)
        assert words[0] == name
        assert len(shlex.join(["grpo-plan", *words])) <= 78
        answer = run(*words, *less.get(name, []))
        assert answer.code in ((0, 4) if "--fail-on" in words else (0,)), (name, answer.err)


# completion ----------------------------------------------------------------------------------------------------------


def completed(*words: str, shell: str = "bash", folder: Path | None = None) -> list[str]:
    """What the shell is offered for the last of the words, by the protocol of its script."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_GRPO_PLAN_COMPLETE": f"complete_{shell}"}
    line = shlex.join(["grpo-plan", *words[:-1]]) + f" {words[-1]}"
    if shell == "bash":
        environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        environment |= {"_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1]}
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan"], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_commands_options_values_and_columns_are_completed(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("question_id,score\na,1\na,0\n")
    assert completed("pl") == ["plan", "plot"]
    assert completed("plan", "--budget-u") == ["--budget-usd"]
    assert completed("fit", "p.csv", "--reward-column", "", folder=tmp_path) == ["question_id", "score"]
    assert completed("simulate", "p.csv", "--estimators", "rloo,gr") == [
        "rloo,grpo", "rloo,grpo_sample", "rloo,grpo_batch", "rloo,grpo_passk",
    ]  # fmt: skip
    assert completed("fit", "no.csv", "--reward-column", "", folder=tmp_path) == [""]


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell"])
def test_other_shells_are_answered_too(shell: str) -> None:
    lines = completed("plan", "x", "--trainer", "s", shell=shell)
    assert [re.findall(r"skyrl|slime", line) for line in lines if "s" in line] != []
    assert "skyrl" in "".join(lines)
    assert "verl" not in "".join(lines)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes(tmp_path: Path) -> None:
    (tmp_path / "grpo-plan").write_text(f'#!/bin/sh\nexec {sys.executable} -m grpo_plan "$@"\n')
    (tmp_path / "grpo-plan").chmod(0o755)
    script = (
        'eval "$(grpo-plan --show-completion bash)"; complete -p grpo-plan;'
        "COMP_WORDS=(grpo-plan formats ver); COMP_CWORD=2; _grpo_plan_completion grpo-plan; echo ${COMPREPLY[*]}"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F _grpo_plan_completion grpo-plan" in done.stdout
    assert done.stdout.split("\n")[-2].split()[:2] == ["verl-v1", "verl-legacy"]


def test_a_shell_can_be_named_and_a_wrong_one_is_met(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish", "powershell"):
        assert "_GRPO_PLAN_COMPLETE" in run("--show-completion", shell).out
    assert run("--show-completion", "bsh").err.endswith("got 'bsh'. Did you mean 'bash'?\n")
    monkeypatch.setattr("grpo_plan.cli.completion._own_shell", lambda: "")
    assert "cannot tell which shell this is. Name it" in run("--show-completion").err
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert ".bash_completions/grpo-plan.sh" in run("--install-completion", "bash").out
    assert Path(".bash_completions/grpo-plan.sh").read_text() == run("--show-completion", "bash").out.rstrip("\n")


# names ---------------------------------------------------------------------------------------------------------------


def near(known: list[str]) -> None:
    """Each name is found by itself in other letters, and with two letters swapped, one left out, or one too many."""
    plain = [name.replace("-", "") for name in known]
    for name in known:
        if plain.count(name.replace("-", "")) > 1:
            continue  # --rewards and --reward-s
        assert closest(name.upper().replace("_", "-"), known) == name
        if len(name) < 7 or any(other != name and other.startswith(name[:5]) for other in known):
            continue
        middle = len(name) // 2
        slips = (
            name[:middle] + name[middle + 1] + name[middle] + name[middle + 2 :],
            name[:middle] + name[middle + 1 :],
            name[:middle] + "x" + name[middle:],
        )
        for slip in set(slips) - set(known):
            assert closest(slip, known) == name, slip


def test_names_are_found_by_what_was_typed_and_nonsense_by_nothing() -> None:
    options = [name for c in commands().values() for p in c.params for name in p.opts if name.startswith("--")]
    for known in (list(COMMANDS), list(ESTIMATORS), sorted(set(options)), ["question_id", "reward", "completion"]):
        near(known)
    for nonsense in ("banana", "x", "", "??", "zzzzzz", "ppo", "gspo", "the", "1234", "a" * 500):
        assert closest(nonsense, [*COMMANDS, *ESTIMATORS]) is None
    assert closest("prompt", ["prompt_a", "prompt_b"]) is None, "two are as near"
    assert did_you_mean("plan", ["plan"]) == ""
    assert not_one_of("k", None, []) == "k must be one of (none); got None."
    assert closest("qid", ["question_id", "quid_pro"]) is not None


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["dignose"], "Did you mean 'diagnose'?"),
        (["group-size"], "Is it 'plan' that you look for?"),
        (["fit", "FILE", "--prmpt-column", "q"], "Did you mean '--prompt-column'?"),
        (["plan", "FILE", "--budget", "9"], "--budget-rollouts, --budget-tokens, --budget-gpu-hours, --budget-usd?"),
        (["plan", "FILE", "--num_generations", "9"], "Here it is --group-sizes."),
        (["diagnose", "FILE", "--fail-on", "critcal"], "Did you mean 'critical'?"),
        (["fit", "FILE", "--prompt-column", "qid"], "Columns: question_id, reward, step, level. Did you mean 'question_id'?"),
        (["fit", "FILE", "--reward-column", "correctness"], "Did you mean 'reward'?"),
        (["fit", "FILE", "--where", "levle=3"], "Did you mean 'level'?"),
        (["fit", "FILE", "--family", "tiltedbeta"], "Did you mean 'tilted-beta'?"),
        (["fit", "FILE", "--format", "verlv1"], "Did you mean 'verl-v1'?"),
        (["fit", "FILE", "--split", "evl"], "Did you mean 'eval'?"),
        (["fit", "FILE", "--removed", "allpass"], "Did you mean 'all-pass'?"),
        (["plan", "FILE", "--steps", "9", "--rollouts-per-step", "64", "--estimator", "grop"], "Did you mean 'grpo'?"),
        (["plan", "FILE", "--steps", "9", "--rollouts-per-step", "64", "--objective", "signl"], "Did you mean 'signal'?"),
        (["plan", "FILE", "--steps", "9", "--rollouts-per-step", "64", "--trainer", "openrlfh"], "Did you mean 'openrlhf'?"),
        (["mix", "FILE", "--stratum-column", "level", "--floor", "hrad=0.1"], "Did you mean 'hard'?"),
        (["plot", "FILE", "--kind", "pass-rate"], "Did you mean 'pass-rates'?"),
        (["simulate", "FILE", "--optimizer", "adamnorm"], "Did you mean 'adam-norm'?"),
        (["losses", "--lengths", "2,8", "--advantages", "1,-1", "--aggregation", "verl:token_maen"], "verl:token-mean"),
        (["advantages", "--rewards", "1,0", "--estimator", "drgrpo"], "Did you mean 'dr_grpo'?"),
    ],
)  # fmt: skip
def test_a_mistyped_name_is_met_with_the_one_that_was_meant(run: Run, words: list[str], meant: str) -> None:
    rows = [
        {"question_id": f"q{i // 4}", "reward": i % 3 % 2, "step": i % 2, "level": "hard" if i < 40 else "easy"}
        for i in range(80)
    ]
    Path("p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = run(*("p.jsonl" if word == "FILE" else word for word in words))
    assert answer.code in (1, 2)
    assert answer.out == ""
    last = answer.err.splitlines()[-1]
    assert last.startswith("grpo-plan: ")
    assert meant in last


def test_nothing_is_proposed_for_nonsense(run: Run) -> None:
    for words in (["zzz"], ["fit", "--zzz"], ["mixed", "--pass-rate", 0.2, "--group-size", 4, "--format", "zzz"]):
        err = run(*words).err
        assert err.count("\n") == 1
        assert "mean" not in err


def test_other_tools_words_name_options_that_exist() -> None:
    options = {name.lstrip("-") for c in commands().values() for p in c.params for name in p.opts}
    assert set(OTHER_WORDS.values()) <= options
    assert without_arguments("steps (--steps) or n (n=)") == "--steps or n"


# width and colour ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "terminal", "colour"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, False, True),
        ({"CLICOLOR": "0"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour_follows_the_terminal_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], terminal: bool, colour: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    assert colours(stream) is colour


def test_colour_never_carries_the_meaning_and_a_file_is_plain(
    run: Run, example_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run("fit", example_file).out
    assert ESCAPE not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run("fit", example_file)
    assert ESCAPE in coloured.out
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.out) == plain
    assert ESCAPE not in run("fit", example_file, "--json").out
    Path("run.jsonl").write_text("".join(f"{line}\n" for line in example_run_lines()))
    run("diagnose", "run.jsonl", "-o", "answer.txt")
    assert ESCAPE not in Path("answer.txt").read_text()


@pytest.mark.parametrize("columns", [40, 80, 100, 140])
def test_pages_keep_to_the_width_and_break_no_number(
    run: Run, example_file: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert (page_width(), prose_width()) == (columns, min(columns, 100))
    words = ["plan", example_file, "--budget-rollouts", "2e6", "--steps", 500]
    for page in (run("fit", example_file).out, run(*words).out, run("plan", "--help").out):
        lines = page.splitlines()
        widest = max(map(len, [line for line in lines if not line.startswith("  grpo-plan ")]))
        assert widest <= columns
        assert not re.search(r"\[[\d.]+,?$", page, re.MULTILINE), "an interval is broken"
    assert "0.439 [0.411, 0.467]" in run("fit", example_file).out
    if columns == 140:
        assert "all-fail" in run(*words).out.split("Designs")[1].splitlines()[1]


def test_a_narrow_table_repeats_its_first_column(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("G", "one", "two"):
        table.add_column(name, no_wrap=True)
    table.add_row("8", "0.439 [0.411, 0.467]", "0.363 [0.336, 0.391]")
    for columns, heads in ((80, ["G  one                   two"]), (40, ["G one", "G two"])):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = console()
        out.file = StringIO()
        print_table(out, table)
        assert [line for line in out.file.getvalue().splitlines() if line.startswith("G")] == heads


def test_wide_signs_count_as_two_and_long_names_end_in_dots(run: Run) -> None:
    assert cut("数学の問題とても長い名前", 12) == "数学の問..."
    assert padded("数学", 6) == "数学  "
    assert wrapped("数学の問題 数学の問題 a", 20, "") == "数学の問題\n数学の問題 a"
    long = "agentic/tool-use/multi-turn/with-a-long-path"
    rows = [
        {"prompt_id": i, "n": 8, "k": i % 9, "stratum": ("数学の問題とても長い名前", long)[i % 2]} for i in range(90)
    ]
    Path("p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = run("fit", "p.jsonl", "--stratum-column", "stratum").out
    assert "agentic/t...  0." in answer
    assert long not in answer
    assert long in run("fit", "p.jsonl", "--stratum-column", "stratum", "--json").out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_that_lacks_a_sign_is_no_error(tmp_path: Path, encoding: str) -> None:
    rows = [{"prompt_id": i, "n": 4, "k": i % 5, "stratum": ("é", "数学")[i % 2]} for i in range(60)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan", "fit", "p.jsonl", "--stratum-column", "stratum"],
        cwd=tmp_path, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode(encoding)
    assert ("数学" if encoding == "utf-8" else "\\u6570\\u5b66") in shown


def test_a_paragraph_breaks_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = console()
    out.file = StringIO()
    path = "runs/" + "x" * 60 + ".jsonl"
    say(out, f"Read {path} again.", "  ")
    assert path in out.file.getvalue()


# progress ------------------------------------------------------------------------------------------------------------


class Screen(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_long_work_is_shown_on_a_terminal_only_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("grpo_plan.cli.waiting.PATIENCE", 0.01)
    for screen in (Screen(), StringIO()):
        monkeypatch.setattr("sys.stderr", screen)
        with waiting("computing limits"):
            time.sleep(0.1)
        with counting("simulating") as progress:
            if progress is not None:
                progress(1, 3)
                progress(1, 3)
        shown = screen.getvalue()
        if term == "dumb" or not screen.isatty():
            assert shown == ""
        else:
            assert "\rcomputing limits (" in shown
            assert shown.count("\rsimulating  33 %") == 1
            assert shown.endswith("\r")
            assert shown.rstrip("\r").split("\r")[-1].strip() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_pipe_gets_no_escapes_and_a_terminal_is_left_clean(tmp_path: Path, example_file: Path) -> None:
    """In a pseudo-terminal of 100 columns: bold and colour there; the cursor is never hidden without being shown again."""
    import fcntl
    import pty
    import struct
    import termios

    def on_terminal(*words: str) -> str:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_plan", *words],
            stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=tmp_path, close_fds=True,
        )  # fmt: skip
        os.close(slave)
        said = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            said += part
        os.close(master)
        process.wait()
        return said.decode()

    shown = on_terminal("fit", str(example_file))
    assert "\x1b[1m" in shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    page = plain[plain.index("Answer") :].splitlines()
    assert 80 < max(map(len, page)) <= 100
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h")
    assert "\x1b[31mgrpo-plan:\x1b[0m No such command" in on_terminal("fti")


# early ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_with_one_line_and_no_file(
    tmp_path: Path, example_file: Path, number: int, code: int, word: str
) -> None:
    """The signal comes while the file is written: what was begun is taken away, and the old file is still there."""
    (tmp_path / "out.jsonl").write_text("old\n")
    script = (
        "import os, signal, sys, pathlib; from grpo_plan.__main__ import main;"
        "real = pathlib.Path.write_bytes\n"
        "def slow(self, data):\n"
        "    real(self, data[:10])\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    raise AssertionError\n"
        "pathlib.Path.write_bytes = slow\n"
        f"sys.argv = ['grpo-plan', 'allocate', {str(example_file)!r}, '-o', 'out.jsonl']; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == f"grpo-plan: {word}."
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert (tmp_path / "out.jsonl").read_text() == "old\n"


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    write_whole(tmp_path / "link", "new")
    assert target.read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "link"], "nothing is left beside it"
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    real = Path.write_bytes

    def full(self: Path, data: Any) -> int:
        real(self, data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, "newer")
    assert target.read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "link"]


# the page ------------------------------------------------------------------------------------------------------------


def test_the_messages_of_the_page_are_those_that_are_printed(run: Run, example_file: Path) -> None:
    Path("pilot.jsonl").write_bytes(example_file.read_bytes())
    page = (ROOT / "docs/terminal.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `grpo-plan ([^`]+)` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for typed, said in rows:
        answer = run(*shlex.split(typed))
        assert answer.code in (1, 2)
        assert said in answer.err.splitlines()[-1], typed


def test_the_page_names_every_exit_code_and_variable() -> None:
    page = (ROOT / "docs/terminal.md").read_text(encoding="utf-8")
    source = (ROOT / "grpo_plan/cli/terminal.py").read_text(encoding="utf-8")
    for name in re.findall(r'"([A-Z_]{4,})"', source):
        assert f"`{name}`" in page, name
    for code in (0, 1, 2, 3, 4, 130, 143):
        assert re.search(rf"^\| (?:\d+, )?{code}\b", page, re.MULTILINE), code
