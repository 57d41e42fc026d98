"""Candidate cliques: small enough to measure well and to be represented by a model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.noise_error import compute_expected_noise


def useful_limit(total: float, theta: float, sigma: float) -> float:
    """Return the maximum cells at which the average count is at least theta times the mean absolute noise of a cell."""
    return total / (theta * float(compute_expected_noise(1, sigma)))


MAX_CANDIDATES = 500_000
"""Maximum candidates without a limit on their attributes; beyond it, larger sets of attributes are left out."""


def useful_subsets(cliques: Iterable[Clique], domain: Domain, max_cells: float, max_ways: int | None) -> list[Clique]:
    """Return every subset of these cliques with at most `max_cells` cells and `max_ways` attributes; singletons always.

    With max_cells = n / (theta * mean absolute noise), these are PrivMRF's theta-useful candidates (Algorithm 2). The
    paper has no limit on attributes (None), its public code has 6. Sets grow by one attribute, so none above the limit
    is enumerated. With None, sizes are left out from the first with which there are more than MAX_CANDIDATES sets.
    """
    found: set[Clique] = set()
    wholes = list(cliques)
    sizes = [[domain.size(name) for name in c] for c in wholes]
    layers: list[list[tuple[tuple[int, ...], int]]] = [[((i,), n) for i, n in enumerate(each)] for each in sizes]
    most = MAX_CANDIDATES if max_ways is None else None
    for _ in range(max_ways or len(domain)):
        larger = {tuple(c[i] for i in members) for c, layer in zip(wholes, layers, strict=True) for members, _ in layer}
        if most is not None and len(found) + len(larger) > most:
            break
        found |= larger
        layers = [
            list(itertools.islice(_widen_subsets(layer, each, max_cells), None if most is None else most + 1))
            for layer, each in zip(layers, sizes, strict=True)
        ]
    return sorted(found, key=lambda s: (len(s), s))


def _widen_subsets(
    layer: Iterable[tuple[tuple[int, ...], int]], sizes: Sequence[int], max_cells: float
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the sets with one more position, a later one, and their cells."""
    for members, cells in layer:
        for i in range(members[-1] + 1, len(sizes)):
            if cells * sizes[i] <= max_cells:
                yield (*members, i), cells * sizes[i]


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
