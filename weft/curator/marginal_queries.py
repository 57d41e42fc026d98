"""Questions for marginals: whole tables, what smaller tables do not tell, and the number of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.domain import Clique
from weft.marginals.marginal import NoisyMarginal, compute_interaction
from weft.privacy.charge import Purpose


class MarginalQuestions(QueryBase):
    """The curator's questions for marginals."""

    def measure(
        self, cliques: Sequence[Clique], share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Release the marginals of these cliques with noise; `weights` divide the share among them (default: evenly).

        Theorem. Each row adds one to exactly one cell of each marginal, so a row more or less moves one cell by
        one (`marginal_l2`, `marginal_l1`: sensitivity 1), and a replaced row two cells (sqrt 2, and 2). Gaussian
        noise sigma_i on marginal i is therefore sensitivity/sigma_i-GDP, and the marginals compose:
        the rho_i = sensitivity^2 / (2 sigma_i^2) add up to the share. Geometric noise of scale
        sensitivity/epsilon_i is epsilon_i-DP, and the epsilon_i add up.
        """
        noisy = self._tables("marginals", _describe_cliques(cliques), cliques, share, weights)
        self._keep(noisy)  # as they were released: rows that break a rule may be in them
        return [self._emptied(m) for m in noisy]

    def look(self, cliques: Sequence[Clique], share: float, question: str) -> list[NoisyMarginal]:
        """Release marginals from which a schema is made: of attributes that the table will not have when it is learned.

        Theorem. That of `measure`.
        """
        return self._tables("discovery", question, cliques, share, None)

    def _tables(
        self, purpose: Purpose, question: str, cliques: Sequence[Clique], share: float, weights: Sequence[float] | None
    ) -> list[NoisyMarginal]:
        if not cliques:
            return []
        self._check(cliques)
        noise = [self._noise(share * part) for part in _normalise_weights(weights, len(cliques))]
        scales, cells = [scale for scale, _ in noise], sum(self.domain.cells(c) for c in cliques)
        charge = self._charge(purpose, question, self._marginal_sensitivity(), scales, draws=cells)
        released = self._release(charge, self._count(cliques))
        return [NoisyMarginal(c, table, sigma) for c, table, (_, sigma) in zip(cliques, released, noise, strict=True)]

    def _emptied(self, noisy: NoisyMarginal) -> NoisyMarginal:
        """Return a released table without the noise of cells that no synthetic row may have: rules are public."""
        empty = self.domain.empty_cells(noisy.clique)
        return noisy if empty is None else replace(noisy, table=np.where(empty, 0, noisy.table), empty=empty)

    def interactions(
        self, cliques: Sequence[Clique], order: int, share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Release of each marginal only what those of fewer than `order` attributes do not tell, with Gaussian noise.

        Where smaller marginals are known, asking for them again is a waste: in a pair of binary attributes, of three
        fourths of the budget. The noise is that of a whole table, sigma a cell, from which what the
        answer cannot contain has been taken away. `weights` as in `measure`.

        Theorem. `compute_interaction` is an integer function of the rows' marginal, and a unit moves it by at most s_i
        = `interaction_l2` in L2 norm. Gaussian noise t_i is therefore s_i/t_i-GDP, and the rho_i = s_i^2 / (2 t_i^2)
        add up to the share. What is done to the released table afterwards costs nothing.
        """
        self._require_gaussian("interactions are measured")
        if not cliques:
            return []
        self._check(cliques)
        sensitivity = [self._adjacency.interaction_l2(self.domain.sizes(c), order) for c in cliques]
        if order < 1 or not min(sensitivity) > 0:
            raise ValueError(f"cliques of fewer than {order} attributes with codes to choose from do not interact")
        parts = _normalise_weights(weights, len(cliques))
        scales = [self._noise(share * part, s)[0] for part, s in zip(parts, sensitivity, strict=True)]
        cells = [self.domain.cells(c) for c in cliques]
        question = f"{_describe_cliques(cliques)}, interaction terms only"
        charge = self._charge("marginals", question, sensitivity, scales, draws=sum(cells))
        released = self._release(charge, [compute_interaction(table, order) for table in self._count(cliques)])
        noisy = [
            NoisyMarginal(
                c,
                compute_interaction(table / size, order) / size,
                scale / size,
                order,
                empty=self.domain.empty_cells(c),
            )
            for c, table, scale, size in zip(cliques, released, scales, cells, strict=True)
        ]
        self._keep(noisy)
        return noisy

    def total(self, share: float) -> NoisyMarginal:
        """Release the number of rows with noise: the marginal of the empty clique.

        Theorem. A row more or less moves it by one; a replaced row not at all, for which we pay the same.
        """
        scale, sigma = self._noise(share, self._adjacency.total())
        charge = self._charge("total", "number of rows", self._adjacency.total(), [scale], draws=1)
        (released,) = self._release(charge, self._count([()]))
        rows = NoisyMarginal((), released, sigma)
        self._keep([rows])
        return rows


def _normalise_weights(weights: Sequence[float] | None, n: int) -> list[float]:
    if weights is None:
        return [1 / n] * n
    if len(weights) != n or min(weights) <= 0:
        raise ValueError("measure needs one positive weight for each clique")
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _describe_cliques(cliques: Sequence[Clique]) -> str:
    """Describe marginals by their number and order. What is counted are attributes: a column may have several.

    >>> _describe_cliques([("age",), ("sex",), ("age", "sex")])
    '2 one-way marginals and 1 two-way marginal'
    """
    orders = sorted({len(c) for c in cliques})
    return " and ".join(_describe_order(sum(len(c) == order for c in cliques), order) for order in orders)


def _describe_order(n: int, order: int) -> str:
    if order == 0:
        return "number of rows"
    names = {1: "one", 2: "two", 3: "three", 4: "four"}
    return format_count(n, f"{names.get(order, order)}-way marginal")
