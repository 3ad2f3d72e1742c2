"""Pilots that hold only mixed groups: what is refused, what is answered, and how often it is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta as beta_law
from scipy.stats import binom

import grpo_plan as gp
from grpo_plan.cli.main import main
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES
from grpo_plan.fitting import FitStatus, fit_pass_rates
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.fitting.curve import LimitsCurve
from grpo_plan.fitting.truncated_fit import OTHER_SIZES
from grpo_plan.pilot import Pilot
from grpo_plan.planning.allocation import allocate_rollouts
from grpo_plan.planning.pilot_size import plan_pilot
from grpo_plan.plots import plot_dead_fraction, plot_pass_rates
from grpo_plan.provenance import Provenance
from tests.conftest import pilot_of

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

Counts = NDArray[np.int64]
ALL = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
FAILS, PASSES = int(ALL[0]), int(ALL[-1])
SEEN = Provenance(format="verl-v1", files=1, rows=5424, filtered="verl kept only groups with mixed rewards")
quick = settings(deadline=None, max_examples=12)
MIXED = st.lists(st.integers(0, 60), min_size=1, max_size=10).filter(lambda counts: sum(counts) > 0)


def survivors_of(counts: Counts | list[int], **more: Any) -> Pilot:
    """Mixed groups with k = 1 .. n-1 passes."""
    n = len(counts) + 1
    return Pilot.from_counts(np.repeat(np.arange(1, n), counts), n, **more)


EXAMPLE = survivors_of(ALL[1:-1])


# --- what is refused ---------------------------------------------------------------------------------------------


def one_line(error: pytest.ExceptionInfo[Exception], *parts: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")
    for part in parts:
        assert part in text


def test_a_filtered_pilot_is_not_fitted_as_if_it_were_whole() -> None:
    with pytest.raises(PilotError) as error:
        fit_pass_rates(survivors_of(ALL[1:-1], provenance=SEEN))
    one_line(error, "verl kept only groups with mixed rewards", "--truncated", "--dropped-groups", "all groups")
    assert fit_pass_rates(survivors_of(ALL[1:-1], provenance=SEEN), truncated=True).dead(8).high == 1.0
    assert fit_pass_rates(survivors_of(ALL[1:-1], provenance=SEEN), dropped_groups=(FAILS, PASSES)).dead(8).high < 0.5


def test_dead_groups_in_a_truncated_pilot_are_counted_in_the_refusal() -> None:
    with pytest.raises(PilotError) as error:
        fit_pass_rates(pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES), truncated=True)
    one_line(error, "439 with no pass", "92 with all passes", "1,209", "leave out truncated")
    with pytest.raises(PilotError) as error:
        fit_pass_rates(Pilot.from_counts([0, 1, 2], 4, provenance=SEEN), truncated=True)
    one_line(error, "1 with no pass and 0", "another reward")
    with pytest.raises(PilotError):
        fit_pass_rates(Pilot.from_counts([4, 1, 2], 4), dropped_groups=(3, 3))


def test_merged_visits_and_mixed_sizes_are_refused() -> None:
    merged = Pilot.from_counts([3] * 50 + [9] * 30 + [12] * 20, [8] * 50 + [16] * 30 + [24] * 20)
    for options in ({"truncated": True}, {"dropped_groups": 10}, {"dropped_groups": (5, 5)}):
        with pytest.raises(PilotError) as error:
            fit_pass_rates(merged, **options)
        one_line(error, "one row for each group", "3 sizes", "50 of 8")
    known = replace(SEEN, group_size=(8, 8))
    with pytest.raises(PilotError) as error:
        fit_pass_rates(Pilot.from_counts([3] * 50, 16, provenance=known), truncated=True)
    one_line(error, "all of size 8", "50 of 16")
    with pytest.raises(PilotError) as error:
        fit_pass_rates(Pilot.from_counts([1] * 9, 1, provenance=replace(SEEN, group_size=(1, 1))), truncated=True)
    one_line(error, "9 with all passes")


def test_groups_with_a_failed_scoring_are_left_out_and_counted() -> None:
    k, n = [3] * 150 + [5] * 50 + [2] * 3, [8] * 200 + [7] * 3
    pilot = Pilot.from_counts(k, n, prompt_id=range(203), stratum=["a"] * 203)
    for options in ({"truncated": True}, {"dropped_groups": 40}, {"dropped_groups": (30, 10)}):
        fit = fit_pass_rates(pilot, **options)
        assert fit.pilot.dropped == {OTHER_SIZES: 3}
        assert set(fit.pilot.rollouts) == {8}
    assert fit_pass_rates(pilot, truncated=True).pilot.prompt_id is not None
    more = Pilot.from_counts(k + [2] * 9, n + [7] * 9)
    assert fit_pass_rates(more, truncated=True).pilot.prompts == 200
    with pytest.raises(PilotError, match="200 of 8, 12 of 7"):
        fit_pass_rates(more, dropped_groups=40)


@pytest.mark.parametrize(
    ("dropped", "part"),
    [
        (-1, "at least 0"),
        (2.5, "whole number"),
        (True, "whole number"),
        ("531", "531"),
        ((1, 2, 3), "pair"),
        ({"all_fail": 3}, "all_fail"),
        ({"fail": 3, "pass": 1}, "fail, pass"),
        ((3, -1), "at least 0"),
    ],
)
def test_numbers_of_dropped_groups(dropped: Any, part: str) -> None:
    with pytest.raises(DomainError) as error:
        fit_pass_rates(EXAMPLE, dropped_groups=dropped)
    one_line(error, "dropped_groups", part)


def test_families_and_populations_that_need_dead_groups() -> None:
    for options in ({"family": "nonparametric"}, {"family": "inflated-beta"}, {"population": "census"}):
        with pytest.raises(DomainError) as error:
            fit_pass_rates(EXAMPLE, truncated=True, **options)  # type: ignore[arg-type]
        one_line(error, "mixed groups only")
    for family in ("beta", "tilted-beta"):
        d = fit_pass_rates(EXAMPLE, truncated=True, family=family).dead(8)
        assert d.low < (d.value or 0.0) < 1.0
    assert fit_pass_rates(EXAMPLE, dropped_groups=(FAILS, PASSES), population="census").population == 1209
    with pytest.raises(PilotError, match="no nonparametric fit"):
        _ = fit_pass_rates(EXAMPLE, truncated=True).nonparametric


# --- what is answered --------------------------------------------------------------------------------------------


def test_without_the_number_nothing_keeps_d_below_one() -> None:
    fit = fit_pass_rates(EXAMPLE, truncated=True)
    assert fit.statuses == (FitStatus.TRUNCATED,)
    assert fit.unknown_dead
    for g in (2, 8, 16, 64):
        d = fit.dead(g)
        assert d.status is FitStatus.TRUNCATED
        assert d.method == "survivors"
        assert d.high == 1.0
        assert d.value is not None
        assert d.low <= d.value < 1.0
        assert d.all_pass_interval == d.all_fail_interval == (0.0, 1.0)
        assert d.identified is not None
        assert d.low < d.identified[0] <= d.value
        assert d.identified[1] == pytest.approx(1.0)
        assert d.smooth_interval is not None
        assert d.smooth_interval[0] < d.value < d.smooth_interval[1] < 1.0
    mean = fit.mean_pass_rate_interval()
    assert (mean.low, mean.high) == (0.0, 1.0)
    assert mean.value == fit.mean_pass_rate == pytest.approx(0.377, abs=1e-3)
    gap = fit.jensen_gap(8)
    assert gap.interval == (0.0, 1.0 - 2.0**-7)
    assert gap.value == pytest.approx(fit.dead(8).value - fit.dead(8).iid)  # type: ignore[operator]
    assert fit.pass_at(8).interval == (0.0, 1.0)
    assert fit.reward_variance().low == 0.0
    assert fit.group_pmf(5).sum() == pytest.approx(1.0)
    assert fit.stopping_cost(16).high == 16.0


def test_how_much_is_lost_and_what_the_number_brings_back(example_fit: gp.PassRateFit) -> None:
    whole = example_fit.dead(8)
    unknown = fit_pass_rates(EXAMPLE, truncated=True).dead(8)
    counted = fit_pass_rates(EXAMPLE, dropped_groups=FAILS + PASSES)
    assert unknown.low < 0.4392 < unknown.high
    assert (unknown.high - unknown.low) / (whole.high - whole.low) == pytest.approx(15.3, abs=0.3)
    assert counted.dead(8).value == whole.value
    assert counted.dead(8).interval == pytest.approx(whole.interval, abs=1e-4)
    assert counted.dead(8).status is FitStatus.OK
    assert counted.statuses == (FitStatus.DEAD_KINDS_UNKNOWN,)
    far, near = whole.high - whole.low, counted.dead(16)
    assert near.high - near.low < 4 * far
    assert counted.dead(8).all_fail_interval[0] < FAILS / 1209 < counted.dead(8).all_fail_interval[1]
    assert counted.dead(8).all_pass_interval[0] < PASSES / 1209 < counted.dead(8).all_pass_interval[1]
    mean = counted.mean_pass_rate_interval()
    assert mean.low < example_fit.mean_pass_rate < mean.high
    assert counted.dead(8).identified == (whole.value, whole.value)
    assert counted.dead(64).status is FitStatus.EXTRAPOLATED
    assert counted.nonparametric.masses.sum() == pytest.approx(1.0)


@given(MIXED, st.integers(0, 80), st.integers(0, 80), st.booleans())
@quick
def test_both_numbers_make_the_pilot_ordinary(counts: list[int], fails: int, passes: int, named: bool) -> None:
    """Bit for bit the fit of a pilot with the dead groups in it."""
    dropped: Any = {"all_fail": fails, "all_pass": passes} if named else (fails, passes)
    restored = fit_pass_rates(survivors_of(counts, temperature=0.7), dropped_groups=dropped)
    whole = fit_pass_rates(pilot_of([fails, *counts, passes]))
    assert type(restored) is type(whole)
    assert restored.truncation is None
    assert restored.statuses == whole.statuses
    assert restored.pilot.temperatures == (0.7,)
    for g in (2, len(counts) + 1, 2 * len(counts) + 3):
        mine, theirs = restored.dead(g), whole.dead(g)
        assert (mine.value, mine.interval, mine.all_fail) == (theirs.value, theirs.interval, theirs.all_fail)
        assert mine.all_pass_interval == theirs.all_pass_interval


def test_histograms_are_fitted_as_their_prompts_are() -> None:
    cells = Pilot.from_histogram(8, range(1, 8), ALL[1:-1], provenance=SEEN)
    for options in ({"truncated": True}, {"dropped_groups": 531}, {"dropped_groups": (439, 92)}):
        mine, theirs = (fit_pass_rates(pilot, **options).dead(8) for pilot in (cells, EXAMPLE))
        assert (mine.value, mine.interval) == (theirs.value, theirs.interval)
    many = fit_pass_rates(cells, dropped_groups=(10**9, 10**9))
    assert many.pilot.prompts == 2 * 10**9 + 678
    some = Pilot.from_histogram([8, 8, 7], [3, 5, 2], [1500, 500, 30], provenance=SEEN)
    assert fit_pass_rates(some, dropped_groups=40).pilot.dropped == {OTHER_SIZES: 30}
    with pytest.raises(PilotError, match="2,000 of 8, 300 of 7"):
        fit_pass_rates(Pilot.from_histogram([8, 8, 7], [3, 5, 2], [1500, 500, 300]), dropped_groups=40)
    with pytest.raises(PilotError, match="got 40 with no pass and 9 with all passes among 99"):
        fit_pass_rates(Pilot.from_histogram(8, [0, 4, 8], [40, 50, 9]), truncated=True)


def test_a_restored_pilot_keeps_what_is_known_of_its_rows() -> None:
    lengths = np.linspace(50, 90, EXAMPLE.prompts)
    pilot = survivors_of(ALL[1:-1], response_tokens=lengths, prompt_id=range(EXAMPLE.prompts), provenance=SEEN)
    whole = fit_pass_rates(pilot, dropped_groups=(2, 3)).pilot
    assert whole.prompts == EXAMPLE.prompts + 5
    assert whole.prompt_id is None
    assert whole.response_tokens is not None
    assert np.isnan(whole.response_tokens[-5:]).all()
    assert np.array_equal(whole.response_tokens[:-5], lengths)
    assert whole.filtered is None
    assert whole.provenance.rows == SEEN.rows


@given(MIXED, st.one_of(st.none(), st.integers(0, 100)))
@quick
def test_limits_nest_hold_the_value_and_turn_with_the_outcomes(counts: list[int], dropped: int | None) -> None:
    """Higher levels are wider; renaming passes and fails exchanges the parts and nothing else."""
    fit = fit_pass_rates(survivors_of(counts), truncated=True, dropped_groups=dropped)
    turned = fit_pass_rates(survivors_of(counts[::-1]), truncated=True, dropped_groups=dropped)
    for g in (len(counts) + 1, 4 * len(counts) + 5):
        intervals = [fit.dead(g, level).interval for level in (0.5, 0.95, 0.999)]
        for inner, outer in pairwise(intervals):
            assert outer[0] <= inner[0] + 1e-4
            assert outer[1] >= inner[1] - 1e-4
        d, t = fit.dead(g), turned.dead(g)
        if d.value is not None:
            assert 0.0 <= d.low <= d.value <= d.high <= 1.0
            assert t.value == pytest.approx(d.value, abs=2e-3)
        assert t.low == pytest.approx(d.low, abs=2e-3)
        band = fit.dead(g, simultaneous=True)
        assert band.low <= d.low + 1e-4
    lows = [fit.dead(g).low for g in range(2, 12)]
    assert np.all(np.diff(lows) <= 1e-3)


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 8]), st.floats(0.15, 3.0), st.floats(0.15, 3.0))
@quick
def test_a_number_that_fits_never_widens(seed: int, n: int, a: float, b: float) -> None:
    rng = np.random.default_rng(seed)
    k = rng.binomial(n, rng.beta(a, b, 400))
    mixed = np.bincount(k, minlength=n + 1)[1:n]
    if mixed.sum() < 30:
        return
    dropped = 400 - int(mixed.sum())
    unknown = fit_pass_rates(survivors_of(mixed), truncated=True)
    counted = fit_pass_rates(survivors_of(mixed), dropped_groups=dropped)
    for g in (2, n, 2 * n):
        width = [d.high - d.low for d in (unknown.dead(g), counted.dead(g))]
        assert width[1] <= width[0] + 1e-6


@pytest.mark.parametrize("counts", [[1], [3], [1, 1], [0, 7], [1, 0, 0], [0, 0, 0, 1, 0, 0, 0], [9, 0, 0], [40, 0, 40]])
def test_pilots_that_say_next_to_nothing(counts: list[int]) -> None:
    n = len(counts) + 1
    fit = fit_pass_rates(survivors_of(counts), truncated=True)
    d = fit.dead(n)
    assert 2.0 ** (1 - n) - 1e-9 <= d.low <= d.high == 1.0
    assert d.status is FitStatus.TRUNCATED
    assert (d.value is None) == (n < 4)
    if n < 4:
        with pytest.raises(PilotError, match="does not determine"):
            fit.group_pmf(4)
        assert fit.parameters["a"] is None
        assert d.identified is None
    counted = fit_pass_rates(survivors_of(counts), dropped_groups=2)
    assert counted.dead(n).value == pytest.approx(2 / (2 + sum(counts)))
    assert (counted.dead(2 * n).value is None) == (n < 3)
    none = fit_pass_rates(survivors_of(counts), dropped_groups=0)
    assert none.dead(n).value == 0.0
    assert 0.0 < none.dead(n).high < 1.0


def test_groups_next_to_dead_tell_that_others_were() -> None:
    """D of groups that are all 1 of 8 is far up even without a count."""
    d = fit_pass_rates(survivors_of([200, 0, 0, 0, 0, 0, 0]), truncated=True).dead(8)
    assert d.low > 0.9
    middle = fit_pass_rates(survivors_of([0, 0, 20, 160, 20, 0, 0]), truncated=True).dead(8)
    assert middle.low < 0.01


def test_a_count_that_cannot_be_is_told_and_so_is_a_filter_that_said_nothing() -> None:
    assert FitStatus.DROPPED_COUNT_DOUBTFUL in fit_pass_rates(EXAMPLE, dropped_groups=20).statuses
    assert fit_pass_rates(EXAMPLE, dropped_groups=5000).statuses == (FitStatus.DEAD_KINDS_UNKNOWN,)
    assert fit_pass_rates(EXAMPLE).status is FitStatus.LOOKS_FILTERED
    rng = np.random.default_rng(3)
    for pilot in (
        Pilot.from_counts(rng.binomial(16, 0.5, 400), 16),
        Pilot.from_counts([1, 2, 3, 3], 4),
        Pilot.from_counts([1] * 50, 2),
        Pilot.from_counts([3, 5] * 50, [8, 9] * 50),
        Pilot.from_counts([2] * 200, 4),  # rollouts that repel each other: no truncation makes such a law
    ):
        assert FitStatus.LOOKS_FILTERED not in fit_pass_rates(pilot).statuses


def test_interpolated_limits_of_many_sizes() -> None:
    fit = fit_pass_rates(EXAMPLE, truncated=True)
    curve = LimitsCurve.of(fit, 200)
    for g in (37, 111):
        got, exact = curve.dead(g, 0.95), fit.dead(g)
        assert got.high == 1.0
        assert got.low == pytest.approx(exact.low, abs=5e-4)


# --- how often it is right ---------------------------------------------------------------------------------------


class Truth(NamedTuple):
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]]
    rates: NDArray[np.float64]
    masses: NDArray[np.float64]

    def dead(self, g: int) -> float:
        return float(self.masses @ (self.rates**g + (1.0 - self.rates) ** g))


def _atoms(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    kind = rng.random(size)
    return np.where(kind < 0.3, 0.0, np.where(kind < 0.5, 1.0, rng.random(size)))


EVEN = (np.arange(4000) + 0.5) / 4000
TRUTHS = {
    "smooth": Truth(lambda rng, m: rng.beta(0.4, 0.8, m), beta_law(0.4, 0.8).ppf(EVEN), np.full(4000, 1 / 4000)),
    "atoms at 0 and 1": Truth(
        _atoms, np.concatenate([[0.0, 1.0], EVEN]), np.concatenate([[0.3, 0.2], np.full(4000, 0.5 / 4000)])
    ),
    "three points": Truth(
        lambda rng, m: rng.choice([0.2, 0.5, 0.8], m), np.array([0.2, 0.5, 0.8]), np.full(3, 1.0 / 3.0)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_coverage(name: str) -> None:
    """False alarm below 1e-6 each if 95 % are covered; coverage of 60 % is found with 99.9 %."""
    truth, n, reps = TRUTHS[name], 8, 40
    rng = np.random.default_rng(16)
    missed = {(way, g): 0 for way in ("unknown", "counted") for g in (4, 8, 16)}
    for _ in range(reps):
        k = rng.binomial(n, truth.draw(rng, 300))
        mixed = np.bincount(k, minlength=n + 1)[1:n]
        dropped = 300 - int(mixed.sum())
        fits = {
            "unknown": fit_pass_rates(survivors_of(mixed), truncated=True),
            "counted": fit_pass_rates(survivors_of(mixed), dropped_groups=dropped),
        }
        for way, g in missed:
            low, high = fits[way].group_limits("dead", g, 0.95, False)
            missed[way, g] += not low <= truth.dead(g) <= high
    for count in missed.values():
        assert binom.sf(count - 1, reps, 0.05) > 1e-6
    assert binom.cdf(int(binom.isf(1e-6, reps, 0.05)), reps, 0.4) < 0.1


def test_the_value_comes_near_where_f_is_smooth() -> None:
    """Five standard errors of the fit: false alarm about 6e-7. A Beta; without the truncation D(8) would be 0."""
    truth = TRUTHS["smooth"]
    rng = np.random.default_rng(5)
    k = rng.binomial(8, truth.draw(rng, 60_000))
    mixed = np.bincount(k, minlength=9)[1:8]
    d = fit_pass_rates(survivors_of(mixed), truncated=True, family="beta").dead(8)
    assert d.smooth_interval is not None
    error = (d.smooth_interval[1] - d.smooth_interval[0]) / (2 * 1.96)
    assert error < 0.02
    assert abs((d.value or 0.0) - truth.dead(8)) < 5 * error


# --- downstream --------------------------------------------------------------------------------------------------


def test_plans_on_mixed_groups(example_fit: gp.PassRateFit) -> None:
    budget = gp.Budget(rollouts=2_000_000, steps=500)
    unknown = gp.plan_group_size(fit_pass_rates(EXAMPLE, truncated=True), budget=budget)
    counted = gp.plan_group_size(fit_pass_rates(EXAMPLE, dropped_groups=FAILS + PASSES), budget=budget)
    whole = gp.plan_group_size(example_fit, budget=budget)
    sizes = {p.recommended.design.group_size for p in (unknown, counted, whole)}
    assert len(sizes) == 1
    assert unknown.recommended.dead.high == 1.0
    assert any("rests on the mixed groups alone" in text for text in unknown.assumptions)
    assert any(FitStatus.TRUNCATED.sentence in text for text in unknown.assumptions)
    low, _ = unknown.recommended.batch.mixed_groups_mean_interval or (None, None)
    assert low == pytest.approx(0.0, abs=1e-9)
    assert counted.recommended.dead.interval == pytest.approx(whole.recommended.dead.interval, abs=1e-3)
    low, high = unknown.progress_limits(unknown.frontier[0], unknown.sensitivity[0].kappa)
    assert 0.0 < low < high
    refilled = gp.plan_group_size(
        fit_pass_rates(EXAMPLE, truncated=True), budget=budget, cost=gp.CostModel(refill=True)
    )
    assert refilled.recommended.cost_high is None


def test_refill_has_no_upper_limit_without_the_number() -> None:
    plan = gp.refill(fit_pass_rates(EXAMPLE, truncated=True), prompts_per_step=128, group_size=8)
    assert plan.status.name == "MAY_NEVER_FILL"
    known = gp.refill(fit_pass_rates(EXAMPLE, dropped_groups=531), prompts_per_step=128, group_size=8)
    assert known.status.name == "FILLS"


def test_what_cannot_do_without_dead_groups_says_so() -> None:
    for options in ({"truncated": True}, {"dropped_groups": 531}):
        fit = fit_pass_rates(EXAMPLE, **options)
        for ask in (
            lambda fit: compare_estimates(fit, 8),
            lambda fit: allocate_rollouts(fit, 5424),
            plot_dead_fraction,
            plot_pass_rates,
        ):
            with pytest.raises(PilotError) as error:
                ask(fit)
            one_line(error, "needs all groups")
    with pytest.raises(PilotError) as error:
        plan_pilot(fit_pass_rates(EXAMPLE, truncated=True), target_group_size=16)
    one_line(error, "--dropped-groups", "Beta")
    assert "1,209" in plan_pilot(fit_pass_rates(EXAMPLE, dropped_groups=531), target_group_size=16).prior
    rows = EXAMPLE.prompts
    strata = survivors_of(ALL[1:-1], stratum=["a"] * 100 + ["b"] * (rows - 100), provenance=SEEN)
    with pytest.raises(PilotError) as error:
        gp.plan_mix(strata)
    one_line(error, "strata", "verl kept only")
    warm = survivors_of(ALL[1:-1], temperature=[0.6] * 100 + [1.0] * (rows - 100), provenance=SEEN)
    for source in (warm, {0.6: warm.select(temperature=0.6), 1.0: warm.select(temperature=1.0)}):
        with pytest.raises(PilotError) as error:
            gp.plan_temperature(source)
        one_line(error, "Temperatures", "verl kept only")


# --- command line ------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command line in this process, in a folder with a pilot of mixed groups."""
    monkeypatch.chdir(tmp_path)
    rows = [f'{{"prompt": "q{i}", "n": 8, "k": {k}}}\n' for i, k in enumerate(EXAMPLE.successes)]
    (tmp_path / "mixed.jsonl").write_text("".join(rows), encoding="utf-8")

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["grpo-plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        captured = capsys.readouterr()
        return Answer(0 if code is None else int(code), captured.out, captured.err)

    return call


def test_fit_of_mixed_groups(run: Run) -> None:
    plain = run("fit", "mixed.jsonl")
    assert "LOOKS_FILTERED" in plain.out
    page = run("fit", "mixed.jsonl", "--truncated").out
    assert "Groups  678 mixed groups of 8 rollouts; the dead ones were dropped, their number" in page
    assert "TRUNCATED" in page
    assert "1.000]" in page
    body = json.loads(run("fit", "mixed.jsonl", "--truncated", "--json").out)
    assert body["model"]["truncated"] == {
        "group_size": 8, "mixed_groups": 678, "other_sizes": 0, "dropped_groups": None
    }  # fmt: skip
    row = next(d for d in body["dead"] if d["group_size"] == 8)
    assert (row["high"], row["status"], row["method"]) == (1.0, "TRUNCATED", "survivors")
    assert row["smooth"][0] < row["value"] < row["smooth"][1]


def test_fit_with_the_number_of_dropped_groups(run: Run, example_fit: gp.PassRateFit) -> None:
    one = json.loads(run("fit", "mixed.jsonl", "--dropped-groups", "531", "--json").out)
    assert one["model"]["truncated"]["dropped_groups"] == 531
    answer = run("fit", "mixed.jsonl", "--dropped-groups", "439,92", "--json")
    both = json.loads(answer.out)
    assert "439 all-fail and 92 all-pass" in answer.err
    assert both["model"]["truncated"] is None
    row = next(d for d in both["dead"] if d["group_size"] == 8)
    assert (row["low"], row["value"], row["high"]) == pytest.approx(
        (example_fit.dead(8).low, example_fit.dead(8).value, example_fit.dead(8).high)
    )
    for text in ("12,000", "-1", "a", "1,2,3", ""):
        refused = run("fit", "mixed.jsonl", f"--dropped-groups={text}")
        assert refused.code == 2
        assert "--dropped-groups must be" in refused.err
        assert refused.err.count("\n") == 1


def test_strata_of_a_truncated_fit(run: Run, tmp_path: Path) -> None:
    rows = [
        f'{{"prompt": "q{i}", "n": 8, "k": {k}, "level": "{"ab"[i % 2]}"}}\n' for i, k in enumerate(EXAMPLE.successes)
    ]
    (tmp_path / "strata.jsonl").write_text("".join(rows), encoding="utf-8")
    asked = ("fit", "strata.jsonl", "--stratum-column", "level", "--json")
    body = json.loads(run(*asked, "--truncated").out)
    assert [part["model"]["status"] for part in body["strata"]] == ["TRUNCATED", "TRUNCATED"]
    for dropped in ("531", "439,92"):
        answer = run(*asked, "--dropped-groups", dropped)
        assert "strata are not reported" in answer.err
        assert "strata" not in json.loads(answer.out)


@pytest.mark.parametrize("command", ["mix", "allocate", "plot", "temperature"])
def test_commands_without_an_answer_say_so(run: Run, command: str) -> None:
    for option in (("--truncated",), ("--dropped-groups", "531")):
        refused = run(command, "mixed.jsonl", *option)
        assert (refused.code, refused.out) == (2, "")
        assert f"{command} cannot take --truncated or --dropped-groups: " in refused.err
        assert refused.err.count("\n") == 1


def test_plan_refill_and_pilot_size_take_the_number(run: Run) -> None:
    plan = run("plan", "mixed.jsonl", "--truncated", "--budget-rollouts", "2e6", "--steps", "500")
    assert plan.code == 0, plan.err
    assert "rests on the mixed groups alone" in " ".join(plan.out.split())
    sized = ("refill", "mixed.jsonl", "--prompts-per-step", "128", "--group-size", "8", "--json")
    assert json.loads(run(*sized, "--truncated").out)["status"] == "MAY_NEVER_FILL"
    assert json.loads(run(*sized, "--dropped-groups", "531").out)["status"] == "FILLS"
    assert run("pilot-size", "mixed.jsonl", "--truncated").code == 1
    assert run("pilot-size", "mixed.jsonl", "--dropped-groups", "531").code == 0
