"""The options that read a pilot, shared by the commands: what to read, how, and what is said of it on stderr."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import OutputFormat, count_option, parse_whole, tell
from grpo_plan.cli.input_format import check_format
from grpo_plan.cli.terminal import moves
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.fitting.result import PassRateFit
    from grpo_plan.pilot import Pilot
    from grpo_plan.readers.independence_reader import IndependenceReport

PROGRESS_BYTES = 200 << 20
MAX_STEP = 2**53
ENGINE_OUTPUT = 2  # the file number of the standard error stream
OPTIONAL = ("[PILOT]", "As for fit; may be left out.")
NAME_SOURCE = ("fit", "plan", "refill", "mix")

InputFormat = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAME", help="Output: text or json. Or the input: a name from grpo-plan formats, or table."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRequest:
    """A pilot to read, as asked for on the command line, and what it lacks.

    Attributes:
        sources: Files, globs, folders or -.
        options: How to read them, as `read_pilot` takes it.
        missing: What `fit_pass_rates` is told of dead groups that the source dropped.
        names_source: Whether the answer itself says what was read.
    """

    sources: list[str]
    options: dict[str, Any]
    missing: dict[str, Any] = field(default_factory=dict)
    names_source: bool = False

    def fit(self, pilot: Pilot, **options: Any) -> PassRateFit:
        """Fit a pilot of this request, for dead groups that it lacks if so asked."""
        from grpo_plan.fitting.fit import fit_pass_rates

        return fit_pass_rates(pilot, **options, **self.missing)

    def refuse_missing(self, command: str, why: str) -> None:
        """One line where a command cannot do without the dead groups."""
        if "removed" in self.missing:
            raise DomainError(
                f"{command} cannot take --removed: it takes the counts of prompts as they stand, and these decided "
                "which prompts were kept. Roll out a pilot of your own on them."
            )
        if self.missing:
            raise DomainError(f"{command} cannot take --truncated or --dropped-groups: {why}")

    def holds(self, target: Path) -> bool:
        """Whether a path is one of the inputs, under whatever name."""
        from grpo_plan.readers.addresses import without_addresses
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
        paths = without_addresses(self.sources)
        return bool(paths) and any(file.identity == identity for file in resolve(paths))

    def read(self, *, expected: str | None = None) -> Pilot:
        """Read it; what was assumed and what was left out goes to stderr, but for notes that hold ``expected``."""
        from grpo_plan.readers.pilot_reader import read_pilot

        with engine_apart(), Progress(self.sources) as progress:
            pilot = read_pilot(self.sources, progress=progress, **self.options)
        self._tell_of(pilot, expected)
        return pilot

    def read_checked(self, session: str | None, text: str | None, order: bool, level: float) -> IndependenceReport:
        """Read it and check that the rollouts of a prompt are independent."""
        from grpo_plan.readers.independence_reader import read_independence

        options = dict(self.options)
        if options.pop("prompt_count", None) is not None:
            raise DomainError("Independence is checked on single rollouts; --prompt-count-column says there are none.")
        with engine_apart(), Progress(self.sources) as progress:
            report = read_independence(
                self.sources, session=session, text=text, order=order, level=level, progress=progress, **options
            )
        self._tell_of(report.pilot)
        for note in report.notes:
            tell(note)
        return report

    def _tell_of(self, pilot: Pilot, expected: str | None = None) -> None:
        told = pilot.provenance.sentences if self.names_source else ()
        for note in pilot.notes:
            if note not in told and (expected is None or expected not in note):
                tell(note)
        if pilot.dropped:
            tell("left out: " + "; ".join(f"{r.replace('_', ' ')}: {c:,}" for r, c in pilot.dropped.items()) + ".")


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
    fail_rate_column: Annotated[
        str | None, typer.Option(help="Column of the share of failures of a prompt, instead of its pass rate.")
    ] = None,
    stratum_column: Annotated[str | None, typer.Option(help="Column of the named part of a prompt.")] = None,
    temperature_column: Annotated[str | None, typer.Option(help="Column of the sampling temperature.")] = None,
    tokens_column: Annotated[str | None, typer.Option(help="Column of the response length in tokens.")] = None,
    model_column: Annotated[str | None, typer.Option(help="Column of the model.")] = None,
    prompt_count_column: Annotated[
        str | None, typer.Option(help="Column of the number of prompts, if a row stands for many.")
    ] = None,
    pass_threshold: Annotated[
        float | None, typer.Option(help="A rollout passes when its reward is at least this.")
    ] = None,
    rollouts_per_prompt: Annotated[int | None, typer.Option(help="n of every prompt, when no column has it.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Keep these rows; may be repeated.")
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Drop and count malformed lines, however many.")
    ] = False,
    skip_bad: Annotated[int | None, count_option("Drop and count up to N malformed lines, no more.")] = None,
    workers: Annotated[int | None, count_option("Processes that read large JSONL files; one a core, up to 8.")] = None,
    storage_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Setting of a cloud address; may be repeated.")
    ] = None,
    reward_weights: Annotated[
        str | None, typer.Option(metavar="NAME=W,...", help="Reward functions to sum, each times its weight.")
    ] = None,
    split: Annotated[str, typer.Option(help="Rows to count where a source holds both: train, eval or all.")] = "train",
    policy_steps: Annotated[
        str | None, typer.Option(metavar="A:B", help="Training steps to keep, first and last; A: keeps all from A.")
    ] = None,
    truncated: Annotated[
        bool, typer.Option("--truncated", help="The source kept only groups with mixed rewards, one row each.")
    ] = False,
    dropped_groups: Annotated[
        str | None,
        typer.Option(
            metavar="N|FAIL,PASS", help="Dead groups that the source dropped; implies --truncated. 0: all are there."
        ),
    ] = None,
    removed: Annotated[
        str | None,
        typer.Option(
            metavar="all-pass|all-fail|dead", help="Prompts that were taken out by their own count, n of n or 0 of n."
        ),
    ] = None,
    weak_prior: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The rollouts are of this model, not of the one to be trained.")
    ] = None,
) -> PilotRequest:
    filters: dict[str, list[str]] = {}
    for item in where or []:
        column, equals, value = item.partition("=")
        if not equals or not column:
            raise DomainError(f"--where must be COLUMN=VALUE; got {item!r}.")
        filters.setdefault(column.strip(), []).append(value.strip())
    settings: dict[str, str] = {}
    for item in storage_option or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise DomainError(f"--storage-option must be KEY=VALUE; got {key[:40]!r}.")
        if key.strip() in settings:
            raise DomainError(f"--storage-option {key.strip()[:40]} is given twice. Give it once.")
        settings[key.strip()] = value
    options = {
        "prompt": prompt_column, "reward": reward_column, "n": n_column, "k": k_column,
        "pass_rate": pass_rate_column, "fail_rate": fail_rate_column, "stratum": stratum_column,
        "temperature": temperature_column, "response_tokens": tokens_column, "policy": model_column,
        "pass_threshold": pass_threshold, "rollouts_per_prompt": rollouts_per_prompt, "where": filters,
        "skip_malformed": skip_malformed or (False if skip_bad is None else skip_bad), "workers": workers,
        "storage_options": settings, "reward_weights": parse_weights(reward_weights), "split": split,
        "policy_steps": parse_steps(policy_steps), "weak_prior": weak_prior,
        "prompt_count": prompt_count_column,
    }  # fmt: skip
    missing: dict[str, Any] = {}
    if truncated or dropped_groups is not None:
        missing = {"truncated": True, "dropped_groups": parse_dropped_groups(dropped_groups)}
        options["groups_apart"] = missing["dropped_groups"] not in (0, (0, 0))
    if removed is not None:
        missing["removed"] = removed
    return PilotRequest(sources=pilot or [], options=options, missing=missing)


def pilot_option_names() -> tuple[str, ...]:
    """Names of the options that say how a pilot is read; its sources are not among them."""
    return tuple(name for name in inspect.signature(_pilot_options).parameters if name != "pilot")


def reads_pilot(
    command: Callable[..., None], *, required: bool = True, optional: tuple[str, str] = OPTIONAL
) -> Callable[..., None]:
    """Give a command the options that read a pilot; it receives them as its first argument, a PilotRequest.

    Where no pilot is ``required`` and none was given, the request has no sources; ``optional`` is the name and the help
    of the argument then.
    """
    shared = inspect.signature(_pilot_options, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    argument, *options = shared.values()
    own = [p for p in own if p.name != "format"]
    formatted = len(own) < len(inspect.signature(command).parameters) - 1
    options.append(inspect.Parameter("format", inspect.Parameter.KEYWORD_ONLY, default="text", annotation=InputFormat))
    if not required:
        where = typer.Argument(metavar=optional[0], help=optional[1])
        argument = argument.replace(default=None, annotation=Annotated[list[str] | None, where])

    @wraps(command)
    def run(**values: Any) -> None:
        request = _pilot_options(**{name: values.pop(name) for name in shared})
        given = values.pop("format")
        output = next((o for o in OutputFormat if o.value == given.lower()), None)
        if output is None:
            request.options["format"] = check_format(given)
        if formatted:
            values["format"] = output or OutputFormat.TEXT
        as_text = not values.get("json") and output is not OutputFormat.JSON
        request = replace(request, names_source=as_text and command.__name__ in NAME_SOURCE)
        command(request, **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (argument, *own, *options)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def parse_weights(text: str | None) -> dict[str, float] | None:
    """``correct=1,format=0.5`` as a mapping.

    >>> parse_weights("correct=1, format=0.5")
    {'correct': 1.0, 'format': 0.5}
    """
    if text is None:
        return None
    weights = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        if name.strip() in weights:
            raise DomainError(f"--reward-weights names {name.strip()!r} twice. Give each reward function one weight.")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise DomainError(f"--reward-weights must be NAME=WEIGHT,..., e.g. correct=1,format=0.5; got {text!r}.")
    return weights


def parse_steps(text: str | None) -> tuple[int, int] | None:
    """``90:100`` as first and last step; an end left out is open.

    >>> parse_steps("90:100"), parse_steps("7")
    ((90, 100), (7, 7))
    """
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if "-" in text:
        raise DomainError(
            f"--policy-steps takes steps by their numbers, e.g. 90:100; got {text!r}. Steps are not counted from the "
            "end: a read without --policy-steps says which is the last."
        )
    try:
        low = parse_whole(first, "") if first.strip() else 0
        high = (parse_whole(last, "") if last.strip() else MAX_STEP) if colon else low
    except DomainError:
        low, high = 1, 0
    if low > high:
        raise DomainError(f"--policy-steps must be A:B with A at most B, e.g. 90:100; got {text!r}.")
    return low, high


def parse_dropped_groups(text: str | None) -> int | tuple[int, int] | None:
    """``531``, or ``439,92``: all-fail and all-pass.

    >>> parse_dropped_groups("531"), parse_dropped_groups("439, 92")
    (531, (439, 92))
    """
    if text is None:
        return None
    parts = text.split(",")
    try:
        numbers = [parse_whole(part, "") for part in parts]
    except DomainError:
        numbers = []
    if (
        len(numbers) not in (1, 2)
        or min(numbers) < 0
        or (len(parts) == 2 and len(parts[1]) == 3 and parts[1][0] == "0")
    ):
        raise DomainError(
            f"--dropped-groups must be one whole number, e.g. 531, or two, all-fail and all-pass, e.g. 439,92; got "
            f"{text!r}."
        )
    if len(numbers) == 1:
        return numbers[0]
    tell(f"dropped groups: {numbers[0]:,} all-fail and {numbers[1]:,} all-pass.")
    return numbers[0], numbers[1]


@contextmanager
def engine_apart() -> Iterator[None]:
    """What the table engine itself writes to the standard error stream on a damaged file is left out: one line says it.

    Its panics go to file 2 past Python, whose own messages go on to where they went.
    """
    own = sys.__stderr__
    if own is None or sys.stderr is not own or own.fileno() != ENGINE_OUTPUT:
        yield
        return
    direct = os.fdopen(os.dup(ENGINE_OUTPUT), "w", errors="backslashreplace")
    sys.stderr = direct
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), ENGINE_OUTPUT)
        try:
            yield
        except BaseException:  # the command ends with one line; the engine's threads may still be writing
            os.dup2(os.open(os.devnull, os.O_WRONLY), ENGINE_OUTPUT)
            raise
        os.dup2(direct.fileno(), ENGINE_OUTPUT)
        held.seek(0)
        if said := held.read():
            os.write(ENGINE_OUTPUT, said)
    direct.close()
    sys.stderr = own


class Progress:
    """A progress bar on stderr for long reads in a terminal; nothing otherwise."""

    def __init__(self, sources: list[str]) -> None:
        from grpo_plan.readers.addresses import without_addresses

        paths = without_addresses(sources)
        self._remote = len(paths) < len(sources)
        try:
            self._total = sum(map(_size, paths))
        except (OSError, ValueError):  # the reader will say what is wrong with the path
            self._total = 0
        self._bar: Any = None

    def __enter__(self) -> Callable[[int], None] | None:
        if (self._total < PROGRESS_BYTES and not self._remote) or not moves(sys.stderr):
            return None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), "reading", BarColumn(), DownloadColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("reading", total=None if self._remote else self._total)
        return lambda size: self._bar.advance(task, size)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _size(source: str) -> int:
    """Bytes of a file, of the files in and under a folder, or of those that fit a pattern."""
    if os.path.isdir(source):
        inside = (os.path.join(base, name) for base, _, names in os.walk(source) for name in names)
        return sum(os.path.getsize(path) for path in inside if os.path.isfile(path))
    paths = [source] if os.path.exists(source) else glob(source, recursive=True)
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
