"""Two policies by pass@k: differences, their crossing, and what became solvable (theory.md, eq. 132 to 135)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grpo_plan._pooling import has_row_names
from grpo_plan._validate import as_level, as_positive, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.fit import fit_pass_rates, refuse_filtered
from grpo_plan.fitting.paired import Difference
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passk.crossing import find_crossing
from grpo_plan.passk.curve import PassCurve, as_ks, default_ks, pass_curve
from grpo_plan.passk.result import PassComparison, PassDifference, PassVerdict, decide_pass
from grpo_plan.passk.turnover import find_turnover
from grpo_plan.passk.words import assumptions_of, notes_of, reason_of
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pairing import CommonPrompts, TemperaturePilot, common_prompts, pooled_prompts
from grpo_plan.planning.temperature_compare import Apart, Pairs, Side

MOST_MARGIN = 0.5
GRAVER = (FitStatus.DEPENDENT, FitStatus.UNKNOWN, FitStatus.BEYOND_REACH, FitStatus.EXTRAPOLATED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Policies:
    """Two pilots, each named prompt once, and what they share."""

    before: TemperaturePilot
    after: TemperaturePilot
    common: CommonPrompts

    @property
    def paired(self) -> bool:
        """Whether prompts are compared with themselves."""
        return self.common.pairs

    @property
    def pilots(self) -> tuple[Pilot, Pilot]:
        """The pilots that are compared: of the common prompts if paired."""
        first, second, c = self.before.pilot, self.after.pilot, self.common
        if not self.paired:
            return first, second
        return (
            Pilot.from_counts(c.baseline_successes, c.baseline_rollouts, provenance=first.provenance),
            Pilot.from_counts(c.successes, c.rollouts, provenance=second.provenance),
        )


def compare_pass(
    before: Pilot,
    after: Pilot,
    *,
    ks: Iterable[int] | None = None,
    level: float = 0.95,
    margin: float = 0.02,
) -> PassComparison:
    """Compare two policies by pass@k, prompt by prompt where both pilots name the same prompts.

    Args:
        before: Pilot of the first policy, e.g. the base model.
        after: Pilot of the second, e.g. after RL.
        ks: Tries, whole numbers of at least 1; 1 is always among them. Default: powers of 2 up to four times the
            rollouts of a prompt. Choose before looking.
        level: Confidence level of each interval, in (0, 1).
        margin: Gain in pass@k that is still of interest, in (0, 0.5].

    Returns:
        A `PassComparison`; its verdict is `PassVerdict.CANNOT_TELL` where the pilots leave it open.

    Raises:
        DomainError: An argument is outside its domain.
        PilotError: A pilot lacks its dead groups, prompts were removed from it by their count, or it mixes
            temperatures.

    >>> ids = [f"q{i}" for i in range(300)]
    >>> base = Pilot.from_counts([4] * 200 + [1] * 100, 8, prompt_id=ids)
    >>> trained = Pilot.from_counts([8] * 200 + [0] * 100, 8, prompt_id=ids)
    >>> found = compare_pass(base, trained)
    >>> found.verdict.name, found.crossing.status.name, found.crossing.low, found.crossing.high
    ('SEARCH_COMPRESSION', 'CROSSES', 2, 4)
    """
    policies = policies_of(before, after)
    sure, smallest = as_level(level), as_gain(margin)
    fits = tuple(fit_pass_rates(pilot) for pilot in policies.pilots)
    wanted = default_ks(min(fits, key=lambda f: f.max_counted_group_size)) if ks is None else as_ks(ks)
    wanted = as_ks([1, *wanted])
    curves = tuple(pass_curve(fit, ks=wanted, level=sure) for fit in fits)
    pilots = policies.pilots
    compare = Pairs(policies.common) if policies.paired else Apart(*pilots)
    side = Side(part=policies.before, fit=fits[0], level=sure)
    counted = compare.largest()
    each = 1.0 - (1.0 - sure) / 2.0
    differences = tuple(_counted(compare, k, side) if k <= counted else _fitted(k, curves, each) for k in wanted)
    last = max(k for k in wanted if k <= counted)
    verdict, end = decide_pass(differences, smallest, 1.0 - (curves[0].at(last).value or 0.0))
    crossing = find_crossing(differences)
    return PassComparison(
        verdict=verdict,
        reason=reason_of(verdict, end, differences, crossing, smallest),
        before=curves[0],
        after=curves[1],
        differences=differences,
        crossing=crossing,
        turnover=find_turnover(policies.common, counted, sure) if policies.paired else None,
        paired=policies.paired,
        prompts=policies.common.prompts if policies.paired else 0,
        only_before=policies.common.only_baseline if policies.paired else pilots[0].prompts,
        only_after=policies.common.only_other if policies.paired else pilots[1].prompts,
        level=sure,
        margin=smallest,
        notes=notes_of(policies.paired, policies.common, (before, after), (policies.before, policies.after)),
        assumptions=assumptions_of(differences, sure, verdict is PassVerdict.CANNOT_TELL),
    )


def as_gain(margin: float) -> float:
    """A gain in pass@k, in (0, 0.5]."""
    smallest = as_positive(margin, "margin")
    if smallest > MOST_MARGIN:
        raise DomainError(f"margin must be at most {MOST_MARGIN:g}; got {smallest:g}. It is a gain in pass@k.")
    return smallest


def policies_of(before: Pilot, after: Pilot) -> Policies:
    """Both pilots with prompts of one name added up, and the prompts that they share.

    Raises:
        DomainError: One is no pilot.
        PilotError: A pilot that cannot be compared by all its groups, or that mixes temperatures.
    """
    for pilot, name in ((before, "before"), (after, "after")):
        require(pilot, Pilot, name, "Read one with read_pilot(...) or Pilot.from_counts(...).")
        refuse_filtered(pilot, f"Policies are compared by all groups of a prompt ({name})")
        if len(pilot.temperatures) > 1:
            shown = ", ".join(f"{t:g}" for t in pilot.temperatures)
            raise PilotError(
                f"A policy is compared at one temperature; the pilot {name} has {len(pilot.temperatures)} ({shown}). "
                f"Keep one, e.g. --{'where' if name == 'before' else 'after-where'} temperature="
                f"{pilot.temperatures[0]:g} or pilot.select(temperature=...)."
            )
    named = not all(has_row_names(pilot.prompt_id) for pilot in (before, after))
    first, second = (_named_once(pilot, place, named) for place, pilot in enumerate((before, after)))
    return Policies(before=first, after=second, common=common_prompts(first, second))


def _named_once(pilot: Pilot, place: int, named: bool) -> TemperaturePilot:
    part = pooled_prompts(float(place), pilot, named=named)
    return replace(part, pilot=replace(part.pilot, temperature=None, provenance=pilot.provenance))


def _counted(compare: Pairs | Apart, k: int, side: Side) -> PassDifference:
    """Difference of counted pass@k (theory.md, eq. 132)."""
    counts = compare.counts(k)
    passed: list[Difference] = []
    for kind, sign in ((1, -1.0), (0, 1.0)):  # pass@k falls where all-fail rises
        found = compare.difference(counts.baseline[kind], counts.other[kind], side, counts.weights)
        passed.append(found.times(sign))
    return PassDifference(
        k=k,
        value=passed[0].value,
        low=passed[0].low,
        high=passed[0].high,
        counted=True,
        prompts=passed[0].prompts,
        all_pass=passed[1],
        status=FitStatus.OK,
    )


def _fitted(k: int, curves: tuple[PassCurve, ...], level: float) -> PassDifference:
    """Difference of fitted pass@k: each at half the error, ends subtracted (theory.md, eq. 132)."""
    first, second = (pass_curve(curve.fit, ks=[k], level=level).at(k) for curve in curves)
    here, there = (curve.at(k) for curve in curves)
    known = here.value is not None and there.value is not None
    value = (there.value or 0.0) - (here.value or 0.0) if known else None
    low, high = second.low - first.high, second.high - first.low
    if value is not None:
        low, high = min(low, value), max(high, value)
    found = {here.status, there.status}
    status = next((s for s in GRAVER if s in found), here.status)
    return PassDifference(
        k=k,
        value=value,
        low=max(low, -1.0),
        high=min(high, 1.0),
        counted=False,
        prompts=min(curve.fit.pilot.prompts for curve in curves),
        all_pass=None,
        status=status,
    )
