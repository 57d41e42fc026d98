"""Reconcile noisy marginals: make them consistent on shared attributes, non-negative, and equal in total.

Two projections alternate, both exact in the norm sum of precision_i |x_i|^2, in which the noise is isotropic:

* onto consistent tables: visit the closure of the cliques under intersection, smaller sets first, and move each
  table's projection onto the set to the weighted mean (PrivSyn, section 4.3). One pass gives the least-squares
  solution, not just a feasible one: a table splits into orthogonal interaction terms, one for each subset of its
  clique, and the problem splits into one mean with weights precision_i / g_i for each term;
* onto non-negative tables of the common total: the simplex projection of each table.

The alternation converges to a point of both sets, not to the nearest one. The nearest point (Dykstra's algorithm, with
Nesterov's extrapolation in half the rounds) is a worse estimate: it is the maximum-likelihood solution under a flat
prior and has zeros wherever noise was negative, while the alternation lets consistency refill some of them. Mean total
variation distance to the true tables, 10 attributes of up to 20 values, 20,000 rows, alternation / nearest point:
.0107/.0107, .0854/.0865, .250/.265, .404/.462 for noise of 10, 100, 500, 2000 counts per cell.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.kernels import kernel
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.pooling import common_total, compute_precisions
from weft.marginals.simplex import find_simplex_threshold


@kernel(cache=True, nogil=True)
def find_shifts(  # type: ignore[no-untyped-def]
    projected,
    total,
    link_start,
    width,
    at,
    share,
    weight,
    sub_start,
    sub_map,
    cell_map,
    sub_link_start,
    sub_link,
    shift,
):
    """Compute the shift of each table's cells that makes the tables consistent on every shared set.

    Sets come after their subsets. The target of a set is the weighted mean of the current projections (the total, for
    the empty set). A table reaches it by adding (target - projection) / g to each of its cells: all cells of a table
    have the same variance, so the least-squares correction spreads evenly. The shift for one set only affects sets that
    contain it: on any other set it sums to zero, since the tables already agree on the intersection.
    """
    for a in range(width.size):
        first, last = link_start[a], link_start[a + 1]
        subs = sub_start[a + 1] - sub_start[a]
        cells = width[a]
        target = np.zeros(cells)
        for e in range(first, last):
            here = at[e]
            for j in range(cells):
                shift[here + j] = projected[here + j]
            for k in range(subs):
                below = at[sub_link[sub_link_start[a] + (e - first) * subs + k]]
                where = sub_map[sub_start[a] + k]
                for j in range(cells):
                    shift[here + j] += share[e] * shift[below + cell_map[where + j]]
            for j in range(cells):
                target[j] += weight[e] * shift[here + j]
        if a == 0:
            target[0] = total
        for e in range(first, last):
            here = at[e]
            for j in range(cells):
                shift[here + j] = (target[j] - shift[here + j]) / share[e]


@kernel(cache=True, nogil=True)
def apply_shifts(  # type: ignore[no-untyped-def]
    cell, shift, total, cut, cells, at, layout, address, table_start, table_link, projected
):
    """Shift every table, project it onto the simplex of `total` if `cut`, and compute its projections onto its sets."""
    for i in range(cells.size - 1):
        begin, size = cells[i], cells[i + 1] - cells[i]
        x = cell[begin : begin + size]
        for t in range(table_start[i], table_start[i + 1]):
            e = table_link[t]
            _add_shift(x, shift[at[e] :], layout[e, 0], layout[e, 1], address[layout[e, 2] :])
        if cut:
            tau = find_simplex_threshold(x, total, 0.0)  # after the shifts the table has the total, so tau is near zero
            for j in range(size):
                x[j] = max(x[j] - tau, 0.0)
        for t in range(table_start[i], table_start[i + 1]):
            e = table_link[t]
            _sum_cells(x, projected[at[e] :], layout[e, 0], layout[e, 1], address[layout[e, 2] :])


@kernel(cache=True, nogil=True)
def measure_disagreement(projected, link_start, width, at):  # type: ignore[no-untyped-def]
    """Return the maximum over sets of the sum over cells of the range (highest minus lowest) of the projections."""
    worst = 0.0
    for a in range(width.size):
        spread = 0.0
        for j in range(width[a]):
            low = high = projected[at[link_start[a]] + j]
            for e in range(link_start[a] + 1, link_start[a + 1]):
                value = projected[at[e] + j]
                low, high = min(low, value), max(high, value)
            spread += high - low
        worst = max(worst, spread)
    return worst


@kernel(cache=True, nogil=True)
def _add_shift(x, shift, inner, step, address):  # type: ignore[no-untyped-def]
    for o in range(x.size // inner):
        begin, where = o * inner, address[o]
        if step == 1:
            for j in range(inner):
                x[begin + j] += shift[where + j]
        else:
            for j in range(inner):
                x[begin + j] += shift[where]


@kernel(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def _sum_cells(x, projected, inner, step, address):  # type: ignore[no-untyped-def]
    for o in range(x.size // inner):
        where = address[o]
        if step == 1:
            for j in range(inner):
                projected[where + j] = 0.0
        else:
            projected[where] = 0.0
    for o in range(x.size // inner):
        begin, where = o * inner, address[o]
        if step == 1:
            for j in range(inner):
                projected[where + j] += x[begin + j]
        else:
            summed = 0.0
            for j in range(inner):
                summed += x[begin + j]
            projected[where] += summed


def intersection_closure(cliques: Sequence[Clique]) -> list[Clique]:
    """Return all intersections of two or more of the listed cliques (duplicates count) and the empty set, small first.

    Tables can contradict each other only on these sets; the table of the empty set is the total.

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
class LinkPlan:
    """Layout of the tables in one buffer, and their links to the sets of the closure.

    The projections of tables onto sets are stored in a second buffer, ordered by set. In index arrays named `x_start`,
    entries k and k + 1 bound the elements of x number k.
    """

    sets: list[Clique]
    cells: Array  # buffer bounds of the tables
    link_start: Array  # bounds of the links of each set; links are ordered by set, then by table
    width: Array  # number of cells of each set
    at: Array  # start of each link's projection
    table: Array  # table of each link
    share: Array  # g of each link: number of table cells per cell of the set
    weight: Array  # weight of each link in its set: precision / g, normalized to sum to one
    layout: Array
    """For each link: number of contiguous cells (inner), whether they map to distinct cells of the set (1) or to one
    cell (0), and where the addresses of their first cells start in `address`."""
    address: Array
    sub_start: Array  # bounds of the proper subsets of each set, in `sub_map`
    sub_map: Array  # start, in `cell_map`, of the map from a set's cells to a subset's cells
    cell_map: Array
    sub_link_start: Array  # bounds of each set's block in `sub_link`: the same table's link to each subset
    sub_link: Array
    table_start: Array  # bounds of each table's links, in `table_link`
    table_link: Array


