"""``grpo-plan fit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PilotRequest,
    console,
    one_line,
    parse_group_sizes,
    percent,
    print_table,
    reads_pilot,
    say,
    tell,
    write_json,
)

if TYPE_CHECKING:
    from grpo_plan.fitting.result import DeadFraction, PassRateFit
    from grpo_plan.pilot import Pilot

DEFAULT_SIZES = "2,4,8,16,32,64"
MAX_STRATA = 200


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(fit))


def fit(
    request: PilotRequest,
    group_sizes: Annotated[str, typer.Option(help="Group sizes to report, comma separated.")] = DEFAULT_SIZES,
    family: Annotated[str, typer.Option(help="auto (unbiased counts up to n, Beta beyond) or beta.")] = "auto",
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Estimate the dead fraction at any group size from a pilot, with intervals.

    Example: grpo-plan fit pilot.jsonl --group-sizes 2,4,8,16
    """
    from grpo_plan.fitting.fit import fit_pass_rates

    sizes = parse_group_sizes(group_sizes)
    fitted = fit_pass_rates(request.read(), family=family)
    dead = [fitted.dead(size, level) for size in sizes]
    strata = _by_stratum(fitted, sizes, family, level)
    if json or format is OutputFormat.JSON:
        write_json("fit", _document(fitted, dead, strata, level))
    else:
        _print(fitted, dead, strata, level)


def _by_stratum(
    fitted: PassRateFit, sizes: list[int], family: str, level: float
) -> list[tuple[str, PassRateFit, list[DeadFraction]]]:
    from grpo_plan.fitting.fit import fit_pass_rates

    names = fitted.pilot.strata
    if len(names) > MAX_STRATA:
        tell(f"{len(names):,} strata are too many to report one by one; keep some with --where.")
    if not 2 <= len(names) <= MAX_STRATA:
        return []
    fits = [(name, fit_pass_rates(part, family=family)) for name, part in fitted.pilot.by_stratum().items()]
    return [(name, part, [part.dead(size, level) for size in sizes]) for name, part in fits]


def _document(
    fitted: PassRateFit,
    dead: list[DeadFraction],
    strata: list[tuple[str, PassRateFit, list[DeadFraction]]],
    level: float,
) -> dict[str, Any]:
    from grpo_plan.cli.numbers import dead_json

    document = {
        "pilot": pilot_json(fitted, level),
        "model": model_json(fitted),
        "dead": [dead_json(d) for d in dead],
    }
    if strata:
        document["strata"] = [
            {
                "stratum": name,
                "pilot": pilot_json(part, level),
                "model": model_json(part),
                "dead": [dead_json(d) for d in rows],
            }
            for name, part, rows in strata
        ]
    return document


def pilot_json(fitted: PassRateFit, level: float) -> dict[str, Any]:
    """The pilot behind a fit, as in the contract."""
    import numpy as np

    pilot, mean = fitted.pilot, fitted.mean_pass_rate_interval(level)
    return {
        "prompts": pilot.prompts,
        "rollouts": pilot.total_rollouts,
        "rollouts_per_prompt": {
            "min": int(pilot.rollouts.min()),
            "median": float(np.median(pilot.rollouts)),
            "max": int(pilot.rollouts.max()),
        },
        "mean_pass_rate": {"value": mean.value, "low": mean.low, "high": mean.high, "level": level},
        "dropped": dict(pilot.dropped),
        "notes": list(pilot.notes),
    }


def model_json(fitted: PassRateFit) -> dict[str, Any]:
    """The fitted model, as in the contract."""
    return {
        "family": fitted.family,
        "parameters": fitted.parameters,
        "status": fitted.status.name,
        "statuses": {s.name: s.sentence for s in fitted.statuses},
        "max_measured_group_size": fitted.max_measured_group_size,
    }


def pilot_line(pilot: Pilot) -> str:
    """Size of a pilot in words."""
    from grpo_plan.cli.numbers import plural

    low, high = int(pilot.rollouts.min()), int(pilot.rollouts.max())
    each = f"{low:,} each" if low == high else f"{low:,} to {high:,} each"
    return f"{plural(pilot.prompts, 'prompt')}, {plural(pilot.total_rollouts, 'rollout')} ({each})"


