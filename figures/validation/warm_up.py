"""The supervised phase: from random weights to a policy whose pass rates are spread from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from figures.validation.model import Decoder, Shape
from figures.validation.policy import log_probabilities, pass_rates
from figures.validation.tasks import TASKS, draw, right_answers


@dataclass(frozen=True)
class Start:
    """A starting policy: what it was taught, and the mean pass rate (of uniform lengths) at which teaching stopped."""

    name: str
    task: str
    target: float
    seed: int = 1
    shape: Shape = field(default_factory=Shape)
    lengths: tuple[float, float, float, float] | None = None


def teach(start: Start, most: int = 6000, check: int = 10) -> tuple[Decoder, int, float]:
    """Teach from the seed. Returns the model, the number of steps and the mean pass rate reached."""
    task = TASKS[start.task]
    lengths = start.lengths or task.lengths
    model = Decoder(start.shape, torch.Generator().manual_seed(start.seed))
    generator = torch.Generator().manual_seed(100 + start.seed)
    held_out = draw(1000, torch.Generator().manual_seed(99))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0)
    mean = 0.0
    for step in range(1, most + 1):
        prompts = draw(256, generator, lengths)
        answers, counts = right_answers(task, prompts)
        pick = (torch.rand(len(prompts), generator=generator) * counts.sum(1)).long()
        chosen = answers[torch.arange(len(prompts)), pick][:, None]
        loss = -log_probabilities(model, prompts, chosen, 1.0).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, step / 100)
        optimizer.step()
        if step % check == 0:
            mean = pass_rates(model, task, held_out, 1.0).mean().item()
            if mean > start.target:
                return model, step, mean
    return model, most, mean
