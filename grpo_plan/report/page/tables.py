"""Tables of the page that no picture shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grpo_plan.report.page.svg import Table
from grpo_plan.report.page.words import amount, interval, limits, plain, rate, short, unsnake, whole

Row = Mapping[str, Any]
ESTIMATES = {
    "iid": "i.i.d.", "plug_in": "plug-in", "jeffreys": "Jeffreys", "beta": "beta-binomial",
    "u_statistic": "U-statistic", "default": "this report",
}  # fmt: skip
FAR = ("EXTRAPOLATED", "BEYOND_REACH", "UNKNOWN")
UNITS = {"gpu_hours": "GPU-hours", "usd": "USD"}


def comparison(rows: Sequence[Row]) -> Table:
    """The usual estimates side by side."""
    names = tuple(name for name in ESTIMATES if name != "default")
    return Table(
        caption="Dead fraction by the usual estimates and by this tool",
        head=("G", *(ESTIMATES[name] for name in (*names, "default"))),
        rows=[
            (
                f"{row['group_size']}",
                *("-" if row[name] is None else rate(row[name]) for name in names),
                f"{rate(row['default'])} {limits(row['low'], row['high'])}",
            )
            for row in rows
        ],
    )


def sensitivity(plan: Row) -> Table:
    """The answer at each kappa."""
    status = {row["group_size"]: row["dead"]["status"] for row in plan["frontier"]}
    far = [size for size, name in status.items() if name in FAR]

    def marked(size: int) -> str:
        return f"{size} ({status[size]})" if size in far else f"{size}"

    def about(row: Row) -> str:
        first, last = row["flat_range"]
        beyond = [size for size in far if first <= size <= last]
        return f"{first} to {last}" + (f"; from {min(beyond)} on {status[min(beyond)]}" if beyond else "")

    return Table(
        caption="The best group size at each kappa",
        head=("kappa", "best G", "within 10 % of the best", "the pilot cannot tell from it"),
        rows=[
            (amount(row["kappa"]), marked(row["group_size"]), about(row), _alike(plan, row))
            for row in plan["sensitivity"]
        ],
    )


def _alike(plan: Row, answer: Row) -> str:
    """Group sizes whose progress may be that of the best by its limits, at the kappas where those are computed."""
    ends = [end for end in ("low", "high") if plan["kappa"][end] == answer["kappa"]]
    if not ends:
        return "not computed at this kappa"
    name = f"progress_at_kappa_{ends[0]}_limits"
    rows = [(row["group_size"], (row["signal"] or {}).get(name)) for row in plan["frontier"]]
    alike = [size for size, found in rows if found is not None and found[1] >= 1.0 and size != answer["group_size"]]
    return f"{', '.join(str(size) for size in sorted(alike))}" if alike else "none"


def alternatives(rows: Sequence[Row]) -> Table:
    """What other objectives pick."""
    found = []
    for row in rows:
        flat = row["flat_range"]
        if row["group_size"] is None:
            found.append((row["objective"], "no design", "", ""))
            continue
        about = (
            f"{flat[0]} to {flat[1]}"
            if flat and flat[0] < flat[1]
            else "-"
            if row["runner_up"] is None
            else f"next {row['runner_up']}"
        )
        found.append((row["objective"], f"{row['group_size']}", interval(row["dead"]), about))
    return Table(
        caption="What other objectives pick", head=("objective", "G", "dead", "about as good, or next"), rows=found
    )


AMOUNTS = (
    "rollouts",
    "rollout_equivalents",
    "groups",
    "trained_groups",
    "generated_tokens",
    "prefilled_tokens",
    "trained_tokens",
    "seconds",
    "gpu_hours",
    "usd",
)


def cost(found: Row) -> Table:
    """What a run or a step costs, with the limits that the dead fraction sets."""
    low, high = found["at_dead_low"], found["at_dead_high"]
    rows = []
    for name in AMOUNTS:
        value = found[name]
        if value is None:
            continue
        both = low and high and low[name] is not None and high[name] is not None
        first, last = sorted((low[name], high[name])) if both else (None, None)
        ends = (
            limits(first, last, amount)
            if both
            else "the same, at the estimated pass rate"
            if low is None
            else "no limit"
        )
        rows.append((UNITS.get(name, unsnake(name)), amount(value), ends))
    of = "the run" if found["of"] == "run" else "a step"
    return Table(
        caption=f"Cost of {of}", head=(f"cost of {of}", "amount", "at the limits of the dead fraction"), rows=rows
    )


def schemes(rows: Sequence[Row]) -> Table:
    """Rollouts of a mixed group under each way to sample."""
    return Table(
        caption="Rollouts for one mixed group, by scheme",
        head=("scheme", "group size", "rollouts per prompt", "dropped", "rollouts per mixed group", "status"),
        rows=[
            (
                row["scheme"],
                plain(row["group_size"]),
                _three(row["rollouts_per_prompt"], amount),
                _three(row["dropped_fraction"], rate),
                _three(row["rollouts_per_group"], amount),
                row["status"],
            )
            for row in rows
        ],
    )


def _three(found: Row | None, form: Any) -> str:
    if found is None:
        return "none expected"
    if found["low"] == found["value"] == found["high"] and found["value"] is not None:
        return str(form(found["value"]))
    return interval(found, "value", form)


def mix_shares(mix: Row) -> Table:
    """Shares of the strata now and in the better mix."""
    return Table(
        caption="Shares of the strata",
        head=("stratum", "prompts", "pass rate", "dead", "share now", "share in the mix", "progress of its groups"),
        rows=[
            (
                short(row["stratum"]),
                whole(row["prompts"]),
                rate(row["mean_pass_rate"]),
                interval(row["dead"]),
                rate(row["before"]),
                rate(row["after"]),
                amount(row["progress"]),
            )
            for row in mix["strata"]
        ],
    )


def differences(found: Row) -> Table:
    """Each temperature against the baseline."""

    def cell(part: Row | None) -> str:
        return "not known" if part is None else interval(part)

    return Table(
        caption="Differences between temperatures",
        head=("temperature", "compared", "dead", "all-fail", "all-pass", "pass rate"),
        rows=[
            (
                plain(row["temperature"]),
                f"{whole(row['prompts'])} prompts, {'paired' if row['paired'] else 'not paired'}",
                *(cell(row[name]) for name in ("dead", "all_fail", "all_pass", "pass_rate")),
            )
            for row in found["differences"]
        ],
    )


def kinds_of(dead: Row) -> dict[str, Row]:
    """A dead fraction as its kinds of group, each with value, low and high."""

    def other(value: float | None) -> float | None:
        return None if value is None else 1.0 - value

    return {
        "dead": {name: dead[name] for name in ("value", "low", "high")},
        "mixed": {"value": other(dead["value"]), "low": other(dead["high"]), "high": other(dead["low"])},
        **{
            kind: {"value": dead[kind], "low": dead[f"{kind}_low"], "high": dead[f"{kind}_high"]}
            for kind in ("all_fail", "all_pass")
        },
    }


def from_log(run: Row | None) -> Table | None:
    """Dead fraction of other group sizes, as far as the log of a run tells it."""
    found = None if run is None else run["what_if"]
    if found is None or not found["rows"]:
        return None
    return Table(
        caption="Other group sizes, from the log",
        head=("G", "dead", "all-fail", "all-pass"),
        rows=[
            (
                f"{row['group_size']}",
                *("unknown" if row[kind] is None else interval(row[kind]) for kind in ("dead", "all_fail", "all_pass")),
            )
            for row in found["rows"]
        ],
    )
