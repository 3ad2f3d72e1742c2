"""A comparison of remedies as a page that a person can act on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from grpo_plan.cli.common import percent
from grpo_plan.cli.numbers import amount
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part, print_page
from grpo_plan.fitting.status import FitStatus

if TYPE_CHECKING:
    from grpo_plan.remedies import AtKappa, Effect, EstimatorEffect, Ranged, RemedyComparison, SamplingEffect, Turn

MARKS = {FitStatus.EXTRAPOLATED: "*", FitStatus.BEYOND_REACH: "!"}
SIGNS = {"HELPS": "+", "ABOUT_THE_SAME": "=", "DOES_NOT_HELP": "-", "DEPENDS_ON_KAPPA": "~", "CANNOT_TELL": "?"}
LEGEND = (
    "+ more: all limits above 1. - less: all below 1. = about the same: all within 0.9 to 1.1. ~ more at one kappa, "
    "less at another. ? cannot tell."
)
STATED = ("hint", "variants")  # what the user says of the prompts, and what it costs
SHOWN_ASSUMPTIONS = 2  # the gravest ones, without --details
DETAILS = (
    "With --details: which kappa turns each order, which rollouts train, what dead groups bring of signal and noise, "
    "what each estimator climbs, what sampling costs, remedies elsewhere, what others found, all assumptions."
)


def print_remedies(found: RemedyComparison, *, details: bool = False) -> None:
    """Print the page."""
    print_page(list(page(found, details=details)))


def page(found: RemedyComparison, *, details: bool = False) -> Iterator[Part]:
    """The verdict, the estimators, what they do with dead groups, the sampling, what it rests on; more with details.

    Without mixed groups the verdict, and what stated hints or variants would change.
    """
    for i, sentence in enumerate(found.verdict):
        yield Line("Answer" if i == 0 else "", sentence, strong=i == 0)
    if not found.decided:
        yield from _stated(found)
        return
    yield from _progress(found, details=details)
    if details:
        yield from _dead_groups(found)
        yield from _objectives(found)
    yield from _sampling(found, details=details)
    if details:
        yield from _bullets("Elsewhere", found.elsewhere)
        yield from _bullets("What others found", found.claims)
    yield from _bullets("What this rests on", found.assumptions if details else found.assumptions[:SHOWN_ASSUMPTIONS])
    if not details:
        yield Paragraph("")
        yield Paragraph(DETAILS, indent=0)


def _bullets(title: str, lines: Iterable[str]) -> Iterator[Part]:
    yield Heading(title)
    for line in lines:
        yield Bullet(line)


def _stated(found: RemedyComparison) -> Iterator[Part]:
    """Dead groups under hints and variants that the user states, where nothing else can be said."""
    stated = [s for s in found.sampling if s.name in STATED]
    if stated:
        yield Heading("Dead groups, by what you state")
        yield from _dead_table([found.sampling[0], *stated])
        yield from _comments(stated)


def number(value: float | None, digits: int = 2) -> str:
    """A number with that many decimals; unknown and without limit in a sign.

    >>> number(0.5), number(None), number(float("inf")), number(12345.0)
    ('0.50', '?', 'none', '12,345')
    """
    if value is None:
        return "?"
    if math.isinf(value):
        return "none"
    return f"{value:.{digits}f}" if abs(value) < 99.5 else amount(value)


def ranged(found: Ranged | None, digits: int = 2) -> str:
    """Value and limits; once, where they are one number.

    >>> from grpo_plan.remedies import Ranged
    >>> ranged(Ranged(value=0.5, low=0.4, high=None)), ranged(Ranged.exact(1.0)), ranged(None)
    ('0.50 [0.40, none]', '1', '-')
    """
    if found is None:
        return "-"
    if found.value is not None and found.low == found.value == found.high:
        return f"{found.value:g}"
    high = "none" if found.high is None else number(found.high, digits)
    return f"{number(found.value, digits)} [{number(found.low, digits)}, {high}]"


def _compared(found: RemedyComparison) -> list[EstimatorEffect]:
    return [e for e in found.estimators if e.same_plan_as is None and not e.refused]


def _progress(found: RemedyComparison, *, details: bool) -> Iterator[Part]:
    yield Heading(
        f"Progress per rollout beside {found.reference} ({percent(found.level)} intervals, for all ratios at once)"
    )
    kappas = [f"kappa {k:.3g}" for k in map(float, found.kappa.shown())]
    rows = [
        (_signed(e.name, None if e.name == found.reference else e.effect), *(ranged(at.ratio) for at in e.progress))
        for e in _compared(found)
    ]
    yield Grid(("  estimator", *kappas), rows)
    yield Paragraph(LEGEND)
    if not found.kappa.known and len(kappas) > 2:
        yield Paragraph(f"kappa {found.kappa.middle:.3g} is the middle of the range on a log scale.")
    if details:
        yield from _turns((e.name, e.turn, e.effect) for e in _compared(found) if e.name != found.reference)
    same = [f"{e.name} = {e.same_plan_as}" for e in found.estimators if e.same_plan_as is not None]
    if same:
        yield Paragraph(f"Same advantages up to a factor, so the same progress: {', '.join(same)}.")
    for e in found.estimators:
        if e.refused:
            yield Paragraph(f"{e.name}: left out. {e.refused}")
    noisy = [(e.name, e.progress) for e in _compared(found) if e.progress and e.progress[0].noise_to_signal is not None]
    if noisy:
        yield Heading("Noise to signal of a step", part=True)
        yield Grid(("estimator", *kappas), [(name, *(_noise(at) for at in ats)) for name, ats in noisy])


def _noise(at: AtKappa) -> str:
    return "?" if at.noise_to_signal is None else f"{at.noise_to_signal:.3g}"


def _signed(name: str, effect: Effect | None) -> str:
    """A name with what the limits say in front."""
    return f"{' ' if effect is None else SIGNS[effect.name]} {name}"


def _turns(rows: Iterable[tuple[str, Turn | None, Effect | None]]) -> Iterator[Part]:
    """Where orders turn, for what differs enough to matter."""
    from grpo_plan.remedies.verdict import turn_numbers, unsure

    shown = []
    for name, turn, effect in rows:
        if turn is None or turn.kappa is None or effect is None or effect.name == "ABOUT_THE_SAME":
            continue
        shown.append((name, f"{turn.better}{', if at all' if unsure(turn) else ''}", turn_numbers(turn.kappa)))
    if shown:
        yield Heading("Where the order turns", part=True)
        yield Grid(("", "more progress", "kappa"), shown)


def push(advantage: float | None) -> str:
    """What an advantage of a dead group does to its rollouts.

    >>> push(-1.0), push(0.5), push(0.0)
    ('down by 1', 'up by 0.5', 'nothing')
    """
    if advantage is None:
        return "?"
    if advantage == 0.0:
        return "nothing"
    return f"{'down' if advantage < 0 else 'up'} by {abs(advantage):.3g}"


def _dead_groups(found: RemedyComparison) -> Iterator[Part]:
    yield Heading("Rollouts that train, and what dead groups do")
    rows = [
        (e.name, ranged(e.live, 3), push(e.all_fail_advantage), push(e.all_pass_advantage)) for e in _compared(found)
    ]
    yield Grid(("estimator", "share with an advantage", "all-fail groups", "all-pass groups"), rows)
    for e in _compared(found):
        s, v = e.signal_by_kind, e.noise_by_kind
        if s is None or v is None or (e.all_fail_advantage == 0.0 and e.all_pass_advantage == 0.0):
            continue
        yield Paragraph(
            f"{e.name}: all-fail groups bring {ranged(s.all_fail)} of its signal and {ranged(v.all_fail)} of its "
            f"noise; all-pass groups {ranged(s.all_pass)} and {ranged(v.all_pass)}."
        )
    yield Paragraph("A rollout without an advantage needs no backward pass; all rollouts are generated and scored.")


def _objectives(found: RemedyComparison) -> Iterator[Part]:
    yield Heading("What each climbs")
    for e in _compared(found):
        yield Bullet(f"{e.name}: {e.objective or 'not known in closed form'}.")


def _sampling(found: RemedyComparison, *, details: bool) -> Iterator[Part]:
    yield Heading("Sampling")
    yield from _dead_table(found.sampling)
    if details or any(s.name in STATED for s in found.sampling):
        yield Heading("What it costs", part=True)
        steps = found.prompts_per_step is not None
        columns = ("", "rollouts a prompt", "rollouts a mixed group", *(["mixed groups a step"] if steps else []))
        yield Grid(columns, [_price(s, steps) for s in found.sampling])
    yield Heading(f"Progress per rollout beside now, with {found.reference}", part=True)
    kappas = [f"kappa {k:.3g}" for k in map(float, found.kappa.shown())]
    judged = [s for s in found.sampling if s.progress is not None]
    yield Grid(
        ("", *kappas), [(_signed(s.name, s.effect), *(ranged(at.ratio) for at in s.progress or ())) for s in judged]
    )
    if details:
        yield from _turns((s.name, s.turn, s.effect) for s in judged)
    yield from _comments(found.sampling)


def _dead_table(rows: Iterable[SamplingEffect]) -> Iterator[Part]:
    cells = [
        (s.name, ranged(s.dead, 3) + MARKS.get(s.status, ""), ranged(s.all_fail, 3), ranged(s.all_pass, 3))
        for s in rows
    ]
    yield Grid(("", "dead groups", "all-fail", "all-pass"), cells)


def _comments(rows: Sequence[SamplingEffect]) -> Iterator[Part]:
    """What each row assumes, and what the marks mean."""
    for s in rows:
        if s.comment:
            yield Paragraph(f"{s.name}: {s.comment}" + (f" See {s.command}." if s.command else ""))
    marks = {s.status for s in rows}
    if FitStatus.EXTRAPOLATED in marks:
        yield Paragraph("* EXTRAPOLATED beyond twice the pilot's rollouts per prompt: trust the interval.")
    if FitStatus.BEYOND_REACH in marks:
        yield Paragraph("! BEYOND_REACH: the interval is wider than 0.5; this pilot cannot tell.")


def _price(s: SamplingEffect, steps: bool) -> tuple[str, ...]:
    cells = (s.name, ranged(s.rollouts, 1), ranged(s.rollouts_per_mixed, 1))
    return (*cells, ranged(s.mixed_per_step, 1)) if steps else cells
