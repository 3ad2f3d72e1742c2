"""``grpo-plan plot``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from grpo_plan._suggest import not_one_of
from grpo_plan.cli.common import LevelOption, PopulationOption, count_option, parse_population, tell
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.errors import DomainError

KINDS = ("both", "dead", "pass-rates", "observed", "compare")
SUFFIXES = (".png", ".svg", ".pdf")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(plot))


def plot(
    request: PilotRequest,
    output: Annotated[str, typer.Option("--output", "-o", help="Picture to write: .png, .svg or .pdf.")] = "pilot.png",
    kind: Annotated[
        str,
        typer.Option(help="dead (against G), pass-rates, both, observed (as counted) or compare (usual estimates)."),
    ] = "both",
    max_group_size: Annotated[int, count_option("Largest G shown.")] = 64,
    population: PopulationOption = "sample",
    level: LevelOption = 0.95,
) -> None:
    """Draw a pilot: the dead fraction against the group size, and its pass rates.

    Plans, mixes, temperatures, remedies, runs and pass@k are drawn by their own commands (--plot or --output).

    Example: grpo-plan plot pilot.jsonl -o pilot.png
    """
    from grpo_plan.fitting.fit import fit_pass_rates
    from grpo_plan.plots.pilot import draw_pilot

    if kind not in KINDS:
        raise DomainError(not_one_of("--kind", kind, KINDS))
    request.refuse_missing("plot", "a picture of mixed groups alone misleads. Read a source with all groups.")
    target = picture_target(output, [request])
    pool = parse_population(population)
    draw_pilot(
        fit_pass_rates(request.read(), population=pool), target, kind=kind, max_group_size=max_group_size, level=level
    )
    tell(f"{output} written.")


def picture_target(output: str, requests: list[PilotRequest], option: str = "--output") -> Path:
    """Where a picture can be written: a known kind, in a folder that takes files, and none of the inputs."""
    target = Path(output)
    if target.suffix.lower() not in SUFFIXES:
        raise DomainError(f"{option} must end in {', '.join(SUFFIXES)}; got {output!r}.")
    if target.exists() and not target.is_file():
        raise DomainError(f"{option} {output} is no regular file. Give another name.")
    if any(request.holds(target) for request in requests):
        raise DomainError(f"{option} {output} is an input file, and inputs are never written to. Give another name.")
    if not target.parent.is_dir():
        raise DomainError(f"{option} {output} cannot be written (no such folder). Give another place.")
    try:
        probe_write(target)
    except OSError as error:
        raise DomainError(f"{option} {output} cannot be written ({error.strerror}). Give another place.") from None
    return target


def probe_write(target: Path) -> None:
    """Raise OSError now where a file could not be written later; nothing is left behind or changed."""
    if target.exists():
        with target.open("ab"):
            return
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".grpo-plan-", suffix=target.suffix):
        pass
