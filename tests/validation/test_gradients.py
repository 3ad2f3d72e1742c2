"""Exact gradients and banks of the validation study: against plain autograd, `gp.GradientProbe`, and the committed results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import grpo_plan as gp  # noqa: E402
from figures.validation import bank as banks  # noqa: E402
from figures.validation import scores  # noqa: E402
from figures.validation.gradients_page import prompts_of, results  # noqa: E402
from figures.validation.model import Decoder, Shape  # noqa: E402
from figures.validation.moments import Prompts, group_squares, kappa  # noqa: E402
from figures.validation.policy import log_probabilities, pass_rate, sample  # noqa: E402
from figures.validation.tasks import EITHER, SUM, draw, rewards  # noqa: E402
from figures.validation.training import World  # noqa: E402
from figures.validation.warm_up import teach  # noqa: E402
from grpo_plan.probe.gram import subgroup_squared_norms  # noqa: E402


def _model(seed: int = 3) -> Decoder:
    return Decoder(Shape(16, 1, 2), torch.Generator().manual_seed(seed))


def _flat(value: Any, model: Decoder) -> Any:
    parts = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return torch.cat(
        [torch.zeros(p.numel()) if g is None else g.flatten() for g, p in zip(parts, model.parameters(), strict=True)]
    )


@pytest.mark.parametrize("world", [World(SUM), World(EITHER), World(SUM, tail=3), World(SUM, temperature=0.8)])
def test_scores_and_gradients_of_rates_are_those_of_autograd(world: World) -> None:
    model = _model()
    generator = torch.Generator().manual_seed(1)
    prompts = draw(3, generator)
    rollouts = sample(model, prompts, 4, world.tail, world.temperature, generator)
    scorer = scores.Scorer(model, world.temperature)
    rates = scores.rate_gradients(model, world, prompts)
    for i in range(3):
        found = scorer.vectors(prompts[i], rollouts[i])
        each = log_probabilities(model, prompts[i : i + 1], rollouts[i : i + 1], world.temperature)[0].sum(-1)
        torch.testing.assert_close(found[2], _flat(each[2], model), rtol=1e-4, atol=1e-5)
        exact = _flat(pass_rate(model, world.task, prompts[i : i + 1], world.temperature)[0], model)
        torch.testing.assert_close(rates[i], exact, rtol=1e-4, atol=float(exact.abs().max()) * 1e-4)
        made = scores.prompt_scores(scorer, model, world, prompts[i], 8, generator)
        torch.testing.assert_close(made.gradient, exact, rtol=1e-4, atol=float(exact.abs().max()) * 1e-4)
        assert made.square == pytest.approx(float(exact.double().square().sum()), rel=1e-3)


def test_a_metric_weighs_the_squares_of_parameters() -> None:
    model, world = _model(), World(SUM)
    prompt = draw(1, torch.Generator().manual_seed(1))[0]
    count = sum(p.numel() for p in model.parameters())
    metric = torch.rand(count, generator=torch.Generator().manual_seed(2))
    rollouts = sample(model, prompt[None], 4, 0, 1.0, torch.Generator().manual_seed(3))[0]
    plain = scores.Scorer(model, 1.0).vectors(prompt, rollouts)
    weighted = scores.Scorer(model, 1.0, metric).vectors(prompt, rollouts)
    torch.testing.assert_close(weighted @ weighted.T, plain @ (plain * metric).T, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        scores.rate_gradients(model, world, prompt[None], metric)[0],
        scores.rate_gradients(model, world, prompt[None])[0] * metric.sqrt(),
    )


def test_banks_give_the_norms_that_a_probe_gives(tmp_path: Path) -> None:
    """`gp.GradientProbe`, one backward pass a rollout, on the rollouts of the Gram matrices."""
    model, world = _model(), World(SUM)
    prompts = draw(4, torch.Generator().manual_seed(4))
    scorer = scores.Scorer(model, 1.0)
    probe = gp.GradientProbe(model)
    norms = []
    for prompt in prompts:
        made = scores.prompt_scores(scorer, model, world, prompt, 16, torch.Generator().manual_seed(5))
        drawn = sample(model, prompt[None], 16, 0, 1.0, torch.Generator().manual_seed(5))
        reward = torch.tensor([1.0, 0.0] * 8)  # the untaught model never passes
        assert torch.equal(rewards(SUM, prompt[None], drawn)[0], made.rewards)
        probe.add(log_probabilities(model, prompt[None], drawn, 1.0)[0].sum(-1), reward)
        norms.append(subgroup_squared_norms(made.gram.double().numpy(), reward.numpy(), (4, 16)))
    np.testing.assert_allclose(np.array(norms), probe.measurement().squared_norms, rtol=1e-3)


@pytest.fixture(scope="module")
def taught() -> Decoder:
    """The starting policy of *all*, taught anew."""
    from figures.validation.conditions import STARTS

    return teach(STARTS["sum"])[0]


def test_committed_numbers_of_all_come_out_again(taught: Decoder) -> None:
    """On another processor teaching ends at a slightly different policy: the same prompts, so compare them in pairs.

    Differences of the mean of log |grad p|^2, where pq > .005, beyond .5 would be another policy, not chance: the seeds
    of teaching differ by less in a policy taught alike. Kappa of 64 prompts must lie within 4 standard errors
    (bootstrap) of the committed one: false alarm 1 in 16,000 if normal.
    """
    world = World(SUM)
    scorer = scores.Scorer(taught, 1.0)
    prompts = banks.source(taught, world).few[:64]
    generator = torch.Generator().manual_seed(40000)
    rows = [scores.prompt_scores(scorer, taught, world, prompt, 32, generator) for prompt in prompts]
    now = Prompts.of(
        {name: [getattr(r, name) for r in rows] for name in ("rate", "square", "after_pass", "after_fail")}
    )
    then = prompts_of("all").chosen(np.arange(64))
    told = (now.spread > 0.005) & (then.spread > 0.005)
    assert abs(np.log(now.square[told] / then.square[told]).mean()) < 0.5
    assert abs(now.rate.mean() - then.rate.mean()) < 0.1
    rng = np.random.default_rng(0)
    drawn = np.array([kappa(now.chosen(rng.integers(0, 64, 64))) for _ in range(300)])
    assert abs(kappa(now) - results()["worlds"]["all"]["kappa"]["model"]) < 4 * drawn.std()


def test_rollouts_agree_with_exact_moments(taught: Decoder) -> None:
    """Mean squares over sub-groups of real rollouts, against the exact sum: 4 standard errors, 1 in 16,000."""
    world = World(SUM)
    scorer = scores.Scorer(taught, 1.0)
    generator = torch.Generator().manual_seed(6)
    rows = [scores.prompt_scores(scorer, taught, world, prompt, 32, generator) for prompt in draw(64, generator)]
    exact = Prompts.of(
        {name: [getattr(r, name) for r in rows] for name in ("rate", "square", "after_pass", "after_fail")}
    )
    gram = np.stack([r.gram.double().numpy() for r in rows])
    seen = subgroup_squared_norms(gram, np.stack([r.rewards.double().numpy() for r in rows]), (4,))[:, 0]
    missed = seen - group_squares(exact, 4)
    assert abs(missed.mean()) < 4 * missed.std() / 8
