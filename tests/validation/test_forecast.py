"""Forecasts of dead groups of a policy that is taught here, and the committed results."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import grpo_plan as gp  # noqa: E402
from figures.validation import forecast, forecast_more, forecast_page  # noqa: E402
from figures.validation.forecast_counts import SIZES, pilot_of, shares  # noqa: E402

PILOTS = 12


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> forecast.Source:
    """The start ``sum``, taught anew, with the prompts of the study."""
    return forecast.source("sum", tmp_path_factory.mktemp("work"))


def test_exact_shares_are_the_committed_ones(given: forecast.Source) -> None:
    """Another CPU may teach a slightly different policy: within .03 of every share."""
    kept = forecast_page.truth()["sum"]
    assert given.p.mean() == pytest.approx(kept["mean"], abs=0.03)
    for g in SIZES:
        assert shares(given.p, g) == pytest.approx(kept["groups"][str(g)], abs=0.03)


def test_new_pilots_err_as_the_committed_ones(given: forecast.Source) -> None:
    """12 pilots of 500 x 8 against the exact D(8): bias within 4 s.e. (1 false alarm in 15,000), limits hold in 8 or more
    (fewer: 1 in 5,000 at 95 %)."""
    exact = shares(given.p, 8)["dead"]
    found = [gp.fit_pass_rates(pilot_of(forecast.pilot_counts(given, 90_000 + i)[8])).dead(8) for i in range(PILOTS)]
    bias = float(np.mean([d.value or 0.0 for d in found])) - exact
    assert abs(bias) < 4 * forecast_page.cells()["sum", 8, 8]["dead"].rmse / np.sqrt(PILOTS)
    assert sum(d.low <= exact <= d.high for d in found) >= 8


def test_rollouts_pass_as_often_as_is_exact(given: forecast.Source) -> None:
    """4,000 prompts x 4: the mean reward within 4 s.e. (1 false alarm in 15,000), and the first rollout like the last."""
    generator = torch.Generator().manual_seed(5)
    chosen = given.choose(4000, generator)
    rewarded = given.rollouts(chosen, 4, generator)
    p = given.p[chosen.numpy()]
    error = np.sqrt((p * (1 - p)).sum()) / p.size
    for place in range(4):
        assert abs(rewarded[:, place].mean() - p.mean()) < 4 * error


def test_the_interval_of_a_count_leaves_out_a_fortieth_at_each_end() -> None:
    from scipy.stats import binom

    fit = gp.fit_pass_rates(gp.Pilot.from_counts([0] * 40 + [2] * 40 + [4] * 20, 4))
    batch = gp.effective_batch(fit, prompts_per_step=128, group_size=4)
    low, high = forecast_more.predicted_count(batch)
    mixed = 1 - batch.dead_fraction
    assert (low, high) == tuple(binom.ppf([0.025, 0.975], 128, mixed))


def test_a_list_is_as_random_as_its_pass_rates(given: forecast.Source) -> None:
    """100 steps of one list: mean of mixed groups within 4 s.e. of the Poisson-binomial law (1 false alarm in 15,000)."""
    generator = torch.Generator().manual_seed(6)
    chosen = given.choose(64, generator)
    law = gp.effective_batch_of_list(given.p[chosen.numpy()], group_size=4)
    counts = [int(forecast_more._mixed(given.rollouts(chosen, 4, generator), 4).sum()) for _ in range(100)]
    assert abs(np.mean(counts) - law.mixed_groups.mean) < 4 * law.mixed_groups.sd / 10


def test_a_course_is_asked_and_answered(
    tmp_path: Path, given: forecast.Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one: the forecast is made from the rows before it, the measured share is that of its own step."""
    monkeypatch.setattr(forecast_more, "start_policy", lambda name, work: copy.deepcopy(given.model))
    monkeypatch.setattr(forecast_more, "STEPS", 14)
    monkeypatch.setattr(forecast_more, "ASKED_AT", 10)
    monkeypatch.setattr(forecast_more, "ASKED_FOR", (12, 14))
    rows = list(forecast_more.course("all", 16, 3, tmp_path, {}))
    asked = [row for row in rows if row["what"] == "drift"]
    assert [row["case"] for row in asked] == ["all, step 12", "all, step 14"]
    for row in asked:
        dead_groups = 32 * float(row["measured"] or 0.0)
        assert dead_groups == pytest.approx(round(dead_groups))
    assert {row["group"] for row in rows if row["what"] == "recovery, trained"} == {2, 4, 8, 32, 64}
