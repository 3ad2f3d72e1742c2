"""``grpo-plan mix``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    count_option,
    optional_whole,
    parse_whole,
    tell,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.plan_options import parse_kappa
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Whole = str | None
Many = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(mix))


def mix(
    request: PilotRequest,
    group_size: Annotated[int, count_option("Rollouts per prompt, G.")] = 8,
    buckets: Annotated[
        bool, typer.Option("--buckets", help="Mix hard, middle and easy prompts instead of named strata.")
    ] = False,
    edges: Annotated[
        str | None, typer.Option(metavar="E,E,...", help="Edges of the buckets in k/n; default 0.2,0.8.")
    ] = None,
    correction: Annotated[str, typer.Option(help="How buckets are judged: posterior or halves.")] = "posterior",
    objective: Annotated[str, typer.Option(help="signal, or mixed-groups (the same as dead).")] = "signal",
    kappa: Annotated[
        str,
        typer.Option(metavar="K|LO:HI|FILE", help="Score noise over contrast: measured, a range, or a probe's file."),
    ] = "1:300",
    estimator: Annotated[str, typer.Option(help="Advantage that sums to 0 in a group, e.g. grpo.")] = "grpo",
    max_kl: Annotated[str, typer.Option(metavar="NATS|none", help="Largest KL from the mix of now.")] = "0.1",
    floor: Annotated[
        Many, typer.Option(metavar="[NAME=]SHARE", help="Smallest share of all strata or one; repeat.")
    ] = None,
    cap: Annotated[
        Many, typer.Option(metavar="[NAME=]SHARE", help="Largest share of all strata or one; repeat.")
    ] = None,
    prompts_per_step: Annotated[Whole, typer.Option(metavar="N", help="Groups in a step.")] = None,
    steps: Annotated[Whole, typer.Option(metavar="N", help="Optimiser steps of the run.")] = None,
    data_prompts: Annotated[Whole, typer.Option(metavar="N", help="Prompts in all. Default: the pilot's.")] = None,
    pool: Annotated[Many, typer.Option(metavar="NAME=N", help="Prompts of a stratum; give all of them.")] = None,
    max_epochs: Annotated[float | None, typer.Option(help="Times that the run may draw a prompt.")] = None,
    visits: Annotated[int, count_option("Later visits of prompts that would be dropped.")] = 4,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Also draw it: .png, .svg or .pdf.")] = None,
    seed: Annotated[int, count_option("Of the resampling behind the intervals.")] = 0,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Choose the share of each stratum in a step.

    The group size is fixed; the answer gives the reasons.

    Strata come from --stratum-column, or are buckets of observed pass rate (--buckets). The prompts of a bucket were
    chosen by the counts that judge them: that is corrected for.

    Example: grpo-plan mix pilot.jsonl --buckets --group-size 8 --prompts-per-step 128
    """
    from grpo_plan.cli.mix_text import print_mix
    from grpo_plan.cli.plot import picture_target
    from grpo_plan.documents.mix import mix_document
    from grpo_plan.planning.mix import plan_mix

    options: dict[str, Any] = {
        "group_size": group_size, "buckets": parse_edges(edges) if edges else buckets, "correction": correction,
        "objective": objective, "estimator": estimator, "kappa": parse_kappa(kappa), "max_kl": parse_kl(max_kl),
        "floors": parse_shares(floor, "--floor"), "caps": parse_shares(cap, "--cap"),
        "prompts_per_step": optional_whole(prompts_per_step, "--prompts-per-step"),
        "steps": optional_whole(steps, "--steps"), "data_prompts": optional_whole(data_prompts, "--data-prompts"),
        "pools": parse_pools(pool), "max_epochs": max_epochs, "visits": visits, "level": level, "seed": seed,
    }  # fmt: skip
    target = None if plot is None else picture_target(plot, [request], "--plot")
    request.refuse_missing(
        "mix", "strata differ by their dead groups, and those are missing. Read a source with all groups."
    )
    pilot = request.read()
    with waiting("comparing mixes, with replicates of the pilot"):
        chosen = plan_mix(pilot, **options)
    for note in without_effect(pilot.strata, options, correction=correction, edges=edges):
        tell(note)
    if target is not None:
        from grpo_plan.plots.mix import draw_mix

        draw_mix(chosen, target)
        tell(f"{plot} written.")
    if json or format is OutputFormat.JSON:
        write_json("mix", mix_document(chosen))
    else:
        print_mix(chosen)


