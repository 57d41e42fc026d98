"""Estimate counts from all released marginals that determine them, with the exact variance due to noise.

A table over attributes Q is the sum of one interaction term for each subset S of Q: the part of the marginal of S that
its sub-marginals do not determine (`weft.marginals.marginal.compute_interaction`). Terms are orthogonal, so the noise
of a table is independent between its terms, and each term is pooled separately over all tables whose attributes include
S, weighted by inverse noise variance. If all tables have the same codes, this is the least-squares estimate. A table
measured in finer codes is summed to the codes of the answer, with nearly optimal weights; an attribute whose measured
codes span several codes of the answer is summed out.

For any weights, the estimate is linear in the noisy cells and unbiased if every term was measured; its variance is the
sum of sigma^2 times the squared coefficients. Coefficients are products over attributes, and so are their sums of
squares: no array larger than the answer is needed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
from scipy import sparse

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, project_table
from weft.marginals.pooling import Released
from weft.marginals.value_groups import sum_by_codes


@dataclass(frozen=True)
class Axis:
    """One attribute of the answer: its working codes, and the bins that they are summed to."""

    codes: Array
    """Working code of each of the schema's codes."""
    size: int
    bins: sparse.csr_array
    """Matrix of bins by working codes: the fraction of each code that belongs to each bin."""

    @property
    def shown(self) -> int:
        """Number of bins."""
        return int(self.bins.shape[0])

    @cached_property
    def spread(self) -> Array:
        """Share of each bin in a table that is uniform over this attribute."""
        return np.asarray(self.bins.sum(axis=1) / self.size)

    def binned(self, table: Array, place: int) -> Array:
        """Sum the working codes along one axis of a table to bins."""
        first = np.moveaxis(table, place, 0)
        found = self.bins @ first.reshape(self.size, -1)
        return np.moveaxis(np.asarray(found).reshape(self.shown, *first.shape[1:]), 0, place)

    def centred(self, table: Array, place: int) -> Array:
        """Return the contribution of a term to the bins: their sums, less those of a uniform table."""
        even = np.multiply.outer(self.spread, table.sum(axis=place))
        return np.asarray(self.binned(table, place) - np.moveaxis(even, 0, place))

    def squared(self, held: Array) -> Array:
        """Return the sums of squared coefficients of the centred bins, with working code i repeated `held[i]` times."""
        of_bins = self.bins.multiply(self.bins) @ held - 2 * self.spread * (self.bins @ held)
        return np.asarray(of_bins + self.spread**2 * held.sum())

    def fold(self, own: Array) -> Array | None:
        """Return the working code of each code of a table, given its coding; None if one spans several."""
        found = np.full(int(own.max()) + 1, -1)
        found[own] = self.codes
        return found if np.array_equal(found[own], self.codes) else None


@dataclass(frozen=True)
class Pooled:
    """Estimated counts by bin, with their noise variance."""

    counts: Array
    variance: Array
    missing: tuple[Clique, ...]
    """Terms that no table determines: they are 0 in the counts. If empty, the estimate is unbiased."""


@dataclass(frozen=True)
class _Part:
    """Contribution of one released table to the answer."""

    held: Released
    folds: Mapping[str, Array]
    """Working code of each of its codes, for attributes whose working codes it determines."""
    weights: dict[Clique, float] = field(default_factory=dict)

    def variance(self, term: Clique, axes: Mapping[str, Axis]) -> float:
        """Return the mean noise variance of a cell of its projection onto a term, in working codes."""
        sizes = math.prod(self.held.size(name) for name in self.held.clique)
        return self.held.noisy.sigma**2 * sizes / math.prod(axes[name].size for name in term)


