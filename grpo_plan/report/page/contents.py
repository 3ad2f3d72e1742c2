"""What the templates need beside the document: the sections, reasons for those absent, pictures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_plan.report.page.pictures import batch_picture, dead_picture, frontier_picture
from grpo_plan.report.page.pictures_more import difficulty_picture, kinds_picture, refill_picture, temperature_picture
from grpo_plan.report.page.svg import Picture
from grpo_plan.report.page.tables import (
    ESTIMATES,
    UNITS,
    alternatives,
    comparison,
    cost,
    differences,
    from_log,
    kinds_of,
    mix_shares,
    schemes,
    sensitivity,
)
from grpo_plan.report.page.words import amount, count_limits, few, limits, percent, rate, whole

Row = Mapping[str, Any]
SECTIONS = (
    ("verdict", "Verdict"),
    ("what-if", "What if"),
    ("pilot", "Pilot"),
    ("difficulty", "Difficulty"),
    ("dead", "Dead groups"),
    ("effective-batch", "Effective batch"),
    ("frontier", "Designs"),
    ("refill", "Refill"),
    ("strata", "Strata"),
    ("temperatures", "Temperatures"),
    ("diagnosis", "Diagnosis"),
    ("trainer", "Trainer"),
    ("assumptions", "What it rests on"),
    ("provenance", "Where it comes from"),
)
# A section of the page, and the parts of the document whose absence explains its own, first the closest.
EXPLAINED_BY = {
    "what-if": ("what_if", "plan", "fit"),
    "pilot": ("fit",),
    "difficulty": ("difficulty", "fit"),
    "dead": ("curve", "fit"),
    "effective-batch": ("plan",),
    "frontier": ("plan",),
    "refill": ("refill", "plan"),
    "strata": ("strata", "fit"),
    "mix": ("mix", "strata"),
    "temperatures": ("temperature",),
    "diagnosis": ("diagnose",),
    "trainer": ("trainer", "plan"),
}


def contents(document: Row) -> dict[str, Any]:
    """Everything that the templates name."""
    fit, plan = document["fit"], document["plan"]
    return {
        "doc": document,
        "start_name": "the example" if plan is None else "the plan",
        "sections": SECTIONS,
        "missing": reasons(document),
        "tiles": tiles(document),
        "pictures": drawn(document),
        "independence": None if fit is None else fit.get("independence"),
        "compare": None if fit is None or not fit.get("compare") else comparison(fit["compare"]["rows"]),
        "estimates": ESTIMATES,
        "units": UNITS,
        "held_against": held_against(document),
        "sensitivity": None if plan is None else sensitivity(plan),
        "alternatives": None if plan is None else alternatives(plan["alternatives"]),
        "cost": None if plan is None else cost(plan["recommended"]["cost"]),
        "schemes": None if document["refill"] is None else schemes(document["refill"]["comparison"]),
        "mix_shares": None if document["mix"] is None else mix_shares(document["mix"]),
        "from_log": from_log(document["diagnose"]),
        "differences": None if document["temperature"] is None else differences(document["temperature"]),
    }


def held_against(document: Row) -> str | None:
    """Whose numbers the run is held against: a file that was given, or the plan or fit of this report.

    >>> held_against({"diagnose": {"plan": {"source": "plan.json"}}, "provenance": {"sources": []}})
    'the plan of this report'
    """
    run = document["diagnose"]
    if run is None or not run["plan"]:
        return None
    source = run["plan"]["source"]
    given = any(item["role"] == "plan" for item in document["provenance"]["sources"])
    own = {"plan.json": "the plan of this report", "fit.json": "the fit of this report"}
    return str(source) if given else own.get(source, str(source))


def reasons(document: Row) -> dict[str, str]:
    """Why a section is absent, for every section that can be; a reason is told once, in full.

    >>> reasons({"missing": [{"section": "plan", "reason": "No pilot."}]})["effective-batch"]
    'for the same reason as What if'
    """
    told = {item["section"]: item["reason"] for item in document["missing"]}
    titles = dict(SECTIONS)
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for section, names in EXPLAINED_BY.items():
        reason = next((told[name] for name in (section, *names) if name in told), "the report does not say why")
        if document.get(names[0]) is not None:
            continue  # it is there
        title = first.setdefault(reason, titles.get(section, "the part above"))
        found[section] = reason if title == titles.get(section) else f"for the same reason as {title}"
    return found


def tiles(document: Row) -> list[dict[str, str]]:
    """The numbers that stand below the verdict."""
    plan, found = document["plan"], []
    if plan is not None:
        best = plan["recommended"]
        dead, mixed, flat = best["dead"], best["effective_batch"]["mixed_groups"], plan["flat_range"]
        about = f"flat range: {flat[0]} to {flat[1]}" if flat[0] < flat[1] else "no other G of the table comes close"
        found += [
            _tile("Group size G", f"{best['group_size']}", "", about),
            _tile(
                "Dead groups",
                rate(dead["value"]),
                limits(dead["low"], dead["high"]),
                f"{percent(dead['level'])} interval",
            ),
            _mixed_tile(best["prompts_per_step"], mixed),
            _tile(
                "Rollouts",
                amount(best["cost"]["rollouts"]),
                "",
                f"of {'the run' if best['cost']['of'] == 'run' else 'a step'}",
            ),
        ]
    elif document["fit"] is not None and document["fit"]["dead"]:
        fit = document["fit"]
        size = fit["model"]["max_measured_group_size"]
        dead = min(fit["dead"], key=lambda row: abs(row["group_size"] - size))
        found.append(
            _tile(
                f"Dead groups at G = {dead['group_size']}",
                rate(dead["value"]),
                limits(dead["low"], dead["high"]),
                f"{percent(dead['level'])} interval, {dead['status']}",
            )
        )
    if document["diagnose"] is not None:
        worst, count = document["diagnose"]["worst"], len(document["diagnose"]["findings"])
        found.append(
            _tile("Gravest finding of the run", worst or "none", "", f"{count} finding{'' if count == 1 else 's'}")
        )
    return found


def _mixed_tile(prompts: int, mixed: Row) -> dict[str, str]:
    if mixed["mean_low"] is None:
        return _tile("Mixed groups a step", few(mixed["mean"]), "", "all of them: dead groups are replaced")
    spread = f"of {whole(prompts)}; {whole(mixed['p05'])} to {whole(mixed['p95'])} in 9 of 10"
    return _tile("Mixed groups a step", few(mixed["mean"]), count_limits(mixed["mean_low"], mixed["mean_high"]), spread)


def _tile(name: str, value: str, ends: str, about: str) -> dict[str, str]:
    return {"name": name, "value": value, "limits": ends, "words": about}


def drawn(document: Row) -> dict[str, Picture | None]:
    """The pictures; None where there is nothing to draw."""
    fit, plan, refill, run = document["fit"], document["plan"], document["refill"], document["diagnose"]
    rows = {row["group_size"]: row for row in [*(document["curve"] or []), *((fit or {}).get("dead") or [])]}
    known = plan is not None and all(
        row["signal"] is not None and row["signal"]["progress_at_kappa_low"] is not None for row in plan["frontier"]
    )
    planned = plan["recommended"]["group_size"] if plan else 8
    strata = [
        (str(item["stratum"]), kinds_of(_at_size(item["dead"], planned)))
        for item in document["strata"] or []
        if item["dead"]
    ]
    usual = _at_size(document["strata"][0]["dead"], planned)["group_size"] if strata else None
    return {
        "difficulty": difficulty_picture(document["difficulty"]) if document["difficulty"] else None,
        "dead": dead_picture(list(rows.values()), fit["model"]["max_measured_group_size"] if fit else None)
        if rows
        else None,
        "batch": None if plan is None else batch_picture(plan["frontier"], plan["recommended"]["group_size"]),
        "frontier": frontier_picture(plan) if known else None,
        "refill": refill_picture(refill) if refill and refill["options"] else None,
        "strata": kinds_picture(
            "strata-picture",
            f"What the groups of each stratum would be, at G = {usual}",
            strata,
            "stratum",
        )
        if strata
        else None,
        "temperature": temperature_picture(document["temperature"]) if document["temperature"] else None,
        "composition": composition(run) if run else None,
    }


def _at_size(rows: list[Row], size: int) -> Row:
    return min(rows, key=lambda row: abs(row["group_size"] - size))


def composition(run: Row) -> Picture | None:
    """What the groups of the run are made of, window by window, and what was planned."""
    rows: list[tuple[str, Row]] = [
        (f"{item['window']}, {item['first_step']} to {item['last_step']}", item) for item in run["composition"]
    ]
    plan = run["plan"]
    if plan and plan["dead"] and plan["all_fail"] and plan["all_pass"] and plan["dead"]["value"] is not None:
        dead = plan["dead"]
        mixed = {"value": 1 - dead["value"], "low": 1 - dead["high"], "high": 1 - dead["low"]}
        rows.append(("plan", {**plan, "mixed": mixed}))
    if not any(row["mixed"]["value"] is not None for _, row in rows):
        return None
    title = "What the groups of the run are made of"
    return kinds_picture("composition-picture", title, rows, "steps")
