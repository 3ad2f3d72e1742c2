"""More pictures of docs/gallery.md: prompts, runs, arithmetic."""

from __future__ import annotations

from figures.gallery_entries import PILOT, PLAN, Entry

PROMPTS = (
    Entry(
        name="temperature",
        shows="Difference of T = 0.6 to T = 1: more dead groups, about as many passes, less signal",
        read="A change is advised only if the interval of the deciding difference leaves out 0.",
        code="""\
p = np.random.default_rng(5).beta(0.4, 0.9, 300)
passes = np.random.default_rng(6).binomial(8, np.r_[p, p**1.3 / (p**1.3 + (1 - p) ** 1.3)])
names, t = [f"q{i}" for i in range(300)] * 2, np.repeat([1.0, 0.6], 300)
both = gp.Pilot.from_counts(passes, 8, prompt_id=names, temperature=t)
ax = gp.plot(gp.plan_temperature(both))""",
    ),
    Entry(
        name="dead_counts",
        shows="Share of dead groups at three temperatures from counts; they cannot tell",
        read="These are separate samples; paired pilots tell more.",
        code="ax = gp.plot(gp.compare_dead_counts({0.6: (60, 200), 0.8: (45, 210), 1.0: (41, 200)}))",
    ),
    Entry(
        name="mix",
        shows="Share of easy, middle and hard prompts now and planned",
        read="The second line is the gain over the range of kappa and the dead fraction before and after.",
        code="""\
rng, names = np.random.default_rng(7), ("easy", "middle", "hard")
passes = [rng.binomial(8, rng.beta(a, b, 200)) for a, b in ((3, 1), (2, 2), (0.5, 4))]
strata = gp.Pilot.from_counts(np.concatenate(passes), 8, stratum=np.repeat(names, 200))
ax = gp.plot(gp.plan_mix(strata, group_size=8))""",
    ),
    Entry(
        name="dropping",
        shows="Chance that prompts which always or never passed give a mixed group later",
        read="What is dropped is not dead for ever: the second line says what share of the mixed groups goes with it.",
        code="ax = gp.plot(gp.effect_of_dropping(fit, 8))",
    ),
    Entry(
        name="allocation",
        shows="Rollouts of 60 prompts, 3 to 11 each, beside 8 each",
        read="Compare the expected mixed groups in the second line before using it.",
        code="""\
rates = np.random.default_rng(8).beta(0.4, 0.9, 60)
ax = gp.plot(gp.allocate_rollouts(rates, 480))""",
    ),
    Entry(
        name="pass_curve",
        shows="pass@k from 1 to 32: counted to 8, fitted beyond",
        read="Filled marks are unbiased counts; trust the band beyond.",
        code="ax = gp.plot(gp.pass_curve(pilot))",
    ),
    Entry(
        name="pass_comparison",
        shows="pass@k before and after training: higher at k = 1, no higher at k = 16",
        read="The title is the verdict: what was found in many tries is found in fewer, and no more than that.",
        code="""\
rng = np.random.default_rng(9)
p = rng.beta(0.4, 0.9, 600)
after = np.where((p < 0.3) & (rng.random(600) < 0.4), 0.0, 4 * p / (1 + 3 * p))
names = [f"q{i}" for i in range(600)]
first, second = (gp.Pilot.from_counts(rng.binomial(16, x), 16, prompt_id=names) for x in (p, after))
ax = gp.plot(gp.compare_pass(first, second))""",
    ),
    Entry(
        name="pass_tail",
        shows="Local exponents of the unsolved share, and the power law that the counts agree with",
        read="A flat row of marks on the dashed line is a power law; a fall towards 0 is a floor.",
        code="ax = gp.plot(gp.pass_tail(fit))",
    ),
)
RUN = (
    Entry(
        name="composition",
        shows="All-fail, mixed and all-pass groups over 415 steps of the example run",
        read="All-fail shrinks and all-pass grows: the dead groups are prompts that were learnt.",
        code="ax = gp.plot(diagnosis)",
    ),
    Entry(
        name="dead_against_plan",
        shows="Dead fraction of the run, rising above the plan's band from step 255 on",
        read="Only the moving mean with its limits counts against the band, not single rows.",
        code="ax = plots.plot_dead_against_plan(diagnosis)",
    ),
    Entry(
        name="effective_batch_over_steps",
        shows="Mixed share of the groups over the run, below the plan at the end",
        read="With the prompts per step known the axis counts groups.",
        code="ax = plots.plot_effective_batch_over_steps(diagnosis)",
    ),
    Entry(
        name="expectation",
        shows="Dead, all-fail and all-pass shares that the plan expects at G = 6 and 8",
        read="A run is held against these bars.",
        code="""\
from grpo_plan.runs.expectation import Expectation

ax = gp.plot(Expectation.from_plan(plan, group_size=8))""",
    ),
    Entry(
        name="forecast",
        shows="Band of the dead fraction 200 steps ahead, and the chance that it passes 0.55",
        read="The band is of one row, its own noise included.",
        code="""\
dead = run.quantity("dead_fraction")
ax = gp.plot(gp.forecast(run.steps, dead.values, 0.55, groups=128, horizon_steps=200))""",
    ),
    Entry(
        name="quantity",
        shows="The dead fraction as logged, row by row",
        read="The second line says what the numbers are and which metric they come from.",
        code='ax = gp.plot(run.quantity("dead_fraction"))',
    ),
    Entry(
        name="groups",
        shows="All-fail, mixed and all-pass groups counted from logged groups",
        read="Counted, not inferred: needs a log of groups.",
        code="""\
rng = np.random.default_rng(10)
wins = rng.random((400, 8)) < rng.beta(0.5, 0.8, 400)[:, None]
keys = ("step", "input", "output", "gts", "score")  # as verl writes its rollouts
rows = [dict(zip(keys, (i // 20, f"q{i}", "", "", float(x)))) for i in range(400) for x in wins[i]]
Path("dump.jsonl").write_text("\\n".join(map(json.dumps, rows)))
ax = gp.plot(gp.read_groups("dump.jsonl", rollouts_per_prompt=8, pass_threshold=1.0))""",
    ),
    Entry(
        name="recovered",
        shows="Dead fraction at other group sizes, from a mean reward and a dead fraction alone",
        read="The band is everything that agrees with the two numbers; the line takes pass rates for a Beta.",
        code="ax = gp.plot(gp.recover(group_size=8, mean=0.335, dead=0.44, groups=400))",
    ),
    Entry(
        name="recovered_share",
        shows="D(16) recovered from aggregates at G = 8, with its range",
        read="The mark is a guess inside the bar; the bar is sure.",
        code="ax = gp.plot(gp.recover(group_size=8, mean=0.335, dead=0.44).dead(16))",
    ),
    Entry(
        name="recovered_steps",
        shows="D(16) of each row of a log of groups of 8",
        read="As above, step by step.",
        code="ax = gp.plot(gp.recover_steps(np.linspace(0.3, 0.5, 30), np.linspace(0.45, 0.5, 30), 8, [16, 32]))",
    ),
    Entry(
        name="composition_bounds",
        shows="Limits of the all-fail and all-pass shares from mean reward and dead fraction",
        read="Bars hold the share for sure; where they do not overlap, the kinds are told apart.",
        code="ax = gp.plot(gp.composition_bounds(np.linspace(0.3, 0.6, 12), np.full(12, 0.45), 8))",
    ),
)
ARITHMETIC = (
    Entry(
        name="advantages",
        shows="Advantages of five groups: dead ones get 0",
        read="Marks on the line have no gradient.",
        code="""\
rewards = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0]]
ax = gp.plot(gp.advantages(rewards, "grpo"))""",
    ),
    Entry(
        name="amplification",
        shows="Weight of groups by the spread of their rewards: small spreads of 1e-5 keep little",
        read="Right of the second dotted line every gap becomes a full-size advantage.",
        code="""\
rng = np.random.default_rng(11)
rewards = np.r_[(rng.random((30, 8)) < 0.5).astype(float), 0.5 + 1e-5 * rng.random((10, 8)).round(3)]
ax = gp.plot(gp.amplification(rewards, trainer="trl"))""",
    ),
    Entry(
        name="token_weights",
        shows="Weight of a token against the length of its response under TRL's grpo loss",
        read="Above the dashed line a token weighs more than it would with every token alike.",
        code="""\
lengths = np.random.default_rng(12).lognormal(6, 0.6, 64).astype(int)
ax = gp.plot(gp.token_weights(lengths, aggregation="grpo"))""",
    ),
    Entry(
        name="split_weights",
        shows="Real over intended weight of responses by micro-batch, 0.7 to 1.4",
        read="Off the dashed line a response weighs more or less only for the micro-batch that it fell into.",
        code="""\
lengths = np.random.default_rng(12).lognormal(6, 0.6, 64).astype(int)
split = gp.BatchSplit.even(64, micro_batch=8, ranks=2)
ax = gp.plot(gp.split_weights(lengths, split, aggregation="bnpo"))""",
    ),
    Entry(
        name="split_errors",
        shows="Share of the weight that micro-batches of 4 misplace, by aggregation",
        read="0 means that the split changes nothing.",
        code="""\
from grpo_plan.rollouts import Rollouts

rng = np.random.default_rng(13)
wins = (rng.random(640) < np.repeat(rng.beta(0.5, 0.9, 80), 8)).astype(int)
rollouts = Rollouts.from_arrays([f"q{i // 8}" for i in range(640)], wins, rng.lognormal(6, 0.5, 640).astype(int))
ax = gp.plot(gp.split_errors(rollouts, micro_batch=4, ranks=2))""",
    ),
    Entry(
        name="length_bias",
        shows="Share of the weight on long responses by aggregation, beside their share of the rollouts",
        read="Right of the dotted line long responses weigh more than their number.",
        code="""\
from grpo_plan.rollouts import Rollouts

rng = np.random.default_rng(13)
wins = (rng.random(640) < np.repeat(rng.beta(0.5, 0.9, 80), 8)).astype(int)
rollouts = Rollouts.from_arrays([f"q{i // 8}" for i in range(640)], wins, rng.lognormal(6, 0.5, 640).astype(int))
ax = gp.plot(gp.length_bias(rollouts, ["grpo", "dapo"]))""",
    ),
    Entry(
        name="simulation",
        shows="Pass rates of a simulated training with bands over seeds, and the dead fraction on the way",
        read="A model of one logit a prompt: for directions, not for sizes.",
        code="""\
small, short = gp.SimulatedPolicy(prompts=64, held_out=32), gp.SimulatedTraining(steps=60, learning_rate=0.1)
ax = gp.plot(gp.simulate(fit, estimator="rloo", training=short, model=small, seeds=4))""",
    ),
    Entry(
        name="simulation_comparison",
        shows="Final pass rate of four simulated trainings less that of the first",
        read="Where an interval leaves out 0 the trainings differ, in this model.",
        code="""\
small, short = gp.SimulatedPolicy(prompts=64, held_out=32), gp.SimulatedTraining(steps=60)
found = gp.compare_simulations(
    fit, estimators=("rloo", "sign"), group_sizes=(4, 8), training=short, model=small, seeds=4, learning_rates=(0.1,)
)
ax = gp.plot(found)""",
    ),
)
SECTIONS = (
    ("A pilot", PILOT),
    ("A plan", PLAN),
    ("Prompts: temperature, mix, pass@k", PROMPTS),
    ("A run", RUN),
    ("Advantages, losses, simulation", ARITHMETIC),
)
ENTRIES = tuple(entry for _, entries in SECTIONS for entry in entries)
