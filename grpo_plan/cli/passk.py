"""``grpo-plan passk``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    parse_whole,
    tell,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.waiting import waiting
from grpo_plan.errors import DomainError, PilotFormatError

if TYPE_CHECKING:
    from grpo_plan.passk import PassComparison, PassCurve
    from grpo_plan.pilot import Pilot

LIMITS = "computing limits over all distributions of pass rates"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(passk))


def passk(
    request: PilotRequest,
    ks: Annotated[
        str | None, typer.Option(metavar="K,...", help="Tries, comma separated. Default: powers of 2 up to 4 n.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="PILOT", help="Pilot of a second policy, e.g. after RL: compare the two.")
    ] = None,
    after_where: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Rows of the second policy, instead of --where; may be repeated."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Gain in pass@k that is still of interest, with --after. Default: 0.02.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Also draw the curves: .png, .svg or .pdf.")
    ] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Estimate pass@k and pass^k, and compare two policies by them.

    A pilot alone: the curve with intervals up to n and beyond, and how the unsolved share falls. With a second one:
    whether pass@k rose at every k or the curves cross, and which prompts came within reach.

    Example: grpo-plan passk base.jsonl --after trained.jsonl --ks 1,2,4,8,16
    """
    from grpo_plan.cli.page import print_page
    from grpo_plan.cli.passk_text import comparison_page, curve_page
    from grpo_plan.passk import compare_pass, pass_curve, pass_tail
    from grpo_plan.passk.compare import as_gain

    wanted = None if ks is None else parse_ks(ks)
    as_json = json or format is OutputFormat.JSON
    second = _second(request, after, after_where)
    if second is None and margin is not None:
        raise DomainError("--margin is of a comparison: give --after or --after-where too, or leave it out.")
    if second is not None:
        request.refuse_missing("passk --after", "policies are compared by all groups of a prompt.")
    gain = 0.02 if margin is None else as_gain(margin)
    target = None
    if output is not None:
        from grpo_plan.cli.plot import picture_target

        target = picture_target(output, [request, *([] if second is None else [second])])
    if second is not None:
        pilots = request.read(), _read_second(second, after_where)
        with waiting(LIMITS):
            found = compare_pass(*pilots, ks=wanted, level=level, margin=gain)
        _draw(found, output, target)
        if as_json:
            from grpo_plan.documents.passk import comparison_json

            write_json("passk", comparison_json(found))
        else:
            print_page(comparison_page(found))
    else:
        fit = request.fit(request.read())
        missing = fit.truncation is not None or fit.removed is not None
        with waiting(LIMITS):
            curve = pass_curve(fit, ks=wanted, level=level)
            tail = None if missing else pass_tail(fit, ks=curve.ks, level=level)
        _draw(curve, output, target)
        if as_json:
            from grpo_plan.documents.passk import curve_json

            write_json("passk", curve_json(curve, tail))
        else:
            print_page(curve_page(curve, tail))


def _draw(shown: PassCurve | PassComparison, output: str | None, target: Path | None) -> None:
    """Draw it, before anything is printed: an answer on stdout is followed by no error."""
    if target is None:
        return
    from grpo_plan.plots.passk import draw_pass_curve

    draw_pass_curve(shown, target)
    tell(f"{output} written.")


def _second(request: PilotRequest, after: str | None, after_where: list[str] | None) -> PilotRequest | None:
    """The second policy: another source, other rows of the same one, or both."""
    if after is None and not after_where:
        return None
    options = dict(request.options)
    if after_where:
        filters: dict[str, list[str]] = {}
        for item in after_where:
            column, equals, value = item.partition("=")
            if not equals or not column:
                raise DomainError(f"--after-where must be COLUMN=VALUE; got {item!r}.")
            filters.setdefault(column.strip(), []).append(value.strip())
        options["where"] = filters
    sources = list(request.sources) if after is None else [after]
    if "-" in sources and "-" in request.sources:
        raise DomainError("Standard input can be read once. Write one of the two policies to a file, and name that.")
    if sources == list(request.sources) and options["where"] == request.options["where"]:
        raise DomainError(
            "passk --after names the rows of the first pilot again, so there is nothing to compare. Give the pilot of "
            "another policy, or other rows with --after-where."
        )
    return replace(request, sources=sources, options=options)


def _read_second(second: PilotRequest, after_where: list[str] | None) -> Pilot:
    """The pilot of the second policy; an error about its rows names the option that chose them."""
    try:
        return second.read()
    except PilotFormatError as error:
        if not after_where:
            raise
        raise PilotFormatError(str(error).replace("--where", "--after-where")) from None


def parse_ks(text: str, option: str = "--ks") -> list[int]:
    """``1,2,4`` as a list.

    >>> parse_ks("4, 1")
    [4, 1]
    """
    try:
        found = [parse_whole(part, "") for part in text.split(",")]
    except DomainError:
        found = []
    if not found or min(found) < 1:
        raise DomainError(
            f"{option} must be whole numbers of at least 1, separated by commas, e.g. 1,2,4; got {text!r}."
        )
    return found
