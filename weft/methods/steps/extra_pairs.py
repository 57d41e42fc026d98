"""The last step of recipes on a junction tree: fit what the tree holds, adjust the records to what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.models.mrf import JunctionTree, MrfModel, fit
from weft.progress import Listener, silence
from weft.reconcile import reconcile


def fit_and_finish(
    tree: JunctionTree,
    known: Sequence[NoisyMarginal],
    noisy: Sequence[NoisyMarginal],
    rng: np.random.Generator,
    listener: Listener = silence,
    total: float | None = None,
) -> MrfModel:
    """Fit the one-way tables `known` and what the tree holds of `noisy`; let records agree with the others too."""
    inside = [m for m in noisy if tree.home(m.clique) is not None]
    outside = [m for m in noisy if tree.home(m.clique) is None]
    model = fit(tree.domain, [*known, *inside], total=total, tree=tree, probe=rng, listener=listener)
    if not outside:
        # The field's own tables: what sampling has rounded away comes back.
        return replace(model, targets=tuple(Marginal(m.clique, model.marginal(m.clique)) for m in inside))
    # What the fit made of a table is closer to the rows than the table is: it has seen all the others.
    own = [NoisyMarginal(m.clique, model.marginal(m.clique), m.sigma / 2) for m in inside]
    agreed = reconcile([*own, *outside], total=model.total, rounds=60, tolerance=1e-4)
    return replace(model, targets=tuple(agreed.tables))
