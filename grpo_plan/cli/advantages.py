"""``grpo-plan advantages``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import FormatOption, JsonOption, OutputFormat, write_json
from grpo_plan.cli.pilot_options import parse_weights
from grpo_plan.errors import DomainError, one_line
from grpo_plan.trainers.registry import known_trainers

if TYPE_CHECKING:
    from grpo_plan.cli.advantages_input import GroupInput
    from grpo_plan.cli.advantages_text import Compared
    from grpo_plan.estimators.amplification import Amplification
    from grpo_plan.estimators.result import Advantages

Repeated = list[str] | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(advantages)


def advantages(
    files: Annotated[
        Repeated, typer.Argument(metavar="[FILE]...", help="A pilot, or groups that a trainer dumped.")
    ] = None,
    rewards: Annotated[
        Repeated,
        typer.Option(metavar="R,R,...", help="Rewards of one group; give it again for each. none: not scored."),
    ] = None,
    lengths: Annotated[
        Repeated,
        typer.Option(metavar="T,T,...", help="Tokens of the responses, once for each --rewards: they count in opo."),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(help="Its name, settings after a colon, e.g. passk:2. Default: grpo, or of the trainer."),
    ] = None,
    std: Annotated[str | None, typer.Option(help="Standard deviation: population or sample.")] = None,
    eps: Annotated[float | None, typer.Option(help="Added to the standard deviation. Default 0.")] = None,
    trainer: Annotated[
        str | None,
        typer.Option(
            help=f"Compute as this trainer does, e.g. {', '.join(known_trainers()[:3])}. Default: the one whose dump "
            "the file is; --estimator grpo for the plain formula."
        ),
    ] = None,
    trainer_version: Annotated[
        str | None,
        typer.Option(metavar="V", help="Version of the trainer, e.g. 1.16. Default: the newest that was read."),
    ] = None,
    setting: Annotated[
        Repeated, typer.Option(metavar="KEY=VALUE", help="The trainer's own setting, e.g. scale_rewards=batch.")
    ] = None,
    best_reward: Annotated[float | None, typer.Option(help="Best reward that there is, for ngrpo. Default 1.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="What every estimator does with these groups; a trainer first.")
    ] = False,
    pass_threshold: Annotated[
        float | None, typer.Option(help="A rollout passes when its reward is at least this.")
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Rewards at most this far apart count as equal.")] = 1e-8,
    reward: Annotated[str | None, typer.Option(help="Reward function to take from a file that has several.")] = None,
    reward_weights: Annotated[
        str | None, typer.Option(metavar="NAME=W,...", help="Reward functions to sum, each times its weight.")
    ] = None,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Print what an estimator gives to the rollouts of groups.

    It says what becomes of dead groups and of failed scoring, and what division by a spread does to small gaps.

    Example: grpo-plan advantages --rewards 1,0,0,0 --rewards 0,0,0,0 --compare
    """
    from grpo_plan.cli.advantages_batches import by_batch, compared_with_own, of_the_trainer
    from grpo_plan.cli.advantages_text import print_advantages, print_comparison
    from grpo_plan.estimators.amplification import amplification
    from grpo_plan.estimators.computing import takes_passes

    if compare and any(x is not None for x in (estimator, std, eps)):
        raise DomainError("--compare shows every estimator's formula: leave out --estimator, --std and --eps.")
    groups = _groups(files, rewards, lengths, reward, parse_weights(reward_weights))
    formula = any(x is not None for x in (estimator, std, eps, best_reward))
    taken = trainer or (None if formula else groups.trainer)
    choices: dict[str, Any] = {"std": std, "eps": eps, "version": trainer_version, **_settings(setting, taken)}
    given = {k: v for k, v in choices.items() if v is not None}
    common: dict[str, Any] = {"tolerance": tolerance, "pass_threshold": pass_threshold}
    best = {} if best_reward is None else {"best_reward": best_reward}
    as_json = json or format is OutputFormat.JSON
    notes = list(groups.notes)
    if compare:
        rows = _compared(groups, common, best, {"trainer": taken, **given} if taken else None)
        if as_json:
            write_json("advantages", {"compare": [_compared_json(row) for row in rows], "notes": notes})
        else:
            print_comparison(rows, groups.rewards, notes)
        return
    own = None
    if taken is not None and trainer is None and not given:
        result, own = of_the_trainer(groups, taken, **common)
        setting_said = "its default setting" if own is None or own.setting is None else own.setting
        notes.insert(0, f"The file is a dump of {taken}: computed as {taken} does under {setting_said}. --trainer and "
                     "--setting say otherwise; --estimator grpo is the plain formula.")  # fmt: skip
    else:
        chosen = given if taken is None else {"trainer": taken, **given}
        result = by_batch(groups, estimator, **chosen, **common, **best)
        own = None if groups.own is None else compared_with_own(result, groups.own)
    if lengths and not result.convention.needs_lengths:
        notes.append(f"--lengths do not count in {result.estimator or result.convention.name}.")
    gaps = (
        amplification(groups.rewards, convention=result.convention, **common)
        if taken
        else amplification(groups.rewards, estimator, **given, **common, **best)
    )
    cut = pass_threshold if taken is None and takes_passes(estimator, pass_threshold) else None
    if as_json:
        body = _result_json(result)
        body["notes"] += notes
        body["own_advantages"] = None if own is None else {**asdict(own), "agree": own.agree}
        write_json("advantages", {**body, "amplification": _gaps_json(gaps), "threshold": cut})
    else:
        print_advantages(result, gaps, notes, own=None if own is None else own.words, threshold=cut)


