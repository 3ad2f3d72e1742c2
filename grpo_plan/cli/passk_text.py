"""pass@k as a page that a person can act on."""

from __future__ import annotations

from grpo_plan.cli.common import percent
from grpo_plan.cli.numbers import plural, rate, with_interval
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part
from grpo_plan.fitting.paired import Difference
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passk import PassComparison, PassCurve, PassDifference, PassPoint, PassTail, PassVerdict, TailStatus
from grpo_plan.passk.result import Turnover
from grpo_plan.passk.words import crossing_words

MARKS = {FitStatus.EXTRAPOLATED: "*", FitStatus.BEYOND_REACH: "!"}
MARK_WORDS = {
    FitStatus.EXTRAPOLATED: "* EXTRAPOLATED beyond twice the pilot's rollouts per prompt: trust the interval.",
    FitStatus.BEYOND_REACH: "! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.",
}
HEADLINES = {
    PassVerdict.CAPACITY: "capacity: pass@k rose at every counted k",
    PassVerdict.SEARCH_COMPRESSION: "search compression: the curves cross",
    PassVerdict.NO_GAIN_AT_LARGE_K: "search compression: no gain left at large k",
    PassVerdict.BREADTH: "breadth for pass@1: the curves cross the other way",
    PassVerdict.LOSS: "loss: pass@k fell at every counted k",
    PassVerdict.CANNOT_TELL: "cannot tell",
}
LEAST = 0.0005  # a smaller share has no digit in three decimals
NO_NEWS = (
    "One prompt at 0 passes before and 1 after is no news by itself: two groups of an unchanged prompt differ by "
    "chance too. Beyond chance is what a comparison of each policy with itself would not show."
)


def curve_page(curve: PassCurve, tail: PassTail | None) -> list[Part]:
    """One pilot: the curve, what follows from it, and what it rests on."""
    last = [p for p in curve.points if p.counted][-1:] or [curve.points[0]]
    shown = with_interval(last[0].value, last[0].low, last[0].high)
    pilot = curve.fit.pilot
    parts: list[Part] = [
        Line("Answer", f"pass@{last[0].k} = {shown}", strong=True),
        Line("", f"{plural(pilot.prompts, 'prompt')}, {plural(pilot.total_rollouts, 'rollout')}; "
             f"counted up to k = {curve.counted_k}, fitted beyond"),
        Heading(f"pass@k: some pass, and pass^k: all pass ({percent(curve.level)} intervals)"),
        _points(curve.points),
        *_mark_words([p.status for p in curve.points]),
        *_statuses(curve, ""),
    ]  # fmt: skip
    parts += [Heading("How the unsolved share falls"), *_tail(tail)]
    return parts


def _points(points: tuple[PassPoint, ...]) -> Grid:
    rows = [
        (
            str(p.k),
            with_interval(p.value, p.low, p.high) + MARKS.get(p.status, ""),
            _tiny(p.all_pass, p.all_pass_low, p.all_pass_high),
            "counted" if p.counted else "fitted" if p.value is not None else "-",
        )
        for p in points
    ]
    return Grid(("k", "pass@k", "pass^k", ""), rows, frozenset({0}))


def _tiny(value: float | None, low: float, high: float) -> str:
    """A share that falls to 0 with k: one form for all that are below a thousandth."""
    if value is not None and 0.0 <= value < LEAST:
        return f"<{LEAST:g} [{low:.3f}, {high:.3f}]"
    return with_interval(value, low, high)


def _mark_words(statuses: list[FitStatus]) -> list[Part]:
    return [Paragraph(words) for status, words in MARK_WORDS.items() if status in statuses]


def _statuses(curve: PassCurve, name: str) -> list[Part]:
    return [Paragraph(f"{name}{s.name}: {s.sentence}") for s in curve.statuses if s is not FitStatus.OK]


def _tail(tail: PassTail | None) -> list[Part]:
    if tail is None:
        return [Paragraph("Not told: it needs all groups of a prompt, and dead groups or prompts are missing here.")]
    because = f" {tail.reason}" if tail.reason else ""
    parts: list[Part] = [Paragraph(f"{tail.status.name}: {tail.status.sentence}{because}")]
    if tail.status is TailStatus.POWER_LAW and tail.exponent is not None and tail.low is not None:
        high = "no limit" if tail.high is None else f"{tail.high:.3g}"
        parts.append(Line("b", f"{tail.exponent:.3g} [{tail.low:.3g}, {high}]", indent=2))
        parts.append(Line("Halving", f"half the unsolved share takes {_halving(tail)} the tries", indent=2))
    if tail.floor is not None and tail.floor_low is not None and tail.floor_high is not None:
        floor = with_interval(tail.floor, tail.floor_low, tail.floor_high)
        parts.append(Line("Floor", f"{floor} of the prompts", indent=2))
    parts.append(Line("Never", f"up to {rate(tail.never_high)} of the prompts may never pass, for all F", indent=2))
    for e in tail.local:
        high = "no limit" if e.high is None else f"{e.high:.3f}"
        value = "unknown" if e.value is None else f"{e.value:.3f}"
        how = "counted" if e.counted else "fitted"
        parts.append(
            Line("Locally", f"k = {e.k} to {2 * e.k}: exponent {value} [{e.low:.3f}, {high}], {how}", indent=2)
        )
    return parts


