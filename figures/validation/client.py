"""The same task through TRL: ``python -m figures.validation.client --work DIR``; about 8 minutes on one core.

For each seed one run of TRL's GRPOTrainer, with the callback and the probe, and one of the plain loop
(`figures.validation.training`), on the same prompts in the same order, from the same weights. Before them a pilot and a
plan. Stop it and start it again: runs that are done are kept in ``DIR``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from torch import Tensor

import grpo_plan as gp
from figures.validation.client_exact import exact_gradients
from figures.validation.client_policy import END, Hosted, as_text, as_tokens, tokenizer
from figures.validation.model import Decoder
from figures.validation.policy import pass_rates, sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.tasks import SUM, draw, rewards, right_answers
from figures.validation.training import Recipe, World, pools, train

RESULTS = Path(__file__).parent / "results" / "client.json"
GROUP, PROMPTS, RATE, WARM_UP, STEPS, EVERY = 8, 64, 5e-4, 20, 80, 10
SEEDS = (0, 1, 2, 3, 4, 5)
PROBED = 128  # prompts of each probe
LONGEST = 8  # tokens of a completion; none has more than six
PILOT = (500, 8)
PILOT_SEED, EXACT_SEED = 31, 56
EXACT_PROMPTS = {"start": 900, "end": 200}


@dataclass(frozen=True)
class Setting:
    """What both loops are told."""

    seed: int
    steps: int = STEPS
    group: int = GROUP
    prompts: int = PROMPTS
    rate: float = RATE
    warm_up: int = WARM_UP

    @property
    def asked(self) -> Tensor:
        """Prompts of all steps (steps x prompts, 10), those that the plain loop draws with this seed."""
        generator = torch.Generator().manual_seed(5000 + self.seed)
        return torch.cat([draw(self.prompts, generator) for _ in range(self.steps)])


def dead_rate(p: Tensor, group: int) -> Tensor:
    """Chance that a group is dead, at exact pass rates."""
    return p**group + (1 - p) ** group


class Notes:
    """What is known exactly at each step of a run of TRL, written down as it trains."""

    def __init__(self, policy: Hosted, setting: Setting) -> None:
        self._policy, self._setting = policy, setting
        self._held_out = pools(policy.decoder, World(SUM)).held_out
        self.steps: dict[str, list[float]] = {name: [] for name in ("counted", "expected", "variance")}
        self.looks: dict[str, list[float]] = {name: [] for name in ("pass_rate", "exact_dead", "exact_all_pass")}

    def reward(self, prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        """1 for the right answer and then the end."""
        asked = as_tokens(prompts)
        right = right_answers(SUM, asked)[0][:, 0].tolist()
        given = [float(ids == [*answer, END]) for ids, answer in zip(completion_ids, right, strict=True)]
        if len(given) == self._setting.group * self._setting.prompts:  # a step, not a probe
            self._note(asked[:: self._setting.group], given)
        return given

    def _note(self, asked: Tensor, given: list[float]) -> None:
        """Dead groups of this step, and how many the policy of now should have on just these prompts."""
        passes = torch.tensor(given).view(-1, self._setting.group).sum(1)
        dead = dead_rate(pass_rates(self._policy.decoder, SUM, asked, 1.0), self._setting.group)
        self.steps["counted"].append(int(((passes == 0) | (passes == self._setting.group)).sum()))
        self.steps["expected"].append(round(dead.sum().item(), 4))
        self.steps["variance"].append(round((dead * (1 - dead)).sum().item(), 4))

    def look(self) -> None:
        """The policy of now on held-out prompts."""
        p = pass_rates(self._policy.decoder, SUM, self._held_out, 1.0)
        self.looks["pass_rate"].append(p.mean().item())
        self.looks["exact_dead"].append(dead_rate(p, self._setting.group).mean().item())
        self.looks["exact_all_pass"].append((p**self._setting.group).mean().item())


def looking(notes: Notes) -> Any:
    """A callback that looks every ten steps and at the end."""
    from transformers import TrainerCallback

    class Looking(TrainerCallback):  # type: ignore[misc]
        """Looks."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Before a step."""
            if state.global_step % EVERY == 0:
                notes.look()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """After the last."""
            notes.look()

    return Looking()


