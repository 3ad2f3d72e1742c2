"""What is shown of the arithmetic of a step: advantages, weights of tokens, splits, rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from grpo_plan._words import plural, rate
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
    with_limits,
)
from grpo_plan.shown.of_estimates import percent

SHARES = (
    ("long", "on responses longer than the median"),
    ("longest", "on those longer than nine in ten"),
    ("wrong", "on wrong responses"),
    ("failed", "on responses whose scoring failed"),
    ("mixed", "in mixed groups"),
    ("all_pass", "in all-pass groups"),
    ("all_fail", "in all-fail groups"),
    ("unscored", "in groups with fewer than two scored rollouts"),
    ("gradient_long", "of weight times advantage, on long responses"),
    ("gradient_longest", "of weight times advantage, on the longest tenth"),
    ("gradient_wrong", "of weight times advantage, on wrong responses"),
)
SHOWN_SHARES = ("long", "longest", "wrong", "gradient_long")


def _advantages(found: Any) -> str:
    kinds = ", ".join(f"{n:,} {kind.replace('_', '-')}" for kind, n in found.counts.items() if n)
    name = found.trainer or found.estimator or found.convention.name
    return (
        f"{name}: {plural(found.kinds.size, 'group')} ({kinds}), {rate(found.live_share)} of the rollouts have an "
        f"advantage (exact). {found.description}"
    )


def _present(name: str) -> Any:
    return lambda found: getattr(found, name)[found.present]


def _place(axis: int) -> Any:
    return lambda found: np.nonzero(found.present)[axis]


def _kind(found: Any) -> list[str]:
    return [str(kind) for kind in found.kinds[np.nonzero(found.present)[0]]]


def _amplification(found: Any) -> str:
    words = (
        "divides by the group's standard deviation" if found.amplifies else "does not divide by a group's own spread"
    )
    half = "" if found.half_gap is None else f"; a gap of {figures(found.half_gap)} weighs half"
    return f"{words}{half}; {plural(found.noise_groups, 'group')} unequal by rounding alone (exact). {found.reason}"


def _aggregation(found: Any) -> str:
    return f"{found.name} ({found.version}): a token weighs {found.formula}; a split changes it: {found.split_effect}"


def _weights(found: Any) -> str:
    note = f" {found.sentence}" if found.sentence else ""
    return (
        f"{found.aggregation.name}: {plural(found.values.size, 'response')}, total weight {figures(found.total)} "
        f"(exact).{note}"
    )


def _share_of(found: Any) -> Any:
    return found.shares if found.total > 0.0 else None


def _split(found: Any) -> str:
    return (
        f"{found.intended.aggregation.name} on {plural(found.split.ranks, 'rank')}, "
        f"{plural(int(found.split.micro_batches.sum()), 'micro-batch', 'micro-batches')}: {rate(found.misplaced)} of "
        "the weight lies elsewhere than intended (exact)"
    )


def share_fields(get: Any) -> tuple[Field, ...]:
    """The fields of shares of weight, found in a row by ``get``."""

    def of(name: str) -> Any:
        return lambda row: getattr(get(row), name)

    return (
        *(
            with_limits(name, f"share of the weight {words}", of(name), title=None if name in SHOWN_SHARES else "")
            for name, words in SHARES
        ),
        with_limits("net", "net push on the sampled tokens", of("net"), unit="", title="", show=figures),
        with_limits("pull", "pull on length: above 0 lengthens", of("pull"), unit="", show=figures),
    )


def _aggregation_name(row: Any) -> str:
    return "rollouts" if row.aggregation is None else str(row.aggregation.name)


def _bias(found: Any) -> str:
    rows = [f"{_aggregation_name(r)} {ranged(r.longest.value, r.longest.low, r.longest.high)}" for r in found.rows]
    return (
        f"share of the weight on the longest tenth of {plural(found.counted, 'response')}: {', '.join(rows)} "
        f"({percent(found.level)}), lengths {found.lengths.name}"
    )


def _shares(row: Any) -> str:
    return (
        f"{_aggregation_name(row)}: {ranged(row.long.value, row.long.low, row.long.high)} of the weight on responses "
        f"longer than the median, {ranged(row.wrong.value, row.wrong.low, row.wrong.high)} on wrong ones"
    )


def _error(row: Any) -> str:
    misplaced = ranged(row.misplaced, row.misplaced_low, row.misplaced_high)
    return f"{row.aggregation.name} misplaces {misplaced} of the weight"


def _errors(found: Any) -> str:
    return (
        f"{plural(found.steps, 'step')} of {plural(found.groups_per_step, 'group')}, micro-batches of "
        f"{found.micro_batch:,} on {plural(found.ranks, 'rank')} (5 to 95 % of steps): "
        + "; ".join(_error(row) for row in found.rows)
    )


ERROR = (
    text("aggregation", "name of the aggregation", "aggregation.name"),
    with_limits(
        "misplaced",
        "share of the weight that lies elsewhere than intended, mean and 5 to 95 % of steps",
        lambda r: (r.misplaced, r.misplaced_low, r.misplaced_high),
    ),
    number("largest_ratio", "largest real over intended weight of a step, mean"),
    number("smallest_ratio", "smallest one, mean"),
    number("total_low", "total over the intended one, 5 % of steps below", title=""),
    number("total_high", "5 % of steps above", title=""),
)


def _rollouts(found: Any) -> str:
    mixed = int(found.mixed.sum())
    scored = int(found.scored.sum())
    return (
        f"{plural(found.group.size, 'rollout')} in {plural(found.groups, 'group')}, {scored:,} scored, {mixed:,} "
        f"groups mixed (counted); lengths {found.lengths.name}"
    )


VIEWS = {
    "Advantages": View(
        headline=_advantages,
        row="one rollout",
        fields=(
            plain_number("group", "number of the group, from 0", _place(0)),
            plain_number("rollout", "number of the rollout in it", _place(1)),
            text("kind", "kind of the group: mixed, all_pass, all_fail, dead, unscored", _kind),
            number("reward", "reward; null where scoring failed", _present("rewards")),
            number("advantage", "advantage; null where it is NaN", _present("values")),
        ),
        notes=lambda found: found.notes,
    ),
    "Amplification": View(
        headline=_amplification,
        row="one group",
        fields=(
            plain_number("group", "number of the group, from 0", lambda a: range(a.spreads.size)),
            number("spread", "largest less smallest reward; null where unscored", "spreads"),
            number("weight", "spread left by the division: 1 is a full-size advantage", "weights"),
            flag("noise", "whether rounding alone, or less than the tolerance, makes rewards unequal"),
        ),
    ),
    "Aggregation": View(
        headline=_aggregation,
        row="the aggregation",
        rows=one,
        fields=(
            text("name", "trainer:option"),
            text("setting", "the setting"),
            text("formula", "weight of a token"),
            text("reduction", "where it is counted"),
            text("split_effect", "whether a split changes it"),
            text("version", "versions that were read", title=""),
            text("source", "file and function", title=""),
            text("evidence", "run, or read", title=""),
            text("note", "what else to know", title=""),
        ),
    ),
    "TokenWeights": View(
        headline=_weights,
        row="one response",
        fields=(
            plain_number("response", "number of the response, from 0", lambda w: range(w.values.size)),
            number("tokens", "loss tokens", "lengths", unit="tokens"),
            number("token_weight", "weight of each of them", "values"),
            number("weight", "weight of the response", "response_weights"),
            share("share", "its share of the weight; null where there is none", _share_of),
        ),
    ),
    "SplitWeights": View(
        headline=_split,
        row="one response",
        fields=(
            plain_number("response", "number of the response, from 0", lambda w: range(w.values.size)),
            plain_number("rank", "its rank", "split.rank"),
            plain_number("micro_batch", "its micro-batch on the rank", "split.micro"),
            number("tokens", "loss tokens", "intended.lengths", unit="tokens"),
            number("token_weight", "weight of each of them in the gradient", "values"),
            number("intended", "the same with everything counted together", "intended.values"),
        ),
    ),
    "LengthBias": View(
        headline=_bias,
        row="one aggregation; the first row is the rollouts, each counted once",
        rows=lambda found: (found.rollouts, *found.rows),
        fields=(text("aggregation", "its name; rollouts for the first", _aggregation_name), *share_fields(lambda r: r)),
    ),
    "WeightShares": View(
        headline=_shares,
        row="the aggregation",
        rows=one,
        fields=(
            text("aggregation", "its name; rollouts for the rollouts themselves", _aggregation_name),
            *share_fields(lambda r: r),
        ),
    ),
    "SplitError": View(headline=_error, row="the aggregation", rows=one, fields=ERROR),
    "SplitErrors": View(headline=_errors, row="one aggregation", rows=lambda found: found.rows, fields=ERROR),
    "Rollouts": View(
        headline=_rollouts,
        row="one rollout",
        fields=(
            plain_number("group", "number of its group, from 0"),
            plain_number("prompt", "number of its prompt, from 0", lambda r: r.cluster[r.group]),
            flag("scored", "whether it has a reward"),
            flag(
                "passed",
                "whether it passed; null where not scored",
                lambda r: [bool(p) if s else None for p, s in zip(r.passed, r.scored, strict=True)],
            ),
            number("reward", "reward; null where not scored", "rewards"),
            number("tokens", "response length; null if not known", unit="tokens"),
        ),
        notes=lambda r: r.notes[:2],
    ),
}
