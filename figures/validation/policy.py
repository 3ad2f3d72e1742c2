"""Sampling, log-probabilities, and pass rates that are exact because the right answers can be listed."""

from __future__ import annotations

import torch
from torch import Tensor

from figures.validation.model import Decoder
from figures.validation.tasks import ANSWER, Task, right_answers


@torch.no_grad()
def sample(
    model: Decoder, prompts: Tensor, group: int, tail: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """G rollouts of each prompt: (N, G, 5 + tail) tokens."""
    logits, cache = model.read(prompts)
    logits = logits[:, None].expand(-1, group, -1)
    own = None
    tokens = []
    length = ANSWER + tail
    for place in range(length):
        edges = (logits / temperature).softmax(-1).cumsum(-1)
        chance = torch.rand(*edges.shape[:-1], 1, generator=generator) * edges[..., -1:]
        token = (edges[..., :-1] <= chance).sum(-1)
        tokens.append(token)
        if place + 1 < length:
            logits, own = model.extend(cache, token[..., None], own, place)
            logits = logits[:, :, 0]
    return torch.stack(tokens, -1)


def log_probabilities(model: Decoder, prompts: Tensor, rollouts: Tensor, temperature: float) -> Tensor:
    """Log pi of each token: (N, G, T) for rollouts (N, G, T)."""
    first, cache = model.read(prompts)
    later, _ = model.extend(cache, rollouts[..., :-1])
    logits = torch.cat([first[:, None, None].expand(-1, rollouts.shape[1], -1, -1), later], 2)
    return (logits / temperature).log_softmax(-1).gather(-1, rollouts[..., None])[..., 0]


def pass_rate(model: Decoder, task: Task, prompts: Tensor, temperature: float) -> Tensor:
    """Exact pass rates (N,), with their graph: the sum over right answers of their probabilities."""
    answers, counts = right_answers(task, prompts)
    each = log_probabilities(model, prompts, answers, temperature).double().sum(-1).exp()
    return (each * counts).sum(-1)


@torch.no_grad()
def pass_rates(model: Decoder, task: Task, prompts: Tensor, temperature: float, block: int = 2000) -> Tensor:
    """Exact pass rates of many prompts, in blocks, without a graph."""
    return torch.cat([pass_rate(model, task, part, temperature) for part in prompts.split(block)])
