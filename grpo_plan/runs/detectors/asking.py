"""How each tool is made to write what a check needs."""

from __future__ import annotations

from grpo_plan.quantities import Absent, Cause
from grpo_plan.runs.facts import Facts

DUMPS = {
    "trl": "log_completions=True (with logging_steps=1)",
    "ms-swift": "--log_completions true",
    "verl": "trainer.rollout_data_dir=DIR",
    "nemo-rl": "its train_data_step*.jsonl, in the folder of the logger",
    "prime-rl": "its folder rollouts/",
    "slime": "--save-debug-rollout-data DIR/{rollout_id}.pt",
    "roll": "rollout_dump_dir",
    "tinker": "rollout_json_export=True",
    "open-instruct": "--save_traces --rollouts_save_path DIR",
}


def rollouts_wanted(facts: Facts, lacks: str = "it") -> str:
    """How to have the rollouts beside the metrics, for the tool of the log; what they lack where they were read."""
    groups = facts.run.groups
    if groups is not None and groups.groups:
        return f"The rollouts that were read ({_read_as(facts)}) do not say {lacks}: log it."
    how = DUMPS.get(facts.view.tool or "")
    if how is None:
        return "Rollouts would tell: read a dump of them, one row a rollout with prompt, reward and text."
    return f"Rollouts would tell: {how}; read the folder that holds them and the log."


def _read_as(facts: Facts) -> str:
    """Groups that were read, and from which dump."""
    groups = facts.run.groups
    count = 0 if groups is None else groups.groups
    format = None if groups is None else groups.provenance.format
    of = "" if format is None else f" of {format}"
    return f"{count:,} group{'' if count == 1 else 's'}{of}"


def wanted(facts: Facts, missing: Absent, lacks: str = "it") -> str:
    """Why a quantity is absent, and how to have it: by rollouts where there are none and no setting would do."""
    if missing.cause is Cause.NEEDS_SETTING:
        return missing.reason
    if facts.run.groups is not None:
        return f"{missing.reason.removesuffix(' Dump rollouts, or log it.')} {rollouts_wanted(facts, lacks)}"
    return f"{missing.reason} {rollouts_wanted(facts, lacks)}"
