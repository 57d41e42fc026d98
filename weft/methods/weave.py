"""Weave: a dense Markov random field, learned in adaptive batches and woven by Gibbs chains. Weft's own method.

PrivSyn's many marginals, PrivMRF's model and no junction tree: the model's table of *any* candidate is a count over
the chains' records, so every batch can ask how far the model is from every candidate, and measure what is worth it.

1. Measure the columns alone; merge values that noise drowns.
2. Batch by batch (pairs first, then larger cliques if the noise allows them): look how far the model is from each
   candidate, choose from the menu of candidates and prices, measure, reconcile all tables, fit the chains.
3. Records are woven from the chains and herded to the reconciled tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from weft.counting import count
from weft.curator import Curator
from weft.domain import Clique, Domain
from weft.marginal import Array, Marginal, NoisyMarginal
from weft.methods.columns import check_shares
from weft.models import Model
from weft.models.chains_fit import Loom
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.recode import ValueMap, merge_rare
from weft.reconcile import common_total, reconcile, simplex
from weft.select.menu import choose, profile, projected_error


@dataclass(frozen=True)
class Batch:
    """One round of looking and measuring: cliques of this order, for this share of the budget."""

    order: int
    share: float


@dataclass(frozen=True)
class Weave:
    """One-way marginals, then batches of what the model gets most wrong; chains fitted to all of it."""

    one_way: float = 0.06
    """Share of the budget for the first look at every column alone."""
    column_error: float = 0.025
    """Total variation error of a column that is accepted before anything else is measured."""
    hopeless: float = 0.15
    """Error of the columns above which nothing but columns is measured."""
    look: float = 0.05
    """Part of a batch's share that asks how far the model is from each candidate."""
    order: int | None = None
    """Highest order of the measured cliques, 2 to 6; None: the highest that noise allows (`highest_order`)."""
    batches: int | None = None
    """Batches of higher order after the pairs; None: one of order 4, two of order 5 and 6."""
    most: int = 20
    """Cliques of higher order measured in one batch."""
    overlap: int = 3
    """Attributes that two cliques of one batch may share: what both would tell is gained once only."""
    candidates: int = 150
    """Cliques of higher order looked at in one batch, drawn at random; every look makes the others noisier."""
    max_cells: int = 200_000
    """Largest table that is measured."""
    gain: float = 1.3
    """Worth of a candidate's gap beside the noise of measuring it: a pair's gap is also felt in higher orders."""
    single: float = 2.0
    """Worth of a single column's error beside that of a pair: it is felt in every pair that is not measured."""
    rare: float = 3.0
    """Values with a noisy count below this many standard deviations are merged."""
    chains: int | None = None
    """Number of chains; None: the noisy number of rows, within 5,000 and 30,000, fewer where columns are wide."""
    rounds: int = 25
    """Rounds of moment matching in a batch, and once more at the end."""
    sweeps: int | None = None
    """Gibbs sweeps from the forest to a record; None: 12, and 5 where the columns have over 1,000 values in all."""
    herding: int = 2
    """Sweeps with feedback at the end; 0: independent records."""
    feedback: float = 0.02
    """Strength of that feedback."""
    accounting: Accounting = "gaussian"
    """"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0."""

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals."""
        check_shares(one_way=self.one_way)
        check_shares(look=self.look)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> Model:
        """Spend the whole budget."""
        domain = curator.domain
        with stage(listener, "measure columns"):
            ones = curator.measure([(name,) for name in domain], share=self.one_way)
            total = max(common_total(ones)[0], 1.0)
            more = self.top_up(curator, ones, total)
            if more > 0:
                again = curator.measure([m.clique for m in ones], share=more)
                ones = [_pool(old, new) for old, new in zip(ones, again, strict=True)]
                total = max(common_total(ones)[0], 1.0)
        left = 1 - self.one_way - more
        maps = self._merge(ones, total) if left > 1e-9 else {}
        curator = curator.recode({name: (found.codes, found.size) for name, found in maps.items()})
        measured = {m.clique: maps[m.clique[0]].fold(m) if m.clique[0] in maps else m for m in ones}
        loom = Loom(curator.domain, self.chains or _chains(curator.domain, total), rng)
        self._string(loom, measured, total)

        for number, batch in enumerate(self.plan(curator, total, left), 1):
            with stage(listener, f"batch {number}: {batch.order}-way"):
                offered = self._candidates(curator.domain, batch.order, measured, rng)
                look = batch.share * self.look if offered else 0.0
                prices = self._choose(curator, loom, measured, offered, total, look, batch.share - look)
                for noisy in curator.measure(list(prices), batch.share - look, list(prices.values())):
                    old = measured.get(noisy.clique)
                    measured[noisy.clique] = noisy if old is None else _pool(old, noisy)
                self._string(loom, measured, total)
                loom.match(self.rounds, 2.0)
        with stage(listener, "finish"):
            loom.match(self.rounds, 1.0)
        model = loom.model(self.sweeps or (12 if sum(curator.domain.shape) < 1000 else 5), self.herding, self.feedback)
        return RecodedModel(domain, model, maps) if maps else model

    def top_up(self, curator: Curator, ones: Sequence[NoisyMarginal], total: float) -> float:
        """Return the share to measure the columns with once more, so that each is within `column_error` of the rows.

        With few rows or many values that may take all there is: then no pair could be told from noise either.
        """
        shapes = profile([np.maximum(m.table, 0) for m in ones])
        shares = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45])
        rho = np.array([m.precision for m in ones])[:, None] / 2 * (1 + shares / self.one_way)
        errors = projected_error(shapes, 1 / np.sqrt(2 * rho)).mean(axis=0) / (2 * total)
        if len(ones) < 2 or errors[-1] > self.hopeless:
            return 1 - self.one_way
        return float(
            shares[np.argmax(errors <= self.column_error)] if (errors <= self.column_error).any() else shares[-1]
        )

    def plan(self, curator: Curator, total: float, left: float) -> list[Batch]:
        """Return the batches for this domain, noisy number of rows and remaining share, which they use up."""
        if left < 1e-9:
            return []
        order = self.order or highest_order(curator.domain, total, curator.rho(left / 2), self.most)
        order = min(order, len(curator.domain))
        higher = (0 if order == 2 else min(max(order - 3, 1), 2)) if self.batches is None else self.batches
        pairs = left / (1 + 1.2 * higher) if order > 2 else left
        return [Batch(2, pairs)] + [Batch(order, (left - pairs) / higher) for _ in range(higher if order > 2 else 0)]

    def _merge(self, ones: Sequence[NoisyMarginal], total: float) -> dict[str, ValueMap]:
        """Return the maps of columns with rare values, to be told apart again by their projected counts."""
        maps = {m.clique[0]: replace(merge_rare(m, self.rare * m.sigma), counts=simplex(m.table, total)) for m in ones}
        return {name: found for name, found in maps.items() if found.size < found.codes.size}

    def _string(self, loom: Loom, measured: dict[Clique, NoisyMarginal], total: float) -> None:
        agreed = reconcile(list(measured.values()), rounds=60, tolerance=1e-4)
        tables = (
            agreed.tables if not agreed.degenerate else [Marginal(t.clique, t.table * total) for t in agreed.tables]
        )
        loom.string(tables, [m.sigma for m in measured.values()])

    def _candidates(
        self, domain: Domain, order: int, measured: dict[Clique, NoisyMarginal], rng: np.random.Generator
    ) -> list[Clique]:
        """Return the cliques of this order that fit; for orders above 2 a random choice of them."""
        if order == 2:
            pairs = combinations(sorted(domain), 2)
            return [c for c in pairs if domain.cells(c) <= self.max_cells and c not in measured]
        names = sorted(domain)
        found: dict[Clique, None] = {}
        for _ in range(20 * self.candidates):
            c = tuple(names[i] for i in np.sort(rng.choice(len(names), min(order, len(names)), replace=False)))
            if domain.cells(c) <= self.max_cells and c not in measured:
                found[c] = None
            if len(found) == self.candidates:
                break
        return list(found)

    def _choose(
        self,
        curator: Curator,
        loom: Loom,
        measured: dict[Clique, NoisyMarginal],
        cliques: list[Clique],
        total: float,
        look: float,
        share: float,
    ) -> dict[Clique, float]:
        """Return the cliques worth measuring, single columns among them, with the budget of each."""
        scale = total / loom.size
        now = [table * scale for table in count(loom.records, cliques)]
        seen = curator.gaps([Marginal(c, t) for c, t in zip(cliques, now, strict=True)], look)
        # The chains' own sampling adds to the distance as an independent error does.
        own = np.array([sampling_error(t / scale) * scale for t in now])
        gaps = np.sqrt(np.maximum(np.maximum(seen, 0) ** 2 - own**2, 0))
        if cliques and len(cliques[0]) > 2:
            kept = self._spread(cliques, gaps)
            cliques, now, gaps = [cliques[i] for i in kept], [now[i] for i in kept], gaps[kept]
        budget = curator.rho(share)
        prices = budget / 2.0 ** np.arange(12, step=0.5)
        ones = [m for m in measured.values() if len(m.clique) == 1]
        shapes = profile([np.maximum(m.table, 0) for m in ones])
        sigma = np.array([m.sigma for m in ones])[:, None]
        spent = choose(
            np.concatenate([self.gain * gaps, self.single * projected_error(shapes, sigma)[:, 0]]),
            np.concatenate(
                [
                    projected_error(profile(now), 1 / np.sqrt(2 * prices)),
                    self.single * projected_error(shapes, (sigma**-2 + 2 * prices) ** -0.5),
                ]
            ),
            np.broadcast_to(prices, (len(cliques) + len(ones), prices.size)),
            budget,
        )
        offered = [*cliques, *(m.clique for m in ones)]
        chosen = {c: float(price) for c, price in zip(offered, spent, strict=True) if price > 0}
        return chosen or {m.clique: 1.0 for m in ones}

    def _spread(self, cliques: list[Clique], gaps: Array) -> list[int]:
        """Return the candidates of largest gap that overlap little with each other."""
        kept: list[int] = []
        for i in np.argsort(-gaps, kind="stable").tolist():
            if all(len(set(cliques[i]) & set(cliques[j])) <= self.overlap for j in kept):
                kept.append(i)
        return kept[: self.most]


def highest_order(domain: Domain, total: float, rho: float, tables: int) -> int:
    """Return the highest order, 2 to 6, at which tables of typical columns keep noise below a tenth of the rows.

    `tables` of them are measured with `rho`. Order 3 alone adds little to the pairs and is passed over.
    """
    sigma = math.sqrt(tables / (2 * rho))
    typical = float(np.exp(np.mean(np.log(domain.shape))))
    for order in range(min(6, len(domain) - 1), 3, -1):
        if typical**order * sigma * math.sqrt(2 / math.pi) <= 0.1 * total and typical**order <= 4096:
            return order
    return 2


def sampling_error(expected: Array) -> float:
    """Return the expected L1 distance of Poisson counts from these means."""
    small = 2 * expected * np.exp(-expected)
    return float(np.where(expected < 1, small, np.sqrt(2 / np.pi * expected)).sum())


def _chains(domain: Domain, total: float) -> int:
    """Return the number of chains: a sweep over one record costs as much as the columns have values."""
    return int(np.clip(min(total, 1.2e7 / sum(domain.shape)), 5_000, 30_000))


def _pool(old: NoisyMarginal, new: NoisyMarginal) -> NoisyMarginal:
    """Return two measurements of one clique as one, weighted by precision."""
    weight = new.precision / (old.precision + new.precision)
    table = (1 - weight) * old.table + weight * new.table
    return NoisyMarginal(old.clique, table, float((old.precision + new.precision) ** -0.5))
