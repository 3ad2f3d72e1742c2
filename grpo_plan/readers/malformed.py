"""What is wrong with a line of JSON lines."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.values import from_plain


def malformed(line: bytes, place: str, decoder: msgspec.json.Decoder[Any]) -> PilotFormatError:
    """The error of a line that could not be decoded."""
    return PilotFormatError(
        f"{place}: {_reason(line, decoder)}. Repair the line, or drop such lines with --skip-malformed."
    )


def _reason(line: bytes, decoder: msgspec.json.Decoder[Any]) -> str:
    try:
        line.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    try:
        value = json.loads(line)  # of too many digits: a ValueError
        if isinstance(value, dict):
            from_plain(value, decoder.type)
    except msgspec.ValidationError as error:
        return f"a field is of another type than it should be ({str(error).rstrip('.')})"
    except (ValueError, RecursionError):
        pass
    return f"is not a JSON object ({line[:40].decode(errors='replace')!r}...)"
