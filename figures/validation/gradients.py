"""Exact gradients of each world, what a probe and a plan make of it, and the noise of a step at every group size.

``python -m figures.validation.gradients --work DIR`` writes ``results/gradients.json``. Chunks of prompts are kept in
``DIR/bank``, so that it can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import grpo_plan as gp
from figures.validation.bank import BLOCKS, CHUNK, PROBE_ROLLOUTS, SEED, Bank, bank, counts, law, source
from figures.validation.conditions import ROLLOUTS, SIZES, STEPS, WORLDS
from figures.validation.model import Decoder
from figures.validation.moments import (
    ESTIMATORS,
    PROBE_SIZES,
    Floats,
    group_squares,
    kappa,
    noise_to_signal,
    pulls,
    two_size_kappa,
)
from figures.validation.policy import pass_rates, sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.scores import rate_gradients
from figures.validation.tasks import draw, rewards
from figures.validation.training import World
from grpo_plan.planning.gradients import MeanGradientSquare, mean_gradient_square
from grpo_plan.probe.gram import subgroup_squared_norms

RESULTS = Path(__file__).parent / "results"
PLACES = ("all", "hard", "tail", "hard_tail", "either", "easy")
PILOT = (500, 8)
Numbers = dict[str, Any]


def short(value: float | None, digits: int = 5) -> float | None:
    """A number as the results hold it."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.{digits}g}")


def _shorts(values: Floats, digits: int = 4) -> list[float | None]:
    return [short(float(v), digits) for v in values]


def between_blocks(sums: Floats) -> MeanGradientSquare:
    """Squared norm of the mean from means of blocks (B, D): products of different blocks, with a jackknife."""
    gram = sums @ sums.T
    return mean_gradient_square(gram, np.diag(gram).copy(), np.ones(len(sums)))


@lru_cache(maxsize=8)
def mean_gradients(start: str, world: World, work: Path) -> Numbers:
    """``|E ghat|**2`` of each estimator and size, its cosine with the gradient of the mean pass rate, and moments.

    The world without its tail: free tokens change neither pass rates nor their gradients.
    """
    model = start_policy(start, work)
    prompts = source(model, world).rest
    named = [("rloo", 2), *((name, size) for name in ("std", "maxrl") for size in SIZES)]
    blocks: list[Floats] = []
    squares, rates = [], []
    for part in prompts.chunk(BLOCKS):
        gradients = rate_gradients(model, world, part)
        norms = gradients.square().sum(1).double().numpy()
        answers_rate = _rates(model, world, part)
        weights = np.stack([pulls(answers_rate, size, name) for name, size in named])
        blocks.append((torch.from_numpy(weights).float() @ gradients / len(part)).numpy())
        squares.append(norms)
        rates.append(answers_rate)
    stack = np.stack(blocks).astype(np.float64)  # (B, K, D)
    plain = stack[:, 0]
    other = plain.sum(0) - plain  # sum of the other blocks
    base = between_blocks(plain)
    found: Numbers = {}
    for index, (name, size) in enumerate(named):
        square = between_blocks(stack[:, index])
        across = float((stack[:, index] * other).sum() / (BLOCKS * (BLOCKS - 1)))
        found.setdefault(name, {})[str(size)] = {
            "value": short(square.value), "se": short(square.standard_error),
            "cosine": short(across / (square.value * base.value) ** 0.5) if min(square.value, base.value) > 0 else None,
        }  # fmt: skip
    p = np.concatenate(rates)
    return {
        "prompts": len(p), "square": short(float(np.concatenate(squares).mean())),
        "pq": short(float((p * (1 - p)).mean())), "by_estimator": found,
    }  # fmt: skip


def _rates(model: Decoder, world: World, prompts: torch.Tensor) -> Floats:
    found: Floats = pass_rates(model, world.task, prompts, world.temperature).numpy()
    return found


def probe_of(made: Bank) -> gp.KappaMeasurement:
    """The two-size probe on the first chunk: 256 prompts x 16 rollouts, as `gp.GradientProbe` measures them."""
    reward = made.rewards[:CHUNK, :PROBE_ROLLOUTS]
    norms = subgroup_squared_norms(
        made.gram[:CHUNK, :PROBE_ROLLOUTS, :PROBE_ROLLOUTS].astype(np.float64), reward, PROBE_SIZES
    )
    sums = made.probe_sums.astype(np.float64)
    signal = mean_gradient_square(sums @ sums.T, made.probe_squares, np.full(BLOCKS, CHUNK / BLOCKS))
    return gp.measure_kappa(
        {size: np.maximum(norms[:, i], 0.0) for i, size in enumerate(PROBE_SIZES)},
        rewards=reward,
        mean_gradient_square=signal,
    )


def _measured(m: Any) -> Numbers | None:
    return None if m is None else {"value": short(m.value), "low": short(m.low), "high": short(m.high)}


def _with_error(m: MeanGradientSquare | None) -> list[float | None] | None:
    return None if m is None else [short(m.value), short(m.standard_error)]


def pilot_of(model: Decoder, world: World) -> gp.Pilot:
    """500 prompts x 8 rollouts, drawn apart from all others."""
    generator = torch.Generator().manual_seed(SEED + 3)
    if world.pool == "all":
        prompts = draw(PILOT[0], generator)
    else:
        pool = source(model, world).law
        prompts = pool[torch.randperm(len(pool), generator=generator)[: PILOT[0]]]
    rollouts = sample(model, prompts, PILOT[1], world.tail, world.temperature, generator)
    passes = rewards(world.task, prompts, rollouts).sum(1).long().tolist()
    return gp.Pilot.from_counts(passes, PILOT[1])


