"""The probe in plain PyTorch: inner products against explicit gradients, the sketch, and exact gradients of an adder."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.planning.kappa_lines import Line, kappa_equation
from grpo_plan.probe.gram import rloo_weights
from tests.conftest import ROOT
from tests.trl.snippets import snippet

torch: Any = pytest.importorskip("torch")

from grpo_plan.probe.vectors import SketchedVectors, WholeVectors  # noqa: E402
from tests.trl import addition  # noqa: E402

ROLLOUTS, RESPONSE, WORDS = 16, 3, 5


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Tiny(torch.nn.Module):  # type: ignore[misc]
    """Next word from the sum of the words so far, with a tied, a frozen and an unused parameter."""

    def __init__(self, kind: Any = torch.float64) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(WORDS, 6, generator=generator, dtype=kind))
        self.mix = torch.nn.Parameter(torch.randn(6, 6, generator=generator, dtype=kind))
        self.tied = self.table
        self.frozen = torch.nn.Parameter(torch.ones(6, dtype=kind), requires_grad=False)
        self.unused = torch.nn.Parameter(torch.ones(7, dtype=kind))
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, words: Any) -> Any:
        inner = torch.tanh(self.drop(self.table[words].cumsum(1)) @ self.mix * self.frozen)
        return torch.log_softmax(inner @ self.tied.T, -1)

    def log_probability(self, words: Any) -> Any:
        return self(words[:, :-1]).gather(-1, words[:, 1:, None])[..., 0].sum(1)


def groups(count: int, seed: int = 0) -> list[tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        words = torch.randint(0, WORDS, (ROLLOUTS, RESPONSE + 1), generator=generator)
        made.append((words, (words[:, -1] < 2).double()))
    return made


def explicit(model: Tiny, words: Any) -> np.ndarray[Any, Any]:
    """Score gradients by backward() into .grad, one rollout at a time."""
    rows = []
    for i in range(len(words)):
        model.zero_grad()
        model.log_probability(words[i : i + 1]).sum().backward()
        rows.append(torch.cat([p.grad.reshape(-1) for p in (model.table, model.mix)]).double().numpy().copy())
    model.zero_grad()
    return np.array(rows)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_norms_are_those_of_explicit_gradients_of_every_sub_group(kind: str) -> None:
    model = Tiny(getattr(torch, kind))
    probe = gp.GradientProbe(model, subgroup_sizes=(4, 15, 16))
    made = groups(5)
    scores = []
    for words, rewards in made:
        probe.add(model.log_probability(words), rewards)
        scores.append(explicit(model, words))
    m = probe.measurement()
    gradients = []
    for row, s, (_, r) in zip(m.squared_norms, scores, made, strict=True):
        for column, size in enumerate((4, 15, 16)):
            chosen = [list(c) for c in itertools.combinations(range(ROLLOUTS), size)]
            direct = np.mean([np.sum((rloo_weights(r.numpy()[c]) @ s[c]) ** 2) for c in chosen])
            assert row[column] == pytest.approx(direct, rel=1e-6)
        gradients.append(rloo_weights(r.numpy()) @ s)
    total = np.sum(gradients, axis=0)
    between = eq.mean_square_between(float(total @ total), float(np.sum(np.square(gradients))), 5)
    assert m.mean_gradient_square is not None
    assert m.mean_gradient_square.value == pytest.approx(float(between), rel=1e-6)
    assert probe.backward_passes == 5 * ROLLOUTS


def test_a_generator_of_single_rollouts_gives_the_same() -> None:
    model = Tiny()
    one, other = gp.GradientProbe(model), gp.GradientProbe(model)
    for words, rewards in groups(4):
        one.add(model.log_probability(words), rewards)
        other.add((model.log_probability(w[None])[0] for w in words), rewards.tolist())
    assert one.measurement().squared_norms == pytest.approx(other.measurement().squared_norms, rel=1e-12)


def test_everything_is_left_as_found() -> None:
    model = Tiny()
    model.train()
    model.table.grad = torch.full_like(model.table, 3.0)
    before = (torch.get_rng_state(), random.getstate(), {k: v.clone() for k, v in model.state_dict().items()})
    for sketch in (0, 64):
        probe = gp.GradientProbe(model, sketch_size=sketch)
        for words, rewards in groups(4):
            probe.add(model.log_probability(words), rewards)
        probe.measurement(resamples=100)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert all(torch.equal(v, before[2][k]) for k, v in model.state_dict().items())
    assert model.training
    assert bool((model.table.grad == 3.0).all())
    assert model.mix.grad is None


def test_dead_groups_cost_no_backward_pass_and_failed_scoring_leaves_n() -> None:
    model = Tiny()
    probe = gp.GradientProbe(model)
    (words, _), (more, mixed) = groups(2)
    probe.add(model.log_probability(words), torch.ones(ROLLOUTS))
    assert (probe.prompts, probe.backward_passes) == (1, 0)
    failed: list[float | None] = mixed.tolist()
    failed[3] = None
    probe.add(model.log_probability(more), failed)
    assert probe.backward_passes == ROLLOUTS - 1
    probe.add(model.log_probability(words), [1.0, 0.0, 1.0] + [None] * 13)
    m = probe.measurement(resamples=100)
    assert (m.prompts, m.live_prompts) == (2, 1)
    assert m.scored is not None
    assert m.scored.tolist() == [16, 15]
    assert "1 prompts with fewer than 4 scored rollouts were left out." in m.notes


@pytest.mark.parametrize("size", [256, 4096])
def test_the_error_of_the_sketch_is_as_stated(size: int) -> None:
    """Over 200 seeds: unbiased, and the variance of squared norms and inner products at most that of eq. 50."""
    rng = np.random.default_rng(0)
    a, b = 0.5 + rng.normal(size=3000), rng.normal(size=3000) * np.linspace(0.1, 3.0, 3000)
    b += 0.5 * a
    parts = [[torch.tensor(v[:1000].reshape(50, 20)), torch.tensor(v[1000:])] for v in (a, b)]
    errors = {"aa": [], "ab": []}  # type: dict[str, list[float]]
    for seed in range(200):
        sketch = SketchedVectors(size, seed)
        gram = sketch.gram([sketch.hold(p) for p in parts])
        errors["aa"].append(gram[0, 0] - a @ a)
        errors["ab"].append(gram[0, 1] - a @ b)
    for name, first, second, inner in (("aa", a @ a, a @ a, a @ a), ("ab", a @ a, b @ b, a @ b)):
        stated = float(eq.sketch_variance(first, second, inner, size))
        assert abs(np.mean(errors[name])) < 5 * (stated / 200) ** 0.5  # false alarm below 1e-6
        assert 0.6 < np.var(errors[name]) / stated < 1.5  # 5 standard errors of a variance from 200 values


def test_a_sketched_measurement_is_close_to_the_whole_one() -> None:
    model, size = Tiny(), 1 << 14
    whole, sketched = gp.GradientProbe(model, sketch_size=0), gp.GradientProbe(model, sketch_size=size, seed=5)
    for words, rewards in groups(20):
        whole.add(model.log_probability(words), rewards)
        sketched.add(model.log_probability(words), rewards)
    one, other = whole.measurement(resamples=100), sketched.measurement(resamples=100)
    assert other.squared_norms[:, 1] == pytest.approx(one.squared_norms[:, 1], rel=5 * (2 / size) ** 0.5)
    assert other.ratio.value == pytest.approx(one.ratio.value, rel=0.03)
    assert "sketched to 16,384 numbers: 1.1 % a squared norm" in other.notes[0]


def test_large_models_are_sketched_unless_told_otherwise() -> None:
    big = [torch.zeros(5_000_001, requires_grad=True)]
    assert isinstance(gp.GradientProbe(big)._vectors, SketchedVectors)
    assert isinstance(gp.GradientProbe(big, sketch_size=0)._vectors, WholeVectors)
    assert isinstance(gp.GradientProbe(Tiny())._vectors, WholeVectors)


def test_hostile_input_is_one_line() -> None:
    model = Tiny()
    words, rewards = groups(1)[0]
    probe = gp.GradientProbe(model)
    logp = model.log_probability(words)
    cases: list[tuple[Any, Any, str]] = [
        (logp[:3], rewards[:3], "at least 16 rollouts; got 3"),
        (logp[:3], rewards, r"must have shape \(16,\).*got \(3,\)"),
        (list(logp)[:3], rewards, "must be 16 numbers; got 3"),
        ((model.log_probability(w[None])[0] for w in words[:3]), rewards, "too few numbers for 16 scored rollouts"),
        ((x for x in model.log_probability(words)), rewards, "share a graph that is gone after the first"),
        (logp.detach(), rewards, r"differentiable; got a number without a graph"),
        (torch.zeros(16, requires_grad=True) * 1.0, rewards, "do not depend on the parameters"),
        (logp, rewards * np.inf, "must be finite"),
        (logp, ["x"] * 16, "rewards must be numbers"),
    ]
    for terms, given, message in cases:
        with pytest.raises(gp.DomainError, match=message) as caught:
            probe.add(terms, given)
        assert "\n" not in str(caught.value)
    with pytest.raises(gp.PilotError, match="Prompt 1: a gradient of a log-probability is not finite"):
        probe.add(model.log_probability(words) * float("nan"), rewards)
    with pytest.raises(gp.PilotError, match="at least 2 prompts, better a few hundred; got 0"):
        probe.measurement()
    for options, message in (({"subgroup_sizes": (4,)}, "two different sizes"), ({"sketch_size": -1}, "at least 0")):
        with pytest.raises(gp.DomainError, match=message):
            gp.GradientProbe(model, **options)
    with pytest.raises(gp.DomainError, match="no parameter with requires_grad"):
        gp.GradientProbe([model.frozen])
    with pytest.raises(gp.DomainError, match="must be a torch module or its parameters; got int"):
        gp.GradientProbe(3)


def exact_line(exact: addition.Truth, sizes: tuple[int, int]) -> tuple[float, float]:
    """Best group size and kappa of the two-size line through exact squared norms."""
    pq = exact.pass_rate * (1 - exact.pass_rate)
    line = Line.through(sizes)
    intercept, slope = line.weights @ np.array([exact.squared_norm(g) for g in sizes])
    a, b, *_ = kappa_equation(line)(np.array([[intercept, slope, float(pq.mean()), float((pq**2).mean())]]))
    return 1 + (slope / intercept) ** 0.5, float(-a[0] / b[0])


@pytest.mark.slow
def test_against_exact_gradients_of_a_transformer_that_adds() -> None:
    """The full-size study is in docs/choosing.md; here 2-digit sums and a model of 27,000 parameters."""
    model = addition.trained(digits=2, width=32, threshold=0.3, rate=5e-3, rows=128)
    x = addition.prompts(model, 200, 56)
    exact = addition.truth(model, x, 10, 0, torch.Generator().manual_seed(3))
    seen, generator = gp.GradientProbe(model), torch.Generator().manual_seed(8)
    for i in range(len(x)):
        y, rewards = addition.roll_out(model, x[i : i + 1], 16, 0, generator)
        seen.add((addition.log_probability(model, x[i : i + 1], y[j : j + 1])[0] for j in range(16)), rewards)
    m = seen.measurement()
    best, kappa = exact_line(exact, (4, 16))
    print(f"G*: formula {exact.group_size:.2f}, exact line {best:.2f}, probe {m.group_size()}")
    print(f"kappa: formula {exact.kappa:.2f}, exact line {kappa:.2f}, probe {m.kappa}")
    assert m.group_size().low <= best <= m.group_size().high  # type: ignore[operator]
    assert m.kappa is not None
    assert m.kappa.low <= kappa <= m.kappa.high  # type: ignore[operator]
    assert m.group_size().value == pytest.approx(best, rel=0.25)
    assert best == pytest.approx(exact.group_size, rel=0.25)  # the model of eq. 24 against no model


def test_the_torch_snippet_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Tiny()
    made = dict(enumerate(groups(6)))
    names: dict[str, Any] = {
        "model": model,
        "prompts": list(made),
        "roll_out": lambda model, prompt, count: made[prompt],
        "log_probability": lambda model, prompt, words: model.log_probability(words[None])[0],
    }
    exec(snippet(ROOT / "docs" / "choosing.md", "GradientProbe"), names)
    assert gp.KappaMeasurement.load("kappa.json").prompts == 6
