"""What the model is asked, and which answers are right.

Two numbers of one to four digits, zero padded to four: ten tokens of prompt (``0012+0045=``). The answer is five digits,
the last digit first. *sum*: the sum alone is right. *either*: the sum or the difference, two right answers (one where a
number is 0). A tail of tokens after the answer is free: the reward ignores it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PROMPT = 10
ANSWER = 5
PLUS, EQUALS = 10, 11
_PLACES = torch.tensor([1000, 100, 10, 1])
_LAST_FIRST = torch.tensor([1, 10, 100, 1000, 10000])


@dataclass(frozen=True)
class Task:
    """Which answers are right, and the share of lengths that the supervised phase sees."""

    name: str
    right: int  # number of right answers
    lengths: tuple[float, float, float, float]


SUM = Task("sum", 1, (0.62, 0.30, 0.06, 0.02))
EITHER = Task("either", 2, (0.62, 0.30, 0.06, 0.02))
TASKS = {task.name: task for task in (SUM, EITHER)}
UNIFORM = (1.0, 1.0, 1.0, 1.0)


def draw(n: int, generator: torch.Generator, lengths: tuple[float, ...] = UNIFORM) -> Tensor:
    """N prompts (N, 10): a length for both numbers, then the two numbers uniformly."""
    digits = 1 + torch.multinomial(torch.tensor(lengths), n, replacement=True, generator=generator)
    a, b = ((torch.rand(n, generator=generator, dtype=torch.float64) * 10.0**digits).long() for _ in range(2))
    prompts = torch.empty(n, PROMPT, dtype=torch.long)
    prompts[:, 0:4] = (a[:, None] // _PLACES) % 10
    prompts[:, 4] = PLUS
    prompts[:, 5:9] = (b[:, None] // _PLACES) % 10
    prompts[:, 9] = EQUALS
    return prompts


def right_answers(task: Task, prompts: Tensor) -> tuple[Tensor, Tensor]:
    """The right answers (N, A, 5) and which of them count (N, A): the same answer is counted once."""
    a, b = (prompts[:, 0:4] * _PLACES).sum(1), (prompts[:, 5:9] * _PLACES).sum(1)
    values = torch.stack([a + b] if task.right == 1 else [a + b, (a - b).abs()], 1)
    counts = torch.ones_like(values, dtype=torch.bool)
    if task.right == 2:
        counts[:, 1] = values[:, 1] != values[:, 0]
    return (values[..., None] // _LAST_FIRST) % 10, counts


def rewards(task: Task, prompts: Tensor, rollouts: Tensor) -> Tensor:
    """1 for a right answer: rollouts (N, G, 5 + tail) give (N, G)."""
    answers, _ = right_answers(task, prompts)
    same = (rollouts[:, :, None, :ANSWER] == answers[:, None]).all(-1)
    return same.any(-1).float()
