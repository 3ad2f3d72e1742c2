"""What the planner says of a mix: ``python -m figures.validation.mix_plan`` writes ``results/mix.json``. Needs no torch.

From the pilot of ``results/starts.json`` (policy *sum*, 500 prompts x 8 rollouts, in two strata) and the kappa of the probe in
``results/gradients.json``: progress at the shares that were trained on, and the mix that it would choose.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import grpo_plan as gp
from figures.validation.outcome_plan import RESULTS, plans

PATH = RESULTS / "mix.json"
GROUP = 4
SHARES = (0.2, 0.8)  # of hard prompts: those of the worlds mix_20 and mix_80


def pilot() -> gp.Pilot:
    """The pilot, with its strata."""
    facts = json.loads((RESULTS / "starts.json").read_text(encoding="utf-8"))["sum"]["pilot"]
    strata = ["hard" if hard else "rest" for hard in facts["hard"]]
    return gp.Pilot.from_counts(facts["passes"], 8, stratum=strata)


def predictions(kappa: float) -> dict[str, list[float]]:
    """Progress against the mix of now, with limits, at each share; and the planner's own share of hard prompts."""
    found: dict[str, list[float]] = {"kappa": [kappa]}
    for share in SHARES:
        only = {"hard": share}
        mix = gp.plan_mix(
            pilot(), group_size=GROUP, kappa=kappa, estimator="dr_grpo", max_kl=math.inf, floors=only, caps=only
        )
        gain = mix.gains[0].gain
        found[f"{share:g}"] = [round(value, 5) for value in (gain.value, gain.low, gain.high)]
    advised = gp.plan_mix(pilot(), group_size=GROUP, kappa=kappa, estimator="dr_grpo")
    gain = advised.gains[0].gain
    found["advised_share"] = [round(advised.shares["hard"], 5)]
    found["advised"] = [round(value, 5) for value in (gain.value, gain.low, gain.high)]
    return found


def main(path: Path = PATH) -> None:
    """Ask and write."""
    path.write_text(json.dumps(predictions(plans()["all"].probe[0])) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
