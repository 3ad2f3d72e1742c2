"""Squared norms of single-group gradients of a PyTorch model, in one backward pass a rollout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_float_array
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.gradients import FEWEST_BLOCKS, MeanGradientSquare, mean_gradient_square
from grpo_plan.planning.kappa import KappaMeasurement, counted, measured
from grpo_plan.planning.kappa_lines import PassMoments
from grpo_plan.probe.gram import SMALLEST_GROUP, rloo_weights, subgroup_squared_norms
from grpo_plan.probe.vectors import SketchedVectors, Vectors, WholeVectors, needs

Floats = NDArray[np.float64]
BLOCKS = 16
MOST_WHOLE_PARAMETERS = 5_000_000
SKETCH_SIZE = 65_536


class GradientProbe:
    """Measures kappa from the gradients of one's own model, prompt by prompt (theory.md, eq. 49 to 51).

    Give it each prompt's rollouts with `add`, then ask for the `measurement`. It takes the gradient of the
    log-probability of every rollout, one backward pass each (none for a dead group), and from their inner products the
    squared norms of the RLOO gradients of *all* sub-groups of each size. It uses `torch.autograd.grad`: the ``.grad``
    of the parameters, train or eval mode and random number generators stay as they are.

    Memory: one vector for each rollout of a prompt and 16 for blocks of prompts, each as long as the trainable
    parameters, or ``sketch_size`` numbers if sketched.

    Args:
        model: A torch module, or its parameters; those with ``requires_grad`` are used.
        subgroup_sizes: Group sizes to measure at, each at least 2; every prompt needs as many rollouts as the largest.
        sketch_size: Length of a random sketch of the gradients (CountSketch); a squared norm then has a relative
            standard deviation of at most ``sqrt(2 / sketch_size)`` from it. 0 keeps gradients whole; None keeps them
            whole up to 5 million trainable parameters and takes 65,536 beyond.
        seed: Seed of the sketch.
    """

    def __init__(
        self,
        model: Any,
        *,
        subgroup_sizes: Sequence[int] = (4, 16),
        sketch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        needs("torch")
        self._parameters = _trainable(model)
        self._sizes = tuple(sorted(as_count(g, "subgroup_sizes", minimum=2) for g in subgroup_sizes))
        if len(set(self._sizes)) != len(self._sizes) or len(self._sizes) < 2:
            raise DomainError(
                f"subgroup_sizes must be at least two different sizes, e.g. (4, 16); got {subgroup_sizes}."
            )
        count = sum(p.numel() for p in self._parameters)
        if sketch_size is None:
            sketch_size = 0 if count <= MOST_WHOLE_PARAMETERS else SKETCH_SIZE
        size = as_count(sketch_size, "sketch_size", minimum=0)
        seed = as_count(seed, "seed", minimum=0)
        self._vectors: Vectors = SketchedVectors(size, seed) if size else WholeVectors()
        self._sketch_size = size
        self._norms: list[Floats] = []
        self._rewards: list[Floats] = []
        self._unscored = 0
        self._block_sums: list[Any] = [None] * BLOCKS
        self._block_squares = np.zeros(BLOCKS)
        self._block_prompts = np.zeros(BLOCKS)
        self._backward_passes = 0

    @property
    def prompts(self) -> int:
        """Prompts that count so far."""
        return len(self._norms)

    @property
    def backward_passes(self) -> int:
        """Backward passes made so far."""
        return self._backward_passes

    def add(self, log_probabilities: Any, rewards: Any) -> None:
        """Add the rollouts of one prompt.

        Args:
            log_probabilities: Summed log-probability of each rollout under the current model, differentiable: a tensor
                of shape (n,), whose graph is consumed, or any iterable of n scalar tensors. A generator that runs one
                forward pass at a time needs the memory of one graph and is faster: a backward pass through the graph of
                a whole group costs as much as the group.
            rewards: Their rewards, shape (n,); None or NaN for failed scoring (such rollouts are left out).

        Raises:
            DomainError: Shapes that do not fit, or log-probabilities without a graph.
            PilotError: A gradient is not finite.
        """
        values = _rewards_of(rewards)
        n, largest = values.size, self._sizes[-1]
        if n < max(largest, SMALLEST_GROUP):
            raise DomainError(f"each prompt needs at least {max(largest, SMALLEST_GROUP)} rollouts; got {n}.")
        terms = _terms(log_probabilities, n)
        scored = np.flatnonzero(~np.isnan(values))
        if scored.size < SMALLEST_GROUP:
            self._unscored += 1
            return
        r = values[scored]
        if np.all(r == r[0]):  # a dead group has no gradient: no backward pass is needed
            self._keep(np.zeros(len(self._sizes)), values, None, 0.0)
            return
        vectors = self._scores(terms, scored)
        gram = self._vectors.gram(vectors)
        if not np.isfinite(gram).all():
            raise PilotError(
                f"Prompt {self.prompts + self._unscored + 1}: a gradient of a log-probability is not finite. Check the "
                "model's precision and the log-probabilities (no -inf)."
            )
        weights = rloo_weights(r)
        gradient = self._vectors.total(weights, vectors)
        self._keep(subgroup_squared_norms(gram, r, self._sizes), values, gradient, float(weights @ gram @ weights))

    def measurement(
        self, *, fit: PassRateFit | None = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> KappaMeasurement:
        """What the prompts added so far say; arguments as in `measure_kappa`.

        Raises:
            PilotError: Fewer than 2 prompts, or every group is dead.
        """
        if self.prompts < 2:
            raise PilotError(f"kappa needs at least 2 prompts, better a few hundred; got {self.prompts}.")
        width = max(r.size for r in self._rewards)
        table = np.full((self.prompts, width), np.nan)
        for row, r in zip(table, self._rewards, strict=True):
            row[: r.size] = r
        passes, scored, notes = counted(table, self.prompts)
        if self._unscored:
            notes += (f"{self._unscored} prompts with fewer than {SMALLEST_GROUP} scored rollouts were left out.",)
        if self._sketch_size:
            share = 100.0 * (2.0 / self._sketch_size) ** 0.5
            notes += (f"Gradients were sketched to {self._sketch_size:,} numbers: {share:.2g} % a squared norm.",)
        return measured(
            self._sizes,
            np.array(self._norms),
            passes=passes,
            scored=scored,
            pilot_moments=None if fit is None else PassMoments.of(fit.pilot),
            mean_gradient_square=self._mean_gradient_square(),
            level=level,
            resamples=resamples,
            seed=seed,
            notes=notes,
        )

    def _scores(self, terms: Iterator[Any], scored: NDArray[np.int64]) -> list[Any]:
        """Gradients of the log-probabilities of the scored rollouts."""
        wanted = set(scored.tolist())
        last = int(scored[-1])
        vectors = []
        for i, (term, keep_graph) in enumerate(terms):
            if i not in wanted:
                continue
            if not getattr(term, "requires_grad", False):
                raise DomainError(
                    "log_probabilities must be differentiable; got a number without a graph. Compute them with "
                    "gradients on (no torch.no_grad)."
                )
            found = self._gradient(term, keep_graph and i != last)
            self._backward_passes += 1
            if all(g is None for g in found):
                raise DomainError("log_probabilities do not depend on the parameters given to the probe.")
            if self._sketch_size:
                found = [p.numel() if g is None else g for g, p in zip(found, self._parameters, strict=True)]
            vectors.append(self._vectors.hold(found))
        if len(vectors) != scored.size:
            raise DomainError(f"log_probabilities gave too few numbers for {scored.size} scored rollouts.")
        return vectors

    def _gradient(self, term: Any, keep_graph: bool) -> Any:
        """One backward pass."""
        try:
            return needs("torch").autograd.grad(term, self._parameters, retain_graph=keep_graph, allow_unused=True)
        except RuntimeError as error:
            if "second time" not in str(error):
                raise
            raise DomainError(
                "log_probabilities from a generator must each come from their own forward pass; these share a graph "
                "that is gone after the first. Give a tensor or a list instead."
            ) from None

    def _keep(self, norms: Floats, rewards: Floats, gradient: Any, square: float) -> None:
        """Record a prompt; sums of gradients go to the blocks in turn."""
        block = self.prompts % BLOCKS
        self._norms.append(norms)
        self._rewards.append(rewards)
        self._block_prompts[block] += 1
        self._block_squares[block] += square
        if gradient is not None:
            before = self._block_sums[block]
            self._block_sums[block] = (
                gradient if before is None else self._vectors.total(np.ones(2), [before, gradient])
            )

    def _mean_gradient_square(self) -> MeanGradientSquare | None:
        """``|E g|**2`` over prompts; None with too few prompts for a standard error."""
        used = self._block_prompts > 0
        if int(used.sum()) < FEWEST_BLOCKS:
            return None
        filled = [b for b in range(BLOCKS) if self._block_sums[b] is not None]
        gram = np.zeros((BLOCKS, BLOCKS))
        if filled:
            gram[np.ix_(filled, filled)] = self._vectors.gram([self._block_sums[b] for b in filled])
        return mean_gradient_square(gram[np.ix_(used, used)], self._block_squares[used], self._block_prompts[used])


def _trainable(model: Any) -> list[Any]:
    """Parameters with requires_grad, each once."""
    given = model.parameters() if hasattr(model, "parameters") else model
    if not isinstance(given, Iterable):
        raise DomainError(f"model must be a torch module or its parameters; got {type(model).__name__}.")
    unique = {id(p): p for p in given if getattr(p, "requires_grad", False)}
    if not unique:
        raise DomainError("the model has no parameter with requires_grad. Unfreeze what training will change.")
    return list(unique.values())


def _rewards_of(rewards: Any) -> Floats:
    """Rewards as floats, NaN for failed scoring."""
    if hasattr(rewards, "detach"):
        rewards = rewards.detach().double().cpu().numpy()
    elif isinstance(rewards, list | tuple):
        rewards = [np.nan if r is None else r for r in rewards]
    values = as_float_array(rewards, "rewards")
    if values.ndim != 1 or np.isinf(values).any():
        raise DomainError(f"rewards must be finite (or NaN: failed scoring), one a rollout; got shape {values.shape}.")
    return values


def _terms(log_probabilities: Any, rollouts: int) -> Iterator[tuple[Any, bool]]:
    """Log-probabilities one by one, each with whether it shares its graph with the others."""
    if hasattr(log_probabilities, "dim"):
        if tuple(log_probabilities.shape) != (rollouts,):
            raise DomainError(
                f"log_probabilities must have shape ({rollouts},), one sum a rollout as the rewards; got "
                f"{tuple(log_probabilities.shape)}."
            )
        return ((log_probabilities[i], True) for i in range(rollouts))
    if hasattr(log_probabilities, "__len__") and len(log_probabilities) != rollouts:
        raise DomainError(f"log_probabilities must be {rollouts} numbers; got {len(log_probabilities)}.")
    shared = hasattr(log_probabilities, "__len__")  # a list may hold parts of one graph
    return ((term, shared) for term in islice(log_probabilities, rollouts))
