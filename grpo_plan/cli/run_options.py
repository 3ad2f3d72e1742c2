"""The options that read a run, shared by the commands that look at one: what to read, how, and what it does not say."""

from __future__ import annotations

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan._suggest import did_you_mean
from grpo_plan.cli.common import count_option, tell
from grpo_plan.cli.pilot_options import PilotRequest, Progress, engine_apart
from grpo_plan.errors import DomainError, MissingExtraError

if TYPE_CHECKING:
    from grpo_plan.run_log import RunLog
    from grpo_plan.runs.settings import DiagnosisSettings

MAX_CONFIG_BYTES = 1 << 22
MAX_SETTINGS = 100_000
DEEPEST = 50  # mapping in mapping
CONFIG_RULE = "--config must be KEY=VALUE, or a file of settings (.json, .toml, .yaml)"
OUTPUTS = ("text", "json", "markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run to read, as asked for on the command line.

    Attributes:
        sources: Files, globs, folders or -.
        options: How to read them, as `read_run` takes it.
        settings: What the log does not say, and the knobs of the checks.
    """

    sources: list[str]
    options: dict[str, Any]
    settings: DiagnosisSettings

    def read(self) -> RunLog:
        """Read it."""
        from grpo_plan.readers.run_reader import read_run

        source: Any = self.sources[0] if len(self.sources) == 1 else self.sources
        with engine_apart(), Progress(self.sources) as progress:
            return read_run(source, progress=progress, **self.options)

    def holds(self, target: Path) -> bool:
        """Whether a path is one of the inputs, under whatever name."""
        return PilotRequest(sources=self.sources, options={}).holds(target)


def _run_options(
    source: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Log of a run: file, folder, glob or - (grpo-plan formats lists them)."),
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Run to read where a source holds several; several names: parts of one run, in order."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE|FILE", help="Setting of the run that its log lacks, or a file of them; may be repeated."
        ),
    ] = None,
    group_size: Annotated[
        int | None, count_option("Rollouts per prompt, where the log does not say it.", metavar="G")
    ] = None,
    prompts_per_step: Annotated[int | None, count_option("Groups of a step, where the log does not say it.")] = None,
    pass_threshold: Annotated[
        float | None, typer.Option(help="A rollout passes when its reward is at least this.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Reward function to judge rollouts by; default: their sum.")
    ] = None,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Drop and count malformed lines, however many.")
    ] = False,
    skip_bad: Annotated[int | None, count_option("Drop and count up to N malformed lines, no more.")] = None,
    dead_threshold: Annotated[float, typer.Option(help="Dead fraction above which the published rule fires.")] = 0.4,
    sustain: Annotated[int, count_option("Rows in a row above it that this rule asks for.")] = 15,
    false_alarm: Annotated[
        float, typer.Option(help="Chance that a test against the plan ever fires on a run that is in line.")
    ] = 0.002,
    level: Annotated[float, typer.Option(help="Confidence level of the limits, in (0, 1).")] = 0.95,
    gpus: Annotated[int | None, count_option("GPUs of the run, for what dead groups cost.")] = None,
    usd_per_gpu_hour: Annotated[float | None, typer.Option(help="Price of a GPU-hour.")] = None,
    kl_coefficient: Annotated[
        float | None, typer.Option(help="Weight of the KL penalty (beta), where the log does not say it.")
    ] = None,
    max_generation_batches: Annotated[
        int | None, count_option("Batches after which a refill gives up, where the log does not say it.")
    ] = None,
) -> RunRequest:
    from grpo_plan.runs.settings import DiagnosisSettings

    settings = DiagnosisSettings(
        group_size=group_size, prompts_per_step=prompts_per_step, dead_threshold=dead_threshold, sustain_rows=sustain,
        false_alarm=false_alarm, level=level, gpus=gpus, usd_per_gpu_hour=usd_per_gpu_hour,
        kl_coefficient=kl_coefficient, max_generation_batches=max_generation_batches,
    )  # fmt: skip
    options = {
        "run": list(run) if run else None, "config": parse_config(config or []), "group_size": group_size,
        "pass_threshold": pass_threshold, "reward": reward,
        "skip_malformed": skip_malformed or (False if skip_bad is None else skip_bad),
    }  # fmt: skip
    _tell_unused(config or [])
    return RunRequest(sources=list(source), options=options, settings=settings)


def _tell_unused(given: Sequence[str]) -> None:
    """Say which of the settings given by name no check looks at."""
    from grpo_plan.runs.known_settings import is_used

    named = [item for item in given if "=" in item and not os.path.exists(item)]
    unused = [name for name in parse_config(named) if not is_used(name)]
    if unused:
        tell(f"--config: no check uses {', '.join(unused)}. Is the name that of the trainer?")


def reads_run(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that read a run; it receives them as its first argument, a RunRequest.

    Its ``format`` is one of text, json, markdown; any other name is that of the reader.
    """
    shared = inspect.signature(_run_options, eval_str=True).parameters
    argument, *options = shared.values()
    own = [p for p in list(inspect.signature(command, eval_str=True).parameters.values())[1:] if p.name != "format"]
    shown = "Output: text, json or markdown. Or the input: a name from grpo-plan formats, or table."
    annotation = Annotated[list[str] | None, typer.Option("--format", metavar="NAME", help=shown)]
    options.append(inspect.Parameter("format", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    @wraps(command)
    def run(**values: Any) -> None:
        output, reader = _formats(values.pop("format") or [])
        request = _run_options(**{name: values.pop(name) for name in shared})
        if reader is not None:
            request.options["format"] = reader
        command(request, format=output, **values)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (argument, *own, *options)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _formats(given: list[str]) -> tuple[str, str | None]:
    """Output and reader: each may be named once."""
    from grpo_plan.readers.registry import TABLE, formats

    known = {TABLE, *(f.name for f in formats())}
    outputs = [name.lower() for name in given if name.lower() in OUTPUTS]
    readers = [name for name in given if name.lower() not in OUTPUTS]
    if len(outputs) > 1 or len(readers) > 1:
        raise DomainError(
            f"--format takes one output ({', '.join(OUTPUTS)}) and one reader; got {', '.join(given)}. Leave one out."
        )
    if readers and readers[0].lower() not in known:
        raise DomainError(
            f"--format must be an output ({', '.join(OUTPUTS)}) or the name of a reader; got {readers[0]!r}. Readers "
            f"are {TABLE} and those that grpo-plan formats lists.{did_you_mean(readers[0], (*OUTPUTS, *known))}"
        )
    return (outputs[0] if outputs else "text"), (readers[0] if readers else None)


def parse_config(given: list[str]) -> dict[str, object]:
    """Settings of a run from ``KEY=VALUE`` and files; the last one counts. Values that are JSON are read as such.

    >>> parse_config(["scale_rewards=batch", "beta=0.04", "grpo.dynamic=true"])
    {'scale_rewards': 'batch', 'beta': 0.04, 'grpo.dynamic': True}
    """
    found: dict[str, object] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if equals and key.strip() and not os.path.exists(item):
            found[key.strip()] = _value(text.strip())
        else:
            found.update(_settings_of(item))
    return found


def _value(text: str) -> object:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        return text


def _settings_of(item: str) -> Mapping[str, object]:
    path = Path(item)
    kind = path.suffix.lower()
    if kind not in (".json", ".toml", ".yaml", ".yml"):
        raise DomainError(f"{CONFIG_RULE}; got {item!r}.")
    try:
        if not path.is_file():
            raise DomainError(f"--config {item}: there is no such file. {CONFIG_RULE}.")
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise DomainError(f"--config {item}: is larger than 4 MiB. Give the settings of the run alone.")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, DomainError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise DomainError(f"--config {item}: cannot be read ({reason}). Check the path.") from None
    try:
        body = (
            _yaml(text, item)
            if kind in (".yaml", ".yml")
            else tomllib.loads(text)
            if kind == ".toml"
            else json.loads(text)
        )
    except (ValueError, RecursionError):
        raise DomainError(
            f"--config {item}: is no {kind.removeprefix('.').upper()}. Give a file of settings."
        ) from None
    if not isinstance(body, Mapping) or not all(isinstance(key, str) for key in body):
        raise DomainError(f"--config {item}: must map names to values. Give a file of settings.")
    if _settings_in(body) > MAX_SETTINGS:
        raise DomainError(
            f"--config {item}: holds more than {MAX_SETTINGS:,} settings, or nests them too deeply. Give the settings "
            "of the run alone."
        )
    return body


def _settings_in(body: Mapping[str, object]) -> int:
    """How many settings nested mappings hold, counted no further than one beyond the limit: aliases may repeat them.

    >>> _settings_in({"a": 1, "b": {"c": 2, "d": {}}})
    4
    """
    count, held = 0, [(body, 0)]
    while held:
        mapping, depth = held.pop()
        count += len(mapping)
        if count > MAX_SETTINGS or depth > DEEPEST:
            return MAX_SETTINGS + 1
        held += [(value, depth + 1) for value in mapping.values() if isinstance(value, Mapping)]
    return count


def _yaml(text: str, item: str) -> object:
    try:
        import yaml  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingExtraError(
            f"--config {item}: YAML needs the package pyyaml. Install it, or give the file as JSON."
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError("no YAML") from None


__all__ = ["OUTPUTS", "RunRequest", "parse_config", "reads_run"]
