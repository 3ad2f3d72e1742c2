"""Gradients as vectors: kept whole, or as a random sketch of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import MissingExtraError

Floats = NDArray[np.float64]
CHUNK = 1 << 20
MASK = (1 << 64) - 1


def needs(package: str) -> Any:
    """An optional package of the extra "trl", or one line that names the extra."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(
            f"The kappa probe needs {package}, which is not installed. Install the extra: pip install 'grpo-plan[trl]'."
        ) from None


class Vectors(Protocol):
    """How the gradients of rollouts are held."""

    def hold(self, gradients: Sequence[Any]) -> Any:
        """One gradient: a tensor, or None for no dependence, for each parameter."""

    def gram(self, vectors: Sequence[Any]) -> Floats:
        """Inner products, shape (n, n)."""

    def total(self, weights: Floats, vectors: Sequence[Any]) -> Any:
        """The weighted sum of vectors."""


class WholeVectors:
    """Gradients as they are: n vectors take n times the memory of the trainable parameters."""

    def hold(self, gradients: Sequence[Any]) -> list[Any]:
        """Flat tensors on their own devices; None stays None."""
        return [None if g is None else g.detach().reshape(-1) for g in gradients]

    def gram(self, vectors: Sequence[Any]) -> Floats:
        """Inner products in double precision, parameter by parameter and piece by piece."""
        torch = needs("torch")
        n = len(vectors)
        products = np.zeros((n, n))
        for parts in zip(*vectors, strict=True):
            kept = [i for i, part in enumerate(parts) if part is not None]
            if not kept:
                continue
            device = parts[kept[0]].device
            double = torch.float32 if device.type == "mps" else torch.float64  # that device has no double precision
            inner = torch.zeros((len(kept), len(kept)), dtype=double, device=device)
            for start in range(0, parts[kept[0]].numel(), CHUNK):
                piece = torch.stack([parts[i][start : start + CHUNK].to(double) for i in kept])
                inner += piece @ piece.T
            products[np.ix_(kept, kept)] += inner.cpu().numpy()
        return products

    def total(self, weights: Floats, vectors: Sequence[Any]) -> list[Any]:
        """The weighted sum in at least single precision."""
        torch = needs("torch")
        summed: list[Any] = []
        for parts in zip(*vectors, strict=True):
            terms = [(float(w), part) for w, part in zip(weights, parts, strict=True) if part is not None]
            whole = None
            for w, part in terms:
                term = part.to(torch.promote_types(part.dtype, torch.float32)) * w
                whole = term if whole is None else whole.add_(term)
            summed.append(whole)
        return summed


class SketchedVectors:
    """CountSketch: each coordinate, with a random sign, is added to one of ``size`` random cells (theory.md, eq. 50).

    Inner products of sketches are unbiased over the random signs. The standard deviation of an inner product of a and b
    is at most ``sqrt((|a|**2 |b|**2 + (a.b)**2) / size)``: relative to a squared norm ``sqrt(2 / size)``, 0.55 % at
    65,536. Cell and sign come from a hash of the coordinate's number and the seed: nothing is stored, and no random
    number generator is touched.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed

    def hold(self, gradients: Sequence[Any]) -> Floats:
        """The sketch, shape (size,)."""
        torch = needs("torch")
        sketch = np.zeros(self.size)
        offset = 0
        for gradient, size in gradients_and_sizes(gradients):
            if gradient is not None:
                flat = gradient.detach().reshape(-1)
                flat = flat.to(torch.promote_types(flat.dtype, torch.float32))
                cells = torch.zeros(self.size, dtype=flat.dtype, device=flat.device)
                for start in range(0, size, CHUNK):
                    piece = flat[start : start + CHUNK]
                    cell, sign = self._places(offset + start, piece.numel(), piece.device)
                    cells.index_add_(0, cell, piece * sign.to(piece.dtype))
                sketch += cells.double().cpu().numpy()
            offset += size
        return sketch

    def gram(self, vectors: Sequence[Any]) -> Floats:
        """Inner products of the sketches."""
        rows = np.array(vectors)
        products: Floats = rows @ rows.T
        return products

    def total(self, weights: Floats, vectors: Sequence[Any]) -> Floats:
        """The weighted sum of the sketches."""
        summed: Floats = weights @ np.array(vectors)
        return summed

    def _places(self, first: int, count: int, device: Any) -> tuple[Any, Any]:
        """Cell and sign of coordinates (the mixing function of SplitMix64, on wrapping 64-bit integers)."""
        torch = needs("torch")
        x = torch.arange(first + 1, first + count + 1, dtype=torch.int64, device=device)
        x = x * signed(0x9E3779B97F4A7C15) + signed(mixed_seed(self.seed))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * signed(factor)
        return ((x >> 1) & ((1 << 62) - 1)) % self.size, 1 - 2 * (x & 1)


def gradients_and_sizes(gradients: Sequence[Any]) -> list[tuple[Any, int]]:
    """Gradients with the number of coordinates of each; a parameter without gradient is given as its size."""
    return [(None, g) if isinstance(g, int) else (g, int(g.numel())) for g in gradients]


def signed(number: int) -> int:
    """A 64-bit pattern as a signed integer.

    >>> signed((1 << 64) - 1)
    -1
    """
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def mixed_seed(seed: int) -> int:
    """A well-spread 64-bit number for each seed."""
    x = (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & MASK
    x = ((x ^ (x >> 32)) * 0xDABA0B6EB09322E3) & MASK
    return x ^ (x >> 29)
