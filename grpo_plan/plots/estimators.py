"""Pictures of advantages and of what division by the standard deviation does to small reward gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.estimators import Advantages
from grpo_plan.estimators.amplification import Amplification
from grpo_plan.plots.parts import nothing
from grpo_plan.plots.style import BLUE, GREEN, GREY, INK, ORANGE, SILVER, VERMILION, canvas, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 24  # that are drawn apart
KINDS = (
    ("mixed", BLUE, "o"), ("all_pass", GREEN, "^"), ("all_fail", VERMILION, "v"), ("dead", ORANGE, "s"),
    ("unscored", SILVER, "X"),
)  # fmt: skip
JITTER = 0.28


def plot_advantages(advantages: Advantages, ax: Axes | None = None) -> Axes:
    """Advantage of each rollout, group by group, marked by the kind of its group.

    Args:
        advantages: What `advantages` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes; of more than 24 groups the first 24.
    """
    require(advantages, Advantages, "advantages", "Take one of advantages(rewards).")
    groups = int(advantages.kinds.size)
    shown = min(groups, MOST_GROUPS)
    with canvas(ax) as axes:
        axes.axhline(0.0, color=GREY, lw=1.0)
        undefined = 0
        for kind, colour, marker in KINDS:
            label = kind.replace("_", "-")
            for i in np.flatnonzero(advantages.kinds[:shown] == kind):
                values = advantages.values[i][advantages.present[i]]
                undefined += int(np.isnan(values).sum())
                x = i + np.linspace(-JITTER, JITTER, values.size) * (values.size > 1)
                axes.plot(x, values, marker, color=colour, ms=5, mec="white", mew=0.4, label=label)
                label = f"_{label.lstrip('_')}"
        step = max(1, shown // 12)
        axes.set_xticks(np.arange(0, shown, step))
        axes.set_xlim(-0.6, shown - 0.4)
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.12)
        axes.set(xlabel="group", ylabel="advantage of a rollout")
        axes.legend(loc="best", ncols=2)
        said = [f"{advantages.live_share:.0%} of {advantages.rollouts:,} rollouts have an advantage"]
        said += [f"the first {shown} of {groups:,} groups"] if groups > shown else []
        said += [f"{undefined} are NaN"] if undefined else []
        name = advantages.trainer or advantages.estimator or advantages.convention.name
        titled(axes, f"Advantages ({name})", "; ".join(said))
    return axes


def plot_amplification(amplification: Amplification, ax: Axes | None = None) -> Axes:
    """Weight that a group keeps after division by its standard deviation, against the spread of its rewards.

    Args:
        amplification: What `amplification` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. A weight of 1 is a full-size advantage however small the gap.
    """
    require(amplification, Amplification, "amplification", "Take one of amplification(rewards).")
    with canvas(ax) as axes:
        title = "What small reward gaps become"
        if amplification.weights is None:
            titled(axes, title)
            return nothing(
                axes, "This estimator does not divide by the group's standard deviation: small gaps stay small."
            )
        spreads, weights = amplification.spreads, amplification.weights
        unequal = np.isfinite(spreads) & (spreads > 0.0)
        if not unequal.any():
            titled(axes, title)
            return nothing(axes, "All groups have equal rewards: no gap is blown up.")
        for part, colour, marker, label in (
            (unequal & ~amplification.small, BLUE, "o", "groups"),
            (unequal & amplification.small, VERMILION, "D", "groups of small spread"),
        ):
            if part.any():
                axes.plot(spreads[part], weights[part], marker, color=colour, ms=5, alpha=0.8, label=label)
        for at, words in ((amplification.half_gap, "half weight"), (amplification.full_gap, "full weight")):
            if at:
                axes.axvline(at, color=GREY, lw=0.9, ls=":")
                axes.annotate(
                    words, (at, 0.03), (3, 0), textcoords="offset points", color=GREY, fontsize=7, rotation=90
                )
        if amplification.proposed is not None:
            axes.axvline(
                amplification.proposed, color=INK, ls="--", label=f"proposed tolerance {amplification.proposed:.1g}"
            )
        axes.set_xscale("log")
        axes.set_ylim(-0.03, 1.08)
        axes.set(xlabel="spread of a group's rewards", ylabel="weight that is left of it")
        axes.legend(loc="center right")
        share = amplification.small_share
        held = "" if share is None else f"; groups of small spread hold {share:.0%} of all advantages"
        titled(axes, title, f"{int(unequal.sum()):,} groups with unequal rewards{held}")
    return axes
