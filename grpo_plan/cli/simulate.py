"""``grpo-plan simulate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from grpo_plan._validate import as_one_probability
from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    count_option,
    optional_whole,
    parse_group_sizes,
    write_json,
)
from grpo_plan.cli.passk import parse_ks
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.waiting import counting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.simulation import Curriculum

Whole = str | None
DEFAULT_RATES = (0.3, 1.0, 3.0, 10.0, 30.0)
CONTROL_RATE = 0.3  # with shuffled rewards no rate is the best


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(simulate))


def simulate(
    request: PilotRequest,
    estimators: Annotated[str, typer.Option(metavar="NAME,...", help="Advantage estimators.")] = "rloo,sign",
    group_sizes: Annotated[str, typer.Option(metavar="G,G,...", help="Group sizes.")] = "8",
    rollouts_per_step: Annotated[int, count_option("Rollouts of a step, the same for all runs.")] = 512,
    steps: Annotated[int, count_option("Optimiser steps.")] = 200,
    learning_rate: Annotated[float | None, typer.Option(help="One learning rate for all runs instead.")] = None,
    learning_rates: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,...", help="Rates of which each run takes its best, by other seeds. Default: 0.3,1,3,10,30."
        ),
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, adam or adam-norm (Adam with one second moment).")] = "adam-norm",
    warmup_steps: Annotated[int, count_option("Steps over which the learning rate rises.")] = 0,
    kl: Annotated[float, typer.Option(help="Weight of the KL divergence to the start.")] = 0.0,
    max_gradient_norm: Annotated[float | None, typer.Option(help="Gradients are clipped at this length.")] = None,
    sampling: Annotated[
        str, typer.Option(metavar="uniform|epochs|LO:HI", help="How prompts are drawn; LO:HI: a band of pass rates.")
    ] = "uniform",
    tracked: Annotated[
        bool, typer.Option("--tracked", help="The band goes by passes seen, not by the true pass rate.")
    ] = False,
    refill: Annotated[bool, typer.Option("--refill", help="Draw groups until all of a step are mixed.")] = False,
    max_rounds: Annotated[int, count_option("Most rounds of a refilled step.")] = 10,
    budget_rollouts: Annotated[
        Whole, typer.Option(metavar="N", help="Rollouts generated at which training stops.")
    ] = None,
    kappa: Annotated[
        str, typer.Option(metavar="K|FILE", help="Score noise over contrast: assumed, or a probe's file.")
    ] = "10",
    harmful: Annotated[float, typer.Option(help="Share of the noise in shared parameters, in [0, 1].")] = 0.5,
    damage: Annotated[float, typer.Option(help="How much drift in the other parameters lowers all logits.")] = 0.1,
    shared: Annotated[float, typer.Option(help="Share of a squared gradient in shared parameters.")] = 0.5,
    coherence: Annotated[
        float, typer.Option(help="Mean cosine of the gradients of two prompts, at most --shared.")
    ] = 0.01,
    dimension: Annotated[int, count_option("Shared parameters.")] = 64,
    prompts: Annotated[int, count_option("Prompts trained on, drawn from the fit.")] = 1000,
    held_out: Annotated[int, count_option("Prompts held out.")] = 1000,
    end_logit: Annotated[
        float | None, typer.Option(help="Logit of prompts that never or always pass. Default: they stay so.")
    ] = None,
    measure: Annotated[str, typer.Option(help="Whose final pass rate is compared: held_out or train.")] = "held_out",
    every: Annotated[int, count_option("Steps between records of --json.")] = 20,
    pass_at: Annotated[str, typer.Option(metavar="K,K,...", help="k of the recorded pass@k.")] = "1,8,64",
    seeds: Annotated[int, count_option("Seeds; two or more give intervals.")] = 8,
    seed: Annotated[int, count_option("First seed.")] = 0,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Shuffle the rewards of each batch: a control that cannot learn.")
    ] = False,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Simulate how estimators and group sizes learn.

    It trains a small model of a policy, one logit a prompt: a check of reasoning, not a forecast of a run.

    All runs use the same rollouts a step, the same prompts and the same random numbers, and each the best of several
    learning rates; they are compared with the first. A difference whose interval holds 0 is "cannot tell".

    Example: grpo-plan simulate pilot.jsonl --estimators rloo,sign --group-sizes 4,8
    """
    from grpo_plan.cli.simulate_text import print_simulations, simulations_document
    from grpo_plan.simulation import SimulatedPolicy, SimulatedTraining, compare_simulations
    from grpo_plan.simulation.pairs import pairs_of

    if learning_rate is not None and learning_rates is not None:
        raise DomainError("Give --learning-rate or --learning-rates, not both.")
    request.refuse_missing("simulate", "it needs the pass rates of all prompts, those of dead groups included.")
    names = [name.strip() for name in estimators.split(",")]
    if not all(names):
        raise DomainError(f"--estimators must be names separated by commas, e.g. rloo,sign; got {estimators!r}.")
    sizes = parse_group_sizes(group_sizes)
    for name in names:
        for size in sizes:
            pairs_of(name).table(size, 0.5)  # a wrong name is told before a long read
    training = SimulatedTraining(
        group_size=sizes[0],
        rollouts_per_step=rollouts_per_step,
        steps=steps,
        learning_rate=CONTROL_RATE if learning_rate is None else learning_rate,
        optimizer=optimizer,
        warmup_steps=warmup_steps,
        kl_coefficient=kl,
        max_gradient_norm=max_gradient_norm,
        sampling=parse_sampling(sampling, tracked),
        refill=refill,
        max_rounds=max_rounds,
        budget_rollouts=optional_whole(budget_rollouts, "--budget-rollouts"),
    )
    noise, source = parse_one_kappa(kappa)
    model = SimulatedPolicy(
        prompts=prompts, held_out=held_out, shared=shared, coherence=shared_coherence(coherence, shared),
        dimension=dimension, kappa=noise, harmful=harmful, damage=damage, end_logit=end_logit,
    )  # fmt: skip
    ks = parse_ks(pass_at, "--pass-at")
    rates = None if learning_rates is None else parse_rates(learning_rates)
    if rates is None and learning_rate is None and not shuffled:
        rates = list(DEFAULT_RATES)
    pilot = request.read()
    with counting("simulating") as progress:
        found = compare_simulations(
            request.fit(pilot),
            estimators=names,
            group_sizes=sizes,
            learning_rates=rates,
            training=training,
            model=model,
            seeds=seeds,
            seed=seed,
            measure=measure,
            level=level,
            every=every,
            pass_at=ks,
            shuffled=shuffled,
            progress=progress,
        )
    if json or format is OutputFormat.JSON:
        write_json("simulate", simulations_document(found, source))
    else:
        print_simulations(found, source)


