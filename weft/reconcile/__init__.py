"""Make noisy tables agree, be non-negative and share one total. Post-processing: costs no privacy."""

from __future__ import annotations

from weft.marginals.pooling import common_total
from weft.reconcile.closure import intersection_closure
from weft.reconcile.consistency import Reconciled, consistent, reconcile
from weft.reconcile.simplex import simplex, simplex_each

__all__ = [
    "Reconciled",
    "common_total",
    "consistent",
    "intersection_closure",
    "reconcile",
    "simplex",
    "simplex_each",
]
