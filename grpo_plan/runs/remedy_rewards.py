"""Remedies that change rewards, responses or the log itself."""

from __future__ import annotations

from grpo_plan.runs.composition_now import DeadKind
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Remedy
from grpo_plan.runs.remedy_numbers import agreeing_levels, agreeing_split, dead_if_told_apart
from grpo_plan.runs.remedy_parts import Case, Numbers, numbers_of, share

LEVELS = 3
CHANCES = (0.1, 0.5)


def finer_reward(case: Case, kind: DeadKind) -> Remedy:
    """A reward that tells rollouts of dead groups apart (theory.md, eq. 99)."""
    passing = kind is DeadKind.ALL_PASS
    part, name = (case.now.all_pass, "all-pass") if passing else (case.now.all_fail, "all-fail")
    if kind is DeadKind.FLAT:
        part, name = case.now.other, "other dead"
    what = "correct rollouts (length, steps)" if passing else "failing rollouts (parts that are right, tests that pass)"
    action = f"Give a reward with levels, or a second one, that tells {what} apart."
    price = "A reward that can be gamed: what it pays for is what is learnt. Keep it small against a pass."
    dead, g = case.now.dead, case.group_size
    if dead is None or part is None or g is None:
        lacks = "dead fraction" if dead is None else "group size" if g is None else f"{name} share"
        return Remedy(action=action, expected=f"Unknown: the log does not tell the {lacks}.", price=price)
    numbers: Numbers = {**numbers_of("dead", dead), **{f"part_{n}": x for n, x in numbers_of("share", part).items()}}
    parts = []
    for key, words, agreeing in (
        *((f"split_{q:g}", f"a second reward that {q:g} of them earn", float(agreeing_split(q, g))) for q in CHANCES),
        (f"levels_{LEVELS}", f"{LEVELS} equally likely levels", float(agreeing_levels(LEVELS, g))),
    ):
        then = told_apart(dead, part, agreeing)
        numbers |= {f"{n}_{key}": x for n, x in numbers_of("dead", then).items()}
        parts.append(f"{share(then)} with {words}")
    expected = (
        f"D falls from {share(dead)} to {'; '.join(parts)}. Assumed: rollouts of {name} groups ({share(part)}) earn it "
        "independently and with one chance; if some prompts never do, D stays higher."
    )
    return Remedy(action=action, expected=expected, price=price, numbers=numbers)


def told_apart(dead: Expected, part: Expected, agreeing: float) -> Expected:
    """`dead_if_told_apart` with limits: it rises with D and falls with the part."""
    value = None
    if dead.value is not None and part.value is not None:
        value = float(dead_if_told_apart(dead.value, min(part.value, dead.value), agreeing))
    low = float(dead_if_told_apart(dead.low, min(part.high, dead.low), agreeing))
    high = float(dead_if_told_apart(dead.high, min(part.low, dead.high), agreeing))
    if value is not None:
        low, high = min(low, value), max(high, value)
    return Expected(value=value, low=low, high=high, level=dead.level)


def fix_scoring(case: Case) -> Remedy:
    """Rollouts without a reward."""
    return Remedy(
        action="Repair the scoring: read its errors from the first step on at which rewards are missing; retry, and "
        "raise its time limit.",
        expected="Groups that are dead for want of rewards become what their rollouts make of them; how many of them "
        f"are mixed is unknown. {_at_most(case)}",
        price="None for the training; the rollouts so far stay lost.",
        numbers=numbers_of("dead", case.now.dead),
    )  # fmt: skip


def unflatten_reward(case: Case) -> Remedy:
    """A reward that all rollouts of a group earn alike and that is neither that of a pass nor of a fail."""
    return Remedy(
        action="Look up what earns the reward that whole groups share (a format or length part, a default of the "
        "scorer), and take it out or make it vary.",
        expected="Such groups become all-fail, all-pass or mixed by the other parts; unknown in which shares. "
        f"{_at_most(case)}",
        price="A change of the reward: curves before and after cannot be compared.",
        numbers=numbers_of("dead", case.now.dead),
    )


def longer_responses(case: Case) -> Remedy:
    """Rollouts that were cut off before an answer."""
    return Remedy(
        action="Allow longer responses, or do not score what was cut off (mask it).",
        expected="All-fail groups whose rollouts were cut off may hold passes: unknown how many until they end. "
        "Roll out a few hundred such prompts at twice the length and count (grpo-plan fit). " + _at_most(case),
        price="Tokens: up to twice the decoding of the rollouts that were cut off, and memory for them.",
        numbers=numbers_of("dead", case.now.dead),
    )  # fmt: skip


def stop_duplicates(case: Case) -> Remedy:
    """Rollouts of a prompt that repeat each other."""
    return Remedy(
        action="Make rollouts of a prompt differ: temperature above 0, no seed shared by the requests of a group, no "
        "cache of responses.",
        expected="Groups of identical responses have one outcome; how many become mixed is unknown until they differ. "
        + _at_most(case),
        price="None.",
        numbers=numbers_of("dead", case.now.dead),
    )


def log_all_groups(case: Case) -> Remedy:
    """A metric that counts only the groups that were kept."""
    return Remedy(
        action="Log the share of dead groups before they are thrown away, and the batches generated for each step.",
        expected="No change of the training; the dead fraction and the cost of the refill become known. " + _now(case),
        price="None.",
        numbers=numbers_of("dead", case.now.dead),
    )


def log_by_group(case: Case) -> Remedy:
    """A metric that says of a whole batch what it should say of each group."""
    return Remedy(
        action="Log rewards group by group: keep the completions beside the metrics (log_completions), or turn off "
        "scaling by the whole batch (scale_rewards=\"group\").",
        expected="No change of the training where only completions are logged; the dead fraction becomes known. "
        + _now(case),
        price="Disk space for completions; another scaling of rewards changes the step.",
        numbers=numbers_of("dead", case.now.dead),
    )  # fmt: skip


def less_penalty(case: Case) -> Remedy:
    """Dead groups that are trained on for the sake of the penalty alone."""
    return Remedy(
        action="Lower the weight of the penalty (beta), or leave dead groups out of the loss.",
        expected="The pull towards the reference from dead groups goes: a share of the groups of "
        + ("unknown size." if case.now.dead is None else f"{share(case.now.dead)}."),
        price="The policy may move further from the reference. Watch the kl metric.",
        numbers=numbers_of("dead", case.now.dead),
    )


def log_composition(case: Case) -> Remedy:
    """Neither all-pass nor all-fail shares are told."""
    return Remedy(
        action="Log all-pass and all-fail groups apart, or keep the rollouts: the remedies for the two are opposite.",
        expected="No change of the training; easier prompts help all-fail groups, harder ones all-pass groups.",
        price="None.",
        numbers=numbers_of("dead", case.now.dead),
    )


def raise_cap(case: Case) -> Remedy:
    """A refill that may give up."""
    return Remedy(
        action="Raise the cap on generation batches, or make each larger (grpo-plan refill).",
        expected="Fewer steps that give up; at a dead fraction of 1 no cap suffices. " + _now(case),
        price="Longer steps where many groups are dead.",
        numbers=numbers_of("dead", case.now.dead),
    )


def _now(case: Case) -> str:
    return "D is unknown." if case.now.dead is None else f"Now D is {share(case.now.dead)}."


def _at_most(case: Case) -> str:
    dead = case.now.dead
    return "" if dead is None else f"At most, D goes from {share(dead)} to 0."
