"""Pictures: what is drawn is the data; every kind of pilot can be drawn; committed figure data are fresh."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.container import BarContainer

from figures import dead_fraction
from grpo_plan.errors import DomainError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.plots import draw_pilot, plot_dead_fraction, plot_pass_rates
from tests.conftest import ROOT, pilot_of


def test_dead_fraction_is_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    figure, ax = plt.subplots()
    assert plot_dead_fraction(example_fit, ax, max_group_size=32) is ax
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    iid = lines["i.i.d. formula (too low)"]
    x, y = np.asarray(iid.get_xdata()), np.asarray(iid.get_ydata())
    assert y[list(x).index(8)] == pytest.approx(example_fit.dead(8).iid)
    points = np.asarray(lines["measured (subgroup counts)"].get_xydata())
    assert points[:, 0].tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert points[-1, 1] == pytest.approx(example_fit.dead(8).value)
    beyond = np.asarray(lines["estimate (auto)"].get_xydata())
    assert beyond[0].tolist() == points[-1].tolist()
    assert beyond[-1] == pytest.approx((32, example_fit.dead(32).value))
    assert ax.get_xscale() == "log"
    bands = {str(band.get_label()): band for band in ax.collections}
    for label, (low, high) in {
        "95% interval": example_fit.dead(32).interval,
        "left open by n = 8 for ever": example_fit.dead(32).identified or (0.0, 0.0),
    }.items():
        corners = np.asarray(bands[label].get_paths()[0].vertices)
        at_end = corners[corners[:, 0] == 32][:, 1]
        assert (at_end.min(), at_end.max()) == pytest.approx((low, high))
    plt.close(figure)


def test_pass_rates_are_drawn_on_the_given_axes(example_fit: PassRateFit) -> None:
    figure, ax = plt.subplots()
    assert plot_pass_rates(example_fit, ax) is ax
    (bars,) = [c for c in ax.containers if isinstance(c, BarContainer)]
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx(np.array([439, 151, 103, 91, 73, 76, 88, 96, 92]) / 1209)
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    expected = np.asarray(lines["expected by the smooth fit"].get_ydata())
    assert expected == pytest.approx(example_fit.smooth_rates.group_pmf(8))
    atoms = np.asarray(lines["atoms of the nonparametric fit"].get_xydata())
    assert len(atoms) == 4
    assert atoms[:, 1].sum() == pytest.approx(1.0)
    assert atoms[:, 0] @ atoms[:, 1] == pytest.approx(example_fit.mean_pass_rate, abs=1e-3)
    plt.close(figure)


@pytest.mark.parametrize(
    "pilot",
    [
        pytest.param(pilot_of((50, 0, 0)), id="nothing passes"),
        pytest.param(pilot_of((0, 0, 50)), id="nothing fails"),
        pytest.param(pilot_of((20, 0, 0, 20)), id="all dead"),
        pytest.param(pilot_of((20, 30)), id="one rollout each"),
        pytest.param(pilot_of((0, 0, 1, 0)), id="one prompt"),
        pytest.param(pilot_of((0, 0, 0, 0, 40, 0, 0, 0, 0)), id="no spread"),
        pytest.param(Pilot.from_counts([1, 50, 300], [3, 100, 1000]), id="unequal n"),
    ],
)
def test_odd_pilots_can_be_drawn(pilot: Pilot, tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    draw_pilot(fit_pass_rates(pilot), path)
    assert path.stat().st_size > 10_000


def test_too_small_a_range_is_refused(example_fit: PassRateFit) -> None:
    with pytest.raises(DomainError, match="max_group_size must be at least 4; got 2"):
        plot_dead_fraction(example_fit, max_group_size=2)


def test_the_data_of_the_readme_picture_are_fresh() -> None:
    with (ROOT / "figures/dead_fraction.csv").open(encoding="utf-8") as file:
        committed = list(csv.DictReader(file))
    rows = dead_fraction.data()
    assert len(committed) == len(rows)
    for old, new in zip(committed, rows, strict=True):
        for name, value in new.items():
            if value is None:
                assert old[name] == ""
            else:
                assert float(old[name]) == pytest.approx(value, rel=1e-9)


def test_the_readme_picture_can_be_drawn(tmp_path: Path) -> None:
    dead_fraction.draw(dead_fraction.data(), tmp_path / "p.svg")
    picture = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    assert picture.count("<path") > 50
