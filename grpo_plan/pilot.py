"""Pilot: passes per prompt from rollouts of one policy, and the (n, k) histogram that everything is fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.provenance import Provenance

DENSE_CELLS = 4_000_000
MAX_ROLLOUTS_PER_PROMPT = 10_000_000
PER_PROMPT = ("prompt_id", "stratum", "temperature", "response_tokens", "pass_tokens", "fail_tokens")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PilotHistogram:
    """Unique (n, k) cells of a pilot, in order of n, then k.

    Attributes:
        rollouts: n of each cell, shape (C,).
        successes: k of each cell, shape (C,).
        prompts: Number of prompts in each cell, shape (C,).
    """

    rollouts: NDArray[np.int64]
    successes: NDArray[np.int64]
    prompts: NDArray[np.int64]

    @property
    def total_prompts(self) -> int:
        """Number of prompts M."""
        return int(self.prompts.sum())

    @property
    def max_rollouts(self) -> int:
        """Largest n."""
        return int(self.rollouts.max())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pilot:
    """Rollouts of one policy on M prompts, reduced to counts.

    Attributes:
        successes: k, passes of each prompt, shape (M,).
        rollouts: n, scored rollouts of each prompt, shape (M,), at least 1.
        prompt_id: Name of each prompt, shape (M,), or None.
        stratum: Named part of each prompt (dataset, level, ...), shape (M,), or None.
        temperature: Sampling temperature of each prompt's rollouts, shape (M,), or None.
        response_tokens: Mean response length of each prompt's rollouts in tokens, shape (M,), or None.
        pass_tokens: Mean response length of each prompt's right rollouts, NaN where none has one; shape (M,), or None.
        fail_tokens: The same of its wrong rollouts.
        dropped: What was read and left out, by reason, in rows (``prompts_...`` counts prompts).
        notes: How the source was read, one sentence each.
        provenance: What was read: format, files, groups, steps; and whether dead groups are missing.
    """

    successes: NDArray[np.int64]
    rollouts: NDArray[np.int64]
    prompt_id: NDArray[np.object_] | None = None
    stratum: NDArray[np.object_] | None = None
    temperature: NDArray[np.float64] | None = None
    response_tokens: NDArray[np.float64] | None = None
    pass_tokens: NDArray[np.float64] | None = None
    fail_tokens: NDArray[np.float64] | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)

    @classmethod
    def from_counts(
        cls,
        successes: ArrayLike,
        rollouts: ArrayLike,
        *,
        prompt_id: ArrayLike | None = None,
        stratum: ArrayLike | None = None,
        temperature: ArrayLike | None = None,
        response_tokens: ArrayLike | None = None,
        pass_tokens: ArrayLike | None = None,
        fail_tokens: ArrayLike | None = None,
        dropped: Mapping[str, int] | None = None,
        notes: tuple[str, ...] = (),
        provenance: Provenance | None = None,
    ) -> Pilot:
        """A pilot from k and n of each prompt.

        Args:
            successes: k of each prompt, shape (M,), whole numbers in [0, n].
            rollouts: n of each prompt, shape (M,), or one number for all. Prompts with n = 0 are left out
                and counted in ``dropped``.
            prompt_id: Names, shape (M,).
            stratum: Named part of each prompt, shape (M,).
            temperature: Sampling temperature, shape (M,) or one number.
            response_tokens: Mean response length in tokens, shape (M,).
            pass_tokens: Mean length of right rollouts, shape (M,), NaN where unknown.
            fail_tokens: Mean length of wrong rollouts, shape (M,), NaN where unknown.
            dropped: Rows already left out, by reason.
            notes: How the source was read.
            provenance: What was read.

        Raises:
            PilotError: k > n, a negative or fractional count, a negative length in tokens, arrays of other lengths, or
                no prompt with a rollout.

        >>> pilot = Pilot.from_counts([0, 3, 8], 8)
        >>> pilot.prompts, pilot.mean_pass_rate
        (3, 0.4583333333333333)
        """
        k = _counts(successes, "successes")
        n = (
            np.broadcast_to(_counts(rollouts, "rollouts"), k.shape)
            if np.ndim(rollouts) == 0
            else _counts(rollouts, "rollouts")
        )
        if n.shape != k.shape:
            raise PilotError(f"successes and rollouts must have one length; got {k.size} and {n.size}.")
        over = np.flatnonzero(k > n)
        if over.size:
            i = int(over[0])
            raise PilotError(
                f"successes must not exceed rollouts; got k = {k[i]} of n = {n[i]} at index {i} "
                f"({over.size} of {k.size} prompts). Swapped columns?"
            )
        if n.size and int(n.max()) > MAX_ROLLOUTS_PER_PROMPT:
            raise PilotError(
                f"rollouts must be at most {MAX_ROLLOUTS_PER_PROMPT:,} a prompt; got {int(n.max()):,} at index "
                f"{int(n.argmax())}."
            )
        keep = n > 0
        lost = dict(dropped or {})
        if not keep.all():
            key = "prompts_without_scored_rollouts"
            lost[key] = lost.get(key, 0) + int((~keep).sum())
        if not keep.any():
            raise PilotError(
                "A pilot needs at least one prompt with a scored rollout; got none"
                + (f" ({', '.join(f'{reason}: {count:,}' for reason, count in lost.items())})." if lost else ".")
            )
        columns: dict[str, Any] = {
            "prompt_id": _labels(prompt_id, "prompt_id", k.size),
            "stratum": _labels(stratum, "stratum", k.size),
            "temperature": _numbers(temperature, "temperature", k.size),
            "response_tokens": _lengths(response_tokens, "response_tokens", k.size),
            "pass_tokens": _lengths(pass_tokens, "pass_tokens", k.size),
            "fail_tokens": _lengths(fail_tokens, "fail_tokens", k.size),
        }
        kept = {name: _lock(c[keep]) if c is not None else None for name, c in columns.items()}
        return cls(
            successes=_lock(k[keep]),
            rollouts=_lock(n[keep]),
            dropped=lost,
            notes=tuple(notes),
            provenance=provenance or Provenance(),
            **kept,
        )

    def __repr__(self) -> str:
        """Size and mean, not the arrays."""
        return (
            f"Pilot(prompts={self.prompts}, total_rollouts={self.total_rollouts}, "
            f"mean_pass_rate={self.mean_pass_rate:.4f}, dropped={dict(self.dropped)})"
        )

    @property
    def filtered(self) -> str | None:
        """Why dead groups are missing from the source, or None if it holds all groups."""
        return self.provenance.filtered

    @property
    def prompts(self) -> int:
        """Number of prompts M."""
        return int(self.successes.size)

    @property
    def total_rollouts(self) -> int:
        """Number of scored rollouts, all prompts together."""
        return int(self.rollouts.sum())

    @property
    def mean_pass_rate(self) -> float:
        """Mean over prompts of k/n: unbiased for the mean of F also when n differs."""
        h = self.histogram()  # summed by cells, so that the order of prompts does not matter
        return float(h.prompts @ (h.successes / h.rollouts)) / h.total_prompts

    @property
    def strata(self) -> tuple[str, ...]:
        """Names of the strata in order of first appearance; empty if there are none."""
        return () if self.stratum is None else tuple(dict.fromkeys(str(s) for s in self.stratum))

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Distinct known temperatures in rising order; empty if unknown."""
        if self.temperature is None:
            return ()
        return tuple(float(t) for t in np.unique(self.temperature) if np.isfinite(t))

    def histogram(self) -> PilotHistogram:
        """Unique (n, k) cells; cost O(M) once, and everything after it does not grow with M."""
        width = int(self.rollouts.max()) + 1
        key = self.rollouts * width + self.successes
        if width * width <= DENSE_CELLS:
            counts = np.bincount(key)
            cells = np.flatnonzero(counts)
            prompts = counts[cells]
        else:
            cells, prompts = np.unique(key, return_counts=True)
        n, k = np.divmod(cells, width)
        return PilotHistogram(rollouts=_lock(n), successes=_lock(k), prompts=_lock(prompts.astype(np.int64)))

    def by_stratum(self) -> dict[str, Pilot]:
        """The part of the pilot of each stratum, in order of first appearance."""
        if self.stratum is None:
            return {}
        names, index = np.unique([str(s) for s in self.stratum], return_inverse=True)
        order = np.argsort(index, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(index))[:-1])
        parts = {str(name): self._subset(rows) for name, rows in zip(names, groups, strict=True)}
        return {name: parts[name] for name in self.strata}

    def select(self, *, stratum: str | None = None, temperature: float | None = None) -> Pilot:
        """The part of the pilot of one stratum, one temperature, or both.

        Raises:
            PilotError: The pilot has no such part; the message lists what it has.
        """
        mask = np.ones(self.prompts, dtype=bool)
        if stratum is not None:
            if self.stratum is None or stratum not in self.strata:
                raise PilotError(f"stratum must be one of the pilot's {_listed(self.strata)}; got {stratum!r}.")
            mask &= np.array([str(s) == stratum for s in self.stratum])
        if temperature is not None:
            if self.temperature is None or not np.any(self.temperature == temperature):
                raise PilotError(
                    f"temperature must be one of the pilot's {_listed(self.temperatures)}; got {temperature!r}."
                )
            mask &= self.temperature == temperature
        if not mask.any():
            raise PilotError(f"The pilot has no prompt of stratum {stratum!r} at temperature {temperature}.")
        return self._subset(np.flatnonzero(mask))

    def _subset(self, rows: NDArray[np.intp]) -> Pilot:
        columns: dict[str, Any] = {name: getattr(self, name) for name in PER_PROMPT}
        parts = {name: column[rows] if column is not None else None for name, column in columns.items()}
        return Pilot.from_counts(
            self.successes[rows],
            self.rollouts[rows],
            **parts,
            dropped=self.dropped,
            notes=self.notes,
            provenance=self.provenance,
        )


