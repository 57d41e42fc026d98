"""Whether what is rare in the real table still occurs in the synthetic one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from weft.evaluate.tables import Ints, comparable, fold
from weft.marginals.domain import Clique
from weft.marginals.records import Records


@dataclass(frozen=True)
class Coverage:
    """Rare values, or pairs of values, of some columns: how many there are, how many of them appear."""

    cliques: tuple[Clique, ...]
    rare: Ints
    """Number of rare cells of each clique in the real table."""
    found: Ints
    """How many of those occur in the synthetic table."""
    invented: Ints
    """Number of cells that occur in the synthetic table only."""

    @property
    def share(self) -> float:
        """Share of the rare cells that appear; 1 where nothing is rare."""
        rare = int(self.rare.sum())
        return int(self.found.sum()) / rare if rare else 1.0


def coverage(
    real: Records,
    synth: Records,
    *,
    ways: int = 1,
    rare: float = 0.01,
    cliques: Sequence[Clique] | None = None,
    threads: int | None = None,
) -> Coverage:
    """Find the values (ways=1) or pairs of values (ways=2) that at most a share `rare` of the real rows has.

    All cliques of `ways` columns are looked at, unless some are given.
    """
    domain = comparable(real, synth)
    if not 0 < rare <= 1:
        raise ValueError("`rare` is a share of the rows: above 0, at most 1")
    chosen = tuple(combinations(domain.names, ways)) if cliques is None else tuple(cliques)
    figures = fold(real, synth, chosen, partial(_cells, rare * len(real)), threads)
    table: Ints = np.array(figures, np.int64).reshape(len(chosen), 3)
    return Coverage(chosen, table[:, 0], table[:, 1], table[:, 2])


def _cells(most: float, a: Ints, b: Ints) -> tuple[int, int, int]:
    rare = (a > 0) & (a <= most)
    return (
        int(np.count_nonzero(rare)),
        int(np.count_nonzero(rare & (b > 0))),
        int(np.count_nonzero((a == 0) & (b > 0))),
    )
