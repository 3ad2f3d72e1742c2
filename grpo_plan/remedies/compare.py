"""Remedies for dead groups, side by side on one pilot."""

from __future__ import annotations

from collections.abc import Iterable

from grpo_plan._validate import as_count, as_level, as_positive, require
from grpo_plan.errors import DomainError
from grpo_plan.estimators import get_estimator
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.planned_kappa import planned_kappa
from grpo_plan.planning.signal import DEFAULT_KAPPA, KappaRange, as_coherence
from grpo_plan.remedies.hints import Hint
from grpo_plan.remedies.judged import chosen_estimators, estimator_effects, own_plans
from grpo_plan.remedies.result import EstimatorEffect, RemedyComparison
from grpo_plan.remedies.sampling import Setting, sampling_effects
from grpo_plan.remedies.variants import MAX_SPREAD
from grpo_plan.remedies.verdict import assumptions, claims, elsewhere, verdict

LARGEST_GROUP = 4096


def compare_remedies(
    fit: PassRateFit,
    group_size: int,
    *,
    kappa: KappaMeasurement | KappaRange | tuple[float, float] | float = DEFAULT_KAPPA,
    coherence: float = 0.0,
    prompts_per_step: int | None = None,
    estimators: Iterable[str] | None = None,
    reference: str = "rloo",
    group_sizes: Iterable[int] | None = None,
    hint: Hint | None = None,
    variants: int | None = None,
    variant_spread: float = 0.0,
    level: float = 0.95,
) -> RemedyComparison:
    """What estimators, refill, other group sizes, hints and pooled variants would do (theory.md, eq. 117 to 122).

    Args:
        fit: Fitted pass rates of the current policy; all its groups must be there.
        group_size: G of now, 2 to 4,096.
        kappa: Score noise over contrast: what a probe found, a value, or a range. It often decides.
        coherence: Mean cosine between the gradients of two prompts; 0 unless measured.
        prompts_per_step: Groups of a step, for numbers of mixed groups.
        estimators: Names to compare; default every name of `grpo_plan.estimators.ESTIMATORS`.
        reference: Estimator that the others are compared with.
        group_sizes: Other group sizes to show; default half, twice and four times G.
        hint: What a hint is taken to do; None leaves hints out.
        variants: Variants of a prompt whose rollouts form one group, the prompt itself included; None leaves them out.
        variant_spread: Standard deviation of the logit of a variant's pass rate about that of the prompt.
        level: Confidence level.

    Raises:
        DomainError: An unknown name or a number outside its domain.
        PilotError: The pilot lacks its dead groups.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> found = compare_remedies(fit, 4, kappa=10.0, estimators=["rloo", "sign"])
    >>> found.estimator("sign").live.value, found.estimator("sign").effect.name
    (1.0, 'DOES_NOT_HELP')
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    fit.require_all_groups("A comparison of remedies")
    size = as_count(group_size, "group_size", minimum=2, maximum=LARGEST_GROUP)
    share, rho = as_level(level), as_coherence(coherence)
    prompts = None if prompts_per_step is None else as_count(prompts_per_step, "prompts_per_step")
    if hint is not None:
        require(hint, Hint, "hint", "Give Hint(odds=3.0) or Hint(gain=0.2).")
    spread = as_positive(variant_spread, "variant_spread", allow_zero=True)
    if spread > MAX_SPREAD:
        raise DomainError(f"variant_spread must be at most {MAX_SPREAD:g}; got {spread:g}.")
    if spread and variants is None:
        raise DomainError(
            f"variant_spread needs variants; got a spread of {spread:g} alone. Give variants=4 or the like."
        )
    pooled = None if variants is None else as_count(variants, "variants", minimum=2, maximum=LARGEST_GROUP // size)
    led_by = get_estimator(reference)
    if size < led_by.min_group_size:
        raise DomainError(
            f"reference: {led_by.label} needs groups of at least {led_by.min_group_size} rollouts; got {size}. Take "
            "another reference, e.g. rloo."
        )
    sizes = _other_sizes(size, group_sizes, led_by.min_group_size)
    kappas = planned_kappa(kappa, fit)
    chosen = chosen_estimators(estimators, reference)
    larger = {size * pooled} if pooled is not None and spread == 0.0 else set()
    compared = own_plans(fit, size, chosen) - 1 + len({*sizes, *larger})
    comparisons = max(1, compared * kappas.shown().size)
    setting = Setting(
        fit=fit,
        group_size=size,
        reference=led_by,
        kappa=kappas,
        coherence=rho,
        prompts_per_step=prompts,
        level=share,
        joint_level=1.0 - (1.0 - share) / comparisons,
    )
    found = estimator_effects(setting, chosen)
    sampling = sampling_effects(setting, sizes, hint, pooled, spread)
    dead = fit.dead(size, share)
    return RemedyComparison(
        group_size=size,
        reference=led_by.label,
        level=share,
        kappa=kappas,
        coherence=rho,
        prompts_per_step=prompts,
        dead=dead,
        estimators=found,
        sampling=sampling,
        verdict=verdict(fit, dead, led_by.label, found, sampling, kappas),
        elsewhere=elsewhere(fit, size, hint is not None, pooled is not None),
        claims=claims(found),
        assumptions=assumptions(fit, kappas, kappa, rho, comparisons, _least_noise(found)),
        fit=fit,
    )


def _least_noise(found: tuple[EstimatorEffect, ...]) -> float | None:
    noises = [at.noise_to_signal for e in found for at in e.progress if at.noise_to_signal is not None]
    return min(noises, default=None)


def _other_sizes(size: int, given: Iterable[int] | None, least: int) -> tuple[int, ...]:
    if given is None:
        sizes = {g for g in (size // 2, 2 * size, 4 * size) if least <= g <= LARGEST_GROUP}
    else:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise DomainError(f"group_sizes must be a list of whole numbers; got {given!r}.")
        sizes = {as_count(g, "group_size", minimum=least, maximum=LARGEST_GROUP) for g in given}
    return tuple(sorted(sizes - {size}))
