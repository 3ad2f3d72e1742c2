"""Remedies that sample in another way: larger groups, a refill, another temperature, an estimator for dead groups."""

from __future__ import annotations

import math

from grpo_plan.batches.waiting import EndlessPrompts, fewest_prompts
from grpo_plan.runs.difficulty import Difficulty
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Remedy
from grpo_plan.runs.remedy_numbers import drawn_per_mixed, mixed_at_equal_rollouts
from grpo_plan.runs.remedy_parts import Case, Numbers, counts, finite, numbers_of, share

FACTORS = (2, 4)
LARGEST = 4096
PER = 1000  # rollouts, where those of a step are not known
LATE_TAIL = 0.05
NOT_THE_GOAL = (
    "A lower dead fraction is not the goal by itself: in a measured sweep the first group size with D <= 0.4 learned "
    "44 % as much as the best one, at which 62 % of the groups were dead."
)


def raise_group_size(case: Case) -> Remedy:
    """D at 2 G and 4 G, and the mixed groups that as many rollouts would give (theory.md, eq. 98)."""
    g, found = case.group_size, case.difficulty
    action = "Raise the group size." if g is None else f"Raise the group size from {g:,} to {FACTORS[0] * g:,}."
    price = f"More rollouts per prompt, and fewer prompts a step for as many rollouts. {NOT_THE_GOAL}"
    if not isinstance(found, Difficulty) or g is None or g < 2 or g * FACTORS[-1] > LARGEST:
        why = found.reason if not isinstance(found, Difficulty) else "The group size is not known, or too large."
        return Remedy(
            action=action, expected=f"Unknown. {why}", price=price, numbers={"group_size": g and FACTORS[0] * g}
        )
    per_step = case.prompts_per_step is not None and not case.refills
    rollouts = float(g * (case.prompts_per_step or 0)) if per_step else float(PER)
    unit = f"of a step of {int(rollouts):,} rollouts" if per_step else f"of {PER:,} rollouts"
    numbers: Numbers = {"group_size": float(FACTORS[0] * g), "rollouts": rollouts}
    parts = []
    for size in (g, *(factor * g for factor in FACTORS)):
        dead = found.dead(size)
        mixed = _mixed(dead, rollouts, size)
        numbers |= {f"{name}_at_{size}": x for name, x in numbers_of("dead", dead).items()}
        numbers |= {f"{name}_at_{size}": x for name, x in numbers_of("mixed_groups", mixed).items()}
        parts.append(f"D({size}) = {share(dead)}, {counts(mixed.value, mixed.low, mixed.high)} mixed groups")
    expected = f"{'; '.join(parts)} {unit}. {found.rests_on}"
    two, four = FACTORS
    price = f"{two} or {four} times the rollouts, or as many rollouts of 1/{two} or 1/{four} of the prompts."
    return Remedy(action=action, expected=expected, price=f"{price} {NOT_THE_GOAL}", numbers=numbers)


def refill_batches(case: Case) -> Remedy | None:
    """Prompts drawn for each mixed group, and the batch that fills 95 % of steps; None in a run that refills."""
    dead = case.now.dead
    if case.refills:
        return None
    action = "Draw new prompts in place of dead groups (dynamic sampling), or filter before the run."
    price = "More generation for the same step; the direction stays that of the mixed prompts."
    if dead is None:
        return Remedy(action=action, expected="Unknown: the log does not tell the dead fraction.", price=price)
    if dead.low >= 1.0 or (dead.value is not None and dead.value >= 1.0):
        says = f"A step may never fill: the dead fraction is {share(dead)}. At 1 no refill ends."
        low = finite(float(drawn_per_mixed(dead.low)))
        return Remedy(
            action="Change the prompts before any refill.", expected=says, price=price,
            numbers={"drawn_per_mixed": None, "drawn_per_mixed_low": low, "drawn_per_mixed_high": None},
        )  # fmt: skip
    ends = [math.inf if d >= 1.0 else float(drawn_per_mixed(d)) for d in (dead.low, dead.high)]
    value = None if dead.value is None else float(drawn_per_mixed(dead.value))
    numbers = {"drawn_per_mixed": value, "drawn_per_mixed_low": ends[0], "drawn_per_mixed_high": finite(ends[1])}
    expected = f"Every group of a step is mixed; {counts(value, *ends)} prompts are drawn for each."
    if case.prompts_per_step is not None:
        n = case.prompts_per_step
        batch = [_batch(n, d) for d in (dead.value, dead.low, dead.high)]
        numbers |= {"gen_batch_size": batch[0], "gen_batch_size_low": batch[1], "gen_batch_size_high": batch[2]}
        limits = f"{batch[1]:,.0f} to {'no limit' if batch[2] is None else f'{batch[2]:,.0f}'}"
        shown = limits if batch[0] is None else f"{batch[0]:,.0f} ({limits})"
        expected += f" A generation batch of {shown} prompts fills {n:,} in one round in 95 % of steps."
    if dead.high >= 1.0:
        expected += " It may never fill: the limits of D reach 1."
    times = f"{counts(value, *ends)} times the rollouts of a step"
    return Remedy(
        action=action, expected=expected, price=f"{times}. {price} See grpo-plan refill.", numbers=numbers
    )  # fmt: skip


def other_temperature(case: Case) -> Remedy:
    """Nothing in a log of one temperature tells what another would do."""
    return Remedy(
        action="Try another sampling temperature.",
        expected="Cannot tell: a log of one temperature says nothing of another. Compare two pilots of the same "
        "prompts (grpo-plan temperature).",
        price="Two pilots of the same prompts; a higher temperature usually costs pass rate.",
        numbers={"dead": None},
    )  # fmt: skip


def use_dead_groups(case: Case) -> Remedy:
    """Advantages that dead groups have too: every rollout counts, as signal or as noise (theory.md, eq. 68)."""
    dead = case.now.dead
    now = None
    if dead is not None:
        value = None if dead.value is None else 1.0 - dead.value
        now = Expected(value=value, low=1.0 - dead.high, high=1.0 - dead.low, level=dead.level)
    before = "an unknown share" if now is None else share(now)
    return Remedy(
        action="Use advantages that dead groups have too, such as A = 2r - 1; only after a short trial.",
        expected=f"All rollouts have an advantage (share 1.0 instead of {before}): all-fail groups push away from what "
        "they wrote, all-pass groups towards it. By itself a dead group adds noise and no contrast between its "
        "rollouts. The gain is unknown here.",
        price="More noise: measured on hard prompts, its step had a noise to signal of 161 against 15 of centred "
        "advantages, and training lost clearly. Nie et al. (2026, arXiv 2605.07689) report gains of their own. No dead "
        "group can be skipped in the backward pass.",
        numbers={
            "rollouts_with_advantage": 1.0,
            **{f"{name}_now": x for name, x in numbers_of("rollouts_with_advantage", now).items()},
        },
    )  # fmt: skip


def _mixed(dead: Expected, rollouts: float, size: int) -> Expected:
    value = None if dead.value is None else float(mixed_at_equal_rollouts(rollouts, size, dead.value))
    low, high = (float(mixed_at_equal_rollouts(rollouts, size, d)) for d in (dead.high, dead.low))
    return Expected(value=value, low=low, high=high, level=dead.level)


def _batch(wanted: int, dead: float | None) -> float | None:
    if dead is None or dead >= 1.0:
        return None
    return float(fewest_prompts(EndlessPrompts(wanted=wanted, dead=dead), LATE_TAIL))
