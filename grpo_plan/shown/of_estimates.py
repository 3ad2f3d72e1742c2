"""What is shown of estimates: dead fractions, other means over prompts, pass@k, shares recovered from aggregates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grpo_plan._words import plural, rate
from grpo_plan.shown.fields import (
    Field,
    View,
    figures,
    flag,
    number,
    one,
    plain_number,
    ranged,
    share,
    text,
    whole,
    with_limits,
)


def percent(level: float) -> str:
    """A level as the pages say it.

    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100.0 * level:.10g} %"


def sentences(statuses: Iterable[Any]) -> list[str]:
    """Statuses that limit an answer, each with its sentence; none for OK."""
    return [f"{s.name}: {s.sentence}" for s in statuses if s.name != "OK"]


def dead_words(dead: Any) -> str:
    """A dead fraction in words."""
    return (
        f"D({dead.group_size}) = {ranged(dead.value, dead.low, dead.high)} ({percent(dead.level)}), {dead.status.name}"
    )


def dead_fields(path: str = "") -> tuple[Field, ...]:
    """The fields of a dead fraction that a row is, or has under a name."""

    def of(row: Any) -> Any:
        return getattr(row, path) if path else row

    at = f"{path}." if path else ""
    return (
        with_limits("dead", "share of groups whose rewards all agree", of),
        with_limits("all_fail", "its part without a pass", lambda row: (of(row).all_fail, *of(row).all_fail_interval)),
        with_limits("all_pass", "its part without a fail", lambda row: (of(row).all_pass, *of(row).all_pass_interval)),
        share("iid", "what the formula at the mean pass rate says", f"{at}iid", title="i.i.d."),
        share("plug_in", "mean of the formula at each k/n: biased up", f"{at}plug_in", title=""),
        share("jensen_gap", "dead less iid", f"{at}jensen_gap", title=""),
        share("identified_low", "least that no number of prompts could rule out", lambda r: _end(of(r), 0), title=""),
        share("identified_high", "most that no number of prompts could rule out", lambda r: _end(of(r), 1), title=""),
        number("level", "confidence level", f"{at}level", title=""),
        text("method", "how the value was found", f"{at}method", title=""),
        whole("prompts_used", "prompts behind the value", f"{at}prompts_used", unit="prompts", title=""),
        text("dead_status", "what the number can and cannot say", f"{at}status", title="status"),
    )


def _end(dead: Any, side: int) -> float | None:
    return None if dead.identified is None else float(dead.identified[side])


def _estimate(found: Any) -> str:
    shown = ranged(found.value, found.low, found.high, show=figures)
    return f"{found.name} = {shown} ({percent(found.level)})"


def _comparison(row: Any) -> str:
    return (
        f"{dead_words(row.default)}; i.i.d. {rate(row.iid)}, plug-in {rate(row.plug_in)}, Beta {rate(row.beta)}, "
        f"U-statistic {rate(row.u_statistic)}"
    )


def _curve(curve: Any) -> str:
    k = curve.ks[-1]
    first, last = curve.points[0], curve.points[-1]
    return (
        f"pass@{first.k} = {ranged(first.value, first.low, first.high)}, pass@{k} = "
        f"{ranged(last.value, last.low, last.high)} ({percent(curve.level)}), {last.status.name}"
    )


def _tail(tail: Any) -> str:
    exponent = ranged(tail.exponent, tail.low, tail.high, show=figures)
    return f"exponent of the tail {exponent} ({percent(tail.level)}), {tail.status.name}: {tail.reason}"


def _recovered_rows(found: Any) -> list[tuple[Any, ...]]:
    sizes = sorted({2, 4, 8, 16, 32, 64, found.group_size})
    return [(found.dead(g), found.all_fail(g), found.all_pass(g)) for g in sizes]


def _step_rows(found: Any) -> list[dict[str, Any]]:
    return [
        {"row": i, "status": status, "correlation": found.correlation[i], "size": size, "at": (i, j), "of": found}
        for i, status in enumerate(found.status)
        for j, size in enumerate(found.sizes)
    ]


def _step_limits(row: dict[str, Any]) -> tuple[float, float, float]:
    found, at = row["of"], row["at"]
    return found.value[at], found.low[at], found.high[at]


