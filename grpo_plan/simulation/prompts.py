"""The prompts of a simulation: where they start, and their directions in the shared parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_probability
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates import BetaPassRates, DiscretePassRates
from grpo_plan.pilot import Pilot
from grpo_plan.simulation.settings import SimulatedPolicy

Floats = NDArray[np.float64]
Source = PassRateFit | Pilot | BetaPassRates | DiscretePassRates | ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptSet:
    """Prompts with their starting logits and their shared directions.

    Attributes:
        start: Logit of the pass rate at the start, shape (M,); minus or plus infinity where p stays 0 or 1.
        features: Unit vectors in the shared parameters, shape (M, d).
    """

    start: Floats
    features: Floats


def as_rates(source: Source) -> DiscretePassRates | BetaPassRates:
    """Pass rates to draw from: of a fit, a pilot (fitted first), a distribution or a list, each of which is as likely.

    Raises:
        DomainError: A list without pass rates, or values outside [0, 1].
        PilotError: A pilot without its dead groups, or with one rollout per prompt.
    """
    if isinstance(source, Pilot):
        source = fit_pass_rates(source)
    if isinstance(source, PassRateFit):
        source.require_all_groups("A simulation")
        if FitStatus.SINGLE_ROLLOUT in source.statuses:
            raise PilotError(
                "A simulation needs to know how pass rates differ between prompts; the pilot has one rollout per "
                "prompt, which shows their mean only. Take at least 2 rollouts per prompt, better 8."
            )
        return source.likely_rates
    if isinstance(source, BetaPassRates | DiscretePassRates):
        return source
    if _holds_no_numbers(source):
        raise DomainError(
            "pass rates must be numbers in [0, 1]; got True, False or text among them. Of rollouts, give a Pilot; of "
            "prompts that always pass, 1.0."
        )
    p = as_probability(source, "pass rates")
    if p.ndim != 1 or p.size == 0:
        raise DomainError(f"A list of pass rates needs one dimension and at least one prompt; got shape {p.shape}.")
    return DiscretePassRates(passing=p, failing=1.0 - p, masses=np.full(p.size, 1.0 / p.size))


def _holds_no_numbers(source: object) -> bool:
    """Whether a list has booleans or text, which numpy would take for numbers."""
    items = source if isinstance(source, list | tuple) else [source]
    return any(isinstance(x, bool | str | bytes) or np.asarray(x).dtype.kind in "bSUMm" for x in items)


def is_list(source: Source) -> bool:
    """Whether the source is a list of prompts that is trained on as it is."""
    return not isinstance(source, Pilot | PassRateFit | BetaPassRates | DiscretePassRates)


def logit(passing: Floats, failing: Floats) -> Floats:
    """``log(p / (1 - p))`` from p and 1 - p, each with its own digits; infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        value: Floats = np.log(passing) - np.log(failing)
    return value


def draw_prompts(
    source: Source, rates: DiscretePassRates | BetaPassRates, model: SimulatedPolicy, rng: np.random.Generator
) -> tuple[PromptSet, PromptSet]:
    """Prompts to train on, and held-out ones."""
    train = logit_of_list(rates) if is_list(source) else _draw(rates, model.prompts, rng)
    held = _draw(rates, model.held_out, rng)
    common = np.zeros(model.dimension)
    common[0] = 1.0
    sets = []
    for start in (train, held):
        if model.end_logit is not None:
            start = np.clip(start, -model.end_logit, model.end_logit)
        sets.append(PromptSet(start=start, features=_features(start.size, common, model.coherence, rng)))
    return sets[0], sets[1]


def logit_of_list(rates: DiscretePassRates | BetaPassRates) -> Floats:
    """Logits of a list, in its order."""
    if isinstance(rates, BetaPassRates):
        raise DomainError("A Beta is no list of prompts.")
    return logit(rates.passing, rates.failing)


def _draw(rates: DiscretePassRates | BetaPassRates, prompts: int, rng: np.random.Generator) -> Floats:
    if isinstance(rates, DiscretePassRates):
        points = rng.choice(rates.masses.size, size=prompts, p=rates.masses / rates.masses.sum())
        return logit(rates.passing[points], rates.failing[points])
    if rates.shape is not None:
        a, b = rates.shape
        return _log_gamma(a, prompts, rng) - _log_gamma(b, prompts, rng)
    p = np.full(prompts, rates.mean)
    if rates.correlation == 1.0:
        p = (rng.random(prompts) < rates.mean).astype(np.float64)
    return logit(p, 1.0 - p)


def _log_gamma(shape: float, size: int, rng: np.random.Generator) -> Floats:
    """Log of a Gamma variate, also where the variate itself underflows: Gamma(a) = Gamma(a + 1) U^(1/a)."""
    value: Floats = np.log(rng.standard_gamma(shape + 1.0, size)) - rng.standard_exponential(size) / shape
    return value


def _features(prompts: int, common: Floats, coherence: float, rng: np.random.Generator) -> Floats:
    """Unit vectors ``sqrt(c) e + sqrt(1 - c) v`` with v uniform on the sphere at right angles to e."""
    rest = rng.standard_normal((prompts, common.size))
    rest -= np.outer(rest @ common, common)
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    features: Floats = np.sqrt(coherence) * common + np.sqrt(1.0 - coherence) * rest
    return features
