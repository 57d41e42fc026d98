"""Rows that share a prefix: the distinct rows over some attributes, and how many there are of each."""

from __future__ import annotations

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.records import Records

_LARGEST = 1 << 62


def groups(records: Records) -> tuple[Array, Array]:
    """Return the distinct rows in lexicographic order, one a line, and the number of each.

    >>> from weft.marginals.domain import Domain
    >>> [a.tolist() for a in groups(Records.of(Domain(("a", "b"), (2, 9)), [[1, 0, 1], [3, 8, 3]]))]
    [[[0, 8], [1, 3]], [1, 2]]
    """
    key = np.zeros(len(records), np.int64)
    radix = 1
    for column, size in zip(records.columns, records.domain.shape, strict=True):
        if radix * size > _LARGEST:  # number the rows seen so far anew, in order
            distinct, key = np.unique(key, return_inverse=True)
            radix = len(distinct)
        key = key * size + column
        radix *= size
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    rows = [column[first].astype(np.int64) for column in records.columns]
    return np.column_stack(rows) if rows else np.zeros((len(first), 0), np.int64), counts.astype(np.int64)
