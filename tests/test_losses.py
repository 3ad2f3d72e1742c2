"""Weights of tokens: exact values, other trainers' own functions, splits, shares with their limits, pulls, refusals."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan import symbolic
from grpo_plan.losses.aggregations import Over, Per
from grpo_plan.losses.registry import AGGREGATIONS
from grpo_plan.losses.shares import by_cluster, share_limits
from grpo_plan.losses.splits import expected_misplaced
from grpo_plan.trainers.registry import known_trainers
from tests.conftest import ROOT
from tests.helpers import assert_mean, assert_rate

DATA = Path(__file__).parent / "data" / "loss_weights.json"
NAMES = sorted(AGGREGATIONS)
LENGTHS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12)
FILLED = st.lists(st.integers(1, 10**4), min_size=2, max_size=12)


def needed(name: str, size: int) -> dict[str, Any]:
    """What an aggregation needs beside lengths."""
    kind = AGGREGATIONS[name]
    found: dict[str, Any] = {"max_tokens": 7.0} if kind.constant else {}
    return found | ({"prompts": list(range(size))} if kind.per is Per.PROMPT else {})


# exact values


def test_lengths_2_and_8() -> None:
    sequence, token = (gp.token_weights([2, 8], aggregation=name) for name in ("grpo", "dapo"))
    assert np.asarray(sequence).tolist() == [1 / 4, 1 / 16]
    assert token.values.tolist() == [1 / 10, 1 / 10]
    assert sequence.response_weights.tolist() == [0.5, 0.5]
    assert sequence.aggregate([1, -1]) == 0.0
    assert token.aggregate([1, -1]) == pytest.approx(-0.6, abs=1e-15)
    assert gp.token_weights([2, 8], aggregation="dr_grpo", max_tokens=10).values.tolist() == [1 / 20, 1 / 20]
    assert gp.token_weights([2, 8], aggregation="luspo").values.tolist() == [1 / 2, 1 / 2]
    assert gp.token_weights([2, 8], aggregation="tinker:sum").values.tolist() == [1.0, 1.0]


@given(lengths=FILLED, constant=st.integers(1, 100))
@settings(max_examples=40, deadline=None)
def test_weights_are_the_symbolic_ones(lengths: list[int], constant: int) -> None:
    for kind in AGGREGATIONS.values():
        over = {Over.TOKENS: "tokens", Over.RESPONSES: "responses", Over.FILLED: "responses", Over.ONE: "nothing"}
        if kind.per is Per.PROMPT:
            continue
        exact = symbolic.loss_weights(
            lengths, "response" if kind.per is Per.RESPONSE else "token", over[kind.over],
            constant if kind.constant else 1,
        )  # fmt: skip
        found = gp.token_weights(lengths, aggregation=kind, max_tokens=constant)
        np.testing.assert_allclose(found.values, [float(w) for w in exact], rtol=1e-14)


def test_a_loss_differentiated_by_sympy_has_these_weights() -> None:
    x = {(i, t): sp.Symbol(f"x{i}{t}") for i, length in enumerate((2, 3)) for t in range(length)}
    rows = [[x[i, t] for t in range(length)] for i, length in enumerate((2, 3))]
    losses = {
        "grpo": sum(sp.Add(*row) / len(row) for row in rows) / 2,
        "dapo": sp.Add(*x.values()) / len(x),
        "dr_grpo": sp.Add(*x.values()) / (2 * 7),
        "luspo": sum(sp.Add(*row) for row in rows) / 2,
        "tinker:sum": sp.Add(*x.values()),
    }
    for name, loss in losses.items():
        found = gp.token_weights([2, 3], aggregation=name, max_tokens=7).values
        for (i, _), symbol in x.items():
            assert float(sp.diff(loss, symbol)) == pytest.approx(found[i], rel=1e-15)


@given(lengths=LENGTHS)
@settings(max_examples=60, deadline=None)
def test_totals_and_signs(lengths: list[int]) -> None:
    filled = sum(length > 0 for length in lengths)
    for name in NAMES:
        kind = AGGREGATIONS[name]
        found = gp.token_weights(lengths, aggregation=name, **needed(name, len(lengths)))
        assert (found.values >= 0).all()
        assert ((found.values > 0) == (np.array(lengths) > 0)).all()
        assert found.empty == len(lengths) - filled
        mean = kind.per is Per.RESPONSE or kind.over is Over.TOKENS or kind.per is Per.PROMPT
        if mean and filled:
            counted = kind.over in (Over.RESPONSES, Over.PROMPTS)  # here each response is a prompt
            assert found.total == pytest.approx(filled / len(lengths) if counted else 1.0, rel=1e-12)
        if not filled:
            assert found.total == 0.0
            assert "No response has a loss token" in found.sentence


def test_masks_and_their_gaps() -> None:
    found = gp.token_weights(mask=[[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], aggregation="grpo")
    assert found.lengths.tolist() == [2.0, 4.0, 0.0]
    assert found.token_values is not None
    expected = np.array([[1 / 6, 0.0, 1 / 6, 0.0], [1 / 12] * 4, [0.0] * 4])
    np.testing.assert_allclose(found.token_values, expected)
    assert found.total == pytest.approx(2 / 3)
    assert found.sentence.startswith("1 response has no loss token; such responses still count in the denominator")
    wide = gp.token_weights(mask=np.ones((2, 5), dtype=bool), aggregation="verl:seq-mean-token-sum-norm")
    assert wide.constant == 5.0
    assert gp.token_weights([4], aggregation="dapo").token_values is None


def test_prompts_weigh_alike_under_prompt_mean() -> None:
    found = gp.token_weights([2, 8, 5, 5], aggregation="prompt_mean", prompts=["a", "a", "b", "b"])
    np.testing.assert_allclose(found.values, [1 / 20] * 4)
    longer = gp.token_weights([2, 8, 50, 50], aggregation="prompt_mean", prompts=["a", "a", "b", "b"])
    assert longer.response_weights[:2].sum() == pytest.approx(0.5)


# names


def test_names_are_found() -> None:
    for name, kind in AGGREGATIONS.items():
        assert gp.get_aggregation(name) is kind
        assert gp.get_aggregation(kind.option, trainer=kind.trainer) is kind
        assert kind.formula.startswith("1")
        assert kind.evidence in ("run", "read")
        assert kind.trainer.removesuffix("-legacy") in known_trainers()
    assert gp.get_aggregation("DAPO").name == "trl:dapo"
    assert gp.get_aggregation("sequence").name == "trl:grpo"
    with pytest.raises(gp.DomainError, match=r"must be one of verl: token-mean, .*; got 'dapo'"):
        gp.get_aggregation("dapo", trainer="verl")
    with pytest.raises(gp.DomainError, match="trainer must be one of trl, verl"):
        gp.get_aggregation("dapo", trainer="nope")
    for bad in ("nope", "", None, 3):
        with pytest.raises(gp.DomainError, match=r"aggregation must be a name of docs/losses\.md, e\.g\. "):
            gp.get_aggregation(bad)  # type: ignore[arg-type]


# other trainers' own functions


@pytest.mark.parametrize("name", sorted(json.loads(DATA.read_text(encoding="utf-8"))["weights"]))
def test_other_trainers_give_these_weights(name: str) -> None:
    told = json.loads(DATA.read_text(encoding="utf-8"))
    batch, theirs = told["batch"], np.array(told["weights"][name])
    mask = np.array(batch["mask"])
    lengths = mask.sum(axis=1)
    split = gp.BatchSplit(rank=batch["rank"], micro=batch["micro"])
    if name == "skyrl:token_mean_legacy":
        split = gp.BatchSplit.even(12, micro_batch=3)
    kind = AGGREGATIONS[name]
    constant = batch["constant"] if kind.trainer != "verl-legacy" else mask.shape[1]
    found = gp.split_weights(lengths, split, aggregation=name, max_tokens=constant, prompts=batch["prompts"])
    np.testing.assert_allclose(found.values[:, None] * mask, theirs, rtol=1e-6, atol=1e-12)
    assert kind.evidence == "run"
    if not kind.immune and kind.over is not Over.ONE:
        assert not found.exact  # the batch tells the reductions apart


# splits


def test_a_mean_of_means() -> None:
    found = gp.split_weights([2, 8], gp.BatchSplit.even(2, micro_batch=1), aggregation="bnpo")
    assert found.values.tolist() == [1 / 4, 1 / 16]
    assert found.misplaced == pytest.approx(0.3)
    assert (found.largest_ratio, found.smallest_ratio) == (2.5, 0.625)
    assert found.total == 1.0
    assert not found.exact
    assert repr(found) == "<SplitWeights trl:bnpo: 1 ranks, 2 micro-batches, total 1>"


def test_ranks_with_other_numbers_of_micro_batches() -> None:
    split = gp.BatchSplit(rank=[0, 0, 1], micro=[0, 1, 0])  # type: ignore[arg-type]
    assert gp.split_weights([2, 8, 4], split, aggregation="grpo").values.tolist() == [1 / 8, 1 / 32, 1 / 8]
    legacy = gp.split_weights([2, 8, 4], split, aggregation="verl-legacy:token-mean")
    assert legacy.values.tolist() == [1 / 8, 1 / 32, 1 / 8]
    uneven = gp.BatchSplit(rank=[0, 0, 0], micro=[0, 0, 1])  # type: ignore[arg-type]
    expected = {"easyr1:seq": [3 / 28, 3 / 56, 1 / 14], "trl:grpo": [1 / 8, 1 / 16, 1 / 16],
                "verl-legacy:token-mean": [1 / 9, 1 / 9, 1 / 24]}  # fmt: skip
    for name, values in expected.items():
        found = gp.split_weights([2, 4, 8], uneven, aggregation=name)
        np.testing.assert_allclose(found.values, values, rtol=1e-14)


@st.composite
def splits(draw: st.DrawFn) -> tuple[list[int], gp.BatchSplit]:
    ranks, each = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, 1000), min_size=ranks * each, max_size=ranks * each))
    return lengths, gp.BatchSplit.even(ranks * each, micro_batch=draw(st.integers(1, 6)), ranks=ranks)


@given(case=splits())
@settings(max_examples=60, deadline=None)
def test_splits(case: tuple[list[int], gp.BatchSplit]) -> None:
    lengths, split = case
    sizes = {int(c) for c in np.bincount(split.codes)}
    for name in NAMES:
        kind = AGGREGATIONS[name]
        found = gp.split_weights(lengths, split, aggregation=name, **needed(name, len(lengths)))
        assert found.misplaced is not None
        assert -1e-12 <= found.misplaced <= 1.0
        if kind.immune or split.codes.max() == 0:
            assert found.exact
            assert found.misplaced == pytest.approx(0.0, abs=1e-12)
        if kind.split_effect != "yes" and len(sizes) == 1:
            assert found.misplaced == pytest.approx(0.0, abs=1e-12)
        if kind.over is Over.TOKENS or (kind.per is Per.RESPONSE):
            assert found.total == pytest.approx(1.0, rel=1e-9)


@given(parts=st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_split_weights_are_the_symbolic_ones(parts: list[list[int]]) -> None:
    lengths = [length for part in parts for length in part]
    micro = [b for b, part in enumerate(parts) for _ in part]
    split = gp.BatchSplit(rank=[0] * len(lengths), micro=micro)  # type: ignore[arg-type]
    for name, per, over in (("bnpo", "token", "tokens"), ("grpo", "response", "responses")):
        exact = [w for own in symbolic.split_loss_weights(parts, per, over) for w in own]
        found = gp.split_weights(lengths, split, aggregation=name)
        np.testing.assert_allclose(found.values, [float(w) for w in exact], rtol=1e-13)
        whole = symbolic.loss_weights(lengths, per, over)
        real, intended = ([w * n for w, n in zip(ws, lengths, strict=True)] for ws in (exact, whole))
        assert found.misplaced == pytest.approx(float(symbolic.misplaced_weight(real, intended)), abs=1e-12)
    tokens = [sum(part) for part in parts]
    assert gp.split_weights(lengths, split, aggregation="bnpo").misplaced == pytest.approx(
        sum(abs(1 / len(parts) - t / sum(tokens)) for t in tokens) / 2, abs=1e-12
    )


def test_misplaced_weight_of_random_splits_is_about_what_is_expected() -> None:
    rng = np.random.default_rng(4)
    lengths = np.ceil(rng.lognormal(6.0, 0.8, size=256))
    for b in (4, 16):
        expected = expected_misplaced(lengths, b)
        spread = float(lengths.std() / lengths.mean())
        assert expected == pytest.approx(float(symbolic.expected_misplaced(spread, b, 256)), rel=1e-12)
        found = [
            gp.split_weights(
                lengths,
                gp.BatchSplit(rank=np.zeros(256, dtype=np.int64), micro=rng.permutation(256) // b),
                aggregation="bnpo",
            ).misplaced
            for _ in range(300)
        ]
        assert float(np.mean(np.array(found, dtype=float))) == pytest.approx(expected, rel=0.06)


# shares, pushes and pulls of rollouts


def some_rollouts(seed: int = 0, prompts: int = 60, size: int = 8) -> gp.Rollouts:
    rng = np.random.default_rng(seed)
    rates = rng.beta(0.5, 0.7, size=prompts)
    reward = (rng.random((prompts, size)) < rates[:, None]).astype(float)
    effect = rng.normal(0, 0.4, size=(prompts, 1))
    tokens = np.ceil(np.exp(5.5 - 0.5 * reward + effect + rng.normal(0, 0.6, size=(prompts, size))))
    group = np.repeat(np.arange(prompts), size)
    return gp.Rollouts.from_arrays(group, reward.ravel(), tokens.ravel())


def test_shares_are_those_of_the_weights() -> None:
    rollouts = some_rollouts()
    bias = gp.length_bias(rollouts, ["grpo", "dapo", "dr_grpo", "prompt_mean"])
    advantages = gp.rollout_advantages(rollouts)
    tokens = rollouts.tokens
    for row in bias.rows:
        assert row.aggregation is not None
        weights = gp.token_weights(
            tokens, aggregation=row.aggregation, max_tokens=5, prompts=rollouts.group.tolist()
        ).response_weights  # fmt: skip
        shares = weights / weights.sum()
        assert bias.median_tokens is not None
        long = tokens > bias.median_tokens
        wrong = ~rollouts.passed
        assert row.long.value == pytest.approx(shares[long].sum())
        assert row.wrong.value == pytest.approx(shares[wrong].sum())
        assert row.longest.value == pytest.approx(shares[tokens > np.quantile(tokens, 0.9)].sum())
        mixed = rollouts.mixed[rollouts.group]
        assert row.mixed.value == pytest.approx(shares[mixed].sum())
        kinds = (row.mixed, row.all_pass, row.all_fail, row.unscored)
        assert sum(k.value for k in kinds if k.value is not None) == pytest.approx(1.0)
        pushed = shares * np.abs(advantages)
        assert row.gradient_wrong.value == pytest.approx(pushed[wrong].sum() / pushed.sum())
        assert row.net.value == pytest.approx(float(advantages @ shares), abs=1e-12)
        per_token = shares / tokens
        assert row.pull.value == pytest.approx(float((advantages * per_token) @ (tokens - tokens.mean())), abs=1e-12)
        for limits in (row.long, row.longest, row.wrong, row.mixed, row.net, row.pull):
            assert limits.value is not None
            assert limits.low is not None
            assert limits.high is not None
            assert limits.low <= limits.value <= limits.high
    grpo, dapo, dr_grpo, _ = bias.rows
    assert (dapo.long, dapo.net) == (dr_grpo.long, dr_grpo.net)
    assert grpo.net.value == pytest.approx(0.0, abs=1e-12)
    assert grpo.wrong.value == bias.rollouts.wrong.value


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-3, 3)), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_identities_of_the_pushes(pairs: list[tuple[int, int]]) -> None:
    lengths = [sp.Integer(length) for length, _ in pairs]
    mean = sp.Rational(sum(a for _, a in pairs), len(pairs))
    a = [sp.Integer(x) - mean for _, x in pairs]
    n, total = len(pairs), sp.Add(*lengths)
    covariance = sp.Add(*(x * (length - total / n) for x, length in zip(a, lengths, strict=True))) / n
    token, response = symbolic.loss_weights(lengths), symbolic.loss_weights(lengths, "response", "responses")
    assert symbolic.net_push(a, lengths, token) == covariance / (total / n) == symbolic.length_pull(a, lengths, token)
    assert symbolic.net_push(a, lengths, response) == 0
    inverse = [1 / length for length in lengths]
    other = sp.Add(*(x * (v - sp.Add(*inverse) / n) for x, v in zip(a, inverse, strict=True))) / n
    assert symbolic.length_pull(a, lengths, response) == -total / n * other
    found = gp.token_weights([int(v) for v in lengths]).aggregate([float(v) for v in a])
    assert found == pytest.approx(float(symbolic.net_push(a, lengths, token)), abs=1e-9)


def test_the_score_of_stopping_and_the_slope_of_the_mean_reward() -> None:
    theta, h = sp.symbols("theta h")
    chance = 1 / (1 + sp.exp(-theta))
    for length in (1, 2, 5):
        log_law = (length - 1) * sp.log(1 - chance) + sp.log(chance)
        slope = sp.diff(log_law, theta)
        assert sp.simplify(slope - symbolic.stop_score(chance, length)) == 0
    longest = 4  # a response passes if it is no longer: exact mean reward 1 - (1 - h)**4
    reward = (1 - (1 - chance) ** longest).subs(theta, sp.log(h / (1 - h)))
    true_slope = sp.diff(1 - (1 - h) ** longest, h) * h * (1 - h)
    law = [h * (1 - h) ** (length - 1) for length in range(1, longest + 1)]
    token = sp.Add(*(p * symbolic.stop_score(h, length) for length, p in enumerate(law, start=1)))
    response = sp.Add(*(p * symbolic.stop_score(h, length) / length for length, p in enumerate(law, start=1)))
    assert sp.simplify(token - true_slope) == 0
    assert sp.simplify(reward - (1 - (1 - h) ** longest)) == 0
    ratio = [(response / true_slope).subs(h, sp.Rational(1, k)) for k in (2, 10)]
    assert ratio[0] != ratio[1]  # no multiple of the slope either


def test_what_holds_by_construction_has_no_spread() -> None:
    """Right and wrong cancel within a group of grpo; one-sided estimators move one kind. Mutant: bounds of 0 and 1."""
    rollouts = some_rollouts(3, prompts=60)
    grpo, dapo = gp.length_bias(rollouts, ["grpo", "dapo"]).rows
    for end in (grpo.gradient_wrong.low, grpo.gradient_wrong.value, grpo.gradient_wrong.high):
        assert end == pytest.approx(0.5, abs=1e-9)
    low, high = dapo.gradient_wrong.low, dapo.gradient_wrong.high
    assert low is not None
    assert high is not None
    assert 0.0 < high - low < 0.2
    few = gp.length_bias(some_rollouts(3, prompts=4), ["grpo", "dapo"]).rows
    assert few[0].gradient_wrong.low == pytest.approx(0.5)  # an identity needs no prompts
    assert few[1].gradient_wrong.low is None or few[1].gradient_wrong.low < 0.5
    assert grpo.wrong.high is not None
    assert grpo.wrong.low is not None
    assert grpo.wrong.high - grpo.wrong.low > 0.05  # shares of rollouts vary all the same


def test_an_empty_response_unbalances_its_group() -> None:
    rollouts = gp.Rollouts.from_arrays([0, 0, 0, 0, 1, 1], [1, 1, 0, 0, 1, 0], [5, 7, 0, 9, 4, 4])
    wrong = gp.length_bias(rollouts, ["grpo"]).rows[0].gradient_wrong
    assert wrong.value is not None
    assert wrong.low is not None
    assert wrong.value < 0.5
    assert wrong.low < wrong.value


def test_limits_are_those_of_theory() -> None:
    rng = np.random.default_rng(5)
    part, whole = rng.random(40), 1.0 + rng.random(40)
    found = share_limits(part, whole, 320.0, 0.95)
    from scipy.stats import beta, norm, t

    share = float(symbolic.weight_share(part.tolist(), whole.tolist()))
    variance = 40 / 39 * ((part - share * whole) ** 2).sum() / whole.sum() ** 2
    count = min(float(symbolic.equivalent_rollouts(share, variance)) * (norm.ppf(0.025) / t.ppf(0.025, 39)) ** 2, 320.0)
    x = share * count
    assert found.value == pytest.approx(share)
    assert (found.low, found.high) == pytest.approx(
        (beta.ppf(0.025, x, count - x + 1), beta.ppf(0.975, x + 1, count - x))
    )
    nothing = share_limits(np.zeros(40), whole, 320.0, 0.95)
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert nothing.high == pytest.approx(1 - 0.025 ** (1 / 40))
    assert share_limits(part[:1], whole[:1], 8.0, 0.95).low is None
    assert share_limits(part * 0, whole * 0, 8.0, 0.95).value is None


def test_limits_of_pushes_are_from_their_derivatives_by_prompt() -> None:
    """How much net push and pull move when a prompt counts a little more, by differences, gives their limits."""
    from scipy.stats import t

    prompts = 25
    rollouts = some_rollouts(7, prompts=prompts)
    advantages, tokens, code = gp.rollout_advantages(rollouts), rollouts.tokens, rollouts.group

    def pushes(counts: Any, per_token: Any) -> Any:
        w = counts[code]
        mean = (w * tokens).sum() / w.sum()
        total = (w * per_token * tokens).sum()
        net = (w * advantages * per_token * tokens).sum() / total
        return np.array([net, (w * advantages * per_token * (tokens - mean)).sum() / total])

    for row, per_token in zip(gp.length_bias(rollouts).rows, (1 / tokens, np.ones(tokens.size)), strict=True):
        step = 1e-5 * np.eye(prompts)
        slopes = np.array([(pushes(1 + e, per_token) - pushes(1 - e, per_token)) / 2e-5 for e in step])
        for limits, slope in zip((row.net, row.pull), slopes.T, strict=True):
            half = np.sqrt(prompts / (prompts - 1) * (slope**2).sum()) * t.ppf(0.975, prompts - 1)
            assert limits.high is not None
            assert limits.value is not None
            assert limits.high - limits.value == pytest.approx(half, rel=1e-6, abs=1e-10)


@pytest.mark.slow
def test_limits_hold_what_they_promise() -> None:
    """True shares and pulls from 40,000 prompts; 95 % limits from 80 prompts hold them in at least 92 % of 400 pilots."""
    names = ["grpo", "dapo"]
    truth = gp.length_bias(some_rollouts(99, prompts=40_000), names)
    bounds = (truth.median_tokens or 0.0, truth.decile_tokens or 0.0)
    hits = {(i, what): 0 for i in range(2) for what in ("wrong", "mixed", "gradient_wrong", "net", "pull")}
    long_hits = 0
    for seed in range(400):
        rollouts = some_rollouts(seed + 1000, prompts=80)
        found = gp.length_bias(rollouts, names)
        for i, what in hits:
            limits, true = getattr(found.rows[i], what), getattr(truth.rows[i], what).value
            hits[i, what] += limits.low - 1e-9 <= true <= limits.high + 1e-9
        weight, code = rollouts.tokens, rollouts.group
        part, whole = (by_cluster(w, code, 80) for w in (weight * (weight > bounds[0]), weight))
        limits = share_limits(part, whole, 640.0, 0.95)
        assert limits.low is not None
        assert limits.high is not None
        long_hits += limits.low <= (truth.rows[1].long.value or 0.0) <= limits.high
    assert min(hits.values()) >= 0.92 * 400, hits
    assert long_hits >= 0.92 * 400
    assert_rate(hits[1, "net"], 400, 0.95, catches=0.1)


def test_monte_carlo_of_the_slope() -> None:
    """Lengths with a constant chance of stopping, a pass if at most 4 long: eq. 116 gives the slope of the pass rate."""
    rng = np.random.default_rng(6)
    h = 0.1
    lengths = rng.geometric(h, size=(40_000, 8)).astype(float)
    right = (lengths <= 4).astype(float)
    score = np.array([float(symbolic.stop_score(h, n)) for n in range(int(lengths.max()) + 1)])[lengths.astype(int)]
    slope = 4 * h * (1 - h) ** 4
    assert_mean((right * score).mean(axis=1), slope, catches=0.01)
    centred = (right - right.mean(axis=1, keepdims=True)) * 8 / 7  # a leave-one-out baseline changes no mean
    assert_mean((centred * score).mean(axis=1), slope, catches=0.01)
    by_response = (right * score / lengths).mean(axis=1)  # means of responses: another quantity, and no multiple
    other = sum(h * (1 - h) ** (n - 1) * (1 - h * n) / n for n in range(1, 5))
    assert_mean(by_response, other, catches=0.01)
    assert abs(other - slope) > 0.05


def test_only_means_are_known() -> None:
    pilot = gp.Pilot.from_counts([1, 2, 0], 4, pass_tokens=[100, 200, np.nan], fail_tokens=[300, 400, 500])
    rollouts = gp.Rollouts.from_pilot(pilot)
    assert rollouts.lengths is gp.RolloutLengths.MEANS
    bias = gp.length_bias(rollouts, ["grpo", "dapo"])
    assert bias.median_tokens is None
    for row in bias.rows:
        assert row.long.value is row.longest.value is row.gradient_long.value is None
    assert bias.rows[0].wrong.value == pytest.approx(9 / 12)
    assert bias.rows[1].wrong.value == pytest.approx((900 + 800 + 2000) / (1000 + 1200 + 2000))
    assert bias.rows[0].pull.value is None
    assert bias.rows[1].pull.value is not None
    with pytest.raises(gp.PilotError, match=r"splits need the length of each rollout\. Only mean lengths"):
        gp.split_errors(rollouts, micro_batch=2)


def test_groups_are_tracked_apart() -> None:
    nan = float("nan")
    group = [0, 0, 1, 1, 2, 2, 3, 3, 4]
    reward = [1, 0, 1, 1, 0, 0, 1, nan, 1]
    rollouts = gp.Rollouts.from_arrays(group, reward, [10] * 9)
    assert rollouts.kinds == {"mixed": 1, "all_pass": 1, "all_fail": 1, "unscored": 2}
    row = gp.length_bias(rollouts, ["dapo"]).rows[0]
    found = [getattr(row, name).value for name in ("mixed", "all_pass", "all_fail", "unscored", "failed", "wrong")]
    assert found == pytest.approx([2 / 9, 2 / 9, 2 / 9, 3 / 9, 1 / 9, 3 / 9])
    assert gp.rollout_advantages(rollouts, "dr_grpo").tolist() == [0.5, -0.5, 0, 0, 0, 0, 0, 0, 0]
    assert gp.rollout_advantages(rollouts, "sign").tolist() == [1, -1, 1, 1, -1, -1, 1, 0, 1]
    dead = gp.length_bias(gp.Rollouts.from_arrays([0, 0, 1, 1], [0, 0, 1, 1], [1, 2, 3, 4]), ["dapo"]).rows[0]
    assert dead.gradient_wrong.value is None  # no advantage anywhere
    assert dead.net.value == 0.0


def test_split_errors_of_a_pilot() -> None:
    rollouts = some_rollouts(prompts=40)
    found = gp.split_errors(
        rollouts, ["grpo", "bnpo", "dapo", "dr_grpo"], micro_batch=4, ranks=2, prompts_per_step=16, steps=40, seed=3
    )
    grpo, bnpo, dapo, dr_grpo = found.rows
    assert grpo.misplaced == pytest.approx(0, abs=1e-12)
    assert dapo.misplaced == 0.0
    assert dr_grpo.misplaced == pytest.approx(0, abs=1e-12)
    assert 0.05 < bnpo.misplaced_low <= bnpo.misplaced <= bnpo.misplaced_high < 0.5
    assert bnpo.largest_ratio > 1.2
    again = gp.split_errors(rollouts, ["bnpo"], micro_batch=4, ranks=2, prompts_per_step=16, steps=40, seed=3)
    assert again.rows[0] == bnpo
    assert found.responses == 128
    with pytest.raises(gp.DomainError, match="fewer than 500 ranks"):
        gp.split_errors(rollouts, micro_batch=1, ranks=500, prompts_per_step=4)


# refusals

BAD_LENGTHS = [
    ([], "lengths must be a list with one number a response"),
    (5, "lengths must be a list"),
    ([[1, 2]], r"got shape \(1, 2\)"),
    ([1, -1], "whole numbers of tokens from 0 to 1e12; got -1 at index 1"),
    ([1, 2.5], "got 2.5 at index 1"),
    ([float("nan")], "got nan at index 0"),
    ([float("inf")], "got inf at index 0"),
    ([10**13], "got 1e\\+13"),
    (["2", "8"], "must be numbers; got text or objects"),
    ([None, 2], "must be numbers; got text or objects"),
    ([[1], [1, 2]], "lists of different lengths"),
    ([1 + 2j], "complex"),
]


@pytest.mark.parametrize(("lengths", "says"), BAD_LENGTHS)
def test_bad_lengths(lengths: Any, says: str) -> None:
    with pytest.raises(gp.DomainError, match=says) as error:
        gp.token_weights(lengths)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: gp.token_weights(), "takes lengths, or a mask"),
        (lambda: gp.token_weights([1], mask=[[1]]), "and not both"),
        (lambda: gp.token_weights(mask=[1, 0]), r"mask must have shape \(responses, tokens\)"),
        (lambda: gp.token_weights(mask=[[0.5]]), "mask must hold 0 and 1 alone; got 0.5 at response 0, token 0"),
        (lambda: gp.token_weights([1], aggregation="dr_grpo"), "divides by a constant, its max_completion_length"),
        (lambda: gp.token_weights([1], aggregation="dr_grpo", max_tokens=0), "max_tokens must be finite and above 0"),
        (lambda: gp.token_weights([1], aggregation="prompt_mean"), "a mean over prompts. Give the prompt"),
        (lambda: gp.token_weights([1], aggregation="prompt_mean", prompts=["a", "b"]), "one name a response, 1 in all"),
        (lambda: gp.token_weights([1, 2]).aggregate([1]), "one number a response, 2 in all"),
        (lambda: gp.token_weights([1]).aggregate([float("nan")]), "advantages must be finite; got nan at index 0"),
        (lambda: gp.token_weights([0, 0]).shares, "no share of the weight exists"),
        (lambda: gp.BatchSplit.even(8, micro_batch=2, ranks=3), "cannot be shared out equally to 3 ranks"),
        (lambda: gp.BatchSplit(rank=[0, 2], micro=[0, 0]), "without gaps"),  # type: ignore[arg-type]
        (lambda: gp.BatchSplit(rank=[0, 0], micro=[0, 2]), "without gaps"),  # type: ignore[arg-type]
        (lambda: gp.BatchSplit(rank=[0], micro=[0, 1]), "one length"),  # type: ignore[arg-type]
        (lambda: gp.BatchSplit(rank=[0.5], micro=[0]), "whole numbers"),  # type: ignore[arg-type]
        (lambda: gp.split_weights([1, 2], gp.BatchSplit.even(3, micro_batch=1)), "of 3 responses, but there are 2"),
        (lambda: gp.split_weights([1, 2], 2), "split must be a BatchSplit; got int"),  # type: ignore[arg-type]
        (lambda: expected_misplaced([0, 0], 1), "no weight can be misplaced"),
        (lambda: gp.length_bias(3), "rollouts must be a Rollouts"),  # type: ignore[arg-type]
        (lambda: gp.length_bias(gp.Rollouts.from_arrays([0, 0], [1, 0])), "needs its length. No lengths: name"),
        (lambda: gp.length_bias(gp.Rollouts.from_arrays([0, 0], [1, 0], [0, 0])), "no response has a token"),
        (lambda: gp.length_bias(some_rollouts(), []), "must name at least one"),
        (lambda: gp.length_bias(some_rollouts(), estimator="nope"), "estimator must be one of"),
        (lambda: gp.Rollouts.from_arrays([0], [1], [-1]), "tokens must be at least 0 and finite; got -1"),
        (lambda: gp.Rollouts.from_arrays([0, 1], [1]), "lists of one length"),
        (lambda: gp.Rollouts.from_arrays([0], ["x"]), "lists of one length"),
    ],
)
def test_refusals(call: Any, says: str) -> None:
    with pytest.raises((gp.DomainError, gp.PilotError), match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_odd_but_defined() -> None:
    one = gp.token_weights([7], aggregation="grpo")
    assert one.response_weights.tolist() == [1.0]
    assert "0/0, which is NaN" in gp.token_weights([0], aggregation="verl:token-mean").sentence
    assert "is 0." in gp.token_weights([0], aggregation="dapo").sentence
    huge = gp.token_weights([10**12, 1], aggregation="dapo")
    assert huge.total == pytest.approx(1.0)
    assert huge.shares[0] == pytest.approx(1.0)
    assert np.asarray(one, dtype=np.float32).dtype == np.float32
    assert repr(huge).startswith("<TokenWeights trl:dapo: 2 responses, total 1")
    empty = gp.split_weights([0, 0], gp.BatchSplit.even(2, micro_batch=1), aggregation="bnpo")
    assert (empty.misplaced, empty.largest_ratio, empty.total) == (None, None, 0.0)
    lone = gp.length_bias(gp.Rollouts.from_arrays([0, 0], [1, 0], [2, 8])).rows[1]
    assert (lone.wrong.value, lone.wrong.low) == (0.8, None)  # one prompt tells nothing of prompts
    some = gp.length_bias(gp.Rollouts.from_arrays([0, 0, 1], [1, 0, 0], [2, float("nan"), 0]))
    assert (some.counted, some.unknown, some.empty) == (2, 1, 1)


def test_the_page_lists_every_aggregation() -> None:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    page = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")
    assert make_docs.with_aggregations(page) == page
    assert all(f"`{name}`" in page for name in NAMES)
