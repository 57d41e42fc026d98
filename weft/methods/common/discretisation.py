"""Discretisation: which attributes a method sees, the bins of numbers and dates, and which rare values are merged.

Three decisions, in the order of a fit: the arrangement of attributes by a plan of marginals, the resolution of numbers
and dates in joint marginals, and the merging of values whose counts noise would drown (the first step of most methods).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain, FineGrid, Order, make_clique
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.smoothing import CellGrid, smooth_counts
from weft.marginals.value_groups import ValueMap, coarse_groups, divide_groups, merge_rare
from weft.models import Model
from weft.models.arranged import ArrangedModel, Fill, Pattern
from weft.models.recoded import RecodedModel
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class Learned:
    """A column that is filled in from another by a map that one noisy table over both tells."""

    name: str
    anchor: str
    weight: float = 1.0
    """Its part of what all such tables cost."""
    missing: int | None = None
    """A code that is never an answer, because a pattern decides about it."""


@dataclass(frozen=True)
class Arrangement:
    """What a recipe sees of a table, and how the rest is made."""

    patterns: tuple[Pattern, ...] = ()
    fills: tuple[Fill | Learned, ...] = ()
    bins: Mapping[str, Array] = field(default_factory=dict)
    """Coarse codes of some attributes, by public bins: counted fine alone, and in these together with others."""
    share_maps: float = 0.0
    """Share of the budget for the tables that maps are learned from."""

    def __bool__(self) -> bool:
        return bool(self.patterns or self.fills)

    @property
    def learned(self) -> list[Learned]:
        """The columns whose map has to be learned."""
        return [fill for fill in self.fills if isinstance(fill, Learned)]

    def kept(self, domain: Domain) -> list[str]:
        """Return the attributes that a recipe sees, patterns last."""
        filled = {fill.name for fill in self.fills}
        return [*(name for name in domain if name not in filled), *(pattern.name for pattern in self.patterns)]

    def domain(self, domain: Domain) -> Domain:
        """Return what a recipe sees."""
        inside = domain.project([name for name in self.kept(domain) if name in domain])
        sizes = (*inside.shape, *(pattern.size for pattern in self.patterns))
        orders = (*inside.orders, *(Order() for _ in self.patterns))
        return Domain(tuple(self.kept(domain)), sizes, orders, inside.impossible)

    def view(self, curator: Curator) -> Curator:
        """Return the curator that a recipe is given."""
        if not self:
            return curator
        joined = {pattern.name: pattern.maps(curator.domain) for pattern in self.patterns}
        return curator.arrange(joined, self.kept(curator.domain))

    def check(self, curator: Curator) -> None:
        """Refuse a share so small that the noise on the tables for maps could not be drawn."""
        for each in self.learned:
            if not curator.sigma(self._part(each)) <= MAX_NOISE_SCALE:
                raise MethodError(
                    f"column {each.name!r}: the weight of its map is too small for this budget. Raise it, or epsilon."
                )

    def _part(self, fill: Learned) -> float:
        return self.share_maps * fill.weight / sum(each.weight for each in self.learned)

    def learn_maps(self, curator: Curator, listener: Listener = ignore_event) -> tuple[Fill, ...]:
        """Measure one table for each map that is learned, and take each value's most frequent companion."""
        if not self.learned:
            return tuple(fill for fill in self.fills if isinstance(fill, Fill))
        cliques = [make_clique((each.name, each.anchor)) for each in self.learned]
        with report_stage(listener, "learn maps"):
            weights = [each.weight for each in self.learned]
            noisy = dict(
                zip((e.name for e in self.learned), curator.measure(cliques, self.share_maps, weights), strict=True)
            )
        made = []
        for fill in self.fills:
            if isinstance(fill, Learned):
                found = noisy[fill.name]
                table = np.moveaxis(np.asarray(found.table, np.float64), found.clique.index(fill.anchor), 0).copy()
                if fill.missing is not None and table.shape[1] > 1:
                    table[:, fill.missing] = -np.inf
                made.append(Fill(fill.name, fill.anchor, table.argmax(axis=1)))
            else:
                made.append(fill)
        return tuple(made)

    def whole(self, domain: Domain, model: Model, fills: tuple[Fill, ...]) -> Model:
        """Return a model of what the recipe saw as one of all attributes."""
        return ArrangedModel(domain, model, self.patterns, fills) if self else model


