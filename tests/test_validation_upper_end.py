"""The analysis of why large groups do worse than predicted: its arithmetic, and its raw results against other ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from figures.validation import upper_end as end
from figures.validation import upper_end_page
from figures.validation.outcome_tables import sizes_of, worlds
from grpo_plan.probe.gram import pair_products, subgroup_squared_norms

SIZES = (2, 3, 4, 6, 8, 12, 16, 32, 64)


def test_pair_shares_are_those_of_the_probe() -> None:
    rng = np.random.default_rng(0)
    scores, rewards = rng.normal(size=(16, 30)), (rng.random(16) < 0.4).astype(float)
    gram = scores @ scores.T
    ours = [float(end.pair_shares(size) @ pair_products(gram, rewards)) for size in (2, 4, 16)]
    assert ours == pytest.approx(subgroup_squared_norms(gram, rewards, (2, 4, 16)).tolist())


def test_the_peak_of_a_parabola_is_found_and_an_end_is_none() -> None:
    rates = (1e-4, 2e-4, 4e-4, 8e-4)
    top = np.log2(3e-4)
    gains = 1.0 - (np.log2(rates) - top) ** 2
    assert end.peak(rates, gains) == pytest.approx(top)
    assert end.peak(rates, np.array([3.0, 2.0, 1.0, 0.0])) is None
    assert end.peak(rates, np.array([0.0, 1.0, 2.0, 3.0])) is None


def test_lengths_agree_with_the_exact_sums_of_other_prompts() -> None:
    """Squared norms by length, of 192 prompts, against exact sums over 256 others: 24 comparisons, |z| below 4.

    Both have heavy tails, so the limit is wide; a wrong scale or weight is far outside.
    """
    worlds_exact = json.loads((end.RESULTS / "gradients.json").read_text(encoding="utf-8"))["worlds"]
    furthest = 0.0
    for world, exact in worlds_exact.items():
        products = np.array(end.read("directions")[world]["products"]["plain"])
        for size in (2, 4, 16, 64):
            each = products @ end.pair_shares(size)
            theirs = exact["squares"]["rloo"][str(size)]
            spread = 2**0.5 * each.std(ddof=1) / len(each) ** 0.5  # their prompts are as many and vary as much
            furthest = max(furthest, abs(each.mean() - theirs) / spread)
    assert 0.1 < furthest < 4.0


def test_the_best_of_every_prediction_is_one() -> None:
    for world in end.read("directions"):
        for metric in end.METRICS:
            values = end.predicted(world, metric, SIZES)
            assert max(values.values()) == 1.0
            assert min(values.values()) > 0.0


def test_only_noise_has_no_best_size() -> None:
    assert end.best_size("hard_tail", "plain") is None
    assert 3.0 < (end.best_size("tail", "signal") or 0.0) < 6.0 < (end.best_size("tail", "plain") or 0.0)


def test_the_slope_of_rates_is_that_of_the_runs() -> None:
    for world in worlds():
        slope = end.rate_slope(world)
        if slope is not None:
            at = end.peaks(sizes_of(world))
            by_hand = np.polyfit([-np.log2(g) for g in slope.sizes], [at[g] for g in slope.sizes], 1)[0]
            assert slope.value == pytest.approx(by_hand)
            assert slope.error > 0.0


def test_gains_of_one_step_are_ratios_of_means() -> None:
    row = end.read("one_step")["all"]
    raw = {g: np.mean(row[g]["adam"]["linear"]) ** 2 / np.mean(row[g]["adam"]["bent"]) for g in row}
    top = max(raw.values())
    found = end.one_step("all", "adam")
    assert {str(g): v for g, (v, _) in found.items()} == pytest.approx({g: v / top for g, v in raw.items()})


def test_the_section_names_every_world() -> None:
    text = upper_end_page.page()
    assert text.startswith("## Why large groups do worse than predicted")
    assert "nan" not in text
    assert all(f"| {name} |" in text for name in ("all", "hard", "tail", "hard + tail", "either", "easy"))
