"""Records of a Bayesian network under evidence: exact, by way of a junction tree of its families."""

from __future__ import annotations

from collections.abc import Sequence

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.models.evidence import Evidence, Sampler, logarithms
from weft.models.mrf.inference import marginals
from weft.models.mrf.junction import ModelTooLarge, junction_tree
from weft.models.mrf.sample import Calibrated


def under(domain: Domain, families: Sequence[tuple[Clique, Array]], evidence: Evidence) -> Sampler | None:
    """Return what draws from the product of conditional tables under evidence; None if its tree is too large."""
    potentials: dict[Clique, Array] = {}
    for c, table in [*families, *(((name,), weights) for name, weights in evidence.items())]:
        potentials[c] = potentials.get(c, 0.0) + logarithms(table)
    try:
        tree = junction_tree(domain, potentials)
    except ModelTooLarge:
        return None
    return Calibrated(marginals(tree, potentials, 1.0))
