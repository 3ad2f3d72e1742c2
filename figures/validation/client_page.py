"""The section of docs/validation.md on TRL, from results/client.json alone."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from figures.validation.client_kappa import ExactKappa, exact_kappa

PLANNED = 3  # seeds; the others were added after these were seen
RESULTS = Path(__file__).parent / "results" / "client.json"
Floats = NDArray[np.float64]
INSIDE = float(stats.norm.ppf(0.975))


@dataclass(frozen=True)
class Mean:
    """A mean over seeds, its standard error and the limits of Student's t at 95 %."""

    value: float
    error: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> Mean:
        """Of one number a seed."""
        x = np.asarray(values, dtype=np.float64)
        error = float(x.std(ddof=1) / len(x) ** 0.5)
        reach = float(stats.t.ppf(0.975, len(x) - 1)) * error
        return cls(float(x.mean()), error, float(x.mean()) - reach, float(x.mean()) + reach)


@dataclass(frozen=True)
class Steps:
    """Dead groups of all steps of all runs, against what the exact pass rates of their own prompts say."""

    z: Floats  # one a step
    total_z: float
    counted: int
    expected: float
    agree: int  # steps in which callback, TRL and the reward function count the same

    @classmethod
    def of(cls, results: dict[str, Any]) -> Steps:
        """Of the results."""
        groups = results["setting"]["prompts"]
        counted, expected, variance, dead, trl = (
            np.concatenate([np.asarray(s["trl"][name], dtype=np.float64) for s in results["seeds"]])
            for name in ("counted", "expected", "variance", "dead", "trl_dead")
        )
        same = (np.abs(dead * groups - counted) < 0.01) & (np.abs(trl * groups - counted) < 0.01)
        return cls(
            (counted - expected) / np.sqrt(variance),
            float((counted - expected).sum() / np.sqrt(variance.sum())),
            int(counted.sum()), float(expected.sum()), int(same.sum()),
        )  # fmt: skip


