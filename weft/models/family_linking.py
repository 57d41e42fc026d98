"""Link children to families: exchange them until noisy tables of parents and children, and of siblings, hold.

Children are swapped between families by Metropolis steps with falling temperature. The energy is the sum over all cells
of the squared difference between a weighted count and its target, divided by the variance of the table's noise. A swap
changes neither the rows of the parents nor those of the children, only which belong together, and is refused if it
breaks a rule of a family. Privacy: post-processing; the targets are released tables.

In histories, the pairs are consecutive rows in time, and only children of one block (such as a year) are exchanged, so
that the order in time holds. Families are divided at random into as many parts as there are threads; each part is
linked to its share of the targets.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.kernels import draw_uniform, kernel
from weft.marginals.marginal import Array

SWAPS_PER_CHILD = 300
SWAPS_IN_TIME = 300
"""Proposed swaps per child of a history."""
MAX_SWAPS = 60_000_000
MAX_CHANGES = 3_000_000_000
"""Maximum changes of cells by all proposed swaps: with many tables, or large families, fewer swaps are proposed."""
HOT = 2.0
"""First temperature, in squared weights of a family, for the most precise table."""
THREADS = 2
MIN_PART = 5_000
"""Least number of families in a part."""


@dataclass(frozen=True)
class LinkTable:
    """A target: the weighted counts of an attribute of a child and one of its parent, or of its sibling."""

    own: int
    """Attribute of the child: first axis of a table of siblings, second axis of one with the parent."""
    other: int
    """Attribute of the sibling, or of the parent."""
    target: Array
    """Weighted counts, which sum to the number of families with such pairs."""
    precision: float = 1.0
    """Inverse variance of the noise of a cell, relative to other tables."""


@dataclass(frozen=True)
class FamilyRoles:
    """Roles of children as bits: of some a family has exactly one, of others at most one."""

    bits: Array
    """The roles of each child."""
    exact: int = 0
    single: int = 0

    @classmethod
    def none(cls, n: int) -> FamilyRoles:
        """Return children without roles."""
        return cls(np.zeros(n, np.int64))


@dataclass(frozen=True)
class Linkage:
    """Families and their children, as codes: what may be exchanged, and towards which tables."""

    children: Array
    """Codes of the children, one row each."""
    parents: Array
    """Codes of the parents, one row per family."""
    starts: Array
    """Family f has the positions starts[f] to starts[f + 1] (exclusive)."""
    weights: Array
    """Weight of each family: 1 at the first level, less below, so that they sum to the number of units."""
    siblings: Sequence[LinkTable]
    links: Sequence[LinkTable]
    """Tables of parents and children."""
    roles: FamilyRoles
    blocks: Array | None = None
    """Block of each position, if the children are ordered in time: only children of one block are exchanged."""

    def link(self, rng: np.random.Generator, swaps: int | None = None) -> Array:
        """Return the child at each position, after exchanging them; before, position p has child p."""
        families, n = len(self.starts) - 1, len(self.children)
        members = np.arange(n)
        if not (self.siblings or self.links) or n < 2:
            return members
        each = SWAPS_PER_CHILD if self.blocks is None else SWAPS_IN_TIME
        siblings = 2.0 if self.blocks is not None else float((np.diff(self.starts) ** 2).sum()) / n
        changes = max(len(self.links) + len(self.siblings) * siblings, 1.0)
        steps = int(min(each * n, MAX_SWAPS, MAX_CHANGES / changes)) if swaps is None else swaps
        parts = max(min(THREADS, os.cpu_count() or 1, families // MIN_PART), 1)
        part = rng.integers(0, parts, families) if parts > 1 else np.zeros(families, np.int64)
        layout, ordered = self._layout(), self.blocks is not None
        blocks = np.zeros(n, np.int64) if self.blocks is None else self.blocks
        seeds = rng.integers(0, 1 << 62, parts)

        def run(number: int) -> None:
            places = np.flatnonzero(part[self._family()] == number)
            if len(places) > 1:
                places = places[np.argsort(blocks[places], kind="stable")]
                block = blocks[places]
                begin, end = np.searchsorted(block, block), np.searchsorted(block, block, side="right")
                residual = self._residual(members, part == number, layout)
                swap_children(
                    residual, self.children, self.parents, self.starts, self._family(), members, places, begin, end,
                    self.weights, self.roles.bits, self.roles.exact, self.roles.single, ordered, *layout,
                    steps * len(places) // n, HOT, int(seeds[number]),
                )  # fmt: skip

        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(run, range(parts)))
        return members

    def _family(self) -> Array:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def _layout(self) -> tuple[Array, Array, Array, Array, Array]:
        """Return per table: own and other attribute, size of the last axis, first cell, precision; siblings first.

        A table with the parent has a negative first entry: -1 minus the attribute of the child.
        """
        tables = [*self.siblings, *self.links]
        own = [table.own for table in self.siblings] + [-1 - table.own for table in self.links]
        cells = np.concatenate([[0], np.cumsum([table.target.size for table in tables])])
        return (
            np.array(own, np.int64),
            np.array([table.other for table in tables], np.int64),
            np.array([table.target.shape[1] for table in tables], np.int64),
            cells[:-1].astype(np.int64),
            np.array([table.precision for table in tables], np.float64),
        )

    def _residual(self, members: Array, inside: Array, layout: tuple[Array, ...]) -> Array:
        """Return the weighted counts of some families minus their share of the targets."""
        own, other, width, first, _ = layout
        counts = np.zeros(sum(table.target.size for table in (*self.siblings, *self.links)))
        count_families(
            counts, self.children, self.parents, self.starts, members, inside, self.weights, self.blocks is not None,
            own, other, width, first,
        )  # fmt: skip
        for table, at in zip((*self.siblings, *self.links), first, strict=True):
            cells = counts[at : at + table.target.size]
            target = table.target.ravel()  # in one order, so that a loaded model has the same sum to the last bit
            cells -= target * (cells.sum() / max(float(target.sum()), 1e-9))
        return counts


@kernel(cache=True, nogil=True)
def count_families(
    counts: Any, children: Any, parents: Any, starts: Any, members: Any, inside: Any, weights: Any, ordered: bool,
    own: Any, other: Any, width: Any, first: Any,
) -> None:  # fmt: skip
    """Add the weighted counts of the families in `inside` to all tables."""
    for f in range(len(starts) - 1):
        k = starts[f + 1] - starts[f]
        if not inside[f] or k == 0:
            continue
        for t in range(len(own)):
            if own[t] < 0:
                row = first[t] + parents[f, other[t]] * width[t]
                for p in range(starts[f], starts[f + 1]):
                    counts[row + children[members[p], -1 - own[t]]] += weights[f] / k
            elif ordered:
                for p in range(starts[f], starts[f + 1] - 1):
                    row = first[t] + children[members[p], own[t]] * width[t]
                    counts[row + children[members[p + 1], other[t]]] += weights[f] / (k - 1)
            elif k > 1:
                for p in range(starts[f], starts[f + 1]):
                    row = first[t] + children[members[p], own[t]] * width[t]
                    for q in range(starts[f], starts[f + 1]):
                        if q != p:
                            counts[row + children[members[q], other[t]]] += weights[f] / (k * (k - 1))


@kernel(cache=True, nogil=True)
def _move(residual: Any, cell: int, weight: float) -> Any:
    """Add a weight to a cell; return the change of its square."""
    gain = weight * (2.0 * residual[cell] + weight)
    residual[cell] += weight
    return gain


@kernel(cache=True, nogil=True)
def _replace_child(
    residual: Any, children: Any, parents: Any, starts: Any, members: Any, weights: Any, f: int, place: int,
    u: int, v: int, ordered: bool, own: Any, other: Any, width: Any, first: Any, precision: Any,
) -> float:  # fmt: skip
    """Replace child u at a place of family f by v in all tables; return the change of the energy."""
    k = starts[f + 1] - starts[f]
    one = weights[f] / k
    pair = weights[f] / (k - 1 if ordered else k * (k - 1)) if k > 1 else 0.0
    total = 0.0
    for t in range(len(own)):
        gain = 0.0
        if own[t] < 0:
            j = -1 - own[t]
            if children[u, j] != children[v, j]:
                row = first[t] + parents[f, other[t]] * width[t]
                gain += _move(residual, row + children[u, j], -one)
                gain += _move(residual, row + children[v, j], one)
        elif k > 1:
            i, j = own[t], other[t]
            ui, uj, vi, vj = children[u, i], children[u, j], children[v, i], children[v, j]
            if ui != vi or uj != vj:
                low, high = starts[f], starts[f + 1]
                if ordered:  # only the rows before and after
                    low, high = max(low, place - 1), min(high, place + 2)
                for q in range(low, high):
                    if q == place:
                        continue
                    mi, mj = children[members[q], i], children[members[q], j]
                    if ui != vi and not (ordered and q < place):
                        gain += _move(residual, first[t] + ui * width[t] + mj, -pair)
                        gain += _move(residual, first[t] + vi * width[t] + mj, pair)
                    if uj != vj and not (ordered and q > place):
                        gain += _move(residual, first[t] + mi * width[t] + uj, -pair)
                        gain += _move(residual, first[t] + mi * width[t] + vj, pair)
        total += gain * precision[t]
    return total


@kernel(cache=True, nogil=True)
def _has_role(bits: Any, starts: Any, members: Any, f: int, place: int, roles: int) -> bool:
    """Return whether another child of family f has one of the roles."""
    found = False
    for q in range(starts[f], starts[f + 1]):
        found |= q != place and (bits[members[q]] & roles) != 0
    return found


@kernel(cache=True, nogil=True)
def swap_children(
    residual: Any, children: Any, parents: Any, starts: Any, family: Any, members: Any, places: Any, begin: Any,
    end: Any, weights: Any, bits: Any,
    exact: int, single: int, ordered: bool, own: Any, other: Any, width: Any, first: Any, precision: Any,
    steps: int, hot: float, seed: int,
) -> int:  # fmt: skip
    """Propose swaps among some places and accept them by Metropolis' rule; return the number accepted."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    scale = hot * precision.max()
    taken = 0
    for step in range(steps):
        i = int(draw_uniform(state) * len(places))
        a, b = places[i], places[begin[i] + int(draw_uniform(state) * (end[i] - begin[i]))]
        f, g = family[a], family[b]
        u, v = members[a], members[b]
        if f == g or (bits[u] ^ bits[v]) & exact:
            continue
        new, old = bits[v] & ~bits[u] & single, bits[u] & ~bits[v] & single
        if new and _has_role(bits, starts, members, f, a, new):
            continue
        if old and _has_role(bits, starts, members, g, b, old):
            continue
        gain = _replace_child(
            residual, children, parents, starts, members, weights, f, a, u, v, ordered, own, other, width, first,
            precision,
        )  # fmt: skip
        gain += _replace_child(
            residual, children, parents, starts, members, weights, g, b, v, u, ordered, own, other, width, first,
            precision,
        )  # fmt: skip
        temperature = scale * (1.0 - step / steps) ** 2
        if gain <= 0 or (temperature > 0 and draw_uniform(state) < np.exp(-gain / temperature)):
            members[a], members[b] = v, u
            taken += 1
        else:
            _replace_child(
                residual, children, parents, starts, members, weights, f, a, v, u, ordered, own, other, width, first,
                precision,
            )  # fmt: skip
            _replace_child(
                residual, children, parents, starts, members, weights, g, b, u, v, ordered, own, other, width, first,
                precision,
            )  # fmt: skip
    return taken
