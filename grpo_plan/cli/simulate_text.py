"""A comparison of simulated trainings as a page, and as JSON."""

from __future__ import annotations

from typing import Any

from grpo_plan.cli.common import percent
from grpo_plan.cli.numbers import plural, rate
from grpo_plan.cli.page import Bullet, Grid, Heading, Line, Paragraph, Part, print_page
from grpo_plan.cli.statuses import statuses_json
from grpo_plan.fitting.status import FitStatus
from grpo_plan.simulation import CompetingRun, SeedMean, Simulation, SimulationComparison, Verdict
from grpo_plan.simulation.recorder import NAMES
from grpo_plan.simulation.settings import Curriculum

SHORT = {
    Verdict.REFERENCE: "",
    Verdict.HIGHER: "higher",
    Verdict.LOWER: "lower",
    Verdict.CANNOT_TELL: "cannot tell",
    Verdict.EQUAL: "exactly alike",
}
DOUBTS = (FitStatus.BEYOND_REACH, FitStatus.UNDERDISPERSED, FitStatus.TOO_FEW_PROMPTS, FitStatus.FEW_ROLLOUTS)
WHOSE = {"held_out": "held-out", "train": "training"}


def print_simulations(found: SimulationComparison, kappa_from: str) -> None:
    """Print the verdict, the runs, how they went, and what this is."""
    print_page([*_answer(found), *_table(found), *_control(found), *_course(found), *_rests_on(found, kappa_from)])


def name_of(run: CompetingRun) -> str:
    """A run in words."""
    return f"{run.estimator} at G = {run.group_size}"


def short_name(run: CompetingRun) -> str:
    """A run in a table."""
    return f"{run.estimator}, G = {run.group_size}"


def plus_minus(mean: SeedMean) -> str:
    """A mean and its standard error.

    >>> plus_minus(SeedMean(value=0.25, standard_error=0.01, low=0.23, high=0.27, level=0.95, seeds=4))
    '0.250 +- 0.010'
    >>> plus_minus(SeedMean(value=0.25, standard_error=None, low=None, high=None, level=0.95, seeds=1))
    '0.250 +- unknown'
    """
    return f"{rate(mean.value)} +- {rate(mean.standard_error)}"


def signed(mean: SeedMean | None) -> str:
    """A difference with its limits.

    >>> signed(SeedMean(value=0.05, standard_error=0.01, low=0.03, high=0.07, level=0.95, seeds=4))
    '+0.050 [+0.030, +0.070]'
    """
    if mean is None:
        return ""
    if mean.value is None or mean.low is None or mean.high is None:
        return "unknown"
    return f"{mean.value:+.3f} [{mean.low:+.3f}, {mean.high:+.3f}]"


def _answer(found: SimulationComparison) -> list[Part]:
    first, others = found.runs[0], found.runs[1:]
    whose, seeds = WHOSE[found.measure], len(first.simulation.seeds)
    told = [Line("", f"{s.name}: {s.sentence}") for s in found.statuses if s in DOUBTS]
    if not others:
        text = f"{name_of(first)} ends at a {whose} pass rate of {plus_minus(first.final)} from {_start(first, found)}"
        return [Line("Answer", text, strong=True), *_rates(found), *told]
    groups = {v: [name_of(r) for r in others if r.verdict is v] for v in Verdict}
    said = [
        f"{words}: {', '.join(groups[verdict])}"
        for verdict, words in (
            (Verdict.HIGHER, "higher"),
            (Verdict.LOWER, "lower"),
            (Verdict.CANNOT_TELL, "cannot tell"),
            (Verdict.EQUAL, "exactly alike in every seed"),
        )
        if groups[verdict]
    ]
    sure = f"{percent(found.level)} intervals{', for all runs at once' if len(others) > 1 else ''}"
    control = "Shuffled rewards, a control that cannot learn. " if first.simulation.shuffled else ""
    than = "as" if len(groups[Verdict.EQUAL]) == len(others) else "than"
    return [
        Line("Answer", f"{'; '.join(said)} ({than} {name_of(first)})", strong=True),
        Line("", f"{control}Final {whose} pass rate, {plural(seeds, 'seed')}, paired differences, {sure}."),
        *_rates(found),
        *told,
    ]


