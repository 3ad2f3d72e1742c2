"""`read_independence`: any table of rollouts or counts to checks of Assumption A, with the columns of `read_pilot`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level
from grpo_plan.errors import PilotFormatError
from grpo_plan.independence import DuplicateCheck, IndependenceCheck, IndependenceVerdict, SequenceCheck
from grpo_plan.independence.duplicates import digests, duplicates_of_digests
from grpo_plan.independence.sequences import check_ordered
from grpo_plan.independence.sessions import MAX_SESSIONS, check_independence
from grpo_plan.pilot import Pilot
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import KEYS, Place, ReadOptions, Tally, count_rewards, long_cells, wide_cells
from grpo_plan.readers.jsonlines import flatten_lists, refuse_other_lengths, spread
from grpo_plan.readers.pilot_reader import read_into
from grpo_plan.readers.values import number_of, rewards_of, shown, texts_of

MANY_REPEATS = 0.1  # share of the rollouts whose text repeats from which the texts are in doubt
SEPARATOR = "\x1f"  # between the parts of a prompt's key; no text uses it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class IndependenceReport(Shown):
    """Checks of one source.

    Attributes:
        pilot: The same rollouts as a Pilot.
        sessions: Check by the named column of sessions; None without one.
        sequence: Check by the order of rollouts, where no session was named; None if it was.
        duplicates: Equal completion texts; None if no column of texts was named.
        notes: What was left out of these checks, one sentence each.
    """

    pilot: Pilot
    sessions: IndependenceCheck | None
    sequence: SequenceCheck | None
    duplicates: DuplicateCheck | None
    notes: tuple[str, ...]

    @property
    def verdict(self) -> IndependenceVerdict:
        """The gravest of the checks made."""
        made = self.sessions or self.sequence
        found = IndependenceVerdict.TOO_FEW if made is None else made.verdict
        if self.duplicates is not None and self.duplicates.share >= MANY_REPEATS and not found.alarm:
            return IndependenceVerdict.REPEATED
        return found

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each check in words."""
        return tuple(c.sentence for c in (self.sessions, self.sequence, self.duplicates) if c is not None)

    def __str__(self) -> str:
        """The verdict and the checks, without the arrays."""
        return "\n".join((self.verdict.name, *self.sentences, *self.notes))


