"""A record that matches many weighted cells of marginals: a search on public numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Marginal

SWEEPS = 20
"""Most rounds over all columns; a search ends before, where no column can be changed for the better."""


def best_record(domain: Domain, weights: Sequence[Marginal], starts: int, rng: np.random.Generator) -> Array:
    """Return codes of a record whose cells weigh much in these tables: the best of several greedy searches.

    Each begins anywhere and gives one column after another the code that is best beside the others, until nothing
    changes: a local optimum. To find the very best is NP-hard, and DualQuery's authors leave it to a solver of integer
    programs. All searches go on at once.

    >>> table = Marginal(("a", "b"), np.array([[0, 1], [3, 0]]))
    >>> best_record(Domain(("a", "b"), (2, 2)), [table], 4, np.random.default_rng(0)).tolist()
    [1, 0]
    """
    codes = np.stack([rng.integers(0, size, starts) for size in domain.shape], axis=1)
    around = {name: [table for table in weights if name in table.clique] for name in domain}
    for _ in range(SWEEPS):
        before = codes.copy()
        for i, name in enumerate(domain):
            gains = np.zeros((starts, domain.size(name)))
            for table in around[name]:
                turned = np.moveaxis(table.table, table.clique.index(name), -1)
                gains += turned[tuple(codes[:, domain.index(other)] for other in table.clique if other != name)]
            best = gains.argmax(axis=1)
            at = np.arange(starts)
            better = gains[at, best] > gains[at, codes[:, i]]  # a tie changes nothing, so that the search ends
            codes[:, i] = np.where(better, best, codes[:, i])
        if np.array_equal(codes, before):
            break
    worth = sum(t.table[tuple(codes[:, domain.index(name)] for name in t.clique)] for t in weights)
    return np.asarray(codes[int(np.argmax(worth))])
