"""NeMo-RL, prime-rl, SkyRL, slime, ROLL, tinker-cookbook, open-instruct, EasyR1 and torchforge."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.preset import Option, Preset, Source

STD = Scaling(ddof=1, eps=1e-6)
KEPT = Scaling(ddof=1, eps=1e-6, not_positive="keep")
VARIANCE = Scaling(ddof=1, eps=1e-8, eps_place="variance")
FLOOR = Scaling(ddof=0, eps=1e-8, eps_place="floor_variance")
WHITE = {"whiten": "tokens", "whitening": VARIANCE}
Evidence = Literal["run", "excerpt", "read"]
RAISES = "None is an error; NaN spreads over the group."


class _Table:
    """Presets of one trainer, which share a source."""

    def __init__(
        self, trainer: str, since: str, source: Source, evidence: Evidence = "read", filters: str = ""
    ) -> None:
        self.trainer, self.since, self.source, self.evidence, self.filters = trainer, since, source, evidence, filters
        self.rows: list[Preset] = []

    def row(
        self, method: str, convention: Convention, note: str = "", function: str = "", *, run: bool = True,
        **options: Option,
    ) -> None:  # fmt: skip
        self.rows.append(
            Preset(
                trainer=self.trainer, since=self.since, options=tuple(options.items()), method=method,
                convention=replace(convention, name="/".join([self.trainer, *map(str, options.values())])),
                filters=self.filters, note=note, evidence=self.evidence if run else "read",
                source=replace(self.source, function=function or self.source.function),
            )
        )  # fmt: skip


def _plain(**fields: object) -> Convention:
    return Convention(name="plain", **fields)  # type: ignore[arg-type]


NEMO = _Table(
    "nemo-rl", "0.6", Source(
        repository="NVIDIA-NeMo/RL", file="nemo_rl/algorithms/advantage_estimator.py",
        function="GRPOAdvantageEstimator.compute_advantage", version="0.6 (commit 00925dd)",
    ), "excerpt", "use_dynamic_sampling drops groups of std 0",
)  # fmt: skip
UNDIVIDED = "Where the others are all equal, as for the one pass of a group, the advantage is undivided."
NEMO.row(
    "grpo", _plain(baseline="leave_one_out", scale="leave_one_out", scaling=KEPT), UNDIVIDED,
    adv_estimator="grpo", normalize_rewards=True, use_leave_one_out_baseline=True,
)  # fmt: skip
NEMO.row(
    "grpo", _plain(scale="group", scaling=KEPT),
    adv_estimator="grpo", normalize_rewards=True, use_leave_one_out_baseline=False,
)  # fmt: skip
NEMO.row(
    "rloo", _plain(baseline="leave_one_out"),
    adv_estimator="grpo", normalize_rewards=False, use_leave_one_out_baseline=True,
)  # fmt: skip
NEMO.row("dr_grpo", _plain(), adv_estimator="grpo", normalize_rewards=False, use_leave_one_out_baseline=False)
ALL_ROLLOUTS = {
    "whiten": "rollouts",
    "whitening": Scaling(ddof=1, eps=0.0, eps_place="none", not_positive="keep"),
}
for _loo in (True, False):
    NEMO.row(
        "gdpo", _plain(
            combine="normalize_then_sum", baseline="leave_one_out" if _loo else "group_mean",
            scale="leave_one_out" if _loo else "group", scaling=KEPT, **ALL_ROLLOUTS,
        ), "reward_weights weigh the functions, in the order of their names.",
        "GDPOAdvantageEstimator.compute_advantage",
        adv_estimator="gdpo", normalize_rewards=True, use_leave_one_out_baseline=_loo,
    )  # fmt: skip
for _baseline in (True, False):
    NEMO.row(
        "reinforce_plus_plus_baseline" if _baseline else "reinforce_plus_plus",
        _plain(baseline="group_mean" if _baseline else "none", whiten="tokens", whitening=FLOOR),
        "Without use_kl_in_reward.", "ReinforcePlusPlusAdvantageEstimator.compute_advantage",
        adv_estimator="reinforce_plus_plus", minus_baseline=_baseline,
    )  # fmt: skip

PRIME = _Table(
    "prime-rl", "0.8", Source(
        repository="PrimeIntellect-ai/prime-rl", file="src/prime_rl/orchestrator/algo/advantage.py",
        function="default_advantage_fn", version="commit 039b400",
    ), "excerpt", "filter_zero_advantages (on by default) drops groups whose advantages are all 0",
)  # fmt: skip
ERRORED = "Without length_penalty; rollouts with an error are taken out of their group first."
PRIME.row("dr_grpo", _plain(failed="left_out"), ERRORED, algorithm="grpo")
PRIME.row(
    "maxrl", _plain(
        scale="group_mean", scaling=Scaling(ddof=0, eps=0.0, eps_place="none", not_positive="zero"), failed="left_out"
    ), f"{ERRORED} A group with mean reward of at most 0 has advantage 0.", "max_rl_advantage_fn",
    algorithm="max_rl",
)  # fmt: skip
PRIME.row(
    "reinforce", _plain(baseline="none", failed="left_out"), ERRORED, "RewardAlgorithm.score_rollout", run=False,
    algorithm="reward",
)  # fmt: skip

SKYRL = _Table(
    "skyrl", "0.4", Source(
        repository="NovaSky-AI/SkyRL", file="skyrl/backends/skyrl_train/utils/ppo_utils.py",
        function="compute_grpo_outcome_advantage", version="0.4 (commit 03d74ca)",
    ), "excerpt", "zero_variance_filter (off by default) masks groups whose rewards lie within 1e-6",
)  # fmt: skip
SKYRL.row(
    "grpo", _plain(scale="group", scaling=STD, single="reward"),
    advantage_estimator="grpo", grpo_norm_by_std=True, advantage_batch_normalize=False,
)  # fmt: skip
SKYRL.row(
    "dr_grpo", _plain(single="reward"),
    advantage_estimator="grpo", grpo_norm_by_std=False, advantage_batch_normalize=False,
)  # fmt: skip
SKYRL.row(
    "rloo", _plain(baseline="leave_one_out"), function="compute_rloo_outcome_advantage",
    advantage_estimator="rloo", advantage_batch_normalize=False,
)  # fmt: skip
SKYRL.row(
    "maxrl", _plain(scale="group_mean", scaling=Scaling(ddof=0, eps=1e-6), single="reward"),
    "No guard for a mean of 0 or below.", "compute_maxrl_advantage",
    advantage_estimator="maxrl", advantage_batch_normalize=False,
)  # fmt: skip
SKYRL.row(
    "reinforce_plus_plus", _plain(baseline="none", **WHITE), "With gamma 1.",
    "compute_reinforce_plus_plus_outcome_advantage", run=False,
    advantage_estimator="reinforce++", advantage_batch_normalize=False,
)  # fmt: skip
SKYRL.row(
    "grpo", _plain(scale="group", scaling=STD, single="reward", whiten="tokens", whitening=FLOOR),
    "Some versions count padding as zeros in the mean.", "normalize_advantages_dict", run=False,
    advantage_estimator="grpo", grpo_norm_by_std=True, advantage_batch_normalize=True,
)  # fmt: skip

SLIME = _Table(
    "slime", "0.3", Source(
        repository="THUDM/slime", file="slime/ray/rollout.py", function="RolloutManager._post_process_rewards",
        version="0.3 (public main)",
    ), "read", "the filter check_reward_nonzero_std, if given, drops groups with a sample std of at most 1e-6",
)  # fmt: skip
SLIME.row(
    "grpo", _plain(scale="group", scaling=STD, single="zero"), f"gspo and cispo do the same. {RAISES}",
    advantage_estimator="grpo", grpo_std_normalization=True, normalize_advantages=False,
)  # fmt: skip
SLIME.row(
    "dr_grpo", _plain(), RAISES,
    advantage_estimator="grpo", grpo_std_normalization=False, normalize_advantages=False,
)  # fmt: skip
SLIME.row(
    "reinforce_plus_plus_baseline", _plain(**WHITE), RAISES,
    advantage_estimator="reinforce_plus_plus_baseline", normalize_advantages=True,
)  # fmt: skip
SLIME.row(
    "dr_grpo", _plain(), RAISES,
    advantage_estimator="reinforce_plus_plus_baseline", normalize_advantages=False,
)  # fmt: skip
SLIME.row(
    "reinforce_plus_plus", _plain(baseline="none", **WHITE), f"With gamma 1 and no KL penalty. {RAISES}",
    advantage_estimator="reinforce_plus_plus", normalize_advantages=True,
)  # fmt: skip

ROLL = _Table(
    "roll", "", Source(
        repository="alibaba/ROLL", file="roll/utils/functionals.py", function="reward_norm, compute_advantage",
        version="commit 090ac94",
    ), "excerpt", "difficulty_mask and query_filter_config drop by mean or std",
)  # fmt: skip
CLIPS = "Without reward_clip and advantage_clip."
ROLL.row(
    "grpo", _plain(scale="group", scaling=STD, single="nan"), CLIPS,
    adv_estimator="grpo", whiten_advantages=False,
)  # fmt: skip
ROLL.row(
    "grpo", _plain(scale="group", scaling=STD, single="nan", **WHITE), CLIPS, run=False,
    adv_estimator="grpo", whiten_advantages=True,
)  # fmt: skip
ROLL.row(
    "reinforce", _plain(baseline="none"), CLIPS,
    adv_estimator="reinforce", norm_mean_type="none", norm_std_type="none", whiten_advantages=False,
)  # fmt: skip
ROLL.row(
    "reinforce", _plain(baseline="batch_mean", scale="batch", scaling=STD), CLIPS,
    adv_estimator="reinforce", norm_mean_type="batch", norm_std_type="batch", whiten_advantages=False,
)  # fmt: skip
ROLL.row(
    "dr_grpo", _plain(), CLIPS,
    adv_estimator="reinforce", norm_mean_type="group", norm_std_type="none", whiten_advantages=False,
)  # fmt: skip
ROLL.row(
    "grpo_batch", _plain(scale="batch", scaling=STD), CLIPS,
    adv_estimator="reinforce", norm_mean_type="group", norm_std_type="batch", whiten_advantages=False,
)  # fmt: skip
ROLL.row(
    "reinforce_plus_plus", _plain(baseline="none", **WHITE), CLIPS, run=False,
    adv_estimator="reinforce", norm_mean_type="none", norm_std_type="none", whiten_advantages=True,
)  # fmt: skip

TINKER = _Table(
    "tinker", "0.1", Source(
        repository="tinker-cookbook", file="tinker_cookbook/rl/data_processing.py", function="compute_advantages",
        version="0.6.1",
    ), "run", "remove_constant_reward_groups (off by default) drops groups of equal rewards",
)  # fmt: skip
TINKER.row("dr_grpo", _plain())

OPEN_INSTRUCT = _Table(
    "open-instruct", "", Source(
        repository="allenai/open-instruct", file="open_instruct/data_loader.py",
        function="DataPreparationActor._data_preparation_loop", version="commit 006e470",
    ), "read", "filter_zero_std_samples (on by default) drops groups with a population std of exactly 0",
)  # fmt: skip
OPEN_INSTRUCT.row("dr_grpo", _plain(), advantage_normalization_type="centered")
OPEN_INSTRUCT.row(
    "grpo", _plain(scale="group", scaling=Scaling(ddof=0, eps=1e-8)), advantage_normalization_type="standard"
)

EASYR1 = _Table(
    "easyr1", "", Source(
        repository="hiyouga/EasyR1", file="verl/trainer/core_algos.py", function="compute_grpo_outcome_advantage",
        version="commit 2a319e3",
    ), "excerpt", "online_filtering drops groups with a mean outside (0.01, 0.99)",
)  # fmt: skip
EASYR1.row("grpo", _plain(scale="group", scaling=STD, single="refused"), adv_estimator="grpo")
EASYR1.row(
    "rloo", _plain(baseline="leave_one_out", single="refused"), function="compute_rloo_outcome_advantage",
    adv_estimator="rloo",
)  # fmt: skip
EASYR1.row(
    "passk", _plain(baseline="top_two_keep", scale="group", scaling=STD, single="refused"),
    "The others keep their raw reward as advantage. Among equal best ones, torch.topk chooses.",
    "compute_grpo_passk_outcome_advantage",
    adv_estimator="grpo_passk",
)  # fmt: skip
EASYR1.row(
    "reinforce_plus_plus", _plain(baseline="none", **WHITE), "With gamma 1.",
    "compute_reinforce_plus_plus_outcome_advantage", run=False, adv_estimator="reinforce_plus_plus",
)  # fmt: skip

TORCHFORGE = _Table(
    "torchforge", "", Source(
        repository="meta-pytorch/torchforge", file="apps/grpo/main.py", function="ComputeAdvantages.compute",
        version="commit 0019c33",
    ), "excerpt",
)  # fmt: skip
TORCHFORGE.row(
    "grpo", _plain(scale="group", scaling=Scaling(ddof=1, eps=1e-4), single="nan"),
    "Several reward functions are averaged: give each the weight 1 / R.",
)  # fmt: skip

OTHERS: tuple[Preset, ...] = tuple(
    row for table in (NEMO, PRIME, SKYRL, SLIME, ROLL, TINKER, OPEN_INSTRUCT, EASYR1, TORCHFORGE) for row in table.rows
)
