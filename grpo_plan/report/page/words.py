"""Numbers and foreign text as the page shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

HUGE = 1e7
LONGEST = 160  # characters of a foreign name that are shown; the data hold all
# Written out: what is invisible, ends a line inside a word, or turns the direction of the text around it.
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


def visible(text: str) -> str:
    r"""Text with its control characters written out, so that none acts or hides.

    >>> visible("a\x00b\u202ec"), visible("two\nlines")
    ('a[U+0000]b[U+202E]c', 'two\nlines')
    """
    joined = re.sub("[\ud800-\udfff]", "\ufffd", text)  # a lone surrogate has no place in a file
    return HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", joined)


def short(text: Any, longest: int = LONGEST) -> str:
    """A foreign name, cut where it is very long.

    >>> short("x" * 5, 3), short("pilot.jsonl")
    ('xxx... (5 characters)', 'pilot.jsonl')
    """
    words = str(text)
    return words if len(words) <= longest else f"{words[:longest]}... ({len(words):,} characters)"


def rate(value: float | None) -> str:
    """A share with three decimals, as the commands print it.

    >>> rate(0.43921), rate(2e-5), rate(None), rate(0.0)
    ('0.439', '2e-05', 'unknown', '0.000')
    """
    if value is None:
        return "unknown"
    return f"{value:.0e}" if 0.0 < abs(value) < 0.0005 else f"{value:.3f}"


def limits(low: float | None, high: float | None, form: Any = rate) -> str:
    """Limits in brackets; an open end in words.

    >>> limits(0.41131, 0.46741), limits(None, None), limits(2.0, None, amount)
    ('[0.411, 0.467]', '[limits unknown]', '[2, no limit]')
    """
    if low is None and high is None:
        return "[limits unknown]"
    return f"[{'no limit' if low is None else form(low)}, {'no limit' if high is None else form(high)}]"


def interval(found: Mapping[str, Any], name: str = "value", form: Any = rate) -> str:
    """A number with its limits, from ``{"value", "low", "high"}`` or ``{name, name_low, name_high}``.

    >>> interval({"value": 0.4392, "low": 0.4113, "high": 0.4674})
    '0.439 [0.411, 0.467]'
    >>> interval({"all_pass": 0.1, "all_pass_low": 0.05, "all_pass_high": 0.2}, "all_pass")
    '0.100 [0.050, 0.200]'
    """
    low, high = ("low", "high") if name == "value" else (f"{name}_low", f"{name}_high")
    value = found[name]
    return f"{'unknown' if value is None else form(value)} {limits(found.get(low), found.get(high), form)}"


def chance(value: float | None) -> str:
    """A chance; below one in a billion it is only said to be so.

    >>> chance(3e-203), chance(0.25), chance(None)
    ('<1e-9', '0.250', 'unknown')
    """
    return "<1e-9" if value is not None and 0.0 <= value < 1e-9 else rate(value)


def amount(value: float | None) -> str:
    """A count or a cost: three digits, in full up to ten million.

    >>> amount(23.456), amount(1234.5), amount(2.5e9), amount(None)
    ('23.5', '1,234', '2.50e9', 'unknown')
    """
    if value is None:
        return "unknown"
    if abs(value) < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) < HUGE else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")


def whole(value: float | None) -> str:
    """A whole number in full.

    >>> whole(1209.0), whole(None)
    ('1,209', 'unknown')
    """
    return "unknown" if value is None else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"


def few(value: float | None) -> str:
    """A mean count: one decimal below 100, none above.

    >>> few(3.78), few(335.7)
    ('3.8', '336')
    """
    return "unknown" if value is None else f"{value:,.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def few_at_least(value: float | None) -> str:
    """A lower limit of a count, rounded down to the digits shown, as the commands do.

    >>> few_at_least(318.56), few_at_least(3.78)
    ('318', '3.7')
    """
    if value is None:
        return "unknown"
    return f"{math.floor(10 * value) / 10:,.1f}" if value < 100 else f"{math.floor(value):,}"


def count_limits(low: float | None, high: float | None) -> str:
    """Limits of a mean count.

    >>> count_limits(318.56, 353.2), count_limits(2.0, None)
    ('[318, 353]', '[2.0, no limit]')
    """
    first = "no limit" if low is None else few_at_least(low)
    return (
        limits(low, high, few)
        if low is None and high is None
        else f"[{first}, {'no limit' if high is None else few(high)}]"
    )


def percent(value: float | None) -> str:
    """A share or a level in percent.

    >>> percent(0.95), percent(0.0004), percent(None)
    ('95 %', '0.04 %', 'unknown')
    """
    return "unknown" if value is None else f"{100 * value:.3g} %"


def plain(value: Any) -> str:
    """Any value of a document in words: numbers rounded, null as unknown.

    >>> plain(0.4111111), plain(None), plain(True), plain([1, 2]), plain({"a": 1})
    ('0.411', 'unknown', 'yes', '1, 2', 'a: 1')
    """
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "not a number" if math.isnan(value) else f"{value:.3g}" if abs(value) < 1000 else amount(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {plain(item)}" for key, item in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(item) for item in value) or "none"
    return str(value)


def unsnake(name: str) -> str:
    """A key as words.

    >>> unsnake("late_dead_fraction")
    'late dead fraction'
    """
    return name.replace("_", " ")


def without_fields(text: str) -> str:
    """What a message asks for, without the names of the library beside the options.

    >>> without_fields("give --gpus (DiagnosisSettings.gpus), or beta of DiagnosisSettings.")
    'give --gpus, or beta.'
    """
    return re.sub(r" \(DiagnosisSettings\.\w+\)|(?<=\w) of DiagnosisSettings", "", text)


def once(text: str) -> str:
    """A sentence that ends with one full stop.

    >>> once("nothing in this range"), once("of G = 3.")
    ('nothing in this range.', 'of G = 3.')
    """
    stripped = text.rstrip()
    return stripped if stripped.endswith((".", "!", "?")) else f"{stripped}."


def cost_words(cost: Mapping[str, Any]) -> str:
    """What a finding cost so far; what is unknown is said with what would tell it.

    >>> cost_words({"rollouts": 1200.0, "rollouts_low": 1000.0, "rollouts_high": 1500.0, "missing": {"usd": "GPUs"}})
    '1,200 [1,000, 1,500] rollouts. Unknown: usd (GPUs).'
    """
    told = []
    if any(cost.get(name) is not None for name in ("rollouts", "rollouts_low", "rollouts_high")):
        value, low, high = (cost.get(name) for name in ("rollouts", "rollouts_low", "rollouts_high"))
        bound = f"at least {amount(low)}" if value is None and high is None else interval(cost, "rollouts", amount)
        told.append(f"{bound} rollouts")
    for name, unit in (("gpu_hours", "GPU-hours at most"), ("usd", "USD at most")):
        if cost.get(name) is not None:
            told.append(f"{amount(cost[name])} {unit}")
    words = ", ".join(told) or "not known"
    missing = "; ".join(f"{unsnake(name)} ({need.rstrip('.')})" for name, need in (cost.get("missing") or {}).items())
    return f"{words}." + (f" Unknown: {missing}." if missing else "")


def day(moment: str) -> str:
    """The day and minute of an ISO moment.

    >>> day("2026-12-01T20:59:33+00:00")
    '2026-12-01 20:59 UTC'
    """
    zone = " UTC" if moment.endswith(("+00:00", "Z")) else moment[19:]
    return moment[:16].replace("T", " ") + zone if len(moment) >= 16 else moment
