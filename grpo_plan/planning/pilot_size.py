"""How large a pilot must be: prompts and rollouts per prompt for a wanted precision (theory.md, eq. 43)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_level, as_one_group_size, as_positive
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting.functionals import dead
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.mixing import expected_mixing
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import FAR, pointwise
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates

FEWEST_PROMPTS = 20
MOST_PROMPTS = 10_000_000
GOOD_ENOUGH = 0.05  # half-width at which advice stops asking for more rollouts
MOST_ROLLOUTS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PilotSize(Shown):
    """One pilot design.

    Attributes:
        rollouts_per_prompt: n.
        prompts: Smallest M that reaches the half-width; None if none of those allowed does.
        rollouts: ``prompts * rollouts_per_prompt``; None as above.
        settles: Whether some number of prompts reaches it.
        low: Expected lower limit of D(G) with these prompts, or with the most allowed; where nothing settles it, the
            lower end of what n rollouts leave open for ever.
        high: The same at the upper end.
    """

    rollouts_per_prompt: int
    prompts: int | None
    rollouts: int | None
    settles: bool
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PilotPlan(Shown):
    """Pilot designs for one target, and the cheapest of them.

    Attributes:
        group_size: G whose dead fraction is wanted.
        half_width: Wanted half-width of its interval.
        level: Confidence level.
        expected_dead: D(G) under the prior; of a first pilot its estimate.
        expected_dead_interval: What the first pilot says of it; None for a Beta.
        recommended: The design with the fewest rollouts.
        options: Every design, by rising n.
        prior: What the pass rates were taken to be, in words.
    """

    group_size: int
    half_width: float
    level: float
    expected_dead: float
    expected_dead_interval: tuple[float, float] | None
    recommended: PilotSize
    options: tuple[PilotSize, ...] = field(repr=False)
    prior: str


def plan_pilot(
    prior: PassRateFit | BetaPassRates | tuple[float, float],
    *,
    target_group_size: int,
    half_width: float = 0.03,
    level: float = 0.95,
    rollouts_per_prompt: int | list[int] | None = None,
    max_prompts: int | None = None,
    max_rollouts: int | None = None,
) -> PilotPlan:
    """Prompts and rollouts per prompt for a wanted precision of D(G).

    The interval of a pilot is taken to be that of its expected counts under the prior.

    Args:
        prior: What is known: a fit of a first pilot, a Beta, or its ``(a, b)``.
        target_group_size: G.
        half_width: Half of the wanted width of the interval, in (0, 0.5).
        level: Confidence level.
        rollouts_per_prompt: The n to try; by default 2, 4, 8, ... up to 2 G.
        max_prompts: Prompts that there are; designs with more are not recommended.
        max_rollouts: Rollouts that the pilot may cost; the same.

    Raises:
        InfeasiblePlanError: No n of the list reaches the half-width.

    >>> plan = plan_pilot((0.3, 0.3), target_group_size=16, half_width=0.04)
    >>> plan.recommended.rollouts_per_prompt
    16
    """
    g, level = as_one_group_size(target_group_size, "target_group_size"), as_level(level)
    if g < 2 or g > MOST_ROLLOUTS:
        raise DomainError(f"target_group_size must be from 2 to {MOST_ROLLOUTS:,}; got {g:,}.")
    half = as_positive(half_width, "half_width")
    if half >= 0.5:
        raise DomainError(f"half_width must be below 0.5; got {half:g}. Percentages? Divide by 100.")
    most = MOST_PROMPTS if max_prompts is None else as_count(max_prompts, "max_prompts", maximum=MOST_PROMPTS)
    rates, words = _prior(prior)
    sizes = _sizes(g)
    if rollouts_per_prompt is not None:
        wanted = rollouts_per_prompt if isinstance(rollouts_per_prompt, list | tuple) else [rollouts_per_prompt]
        sizes = sorted({as_count(n, "rollouts_per_prompt", maximum=MOST_ROLLOUTS) for n in wanted})
    if not sizes:
        raise DomainError(f"rollouts_per_prompt must hold a whole number from 1 to {MOST_ROLLOUTS:,}; got none.")
    total = MOST_PROMPTS * MOST_ROLLOUTS if max_rollouts is None else as_count(max_rollouts, "max_rollouts")
    sizes = [n for n in sizes if total // n >= FEWEST_PROMPTS]
    if most < FEWEST_PROMPTS or not sizes:
        raise InfeasiblePlanError(f"A pilot needs at least {FEWEST_PROMPTS} prompts. Allow more prompts or rollouts.")
    options = tuple(_smallest(rates, n, g, half, level, min(most, total // n)) for n in sizes)
    reached = [option for option in options if option.rollouts is not None]
    if not reached:
        limits = [f" and at most {most:,} prompts"] * (max_prompts is not None)
        limits += [f" and at most {total:,} rollouts"] * (max_rollouts is not None)
        ends = [(expected_limits(rates, min(most, total // n), n, g, level), n) for n in sizes]
        (low, high), best = min(ends, key=lambda end: end[0][1] - end[0][0])
        raise InfeasiblePlanError(
            f"No pilot with {_listed(sizes)} rollouts per prompt{''.join(limits)} reaches a half-width of {half:g} at "
            f"G = {g}. The narrowest has {(high - low) / 2:.3f} (n = {best}). Allow "
            "that, or more prompts and rollouts."
        )
    return PilotPlan(
        group_size=g,
        half_width=half,
        level=level,
        expected_dead=_expected(prior, rates, g),
        expected_dead_interval=prior.dead(g, level).interval if isinstance(prior, PassRateFit) else None,
        recommended=min(reached, key=lambda option: (option.rollouts or 0, option.rollouts_per_prompt)),
        options=options,
        prior=words,
    )


def expected_limits(
    rates: DiscretePassRates, prompts: int, rollouts: int, group_size: int, level: float
) -> tuple[float, float]:
    """Limits of D(G) from the counts that a pilot of this size has on average."""
    profile = ProfileLikelihood.of(expected_mixing(rates, prompts, rollouts))
    phi = dead(group_size).phi(profile.mixing.passing, profile.mixing.failing)
    share = rates.all_pass(rollouts) + rates.all_fail(rollouts)
    agreeing = round(prompts * min(share, 1.0))
    thresholds = pointwise(
        level,
        prompts=prompts,
        for_low=prompts - agreeing,
        for_high=agreeing,
        far=group_size > FAR * rollouts,
    )
    return profile.lower(phi, thresholds.lower).value, profile.upper(phi, thresholds.upper).value


def advice(fit: PassRateFit, group_size: int, level: float = 0.95) -> str | None:
    """What a pilot cannot tell of D(G), and the rollouts per prompt that could; None if it can.

    Args:
        fit: A fitted pilot.
        group_size: G.
        level: Confidence level.
    """
    d = fit.dead(group_size, level)
    n = fit.max_measured_group_size
    if group_size <= n or d.high - d.low <= 2.0 * GOOD_ENOUGH or d.value is None:
        return None
    if d.status not in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        return None
    text = f"This pilot (n = {n}) cannot tell D({group_size}): between {d.low:.2f} and {d.high:.2f}"
    rates = fit.likely_rates
    if len(rates.masses) <= 2:
        return f"{text}."
    larger, low, high = n, d.low, d.high
    while larger < min(group_size, MOST_ROLLOUTS) and high - low > 2.0 * GOOD_ENOUGH:
        larger = min(2 * larger, group_size)
        low, high = expected_limits(rates, fit.fitted_prompts, larger, group_size, level)
    if high - low > 4.0 * GOOD_ENOUGH:
        return f"{text}. More rollouts per prompt alone would not settle it: it takes more prompts (see pilot-size)."
    return f"{text}; {larger} rollouts per prompt, with as many prompts, would give about {low:.2f} to {high:.2f}."


def _expected(prior: object, rates: DiscretePassRates, g: int) -> float:
    """D(G) as the fit itself says it, or of a Beta."""
    value = prior.dead(g).value if isinstance(prior, PassRateFit) else None
    return rates.all_pass(g) + rates.all_fail(g) if value is None else value


def _prior(prior: object) -> tuple[DiscretePassRates, str]:
    if isinstance(prior, PassRateFit):
        if len(prior.smooth_rates.masses) <= 2:
            raise PilotError(f"This pilot cannot serve as a prior: {prior.status.sentence} Give a Beta instead.")
        if prior.unknown_dead:
            raise PilotError(
                "This pilot cannot serve as a prior: it lacks its dead groups, and their number is unknown. Give it "
                "(--dropped-groups), or a Beta instead."
            )
        return prior.likely_rates, f"as in the first pilot of {prior.fitted_prompts:,} prompts"
    if isinstance(prior, tuple | list) and len(prior) == 2:
        prior = BetaPassRates.from_shape(*prior)
    if not isinstance(prior, BetaPassRates) or prior.shape is None:
        raise DomainError("prior must be a fit, a Beta, or its two shapes (a, b).")
    a, b = prior.shape
    return on_grid(prior), f"Beta({a:.3g}, {b:.3g})"


def on_grid(beta: BetaPassRates) -> DiscretePassRates:
    """A Beta with a density as masses on an even grid of logits."""
    assert beta.shape is not None  # noqa: S101
    a, b = beta.shape
    edge = min(700.0, 36.0 / min(a, b, 1.0))
    logit = np.linspace(-edge, edge, 2 * math.ceil(edge / 0.06) + 1)
    log_p, log_q = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    log_mass = a * log_p + b * log_q
    masses = np.exp(log_mass - log_mass.max())
    return DiscretePassRates(passing=np.exp(log_p), failing=np.exp(log_q), masses=masses / float(masses.sum()))


def _sizes(group_size: int) -> list[int]:
    sizes = {2**i for i in range(1, 13) if 2**i <= 2 * group_size}
    return sorted(size for size in sizes | {group_size} if size <= MOST_ROLLOUTS)


def _smallest(rates: DiscretePassRates, n: int, g: int, half: float, level: float, most: int) -> PilotSize:
    """Fewest prompts at this n, by bisection on their logarithm."""
    if n < g:
        low, high = range_at(rates, n, dead(g))
        if high - low >= 2.0 * half:
            return PilotSize(rollouts_per_prompt=n, prompts=None, rollouts=None, settles=False, low=low, high=high)

    def ends(prompts: int) -> tuple[float, float]:
        return expected_limits(rates, prompts, n, g, level)

    top = FEWEST_PROMPTS
    limits = ends(top)
    bottom = top
    while limits[1] - limits[0] > 2.0 * half and top < most:
        bottom, top = top, min(4 * top, most)
        limits = ends(top)
    if limits[1] - limits[0] > 2.0 * half:
        return PilotSize(
            rollouts_per_prompt=n, prompts=None, rollouts=None, settles=True, low=limits[0], high=limits[1]
        )
    while top > bottom + max(1, bottom // 100):
        middle = round(math.sqrt(top * bottom))
        if middle in (top, bottom):
            break
        found = ends(middle)
        if found[1] - found[0] <= 2.0 * half:
            top, limits = middle, found
        else:
            bottom = middle
    return PilotSize(rollouts_per_prompt=n, prompts=top, rollouts=top * n, settles=True, low=limits[0], high=limits[1])


def _listed(sizes: list[int]) -> str:
    return ", ".join(str(n) for n in sizes)
