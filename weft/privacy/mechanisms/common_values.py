"""Common values of a column: Gaussian noise and a threshold (`weft.privacy.partitions`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.errors import BudgetError
from weft.marginals.marginal import Array
from weft.privacy.mechanisms.gaussian import Gaussian
from weft.privacy.mechanisms.mechanism import GaussianPriced
from weft.privacy.noise import Noise
from weft.privacy.partitions import ARRAYS, release_chance

if TYPE_CHECKING:
    from weft.privacy.charge import Charge
    from weft.privacy.sensitivity import Adjacency

_ROUNDING = 1e-10
"""Relative error of a sensitivity that was saved to a file."""


class CommonValues(GaussianPriced):
    """Counts of a column's values with Gaussian noise, released at or above a threshold."""

    name = "partitions"
    norm = "values"
    audited_by = "values: what is released is a list; its law is tested in tests/privacy and tests/discovery"

    def check(self, charge: Charge) -> None:
        """Refuse a threshold that releases values of one unit with a probability above the slack."""
        threshold, rows = (charge.terms.get(name, 0) for name in ("threshold", "rows"))
        if not (rows >= 1 and threshold == int(threshold) and rows == int(rows)):
            raise BudgetError(f"{charge.question!r} needs whole numbers as threshold and as rows per unit")
        if math.fsum(release_chance(int(threshold), s, int(rows)) for s in charge.scales) > charge.slack:
            raise BudgetError(f"the slack of {charge.question!r} does not cover its threshold")

    def check_unit(self, charge: Charge, adjacency: Adjacency) -> None:
        """Refuse a threshold and noise that do not protect the ledger's privacy unit.

        The ledger's bound counts the rows of a unit in all tables; the term `bound` is that of the one that was listed.
        """
        if "bound" in charge.terms:
            adjacency = adjacency.weigh(min(int(charge.terms["bound"]), adjacency.rows_per_unit))
        least = adjacency.marginal_l2() * (1 - _ROUNDING)
        if charge.terms["rows"] < adjacency.rows_per_unit or min(charge.sensitivities) < least:
            raise BudgetError(f"{charge.question!r} does not protect units of {adjacency.rows_per_unit} rows")

    def release(self, charge: Charge, exact: Sequence[Array], noise: Noise) -> list[Array]:
        """Return the values of each column whose noisy counts reach the threshold."""
        threshold = int(charge.terms["threshold"])
        columns = [exact[i : i + ARRAYS] for i in range(0, len(exact), ARRAYS)]
        kept = [
            _select_common_values(each, s, threshold, noise) for each, s in zip(columns, charge.scales, strict=True)
        ]
        return [array for column in kept for array in column]


def _select_common_values(arrays: Sequence[Array], sigma: float, threshold: int, noise: Noise) -> list[Array]:
    counts, lengths, octets = arrays
    noisy = counts + Gaussian().draw(sigma, counts.shape, noise)
    kept = noisy >= threshold
    return [noisy[kept], lengths[kept], octets[kept.repeat(lengths)]]
