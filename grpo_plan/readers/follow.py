"""`RunFollower`: a run that is still written, read as it grows, each row once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, GrpoPlanError, PilotFormatError, sentences
from grpo_plan.group_log import GroupLog
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.follow_events import FollowEvent, Happened, Update, differing_steps
from grpo_plan.readers.follow_log import LogFollower, News
from grpo_plan.readers.follow_source import Lines, Waiting, choose
from grpo_plan.readers.follow_whole import WholeFollower
from grpo_plan.readers.registry import format_named
from grpo_plan.readers.run_builder import with_config
from grpo_plan.readers.run_reader import groups_beside, read_run, with_group_log
from grpo_plan.run_log import RunLog

__all__ = ["FollowEvent", "Happened", "RunFollower", "Update", "follow_run"]

STATE = 1  # version of the saved state
GROUPS_EVERY_S = 60.0
MAX_BYTES = 32 << 20
OPTIONS = ("run", "config", "group_size", "groups", "format", "reward", "pass_threshold")


class RunFollower:
    r"""Follows the log of a run that a trainer is writing.

    Logs of one row a line (JSON lines, CSV) are read on from where they were left: through renaming, cutting,
    replacing, half lines and restarts of either side, each row once. Every other source that `read_run` reads is read
    anew when it has changed. What goes wrong with the source is never raised but told, since it may pass.

    Args:
        path: File or folder; it need not be there yet.
        run: Name of the run, where the source holds several.
        config: Settings of the run that its log does not hold.
        group_size: Rollouts per prompt, where the source does not tell it.
        groups: Whether to read the rollouts of a folder too, at most once a minute.
        format: Name of a format, where the content should not decide.
        reward: Reward function by which to judge the rollouts, where these have several.
        pass_threshold: Reward from which a rollout passes.
        clock: Seconds, for the pause between two readings of the rollouts.
        max_bytes: About how much is read in one look; `Update.behind` says that there is more.

    Raises:
        DomainError: An argument is outside its domain.

    >>> import json, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     with RunFollower(path) as follower, path.open("w") as log:
    ...         first = follower.poll()
    ...         _ = log.write(json.dumps({"step": 1, "reward": 0.5, "reward_std": 0.4, "kl": 0.0}) + '\n{"step": ')
    ...         log.flush()
    ...         second = follower.poll()
    >>> first.log, [event.kind.value for event in first.events]
    (None, ['waiting'])
    >>> second.new_steps.tolist(), second.log.metrics["reward"].tolist()
    ([1], [0.5])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        run: str | Sequence[str] | None = None,
        config: Mapping[str, object] | None = None,
        group_size: int | None = None,
        groups: bool = True,
        format: str | None = None,
        reward: str | None = None,
        pass_threshold: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path) or os.fspath(path) == "-":
            raise DomainError(f"path must be a file or a folder that can be read again; got {path!r}. Name one.")
        if config is not None and not isinstance(config, Mapping):
            raise DomainError(f"config must map settings to values; got {str(config)[:40]!r}.")
        self._path = Path(path)
        self._size = None if group_size is None else as_count(group_size, "group_size", minimum=2)
        names = () if run is None else (run,) if isinstance(run, str) else tuple(run)
        if not all(isinstance(name, str) for name in names):
            raise DomainError(f"run must be the name of a run, or a list of names; got {run!r}.")
        request = request_of({"reward": reward}, pass_threshold=pass_threshold, skip_malformed=True, format=format)
        if format is not None:
            format_named(format)
        self._request = replace(request, runs=names, config=dict(config or {}))
        self._options: dict[str, object] = {
            "run": None if run is None else list(names), "config": None if config is None else dict(config),
            "group_size": self._size, "groups": bool(groups), "format": format, "reward": reward,
            "pass_threshold": request.options.pass_threshold,
        }  # fmt: skip
        self._most = as_count(max_bytes, "max_bytes")
        self._clock = clock
        self._reader: LogFollower | WholeFollower[RunLog] | None = None
        self._source: Path | None = None
        self._format: str | None = None
        self._groups: WholeFollower[GroupLog | None] | None = None
        self._groups_at = -np.inf
        self._log: RunLog | None = None
        self._notes: tuple[str, ...] = ()
        self._said = ""

    def __enter__(self) -> RunFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files; a later `poll` opens them again."""
        if isinstance(self._reader, LogFollower):
            self._reader.close()

    @property
    def log(self) -> RunLog | None:
        """The run as of the last look; None as long as it has no metric."""
        return self._log

    def poll(self) -> Update:
        """Look once, without waiting, and take what is new.

        Raises:
            MissingExtraError: The source needs an optional dependency that is not installed.
        """
        return self._look(last=False)

    def finish(self) -> Update:
        """Look for the last time: a last line without a line break is taken, if it is a whole row."""
        return self._look(last=True)

    def _look(self, *, last: bool) -> Update:
        events: list[FollowEvent] = []
        if self._reader is None:
            self._begin(events)
        reader = self._reader
        if reader is None:
            return self._update(None, News(events=events))
        if isinstance(reader, WholeFollower):
            anew, happened = reader.poll(now=last)
            return self._update(reader.value if anew else None, News(events=[*events, *happened]))
        news = reader.finish() if last else reader.poll(self._most)
        news.events[:0] = events
        groups = self._read_groups(news.events, last)
        if not (news.taken or groups or (last and reader.half_a_line)):
            return self._update(None, news)
        return self._update(self._dressed(reader.run_log(stopped=last)), news)

    def _update(self, log: RunLog | None, news: News) -> Update:
        """What a look brought; ``log`` is None where nothing is new."""
        steps = np.empty(0, dtype=np.int64)
        if log is not None:
            if isinstance(self._reader, LogFollower):
                steps = np.array(sorted(news.steps & set(log.steps.tolist())), dtype=np.int64)
            else:
                steps = differing_steps(self._log, log)
                if self._log is not None and not np.isin(self._log.steps, log.steps).all():
                    message = f"{self._path}: was written anew, and some of its steps are not there any more."
                    news.events.append(FollowEvent.of(Happened.REPLACED, message))
            self._log = log
        return Update(
            log=self._log,
            new_steps=steps,
            new_rows=news.rows if isinstance(self._reader, LogFollower) else int(steps.size),
            events=tuple(news.events),
            behind=news.behind,
            changed=log is not None,
        )

    def _begin(self, events: list[FollowEvent]) -> None:
        """Find out what is there and how to read it."""
        try:
            found = choose(self._path, self._request)
        except (PilotFormatError, OSError) as error:
            found = Waiting(reason=str(error))
        if isinstance(found, Waiting):
            if found.reason != self._said:
                self._said = found.reason
                events.append(FollowEvent.of(Happened.WAITING, f"{found.reason} It is waited for."))
            return
        self._said = ""
        if isinstance(found, Lines):
            if self._options["reward"] is not None and not self._path.is_dir():
                raise DomainError(
                    f"reward chooses a reward function of rollouts, and {found.path} holds none; got "
                    f"{self._options['reward']!r}. Leave it out, or follow the folder that holds them too."
                )
            self._source, self._notes = found.path, found.notes
            self._reader = LogFollower.begin(
                found.path, found.kind, found.separator, format=found.format, before=found.before
            )
            how = "read on as it grows"
        else:
            self._format = found.format
            self._reader = self._whole()
            how = "read anew when it changes"
        where = self._source or self._path
        events.append(FollowEvent.of(Happened.STARTED, f"{where}: is there, and is {how}."))

    def _whole(self) -> WholeFollower[RunLog]:
        return WholeFollower(self._path, self._read_whole)

    def _read_whole(self) -> RunLog:
        """The source as it is now, by the format that it was first read by."""
        options: dict[str, Any] = {**self._options, "skip_malformed": True}
        log = read_run(self._path, **options)
        if self._format in (None, log.format):
            return log
        try:
            return read_run(self._path, **{**options, "format": self._format})
        except PilotFormatError:
            return log

    def _read_groups(self, events: list[FollowEvent], last: bool) -> bool:
        """Read the rollouts beside a log again, if it is time and they changed; whether they were."""
        if not self._options["groups"] or not self._path.is_dir():
            return False
        now = self._clock()
        if now - self._groups_at < GROUPS_EVERY_S and not last:
            return False
        self._groups_at = now
        if self._groups is None:
            self._groups = WholeFollower(
                self._path, lambda: groups_beside(self._path, self._request, self._size or self._told_size())
            )
        anew, happened = self._groups.poll(now=True)
        events += happened
        return anew

    def _told_size(self) -> int | None:
        return None if self._log is None else self._log.rollouts_per_prompt

    def _dressed(self, log: RunLog | None) -> RunLog | None:
        """A log with what the user told of it, and with its rollouts."""
        if log is None:
            return None
        log = with_config(log, self._request.config)
        if self._size is not None:
            log = replace(log, group_size=self._size)
        groups = None if self._groups is None else self._groups.value
        if groups is not None:
            log = with_group_log(log, groups)
        if self._notes:
            log = replace(log, notes=sentences(*log.notes, *self._notes))
        if log.group_size is None:
            log = replace(log, group_size=log.rollouts_per_prompt)
        return replace(log, pass_threshold=self._request.options.pass_threshold)

    def state(self) -> dict[str, object]:
        """Where reading stands, as a document of JSON, from which `resume` goes on without losing or doubling a row.

        It holds the rows so far, since files that were renamed or cut cannot be read again.
        """
        reader = self._reader
        lines = reader.state() if isinstance(reader, LogFollower) else None
        return {
            "grpo_plan_follow": STATE,
            "path": str(self._path),
            "options": dict(self._options),
            "max_bytes": self._most,
            "source": None if self._source is None else str(self._source),
            "format": self._format,
            "notes": list(self._notes),
            "lines": lines,
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic) -> RunFollower:
        """Go on from a `state`.

        Raises:
            DomainError: It is no state of a follower, or one of another version.
        """
        if not isinstance(state, Mapping) or state.get("grpo_plan_follow") != STATE:
            raise DomainError(f"state must be one of RunFollower.state, version {STATE}; got {str(state)[:40]!r}.")
        try:
            options = {name: state["options"][name] for name in OPTIONS}
            found = cls(state["path"], clock=clock, max_bytes=state["max_bytes"], **options)
            found._format = state["format"]
            found._notes = tuple(map(str, state["notes"]))
            if state["lines"] is not None:
                found._source = Path(state["source"])
                found._reader = LogFollower.resume(found._source, state["lines"])
                found._log = found._dressed(found._reader.run_log())
        except GrpoPlanError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise DomainError(
                f"state is damaged ({type(error).__name__}: {error}). Follow the log from its start."
            ) from None
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the `state` to a file, which is either the old one or the new one at any time.

        Raises:
            DomainError: It cannot be written.
        """
        target = Path(path)
        beside = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(self.state()))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except (OSError, TypeError, ValueError) as error:
            beside.unlink(missing_ok=True)
            raise DomainError(f"{target}: the state cannot be written ({error}). Choose another place.") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic) -> RunFollower:
        """Go on from a state that `save` wrote.

        Raises:
            DomainError: The file cannot be read, or holds no state.
        """
        try:
            state = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DomainError(
                f"{path}: holds no state of a follower ({error}). Follow the log from its start."
            ) from None
        return cls.resume(state, clock=clock)


