"""What a plan expects of a run: the dead fraction with its limits, all-pass and all-fail apart, at each group size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import NormalDist
from typing import Any, NoReturn

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level
from grpo_plan.errors import PlanFormatError
from grpo_plan.planning.plan import Plan

LARGEST_FILE = 1 << 28
SHARES = ("dead", "all_pass", "all_fail")
WRITE = "Write it with: grpo-plan plan PILOT --json > plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A share that is expected, and its confidence limits, all in [0, 1].

    Attributes:
        value: Expected share; None where the pilot does not tell it.
        low: Lower limit.
        high: Upper limit.
        level: Confidence level of the limits.
    """

    value: float | None
    low: float
    high: float
    level: float

    def upper(self, chance: float) -> float:
        """The upper limit that the true share exceeds with this chance: the given one, moved in logits.

        The distance from the value to the limit is stretched by the ratio of normal quantiles (theory.md, eq. 91).

        >>> share = Expected(value=0.5, low=0.45, high=0.55, level=0.95)
        >>> round(share.upper(0.025), 4), round(share.upper(0.001), 4)
        (0.55, 0.5784)
        """
        middle = 0.5 * (self.low + self.high) if self.value is None else self.value
        if not 0.0 < middle <= self.high < 1.0:
            return self.high
        normal = NormalDist()
        ratio = normal.inv_cdf(1.0 - as_level(chance, "chance")) / normal.inv_cdf(0.5 + self.level / 2.0)
        at = _logit(middle) + max(ratio, 0.0) * (_logit(self.high) - _logit(middle))
        return 1.0 / (1.0 + math.exp(-at))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGroups:
    """What is expected at one group size.

    Attributes:
        group_size: G.
        dead: Dead fraction.
        all_pass: Its part that all passes; None where it is not told.
        all_fail: Its part that all fails; None where it is not told.
        prompts_per_step: Groups of a step that were planned; None where the design is open.
        mixed_low: Mixed groups of a step in all but 5 % of steps below; None where the design is open.
        mixed_high: In all but 5 % above.
    """

    group_size: int
    dead: Expected
    all_pass: Expected | None
    all_fail: Expected | None
    prompts_per_step: int | None = None
    mixed_low: float | None = None
    mixed_high: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Expectation(Shown):
    """What was expected before a run, of the policy that the pilot was sampled from.

    Attributes:
        group_size: Group size that was planned; None for a fit, which plans none.
        by_group_size: Group size to what is expected there.
        mean_pass_rate: Mean pass rate of the pilot; None where it is not told.
        source: What it was read from, for messages.
    """

    group_size: int | None
    by_group_size: Mapping[int, ExpectedGroups] = field(repr=False)
    mean_pass_rate: Expected | None
    source: str

    def at(self, group_size: int) -> ExpectedGroups | None:
        """What is expected at a group size; None where it was not planned."""
        return self.by_group_size.get(group_size)

    @classmethod
    def from_plan(cls, plan: Plan, *, group_size: int | None = None, source: str = "the plan") -> Expectation:
        """Of a plan in memory: at the group size that it recommends, and at that of the run."""
        rows = {}
        for planned in (plan.recommended, *plan.frontier):
            d, mixed = planned.dead, planned.batch.mixed_groups
            if d.group_size in rows or d.group_size not in (group_size, plan.recommended.design.group_size):
                continue
            rows[d.group_size] = ExpectedGroups(
                group_size=d.group_size,
                dead=_expected(d.value, d.interval, d.level),
                all_pass=_expected(d.all_pass, d.all_pass_interval, d.level),
                all_fail=_expected(d.all_fail, d.all_fail_interval, d.level),
                prompts_per_step=planned.design.prompts_per_step,
                mixed_low=mixed.p05,
                mixed_high=mixed.p95,
            )
        mean = plan.fit.mean_pass_rate_interval(plan.level)
        return cls(
            group_size=plan.recommended.design.group_size,
            by_group_size=rows,
            mean_pass_rate=_expected(mean.value, (mean.low, mean.high), plan.level),
            source=source,
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Expectation:
        """Of the JSON that ``grpo-plan plan --json`` or ``grpo-plan fit --json`` prints.

        Raises:
            PlanFormatError: The file cannot be read, or holds no such thing.
        """
        file = Path(path)
        if file.exists() and (not file.is_file() or file.stat().st_size > LARGEST_FILE):
            _bad(path, "it is no regular file, or too large")
        try:
            body = json.loads(
                file.read_text(encoding="utf-8"), parse_constant=lambda word: _bad(path, f"it holds {word}")
            )
        except OSError as error:
            raise PlanFormatError(f"{path}: cannot be read ({error.strerror}). {WRITE}") from None
        except PlanFormatError:
            raise
        except (ValueError, RecursionError):
            raise PlanFormatError(f"{path}: is not JSON. {WRITE}") from None
        return cls.from_json(body, str(path))

    @classmethod
    def from_json(cls, body: object, source: str = "the plan") -> Expectation:
        """Of that JSON as an object.

        Raises:
            PlanFormatError: It is something else, or fields are missing.
        """
        if not isinstance(body, dict) or body.get("command") not in ("plan", "fit"):
            _bad(source, "it is not the answer of plan or fit")
        if body.get("schema") != 1:
            _bad(source, f"its schema is {body.get('schema')!r} and this version reads 1")
        try:
            if body["command"] == "fit":
                planned, rows = None, [_row(row, row) for row in body["dead"]]
            else:
                planned = _whole(body["recommended"]["group_size"])
                rows = [_row(row["dead"], row) for row in (*body["frontier"], body["recommended"])]
            mean = body["pilot"]["mean_pass_rate"]
            rate = None if mean.get("value") is None else _limits(mean, "", mean["level"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            _bad(source, "fields are missing or of another type")
        return cls(
            group_size=planned,
            by_group_size={row.group_size: row for row in rows},
            mean_pass_rate=rate,
            source=source,
        )


def _row(dead: Mapping[str, Any], row: Mapping[str, Any]) -> ExpectedGroups:
    level, mixed = float(dead["level"]), row.get("effective_batch", {}).get("mixed_groups", {})
    prompts = row.get("prompts_per_step")
    return ExpectedGroups(
        group_size=_whole(dead["group_size"]),
        dead=_limits(dead, "", level),
        all_pass=_part(dead, "all_pass", level),
        all_fail=_part(dead, "all_fail", level),
        prompts_per_step=None if prompts is None else _whole(prompts),
        mixed_low=None if mixed.get("p05") is None else float(mixed["p05"]),
        mixed_high=None if mixed.get("p95") is None else float(mixed["p95"]),
    )


def _part(dead: Mapping[str, Any], name: str, level: float) -> Expected | None:
    if dead.get(name) is None or dead.get(f"{name}_low") is None:
        return None
    return _limits({"value": dead[name], "low": dead[f"{name}_low"], "high": dead[f"{name}_high"]}, name, level)


def _limits(found: Mapping[str, Any], name: str, level: float) -> Expected:
    value = None if found["value"] is None else float(found["value"])
    low, high = float(found["low"]), float(found["high"])
    held = low if value is None else value
    if not 0.0 <= low <= held <= high <= 1.0 or not 0.0 < level < 1.0:
        raise ValueError(name)
    return Expected(value=value, low=low, high=high, level=float(level))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(value)
    return value


def _expected(value: float | None, limits: Iterable[float], level: float) -> Expected:
    low, high = limits
    return Expected(value=value, low=low, high=high, level=level)


def _logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _bad(source: str | PathLike[str], why: str) -> NoReturn:
    raise PlanFormatError(f"{source}: is no plan: {why}. {WRITE}")
