"""What a design would do, from a report's what-if tables alone: the twin of the page's script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_plan.report.costing import Amounts, contents, prompt_cost, run_cost
from grpo_plan.report.laws import binomial_quantiles
from grpo_plan.report.refilling import batch_size, refilled
from grpo_plan.report.words import command_line, number

Numbers = dict[str, Any]
FLAT_SHARE, WORTH_LIMITS = 0.9, 0.8
ROUNDING = 1.0 + 1e-12
PARTS = ("dead", "all_fail", "all_pass")
DESIGN = ("prompts_per_step", "steps", "budget_rollouts")


def recompute(what_if: Mapping[str, Any], choice: Mapping[str, Any]) -> Numbers:
    """Everything that the page shows of a choice.

    Args:
        what_if: The tables of `Report.document`.
        choice: ``preset``, ``group_size`` (one of the table), ``prompts_per_step`` with ``steps`` or
            ``budget_rollouts`` or alone, or ``steps`` with ``budget_rollouts``; ``refill`` with ``batch_multiplier`` or
            ``gen_batch_size`` and ``max_rounds``; ``kappa``, None for that of the plan.
    """
    preset = what_if["presets"][choice["preset"]]
    at = preset["group_sizes"].index(choice["group_size"])
    size, refill = choice["group_size"], bool(choice["refill"])
    dead = dead_of(preset, at)
    costs = [cost_of(preset, i, refill) for i in range(len(preset["group_sizes"]))]
    designs = [design_of(choice, each) for each in costs]
    made = designs[at]
    drawn = 1.0 if not refill else mixed_share(preset, at)
    moments = moments_of(preset, designs)
    nothing = {"feasible": False, "dead": dead, "commands": commands_of(what_if, preset, choice, made)}
    nothing |= dict.fromkeys(("design", "effective_batch", "cost", "cost_in_batches", "noise_to_signal", "refill"))
    if made is None:
        return {**nothing, "progress": [], "reason": refusal(choice, dead)}
    prompts, steps = made
    limits = cost_limits(preset, at, refill, prompts, steps)
    filled = None
    if refill:
        batch = batch_size(prompts, choice["batch_multiplier"], choice["gen_batch_size"])
        filled = refilled(dead, prompts, size, batch, choice["max_rounds"], steps)
        if filled is None:
            return {**nothing, "progress": [], "reason": refusal(choice, dead)}
    trained = prompts if filled is None else filled["mixed_groups"]["value"]
    return {
        "feasible": True,
        "reason": None,
        "design": {
            "group_size": size, "prompts_per_step": prompts, "steps": steps, "rollouts_per_step": prompts * size,
        },
        "dead": dead,
        "effective_batch": mixed_batch(prompts, size, dead) if filled is None
        else full_batch(prompts, size) if filled["max_rounds"] is None else capped_batch(prompts, size, dead, filled),
        "cost": {
            "of": "step" if steps is None else "run",
            **(run_cost(preset["cost"], costs[at], prompts, steps or 1) or {}),
            "at_dead_low": limits[0], "at_dead_high": limits[1],
        },
        "cost_in_batches": None if filled is None else cost_in_batches(preset, at, prompts, steps, filled),
        "progress": progress_of(what_if, preset, choice, at, costs, designs, moments),
        "noise_to_signal": noise_of(what_if, preset, choice, moments, at, trained / drawn),
        "refill": filled,
        "commands": nothing["commands"],
    }  # fmt: skip


def dead_of(preset: Mapping[str, Any], at: int) -> Numbers:
    """The dead fraction, as the tables hold it."""
    found: Numbers = {"value": preset["dead"][at], "low": preset["dead_low"][at], "high": preset["dead_high"][at]}
    found |= {"status": preset["status"][at], "identified": preset["identified"][at], "mixed": 1.0 - found["value"]}
    for part in PARTS[1:]:
        found |= {f"{part}{end}": preset[f"{part}{end}"][at] for end in ("", "_low", "_high")}
    return found


def mixed_share(preset: Mapping[str, Any], at: int) -> float:
    """Share of mixed groups, summed over the law of passes."""
    return contents(preset["pmf"][at])[1]


def cost_of(preset: Mapping[str, Any], at: int, refill: bool) -> Amounts | None:
    """Cost of one prompt a step at the estimate."""
    content = contents(preset["pmf"][at])
    return prompt_cost(preset["cost"], preset["group_sizes"][at], content, refill, content[1])


def cost_limits(
    preset: Mapping[str, Any], at: int, refill: bool, prompts: int, steps: int | None
) -> tuple[Amounts | None, Amounts | None]:
    """Cost of the run at the limits of the dead fraction, where it depends on them."""
    if not refill and not preset["cost"]["train_mixed_only"]:
        return None, None
    content, size = contents(preset["pmf"][at]), preset["group_sizes"][at]
    ends = []
    for end in ("dead_low", "dead_high"):
        each = prompt_cost(preset["cost"], size, content, refill, 1.0 - preset[end][at])
        ends.append(run_cost(preset["cost"], each, prompts, steps or 1))
    return ends[0], ends[1]


def design_of(choice: Mapping[str, Any], each: Amounts | None) -> tuple[int, int | None] | None:
    """Prompts per step and steps; None where even one prompt, or one step, is too much."""
    prompts, steps, budget = (choice[name] for name in DESIGN)
    if each is None:
        return None
    if budget is None:
        return prompts, steps
    line: float = each["rollout_equivalents"] or 0.0
    if prompts is None:
        prompts = settle(budget / steps / line, lambda n: steps * (n * line) <= budget * ROUNDING)
    else:
        steps = settle(budget / (prompts * line), lambda n: n * (prompts * line) <= budget * ROUNDING)
    return None if prompts == 0 or steps == 0 else (prompts, steps)


def settle(guess: float, fits: Any) -> int:
    """The largest whole number that fits, from a guess that rounding may have moved."""
    found = math.floor(guess)
    while found > 0 and not fits(found):
        found -= 1
    while fits(found + 1):
        found += 1
    return found


def refusal(choice: Mapping[str, Any], dead: Mapping[str, Any]) -> str:
    """Why there is no such design."""
    size = choice["group_size"]
    if choice["refill"] and (dead["value"] >= 1.0 or dead["low"] >= 1.0):
        return f"A refill would never end: no group of {size} is mixed."
    return f"The budget does not pay for one step of groups of {size}. Raise it, or take fewer prompts or steps."


def mixed_batch(prompts: int, size: int, dead: Mapping[str, Any]) -> Numbers:
    """Mixed groups of a step: a binomial law (eq. 21)."""
    value = dead["value"]
    p05, p50, p95 = binomial_quantiles(prompts, value, (0.05, 0.5, 0.95))
    mixed = {
        "mean": prompts * (1.0 - value), "sd": math.sqrt(prompts * (value * (1.0 - value))),
        "p05": p05, "p50": p50, "p95": p95,
    }  # fmt: skip
    ends = {"mean_low": prompts * (1.0 - dead["high"]), "mean_high": prompts * (1.0 - dead["low"])}
    return {
        "mixed_groups": {**mixed, **ends},
        "live_rollouts": {name: value * size for name, value in mixed.items()},
        "dead_batch_probability": value**prompts,
    }


def full_batch(prompts: int, size: int) -> Numbers:
    """Of a step that is refilled: all its groups are mixed."""
    mixed = {"mean": float(prompts), "sd": 0.0, "p05": float(prompts), "p50": float(prompts), "p95": float(prompts)}
    return {
        "mixed_groups": {**mixed, "mean_low": None, "mean_high": None},
        "live_rollouts": {name: value * size for name, value in mixed.items()},
        "dead_batch_probability": 0.0,
    }


def capped_batch(prompts: int, size: int, dead: Mapping[str, Any], filled: Mapping[str, Any]) -> Numbers:
    """Of a step that gives up: the lesser of its groups and the mixed ones among all that the cap lets it draw."""
    value, most = dead["value"], filled["max_rounds"] * filled["gen_batch_size"]
    quantiles = [min(float(prompts), k) for k in binomial_quantiles(most, value, (0.05, 0.5, 0.95))]
    held = filled["mixed_groups"]
    mixed = {"mean": held["value"], **dict(zip(("p05", "p50", "p95"), quantiles, strict=True))}
    return {
        "mixed_groups": {**mixed, "sd": None, "mean_low": held["low"], "mean_high": held["high"]},
        "live_rollouts": {**{name: number * size for name, number in mixed.items()}, "sd": None},
        "dead_batch_probability": value**most,
    }


def cost_in_batches(
    preset: Mapping[str, Any], at: int, prompts: int, steps: int | None, filled: Mapping[str, Any]
) -> Numbers:
    """Cost of what generation batches draw, within their cap, where a plan counts prompts one at a time."""
    content, size = contents(preset["pmf"][at]), preset["group_sizes"][at]
    drawn, held = filled["prompts"], filled["mixed_groups"]

    def of(count: float | None, kept: float | None) -> Amounts | None:
        if count is None or kept is None:
            return None
        each = prompt_cost(preset["cost"], size, content, True, 1.0, (count / prompts, kept / prompts))
        return run_cost(preset["cost"], each, prompts, steps or 1)

    return {
        **(of(drawn["mean"], held["value"]) or {}),
        "at_dead_low": of(drawn["mean_low"], held["high"]),
        "at_dead_high": of(drawn["mean_high"], held["low"]),
    }


def kappas_of(what_if: Mapping[str, Any], choice: Mapping[str, Any]) -> list[float]:
    """The chosen kappa, or both ends of the plan's."""
    kappa = what_if["kappa"]
    ends = [kappa["low"], kappa["high"]] if choice["kappa"] is None else [choice["kappa"]]
    return ends if len(ends) == 1 or ends[0] != ends[1] else ends[:1]


