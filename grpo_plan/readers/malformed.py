"""What is wrong with a line of JSON lines."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from grpo_plan.readers.values import from_plain

SHOWN_BYTES = 40


def fault_of(line: bytes, decoder: msgspec.json.Decoder[Any]) -> str:
    """Why a line could not be decoded, with its first characters."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return f"is not UTF-8 ({shown_bytes(line)})"
    try:
        value = json.loads(line.decode())
        if isinstance(value, dict):
            from_plain(value, decoder.type)
    except msgspec.ValidationError as error:
        return f"a field is of another type than it should be ({str(error).rstrip('.')})"
    except (ValueError, RecursionError):
        pass
    return f"is not a JSON object ({shown_bytes(line)})"


def shown_bytes(line: bytes) -> str:
    """The first characters of a line."""
    text = line[:SHOWN_BYTES].decode(errors="replace")
    return f"{text!r}{'...' if len(line) > SHOWN_BYTES else ''}"
