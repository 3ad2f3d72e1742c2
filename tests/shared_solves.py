"""Solves that commands of the tests share: many tests give the same pilot to another command.

A command fits its pilot anew. What it solves for is a function of the pilot alone, and `ProfileLikelihood` keeps each
bound under all that it depends on; so equal pilots may share one. Only whole commands run in this process do so: tests of
the fits themselves never see a number that they did not make. `test_docs.py` shows that it changes no answer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from grpo_plan.fitting import points, result
from grpo_plan.fitting.average import fit_average
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.mixing import Mixing, arcsine_grid
from grpo_plan.fitting.profile import ProfileLikelihood

KEPT = 64  # profiles and fits of different pilots
MANY_KEPT = 4096  # ranges: two numbers each

_FIT: Callable[[Mixing], ProfileLikelihood] = ProfileLikelihood.of
_profiles: OrderedDict[bytes, Any] = OrderedDict()
_averages: OrderedDict[bytes, Any] = OrderedDict()
_ranges: OrderedDict[bytes, Any] = OrderedDict()


def _kept(where: OrderedDict[bytes, Any], key: bytes, make: Callable[[], Any], most: int) -> Any:
    if key not in where:
        where[key] = make()
        if len(where) > most:
            where.popitem(last=False)
    where.move_to_end(key)
    return where[key]


def _digest(*parts: object) -> bytes:
    found = hashlib.blake2b()
    for part in parts:
        data = (
            part.tobytes() + repr((part.shape, part.dtype)).encode()
            if isinstance(part, np.ndarray)
            else repr(part).encode()
        )
        found.update(len(data).to_bytes(8, "big") + data)
    return found.digest()


def _profile(mixing: Mixing) -> ProfileLikelihood:
    key = _digest(*(getattr(mixing, name) for name in Mixing.__dataclass_fields__))
    found: ProfileLikelihood = _kept(_profiles, key, lambda: _FIT(mixing), KEPT)
    return found


def _average(histogram: Any, beta: Any) -> Any:
    key = _digest(*(getattr(histogram, name) for name in histogram.__dataclass_fields__), beta)
    return _kept(_averages, key, lambda: fit_average(histogram, beta), KEPT)


def _range(rates: Any, rollouts: int, functional: Any, **more: Any) -> Any:
    phi = functional.phi(*arcsine_grid())
    key = _digest(rates.passing, rates.failing, rates.masses, rollouts, functional.degree, phi, sorted(more.items()))
    return _kept(_ranges, key, lambda: range_at(rates, rollouts, functional, **more), MANY_KEPT)


@contextmanager
def shared_solves() -> Iterator[None]:
    """Within it, equal pilots share what is solved for."""
    with (
        patch.object(ProfileLikelihood, "of", staticmethod(_profile)),
        patch.object(points, "fit_average", _average),
        patch.object(result, "range_at", _range),
    ):
        yield
