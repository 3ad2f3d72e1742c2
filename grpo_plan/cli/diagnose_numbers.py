"""Evidence, costs and shares of a diagnosis as short text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from grpo_plan.cli.numbers import plural, rate
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Waste
from grpo_plan.runs.shares import Part

UNKNOWN = "not known"
LIMITS = ("low", "high")
AMOUNTS = {"more": "rollouts beyond these", "gpu_hours": "GPU-hours", "usd": "USD", "rollouts": "rollouts"}
Value = float | int | str | bool | None


def shown(value: Value) -> str:
    """A number, a word, or that it is not known.

    >>> shown(12345), shown(0.43921), shown(True), shown(None), shown(2.0)
    ('12,345', '0.4392', 'yes', 'not known', '2')
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e12):
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def pairs(numbers: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Names in words and values; limits stand behind their value.

    >>> list(pairs({"late_mean": 0.5, "late_mean_low": 0.45, "late_mean_high": 0.55, "rows": 40}))
    [('late mean', '0.5 [0.45, 0.55]'), ('rows', '40')]
    >>> list(pairs({"dead_low_at_8": 0.6, "dead_high_at_8": 0.8}))
    [('dead at 8', '[0.6, 0.8]')]
    """
    done: set[str] = set()
    for name in numbers:
        if name in done:
            continue
        tokens = name.split("_")
        at = next((i for i, token in enumerate(tokens) if token in LIMITS and i > 0), None)
        stem = tokens if at is None else [*tokens[:at], *tokens[at + 1 :]]
        low, high = _limits_of(stem, at, numbers)
        if low is None or high is None:
            yield " ".join(tokens), shown(numbers[name])
        else:
            done |= {"_".join(stem), low, high}
            yield " ".join(stem), _with_limits(numbers, "_".join(stem), low, high)


def _limits_of(stem: list[str], at: int | None, numbers: Mapping[str, Value]) -> tuple[str | None, str | None]:
    """Names of the limits of a number: ``low`` and ``high`` at the same place in its name."""
    for i in range(len(stem), 0, -1) if at is None else (at,):
        low, high = ("_".join([*stem[:i], end, *stem[i:]]) for end in LIMITS)
        if low in numbers and high in numbers:
            return low, high
    return None, None


def _with_limits(numbers: Mapping[str, Value], stem: str, low: str, high: str) -> str:
    value = f"{shown(numbers[stem])} " if numbers.get(stem) is not None else ""
    if numbers[low] is None and numbers[high] is None:
        return value.strip() or UNKNOWN
    ends = ["no limit" if numbers[end] is None else shown(numbers[end]) for end in (low, high)]
    return f"{value}[{ends[0]}, {ends[1]}]"


def share_cell(part: Part) -> str:
    """A share with its limits; where the log only bounds what was seen, these bounds stand before the limits.

    >>> share_cell(Part(value=0.5, low=0.45, high=0.55)), share_cell(Part(value=None, low=None, high=None))
    ('0.500 [0.450, 0.550]', 'not known')
    >>> share_cell(Part(value=None, low=0.2, high=0.4, seen_low=0.25, seen_high=0.35))
    '0.25 to 0.35 [0.200, 0.400]'
    """
    if part.value is None and part.known and part.seen_low is not None and part.seen_high is not None:
        return f"{part.seen_low:.2f} to {part.seen_high:.2f} [{part.low:.3f}, {part.high:.3f}]"
    return _cell(part.value, part.low, part.high)


def expected_cell(expected: Expected | None) -> str:
    """An expected share with its limits."""
    return UNKNOWN if expected is None else _cell(expected.value, expected.low, expected.high)


def _cell(value: float | None, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return UNKNOWN
    return f"{'in' if value is None else rate(value)} [{low:.3f}, {high:.3f}]"


def count_cell(part: Part) -> str:
    """A mean count a step with its limits.

    >>> count_cell(Part(value=12.5, low=11.1, high=13.9))
    '12.5 [11.1, 13.9]'
    """
    if part.low is None or part.high is None:
        return UNKNOWN
    if part.value is not None:
        seen = f"{part.value:,.1f}"
    elif part.seen_low is not None and part.seen_high is not None:
        seen = f"{part.seen_low:,.1f} to {part.seen_high:,.1f}"
    else:
        seen = "in"
    return f"{seen} [{part.low:,.1f}, {part.high:,.1f}]"


def waste_text(waste: Waste, logged: int | None = None) -> str:
    r"""What dead groups have cost, over the steps that are logged.

    Args:
        waste: The cost.
        logged: Steps that all rows of the log stand for.

    >>> told = Waste(rollouts=1200, rollouts_low=1100, rollouts_high=1300, gpu_hours=None, usd=None, steps=20,
    ...              missing={"gpu_hours": "give --gpus", "usd": "GPU-hours"})
    >>> print(*waste_text(told, 44).split(". "), sep="\n")
    1,200 [1,100, 1,300] rollouts in dead groups in 20 of the 44 steps logged
    GPU-hours and USD not known: give --gpus.
    >>> waste_text(Waste(rollouts=None, rollouts_low=10, rollouts_high=20, gpu_hours=None, usd=None, steps=1,
    ...                  missing={"rollouts": "the dead fraction: it is only bounded"}))
    '10 to 20 rollouts (the log does not tell the number) in dead groups in the 1 step logged.'
    """
    said, missing = [], dict(waste.missing)
    value, low, high = waste.rollouts, waste.rollouts_low, waste.rollouts_high
    if value is not None:
        same = low is None or high is None or (_whole(low) == _whole(value) == _whole(high))
        said.append(f"{_whole(value)}{'' if same else f' [{_whole(low or 0.0)}, {_whole(high or 0.0)}]'} rollouts")
    elif low is not None and high is not None:
        missing.pop("rollouts", None)
        said.append(f"{_whole(low)} to {_whole(high)} rollouts (the log does not tell the number)")
    elif low is not None and low >= 1.0:
        said.append(f"at least {_whole(low)} rollouts")
        if "rollouts" in missing:
            missing = {"more" if name == "rollouts" else name: why for name, why in missing.items()}
    if waste.gpu_hours is not None:
        said.append(f"up to {shown(waste.gpu_hours)} GPU-hours")
    if waste.usd is not None:
        said.append(f"up to ${waste.usd:,.2f}")
    text = f"{', '.join(said)} {waste.what} in {_steps(waste.steps, logged)}." if said else ""
    return " ".join(part for part in (text, *_missing(missing)) if part) or f"{UNKNOWN}."


def _steps(counted: int, logged: int | None) -> str:
    """The steps that a cost is of, which are those logged, whenever a finding began."""
    if logged is not None and counted < logged:
        return f"{counted:,} of the {logged:,} steps logged"
    return f"{'all ' if logged == counted and counted > 1 else 'the '}{plural(counted, 'step')} logged"


def _missing(missing: Mapping[str, str]) -> Iterator[str]:
    """What each unknown amount needs; the price follows from the GPU-hours."""
    follows = "usd" in missing and missing["usd"].startswith("GPU-hours")
    for name, why in missing.items():
        if name == "usd" and follows and "gpu_hours" in missing:
            continue
        both = " and USD" if name == "gpu_hours" and follows else ""
        amount = AMOUNTS.get(name, name.replace("_", " "))
        yield f"{amount[0].upper()}{amount[1:]}{both} {UNKNOWN}: {why.rstrip('.')}."


def _whole(value: float) -> str:
    return f"{value:,.0f}"
