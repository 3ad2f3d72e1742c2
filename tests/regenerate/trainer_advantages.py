"""Advantages that the trainers' own functions give, as tests/data/trainer_advantages.json.

    python -m tests.regenerate.trainer_advantages SOURCES

SOURCES holds unpacked wheels in folders such as ``trl-1.5.0``, ``verl-0.9.1``, ``openrlhf-0.11.2``, ``ms_swift-4.6.0``
and ``tinker_cookbook-0.6.1``, and files of public repositories under ``published/OWNER/NAME/PATH``. Functions are taken
out of the files by name and run alone, so that only torch is needed. What is missing is left as it was. The published
functions that were recorded were copied out by hand, without the branches that do not run here (penalties, logging).
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "data" / "trainer_advantages.json"
Case = dict[str, Any]
Rows = list[dict[str, Any]]


def cases() -> dict[str, Case]:
    """Batches of groups: 0/1 with dead groups, real rewards, failed scoring, two functions, one rollout a group.

    ``tiny`` has spreads near every eps, in powers of 2 so that single precision is exact: it pins eps and its place.
    The small weights of ``two_light`` and ``two_dust`` do so for a whitening after a scaled step.
    """
    rng = np.random.default_rng(7)
    binary = (rng.random((6, 4)) < np.array([0, 1, 0.5, 0.25, 0.75, 0.5])[:, None]).astype(float)
    real = np.round(rng.normal(0, 2, (5, 8)), 2)
    real[1] = 0.25
    real[2] = np.round(-3 + rng.random(8), 2)
    two = np.stack([binary, np.round(0.5 * rng.random((6, 4)), 2)], axis=-1)
    two[1, :, 1] = 0.25
    lost = binary.copy()
    lost[2, 1] = lost[3, :3] = lost[4] = np.nan
    two_lost = two.copy()
    two_lost[2, 1] = two_lost[3, :3, 0] = two_lost[0, 2, 1] = two_lost[4, 0] = two_lost[5, 1:] = np.nan
    wide = np.array([[40.0, 0.0, 0.0, 0.0], [-30.0, 1.0, 2.0, 3.0], [5.0, 5.0, 5.0, 5.0]])
    tiny = np.array([[2.0**-14, 0, 0, 0], [0, 2.0**-20, 0, 2.0**-20], [2.0**-24, 0, 0, 0], [0.0, 0.0, 0.0, 0.0]])
    tables = {
        "binary": binary, "real": real, "two": two, "lost": lost, "two_lost": two_lost, "wide": wide,
        "single": np.array([[1.0], [0.0], [0.4]]), "pair": np.array([[1.0, 0.0], [0.0, 0.0], [0.2, 0.9]]),
        "equal": np.array([[0.3] * 8, [0.7] * 8]), "tiny": tiny, "two_tiny": np.stack([tiny, tiny[::-1]], axis=-1),
        "two_light": two, "two_dust": two,
    }  # fmt: skip
    scales = {"two_light": 2.0**-13, "two_dust": 2.0**-26}
    out: dict[str, Case] = {}
    for name, table in tables.items():
        lengths = rng.integers(1, 9, table.shape[:2])
        weights = [scales.get(name, 1.0), 0.5 * scales.get(name, 1.0)] if table.ndim == 3 else None
        out[name] = {"rewards": table, "lengths": lengths, "weights": weights}
    return out


def taken(path: Path, names: list[str], space: dict[str, Any]) -> dict[str, Any]:
    """Functions and methods (``Class.method``) of a file, run in a namespace without their decorators."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[ast.stmt] = [ast.ImportFrom(module="__future__", names=[ast.alias(name="annotations")], level=0)]
    for name in names:
        body: list[Any] = tree.body
        *classes, function = name.split(".")
        for owner in classes:
            body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner).body
        node = next(n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == function)
        node.decorator_list = []
        found.append(node)
    exec(compile(ast.fix_missing_locations(ast.Module(body=found, type_ignores=[])), str(path), "exec"), space)
    return space


def flat(case: Case) -> Any:
    """Rewards as torch, shape (N * G,) or (N * G, R)."""
    import torch

    table = case["rewards"]
    return torch.tensor(table.reshape(-1, *table.shape[2:]), dtype=torch.float32)


