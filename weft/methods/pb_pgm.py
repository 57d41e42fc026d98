"""PB-PGM: PrivBayes' choice of families, fitted by a Markov random field (McKenna et al., ICML 2019, section 5).

Same choice and same noise as `privbayes`; only what is made of the noisy tables differs. A family that would make the
junction tree too large gives up parents, which is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.bounds import Cells, Factor, Share
from weft.curator import Curator
from weft.marginals.domain import Clique, Domain
from weft.methods.privbayes import PrivBayes, check_choices
from weft.methods.steps.columns import check_noise, check_shares
from weft.methods.steps.options import option
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, MrfModel, fit, fits, junction_tree
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage
from weft.reconcile import common_total


@dataclass(frozen=True)
class PbPgm:
    """A network chosen as PrivBayes does, and one Markov random field for all its tables."""

    completes_seeds: ClassVar[bool] = True

    accounting: Accounting = option(
        "pure", '"pure" for geometric noise and delta 0; "zcdp" for Gaussian noise on the tables, which is less.'
    )
    share_total: Share = option(0.01, "Share of the budget for the number of rows.")
    share_structure: Share = option(0.3, "Share for the structure; the rest goes to the tables of families.")
    theta: Factor = option(4.0, "A table may be so large that its average count is theta times the scale of its noise.")
    max_cells: Cells = option(MAX_CELLS, "Cells of the largest clique of the junction tree.")
    max_total: Cells = option(MAX_TOTAL, "Cells of the whole tree.")

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing, other accounting, and limits that not even single columns keep to."""
        check_shares(share_total=self.share_total, share_structure=self.share_structure)
        check_choices(self.accounting)
        junction_tree(domain, [], max_cells=self.max_cells, max_total=self.max_total)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> MrfModel:
        """Choose a network, keep what fits a tree, measure it, fit it."""
        check_noise(curator, share_total=(self.share_total, 1))
        rows, families = self._network().choose(curator, rng, listener)
        kept = self._narrowed(curator.domain, families)
        with stage(listener, "measure families"):
            noisy = curator.measure(kept, curator.left)
        tree = junction_tree(curator.domain, kept, max_cells=self.max_cells, max_total=self.max_total)
        total, _ = common_total([*noisy, rows])
        return fit(curator.domain, noisy, total=total, tree=tree, listener=listener)

    def _network(self) -> PrivBayes:
        return PrivBayes(
            accounting=self.accounting,
            share_total=self.share_total,
            share_structure=self.share_structure,
            theta=self.theta,
        )

    def _narrowed(self, domain: Domain, families: list[Clique]) -> list[Clique]:
        kept: list[Clique] = []
        placed: set[str] = set()
        for family in families:
            tree = junction_tree(domain, kept, max_cells=self.max_cells, max_total=self.max_total)
            parents = [name for name in family if name in placed]
            while parents and not fits(tree, family, max_cells=self.max_cells, max_total=self.max_total):
                largest = max(parents, key=domain.size)
                parents.remove(largest)
                family = tuple(name for name in family if name != largest)
            kept.append(family)
            placed.update(family)
        return kept
