"""What noise alone explains: the distance that the privacy noise is expected to put between two tables.

Noise of deviation sigma on each of k cells moves a table by k sigma sqrt(2/pi) rows (L1) before anything else
happens. Every method then makes the counts non-negative and gives them the right sum, which undoes much of that where
most cells are empty. Both figures follow from sigma and from counts that the reader may see; no answer is needed.
Geometric noise is treated as Gaussian noise of the same deviation, which is a tenth too large in the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Measured

_STEPS = 50


def raw_l1(cells: int, sigma: float) -> float:
    """Expected L1 norm of the noise on a table, in rows.

    >>> round(raw_l1(100, 10.0))
    798
    """
    return cells * sigma * math.sqrt(2 / math.pi)


def expected_tvd(counts: Array, sigma: float) -> float:
    """Expected total variation between a table and its noisy self, projected to non-negative counts of the same sum.

    The projection subtracts a threshold t and cuts at zero. With a true count m, u = m - t and noise y, the cell's
    error is |y - t| where y > -u, else m; its mean has a closed form, and t is where the mean counts add up.
    """
    m = np.asarray(counts, np.float64).ravel()
    total = float(m.sum())
    if total <= 0 or not math.isfinite(sigma):
        return 0.0 if total <= 0 else 1.0
    if sigma <= 0:
        return 0.0
    t = _threshold(m, sigma)
    # The threshold of one draw also follows that draw's own mean over the cells that stay above zero.
    alive = float(_cdf((m - t) / sigma).sum())
    if alive <= 1:
        return 0.0
    sigma *= math.sqrt(1 - 1 / alive)
    t = _threshold(m, sigma)
    u = m - t
    below, at_zero, at_t = _cdf(-u / sigma), _density(u / sigma), float(_density(np.array(t / sigma)))
    above_t = float(_cdf(np.array(-t / sigma)))
    over = sigma * at_t - t * above_t
    under = t * (1 - above_t - below) - sigma * (at_zero - at_t)
    return min(1.0, float(np.sum(over + under + m * below)) / (2 * total))


def _threshold(m: NDArray[np.float64], sigma: float) -> float:
    """Where the mean of the cut counts adds up: Newton's steps from 0, which cannot overshoot a convex curve."""
    t, total = 0.0, float(m.sum())
    for _ in range(_STEPS):
        x = (m - t) / sigma
        share = _cdf(x)
        excess = float(np.sum((m - t) * share + sigma * _density(x))) - total
        step = excess / float(share.sum())
        t += step
        if abs(step) < 1e-6 * sigma:
            break
    return t


def _density(x: NDArray[np.float64]) -> NDArray[np.float64]:
    density: NDArray[np.float64] = np.exp(-0.5 * np.square(x)) / math.sqrt(2 * math.pi)
    return density


def _cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    share: NDArray[np.float64] = ndtr(x)
    return share


def by_column(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    """List the measured tables that hold each column."""
    index: dict[str, list[Measured]] = {}
    for table in measured:
        for name in table.clique:
            index.setdefault(name, []).append(table)
    return index


def combined_sigma(columns: Clique, index: Mapping[str, Sequence[Measured]]) -> float | None:
    """Noise of a cell over `columns` when every measured table that holds them is summed and weighed; None: no table.

    A table of k cells summed down to c cells has k/c times the variance a cell; tables are weighed by precision.
    """
    wanted = set(columns)
    precision = 0.0
    for table in index.get(columns[0], ()):
        if wanted <= set(table.clique):
            kept = math.prod(size for name, size in zip(table.clique, table.shape, strict=True) if name in wanted)
            precision += kept / (table.cells * table.sigma**2)
    return 1 / math.sqrt(precision) if precision > 0 else None
