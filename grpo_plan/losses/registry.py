"""The aggregations that trainers have, read in their source; those marked ``run`` are compared with it in tests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from grpo_plan.losses.aggregations import Aggregation, Over, Per, Reduction

TOKEN: dict[str, Any] = {"per": Per.TOKEN, "over": Over.TOKENS}
RESPONSE: dict[str, Any] = {"per": Per.RESPONSE, "over": Over.RESPONSES}
SUMS: dict[str, Any] = {"per": Per.TOKEN, "over": Over.RESPONSES}

TRL: dict[str, Any] = {
    "trainer": "trl", "setting": "loss_type", "version": "1.16.0", "evidence": "run",
    "source": "trl/trainer/grpo_trainer.py, GRPOTrainer._compute_loss",
}  # fmt: skip
WINDOW = (
    "The count is of the generation batch, times gradient_accumulation_steps / steps_per_generation. Where these two "
    "differ, a step with more tokens than the mean of its generation batch gets a total above 1."
)
CAP = (
    "The ratio itself is cut at epsilon_high: at its default of 0.2 every weight is 0.2 times what it "
    "should be. TRL recommends 5."
)
COUNTED = "A response without a loss token counts in N."
SEQUENCE_RATIO = "At ratio 1 importance_sampling_level makes no difference to the gradient."
TRL_ROWS: tuple[Aggregation, ...] = (
    Aggregation(option="dapo", **TOKEN, note=f"The default. {WINDOW}", **TRL),
    Aggregation(option="cispo", **TOKEN, note=f"{CAP} {WINDOW}", **TRL),
    Aggregation(option="vespo", **TOKEN, note=WINDOW, **TRL),
    Aggregation(option="grpo", **RESPONSE, reduction=Reduction.MEAN, note=COUNTED, **TRL),
    Aggregation(option="sapo", **RESPONSE, reduction=Reduction.MEAN, note=COUNTED, **TRL),
    Aggregation(
        option="bnpo", **TOKEN, reduction=Reduction.MEAN, note="With one response a micro-batch it is grpo.", **TRL
    ),
    Aggregation(option="dr_grpo", **SUMS, reduction=Reduction.MEAN, constant="max_completion_length", **TRL),
    Aggregation(option="luspo", **SUMS, reduction=Reduction.MEAN, note=SEQUENCE_RATIO, **TRL),
)

VERL: dict[str, Any] = {
    "trainer": "verl", "setting": "loss_agg_mode", "version": "0.9.1", "none_is_zero": False, "evidence": "run",
    "source": "verl/trainer/ppo/core_algos.py, agg_loss, called with the totals of verl/workers/utils/losses.py",
}  # fmt: skip
MINI_BATCH = "N is the mini-batch of the setting, responses without a loss token included."
VERL_ROWS = (
    Aggregation(option="token-mean", **TOKEN, note="The default.", **VERL),
    Aggregation(option="token-sum", per=Per.TOKEN, over=Over.ONE, **{**VERL, "none_is_zero": True}),
    Aggregation(option="seq-mean-token-sum", **SUMS, note=MINI_BATCH, **VERL),
    Aggregation(option="seq-mean-token-mean", **RESPONSE, note=MINI_BATCH, **VERL),
    Aggregation(
        option="seq-mean-token-sum-norm", **SUMS, constant="loss_scale_factor", constant_is_width=True,
        note=f"{MINI_BATCH} Without loss_scale_factor the constant is the padded width.", **VERL,
    ),
)  # fmt: skip
OLD_VERL: dict[str, Any] = {
    "trainer": "verl-legacy", "setting": "loss_agg_mode", "version": "0.4.1 to 0.7.0", "none_is_zero": False,
    "evidence": "run",
    "source": "verl/workers/actor/dp_actor.py, update_policy, and core_algos.py, agg_loss without global information",
}  # fmt: skip
OLD_VERL_ROWS = (
    Aggregation(option="token-mean", **TOKEN, reduction=Reduction.BY_RESPONSES, **OLD_VERL),
    Aggregation(
        option="seq-mean-token-sum", per=Per.TOKEN, over=Over.FILLED, reduction=Reduction.BY_RESPONSES, **OLD_VERL
    ),
    Aggregation(
        option="seq-mean-token-mean", per=Per.RESPONSE, over=Over.FILLED, reduction=Reduction.BY_RESPONSES, **OLD_VERL
    ),
    Aggregation(
        option="seq-mean-token-sum-norm", per=Per.TOKEN, over=Over.ONE, reduction=Reduction.BY_RESPONSES,
        constant="response width", constant_is_width=True,
        note="Not divided by the responses of the micro-batch: the total grows with its size. 0.6.1 and before.",
        **OLD_VERL,
    ),
)  # fmt: skip

OPENRLHF: dict[str, Any] = {
    "trainer": "openrlhf", "setting": "actor.loss_agg_mode", "version": "0.11.2", "none_is_zero": False,
    "evidence": "run",
    "source": "openrlhf/models/loss.py, aggregate_loss, with openrlhf/utils/loss_utils.py",
}  # fmt: skip
OPENRLHF_ROWS = (
    Aggregation(option="token-mean", **TOKEN, note="The default.", **OPENRLHF),
    Aggregation(option="seq-mean-token-mean", per=Per.RESPONSE, over=Over.FILLED, **OPENRLHF),
)

NEMO: dict[str, Any] = {
    "trainer": "nemo-rl", "setting": "loss_fn.token_level_loss", "version": "main, 2025",
    "source": "nemo_rl/algorithms/loss/loss_functions.py, ClippedPGLossFn",
}  # fmt: skip
NEMO_ROWS = (
    Aggregation(option="token_level_loss=true", **TOKEN, note="The default.", **NEMO),
    Aggregation(
        option="token_level_loss=false", **RESPONSE,
        note="N counts the responses whose sample_mask is set, also those without a loss token.", **NEMO,
    ),
)  # fmt: skip

SKYRL: dict[str, Any] = {
    "trainer": "skyrl", "setting": "trainer.algorithm.loss_reduction", "version": "0.3.0",
    "evidence": "run",
    "source": "skyrl/backends/skyrl_train/utils/ppo_utils.py, apply_loss_reduction_to_advantages_minibatch",
}  # fmt: skip
SKYRL_ROWS = (
    Aggregation(option="token_mean", **TOKEN, note="The default.", **SKYRL),
    Aggregation(option="token_mean_legacy", **TOKEN, reduction=Reduction.MEAN, **SKYRL),
    Aggregation(option="sequence_mean", **RESPONSE, **SKYRL),
    Aggregation(option="seq_mean_token_sum_norm", **SUMS, constant="max_seq_len", **SKYRL),
    Aggregation(option="prompt_mean", per=Per.PROMPT, over=Over.PROMPTS, **SKYRL),
)

OPEN_INSTRUCT: dict[str, Any] = {
    "trainer": "open-instruct", "setting": "loss_denominator", "version": "main, 2026",
    "source": "open_instruct/grpo_fast.py, with masked_mean of open_instruct/rl_utils.py",
}  # fmt: skip
OPEN_INSTRUCT_ROWS = (
    Aggregation(option="token", **TOKEN, note="The default.", **OPEN_INSTRUCT),
    Aggregation(option="number", per=Per.TOKEN, over=Over.ONE, constant="loss_denominator", **OPEN_INSTRUCT),
)

SLIME: dict[str, Any] = {
    "trainer": "slime", "setting": "calculate_per_token_loss", "version": "main, 2025",
    "source": "slime/backends/megatron_utils/cp_utils.py, get_sum_of_sample_mean",
}  # fmt: skip
EASYR1: dict[str, Any] = {
    "trainer": "easyr1", "setting": "loss_avg_mode", "version": "main, 2025",
    "source": "verl/workers/actor/dp_actor.py of EasyR1, update_policy, and verl/trainer/core_algos.py, average_loss",
}  # fmt: skip
OTHER_ROWS = (
    Aggregation(option="calculate_per_token_loss=false", **RESPONSE, note="The default.", **SLIME),
    Aggregation(option="calculate_per_token_loss=true", **TOKEN, **SLIME),
    Aggregation(option="token", **TOKEN, note="The default.", **EASYR1),
    Aggregation(
        option="seq", **RESPONSE, reduction=Reduction.BY_TOKENS,
        note="A micro-batch counts by its tokens, its responses alike: not the mean over responses.", **EASYR1,
    ),
    Aggregation(
        trainer="prime-rl", option="token", setting="(none)", **TOKEN, version="main, 2026",
        source="src/prime_rl/trainer/rl/train.py, the loss scales of a step",
    ),
    Aggregation(
        trainer="tinker", option="sum", setting="loss_fn", per=Per.TOKEN, over=Over.ONE, version="0.6.1",
        source="tinker_cookbook/rl/data_processing.py; SkyRL 0.3.0 restates the sum of the service's losses",
        note="The losses of the service are sums: the size of a step grows with its tokens.",
    ),
)  # fmt: skip

ROWS = (
    *TRL_ROWS, *VERL_ROWS, *OPENRLHF_ROWS, *NEMO_ROWS, *SKYRL_ROWS, *OPEN_INSTRUCT_ROWS, *OTHER_ROWS, *OLD_VERL_ROWS,
)  # fmt: skip
AGGREGATIONS: Mapping[str, Aggregation] = MappingProxyType({a.name: a for a in ROWS})
