"""``grpo-plan fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from grpo_plan.fitting.comparison import Comparison
    from grpo_plan.fitting.estimates import DeadFraction
    from grpo_plan.fitting.result import PassRateFit
    from grpo_plan.pilot import Pilot
    from grpo_plan.provenance import DeadGroups
    from grpo_plan.readers.independence_reader import IndependenceReport

DEFAULT_SIZES = "2,4,8,16,32,64"
MAX_STRATA = 200


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
    with waiting("computing the intervals"):
        dead = [fitted.dead(size, level, simultaneous=simultaneous) for size in sizes]
        strata = [] if isinstance(pool, int) else _by_stratum(fitted, sizes, level, simultaneous)
        rows = _comparisons(fitted, sizes, level) if compare else []
    if json or format is OutputFormat.JSON:
        write_json("fit", _document(fitted, dead, strata, rows, checks, level))
    else:
        from grpo_plan.cli.fit_text import print_fit

        by_threshold = request.options.get("pass_threshold") is not None
        print_fit(fitted, dead, strata, rows, checks, level, by_threshold=by_threshold)


def _comparisons(fitted: PassRateFit, sizes: list[int], level: float) -> list[Comparison]:
    from grpo_plan.fitting.comparison import compare_estimates

    return compare_estimates(fitted, sizes, level)


def _by_stratum(
    fitted: PassRateFit, sizes: list[int], level: float, simultaneous: bool
) -> list[tuple[str, PassRateFit, list[DeadFraction]]]:
    from grpo_plan.fitting.fit import fit_pass_rates

    names = fitted.pilot.strata
    if len(names) > MAX_STRATA:
        tell(f"{len(names):,} strata are too many to report one by one; keep some with --where.")
    if not 2 <= len(names) <= MAX_STRATA:
        return []
    if fitted.truncation is not None and not fitted.unknown_dead:
        return []
    removed = fitted.removed
    kind = "sample" if fitted.population is None else "census"
    fits = [
        (name, fit_pass_rates(part, fitted.family, population=kind, truncated=fitted.unknown_dead, removed=removed))
        for name, part in fitted.pilot.by_stratum().items()
    ]
    return [(name, part, [part.dead(size, level, simultaneous=simultaneous) for size in sizes]) for name, part in fits]


def _document(
    fitted: PassRateFit,
    dead: list[DeadFraction],
    strata: list[tuple[str, PassRateFit, list[DeadFraction]]],
    rows: list[Comparison],
    checks: IndependenceReport | None,
    level: float,
) -> dict[str, Any]:
    from grpo_plan.cli.numbers import checks_json, comparison_json, dead_json

    document = {
        "pilot": pilot_json(fitted, level),
        "model": model_json(fitted),
        "dead": [dead_json(d) for d in dead],
    }
    if strata:
        document["strata"] = [
            {
                "stratum": name,
                "pilot": pilot_json(part, level),
                "model": model_json(part),
                "dead": [dead_json(d) for d in rows],
            }
            for name, part, rows in strata
        ]
    if rows:
        document["compare"] = comparison_json(rows)
    if checks is not None:
        document["independence"] = checks_json(checks)
    return document


def pilot_json(fitted: PassRateFit, level: float) -> dict[str, Any]:
    """The pilot behind a fit, as in the contract."""
    pilot, mean = fitted.pilot, fitted.mean_pass_rate_interval(level)
    return {
        "prompts": pilot.prompts,
        "rollouts": pilot.total_rollouts,
        "rollouts_per_prompt": {
            "min": int(pilot.rollouts.min()),
            "median": pilot.median_rollouts,
            "max": int(pilot.rollouts.max()),
        },
        "mean_pass_rate": {"value": mean.value, "low": mean.low, "high": mean.high, "level": level},
        "dropped": dict(pilot.dropped),
        "provenance": provenance_json(pilot),
        "notes": list(pilot.notes),
    }


def provenance_json(pilot: Pilot) -> dict[str, Any]:
    """What a pilot was read from."""
    source = pilot.provenance
    return {
        "format": source.format,
        "files": source.files,
        "rows": source.rows,
        "groups": source.groups,
        "group_size": None if source.group_size is None else list(source.group_size),
        "policy_steps": None if source.policy_steps is None else list(source.policy_steps),
        "step_count": source.step_count,
        "policies": list(source.policies),
        "temperatures": list(pilot.temperatures),
        "filtered": source.filtered,
        "removed": source.removed,
        "weak_prior": source.weak_prior,
        "dead_groups": None if source.dead_groups is None else _dead_groups_json(source.dead_groups),
    }


def _dead_groups_json(counted: DeadGroups) -> dict[str, Any]:
    return {
        "groups": counted.groups,
        "dead": counted.dead,
        "judged_by": "pass or fail" if counted.by_reward is None else "full reward",
        "by_pass_or_fail": counted.by_pass,
        "by_full_reward": counted.by_reward,
        "all_fail": counted.all_fail,
        "all_pass": counted.all_pass,
        "unscored": counted.unscored,
        "by_step": [
            {"step": None if step < 0 else step, "groups": groups, "dead": dead}
            for step, groups, dead in counted.by_step
        ],
    }


def model_json(fitted: PassRateFit) -> dict[str, Any]:
    """The fitted model, as in the contract."""
    return {
        "family": fitted.family,
        "population": fitted.population,
        "parameters": fitted.parameters,
        "truncated": fitted.truncation,
        "status": fitted.status.name,
        "statuses": {s.name: s.sentence for s in fitted.statuses},
        "max_measured_group_size": fitted.max_measured_group_size,
        "max_counted_group_size": fitted.max_counted_group_size,
    }
