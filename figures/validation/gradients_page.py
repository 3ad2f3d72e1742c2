"""The sections of docs/validation.md on gradients, from committed raw results only: no torch, nothing measured here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from figures.validation.moments import (
    PROBE_SIZES,
    Floats,
    Prompts,
    group_squares,
    kappa_interval,
    line,
    two_size_interval,
    two_stage_size,
)

RESULTS = Path(__file__).parent / "results"
NAMES = {"all": "all", "hard": "hard", "tail": "tail", "hard_tail": "hard + tail", "either": "either", "easy": "easy"}
EDGES = ((0.005, 0.02), (0.02, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.2501))
FLOOR = EDGES[0][0]  # least pq at which a slope is fitted
Numbers = dict[str, Any]


@lru_cache(maxsize=1)
def results() -> Numbers:
    """The committed numbers."""
    found: Numbers = json.loads((RESULTS / "gradients.json").read_text())
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """A number with its limits."""
    upper = "no limit" if not np.isfinite(high) else f"{high:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {upper}]"


def prompts_of(world: str) -> Prompts:
    """Exact numbers of the prompts of a world."""
    return Prompts.of(results()["worlds"][world]["prompts"])


def slope(prompts: Prompts, resamples: int = 300) -> tuple[float, float, float]:
    """Log-log slope of ``|grad p|`` on pq where pq is above ``FLOOR``, with its interval over prompts."""
    kept = prompts.spread > FLOOR
    x, y = np.log(prompts.spread[kept]), 0.5 * np.log(prompts.square[kept])
    times = np.random.default_rng(1).multinomial(len(x), np.full(len(x), 1 / len(x)), size=resamples)
    weight = np.vstack([np.ones(len(x)), times]) / len(x)
    mx, my = weight @ x, weight @ y
    found: Floats = (weight @ (x * y) - mx * my) / (weight @ x**2 - mx**2)
    low, high = np.quantile(found[1:], [0.025, 0.975])
    return float(found[0]), float(low), float(high)


def line_misfit(prompts: Prompts) -> tuple[float, int]:
    """Largest relative miss of the line through the two probe sizes over the other sizes, and the size it is at."""
    a, b = (float(group_squares(prompts, size).mean()) for size in PROBE_SIZES)
    intercept, gradient = line((a, b))
    misses = {
        size: (intercept + gradient / (size - 1)) / float(group_squares(prompts, size).mean()) - 1
        for size in results()["settings"]["sizes"]
    }
    worst = max(misses, key=lambda size: abs(misses[size]))
    return misses[worst], worst


def _summary() -> list[str]:
    rows: list[list[str]] = [["prompts measured"], ["E[pq]"], ["E[p²q²]"], ["slope of log \\|grad p\\| on log pq"]]
    rows += [["correlation of \\|grad p\\| and pq"], ["mean cosine of two prompts' gradients (s.e.)"]]
    rows += [["S², p below ½ (median)"], ["S², p above ½ (median)"], ["kappa, exact"], ["kappa, two sizes, exact"]]
    rows += [["G\\*, two sizes, exact"], ["G\\*, two-stage (theory, eq. 27)"], ["kappa by one probe, 256 x 16"]]
    rows += [["G\\* by that probe"], ["line through G = 4, 16 off by at most"]]
    for world, given in results()["worlds"].items():
        p = prompts_of(world)
        kappa, (two, best) = kappa_interval(p), two_size_interval(p)
        noise, below = p.noise, p.rate < 0.5
        misfit, at = line_misfit(p)
        probe = given["probe"]
        column = [
            f"{len(p):,}", f"{given['law']['pq']:.4f}", f"{given['law']['ppqq']:.5f}", interval(*slope(p)),
            f"{np.corrcoef(np.sqrt(p.square), p.spread)[0, 1]:.2f}",
            f"{given['coherence']['cosine']:.4f} ({given['coherence']['cosine_se']:.4f})",
            f"{np.median(noise[below]):,.0f}", f"{np.median(noise[~below]):,.0f}" if (~below).any() else "-",
            interval(*kappa), interval(*two), interval(*best, digits=1),
            f"{two_stage_size(p, max(given['mean_gradient']['by_estimator']['rloo']['2']['value'], 0.0)):.1f}",
            _probed(probe["kappa"]), _probed(probe["best"], 1), f"{100 * misfit:+.0f} % (G = {at})",
        ]  # fmt: skip
        for row, cell in zip(rows, column, strict=True):
            row.append(cell)
    return table(["", *(NAMES[w] for w in results()["worlds"])], rows)


def _probed(m: Numbers, digits: int = 2) -> str:
    return interval(*(float("nan") if m["value"] is None else m["value"], m["low"], m["high"] or np.inf), digits=digits)


def _bins(world: str) -> list[str]:
    p = prompts_of(world)
    contrast = p.square / p.spread**2
    rows = []
    for low, high in EDGES:
        row = [f"{low:g} to {min(high, 0.25):g}"]
        for side in (p.rate < 0.5, p.rate >= 0.5):
            inside = side & (p.spread >= low) & (p.spread < high)
            if inside.sum() < 5:
                row += [str(int(inside.sum())), "-", "-", "-"]
                continue
            h2 = p.square[inside].mean() / (p.spread[inside] ** 2).mean()
            own = (p.spread * p.noise)[inside].mean() / p.spread[inside].mean() / h2
            row += [
                str(int(inside.sum())), f"{np.median(np.sqrt(contrast[inside])):.0f}",
                f"{np.median(p.noise[inside]):,.0f}", f"{own:.2f}",
            ]  # fmt: skip
        rows.append(row)
    return table(
        ["pq", *(f"{name}, {side}" for side in ("p < ½", "p ≥ ½") for name in ("prompts", "h", "S²", "kappa"))], rows
    )


def _noise() -> list[str]:
    settings = results()["settings"]
    sizes = [str(s) for s in settings["sizes"]]
    rows = []
    for world, given in results()["worlds"].items():
        signal = given["mean_gradient"]["by_estimator"]["rloo"]["2"]
        told = signal["value"] > 2 * signal["se"]
        row = given["noise_to_signal"]["rloo"]
        best = min((v for v in row.values() if v is not None), default=None)
        cells = (
            [f"**{row[s]:.1f}**" if row[s] == best else f"{row[s]:.1f}" for s in sizes] if told else ["-"] * len(sizes)
        )
        rows.append([NAMES[world], f"{signal['value']:.3g} ± {signal['se']:.2g}", *cells])
    return table(["", "\\|E grad p\\|²", *(f"G = {s}" for s in sizes)], rows)


def _estimators(world: str) -> list[str]:
    given = results()["worlds"][world]
    sizes = [str(s) for s in results()["settings"]["sizes"]]
    rows = []
    for name, label in (("rloo", "mean-centred"), ("std", "std-normalised"), ("maxrl", "MaxRL"), ("sign", "sign")):
        rows.append([label, *(f"{given['noise_to_signal'][name][s]:.1f}" for s in sizes)])
        if name in ("std", "maxrl"):
            cosines = given["mean_gradient"]["by_estimator"][name]
            rows.append(
                [f"{label}: cosine with grad E[p]", *(f"{cosines[s]['cosine'] or float('nan'):.3f}" for s in sizes)]
            )
    return table([NAMES[world], *(f"G = {s}" for s in sizes)], rows)


def _plans() -> list[str]:
    rows = []
    for world, given in results()["worlds"].items():
        by = given["planner"]
        best = given["kappa"]["best"]
        cells = [
            f"{by[k]['pick']} ({by[k]['flat'][0]} to {by[k]['flat'][1]})" for k in ("two_size", "probe", "default")
        ]
        rows.append([NAMES[world], f"{given['kappa']['two_size']:.2f}", f"{best:.1f}", *cells])
    return table(
        [
            "",
            "kappa, two sizes",
            "G\\* of exact moments",
            "plan, that kappa",
            "plan, one probe",
            "plan, kappa 1 to 300",
        ],
        rows,
    )


def _words() -> str:
    """The table in sentences."""
    given = results()["worlds"]
    made = {world: prompts_of(world) for world in given}
    slopes = [slope(p)[0] for p in made.values()]
    cosines = [g["coherence"]["cosine"] for g in given.values()]
    kappas = {world: g["kappa"]["two_size"] for world, g in given.items()}
    least, most = min(kappas, key=lambda w: kappas[w]), max(kappas, key=lambda w: kappas[w])
    apart = {world: kappas[world] - g["kappa"]["model"] for world, g in given.items()}
    furthest = max(apart, key=lambda w: abs(apart[w]))
    held = sum(
        g["probe"]["kappa"]["low"] <= kappas[w]
        and (g["probe"]["kappa"]["high"] is None or kappas[w] <= g["probe"]["kappa"]["high"])
        for w, g in given.items()
    )
    outside = [NAMES[w] for w, k in kappas.items() if not 1.0 <= k <= 300.0]
    default = f"lies outside for {', '.join(f'*{n}*' for n in outside)}" if outside else "lies inside for all"
    return (
        f"|grad p| is nearly proportional to pq (slopes {min(slopes):.2f} to {max(slopes):.2f}) and gradients of different prompts hardly agree (mean cosine "
        f"{min(cosines):.3f} to {max(cosines):.3f}). Kappa (two sizes) runs from {kappas[least]:.2f} (*{NAMES[least]}*) to {kappas[most]:.1f} (*{NAMES[most]}*); against "
        f"the planner's default range, 1 to 300, it {default}. The model's kappa and the one of two sizes are furthest apart in *{NAMES[furthest]}* "
        f"({given[furthest]['kappa']['model']:.2f} and {kappas[furthest]:.2f}). One probe's 95 % interval held the exact value in {held} of {len(given)} worlds."
    )


def _check() -> str:
    scores = []
    for world, given in results()["worlds"].items():
        p = prompts_of(world)
        for size, (seen, error) in given["squares_by_rollouts"].items():
            scores.append((seen - float(group_squares(p, int(size)).mean())) / error)
    inside = sum(abs(z) < 1.96 for z in scores)
    return (
        f"{inside} of {len(scores)} lie within 1.96 standard errors, the furthest at {max(map(abs, scores)):.1f} (sizes of a world share rollouts, so this is "
        "about one check a world; squared norms have long tails, which few rollouts miss)"
    )


def page() -> str:
    """Markdown of the sections."""
    from figures.validation.kappa_page import sections

    settings = results()["settings"]
    rolled = 64
    lines = [
        "## What the planner assumes of gradients",
        "",
        "The right answers of a prompt can be listed, so its pass rate p and the gradient of p in all parameters are exact. With the mean squared",
        f"length of a score (the gradient of a rollout's log-probability) after a pass and after a fail, from {rolled} rollouts a prompt, they give",
        "E|ĝ|² of a group at every G and for every advantage, without any model: a sum over the number of passes. As a check, the mean squares over",
        f"all sub-groups of the same {rolled} rollouts (theory, eq. 50) were compared with it: of the means at {len(settings['sizes'])} sizes in {len(results()['worlds'])} worlds",
        f"{_check()}.",
        "",
        *_summary(),
        "",
        "Intervals in square brackets are 95 %: bootstrap over prompts (percentile), and the probe's own. *kappa, exact* is the pooled ratio of theory, eq. 25:",
        "E[pq S²] / E[pq] over h² = E|grad p|² / E[p²q²]. *Two sizes* is what a probe estimates (eq. 49), from exact moments at G = 4 and 16: it takes in that",
        "passes and fails are not equally noisy, which the model leaves out.",
        "",
        _words(),
        "",
    ]
    for world in ("all", "hard", "easy"):
        if world in results()["worlds"]:
            lines += [
                f"By size of pq, *{NAMES[world]}* (h = |grad p| / pq and S² are medians, kappa is pooled in the bin):",
                "",
                *_bins(world),
                "",
            ]
    lines += [
        "## The noise of a step",
        "",
        f"Noise to signal (E|ĝ|² - |E ĝ|²) / (N |E ĝ|²) of a step of {settings['rollouts']} rollouts, mean-centred, from the same exact numbers; |E grad p|² from products of the",
        f"exact gradients of different prompts ({next(iter(results()['worlds'].values()))['mean_gradient']['prompts']:,} others, in {settings['blocks']} blocks). Bold: the least. Its level has the relative error of |E grad p|²; the ratios of a row do not depend on it much.",
        "",
        *_noise(),
        "",
        "Other advantages, the same way:",
        "",
        *_estimators("all"),
        "",
        *_estimators("hard"),
        "",
        f"What `grpo-plan` says from a pilot of {settings['pilot'][0]} x {settings['pilot'][1]} rollouts (estimator `dr_grpo`, {settings['rollouts']} rollouts a step, these sizes; in brackets the flat range):",
        "",
        *_plans(),
        "",
        *sections(),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page())