def make_trainer(
    policy: Hosted, setting: Setting, reward: Callable[..., Any], folder: Path, callbacks: list[Any]
) -> Any:
    """TRL's trainer with the settings of the plain loop: its optimizer, its warm-up, no clipping of gradients."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=str(folder), max_steps=setting.steps, num_generations=setting.group,
        per_device_train_batch_size=setting.group * setting.prompts, gradient_accumulation_steps=1,
        max_completion_length=LONGEST, temperature=1.0, loss_type="dr_grpo", scale_rewards="none", beta=0.0,
        max_grad_norm=0.0, shuffle_dataset=False, seed=setting.seed, generation_kwargs={"use_cache": False},
        use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no",
        logging_steps=1, log_completions=True, num_completions_to_print=1, disable_tqdm=True,
    )  # fmt: skip
    optimizer = torch.optim.Adam(policy.parameters(), setting.rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / setting.warm_up))
    return GRPOTrainer(
        model=policy, reward_funcs=reward, args=arguments, processing_class=tokenizer(), callbacks=callbacks,
        train_dataset=Dataset.from_list([{"prompt": text} for text in as_text(setting.asked)]),
        optimizers=(optimizer, schedule),
    )  # fmt: skip


def probed(m: Any) -> dict[str, Any]:
    """What a measurement says, with its limits."""
    found = {"kappa": m.kappa, "group_size": m.group_size()}
    numbers = {name: [x.value, x.low, x.high] for name, x in found.items() if x is not None}
    return {**numbers, "status": m.status.name, "prompts": m.prompts, "live": m.live_prompts}


def said(arguments: list[str]) -> tuple[int, Any]:
    """Status and answer of a command of grpo-plan, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan", *arguments, "--json"], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return done.returncode, json.loads(done.stdout)


def make_plan(decoder: Decoder, folder: Path) -> dict[str, Any]:
    """A pilot of the starting policy as a file, and the plan that the command makes of it."""
    prompts, rollouts = PILOT
    generator = torch.Generator().manual_seed(PILOT_SEED)
    asked = draw(prompts, generator)
    passes = rewards(SUM, asked, sample(decoder, asked, rollouts, 0, 1.0, generator)).sum(1).long()
    lines = [{"prompt_id": i, "successes": k, "rollouts": rollouts} for i, k in enumerate(passes.tolist())]
    pilot = folder / "pilot.jsonl"
    pilot.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ["--rollouts-per-step", str(GROUP * PROMPTS), "--steps", str(STEPS), "--estimator", "dr_grpo"]
    _, plan = said(["plan", str(pilot), *options, "--trainer", "trl", "--group-sizes", "2,4,8,16,32"])
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    planned = next(row for row in plan["frontier"] if row["group_size"] == GROUP)
    return {
        "pilot_counts": torch.bincount(passes, minlength=rollouts + 1).tolist(),
        "recommended": plan["recommended"]["group_size"],
        "planned": {k: planned[k] for k in ("group_size", "prompts_per_step", "dead")},
        "mixed_groups": planned["effective_batch"]["mixed_groups"],
    }


def through_trl(decoder: Decoder, setting: Setting, folder: Path, plan: Path) -> dict[str, Any]:
    """One run of TRL, watched; the probe before it and after it; the command on its log and rollouts."""
    from grpo_plan.trl import GrpoPlanCallback

    policy = Hosted(decoder)
    notes = Notes(policy, setting)
    watching = GrpoPlanCallback(plan=plan)
    trainer = make_trainer(policy, setting, notes.reward, folder, [watching, looking(notes)])
    measuring = gp.kappa_callback(trainer, prompts=PROBED, seed=setting.seed, path=folder / "kappa.json")
    trainer.add_callback(measuring)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        trainer.train()
    after = gp.probe_trainer(trainer, prompts=PROBED, seed=100 + setting.seed)
    trainer.save_state()
    rows = [row for row in trainer.state.log_history if "grpo_plan/dead_fraction" in row]
    kept = {
        "dead": "grpo_plan/dead_fraction", "all_pass": "grpo_plan/all_pass_fraction",
        "trl_dead": "frac_reward_zero_std", "reward": "reward", "evidence": "grpo_plan/evidence_against_plan",
        "clipped": "completions/clipped_ratio",
    }  # fmt: skip
    status, diagnosis = said(
        ["diagnose", str(folder), "--plan", str(plan), "--group-size", str(GROUP), "--prompts-per-step", str(PROMPTS)]
    )
    standing = [[name, severity.value] for name, severity in watching.monitor.standing.items()]
    return {
        **{name: [round(row[key], 6) for row in rows] for name, key in kept.items()},
        **notes.steps,
        **notes.looks,
        "probe_start": probed(measuring.measurement),
        "probe_end": probed(after),
        "exact_end": asdict(exact_gradients(policy.decoder, EXACT_PROMPTS["end"], EXACT_SEED)),
        "diagnose_status": status,
        "verdict": diagnosis["verdict"],
        "findings": [{k: f.get(k) for k in ("id", "severity", "says")} for f in diagnosis["findings"]],
        "standing": standing,
    }


