"""A Bayesian network of measured tables that keeps to what the tables say.

A table over parents and child also says how the parents go together, and so do the families before it: where no
earlier family holds all of them, the two differ. Drawn from the table's plain conditional distributions, the child
would then follow its own measured marginal no longer, nor its pairs with each parent. So the table is raked first
(iterative proportional fitting): to the parents as the network makes them, and to its own pairs of child and parent. By
induction every attribute, and every pair of a child and its parent, is distributed as measured; the higher interactions
stay those of the table. Post-processing: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array, Marginal
from weft.models.apportion import apportion_groups
from weft.models.bayesnet.model import BayesNet, conditional

WORKED = 1 << 18
"""Records on which it is counted how parents go together in the network."""

ROUNDS = 20
"""Rounds of raking; what is left after them is far below any noise."""


def fit_network(domain: Domain, total: float, tables: Sequence[Marginal], rng: np.random.Generator) -> BayesNet:
    """Make a network of non-negative tables in order, as `BayesNet.of` does, after raking each to those before it."""
    columns: dict[str, Array] = {}
    fitted = []
    for table in tables:
        old = tuple(name for name in table.clique if name in columns)
        new = tuple(name for name in table.clique if name not in columns)
        group = np.zeros(WORKED, np.int64)
        for name in old:
            group = group * domain.size(name) + columns[name]
        order = [table.clique.index(name) for name in (*old, *new)]
        counts = np.transpose(table.table, order).reshape(*domain.sizes(old), domain.cells(new))
        if len(old) > 1 and counts.sum() > 0:
            met = np.bincount(group, minlength=domain.cells(old)).reshape(domain.sizes(old))
            counts = rake(counts / counts.sum(), met / WORKED)
        cells = apportion_groups(conditional(counts.reshape(-1, domain.cells(new))), group, rng)
        columns |= dict(zip(new, np.unravel_index(cells, domain.sizes(new)), strict=True)) if new else {}
        back = np.transpose(counts.reshape(domain.sizes((*old, *new))), np.argsort(order))
        fitted.append(Marginal(table.clique, back))
    return BayesNet.of(domain, total, fitted)


def rake(table: Array, parents: Array) -> Array:
    """Scale a table, child last, to a distribution of its parents and to its own pairs of child and each parent."""
    others = [tuple(k for k in range(parents.ndim) if k != i) for i in range(parents.ndim)]
    pairs = [table.sum(axis=axes, keepdims=True) for axes in others]
    for _ in range(ROUNDS):
        for axes, pair in zip(others, pairs, strict=True):
            table = table * _ratio(pair, table.sum(axis=axes, keepdims=True))
        table = table * _ratio(parents[..., None], table.sum(axis=-1, keepdims=True))
    return table


def _ratio(wanted: Array, found: Array) -> Array:
    """Return wanted / found; 0 where nothing is found, for nothing can be scaled there."""
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)