def pool_released_counts(released: Sequence[Released], axes: Mapping[str, Axis], sizes: Mapping[str, int]) -> Pooled:
    """Estimate counts over the attributes of `axes`, sorted by name; `sizes` are the numbers of schema codes."""
    wanted = tuple(sorted(axes))
    parts = [_fold_table(held, axes, sizes) for held in released]
    terms = [term for few in range(len(wanted) + 1) for term in itertools.combinations(wanted, few)]
    counts = np.zeros([axes[name].shown for name in wanted])
    missing = []
    for term in terms:
        telling = [part for part in parts if _determines_term(part, term, axes)]
        if not telling:
            missing.append(term)
            continue
        precision = [1 / part.variance(term, axes) for part in telling]
        whole = math.fsum(precision)
        found = np.zeros([axes[name].size for name in term])
        for part, own in zip(telling, precision, strict=True):
            part.weights[term] = own / whole
            found += own / whole * _project_term(part, term, axes)
        counts += _spread_out(found, term, wanted, axes)
    return Pooled(counts, _compute_variance(parts, wanted, axes), tuple(missing))


def _fold_table(held: Released, axes: Mapping[str, Axis], sizes: Mapping[str, int]) -> _Part:
    folds = {}
    for name in held.clique:
        if name in axes:
            fold = axes[name].fold(held.codes(name, sizes[name]))
            if fold is not None:
                folds[name] = fold
    return _Part(held, folds)


def _determines_term(part: _Part, term: Clique, axes: Mapping[str, Axis]) -> bool:
    """Return whether a table determines a term; interaction terms do so only in the codes that they are centred in."""
    if part.held.noisy.order > len(term) or any(name not in part.folds for name in term):
        return False
    whole = part.held.completed or not part.held.noisy.order
    return whole or all(len(part.folds[name]) == axes[name].size for name in term)


def _project_term(part: _Part, term: Clique, axes: Mapping[str, Axis]) -> Array:
    table = project_table(np.asarray(part.held.noisy.table, np.float64), part.held.clique, term)
    for axis, name in enumerate(term):
        table = sum_by_codes(table, part.folds[name], axes[name].size, axis)
    return table


def _spread_out(table: Array, term: Clique, wanted: Clique, axes: Mapping[str, Axis]) -> Array:
    for place, name in enumerate(term):
        table = axes[name].centred(table, place)
    shape = [axes[name].shown if name in term else 1 for name in wanted]
    others = [axes[name].spread if name not in term else np.ones(1) for name in wanted]
    return table.reshape(shape) * _outer_product(others)


def _compute_variance(parts: Sequence[_Part], wanted: Clique, axes: Mapping[str, Axis]) -> Array:
    """Sum sigma^2 times the squared coefficients over all tables."""
    total = np.zeros([axes[name].shown for name in wanted])
    of_totals = 0.0
    for part in parts:
        if list(part.weights) == [()]:
            of_totals += part.weights[()] ** 2 * part.held.total_variance
            continue
        squares = {name: _sum_squares(part, axes[name], name) for name in part.folds}
        for one, other in itertools.product(part.weights, repeat=2):
            mixed = set(one) ^ set(other)
            if any(squares[name][1] is None for name in mixed):
                continue  # equally many codes in each working code: the terms are orthogonal
            vectors = []
            for name in wanted:
                axis = axes[name]
                if name in mixed:
                    vectors.append(squares[name][1] * axis.spread)
                elif name in one:
                    vectors.append(squares[name][0])
                else:
                    vectors.append(axis.spread**2 * (part.held.size(name) if name in part.held.clique else 1))
            beside = math.prod(part.held.size(name) for name in part.held.clique if name not in axes)
            scale = part.held.noisy.sigma**2 * beside * part.weights[one] * part.weights[other]
            total += scale * _outer_product(vectors)
    return total + of_totals * _outer_product([axes[name].spread ** 2 for name in wanted])


def _sum_squares(part: _Part, axis: Axis, name: str) -> tuple[Array, Array | None]:
    """Return the sums of squared coefficients and of coefficients over a table's codes; None if the latter are 0."""
    held = np.bincount(part.folds[name], minlength=axis.size).astype(np.float64)
    even = bool((held == held[0]).all())
    return axis.squared(held), None if even else axis.centred(held, 0)


def _outer_product(vectors: Sequence[Array]) -> Array:
    return np.asarray(reduce(np.multiply.outer, vectors, np.ones(())))
