"""Floors, caps, epochs and the KL bound of a mix, checked against each other (theory.md, eq. 61)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import did_you_mean
from grpo_plan._validate import as_count, as_positive, as_probability
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.planning.mix_solver import BOX_SLACK, MixBounds, divergence, nearest_mix

Floats = NDArray[np.float64]
Shares = Mapping[str, float] | float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixLimits:
    """What a mix may be, and where each limit comes from.

    Attributes:
        bounds: For the solver.
        names: Of the strata.
        caps: Largest shares asked for, shape (B,).
        pools: Prompts to draw from, shape (B,); None if unknown.
        given: Whether the pools were given one by one, and so say what the mix of now is.
        draws: Prompts that the run draws; None if unknown.
    """

    bounds: MixBounds
    names: tuple[str, ...]
    caps: Floats
    pools: Floats | None
    given: bool
    draws: int | None

    def epochs(self, shares: Floats) -> Floats | None:
        """Times that each prompt of a stratum is drawn."""
        return None if self.pools is None or self.draws is None else shares * self.draws / self.pools

    def binding(self, shares: Floats) -> tuple[str, ...]:
        """Limits that the mix meets, in words."""
        found = []
        b = self.bounds
        if np.isfinite(b.max_kl) and divergence(shares, b.base) > b.max_kl * (1.0 - 1e-4) - 1e-12:
            found.append(f"KL bound {b.max_kl:g}")
        for i, name in enumerate(self.names):
            if 0.0 < b.low[i] and shares[i] <= b.low[i] + 1e-9:
                found.append(f"floor {b.low[i]:.3g} of {name}")
            if b.high[i] < 1.0 and shares[i] >= b.high[i] - 1e-9:
                found.append(f"{'cap' if b.high[i] >= self.caps[i] else 'epochs'} of {name} ({b.high[i]:.3g})")
        return tuple(found)


def limits_for(
    names: tuple[str, ...],
    prompts: Floats,
    *,
    floors: Shares,
    caps: Shares,
    pools: Mapping[str, int] | None,
    data_prompts: int | None,
    max_epochs: float | None,
    prompts_per_step: int | None,
    steps: int | None,
    max_kl: float,
    all_there_is: bool,
) -> MixLimits:
    """Check the limits one by one and together.

    Args:
        names: Strata.
        prompts: Prompts of the pilot in each, shape (B,).
        floors: Smallest share, for all or by name.
        caps: Largest share, for all or by name.
        pools: Prompts that there are of each stratum; they then are the mix of now.
        data_prompts: Prompts that there are in all, spread as the pilot's.
        max_epochs: Times that a prompt may be drawn in the run.
        prompts_per_step: Groups of a step.
        steps: Steps of the run.
        max_kl: Nats; inf for no bound.
        all_there_is: Whether the pilot's prompts are the pool where none is given, as for buckets.

    Raises:
        DomainError: A limit contradicts another.
        InfeasiblePlanError: Prompts, epochs or the KL bound leave no mix; the nearest setting is named.
    """
    low, cap = _by_name(floors, names, "floor", 0.0), _by_name(caps, names, "cap", 1.0)
    kl_limit = as_positive(max_kl, "max_kl", allow_zero=True) if np.isfinite(max_kl) else np.inf
    _contradictions(low, cap, names)
    sizes = _pools(names, prompts, pools, data_prompts)
    base = prompts / prompts.sum() if pools is None else sizes / sizes.sum()
    draws = None
    if prompts_per_step is not None and steps is not None:
        draws = as_count(prompts_per_step, "prompts_per_step") * as_count(steps, "steps")
    high = cap
    if max_epochs is not None:
        if draws is None:
            raise DomainError(
                "max_epochs needs prompts_per_step and steps: together they say how often a prompt is drawn."
            )
        epochs = as_positive(max_epochs, "max_epochs")
        high = np.minimum(cap, epochs * sizes / draws)
        _refuse_empty_pools(low, cap, high, sizes, draws, epochs, names, steps or 1)
    bounds = MixBounds(base=base, low=low, high=high, max_kl=kl_limit)
    nearest = divergence(nearest_mix(bounds), base)
    if nearest > kl_limit + 1e-9:
        raise InfeasiblePlanError(
            f"Floors, caps and epochs alone move the mix by {nearest:.4f} nats, beyond the KL bound of {kl_limit:g}. "
            f"Allow at least {_up(nearest):g} nats (--max-kl), or loosen them."
        )
    known = all_there_is or pools is not None or data_prompts is not None or max_epochs is not None
    return MixLimits(
        bounds=bounds, names=names, caps=cap, pools=sizes if known else None, given=pools is not None, draws=draws
    )


def _by_name(values: Shares, names: tuple[str, ...], what: str, default: float) -> Floats:
    if values is None:
        return np.full(len(names), default)
    if not isinstance(values, Mapping):
        return np.full(len(names), float(as_probability(values, what)))
    unknown = [name for name in values if name not in names]
    if unknown:
        raise DomainError(
            f"{what} names no stratum {unknown[0]!r}; the strata are {', '.join(names)}."
            f"{did_you_mean(unknown[0], names)}"
        )
    return np.array([float(as_probability(values.get(name, default), f"{what} of {name}")) for name in names])


def _contradictions(low: Floats, cap: Floats, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        if cap[i] < low[i]:
            raise DomainError(
                f"cap of {name} must be at least its floor; got cap {cap[i]:g} and floor {low[i]:g}. "
                f"Raise the cap to {low[i]:g}, or lower the floor to {cap[i]:g}."
            )
    if low.sum() > 1.0 + BOX_SLACK:
        raise DomainError(
            f"floors must sum to at most 1; got {low.sum():g}. Multiply them by {1.0 / low.sum():.3g}, so that "
            f"the largest is {low.max() / low.sum():.3g}."
        )
    if cap.sum() < 1.0 - BOX_SLACK:
        raise DomainError(
            f"caps must sum to at least 1; got {cap.sum():g}, so no mix fills a step. Multiply them by "
            f"{1.0 / cap.sum():.4g}."
        )


def _pools(
    names: tuple[str, ...], prompts: Floats, pools: Mapping[str, int] | None, data_prompts: int | None
) -> Floats:
    if pools is None:
        total = float(prompts.sum()) if data_prompts is None else float(as_count(data_prompts, "data_prompts"))
        spread: Floats = prompts / prompts.sum() * total
        return spread
    if data_prompts is not None:
        raise DomainError("Give data_prompts or pools, not both: the pools already say how many prompts there are.")
    missing = [name for name in names if name not in pools]
    unknown = [name for name in pools if name not in names]
    if missing or unknown:
        wrong = f"name no stratum {unknown[0]!r}" if unknown else f"lack {missing[0]!r}"
        hint = did_you_mean(unknown[0], missing or names) if unknown else ""
        raise DomainError(f"pools must give the prompts of each of {', '.join(names)}; they {wrong}.{hint}")
    return np.array([float(as_count(pools[name], f"pool of {name}")) for name in names])


def _refuse_empty_pools(
    low: Floats, cap: Floats, high: Floats, sizes: Floats, draws: int, epochs: float, names: tuple[str, ...], steps: int
) -> None:
    short = np.flatnonzero(high < low - BOX_SLACK)
    if short.size:
        i = int(short[0])
        raise InfeasiblePlanError(
            f"The floor of {names[i]}, {low[i]:g} of {draws:,} draws, needs {low[i] * draws / sizes[i]:.3g} epochs of "
            f"its {sizes[i]:,.0f} prompts; at most {epochs:g} are allowed. Lower the floor to {high[i]:.3g}, or allow "
            f"{_up(low[i] * draws / sizes[i]):g} epochs."
        )
    if high.sum() < 1.0 - BOX_SLACK:
        needed = _epochs_needed(cap, sizes, draws)
        raise InfeasiblePlanError(
            f"The run draws {draws:,} prompts; {epochs:g} epochs of {sizes.sum():,.0f} prompts within the caps give "
            f"{high.sum() * draws:,.0f}. Allow {_up(needed):g} epochs, or at most {int(steps * high.sum()):,} steps."
        )


def _epochs_needed(cap: Floats, sizes: Floats, draws: int) -> float:
    """Smallest E with ``sum min(cap, E pool / draws) >= 1``: the sum rises piecewise linearly in E."""
    per_epoch = sizes / draws
    stops = np.sort(cap / per_epoch)
    totals = np.minimum(cap, stops[:, None] * per_epoch).sum(axis=1)
    place = min(int(np.searchsorted(totals, 1.0 - BOX_SLACK)), stops.size - 1)
    before, at = (float(stops[place - 1]), float(totals[place - 1])) if place else (0.0, 0.0)
    slope = float(per_epoch[cap / per_epoch > before].sum())
    return before + (1.0 - at) / slope


def _up(value: float) -> float:
    """Rounded up to three digits."""
    digits = 2 - int(np.floor(np.log10(value)))
    return float(np.ceil(value * 10.0**digits - 1e-9) / 10.0**digits)
