"""Groups that fail because they were cut off, and groups of equal texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan.runs.finding import Severity
from tests.made_runs import clear, found, made_groups, made_run, skipped

DATA = Path(__file__).parent / "data"
Floats = NDArray[np.float64]
CUT, SAME = "TRUNCATION_DEAD", "DUPLICATE_ROLLOUTS"


def cut_run(
    dead: float, cut_in_dead: float, cut_elsewhere: float, *, groups: int = 400, all_pass: bool = False, seed: int = 0
) -> gp.RunLog:
    """Groups of 8: a share is dead, all of one end, and rollouts are cut off with one chance there and another elsewhere."""
    rng = np.random.default_rng(seed)
    end = 1.0 if all_pass else 0.0
    rewards, truncated = [], []
    for _ in range(groups):
        is_dead = rng.random() < dead
        rewards.append([end] * 8 if is_dead else [0.0, 1.0] * 4)
        share = cut_in_dead if is_dead else cut_elsewhere
        truncated.append(8 if share == 1.0 else rng.binomial(8, share))
    steps = [i // 10 + 1 for i in range(groups)]
    return made_run(groups=made_groups(rewards, steps, truncated=truncated))


def test_groups_that_were_cut_off_and_fail_are_found() -> None:
    said = found(CUT, cut_run(0.3, 1.0, 0.1))
    assert said.severity is Severity.WARNING
    assert said.evidence["cut_off_all_fail_fraction"] == pytest.approx(0.3, abs=0.1)
    assert said.evidence["all_fail_groups"] == said.evidence["all_fail_groups_all_cut_off"]
    assert said.evidence["truncated_fraction_all_fail"] == 1.0
    assert said.onset_step == 1


def test_most_groups_cut_off_is_critical() -> None:
    assert found(CUT, cut_run(0.8, 1.0, 0.1)).severity is Severity.CRITICAL


def test_groups_that_were_cut_off_and_pass_are_fine() -> None:
    clear(CUT, cut_run(0.5, 1.0, 0.1, all_pass=True))


def test_groups_that_fail_in_full_length_are_not_cut_off() -> None:
    assert "0 %" in clear(CUT, cut_run(0.5, 0.0, 0.1)).because
    clear(CUT, cut_run(0.5, 0.2, 0.2))


def test_a_difference_within_the_limits_does_not_say_that_length_is_why() -> None:
    """Twelve steps: cut off altogether in eight of them where all fail, and in six elsewhere, which may be chance."""
    rewards, truncated, steps = [], [], []
    for step in range(1, 13):
        for group in range(4):
            fails = group < 2
            rewards.append([0.0] * 8 if fails else [0.0, 1.0] * 4)
            truncated.append(8 if (step % 3 != 0 if fails else step % 2 == 0) else 0)
            steps.append(step)
    said = found(CUT, made_run(groups=made_groups(rewards, steps, truncated=truncated)))
    inside, outside = said.evidence["truncated_fraction_all_fail"], said.evidence["truncated_fraction_elsewhere"]
    least, most = said.evidence["truncated_fraction_all_fail_low"], said.evidence["truncated_fraction_elsewhere_high"]
    assert isinstance(inside, float)
    assert isinstance(outside, float)
    assert isinstance(least, float)
    assert isinstance(most, float)
    assert outside < inside
    assert least < most
    assert said.severity is Severity.INFO
    assert "no more frequent where all fail" in said.says


def test_where_everything_is_cut_off_length_need_not_be_why() -> None:
    said = found(CUT, cut_run(0.4, 1.0, 1.0))
    assert said.severity is Severity.INFO
    assert "no more frequent where all fail" in said.says


def test_a_run_that_improves_is_warned_only_where_much_is_cut_off() -> None:
    rng = np.random.default_rng(1)
    for share, severity in ((0.18, Severity.INFO), (0.45, Severity.WARNING)):
        rewards, truncated, steps = [], [], []
        for step in range(1, 61):
            for _ in range(10):
                cut = rng.random() < share
                row = rng.random(8) < 0.15 + 0.7 * step / 60
                rewards.append([0.0] * 8 if cut else row.astype(float))
                truncated.append(8 if cut else 0)
                steps.append(step)
        said = found(CUT, made_run(groups=made_groups(rewards, steps, truncated=truncated)))
        assert said.evidence["reward"] == "improving"
        assert said.severity is severity


def test_unknown_truncation_is_left_out_and_said() -> None:
    groups = made_groups([[0.0] * 4] * 40, truncated=[-1] * 40)
    assert "no group says it of all" in skipped(CUT, made_run(groups=groups)).needs
    half = made_groups([[0.0] * 4] * 40 + [[0, 1, 0, 1]] * 40, truncated=[-1, 4] * 20 + [0] * 40)
    assert found(CUT, made_run(groups=half)).evidence["groups"] == 60


def test_what_passes_has_to_be_known() -> None:
    groups = made_groups([[0.0, 0.3, 0.5, 0.7]] * 20 + [[0.1] * 4] * 20, threshold=None, truncated=[0] * 40)
    assert "pass_threshold" in skipped(CUT, made_run(groups=groups)).needs


def rows(cut: Floats, fail: Floats) -> gp.RunLog:
    metrics = {
        "rollout/truncated_ratio": cut,
        "rollout/zero_std/count_0.0": fail * 32,
        "rollout/raw_reward": np.full(cut.size, 0.3) + 1e-5 * (np.arange(cut.size) % 2),
    }
    return made_run(metrics, tool="slime", config={"rollout_batch_size": 32})


def test_aggregates_give_a_bound_only() -> None:
    flat = np.full(60, 1.0)
    said = found(CUT, rows(0.8 * flat, 0.5 * flat))
    assert said.evidence["cut_off_all_fail_fraction"] is None
    assert "At least 30 and at most 50 %" in said.says
    assert said.severity is Severity.INFO
    needs = skipped(CUT, rows(0.3 * flat, 0.5 * flat)).needs
    assert "at least 0 and at most 30 %" in needs
    assert "--save-debug-rollout-data" in needs
    assert "at most 1 %" in clear(CUT, rows(0.01 * flat, 0.5 * flat)).because


def test_two_shares_that_rise_together_are_told() -> None:
    rise = np.linspace(0.1, 0.6, 80) + 0.02 * np.sin(np.arange(80))
    said = found(CUT, rows(rise, np.round(32 * rise) / 32))
    assert said.evidence["rise_together"] is True
    assert (
        said.severity is Severity.WARNING
        if float(said.evidence["cut_off_all_fail_fraction_low"] or 0) > 0.1
        else Severity.INFO
    )
    skipped(CUT, rows(rise, np.round(32 * rise[::-1]) / 32))


def test_aggregates_that_are_missing_are_named() -> None:
    assert (
        "truncated_fraction"
        in skipped(CUT, made_run({"env/all/by_group/frac_all_bad": [0.2] * 20}, tool="tinker")).needs
    )
    assert "all-fail" in skipped(CUT, made_run({"completions/clipped_ratio": [0.2] * 20})).needs
    skipped(CUT, made_run(rows=0))
    skipped(CUT, made_run({"completions/clipped_ratio": [float("nan")] * 3}))


# --- equal texts -------------------------------------------------------------------------------------------------


def texts(same: float, *, tokens: float | None = 200.0, pairs: bool = False, groups: int = 300) -> gp.RunLog:
    """Groups of 8, of which a share has one text (or each text twice)."""
    rng = np.random.default_rng(2)
    one = rng.random(groups) < same
    rewards = [[1.0] * 8 if a and not pairs else [0.0, 1.0] * 4 for a in one]
    distinct = np.where(one, 4 if pairs else 1, 8)
    more: dict[str, Any] = (
        {} if tokens is None else {"response_tokens": np.full(groups, tokens), "measured": np.full(groups, 8)}
    )
    steps = [i // 10 + 1 for i in range(groups)]
    return made_run(groups=made_groups(rewards, steps, distinct=distinct, **more))


@pytest.mark.parametrize(
    ("same", "severity"), [(0.05, Severity.INFO), (0.2, Severity.WARNING), (1.0, Severity.WARNING)]
)
def test_groups_of_one_long_text_are_found(same: float, severity: Severity) -> None:
    said = found(SAME, texts(same))
    assert said.severity is severity
    assert said.evidence["identical_group_fraction"] == pytest.approx(same, abs=0.07)
    assert said.evidence["identical_groups_dead"] == said.evidence["identical_groups"]


def test_a_long_run_of_one_text_everywhere_is_critical() -> None:
    assert found(SAME, texts(1.0, groups=600)).severity is Severity.CRITICAL


def test_each_text_twice_is_found_though_no_group_is_one_text() -> None:
    said = found(SAME, texts(1.0, pairs=True))
    assert said.severity is Severity.WARNING
    assert said.evidence["identical_groups"] == 0
    assert said.evidence["repeated_rollout_fraction"] == pytest.approx(0.5)


@pytest.mark.parametrize("tokens", [None, 3.0, 20.0])
def test_short_answers_repeat_by_themselves(tokens: float | None) -> None:
    said = found(SAME, texts(0.6, tokens=tokens))
    assert said.severity is Severity.INFO
    assert "by themselves" in said.says


def test_the_metrics_say_the_length_where_rollouts_do_not() -> None:
    run = texts(0.6, tokens=None)
    longer = made_run({"completions/mean_length": np.full(30, 250.0)}, groups=run.groups)
    assert found(SAME, longer).severity is Severity.WARNING


def test_answers_of_two_tokens_of_verifiers_are_no_fault() -> None:
    said = found(SAME, made_run(groups=gp.read_groups(DATA / "verifiers" / "out", details=True)))
    assert said.severity is Severity.INFO
    assert said.evidence["identical_groups"] == 3


def test_sampled_texts_of_trl_are_clear() -> None:
    assert "0 %" in clear(SAME, gp.read_run(DATA / "trl" / "binary")).because


@pytest.mark.parametrize("name", ["none2", "batchstd", "gap"])
def test_ten_steps_without_a_repeated_text_are_too_few_to_clear_a_run(name: str) -> None:
    assert (
        "more groups: the share of groups that are one text is 0 %"
        in skipped(SAME, gp.read_run(DATA / "trl" / name)).needs
    )


def test_texts_that_are_not_there_are_asked_for() -> None:
    assert "the log holds none" in skipped(SAME, made_run({"reward": [0.5] * 20})).needs
    bare = made_run(groups=made_groups([[0.0, 1.0]] * 20))
    assert skipped(SAME, bare).needs == "the texts of the rollouts; the dump holds none."
    unknown = made_run(groups=made_groups([[0.0, 1.0]] * 20, distinct=[-1] * 20))
    assert "all known" in skipped(SAME, unknown).needs
    single = made_run(groups=made_groups([[1.0]] * 20, distinct=[1] * 20))
    skipped(SAME, single)
