"""The last fit of recipes on a junction tree: our own, or the mirror descent of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from weft.bounds import Bounds
from weft.marginals.domain import Domain
from weft.marginals.marginal import NoisyMarginal
from weft.models.mrf import JunctionTree, MrfModel, Solver, fit
from weft.progress import Listener, silence

Passes = Annotated[int, Bounds(1, 1_000_000)]
"""Most passes of a fit."""

SOLVER = (
    'How the model is fitted: "accelerated", up to where noise would be fitted; or the published "mirror" descent, '
    "which goes on until the loss falls no more."
)
PASSES = "Mirror descent: most passes."


def fit_as(
    solver: Solver,
    passes: int,
    domain: Domain,
    tables: Sequence[NoisyMarginal],
    *,
    tree: JunctionTree,
    total: float | None = None,
    warm: MrfModel | None = None,
    probe: np.random.Generator | None = None,
    listener: Listener = silence,
) -> MrfModel:
    """Fit a model to noisy tables; a warm start is for mirror descent, a probe for the other (`fit`)."""
    if solver == "accelerated":
        return fit(domain, tables, total=total, tree=tree, probe=probe, listener=listener)
    return fit(
        domain,
        tables,
        total=total,
        tree=tree,
        warm=warm,
        solver="mirror",
        iterations=passes,
        tolerance=0.0,
        listener=listener,
    )
