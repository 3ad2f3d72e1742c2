"""One result of every type, and some that know little, for the tests of what is shown of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import grpo_plan as gp
from grpo_plan._shown import Shown
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, example_run_lines
from grpo_plan.report.result import Report
from tests.conftest import pilot_of

NAME = '<script>alert("$x$ | *y*")</script>\n`z`'  # a prompt, a stratum or a file as an attacker names it


def _rollouts() -> gp.Rollouts:
    rng = np.random.default_rng(3)
    rewards = (rng.random(160) < np.repeat(rng.random(20), 8)).astype(float)
    rewards[5] = np.nan
    return gp.Rollouts.from_arrays(np.repeat(np.arange(20), 8), rewards, tokens=rng.integers(5, 900, 160))


def _measured(**options: Any) -> gp.KappaMeasurement:
    rng = np.random.default_rng(1)
    lengths = rng.gamma(2.0, size=40)
    norms = {g: lengths * (1 + 12 / (g - 1)) * rng.gamma(9.0, 1 / 9, 40) for g in (4, 16)}
    return gp.measure_kappa(norms, resamples=100, **options)


@cache
def fitted() -> gp.PassRateFit:
    """The fit of the packaged pilot."""
    return gp.fit_pass_rates(pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES))


@cache
def example_run() -> gp.RunLog:
    """The packaged run."""
    return gp.read_run([json.loads(line) for line in example_run_lines()])


@cache
def planned() -> gp.Plan:
    """A plan of the packaged pilot."""
    return gp.plan_group_size(fitted(), budget=gp.Budget(rollouts=2_000_000, steps=500))


@cache
def diagnosed() -> gp.Diagnosis:
    """The packaged run against its plan."""
    return gp.diagnose(example_run(), planned())


def _group_log() -> gp.GroupLog:
    rows = [
        {
            "input": NAME if p == 0 else f"p{p}",
            "output": "",
            "gts": "",
            "score": float(i < p),
            "step": s,
            "uid": f"{p}_{i}_0",
        }
        for s in (1, 2)
        for p in range(5)
        for i in range(4)
    ]
    with TemporaryDirectory() as folder:
        for step in (1, 2):
            lines = [json.dumps(row) for row in rows if row["step"] == step]
            Path(folder, f"{step}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return gp.read_groups(str(Path(folder, "*.jsonl")), details=True)


def rows_frame(rows: list[dict[str, Any]]) -> Any:
    """Rows as a dataframe."""
    import polars as pl

    return pl.DataFrame(rows)


@cache
def examples() -> dict[str, Shown]:
    """A result of every type by a name that says what it is; the ones after the first of a type know less."""
    fit, plan, run, diagnosis = fitted(), planned(), example_run(), diagnosed()
    named = gp.Pilot.from_counts(
        [0, 3, 8, 4], 8, prompt_id=[NAME, "b", "c", "d"], stratum=[NAME, "x", "x", NAME], notes=(NAME,)
    )
    strata = gp.Pilot.from_counts(
        [0] * 40 + [4] * 50 + [8] * 30 + [3] * 40 + [7] * 40, 8, stratum=[NAME] * 90 + ["easy"] * 110
    )
    ids = [f"q{i}" for i in range(100)]
    both = gp.Pilot.from_counts(
        [8] * 30 + [4] * 40 + [0] * 30 + [8] * 50 + [2] * 20 + [0] * 30,
        8,
        prompt_id=ids + ids,
        temperature=[1.0] * 100 + [0.6] * 100,
    )
    rollouts, refilled = _rollouts(), gp.refill(fit, prompts_per_step=64, group_size=8, max_rounds=4, steps=100)
    remedies = gp.compare_remedies(fit, 8, estimators=("rloo", "sign", "grpo"), group_sizes=(4,))
    training = gp.SimulatedTraining(group_size=4, rollouts_per_step=32, steps=6)
    simulated = gp.simulate([0.1, 0.4, 0.6], estimator="rloo", training=training, seeds=2, every=2)
    compared = gp.compare_simulations(
        [0.1, 0.4, 0.6],
        estimators=("rloo", "sign"),
        group_sizes=(4,),
        learning_rates=(0.1,),
        training=training,
        seeds=2,
    )
    weights = gp.token_weights([2, 8, 0], aggregation="grpo")
    bias = gp.length_bias(rollouts)
    errors = gp.split_errors(rollouts, micro_batch=4, ranks=2, prompts_per_step=4, steps=20)
    independence = gp.read_independence(
        rows_frame([{"prompt_id": f"q{i % 9}", "reward": i % 3 == 0} for i in range(90)])
    )
    unknown = gp.fit_pass_rates(gp.Pilot.from_counts([0, 1, 1, 0, 1] * 8, 1))
    dead = gp.fit_pass_rates(gp.Pilot.from_counts([0] * 30 + [4] * 30, 4))
    rare = gp.fit_pass_rates(pilot_of((60, 1, 0, 0, 0, 0, 0, 0, 0)))
    design = gp.Design(group_size=6, prompts_per_step=40, steps=500)
    rules = gp.rules_for("trl", gp.Hardware(gpus=8, micro_batch=4))
    sized = gp.plan_pilot((0.3, 0.3), target_group_size=8, half_width=0.06, rollouts_per_prompt=[2, 8])
    recovered = gp.recover(mean=0.4, group_size=8, dead=0.5)
    checks = gp.check_sequences([[1, 0, 1, 0], [0, 0, 1, 1]] * 10)
    finding, expectation = diagnosis.findings[0], diagnosis.facts.expectation
    assert expectation is not None
    return {
        "pilot": fit.pilot,
        "pilot with odd names": named,
        "histogram": fit.pilot.histogram(),
        "histogram pilot": fit.pilot.as_histogram(),
        "provenance": named.provenance,
        "fit": fit,
        "fit of single rollouts": unknown,
        "fit of dead groups": dead,
        "fit without a pass": gp.fit_pass_rates(gp.Pilot.from_counts([0] * 30, 4)),
        "fit of one prompt": gp.fit_pass_rates(gp.Pilot.from_counts([3], 8)),
        "dead": fit.dead(16),
        "dead, unknown": unknown.dead(8),
        "estimate": fit.pass_at(32),
        "estimates compared": gp.compare_estimates(fit, [16])[0],
        "pass curve": gp.pass_curve(fit, ks=[1, 8, 64]),
        "pass compared": gp.compare_pass(pilot_of((60, 20, 10, 6, 4)), pilot_of((70, 5, 5, 5, 15))),
        "pass tail": gp.pass_tail(fit),
        "independence": independence,
        "sessions": gp.check_independence([[4, 0], [0, 3], [1, 4], [4, 0]] * 10, 4),
        "sequences": checks,
        "duplicates": gp.duplicate_rollouts(["a", "a", "b"], ["x", "x", "y"]),
        "pilot plan": sized,
        "pilot size": sized.options[0],
        "effective batch": gp.effective_batch(fit, prompts_per_step=128, group_size=8),
        "effective batch of a list": gp.effective_batch_of_list([0.0, 0.5, 1.0], group_size=4),
        "count": gp.effective_batch(fit, prompts_per_step=128, group_size=8).mixed_groups,
        "refill": refilled,
        "refill that may never fill": gp.refill(rare, prompts_per_step=8, group_size=2, level=1 - 1e-12),
        "refill at": refilled.at_value,
        "adaptive": gp.adaptive_sampling(fit, max_group_size=8),
        "sampling": gp.compare_sampling(fit, refilled)[2],
        "plan": plan,
        "planned design": plan.recommended,
        "mix": gp.plan_mix(strata, group_size=8, kappa=10.0),
        "dropping": gp.effect_of_dropping(fit, 8),
        "allocation": gp.allocate_rollouts([0.05, 0.5, 0.2], 24),
        "kappa": _measured(),
        "block": gp.emit(gp.Design(group_size=16, prompts_per_step=64, steps=500), trainer="trl"),
        "solved": gp.solve_design(gp.Budget(rollouts=10_000, steps=100), gp.CostModel(), gp.GroupContent.of(fit, 8)),
        "unsolved": gp.solve_design(gp.Budget(rollouts=10, steps=100), gp.CostModel(), gp.GroupContent.of(fit, 8)),
        "nearest": gp.nearest_design(rules, design),
        "throughput": gp.estimate_throughput([45, 62, 51, 70, 48, 66], [4e5, 7.5e5, 5.2e5, 9e5, 4.5e5, 8.1e5]),
        "lengths": gp.token_lengths(fit.pilot),
        "cost": plan.recommended.cost,
        "temperature": gp.plan_temperature(both, group_size=4),
        "dead counts": gp.compare_dead_counts({0.6: (20, 60), 1.0: (18, 60)}),
        "run": run,
        "groups": _group_log(),
        "quantity": run.quantity("dead_fraction"),
        "absent": run.quantity("entropy"),
        "diagnosis": diagnosis,
        "finding": finding,
        "remedy": next(r for f in diagnosis.findings for r in f.remedies),
        "waste": next(f.waste for f in diagnosis.findings if f.waste is not None),
        "report": Report(title=NAME, missing={"refill": NAME}, _document=_payload()),
        "alert": gp.Alert(
            step=9, id="STARVED", severity=gp.Severity("critical"), says=NAME, remedy="Stop.", new=_news()
        ),
        "forecast": gp.forecast(np.arange(20), np.linspace(0.2, 0.4, 20), 0.5, groups=np.full(20, 64)),
        "forecast, too short": gp.forecast([1, 2], [0.2, 0.3], 0.5, groups=[64, 64]),
        "expectation": expectation,
        "recovered": recovered,
        "recovered share": recovered.dead(16),
        "recovered steps": gp.recover_steps([0.4, np.nan], [0.5, 0.4], 8, [4, 16]),
        "advantages": gp.advantages([[1, None, 0], [0, 0, 0]], "grpo"),
        "amplification": gp.amplification([[0.51, 0.5, 0.5], [1, 0, 0]], "grpo"),
        "aggregation": gp.get_aggregation("dapo"),
        "token weights": weights,
        "split weights": gp.split_weights(
            [2, 8, 4, 4], gp.BatchSplit.even(4, micro_batch=2), aggregation="bnpo", trainer="trl"
        ),
        "length bias": bias,
        "weight shares": bias.rows[0],
        "split errors": errors,
        "split error": errors.rows[0],
        "rollouts": rollouts,
        "remedies": remedies,
        "estimator effect": remedies.estimators[1],
        "sampling effect": remedies.sampling[-1],
        "simulation": simulated,
        "simulations compared": compared,
    }


def _payload() -> dict[str, Any]:
    return {"verdict": {"status": "OK", "sentences": ["0.439 [0.411, 0.467] of the groups are dead."]}}


def _news() -> Any:
    from grpo_plan.runs.alerts import News

    return News.RAISED