def progress_of(
    what_if: Mapping[str, Any], preset: Mapping[str, Any], choice: Mapping[str, Any], at: int,
    costs: Sequence[Amounts | None], designs: Sequence[tuple[int, int | None] | None], moments: Mapping[str, Any],
) -> list[Numbers]:  # fmt: skip
    """Progress relative to the best group size of the table, at each kappa (eq. 26)."""
    rows = []
    for kappa in kappas_of(what_if, choice):
        worth = [
            0.0
            if design is None
            else comparable(preset, choice, costs[i], design) * worth_of(what_if, moments, i, kappa)
            for i, design in enumerate(designs)
        ]
        best = max(range(len(worth)), key=lambda i: worth[i])
        if worth[best] <= 0.0:
            names = ("ratio", "low", "high", "best_group_size", "flat_range", "best_status", "flat_status")
            rows.append({"kappa": kappa, **dict.fromkeys(names)})
            continue
        shares = [w / worth[best] for w in worth]
        flat = [preset["group_sizes"][i] for i, share in enumerate(shares) if share >= FLAT_SHARE]
        limits = preset["limits"] if moments is preset else []
        low, high = progress_limits(preset, limits, kappa, best, at, shares[at])
        rows.append(
            {
                "kappa": kappa, "ratio": shares[at], "low": low, "high": high,
                "best_group_size": preset["group_sizes"][best], "flat_range": [flat[0], flat[-1]],
                "best_status": preset["status"][best],
                "flat_status": preset["status"][preset["group_sizes"].index(flat[-1])],
            }
        )  # fmt: skip
    return rows


