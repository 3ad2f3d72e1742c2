"""Rows of a log under the names of a trainer, from groups and the noise around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from figures.scenarios.base import Row
from figures.scenarios.draws import Floats, Groups, Ints, wobble

MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a log says besides rewards, one value a step, shape (S,)."""

    entropy: Floats
    tokens: Floats
    longest: Floats
    cut: Floats
    kl: Floats
    grad_norm: Floats
    step_time: Floats
    clip: Floats


def beside(
    rng: Generator,
    steps: int,
    *,
    entropy: tuple[float, float] = (0.62, 0.45),
    tokens: tuple[float, float] = (380.0, 430.0),
    cut: tuple[float, float] = (0.02, 0.02),
    jitter: float = 0.05,
    gradient: Floats | float = 1.0,
) -> Beside:
    """Plausible noise; each pair is the value at the start and at the end, ``jitter`` that of the step times."""

    def line(ends: tuple[float, float], noise: float) -> Floats:
        found: Floats = np.linspace(*ends, steps) * np.exp(wobble(rng, steps, noise, 0.8))
        return found

    lengths = line(tokens, 0.03)
    seconds = 31.0 * (lengths / lengths[0]) ** 0.7 * rng.lognormal(0.0, jitter, steps)
    return Beside(
        entropy=line(entropy, 0.04),
        tokens=lengths,
        longest=np.minimum(MAX_TOKENS, lengths * rng.uniform(1.8, 3.0, steps)).round(),
        cut=np.clip(line(cut, 0.2), 0.0, 1.0),
        kl=np.linspace(1e-4, 0.03, steps) * rng.lognormal(0.0, 0.1, steps),
        grad_norm=0.2 * gradient * rng.lognormal(0.0, 0.15, steps),
        step_time=seconds,
        clip=np.clip(0.004 * rng.lognormal(0.0, 0.3, steps), 0.0, 1.0),
    )


Columns = dict[str, Floats]


def _ends(groups: Groups) -> tuple[Floats, Floats]:
    return np.nanmin(groups.low, axis=1), np.nanmax(groups.high, axis=1)


def _advantage_ends(groups: Groups) -> tuple[Floats, Floats]:
    std = np.nan_to_num(groups.std)
    high = np.nan_to_num((groups.high - groups.mean) / (std + 1e-6)).max(axis=1)
    low = np.nan_to_num((groups.low - groups.mean) / (std + 1e-6)).min(axis=1)
    return np.where(np.abs(high) < 1e-9, 0.0, high), np.where(np.abs(low) < 1e-9, 0.0, low)


def trl(groups: Groups, more: Beside, scale: str = "group") -> Columns:
    """Names of TRL 1.16."""
    mean, std = groups.reward()
    zero = groups.share(groups.equal) if scale != "batch" else (np.nan_to_num(std) <= 1e-8).astype(float)
    return {
        "loss": 1e-3 * more.kl, "grad_norm": more.grad_norm, "learning_rate": np.full(groups.steps, 1e-6),
        "completions/mean_length": more.tokens, "completions/max_length": more.longest,
        "completions/clipped_ratio": more.cut, "rewards/correct/mean": mean, "rewards/correct/std": std,
        "reward": mean, "reward_std": std, "frac_reward_zero_std": zero, "entropy": more.entropy,
        "clip_ratio/region_mean": more.clip, "step_time": more.step_time,
        "num_tokens": np.cumsum(more.tokens * groups.per_step * groups.size),
    }  # fmt: skip


def ms_swift(groups: Groups, more: Beside) -> Columns:
    """Names of ms-swift 4.6: those of TRL, with the mean of the groups' own standard deviations."""
    out = trl(groups, more)
    out["reward_std"] = np.nan_to_num(groups.std).mean(axis=1)
    del out["num_tokens"]
    return {**out, "memory(GiB)": np.full(groups.steps, 61.2), "train_speed(iter/s)": 1.0 / more.step_time}


def verl(groups: Groups, more: Beside) -> Columns:
    """Names of verl 0.9."""
    mean, _ = groups.reward()
    low, high = _ends(groups)
    least, most = _advantage_ends(groups)[::-1]
    rewards = {"mean": mean, "max": high, "min": low}
    return {
        **{f"critic/score/{k}": v for k, v in rewards.items()},
        **{f"critic/rewards/{k}": v for k, v in rewards.items()},
        "critic/advantages/mean": np.zeros(groups.steps), "critic/advantages/max": most,
        "critic/advantages/min": least, "response_length/mean": more.tokens, "response_length/max": more.longest,
        "response_length/clip_ratio": more.cut, "actor/entropy": more.entropy, "actor/grad_norm": more.grad_norm,
        "actor/pg_clipfrac": more.clip, "actor/ppo_kl": more.kl, "timing_s/step": more.step_time,
        "perf/total_num_tokens": more.tokens * groups.per_step * groups.size,
    }  # fmt: skip


