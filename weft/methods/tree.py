"""Tree: one look, one clique tree, one joint choice of marginals and budget.

The plan of google/dpsynth's SWIFT, in our own steps: the distances of all candidates from independence are released
once; pairs, strongest first, grow a junction tree within a size limit; of the candidates that the tree holds, the
subset is measured whose gain outweighs the noise when the budget is divided by cells^(2/3). Not adaptive, so it scales
to wide tables: three passes over the rows whatever the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.curator import Curator
from weft.domain import Clique, Domain
from weft.marginal import Marginal
from weft.methods.columns import check_shares, look_at_columns
from weft.models.independent import IndependentModel
from weft.models.mrf import JunctionTree, fit, grow_tree
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total, simplex
from weft.select import all_subsets, allocate, best_subset


@dataclass(frozen=True)
class Tree:
    """A clique tree chosen in one look, measured in one pass; quick on wide tables."""

    accounting: Accounting = "gaussian"
    """"gaussian", or "paper" for zCDP with the closed form."""
    ways: int | None = None
    """Most columns of a marginal. None: 3 if at least half the columns have 4 codes or fewer, else 2."""
    one_way: float = 0.1
    """Share of the budget for one-way marginals."""
    look: float = 0.1
    """Share for the distances of all candidates from independence."""
    rare: float = 3.0
    """Values whose noisy count is below this many standard deviations are merged."""
    max_candidates: int = 20_000
    """Most candidates; of more, the marginals with the fewest cells."""
    max_table: int = 10**5
    """Cells of the largest marginal measured."""
    max_cells: int = 10**6
    """Cells of the largest clique of the junction tree."""
    max_total: int = 4 * 10**6
    """Cells of the whole tree."""
    penalties: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    """Counts taken off a pair for each of its cells when pairs are ranked; the tree that holds most is kept."""

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for the marginals."""
        check_shares(one_way=self.one_way, look=self.look)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """One-way marginals, one look, one tree, one choice, one fit."""
        columns = look_at_columns(curator, self.one_way, self.rare, listener)
        merged = columns.curator
        total = max(common_total(columns.tables)[0], 1.0)
        alone = IndependentModel(merged.domain, total, tuple(simplex(m.table, total) for m in columns.tables))
        with stage(listener, "look at candidates"):
            candidates = self._candidates(merged.domain)
            guesses = [Marginal(c, alone.marginal(c)) for c in candidates]
            gaps = dict(zip(candidates, merged.gaps(guesses, share=self.look).tolist(), strict=True))
        with stage(listener, "grow the tree"):
            tree = self._tree(merged.domain, gaps)
            held = [c for c in candidates if tree.home(c) is not None]
            cells = [merged.domain.cells(c) for c in held]
            chosen = [held[i] for i in best_subset([gaps[c] for c in held], cells, merged.rho(merged.left))]
        with stage(listener, "measure marginals"):
            asked = chosen or [m.clique for m in columns.tables]
            weights = [float(w) for w in allocate([merged.domain.cells(c) for c in asked], 1.0)]
            noisy = merged.measure(asked, share=merged.left, weights=weights)
        return columns.unfold(fit(merged.domain, [*columns.tables, *noisy], tree=tree, listener=listener))

    def _candidates(self, domain: Domain) -> list[Clique]:
        ways = self.ways or (3 if np.median(domain.shape) <= 4 else 2)
        found = all_subsets(domain, min(ways, len(domain)), self.max_table)
        return sorted(sorted(found, key=domain.cells)[: self.max_candidates])

    def _tree(self, domain: Domain, gaps: dict[Clique, float]) -> JunctionTree:
        """Return the tree, over several prices of a cell, that holds the largest sum of pairs' distances."""
        pairs = [c for c in gaps if len(c) == 2]

        def grown(price: float) -> JunctionTree:
            value = {c: gaps[c] - price * domain.cells(c) for c in pairs}
            ranked = sorted((c for c in pairs if value[c] > 0), key=lambda c: (-value[c], c))
            return grow_tree(domain, ranked, max_cells=self.max_cells, max_total=self.max_total)

        def held(tree: JunctionTree) -> float:
            return sum(gaps[c] for c in pairs if tree.home(c) is not None)

        return max((grown(price) for price in self.penalties), key=held)
