"""Kappa of a policy from exact gradients: the sum has one right answer, so its probability has a gradient.

What is sampled are the squared scores of wrong answers. Everything else is exact for each prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from figures.validation.model import Decoder
from figures.validation.policy import log_probabilities, pass_rates, sample
from figures.validation.tasks import SUM, draw, rewards, right_answers

Floats = NDArray[np.float64]
BLOCK = 256  # gradients held at a time


@dataclass(frozen=True)
class Gradients:
    """Of M prompts: pass rates, ``|grad p|**2``, mean squared scores of right and of wrong answers; (M,) each."""

    pass_rate: list[float]
    squared_gradient: list[float]
    right_score: list[float]
    wrong_score: list[float]


class _Score(nn.Module):  # type: ignore[misc,unused-ignore]
    """log pi of one answer (5,) to one prompt (10,), as a module: its parameters can be given from outside."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, prompt: Tensor, answer: Tensor) -> Tensor:
        return log_probabilities(self.decoder, prompt[None], answer[None, None], 1.0).sum()


def squared_scores(decoder: Decoder, prompts: Tensor, answers: Tensor) -> Tensor:
    """``|grad log pi|**2`` (M,) of answers (M, 5) to prompts (M, 10)."""
    module = _Score(decoder)
    weights = {name: p.detach() for name, p in module.named_parameters()}

    def one(given: dict[str, Tensor], prompt: Tensor, answer: Tensor) -> Tensor:
        value: Tensor = functional_call(module, given, (prompt, answer))
        return value

    each = vmap(grad(one), in_dims=(None, 0, 0))
    found = []
    for part, text in zip(prompts.split(BLOCK), answers.split(BLOCK), strict=True):
        gradients = each(weights, part, text)
        found.append(torch.stack([g.flatten(1).double().square().sum(1) for g in gradients.values()]).sum(0))
    return torch.cat(found)


def exact_gradients(decoder: Decoder, prompts: int, seed: int, rollouts: int = 256, wrong: int = 6) -> Gradients:
    """Gradients of prompts drawn as training draws them.

    Args:
        decoder: The policy.
        prompts: M.
        seed: Of prompts and rollouts.
        rollouts: Of each prompt, among which wrong answers are looked for.
        wrong: Wrong answers of a prompt, at most, of which the squared scores are averaged.
    """
    generator = torch.Generator().manual_seed(seed)
    asked = draw(prompts, generator)
    p = pass_rates(decoder, SUM, asked, 1.0)
    right = squared_scores(decoder, asked, right_answers(SUM, asked)[0][:, 0])
    drawn = sample(decoder, asked, rollouts, 0, 1.0, generator)
    fails = rewards(SUM, asked, drawn) == 0
    first = fails & (fails.cumsum(1) <= wrong)
    who, which = first.nonzero(as_tuple=True)
    squares = squared_scores(decoder, asked[who], drawn[who, which])
    total = torch.zeros(prompts, dtype=torch.float64).index_add(0, who, squares)
    mean = total / first.sum(1).clamp_min(1)
    return Gradients(*(x.tolist() for x in (p, p.square() * right, right, mean)))
