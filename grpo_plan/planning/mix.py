"""Mix of strata at a fixed group size: expected progress under bounds on what may change (theory.md, section 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, as_level, require
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.estimators import ESTIMATORS, get_estimator
from grpo_plan.fitting.fit import fit_pass_rates, refuse_filtered
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.planning.dropping import effect_of_dropping
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.mix_limits import MixLimits, Shares, limits_for
from grpo_plan.planning.mix_plan import Mix, MixedStratum, MixGain
from grpo_plan.planning.mix_solver import divergence
from grpo_plan.planning.mix_worth import (
    MixWorth,
    corner_of,
    dead_of,
    frontier,
    gain_of,
    least_regret,
    optimism_of,
)
from grpo_plan.planning.planned_kappa import planned_kappa
from grpo_plan.planning.signal import DEFAULT_KAPPA, KappaRange, as_kappa_range
from grpo_plan.planning.strata import DEFAULT_EDGES, StrataLaws, bucket_strata, named_strata

Floats = NDArray[np.float64]
OBJECTIVES = ("signal", "mixed-groups", "dead")
DEFAULT_MAX_KL = 0.1
MAX_GROUP_SIZE = 4096


def plan_mix(
    pilot: Pilot,
    *,
    group_size: int = 8,
    buckets: bool | Sequence[float] = False,
    correction: str = "posterior",
    objective: str = "signal",
    estimator: str = "grpo",
    kappa: KappaMeasurement | KappaRange | tuple[float, float] | float = DEFAULT_KAPPA,
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
        estimator: A name of `grpo_plan.estimators.ESTIMATORS` whose advantages sum to 0 in a group.
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
        raise DomainError(not_one_of("objective", objective, OBJECTIVES))
    g, level = as_count(group_size, "group_size", minimum=2, maximum=MAX_GROUP_SIZE), as_level(level)
    advantage = get_estimator(estimator)
    if not advantage.centred:
        known = ", ".join(name for name, e in ESTIMATORS.items() if e.centred)
        raise DomainError(f"a mix needs a centred estimator; got {estimator!r}. Give one of {known}.")
    if not isinstance(kappa, KappaMeasurement):
        as_kappa_range(kappa)
    refuse_filtered(pilot, "A mix compares strata by all their groups")
    fit = fit_pass_rates(pilot)
    _refuse_hopeless(fit)
    kappas = planned_kappa(kappa, fit)
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
        all_there_is=buckets is not False,
    )
    judge = MixWorth(estimator=advantage, group_size=g, objective=objective)
    table = laws.laws()
    chosen, regret, best_at = least_regret(judge, table, limits.bounds, kappas)
    rng = np.random.default_rng(seed)
    draws = laws.replicate(rng)
    gain = float(judge.worth(table, chosen, best_at) / judge.worth(table, limits.bounds.base, best_at))
    return Mix(
        objective=objective,
        estimator=advantage.label,
        group_size=g,
        prompts_per_step=prompts_per_step,
        steps=steps,
        kappa=kappas,
        best_at_kappa=best_at,
        method=laws.method,
        strata=_strata(judge, laws, limits, chosen, best_at),
        kl=divergence(chosen, limits.bounds.base),
        max_kl=limits.bounds.max_kl,
        binding=limits.binding(chosen),
        gains=tuple(
            MixGain(kappa=k, gain=gain_of(judge, table, draws, chosen, limits.bounds.base, k, level))
            for k in sorted({kappas.low, kappas.high})
        ),
        worst_regret=regret,
        optimism=optimism_of(judge, gain, laws.split(rng), chosen, limits.bounds, best_at),
        frontier=frontier(judge, table, limits.bounds, best_at, chosen),
        corner=corner_of(judge, table, limits.names, limits.bounds.base, best_at),
        dead_before=dead_of(laws.strata, limits.bounds.base),
        dead_after=dead_of(laws.strata, chosen),
        dropping=effect_of_dropping(fit, g, level, visits=as_count(visits, "visits")),
        seed=seed,
        replicates=draws.shape[0],
        level=level,
        assumptions=_assumptions(fit, laws, limits, kappas, objective, g, draws.shape[0]),
        fit=fit,
    )


def _refuse_hopeless(fit: PassRateFit) -> None:
    for status in (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD):
        if status in fit.statuses:
            raise InfeasiblePlanError(
                f"No mix can be planned: no prompt of the pilot is mixed. {status.sentence} Pilot other prompts, or "
                "give each prompt more rollouts."
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
            f"There is nothing to mix: the pilot has {found}. Name a column with two or more values (--stratum-column),"
            " or mix by observed pass rate (--buckets)."
        )
    return named_strata(pilot, g, level)


def _strata(
    judge: MixWorth, laws: StrataLaws, limits: MixLimits, chosen: Floats, kappa: float
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


def _assumptions(
    fit: PassRateFit,
    laws: StrataLaws,
    limits: MixLimits,
    kappas: KappaRange,
    objective: str,
    group_size: int,
    replicates: int,
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
        now = float(limits.bounds.base @ [law.dead for law in laws.strata])
        counted = fit.dead(group_size).value
        if counted is not None and abs(now - counted) >= 0.0005 and not limits.given:
            notes.append(f"That distribution gives the mix of now D = {now:.3f}; fit says {counted:.3f} by counts.")
    if laws.method == "halves":
        notes.append(
            "Half of each prompt's rollouts choose its bucket, the other half speak of it, over all splits: no model, "
            "but buckets of n/2 rollouts."
        )
    if not limits.given:
        notes.append("The mix of now is the pilot's own shares of prompts.")
    if not kappas.known and objective == "signal":
        notes.append(f"kappa lies between {kappas.low:g} and {kappas.high:g}; it matters little for a mix.")
    for law in laws.strata:
        for status in law.statuses:
            if status is not FitStatus.OK and laws.method == "named":
                notes.append(f"Stratum {law.name}: {status.sentence}")
    smooth = " They assume a smooth distribution." if laws.refitted or laws.method == "posterior" else ""
    notes.append(
        f"Limits of the gain come from {replicates} pilots resampled over prompts, this mix kept.{smooth} Those of "
        "dead fractions hold for any distribution."
    )
    notes.append("The plan is for the current policy: pass rates move, so plan again after 50 steps or so.")
    return tuple(notes)
