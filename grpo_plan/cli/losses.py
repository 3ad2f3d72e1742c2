"""``grpo-plan losses``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import FormatOption, JsonOption, LevelOption, OutputFormat, count_option, tell, write_json
from grpo_plan.cli.pilot_options import PilotRequest, Progress, engine_apart, reads_pilot
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.losses import Aggregation, LengthBias, SplitErrors, SplitWeights, WeightShares
    from grpo_plan.rollouts import Rollouts

DEFAULT = ("grpo", "dapo")
DEFAULT_SPLIT = ("grpo", "bnpo", "dapo")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(losses, required=False))


def losses(
    request: PilotRequest,
    aggregation: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Aggregation, e.g. dapo or verl:token-mean; may be repeated."),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(metavar="L,L,...", help="Loss tokens of responses, instead of a pilot.")
    ] = None,
    advantages: Annotated[str | None, typer.Option(metavar="A,A,...", help="Their advantages.")] = None,
    max_tokens: Annotated[
        float | None, typer.Option(help="The constant length of aggregations that divide by one, such as dr_grpo.")
    ] = None,
    micro_batch: Annotated[
        int | None, count_option("Responses of a micro-batch on one rank: show what the split does.")
    ] = None,
    ranks: Annotated[int, count_option("Data-parallel ranks.")] = 1,
    prompts_per_step: Annotated[int, count_option("Groups of a step that is split.")] = 32,
    estimator: Annotated[str, typer.Option(help="Estimator of the advantages of a pilot.")] = "grpo",
    seed: Annotated[int, count_option("Seed of the steps that are drawn.")] = 0,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Show how much each token weighs in the loss.

    Of a pilot with response lengths: the share of the weight on long and on wrong responses, and the pull on length.
    Of --lengths: the weight of every token. With --micro-batch: what accumulation and ranks make of it.

    Example: grpo-plan losses --lengths 2,8 --advantages 1,-1
    """
    from grpo_plan.losses import get_aggregation

    as_json = json or format is OutputFormat.JSON
    if bool(request.sources) == (lengths is not None):
        raise DomainError(
            "losses takes a pilot with response lengths, or --lengths 2,8 (with --advantages 1,-1), and not both."
        )
    split_asked = micro_batch is not None or ranks > 1
    default = DEFAULT_SPLIT if split_asked else DEFAULT
    kinds = [get_aggregation(name.strip()) for name in _names(aggregation) or default]
    size = micro_batch if micro_batch is not None else 1
    if lengths is not None:
        given = numbers(lengths, "--lengths")
        pushed = None if advantages is None else numbers(advantages, "--advantages")
        _of_lengths(given, pushed, kinds, max_tokens, size if split_asked else None, ranks, as_json)
        return
    if advantages is not None:
        raise DomainError("--advantages goes with --lengths; those of a pilot come from its rewards (--estimator).")
    request.refuse_missing("losses", "it needs the length of each rollout, dead groups included.")
    _of_pilot(request, kinds, max_tokens, size if split_asked else None, ranks, prompts_per_step,
              estimator, seed, level, as_json)  # fmt: skip


def _names(given: Sequence[str] | None) -> list[str]:
    return [part for item in given or [] for part in item.split(",") if part.strip()]


