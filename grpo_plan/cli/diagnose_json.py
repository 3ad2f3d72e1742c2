"""A diagnosis as JSON: finite numbers, null where unknown."""

from __future__ import annotations

from grpo_plan.documents.diagnose import diagnosis_json

__all__ = ["diagnosis_json"]
