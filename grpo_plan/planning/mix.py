"""Mix of strata at a fixed group size: expected progress under bounds on what may change (theory.md, section 12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_level, require
from grpo_plan.advantages import Estimator, get_estimator
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.planning.dropping import effect_of_dropping
from grpo_plan.planning.mix_limits import MixLimits, Shares, limits_for
from grpo_plan.planning.mix_plan import Mix, MixCorner, MixedStratum, MixGain, MixPoint
from grpo_plan.planning.mix_solver import BestMix, MixBounds, best_progress, divergence, greedy_mix, linear_mix
from grpo_plan.planning.signal import DEFAULT_KAPPA, KappaRange
from grpo_plan.planning.strata import DEFAULT_EDGES, StrataLaws, bucket_strata, named_strata

Floats = NDArray[np.float64]
OBJECTIVES = ("signal", "mixed-groups", "dead")
DEFAULT_MAX_KL = 0.1
FRONTIER_KL = (0.01, 0.03, 0.1, 0.3, 1.0)
KAPPA_POINTS = 5
FAST_GAP = 1e-5
OPTIMISM_REPLICATES = 60
CLIMBS = 4
MAX_GROUP_SIZE = 4096


def plan_mix(
    pilot: Pilot,
    *,
    group_size: int = 8,
    buckets: bool | Sequence[float] = False,
    correction: str = "posterior",
    objective: str = "signal",
    estimator: str = "grpo",
    kappa: KappaRange | tuple[float, float] | float = DEFAULT_KAPPA,
    max_kl: float = DEFAULT_MAX_KL,
    floors: Shares = None,
    caps: Shares = None,
    prompts_per_step: int | None = None,
    steps: int | None = None,
    data_prompts: int | None = None,
    pools: Mapping[str, int] | None = None,
    max_epochs: float | None = None,
    visits: int = 4,
    level: float = 0.95,
    seed: int = 0,
) -> Mix:
    """Choose the shares of the strata in a step, at a fixed group size.

    Args:
        pilot: Counts, with strata unless ``buckets``.
        group_size: G, at least 2.
        buckets: Instead of the pilot's strata, buckets of observed pass rate: True for hard, middle and easy
            (edges 0.2 and 0.8), or the edges. What is said of a bucket is corrected for the choice by counts.
        correction: For buckets: ``"posterior"`` (under the fitted distribution) or ``"halves"`` (half the rollouts
            choose the bucket, the other half speak of it; G at most n/2).
        objective: ``"signal"``: progress of the mix. ``"mixed-groups"``, ``"dead"``: fewest dead groups.
        estimator: ``"grpo"``, ``"dr_grpo"`` or ``"rloo"``.
        kappa: Score noise over contrast: a measured value, or a range.
        max_kl: Largest KL divergence from the mix of now, in nats; ``math.inf`` for none. The default 0.1 moves at
            most 22 points of a step's prompts between strata (Pinsker).
        floors: Smallest share of all strata, or by name.
        caps: Largest share of all strata, or by name.
        prompts_per_step: Groups of a step.
        steps: Steps of the run.
        data_prompts: Prompts that there are in all, spread over strata as in the pilot; default the pilot's own.
        pools: Prompts that there are of each stratum; they also say what the mix of now is.
        max_epochs: Times that the run may draw a prompt.
        visits: Later visits at which prompts that would be dropped are looked at.
        level: Confidence level.
        seed: Of the resampling behind the intervals of gain and dead fraction.

    Raises:
        DomainError: An unknown name, limits that contradict each other, or nothing to mix.
        PilotError: A stratum does not determine groups of this size.
        InfeasiblePlanError: No mix satisfies the limits, or every group would be dead.

    >>> easy, hard = [0] * 5 + [4] * 15 + [3] * 20, [0] * 30 + [1] * 10
    >>> pilot = Pilot.from_counts(easy + hard, 4, stratum=["easy"] * 40 + ["hard"] * 40)
    >>> mix = plan_mix(pilot, group_size=4, kappa=10.0)
    >>> {name: round(share, 2) for name, share in mix.shares.items()}, mix.binding
    ({'easy': 0.72, 'hard': 0.28}, ('KL bound 0.1',))
    """
    require(pilot, Pilot, "pilot", "Read one with read_pilot(..., stratum=...) or Pilot.from_counts(..., stratum=...).")
    if objective not in OBJECTIVES:
        raise DomainError(f"objective must be one of {', '.join(OBJECTIVES)}; got {objective!r}.")
    g, level = as_count(group_size, "group_size", minimum=2, maximum=MAX_GROUP_SIZE), as_level(level)
    advantage, kappas = get_estimator(estimator), _as_kappa(kappa)
    fit = fit_pass_rates(pilot)
    _refuse_hopeless(fit)
    laws = _laws(pilot, fit, g, buckets, correction, level)
    limits = limits_for(
        tuple(s.name for s in laws.strata),
        np.array([s.prompts for s in laws.strata], dtype=np.float64),
        floors=floors,
        caps=caps,
        pools=pools,
        data_prompts=data_prompts,
        max_epochs=max_epochs,
        prompts_per_step=prompts_per_step,
        steps=steps,
        max_kl=max_kl,
    )
    judge = _Judge(estimator=advantage, group_size=g, objective=objective)
    chosen, regret = _least_regret(judge, laws.laws(), limits.bounds, kappas)
    draws = laws.replicate(np.random.default_rng(seed))
    middle = _middle(kappas)
    return Mix(
        objective=objective,
        estimator=estimator,
        group_size=g,
        prompts_per_step=prompts_per_step,
        steps=steps,
        kappa=kappas,
        method=laws.method,
        strata=_strata(judge, laws, limits, chosen, middle),
        kl=divergence(chosen, limits.bounds.base),
        max_kl=limits.bounds.max_kl,
        binding=limits.binding(chosen),
        gains=tuple(
            MixGain(kappa=k, gain=_gain(judge, laws.laws(), draws, chosen, limits.bounds.base, k, level))
            for k in sorted({kappas.low, kappas.high})
        ),
        worst_regret=regret,
        optimism=_optimism(judge, laws.laws(), draws, chosen, limits.bounds, middle),
        frontier=_frontier(judge, laws.laws(), limits, middle),
        corner=_corner(judge, laws, limits.bounds.base, middle),
        dead_before=_dead(laws.laws(), draws, limits.bounds.base, level),
        dead_after=_dead(laws.laws(), draws, chosen, level),
        dropping=effect_of_dropping(fit, g, level, visits=as_count(visits, "visits")),
        seed=seed,
        replicates=draws.shape[0],
        level=level,
        assumptions=_assumptions(laws, limits, kappas, objective, g, draws.shape[0]),
        fit=fit,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Worth of a mix: progress per group (theory.md, eq. 60), or its share of mixed groups."""

    estimator: Estimator
    group_size: int
    objective: str

    def moments(self, laws: Floats, kappa: float) -> tuple[Floats, Floats]:
        """Signal and second moment of a group of each stratum, from laws of shape (..., B, G + 1)."""
        signal, noise = self.estimator.signal(self.group_size), self.estimator.noise(self.group_size)
        return laws @ signal, laws @ (signal**2 + kappa * noise)

    def worth(self, laws: Floats, shares: Floats, kappa: float) -> Floats:
        """Progress per group of a mix, over the leading axes of ``laws``."""
        signal, second = self.moments(laws, kappa)
        x, y = signal @ shares, second @ shares
        value: Floats = np.divide(x**2, y, out=np.zeros_like(x), where=y > 0.0)
        return value

    def best(self, laws: Floats, bounds: MixBounds, kappa: float, gap: float = FAST_GAP) -> BestMix:
        """The best mix within the bounds, by the objective."""
        if self.objective == "signal":
            return best_progress(*self.moments(laws, kappa), bounds, gap)
        mixed = 1.0 - laws[:, 0] - laws[:, -1]
        shares = linear_mix(mixed, bounds)
        value = float(mixed @ shares)
        return BestMix(shares=shares, value=value, bound=value)


