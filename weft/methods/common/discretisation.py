"""Discretisation of the attributes that a method is given, in the order of a fit.

First, a plan of marginals arranges the attributes; then the resolution of numbers and dates in joint marginals is
chosen; then values with counts below the noise are merged (the first step of most methods).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain, FineGrid, Order, make_clique
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.smoothing import CellGrid, NoisyCells, extrapolate_tails, smooth_counts
from weft.marginals.value_groups import ValueMap, coarse_groups, divide_groups, merge_rare
from weft.models import Model
from weft.models.arranged import ArrangedModel, Fill, Pattern
from weft.models.recoded import RecodedModel
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.progress import Listener, ignore_event, report_stage

SHARE = 0.1
"""Share of the budget for the resolution if all attributes are wide; it is proportional to their part of them."""


@dataclass(frozen=True)
class Learned:
    """An attribute filled in from another, by a map learned from one noisy marginal over both."""

    name: str
    anchor: str
    weight: float = 1.0
    """Its weight in the share for learned maps."""
    missing: int | None = None
    """A code that the map never yields, because a pattern determines it."""


@dataclass(frozen=True)
class Arrangement:
    """The attributes that a method is given, and how the others are derived from them."""

    patterns: tuple[Pattern, ...] = ()
    fills: tuple[Fill | Learned, ...] = ()
    bins: Mapping[str, Array] = field(default_factory=dict)
    """Coarse codes of attributes with public bins: fine in their one-way marginal, coarse in joint marginals."""
    share_maps: float = 0.0
    """Share of the budget for the marginals from which maps are learned."""
    share_resolution: float = SHARE
    """Share of the budget for the resolution, if all attributes are wide."""

    def __bool__(self) -> bool:
        return bool(self.patterns or self.fills)

    @property
    def learned(self) -> list[Learned]:
        """The attributes whose map has to be learned."""
        return [fill for fill in self.fills if isinstance(fill, Learned)]

    def kept(self, domain: Domain) -> list[str]:
        """Return the attributes that a method is given, patterns last."""
        filled = {fill.name for fill in self.fills}
        return [*(name for name in domain if name not in filled), *(pattern.name for pattern in self.patterns)]

    def domain(self, domain: Domain) -> Domain:
        """Return the domain that a method is given."""
        inside = domain.project([name for name in self.kept(domain) if name in domain])
        sizes = (*inside.shape, *(pattern.size for pattern in self.patterns))
        orders = (*inside.orders, *(Order() for _ in self.patterns))
        return Domain(tuple(self.kept(domain)), sizes, orders, inside.impossible)

    def view(self, curator: Curator) -> Curator:
        """Return the curator that a method is given."""
        if not self:
            return curator
        joined = {pattern.name: pattern.maps(curator.domain) for pattern in self.patterns}
        return curator.arrange(joined, self.kept(curator.domain))

    def check(self, curator: Curator) -> None:
        """Refuse a share so small that the noise of a learned map could not be drawn."""
        for each in self.learned:
            if not curator.sigma(self._part(each)) <= MAX_NOISE_SCALE:
                raise MethodError(f"attribute {each.name!r}: the weight of its map is too small. Raise it, or epsilon.")

    def _part(self, fill: Learned) -> float:
        return self.share_maps * fill.weight / sum(each.weight for each in self.learned)

    def learn_maps(self, curator: Curator, listener: Listener = ignore_event) -> tuple[Fill, ...]:
        """Measure one marginal per learned map, and map each value of the anchor to the most frequent value."""
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
        """Extend a model of the given attributes to all attributes."""
        return ArrangedModel(domain, model, self.patterns, fills) if self else model


class PublishedBins(dict[str, Array]):
    """Bins of a plan under `preset="paper"`: other attributes of up to MAX_PUBLISHED_CODES codes are not coarsened."""


_NONE: Mapping[str, Array] = {}

MAX_CODES_KEPT = 24
"""Ordered attributes with at most this many codes are not coarsened."""

MAX_PUBLISHED_CODES = 1000
"""The same under `preset="paper"`: the bins of the schema are the discretisation, unless pairs would be too large."""

MAX_GROUPS = 32
"""Maximum coarse codes of an attribute with about equal numbers of rows."""

MIN_GROUPS = 8

SHARE_ROWS = 0.005
"""Share for the number of rows, which determines how fine a grid the noise allows."""

CELLS_NOISE = 8.0
"""Minimum ratio of the rows to the noise of the sum of all cells of a grid."""

BLOCKS = 0.3
"""Part of that share for blocks of neighbouring cells, if there are far fewer blocks than cells: the noise of a range
grows with the number of counts in its sum, so many fine cells locate the mass poorly."""

BLOCKS_NOISE = 128.0
"""Minimum ratio of the rows to the noise of the sum of all blocks, if blocks were measured like the cells."""

MAX_TAIL_CELLS = 48
"""Maximum number of cells to which the tails of a column are fitted."""

MIN_CELLS_PER_BLOCK = 4
"""Minimum ratio of cells to blocks at which blocks are measured too."""

ZOOM = 0.3
"""Part of that share for single values inside cells with many rows, if cells hold several values."""

ZOOM_CODES = 8192
ROWS_PER_NOISE = 10.0
"""Target rows per cell of a marginal over two coarse attributes, in standard deviations of its noise."""

MAX_BREAKS = 4
"""Maximum codes at which a rule may split coarse codes."""

MIN_ROWS_PER_CODE = 6.0
"""Minimum rows of a coarse code, in the same unit."""


def is_wide(domain: Domain, name: str) -> bool:
    """Return whether an attribute is fine in its one-way marginal and coarse in joint marginals."""
    order = domain.order(name)
    return order.ordered and domain.size(name) - len(order.apart) > MAX_CODES_KEPT


def _list_wide(domain: Domain, bins: Mapping[str, Array]) -> list[str]:
    """Return the attributes that are measured alone and coarsened: with given bins, or with too many codes."""
    kept = MAX_PUBLISHED_CODES if isinstance(bins, PublishedBins) else MAX_CODES_KEPT
    return [name for name in domain if name in bins or (is_wide(domain, name) and domain.size(name) > kept)]


def coarse_domain(domain: Domain, bins: Mapping[str, Array] = _NONE) -> Domain:
    """Return an upper bound of the domain that a method is given, for validation before anything is charged.

    Here and below, `bins` has the coarse codes of attributes with given bins.
    """
    wide = set(_list_wide(domain, bins))
    sizes = tuple(
        int(bins[name].max()) + 1
        if name in bins
        else min(size, 2 * MAX_GROUPS + len(domain.order(name).apart) + len(_find_rule_breaks(domain, name)))
        if name in wide
        else size
        for name, size in zip(domain.names, domain.shape, strict=True)
    )
    return Domain(domain.names, sizes, domain.orders)


def resolution_share(domain: Domain, bins: Mapping[str, Array] = _NONE, whole: float = SHARE) -> float:
    """Return the share of the budget for choosing the resolution."""
    wide = len(_list_wide(domain, bins))
    return SHARE_ROWS + whole * wide / len(domain) if wide else 0.0


def check_resolution(curator: Curator, domain: Domain, bins: Mapping[str, Array] = _NONE) -> None:
    """Refuse a budget so small that the noise of these measurements could not be drawn."""
    wide = len(_list_wide(domain, bins))
    least = min(SHARE_ROWS, min(ZOOM, BLOCKS) * SHARE / len(domain)) if wide else 1.0
    if not curator.sigma(least) <= MAX_NOISE_SCALE:
        raise MethodError(
            f"the budget is too small for numbers and dates: their noise would be above {MAX_NOISE_SCALE:g}. "
            f"Raise epsilon, or give these columns at most {MAX_CODES_KEPT} edges or bins."
        )


def choose_resolution(
    curator: Curator, listener: Listener = ignore_event, bins: Mapping[str, Array] = _NONE, whole: float = SHARE
) -> dict[str, ValueMap]:
    """Measure the wide attributes in fine cells and return their coarse codes; no query if there are none.

    Noise would dominate joint marginals of fine codes. So each wide attribute is measured alone on its public grid, and
    its coarse codes follow from these noisy counts: adjacent values with about equal numbers of rows, as many as the
    noise of two-way marginals allows, frequent values alone. Samples are refined by the smoothed fine counts.
    """
    domain = curator.domain
    wide = _list_wide(domain, bins)
    if not wide:
        return {}
    share = resolution_share(domain, bins, whole) - SHARE_ROWS
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
        fine |= {
            name: _limit_tails(fine[name], (counts[name], grids[name]), orders[name])
            for name in wide
            if name not in blocks and orders[name].ordered
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
    """Extend a model of coarse codes to fine codes."""
    if not maps:
        return model
    if isinstance(model, RecodedModel):  # one map from fine codes to those that the method merged
        maps = {
            name: maps[name].then(model.maps[name])
            if name in maps and name in model.maps
            else maps.get(name) or model.maps[name]
            for name in {**maps, **model.maps}
        }
        model = model.inner
    return RecodedModel(domain, model, maps)


def _find_rule_breaks(domain: Domain, name: str) -> Array:
    """Return the codes at which rules change, so that no coarse code is on both sides.

    Rules with more than MAX_BREAKS of them, such as an order of two wide attributes, are left to the repair.
    """
    each = [known.breaks(name) for known in domain.impossible if name in known.clique]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(found for found in each if len(found) <= MAX_BREAKS)]))


def _coarsen_grid(order: Order, grid: FineGrid, most: float) -> FineGrid:
    """Join neighbouring cells of an ordered attribute to at most `most` cells (at least MAX_CODES_KEPT)."""
    return grid.coarser(max(most, MAX_CODES_KEPT), len(order.apart)) if order.ordered else grid


def _measure_cells(curator: Curator, cells: Mapping[str, Array], share: float) -> dict[str, NoisyMarginal]:
    """Measure attributes in cells. Privacy: the maps are public or follow from released measurements."""
    merged = curator.recode({name: (codes, int(codes.max()) + 1) for name, codes in cells.items()})
    return {m.clique[0]: m for m in merged.measure([(name,) for name in cells], share)}


def _smooth_codes(noisy: NoisyMarginal, grid: FineGrid, order: Order) -> Array:
    """Return the estimated count of each code: smoothed counts of cells, spread evenly over their codes."""
    made = _without_noise(np.asarray(noisy.table, np.float64), noisy.sigma, grid, order)
    return np.asarray((made / np.bincount(grid.cells, minlength=grid.size))[grid.cells])


def _reconcile_levels(
    fine: Array, cells: tuple[NoisyMarginal, FineGrid], blocks: tuple[NoisyMarginal, FineGrid], order: Order
) -> Array:
    """Rescale counts of codes to those of their blocks, which are pooled from both levels by precision."""
    (counted, grid), (known, wide) = cells, blocks
    block = wide.cells[np.unique(grid.cells, return_index=True)[1]]
    summed = np.bincount(block, weights=counted.table, minlength=wide.size)
    trust, own = 1 / known.sigma**2, 1 / (np.bincount(block, minlength=wide.size) * counted.sigma**2)
    pooled = (trust * known.table + own * summed) / (trust + own)
    made = _without_noise(pooled, float(np.sqrt(1 / (trust + np.median(own)))), wide, order)
    return _limit_block_tails(_rescale_blocks(fine, wide.cells, made), wide, pooled, 1 / np.sqrt(trust + own), order)


def _rescale_blocks(fine: Array, blocks: Array, made: Array) -> Array:
    """Rescale the counts of codes to those of their blocks; counts of an empty block are spread evenly."""
    held, codes = (np.bincount(blocks, weights=part, minlength=len(made)) for part in (fine, np.ones(len(fine))))
    spread = np.where(held[blocks] > 0, fine, 1.0) / np.where(held > 0, held, codes)[blocks]
    return np.asarray(spread * made[blocks])


def _limit_tails(fine: Array, cells: tuple[NoisyMarginal, FineGrid], order: Order) -> Array:
    """Replace noise in the tails of a column that was measured in cells only (`extrapolate_tails`)."""
    counted, grid = cells
    wide = grid.coarser(MAX_TAIL_CELLS, len(order.apart))
    block = wide.cells[np.unique(grid.cells, return_index=True)[1]]
    summed = np.bincount(block, weights=counted.table, minlength=wide.size)
    noise = counted.sigma * np.sqrt(np.bincount(block, minlength=wide.size))
    return _limit_block_tails(fine, wide, summed, noise, order)


def _limit_block_tails(fine: Array, wide: FineGrid, table: Array, sigma: Array, order: Order) -> Array:
    """Replace noise in the tails of the blocks and rescale the counts of codes to them."""
    made = np.bincount(wide.cells, weights=fine, minlength=wide.size)
    inside = np.setdiff1d(np.arange(wide.size), [int(wide.cells[code]) for code in order.apart])
    cells = NoisyCells(table[inside], sigma[inside], wide.widths[inside])
    made[inside] = extrapolate_tails(cells, made[inside])
    return _rescale_blocks(fine, wide.cells, made)


def _without_noise(table: Array, sigma: float, grid: FineGrid, order: Order) -> Array:
    """Return the count of each cell, at least 0, smoothed if values are ordered."""
    made = np.maximum(table, 0)
    if order.ordered:
        inside = np.setdiff1d(np.arange(grid.size), sorted({int(grid.cells[code]) for code in order.apart}))
        made[inside] = smooth_counts(table[inside], sigma, CellGrid(grid.widths[inside], grid.levels[inside]))
    return made


def _measure_values_in_cells(
    curator: Curator, found: Mapping[str, tuple[FineGrid, Array]], share: float
) -> dict[str, Array]:
    """Measure the values inside the cells with most rows; return the counts of all codes."""
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
        # The first measurement is more precise for the total of a cell. This one gives the split among its values:
        # what it does not find is spread evenly, since noise hides values that are not frequent.
        values = np.bincount(grid.cells)
        before, after = (np.bincount(grid.cells, weights=part, minlength=grid.size) for part in (counts, fine))
        missed = np.maximum(before - after, 0) / values
        fine = fine * np.minimum(before / np.maximum(after, 1e-300), 1.0)[grid.cells] + missed[grid.cells]
        made[name] = np.where((held[cells[name]] == 1) & (values[grid.cells] > 1), fine, counts)
    return made


def _split_full_cells(grid: FineGrid, counts: Array, least: float) -> Array:
    """Return cells in which those with most rows are split into single values."""
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
    """Result of the first step of a method: measured one-way marginals with rare values merged."""

    domain: Domain
    """The attributes with all their values."""
    curator: Curator
    """Curator of the rows in merged values, for all later queries."""
    tables: list[NoisyMarginal]
    """The noisy one-way marginals in merged values: charged once, reused for consistency."""
    maps: Mapping[str, ValueMap]
    dropped: frozenset[str] = frozenset()
    """Attributes whose last code, that of all rare values, is rare too and stays empty."""

    def emptied(self, tables: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
        """Return the tables with the codes that stay empty marked as empty."""
        made = []
        for m in tables:
            empty = np.zeros(m.table.shape, bool) if m.empty is None else m.empty.copy()
            for axis, name in enumerate(m.clique):
                if name in self.dropped:
                    empty[(slice(None),) * axis + (-1,)] = True
            made.append(replace(m, table=np.where(empty, 0, m.table), empty=empty) if empty.any() else m)
        return made

    def unfold(self, model: Model) -> RecodedModel:
        """Extend a model over merged values to all values."""
        return RecodedModel(self.domain, model, self.maps)


def merge_rare_values(
    domain: Domain, measured: Sequence[NoisyMarginal], rare: float, rare_rows: float = 0.0, *, one_code: bool = False
) -> dict[str, ValueMap]:
    """Return the map of each attribute: values below `rare` standard deviations, or `rare_rows`, are merged.

    Without either, nothing is merged. With `one_code`, all rare values of an attribute share one code, ordered or not.
    """
    return {
        m.clique[0]: merge_rare(m, _compute_threshold(m, rare, rare_rows), domain.order(m.clique[0]), one_code=one_code)
        for m in measured
    }


def _compute_threshold(measured: NoisyMarginal, rare: float, rare_rows: float) -> float:
    return max(rare * measured.sigma, rare_rows) or -math.inf


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

    With `one_code`, no record has the merged code where its count is below the threshold too (PrivSyn, section 5.3); a
    single rare value always is.
    The map still sends every row to one cell; the cells are emptied afterwards, in the released tables.
    """
    with report_stage(listener, "measure columns"):
        noisy = curator.measure([(name,) for name in curator.domain], share=share)
    maps = merge_rare_values(curator.domain, noisy, rare, rare_rows, one_code=one_code)
    dropped = set()
    for m in noisy if one_code else ():
        found, threshold = maps[m.clique[0]], _compute_threshold(m, rare, rare_rows)
        last = np.flatnonzero(found.codes == found.size - 1)
        special = curator.domain.order(m.clique[0]).apart
        if len(last) < len(found.codes) and special.isdisjoint(last.tolist()) and m.table[last].sum() < threshold:
            dropped.add(m.clique[0])
    merged = curator.recode({name: (m.codes, m.size) for name, m in maps.items()})
    tables = [maps[m.clique[0]].fold(m) for m in noisy]
    columns = MergedColumns(curator.domain, merged, tables, maps, frozenset(dropped))
    return replace(columns, tables=columns.emptied(tables)) if dropped else columns
