"""How a share of the budget is divided among tables of different sizes."""

from __future__ import annotations

from collections.abc import Sequence

from weft.privacy import Accounting
from weft.select import allocate


def by_size(cells: Sequence[int], accounting: Accounting) -> list[float]:
    """Return the parts that make the summed error of tables with so many cells least.

    A table of c cells that is measured with a part p has an error that goes with c / sqrt(p) where noise is Gaussian,
    and with c / p where it is geometric: the sum is least where p goes with c^(2/3), and with c^(1/2).

    >>> [round(part, 2) for part in by_size([1, 64], "gaussian")], [round(part, 2) for part in by_size([1, 64], "pure")]
    ([0.06, 0.94], [0.11, 0.89])
    """
    return [float(part) for part in allocate(cells, 1.0, 1 / 2 if accounting == "pure" else 2 / 3)]
