"""Weave's internal settings, for experiments; the options for users are in weave.py."""

from dataclasses import dataclass
from typing import Annotated

from weft.bounds import Bounds, Share
from weft.marginals.domain import Clique, Domain


@dataclass(frozen=True)
class WeaveTuning:
    """Division of the budget among batches, limits on candidates, and length of the Gibbs chains."""

    share_total: Share = 0.02
    """Share of the budget for the number of rows."""
    part_marginals: Share = 0.1
    """With required marginals: their minimum part of the first batch, divided by size; the joint selection divides the
    rest among all candidates."""
    batches: Annotated[int | None, Bounds(0, 100)] = None
    """Batches after the pairs, if the noise allows cliques of four attributes (or of all, if fewer) that cover at least
    a third of all pairs; None: two if some have more than four attributes, otherwise one. 0: pairs only."""
    columns_by_size: Annotated[float, Bounds(0.0, 1.0)] = 1 / 3
    """An attribute's part of the share for one-way marginals grows with this power of its size; 0: equal parts."""
    column_error: Annotated[float, Bounds(0.0, 10.0)] = 0.025
    """Target total variation error of the one-way marginals before other marginals are measured."""
    columns_only_error: Annotated[float, Bounds(0.0, 10.0)] = 0.15
    """Error of the one-way marginals above which only these are measured."""
    clique_error: Annotated[float, Bounds(0.0, 10.0)] = 0.03
    """Maximum total variation error, due to noise, of a clique of higher order."""
    part_scores: Share = 0.05
    """Part of a batch's share for the distances of the model from the candidates."""
    caution: Annotated[float, Bounds(0.0, 2.0)] = 0.5
    """In batches of pairs or triples: posterior standard deviations subtracted from an estimated distance."""
    part_pairs: Share = 0.5
    """Part of the budget after the one-way marginals for the batch of pairs, if there are others."""
    batch_cliques: Annotated[int, Bounds(1, 10000)] = 30
    """Maximum cliques of more than three attributes measured in one batch."""
    shrink: bool = True
    """Whether measured pairs are shrunk towards their expected tables (`PairShrinkage`)."""
    overlap: Annotated[int, Bounds(0, 100)] = 3
    """Maximum attributes that two cliques of a batch share: their common marginals are gained only once."""
    candidates: Annotated[int, Bounds(1, 10000)] = 150
    """Random cliques of higher order scored in one batch; every score makes the others noisier."""
    searches: Annotated[int, Bounds(0, 100)] = 3
    """Maximum draws of the search for cliques of high order (`ParitySearch`); 0: no search."""
    share_search: Share = 0.005
    """Share of the budget of each draw."""
    share_found: Share = 0.01
    """Minimum share of the budget for each clique that the search finds."""
    max_tree: Annotated[int, Bounds(0, 1 << 28)] = 1 << 21
    """Maximum cells of a junction tree that replaces the chains if it covers all measurements; 0: never."""
    chains: Annotated[int | None, Bounds(1, 10_000_000)] = None
    """Number of chains; None: the noisy number of rows, within 5,000 and 30,000, fewer for wide attributes."""
    matching_rounds: Annotated[int | None, Bounds(1, 10000)] = None
    """Chains: rounds of moment matching per batch and at the end; None: 6, or 12 if >30 attributes or >1,000 values."""
    sweeps: Annotated[int | None, Bounds(0, 10000)] = None
    """Chains: Gibbs sweeps from the forest to a record; None: 4, or 12 if >30 attributes, or 2 if >1,000 values."""
    herding: Annotated[int | None, Bounds(0, 10000)] = None
    """Sweeps with feedback at the end; 0: none, and no adjustment with a tree; None: 2, or 3 if >1,000 values."""
    feedback: Annotated[float | None, Bounds(0.001, 1000.0)] = None
    """Chains: strength of that feedback for a table without noise, less for noisier tables; None: 0.2."""
    drawn: Annotated[int, Bounds(1, 100)] = 8
    """Records sampled per kept record; the subset whose pairs and triples are closest to those of all is kept."""

    def column_prices(self, domain: Domain) -> dict[Clique, float]:
        """Return the relative price of each one-way marginal."""
        return {(name,): float(domain.size(name)) ** self.columns_by_size for name in domain}

    def effort(self, domain: Domain) -> tuple[int, int, int]:
        """Return matching rounds, sweeps and herding: as set, or by number and size of the attributes."""
        wide, many = sum(domain.shape) > 1000, len(domain) > 30
        # Sweeps cost more for wide attributes; many attributes mix more slowly.
        usual = (12, 2, 3) if wide else (12, 12, 2) if many else (6, 4, 2)
        given = (self.matching_rounds, self.sweeps, self.herding)
        rounds, sweeps, herding = (u if g is None else g for g, u in zip(given, usual, strict=True))
        return int(rounds), int(sweeps), int(herding)

    def number_of_chains(self, domain: Domain, total: float) -> int:
        """Return the number of chains; the cost of a sweep over one record is the total number of values."""
        usual = min(max(min(total, 1.2e7 / sum(domain.shape)), 5_000), 30_000)
        return int(usual) if self.chains is None else self.chains