def read_independence(
    source: object,
    *,
    session: str | None = None,
    text: str | None = None,
    order: bool = True,
    level: float = 0.95,
    prompt: str | None = None,
    reward: str | None = None,
    n: str | None = None,
    k: str | None = None,
    pass_rate: str | None = None,
    fail_rate: str | None = None,
    stratum: str | None = None,
    temperature: str | None = None,
    response_tokens: str | None = None,
    policy: str | None = None,
    pass_threshold: float | None = None,
    rollouts_per_prompt: int | None = None,
    where: Mapping[str, str | float | Sequence[str]] | None = None,
    skip_malformed: bool | int = False,
    progress: Callable[[int], None] | None = None,
    format: str | None = None,
    reward_weights: Mapping[str, float] | None = None,
    split: str = "train",
    policy_steps: tuple[int | None, int | None] | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    weak_prior: str | None = None,
    groups_apart: bool = False,
) -> IndependenceReport:
    """Read rollouts or counts and check that the rollouts of a prompt are independent.

    With ``session`` rollouts are compared by that column (a run, seed, half, epoch, ...), in tables of rollouts,
    of counts (one row a prompt and session) or of lists (one session a row, or a list of them beside the rewards).
    Without it rollouts are compared by their order: that of the list, or that of the rows in the source.

    Args:
        source: What to read, as in `read_pilot`.
        session: Column of the session; never guessed.
        text: Column of the completion text; equal texts of a prompt are counted, none is kept.
        order: Whether to compare rollouts by their order where no session is named; rows must be in that order.
        level: Confidence level.
        prompt: As in `read_pilot`, and so for all that follow.
        reward: Column of the reward, or of the list of rewards.
        n: Column of the rollouts.
        k: Column of the passes.
        pass_rate: Column of the pass rate.
        fail_rate: Column of the share of failures.
        stratum: Column of the named part; equal prompt names in two parts are two prompts.
        temperature: Column of the sampling temperature; each is a prompt of its own.
        response_tokens: Column of the response length.
        policy: Column of the model.
        pass_threshold: A rollout passes when its reward is at least this.
        rollouts_per_prompt: n of every row of counts, when no column has it.
        where: Keep rows whose column equals the value (or one of the values).
        skip_malformed: Drop malformed JSON lines.
        progress: Called with the number of bytes of each block read.
        format: Name of a format.
        reward_weights: Reward functions to sum.
        split: Rows of training or of evaluation.
        policy_steps: First and last training step to keep; None leaves an end open.
        workers: As in `read_pilot`; here rows are read in order, by one process.
        storage_options: Credentials and settings of addresses.
        groups_apart: Whether groups of one prompt are not added up, as in `read_pilot`.
        weak_prior: Model of the rollouts, if another than the one to be trained.

    Raises:
        PilotFormatError: The source cannot be read, or holds neither sessions nor an order.
        DomainError: An option is outside its domain.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"prompt": 30 * ["a", "b"], "seed": 20 * [0] + 40 * [1], "reward": 30 * [1, 0]})
    >>> report = read_independence(rows, session="seed")
    >>> report.verdict.name, report.sessions.names
    ('TOO_FEW', ('0', '1'))
    """
    given = {
        "prompt": prompt, "reward": reward, "n": n, "k": k, "pass_rate": pass_rate, "fail_rate": fail_rate,
        "stratum": stratum, "temperature": temperature, "response_tokens": response_tokens, "policy": policy,
        "session": session, "text": text,
    }  # fmt: skip
    request = request_of(
        given, pass_threshold=pass_threshold, rollouts_per_prompt=rollouts_per_prompt, where=where,
        skip_malformed=skip_malformed, format=format, reward_weights=reward_weights, split=split,
        policy_steps=policy_steps, progress=progress, weak_prior=weak_prior, workers=workers,
        storage_options=storage_options, groups_apart=groups_apart,
    )  # fmt: skip
    level = as_level(level)
    by_order = order and session is None
    seen = _Seen(ordering=by_order)
    pilot = read_into(Tally(observer=seen.take), source, request)
    return IndependenceReport(
        pilot=pilot,
        sessions=None if session is None else seen.by_session(session, level),
        sequence=check_ordered(seen.prompts(), seen.passes(), level=level) if by_order else None,
        duplicates=None if text is None else seen.duplicates(),
        notes=tuple(seen.notes),
    )


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What the checks need of the rows: counts by session, or passes in order, and hashes of texts."""

    ordering: bool = True
    numbers: dict[str, int] = field(default_factory=dict)
    cells: Tally = field(default_factory=Tally)
    ordered: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = field(default_factory=list)
    hashes: list[tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.bool_]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(
        self, columns: Mapping[str, Sequence[Any]], roles: ColumnMap, options: ReadOptions, place: Place, tally: Tally
    ) -> None:
        """Take in a batch that the tally has just counted, so that its values are known to be valid."""
        scratch = Tally(rows=tally.rows)
        rows = dict(columns)
        if roles.shape == "lists":
            for role in ("session", "text"):
                if role in columns:
                    refuse_other_lengths(columns, role, place, f"the list of {role}s")
            flat, row_of = flatten_lists(columns, roles, place, scratch)
            rows = flat | {r: spread(columns[r], row_of) for r in ("session", "text") if r in columns}
        size = len(next(iter(rows.values())))
        if roles.shape == "wide":
            if "text" in columns:
                raise PilotFormatError(
                    f"{place(0)}: a row of counts has no completion text. Leave out --text-column (text=), or give one "
                    "row a rollout."
                )
            rows.setdefault("prompt", [f"row {tally.rows + i + 1}" for i in range(size)])
        keys = _keys(rows, size)
        if "session" in rows:
            split = {**rows, "prompt": keys, "stratum": rows["session"]}
            count = wide_cells if roles.shape == "wide" else long_cells
            self.cells.add(count(split, roles, options, place, scratch))
        elif not self.ordering:
            pass
        elif roles.shape == "wide":
            raise PilotFormatError(
                f"{place(0)}: counts do not say in which order rollouts were drawn. Name the column of their run, "
                "seed or half with --session-column (session=)."
            )
        else:
            scored, passed, _ = count_rewards(rewards_of(rows["reward"]), options.pass_threshold, place, "reward")
            codes = self._codes(keys)
            kept = scored & (codes >= 0)
            self.ordered.append((codes[kept], passed[kept]))
        if "text" in rows:
            texts = texts_of(rows["text"])
            missing = np.array([t is None for t in texts], dtype=bool)
            self.hashes.append((self._codes(keys), digests(texts), missing))

    def _codes(self, keys: Sequence[str | None]) -> NDArray[np.int64]:
        numbers = self.numbers
        codes = [-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys]
        return np.array(codes, dtype=np.int64)

    def prompts(self) -> NDArray[np.int64]:
        """Number of the prompt of each scored rollout, in order."""
        return np.concatenate([codes for codes, _ in self.ordered])

    def passes(self) -> NDArray[np.bool_]:
        """Whether each of them passed."""
        return np.concatenate([passed for _, passed in self.ordered])

    def duplicates(self) -> DuplicateCheck:
        """Equal texts of a prompt."""
        codes, hashes, missing = (np.concatenate(part) for part in zip(*self.hashes, strict=True))
        return duplicates_of_digests(codes, hashes, missing)

    def by_session(self, column: str, level: float) -> IndependenceCheck:
        """Counts as a table of prompts and sessions, and their check."""
        import polars as pl

        cells = pl.concat(self.cells.parts).group_by(KEYS, maintain_order=True).agg(pl.col("n", "k").sum())
        cells = cells.filter(pl.col("n") > 0)
        lost = int(cells.filter(pl.col("stratum").is_null())["n"].sum())
        if lost:
            self.notes.append(f"{lost:,} rollouts have no {column} and are left out of the check of sessions.")
            cells = cells.filter(pl.col("stratum").is_not_null())
        names = sorted(cells["stratum"].unique().to_list(), key=_natural)
        if len(names) < 2:
            found = f"one session ({shown(names)})" if names else "no session"
            raise PilotFormatError(
                f"Column {column!r} holds {found}; a check needs at least 2. Name another with --session-column "
                "(session=)."
            )
        if len(names) > MAX_SESSIONS:
            raise PilotFormatError(
                f"Column {column!r} takes {len(names):,} values, e.g. {shown(names, 3)}; a check takes at most "
                f"{MAX_SESSIONS:,} sessions. Name a run, seed or half, not a single rollout."
            )
        place = {name: i for i, name in enumerate(names)}
        rows = cells["prompt"].rank("dense").to_numpy().astype(np.int64) - 1
        where = rows * len(names) + cells["stratum"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
        size = (int(rows.max()) + 1) * len(names)
        n, k = (
            np.bincount(where, weights=cells[c].to_numpy(), minlength=size).reshape(-1, len(names)) for c in ("n", "k")
        )
        return check_independence(k, n, level=level, names=names)


def _keys(rows: Mapping[str, Sequence[Any]], size: int) -> list[str | None]:
    """A text that tells prompts apart: its name, part and temperature; None where the name is missing."""
    prompts = texts_of(rows["prompt"])
    extra = [texts_of(rows[role]) for role in ("stratum", "temperature") if role in rows]
    if not extra:
        return prompts
    return [
        None if prompts[i] is None else SEPARATOR.join([prompts[i] or "", *(column[i] or "" for column in extra)])
        for i in range(size)
    ]


def _natural(name: str) -> tuple[float, str]:
    number = number_of(name)
    return (float("inf") if number is None else number, name)
