"""Other ways to draw the rollouts of a step: refill, group sizes, hints, variants (theory.md, eq. 120 to 122)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grpo_plan.errors import DomainError
from grpo_plan.estimators import Estimator
from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.signal import KappaRange
from grpo_plan.remedies.hints import Hint, hinted_parts
from grpo_plan.remedies.means import clipped, functional_value
from grpo_plan.remedies.progress import effect_of, progress_ratio, side_by_side
from grpo_plan.remedies.result import AtKappa, Ranged, SamplingEffect, Turn
from grpo_plan.remedies.turns import turning_kappa
from grpo_plan.remedies.variants import pooled_parts

SURELY_DEAD = 1.0 - 1e-12  # 1 to within rounding
HINT_UNKNOWN = (
    "Assumed: {words}; the pilot says nothing of it. What a hinted group teaches for the prompt without its hint is "
    "not counted."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all rows share."""

    fit: PassRateFit
    group_size: int
    reference: Estimator
    kappa: KappaRange
    coherence: float
    prompts_per_step: int | None
    level: float
    joint_level: float


def sampling_effects(
    setting: Setting, sizes: Iterable[int], hint: Hint | None, variants: int | None, spread: float
) -> tuple[SamplingEffect, ...]:
    """The sampling of now, then each change of it."""
    rows = [_grouped(setting, setting.group_size, "now", ""), _refill(setting)]
    for size in sizes:
        rows.append(_grouped(setting, size, f"G = {size}", ""))
    if hint is not None:
        rows.append(_hinted(setting, hint))
    if variants is not None:
        rows.append(_pooled(setting, variants, spread))
    return tuple(rows)


def per_mixed(rollouts: Ranged, dead: Ranged) -> Ranged:
    """Rollouts drawn for one mixed group, ``R / (1 - D)``, each limit from the ends that make it so (eq. 122)."""

    def of(drawn: float | None, share: float | None) -> float | None:
        return None if drawn is None or share is None or share >= SURELY_DEAD else drawn / (1.0 - share)

    return Ranged(
        value=of(rollouts.value, dead.value),
        low=of(rollouts.low, dead.low) or float("inf"),
        high=of(rollouts.high, dead.high),
    )


def per_step(setting: Setting, per_group: Ranged) -> Ranged | None:
    """Mixed groups of a step, at the rollouts of a step of now."""
    if setting.prompts_per_step is None:
        return None
    budget = float(setting.prompts_per_step * setting.group_size)
    high = budget / per_group.low
    return Ranged(
        value=None if per_group.value is None else budget / per_group.value,
        low=0.0 if per_group.high is None else budget / per_group.high,
        high=high,
    )


def beside_now(setting: Setting, size: int) -> tuple[tuple[AtKappa, ...], Turn | None]:
    """Progress of the reference estimator with other groups, at equal rollouts, and where the order turns."""
    fit, rho, n = setting.fit, setting.coherence, setting.prompts_per_step
    prompts = None if n is None else max(1, round(n * setting.group_size / size))
    kappas = [float(k) for k in setting.kappa.shown()]
    unknown = Ranged(value=None, low=0.0, high=None)
    if fit.group_value("dead", size) is None or fit.group_value("dead", setting.group_size) is None:
        return tuple(AtKappa(kappa=k, ratio=unknown) for k in kappas), None
    base, other = side_by_side(fit, (setting.reference, setting.group_size), (setting.reference, size))
    same = size == setting.group_size
    rows = []
    for k in kappas:
        if same:
            ratio = Ranged.exact(1.0) if base.moments.signal > 0.0 else unknown
        else:
            ratio = progress_ratio(fit, other, base, kappa=k, coherence=rho, level=setting.joint_level)
        rows.append(AtKappa(kappa=k, ratio=ratio, noise_to_signal=other.step_noise(k, rho, prompts)))
    turn = None if same else turning_kappa(fit, other, base, coherence=rho, level=setting.level, shown=kappas)
    return tuple(rows), turn


def _grouped(setting: Setting, size: int, name: str, comment: str) -> SamplingEffect:
    d = setting.fit.dead(size, setting.level)
    dead = clipped(d.value, d.low, d.high)
    cost = per_mixed(Ranged.exact(float(size)), dead)
    progress, turn = beside_now(setting, size)
    return SamplingEffect(
        name=name,
        group_size=size,
        rollouts=Ranged.exact(float(size)),
        dead=dead,
        all_fail=clipped(d.all_fail, *d.all_fail_interval),
        all_pass=clipped(d.all_pass, *d.all_pass_interval),
        rollouts_per_mixed=cost,
        mixed_per_step=per_step(setting, cost),
        progress=progress,
        turn=turn,
        effect=None
        if size == setting.group_size
        else effect_of(setting.fit, [size, setting.group_size], progress, setting.level),
        status=d.status,
        comment=comment,
    )


