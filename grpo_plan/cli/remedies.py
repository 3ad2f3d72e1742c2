"""``grpo-plan remedies``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PopulationOption,
    count_option,
    optional_whole,
    parse_group_sizes,
    parse_population,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.plan_options import parse_kappa
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.remedies import (
        AtKappa,
        ByKind,
        EstimatorEffect,
        Hint,
        Ranged,
        RemedyComparison,
        SamplingEffect,
        Turn,
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(remedies))


def remedies(
    request: PilotRequest,
    group_size: Annotated[int, count_option("Rollouts per prompt of now.", "G")],
    kappa: Annotated[
        str,
        typer.Option(metavar="K|LO:HI|FILE", help="Score noise over contrast: measured, a range, or a probe's file."),
    ] = "1:300",
    coherence: Annotated[float, typer.Option(help="Mean cosine between the gradients of two prompts.")] = 0.0,
    prompts_per_step: Annotated[str | None, typer.Option(metavar="N", help="Groups in a step.")] = None,
    estimator: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Compare this one; may be repeated. Default: all.")
    ] = None,
    reference: Annotated[str, typer.Option(help="Estimator that the others are compared with.")] = "rloo",
    group_sizes: Annotated[
        str | None, typer.Option(metavar="G,G,...", help="Other group sizes. Default: G/2, 2 G and 4 G.")
    ] = None,
    hint_odds: Annotated[
        float | None, typer.Option(metavar="X", help="A hint multiplies the odds of a pass by this.")
    ] = None,
    hint_gain: Annotated[
        float | None, typer.Option(metavar="S", help="Or: a hint turns this share of the fails into passes.")
    ] = None,
    hint_share: Annotated[float, typer.Option(metavar="W", help="Share of the prompts that have a hint.")] = 1.0,
    hint_when: Annotated[
        str, typer.Option(help="all-fail: such a group is drawn again with the hint; always: from the start.")
    ] = "all-fail",
    hint_tries: Annotated[int, count_option("Hints tried on an all-fail group, G rollouts each.")] = 1,
    variants: Annotated[
        int | None, count_option("Variants of a prompt in one group, itself included, G rollouts each.", "M")
    ] = None,
    variant_spread: Annotated[
        float, typer.Option(metavar="SD", help="Standard deviation of the logit of a variant's pass rate.")
    ] = 0.0,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Say everything: where orders turn, what dead groups do, what each climbs, costs, what others found.",
        ),
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Also draw it: .png, .svg or .pdf.")] = None,
    population: PopulationOption = "sample",
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Compare remedies for dead groups.

    They are the advantage estimators, refill, other group sizes, hints and pooled variants, on this pilot.

    Hints and variants are shown only with what they are taken to do.

    Example: grpo-plan remedies pilot.jsonl --group-size 8 --hint-odds 3
    """
    from grpo_plan.cli.remedies_text import print_remedies
    from grpo_plan.remedies import compare_remedies

    pool = parse_population(population)
    options: dict[str, Any] = {
        "kappa": parse_kappa(kappa),
        "coherence": coherence,
        "prompts_per_step": optional_whole(prompts_per_step, "--prompts-per-step"),
        "estimators": estimator or None,
        "reference": reference,
        "group_sizes": None if group_sizes is None else parse_group_sizes(group_sizes),
        "hint": parse_hint(hint_odds, hint_gain, share=hint_share, when=hint_when, tries=hint_tries),
        "variants": variants,
        "variant_spread": variant_spread,
        "level": level,
    }
    target = None
    if plot is not None:
        from grpo_plan.cli.plot import picture_target

        target = picture_target(plot, [request], "--plot")
    request.refuse_missing(
        "remedies",
        "they differ by what they do with dead groups, and those are missing. Read a source with all groups.",
    )
    fit = request.fit(request.read(), population=pool)
    with waiting("comparing remedies over all distributions of pass rates"):
        found = compare_remedies(fit, group_size, **options)
    if target is not None:
        from grpo_plan.cli.common import tell
        from grpo_plan.plots.remedies import draw_remedies

        draw_remedies(found, target, estimator or None)
        tell(f"{plot} written.")
    if json or format is OutputFormat.JSON:
        write_json("remedies", document(found))
    else:
        print_remedies(found, details=details)


