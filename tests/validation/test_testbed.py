"""The testbed: exact pass rates and gradients against rollouts, attention, sampling, advantages, prompts, refill, seeds.

Tests on random numbers have fixed seeds. On another processor the policy may differ a little; each then fails by chance one time in
10,000 or less (z of 4, or a chi-square of that level).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from scipy import stats

import grpo_plan as gp

torch: Any = pytest.importorskip("torch", exc_type=ImportError)

from figures.validation import training  # noqa: E402
from figures.validation.advantages import advantages  # noqa: E402
from figures.validation.conditions import REFILL, ROLLOUTS, runs  # noqa: E402
from figures.validation.policy import log_probabilities, pass_rate, pass_rates, sample  # noqa: E402
from figures.validation.tasks import EITHER, SUM, draw, rewards, right_answers  # noqa: E402
from figures.validation.training import Pools, Recipe, World, train  # noqa: E402

FALSE_ALARM = 1e-4
Z = 4.0
ONE_DIGIT = (1.0, 0.0, 0.0, 0.0)


def seeded(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def fresh(model: Any) -> Any:
    return copy.deepcopy(model)


@pytest.mark.parametrize(("task", "temperature"), [(SUM, 1.0), (EITHER, 1.3), (SUM, 0.8)])
def test_pass_rates_are_the_shares_of_rollouts(taught: Any, task: Any, temperature: float) -> None:
    prompts, rollouts = draw(60, seeded(1), ONE_DIGIT), 400
    p = pass_rates(taught, task, prompts, temperature)
    assert 0.1 < p.mean() < 0.9
    passes = rewards(task, prompts, sample(taught, prompts, rollouts, 2, temperature, seeded(2))).double().sum(1)
    inside = (p > 0.01) & (p < 0.99)
    z = (passes - rollouts * p)[inside] / (rollouts * p * (1 - p)).sqrt()[inside]
    assert abs(z.sum() / len(z) ** 0.5) < Z
    assert stats.chi2.isf(1 - FALSE_ALARM, len(z)) < (z**2).sum() < stats.chi2.isf(FALSE_ALARM, len(z))


def test_the_gradient_of_a_pass_rate_is_what_scores_estimate(taught: Any) -> None:
    """Along two directions: mean of reward x score over rollouts, scores by central differences of log pi."""
    model = fresh(taught).double()
    prompts = draw(1, seeded(3), ONE_DIGIT)
    pass_rate(model, SUM, prompts, 1.0).sum().backward()
    exact = [parameter.grad.clone() for parameter in model.parameters()]
    rollouts = sample(model, prompts, 4000, 0, 1.0, seeded(4))
    reward = rewards(SUM, prompts, rollouts)[0].double()
    assert 0.02 < reward.mean() < 0.98
    random = [torch.randn(value.shape, generator=seeded(5), dtype=torch.float64) * value.std() for value in exact]
    for direction in (exact, random):
        norm = sum((value**2).sum() for value in direction) ** 0.5
        unit = [value / norm for value in direction]
        logs = []
        for step in (1e-4, -1e-4):
            moved = copy.deepcopy(model)
            with torch.no_grad():
                for parameter, value in zip(moved.parameters(), unit, strict=True):
                    parameter += step * value
                logs.append(log_probabilities(moved, prompts, rollouts, 1.0).sum(-1)[0])
        terms = reward * (logs[0] - logs[1]) / 2e-4
        truth = sum((a * b).sum() for a, b in zip(exact, unit, strict=True))
        assert abs(terms.mean() - truth) < Z * terms.std() / len(terms) ** 0.5


def test_the_answer_of_a_rollout_is_read_after_its_prompt(taught: Any) -> None:
    """Shared keys and values of the prompt against a plain pass over the concatenated tokens."""
    model = fresh(taught).double()
    prompts = draw(3, seeded(6))
    rollouts = torch.randint(10, (3, 4, 7), generator=seeded(7))
    found = log_probabilities(model, prompts, rollouts, 0.7).detach()
    for place in range(7):
        whole = torch.cat([prompts[:, None].expand(-1, 4, -1), rollouts[..., :place]], -1).flatten(0, 1)
        logits, _ = model.read(whole)
        expected = (logits / 0.7).log_softmax(-1).gather(-1, rollouts[..., place].flatten()[:, None])
        assert torch.allclose(found[..., place].flatten(), expected[:, 0].detach(), atol=1e-9)


def test_tokens_are_drawn_as_the_softmax_says(taught: Any) -> None:
    prompts, count = draw(1, seeded(8), ONE_DIGIT), 20_000
    rollouts = sample(taught, prompts, count, 0, 1.4, seeded(9))[0]
    first = (taught.read(prompts)[0] / 1.4).softmax(-1)[0].detach()
    top = int(first.argmax())
    after = rollouts[rollouts[:, 0] == top]
    second = (taught.read(torch.cat([prompts, torch.tensor([[top]])], 1))[0] / 1.4).softmax(-1)[0].detach()
    for chances, tokens in ((first, rollouts[:, 0]), (second, after[:, 1])):
        expected = chances.double() * len(tokens)
        seen = tokens.bincount(minlength=len(chances)).double()
        large = expected >= 5
        parts = torch.cat([((seen - expected) ** 2 / expected)[large], torch.zeros(1)])
        if (~large).any() and expected[~large].sum() > 1:
            rest, mean = seen[~large].sum(), expected[~large].sum()
            parts[-1] = (rest - mean) ** 2 / mean
        assert parts.sum() < stats.chi2.isf(FALSE_ALARM, len(parts) - 1)


@pytest.mark.parametrize(
    ("name", "public"),
    [("mean", "dr_grpo"), ("std", "grpo"), ("rloo", "rloo"), ("sign", "sign"), ("maxrl", "maxrl")],
)
def test_advantages_are_those_of_the_package(name: str, public: str) -> None:
    reward = torch.randint(2, (40, 6), generator=seeded(10)).float()
    reward[0], reward[1] = 0.0, 1.0
    expected = gp.advantages(reward.numpy(), public).values
    found = advantages(reward, name)
    assert torch.allclose(found.double(), torch.tensor(expected.tolist()).double(), atol=1e-5)


def test_unknown_estimators_are_refused() -> None:
    with pytest.raises(ValueError, match="mean, std, rloo, sign or maxrl"):
        advantages(torch.zeros(1, 2), "median")


def test_right_answers_are_right_and_counted_once() -> None:
    prompts = draw(300, seeded(11))
    digits = prompts.tolist()
    answers, counts = right_answers(EITHER, prompts)
    for row, answer, counted in zip(digits, answers.tolist(), counts.tolist(), strict=True):
        a, b = (int("".join(map(str, part))) for part in (row[0:4], row[5:9]))
        values = [int("".join(map(str, reversed(digits)))) for digits in answer]
        assert values == [a + b, abs(a - b)]
        assert counted == [True, a + b != abs(a - b)]
    right = torch.cat([answers[:, :1], torch.zeros_like(answers[:, :1])], -1)  # a tail changes nothing
    assert rewards(SUM, prompts, right).eq(1).all()
    right[:, 0, 2] = (right[:, 0, 2] + 1) % 10
    assert rewards(SUM, prompts, right).eq(0).all()


def test_a_finite_set_is_visited_once_an_epoch() -> None:
    pool = draw(24, seeded(12))
    source = training._Prompts(World(SUM, finite=24), Pools(pool, pool), 0)
    for _ in range(3):
        epoch = torch.cat([source.take(n) for n in (7, 7, 10)])
        assert sorted(epoch.tolist()) == sorted(pool.tolist())


def test_refill_trains_on_as_many_mixed_groups_as_asked(taught: Any) -> None:
    recipe = Recipe(4, 16, 1e-4, 0, steps=6, mixed=5)
    pool = draw(200, seeded(13), ONE_DIGIT)
    course = train(fresh(taught), World(SUM), recipe, Pools(pool[:20], pool), every=2)
    assert course.seen == 5 * course.updates
    assert course.drawn >= 6 * 16
    assert len(course.pass_rate) >= 4
    fixed = train(fresh(taught), World(SUM), Recipe(4, 16, 1e-4, 0, steps=2), Pools(pool[:20], pool), every=2)
    assert (fixed.seen, fixed.drawn, fixed.updates) == (32, 32, 2)


def test_targets_of_refill_in_all_are_the_mixed_groups_of_a_fixed_step() -> None:
    from figures.validation.outcome_plan import exact_dead

    for (world, size), mixed in REFILL.items():
        fixed = ROLLOUTS / size * (1 - exact_dead(world)[size])
        assert mixed == pytest.approx(fixed, abs=1)


def trained(model: Any, recipe: Recipe) -> tuple[Any, Any]:
    own, pool = fresh(model), draw(50, seeded(14), ONE_DIGIT)
    course = train(own, World(SUM), recipe, Pools(pool, pool), every=2)
    return course, torch.cat([value.flatten() for value in own.state_dict().values()])


def test_a_seed_is_a_run_bit_by_bit(taught: Any) -> None:
    recipe = Recipe(4, 16, 5e-4, 3, steps=4)
    (one, a), (two, b), (_, c) = (
        trained(taught, recipe),
        trained(taught, recipe),
        trained(taught, Recipe(4, 16, 5e-4, 4, steps=4)),
    )
    assert one == two
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_rloo_is_the_mean_under_adam(taught: Any) -> None:
    start = torch.cat([value.flatten() for value in taught.state_dict().values()])
    ends = [
        trained(taught, Recipe(4, 32, 5e-4, 0, steps=3, warm_up=1, estimator=name))[1]
        for name in ("mean", "rloo", "sign")
    ]
    moved = (ends[0] - start).norm()
    assert moved > 0
    assert (ends[0] - ends[1]).norm() < 0.02 * moved
    assert (ends[0] - ends[2]).norm() > 0.2 * moved


def test_training_raises_the_pass_rate(taught: Any) -> None:
    course, _ = trained(taught, Recipe(8, 32, 1e-3, 0, steps=20, warm_up=5))
    assert course.pass_rate[-1] > course.pass_rate[0] + 0.05


def test_every_run_of_the_study_is_in_the_results_once() -> None:
    from figures.validation.outcome import runs as kept

    keys = [run.key for run in kept()]
    wanted = [run.key for run in runs()]
    assert len(set(wanted)) == len(wanted)
    assert keys == [key for key in wanted if key in set(keys)]
