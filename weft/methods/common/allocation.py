"""Divide a budget among marginals, and select the marginals whose gain exceeds their noise.

A Gaussian measurement with share rho_i has noise of standard deviation 1 / sqrt(2 rho_i) on each of c_i cells, so its
expected L1 error is c_i / sqrt(pi rho_i) counts. For a given sum of the rho_i, the total error is smallest when rho_i
is proportional to c_i^(2/3) (PrivSyn, equation 1), and is then (sum c_i^(2/3))^1.5 / sqrt(pi rho).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.marginals.marginal import Array
from weft.privacy import AccountingLike, find_accounting


def allocate(cells: Sequence[int] | Array, rho: float, exponent: float = 2 / 3) -> Array:
    """Return each marginal's share of `rho`, proportional to its cells to the power `exponent`.

    >>> allocate([8, 27, 64], 29.0)
    array([ 4.,  9., 16.])
    """
    power = np.asarray(cells, dtype=np.float64) ** exponent
    return np.asarray(rho * power / power.sum())


def by_size(cells: Sequence[int], accounting: AccountingLike) -> list[float]:
    """Return the budget parts that minimise the summed expected error of tables with these numbers of cells.

    The error of a table of c cells measured with part p is proportional to c / sqrt(p) for Gaussian noise and to c / p
    for geometric noise, so the optimal p is proportional to c^(2/3) or c^(1/2) (`CountNoise.allocation_exponent`).

    >>> [round(part, 2) for part in by_size([1, 64], "gaussian")], [round(part, 2) for part in by_size([1, 64], "pure")]
    ([0.06, 0.94], [0.11, 0.89])
    """
    exponent = find_accounting(accounting).counts.allocation_exponent
    return [float(part) for part in allocate(cells, 1.0, exponent)]