def tinker(groups: Groups, more: Beside) -> Columns:
    """Names of tinker-cookbook 0.6."""
    mean, _ = groups.reward()
    episodes = np.full(groups.steps, float(groups.per_step * groups.size))
    return {
        "env/all/reward/total": mean, "env/all/correct": groups.passes.sum(axis=1) / episodes,
        "env/all/by_group/frac_mixed": groups.share(~groups.dead),
        "env/all/by_group/frac_all_good": groups.share(groups.dead & (groups.mean >= 0.5)),
        "env/all/by_group/frac_all_bad": groups.share(groups.dead & (groups.mean < 0.5)),
        "env/all/total_episodes": episodes, "env/all/total_ac_tokens": np.round(more.tokens * episodes),
        "env/all/total_ob_tokens": 120.0 * episodes, "optim/entropy": more.entropy,
        "optim/kl_sample_train_v1": more.kl, "time/total": more.step_time,
    }  # fmt: skip


def openrlhf(groups: Groups, more: Beside) -> Columns:
    """Names of OpenRLHF 0.11 without filtering."""
    mean, std = groups.reward()
    return {
        "rollout/reward_mean": mean, "rollout/reward_std": std,
        "group_reward_std": np.nan_to_num(groups.std).mean(axis=1),
        "response_length": more.tokens, "rollout/truncated_rate": more.cut, "kl": more.kl,
        "entropy_loss": more.entropy, "actor_grad_norm": more.grad_norm, "timing/step_total": more.step_time,
    }  # fmt: skip


def prime_rl(groups: Groups, more: Beside) -> Columns:
    """Names of prime-rl 0.8; a rollout that failed counts as reward 0."""
    totals = np.where(groups.scored > 0, groups.scored * np.nan_to_num(groups.mean), 0.0)
    rollouts = groups.per_step * groups.size
    none, every = totals <= 1e-12, (groups.passes == groups.size) & (groups.scored == groups.size)
    agent = "train/agg/all/agent"
    return {
        f"{agent}/solved_none": groups.share(none), f"{agent}/solved_all": groups.share(every),
        f"{agent}/solved_some": groups.share(~none & ~every), f"{agent}/reward/mean": totals.sum(axis=1) / rollouts,
        f"{agent}/is_truncated/mean": more.cut,
        f"{agent}/has_error/mean": 1.0 - groups.scored.sum(axis=1) / rollouts, "entropy/mean": more.entropy,
        "optim/grad_norm": more.grad_norm, "perf/step_time": more.step_time,
    }  # fmt: skip


NAMED: Mapping[str, Callable[[Groups, Beside], Columns]] = {
    "trl": trl, "ms-swift": ms_swift, "verl": verl, "tinker": tinker, "openrlhf": openrlhf, "prime-rl": prime_rl,
}  # fmt: skip


def settings(tool: str, size: int, per_step: int, **more: object) -> dict[str, object]:
    """Settings under the keys of a trainer; further ones as given."""
    rollouts = size * per_step
    found: dict[str, dict[str, object]] = {
        "trl": {
            "num_generations": size, "generation_batch_size": rollouts, "scale_rewards": "group", "beta": 0.0,
            "trl_version": "1.16.0", "max_completion_length": MAX_TOKENS, "logging_steps": 1,
        },
        "ms-swift": {"num_generations": size, "generation_batch_size": rollouts, "beta": 0.0},
        "verl": {
            "data.train_batch_size": per_step, "actor_rollout_ref.rollout.n": size, "algorithm.adv_estimator": "grpo",
            "data.max_response_length": MAX_TOKENS,
        },
        "tinker": {"group_size": size, "groups_per_batch": per_step},
        "openrlhf": {
            "rollout.n_samples_per_prompt": size, "rollout.batch_size": per_step, "openrlhf_version": "0.11.2",
            "algo.advantage.estimator": "group_norm",
        },
        "prime-rl": {"orchestrator.batch_size": rollouts, "orchestrator.group_size": size},
    }  # fmt: skip
    return {**found[tool], **more}


def rows_of(columns: Columns, every: int = 1, steps: Ints | None = None) -> list[Row]:
    """One row a logging window of ``every`` steps, each metric the mean of its values there."""
    count = next(iter(columns.values())).size // every
    ends = np.arange(1, count + 1) * every if steps is None else steps
    means = {}
    for name, values in columns.items():
        blocks = values[: count * every].reshape(count, every)
        if name == "num_tokens":
            means[name] = blocks[:, -1]
            continue
        known = np.isfinite(blocks)
        total = np.where(known, blocks, 0.0).sum(axis=1)
        means[name] = np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)
    names = list(means)
    table = np.column_stack([means[name] for name in names]).tolist()
    return [
        {"step": int(step), **{k: v for k, v in zip(names, values, strict=True) if v == v}}
        for step, values in zip(ends.tolist(), table, strict=True)
    ]
