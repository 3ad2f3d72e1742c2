"""What is shown of remedies compared on a pilot, and of simulated training."""

from __future__ import annotations

from typing import Any

from grpo_plan._words import plural
from grpo_plan.shown.fields import (
    Field,
    View,
    figures,
    number,
    one,
    plain_number,
    ranged,
    spread,
    text,
    whole,
    with_limits,
)
from grpo_plan.shown.of_estimates import percent, sentences

SHOWN = 12
SIMULATED = (
    ("held_out", "share", "pass rate on prompts that are not trained on", "held out"),
    ("train", "share", "pass rate on the prompts trained on", "train"),
    ("dead", "share", "dead groups since the last record", "dead"),
    ("all_fail", "share", "its part without a pass", ""),
    ("all_pass", "share", "its part without a fail", ""),
    ("mixed", "share", "mixed groups since the last record", ""),
    ("dead_now", "share", "dead fraction of the prompts as they are", ""),
    ("kl", "nats", "distance to the first policy", ""),
    ("noise_to_signal", "", "of a step", ""),
    ("gradient_norm", "", "norm of the gradient", ""),
    ("steps_done", "steps", "steps up to the record", ""),
    ("generated_rollouts", "rollouts", "rollouts generated up to the record", "rollouts"),
    ("trained_rollouts", "rollouts", "rollouts trained on up to the record", ""),
)


def at_kappa(side: int) -> Any:
    """Progress at the low or the high end of kappa."""

    def of(effect: Any) -> Any:
        return effect.progress[side].ratio if effect.progress else None

    return of


def _turn(effect: Any) -> Any:
    return None if effect.turn is None else effect.turn.kappa


def _effect(effect: Any) -> str | None:
    return None if effect.effect is None else str(effect.effect.name)


def _effect_of(row: tuple[str, Any]) -> str | None:
    return "REFERENCE" if row[0] == "sampling" and row[1].name == "now" else _effect(row[1])


def _estimator(effect: Any) -> str:
    if effect.refused:
        return f"{effect.name}: not judged. {effect.refused}"
    ends = [ranged(p.ratio.value, p.ratio.low, p.ratio.high) + f" at kappa {p.kappa:.3g}" for p in effect.progress]
    return f"{effect.name}, {effect.effect.name}: progress {', '.join(ends) or 'unknown'} of the reference"


def _sampling(effect: Any) -> str:
    per, dead = effect.rollouts_per_mixed, effect.dead
    verdict = "" if effect.effect is None else f", {effect.effect.name}"
    return (
        f"{effect.name}{verdict}: dead {ranged(dead.value, dead.low, dead.high)}, "
        f"{ranged(per.value, per.low, per.high, show=figures)} rollouts a mixed group, {effect.status.name}"
    )


SHARED = (
    with_limits("progress_low", "progress over the reference's at the lowest kappa", at_kappa(0), title="kappa low"),
    with_limits("progress_high", "the same at the highest kappa", at_kappa(-1), title="kappa high"),
    with_limits(
        "turning_kappa", "kappa at which the order turns; null if none", _turn, unit="", title="", show=figures
    ),
    text("turn", "on which side of it this is better", "turn.better", title=""),
    text("effect", "what the limits say", _effect),
)
ESTIMATOR = (
    text("name", "name of the estimator", title="remedy"),
    with_limits("live", "share of rollouts with an advantage other than 0"),
    *SHARED,
    number("all_fail_advantage", "advantage of each rollout of an all-fail group", title=""),
    number("all_pass_advantage", "of an all-pass group", title=""),
    number("signal", "E[t], on the estimator's own scale", title=""),
    number("noise", "E[v], on its scale squared", title=""),
    text("same_plan_as", "estimator whose advantages are a multiple", title=""),
    text("refused", "why it is not judged; empty if it is", title=""),
)
SAMPLING = (
    text("name", "what is changed", title="remedy"),
    whole("group_size", "rollouts of a group, G", unit="rollouts", title="G"),
    with_limits("dead", "share of dead groups among those trained on"),
    with_limits("rollouts_per_mixed", "rollouts for one mixed group", unit="rollouts", show=figures),
    with_limits("mixed_per_step", "mixed groups of a step; null if not known", unit="groups", title="", show=figures),
    *SHARED,
    text("status", "what the numbers can and cannot say", title=""),
)


