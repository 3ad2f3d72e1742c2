"""Laws of the passes in groups of several sizes, all of one F: what ratios need (theory.md, eq. 28)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.points import THINNED_FROM, thinned
from grpo_plan.fitting.result import PassRateFit

Floats = NDArray[np.float64]


def laws_of_one(fit: PassRateFit, sizes: Iterable[int]) -> dict[int, Floats]:
    """Laws of the passes in groups of several sizes, all of one law of the pass rates (theory.md, eq. 28).

    `PassRateFit.group_pmf` answers from counts where it can and from fits elsewhere: right for one mean, not for a
    ratio of two. Here all sizes are thinned from the counts of the largest, or, where that has none, all are of the
    likely law.

    Args:
        fit: Fitted pass rates.
        sizes: Group sizes, each at least 1.

    Returns:
        For each size the chances of k = 0..G passes, shape (G + 1,).

    Raises:
        PilotError: The pilot does not determine the law of passes.

    >>> from grpo_plan.fitting.fit import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> laws = laws_of_one(fit, [2, 64])  # 64 is beyond the counts: so 2 is of the likely law too
    >>> bool(abs(laws[2][1] - fit.group_pmf(2)[1]) > 1e-4)
    True
    """
    wanted = sorted(set(sizes), reverse=True)
    laws = fit.remembered(("laws of one", *wanted), lambda: _laws_of_one(fit, wanted))
    return {size: law.copy() for size, law in laws.items()}


def _laws_of_one(fit: PassRateFit, wanted: list[int]) -> dict[int, Floats]:
    if not wanted:
        return {}
    if fit.family != "auto":
        return fit.group_pmfs(wanted)
    if fit.group_value("dead", wanted[0]) is None:
        fit.group_pmf(wanted[0])  # raises, and says why
    counts = wanted[0] <= fit.max_counted_group_size
    laws: dict[int, Floats] = {}
    larger = fit.group_pmf(wanted[0]) if counts else fit.likely_rates.group_pmf(wanted[0])
    for n in wanted:
        if not counts and larger.size - 1 > THINNED_FROM * n:
            larger = fit.likely_rates.group_pmf(n)  # cheaper than many steps of thinning
        while larger.size - 1 > n:
            larger = thinned(larger)
        laws[n] = larger
    return laws