def _refill(setting: Setting) -> SamplingEffect:
    """Dynamic sampling: dead groups are replaced, at the cost of drawing more prompts."""
    now = _grouped(setting, setting.group_size, "refill", "")
    none = Ranged.exact(0.0)
    prompts = per_mixed(Ranged.exact(1.0), now.dead)
    value = "unknown" if prompts.value is None else f"{prompts.value:.2f}"
    high = "no upper limit" if prompts.high is None else f"{prompts.high:.2f}"
    centred = setting.reference.centred
    progress = now.progress if centred else None
    why = (
        "full batches, and no more progress per rollout, as dead groups add nothing to a centred step either way."
        if centred
        else f"full batches. It takes away what dead groups add to a step of {setting.reference.label}: not judged."
    )
    return SamplingEffect(
        name="refill",
        group_size=now.group_size,
        rollouts=now.rollouts_per_mixed,
        dead=none,
        all_fail=none,
        all_pass=none,
        rollouts_per_mixed=now.rollouts_per_mixed,
        mixed_per_step=now.mixed_per_step,
        progress=progress,
        turn=None,
        effect=None if progress is None else effect_of(setting.fit, [now.group_size], progress, setting.level),
        status=now.status,
        comment=f"{value} [{prompts.low:.2f}, {high}] prompts drawn for each kept: {why}",
        command="grpo-plan refill",
    )


def _ranged(setting: Setting, functional: Functional, value: float | None) -> Ranged:
    low, high = setting.fit.limits_of(functional, setting.level)
    return clipped(value, low, high)


def _hinted(setting: Setting, hint: Hint) -> SamplingEffect:
    fit, size = setting.fit, setting.group_size
    now = _grouped(setting, size, "now", "")
    parts = hinted_parts(hint, size)
    drawn = _ranged(setting, parts["again"], _times(now.all_fail.value, hint.share if hint.when == "all-fail" else 0.0))
    values = {kind: _changed(fit, parts, kind, now) for kind in ("dead", "all-fail", "all-pass")}
    dead = _ranged(setting, parts["dead"], values["dead"])
    rollouts = Ranged(
        value=None if drawn.value is None else size * (1.0 + hint.tries * drawn.value),
        low=size * (1.0 + hint.tries * drawn.low),
        high=size * (1.0 + hint.tries * (1.0 if drawn.high is None else drawn.high)),
    )
    cost = per_mixed(rollouts, dead)
    when = "drawn again after an all-fail group" if hint.when == "all-fail" else "from the start"
    tries = "" if hint.tries == 1 else f", {hint.tries} hints tried"
    return SamplingEffect(
        name="hint",
        group_size=size,
        rollouts=rollouts,
        dead=dead,
        all_fail=_ranged(setting, parts["all-fail"], values["all-fail"]),
        all_pass=_ranged(setting, parts["all-pass"], values["all-pass"]),
        rollouts_per_mixed=cost,
        mixed_per_step=per_step(setting, cost),
        progress=None,
        turn=None,
        effect=None,
        status=now.status,
        comment=HINT_UNKNOWN.format(words=f"{hint.words}, {when}{tries}"),
    )


def _changed(fit: PassRateFit, parts: dict[str, Functional], kind: str, now: SamplingEffect) -> float | None:
    """The value of now, plus what the likely law says that the hint changes."""
    before = {"dead": now.dead, "all-fail": now.all_fail, "all-pass": now.all_pass}[kind].value
    after = functional_value(fit, parts[kind])
    if before is None or after is None:
        return None
    rates = fit.likely_rates
    of = {
        "dead": rates.all_fail(now.group_size) + rates.all_pass(now.group_size),
        "all-fail": rates.all_fail(now.group_size),
        "all-pass": rates.all_pass(now.group_size),
    }[kind]
    return min(max(before + after - of, 0.0), 1.0)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _pooled(setting: Setting, variants: int, spread: float) -> SamplingEffect:
    size = setting.group_size * variants
    if variants == 1:
        raise DomainError("variants must be at least 2: one variant of a prompt is the prompt. Leave the option out.")
    what = f"{variants} variants of each prompt, {setting.group_size} rollouts each, in one group of {size}"
    if spread == 0.0:
        return _grouped(setting, size, "variants", f"{what}. Assumed: all variants of a prompt have its pass rate.")
    fit = setting.fit
    found = {}
    for kind, functional in pooled_parts(setting.group_size, variants, spread).items():
        found[kind] = _ranged(setting, functional, functional_value(fit, functional))
    dead = found["dead"]
    cost = per_mixed(Ranged.exact(float(size)), dead)
    status = fit.status_at(size, dead.value, (dead.low, 1.0 if dead.high is None else dead.high))
    return SamplingEffect(
        name="variants",
        group_size=size,
        rollouts=Ranged.exact(float(size)),
        dead=dead,
        all_fail=found["all-fail"],
        all_pass=found["all-pass"],
        rollouts_per_mixed=cost,
        mixed_per_step=per_step(setting, cost),
        progress=None,
        turn=None,
        effect=None,
        status=FitStatus.UNKNOWN if dead.value is None else status,
        comment=f"{what}. Assumed: the logit of a variant's pass rate is that of the prompt plus noise of standard "
        f"deviation {spread:g}. The step that such a group gives is not judged.",
    )
