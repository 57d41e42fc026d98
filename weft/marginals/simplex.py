"""Simplex projection: the non-negative table of a given total that is nearest (L2) to a noisy table.

The projection subtracts a threshold tau from every cell and truncates at zero ("norm-sub"). `project_to_simplex`
computes tau by sorting; `find_simplex_threshold`, the kernel for many tables, uses Newton's method on the convex
function tau -> sum(max(v - tau, 0)) - total, which is exact after a few passes.
"""

import numpy as np

from weft.kernels import kernel
from weft.marginals.marginal import Array


def project_to_simplex(v: Array, total: float) -> Array:
    """Return the nearest array (L2) to `v` that is non-negative and sums to `total` > 0; any shape.

    >>> project_to_simplex(np.array([5.0, 1.0, -2.0]), 4.0)
    array([4., 0., 0.])
    """
    if not total > 0:
        raise ValueError("a table can only be projected onto a positive total")
    flat = np.asarray(v, dtype=np.float64).ravel()
    descending = np.sort(flat)[::-1]
    excess = np.cumsum(descending) - total
    count = np.arange(1, flat.size + 1)
    # The condition holds for a prefix, so its length is the number of cells that stay positive.
    support = np.count_nonzero(descending * count > excess)
    return np.asarray(np.maximum(flat - excess[support - 1] / support, 0.0).reshape(np.shape(v)))


@kernel(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def find_simplex_threshold(v, total, start):  # type: ignore[no-untyped-def]
    """Return tau with sum(max(v - tau, 0)) = total by Newton's method from any `start`."""
    above = 0.0
    support = 0
    for j in range(v.size):
        if v[j] > start:
            above += v[j]
            support += 1
    if support == 0:  # no cell is above start: the threshold over all cells is never above the solution
        above = 0.0
        for j in range(v.size):
            above += v[j]
        support = v.size
    tau = (above - total) / support
    # From above the solution, one step leads below it. From below, tau increases and the support shrinks until it is
    # constant and tau is exact: at most one step per cell.
    for _ in range(v.size + 2):
        above = 0.0
        kept = 0
        for j in range(v.size):
            if v[j] > tau:
                above += v[j]
                kept += 1
        if kept == 0:  # due to rounding only: total is far below the precision of the cells
            break
        tau = (above - total) / kept
        if kept == support:
            break
        support = kept
    return tau
