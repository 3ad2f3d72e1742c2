"""A report: every answer to one pilot, or one run, in one document, and the tables from which a page recomputes it."""

from grpo_plan.report.build import build_report
from grpo_plan.report.request import ReportRequest
from grpo_plan.report.result import Report

__all__ = ["Report", "ReportRequest", "build_report"]
