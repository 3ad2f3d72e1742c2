"""Tables of rates: where the first rows leave open what the rates mean, the whole column is looked at first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import ColumnMap, RatesAlone
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.rates import RateColumn, reading_of
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.tables import count_file, count_native

Count = Callable[[ReadOptions, Tally], None]


def count_tables(files: Sequence[InputFile], request: ReadRequest, tally: Tally) -> None:
    """Count files of tables into a tally; rates without n, or in percent, cost a second pass over the files."""
    options = request.options
    for index, file in enumerate(files):

        def count(chosen: ReadOptions, into: Tally, file: InputFile = file) -> None:
            count_file(file, request.given, chosen, into, request.progress)

        def count_rest(chosen: ReadOptions, into: Tally, rest: Sequence[InputFile] = files[index:]) -> None:
            for other in rest:
                count_file(other, request.given, chosen, into, None)

        options = _counted(count, count_rest, file.name, request, options, tally)


def count_frame_rates(native: object, name: str, request: ReadRequest, tally: Tally) -> None:
    """Count a dataframe into a tally, likewise."""

    def count(chosen: ReadOptions, into: Tally) -> None:
        count_native(native, name, request.given, chosen, into)

    _counted(count, count, name, request, request.options, tally)


def _counted(
    count: Count, look: Count, name: str, request: ReadRequest, options: ReadOptions, tally: Tally
) -> ReadOptions:
    """Count; where rates need a look first, look and count again. The options as they were used are returned."""
    try:
        count(options, tally)
    except RatesAlone:
        if options.rate_column is not None:
            raise
    else:
        return options
    column, seen, known = RateColumn(), _Seen(), True
    try:
        look(replace(options, rate_column=column), Tally(observer=seen))
    except RatesAlone:  # nothing gives n: any will do for a look
        known = False
        look(replace(options, rollouts_per_prompt=1, rate_column=column), Tally(observer=seen))
    if seen.roles is None:  # --where keeps no row
        raise PilotFormatError(f"{name}: no row fits --where.")
    rates, fails = str(seen.roles.pass_rate or seen.roles.fail_rate), seen.roles.fail_rate is not None
    reading, notes = reading_of(column, name, rates, fails=fails, known_n=known)
    chosen = replace(options, rates=reading, rollouts_per_prompt=reading.rollouts or options.rollouts_per_prompt)
    count(chosen, tally)
    tally.notes.extend(notes)
    return chosen


class _Seen:
    """Notes which columns a look found."""

    def __init__(self) -> None:
        self.roles: ColumnMap | None = None

    def __call__(self, columns: object, roles: ColumnMap, options: object, place: object, tally: object) -> None:
        self.roles = roles
