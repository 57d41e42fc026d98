"""Marginal queries: whole marginals, interaction terms, and the number of rows."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.curator.query_base import QueryBase
from weft.display import format_count
from weft.marginals.domain import Clique
from weft.marginals.marginal import NoisyMarginal, compute_interaction
from weft.privacy.charge import Purpose


class MarginalQueries(QueryBase):
    """Marginal queries of the curator."""

    def measure(
        self, cliques: Sequence[Clique], share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Return the noisy marginals of these cliques; `weights` divide the share among them (default: evenly).

        Privacy: each row adds one to exactly one cell of each marginal, so one row more or less changes one cell by one
        (`marginal_l2`, `marginal_l1`: sensitivity 1), a replaced row two cells (sqrt 2, and 2). Gaussian noise sigma_i
        on marginal i is therefore sensitivity/sigma_i-GDP; by composition, the rho_i = sensitivity^2 / (2 sigma_i^2)
        add up to the share. Geometric noise of scale sensitivity/epsilon_i is epsilon_i-DP; the epsilon_i add up.
        """
        noisy = self._tables("marginals", _describe_cliques(cliques), cliques, share, weights)
        self._keep(noisy)  # as released: the rows may violate rules
        return [self._emptied(m) for m in noisy]

    def look(self, cliques: Sequence[Clique], share: float, question: str) -> list[NoisyMarginal]:
        """Return noisy marginals for discovery, of attributes that the fitted table lacks; privacy as for `measure`."""
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
        """Set the cells of a released marginal to 0 that public rules exclude from synthetic rows."""
        empty = self.domain.empty_cells(noisy.clique)
        return noisy if empty is None else replace(noisy, table=np.where(empty, 0, noisy.table), empty=empty)

    def interactions(
        self, cliques: Sequence[Clique], order: int, share: float, weights: Sequence[float] | None = None
    ) -> list[NoisyMarginal]:
        """Return the noisy interaction terms of at least `order` attributes of each marginal, with Gaussian noise.

        Measuring known smaller marginals again wastes budget: for two binary attributes, three quarters of it. The
        noise is that of a whole table, sigma per cell, projected onto the interaction terms. `weights` as in `measure`.

        Privacy: `compute_interaction` is an integer function of the rows' marginal, with L2 sensitivity s_i =
        `interaction_l2`. Gaussian noise t_i is therefore s_i/t_i-GDP, and the rho_i = s_i^2 / (2 t_i^2) add up to the
        share. Post-processing of the released table costs nothing.
        """
        self._require_gaussian("interactions are measured")
        if not cliques:
            return []
        self._check(cliques)
        sensitivity = [self._adjacency.interaction_l2(self.domain.sizes(c), order) for c in cliques]
        if order < 1 or not min(sensitivity) > 0:
            raise ValueError(f"cliques need at least {order} attributes with two or more codes to have interactions")
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
        """Return the noisy number of rows: the marginal of the empty clique.

        Privacy: sensitivity `total` = 1 per row. A replaced row does not change the number, but is charged the same.
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
        raise ValueError("expected one positive weight for each clique")
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _describe_cliques(cliques: Sequence[Clique]) -> str:
    """Describe marginals of attributes (a column may have several) by their number and order.

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
