"""Which candidates of a batch are worth measuring, and at which price: the least sum of errors for the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.noise_error import group_cells_by_size
from weft.methods.weave.dense_model import DenseField
from weft.methods.weave.fine_marginals import compute_interaction_share, find_lowest_unmeasured_order
from weft.methods.weave.public_prior import NEARER, PublicPrior, reconcile_distances
from weft.privacy.noise import MAX_NOISE_SCALE

# Which marginals to measure, each with how much: one choice among prices.


def choose_budgets(gaps: Array, errors: Array, prices: Array, budget: float) -> Array:
    """Return the budget of each candidate: 0 to leave it, with its gap, or one of its prices, with that error.

    `errors[i, l]` and `prices[i, l]` are what level l leaves and costs. The budgets sum to at most `budget`.
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


# How far a model is from each of many tables, as far as noisy answers tell: empirical Bayes on the answers.

MIN_CLEAR_DEVIATIONS = 10.0
"""Deviations of noise above which an answer speaks for itself."""

_RIGHT = 3.0
"""So many more tables are taken to be as the model has them: a few answers alone tell little of how they are spread."""

_STEPS = 4
"""Points of the grid for each deviation of noise."""

_ROUNDS = 100


def shrink_distances(seen: Array, sigma: float, caution: float = 0.0) -> Array:
    """Return what is believed of distances that were answered with noise of this standard deviation.

    Each is `caution` deviations of what is not known of it below its mean: what a wrong purchase costs is certain, and
    what it gains is foretold by an optimist, who knows how far to believe the answer.

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
    # Each answer's own likeliest point has likelihood 1, so none vanishes; what is common to a row cancels.
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
    # Of few answers the spread is too sure of itself; what is unclear is believed no more than what is not would be.
    believed[unclear] = np.minimum(sigma * np.maximum(mean - caution * unsure, 0.0), largest)
    return np.asarray(believed)


@dataclass(frozen=True)
class RequiredCliques:
    """Cliques that are measured whatever they are worth, because somebody named them."""

    parts: Mapping[Clique, float]
    """How what they get at least is divided among them."""
    emphasis: Mapping[Clique, float]
    """How much more an error of each weighs than one of other tables."""
    share: float
    """The part of a batch's budget that they get at least; what each is worth beyond that, the prices tell."""

    def among(self, cliques: Sequence[Clique]) -> list[Clique]:
        """Return candidates with the wanted ones among them; columns are candidates anyway."""
        known = set(cliques)
        return [*cliques, *(c for c in self.parts if len(c) > 1 and c not in known)]

    def floors(self, budget: float) -> dict[Clique, float]:
        """Return what is spent on each at least."""
        whole = math.fsum(self.parts.values())
        return {c: self.share * budget * part / whole for c, part in self.parts.items()}


@dataclass(frozen=True)
class Choice:
    """What a batch measures, and what it takes from elsewhere instead."""

    prices: dict[Clique, float]
    taken: dict[Clique, NoisyMarginal]
    """Guesses of public rows that are near enough: pairs that are not worth measuring beside them."""


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
    """Return the cliques worth measuring, known columns and pairs among them, with their prices.

    A share `scores` of the budget asks how far the field is from each candidate; `share` is what the chosen ones may
    cost. Of cliques with more than three attributes at most `most` are taken, of which no two share more than
    `overlap`. Where there are none of those, distances are believed with `caution` (`shrink_distances`). Those that
    somebody `wanted` are measured whatever they are worth. A `prior` has other guesses of pairs than the field's.
    """
    wanted = wanted or RequiredCliques({}, {}, 0.0)
    domain, pure = curator.domain, curator.accounting.is_pure
    larger = any(len(c) > 3 and c not in wanted.parts for c in cliques)
    again = [m for m in measured.values() if len(m.clique) <= 2]
    known = {m.clique: field.tables[m.clique] for m in again}
    part = compute_interaction_share(domain, [m.clique for m in again], measured, pure)
    precision = np.array([m.precision for m in again])[:, None] * part
    errors = field.beliefs.errors_known(known, part, part / np.sqrt(precision))[:, 0]
    # Errors of smaller tables add to a distance as independent errors do: measuring what goes beyond them leaves them.
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
    """Ask how far guesses are from the private tables: the field's, and of pairs a prior's; keep the nearer ones.

    `below` is what errors of smaller tables add to each squared distance. Returned are a guess of each clique, how far
    that is believed to be from the truth, and those of the prior as tables.
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
    # A larger clique is worth more than its own distance, since all it holds is fitted together: of those, drawn at
    # random, most are left by what can be believed, and a model of many of them is the better one (decision 007).
    first, second = (
        np.maximum(part - sigma, 0) if caution is None else shrink_distances(part, sigma, caution)
        for part in (seen[: len(cliques)], seen[len(cliques) :])
    )
    # The chains' own sampling adds to a distance as an independent error does.
    gaps = np.sqrt(np.maximum(first**2 - own**2 - below, 0))
    nearer: dict[Clique, NoisyMarginal] = {}
    for i, table, gap in zip(pairs, others, np.sqrt(np.maximum(second**2 - below[pairs], 0)), strict=True):
        if prior is not None and gap < NEARER * gaps[i]:
            new[i], gaps[i] = table, gap
            # No guess is known better than its distance.
            nearer[cliques[i]] = prior.taken(cliques[i], table, max(float(gap), sigma / 2))
    return new, gaps, nearer


def _find_drawable_noise(
    domain: Domain, cliques: Sequence[Clique], known: Mapping[Clique, NoisyMarginal], pure: bool, sigmas: Array
) -> Array:
    """Return which noise could be drawn for which clique: interactions are asked times their cells."""
    times = [domain.cells(c) if find_lowest_unmeasured_order(domain, c, known, pure) else 1 for c in cliques]
    return np.asarray(np.multiply.outer(np.array(times, np.float64), sigmas) <= MAX_NOISE_SCALE)


def _select_spread_candidates(cliques: list[Clique], gaps: Array, overlap: int) -> list[int]:
    """Return the candidates of largest gap that overlap little with each other."""
    kept: list[int] = []
    for i in np.argsort(-gaps, kind="stable").tolist():
        if all(len(set(cliques[i]) & set(cliques[j])) <= overlap for j in kept):
            kept.append(i)
    return kept


def _choose_jointly(
    offered: Sequence[Clique], left: Array, bought: Array, prices: Array, budget: float, importance: Array
) -> dict[Clique, float]:
    """Return the price of each clique that is worth one, for the least sum of errors, each times its importance.

    An error of a table is felt in every larger one that contains it, in quadrature with that one's own: it weighs as
    the derivative of sqrt(t^2 + sum e^2), t a table's error and e those inside. That depends on the choice: a few
    rounds.
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
        weight = np.sqrt(weight * (importance + felt))  # half a step: a whole one swings
    return {c: float(price) for c, price in zip(offered, spent, strict=True) if price > 0}


def _build_containment(cliques: Sequence[Clique], smaller: Sequence[Clique]) -> csr_array:
    """Return, of each clique, which of the others have some of its attributes, and no more: 1, in a sparse matrix."""
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
