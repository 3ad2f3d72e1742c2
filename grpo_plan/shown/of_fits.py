"""What is shown of pilots, fits, checks of independence, and plans of a pilot and of a temperature."""

from __future__ import annotations

from typing import Any

from grpo_plan._words import plural, rate
from grpo_plan.shown.fields import (
    View,
    flag,
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
from grpo_plan.shown.of_estimates import dead_fields, percent, sentences

SIZES = (2, 4, 8, 16, 32, 64)  # as `grpo-plan fit` shows


def _pilot(pilot: Any) -> str:
    n = pilot.rollouts
    low, high = int(n.min()), int(n.max())
    each = f"{low} each" if low == high else f"{low} to {high} each"
    words = (
        f"{plural(pilot.prompts, 'prompt')}, {plural(pilot.total_rollouts, 'rollout')} ({each}), mean pass rate "
        f"{rate(pilot.mean_pass_rate)}"
    )
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in pilot.dropped.items() if count)
    return words + (f"; left out: {left_out}" if left_out else "")


def _fit(fit: Any) -> str:
    mean = fit.mean_pass_rate_interval(0.95)
    return (
        f"{fit.family} fit of {plural(fit.pilot.prompts, 'prompt')}, {plural(fit.pilot.total_rollouts, 'rollout')}: "
        f"mean pass rate {ranged(mean.value, mean.low, mean.high)} (95 %), {fit.status.name}"
    )


def _check(check: Any) -> str:
    return f"{check.verdict.name}: {check.sentence}"


def _report(report: Any) -> str:
    return " ".join((f"{report.verdict.name}:", *report.sentences))


def _report_rows(report: Any) -> list[tuple[str, Any]]:
    parts = (("sessions", report.sessions), ("order", report.sequence), ("repeats", report.duplicates))
    return [(name, part) for name, part in parts if part is not None]


def _plan_pilot(plan: Any) -> str:
    best = plan.recommended
    return (
        f"{plural(best.prompts, 'prompt')} x {plural(best.rollouts_per_prompt, 'rollout')} = "
        f"{plural(best.rollouts, 'rollout')} give D({plan.group_size}) to +-{plan.half_width:g} "
        f"({percent(plan.level)}); prior: {plan.prior}"
    )


def _size(size: Any) -> str:
    expected = f"[{size.low:.3f}, {size.high:.3f}] expected"
    if size.prompts is None:
        return f"{plural(size.rollouts_per_prompt, 'rollout')} a prompt never settle it: {expected}"
    return f"{plural(size.prompts, 'prompt')} x {plural(size.rollouts_per_prompt, 'rollout')}: {expected}"


def _pair(pair: tuple[int, int] | None, side: int) -> int | None:
    return None if pair is None else pair[side]


def _temperature(plan: Any) -> str:
    chosen = "no recommendation" if plan.recommended is None else f"T = {plan.recommended:g}"
    return f"{plan.verdict.name}: {chosen}. {plan.reason}"


def _temperature_rows(plan: Any) -> list[tuple[Any, Any]]:
    differences = {d.temperature: d for d in plan.differences}
    return [(at, differences.get(at.temperature)) for at in plan.temperatures]


def _dead_counts(found: Any) -> str:
    chosen = "" if found.recommended is None else f" T = {found.recommended:g}."
    return f"{found.verdict.name}.{chosen} {found.verdict.sentence}"


