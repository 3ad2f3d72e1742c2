"""`read_groups`: the groups of a run, as they were sampled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from grpo_plan.errors import PilotFormatError, sentences
from grpo_plan.group_log import GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.counting import Tally
from grpo_plan.readers.discovery import discover
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, open_sniffed
from grpo_plan.readers.group_table import GroupTable
from grpo_plan.readers.guard import one_error
from grpo_plan.readers.instead import not_a_log, refuse_memory
from grpo_plan.readers.jsonlines import refuse_other_encoding, sample_of
from grpo_plan.readers.pilot_reader import sink_of
from grpo_plan.readers.request import DetailsAsked, ReadRequest


def read_groups(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    reward: str | None = None,
    rollouts_per_prompt: int | None = None,
    where: Mapping[str, str | float | Sequence[str]] | None = None,
    skip_malformed: bool | int = False,
    format: str | None = None,
    reward_weights: Mapping[str, float] | None = None,
    split: str = "train",
    policy_steps: tuple[int | None, int | None] | None = None,
    progress: Callable[[int], None] | None = None,
    details: bool = False,
    pass_threshold: float | None = None,
) -> GroupLog:
    r"""Read the groups that a trainer dumped: which rollouts were sampled together, and whether they are dead.

    Args:
        source: Path, glob, folder or a list of these.
        reward: Reward function to judge by, where a source has several; without it (and without weights) their sum.
        rollouts_per_prompt: Group size, where rows hold no group and it cannot be told from the prompts.
        where: Keep rows whose column equals the value (or one of the values).
        skip_malformed: Drop and count malformed lines.
        format: Name of a format, where its content should not decide.
        reward_weights: Reward functions to sum, each times its weight.
        split: ``"train"``, ``"eval"`` or ``"all"``.
        policy_steps: First and last training step to keep; None leaves an end open.
        progress: Called with the number of bytes of each block read.
        details: Whether to read what else the source holds of its rollouts: passes, spread of rewards, rollouts that
            were cut off, different texts, response lengths. Without it these columns are None.
        pass_threshold: Reward from which a rollout passes, for ``passes``; not needed where rewards have two levels.
            Given, it asks for ``details`` too.

    Raises:
        PilotFormatError: The source cannot be read, or its rows do not say what was sampled together.
        DomainError: An argument is outside its domain.

    >>> import json, pathlib, tempfile
    >>> def row(prompt, session, score):  # as verl's trainer V1 dumps it
    ...     return {"input": prompt, "output": "", "gts": "", "score": score, "step": 1, "uid": f"{prompt}_{session}_0"}
    >>> rows = [row("a", 0, 1.0), row("a", 1, 0.0), row("b", 0, 1.0), row("b", 1, 1.0)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "1.jsonl")
    ...     _ = path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    ...     groups = read_groups(path)
    >>> groups.groups, groups.dead.tolist()
    (2, [False, True])
    """
    refuse_memory(source)
    request = request_of(
        {"reward": reward}, rollouts_per_prompt=rollouts_per_prompt, where=where, skip_malformed=skip_malformed,
        format=format, reward_weights=reward_weights, split=split, policy_steps=policy_steps, progress=progress,
        pass_threshold=0.0 if pass_threshold is None else pass_threshold,
    )  # fmt: skip
    if details or pass_threshold is not None:
        given = None if pass_threshold is None else request.options.pass_threshold
        request = replace(request, details=DetailsAsked(pass_threshold=given))
    with one_error(os.fspath(source) if isinstance(source, str | os.PathLike) else f"{len(source)} sources"):
        return _read(source, request)


def _read(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], request: ReadRequest) -> GroupLog:
    found = discover(source, "pilot", request.format)
    name = found.files[0].name if len(found.files) == 1 else f"{len(found.files)} files"
    if found.format is None:
        error = PilotFormatError(
            f"{name}: is a table, whose rows do not say which rollouts were sampled together. Give the dump of a "
            "trainer; grpo-plan formats lists them."
        )
        told = not_a_log(error, source, request)
        if told is error:  # no other reader knows it
            refuse_no_table(found.files)
        raise told
    tally = Tally(notes=[*found.notes])
    sink = sink_of(tally, replace(request, any_reward=True), found.format, found.files)
    if sink.groups is None:
        raise PilotFormatError(
            f"{name}: {found.format.name} does not say which rollouts were sampled together. Read it as a pilot with "
            "read_pilot or grpo-plan fit."
        )
    provenance = sink.provenance()
    return log_of_groups(sink.groups, provenance, tally.dropped, [*provenance.sentences, *tally.notes])


def refuse_no_table(files: Sequence[InputFile]) -> None:
    """One line for a file that is no table at all: empty, binary, not UTF-8, or without rows.

    Raises:
        PilotFormatError: Such a file.
    """
    for file in files:
        if file.path is None:
            continue
        with open_sniffed(file) as sniffed:
            if sniffed.kind == "jsonl":
                sample_of(sniffed.head.removeprefix(BYTE_ORDER_MARK), file.name)
            elif sniffed.kind == "csv":
                refuse_other_encoding(sniffed.head, file.name)


def log_of_groups(
    groups: GroupTable, provenance: Provenance, dropped: Mapping[str, int], notes: Sequence[str]
) -> GroupLog:
    """A GroupLog of the groups that were counted."""
    table = groups.frame()
    prompts = np.empty(table.height, dtype=object)
    prompts[:] = table["prompt"].to_list()
    scored = table["scored"].to_numpy()
    return GroupLog(
        step=table["step"].to_numpy(),
        prompt_id=prompts,
        rollouts=table["rollouts"].to_numpy(),
        scored=scored,
        reward_min=table["low"].fill_null(float("nan")).to_numpy(),
        reward_max=table["high"].fill_null(float("nan")).to_numpy(),
        reward_mean=np.where(scored > 0, table["total"].to_numpy() / np.maximum(scored, 1), np.nan),
        dropped={reason: count for reason, count in dropped.items() if count},
        notes=sentences(*notes),
        provenance=provenance,
        **({} if groups.details is None else groups.details.of_groups(table)),
    )