def comparable(
    preset: Mapping[str, Any], choice: Mapping[str, Any], each: Amounts | None, design: tuple[int, int | None]
) -> float:
    """Groups that a design samples within the budget in rollouts; without one, per unit of cost."""
    prompts, steps = design
    total = run_cost(preset["cost"], each, prompts, steps or 1)
    if total is None:
        return 0.0
    groups: float = total["groups"] or 0.0
    if choice["budget_rollouts"] is not None:
        return groups
    spent = next((total[u] for u in ("usd", "gpu_hours", "generated_tokens") if total[u] is not None), None)
    spent = total["rollout_equivalents"] if spent is None else spent
    return groups / spent if spent else groups


def moments_of(preset: Mapping[str, Any], designs: Sequence[tuple[int, int | None] | None]) -> Mapping[str, Any]:
    """Moments of all group sizes by one law: that of the counts, if the largest that is feasible has them (eq. 28)."""
    feasible = [size for size, design in zip(preset["group_sizes"], designs, strict=True) if design is not None]
    for row in preset["counted"]:
        if feasible and row["largest"] == feasible[-1]:
            counted: Mapping[str, Any] = row
            return counted
    return preset


def worth_of(what_if: Mapping[str, Any], moments: Mapping[str, Any], at: int, kappa: float) -> float:
    """Squared mean of one group's estimate over its variance."""
    signal: float = moments["signal"][at]
    return signal**2 / variance_of(what_if, moments, at, kappa) if signal > 0.0 else 0.0


