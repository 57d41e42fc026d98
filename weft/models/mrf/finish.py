"""Records of a Markov random field, adjusted to tables that its tree cannot hold.

A junction tree has room for some of the strong pairs; the others follow from conditional independence, right or wrong.
Records drawn from the tree are a far better start for GUM than independent columns, and a few guided sweeps
(`weft.models.gum`) bring the other tables in: a value is changed only if that helps over all tables, those of the tree
among them. docs/decisions/009 tells when this pays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.marginals.marginal import Marginal
from weft.marginals.records import Records, code_dtype
from weft.models.gum.kernel import sweep
from weft.models.gum.plan import Layout
from weft.progress import Listener, silence, stage

SWEEPS = 12
"""Most sweeps over the records."""

_STILL = 0.003
"""Part of the values below which a sweep is the last."""


def finish(
    records: Records, tables: Sequence[Marginal], rng: np.random.Generator, listener: Listener = silence
) -> Records:
    """Return the records with values changed so that they agree better with all of these tables, in random order.

    The tables must be non-negative and agree with each other; attributes in none of them stay as they are.
    """
    names = records.domain.names
    kept = tuple(m for m in tables if len(m.clique) > 1)
    if not kept or not len(records):
        return records
    rows = np.empty((len(records), len(names)), code_dtype(max(records.domain.shape)))
    for j, column in enumerate(records.columns):
        rows[:, j] = column
    layout = Layout.of(names, kept)
    target = layout.targets(len(rows), rng)
    # As in guided GUM: between squared error, which neglects small cells, and chi-square, which is slow on large ones.
    state = np.stack([layout.gaps(rows, target), (1.0 + target) ** -0.5], axis=1).astype(np.float32)
    seed = rng.integers(1 << 63, size=1, dtype=np.uint64)
    with stage(listener, "adjust records", SWEEPS) as work:
        for t in range(SWEEPS):
            taken = sweep(rows, layout.views, state, seed)
            still = taken < _STILL * rows.size
            error = float(layout.distances(state[:, 0]).mean()) / (2 * len(rows))
            work.advance(SWEEPS - t if still else 1, f"mean total variation {error:.4f}")
            if still:
                break
    rows = rows[rng.permutation(len(rows))]  # early rows take more of the changes
    return Records.of(records.domain, [np.ascontiguousarray(rows[:, j]) for j in range(len(names))])