# Two resolutions: numbers and dates are counted fine alone, and coarse together with others.

_NONE: Mapping[str, Array] = {}

MAX_CODES_KEPT = 24
"""Ordered attributes with at most this many codes are left to the recipe as they are."""

MAX_GROUPS = 32
"""Most coarse codes of an attribute that hold about equal numbers of rows."""

MIN_GROUPS = 8

SHARE = 0.1
"""Share of the budget, were all attributes counted fine; it goes down with their part of the attributes."""

SHARE_ROWS = 0.005
"""Share for the number of rows, which says how fine a grid the noise allows."""

CELLS_NOISE = 8.0
"""A grid is so fine that the rows are this many times the noise of all its cells together."""

BLOCKS = 0.3
"""Part of that share for blocks of neighbouring cells, where cells are many more than blocks: the noise of a range
grows with the number of counts that it is summed from, and many fine cells say little of where most rows are."""

BLOCKS_NOISE = 128.0
"""Blocks are so few that the rows are this many times the noise that all of them would have in place of the cells."""

MIN_CELLS_PER_BLOCK = 4
"""Cells for each block from which on blocks are counted too."""

ZOOM = 0.3
"""Part of that share for the values inside cells that hold many rows, where cells hold several values."""

ZOOM_CODES = 8192
ROWS_PER_NOISE = 10.0
"""Rows that a cell of a table over two coarse attributes should hold, in standard deviations of its noise."""

MAX_BREAKS = 4
"""Places at which a rule may divide coarse codes."""

MIN_ROWS_PER_CODE = 6.0
"""Rows that a coarse code should hold, in the same unit."""


def is_wide(domain: Domain, name: str) -> bool:
    """Whether an attribute is counted fine alone and coarse together with others."""
    order = domain.order(name)
    return order.ordered and domain.size(name) - len(order.apart) > MAX_CODES_KEPT


def coarse_domain(domain: Domain, bins: Mapping[str, Array] = _NONE) -> Domain:
    """Return the largest domain that a recipe may find when it begins: for checks before anything is spent.

    `bins` has, here and below, the coarse codes of attributes whose bins are given.
    """
    sizes = tuple(
        int(bins[name].max()) + 1
        if name in bins
        else min(size, 2 * MAX_GROUPS + len(domain.order(name).apart) + len(_find_rule_breaks(domain, name)))
        if is_wide(domain, name)
        else size
        for name, size in zip(domain.names, domain.shape, strict=True)
    )
    return Domain(domain.names, sizes, domain.orders)


def resolution_share(domain: Domain, bins: Mapping[str, Array] = _NONE) -> float:
    """Return the share of the budget that choosing the resolution costs."""
    wide = sum(is_wide(domain, name) or name in bins for name in domain)
    return SHARE_ROWS + SHARE * wide / len(domain) if wide else 0.0


def check_resolution(curator: Curator, domain: Domain, bins: Mapping[str, Array] = _NONE) -> None:
    """Refuse a budget so small that the noise on what is asked here could not be drawn, before anything is charged."""
    wide = sum(is_wide(domain, name) or name in bins for name in domain)
    least = min(SHARE_ROWS, min(ZOOM, BLOCKS) * SHARE / len(domain)) if wide else 1.0
    if not curator.sigma(least) <= MAX_NOISE_SCALE:
        raise MethodError(
            "the budget is too small for numbers and dates: their noise would be above "
            f"{MAX_NOISE_SCALE:g}. Raise epsilon, or give them edges or bins, at most {MAX_CODES_KEPT} of them."
        )


