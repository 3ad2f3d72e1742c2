"""What is shown of plans: designs, mixes, allocations, kappa, trainers' blocks, speeds and costs."""

from __future__ import annotations

from typing import Any

from grpo_plan._words import few, few_at_least, plural, rate
from grpo_plan.shown.fields import (
    Field,
    View,
    figures,
    flag,
    number,
    one,
    plain_number,
    ranged,
    share,
    text,
    varying,
    whole,
    with_limits,
)
from grpo_plan.shown.of_estimates import percent, sentences

SHOWN_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)  # as `grpo-plan plan` shows
COSTS = (
    ("prefilled_tokens", "tokens", "prompt tokens"),
    ("generated_tokens", "tokens", "response tokens"),
    ("trained_tokens", "tokens", "tokens trained on"),
    ("seconds", "s", "time"),
    ("gpu_hours", "GPU-hours", "GPU-hours"),
    ("usd", "USD", "price"),
)


def design_words(design: Any) -> str:
    """A design in words."""
    run = "" if design.steps is None else f", {plural(design.steps, 'step')}"
    step = f"{plural(design.prompts_per_step, 'prompt')} a step ({plural(design.rollouts_per_step, 'rollout')})"
    return f"G = {design.group_size}, {step}{run}"


def mixed_words(batch: Any) -> str:
    """Mixed groups of a step in words."""
    mixed, ends = batch.mixed_groups, batch.mixed_groups_mean_interval
    sure = "" if ends is None else f"; mean {few_at_least(ends[0])} to {few(ends[1])}"
    return (
        f"{few(mixed.mean)} of {batch.prompts_per_step:,} groups a step are mixed, {mixed.p05:,.0f} to "
        f"{mixed.p95:,.0f} in 9 of 10 steps{sure}"
    )


def _plan(plan: Any) -> str:
    low, high = plan.flat_range
    best, kappa = plan.recommended, plan.kappa
    known = f"kappa {kappa.value:.3g}" if kappa.known else f"kappa from {kappa.low:g} to {kappa.high:g}"
    d = best.dead
    return (
        f"{design_words(best.design)}. Dead {ranged(d.value, d.low, d.high)} ({percent(d.level)}), {d.status.name}; "
        f"{mixed_words(best.batch)}. About as good: G = {low} to {high}, for {known}."
    )


def _plan_rows(plan: Any) -> list[tuple[Any, Any]]:
    return [(plan, planned) for planned in plan.frontier]


def _plan_pick(plan: Any) -> list[int]:
    wanted = {*SHOWN_SIZES, plan.recommended.design.group_size, *(a.group_size for a in plan.sensitivity)}
    return [i for i, planned in enumerate(plan.frontier) if planned.design.group_size in wanted]


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def design_fields(at: str = "") -> tuple[Field, ...]:
    """The fields of a planned design that a row is, or has under a name."""
    return (
        whole("group_size", "rollouts of a group, G", f"{at}design.group_size", unit="rollouts", title="G"),
        whole("prompts_per_step", "groups of a step", f"{at}design.prompts_per_step", unit="prompts", title="prompts"),
        whole("steps", "steps of the run; null if open", f"{at}design.steps", unit="steps", title=""),
        with_limits("dead", "share of groups whose rewards all agree", f"{at}dead"),
        varying("mixed_groups", "mixed groups of a step", f"{at}batch.mixed_groups", unit="groups"),
        share("dead_batch_probability", "chance that all are dead", f"{at}batch.dead_batch_probability", title=""),
        share(
            "progress_low",
            "progress against the best G at the low end of kappa",
            f"{at}progress_low",
            title="kappa low",
            show=_hundredths,
        ),
        share("progress_high", "the same at the high end", f"{at}progress_high", title="kappa high", show=_hundredths),
        share("worst_regret", "largest shortfall over the range of kappa", f"{at}worst_regret", title=""),
        number("noise_to_signal", "of a step; null without kappa", f"{at}noise_to_signal.value", title=""),
        number("rollouts", "rollouts of the run, or of a step", f"{at}cost.rollouts", unit="rollouts", title=""),
        *(
            number(
                name, f"{words} of the run, or of a step; null if not known", f"{at}cost.{name}", unit=unit, title=""
            )
            for name, unit, words in COSTS
        ),
        text("binding", "limits that one more prompt or step would break", f"{at}binding", title=""),
        text("dead_status", "what the dead fraction can and cannot say", f"{at}dead.status", title="status"),
    )


