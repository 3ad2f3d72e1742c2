"""The usual estimates of the dead fraction side by side, each with the known sign of its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_one_group_size, require
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit

JEFFREYS = 0.5
MEANINGS = {
    "iid": "p^G + (1-p)^G at the mean pass rate",
    "plug_in": "the same at each prompt's k/n, averaged",
    "jeffreys": "the same, averaged over each prompt's posterior (prior Beta(1/2, 1/2))",
    "beta": "one Beta distribution for all prompts",
    "u_statistic": "subgroups of G among the n rollouts, counted",
    "default": "subgroups up to n, averaged smooth fits beyond",
}
ERRORS = {
    "iid": "too low on average for every F whose prompts differ (Jensen)",
    "plug_in": "too high on average for every F (k/n spreads more than p does)",
    "jeffreys": "no fixed sign: too low where many prompts sit at the ends, too high where pass rates are alike",
    "beta": "no fixed sign: too low beyond n where some prompts never or always pass",
    "u_statistic": "none: unbiased for every F, up to n",
    "default": "no bias where counts answer, unknown sign beyond: there the interval is what to trust",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Shown):
    """Estimates of D(G) at one group size.

    Attributes:
        group_size: G.
        iid: The formula at the mean pass rate.
        plug_in: Mean of the formula at each k/n.
        jeffreys: Mean of the posterior mean of ``p**G + (1-p)**G`` under a Beta(1/2, 1/2) prior for each prompt.
        beta: Beta fit; None where the pilot does not determine it.
        u_statistic: Unbiased subgroup count; None beyond n.
        default: What `fit_pass_rates` answers, with its limits.
    """

    group_size: int
    iid: float
    plug_in: float
    jeffreys: float
    beta: float | None
    u_statistic: float | None
    default: DeadFraction


def compare_estimates(fit: PassRateFit, group_sizes: int | Sequence[int], level: float = 0.95) -> list[Comparison]:
    """Every estimate at every group size.

    Args:
        fit: A fitted pilot.
        group_sizes: G.
        level: Confidence level of the default's limits.

    Raises:
        PilotError: The pilot lacks its dead groups.

    >>> from grpo_plan.fitting.fit import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> row = compare_estimates(fit, [4])[0]
    >>> round(row.iid, 3), row.u_statistic, round(row.plug_in, 3), round(row.jeffreys, 3)
    (0.125, 0.8, 0.825, 0.629)
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    fit.require_all_groups("A comparison with the usual estimates")
    rows = []
    for size in group_sizes if isinstance(group_sizes, Sequence | np.ndarray) else [group_sizes]:
        g = as_one_group_size(size)
        d = fit.dead(g, level)
        known = d.value is not None
        rows.append(
            Comparison(
                group_size=g,
                iid=d.iid,
                plug_in=d.plug_in,
                jeffreys=_jeffreys(fit, g),
                beta=float(fit.beta.rates.dead(g)) if known else None,
                u_statistic=d.value if d.method in ("exact", "u-statistic") else None,
                default=d,
            )
        )
    return rows


def _jeffreys(fit: PassRateFit, g: int) -> float:
    """``E[p**G + (1-p)**G | k, n]``, averaged over prompts (theory.md, eq. 12 with a = k + 1/2, b = n - k + 1/2)."""
    h = fit.pilot.histogram()
    a: NDArray[np.float64] = h.successes.astype(np.float64) + JEFFREYS
    total: NDArray[np.float64] = h.rollouts.astype(np.float64) + 2.0 * JEFFREYS
    value = _rising(a, total, g)
    value += _rising(total - a, total, g)
    return float(h.prompts @ np.minimum(value, 1.0)) / h.total_prompts


def _rising(a: NDArray[np.float64], total: NDArray[np.float64], g: int) -> NDArray[np.float64]:
    """``prod (a + j) / (a + b + j)`` over j < G, cell by cell, in blocks of j."""
    logs = np.zeros(a.size)
    for start in range(0, g, 4096):
        j = np.arange(float(start), float(min(start + 4096, g)))
        logs += np.sum(np.log1p(-(total - a)[:, None] / (total[:, None] + j)), axis=1)
    value: NDArray[np.float64] = np.exp(logs)
    return value
