"""What an object has worked out already."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

Found = TypeVar("Found")


class Remembering:
    """Keeps answers for as long as it lives; copies and pickles start without them.

    >>> class Doubler(Remembering):
    ...     def twice(self, x: float) -> float:
    ...         return self.remembered(("twice", x), lambda: 2.0 * x)
    >>> Doubler().twice(2.0)
    4.0
    """

    def remembered(self, key: Hashable, work: Callable[[], Found]) -> Found:
        """The answer under a key, worked out once."""
        memory = self._memory
        if key not in memory:
            memory[key] = work()
        found: Found = memory[key]
        return found

    @cached_property
    def _memory(self) -> dict[Hashable, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Everything else."""
        return {name: value for name, value in self.__dict__.items() if name != "_memory"}
