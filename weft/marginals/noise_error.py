"""Expected error of a noisy marginal after projection, estimated from sigma and from counts that are not private.

Noise of standard deviation sigma on each of k cells has expected L1 norm k sigma sqrt(2/pi), in counts. Every method
then projects the counts onto the non-negative tables of the estimated total, which removes much of the error where most
cells are empty: the error of a projected table is far below k sigma and at most twice its total. The projection
subtracts a threshold tau and truncates at zero, so a cell with count q has error E |max(q + sigma Z - tau, 0) - q|, in
closed form. Geometric noise is treated as Gaussian noise of the same sigma, which is a tenth too large in mean.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weft.kernels import kernel
from weft.marginals.marginal import Array

STEPS = 50  # maximum number of Newton steps
NEAR = 1e-6  # step size, in sigmas, after which one final step gives the threshold up to rounding

_FAR = 9.0  # standard deviations above zero beyond which truncation has no effect in floating point
_ROOT = math.sqrt(0.5)
_PEAK = 1 / math.sqrt(2 * math.pi)
_SMALL = 1 << 14  # groups times sigmas below which starting threads costs more than it saves


@kernel(cache=True, nogil=True)
def _solve_thresholds(cells: Any, counts: Any, total: Any, sigma: Any, tau: Any, alive: Any) -> None:
    used = np.empty(cells.shape[1], np.int64)
    for t in range(cells.shape[0]):
        groups = 0
        for g in range(cells.shape[1]):
            if cells[t, g] != 0.0:
                used[groups] = g
                groups += 1
        for level in range(sigma.shape[1]):
            s, at, above, near = sigma[t, level], 0.0, 0.0, False
            for _ in range(STEPS):
                above, left = 0.0, 0.0
                for k in range(groups):
                    n = cells[t, used[k]]
                    z = (counts[t, used[k]] - at) / s
                    if z > _FAR:
                        above += n
                        left += n * z
                    else:
                        share = 0.5 * math.erfc(-z * _ROOT)
                        above += n * share
                        left += n * (z * share + _PEAK * math.exp(-0.5 * z * z))
                step = (left * s - total[t]) / max(above, 1e-9)
                at += step
                if near:
                    break
                near = abs(step) < NEAR * s
            tau[t, level], alive[t, level] = at, above


@kernel(cache=True, nogil=True)
def _integrate_errors(cells: Any, counts: Any, sigma: Any, tau: Any, errors: Any) -> None:
    """Compute `errors`: the sum over cells of E |max(q + sigma Z - tau, 0) - q|."""
    for t in range(cells.shape[0]):
        for level in range(sigma.shape[1]):
            s = sigma[t, level]
            c = tau[t, level] / s
            alone = 2 * _PEAK * math.exp(-0.5 * c * c) + c * math.erfc(-c * _ROOT) - c
            error = 0.0
            for g in range(cells.shape[1]):
                if cells[t, g] != 0.0:
                    q = counts[t, g]
                    a = c - q / s
                    below = 0.5 * math.erfc(-a * _ROOT)
                    error += cells[t, g] * ((q - s * c) * below + s * (alone - _PEAK * math.exp(-0.5 * a * a)))
            errors[t, level] = error


def find_thresholds(cells: Array, counts: Array, sigma: Array) -> tuple[Array, Array]:
    """Return the threshold tau and the expected number of positive cells for each table and sigma (table x sigma)."""
    cells, counts, sigma = (np.ascontiguousarray(each, np.float64) for each in (cells, counts, sigma))
    tau, alive = np.zeros(sigma.shape), np.zeros(sigma.shape)
    _run_kernel(_solve_thresholds, cells.shape[1], cells, counts, (cells * counts).sum(axis=1), sigma, tau, alive)
    return tau, alive


def compute_threshold_errors(cells: Array, counts: Array, sigma: Array, tau: Array) -> Array:
    """Return the expected L1 error of each table and sigma after subtracting tau and truncating at zero."""
    cells, counts, sigma, tau = (np.ascontiguousarray(each, np.float64) for each in (cells, counts, sigma, tau))
    errors = np.zeros(sigma.shape)
    _run_kernel(_integrate_errors, cells.shape[1], cells, counts, sigma, tau, errors)
    return errors


def _run_kernel(kernel: Any, groups: int, *arrays: Array) -> None:
    """Run a kernel on all tables (the rows of the arrays), in slices on all cores."""
    tables, work = len(arrays[0]), arrays[-1].size * groups
    if arrays[-1].size == 1:  # not worth loading numba for
        kernel.py_func(*arrays)
        return
    threads = 1 if work < _SMALL else os.cpu_count() or 1
    runs = 1 if threads == 1 else 4 * threads
    bounds = [tables * i // runs for i in range(runs + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(kernel, *(each[lo:hi] for each in arrays)) for lo, hi in pairwise(bounds)]:
            done.result()


MEAN_ABS_NORMAL = math.sqrt(2 / math.pi)
"""E |Z| of a standard normal Z."""

GROUPS = 48
"""Default number of groups that the sorted cells of a table are divided into; the error is a sum over groups."""


def compute_expected_noise(cells: int | Sequence[int] | Array, sigma: Array | float) -> Array:
    """Return the expected L1 norm, in counts, of noise with standard deviation sigma on each cell of a table.

    >>> round(float(compute_expected_noise(100, 10.0)))
    798
    """
    return np.asarray(MEAN_ABS_NORMAL * np.asarray(sigma) * np.asarray(cells, dtype=np.float64))


@dataclass(frozen=True)
class Profile:
    """Tables summarized as sorted groups of cells: number of cells and mean count per group, one row per table."""

    cells: Array
    counts: Array

    @property
    def total(self) -> Array:
        """Sum of each table."""
        return np.asarray((self.cells * self.counts).sum(axis=1))


def group_cells_by_size(tables: Sequence[Array], groups: int = GROUPS) -> Profile:
    """Group the cells of each table by count; a table with at most `groups` cells keeps one cell per group."""
    cells = np.zeros((len(tables), groups))
    counts = np.zeros((len(tables), groups))
    for i, table in enumerate(tables):
        flat = np.sort(table, axis=None)
        if flat.size <= groups:
            cells[i, : flat.size], counts[i, : flat.size] = 1, flat
        else:
            # Geometric bounds from the top: large counts get a group each, small counts share large groups.
            bounds = np.unique(flat.size - np.rint(np.geomspace(1, flat.size + 1, groups) - 1).astype(np.int64))
            width = np.diff(bounds)
            cells[i, : width.size] = width
            counts[i, : width.size] = np.add.reduceat(flat, bounds[:-1]) / width
    return Profile(cells, counts)


def compute_projected_error(tables: Profile, sigma: Array, *, whole: bool | Array = False) -> Array:
    """Return the expected L1 error, in counts, of each table measured with each sigma (table x level).

    `whole` states, for all tables or for each, whether its cells have independent noise. The threshold then follows the
    mean noise of the cells that stay positive in the same draw, which removes 1/alive of their variance. The noise of
    interaction terms already has mean zero over the cells, so nothing more is removed. AIM's pairs and weave's
    attributes are scored without it (on adult, it changes weave's errors less than repeated runs differ).
    """
    sigma = np.array(np.broadcast_to(sigma, (len(tables.cells), np.shape(sigma)[-1])), np.float64)
    tau, alive = find_thresholds(tables.cells, tables.counts, sigma)
    independent = np.broadcast_to(np.reshape(whole, (-1, 1)), sigma.shape)
    if independent.any():
        kept = np.sqrt(1 - 1 / np.maximum(alive, 1.0))
        nothing = independent & (kept <= 0)  # a single positive cell holds the whole total
        sigma = np.where(independent & ~nothing, sigma * kept, sigma)
        tau, _ = find_thresholds(tables.cells, tables.counts, sigma)
    else:
        nothing = independent
    return np.where(nothing, 0.0, compute_threshold_errors(tables.cells, tables.counts, sigma, tau))
