"""What the commands share: options that read a pilot, numbers as people write them, output."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from grpo_plan.pilot import Pilot
    from grpo_plan.readers.independence_reader import IndependenceReport

SCHEMA = 1
PAGE_WIDTH = 80
PROGRESS_BYTES = 200 << 20


class OutputFormat(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="Output: text or json.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
PopulationOption = Annotated[
    str, typer.Option(help="sample (prompts from a large pool), census (exactly these) or a number of prompts.")
]
LevelOption = Annotated[float, typer.Option(help="Confidence level of the intervals, in (0, 1).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRequest:
    """A pilot to read, as asked for on the command line."""

    sources: list[str]
    options: dict[str, Any]

    def holds(self, target: Path) -> bool:
        """Whether a path is one of the inputs, under whatever name."""
        from grpo_plan.readers.files import resolve

        try:
            status = target.stat()
        except OSError:
            return False
        identity = (status.st_dev, status.st_ino)
        if "-" in self.sources and sys.stdin is not None:
            stdin = os.fstat(sys.stdin.fileno())
            if (stdin.st_dev, stdin.st_ino) == identity:
                return True
        return any(file.identity == identity for file in resolve(self.sources))

    def read(self, *, expected: str | None = None) -> Pilot:
        """Read it; what was assumed and what was left out goes to stderr, but for notes that hold ``expected``."""
        from grpo_plan.readers.pilot_reader import read_pilot

        with _Progress(self.sources) as progress:
            pilot = read_pilot(self.sources, progress=progress, **self.options)
        _tell_of(pilot, expected)
        return pilot

    def read_checked(self, session: str | None, text: str | None, order: bool, level: float) -> IndependenceReport:
        """Read it and check that the rollouts of a prompt are independent."""
        from grpo_plan.readers.independence_reader import read_independence

        with _Progress(self.sources) as progress:
            report = read_independence(
                self.sources, session=session, text=text, order=order, level=level, progress=progress, **self.options
            )
        _tell_of(report.pilot)
        for note in report.notes:
            tell(note)
        return report


def _tell_of(pilot: Pilot, expected: str | None = None) -> None:
    for note in pilot.notes:
        if expected is None or expected not in note:
            tell(note)
    if pilot.dropped:
        tell("left out: " + ", ".join(f"{r.replace('_', ' ')} {c:,}" for r, c in pilot.dropped.items()) + ".")


def _pilot_options(
    pilot: Annotated[
        list[str],
        typer.Argument(metavar="PILOT", help="File, glob, folder or - (JSONL, JSON, CSV, Parquet, Arrow)."),
    ],
    prompt_column: Annotated[str | None, typer.Option(help="Column that names the prompt.")] = None,
    reward_column: Annotated[str | None, typer.Option(help="Column of the reward, or of a list of rewards.")] = None,
    n_column: Annotated[str | None, typer.Option(help="Column of the rollouts of a prompt, n.")] = None,
    k_column: Annotated[str | None, typer.Option(help="Column of the passes of a prompt, k.")] = None,
    pass_rate_column: Annotated[str | None, typer.Option(help="Column of the pass rate of a prompt.")] = None,
    stratum_column: Annotated[str | None, typer.Option(help="Column of the named part of a prompt.")] = None,
    temperature_column: Annotated[str | None, typer.Option(help="Column of the sampling temperature.")] = None,
    tokens_column: Annotated[str | None, typer.Option(help="Column of the response length in tokens.")] = None,
    model_column: Annotated[str | None, typer.Option(help="Column of the model.")] = None,
    pass_threshold: Annotated[
        float | None, typer.Option(help="A rollout passes when its reward is at least this.")
    ] = None,
    rollouts_per_prompt: Annotated[int | None, typer.Option(help="n of every prompt, when no column has it.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Keep these rows; may be repeated.")
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Drop and count malformed JSON lines.")
    ] = False,
) -> PilotRequest:
    filters: dict[str, list[str]] = {}
    for item in where or []:
        column, equals, value = item.partition("=")
        if not equals or not column:
            raise DomainError(f"--where must be COLUMN=VALUE; got {item!r}.")
        filters.setdefault(column.strip(), []).append(value.strip())
    options = {
        "prompt": prompt_column, "reward": reward_column, "n": n_column, "k": k_column,
        "pass_rate": pass_rate_column, "stratum": stratum_column, "temperature": temperature_column,
        "response_tokens": tokens_column, "policy": model_column, "pass_threshold": pass_threshold,
        "rollouts_per_prompt": rollouts_per_prompt, "where": filters, "skip_malformed": skip_malformed,
    }  # fmt: skip
    return PilotRequest(sources=pilot or [], options=options)


def reads_pilot(command: Callable[..., None], *, required: bool = True) -> Callable[..., None]:
    """Give a command the options that read a pilot; it receives them as its first argument, a PilotRequest.

    Where no pilot is ``required`` and none was given, the request has no sources.
    """
    shared = inspect.signature(_pilot_options, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    argument, *options = shared.values()
    if not required:
        where = typer.Argument(metavar="[PILOT]", help="As for fit; may be left out.")
        argument = argument.replace(default=None, annotation=Annotated[list[str] | None, where])

    @wraps(command)
    def run(**values: Any) -> None:
        request = _pilot_options(**{name: values.pop(name) for name in shared})
        command(request, **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (argument, *own, *options)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def parse_group_sizes(text: str) -> list[int]:
    """``2,4,8`` as a list.

    >>> parse_group_sizes("2, 4,8")
    [2, 4, 8]
    """
    try:
        sizes = sorted({parse_whole(part, "") for part in text.split(",") if part.strip()})
    except DomainError:
        sizes = []
    if not sizes:
        raise DomainError(f"--group-sizes must be whole numbers separated by commas, e.g. 2,4,8; got {text!r}.")
    return sizes


def parse_whole(text: str, name: str) -> int:
    """A whole number as people write it: 2000000, 2e6, 2_000_000 or 2,000,000.

    >>> parse_whole("2e6", "--budget-rollouts"), parse_whole("2,000", "--steps")
    (2000000, 2000)
    """
    try:
        number = float(text.strip().replace(",", "").replace("_", ""))
        if number.is_integer():
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise DomainError(f"{name} must be a whole number, e.g. 2000000 or 2e6; got {text!r}.")


def whole(text: str | int) -> int:
    """Parser of an option: a whole number as people write it.

    >>> whole("1e3"), whole(8)
    (1000, 8)
    """
    if isinstance(text, int):
        return text
    try:
        return parse_whole(text, "it")
    except DomainError:
        raise typer.BadParameter(f"must be a whole number, e.g. 8 or 1e3; got {one_line(text)[:40]!r}.") from None


def count_option(help_text: str, metavar: str = "N") -> Any:
    """An option that takes a whole number."""
    return typer.Option(parser=whole, metavar=metavar, help=help_text)


def parse_population(text: str) -> str | int:
    """``sample``, ``census`` or a number of prompts.

    >>> parse_population("Census"), parse_population("5,000")
    ('census', 5000)
    """
    word = text.strip().lower()
    if word in ("sample", "census"):
        return word
    try:
        return parse_whole(text, "--population")
    except DomainError:
        raise DomainError(
            f"--population must be sample, census or a number of prompts, e.g. 5000; got {text!r}."
        ) from None


def optional_whole(text: str | None, name: str) -> int | None:
    """`parse_whole`, or None if nothing was given."""
    return None if text is None else parse_whole(text, name)


def tell(note: str) -> None:
    """A note on stderr."""
    sys.stderr.write(f"note: {one_line(note)}\n")


def one_line(text: str) -> str:
    """Text without line breaks and control characters, which a file or column name may hold."""
    return "".join(c if c.isprintable() else "?" for c in text)


def percent(share: float) -> str:
    """A share as a percentage, with the digits it needs.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100.0 * share:.10g}%"


