"""Smooth the noisy one-way marginal of an ordered attribute on a fine grid.

Counts of numbers and dates have structure: adjacent cells are similar, round numbers are more frequent, a few values
are outliers, and the tails are empty. The estimate uses this structure where it exceeds the noise:

1. each roundness level has its own rate;
2. the grid is cut where the density changes (binary segmentation: the most significant cut first, recursively);
3. a cell far above its neighbours keeps its own noisy count;
4. the residuals inside a block are shrunk by the estimated noise share of their variance (James and Stein).

Tails that hold only noise decay instead of filling the range.

Privacy: uses a released table and public facts about the grid only, so it is post-processing and costs no budget.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.marginals.marginal import Array

_STANDS_OUT = 4.0  # standard deviations above the fit at which a cell keeps its own count
_CHANGE = 3.3  # minimum difference between the two sides of a cut, in standard deviations
_PASSES = 4
_TINY = 1e-300


@dataclass(frozen=True)
class CellGrid:
    """Public facts about the cells of an ordered attribute."""

    widths: Array
    """Number of values in each cell, or its length."""
    levels: NDArray[np.int64]
    """Roundness level of the values in each cell; 0: not round."""


def smooth_counts(table: Array, sigma: float, grid: CellGrid) -> Array:
    """Estimate non-negative counts from noisy ones of standard deviation `sigma` along a grid."""
    y = np.asarray(table, np.float64)
    alone = np.zeros(len(y), bool)
    fit = y
    for _ in range(_PASSES):
        base = _estimate_rates(y, sigma, grid, ~alone)
        blocks = _find_blocks(y, base, ~alone, sigma)
        fit = _fit_cells(y, base, grid.levels, ~alone, blocks, sigma)
        found = (y - fit > _STANDS_OUT * sigma) & ~alone
        if not found.any():
            break
        alone |= found
    return np.where(alone, y, fit)


def _estimate_rates(y: Array, sigma: float, grid: CellGrid, live: NDArray[np.bool_]) -> Array:
    """Estimate the cell counts from roundness alone; rates of levels are shrunk towards the overall rate."""
    size = int(grid.levels.max()) + 1
    total, cells, width = (
        np.bincount(grid.levels[live], weights=part[live], minlength=size) for part in (y, np.ones(len(y)), grid.widths)
    )
    even = max(total.sum(), 1e-9) / max(width.sum(), 1e-9)
    own = total / np.maximum(width, 1e-9)
    noise = sigma**2 * cells / np.maximum(width, 1e-9) ** 2
    rate = np.maximum(even + _compute_kept_part(own - even, noise) * (own - even), 1e-3 * even)
    return np.asarray(rate[grid.levels] * grid.widths * live)


def _compute_kept_part(difference: Array, noise: Array) -> Array:
    """Return the shrinkage factor of a difference: 0 where its square is at most the noise variance."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(1 - noise / np.maximum(difference**2, _TINY), 0, 1))


def _find_blocks(y: Array, base: Array, live: NDArray[np.bool_], sigma: float) -> NDArray[np.int64]:
    """Return the block of each cell: cut recursively where counts relative to `base` change most significantly."""
    held, due, cells = (np.concatenate([[0.0], np.cumsum(part)]) for part in (y * live, base, live))
    starts = np.zeros(len(y), np.int64)
    waiting = [(0, len(y))]
    while waiting:
        first, end = waiting.pop()
        whole = due[end] - due[first]
        if end - first < 2 or whole <= 0:
            continue
        cut = np.arange(first + 1, end)
        part = (due[cut] - due[first]) / whole
        left, right = cells[cut] - cells[first], cells[end] - cells[cut]
        noise = sigma * np.sqrt(left * (1 - part) ** 2 + right * part**2)
        gap = np.abs(held[cut] - held[first] - part * (held[end] - held[first])) / np.maximum(noise, 1e-9)
        gap[(left == 0) | (right == 0)] = 0
        best = int(np.argmax(gap))
        if gap[best] > _CHANGE:
            starts[cut[best]] = 1
            waiting += [(first, int(cut[best])), (int(cut[best]), end)]
    return np.cumsum(starts)


def _fit_cells(
    y: Array, base: Array, levels: NDArray[np.int64], live: NDArray[np.bool_], blocks: NDArray[np.int64], sigma: float
) -> Array:
    """Estimate cell counts: block totals divided among roundness levels, plus residuals that exceed the noise."""
    base = _with_tails(y, base, live, blocks, sigma)
    many = int(blocks[-1]) + 1
    held, due, cells = (np.bincount(blocks, weights=part, minlength=many) for part in (y * live, base, live))
    total = _shrink_totals(held, sigma * np.sqrt(cells))

    kinds = int(levels.max()) + 1
    key = blocks * kinds + levels
    own, own_due, own_cells = (
        np.bincount(key, weights=part, minlength=many * kinds) for part in (y * live, base, live)
    )
    expected = np.repeat(total / np.maximum(due, _TINY), kinds) * own_due
    beyond = own - np.repeat(held / np.maximum(due, _TINY), kinds) * own_due
    parts = np.maximum(expected + _compute_kept_part(beyond, 2 * sigma**2 * own_cells) * beyond, 0)
    fit = base * (parts / np.maximum(own_due, _TINY))[key]

    scatter = np.where(live, y - fit, 0.0)
    excess = np.bincount(blocks, weights=scatter**2, minlength=many) / np.maximum(cells, 1)
    real = np.where(held > 3 * sigma * np.sqrt(cells), np.clip(1 - 1.1 * sigma**2 / np.maximum(excess, _TINY), 0, 1), 0)
    fit = np.maximum(fit + real[blocks] * scatter, 0)
    sums = np.bincount(key, weights=fit, minlength=many * kinds)
    fit = fit * (parts / np.maximum(sums, _TINY))[key]  # truncation at 0 must not move rows between levels
    sums = np.bincount(blocks, weights=fit, minlength=many)
    return np.asarray(fit * (total / np.maximum(sums, _TINY))[blocks])


def _shrink_totals(held: Array, noise: Array) -> Array:
    """Shrink block totals towards 0 according to their noise."""
    return np.asarray(np.maximum(held, 0) * held**2 / np.maximum(held**2 + noise**2, _TINY))


def _with_tails(y: Array, base: Array, live: NDArray[np.bool_], blocks: NDArray[np.int64], sigma: float) -> Array:
    """Make `base` decay exponentially over a first or last block whose total is below two standard deviations."""
    base = base.copy()
    if blocks[-1] == 0:
        return base
    for view in (slice(None), slice(None, None, -1)):
        counts, expected, numbers, alive = y[view], base[view], blocks[view], live[view]
        end = int(np.argmax(numbers != numbers[0]))  # end of the first block from this side
        beside = int(np.argmax(numbers[end:] != numbers[end])) or len(numbers) - end
        if counts[:end][alive[:end]].sum() < 2 * sigma * np.sqrt(max(int(alive[:end].sum()), 1)):
            expected[:end] *= np.exp(-np.arange(end, 0, -1) / max(beside, 1))
    return base
