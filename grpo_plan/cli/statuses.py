"""What limits a fit, shown by the commands that show no fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpo_plan.cli.common import console, say

if TYPE_CHECKING:
    from grpo_plan.fitting.status import FitStatus


def say_source(statuses: Sequence[FitStatus]) -> None:
    """What makes the rollouts themselves doubtful."""
    for status in statuses:
        if status.about_source:
            say(console(), f"{status.name}: {status.sentence}", "Status  ")


def statuses_json(statuses: Sequence[FitStatus]) -> dict[str, Any]:
    """Every status with its sentence."""
    return {"statuses": {status.name: status.sentence for status in statuses}}
