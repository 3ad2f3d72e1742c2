"""A plain table of rollouts with a training step: groups of rollouts by step and prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.group_log import GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.readers.candidates import look
from grpo_plan.readers.columns import (
    PROMPT_NAMES,
    REWARD_NAMES,
    ROW_OR_PROMPT_NAMES,
    STEP_NAMES,
    ColumnMap,
    Sample,
    find_columns,
)
from grpo_plan.readers.counting import Place, ReadOptions, Tally
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.group_details import LENGTH, TEXT, GroupDetails
from grpo_plan.readers.group_table import GroupTable
from grpo_plan.readers.groups_reader import log_of_groups
from grpo_plan.readers.jsonlines import flatten_lists, spread
from grpo_plan.readers.registry import TABLE
from grpo_plan.readers.request import DetailsAsked, ReadRequest
from grpo_plan.readers.selection import step_column
from grpo_plan.readers.sink import BROKEN_LINES
from grpo_plan.readers.tables import count_file
from grpo_plan.readers.values import number_of, text_of

GROUP_NAMES = ("group_id", "group")
TEXT_NAMES = ("completion", "completions", "response", "responses", "output", "generation", "completion_text")
OPTIMISER = frozenset(("grad_norm", "train/grad_norm", "learning_rate", "lr", "frac_reward_zero_std"))
FEWEST = 2  # rollouts a step and prompt, on average, that make a table one of groups
ALONE = 3  # the same where every step has one prompt and no text: a log that was taken up again repeats its steps
SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotGroups:
    """Why a table was not read as groups of rollouts.

    Attributes:
        reason: One line; empty where nothing speaks for rollouts.
    """

    reason: str = ""


def has_rollout_columns(columns: Iterable[str], reward: str | None = None) -> bool:
    """Whether columns are those of rollouts at training steps: a step, a prompt and a reward, and no optimiser.

    >>> has_rollout_columns(["step", "prompt_id", "completion", "reward"]), has_rollout_columns(["step", "reward"])
    (True, False)
    """
    names = {_plain(name) for name in columns}
    rewarded = bool(names & set(REWARD_NAMES)) or any(n.startswith("reward") for n in names) or reward is not None
    prompted = bool(names & {*PROMPT_NAMES, *ROW_OR_PROMPT_NAMES})
    return rewarded and prompted and bool(names & set(STEP_NAMES)) and not names & OPTIMISER


def groups_of_tables(files: Sequence[InputFile], request: ReadRequest) -> GroupLog | NotGroups:
    """The groups of tables whose rows are rollouts, or why they hold none."""
    reward = request.given.get("reward")
    columns: list[list[str]] = []
    for file in files:
        try:
            columns.append(list(look(file).columns))
        except PilotFormatError:
            return NotGroups()
    if not columns or not all(has_rollout_columns(names, reward) for names in columns):
        return NotGroups()
    if several := _several_rewards(columns[0], reward):
        return NotGroups(
            reason=f"{files[0].name}: has several columns of rewards ({', '.join(several)}). Name one with --reward "
            "(reward=)."
        )
    taken = _Taken(request=request)
    for file, names in zip(files, columns, strict=True):
        taken.begin()
        options = replace(request.options, pass_threshold=_threshold(request))
        tally = Tally(observer=taken.take, dropped=taken.dropped)
        try:
            count_file(file, _given(names, reward), options, tally, request.progress)
        except GrpoPlanError as error:
            return NotGroups(reason=str(error))
        taken.notes += [n for n in tally.notes if n not in taken.notes]
    name = files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1:,} more"
    return taken.groups(name, len(files))


def groups_of_rows(rows: Sequence[Mapping[str, Any]], request: ReadRequest) -> GroupLog | NotGroups:
    """The same of rows in memory."""
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    reward = request.given.get("reward")
    if not has_rollout_columns(names, reward):
        return NotGroups()
    taken = _Taken(request=request)
    taken.begin()
    columns = {name: [row.get(name) for row in rows] for name in names}
    sample = Sample(name="the rows given", columns=columns)
    try:
        roles, notes = find_columns(sample, _given(names, reward), constant_n=False)
        roles = replace(roles, step=step_column(sample, roles, asked=False)[0])
        taken.notes += notes
        held = {role: columns[column] for role, column in roles.roles().items()}
        taken.take(held, roles, request.options, lambda i: f"row {i + 1:,}", Tally())
    except GrpoPlanError as error:
        return NotGroups(reason=str(error))
    return taken.groups("the rows given", 0)


def _several_rewards(names: Sequence[str], reward: str | None) -> list[str]:
    """Columns that start as a reward does, where there are several and none has a usual name."""
    if reward is not None or {_plain(name) for name in names} & set(REWARD_NAMES):
        return []
    found = [name for name in names if _plain(name).startswith("reward")]
    return found if len(found) > 1 else []


def _threshold(request: ReadRequest) -> float:
    """Any will do to read the rows: what passes is told from the groups."""
    given = request.options.pass_threshold
    return 0.0 if given is None else given


def _given(names: Sequence[str], reward: str | None) -> dict[str, str | None]:
    """Columns by role: of a group and of a text too, where the table has them beside a prompt."""
    plain = {_plain(name): name for name in reversed(names)}
    prompts = [name for name in PROMPT_NAMES if name in plain and name not in GROUP_NAMES]
    group = next((plain[g] for g in GROUP_NAMES if g in plain), None) if prompts else None
    text = next((plain[t] for t in TEXT_NAMES if t in plain and plain[t] != reward), None)
    if reward is None and not set(plain) & set(REWARD_NAMES):
        reward = next((plain[name] for name in plain if name.startswith("reward")), None)
    given: dict[str, str | None] = {"reward": reward, "text": text, "session": group}
    if prompts:
        given["prompt"] = plain[prompts[0]]
    return given


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


@dataclass(slots=True, kw_only=True)
class _Taken:
    """Rollouts by step and prompt, batch by batch."""

    request: ReadRequest
    dropped: Any = field(default_factory=lambda: Tally().dropped)
    notes: list[str] = field(default_factory=list)
    tables: list[GroupTable] = field(default_factory=list)
    rows: int = 0
    texts: bool = False
    shape: str = "long"
    reward_name: str = "reward"

    def begin(self) -> None:
        """Begin a file."""
        asked = self.request.details or DetailsAsked(pass_threshold=self.request.options.pass_threshold)
        self.tables.append(GroupTable(details=GroupDetails(threshold=asked.pass_threshold)))

    def take(
        self, columns: Mapping[str, Sequence[Any]], roles: ColumnMap, options: ReadOptions, place: Place, tally: Tally
    ) -> None:
        """Take a batch; rows without a step or a prompt are counted and left out."""
        self.shape, self.reward_name = roles.shape, str(roles.reward)
        if roles.shape not in ("long", "lists") or "step" not in columns or "prompt" not in columns:
            raise PilotFormatError(f"{place(0)}: rows are no rollouts of a step.")
        rows: dict[str, Sequence[Any]] = dict(columns)
        row_of: Sequence[int] | None = None
        if roles.shape == "lists":
            rows, row_of = self._spread(columns, roles, place)
        steps = [number_of(value) for value in rows["step"]]
        prompts = [text_of(value) for value in rows["prompt"]]
        groups = [text_of(value) for value in rows["session"]] if "session" in rows else None
        kept = []
        for i, (step, prompt) in enumerate(zip(steps, prompts, strict=True)):
            if step is None or not float(step).is_integer() or step < 0:
                self.dropped["rows_without_step"] += 1
            elif prompt is not None:
                kept.append(i)
        self.rows += len(kept)
        if not kept:
            return
        where: Place = (lambda i: place(kept[i])) if row_of is None else (lambda i: place(row_of[kept[i]]))
        parts = (prompts, groups, row_of)
        names = [SEPARATOR.join("" if part is None else str(part[i]) for part in parts) for i in kept]
        held: dict[str, Sequence[Any]] = {
            "group": names,
            "prompt": [prompts[i] for i in kept],
            "step": [int(steps[i] or 0) for i in kept],
            "reward": [rows["reward"][i] for i in kept],
        }
        for role, into in (("text", TEXT), ("response_tokens", LENGTH)):
            if role in rows:
                held[into] = [rows[role][i] for i in kept]
                self.texts |= role == "text"
        self.tables[-1].add(held, where, self.reward_name)

    def _spread(
        self, columns: Mapping[str, Sequence[Any]], roles: ColumnMap, place: Place
    ) -> tuple[dict[str, Sequence[Any]], Sequence[int]]:
        """Rows of lists of rewards as one row a rollout, and the row of each."""
        flat, row_of = flatten_lists(columns, roles, place, Tally())
        further = {role: spread(columns[role], row_of) for role in ("step", "session") if role in columns}
        return {**{k: v for k, v in flat.items() if k in ("prompt", "reward")}, **further}, [int(i) for i in row_of]

    def groups(self, name: str, files: int) -> GroupLog | NotGroups:
        """The groups of all files; or why the rows are none."""
        tables = [table for table in self.tables if table.parts]
        if not tables:
            return NotGroups()
        frames = [table.frame() for table in tables]
        keys = [set(zip(f["step"].to_list(), f["group"].to_list(), strict=True)) for f in frames]
        count = len(set().union(*keys))
        if count < sum(map(len, keys)):
            step, _ = min(set(keys[0]).intersection(*keys[1:]) or set().union(*keys))
            return NotGroups(
                reason=f"{name}: files hold rollouts of the same prompts at the same steps, e.g. at step {step:,}. "
                "Are they several runs? Give one of them."
            )
        steps = len({step for held in keys for step, _ in held})
        if self.shape == "long":
            least = ALONE if count == steps and not self.texts else FEWEST
            if self.rows < least * count:
                return NotGroups(reason=_alone(name, self.rows, steps, count) if self.rows > FEWEST * steps else "")
        whole = tables[0]
        whole.parts = [part for table in tables for part in table.parts]
        if whole.details is not None:
            whole.details.told |= {word for t in tables if t.details is not None for word in t.details.told}
        table = whole.frame()
        sizes, at = table["rollouts"].to_list(), table["step"].to_list()
        provenance = Provenance(
            format=TABLE, files=files, rows=self.rows + sum(self.dropped[reason] for reason in BROKEN_LINES),
            groups=table.height, group_size=(min(sizes), max(sizes)), policy_steps=(min(at), max(at)),
            step_count=len(set(at)),
        )  # fmt: skip
        note = "Rows are rollouts: those of one step and prompt were taken as one group."
        return log_of_groups(whole, provenance, self.dropped, [note, *self.notes])


def _alone(name: str, rows: int, steps: int, groups: int) -> str:
    return (
        f"{name}: has {rows:,} rollouts of {steps:,} steps, but {groups:,} pairs of step and prompt, so hardly any "
        "prompt has several rollouts at a step: what was sampled together is not told. Name the prompt of each rollout "
        "in a column prompt_id, or read the table as a pilot with grpo-plan fit."
    )
