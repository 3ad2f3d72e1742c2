"""What a log says of other group sizes, and of the steps to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_plan.cli.common import percent
from grpo_plan.cli.diagnose_numbers import expected_cell
from grpo_plan.cli.numbers import chance, few
from grpo_plan.cli.page import Bullet, Grid, Heading, Paragraph, Part
from grpo_plan.documents.diagnose import finite, with_present
from grpo_plan.errors import DomainError
from grpo_plan.runs.difficulty import Difficulty, Undetermined, difficulty_of
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.forecast import Forecast, ForecastStatus, forecast
from grpo_plan.runs.measured import Measured

SERIES = {"dead": "dead", "all-pass": "all_pass", "all-fail": "all_fail"}
RULE = "--forecast must be a share, or dead=SHARE, all-pass=SHARE or all-fail=SHARE, strictly between 0 and 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit that a share of groups may pass: its name as asked for, and the limit."""

    of: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The answer for one limit: a forecast, or why there is none."""

    limit: Limit
    forecast: Forecast | None
    reason: str | None


def parse_limit(text: str) -> Limit:
    """``0.8`` or ``all-pass=0.5``.

    >>> parse_limit("0.8"), parse_limit("all-pass = 50%")
    (Limit(of='dead', at=0.8), Limit(of='all-pass', at=0.5))
    """
    name, equals, number = text.rpartition("=")
    of = (name.strip().lower().replace("_", "-") if equals else "dead").removesuffix("-fraction")
    try:
        digits = number.strip()
        at = float(digits.removesuffix("%")) / (100.0 if digits.endswith("%") else 1.0)
    except ValueError:
        at = -1.0
    if of not in SERIES or not 0.0 < at < 1.0:
        raise DomainError(f"{RULE}; got {text!r}.")
    return Limit(of=of, at=at)


def look_ahead(facts: Facts, limits: Sequence[Limit], horizon_steps: int | None) -> list[Ahead]:
    """Forecasts of the shares asked for."""
    return [_ahead(facts, limit, horizon_steps) for limit in limits]


def _ahead(facts: Facts, limit: Limit, horizon_steps: int | None) -> Ahead:
    series = getattr(facts, SERIES[limit.of])
    if not isinstance(series, Measured):
        return Ahead(limit=limit, forecast=None, reason=series.reason)
    if not series.exact:
        return Ahead(limit=limit, forecast=None, reason=f"The {limit.of} share is only bounded ({series.words}).")
    found = forecast(
        series.steps,
        series.values,
        limit.at,
        groups=series.groups if series.groups_known else None,
        horizon_steps=None if horizon_steps is None else float(horizon_steps),
        level=facts.settings.level,
    )
    return Ahead(limit=limit, forecast=found, reason=None)


def ahead_parts(answers: Sequence[Ahead]) -> list[Part]:
    """As a part of the page."""
    return [Heading("Ahead"), *(Bullet(_ahead_text(a)) for a in answers)] if answers else []


def _ahead_text(answer: Ahead) -> str:
    name = f"{answer.limit.of.capitalize()} share above {answer.limit.at:g}"
    found = answer.forecast
    if found is None:
        return f"{name}: cannot be looked at. {answer.reason}"
    if found.status is ForecastStatus.TOO_SHORT or found.chance is None:
        return f"{name}: {found.status.sentence}"
    horizon = f"the next {found.horizon_steps:,.0f} steps"
    if found.status is ForecastStatus.ALREADY_BEYOND:
        return f"{name}: {found.status.sentence}"
    if found.crossing is not None or found.crossing_low is not None:
        ends = [_step(value, "later") for value in (found.crossing_low, found.crossing, found.crossing_high)]
        when = f"; step {ends[1]} [{ends[0]}, {ends[2]}]"
    else:
        when = ""
    band = ""
    if found.mid.size:
        level = percent(found.level)
        band = f" In {horizon} a row shows {found.mid[-1]:.3f} [{found.low[-1]:.3f}, {found.high[-1]:.3f}] at the end "
        band += f"({level} band)."
    return f"{name}: {found.status.sentence} Chance within {horizon}: {chance(found.chance)}{when}.{band}"


def _step(value: float | None, word: str) -> str:
    return word if value is None else f"{value:,.0f}"


def ahead_json(answers: Sequence[Ahead]) -> list[dict[str, Any]]:
    """As JSON."""
    return [_ahead_json(answer) for answer in answers]


def _ahead_json(answer: Ahead) -> dict[str, Any]:
    found = answer.forecast
    body: dict[str, Any] = {"of": answer.limit.of.replace("-", "_"), "limit": answer.limit.at}
    if found is None:
        return body | {"status": None, "sentence": answer.reason}
    return body | {
        "status": found.status.name,
        "sentence": found.status.sentence,
        "horizon_steps": _whole(found.horizon_steps),
        "level": found.level,
        "rows": found.rows,
        "chance": finite(found.chance),
        "crossing_step": _whole(found.crossing),
        "crossing_low": _whole(found.crossing_low),
        "crossing_high": _whole(found.crossing_high),
        "band": [
            {"step": _whole(float(s)), "mid": float(m), "low": float(a), "high": float(b)}
            for s, m, a, b in zip(found.steps, found.mid, found.low, found.high, strict=True)
        ],
    }


def _whole(step: float | None) -> float | int | None:
    """A step for JSON, without decimals where it has none."""
    known = finite(step)
    return int(known) if known is not None and known.is_integer() else known


def what_if(facts: Facts, sizes: Sequence[int]) -> Difficulty | Undetermined | None:
    """The pass rates at the end of a run, where other group sizes were asked for."""
    return difficulty_of(facts) if sizes else None


def what_if_parts(facts: Facts, found: Difficulty | Undetermined | None, sizes: Sequence[int]) -> list[Part]:
    """As a part of the page."""
    if found is None:
        return []
    parts: list[Part] = [Heading("At other group sizes, with the pass rates of now")]
    if isinstance(found, Undetermined):
        return [*parts, Paragraph(f"Cannot be told. {found.reason}")]
    size, prompts = facts.group_size, facts.prompts_per_step
    budget = None if size is None or prompts is None else size * prompts
    shares, live = [], []
    for g in with_present(sizes, size):
        at = found.at(g)
        name = f"{g:,}{' (now)' if g == size else ''}"
        shares.append([name, expected_cell(at.dead), expected_cell(at.all_pass), expected_cell(at.all_fail)])
        if budget is not None:
            live.append([name, few(budget / g), _mixed(at.dead, budget / g)])
    parts.append(Grid(["G", "dead", "all-pass", "all-fail"], shares))
    parts.append(Paragraph(found.rests_on))
    if budget is not None:
        parts.append(Paragraph(f"Of the same {budget:,} rollouts a step, fewer prompts where G is larger:"))
        parts.append(Grid(["G", "prompts a step", "mixed groups of them"], live))
    return parts


def _mixed(dead: Expected, prompts: float) -> str:
    low, high = prompts * (1.0 - dead.high), prompts * (1.0 - dead.low)
    value = "in" if dead.value is None else few(prompts * (1.0 - dead.value))
    return f"{value} [{few(low)}, {few(high)}]"
