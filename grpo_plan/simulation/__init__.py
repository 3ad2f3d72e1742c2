"""Simulated learning: a policy of one logit a prompt, trained by policy gradients (theory.md, section 25)."""

from grpo_plan.simulation.comparison import CompetingRun, SimulationComparison, Verdict, compare_simulations
from grpo_plan.simulation.engine import simulate
from grpo_plan.simulation.result import SeedMean, Simulation
from grpo_plan.simulation.settings import Curriculum, SimulatedPolicy, SimulatedTraining

__all__ = [
    "CompetingRun",
    "Curriculum",
    "SeedMean",
    "SimulatedPolicy",
    "SimulatedTraining",
    "Simulation",
    "SimulationComparison",
    "Verdict",
    "compare_simulations",
    "simulate",
]
