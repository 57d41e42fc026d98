"""Candidates of each batch of weave: pairs, then triples or larger cliques where the noise allows them."""

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
"""Maximum number of triples that are all scored: those of 23 attributes."""

MAX_RANDOM_CELLS = 20_000
"""Maximum cells of a random clique. Millions of rows would allow more, but models of such tables take gigabytes and
sampling is slow."""

MAX_TRIPLE_ROWS = 3e9
"""Maximum product of triples and (noisy) rows at which triples are measured. A record of the Gibbs chains takes about a
tenth of a microsecond per table: this is some minutes."""


@dataclass(frozen=True)
class Batches:
    """Candidates of each batch, and its share of the budget left after the one-way marginals."""

    order: int
    """Maximum attributes of a measured clique."""
    max_cells: int
    """Maximum cells of a measured table."""
    tuning: WeaveTuning

    def plan(
        self,
        curator: Curator,
        measured: Collection[Clique],
        total: float,
        left: float,
        rng: np.random.Generator,
    ) -> Iterator[tuple[list[Clique], float]]:
        """Yield the candidates and the share of each batch; the shares sum to `left`."""
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
        """Return all triples if the noise allows most of them but not larger cliques everywhere; otherwise none.

        All triples can then be scored, and their interaction terms are cheap. Where larger cliques are possible
        everywhere, a few of them are more informative; with very many rows, fitting a thousand tables takes too long.
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
        """Return random cliques of 3 to `order` attributes, each as large as noise of `sigma` per cell allows.

        Assumes that pairs were measured; where they were not, whole tables are measured and priced in the selection.
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
                # If the whole table is not too noisy, none of its interaction terms are.
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
    """Return the share of pairs inside cliques of at least `least` attributes (or of all attributes, if fewer)."""
    inside = {pair for c in cliques if len(c) >= min(least, len(domain)) for pair in combinations(c, 2)}
    return len(inside) / max(math.comb(len(domain), 2), 1)