def _remedies(found: Any) -> str:
    return " ".join(found.verdict)


def _remedy_rows(found: Any) -> list[tuple[str, Any]]:
    return [*(("estimator", e) for e in found.estimators), *(("sampling", s) for s in found.sampling)]


def _name(row: tuple[str, Any]) -> str:
    return str(row[1].name)


def _simulation(found: Any) -> str:
    last, gain = found.at("held_out"), found.gain()
    size = found.training.group_size
    seeds = f"{plural(found.training.steps, 'step')}, {plural(len(found.seeds), 'seed')}"
    return (
        f"{found.estimator}, G = {size if isinstance(size, int) else 'by schedule'}, {seeds}: held-out pass rate ends "
        f"at {ranged(last.value, last.low, last.high)}, a gain of {ranged(gain.value, gain.low, gain.high)} "
        f"({percent(found.level)})"
    )


def _simulation_rows(found: Any) -> list[tuple[Any, int]]:
    return [(found, i) for i in range(found.steps.size)]


def _recorded(name: str, unit: str, meaning: str, title: str) -> Field:
    def of(row: tuple[Any, int]) -> Any:
        found, i = row
        return found.at(name, i)

    if unit == "share":
        return with_limits(name, f"{meaning}, mean over seeds", of, title=title)
    return with_limits(name, f"{meaning}, mean over seeds", of, unit=unit, title=title, show=figures)


def _compared(found: Any) -> str:
    best = max(found.runs, key=lambda run: run.final.value or 0.0)
    final = ranged(best.final.value, best.final.low, best.final.high)
    told = [f"{r.estimator} G = {r.group_size} {r.verdict.value}" for r in found.runs[1:]]
    return (
        f"{plural(len(found.runs), 'training')}; {best.estimator} with G = {best.group_size} ends highest, at {final} "
        f"({percent(found.level)}). Against {found.runs[0].estimator} G = {found.runs[0].group_size}: {', '.join(told)}"
    )


VIEWS = {
    "RemedyComparison": View(
        headline=_remedies,
        row="one estimator, or one way to draw the rollouts",
        rows=_remedy_rows,
        fields=(
            text("kind", "estimator or sampling", lambda r: r[0], title=""),
            text("name", "its name", _name, title="remedy"),
            text("effect", "what the limits say", _effect_of),
            with_limits(
                "progress_low",
                "progress over the reference's at the lowest kappa",
                lambda r: at_kappa(0)(r[1]),
                title="kappa low",
            ),
            with_limits(
                "progress_high", "the same at the highest kappa", lambda r: at_kappa(-1)(r[1]), title="kappa high"
            ),
            with_limits(
                "turning_kappa",
                "kappa at which the order turns; null if none",
                lambda r: _turn(r[1]),
                unit="",
                title="",
                show=figures,
            ),
            with_limits(
                "live",
                "share of rollouts with an advantage; null for sampling",
                lambda r: getattr(r[1], "live", None),
                title="",
            ),
            with_limits("dead", "dead groups; null for estimators", lambda r: getattr(r[1], "dead", None), title=""),
        ),
        notes=lambda found: found.elsewhere[:2],
    ),
    "EstimatorEffect": View(headline=_estimator, row="the estimator", rows=one, fields=ESTIMATOR),
    "SamplingEffect": View(headline=_sampling, row="the way to draw", rows=one, fields=SAMPLING),
    "Simulation": View(
        headline=_simulation,
        row="one record; means over seeds with t intervals",
        rows=_simulation_rows,
        fields=(
            plain_number("step", "training step", lambda r: int(r[0].steps[r[1]])),
            *(_recorded(*field) for field in SIMULATED),
        ),
        pick=lambda found: spread(found.steps.size, SHOWN),
        notes=lambda found: sentences(found.statuses),
    ),
    "SimulationComparison": View(
        headline=_compared,
        row="one training",
        rows=lambda found: found.runs,
        fields=(
            text("estimator", "name of the estimator"),
            whole("group_size", "rollouts of a group, G", unit="rollouts", title="G"),
            number("learning_rate", "the learning rate; the best of those tried", title="rate"),
            with_limits("final", "final pass rate, mean over seeds"),
            with_limits("difference", "final pass rate less that of the first; null there"),
            text("verdict", "what the difference says"),
        ),
        notes=lambda found: found.notes,
    ),
}
