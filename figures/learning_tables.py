"""Tables of docs/simulation.md, and the counts that its words rest on, from the study's two CSV files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from figures.diagnosis_page import table
from figures.learning import KAPPAS, SETS, Row
from figures.learning_cells import Floats, law_of, mean_of
from grpo_plan.simulation.result import SeedMean

LITTLE = 0.002  # mean gain over a run below which nothing was learned
MOSTLY = 0.5  # share of a gain that shuffled rewards give too, from which it is noise alone
NAMES = {"hard": "hard", "mixed": "two humps", "example": "the example", "middling": "middling"}
MEAN, SIGN, TELL, NONE, WALK = "mean-centred", "sign", "cannot tell", "neither learns", "noise alone"


def walks(row: Row) -> bool:
    """Whether shuffled rewards would have given at least half of the gain."""
    return bool(row["shuffled"]) and float(row["shuffled"]) >= MOSTLY * float(row["gain"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """Sign against mean-centred advantages in one cell, at one kind of learning rate."""

    mean: Row
    sign: Row

    @property
    def verdict(self) -> str:
        """Who learned more."""
        if max(float(self.mean["gain"]), float(self.sign["gain"])) < LITTLE:
            return NONE
        if walks(self.mean) or walks(self.sign):
            return WALK
        if float(self.sign["low"]) > 0.0:
            return SIGN
        return MEAN if float(self.sign["high"]) < 0.0 else TELL

    @property
    def predicted(self) -> str:
        """Who makes more progress in one small step, by theory.md, eq. 104."""
        return SIGN if float(self.sign["kappa"]) < float(self.sign["threshold"]) else MEAN

    @property
    def cell(self) -> str:
        """The difference in points, bold if sure, with its limits."""
        verdict = self.verdict
        if verdict in (NONE, WALK):
            return "·" if verdict == NONE else "(noise)"
        value, low, high = (points(self.sign[name]) for name in ("difference", "low", "high"))
        return f"{f'**{value}**' if verdict in (SIGN, MEAN) else value} ({low}, {high})"


def points(value: str | float) -> str:
    """Hundredths of a pass rate, with its sign.

    >>> points("0.0123"), points(-0.2)
    ('+1.2', '-20.0')
    """
    return f"{100 * float(value):+.1f}"


def percent(value: str | float, digits: int = 1) -> str:
    """In percent, without the sign for it.

    >>> percent("0.1234")
    '12.3'
    """
    return f"{100 * float(value):.{digits}f}"


def selected(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Rows with these entries."""
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def one(rows: Iterable[Row], **wanted: object) -> Row:
    """The only row with these entries."""
    found = selected(rows, **wanted)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows with {wanted}")
    return found[0]


def duels(rows: Iterable[Row], **wanted: object) -> list[Duel]:
    """Pairs of rows of sign and of the mean-centred estimator that differ in nothing else."""
    found = selected(rows, **wanted)
    means = {_place(row): row for row in found if row["estimator"] in ("rloo", "dr_grpo")}
    return [Duel(mean=means[_place(row)], sign=row) for row in found if row["estimator"] == "sign"]


def _place(row: Row) -> tuple[str, ...]:
    keys = ("study", "rates", "kappa", "coherence", "prompts", "group_size", "optimizer", "noise", "damage", "rate_is")
    return tuple(row[key] for key in keys)


def count(found: Iterable[Duel], verdict: str) -> int:
    """Duels with this verdict."""
    return sum(duel.verdict == verdict for duel in found)


def agreement(found: Iterable[Duel]) -> tuple[int, int]:
    """Decided duels that went as predicted, and all that were decided."""
    decided = [duel for duel in found if duel.verdict in (SIGN, MEAN)]
    return sum(duel.verdict == duel.predicted for duel in decided), len(decided)


def law_numbers(rates: str) -> tuple[float, float]:
    """Mean pass rate, and E[pq]."""
    pair = law_of(rates)(2)
    return float(pair[1] / 2 + pair[2]), float(pair[1] / 2)


def summary_table(rows: list[Row]) -> list[str]:
    """Who wins, over all conditions of the map at the best rate of each."""
    best = duels(rows, study="map", rate_is="best")
    lines = []
    for rates in SETS:
        mean, pq = law_numbers(rates)
        threshold = float(selected(rows, study="map", rates=rates)[0]["threshold"])
        cells = []
        for kappa in KAPPAS:
            here = [d for d in best if d.sign["rates"] == rates and float(d.sign["kappa"]) == kappa]
            counts = [count(here, verdict) for verdict in (SIGN, MEAN, TELL)]
            counts.append(len(here) - sum(counts))
            cells.append(" / ".join(map(str, counts)))
        edge = "every" if threshold == float("inf") else f"below {threshold:.2f}"
        lines.append([f"{NAMES[rates]}: mean {mean:.2f}, E[pq] {pq:.3f}", edge, *cells])
    return table(["prompts", "sign ahead in theory at kappa", *(f"kappa {k:g}" for k in KAPPAS)], lines)


def map_table(rows: list[Row], rate_is: str, **where: object) -> list[str]:
    """Differences of one place of the map."""
    lines = []
    for rates in SETS:
        for prompts in (4, 128):
            found = duels(rows, study="map", rates=rates, prompts=prompts, rate_is=rate_is, **where)
            cells = {float(d.sign["kappa"]): d.cell for d in found}
            lines.append([f"{NAMES[rates]}, {prompts} prompts", *(cells[kappa] for kappa in KAPPAS)])
    return table(["prompts", *(f"kappa {kappa:g}" for kappa in KAPPAS)], lines)


