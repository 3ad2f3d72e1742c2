"""The largest design that every limit allows: floors of a linear cost (theory.md, eq. 67)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from grpo_plan._shown import Shown
from grpo_plan._validate import MAX_COUNT, as_one_group_size
from grpo_plan.costs.amounts import Cost
from grpo_plan.costs.budget import LABELS, Budget, amount_words, number_words
from grpo_plan.costs.content import GroupContent
from grpo_plan.costs.model import CostModel
from grpo_plan.errors import DomainError, InfeasiblePlanError

_POWERS = tuple(1 << i for i in range(1, 30))
ROUNDING = 1e-12  # of a budget: sums of floats that should meet it exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Group size, prompts per step and steps of a run.

    Attributes:
        group_size: Rollouts per prompt, G.
        prompts_per_step: Groups trained on in a step, N.
        steps: Optimiser steps; None when the budget does not say.
    """

    group_size: int
    prompts_per_step: int
    steps: int | None

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of the groups of a step."""
        return self.group_size * self.prompts_per_step

    @property
    def rollouts(self) -> int | None:
        """Rollouts of the groups of the run."""
        return None if self.steps is None else self.rollouts_per_step * self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A limit that even the smallest design breaks: what was given, and what that design needs."""

    limit: str
    given: float
    needed: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SolvedDesign(Shown):
    """The largest design of one group size within a budget, or why there is none.

    Attributes:
        design: The design; None if none fits.
        cost: Cost of the run, of a step if steps are unknown; of the smallest design if none fits.
        cost_low: The same at the lower limit of the dead fraction; None without an interval.
        cost_high: At the upper limit; None without an interval, or if a refill might never end.
        binding: Limits that one more prompt a step, or one more step, would break: units of the budget or
            ``"rollouts_per_step"``; empty where the design was given in full.
        shortfalls: Limits that the smallest design breaks; empty if a design fits.
        largest_steps: If none fits, the steps that would, at these prompts per step; None if no number does.
        largest_prompts_per_step: If none fits, the prompts per step that would, at these steps; None if no number does.
        advice: If none fits, what to raise and to what, in one sentence; else empty.
    """

    design: Design | None
    cost: Cost
    cost_low: Cost | None
    cost_high: Cost | None
    binding: tuple[str, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    largest_steps: int | None = None
    largest_prompts_per_step: int | None = None
    advice: str = ""


def solve_design(budget: Budget, cost: CostModel, content: GroupContent) -> SolvedDesign:
    """The largest design of this group size that all limits of the budget allow (theory.md, eq. 67).

    Steps and prompts per step that the budget fixes are kept; one that it leaves open is the largest that fits.

    Raises:
        DomainError: The budget is in a unit that the cost model cannot tell; the message names what it needs.
        InfeasiblePlanError: Refill, and no group is mixed.

    >>> content = GroupContent.from_pmf([0.25, 0.5, 0.25])
    >>> cost = CostModel(pass_tokens=400, fail_tokens=900)
    >>> solved = solve_design(Budget(rollouts=10_000, tokens=5_000_000, steps=100), cost, content)
    >>> solved.design.prompts_per_step, solved.binding
    (38, ('tokens',))
    """
    size, each, fixed = content.group_size, cost.prompt(content), cost.overhead()
    for unit in budget.totals:
        if (text := cost.needs(unit)) is not None:
            raise DomainError(f"The budget is in {LABELS[unit]}, but their cost is unknown. {text}")
    lines = [_Line(unit, given, _known(each, unit), _known(fixed, unit)) for unit, given in budget.totals.items()]
    most = MAX_COUNT if budget.rollouts_per_step is None else budget.rollouts_per_step // size
    prompts, steps, least = budget.prompts_per_step, budget.steps, budget.steps or 1
    binding: tuple[str, ...] = ()
    if prompts is None:
        largest = min([most, *(line.most_prompts(least) for line in lines)])
        prompts = max(largest, 1)
        if steps is not None or largest < most:  # where steps are open they take what is left below
            binding = tuple(line.unit for line in lines if not line.fits(largest + 1, least))
        if largest == most < MAX_COUNT:
            binding = (*binding, "rollouts_per_step")
    if steps is None and lines:
        steps = max(1, min(line.most_steps(prompts) for line in lines))
        binding = (*binding, *(x.unit for x in lines if x.unit not in binding and not x.fits(prompts, steps + 1)))
    short = [
        Shortfall(limit=line.unit, given=line.given, needed=line.used(prompts, steps or 1))
        for line in lines
        if not line.fits(prompts, steps or 1)
    ]
    if prompts > most:
        most_rollouts = float(budget.rollouts_per_step or 0)
        short.insert(0, Shortfall(limit="rollouts_per_step", given=most_rollouts, needed=float(prompts * size)))
    solved = SolvedDesign(
        design=None if short else Design(group_size=size, prompts_per_step=prompts, steps=steps),
        cost=cost.run(content, prompts, steps or 1),
        cost_low=_at(cost, content, prompts, steps, "low"),
        cost_high=_at(cost, content, prompts, steps, "high"),
        binding=() if short else binding,
        shortfalls=tuple(short),
    )
    return _with_advice(solved, budget, lines, size, prompts, most) if short else solved


def design_for(group_size: int, budget: Budget, cost: CostModel, content: GroupContent | None = None) -> Design | None:
    """The largest design of this group size that the budget allows; None if there is none.

    ``content`` is needed for budgets in tokens, GPU-hours or USD, and for refill.

    >>> design_for(8, Budget(rollouts=2_000_000, steps=500), CostModel()).prompts_per_step
    500
    """
    if content is None:
        if set(budget.totals) - {"rollouts"} or cost.refill:
            raise DomainError(
                "A budget in tokens, GPU-hours or USD, and refill, need what a group holds; got no content. "
                "Give GroupContent.of(fit, group_size)."
            )
        size = as_one_group_size(group_size)
        content = GroupContent(group_size=size, passes=size / 2, mixed_fraction=1.0, mixed_passes=size / 2)
    elif content.group_size != group_size:
        raise DomainError(f"content is of groups of {content.group_size}; got group_size {group_size}.")
    return solve_design(budget, cost, content).design


def largest_group_size(
    budget: Budget, cost: CostModel, content_of: Callable[[int], GroupContent], maximum: int = 512
) -> int | None:
    """Where steps and prompts per step are both fixed, the largest group size up to ``maximum`` that fits; else None.

    Group sizes from 2 that are about a quarter apart are tried from the top, then the gap above the first that fits is
    halved. Also None if no size fits, or if nothing limits it.
    """
    if budget.prompts_per_step is None or not (budget.rollouts_per_step or (budget.steps and budget.totals)):
        return None

    def fits(size: int) -> bool:
        return solve_design(budget, cost, content_of(size)).design is not None

    grid = sorted({min(maximum, size + part * size // 4) for size in _POWERS for part in range(4)})
    grid = [size for size in grid if 2 <= size <= maximum]
    above: int | None = None
    for size in reversed(grid):
        if fits(size):
            low, high = size, size + 1 if above is None else above
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
            return low
        above = size
    return None


@dataclass(frozen=True, slots=True)
class _Line:
    """One total: ``steps * (fixed + prompts * each) <= given``."""

    unit: str
    given: float
    each: float
    fixed: float

    def used(self, prompts: int, steps: int) -> float:
        return steps * (self.fixed + prompts * self.each)

    def fits(self, prompts: int, steps: int) -> bool:
        return self.used(prompts, steps) <= self.given * (1.0 + ROUNDING)

    def most_prompts(self, steps: int) -> int:
        """Most prompts a step that fit, 0 if none do."""
        guess = (self.given / steps - self.fixed) / self.each
        return _settle(guess, lambda prompts: self.fits(prompts, steps))

    def most_steps(self, prompts: int) -> int:
        """Most steps that fit, 0 if none do."""
        return _settle(self.given / (self.fixed + prompts * self.each), lambda steps: self.fits(prompts, steps))


def _settle(guess: float, fits: Callable[[int], bool]) -> int:
    """The largest whole number that fits, from a guess that rounding may have moved."""
    number = max(0, min(MAX_COUNT, floor(guess)))
    while number > 0 and not fits(number):
        number -= 1
    while number < MAX_COUNT and fits(number + 1):
        number += 1
    return number


def _known(cost: Cost, unit: str) -> float:
    value = cost.of(unit)
    if value is None:
        raise DomainError(f"The cost in {LABELS[unit]} of groups that are never mixed is unknown. Use other prompts.")
    return value


def _at(cost: CostModel, content: GroupContent, prompts: int, steps: int | None, at: str) -> Cost | None:
    if content.mixed_low is None:
        return None
    try:
        return cost.run(content, prompts, steps or 1, at)
    except InfeasiblePlanError:
        return None


def _with_advice(
    solved: SolvedDesign, budget: Budget, lines: list[_Line], size: int, prompts: int, most: int
) -> SolvedDesign:
    """What the smallest design needs, and the nearest numbers that fit."""
    needs = ", ".join(_need(short) for short in solved.shortfalls)
    steps, step_limit = budget.steps, prompts > most
    fewer_steps = min([line.most_steps(prompts) for line in lines], default=0) if steps and not step_limit else 0
    fewer_prompts = min([most, *(line.most_prompts(steps or 1) for line in lines)]) if budget.prompts_per_step else 0
    others = []
    if fewer_steps:
        others.append(f"at most {_plural(fewer_steps, 'step')}")
    if fewer_prompts:
        others.append(f"at most {_plural(fewer_prompts, 'prompt')} a step")
    what = f"G = {size} with {_plural(prompts, 'prompt')} a step" + (f" and {_plural(steps, 'step')}" if steps else "")
    instead = f" Or take {' or '.join(others)}." if others else ""
    return replace(
        solved,
        largest_steps=fewer_steps or None,
        largest_prompts_per_step=fewer_prompts or None,
        advice=f"{what} needs {needs}: raise {'it' if len(solved.shortfalls) == 1 else 'both'}.{instead}",
    )


def _need(short: Shortfall) -> str:
    if short.limit == "rollouts_per_step":
        return f"{short.needed:,.0f} rollouts a step (given {short.given:,.0f})"
    return f"{amount_words(short.limit, _up(short.needed))} (given {number_words(short.limit, short.given)})"


def _up(value: float) -> float:
    """Rounded up to four digits, so that the number said suffices."""
    if value >= 1000.0:
        return float(ceil(value))
    scale = 10.0 ** (3 - floor(log10(value)))
    return ceil(value * scale) / scale


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
