"""Common base of all queries on private rows: charge the ledger, query the engine, add noise.

A query is first charged to the ledger, then computed, and released with integer noise. The holder of a curator can
learn nothing about the rows beyond what the ledger records. Neighbouring tables differ in one privacy unit, added,
removed or replaced (`Adjacency`). In the proofs, "a row" stands for the at most `rows_per_unit` rows of a unit; every
sensitivity comes from `weft.privacy.sensitivity`, where it is scaled accordingly. The rows of an engine may have
integer weights, with a public maximum `mass` of their sum over a unit: counts are then sums of weights, and a row of
weight w counts as w equal rows (`Adjacency.weigh`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from weft.engines import Engine
from weft.errors import MethodError
from weft.marginals.counting import MAX_CELLS
from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Measured, NoisyMarginal
from weft.marginals.pooling import Released
from weft.privacy import Accounting, Adjacency, Charge, Ledger
from weft.privacy.charge import Purpose
from weft.privacy.mechanisms import Release

CELLS_PER_PASS = 1 << 25
"""Cells counted in one pass over the rows; longer lists of cliques are split to bound memory."""


class QueryBase:
    """Holds the engine, the ledger and the mechanisms; base class of all query families.

    Prices are a `share` of the whole budget (or of the remaining budget: `Curator.rest`). The accounting determines
    what a share buys: a share of rho and rounded Gaussian noise, or, under pure accounting, a share of epsilon and
    two-sided geometric noise (`Accounting.counts`).
    """

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        release: Release,
        whole: float = 1.0,
        cells: int | None = None,
        public: Engine | None = None,
    ) -> None:
        """Set `whole`, the part of the budget to which shares refer, the cells counted per pass, and public rows."""
        self._engine = engine
        self._ledger = ledger
        self._release = release
        self._released: list[Released] = []
        self._coding: Mapping[str, Array] = {}
        self._part = ""
        self._whole = whole
        self._cells = cells or CELLS_PER_PASS
        self._public = public
        self._table = ""
        self._kept_back = 0.0
        self._bound: int | None = None

    @classmethod
    def of(cls, curator: QueryBase) -> Self:
        """Return a family of queries over the rows, ledger and noise of a curator, for families outside the product.

        Privacy: one state for both, so what either spends or releases counts for the other.
        """
        made = cls.__new__(cls)
        made.__dict__ = curator.__dict__
        return made

    @property
    def domain(self) -> Domain:
        """Attributes and their sizes: public."""
        return self._engine.domain

    @property
    def accounting(self) -> Accounting:
        """The accounting of the budget."""
        return self._ledger.accounting

    @property
    def left(self) -> float:
        """Share of the budget not yet spent on these rows."""
        return self.left_with(0.0)

    def slack(self, part: float) -> float:
        """Return the total-variation distance that a part of the budget's delta pays for."""
        return part * self._ledger.budget.delta / (1 + math.exp(self._ledger.budget.epsilon or math.inf))

    def left_with(self, slack: float) -> float:
        """Return the share of the current budget that would be left after paying for this slack."""
        return max(0.0, self._ledger.left_with(slack, self._part) - self._kept_back) / self._capacity

    @property
    def measured(self) -> tuple[Measured, ...]:
        """Every marginal measured so far, also under a recoding: public, like the queries."""
        return tuple(held.noisy.measured for held in self._released if held.clique)

    @property
    def released(self) -> tuple[Released, ...]:
        """The noisy marginals in the codes of their queries: public, since they were released."""
        return tuple(self._released)

    def _keep(self, tables: Iterable[NoisyMarginal]) -> None:
        for noisy in tables:
            coding = {name: self._coding[name] for name in noisy.clique if name in self._coding}
            self._released.append(Released(noisy, coding))

    def rho(self, share: float = 1.0) -> float:
        """Return the zCDP parameter of a share: a marginal measured with it has noise variance sensitivity^2 / (2 rho).

        Under pure accounting this is the rho of Gaussian noise with the same variance.
        """
        return self.accounting.find_gaussian_rho(share * self._capacity)

    def sigma(self, share: float) -> float:
        """Return the noise standard deviation per cell of one marginal measured with this share."""
        return self._noise(share)[1]

    def sigma_of(self, rho: Array | float) -> Array:
        """Return the noise standard deviation per cell for a zCDP parameter (`rho`)."""
        return np.asarray(self._marginal_sensitivity() / np.sqrt(2 * np.asarray(rho, np.float64)))

    @property
    def _capacity(self) -> float:
        """Cost of a share of 1: the whole budget, or what remained of it when this curator was created."""
        return self._whole * self._ledger.capacity

    @property
    def _adjacency(self) -> Adjacency:
        mass: int | None = getattr(self._engine, "mass", None)
        bound = self._bound if mass is None else mass
        return self._ledger.adjacency if bound is None else self._ledger.adjacency.weigh(bound)

    def of_bound(self, name: str, rows: int) -> Self:
        """Set the contribution bound of these rows, which differs from the ledger's: those of one of several tables.

        Privacy: the engine must have been opened with this bound, so that a unit has at most `rows` rows in it.
        """
        self._bound, self._table = rows, name
        return self

    def _marginal_sensitivity(self) -> float:
        return self._adjacency.marginal(self.accounting.counts.norm)

    def _noise(self, share: float, sensitivity: float | None = None) -> tuple[float, float]:
        """Return the noise scale and the noise standard deviation for one table at this share."""
        sensitivity = self._marginal_sensitivity() if sensitivity is None else sensitivity
        cost = share * self._capacity
        if not cost > 0:
            raise ValueError(f"a share of the budget must be above 0, not {share}")
        scale = self.accounting.find_scale(cost, sensitivity)
        return scale, self.accounting.counts.deviation(scale)

    def _require_gaussian(self, what: str) -> None:
        """Refuse a query with a known L2 sensitivity only, if the noise is priced by another norm."""
        if self.accounting.counts.norm != "l2":
            raise ValueError(f"{what} with Gaussian noise, which {self.accounting} accounting does not support")

    def _charge(
        self, purpose: Purpose, question: str, sensitivity: float | Sequence[float], scales: Sequence[float], draws: int
    ) -> Charge:
        """Charge a query to the ledger; a row may be read only after this returns."""
        noise = self.accounting.counts
        charge = Charge.counts(noise, question, sensitivity=sensitivity, scale=scales, draws=draws)
        return self._enter(replace(charge, purpose=purpose))

    def _enter(self, charge: Charge) -> Charge:
        if self._part:
            charge = replace(charge, question=f"{charge.question} (rows for {self._part})", part=self._part)
        if self._table:
            charge = replace(charge, question=f"{self._table}: {charge.question}")
        return self._ledger.charge(charge)

    def _check(self, cliques: Sequence[Clique]) -> None:
        for c in cliques:
            if list(c) != sorted(set(c)) or any(name not in self.domain for name in c):
                raise ValueError(f"{c} is not a clique of the table's attributes")
            if self.domain.cells(c) > MAX_CELLS:
                raise MethodError(
                    f"the table over {', '.join(c)} has {self.domain.cells(c):,} cells, above {MAX_CELLS:,}: "
                    "choose fewer attributes, or coarser bins in the schema"
                )

    @property
    def has_public(self) -> bool:
        """Whether there are public rows with the same attributes."""
        return self._public is not None

    def public(self, cliques: Sequence[Clique]) -> list[Array]:
        """Return marginals of the public rows, as counts: no private row is read, so nothing is charged."""
        assert self._public is not None, "check has_public first"
        return [np.asarray(table) for batch in self._passes(cliques) for table in self._public.count(batch)]

    def _count(self, cliques: Sequence[Clique]) -> list[Array]:
        return [table for batch in self._passes(cliques) for table in self._engine.count(batch)]

    def _passes(self, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
        batch: list[Clique] = []
        cells = 0
        for c in cliques:
            size = self.domain.cells(c)
            if batch and cells + size > self._cells:
                yield batch
                batch, cells = [], 0
            batch.append(c)
            cells += size
        yield batch
