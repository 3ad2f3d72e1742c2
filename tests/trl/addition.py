"""A small transformer that adds two numbers: every answer is unique, so pass rates and their gradients are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

TOKENS = 12
DIGIT_WEIGHTS = {2: (0.7, 0.3), 3: (0.62, 0.30, 0.08), 4: (0.62, 0.30, 0.06, 0.02)}
"""Shares of operand lengths 1, 2, ... in training: they give easy and hard prompts."""


class Adder(nn.Module):  # type: ignore[misc]
    """A decoder-only transformer (0.1 M parameters at 4 digits and width 64) for operands of at most so many digits."""

    def __init__(self, digits: int = 4, width: int = 64, layers: int = 2, heads: int = 4, positions: int = 32) -> None:
        super().__init__()
        self.digits, self.prompt, self.answer = digits, 2 * (digits + 1), digits + 1
        self.width, self.heads, self.layers = width, heads, layers
        self.tokens = nn.Parameter(torch.randn(TOKENS, width) * 0.05)
        self.places = nn.Parameter(torch.randn(positions, width) * 0.05)
        shapes = {
            "attend": (width, 3 * width),
            "out": (width, width),
            "up": (width, 4 * width),
            "down": (4 * width, width),
        }
        for name, (rows, columns) in shapes.items():
            scale = (0.5 if name in ("out", "down") else 1.0) / math.sqrt(rows)
            matrices = [nn.Parameter(torch.randn(rows, columns) * scale) for _ in range(layers)]
            setattr(self, name, nn.ParameterList(matrices))
        self.norms = nn.ParameterList([nn.Parameter(torch.ones(width)) for _ in range(2 * layers + 1)])
        self.head = nn.Parameter(torch.randn(width, TOKENS) * 0.02)

    def forward(self, tokens: Any, start: int = 0, cache: list[Any] | None = None) -> tuple[Any, list[Any]]:
        """Logits of the next token, and the keys and values so far."""
        count, length = tokens.shape
        x = self.tokens[tokens] + self.places[start : start + length]
        kept = []
        for layer in range(self.layers):
            joint = F.layer_norm(x, (self.width,), self.norms[2 * layer]) @ self.attend[layer]
            q, k, v = (z.view(count, length, self.heads, -1).transpose(1, 2) for z in joint.chunk(3, -1))
            if cache is not None:
                k, v = torch.cat([cache[layer][0], k], 2), torch.cat([cache[layer][1], v], 2)
            kept.append((k, v))
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            if length > 1:
                scores = scores + torch.full((length, length), -1e9).triu(1)
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(count, length, -1) @ self.out[layer]
            inner = F.layer_norm(x, (self.width,), self.norms[2 * layer + 1])
            x = x + F.gelu(inner @ self.up[layer]) @ self.down[layer]
        return F.layer_norm(x, (self.width,), self.norms[-1]) @ self.head, kept


def prompts(model: Adder, count: int, seed: int, *, as_in_training: bool = False) -> Any:
    """Zero-padded ``a + b =`` as tokens, shape (count, prompt); lengths of operands uniform, or as in training."""
    d, generator = model.digits, torch.Generator().manual_seed(seed)
    weights = DIGIT_WEIGHTS[d] if as_in_training else (1.0,) * d
    digits = 1 + torch.multinomial(torch.tensor(weights), count, True, generator=generator)
    powers = 10 ** torch.arange(d - 1, -1, -1)
    tokens = torch.empty(count, model.prompt, dtype=torch.long)
    for column, sign in ((0, 10), (d + 1, 11)):
        number = (torch.rand(count, generator=generator, dtype=torch.float64) * 10**digits).long()
        tokens[:, column : column + d] = (number[:, None] // powers) % 10
        tokens[:, column + d] = sign
    return tokens


def answers(model: Adder, x: Any) -> Any:
    """The sum, least significant digit first, shape (count, answer)."""
    d, powers = model.digits, 10 ** torch.arange(model.digits - 1, -1, -1)
    total = (x[:, :d] * powers).sum(1) + (x[:, d + 1 : 2 * d + 1] * powers).sum(1)
    return (total[:, None] // 10 ** torch.arange(d + 1)) % 10


def log_probability(model: Adder, x: Any, y: Any) -> Any:
    """Summed log-probability of the tokens after the prompt, shape (count,)."""
    logits, _ = model(torch.cat([x, y[:, :-1]], 1))
    return torch.log_softmax(logits[:, model.prompt - 1 :], -1).gather(-1, y[..., None])[..., 0].sum(1)


def pass_rates(model: Adder, x: Any) -> Any:
    """Exact pass rates by one teacher-forced pass; a tail does not change them."""
    with torch.no_grad():
        return log_probability(model, x, answers(model, x)).double().exp()


def roll_out(model: Adder, x: Any, rollouts: int, tail: int, generator: torch.Generator) -> tuple[Any, Any]:
    """Rollouts of each prompt, shape (count * rollouts, answer + tail), and their rewards.

    The tail are free tokens after the answer, which the reward ignores: they add score noise alone.
    """
    with torch.no_grad():
        logits, cache = model(x)
        cache = [(k.repeat_interleave(rollouts, 0), v.repeat_interleave(rollouts, 0)) for k, v in cache]
        logits, drawn = logits[:, -1].repeat_interleave(rollouts, 0), []
        for step in range(model.answer + tail):
            noise = torch.rand(logits.shape, generator=generator).clamp_(1e-9)
            drawn.append((logits - torch.log(-torch.log(noise))).argmax(-1))
            logits, cache = model(drawn[-1][:, None], model.prompt + step, cache)
            logits = logits[:, -1]
    y = torch.stack(drawn, 1)
    right = answers(model, x).repeat_interleave(rollouts, 0)
    return y, (y[:, : model.answer] == right).all(1).double()


def trained(
    digits: int = 4, width: int = 64, threshold: float = 0.36, seed: int = 0, rate: float = 1e-3, rows: int = 256
) -> Adder:
    """A model trained from scratch until its mean exact pass rate passes the threshold."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Adder(digits, width)
    held_out = prompts(model, 1000, 99)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.0)
    for step in range(2000):
        x = prompts(model, rows, 1000 + step, as_in_training=True)
        loss = -log_probability(model, x, answers(model, x)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 100)
        if step % 10 == 0 and float(pass_rates(model, held_out).mean()) > threshold:
            optimizer.zero_grad()
            return model
    raise AssertionError("the model did not learn to add")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Exact pass rates and ``|grad p|^2`` of prompts, and the mean squared scores of their passes and fails."""

    pass_rate: Any
    squared_gradient: Any
    pass_score: Any
    fail_score: Any

    @property
    def kappa(self) -> float:
        """``E[pq S^2] / (E[pq] h^2)`` with ``h^2 = E|grad p|^2 / E[p^2 q^2]``: the model's kappa, with pooled noise."""
        p = self.pass_rate
        pq = p * (1 - p)
        noise = p * self.pass_score + (1 - p) * self.fail_score - self.squared_gradient / pq
        h2 = self.squared_gradient.mean() / (pq**2).mean()
        return float((pq * noise).mean() / pq.mean() / h2)

    @property
    def group_size(self) -> float:
        """``1 + sqrt(kappa E[pq] / E[p^2 q^2])`` (theory.md, eq. 27)."""
        pq = self.pass_rate * (1 - self.pass_rate)
        return 1.0 + math.sqrt(self.kappa * float(pq.mean()) / float((pq**2).mean()))

    def squared_norm(self, group_size: int) -> float:
        """``E|ghat|^2`` of one group without a model of the noise, by the overlaps of eq. 50."""
        p, m = self.pass_rate, group_size
        q, g2 = 1 - p, self.squared_gradient
        cross, of_pass, of_fail = (
            -g2 / (p * q),
            g2 / p**2,
            g2 / q**2,
        )  # mean scores: g/p after a pass, -g/q after a fail
        two = p * q / 2 * (self.pass_score + self.fail_score - 2 * cross)
        one = p * q**2 * (self.pass_score - 2 * cross + of_fail) + q * p**2 * (self.fail_score - 2 * cross + of_pass)
        mean = ((m - 2) * (m - 3) * g2 + (m - 2) * one + 2 * two) / (m * (m - 1))
        return float(mean.mean())


