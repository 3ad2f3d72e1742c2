"""The designs nearest to one that a trainer refuses."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grpo_plan._shown import Shown
from grpo_plan.costs import Design
from grpo_plan.errors import InfeasiblePlanError
from grpo_plan.rules import DesignRules, RuleCheck

MIN_GROUP_SIZE = 2
ENOUGH = 0.75  # share of the rollouts asked for that another group size has to use
FARTHEST = 100_000  # prompts searched one by one on either side; beyond it only multiples are tried


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NearestDesigns(Shown):
    """Designs that the trainer accepts, nearest to one.

    Attributes:
        within: Same group size, the most prompts per step that are not more than asked for; None if there is none.
        above: Same group size, the fewest prompts per step that are more than asked for; None if there is none.
        other_group_size: The nearest other group size, under twice the one asked for, that uses more of the rollouts
            asked for than ``within`` does, and at least three quarters of them; None if there is none.
    """

    within: Design | None
    above: Design | None
    other_group_size: Design | None

    @property
    def in_words(self) -> str:
        """The designs as advice, in one sentence.

        >>> d = Design(group_size=8, prompts_per_step=32, steps=None)
        >>> NearestDesigns(within=d, above=None, other_group_size=None).in_words
        'Nearest: 32 prompts x 8 (256 rollouts a step).'
        """
        inside = [_words(d) for d in (self.within, self.other_group_size) if d is not None]
        more = "" if self.above is None else f"with more rollouts: {_words(self.above)}"
        if not inside and not more:
            return "No design with fewer rollouts a step is accepted. Use fewer GPUs or a smaller micro-batch."
        text = "; ".join(part for part in (" or ".join(inside), more) if part)
        return f"Nearest: {text}."


def nearest_design(rules: DesignRules, design: Design) -> NearestDesigns:
    """The accepted designs nearest to one; steps are kept.

    A design that is accepted is its own ``within``.

    Args:
        rules: A trainer's rules, e.g. of `rules_for`.
        design: Group size and prompts per step as wanted.
    """
    within = _searched(rules, design, -1)
    used = 0 if within is None else within.rollouts_per_step
    return NearestDesigns(
        within=within,
        above=_searched(rules, replace(design, prompts_per_step=design.prompts_per_step + 1), +1),
        other_group_size=None if used == design.rollouts_per_step else _other_group_size(rules, design, used),
    )


def failed_checks(rules: DesignRules, design: Design) -> tuple[RuleCheck, ...]:
    """The rules that a design breaks."""
    return tuple(check for check in rules.checks(design) if not check.satisfied)


def require_accepted(rules: DesignRules, design: Design) -> None:
    """Refuse a design that the trainer would refuse, and name the nearest that it takes.

    Raises:
        InfeasiblePlanError: The design breaks a rule.
    """
    broken = failed_checks(rules, design)
    if broken:
        reasons = "; ".join(check.detail for check in broken)
        raise InfeasiblePlanError(
            f"{rules.name} refuses {design.prompts_per_step:,} prompts x {design.group_size:,} rollouts: {reasons}. "
            + nearest_design(rules, design).in_words
        )


def _words(design: Design) -> str:
    return f"{design.prompts_per_step:,} prompts x {design.group_size:,} ({design.rollouts_per_step:,} rollouts a step)"


def _searched(rules: DesignRules, start: Design, step: int) -> Design | None:
    """The first accepted number of prompts from ``start`` on, upwards or downwards."""
    multiple = rules.prompt_multiple(start.group_size)
    if multiple is None:
        return None
    prompts = start.prompts_per_step
    bound = prompts // multiple * multiple if step < 0 else -(-prompts // multiple) * multiple
    tried = min(abs(prompts - bound), FARTHEST)
    for count in range(prompts, prompts + step * tried, step):  # rules may accept more than the multiples
        candidate = replace(start, prompts_per_step=count)
        if count >= 1 and not failed_checks(rules, candidate):
            return candidate
    candidate = replace(start, prompts_per_step=bound)
    return candidate if bound >= 1 and not failed_checks(rules, candidate) else None


def _other_group_size(rules: DesignRules, design: Design, used: int) -> Design | None:
    rollouts = design.rollouts_per_step
    wanted = max(used + 1, ENOUGH * rollouts)
    for distance in range(1, design.group_size):
        for size in (design.group_size - distance, design.group_size + distance):
            multiple = rules.prompt_multiple(size) if MIN_GROUP_SIZE <= size <= rollouts else None
            prompts = 0 if multiple is None else rollouts // size // multiple * multiple
            if prompts and prompts * size >= wanted:
                return Design(group_size=size, prompts_per_step=prompts, steps=design.steps)
    return None