def _groups(
    files: Repeated, rewards: Repeated, lengths: Repeated, reward: str | None, weights: dict[str, float] | None
) -> GroupInput:
    """The groups that were typed or are read."""
    from grpo_plan.cli.advantages_input import GroupInput, read_input, typed_groups, typed_lengths

    if bool(files) == bool(rewards):
        raise DomainError(
            "advantages needs rewards: --rewards 1,0,0,0 for each group, or files (a pilot, or a trainer's dump)."
        )
    if rewards:
        if reward is not None:
            raise DomainError("--reward names a reward function of a file; it has no use for --rewards.")
        if weights is not None:
            raise DomainError("--reward-weights sums reward functions of a file; it has no use for --rewards.")
        typed = typed_groups(rewards)
        return GroupInput(rewards=typed, lengths=typed_lengths(lengths, typed) if lengths else None)
    if lengths:
        raise DomainError("--lengths goes with --rewards; those of a file are its column of tokens.")
    source: Any = files[0] if files and len(files) == 1 else files
    return read_input(source, reward, weights)


def _settings(items: Repeated, trainer: str | None) -> dict[str, str | bool]:
    """``KEY=VALUE`` items; true and false are truth values."""
    if items and trainer is None:
        raise DomainError("--setting is of a trainer: give --trainer too. Settings of an estimator follow its name.")
    found: dict[str, str | bool] = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key.strip().isidentifier() or key.strip() in COMPUTED_NAMES:
            raise DomainError(f"--setting must be KEY=VALUE, e.g. scale_rewards=batch; got {one_line(item)[:60]!r}.")
        if key.strip() in found:
            raise DomainError(f"--setting {key.strip()[:40]} is given twice. Give it once.")
        found[key.strip()] = {"true": True, "false": False}.get(value.strip().lower(), value.strip())
    return found


COMPUTED_NAMES = ("std", "eps", "trainer", "version", "weights", "tolerance", "pass_threshold", "convention", "lengths")


def _compared(
    groups: GroupInput, common: dict[str, Any], best: dict[str, float], trainer: dict[str, Any] | None
) -> list[Compared]:
    """The trainer, if any, then every estimator; one that needs larger groups with the largest setting that fits."""
    from grpo_plan.cli.advantages_batches import by_batch
    from grpo_plan.cli.advantages_text import Compared
    from grpo_plan.estimators.registry import ESTIMATORS

    size = max(len(group) for group in groups.rewards)
    rows = []
    if trainer is not None:
        result = by_batch(groups, None, **trainer, **common)
        rows.append(Compared(name=str(result.trainer).split(" (")[0], result=result))
    for name, one in ESTIMATORS.items():
        label = f"{name}:{max(size - 1, 1)}" if one.min_group_size > size else name
        further = {key: value for key, value in best.items() if key in one.computed.extras}
        try:
            rows.append(Compared(name=label, result=by_batch(groups, label, **common, **further)))
        except DomainError as error:
            rows.append(Compared(name=label, result=None, refused=str(error)))
    if all(row.result is None for row in rows):
        raise DomainError(rows[0].refused)
    return rows


def _numbers(values: Any) -> list[float | None]:
    return [None if value != value else float(value) for value in values]


def _result_json(result: Advantages) -> dict[str, Any]:
    groups = [
        {
            "kind": str(kind),
            "rewards": _numbers(rewards[present]),
            "advantages": _numbers(values[present]),
        }
        for kind, rewards, values, present in zip(
            result.kinds, result.rewards, result.values, result.present, strict=True
        )
    ]
    return {
        "estimator": result.estimator,
        "trainer": result.trainer,
        "description": result.description,
        "convention": asdict(result.convention),
        "tolerance": result.tolerance,
        "counts": result.counts,
        "rollouts": result.rollouts,
        "failed_rollouts": int(result.failed.sum()),
        "live_share": result.live_share,
        "largest": result.largest,
        "done_with_dead": result.done_with_dead,
        "done_with_failed": result.done_with_failed,
        "groups": groups,
        "notes": list(result.notes),
    }


def _compared_json(row: Compared) -> dict[str, Any]:
    body = {} if row.result is None else _result_json(row.result)
    return {
        "estimator": row.name,
        "refused": row.refused or None,
        **{k: v for k, v in body.items() if k != "estimator"},
    }


def _gaps_json(gaps: Amplification) -> dict[str, Any]:
    return {
        "amplifies": gaps.amplifies,
        "spreads": _numbers(gaps.spreads),
        "weights": None if gaps.weights is None else _numbers(gaps.weights),
        "half_gap": gaps.half_gap,
        "full_gap": gaps.full_gap,
        "smallest_gap": gaps.smallest_gap,
        "rounding": gaps.rounding,
        "noise_groups": gaps.noise_groups,
        "small_share": gaps.small_share,
        "proposed_tolerance": gaps.proposed,
        "reason": gaps.reason,
    }