def choose_resolution(
    curator: Curator, listener: Listener = ignore_event, bins: Mapping[str, Array] = _NONE
) -> dict[str, ValueMap]:
    """Count the wide attributes fine; return their coarse codes. Nothing is asked where there are none."""
    domain = curator.domain
    wide = [name for name in domain if is_wide(domain, name) or name in bins]
    if not wide:
        return {}
    share = resolution_share(domain, bins) - SHARE_ROWS
    with report_stage(listener, "count rows"):
        rows = max(float(curator.total(SHARE_ROWS).table), 1.0)
    most = (rows / (CELLS_NOISE * curator.sigma((1 - ZOOM) * share / len(wide)))) ** 2
    orders = {name: domain.order(name) for name in wide}
    grids = {name: _coarsen_grid(orders[name], orders[name].fine_grid(domain.size(name)), most) for name in wide}
    zoomed = [name for name in wide if grids[name].size < domain.size(name)]
    deeper = ZOOM * share * len(zoomed) / len(wide)
    few = most * (CELLS_NOISE / BLOCKS_NOISE) ** 2
    blocks = {name: _coarsen_grid(orders[name], grids[name], few) for name in wide}
    blocks = {name: each for name, each in blocks.items() if each.size * MIN_CELLS_PER_BLOCK <= grids[name].size}
    wider = BLOCKS * share * len(blocks) / len(wide)
    with report_stage(listener, "measure numbers and dates"):
        counts = _measure_cells(curator, {name: grids[name].cells for name in wide}, share - deeper - wider)
        fine = {name: _smooth_codes(counts[name], grids[name], orders[name]) for name in wide}
        if blocks:
            known = _measure_cells(curator, {name: each.cells for name, each in blocks.items()}, wider)
            fine |= {
                name: _reconcile_levels(
                    fine[name], (counts[name], grids[name]), (known[name], blocks[name]), orders[name]
                )
                for name in blocks
            }
        if zoomed:
            fine |= _measure_values_in_cells(curator, {name: (grids[name], fine[name]) for name in zoomed}, deeper)
    joint = curator.sigma((1 - share - SHARE_ROWS) / (3 * len(domain)))
    maps = {}
    for name in wide:
        if name in bins:
            maps[name] = ValueMap(bins[name], int(bins[name].max()) + 1, fine[name])
            continue
        groups = round(min(max(math.sqrt(rows / (ROWS_PER_NOISE * joint)), MIN_GROUPS), MAX_GROUPS))
        codes = divide_groups(
            coarse_groups(fine[name], orders[name].apart, groups, MIN_ROWS_PER_CODE * joint),
            _find_rule_breaks(domain, name),
        )
        maps[name] = ValueMap(codes, int(codes.max()) + 1, fine[name])
    return maps


def refine_model(domain: Domain, model: Model, maps: Mapping[str, ValueMap]) -> Model:
    """Return a model of coarse codes as one of fine codes."""
    if not maps:
        return model
    if isinstance(model, RecodedModel):  # one map from fine codes to those that the recipe merged
        maps = {
            name: maps[name].then(model.maps[name])
            if name in maps and name in model.maps
            else maps.get(name) or model.maps[name]
            for name in {**maps, **model.maps}
        }
        model = model.inner
    return RecodedModel(domain, model, maps)


def _find_rule_breaks(domain: Domain, name: str) -> Array:
    """Return the codes at which a rule begins or ends to hold, so that no coarse code is on both sides; at most a few.

    A rule with more of them, such as an order of two wide columns, is left to the repair.
    """
    each = [known.breaks(name) for known in domain.impossible if name in known.clique]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(found for found in each if len(found) <= MAX_BREAKS)]))


def _coarsen_grid(order: Order, grid: FineGrid, most: float) -> FineGrid:
    """Return a grid of at most so many cells: neighbours together, where values have an order."""
    return grid.coarser(max(most, MAX_CODES_KEPT), len(order.apart)) if order.ordered else grid


