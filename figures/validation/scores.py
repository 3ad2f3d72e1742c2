"""Score gradients of single rollouts, and what they say of one prompt's groups.

A rollout's score is the gradient of the log-probability of all its tokens, tail included, in every parameter. With a
unique or listed right answer the gradient of the pass rate is exact, and two more numbers of a prompt, the mean squared
length of a score after a pass and after a fail, give the squared length of a group's gradient at any group size and for
any advantage (`figures.validation.moments`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from figures.validation.model import Decoder
from figures.validation.policy import log_probabilities, sample
from figures.validation.tasks import ANSWER, rewards, right_answers
from figures.validation.training import World

FEWEST_FAILS = 8
MOST_EXTRA = 2048  # rollouts drawn more where a prompt hardly ever fails
FORCED = 16  # tails drawn behind the right answer


class _LogProbability(nn.Module):
    """The log-probability of one rollout as a module, so that its parameters can be passed in."""

    def __init__(self, model: Decoder, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, prompt: Tensor, rollout: Tensor) -> Tensor:
        return log_probabilities(self.model, prompt[None], rollout[None, None], self.temperature).sum()


class Scorer:
    """Score gradients of one model at one temperature.

    Args:
        model: The policy.
        temperature: Of the policy whose gradient is taken.
        metric: Weight of each squared parameter, shape (D,), in the order of ``model.parameters()``: inner products
            become ``sum_d metric_d a_d b_d``. None for all ones.
    """

    def __init__(self, model: Decoder, temperature: float, metric: Tensor | None = None) -> None:
        module = _LogProbability(model, temperature)
        self._parameters = {name: p.detach() for name, p in module.named_parameters()}
        self._root = None if metric is None else metric.sqrt()

        def of_one(parameters: dict[str, Tensor], prompt: Tensor, rollout: Tensor) -> Tensor:
            value: Tensor = functional_call(module, parameters, (prompt, rollout))
            return value

        self._gradients = vmap(grad(of_one), in_dims=(None, None, 0))

    def vectors(self, prompt: Tensor, rollouts: Tensor) -> Tensor:
        """Scores (R, D) of rollouts (R, T) of one prompt (P,), each times the root of the metric."""
        parts = self._gradients(self._parameters, prompt, rollouts)
        flat = torch.cat([part.flatten(1) for part in parts.values()], 1)
        return flat if self._root is None else flat * self._root


@dataclass(frozen=True)
class PromptScores:
    """One prompt: exact numbers, and the Gram matrix of a group of its rollouts.

    Attributes:
        rate: Exact pass rate p.
        gradient: Exact grad p, shape (D,), times the root of the metric.
        square: Its squared length.
        after_pass: Mean squared length of a score after a pass: exact without a tail, else from ``FORCED`` tails.
        after_fail: The same after a fail, from sampled fails; NaN where none was seen.
        fails: Fails that it was taken from.
        gram: Inner products of the scores of the rollouts, shape (R, R).
        rewards: Their rewards, shape (R,).
        vectors: Their scores, shape (R, D).
    """

    rate: float
    gradient: Tensor
    square: float
    after_pass: float
    after_fail: float
    fails: int
    gram: Tensor
    rewards: Tensor
    vectors: Tensor


def _behind(
    model: Decoder, prompt: Tensor, answer: Tensor, count: int, world: World, generator: torch.Generator
) -> Tensor:
    """``count`` rollouts (count, 5 + tail) that begin with the answer (5,); their tails are sampled."""
    with torch.no_grad():
        _, cache = model.read(prompt[None])
        tokens = answer.expand(1, count, -1)
        logits, own = model.extend(cache, tokens)
        made = [tokens]
        for place in range(world.tail):
            chance = (logits[:, :, -1] / world.temperature).softmax(-1)
            token = torch.multinomial(chance[0], 1, replacement=True, generator=generator)[None]
            made.append(token)
            if place + 1 < world.tail:
                logits, own = model.extend(cache, token, own, ANSWER + place)
    return torch.cat(made, -1)[0]


def _squares(vectors: Tensor) -> Tensor:
    return vectors.square().sum(1).double()


def _exact(
    scorer: Scorer, model: Decoder, world: World, prompt: Tensor, generator: torch.Generator
) -> tuple[float, Tensor, float]:
    """Pass rate, its gradient, and the mean squared score after a pass."""
    answers, counts = right_answers(world.task, prompt[None])
    right = answers[0][counts[0]]
    with torch.no_grad():
        each = log_probabilities(model, prompt[None], right[None], world.temperature).double().sum(-1).exp()[0]
    vectors = scorer.vectors(prompt, right)
    rate = each.sum()
    if world.tail:
        drawn = [
            _squares(scorer.vectors(prompt, _behind(model, prompt, a, FORCED, world, generator))).mean() for a in right
        ]
        squares = torch.stack(drawn)
    else:
        squares = _squares(vectors)
    return float(rate), each.float() @ vectors, float((each * squares).sum() / rate)


def _more_fails(model: Decoder, world: World, prompt: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Failed rollouts (F, T) among as many as should hold ``FEWEST_FAILS`` of them, or the most allowed."""
    wanted = min(MOST_EXTRA, int(2 * FEWEST_FAILS / max(1 - rate, 1e-9)))
    rollouts = sample(model, prompt[None], wanted, world.tail, world.temperature, generator)
    wrong = rewards(world.task, prompt[None], rollouts)[0] == 0
    return rollouts[0][wrong][: 2 * FEWEST_FAILS]


