"""Markov random fields on junction trees: trees, exact inference, fit to noisy marginals, sampling."""

from weft.models.evidence import Impossible
from weft.models.mrf.estimate import Solver, fit
from weft.models.mrf.inference import Beliefs, marginals
from weft.models.mrf.junction import (
    MAX_CELLS,
    MAX_TOTAL,
    JunctionTree,
    ModelTooLarge,
    fits,
    grow_tree,
    has_tree,
    junction_tree,
    priced_tree,
)
from weft.models.mrf.model import MrfModel

__all__ = [
    "MAX_CELLS",
    "MAX_TOTAL",
    "Beliefs",
    "Impossible",
    "JunctionTree",
    "ModelTooLarge",
    "MrfModel",
    "Solver",
    "fit",
    "fits",
    "grow_tree",
    "has_tree",
    "junction_tree",
    "marginals",
    "priced_tree",
]
