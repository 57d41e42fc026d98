"""Weave: a dense Markov random field, learned in adaptive batches; exact, or woven by Gibbs chains. Weft's own method.

PrivSyn's many marginals and PrivMRF's model, without the limits of a junction tree: where none holds all tables, the
model's table of *any* candidate is a count over the records of chains. So every batch can ask how far the model is from
every candidate, and measure what is worth it.

1. Measure the columns alone; merge values that noise drowns.
2. Batch by batch (pairs first, then triples or larger cliques where noise allows them): look how far the model is
   from each candidate, choose from the menu of candidates and prices, measure, and reconcile all tables.
3. Records are drawn from the exact model, or woven from the chains and herded to the reconciled tables (`Woven`).

Nothing is asked twice: with Gaussian noise only that part of a table is measured which the tables below it do not
tell (`Curator.interactions`). On small columns that is a small part: a pair of binary ones has half the noise of a
whole table for the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, clique
from weft.marginals.marginal import Array, Marginal, NoisyMarginal, interacting
from weft.marginals.recode import ValueMap, merge_rare
from weft.methods.steps.columns import check_noise, check_shares
from weft.methods.steps.woven import Woven
from weft.models import Model
from weft.models.independent import IndependentModel
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import reconcile, simplex
from weft.select.menu import choose, profile, projected_error

NORMAL = math.sqrt(2 / math.pi)
"""Mean size of a standard normal number."""

_TRIPLES = 2000
"""Triples up to which all of them are looked at: those of 23 columns."""


@dataclass(frozen=True)
class Weave:
    """One-way marginals, then batches of what the model gets most wrong; one model fitted to all of it."""

    one_way: Share = 0.2
    """Share of the budget for the first look at every column alone."""
    count: Share = 0.1
    """Part of that share for the number of rows."""
    column_error: Annotated[float, Bounds(0.0, 10.0)] = 0.025
    """Total variation error of a column that is accepted before anything else is measured."""
    hopeless: Annotated[float, Bounds(0.0, 10.0)] = 0.15
    """Error of the columns above which nothing but columns is measured."""
    look: Share = 0.05
    """Part of a batch's share that asks how far the model is from each candidate."""
    order: Annotated[int, Bounds(2, 100)] = 6
    """Highest order of the measured cliques; 2: pairs only."""
    batches: Annotated[int | None, Bounds(0, 100)] = None
    """Batches after the pairs, if noise allows cliques of four attributes (of three, if there are no more) that cover
    at least a third of all pairs; None: two if some have more than four, otherwise one. 0: pairs only."""
    pairs: Share = 0.5
    """Part of what the columns left that is spent on the batch of pairs, if there are others."""
    most: Annotated[int, Bounds(1, 10000)] = 20
    """Cliques of more than three attributes measured in one batch."""
    overlap: Annotated[int, Bounds(0, 100)] = 3
    """Attributes that two cliques of one batch may share: what both would tell is gained once only."""
    candidates: Annotated[int, Bounds(1, 10000)] = 150
    """Cliques of higher order looked at in one batch, drawn at random; every look makes the others noisier."""
    noise: Annotated[float, Bounds(0.0, 10.0)] = 0.03
    """Total variation error that noise may leave in a clique of higher order."""
    max_cells: Cells = 200_000
    """Largest table that is measured."""
    max_tree: Annotated[int, Bounds(0, 1 << 28)] = 1 << 21
    """Cells of the largest junction tree that takes the chains' place where it holds all that was measured; 0: none."""
    rare: Deviations = 3.0
    """Values with a noisy count below this many standard deviations are merged."""
    chains: Annotated[int | None, Bounds(1, 10_000_000)] = None
    """Chains: their number; None: the noisy number of rows, within 5,000 and 30,000, fewer where columns are wide."""
    rounds: Annotated[int | None, Bounds(1, 10000)] = None
    """Chains: rounds of moment matching in a batch, and once more at the end; None: 6, and 12 where there are over 30
    columns, or over 1,000 values in all."""
    sweeps: Annotated[int | None, Bounds(0, 10000)] = None
    """Chains: Gibbs sweeps from the forest to a record; None: 4, 12 where there are over 30 columns, and 2 where these
    have over 1,000 values in all."""
    herding: Annotated[int | None, Bounds(0, 10000)] = None
    """Sweeps with feedback at the end; 0: records as they are drawn, also from a tree; None: 2, and 1 where there are
    over 1,000 values."""
    feedback: Annotated[float | None, Bounds(0.0, 1000.0)] = None
    """Chains: strength of that feedback; None: 0.02, and 0.2 where there are over 1,000 values, with thinner cells."""
    accounting: Accounting = "gaussian"
    """"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0."""

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals."""
        check_shares(one_way=self.one_way)
        check_shares(look=self.look)
        check_shares(pairs=self.pairs)
        check_shares(count=self.count)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> Model:
        """Spend the whole budget."""
        domain = curator.domain
        self._check_noise(curator)
        with stage(listener, "measure columns"):
            total = max(float(curator.total(self.one_way * self.count).table), 1.0)
            alone: dict[Clique, float] = {(name,): 1.0 for name in domain}
            ones = self._measure(curator, alone, self.one_way * (1 - self.count), total)
            more = self.top_up(ones, total)
            if more > 0:
                again = self._measure(curator, alone, more, total)
                ones = [_pool(old, new) for old, new in zip(ones, again, strict=True)]
        left = 1 - self.one_way - more
        if left < 1e-9:
            return IndependentModel(domain, total, tuple(simplex(m.table, total) for m in ones))
        maps = self._merge(domain, ones, total)
        merged = curator.recode({name: (found.codes, found.size) for name, found in maps.items()})
        measured = {m.clique: maps[m.clique[0]].fold(m) if m.clique[0] in maps else m for m in ones}
        chains = self.chains or _chains(merged.domain, total)
        gaussian = self.accounting != "pure"
        rounds, sweeps, herding, feedback = self._effort(merged.domain)
        woven = Woven(merged.domain, total, chains, rounds, self.max_tree, gaussian, rng, listener)
        self._take(woven, measured)

        for number, (offered, share) in enumerate(self.plan(merged, measured, total, left, rng), 1):
            with stage(listener, f"batch {number}: {'pairs' if number == 1 else 'larger cliques'}"):
                look = share * self.look if offered else 0.0
                prices = self._choose(merged, woven, measured, offered, look, share - look)
                if number == 1 and all(len(c) == 1 for c in prices):  # no pair is worth it: all for the columns
                    again = self._measure(curator, alone, left - look, total)
                    pooled = [_pool(old, new) for old, new in zip(ones, again, strict=True)]
                    return IndependentModel(domain, total, tuple(simplex(m.table, total) for m in pooled))
                for noisy in self._measure(merged, prices, share - look, total, measured):
                    old = measured.get(noisy.clique)
                    measured[noisy.clique] = noisy if old is None else _pool(old, noisy)
                self._take(woven, measured)
        with stage(listener, "learn the model"):
            model = woven.model(sweeps, herding, feedback)
        return RecodedModel(domain, model, maps) if maps else model

    def _check_noise(self, curator: Curator) -> None:
        """Refuse what could not be paid for later. Of a small column, the table is asked times its cells."""
        domain, d = curator.domain, len(curator.domain)
        most = max(domain.size(name) if self._asked(domain, (name,), ()) else 1 for name in domain)
        left, batch = 1 - self.one_way, min(self.pairs, 1 - self.pairs) / max(self.batches or 2, 1)
        asked = max(math.comb(d, 2), _TRIPLES, self.candidates)
        check_noise(curator, count=(self.one_way * self.count, 1), look=(self.look * left * batch, asked))
        check_noise(curator, sensitivity=most, one_way=(self.one_way * (1 - self.count), d))

    def _effort(self, domain: Domain) -> tuple[int, int, int, float]:
        """Return rounds, sweeps, herding and feedback: as given, or by how wide the columns are."""
        wide, many = sum(domain.shape) > 1000, len(domain) > 30
        # Sweeps cost more where columns are wide, and cells are thinner; many columns take longer to mix.
        usual = (12, 2, 1, 0.2) if wide else (12, 12, 2, 0.02) if many else (6, 4, 2, 0.02)
        given = (self.rounds, self.sweeps, self.herding, self.feedback)
        rounds, sweeps, herding, feedback = (u if g is None else g for g, u in zip(given, usual, strict=True))
        return int(rounds), int(sweeps), int(herding), float(feedback)

    def top_up(self, ones: Sequence[NoisyMarginal], total: float) -> float:
        """Return the share to measure the columns with once more, so that each is within `column_error` of the rows.

        With few rows or many values that may take all there is: then no pair could be told from noise either.
        """
        shapes = profile([np.maximum(m.table, 0) for m in ones])
        shares = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45])
        shares = shares[shares <= 0.9 * (1 - self.one_way)]
        rho = np.array([m.precision for m in ones])[:, None] / 2 * (1 + shares / self.one_way)
        errors = projected_error(shapes, 1 / np.sqrt(2 * rho)).mean(axis=0) / (2 * total)
        if len(ones) < 2 or errors[-1] > self.hopeless:
            return 1 - self.one_way
        enough = errors <= self.column_error
        return float(shares[np.argmax(enough)] if enough.any() else shares[-1])

    def plan(
        self,
        curator: Curator,
        measured: Collection[Clique],
        total: float,
        left: float,
        rng: np.random.Generator,
    ) -> Iterator[tuple[list[Clique], float]]:
        """Yield each batch's candidates and share; the shares add up to what is left."""
        domain = curator.domain
        pairs = self._subsets(domain, 2)
        larger = self.larger_cliques(domain, total, curator.rho(left / 2), rng)
        triples = self._triples(domain, larger)
        higher = (1 + any(len(c) > 4 for c in larger)) if self.batches is None else self.batches
        if triples:
            yield pairs, left * self.pairs
            yield triples, left * (1 - self.pairs)
        elif not higher or _covered(larger, domain, 4) < 1 / 3:
            yield pairs, left
        else:
            yield pairs, left * self.pairs
            for _ in range(higher):
                yield [c for c in larger if c not in measured], left * (1 - self.pairs) / higher
                larger = self.larger_cliques(domain, total, curator.rho(left / 2), rng)

    def _triples(self, domain: Domain, larger: Sequence[Clique]) -> list[Clique]:
        """Return all triples where noise allows most of them, and not everywhere more than that; none otherwise.

        Then every one can be looked at, and what goes beyond pairs costs little. Where noise allows larger cliques
        everywhere, a few of those tell more.
        """
        few = math.comb(len(domain), 3) <= _TRIPLES and self.batches != 0
        if few and _covered(larger, domain, 3) >= 0.8 and _covered(larger, domain, 4) < 0.95:
            return self._subsets(domain, 3)
        return []

    def _subsets(self, domain: Domain, order: int) -> list[Clique]:
        return [c for c in combinations(sorted(domain), order) if domain.cells(c) <= self.max_cells]

    def larger_cliques(self, domain: Domain, total: float, rho: float, rng: np.random.Generator) -> list[Clique]:
        """Return random cliques of 3 to `order` attributes, each as large as noise allows if `most` share `rho`."""
        sigma = math.sqrt(self.most / (2 * rho))
        found: dict[Clique, None] = {}
        for _ in range(4 * self.candidates):
            taken: list[str] = []
            for i in rng.permutation(len(domain)):
                tried = clique([*taken, domain.names[i]])
                sizes = domain.sizes(tried)
                error = math.prod(sizes) * NORMAL * sigma * interacting(sizes, 3) / 2
                if len(tried) <= self.order and math.prod(sizes) <= self.max_cells and error <= self.noise / 2 * total:
                    taken = list(tried)
            if len(taken) > 2:
                found[tuple(taken)] = None
            if len(found) == self.candidates:
                break
        return list(found)

    def _measure(
        self,
        curator: Curator,
        prices: Mapping[Clique, float],
        share: float,
        total: float,
        known: Collection[Clique] = (),
    ) -> list[NoisyMarginal]:
        """Measure of each clique what is not known, for its price's part of the share.

        The total is known, so a column's table is its interaction and an even spread of the total.
        """
        groups: dict[int, list[Clique]] = {}
        for c in prices:
            groups.setdefault(self._asked(curator.domain, c, known), []).append(c)
        whole = math.fsum(prices.values())
        found: dict[Clique, NoisyMarginal] = {}
        for order, cliques in groups.items():
            paid = [prices[c] for c in cliques]
            part = share * math.fsum(paid) / whole
            tables = curator.interactions(cliques, order, part, paid) if order else curator.measure(cliques, part, paid)
            if order == 1:
                tables = [replace(m, table=m.table + total / m.cells, order=0) for m in tables]
            found |= {m.clique: m for m in tables}
        return [found[c] for c in prices]

    def _asked(self, domain: Domain, c: Clique, known: Collection[Clique]) -> int:
        """Return the least order of the interactions asked for: what is below is known. 0: the whole table is."""
        order = min(len(c), 3)
        sizes = domain.sizes(c)
        if self.accounting == "pure" or 1 in sizes or (order == 3 and any(p not in known for p in combinations(c, 2))):
            return 0
        # Of very wide columns nearly all is asked; a whole table then needs less noise in whole numbers.
        return order if interacting(sizes, order) < 0.98 else 0

    def _part(self, domain: Domain, cliques: Sequence[Clique], known: Collection[Clique]) -> Array:
        """Return, of each clique, the part of a row that is asked for: what it costs beside a whole table."""
        parts = [interacting(domain.sizes(c), self._asked(domain, c, known)) for c in cliques]
        return np.array(parts).reshape(-1, 1)

    def _merge(self, domain: Domain, ones: Sequence[NoisyMarginal], total: float) -> dict[str, ValueMap]:
        """Return the maps of columns with rare values, to be told apart again by their projected counts."""
        maps = {}
        for m in ones:
            found = merge_rare(m, self.rare * m.sigma, domain.order(m.clique[0]))
            if found.size < found.codes.size:
                maps[m.clique[0]] = replace(found, counts=simplex(m.table, total))
        return maps

    def _take(self, woven: Woven, measured: dict[Clique, NoisyMarginal]) -> None:
        agreed = reconcile(list(measured.values()), total=woven.total, rounds=60, tolerance=1e-4)
        woven.take(agreed.tables, list(measured.values()))

    def _choose(
        self,
        curator: Curator,
        woven: Woven,
        measured: dict[Clique, NoisyMarginal],
        cliques: list[Clique],
        look: float,
        share: float,
    ) -> dict[Clique, float]:
        """Return the cliques worth measuring, known columns and pairs among them, with their prices."""
        domain = curator.domain
        again = [m for m in measured.values() if len(m.clique) <= 2]
        known = [woven.tables[m.clique] for m in again]
        new, own = woven.expected(cliques)
        part = self._part(domain, [m.clique for m in again], measured)
        precision = np.array([m.precision for m in again])[:, None] * part
        errors = projected_error(profile(known), part / np.sqrt(precision))[:, 0]
        seen = curator.gaps([Marginal(c, t) for c, t in zip(cliques, new, strict=True)], look)
        if cliques:  # of many, those look largest whose noise is: what is left after one deviation is believed
            seen = np.maximum(seen - curator.sigma(look / len(cliques)), 0)
        # The chains' own sampling adds to a distance as an independent error does; and so do the errors of smaller
        # tables, which measuring what goes beyond them leaves as they are.
        beyond = np.array([self._asked(domain, c, measured) > 0 for c in cliques], np.bool_)
        below = beyond * (_contains(cliques, [m.clique for m in again]) @ errors**2)
        gaps = np.sqrt(np.maximum(seen**2 - own**2 - below, 0))
        if cliques and max(map(len, cliques)) > 3:
            kept = self._spread(cliques, gaps)
            cliques, new, gaps = [cliques[i] for i in kept], [new[i] for i in kept], gaps[kept]

        budget = curator.rho(share)
        prices = budget / 2.0 ** np.arange(12, step=0.5)
        fresh = self._part(domain, cliques, measured)
        bought = np.concatenate(
            [
                projected_error(profile(new), fresh / np.sqrt(2 * prices)),
                projected_error(profile(known), part / np.sqrt(precision + 2 * prices)),
            ]
        )
        offered = [*cliques, *(m.clique for m in again)]
        chosen = _choose_jointly(offered, np.concatenate([gaps, errors]), bought, prices, budget)
        return chosen or {m.clique: 1.0 for m in again}

    def _spread(self, cliques: list[Clique], gaps: Array) -> list[int]:
        """Return the candidates of largest gap that overlap little with each other."""
        kept: list[int] = []
        for i in np.argsort(-gaps, kind="stable").tolist():
            if all(len(set(cliques[i]) & set(cliques[j])) <= self.overlap for j in kept):
                kept.append(i)
        return kept[: self.most]