def score_gradients(model: Adder, x: Any, y: Any) -> Any:
    """Gradients of the log-probability of each row, shape (rows, parameters), by another route than the probe's."""
    names = [name for name, _ in model.named_parameters()]
    values = {name: p.detach() for name, p in model.named_parameters()}

    def one(parameters: dict[str, Any], prompt: Any, response: Any) -> Any:
        logits, _ = functional_call(model, parameters, (torch.cat([prompt, response[:-1]])[None],))
        return torch.log_softmax(logits[0, model.prompt - 1 :], -1).gather(-1, response[:, None]).sum()

    found = vmap(grad(one), in_dims=(None, 0, 0))(values, x, y)
    return torch.cat([found[name].reshape(x.shape[0], -1) for name in names], 1)


def truth(model: Adder, x: Any, rollouts: int, tail: int, generator: torch.Generator) -> Truth:
    """All exact but for the mean squared scores, which are means over rollouts (exact for passes without a tail)."""
    p = pass_rates(model, x)
    squares = p**2 * (score_gradients(model, x, answers(model, x)).double() ** 2).sum(1)
    scores = {1.0: squares / p**2, 0.0: torch.zeros_like(p)}
    for i in range(x.shape[0]):
        y, r = roll_out(model, x[i : i + 1], rollouts, tail, generator)
        if tail:  # the answers given, so that both kinds are seen however rare they are
            y = torch.cat([y, torch.cat([answers(model, x[i : i + 1]).expand(rollouts, -1), y[:, model.answer :]], 1)])
            r = torch.cat([r, torch.ones(rollouts)])
        lengths = (score_gradients(model, x[i : i + 1].expand(len(y), -1), y).double() ** 2).sum(1)
        for reward in (0.0, 1.0) if tail else (0.0,):
            if bool((r == reward).any()):
                scores[reward][i] = lengths[r == reward].mean()
    return Truth(pass_rate=p, squared_gradient=squares, pass_score=scores[1.0], fail_score=scores[0.0])
