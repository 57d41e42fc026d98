"""Which sets of attributes several tables speak of, and where each table keeps its word on them.

Tables can only contradict each other on intersections of their cliques, so consistency is a matter of the
closure of the cliques under intersection (with the empty set, whose "table" is the total). `Plan` lays the
closure out in flat arrays that the kernels walk through: one *link* for each pair of a set and a table whose
clique contains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal


def intersection_closure(cliques: Sequence[Clique]) -> list[Clique]:
    """Return every intersection of two or more of the cliques (as listed, repeats count), and the empty set.

    Smaller sets come first, so every set follows its subsets.

    >>> intersection_closure([("a", "b"), ("b", "c"), ("d",)])
    [(), ('b',)]
    """
    names = sorted({name for clique in cliques for name in clique})
    bit = {name: 1 << i for i, name in enumerate(names)}
    masks = [sum(bit[name] for name in clique) for clique in cliques]
    distinct = set(masks)
    found = {0} | {mask for mask, times in Counter(masks).items() if times > 1}
    new = {a & b for a in distinct for b in distinct if a != b}
    while new := new - found:
        found |= new
        new = {a & b for a in new if a.bit_count() > 1 for b in distinct}
    sets = [tuple(name for name in names if mask & bit[name]) for mask in found]
    return sorted(sets, key=lambda subset: (len(subset), subset))


@dataclass(frozen=True)
class Plan:
    """Tables end to end in one buffer, and the links between them and the sets of the closure.

    The projection of a table onto a set lies in a second buffer, rows of one set together. Index arrays named
    `x_start` are bounds: entry k and k + 1 enclose what belongs to x number k.
    """

    sets: list[Clique]
    cells: Array
    """Buffer bounds of the tables."""
    link_start: Array
    """Bounds of the links of each set; links are ordered by set, then by table."""
    width: Array
    """Cells of each set."""
    at: Array
    """Where each link's projection starts."""
    table: Array
    """Table of each link."""
    share: Array
    """g of each link: cells of the table for one cell of the set."""
    weight: Array
    """Weight of each link in its set, precision / g, normalised to one."""
    layout: Array
    """Of each link: cells that lie together (inner), whether they are distinct cells of the set (1) or one
    (0), and where the addresses of their first cells are in `address`."""
    address: Array
    sub_start: Array
    """Bounds of the proper subsets of each set, in `sub_map`."""
    sub_map: Array
    """Where the map of a set's cells to the subset's cells starts, in `cell_map`."""
    cell_map: Array
    sub_link_start: Array
    """Bounds of each set's block in `sub_link`: the same table's link to each subset, link by link."""
    sub_link: Array
    table_start: Array
    """Bounds of each table's links, in `table_link`."""
    table_link: Array


def plan(marginals: Sequence[NoisyMarginal], precision: Array) -> Plan:
    """Lay out the links of tables with these precisions a cell."""
    sizes = _sizes(marginals)
    sets = intersection_closure([marginal.clique for marginal in marginals])
    owners = [set(marginal.clique) for marginal in marginals]
    counts = np.array([marginal.cells for marginal in marginals], dtype=np.int64)
    widths = [int(np.prod([sizes[name] for name in subset], dtype=np.int64)) for subset in sets]

    links: list[tuple[int, int]] = []  # (set, table)
    weights: list[Array] = []
    for a, subset in enumerate(sets):
        members = [i for i, owner in enumerate(owners) if owner.issuperset(subset)]
        links += [(a, i) for i in members]
        # precision / g differs from precision / cells by a factor common to the set.
        weight = precision[members] / counts[members]
        # An interaction tells nothing of small projections; where no other table does, they stay as they are.
        weight *= [len(subset) >= marginals[i].order for i in members]
        weights.append(weight / weight.sum() if weight.any() else np.full(len(members), 1 / len(members)))
    number = {link: e for e, link in enumerate(links)}
    of_set = np.array([a for a, _ in links], dtype=np.int64)
    of_table = np.array([i for _, i in links], dtype=np.int64)
    width = np.array(widths, dtype=np.int64)

    layouts, address = _layouts([(marginals[i], sets[a]) for a, i in links])
    order = np.argsort(of_table, kind="stable")
    link_start = _bounds(np.bincount(of_set, minlength=len(sets)))

    sub_count, sub_map, maps, sub_links, block = [], [], [], [], []
    mapped = 0
    for a, subset in enumerate(sets):
        below = [b for b in range(a) if set(sets[b]) < set(subset)]
        sub_count.append(len(below))
        for b in below:
            cells = _addresses(tuple(sizes[name] for name in subset), [name in sets[b] for name in subset])
            sub_map.append(mapped)
            maps.append(cells)
            mapped += cells.size
        rows = range(link_start[a], link_start[a + 1])
        sub_links += [number[b, links[e][1]] for e in rows for b in below]
        block.append(len(rows) * len(below))

    return Plan(
        sets=sets,
        cells=_bounds(counts),
        link_start=link_start,
        width=width,
        at=_bounds(width[of_set])[:-1],
        table=of_table,
        share=counts[of_table] / width[of_set],
        weight=np.concatenate(weights),
        layout=layouts,
        address=address,
        sub_start=_bounds(sub_count),
        sub_map=np.array(sub_map, dtype=np.int64),
        cell_map=np.concatenate([*maps, np.empty(0, np.int64)]),
        sub_link_start=_bounds(block),
        sub_link=np.array(sub_links, dtype=np.int64),
        table_start=_bounds(np.bincount(of_table, minlength=len(marginals))),
        table_link=order.astype(np.int64),
    )


def _sizes(marginals: Sequence[Marginal]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for marginal in marginals:
        for name, size in zip(marginal.clique, marginal.table.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"the tables disagree on the number of codes of {name!r}")
    return sizes


def _bounds(counts: Sequence[int] | Array) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def _addresses(shape: tuple[int, ...], kept: Sequence[bool]) -> Array:
    """Cell of the projection that each cell of a table adds to, cells in C order."""
    where = np.zeros(1, dtype=np.int64)
    for size, stays in zip(shape, kept, strict=True):
        step = np.arange(size) if stays else np.zeros(size, dtype=np.int64)
        where = (where[:, None] * (size if stays else 1) + step).ravel()
    return where


def _layouts(links: Sequence[tuple[Marginal, Clique]]) -> tuple[Array, Array]:
    """Inner length, inner step and address start of every link; tables of one shape share their addresses."""
    known: dict[tuple[tuple[int, ...], tuple[bool, ...]], tuple[int, int, int]] = {}
    addresses: list[Array] = []
    filled = 0
    rows = []
    for marginal, subset in links:
        shape = marginal.table.shape
        kept = tuple(name in subset for name in marginal.clique)
        if (shape, kept) not in known:
            last = len(kept)
            while last > 0 and kept[last - 1] == kept[-1]:
                last -= 1
            inner = int(np.prod(shape[last:], dtype=np.int64))
            stays = bool(kept) and kept[-1]
            outer = _addresses(shape[:last], kept[:last]) * (inner if stays else 1)
            known[shape, kept] = (inner, int(stays), filled)
            addresses.append(outer)
            filled += outer.size
        rows.append(known[shape, kept])
    return np.array(rows, dtype=np.int64).reshape(-1, 3), np.concatenate(addresses)
