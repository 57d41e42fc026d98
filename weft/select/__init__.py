"""Which marginals to measure, with how much of the budget. Works on noisy scores only: costs no privacy."""

from __future__ import annotations

from weft.marginals.spanning import spanning_tree
from weft.select.allocation import allocate, best_subset, cover, equal
from weft.select.candidates import all_subsets, best_families, useful_subsets
from weft.select.combine import combine_cliques
from weft.select.dense import Trace, dense_marginals, dense_trace
from weft.select.implied_tree import implied_tree
from weft.select.sparse import sparse_network

__all__ = [
    "Trace",
    "all_subsets",
    "allocate",
    "best_families",
    "best_subset",
    "combine_cliques",
    "cover",
    "dense_marginals",
    "dense_trace",
    "equal",
    "implied_tree",
    "spanning_tree",
    "sparse_network",
    "useful_subsets",
]