def agreement_table(rows: list[Row]) -> list[str]:
    """Where eq. 104 says who is ahead."""
    lines = []
    for name, where in PLACES.items():
        for rate_is, words in RATES.items():
            found = duels(rows, study="map", rate_is=rate_is, **where)
            if not found:
                continue
            if rate_is == "common 1":  # the mean-centred run is that at its best rate
                noise = {
                    _place(d.mean)[:-1] for d in duels(rows, study="map", rate_is="best", **where) if walks(d.mean)
                }
                found = [d for d in found if _place(d.mean)[:-1] not in noise]
            right, decided = agreement(found)
            wrong = [d for d in found if d.verdict in (SIGN, MEAN) and d.verdict != d.predicted]
            for_sign = sum(d.predicted == SIGN for d in wrong)
            said = f"{for_sign} / {len(wrong) - for_sign}"
            rest = f"{count(found, TELL)} / {count(found, NONE)} / {count(found, WALK)}"
            lines.append([name, words, f"{right} of {decided}", said, rest])
    header = ["conditions", "learning rate", "as predicted", "wrong: predicted sign / mean-centred"]
    return table([*header, "cannot tell / neither learns / noise alone"], lines)


PLACES: dict[str, dict[str, object]] = {
    "noise costs, coherence .01, SGD": {"noise": "costs", "coherence": "low", "optimizer": "sgd"},
    "noise costs, coherence .01, Adam": {"noise": "costs", "coherence": "low", "optimizer": "adam-norm"},
    "noise costs, coherence .5, Adam": {"noise": "costs", "coherence": "high", "optimizer": "adam-norm"},
    "noise spreads, coherence .01, Adam": {"noise": "spreads", "coherence": "low", "optimizer": "adam-norm"},
}
RATES = {"best": "best of each", "common 1": "best of mean-centred", "common 0.125": "an eighth of that"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """A sweep of group sizes: gain of each seed by group size."""

    seeds: dict[int, Floats]

    @property
    def best(self) -> int:
        """The group size with the highest mean gain."""
        return max(self.seeds, key=lambda g: float(self.seeds[g].mean()))

    def lost(self, size: int) -> SeedMean:
        """Gain lost against the best size, as a share of its gain; limits hold for all sizes at once."""
        top = self.seeds[self.best]
        return mean_of((top - self.seeds[size]) / float(top.mean()), len(self.seeds) - 1)

    def regret(self, size: int) -> str:
        """What a size loses, in percent, with its limits."""
        lost = self.lost(size)
        if size == self.best or lost.value is None or lost.low is None or lost.high is None:
            return "0"
        return f"{percent(lost.value, 0)} ({percent(lost.low, 0)}, {percent(lost.high, 0)})"

    def share(self, size: int) -> float:
        """Mean gain relative to that of the best size."""
        return float(self.seeds[size].mean() / self.seeds[self.best].mean())

    @property
    def tied(self) -> list[int]:
        """Other sizes that are no worse than the best within limits."""
        return sorted(g for g in self.seeds if g != self.best and (self.lost(g).low or 0.0) <= 0.0)


def sizes_of(rows: list[Row], kappa: str, noise: str, rate_is: str) -> Sizes:
    """The sweep at a kappa."""
    found = selected(rows, study="sizes", noise=noise, kappa=kappa, rate_is=rate_is)
    return Sizes(seeds={int(r["group_size"]): np.array([float(x) for x in r["by_seed"].split()]) for r in found})


def sizes_table(rows: list[Row], plans: list[Row], rate_is: str) -> list[str]:
    """The planner's pick and range against the sweep."""
    lines = []
    for noise in ("costs", "spreads"):
        for plan in plans:
            found = sizes_of(rows, plan["kappa"], noise, rate_is)
            pick, few = int(plan["pick"]), int(plan["few_dead"])
            others = ", ".join(map(str, found.tied))
            lines.append([
                noise, plan["kappa"], f"{pick} ({plan['flat_low']} to {plan['flat_high']})",
                f"{found.best} ({others})" if others else str(found.best), in_range(found, plan),
                f"{pick}: {found.regret(pick)}", found.regret(8), f"{few}: {found.regret(few)}",
            ])  # fmt: skip
    header = ["noise", "kappa", "planned G (flat range)", "best G (no worse within limits)", "best in range"]
    return table([*header, "planned: % lost", "G = 8: % lost", "first G with D at most .4: % lost"], lines)


def in_range(found: Sizes, plan: Row) -> str:
    """Whether the best size lies in the flat range, or one that is no worse within limits does."""
    low, high = int(plan["flat_low"]), int(plan["flat_high"])
    if low <= found.best <= high:
        return "yes"
    return "a tied one" if any(low <= g <= high for g in found.tied) else "no"


def shares_table(rows: list[Row], plans: list[Row], rate_is: str) -> list[str]:
    """Gain of each group size relative to the best, measured and predicted."""
    sizes = [key.removeprefix("progress_") for key in plans[0] if key.startswith("progress_")]
    lines = []
    for plan in plans:
        lines.append([plan["kappa"], "predicted", *(f"{float(plan[f'progress_{g}']):.2f}" for g in sizes)])
        for noise in ("costs", "spreads"):
            found = sizes_of(rows, plan["kappa"], noise, rate_is)
            lines.append([plan["kappa"], noise, *(f"{found.share(int(g)):.2f}" for g in sizes)])
    return table(["kappa", "", *(f"G = {g}" for g in sizes)], lines)
