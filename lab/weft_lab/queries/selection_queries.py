"""Private selection by the exponential mechanism, as PrivBayes, AIM, MST, MWEM and DualQuery ask for it."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from weft.curator.score_queries import MAX_TABLE_SUM, ChoiceQueries, dependence_of, validate_constant_tables
from weft.display import format_count
from weft.marginals.domain import Clique, make_clique
from weft.marginals.marginal import Array, Marginal

MAX_SCORE_WEIGHT = 1 << 16
"""Largest weight of a candidate: a weighted distance stays inside 64-bit integers."""


class SelectionQueries(ChoiceQueries):
    """Selections, over the rows of a curator (`QueryBase.of`)."""

    def choose_family(self, families: Sequence[tuple[str, Clique]], share: float) -> int:
        """Select the (attribute, parents) family with the largest dependence; return its position.

        The score is the R-score of PrivBayes in counts, floor(sum |n n_ij - n_i n_j| / 2n), where i are the attribute's
        codes and j the joint configurations of the parents; 0 for no rows.

        Privacy: a set of parents is one attribute whose codes are its configurations, so one row changes the score by
        at most 2 (`r_score`), up or down: the coefficient is epsilon / (2 sensitivity). Candidate families must come
        from released answers or independent randomness. The selection is epsilon-DP and epsilon^2/8-zCDP.
        """
        cliques = [make_clique([child, *parents]) for child, parents in families]
        self._check(cliques)
        charge = self._exponential(
            f"selection among {format_count(len(families), 'attribute-parent pair')}", self._adjacency.r_score(), share
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                child = cliques[len(exact)].index(families[len(exact)][0])
                exact.append(dependence_of(np.moveaxis(table, child, 0).reshape(table.shape[child], -1), 2))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def choose_gap(
        self,
        tables: Sequence[Marginal],
        share: float,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
    ) -> int:
        """Select the given table farthest from the rows' own marginal; return its position.

        The score is weight * (L1 distance in counts - penalty), with penalties rounded to integers, as in AIM and MST.
        Without weights and penalties it is the distance.

        Privacy: tables, weights and penalties depend on released answers only, and the tables are rounded to integers,
        so all are constants here. One row more or less changes a distance by at most one, a replaced row by at most two
        (`gap`), and a score by at most the largest weight times that, up or down: the coefficient is epsilon / (2
        sensitivity). The selection is epsilon-DP and epsilon^2/8-zCDP.
        """
        fixed = validate_constant_tables(self.domain, tables)
        heavy = [1] * len(tables) if weights is None else [operator.index(weight) for weight in weights]
        less = [0.0] * len(tables) if penalties is None else [float(penalty) for penalty in penalties]
        if not len(heavy) == len(less) == len(tables):
            raise ValueError("every table needs one weight and one penalty")
        if any(not 1 <= w <= MAX_SCORE_WEIGHT for w in heavy) or any(not abs(p) < MAX_TABLE_SUM for p in less):
            raise ValueError("weights must be positive whole numbers, penalties numbers, and neither too large")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        charge = self._exponential(
            f"selection among {format_count(len(tables), 'candidate marginal')}",
            max(heavy) * self._adjacency.gap(),
            share,
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                i = len(exact)
                exact.append(heavy[i] * (int(np.abs(table - fixed[i]).sum()) - round(less[i])))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def draw_cells(self, tables: Sequence[Marginal], times: int, draws: int, share: float) -> Array:
        """Draw cells of marginals, or their negations, where the data exceed (or fall below) the given tables.

        A draw is the exponential mechanism over all cells q of all tables and their negations, with the scores times *
        count(q) minus given(q) and its negative: DualQuery's distribution over queries after `times` rounds. The result
        holds positions in the concatenated cells of all tables; positions beyond the last cell are negations.

        Privacy: the tables depend on released answers only and are rounded to integers, so they are constants here;
        `times` is public. One row more or less changes a cell by at most one, a replaced row too, and a score by at
        most `times` that (`cell`), up or down: the coefficient of a draw is epsilon / (2 sensitivity). Each draw is
        epsilon-DP and epsilon^2/8-zCDP, and independent given the scores: their epsilons, or rhos, add up to the share.
        """
        fixed = validate_constant_tables(self.domain, tables)
        if not (1 <= operator.index(times) <= MAX_SCORE_WEIGHT and operator.index(draws) >= 1 and tables):
            raise ValueError("drawing cells needs at least one table, one draw and a weight of at least one")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        question = f"{format_count(draws, 'draw')} from the cells of {format_count(len(tables), 'marginal')}"
        charge = self._exponential(question, times * self._adjacency.cell(), share, draws)
        exact = [(times * table - given).ravel() for table, given in zip(self._count(cliques), fixed, strict=True)]
        ends = np.concatenate(exact).astype(np.int64)
        (drawn,) = self._release(charge, [np.concatenate([ends, -ends])])
        return np.asarray(drawn).reshape(-1)
