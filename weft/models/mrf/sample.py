"""Records from a calibrated tree, with no more randomness than rounding needs.

Cliques are visited parents first. A clique's new attributes are drawn jointly, given those it shares with its parent:
the n_s records that have separator value s are divided over the cells r in proportion to the belief, so that each
cell gets the floor or the ceiling of n_s p(r | s), with the right mean. One uniform number u a group does it: cell r
gets floor(F_r + u) - floor(F_{r-1} + u), where F is the running sum of expectations (systematic sampling). Who of the
group gets which cell is decided by a fresh random order, so that nothing but s ties new attributes to old ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from weft.marginal import Array
from weft.models.mrf.inference import Beliefs
from weft.progress import Listener, silence, stage
from weft.records import Records, code_dtype


def sample(beliefs: Beliefs, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
    """Make n records whose counts over each clique follow the beliefs up to rounding."""
    tree, domain = beliefs.tree, beliefs.tree.domain
    columns: dict[str, Array] = {}
    with stage(listener, "sample", total=len(tree.cliques)) as work:
        for axes, separator, table in zip(tree.axes, tree.separators, beliefs.tables, strict=True):
            old, new = axes[: len(separator)], axes[len(separator) :]
            groups, cells = domain.cells(old), domain.cells(new)
            code = np.zeros(n, dtype=np.int64)
            for name in old:
                code *= domain.size(name)
                code += columns[name]
            offsets = rng.random(groups)
            drawn = np.empty(n, dtype=np.int64)
            _divide(np.ascontiguousarray(table).reshape(groups, cells), code, rng.permutation(n), offsets, drawn)
            for name in reversed(new):
                drawn, column = np.divmod(drawn, domain.size(name))
                columns[name] = column.astype(code_dtype(domain.size(name)))
            work.advance()
    return Records.of(domain, [columns[name] for name in domain.names])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _divide(table: Array, code: Array, shuffled: Array, offsets: Array, drawn: Array) -> Any:
    groups, cells = table.shape
    start = np.zeros(groups + 1, np.int64)
    for s in code:
        start[s + 1] += 1
    for s in range(groups):
        start[s + 1] += start[s]
    member = np.empty(len(code), np.int64)
    filled = start[:-1].copy()
    for record in shuffled:
        s = code[record]
        member[filled[s]] = record
        filled[s] += 1
    for s in range(groups):
        count = start[s + 1] - start[s]
        if count == 0:
            continue
        row = table[s]
        total = 0.0
        last = 0
        for r in range(cells):
            total += row[r]
            if row[r] > 0.0:
                last = r
        running, given = 0.0, 0
        for r in range(last + 1):
            running += row[r]
            # Rounding in the running sum may not lose or add a record: the last possible cell takes what is left.
            upto = count if r == last else min(count, math.floor(running / total * count + offsets[s]))
            for k in range(given, upto):
                drawn[member[start[s] + k]] = r
            given = max(given, upto)
