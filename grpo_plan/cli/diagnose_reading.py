"""The parts of a diagnosis that say how it was reached: what is clear, what was not checked, how the log was read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from grpo_plan.cli.page import Bullet, Heading, Line, Part
from grpo_plan.quantities import DEFINITIONS, Absent, Quantity
from grpo_plan.run_log import OTHERWISE
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.finding import Skipped

ABOUT_GROUPS = (
    "dead_fraction", "mixed_fraction", "all_pass_fraction", "all_fail_fraction", "group_reward_std", "reward_mean",
    "pass_rate_mean", "generation_batches",
)  # fmt: skip
SETTINGS = ("group_size", "prompts_per_step")  # said of the run
MOST_NAMES = 12
ROLLOUTS = "Rollouts would tell: "
ASKED = re.compile(r"--[a-z][a-z-]*(?: FILE)?")
_OPTIONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r" \(DiagnosisSettings\.\w+\)| \(\w+ of DiagnosisSettings\)| \(\w+= of read_run\)"), ""),
    (re.compile(r"(\w+)(?: of DiagnosisSettings|= of read_run)"), lambda found: f"--{found[1].replace('_', '-')}"),
    (re.compile(r"DiagnosisSettings\.(\w+)"), lambda found: f"--{found[1].replace('_', '-')}"),
    (re.compile(r"The setting (\w+) settles it"), r"--config \1=VALUE settles it"),
    (re.compile(r"--reward-column"), "--reward"),
)
SENTENCE = re.compile(r"(?<=[.!?]) (?=\S)")


def checks(diagnosis: Diagnosis, *, details: bool) -> Iterator[Part]:
    """What is clear and what was not checked; in short by name, and what an option would settle in full."""
    clear, skipped = diagnosis.clear, diagnosis.skipped
    if details:
        if clear:
            yield Heading("Checked and clear")
            yield from (Bullet(f"{found.id}: {found.because}") for found in clear)
        if skipped:
            yield Heading("Not checked, and what it needs")
            yield from (Bullet(text) for text in _needs(skipped))
        return
    if not clear and not skipped:
        return
    yield Heading("Other checks")
    if clear:
        yield Line("Clear", ", ".join(found.id for found in clear), indent=2)
    others, asked = [], []
    for check in skipped:
        option = ASKED.search(in_options(SENTENCE.split(check.needs)[0]))
        if option is None:
            others.append(check.id)
        else:
            asked.append(f"{option[0]} for {check.id}")
    if others:
        yield Line("Open", f"{', '.join(others)}: the log does not tell", indent=2)
    if asked:
        yield Line("Open" if not others else "", f"give {', '.join(asked)}", indent=2)


def read_as(diagnosis: Diagnosis) -> Iterator[Part]:
    """How the log was read."""
    yield Heading("How the log was read")
    told: set[str] = set()
    yield from (Bullet(text) for text in _reading(diagnosis, told))


def contradictions(diagnosis: Diagnosis) -> Iterator[str]:
    """Where a metric of the dead fraction and the rollouts that were counted do not agree."""
    for name in ("dead_fraction", "all_pass_fraction", "all_fail_fraction"):
        found = diagnosis.run.quantity(name)
        if isinstance(found, Quantity):
            yield from (f"{note} The rollouts are believed." for note in found.notes if OTHERWISE in note)


def left_out(diagnosis: Diagnosis) -> str | None:
    """Rows that were read and not used, with the reason; None if there are none."""
    dropped = diagnosis.run.dropped
    return ", ".join(f"{r.replace('_', ' ')} {c:,}" for r, c in dropped.items()) if dropped else None


def _needs(skipped: Sequence[Skipped]) -> Iterator[str]:
    """What the checks need, those with the same need together; the advice that rollouts would tell stands once."""
    own: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for check in skipped:
        kept = []
        for sentence in dict.fromkeys(SENTENCE.split(check.needs.strip())):
            if sentence.startswith(ROLLOUTS):
                shared.setdefault(sentence.removeprefix(ROLLOUTS), []).append(check.id)
            else:
                kept.append(sentence)
        own.setdefault(" ".join(kept) or "rollouts.", []).append(check.id)
    for needs, ids in own.items():
        yield f"{', '.join(ids)}: {needs}"
    for how, ids in shared.items():
        yield f"Rollouts would tell {', '.join(dict.fromkeys(ids))}: {how}"


def _reading(diagnosis: Diagnosis, told: set[str]) -> Iterator[str]:
    run = diagnosis.run
    found = {name: run.quantity(name) for name in DEFINITIONS}
    for name in ABOUT_GROUPS:
        quantity, dead = found[name], found["dead_fraction"]
        if name == "mixed_fraction" and isinstance(dead, Quantity) and quantity.metrics == dead.metrics:
            continue
        if isinstance(quantity, Quantity):
            kept = [note for note in quantity.notes if note not in told]
            told.update(kept)
            notes = "".join(f" {note}" for note in kept)
            yield f"{name}: {_logged_as(quantity)}; {quantity.stage.value}.{notes}"
    dead = found["dead_fraction"]
    if isinstance(dead, Absent):
        yield dead.reason
    others = [
        f"{n} ({_logged_as(q)})"
        for n, q in found.items()
        if isinstance(q, Quantity) and n not in ABOUT_GROUPS and n not in SETTINGS
    ]
    if others:
        yield f"Also read: {', '.join(others)}."
    yield f"Rewards: {diagnosis.facts.rewards.kind.value}; {diagnosis.facts.rewards.because}."
    yield from run.notes
    unknown = run.unknown_keys
    if unknown:
        more = f" and {len(unknown) - MOST_NAMES:,} more" if len(unknown) > MOST_NAMES else ""
        yield f"Unknown metrics, kept and not used: {', '.join(unknown[:MOST_NAMES])}{more}."
    if dropped := left_out(diagnosis):
        yield f"Left out: {dropped}."


def _logged_as(quantity: Quantity) -> str:
    return ", ".join(quantity.metrics) or "counted from the rollouts"


def in_options(text: str) -> str:
    """What a message asks for by the names of the library, by those of the command line.

    >>> in_options("Say what passes with pass_threshold= of read_run.")
    'Say what passes with --pass-threshold.'
    >>> in_options("the settings (beta), or kl_coefficient of DiagnosisSettings; give --gpus (DiagnosisSettings.gpus)")
    'the settings (beta), or --kl-coefficient; give --gpus'
    """
    for pattern, instead in _OPTIONS:
        text = pattern.sub(instead, text)
    return text
