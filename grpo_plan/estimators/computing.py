"""`advantages`: rewards of a batch of groups to advantages, by an estimator, a trainer or a convention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grpo_plan._validate import as_float_array, as_positive, require
from grpo_plan.errors import DomainError
from grpo_plan.estimators.arithmetic import convention_values, prepared
from grpo_plan.estimators.computed import STD, Computed
from grpo_plan.estimators.conventions import Convention
from grpo_plan.estimators.preset import release
from grpo_plan.estimators.presets import Preset, find_preset, presets
from grpo_plan.estimators.registry import get_estimator, parse_estimator
from grpo_plan.estimators.result import SMALLEST_ADVANTAGE, Advantages, cancelled
from grpo_plan.estimators.rewards import (
    LARGEST_REWARD,
    Flags,
    Floats,
    GroupRewards,
    as_group_rewards,
    as_response_lengths,
    as_tolerance,
    as_weights,
    equalised,
    group_kinds,
    passes,
    spreads,
)

SAME_METHOD = {"grpo_sample": "grpo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is to be computed: the arithmetic, its settings and its name."""

    computed: Computed
    settings: dict[str, float]
    estimator: str | None
    trainer: str | None
    description: str
    notes: tuple[str, ...] = ()


def advantages(
    rewards: Any,
    estimator: str | None = None,
    *,
    std: str | None = None,
    eps: float | None = None,
    trainer: str | None = None,
    version: str | None = None,
    weights: Any = None,
    tolerance: float = 1e-8,
    pass_threshold: float | None = None,
    convention: Convention | None = None,
    lengths: Any = None,
    **parameters: Any,
) -> Advantages:
    """Advantages of the rollouts of a batch of groups (theory.md, eq. 105 to 109).

    Args:
        rewards: Shape (N, G): a row a group, a column a rollout; NaN, None or a masked entry marks failed scoring.
            (N, G, R) for R reward functions; (G,) for one group; a list of lists where groups differ in size.
        estimator: Name in the registry, settings after a colon if it has any (``passk:k=2``); ``grpo`` if neither it
            nor a trainer nor a convention is given. With a trainer: which of the trainer's estimators.
        std: ``population`` or ``sample``, for estimators that divide by a standard deviation. Default: as the registry.
        eps: Added to that standard deviation. Default 0: what cannot be divided gets 0.
        trainer: Compute as this trainer does, e.g. ``trl``.
        version: Version of the trainer, e.g. ``1.16``; default the newest that was read.
        weights: Weight of each reward function, shape (R,); default 1.
        tolerance: Rewards of a group at most this far apart count as equal: the group is dead. Without a trainer its
            rewards are then taken as equal; with one, or a convention, they are computed as they are. It must not make
            passes and fails equal.
        pass_threshold: A rollout passes when its reward is at least this. Not needed for 0/1 rewards.
        convention: Compute by this convention, instead of an estimator or a trainer.
        lengths: Tokens of each response, shape (N, G), where they count (``opo``, token whitening); a note says where
            they do not. Default: all equal.
        **parameters: Settings of the estimator, e.g. ``gamma``; with a trainer its own, e.g. ``scale_rewards="batch"``.

    Raises:
        DomainError: Rewards or settings lie outside their domain, or do not go together.

    >>> advantages([[1, 0, 0, 0], [0, 0, 0, 0]]).values.round(3).tolist()
    [[1.732, -0.577, -0.577, -0.577], [0.0, 0.0, 0.0, 0.0]]
    >>> advantages([1, 0, 0, 0], std="sample", eps=1e-4).values.round(3).tolist()
    [[1.5, -0.5, -0.5, -0.5]]
    >>> advantages([[1, 0], [0, 0]], "sign").kinds.tolist()
    ['mixed', 'all_fail']
    """
    checked = as_group_rewards(rewards)
    tolerance = as_tolerance(tolerance)
    if std is not None and std not in STD:
        raise DomainError(f"std must be population or sample; got {std!r}. Leave it out for the estimator's own.")
    if eps is not None:
        eps = _as_eps(eps)
    if pass_threshold is not None:
        pass_threshold = _finite(pass_threshold, "pass_threshold")
    chosen = _chosen(estimator, trainer, version, convention, std, eps, parameters)
    by = chosen.computed.convention
    weighed = as_weights(weights, checked.by_function.shape[2])
    long, notes = _lengths(lengths, by, checked)
    combined = checked.combined(weighed, ignored=by.partial == "ignored")
    _refuse(
        np.abs(combined) > LARGEST_REWARD, combined, f"weighted rewards must be at most {LARGEST_REWARD:g} in size",
        " Scale rewards or weights down.",
    )  # fmt: skip
    several = by.combine == "normalize_then_sum" and checked.by_function.shape[2] > 1
    with np.errstate(invalid="ignore"):
        size = spreads(np.moveaxis(checked.by_function, 2, 1)) if several else spreads(combined)[:, None]
        dead: Flags = np.asarray(~(size > tolerance).any(axis=1))
    given = combined
    if chosen.trainer is None and convention is None:
        if several:
            checked = replace(checked, by_function=equalised(checked.by_function, tolerance))
        else:
            combined = equalised(combined[:, :, None], tolerance)[:, :, 0]
            checked, weighed = replace(checked, by_function=combined[:, :, None]), np.ones(1)
    passed = passes(combined, tolerance, pass_threshold)
    apart = _told_apart(given, dead, tolerance, pass_threshold)
    values = _values(chosen, checked, weighed, long, combined, passed, pass_threshold is not None)
    gone = cancelled(values, combined, dead) if several and by.filter_tolerance is None else np.zeros_like(dead)
    return Advantages(
        values=_locked(values),
        rewards=_locked(given),
        present=_locked(checked.present),
        kinds=_locked(group_kinds(combined, dead | gone, passed)),
        estimator=chosen.estimator,
        trainer=chosen.trainer,
        convention=by,
        description=chosen.description,
        tolerance=tolerance,
        notes=(
            *chosen.notes, *notes, *apart, *_dead_but_live(chosen, given, values, dead), *_cancelled(gone),
            *_padding(checked),
        ),
    )  # fmt: skip