def _counts(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array: NDArray[Any] = np.asarray(values) if isinstance(values, np.ndarray) else _as_numbers(values, name)
    if array.ndim > 1:
        raise PilotError(f"{name} must be one-dimensional, one value a prompt; got shape {array.shape}.")
    if array.dtype.kind != "i":
        array = _as_numbers(array, name)
    if array.dtype.kind == "i":
        bad = np.atleast_1d(array < 0)
    else:
        with np.errstate(invalid="ignore"):
            bad = np.atleast_1d(~((array >= 0) & (array <= 2**53) & (array == np.floor(array))))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise PilotError(
            f"{name} must be whole numbers of at least 0; got {float(np.atleast_1d(array)[first]):g} at index {first} "
            f"({int(bad.sum())} of {array.size})."
        )
    return array.astype(np.int64)


def _as_numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return as_float_array(values, name)
    except DomainError as error:
        raise PilotError(str(error)) from None


def _labels(values: ArrayLike | None, name: str, size: int) -> NDArray[np.object_] | None:
    if values is None:
        return None
    array = np.empty(size, dtype=object)
    items = list(values) if not isinstance(values, str | int | float) else [values]  # type: ignore[arg-type]
    if len(items) != size:
        raise PilotError(f"{name} must have one value a prompt ({size}); got {len(items)}.")
    array[:] = items
    return array


def _numbers(values: ArrayLike | None, name: str, size: int) -> NDArray[np.float64] | None:
    if values is None:
        return None
    array = as_float_array(values, name)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise PilotError(f"{name} must have one value a prompt ({size}); got shape {array.shape}.")
    return array


def _lengths(values: ArrayLike | None, name: str, size: int) -> NDArray[np.float64] | None:
    """Lengths in tokens: at least 0, NaN where unknown."""
    array = _numbers(values, name, size)
    if array is None:
        return None
    array = np.where(np.isfinite(array), array, np.nan)
    low = np.flatnonzero(array < 0.0)
    if low.size:
        raise PilotError(f"{name} must be at least 0; got {array[low[0]]:g} at index {int(low[0])}.")
    return array


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(str(v) for v in values) if values else "(none)"
