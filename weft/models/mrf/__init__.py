"""Markov random fields on junction trees: trees, exact inference, fit to noisy marginals, sampling."""

from weft.models.mrf.estimate import estimate_total, fit
from weft.models.mrf.inference import Beliefs, Impossible, marginals
from weft.models.mrf.junction import MAX_CELLS, MAX_TOTAL, JunctionTree, ModelTooLarge, fits, grow_tree, junction_tree
from weft.models.mrf.model import MrfModel

__all__ = [
    "MAX_CELLS",
    "MAX_TOTAL",
    "Beliefs",
    "Impossible",
    "JunctionTree",
    "ModelTooLarge",
    "MrfModel",
    "estimate_total",
    "fit",
    "fits",
    "grow_tree",
    "junction_tree",
    "marginals",
]
