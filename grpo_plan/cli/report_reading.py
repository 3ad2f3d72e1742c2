"""What a report reads, and the command lines that read the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from grpo_plan.cli.pilot_options import PilotRequest, engine_apart, pilot_option_names
from grpo_plan.cli.report_sources import Sorted, by_temperature, describe, first_steps, with_steps
from grpo_plan.cli.report_target import Given
from grpo_plan.cli.run_options import RunRequest, parse_config
from grpo_plan.errors import DomainError, GrpoPlanError
from grpo_plan.report.words import number

if TYPE_CHECKING:
    from grpo_plan.pilot import Pilot
    from grpo_plan.report.request import Source, ThresholdPilot
    from grpo_plan.run_log import RunLog
    from grpo_plan.runs.settings import DiagnosisSettings

COLUMN = re.compile(r"temperature = '([^']*)'")
RUN_OPTIONS = ("run", "config", "group_size", "pass_threshold", "skip_malformed", "skip_bad", "level", "gpus",
               "usd_per_gpu_hour")  # fmt: skip
NO_GROUPS = (
    "The run holds no rollouts of known steps, so there is no pilot of its policy; what its aggregates say is in the "
    "diagnosis. Add a pilot, or the rollouts beside the log."
)


@dataclass(kw_only=True)
class Reading:
    """Pilots and run of one report.

    Attributes:
        request: The pilots, as asked for; its sources are all those that were given.
        given: The options that were given.
        found: What each source is.
        files: Files of ``--pilot``, by temperature.
        thresholds: Pass thresholds, the one that is planned first.
    """

    request: PilotRequest
    given: Given
    found: Sorted
    files: Mapping[float, str]
    thresholds: tuple[float, ...]
    main: Pilot | None = None
    main_words: tuple[str, ...] = ()
    several_words: tuple[str, ...] | None = None
    read: dict[str, Pilot] = field(default_factory=dict)
    main_request: PilotRequest | None = None

    def run(
        self, names: list[str] | None, config: list[str] | None, group_size: int | None, settings: DiagnosisSettings
    ) -> RunLog | None:
        """The run; None where rollouts that might be of one are of no steps, or of one alone."""
        own = self.request.options
        options = {
            "run": names or None, "config": parse_config(config or []), "group_size": group_size,
            "pass_threshold": own["pass_threshold"], "skip_malformed": own["skip_malformed"],
        }  # fmt: skip
        asked = RunRequest(sources=list(self.found.run), options=options, settings=settings)
        if not self.found.perhaps:
            return asked.read()
        try:
            log = asked.read()
        except GrpoPlanError:  # the reader of pilots says what is wrong, if anything
            self.found = self.found.without_run()
            return None
        if log.steps.size > 1:
            return log
        self.found = self.found.without_run()
        return None

    def run_instead(
        self, names: list[str] | None, config: list[str] | None, group_size: int | None, settings: DiagnosisSettings
    ) -> RunLog | None:
        """The one source, which is no pilot, as the log of a run; None where it is no log of several steps either."""
        before, self.found = self.found, Sorted(pilots=(), run=tuple(self.request.sources))
        try:
            log = self.run(names, config, group_size, settings)
        except GrpoPlanError:
            log = None
        if log is None or log.steps.size < 2 or not log.metrics:
            self.found = before
            return None
        return log

    def pilots(self, run: RunLog | None) -> tuple[Pilot | dict[float, Pilot] | None, dict[str, str]]:
        """The pilot, or one a temperature; and why there is none."""
        names = list(self.files.values()) or list(self.found.pilots)
        words = self.given.words(pilot_option_names())
        words += () if not self.thresholds else ("--pass-threshold", number(self.thresholds[0]))
        request = self.request
        if run is not None and (not names or self.found.both):
            steps = None if request.options["policy_steps"] is not None else first_steps(run)
            if not names or (steps is None and request.options["policy_steps"] is None):
                return None, {"pilot": NO_GROUPS}
            if steps is not None:
                request = with_steps(request, steps)
                words += ("--policy-steps", f"{steps[0]}:{steps[1]}")
            try:
                return self._one(replace(request, sources=names), words), {}
            except GrpoPlanError as error:
                return None, {"pilot": f"The rollouts of the run are no pilot: {error}"}
        if len(names) == 1 and not self.files:
            return self._one(replace(request, sources=names), words), {}
        for name in names:
            self.read[name] = replace(request, sources=[name]).read()
        found = by_temperature(self.files, self.read)
        if found is None:
            raise DomainError("--pilot names one temperature; give two or more, or the file alone.")
        from grpo_plan.planning.temperature_result import nearest_to_one

        base = nearest_to_one(list(found))
        name = next(name for name, pilot in self.read.items() if pilot is found[base])
        self.main, self.main_words = found[base], (name, *words)
        self.main_request = replace(request, sources=[name])
        at = {t: name for name, one in self.read.items() for t, pilot in found.items() if pilot is one}
        self.several_words = (*(w for t in found for w in ("--pilot", f"{t:g}={at[t]}")), *words)
        return found, {}

    def _one(self, request: PilotRequest, words: tuple[str, ...]) -> Pilot:
        """One source; of several temperatures in it the one nearest 1 is planned on."""
        from grpo_plan.cli.temperature import SAME_PROMPTS
        from grpo_plan.planning.temperature_result import nearest_to_one

        pilot = request.read(expected=SAME_PROMPTS)
        self.read[" ".join(request.sources)] = pilot
        self.main_words = (*request.sources, *words)
        self.main, self.main_request = pilot, request
        if len(pilot.temperatures) > 1:
            base = nearest_to_one(list(pilot.temperatures))
            told = next((m[1] for note in pilot.notes if (m := COLUMN.search(note))), None)
            column = request.options["temperature"] or told or "temperature"
            where = {**request.options["where"], column: [f"{base:g}"]}
            self.main_request = replace(request, options={**request.options, "where": where})
            self.several_words = self.main_words
            self.main_words = (*self.main_words, "--where", f"{column}={base:g}")
            self.main = _quietly(self.main_request)
        return pilot

    def other_thresholds(self) -> tuple[ThresholdPilot, ...]:
        """The main pilot at the other pass thresholds."""
        from grpo_plan.report.request import ThresholdPilot

        if self.main_request is None:
            return ()
        found = []
        for threshold in self.thresholds[1:]:
            request = replace(self.main_request, options={**self.main_request.options, "pass_threshold": threshold})
            words = list(self.main_words)
            words[words.index("--pass-threshold") + 1] = number(threshold)
            found.append(ThresholdPilot(threshold=threshold, pilot=_quietly(request), words=tuple(words)))
        return tuple(found)

    def run_words(self, plan: str | None, aggregates: tuple[int, ...]) -> tuple[str, ...] | None:
        """Words of ``diagnose``."""
        if not self.found.run:
            return None
        words = (*self.found.run, *self.given.words(RUN_OPTIONS))
        words += () if not self.thresholds else ("--pass-threshold", number(self.thresholds[0]))
        words += () if plan is None else ("--plan", plan)
        return words + (() if not aggregates else ("--what-if", ",".join(str(g) for g in aggregates)))

    def sources(self, plan: str | None, kappa: str | None) -> tuple[Source, ...]:
        """Provenance of everything that was read."""
        at = {name: t for t, name in self.files.items()}
        found = [
            describe(list(self.found.pilots) if name not in at and len(self.read) == 1 else [name], "pilot",
                     temperature=at.get(name), pilot=pilot)
            for name, pilot in self.read.items()
        ]  # fmt: skip
        found += [describe([name], "run") for name in self.found.run]
        found += [describe([name], role) for name, role in ((plan, "plan"), (kappa, "kappa")) if name is not None]
        return tuple(found)


def _quietly(request: PilotRequest) -> Pilot:
    """The same source once more: what there is to say of it has been said."""
    from grpo_plan.readers.pilot_reader import read_pilot

    with engine_apart():
        return read_pilot(request.sources, **request.options)
