"""What a plan's estimator does with the rollouts, and what it makes beside rloo, in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_plan.cli.numbers import chance, few
from grpo_plan.planning.live import live_shares

if TYPE_CHECKING:
    from grpo_plan.planning.plan import Plan

DEAD_KINDS = ("all-fail", "all-pass")


def live_lines(chosen: Plan) -> list[str]:
    """Rollouts with an advantage under the estimator, and what dead groups do (theory.md, eq. 117)."""
    best = chosen.recommended
    size, n = best.design.group_size, best.design.rollouts_per_step
    pushes = dict(zip(DEAD_KINDS, chosen.pushes(size), strict=True))
    empty = chance(best.batch.dead_batch_probability)
    if not any(pushes.values()) and bool((live_shares(chosen.advantage, size)[1:-1] == 1.0).all()):
        live = few(best.batch.live_rollouts.mean)
        return [f"{live} live rollouts a step; at this D a step is all dead with chance {empty}"]
    found = chosen.live(best)
    if found is None:
        return []
    share = found[0]
    ends = [x for x in (share.low, share.high) if x is not None and x != share.value]
    sure = f" [{' to '.join(few(end * n) for end in ends)}]" if len(ends) == 2 else ""
    known = "an unknown number" if share.value is None else few(share.value * n)
    of = f"{known}{sure} of {n:,} rollouts a step have an advantage under {chosen.estimator}"
    if not any(pushes.values()):
        return [f"{of}, not all of those in mixed groups; a step is all dead with chance {empty}"]
    words = [
        f"{kind} ones {'down' if push < 0.0 else 'up'} ({push:+.3g} each rollout)"
        if push
        else f"{kind} ones are silent"
        for kind, push in sorted(pushes.items(), key=lambda item: not item[1])
    ]
    return [f"{of}: dead groups push too, {', '.join(words)}", f"a step has no mixed group with chance {empty}"]


def beside_lines(chosen: Plan) -> list[str]:
    """One line where rloo, at its own pick, would make clearly more progress at some kappa shown."""
    from grpo_plan.remedies.planned import beside

    found = beside(chosen)
    if found is None or not found.loses or found.span is None:
        return []
    (low, high), (least, most) = found.span, found.limits
    ends = f"{found.progress[0].kappa:g} to {found.progress[-1].kappa:g}"
    kappas = ends if len(found.progress) > 1 else f"{found.progress[0].kappa:g}"
    span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    limits = f"{least:.2f}, {'no limit' if most is None else f'{most:.2f}'}"
    own = "best size" if chosen.objective == "signal" and chosen.kappa.known else "pick"
    return [
        f"{chosen.estimator} makes {span} [{limits}] of the progress of {found.reference} at its own {own}, "
        f"G = {found.group_size}, at kappa {kappas}. grpo-plan remedies compares all estimators."
    ]