def variance_of(what_if: Mapping[str, Any], moments: Mapping[str, Any], at: int, kappa: float) -> float:
    """Variance of one group's gradient (eq. 25)."""
    signal = moments["signal"][at]
    variance: float = moments["signal_square"][at] + kappa * moments["noise"][at] - what_if["coherence"] * signal**2
    return variance


def progress_limits(
    preset: Mapping[str, Any], limits: Sequence[Mapping[str, Any]], kappa: float, best: int, at: int, ratio: float
) -> tuple[float | None, float | None]:
    """Limits where the tables hold them: at the kappas of the plan, beside the same best group size."""
    if at == best:
        return 1.0, 1.0
    for row in limits:
        if row["kappa"] == kappa and row["best"] == preset["group_sizes"][best] and ratio >= WORTH_LIMITS:
            low, high = row["log_low"][at], row["log_high"][at]
            if low is not None and high is not None:
                return ratio * math.exp(low), ratio * math.exp(high)
    return None, None


def noise_of(
    what_if: Mapping[str, Any],
    preset: Mapping[str, Any],
    choice: Mapping[str, Any],
    moments: Mapping[str, Any],
    at: int,
    groups: float,
) -> Numbers | None:
    """Noise-to-signal ratio of a step, where the coherence or a probe tells it (eq. 26 and 51)."""
    measured, rho, signal = preset["nsr"], what_if["coherence"], moments["signal"][at]
    if choice["kappa"] is None and measured is not None and measured["low"][at] is not None:
        count = max(1, round(groups))
        return {end: None if (x := measured[end][at]) is None else x / count for end in ("value", "low", "high")}
    if rho == 0.0 or signal == 0.0:
        return None
    kappa = what_if["kappa"]
    low, high, value = kappa["low"], kappa["high"], kappa["value"]
    if choice["kappa"] is not None:
        low = high = value = choice["kappa"]

    def ratio(k: float) -> float:
        value: float = variance_of(what_if, moments, at, k) / (groups * rho * signal**2)
        return value

    return {"value": None if value is None else ratio(value), "low": ratio(low), "high": ratio(high)}


def commands_of(
    what_if: Mapping[str, Any],
    preset: Mapping[str, Any],
    choice: Mapping[str, Any],
    made: tuple[int, int | None] | None,
) -> Numbers:
    """The commands that print the same numbers."""
    start = ["plan", *preset["arguments"], "--group-sizes"]
    words: list[str] = []
    for name in DESIGN:
        if choice[name] is not None:
            words += [f"--{name.replace('budget_rollouts', 'budget-rollouts').replace('_', '-')}", str(choice[name])]
    kappa = what_if["kappa_argument"] if choice["kappa"] is None else number(choice["kappa"])
    words += ["--kappa", kappa, *what_if["arguments"], *what_if["cost_arguments"]]
    words += ["--refill"] if choice["refill"] else []
    refill = None
    if choice["refill"] and made is not None:
        refill = ["refill", *preset["arguments"], "--prompts-per-step", str(made[0])]
        refill += ["--group-size", str(choice["group_size"])]
        if choice["gen_batch_size"] is not None:
            refill += ["--gen-batch-size", str(choice["gen_batch_size"])]
        elif choice["batch_multiplier"] is not None:
            refill += ["--batch-multiplier", number(choice["batch_multiplier"])]
        refill += [] if choice["max_rounds"] is None else ["--max-rounds", str(choice["max_rounds"])]
        refill += [] if made[1] is None else ["--steps", str(made[1])]
        refill += what_if["refill_arguments"]
    every = ",".join(str(size) for size in preset["group_sizes"])
    plan, design = ([*start, sizes, *words] for sizes in (every, str(choice["group_size"])))
    return {
        "plan": command_line(plan),
        "design": command_line(design),
        "refill": None if refill is None else command_line(refill),
    }
