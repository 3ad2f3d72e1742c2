"""What is shown of runs: logs, groups, quantities, diagnoses, alerts and forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from grpo_plan._words import plural, rate
from grpo_plan.quantities.base import DEFINITIONS
from grpo_plan.shown.fields import (
    Field,
    View,
    figures,
    number,
    one,
    plain_number,
    ranged,
    share,
    spread,
    text,
    whole,
    with_limits,
)
from grpo_plan.shown.of_estimates import percent

SHOWN = 12  # rows of a log on a page
SHOWN_QUANTITIES = (
    "dead_fraction", "all_fail_fraction", "all_pass_fraction", "reward_mean", "response_tokens_mean", "entropy", "kl",
)  # fmt: skip
ORDER = {"critical": 0, "warning": 1, "info": 2}


def _run(run: Any) -> str:
    span = f", steps {run.steps[0]:,} to {run.steps[-1]:,}" if run.steps.size else ""
    groups = "" if run.groups is None else f", {plural(run.groups.groups, 'group')} of rollouts"
    tool = "" if run.tool is None else f" of {run.tool}"
    return (
        f"log{tool} ({run.format}) {run.source}: {plural(run.steps.size, 'row')}{span}, "
        f"{plural(len(run.metrics), 'metric')}{groups}"
    )


def _known(run: Any, name: str) -> Any:
    found = run.quantity(name)
    return found.values if found else None


def _run_fields(run: Any) -> tuple[Field, ...]:
    known = {name: values for name in DEFINITIONS if (values := _known(run, name)) is not None}
    shown = [name for name in SHOWN_QUANTITIES if name in known]
    fields = [plain_number("step", "training step", "steps")]
    fields += [_run_number(name, values, shown) for name, values in known.items()]
    fields += [_run_number(name, values, ()) for name, values in run.metrics.items() if name not in (*known, "step")]
    return tuple(fields)


def _run_number(name: str, values: Any, shown: Any) -> Field:
    title = name.removesuffix("_fraction").replace("_", " ") if name in shown else ""
    definition = DEFINITIONS.get(name)
    unit, meaning = ("", "as logged") if definition is None else (definition.unit, definition.meaning)
    if unit == "fraction":
        return share(name, meaning, lambda run: values, title=title)
    return number(name, meaning, lambda run: values, unit=unit, title=title)


def _groups(groups: Any) -> str:
    steps = groups.step[groups.step >= 0]
    span = f", steps {steps.min():,} to {steps.max():,}" if steps.size else ""
    share_dead = f" ({rate(groups.dead_groups / groups.groups)}, counted)" if groups.groups else ""
    return f"{plural(groups.groups, 'group')}, {groups.dead_groups:,} dead{share_dead}{span}"


def _kinds(groups: Any) -> list[str]:
    kinds = np.where(groups.dead, "dead", "mixed").astype(object)
    if groups.passes is not None:
        for name in ("unscored", "all_pass", "all_fail", "flat"):
            kinds[getattr(groups, name)] = name
    return [str(kind) for kind in kinds]


def _unless_negative(values: Any) -> Any:
    return None if values is None else [None if v < 0 else int(v) for v in values]


def _quantity(quantity: Any) -> str:
    known = quantity.values[np.isfinite(quantity.values)]
    span = f", {figures(known.min())} to {figures(known.max())}" if known.size else ""
    about = f"{quantity.unit}; {quantity.stage.value}"
    return f"{quantity.name}: {known.size:,} of {plural(quantity.values.size, 'step')}{span} ({about})"


def _diagnosis_rows(diagnosis: Any) -> list[tuple[str, Any]]:
    """Findings by gravity, then what could not be checked, then what is clear."""
    found = sorted(diagnosis.findings, key=lambda f: ORDER.get(f.severity.value, 3))
    return [
        *((f.severity.value, f) for f in found),
        *(("skipped", s) for s in diagnosis.skipped),
        *(("clear", c) for c in diagnosis.clear),
    ]


def _says(row: tuple[str, Any]) -> str:
    kind, of = row
    return str(of.needs if kind == "skipped" else of.because if kind == "clear" else of.says)


def _finding_rows(finding: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in finding.evidence.items() if not isinstance(value, dict | list | tuple)]


def _evidence(row: tuple[str, Any]) -> tuple[Any, Any]:
    value = row[1]
    numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return (float(value), None) if numeric else (None, None if value is None else str(value))


def _waste(waste: Any) -> str:
    rollouts = ranged(waste.rollouts, waste.rollouts_low, waste.rollouts_high, show=figures)
    return f"{rollouts} rollouts {waste.what}, over {plural(waste.steps, 'step')}"


def _forecast(found: Any) -> str:
    chance = "unknown" if found.chance is None else rate(found.chance)
    crossing = ranged(found.crossing, found.crossing_low, found.crossing_high, show=figures)
    ends = "" if found.crossing_low is None and found.crossing is None else f", by step {crossing}"
    return (
        f"{found.status.name}: passes {found.limit:g} within {found.horizon_steps:g} steps with chance {chance}{ends} "
        f"({percent(found.level)})"
    )


def _report(report: Any) -> str:
    verdict = report.document()["verdict"]
    return f"{report.title}: {' '.join(verdict['sentences'])} {verdict['status']}"


def _expectation_rows(found: Any) -> list[Any]:
    return [found.by_group_size[size] for size in sorted(found.by_group_size)]


def _expectation(found: Any) -> str:
    mean = found.mean_pass_rate
    known = "unknown" if mean is None else ranged(mean.value, mean.low, mean.high)
    size = "no group size was planned" if found.group_size is None else f"G = {found.group_size} was planned"
    return f"{found.source}: mean pass rate {known}, {size}"


VIEWS = {
    "RunLog": View(
        headline=_run,
        row=(
            "one row of the log. Columns: `step`; each quantity that the log tells, under its common name "
            "(`dead_fraction`, `reward_mean`, ...: `grpo_plan.quantities.DEFINITIONS`); each metric, as logged"
        ),
        fields=_run_fields,
        pick=lambda run: spread(run.steps.size, SHOWN),
        notes=lambda run: run.notes[:2],
    ),
    "GroupLog": View(
        headline=_groups,
        row="one group",
        fields=(
            plain_number("step", "training step; null if not known", lambda g: _unless_negative(g.step)),
            text("prompt_id", "name of the prompt", title="prompt"),
            text("kind", "mixed, all_pass, all_fail, flat, unscored; dead where passes are not known", _kinds),
            whole("rollouts", "rollouts, failed scoring included", unit="rollouts"),
            whole("scored", "rollouts with a reward", unit="rollouts"),
            whole("passes", "scored rollouts that pass; null if not known", unit="rollouts"),
            number("reward_min", "smallest reward", title=""),
            number("reward_max", "largest reward", title=""),
            number("reward_mean", "mean reward", title="mean reward"),
            whole(
                "truncated", "rollouts cut off; null if not known", lambda g: _unless_negative(g.truncated), title=""
            ),
            whole("distinct", "different texts; null if not known", lambda g: _unless_negative(g.distinct), title=""),
            number("response_tokens", "mean length; null if not known", unit="tokens", title=""),
        ),
        notes=lambda g: g.notes[:2],
    ),
    "Quantity": View(
        headline=_quantity,
        row="one row of the log",
        fields=(
            plain_number("row", "row of the log, from 0", lambda q: range(q.values.size)),
            number(
                "value", "value, in the unit of the quantity; null where the row has none", "values", unit="of the name"
            ),
            text("name", "name of the quantity", lambda q: [q.name] * q.values.size, title=""),
            text("unit", "its unit", lambda q: [q.unit] * q.values.size, title=""),
            text("stage", "whether dropped groups are counted", lambda q: [q.stage] * q.values.size, title=""),
        ),
        pick=lambda q: spread(q.values.size, SHOWN),
        notes=lambda q: q.notes[:2],
    ),
    "Absent": View(
        headline=lambda a: f"not told by the log. {a.reason}",
        row="the quantity",
        rows=one,
        fields=(
            text("name", "name of the quantity"),
            text("cause", "kind of reason"),
            text("reason", "what is missing", title=""),
            text("metrics", "metrics that look like it but do not say it"),
        ),
    ),
    "Diagnosis": View(
        headline=lambda d: d.verdict,
        row="one check: findings by gravity, then what could not be checked, then what is clear",
        rows=_diagnosis_rows,
        fields=(
            text("outcome", "critical, warning, info, skipped or clear", lambda r: r[0]),
            text("id", "name of the check", lambda r: r[1].id, title="check"),
            plain_number(
                "onset_step",
                "step from which on it shows; null if not dated",
                lambda r: getattr(r[1], "onset_step", None),
                title="",
            ),
            text("says", "what was found, needed or seen", _says, title="what was found, needed or seen"),
            text(
                "remedy",
                "what to do first; null where nothing was found",
                lambda r: getattr(r[1], "remedy", None),
                title="",
            ),
            number(
                "wasted_rollouts",
                "rollouts that it has cost; null if not known",
                lambda r: getattr(getattr(r[1], "waste", None), "rollouts", None),
                unit="rollouts",
                title="",
            ),
        ),
        notes=lambda d: [f"{f.id}: {f.remedy}" for f in d.findings if f.severity.value != "info"][:3],
    ),
    "Finding": View(
        headline=lambda f: f"{f.severity.value} {f.id}: {f.says}",
        row="one number of the evidence",
        rows=_finding_rows,
        fields=(
            text("evidence", "name of the number", lambda r: r[0]),
            number("value", "the number; null if unknown, or in words", lambda r: _evidence(r)[0], unit="of its name"),
            text("words", "what is no number", lambda r: _evidence(r)[1], title=""),
        ),
        notes=lambda f: (f.remedy,),
    ),
    "Remedy": View(
        headline=lambda r: f"{r.action} Expected: {r.expected} Price: {r.price}",
        row="one number behind it",
        rows=lambda r: list(r.numbers.items()),
        fields=(
            text("name", "name of the number", lambda r: r[0]),
            number("value", "the number; null if unknown", lambda r: r[1], unit="of its name"),
        ),
    ),
    "Waste": View(
        headline=_waste,
        row="the waste",
        rows=one,
        fields=(
            with_limits(
                "rollouts",
                "rollouts in dead groups",
                lambda w: (w.rollouts, w.rollouts_low, w.rollouts_high),
                unit="rollouts",
                show=figures,
            ),
            number("gpu_hours", "GPU-hours, at most; null if not known", unit="GPU-hours"),
            number("usd", "price; null if not known", unit="USD"),
            whole("steps", "steps counted", unit="steps"),
        ),
    ),
    "Report": View(
        headline=_report,
        row="one section that is not there",
        rows=lambda r: list(r.missing.items()),
        fields=(
            text("section", "name of the section", lambda r: r[0], title="left out"),
            text("reason", "why it is not there", lambda r: r[1]),
        ),
        notes=lambda r: ("The whole page: .html()",),
    ),
    "Alert": View(
        headline=lambda a: f"step {a.step:,}: {a.severity.value} {a.new.value}: {a.id}: {a.says}",
        row="the alert",
        rows=one,
        fields=(
            plain_number("step", "last step of the log when it was told"),
            text("severity", "how grave it is"),
            text("new", "raised, graver, milder or cleared"),
            text("id", "name of the finding", title="finding"),
            plain_number("onset_step", "step from which on it shows; null if not dated", title="since step"),
            text("says", "what was found"),
            text("remedy", "what to do first", title=""),
        ),
    ),
    "Forecast": View(
        headline=_forecast,
        row="one step ahead",
        fields=(
            number("step", "training step", "steps"),
            share("share", "median of the share that a row shows", "mid"),
            share("low", "lower end of the band"),
            share("high", "upper end of the band"),
        ),
        pick=lambda f: spread(f.steps.size, SHOWN),
    ),
    "Expectation": View(
        headline=_expectation,
        row="one group size",
        rows=_expectation_rows,
        fields=(
            whole("group_size", "rollouts of a group, G", unit="rollouts", title="G"),
            with_limits("dead", "expected share of dead groups"),
            with_limits("all_fail", "its part without a pass"),
            with_limits("all_pass", "its part without a fail"),
            whole("prompts_per_step", "planned groups of a step; null if open", unit="prompts", title="prompts"),
            number("mixed_low", "mixed groups in all but 5 % of steps below", unit="groups", title=""),
            number("mixed_high", "in all but 5 % above", unit="groups", title=""),
        ),
    ),
}
