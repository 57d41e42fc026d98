"""Batches of weave: their candidates, and the joint selection of candidates and prices.

Candidates are pairs, then triples or larger cliques where the noise allows them. Of these, a batch measures those, at
those prices, for which the sum of expected errors is smallest.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal, compute_interaction_norm
from weft.marginals.noise_error import compute_expected_noise, group_cells_by_size
from weft.methods.weave.fine_marginals import compute_interaction_share, find_lowest_unmeasured_order
from weft.methods.weave.public_prior import NEARER, PublicPrior, reconcile_distances
from weft.methods.weave.tuning import WeaveTuning
from weft.privacy.noise import MAX_NOISE_SCALE

if TYPE_CHECKING:
    from weft.methods.weave.dense_model import DenseField

MAX_TRIPLES = 2000
"""Maximum number of triples that are all scored: those of 23 attributes."""

MAX_RANDOM_CELLS = 20_000
"""Maximum cells of a random clique. Millions of rows would allow more, but models of such tables take gigabytes and
sampling is slow."""

MAX_RANDOM_ORDER = 6
"""Maximum attributes of a random clique; larger ones are found by search only (`ParitySearch`)."""

MAX_TRIPLE_ROWS = 3e9
"""Maximum product of triples and (noisy) rows at which triples are measured. A record of the Gibbs chains takes about a
tenth of a microsecond per table: this is some minutes."""


@dataclass(frozen=True)
class Batches:
    """Candidates of each batch, and its share of the budget left after the one-way marginals."""

    order: int
    """Maximum attributes of a measured clique."""
    max_cells: int
    """Maximum cells of a measured table."""
    tuning: WeaveTuning
    aside: float = 0.0
    """Share for cliques that a search may find, if no other batch follows the pairs."""

    def plan(
        self, curator: Curator, measured: Collection[Clique], total: float, left: float, rng: np.random.Generator
    ) -> Iterator[tuple[list[Clique], float]]:
        """Yield the candidates and the share of each batch; the shares sum to `left`."""
        domain = curator.domain
        pairs = self._subsets(domain, 2)
        sigma = float(curator.sigma_of(curator.rho(left / 2) / self.tuning.batch_cliques))
        larger = self.larger_cliques(domain, total, sigma, rng)
        triples = self._triples(domain, larger, total)
        higher = (1 + any(len(c) > 4 for c in larger)) if self.tuning.batches is None else self.tuning.batches
        if triples:
            yield pairs, left * self.tuning.part_pairs
            yield [c for c in triples if c not in measured], left * (1 - self.tuning.part_pairs)
        elif not higher or _compute_covered_share(larger, domain, 4) < 1 / 3:
            yield pairs, left - self.aside
            if self.aside:
                yield [], self.aside
        else:
            yield pairs, left * self.tuning.part_pairs
            for _ in range(higher):
                yield [c for c in larger if c not in measured], left * (1 - self.tuning.part_pairs) / higher
                larger = self.larger_cliques(domain, total, sigma, rng)

    def _triples(self, domain: Domain, larger: Sequence[Clique], total: float) -> list[Clique]:
        """Return all triples if the noise allows most of them but not larger cliques everywhere; otherwise none.

        All triples can then be scored, and their interaction terms are cheap. Where larger cliques are possible
        everywhere, a few of them are more informative; with very many rows, fitting a thousand tables takes too long.
        """
        triples = math.comb(len(domain), 3)
        few = triples <= MAX_TRIPLES and triples * total <= MAX_TRIPLE_ROWS and self.tuning.batches != 0
        if (
            few
            and _compute_covered_share(larger, domain, 3) >= 0.8
            and _compute_covered_share(larger, domain, 4) < 0.95
        ):
            return self._subsets(domain, 3)
        return []

    def _subsets(self, domain: Domain, order: int) -> list[Clique]:
        return [c for c in combinations(sorted(domain), order) if domain.cells(c) <= self.max_cells]

    def larger_cliques(self, domain: Domain, total: float, sigma: float, rng: np.random.Generator) -> list[Clique]:
        """Return random cliques of 3 to `order` attributes, each as large as noise of `sigma` per cell allows.

        Assumes that pairs were measured; where they were not, whole tables are measured and priced in the selection.
        """
        found: dict[Clique, None] = {}
        for _ in range(4 * self.tuning.candidates):
            taken: list[str] = []
            for i in rng.permutation(len(domain)):
                if len(taken) == min(self.order, MAX_RANDOM_ORDER):
                    break
                tried = make_clique([*taken, domain.names[i]])
                sizes = domain.sizes(tried)
                cells = math.prod(sizes)
                if cells > min(self.max_cells, MAX_RANDOM_CELLS):
                    continue
                # If the whole table is not too noisy, none of its interaction terms are.
                whole = float(compute_expected_noise(cells, sigma)) / 2
                most = self.tuning.clique_error / 2 * total
                if whole <= most or whole * compute_interaction_norm(sizes, 3) <= most:
                    taken = list(tried)
            if len(taken) > 2:
                found[tuple(taken)] = None
            if len(found) == self.tuning.candidates:
                break
        return list(found)


def _compute_covered_share(cliques: Sequence[Clique], domain: Domain, least: int) -> float:
    """Return the share of pairs inside cliques of at least `least` attributes (or of all attributes, if fewer)."""
    inside = {pair for c in cliques if len(c) >= min(least, len(domain)) for pair in combinations(c, 2)}
    return len(inside) / max(math.comb(len(domain), 2), 1)


def choose_budgets(gaps: Array, errors: Array, prices: Array, budget: float) -> Array:
    """Return the budget of each candidate: 0, which leaves the error `gaps[i]`, or one of its prices.

    Candidate i at level l costs `prices[i, l]` and leaves error `errors[i, l]`. The budgets sum to at most `budget`.
    The smallest total error is found with one multiplier: each candidate minimises error + multiplier * price, and the
    prices at the multiplier sum to the budget. So few rows or large tables lead to fewer measurements.
    """
    error = np.concatenate([np.asarray(gaps, np.float64)[:, None], errors], axis=1)
    price = np.concatenate([np.zeros((len(error), 1)), prices], axis=1)
    rows = np.arange(len(error))

    def spend(multiplier: float) -> Array:
        return np.asarray(price[rows, np.argmin(error + multiplier * price, axis=1)])

    low, high = 0.0, 1.0
    while spend(high).sum() > budget:
        low, high = high, high * 4
        if high > 1e30:
            return np.zeros(len(error))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spend(middle).sum() > budget else (low, middle)
    return spend(high)


MIN_CLEAR_DEVIATIONS = 10.0
"""Measured distances above this many standard deviations are not shrunk."""

_RIGHT = 3.0
"""Pseudo-count of distances of zero in the prior: a few measurements alone determine it poorly."""

_STEPS = 4
"""Grid points per standard deviation of the noise."""

_ROUNDS = 100


def shrink_distances(seen: Array, sigma: float, caution: float = 0.0) -> Array:
    """Return empirical-Bayes estimates of distances measured with noise of standard deviation `sigma`.

    The largest of many noisy distances are those with the largest noise. The prior is the distribution of distances
    that maximises the likelihood of all measurements (Kiefer and Wolfowitz; by expectation maximisation on a grid); the
    estimate is the posterior mean (Robbins). Privacy: post-processing of released measurements.

    Each is the posterior mean less `caution` posterior standard deviations: the cost of a wrong selection is certain,
    while its gain is estimated optimistically.

    >>> few = shrink_distances(np.array([-9.0, 4.0, 11.0, 500.0]), 10.0)
    >>> bool((few[:3] < 5).all()), float(few[3])
    (True, 500.0)
    """
    believed = np.maximum(seen - caution * sigma, 0.0)
    unclear = seen < MIN_CLEAR_DEVIATIONS * sigma
    if not (sigma > 0 and unclear.any()):
        return np.asarray(believed)
    answers = seen[unclear] / sigma
    largest = max(MIN_CLEAR_DEVIATIONS - caution, 0.0) * sigma
    grid = np.arange(0.0, MIN_CLEAR_DEVIATIONS + 2.0, 1 / _STEPS)
    # Each row is scaled to a maximum likelihood of 1, so none underflows; the factor cancels.
    apart = -0.5 * np.square(answers[:, None] - grid)
    likelihood = np.exp(apart - apart.max(axis=1, keepdims=True))
    spread = np.full(grid.size, 1 / grid.size)
    for _ in range(_ROUNDS):
        spread = spread * ((1 / (likelihood @ spread)) @ likelihood)
        spread[0] += _RIGHT
        spread /= spread.sum()
    posterior = likelihood * spread
    posterior /= posterior.sum(axis=1, keepdims=True)
    mean = posterior @ grid
    unsure = np.sqrt(np.maximum(posterior @ grid**2 - mean**2, 0.0))
    # With few measurements the prior is overconfident: the estimate is at most that of the smallest clear distance.
    believed[unclear] = np.minimum(sigma * np.maximum(mean - caution * unsure, 0.0), largest)
    return np.asarray(believed)


@dataclass(frozen=True)
class RequiredCliques:
    """Cliques of the required marginals, which are always measured."""

    parts: Mapping[Clique, float]
    """How their minimum budget is divided among them."""
    emphasis: Mapping[Clique, float]
    """Weight of the error of each, relative to other tables."""
    share: float
    """Their minimum part of a batch's budget; the joint selection decides on more."""

    def among(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Return the candidates with the required cliques added; one-way marginals are candidates anyway."""
        known = set(cliques)
        return [*cliques, *(c for c in self.parts if len(c) > 1 and c not in known)]

    def floors(self, budget: float) -> dict[Clique, float]:
        """Return the minimum budget of each."""
        whole = math.fsum(self.parts.values())
        return {c: self.share * budget * part / whole for c, part in self.parts.items()}


@dataclass(frozen=True)
class Choice:
    """Measured cliques of a batch with their prices, and pairs taken from public rows."""

    prices: dict[Clique, float]
    taken: dict[Clique, NoisyMarginal]
    """Estimates of pairs from public rows that are accurate enough not to be measured."""


def choose_cliques(
    curator: Curator,
    field: DenseField,
    measured: dict[Clique, NoisyMarginal],
    cliques: list[Clique],
    *,
    scores: float,
    share: float,
    overlap: int,
    most: int,
    caution: float,
    wanted: RequiredCliques | None = None,
    prior: PublicPrior | None = None,
) -> Choice:
    """Return the cliques to measure with their prices; measured attributes and pairs may be measured again.

    The distances of the model from the candidates are measured with the share `scores`; the selected cliques cost
    `share`. Of cliques with more than three attributes, at most `most` are taken, and no two share more than `overlap`
    attributes. Without such cliques, distances are shrunk with `caution` (`shrink_distances`). Cliques of `wanted` are
    always measured. A `prior` provides alternative estimates of pairs.
    """
    wanted = wanted or RequiredCliques({}, {}, 0.0)
    domain, pure = curator.domain, curator.accounting.is_pure
    larger = any(len(c) > 3 and c not in wanted.parts for c in cliques)
    again = [m for m in measured.values() if len(m.clique) <= 2]
    known = {m.clique: field.tables[m.clique] for m in again}
    part = compute_interaction_share(domain, [m.clique for m in again], measured, pure)
    precision = np.array([m.precision for m in again])[:, None] * part
    errors = field.beliefs.errors_known(known, part, part / np.sqrt(precision))[:, 0]
    # Errors of sub-marginals add in quadrature; measuring interaction terms only does not remove them.
    beyond = np.array([find_lowest_unmeasured_order(domain, c, measured, pure) > 0 for c in cliques], np.bool_)
    below = beyond * (_build_containment(cliques, [m.clique for m in again]) @ errors**2)
    new, gaps, nearer = _measure_distances(curator, field, cliques, scores, below, None if larger else caution, prior)
    if larger:
        own_choice = [i for i in _select_spread_candidates(cliques, gaps, overlap) if cliques[i] not in wanted.parts][
            :most
        ]
        kept = [*own_choice, *(i for i, c in enumerate(cliques) if c in wanted.parts)]
        cliques, new, gaps = [cliques[i] for i in kept], [new[i] for i in kept], gaps[kept]

    budget = curator.rho(share)
    prices = budget / 2.0 ** np.arange(12, step=0.5)
    sigmas = curator.sigma_of(prices)
    fresh = compute_interaction_share(domain, cliques, measured, pure)
    bought = np.concatenate(
        [
            field.beliefs.errors_new(group_cells_by_size(new), cliques, gaps, fresh, fresh * sigmas),
            field.beliefs.errors_known(known, part, part / np.sqrt(precision + 1 / sigmas**2)),
        ]
    )
    offered = [*cliques, *(m.clique for m in again)]
    bought[~_find_drawable_noise(domain, offered, measured, pure, sigmas)] = np.inf
    importance = np.array([wanted.emphasis.get(c, 1.0) for c in offered])
    floors = wanted.floors(budget)
    free = budget - math.fsum(floors.values())
    chosen = _choose_jointly(offered, np.concatenate([gaps, errors]), bought, prices, free, importance)
    chosen |= {c: floor + chosen.get(c, 0.0) for c, floor in floors.items()}
    field.beliefs.expect({c: table for c, table in zip(cliques, new, strict=True) if c in chosen})
    taken = {c: guess for c, guess in nearer.items() if c not in chosen}
    return Choice(chosen or {m.clique: 1.0 for m in again}, taken)


def _measure_distances(
    curator: Curator,
    field: DenseField,
    cliques: Sequence[Clique],
    scores: float,
    below: Array,
    caution: float | None,
    prior: PublicPrior | None,
) -> tuple[list[Array], Array, dict[Clique, NoisyMarginal]]:
    """Measure the distances of the model's tables, and of the prior's pairs, from the data; keep the closer ones.

    `below` is what errors of sub-marginals add to each squared distance. Return the best table of each clique, its
    estimated distance, and the pairs for which the prior is closer as noisy marginals.
    """
    new, own = field.expected(cliques)
    pairs = [i for i, c in enumerate(cliques) if len(c) == 2] if prior is not None else []
    others = [] if prior is None else prior.guesses([cliques[i] for i in pairs], field.tables)
    asked = [*zip(cliques, new, strict=True), *((cliques[i], t) for i, t in zip(pairs, others, strict=True))]
    seen = curator.gaps([Marginal(c, table) for c, table in asked], scores)
    if pairs:
        apart = np.array([np.abs(new[i] - table).sum() for i, table in zip(pairs, others, strict=True)])
        seen[pairs], seen[len(cliques) :] = reconcile_distances(seen[pairs], seen[len(cliques) :], apart)
    sigma = curator.gap_sigma(len(asked), scores) if asked else 0.0
    # A larger clique improves the model by more than its own distance, since all its marginals are fitted together.
    # Shrinkage would drop most of these random cliques, and a model with many of them is better (decision 007).
    first, second = (
        np.maximum(part - sigma, 0) if caution is None else shrink_distances(part, sigma, caution)
        for part in (seen[: len(cliques)], seen[len(cliques) :])
    )
    # The sampling error of the chains adds to a distance in quadrature.
    gaps = np.sqrt(np.maximum(first**2 - own**2 - below, 0))
    nearer: dict[Clique, NoisyMarginal] = {}
    for i, table, gap in zip(pairs, others, np.sqrt(np.maximum(second**2 - below[pairs], 0)), strict=True):
        if prior is not None and gap < NEARER * gaps[i]:
            new[i], gaps[i] = table, gap
            # The error of an estimate is no better known than its distance.
            nearer[cliques[i]] = prior.taken(cliques[i], table, max(float(gap), sigma / 2))
    return new, gaps, nearer


def _find_drawable_noise(
    domain: Domain, cliques: Sequence[Clique], known: Mapping[Clique, NoisyMarginal], pure: bool, sigmas: Array
) -> Array:
    """Return which noise can be drawn for each clique: interaction terms are measured times their cells."""
    times = [domain.cells(c) if find_lowest_unmeasured_order(domain, c, known, pure) else 1 for c in cliques]
    return np.asarray(np.multiply.outer(np.array(times, np.float64), sigmas) <= MAX_NOISE_SCALE)


def _select_spread_candidates(cliques: list[Clique], gaps: Array, overlap: int) -> list[int]:
    """Return the candidates of largest gap that pairwise share at most `overlap` attributes."""
    kept: list[int] = []
    for i in np.argsort(-gaps, kind="stable").tolist():
        if all(len(set(cliques[i]) & set(cliques[j])) <= overlap for j in kept):
            kept.append(i)
    return kept


def _choose_jointly(
    offered: Sequence[Clique], left: Array, bought: Array, prices: Array, budget: float, importance: Array
) -> dict[Clique, float]:
    """Return the prices that minimise the sum of errors weighted by importance, for cliques with a positive price.

    The error of a table adds in quadrature to every larger table that contains it: its weight is the derivative of
    sqrt(t^2 + sum e^2), t being the error of the larger table and e those of its sub-marginals. The weights depend on
    the selection, hence the iterations.
    """
    contains = _build_containment(offered, offered)
    weight = importance
    levels = np.broadcast_to(prices, bought.shape)
    for _ in range(8):
        spent = choose_budgets(weight * left, weight[:, None] * bought, levels, budget)
        level = np.searchsorted(-prices, -spent)
        error = np.where(spent > 0, bought[np.arange(len(offered)), np.minimum(level, prices.size - 1)], left)
        whole = np.sqrt(error**2 + contains @ error**2)
        felt = error * (contains.T @ (1 / np.maximum(whole, 1e-9)))
        weight = np.sqrt(weight * (importance + felt))  # geometric mean: a full step oscillates
    return {c: float(price) for c, price in zip(offered, spent, strict=True) if price > 0}


def _build_containment(cliques: Sequence[Clique], smaller: Sequence[Clique]) -> csr_array:
    """Return a sparse 0/1 matrix: 1 where a smaller clique is a proper subset of a clique."""
    at = {name: i for i, name in enumerate(sorted({name for c in (*cliques, *smaller) for name in c}))}

    def member(some: Sequence[Clique]) -> tuple[csr_array, Array]:
        sizes = np.array([len(c) for c in some], np.int64)
        places = np.array([at[name] for c in some for name in c], np.int64)
        return csr_array((np.ones(len(places)), places, np.r_[0, np.cumsum(sizes)]), shape=(len(some), len(at))), sizes

    (whole, size), (parts, sizes) = member(cliques), member(smaller)
    shared = (whole @ parts.T).tocoo()
    row, column = shared.coords
    inside = (shared.data == sizes[column]) & (sizes[column] < size[row])
    return csr_array((np.ones(inside.sum()), (row[inside], column[inside])), shape=shared.shape)
