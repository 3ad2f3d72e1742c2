"""Every estimator of the registry on one pilot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from grpo_plan.errors import DomainError
from grpo_plan.estimators import ESTIMATORS, Estimator, get_estimator
from grpo_plan.planning.live import ByKind, Ranged, live_rollouts
from grpo_plan.remedies.kinds import shares_by_kind
from grpo_plan.remedies.progress import Judged, effect_of, progress_ratio, same_plan, turning_kappa
from grpo_plan.remedies.result import AtKappa, EstimatorEffect, Turn
from grpo_plan.remedies.sampling import Setting

UNKNOWN = Ranged(value=None, low=0.0, high=None)


def chosen_estimators(names: Iterable[str] | None, reference: str) -> tuple[Estimator, ...]:
    """The reference first, then the others as they were named, or all of the registry.

    Raises:
        DomainError: No such estimator.
    """
    if isinstance(names, str):
        raise DomainError(f"estimators must be a list of names; got {names!r}. Give [{names!r}].")
    listed = list(ESTIMATORS) if names is None else list(names)
    ordered = dict.fromkeys([reference, *listed])
    return tuple(get_estimator(name) for name in ordered)


def estimator_effects(setting: Setting, estimators: tuple[Estimator, ...]) -> tuple[EstimatorEffect, ...]:
    """One entry for each; those whose advantages are a multiple of an earlier one's share its numbers."""
    fit, size = setting.fit, setting.group_size
    known = fit.group_value("dead", size) is not None
    base = Judged.of(fit, setting.reference, size) if known else None
    mean = fit.mean_pass_rate
    seen: list[tuple[Estimator, EstimatorEffect]] = []
    for estimator in estimators:
        try:
            pair = estimator.for_mean(mean).pair(size)
        except DomainError as error:
            seen.append((estimator, replace(_bare(estimator), refused=str(error))))
            continue
        if not all(np.isfinite(side).all() for side in pair):
            refused = f"It divides by the spread of the batch, and all rewards are {mean:g} here."
            seen.append((estimator, replace(_bare(estimator), refused=refused)))
            continue
        like = next((e for e, found in seen if not found.refused and same_plan(e, estimator, size, mean)), None)
        found = _entry(setting, estimator, base, like)
        seen.append((estimator, found))
    return tuple(found for _, found in seen)


def _bare(estimator: Estimator) -> EstimatorEffect:
    return EstimatorEffect(
        name=estimator.label,
        description=estimator.description,
        objective=estimator.objective,
        source=estimator.source,
    )


def _entry(setting: Setting, estimator: Estimator, base: Judged | None, like: Estimator | None) -> EstimatorEffect:
    fit, size, level = setting.fit, setting.group_size, setting.level
    here = estimator.for_mean(fit.mean_pass_rate)
    passed, failed = here.pair(size)
    live, parts = live_rollouts(fit, here, size, level)
    live_by_kind: ByKind | None = parts
    if estimator.batch and fit.mean_pass_rate in (0.0, 1.0):  # silent in this batch, live once one reward differs
        live, live_by_kind = Ranged(value=0.0, low=0.0, high=1.0), None
    entry = replace(
        _bare(estimator),
        same_plan_as=None if like is None else like.label,
        live=live,
        live_by_kind=live_by_kind,
        all_fail_advantage=float(failed[0]),
        all_pass_advantage=float(passed[-1]),
    )
    kappas = [float(k) for k in setting.kappa.shown()]
    if base is None:
        return replace(entry, progress=tuple(AtKappa(kappa=k, ratio=UNKNOWN) for k in kappas))
    judged = Judged.of(fit, estimator, size)
    signal, noise = shares_by_kind(fit, here, size, level)
    progress, turn = _against(setting, judged, base, kappas)
    return replace(
        entry,
        signal=judged.moments.signal,
        noise=judged.moments.noise,
        signal_by_kind=signal,
        noise_by_kind=noise,
        progress=progress,
        turn=turn,
        effect=effect_of(fit, [size], progress, level),
    )


def _against(
    setting: Setting, judged: Judged, base: Judged, kappas: list[float]
) -> tuple[tuple[AtKappa, ...], Turn | None]:
    fit, rho, size = setting.fit, setting.coherence, setting.group_size
    equal = same_plan(judged.estimator, base.estimator, size, base.mean_pass_rate) and base.moments.signal > 0.0
    turn = Turn(better="equal") if equal else turning_kappa(fit, judged, base, coherence=rho, level=setting.level)
    rows = []
    for kappa in kappas:
        ratio = (
            Ranged.exact(1.0)
            if equal
            else progress_ratio(fit, judged, base, kappa=kappa, coherence=rho, level=setting.joint_level)
        )
        noise = judged.step_noise(kappa, rho, setting.prompts_per_step)
        rows.append(AtKappa(kappa=kappa, ratio=ratio, noise_to_signal=noise))
    return tuple(rows), turn
