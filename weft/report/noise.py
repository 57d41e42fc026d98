"""What noise alone explains: the distance that the privacy noise is expected to put between two tables.

It follows from sigma and from counts that the reader may see; no answer is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from weft.marginals.domain import Clique
from weft.marginals.marginal import Array, Measured
from weft.marginals.noise_error import profile, projected_error
from weft.marginals.pooling import pooled_sigma


def expected_tvd(counts: Array, sigma: float) -> float:
    """Expected total variation between a table and its noisy self, projected to non-negative counts of the same sum."""
    total = float(np.sum(counts))
    if total <= 0 or not math.isfinite(sigma):
        return 0.0 if total <= 0 else 1.0
    if sigma <= 0:
        return 0.0
    error = projected_error(profile([np.asarray(counts, np.float64)], np.size(counts)), np.array([sigma]), whole=True)
    return min(1.0, float(error[0, 0]) / (2 * total))


def by_column(measured: Iterable[Measured]) -> dict[str, list[Measured]]:
    """List the measured tables that hold each column."""
    index: dict[str, list[Measured]] = {}
    for table in measured:
        for name in table.clique:
            index.setdefault(name, []).append(table)
    return index


def combined_sigma(columns: Clique, index: Mapping[str, Sequence[Measured]]) -> float | None:
    """Noise of a cell over `columns` by all measured tables that hold them; None: no table does."""
    sigma = pooled_sigma(columns, index.get(columns[0], ()))
    return sigma if math.isfinite(sigma) else None
