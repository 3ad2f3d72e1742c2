"""Processes that run tasks in parallel and give results in order.

They are plain child processes with pipes, not `multiprocessing`: that would run the caller's own script again in each.
They stand apart from the terminal's Ctrl-C, and end when this process closes their pipe, however it ends.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any, Generic, TypeVar

from grpo_plan.errors import PilotFormatError

T = TypeVar("T")
R = TypeVar("R")
MAX_WORKERS = 8  # memory grows with each
AHEAD = 2  # results a worker may be ahead of what was taken


def default_workers() -> int:
    """One worker a core that this process may use, up to `MAX_WORKERS`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_WORKERS, cores) if sys.executable and not getattr(sys, "frozen", False) else 1


class Workers(Generic[T, R]):
    """A pool that calls ``run`` of a module with each task; results come in the order of tasks.

    Raises:
        PilotFormatError: From `take`, if a process ended early.
    """

    def __init__(self, module: str, count: int) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({module!r})"
        environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._tasks: list[T] = []
        self._results: dict[int, R | BaseException] = {}
        self._next = self._taken = 0
        self._closed = False
        self._changed = threading.Condition()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ahead = AHEAD * count
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )
            self._processes.append(process)
            threading.Thread(target=self._drive, args=(process,), daemon=True).start()

    def put(self, task: T) -> None:
        """Add a task."""
        with self._changed:
            self._tasks.append(task)
            self._changed.notify_all()

    def ready(self) -> bool:
        """Whether the next result is there."""
        with self._changed:
            return self._taken in self._results

    def take(self) -> R:
        """The result of the first task not yet taken, waited for."""
        with self._changed:
            while self._taken not in self._results:
                self._changed.wait()
            result = self._results.pop(self._taken)
            self._taken += 1
            self._changed.notify_all()
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """End the processes at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError, ValueError):
                    if pipe is not None:
                        pipe.close()

    def _drive(self, process: subprocess.Popen[bytes]) -> None:
        """Hand tasks to a process, one at a time."""
        while True:
            with self._changed:
                while not self._closed and not self._may_start():
                    self._changed.wait()
                if self._closed:
                    return
                index, self._next = self._next, self._next + 1
                task = self._tasks[index]
            result = self._ask(process, task)
            with self._changed:
                self._results[index] = result
                self._changed.notify_all()

    def _may_start(self) -> bool:
        return self._next < len(self._tasks) and self._next < self._taken + self._ahead

    def _ask(self, process: subprocess.Popen[bytes], task: T) -> R | BaseException:
        try:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
            pickle.dump(task, process.stdin)
            process.stdin.flush()
            result: R | BaseException = pickle.load(process.stdout)
            return result
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            process.kill()
            process.wait()
            return PilotFormatError(
                f"A reading process ended early (status {process.poll()}); was it out of memory? Read with one worker: "
                "--workers 1 (workers=)."
            )


def serve(module: str) -> None:
    """Run tasks from standard input until it is closed."""
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr
    run: Any = import_module(module).run
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            task = pickle.load(tasks)
            try:
                answer = run(task)
            except Exception as error:  # a bug: raised where the answer is taken
                answer = error
            pickle.dump(answer, results)
            results.flush()
