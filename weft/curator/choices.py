"""Questions that are answered by a choice: the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.curator.door import Door
from weft.curator.scores import dependence_of
from weft.marginals.domain import Clique, clique
from weft.privacy import Charge
from weft.words import counted


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

    def _exponential(self, question: str, sensitivity: int, share: float) -> Charge:
        """Enter a choice by the exponential mechanism: its bounded range makes it epsilon^2/8-zCDP."""
        cost = share * self._capacity
        epsilon = cost if self.accounting == "pure" else math.sqrt(8 * cost)
        charge = Charge.exponential(question, sensitivity=sensitivity, epsilon=epsilon)
        return self._enter(replace(charge, purpose="choice"))
