"""The last fit of recipes on a junction tree: our own, or the mirror descent of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_args

import numpy as np

from weft.bounds import Bounds
from weft.errors import MethodError
from weft.marginals.domain import Domain
from weft.marginals.marginal import Marginal, NoisyMarginal
from weft.marginals.reconciliation import reconcile
from weft.methods.common.options import Parts, check_fields, only_with
from weft.models.gum.gum_model import Decay, GumOptions, Strategy
from weft.models.mrf import JunctionTree, MrfModel, Solver, fit_mrf
from weft.progress import Listener, ignore_event

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
    listener: Listener = ignore_event,
) -> MrfModel:
    """Fit a model to noisy tables; a warm start is for mirror descent, a probe for the other (`fit_mrf`)."""
    if solver == "accelerated":
        return fit_mrf(domain, tables, total=total, tree=tree, probe=probe, listener=listener)
    return fit_mrf(
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


# The last step of recipes on a junction tree: fit what the tree holds, adjust the records to what it does not.


def fit_and_finish(
    tree: JunctionTree,
    known: Sequence[NoisyMarginal],
    noisy: Sequence[NoisyMarginal],
    rng: np.random.Generator,
    listener: Listener = ignore_event,
    total: float | None = None,
) -> MrfModel:
    """Fit the one-way tables `known` and what the tree holds of `noisy`; let records agree with the others too."""
    inside = [m for m in noisy if tree.home(m.clique) is not None]
    outside = [m for m in noisy if tree.home(m.clique) is None]
    model = fit_mrf(tree.domain, [*known, *inside], total=total, tree=tree, probe=rng, listener=listener)
    if not outside:
        # The field's own tables: what sampling has rounded away comes back.
        return replace(model, targets=tuple(Marginal(m.clique, model.marginal(m.clique)) for m in inside))
    # What the fit made of a table is closer to the rows than the table is: it has seen all the others.
    own = [NoisyMarginal(m.clique, model.marginal(m.clique), m.sigma / 2) for m in inside]
    agreed = reconcile([*own, *outside], total=model.total, rounds=60, tolerance=1e-4)
    return replace(model, targets=tuple(agreed.tables))


# GUM as an option of a recipe: which of its settings there are, and which of them count.

_ONE_MARGINAL = only_with("strategy", *(each for each in get_args(Strategy) if each != "guided"))
"""Alpha is of the papers' strategies, which update one marginal at a time."""

GUM = Parts(
    GumOptions,
    {
        "alpha": (_ONE_MARGINAL,),
        "decay": (_ONE_MARGINAL,),
        "rate": (_ONE_MARGINAL, only_with("decay", *(each for each in get_args(Decay) if each != "constant"))),
        "length": (_ONE_MARGINAL, only_with("decay", "step")),
    },
)
"""What a recipe's `gum` takes."""


def check_gum(given: Mapping[str, Any]) -> GumOptions:
    """Return the settings of the synthesis; refuse those that there are not."""
    check_fields("gum", given, GumOptions)
    try:
        return GumOptions(**given)
    except ValueError as error:
        raise MethodError(f"option gum: {error}") from None
