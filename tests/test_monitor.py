"""`Monitor`: what it keeps of a run, when it looks, what it tells, and how seldom it tells what is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.scenarios import HEALTHY, SCENARIOS, plan_of, run_log
from grpo_plan.errors import DomainError, PlanFormatError
from grpo_plan.run_log import RunLog
from grpo_plan.runs.alerts import Alert, AlertBook, News, rests_on_flatness
from grpo_plan.runs.collected import Columns
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Severity
from grpo_plan.runs.monitor import Monitor, due
from tests.runs import composed, expectation, run_of

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def replayed(run: RunLog, plan: Any = None) -> Monitor:
    """A monitor that was given a log row by row, as it came, and looked at every fifth."""
    monitor = Monitor(plan, tool=run.tool, config=run.config, group_size=run.group_size, check_every=5)
    names = list(run.metrics)
    for i, step in enumerate(run.steps.tolist()):
        monitor.update(step, {name: run.metrics[name][i] for name in names})
    return monitor


def graver(alerts: tuple[Alert, ...]) -> list[tuple[int, str]]:
    return [(a.step, a.id) for a in alerts if a.at_least("warning")]


# What it keeps


def test_the_same_step_adds_and_an_earlier_one_takes_back() -> None:
    monitor = Monitor(tool="trl")
    for step in range(1, 7):
        monitor.update(step, {"reward": float(step), "kl": 0.1})
    monitor.update(6, {"reward": 60.0, "entropy": 0.5})
    assert monitor.run.metrics["reward"].tolist() == [1, 2, 3, 4, 5, 60]
    assert monitor.run.metrics["kl"][-1] == 0.1
    monitor.update(4, {"reward": 40.0})
    run = monitor.run
    assert run.steps.tolist() == [1, 2, 3, 4]
    assert run.metrics["reward"].tolist() == [1, 2, 3, 40]
    assert np.isnan(run.metrics["kl"][-1])
    assert "entropy" not in run.metrics
    assert run.dropped == {"steps_undone_by_a_resume": 3}


def test_what_is_no_number_is_left_out() -> None:
    monitor = Monitor(tool="trl")
    row = {"reward": "0.5", "kl": None, "entropy": float("nan"), "loss": float("inf"), "note": [1, 2], "grad_norm": 2}
    monitor.update(1, {**row, "loss/mean": np.float32(0.5), "flag": True})
    assert {name: v.tolist() for name, v in monitor.run.metrics.items()} == {
        "grad_norm": [2.0], "loss/mean": [0.5], "flag": [1.0],
    }  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 5)), max_size=60))
def test_it_keeps_what_a_plain_dictionary_keeps(rows: list[tuple[int, float]]) -> None:
    monitor = Monitor(tool="trl")
    plain: dict[int, float] = {}
    for step, value in rows:
        monitor.collect(step, {"reward": value})
        plain = {s: v for s, v in plain.items() if s <= step} | {step: value}
    run = monitor.run
    assert run.steps.tolist() == sorted(plain)
    assert run.metrics.get("reward", np.empty(0)).tolist() == [plain[s] for s in sorted(plain)]


@given(
    st.lists(
        st.lists(st.lists(st.sampled_from([0.0, 1.0, float("nan")]), min_size=3, max_size=3), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    )
)
def test_groups_are_counted_from_rewards(steps: list[list[list[float]]]) -> None:
    monitor = Monitor(tool="trl")
    expected: list[tuple[bool, bool, bool]] = []
    for step, rewards in enumerate(steps, start=1):
        monitor.collect(step, rewards=rewards)
        for group in rewards:
            known = [r for r in group if r == r]
            dead = len(known) < 2 or len(set(known)) == 1
            expected.append(
                (dead, dead and len(known) > 1 and min(known) == 1, dead and len(known) > 1 and not any(known))
            )
    groups = monitor.run.groups
    assert groups is not None
    assert groups.all_pass is not None
    assert groups.all_fail is not None
    found = zip(groups.dead.tolist(), groups.all_pass.tolist(), groups.all_fail.tolist(), strict=True)
    assert list(found) == expected
    assert groups.step.tolist() == [s for s, rewards in enumerate(steps, start=1) for _ in rewards]


def test_what_passes_is_told_by_two_levels_or_by_the_user() -> None:
    levels = [[-1.0, -1.0], [-1.0, 2.0], [2.0, 2.0]]
    monitor = Monitor()
    monitor.collect(1, rewards=levels)
    groups = monitor.run.groups
    assert groups is not None
    assert groups.passes is not None
    assert (groups.pass_threshold, groups.passes.tolist()) == (2.0, [0, 1, 2])
    monitor.collect(2, rewards=[[0.5, 0.5]])
    groups = monitor.run.groups
    assert groups is not None
    assert groups.passes is None
    assert groups.dead.tolist() == [True, False, True, True]
    told = Monitor(pass_threshold=0.5)
    told.collect(1, rewards=[*levels, [0.5, np.nan]])
    groups = told.run.groups
    assert groups is not None
    assert groups.passes is not None
    assert groups.passes.tolist() == [0, 1, 2, 1]
    assert groups.scored.tolist() == [2, 2, 2, 1]
    assert groups.distinct_rewards is not None
    assert groups.distinct_rewards.tolist() == [1, 2, 1, 1]


def test_rewards_of_a_step_taken_back_are_gone() -> None:
    monitor = Monitor()
    for step in (1, 2, 3):
        monitor.collect(step, rewards=[[0.0, 1.0]] * 2)
    monitor.collect(2, rewards=[[1.0, 1.0]])
    monitor.collect(2, {"loss": 0.0}, rewards=[[0.0, 0.0]])
    groups = monitor.run.groups
    assert groups is not None
    assert groups.step.tolist() == [1, 1, 2]
    assert groups.reward_max.tolist() == [1.0, 1.0, 0.0]


def test_columns_grow_without_losing_a_value() -> None:
    columns = Columns()
    for i in range(1000):
        columns.extend(1)
        columns.put("a", i, float(i))
        if i >= 600:
            columns.put("b", i, -float(i))
    taken = columns.taken()
    assert taken["a"].tolist() == list(range(1000))
    assert np.isnan(taken["b"][:600]).all()
    columns.keep(500)
    assert list(columns.taken()) == ["a"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": -1}, "step must be a whole number of at least 0; got -1"),
        ({"step": True}, "step must be a whole number"),
        ({"step": 1.5}, "step must be a whole number"),
        ({"step": 1, "metrics": [1]}, "metrics must map names to numbers"),
        ({"step": 1, "rewards": [1.0, 0.0]}, r"got shape \(2,\)\. Give one row for each prompt"),
        ({"step": 1, "rewards": [[1.0, 0.0], [1.0]]}, "rewards must be numbers of shape"),
        ({"step": 1, "rewards": [["a"]]}, "rewards must be numbers of shape"),
        ({"step": 1, "rewards": [[np.inf, 0.0]]}, "got infinite ones"),
    ],
)
def test_bad_steps_are_refused_and_leave_no_trace(given: dict[str, Any], message: str) -> None:
    monitor = Monitor()
    with pytest.raises(DomainError, match=message):
        monitor.update(**given)
    assert monitor.run.steps.size == 0


def test_bad_arguments_are_refused(tmp_path: Any) -> None:
    with pytest.raises(DomainError, match="config must map"):
        Monitor(config=[1])  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="check_every"):
        Monitor(check_every=0)
    with pytest.raises(PlanFormatError, match="cannot be read"):
        Monitor(tmp_path / "no.json")


# When it looks


def test_looks_become_rarer_and_are_never_far_behind() -> None:
    looked, looks = 0, []
    for rows in range(1, 10_001):
        if due(rows, looked):
            looked = rows
            looks.append(rows)
        assert rows - looked <= max(0.05 * rows, 1)
    assert looks[:200] == list(range(1, 201))
    assert len(looks) < 300
    assert due(5, 9)  # fewer rows than before: steps were taken back


def test_the_last_look_is_the_diagnosis_of_the_log() -> None:
    run = run_log(BY_NAME["starved, tinker"].simulate(1))
    monitor = replayed(run)
    monitor.look()
    whole = diagnose(monitor.run)
    assert monitor.diagnosis is not None
    assert monitor.diagnosis.verdict == whole.verdict
    assert [f.id for f in monitor.diagnosis.findings] == [f.id for f in whole.findings]


def test_evidence_against_the_plan_grows_with_the_run() -> None:
    plan = expectation()
    found: list[float] = []
    for dead in (0.5, 0.9):
        monitor = Monitor(plan, tool="tinker", group_size=8)
        assert monitor.log10_evidence_against_plan is None
        for i, step in enumerate(range(1, 31)):
            run = composed(np.full(30, dead - 0.2), np.full(30, 0.2))
            monitor.update(step, {name: v[i] for name, v in run.metrics.items()})
        assert monitor.log10_evidence_against_plan is not None
        found.append(monitor.log10_evidence_against_plan)
    assert found[0] < 0 < 2.7 < found[1]


# What it tells


def finding(id: str, severity: Severity) -> Finding:
    return Finding(id=id, severity=severity, says="s.", onset_step=3, evidence={}, remedy="r.", reference="x")


def seen(rows: int, *found: Finding) -> Diagnosis:
    run = run_of("trl", {"dead": np.full(rows, 0.5)})
    return Diagnosis(verdict="v", findings=found, skipped=(), clear=(), facts=Facts(run))


def told(
    book: AlertBook, looks: Sequence[tuple[int, Severity | None]], id: str = "STARVED"
) -> list[tuple[int, str, str]]:
    """Rows, severity and news of all alerts of looks that find something so grave."""
    out = []
    for rows, severity in looks:
        for alert in book.take(seen(rows, *([] if severity is None else [finding(id, severity)]))):
            out.append((rows, alert.severity.value, alert.new.value))
    return out


WARN, CRIT, INFO = Severity.WARNING, Severity.CRITICAL, Severity.INFO


def test_a_finding_is_told_once_when_it_held() -> None:
    assert told(AlertBook(), [(rows, WARN if rows > 4 else None) for rows in range(1, 60)]) == [
        (15, "warning", "raised")
    ]
    late = [(rows, WARN if rows > 100 else None) for rows in range(1, 160)]
    assert told(AlertBook(), late) == [(122, "warning", "raised")]  # 101 and a fifth of it


def test_a_finding_that_comes_and_goes_is_not_told() -> None:
    flicker = [(rows, WARN if rows % 9 else None) for rows in range(1, 200)]
    assert told(AlertBook(), flicker) == []


def test_graver_milder_and_gone_are_told_once_each() -> None:
    kinds = [WARN] * 30 + [CRIT] * 40 + [INFO] * 60 + [None] * 80
    book = AlertBook()
    looks: list[tuple[int, Severity | None]] = list(enumerate(kinds, start=1))
    assert told(book, looks) == [
        (11, "warning", "raised"), (41, "critical", "graver"), (86, "info", "milder"), (158, "info", "cleared"),
    ]  # fmt: skip
    assert book.standing == {}


def test_a_short_dip_clears_nothing() -> None:
    looks = [(rows, None if 40 <= rows < 46 else WARN) for rows in range(1, 100)]
    book = AlertBook()
    assert told(book, looks) == [(11, "warning", "raised")]
    assert book.standing == {"STARVED": WARN}


def test_a_log_that_was_there_is_one_look_and_settings_need_no_wait() -> None:
    assert told(AlertBook(), [(20, WARN)]) == [(20, "warning", "raised")]
    assert told(AlertBook(), [(19, WARN), (20, WARN)]) == []
    assert told(AlertBook(), [(2, WARN)], "BATCH_SCALED_METRIC") == [(2, "warning", "raised")]


def test_a_warning_that_rests_on_a_flat_reward_waits_for_row_150() -> None:
    looks = [(rows, WARN) for rows in range(1, 200)]
    assert told(AlertBook(), looks, "DEGENERATE_GROUPS") == [(11, "info", "raised"), (180, "warning", "graver")]
    critical = [(rows, CRIT) for rows in range(1, 200)]
    assert told(AlertBook(), critical, "DEGENERATE_GROUPS") == [(11, "critical", "raised")]
    assert told(AlertBook(), [(60, WARN)], "DEGENERATE_GROUPS") == [(60, "warning", "raised")]


@pytest.mark.parametrize(
    ("fail", "passes", "waits"),
    [((0.3, 0.3), (0.2, 0.6), True), ((0.3, 0.7), (0.2, 0.2), False), ((0.3, 0.3), (0.6, 0.6), False)],
)
def test_more_dead_than_planned_waits_only_where_learning_may_explain_it(
    fail: tuple[float, float], passes: tuple[float, float], waits: bool
) -> None:
    rows = np.arange(60)
    run = composed(np.where(rows < 30, *fail), np.where(rows < 30, *passes), reward=np.full(60, 0.5))
    found = diagnose(run, expectation()).finding("DEAD_ABOVE_PLAN")
    assert found is not None
    assert found.severity is WARN
    assert rests_on_flatness(found, Facts(run, expectation=expectation())) is waits


def test_alerts_go_on_from_their_state_at_any_row() -> None:
    kinds = [None] * 5 + [WARN] * 30 + [CRIT] * 40 + [None] * 60
    looks: list[tuple[int, Severity | None]] = list(enumerate(kinds, start=1))
    whole = told(AlertBook(), looks)
    for cut in range(1, len(looks), 7):
        book, other = AlertBook(), AlertBook()
        first = told(book, looks[:cut])
        other.restore(json.loads(json.dumps(book.state())))
        assert first + told(other, looks[cut:]) == whole
    for bad in (
        {},
        {"rows": 1, "known": 3},
        {"rows": None, "known": {"A": {"since": {"7": 1}, "below": 0, "told": 1}}},
    ):
        with pytest.raises(DomainError, match="state of alerts is damaged"):
            AlertBook().restore(bad)


def test_rows_taken_back_do_not_delay_or_hasten_an_alert() -> None:
    looks = [(rows, WARN) for rows in (*range(1, 9), *range(5, 40))]
    assert told(AlertBook(), looks) == [(11, "warning", "raised")]


def test_an_alert_is_a_line_and_an_object() -> None:
    alert = Alert(step=1200, id="STARVED", severity=WARN, says="s.", remedy="r.", new=News.RAISED, onset_step=3)
    assert str(alert) == "step 1,200: warning raised: STARVED: s."
    assert json.loads(json.dumps(alert.document()))["severity"] == "warning"
    assert alert.at_least("warning")
    assert not alert.at_least("critical")
    assert not replace(alert, new=News.CLEARED).at_least("info")


# How often it is right


@pytest.mark.parametrize("name", ["starved, tinker", "too easy"])
def test_sick_runs_are_told_long_before_their_end(name: str) -> None:
    run = run_log(BY_NAME[name].simulate(0))
    monitor = replayed(run)
    assert graver(monitor.alerts)
    assert graver(monitor.alerts)[0][0] <= run.steps[-1] // 2


def learning(rng: np.random.Generator, steps: int, per_step: int = 32, size: int = 8) -> RunLog:
    """A run that gets better from prompts of all kinds: pass rates Beta(0.6, 0.8), their logits up by 1 to the end."""
    logits = np.log(rng.beta(0.6, 0.8, 2000).clip(1e-6, 1 - 1e-6))
    logits = logits - np.log1p(-np.exp(logits))
    drawn = logits[rng.integers(2000, size=(steps, per_step))] + np.linspace(0.0, 1.0, steps)[:, None]
    passes = rng.binomial(size, 1.0 / (1.0 + np.exp(-drawn)))
    all_pass, all_fail = (passes == size).mean(axis=1), (passes == 0).mean(axis=1)
    return composed(all_fail, all_pass, reward=passes.mean(axis=1) / size)


@pytest.mark.slow
def test_healthy_runs_watched_row_by_row_raise_no_warning() -> None:
    """15 runs, each looked at 40 times; were the rate above 1 in 4, one would be seen 99 % of the time."""
    rng = np.random.default_rng(20261201)
    wrong = []
    for _ in range(15):
        run = learning(rng, 40)
        monitor = Monitor(tool="tinker", group_size=8)
        for i, step in enumerate(run.steps.tolist()):
            monitor.update(step, {name: v[i] for name, v in run.metrics.items()})
        wrong += graver(monitor.alerts)
    assert wrong == []


def test_many_looks_at_a_check_that_errs_now_and_then_make_no_alarm() -> None:
    """A check wrong at 5 % of looks, each a stretch of 1 to 6 rows, errs in all of 300 logs of 300 rows; none is told."""
    rng, any_look, alarms = np.random.default_rng(20261202), 0, 0
    for _ in range(300):
        wrong = np.zeros(300, dtype=bool)
        for start in np.flatnonzero(rng.random(300) < 0.05 / 3.5):
            wrong[start : start + rng.integers(1, 7)] = True
        any_look += bool(wrong.any())
        alarms += bool(told(AlertBook(), [(i + 1, WARN if w else None) for i, w in enumerate(wrong)]))
    assert any_look > 285
    assert alarms <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["improving, planned", "logged every 10"])
def test_healthy_scenarios_raise_no_warning(name: str) -> None:
    assert name in {scenario.name for scenario in HEALTHY}
    simulated = BY_NAME[name].simulate(7)
    monitor = replayed(run_log(simulated), plan_of(simulated))
    assert graver(monitor.alerts) == []