def _cancelled(gone: Flags) -> tuple[str, ...]:
    n = int(gone.sum())
    if not n:
        return ()
    who, where = ("group is", "it") if n == 1 else ("groups are", "them")
    return (
        f"{n} {who} dead though a reward function differs in {where}: the weighted standardised rewards of the "
        "functions cancel.",
    )


def _told_apart(given: Floats, dead: Flags, tolerance: float, pass_threshold: float | None) -> tuple[str, ...]:
    """A note on groups that hold passes and fails within the tolerance.

    Raises:
        DomainError: The rewards are 0 and 1 themselves, which no tolerance may make equal.
    """
    passed = passes(given, tolerance, pass_threshold)
    if passed is None:
        return ()
    scored = ~np.isnan(given)
    k = (passed & scored).sum(axis=1)
    both = dead & (k > 0) & (k < scored.sum(axis=1))
    if not both.any():
        return ()
    group = int(np.flatnonzero(both)[0])
    if pass_threshold is None:
        raise DomainError(
            f"tolerance must not make passes and fails equal; got {tolerance:g}, and rewards "
            f"{np.nanmin(given[group]):g} and {np.nanmax(given[group]):g} in group {group}. Pass a smaller tolerance."
        )
    n = int(both.sum())
    return (
        f"{n} group{' has' if n == 1 else 's have'} rewards on both sides of the pass threshold that count as equal "
        "within the tolerance.",
    )


def _dead_but_live(chosen: Chosen, given: Floats, values: Floats, dead: Flags) -> tuple[str, ...]:
    """A note where a trainer, which knows no tolerance, tells rewards apart that count as equal here."""
    if chosen.estimator is not None and chosen.trainer is None:
        return ()
    with np.errstate(invalid="ignore"):
        live = dead & (spreads(given) > 0) & (spreads(values) > SMALLEST_ADVANTAGE)
    n = int(live.sum())
    if not n:
        return ()
    name = chosen.trainer or chosen.computed.convention.name
    return (
        f"{n} group{' is' if n == 1 else 's are'} dead within the tolerance, yet {name} knows no tolerance and gives "
        "unequal advantages there.",
    )


def _as_eps(eps: object) -> float:
    try:
        return as_positive(eps, "eps", allow_zero=True)
    except DomainError as error:
        raise DomainError(f"{error} Pass e.g. eps=1e-4, or leave it out for none.") from None


