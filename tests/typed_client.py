"""A program of a user who checks types: it must pass ``mypy --strict`` against the installed package."""

from __future__ import annotations

import grpo_plan as gp


def main(path: str) -> str:
    """What a pilot says of D(8), and the group size of a plan."""
    pilot: gp.Pilot = gp.read_pilot(path)
    fit: gp.PassRateFit = gp.fit_pass_rates(pilot)
    dead: gp.DeadFraction = fit.dead(8)
    value: float | None = dead.value
    plan: gp.Plan = gp.plan_group_size(fit, budget=gp.Budget(rollouts=2_000_000, steps=500))
    size: int = plan.recommended.design.group_size
    flat: tuple[int, int] = plan.flat_range
    batch = gp.effective_batch(fit, prompts_per_step=128, group_size=size)
    mean: float = batch.mixed_groups.mean
    share: float = float(gp.mixed_probability(0.2, 4))
    known = "unknown" if value is None else f"{value:.3f}"
    return f"{known} [{dead.low:.3f}, {dead.high:.3f}], G = {size}, flat {flat}, {mean:.1f} mixed, {share:.4f}"


if __name__ == "__main__":
    import sys

    print(main(sys.argv[1]))