def prompt_scores(
    scorer: Scorer, model: Decoder, world: World, prompt: Tensor, rollouts: int, generator: torch.Generator
) -> PromptScores:
    """Everything of one prompt (P,), with a Gram matrix of so many rollouts."""
    rate, gradient, after_pass = _exact(scorer, model, world, prompt, generator)
    drawn = sample(model, prompt[None], rollouts, world.tail, world.temperature, generator)
    reward = rewards(world.task, prompt[None], drawn)[0]
    vectors = scorer.vectors(prompt, drawn[0])
    gram = vectors @ vectors.T
    failed = gram.diagonal()[reward == 0].double()
    if len(failed) < FEWEST_FAILS:
        more = _more_fails(model, world, prompt, rate, generator)
        if len(more):
            failed = torch.cat([failed, _squares(scorer.vectors(prompt, more))])
    return PromptScores(
        rate=rate, gradient=gradient, square=float(_squares(gradient[None])[0]), after_pass=after_pass,
        after_fail=float(failed.mean()) if len(failed) else float("nan"), fails=len(failed), gram=gram, rewards=reward,
        vectors=vectors,
    )  # fmt: skip


class _PassRate(nn.Module):
    """The exact pass rate of one prompt as a module."""

    def __init__(self, model: Decoder, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, prompt: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
        each = log_probabilities(self.model, prompt[None], answers[None], self.temperature)[0].sum(-1).exp()
        return (each * counts).sum()


def rate_gradients(model: Decoder, world: World, prompts: Tensor, metric: Tensor | None = None) -> Tensor:
    """Exact grad p of prompts (N, P): shape (N, D), times the root of the metric."""
    module = _PassRate(model, world.temperature)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def of_one(values: dict[str, Tensor], prompt: Tensor, answers: Tensor, counts: Tensor) -> Tensor:
        value: Tensor = functional_call(module, values, (prompt, answers, counts))
        return value

    answers, counts = right_answers(world.task, prompts)
    parts = vmap(grad(of_one), in_dims=(None, 0, 0, 0))(parameters, prompts, answers, counts.float())
    flat = torch.cat([part.flatten(1) for part in parts.values()], 1)
    return flat if metric is None else flat * metric.sqrt()
