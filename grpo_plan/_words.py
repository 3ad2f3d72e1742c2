"""Numbers in words and figures, as commands, notebooks and pages show them."""

from __future__ import annotations

import math

HUGE = 10_000_000


def rate(value: float | None) -> str:
    """A share with three decimals; small ones in scientific form; unknown in words.

    >>> rate(0.43921), rate(2e-5), rate(None), rate(0.0)
    ('0.439', '2e-05', 'unknown', '0.000')
    """
    if value is None:
        return "unknown"
    return f"{value:.0e}" if 0.0 < value < 0.0005 else f"{value:.3f}"


def chance(value: float) -> str:
    """A chance; below one in a billion it is only said to be so.

    >>> chance(3e-203), chance(0.25)
    ('<1e-9', '0.250')
    """
    return "<1e-9" if value < 1e-9 else rate(value)


def with_interval(value: float | None, low: float, high: float) -> str:
    """A share with its limits.

    >>> with_interval(0.4392, 0.4113, 0.4674), with_interval(None, 0.2, 1.0)
    ('0.439 [0.411, 0.467]', 'unknown [0.200, 1.000]')
    """
    return f"{rate(value)} [{low:.3f}, {high:.3f}]"


def few(value: float) -> str:
    """A mean count: one decimal below 100, none above.

    >>> few(3.78), few(74.36), few(335.7)
    ('3.8', '74.4', '336')
    """
    return f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def short_count(value: float) -> str:
    """A whole number for a table column: in full, or with three digits where it is huge.

    >>> short_count(2000), short_count(7_812_500_000)
    ('2,000', '7.81e9')
    """
    return f"{value:,.0f}" if value < HUGE else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")


def amount(value: float) -> str:
    """A cost: three digits, in full up to ten million.

    >>> amount(23.456), amount(1234.5), amount(2.5e9)
    ('23.5', '1,234', '2.50e9')
    """
    return f"{value:.3g}" if value < 999.5 else short_count(value)


def few_at_least(value: float) -> str:
    """A lower limit of a count, rounded down to the digits shown.

    >>> few_at_least(3.78), few_at_least(335.7)
    ('3.7', '335')
    """
    return f"{math.floor(10 * value) / 10:,.1f}" if value < 100 else f"{math.floor(value):,}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "prompt"), plural(1209, "prompt"), plural(2, "remedy", "remedies")
    ('1 prompt', '1,209 prompts', '2 remedies')
    """
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"
