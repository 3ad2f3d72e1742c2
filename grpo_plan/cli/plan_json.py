"""A plan as JSON, as in the contract."""

from __future__ import annotations

from grpo_plan.documents.plan import block_json, plan_document

__all__ = ["block_json", "plan_document"]
