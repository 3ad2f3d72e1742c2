"""What the trainers outside the TRL family share: rules of whole batches, versions, estimators, refill sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, gcd, lcm
from typing import Any

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, as_positive
from grpo_plan.costs import Design
from grpo_plan.errors import DomainError
from grpo_plan.rules import RuleCheck
from grpo_plan.trainers.base import Hardware, Recipe

ESTIMATORS = (
    "grpo",
    "dr_grpo",
    "rloo",
    "sign",
    "maxrl",
    "grpo_batch",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "opo",
    "gpg",
    "grpo_passk",
)
LARGEST_CHOSEN_MICRO_BATCH = 16
GROUP_RULE = "a group needs at least 2 rollouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiple:
    """The rollouts (or prompts) of a step must be a multiple of a number.

    Attributes:
        rule: The rule in the trainer's own terms.
        of: The number, at least 1.
        source: Where the number comes from, e.g. "8 GPUs x 4 rollouts".
        prompts: Whether prompts are counted, not rollouts.
    """

    rule: str
    of: int
    source: str
    prompts: bool = False

    def prompt_multiple(self, group_size: int) -> int:
        """Prompts per step must be a multiple of this."""
        return self.of if self.prompts else self.of // gcd(self.of, group_size)

    def check(self, design: Design) -> RuleCheck:
        """The rule on this design."""
        size = design.prompts_per_step if self.prompts else design.rollouts_per_step
        unit = "prompts" if self.prompts else "rollouts"
        left = size % self.of
        verdict = f"a multiple of {self.of}" if left == 0 else f"{left} more than a multiple of {self.of}"
        return RuleCheck(rule=self.rule, satisfied=left == 0, detail=f"{size} {unit} a step: {verdict} ({self.source})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fewest:
    """A step must have at least so many rollouts.

    Attributes:
        rule: The rule in the trainer's own terms.
        rollouts: The number, at least 1.
    """

    rule: str
    rollouts: int

    def check(self, design: Design) -> RuleCheck:
        """The rule on this design."""
        size = design.rollouts_per_step
        return RuleCheck(
            rule=self.rule, satisfied=size >= self.rollouts, detail=f"{size} rollouts a step, at least {self.rollouts}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """Rules of one trainer on given hardware: groups of 2 or more, whole multiples, a smallest step.

    Attributes:
        name: Whose rules they are.
        multiples: Rules of divisibility.
        fewest: Smallest step; None if the trainer has none.

    >>> rules = BatchRules(name="x", multiples=(Multiple(rule="whole GPUs", of=12, source="12 GPUs"),))
    >>> rules.prompt_multiple(8), rules.prompt_multiple(1)
    (3, None)
    """

    name: str
    multiples: tuple[Multiple, ...] = ()
    fewest: Fewest | None = None

    def prompt_multiple(self, group_size: int) -> int | None:
        """Prompts per step must be a multiple of this; None if no design of this group size is accepted."""
        if group_size < 2:
            return None
        step = lcm(1, *(m.prompt_multiple(group_size) for m in self.multiples))
        fewest = 1 if self.fewest is None else self.fewest.rollouts
        return step * max(1, ceil(fewest / (step * group_size)))

    def checks(self, design: Design) -> tuple[RuleCheck, ...]:
        """Every rule, checked on the design."""
        group = RuleCheck(
            rule=GROUP_RULE, satisfied=design.group_size >= 2, detail=f"{design.group_size} rollouts per prompt"
        )
        found = [group, *(m.check(design) for m in self.multiples)]
        return tuple(found if self.fewest is None else [*found, self.fewest.check(design)])


def whole_micro_batches(rule: str, hardware: Hardware) -> Multiple:
    """Rollouts of a step divide into whole micro-batches on every GPU; into whole GPUs while none is given."""
    if hardware.micro_batch is None:
        return Multiple(rule=rule, of=hardware.gpus, source=f"{hardware.gpus} GPUs")
    source = f"{hardware.gpus} GPUs x {hardware.micro_batch} rollouts"
    return Multiple(rule=rule, of=hardware.gpus * hardware.micro_batch, source=source)


def micro_batch(design: Design, hardware: Hardware) -> int:
    """The micro-batch asked for, else the largest up to 16 that divides a GPU's share of the step."""
    if hardware.micro_batch is not None:
        return hardware.micro_batch
    share = max(1, design.rollouts_per_step // hardware.gpus)
    return max(m for m in range(1, LARGEST_CHOSEN_MICRO_BATCH + 1) if share % m == 0)


def hardware_notes(hardware: Hardware, key: str, chosen: int) -> list[str]:
    """What the rules took for granted, and the micro-batch where the block had to choose it."""
    notes = [
        f"Checked for {hardware.gpus} data-parallel GPUs (model replicas, where tensor or sequence parallelism is "
        "used); the block does not set the cluster."
    ]
    if hardware.micro_batch is None:
        notes.append(
            f"{key} = {chosen} is the largest up to {LARGEST_CHOSEN_MICRO_BATCH} that divides; memory decides, so "
            "give your own with --micro-batch."
        )
    return notes


def check_recipe(recipe: Recipe) -> None:
    """Refuse what no trainer accepts, in one line."""
    if recipe.estimator not in ESTIMATORS:
        raise DomainError(not_one_of("estimator", recipe.estimator, ESTIMATORS))
    as_count(recipe.design.prompts_per_step, "prompts_per_step")
    as_count(recipe.design.group_size, "group_size")
    if recipe.temperature is not None:
        as_positive(recipe.temperature, "temperature")
    if recipe.max_response_tokens is not None:
        as_count(recipe.max_response_tokens, "max_response_tokens")
    if recipe.refill is not None and recipe.refill.batch_multiplier < 1.0:
        raise DomainError(
            f"batch_multiplier must be at least 1; got {recipe.refill.batch_multiplier:g}. With 1 no prompts are spare."
        )


def generated_prompts(recipe: Recipe) -> int:
    """Prompts of one generation round: the batch multiplier times the prompts of a step, rounded up."""
    multiplier = 1.0 if recipe.refill is None else recipe.refill.batch_multiplier
    return ceil(multiplier * recipe.design.prompts_per_step - 1e-9)


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that are None."""
    return {key: value for key, value in settings.items() if value is not None}


def release(version: str | None, *, trainer: str, first: tuple[int, ...], newest: str) -> tuple[int, ...]:
    """A version such as "0.9.1" as three numbers; the newest that was read while none is given.

    Raises:
        DomainError: Not a version, or older than the first that blocks are written for.

    >>> release("v0.10.1.post2", trainer="openrlhf", first=(0, 8, 11), newest="0.11.2")
    (0, 10, 1)
    """
    text = newest if version is None else version.strip()
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.+-]?(?:post|rc|dev|a|b)[\w.+-]*)?", text)
    if match is None:
        raise DomainError(f"version of {trainer} must look like {newest}; got {version!r}. Leave it out for {newest}.")
    numbers = tuple(int(part or 0) for part in match.groups())
    if numbers < first:
        oldest = ".".join(str(part) for part in first)
        raise DomainError(f"Blocks for {trainer} start at version {oldest}; got {version}. Use {oldest} or later.")
    return numbers


def newer_note(version: str | None, *, title: str, newest: str) -> list[str]:
    """A note where a version is newer than the newest whose keys were read."""
    if version is None or _order(version) <= _order(newest):
        return []
    return [f"{title} {version} is newer than what this was written for ({newest}): check the keys."]


def dated(version: str | None, *, trainer: str, date: str) -> None:
    """Refuse a version older than the source of the date that a trainer without numbered versions was read at.

    Raises:
        DomainError: No date or number, or an older one.
    """
    if version is not None and _order(version) < _order(date):
        raise DomainError(
            f"Blocks for {trainer} are written for its source of {date}, not for a numbered version; got {version!r}. "
            "Leave the version out."
        )


def _order(version: str) -> tuple[int, ...]:
    """Numbers of a version or date, to compare; none where it starts with no digit."""
    match = re.match(r"v?(\d+(?:[.-]\d+)*)", version.strip())
    return () if match is None else tuple(int(part) for part in re.split("[.-]", match[1]))
