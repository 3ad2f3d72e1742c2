"""``grpo-plan temperature``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    count_option,
    parse_whole,
    tell,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.pilot import Pilot

Repeated = list[str] | None
SAME_PROMPTS = "occur in several strata or temperatures"  # as they should here: they are paired


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(temperature, required=False))


def temperature(
    request: PilotRequest,
    files: Annotated[
        Repeated, typer.Option("--pilot", metavar="T=FILE", help="Pilot of one temperature; give two or more.")
    ] = None,
    dead_counts: Annotated[
        Repeated, typer.Option(metavar="T=DEAD/GROUPS", help="Dead groups of one temperature, instead of pilots.")
    ] = None,
    group_size: Annotated[int, count_option("Group size whose dead groups are compared.")] = 8,
    baseline: Annotated[
        float | None, typer.Option(metavar="T", help="Temperature compared with. Default: the one nearest 1.")
    ] = None,
    objective: Annotated[str, typer.Option(help="What decides: dead (fewer dead groups) or signal.")] = "dead",
    smallest_difference: Annotated[
        float | None, typer.Option(help="Smallest difference of interest. Default 0.03 (dead), 0.015 (signal).")
    ] = None,
    power: Annotated[float, typer.Option(help="Chance that the proposed pilot shows the difference.")] = 0.8,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Also draw the differences: .png, .svg or .pdf.")
    ] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Compare temperatures by their dead groups.

    Where the pilot cannot tell, it says so.

    The pilot holds rollouts of the same prompts at two or more temperatures, in one table with a temperature column or
    in one file a temperature. Prompts are paired by name.

    Example: grpo-plan temperature --pilot 0.7=cool.jsonl --pilot 1.0=warm.jsonl
    """
    from grpo_plan.cli.temperature_text import print_counts, print_temperature
    from grpo_plan.documents.temperature import counts_document, temperature_document
    from grpo_plan.planning.dead_counts import compare_dead_counts
    from grpo_plan.planning.temperature import plan_temperature

    request.refuse_missing(
        "temperature", "it compares dead groups. Give their numbers: --dead-counts T=DEAD/GROUPS for each temperature."
    )
    as_json = json or format is OutputFormat.JSON
    if sum((bool(request.sources), bool(files), bool(dead_counts))) != 1:
        raise DomainError(
            "temperature needs one of these: a pilot with a temperature column, --pilot T=FILE for each temperature, "
            "or --dead-counts T=DEAD/GROUPS for each."
        )
    if dead_counts:
        if output is not None:
            raise DomainError("--output draws pilots; it has no use for --dead-counts.")
        compared = compare_dead_counts(_counts(dead_counts), baseline=baseline, level=level)
        if as_json:
            write_json("temperature", counts_document(compared))
        else:
            print_counts(compared)
        return
    requests = {t: replace(request, sources=[path]) for t, path in by_temperature(files or [], "--pilot", "FILE")}
    target = None
    if output is not None:
        from grpo_plan.cli.plot import picture_target

        target = picture_target(output, list(requests.values()) or [request])
    source: Pilot | dict[float, Pilot] = {t: one.read() for t, one in requests.items()}
    if not requests:
        source = request.read(expected=SAME_PROMPTS)
    with waiting("comparing temperatures"):
        plan = plan_temperature(
            source,
            group_size=group_size,
            baseline=baseline,
            objective=objective,
            level=level,
            smallest_difference=smallest_difference,
            power=power,
        )
    if as_json:
        write_json("temperature", temperature_document(plan))
    else:
        print_temperature(plan)
    if target is not None:
        from grpo_plan.plots.temperature import draw_temperature

        draw_temperature(plan, target)
        tell(f"{output} written.")


def by_temperature(items: list[str], option: str, what: str) -> list[tuple[float, str]]:
    """``T=...`` items in order; each temperature once."""
    found: dict[float, str] = {}
    for item in items:
        text, equals, rest = item.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not equals or not rest or not 0.0 <= value < float("inf"):
            raise DomainError(f"{option} must be T={what} with a temperature of at least 0; got {item!r}.")
        if value in found:
            raise DomainError(f"{option} names temperature {value:g} twice. Give each temperature once.")
        found[value] = rest
    return list(found.items())


def _counts(items: list[str]) -> dict[float, tuple[int, int]]:
    counts = {}
    for value, text in by_temperature(items, "--dead-counts", "DEAD/GROUPS"):
        dead, slash, groups = text.partition("/")
        if not slash:
            raise DomainError(f"--dead-counts must be T=DEAD/GROUPS, e.g. 0.7=18/60; got {value:g}={text}.")
        counts[value] = parse_whole(dead, "--dead-counts"), parse_whole(groups, "--dead-counts")
    return counts