def _measure_cells(curator: Curator, cells: Mapping[str, Array], share: float) -> dict[str, NoisyMarginal]:
    """Count attributes in cells: maps that are public, or follow from released answers."""
    merged = curator.recode({name: (codes, int(codes.max()) + 1) for name, codes in cells.items()})
    return {m.clique[0]: m for m in merged.measure([(name,) for name in cells], share)}


def _smooth_codes(noisy: NoisyMarginal, grid: FineGrid, order: Order) -> Array:
    """Return the count of each code: of each cell, without most of its noise, spread evenly over its codes."""
    made = _without_noise(np.asarray(noisy.table, np.float64), noisy.sigma, grid, order)
    return np.asarray((made / np.bincount(grid.cells, minlength=grid.size))[grid.cells])


def _reconcile_levels(
    fine: Array, cells: tuple[NoisyMarginal, FineGrid], blocks: tuple[NoisyMarginal, FineGrid], order: Order
) -> Array:
    """Return counts of codes that add up to those of their blocks, which both levels tell: pooled by their noise."""
    (counted, grid), (known, wide) = cells, blocks
    block = wide.cells[np.unique(grid.cells, return_index=True)[1]]
    summed = np.bincount(block, weights=counted.table, minlength=wide.size)
    trust, own = 1 / known.sigma**2, 1 / (np.bincount(block, minlength=wide.size) * counted.sigma**2)
    pooled = (trust * known.table + own * summed) / (trust + own)
    made = _without_noise(pooled, float(np.sqrt(1 / (trust + np.median(own)))), wide, order)
    held, codes = (np.bincount(wide.cells, weights=part, minlength=wide.size) for part in (fine, np.ones(len(fine))))
    spread = np.where(held[wide.cells] > 0, fine, 1.0) / np.where(held > 0, held, codes)[wide.cells]
    return np.asarray(spread * made[wide.cells])


def _without_noise(table: Array, sigma: float, grid: FineGrid, order: Order) -> Array:
    """Return the count of each cell, without most of its noise where values have an order."""
    made = np.maximum(table, 0)
    if order.ordered:
        inside = np.setdiff1d(np.arange(grid.size), sorted({int(grid.cells[code]) for code in order.apart}))
        made[inside] = smooth_counts(table[inside], sigma, CellGrid(grid.widths[inside], grid.levels[inside]))
    return made


def _measure_values_in_cells(
    curator: Curator, found: Mapping[str, tuple[FineGrid, Array]], share: float
) -> dict[str, Array]:
    """Count the values inside the cells that hold most rows; return the counts of all codes."""
    noise = curator.sigma(share / len(found))
    cells = {name: _split_full_cells(grid, counts, 6 * noise) for name, (grid, counts) in found.items()}
    made = {}
    for name, noisy in _measure_cells(curator, cells, share).items():
        grid, counts = found[name]
        held = np.bincount(cells[name])
        deeper = smooth_counts(
            noisy.table, noisy.sigma, CellGrid(held.astype(np.float64), np.zeros(len(held), np.int64))
        )
        fine = (deeper / held)[cells[name]]
        # The rows of a cell are known better from the first count; how its values share them, from this one.
        before, after = (np.bincount(grid.cells, weights=part, minlength=grid.size) for part in (counts, fine))
        opened = (held[cells[name]] == 1) & (np.bincount(grid.cells)[grid.cells] > 1) & (after[grid.cells] > 0)
        made[name] = np.where(opened, fine * (before / np.maximum(after, 1e-300))[grid.cells], counts)
    return made


