"""Write the weights that the reductions of other trainers give: ``python -m tests.regenerate.loss_weights FOLDER``.

FOLDER holds the unpacked wheels of verl 0.9.1 (``verl``), verl 0.6.1 (``verl-legacy``), OpenRLHF 0.11.2 (``openrlhf``)
and SkyRL 0.3.0 (``skyrl``). Their own functions are taken out of their files and run; needs torch. One batch of 12
responses, some without a loss token, is split unevenly over two ranks; gradients of micro-batches are added and those
of ranks averaged.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESPONSES, WIDTH = 12, 7
RANK = [0] * 6 + [1] * 6
MICRO = [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]
PROMPTS = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
CONSTANT = 9
Part = list[int]


def functions(root: Path, *wanted: tuple[str, str]) -> dict[str, Any]:
    """Functions of files below a folder, by name, compiled without the rest of their files."""
    import torch

    space: dict[str, Any] = {"torch": torch, "Optional": Any, "List": list, "Tuple": tuple}
    for file, name in wanted:
        path, node = next(
            (path, node)
            for path in sorted(root.rglob(file))
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        node.decorator_list, node.returns = [], None
        for argument in (*node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        exec(compile(ast.Module(body=[node], type_ignores=[]), str(path), "exec"), space)
    return space


def gradient(losses: Callable[[Any, Any, Part, int], Any], mask: Any) -> list[list[float]]:
    """Weight of each token: gradient of the step with respect to its loss."""
    import torch

    loss = torch.zeros((RESPONSES, WIDTH), dtype=torch.float64, requires_grad=True)
    for rank in range(2):
        for micro in range(2):
            rows = [i for i in range(RESPONSES) if (RANK[i], MICRO[i]) == (rank, micro)]
            (losses(loss[rows], mask[rows], rows, rank) / 2).backward()
    found: list[list[float]] = loss.grad.tolist()
    return found


def main(root: Path) -> None:
    import torch

    torch.manual_seed(1)
    mask = (torch.rand((RESPONSES, WIDTH)) < torch.rand((RESPONSES, 1))).double()
    mask[4] = 0.0
    tokens, filled = float(mask.sum()), float((mask.sum(1) > 0).sum())
    found: dict[str, Any] = {}

    verl = functions(root / "verl", ("torch_functional.py", "masked_sum"), ("core_algos.py", "agg_loss"))
    verl["verl_F"] = type("verl_F", (), {"masked_sum": staticmethod(verl["masked_sum"])})
    for mode in ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"):
        found[f"verl:{mode}"] = gradient(
            lambda x, m, rows, rank, mode=mode: verl["agg_loss"](  # type: ignore[misc]
                x, m, mode, dp_size=2, batch_num_tokens=tokens, global_batch_size=RESPONSES, loss_scale_factor=CONSTANT
            ),
            mask,
        )

    helpers = (("torch_functional.py", "masked_sum"), ("torch_functional.py", "masked_mean"))
    old = functions(root / "verl-legacy", *helpers, ("core_algos.py", "agg_loss"))
    old["verl_F"] = type("verl_F", (), {"masked_mean": staticmethod(old["masked_mean"])})
    for mode in ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"):
        found[f"verl-legacy:{mode}"] = gradient(
            lambda x, m, rows, rank, mode=mode: (  # type: ignore[misc]
                old["agg_loss"](x, m, mode) * len(rows) / RANK.count(rank)
            ),
            mask,
        )

    rlhf = functions(root / "openrlhf", ("models/utils.py", "masked_mean"), ("models/loss.py", "aggregate_loss"))
    for mode, per_token in (("token-mean", True), ("seq-mean-token-mean", False)):
        found[f"openrlhf:{mode}"] = gradient(
            lambda x, m, rows, rank, per=per_token: rlhf["aggregate_loss"](  # type: ignore[misc]
                x, m, per, dp_size=2, batch_num_tokens=tokens, global_batch_size=filled
            ),
            mask,
        )

    skyrl = functions(root / "skyrl", ("ppo_utils.py", "apply_loss_reduction_to_advantages_minibatch"))
    ends = [(3 * p, 3 * p + 3) for p in range(4)]
    for mode in ("token_mean", "token_mean_legacy", "sequence_mean", "seq_mean_token_sum_norm", "prompt_mean"):
        ones = torch.ones((RESPONSES, WIDTH), dtype=torch.float64)
        scaled = skyrl["apply_loss_reduction_to_advantages_minibatch"](ones, mask, mode, 3, CONSTANT, ends)
        found[f"skyrl:{mode}"] = (scaled * mask).tolist()  # summed over micro-batches and ranks by its worker

    batch = {"mask": mask.int().tolist(), "rank": RANK, "micro": MICRO, "prompts": PROMPTS, "constant": CONSTANT}
    out = Path(__file__).parents[1] / "data" / "loss_weights.json"
    text = json.dumps({"batch": batch, "weights": found}, separators=(",", ":"))
    out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
