"""Correlation-based feature selection: the structure of BSG's Bayesian network (PVLDB 2017, section 3.3).

How much two attributes tell of each other is their symmetric uncertainty. A set of parents P of attribute i has the
merit sum_j corr(i, j) / sqrt(|P| + sum_{j != k} corr(j, k)): good parents tell much of the child and little of each
other. Works on noisy entropies only: costs no privacy.
"""

from __future__ import annotations

import math

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array


def symmetric_uncertainty(joint: float, one: float, other: float) -> float:
    """Return 2 - 2 H(a, b) / (H(a) + H(b)) cut to 0..1; 0 where the entropies are too noisy to tell.

    >>> symmetric_uncertainty(1.0, 1.0, 1.0), symmetric_uncertainty(2.0, 1.0, 1.0)
    (1.0, 0.0)
    """
    return min(max(2 - 2 * joint / (one + other), 0.0), 1.0) if one + other > 0 else 0.0


def correlation_network(
    domain: Domain, widths: Array, correlation: Array, max_cells: float, *, parents_only: bool = False
) -> list[tuple[str, tuple[str, ...]]]:
    """Return (attribute, parents) for every attribute, parents before children.

    `correlation` is symmetric; attribute j shows `widths[j]` buckets to its children. Of all edges that make no cycle
    and keep the child's table within `max_cells`, the one that adds most merit is taken, until none adds any. With
    `parents_only` the limit is on the configurations of its parents: the paper's maxcost.
    """
    d = len(domain)
    sizes = np.array(domain.shape, np.float64)
    parents: list[list[int]] = [[] for _ in range(d)]
    merit = np.zeros(d)
    reaches = np.eye(d, dtype=bool)  # reaches[a, b]: b descends from a, or is a
    cells = np.ones(d) if parents_only else sizes.copy()
    gain = np.array([_gains(i, [], correlation, 0.0) for i in range(d)]).reshape(d, d)
    while True:
        # i -> j as a parent makes a cycle when j descends from i.
        allowed = ~reaches & (cells[:, None] * np.asarray(widths)[None, :] <= max_cells)
        open_gain = np.where(allowed, gain, 0.0)
        if d == 0 or open_gain.max() <= 0:
            break
        i, j = divmod(int(open_gain.argmax()), d)
        parents[i].append(j)
        merit[i] += gain[i, j]
        cells[i] *= widths[j]
        reaches[reaches[:, j]] |= reaches[i]
        gain[i] = _gains(i, parents[i], correlation, merit[i])
    return _ordered(domain, parents)


def _gains(child: int, parents: list[int], correlation: Array, merit: float) -> Array:
    """Return what each further parent would add to the merit; nothing for those that are in."""
    told = correlation[child, parents].sum() + correlation[child]
    among = correlation[np.ix_(parents, parents)].sum() - correlation[parents, parents].sum()
    shared = among + 2 * correlation[parents].sum(axis=0)
    gains = told / np.sqrt(len(parents) + 1 + shared) - merit
    gains[[child, *parents]] = -math.inf
    return np.asarray(gains)


def _ordered(domain: Domain, parents: list[list[int]]) -> list[tuple[str, tuple[str, ...]]]:
    order: list[int] = []
    while len(order) < len(domain):
        order += [i for i in range(len(domain)) if i not in order and set(parents[i]) <= set(order)]
    return [(domain.names[i], tuple(domain.names[j] for j in parents[i])) for i in order]
