"""Where a byte occurs in a block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def positions(raw: NDArray[np.uint8], byte: int) -> NDArray[np.intp]:
    """Offsets of a byte, looked for eight bytes at a time.

    >>> positions(np.frombuffer(b"one,two,three and four, five", np.uint8), ord(",")).tolist()
    [3, 7, 22]
    """
    found = raw == byte
    whole = raw.size // 8 * 8
    eights = found[:whole].view(np.uint64)
    at = np.flatnonzero(eights)
    row, column = np.nonzero(found[:whole].reshape(-1, 8)[at])
    return np.concatenate([at[row] * 8 + column, whole + np.flatnonzero(found[whole:])])