def plan_links(marginals: Sequence[NoisyMarginal], precision: Array) -> LinkPlan:
    """Compute the layout for tables with these precisions per cell."""
    sizes = _collect_sizes(marginals)
    sets = intersection_closure([marginal.clique for marginal in marginals])
    owners = [set(marginal.clique) for marginal in marginals]
    counts = np.array([marginal.cells for marginal in marginals], dtype=np.int64)
    widths = [int(np.prod([sizes[name] for name in subset], dtype=np.int64)) for subset in sets]

    links: list[tuple[int, int]] = []  # (set, table)
    weights: list[Array] = []
    for a, subset in enumerate(sets):
        members = [i for i, owner in enumerate(owners) if owner.issuperset(subset)]
        links += [(a, i) for i in members]
        # Within a set, precision / g is proportional to precision / cells.
        weight = precision[members] / counts[members]
        # Interaction terms carry no information on lower-order projections: weight 0, or equal weights if all are such.
        weight *= [len(subset) >= marginals[i].order for i in members]
        weights.append(weight / weight.sum() if weight.any() else np.full(len(members), 1 / len(members)))
    number = {link: e for e, link in enumerate(links)}
    of_set = np.array([a for a, _ in links], dtype=np.int64)
    of_table = np.array([i for _, i in links], dtype=np.int64)
    width = np.array(widths, dtype=np.int64)

    layouts, address = _lay_out_links([(marginals[i], sets[a]) for a, i in links])
    order = np.argsort(of_table, kind="stable")
    link_start = _compute_bounds(np.bincount(of_set, minlength=len(sets)))

    sub_count, sub_map, maps, sub_links, block = [], [], [], [], []
    mapped = 0
    for a, subset in enumerate(sets):
        below = [b for b in range(a) if set(sets[b]) < set(subset)]
        sub_count.append(len(below))
        for b in below:
            cells = _compute_addresses(tuple(sizes[name] for name in subset), [name in sets[b] for name in subset])
            sub_map.append(mapped)
            maps.append(cells)
            mapped += cells.size
        rows = range(link_start[a], link_start[a + 1])
        sub_links += [number[b, links[e][1]] for e in rows for b in below]
        block.append(len(rows) * len(below))

    return LinkPlan(
        sets=sets,
        cells=_compute_bounds(counts),
        link_start=link_start,
        width=width,
        at=_compute_bounds(width[of_set])[:-1],
        table=of_table,
        share=counts[of_table] / width[of_set],
        weight=np.concatenate(weights),
        layout=layouts,
        address=address,
        sub_start=_compute_bounds(sub_count),
        sub_map=np.array(sub_map, dtype=np.int64),
        cell_map=np.concatenate([*maps, np.empty(0, np.int64)]),
        sub_link_start=_compute_bounds(block),
        sub_link=np.array(sub_links, dtype=np.int64),
        table_start=_compute_bounds(np.bincount(of_table, minlength=len(marginals))),
        table_link=order.astype(np.int64),
    )


