"""Questions that are answered by a choice: the exponential mechanism."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.curator.door import Door
from weft.curator.scores import LARGEST_TABLE, constants, dependence_of
from weft.marginals.domain import Clique, clique
from weft.marginals.marginal import Array, Marginal
from weft.privacy import Charge
from weft.words import counted

LARGEST_WEIGHT = 1 << 16
"""Weight past which a candidate is refused: a weighted distance stays inside 64-bit integers."""


class ChoiceQuestions(Door):
    """The curator's questions that are answered by a choice."""

    def choose_family(self, families: Sequence[tuple[str, Clique]], share: float) -> int:
        """Choose the (attribute, parents) farthest from independence by the exponential mechanism; its position.

        The score is the R-score of PrivBayes in counts, floor(sum |n n_ij - n_i n_j| / 2n) with i the attribute's
        codes and j the parents' configurations taken together; 0 for no rows.

        Theorem. A set of parents is one attribute whose codes are its configurations, so a row more or less moves
        the score by at most 2 (`r_score`), up or down: the coefficient is epsilon / (2 sensitivity). The families
        offered must come from released answers or chance alone. The choice is epsilon-DP and epsilon^2/8-zCDP.
        """
        cliques = [clique([child, *parents]) for child, parents in families]
        self._check(cliques)
        charge = self._exponential(
            f"choice among {counted(len(families), 'family', 'families')}", self._adjacency.r_score(), share
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
        """Choose the given table farthest from the rows' own marginal by the exponential mechanism; its position.

        The score is weight * (L1 distance in counts - penalty), with penalties rounded to whole numbers: what AIM and
        MST choose by. Without weights and penalties it is the distance.

        Theorem. Tables, weights and penalties were made from released answers only, and the tables are rounded to
        integers, so all are constants here. A row more or less moves a distance by at most one, a replaced row by at
        most two (`gap`), and a score by at most the largest weight times that, up or down: the coefficient is epsilon /
        (2 sensitivity). The choice is epsilon-DP and epsilon^2/8-zCDP.
        """
        fixed = constants(self.domain, tables)
        heavy = [1] * len(tables) if weights is None else [operator.index(weight) for weight in weights]
        less = [0.0] * len(tables) if penalties is None else [float(penalty) for penalty in penalties]
        if not len(heavy) == len(less) == len(tables):
            raise ValueError("every table needs its weight and its penalty")
        if any(not 1 <= w <= LARGEST_WEIGHT for w in heavy) or any(not abs(p) < LARGEST_TABLE for p in less):
            raise ValueError("weights are whole numbers above 0, penalties numbers, and neither may be too large")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        charge = self._exponential(
            f"choice among {counted(len(tables), 'set')} of columns", max(heavy) * self._adjacency.gap(), share
        )
        exact: list[int] = []
        for batch in self._passes(cliques):
            for table in self._engine.count(batch):
                i = len(exact)
                exact.append(heavy[i] * (int(np.abs(table - fixed[i]).sum()) - round(less[i])))
        (chosen,) = self._release(charge, [np.array(exact, np.int64)])
        return int(chosen)

    def draw_cells(self, tables: Sequence[Marginal], times: int, draws: int, share: float) -> Array:
        """Draw cells of marginals, or their negations, where the rows have more (or fewer) than the given tables say.

        A draw is the exponential mechanism over all cells q of all tables and their negations, with the scores times *
        count(q) - given(q) and the negative of that: DualQuery's distribution over queries after so many rounds. The
        answer has positions in the cells of all tables end to end; those past the last cell are negations.

        Theorem. The tables were made from released answers only and are rounded to integers, so they are constants
        here; `times` is public. A row more or less moves a cell by at most one, a replaced row too, and a score by at
        most times that (`cell`), up or down: the coefficient of a draw is epsilon / (2 sensitivity). Each draw is
        epsilon-DP and epsilon^2/8-zCDP, and independent given the scores: epsilons, or rhos, of all draws add up to the
        share.
        """
        fixed = constants(self.domain, tables)
        if not (1 <= operator.index(times) <= LARGEST_WEIGHT and operator.index(draws) >= 1 and tables):
            raise ValueError("cells are drawn from tables, at least once, with a weight of at least one")
        cliques = [table.clique for table in tables]
        self._check(cliques)
        question = f"{counted(draws, 'draw')} among the cells of {counted(len(tables), 'set')} of columns"
        charge = self._exponential(question, times * self._adjacency.cell(), share, draws)
        exact = [(times * table - given).ravel() for table, given in zip(self._count(cliques), fixed, strict=True)]
        ends = np.concatenate(exact).astype(np.int64)
        (drawn,) = self._release(charge, [np.concatenate([ends, -ends])])
        return np.asarray(drawn).reshape(-1)

    def _exponential(self, question: str, sensitivity: int, share: float, draws: int = 1) -> Charge:
        """Enter choices by the exponential mechanism: its bounded range makes each epsilon^2/8-zCDP."""
        cost = share * self._capacity / draws
        epsilon = cost if self.accounting == "pure" else math.sqrt(8 * cost)
        charge = Charge.exponential(question, sensitivity=sensitivity, epsilon=epsilon, draws=draws)
        return self._enter(replace(charge, purpose="choice"))
