"""Two resolutions: numbers and dates are counted fine alone, and coarse together with others.

A table over two attributes of a hundred values each has ten thousand cells: noise drowns it, and whatever it could have
told of the two. So before a recipe begins, every attribute whose codes are ordered, and many, is counted alone on its
public grid. From these released answers follow its coarse codes: neighbours, about equal in number of rows, as many as
the noise of tables over two attributes allows, with heaps standing apart. The recipe works on these. When records are
made, each coarse code becomes a fine one, by the fine counts without most of their noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Domain, FineGrid, Order
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.recode import ValueMap, coarse_groups, divided
from weft.models import Model
from weft.models.recoded import RecodedModel
from weft.privacy.noise import LARGEST_SCALE
from weft.progress import Listener, silence, stage
from weft.reconcile.smoothing import Grid, smooth

_NONE: Mapping[str, Array] = {}

FEW = 24
"""Ordered attributes with at most this many codes are left to the recipe as they are."""

MOST_GROUPS = 32
"""Most coarse codes of an attribute that hold about equal numbers of rows."""

LEAST_GROUPS = 8

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

MANY = 4
"""Cells for each block from which on blocks are counted too."""

ZOOM = 0.3
"""Part of that share for the values inside cells that hold many rows, where cells hold several values."""

ZOOM_CODES = 8192
ROWS_PER_NOISE = 10.0
"""Rows that a cell of a table over two coarse attributes should hold, in standard deviations of its noise."""

MOST_BREAKS = 4
"""Places at which a rule may divide coarse codes."""

LEAST_ROWS = 6.0
"""Rows that a coarse code should hold, in the same unit."""


def is_wide(domain: Domain, name: str) -> bool:
    """Whether an attribute is counted fine alone and coarse together with others."""
    order = domain.order(name)
    return order.ordered and domain.size(name) - len(order.apart) > FEW


def coarse_domain(domain: Domain, bins: Mapping[str, Array] = _NONE) -> Domain:
    """Return the largest domain that a recipe may find when it begins: for checks before anything is spent.

    `bins` has, here and below, the coarse codes of attributes whose bins are given.
    """
    sizes = tuple(
        int(bins[name].max()) + 1
        if name in bins
        else min(size, 2 * MOST_GROUPS + len(domain.order(name).apart) + len(_breaks(domain, name)))
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
    if not curator.sigma(least) <= LARGEST_SCALE:
        raise MethodError(
            "the budget is too small for numbers and dates: their noise would be above "
            f"{LARGEST_SCALE:g}. Raise epsilon, or give them edges or bins, at most {FEW} of them."
        )


def choose_resolution(
    curator: Curator, listener: Listener = silence, bins: Mapping[str, Array] = _NONE
) -> dict[str, ValueMap]:
    """Count the wide attributes fine; return their coarse codes. Nothing is asked where there are none."""
    domain = curator.domain
    wide = [name for name in domain if is_wide(domain, name) or name in bins]
    if not wide:
        return {}
    share = resolution_share(domain, bins) - SHARE_ROWS
    with stage(listener, "count rows"):
        rows = max(float(curator.total(SHARE_ROWS).table), 1.0)
    most = (rows / (CELLS_NOISE * curator.sigma((1 - ZOOM) * share / len(wide)))) ** 2
    orders = {name: domain.order(name) for name in wide}
    grids = {name: _joined(orders[name], orders[name].fine_grid(domain.size(name)), most) for name in wide}
    zoomed = [name for name in wide if grids[name].size < domain.size(name)]
    deeper = ZOOM * share * len(zoomed) / len(wide)
    few = most * (CELLS_NOISE / BLOCKS_NOISE) ** 2
    blocks = {name: _joined(orders[name], grids[name], few) for name in wide}
    blocks = {name: each for name, each in blocks.items() if each.size * MANY <= grids[name].size}
    wider = BLOCKS * share * len(blocks) / len(wide)
    with stage(listener, "measure numbers and dates"):
        counts = _measure(curator, {name: grids[name].cells for name in wide}, share - deeper - wider)
        fine = {name: _smoothed(counts[name], grids[name], orders[name]) for name in wide}
        if blocks:
            known = _measure(curator, {name: each.cells for name, each in blocks.items()}, wider)
            fine |= {
                name: _settled(fine[name], (counts[name], grids[name]), (known[name], blocks[name]), orders[name])
                for name in blocks
            }
        if zoomed:
            fine |= _zoom(curator, {name: (grids[name], fine[name]) for name in zoomed}, deeper)
    joint = curator.sigma((1 - share - SHARE_ROWS) / (3 * len(domain)))
    maps = {}
    for name in wide:
        if name in bins:
            maps[name] = ValueMap(bins[name], int(bins[name].max()) + 1, fine[name])
            continue
        groups = round(min(max(math.sqrt(rows / (ROWS_PER_NOISE * joint)), LEAST_GROUPS), MOST_GROUPS))
        codes = divided(
            coarse_groups(fine[name], orders[name].apart, groups, LEAST_ROWS * joint), _breaks(domain, name)
        )
        maps[name] = ValueMap(codes, int(codes.max()) + 1, fine[name])
    return maps


def refined(domain: Domain, model: Model, maps: Mapping[str, ValueMap]) -> Model:
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


def _breaks(domain: Domain, name: str) -> Array:
    """Return the codes at which a rule begins or ends to hold, so that no coarse code is on both sides; at most a few.

    A rule with more of them, such as an order of two wide columns, is left to the repair.
    """
    each = [known.breaks(name) for known in domain.impossible if name in known.clique]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(found for found in each if len(found) <= MOST_BREAKS)]))


def _joined(order: Order, grid: FineGrid, most: float) -> FineGrid:
    """Return a grid of at most so many cells: neighbours together, where values have an order."""
    return grid.coarser(max(most, FEW), len(order.apart)) if order.ordered else grid


def _measure(curator: Curator, cells: Mapping[str, Array], share: float) -> dict[str, NoisyMarginal]:
    """Count attributes in cells: maps that are public, or follow from released answers."""
    merged = curator.recode({name: (codes, int(codes.max()) + 1) for name, codes in cells.items()})
    return {m.clique[0]: m for m in merged.measure([(name,) for name in cells], share)}


def _smoothed(noisy: NoisyMarginal, grid: FineGrid, order: Order) -> Array:
    """Return the count of each code: of each cell, without most of its noise, spread evenly over its codes."""
    made = _without_noise(np.asarray(noisy.table, np.float64), noisy.sigma, grid, order)
    return np.asarray((made / np.bincount(grid.cells, minlength=grid.size))[grid.cells])


def _settled(
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
        made[inside] = smooth(table[inside], sigma, Grid(grid.widths[inside], grid.levels[inside]))
    return made


def _zoom(curator: Curator, found: Mapping[str, tuple[FineGrid, Array]], share: float) -> dict[str, Array]:
    """Count the values inside the cells that hold most rows; return the counts of all codes."""
    noise = curator.sigma(share / len(found))
    cells = {name: _opened(grid, counts, 6 * noise) for name, (grid, counts) in found.items()}
    made = {}
    for name, noisy in _measure(curator, cells, share).items():
        grid, counts = found[name]
        held = np.bincount(cells[name])
        deeper = smooth(noisy.table, noisy.sigma, Grid(held.astype(np.float64), np.zeros(len(held), np.int64)))
        fine = (deeper / held)[cells[name]]
        # The rows of a cell are known better from the first count; how its values share them, from this one.
        before, after = (np.bincount(grid.cells, weights=part, minlength=grid.size) for part in (counts, fine))
        opened = (held[cells[name]] == 1) & (np.bincount(grid.cells)[grid.cells] > 1) & (after[grid.cells] > 0)
        made[name] = np.where(opened, fine * (before / np.maximum(after, 1e-300))[grid.cells], counts)
    return made


def _opened(grid: FineGrid, counts: Array, least: float) -> Array:
    """Return cells in which those with most rows are divided into their values."""
    rows = np.bincount(grid.cells, weights=counts, minlength=grid.size)
    values = np.bincount(grid.cells, minlength=grid.size)
    ranked = np.argsort(-rows, kind="stable")
    ranked = ranked[(rows[ranked] >= least) & (values[ranked] > 1)]
    taken = ranked[np.cumsum(values[ranked]) <= ZOOM_CODES]
    divided = np.isin(grid.cells, taken)
    starts = np.concatenate([[True], (grid.cells[1:] != grid.cells[:-1]) | divided[1:]])
    return np.asarray(np.cumsum(starts) - 1)
