"""What weave offers to each batch: pairs first, then triples or larger cliques where noise allows them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import compute_interaction_norm
from weft.marginals.noise_error import compute_expected_noise
from weft.methods.weave.tuning import WeaveTuning

MAX_TRIPLES = 2000
"""Triples up to which all of them are looked at: those of 23 columns."""

MAX_RANDOM_CELLS = 20_000
"""Cells of a clique that is drawn at random, at most. Where millions of rows would allow more, a model of such tables
takes gigabytes, and a record waits for their cells."""

MAX_TRIPLE_ROWS = 3e9
"""Triples times (noisy) rows up to which triples are measured. A record of chains costs about a tenth of a microsecond
for each of its tables: this is some minutes."""


@dataclass(frozen=True)
class Batches:
    """Which candidates each batch is offered, and its share of what the columns left."""

    order: int
    """Highest order of the measured cliques."""
    max_cells: int
    """Largest table that is measured."""
    tuning: WeaveTuning

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
        sigma = float(curator.sigma_of(curator.rho(left / 2) / self.tuning.batch_cliques))
        larger = self.larger_cliques(domain, total, sigma, rng)
        triples = self._triples(domain, larger, total)
        higher = (1 + any(len(c) > 4 for c in larger)) if self.tuning.batches is None else self.tuning.batches
        if triples:
            yield pairs, left * self.tuning.part_pairs
            yield [c for c in triples if c not in measured], left * (1 - self.tuning.part_pairs)
        elif not higher or _compute_covered_share(larger, domain, 4) < 1 / 3:
            yield pairs, left
        else:
            yield pairs, left * self.tuning.part_pairs
            for _ in range(higher):
                yield [c for c in larger if c not in measured], left * (1 - self.tuning.part_pairs) / higher
                larger = self.larger_cliques(domain, total, sigma, rng)

    def _triples(self, domain: Domain, larger: Sequence[Clique], total: float) -> list[Clique]:
        """Return all triples where noise allows most of them, and not everywhere more than that; none otherwise.

        Then every one can be looked at, and what goes beyond pairs costs little. Where noise allows larger cliques
        everywhere, a few of those tell more; and so they must where a record for each of very many rows would have to
        be held against a thousand tables.
        """
        triples = math.comb(len(domain), 3)
        few = triples <= MAX_TRIPLES and triples * total <= MAX_TRIPLE_ROWS and self.tuning.batches != 0
        if (
            few
            and _compute_covered_share(larger, domain, 3) >= 0.8
            and _compute_covered_share(larger, domain, 4) < 0.95
        ):
            return self._subsets(domain, 3)
        return []

    def _subsets(self, domain: Domain, order: int) -> list[Clique]:
        return [c for c in combinations(sorted(domain), order) if domain.cells(c) <= self.max_cells]

    def larger_cliques(self, domain: Domain, total: float, sigma: float, rng: np.random.Generator) -> list[Clique]:
        """Return random cliques of 3 to `order` attributes, each as large as noise allows that is `sigma` in a cell.

        As if pairs were known: where none is, a clique is asked whole, and the menu knows.
        """
        found: dict[Clique, None] = {}
        for _ in range(4 * self.tuning.candidates):
            taken: list[str] = []
            for i in rng.permutation(len(domain)):
                if len(taken) == self.order:
                    break
                tried = make_clique([*taken, domain.names[i]])
                sizes = domain.sizes(tried)
                cells = math.prod(sizes)
                if cells > min(self.max_cells, MAX_RANDOM_CELLS):
                    continue
                # The interactions of all orders together are the whole: if that is not too noisy, no part of it is.
                whole = float(compute_expected_noise(cells, sigma)) / 2
                most = self.tuning.clique_error / 2 * total
                if whole <= most or whole * compute_interaction_norm(sizes, 3) <= most:
                    taken = list(tried)
            if len(taken) > 2:
                found[tuple(taken)] = None
            if len(found) == self.tuning.candidates:
                break
        return list(found)


def _compute_covered_share(cliques: Sequence[Clique], domain: Domain, least: int) -> float:
    """Return the share of pairs inside cliques of at least so many attributes, or of all there are."""
    inside = {pair for c in cliques if len(c) >= min(least, len(domain)) for pair in combinations(c, 2)}
    return len(inside) / max(math.comb(len(domain), 2), 1)
