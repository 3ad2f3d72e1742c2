"""Options of a command that plans within a budget: totals, lengths, rates, prices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan._validate import as_count
from grpo_plan.cli.common import optional_whole
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.costs import Budget, CostModel
    from grpo_plan.pilot import Pilot

Number = str | None
TIMED = (
    "gpus", "usd_per_gpu_hour", "prompt_tokens", "prefill_tokens_per_s", "decode_tokens_per_s", "train_tokens_per_s",
    "reward_s", "reward_parallel", "step_overhead_s",
)  # fmt: skip
RATES = ("prefill_tokens_per_s", "decode_tokens_per_s", "train_tokens_per_s", "reward_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """What the options say; `build` turns it into a budget and a cost model.

    Attributes:
        budget: What is fixed.
        values: Attributes of the cost model that were given.
        calibrate: Log to take speed from, if named.
        gpus_used: Whether the number of GPUs is used elsewhere, by a trainer's rules.
        assumed: Whether nothing given sizes a step, so that its prompts are those of an example.
    """

    budget: Budget
    values: dict[str, Any]
    calibrate: str | None
    gpus_used: bool = False
    assumed: bool = False

    def build(self, pilot: Pilot) -> tuple[Budget, CostModel, tuple[str, ...]]:
        """Budget, cost model, and notes on what they rest on; lengths not given are taken from the pilot."""
        from grpo_plan.costs import CostModel, LengthStatus, token_lengths

        values, notes = dict(self.values), []
        wanted = [name for name in ("pass_tokens", "fail_tokens") if name not in values]
        found = token_lengths(pilot) if wanted else None
        if found is not None and found.status is not LengthStatus.ABSENT:
            values.update({name: v for name in wanted if (v := getattr(found, name)) is not None})
            if found.status is not LengthStatus.OK:
                notes.append(found.status.sentence)
        if self.calibrate is None:
            model = CostModel(**values)
            return self.budget, model, (*notes, *self._idle(model))
        from grpo_plan.readers.throughput_reader import read_throughput

        speed = read_throughput(self.calibrate)
        if speed.gpus is not None:
            values.setdefault("gpus", speed.gpus)
        notes += [f"Speed of {self.calibrate}: {speed.sentence}"]
        model = CostModel.from_throughput(speed, **values)
        return self.budget, model, (*notes, *self._idle(model))

    def _idle(self, model: CostModel) -> list[str]:
        """A note on options that change nothing, because a cost that they enter is not known."""
        timed = [name for name in TIMED if name in self.values]
        if self.values.get("trained") == "mixed" and not self.values.get("refill"):
            timed.append("train_mixed_only")
        unit = "usd" if "usd_per_gpu_hour" in timed else "seconds" if timed == ["train_mixed_only"] else "gpu_hours"
        missing = model.needs(unit)
        if not timed or missing is None or (timed == ["gpus"] and self.gpus_used):
            return []
        options = ", ".join("--" + name.replace("_", "-") for name in timed)
        return [f"{options} {'has' if len(timed) == 1 else 'have'} no effect yet. {missing}"]


def _cost_options(
    *,
    budget_rollouts: Annotated[
        Number, typer.Option(metavar="N", help="Rollouts generated in the whole run, e.g. 2e6.")
    ] = None,
    budget_tokens: Annotated[
        Number, typer.Option(metavar="N", help="Response tokens generated in the whole run, e.g. 3e9.")
    ] = None,
    budget_gpu_hours: Annotated[
        Number, typer.Option(metavar="H", help="GPU-hours of the whole run, all GPUs together.")
    ] = None,
    budget_usd: Annotated[Number, typer.Option(metavar="USD", help="Price of the whole run.")] = None,
    steps: Annotated[Number, typer.Option(metavar="N", help="Optimiser steps of the run.")] = None,
    prompts_per_step: Annotated[Number, typer.Option(metavar="N", help="Groups in a step.")] = None,
    rollouts_per_step: Annotated[Number, typer.Option(metavar="N", help="Rollouts in a step.")] = None,
    prompt_cost: Annotated[Number, typer.Option(metavar="C", help="Fixed cost of a prompt, in rollouts.")] = None,
    gpus: Annotated[Number, typer.Option(metavar="N", help="GPUs of the job.")] = None,
    usd_per_gpu_hour: Annotated[Number, typer.Option(metavar="USD", help="Price of one GPU-hour.")] = None,
    prompt_tokens: Annotated[Number, typer.Option(metavar="N", help="Mean tokens of a prompt.")] = None,
    pass_tokens: Annotated[
        Number, typer.Option(metavar="N", help="Mean tokens of a right response; else from the pilot.")
    ] = None,
    fail_tokens: Annotated[
        Number, typer.Option(metavar="N", help="Mean tokens of a wrong response; else from the pilot.")
    ] = None,
    prefill_tokens_per_s: Annotated[
        Number, typer.Option(metavar="R", help="Prompt tokens read per second, all GPUs together.")
    ] = None,
    decode_tokens_per_s: Annotated[
        Number, typer.Option(metavar="R", help="Response tokens generated per second, all GPUs together.")
    ] = None,
    train_tokens_per_s: Annotated[
        Number, typer.Option(metavar="R", help="Tokens trained on per second, all GPUs together.")
    ] = None,
    reward_s: Annotated[Number, typer.Option(metavar="S", help="Seconds to score one rollout.")] = None,
    reward_parallel: Annotated[Number, typer.Option(metavar="N", help="Rollouts scored at a time.")] = None,
    step_overhead_s: Annotated[
        Number, typer.Option(metavar="S", help="Seconds of a step that do not grow with its groups.")
    ] = None,
    calibrate: Annotated[
        str | None, typer.Option(metavar="RUN", help="Take speed from the log of a run instead of the rates.")
    ] = None,
    train_mixed_only: Annotated[
        bool, typer.Option("--train-mixed-only", help="Dead groups are dropped before training.")
    ] = False,
    refill: Annotated[
        bool, typer.Option("--refill", help="Prompts are drawn until every group of a step is mixed.")
    ] = False,
) -> CostRequest:
    from grpo_plan.costs import Budget

    whole = {
        "rollouts": optional_whole(budget_rollouts, "--budget-rollouts"),
        "tokens": optional_whole(budget_tokens, "--budget-tokens"),
        "steps": optional_whole(steps, "--steps"),
        "prompts_per_step": optional_whole(prompts_per_step, "--prompts-per-step"),
        "rollouts_per_step": optional_whole(rollouts_per_step, "--rollouts-per-step"),
    }
    gpu_hours, dollars = (
        optional_number(budget_gpu_hours, "--budget-gpu-hours"),
        optional_number(budget_usd, "--budget-usd"),
    )
    try:
        budget = Budget(**whole, gpu_hours=gpu_hours, usd=dollars)
    except DomainError as error:
        raise DomainError(_by_option(str(error))) from None
    counts = {
        "gpus": optional_whole(gpus, "--gpus"),
        "reward_parallel": optional_whole(reward_parallel, "--reward-parallel"),
    }
    for name, count in counts.items():
        if count is not None:
            as_count(count, f"--{name.replace('_', '-')}")
    numbers = {
        "prompt_rollouts": (prompt_cost, "--prompt-cost"),
        "usd_per_gpu_hour": (usd_per_gpu_hour, "--usd-per-gpu-hour"),
        "prompt_tokens": (prompt_tokens, "--prompt-tokens"),
        "pass_tokens": (pass_tokens, "--pass-tokens"),
        "fail_tokens": (fail_tokens, "--fail-tokens"),
        "prefill_tokens_per_s": (prefill_tokens_per_s, "--prefill-tokens-per-s"),
        "decode_tokens_per_s": (decode_tokens_per_s, "--decode-tokens-per-s"),
        "train_tokens_per_s": (train_tokens_per_s, "--train-tokens-per-s"),
        "reward_s": (reward_s, "--reward-s"),
        "step_overhead_s": (step_overhead_s, "--step-overhead-s"),
    }
    values: dict[str, Any] = {**counts, **{name: optional_number(*pair) for name, pair in numbers.items()}}
    values = {name: value for name, value in values.items() if value is not None}
    if calibrate is not None and (both := [name for name in RATES if name in values]):
        names = ", ".join("--" + name.replace("_", "-") for name in both)
        raise DomainError(f"--calibrate takes the speed of every phase from the log; got {names} too. Give one.")
    if refill or train_mixed_only:
        values |= {"refill": refill, "trained": "mixed"}
    return CostRequest(budget=budget, values=values, calibrate=calibrate)


def takes_costs(command: Callable[..., None], *, example_prompts: int | None = None) -> Callable[..., None]:
    """Give a command the options of budgets and costs; it receives them as the keyword argument ``costs``.

    The command's own signature names ``costs: CostRequest``, which is replaced by --budget-rollouts, --budget-tokens,
    --budget-gpu-hours, --budget-usd, --steps, --prompts-per-step, --rollouts-per-step, --prompt-cost and the rest.
    Compose as ``app.command()(reads_pilot(takes_costs(plan)))``. With ``example_prompts``, a step whose size
    nothing given tells has so many prompts, and ``costs.assumed`` says so.
    """
    shared = inspect.signature(_cost_options, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def run(*arguments: Any, **values: Any) -> None:
        given = {name: values.pop(name) for name in shared}
        assumed = example_prompts is not None and not _sizes_a_step(given)
        costs = _cost_options(**given | ({"prompts_per_step": str(example_prompts)} if assumed else {}))
        command(*arguments, costs=replace(costs, assumed=assumed), **values)

    parameters = [p for q in own for p in (shared.values() if q.name == "costs" else [q])]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p if i == 0 else p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for i, p in enumerate(parameters)]
    )
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _by_option(message: str) -> str:
    """A message on one limit of the budget with the option that gave it; others as they are."""
    name, rule, rest = message.partition(" must be ")
    total = f"--budget-{name.replace('_', '-')}" if name in ("rollouts", "tokens", "gpu_hours", "usd") else ""
    option = total or (
        f"--{name.replace('_', '-')}" if name in ("steps", "prompts_per_step", "rollouts_per_step") else ""
    )
    return f"{option}{rule}{rest} Give another." if option else message


def cost_option_names() -> tuple[str, ...]:
    """Names of the options of budgets and costs."""
    return tuple(inspect.signature(_cost_options).parameters)


def _sizes_a_step(given: dict[str, Any]) -> bool:
    if given["prompts_per_step"] is not None or given["rollouts_per_step"] is not None:
        return True
    totals = [name for name in given if name.startswith("budget_") and given[name] is not None]
    return bool(totals) and given["steps"] is not None


def optional_number(text: str | None, name: str) -> float | None:
    """A number as people write it (24, 2e6, 1_500, 1,500.5), or None if nothing was given.

    >>> optional_number("1,500.5", "--budget-usd"), optional_number(None, "--budget-usd")
    (1500.5, None)
    """
    if text is None:
        return None
    try:
        return float(text.strip().replace(",", "").replace("_", ""))
    except ValueError:
        raise DomainError(f"{name} must be a number, e.g. 24 or 2e6; got {text!r}.") from None
