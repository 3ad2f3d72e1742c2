"""From a pilot to a trainer: every design of a frontier obeys the trainer's rules, recomputed from its block alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.trainers.registry import TRAINERS
from tests.test_trainers_trl import FAMILY, flat
from tests.trainer_schemas import ADMITS


def obeys(name: str, block: gp.Block, gpus: int) -> bool:
    """The trainer's rules, from the settings of the block alone."""
    if name not in FAMILY:
        return bool(ADMITS[name](dict(block.settings), gpus))
    read: dict[str, Any] = flat(name, block.settings)
    rollouts, in_a_pass = read["generation_batch_size"], read["per_device_train_batch_size"] * gpus
    return bool(rollouts % read["num_generations"] == 0) and rollouts % in_a_pass == 0 and read["num_generations"] >= 2


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12, deadline=None)
@given(
    rollouts=st.integers(2_000, 2_000_000),
    steps=st.integers(1, 200),
    gpus=st.integers(1, 64),
    micro_batch=st.none() | st.integers(1, 32),
    sizes=st.lists(st.integers(2, 64), min_size=1, max_size=4),
)
def test_every_design_of_a_frontier_is_accepted(
    example_fit: gp.PassRateFit,
    name: str,
    rollouts: int,
    steps: int,
    gpus: int,
    micro_batch: int | None,
    sizes: list[int],
) -> None:
    hardware = gp.Hardware(gpus=gpus, micro_batch=micro_batch)
    budget = gp.Budget(rollouts=rollouts, steps=steps)
    try:
        plan = gp.plan_group_size(
            example_fit, budget=budget, group_sizes=sizes, kappa=5.0, rules=gp.rules_for(name, hardware)
        )
    except gp.InfeasiblePlanError as error:
        message = str(error)
    else:
        message = "; ".join(plan.refused)
        for planned in plan.frontier:
            assert planned.checks
            assert all(check.satisfied for check in planned.checks)
            assert planned.design.rollouts_per_step * steps <= rollouts
            assert obeys(name, gp.emit(planned, trainer=name, hardware=hardware), gpus)
    assert "\n" not in message


@pytest.mark.parametrize("name", TRAINERS)
def test_a_size_that_is_refused_is_refused_for_a_reason(example_fit: gp.PassRateFit, name: str) -> None:
    """Nothing larger within the budget would have been accepted: one multiple more breaks the budget."""
    hardware, budget = gp.Hardware(gpus=8, micro_batch=4), gp.Budget(rollouts=50_000, steps=50)
    rules = gp.rules_for(name, hardware)
    plan = gp.plan_group_size(example_fit, budget=budget, rules=rules, kappa=5.0)
    for planned in plan.frontier:
        design, multiple = planned.design, rules.prompt_multiple(planned.design.group_size)
        assert multiple is not None
        most = 50_000 // (50 * design.group_size) // multiple * multiple
        even = most // (8 * multiple) * 8 * multiple
        assert design.prompts_per_step == (even if even >= 0.98 * most else most)


def test_prompts_have_divisors_left_where_that_is_cheap(example_fit: gp.PassRateFit) -> None:
    """1,226 prompts x 4 give each of 8 GPUs 613 rollouts, a prime: one a pass. 1,216 give 608, sixteen a pass."""
    rules = gp.rules_for("trl", gp.Hardware(gpus=8))

    def planned(budget: gp.Budget, size: int) -> gp.Plan:
        return gp.plan_group_size(example_fit, budget=budget, group_sizes=[size], rules=rules, kappa=5.0)

    plan = planned(gp.Budget(rollouts=1_226 * 4 * 10, steps=10), 4)
    assert plan.recommended.design.prompts_per_step == 1_216
    block = gp.emit(plan, trainer="trl", hardware=gp.Hardware(gpus=8))
    assert block.settings["per_device_train_batch_size"] == 16
    fixed = planned(gp.Budget(prompts_per_step=1_226, steps=10), 4)
    assert fixed.recommended.design.prompts_per_step == 1_226
    step = planned(gp.Budget(rollouts_per_step=1_226 * 4, steps=10), 4)
    assert step.recommended.design.prompts_per_step == 1_226
    dear = planned(gp.Budget(rollouts=126 * 4 * 10, steps=10), 4)  # 112 would cost 11 %
    assert dear.recommended.design.prompts_per_step == 126
    edge = planned(gp.Budget(rollouts=98 * 8 * 10, steps=10), 8)  # 96 cost 2.04 %
    assert edge.recommended.design.prompts_per_step == 98
