"""What a planned mix holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo_plan._shown import Shown
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.dropping import Dropping
from grpo_plan.planning.signal import KappaRange
from grpo_plan.planning.strata import StratumLaw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixedStratum:
    """One stratum before and after.

    Attributes:
        law: Its prompts, pass rate, dead fraction and the law of its groups.
        before: Share of the prompts of a step now.
        after: Share in the planned mix.
        floor: Smallest share allowed.
        cap: Largest share allowed, by its cap and the epochs.
        pool: Prompts to draw from; None if unknown.
        epochs: Times that the run draws each prompt of the pool in the planned mix; None without steps and pool.
        progress: Progress of a group of this stratum against one of the mix of now, at `Mix.best_at_kappa`.
    """

    law: StratumLaw
    before: float
    after: float
    floor: float
    cap: float
    pool: float | None
    epochs: float | None
    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MixGain:
    """Progress of the planned mix against the mix of now, at one kappa; ``gain`` is a ratio, 1 means none."""

    kappa: float
    gain: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPoint:
    """The best mix at another KL bound.

    Attributes:
        max_kl: The bound in nats; None for no bound.
        kl: What is used of it.
        gain: Progress against the mix of now, at `Mix.best_at_kappa`.
        shares: The mix.
    """

    max_kl: float | None
    kl: float
    gain: float
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixCorner:
    """What the objective picks if nothing bounds it: all prompts from one stratum (theory.md, eq. 60)."""

    stratum: str
    gain: float
    kl: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Mix(Shown):
    """A mix of strata, what it gains, and what the choice rests on.

    Attributes:
        objective: ``"signal"``, ``"mixed-groups"`` or ``"dead"``.
        estimator: Advantage estimator planned for.
        group_size: G.
        prompts_per_step: Groups of a step; None if not given.
        steps: Steps of the run; None if not given.
        kappa: The range planned for.
        best_at_kappa: Kappa of that range at which this mix is the best within its bounds; progress of the strata,
            optimism, frontier and corner are at this kappa.
        method: How strata are judged: ``"named"``, ``"posterior"`` or ``"halves"``.
        strata: Before and after.
        kl: KL divergence of the mix from the one of now, in nats.
        max_kl: Its bound.
        binding: What limits the mix, in words.
        gains: At the low and the high end of kappa (one if measured).
        worst_regret: Largest shortfall over the kappa range from the mix that is best at that kappa.
        optimism: Gain at `best_at_kappa` less that of mixes chosen on half of the prompts and judged on the others:
            what it owes to choosing and judging on the same prompts.
        frontier: The best mix at other KL bounds; at its own bound this mix.
        corner: Answer without any bound.
        dead_before: Dead fraction of the mix of now.
        dead_after: Dead fraction of the planned mix.
        dropping: What dropping prompts that always failed or always passed would do instead.
        seed: Seed of the resampling behind the intervals.
        replicates: Resampled pilots behind the intervals.
        level: Confidence level of all intervals.
        assumptions: What the plan takes for granted, gravest first.
        fit: Fit of the whole pilot.
    """

    objective: str
    estimator: str
    group_size: int
    prompts_per_step: int | None
    steps: int | None
    kappa: KappaRange
    best_at_kappa: float
    method: str
    strata: tuple[MixedStratum, ...]
    kl: float
    max_kl: float
    binding: tuple[str, ...]
    gains: tuple[MixGain, ...]
    worst_regret: float
    optimism: float
    frontier: tuple[MixPoint, ...] = field(repr=False)
    corner: MixCorner
    dead_before: Interval
    dead_after: Interval
    dropping: Dropping
    seed: int
    replicates: int
    level: float
    assumptions: tuple[str, ...] = field(repr=False)
    fit: PassRateFit = field(repr=False)

    @property
    def sure(self) -> bool:
        """Whether the gain is above 1 at its low limit, the luck of the choice taken off, at every kappa."""
        return min(g.gain.low for g in self.gains) - max(self.optimism, 0.0) > 1.0

    @property
    def shares(self) -> dict[str, float]:
        """The planned mix by name."""
        return {s.law.name: s.after for s in self.strata}
