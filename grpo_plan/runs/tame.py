"""Values of a log that no run has: infinite, or so large that only a broken counter or an overflow writes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from grpo_plan.run_log import RunLog

LARGEST = 1e30  # squares and products of values up to here stay finite
SHOWN = 3


def tamed(run: RunLog) -> RunLog:
    """A run without the values beyond `LARGEST`: a step has none there, and a note says so.

    >>> run = RunLog(steps=np.array([1, 2]), metrics={"reward": np.array([0.5, 1e300])}, format="table", source="a")
    >>> tamed(run).metrics["reward"].tolist(), tamed(run).notes
    ([0.5, nan], ('1 value of reward is infinite or beyond 1e+30: taken as missing.',))
    """
    kept, beyond = dict(run.metrics), list[tuple[str, int]]()
    for name, values in run.metrics.items():
        with np.errstate(invalid="ignore"):
            wild = np.abs(values) > LARGEST
        if wild.any():
            kept[name] = np.where(wild, np.nan, values)
            beyond.append((name, int(wild.sum())))
    if not beyond:
        return run
    names = ", ".join(name for name, _ in beyond[:SHOWN])
    names += f" and {len(beyond) - SHOWN:,} more" if len(beyond) > SHOWN else ""
    count = sum(n for _, n in beyond)
    what, are = ("value", "is") if count == 1 else ("values", "are")
    note = f"{count:,} {what} of {names} {are} infinite or beyond {LARGEST:g}: taken as missing."
    return replace(run, metrics=kept, notes=(*run.notes, note))
