"""``grpo-plan diagnose``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan._validate import as_count
from grpo_plan.cli.common import JsonOption, count_option, json_text, parse_group_sizes, tell
from grpo_plan.cli.files import write_text
from grpo_plan.cli.plot import picture_target
from grpo_plan.cli.run_options import RunRequest, reads_run
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.cli.diagnose_ahead import Ahead
    from grpo_plan.cli.page import Part
    from grpo_plan.runs.diagnosis import Diagnosis
    from grpo_plan.runs.difficulty import Difficulty, Undetermined

FOUND = 4
BLOCK = "█"


class FailOn(StrEnum):
    """From which severity on a finding fails the command."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_run(diagnose))


def diagnose(
    request: RunRequest,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="What was expected: JSON of plan --json or fit --json.")
    ] = None,
    fail_on: Annotated[
        FailOn | None, typer.Option("--fail-on", help="Exit with 4 where a finding is at least so grave.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write the answer to.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Picture to write: .png, .svg or .pdf.")
    ] = None,
    what_if: Annotated[
        str | None, typer.Option("--what-if", metavar="G,G,...", help="Dead groups at these group sizes, from the log.")
    ] = None,
    forecast: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]LIMIT",
            help="When the dead share passes this; or all-pass=LIMIT, all-fail=LIMIT. May be repeated.",
        ),
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Say everything: what each check saw or lacks, all remedies, sources."),
    ] = False,
    horizon: Annotated[int | None, count_option("Steps to look ahead. Default: as many as the log has.")] = None,
    format: str = "text",
    json: JsonOption = False,
) -> None:
    """Say what a run is doing, and what to change.

    Its dead groups, all-pass and all-fail apart, against the plan; since when, at what cost. Checks that the log does
    not allow are named with what they need.

    Example: grpo-plan diagnose run.jsonl --plan plan.json --fail-on warning
    """
    from grpo_plan.cli.diagnose_ahead import look_ahead, parse_limit
    from grpo_plan.cli.diagnose_ahead import what_if as ask_what_if
    from grpo_plan.runs.diagnosis import diagnose as diagnose_run
    from grpo_plan.runs.expectation import Expectation

    target = None if output is None else answer_target(output, request, plan)
    picture = None if plot is None else _picture(plot, request, plan, target)
    expectation = None if plan is None else Expectation.load(plan)
    sizes = [] if what_if is None else group_sizes(what_if)
    limits = [parse_limit(text) for text in forecast or []]
    if horizon is not None and not limits:
        raise DomainError(f"--horizon says how far --forecast looks; got {horizon:,} without it. Give --forecast too.")
    run = request.read()
    with waiting("checking the run"):
        diagnosis = diagnose_run(run, expectation, settings=request.settings)
    facts = diagnosis.facts
    answer = Answer(
        diagnosis=diagnosis,
        sizes=sizes,
        difficulty=ask_what_if(facts, sizes),
        ahead=look_ahead(facts, limits, None if horizon is None else as_count(horizon, "horizon")),
        details=details,
    )
    kind = "json" if json else format
    if target is None:
        _print(answer, kind)
    else:
        _write(_text(answer, kind), target, output or "")
    if picture is not None:
        from grpo_plan.plots.run import draw_run

        draw_run(diagnosis, picture)
        tell(f"{plot} written.")
    if fail_on is not None and (found := diagnosis.at_least(fail_on.value)):
        count = "1 finding" if len(found) == 1 else f"{len(found):,} findings"
        names = ", ".join(f"{f.id} ({f.severity.value})" for f in found)
        sys.stderr.write(f"grpo-plan: {count} at or above {fail_on.value}: {names}.\n")
        raise typer.Exit(FOUND)


def group_sizes(text: str) -> list[int]:
    """Group sizes of ``--what-if``, each at least 1."""
    from grpo_plan.runs.settings import LARGEST_GROUP

    try:
        sizes = parse_group_sizes(text)
    except DomainError:
        sizes = [0]
    if min(sizes) < 1 or max(sizes) > LARGEST_GROUP:
        raise DomainError(
            f"--what-if must be group sizes separated by commas, each from 1 to {LARGEST_GROUP:,}, e.g. 4,16,32; got "
            f"{text!r}."
        )
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A diagnosis, and what else was asked."""

    diagnosis: Diagnosis
    sizes: list[int]
    difficulty: Difficulty | Undetermined | None
    ahead: list[Ahead]
    details: bool = False

    def page(self, *, unicode: bool) -> list[Part]:
        """As a page."""
        from grpo_plan.cli.diagnose_ahead import ahead_parts, what_if_parts
        from grpo_plan.cli.diagnose_page import diagnosis_page

        extra = [*what_if_parts(self.diagnosis.facts, self.difficulty, self.sizes), *ahead_parts(self.ahead)]
        return diagnosis_page(self.diagnosis, extra=extra, unicode=unicode, details=self.details)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        from grpo_plan.cli.diagnose_ahead import ahead_json
        from grpo_plan.documents.diagnose import diagnosis_json, what_if_json

        return {
            **diagnosis_json(self.diagnosis),
            "what_if": what_if_json(self.difficulty, self.sizes, self.diagnosis.facts.group_size),
            "forecast": ahead_json(self.ahead),
        }


def _print(answer: Answer, kind: str) -> None:
    """On stdout; who closes the pipe early has had enough, and the findings still decide the exit code."""
    from grpo_plan.cli.page import print_page

    try:
        if kind == "text":
            print_page(answer.page(unicode=has_blocks(sys.stdout.encoding)))
        else:
            sys.stdout.write(_text(answer, kind))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(answer: Answer, kind: str) -> str:
    from grpo_plan.cli.page import page_markdown, page_text

    if kind == "json":
        return json_text("diagnose", answer.document())
    page = answer.page(unicode=True)
    return page_markdown(page, f"Run {answer.diagnosis.run.source}") if kind == "markdown" else page_text(page)


def has_blocks(encoding: str | None) -> bool:
    """Whether a stream can show block characters."""
    try:
        BLOCK.encode(encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def answer_target(output: str, request: RunRequest, plan: str | None, option: str = "--output") -> Path:
    """Where an answer may be written: in a folder that exists, and over none of the inputs."""
    target = Path(output)
    try:
        if target.exists() and not target.is_file():
            raise DomainError(f"{option} {output} is no regular file. Give another name.")
        known = plan is not None and target.exists() and Path(plan).exists() and target.samefile(plan)
        if known or request.holds(target):
            raise DomainError(
                f"{option} {output} is an input file, and inputs are never written to. Give another name."
            )
        if not target.parent.is_dir():
            raise DomainError(f"{option} {output} cannot be written (no such folder). Give another place.")
    except (OSError, ValueError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError(f"{option} {output} cannot be written ({error}). Give another name.") from None
    return target


def _picture(plot: str, request: RunRequest, plan: str | None, target: Path | None) -> Path:
    picture = picture_target(plot, [], option="--plot")
    answer_target(plot, request, plan, option="--plot")
    if target is not None and picture.absolute() == target.absolute():
        raise DomainError(f"--plot and --output name the same file, {plot}. Give another name.")
    return picture


def _write(text: str, target: Path, output: str) -> None:
    write_text(target, text, output)
    tell(f"{output} written.")