def per_token(values: Any, case: Case) -> tuple[Any, Any, Any]:
    """Rewards on the last token, the mask of the tokens, and the group of each rollout."""
    import torch

    lengths = torch.tensor(case["lengths"].reshape(-1))
    mask = (torch.arange(int(lengths.max()))[None] < lengths[:, None]).float()
    tokens = torch.zeros_like(mask)
    tokens[torch.arange(len(lengths)), lengths - 1] = values
    groups = np.repeat(np.arange(case["rewards"].shape[0]), case["rewards"].shape[1])
    return tokens, mask, groups


def one_each(advantages: Any, mask: Any, case: Case) -> Any:
    """The advantage of each rollout, which is the same for all its tokens."""
    values = np.array(advantages.tolist())
    for row, keep in zip(values, np.array(mask.tolist()) > 0, strict=True):
        assert np.allclose(row[keep], row[0], equal_nan=True), "tokens of a rollout differ"
    return values[:, 0].reshape(case["rewards"].shape[:2])


# TRL ----------------------------------------------------------------------------------------------------------------


def _has_advantages(node: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "advantages" for t in n.targets)
        for n in ast.walk(node)
    )


def trl_statements(path: Path) -> Any:
    """The statements from the rewards of each function to the advantages, as compiled code."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        for owner in ast.walk(function):
            body = getattr(owner, "body", None)
            if not isinstance(body, list) or not any(_has_advantages(s) for s in body):
                continue
            texts = [ast.unparse(s) for s in body]
            first = [i for i, t in enumerate(texts) if t.startswith("unscorable_mask =")] or [
                i for i, t in enumerate(texts)
                if "rewards_per_func" in t and "sum(dim=1)" in t and t.startswith(("rewards =", "if self."))
            ]  # fmt: skip
            last = [i for i, s in enumerate(body) if _has_advantages(s) and "process_slice" not in texts[i]]
            if first and last and first[0] <= last[-1]:
                part = body[first[0] : last[-1] + 1]
                return compile(ast.fix_missing_locations(ast.Module(body=part, type_ignores=[])), str(path), "exec")
    raise AssertionError(f"{path}: no statements that make advantages")


def trl(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    for folder in sorted(sources.glob("trl-*")):
        version = folder.name.removeprefix("trl-")
        since = tuple(int(part) for part in version.split(".")[:2])
        space: dict[str, Any] = {"torch": torch}
        if since >= (0, 27):
            taken(folder / "trl" / "trainer" / "utils.py", ["nanstd"], space)
        runs: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        if since < (0, 16):
            runs.append(("grpo", {"trainer_class": "GRPOTrainer"}, {}))
        elif since < (0, 22):
            runs += [("grpo", {"scale_rewards": s}, {"scale_rewards": s == "group"}) for s in ("group", "none")]
        else:
            for scale in ("group", "batch", "none"):
                runs.append(("grpo", {"scale_rewards": scale}, {"scale_rewards": scale}))
            runs += [
                ("rloo", {"trainer_class": "RLOOTrainer", "normalize_advantages": n}, {"normalize_advantages": n})
                for n in (False, True)
            ]
        if since >= (0, 27):
            key = "multi_objective_aggregation"
            runs.append(("grpo", {key: "normalize_then_sum"}, {key: "normalize_then_sum", "scale_rewards": "group"}))
        for kind, options, settings in runs:
            code = trl_statements(folder / "trl" / "trainer" / f"{kind}_trainer.py")
            for name, case in cases.items():
                size = case["rewards"].shape[1]
                single = size == 1 and since < (0, 27)
                if single or (case["weights"] is not None and since < (0, 15)):
                    continue
                table = flat(case)
                table = table[:, None] if table.dim() == 1 else table
                weights = torch.tensor(case["weights"] or [1.0] * table.shape[1])
                owner = SimpleNamespace(
                    reward_weights=weights, num_generations=size, reward_funcs=[None] * table.shape[1],
                    beta=0.0, reward_clip_range=None, **{"multi_objective_aggregation": "sum_then_normalize"} | settings,
                )  # fmt: skip
                owner.args = owner
                local = {
                    "self": owner, "rewards_per_func": table, "device": "cpu", "num_generations": size,
                    "mode": "train", **space,
                }  # fmt: skip
                exec(code, local)
                found = np.array(local["advantages"].tolist()).reshape(-1, size)
                yield row("trl", version, options, name, found)


# verl and OpenRLHF ---------------------------------------------------------------------------------------------------


def verl_functions(folder: Path) -> dict[str, Any]:
    import torch

    space: dict[str, Any] = {"torch": torch, "np": np, "defaultdict": defaultdict}
    helpers = ["masked_sum", "masked_mean", "masked_var", "masked_whiten"]
    tools = taken(folder / "verl/utils/torch_functional.py", helpers, {"torch": torch})
    space["verl_F"] = SimpleNamespace(**{name: tools[name] for name in helpers})
    groups = {"torch": torch, "np": np, "_resolve_device": lambda _: torch.device("cpu")}
    space["group_mean_std"] = taken(folder / "verl/utils/groupwise.py", ["group_mean_std"], groups)["group_mean_std"]
    space["as_torch_index"] = lambda index, device=None: torch.tensor(index)
    names = (
        "grpo grpo_vectorized gdpo grpo_passk reinforce_plus_plus_baseline rloo opo reinforce_plus_plus gpg "
        "rloo_vectorized"
    )
    return taken(
        folder / "verl/trainer/ppo/core_algos.py",
        [f"compute_{name}_outcome_advantage" for name in names.split()], space,
    )  # fmt: skip


def verl(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    version = "0.9.1"
    if not (sources / f"verl-{version}").is_dir():
        return
    space = verl_functions(sources / f"verl-{version}")
    settings: list[tuple[str, dict[str, Any]]] = [
        (name, {"adv_estimator": name} | extra)
        for name, extra in (
            ("grpo", {"norm_adv_by_std_in_grpo": True}), ("grpo", {"norm_adv_by_std_in_grpo": False}),
            ("grpo_vectorized", {}), ("rloo", {}), ("rloo_vectorized", {}), ("reinforce_plus_plus", {}),
            ("reinforce_plus_plus_baseline", {}), ("opo", {}), ("gpg", {}),
            ("grpo_passk", {"norm_adv_by_std_in_grpo": True}), ("grpo_passk", {"norm_adv_by_std_in_grpo": False}),
            ("gdpo", {}),
        )
    ]  # fmt: skip
    for name, options in settings:
        function = space[f"compute_{name}_outcome_advantage"]
        norm = options.get("norm_adv_by_std_in_grpo", True)
        for label, case in cases.items():
            many = case["rewards"].ndim == 3
            if (
                many != (name == "gdpo")
                or label == "two_lost"
                or (name == "grpo_passk" and label in ("single", "lost"))
            ):
                continue
            values = flat(case)
            tokens, mask, groups = per_token(values.sum(-1) if many else values, case)
            named: dict[str, Any] = {"token_level_rewards": tokens, "response_mask": mask, "index": groups}
            if name in ("reinforce_plus_plus", "grpo_passk"):
                config = SimpleNamespace(gamma=1.0, get=lambda key, default=None, norm=norm: norm)
                named |= {"config": config}
            elif name == "grpo":
                named |= {"norm_adv_by_std_in_grpo": norm}
            elif name == "gdpo":
                weights = case["weights"]
                config = SimpleNamespace(
                    get=lambda key, default=None, weights=weights: weights if "weights" in key else ["a", "b"]
                )
                prompt = torch.zeros(len(mask), 2)
                named |= {
                    "config": config, "non_tensor_batch": {"a": values[:, 0].numpy(), "b": values[:, 1].numpy()},
                    "batch": {"prompts": prompt, "attention_mask": torch.cat([prompt + 1, mask], 1).long()},
                }  # fmt: skip
            advantages, _ = function(**named)
            yield row("verl", version, options, label, one_each(advantages, mask, case))


def openrlhf(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    version = "0.11.2"
    found = next(iter((sources / f"openrlhf-{version}").rglob("experience_maker.py")), None)
    if found is None:
        return
    space: dict[str, Any] = {"torch": torch, "itertools": itertools, "apply_length_penalties": lambda *_: None}
    taken(found.parents[2] / "models" / "utils.py", ["compute_reward"], space)
    owner = next(
        n.name for n in ast.parse(found.read_text()).body
        if isinstance(n, ast.ClassDef) and any(getattr(m, "name", "") == "compute_advantages_and_returns" for m in n.body)
    )  # fmt: skip
    names = ["compute_advantages_and_returns", "get_cumulative_returns"]
    taken(found, [f"{owner}.{name}" for name in names], space)
    plain: list[dict[str, Any]] = [
        {"advantage_estimator": e} for e in ("group_norm", "dr_grpo", "rloo", "flash_reinforce")
    ]
    both: list[dict[str, Any]] = [
        {"advantage_estimator": e, "no_std_norm": n} for e in ("reinforce_baseline", "reinforce") for n in (False, True)
    ]
    for options in (*plain, *both):
        estimator = options["advantage_estimator"]
        for label, case in cases.items():
            size = case["rewards"].shape[1]
            if case["rewards"].ndim == 3 or (size == 1 and estimator not in ("flash_reinforce", "reinforce")):
                continue
            _, mask, _ = per_token(torch.zeros(case["lengths"].size), case)
            advantage = SimpleNamespace(
                estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=options.get("no_std_norm", False)
            )
            args = SimpleNamespace(
                algo=SimpleNamespace(advantage=advantage), rollout=SimpleNamespace(n_samples_per_prompt=size),
                reward=SimpleNamespace(clip_range=(-10, 10)),
            )  # fmt: skip
            maker = SimpleNamespace(
                strategy=SimpleNamespace(args=args), kl_ctl=SimpleNamespace(value=0.0), advantage_estimator=estimator
            )
            maker.get_cumulative_returns = lambda *a, m=maker: space["get_cumulative_returns"](m, *a)
            experience = SimpleNamespace(
                rewards=flat(case), index=list(range(mask.shape[0])), kl=torch.zeros_like(mask), action_mask=mask,
                info={}, values=None,
            )  # fmt: skip
            space["compute_advantages_and_returns"](maker, [experience])
            yield row("openrlhf", version, options, label, one_each(experience.advantages, mask, case))


# Others --------------------------------------------------------------------------------------------------------------


def ms_swift(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    version = "4.6.0"
    folder = sources / f"ms_swift-{version}"
    if not folder.is_dir():
        return
    space: dict[str, Any] = {"torch": torch}
    holder = next(p for p in (folder / "swift").rglob("*.py") if "\ndef nanstd(" in p.read_text(encoding="utf-8"))
    taken(holder, ["nanstd"], space)
    taken(folder / "swift/rl_core/advantage.py", ["compute_advantages"], space)
    for estimator, scales in (
        ("grpo", ("group", "batch", "none", "gdpo")), ("rloo", ("none", "group", "batch")),
        ("reinforce_plus_plus", ("batch", "group", "none")),
    ):  # fmt: skip
        for scale in scales:
            for label, case in cases.items():
                table = flat(case)
                table = table[:, None] if table.dim() == 1 else table
                weights = torch.tensor(case["weights"] or [1.0] * table.shape[1])
                size = case["rewards"].shape[1]
                if size == 1 and (scale == "gdpo" or estimator == "rloo"):
                    continue
                advantages, _ = space["compute_advantages"](table, weights, size, estimator, scale)
                options = {"advantage_estimator": estimator, "scale_rewards": scale}
                yield row("ms-swift", version, options, label, np.array(advantages.tolist()).reshape(-1, size))


def by_group(case: Case, function: Callable[[list[float]], list[float]]) -> Any:
    """A function of one group's rewards, over the groups."""
    return np.array([function(group) for group in case["rewards"].tolist()])