def through_the_plain_loop(decoder: Decoder, setting: Setting) -> dict[str, Any]:
    """One run of the loop that the rest of the study uses."""
    recipe = Recipe(
        setting.group, setting.prompts, setting.rate, setting.seed, steps=setting.steps, warm_up=setting.warm_up
    )
    course = train(decoder, World(SUM), recipe, every=EVERY)
    p = pass_rates(decoder, SUM, pools(decoder, World(SUM)).held_out, 1.0)
    return {
        "pass_rate": course.pass_rate,
        "dead_by_ten": course.dead,
        "all_pass_by_ten": course.all_pass,
        "exact_dead_end": dead_rate(p, setting.group).mean().item(),
        "exact_end": asdict(exact_gradients(decoder, EXACT_PROMPTS["end"], EXACT_SEED)),
    }


def one_seed(seed: int, work: Path) -> dict[str, Any]:
    """Both loops with one seed."""
    folder, setting = work / f"client-{seed}", Setting(seed)
    folder.mkdir(parents=True, exist_ok=True)
    plan = work / "plan.json"
    loops = {
        "trl": lambda: through_trl(start_policy("sum", work), setting, folder, plan),
        "plain": lambda: through_the_plain_loop(start_policy("sum", work), setting),
    }
    return {"seed": seed, **{name: once(work / f"client-{seed}-{name}.json", loop) for name, loop in loops.items()}}


def at_start(work: Path) -> dict[str, Any]:
    """The starting policy: pass rates, exact gradients, the pilot's plan."""
    decoder = start_policy("sum", work)
    p = pass_rates(decoder, SUM, draw(20000, torch.Generator().manual_seed(7)), 1.0)
    return {
        "pass_rate": p.mean().item(),
        "exact_dead": dead_rate(p, GROUP).mean().item(),
        "exact": asdict(exact_gradients(decoder, EXACT_PROMPTS["start"], EXACT_SEED)),
        **make_plan(decoder, work),
    }  # fmt: skip


def once(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the file holds, or what is made and then written to it."""
    if not path.exists():
        began = time.process_time()
        path.write_text(json.dumps(make()), encoding="utf-8")
        print(f"{path.name}: {time.process_time() - began:.0f} s of CPU time", file=sys.stderr)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def short(value: Any) -> Any:
    """The same with floats of five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: short(v) for k, v in value.items()}
    return [short(v) for v in value] if isinstance(value, list | tuple) else value


def main() -> None:
    """Measure what is missing, and write the results."""
    import transformers
    import trl

    from figures.validation.client_replay import REPLAYED, replayed

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    start = once(work / "client-start.json", lambda: at_start(work))
    same = once(
        work / "client-replayed.json",
        lambda: replayed(start_policy("sum", work), Setting(0, steps=REPLAYED), work / "client-replayed"),
    )
    setting = {**asdict(Setting(0)), "pilot": PILOT, "every": EVERY, "longest": LONGEST, "trl": trl.__version__}
    setting["transformers"] = transformers.__version__
    results = {
        "setting": setting,
        **start,
        "replayed": same,
        "seeds": [one_seed(seed, work) for seed in options.seeds],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(short(results), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