def _halving(tail: PassTail) -> str:
    value, low, high = tail.halving_factor or (None, 1.0, None)
    shown = ["any number of times" if v is None else f"{v:,.3g}" for v in (value, high)]
    return f"{shown[0]} [{low:,.3g}, {shown[1]}] times"


def comparison_page(found: PassComparison) -> list[Part]:
    """Two policies: the verdict, the curves, what moved, and what it rests on."""
    largest = found.differences[-1].k
    parts: list[Part] = [
        Line("Answer", HEADLINES[found.verdict], strong=True),
        Line("", found.reason),
        Line("Crossing", crossing_words(found.crossing, largest)),
        Heading(f"pass@k before and after ({percent(found.level)} intervals)"),
        _differences(found),
        *_mark_words([d.status for d in found.differences]),
        *_statuses(found.before, "Before: "),
        *_statuses(found.after, "After: "),
        Paragraph(_how(found)),
        *_all_pass(found),
        *_turnover(found.turnover),
        Heading("What this rests on"),
        *(Bullet(line) for line in (*found.notes, *found.assumptions)),
    ]
    return parts


def _differences(found: PassComparison) -> Grid:
    rows = []
    for d in found.differences:
        before, after = found.before.at(d.k), found.after.at(d.k)
        how = "counted" if d.counted else "fitted" if d.value is not None else "-"
        rows.append((str(d.k), rate(before.value), rate(after.value), _signed(d) + MARKS.get(d.status, ""), how))
    return Grid(("k", "before", "after", "difference", ""), rows, frozenset({0}))


def _signed(d: PassDifference) -> str:
    value = "unknown" if d.value is None else f"{d.value + 0.0:+.3f}"
    return f"{value} [{d.low + 0.0:+.3f}, {d.high + 0.0:+.3f}]"


def _how(found: PassComparison) -> str:
    if found.paired:
        return f"{plural(found.prompts, 'prompt')} compared with themselves."
    return f"Two separate samples: {plural(found.only_before, 'prompt')} before, {found.only_after:,} after."


def _all_pass(found: PassComparison) -> list[Part]:
    shown = [d for d in found.differences if d.all_pass is not None and d.k > 1]
    if not shown or shown[-1].all_pass is None:
        return []
    d, last = shown[-1], shown[-1].all_pass
    return [Paragraph(f"pass^{d.k}, all {d.k} pass: {last.value:+.3f} [{last.low:+.3f}, {last.high:+.3f}].")]


def _beyond(d: Difference) -> str:
    """A least share: it is shown where its lower limit is above 0, and a share below 0 there is not."""
    if d.low > 0.0:
        return f"{d.value:.3f} [{d.low:.3f}, {d.high:.3f}]"
    return "none shown" if d.high <= 0.0 else f"none shown [0.000, {d.high:.3f}]"


def _turnover(t: Turnover | None) -> list[Part]:
    if t is None:
        return []
    rows = [
        ("gained", with_interval(t.gained_seen.value, t.gained_seen.low, t.gained_seen.high), rate(t.by_chance),
         _beyond(t.gained)),
        ("lost", with_interval(t.lost_seen.value, t.lost_seen.low, t.lost_seen.high), rate(t.by_chance),
         _beyond(t.lost)),
    ]  # fmt: skip
    said = [f"prompts were {word}" for word, d in (("gained", t.gained), ("lost", t.lost)) if d.low > 0.0]
    sure = f"Beyond chance, {' and '.join(said)}." if said else "Beyond chance, neither is shown."
    counts = (
        f"As counted: {t.zero_before_pass_after:,} of {t.zero_before:,} prompts without a pass before have one after; "
        f"{t.pass_before_zero_after:,} of {t.zero_after:,} without a pass after had one before."
    )
    return [
        Heading(f"Prompts gained and lost at k = {t.k} (shares of prompts)"),
        Grid(("", "seen", "by chance", "beyond chance, at least"), rows),
        Paragraph(f"{sure} {counts} {NO_NEWS}"),
    ]
