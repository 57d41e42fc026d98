"""Make noisy tables agree on whatever they share, be non-negative, and have one total.

Two projections alternate, both exact in the norm sum of precision_i |x_i|^2, in which noise of a known size
is round:

* onto the consistent families: go through the closure of the cliques under intersection, smaller sets first,
  and move each table's projection onto the set to the weighted mean (PrivSyn, section 4.3). One pass is the
  least-squares answer, not just a feasible one: a table splits into orthogonal interaction terms, one for
  each subset of its clique, and the problem splits with it into one mean with the weights precision_i / g_i
  for each term;
* onto the non-negative tables of the common total: the simplex projection of each table.

The alternation ends in a point of both sets, not in the nearest one. The nearest one (Dykstra's method, with
Nesterov's extrapolation in half the rounds) was tried and is the worse estimate: it is the likeliest family
under a flat prior and puts zeros wherever noise was negative, while the alternation lets agreement fill some
of them again. Mean total variation to the true tables, 10 attributes of up to 20 values, 20,000 rows,
alternation against nearest: .0107/.0107, .0854/.0865, .250/.265, .404/.462 for noise of 10, 100, 500, 2000
counts a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.pooling import common_total, precisions
from weft.reconcile.closure import Plan, plan
from weft.reconcile.kernels import agree, disagreement, fit

ROUNDS = 500
"""Rounds after which reconciliation ends, converged or not."""


@dataclass(frozen=True)
class Reconciled:
    """Tables that are non-negative, have one total, and agree with each other up to `spread`."""

    tables: list[Marginal]
    """The tables in the order given, float64."""
    total: float
    """The sum of every table."""
    rounds: int
    """Rounds used."""
    spread: float
    """What is left of disagreement: the L1 distance of projections onto one set at most, over the total."""
    converged: bool
    """Whether `spread` is within the tolerance."""
    degenerate: bool = False
    """The noise swamped the total (it came out at zero or below): the tables are uniform, of total 1."""


def consistent(marginals: Sequence[NoisyMarginal], *, total: float | None = None) -> list[Marginal]:
    """Return the consistent tables nearest to noisy ones, in the weighted L2 sense; cells may be negative.

    `total` None takes the precision-weighted one.
    """
    if total is None:
        total, _ = common_total(marginals)
    work = _Work(marginals, total)
    work.step(cut=False)
    return work.tables()


def reconcile(
    marginals: Sequence[NoisyMarginal],
    *,
    total: float | None = None,
    tolerance: float = 1e-6,
    rounds: int = ROUNDS,
) -> Reconciled:
    """Return the non-negative, consistent tables of one total that are nearest to noisy ones.

    `total` None takes the precision-weighted one. Ends when projections onto shared sets differ by at most
    `tolerance` of the total (L1), or after `rounds`; in both cases every table is non-negative and has the
    total. A clique may be measured more than once: its tables come out equal.
    """
    if not marginals:
        raise ValueError("there is no table to reconcile")
    if total is None:
        total, _ = common_total(marginals)
    if not total > 0:
        uniform = [Marginal(m.clique, np.full(m.table.shape, 1.0 / m.cells)) for m in marginals]
        return Reconciled(uniform, total=1.0, rounds=0, spread=0.0, converged=True, degenerate=True)
    work = _Work(marginals, total)
    spread, used = np.inf, 0
    while used < max(rounds, 1) and spread > tolerance:
        work.step(cut=True)
        spread = work.spread()
        used += 1
    return Reconciled(work.tables(), total, used, spread, spread <= tolerance)


class _Work:
    """The buffers of one reconciliation: the cells of all tables, and their projections onto shared sets."""

    def __init__(self, marginals: Sequence[NoisyMarginal], total: float) -> None:
        self.marginals, self.total = marginals, total
        self.plan: Plan = plan(marginals, precisions(marginals))
        self.cells = np.concatenate([m.table.ravel().astype(np.float64) for m in marginals])
        size = int(self.plan.at[-1] + self.plan.width[-1])
        self.projected = np.zeros(size)
        self.shift = np.zeros(size)
        marked = [np.zeros(m.cells, bool) if m.empty is None else np.ravel(m.empty) for m in marginals]
        self.empty = np.flatnonzero(np.concatenate(marked))
        """Cells that no row may have."""
        self._fit(cut=False)

    def step(self, *, cut: bool) -> None:
        """One round: agree on every shared set, then cut at zero, and empty what no row may have."""
        p = self.plan
        agree(
            self.projected, self.total, p.link_start, p.width, p.at, p.share, p.weight, p.sub_start,
            p.sub_map, p.cell_map, p.sub_link_start, p.sub_link, self.shift,
        )  # fmt: skip
        self._fit(cut=cut)
        if self.empty.size:
            self._empty(cut=cut)

    def _empty(self, *, cut: bool) -> None:
        """Empty the cells that no row may have; tables that were cut keep their total."""
        p = self.plan
        self.cells[self.empty] = 0.0
        if cut:
            sums = np.add.reduceat(self.cells, p.cells[:-1])
            self.cells *= np.repeat(np.where(sums > 0, self.total / np.maximum(sums, 1e-300), 1.0), np.diff(p.cells))
        self.shift[:] = 0.0
        self._fit(cut=False)

    def spread(self) -> float:
        """Disagreement of the tables, as a fraction of the total."""
        p = self.plan
        return float(disagreement(self.projected, p.link_start, p.width, p.at)) / self.total

    def tables(self) -> list[Marginal]:
        """The tables as they stand, in the order given."""
        parts = np.split(self.cells, self.plan.cells[1:-1])
        return [
            Marginal(m.clique, x.reshape(m.table.shape), empty=m.empty)
            for m, x in zip(self.marginals, parts, strict=True)
        ]

    def _fit(self, *, cut: bool) -> None:
        p = self.plan
        fit(
            self.cells, self.shift, self.total, cut, p.cells, p.at, p.layout, p.address, p.table_start,
            p.table_link, self.projected,
        )  # fmt: skip
