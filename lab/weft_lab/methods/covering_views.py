"""Covering designs of PriView (Qardaji, Yang, Li; SIGMOD 2014; DPSyn, section 3.3).

A view is a set of attributes whose table has a bounded number of cells (eight binary attributes: 256). In a covering
design of strength t, every t attributes are in some view. Views are grown greedily: each starts from an uncovered set
and adds the attribute that covers the most further sets; the smallest design of several restarts is kept. Sets of t
attributes whose own table has too many cells are skipped; every attribute is in some view.

For pairs of attributes of one size, the lines of a finite plane are a perfect design: every pair is in exactly one. 64
binary attributes have 72 views of 8 in the affine plane of order 8, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array

RESTARTS = 4


def find_covering_views(
    domain: Domain, t: int, max_cells: int, rng: np.random.Generator, restarts: int = RESTARTS
) -> list[Clique]:
    """Return the smallest of several greedy covering designs of strength t."""
    t = min(t, len(domain))
    tries = [_grow_views(domain, t, max_cells, rng) for _ in range(max(restarts, 1))]
    if t == 2 and len(set(domain.shape)) == 1 and domain.shape[0] > 1:
        most = math.floor(math.log(max_cells + 0.5) / math.log(domain.shape[0]))
        tries += [[name_view(domain, line) for line in lines] for lines in find_plane_lines(len(domain), most)]
    return min(tries, key=len)


_FIELDS = {2: (2, (1,)), 3: (3, (1,)), 4: (2, (1, 1)), 5: (5, (1,)), 7: (7, (1,)), 8: (2, (1, 1, 0)), 9: (3, (2, 0))}
"""Of each order, the prime p and what x^k is, k the number of coefficients: x^2 = x + 1, x^3 = x + 1, x^2 = 2."""


def find_plane_lines(points: int, most: int) -> list[list[list[int]]]:
    """Return designs in which every two of `points` points are on one line of at most `most`: lines of finite planes.

    An affine plane of order q has q^2 points and q^2 + q lines of q points; the projective plane has a further point
    on all lines of one slope, and a line of these points. Points that are not needed are left out.
    """
    found = []
    for q in _FIELDS:
        number = np.arange(q * q).reshape(q, q)
        lines = [[int(number[x, _add(_multiply(m, x, q), b, q)]) for x in range(q)] for m in range(q) for b in range(q)]
        lines += number.tolist()
        slopes = [q * q + i // q for i in range(q * q + q)]
        wider = [[*line, slope] for line, slope in zip(lines, slopes, strict=True)]
        wider.append([q * q + i for i in range(q + 1)])
        for design, size, there in ((lines, q, q * q), (wider, q + 1, q * q + q + 1)):
            if size <= most and points <= there:
                kept = [[point for point in line if point < points] for line in design]
                found.append([line for line in kept if len(line) > 1])
    return found


def _digits(a: int, q: int) -> list[int]:
    p, rule = _FIELDS[q]
    return [a // p**i % p for i in range(len(rule))]


def _number(digits: Sequence[int], q: int) -> int:
    p, _ = _FIELDS[q]
    return sum(digit % p * p**i for i, digit in enumerate(digits))


def _add(a: int, b: int, q: int) -> int:
    return _number([x + y for x, y in zip(_digits(a, q), _digits(b, q), strict=True)], q)


def _multiply(a: int, b: int, q: int) -> int:
    """Multiply two elements of the field of q elements: polynomials, reduced by the rule for x^k."""
    p, rule = _FIELDS[q]
    if len(rule) == 1:
        return a * b % p
    made = [0] * (2 * len(rule))
    for i, x in enumerate(_digits(a, q)):
        for j, y in enumerate(_digits(b, q)):
            made[i + j] += x * y
    for i in range(len(made) - 1, len(rule) - 1, -1):
        for j, factor in enumerate(rule):
            made[i - len(rule) + j] += made[i] * factor
    return _number(made[: len(rule)], q)


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
            view = fill_view(domain, [i], [int(j) for j in rng.permutation(len(domain))], max_cells)
            held.update(view)
            views.append(view)
    return list(dict.fromkeys(name_view(domain, view) for view in views))


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


def fill_view(domain: Domain, view: list[int], order: Sequence[int], max_cells: int) -> list[int]:
    """Add attributes in the given order as far as they fit."""
    cells = math.prod(domain.shape[i] for i in view)
    for i in order:
        if i not in view and (not view or cells * domain.shape[i] <= max_cells):
            view = [*view, i]
            cells *= domain.shape[i]
    return view


def name_view(domain: Domain, view: Sequence[int]) -> Clique:
    """Return the attributes of a view."""
    return make_clique(domain.names[i] for i in view)
