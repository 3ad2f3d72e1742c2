"""Measuring kappa on one's own model: plain PyTorch, and TRL's GRPOTrainer. torch is imported when used."""

from grpo_plan.probe.gradients import GradientProbe
from grpo_plan.probe.trainer import kappa_callback, probe_trainer

__all__ = ["GradientProbe", "kappa_callback", "probe_trainer"]
