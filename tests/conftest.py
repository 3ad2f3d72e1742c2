"""Fixtures shared by the tests, and one deterministic profile for property tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, example_lines
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from tests.shared_solves import shared_solves

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

# Byte code is kept: a process that a test starts would else compile the package anew, and a second run all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.disable()  # until all is collected: what collection makes stays, and looking through it finds nothing

for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)  # the page of the tests is the same everywhere

collect_ignore = ["trl_losses.py"]  # a script that a test runs in a process of its own; needs the extra trl
ROOT = Path(__file__).resolve().parents[1]
REAL_DATA = Path(os.environ.get("GRPO_PLAN_REAL_DATA", ROOT.parent / "shared" / "data"))


def pytest_collection_finish() -> None:
    """From here on objects that are no longer used are looked for among the new ones only."""
    gc.freeze()
    gc.enable()


def pilot_of(prompts_by_successes: tuple[int, ...] | list[int]) -> Pilot:
    """A pilot from the number of prompts with k = 0..n passes."""
    counts = np.asarray(prompts_by_successes)
    return Pilot.from_counts(np.repeat(np.arange(counts.size), counts), counts.size - 1)


@pytest.fixture(scope="session")
def example_fit() -> PassRateFit:
    return fit_pass_rates(pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES))


@pytest.fixture
def equal_pilots_share() -> Iterator[None]:
    """For tests of plans, which solve for one pilot again and again: equal pilots share what is solved for."""
    with shared_solves():
        yield


@pytest.fixture(scope="session")
def example_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("example") / "pilot.jsonl"
    path.write_text("".join(f"{line}\n" for line in example_lines()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real pass-rate files; they are kept beside the repository, not in it."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real pass-rate files in {REAL_DATA} (set GRPO_PLAN_REAL_DATA)")
    return REAL_DATA