def _collect_sizes(marginals: Sequence[Marginal]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for marginal in marginals:
        for name, size in zip(marginal.clique, marginal.table.shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"the tables disagree on the number of codes of {name!r}")
    return sizes


def _compute_bounds(counts: Sequence[int] | Array) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def _compute_addresses(shape: tuple[int, ...], kept: Sequence[bool]) -> Array:
    """Return the projection cell that each table cell adds to, in C order."""
    where = np.zeros(1, dtype=np.int64)
    for size, stays in zip(shape, kept, strict=True):
        step = np.arange(size) if stays else np.zeros(size, dtype=np.int64)
        where = (where[:, None] * (size if stays else 1) + step).ravel()
    return where


def _lay_out_links(links: Sequence[tuple[Marginal, Clique]]) -> tuple[Array, Array]:
    """Return inner length, inner step and address start of every link; tables of equal shape share addresses."""
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
            outer = _compute_addresses(shape[:last], kept[:last]) * (inner if stays else 1)
            known[shape, kept] = (inner, int(stays), filled)
            addresses.append(outer)
            filled += outer.size
        rows.append(known[shape, kept])
    return np.array(rows, dtype=np.int64).reshape(-1, 3), np.concatenate(addresses)


ROUNDS = 500
"""Default maximum number of rounds."""


@dataclass(frozen=True)
class Reconciled:
    """Non-negative tables of one total that are consistent up to `spread`."""

    tables: list[Marginal]
    total: float
    rounds: int
    spread: float
    """Remaining inconsistency: maximum L1 difference between projections onto one set, divided by the total."""
    converged: bool
    degenerate: bool = False
    """Whether the noisy total was not positive; the tables are then uniform and have total 1."""


def make_consistent(marginals: Sequence[NoisyMarginal], *, total: float | None = None) -> list[Marginal]:
    """Return the weighted least-squares consistent tables, possibly negative; default total: precision-weighted."""
    if total is None:
        total, _ = common_total(marginals)
    work = _Work(marginals, total)
    work.step(cut=False)
    return work.tables()


def reconcile(
    marginals: Sequence[NoisyMarginal], *, total: float | None = None, tolerance: float = 1e-6, rounds: int = ROUNDS
) -> Reconciled:
    """Return non-negative, consistent tables of one total that are close to noisy ones.

    `total` defaults to the precision-weighted total. Stops when projections onto shared sets differ by at most
    `tolerance` of the total (L1), or after `rounds` rounds; in both cases every table is non-negative and has the
    total. A clique may be measured more than once; its estimates are then equal.
    """
    if not marginals:
        raise ValueError("no table to reconcile")
    if total is None:
        total, _ = common_total(marginals)
    if not total > 0:
        uniform = [Marginal(m.clique, np.full(m.table.shape, 1.0 / m.cells)) for m in marginals]
        return Reconciled(uniform, total=1.0, rounds=0, spread=0.0, converged=True, degenerate=True)
    work = _Work(marginals, total)
    spread, used = np.inf, 0
    while used < max(rounds, 1) and spread > tolerance:
        work.step(cut=True)
        spread = work.spread()
        used += 1
    return Reconciled(work.tables(), total, used, spread, spread <= tolerance)


class _Work:
    """Buffers of one reconciliation: the cells of all tables and their projections onto shared sets."""

    def __init__(self, marginals: Sequence[NoisyMarginal], total: float) -> None:
        self.marginals, self.total = marginals, total
        self.plan: LinkPlan = plan_links(marginals, compute_precisions(marginals))
        self.cells = np.concatenate([m.table.ravel().astype(np.float64) for m in marginals])
        size = int(self.plan.at[-1] + self.plan.width[-1])
        self.projected = np.zeros(size)
        self.shift = np.zeros(size)
        marked = [np.zeros(m.cells, bool) if m.empty is None else np.ravel(m.empty) for m in marginals]
        self.empty = np.flatnonzero(np.concatenate(marked))
        self._fit(cut=False)

    def step(self, *, cut: bool) -> None:
        """Run one round: make tables consistent, project onto the simplex if `cut`, then clear structural zeros."""
        p = self.plan
        find_shifts(
            self.projected, self.total, p.link_start, p.width, p.at, p.share, p.weight, p.sub_start,
            p.sub_map, p.cell_map, p.sub_link_start, p.sub_link, self.shift,
        )  # fmt: skip
        self._fit(cut=cut)
        if self.empty.size:
            self._empty(cut=cut)

    def _empty(self, *, cut: bool) -> None:
        """Clear structural zeros; if `cut`, rescale each table to its total."""
        p = self.plan
        self.cells[self.empty] = 0.0
        if cut:
            sums = np.add.reduceat(self.cells, p.cells[:-1])
            self.cells *= np.repeat(np.where(sums > 0, self.total / np.maximum(sums, 1e-300), 1.0), np.diff(p.cells))
        self.shift[:] = 0.0
        self._fit(cut=False)

    def spread(self) -> float:
        p = self.plan
        return float(measure_disagreement(self.projected, p.link_start, p.width, p.at)) / self.total

    def tables(self) -> list[Marginal]:
        parts = np.split(self.cells, self.plan.cells[1:-1])
        return [
            Marginal(m.clique, x.reshape(m.table.shape), empty=m.empty)
            for m, x in zip(self.marginals, parts, strict=True)
        ]

    def _fit(self, *, cut: bool) -> None:
        p = self.plan
        apply_shifts(
            self.cells, self.shift, self.total, cut, p.cells, p.at, p.layout, p.address, p.table_start,
            p.table_link, self.projected,
        )  # fmt: skip
