"""The tables from which a page recomputes any design (docs/report.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from grpo_plan.costs import CostModel
from grpo_plan.errors import PilotError
from grpo_plan.estimators import Estimator, GroupMoments, get_estimator
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.frontier import candidate_group_sizes
from grpo_plan.planning.group_size import noise_over_probed
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.precision import progress_limits
from grpo_plan.planning.signal import KappaRange, group_moments, progress

VERSION = 1
WORTH_LIMITS = 0.8
INNER_DIGITS = 12
MOST_SIZES = 64
RANGES: dict[str, list[float]] = {
    "prompts_per_step": [1, 100_000],
    "steps": [1, 1_000_000],
    "budget_rollouts": [1, 10**12],
    "batch_multiplier": [1, 8],
    "max_rounds": [1, 100],
    "kappa": [0.01, 10_000],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One way to say what passes, and the pilot that it gives.

    Attributes:
        label: In words.
        threshold: Reward from which a rollout passes; None where rewards say it themselves.
        fit: Its pass rates.
        cost: What groups cost, with the lengths of this pilot.
        arguments: How the command line reads this pilot: sources and options.
    """

    label: str
    threshold: float | None
    fit: PassRateFit
    cost: CostModel
    arguments: tuple[str, ...]


def table_sizes(sizes: Iterable[int], smallest: int, asked: Iterable[int] | None = None) -> list[int]:
    """Group sizes of the tables: those asked for; else those of the plan, and the usual ones as far as there is room.

    >>> table_sizes([7], 2)[:6]
    [2, 3, 4, 5, 6, 7]
    """
    if asked is not None and (only := sorted({size for size in asked if size >= smallest})):
        return only
    wanted = {size for size in sizes if size >= smallest}
    usual = [size for size in candidate_group_sizes(None) if size >= smallest and size not in wanted]
    wanted |= set(usual[: max(0, MOST_SIZES - len(wanted))])
    return sorted(wanted)


def preset_tables(
    preset: Preset,
    sizes: Sequence[int],
    *,
    estimator: str,
    kappas: KappaRange,
    measurement: KappaMeasurement | None,
    coherence: float,
    level: float,
) -> dict[str, Any]:
    """The tables of one preset.

    Raises:
        PilotError: The pilot does not determine the law of passes.
    """
    fit, advantage = preset.fit, get_estimator(estimator)
    laws, moments = fit.group_pmfs(sizes), group_moments(fit, sizes, advantage)
    dead = [fit.dead(size, level) for size in sizes]
    return {
        "label": preset.label,
        "threshold": preset.threshold,
        "arguments": list(preset.arguments),
        "mean_pass_rate": fit.mean_pass_rate,
        "fit_status": fit.status.name,
        "group_sizes": list(sizes),
        "dead": [_known(d) for d in dead],
        "dead_low": [d.low for d in dead],
        "dead_high": [d.high for d in dead],
        **_part("all_fail", [d.all_fail for d in dead], [d.all_fail_interval for d in dead]),
        **_part("all_pass", [d.all_pass for d in dead], [d.all_pass_interval for d in dead]),
        "status": [d.status.name for d in dead],
        "identified": [None if d.identified is None else list(d.identified) for d in dead],
        "pmf": [_rounded(np.clip(laws[size], 0.0, 1.0).tolist()) for size in sizes],
        **_columns(moments),
        "counted": _counted(fit, sizes, advantage),
        "nsr": None if measurement is None else _noise(fit, measurement, advantage, moments, sizes, kappas.middle),
        "limits": _limits(preset, sizes, moments, estimator, kappas, coherence, level),
        "cost": cost_table(preset.cost),
    }


def cost_table(model: CostModel) -> dict[str, Any]:
    """The numbers of a cost model, whether dead groups are refilled left open."""
    named = {f.name: getattr(model, f.name) for f in fields(model) if f.name not in ("refill", "trained")}
    return {**named, "train_mixed_only": model.trained == "mixed" and not model.refill}


def _known(dead: DeadFraction) -> float:
    if dead.value is None:
        raise PilotError(f"The dead fraction of groups of {dead.group_size} is unknown. {dead.status.sentence}")
    return dead.value


def _part(name: str, values: list[float | None], limits: list[tuple[float, float]]) -> dict[str, Any]:
    return {name: values, f"{name}_low": [low for low, _ in limits], f"{name}_high": [high for _, high in limits]}


def _rounded(law: list[float]) -> list[float]:
    """All digits at both ends, which are all-fail and all-pass; 12 between them."""
    return [law[0], *(float(f"{chance:.{INNER_DIGITS}g}") for chance in law[1:-1]), law[-1]]


def _limits(
    preset: Preset,
    sizes: Sequence[int],
    moments: list[GroupMoments],
    estimator: str,
    kappas: KappaRange,
    coherence: float,
    level: float,
) -> list[dict[str, Any]]:
    """Limits of the logarithm of progress beside the best group size per rollout, at the kappas of the plan."""
    cost = preset.cost
    groups = np.array([1.0 / cost.group(size) for size in sizes])
    rows = []
    for kappa in kappas.shown():
        shares = progress(moments, groups, np.array([kappa]), coherence)[:, 0]
        if not shares.any():
            continue
        best = int(np.argmax(shares))
        ends: list[tuple[float, float] | None] = []
        for i, share in enumerate(shares):
            if share < WORTH_LIMITS or i == best:
                ends.append((0.0, 0.0) if i == best else None)
                continue
            low, high = progress_limits(
                preset.fit, sizes=sizes, groups=groups.tolist(), which=i, estimator=estimator, kappa=float(kappa),
                coherence=coherence, level=level,
            )  # fmt: skip
            ends.append((float(np.log(low / share)), float(np.log(high / share))))
        rows.append(
            {
                "kappa": float(kappa),
                "best": sizes[best],
                "log_low": [None if end is None else end[0] for end in ends],
                "log_high": [None if end is None else end[1] for end in ends],
            }
        )
    return rows


def _counted(fit: PassRateFit, sizes: Sequence[int], advantage: Estimator) -> list[dict[str, Any]]:
    """Moments by counts alone, which a comparison uses whose largest group size has them (theory.md, eq. 28)."""
    rows = []
    for last, largest in enumerate(sizes[:-1]):
        if advantage.law_size(largest) > fit.max_counted_group_size:
            break
        rows.append({"largest": largest, **_columns(group_moments(fit, sizes[: last + 1], advantage))})
    return rows


def _columns(moments: list[GroupMoments]) -> dict[str, list[float]]:
    return {name: [getattr(m, name) for m in moments] for name in ("signal", "signal_square", "noise")}


def _noise(
    fit: PassRateFit,
    measurement: KappaMeasurement,
    advantage: Estimator,
    moments: list[GroupMoments],
    sizes: Sequence[int],
    kappa: float,
) -> dict[str, Any]:
    """Noise-to-signal ratio of one group at the measured kappa; that of a step is smaller by its groups."""
    values: dict[str, list[float | None]] = {"value": [], "low": [], "high": []}
    for size, own, more in zip(sizes, moments, noise_over_probed(fit, list(sizes), advantage, kappa), strict=True):
        found = measurement.noise_to_signal(1, size)
        if found is None or own.signal <= 0.0:
            for column in values.values():
                column.append(None)
            continue
        for name, x in (("value", found.value), ("low", found.low), ("high", found.high)):
            values[name].append(None if x is None else more * x)
    return values
