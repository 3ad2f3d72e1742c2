"""What is shown of one step: its effective batch, a refill, sampling that stops early."""

from __future__ import annotations

from typing import Any

from grpo_plan._words import chance, few, few_at_least
from grpo_plan.shown.fields import Field, View, figures, number, one, ranged, share, text, varying, whole, with_limits
from grpo_plan.shown.of_estimates import dead_words, percent, sentences
from grpo_plan.shown.of_plans import mixed_words


def _batch(batch: Any) -> str:
    dead = (
        f"dead {batch.dead_fraction:.3f}, pass rates taken as known" if batch.dead is None else dead_words(batch.dead)
    )
    return f"{mixed_words(batch)}; {dead}; all dead with chance {chance(batch.dead_batch_probability)}"


def _counts(batch: Any) -> list[tuple[str, Any, Any]]:
    ends = batch.mixed_groups_mean_interval
    live = None if ends is None else tuple(batch.group_size * end for end in ends)
    return [("mixed groups", batch.mixed_groups, ends), ("live rollouts", batch.live_rollouts, live)]


def _refill(refill: Any) -> str:
    at = refill.at_value
    low, high = refill.limits(lambda a: a.rollouts.mean)
    rollouts = ranged(at.rollouts.mean, low, high, show=few)
    rounds = f"{few(at.rounds.mean)} rounds, at most {at.rounds.p95:,.0f} in 19 of 20 steps"
    cap = (
        ""
        if at.cap_probability is None
        else f"; the cap of {refill.max_rounds:,} rounds is hit with chance {chance(at.cap_probability)}"
    )
    return (
        f"a step of {refill.prompts_per_step:,} mixed groups of {refill.group_size} takes {rollouts} rollouts "
        f"({percent(refill.dead.level)}), {rounds}{cap}; {refill.status.name}"
    )


def _refill_rows(refill: Any) -> list[tuple[str, Any]]:
    at = (("estimate", refill.at_value), ("low D", refill.at_low), ("high D", refill.at_high))
    return [(name, found) for name, found in at if found is not None]


def refill_fields(index: int | None = None) -> tuple[Field, ...]:
    """The fields of a refill at one dead fraction that a row is, or holds at an index."""

    def of(name: str) -> Any:
        return lambda row: getattr(row if index is None else row[index], name)

    return (
        share("dead", "dead fraction", of("dead_fraction")),
        varying("one_by_one", "prompts of a step, drawn one by one", of("one_by_one"), unit="prompts", title=""),
        varying("rounds", "generation batches of a step", of("rounds"), unit="rounds"),
        varying("prompts", "prompts of a step", of("prompts"), unit="prompts"),
        varying("rollouts", "rollouts of a step", of("rollouts"), unit="rollouts"),
        number(
            "surplus_mixed_groups",
            "mixed groups thrown away",
            of("surplus_mixed_groups"),
            unit="groups",
            title="surplus",
        ),
        share("cap_probability", "chance that a step hits the cap; null without one", of("cap_probability"), title=""),
        share(
            "run_cap_probability", "chance that any step does; null if not known", of("run_cap_probability"), title=""
        ),
        whole(
            "safe_max_rounds",
            "cap that 95 % of runs never hit; null if not known",
            of("safe_max_rounds"),
            unit="rounds",
            title="",
        ),
        whole(
            "one_round_gen_batch_size",
            "generation batch that fills 95 % of steps at once",
            of("one_round_gen_batch_size"),
            unit="prompts",
            title="one-round batch",
        ),
    )


def _refill_at(at: Any) -> str:
    return (
        f"at D = {at.dead_fraction:.3f} a step takes {few(at.rollouts.mean)} rollouts in {few(at.rounds.mean)} rounds "
        "(the dead fraction taken as exact)"
    )


def _adaptive(rule: Any) -> str:
    n, d = rule.rollouts_per_prompt, rule.unmet_fraction
    return (
        f"{ranged(n.value, n.low, n.high, show=few)} rollouts a prompt, {ranged(d.value, d.low, d.high)} of the "
        f"prompts given up after {rule.max_group_size} ({percent(rule.level)}), {rule.status.name}"
    )


def _cost(row: Any) -> str:
    per = row.rollouts_per_group
    words = (
        "no mixed group comes"
        if per is None
        else f"{ranged(per.value, per.low, per.high, show=few)} rollouts a mixed group"
    )
    return f"{row.scheme}, G = {row.group_size}: {words}, {row.status.name}"


VIEWS = {
    "EffectiveBatch": View(
        headline=_batch,
        row="mixed groups, and live rollouts, of a step",
        rows=_counts,
        fields=(
            text("count", "mixed groups or live rollouts", lambda r: r[0]),
            varying("per_step", "count of a step", lambda r: r[1], unit="groups or rollouts", title="per step"),
            number(
                "mean_low",
                "lower limit of the mean; null for known prompts",
                lambda r: r[2] and r[2][0],
                unit="groups or rollouts",
                show=few_at_least,
            ),
            number(
                "mean_high", "upper limit of the mean", lambda r: r[2] and r[2][1], unit="groups or rollouts", show=few
            ),
        ),
        notes=lambda b: () if b.dead is None else sentences([b.dead.status]),
    ),
    "CountSummary": View(
        headline=lambda s: f"mean {few(s.mean)}, {few(s.p05)} to {few(s.p95)} in 9 of 10 steps",
        row="the count",
        rows=one,
        fields=(varying("count", "count of a step", lambda s: s, unit="as its name says"),),
    ),
    "Refill": View(
        headline=_refill,
        row="the refill at the estimate and at both limits of the dead fraction; no row where it need not end",
        rows=_refill_rows,
        fields=(text("at", "which dead fraction: estimate, low D or high D", lambda r: r[0]), *refill_fields(1)),
        notes=lambda r: (
            sentences([s for s in (r.dead.status,)]) + ([] if r.status.name == "FILLS" else [r.status.sentence])
        ),
    ),
    "RefillAt": View(headline=_refill_at, row="the refill", rows=one, fields=refill_fields()),
    "AdaptiveSampling": View(
        headline=_adaptive,
        row="the rule",
        rows=one,
        fields=(
            whole("max_group_size", "rollouts after which a prompt is given up", unit="rollouts", title="G at most"),
            whole("round_size", "rollouts drawn at a time", unit="rollouts", title="at a time"),
            with_limits("rollouts_per_prompt", "mean rollouts of a prompt", unit="rollouts", show=figures),
            with_limits("unmet_fraction", "share of prompts given up"),
            with_limits("rollouts_per_kept_prompt", "rollouts for one that is kept", unit="rollouts", show=figures),
            text("status", "what the pilot can say"),
        ),
        notes=lambda rule: sentences([rule.status]),
    ),
    "SamplingCost": View(
        headline=_cost,
        row="the scheme",
        rows=one,
        fields=(
            text("scheme", "fixed, refill, adaptive or until-pass"),
            whole("group_size", "rollouts of a prompt, at most", unit="rollouts", title="G"),
            with_limits("rollouts_per_prompt", "mean rollouts of a prompt", unit="rollouts", show=figures),
            with_limits("dropped_fraction", "share of prompts that give no group"),
            with_limits(
                "rollouts_per_group", "rollouts for one mixed group; null if none comes", unit="rollouts", show=figures
            ),
            text("status", "what the pilot can say"),
        ),
    ),
}
