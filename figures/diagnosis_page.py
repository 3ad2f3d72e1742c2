"""docs/diagnosis-study.md from figures/diagnosis.csv and figures/diagnosis_rivals.csv.

Run ``python -m figures.diagnosis_page`` after either table was measured anew. A test compares.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from figures.scenarios import SCENARIOS, Scenario
from grpo_plan.fitting.intervals import wilson_interval

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "diagnosis-study.md"
OURS, THEIRS = HERE / "diagnosis.csv", HERE / "diagnosis_rivals.csv"
BAR = 0.01
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """Rows of a table."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rate(hits: int, trials: int) -> str:
    """A rate with its standard error; at 0 and 1, with the other Wilson limit instead.

    >>> rate(10, 200), rate(0, 200), rate(200, 200)
    ('.050 (.015)', '0 (< .019)', '1 (> .981)')
    """
    if hits in (0, trials):
        low, high = wilson_interval(hits / trials, trials, 0.95)
        return f"0 (< {_short(high)})" if hits == 0 else f"1 (> {_short(low)})"
    share = hits / trials
    return f"{_short(share)} ({_short((share * (1 - share) / trials) ** 0.5)})"


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    names = list(header)
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names), *(f"| {' | '.join(row)} |" for row in rows), ""]


def rivals() -> dict[tuple[str, str], Row]:
    """Counts of the other tools by scenario and tool."""
    return {(row["scenario"], row["tool"]): row for row in rows_of(THEIRS)}


def _their_cells(name: str, found: dict[tuple[str, str], Row]) -> list[str]:
    cells = []
    for tool in ("rldoctor", "rlprobe"):
        row = found[name, tool]
        dead, all_kinds, seeds = int(row["dead"]), int(row["any"]), int(row["seeds"])
        cells.append(f"{dead / seeds:.2f} / {all_kinds / seeds:.2f}")
    return cells


def _truth(scenario: Scenario) -> str:
    loud = [names.replace("|", " or ") for names in scenario.warns]
    told = [f"{name} (told)" for name in scenario.tells]
    return ", ".join([*loud, *told])


def alarms(rows: list[Row]) -> tuple[int, int]:
    """Healthy runs with a warning, and all healthy runs."""
    healthy = [row for row in rows if row["healthy"] == "1"]
    return sum(int(row["alarms"]) for row in healthy), sum(int(row["seeds"]) for row in healthy)


def healthy_section(rows: list[Row], found: dict[tuple[str, str], Row]) -> list[str]:
    """False alarms."""
    hits, runs = alarms(rows)
    lines = []
    for row, scenario in zip(rows, SCENARIOS, strict=True):
        if scenario.healthy:
            told = row["detected"] and f"{_truth(scenario)}: {rate(int(row['detected']), int(row['seeds']))}"
            mine = rate(int(row["alarms"]), int(row["seeds"]))
            lines.append(
                [f"**{scenario.name}**: {scenario.about}", mine, row["loud"], told, *_their_cells(scenario.name, found)]
            )
    others = {}
    for tool in ("rldoctor", "rlprobe"):
        its = [found[row["scenario"], tool] for row in rows if row["healthy"] == "1"]
        total = sum(int(r["seeds"]) for r in its)
        others[tool] = [rate(sum(int(r[kind]) for r in its), total) for kind in ("dead", "any")]
    return [
        "## Healthy runs: false alarms",
        "",
        f"Share of runs of which anything is said at warning or above, with its standard error. All healthy runs together: "
        f"{hits:,} of {runs:,}, {rate(hits, runs)}; the bar is {BAR:g}. The others: rldoctor {others['rldoctor'][0]} by its "
        f"detector of dead groups and {others['rldoctor'][1]} by any; rlprobe {others['rlprobe'][0]} and "
        f"{others['rlprobe'][1]}; these depend on how many kinds here are dead by design, so look at the rows. Last columns: "
        "the same shares, dead groups / any.",
        "",
        *table(["run", "grpo-plan", "which", "must be told", "rldoctor", "rlprobe"], lines),
    ]


def sick_section(rows: list[Row], found: dict[tuple[str, str], Row]) -> list[str]:
    """Detection."""
    lines = []
    for row, scenario in zip(rows, SCENARIOS, strict=True):
        if not scenario.healthy:
            seeds = int(row["seeds"])
            onset = ""
            if row["onset_checked"]:
                onset = (
                    rate(int(row["onset_inside"]), int(row["onset_checked"]))
                    if int(row["onset_checked"])
                    else "none said"
                )
            mine = rate(int(row["detected"]), seeds)
            about = f"**{scenario.name}**: {scenario.about}"
            lines.append([about, _truth(scenario), mine, onset, *_their_cells(scenario.name, found)])
    return [
        "## Sick runs: detection",
        "",
        "Share of runs in which everything that must be found was found: at warning or above, or at any severity where it "
        "says *told*. Onset: share of the runs found whose onset lies where the trouble begins. The others: share of runs of "
        "which they say anything at warning or above, dead groups / any; which trouble it is, they do not have to name.",
        "",
        *table(["run", "must be found", "grpo-plan", "onset", "rldoctor", "rlprobe"], lines),
    ]


def page() -> str:
    """The whole page."""
    rows, found = rows_of(OURS), rivals()
    if [row["scenario"] for row in rows] != [scenario.name for scenario in SCENARIOS]:
        raise SystemExit("figures/diagnosis.csv is of other scenarios. Measure again: python -m figures.diagnosis.")
    theirs = {row["seeds"] for row in found.values()}
    lines = [
        "# Diagnosis: detection and false alarms",
        "",
        f"Does a diagnosis find what is wrong, and is it silent where nothing is? {len(rows)} kinds of run with known truth, "
        f"{rows[0]['seeds']} of each (of the other tools: the first {' or '.join(sorted(theirs))}), simulated in "
        "`figures/scenarios`: prompts with pass rates from a law F, a policy that drifts and wanders, all rewards drawn, and a "
        "log under the names of TRL, verl, tinker, OpenRLHF, prime-rl or ms-swift with plausible entropies, lengths, gradients "
        "and times. A plan, where there is one, comes from a pilot of 1,000 prompts x 8 drawn anew for each run, so the "
        "error of the pilot is in the false alarms. Measured by `python -m figures.diagnosis`.",
        "",
        "Compared with rldoctor 0.2.0 and rlprobe 0.1.0 on the same logs (`tests/benchmarks/rivals_diagnosis.py`). rldoctor "
        "reads the JSON lines with the settings in front. rlprobe reads no logs: its recorder was fed with the rows, under "
        "the names of its TRL callback, or the nearest field it has for other trainers. A tool fires where it says warning "
        "or critical; of dead groups: `advantage_collapse` of rldoctor, and `DEGENERATE_GROUPS`, `ADV_COLLAPSE`, "
        "`REWARD_STD_DEATH` of rlprobe. Both judge the dead fraction by a fixed limit and take no plan, so a run that is dead "
        "by design is a warning to them by their own definition; rldoctor also calls a flat reward a plateau, which for some "
        "of the healthy runs here is true. Neither reads rollouts, which some of the sick runs need.",
        "",
        *healthy_section(rows, found),
        *sick_section(rows, found),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write it."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
