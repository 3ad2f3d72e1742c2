"""``grpo-plan pilot-size``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    console,
    count_option,
    optional_whole,
    parse_group_sizes,
    percent,
    print_table,
    say,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.statuses import say_source, statuses_json
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError

ROUGH = 0.3  # width of a prior's own interval from which it is called so

if TYPE_CHECKING:
    from grpo_plan.planning.pilot_size import PilotPlan, PilotSize


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="pilot-size")(reads_pilot(pilot_size, required=False))


def pilot_size(
    request: PilotRequest,
    group_size: Annotated[int, count_option("Group size whose dead fraction is wanted.")] = 16,
    half_width: Annotated[float, typer.Option(help="Half of the wanted width of its interval.")] = 0.03,
    beta: Annotated[
        str | None, typer.Option(metavar="A,B", help="Shapes of a Beta to expect, instead of a first pilot.")
    ] = None,
    try_rollouts: Annotated[
        str | None, typer.Option(help="Rollouts per prompt to try, comma separated. Default: 2, 4, ... 2 G.")
    ] = None,
    max_prompts: Annotated[str | None, typer.Option(help="Prompts that there are.")] = None,
    max_rollouts: Annotated[str | None, typer.Option(help="Rollouts that the pilot may cost.")] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Say how many prompts and rollouts per prompt a pilot needs.

    What to expect is a first pilot, or a Beta: 0.3,0.3 where many prompts always pass or always fail, 1,1 where pass
    rates are spread evenly.

    Example: grpo-plan pilot-size pilot.jsonl --group-size 16 --half-width 0.03
    """
    from grpo_plan.fitting.result import PassRateFit
    from grpo_plan.planning.pilot_size import plan_pilot

    if bool(request.sources) == (beta is not None):
        raise DomainError("pilot-size needs either a first pilot or --beta A,B, e.g. --beta 0.3,0.3.")
    prior = _shapes(beta) if beta is not None else request.fit(request.read())
    statuses = prior.statuses if isinstance(prior, PassRateFit) else ()
    with waiting("trying pilots"):
        plan = plan_pilot(
            prior,
            target_group_size=group_size,
            half_width=half_width,
            level=level,
            rollouts_per_prompt=None if try_rollouts is None else parse_group_sizes(try_rollouts),
            max_prompts=optional_whole(max_prompts, "--max-prompts"),
            max_rollouts=optional_whole(max_rollouts, "--max-rollouts"),
        )
    if json or format is OutputFormat.JSON:
        write_json("pilot-size", _document(plan) | statuses_json(statuses))
    else:
        _print(plan)
        say_source(statuses)


def _shapes(text: str) -> tuple[float, float]:
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise DomainError(f"--beta must be two numbers with a comma, e.g. 0.3,0.3; got {text!r}.") from None
    return a, b


def _option_json(option: PilotSize) -> dict[str, Any]:
    return {
        "rollouts_per_prompt": option.rollouts_per_prompt,
        "prompts": option.prompts,
        "rollouts": option.rollouts,
        "settles": option.settles,
        "expected_low": option.low,
        "expected_high": option.high,
    }


def _document(plan: PilotPlan) -> dict[str, Any]:
    return {
        "group_size": plan.group_size,
        "half_width": plan.half_width,
        "level": plan.level,
        "expected_dead": plan.expected_dead,
        "expected_dead_interval": list(plan.expected_dead_interval) if plan.expected_dead_interval else None,
        "prior": plan.prior,
        "recommended": _option_json(plan.recommended),
        "options": [_option_json(option) for option in plan.options],
    }


def _print(plan: PilotPlan) -> None:
    from rich.table import Table

    out, best = console(), plan.recommended
    say(
        out,
        f"{best.prompts:,} prompts x {best.rollouts_per_prompt} rollouts = {best.rollouts:,} rollouts give "
        f"D({plan.group_size}) to +-{plan.half_width:g} on average ({percent(plan.level)} interval; about half of such "
        "pilots get a little more).",
        "Pilot   ",
    )
    known = ""
    if plan.expected_dead_interval is not None:
        low, high = plan.expected_dead_interval
        known = f" [{low:.3f}, {high:.3f}]"
        if high - low > ROUGH:
            known += "; that is little to plan on: take a part of this pilot first, then ask again"
    say(out, f"pass rates {plan.prior}; D({plan.group_size}) = {plan.expected_dead:.3f}{known} there", "Prior   ")
    out.print("\nFewest prompts at each number of rollouts per prompt\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("n", "prompts", "rollouts", f"expected interval of D({plan.group_size})"):
        table.add_column(name, justify="left" if "interval" in name else "right", no_wrap=True)
    for option in plan.options:
        count = "-" if option.prompts is None else f"{option.prompts:,}"
        total = "-" if option.rollouts is None else f"{option.rollouts:,}"
        note = "" if option.prompts is not None else "  with all allowed" if option.settles else "  open for ever"
        first = f"> {option.rollouts_per_prompt}" if option is best else str(option.rollouts_per_prompt)
        table.add_row(first, count, total, f"[{option.low:.3f}, {option.high:.3f}]{note}")
    print_table(out, table)
    out.print()
    say(
        out,
        "Rule: n = G rollouts per prompt; G/2 where G is a guess or prompts are plenty. With n below G the pilot must "
        "guess at what it did not see; with n = G/4 or less it takes very many prompts, or none suffice (open for ever:"
        " infinitely many prompts leave this range). With n above G, rollouts go into prompts that are already known. "
        "With all allowed: what the most prompts allowed would give.",
        "  ",
    )
