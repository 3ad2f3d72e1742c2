"""docs/simulation.md from figures/learning.csv and figures/learning_plan.csv.

Run ``python -m figures.learning_page`` after `figures.learning`. A test compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from figures import learning_cells as cells
from figures.diagnosis_page import table
from figures.learning import CONTROL_SEEDS, OTHERS, SETS, SOME_KAPPAS, Row, rows_of
from figures.learning_plan import PATH as PLAN_PATH
from figures.learning_tables import (
    MEAN,
    NAMES,
    PLACES,
    RATES,
    SIGN,
    TELL,
    Duel,
    agreement_table,
    count,
    duels,
    map_table,
    one,
    percent,
    points,
    selected,
    shares_table,
    sizes_table,
    summary_table,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulation.md"


def limits(row: Row) -> str:
    """A difference in points with its limits, bold where they leave out 0."""
    low, high = float(row["low"]), float(row["high"])
    value = points(row["difference"])
    return f"{f'**{value}**' if low > 0 or high < 0 else value} ({points(low)}, {points(high)})"


def level(row: Row, name: str) -> str:
    """A pass rate or gain in percent with its standard error."""
    return f"{percent(row[name])} ± {percent(row[f'{name}_se'], 2)}"


def _rule(rows: list[Row]) -> list[str]:
    above = [d for d in duels(rows, study="map", rate_is="best") if d.predicted == MEAN]
    below = [
        d for d in duels(rows, study="map", rate_is="best") if d.predicted == SIGN and d.sign["rates"] != "middling"
    ]
    none = [d for d in below if float(d.sign["kappa"]) == 0.0]
    little = [d for d in below if float(d.sign["kappa"]) > 0.0]
    even = [d for d in duels(rows, study="map", rate_is="best") if d.sign["rates"] == "middling"]
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
        f"1. **kappa above the threshold: mean-centred.** In the simulation, each at its best learning rate: {_score(above)}.",
        f"2. **No score noise at all: sign.** At kappa 0: {_score(none)}. But kappa was 0.3 to 6 in a small transformer, and more responses tokens mean more.",
        f"3. **kappa below the threshold but not 0: do not switch.** At kappa 0.05: {_score(little)}. The threshold counts all noise alike; see why below.",
        f"4. **Nearly all prompts near 1/2, so that 4 E[pq] is at least (G-1)/G: sign, at every kappa.** {_score(even)}.",
        "5. **Whatever you take, give sign a learning rate of its own.** At the best rate of mean-centred advantages sign often ruins the "
        f"policy: it lost in {_ruin(rows)}.",
        "",
        "Cells are counts over 8 conditions each (4 or 128 prompts a step; SGD; Adam; more shared direction; noise that costs or spreads): "
        "**sign ahead / mean-centred ahead / cannot tell / neither learns**. Each estimator is at its own best learning rate; G = 4; "
        f"{cells.SEEDS} seeds, paired.",
        "",
        *summary_table(rows),
    ]  # fmt: skip


def _score(found: Iterable[Duel]) -> str:
    held = list(found)
    words = [(SIGN, "sign ahead in {}"), (MEAN, "mean-centred in {}"), (TELL, "cannot tell in {}")]
    said = ", ".join(text.format(count(held, verdict)) for verdict, text in words)
    return f"{said}, of {len(held)} (in the rest neither learns)"


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
        "![Left, one small learning rate for both: the lead of sign falls with kappa and crosses 0 near the threshold of each set of prompts. "
        "Right, each at its best rate](../figures/learning.svg)",
        "",
        "Lead of sign where noise spreads, 128 prompts a step, coherence .01, Adam. Ticks above: the threshold of eq. 104.",
        "",
        "Does the threshold say who is ahead? Decided conditions only:",
        "",
        *agreement_table(rows),
        *PROSE["map"],
    ]
    for name, where in PLACES.items():
        lines += [f"### {name[0].upper()}{name[1:]}", "", "Sign less mean-centred, points, each at its best rate:", ""]
        lines += map_table(rows, "best", **where)
        if where["optimizer"] != "sgd":
            lines += [f"Both at {RATES['common 0.125']} (the best rate of mean-centred over 8):", ""]
            lines += map_table(rows, "common 0.125", **where)
    return lines


def _groups(rows: list[Row]) -> list[str]:
    lines = []
    for rates in SETS:
        for kappa in SOME_KAPPAS:
            found = {2: "", 4: "", 8: "", 16: ""}
            edges = []
            for size in found:
                study = "map" if size == 4 else "groups"
                duel = duels(
                    rows, study=study, rates=rates, kappa=f"{kappa:g}", group_size=size, prompts=512 // size,
                    rate_is="best", noise="costs", coherence="low", optimizer="adam-norm",
                )[0]  # fmt: skip
                found[size] = duel.cell
                edges.append("all" if duel.sign["threshold"] == "inf" else f"{float(duel.sign['threshold']):.2f}")
            lines.append([NAMES[rates], f"{kappa:g}", ", ".join(edges), *found.values()])
    return [
        "### Other group sizes, 512 rollouts a step",
        "",
        "Sign less mean-centred; noise costs, coherence .01, Adam, each at its best rate.",
        "",
        *table(["prompts", "kappa", "threshold at G = 2, 4, 8, 16", "G = 2", "G = 4", "G = 8", "G = 16"], lines),
        *PROSE["groups"],
    ]


def _estimators(rows: list[Row]) -> list[str]:
    lines = []
    for rates in SETS:
        for kappa in SOME_KAPPAS:
            found = selected(rows, study="estimators", rates=rates, kappa=f"{kappa:g}", rate_is="best")
            gain = next(row for row in found if row["estimator"] == "rloo")
            others = {row["estimator"]: limits(row) for row in found if row["estimator"] != "rloo"}
            lines.append([NAMES[rates], f"{kappa:g}", level(gain, "gain"), *(others[name] for name in OTHERS)])
    return [
        "### Other estimators, G = 4",
        "",
        "Less `rloo`, points; 128 prompts, noise costs, coherence .01, Adam, each at its best rate.",
        "",
        *table(["prompts", "kappa", "gain of rloo, %", *(f"`{name}`" for name in OTHERS)], lines),
        *PROSE["estimators"],
    ]


def _published(rows: list[Row]) -> list[str]:
    lines = []
    for optimizer, words in (("sgd", "SGD"), ("adam-norm", "Adam")):
        for coherence, cosine in (("low", ".01"), ("high", ".5")):
            for kappa in SOME_KAPPAS:
                line = [words, cosine, f"{kappa:g}"]
                for size in (4, 8):
                    where = {"study": "published", "optimizer": optimizer, "coherence": coherence, "group_size": size}
                    best = duels(rows, kappa=f"{kappa:g}", rate_is="best", **where)[0]
                    common = [d for d in duels(rows, kappa=f"{kappa:g}", **where) if d.sign["rate_is"] != "best"]
                    gap = max(common, key=lambda d: float(d.sign["difference"]))
                    line += [
                        f"{percent(best.mean['final'])} / {percent(best.sign['final'])}: {limits(best.sign)}",
                        f"{percent(gap.mean['final'])} / {percent(gap.sign['final'])}: {limits(gap.sign)}",
                    ]
                lines.append(line)
    header = [
        "",
        "coherence",
        "kappa",
        "G = 4, best rates",
        "G = 4, widest gap",
        "G = 8, best rates",
        "G = 8, widest gap",
    ]
    return [
        "## 2. The published result, and the small testbed",
        "",
        "Nie et al. (2026, arXiv 2605.07689) report, on full GSM8K with 7 seeds, **73.8 % for sign and 28.4 % for Dr. GRPO at G = 4**, and a "
        "gap that closes at larger G. That is theirs, of a language model; their logs have 4 prompts a step. Here is what this model does with "
        "two humps, 4 prompts a step and 200 steps: final held-out pass rate, `dr_grpo` / sign, in percent, and the difference in points. *Widest "
        "gap*: both at one learning rate, that of four (1, 1/4, 1/16 and 1/64 of the best of `dr_grpo`) at which sign leads most.",
        "",
        *table(header, lines),
        *PROSE["published"],
        "Hard additions of a small transformer (101,696 parameters; exact pass rates; Adam; G = 4, 512 rollouts a step, 150 steps; measured "
        "kappa 1.42, coherence .010; 2 to 3 seeds): from 2.4 % mean-centred ended at 15.8 to 19.2 %, sign at its best rate at 3.8 %, and at "
        "the rates of mean-centred at 0.8 and 0.0 %. The noise-to-signal ratios of a step were 15 and 161. The same setting here, final held-out "
        "pass rate in percent:",
        "",
        *_testbed(rows),
        *PROSE["testbed"],
    ]  # fmt: skip


def _testbed(rows: list[Row]) -> list[str]:
    lines = [["small transformer", "15.8 to 19.2", "3.8", "0.0 to 0.8", "", "15, 161"]]
    for best in duels(rows, study="testbed", rate_is="best"):
        where = {"study": "testbed", "noise": best.sign["noise"], "damage": best.sign["damage"]}
        common = one(rows, estimator="sign", rate_is="common 1", **where)
        name = f"noise costs, damage {best.sign['damage']}" if best.sign["noise"] == "costs" else "noise spreads"
        ratios = f"{float(best.mean['nsr']):.0f}, {float(best.sign['nsr']):.0f}"
        lines.append([
            name, level(best.mean, "final"), level(best.sign, "final"), level(common, "final"), limits(best.sign), ratios
        ])  # fmt: skip
    header = [
        "",
        "mean-centred",
        "sign",
        "sign at the rate of mean-centred",
        "difference at best rates",
        "NSR at the start",
    ]
    return table(header, lines)


def _turning(rows: list[Row]) -> list[str]:
    names = {"best": "its best rate", "equal step": "half the rate of `rloo`: equal expected step"}
    lines = [
        [
            NAMES[row["rates"]], row["kappa"], f"`{row['estimator']}`", names[row["rate_is"]], level(row, "final"),
            f"{percent(row['failure_start'])} to {percent(row['failure'])}", f"{percent(row['turned'], 2)}",
            f"{percent(row['turned_back'], 3)}",
        ]
        for row in selected(rows, study="turning")
    ]  # fmt: skip
    header = [
        "prompts",
        "kappa",
        "estimator",
        "learning rate",
        "final, %",
        "mean (1 - p)^4, %",
        "turned, %",
        "turned back, %",
    ]
    return [
        "## 3. Does sign turn all-fail groups?",
        "",
        "Sign pushes in all-fail groups along the gradient of pass@G (theory.md, eq. 104). SGD, 128 prompts, G = 4, coherence .01, noise costs. "
        "*Turned*: chance that a group of a training prompt was all-fail at the start and one drawn at the end is all-pass; *back*: the reverse.",
        "",
        *table(header, lines),
        *PROSE["turning"],
    ]  # fmt: skip


def _sizes(rows: list[Row], plans: list[Row]) -> list[str]:
    return [
        "## 4. Group sizes at 512 rollouts a step",
        "",
        "The example's pass rates, `rloo`, Adam, coherence .01; planned by `plan_group_size` with that kappa. Best: highest mean gain of "
        f"{cells.SEEDS} seeds, which flatters it a little. Lost: gain less than the best, in percent of it, limits for all sizes at once.",
        "",
        "![Gain of each group size relative to the best at kappa 0.3, 1, 6 and 30, with the planned progress and the flat range]"
        "(../figures/learning_sizes.svg)",
        "",
        "All at one small learning rate (an eighth of the best at G = 8):",
        "",
        *sizes_table(rows, plans, "common 0.125"),
        "Each size at its best learning rate:",
        "",
        *sizes_table(rows, plans, "best"),
        "Gain relative to the best size, one small learning rate, and 1/(1 + NSR) of the plan:",
        "",
        *shares_table(rows, plans, "common 0.125"),
        "The same, each size at its best learning rate:",
        "",
        *shares_table(rows, plans, "best"),
        *PROSE["sizes"],
    ]


def _choice(rows: list[Row]) -> list[str]:
    lines = []
    for rates in ("example", "hard"):
        for kappa in ("1", "10"):
            found = selected(rows, study="choice", rates=rates, kappa=kappa)
            plain = one(found, how="")
            others = {row["how"]: limits(row) for row in found if row["how"]}
            share = percent(one(found, how="refill")["trained_share"], 0)
            large = one(found, how="large")
            lines.append([
                NAMES[rates], kappa, level(plain, "final"), others["refill"], share,
                f"{others['large']}; {large['prompts']} prompts", others["band"], others["band-true"],
            ])  # fmt: skip
    header = ["prompts", "kappa", "64 prompts, 60 steps: final, %", "refill", "rollouts trained on, %"]
    return [
        "## 5. Refill and curriculum at equal generated rollouts",
        "",
        "`rloo`, G = 8, Adam, noise costs, coherence .01, each at its best rate. Refill (dynamic sampling) draws until 64 groups are mixed, so the "
        "same rollouts make fewer steps; *few large steps* makes as few, of as many rollouts, and trains on all of them. The band draws prompts "
        "with pass rate .2 to .8 (others with weight .02), by passes seen so far or by the true rate, which no trainer knows. Differences in "
        "final held-out pass rate, points.",
        "",
        *table([*header, "few large steps", "band, seen", "band, true"], lines),
        *PROSE["choice"],
    ]  # fmt: skip


def _control(rows: list[Row]) -> list[str]:
    found = selected(rows, study="control")
    lines = []
    for name in dict.fromkeys(row["estimator"] for row in found):
        here = [row for row in found if row["estimator"] == name]
        worst = max(here, key=lambda row: abs(float(row["logit"])) / (float(row["logit_high"]) - float(row["logit"])))
        inside = sum(float(row["logit_low"]) <= 0.0 <= float(row["logit_high"]) for row in here)
        said = f"{float(worst['logit']):+.4f} ({float(worst['logit_low']):+.4f}, {float(worst['logit_high']):+.4f})"
        moved = [float(row["gain"]) for row in here]
        lines.append([f"`{name}`", f"{inside} of {len(here)}", said, f"{points(min(moved))} to {points(max(moved))}"])
    header = [
        "estimator",
        "0 inside the limits",
        "farthest from 0: mean change of the logit",
        "mean pass rate moved, points",
    ]
    return [
        "## 6. Control: shuffled rewards",
        "",
        f"Rewards shuffled over the batch, 4 or 128 prompts a step, SGD (rate 4) and Adam (0.25), three sets of prompts, kappa 1, noise spreads, "
        f"{CONTROL_SEEDS} seeds; limits of the mean change of the held-out logit that hold for all {len(found)} cells at once.",
        "",
        *table(header, lines),
        *PROSE["control"],
    ]  # fmt: skip


PROSE: dict[str, list[str]] = {
    name: [] for name in (
        "map", "groups", "estimators", "published", "testbed", "turning", "sizes", "choice", "control", "end"
    )
}  # fmt: skip


def page() -> str:
    """The page."""
    rows, plans = rows_of(), rows_of(PLAN_PATH)
    lines = [
        "# Simulated learning: which estimator, which group size?",
        "",
        *_rule(rows),
        *_model(),
        *_map(rows),
        *_groups(rows),
        *_estimators(rows),
        *_published(rows),
        *_turning(rows),
        *_sizes(rows, plans),
        *_choice(rows),
        *_control(rows),
        *PROSE["end"],
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