def _choose_jointly(
    offered: Sequence[Clique], left: Array, bought: Array, prices: Array, budget: float
) -> dict[Clique, float]:
    """Return the price of each clique that is worth one, for the least sum of errors.

    An error of a table is felt in every larger one that contains it, in quadrature with that one's own: it weighs as
    the derivative of sqrt(t^2 + sum e^2), t a table's error and e those inside. That depends on the choice: a few
    rounds.
    """
    contains = _contains(offered, offered)
    weight = np.ones(len(offered))
    levels = np.broadcast_to(prices, bought.shape)
    for _ in range(8):
        spent = choose(weight * left, weight[:, None] * bought, levels, budget)
        level = np.searchsorted(-prices, -spent)
        error = np.where(spent > 0, bought[np.arange(len(offered)), np.minimum(level, prices.size - 1)], left)
        whole = np.sqrt(error**2 + contains @ error**2)
        felt = error * (contains.T @ (1 / np.maximum(whole, 1e-9)))
        weight = np.sqrt(weight * (1 + felt))  # half a step: a whole one swings
    return {c: float(price) for c, price in zip(offered, spent, strict=True) if price > 0}


def _covered(cliques: Sequence[Clique], domain: Domain, least: int) -> float:
    """Return the share of pairs inside cliques of at least so many attributes, or of all there are."""
    inside = {pair for c in cliques if len(c) >= min(least, len(domain)) for pair in combinations(c, 2)}
    return len(inside) / max(math.comb(len(domain), 2), 1)


