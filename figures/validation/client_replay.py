"""The same rollouts through TRL and through the plain loop: do they make the same steps?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from figures.validation.advantages import advantages
from figures.validation.client import LONGEST, Notes, Setting, make_trainer
from figures.validation.client_policy import Hosted, as_tokens
from figures.validation.model import Decoder
from figures.validation.tasks import ANSWER, SUM, rewards
from figures.validation.training import World, _Batch, _update

REPLAYED = 30  # steps


def replayed(decoder: Decoder, setting: Setting, folder: Path) -> dict[str, Any]:
    """The same rollouts through both: TRL's, step by step, are given to the update of the plain loop.

    Returns how far apart the gradients of the first step are (one less their cosine, and the ratio of their lengths),
    and after each step the weights, relative to how far they moved; the same with the plain loop's loss divided by the
    longest completion too, as TRL's is; and of the plain loop and itself, from weights that differ by one part in ten
    million.
    """
    from transformers import TrainerCallback

    policy, seen = Hosted(decoder), []
    gradients: list[Tensor] = []
    weights: list[Tensor] = []

    class Keeping(TrainerCallback):  # type: ignore[misc,unused-ignore]
        """Keeps gradients before the optimizer uses them, and weights after it."""

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """After the backward pass."""
            gradients.append(_flat(p.grad for p in decoder.parameters()))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """After the step."""
            weights.append(_flat(decoder.parameters()))

    notes = Notes(policy, setting)

    def reward(prompts: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        answers = torch.tensor(completion_ids)[:, :ANSWER].view(setting.prompts, setting.group, ANSWER)
        seen.append((as_tokens(prompts)[:: setting.group], answers))
        return notes.reward(prompts, completion_ids)

    before = {name: p.detach().clone() for name, p in decoder.named_parameters()}
    start = _flat(before.values())
    trainer = make_trainer(policy, setting, reward, folder, [Keeping()])
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        trainer.train()
    decoder.load_state_dict(before)
    first, plain = _replay(decoder, seen, setting)
    decoder.load_state_dict(before)
    _, scaled = _replay(decoder, seen, setting, LONGEST)
    generator = torch.Generator().manual_seed(0)
    decoder.load_state_dict({k: v * (1 + 1e-7 * torch.randn(v.shape, generator=generator)) for k, v in before.items()})
    _, other = _replay(decoder, seen, setting)
    decoder.load_state_dict(before)

    def apart(some: list[Tensor], others: list[Tensor]) -> list[float]:
        return [((x - y).norm() / (x - start).norm()).item() for x, y in zip(some, others, strict=True)]

    return {
        "one_less_cosine": 1 - torch.cosine_similarity(gradients[0], first, dim=0).item(),
        "ratio": (gradients[0].norm() / first.norm()).item(),
        "apart": apart(weights, plain),
        "apart_if_scaled": apart(weights, scaled),
        "apart_from_itself": apart(plain, other),
    }


def _replay(
    decoder: Decoder, seen: list[tuple[Tensor, Tensor]], setting: Setting, scale: int = 1
) -> tuple[Tensor, list[Tensor]]:
    """Steps of the plain loop on given rollouts, its loss over ``scale``: the first gradient, and weights by step."""
    optimizer = torch.optim.Adam(decoder.parameters(), setting.rate, betas=(0.9, 0.99))
    gradients: list[Tensor] = []
    weights: list[Tensor] = []
    for step, (asked, answers) in enumerate(seen, 1):
        batch = _Batch(asked, answers, advantages(rewards(SUM, asked, answers), "mean"))
        for group in optimizer.param_groups:
            group["lr"] = setting.rate * min(1.0, step / setting.warm_up)
        _update(decoder, optimizer, batch, World(SUM), setting.prompts * setting.group * scale, None)
        if not gradients:
            gradients.append(_flat(p.grad for p in decoder.parameters()))
        weights.append(_flat(decoder.parameters()))
    return gradients[0], weights


def _flat(parts: Iterable[Tensor | None]) -> Tensor:
    return torch.cat([part.detach().flatten().double() for part in parts if part is not None])