def _rates(found: SimulationComparison) -> list[Part]:
    """At which learning rates the answer was found: one for all, the best of each, or one at the end of the list."""
    tried = found.runs[0].tried
    if not tried:
        one = f"At learning rate {found.runs[0].learning_rate:g} alone: the best rates of the runs may rank otherwise."
        return [Line("", one)]
    text = f"Each at its best learning rate of {', '.join(f'{t.learning_rate:g}' for t in tried)}."
    ends = [name_of(run) for run in found.runs if run.rate_at_end]
    if ends:
        text += f" At an end of that list: {', '.join(ends)}. A better rate may lie beyond, and change the answer."
    return [Line("", text)]


def _start(run: CompetingRun, found: SimulationComparison) -> str:
    return rate(run.simulation.at(found.measure, 0).value)


def _table(found: SimulationComparison) -> list[Part]:
    first = found.runs[0]
    rows = []
    for run in found.runs:
        rows.append(
            [
                short_name(run),
                f"{run.learning_rate:g}",
                plus_minus(run.final),
                signed(run.difference),
                SHORT[run.verdict],
            ]
        )
    columns = ["run", "rate", "final pass rate", "against the first", ""]
    return [
        Heading(f"Runs ({WHOSE[found.measure]} prompts, from {_start(first, found)}; +- is the standard error)"),
        Grid(columns, rows, frozenset({1, 2, 3})),
    ]


def _control(found: SimulationComparison) -> list[Part]:
    """What shuffled rewards taught: nothing, where the mean logit stays."""
    if not found.runs[0].simulation.shuffled:
        return []
    rows = [[short_name(run), signed(run.simulation.at(f"{found.measure}_logit"))] for run in found.runs]
    return [
        Heading("The control: mean change of the logit, 0 where nothing was learned"),
        Grid(["run", "change"], rows, frozenset({1})),
        Paragraph(
            f"{percent(found.level)} intervals, each alone. A pass rate can drift all the same: noise moves logits, "
            "and a pass rate is not linear in its logit."
        ),
    ]


def _course(found: SimulationComparison) -> list[Part]:
    """The noise of a step and the dead groups at either end, and the groups drawn last, each kind apart."""
    ends, drawn = [], []
    for run in found.runs:
        sim = run.simulation
        both = [(sim.at(name, 0).value, sim.at(name).value) for name in ("noise_to_signal", "dead_now", "mean_failure")]
        ends.append([short_name(run), *(f"{_number(a)} to {_number(b)}" for a, b in both)])
        kinds = [sim.at(name).value for name in ("all_fail", "all_pass", "mixed")]
        drawn.append([short_name(run), *(rate(value) for value in kinds), f"{sim.at('generated_rollouts').value:,.0f}"])
    right = frozenset(range(1, 5))
    return [
        Heading("From start to end: noise to signal of a step, and dead groups to be expected"),
        Grid(["run", "noise to signal", "dead D(G)", "of these all-fail"], ends, right),
        Heading("Groups drawn last by kind, and rollouts generated in all"),
        Grid(["run", "all-fail", "all-pass", "mixed", "rollouts"], drawn, right),
    ]


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _rests_on(found: SimulationComparison, kappa_from: str) -> list[Part]:
    run = found.runs[0].simulation
    model, training = run.model, run.training
    drawn = training.sampling
    if isinstance(drawn, Curriculum):
        drawn = f"by a band of {drawn.by} pass rates, {drawn.low:g} to {drawn.high:g}"
    drawn += ", refilled" if training.refill else ""
    made = (
        f"{plural(model.prompts, 'prompt')} drawn from the fit, {model.held_out:,} held out; "
        f"{training.rollouts_per_step:,} rollouts a step, {plural(training.steps, 'step')}, prompts drawn {drawn}; "
        f"optimiser {training.optimizer}; kappa {model.kappa:g} ({kappa_from}), coherence of gradients "
        f"{model.gradient_coherence:g}, {percent(model.harmful)} of the noise in shared parameters, "
        f"damage {model.damage:g}."
    )
    parts: list[Part] = [Heading("What this rests on"), Bullet(made)]
    if found.tuning_seeds:
        rates = ", ".join(f"{t.learning_rate:g}" for t in found.runs[0].tried)
        parts.append(
            Bullet(
                f"Learning rate: the best of {rates} for each run, chosen on "
                f"{plural(len(found.tuning_seeds), 'other seed')}, so that luck in the choice does not count."
            )
        )
    elif len(found.runs) > 1:
        parts.append(
            Bullet(
                "One learning rate for all runs. Each may have another best one: --learning-rates 0.3,1,3,10,30 tunes."
            )
        )
    parts += [Bullet(f"{s.name}: {s.sentence}") for s in found.statuses if s not in DOUBTS]
    parts += [Bullet(note) for note in found.notes]
    parts += [Heading("What it is, and what it leaves out")]
    parts += [Paragraph(text) for text in found.left_out]
    return parts


