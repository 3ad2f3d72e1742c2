"""Advantages of an estimator under 0/1 rewards, for every count of passes, dead groups included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError
from grpo_plan.estimators import Estimator, get_estimator

MOST_ADVANTAGE = 1e50  # its square times the largest kappa, rate and damage stays finite
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = tuple[Floats, Floats]
PairFunction = Callable[[Floats, int], Table]
EstimatorLike = str | Estimator | PairFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What an estimator gives a pass and a fail.

    Attributes:
        name: Of the estimator.
        table: From a group size and the mean reward of a large batch to the advantages at k = 0..G, each shape
            (G + 1,); where a batch divides all of them by one number, that number is left out.
        batch: From the passes of each group of a batch, shape (N,), and G to the advantages of a pass and of a fail in
            each group, shape (N,).
    """

    name: str
    table: Callable[[int, float], Table]
    batch: Callable[[Ints, int], Table]


def pairs_of(estimator: EstimatorLike) -> Pairs:
    """The pairs of a name of the registry, of an Estimator, or of any function ``pair(k, G) -> (A+, A-)``.

    Raises:
        DomainError: No such estimator; or, when the table is asked for, a function that does not give two arrays of
            finite numbers.

    >>> [x.tolist() for x in pairs_of("dr_grpo").table(2, 0.5)]
    [[0.0, 0.5, 0.0], [0.0, -0.5, 0.0]]
    >>> [x.tolist() for x in pairs_of("sign").table(1, 0.5)]
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    if isinstance(estimator, str):
        estimator = get_estimator(estimator)
    if isinstance(estimator, Estimator):
        return _of_registry(estimator)
    if not callable(estimator):
        raise DomainError(
            f"estimator must be a name, an Estimator or a function pair(k, G) -> (A+, A-); got {str(estimator)[:40]!r}."
        )
    return _of_function(estimator)


def _of_registry(estimator: Estimator) -> Pairs:
    held: dict[int, Table] = {}

    def table(group_size: int, mean: float) -> Table:
        if estimator.batch:
            return _table(estimator.for_mean(mean), group_size)
        if group_size not in held:
            held[group_size] = _table(estimator, group_size)
        return held[group_size]

    def batch(passes: Ints, group_size: int) -> Table:
        if group_size > 1 and depends_on_batch(estimator):
            plus, minus = estimator.in_batch(passes.astype(np.float64), group_size)
            return np.where(np.isfinite(plus), plus, 0.0), np.where(np.isfinite(minus), minus, 0.0)
        plus, minus = table(group_size, float(passes.mean()) / group_size)
        return plus[passes], minus[passes]

    return Pairs(name=estimator.label, table=table, batch=batch)


def depends_on_batch(estimator: Estimator) -> bool:
    """Whether the advantages of a group depend on the rewards of others."""
    return estimator.batch or estimator.scale_of is not None


def _table(estimator: Estimator, group_size: int) -> Table:
    """A batch of equal rewards has no spread to divide by: there, and in centred groups of one, nothing is learned."""
    if group_size > 1:
        passed, failed = estimator.pair(group_size)
    elif estimator.centred:
        return np.zeros(2), np.zeros(2)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            passed, failed = (
                np.array(np.broadcast_to(x, 2), dtype=np.float64)
                for x in estimator.pair_of(np.arange(2.0), 1, estimator.parameters)
            )
        passed[0] = failed[1] = 0.0
    if estimator.batch:
        passed, failed = (np.where(np.isfinite(x), x, 0.0) for x in (passed, failed))
    _check(estimator.name, group_size, passed, failed)
    return passed, failed


def _of_function(function: PairFunction) -> Pairs:
    name = getattr(function, "__name__", "pair").strip("<>")
    held: dict[int, Table] = {}

    def table(group_size: int, mean: float) -> Table:
        if group_size not in held:
            plus, minus = _called(function, name, group_size)
            plus[0] = minus[group_size] = 0.0  # no such rollout
            _check(name, group_size, plus, minus)
            held[group_size] = plus, minus
        return held[group_size]

    def batch(passes: Ints, group_size: int) -> Table:
        plus, minus = table(group_size, 0.5)
        return plus[passes], minus[passes]

    return Pairs(name=name, table=table, batch=batch)


def _called(function: PairFunction, name: str, group_size: int) -> Table:
    """What a function of the user gives; whatever it raises becomes one line."""
    try:
        with np.errstate(all="ignore"):  # k = 0 and k = G divide by 0 in many formulas; what is kept must be finite
            given = function(np.arange(group_size + 1.0), group_size)
    except Exception as error:
        raise DomainError(
            f"{name} failed at G = {group_size}: {type(error).__name__}: {str(error)[:200]}. It is called as "
            f"pair(k, G) with the array k = 0..{group_size}, and must give the advantages of a pass and of a fail."
        ) from None
    sides = []
    try:
        for side in given:
            array = np.asarray(side)
            if array.dtype.kind not in "iufb" or array.shape not in ((), (group_size + 1,)):
                raise TypeError(array.shape)
            sides.append(np.array(np.broadcast_to(array, group_size + 1), dtype=np.float64))
    except (TypeError, ValueError):
        sides = []
    if len(sides) != 2:
        raise DomainError(
            f"{name} must give two arrays of {group_size + 1} numbers, an advantage for each of k = 0..{group_size}, "
            f"or two numbers; got {_shape_of(given)}."
        )
    return sides[0], sides[1]


def _shape_of(given: object) -> str:
    """What was given, in short."""
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if not isinstance(given, tuple | list):
        return type(given).__name__
    try:
        return f"{len(given)} of shapes {', '.join(str(np.shape(x)) for x in given[:3])}"
    except ValueError:
        return "lists of unequal lengths"


def _check(name: str, group_size: int, plus: Floats, minus: Floats) -> None:
    large = np.flatnonzero(
        np.isfinite(plus) & np.isfinite(minus) & (np.maximum(abs(plus), abs(minus)) > MOST_ADVANTAGE)
    )
    if large.size:
        raise DomainError(
            f"The advantages of {name} must be at most {MOST_ADVANTAGE:g} in size; at k = {large[0]} of {group_size} "
            f"they are {plus[large[0]]:g} and {minus[large[0]]:g}. Take a smaller weight: the optimiser sees ratios."
        )
    bad = np.flatnonzero(~(np.isfinite(plus) & np.isfinite(minus)))
    if bad.size:
        raise DomainError(
            f"The advantages of {name} must be finite; at k = {bad[0]} of {group_size} they are {plus[bad[0]]:g} and "
            f"{minus[bad[0]]:g}. Take another group size or estimator."
        )
