"""The model of BSG (PVLDB 2017, sections 3.3 and 3.4): structure from noisy entropies, parameters from noisy counts.

Structure and parameters may use the same rows, whose budget they then share, or different rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.curator import Curator
from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.simplex import project_to_simplex
from weft.methods.common.allocation import by_size
from weft.methods.common.indif_network import useful_cells
from weft.progress import Listener, report_stage
from weft_lab.methods.bayesnet import BayesNet, Family
from weft_lab.queries.entropy_queries import EntropyQueries


def symmetric_uncertainty(joint: float, one: float, other: float) -> float:
    """Return 2 - 2 H(a, b) / (H(a) + H(b)), clipped to [0, 1]; 0 if the noisy denominator is not positive.

    >>> symmetric_uncertainty(1.0, 1.0, 1.0), symmetric_uncertainty(2.0, 1.0, 1.0)
    (1.0, 0.0)
    """
    return min(max(2 - 2 * joint / (one + other), 0.0), 1.0) if one + other > 0 else 0.0


def correlation_network(
    domain: Domain, widths: Array, correlation: Array, max_cells: float, *, parents_only: bool = False
) -> list[tuple[str, tuple[str, ...]]]:
    """Return (attribute, parents) for every attribute, parents before children.

    `correlation` is symmetric; attribute j has `widths[j]` buckets as a parent. Edges are added greedily by gain in
    merit, without cycles and with the child's table within `max_cells`; with `parents_only`, the limit is on the
    configurations of the parents (the paper's maxcost).

    Correlation-based feature selection (section 3.3): with the symmetric uncertainty as corr, the merit of parents P of
    attribute i is sum_j corr(i, j) / sqrt(|P| + sum_{j != k} corr(j, k)), large for parents that predict the child and
    not each other. Privacy: post-processing of noisy entropies.
    """
    d = len(domain)
    sizes = np.array(domain.shape, np.float64)
    parents: list[list[int]] = [[] for _ in range(d)]
    merit = np.zeros(d)
    reaches = np.eye(d, dtype=bool)  # reaches[a, b]: b is a, or a descendant of a
    cells = np.ones(d) if parents_only else sizes.copy()
    gain = np.array([_compute_gains(i, [], correlation, 0.0) for i in range(d)]).reshape(d, d)
    while True:
        # Parent j of i makes a cycle if j is a descendant of i.
        allowed = ~reaches & (cells[:, None] * np.asarray(widths)[None, :] <= max_cells)
        open_gain = np.where(allowed, gain, 0.0)
        if d == 0 or open_gain.max() <= 0:
            break
        i, j = divmod(int(open_gain.argmax()), d)
        parents[i].append(j)
        merit[i] += gain[i, j]
        cells[i] *= widths[j]
        reaches[reaches[:, j]] |= reaches[i]
        gain[i] = _compute_gains(i, parents[i], correlation, merit[i])
    return _order_families(domain, parents)


def _compute_gains(child: int, parents: list[int], correlation: Array, merit: float) -> Array:
    """Return the gain in merit of each further parent; -inf for the child and its parents."""
    told = correlation[child, parents].sum() + correlation[child]
    among = correlation[np.ix_(parents, parents)].sum() - correlation[parents, parents].sum()
    shared = among + 2 * correlation[parents].sum(axis=0)
    gains = told / np.sqrt(len(parents) + 1 + shared) - merit
    gains[[child, *parents]] = -math.inf
    return np.asarray(gains)


def _order_families(domain: Domain, parents: list[list[int]]) -> list[tuple[str, tuple[str, ...]]]:
    order: list[int] = []
    while len(order) < len(domain):
        order += [i for i in range(len(domain)) if i not in order and set(parents[i]) <= set(order)]
    return [(domain.names[i], tuple(domain.names[j] for j in parents[i])) for i in order]


Edges = list[tuple[str, tuple[str, ...]]]


def bucket_codes(buckets: Mapping[str, int | Sequence[int]], domain: Domain) -> dict[str, Array]:
    """Return the bucket of every code of the bucketed attributes."""
    return {
        name: np.arange(domain.size(name)) // given if isinstance(given, int) else np.asarray(given, np.int64)
        for name, given in buckets.items()
    }


def fits_codes(buckets: int | Sequence[int], codes: int) -> bool:
    """Return whether this is a number of codes per bucket, or a map of the codes onto buckets."""
    if isinstance(buckets, int):
        return buckets >= 1
    # Buckets are numbered from 0 without gaps.
    return len(buckets) == codes and min(buckets) == 0 and len(set(buckets)) == max(buckets) + 1


@dataclass(frozen=True)
class Learner:
    """Settings of a network fit; shares are of the whole budget."""

    seen: Mapping[str, Array]
    """Bucket of each code of the bucketed attributes."""
    count: float
    """Share for the number of rows."""
    structure: float
    """Share for the entropies; the rest is for the tables."""
    theta: float
    """Minimum ratio of the average count of a table to its sigma."""
    prior: float
    """Weight of the Dirichlet prior, in standard deviations of the noise on a distribution's count."""
    drawn: bool
    """Whether distributions are drawn from their posterior instead of taking its mean."""
    max_cost: int | None = None
    """Maximum configurations of parents; None: limited by theta."""
    cut: bool = False
    """Whether noisy counts are clipped at zero, with a uniform prior of one row."""
    even: bool = False
    """Whether all tables get equal parts of the budget."""

    def learn(
        self, structure: Curator, parameters: Curator, aside: float, rng: np.random.Generator, listener: Listener
    ) -> BayesNet:
        """Fit structure and parameters, leaving the share `aside`. Disjoint rows have a budget each."""
        domain = structure.domain
        apart = structure is not parameters
        with report_stage(listener, "count"):
            rows = structure.total((1 - aside) * self.count)
            found = parameters.total(self.count) if apart else rows
        with report_stage(listener, "entropies"):
            correlation = self._correlation(structure, rows, structure.left if apart else (1 - aside) * self.structure)
        widths = np.array([self._width(domain, name) for name in domain])
        if self.max_cost is None:
            sigma = parameters.sigma((parameters.left - aside) / len(domain))
            largest = useful_cells(float(found.table), sigma, self.theta)
            edges = correlation_network(domain, widths, correlation, largest)
        else:
            edges = correlation_network(domain, widths, correlation, self.max_cost, parents_only=True)
        total = max(float(found.table), 1.0)
        with report_stage(listener, "measure families"):
            tables = self._measure(parameters, edges, parameters.left - aside)
        families = []
        for (child, parents), noisy in zip(edges, tables, strict=True):
            table = np.transpose(noisy.table, [noisy.clique.index(name) for name in (*parents, child)])
            counts = table.reshape(-1, table.shape[-1])
            if self.cut:
                weight = np.maximum(counts, 0.0) + 1 / counts.shape[1]
            else:
                weight = compute_dirichlet_weights(project_to_simplex(counts, total), noisy.sigma, self.prior)
            families.append(Family(child, parents, compute_posterior(weight, rng if self.drawn else None)))
        return BayesNet(domain, total, tuple(families), self.seen)

    def _width(self, domain: Domain, name: str) -> int:
        """Return the number of values or buckets of an attribute as a parent."""
        return int(self.seen[name].max()) + 1 if name in self.seen else domain.size(name)

    def _correlation(self, curator: Curator, rows: NoisyMarginal, share: float) -> Array:
        """Measure the entropies of all bucketed attributes and pairs; return their symmetric uncertainties."""
        domain = curator.domain
        asked = [*((name,) for name in domain), *(make_clique(pair) for pair in itertools.combinations(domain, 2))]
        released = EntropyQueries.of(curator).entropies(
            asked,
            share,
            max(2, round(float(rows.table) - 2 * rows.sigma)),
            [{name: self.seen[name] for name in names if name in self.seen} for names in asked],
        )
        entropy = dict(zip(asked, released.tolist(), strict=True))
        correlation = np.zeros((len(domain),) * 2)
        for x, y in asked[len(domain) :]:
            found = symmetric_uncertainty(entropy[x, y], entropy[x,], entropy[y,])
            correlation[[domain.index(x), domain.index(y)], [domain.index(y), domain.index(x)]] = found
        return correlation

    def _measure(self, curator: Curator, edges: Edges, share: float) -> list[NoisyMarginal]:
        """Measure the table of every family, in one query for families with the same bucketed parents."""
        domain = curator.domain
        cells = [
            domain.size(child) * math.prod(self._width(domain, name) for name in parents) for child, parents in edges
        ]
        parts = [1 / len(cells)] * len(cells) if self.even else by_size(cells, curator.accounting)
        alike: dict[tuple[str, ...], list[int]] = {}
        for i, (_, parents) in enumerate(edges):
            alike.setdefault(tuple(sorted(name for name in parents if name in self.seen)), []).append(i)
        tables: dict[int, NoisyMarginal] = {}
        for bucketed, members in alike.items():
            maps = {name: (self.seen[name], self._width(domain, name)) for name in bucketed}
            view = curator.recode(maps) if maps else curator
            cliques = [make_clique([edges[i][0], *edges[i][1]]) for i in members]
            weights = [parts[i] for i in members]
            tables |= zip(members, view.measure(cliques, share * math.fsum(weights), weights), strict=True)
        return [tables[i] for i in range(len(edges))]


def compute_dirichlet_weights(counts: Array, sigma: float, prior: float) -> Array:
    """Return the weights of a Dirichlet posterior for each row of counts.

    The prior mean is the distribution of all rows with one count added to every code. Its weight is 1 plus `prior`
    standard deviations of the noise on the sum of a row, so that rows of noise alone have little influence.
    """
    codes = counts.shape[1]
    mean = (counts.sum(axis=0) + 1) / (counts.sum() + codes)
    return np.asarray(counts + (1 + prior * sigma * math.sqrt(codes)) * mean)


def compute_posterior(weight: Array, rng: np.random.Generator | None = None) -> Array:
    """Return the mean of each row of Dirichlet weights, or with an rng a draw."""
    if rng is not None:
        weight = np.maximum(rng.standard_gamma(weight), np.finfo(np.float64).tiny)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
