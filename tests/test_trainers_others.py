"""Blocks of the trainers outside the TRL family: read back in their language, typed, and held to the trainers' rules."""

from __future__ import annotations

import importlib
import re
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan.costs import Design
from grpo_plan.errors import DomainError
from grpo_plan.trainers import _text as text
from grpo_plan.trainers._batches import ESTIMATORS
from grpo_plan.trainers.base import Block, Hardware, Recipe, Refilling, Trainer
from tests.trainer_schemas import ADMITS, SCHEMAS, UNITS, assert_fits, read_back

MODULES = ("verl", "openrlhf", "nemo_rl", "prime_rl", "skyrl", "slime", "roll", "tinker", "open_instruct", "easyr1")
TRAINERS: dict[str, Trainer] = {
    module.replace("_", "-"): importlib.import_module(f"grpo_plan.trainers.{module}").TRAINER for module in MODULES
}
# every trainer at its newest version, and the older keys where a trainer has some
CASES = [(name, None) for name in TRAINERS] + [("verl", "0.8"), ("verl", "0.9.0"), ("openrlhf", "0.10.1.post2")]
CASES += [("openrlhf", "0.8.11"), ("prime-rl", "0.5")]
ROOMY = Refilling(batch_multiplier=1.5, max_rounds=4)


def design(prompts: int = 6, group_size: int = 4, steps: int | None = 50) -> Design:
    return Design(group_size=group_size, prompts_per_step=prompts, steps=steps)


def full_recipe(**changes: Any) -> Recipe:
    values: dict[str, Any] = {"design": design(), "temperature": 0.9, "max_response_tokens": 4096, "refill": ROOMY}
    return Recipe(**(values | changes))


def block_of(name: str, recipe: Recipe, hardware: Hardware | None = None, version: str | None = None) -> Block:
    return TRAINERS[name].block(recipe, hardware or Hardware(), version)


@pytest.mark.parametrize("refill", [None, Refilling(), ROOMY])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("name", "version"), CASES)
def test_the_text_says_what_the_settings_say(
    name: str, version: str | None, estimator: str, refill: Refilling | None
) -> None:
    schema = SCHEMAS[name, version]
    block = block_of(name, full_recipe(estimator=estimator, refill=refill), version=version)
    assert read_back(block, schema) == block.settings
    assert_fits(read_back(block, schema), schema)
    assert block.trainer == TRAINERS[name].name == name
    assert block.text.startswith(f"# {block.versions}\n# 6 prompts x 4 rollouts = 24 rollouts a step, 50 steps\n# ")
    assert max(len(line) for line in block.text.splitlines()) <= 120
    assert all(note == note.strip() and "\n" not in note and note.endswith(".") for note in block.notes)
    assert not any("None" in note or "nan" in note.lower().split() for note in block.notes)


def test_every_key_of_the_schemas_is_written_by_some_block() -> None:
    for (name, version), schema in SCHEMAS.items():
        written: set[str] = set()
        for estimator in ESTIMATORS:
            for refill in (None, ROOMY):
                recipe = full_recipe(estimator=estimator, refill=refill, design=design(group_size=2048))
                written |= set(block_of(name, recipe, version=version).settings)
        assert written == set(schema), (name, version)


HARDWARE = st.builds(
    Hardware, gpus=st.integers(1, 64), micro_batch=st.one_of(st.none(), st.integers(1, 32), st.sampled_from([1, 2, 4]))
)
RECIPES = st.builds(
    Recipe,
    design=st.builds(
        Design, group_size=st.integers(1, 64), prompts_per_step=st.integers(1, 4096), steps=st.none() | st.just(7)
    ),
    estimator=st.sampled_from(ESTIMATORS),
    temperature=st.none() | st.floats(1e-3, 2.0),
    max_response_tokens=st.none() | st.integers(1, 65536),
    refill=st.none()
    | st.builds(Refilling, batch_multiplier=st.floats(1.0, 8.0), max_rounds=st.none() | st.integers(1, 50)),
)