def _split_full_cells(grid: FineGrid, counts: Array, least: float) -> Array:
    """Return cells in which those with most rows are divided into their values."""
    rows = np.bincount(grid.cells, weights=counts, minlength=grid.size)
    values = np.bincount(grid.cells, minlength=grid.size)
    ranked = np.argsort(-rows, kind="stable")
    ranked = ranked[(rows[ranked] >= least) & (values[ranked] > 1)]
    taken = ranked[np.cumsum(values[ranked]) <= ZOOM_CODES]
    divided = np.isin(grid.cells, taken)
    starts = np.concatenate([[True], (grid.cells[1:] != grid.cells[:-1]) | divided[1:]])
    return np.asarray(np.cumsum(starts) - 1)


@dataclass(frozen=True)
class MergedColumns:
    """What the first step leaves to the others."""

    domain: Domain
    """The attributes with all their values."""
    curator: Curator
    """The curator of the rows in merged values: what every later question goes to."""
    tables: list[NoisyMarginal]
    """The noisy one-way marginals, folded into merged values: paid for once, used again by consistency."""
    maps: Mapping[str, ValueMap]
    dropped: frozenset[str] = frozenset()
    """Columns whose last code, that of all rare values, is rare too and is to stay empty."""

    def emptied(self, tables: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return tables in which no record may have a code that is to stay empty."""
        made = []
        for m in tables:
            empty = np.zeros(m.table.shape, bool) if m.empty is None else m.empty.copy()
            for axis, name in enumerate(m.clique):
                if name in self.dropped:
                    empty[(slice(None),) * axis + (-1,)] = True
            made.append(replace(m, table=np.where(empty, 0, m.table), empty=empty) if empty.any() else m)
        return made

    def unfold(self, model: Model) -> RecodedModel:
        """Return a model over merged values as one over all values."""
        return RecodedModel(self.domain, model, self.maps)


def merge_rare_values(
    domain: Domain,
    measured: Sequence[NoisyMarginal],
    rare: float,
    rare_rows: float = 0.0,
    *,
    one_code: bool = False,
) -> dict[str, ValueMap]:
    """Return the map of each attribute: values below `rare` standard deviations, or `rare_rows`, are merged.

    Without either, nothing is merged. With `one_code`, all rare values of an attribute share one code, ordered or not.
    """
    return {
        m.clique[0]: merge_rare(m, _compute_threshold(m, rare, rare_rows), _order_for_merging(domain, m, one_code))
        for m in measured
    }


def _compute_threshold(measured: NoisyMarginal, rare: float, rare_rows: float) -> float:
    return max(rare * measured.sigma, rare_rows) or -math.inf


def _order_for_merging(domain: Domain, measured: NoisyMarginal, one_code: bool) -> Order:
    order = domain.order(measured.clique[0])
    return Order(apart=order.apart) if one_code else order


def measure_columns(
    curator: Curator,
    share: float,
    rare: float,
    listener: Listener = ignore_event,
    rare_rows: float = 0.0,
    *,
    one_code: bool = False,
) -> MergedColumns:
    """Measure all one-way marginals and merge rare values (`merge_rare_values`): the first step of most methods.

    With `one_code`, no record has the merged code where its count is below the threshold too (PrivSyn, section 5.3).
    The map still sends every row to one cell; the cells are emptied afterwards, in the released tables.
    """
    with report_stage(listener, "measure columns"):
        noisy = curator.measure([(name,) for name in curator.domain], share=share)
    maps = merge_rare_values(curator.domain, noisy, rare, rare_rows, one_code=one_code)
    dropped = set()
    for m in noisy if one_code else ():
        found = maps[m.clique[0]]
        last = np.flatnonzero(found.codes == found.size - 1)
        if 1 < len(last) < len(found.codes) and m.table[last].sum() < _compute_threshold(m, rare, rare_rows):
            dropped.add(m.clique[0])
    merged = curator.recode({name: (m.codes, m.size) for name, m in maps.items()})
    tables = [maps[m.clique[0]].fold(m) for m in noisy]
    columns = MergedColumns(curator.domain, merged, tables, maps, frozenset(dropped))
    return replace(columns, tables=columns.emptied(tables)) if dropped else columns
