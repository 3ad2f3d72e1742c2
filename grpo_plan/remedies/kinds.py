"""What an estimator does with mixed, all-fail and all-pass groups (theory.md, eq. 117 and 118)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.estimators import Estimator
from grpo_plan.estimators.moments import general_weights
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.live import NOTHING, ByKind, Ranged, clipped
from grpo_plan.remedies.means import share_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWeights:
    """Weights on the law of the passes in groups of G + 2 that each kind of group adds to E[t] and to E[v]."""

    signal: dict[str, Floats]
    noise: dict[str, Floats]


def kind_weights(estimator: Estimator, group_size: int) -> KindWeights:
    """Signal and noise of the groups of each kind (theory.md, eq. 118).

    >>> from grpo_plan.estimators import get_estimator
    >>> kind_weights(get_estimator("sign"), 2).noise["all_fail"].tolist()  # on k = 0..4: q**2 / 2
    [0.5, 0.25, 0.08333333333333333, 0.0, 0.0]
    """
    passed, failed = estimator.pair(group_size)
    k = np.arange(group_size + 1)
    signal, noise = {}, {}
    for kind, chosen in (("mixed", (k > 0) & (k < group_size)), ("all_fail", k == 0), ("all_pass", k == group_size)):
        _, signal[kind], _, noise[kind] = general_weights(np.where(chosen, passed, 0.0), np.where(chosen, failed, 0.0))
    return KindWeights(signal=signal, noise=noise)


def shares_by_kind(
    fit: PassRateFit, estimator: Estimator, group_size: int, level: float
) -> tuple[ByKind | None, ByKind | None]:
    """Share of E[t] and of E[v] that each kind of group brings; None where there is none (theory.md, eq. 118)."""
    if estimator.centred:
        whole = ByKind(mixed=Ranged.exact(1.0), all_fail=NOTHING, all_pass=NOTHING)
        law = fit.group_pmf(group_size)
        live = float(law[1:-1].sum()) > 0.0
        return (whole, whole) if live else (None, None)
    weights = kind_weights(estimator, group_size)
    law = laws_of_one(fit, [group_size + 2])[group_size + 2]
    found: list[ByKind | None] = []
    for parts in (weights.signal, weights.noise):
        whole_weights = np.sum(list(parts.values()), axis=0)
        value = float(law @ whole_weights)
        one_sided = all((part >= 0.0).all() for part in parts.values())
        if value <= 0.0:
            found.append(None)
            continue
        split = {}
        for kind, part in parts.items():
            if not part.any():
                split[kind] = NOTHING
                continue
            share = share_of(fit, part, value, (whole_weights,), level)
            ends = (0.0, 1.0) if one_sided else (-np.inf, np.inf)
            split[kind] = clipped(share.value, share.low, share.high if share.high is not None else np.inf, *ends)
        found.append(ByKind(**split))
    return found[0], found[1]
