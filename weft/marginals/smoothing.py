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

from collections.abc import Iterator
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
    noise = sigma * np.sqrt(cells)
    total = np.asarray(np.maximum(held, 0) * held**2 / np.maximum(held**2 + noise**2, _TINY))  # shrunk towards 0

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


MIN_TAIL_DEVIATIONS = 3.5  # a fitted tail begins at or before the last run of cells so far above its noise
GOOD_FIT, POOR_FIT = 2.5, 4.0  # misfit that is accepted at once, and maximum if no other fit is better
MAX_LAST = 0.05  # maximum ratio of the last density to the largest: a fit that does not decay explains no tail
MIN_DECAY = 1.5  # minimum exponent of a power-law tail beyond the last significant cell: its mean must be finite
_MIN_FITTED = 4
_TINY_WIDTH = 1e-9
_RUN_ALLOWANCE = 1.0  # runs are compared with a higher threshold, since the largest of many deviations counts
_GEOMETRIC = 4.0  # ratio of the widest cell to the narrowest above which a grid is geometric


@dataclass(frozen=True)
class NoisyCells:
    """Noisy counts of adjacent cells, their standard deviations, and the widths of the cells."""

    counts: Array
    sigma: Array
    widths: Array

    def reverse(self) -> NoisyCells:
        """Return the cells from the last to the first."""
        return NoisyCells(self.counts[::-1], self.sigma[::-1], self.widths[::-1])

    @property
    def is_geometric(self) -> bool:
        """Whether the widths of the cells grow with their distance from zero."""
        return bool(self.widths.max() > _GEOMETRIC * self.widths.min())

    def places(self) -> tuple[Array, Array]:
        """Return the centres and widths of the cells, on a logarithmic scale if the grid is geometric.

        The narrowest cells of a geometric grid are those at zero.
        """
        if not self.is_geometric:
            return np.arange(len(self.widths)) + 0.5, np.ones(len(self.widths))
        least = np.flatnonzero(self.widths == self.widths.min())
        many = len(self.widths)
        zero = 0 if least[0] == 0 else many if least[-1] + 1 == many else int(least[len(least) // 2])
        right, left = np.cumsum(self.widths[zero:]), np.cumsum(self.widths[:zero][::-1])  # outwards, to keep precision
        scaled = np.arcsinh(np.concatenate([-left[::-1], [0.0], right]) / self.widths.min())
        return (scaled[1:] + scaled[:-1]) / 2, np.maximum(np.diff(scaled), _TINY_WIDTH)


MAX_STARTS = 24
"""Maximum number of cells at which a tail is tried to begin; of more, evenly spaced ones are tried."""


def extrapolate_tails(cells: NoisyCells, smooth: Array) -> Array:
    """Return smoothed counts with the noise in their tails replaced by tails that decay.

    The noise of many empty cells can exceed a few rows: spread over a wide range, it would dominate means and maxima.
    On either side, the longest run of cells up to the end that a log-quadratic density explains (normal, or log-normal
    and power law on a geometric grid) is replaced by that density.

    >>> noisy = np.array([900, 450, 200, 110, 60, -9, 12, -15, 5, 20])
    >>> extrapolate_tails(NoisyCells(noisy, np.full(10, 15.0), np.ones(10)), noisy).round()
    array([900., 446., 213.,  98.,  43.,  18.,   7.,   3.,   1.,   0.])
    """
    made = np.array(smooth, np.float64)
    for side, view in ((cells, slice(None)), (cells.reverse(), slice(None, None, -1))):
        start, fit = _fit_tail(side)
        if np.isfinite(fit).all():
            made[view][start:] = fit
    return made


def _fit_tail(cells: NoisyCells) -> tuple[int, Array]:
    """Return the first cell of the right tail and the fitted counts from there on; no cell if nothing fits."""
    y, sigma = np.asarray(cells.counts, np.float64), np.asarray(cells.sigma, np.float64)
    place, width = cells.places()
    best, start, made = POOR_FIT, len(y), np.zeros(0)
    found = [np.flatnonzero(scores > MIN_TAIL_DEVIATIONS) for scores in _iterate_run_deviations(y, sigma)]
    last = max((int(places[-1]) for places in found if len(places)), default=-1)
    starts = max(min(last + 1, len(y) - _MIN_FITTED + 1), 0)
    for first in np.unique(np.linspace(0, starts - 1, min(starts, MAX_STARTS)).astype(np.int64)).tolist():
        fit = _fit_log_quadratic(y[first:], sigma[first:], place[first:], width[first:])
        density = fit / width[first:]
        if density[-1] > MAX_LAST * density.max():
            continue
        rest = y[first:] - fit
        runs = max(float(np.abs(scores).max()) for scores in _iterate_run_deviations(rest, sigma[first:]))
        square = float(((rest / sigma[first:]) ** 2).sum())
        misfit = max((square - len(rest)) / np.sqrt(2 * len(rest)), runs - _RUN_ALLOWANCE)
        if misfit < best:
            best, start, made = misfit, first, fit
        if misfit < GOOD_FIT:
            break
    if start <= last < len(y) - 1 and cells.is_geometric:
        density, beyond = made / width[start:], slice(last - start + 1, None)
        limit = density[last - start] * np.exp(-MIN_DECAY * (place[last + 1 :] - place[last]))
        made[beyond] = np.minimum(density[beyond], limit) * width[last + 1 :]
    return start, made


def _iterate_run_deviations(y: Array, sigma: Array) -> Iterator[Array]:
    """Yield, for runs of 1, 2, 4, ... cells, the sum of each run in standard deviations of its noise."""
    held, noise = (np.concatenate([[0.0], np.cumsum(part)]) for part in (y, sigma**2))
    length = 1
    while length <= len(y):
        yield (held[length:] - held[:-length]) / np.sqrt(noise[length:] - noise[:-length])
        length *= 2


def _fit_log_quadratic(y: Array, sigma: Array, place: Array, width: Array) -> Array:
    """Fit width * exp(a + b place - c place^2 / 2) with c >= 0 to noisy counts, from several starting points."""
    from scipy.optimize import least_squares  # loaded only where a column is wide

    weight = np.maximum(y, 0)
    total = max(float(weight.sum()), 1e-9)
    middle = float(weight @ place) / total
    spread = max(float(weight @ (place - middle) ** 2) / total, float(np.median(width)) ** 2)
    scaled = (place - middle) / np.sqrt(spread)
    basis = np.column_stack([np.ones(len(y)), scaled, -(scaled**2) / 2])

    def curve(theta: Array) -> Array:
        return np.asarray(width * np.exp(np.clip(basis @ theta, -50, 50)))

    found = [
        least_squares(
            lambda theta: (curve(theta) - y) / sigma,
            [np.clip(np.log(total * np.sqrt(start / (2 * np.pi * spread))), -40, 40), 0.0, start],
            jac=lambda theta: (curve(theta) / sigma)[:, None] * basis,
            bounds=([-50, -50, 1e-3], [50, 50, 1e4]),
            max_nfev=60,
        )
        for start in (1.0, 4.0, 16.0)
    ]
    return curve(min(found, key=lambda each: float(each.cost)).x)
