"""Counts from all released tables that tell of them, with the exact variance of what the noise adds.

A table over attributes Q is a sum of terms, one for each subset S of Q: what the marginal of S tells that those of
fewer attributes do not (`weft.marginals.marginal.compute_interaction`). Terms are orthogonal, so that the independent
noise of a table is independent between its terms, and each term can be pooled by itself over every table whose
attributes include S, with weights of one over its noise variance there. That is the least-squares answer to all tables
at once where they have the same codes. A table that was counted in finer codes takes part folded, with weights that are
nearly the best; in codes that cut across those of the answer, only with its total.

Whatever the weights, the answer is a sum of coefficients times noisy cells and has no bias where every term was
measured; its variance is the sum of sigma^2 times the squared coefficients. Coefficients are products over attributes,
and so is their sum of squares: nothing larger than the answer is ever made.
"""

from __future__ import annotations

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
    """One attribute of the answer: the codes it is worked out in, and how they add up to what is shown."""

    codes: Array
    """Working code of each of the schema's codes."""
    size: int
    """Number of working codes."""
    bins: sparse.csr_array
    """Bins by working codes: 1 where a code belongs to a bin, the part of it where only that part does."""

    @property
    def shown(self) -> int:
        """Number of bins."""
        return int(self.bins.shape[0])

    @cached_property
    def spread(self) -> Array:
        """The part of each bin in a table that tells nothing of this attribute."""
        return np.asarray(self.bins.sum(axis=1) / self.size)

    def binned(self, table: Array, place: int) -> Array:
        """Return a table with its working codes of one place summed to bins."""
        first = np.moveaxis(table, place, 0)
        found = self.bins @ first.reshape(self.size, -1)
        return np.moveaxis(np.asarray(found).reshape(self.shown, *first.shape[1:]), 0, place)

    def centred(self, table: Array, place: int) -> Array:
        """Return what a term adds to the bins: their sums, without what each would have of an even table."""
        even = np.multiply.outer(self.spread, table.sum(axis=place))
        return np.asarray(self.binned(table, place) - np.moveaxis(even, 0, place))

    def squared(self, held: Array) -> Array:
        """Return the sums of squares of the centred bins, each working code as often as it is held."""
        of_bins = self.bins.multiply(self.bins) @ held - 2 * self.spread * (self.bins @ held)
        return np.asarray(of_bins + self.spread**2 * held.sum())

    def fold(self, own: Array) -> Array | None:
        """Return the working code of each code of a table, given its codes; None if these cut across."""
        found = np.full(int(own.max()) + 1, -1)
        found[own] = self.codes
        return found if np.array_equal(found[own], self.codes) else None


@dataclass(frozen=True)
class Pooled:
    """Counts by bins, and the variance that noise gives each."""

    counts: Array
    variance: Array
    missing: tuple[Clique, ...]
    """Terms that no table tells: they are 0 in the counts. None: the answer has no bias."""


@dataclass(frozen=True)
class _Part:
    """What one table tells of the answer."""

    held: Released
    folds: Mapping[str, Array]
    """Working code of each of its codes, for attributes where it tells them."""
    weights: dict[Clique, float] = field(default_factory=dict)
    """Its weight in each term."""

    def variance(self, term: Clique, axes: Mapping[str, Axis]) -> float:
        """Return the noise variance of a cell of its projection onto a term, in working codes, on average."""
        sizes = math.prod(self.held.size(name) for name in self.held.clique)
        return self.held.noisy.sigma**2 * sizes / math.prod(axes[name].size for name in term)


def pool_released_counts(released: Sequence[Released], axes: Mapping[str, Axis], sizes: Mapping[str, int]) -> Pooled:
    """Return the counts over some attributes, sorted by name, from all released tables; `sizes` are the schema's."""
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
    """Whether a table tells of a term; an interaction does in its own codes only, since its means are over these."""
    if part.held.noisy.order > len(term) or any(name not in part.folds for name in term):
        return False
    return not part.held.noisy.order or all(len(part.folds[name]) == axes[name].size for name in term)


def _project_term(part: _Part, term: Clique, axes: Mapping[str, Axis]) -> Array:
    table = project_table(np.asarray(part.held.noisy.table, np.float64), part.held.clique, term)
    for axis, name in enumerate(term):
        table = sum_by_codes(table, part.folds[name], axes[name].size, axis)
    return table


def _spread_out(table: Array, term: Clique, wanted: Clique, axes: Mapping[str, Axis]) -> Array:
    """Return what a term adds to each bin of the answer."""
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
                continue  # codes of equal weight: terms are orthogonal
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
    """Return the sums, over a table's codes, of squared coefficients and of coefficients; None where these are 0."""
    held = np.bincount(part.folds[name], minlength=axis.size).astype(np.float64)
    even = bool((held == held[0]).all())
    return axis.squared(held), None if even else axis.centred(held, 0)


def _outer_product(vectors: Sequence[Array]) -> Array:
    return np.asarray(reduce(np.multiply.outer, vectors, np.ones(())))
