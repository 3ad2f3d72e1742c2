"""Where trainers give up refilling a step, and what each does there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_plan.runs.facts import Facts

BATCH_KEYS = ("data.gen_batch_size", "over_sampling_batch_size", "data.mini_rollout_batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Where a tool limits the generation batches of a step, and what it does there.

    Attributes:
        key: Setting of the limit.
        switch: Setting that turns refilling on.
        on: Its values that do, in lower case.
        default: The tool's own limit; None if it has none.
        does: What happens at the limit, a clause.
        stops: Whether that ends the run.
    """

    key: str
    switch: str
    on: tuple[str, ...] = ("true", "1")
    default: int | None
    does: str
    stops: bool


CAPS = {
    "verl": Cap(
        key="algorithm.filter_groups.max_num_gen_batches", switch="algorithm.filter_groups.enable", default=None,
        does="verl's DAPO recipe stops the run with an error there (0.9 and later ignore the limit)", stops=True,
    ),
    "nemo-rl": Cap(
        key="grpo.dynamic_sampling_max_gen_batches", switch="grpo.use_dynamic_sampling", default=10,
        does="NeMo-RL stops the run with an error there", stops=True,
    ),
    "ms-swift": Cap(
        key="max_resample_times", switch="dynamic_sample", default=3,
        does="ms-swift goes on with the batch that it has, dead groups included", stops=False,
    ),
    "easyr1": Cap(
        key="trainer.max_try_make_batch", switch="algorithm.online_filtering", default=20,
        does="EasyR1 stops the run with an error there", stops=True,
    ),
    "skyrl": Cap(
        key="trainer.algorithm.dynamic_sampling.max_sample_batches", switch="trainer.algorithm.dynamic_sampling.type",
        on=("filter", "replace"), default=30, does="SkyRL stops the run with an error there", stops=True,
    ),
}  # fmt: skip


def limit_of(facts: Facts, cap: Cap | None) -> tuple[int | None, str]:
    """Batches at which a step gives up; else why there is no such limit, empty if it is not known."""
    given, view = facts.settings.max_generation_batches, facts.view
    if given is not None:
        return given, ""
    if cap is None:
        return None, ""
    if view.tool == "verl" and (
        str(view.setting("trainer.use_v1")).lower() == "true" or "training/filter_groups/evicted_samples" in view
    ):
        return None, "verl 0.9 and later draw until a step is full, without a limit"
    value = view.setting(cap.key)
    try:
        number = None if value is None else float(str(value))
    except ValueError:
        number = None
    if number is None or not np.isfinite(number):
        return cap.default, ""
    if number < 1:
        return None, f"{cap.key} is {number:g}: no limit"
    return int(number), ""


def is_on(facts: Facts, cap: Cap | None) -> bool:
    """Whether the settings, or the user by a limit, say that steps are refilled."""
    if facts.settings.max_generation_batches is not None:
        return True
    return cap is not None and str(facts.view.setting(cap.switch)).lower() in cap.on


def batch_size(facts: Facts, wanted: int) -> int:
    """Prompts of a generation batch: as the settings say, else those of a step."""
    view = facts.view
    found = view.count(*BATCH_KEYS)
    if found is not None:
        return found
    try:
        factor = float(str(view.setting("grpo.batch_multiplier")))
    except ValueError:
        return wanted
    return max(wanted, int(factor * wanted)) if np.isfinite(factor) else wanted
