"""The threshold that a projection subtracts from a noisy table, and the error it leaves, for many tables and sigmas.

For counts q of groups of cells, each with Gaussian noise sigma, tau is where the mean of what is left,
E max(q + sigma Z - tau, 0), adds up to the table's total. That mean is convex and falls with tau, so Newton's steps
from nought come from the left and cannot overshoot. Each table and sigma stops by itself.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from weft.marginals.marginal import Array

STEPS = 50
"""Newton's steps, at most."""

NEAR = 1e-6
"""After a step of this many sigmas one more is made, and is exact to rounding."""

_FAR = 9.0  # deviations above nought past which noise takes nothing away, to the last bit
_ROOT = math.sqrt(0.5)
_PEAK = 1 / math.sqrt(2 * math.pi)
_SMALL = 1 << 14  # groups times sigmas below which starting threads costs more than the work


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _newton(cells: Any, counts: Any, total: Any, sigma: Any, tau: Any, alive: Any) -> None:
    """Fill `tau` and `alive` for some tables, each with each of its sigmas."""
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _errors(cells: Any, counts: Any, sigma: Any, tau: Any, errors: Any) -> None:
    """Fill `errors` with the sum over cells of E |max(q + sigma Z - tau, 0) - q|."""
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


def threshold(cells: Array, counts: Array, sigma: Array) -> tuple[Array, Array]:
    """Return tau of each table and sigma, and how many cells then stay above zero (table x sigma)."""
    cells, counts, sigma = (np.ascontiguousarray(each, np.float64) for each in (cells, counts, sigma))
    tau, alive = np.zeros(sigma.shape), np.zeros(sigma.shape)
    _each(_newton, cells.shape[1], cells, counts, (cells * counts).sum(axis=1), sigma, tau, alive)
    return tau, alive


def errors_past(cells: Array, counts: Array, sigma: Array, tau: Array) -> Array:
    """Return the expected L1 error of each table and sigma once tau is subtracted and the rest cut at zero."""
    cells, counts, sigma, tau = (np.ascontiguousarray(each, np.float64) for each in (cells, counts, sigma, tau))
    errors = np.zeros(sigma.shape)
    _each(_errors, cells.shape[1], cells, counts, sigma, tau, errors)
    return errors


def _each(kernel: Any, groups: int, *arrays: Array) -> None:
    """Run a kernel on all tables, which are the rows of the arrays, some at a time on each core."""
    tables, work = len(arrays[0]), arrays[-1].size * groups
    threads = 1 if work < _SMALL else os.cpu_count() or 1
    runs = 1 if threads == 1 else 4 * threads
    bounds = [tables * i // runs for i in range(runs + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(kernel, *(each[lo:hi] for each in arrays)) for lo, hi in pairwise(bounds)]:
            done.result()
