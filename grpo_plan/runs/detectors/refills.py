"""Dynamic sampling that may not fill a step before its trainer gives up."""

from __future__ import annotations

import numpy as np

from grpo_plan.batches.refilling import any_of
from grpo_plan.errors import DomainError
from grpo_plan.quantities import Stage
from grpo_plan.runs.detectors.common import SeenShare, evidence_of, late_share, percent
from grpo_plan.runs.detectors.refill_caps import CAPS, Cap, batch_size, is_on, limit_of
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.rounds import dead_from_rounds, unfilled
from grpo_plan.runs.series import share_over

STOPS, WORSE = 0.10, 0.05  # chance in the rest of the run; share of steps
TELL = 0.05  # chance in the rest of the run that is worth knowing
STEP_KEYS = (
    "trainer.total_training_steps", "total_training_steps", "grpo.max_num_steps", "num_rollout", "max_steps",
    "orchestrator.max_steps",
)  # fmt: skip


def refill_cap_risk(facts: Facts) -> Outcome:
    """The chance that a step is not full when its trainer gives up, now and in the steps left."""
    id, cap = "REFILL_CAP_RISK", CAPS.get(facts.view.tool or "")
    rounds = facts.measured("generation_batches")
    taken = rounds if isinstance(rounds, Measured) else None
    most, off = limit_of(facts, cap)
    refilling = (taken is not None and bool(np.any(taken.values > 1.0))) or is_on(facts, cap)
    if not refilling:
        return Clear(id=id, because="the log shows no refilling: no step took more than one generation batch.")
    if off:
        return Clear(id=id, because=f"{off}.")
    if most is None:
        key = cap.key if cap is not None else "the trainer's limit"
        need = f"the generation batches after which a step gives up: {key} in the settings beside the log, or "
        return Skipped(id=id, needs=f"{need}max_generation_batches of DiagnosisSettings.")
    does, stops = (cap.does, cap.stops) if cap is not None else ("what the trainer does there is not known", True)
    hits = None if taken is None else share_over((taken.values >= most).astype(float), level=facts.settings.level)
    dead = _dead(facts, taken, most)
    left = _steps_left(facts)
    if dead is None and hits is None:
        return Skipped(
            id=id, needs="the dead fraction before filtering and the prompts of a step (--prompts-per-step), or the "
            "generation batches of each step."
        )  # fmt: skip
    chances = _chances(facts, dead, most)
    if chances is None:
        # A step that took all batches may have been filled by the last one.
        chances = (0.0, 1.0, 1.0) if hits is None else (0.0, hits.value or 0.0, hits.high)
    run = tuple(any_of(min(c, 1.0), left[0]) for c in chances)
    reached = 0 if taken is None else int((taken.values >= most).sum())
    seen = _seen(most, cap, chances, run, left, reached, taken)
    often = hits is not None and hits.low > WORSE
    grave = run[0] > STOPS if stops else chances[0] > WORSE or often
    if not grave and run[1] <= TELL and not reached:
        return Clear(id=id, because=f"{seen}.")
    evidence = {
        "cap_batches": most,
        "chance_per_step": chances[1],
        "chance_per_step_low": chances[0],
        "chance_per_step_high": chances[2],
        "steps_left": left[0],
        "steps_left_known": left[1],
        "chance_in_steps_left": run[1],
        "chance_in_steps_left_low": run[0],
        "chance_in_steps_left_high": run[2],
        "steps_at_cap": reached,
        "rows": None if taken is None else taken.rows,
        "largest_batches": None if taken is None else float(taken.values.max()),
        "stops_the_run": stops if cap is not None else None,
    }
    return Finding(
        id=id,
        severity=Severity.WARNING if grave else Severity.INFO,
        says=f"{seen[0].upper()}{seen[1:]}; {does}.",
        onset_step=int(taken.steps[int(np.argmax(taken.values >= most))]) if taken is not None and reached else None,
        evidence=evidence if dead is None else {**evidence, **evidence_of("dead_fraction", dead)},
        remedy="Raise the limit, make generation batches larger, want fewer prompts a step, or take prompts of which "
        "fewer are dead: grpo-plan refill says which limit 95 % of runs never hit.",
        reference="docs/theory.md, eq. 52 and 53 (batches of a refill) and eq. 95 (dead fraction from batches).",
    )


def _dead(facts: Facts, taken: Measured | None, most: int) -> SeenShare | None:
    """The dead fraction of the groups drawn, late in the run: from the batches of each step, else as logged."""
    wanted, level = facts.prompts_per_step, facts.settings.level
    if wanted is None:
        return None
    logged = facts.dead
    if isinstance(logged, Measured) and logged.exact and logged.stage in (Stage.BEFORE, Stage.UNFILTERED):
        return late_share(facts, logged)[1]
    if taken is None or facts.steps_per_row > 1:
        return None
    late = facts.late(taken).values
    if bool(np.any((late != np.round(late)) | (late < 1.0))):
        return None
    try:
        found = dead_from_rounds(late, wanted, batch_size(facts, wanted), cap=most, level=level)
    except DomainError:  # batches of another size than the settings say
        return None
    value = found.value
    return SeenShare(value=value, seen_low=value, seen_high=value, low=found.low, high=found.high, rows=found.rows)


def _chances(facts: Facts, dead: SeenShare | None, most: int) -> tuple[float, float, float] | None:
    """Chance that a step is not full after all its batches: low, middle, high; None without a dead fraction."""
    wanted = facts.prompts_per_step
    if dead is None or dead.value is None or wanted is None:
        return None
    ends = np.array([dead.low, dead.value, dead.high])
    low, middle, high = unfilled(ends, most * batch_size(facts, wanted), wanted)
    return float(low), float(middle), float(high)


def _steps_left(facts: Facts) -> tuple[int, bool]:
    """Steps until the end, and whether that is known; else as many again as so far."""
    steps = facts.run.steps
    so_far = int(steps[-1] - steps[0] + 1) if steps.size else 1
    total = facts.view.count(*STEP_KEYS)
    if total is not None and steps.size:
        return max(total - int(steps[-1]), 0), True
    return so_far, False


def _seen(
    most: int,
    cap: Cap | None,
    chances: tuple[float, float, float],
    run: tuple[float, ...],
    left: tuple[int, bool],
    reached: int,
    taken: Measured | None,
) -> str:
    key = "" if cap is None else f" ({cap.key})"
    told = f"a step gives up after {most:,} generation batches{key}"
    if taken is not None:
        told += (
            f"; {reached:,} of {taken.rows:,} rows took so many"
            if reached
            else f", and the largest took {taken.values.max():g}"
        )
    steps = f"the {left[0]:,} steps left" if left[1] else f"{left[0]:,} more steps"
    each = _chance(chances)
    return f"{told}; the chance not to be full then is {each} a step, and {_chance(run)} in {steps}"


def _chance(limits: tuple[float, ...]) -> str:
    low, middle, high = limits
    return f"{percent(middle)} % ({percent(low)} to {percent(high)} %)"
