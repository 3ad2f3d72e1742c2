"""Strata of a pilot, named or by observed pass rate, and what a group of each is worth (theory.md, eq. 59)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_probability
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.functionals import dead as dead_functional
from grpo_plan.fitting.intervals import PSEUDO_PROMPTS, wilson_interval
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.ustatistics import subgroup_pmf
from grpo_plan.pilot import Pilot, PilotHistogram
from grpo_plan.planning.posterior import (
    chance_of,
    conditional_limits,
    held_out_laws,
    laws_of_cells,
    rates_given,
)

Floats = NDArray[np.float64]
DEFAULT_EDGES = (0.2, 0.8)
LINEAR_REPLICATES, REFIT_REPLICATES = 400, 40
LINEAR_SPLITS, REFIT_SPLITS = 30, 10
REFIT_ROLLOUTS, REFIT_CELLS = 256, 300  # above, a prompt's own rollouts say nearly all of it, and a fit is slow
MOST_CELLS = 20_000
MOST_DRAWN = 1_000_000_000  # the generator's own limit on a draw without replacement
FEWEST_PROMPTS = 10  # of a stratum: with fewer neither its law nor the luck of choosing it can be judged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumLaw:
    """One stratum and its groups.

    Attributes:
        name: Its name.
        prompts: Prompts of the pilot in it (expected, for held-out halves).
        mean_pass_rate: Mean pass rate, corrected for how the prompts were chosen.
        dead: Dead fraction of its groups at the planned G.
        dead_low: Lower confidence limit.
        dead_high: Upper confidence limit.
        law: Chance of k = 0..G passes in a group, shape (G + 1,).
        statuses: What limits it, gravest first.
    """

    name: str
    prompts: float
    mean_pass_rate: float
    dead: float
    dead_low: float
    dead_high: float
    law: Floats = field(repr=False)
    statuses: tuple[FitStatus, ...] = (FitStatus.OK,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrataLaws:
    """All strata, how they were judged, and how to judge other draws of their prompts.

    Attributes:
        strata: In order of first appearance, or from hard to easy.
        method: ``"named"``, ``"posterior"`` or ``"halves"``.
        refitted: Whether each draw is fitted anew; else laws are linear in the counts.
        counts: Prompts of each cell, one array for each stratum that is drawn by itself, or one for all.
        judge: From such counts to the laws of all strata, shape (B, G + 1).
    """

    strata: tuple[StratumLaw, ...]
    method: str
    refitted: bool
    counts: tuple[NDArray[np.int64], ...] = field(repr=False)
    judge: Callable[[list[NDArray[np.int64]]], Floats] = field(repr=False)

    def laws(self) -> Floats:
        """Chance of k passes in a group of each stratum, shape (B, G + 1)."""
        return np.array([s.law for s in self.strata])

    def replicate(self, rng: np.random.Generator) -> Floats:
        """Laws of pilots resampled over prompts, shape (R, B, G + 1)."""
        count = REFIT_REPLICATES if self.refitted else LINEAR_REPLICATES
        draws = [rng.multinomial(int(c.sum()), c / c.sum(), size=count) for c in self.counts]
        return np.array([self.judge([d[r] for d in draws]) for r in range(count)])

    def split(self, rng: np.random.Generator) -> Floats:
        """Laws of random halves of the prompts and of the other halves, shape (S, 2, B, G + 1)."""
        count = REFIT_SPLITS if self.refitted else LINEAR_SPLITS
        pairs = []
        for _ in range(count):
            first = [_half(c, rng) for c in self.counts]
            second = [c - f for c, f in zip(self.counts, first, strict=True)]
            pairs.append([self.judge(first), self.judge(second)])
        return np.array(pairs)


def _half(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Prompts of each cell in a random half; of very many, each prompt goes to either half by the toss of a coin."""
    if counts.sum() < MOST_DRAWN:
        return rng.multivariate_hypergeometric(counts, int(counts.sum()) // 2)
    return rng.binomial(counts, 0.5)


def named_strata(pilot: Pilot, group_size: int, level: float) -> StrataLaws:
    """The strata of the pilot's own column, each fitted by itself."""
    found, fits = [], []
    parts = pilot.by_stratum()
    small = [f"{name}: {part.prompts}" for name, part in parts.items() if part.prompts < FEWEST_PROMPTS]
    if small:
        raise PilotError(
            f"A stratum needs at least {FEWEST_PROMPTS} prompts; {len(small)} of {len(parts)} have fewer "
            f"({', '.join(small[:3])}{', ...' if len(small) > 3 else ''}). Merge small strata, or pilot more of them."
        )
    for name, part in parts.items():
        try:
            fit = fit_pass_rates(part)
            law = fit.group_pmf(group_size)
        except PilotError as error:
            raise PilotError(f"Stratum {name}: {error}") from None
        d = fit.dead(group_size, level)
        low, high = d.interval
        fits.append(fit)
        found.append(
            StratumLaw(
                name=name,
                prompts=part.prompts,
                mean_pass_rate=fit.mean_pass_rate,
                dead=float(law[0] + law[-1]),
                dead_low=low,
                dead_high=high,
                law=law,
                statuses=fit.statuses,
            )
        )

    drawn_laws = [_drawn_law(fit, group_size) for fit in fits]
    return StrataLaws(
        strata=tuple(found),
        method="named",
        refitted=any(group_size > fit.max_counted_group_size for fit in fits),
        counts=tuple(fit.pilot.histogram().prompts for fit in fits),
        judge=lambda counts: np.array([law(drawn) for law, drawn in zip(drawn_laws, counts, strict=True)]),
    )


def _drawn_law(fit: PassRateFit, group_size: int) -> Callable[[NDArray[np.int64]], Floats]:
    """Law of k in a group as a function of the prompts in each cell; that of all where a draw says nothing."""
    h, everyone = fit.pilot.histogram(), fit.group_pmf(group_size)
    if group_size > fit.max_counted_group_size:
        return lambda drawn: _refitted(h, drawn, lambda again: again.group_pmf(group_size), everyone)
    usable = h.rollouts >= group_size
    kernel = subgroup_pmf(h.successes[usable], h.rollouts[usable], group_size)

    def law(drawn: NDArray[np.int64]) -> Floats:
        total = int(drawn[usable].sum())
        return drawn[usable] @ kernel / total if total else everyone

    return law


def _refitted(
    h: PilotHistogram, drawn: NDArray[np.int64], read: Callable[[PassRateFit], Floats], otherwise: Floats
) -> Floats:
    """What a fit of drawn prompts says; ``otherwise`` where they are too few to say anything."""
    if not drawn.any():
        return otherwise
    try:
        return read(fit_pass_rates(Pilot.from_histogram(h.rollouts, h.successes, drawn)))
    except PilotError:
        return otherwise


def as_edges(edges: Sequence[float]) -> Floats:
    """Edges between buckets of observed pass rate, strictly rising inside (0, 1)."""
    values = as_probability(list(edges), "edges")
    inside = values.size and bool(np.all((values > 0.0) & (values < 1.0)))
    if not inside or not bool(np.all(np.diff(values) > 0.0)):
        shown = ", ".join(f"{e:g}" for e in values)
        raise DomainError(f"edges must rise strictly inside (0, 1), e.g. 0.2,0.8; got {shown or 'none'}.")
    return values


def bucket_names(edges: Floats) -> list[str]:
    """Names of the buckets from hard to easy.

    >>> bucket_names(np.array([0.2, 0.8])), bucket_names(np.array([0.5]))
    (['hard', 'middle', 'easy'], ['hard', 'easy'])
    """
    if edges.size == 2:
        return ["hard", "middle", "easy"]
    if edges.size == 1:
        return ["hard", "easy"]
    ends = [0.0, *(float(e) for e in edges), 1.0]
    return [f"{a:g}-{b:g}" for a, b in pairwise(ends)]


def bucket_of(successes: NDArray[np.int64], rollouts: NDArray[np.int64], edges: Floats) -> NDArray[np.intp]:
    """Bucket of k/n; a value on an edge belongs to the bucket nearer 1/2.

    >>> bucket_of(np.array([0, 1, 2, 8, 9]), np.full(5, 10), np.array([0.2, 0.8])).tolist()
    [0, 0, 1, 1, 2]
    """
    observed = successes / rollouts
    beyond = np.where(edges <= 0.5, observed[:, None] >= edges - 1e-12, observed[:, None] > edges + 1e-12)
    places: NDArray[np.intp] = beyond.sum(axis=1).astype(np.intp)
    return places


def bucket_strata(fit: PassRateFit, group_size: int, edges: Sequence[float], method: str, level: float) -> StrataLaws:
    """Buckets of observed pass rate, corrected for the choice by counts (theory.md, eq. 59).

    Args:
        fit: Fit of the whole pilot.
        group_size: G.
        edges: Edges of k/n.
        method: ``"posterior"``: under the fitted F. ``"halves"``: half the rollouts choose, half speak.
        level: Confidence level.
    """
    borders = as_edges(edges)
    h = fit.pilot.histogram()
    if h.prompts.size > MOST_CELLS:
        raise PilotError(
            f"Buckets need at most {MOST_CELLS:,} different pairs (n, k); the pilot has {h.prompts.size:,}. "
            "Give prompts equal numbers of rollouts, or name strata with --stratum-column."
        )
    if method == "halves":
        return _by_halves(h, group_size, borders, level)
    if method != "posterior":
        raise DomainError(f"correction must be posterior or halves; got {method!r}.")
    return _by_posterior(fit, h, group_size, borders, level)


def _part(h: PilotHistogram, inside: NDArray[np.bool_]) -> PilotHistogram:
    return PilotHistogram(rollouts=h.rollouts[inside], successes=h.successes[inside], prompts=h.prompts[inside])


def _by_posterior(fit: PassRateFit, h: PilotHistogram, g: int, edges: Floats, level: float) -> StrataLaws:
    fit.group_pmf(g)  # raises where the pilot does not determine it
    place, rates = bucket_of(h.successes, h.rollouts, edges), fit.likely_rates
    phi = dead_functional(g).phi
    found, kept = [], []
    for b, name in enumerate(bucket_names(edges)):
        cells = _part(h, place == b)
        if not cells.prompts.size:
            continue
        _refuse_few(name, cells.total_prompts)
        given = rates_given(rates, cells)
        law = given.group_pmf(g)
        d = float(law[0] + law[-1])
        low, high = conditional_limits(fit, phi, chance_of(cells, h), level, degree=h.max_rollouts + g, near=d)
        kept.append(b)
        found.append(
            StratumLaw(
                name=name,
                prompts=cells.total_prompts,
                mean_pass_rate=float(given.masses @ given.passing),
                dead=d,
                dead_low=low,
                dead_high=high,
                law=law,
                statuses=fit.statuses,
            )
        )

    everyone = np.array([law.law for law in found])

    if h.max_rollouts > REFIT_ROLLOUTS or h.prompts.size > REFIT_CELLS:
        return StrataLaws(
            strata=tuple(found),
            method="posterior",
            refitted=False,
            counts=(h.prompts,),
            judge=_kept(laws_of_cells(rates, h, g), place, kept, everyone),
        )

    def read(again: PassRateFit) -> Floats:
        cells, likely = again.pilot.histogram(), again.likely_rates
        where = bucket_of(cells.successes, cells.rollouts, edges)
        parts = [_part(cells, where == b) for b in kept]
        laws = [
            rates_given(likely, part).group_pmf(g) if part.prompts.size else everyone[i] for i, part in enumerate(parts)
        ]
        return np.array(laws)

    return StrataLaws(
        strata=tuple(found),
        method="posterior",
        refitted=True,
        counts=(h.prompts,),
        judge=lambda counts: _refitted(h, counts[0], read, everyone),
    )


def _refuse_few(name: str, prompts: float) -> None:
    if prompts < FEWEST_PROMPTS:
        raise PilotError(
            f"A bucket needs at least {FEWEST_PROMPTS} prompts; {name} has {prompts:.3g}. Give other edges (--edges), "
            "or pilot more prompts."
        )


def _kept(
    cell_laws: Floats, place: NDArray[np.intp], kept: list[int], everyone: Floats
) -> Callable[[list[NDArray[np.int64]]], Floats]:
    """Laws of buckets from drawn prompts, the posterior of each cell kept."""

    def judge(counts: list[NDArray[np.int64]]) -> Floats:
        laws = []
        for i, b in enumerate(kept):
            drawn = np.where(place == b, counts[0], 0)
            total = int(drawn.sum())
            laws.append(drawn @ cell_laws / total if total else everyone[i])
        return np.array(laws)

    return judge


def _by_halves(h: PilotHistogram, g: int, edges: Floats, level: float) -> StrataLaws:
    largest = h.max_rollouts - h.max_rollouts // 2
    usable = h.rollouts - h.rollouts // 2 >= g
    if not usable.any() or h.prompts[usable].sum() < 0.8 * h.total_prompts:
        raise PilotError(
            f"correction halves needs {g} rollouts in the second half of most prompts' rollouts; the pilot has at most "
            f"{largest}. Take the default, posterior, or --group-size {largest}."
        )
    names = bucket_names(edges)
    cells = _part(h, usable)
    shares, laws, means = held_out_laws(cells, lambda j, a: bucket_of(j, a, edges), g, len(names))
    prompts = cells.prompts.astype(np.float64)
    sizes = prompts @ shares
    kept = np.flatnonzero(sizes > 1e-9)

    def at(weights: Floats) -> Floats:
        total = weights @ shares[:, kept]
        drawn = np.einsum("c,cbk->bk", weights, laws[:, kept]) / np.maximum(total, 1e-300)[:, None]
        return np.where(total[:, None] > 1e-9, drawn, 0.0)

    for b in kept:
        _refuse_few(names[b], float(sizes[b]))
    middle = at(prompts)
    found = []
    for i, b in enumerate(kept):
        d = float(middle[i, 0] + middle[i, -1])
        low, high = _ratio_limits(shares[:, b], laws[:, b, 0] + laws[:, b, -1], prompts, level)
        found.append(
            StratumLaw(
                name=names[b],
                prompts=float(sizes[b]) * h.total_prompts / float(prompts.sum()),
                mean_pass_rate=float(prompts @ means[:, b]) / float(sizes[b]),
                dead=d,
                dead_low=min(low, d),
                dead_high=max(high, d),
                law=middle[i],
            )
        )
    return StrataLaws(
        strata=tuple(found),
        method="halves",
        refitted=False,
        counts=(cells.prompts,),
        judge=lambda counts: at(counts[0].astype(np.float64)),
    )


def _ratio_limits(share: Floats, dead: Floats, prompts: Floats, level: float) -> tuple[float, float]:
    """Wilson limits at the effective number of prompts behind a ratio of two means (theory.md, eq. 19 and 59)."""
    total = float(prompts @ share)
    mean = float(prompts @ dead) / total
    spread = float(prompts @ (dead - mean * share) ** 2)
    largest = mean * (1.0 - mean)
    spread += PSEUDO_PROMPTS * largest
    effective = max(total**2 * largest / spread, 1.0) if spread > 0.0 else max(total, 1.0)
    return wilson_interval(mean, effective, level)
