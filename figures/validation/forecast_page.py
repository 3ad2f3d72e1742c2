"""The sections of docs/validation.md on forecasts, from the committed results alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from figures.validation.forecast_counts import (
    DEAD,
    KINDS,
    LEVEL,
    MORE,
    PARTS,
    PILOTS,
    PROMPTS,
    ROLLOUTS,
    SIZES,
    TRUTH,
    UNIT,
    Floats,
    Score,
    joined,
    plug_in,
    pooled,
    score,
)
from figures.validation.forecast_tables import groups, more_table, notes
from figures.validation.public_logs import foretold

NAMES = {
    "sum": "*sum*: one right answer",
    "either": "*either*: two right answers",
    "easy": "*easy*: many prompts near 1",
}
BIAS = 0.01  # that a forecast for G up to n was to stay below


@lru_cache(maxsize=1)
def truth() -> dict[str, Any]:
    """Exact shares of the three starts."""
    found: dict[str, Any] = json.loads(TRUTH.read_text(encoding="utf-8"))
    return found


def _shares(frame: pl.DataFrame, column: str) -> Floats:
    return frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy() / UNIT


@lru_cache(maxsize=1)
def cells() -> dict[tuple[str, int, int], dict[str, Score]]:
    """Start, n, G -> what came of the forecasts of each share and of the rivals of the dead one."""
    keys = ["start", "n", "group"]
    frame = pl.read_parquet(DEAD).join(pl.read_parquet(PARTS), on=[*keys, "pilot"], how="left")
    counts = {
        (str(start), int(n)): np.array(part["counts"].to_list(), dtype=np.int64)
        for (start, n), part in pl.read_parquet(PILOTS).partition_by("start", "n", as_dict=True).items()
    }
    found: dict[tuple[str, int, int], dict[str, Score]] = {}
    for (start, n, group), part in frame.partition_by(keys, as_dict=True).items():
        exact = truth()[start]["groups"][str(group)]
        scores = {
            kind: score(_shares(part, kind), _shares(part, f"{kind}_low"), _shares(part, f"{kind}_high"), exact[kind])
            for kind in KINDS
        }
        nothing = np.zeros(part.height)
        rivals = {
            "beta": _shares(part, "beta"),
            "plug_in": plug_in(counts[start, n], group),
            "pooled": pooled(counts[start, n], group),
        }
        scores |= {name: score(value, nothing, nothing, exact["dead"]) for name, value in rivals.items()}
        found[str(start), int(n), int(group)] = scores
    return found


@lru_cache(maxsize=1)
def statuses() -> dict[tuple[str, int, int], str]:
    """Start, n, G -> the status that most of the pilots have there."""
    frame = (
        pl.read_parquet(DEAD)
        .group_by("start", "n", "group")
        .agg(pl.col("status").cast(pl.String).mode().sort().first())
    )
    return {(start, n, group): status.lower().replace("_", " ") for start, n, group, status in frame.iter_rows()}


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    names = list(header)
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names), *(f"| {' | '.join(row)} |" for row in rows), ""]


def _signed(value: float) -> str:
    shown = f"{value:+.3f}"
    return shown[1:] if float(shown) == 0.0 else shown


def _main_table(start: str) -> list[str]:
    rows = []
    for n in ROLLOUTS:
        for g in SIZES:
            c = cells()[start, n, g]
            dead = c["dead"]
            rows.append(
                [
                    str(n), str(g), f"{truth()[start]['groups'][str(g)]['dead']:.3f}",
                    f"{_signed(dead.bias)} ± {dead.bias_error:.3f}", f"{dead.rmse:.3f}", f"{dead.covered:.3f}",
                    f"{dead.width:.3f}", statuses()[start, n, g], *(_signed(c[rival].bias) for rival in ("beta", "plug_in", "pooled")),
                ]
            )  # fmt: skip
    head = ("n", "G", "exact D", "bias ± s.e.", "RMSE", "limits hold it", "width", "status")
    return _table((*head, "one Beta", "plug-in", "pooled"), rows)


def _short_table(start: str) -> list[str]:
    rows = []
    for g in SIZES:
        row = [str(g), f"{truth()[start]['groups'][str(g)]['dead']:.3f}"]
        for n in ROLLOUTS:
            dead = cells()[start, n, g]["dead"]
            row.append(f"{_signed(dead.bias)} ({dead.rmse:.3f}), {dead.covered:.2f} [{dead.width:.2f}]")
        rows.append(row)
    return _table(("G", "exact D", *(f"n = {n}" for n in ROLLOUTS)), rows)


def _worst_cells(kinds: tuple[str, ...]) -> str:
    """Coverage over all cells, and the least of a cell."""
    every = [(s[kind], key, kind) for key, s in cells().items() for kind in kinds]
    inside, count = joined(s for s, _, _ in every)
    least, (start, n, g), kind = min(every, key=lambda e: e[0].covered)
    short = sum(s.covered_limits[1] < LEVEL for s, _, _ in every)
    low, high = least.covered_limits
    return (
        f"{inside:,} of {count:,} ({inside / count:.1%}) in {len(every)} cells; the lowest cell is {least.covered:.3f} "
        f"[{low:.3f}, {high:.3f}] ({kind.replace('_', '-')}, *{start}*, n = {n}, G = {g}, {least.count} pilots); in {short} cells the share's own 95 % limits end below .95 (a fortieth would by luck)"
    )


def _reach() -> list[str]:
    """Coverage by whether the rollouts suffice, n, and beyond."""
    parts = {"G up to n": (0.0, 1.0), "n < G up to 4n": (1.0, 4.0), "G above 4n": (4.0, np.inf)}
    rows = []
    for name, (above, up_to) in parts.items():
        here = {key: s["dead"] for key, s in cells().items() if above < key[2] / key[1] <= up_to}
        inside, count = joined(here.values())
        worst = max((abs(s.bias), s.bias_error) for s in here.values())
        rows.append(
            [
                name, str(len(here)), f"{inside:,} of {count:,}", f"{inside / count:.3f}",
                f"{min(s.covered for s in here.values()):.3f}", f"{worst[0]:.3f} ± {worst[1]:.3f}",
                f"{np.mean([s.rmse for s in here.values()]):.3f}", f"{np.mean([s.width for s in here.values()]):.3f}",
            ]
        )  # fmt: skip
    head = ("cells", "number", "limits hold D", "share", "lowest cell", "largest bias", "mean RMSE", "mean width")
    return _table(head, rows)


def _bias() -> str:
    """Whether the bias for G up to n is below the bar, Monte-Carlo error included."""
    near = {key: s["dead"] for key, s in cells().items() if key[2] <= key[1]}
    (start, n, g), worst = max(near.items(), key=lambda item: abs(item[1].bias))
    sure = sum(abs(s.bias) + 1.96 * s.bias_error < BIAS for s in near.values())
    apart = sum(abs(s.bias) > 1.96 * s.bias_error for s in near.values())
    holds = "came true" if abs(worst.bias) < BIAS else "did not come true"
    return (
        f"That the bias stays below {BIAS:g} for G up to n {holds}: the largest of {len(near)} cells is {_signed(worst.bias)} ± "
        f"{worst.bias_error:.3f} (*{start}*, n = {n}, G = {g}), and in {sure} cells the bias is below {BIAS:g} with its 95 % "
        f"Monte-Carlo limits too. It differs from 0 by more than 1.96 s.e. in {apart} cells; a twentieth would by luck, and "
        f"cells of one pilot go together."
    )


def _beyond() -> str:
    """Bias of the value for G above n, by how far, and against one Beta."""
    ratios = sorted({key[2] // key[1] for key in cells() if key[2] > key[1]})
    parts = []
    for ratio in ratios:
        here = [s["dead"].bias for key, s in cells().items() if key[2] == ratio * key[1]]
        parts.append(f"{_signed(min(here))} to {_signed(max(here))} at G = {ratio}n ({len(here)} cells)")
    far = [s for key, s in cells().items() if key[2] > key[1]]
    high = sum(s["dead"].bias > 1.96 * s["dead"].bias_error for s in far)
    low = sum(s["dead"].bias < -1.96 * s["dead"].bias_error for s in far)
    better = sum(abs(s["dead"].bias) < abs(s["beta"].bias) for s in far)
    return (
        f"The value is biased there, by {'; '.join(parts)}: too high by more than 1.96 s.e. in {high} of {len(far)} cells, too low "
        f"in {low}. Its bias is smaller than that of one Beta in {better} of them. The limits, not the value, are the forecast."
    )


def _pilots() -> str:
    count = {s: max(score_["dead"].count for key, score_ in cells().items() if key[0] == s) for s in NAMES}
    return ", ".join(f"{n} of *{s}*" for s, n in count.items())


def _forecast() -> list[str]:
    facts = "; ".join(
        f"*{s}*: mean {truth()[s]['mean']:.3f}, {truth()[s]['below_a_tenth']:.0%} below .1, "
        f"{truth()[s]['above_99_in_100']:.0%} above .99"
        for s in NAMES
    )
    every = list(cells().values())
    far = [s["dead"] for key, s in cells().items() if key[2] > 4 * key[1]]
    rivals = {name: max(abs(s[name].bias) for s in every) for name in ("dead", "beta", "plug_in", "pooled")}
    return [
        "## The dead fraction, forecast",
        "",
        f"Weights are frozen. The truth is exact: pass rates of 20,000 prompts by one teacher-forced pass ({facts}). A pilot draws "
        f"{PROMPTS} of these prompts at random with replacement, and samples 16 rollouts of each from the model; n = 4 and 8 are the "
        f"first of them. Pilots: {_pilots()}. `gp.fit_pass_rates` sees counts alone, and `dead(G)` answers with 95 % limits.",
        "",
        *_main_table("sum"),
        "*"
        + NAMES["sum"].split("*")[1]
        + "*: bias with its Monte-Carlo standard error, root mean square error, share of pilots whose limits hold the exact D, mean "
        "width of these, and the status of most. The last three columns are the biases of one Beta, of the formula at each k/n, and of the formula at the mean "
        "pass rate.",
        "",
        "The other two starts: bias (RMSE), share of pilots whose limits hold D [mean width].",
        "",
        NAMES["either"],
        "",
        *_short_table("either"),
        NAMES["easy"],
        "",
        *_short_table("easy"),
        "By how far G lies beyond the rollouts of the pilot:",
        "",
        *_reach(),
        f"* **Limits of D.** They hold it in {_worst_cells(('dead',))}.",
        f"* **Its parts.** All-pass and all-fail: {_worst_cells(('all_pass', 'all_fail'))}.",
        f"* **Bias.** {_bias()}",
        f"* **Beyond n.** {_beyond()}",
        f"* **Rivals.** Largest bias of a cell, any start, n and G: {rivals['dead']:.3f} here, {rivals['beta']:.3f} with one Beta, "
        f"{rivals['plug_in']:.3f} plugged in, {rivals['pooled']:.3f} at the mean pass rate.",
        f"* **Far beyond n** limits are wide, {np.mean([d.width for d in far]):.2f} on average for G above 4n, and hold D in {joined(far)[0]:,} of "
        f"{joined(far)[1]:,}. They allow for every distribution that the counts do not rule out: more than 95 % says that they are cautious "
        "there, not that they are sharp.",
        "",
    ]


def _more() -> list[str]:
    found = groups(MORE)
    return [
        "## Steps, refills, temperatures, mixes, drift",
        "",
        "The same policies, more of what a plan says. *Inside* is the share of predictions whose interval holds what was measured, in "
        "brackets its Wilson limits with every pilot, log or run counted once, however many predictions it makes.",
        "",
        *more_table(found),
        *notes(found),
        "",
    ]


def _logs() -> list[str]:
    every = foretold()
    rows = [
        [
            f.log, f.pilot, f"{f.group}", f.share, f"{f.value:.3f}", f"{f.low:.3f} to {f.high:.3f}",
            "" if f.iid is None else f"{f.iid:.3f}", f"{f.measured:.3f} ({f.groups:,})",
            f"{_signed(f.difference[0])} [{_signed(f.difference[1])}, {_signed(f.difference[2])}]",
        ]
        for f in every
    ]  # fmt: skip
    outside = [f for f in every if not f.inside]
    apart = [f for f in every if f.difference[1] > 0 or f.difference[2] < 0]
    head = ("log", "pilot", "G", "share", "forecast", "limits", "i.i.d.", "measured (groups)", "difference [95 %]")
    return [
        "## Public logs",
        "",
        "Two published runs, foretold from groups of their own; no policy of ours. The later visits of One-Shot-RLVR are 9 to 75 steps "
        "of training away from the first; the groups of 2 of Gradient Starvation are other runs than those of 4.",
        "",
        *_table(head, rows),
        f"{len(every) - len(outside)} of {len(every)} measured shares lie inside the limits, taken as exact; "
        f"{len(apart)} of {len(every)} differ by more than both errors together (the rows of one log are not independent). "
        + "".join(f"Outside: {f.log}, G = {f.group}, off by {_signed(f.difference[0])}. " for f in outside).strip(),
        "",
        "Anyone can ask the same from the published counts:",
        "",
        "```python",
        ">>> import grpo_plan as gp",
        ">>> fours = gp.Pilot.from_histogram([4] * 5, range(5), [1792, 417, 282, 255, 454])   # Gradient Starvation, G = 4",
        ">>> print(gp.fit_pass_rates(fours).dead(2))                    # later runs with G = 2: 0.823 of 2,400 groups",
        "D(2) = 0.8363 [0.8272, 0.845] (95 %), OK",
        ">>> eights = gp.Pilot.from_histogram([8] * 9, range(9), [439, 151, 103, 91, 73, 76, 88, 96, 92])    # One-Shot-RLVR",
        ">>> for g in (16, 32, 64):                                     # later visits: 0.328, 0.237, 0.177 of 1,209",
        "...     print(gp.fit_pass_rates(eights).dead(g))",
        "D(16) = 0.3319 [0.2808, 0.3728] (95 %), OK",
        "D(32) = 0.2523 [0.1455, 0.3468] (95 %), EXTRAPOLATED",
        "D(64) = 0.1933 [0.03705, 0.3468] (95 %), EXTRAPOLATED",
        "",
        "```",
        "",
    ]


def page() -> str:
    """The sections as Markdown."""
    return "\n".join([*_forecast(), *_more(), *_logs()])
