"""What a mistyped name was meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

CLOSE = 0.76  # share of matching letters from which two names are taken for one, mistyped
LONGEST = 60  # letters of a value that are shown
SHORT = 3  # names of fewer letters are too short to guess at, but for their case and signs


def closest(given: object, known: Iterable[object]) -> str | None:
    """The name that was meant, or None where no name, or more than one, is near.

    Case and signs do not count. A name is near where what was typed is its beginning, or an abbreviation of its words,
    or where most letters agree.

    Args:
        given: What was typed.
        known: The names there are.

    >>> closest("Question-ID", ["question_id", "reward"]), closest("qid", ["question_id", "reward"])
    ('question_id', 'question_id')
    >>> closest("grop", ["grpo", "rloo"]), closest("banana", ["grpo", "rloo"])
    ('grpo', None)
    """
    typed = _bare(str(given)[:200])
    names = list(dict.fromkeys(str(name) for name in known))
    same = [name for name in names if _bare(name) == typed]
    if same or len(typed) < SHORT:
        return same[0] if typed and len(same) == 1 else None
    begun = [name for name in names if _bare(name).startswith(typed)]
    if len(begun) == 1:
        return begun[0]
    scored = sorted(((_likeness(typed, _bare(name)), name) for name in names), key=lambda pair: -pair[0])
    if scored and scored[0][0] >= CLOSE and (len(scored) == 1 or scored[1][0] < scored[0][0]):
        return scored[0][1]
    short = [name for name in names if _abbreviates(typed, _bare(name), _words(name))]
    return short[0] if len(short) == 1 else None


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """A sentence with a blank before it, for the end of a message; empty where nothing is near.

    >>> did_you_mean("diagnos", ["plan", "diagnose"]), did_you_mean("cook", ["plan", "diagnose"])
    (" Did you mean 'diagnose'?", '')
    """
    name = closest(given, known)
    return "" if name is None or name == str(given) else f" Did you mean {name!r}?"


def not_one_of(name: str, value: object, known: Iterable[object], whose: str = "") -> str:
    """The message for a value that is none of those there are: the rule, the value, and what was meant.

    Args:
        name: What the value is of.
        value: What was given.
        known: The values there are.
        whose: Words before them, e.g. ``"the pilot's "``.

    >>> not_one_of("kind", "daed", ["both", "dead"])
    "kind must be one of both, dead; got 'daed'. Did you mean 'dead'?"
    """
    names = list(known)
    shown = value if len(repr(value)) <= LONGEST else str(value)[: LONGEST - 20]
    hint = did_you_mean(value, names) if isinstance(value, str) else ""
    return f"{name} must be one of {whose}{', '.join(map(str, names)) or '(none)'}; got {shown!r}.{hint}"


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.casefold().replace("++", " plus plus"))


def _bare(name: str) -> str:
    return "".join(_words(name))


def _likeness(typed: str, name: str) -> float:
    """Share of the letters that agree, in order; two letters swapped are one slip; 0 for names too short to tell."""
    if min(len(typed), len(name)) < SHORT or (typed[0] != name[0] and sorted(typed) != sorted(name)):
        return 0.0
    if len(typed) == len(name) and sorted(typed) == sorted(name):
        if sum(a != b for a, b in zip(typed, name, strict=True)) == 2:
            return 1.0 - 0.5 / len(name)
    return SequenceMatcher(None, typed, name, autojunk=False).ratio()


def _abbreviates(typed: str, name: str, words: list[str]) -> bool:
    """Whether what was typed is made of beginnings of all the words, or of half the letters of one, ends included."""
    if len(words) > 1:
        return _begins(typed, words)
    rest = iter(name)
    return (
        2 * len(typed) >= len(name)
        and (typed[0], typed[-1]) == (name[0], name[-1])
        and all(letter in rest for letter in typed)
    )


def _begins(typed: str, words: list[str]) -> bool:
    if not words:
        return not typed
    return any(
        _begins(typed[i:], words[1:]) for i in range(1, min(len(typed), len(words[0])) + 1) if words[0][:i] == typed[:i]
    )
