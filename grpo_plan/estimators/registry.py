"""The advantage estimators by name: one registry for the advantages of a group and for the planner."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError
from grpo_plan.estimators.base import Estimator, Parameters

Floats = NDArray[np.float64]
GRPO_PAPER = "Shao et al. (2024, arXiv 2402.03300)"
DR_GRPO_PAPER = "Liu et al. (2025, arXiv 2503.20783)"


def _grpo(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    return np.sqrt((g - k) / k), -np.sqrt(k / (g - k))


def _grpo_sample(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    bessel = np.sqrt((g - 1.0) / g)
    return bessel * np.sqrt((g - k) / k), -bessel * np.sqrt(k / (g - k))


def _dr_grpo(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    return 1.0 - k / g, -k / g


def _rloo(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    return (g - k) / (g - 1.0), -k / (g - 1.0)


def _maxrl(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    return (g - k) / k, np.where(k > 0, -1.0, 0.0)


def _sign(k: Floats, g: int, _: Parameters) -> tuple[Floats, Floats]:
    return np.ones_like(k), -np.ones_like(k)


ESTIMATORS: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator(
            name="grpo",
            pair_of=_grpo,
            description="reward minus group mean, over the group's population std",
            objective="2 arcsin(sqrt(p)), averaged over prompts, as G grows",
            source=GRPO_PAPER,
        ),
        Estimator(
            name="grpo_sample",
            pair_of=_grpo_sample,
            description="reward minus group mean, over the group's sample std (same plan as grpo)",
            objective="2 arcsin(sqrt(p)), averaged over prompts, as G grows",
            source=GRPO_PAPER,
        ),
        Estimator(
            name="grpo_batch",
            pair_of=_dr_grpo,
            description="reward minus group mean, over one std for the whole batch (same plan as dr_grpo)",
            objective="mean pass rate, up to a factor of the batch",
            source="TRL, scale_rewards='batch'",
        ),
        Estimator(
            name="dr_grpo",
            pair_of=_dr_grpo,
            description="reward minus group mean",
            objective="mean pass rate, times (G - 1) / G",
            source=DR_GRPO_PAPER,
        ),
        Estimator(
            name="rloo",
            pair_of=_rloo,
            description="reward minus the mean of the other rollouts (same plan as dr_grpo: a constant factor)",
            objective="mean pass rate",
            source="Ahmadian et al. (2024, arXiv 2402.14740)",
        ),
        Estimator(
            name="maxrl",
            pair_of=_maxrl,
            description="reward minus group mean, over the group mean",
            objective="log pass rate cut off at order G: -sum over j <= G of (1 - p)**j / j",
            source="MaxRL",
        ),
        Estimator(
            name="sign",
            pair_of=_sign,
            description="+1 for a pass, -1 for a fail, dead groups included",
            objective="twice the mean pass rate",
            source="Nie et al. (2026, arXiv 2605.07689)",
            centred=False,
            flat=True,
        ),
    )
}


def get_estimator(name: str, **parameters: float) -> Estimator:
    """The estimator of that name, with its settings.

    Raises:
        DomainError: No such estimator, or it has no such setting.

    >>> get_estimator("rloo").signal(4).round(4).tolist()
    [0.0, 0.25, 0.3333, 0.25, 0.0]
    """
    try:
        found = ESTIMATORS[name]
    except (KeyError, TypeError):
        known = ", ".join(ESTIMATORS)
        raise DomainError(f"estimator must be one of {known}; got {name!r}.") from None
    return found.with_parameters(**parameters) if parameters else found