def _values(
    chosen: Chosen, rewards: GroupRewards, weights: Floats, lengths: Floats, combined: Floats, passed: Any, given: bool
) -> Floats:
    """The arithmetic, after the rewards were found to be in its domain."""
    computed, convention = chosen.computed, chosen.computed.convention
    unit = _in_domain(computed, combined, passed, given)
    if computed.special is None:
        if computed.wants == "unit" or computed.wants == "passes":
            rewards, weights = replace(rewards, by_function=unit[:, :, None]), np.ones(1)
        return convention_values(convention, rewards, weights, lengths)
    batch = prepared(convention, rewards, weights, lengths)
    values = computed.special(batch.rewards, unit, convention, chosen.settings)
    return finished_special(values, batch.rewards, rewards, computed)


def finished_special(values: Floats, seen: Floats, rewards: GroupRewards, computed: Computed) -> Floats:
    """Failed rollouts get 0, and so do groups with one scored rollout where the group is compared with itself."""
    scored = ~np.isnan(seen)
    if computed.convention.baseline != "none":
        values = np.where((scored.sum(axis=1) < 2)[:, None], 0.0, values)
    return np.where(rewards.present, np.where(scored, values, 0.0), np.nan)


def _in_domain(computed: Computed, combined: Floats, passed: Any, given: bool) -> Floats:
    """Rewards in [0, 1], or passes where a threshold was given or they are asked for; NaN stays.

    Raises:
        DomainError: They lie outside, and no threshold says which pass.
    """
    name, wants = computed.convention.name, computed.wants
    if wants == "at_least_zero":
        _refuse(combined < 0, combined, f"{name} divides by the group's mean reward: rewards must be at least 0", "")
    if wants in ("any", "at_least_zero"):
        return combined
    advice = " Pass pass_threshold= to make them passes and fails."
    if passed is not None and (given or wants == "passes"):
        return np.where(np.isnan(combined), np.nan, passed.astype(np.float64))
    if wants == "passes":
        other = (combined != 0) & (combined != 1) & ~np.isnan(combined)
        _refuse(other, combined, f"{name}: rewards must be 0 or 1", advice)
    _refuse((combined < 0) | (combined > 1), combined, f"{name}: rewards must lie in [0, 1]", advice)
    return combined


def _refuse(bad: Any, values: Floats, rule: str, advice: str) -> None:
    if bad.any():
        group, rollout = (int(i) for i in np.argwhere(bad)[0])
        raise DomainError(f"{rule}; got {values[group, rollout]:g} at group {group}, rollout {rollout}.{advice}")


def _chosen(
    estimator: str | None,
    trainer: str | None,
    version: str | None,
    convention: Convention | None,
    std: str | None,
    eps: float | None,
    parameters: dict[str, Any],
) -> Chosen:
    if convention is not None:
        require(convention, Convention, "convention", "Build one: grpo_plan.Convention(name=..., ...).")
        if any(x is not None for x in (estimator, trainer, version, std, eps)) or parameters:
            raise DomainError("convention= says everything: give no estimator, trainer, version, std, eps or settings.")
        return Chosen(
            computed=Computed(convention=convention), settings={}, estimator=None, trainer=None,
            description=convention.words(),
        )  # fmt: skip
    if trainer is not None:
        if std is not None or eps is not None:
            raise DomainError("a trainer has its own std and eps: give trainer= alone, or std= and eps= without it.")
        preset = _preset(trainer, version, estimator, parameters)
        return Chosen(
            computed=Computed(convention=preset.convention), settings={}, estimator=preset.method,
            trainer=_trainer_label(preset, version), description=preset.convention.words(),
            notes=tuple(filter(None, (f"From {preset.source.words()}.", preset.note))),
        )  # fmt: skip
    if version is not None:
        raise DomainError("version= is of a trainer: give trainer= too, or leave it out.")
    name = "grpo" if estimator is None else estimator
    known = parse_estimator(name).computed.extras
    extras = {key: _finite(parameters.pop(key), key) for key in known if key in parameters}
    found = get_estimator(name, **parameters)
    computed = found.computed.with_spread(std, eps)
    words = found.description if std is None and eps is None else _spread_words(computed, found.description)
    return Chosen(
        computed=computed, settings={**found.parameters, **computed.extras, **extras}, estimator=found.label,
        trainer=None, description=words,
    )  # fmt: skip