def _contains(cliques: Sequence[Clique], smaller: Sequence[Clique]) -> csr_array:
    """Return, of each clique, which of the others have some of its attributes, and no more: 1, in a sparse matrix."""
    at = {name: i for i, name in enumerate(sorted({name for c in (*cliques, *smaller) for name in c}))}

    def member(some: Sequence[Clique]) -> tuple[csr_array, Array]:
        sizes = np.array([len(c) for c in some], np.int64)
        places = np.array([at[name] for c in some for name in c], np.int64)
        return csr_array((np.ones(len(places)), places, np.r_[0, np.cumsum(sizes)]), shape=(len(some), len(at))), sizes

    (whole, size), (parts, sizes) = member(cliques), member(smaller)
    shared = (whole @ parts.T).tocoo()
    row, column = shared.coords
    inside = (shared.data == sizes[column]) & (sizes[column] < size[row])
    return csr_array((np.ones(inside.sum()), (row[inside], column[inside])), shape=shared.shape)


def _chains(domain: Domain, total: float) -> int:
    """Return the number of chains: a sweep over one record costs as much as the columns have values."""
    return int(np.clip(min(total, 1.2e7 / sum(domain.shape)), 5_000, 30_000))


def _pool(old: NoisyMarginal, new: NoisyMarginal) -> NoisyMarginal:
    """Return two measurements of one clique as one, weighted by precision."""
    weight = new.precision / (old.precision + new.precision)
    table = (1 - weight) * old.table + weight * new.table
    return replace(old, table=table, sigma=float((old.precision + new.precision) ** -0.5))
