"""What a measurement of kappa says: the best group size, kappa and the noise of a step, with limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_positive, require
from grpo_plan.errors import PilotError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.gradients import MeanGradientSquare, noise_to_signal
from grpo_plan.planning.kappa_file import body_of, check, read, write
from grpo_plan.planning.kappa_lines import (
    Line,
    PassMoments,
    kappa_equation,
    moments_of_counts,
    proportional,
    ratio_equation,
)
from grpo_plan.planning.pivot import Resampled, prompt_interval, quantiles, resample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ENOUGH_LIVE_PROMPTS = 30
CURVED = 0.1  # largest relative distance of a mean from the line
CURVED_P = 0.01


class KappaStatus(Enum):
    """What limits a measurement; each member holds a sentence."""

    OK = "Both ends of the interval are measured."
    NO_SPREAD = (
        "The squared norms of all prompts stand in one ratio, so that resampling prompts shows no error: the limits "
        "are not an interval. Give one number a prompt, as measured, of two or more prompts with a gradient."
    )
    NO_INTERCEPT = (
        "The squared norms fall at least as fast as 1/(G-1): only noise is seen, and G* has a lower limit alone. "
        "Measure on more prompts."
    )
    OPEN_ABOVE = "The data do not exclude that only noise is seen: no upper limit. Measure on more prompts."
    NO_NOISE = "No score noise is seen beyond what the rewards explain: kappa may be 0, and small groups are best."
    FEW_PROMPTS = f"Fewer than {ENOUGH_LIVE_PROMPTS} prompts had a group with a gradient: take the interval as rough."
    CURVED = "The means are not on a line in 1/(G-1): G* far outside the sizes measured is not to be trusted."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number with its limits.

    Attributes:
        value: The estimate; None where it is not finite (it lies above ``low``).
        low: Lower confidence limit.
        high: Upper confidence limit; None where there is none.
        standard_error: Bootstrap standard error over prompts; None if unknown.
    """

    value: float | None
    low: float
    high: float | None
    standard_error: float | None = None

    def __str__(self) -> str:
        """Value and limits."""
        value = "unknown" if self.value is None else f"{self.value:.3g}"
        return f"{value} [{self.low:.3g}, {'no limit' if self.high is None else f'{self.high:.3g}'}]"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KappaMeasurement(Shown):
    """What the squared norms of single-group gradients say of kappa and of the best group size.

    Attributes:
        group_sizes: Group sizes measured, rising, shape (K,).
        squared_norms: Mean squared norm of the RLOO gradient of one group, by prompt and size, shape (M, K).
        passes: Passes of each prompt among its scored rollouts, shape (M,), or None.
        scored: Scored rollouts of each prompt, shape (M,), or None.
        pilot_moments: ``E[pq]`` and ``E[p**2 q**2]`` of a pilot; they are used before those of ``passes``.
        mean_gradient_square: ``|E g|**2``, or None: then the noise of a step is unknown.
        level: Confidence level of all limits.
        resamples: Bootstrap resamples of prompts.
        seed: Seed of the resamples.
        notes: What else a reader should know.
    """

    group_sizes: tuple[int, ...]
    squared_norms: Floats = field(repr=False)
    passes: Ints | None = field(default=None, repr=False)
    scored: Ints | None = field(default=None, repr=False)
    pilot_moments: PassMoments | None = None
    mean_gradient_square: MeanGradientSquare | None = None
    level: float = 0.95
    resamples: int = 2000
    seed: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Lock the arrays."""
        for name in ("squared_norms", "passes", "scored"):
            array = getattr(self, name)
            if array is not None:
                array = array.copy()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    @property
    def prompts(self) -> int:
        """Prompts measured, dead groups included."""
        return int(self.squared_norms.shape[0])

    @property
    def live_prompts(self) -> int:
        """Prompts with a gradient: at least two different rewards."""
        return int(np.any(self.squared_norms != 0.0, axis=1).sum())

    @property
    def mean_squared_norms(self) -> tuple[float, ...]:
        """Mean squared norm of one group at each size: ``E|ghat|**2``."""
        return tuple(float(x) for x in self.squared_norms.mean(axis=0))

    @cached_property
    def intercept(self) -> Measured:
        """Limit of ``E|ghat|**2`` at large G: what prompts differ in (theory.md, eq. 49)."""
        return self._mean(0)

    @cached_property
    def slope(self) -> Measured:
        """Growth of ``E|ghat|**2`` with ``1 / (G - 1)``: the noise of rollouts (theory.md, eq. 49)."""
        return self._mean(1)

    @cached_property
    def ratio(self) -> Measured:
        """``slope / intercept``: value None where the intercept is not above 0 (theory.md, eq. 49)."""
        data = self._resampled
        intercept, slope = data.means[0]
        value = max(float(slope / intercept), 0.0) if intercept > 0.0 else None
        error = None
        if np.all(data.means[:, 0] > 0.0):
            error = float((data.means[1:, 1] / data.means[1:, 0]).std())
        low, high = prompt_interval(
            self._per_prompt,
            ratio_equation,
            self.level,
            estimate=value,
            scale=self._scale,
            resamples=self.resamples,
            rng=np.random.default_rng([self.seed, 0]),
        )
        return Measured(value=value, low=low, high=high, standard_error=error)

    @cached_property
    def kappa(self) -> Measured | None:
        """Kappa in the sense of eq. 25, or None: rewards unknown or not 0/1, and no fit given (theory.md, eq. 49)."""
        if self.pilot_moments is not None:
            return self._kappa_with(self.pilot_moments)
        if self.passes is None or self.scored is None:
            return None
        return self._kappa_with(None)

    @property
    def kappa_source(self) -> str | None:
        """Whose pass rates turned the ratio into kappa: "fit", "rewards" or None."""
        if self.pilot_moments is not None:
            return "fit"
        return None if self.passes is None else "rewards"

    def kappa_for(self, fit: PassRateFit) -> Measured:
        """Kappa with the pass rates of a pilot: of the same policy, on the same kind of prompts.

        Raises:
            PilotError: The pilot has fewer than 2 prompts with 4 rollouts.
        """
        require(fit, PassRateFit, "fit", "Make one with fit_pass_rates.")
        if fit.removed is not None:
            fit.require_all_groups("A measured kappa")
        return self._kappa_with(PassMoments.of(fit.pilot))

    def group_size(self, prompt_rollouts: float = 0.0) -> Measured:
        """Best group size ``1 + sqrt((1 + c0) slope / intercept)`` (theory.md, eq. 49).

        It needs neither kappa nor pass rates.

        Args:
            prompt_rollouts: c0, fixed cost of a prompt in rollouts.
        """
        cost = 1.0 + as_positive(prompt_rollouts, "prompt_rollouts", allow_zero=True)
        r = self.ratio
        value, high = (None if x is None else 1.0 + (cost * x) ** 0.5 for x in (r.value, r.high))
        error = None
        if r.standard_error is not None and r.value:
            error = 0.5 * (cost / r.value) ** 0.5 * r.standard_error
        return Measured(value=value, low=1.0 + (cost * r.low) ** 0.5, high=high, standard_error=error)

    def noise_to_signal(self, prompts_per_step: int, group_size: int) -> Measured | None:
        """Noise-to-signal ratio of a step; None (unknown) without `mean_gradient_square` (theory.md, eq. 51).

        Args:
            prompts_per_step: N, at least 1.
            group_size: G, at least 2; its squared norm is read off the line.
        """
        n = as_count(prompts_per_step, "prompts_per_step")
        g = as_count(group_size, "group_size", minimum=2)
        if self.mean_gradient_square is None:
            return None
        towards = np.array([1.0, 1.0 / (g - 1)])
        data = self._resampled
        square = float(data.means[0] @ towards)
        error = float(np.sqrt(max(towards @ data.covariances[0] @ towards, 0.0)))
        value, low, high = noise_to_signal(square, error, self.mean_gradient_square, n, self.level)
        return Measured(value=value, low=low, high=high)

    @cached_property
    def misfit(self) -> float | None:
        """Largest distance of a mean from the line, relative to it; None with two sizes, which fix the line."""
        return self._line.misfit(self.squared_norms.mean(axis=0))

    @cached_property
    def misfit_p(self) -> float | None:
        """Chance of deviations this large if the means were on the line; None with two sizes."""
        return self._line.misfit_p(self.squared_norms)

    @cached_property
    def statuses(self) -> tuple[KappaStatus, ...]:
        """Everything that limits the measurement, gravest first; ``(KappaStatus.OK,)`` if nothing does."""
        found = []
        if proportional(self._per_prompt):
            found.append(KappaStatus.NO_SPREAD)
        if self.intercept.value is not None and self.intercept.value <= 0.0:
            found.append(KappaStatus.NO_INTERCEPT)
        elif self.ratio.high is None:
            found.append(KappaStatus.OPEN_ABOVE)
        if self.ratio.value == 0.0 or (self.kappa is not None and self.kappa.value == 0.0):
            found.append(KappaStatus.NO_NOISE)
        if self.live_prompts < ENOUGH_LIVE_PROMPTS:
            found.append(KappaStatus.FEW_PROMPTS)
        if self.misfit is not None and self.misfit > CURVED and (self.misfit_p or 0.0) < CURVED_P:
            found.append(KappaStatus.CURVED)
        return tuple(found) or (KappaStatus.OK,)

    @property
    def status(self) -> KappaStatus:
        """The gravest of ``statuses``."""
        return self.statuses[0]

    def __str__(self) -> str:
        """The answer in three lines."""
        kappa = "unknown (needs 0/1 rewards or a pilot)" if self.kappa is None else str(self.kappa)
        sizes = ", ".join(map(str, self.group_sizes))
        lines = [
            f"kappa   {kappa}",
            f"Best G  {self.group_size()} where a prompt costs nothing",
            f"From    {self.prompts:,} prompts ({self.live_prompts:,} with a gradient), sub-groups of {sizes}; "
            f"{100 * self.level:g} % limits",
        ]
        return "\n".join(lines + [f"Status  {s.name}: {s.sentence}" for s in self.statuses])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the measurement as one JSON object (docs/json.md)."""
        write(path, body_of(self))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> KappaMeasurement:
        """Read what `save` wrote; the results are computed again from the squared norms in the file.

        Raises:
            PilotFormatError: The file is missing, is no measurement, or its results are not those of its data.
        """
        measurement = cls(**read(path))
        check(path, measurement)
        return measurement

    # ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _line(self) -> Line:
        return Line.through(self.group_sizes)

    @cached_property
    def _per_prompt(self) -> Floats:
        """Intercept and slope of each prompt, shape (M, 2)."""
        return self.squared_norms @ self._line.weights.T

    @cached_property
    def _resampled(self) -> Resampled:
        return resample(self._per_prompt, self.resamples, np.random.default_rng(self.seed))

    @cached_property
    def _scale(self) -> float:
        """Size of the ratio, also where its parts are not told from 0."""
        (intercept, slope), errors = self._resampled.means[0], np.sqrt(np.diag(self._resampled.covariances[0]))
        top = max(abs(slope), errors[1])
        bottom = max(abs(intercept), errors[0])
        return float(top / bottom) if top > 0.0 and bottom > 0.0 else 1.0

    def _mean(self, column: int) -> Measured:
        """A mean over prompts with bootstrap-t limits."""
        data = self._resampled
        value = float(data.means[0, column])
        errors = np.sqrt(np.maximum(data.covariances[:, column, column], 0.0))
        moved = data.means[1:, column] - value
        with np.errstate(divide="ignore", invalid="ignore"):
            studentised = np.where(moved == 0.0, 0.0, moved / errors[1:])
        low, high = quantiles(studentised, self.level)
        return Measured(
            value=value,
            low=float(value - high * errors[0]) if np.isfinite(high) else 0.0,
            high=float(value - low * errors[0]) if np.isfinite(low) else None,
            standard_error=float(data.means[1:, column].std()),
        )

    def _kappa_with(self, moments: PassMoments | None) -> Measured:
        values, beside = self._per_prompt, None
        rng = np.random.default_rng([self.seed, 1])
        if moments is not None:
            beside = np.array(moments.means), np.array(moments.covariance)
        elif self.passes is None or self.scored is None:
            raise PilotError("kappa needs 0/1 rewards or a fit; this measurement has neither.")
        else:
            values = np.hstack([values, moments_of_counts(self.passes, self.scored)])
        data = resample(values, self.resamples, rng)
        if beside is not None:
            data = data.beside(*beside, rng)
        equation = kappa_equation(self._line)
        a, b, *_ = equation(data.means)
        known = data.means[0, 0] > 0.0 and b[0] < 0.0
        value = max(float(-a[0] / b[0]), 0.0) if known else None
        error = float((-a[1:] / b[1:]).std()) if np.all(b < 0.0) and np.all(data.means[:, 0] > 0.0) else None
        scale = max(self._scale * float(self._line.intercept_moment(data.means[:1, 2:])[0]), 1e-12)
        low, high = prompt_interval(
            values,
            equation,
            self.level,
            estimate=value,
            scale=scale,
            resamples=self.resamples,
            rng=rng,
            beside=beside,
        )
        return Measured(value=value, low=low, high=high, standard_error=error)
