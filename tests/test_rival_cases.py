"""Logs on which other tools go wrong, with known truth: each gets the right verdict here (tests/data/rivals)."""

from __future__ import annotations

from functools import cache

import pytest

import grpo_plan as gp
from grpo_plan.quantities import Absent
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.finding import Finding, Severity
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.rewards import RewardKind
from grpo_plan.runs.settings import DiagnosisSettings
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "data" / "rivals"


@cache
def judged(name: str, group_size: int | None = None) -> Diagnosis:
    return diagnose(gp.read_run(FOLDER / f"{name}.jsonl.gz"), settings=DiagnosisSettings(group_size=group_size))


def found(diagnosis: Diagnosis, id: str) -> Finding:
    finding = diagnosis.finding(id)
    assert finding is not None, f"{id} did not fire: {diagnosis}"
    return finding


def dead_of(diagnosis: Diagnosis) -> Measured:
    dead = diagnosis.facts.dead
    assert isinstance(dead, Measured)
    return dead


def test_a_two_humped_set_is_measured_and_not_explained_by_its_mean() -> None:
    # 62 % falling to 59 % dead at a mean reward of .45 to .55; one rival says "not explained by difficulty alone"
    diagnosis = judged("trl_log", 8)
    assert 0.57 < dead_of(diagnosis).late().mean < 0.62
    assert not diagnosis.at_least("warning")  # the reward improves, and no plan says that it should be less
    told = found(diagnosis, "DEGENERATE_GROUPS")
    assert told.severity is Severity.INFO
    mean = 0.55
    assert dead_of(diagnosis).late().mean > 20 * (mean**8 + (1 - mean) ** 8)  # the formula at the mean says 1 %


def test_without_the_metric_it_is_a_range_and_never_a_pass() -> None:
    # rivals: "pass, nothing to report" and "looks healthy"
    diagnosis = judged("trl_log_nozero_G")
    dead = dead_of(diagnosis)
    truth = dead_of(judged("trl_log"))
    assert not dead.exact
    assert ((dead.lower <= truth.values) & (truth.values <= dead.upper)).all()
    assert diagnosis.verdict.startswith("The log only bounds the dead fraction: between ")
    assert found(diagnosis, "DEGENERATE_GROUPS").evidence["bounded_only"] is True


@pytest.mark.parametrize("name", ["atoms", "atoms_nozero_G"])
def test_all_dead_is_critical_and_no_refill_is_advised(name: str) -> None:
    # rivals: "pass, nothing to report" without the metric; a fall of the std that never happened with it
    diagnosis = judged(name, 8)
    told = found(diagnosis, "DEGENERATE_GROUPS")
    assert told.severity is Severity.CRITICAL
    assert told.onset_step == 1
    assert "refill never fills" in told.remedy
    death = diagnosis.finding("REWARD_STD_DEATH")
    assert death is None or "fell" not in death.says
    refills = [r for f in diagnosis.findings for r in f.remedies if "efill" in r.action]
    assert all("never" in r.expected or "cannot" in r.expected for r in refills), refills


def test_graded_rewards_that_never_tie_raise_no_alarm() -> None:
    # a rival: WARN, 55 % dead, about 3 USD wasted, by the 0/1 formula at the mean
    diagnosis = judged("graded_nozero_G")
    assert isinstance(diagnosis.facts.dead, Absent)
    assert diagnosis.facts.rewards.kind is not RewardKind.BINARY
    assert not diagnosis.findings
    assert diagnosis.verdict.startswith("The log does not tell how many groups are dead.")
    assert "no clean bill" in diagnosis.verdict


def test_a_metric_after_filtering_is_flagged_with_what_was_wasted() -> None:
    # rivals: OK, and "looks healthy", while 60 % of the generation is thrown away
    diagnosis = judged("dapo_masked")
    assert found(diagnosis, "FILTERED_METRIC").severity is Severity.WARNING
    dead = dead_of(diagnosis).late()
    assert 0.6 - 1e-9 <= dead.lower.mean() <= dead.upper.mean() <= 0.8 + 1e-9


def test_logs_of_other_tools_are_read_and_judged() -> None:
    # rivals: skipped, keys listed as unrecognised, or no reader
    tinker = judged("tinker")
    truth = dead_of(judged("trl_log"))
    assert (abs(dead_of(tinker).values - truth.values) < 1e-9).all()
    assert abs(dead_of(judged("dapo_keys")).values - truth.values).max() < 1e-9
    openrlhf = dead_of(judged("openrlhf"))
    assert ((openrlhf.lower <= truth.values + 1e-9) & (truth.values <= openrlhf.upper + 1e-9)).all()


def test_verl_says_what_its_advantages_leave_open() -> None:
    # its largest advantage is 2.47 at every step: at least one group is mixed, and more cannot be told
    diagnosis = judged("verl")
    assert isinstance(diagnosis.facts.dead, Absent)
    assert diagnosis.facts.view.tool == "verl"
    assert "no clean bill" in diagnosis.verdict
    assert "2.47" in {c.id: c.because for c in diagnosis.clear}["ADV_COLLAPSE"]


def test_a_healthy_run_is_quiet() -> None:
    # a rival: CRITICAL, for an entropy below an absolute 1.0; another: WARN, plateau
    diagnosis = judged("healthy")
    assert not diagnosis.findings
    assert "No warning." in diagnosis.verdict


def test_twenty_rows_are_judged_as_twenty_rows() -> None:
    # rivals: median of 5 rows; "run looks healthy", since it needs 30 rows and does not say so
    told = found(judged("short20"), "DEGENERATE_GROUPS")
    assert told.evidence["rows"] == 20
    low, high = told.evidence["late_dead_fraction_low"], told.evidence["late_dead_fraction_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 0.59 < high
    assert 0.05 < high - low < 0.2  # ten rows of 32 groups, no more


@pytest.mark.parametrize("name", ["p12", "pilot_kn"])
def test_pilots_are_told_apart_from_runs(name: str) -> None:
    # rivals: 5,120 "steps" and nothing to report; a traceback; "STARVED" for two thirds of live groups
    with pytest.raises(gp.PilotFormatError, match="Is it a pilot"):
        gp.read_run(FOLDER / f"{name}.jsonl.gz")


def test_the_prompt_that_a_rival_calls_starved_has_live_groups() -> None:
    fit = gp.fit_pass_rates(gp.read_pilot(FOLDER / "p12.jsonl.gz"))
    dead = fit.dead(8)
    assert dead.value is not None
    assert dead.value < 0.37  # p = .128: two thirds of groups of 8 are mixed