def load() -> dict[str, Any]:
    """The committed results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def wilson(inside: int, count: int) -> tuple[float, float]:
    """Limits of a share at 95 %."""
    low, high = stats.binomtest(inside, count).proportion_ci(method="wilson")
    return float(low), float(high)


def share(inside: int, count: int) -> str:
    """A share in words, with its limits."""
    low, high = wilson(inside, count)
    return f"{inside} of {count} ({inside / count:.3f}, limits {low:.3f} to {high:.3f})"


def course(results: dict[str, Any], loop: str) -> Floats:
    """Pass rate of held-out prompts at each look: (seeds, looks)."""
    return np.array([s[loop]["pass_rate"] for s in results["seeds"]])


def by_ten(results: dict[str, Any], loop: str) -> Floats:
    """Dead fraction of each ten steps: (seeds, steps / 10)."""
    every = results["setting"]["every"]
    if loop == "plain":
        return np.array([s["plain"]["dead_by_ten"] for s in results["seeds"]])
    found: Floats = (
        np.array([s["trl"]["dead"] for s in results["seeds"]]).reshape(len(results["seeds"]), -1, every).mean(2)
    )
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(header)} |", "|" + "---|" * len(header), *(f"| {' | '.join(r)} |" for r in rows), ""]


def prose(*sentences: str) -> list[str]:
    """A paragraph, and an empty line. No line begins with a number and a stop, which would be a list."""
    held = re.sub(r" (\d+\.) ", "\0\\1 ", " ".join(sentences))
    return [textwrap.fill(held, 120, break_long_words=False, break_on_hyphens=False).replace("\0", " "), ""]


def plus_minus(m: Mean, digits: int = 4) -> str:
    """Value and standard error."""
    return f"{m.value:.{digits}f} ± {m.error:.{digits}f}"


def signed(m: Mean, digits: int = 4) -> str:
    """A difference, its standard error and its limits."""
    return f"{m.value:+.{digits}f} ± {m.error:.{digits}f} [{m.low:+.{digits}f}, {m.high:+.{digits}f}]"


def kappas(results: dict[str, Any]) -> tuple[ExactKappa, list[ExactKappa], list[ExactKappa]]:
    """Exact kappa at the start, and at the ends of the runs of TRL and of the plain loop."""
    return (
        exact_kappa(results["exact"]),
        [exact_kappa(s["trl"]["exact_end"]) for s in results["seeds"]],
        [exact_kappa(s["plain"]["exact_end"]) for s in results["seeds"]],
    )


def holds(limits: Sequence[float | None], truth: float) -> bool:
    """Whether value, low, high of a probe hold a number; an open limit is None."""
    _, low, high = limits
    return (low is None or low <= truth) and (high is None or truth <= high)


def interval(limits: Sequence[float | None], digits: int = 2) -> str:
    """Value, low and high as text."""
    value, low, high = (None if x is None else f"{x:.{digits}f}" for x in limits)
    return f"{value or '-'} [{low or '0'}, {high or 'open'}]"


def dead_section(results: dict[str, Any]) -> list[str]:
    """Dead groups against the exact pass rates of their own prompts."""
    steps = Steps.of(results)
    n = len(steps.z)
    inside = int((np.abs(steps.z) <= INSIDE).sum())
    return prose(
        "**Dead groups.** Before each step the exact pass rates of its own prompts are known, and with them how many",
        "of its groups should be dead, and the variance of that number. The callback, TRL's `frac_reward_zero_std`",
        f"and the reward function counted the same in {steps.agree} of {n} steps. Over these steps z, the number",
        f"counted less the one expected over its standard deviation, has mean {steps.z.mean():+.3f} ± {n**-0.5:.3f}",
        f"and mean square {np.mean(steps.z**2):.3f} ± {(2 / n) ** 0.5:.3f} (0 and 1 if all is as it should be); it is",
        f"inside ±{INSIDE:.2f} in {share(inside, n)}. In all {steps.counted:,} groups were dead, {steps.expected:,.0f}",
        f"expected: z = {steps.total_z:+.2f}.",
    )


def forecast_section(results: dict[str, Any]) -> list[str]:
    """Dead groups against the pilot's forecast."""
    setting, planned, seeds = results["setting"], results["planned"]["dead"], results["seeds"]
    first, size, exact = setting["every"], setting["group"], results["exact_dead"]
    early = np.concatenate([s["trl"]["dead"][:first] for s in seeds])
    error = float(early.std(ddof=1) / len(early) ** 0.5)
    low, high = (results["mixed_groups"][k] for k in ("p05", "p95"))
    mixed = setting["prompts"] - np.array([s["trl"]["counted"] for s in seeds])
    within = (mixed >= low) & (mixed <= high)
    begins, ends = (within[:, part] for part in (slice(first), slice(-first, None)))
    known = "inside" if planned["low"] <= exact <= planned["high"] else "outside"
    return prose(
        f"**Forecast.** The pilot ({setting['pilot'][0]} prompts x {setting['pilot'][1]} rollouts) said D({size}) =",
        f"{planned['value']:.3f} [{planned['low']:.3f}, {planned['high']:.3f}]. Exact is {exact:.3f}, {known} these",
        f"limits, and of the {len(early) * setting['prompts']:,} groups of the first {first} steps {early.mean():.3f}",
        f"± {error:.3f} were dead. The plan's range for the mixed groups of 9 steps in 10 is {low:.0f} to {high:.0f}:",
        f"so many were mixed in {share(int(begins.sum()), begins.size)} of the first {first} steps of each run, and in",
        f"{share(int(ends.sum()), ends.size)} of the last {first}, when exact D({size}) was",
        f"{np.mean([s['trl']['exact_dead'][-1] for s in seeds]):.3f}.",
    )


def kappa_rows(
    results: dict[str, Any], start: ExactKappa, ends: Sequence[ExactKappa]
) -> tuple[list[list[str]], list[int]]:
    """A row for each probe, and how often limits of kappa, and of the best G, hold what is exact."""
    rows, hits, seeds = [], [0, 0], results["seeds"]
    for when, truths in (("start", [start] * len(seeds)), ("end", ends)):
        for s, truth in zip(seeds, truths, strict=True):
            probe = s["trl"][f"probe_{when}"]
            hits[0] += holds(probe["kappa"], truth.kappa)
            hits[1] += holds(probe["group_size"], truth.group_size)
            exact = (
                f"{truth.kappa:.2f} ± {truth.kappa_error:.2f}",
                f"{truth.group_size:.2f} ± {truth.group_size_error:.2f}",
            )
            live = f"{probe['live']} of {probe['prompts']}"
            told = [interval(probe[name]) for name in ("kappa", "group_size")]
            rows.append([f"{when}, seed {s['seed']}", live, told[0], exact[0], told[1], exact[1]])
    return rows, hits


