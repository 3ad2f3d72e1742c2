"""Pictures of token weights: by length, by aggregation, and what a split into micro-batches misplaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from grpo_plan._validate import require
from grpo_plan.errors import DomainError
from grpo_plan.losses import LengthBias, SplitErrors, SplitWeights, TokenWeights
from grpo_plan.plots.parts import Row, height_of, intervals, nothing, percent, plain_log, whole_numbers
from grpo_plan.plots.style import BLUE, GREY, INK, ORANGE, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Share = Literal["long", "longest", "wrong", "mixed", "all_pass", "all_fail", "gradient_long", "gradient_wrong"]
SHARES = {
    "long": "of the weight on responses longer than the median",
    "longest": "of the weight on responses longer than nine in ten",
    "wrong": "of the weight on wrong responses",
    "mixed": "of the weight in mixed groups",
    "all_pass": "of the weight in all-pass groups",
    "all_fail": "of the weight in all-fail groups",
    "gradient_long": "of weight x |advantage| on responses longer than the median",
    "gradient_wrong": "of weight x |advantage| on wrong responses",
}


def plot_token_weights(weights: TokenWeights, ax: Axes | None = None) -> Axes:
    """Weight of each token against the length of its response.

    Args:
        weights: What `token_weights` returned.
        ax: Where to draw; a new figure if None.
    """
    require(weights, TokenWeights, "weights", "Take one of token_weights(lengths).")
    with canvas(ax) as axes:
        title = f"Weight of each token ({weights.aggregation.name})"
        has = weights.lengths > 0.0
        if not has.any():
            titled(axes, title)
            return nothing(axes, weights.sentence)
        alike = weights.total / float(weights.lengths.sum())
        relative = weights.values[has] / alike
        axes.plot(weights.lengths[has], relative, "o", color=BLUE, alpha=0.7, label="_tokens of a response")
        axes.axhline(1.0, color=GREY, ls="--", label=f"every token alike: {alike:.3g}")
        plain_log(axes)
        axes.set_ylim(0.0, 1.15 * max(float(relative.max()), 1.0))
        axes.set(xlabel="loss tokens of the response", ylabel="weight of a token, over every token alike")
        axes.legend(loc="best")
        titled(
            axes, title, f"{int(has.sum()):,} responses, total weight {weights.total:.4g}. {weights.sentence}".strip()
        )
    return axes


def plot_split_weights(weights: SplitWeights, ax: Axes | None = None) -> Axes:
    """Real over intended weight of each response once the batch is split.

    Args:
        weights: What `split_weights` returned.
        ax: Where to draw; a new figure if None.
    """
    require(weights, SplitWeights, "weights", "Take one of split_weights(lengths, split).")
    intended = weights.intended
    has = (intended.lengths > 0.0) & (intended.values > 0.0)
    with canvas(ax) as axes:
        title = f"What the split does to weights ({intended.aggregation.name})"
        if not has.any():
            titled(axes, title)
            return nothing(axes, intended.sentence or "No response has a weight.")
        codes = weights.split.codes[has]
        ratio = weights.values[has] / intended.values[has]
        axes.plot(codes, ratio, "o", color=BLUE, alpha=0.7, label="responses")
        axes.axhline(1.0, color=INK, ls="--", label="as intended")
        axes.set_xlim(codes.min() - 0.6, codes.max() + 0.6)
        axes.set_ylim(0.0, 1.15 * max(float(ratio.max()), 1.0))
        whole_numbers(axes)
        axes.set(xlabel="micro-batch, over all ranks", ylabel="real over intended weight")
        axes.legend(loc="lower right")
        titled(axes, title, f"{weights.misplaced:.1%} of the weight lies elsewhere than intended")
    return axes


def plot_split_errors(errors: SplitErrors, ax: Axes | None = None) -> Axes:
    """Share of the weight that a split misplaces, by aggregation.

    Args:
        errors: What `split_errors` returned.
        ax: Where to draw; a new figure if None.
    """
    require(errors, SplitErrors, "errors", "Take one of split_errors(rollouts, micro_batch=...).")
    rows = [
        Row(
            row.aggregation.name,
            row.misplaced,
            row.misplaced_low,
            row.misplaced_high,
            BLUE,
            note=f"{row.misplaced:.1%}",
        )
        for row in errors.rows
    ]
    with canvas(ax, height=height_of(len(rows)) + 0.2) as axes:
        intervals(axes, rows, zero=0.0)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        axes.set_xlabel("share of the weight that lies elsewhere (bars: 9 of 10 steps)")
        where = f"micro-batches of {errors.micro_batch}, {errors.ranks} rank{'' if errors.ranks == 1 else 's'}"
        titled(
            axes,
            "What a split misplaces",
            f"{where}; {errors.groups_per_step} groups a step, {errors.steps} steps drawn",
        )
    return axes


def plot_length_bias(bias: LengthBias, ax: Axes | None = None, *, share: Share = "long") -> Axes:
    """Share of the weight on long (or wrong, mixed, ...) responses, by aggregation, beside their share of the rollouts.

    Args:
        bias: What `length_bias` returned.
        ax: Where to draw; a new figure if None.
        share: Which share, a field of `WeightShares`.
    """
    require(bias, LengthBias, "bias", "Take one of length_bias(rollouts).")
    if share not in get_args(Share):
        raise DomainError(f"share must be one of {', '.join(get_args(Share))}; got {share!r}.")
    found = [(row.aggregation.name if row.aggregation else "rollouts", getattr(row, share)) for row in bias.rows]
    of_rollouts = getattr(bias.rollouts, share)
    rows = [Row(name, limits.value, limits.low, limits.high) for name, limits in found]
    if of_rollouts.value is not None:
        rows.append(Row("the rollouts, each once", of_rollouts.value, of_rollouts.low, of_rollouts.high, ORANGE, "s"))
    with canvas(ax, height=height_of(len(rows)) + 0.2) as axes:
        axes.set_xlabel(f"share ({percent(bias.level)} intervals)")
        said = f"share {SHARES[share]}; {bias.counted:,} rollouts of {bias.prompts:,} prompts"
        told = any(row.value is not None for row in rows)
        if told:
            intervals(axes, rows, digits=".2f")
        titled(axes, "Where the weight of the loss lies", said)
        if not told:
            return nothing(axes, "The lengths known do not tell this share: it needs the length of each rollout.")
        half = of_rollouts.value
        if half is not None:
            axes.axvline(half, color=VERMILION, lw=0.8, ls=":")
    return axes
