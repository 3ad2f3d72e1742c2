"""Blocks read and checked by the trainers' own code, where a trainer is installed: its parser and checks, nothing else.

The statements are taken out of the installed files, since importing them would need the trainers' whole stack.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import shlex
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_plan.costs import Design
from grpo_plan.trainers._batches import ESTIMATORS
from grpo_plan.trainers.base import Hardware, Recipe, Refilling
from grpo_plan.trainers.openrlhf import TRAINER as OPENRLHF
from grpo_plan.trainers.skyrl import TRAINER as SKYRL
from grpo_plan.trainers.tinker import TRAINER as TINKER
from grpo_plan.trainers.verl import TRAINER as VERL

DESIGNS = [
    (Design(group_size=g, prompts_per_step=p, steps=20), Hardware(gpus=gpus, micro_batch=micro))
    for g, p, gpus, micro in [
        (8, 64, 8, 4),
        (8, 64, 8, None),
        (5, 16, 8, 2),
        (6, 7, 4, None),
        (3, 33, 8, 1),
        (1, 8, 1, 1),
    ]
]


def installed(package: str) -> Path:
    """Folder of a package that is installed; skips the test where it is not. Nothing is imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent


def definition(path: Path, name: str) -> ast.FunctionDef | ast.ClassDef:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return next(n for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name)


def run(statements: Sequence[ast.stmt], names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(ast.Module(body=list(statements), type_ignores=[]), "trainer", "exec"), names)
    return names


def recipes(design: Design) -> list[Recipe]:
    refills = (None, Refilling(batch_multiplier=1.5, max_rounds=3))
    return [
        Recipe(design=design, estimator=e, temperature=0.8, max_response_tokens=512, refill=r)
        for e in ESTIMATORS
        for r in refills
    ]


def words_of(text: str) -> list[str]:
    return [word for word in shlex.split(text, comments=True) if word.strip()][3:]