def _as_kappa(kappa: KappaRange | tuple[float, float] | float) -> KappaRange:
    if isinstance(kappa, KappaRange):
        return kappa
    low, high = kappa if isinstance(kappa, tuple) else (kappa, kappa)
    return KappaRange(low=low, high=high)


def _middle(kappas: KappaRange) -> float:
    """Geometric middle of the kappa range."""
    grid = kappas.grid()
    return float(grid[grid.size // 2])


def _refuse_hopeless(fit: PassRateFit) -> None:
    for status in (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD):
        if status in fit.statuses:
            raise InfeasiblePlanError(
                f"No mix can be planned: no prompt of the pilot is mixed. {status.sentence} Pilot other prompts, or give "
                "each prompt more rollouts."
            )


def _laws(
    pilot: Pilot, fit: PassRateFit, g: int, buckets: bool | Sequence[float], correction: str, level: float
) -> StrataLaws:
    if buckets is not False:
        edges = DEFAULT_EDGES if buckets is True else buckets
        laws = bucket_strata(fit, g, edges, correction, level)
        if len(laws.strata) < 2:
            raise DomainError(
                f"There is nothing to mix: every prompt of the pilot falls into the bucket {laws.strata[0].name}. Give "
                "other edges, e.g. --buckets --edges 0.1,0.5,0.9."
            )
        return laws
    if len(pilot.strata) < 2:
        found = f"one stratum ({pilot.strata[0]})" if pilot.strata else "no strata"
        raise DomainError(
            f"There is nothing to mix: the pilot has {found}. Name a column with two or more values (--stratum-column), or "
            "mix by observed pass rate (--buckets)."
        )
    return named_strata(pilot, g, level)


def _least_regret(judge: _Judge, laws: Floats, bounds: MixBounds, kappas: KappaRange) -> tuple[Floats, float]:
    """Of the mixes that are best at some kappa of the range, the one of least worst regret (theory.md, eq. 28)."""
    grid = np.unique(kappas.grid()[:: max(1, (kappas.grid().size - 1) // (KAPPA_POINTS - 1))])
    if judge.objective != "signal":
        grid = grid[:1]
    candidates = [judge.best(laws, bounds, float(k)) for k in grid]
    if candidates[0].value <= 0.0:
        raise InfeasiblePlanError(
            "No mix can be planned: every group of every stratum would be dead. Use other prompts, or a larger G."
        )
    if judge.objective != "signal":
        return candidates[0].shares, 0.0
    worth = np.array([[float(judge.worth(laws, c.shares, float(k))) for k in grid] for c in candidates])
    regret = (1.0 - worth / np.array([c.value for c in candidates])).max(axis=1)
    best = int(np.argmin(regret))
    return candidates[best].shares, max(0.0, float(regret[best]))


def _strata(
    judge: _Judge, laws: StrataLaws, limits: MixLimits, chosen: Floats, kappa: float
) -> tuple[MixedStratum, ...]:
    base, epochs = limits.bounds.base, limits.epochs(chosen)
    now = float(judge.worth(laws.laws(), base, kappa))
    alone = [float(judge.worth(laws.laws(), row, kappa)) for row in np.eye(base.size)]
    return tuple(
        MixedStratum(
            law=law,
            before=float(base[i]),
            after=float(chosen[i]),
            floor=float(limits.bounds.low[i]),
            cap=float(limits.bounds.high[i]),
            pool=None if limits.pools is None else float(limits.pools[i]),
            epochs=None if epochs is None else float(epochs[i]),
            progress=alone[i] / now,
        )
        for i, law in enumerate(laws.strata)
    )


def _gain(
    judge: _Judge, laws: Floats, draws: Floats, chosen: Floats, base: Floats, kappa: float, level: float
) -> Interval:
    """Gain of a fixed mix, with the spread of its logarithm over resampled pilots."""

    def gain(of: Floats) -> Floats:
        return judge.worth(of, chosen, kappa) / np.maximum(judge.worth(of, base, kappa), 1e-300)

    value, logs = float(gain(laws)), np.log(np.maximum(gain(draws), 1e-300))
    half = NormalDist().inv_cdf(0.5 + level / 2.0) * float(logs.std(ddof=1))
    return Interval(value=value, low=value * float(np.exp(-half)), high=value * float(np.exp(half)))


def _dead(laws: Floats, draws: Floats, shares: Floats, level: float) -> Interval:
    """Dead fraction of a mix, with its spread over resampled pilots on the logit scale."""
    value = float((laws[:, 0] + laws[:, -1]) @ shares)
    if not 0.0 < value < 1.0:
        return Interval(value=value, low=value, high=value)
    deviation = float(((draws[..., 0] + draws[..., -1]) @ shares).std(ddof=1))
    half = NormalDist().inv_cdf(0.5 + level / 2.0) * deviation / (value * (1.0 - value))
    odds = np.log(value / (1.0 - value))
    low, high = (1.0 / (1.0 + np.exp(-(odds + sign * half))) for sign in (-1.0, 1.0))
    return Interval(value=value, low=float(low), high=float(high))


def _optimism(judge: _Judge, laws: Floats, draws: Floats, chosen: Floats, bounds: MixBounds, kappa: float) -> float:
    """Mean over resampled pilots of the gain of their own best mix, less its gain on this pilot."""
    if judge.objective != "signal":
        return 0.0
    excess = []
    for resampled in draws[:OPTIMISM_REPLICATES]:
        signal, second = judge.moments(resampled, kappa)
        shares = chosen
        for _ in range(CLIMBS):
            shares = linear_mix(2.0 * signal - float(signal @ shares) / float(second @ shares) * second, bounds)
        gains = [
            float(judge.worth(of, shares, kappa) / judge.worth(of, bounds.base, kappa)) for of in (resampled, laws)
        ]
        excess.append(gains[0] - gains[1])
    return float(np.mean(excess))


def _frontier(judge: _Judge, laws: Floats, limits: MixLimits, kappa: float) -> tuple[MixPoint, ...]:
    bounds = limits.bounds
    now = float(judge.worth(laws, bounds.base, kappa))
    least = divergence(linear_mix(np.zeros(bounds.base.size), bounds), bounds.base)
    allowed = sorted({k for k in (*FRONTIER_KL, bounds.max_kl, np.inf) if k >= least})
    points = []
    for limit in allowed:
        shares = judge.best(laws, replace(bounds, max_kl=limit), kappa).shares
        points.append(
            MixPoint(
                max_kl=limit if np.isfinite(limit) else None,
                kl=divergence(shares, bounds.base),
                gain=float(judge.worth(laws, shares, kappa)) / now,
                shares=tuple(float(s) for s in shares),
            )
        )
    return tuple(points)


def _corner(judge: _Judge, laws: StrataLaws, base: Floats, kappa: float) -> MixCorner:
    table = laws.laws()
    worth: Callable[[Floats], float] = lambda shares: float(judge.worth(table, shares, kappa))  # noqa: E731
    if judge.objective == "signal":
        best = int(np.argmax([worth(row) for row in np.eye(base.size)]))
    else:
        free = MixBounds(base=base, low=np.zeros(base.size), high=np.ones(base.size), max_kl=np.inf)
        best = int(np.argmax(greedy_mix(1.0 - table[:, 0] - table[:, -1], free)))
    return MixCorner(
        stratum=laws.strata[best].name, gain=worth(np.eye(base.size)[best]) / worth(base), kl=-float(np.log(base[best]))
    )


def _assumptions(
    laws: StrataLaws, limits: MixLimits, kappas: KappaRange, objective: str, g: int, replicates: int
) -> tuple[str, ...]:
    notes = [
        "Gradients of any two prompts have the same mean cosine, whatever their strata. If strata teach different "
        "skills, rewards do not show which you need: floors, caps and the KL bound are your say in it."
    ]
    if laws.method == "posterior":
        notes.append(
            "Buckets are chosen by the same counts that would judge them, so each is judged by the posterior of its "
            "pass rates under the fitted distribution (theory.md, eq. 59); k/n itself would promise too much."
        )
    if laws.method == "halves":
        notes.append(
            "Half of each prompt's rollouts choose its bucket, the other half speak of it, over all splits: no model, "
            "but buckets of n/2 rollouts."
        )
    if limits.pools is None:
        notes.append("The mix of now is the pilot's own shares of prompts.")
    if not kappas.measured and objective == "signal":
        notes.append(f"kappa lies between {kappas.low:g} and {kappas.high:g}; it matters little for a mix.")
    for law in laws.strata:
        for status in law.statuses:
            if status is not FitStatus.OK and laws.method == "named":
                notes.append(f"Stratum {law.name}: {status.sentence}")
    beyond = (
        " They assume a smooth distribution beyond the pilot's rollouts."
        if replicates < OPTIMISM_REPLICATES + 1
        else ""
    )
    notes.append(
        f"Intervals of gain and dead fraction come from {replicates} pilots resampled over prompts, this mix kept.{beyond}"
    )
    notes.append("The plan is for the current policy: pass rates move, so plan again after 100 steps or so.")
    return tuple(notes)
