"""Checks shared by the tests: exact arithmetic, rates and means with a stated false-alarm rate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.stats import binomtest

mpmath.mp.dps = 80

RATES = (1e-12, 1e-9, 1 / 3, 0.5, 1 - 1e-9, 1 - 1e-12)
GROUP_SIZES = (1, 2, 3, 8, 64, 1000, 1_000_000)
SMALLEST_NORMAL = 2.3e-308


def assert_rate(hits: int, trials: int, expected: float, *, catches: float) -> None:
    """False alarm below 1e-6; a true bias of ``catches`` is found 99.9% of the time."""
    se = (expected * (1 - expected) / trials) ** 0.5
    assert 8 * se <= catches, f"{trials} trials only reveal a bias above {8 * se:.2g}"
    pvalue = binomtest(hits, trials, expected).pvalue
    assert pvalue > 1e-6, f"{hits}/{trials} vs {expected:.5f}: p = {pvalue:.1e}"


def assert_mean(values: ArrayLike, expected: float, *, catches: float) -> None:
    """Five standard errors: false alarm about 6e-7; a true bias of ``catches`` is found 99.8% of the time."""
    array = np.asarray(values, dtype=float)
    se = float(array.std(ddof=1)) / array.size**0.5
    assert 8 * se <= catches, f"{array.size} values only reveal a bias above {8 * se:.2g}"
    z = (float(array.mean()) - expected) / se
    assert abs(z) < 5, f"mean {array.mean():.6g} vs {expected:.6g}: z = {z:.1f}"


def as_mpf(number: Any) -> Any:
    """An exact or SymPy number to 80 digits; a float is taken at its bits."""
    if isinstance(number, Fraction):
        return mpmath.mpf(number.numerator) / number.denominator
    return mpmath.mpmathify(sp.N(number, 80) if isinstance(number, sp.Basic) else number)


def assert_precise(got: float, expected: Any, *, rel: float = 1e-12) -> None:
    """Relative error at most ``rel`` against an exact number, as long as that is a normal double."""
    truth = as_mpf(expected)
    if abs(truth) < SMALLEST_NORMAL:
        assert abs(got) <= 2 * SMALLEST_NORMAL, f"{got!r} vs {mpmath.nstr(truth, 17)}"
        return
    error = abs(mpmath.mpf(got) / truth - 1)
    assert error <= rel, f"{got!r} vs {mpmath.nstr(truth, 17)}: relative error {mpmath.nstr(error, 3)}"


def outcomes(group_size: int) -> Iterator[tuple[int, ...]]:
    """Every reward tuple of a group."""
    return product((0, 1), repeat=group_size)


def enumerated(value_of: Callable[[tuple[int, ...]], Any], pass_rate: Fraction, group_size: int) -> Any:
    """Mean of a function of the rewards over all ``2**G`` reward tuples; exact if the function is."""
    return sum(
        pass_rate ** sum(rewards) * (1 - pass_rate) ** (group_size - sum(rewards)) * value_of(rewards)
        for rewards in outcomes(group_size)
    )


def binomial_mean_mp(value_of: Callable[[int], Any], pass_rate: float, group_size: int) -> Any:
    """Mean of a function of k ~ Binomial(G, p) to about 60 digits, by ratios from the mode outwards."""
    p = mpmath.mpf(pass_rate)
    q = 1 - p
    mode = min(group_size, int((group_size + 1) * p))
    reach = int(20 * (group_size * float(p) * float(q)) ** 0.5) + 80
    total = weight = mpmath.mpf(1)
    mean = value_of(mode) * weight
    for k in range(mode + 1, min(group_size, mode + reach) + 1):
        weight *= (group_size - k + 1) * p / (k * q)
        total, mean = total + weight, mean + weight * value_of(k)
    weight = mpmath.mpf(1)
    for k in range(mode - 1, max(0, mode - reach) - 1, -1):
        weight *= (k + 1) * q / ((group_size - k) * p)
        total, mean = total + weight, mean + weight * value_of(k)
    return mean / total


def is_non_increasing(values: Iterable[float], *, slack: float = 1e-12) -> bool:
    """Whether no value exceeds the one before it by more than ``slack``."""
    array = np.asarray(list(values), dtype=float)
    return bool(np.all(np.diff(array) <= slack))


def shell_words(text: str, program: str) -> list[str]:
    """The words that bash hands to a program when it runs a text."""
    script = f"{program}() {{ printf '%s\\0' \"$@\"; }}\n{text}"
    done = subprocess.run(["bash", "-eu", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]
