"""What could be changed about dead groups, in the order that fits their kind, each with its numbers and its price."""

from __future__ import annotations

from collections.abc import Callable

from grpo_plan.runs.composition_now import Composition, DeadKind, composition_of
from grpo_plan.runs.difficulty import Difficulty, Undetermined
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Remedy
from grpo_plan.runs.remedy_parts import Case, share
from grpo_plan.runs.remedy_prompts import drop_prompts, swap_prompts
from grpo_plan.runs.remedy_rewards import (
    finer_reward,
    fix_scoring,
    less_penalty,
    log_all_groups,
    log_by_group,
    log_composition,
    longer_responses,
    raise_cap,
    stop_duplicates,
    unflatten_reward,
)
from grpo_plan.runs.remedy_sampling import other_temperature, raise_group_size, refill_batches, use_dead_groups

Make = Callable[[Case, DeadKind], Remedy | None]


def _always(make: Callable[[Case], Remedy | None]) -> Make:
    return lambda case, _: make(case)


RAISE, REFILL, HEAT, SIGN = (
    _always(make) for make in (raise_group_size, refill_batches, other_temperature, use_dead_groups)
)
ORDER: dict[DeadKind, tuple[Make, ...]] = {
    DeadKind.ALL_FAIL: (swap_prompts, finer_reward, drop_prompts, RAISE, REFILL, HEAT, SIGN),
    DeadKind.ALL_PASS: (swap_prompts, drop_prompts, REFILL, finer_reward, RAISE, HEAT),
    DeadKind.BOTH: (swap_prompts, drop_prompts, REFILL, RAISE, finer_reward, HEAT, SIGN),
    DeadKind.FLAT: (_always(unflatten_reward), finer_reward),
    DeadKind.FAILED_SCORING: (_always(fix_scoring),),
    DeadKind.TRUNCATED: (_always(longer_responses), swap_prompts),
    DeadKind.DUPLICATES: (_always(stop_duplicates),),
    DeadKind.FILTERED: (_always(log_all_groups), swap_prompts, RAISE),
    DeadKind.BATCH_FLAG: (_always(log_by_group),),
    DeadKind.PENALTY: (_always(less_penalty), swap_prompts, REFILL),
    DeadKind.REFILL: (_always(raise_cap), swap_prompts, RAISE),
    DeadKind.UNKNOWN: (_always(log_composition), REFILL, RAISE, HEAT),
}
LINES: dict[DeadKind, str] = {
    DeadKind.ALL_FAIL: "Bring in easier prompts or a reward with levels: most dead groups fail throughout",
    DeadKind.ALL_PASS: "Bring in harder prompts or leave out solved ones: most dead groups pass throughout",
    DeadKind.BOTH: "Swap prompts at both ends for prompts that are solved now and then: dead groups lie at both",
    DeadKind.FLAT: "Look up which part of the reward whole groups earn alike, and take it out",
    DeadKind.FAILED_SCORING: "Repair the scoring first: rewards are missing",
    DeadKind.TRUNCATED: "Allow longer responses first: failing rollouts were cut off",
    DeadKind.DUPLICATES: "Make rollouts of a prompt differ: temperature above 0, no shared seed, no cache",
    DeadKind.FILTERED: "Log the dead fraction before groups are thrown away",
    DeadKind.BATCH_FLAG: "Log rewards group by group: this metric speaks of whole batches",
    DeadKind.PENALTY: "Lower the weight of the penalty, or leave dead groups out of the loss",
    DeadKind.REFILL: "Raise the cap on generation batches, or change the prompts that are dead",
    DeadKind.UNKNOWN: "Log all-pass and all-fail groups apart: the remedies for the two are opposite",
}


def remedies_for(
    facts: Facts,
    difficulty: Difficulty | Undetermined,
    kind: DeadKind,
    composition: Composition | None = None,
) -> tuple[Remedy, ...]:
    """What could be done about dead groups of a kind, what fits best first.

    Every number has limits, or is a bound with its assumption; what the log does not tell is said to be unknown.

    Args:
        facts: The run.
        difficulty: Of `difficulty_of`.
        kind: Why groups are dead.
        composition: Of `composition_of`; worked out if not given.
    """
    case = Case(facts=facts, now=composition or composition_of(facts), difficulty=difficulty)
    made = (make(case, kind) for make in ORDER[kind])
    return tuple(remedy for remedy in made if remedy is not None)


def remedy_line(kind: DeadKind, composition: Composition | None = None) -> str:
    """The first thing to do, one sentence, with the shares that say so.

    >>> remedy_line(DeadKind.FAILED_SCORING)
    'Repair the scoring first: rewards are missing.'
    """
    now = composition
    if now is None or kind not in (DeadKind.ALL_FAIL, DeadKind.ALL_PASS, DeadKind.BOTH):
        return f"{LINES[kind]}."
    told = (("all-fail", now.all_fail), ("all-pass", now.all_pass))
    parts = [f"{name} {share(found)}" for name, found in told if found is not None]
    return f"{LINES[kind]} ({', '.join(parts)} of the groups)." if parts else f"{LINES[kind]}."
