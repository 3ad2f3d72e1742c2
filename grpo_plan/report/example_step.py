"""The size of a step where nothing given tells it: that of an example, as near to it as the trainer accepts."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from grpo_plan.planning.frontier import candidate_group_sizes
from grpo_plan.report.request import EXAMPLE_PROMPTS
from grpo_plan.rules import DesignRules

FAR = 2  # a step for all group sizes is taken up to so many times the example's


def example_prompts(rules: DesignRules | None, group_sizes: Iterable[int] | None = None) -> int:
    """Prompts of a step as an example.

    Args:
        rules: What the trainer accepts; None without a trainer.
        group_sizes: Group sizes that are compared; default those of a plan.

    Returns:
        128; under rules the nearest number that all group sizes take, or, where that lies far off, the nearest that
        some take.

    >>> example_prompts(None)
    128
    """
    if rules is None:
        return EXAMPLE_PROMPTS
    sizes = candidate_group_sizes(None) if group_sizes is None else group_sizes
    multiples = [m for size in sizes if (m := rules.prompt_multiple(size)) is not None]
    if not multiples:
        return EXAMPLE_PROMPTS
    every = lcm(*multiples)
    if every <= FAR * EXAMPLE_PROMPTS:
        return _nearest(every)
    return min((_nearest(m) for m in multiples), key=lambda prompts: (abs(prompts - EXAMPLE_PROMPTS), prompts))


def _nearest(multiple: int) -> int:
    """The multiple nearest to the example, at least one time."""
    return max(1, (2 * EXAMPLE_PROMPTS + multiple) // (2 * multiple)) * multiple