def planned(fit: gp.PassRateFit, value: Any, coherence: float = 0.0) -> Numbers:
    """What `gp.plan_group_size` says at 512 rollouts a step."""
    budget = gp.Budget(rollouts=ROLLOUTS * STEPS, steps=STEPS)
    plan = gp.plan_group_size(
        fit, budget=budget, estimator="dr_grpo", kappa=value, group_sizes=SIZES, coherence=coherence
    )
    return {
        "pick": plan.recommended.design.group_size, "flat": list(plan.flat_range),
        "kappa": [short(plan.kappa.low), short(plan.kappa.value), short(plan.kappa.high)],
        "answers": [
            {
                "kappa": short(a.kappa), "best": a.group_size, "flat": [a.flat_low, a.flat_high],
                "two_stage": short(a.two_stage),
                "progress": {str(p.design.group_size): short(plan.progress_at(p, a.kappa), 4) for p in plan.frontier},
            }
            for a in plan.sensitivity
        ],
        "noise_to_signal": {str(p.design.group_size): _measured(p.noise_to_signal) for p in plan.frontier},
    }  # fmt: skip


def _against_exact(made: Bank) -> Numbers:
    """RLOO's mean squared norms over all sub-groups of the 64 rollouts, with the standard error of what they miss."""
    norms = subgroup_squared_norms(made.gram.astype(np.float64), made.rewards, SIZES)
    exact = np.stack([group_squares(made.prompts, size) for size in SIZES], 1)
    errors = (norms - exact).std(0, ddof=1) / len(norms) ** 0.5
    return {str(size): [short(float(norms[:, i].mean())), short(float(errors[i]))] for i, size in enumerate(SIZES)}


def world_of(name: str, work: Path, prompts: int) -> Numbers:
    """Everything of one world."""
    start, world = WORLDS[name]
    model = start_policy(start, work)
    made = bank(name, work, prompts)
    exact, pq_law = made.prompts, law(model, world)
    spread = pq_law * (1 - pq_law)
    means = mean_gradients(start, replace(world, tail=0), work)
    signal = means["by_estimator"]["rloo"]["2"]
    probe = probe_of(made)
    squares: Numbers = {}
    noise: Numbers = {}
    for estimator in ESTIMATORS:
        for size in SIZES:
            each = group_squares(exact, size, estimator)
            of_mean = means["by_estimator"][estimator][str(size)]["value"] if estimator in ("std", "maxrl") else (
                signal["value"] * {"rloo": 1.0, "mean": ((size - 1) / size) ** 2, "sign": 4.0}[estimator]
            )  # fmt: skip
            squares.setdefault(estimator, {})[str(size)] = short(float(each.mean()))
            noise.setdefault(estimator, {})[str(size)] = short(
                noise_to_signal(float(each.mean()), of_mean, round(ROLLOUTS / size))
            )
    unit = made.unit_sums.astype(np.float64)
    per_block = CHUNK / BLOCKS
    cosine = mean_gradient_square(unit @ unit.T, np.full(len(unit), per_block), np.full(len(unit), per_block))
    model_kappa, (probe_kappa, best) = kappa(exact), two_size_kappa(exact)
    h2 = exact.square.mean() / (exact.spread**2).mean()
    rho = max(signal["value"] / (h2 * exact.spread.mean() ** 2), 0.0)
    fit = gp.fit_pass_rates(pilot_of(model, world))
    return {
        "prompts": {
            "rate": _shorts(exact.rate, 6), "square": _shorts(exact.square), "after_pass": _shorts(exact.after_pass),
            "after_fail": _shorts(exact.after_fail),
        },
        "unseen_fails": made.unseen,
        "law": {
            "prompts": len(pq_law), "mean": short(float(pq_law.mean())), "pq": short(float(spread.mean())),
            "ppqq": short(float((spread**2).mean())),
        },
        "kappa": {"model": short(model_kappa), "two_size": short(probe_kappa), "best": short(best)},
        "coherence": {
            "cosine": short(cosine.value), "cosine_se": short(cosine.standard_error), "rho": short(rho),
        },
        "mean_gradient": means,
        "squares": squares,
        "squares_by_rollouts": _against_exact(made),
        "noise_to_signal": noise,
        "probe": {
            "prompts": probe.prompts, "rollouts": PROBE_ROLLOUTS, "live": probe.live_prompts,
            "status": [s.name for s in probe.statuses], "kappa": _measured(probe.kappa),
            "best": _measured(probe.group_size()), "mean_gradient": _with_error(probe.mean_gradient_square),
            "norms": {str(s): _shorts(probe.squared_norms[:, i]) for i, s in enumerate(PROBE_SIZES)},
            "passes": counts(made.rewards[:CHUNK, :PROBE_ROLLOUTS]).tolist(),
        },
        "planner": {
            "two_size": planned(fit, max(probe_kappa, 0.0), rho), "model": planned(fit, max(model_kappa, 0.0), rho),
            "probe": planned(fit, probe), "default": planned(fit, (1.0, 300.0)),
        },
    }  # fmt: skip


def main() -> None:
    """Measure the worlds named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--prompts", type=int, default=512, help="of the bank, a multiple of 256")
    parser.add_argument("--only", nargs="*", default=list(PLACES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "gradients.json"
    path.parent.mkdir(exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {"worlds": {}}
    found["settings"] = {
        "rollouts": ROLLOUTS, "sizes": list(SIZES), "probe_sizes": list(PROBE_SIZES), "blocks": BLOCKS,
        "pilot": list(PILOT), "seed": SEED,
    }  # fmt: skip
    for name in options.only:
        found["worlds"][name] = world_of(name, options.work, options.prompts)
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(name, found["worlds"][name]["kappa"], file=sys.stderr)


if __name__ == "__main__":
    main()