def kappa_section(results: dict[str, Any]) -> list[str]:
    """The probe against exact gradients."""
    start, trl, plain = kappas(results)
    seeds = results["seeds"]
    rows, hits = kappa_rows(results, start, trl)
    gap = Mean.of([a.kappa - b.kappa for a, b in zip(trl, plain, strict=True)])
    ends, at_end = len(seeds[0]["trl"]["exact_end"]["pass_rate"]), np.mean([k.kappa for k in trl])
    return [
        *prose(
            "**Kappa.** `kappa_callback` measured at the start of each run, `probe_trainer` at its end. Exact: the",
            "line of eq. 49 through the expected squared norms at G = 4 and 16, from exact gradients of other prompts",
            f"({len(results['exact']['pass_rate'])} at the start, {ends} at each end; ± standard error over prompts).",
            f"The limits of kappa hold the exact value in {hits[0]} of {len(rows)} probes, those of the best G in",
            f"{hits[1]} of {len(rows)}.",
        ),
        *table(["policy", "prompts with a gradient", "kappa: probe", "exact", "best G: probe", "exact"], rows),
        *prose(
            f"Kappa of exact gradients at the end is {at_end:.2f} in TRL and {np.mean([k.kappa for k in plain]):.2f}",
            f"in the plain loop, from {start.kappa:.2f} at the start (by the formula of eq. 27 {start.formula:.2f}).",
            f"TRL less the plain loop, by seed and on the same prompts: {signed(gap, 2)}.",
        ),
    ]


def step_section(results: dict[str, Any]) -> list[str]:
    """The same rollouts through both loops."""
    found, setting = results["replayed"], results["setting"]
    apart, scaled, itself = (found[k] for k in ("apart", "apart_if_scaled", "apart_from_itself"))
    early, steps = setting["every"], len(apart)
    return prose(
        f"**The same rollouts.** The rollouts of TRL's first {steps} steps were given to the plain loop's update. The",
        f"gradients of the first step have a cosine of 1 less {abs(found['one_less_cosine']):.0e}, and lengths in the",
        f"ratio {found['ratio']:.5f}: `dr_grpo` divides by the longest completion allowed too, here",
        f"{setting['longest']} tokens. With the plain loop's loss divided by it as well, the weights of the two are",
        f"apart by at most {max(scaled[:early]):.0e} of the way they moved, in each of the first {early} steps;",
        f"without, by {max(apart[:early]):.4f}, as the epsilon of Adam counts for more beside smaller gradients.",
        f"Later any difference grows: to {scaled[-1]:.3f} and {apart[-1]:.3f} after {steps} steps, and from",
        f"{min(itself):.0e} to {itself[-1]:.4f} between the plain loop and itself, started from weights that differ by",
        "one part in ten million. At this rate training amplifies rounding.",
    )


