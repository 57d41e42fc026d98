"""Questions for scores of marginals: how far from independence, how uncertain, how far from a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from weft.curator.door import Door
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.recode import summed_codes
from weft.privacy.charge import Purpose
from weft.privacy.selection import grid
from weft.words import counted

LARGEST_TABLE = 1 << 44
"""Sum of absolute cells, or penalty, past which a given table is refused: sums of such numbers stay far inside 64-bit
integers."""

ENTROPY_STEPS = 1000
"""Steps in which the sensitivity of an entropy is cut, for the integer grid on which entropies are released."""


class ScoreQuestions(Door):
    """The curator's questions for scores."""

    def dependence(
        self, share: float, *, score: str = "indif", pairs: Sequence[Clique] | None = None
    ) -> dict[Clique, float]:
        """Release how far each pair of attributes is from independence, in counts; default: every pair.

        InDif (PrivSyn section 4.1) is sum |n_ij - n_i n_j / n|; the R-score (PrivMRF) is half of it. Both are
        computed in integers, as floor(sum |n n_ij - n_i n_j| / n) and floor(sum |...| / 2n), and are 0 for an empty
        table.

        Theorem. A row more or less moves InDif by less than 4 and R by less than 2; the floors move by at most 4
        and 2 (`indif`, `r_score`). A vector of m scores has L2 sensitivity sqrt(m) times that, L1 sensitivity m
        times that, and is released once by the Gaussian (geometric) mechanism.

        The paper's text scales the noise wrongly in one place (N(0, m^2 rho^2)); its Theorem 5 is right and used.
        """
        if score not in ("indif", "r"):
            raise ValueError(f"score must be 'indif' or 'r', not {score!r}")
        pairs = list(itertools.combinations(sorted(self.domain), 2)) if pairs is None else list(pairs)
        if not pairs:
            return {}
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("dependence is proved for pairs of attributes only")
        halves = 1 if score == "indif" else 2
        each = self._adjacency.indif() if score == "indif" else self._adjacency.r_score()
        released = self._scores(
            "dependence",
            f"dependence ({'InDif' if halves == 1 else 'R-score'}) of "
            f"{counted(len(pairs), 'pair of columns', 'pairs of columns')}",
            pairs,
            each,
            share,
            lambda table, _: dependence_of(table, halves),
        )
        return dict(zip(pairs, released.tolist(), strict=True))

    def entropies(
        self, cliques: Sequence[Clique], share: float, rows: int, buckets: Sequence[Mapping[str, Array]] | None = None
    ) -> Array:
        """Release the entropy of each marginal, in bits, times min(1, n / rows): itself, if there are `rows` rows.

        `buckets[i][name]` is the bucket of each code of an attribute of clique i that is to be seen in buckets. They
        and `rows` must be public or come from released answers.

        Theorem. Buckets act on values, so a row is still in one cell. A unit moves each answer by at most s =
        `entropy(rows)` for every table, large or small: below `rows` rows the entropy is scaled down so that this
        holds. Answers are floored to multiples of a thousandth of s (plus 1e-11, far above the error of the sums), so
        each moves by at most 1000 steps, and m of them form one vector of L2 sensitivity 1000 sqrt(m).
        """
        each = self._adjacency.entropy(rows) + 1e-11
        for c, seen in zip(cliques, buckets or [], strict=bool(buckets)):
            if any(len(codes) != self.domain.size(name) or name not in c for name, codes in seen.items()):
                raise ValueError("every code of a bucketed attribute needs its bucket")

        def score(table: Array, i: int) -> int:
            for name, codes in (buckets[i] if buckets else {}).items():
                table = summed_codes(table, codes, int(codes.max()) + 1, cliques[i].index(name))
            n = int(table.sum())
            return int(grid([_entropy(table, n) * min(1.0, n / rows)], each, ENTROPY_STEPS)[0])

        released = self._scores(
            "scores", f"entropies of {counted(len(cliques), 'set')} of columns", cliques, ENTROPY_STEPS, share, score
        )
        return np.asarray(released * (each / ENTROPY_STEPS))

    def gaps(self, tables: Sequence[Marginal], share: float) -> Array:
        """Release the L1 distance, in counts, between each given table and the rows' own marginal of that clique.

        Theorem. The given tables were made from released answers and public rows only and are rounded to integers, so
        they are constants here; a clique may come twice. A row more or less moves one cell of the marginal by one and
        the distance by at most one; a replaced row by at most two (`gap`). A vector of m distances has L2 sensitivity
        sqrt(m) times that.
        """
        if not tables:
            return np.zeros(0)
        fixed = constants(self.domain, tables)
        return self._scores(
            "scores",
            f"how far the model is from the rows on {counted(len({t.clique for t in tables}), 'set')} of columns",
            [table.clique for table in tables],
            self._adjacency.gap(),
            share,
            lambda counted, i: int(np.abs(counted - fixed[i]).sum()),
        )

    def gap_sigma(self, m: int, share: float) -> float:
        """Return the noise standard deviation of each of m distances that `gaps` releases for this share."""
        return self._noise(share, self._joint(self._adjacency.gap(), m))[1]

    def _joint(self, each: float, m: int) -> float:
        """Return the sensitivity of a vector of m scores."""
        return each * (m if self.accounting == "pure" else math.sqrt(m))

    def _scores(
        self, purpose: Purpose, question: str, cliques: Sequence[Clique], each: float, share: float, score: _Score
    ) -> Array:
        """Release one integer score a clique, each of sensitivity `each`, as one vector."""
        self._check(cliques)
        m = len(cliques)
        joint = self._joint(each, m)
        scale, _ = self._noise(share, joint)
        charge = self._charge(purpose, question, joint, [scale], draws=m)
        exact: list[int] = []
        for batch in self._passes(cliques):
            exact += [score(table, len(exact) + i) for i, table in enumerate(self._engine.count(batch))]
        (released,) = self._release(charge, [np.array(exact, np.int64)])
        return released.astype(np.float64)


class _Score(Protocol):
    def __call__(self, table: Array, position: int, /) -> int: ...


def constants(domain: Domain, tables: Sequence[Marginal]) -> list[Array]:
    """Return given tables as whole numbers, refused before any charge unless each is of its clique's shape.

    A table of another shape would be broadcast against the counts, so that a row moves the distance more than
    once; a cell that is no number, or too large, would wrap around. Neither may be decided by the rows.
    """
    for given in tables:
        if given.table.shape != domain.sizes(given.clique):
            raise ValueError(f"the table over {given.clique} does not have its attributes' shape")
        if not np.abs(given.table).sum() < LARGEST_TABLE:
            raise ValueError(f"the table over {given.clique} has cells that are no numbers, or too large")
    return [np.rint(given.table).astype(np.int64) for given in tables]


def dependence_of(table: Array, halves: int) -> int:
    """Return floor(sum |n n_ij - n_i n_j| / (halves n)), exactly; 0 for no rows."""
    n = int(table.sum())
    if n == 0:
        return 0
    if n >= 1 << 30:  # the sum may reach 2 n^2: past 64-bit integers
        table = table.astype(object)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    distance = int(np.abs(n * table - np.multiply.outer(rows, columns)).sum())
    return distance // (halves * n)


def _entropy(table: Array, n: int) -> float:
    """Return the entropy in bits; 0 for no rows."""
    share = table[table > 0] / max(n, 1)
    return float(-(share * np.log2(share)).sum()) if share.size else 0.0
