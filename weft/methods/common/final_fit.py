"""The last fit of methods on a junction tree, and GUM as an option of a method."""

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
"""Maximum passes of a fit."""

SOLVER = (
    'How the model is fitted: "accelerated", which stops before it fits noise; or the published "mirror" descent, '
    "which runs until the loss stops falling."
)
PASSES = "Mirror descent: maximum passes."


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
    """Fit a model; `warm` applies to mirror descent, `probe` to the accelerated solver (`fit_mrf`)."""
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


def fit_and_finish(
    tree: JunctionTree,
    known: Sequence[NoisyMarginal],
    noisy: Sequence[NoisyMarginal],
    rng: np.random.Generator,
    listener: Listener = ignore_event,
    total: float | None = None,
) -> MrfModel:
    """Fit `known` and the marginals of `noisy` inside the tree; sampled records are adjusted to the others."""
    inside = [m for m in noisy if tree.home(m.clique) is not None]
    outside = [m for m in noisy if tree.home(m.clique) is None]
    model = fit_mrf(tree.domain, [*known, *inside], total=total, tree=tree, probe=rng, listener=listener)
    if not outside:
        # Adjusting records to the model's own marginals removes rounding errors of sampling.
        return replace(model, targets=tuple(Marginal(m.clique, model.marginal(m.clique)) for m in inside))
    # The fitted marginals use all measurements, so they are closer to the data than the noisy ones.
    own = [NoisyMarginal(m.clique, model.marginal(m.clique), m.sigma / 2) for m in inside]
    agreed = reconcile([*own, *outside], total=model.total, rounds=60, tolerance=1e-4)
    return replace(model, targets=tuple(agreed.tables))


_ONE_MARGINAL = only_with("strategy", *(each for each in get_args(Strategy) if each != "guided"))
"""Alpha belongs to the published strategies, which update one marginal at a time."""

GUM = Parts(
    GumOptions,
    {
        "alpha": (_ONE_MARGINAL,),
        "decay": (_ONE_MARGINAL,),
        "rate": (_ONE_MARGINAL, only_with("decay", *(each for each in get_args(Decay) if each != "constant"))),
        "length": (_ONE_MARGINAL, only_with("decay", "step")),
    },
)
"""Settings of the option `gum`."""


def check_gum(given: Mapping[str, Any]) -> GumOptions:
    """Validate the option `gum` and return its settings."""
    check_fields("gum", given, GumOptions)
    try:
        return GumOptions(**given)
    except ValueError as error:
        raise MethodError(f"option gum: {error}") from None