def shared_coherence(coherence: float, shared: float) -> float:
    """Mean inner product of the shared directions: that of whole gradients over the share that is shared.

    >>> shared_coherence(0.01, 0.5), shared_coherence(0.0, 0.0)
    (0.02, 0.0)
    """
    whole, part = as_one_probability(coherence, "--coherence"), as_one_probability(shared, "--shared")
    if whole > part:
        raise DomainError(
            f"--coherence must be at most --shared, {part:g}: parameters that are not shared add nothing to the "
            f"cosine; got {whole:g}. Raise --shared, or lower --coherence."
        )
    return whole / part if part > 0.0 else 0.0


def parse_one_kappa(text: str) -> tuple[float, str]:
    """A value, or that of a probe's file, and where it is from.

    >>> parse_one_kappa("4.5")
    (4.5, 'assumed')
    """
    from grpo_plan.cli.plan_options import parse_kappa
    from grpo_plan.planning.signal import KappaRange

    given = parse_kappa(text)
    if isinstance(given, KappaRange):
        if given.value is None:
            raise DomainError(f"--kappa of a simulation must be one number or a probe's file; got {text!r}.")
        return given.value, "assumed"
    measured = given.kappa
    if measured is None or measured.value is None:
        raise DomainError(f"{text} measures no kappa. Give --kappa a number.")
    return measured.value, "measured"


def parse_rates(text: str) -> list[float]:
    """``0.1,0.3`` as a list.

    >>> parse_rates("0.1, 0.3")
    [0.1, 0.3]
    """
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates:
        raise DomainError(f"--learning-rates must be numbers separated by commas, e.g. 0.1,0.3,1; got {text!r}.")
    return rates


def parse_sampling(text: str, tracked: bool) -> str | Curriculum:
    """``uniform``, ``epochs``, or a band of pass rates.

    >>> parse_sampling("0.1:0.9", False).high
    0.9
    """
    from grpo_plan.simulation import Curriculum

    low, colon, high = text.partition(":")
    if not colon:
        if tracked:
            raise DomainError("--tracked needs a band, e.g. --sampling 0.1:0.9.")
        return text.strip().lower()
    try:
        ends = float(low), float(high)
    except ValueError:
        raise DomainError(f"--sampling must be uniform, epochs or LO:HI, e.g. 0.1:0.9; got {text!r}.") from None
    return Curriculum(low=ends[0], high=ends[1], by="tracked" if tracked else "current")
