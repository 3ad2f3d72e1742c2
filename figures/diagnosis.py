"""Detection and false alarms of the diagnosis on simulated runs with known truth; writes figures/diagnosis.csv.

Run ``python -m figures.diagnosis [seeds [workers [scenario ...]]]``; with names of scenarios it prints and writes
nothing. What two other tools say of the same logs is in figures/diagnosis_rivals.csv
(``python -m tests.benchmarks.rivals_diagnosis``).
"""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from figures.scenarios import SCENARIOS, Scenario, plan_of, run_log
from grpo_plan import diagnose

TABLE = Path(__file__).with_suffix(".csv")
SEEDS, WORKERS = 200, 2
FIELDS = [
    "scenario",
    "healthy",
    "planned",
    "seeds",
    "detected",
    "alarms",
    "onset_checked",
    "onset_inside",
    "loud",
    "told",
]
LOUD = frozenset(("warning", "critical"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was said of one run.

    Attributes:
        severity: Name of each finding to its severity; the worst where there are several.
        onset: Name of each finding to the step at which it begins, where that is known.
    """

    severity: Mapping[str, str]
    onset: Mapping[str, int]

    @property
    def loud(self) -> frozenset[str]:
        """Findings at warning or above."""
        return frozenset(name for name, severity in self.severity.items() if severity in LOUD)

    def detected(self, scenario: Scenario) -> bool:
        """Whether everything that must be found was found."""
        warned = all(self.loud & set(names.split("|")) for names in scenario.warns)
        return warned and set(scenario.tells) <= set(self.severity)

    def begins(self, scenario: Scenario) -> int | None:
        """Onset of the first finding that must be there, or None."""
        names = scenario.warns[0].split("|") if scenario.warns else []
        return next((self.onset[name] for name in names if name in self.onset), None)


def outcome(scenario: Scenario, seed: int) -> Outcome:
    """Draw, read and diagnose one run."""
    simulated = scenario.simulate(seed)
    found = diagnose(run_log(simulated), plan=plan_of(simulated), remedies=False)
    severity: dict[str, str] = {}
    onset: dict[str, int] = {}
    for finding in found.findings:
        name, word = str(finding.id), str(finding.severity)
        if name not in severity or word == "critical" or severity[name] == "info":
            severity[name] = word
        if finding.onset_step is not None:
            onset[name] = min(int(finding.onset_step), onset.get(name, int(finding.onset_step)))
    return Outcome(severity=severity, onset=onset)


def measure(scenario: Scenario, seeds: int) -> dict[str, object]:
    """One row of the table."""
    found = [outcome(scenario, seed) for seed in range(seeds)]
    begins = [o.begins(scenario) for o in found] if scenario.onset is not None else []
    low, high = scenario.onset or (0, 0)
    known = [step for step in begins if step is not None]
    loud = Counter(name for o in found for name in o.loud)
    told = Counter(name for o in found for name in o.severity if name not in o.loud)
    return {
        "scenario": scenario.name,
        "healthy": int(scenario.healthy),
        "planned": int(scenario.simulate(0).pilot is not None),
        "seeds": seeds,
        "detected": sum(o.detected(scenario) for o in found) if scenario.warns or scenario.tells else "",
        "alarms": sum(bool(o.loud) for o in found),
        "onset_checked": len(known) if begins else "",
        "onset_inside": sum(low <= step <= high for step in known) if begins else "",
        "loud": _listed(loud),
        "told": _listed(told),
    }


def _listed(counts: Counter[str]) -> str:
    return "; ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _job(cell: tuple[int, int]) -> dict[str, object]:
    index, seeds = cell
    return measure(SCENARIOS[index], seeds)


def main() -> None:
    """Every scenario, in order."""
    numbers = [int(word) for word in sys.argv[1:3]]
    seeds, workers = [*numbers, *(SEEDS, WORKERS)[len(numbers) :]]
    wanted = set(sys.argv[3:])
    cells = [(i, seeds) for i, s in enumerate(SCENARIOS) if not wanted or s.name in wanted]
    with (
        (Path(os.devnull) if wanted else TABLE).open("w", encoding="utf-8", newline="") as file,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for done, row in enumerate(pool.map(_job, cells), start=1):
            writer.writerow(row)
            file.flush()
            said = f"detected {row['detected']}, alarms {row['alarms']}, loud: {row['loud']}, told: {row['told']}"
            print(f"{done} of {len(cells)}: {row['scenario']}: {said}", file=sys.stderr)


if __name__ == "__main__":
    main()
