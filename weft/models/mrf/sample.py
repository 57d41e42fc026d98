"""Records from a calibrated tree, with no more randomness than rounding needs.

Cliques are visited parents first. A clique's new attributes are drawn jointly, given those it shares with its parent:
the n_s records that have separator value s are divided over the cells r in proportion to the belief, so that each
cell gets the floor or the ceiling of n_s p(r | s), with the right mean (`apportion_groups`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.marginals.marginal import Array
from weft.marginals.records import Records, code_dtype
from weft.models.apportion import apportion_groups
from weft.models.mrf.inference import Beliefs
from weft.progress import Listener, silence, stage


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
            drawn = apportion_groups(np.ascontiguousarray(table).reshape(groups, cells), code, rng)
            for name in reversed(new):
                drawn, column = np.divmod(drawn, domain.size(name))
                columns[name] = column.astype(code_dtype(domain.size(name)))
            work.advance()
    return Records.of(domain, [columns[name] for name in domain.names])


@dataclass(frozen=True)
class Calibrated:
    """Draws from a calibrated tree, and does nothing to the records afterwards."""

    beliefs: Beliefs

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = silence) -> Records:
        """Make n records."""
        return sample(self.beliefs, n, rng, listener)