def write_json(command: str, body: dict[str, Any]) -> None:
    """One JSON object on stdout: schema, command, then the body; unknown is null, NaN is a bug and raises."""
    document = {"schema": SCHEMA, "command": command, **body}
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def console() -> Console:
    """A console of 80 columns that prints text as it is: plain when piped, no markup read from names."""
    from rich.console import Console

    class Page(Console):
        """A console that leaves a closed pipe to the caller."""

        def on_broken_pipe(self) -> None:
            """Whoever read the answer has had enough: no error."""
            raise BrokenPipeError

    return Page(highlight=False, markup=False, emoji=False, width=PAGE_WIDTH)


def say(out: Console, text: str, indent: str = "") -> None:
    """A paragraph, broken at 80 columns; further lines start under the first word after ``indent``."""
    import textwrap

    lines = textwrap.wrap(
        text, PAGE_WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
    out.print("\n".join(lines), markup=False)


def print_table(out: Console, table: Table) -> None:
    """A table without the blanks that pad its last column; one too wide gets narrower gaps, then longer lines."""
    from rich.measure import Measurement

    wide = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    if wide > PAGE_WIDTH:
        table.padding = (0, 1, 0, 0)
        wide = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    width, out.width = out.width, max(PAGE_WIDTH, wide)
    with out.capture() as captured:
        out.print(table)
    out.width = width
    out.file.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


class _Progress:
    """A progress bar on stderr for long reads in a terminal; nothing otherwise."""

    def __init__(self, sources: list[str]) -> None:
        try:
            paths = [Path(s) for s in sources]
            self._total = sum(p.stat().st_size for p in paths if p.is_file())
        except OSError:  # the reader will say what is wrong with the path
            self._total = 0
        self._bar: Any = None

    def __enter__(self) -> Callable[[int], None] | None:
        if self._total < PROGRESS_BYTES or not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        columns = ("reading", BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("reading", total=self._total)
        return lambda size: self._bar.advance(task, size)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
