"""Pilot: passes per prompt from rollouts of one policy, and the (n, k) histogram that everything is fitted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._pooling import PER_PROMPT, pooled, refuse_other_policies, refuse_other_selection, summed
from grpo_plan._rows import MAX_ROLLOUTS_PER_PROMPT as MAX_ROLLOUTS_PER_PROMPT
from grpo_plan._rows import counts_of, labels_of, lengths_of, numbers_of, passes_and_rollouts
from grpo_plan._shown import Shown
from grpo_plan._suggest import not_one_of
from grpo_plan.errors import PilotError
from grpo_plan.provenance import Provenance, merged

DENSE_CELLS = 4_000_000
MAX_ROLLOUTS = 2**53  # in all: what floating-point numbers count exactly


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PilotHistogram(Shown):
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
class Pilot(Shown):
    """Rollouts of one policy on M prompts, reduced to counts.

    A row is a prompt. In a histogram (`from_histogram`) a row is a cell, and stands for ``prompt_count`` prompts alike.

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
        prompt_count: Prompts behind each row, at least 1; None if a row is a prompt.
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
    prompt_count: NDArray[np.int64] | None = None

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
        k, n = passes_and_rollouts(successes, rollouts)
        columns: dict[str, Any] = {
            "prompt_id": labels_of(prompt_id, "prompt_id", k.size),
            "stratum": labels_of(stratum, "stratum", k.size),
            "temperature": numbers_of(temperature, "temperature", k.size),
            "response_tokens": lengths_of(response_tokens, "response_tokens", k.size),
            "pass_tokens": lengths_of(pass_tokens, "pass_tokens", k.size),
            "fail_tokens": lengths_of(fail_tokens, "fail_tokens", k.size),
        }
        return cls._of_rows(k, n, columns, None, dropped, notes, provenance)

    @classmethod
    def from_histogram(
        cls,
        rollouts: ArrayLike,
        successes: ArrayLike,
        prompts: ArrayLike,
        *,
        stratum: ArrayLike | None = None,
        temperature: ArrayLike | None = None,
        dropped: Mapping[str, int] | None = None,
        notes: tuple[str, ...] = (),
        provenance: Provenance | None = None,
    ) -> Pilot:
        """A pilot from the number of prompts in each (n, k) cell; its size does not grow with the prompts.

        Every answer is that of the same prompts one by one, but for those that need their names (pairing
        temperatures by prompt, allocating rollouts) or their response lengths.

        Args:
            rollouts: n of each cell, shape (C,), or one number for all. Cells with n = 0 are left out, and their
                prompts counted in ``dropped``.
            successes: k of each cell, shape (C,), whole numbers in [0, n].
            prompts: Prompts in each cell, shape (C,), whole numbers. Cells without a prompt are left out; cells that
                occur twice add up.
            stratum: Named part of each cell, shape (C,).
            temperature: Sampling temperature, shape (C,) or one number.
            dropped: Rows already left out, by reason.
            notes: How the source was read.
            provenance: What was read.

        Raises:
            PilotError: k > n, a negative or fractional count, arrays of other lengths, more than 2**53 rollouts in
                all, or no prompt with a rollout.

        >>> pilot = Pilot.from_histogram([8, 8, 4], [0, 3, 4], [600_000_000, 250_000_000, 150_000_000])
        >>> pilot.prompts, pilot.mean_pass_rate
        (1000000000, 0.24375)
        """
        k, n = passes_and_rollouts(successes, rollouts)
        count = counts_of(prompts, "prompts")
        if count.shape != k.shape:
            raise PilotError(f"successes and prompts must have one length; got {k.size} and {count.size}.")
        columns: dict[str, Any] = {
            "stratum": labels_of(stratum, "stratum", k.size),
            "temperature": numbers_of(temperature, "temperature", k.size),
        }
        return cls._of_rows(k, n, columns, count, dropped, notes, provenance)

    @classmethod
    def _of_rows(
        cls,
        k: NDArray[np.int64],
        n: NDArray[np.int64],
        columns: Mapping[str, Any],
        count: NDArray[np.int64] | None,
        dropped: Mapping[str, int] | None,
        notes: tuple[str, ...],
        provenance: Provenance | None,
    ) -> Pilot:
        """The rows that have a rollout and a prompt; those without a rollout are counted."""
        keep = n > 0 if count is None else (n > 0) & (count > 0)
        lost = dict(dropped or {})
        empty = int((n == 0).sum() if count is None else count[n == 0].sum())
        if empty:
            key = "prompts_without_scored_rollouts"
            lost[key] = lost.get(key, 0) + empty
        if not keep.any():
            lost_in_words = [f"{reason.replace('_', ' ')}: {rows:,}" for reason, rows in lost.items()]
            raise PilotError(
                "A pilot needs at least one prompt with a scored rollout; got none"
                + (f" ({', '.join(lost_in_words)})." if lost else ".")
            )
        if count is not None and float(count[keep].astype(np.float64) @ n[keep]) > MAX_ROLLOUTS:
            raise PilotError(
                f"rollouts times prompts must be at most 2**53 in all; got {float(count.astype(np.float64) @ n):.3g}. "
                "Is the number of prompts right?"
            )
        kept = {name: _lock(c[keep]) for name, c in columns.items() if c is not None}
        return cls(
            successes=_lock(k[keep]),
            rollouts=_lock(n[keep]),
            prompt_count=None if count is None else _lock(count[keep]),
            dropped=lost,
            notes=tuple(notes),
            provenance=provenance or Provenance(),
            **kept,
        )

    @classmethod
    def merge(cls, *pilots: Pilot) -> Pilot:
        """One pilot of several, e.g. of the shards of a job.

        Rows of one prompt (the same name, stratum and temperature) add up, within a pilot too; prompts without a name,
        or named ``row 1``, ``row 2`` by the reader, stay apart. So shards without names must not share prompts.
        Lengths are averaged over rollouts; the length of a prompt is unknown (NaN) where one of its shards does not
        know it. In any order and any grouping the answer is the same, but for the order of rows.

        Args:
            *pilots: One or more pilots of one policy: all with a row a prompt, or all histograms (`as_histogram`).

        Raises:
            PilotError: No pilot, pilots of different policies, or some histograms and some not.

        >>> first = Pilot.from_counts([1, 0], 4, prompt_id=["a", "b"])
        >>> second = Pilot.from_counts([3, 2], 4, prompt_id=["b", "c"])
        >>> pilot = Pilot.merge(first, second)
        >>> list(zip(pilot.prompt_id, pilot.successes.tolist(), pilot.rollouts.tolist(), strict=True))
        [('a', 1, 4), ('b', 3, 8), ('c', 2, 4)]
        """
        if not pilots or not all(isinstance(p, Pilot) for p in pilots):
            given = ", ".join(type(p).__name__ for p in pilots) or "nothing"
            raise PilotError(f"Pilot.merge takes one or more pilots, as in Pilot.merge(a, b, c); got {given[:60]}.")
        refuse_other_policies([p.provenance for p in pilots])
        refuse_other_selection([p.provenance for p in pilots])
        if len({p.is_histogram for p in pilots}) > 1:
            raise PilotError(
                "Some pilots are histograms and some have a row a prompt, so prompts of both could not be added up. "
                "Read all of one kind, or drop the names with pilot.as_histogram() where no prompt is in two pilots."
            )
        dropped = Counter[str]()
        for pilot in pilots:
            dropped.update(pilot.dropped)
        columns = summed(pilots) if pilots[0].is_histogram else pooled(pilots)
        build = cls.from_histogram if pilots[0].is_histogram else cls.from_counts
        return build(
            **columns,
            dropped=dropped,
            notes=tuple(dict.fromkeys(note for p in pilots for note in p.notes)),
            provenance=merged([p.provenance for p in pilots]),
        )

    def as_histogram(self) -> Pilot:
        """The pilot without names of prompts and lengths: one row a cell (n, k, stratum, temperature).

        >>> pilot = Pilot.from_counts([0, 3, 0], 8, prompt_id=["a", "b", "c"]).as_histogram()
        >>> pilot.prompt_count.tolist(), pilot.successes.tolist(), pilot.prompts
        ([2, 1], [0, 3], 3)
        """
        return Pilot.from_histogram(
            **summed([self]), dropped=self.dropped, notes=self.notes, provenance=self.provenance
        )

    def __repr__(self) -> str:
        """Size and mean, not the arrays."""
        size = f"prompts={self.prompts}, total_rollouts={self.total_rollouts}"
        return f"Pilot({size}, mean_pass_rate={self.mean_pass_rate:.4f}, dropped={dict(self.dropped)})"

    @property
    def filtered(self) -> str | None:
        """Why dead groups are missing from the source, or None if it holds all groups."""
        return self.provenance.filtered

    @property
    def prompts(self) -> int:
        """Number of prompts M."""
        return int(self.successes.size if self.prompt_count is None else self.prompt_count.sum())

    @property
    def is_histogram(self) -> bool:
        """Whether a row stands for all prompts alike, and not for one."""
        return self.prompt_count is not None

    @property
    def prompts_per_row(self) -> NDArray[np.int64]:
        """Prompts behind each row: ``prompt_count``, or ones."""
        return np.ones(self.successes.size, dtype=np.int64) if self.prompt_count is None else self.prompt_count

    @property
    def total_rollouts(self) -> int:
        """Number of scored rollouts, all prompts together."""
        return int(self.rollouts @ self.prompts_per_row)

    @property
    def median_rollouts(self) -> float:
        """Median n over prompts.

        >>> Pilot.from_histogram([2, 4, 8], [0, 1, 2], [1, 2, 3]).median_rollouts
        6.0
        """
        order = np.argsort(self.rollouts, kind="stable")
        upto, sizes = np.cumsum(self.prompts_per_row[order]), self.rollouts[order]
        middle = np.searchsorted(upto, [(self.prompts - 1) // 2, self.prompts // 2], side="right")
        return float(sizes[middle].mean())

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
            counts = np.bincount(key, weights=self.prompt_count)  # exact: MAX_ROLLOUTS bounds every sum
            cells = np.flatnonzero(counts)
            prompts = counts[cells]
        elif self.prompt_count is None:
            cells, prompts = np.unique(key, return_counts=True)
        else:
            cells, index = np.unique(key, return_inverse=True)
            prompts = np.bincount(index, weights=self.prompt_count)
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
        mask = np.ones(self.successes.size, dtype=bool)
        if stratum is not None:
            if self.stratum is None or stratum not in self.strata:
                raise PilotError(not_one_of("stratum", stratum, self.strata, "the pilot's "))
            mask &= np.array([str(s) == stratum for s in self.stratum])
        if temperature is not None:
            if self.temperature is None or not np.any(self.temperature == temperature):
                raise PilotError(not_one_of("temperature", temperature, self.temperatures, "the pilot's "))
            mask &= self.temperature == temperature
        if not mask.any():
            raise PilotError(f"The pilot has no prompt of stratum {stratum!r} at temperature {temperature}.")
        return self._subset(np.flatnonzero(mask))

    def _subset(self, rows: NDArray[np.intp]) -> Pilot:
        columns: dict[str, Any] = {name: getattr(self, name) for name in PER_PROMPT}
        count = None if self.prompt_count is None else self.prompt_count[rows]
        parts = {name: column[rows] for name, column in columns.items() if column is not None}
        return self._of_rows(
            self.successes[rows], self.rollouts[rows], parts, count, self.dropped, self.notes, self.provenance
        )


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy
