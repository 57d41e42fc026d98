"""Candidate cliques: small enough to measure well and to be represented by a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.noise_error import compute_expected_noise


def useful_limit(total: float, theta: float, sigma: float) -> float:
    """Return the maximum cells at which the average count is at least theta times the mean absolute noise of a cell."""
    return total / (theta * float(compute_expected_noise(1, sigma)))


def useful_subsets(cliques: Iterable[Clique], domain: Domain, max_cells: float, max_ways: int) -> list[Clique]:
    """Return every subset of these cliques with at most `max_cells` cells and `max_ways` attributes; singletons always.

    With max_cells = n / (theta * mean absolute noise), these are PrivMRF's theta-useful candidates (Algorithm 2; the
    limit on attributes is that of its public code). Sets grow by one attribute, so none above the limit is enumerated.
    """
    found: set[Clique] = set()
    for c in cliques:
        sizes = [domain.size(name) for name in c]
        layer: list[tuple[tuple[int, ...], int]] = [((i,), size) for i, size in enumerate(sizes)]
        for _ in range(max_ways):
            found.update(tuple(c[i] for i in members) for members, _ in layer)
            layer = [
                ((*members, i), cells * sizes[i])
                for members, cells in layer
                for i in range(members[-1] + 1, len(c))
                if cells * sizes[i] <= max_cells
            ]
    return sorted(found, key=lambda s: (len(s), s))


def best_families(
    candidates: Sequence[Clique], correlation: Mapping[Clique, float], domain: Domain, *, whole: bool = False
) -> list[Clique]:
    """Return, for each attribute, the unused candidate of largest merit that contains it (PrivMRF Algorithm 3).

    Merit is that of correlation-based feature selection, sum_B R(A,B) / sqrt(|M'| + sum_{B != B'} R(B,B')), with B in
    M' = M without A, or M' = M if `whole`, as printed in eq. 8. Correlations should lie in [0, 1]: with the paper's
    counts, |M'| is negligible. The radicand is at least 1.
    """
    d = len(domain)
    related = np.zeros((d, d))
    for pair, value in correlation.items():
        i, j = (domain.index(name) for name in pair)
        related[i, j] = related[j, i] = value
    member = np.zeros((len(candidates), d))
    for i, c in enumerate(candidates):
        member[i, [domain.index(name) for name in c]] = 1.0
    members = member.sum(axis=1) - (0 if whole else 1)
    pairs = np.einsum("id,de,ie->i", member, related, member)  # ordered pairs; the diagonal is zero
    free = np.ones(len(candidates), dtype=bool)
    chosen: list[Clique] = []
    for a in range(d):
        towards = member @ related[:, a]
        within = pairs - 2 * towards
        merit = towards / np.sqrt(np.maximum(members + within, 1.0))
        merit = np.where(free & (member[:, a] > 0), merit, -np.inf)
        best = int(merit.argmax())
        if np.isfinite(merit[best]):
            chosen.append(candidates[best])
            free[best] = False
    return chosen


def all_subsets(domain: Domain, max_ways: int, max_cells: float) -> list[Clique]:
    """Return every set of two to `max_ways` attributes with at most `max_cells` cells."""
    names = sorted(domain)
    return [c for k in range(2, max_ways + 1) for c in itertools.combinations(names, k) if domain.cells(c) <= max_cells]


def useful_cells(total: float, scale: float, theta: float) -> float:
    """Return the maximum cells of a theta-useful table (PrivBayes); at least 1."""
    return max(1.0, total / (theta * scale))


def parent_sets(domain: Domain, placed: Sequence[str], cells: float, limit: int) -> list[Clique]:
    """Return the maximal sets of placed attributes whose table has at most `cells` cells; [()] if none fits.

    If there are more than `limit`, return the maximal sets of at most t parents, for the largest t within the limit.
    Privacy: only public domain sizes are used.

    >>> parent_sets(Domain(("a", "b", "c"), (2, 3, 9)), ["a", "b", "c"], 10, limit=100)
    [('a', 'b'), ('c',)]
    """
    names = sorted(placed, key=lambda name: (domain.size(name), name))
    sizes = [domain.size(name) for name in names]
    found: list[Clique] = [()]
    for most in range(1, len(names) + 1):
        longer = []
        for chosen in _iterate_fitting_sets(sizes, cells, most):
            longer.append(make_clique(names[i] for i in chosen))
            if len(longer) > limit:
                return found
        if sorted(longer) == sorted(found):
            return found
        found = longer
    return found


def _iterate_fitting_sets(sizes: Sequence[int], cells: float, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the maximal sets of at most `most` positions whose product of sizes is at most `cells`."""

    def grow(chosen: tuple[int, ...], product: int, start: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) < most:
            for i in range(start, len(sizes)):  # ascending sizes: after the first that does not fit, none does
                if product * sizes[i] > cells:
                    break
                yield from grow((*chosen, i), product * sizes[i], i + 1)
        # Maximal: the set is full, or the smallest attribute left out does not fit.
        left_out = next((i for i in range(len(sizes)) if i not in chosen), None)
        if len(chosen) == most or left_out is None or product * sizes[left_out] > cells:
            yield chosen

    return grow((), 1, 0)