def openrlhf_reads(folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """OpenRLHF's own parser and checks on these flags: all statements of its command but the training itself."""
    path = folder / "cli" / "train_ppo_ray.py"
    command = ast.parse(path.read_text(encoding="utf-8")).body[-1]
    assert isinstance(command, ast.If)
    kept = [n for n in command.body if not isinstance(n, ast.ImportFrom) and ast.unparse(n) != "train(args)"]
    assert len(kept) < len(command.body)
    names: dict[str, Any] = run(ast.parse("import argparse, os, sys\nfrom datetime import datetime").body, {})
    config = folder / "utils" / "config.py"
    if config.exists():
        run(ast.parse(config.read_text(encoding="utf-8")).body, names)
    monkeypatch.setattr("sys.argv", ["train_ppo_ray", *words])
    return run(kept, names)["args"]


@pytest.mark.parametrize(("design", "hardware"), DESIGNS)
def test_openrlhf_parses_and_accepts_its_block(
    design: Design, hardware: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed("openrlhf")
    version = installed_version("openrlhf")
    for recipe in recipes(design):
        block = OPENRLHF.block(recipe, hardware, version)
        dotted = "rollout.batch_size" in block.settings
        gpus, remote = (
            ("actor.num_gpus_per_node", "reward.remote_url") if dotted else ("actor_num_gpus_per_node", "remote_rm_url")
        )
        extra = [f"--{gpus}", str(hardware.gpus), f"--{remote}", "http://localhost"]
        if not all(check.satisfied for check in block.checks):
            if design.group_size == 1 and recipe.estimator != "dr_grpo":  # before 0.11 it was not refused
                with pytest.raises(AssertionError, match="n_samples_per_prompt"):
                    openrlhf_reads(folder, [*words_of(block.text), *extra], monkeypatch)
            continue
        read = openrlhf_reads(folder, [*words_of(block.text), *extra], monkeypatch)
        for key, value in block.settings.items():
            found = read
            for part in key.split("."):
                found = getattr(found, part)
            assert found == (list(value) if isinstance(value, tuple) else value), key


def verl_checks(folder: Path, config: Any) -> None:
    """verl's own checks of batches on a composed configuration, without its classes."""
    from omegaconf import DictConfig, OmegaConf

    actor = definition(folder / "workers" / "config" / "actor.py", "ActorConfig")
    assert isinstance(actor, ast.ClassDef)
    body = [n for n in actor.body if isinstance(n, ast.FunctionDef) and n.name in ("__post_init__", "validate")]
    names = run(body, {"MISSING": "???", "HFModelConfig": object})

    def as_actor(given: Any) -> Any:
        actor_config = SimpleNamespace(**OmegaConf.to_container(given, resolve=True))
        names["__post_init__"](actor_config)
        return SimpleNamespace(validate=lambda *args: names["validate"](actor_config, *args))

    checks = definition(folder / "utils" / "config.py", "validate_config")
    known = {"DictConfig": DictConfig, "omega_conf_to_dataclass": as_actor, "_validate_router_replay_config": print}
    run([checks], known)["validate_config"](config, False, False)


@pytest.mark.slow
@pytest.mark.parametrize(("design", "hardware"), DESIGNS)
def test_verl_composes_and_accepts_its_block(design: Design, hardware: Hardware) -> None:
    folder = installed("verl")
    hydra = pytest.importorskip("hydra")
    version = installed_version("verl")
    chosen = recipes(design) if design is DESIGNS[0][0] else recipes(design)[:2]  # composing takes a second
    for recipe in chosen:
        block = VERL.block(recipe, hardware, version)
        words = words_of(block.text)
        if "recipe.dapo" in block.text:  # the recipe's own configuration adds these keys, and is not in the package
            words = [word for word in words if "filter_groups" not in word and "gen_batch_size" not in word]
        with hydra.initialize_config_dir(config_dir=str(folder / "trainer" / "config"), version_base=None):
            config = hydra.compose("ppo_trainer", [*words, f"trainer.n_gpus_per_node={hardware.gpus}"])
        for word in words:
            key, value = word.split("=")
            found = config
            for part in key.split("."):
                found = found[part]
            assert str(found) == value, key
        divisible = design.rollouts_per_step % hardware.gpus == 0
        if divisible:
            verl_checks(folder, config)
        else:
            assert not all(check.satisfied for check in block.checks)
            with pytest.raises(AssertionError, match="must be divisible by minimal possible batch size"):
                verl_checks(folder, config)


@pytest.mark.parametrize(("design", "hardware"), DESIGNS)
def test_skyrl_accepts_its_block(design: Design, hardware: Hardware) -> None:
    folder = installed("skyrl")
    classes = {
        node.name: {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
        for node in ast.parse((folder / "train/config/config.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    homes = {
        "trainer": "TrainerConfig",
        "trainer.algorithm": "AlgorithmConfig",
        "trainer.algorithm.dynamic_sampling": "DynamicSamplingConfig",
        "generator": "GeneratorConfig",
        "generator.sampling_params": "SamplingParams",
    }
    check = run(
        [definition(folder / "train/utils/utils.py", "validate_batch_sizes")],
        {"math": math, "SkyRLTrainConfig": object},
    )
    for recipe in recipes(design):
        block = SKYRL.block(recipe, hardware, None)
        for key in block.settings:
            home, name = key.rsplit(".", 1)
            assert name in classes[homes[home]], key
        values = {key.replace("trainer.", "", 1): value for key, value in block.settings.items()}
        trainer = SimpleNamespace(
            **{key: value for key, value in values.items() if "." not in key},
            critic=SimpleNamespace(model=SimpleNamespace(path=None), sequence_parallel_size=1),
            policy=SimpleNamespace(sequence_parallel_size=1),
            ref=SimpleNamespace(sequence_parallel_size=1),
            strategy="fsdp",
            algorithm=SimpleNamespace(use_kl_loss=True, use_kl_in_reward=False),
            placement=SimpleNamespace(
                **{
                    f"{role}_num_{unit}": n
                    for role in ("policy", "critic", "ref")
                    for unit, n in (("nodes", 1), ("gpus_per_node", hardware.gpus))
                }
            ),
        )
        generator = SimpleNamespace(n_samples_per_prompt=design.group_size)
        if all(rule.satisfied for rule in block.checks):
            check["validate_batch_sizes"](SimpleNamespace(trainer=trainer, generator=generator))


def test_tinker_has_the_fields_of_its_block() -> None:
    folder = installed("tinker_cookbook")
    path = folder / "rl" / "train.py"

    def fields(name: str) -> set[str]:
        body = definition(path, name).body
        return {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}

    for recipe in recipes(DESIGNS[0][0]):
        text = TINKER.block(recipe, Hardware(), None).text
        dictionaries = {
            n.targets[0].id: set(ast.literal_eval(n.value))
            for n in ast.parse(text).body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
        }
        assert dictionaries["config"] <= fields("Config")
        assert dictionaries.get("async_config", set()) <= fields("AsyncConfig")
        builder = definition(folder / "recipes/math_rl/math_env.py", "get_math_dataset_builder")
        assert isinstance(builder, ast.FunctionDef)
        assert dictionaries["dataset"] <= {argument.arg for argument in builder.args.args}
    assert re.match(r"0\.[6-9]|[1-9]", installed_version("tinker-cookbook"))
