"""``grpo-plan fit``."""

from __future__ import annotations

from typing import Annotated

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PopulationOption,
    parse_group_sizes,
    parse_population,
    tell,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

DEFAULT_SIZES = "2,4,8,16,32,64"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(fit))


def fit(
    request: PilotRequest,
    group_sizes: Annotated[str, typer.Option(help="Group sizes to report, comma separated.")] = DEFAULT_SIZES,
    family: Annotated[
        str, typer.Option(help="auto, or one part: beta, tilted-beta, inflated-beta, nonparametric.")
    ] = "auto",
    population: PopulationOption = "sample",
    compare: Annotated[
        bool, typer.Option("--compare", help="Show the usual estimates side by side, and how each errs.")
    ] = False,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Intervals that hold at all group sizes at once.")
    ] = False,
    session_column: Annotated[
        str | None,
        typer.Option(help="Column of a seed, run or half: test whether rollouts depend on it."),
    ] = None,
    check_order: Annotated[
        bool,
        typer.Option(
            "--check-order", help="Test whether rollouts depend on their order in the file; not with sessions."
        ),
    ] = False,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the completion text: count repeats within a prompt.")
    ] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Estimate the dead fraction at any group size.

    The estimates are made from a pilot, with intervals. Groups that a trainer dumped are counted too.

    Example: grpo-plan fit pilot.jsonl --group-sizes 2,4,8,16
    """
    from grpo_plan.documents.fit import MAX_STRATA, fit_document, fits_by_stratum
    from grpo_plan.fitting.comparison import compare_estimates

    sizes = parse_group_sizes(group_sizes)
    pool = parse_population(population)
    if check_order and session_column is not None:
        raise DomainError("--check-order and --session-column exclude each other: give one.")
    checks = None
    if check_order or session_column is not None or text_column is not None:
        checks = request.read_checked(session_column, text_column, check_order, level)
    pilot = request.read() if checks is None else checks.pilot
    verdict = None if checks is None else checks.verdict
    with waiting("fitting the pass rates"):
        fitted = request.fit(pilot, family=family, population=pool, independence=verdict)
    if request.missing.get("dropped_groups") is not None and len(pilot.strata) > 1:
        tell("strata are not reported: of the dropped groups only the number is known, not the stratum.")
    if not isinstance(pool, int) and (count := len(fitted.pilot.strata)) > MAX_STRATA:
        tell(f"{count:,} strata are too many to report one by one; keep some with --where.")
    with waiting("computing the intervals"):
        dead = [fitted.dead(size, level, simultaneous=simultaneous) for size in sizes]
        strata = [] if isinstance(pool, int) else fits_by_stratum(fitted, sizes, level, simultaneous)
        rows = compare_estimates(fitted, sizes, level) if compare else []
    if json or format is OutputFormat.JSON:
        from grpo_plan.cli.numbers import checks_json

        found = None if checks is None else checks_json(checks)
        write_json("fit", fit_document(fitted, dead, strata, rows, found, level))
    else:
        from grpo_plan.cli.fit_text import print_fit

        by_threshold = request.options.get("pass_threshold") is not None
        print_fit(fitted, dead, strata, rows, checks, level, by_threshold=by_threshold)