def _print(
    fitted: PassRateFit,
    dead: list[DeadFraction],
    strata: list[tuple[str, PassRateFit, list[DeadFraction]]],
    level: float,
) -> None:
    from rich.table import Table

    from grpo_plan.cli.numbers import rate, with_interval

    out = console()
    mean = fitted.mean_pass_rate_interval(level)
    out.print(f"Pilot   {pilot_line(fitted.pilot)}")
    out.print(f"        mean pass rate {with_interval(mean.value, mean.low, mean.high)}")
    say(out, _beta_line(fitted), "Beta    ")
    for status in fitted.statuses:
        say(out, f"{status.name}: {status.sentence}", "Status  ")
    out.print(f"\nDead fraction D(G): share of groups whose rewards all agree ({percent(level)} intervals)\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, side in (
        ("G", "right"),
        ("dead", "left"),
        ("all-fail", "left"),
        ("all-pass", "left"),
        ("i.i.d.", "left"),
    ):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for d in dead:
        table.add_row(str(d.group_size), *_cells(d), rate(d.iid))
    print_table(out, table)
    out.print()
    for line in _footnotes(fitted, dead, level):
        say(out, line, "  ")
    if strata:
        _print_strata(out, strata, level)


def _cells(d: DeadFraction) -> list[str]:
    """Dead fraction, all-fail and all-pass part of a row; a star marks what is extrapolated."""
    from grpo_plan.cli.numbers import with_interval
    from grpo_plan.fitting.status import FitStatus

    fails, passes = d.all_fail_interval or (None, None), d.all_pass_interval or (None, None)
    marked = "*" if d.status is FitStatus.EXTRAPOLATED else ""
    cells = [(d.value, d.low, d.high), (d.all_fail, *fails), (d.all_pass, *passes)]
    return [with_interval(*cell) + marked for cell in cells]


def _beta_line(fitted: PassRateFit) -> str:
    p = fitted.parameters
    if p["a"] is not None and p["b"] is not None:
        errors = "" if p["a_standard_error"] is None else " (standard errors)"
        a = f"{p['a']:.5g}" + (f" +- {p['a_standard_error']:.2g}" if p["a_standard_error"] is not None else "")
        b = f"{p['b']:.5g}" + (f" +- {p['b_standard_error']:.2g}" if p["b_standard_error"] is not None else "")
        return f"a = {a}, b = {b}{errors}"
    if p["correlation"] is None:
        return "spread of the pass rates unknown"
    if p["correlation"] == 0.0:
        return f"no spread found: all prompts near pass rate {p['mean']:.3f}"
    return "prompts pass always or never: no shape"


def _footnotes(fitted: PassRateFit, dead: list[DeadFraction], level: float) -> list[str]:
    from grpo_plan.cli.numbers import plural
    from grpo_plan.fitting.status import FitStatus

    largest, mean = fitted.max_measured_group_size, fitted.mean_pass_rate
    lines = [f"i.i.d.: p^G + (1-p)^G at the mean pass rate {mean:.3f}, the formula that people plan with."]
    compared = [d for d in dead if 1 < d.group_size <= min(largest, 16) and d.value is not None and d.iid > 0.0]
    if compared and (ratio := (compared[-1].value or 0.0) / compared[-1].iid) >= 1.05:
        times = f"{ratio:.2g}" if ratio < 100 else "over 100"
        lines[0] += (
            f" Here it is {times} times too low at G = {compared[-1].group_size}, because prompts differ (Jensen)."
        )
    partial = [d for d in dead if d.method == "u-statistic" and d.prompts_used < fitted.pilot.prompts]
    if partial:
        d = partial[-1]
        lines.append(
            f"D({d.group_size}) comes from {d.prompts_used:,} of {fitted.pilot.prompts:,} prompts, those with at least "
            f"{d.group_size} rollouts."
        )
    if any(d.status is FitStatus.EXTRAPOLATED for d in dead):
        beyond = next(d.group_size for d in dead if d.status is FitStatus.EXTRAPOLATED)
        lines.append(
            f"* EXTRAPOLATED: beyond the pilot's {plural(largest, 'rollout')} per prompt; a Beta fit, no interval yet. "
            "Where some prompts always fail or always pass it is too low, the more so the larger G."
        )
        cap = fitted.dead(largest, level) if largest > 1 else None
        if cap is not None and cap.high is not None:
            lines[-1] += (
                f" Sure is that D never rises with G: at most {cap.high:.3f} at {percent(level)}, the limit at "
                f"G = {largest}."
            )
        lines.append(f"To measure D({beyond}) instead, give each prompt {beyond} rollouts.")
    return lines


def _print_strata(out: Any, strata: list[tuple[str, PassRateFit, list[DeadFraction]]], level: float) -> None:
    from rich.table import Table

    sizes = [d.group_size for d in strata[0][2]]
    limit = min(8, *(part.max_measured_group_size for _, part, _ in strata))
    chosen = max((i for i, size in enumerate(sizes) if size <= limit), default=0)
    out.print(f"\nBy stratum, at G = {sizes[chosen]} ({percent(level)} intervals; every G with --json)\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stratum", overflow="ellipsis", max_width=12, no_wrap=True)
    for name in ("dead", "all-fail", "all-pass"):
        table.add_column(name, no_wrap=True)
    for name, _, rows in strata:
        d = rows[chosen]
        table.add_row(one_line(name), *_cells(d))
    print_table(out, table)
