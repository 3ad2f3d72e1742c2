"""``grpo-plan diagnose``: the page, its JSON and Markdown, every option, exit codes, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_plan.cli.diagnose_json import diagnosis_json
from grpo_plan.cli.diagnose_numbers import waste_text
from grpo_plan.cli.diagnose_page import diagnosis_page
from grpo_plan.cli.diagnose_strip import HEIGHT, WIDTH, legend, strip, surely_above
from grpo_plan.cli.page import Grid, page_markdown, page_text
from grpo_plan.group_log import GroupLog
from grpo_plan.quantities import Stage
from grpo_plan.readers import read_run
from grpo_plan.run_log import RunLog
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Clear, Finding, Remedy, Severity, Skipped, Waste
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import share_over
from grpo_plan.runs.settings import DiagnosisSettings
from tests.conftest import ROOT
from tests.runs import composed, plan_body
from tests.test_cli import Run, document, run  # noqa: F401

BODY = {
    "schema", "command", "verdict", "worst", "findings", "skipped", "clear", "run", "composition", "plan", "what_if",
    "forecast",
}  # fmt: skip
FINDING = {
    "id", "severity", "says", "onset_step", "evidence", "cost", "remedy", "remedies", "reference"
}  # fmt: skip
PART = {"value", "low", "high", "seen_low", "seen_high", "rows", "groups", "groups_known", "from", "stage", "reason"}


def trl_log(
    path: str | Path, dead: Any, reward: Any = 0.4, *, steps: Any = None, more: Mapping[str, Any] | None = None
) -> Path:
    """A log of TRL as JSON lines."""
    share = np.atleast_1d(np.asarray(dead, dtype=float))
    mean = np.broadcast_to(np.asarray(reward, dtype=float), share.shape)
    at = range(1, share.size + 1) if steps is None else steps
    rows = [
        {"step": int(s), "reward": float(m), "frac_reward_zero_std": float(d), **(more or {})}
        for s, d, m in zip(at, share, mean, strict=True)
    ]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Path(path)


def tinker_log(path: str, fail: Any, passes: Any) -> None:
    """A log of tinker: all-fail and all-pass shares."""
    rows = [
        {
            "step": i,
            "env/all/by_group/frac_mixed": float(1 - f - p),
            "env/all/by_group/frac_all_good": float(p),
            "env/all/by_group/frac_all_bad": float(f),
            "env/all/reward/total": float(p + 0.5 * (1 - f - p)),
        }
        for i, (f, p) in enumerate(zip(fail, passes, strict=True))
    ]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def plan_file(path: str = "plan.json", **given: Any) -> str:
    Path(path).write_text(json.dumps(plan_body(**given)), encoding="utf-8")
    return path


def group_log(dead: list[bool]) -> GroupLog:
    """Groups of four rollouts of step 1: dead ones all fail, others pass once."""
    n, top = len(dead), np.where(dead, 0.0, 1.0)
    return GroupLog(
        step=np.full(n, 1), prompt_id=np.array([f"p{i}" for i in range(n)], dtype=object), rollouts=np.full(n, 4),
        scored=np.full(n, 4), reward_min=np.zeros(n), reward_max=top, reward_mean=top / 4,
    )  # fmt: skip


def starved(path: str = "starved.jsonl") -> str:
    """A run that learns nothing: 9 of 10 groups all fail, for ever."""
    tinker_log(path, np.random.default_rng(7).binomial(64, 0.9, 60) / 64, np.full(60, 0.0))
    return path


# --- the page ----------------------------------------------------------------------------------------------------


def test_the_page_says_the_verdict_first(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.tile([0.25, 0.5], 30))
    answer = run("diagnose", "log.jsonl", "--details")
    assert answer.code == 0
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].startswith("Verdict  37.5 %")
    assert max(map(len, lines)) <= 80
    order = [
        "Verdict", "Run ", "Log ", "What the groups are made of", "Dead fraction by step", "Findings",
        "Checked and clear", "Not checked, and what it needs", "How the log was read",
    ]  # fmt: skip
    found = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in order]
    assert found == sorted(found)
    assert "nan" not in answer.out.lower()
    assert "\x1b" not in answer.out


def test_the_table_holds_early_and_late_and_the_plan(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.r_[np.full(30, 0.25), np.full(30, 0.75)])
    out = run(
        "diagnose",
        "log.jsonl",
        "--prompts-per-step",
        32,
        "--group-size",
        8,
        "--plan",
        plan_file(dead=(0.5, 0.42, 0.55)),
    ).out
    assert "  mixed         0.750 [0.704, 0.793]  0.250 [0.207, 0.296]  0.500 [0.450, 0.580]" in out
    assert "  groups        early, 1 to 12        late, 49 to 60        plan" in out
    # 12 rows of 32 groups, a quarter and three quarters of 384 dead; the plan's limits as in its file
    assert "  dead          0.250 [0.207, 0.296]  0.750 [0.704, 0.793]  0.500 [0.420, 0.550]" in out
    assert "  mixed a step  24.0 [22.5, 25.4]     8.0 [6.6, 9.5]        12 to 20 of 32" in out
    assert "Plan     dead 0.500 [0.420, 0.550] at G = 8" in out
    assert "·" in out
    assert "▲" in out


def test_a_plan_of_other_group_sizes_is_said_not_compared(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.5))
    out = run("diagnose", "log.jsonl", "--group-size", 4, "--plan", plan_file()).out
    assert "plan.json speaks of G = 8, and none of G = 4: the run is not compared with it" in " ".join(out.split())
    body = document(run("diagnose", "log.jsonl", "--group-size", 4, "--plan", plan_file(), "--json"))
    assert body["plan"]["group_size"] is None
    assert body["plan"]["dead"] is None


def test_unknown_is_said(run: Run) -> None:  # noqa: F811
    Path("log.jsonl").write_text("".join(json.dumps({"step": i, "reward": 0.31 + i / 97}) + "\n" for i in range(30)))
    answer = run("diagnose", "log.jsonl", "--format", "table")
    assert answer.code == 0
    assert "What the groups are made of\n  Not known." in answer.out
    body = document(run("diagnose", "log.jsonl", "--format", "table", "--json"))
    part = body["composition"][-1]["dead"]
    assert (part["value"], part["low"], part["high"], part["groups"]) == (None, None, None, None)
    assert part["reason"]


def test_bounded_shares_show_limits_alone(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.tile([0.5, 0.25], 20), np.tile(np.arange(12, 22) / 32, 4))
    out = run("diagnose", "log.jsonl", "--group-size", 4, "--prompts-per-step", 8).out
    row = next(line for line in out.splitlines() if line.startswith("    all-pass"))
    name, low, to, high, *limits = row.split()
    assert (name, to) == ("all-pass", "to")  # what the log bounds the groups seen to, then the limits
    assert float(limits[0].strip("[],")) < float(low) < float(high) < float(limits[1].strip("[],"))
    assert "a to b: what the log bounds the groups seen to; [a, b]: 95% limits" in " ".join(out.split())
    body = document(run("diagnose", "log.jsonl", "--group-size", 4, "--prompts-per-step", 8, "--json"))
    late = body["composition"][-1]
    assert late["all_pass"]["value"] is None
    assert 0.0 <= late["all_pass"]["low"] < late["all_pass"]["high"] <= 1.0


def test_short_logs_show_all_rows_beside_the_late_ones(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(12, 0.5))
    assert [w["window"] for w in document(run("diagnose", "log.jsonl", "--json"))["composition"]] == ["all", "late"]
    trl_log("log.jsonl", np.full(5, 0.5))
    assert [w["window"] for w in document(run("diagnose", "log.jsonl", "--json"))["composition"]] == ["all"]


def test_the_short_page_is_short_and_details_say_the_rest(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.tile([0.5, 0.625], 30), np.linspace(0.2, 0.6, 60))
    common = ["diagnose", "log.jsonl", "--group-size", 8, "--prompts-per-step", 32]
    short, long = run(*common).out, run(*common, "--details").out
    assert "Findings: 1 for information" in short
    assert len(short.splitlines()) < 60 < len(long.splitlines())
    assert max(map(len, short.splitlines())) <= 80
    for part in ("How the log was read", "In numbers", "  Source   ", "Checked and clear"):
        assert part in long
        assert part not in short
    body = document(run(*common, "--json"))
    said = " ".join(short.split())
    for found in (*body["clear"], *body["skipped"], *body["findings"]):
        assert found["id"] in said  # none is lost
    assert "give --plan FILE for DEAD_ABOVE_PLAN" in said
    assert "--details" in short.splitlines()[-1]
    first, second, third = [r["action"] for f in body["findings"] for r in f["remedies"]][:3]
    assert first in said
    assert second in said
    assert third not in said
    assert third in " ".join(long.split())
    assert document(run(*common, "--json", "--details")) == body


def test_a_metric_that_the_rollouts_contradict_is_said_beside_the_verdict(run: Run) -> None:  # noqa: F811
    groups = group_log(dead=[True, True, False, False])
    log = RunLog(
        steps=np.array([1]), metrics={"frac_reward_zero_std": np.array([0.75]), "reward": np.array([0.5])},
        format="trl", source="log", tool="trl", groups=groups, config={"logging_steps": 1},
    )  # fmt: skip
    page = diagnosis_page(diagnose(log), details=False)
    said = " ".join(page_text(page[:2]).split())
    assert "But frac_reward_zero_std says otherwise at 1 of 1 steps, first 0.75 against 0.5 counted at step 1." in said
    assert "The rollouts are believed." in said
    assert "4 groups." in page_text(page)


def test_kinds_of_another_source_than_dead_groups_are_said_not_to_add_up(run: Run) -> None:  # noqa: F811
    out = run("diagnose", ROOT / "tests" / "data" / "trl" / "gap").out
    assert "These do not add up to the dead fraction: all-pass and all-fail are counted" in " ".join(out.split())


def test_costs_are_of_the_steps_logged() -> None:
    low = Waste(
        rollouts=None, rollouts_low=5.0, rollouts_high=None, gpu_hours=None, usd=None, steps=3,
        missing={"rollouts": "the groups of a step: give --prompts-per-step", "gpu_hours": "give --gpus"},
    )  # fmt: skip
    assert waste_text(low, 3).startswith("at least 5 rollouts in dead groups in all 3 steps logged. Rollouts beyond")
    assert "in 3 of the 9 steps logged" in waste_text(low, 9)
    both = replace(low, rollouts_high=9.0)
    assert waste_text(both, 3).startswith("5 to 9 rollouts (the log does not tell the number) in dead groups in all 3")
    assert "ollouts not known" not in waste_text(both, 3)


def test_a_table_too_wide_goes_on_below_and_markdown_keeps_blanks() -> None:
    grid = Grid(["a", "b", "c", "d"], [["  x", "1" * 30, "2" * 30, "3" * 30]])
    lines = page_text([grid]).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines] == [["a", "b", "c"], ["x", "1" * 30, "2" * 30], ["a", "d"], ["x", "3" * 30]]
    assert f"| &nbsp;&nbsp;x | {'1' * 30} |" in page_markdown([grid], "T")
    fits = Grid(["a", "b"], [["x" * 20, "1" * 56]])
    assert [len(line) for line in page_text([fits]).splitlines()][1] == 80
    assert len(page_text([fits]).splitlines()) == 2


# --- JSON --------------------------------------------------------------------------------------------------------


def test_json_holds_the_contract_and_agrees_with_the_library(run: Run) -> None:  # noqa: F811
    body = document(run("diagnose", starved(), "--group-size", 8, "--plan", plan_file(), "--json"))
    assert set(body) == BODY
    assert body["command"] == "diagnose"
    found = diagnose(read_run("starved.jsonl"), "plan.json", settings=DiagnosisSettings(group_size=8))
    assert body["verdict"] == found.verdict
    assert [f["id"] for f in body["findings"]] == [f.id for f in found.findings]
    assert {f["severity"] for f in body["findings"]} <= {"info", "warning", "critical"}
    assert body["worst"] == found.findings[0].severity.value
    assert all(set(f) == FINDING for f in body["findings"])
    assert all(set(s) == {"id", "needs"} for s in body["skipped"])
    assert all(set(c) == {"id", "because"} for c in body["clear"])
    ids = [o["id"] for part in ("findings", "skipped", "clear") for o in body[part]]
    assert len(ids) == len(set(ids))
    assert (body["run"]["steps"], body["run"]["first_step"], body["run"]["last_step"]) == (60, 0, 59)
    assert (body["run"]["group_size"], body["run"]["tool"], body["run"]["source"]) == (8, "tinker", "starved.jsonl")
    assert {m["quantity"] for m in body["run"]["metrics_read"]} >= {"dead_fraction", "reward_mean"}
    assert body["run"]["unknown_keys"] == []
    early, late = body["composition"]
    assert set(late["dead"]) == PART
    assert late["dead"]["value"] == pytest.approx(late["all_fail"]["value"]) == pytest.approx(0.9, abs=0.04)
    assert late["mixed"]["value"] == pytest.approx(1 - late["dead"]["value"])
    assert early["window"] == "early"
    assert body["plan"]["dead"] == {"value": 0.5, "low": 0.45, "high": 0.55, "level": 0.95}
    assert (body["what_if"], body["forecast"]) == (None, [])


def test_the_page_and_json_of_every_kind_of_part() -> None:
    waste = Waste(
        rollouts=None, rollouts_low=10.0, rollouts_high=20.0, gpu_hours=1.5, usd=None, steps=1,
        missing={"usd": "the price: give --usd-per-gpu-hour (DiagnosisSettings.usd_per_gpu_hour)"},
    )  # fmt: skip
    remedy = Remedy(
        action="Do this", expected="unknown", price="a <b> | c", numbers={"dead_low": 0.1, "dead_high": None, "x": 1.0}
    )
    info = Finding(
        id="A", severity=Severity.INFO, says="Says.", onset_step=None, evidence={"n": None, "yes": True, "w": "word"},
        remedy="None.", reference="r", remedies=(remedy,),
    )  # fmt: skip
    grave = [
        Finding(
            id=name, severity=Severity.WARNING, says="Bad.", onset_step=1200, evidence={"v": float("nan")},
            remedy="Act.", reference="r", remedies=(remedy,), waste=waste,
        )
        for name in ("B", "C")
    ]  # fmt: skip
    needs = "k_x of DiagnosisSettings. Rollouts would tell: dump them; read the folder."
    made = diagnose(composed(np.full(20, 0.25), np.full(20, 0.25)))
    whole = Diagnosis(
        verdict="V", findings=(*grave, info), facts=made.facts, clear=(Clear(id="D", because="fine"),),
        skipped=(Skipped(id="E", needs=needs), Skipped(id="F", needs="x."), Skipped(id="G", needs=needs)),
    )  # fmt: skip
    text = page_text(diagnosis_page(whole))
    assert "Findings: 2 warnings, 1 for information" in text
    assert "WARNING  B, since step 1,200" in text
    assert (
        "Cost 10 to 20 rollouts (the log does not tell the number), up to 1.5 GPU-hours in dead groups in 1 of the 20 "
        "steps logged."
    ) in " ".join(text.split())
    assert text.count("Cost  ") == 1  # the other finding costs the same
    assert "USD not known: the price: give --usd-per-gpu-hour." in " ".join(text.split())
    assert "  Evidence n not known; yes yes; w word" in text
    assert text.count("Do this") == 1
    assert "     For      B, C\n" in text
    assert "  1.  dead    [0.1, no limit]\n  1.  x       1\n" in text
    assert "with numbers in --json" not in text
    assert "  - E, G: --k-x.\n  - F: x.\n  - Rollouts would tell E, G: dump them; read the folder.\n" in text
    body = diagnosis_json(whole)
    json.dumps(body, allow_nan=False)
    assert body["findings"][0]["evidence"] == {"v": None}
    assert body["findings"][0]["cost"]["rollouts_low"] == 10.0
    assert body["findings"][2]["cost"] is None
    assert body["findings"][2]["remedies"][0]["numbers"] == {"dead_low": 0.1, "dead_high": None, "x": 1.0}
    marked = page_markdown(diagnosis_page(whole), "T")
    assert "- **Price:** a &lt;b&gt; \\| c" in marked
    assert "\n#### Findings: 2 warnings, 1 for information\n" in marked
    assert "\n| groups | early, 1 to 10 | late, 11 to 20 |\n| --- | --- | --- |\n" in marked


# --- exit codes --------------------------------------------------------------------------------------------------


def test_fail_on_exits_with_4_and_one_line(run: Run) -> None:  # noqa: F811
    body = document(run("diagnose", starved(), "--group-size", 8, "--json"))
    assert body["worst"] in ("warning", "critical")
    answer = run("diagnose", "starved.jsonl", "--group-size", 8, "--fail-on", "warning", "--json")
    assert answer.code == 4
    assert json.loads(answer.out) == body
    grave = [f for f in body["findings"] if f["severity"] != "info"]
    names = ", ".join(f"{f['id']} ({f['severity']})" for f in grave)
    count = "1 finding" if len(grave) == 1 else f"{len(grave)} findings"
    assert answer.err == f"grpo-plan: {count} at or above warning: {names}.\n"


def test_fail_on_passes_where_nothing_is_so_grave(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.tile([0.0, 0.125], 30), np.linspace(0.4, 0.6, 60))
    assert run("diagnose", "log.jsonl", "--fail-on", "warning").code == 0
    trl_log("high.jsonl", np.tile([0.5, 0.625], 30), np.linspace(0.2, 0.6, 60))
    worst = document(run("diagnose", "high.jsonl", "--json"))["worst"]
    assert worst == "info"
    assert run("diagnose", "high.jsonl", "--fail-on", "info").code == 4
    assert run("diagnose", "high.jsonl", "--fail-on", "warning").code == 0
    assert run("diagnose", "high.jsonl", "--fail-on", "never").code == 2


# --- options -----------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_settings() -> None:
    import inspect

    from grpo_plan.cli.run_options import _run_options

    renamed = {"sustain_rows": "sustain"}
    default = DiagnosisSettings()
    shown = inspect.signature(_run_options).parameters
    for field in fields(DiagnosisSettings):
        if field.name not in ("late_share", "late_rows"):
            assert shown[renamed.get(field.name, field.name)].default == getattr(default, field.name), field.name


@pytest.mark.parametrize(
    ("options", "place", "value"),
    [
        (["--group-size", "1e1"], ("run", "group_size"), 10),
        (["--prompts-per-step", 32], ("run", "prompts_per_step"), 32),
        (["--level", 0.9], ("composition", -1, "level"), 0.9),
        (["--config", "num_generations=6"], ("run", "group_size"), 6),
        (["--config", "s.json"], ("run", "group_size"), 5),
        (["--config", "s.toml"], ("run", "group_size"), 7),
        (["--config", "s.json", "--config", "num_generations=6"], ("run", "group_size"), 6),
        (["--format", "table", "--format", "json"], ("run", "format"), "table"),
    ],
)
def test_options_reach_the_answer(run: Run, options: list[Any], place: tuple[Any, ...], value: Any) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))
    Path("s.json").write_text('{"num_generations": 5}')
    Path("s.toml").write_text("num_generations = 7\n")
    body: Any = document(run("diagnose", "log.jsonl", "--json", *options))
    for key in place:
        body = body[key]
    assert body == value


def test_yaml_is_read_where_there_is_a_reader_of_it(run: Run) -> None:  # noqa: F811
    pytest.importorskip("yaml", exc_type=ImportError)
    trl_log("log.jsonl", np.full(30, 0.25))
    Path("s.yaml").write_text("num_generations: 7\n")
    assert document(run("diagnose", "log.jsonl", "--json", "--config", "s.yaml"))["run"]["group_size"] == 7


def test_yaml_without_a_reader_of_it_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setitem(sys.modules, "yaml", None)
    trl_log("log.jsonl", np.full(30, 0.25))
    Path("s.yaml").write_text("num_generations: 7\n")
    answer = run("diagnose", "log.jsonl", "--config", "s.yaml")
    assert (answer.code, answer.out) == (1, "")
    assert "YAML needs the package pyyaml. Install it, or give the file as JSON." in answer.err


def test_settings_reach_the_checks(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(40, 0.375), np.linspace(0.2, 0.6, 40), more={"step_time": 36.0})
    options = ["--group-size", 8, "--prompts-per-step", 10]

    def ids(*more: Any) -> list[str]:
        return [f["id"] for f in document(run("diagnose", "log.jsonl", *options, "--json", *more))["findings"]]

    assert "DEGENERATE_GROUPS" not in ids()
    assert "DEGENERATE_GROUPS" in ids("--dead-threshold", 0.3)
    assert "DEGENERATE_GROUPS" not in ids("--dead-threshold", 0.3, "--sustain", 41)


def test_false_alarm_moves_the_tested_limit(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(60, 0.75))
    common = ["diagnose", "log.jsonl", "--group-size", 8, "--prompts-per-step", 32, "--plan", plan_file(), "--json"]
    evidence = [
        next(f for f in document(run(*common, "--false-alarm", a))["findings"] if f["id"] == "DEAD_ABOVE_PLAN")
        for a in (0.01, 0.0001)
    ]
    assert evidence[0]["evidence"]["false_alarm_per_run"] == 0.01
    assert evidence[0]["evidence"]["tested_limit"] < evidence[1]["evidence"]["tested_limit"]


def test_one_of_several_runs(run: Run) -> None:  # noqa: F811
    logs = {
        name: [{"step": i, "reward": 0.5, "zvf": d, "gu": 1 - d} for i in range(12)]
        for name, d in (("a", 0.25), ("b", 0.75))
    }
    sweep = [{"tag": name, "group_size": 8, "step_log": steps} for name, steps in logs.items()]
    Path("log.json").write_text(json.dumps({"metadata": {}, "sweep": sweep}, indent=1))
    both = run("diagnose", "log.json")
    assert both.code == 1
    assert "holds 2 runs: a, b. Name one of them with --run." in both.err
    assert document(run("diagnose", "log.json", "--run", "b", "--json"))["composition"][-1]["dead"]["value"] == 0.75


def test_pass_threshold_and_reward_of_rollouts(run: Run) -> None:  # noqa: F811
    folder = ROOT / "tests" / "data" / "trl" / "none2"
    without = document(run("diagnose", folder, "--json"))["composition"][-1]
    assert without["all_fail"]["value"] is None
    judged = document(run("diagnose", folder, "--pass-threshold", 1, "--json"))["composition"][-1]
    assert judged["all_fail"]["value"] is not None
    wrong = run("diagnose", folder, "--reward", "no_such_reward")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no_such_reward" in wrong.err


def test_malformed_lines_are_refused_or_counted(run: Run) -> None:  # noqa: F811
    path = trl_log("log.jsonl", np.full(30, 0.25))
    path.write_text(path.read_text() + '{"step": 31, "rew\n{"step": 32, "reward": 0.4, "frac_reward_zero_std": 0.25}\n')
    refused = run("diagnose", "log.jsonl")
    assert refused.code == 1
    assert refused.out == ""
    body = document(run("diagnose", "log.jsonl", "--skip-malformed", "--json"))
    assert sum(body["run"]["dropped"].values()) == 1
    assert document(run("diagnose", "log.jsonl", "--skip-bad", 1, "--json"))["run"]["dropped"] == body["run"]["dropped"]
    assert "\nLeft out malformed" in run("diagnose", "log.jsonl", "--skip-malformed").out
    assert "Left out: malformed" in run("diagnose", "log.jsonl", "--skip-malformed", "--details").out


def test_unknown_metrics_are_named(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25), more={f"my/metric_{i}": 1.0 for i in range(15)})
    assert len(document(run("diagnose", "log.jsonl", "--json"))["run"]["unknown_keys"]) == 15
    assert "my/metric_11 and 3 more." in " ".join(run("diagnose", "log.jsonl", "--details").out.split())


def test_other_group_sizes(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.tile([0.5, 0.53125], 30), np.tile(np.arange(80, 90) / 256, 6))
    common = ["diagnose", "log.jsonl", "--group-size", 8, "--prompts-per-step", 32, "--what-if", "32,2"]
    found = document(run(*common, "--json"))["what_if"]
    assert [row["group_size"] for row in found["rows"]] == [2, 8, 32]
    values = [row["dead"]["value"] for row in found["rows"]]
    assert values == sorted(values, reverse=True)
    assert all(row["dead"]["low"] <= row["dead"]["value"] <= row["dead"]["high"] for row in found["rows"])
    assert found["rests_on"]
    out = run(*common).out
    assert "At other group sizes, with the pass rates of now" in out
    assert "256 rollouts a step" in out
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("  8 (now)")] == [["8", "(now)"]] * 2
    row = [line.split() for line in out.splitlines() if line.lstrip().startswith("32 ")][1]
    live = 256 / 32 * (1 - values[-1])  # 8 prompts of 32 rollouts
    assert row[1] == "8.0"
    assert float(row[2]) == pytest.approx(live, abs=0.051)
    unknown = document(run("diagnose", "log.jsonl", "--what-if", 4, "--json"))["what_if"]
    assert unknown["rows"] == []
    assert "--group-size" in unknown["reason"]
    assert "Cannot be told. " in run("diagnose", "log.jsonl", "--what-if", 4).out


def test_forecasts(run: Run) -> None:  # noqa: F811
    rising = np.round(np.linspace(0.2, 0.6, 60) * 64) / 64
    tinker_log("log.jsonl", np.full(60, 0.125), rising - 0.125)
    common = ["diagnose", "log.jsonl", "--prompts-per-step", 64, "--forecast", "0.8", "--forecast", "all-pass=0.3"]
    dead, passes = document(run(*common, "--json"))["forecast"]
    assert (dead["of"], dead["limit"], passes["of"]) == ("dead", 0.8, "all_pass")
    assert dead["status"] in ("WITHIN", "CANNOT_TELL")
    assert dead["horizon_steps"] == 59
    assert dead["crossing_low"] > 59
    assert all(isinstance(b["step"], int) for b in dead["band"])
    assert isinstance(dead["crossing_low"], int)
    assert passes["status"] == "ALREADY_BEYOND"
    assert all(b["low"] <= b["mid"] <= b["high"] for b in dead["band"])
    short = document(run(*common, "--horizon", 2, "--json"))["forecast"][0]
    assert (short["horizon_steps"], short["status"]) == (2, "NOT_WITHIN_HORIZON")
    out = run(*common).out
    assert "\nAhead\n  - Dead share above 0.8: " in out
    assert "All-pass share above 0.3: The share is beyond the limit already." in out


def test_a_share_that_is_not_there_is_not_forecast(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))
    found = document(run("diagnose", "log.jsonl", "--forecast", "all-fail=0.5", "--json"))["forecast"][0]
    assert found["status"] is None
    assert found["sentence"]
    trl_log("log.jsonl", np.full(5, 0.25))
    assert document(run("diagnose", "log.jsonl", "--forecast", "0.5", "--json"))["forecast"][0]["status"] == "TOO_SHORT"


def test_the_answer_goes_to_a_file(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))
    for name, options in (("a.md", ["--format", "markdown"]), ("a.json", ["--json"]), ("a.txt", [])):
        printed = run("diagnose", "log.jsonl", *options).out
        answer = run("diagnose", "log.jsonl", *options, "-o", name)
        assert (answer.code, answer.out, answer.err) == (0, "", f"note: {name} written.\n")
        assert Path(name).read_text(encoding="utf-8") == printed
    assert Path("a.md").read_text(encoding="utf-8").startswith("### Run log.jsonl\n\n**Verdict: ")


def test_a_picture_is_written_and_the_same_each_time(run: Run) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))
    assert run("diagnose", "log.jsonl", "--plot", "a.svg").err == "note: a.svg written.\n"
    run("diagnose", "log.jsonl", "--plot", "b.svg")
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_standard_input_and_several_sources(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    path = trl_log("log.jsonl", np.full(30, 0.25))
    with path.open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", type("Stream", (), {"buffer": stream, "fileno": stream.fileno})())
        assert document(run("diagnose", "-", "--json"))["run"]["steps"] == 30
    os.makedirs("exp1")
    path.rename("exp1/log.jsonl")
    assert document(run("diagnose", "exp1", "--json"))["run"]["steps"] == 30
    assert document(run("diagnose", "exp1/*.jsonl", "--json"))["run"]["steps"] == 30


# --- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["no.jsonl"], 1, "no.jsonl"),
        (["empty"], 1, "empty"),
        (["empty.jsonl"], 1, "empty.jsonl"),
        (["pilot.jsonl"], 1, "Is it a pilot?"),
        (["log.jsonl", "--plan", "no.json"], 1, "no.json: cannot be read"),
        (["log.jsonl", "--plan", "log.jsonl"], 1, "log.jsonl: is not JSON"),
        (["log.jsonl", "--plan", "empty"], 1, "empty: is no plan"),
        (["log.jsonl", "-o", "no/such/a.txt"], 2, "--output no/such/a.txt cannot be written (no such folder)"),
        (["log.jsonl", "-o", "log.jsonl"], 2, "is an input file"),
        (["log.jsonl", "--plan", "plan.json", "-o", "plan.json"], 2, "is an input file"),
        (["log.jsonl", "-o", "empty"], 2, "is no regular file"),
        (["log.jsonl", "-o", "a\0b"], 2, "cannot be written"),
        (["log.jsonl", "--plot", "a.gif"], 2, "--plot must end in .png, .svg, .pdf"),
        (["log.jsonl", "--plot", "a.svg", "-o", "a.svg"], 2, "--plot and --output name the same file, a.svg"),
        (["log.jsonl", "--group-size", "0"], 2, "group_size"),
        (["log.jsonl", "--group-size", "many"], 2, "whole number"),
        (["log.jsonl", "--level", "1"], 2, "level"),
        (["log.jsonl", "--false-alarm", "0"], 2, "false_alarm"),
        (["log.jsonl", "--dead-threshold", "1.5"], 2, "dead_threshold"),
        (["log.jsonl", "--sustain", "0"], 2, "sustain_rows"),
        (["log.jsonl", "--gpus", "0"], 2, "gpus"),
        (["log.jsonl", "--usd-per-gpu-hour", "nan"], 2, "usd_per_gpu_hour"),
        (["log.jsonl", "--kl-coefficient", "-1"], 2, "kl_coefficient"),
        (["log.jsonl", "--max-generation-batches", "0"], 2, "max_generation_batches"),
        (["log.jsonl", "--format", "nonsense"], 2, "nonsense"),
        (["log.jsonl", "--format", "json", "--format", "text"], 2, "--format takes one output"),
        (["log.jsonl", "--config", "beta"], 2, "--config must be KEY=VALUE"),
        (["log.jsonl", "--config", "=1"], 2, "--config must be KEY=VALUE"),
        (["log.jsonl", "--config", "no.json"], 2, "there is no such file"),
        (["log.jsonl", "--config", "log.jsonl"], 2, "--config must be KEY=VALUE"),
        (["log.jsonl", "--config", "list.json"], 2, "must map names to values"),
        (["log.jsonl", "--config", "bad.json"], 2, "is no JSON"),
        (["log.jsonl", "--config", "bad.toml"], 2, "is no TOML"),
        (["log.jsonl", "--config", "bytes.json"], 2, "cannot be read"),
        (["log.jsonl", "--what-if", "a"], 2, "--what-if must be group sizes separated by commas"),
        (["log.jsonl", "--what-if", "0,4"], 2, "--what-if must be group sizes separated by commas"),
        (["log.jsonl", "--forecast", "1"], 2, "--forecast must be a share"),
        (["log.jsonl", "--forecast", "mixed=0.5"], 2, "--forecast must be a share"),
        (["log.jsonl", "--forecast", "nan"], 2, "--forecast must be a share"),
        (["log.jsonl", "--horizon", "10"], 2, "Give --forecast too"),
        (["log.jsonl", "--forecast", "0.5", "--horizon", "0"], 2, "horizon"),
        (["log.jsonl", "--run", "x"], 1, "x"),
        ([], 2, "SOURCE"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: list[str], code: int, says: str) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))
    plan_file()
    Path("empty").mkdir()
    Path("empty.jsonl").write_text("")
    Path("pilot.jsonl").write_text('{"prompt_id": "a", "n": 8, "k": 3}\n')
    Path("list.json").write_text("[1]")
    Path("bad.json").write_text("{")
    Path("bad.toml").write_text("= 3")
    Path("bytes.json").write_bytes(b"\xff\xfe\x00{")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    answer = run("diagnose", *arguments)
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert answer.err.startswith("grpo-plan: ")
    assert answer.err.count("\n") == 1
    assert says in answer.err
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "rows",
    [
        [{"step": 1, "reward": 0.5, "frac_reward_zero_std": 0.5}],
        [{"step": i, "reward": float("nan"), "frac_reward_zero_std": float("nan")} for i in range(30)],
        [{"step": i, "reward": 0.5, "frac_reward_zero_std": 0.5 if i % 2 else None} for i in range(30)],
        [{"step": i, "reward": 1e120 * (-1) ** i, "frac_reward_zero_std": 1.0} for i in range(30)],
        [{"step": i, "reward": 0.5, "frac_reward_zero_std": 7.0} for i in range(30)],
        [{"step": 10**12 + i, "reward": 0.5, "frac_reward_zero_std": 0.5} for i in range(30)],
        [{"step": 5, "reward": 0.5, "frac_reward_zero_std": 0.5} for _ in range(30)],
        [{"step": 30 - i, "reward": 0.5, "frac_reward_zero_std": 0.5} for i in range(30)],
        [{"step": i, "loss": 0.5} for i in range(30)],
    ],
    ids=["one row", "NaN", "gaps", "huge", "no share", "late steps", "one step", "backwards", "no known metric"],
)
def test_hostile_logs_give_an_answer_or_one_line(run: Run, rows: list[dict[str, Any]]) -> None:  # noqa: F811
    Path("log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = run("diagnose", "log.jsonl", "--group-size", 8, "--what-if", 16, "--forecast", "0.7", "--plot", "a.png")
    assert text.code in (0, 1)
    if text.code == 1:
        assert text.err.count("\n") == 1
        return
    body = run("diagnose", "log.jsonl", "--group-size", 8, "--what-if", 16, "--forecast", "0.7", "--json")
    json.loads(body.out, parse_constant=lambda word: pytest.fail(word))
    assert " nan" not in text.out.lower().replace("not a number", "")


def test_two_tools_in_one_folder_are_named(run: Run) -> None:  # noqa: F811
    os.makedirs("both")
    trl_log("both/trl.jsonl", np.full(30, 0.25))
    tinker_log("both/metrics.jsonl", np.full(30, 0.25), np.full(30, 0.25))
    answer = run("diagnose", "both")
    assert answer.code in (0, 1)
    if answer.code == 1:
        assert answer.err.count("\n") == 1
        assert "both" in answer.err


def test_a_file_that_cannot_be_written_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    trl_log("log.jsonl", np.full(30, 0.25))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    answer = run("diagnose", "log.jsonl", "-o", "a.txt")
    assert answer.code == 2
    assert "--output a.txt cannot be written (No space left on device). Give another place." in answer.err


def test_a_closed_pipe_is_no_error_and_the_findings_still_decide(tmp_path: Path) -> None:
    trl_log(tmp_path / "log.jsonl", np.full(60, 0.90625), 0.05)
    command = [sys.executable, "-m", "grpo_plan", "diagnose", str(tmp_path / "log.jsonl"), "--fail-on", "info"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 4
    assert done.stderr.startswith("grpo-plan: ")
    assert done.stderr.count("\n") == 1


# --- the chart ---------------------------------------------------------------------------------------------------


def series(values: Any, low: Any = None, high: Any = None, groups: int = 8) -> Measured:
    x = np.asarray(values, dtype=float)
    return Measured(
        name="dead_fraction", steps=np.arange(1, x.size + 1), values=x, groups=np.full(x.size, groups),
        groups_known=True, stage=Stage.UNFILTERED, words="logged", low=low, high=high,
    )  # fmt: skip


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 65, 2000])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_chart_fits_and_is_ascii_where_asked(rows: int, unicode: bool) -> None:
    found = strip(series(np.linspace(0, 1, rows)), Expected(value=0.5, low=0.4, high=0.6, level=0.95), unicode=unicode)
    assert max(map(len, found)) <= WIDTH + 12
    assert len(found) >= HEIGHT + 1
    if not unicode:
        "\n".join(found).encode("ascii")
        legend(series([0.5] * rows), unicode=False).encode("ascii")


def test_the_chart_is_the_data() -> None:
    found = strip(series([0.0, 0.2, 0.5, 1.0]), Expected(value=0.3, low=0.25, high=0.35, level=0.95))
    columns = [[line[5 + i] if len(line) > 5 + i else " " for line in found[:HEIGHT]] for i in range(4)]
    assert columns[0] == [" ", " ", " ", "·", "_"]  # from the top: nothing, but for the plan
    assert columns[1] == [" ", " ", " ", "·", "█"]
    assert columns[2] == [" ", " ", "▄", "█", "█"]
    assert columns[3] == ["█"] * 5
    assert found[3] == "    |··██ · plan"  # also where bars cover it
    assert [line.endswith("plan") for line in found] == [False, False, False, True, False, False]


def test_marks_are_of_means_surely_above_the_plan_not_of_rows() -> None:
    plan = Expected(value=0.45, low=0.4, high=0.5, level=0.95)
    dead = np.random.default_rng(2).binomial(8, 0.45, 60) / 8
    assert (dead > plan.high).sum() > 10  # a run in line, many rows of which lie above by chance
    assert "▲" not in "".join(strip(series(dead), plan))
    assert "nowhere is the mean of 10 rows surely above it" in legend(series(dead), plan)
    risen = np.r_[np.full(30, 0.25), np.full(30, 0.75)]
    marks = strip(series(risen), plan)[HEIGHT][5:]
    assert set(marks[:30]) == {" "}
    assert marks[39:] == "▲" * 21
    at = surely_above(series(risen), 0.5, 0.95)
    share = [share_over(risen[i - 9 : i + 1], 8, level=0.95).low for i in range(9, 60)]
    assert at[9:].tolist() == [low > 0.5 for low in share]
    assert not at[:9].any()
    short = strip(series(np.full(4, 0.9)), plan)  # looked at as a whole
    assert short[HEIGHT] == "        ▲"


def test_the_chart_shades_what_may_be() -> None:
    x = np.full(4, 0.5)
    found = strip(series(x, low=x - 0.3, high=x + 0.3))
    assert [line[5:6] for line in found[:HEIGHT]] == ["", "░", "░", "░", "█"]
    assert "where it may lie" in legend(series(x, low=x - 0.3, high=x + 0.3))
