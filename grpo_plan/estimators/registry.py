"""The advantage estimators by name: one registry for the advantages of a group and for the planner."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from grpo_plan._suggest import did_you_mean, not_one_of
from grpo_plan._validate import plain_number
from grpo_plan.errors import DomainError
from grpo_plan.estimators.base import Estimator
from grpo_plan.estimators.computed import COMPUTED
from grpo_plan.estimators.pairs import (
    batch_normalised,
    best_of_group,
    centred,
    centred_std,
    focal,
    grpo,
    grpo_sample,
    maxrl,
    mixed_root,
    negative,
    passk,
    reinforce,
    reward_mean,
    reward_std,
    rloo,
    sign,
    virtual_best,
    weighted,
)

GRPO_PAPER = "Shao et al. (2024, arXiv 2402.03300)"
DR_GRPO_PAPER = "Liu et al. (2025, arXiv 2503.20783)"
WEIGHTED_PAPER = "Zhu et al. (2025, arXiv 2506.01347)"
PLUS_PLUS_PAPER = "Hu et al. (2025, arXiv 2501.03262)"
ARCSINE = "2 arcsin(sqrt(p)), averaged over prompts, as G grows"
MEAN = "mean pass rate"

ESTIMATORS: dict[str, Estimator] = {
    e.name: replace(e, computed=COMPUTED[e.name])
    for e in (
        Estimator(
            name="grpo",
            pair_of=grpo,
            description="reward minus group mean, over the group's population std",
            objective=ARCSINE,
            source=GRPO_PAPER,
        ),
        Estimator(
            name="grpo_sample",
            pair_of=grpo_sample,
            description="reward minus group mean, over the group's sample std (same plan as grpo)",
            objective=ARCSINE,
            source=GRPO_PAPER,
        ),
        Estimator(
            name="grpo_batch",
            pair_of=centred,
            scale_of=reward_std,
            description="reward minus group mean, over one std for the whole batch (same plan as dr_grpo)",
            objective=f"{MEAN}, up to a factor of the batch",
            source="TRL, scale_rewards='batch'",
        ),
        Estimator(
            name="dr_grpo",
            pair_of=centred,
            description="reward minus group mean",
            objective=f"{MEAN}, times (G - 1) / G",
            source=DR_GRPO_PAPER,
        ),
        Estimator(
            name="rloo",
            pair_of=rloo,
            description="reward minus the mean of the other rollouts (same plan as dr_grpo: a constant factor)",
            objective=MEAN,
            source="Ahmadian et al. (2024, arXiv 2402.14740)",
        ),
        Estimator(
            name="maxrl",
            pair_of=maxrl,
            description="reward minus group mean, over the group mean",
            objective="log pass rate cut off at order G - 1: -sum over j < G of (1 - p)**j / j",
            source="MaxRL",
        ),
        Estimator(
            name="dapo",
            pair_of=grpo,
            description="as grpo, dead groups filtered out and drawn again (same plan as grpo; --refill counts the "
            "cost)",
            objective=ARCSINE,
            source="Yu et al. (2025, arXiv 2503.14476)",
        ),
        Estimator(
            name="gdpo",
            pair_of=grpo,
            scale_of=mixed_root,
            description="each reward function standardised in its group, then their sum over the batch; with one "
            "reward grpo over one number of the batch (same plan as grpo)",
            objective=f"{ARCSINE}, up to a factor of the batch",
            source="GDPO (2026, arXiv 2601.05242)",
        ),
        Estimator(
            name="f_grpo",
            pair_of=focal,
            description="the grpo advantage times (1 - group mean)**gamma: less weight on easy groups",
            objective="2 sqrt(p) at gamma 0.5, averaged over prompts, as G grows; else of slope "
            "(1 - p)**(gamma - 1/2) / sqrt(p)",
            source="Plyusov et al. (2026, arXiv 2602.06717)",
            parameters=MappingProxyType({"gamma": 0.5}),
        ),
        Estimator(
            name="passk",
            pair_of=passk,
            description="mean and std of the best reward of every k of the G rollouts, shared out over their members",
            objective="2 arcsin(sqrt(pass@k)) / k, averaged over prompts, as G grows",
            source="Chen et al. (2025, arXiv 2508.10751)",
            parameters=MappingProxyType({"k": 4.0}),
            above="k",
        ),
        Estimator(
            name="opo",
            pair_of=centred,
            description="reward minus the mean reward weighted by length; at equal lengths reward minus group mean "
            "(same plan as dr_grpo)",
            objective=f"{MEAN}, times (G - 1) / G, at equal lengths",
            source="Hao et al. (2025, arXiv 2505.23585)",
        ),
        Estimator(
            name="gpg",
            pair_of=centred,
            scale_of=reward_mean,
            description="reward minus group mean, over the share of rewards of the batch that are not 0 (same plan as "
            "dr_grpo)",
            objective=f"{MEAN}, up to a factor of the batch",
            source="Chu et al. (2025, arXiv 2504.02546)",
        ),
        Estimator(
            name="reinforce_plus_plus_baseline",
            pair_of=centred,
            scale_of=centred_std,
            description="reward minus group mean, over the std of these in the whole batch (same plan as dr_grpo)",
            objective=f"{MEAN}, up to a factor of the batch",
            source=PLUS_PLUS_PAPER,
        ),
        Estimator(
            name="reinforce_plus_plus",
            pair_of=batch_normalised,
            description="reward minus batch mean, over the std of the batch; dead groups included",
            objective=f"{MEAN}, up to a factor of the batch",
            source=PLUS_PLUS_PAPER,
            centred=False,
            flat=True,
            batch=True,
        ),
        Estimator(
            name="reinforce",
            pair_of=reinforce,
            description="the reward itself: 1 for a pass, 0 for a fail",
            objective=MEAN,
            source="Williams (1992)",
            centred=False,
            flat=True,
        ),
        Estimator(
            name="sign",
            pair_of=sign,
            description="+1 for a pass, -1 for a fail, dead groups included",
            objective="twice the mean pass rate",
            source="Nie et al. (2026, arXiv 2605.07689)",
            centred=False,
            flat=True,
        ),
        Estimator(
            name="w_reinforce",
            pair_of=weighted,
            description="a small weight for a pass, -1 for a fail, dead groups included",
            objective=f"{MEAN}, times 1 + positive_weight",
            source=WEIGHTED_PAPER,
            parameters=MappingProxyType({"positive_weight": 0.1}),
            centred=False,
            flat=True,
        ),
        Estimator(
            name="nsr",
            pair_of=negative,
            description="0 for a pass, -1 for a fail, dead groups included",
            objective=MEAN,
            source=WEIGHTED_PAPER,
            centred=False,
            flat=True,
        ),
        Estimator(
            name="ngrpo",
            pair_of=virtual_best,
            description="reward minus mean, over the sample std, both with one more reward of 1 in the group: all-fail "
            "groups push down, all-pass groups are silent",
            objective=f"{ARCSINE}; all-fail groups add pass@G / (G sqrt(G + 1))",
            source="Nan et al. (2025, arXiv 2509.18851)",
            centred=False,
        ),
        Estimator(
            name="grpo_passk",
            pair_of=best_of_group,
            description="best minus second best reward, over the sample std, for the best rollout alone: only groups "
            "with one pass",
            objective="pass@G, over sqrt(G)",
            source="verl, adv_estimator=grpo_passk; arXiv 2503.19595",
            centred=False,
        ),
    )
}


def parse_estimator(text: str) -> Estimator:
    """An estimator by its name, with settings behind a colon: the only parser of such names.

    Args:
        text: ``name``, ``name:value`` for the only setting it has, or ``name:setting=value,...``.

    Raises:
        DomainError: No such estimator or setting, or a value outside its domain.

    >>> parse_estimator("passk:2").parameters["k"], parse_estimator("f_grpo:gamma=1").label
    (2.0, 'f_grpo:gamma=1')
    """
    name, colon, settings = text.partition(":") if isinstance(text, str) else (text, "", "")
    try:
        found = ESTIMATORS[name]
    except (KeyError, TypeError):
        raise DomainError(not_one_of("estimator", name, ESTIMATORS)) from None
    return found.with_parameters(**_settings_of(found, settings)) if colon else found


def _settings_of(found: Estimator, text: str) -> dict[str, float]:
    known = tuple(found.parameters)
    if not known:
        beside = "".join(f" Its {key} is given beside the name: {key}=..." for key in found.computed.extras)
        raise DomainError(
            f"{found.name} has no settings behind a colon; got {text!r}. Write it as {found.name}.{beside}"
        )
    example = f"{found.name}:{known[0]}={found.parameters[known[0]]:g}"
    values: dict[str, float] = {}
    for part in text.split(","):
        key, equals, number = part.partition("=")
        if not equals and len(known) == 1:
            key, number = known[0], part
        key = key.strip()
        try:
            value = plain_number(number)
        except ValueError:
            raise DomainError(
                f"settings of {found.name} must be setting=number, e.g. {example}; got {part!r}."
            ) from None
        if key not in known:
            raise DomainError(
                f"{found.name}: {key!r} is none of its settings ({', '.join(known)}). Write it as {example}."
                f"{did_you_mean(key, known)}"
            )
        if key in values:
            raise DomainError(
                f"{found.name}: {key!r} is given twice; got {values[key]:g} and {value:g}. Give it once, as {example}."
            )
        values[key] = value
    return values


def get_estimator(name: str, **parameters: float) -> Estimator:
    """The estimator of that name, with its settings, in the name or beside it.

    Raises:
        DomainError: No such estimator, or it has no such setting.

    >>> get_estimator("rloo").signal(4).round(4).tolist()
    [0.0, 0.25, 0.3333, 0.25, 0.0]
    >>> get_estimator("passk:2").parameters == get_estimator("passk", k=2).parameters
    True
    """
    found = parse_estimator(name)
    for key in found.changed:
        if key in parameters:
            raise DomainError(
                f"{found.name}: {key!r} is given twice; got {found.parameters[key]:g} in {name!r} and "
                f"{key}={parameters[key]!r}. Leave one out."
            )
    return found.with_parameters(**parameters) if parameters else found
