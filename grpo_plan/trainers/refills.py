"""Which trainers refill a step, and a batch multiplier and cap that fit a plan's pilot."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.batches import Refill, RefillAt, refill
from grpo_plan.batches.refilling import MAX_GEN_BATCH, MAX_WANTED, batch_multiplier_for
from grpo_plan.errors import DomainError
from grpo_plan.planning.plan import Plan
from grpo_plan.trainers.base import RefillKeys, Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingRefill:
    """A batch multiplier and a cap, and both with their limits in words; None where there is none to set."""

    batch_multiplier: float | None
    max_rounds: int | None
    notes: tuple[str, ...]


def require_refill(trainer: Trainer) -> None:
    """Refuse dynamic sampling where the trainer has none.

    Raises:
        DomainError: The trainer cannot refill a step.
    """
    if trainer.refills:
        return
    from grpo_plan.trainers.registry import get_trainer, known_trainers

    able = [found.title for name in known_trainers() if (found := get_trainer(name)).refills]
    raise DomainError(
        f"{trainer.title} cannot refill a step: it has no dynamic sampling, and dead groups stay in; got refill. Plan "
        f"without --refill, or use {', '.join(able[:-1])} or {able[-1]}."
    )


def fitting_refill(plan: Plan, keys: RefillKeys | None) -> FittingRefill:
    """The smallest multiplier that fills a step in one round in 95 % of steps, and a cap that 95 % of runs never hit.

    The multiplier holds at the estimated dead fraction, or at its upper limit where the trainer stops the run at a cap.
    The cap holds at the upper limit, for rounds of that size (theory.md, eq. 52 to 54).

    Args:
        plan: A plan with refill; its recommended design is meant.
        keys: What the trainer's keys can say; None without a trainer: then no cap is chosen.
    """
    design, keys = plan.recommended.design, keys or RefillKeys()
    wanted = design.prompts_per_step
    none = FittingRefill(batch_multiplier=None, max_rounds=None, notes=())
    if not keys.multiplier and not keys.cap:
        return none
    if wanted > MAX_WANTED:
        why = f"No batch multiplier or cap was computed: a step of {wanted:,} prompts is beyond {MAX_WANTED:,}."
        return FittingRefill(batch_multiplier=None, max_rounds=None, notes=(why,))
    first = refill(
        plan.fit, prompts_per_step=wanted, group_size=design.group_size, steps=design.steps, level=plan.level
    )
    multiplier, notes = None, []
    if keys.multiplier:
        high = first.at_high if keys.stops else None
        size = (first.at_value if high is None else high).one_round_gen_batch_size
        if size > MAX_GEN_BATCH:
            why = f"No batch multiplier was computed: one round would take {size:,} prompts."
            return FittingRefill(batch_multiplier=None, max_rounds=None, notes=(why,))
        multiplier = batch_multiplier_for(size, wanted)
        notes.append(_multiplier_note(first, multiplier, keys))
    rounds = None
    if keys.cap and design.steps is not None:
        sized = first if multiplier is None else _again(plan, multiplier, first)
        rounds = (sized.at_value if sized.at_high is None else sized.at_high).safe_max_rounds
        notes.append(_cap_note(sized, rounds))
    elif keys.cap:
        notes.append("No cap on the rounds was chosen: it depends on --steps, which the plan does not have.")
    return FittingRefill(batch_multiplier=multiplier, max_rounds=rounds, notes=tuple(notes))


def _again(plan: Plan, multiplier: float, first: Refill) -> Refill:
    return refill(
        plan.fit,
        prompts_per_step=first.prompts_per_step,
        group_size=first.group_size,
        batch_multiplier=multiplier,
        steps=first.steps,
        level=plan.level,
    )


def _multiplier_note(plan: Refill, chosen: float, keys: RefillKeys) -> str:
    def multiplier(at: RefillAt) -> float:
        return batch_multiplier_for(at.one_round_gen_batch_size, plan.prompts_per_step)

    low, high = plan.limits(multiplier)
    limits = f"[{low:g}, {'no upper limit' if high is None else format(high, 'g')}]"
    if keys.stops and high is not None:
        return (
            f"batch_multiplier {chosen:g}, the upper limit of {multiplier(plan.at_value):g} {limits}: one round in 95% "
            "of steps."
        )
    return f"batch_multiplier {chosen:g} {limits}: one round in 95% of steps."


def _cap_note(plan: Refill, chosen: int | None) -> str:
    low, high = plan.at_low.safe_max_rounds, None if plan.at_high is None else plan.at_high.safe_max_rounds
    limits = f"[{low:,}, {'no upper limit' if high is None else format(high, ',')}]"
    where = "the estimate, for want of an upper limit" if high is None else "the upper limit"
    return (
        f"max_rounds {chosen:,}, {where} of {plan.at_value.safe_max_rounds:,} {limits}: 95% of runs of {plan.steps:,} "
        f"steps never hit it, with {plan.gen_batch_size:,} prompts a round and the pass rates of the pilot."
    )
