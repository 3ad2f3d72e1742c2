"""What commands of the tests share changes no answer, and is shared by equal pilots alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting import profile as profiles
from grpo_plan.fitting.npmle import ascend as ascend_of_the_fits
from grpo_plan.pilot import Pilot
from tests.shared_solves import shared_solves

LEVEL = 0.9317  # that no other test asks for


def pilot(more: int = 0) -> Pilot:
    return Pilot.from_counts([0] * 41 + [1] * 9 + [2] * (17 + more) + [3] * 5 + [4] * 23, 4)


def answers(fit: PassRateFit) -> list[Any]:
    d = [fit.dead(g, LEVEL) for g in (2, 4, 8, 33)]
    mean = fit.mean_of(lambda p: p * p, level=LEVEL)
    return [[(x.value, x.interval, x.identified, x.smooth_interval) for x in d], mean.value, (mean.low, mean.high)]


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Calls of the solver behind all limits."""
    calls, real = [0], ascend_of_the_fits

    def ascend(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        return real(*arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(profiles, "ascend", ascend)
        yield calls


def test_the_answers_are_the_same_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answers(fit_pass_rates(pilot()))
    with shared_solves():
        assert answers(fit_pass_rates(pilot())) == alone
        with counted(monkeypatch) as calls:
            assert answers(fit_pass_rates(pilot())) == alone
        assert calls == [0], "the second fit solves for nothing"
    with counted(monkeypatch) as calls:
        assert answers(fit_pass_rates(pilot())) == alone
    assert calls[0] > 10, "outside nothing is shared"


def test_another_pilot_shares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answers(fit_pass_rates(pilot(more=1)))
    with shared_solves():
        first = answers(fit_pass_rates(pilot()))
        with counted(monkeypatch) as calls:
            assert answers(fit_pass_rates(pilot(more=1))) == alone != first
        assert calls[0] > 10