def _trainer_label(preset: Preset, version: str | None) -> str:
    """The trainer and its version, and whether that is newer than what was read."""
    read = preset.source.version
    if version is None or not preset.since:
        return f"{preset.trainer} {version or read}"
    known = read.split()[0]
    try:
        newer = release(preset.trainer, version) > release(preset.trainer, known)
    except DomainError:
        newer = False
    return f"{preset.trainer} {version}" + (f" (newer than what was read: {known})" if newer else "")


def takes_passes(estimator: str | None, pass_threshold: float | None) -> bool:
    """Whether a threshold turns the rewards of this estimator of the registry into passes and fails.

    >>> takes_passes("sign", 0.5), takes_passes("sign", None), takes_passes("dr_grpo", 0.5)
    (True, False, False)
    """
    wants = parse_estimator("grpo" if estimator is None else estimator).computed.wants
    return pass_threshold is not None and wants in ("unit", "passes")


def _finite(value: Any, name: str) -> float:
    array = as_float_array(value, name)
    if array.ndim or not np.isfinite(array) or isinstance(value, bool | np.bool_):
        raise DomainError(f"{name} must be one finite number; got {value!r}. Pass e.g. {name}=1.0.")
    if abs(array) > LARGEST_REWARD:
        raise DomainError(
            f"{name} must be at most {LARGEST_REWARD:g} in size, as all rewards are; got {value:g}. Pass a smaller one."
        )
    return float(array)


def _spread_words(computed: Computed, description: str) -> str:
    if computed.special is None:
        return computed.convention.words()
    return f"{description}; here {computed.convention.scaling.words()}" if computed.convention.scaling else description


def _preset(trainer: str, version: str | None, estimator: str | None, options: dict[str, Any]) -> Preset:
    """The trainer's convention under these options; the first of its settings that is this estimator, if one is named.

    Raises:
        DomainError: Unknown trainer, version or option, or the trainer lacks the estimator.
    """
    preset = find_preset(trainer, version, **options)
    if estimator is None:
        return preset
    wanted = SAME_METHOD.get(estimator, estimator)
    if preset.method == wanted:
        return preset
    covering = [p for p in presets() if p.trainer == preset.trainer and p.covers(version or preset.source.version)]
    agreeing = [p for p in covering if all(k in p.ignored or dict(p.options).get(k) == v for k, v in options.items())]
    for one in agreeing:
        if one.method == wanted:
            return one
    known = ", ".join(dict.fromkeys(p.method for p in covering))
    where = f"{trainer} {version or preset.source.version}"
    if any(p.method == wanted for p in covering):
        raise DomainError(f"{where}: these settings give {preset.method}, not {estimator}. Leave one of them out.")
    raise DomainError(f"{where} has no estimator {estimator}; it has {known}. Leave trainer= out for the formula.")


def _lengths(lengths: Any, convention: Convention, rewards: GroupRewards) -> tuple[Floats, tuple[str, ...]]:
    shape = rewards.present.shape
    if lengths is None:
        note = "Lengths of responses count here and were not given (--lengths, lengths=): all are taken as equal."
        return np.ones(shape), (note,) if convention.needs_lengths else ()
    found = as_response_lengths(lengths, rewards.present)
    if convention.baseline == "length_weighted_mean":
        scored: Flags = np.asarray(~np.isnan(rewards.by_function).all(axis=2))
        none = scored.any(axis=1) & ~((found > 0) & scored).any(axis=1)
        if none.any():
            group = int(np.flatnonzero(none)[0])
            raise DomainError(
                f"lengths must be above 0 for some scored rollout of each group, as {convention.name} weighs by them; "
                f"got 0 for all of group {group}. Leave that group out."
            )
    note = f"Lengths of responses do not count in {convention.name}."
    return found, () if convention.needs_lengths else (note,)


def _padding(rewards: GroupRewards) -> tuple[str, ...]:
    if rewards.present.all():
        return ()
    sizes = rewards.present.sum(axis=1)
    return (f"Groups have {sizes.min()} to {sizes.max()} rollouts; shorter rows end in NaN, which is no rollout.",)


def _locked(array: Any) -> Any:
    out = np.array(array)
    out.setflags(write=False)
    return out