def follow_run(
    source: str | os.PathLike[str] | RunFollower,
    *,
    poll_s: float = 1.0,
    stop: Callable[[], bool] | None = None,
    sleep: Callable[[float], object] = time.sleep,
    **options: Any,
) -> Iterator[Update]:
    """Updates of a growing log: one a look, also where nothing is new; after ``stop`` a last one.

    Args:
        source: Path of the log, or a follower of it, which is then left open.
        poll_s: Seconds between two looks, above 0; a backlog is read without a pause.
        stop: Asked before each look; None follows for ever.
        sleep: Waits for some seconds.
        options: Those of `RunFollower`, for a path.

    Raises:
        DomainError: An argument is outside its domain.
    """
    if isinstance(poll_s, bool) or not isinstance(poll_s, int | float) or not 0 < poll_s < np.inf:
        raise DomainError(f"poll_s must be a number of seconds above 0; got {poll_s!r}.")
    if isinstance(source, RunFollower) and options:
        raise DomainError(f"options are those of the follower given; got {', '.join(options)} too. Give a path.")
    follower = source if isinstance(source, RunFollower) else RunFollower(source, **options)
    return _updates(follower, poll_s, stop, sleep, own=follower is not source)


def _updates(
    follower: RunFollower,
    poll_s: float,
    stop: Callable[[], bool] | None,
    sleep: Callable[[float], object],
    *,
    own: bool,
) -> Iterator[Update]:
    try:
        while stop is None or not stop():
            update = follower.poll()
            yield update
            if not update.behind:
                sleep(poll_s)
        yield follower.finish()
    finally:
        if own:
            follower.close()
