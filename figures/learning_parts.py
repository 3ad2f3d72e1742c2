"""The parts of docs/simulation.md after the map: other group sizes and estimators, and parts 2 to 6."""

from __future__ import annotations

from figures import learning_cells as cells
from figures import learning_words as words
from figures.diagnosis_page import table
from figures.learning import CONTROL_SEEDS, OTHERS, SETS, SOME_KAPPAS, Row
from figures.learning_tables import NAMES, duels, one, percent, points, selected, shares_table, sizes_table


def limits(row: Row) -> str:
    """A difference in points with its limits, bold where they leave out 0."""
    low, high = float(row["low"]), float(row["high"])
    value = points(row["difference"])
    return f"{f'**{value}**' if low > 0 or high < 0 else value} ({points(low)}, {points(high)})"


def level(row: Row, name: str) -> str:
    """A pass rate or gain in percent with its standard error."""
    return f"{percent(row[name])} ± {percent(row[f'{name}_se'], 2)}"


def groups(rows: list[Row]) -> list[str]:
    """Sign against mean-centred at other group sizes."""
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
        *words.on_groups(rows),
    ]


def estimators(rows: list[Row]) -> list[str]:
    """Other estimators."""
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
        *words.on_estimators(rows),
    ]


def published(rows: list[Row]) -> list[str]:
    """The published result, and the small testbed."""
    lines = []
    for optimizer, said in (("sgd", "SGD"), ("adam-norm", "Adam")):
        for coherence, cosine in (("low", ".01"), ("high", ".5")):
            for kappa in SOME_KAPPAS:
                line = [said, cosine, f"{kappa:g}"]
                for size in (4, 8):
                    where: dict[str, object] = {
                        "kappa": f"{kappa:g}", "optimizer": optimizer, "coherence": coherence, "group_size": size,
                    }  # fmt: skip
                    best, gap = words.widest(rows, where, best=True), words.widest(rows, where)
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
        "gap*: both at one learning rate, that of four (1, 1/4, 1/16 and 1/64 of the best of `dr_grpo`) at which sign leads most (of sure leads, if there is one).",
        "",
        *table(header, lines),
        *words.on_published(rows),
        "Hard additions of a small transformer (101,696 parameters; exact pass rates; Adam; G = 4, 512 rollouts a step, 150 steps; measured "
        "kappa 1.42, coherence .010; 2 to 3 seeds): from 2.4 % mean-centred ended at 15.8 to 19.2 %, sign at its best rate at 3.8 %, and at "
        "the rates of mean-centred at 0.8 and 0.0 %. The noise-to-signal ratios of a step were 15 and 161. The same setting here, final held-out "
        "pass rate in percent:",
        "",
        *_testbed(rows),
        *words.on_testbed(rows),
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


def turning(rows: list[Row]) -> list[str]:
    """All-fail groups under sign."""
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
        *words.on_turning(rows),
    ]  # fmt: skip


def sizes(rows: list[Row], plans: list[Row]) -> list[str]:
    """Group sizes at equal rollouts."""
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
        *words.on_sizes(rows, plans),
    ]


def choice(rows: list[Row]) -> list[str]:
    """Refill and curriculum."""
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
        *words.on_choice(rows),
    ]  # fmt: skip


def control(rows: list[Row]) -> list[str]:
    """Shuffled rewards."""
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
        *words.on_control(rows),
    ]  # fmt: skip
