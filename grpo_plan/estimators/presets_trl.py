"""TRL, and ms-swift, which began from it: sample std + 1e-4, NaN-safe sums over reward functions."""

from __future__ import annotations

from dataclasses import replace

from grpo_plan.estimators.conventions import Convention, Failed, Scaling
from grpo_plan.estimators.preset import Option, Preset, Source

STD = Scaling(ddof=1, eps=1e-4)
FILE = "trl/trainer/grpo_trainer.py"
METHOD = "GRPOTrainer._generate_and_score_completions"
NONE_ROWS = {
    "1.6": "A rollout that no function could score is left out of means and spreads; its advantage is 0.",
    "0.27": "A rollout that no function could score counts as reward 0.",
    "0.22.2": "A rollout that no function could score counts as reward 0.",
    "0.22": "0.22.0 and 0.22.1 swap the scales: group does not divide, batch and none divide by the group's std.",
    "0.16": "A rollout that no function could score counts as reward 0.",
    "0.14": "None from a reward function is an error; NaN spreads over the group.",
}
GROUP = Convention(
    name="trl/group", scale="group", scaling=STD, partial="ignored", single="zero", failed="left_out"
)  # fmt: skip
BATCH = replace(GROUP, name="trl/batch", scale="batch")
CENTRED = replace(GROUP, name="trl/none", scale="none", scaling=None)
GDPO = replace(GROUP, name="trl/gdpo", combine="normalize_then_sum", whiten="rollouts", whitening=STD)
RLOO = Convention(name="trl/rloo", baseline="leave_one_out", partial="ignored", single="zero", failed="left_out")
RLOO_NORMALIZED = replace(RLOO, name="trl/rloo-normalized", single="nan", whiten="rollouts", whitening=STD)


def _grpo(
    since: str, until: str | None, version: str, method: str, convention: Convention, **options: Option
) -> Preset:
    failed: Failed = "left_out" if since == "1.6" else "spreads" if since == "0.14" else "as_zero"
    kept = convention if failed == "left_out" else replace(
        convention, failed=failed, partial="spreads" if since == "0.14" else "ignored"
    )  # fmt: skip
    return Preset(
        trainer="trl", since=since, until=until, options=tuple(options.items()),
        ignored=("scale_rewards",) if convention is GDPO else (), method=method, convention=kept,
        note=NONE_ROWS[since], evidence="run",
        source=Source(repository="trl", file=FILE, function=METHOD, version=version),
    )  # fmt: skip


def _rloo(since: str, until: str | None, version: str, convention: Convention, normalized: bool) -> Preset:
    kept = convention if since == "1.6" else replace(convention, single="zero", failed="as_zero")
    return Preset(
        trainer="trl", since=since, until=until, method="rloo", convention=kept, evidence="run",
        options=(("trainer_class", "RLOOTrainer"), ("normalize_advantages", normalized)),
        note="With beta above 0, the penalty is taken off the rewards first; reward_clip_range clips them before.",
        source=Source(
            repository="trl", file="trl/trainer/rloo_trainer.py",
            function="RLOOTrainer._generate_and_score_completions", version=version,
        ),
    )  # fmt: skip


SUM = "sum_then_normalize"
OF = {"trainer_class": "GRPOTrainer"}
TRL: tuple[Preset, ...] = (
    *(
        preset
        for since, until, version in (("1.6", None, "1.16.0"), ("0.27", "1.6", "1.5.0"))
        for preset in (
            _grpo(since, until, version, "grpo", GROUP, **OF, scale_rewards="group", multi_objective_aggregation=SUM),
            _grpo(
                since, until, version, "grpo_batch", BATCH, **OF, scale_rewards="batch", multi_objective_aggregation=SUM
            ),
            _grpo(
                since, until, version, "dr_grpo", CENTRED, **OF, scale_rewards="none", multi_objective_aggregation=SUM
            ),
            _grpo(since, until, version, "gdpo", GDPO, **OF, multi_objective_aggregation="normalize_then_sum"),
        )
    ),
    _grpo("0.22.2", "0.27", "0.22.2", "grpo", GROUP, **OF, scale_rewards="group"),
    _grpo("0.22.2", "0.27", "0.22.2", "grpo_batch", BATCH, **OF, scale_rewards="batch"),
    _grpo("0.22.2", "0.27", "0.22.2", "dr_grpo", CENTRED, **OF, scale_rewards="none"),
    _grpo("0.22", "0.22.2", "0.22.1", "dr_grpo", CENTRED, **OF, scale_rewards="group"),
    _grpo("0.22", "0.22.2", "0.22.1", "grpo", GROUP, **OF, scale_rewards="batch"),
    _grpo("0.22", "0.22.2", "0.22.1", "grpo", GROUP, **OF, scale_rewards="none"),
    _grpo("0.16", "0.22", "0.16.1", "grpo", GROUP, **OF, scale_rewards="group"),
    _grpo("0.16", "0.22", "0.16.1", "dr_grpo", CENTRED, **OF, scale_rewards="none"),
    _grpo("0.14", "0.16", "0.14.0", "grpo", GROUP, **OF),
    _rloo("1.6", None, "1.16.0", RLOO, False),
    _rloo("1.6", None, "1.16.0", RLOO_NORMALIZED, True),
    _rloo("0.22", "1.6", "1.5.0", RLOO, False),
    _rloo("0.22", "1.6", "1.5.0", RLOO_NORMALIZED, True),
)


def _swift(estimator: str, scale: str, method: str, convention: Convention) -> Preset:
    return Preset(
        trainer="ms-swift", since="4.6", method=method, evidence="run",
        options=(("advantage_estimator", estimator), ("scale_rewards", scale)),
        convention=replace(convention, name=f"ms-swift/{estimator}/{scale}", failed="as_zero"),
        filters="dynamic_sample draws groups of std 0 again",
        note="A rollout that no function could score counts as reward 0.",
        source=Source(
            repository="ms-swift", file="swift/rl_core/advantage.py", function="compute_advantages", version="4.6.0"
        ),
    )  # fmt: skip


TINY = Scaling(ddof=1, eps=1e-8)
MS_SWIFT: tuple[Preset, ...] = (
    _swift("grpo", "group", "grpo", GROUP),
    _swift("grpo", "batch", "grpo_batch", BATCH),
    _swift("grpo", "none", "dr_grpo", CENTRED),
    _swift("grpo", "gdpo", "gdpo", replace(GDPO, scaling=TINY, whitening=TINY)),
    _swift("rloo", "none", "rloo", RLOO),
    _swift("rloo", "group", "rloo", replace(RLOO, scale="group", scaling=STD)),
    _swift("rloo", "batch", "rloo", replace(RLOO, scale="batch", scaling=STD)),
    _swift(
        "reinforce_plus_plus", "batch", "reinforce_plus_plus_baseline",
        replace(CENTRED, whiten="rollouts", whiten_centre=False, whitening=STD),
    ),
    _swift("reinforce_plus_plus", "group", "grpo", GROUP),
    _swift("reinforce_plus_plus", "none", "dr_grpo", CENTRED),
)  # fmt: skip
