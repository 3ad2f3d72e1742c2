"""Where a number stands on an axis, and which numbers an axis names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear or logarithmic axis.

    Attributes:
        low: Number at ``start``.
        high: Number at ``stop``, above ``low``.
        start: Place of ``low``, in pixels.
        stop: Place of ``high``.
        log: Whether equal ratios are equal lengths.

    >>> Scale(low=1.0, high=4.0, start=0.0, stop=10.0, log=True)(2.0)
    5.0
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Place of a number; those off the axis stand at its end."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)

    @property
    def data(self) -> str:
        """The axis for the page's script: kind, low, high, start, stop."""
        return f"{'log' if self.log else 'linear'} {self.low!r} {self.high!r} {self.start!r} {self.stop!r}"


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, at most about ``most``.

    >>> round_ticks(0.0, 1.0), round_ticks(0.0, 700.0, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 200.0, 400.0, 600.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * s for s in STEPS if power * s >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def size_ticks(sizes: Sequence[int], most: int = 9) -> list[int]:
    """Powers of two in the range of some group sizes, thinned out where they are many.

    >>> size_ticks([2, 3, 6, 512]), size_ticks([3]), size_ticks([2, 512], 5)
    ([2, 4, 8, 16, 32, 64, 128, 256, 512], [3], [2, 8, 32, 128, 512])
    """
    low, high = min(sizes), max(sizes)
    powers = [2**i for i in range(1, 40) if low <= 2**i <= high]
    if not powers:
        return [low]
    stride = -(-len(powers) // most)
    return powers[::stride]
