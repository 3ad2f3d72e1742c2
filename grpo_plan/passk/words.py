"""A comparison of two policies in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_plan.passk.result import Crossing, CrossingStatus, PassDifference, PassVerdict
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pairing import CommonPrompts, TemperaturePilot


def reason_of(
    verdict: PassVerdict,
    end: PassDifference | None,
    differences: Sequence[PassDifference],
    crossing: Crossing,
    margin: float,
) -> str:
    """The verdict in one to three sentences, with its k."""
    first = differences[0]
    if verdict is PassVerdict.CANNOT_TELL or end is None:
        return _open(differences)
    start = f"pass@1 {'rose' if first.sign > 0 else 'fell'}"
    if verdict in (PassVerdict.CAPACITY, PassVerdict.LOSS):
        moved = "rose" if verdict is PassVerdict.CAPACITY else "fell"
        text = f"pass@k {moved} at every counted k asked, 1 to {end.k}."
        far = [d for d in differences if not d.counted and d.sign == 0]
        return f"{text} Whether that holds at k = {far[0].k} and beyond is open." if far else text
    if verdict is PassVerdict.NO_GAIN_AT_LARGE_K:
        return f"{start}; at k = {end.k} a gain of {margin:g} or more is ruled out."
    moved = "fell" if end.sign < 0 else "rose"
    return f"{start} and pass@{end.k} {moved}: the curves cross between k = {crossing.low} and {crossing.high}."


def _open(differences: Sequence[PassDifference]) -> str:
    first = differences[0]
    counted = [d for d in differences if d.counted]
    if len(counted) < 2:
        if first.sign == 0:
            return "pass@1 may have risen or fallen, and only pass@1 is counted. Take more rollouts per prompt."
        moved = "rose" if first.sign > 0 else "fell"
        return f"pass@1 {moved}, but only pass@1 is counted. Take 8 or more rollouts per prompt under both policies."
    unsure = next((d for d in differences if d.sign == 0), None)
    if unsure is None:  # signs turn between counted k, but not at those that decide
        return "Differences of both signs occur, but not at the first k and the last."
    if unsure is first:
        return "pass@1 may have risen or fallen: its interval holds 0."
    moved = "rose" if first.sign > 0 else "fell"
    return f"pass@1 {moved}; at k = {unsure.k} the difference may be of either sign."


def crossing_words(crossing: Crossing, largest: int) -> str:
    """What is known of the crossing, in one sentence.

    >>> crossing_words(Crossing(status=CrossingStatus.NONE_SEEN, value=None, low=8, high=None), 8)
    'No crossing seen up to k = 8.'
    """
    low, high = crossing.low, crossing.high
    if crossing.status is CrossingStatus.NONE_SEEN:
        return f"No crossing seen up to k = {low}."
    if crossing.status is CrossingStatus.CROSSES and high is not None:
        near = "" if crossing.value is None else f" (estimate {crossing.value:.3g})"
        return f"The curves cross between k = {low} and {high}{near}."
    beyond = f" A crossing would lie beyond k = {low}." if low else ""
    return f"Cannot tell whether the curves cross up to k = {largest}.{beyond}"


def notes_of(
    paired: bool,
    common: CommonPrompts,
    pilots: tuple[Pilot, Pilot],
    parts: tuple[TemperaturePilot, TemperaturePilot],
) -> tuple[str, ...]:
    """What was left out, added up, or is odd."""
    notes = []
    for name, part in zip(("before", "after"), parts, strict=True):
        if part.pooled_rows:
            rows = f"{part.pooled_rows:,} row{'' if part.pooled_rows == 1 else 's'}"
            notes.append(f"{name.capitalize()}: {rows} of prompts seen before; counts were added up.")
    if not paired and any(pilot.is_histogram for pilot in pilots):
        notes.append("Compared as two separate samples: a histogram has no names to pair prompts by.")
    elif not paired:
        notes.append(
            f"Compared as two separate samples: the pilots share {common.prompts:,} named prompts, too few to pair "
            "them. The same prompts, under the same names, tell more."
        )
    elif common.only_baseline or common.only_other:
        notes.append(
            f"All numbers speak of {common.prompts:,} common prompts; {common.only_baseline:,} only before and "
            f"{common.only_other:,} only after enter none."
        )
    shown = [pilot.temperatures for pilot in pilots]
    if all(shown) and shown[0] != shown[1]:
        notes.append(
            f"Sampled at T = {shown[0][0]:g} before and {shown[1][0]:g} after: the difference is of policy and "
            "temperature together."
        )
    return tuple(notes)


def assumptions_of(differences: Sequence[PassDifference], level: float, is_open: bool) -> tuple[str, ...]:
    """What the comparison takes for granted, gravest first."""
    sure = f"{100 * level:.6g} %"
    far = (
        (
            "Beyond the counted k both values rest on smooth fits; their limits are subtracted end from end, which "
            "holds for any pass rates and any dependence, and is wide.",
        )
        if any(not d.counted for d in differences)
        else ()
    )
    told = "" if is_open else " The verdict is wrong at most as often as one interval fails."
    return (
        "A pass is what the reward says: at large k a lucky guess counts as much as a solution.",
        f"Each interval holds with {sure} by itself.{told}",
        *far,
        "Rollouts of a prompt are independent, drawn alike under both policies (temperature, top-p, length limit); "
        "prompts are a random sample of those that matter.",
        "Prompts trained on show memory as capacity: compare on prompts that training never saw.",
    )
