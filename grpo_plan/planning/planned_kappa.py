"""The range of kappa that a plan holds for, from whatever the user knows of it."""

from __future__ import annotations

from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.signal import KappaRange, as_kappa_range

OPEN_ABOVE, OPEN_FACTOR = 300.0, 30.0


def planned_kappa(kappa: KappaMeasurement | KappaRange | tuple[float, float] | float, fit: PassRateFit) -> KappaRange:
    """A range, its ends, one value, or what a measurement says with the pass rates of a pilot.

    A measurement without an upper limit is planned for up to 300, or 30 times its value if that is more.

    Raises:
        DomainError: The range is empty or out of bounds.
        PilotError: A measurement, and the pilot has too few rollouts per prompt to use it.
    """
    if not isinstance(kappa, KappaMeasurement):
        return as_kappa_range(kappa)
    found = kappa.kappa_for(fit)
    low = max(found.low, 0.0)
    most = max(OPEN_ABOVE, OPEN_FACTOR * max(found.value or 0.0, low))
    high = most if found.high is None else max(found.high, low)
    if found.value is None:
        return KappaRange(low=low, high=high)
    return KappaRange(low=min(low, found.value), high=max(high, found.value), value=found.value)
