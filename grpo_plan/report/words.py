"""Command lines as a person would type them."""

from __future__ import annotations

from collections.abc import Sequence

SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_")


def command_line(words: Sequence[str]) -> str:
    """``grpo-plan`` and its words, quoted for a shell where needed.

    >>> command_line(["fit", "my pilot.jsonl", "--where", "level=5"])
    "grpo-plan fit 'my pilot.jsonl' --where level=5"
    """
    return " ".join(["grpo-plan", *(quoted(word) for word in words)])


def quoted(word: str) -> str:
    r"""One word for a POSIX shell.

    >>> quoted("it's"), quoted("a.jsonl")
    ("'it'\\''s'", 'a.jsonl')
    """
    return word if word and all(letter in SAFE for letter in word) else "'" + word.replace("'", "'\\''") + "'"


def number(value: float) -> str:
    """A number that reads back as the same.

    >>> number(1.0), number(17.25)
    ('1', '17.25')
    """
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
