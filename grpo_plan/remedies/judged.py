"""Every estimator of the registry on one pilot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from grpo_plan.errors import DomainError
from grpo_plan.estimators import ESTIMATORS, Estimator, get_estimator
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.remedies.kinds import live_rollouts, shares_by_kind
from grpo_plan.remedies.progress import Judged, effect_of, progress_ratio, same_plan, side_by_side
from grpo_plan.remedies.result import AtKappa, ByKind, EstimatorEffect, Ranged, Turn
from grpo_plan.remedies.sampling import Setting
from grpo_plan.remedies.turns import turning_kappa

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


def own_plans(fit: PassRateFit, group_size: int, estimators: Iterable[Estimator]) -> int:
    """How many of the estimators can be judged and differ by more than a factor from all before them."""
    kept: list[Estimator] = []
    for estimator in estimators:
        if not _refusal(fit, estimator, group_size) and _like(fit, kept, estimator, group_size) is None:
            kept.append(estimator)
    return len(kept)


def _refusal(fit: PassRateFit, estimator: Estimator, group_size: int) -> str:
    """Why an estimator cannot be judged; empty if it can."""
    mean = fit.mean_pass_rate
    try:
        pair = estimator.for_mean(mean).pair(group_size)
    except DomainError as error:
        return str(error)
    if not all(np.isfinite(side).all() for side in pair):
        return f"It divides by the spread of the batch, and all rewards are {mean:g} here."
    return ""


def _like(fit: PassRateFit, kept: Iterable[Estimator], estimator: Estimator, group_size: int) -> Estimator | None:
    """An earlier one whose advantages are a multiple of these."""
    return next((e for e in kept if same_plan(e, estimator, group_size, fit.mean_pass_rate)), None)


def estimator_effects(setting: Setting, estimators: tuple[Estimator, ...]) -> tuple[EstimatorEffect, ...]:
    """One entry for each; those whose advantages are a multiple of an earlier one's share its numbers."""
    fit, size = setting.fit, setting.group_size
    known = fit.group_value("dead", size) is not None
    kept: list[Estimator] = []
    found = []
    for estimator in estimators:
        if refused := _refusal(fit, estimator, size):
            found.append(replace(_bare(estimator), refused=refused))
            continue
        found.append(_entry(setting, estimator, known, _like(fit, kept, estimator, size)))
        kept.append(estimator)
    return tuple(found)


def _bare(estimator: Estimator) -> EstimatorEffect:
    return EstimatorEffect(
        name=estimator.label,
        description=estimator.description,
        objective=estimator.objective,
        source=estimator.source,
    )


def _entry(setting: Setting, estimator: Estimator, known: bool, like: Estimator | None) -> EstimatorEffect:
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
    if not known:
        return replace(entry, progress=tuple(AtKappa(kappa=k, ratio=UNKNOWN) for k in kappas))
    judged = Judged.of(fit, estimator, size)
    signal, noise = shares_by_kind(fit, here, size, level)
    progress, turn = _against(setting, judged, kappas)
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


def _against(setting: Setting, judged: Judged, kappas: list[float]) -> tuple[tuple[AtKappa, ...], Turn | None]:
    fit, rho, size = setting.fit, setting.coherence, setting.group_size
    one, base = side_by_side(fit, (judged.estimator, size), (setting.reference, size))
    equal = same_plan(judged.estimator, base.estimator, size, base.mean_pass_rate) and base.moments.signal > 0.0
    turn = (
        Turn(better="equal")
        if equal
        else turning_kappa(fit, one, base, coherence=rho, level=setting.level, shown=kappas)
    )
    rows = []
    for kappa in kappas:
        ratio = (
            Ranged.exact(1.0)
            if equal
            else progress_ratio(fit, one, base, kappa=kappa, coherence=rho, level=setting.joint_level)
        )
        noise = judged.step_noise(kappa, rho, setting.prompts_per_step)
        rows.append(AtKappa(kappa=kappa, ratio=ratio, noise_to_signal=noise))
    return tuple(rows), turn
