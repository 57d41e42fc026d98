"""Weave's settings that are for whoever studies the method: what a user sets stands in the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weft.bounds import Bounds, Share
from weft.marginals.domain import Clique, Domain


@dataclass(frozen=True)
class WeaveTuning:
    """How weave divides what the columns left, how far it looks, and how long its chains run."""

    share_total: Share = 0.02
    """Share of the budget for the number of rows."""
    part_marginals: Share = 0.1
    """With given marginals: the part of the first batch that they get at least, by their sizes; the rest goes to them
    and to others by what each is worth."""
    batches: Annotated[int | None, Bounds(0, 100)] = None
    """Batches after the pairs, if noise allows cliques of four attributes (of three, if there are no more) that cover
    at least a third of all pairs; None: two if some have more than four, otherwise one. 0: pairs only."""
    columns_by_size: Annotated[float, Bounds(0.0, 1.0)] = 1 / 3
    """A column's part of the share for columns grows with its number of values to this power; 0: all get the same."""
    column_error: Annotated[float, Bounds(0.0, 10.0)] = 0.025
    """Total variation error of a column that is accepted before anything else is measured."""
    columns_only_error: Annotated[float, Bounds(0.0, 10.0)] = 0.15
    """Error of the columns above which nothing but columns is measured."""
    clique_error: Annotated[float, Bounds(0.0, 10.0)] = 0.03
    """Total variation error that noise may leave in a clique of higher order."""
    part_scores: Share = 0.05
    """Part of a batch's share that asks how far the model is from each candidate."""
    caution: Annotated[float, Bounds(0.0, 2.0)] = 0.5
    """In batches of pairs, or of triples alone: deviations of what is not known of a distance by which it is believed
    to be smaller."""
    part_pairs: Share = 0.5
    """Part of what the columns left that is spent on the batch of pairs, if there are others."""
    batch_cliques: Annotated[int, Bounds(1, 10000)] = 30
    """Cliques of more than three attributes measured in one batch."""
    shrink: bool = True
    """Whether a measured pair is taken between the answer and what was expected of it, by the variances of both."""
    overlap: Annotated[int, Bounds(0, 100)] = 3
    """Attributes that two cliques of one batch may share: what both would tell is gained once only."""
    candidates: Annotated[int, Bounds(1, 10000)] = 150
    """Cliques of higher order looked at in one batch, drawn at random; every look makes the others noisier."""
    max_tree: Annotated[int, Bounds(0, 1 << 28)] = 1 << 21
    """Cells of the largest junction tree that takes the chains' place where it holds all that was measured; 0: none."""
    chains: Annotated[int | None, Bounds(1, 10_000_000)] = None
    """Number of chains; None: the noisy number of rows, within 5,000 and 30,000, fewer where columns are wide."""
    matching_rounds: Annotated[int | None, Bounds(1, 10000)] = None
    """Chains: rounds of moment matching in a batch, and once more at the end; None: 6, and 12 where there are over 30
    columns, or over 1,000 values in all."""
    sweeps: Annotated[int | None, Bounds(0, 10000)] = None
    """Chains: Gibbs sweeps from the forest to a record; None: 4, 12 where there are over 30 columns, and 2 where these
    have over 1,000 values in all."""
    herding: Annotated[int | None, Bounds(0, 10000)] = None
    """Sweeps with feedback at the end; 0: records as they are drawn, also from a tree; None: 2, and 3 where there are
    over 1,000 values."""
    feedback: Annotated[float | None, Bounds(0.001, 1000.0)] = None
    """Chains: strength of that feedback towards a table without noise; the noisier a table, the less it is followed.
    None: 0.2."""
    drawn: Annotated[int, Bounds(1, 100)] = 8
    """Records drawn for each that is kept: those are kept whose pairs and triples are nearest to those of all."""

    def column_prices(self, domain: Domain) -> dict[Clique, float]:
        """Return what each column alone is worth."""
        return {(name,): float(domain.size(name)) ** self.columns_by_size for name in domain}

    def effort(self, domain: Domain) -> tuple[int, int, int]:
        """Return matching rounds, sweeps and herding: as given, or by how wide the columns are."""
        wide, many = sum(domain.shape) > 1000, len(domain) > 30
        # Sweeps cost more where columns are wide; many columns take longer to mix.
        usual = (12, 2, 3) if wide else (12, 12, 2) if many else (6, 4, 2)
        given = (self.matching_rounds, self.sweeps, self.herding)
        rounds, sweeps, herding = (u if g is None else g for g, u in zip(given, usual, strict=True))
        return int(rounds), int(sweeps), int(herding)

    def number_of_chains(self, domain: Domain, total: float) -> int:
        """Return the number of chains: a sweep over one record costs as much as the columns have values."""
        usual = min(max(min(total, 1.2e7 / sum(domain.shape)), 5_000), 30_000)
        return int(usual) if self.chains is None else self.chains
