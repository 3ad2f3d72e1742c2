"""Simulated runs with known truth: what a diagnosis must find, and what it must not."""

from figures.scenarios.base import Scenario, Simulated, group_log, plan_of, run_log
from figures.scenarios.healthy import HEALTHY
from figures.scenarios.sick import SICK

SCENARIOS: tuple[Scenario, ...] = (*HEALTHY, *SICK)

__all__ = ["HEALTHY", "SCENARIOS", "SICK", "Scenario", "Simulated", "group_log", "plan_of", "run_log"]
