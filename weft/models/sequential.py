"""Models whose attributes can be drawn one after another, exactly: what a record grown from a seed needs.

A seed's first attributes are kept and the others drawn given them, by the model's own conditional distribution. A
Bayesian network does this as it is. A junction tree is one: its cliques come parents first, and by the
running-intersection property the new attributes of a clique depend on nothing before them but the separator. Columns on
their own are one without parents. Merged values are told apart given the merged value alone, which is what other
attributes see of it: a bucket. So all of these become a `BayesNet` of the same distribution, and the privacy test need
not know which it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import MethodError
from weft.marginals.domain import Clique
from weft.marginals.marginal import Marginal
from weft.models import Model, Sequential
from weft.models.bayesnet.model import BayesNet, Family, conditional


def sequential(model: Model) -> BayesNet:
    """Return a model as a Bayesian network with the same distribution; MethodError if it cannot be had exactly."""
    if isinstance(model, Sequential):
        return model.network()
    raise MethodError(
        f"a {model.kind} model has no exact conditional distributions, so no record can be grown from a seed "
        "by it: choose another method's, such as mst, privbayes or bsg's own"
    )


def chained(model: Model, cliques: Sequence[Clique]) -> BayesNet:
    """Return the network in which the new attributes of each clique, one after another, follow the others in it."""
    families: list[Family] = []
    seen: set[str] = set()
    for c in cliques:
        table = Marginal(c, model.marginal(c))
        for child in (name for name in c if name not in seen):
            seen.add(child)
            part = table.project([name for name in c if name in seen])
            parents = tuple(name for name in part.clique if name != child)
            counts = np.moveaxis(part.table, part.clique.index(child), -1).reshape(-1, model.domain.size(child))
            families.append(Family(child, parents, conditional(counts)))
    return BayesNet(model.domain, model.total, tuple(families))