def _mean_json(mean: SeedMean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {
        "value": mean.value,
        "standard_error": mean.standard_error,
        "low": mean.low,
        "high": mean.high,
        "level": mean.level,
        "seeds": mean.seeds,
    }


def _record_json(simulation: Simulation, record: int) -> dict[str, Any]:
    row: dict[str, Any] = {"step": int(simulation.steps[record])}
    for name in NAMES:
        mean = simulation.at(name, record)
        row[name] = {"value": mean.value, "standard_error": mean.standard_error}
    for name in ("train_pass_at", "held_out_pass_at"):
        values = getattr(simulation, name)[:, record]
        row[name] = {str(k): float(values[:, i].mean()) for i, k in enumerate(simulation.pass_at)}
    return row


def simulations_document(found: SimulationComparison, kappa_from: str) -> dict[str, Any]:
    """The comparison as JSON."""
    first = found.runs[0].simulation
    model, training = first.model, first.training
    sampling: Any = training.sampling
    if isinstance(sampling, Curriculum):
        sampling = {"low": sampling.low, "high": sampling.high, "by": sampling.by}
    budget = training.budget_rollouts
    return {
        "measure": found.measure,
        "level": found.level,
        "seeds": list(first.seeds),
        "tuning_seeds": list(found.tuning_seeds),
        "shuffled": first.shuffled,
        "training": {
            "rollouts_per_step": training.rollouts_per_step, "steps": training.steps, "optimizer": training.optimizer,
            "warmup_steps": training.warmup_steps, "kl_coefficient": training.kl_coefficient,
            "max_gradient_norm": training.max_gradient_norm, "sampling": sampling, "refill": training.refill,
            "max_rounds": training.max_rounds, "budget_rollouts": budget,
        },
        "model": {
            "prompts": model.prompts, "held_out": model.held_out, "shared": model.shared,
            "coherence": model.gradient_coherence, "shared_coherence": model.coherence, "dimension": model.dimension,
            "kappa": model.kappa, "kappa_from": kappa_from, "harmful": model.harmful, "damage": model.damage,
            "end_logit": model.end_logit,
        },
        "runs": [
            {
                "estimator": run.estimator,
                "group_size": run.group_size,
                "learning_rate": run.learning_rate,
                "tried": [{"learning_rate": t.learning_rate, "final": _mean_json(t.final)} for t in run.tried],
                "rate_at_end": run.rate_at_end,
                "final": _mean_json(run.final),
                "gain": _mean_json(run.simulation.gain(found.measure)),
                "difference": _mean_json(run.difference),
                "verdict": run.verdict.name,
                "records": [_record_json(run.simulation, i) for i in range(run.simulation.steps.size)],
            }
            for run in found.runs
        ],
        **statuses_json(found.statuses),
        "notes": list(found.notes),
        "left_out": list(found.left_out),
    }  # fmt: skip
