"""Markov random fields on junction trees: exact inference, estimation from noisy marginals, sampling."""

from weft.models.conditional import ImpossibleEvidenceError
from weft.models.mrf.inference import CalibratedTree, calibrate_tree
from weft.models.mrf.junction_tree import MAX_CELLS, MAX_TOTAL, JunctionTree, ModelTooLarge, has_tree, junction_tree
from weft.models.mrf.mrf_fit import Solver, fit_mrf
from weft.models.mrf.mrf_model import MrfModel

__all__ = [
    "MAX_CELLS",
    "MAX_TOTAL",
    "CalibratedTree",
    "ImpossibleEvidenceError",
    "JunctionTree",
    "ModelTooLarge",
    "MrfModel",
    "Solver",
    "calibrate_tree",
    "fit_mrf",
    "has_tree",
    "junction_tree",
]
