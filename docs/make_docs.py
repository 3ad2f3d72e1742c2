"""Write the outputs of every command shown in README and docs, and the command reference, from the code.

Run ``python docs/make_docs.py`` after a change of what is printed, and review the difference. A test compares.
"""

from __future__ import annotations

import json
import os
import random
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "site")]
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("**/*.md")))
Runner = Callable[[list[str], Path], str]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SCRIPT = re.compile(r"```python\n(# (\w+\.py)\n.*?)```", re.DOTALL)  # its first line is its name


def _environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}


def in_a_process(words: list[str], folder: Path) -> str:
    """What ``grpo-plan`` prints, started in a folder as a person would."""
    program = [sys.executable, "-m", "grpo_plan"]
    done = subprocess.run([*program, *words], cwd=folder, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def refreshed(text: str, folder: Path, runner: Runner = in_a_process) -> str:
    """The page with the output of every ``$`` command of its console blocks, run in order in a folder.

    Commands are ``grpo-plan ...``, and ``python NAME.py`` of a Python block whose first line is ``# NAME.py``.
    """
    if "temperatures.jsonl" in text:
        write_temperatures(folder / "temperatures.jsonl")
    if "trained.jsonl" in text:
        write_policies(folder / "base.jsonl", folder / "trained.jsonl")
    if "lengths.jsonl" in text:
        write_lengths(folder / "lengths.jsonl")
    if "--kappa kappa.json" in text:
        write_probe(folder / "kappa.json")
    for name, write in runpy.run_path(str(ROOT / "docs" / "faq_inputs.py"))["INPUTS"].items():
        if name in text:
            write(folder / name)
    for program, name in SCRIPT.findall(text):
        (folder / name).write_text(program, encoding="utf-8")

    def rerun(match: re.Match[str]) -> str:
        commands = [line for line in match.group(1).splitlines() if line.startswith("$ ")]
        outputs = (f"{line}\n{_output(line[2:], folder, runner)}" for line in commands)
        return "```console\n" + "".join(outputs) + "```"

    return BLOCK.sub(rerun, text)


def write_temperatures(path: Path) -> None:
    """A simulated pilot for the pages: 500 prompts, 8 rollouts each at three temperatures, which sharpen the odds."""
    rng = random.Random(20)
    rates = [min(max(rng.betavariate(0.35, 0.7), 1e-9), 1.0 - 1e-9) for _ in range(500)]
    with path.open("w", encoding="utf-8") as file:
        for temperature in (0.7, 1.0, 1.2):
            for i, rate in enumerate(rates):
                odds = (rate / (1.0 - rate)) ** (1.0 / temperature)
                passes = sum(rng.random() < odds / (1.0 + odds) - 0.02 * (temperature - 1.0) for _ in range(8))
                row = {"prompt_id": f"q{i}", "temperature": temperature, "n": 8, "k": passes}
                file.write(json.dumps(row) + "\n")


def write_lengths(path: Path) -> None:
    """A simulated pilot for the pages: 400 prompts, 8 rollouts each; wrong responses are longer, hard prompts too."""
    rng = random.Random(23)
    with path.open("w", encoding="utf-8") as file:
        for i in range(400):
            rate, effect = rng.betavariate(0.5, 0.7), rng.gauss(0.0, 0.4)
            for _ in range(8):
                right = rng.random() < rate
                tokens = round(rng.lognormvariate(6.3 - 0.5 * right - 0.3 * rate + effect, 0.5))
                row = {"prompt_id": f"q{i}", "reward": int(right), "response_tokens": min(tokens, 4096)}
                file.write(json.dumps(row) + "\n")


def write_policies(before: Path, after: Path) -> None:
    """Two simulated pilots for the pages: 600 prompts, 16 rollouts each; odds rise, hard prompts get lost."""
    rng = random.Random(22)
    with before.open("w", encoding="utf-8") as first, after.open("w", encoding="utf-8") as second:
        for i in range(600):
            rate = min(max(rng.betavariate(0.4, 0.9), 1e-9), 1.0 - 1e-9)
            odds = 4.0 * rate / (1.0 - rate)
            trained = 0.0 if rate < 0.3 and rng.random() < 0.4 else odds / (1.0 + odds)
            for file, p in ((first, rate), (second, trained)):
                row = {"prompt_id": f"q{i}", "n": 16, "k": sum(rng.random() < p for _ in range(16))}
                file.write(json.dumps(row) + "\n")


def write_probe(path: Path) -> None:
    """A simulated probe for the pages: 256 prompts, 16 rollouts each, kappa 10, gradients that agree a little.

    A rollout's score is (reward - p) times the contrast of its prompt, and noise at right angles of length sqrt(kappa).
    """
    import numpy as np

    import grpo_plan as gp
    from grpo_plan.planning.gradients import mean_gradient_square

    rng = np.random.default_rng(21)
    rates = rng.beta(0.35, 0.7, size=256)
    rewards = (rng.random((256, 16)) < rates[:, None]).astype(float)
    contrast = (0.95 / 200) ** 0.5 * rng.normal(size=(256, 200)) + (0.05 / 200) ** 0.5 * rng.normal(size=200)
    noise = rng.normal(size=(256, 16, 200)) * (10.0 / 200) ** 0.5
    scores = (rewards - rates[:, None])[:, :, None] * contrast[:, None, :] + noise

    def gradients(size: int) -> Any:
        """RLOO gradients of the disjoint groups of this size: prompt, group, coordinate."""
        r, z = rewards.reshape(256, -1, size), scores.reshape(256, -1, size, 200)
        advantages = (r - r.mean(axis=2, keepdims=True)) * size / (size - 1)
        return (advantages[..., None] * z).mean(axis=2)

    norms = {size: (gradients(size) ** 2).sum(axis=2).mean(axis=1) for size in (4, 16)}
    full = gradients(16)[:, 0].reshape(32, 8, 200)
    sums = full.sum(axis=1)
    signal = mean_gradient_square(sums @ sums.T, (full**2).sum(axis=(1, 2)), np.full(32, 8.0))
    gp.measure_kappa(norms, rewards=rewards, mean_gradient_square=signal).save(path)


def command_reference() -> str:
    """docs/cli.md: every command with its options, read from the parser."""
    import typer

    from grpo_plan.cli.main import COMMANDS, build_app

    group: Any = typer.main.get_command(build_app([]))
    lines = [
        "# Commands",
        "",
        "Written by `docs/make_docs.py` from the code. Every command prints the answer on stdout and notes on stderr.",
        "Exit status: 0 answer, 1 bad data, 2 usage, 3 no feasible plan, 4 a finding at --fail-on, 130 interrupted.",
    ]
    for name in COMMANDS:
        command = group.commands[name]
        lines += [
            "",
            f"## grpo-plan {name}",
            "",
            *_prose(command.help),
            "",
            "| argument or option | default | meaning |",
        ]
        lines += ["|---|---|---|", *(_row(p) for p in command.params if "--help" not in p.opts)]
    return "\n".join(lines) + "\n"


def with_formats(page: str) -> str:
    """docs/formats.md with its table written from the registry of readers."""
    from grpo_plan.readers.registry import formats

    head = [
        "| name | tool | gives | files | what is read | evidence | limits |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = []
    for f in formats():
        gives = " ".join(word for word, there in (("pilot", f.pilot), ("run", f.run)) if there is not None)
        seen = f.evidence.value + (f" ({f.versions})" if f.versions else "")
        limits = "; ".join((*f.limits, *((f"needs the extra `{f.extra}`",) if f.extra else ())))
        cells = (f"`{f.name}`", f.tool, gives, f"`{f.files}`", f.reads, seen, limits)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    begin, end = "<!-- formats: begin -->", "<!-- formats: end -->"
    before, _, rest = page.partition(begin)
    return "\n".join([before + begin, *head, *rows, end]) + rest.partition(end)[2]


def write_tutorial(path: Path) -> None:
    """docs/tutorial.md and its pictures, from its cells."""
    import tutorial  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder:
        path.write_text(
            tutorial.refreshed(path.read_text(encoding="utf-8"), Path(folder), path.parent), encoding="utf-8"
        )


def with_frames(page: str) -> str:
    """docs/frames.md with the columns of every dataframe, written from the views."""
    from grpo_plan.shown.registry import views

    lines = []
    for name, view in sorted(views().items()):
        lines += ["", f"### {name}", "", f"One row: {view.row}.", ""]
        if callable(view.fields):
            continue
        lines += ["| column | unit | meaning |", "|---|---|---|"]
        lines += [_columns(field.columns) for field in view.fields]
    begin, end = "<!-- frames: begin -->", "<!-- frames: end -->"
    before, _, rest = page.partition(begin)
    return "\n".join([before + begin, *lines, "", end]) + rest.partition(end)[2]


def _columns(columns: tuple[Any, ...]) -> str:
    """The columns of one field in one row: the first by its name, what comes after it by its ending."""
    first = columns[0]
    stem = first.name.removesuffix("_mean") if len(columns) == 5 else first.name
    names = ", ".join(f"`{c.name if c is first else c.name.removeprefix(stem)}`" for c in columns)
    return f"| {names} | {first.unit or '-'} | {first.meaning.removesuffix(': mean over steps')} |"


def with_aggregations(page: str) -> str:
    """docs/losses.md with its table written from the registry of aggregations."""
    from grpo_plan.losses import aggregations

    head = [
        "| name | setting | weight of a token | where it is counted | split changes it | version | evidence |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = []
    for a in aggregations().values():
        weight = a.formula + (f", C: `{a.constant}`" if a.constant else "")
        cells = (f"`{a.name}`", f"`{a.setting}`", weight, a.reduction.value, a.split_effect, a.version, a.evidence)
        rows.append("| " + " | ".join(cells) + " |")
    begin, end = "<!-- aggregations: begin -->", "<!-- aggregations: end -->"
    before, _, rest = page.partition(begin)
    return "\n".join([before + begin, *head, *rows, end]) + rest.partition(end)[2]


def with_trainers(page: str) -> str:
    """docs/advantages.md with what each trainer does, written from the presets."""
    from grpo_plan.estimators.trainer_table import trainer_table

    begin, end = "<!-- trainers: begin -->", "<!-- trainers: end -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{trainer_table()}{end}{rest.partition(end)[2]}"


def generated_pages() -> dict[str, str]:
    """The API reference and the contents of the front page, by path."""
    import contents
    import reference

    front = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    begin, end = "<!-- contents: begin -->", "<!-- contents: end -->"
    before, _, rest = front.partition(begin)
    pages = {f"docs/api/{group.slug}.md": reference.page(group) for group in reference.GROUPS}
    pages["docs/api.md"] = reference.index()
    pages["docs/index.md"] = f"{before}{begin}\n{contents.listed()}{end}{rest.partition(end)[2]}"
    return pages


def _prose(text: str) -> list[str]:
    paragraphs = [" ".join(p.split()) for p in text.strip().split("\n\n")]
    out: list[str] = []
    for paragraph in paragraphs:
        if paragraph.startswith("Example: "):
            paragraph = f"Example: `{paragraph.removeprefix('Example: ')}`"
        out += [paragraph, ""]
    return out[:-1]


def _row(param: Any) -> str:
    shown = ", ".join(f"`{o}`" for o in param.opts) if param.opts[0].startswith("-") else f"`{param.name.upper()}`"
    default = param.default
    default = getattr(default, "value", default)
    text = "" if default in (None, False, (), []) or callable(default) else f"`{default}`"
    return f"| {shown} | {text} | {(param.help or '').replace('|', ' or ')} |"


def _output(command: str, folder: Path, runner: Runner) -> str:
    """What a command prints; it may end in ``> FILE``, or in ``| head ...`` or ``| sed ...``."""
    command, _, file = command.partition(" > ")
    command, _, filtered = command.partition(" | ")
    name, *words = shlex.split(command)
    if name == "python":
        shown = subprocess.run(
            [sys.executable, *words], cwd=folder, env=_environment(), capture_output=True, text=True, check=True
        ).stdout
    elif name == "grpo-plan":
        shown = runner(words, folder)
    else:
        raise ValueError(f"only grpo-plan and python NAME.py are run: {command}")
    if filtered:
        words = shlex.split(filtered)
        if words[0] not in ("head", "sed"):
            raise ValueError(f"only head and sed are run: {filtered}")
        shown = subprocess.run(words, input=shown, capture_output=True, text=True, check=True).stdout
    if file:
        (folder / file).write_text(shown, encoding="utf-8")
        return ""
    return shown


def main() -> None:
    """Rewrite the pages named on the command line, or all of them, in place; docs/cli.md always."""
    for page in sys.argv[1:] or PAGES:
        path = ROOT / page
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(refreshed(path.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")
    page = ROOT / "docs" / "formats.md"
    page.write_text(with_formats(page.read_text(encoding="utf-8")), encoding="utf-8")
    page = ROOT / "docs" / "frames.md"
    page.write_text(with_frames(page.read_text(encoding="utf-8")), encoding="utf-8")
    if "docs/tutorial.md" in (sys.argv[1:] or PAGES):
        write_tutorial(ROOT / "docs" / "tutorial.md")
    page = ROOT / "docs" / "losses.md"
    page.write_text(with_aggregations(page.read_text(encoding="utf-8")), encoding="utf-8")
    page = ROOT / "docs" / "advantages.md"
    page.write_text(with_trainers(page.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs" / "cli.md").write_text(command_reference(), encoding="utf-8")
    for name, text in generated_pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
