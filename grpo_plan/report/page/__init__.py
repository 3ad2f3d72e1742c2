"""The page of a report."""

from grpo_plan.report.page.rendering import render

__all__ = ["render"]