def without_effect(
    strata: Sequence[str], options: Mapping[str, Any], *, correction: str, edges: str | None
) -> list[str]:
    """Options that change nothing here, each with what it needs, and strata that buckets replace.

    >>> without_effect((), {"buckets": True, "steps": 500, "prompts_per_step": None}, correction="halves", edges=None)
    ['--steps has no effect without --prompts-per-step: together they say how often the run draws a prompt.']
    """
    named = options["buckets"] is False
    given = {name for name in ("steps", "prompts_per_step", "data_prompts") if options.get(name) is not None}
    notes = []
    if named and correction != "posterior":
        notes.append("--correction has no effect on named strata: it needs --buckets, which are chosen by counts.")
    if not named and len(strata) > 1:
        asked = "--buckets makes" if edges is None else "--edges makes"
        names = ", ".join(strata[:3]) + (", ..." if len(strata) > 3 else "")
        notes.append(
            f"{asked} strata of observed pass rate: the pilot's {len(strata)} named ones ({names}) are not used."
        )
    if "steps" in given and "prompts_per_step" not in given:
        notes.append(
            "--steps has no effect without --prompts-per-step: together they say how often the run draws a prompt."
        )
    if "data_prompts" in given and not {"steps", "prompts_per_step"} <= given:
        notes.append(
            "--data-prompts has no effect without --steps and --prompts-per-step, which give the epochs of each "
            "stratum; --max-epochs bounds them."
        )
    if (
        named
        and {"steps", "prompts_per_step"} <= given
        and not any(options.get(name) is not None for name in ("data_prompts", "pools", "max_epochs"))
    ):
        notes.append(
            "--steps has no effect on named strata without --max-epochs, --data-prompts or --pool: how many prompts "
            "there are is not known."
        )
    return notes


def parse_kl(text: str) -> float:
    """``0.1`` or ``none``.

    >>> parse_kl("0.1"), parse_kl("none")
    (0.1, inf)
    """
    if text.strip().lower() in ("none", "inf"):
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DomainError(f"--max-kl must be a number of nats, e.g. 0.1, or none; got {text!r}.")
    return value


def parse_edges(text: str) -> list[float]:
    """``0.2,0.8`` as numbers.

    >>> parse_edges("0.2, 0.8")
    [0.2, 0.8]
    """
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise DomainError(f"--edges must be numbers separated by commas, e.g. 0.2,0.8; got {text!r}.") from None


def parse_shares(items: Many, name: str) -> dict[str, float] | float | None:
    """``0.1`` for all strata, or ``NAME=0.1`` for each.

    >>> parse_shares(["0.1"], "--floor"), parse_shares(["a=0.1", "b=0.2"], "--floor")
    (0.1, {'a': 0.1, 'b': 0.2})
    """
    if not items:
        return None
    shares: dict[str, float] = {}
    for item in items:
        stratum, equals, value = item.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            raise DomainError(f"{name} must be SHARE or NAME=SHARE, e.g. 0.1 or math=0.1; got {item!r}.") from None
        if not equals and len(items) == 1:
            return number
        if not equals:
            raise DomainError(
                f"{name} is one share for all strata, or NAME=SHARE for each; got {item!r} among several."
            )
        shares[stratum] = number
    return shares


def parse_pools(items: Many) -> dict[str, int] | None:
    """``NAME=PROMPTS`` of each stratum.

    >>> parse_pools(["a=1e4", "b=500"])
    {'a': 10000, 'b': 500}
    """
    if not items:
        return None
    pools = {}
    for item in items:
        stratum, equals, value = item.rpartition("=")
        if not equals:
            raise DomainError(f"--pool must be NAME=PROMPTS, e.g. math=7500; got {item!r}.")
        pools[stratum] = parse_whole(value, "--pool")
    return pools
