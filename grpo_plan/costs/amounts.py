"""An amount of every unit at once; what is not known is None, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from grpo_plan._shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cost(Shown):
    """What some groups, a step or a run use.

    Attributes:
        groups: Groups generated, refill included.
        trained_groups: Groups trained on.
        rollouts: Rollouts generated.
        rollout_equivalents: The same plus the fixed cost of the prompts in rollouts; a budget in rollouts limits this.
        prefilled_tokens: Prompt tokens read while generating.
        generated_tokens: Response tokens; a budget in tokens limits this.
        trained_tokens: Prompt and response tokens of the rollouts trained on.
        seconds: Time of the whole job.
        gpu_hours: All GPUs together.
        usd: Price of the GPU-hours.
        missing: Unit to what is missing, one sentence each, for the fields that are None.
    """

    groups: float
    trained_groups: float
    rollouts: float
    rollout_equivalents: float
    prefilled_tokens: float | None
    generated_tokens: float | None
    trained_tokens: float | None
    seconds: float | None
    gpu_hours: float | None
    usd: float | None
    missing: Mapping[str, str] = field(default_factory=dict)

    def of(self, unit: str) -> float | None:
        """What a budget in ``"rollouts"``, ``"tokens"``, ``"gpu_hours"`` or ``"usd"`` limits."""
        names = {"rollouts": "rollout_equivalents", "tokens": "generated_tokens"}
        value: float | None = getattr(self, names.get(unit, unit))
        return value

    def times(self, factor: float) -> Cost:
        """So many of it."""
        return self._with(lambda name: None if (x := getattr(self, name)) is None else x * factor)

    def plus(self, other: Cost) -> Cost:
        """Both together; unknown where either is."""

        def total(name: str) -> float | None:
            mine, theirs = getattr(self, name), getattr(other, name)
            return None if mine is None or theirs is None else mine + theirs

        return self._with(total, {**other.missing, **self.missing})

    def _with(self, value_of: Callable[[str], float | None], missing: Mapping[str, str] | None = None) -> Cost:
        values = {f.name: value_of(f.name) for f in fields(self) if f.name != "missing"}
        return Cost(**values, missing=self.missing if missing is None else missing)  # type: ignore[arg-type]