def tinker(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    version = "0.6.1"
    if not (sources / f"tinker_cookbook-{version}").is_dir():
        return
    path = sources / f"tinker_cookbook-{version}" / "tinker_cookbook/rl/data_processing.py"
    space = taken(path, ["compute_advantages"], {"torch": torch})
    for label, case in cases.items():
        if case["rewards"].ndim == 2:
            found = by_group(
                case,
                lambda group: space["compute_advantages"]([SimpleNamespace(get_total_rewards=lambda: group)])[
                    0
                ].tolist(),
            )
            yield row("tinker", version, {}, label, found)


def published(sources: Path, cases: dict[str, Case]) -> Iterator[dict[str, Any]]:
    import torch

    base: dict[str, Any] = {"torch": torch, "np": np, "defaultdict": defaultdict}
    single = {name: case for name, case in cases.items() if case["rewards"].ndim == 2}
    folder = sources / "published"

    nemo = folder / "NVIDIA-NeMo/RL/nemo_rl/algorithms"
    if nemo.is_dir():
        space = taken(nemo / "utils.py", ["calculate_baseline_and_std_per_prompt"], dict(base))
        space["get_gdpo_reward_component_keys"] = lambda batch: sorted(batch)
        loo, norm = "use_leave_one_out_baseline", "normalize_rewards"
        kinds: tuple[tuple[str, dict[str, Any]], ...] = (
            *(("GRPO", {"adv_estimator": "grpo", norm: n, loo: b}) for n in (True, False) for b in (True, False)),
            *(("GDPO", {"adv_estimator": "gdpo", norm: True, loo: b}) for b in (True, False)),
            *(
                ("ReinforcePlusPlus", {"adv_estimator": "reinforce_plus_plus", "minus_baseline": b})
                for b in (True, False)
            ),
        )
        for kind, options in kinds:
            taken(nemo / "advantage_estimator.py", [f"{kind}AdvantageEstimator.compute_advantage"], space)
            owner = SimpleNamespace(
                use_leave_one_out_baseline=options.get(loo), normalize_rewards=options.get(norm),
                minus_baseline=options.get("minus_baseline"), use_kl_in_reward=False,
            )  # fmt: skip
            for label, case in cases.items():
                many = case["rewards"].ndim == 3
                if many != (kind == "GDPO") or label == "two_lost":
                    continue
                _, mask, groups = per_token(torch.zeros(case["lengths"].size), case)
                ids, rewards, named = torch.tensor(groups)[:, None], flat(case), {}
                if many:
                    owner.reward_weights = case["weights"]
                    named = {"repeated_batch": {"reward/a": rewards[:, 0], "reward/b": rewards[:, 1]}}
                    rewards = rewards.sum(-1)
                advantages = space["compute_advantage"](owner, ids, rewards, mask, **named)
                yield row("nemo-rl", "0.6", options, label, one_each(advantages, mask, case))

    path = folder / "NovaSky-AI/SkyRL/skyrl/backends/skyrl_train/utils/ppo_utils.py"
    if path.is_file():
        names = ["grpo_outcome_advantage", "rloo_outcome_advantage", "maxrl_advantage"]
        space = taken(path, [f"compute_{name}" for name in names], dict(base))
        runs: tuple[tuple[str, dict[str, Any]], ...] = (
            *(("grpo_outcome", {"advantage_estimator": "grpo", "grpo_norm_by_std": n}) for n in (True, False)),
            ("rloo_outcome", {"advantage_estimator": "rloo"}), ("maxrl", {"advantage_estimator": "maxrl"}),
        )  # fmt: skip
        for function, options in runs:
            for label, case in single.items():
                tokens, mask, groups = per_token(flat(case), case)
                advantages, _ = space[f"compute_{function}_advantage"](
                    tokens, mask, groups, grpo_norm_by_std=options.get("grpo_norm_by_std", True)
                )
                yield row("skyrl", "0.4", options, label, one_each(advantages, mask, case))

    path = folder / "hiyouga/EasyR1/verl/trainer/core_algos.py"
    if path.is_file():
        names = ["grpo", "rloo", "grpo_passk"]
        space = taken(path, [f"compute_{name}_outcome_advantage" for name in names], dict(base))
        for name in names:
            for label, case in single.items():
                if label == "single" or (name == "grpo_passk" and label == "lost"):
                    continue
                tokens, mask, groups = per_token(flat(case), case)
                advantages, _ = space[f"compute_{name}_outcome_advantage"](tokens, mask, groups)
                yield row("easyr1", None, {"adv_estimator": name}, label, one_each(advantages, mask, case))

    path = folder / "alibaba/ROLL/roll/utils/functionals.py"
    if path.is_file():
        space = taken(path, ["reward_norm"], dict(base))
        for mean, std, options in (
            ("group", "group", {"adv_estimator": "grpo"}),
            *(
                (m, s, {"adv_estimator": "reinforce", "norm_mean_type": m, "norm_std_type": s})
                for m, s in (("none", "none"), ("batch", "batch"), ("group", "none"), ("group", "batch"))
            ),
        ):
            for label, case in single.items():
                if label == "single":
                    continue
                norms = (None if k == "none" else k for k in (mean, std))
                found = space["reward_norm"](flat(case), case["rewards"].shape[1], {}, *norms)
                yield row("roll", None, options, label, np.array(found.tolist()).reshape(case["rewards"].shape))

    path = folder / "PrimeIntellect-ai/prime-rl/src/prime_rl/orchestrator/algo/advantage.py"
    if path.is_file():
        space = {**base, "TokensLengthPenaltyConfig": int, "TurnsLengthPenaltyConfig": float}
        taken(path, ["default_advantage_fn", "max_rl_advantage_fn"], space)
        for function, algorithm in (("default_advantage_fn", "grpo"), ("max_rl_advantage_fn", "max_rl")):
            for label, case in single.items():
                if label != "lost":  # rollouts with an error are taken out before
                    inputs = lambda group: SimpleNamespace(  # noqa: E731
                        rollouts=[{"reward": r} for r in group], broadcast=lambda values: values
                    )
                    found = by_group(case, lambda group, f=function, i=inputs: space[f](i(group)))  # type: ignore[misc]
                    yield row("prime-rl", "0.8", {"algorithm": algorithm}, label, found)

    path = folder / "meta-pytorch/torchforge/apps/grpo/main.py"
    if path.is_file():
        space = taken(path, ["ComputeAdvantages.compute"], dict(base))
        for label, case in single.items():
            found = by_group(
                case, lambda group: asyncio.run(space["compute"](None, [SimpleNamespace(reward=r) for r in group]))
            )
            yield row("torchforge", None, {}, label, found)


def row(trainer: str, version: str | None, options: dict[str, Any], case: str, advantages: Any) -> dict[str, Any]:
    """One recorded result; NaN is null."""
    values = [[None if math.isnan(v) else float(f"{v:.7g}") for v in group] for group in advantages.tolist()]
    return {"trainer": trainer, "version": version, "options": options, "case": case, "advantages": values}


def without_nan(values: Any) -> Any:
    """Nested lists with null for NaN."""
    if isinstance(values, list):
        return [without_nan(v) for v in values]
    return None if isinstance(values, float) and math.isnan(values) else values


def merged(rows: Rows) -> Rows:
    """Versions that gave the same numbers, in one row."""
    out: dict[str, dict[str, Any]] = {}
    for r in rows:
        key = json.dumps({k: v for k, v in r.items() if k != "version"})
        out.setdefault(key, {**{k: v for k, v in r.items() if k != "version"}, "versions": []})
        out[key]["versions"].append(r["version"])
    return list(out.values())


def main(sources: Path) -> None:
    """Record what can be run; keep the rest."""
    made = cases()
    rows: Rows = []
    for source in (trl, verl, openrlhf, ms_swift, tinker, published):
        rows += source(sources, made)
    old = json.loads(STORED.read_text(encoding="utf-8"))["rows"] if STORED.exists() else []
    again = {(r["trainer"], r["version"]) for r in rows}
    kept = [{**r, "version": v} for r in old for v in r.pop("versions") if (r["trainer"], v) not in again]
    stored = {
        name: {"rewards": without_nan(c["rewards"].tolist()), "lengths": c["lengths"].tolist(), "weights": c["weights"]}
        for name, c in made.items()
    }
    lines = ",\n".join(json.dumps(r) for r in merged(kept + rows))
    STORED.write_text(f'{{"cases": {json.dumps(stored)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
