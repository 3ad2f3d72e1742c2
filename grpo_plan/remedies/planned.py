"""What a plan's estimator makes beside a reference at its own pick, under the same budget (theory.md, eq. 119)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_plan.estimators import get_estimator
from grpo_plan.planning.live import Ranged
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.signal import group_moments, progress
from grpo_plan.remedies.progress import progress_ratio, same_plan, side_by_side
from grpo_plan.remedies.result import AtKappa

WORTH_SAYING = 0.95  # a ratio below it at some kappa shown


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBeside:
    """Progress of a plan over that of another estimator, both under one budget.

    Attributes:
        reference: The other estimator.
        group_size: Its own pick: the design of least worst regret over the range of kappa.
        progress: Ratio of the plan's progress to its progress at each kappa shown, with limits.
    """

    reference: str
    group_size: int
    progress: tuple[AtKappa, ...]

    @property
    def span(self) -> tuple[float, float] | None:
        """Smallest and largest ratio; None where one is not known."""
        found = [at.ratio.value for at in self.progress if at.ratio.value is not None]
        return (min(found), max(found)) if found and len(found) == len(self.progress) else None

    @property
    def limits(self) -> tuple[float, float | None]:
        """Smallest lower limit and largest upper limit; None where one has no upper limit."""
        highs = [at.ratio.high for at in self.progress]
        known = [high for high in highs if high is not None]
        return min(at.ratio.low for at in self.progress), max(known) if len(known) == len(highs) else None

    @property
    def loses(self) -> bool:
        """Whether the plan makes clearly less progress at some kappa shown: under 0.95 of it."""
        return self.span is not None and self.span[0] < WORTH_SAYING


def beside(plan: Plan, reference: str = "rloo") -> PlannedBeside | None:
    """A plan's estimator at the plan's pick over a reference at its own; None where both are one plan.

    With a known kappa both are taken at the size of their most predicted progress: the plan's pick is smaller on
    purpose.

    Raises:
        DomainError: There is no such reference.

    >>> from grpo_plan.costs import Budget
    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> from grpo_plan.planning.group_size import plan_group_size
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> plan = plan_group_size(fit, budget=Budget(rollouts=100_000, steps=100), kappa=10.0, estimator="sign")
    >>> beside(plan).loses
    True
    """
    fit, other, best = plan.fit, get_estimator(reference), plan.recommended
    if plan.objective == "signal" and plan.kappa.known:
        best = plan.least_regret
    if same_plan(plan.advantage, other, best.design.group_size, fit.mean_pass_rate):
        return None
    designs = [p for p in plan.frontier if p.design.group_size >= other.min_group_size]
    groups = np.array([plan.groups_of(p) for p in designs])
    moments = group_moments(fit, [p.design.group_size for p in designs], other)
    pick = int(np.argmax(progress(moments, groups, plan.kappa.grid(), plan.coherence).min(axis=1)))
    theirs = designs[pick]
    sides = (get_estimator(plan.estimator), best.design.group_size), (other, theirs.design.group_size)
    one, base = side_by_side(fit, *sides)
    rollouts = [plan.groups_of(p) * p.design.group_size for p in (best, theirs)]
    factor = rollouts[0] / rollouts[1]
    rows = []
    for kappa in (float(k) for k in plan.kappa.shown()):
        r = progress_ratio(fit, one, base, kappa=kappa, coherence=plan.coherence, level=plan.level)
        value, high = (None if x is None else factor * x for x in (r.value, r.high))
        rows.append(AtKappa(kappa=kappa, ratio=Ranged(value=value, low=factor * r.low, high=high)))
    return PlannedBeside(reference=other.label, group_size=theirs.design.group_size, progress=tuple(rows))
