"""The committed numbers of gradients agree with each other, and the sections are made of them alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from figures.validation import gradients_page, kappa_page
from figures.validation.moments import (
    PROBE_SIZES,
    group_squares,
    kappa,
    kappa_of_line,
    moments_of_rewards,
    noise_to_signal,
    two_size_kappa,
)

WORLDS = sorted(gradients_page.results()["worlds"])


@pytest.mark.parametrize("world", WORLDS)
def test_summaries_follow_from_the_prompts(world: str) -> None:
    """Raw numbers are rounded to four digits, so this holds to about a part in a thousand."""
    given = gradients_page.results()["worlds"][world]
    prompts = gradients_page.prompts_of(world)
    assert kappa(prompts) == pytest.approx(given["kappa"]["model"], rel=5e-3, abs=2e-3)
    two, best = two_size_kappa(prompts)
    assert two == pytest.approx(given["kappa"]["two_size"], rel=5e-3, abs=2e-3)
    assert best == pytest.approx(given["kappa"]["best"], rel=2e-3)
    signal = given["mean_gradient"]["by_estimator"]["rloo"]["2"]["value"]
    for size in gradients_page.results()["settings"]["sizes"]:
        square = float(group_squares(prompts, size).mean())
        assert square == pytest.approx(given["squares"]["rloo"][str(size)], rel=2e-3)
        expected = noise_to_signal(square, signal, round(512 / size))
        assert given["noise_to_signal"]["rloo"][str(size)] == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("world", WORLDS)
def test_the_probe_follows_from_its_norms(world: str) -> None:
    """The value of eq. 49 from the committed norms and passes of the probe."""
    probe = gradients_page.results()["worlds"][world]["probe"]
    norms = [float(np.mean(probe["norms"][str(size)])) for size in PROBE_SIZES]
    pq, ppqq = moments_of_rewards(np.array(probe["passes"], dtype=float), probe["rollouts"])
    value, best = kappa_of_line((norms[0], norms[1]), pq, ppqq)
    assert probe["kappa"]["value"] == pytest.approx(value, rel=5e-3)
    assert probe["best"]["value"] == pytest.approx(best, rel=5e-3)


def test_coverage_is_counted() -> None:
    rows: list[list[float | None]] = [[1.0, 0.5, 2.0], [3.0, 2.5, None], [1.0, 1.6, 2.0], [0.5, 0.1, 1.0]]
    assert kappa_page.covered(rows, 1.5) == (1, 1)
    assert kappa_page.covered(rows, 3.0) == (1, 1)
    low, high = kappa_page.wilson(95, 100)
    assert (round(low, 3), round(high, 3)) == (0.888, 0.978)  # Newcombe (1998), method 3


def test_sections_need_no_torch_and_have_no_gaps() -> None:
    """In a fresh interpreter, so that no other test has imported torch."""
    code = "import sys; from figures.validation.gradients_page import page; print(page()); assert 'torch' not in sys.modules"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert text.startswith("## ")
    assert " nan" not in text
    assert text.rstrip("\n") == gradients_page.page().rstrip("\n")
