"""Pass rates to counts, exactly: which number of passes a rounded rate stands for, and which n a column of rates shows.

A rate of n rollouts is k/n, written with d digits. It stands for the k whose k/n rounds to it.

The least n that fits a whole column is its n, or a divisor of it. The latter is unlikely: if n' = c n with c >= 2 were
the truth, every prompt with 0 < k < n' would show a multiple of c, which for independent rollouts has a chance of at
most 1/2 at any pass rate. (c even: that k is even has the chance (1 + (q - p)**n')/2, ends included; c odd: the
two neighbours of a multiple together are at least 1.5 times as likely.) So m such prompts leave a chance of at most
2**-m. For the same reason at most half of them show a multiple of any prime factor of n, unless n differs by prompt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.values import is_missing, number_of, shown

MAX_INFERRED = 512  # largest n that is looked for
MIN_INTERIOR = 20  # prompts with a rate between 0 and 1 that make an n evident: 2**-20 is a millionth
MIN_DISTINCT = 2  # different rates between 0 and 1: so n = 2 is never assumed, one half may be anything's half
MAX_CHANCE = 1e-6
MAX_DISTINCT = 4 * MAX_INFERRED  # different rates; more are no rates of few rollouts
MAX_CHANCE_OF_VALUES = 1e-3  # of so many different rates, where some that n allows are not seen
COMPUTED_DIGITS = 15  # of a rate that a program computed and wrote in full
FLOAT_SLACK = Fraction(1, 2**50)  # what a double loses in a few operations near 1
SINGLE_SLACK = Fraction(1, 2**23)  # the same of single precision
MAX_DIGITS = 30
MAX_EXPONENT = 400  # of a number as a text; floats have less
MAX_TEXT = 1000


class NotARate(ValueError):
    """A rate that is none, or none of n rollouts; the message says why."""


def decimal_of(value: object) -> Decimal | None:
    """A number as it is written, exactly; None if it is none. A percent sign is left out.

    >>> decimal_of(0.1), decimal_of("87.5%"), decimal_of("n/a")
    (Decimal('0.1'), Decimal('87.5'), None)
    """
    if isinstance(value, str):
        value = value.strip().removesuffix("%").strip()
        if "." not in value:
            value = value.replace(",", ".")  # a decimal comma; two are no number
    elif isinstance(value, bool) or (number := number_of(value)) is None:
        return None
    else:
        value = repr(number) if not number.is_integer() else str(int(number))
    try:
        found = Decimal(value)
    except InvalidOperation:
        return None
    if not found.is_finite() or abs(found.adjusted()) > MAX_EXPONENT or len(value) > MAX_TEXT:
        return None  # exact arithmetic with it would take for ever
    return found


def digits_of(value: Decimal) -> int:
    """Digits after the point, without zeros at the end.

    >>> digits_of(Decimal("0.0625")), digits_of(Decimal("1.0"))
    (4, 0)
    """
    exponent = value.normalize().as_tuple().exponent
    return max(0, -int(exponent)) if isinstance(exponent, int) else 0


def passes_of(rate: Decimal, total: int, digits: int | None = None, *, slack: Fraction | None = None) -> int:
    """Passes k of ``total`` rollouts that a rate stands for.

    Args:
        rate: In [0, 1].
        total: n, at least 0.
        digits: Digits that the rate was rounded to; None takes its own, and then takes a rate that is k/n exactly at
            its word, since zeros at the end are not written.
        slack: How far k/n may be from the rate; None takes half a unit of the last digit.

    Raises:
        NotARate: No k/n rounds to the rate, or several do; the message says which.

    >>> passes_of(Decimal("0.333"), 3), passes_of(Decimal("0.06"), 16)
    (1, 1)
    """
    exact = Fraction(rate)
    nearest = round(exact * total)
    if digits is None and exact * total == nearest:
        return nearest
    slack = rounding(digits_of(rate) if digits is None else digits) if slack is None else slack
    fits = [
        k
        for k in range(nearest - 1, nearest + 2)
        if 0 <= k <= total and abs(Fraction(k, max(total, 1)) - exact) <= slack
    ]
    if not fits and total:
        raise NotARate("none")
    if len(fits) > 1:
        raise NotARate("several")
    return fits[0] if fits else 0


def beyond_one(value: object) -> bool:
    """Whether a rate is above 1, or written with a percent sign: then it may be a percentage."""
    number = decimal_of(value)
    return number is not None and (number > 1 or (isinstance(value, str) and "%" in value))


def rounding(digits: int) -> Fraction:
    """How far a number with so many digits may be from what it stands for."""
    return max(Fraction(1, 2 * 10**digits), FLOAT_SLACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateReading:
    """How the rates of a column become counts.

    Attributes:
        percent: Rates are written from 0 to 100.
        fails: Rates are those of failures.
        digits: Digits of the column as fractions; None lets each value speak for itself.
        rollouts: n of every prompt, where the column shows it; else None.
    """

    percent: bool = False
    fails: bool = False
    digits: int | None = None
    rollouts: int | None = None

    def passes(self, value: object, total: int) -> int:
        """Passes of ``total`` rollouts.

        Raises:
            NotARate: The message is ``range``, ``none`` or ``several``.
        """
        rate = decimal_of(value)
        if rate is None or not 0 <= rate <= (100 if self.percent else 1):
            raise NotARate("range")
        try:
            found = self._passes(rate, total)
        except NotARate:
            if _short(rate) is None:
                raise
            found = self._passes(rate, total, SINGLE_SLACK)  # a rate of single precision, stored as a double
        return total - found if self.fails else found

    def _passes(self, rate: Decimal, total: int, slack: Fraction | None = None) -> int:
        return passes_of(rate.scaleb(-2) if self.percent else rate, total, self.digits, slack=slack)


@dataclass(slots=True, kw_only=True)
class RateColumn:
    """The different values of a column of rates, each with its number of prompts."""

    values: Counter[Decimal] = field(default_factory=Counter)
    odd: list[object] = field(default_factory=list)
    rows: int = 0
    percent_sign: bool = False
    single: bool = True  # every value so far is one of single precision

    def add(self, values: Sequence[object]) -> None:
        """Take a batch; missing values are left out."""
        for value, count in Counter(v if isinstance(v, str | float | int) else str(v) for v in values).items():
            if is_missing(value):
                continue
            self.rows += count
            number = decimal_of(value)
            if number is None:
                self.odd.append(value)
                continue
            self.percent_sign |= isinstance(value, str) and value.rstrip().endswith("%")
            self.single = self.single and _short(number) is not None
            if len(self.values) <= MAX_DISTINCT:
                self.values[number] += count

    def decimals(self) -> Mapping[Decimal, int]:
        """The values; those of single precision with the digits that it holds."""
        if not self.single:
            return self.values
        out: Counter[Decimal] = Counter()
        for number, count in self.values.items():
            out[_short(number) or number] += count
        return out


def reading_of(
    column: RateColumn, place: str, name: str, *, fails: bool, known_n: bool
) -> tuple[RateReading, tuple[str, ...]]:
    """How to read a column of rates, and notes on what was assumed.

    Args:
        column: All its values.
        place: Name of the source, for messages.
        name: Name of the column.
        fails: Rates are those of failures.
        known_n: Whether n is given, by a column or by the user.

    Raises:
        PilotFormatError: A value is no rate, percentages are not evident, or n is neither given nor evident.
    """
    if column.odd:
        raise PilotFormatError(f"{place}: {name} is {shown(column.odd[:1])}, which is no rate. Name another column.")
    values = column.decimals()
    if not values:
        raise PilotFormatError(f"{place}: {name} holds no rate at all. Name another column.")
    low, high = min(values), max(values)
    percent = column.percent_sign or high > 1
    if low < 0 or high > (100 if percent else 1):
        raise PilotFormatError(
            f"{place}: {name} must lie in [0, 1] or [0, 100]; got {float(low if low < 0 else high):g}."
        )
    whole = all(v == int(v) for v in values)
    if percent and whole and high < 100 and not (column.percent_sign or _says_percent(name)):
        raise PilotFormatError(
            f"{place}: {name} holds whole numbers up to {float(high):g}: percentages or counts? Divide "
            "percentages by 100; name counts with --k-column (k=)."
        )
    if percent:
        values = {v.scaleb(-2): count for v, count in values.items()}
    kind = "failure rates" if fails else "pass rates"
    notes = [f"{place}: {name} holds percentages, read as {kind} from 0 to 100."] if percent else []
    digits = max(digits_of(v) for v in values)
    if known_n:
        return RateReading(percent=percent, fails=fails, digits=digits), tuple(notes)
    n, reason = inferred_rollouts(values, single=column.single)
    if n is None:
        raise PilotFormatError(
            f"{place}: {name} holds {kind}, and nothing says of how many rollouts ({reason}). How many rollouts per "
            "prompt is each the mean of? Give it with --rollouts-per-prompt N (rollouts_per_prompt=), or name its "
            "column with --n-column (n=)."
        )
    interior = sum(c for v, c in values.items() if 0 < v < 1)
    notes.append(
        f"{place}: all {column.rows:,} rates in {name} are multiples of 1/{n}: n = {n} assumed; confirm with "
        f"--rollouts-per-prompt {n}. (With n = {2 * n}, {3 * n}, ... the counts of {interior:,} prompts would all be "
        "multiples by chance. Prompts with fewer rollouts than the others would not be noticed if they are few.)"
    )
    return RateReading(percent=percent, fails=fails, digits=digits, rollouts=n), tuple(notes)


def inferred_rollouts(values: Mapping[Decimal, int], *, single: bool = False) -> tuple[int | None, str]:
    """The n of a column of rates in [0, 1], or None and the reason why it is not evident.

    Args:
        values: The different rates, each with its number of prompts.
        single: They were of single precision.

    >>> inferred_rollouts({Decimal(k) / 8: 10 for k in range(9)})
    (8, '')
    >>> inferred_rollouts({Decimal("0"): 500, Decimal("0.5"): 500, Decimal("1"): 500})[1]
    'too few different rates between 0 and 1: 1'
    """
    inner = {v: c for v, c in values.items() if 0 < v < 1}
    prompts = sum(inner.values())
    if len(inner) < MIN_DISTINCT:
        return None, f"too few different rates between 0 and 1: {len(inner)}"
    if prompts < MIN_INTERIOR:
        return None, f"too few prompts with a rate between 0 and 1: {prompts}"
    if len(values) > MAX_DISTINCT:
        return None, f"more than {MAX_DISTINCT:,} different rates"
    digits = min(MAX_DIGITS, max(digits_of(v) for v in values))
    slack = max(rounding(digits), SINGLE_SLACK if single and digits > 6 else Fraction(0))
    exact = [Fraction(v) for v in inner]
    n = next((n for n in range(2, MAX_INFERRED + 1) if all(_fits(v, n, slack) for v in exact)), None)
    if n is None:
        return None, f"they are multiples of 1/n for no n up to {MAX_INFERRED}"
    shares = [_share_of_numbers(m, digits) for m in range(2, n + 1)]
    by_prompts, by_values = (sum(share**count for share in shares) for count in (prompts, len(inner)))
    if by_prompts > MAX_CHANCE or (len(inner) < n - 1 and by_values > MAX_CHANCE_OF_VALUES):
        written = f"{digits} digit{'' if digits == 1 else 's'}"
        return None, f"with {written} and {len(inner)} different rates, n = {n} may be rounding or chance"
    counts = {v: round(Fraction(v) * n) for v in inner}
    for prime in _primes(n):
        divisible = sum(c for v, c in inner.items() if counts[v] % prime == 0)
        if divisible > prompts / 2 and _upper_tail(divisible, prompts) < MAX_CHANCE:
            return None, (
                f"only multiples of 1/{n} fit all, yet {divisible / prompts:.0%} of them are multiples of "
                f"1/{n // prime}: n seems to differ between prompts"
            )
    return n, ""


def _share_of_numbers(n: int, digits: int) -> float:
    """Share of the numbers with so many digits between 0 and 1 that a k/n rounds to; halves round both ways."""
    numbers = int(10**digits) - 1
    if numbers > 10**6:
        return float((n - 1) / numbers)
    found = set()
    for k in range(1, n):
        twice, rest = divmod(2 * k * 10**digits, n)  # k/n in half units of the last digit
        found |= {twice // 2, (twice + 1) // 2} if not rest else {(twice + 1) // 2}
    return min(1.0, len(found - {0, numbers + 1}) / numbers)


def _fits(rate: Fraction, n: int, slack: Fraction) -> bool:
    return abs(Fraction(round(rate * n), n) - rate) <= slack


def _upper_tail(hits: int, trials: int) -> float:
    """Upper limit of the chance of at least so many heads of a fair coin (Hoeffding), for more than half."""
    return math.exp(-2.0 * (hits - trials / 2) ** 2 / trials)


def _primes(n: int) -> list[int]:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


def _says_percent(name: str) -> bool:
    return any(word in name.lower() for word in ("percent", "pct", "%"))


def _short(number: Decimal) -> Decimal | None:
    """A number of single precision with as few digits as tell it apart; None if it is of double precision."""
    import numpy as np

    with np.errstate(over="ignore"):
        single: Any = np.float32(float(number))
    return Decimal(str(single)) if float(single) == float(number) else None
