"""The metric of pass rates against its definition, on a small untaught model."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from figures.validation.model import Decoder, Shape  # noqa: E402
from figures.validation.one_step import batch_gradient, exact_gradient, move  # noqa: E402
from figures.validation.policy import pass_rates  # noqa: E402
from figures.validation.scores import Scorer  # noqa: E402
from figures.validation.tasks import SUM, draw  # noqa: E402
from figures.validation.training import World  # noqa: E402
from grpo_plan.probe.gram import rloo_weights, subgroup_squared_norms  # noqa: E402

WORLD = World(SUM)


def _model() -> Decoder:
    return Decoder(Shape(16, 1, 2), torch.Generator().manual_seed(3))


def test_the_length_of_a_group_is_how_far_it_moves_the_other_prompts() -> None:
    """At m = n the mean over sub-groups is the group itself: (ghat C ghat) = mean_j (g_j . ghat)^2, exactly."""
    model, chance = _model(), torch.Generator().manual_seed(1)
    prompts = draw(5, chance)
    signals = torch.stack([exact_gradient(model, WORLD, other[None]) for other in prompts[1:]]).double()
    rollouts = torch.randint(10, (8, 5), generator=chance)
    reward = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    scores = Scorer(model, 1.0).vectors(prompts[0], rollouts).detach().double()
    moved = scores @ signals.T
    gram = (moved @ moved.T / len(signals)).numpy()
    step = torch.from_numpy(rloo_weights(reward)) @ scores
    directly = float((signals @ step).square().mean())
    assert subgroup_squared_norms(gram, reward, (8,)).item() == pytest.approx(directly, rel=1e-9)


def test_exact_gradients_are_differences_of_exact_pass_rates() -> None:
    model, prompts = _model(), draw(50, torch.Generator().manual_seed(2))
    gradient = exact_gradient(model, WORLD, prompts)
    step = 0.05 * gradient / gradient.norm()
    ends = []
    for sign in (1.0, -1.0):
        move(model, sign * step)
        ends.append(pass_rates(model, SUM, prompts, 1.0).mean().item())
        move(model, -sign * step)
    assert (ends[0] - ends[1]) / 2 == pytest.approx(float(gradient @ step), rel=0.02)


def test_a_step_without_a_mixed_group_is_no_step() -> None:
    model, prompts = _model(), draw(4, torch.Generator().manual_seed(2))
    found = batch_gradient(model, WORLD, prompts, 4, "rloo", torch.Generator().manual_seed(0))
    assert float(found.abs().max()) == 0.0  # an untaught model never passes