def admitted(name: str, recipe: Recipe, hardware: Hardware) -> tuple[bool, bool]:
    """What the checks say, and what the trainer's own rules make of the block."""
    block = block_of(name, recipe, hardware)
    assert read_back(block, SCHEMAS[name, None]) == block.settings
    assert_fits(dict(block.settings), SCHEMAS[name, None])
    assert block.checks == TRAINERS[name].rules(hardware, None).checks(recipe.design)
    return all(check.satisfied for check in block.checks), ADMITS[name](dict(block.settings), hardware.gpus)


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=60)
@given(recipe=RECIPES, hardware=HARDWARE)
def test_the_checks_agree_with_the_trainers_own_rules(name: str, recipe: Recipe, hardware: Hardware) -> None:
    said, is_so = admitted(name, recipe, hardware)
    assert said == is_so


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=60)
@given(recipe=RECIPES, hardware=HARDWARE, times=st.integers(1, 5))
def test_multiples_are_accepted_and_nothing_less(name: str, recipe: Recipe, hardware: Hardware, times: int) -> None:
    group_size = recipe.design.group_size
    multiple = TRAINERS[name].rules(hardware, None).prompt_multiple(group_size)
    if group_size < 2:
        assert multiple is None
        return
    assert multiple is not None

    def resized(prompts: int) -> tuple[bool, bool]:
        changed = Design(group_size=group_size, prompts_per_step=prompts, steps=recipe.design.steps)
        values = {f: getattr(recipe, f) for f in ("estimator", "temperature", "max_response_tokens", "refill")}
        return admitted(name, Recipe(design=changed, **values), hardware)

    assert resized(multiple * times) == (True, True)
    for prime in (2, 3, 5, 7, 11, 13):
        if multiple % prime == 0:
            assert resized(multiple // prime) == (False, False)
    if multiple > 1:
        assert resized(multiple - 1) == (False, False)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_broken_rule_names_its_numbers(name: str) -> None:
    rules = TRAINERS[name].rules(Hardware(gpus=48, micro_batch=4), None)
    assert rules.name == TRAINERS[name].title
    failed = [check for check in rules.checks(design(prompts=5, group_size=1)) if not check.satisfied]
    assert failed[0].detail == "1 rollouts per prompt"
    assert rules.prompt_multiple(1) is None
    if name not in ("prime-rl", "tinker"):
        assert len(failed) >= 2
        assert all(re.search(r"^5 (rollouts|prompts) a step", check.detail) for check in failed[1:])


@pytest.mark.parametrize(("name", "version"), UNITS)
def test_prompts_and_rollouts_are_not_mixed_up(name: str, version: str | None) -> None:
    block = block_of(name, full_recipe(refill=None), Hardware(gpus=2, micro_batch=2), version)
    assert {key: block.settings[key] for key in UNITS[name, version]} == UNITS[name, version]
    unit = block.text.splitlines()[2]
    assert re.search("prompts|rollouts|groups", unit)
    assert re.search("One optimiser step|one optimiser step", block.notes[0])


# Settings that carry an estimator; None: the trainer does not offer it, and a note has to say so.
OFFERED: dict[str, dict[str, dict[str, Any] | None]] = {
    "verl": {
        "grpo": {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True},
        "dr_grpo": {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False},
        "rloo": {"algorithm.adv_estimator": "rloo"},
        "sign": None,
        "maxrl": None,
        "grpo_batch": {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"},
    },
    "openrlhf": {
        "grpo": {"algo.advantage.estimator": "group_norm"},
        "dr_grpo": {"algo.advantage.estimator": "dr_grpo"},
        "rloo": {"algo.advantage.estimator": "rloo"},
        "sign": None,
        "maxrl": None,
        "grpo_batch": {"algo.advantage.estimator": "reinforce_baseline"},
    },
    "nemo-rl": {
        "grpo": {"grpo.normalize_rewards": True, "grpo.adv_estimator.use_leave_one_out_baseline": False},
        "dr_grpo": {"grpo.normalize_rewards": False, "grpo.use_leave_one_out_baseline": False},
        "rloo": {"grpo.adv_estimator.normalize_rewards": False, "grpo.use_leave_one_out_baseline": True},
        "sign": None,
        "maxrl": None,
        "grpo_batch": {"grpo.adv_estimator.name": "reinforce_plus_plus", "grpo.adv_estimator.minus_baseline": True},
    },
    "prime-rl": {
        "grpo": None,
        "dr_grpo": {"orchestrator.algo.type": "grpo"},
        "rloo": {"orchestrator.algo.type": "grpo"},
        "sign": None,
        "maxrl": {"orchestrator.algo.type": "max_rl"},
        "grpo_batch": None,
    },
    "skyrl": {
        "grpo": {"trainer.algorithm.advantage_estimator": "grpo", "trainer.algorithm.grpo_norm_by_std": True},
        "dr_grpo": {"trainer.algorithm.advantage_estimator": "grpo", "trainer.algorithm.grpo_norm_by_std": False},
        "rloo": {"trainer.algorithm.advantage_estimator": "rloo"},
        "sign": None,
        "maxrl": {"trainer.algorithm.advantage_estimator": "maxrl"},
        "grpo_batch": {
            "trainer.algorithm.grpo_norm_by_std": False,
            "trainer.algorithm.advantage_batch_normalize": True,
        },
    },
    "slime": {
        "grpo": {"advantage-estimator": "grpo"},
        "dr_grpo": {"advantage-estimator": "grpo", "disable-grpo-std-normalization": True},
        "rloo": {"advantage-estimator": "grpo", "disable-grpo-std-normalization": True},
        "sign": None,
        "maxrl": None,
        "grpo_batch": {"advantage-estimator": "reinforce_plus_plus_baseline", "normalize-advantages": True},
    },
    "roll": {
        "grpo": {"adv_estimator": "grpo", "norm_mean_type": "group", "norm_std_type": "group"},
        "dr_grpo": {"adv_estimator": "reinforce", "norm_mean_type": "group", "norm_std_type": None},
        "rloo": {"adv_estimator": "reinforce", "norm_mean_type": "group", "norm_std_type": None},
        "sign": None,
        "maxrl": None,
        "grpo_batch": {"adv_estimator": "reinforce", "norm_mean_type": "group", "norm_std_type": "batch"},
    },
    "tinker": {"grpo": None, "dr_grpo": {}, "rloo": {}, "sign": None, "maxrl": None, "grpo_batch": None},
    "open-instruct": {
        "grpo": {"advantage_normalization_type": "standard"},
        "dr_grpo": {"advantage_normalization_type": "centered"},
        "rloo": {"advantage_normalization_type": "centered"},
        "sign": None,
        "maxrl": None,
        "grpo_batch": None,
    },
    "easyr1": {
        "grpo": {"algorithm.adv_estimator": "grpo"},
        "dr_grpo": {"algorithm.adv_estimator": "rloo"},
        "rloo": {"algorithm.adv_estimator": "rloo"},
        "sign": None,
        "maxrl": None,
        "grpo_batch": None,
    },
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", TRAINERS)
def test_an_estimator_is_set_or_said_to_be_missing(name: str, estimator: str) -> None:
    block = block_of(name, full_recipe(estimator=estimator, refill=None))
    known = {"algorithm.adv_estimator": estimator} if name == "verl" else None  # of verl's own names
    wanted = OFFERED[name].get(estimator, known)
    missing = [note for note in block.notes if f"no estimator '{estimator}'" in note]
    if wanted is None:
        assert len(missing) == 1
        assert "not what was planned" in missing[0]
    else:
        assert not missing
        assert {key: block.settings[key] for key in wanted} == wanted


# 6 prompts, 1.5 prompts generated per prompt wanted (9), at most 4 rounds
REFILLED: dict[tuple[str, str | None], dict[str, Any]] = {
    ("verl", None): {
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "reward",
        "algorithm.filter_groups.max_inflight_gen_batches": 2,
    },
    ("verl", "0.9.0"): {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc"},
    ("verl", "0.8"): {
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "seq_reward",
        "algorithm.filter_groups.max_num_gen_batches": 4,
        "data.gen_batch_size": 9,
    },
    ("openrlhf", None): {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": (0, 1)},
    ("openrlhf", "0.10.1"): {"dynamic_filtering": True, "dynamic_filtering_reward_range": (0, 1)},
    ("nemo-rl", None): {
        "grpo.use_dynamic_sampling": True,
        "grpo.batch_multiplier": 1.5,
        "grpo.dynamic_sampling_max_gen_batches": 4,
    },
    ("prime-rl", None): {
        "orchestrator.train.source.curriculum.gates.mixed_groups.type": "advantage_range",
        "orchestrator.train.source.curriculum.gates.mixed_groups.reject_min": 0.0,
        "orchestrator.train.source.curriculum.gates.mixed_groups.reject_max": 0.0,
    },
    ("prime-rl", "0.4"): {
        "orchestrator.buffer.online_difficulty_filtering": True,
        "orchestrator.oversampling_factor": 1.5,
    },
    ("skyrl", None): {
        "trainer.algorithm.dynamic_sampling.type": "filter",
        "trainer.algorithm.dynamic_sampling.max_sample_batches": 4,
    },
    ("slime", None): {
        "over-sampling-batch-size": 9,
        "dynamic-sampling-filter-path": "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std",
    },
    ("roll", None): {"is_use_additional_prompts": True, "max_additional_running_prompts": 3},
    ("tinker", None): {"remove_constant_reward_groups": True, "async_config.groups_per_batch": 6},
    ("open-instruct", None): {"active_sampling": "true", "filter_zero_std_samples": "true"},
    ("easyr1", None): {
        "algorithm.online_filtering": True,
        "data.mini_rollout_batch_size": 9,
        "trainer.max_try_make_batch": 4,
    },
}


# Of the batch multiplier and the limit of rounds, what has no key and so has to be noted.
UNSAID: dict[tuple[str, str | None], tuple[bool, bool]] = {
    ("verl", None): (False, True),
    ("verl", "0.9.0"): (False, True),
    ("verl", "0.8"): (False, False),
    ("openrlhf", None): (True, True),
    ("openrlhf", "0.10.1"): (True, True),
    ("nemo-rl", None): (False, False),
    ("prime-rl", None): (True, True),
    ("prime-rl", "0.4"): (False, True),
    ("skyrl", None): (True, False),
    ("slime", None): (False, True),
    ("roll", None): (False, True),
    ("tinker", None): (True, True),
    ("open-instruct", None): (True, True),
    ("easyr1", None): (False, False),
}


@pytest.mark.parametrize(("name", "version"), REFILLED)
def test_refilling_is_set_and_what_has_no_key_is_noted(name: str, version: str | None) -> None:
    wanted = REFILLED[name, version]
    off = block_of(name, full_recipe(refill=None), version=version)
    on = block_of(name, full_recipe(), version=version)
    assert {key: on.settings[key] for key in wanted} == wanted
    assert not set(wanted) & set(off.settings)

    def noted(block: Block) -> tuple[bool, bool]:
        notes = "\n".join(block.notes)
        return "pare prompts" in notes, bool(re.search("A limit of .* rounds cannot be said", notes))

    assert noted(on) == UNSAID[name, version]
    assert noted(off) == noted(block_of(name, full_recipe(refill=Refilling()), version=version)) == (False, False)


@pytest.mark.parametrize(
    ("name", "version", "key", "spare", "unlimited_key", "unlimited"),
    [
        ("verl", "0.8", "data.gen_batch_size", 9, "algorithm.filter_groups.max_num_gen_batches", 0),
        ("verl", None, "algorithm.filter_groups.max_inflight_gen_batches", 2, "algorithm.filter_groups.enable", True),
        ("slime", None, "over-sampling-batch-size", 9, "rollout-batch-size", 6),
        ("roll", None, "max_additional_running_prompts", 3, "is_use_additional_prompts", True),
        ("easyr1", None, "data.mini_rollout_batch_size", 9, "trainer.max_try_make_batch", -1),
        ("skyrl", None, "trainer.train_batch_size", 6, "trainer.algorithm.dynamic_sampling.max_sample_batches", -1),
        ("nemo-rl", None, "grpo.batch_multiplier", 1.4, "grpo.use_dynamic_sampling", True),
    ],
)
def test_spare_prompts_are_whole_and_no_limit_is_no_limit(
    name: str, version: str | None, key: str, spare: float, unlimited_key: str, unlimited: int
) -> None:
    """1.4 prompts generated for each of 6 wanted are 8.4, so 9."""
    block = block_of(name, full_recipe(refill=Refilling(batch_multiplier=1.4)), version=version)
    assert block.settings[key] == spare
    assert block.settings[unlimited_key] == unlimited
    assert name != "nemo-rl" or "grpo.dynamic_sampling_max_gen_batches" not in block.settings


def test_verl_filters_in_its_main_trainer_from_0_9_only() -> None:
    recipe = full_recipe()
    assert "verl.trainer.main_ppo" in block_of("verl", recipe).text
    assert "recipe.dapo.main_dapo" in block_of("verl", recipe, version="0.8.0").text
    assert "verl.trainer.main_ppo" in block_of("verl", full_recipe(refill=None), version="0.8.0").text
    assert any("ignores max_num_gen_batches" in note for note in block_of("verl", recipe).notes)
    assert any("gae unless set" in note for note in block_of("verl", recipe).notes)


def test_openrlhf_says_what_filtering_needs() -> None:
    assert any("remote_url" in note and "agent_func_path" in note for note in block_of("openrlhf", full_recipe()).notes)


# Keys that a recipe fills only where it knows: steps, temperature 0.9, 4096 response tokens.
OPTIONAL: dict[str, dict[str, Any]] = {
    "verl": {
        "trainer.total_training_steps": 50,
        "actor_rollout_ref.rollout.temperature": 0.9,
        "data.max_response_length": 4096,
    },
    "openrlhf": {
        "data.max_samples": 300,
        "train.num_episodes": 1,
        "rollout.temperature": 0.9,
        "rollout.max_new_tokens": 4096,
    },
    "nemo-rl": {
        "grpo.max_num_steps": 50,
        "policy.generation.temperature": 0.9,
        "policy.generation.max_new_tokens": 4096,
    },
    "prime-rl": {
        "max_steps": 50,
        "orchestrator.train.sampling.temperature": 0.9,
        "orchestrator.train.sampling.max_completion_tokens": 4096,
    },
    "skyrl": {
        "trainer.max_training_steps": 50,
        "generator.sampling_params.temperature": 0.9,
        "generator.sampling_params.max_generate_length": 4096,
    },
    "slime": {"num-rollout": 50, "rollout-temperature": 0.9, "rollout-max-response-len": 4096},
    "roll": {"max_steps": 50, "actor_infer.generating_args.temperature": 0.9, "response_length": 4096},
    "tinker": {"max_steps": 50, "temperature": 0.9, "max_tokens": 4096},
    "open-instruct": {
        "total_episodes": 1200,
        "temperature": 0.9,
        "response_length": 4096,
        "max_prompt_token_length": 2048,
        "pack_length": 6144,
    },
    "easyr1": {"trainer.max_steps": 50, "worker.rollout.temperature": 0.9, "data.max_response_length": 4096},
}


@pytest.mark.parametrize("name", TRAINERS)
def test_what_is_unknown_is_left_out(name: str) -> None:
    bare = block_of(name, Recipe(design=design(steps=None)))
    full = block_of(name, full_recipe(refill=None))
    assert {key: value for key, value in full.settings.items() if key not in bare.settings} == OPTIONAL[name]
    assert bare.text.splitlines()[1] == "# 6 prompts x 4 rollouts = 24 rollouts a step"


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("verl", "0.4.1", "Blocks for verl start at version 0.5.0; got 0.4.1. Use 0.5.0 or later."),
        ("verl", "newest", "version of verl must look like 0.9.1; got 'newest'. Leave it out for 0.9.1."),
        ("openrlhf", "0.8.10", "Blocks for openrlhf start at version 0.8.11; got 0.8.10. Use 0.8.11 or later."),
        ("nemo-rl", "0.5", "Blocks for nemo-rl start at version 0.6.0; got 0.5. Use 0.6.0 or later."),
        ("prime-rl", "0.2", "Blocks for prime-rl start at version 0.3.0; got 0.2. Use 0.3.0 or later."),
        ("prime-rl", "0.7.1", "whose keys changed between the two. Use 0.8 or later."),
        ("roll", "0.1", "written for its source of 2026-08-19, not for a numbered version; got '0.1'."),
        ("open-instruct", "1.0", "written for its source of 2026-08-20"),
        ("easyr1", "0.3.2", "written for its source of 2026-07-30"),
    ],
)
def test_versions_without_known_keys_are_refused_in_one_line(name: str, version: str, message: str) -> None:
    for call in (
        lambda: TRAINERS[name].rules(Hardware(), version),
        lambda: block_of(name, full_recipe(), version=version),
    ):
        with pytest.raises(DomainError, match=re.escape(message)) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TRAINERS)
def test_newer_versions_are_taken_with_a_warning(name: str) -> None:
    block = block_of(name, full_recipe(), version="9000.1")
    assert block.settings == block_of(name, full_recipe()).settings
    assert "9000.1 is newer than" in block.notes[-1]


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"estimator": "grpoo"},
            "estimator must be one of grpo, dr_grpo, rloo, sign, maxrl, grpo_batch, ",
        ),
        ({"temperature": 0.0}, "temperature must be finite and above 0; got 0."),
        ({"max_response_tokens": 0}, "max_response_tokens must be at least 1; got 0."),
        ({"refill": Refilling(batch_multiplier=0.5)}, "batch_multiplier must be at least 1; got 0.5."),
        ({"design": design(prompts=0)}, "prompts_per_step must be at least 1; got 0."),
    ],
)
def test_recipes_no_trainer_accepts_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)):
        block_of(name, full_recipe(**changes))


@pytest.mark.parametrize("name", TRAINERS)
def test_each_trainer_says_how_it_is_known(name: str) -> None:
    trainer = TRAINERS[name]
    assert re.match(r"(run|source|documentation)\b.*\d", trainer.evidence)
    assert trainer.versions
    assert block_of(name, full_recipe(), version=trainer.versions[-1]).checks


def test_numbers_are_written_so_that_yaml_and_toml_read_numbers() -> None:
    values = {"a": 1e-05, "b": 1e16, "c": 2.0, "d": 3}
    assert yaml.safe_load(text.yaml(values, "#")) == tomllib.loads(text.toml(values, "#")) == values