VIEWS = {
    "Pilot": View(
        headline=_pilot,
        row="one prompt; in a histogram, one (n, k) cell",
        fields=(
            text("prompt_id", "name of the prompt; null if not known", title="prompt"),
            whole("rollouts", "scored rollouts, n", unit="rollouts", title="n"),
            whole("successes", "passes, k", unit="rollouts", title="k"),
            share("pass_rate", "k / n", lambda p: p.successes / p.rollouts, title="k/n"),
            text("stratum", "named part of the prompts; null if not known"),
            number("temperature", "sampling temperature; null if not known"),
            number("response_tokens", "mean response length; null if not known", unit="tokens", title=""),
            number("pass_tokens", "the same of right rollouts", unit="tokens", title=""),
            number("fail_tokens", "the same of wrong rollouts", unit="tokens", title=""),
            whole(
                "prompt_count",
                "prompts behind the row: 1, or those of the cell",
                lambda p: p.prompts_per_row,
                unit="prompts",
                title="",
            ),
        ),
        page=lambda p: p.histogram(),
        more=".histogram().to_frame()",
        notes=lambda p: ("One row a prompt: .to_frame()", *p.notes[:3]),
    ),
    "PilotHistogram": View(
        pick=lambda h: spread(h.rollouts.size, 12),
        headline=lambda h: f"{plural(h.total_prompts, 'prompt')} in {plural(h.rollouts.size, 'cell')} (n, k)",
        row="one (n, k) cell",
        fields=(
            whole("rollouts", "scored rollouts of a prompt, n", unit="rollouts", title="n"),
            whole("successes", "passes of a prompt, k", unit="rollouts", title="k"),
            whole("prompts", "prompts in the cell", unit="prompts"),
        ),
    ),
    "Provenance": View(
        headline=lambda p: " ".join(p.sentences) or f"{p.format or 'counts'}: {plural(p.rows, 'row')}",
        row="the source",
        rows=one,
        fields=(
            text("format", "name of the reader; null for arrays"),
            whole("files", "files read", unit="files"),
            whole("rows", "rows read", unit="rows"),
            whole("groups", "groups read; null if not known", unit="groups"),
            whole("group_size_low", "smallest group", lambda p: _pair(p.group_size, 0), unit="rollouts", title=""),
            whole("group_size_high", "largest group", lambda p: _pair(p.group_size, 1), unit="rollouts", title=""),
            plain_number("first_step", "first training step", lambda p: _pair(p.policy_steps, 0)),
            plain_number("last_step", "last training step", lambda p: _pair(p.policy_steps, 1)),
            whole("dead_groups", "dead groups; null if not known", "dead_groups.dead", unit="groups"),
            text("policies", "models that rolled out", title=""),
            text("filtered", "why dead groups are missing; null if none are"),
            text("removed", "prompts removed by their own count", title=""),
        ),
    ),
    "PassRateFit": View(
        headline=_fit,
        row="one group size: 2, 4, 8, 16, 32, 64",
        rows=lambda fit: [fit.dead(size) for size in SIZES],
        fields=(whole("group_size", "rollouts of a group, G", title="G"), *dead_fields()),
        notes=lambda fit: sentences(fit.statuses),
    ),
    "IndependenceReport": View(
        headline=_report,
        row="one check that was made",
        rows=_report_rows,
        fields=(
            text("check", "sessions, order or repeats", lambda r: r[0]),
            text("verdict", "what it says; null for repeats", lambda r: getattr(r[1], "verdict", None)),
            text("sentence", "in words", lambda r: r[1].sentence, title="finding"),
        ),
        notes=lambda report: report.notes,
    ),
    "IndependenceCheck": View(
        headline=_check,
        row="the check",
        rows=one,
        fields=(
            text("verdict", "what it says"),
            whole("prompts", "prompts looked at", unit="prompts"),
            with_limits(
                "correlation",
                "correlation of two rollouts of one prompt and session",
                lambda c: (c.correlation, c.low, c.high),
                unit="",
            ),
            number("correlation_p", "p value of none", unit="share", title="p"),
            number("design_effect", "how many rollouts count as one"),
            number("drift_p", "p value of no drift over sessions", unit="share", title="drift p"),
        ),
    ),
    "SequenceCheck": View(
        headline=_check,
        row="the check",
        rows=one,
        fields=(
            text("verdict", "what it says"),
            whole("prompts", "prompts looked at", unit="prompts"),
            with_limits(
                "neighbour_correlation",
                "correlation of neighbours in the order",
                lambda c: (c.neighbour_correlation, c.low, c.high),
                unit="",
            ),
            number("neighbour_p", "p value of none", unit="share", title="p"),
            number("design_effect", "how many rollouts count as one"),
        ),
    ),
    "DuplicateCheck": View(
        headline=lambda c: c.sentence,
        row="the check",
        rows=one,
        fields=(
            whole("rollouts", "rollouts with a text", unit="rollouts"),
            whole("repeats", "texts that repeat another of their prompt", unit="rollouts"),
            whole("prompts", "prompts looked at", unit="prompts"),
            whole("prompts_with_repeats", "prompts with a repeated text", unit="prompts"),
            whole("unknown", "rollouts without a text", unit="rollouts", title=""),
        ),
    ),
    "PilotPlan": View(
        headline=_plan_pilot,
        row="one number of rollouts per prompt, at the fewest prompts that settle it",
        rows=lambda plan: plan.options,
        fields=(
            whole("rollouts_per_prompt", "n", unit="rollouts", title="n"),
            whole("prompts", "fewest prompts; null where no number settles it", unit="prompts", none="none suffice"),
            whole("rollouts", "rollouts in all; null where no number settles it", unit="rollouts", none="-"),
            flag("settles", "whether the wanted half-width is reached"),
            share("low", "expected lower limit of D(G)", title="expected low"),
            share("high", "expected upper limit of D(G)", title="expected high"),
        ),
    ),
    "PilotSize": View(
        headline=_size,
        row="the size",
        rows=one,
        fields=(
            whole("rollouts_per_prompt", "n", unit="rollouts", title="n"),
            whole("prompts", "prompts; null where no number settles it", unit="prompts", none="none suffice"),
            whole("rollouts", "rollouts in all; null where no number settles it", unit="rollouts", none="-"),
            flag("settles", "whether the wanted half-width is reached"),
            share("low", "expected lower limit of D(G)", title="expected low"),
            share("high", "expected upper limit of D(G)", title="expected high"),
        ),
    ),
    "TemperaturePlan": View(
        headline=_temperature,
        row="one temperature",
        rows=_temperature_rows,
        fields=(
            number("temperature", "sampling temperature", lambda r: r[0].temperature, title="T"),
            with_limits("pass_rate", "mean pass rate", lambda r: r[0].pass_rate),
            whole("group_size", "rollouts of a group, G", lambda r: r[0].dead.group_size, title="G"),
            with_limits("dead", "share of groups whose rewards all agree", lambda r: r[0].dead),
            share("mixed", "1 less dead", lambda r: r[0].dead.mixed, title=""),
            with_limits("dead_difference", "dead less that of the baseline; null there", lambda r: r[1] and r[1].dead),
            with_limits(
                "pass_rate_difference", "pass rate less that of the baseline", lambda r: r[1] and r[1].pass_rate
            ),
            flag("paired", "whether prompts are compared with themselves", lambda r: r[1] and r[1].paired),
            text("status", "what the dead fraction can and cannot say", lambda r: r[0].dead.status),
        ),
        notes=lambda plan: plan.notes,
    ),
    "DeadCountComparison": View(
        headline=_dead_counts,
        row="one temperature",
        rows=lambda found: found.counts,
        fields=(
            number("temperature", "sampling temperature", title="T"),
            whole("dead", "dead groups", unit="groups"),
            whole("groups", "groups", unit="groups"),
            with_limits("share", "share of dead groups"),
            number("design_effect", "how many groups count as one", title=""),
        ),
    ),
}