def course_section(results: dict[str, Any]) -> list[str]:
    """Learning in both loops."""
    trl, plain = course(results, "trl"), course(results, "plain")
    rows = [["0", f"{trl[0, 0]:.4f}", f"{plain[0, 0]:.4f}", "the same weights"]]
    for look in range(1, trl.shape[1]):
        means = [plus_minus(Mean.of(loop[:, look])) for loop in (trl, plain)]
        rows.append([str(look * results["setting"]["every"]), *means, signed(Mean.of(trl[:, look] - plain[:, look]))])
    area = Mean.of(trl.mean(1) - plain.mean(1))
    welch = stats.ttest_ind(trl.mean(1), plain.mean(1), equal_var=False)
    limits = welch.confidence_interval()
    dead = [by_ten(results, loop).mean(1) for loop in ("trl", "plain")]
    return [
        *prose(
            f"**Learning.** Mean exact pass rate of 1,000 held-out prompts, ± standard error over {len(trl)} seeds;",
            "TRL less the plain loop, by seed, with the limits of Student's t:",
        ),
        *table(["step", "TRL", "plain loop", "TRL less plain"], rows),
        *prose(
            f"Over the whole run, as the mean of the curve, TRL less plain is {signed(area)}, of a gain of",
            f"{(plain.mean(1) - plain[:, 0]).mean():.4f} in the plain loop; by the spread between seeds, without",
            f"pairing, the limits are [{limits.low:+.4f}, {limits.high:+.4f}]. Of the groups of a run",
            f"{dead[0].mean():.4f} were dead in TRL and {dead[1].mean():.4f} in the plain loop:",
            f"{signed(Mean.of(dead[0] - dead[1]))}.",
            *added(trl, plain),
        ),
    ]


def added(trl: Floats, plain: Floats) -> list[str]:
    """Why there are more seeds than were planned."""
    gaps = trl.mean(1) - plain.mean(1)
    if len(gaps) < PLANNED + 2:
        return []
    return [
        f"{PLANNED} seeds were planned. They gave {signed(Mean.of(gaps[:PLANNED]))} for the mean of the curve, so",
        f"{len(gaps) - PLANNED} more were run, which alone give {signed(Mean.of(gaps[PLANNED:]))}.",
    ]


def diagnosis_section(results: dict[str, Any]) -> list[str]:
    """What the callback and the command said of runs that are healthy."""
    runs = [s["trl"] for s in results["seeds"]]

    def told(found: Counter[str]) -> str:
        return ", ".join(f"{name} in {count} of {len(runs)}" for name, count in sorted(found.items())) or "nothing"

    found = Counter(f"{f['id']} ({f['severity']})" for r in runs for f in r["findings"])
    standing = Counter(f"{name} ({severity})" for r in runs for name, severity in r["standing"])
    grave = sum(f["severity"] != "info" for r in runs for f in r["findings"])
    learnt = sum(r["pass_rate"][-1] > r["pass_rate"][0] for r in runs)
    failed = sum(r["diagnose_status"] != 0 for r in runs)
    return prose(
        f"**Diagnosis.** `grpo-plan diagnose` on TRL's own log and rollouts, with the plan, of {len(runs)} runs of",
        f"which {learnt} end above their first pass rate: {grave or 'no'} finding{'' if grave == 1 else 's'} of",
        f"warning or worse, {failed or 'no'} exit status other than 0; found: {told(found)}.",
        f"Alerts of the callback that stood at the end: {told(standing)}.",
        f"The evidence against the plan was at most 10^{max(max(r['evidence']) for r in runs):.2f}; an alarm is",
        f"10^2.7. The verdict of seed {results['seeds'][0]['seed']}: *{runs[0]['verdict']}*",
    )


def page() -> str:
    """The section."""
    results = load()
    s = results["setting"]
    seeds = ", ".join(str(run["seed"]) for run in results["seeds"])
    lines = [
        "## The same task through TRL",
        "",
        *prose(
            f"The starting policy of *all* as a model of transformers {s['transformers']}, trained by the GRPOTrainer",
            f"of TRL {s['trl']} with `GrpoPlanCallback`, `kappa_callback` and a plan made from a pilot; and by the",
            "plain loop of this study, from the same weights, on the same prompts in the same order, with other",
            "rollouts. An answer ends after its five tokens by itself, so the policy is the same in both. G =",
            f"{s['group']}, {s['prompts']} prompts a step, {s['steps']} steps, Adam (.9, .99) at {s['rate']:g} after",
            f"{s['warm_up']} steps of warm-up,",
            '`loss_type="dr_grpo"`, no scaling of rewards, no KL term, no clipping of gradients, one update a batch;',
            f"seeds {seeds}, one pilot.",
        ),
        *dead_section(results),
        *forecast_section(results),
        *kappa_section(results),
        *step_section(results),
        *course_section(results),
        *diagnosis_section(results),
    ]
    return "\n".join(lines).rstrip() + "\n"
