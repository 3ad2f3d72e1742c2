"""Words of docs/validation.md that are not of one part."""

from __future__ import annotations

HEAD = """\
# What was checked in training

Formulas can be proved and intervals simulated ([theory](theory.md), [calibration](calibration.md)). Whether a plan comes true in training is another
question. This page holds the planner against real GRPO training: a small transformer that adds numbers, whose pass rates, dead fractions
and gradients are known exactly, so that nothing on the side of truth is estimated. Every number and table below is computed from raw results
in the repository (`figures/validation/results`).

A plan is asked for before the runs, from a pilot and a probe of the starting policy. What did not come true is listed with its number.

## In one table

"""

KEPT = """\
## Simulated learning

[A study of simulated policies](simulation.md) holds the planner's ratios and the order of estimators against training of a model with
one logit a prompt and shared features: the best G lay in the planner's flat range, or tied with one that did, in 16 of 16 sweeps; the
threshold at which sign and mean-centred advantages change places was right in 74 of 79 decided conditions at a small learning rate.
It is a model of a policy, and shares assumptions with the theory.

## Diagnosis

[Simulated runs with known trouble](diagnosis-study.md): 0 of 6,000 healthy runs raised a warning, each kind of trouble was found in at
least 98 % of its runs. Real logs are read in tests, but nobody has labelled a large set of real runs as healthy or sick: how often a real
alarm is right is unknown.

## Trainers

Tests run TRL itself (tiny models, CPU): its configuration accepts the blocks, steps hold the groups of the design, its logged dead
fraction equals the one counted from its rollouts, its advantages and loss weights equal ours. Of ms-swift, Axolotl, OpenRLHF, verl, SkyRL and
tinker their own parsers, checks or configuration classes were run on the blocks; the other trainers' rules were read in their source.
No run on a GPU cluster has been planned and followed from start to end."""

CHANGES = """\
## What was changed in the planner because of it

* **The pick** is the smallest G of the flat range where that is within 10 % of the most predicted progress at every kappa (with one known kappa always), and was the G of most predicted progress ([why](#why-large-groups-do-worse-than-predicted)).
* **The learning rate is said to belong to the size**: in what a plan rests on, and in [choosing](choosing.md).
* **The default range of kappa** was 10 to 300 and is 1 to 300: the first measurements, on this task, were 0.3 to 6, and the old range would have
  been wrong by a factor of 3 to 10.
* **A measured kappa is an input of the first rank**: `GradientProbe`, `kappa_callback` and `plan --kappa FILE`, with an interval (theory, eq. 49).
* **The noise of a step is printed** beside the flat range, since it says whether G matters at all (eq. 26 and 51).
* **The upper end of the flat range is marked as optimistic**, on the screen and in the report.
* **Not changed**: the efficiency curve, since the measure that corrects it cannot be had from a probe; the pick over the default range of kappa, where the smallest size gives up more; the value of D beyond n, which is biased upwards
  while its limits hold; the law of a step, which leaves out the error of the pilot.
* **A low dead fraction is an objective only on request** (`--objective max-dead`), and the page that explains it says what it cost here."""

LIMITS = """\
## What it cannot say

* **Large models and long responses.** Kappa, coherence and the noise of a step are those of a model of 0.1 million parameters with answers of five
  tokens. Free tokens after the answer raise kappa, but are not reasoning: no token before the answer depends on another that was sampled to help it.
* **One kind of task.** Addition, right or wrong, no partial credit; prompts of four lengths, and so a pass rate that depends on little else.
* **Short runs.** 120 steps. Nothing here shows what happens after thousands, where entropy falls and prompts run out.
* **One starting policy a world.** Seeds differ in prompts and rollouts. Other teaching seeds give other pass rates ({spread}), and their group sizes were
  not swept.
* **Mean-centred advantages.** The plans that are judged are made for `dr_grpo`; the tool's default is `grpo`, and the change of the pick holds for every estimator.
* **Adam at constant rates**, two to five for each size. Schedules, weight decay, a KL term and a value model were not tried.
* **Costs.** Steps are compared at equal rollouts. Hours and tokens are another matter ([choosing](choosing.md), section 6)."""

RERUN = """\
## How to run it again

```bash
pip install -e '.[test,validation]'
python -m figures.validation.runner --work DIR --workers 2      # {runs} runs
python -m figures.validation.pack --work DIR                    # into results/runs.parquet
python -m figures.validation.starts --work DIR                  # starting policies
{others}python -m figures.validation.mix_plan
python -m figures.validation.page && python -m figures.validation_plot
python -m figures.validation.smoke                              # under a minute
```

The runs took {hours:.1f} hours in all (wall time, summed; two at once, on cores that other work shared); they can be stopped and started again. Seeds are fixed: on one kind of processor a run repeats
bit by bit, on another a starting policy differs by rounding at first and then by a little more ({nudged}). The smoke check teaches *sum* again, counts its dead groups,
trains 40 steps with G = 4 and 32, and compares with the committed numbers within limits that a correct program leaves by
chance in one number of 1,000. Where the policy is the committed one to six digits, all else must be, too. The check is part of CI."""


def head() -> list[str]:
    """Up to the first table."""
    return HEAD.splitlines()


def kept() -> str:
    """What is checked elsewhere."""
    return KEPT


def changes() -> str:
    """What follows for the planner."""
    return CHANGES


def limits_of() -> str:
    """What stays open."""
    from figures.validation.smoke_limits import rows

    other = [row for row in rows() if row["nudge"] == 0]
    dead = [row["dead_4"] for row in other]
    return LIMITS.format(spread=f"exact D(4) {min(dead):.2f} to {max(dead):.2f} over {len(other)} seeds")


def rerun() -> str:
    """Commands and times."""
    from pathlib import Path

    from figures.validation.outcome import runs
    from figures.validation.smoke_limits import rows

    near = [row for row in rows() if row["teaching"] == 1]
    rates, dead = ([row[name] for row in near] for name in ("pass_rate", "dead_4"))
    nudged = f"with some 4 of 25,600 lessons changed the mean pass rate is {min(rates):.3f} to {max(rates):.3f} and exact D(4) {min(dead):.3f} to {max(dead):.3f}"
    here = Path(__file__).parent
    scripts = ("gradients", "kappa_scale", "probe_coverage", "forecast", "forecast_more", "upper_end", "client")
    others = "".join(
        f"python -m figures.validation.{name} --work DIR\n" for name in scripts if (here / f"{name}.py").exists()
    )
    return RERUN.format(runs=len(runs()), hours=sum(run.seconds for run in runs()) / 3600, others=others, nudged=nudged)
