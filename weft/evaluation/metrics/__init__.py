"""Metrics that compare a synthetic table with the real one.

Each is a function of two tables of encoded records over one domain, and of a seed if it draws random numbers.

Privacy: none. Results are computed from the real rows without noise: they are PRIVATE and for the curator only.
"""

from __future__ import annotations

from weft.evaluation.metrics.association import (
    MatrixDifference,
    association_difference,
    associations,
    correlation_difference,
    correlations,
    cramers_v,
)
from weft.evaluation.metrics.classification import (
    LINEAR,
    TREES,
    AttributeAccuracy,
    Classification,
    Classifier,
    Distinguishing,
    Misclassification,
    attribute_accuracy,
    classify,
    distinguishing,
    svm_misclassification,
)
from weft.evaluation.metrics.inequality import GiniGap, gini_gap
from weft.evaluation.metrics.marginal_distances import (
    Coverage,
    KWay,
    PairwiseL1,
    coverage,
    distances,
    k_way,
    nist_density,
    pairwise_l1,
)
from weft.evaluation.metrics.range_query_error import (
    Query,
    RangeQueries,
    draw_queries,
    nist_range,
    range_queries,
    shares,
)
from weft.evaluation.metrics.scorecard import scorecard

__all__ = [
    "LINEAR",
    "TREES",
    "AttributeAccuracy",
    "Classification",
    "Classifier",
    "Coverage",
    "Distinguishing",
    "GiniGap",
    "KWay",
    "MatrixDifference",
    "Misclassification",
    "PairwiseL1",
    "Query",
    "RangeQueries",
    "association_difference",
    "associations",
    "attribute_accuracy",
    "classify",
    "correlation_difference",
    "correlations",
    "coverage",
    "cramers_v",
    "distances",
    "distinguishing",
    "draw_queries",
    "gini_gap",
    "k_way",
    "nist_density",
    "nist_range",
    "pairwise_l1",
    "range_queries",
    "scorecard",
    "shares",
    "svm_misclassification",
]
