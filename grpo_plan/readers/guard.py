"""What any reader may run into at any time: files that vanish or cannot be read, and values too deep or too large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grpo_plan.errors import PilotFormatError


@contextmanager
def one_error(source: str) -> Iterator[None]:
    """Errors of the system as one line; readers say more where they know more.

    Raises:
        PilotFormatError: A file cannot be read, or memory does not suffice.
    """
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else source
        reason = error.strerror or error
        raise PilotFormatError(f"{place}: cannot be read ({reason}). Was it moved while it was read?") from None
    except MemoryError:
        raise PilotFormatError(f"{source}: takes more memory than there is. Read a part of it.") from None
    except RecursionError:
        raise PilotFormatError(f"{source}: holds values that are nested too deeply. Is it damaged?") from None