def numbers(text: str, name: str) -> list[float]:
    """``2,8`` as numbers.

    >>> numbers("2, 8", "--lengths")
    [2.0, 8.0]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DomainError(f"{name} must be numbers separated by commas, e.g. 2,8; got {text[:60]!r}.") from None


def _of_lengths(
    lengths: list[float],
    advantages: list[float] | None,
    kinds: list[Aggregation],
    max_tokens: float | None,
    micro_batch: int | None,
    ranks: int,
    as_json: bool,
) -> None:
    """Answer for lengths that were given; each is a prompt of its own."""
    from grpo_plan.cli.losses_text import lengths_page
    from grpo_plan.cli.page import print_page
    from grpo_plan.losses import BatchSplit, split_weights
    from grpo_plan.losses.lengths import as_advantages, as_lengths

    tokens = as_lengths(lengths, "--lengths")
    pushed = None if advantages is None else as_advantages(advantages, tokens.size, "--advantages")
    size = tokens.size if micro_batch is None else micro_batch
    split = BatchSplit.even(tokens.size, micro_batch=size, ranks=ranks)
    found = [
        split_weights(tokens, split, aggregation=kind, max_tokens=max_tokens, prompts=list(range(tokens.size)))
        for kind in kinds
    ]
    if not as_json:
        print_page(lengths_page(found, pushed, split=micro_batch is not None))
        return
    rows = [_weights_json(weights, pushed) for weights in found]
    write_json(
        "losses",
        {
            "lengths": [int(n) for n in tokens],
            "advantages": None if pushed is None else pushed.tolist(),
            "micro_batch": micro_batch,
            "ranks": ranks,
            "aggregations": rows,
        },
    )


def _weights_json(found: SplitWeights, advantages: Any) -> dict[str, Any]:
    whole = found.intended
    return {
        **aggregation_json(whole.aggregation),
        "token_weights": whole.values.tolist(),
        "response_weights": whole.response_weights.tolist(),
        "total": whole.total,
        "without_loss_token": whole.empty,
        "net_push": None if advantages is None else whole.aggregate(advantages),
        "split": {
            "token_weights": found.values.tolist(),
            "total": found.total,
            "misplaced": found.misplaced,
            "largest_ratio": found.largest_ratio,
            "smallest_ratio": found.smallest_ratio,
            "net_push": None if advantages is None else float(advantages @ found.response_weights),
        },
    }


def aggregation_json(kind: Aggregation) -> dict[str, Any]:
    """What an aggregation is."""
    return {
        "aggregation": kind.name,
        "setting": kind.setting,
        "formula": kind.formula,
        "reduction": kind.reduction.value,
        "immune": kind.immune,
        "version": kind.version,
        "evidence": kind.evidence,
        "note": kind.note or None,
    }


def _of_pilot(
    request: PilotRequest,
    kinds: list[Aggregation],
    max_tokens: float | None,
    micro_batch: int | None,
    ranks: int,
    prompts_per_step: int,
    estimator: str,
    seed: int,
    level: float,
    as_json: bool,
) -> None:
    """Answer for a pilot."""
    from grpo_plan.cli.losses_text import pilot_page
    from grpo_plan.cli.page import print_page
    from grpo_plan.losses import length_bias, split_errors

    rollouts = read(request)
    with waiting("weighing the tokens"):
        bias = length_bias(rollouts, kinds, estimator=estimator, level=level)
    errors = None
    if micro_batch is not None:
        errors = split_errors(
            rollouts, kinds, micro_batch=micro_batch, ranks=ranks, prompts_per_step=prompts_per_step,
            max_tokens=max_tokens, seed=seed,
        )  # fmt: skip
        if errors.groups_per_step < prompts_per_step:
            tell(
                f"--prompts-per-step {prompts_per_step:,} is more than the pilot has: a step takes all of its "
                f"{errors.groups_per_step:,} prompts with rollouts that count."
            )
    if as_json:
        write_json("losses", _document(bias, errors))
    else:
        print_page(pilot_page(bias, errors))


def read(request: PilotRequest) -> Rollouts:
    """The rollouts asked for; what was assumed and left out goes to stderr."""
    from grpo_plan.readers.rollouts_reader import read_rollouts

    with engine_apart(), Progress(request.sources) as progress:
        rollouts = read_rollouts(request.sources, progress=progress, **request.options)
    for note in rollouts.notes:
        tell(note)
    if rollouts.dropped:
        tell("left out: " + "; ".join(f"{r.replace('_', ' ')}: {c:,}" for r, c in rollouts.dropped.items()) + ".")
    return rollouts


def _document(bias: LengthBias, errors: SplitErrors | None) -> dict[str, Any]:
    split = None
    if errors is not None:
        split = {
            "steps": errors.steps, "groups_per_step": errors.groups_per_step, "responses": errors.responses,
            "micro_batch": errors.micro_batch, "ranks": errors.ranks, "seed": errors.seed,
            "aggregations": [
                {"aggregation": e.aggregation.name}
                | {f.name: getattr(e, f.name) for f in fields(e) if f.name != "aggregation"}
                for e in errors.rows
            ],
        }  # fmt: skip
    return {
        "estimator": bias.estimator,
        "level": bias.level,
        "prompts": bias.prompts,
        "rollouts": bias.counted,
        "without_length": bias.unknown,
        "of_length_0": bias.empty,
        "groups": bias.kinds,
        "mean_tokens": bias.mean_tokens,
        "median_tokens": bias.median_tokens,
        "decile_tokens": bias.decile_tokens,
        "longest_tokens": bias.longest_tokens,
        "lengths": bias.lengths.name,
        "shares_of_rollouts": _shares_json(bias.rollouts),
        "aggregations": [_shares_json(row) for row in bias.rows],
        "split": split,
    }


def _shares_json(row: WeightShares) -> dict[str, Any]:
    kind = {} if row.aggregation is None else aggregation_json(row.aggregation)
    names = [f.name for f in fields(row) if f.name != "aggregation"]
    values = {name: getattr(row, name) for name in names}
    return kind | {name: {"value": v.value, "low": v.low, "high": v.high} for name, v in values.items()}
