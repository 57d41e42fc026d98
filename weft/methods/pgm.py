"""PGM (McKenna, Sheldon, Miklau; ICML 2019): a Markov random field fitted to marginals that the user names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, clique
from weft.methods.steps.columns import check_noise, check_shares, look_at_columns
from weft.methods.steps.given import check_emphasis, check_given, weighed
from weft.methods.steps.options import option
from weft.methods.steps.sharing import by_size
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, fit, grow_tree, junction_tree
from weft.models.recoded import RecodedModel
from weft.privacy import Accounting
from weft.progress import Listener, silence, stage


@dataclass(frozen=True)
class Pgm:
    """Measure the marginals you name (default: neighbouring columns), weighted as you say, and fit one model."""

    completes_seeds: ClassVar[bool] = True

    marginals: Sequence[Sequence[str]] = option(
        (), "The marginals to measure. Empty: each column with the next, in the schema's order."
    )
    weights: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Their parts of the budget. Empty: by cells^(2/3), or their root if pure, for the least expected error."
    )
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "Without weights: factors on the parts that go by size. Empty: all 1."
    )
    accounting: Accounting = option(
        "gaussian", '"gaussian"; "paper" for zCDP with the closed form; "pure" for geometric noise.'
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(0.0, "And so are values with fewer rows than this.")
    max_cells: Cells = option(MAX_CELLS, "Cells of the largest clique of the junction tree; more is refused.")
    max_total: Cells = option(MAX_TOTAL, "Cells of the whole tree.")

    def check(self, domain: Domain) -> None:
        """Refuse unknown columns, and a tree that would not fit, before anything is spent."""
        check_shares(share_columns=self.share_columns)
        check_given(domain, self.marginals, self.emphasis)
        if self.weights and len(self.weights) != len(self.marginals):
            raise MethodError("weights needs one positive number for each of the marginals.")
        if self.weights and self.emphasis:
            raise MethodError(
                "weights are parts of the budget, and emphasis factors on those by size: give one of them."
            )
        if self.marginals:
            # Merging rare values only makes tables smaller, so what fits now will fit then.
            junction_tree(domain, self._cliques(domain), max_cells=self.max_cells, max_total=self.max_total)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> RecodedModel:
        """One-way marginals, the named ones, the model."""
        check_noise(curator, share_columns=(self.share_columns, len(curator.domain)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns)
        if self.weights:
            # Measured are all marginals that are named, with these weights, or else with even ones.
            check_noise(curator, weights=((1 - self.share_columns) * min(self.weights) / math.fsum(self.weights), 1))
        columns = look_at_columns(curator, self.share_columns, self.rare, listener, self.rare_rows)
        merged = columns.curator
        tree = grow_tree(
            merged.domain, self._cliques(merged.domain), max_cells=self.max_cells, max_total=self.max_total
        )
        cliques = list(tree.given) or [m.clique for m in columns.tables]
        with stage(listener, "measure marginals"):
            named = weighed(merged.domain, self.marginals, self.emphasis, merged.accounting)
            sized = (
                list(named.values())
                if list(named) == cliques
                else by_size([merged.domain.cells(c) for c in cliques], merged.accounting)
            )
            weights = self.weights if len(self.weights) == len(cliques) else sized
            noisy = merged.measure(cliques, share=merged.left, weights=weights)
        # The estimate that a probed fit stops by is proved for Gaussian noise.
        probe = None if merged.accounting == "pure" else rng
        return columns.unfold(fit(merged.domain, [*columns.tables, *noisy], tree=tree, probe=probe, listener=listener))

    def _cliques(self, domain: Domain) -> list[Clique]:
        named = [clique(names) for names in self.marginals]
        chain = [clique(pair) for pair in zip(domain.names, domain.names[1:], strict=False)]
        return named or chain or [clique(domain.names)]
