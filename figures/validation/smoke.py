"""Does the study still come out? ``python -m figures.validation.smoke``: under a minute on one core; CI runs it.

The policy *sum* is taught from its seed, its dead groups are counted, and it is trained for 40 steps with groups of 4 and of 32.
What is measured is held against committed numbers, by limits of `figures.validation.smoke_limits`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from figures.validation.policy import pass_rates, sample
from figures.validation.smoke_limits import FALSE_ALARM, PATH, RATE, SIZES, STEPS, Numbers, alarms, table
from figures.validation.tasks import SUM, draw, rewards
from figures.validation.training import Recipe, World, train
from figures.validation.warm_up import Start, teach

PROMPTS = 1000
# Seed of teaching, and how often 1e-4 was added to the share of four-digit numbers: some 4 in 25,600 prompts change each time, which
# is more than rounding on another processor changes.
TEACHINGS = (*((1, nudge) for nudge in range(7)), *((seed, 0) for seed in (2, 3)))


def measure(teaching: int = 1, nudge: int = 0, seed: int = 0) -> Numbers:
    """Teach, look, train.

    Args:
        teaching: Seed of the starting policy.
        nudge: Of the share of four-digit numbers in its lessons, in 1e-4.
        seed: Of prompts and rollouts in training.
    """
    shares = (*SUM.lengths[:3], SUM.lengths[3] + nudge * 1e-4)
    model, _, _ = teach(Start("sum", "sum", 0.36, teaching, lengths=shares))
    prompts = draw(PROMPTS, torch.Generator().manual_seed(99))
    p = pass_rates(model, SUM, prompts, 1.0)
    found: Numbers = {"pass_rate": p.mean().item()}
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for size in SIZES:
        exact = p**size + (1 - p) ** size
        total = rewards(
            SUM, prompts, sample(model, prompts, size, 0, 1.0, torch.Generator().manual_seed(3000 + seed))
        ).sum(1)
        counted = ((total == 0) | (total == size)).sum().item()
        found[f"dead_{size}"] = exact.mean().item()
        found[f"z_{size}"] = (counted - exact.sum().item()) / (exact * (1 - exact)).sum().sqrt().item()
        curve = train(model, World(SUM), Recipe(size, 512 // size, RATE, seed, steps=STEPS)).pass_rate
        found[f"gain_{size}"] = sum(curve[1:]) / len(curve[1:]) - curve[0]
        model.load_state_dict(start)
    return found


def write(work: Path) -> None:
    """Measure what is committed; ``work`` keeps what is done."""
    rows = []
    for i, (teaching, nudge) in enumerate(TEACHINGS):
        kept = work / f"smoke_{teaching}_{nudge}.json"
        if not kept.exists():
            found = measure(teaching, nudge, seed=i)
            kept.write_text(json.dumps({"teaching": teaching, "nudge": nudge, "seed": i, **found}))
            print(kept.read_text(), file=sys.stderr)
        rows.append({name: round(value, 6) for name, value in json.loads(kept.read_text()).items()})
    PATH.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def main() -> None:
    """Check, or with ``--write`` measure what to check against."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="DIR", help="measure what is committed; DIR keeps what is done")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.write:
        write(options.write)
        return
    found = measure()
    print(table(found))
    wrong = alarms(found)
    if wrong:
        sys.exit(
            f"{', '.join(wrong)}: not as committed (outside limits by chance: one time in {1 / FALSE_ALARM:.0f} each)"
        )


if __name__ == "__main__":
    main()
