"""`build_report`: every answer to a pilot and a run, in one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from grpo_plan._validate import as_level, require
from grpo_plan.costs import Budget
from grpo_plan.errors import DomainError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.pilot import Pilot
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.temperature_result import nearest_to_one
from grpo_plan.report.choosing import common, only, what_if_section
from grpo_plan.report.difficulty import difficulty_document
from grpo_plan.report.example_step import example_prompts
from grpo_plan.report.request import (
    EXAMPLE_PROMPTS,
    FIT_SIZES,
    PLAIN_KAPPA,
    ReportRequest,
    assumed_step,
)
from grpo_plan.report.result import Report
from grpo_plan.report.sections import (
    FEWEST_STRATA,
    MOST_STRATA,
    Missing,
    command_document,
    compared,
    diagnosis_section,
    fit_section,
    fitted,
    mix_section,
    plan_section,
    planned,
    refill_section,
    temperature_section,
)
from grpo_plan.report.spelled import spelled
from grpo_plan.report.verdict import verdict_document
from grpo_plan.report.words import command_line
from grpo_plan.run_log import RunLog
from grpo_plan.runs.expectation import Expectation
from grpo_plan.trainers.planned import PlannedRecipe

NO_PILOT = "There is no pilot: give rollouts of the policy that shall be trained, e.g. grpo-plan report pilot.jsonl."
NO_RUN = "No run was given: add its log, e.g. grpo-plan report pilot.jsonl runs/exp1 -o report.html."
ONE_TEMPERATURE = "The pilot has one temperature: give pilots of the same prompts at others with --pilot T=FILE."
NO_STRATA = "The pilot has no named parts: name their column with --stratum-column."
NO_TRAINER = "No trainer was named: give --trainer, e.g. --trainer trl."
EVERYTHING = ("fit", "plan", "refill", "temperature", "mix", "strata", "diagnose", "difficulty", "curve", "what_if")


def build_report(
    pilot: Pilot | Mapping[float, Pilot] | None,
    run: RunLog | None = None,
    request: ReportRequest | None = None,
    **options: Any,
) -> Report:
    """Everything that can be said of a pilot, of a run, or of both.

    What cannot be planned is a section with its reason; only arguments outside their domain raise.

    Args:
        pilot: Counts of the policy to be trained, one for each temperature if there are several, or None.
        run: Log of a run.
        request: What is asked for.
        options: Fields of the request by name instead: ``budget`` (without one the plan is of one
            step of 128 prompts, and says so), ``cost_of`` (from a pilot to a `CostModel`), ``objective``,
            ``estimator``, ``kappa``, ``group_sizes``, ``coherence``, ``level``, ``population``, ``trainer``,
            ``expectation`` (of the run), ``settings`` (of its checks), ``made`` (date).

    Raises:
        DomainError: Neither pilot nor run, or an argument outside its domain.
        PilotError: The pilot cannot be fitted as it was said to be, and there is no run.

    >>> pilot = Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4)
    >>> report = build_report(pilot, budget=Budget(rollouts=100_000, steps=100), kappa=5.0)
    >>> document = report.document()
    >>> document["plan"]["recommended"]["group_size"], [m["section"] for m in document["missing"]]
    (4, ['temperature', 'strata', 'mix', 'diagnose', 'trainer'])
    """
    asked = replace(request or ReportRequest(), **options)
    if pilot is None and run is None:
        raise DomainError("A report needs a pilot or a run; got neither. Give grpo-plan report PILOT_OR_RUN.")
    as_level(asked.level)
    main, others = _main(pilot)
    main = asked.main or main
    if asked.budget is None and main is not None:
        asked = replace(asked, budget=_example(main, asked), example=True)
    if asked.words is None:
        asked = replace(asked, words=spelled(asked, None if main is None else asked.cost_of(main)))
    missing = Missing(asked.absent)
    body: dict[str, Any] = dict.fromkeys(EVERYTHING)
    commands: dict[str, str] = {}
    fit, plan, made_with = None, None, PlannedRecipe()
    if main is None:
        for section in EVERYTHING:
            if section != "diagnose":
                missing.setdefault(section, missing.get("pilot", NO_PILOT))
    else:
        if run is None:  # nothing else can be said: refused as fit refuses it
            fit = fitted(main, asked)
        else:
            fit = missing.attempt("fit", lambda: fitted(main, asked), asked=True)
    if fit is not None:
        plan, made_with = _plan(fit, asked, body, missing, commands)
        _fit(fit, plan, run, asked, body, missing, commands)
        _temperature(others, plan, asked, body, missing, commands)
        _strata(fit, plan, asked, body, missing, commands)
        what_if_section(fit, plan, made_with, asked, body, missing)
    elif main is not None:
        for section in EVERYTHING:
            if section != "diagnose":
                missing.setdefault(section, missing["fit"])
    diagnosis = None
    if run is None:
        missing.setdefault("diagnose", NO_RUN)
    else:
        require(run, RunLog, "run", "Read it with read_run.")
        told = _told(asked, body)
        expected = (
            asked if told is None else replace(asked, expectation=Expectation.from_json(body[told], f"{told}.json"))
        )
        found = missing.attempt("diagnose", lambda: diagnosis_section(run, expected))
        if found is not None:
            body["diagnose"], diagnosis = found
            if asked.said.run is not None:
                against = () if told is None else ("--plan", f"{told}.json")
                line = command_line(["diagnose", *asked.said.run, *against, "--json"])
                commands["diagnose"] = line if told is None else f"{commands[told]} > {told}.json && {line}"
    trainer = None if body["plan"] is None else body["plan"]["trainer"]
    if trainer is None:
        missing.setdefault("trainer", missing.get("plan", NO_TRAINER))
    title = asked.title or _title(asked, main, run)
    assumed = []
    if main is not None and asked.example and asked.budget is not None and asked.budget.prompts_per_step is not None:
        assumed = [assumed_step(asked.budget.prompts_per_step, asked.trainer.trainer)]
    refused = missing["fit"] if main is not None and fit is None else None
    document = {
        **command_document("report", {"title": title}),
        "verdict": verdict_document(fit, plan, diagnosis, missing, asked.level, refused),
        **body,
        "assumptions": [] if plan is None else list(plan.assumptions),
        "provenance": _provenance(asked, commands, assumed),
        "trainer": trainer,
        "missing": [{"section": name, "reason": reason} for name, reason in missing.items() if name != "pilot"],
    }
    return Report(title=title, missing=dict(missing), _document=document)


def _example(main: Pilot, asked: ReportRequest) -> Budget:
    """A step of an example, where no budget was given."""
    model = asked.cost_of(main)
    rules = asked.trainer.rules(model.gpus, asked.estimator, refill=model.refill)
    return Budget(prompts_per_step=example_prompts(rules, asked.group_sizes))


def _main(pilot: Pilot | Mapping[float, Pilot] | None) -> tuple[Pilot | None, Pilot | Mapping[float, Pilot] | None]:
    """The pilot that is planned on, at the temperature nearest 1, and all of them where there are several."""
    if pilot is None:
        return None, None
    if isinstance(pilot, Pilot):
        if len(pilot.temperatures) < 2:
            return pilot, None
        return pilot.select(temperature=nearest_to_one(list(pilot.temperatures))), pilot
    for one in pilot.values():
        require(one, Pilot, "pilot", "Read one with read_pilot(...).")
    if len(pilot) == 1:
        return next(iter(pilot.values())), None
    return pilot[nearest_to_one(list(pilot))], pilot


def _plan(
    fit: PassRateFit, asked: ReportRequest, body: dict[str, Any], missing: Missing, commands: dict[str, str]
) -> tuple[Plan | None, PlannedRecipe]:
    words, budget = asked.said, asked.budget or Budget(prompts_per_step=EXAMPLE_PROMPTS)
    plan = missing.attempt("plan", lambda: planned(fit, budget, asked), asked=True)
    made = None if plan is None else missing.attempt("plan", lambda: plan_section(plan, asked), asked=True)
    if plan is None or made is None:
        missing.setdefault("refill", f"There is no plan to refill: {missing['plan']}")
        return None, PlannedRecipe()
    body["plan"], recipe = made
    kappa = () if words.kappa == PLAIN_KAPPA else ("--kappa", words.kappa)
    commands["plan"] = command_line(
        ["plan", *words.pilot, *words.budget, *kappa, *words.plan, *words.trainer, "--json"]
    )
    filled = missing.attempt("refill", lambda: refill_section(plan, recipe, asked))
    if filled is not None:
        body["refill"], design = filled
        commands["refill"] = command_line(["refill", *words.pilot, *design, *common(words.plan), "--json"])
    return plan, recipe


def _fit(
    fit: PassRateFit,
    plan: Plan | None,
    run: RunLog | None,
    asked: ReportRequest,
    body: dict[str, Any],
    missing: Missing,
    commands: dict[str, str],
) -> None:
    wanted = [None if run is None else run.group_size, None if plan is None else plan.recommended.design.group_size]
    sizes = sorted({*FIT_SIZES, *(size for size in wanted if size is not None)})
    body["fit"] = missing.attempt("fit", lambda: fit_section(fit, sizes, asked))
    listed = ",".join(str(size) for size in sizes)
    beside = ["--compare"] if compared(fit) else []
    words = ["fit", *asked.said.pilot, "--group-sizes", listed, *beside, *common(asked.said.plan), "--json"]
    commands["fit"] = command_line(words)
    body["difficulty"] = missing.attempt("difficulty", lambda: difficulty_document(fit))


def _temperature(
    pilots: Pilot | Mapping[float, Pilot] | None,
    plan: Plan | None,
    asked: ReportRequest,
    body: dict[str, Any],
    missing: Missing,
    commands: dict[str, str],
) -> None:
    if pilots is None:
        missing.setdefault("temperature", ONE_TEMPERATURE)
        return
    size = 8 if plan is None else plan.recommended.design.group_size
    body["temperature"] = missing.attempt("temperature", lambda: temperature_section(pilots, size, asked.level))
    if body["temperature"] is not None and asked.said.several is not None:
        level = only(asked.said.plan, ("--level",))
        words = ["temperature", *asked.said.several, "--group-size", str(size), *level, "--json"]
        commands["temperature"] = command_line(words)


def _strata(
    fit: PassRateFit,
    plan: Plan | None,
    asked: ReportRequest,
    body: dict[str, Any],
    missing: Missing,
    commands: dict[str, str],
) -> None:
    count = len(fit.pilot.strata)
    if not FEWEST_STRATA <= count <= MOST_STRATA:
        reason = (
            NO_STRATA if count < FEWEST_STRATA else f"{count:,} parts are too many to compare: keep some (--where)."
        )
        missing.setdefault("strata", reason)
        missing.setdefault("mix", reason)
        return
    body["strata"] = None if body["fit"] is None else body["fit"].get("strata")
    if body["strata"] is None:
        missing.setdefault("strata", "The parts of this pilot cannot be fitted by themselves: groups are missing.")
    if plan is None:
        missing.setdefault("mix", f"There is no plan to mix for: {missing['plan']}")
        return
    body["mix"] = missing.attempt("mix", lambda: mix_section(fit.pilot, plan, asked))
    if body["mix"] is not None:
        words, design = asked.said, plan.recommended.design
        line = ["mix", *words.pilot, "--group-size", str(design.group_size)]
        line += ["--prompts-per-step", str(design.prompts_per_step), *only(words.plan, ("--estimator", "--level"))]
        line += [] if words.kappa == PLAIN_KAPPA else ["--kappa", words.kappa]
        commands["mix"] = command_line([*line, "--json"])


def _told(asked: ReportRequest, body: Mapping[str, Any]) -> str | None:
    """Whose numbers a run is held against: its plan, or the fit where the plan is an example; None where given."""
    if asked.expectation is not None or asked.own_pilot or body["fit"] is None:
        return None
    return "fit" if body["plan"] is None or asked.example else "plan"


def _title(asked: ReportRequest, main: Pilot | None, run: RunLog | None) -> str:
    names = [source.name for source in asked.sources if source.role in ("pilot", "run")]
    if names:
        return f"{' and '.join(dict.fromkeys(names[:3]))}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
    parts = [] if main is None else [f"a pilot of {main.prompts:,} prompts"]
    return " and ".join([*parts, *([] if run is None else [f"run {run.source}"])])


def _provenance(asked: ReportRequest, commands: Mapping[str, str], assumed: list[str]) -> dict[str, Any]:
    return {
        "version": asked.version,
        "made": asked.made.isoformat(timespec="seconds"),
        "command": command_line(asked.said.report),
        "sources": [{**asdict(s), "dropped": dict(s.dropped), "notes": list(s.notes)} for s in asked.sources],
        "commands": dict(commands),
        "assumed": assumed,
    }
