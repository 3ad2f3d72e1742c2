"""What each objective picks on one frontier, how sure the pick is, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_one_probability
from grpo_plan.errors import DomainError
from grpo_plan.fitting.estimates import Limits
from grpo_plan.fitting.functionals import custom
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Alternative, PlannedDesign
from grpo_plan.planning.signal import FLAT_SHARE, KappaRange

Floats = NDArray[np.float64]
OBJECTIVES = ("signal", "max-dead", "mixed-groups", "coverage", "rare-mode")
ROUND_NUMBER_TOLERANCE = 0.01
RATIO_STEPS = 40
TRAINING_NOTE = (
    "A low dead fraction is not a goal in itself: in measured training of a small model the first G below 0.4 learned "
    "little over half as much per rollout (docs/choosing.md, section 4)."
)

LEAN_REASON = "in measured training larger groups did worse than predicted (docs/validation.md)."
LEAN_NOTE = f"Smallest group size within 10 % of the most predicted progress at every kappa: {LEAN_REASON}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limitings:
    """What the objectives besides ``signal`` hold a design to.

    Attributes:
        max_dead: Largest dead fraction of ``max-dead``.
        hard_below: Pass rate under which a prompt is hard, for ``coverage``.
        min_coverage: Least chance that a group of a hard prompt holds a pass, for ``coverage``.
        rare_share: Share of a prompt's right answers that a rare mode makes up, for ``rare-mode``.
    """

    max_dead: float = 0.4
    hard_below: float = 0.25
    min_coverage: float = 0.5
    rare_share: float = 0.1

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("max_dead", "hard_below", "min_coverage", "rare_share"):
            value = as_one_probability(getattr(self, name), name)
            if name in ("hard_below", "rare_share") and value in (0.0, 1.0):
                raise DomainError(f"{name} must lie strictly between 0 and 1; got {value:g}.")
            object.__setattr__(self, name, value)


def hard_coverage(fit: PassRateFit, group_size: int, hard_below: float) -> float | None:
    """Chance that a group of a hard prompt holds a pass: pass@G given p below ``hard_below`` (theory.md, eq. 69).

    None where the pilot does not tell prompts apart, or has no hard ones.
    """
    if fit.group_value("dead", group_size) is None:
        return None
    rates = fit.likely_rates
    weights = np.where(rates.passing < hard_below, rates.masses, 0.0)
    total = float(weights.sum())
    if total <= 0.0:
        return None
    with np.errstate(divide="ignore"):
        fails = np.exp(group_size * np.log(rates.failing))
    return float(weights @ (1.0 - fails)) / total


def hard_coverage_limits(fit: PassRateFit, group_size: int, hard_below: float, level: float = 0.95) -> Limits:
    """Confidence limits of `hard_coverage` (theory.md, eq. 69); ``(0, 1)`` where the pilot cannot tell.

    They are the ratios r for which 0 is a possible mean of ``pass@G - r`` over hard prompts.
    """

    def excluded(ratio: float, side: int) -> bool:
        """Whether the mean is surely above 0 (side 1) or below (side -1)."""
        sign = -side
        phi = custom(lambda p: sign * (p < hard_below) * (1.0 - (1.0 - p) ** group_size - ratio), "coverage")
        return fit.upper_limit_of(phi, level) < 0.0

    value = hard_coverage(fit, group_size, hard_below)
    if value is None:
        return 0.0, 1.0
    ends = []
    for outside, side in ((0.0, 1), (1.0, -1)):
        inner, outer = value, outside
        if excluded(outer, side):
            for _ in range(RATIO_STEPS):
                if abs(outer - inner) < 1e-4:
                    break
                middle = 0.5 * (inner + outer)
                if excluded(middle, side):
                    outer = middle
                else:
                    inner = middle
        ends.append(outer)
    return ends[0], ends[1]


def rare_mode_miss(law: Floats, rare_share: float) -> float:
    """Share of groups that are mixed and show no answer of a rare mode (theory.md, eq. 70).

    Args:
        law: Law of the passes k in a group, shape (G + 1,).
        rare_share: Chance that a right answer is of the rare mode.

    >>> round(rare_mode_miss(np.array([0.25, 0.5, 0.25]), 0.1), 3)
    0.45
    """
    k = np.arange(1, law.size - 1)
    return float(law[1:-1] @ (1.0 - rare_share) ** k)


# picks ----------------------------------------------------------------------------------------------------------


def pick(
    objective: str,
    frontier: Sequence[PlannedDesign],
    *,
    limits: Limitings,
    kappas: KappaRange,
    table: Floats,
    prompt_cost: float,
    limited: bool,
) -> Alternative:
    """What an objective picks."""
    if objective == "signal":
        return _signal(frontier, kappas, table, limited)
    if objective == "mixed-groups":
        return _mixed_groups(frontier, prompt_cost, limited)
    if objective == "rare-mode":
        return _rare_mode(frontier, limits)
    return _max_dead(frontier, limits) if objective == "max-dead" else _coverage(frontier, limits)


def least_regret(frontier: Sequence[PlannedDesign]) -> PlannedDesign:
    """Least worst regret; among designs within 1 point of it, the roundest group size (power of two first)."""
    least = min(p.worst_regret for p in frontier)
    close = [p for p in frontier if p.worst_regret <= least + ROUND_NUMBER_TOLERANCE]
    return max(close, key=lambda p: (_roundness(p.design.group_size), -p.worst_regret))


def leanest(frontier: Sequence[PlannedDesign]) -> PlannedDesign:
    """The smallest group size of the flat range (theory.md, eq. 28): the curve is too kind to large G."""
    least = min(p.worst_regret for p in frontier)
    close = [p for p in frontier if p.worst_regret <= least + (1.0 - FLAT_SHARE)]
    return min(close, key=lambda p: (p.design.group_size, p.worst_regret))


def flat_range(frontier: Sequence[PlannedDesign]) -> tuple[int, int]:
    """Smallest and largest group size whose worst regret is at most 10 points above the least."""
    least = min(p.worst_regret for p in frontier)
    close = [p.design.group_size for p in frontier if p.worst_regret <= least + (1.0 - FLAT_SHARE)]
    return min(close), max(close)


def _signal(frontier: Sequence[PlannedDesign], kappas: KappaRange, table: Floats, limited: bool) -> Alternative:
    best = leanest(frontier)
    fixed = limited and len({(p.design.prompts_per_step, p.design.steps) for p in frontier}) == 1  # G costs no prompts
    leaned = not fixed and best.worst_regret <= 1.0 - FLAT_SHARE
    if not leaned:
        best = least_regret(frontier)
    others = [p for p in frontier if p is not best]
    runner = min(others, key=lambda p: p.worst_regret) if others else None
    plain = "Most progress at this kappa." if kappas.known else "Least worst-case regret over kappa."
    words = LEAN_NOTE if leaned and best.worst_regret > 0.0 else plain
    return Alternative(
        objective="signal",
        planned=best,
        comment=words,
        flat_range=flat_range(frontier),
        runner_up=runner.design.group_size if runner else None,
        would_change=_kappas_that_keep(best, frontier, kappas, table),
    )


def _kappas_that_keep(best: PlannedDesign, frontier: Sequence[PlannedDesign], kappas: KappaRange, table: Floats) -> str:
    """Values of kappa at which the pick stays within 10 % of the best."""
    size = best.design.group_size
    if len(frontier) == 1:
        return "there is no other design."
    if kappas.known:
        return "another kappa. It falls or rises with the policy: measure again when pass rates have moved."
    grid = kappas.grid()
    row = table[next(i for i, p in enumerate(frontier) if p is best)]
    good = grid[row >= FLAT_SHARE]
    if good.size == grid.size:
        return f"no kappa of this range by much: G = {size} is within 10 % of the best at all of it."
    if good.size == 0:
        return f"a measured kappa; G = {size} is within 10 % of the best at none of the range."
    edges = []
    if good[0] > grid[0]:
        edges.append(f"below {good[0]:.3g}")
    if good[-1] < grid[-1]:
        edges.append(f"above {good[-1]:.3g}")
    return f"a kappa {' or '.join(edges)}, where G = {size} makes less than 90 % of the best."


def _max_dead(frontier: Sequence[PlannedDesign], limits: Limitings) -> Alternative:
    limit, before = limits.max_dead, None
    for i, planned in enumerate(frontier):
        d = planned.dead
        if d.value is None:
            continue
        if d.value <= limit:
            doubt = "" if d.high <= limit else f" The pilot does not make sure of it (up to {d.high:.3f})."
            told = "" if before is None else f" (D({before.group_size}) is {before.value:.4f})"
            change = f"a limit below {d.value:.4f}" + ("" if before is None else f" or of {before.value:.4f} and more")
            return Alternative(
                objective="max-dead",
                planned=planned,
                comment=f"Smallest of these group sizes with D(G) <= {limit:g}{told}.{doubt} {TRAINING_NOTE}",
                runner_up=frontier[i + 1].design.group_size if i + 1 < len(frontier) else None,
                would_change=f"{change}.",
            )
        before = d
    last = frontier[-1].dead
    reached = "unknown" if last.value is None else f"{last.value:.3f}"
    return Alternative(
        objective="max-dead",
        planned=None,
        comment=f"No feasible group size has D(G) <= {limit:g}; D({last.group_size}) is {reached}. "
        "Raise the limit or the budget, or pick prompts of middle difficulty.",
        would_change="" if last.value is None else f"a limit of {last.value:.4f} or more.",
    )


def _mixed_groups(frontier: Sequence[PlannedDesign], prompt_cost: float, limited: bool) -> Alternative:
    best = max(frontier, key=lambda p: p.mixed_groups_per_cost)
    close = [p.design.group_size for p in frontier if p.mixed_groups_per_cost >= FLAT_SHARE]
    others = [p for p in frontier if p is not best]
    runner = max(others, key=lambda p: p.mixed_groups_per_cost) if others else None
    designs = {(p.design.prompts_per_step, p.design.steps) for p in frontier}
    fixed = limited and len(designs) == 1 < len(frontier)
    words = "Most mixed groups within the budget." if fixed else "Most mixed groups per unit of cost."
    small = best.design.group_size <= 3
    if small and prompt_cost == 0.0:
        words += (
            " Without a cost per prompt that is 2 or 3 for every pilot (theory.md, eq. 11): not a reason by itself."
        )
    return Alternative(
        objective="mixed-groups",
        planned=best,
        comment=words,
        flat_range=(min(close), max(close)),
        runner_up=runner.design.group_size if runner else None,
        would_change="a cost per prompt (--prompt-cost, or tokens and rates), not the pilot."
        if small
        else "the cost of a prompt beside that of a rollout.",
    )


def _far(planned: PlannedDesign) -> str:
    """Said of a pick that rests on what the pilot did not see."""
    if planned.dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        return f" It rests on pass rates that the pilot does not show ({planned.dead.status.name})."
    return ""


def _coverage(frontier: Sequence[PlannedDesign], limits: Limitings) -> Alternative:
    hard, least, before = limits.hard_below, limits.min_coverage, None
    what = f"a prompt with p < {hard:g} shows a pass in its group with chance"
    last: PlannedDesign | None = None
    for i, planned in enumerate(frontier):
        if planned.coverage is None:
            continue
        if planned.coverage >= least:
            change = f"a demand above {planned.coverage:.3f}"
            change += "" if before is None else f" or of {before:.3f} and less"
            return Alternative(
                objective="coverage",
                planned=planned,
                comment=f"Smallest of these group sizes at which {what} of at least {least:g}: "
                f"{planned.coverage:.3f}.{_far(planned)}",
                runner_up=frontier[i + 1].design.group_size if i + 1 < len(frontier) else None,
                would_change=f"{change}, or another line between hard and easy (--hard-below).",
            )
        before, last = planned.coverage, planned
    if last is None:
        return Alternative(
            objective="coverage", planned=None, comment=f"The pilot holds no prompt with p < {hard:g}, or cannot tell."
        )
    return Alternative(
        objective="coverage",
        planned=None,
        comment=f"At no feasible group size {what} of {least:g}: {last.coverage:.3f} at G = "
        f"{last.design.group_size}. Ask for less (--min-coverage), or raise the budget.",
        would_change=f"a demand of {last.coverage:.3f} or less.",
    )


def _rare_mode(frontier: Sequence[PlannedDesign], limits: Limitings) -> Alternative:
    ranked = sorted(frontier, key=lambda p: p.rare_mode_miss)
    best, worst = ranked[0], max(frontier, key=lambda p: p.rare_mode_miss)
    close = [p.design.group_size for p in frontier if p.rare_mode_miss <= best.rare_mode_miss / FLAT_SHARE]
    return Alternative(
        objective="rare-mode",
        planned=best,
        comment=f"Fewest groups that are mixed but miss a mode of {limits.rare_share:g} of the right answers: "
        f"{best.rare_mode_miss:.3f}. Most miss it at G = {worst.design.group_size} ({worst.rare_mode_miss:.3f}): such "
        f"groups push the rare answers down.{_far(best)}",
        flat_range=(min(close), max(close)),
        runner_up=ranked[1].design.group_size if len(ranked) > 1 else None,
        would_change="the share of the rare mode (--rare-share): its risk rises with G, then falls.",
    )


def _roundness(group_size: int) -> int:
    if group_size & (group_size - 1) == 0:
        return 2
    return 1 if group_size % 4 == 0 else 0
