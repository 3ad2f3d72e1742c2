"""Remedies that change the prompts: easier, harder, both, and without the saturated ones."""

from __future__ import annotations

from grpo_plan.fitting.intervals import Interval
from grpo_plan.runs.composition_now import DeadKind
from grpo_plan.runs.difficulty import Difficulty
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Remedy
from grpo_plan.runs.remedy_numbers import dead_without, swapped_dead
from grpo_plan.runs.remedy_parts import Case, Numbers, numbers_of, share

SHARES = (0.25, 0.5)
SPAN = 0.25  # new prompts of a pass rate between this and one minus this
WHAT = {
    DeadKind.ALL_FAIL: "Add easier prompts, or leave out those that are never solved",
    DeadKind.ALL_PASS: "Add harder prompts",
}


def swap_prompts(case: Case, kind: DeadKind) -> Remedy:
    """Dead fraction when a quarter or a half of the prompts gives way to prompts near 1/2 (theory.md, eq. 98)."""
    action = f"{WHAT.get(kind, 'Swap prompts at both ends for prompts that are solved now and then')} (grpo-plan mix)."
    price = "Prompts of other difficulty, and a pilot that tells theirs (grpo-plan fit, grpo-plan mix)."
    dead, g = case.now.dead, case.group_size
    if dead is None or g is None:
        lacks = "dead fraction" if dead is None else "group size"
        return Remedy(action=action, expected=f"Unknown: the log does not tell the {lacks}.", price=price)
    numbers: Numbers = numbers_of("dead", dead)
    parts = []
    for w in SHARES:
        low = float(swapped_dead(dead.low, w, g))
        high = float(swapped_dead(dead.high, w, g, SPAN))
        numbers |= {f"dead_low_swapped_{w:g}": low, f"dead_high_swapped_{w:g}": high}
        parts.append(f"between {low:.3f} and {high:.3f} if {w:g} of the prompts are swapped")
    expected = (
        f"D falls from {share(dead)} to {' and '.join(parts)}, the old ones at random, for new ones with pass rates "
        f"between {SPAN:g} and {1.0 - SPAN:g}; no prompts do better than the lower end, others do worse."
    )
    return Remedy(action=action, expected=expected, price=price, numbers=numbers)


def drop_prompts(case: Case, kind: DeadKind) -> Remedy:
    """Dead fraction without the prompts that always end alike: a lower bound (theory.md, eq. 98), or eq. 62."""
    failing = kind is DeadKind.ALL_FAIL
    part, name = (case.now.all_fail, "all-fail") if failing else (case.now.all_pass, "all-pass")
    action = f"Leave out prompts that are {'never solved' if failing else 'solved every time'}."
    price = "Several visits of each prompt, to know which; they may change as the policy does, so look again later."
    dead = case.now.dead
    if dead is None or part is None:
        lacks = "dead fraction" if dead is None else f"{name} share"
        return Remedy(action=action, expected=f"Unknown: the log does not tell the {lacks}.", price=price)
    numbers: Numbers = {**numbers_of("dead", dead), **{f"part_{n}": x for n, x in numbers_of("share", part).items()}}
    most = min(part.high, dead.low)
    if most >= 1.0:
        expected = f"Nothing may be left: the {name} share is {share(part)}."
        return Remedy(action=action, expected=expected, price=price, numbers=numbers)
    low = float(dead_without(dead.low, most))
    if dead.value is not None and dead.value >= 1.0:
        expected = (
            f"No group of the last rows is mixed (D = {share(dead)}): without the {name} ones the rest is dead too, or "
            f"at least {low:.3f} of it by the limits. Bring in prompts that are solved now and then."
        )
        numbers |= {"dead_low_without": low, "dead_high_without": 1.0}
        return Remedy(action=action, expected=expected, price=price, numbers=numbers)
    numbers |= {"dead_low_without": low, "dead_high_without": dead.high}
    expected = (
        f"D falls from {share(dead)} to {low:.3f} at best, if every {name} group ({share(part)}) is of such a "
        "prompt; with none of them it stays."
    )
    fitted = _dropped(case, failing)
    if fitted is not None:
        rest, again = fitted
        numbers |= {**{f"{n}_rest": x for n, x in numbers_of("dead", rest).items()}}
        expected += f" Leaving out every prompt whose last group was dead gives D = {share(rest)} at the next visit"
        if again is not None:
            numbers |= {f"{n}_again": x for n, x in numbers_of("mixed", again).items()}
            expected += f"; of the {name} ones {share(again)} would have been mixed"
        expected += "."
    return Remedy(action=action, expected=expected, price=price, numbers=numbers)


def _dropped(case: Case, failing: bool) -> tuple[Expected, Expected | None] | None:
    """Dead fraction of the rest, and chance that the next group of a dropped prompt is mixed, from rollouts."""
    found, g = case.difficulty, case.group_size
    if not isinstance(found, Difficulty) or g is None or g < 2:
        return None
    effect = found.dropping(g)
    if effect is None or effect.rest_dead is None:
        return None
    kind = effect.never if failing else effect.always
    return _expected(effect.rest_dead, found.level), None if kind.mixed is None else _expected(kind.mixed, found.level)


def _expected(found: Interval, level: float) -> Expected:
    return Expected(value=found.value, low=found.low, high=found.high, level=level)