def _moved(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Fields of the second of a pair."""
    return tuple(Field(f.title, f.columns, lambda row, get=f.get: get(row[1]), f.cell) for f in fields)  # type: ignore[misc]


def _planned(planned: Any) -> str:
    d = planned.dead
    return (
        f"{design_words(planned.design)}. Dead {ranged(d.value, d.low, d.high)} ({percent(d.level)}), {d.status.name}; "
        f"{mixed_words(planned.batch)}."
    )


def _mix(mix: Any) -> str:
    shares = ", ".join(f"{name} {100 * part:.0f} %" for name, part in mix.shares.items())
    gains = " and ".join(f"{ranged(g.gain.value, g.gain.low, g.gain.high)} at kappa {g.kappa:.3g}" for g in mix.gains)
    return f"{shares}: progress {gains} times that of now ({percent(mix.level)}){'' if mix.sure else ', not sure'}"


def _dropping(found: Any) -> str:
    rest = (
        "unknown"
        if found.rest_dead is None
        else ranged(found.rest_dead.value, found.rest_dead.low, found.rest_dead.high)
    )
    return (
        f"dropping {found.never.prompts:,} prompts that never passed and {found.always.prompts:,} that always did "
        f"leaves {found.rest:,}: D({found.group_size}) = {rest}, and loses {rate(found.lost)} of the mixed groups"
    )


def _allocation(found: Any) -> str:
    n = found.rollouts
    return (
        f"{plural(int(n.sum()), 'rollout')} over {plural(n.size, 'prompt')}, {int(n.min()):,} to {int(n.max()):,} "
        f"each: {few(found.mixed_groups)} mixed groups ({few(found.uniform_mixed_groups)} if all had the same); "
        f"{found.estimator}, exact for the pass rates given"
    )


def _kappa(found: Any) -> str:
    kappa = "unknown (needs 0/1 rewards or a pilot)" if found.kappa is None else str(found.kappa)
    return (
        f"kappa {kappa} ({percent(found.level)}), {found.status.name}; best G {found.group_size()} where a prompt "
        f"costs nothing; {plural(found.prompts, 'prompt')}, {found.live_prompts:,} with a gradient"
    )


def _block(block: Any) -> str:
    held = sum(check.satisfied for check in block.checks)
    return f"for {block.versions} ({block.language}); {held} of {plural(len(block.checks), 'rule')} hold"


def _settings(block: Any) -> list[tuple[str, Any]]:
    return list(_leaves("", block.settings))


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict) or hasattr(value, "items"):
        return [leaf for key, part in value.items() for leaf in _leaves(f"{path}.{key}" if path else str(key), part)]
    return [(path, value)]


def _solved(found: Any) -> str:
    if found.design is None:
        return found.advice or "No design fits."
    bound = f"; limited by {', '.join(found.binding)}" if found.binding else ""
    return f"{design_words(found.design)}{bound}"


def _solved_rows(found: Any) -> list[tuple[str, Any, Any]]:
    costs = (("estimate", found.cost), ("low D", found.cost_low), ("high D", found.cost_high))
    return [(name, found.design, cost) for name, cost in costs if cost is not None]


def _nearest_rows(found: Any) -> list[tuple[str, Any]]:
    designs = (("within", found.within), ("above", found.above), ("other_group_size", found.other_group_size))
    return [(name, design) for name, design in designs if design is not None]


def _lengths(found: Any) -> str:
    right = ranged(found.pass_tokens, found.pass_low, found.pass_high, show=figures)
    wrong = ranged(found.fail_tokens, found.fail_low, found.fail_high, show=figures)
    return f"right rollouts {right} tokens, wrong ones {wrong} ({percent(found.level)}), {found.status.name}"


def cost_fields(index: int | None = None) -> tuple[Field, ...]:
    """The fields of a cost that a row is, or holds at an index."""

    def of(name: str) -> Any:
        return lambda row: getattr(row if index is None else row[index], name)

    return (
        number("groups", "groups generated", of("groups"), unit="groups"),
        number("trained_groups", "groups trained on", of("trained_groups"), unit="groups", title=""),
        number("rollouts", "rollouts generated", of("rollouts"), unit="rollouts"),
        number(
            "rollout_equivalents",
            "the same, costs of prompts included",
            of("rollout_equivalents"),
            unit="rollouts",
            title="",
        ),
        *(number(name, f"{words}; null if not known", of(name), unit=unit) for name, unit, words in COSTS),
    )


def _cost(cost: Any) -> str:
    known = [f"{plural(round(cost.rollouts), 'rollout')}"]
    known += [f"{figures(v)} {u}" for n, u, _ in COSTS[3:] if (v := getattr(cost, n)) is not None]
    return ", ".join(known) + (f"; not known: {', '.join(cost.missing)}" if cost.missing else "")


VIEWS = {
    "Plan": View(
        headline=_plan,
        row="one feasible design, by rising group size",
        rows=_plan_rows,
        pick=_plan_pick,
        marked=lambda r: r[1] is r[0].recommended,
        titles=lambda plan: {"kappa low": f"kappa {plan.kappa.low:.3g}", "kappa high": f"kappa {plan.kappa.high:.3g}"},
        fields=(
            flag("recommended", "whether it is the recommended one", lambda r: r[1] is r[0].recommended, title=""),
            *_moved(design_fields()),
        ),
        notes=lambda plan: (
            f"Limited by {plan.binding_constraint}.",
            *sentences(plan.fit.statuses),
            *plan.assumptions[:1],
        ),
    ),
    "PlannedDesign": View(headline=_planned, row="the design", rows=one, fields=design_fields()),
    "Mix": View(
        headline=_mix,
        row="one stratum",
        rows=lambda mix: mix.strata,
        fields=(
            text("stratum", "name of the part", "law.name"),
            number("prompts", "prompts of the pilot in it", "law.prompts", unit="prompts"),
            share("mean_pass_rate", "mean pass rate", "law.mean_pass_rate", title="pass rate"),
            with_limits("dead", "D(G) of its groups", lambda s: (s.law.dead, s.law.dead_low, s.law.dead_high)),
            share("before", "share of the prompts of a step now", title="share now"),
            share("after", "share in the planned mix", title="share planned"),
            share("floor", "smallest share allowed", title=""),
            share("cap", "largest share allowed", title=""),
            number("pool", "prompts to draw from; null if not known", unit="prompts", title=""),
            number("epochs", "times that each is drawn; null if not known", title=""),
            number("progress", "progress of a group against one of the mix of now"),
            text("statuses", "what limits it", lambda s: [x.name for x in s.law.statuses], title="status"),
        ),
        notes=lambda mix: (f"Limited by {', '.join(mix.binding)}.",) if mix.binding else (),
    ),
    "Dropping": View(
        headline=_dropping,
        row="one kind of prompt: never passed, always passed",
        rows=lambda found: (("never passed", found.never), ("always passed", found.always)),
        fields=(
            text("kind", "never passed or always passed", lambda r: r[0]),
            whole("prompts", "prompts of the pilot", lambda r: r[1].prompts, unit="prompts"),
            with_limits("mixed", "chance that the next group is mixed", lambda r: r[1].mixed),
            with_limits("mixed_in_visits", "chance of a mixed one in the next visits", lambda r: r[1].mixed_in_visits),
        ),
    ),
    "Allocation": View(
        headline=_allocation,
        row="one prompt, in the order given",
        fields=(
            plain_number("prompt", "number of the prompt, from 0", lambda a: range(a.rollouts.size)),
            whole("rollouts", "rollouts of the prompt", unit="rollouts"),
            number("relaxed", "before rounding; null where it is not computed", unit="rollouts"),
        ),
        notes=lambda a: (a.warning,) if a.warning else (),
    ),
    "KappaMeasurement": View(
        headline=_kappa,
        row="one group size measured",
        rows=lambda m: list(zip(m.group_sizes, m.mean_squared_norms, strict=True)),
        fields=(
            whole("group_size", "rollouts of the sub-groups", lambda r: r[0], unit="rollouts", title="G"),
            number("mean_squared_norm", "mean squared norm of one group's gradient", lambda r: r[1]),
        ),
        notes=lambda m: (*sentences(m.statuses), *m.notes),
    ),
    "Block": View(
        headline=_block,
        row="one setting; the text of the block is in `.text`",
        rows=_settings,
        fields=(
            text("setting", "its name, with dots where it is nested", lambda r: r[0]),
            text("value", "its value as text", lambda r: str(r[1])),
        ),
        notes=lambda block: (*(c.detail for c in block.checks if not c.satisfied), *block.notes),
    ),
    "SolvedDesign": View(
        headline=_solved,
        row="the cost at the estimate and at both limits of the dead fraction",
        rows=_solved_rows,
        fields=(
            text("at", "which dead fraction: estimate, low D or high D", lambda r: r[0]),
            whole("group_size", "G; null if no design fits", lambda r: r[1] and r[1].group_size, title="G"),
            whole("prompts_per_step", "groups of a step", lambda r: r[1] and r[1].prompts_per_step, unit="prompts"),
            whole("steps", "steps; null if open", lambda r: r[1] and r[1].steps, unit="steps"),
            *cost_fields(2),
        ),
    ),
    "NearestDesigns": View(
        headline=lambda found: found.in_words,
        row="one accepted design",
        rows=_nearest_rows,
        fields=(
            text("which", "within, above or other_group_size", lambda r: r[0]),
            whole("group_size", "G", lambda r: r[1].group_size, unit="rollouts", title="G"),
            whole("prompts_per_step", "groups of a step", lambda r: r[1].prompts_per_step, unit="prompts"),
            whole("rollouts_per_step", "rollouts of a step", lambda r: r[1].rollouts_per_step, unit="rollouts"),
        ),
    ),
    "Throughput": View(
        headline=lambda t: t.sentence,
        row="the speed",
        rows=one,
        fields=(
            with_limits(
                "tokens_per_s",
                "tokens per second",
                lambda t: (t.tokens_per_s, t.tokens_per_s_low, t.tokens_per_s_high),
                unit="tokens/s",
                show=figures,
            ),
            with_limits(
                "step_overhead_s",
                "seconds of a step that do not grow with its tokens; null if not told apart",
                lambda t: (t.step_overhead_s, t.step_overhead_low_s, t.step_overhead_high_s),
                unit="s",
                show=figures,
            ),
            whole("steps_used", "steps that it rests on", unit="steps"),
            whole("rows_used", "rows of the log that it rests on", unit="rows"),
            whole("gpus", "GPUs of the job; null if not known", unit="GPUs"),
        ),
        notes=lambda t: t.notes,
    ),
    "TokenLengths": View(
        headline=_lengths,
        row="right and wrong rollouts",
        rows=lambda found: (
            ("right", (found.pass_tokens, found.pass_low, found.pass_high), found.status),
            ("wrong", (found.fail_tokens, found.fail_low, found.fail_high), found.status),
        ),
        fields=(
            text("rollouts", "right or wrong", lambda r: r[0]),
            with_limits("tokens", "mean response length", lambda r: r[1], unit="tokens", show=figures),
            text("status", "what the pilot tells", lambda r: r[2]),
        ),
    ),
    "Cost": View(headline=_cost, row="the cost", rows=one, fields=cost_fields()),
}
