"""Two policies by pass@k whose curves cross. Writes figures/passk.svg.

Run ``python -m figures.passk_picture``. Simulated: 1,000 prompts of Beta(0.4, 0.9) pass rates, 16 rollouts each; after
training the odds are four times as large, but for two in five of the prompts below 0.3, which never pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from grpo_plan.plots_passk import plot_pass_curve

from grpo_plan.passk import PassComparison, compare_pass
from grpo_plan.pilot import Pilot
from grpo_plan.plots import STYLE, save_figure

PICTURE = Path(__file__).resolve().with_name("passk.svg")
SEED, PROMPTS, ROLLOUTS = 20261203, 1000, 16


def comparison() -> PassComparison:
    """The two simulated policies."""
    rng = np.random.default_rng(SEED)
    before = rng.beta(0.4, 0.9, PROMPTS)
    odds = 4.0 * before / np.maximum(1.0 - before, 1e-12)
    after = np.where((before < 0.3) & (rng.random(PROMPTS) < 0.4), 0.0, odds / (1.0 + odds))
    names = [f"q{i}" for i in range(PROMPTS)]
    first, second = (Pilot.from_counts(rng.binomial(ROLLOUTS, p), ROLLOUTS, prompt_id=names) for p in (before, after))
    return compare_pass(first, second)


def main() -> None:
    """Write the picture."""
    import matplotlib as mpl

    style: Any = {**STYLE, "svg.fonttype": "path", "font.size": 10}
    with mpl.rc_context(style):
        save_figure(plot_pass_curve(comparison()).figure, PICTURE)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
