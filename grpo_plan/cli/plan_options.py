"""What ``plan`` and ``report`` are asked for, refused before a long read where it lies outside its domain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.planning.kappa import KappaMeasurement
    from grpo_plan.planning.signal import KappaRange

NAMED = re.compile(r"^([a-z]+(?:_[a-z]+)*) (?=must )")
OPTIONS = {"group_size": "--group-sizes", "rollouts": "--budget-rollouts", "tokens": "--budget-tokens",
           "gpu_hours": "--budget-gpu-hours", "usd": "--budget-usd"}  # fmt: skip


def check_plan_options(
    *,
    objective: str,
    kappa: str,
    estimator: str,
    coherence: float,
    level: float,
    limits: Mapping[str, float],
    group_sizes: Sequence[int] | None = None,
    removed: str | None = None,
) -> KappaRange | KappaMeasurement:
    """Refuse what no pilot could make good; the library's own checks, by the names of the options.

    Args:
        objective: As for `plan_group_size`.
        kappa: As on the command line.
        estimator: Name and setting.
        coherence: Mean cosine between the gradients of two prompts.
        level: Confidence level.
        limits: Of the objectives besides ``signal``.
        group_sizes: Candidates, if given.
        removed: Which prompts were taken out, if given.

    Raises:
        DomainError: One of them lies outside its domain.
    """
    from grpo_plan._suggest import not_one_of
    from grpo_plan._validate import as_count, as_level
    from grpo_plan.estimators import parse_estimator
    from grpo_plan.planning.frontier import LARGEST_GROUP_SIZE, MIN_GROUP_SIZE
    from grpo_plan.planning.objectives import OBJECTIVES, Limitings
    from grpo_plan.planning.signal import as_coherence
    from grpo_plan.provenance import REMOVED

    parse_estimator(estimator)
    if objective not in OBJECTIVES:
        raise DomainError(not_one_of("--objective", objective, OBJECTIVES))
    if removed is not None and removed not in REMOVED:
        raise DomainError(not_one_of("--removed", removed, REMOVED))
    try:
        Limitings(**limits)
        as_coherence(coherence)
        as_level(level)
        for size in group_sizes or ():
            as_count(size, "group_size", minimum=MIN_GROUP_SIZE, maximum=LARGEST_GROUP_SIZE)
        return parse_kappa(kappa)
    except DomainError as error:
        raise DomainError(by_option(str(error))) from None


def by_option(message: str) -> str:
    """A refusal that names the option instead of the argument.

    >>> by_option("group_size must be at least 2; got 1."), by_option("max_dead must lie in [0, 1]; got nan.")
    ('--group-sizes must be at least 2; got 1.', '--max-dead must lie in [0, 1]; got nan.')
    """
    return NAMED.sub(lambda m: f"{OPTIONS.get(m[1], '--' + m[1].replace('_', '-'))} ", message)


def parse_kappa(text: str) -> KappaRange | KappaMeasurement:
    """``10``, ``1:300``, or the file that a probe wrote.

    >>> parse_kappa("1:300").high, parse_kappa("4.5").value
    (300.0, 4.5)
    """
    from grpo_plan.planning.signal import KappaRange

    low, colon, high = text.partition(":")
    try:
        return KappaRange(low=float(low), high=float(high) if colon else float(low))
    except ValueError as error:
        if isinstance(error, DomainError):
            raise
    if not text or not Path(text).is_file():
        raise DomainError(
            f"--kappa must be a number, LO:HI or the file of a probe, e.g. 10, 1:300 or kappa.json; got {text!r}."
        )
    from grpo_plan.planning.kappa import KappaMeasurement

    return KappaMeasurement.load(text)
