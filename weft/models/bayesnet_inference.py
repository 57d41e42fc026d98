"""Exact sampling from a Bayesian network under evidence, by a junction tree of its families."""

from __future__ import annotations

from collections.abc import Sequence

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.models.conditional import Evidence, Sampler, compute_log_weights
from weft.models.mrf.inference import Calibrated, calibrate_tree
from weft.models.mrf.junction_tree import ModelTooLarge, junction_tree


def condition_network(domain: Domain, families: Sequence[tuple[Clique, Array]], evidence: Evidence) -> Sampler | None:
    """Return a sampler for the product of conditional tables under evidence; None if its tree is too large."""
    potentials: dict[Clique, Array] = {}
    for c, table in [*families, *(((name,), weights) for name, weights in evidence.items())]:
        potentials[c] = potentials.get(c, 0.0) + compute_log_weights(table)
    try:
        tree = junction_tree(domain, potentials)
    except ModelTooLarge:
        return None
    return Calibrated(calibrate_tree(tree, potentials, 1.0))