VIEWS = {
    "DeadFraction": View(
        headline=dead_words,
        row="the group size",
        rows=one,
        fields=(whole("group_size", "rollouts of a group, G", title="G"), *dead_fields()),
        notes=lambda d: sentences([d.status]),
    ),
    "Estimate": View(
        headline=_estimate,
        row="the estimate",
        rows=one,
        fields=(
            text("name", "what is estimated"),
            with_limits("value", "the estimate", lambda e: e, unit="of the name", show=figures),
            number("level", "confidence level"),
        ),
    ),
    "Comparison": View(
        headline=_comparison,
        row="the group size",
        rows=one,
        fields=(
            whole("group_size", "rollouts of a group, G", title="G"),
            with_limits("dead", "the default estimate", "default"),
            share("iid", "formula at the mean pass rate: too low", title="i.i.d."),
            share("plug_in", "mean of the formula at each k/n: too high", title="plug-in"),
            share("jeffreys", "the same at (k + 1/2) / (n + 1)", title="Jeffreys"),
            share("beta", "Beta fit; null where none fits", title="Beta"),
            share("u_statistic", "unbiased subgroup count; null above n", title="U-statistic"),
            text("status", "what the default estimate can and cannot say", "default.status"),
        ),
    ),
    "PassCurve": View(
        headline=_curve,
        row="one k",
        rows=lambda curve: curve.points,
        fields=(
            whole("k", "tries"),
            with_limits("pass_at_k", "chance of a pass in k tries", lambda p: p, title="pass@k"),
            with_limits(
                "all_pass",
                "chance that all k tries pass",
                lambda p: (p.all_pass, p.all_pass_low, p.all_pass_high),
                title="all k pass",
            ),
            flag("counted", "whether it is counted, not extrapolated"),
            whole("prompts_used", "prompts behind the value", unit="prompts", title=""),
            text("method", "how the value was found", title=""),
            text("status", "what the number can and cannot say"),
        ),
        notes=lambda curve: sentences(curve.statuses),
    ),
    "PassComparison": View(
        headline=lambda c: f"{c.verdict.name}: {c.reason}",
        row="one k",
        rows=lambda c: c.differences,
        fields=(
            whole("k", "tries"),
            with_limits("difference", "pass@k after less before", lambda d: d),
            with_limits("all_pass", "the same of all k tries passing", "all_pass", title=""),
            flag("counted", "whether both sides are counted"),
            whole("prompts", "prompts behind the difference", unit="prompts", title=""),
            text("status", "what the number can and cannot say"),
        ),
    ),
    "PassTail": View(
        headline=_tail,
        row="one k",
        rows=lambda tail: tail.local,
        fields=(
            whole("k", "tries"),
            with_limits("exponent", "local exponent of 1 - pass@k in k", lambda x: x, unit="", show=figures),
            flag("counted", "whether it rests on counts alone"),
        ),
    ),
    "RecoveredShare": View(
        headline=lambda s: f"{s.name}({s.group_size}) = {ranged(s.value, s.low, s.high)}, {s.status.name}",
        row="the group size",
        rows=one,
        fields=(
            text("name", "dead, mixed, all-pass or all-fail"),
            whole("group_size", "rollouts of a group", title="G"),
            with_limits("value", "the share", lambda s: s),
            text("status", "what stands behind it"),
        ),
    ),
    "Recovered": View(
        headline=lambda r: (
            f"dead fraction at any G from {', '.join(k.name for k in r.known)} of groups of {r.group_size}: "
            f"{r.status.name}, {r.range_means}"
        ),
        row="one group size: powers of two to 64 and that of the log",
        rows=_recovered_rows,
        fields=(
            whole("group_size", "rollouts of a group", lambda parts: parts[0].group_size, title="G"),
            with_limits("dead", "dead fraction, and its range over all distributions", lambda parts: parts[0]),
            with_limits("all_fail", "its part without a pass", lambda parts: parts[1]),
            with_limits("all_pass", "its part without a fail", lambda parts: parts[2]),
            text("status", "what stands behind it", lambda parts: parts[0].status),
        ),
    ),
    "RecoveredSteps": View(
        headline=lambda f: (
            f"D at G = {', '.join(map(str, f.sizes))} for {plural(len(f.status), 'row')} of groups of {f.group_size}"
        ),
        row="one row of the log at one group size",
        rows=_step_rows,
        fields=(
            plain_number("row", "row of the log, from 0", lambda r: r["row"]),
            whole("group_size", "rollouts of a group", lambda r: r["size"], title="G"),
            with_limits("dead", "dead fraction, and its range over all distributions", _step_limits),
            number("correlation", "correlation of two rollouts of a prompt", lambda r: r["correlation"]),
            text("status", "what stands behind the row", lambda r: r["status"]),
        ),
    ),
}
