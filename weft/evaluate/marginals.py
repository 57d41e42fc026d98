"""How far the marginals of two tables are apart: k-way total variation, pairwise L1, NIST density."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from weft.evaluate.tables import Floats, Ints, comparable, fold
from weft.marginals.domain import Clique, Domain
from weft.marginals.records import Records


@dataclass(frozen=True)
class KWay:
    """Total variation distance, half the L1 distance of the normalised tables, of several k-way marginals."""

    k: int
    cliques: tuple[Clique, ...]
    """The marginals compared, columns in the table's order."""
    tvds: Floats
    """Distance of each, in [0, 1]."""

    @property
    def tvd(self) -> float:
        """Mean total variation distance."""
        return float(np.mean(self.tvds))

    @property
    def l1(self) -> float:
        """Mean L1 distance: twice the total variation, in [0, 2]."""
        return 2 * self.tvd


@dataclass(frozen=True)
class PairwiseL1:
    """L1 distance of every 2-way marginal (PrivSyn's first task), in [0, 2]."""

    names: tuple[str, ...]
    matrix: Floats
    """Symmetric; the diagonal holds the 1-way distances, which is what the marginal of (a, a) gives."""

    @property
    def mean(self) -> float:
        """Mean over all pairs of different columns (the column itself where there is only one)."""
        upper = self.matrix[np.triu_indices(len(self.names), min(1, len(self.names) - 1))]
        return float(np.mean(upper))


def k_way(
    real: Records,
    synth: Records,
    k: int,
    *,
    limit: int | None = 300,
    seed: int = 0,
    threads: int | None = None,
) -> KWay:
    """Compare all k-way marginals, or `limit` distinct ones drawn with the seed where there are more."""
    domain = comparable(real, synth)
    chosen = _choose(domain, k, limit, np.random.default_rng([seed, k]))
    return KWay(k, tuple(chosen), distances(real, synth, chosen, threads))


def pairwise_l1(real: Records, synth: Records, *, threads: int | None = None) -> PairwiseL1:
    """Compare all 2-way and 1-way marginals."""
    domain = comparable(real, synth)
    d = len(domain)
    rows, columns = np.triu_indices(d)
    cliques = [
        (domain.names[i],) if i == j else (domain.names[i], domain.names[j])
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    matrix = np.zeros((d, d))
    matrix[rows, columns] = matrix[columns, rows] = 2 * distances(real, synth, cliques, threads)
    return PairwiseL1(domain.names, matrix)


def nist_density(real: Records, synth: Records, *, limit: int | None = 300, seed: int = 0) -> float:
    """Return NIST's 2018 density score, 1 less the mean 3-way distance: 1 is perfect (not scaled to 1e6)."""
    return 1 - k_way(real, synth, 3, limit=limit, seed=seed).tvd


def distances(real: Records, synth: Records, cliques: Sequence[Clique], threads: int | None = None) -> Floats:
    """Total variation distance of each of these marginals, both tables normalised by their own row count."""
    return np.array(fold(real, synth, cliques, partial(_tvd, len(real), len(synth)), threads))


def _tvd(n: int, m: int, a: Ints, b: Ints) -> float:
    # Over the common denominator every term is an integer: one rounding, at the division, whatever the order.
    common = math.lcm(n, m)
    if common < 1 << 61:
        return int(np.abs(a * (common // n) - b * (common // m)).sum()) / (2 * common)
    return 0.5 * float(np.abs(a / n - b / m).sum())


def _choose(domain: Domain, k: int, limit: int | None, rng: np.random.Generator) -> list[Clique]:
    d = len(domain)
    if not 1 <= k <= d:
        raise ValueError(f"a {k}-way marginal needs k from 1 to the number of columns ({d})")
    picked: set[tuple[int, ...]] = set()
    if limit is None or math.comb(d, k) <= limit:
        picked.update(combinations(range(d), k))
    else:
        while len(picked) < limit:
            picked.add(tuple(sorted(rng.choice(d, k, replace=False).tolist())))
    return [tuple(domain.names[i] for i in columns) for columns in sorted(picked)]
