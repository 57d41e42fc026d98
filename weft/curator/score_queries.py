"""Score queries on marginals: dependence, entropy and distance to a model; and private selection by scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal
from weft.marginals.parities import ParityBlock, compute_parity_sums
from weft.privacy import Charge
from weft.privacy.charge import Purpose

MAX_TABLE_SUM = 1 << 44
"""Bound on a given table's sum of absolute cells, and on penalties: sums stay far inside 64-bit integers."""


class ScoreQueries(QueryBase):
    """Score queries of the curator."""

    def dependence(
        self, share: float, *, score: str = "indif", pairs: Sequence[Clique] | None = None
    ) -> dict[Clique, float]:
        """Return the noisy dependence score of each pair of attributes, in counts; default: every pair.

        InDif (PrivSyn section 4.1) is sum |n_ij - n_i n_j / n|; the R-score (PrivMRF) is half of it. Both are computed
        in integers, as floor(sum |n n_ij - n_i n_j| / n) and floor(sum |...| / 2n), and are 0 for an empty table.

        Privacy: one row more or less changes InDif by less than 4 and R by less than 2; the floors change by at most 4
        and 2 (`indif`, `r_score`). A vector of m scores has L2 sensitivity sqrt(m) times that, L1 sensitivity m times
        that, and is released once by the Gaussian (geometric) mechanism.

        The paper's text scales the noise wrongly in one place (N(0, m^2 rho^2)); its Theorem 5 is right and used here.
        """
        if score not in ("indif", "r"):
            raise ValueError(f"score must be 'indif' or 'r', not {score!r}")
        pairs = list(itertools.combinations(sorted(self.domain), 2)) if pairs is None else list(pairs)
        if not pairs:
            return {}
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("dependence is defined for pairs of attributes only")
        halves = 1 if score == "indif" else 2
        each = self._adjacency.indif() if score == "indif" else self._adjacency.r_score()
        released = self._scores(
            "dependence",
            f"dependence ({'InDif' if halves == 1 else 'R-score'}) of {format_count(len(pairs), 'attribute pair')}",
            pairs,
            each,
            share,
            lambda table, _: dependence_of(table, halves),
        )
        return dict(zip(pairs, released.tolist(), strict=True))

    def gaps(self, tables: Sequence[Marginal], share: float) -> Array:
        """Return the noisy L1 distance, in counts, between each given table and the rows' marginal of its clique.

        Privacy: the given tables depend on released answers and public rows only and are rounded to integers, so they
        are constants; cliques may repeat. One row more or less changes one cell of the marginal by one and the distance
        by at most one; a replaced row by at most two (`gap`). Of m distances, it is sqrt(m) times that in L2 norm.
        """
        if not tables:
            return np.zeros(0)
        fixed = validate_constant_tables(self.domain, tables)
        return self._scores(
            "scores",
            f"L1 distance between model and data on {format_count(len({t.clique for t in tables}), 'marginal')}",
            [table.clique for table in tables],
            self._adjacency.gap(),
            share,
            lambda counted, i: int(np.abs(counted - fixed[i]).sum()),
        )

    def gap_sigma(self, m: int, share: float) -> float:
        """Return the noise standard deviation of each of m distances that `gaps` releases for this share."""
        parts = self._count_parts(m)
        return self._noise(share / parts, self._joint(self._adjacency.gap(), m // parts))[1]

    def _joint(self, each: float, m: int) -> float:
        return self.accounting.counts.join_sensitivity(each, m)

    def _count_parts(self, m: int) -> int:
        """Return how many releases a vector of m numbers is: one, or m where the accounting prices each number."""
        return m if self.accounting.releases_singly else 1

    def _scores(
        self, purpose: Purpose, question: str, cliques: Sequence[Clique], each: float, share: float, score: _Score
    ) -> Array:
        """Release one integer score per clique, each of sensitivity `each`, as one vector, or each on its own.

        Privacy: as one vector, the noise has the sensitivity of all scores together; on its own, a score is released
        with its own sensitivity and a part of the share, and the costs of the m releases add up.
        """
        self._check(cliques)
        m, parts = len(cliques), self._count_parts(len(cliques))
        joint = self._joint(each, m // parts)
        scale, _ = self._noise(share / parts, joint)
        charge = self._charge(purpose, question, joint, [scale] * parts, draws=m)
        exact: list[int] = []
        for batch in self._passes(cliques):
            exact += [score(table, len(exact) + i) for i, table in enumerate(self._engine.count(batch))]
        released = self._release(charge, np.split(np.array(exact, np.int64), parts))
        return np.concatenate(released).astype(np.float64)


class _Score(Protocol):
    def __call__(self, table: Array, position: int, /) -> int: ...


def validate_constant_tables(domain: Domain, tables: Sequence[Marginal]) -> list[Array]:
    """Validate given tables before any charge and return them rounded to integers.

    A table of another shape would be broadcast against the counts, so that a row would change the distance more than
    once; a cell that is not a number, or too large, would overflow. Neither may depend on the rows.
    """
    for given in tables:
        if given.table.shape != domain.sizes(given.clique):
            raise ValueError(f"the table over {given.clique} does not have its attributes' shape")
        if not np.abs(given.table).sum() < MAX_TABLE_SUM:
            raise ValueError(f"the table over {given.clique} has cells that are not numbers, or too large")
    return [np.rint(given.table).astype(np.int64) for given in tables]


def dependence_of(table: Array, halves: int) -> int:
    """Return floor(sum |n n_ij - n_i n_j| / (halves n)), exactly; 0 for no rows."""
    n = int(table.sum())
    if n == 0:
        return 0
    if n >= 1 << 30:  # the sum may reach 2 n^2, beyond 64-bit integers
        table = table.astype(object)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    distance = int(np.abs(n * table - np.multiply.outer(rows, columns)).sum())
    return distance // (halves * n)


class ChoiceQueries(QueryBase):
    """Private selection by the exponential mechanism."""

    def find_parity(self, blocks: Sequence[ParityBlock], question: str, share: float) -> tuple[int, int, float]:
        """Select the parity sum farthest from the model's; return its position, itself and the deviation of its noise.

        The score of a set of bits is |parity sum - expected one|. Two thirds of the share pay for the selection, the
        rest for the released sum of the selected set. Positions run through the sets of all blocks.

        Privacy: a parity sum adds 1 or -1 for each row (`compute_parity_sums`), so one row more or less changes every
        sum by one, and a replaced row by at most two (`parity`). Sets and expected sums depend on released answers and
        independent randomness only, so a score changes by as much at most, up or down. The selection is epsilon-DP of
        bounded range, with coefficient epsilon / (2 sensitivity), and the sum is one count of that sensitivity. Both
        are charged before the rows are counted, in one pass.
        """
        cliques = [block.clique for block in blocks]
        self._check(cliques)
        sensitivity = self._adjacency.parity()
        if any(not np.abs(block.expected).max(initial=0) < MAX_TABLE_SUM for block in blocks):
            raise ValueError("expected parity sums must be whole numbers, and not too large")
        sigma, deviation = self._noise(share / 3, sensitivity)
        choice = self._exponential(question, sensitivity, share * 2 / 3)
        value = self._charge("scores", "parity sum of the selected set", sensitivity, [sigma], draws=1)
        sums = [
            compute_parity_sums(table)[block.sets] for block, table in zip(blocks, self._count(cliques), strict=True)
        ]
        scores = [np.abs(own - block.expected) for own, block in zip(sums, blocks, strict=True)]
        chosen = int(np.ravel(self._release(choice, [np.concatenate(scores)])[0])[0])
        (released,) = self._release(value, [np.concatenate(sums)[chosen]])
        return chosen, int(released), deviation

    def _exponential(self, question: str, sensitivity: int, share: float, draws: int = 1) -> Charge:
        """Charge selections by the exponential mechanism, priced by its bounded range."""
        epsilon = self.accounting.find_choice_epsilon(share * self._capacity / draws)
        charge = Charge.exponential(question, sensitivity=sensitivity, epsilon=epsilon, draws=draws)
        return self._enter(replace(charge, purpose="choice"))
