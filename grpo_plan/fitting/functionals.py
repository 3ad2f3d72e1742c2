"""Means over F that users ask for, each with its values on a grid and its unbiased kernel (theory.md, eq. 34)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.passrates.discrete import power

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Functional:
    """A mean ``E_F phi(p)``.

    Attributes:
        name: What it is.
        degree: Rollouts of one prompt from which it has an unbiased kernel.
        phi: ``(p, 1 - p) -> phi``, arrays of one shape.
        kernel: ``(k, n) -> kernel`` for cells with n of at least ``degree``.
        pushed_up_by: The prompts whose number limits the upper end: "dead", "mixed",
            "all-pass", "all-fail", "some-pass", or empty where that is not known; the others limit the lower end.
    """

    name: str
    degree: int
    phi: Callable[[Floats, Floats], Floats]
    kernel: Callable[[Floats, Floats], Floats]
    pushed_up_by: str


def all_pass(group_size: int) -> Functional:
    """All-pass share ``E[p**G]``."""
    return Functional(
        name=f"all-pass({group_size})",
        degree=group_size,
        phi=lambda p, q: power(p, q, group_size),
        kernel=lambda k, n: subgroup_all_pass(k, n, group_size),
        pushed_up_by="all-pass",
    )


def all_fail(group_size: int) -> Functional:
    """All-fail share ``E[(1 - p)**G]``."""
    return Functional(
        name=f"all-fail({group_size})",
        degree=group_size,
        phi=lambda p, q: power(q, p, group_size),
        kernel=lambda k, n: subgroup_all_fail(k, n, group_size),
        pushed_up_by="all-fail",
    )


def dead(group_size: int) -> Functional:
    """Dead fraction ``E[p**G + (1 - p)**G]``."""
    return Functional(
        name=f"dead({group_size})",
        degree=group_size,
        phi=lambda p, q: np.minimum(power(p, q, group_size) + power(q, p, group_size), 1.0),
        kernel=lambda k, n: np.minimum(subgroup_all_pass(k, n, group_size) + subgroup_all_fail(k, n, group_size), 1.0),
        pushed_up_by="dead",
    )


GROUP_FAMILIES: dict[str, Callable[[int], Functional]] = {"dead": dead, "all-pass": all_pass, "all-fail": all_fail}


def custom(function: Callable[[Floats], NDArray[Any]], name: str, pushed_up_by: str = "") -> Functional:
    """Mean of any function of the pass rate; it has no kernel."""

    def phi(p: Floats, q: Floats) -> Floats:
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused with its name
                return np.broadcast_to(np.asarray(function(p.copy()), dtype=np.float64), p.shape)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise DomainError(
                f"{name}: the function must take an array of pass rates and give as many numbers ({error}). Use "
                "np.where instead of if."
            ) from None

    def kernel(k: Floats, n: Floats) -> Floats:
        raise NotImplementedError(name)

    return Functional(name=name, degree=1, phi=phi, kernel=kernel, pushed_up_by=pushed_up_by)


def stopping_cost(max_group_size: int) -> Functional:
    """Rollouts until both outcomes are seen, at most G: ``1 + sum of D(t) over t < G``."""
    g = max_group_size

    def phi(p: Floats, q: Floats) -> Floats:
        return 1.0 + power_sum(p, q, g) + power_sum(q, p, g)

    def kernel(k: Floats, n: Floats) -> Floats:
        total = np.ones(np.broadcast(k, n).shape)
        for t in range(1, g):
            total = total + (1.0 if t == 1 else subgroup_all_pass(k, n, t) + subgroup_all_fail(k, n, t))
        return total

    # degree 1: no raised threshold far beyond n, since most of the sum is near and the cost must not fall with G
    return Functional(name=f"stopping cost({g})", degree=1, phi=phi, kernel=kernel, pushed_up_by="dead")


def jensen_gap(group_size: int, mean: float) -> Functional:
    """``D(G) - d_G(pbar)``, linear in F once the second term is replaced by its tangent at ``mean``."""
    g = group_size
    base = np.array([mean]), np.array([1.0 - mean])
    level = float(dead(g).phi(*base)[0])
    slope = g * float((power(*base, g - 1) - power(base[1], base[0], g - 1))[0])

    def phi(p: Floats, q: Floats) -> Floats:
        return dead(g).phi(p, q) - level - slope * (p - mean)

    def kernel(k: Floats, n: Floats) -> Floats:
        return dead(g).kernel(k, n) - level - slope * (k / n - mean)

    return Functional(name=f"jensen gap({g})", degree=g, phi=phi, kernel=kernel, pushed_up_by="dead")


def power_sum(p: Floats, q: Floats, group_size: int) -> Floats:
    """``p + p**2 + ... + p**(G-1) = p (1 - p**(G-1)) / q``; G - 1 at q = 0.

    >>> power_sum(np.array([0.5, 1.0]), np.array([0.5, 0.0]), 3).tolist()
    [0.75, 2.0]
    """
    terms = group_size - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(p < 0.5, np.log(p), np.log1p(-np.minimum(q, 0.5)))
        closed = p * -np.expm1(terms * logs) / q
    value: Floats = np.where(q * group_size < 1e-9, terms, closed)
    return value if terms > 0 else np.zeros_like(p)
