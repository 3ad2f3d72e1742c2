"""What every remedy needs: the run's shares with limits, and numbers in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grpo_plan.quantities import drops_groups
from grpo_plan.runs.composition_now import Composition
from grpo_plan.runs.difficulty import Difficulty, Undetermined
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.facts import Facts

Numbers = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a remedy is worked out from.

    Attributes:
        facts: The run.
        now: Its groups at the end.
        difficulty: Its pass rates at the end, or why the log does not tell them.
    """

    facts: Facts
    now: Composition
    difficulty: Difficulty | Undetermined

    @property
    def group_size(self) -> int | None:
        """Rollouts per prompt."""
        return self.now.group_size

    @property
    def prompts_per_step(self) -> int | None:
        """Groups of a step."""
        return self.facts.prompts_per_step

    @property
    def refills(self) -> bool:
        """Whether the run throws dead groups away and draws others already."""
        return drops_groups(self.facts.view)


def share(found: Expected) -> str:
    """A share with its limits.

    >>> share(Expected(value=0.5, low=0.4, high=0.61, level=0.95))
    '0.500 [0.400, 0.610]'
    >>> share(Expected(value=None, low=0.4, high=1.0, level=0.95))
    'between 0.400 and 1.000'
    """
    if found.value is None:
        return f"between {found.low:.3f} and {found.high:.3f}"
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"


def counts(value: float | None, low: float, high: float) -> str:
    """A count with its limits.

    >>> counts(51.23, 40.0, 60.0), counts(None, 400.0, 1600.0), counts(2.0, 1.5, float("inf"))
    ('51.2 [40.0, 60.0]', 'between 400 and 1,600', '2.0 [1.5, no limit]')
    """
    if value is None:
        return f"between {few(low)} and {few(high)}"
    return f"{few(value)} [{few(low)}, {few(high)}]"


def few(value: float) -> str:
    """A count: one decimal below 100, none above."""
    if value == float("inf"):
        return "no limit"
    return f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def numbers_of(name: str, found: Expected | None) -> Numbers:
    """A share as numbers of a remedy."""
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def through(found: Expected, rule: Callable[[float], float]) -> Expected:
    """A share that rises with another one, with its limits."""
    value = None if found.value is None else rule(found.value)
    return Expected(value=value, low=rule(found.low), high=rule(found.high), level=found.level)


def finite(value: float) -> float | None:
    """A number, or None where it has no limit."""
    return value if value < float("inf") else None
