"""docs/simulation.md from figures/learning.csv and figures/learning_plan.csv.

Run ``python -m figures.learning_page`` after `figures.learning`. A test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from figures import learning_cells as cells
from figures import learning_parts as parts
from figures import learning_words as words
from figures.learning import Row, rows_of
from figures.learning_plan import PATH as PLAN_PATH
from figures.learning_tables import (
    MEAN,
    PLACES,
    RATES,
    SIGN,
    TELL,
    Duel,
    agreement_table,
    count,
    duels,
    in_range,
    map_table,
    sizes_of,
    summary_table,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"


def _rule(rows: list[Row], plans: list[Row]) -> list[str]:
    above = [d for d in duels(rows, study="map", rate_is="best") if d.predicted == MEAN]
    below = [
        d for d in duels(rows, study="map", rate_is="best") if d.predicted == SIGN and d.sign["rates"] != "middling"
    ]
    none = [d for d in below if float(d.sign["kappa"]) == 0.0]
    little = [d for d in below if float(d.sign["kappa"]) > 0.0]
    even = [d for d in duels(rows, study="map", rate_is="best") if d.sign["rates"] == "middling"]
    small = [d for d in duels(rows, study="map", rate_is="common 0.125") if d.sign["rates"] == "middling"]
    return [
        "## The rule",
        "",
        "Mean-centred advantages (`rloo`, `dr_grpo`, `grpo`) or sign (`A = 2r - 1`)? Fit the pilot, take kappa from a probe, and ask",
        "",
        "```python",
        "from grpo_plan.planning.sign_threshold import sign_threshold",
        "",
        "threshold = sign_threshold(fit, group_size=4)  # theory.md, eq. 104",
        "threshold.kappa, threshold.low, threshold.high",
        "```",
        "",
        f"1. **kappa above the threshold: mean-centred.** Simulated, each at its best learning rate: {_score(above)}.",
        f"2. **No score noise at all: sign, or either.** At kappa 0: {_score(none)}. But kappa was 0.2 to 20 in small transformers, and longer responses mean more.",
        f"3. **kappa below the threshold but not 0: do not switch.** At kappa 0.05: {_score(little)}. Small steps favour sign, best rates do not: part 1 says why.",
        f"4. **Middling prompts, so that 4 E[pq] = 2 (1 - D(2)) is at least (G-1)/G: sign in small steps, at every kappa** ({_score(small)}), but not over a run that "
        f"takes them away from there (best rates: {_score(even)}).",
        "5. **Whatever you take, give sign a learning rate of its own.** At the best rate of mean-centred advantages sign lost "
        f"{_ruin(rows)}.",
        f"6. **Group size: the planner's flat range.** The best G of a sweep lay in it, or tied with one that did, in {_range(rows, plans)} sweeps. **Refill** "
        "gained nothing per generated rollout; **a band of pass rates** did (parts 4 and 5).",
        "",
        "In the conditions that are missing from a count neither learned, or noise alone did.",
        "",
        "Cells are counts over 8 conditions each (4 or 128 prompts a step; SGD; Adam; more shared direction; noise that costs or spreads): "
        "**sign ahead / mean-centred ahead / cannot tell / neither learns, or noise alone**. Each estimator is at its own best learning rate; G = 4; "
        f"{cells.SEEDS} seeds, paired.",
        "",
        *summary_table(rows),
    ]  # fmt: skip


def _score(found: Iterable[Duel]) -> str:
    held = list(found)
    sign, mean, tell = (count(held, verdict) for verdict in (SIGN, MEAN, TELL))
    return f"sign ahead in {sign}, mean-centred in {mean}, cannot tell in {tell} of {len(held)} conditions"


def _range(rows: list[Row], plans: list[Row]) -> str:
    kinds = [(p, noise, r) for p in plans for noise in ("costs", "spreads") for r in ("common 0.125", "best")]
    held = [in_range(sizes_of(rows, p["kappa"], noise, r), p) for p, noise, r in kinds]
    return f"{len(held) - held.count('no')} of {len(held)}"


def _ruin(rows: list[Row]) -> str:
    found = duels(rows, study="map", rate_is="common 1")
    ruined = [d for d in found if float(d.sign["final"]) < 0.5 * float(d.sign["start"])]
    return f"more than half of the starting pass rate in {len(ruined)} of {len(found)} conditions"


def _model() -> list[str]:
    return [
        "## What is simulated",
        "",
        "A policy with one logit a prompt, shared features and exact pass rates: [theory.md](theory.md), section 25; `grpo-plan simulate`. "
        "It is a model, not a language model: its last section says what it cannot show. All of it is measured by "
        "`python -m figures.learning`; numbers are in `figures/learning.csv`.",
        "",
        f"* **Prompts**: {cells.PROMPTS:,} to train on and {cells.PROMPTS:,} held out. *Hard*: Beta(0.6, 19.4), mean .03. *Two humps*: "
        "Beta(0.19, 0.5), near the published logs of Gradient Starvation. *The example*: the fit of the packaged pilot. *Middling*: Beta(20, 20).",
        f"* **Measure**: mean pass rate of held-out prompts, averaged over the {cells.STEPS} steps of a run, less the start; in points (hundredths). "
        "Where another is meant it is said.",
        "* **Noise**: kappa is the size of score noise. Where it *costs*, it lies in directions that move no pass rate at first, and drift "
        "there lowers every logit by half its squared length. Where it *spreads*, it moves logits of different prompts both ways alike, "
        "which by itself raises the mean pass rate of hard prompts. The truth of a network is not known; look at both.",
        "* **Coherence**: mean cosine of the gradients of two prompts, .01 (measured in a small transformer) or .5.",
        "* **Adam** is `adam-norm`: one second moment for all parameters.",
        f"* **Learning rates**: a sweep in factors of 4, then down to 1.4, on {cells.TUNING_SEEDS} to "
        f"{cells.TUNING_SEEDS + cells.CHECKING_SEEDS} seeds of their own; best is the highest mean less two standard errors, so that no rate "
        f"at a cliff is taken. {_inside()}",
        f"* **Seeds**: {cells.SEEDS}, 0 to {cells.SEEDS - 1}, others than those of the sweep. Brackets are 95 % t limits of the paired "
        "difference, over all comparisons of a cell at once. Bold: the limits leave out 0. A dot: neither gains 0.2 points.",
        "",
    ]  # fmt: skip


def _inside() -> str:
    rows = [row for row in rows_of() if row["rate_is"] == "best"]
    ends = [row for row in rows if row["inside"] != "1"]
    learned = [row for row in ends if float(row["gain"]) >= 0.002]
    fewest = min(int(row["rates_tried"]) for row in rows)
    return (
        f"At least {fewest} rates were tried. The best lay at an end of the sweep in {len(ends)} of {len(rows)} cells, "
        f"{len(learned)} of them cells in which anything was learned."
    )


def _map(rows: list[Row]) -> list[str]:
    lines = [
        "## 1. Sign against mean-centred, G = 4",
        "",
        "![Lead of sign over kappa for four sets of prompts. Left, one small learning rate for both: it crosses 0 near the threshold of each set. Right, "
        "each at its best rate: surely ahead only for middling prompts, and for two humps at kappa 0.05](../figures/learning.svg)",
        "",
        "128 prompts a step, coherence .01, Adam. Ticks above: the threshold of eq. 104 (none for middling prompts: sign at every kappa). Points where neither "
        "learns, or noise alone, are left out.",
        "",
        "Does the threshold say who is ahead? Decided conditions only:",
        "",
        *agreement_table(rows),
        *words.on_map(rows),
    ]
    for name, where in PLACES.items():
        lines += [f"### {name[0].upper()}{name[1:]}", "", "Sign less mean-centred, points, each at its best rate:", ""]
        lines += map_table(rows, "best", **where)
        if where["optimizer"] != "sgd":
            lines += [f"Both at {RATES['common 0.125']} (the best rate of mean-centred over 8):", ""]
            lines += map_table(rows, "common 0.125", **where)
    return lines


def page() -> str:
    """The page."""
    rows, plans = rows_of(), rows_of(PLAN_PATH)
    lines = [
        "# Simulated learning: which estimator, which group size?",
        "",
        *_rule(rows, plans),
        *_model(),
        *_map(rows),
        *parts.groups(rows),
        *parts.estimators(rows),
        *parts.published(rows),
        *parts.turning(rows),
        *parts.sizes(rows, plans),
        *parts.choice(rows),
        *parts.control(rows),
        *words.end(),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
