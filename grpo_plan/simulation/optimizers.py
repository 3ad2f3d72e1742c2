"""Optimisers of the simulation (theory.md, eq. 127)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.simulation.policy import Parameters

Floats = NDArray[np.float64]
FIRST, SECOND = 0.9, 0.999
SMALLEST = 1e-12  # added to the root of the second moment


class Optimizer:
    """Moves parameters up a gradient, in place; holds the moments of Adam.

    >>> theta = Parameters(shared=np.zeros(2), private=np.zeros(1), nuisance=np.zeros(2))
    >>> g = Parameters(shared=np.array([3.0, 4.0]), private=np.zeros(1), nuisance=np.zeros(2))
    >>> Optimizer("adam-norm", theta).move(theta, g, 0.5)
    >>> theta.shared.round(6).tolist()
    [0.3, 0.4]
    """

    def __init__(self, name: str, parameters: Parameters) -> None:
        self._name = name
        self._first = [np.zeros_like(part) for part in parameters.parts()]
        self._second: list[Any] = [np.zeros_like(part) for part in parameters.parts()]
        self._norm = 0.0
        self._count = 0

    def move(self, parameters: Parameters, gradient: Parameters, rate: float) -> None:
        """One step upwards of a learning rate."""
        if self._name == "sgd":
            for part, g in zip(parameters.parts(), gradient.parts(), strict=True):
                part += rate * g
            return
        self._count += 1
        first, second = 1.0 - FIRST**self._count, 1.0 - SECOND**self._count
        self._norm = SECOND * self._norm + (1.0 - SECOND) * gradient.dot(gradient)
        for i, (part, g) in enumerate(zip(parameters.parts(), gradient.parts(), strict=True)):
            m = self._first[i]
            m *= FIRST
            m += (1.0 - FIRST) * g
            if self._name == "adam":
                v = self._second[i]
                v *= SECOND
                v += (1.0 - SECOND) * g**2
                part += rate / first * m / (np.sqrt(v / second) + SMALLEST)
            else:
                part += rate / first / (np.sqrt(self._norm / second) + SMALLEST) * m
