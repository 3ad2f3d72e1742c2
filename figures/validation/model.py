"""A decoder-only transformer that reads a prompt once and continues it many times.

All rollouts of a prompt share its keys and values, in sampling and in training: at 10 tokens of prompt and 5 of
answer this halves the work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 12  # ten digits, "+", "="


@dataclass(frozen=True)
class Shape:
    """Size of a model: width, layers, heads, and the longest sequence it has positions for."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    positions: int = 24


Cache = list[tuple[Tensor, Tensor]]  # per layer: keys and values, (N, heads, tokens, width / heads)


def _softmax(x: Tensor) -> Tensor:
    """Softmax of the last axis; the library's is slow where it is short. Scores here are far from overflow."""
    weight = x.exp()
    return weight / weight.sum(-1, keepdim=True)


class Decoder(nn.Module):
    """The policy. Parameters start from the generator that is given, so that a seed is a model."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.shape = shape
        d = shape.width

        def normal(*size: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*size, generator=generator) * scale)

        inner = 1 / math.sqrt(d)
        self.token = normal(VOCABULARY, d, scale=0.05)
        self.position = normal(shape.positions, d, scale=0.05)
        self.attend = nn.ParameterList([normal(d, 3 * d, scale=inner) for _ in range(shape.layers)])
        self.merge = nn.ParameterList([normal(d, d, scale=inner / 2) for _ in range(shape.layers)])
        self.up = nn.ParameterList([normal(d, 4 * d, scale=inner) for _ in range(shape.layers)])
        self.down = nn.ParameterList([normal(4 * d, d, scale=inner / 4) for _ in range(shape.layers)])
        self.gain = nn.ParameterList([nn.Parameter(torch.ones(d)) for _ in range(2 * shape.layers + 1)])
        self.head = normal(d, VOCABULARY, scale=0.02)

    def _norm(self, x: Tensor, index: int) -> Tensor:
        return F.layer_norm(x, (self.shape.width,), self.gain[index])

    def _heads(self, x: Tensor) -> Tensor:
        """(..., T, width) to (..., heads, T, width / heads)."""
        return x.unflatten(-1, (self.shape.heads, -1)).transpose(-2, -3)

    def _rest(self, x: Tensor, layer: int) -> Tensor:
        return x + F.relu(self._norm(x, 2 * layer + 1) @ self.up[layer]) @ self.down[layer]

    def read(self, prompts: Tensor) -> tuple[Tensor, Cache]:
        """Read prompts (N, P). Returns the logits after the last token, (N, V), and the cache."""
        tokens = prompts.shape[1]
        x = self.token[prompts] + self.position[:tokens]
        mask = torch.full((tokens, tokens), -1e9).triu(1)
        cache: Cache = []
        for layer in range(self.shape.layers):
            q, k, v = (self._heads(z) for z in (self._norm(x, 2 * layer) @ self.attend[layer]).chunk(3, -1))
            cache.append((k, v))
            weight = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask).softmax(-1)
            x = x + (weight @ v).transpose(-2, -3).flatten(-2) @ self.merge[layer]
            x = self._rest(x, layer)
        return self._norm(x[:, -1], -1) @ self.head, cache

    def extend(self, cache: Cache, tokens: Tensor, own: Cache | None = None, start: int = 0) -> tuple[Tensor, Cache]:
        """Continue: tokens (N, G, T) that follow the prompt and, where given, the ``start`` tokens of ``own``.

        Returns logits (N, G, T, V) of what follows each token, and the rollouts' own cache.
        """
        n, g, t = tokens.shape
        heads, first = self.shape.heads, cache[0][0].shape[-2] + start
        x = self.token[tokens] + self.position[first : first + t]
        mask = torch.full((t, t + start), -1e9).triu(1 + start)
        made: Cache = []
        for layer in range(self.shape.layers):
            # (N, heads, G, T, width / heads)
            q, k, v = (
                self._heads(z).transpose(1, 2) for z in (self._norm(x, 2 * layer) @ self.attend[layer]).chunk(3, -1)
            )
            if own is not None:
                k, v = torch.cat([own[layer][0], k], -2), torch.cat([own[layer][1], v], -2)
            made.append((k, v))
            scale = 1 / math.sqrt(q.shape[-1])
            keys, values = cache[layer]
            flat = q.reshape(n, heads, g * t, -1) * scale
            before = (flat @ keys.transpose(-1, -2)).view(n, heads, g, t, -1)
            after = q @ k.transpose(-1, -2) * scale
            if t > 1:
                after = after + mask
            weight = _softmax(torch.cat([before, after], -1))
            prefix = before.shape[-1]
            seen = weight[..., :prefix].reshape(n, heads, g * t, prefix) @ values
            out = seen.view(n, heads, g, t, -1) + weight[..., prefix:] @ v
            x = x + out.permute(0, 2, 3, 1, 4).flatten(-2) @ self.merge[layer]
            x = self._rest(x, layer)
        return self._norm(x, -1) @ self.head, made
