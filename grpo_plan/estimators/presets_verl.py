"""verl and OpenRLHF."""

from __future__ import annotations

from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.preset import Option, Preset, Source

STD = Scaling(ddof=1, eps=1e-6)
OVER_TOKENS = Scaling(ddof=1, eps=1e-8, eps_place="variance")
FILTERED = "algorithm.filter_groups (off by default) drops groups whose metric has a population std of exactly 0"


def _verl(since: str, method: str, function: str, convention: Convention, note: str = "", **options: Option) -> Preset:
    return Preset(
        trainer="verl", since=since, options=tuple(options.items()), method=method, convention=convention,
        filters=FILTERED, note=note, evidence="run",
        source=Source(
            repository="verl", file="verl/trainer/ppo/core_algos.py", version="0.9.1",
            function=f"compute_{function}_advantage",
        ),
    )  # fmt: skip


ALONE = "A group of one rollout has its reward as advantage."
VERL: tuple[Preset, ...] = (
    _verl(
        "0.2", "grpo", "grpo_outcome",
        Convention(name="verl/grpo", scale="group", scaling=STD, single="reward"), ALONE,
        adv_estimator="grpo", norm_adv_by_std_in_grpo=True,
    ),
    _verl(
        "0.4", "dr_grpo", "grpo_outcome", Convention(name="verl/grpo-centred", single="reward"), ALONE,
        adv_estimator="grpo", norm_adv_by_std_in_grpo=False,
    ),
    _verl(
        "0.8", "grpo", "grpo_vectorized_outcome",
        Convention(name="verl/grpo_vectorized", scale="group", scaling=STD, single="reward"),
        f"{ALONE} Always divides by the std: norm_adv_by_std_in_grpo does not reach it.",
        adv_estimator="grpo_vectorized",
    ),
    _verl("0.3", "rloo", "rloo_outcome", Convention(name="verl/rloo", baseline="leave_one_out", single="reward"), ALONE,
          adv_estimator="rloo"),
    _verl("0.7", "rloo", "rloo_vectorized_outcome", Convention(name="verl/rloo_vectorized", baseline="leave_one_out"),
          adv_estimator="rloo_vectorized"),
    _verl(
        "0.2", "reinforce_plus_plus", "reinforce_plus_plus_outcome",
        Convention(name="verl/reinforce_plus_plus", baseline="none", whiten="tokens", whitening=OVER_TOKENS),
        "With gamma 1 and the reward on the last token.",
        adv_estimator="reinforce_plus_plus",
    ),
    _verl(
        "0.4", "reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline_outcome",
        Convention(name="verl/reinforce_plus_plus_baseline", whiten="tokens", whitening=OVER_TOKENS, single="reward"),
        adv_estimator="reinforce_plus_plus_baseline",
    ),
    _verl("0.4", "opo", "opo_outcome", Convention(name="verl/opo", baseline="length_weighted_mean", single="reward"),
          ALONE, adv_estimator="opo"),
    _verl("0.5", "gpg", "gpg_outcome", Convention(name="verl/gpg", scale="nonzero_share", single="reward"), ALONE,
          adv_estimator="gpg"),
    _verl(
        "0.4", "passk", "grpo_passk_outcome",
        Convention(name="verl/grpo_passk", baseline="top_two", scale="group", scaling=STD, single="refused"),
        adv_estimator="grpo_passk", norm_adv_by_std_in_grpo=True,
    ),
    _verl(
        "0.4", "passk", "grpo_passk_outcome",
        Convention(name="verl/grpo_passk-unscaled", baseline="top_two", single="refused"),
        adv_estimator="grpo_passk", norm_adv_by_std_in_grpo=False,
    ),
    _verl(
        "0.8", "gdpo", "gdpo_outcome",
        Convention(
            name="verl/gdpo", combine="normalize_then_sum", scale="group", scaling=STD, single="reward",
            whiten="tokens", whitening=OVER_TOKENS,
        ),
        "gdpo_reward_weights weigh the functions.",
        adv_estimator="gdpo",
    ),
)  # fmt: skip

FLOOR = Scaling(ddof=0, eps=1e-8, eps_place="floor_variance")
CLIP = (-10.0, 10.0)


def _openrlhf(since: str, method: str, convention: Convention, note: str = "", **options: Option) -> Preset:
    return Preset(
        trainer="openrlhf", since=since, options=tuple(options.items()), method=method, convention=convention,
        filters="dynamic_filtering_enable (off by default) keeps groups whose mean score lies inside its range, 0 to 1",
        note=note, evidence="run",
        source=Source(
            repository="openrlhf", file="openrlhf/trainer/ppo_utils/experience_maker.py", version="0.11.2",
            function="RemoteExperienceMaker.compute_advantages_and_returns",
        ),
    )  # fmt: skip


MANY = "n_samples_per_prompt must be above 1."
OPENRLHF: tuple[Preset, ...] = (
    _openrlhf(
        "0.8", "grpo",
        Convention(name="openrlhf/group_norm", scale="group", scaling=Scaling(ddof=1, eps=1e-9), clip=CLIP,
                   single="refused"),
        MANY, advantage_estimator="group_norm",
    ),
    _openrlhf("0.8", "dr_grpo", Convention(name="openrlhf/dr_grpo", clip=CLIP, single="refused"), MANY,
              advantage_estimator="dr_grpo"),
    _openrlhf("0.8", "rloo", Convention(name="openrlhf/rloo", baseline="leave_one_out", clip=CLIP, single="refused"),
              MANY, advantage_estimator="rloo"),
    _openrlhf(
        "0.8", "reinforce_plus_plus_baseline",
        Convention(name="openrlhf/reinforce_baseline", clip=CLIP, whiten="tokens", whitening=FLOOR, single="refused"),
        MANY, advantage_estimator="reinforce_baseline", no_std_norm=False,
    ),
    _openrlhf(
        "0.8", "reinforce_plus_plus_baseline",
        Convention(name="openrlhf/reinforce_baseline-centred", clip=CLIP, whiten="tokens", single="refused"),
        MANY, advantage_estimator="reinforce_baseline", no_std_norm=True,
    ),
    _openrlhf(
        "0.8", "reinforce_plus_plus",
        Convention(name="openrlhf/reinforce", baseline="none", clip=CLIP, whiten="tokens", whitening=FLOOR),
        "With gamma 1.", advantage_estimator="reinforce", no_std_norm=False,
    ),
    _openrlhf(
        "0.8", "reinforce_plus_plus",
        Convention(name="openrlhf/reinforce-centred", baseline="none", clip=CLIP, whiten="tokens"),
        "With gamma 1.", advantage_estimator="reinforce", no_std_norm=True,
    ),
    _openrlhf("0.11", "reinforce", Convention(name="openrlhf/flash_reinforce", baseline="batch_mean", clip=CLIP),
              "Written for one rollout a prompt.", advantage_estimator="flash_reinforce"),
)  # fmt: skip
