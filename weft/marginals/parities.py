"""Parity sums: the Walsh-Hadamard transform of tables whose attributes have 2 or 4 codes.

A code is a string of bits: one for an attribute of two codes, two for an attribute of four. The parity sum of a set of
bits is the number of rows with an even number of ones among them, minus the number with an odd one. It is the
interaction of the attributes of these bits, and may be as large as the table where no smaller marginal shows anything.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.kernels import kernel
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array


@dataclass(frozen=True)
class ParityBlock:
    """Attributes that are counted together, and the sets of their bits whose parity sums are compared with a model."""

    clique: Clique
    sets: Array
    """Positions in `compute_parity_sums` of the sets to compare."""
    expected: Array
    """Parity sum of each of these sets in the model, rounded to an integer."""


def compute_parity_sums(table: Array) -> Array:
    """Return the parity sum of each set of bits: set s has the bits of a cell's C-order position that are ones in s.

    >>> compute_parity_sums(np.array([[3, 1], [0, 4]])).tolist()
    [8, -2, 0, 6]
    """
    sums = np.array(table, np.int64).ravel()
    _transform(sums)
    return sums


@kernel(cache=True, nogil=True)
def _transform(sums: Any) -> None:
    step = 1
    while step < sums.size:
        for start in range(0, sums.size, 2 * step):
            for i in range(start, start + step):
                a, b = sums[i], sums[i + step]
                sums[i], sums[i + step] = a + b, a - b
        step *= 2