def parse_hint(odds: float | None, gain: float | None, *, share: float, when: str, tries: int) -> Hint | None:
    """The hint of the options, or None.

    >>> parse_hint(3.0, None, share=0.5, when="all-fail", tries=1).words
    'odds of a pass x 3 on 0.5 of the prompts'
    """
    from grpo_plan.remedies import Hint

    if odds is None and gain is None:
        if (share, when, tries) != (1.0, "all-fail", 1):
            raise DomainError(
                "--hint-share, --hint-when and --hint-tries need a hint: give --hint-odds, e.g. 3, or --hint-gain, "
                "e.g. 0.2."
            )
        return None
    if odds is not None and gain is not None:
        raise DomainError("--hint-odds and --hint-gain are two ways to state one shift. Give one of them.")
    return Hint(odds=odds, gain=gain, share=share, when=when, tries=tries)


# JSON -----------------------------------------------------------------------------------------------------------


def document(found: RemedyComparison) -> dict[str, Any]:
    """The body of the JSON answer."""
    from grpo_plan.documents.parts import dead_json
    from grpo_plan.documents.pilots import model_json, pilot_json

    kappa = found.kappa
    return {
        "group_size": found.group_size,
        "reference": found.reference,
        "level": found.level,
        "kappa": {"low": kappa.low, "high": kappa.high, "value": kappa.value, "measured": kappa.measured},
        "coherence": found.coherence,
        "prompts_per_step": found.prompts_per_step,
        "verdict": list(found.verdict),
        "dead": dead_json(found.dead),
        "estimators": [_estimator(e) for e in found.estimators],
        "sampling": [_sampling(s) for s in found.sampling],
        "elsewhere": list(found.elsewhere),
        "claims": list(found.claims),
        "assumptions": list(found.assumptions),
        "pilot": pilot_json(found.fit, found.level),
        "model": model_json(found.fit),
    }


def _estimator(e: EstimatorEffect) -> dict[str, Any]:
    return {
        "name": e.name,
        "description": e.description,
        "objective": e.objective,
        "source": e.source,
        "same_plan_as": e.same_plan_as,
        "refused": e.refused or None,
        "effect": e.effect.name,
        "live": ranged_json(e.live),
        "live_by_kind": _kinds(e.live_by_kind),
        "all_fail_advantage": e.all_fail_advantage,
        "all_pass_advantage": e.all_pass_advantage,
        "signal": e.signal,
        "noise": e.noise,
        "signal_by_kind": _kinds(e.signal_by_kind),
        "noise_by_kind": _kinds(e.noise_by_kind),
        "progress": _progress(e.progress),
        "turn": _turn(e.turn),
    }


def _sampling(s: SamplingEffect) -> dict[str, Any]:
    return {
        "name": s.name,
        "group_size": s.group_size,
        "effect": None if s.effect is None else s.effect.name,
        "rollouts": ranged_json(s.rollouts),
        "dead": ranged_json(s.dead),
        "all_fail": ranged_json(s.all_fail),
        "all_pass": ranged_json(s.all_pass),
        "rollouts_per_mixed": ranged_json(s.rollouts_per_mixed),
        "mixed_per_step": ranged_json(s.mixed_per_step),
        "progress": None if s.progress is None else _progress(s.progress),
        "turn": _turn(s.turn),
        "status": s.status.name,
        "comment": s.comment,
        "command": s.command or None,
    }


def _turn(turn: Turn | None) -> dict[str, Any] | None:
    return None if turn is None else {"better": turn.better, "kappa": ranged_json(turn.kappa)}


def _progress(progress: tuple[AtKappa, ...]) -> list[dict[str, Any]]:
    return [
        {"kappa": at.kappa, "ratio": ranged_json(at.ratio), "noise_to_signal": at.noise_to_signal} for at in progress
    ]


def _kinds(parts: ByKind | None) -> dict[str, Any] | None:
    if parts is None:
        return None
    return {kind: ranged_json(getattr(parts, kind)) for kind in ("mixed", "all_fail", "all_pass")}


def ranged_json(number: Ranged | None) -> dict[str, float | None] | None:
    """Value and limits; null where there is none, or no finite one."""
    if number is None:
        return None
    ends = {"value": number.value, "low": number.low, "high": number.high}
    return {name: end if end is not None and math.isfinite(end) else None for name, end in ends.items()}
