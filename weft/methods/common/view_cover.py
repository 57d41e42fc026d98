"""Views for PriView (Qardaji, Yang, Li; SIGMOD 2014; DPSyn, section 3.3): covering designs.

A view is a set of attributes whose table has a bounded number of cells (eight binary attributes: 256). In a covering
design of strength t, every t attributes are in some view. Views are grown greedily: each starts from an uncovered set
and adds the attribute that covers the most further sets; the smallest design of several restarts is kept. Sets of t
attributes whose own table has too many cells are skipped; every attribute is in some view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array

MAX_SETS = 4_000_000
"""Maximum entries of the coverage table, d^t for d attributes."""

RESTARTS = 4


def covers_all_sets(views: Sequence[Clique], domain: Domain, t: int, max_cells: int) -> bool:
    """Return whether every t attributes that fit into a view are in one, and every attribute is in some view."""
    missing = _mark_uncovered(domain, t, max_cells)
    for view in views:
        _mark_covered(missing, [domain.index(name) for name in view])
    return not missing.any() and set(domain) == {name for view in views for name in view}


def find_covering_views(
    domain: Domain, t: int, max_cells: int, rng: np.random.Generator, restarts: int = RESTARTS
) -> list[Clique]:
    """Return the smallest of several greedy covering designs of strength t."""
    t = min(t, len(domain))
    tries = [_grow_views(domain, t, max_cells, rng) for _ in range(max(restarts, 1))]
    return min(tries, key=len)


def random_views(domain: Domain, views: int, max_cells: int, rng: np.random.Generator) -> list[Clique]:
    """Return `views` random views of at most `max_cells` cells, and more until every attribute is in one."""
    made: dict[Clique, None] = {}
    left = list(rng.permutation(len(domain)))
    while (len(made) < views or left) and len(made) < 10 * views + len(domain):
        first = [int(left.pop())] if left else []
        view = _fill_view(domain, first, [int(i) for i in rng.permutation(len(domain))], max_cells)
        left = [i for i in left if int(i) not in view]
        made[_name_view(domain, view)] = None
        if len(view) == len(domain):
            break
    return list(made)


def fewest_views(domain: Domain, t: int, max_cells: int) -> float:
    """Estimate the number of views of a covering design of strength t.

    No design has fewer than C(d, t) / C(l, t) views of l attributes; greedy designs have about 1.5 times that.
    """
    size = max(_estimate_view_size(domain, max_cells), min(t, len(domain)))
    few = math.comb(len(domain), t) / math.comb(size, t) if len(domain) > t else 1.0
    return 1.0 if size >= len(domain) else 1.5 * few


def can_list_sets(domain: Domain, t: int) -> bool:
    """Return whether the sets of t attributes can be enumerated."""
    return 1 <= t <= len(domain) and len(domain) ** t <= MAX_SETS


def _estimate_view_size(domain: Domain, max_cells: int) -> int:
    """Estimate the attributes per view from the mean logarithm of their sizes."""
    logs = math.fsum(math.log(max(size, 1)) for size in domain.shape) / len(domain)
    return len(domain) if logs <= 0 else min(int(math.log(max_cells) / logs + 1e-9), len(domain))


def _mark_uncovered(domain: Domain, t: int, max_cells: int) -> Array:
    """Return a symmetric boolean table over t attributes that marks the sets to be covered."""
    along = [tuple(-1 if i == axis else 1 for i in range(t)) for axis in range(t)]
    missing, cells = np.ones((len(domain),) * t, np.bool_), np.ones((len(domain),) * t)
    for axis in range(t):
        cells = cells * np.array(domain.shape, np.float64).reshape(along[axis])
        for other in range(axis):  # no attribute twice
            missing &= np.arange(len(domain)).reshape(along[axis]) != np.arange(len(domain)).reshape(along[other])
    return missing & (cells <= max_cells)


def _mark_covered(missing: Array, view: Sequence[int]) -> None:
    missing[np.ix_(*[list(view)] * missing.ndim)] = False


def _grow_views(domain: Domain, t: int, max_cells: int, rng: np.random.Generator) -> list[Clique]:
    missing = _mark_uncovered(domain, t, max_cells)
    views: list[list[int]] = []
    while missing.any():
        places = np.flatnonzero(missing)
        first = np.unravel_index(int(places[rng.integers(len(places))]), missing.shape)
        view = _widen_view(domain, [int(i) for i in first], missing, max_cells, rng)
        _mark_covered(missing, view)
        views.append(view)
    held = {i for view in views for i in view}
    for i in range(len(domain)):
        if i not in held:
            view = _fill_view(domain, [i], [int(j) for j in rng.permutation(len(domain))], max_cells)
            held.update(view)
            views.append(view)
    return list(dict.fromkeys(_name_view(domain, view) for view in views))


def _widen_view(domain: Domain, view: list[int], missing: Array, max_cells: int, rng: np.random.Generator) -> list[int]:
    """Add the attribute that covers the most further sets, until none fits."""
    sizes = np.array(domain.shape, np.float64)
    cells = float(np.prod(sizes[view]))
    while True:
        inside = np.zeros(len(domain))
        inside[view] = 1.0
        gain = missing.astype(np.float64) if missing.ndim == 1 else missing
        for _ in range(missing.ndim - 1):
            gain = gain @ inside
        score = np.asarray(gain, np.float64) + rng.random(len(domain)) * 0.5
        score[(inside > 0) | (sizes * cells > max_cells)] = -1.0
        best = int(np.argmax(score))
        if score[best] < 0:
            return view
        view = [*view, best]
        cells *= sizes[best]


def _fill_view(domain: Domain, view: list[int], order: Sequence[int], max_cells: int) -> list[int]:
    """Add attributes in the given order as far as they fit."""
    cells = math.prod(domain.shape[i] for i in view)
    for i in order:
        if i not in view and (not view or cells * domain.shape[i] <= max_cells):
            view = [*view, i]
            cells *= domain.shape[i]
    return view


def _name_view(domain: Domain, view: Sequence[int]) -> Clique:
    return make_clique(domain.names[i] for i in view)
