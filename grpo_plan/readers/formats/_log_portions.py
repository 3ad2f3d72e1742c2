"""Which rows of a log are new, and which of them are training: repeats found, evaluation told apart."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from grpo_plan.readers.formats._logged import LoggedBatch, LoggedRun, Portion
from grpo_plan.readers.formats._run_facts import RunFacts
from grpo_plan.readers.sink import RolloutSink

Seen = dict[bytes, set[int | None]]
FEWEST_PROMPTS = 3  # of a sequence whose return is no chance


def new_batches(run: LoggedRun, seen: Seen, sink: RolloutSink) -> list[LoggedBatch]:
    """Tables whose rollouts were not read before; the others are counted as duplicates.

    A table equals another if all its rows do, in their order. Equal rows within a table are honest repeats. Where the
    log of the run says that rollouts were generated at a step, they are new even if they read the same.
    """
    kept, repeats = [], Counter[str]()
    for batch in run.batches:
        steps = seen.setdefault(hashlib.blake2b(batch.content.tobytes(), digest_size=16).digest(), set())
        fresh = all(run.facts.new_since(batch.step, earlier) for earlier in steps)
        if batch.step in steps or (steps and not fresh):
            sink.drop("duplicate_rollouts", batch.rows)
            repeats["of its own step" if batch.step in steps else "of another step"] += 1
        else:
            kept.append(batch)
        steps.add(batch.step)
    if repeats["of another step"]:
        sink.note(
            f"{run.name}: {repeats['of another step']} of {len(run.batches)} tables repeat the rollouts of another "
            "step, as one generation batch served several steps; each rollout was counted once."
        )
    return kept


def evaluated_batches(run: LoggedRun, kept: Sequence[LoggedBatch], sink: RolloutSink) -> set[int]:
    """Which of the tables hold rollouts of evaluation (their index), and a note on how that is known."""
    facts, found, tables = run.facts, set(), Counter[int | None]()
    for i, batch in enumerate(kept):
        tables[batch.step] += 1
        trained = facts.covers(batch.step) and batch.step not in facts.evaluated  # a step done again after a resume
        again = run.appended and tables[batch.step] > 1 and not trained
        alone = batch.step in facts.evaluated and (not run.appended or batch.step not in facts.generated)
        if batch.step == 0 or again or alone:
            found.add(i)
    if found:
        how = (
            f"by {facts.log}"
            if facts.log
            else "a second table of its step"
            if run.appended
            else "no training before step 1"
        )
    elif not (run.appended or facts.log or _no_evaluation(facts)):
        found = _recurring(kept)
        how = "the same prompts in the same order return at regular steps"
    if found:
        listing = ", ".join(str(kept[i].step) for i in sorted(found)[:6]) + (", ..." if len(found) > 6 else "")
        fate = "" if run.appended else "; those of training at these steps were overwritten"
        sink.note(
            f"{run.name}: rollouts of evaluation at step{'s' * (len(found) > 1)} {listing} ({how}){fate}. "
            "--split eval reads them."
        )
    if not run.appended and not facts.log and not _no_evaluation(facts):
        sink.note(
            f"{run.name}: no trainer_state.json beside the rollouts. Evaluation overwrites the rollouts of its step; "
            "whether it did so cannot be told for sure."
        )
    elif facts.log and (after := [b for b in kept if not facts.covers(b.step)]):
        sink.note(
            f"{run.name}: {facts.log} ends at step {facts.last_step}, before {len(after)} of {len(kept)} tables; "
            "whether these hold rollouts of evaluation cannot be told."
        )
    return found


def _no_evaluation(facts: RunFacts) -> bool:
    return facts.config.get("eval_strategy") == "no"


def _recurring(kept: Sequence[LoggedBatch]) -> set[int]:
    """The one sequence of prompts that returns, at multiples of its first step; training shuffles its prompts."""
    by_sequence: dict[bytes, list[int]] = {}
    for i, batch in enumerate(kept):
        by_sequence.setdefault(batch.keys.tobytes(), []).append(i)
    again = [found for found in by_sequence.values() if len(found) > 1]
    if len(again) != 1 or len(again[0]) == len(kept):
        return set()
    steps = [kept[i].step or 0 for i in again[0]]
    prompts = np.unique(kept[again[0][0]].keys).size
    return set(again[0]) if prompts >= FEWEST_PROMPTS and steps[0] and not any(s % steps[0] for s in steps) else set()


def portions_of(
    run: LoggedRun, kept: Sequence[LoggedBatch], evaluated: set[int], eval_rows: Mapping[int, int], sink: RolloutSink
) -> list[Portion]:
    """Rows of training and of evaluation of each table; ``eval_rows`` are the last rows of a table that are known.

    A log keeps the last rows only: an evaluation of fewer rows than a generation batch leaves rows of training before
    its own. These are dropped where the table before has them.
    """
    out: list[Portion] = []
    before: LoggedBatch | None = None
    for i, batch in enumerate(kept):
        if i not in evaluated:
            out.append(Portion(batch=batch, start=0, stop=batch.rows, split="train"))
        else:
            head = (
                _overlap(before, batch) if run.appended else batch.rows - min(batch.rows, eval_rows.get(i, batch.rows))
            )
            fresh = before is not None and not run.appended and run.facts.new_since(batch.step, before.step)
            if head and not fresh and _follows(before, batch, head):
                sink.drop("duplicate_rollouts", head)
            elif head:
                out.append(Portion(batch=batch, start=0, stop=head, split="train", cut=True))
            out.append(Portion(batch=batch, start=head, stop=batch.rows, split="eval", cut=True))
        before = batch
    return out


def _follows(before: LoggedBatch | None, batch: LoggedBatch, head: int) -> bool:
    """Whether the first rows of a table are the last ones of the table before."""
    if before is None or before.rows < head:
        return False
    return bool(np.array_equal(before.content[-head:], batch.content[:head]))


def _overlap(before: LoggedBatch | None, batch: LoggedBatch) -> int:
    if before is None:
        return 0
    most = min(before.rows, batch.rows - 1)
    return next((n for n in range(most, 0, -1) if _follows(before, batch, n)), 0)
