"""The pictures of docs/gallery.md: a name, what it shows, how to read it, and the lines of code that make it."""

from __future__ import annotations

from dataclasses import dataclass

SETUP = """\
import json
from pathlib import Path

import numpy as np

import grpo_plan as gp
from grpo_plan import plots

pilot = gp.read_pilot("pilot.jsonl")  # grpo-plan example pilot.jsonl
fit = gp.fit_pass_rates(pilot)
plan = gp.plan_group_size(fit, budget=gp.Budget(rollouts=2_000_000, steps=500))
run = gp.read_run("run.jsonl")  # grpo-plan example run.jsonl --run
diagnosis = gp.diagnose(run, plan)
remedies = gp.compare_remedies(fit, 8)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One picture.

    Attributes:
        name: Of its files.
        shows: Title and, as it says what is seen, the text for those who do not see it.
        read: One sentence how to read it.
        code: Lines that end in ``ax = ...``.
    """

    name: str
    shows: str
    read: str
    code: str


PILOT = (
    Entry(
        name="observed_pass_rates",
        shows="Observed pass rates of the prompts; 0 of 8 is the commonest",
        read="The two outer bars are the prompts whose rollouts all agreed; their share is in the second line.",
        code="ax = gp.plot(pilot)",
    ),
    Entry(
        name="pass_rates",
        shows="Observed pass rates with the smooth fit and the atoms of the nonparametric fit",
        read="Dots on the bars: the smooth fit explains the counts; the four atoms do so too, which is why intervals "
        "allow for both.",
        code="ax = plots.plot_pass_rates(fit)",
    ),
    Entry(
        name="dead_fraction",
        shows="Dead fraction against group size: counted to 8, estimated beyond, the i.i.d. formula far below",
        read="Trust the band; the hatched part no number of prompts could close with 8 rollouts each.",
        code="ax = gp.plot(fit)",
    ),
    Entry(
        name="one_group_size",
        shows="One dead fraction, D(16), with its parts and the two usual formulas",
        read="A formula outside the black bar is wrong for these prompts.",
        code="ax = gp.plot(fit.dead(16))",
    ),
    Entry(
        name="comparison",
        shows="The usual estimates of D(G) from 2 to 32 beside the default with its intervals",
        read="A coloured curve that leaves the band is wrong, as far as the band's 95 % go; how wrong, nobody knows "
        "who has only this pilot: the truth may lie anywhere in the band.",
        code="ax = gp.plot(gp.compare_estimates(fit, [2, 4, 8, 16, 32]))",
    ),
    Entry(
        name="cannot_tell",
        shows="A pilot without a single pass: the dead fraction is 1, with an interval, and the status is said",
        read="The grey line below the title is the status: what the pilot cannot say.",
        code="none = gp.Pilot.from_counts([0] * 50, 4)\nax = gp.plot(gp.fit_pass_rates(none))",
    ),
    Entry(
        name="pilot_size",
        shows="Rollouts of a pilot for D(16) to 0.03, by rollouts per prompt; 960 x 16 takes fewest",
        read="The ring is the cheapest design; boxes are designs that never settle it, with what they leave open.",
        code="ax = gp.plot(gp.plan_pilot(fit, target_group_size=16, half_width=0.03))",
    ),
    Entry(
        name="sessions",
        shows="Pass rate of two sessions less that of the same prompts in the other; no sign of dependence",
        read="The title is the verdict; columns far from 0 with a small p mean that the policy or the scoring moved. "
        "Columns are values; p, not an interval, says how far luck goes.",
        code="""\
rng = np.random.default_rng(1)
passes = rng.binomial(4, np.repeat(rng.beta(0.6, 1.0, 150)[:, None], 2, axis=1))
check = gp.check_independence(passes, np.full_like(passes, 4), names=["seed 1", "seed 2"])
ax = gp.plot(check)""",
    ),
    Entry(
        name="sequence",
        shows="Correlation of a rollout and the next, and within halves of the list; both intervals hold 0",
        read="An interval that leaves out 0 means that rollouts of a prompt depend on each other.",
        code="""\
rng = np.random.default_rng(2)
rewards = (rng.random((150, 8)) < rng.beta(0.6, 1.0, 150)[:, None]).astype(int)
ax = gp.plot(gp.check_sequences(rewards.tolist()))""",
    ),
    Entry(
        name="independence",
        shows="Checks of the example's rollouts by their order in the file: no sign of dependence",
        read="The gravest check that the source allows: by session, else by order, else by repeated texts.",
        code='ax = gp.plot(gp.read_independence("pilot.jsonl", order=True))',
    ),
    Entry(
        name="duplicates",
        shows="How many prompts have how many different texts of 8",
        read="All prompts should stand at the number of rollouts; short answers coincide by chance.",
        code="""\
rng = np.random.default_rng(3)
prompts, texts = np.repeat(np.arange(50), 8), [f"answer {i}" for i in rng.integers(0, 30, 400)]
ax = gp.plot(gp.duplicate_rollouts(prompts.tolist(), texts))""",
    ),
)
PLAN = (
    Entry(
        name="frontier",
        shows="Cost of the same progress against the group size at three values of kappa; 4 to 8 are about as good",
        read="Low is good; in the shaded range the worst case over kappa is within 10 points of the best possible. "
        "Curves are values: the limits are in the table of `plan`.",
        code="ax = gp.plot(plan)",
    ),
    Entry(
        name="effective_batch",
        shows="Mixed groups of a step against the group size, with their spread and the limits of the mean",
        read="The distance to the dotted line is the groups that are dead.",
        code="ax = plots.plot_effective_batch(plan)",
    ),
    Entry(
        name="kappa_sensitivity",
        shows="Best group size at each kappa with every one within 10 %, and the recommended 6",
        read="The line crosses every bar: 6 is within 10 % of the best at each kappa.",
        code="ax = plots.plot_kappa_sensitivity(plan)",
    ),
    Entry(
        name="kappa",
        shows="Mean squared norm of a group's gradient at G = 4, 8 and 16 on a line in 1/(G-1)",
        read="The steeper the line over its start, the larger kappa and the best G.",
        code="""\
rng = np.random.default_rng(4)
size, hard = rng.gamma(1.0, 1.0, 200), (rng.random((200, 16)) < rng.beta(0.6, 1.0, 200)[:, None]).astype(float)
norms = {g: size * (1.0 + 9.0 / (g - 1)) * rng.gamma(8.0, 0.125, 200) for g in (4, 8, 16)}
ax = gp.plot(gp.measure_kappa(norms, rewards=hard))""",
    ),
    Entry(
        name="mixed_groups",
        shows="Chance of each number of mixed groups in a step of 128: 63 to 81 in 9 of 10 steps",
        read="Columns are luck from step to step; the line above is how sure the mean is.",
        code="ax = gp.plot(gp.effective_batch(fit, prompts_per_step=128, group_size=8))",
    ),
    Entry(
        name="refill",
        shows="Prompts drawn per mixed group against the generation batch: a sawtooth; the planned 1.5 near its top",
        read="Choose a batch in a valley, at an edge: one just too small needs a round more, mostly thrown away.",
        code="ax = gp.plot(gp.refill(fit, prompts_per_step=128, group_size=8, batch_multiplier=1.5))",
    ),
    Entry(
        name="sampling",
        shows="Rollouts per mixed group of fixed groups, a refill by batches of 1.5 and adaptive sampling",
        read="The refill draws by batches of 1.5 x 128 prompts, a bad size for these prompts (the picture before): one "
        "at a time it would take what fixed groups take. The lowest row is rollouts per prompt, not per mixed group: "
        "it stops at a pass.",
        code="""\
refill = gp.refill(fit, prompts_per_step=128, group_size=8, batch_multiplier=1.5)
ax = gp.plot(gp.compare_sampling(fit, refill))""",
    ),
    Entry(
        name="adaptive",
        shows="Rollouts per prompt when sampling stops at a pass and a fail",
        read="Second row: prompts that are given up count too.",
        code="ax = gp.plot(gp.adaptive_sampling(fit, max_group_size=16))",
    ),
    Entry(
        name="remedies",
        shows="Progress per rollout of five estimators beside rloo, over kappa",
        read="Above 1 an estimator beats the reference at that kappa, if its bar is above 1 too.",
        code="ax = gp.plot(remedies)",
    ),
    Entry(
        name="group_sizes",
        shows="Progress per rollout of G = 4, 16 and 32 beside G = 8, over kappa",
        read="Where a curve crosses 1 a group size above 8 starts to pay and one below 8, here G = 4, stops paying.",
        code="ax = plots.plot_group_sizes(remedies)",
    ),
)
