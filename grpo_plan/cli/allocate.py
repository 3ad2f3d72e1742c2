"""``grpo-plan allocate``."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    OutputFormat,
    console,
    count_option,
    parse_whole,
    print_table,
    say,
    tell,
    write_json,
)
from grpo_plan.cli.files import write_text
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.statuses import say_source, statuses_json
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.pilot import Pilot
    from grpo_plan.planning.allocation import Allocation

SUFFIXES = (".jsonl", ".csv")
MOST_ROWS = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(allocate))


def allocate(
    request: PilotRequest,
    rollouts: Annotated[
        str | None, typer.Option(metavar="N", help="Rollouts for all prompts together. Default: 8 a prompt.")
    ] = None,
    estimator: Annotated[str, typer.Option(help="rloo or dr_grpo (least variance), or knapsack (value).")] = "knapsack",
    low: Annotated[int, count_option("Fewest rollouts of a prompt.")] = 3,
    high: Annotated[int, count_option("Most rollouts of a prompt.")] = 16,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Counts per prompt: .jsonl or .csv, or - for stdout as JSONL.")
    ] = None,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Spread a number of rollouts over prompts of a pilot.

    Each prompt is judged by the posterior of its pass rate, given its k of n and the pilot as a whole.

    Example: grpo-plan allocate pilot.jsonl --rollouts 9672 -o counts.jsonl
    """
    from grpo_plan.fitting.fit import fit_pass_rates
    from grpo_plan.planning.allocation import allocate_rollouts

    if output == "-" and (json or format is OutputFormat.JSON):
        raise DomainError("--output - writes counts to stdout, and --json its answer. Give a file, or one of them.")
    target = None if output in (None, "-") else _target(str(output), request)
    request.refuse_missing(
        "allocate",
        "rollouts go to all prompts, and the dropped ones are not in the pilot. Read a source with all groups.",
    )
    pilot = request.read()
    total = 8 * pilot.prompts if rollouts is None else parse_whole(rollouts, "--rollouts")
    fit = fit_pass_rates(pilot)
    with waiting("spreading the rollouts"):
        found = allocate_rollouts(fit, total, estimator=estimator, low=low, high=high)
    if output == "-":
        sys.stdout.write(_lines(pilot, found, ".jsonl"))
        return
    if target is not None:
        _write(target, _lines(pilot, found, target.suffix.lower()))
        tell(f"{output}: rollouts of {pilot.prompts:,} prompts.")
    if json or format is OutputFormat.JSON:
        write_json("allocate", _document(pilot, found, low, high) | statuses_json(fit.statuses))
    else:
        _print(pilot, found)
        say_source(fit.statuses)


def _target(output: str, request: PilotRequest) -> Path:
    target = Path(output)
    if target.suffix.lower() not in SUFFIXES:
        raise DomainError(f"--output must end in {' or '.join(SUFFIXES)}, or be -; got {output!r}.")
    if not target.parent.is_dir() or (target.exists() and not target.is_file()) or request.holds(target):
        raise DomainError(f"--output {output} is no place to write to. Give another name.")
    return target


def _write(target: Path, text: str) -> None:
    write_text(target, text, str(target))


def _lines(pilot: Pilot, found: Allocation, suffix: str) -> str:
    import csv
    from io import StringIO

    names = range(pilot.prompts) if pilot.prompt_id is None else pilot.prompt_id
    rows = [
        {"prompt_id": name if isinstance(name, int) else str(name), "k": int(k), "n": int(n), "rollouts": int(count)}
        for name, k, n, count in zip(names, pilot.successes, pilot.rollouts, found.rollouts, strict=True)
    ]
    if suffix == ".jsonl":
        return "".join(f"{json_module.dumps(row)}\n" for row in rows)
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _outcomes(pilot: Pilot, found: Allocation) -> list[dict[str, Any]]:
    """Counts by outcome k of n."""
    table: dict[tuple[int, int], list[int]] = {}
    for n, k, count in zip(pilot.rollouts, pilot.successes, found.rollouts, strict=True):
        table.setdefault((int(n), int(k)), []).append(int(count))
    return [
        {"n": n, "k": k, "prompts": len(c), "fewest": min(c), "most": max(c), "rollouts": sum(c)}
        for (n, k), c in sorted(table.items())
    ]


def _document(pilot: Pilot, found: Allocation, low: int, high: int) -> dict[str, Any]:
    return {
        "estimator": found.estimator,
        "prompts": pilot.prompts,
        "rollouts": int(found.rollouts.sum()),
        "fewest": low,
        "most": high,
        "multiplier": found.multiplier,
        "objective": found.objective,
        "uniform_objective": found.uniform_objective,
        "mixed_groups": found.mixed_groups,
        "uniform_mixed_groups": found.uniform_mixed_groups,
        "outcomes": _outcomes(pilot, found),
        "warning": found.warning,
    }


def _print(pilot: Pilot, found: Allocation) -> None:
    from rich.table import Table

    out = console()
    total = int(found.rollouts.sum())
    what = "value" if found.estimator == "knapsack" else "variance"
    ratio = found.objective / found.uniform_objective if found.uniform_objective else 1.0
    say(
        out,
        f"{total:,} rollouts on {pilot.prompts:,} prompts, {int(found.rollouts.min())} to {int(found.rollouts.max())} "
        f"each ({found.estimator})",
        "Plan    ",
    )
    say(out, f"total {what} x{ratio:.3f} of that with equal rollouts", "Gain    ")
    say(
        out, f"{found.mixed_groups:,.1f} groups expected; {found.uniform_mixed_groups:,.1f} with equal ones", "Mixed   "
    )
    if found.mixed_groups < found.uniform_mixed_groups:
        say(out, "fewer mixed groups than with equal rollouts: the objective does not count them", "Beware  ")
    out.print("\nRollouts by what the pilot saw\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("k of n", "prompts", "rollouts each", "in all"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = _outcomes(pilot, found)
    for row in rows[:MOST_ROWS]:
        each = str(row["fewest"]) if row["fewest"] == row["most"] else f"{row['fewest']}-{row['most']}"
        table.add_row(f"{row['k']} of {row['n']}", f"{row['prompts']:,}", each, f"{row['rollouts']:,}")
    print_table(out, table)
    if len(rows) > MOST_ROWS:
        say(out, f"{MOST_ROWS} of {len(rows)} outcomes; all with --json. Counts per prompt: --output FILE.", "  ")
    out.print()
    say(
        out,
        "The counts are exact over whole numbers for this objective, with each prompt's pass rate as the pilot leaves "
        "it (posterior). Objectives differ: knapsack favours p near 1/3, the variance ones p near 1/2.",
        "  ",
    )
