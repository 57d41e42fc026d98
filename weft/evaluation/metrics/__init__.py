"""Metrics that compare a synthetic table with the real one.

Each is a function of two tables of encoded records over one domain, and of a seed if it draws random numbers.

Privacy: none. Results are computed from the real rows without noise: they are PRIVATE and for the curator only.
"""

from weft.evaluation.metrics.classification import Misclassification, svm_misclassification
from weft.evaluation.metrics.marginal_distances import (
    Coverage,
    KWay,
    associations,
    coverage,
    cramers_v,
    distances,
    k_way,
)
from weft.evaluation.metrics.range_query_error import Query, RangeQueries, draw_queries, range_queries, shares

__all__ = [
    "Coverage",
    "KWay",
    "Misclassification",
    "Query",
    "RangeQueries",
    "associations",
    "coverage",
    "cramers_v",
    "distances",
    "draw_queries",
    "k_way",
    "range_queries",
    "shares",
    "svm_misclassification",
]
