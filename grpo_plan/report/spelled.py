"""The command line of a request that was made in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from grpo_plan.costs import Budget, CostModel
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.signal import as_kappa_range
from grpo_plan.report.request import EXAMPLE_PROMPTS, PLAIN_KAPPA, ReportRequest, Words
from grpo_plan.report.words import number

NAMES = {"rollouts": "budget-rollouts", "tokens": "budget-tokens", "gpu_hours": "budget-gpu-hours", "usd": "budget-usd"}
COSTS = {"prompt_rollouts": "prompt-cost"}
UNSAID = ("refill", "trained", "job_tokens_per_s", "job_counts_prompts")  # by options of another kind


def spelled(request: ReportRequest, cost: CostModel | None) -> Words:
    """Words for a request that has none: what the command line would be, with PILOT for the pilot."""
    kappa = request.kappa
    if isinstance(kappa, KappaMeasurement):
        told = "KAPPA"
    else:
        found = as_kappa_range(kappa)
        told = number(found.low) if found.low == found.high else f"{number(found.low)}:{number(found.high)}"
    return Words(
        budget=(*_budget(request.budget), *_costs(cost)),
        plan=tuple(_plan(request)),
        kappa=PLAIN_KAPPA if told == PLAIN_KAPPA else told,
        trainer=tuple(_trainer(request)),
    )


def _budget(budget: Budget | None) -> Iterator[str]:
    for field in fields(budget or Budget(prompts_per_step=EXAMPLE_PROMPTS)):
        value = getattr(budget or Budget(prompts_per_step=EXAMPLE_PROMPTS), field.name)
        if value is not None:
            yield f"--{NAMES.get(field.name, field.name.replace('_', '-'))}"
            yield number(value)


def _costs(cost: CostModel | None) -> Iterator[str]:
    if cost is None:
        return
    for field in fields(cost):
        value = getattr(cost, field.name)
        if field.name not in UNSAID and value != field.default:
            yield f"--{COSTS.get(field.name, field.name.replace('_', '-'))}"
            yield number(value)
    if cost.refill:
        yield "--refill"
    elif cost.trained == "mixed":
        yield "--train-mixed-only"


def _plan(request: ReportRequest) -> Iterator[str]:
    plain = ReportRequest()
    for name in ("objective", "estimator", "coherence", "level", "population"):
        value = getattr(request, name)
        if value != getattr(plain, name):
            yield from (f"--{name}", value if isinstance(value, str) else number(value))
    if request.group_sizes is not None:
        yield from ("--group-sizes", ",".join(str(size) for size in request.group_sizes))
    for name, limit in request.limits.items():
        yield from (f"--{name.replace('_', '-')}", number(limit))


def _trainer(request: ReportRequest) -> Iterator[str]:
    asked = request.trainer
    named = {
        "trainer": asked.trainer, "trainer-version": asked.version, "micro-batch": asked.micro_batch,
        "temperature": asked.temperature, "max-response-tokens": asked.max_response_tokens,
    }  # fmt: skip
    for name, value in named.items():
        if value is not None:
            yield from (f"--{name}", value if isinstance(value, str) else number(value))
