"""Steps that `cover` and `tree` share: one tree, one selection, one fit; nothing is selected again after a measurement.

A Gaussian measurement with share rho_i has noise of standard deviation 1 / sqrt(2 rho_i) on each of c_i cells; shares
proportional to c_i^(2/3) minimise the total (`weft.methods.common.allocation`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array, Marginal, NoisyMarginal
from weft.marginals.noise_error import compute_expected_noise
from weft.marginals.reconciliation import reconcile
from weft.models.mrf import MAX_CELLS, MAX_TOTAL, JunctionTree, MrfModel, fit_mrf
from weft.progress import Listener, ignore_event
from weft_lab.methods.tree_growth import grow_tree


def grow_tree_from_pairs(
    domain: Domain,
    gaps: Mapping[Clique, float],
    *,
    prices: Sequence[float] = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    max_cells: int = MAX_CELLS,
    max_total: int = MAX_TOTAL,
) -> JunctionTree:
    """Grow several trees from pairs, farthest from independence first; return the one with the largest sum of gaps.

    A tree of the strongest pairs, regardless of size, may be full after a few of them. So one tree is grown for each
    price per cell, with pairs ranked by gap - price * cells; only for the extreme prices if these give the same sum.
    """
    pairs = [c for c in gaps if len(c) == 2]

    def grown(price: float) -> JunctionTree:
        value = {c: gaps[c] - price * domain.cells(c) for c in pairs}
        ranked = sorted((c for c in pairs if value[c] > 0), key=lambda c: (-value[c], c))
        return grow_tree(domain, ranked, max_cells=max_cells, max_total=max_total)

    def held(tree: JunctionTree) -> float:
        return sum(gaps[c] for c in pairs if tree.home(c) is not None)

    ends = [grown(price) for price in dict.fromkeys((min(prices), max(prices)))]
    if len({held(tree) for tree in ends}) == 1:
        return ends[0]
    return max([*ends, *(grown(price) for price in sorted(set(prices))[1:-1])], key=held)


def best_subset(gains: Sequence[float] | Array, cells: Sequence[int] | Array, rho: float) -> list[int]:
    """Return the candidates to measure with `rho` for the largest net gain, in order of selection.

    `gains` are in counts: the L1 error that measuring the candidate exactly would remove (times its weight in a
    workload). Maximises, jointly over the subset S and the shares of rho,

        sum of gains in S - (sum of y in S)^1.5 / sqrt(2 rho),    y = (cells sqrt(2 / pi))^(2/3),

    where the second term is the expected L1 noise under the optimal shares, `allocate(cells of S, rho)`. Greedy:
    candidates in decreasing order of gain / y, each taken if it raises the objective. The noise is convex in sum y, so
    the optimal fractional selection is a prefix of that order, and greedy selection loses less than one gain.
    """
    gain = np.asarray(gains, dtype=np.float64)
    y = (compute_expected_noise(cells, 1.0)) ** (2 / 3)
    chosen: list[int] = []
    weight = 0.0
    for i in np.argsort(-gain / y, kind="stable"):
        noise = ((weight + y[i]) ** 1.5 - weight**1.5) / math.sqrt(2 * rho)
        if gain[i] > noise:
            chosen.append(int(i))
            weight += float(y[i])
    return chosen


def choose_cover(
    candidates: Sequence[Clique],
    gaps: Mapping[Clique, float],
    domain: Domain,
    rho: float,
    *,
    most: int,
    again: float = 0.4,
) -> list[Clique]:
    """Return at most `most` marginals of any order that best cover dependent pairs, in order of selection.

    `gaps` are the pairs' distances from independence, in counts. The gain of a marginal is the sum of its pairs' gaps;
    each further measurement of a pair only reduces its noise, so its gap shrinks by the factor `again`. As in
    `best_subset`, the total noise is (sum y)^1.5 / sqrt(2 rho), so one more marginal costs 1.5 sqrt(sum y / (2 rho)) y.
    Selection is greedy under a fixed price of y; bisection finds the price that is consistent with the selection that
    it leads to, and the prefix with the largest net gain is kept. Small attributes lead to large marginals that overlap
    evenly, wide attributes to pairs.
    """
    if not candidates:
        return []
    pairs = {pair: i for i, pair in enumerate(gaps)}
    inside = [[pairs[p] for p in itertools.combinations(c, 2)] for c in candidates]
    held = np.full((len(candidates), max(map(len, inside))), len(pairs))  # padded with a pair without gain
    for i, members in enumerate(inside):
        held[i, : len(members)] = members
    worth = np.array([*(max(gap, 0.0) for gap in gaps.values()), 0.0])
    y = (compute_expected_noise([domain.cells(c) for c in candidates], 1.0)) ** (2 / 3)

    def chosen(price: float) -> tuple[list[int], list[float]]:
        value, merit = worth.copy(), -price * y
        found, gains = list[int](), list[float]()
        while len(found) < most:
            best = int(np.argmax(value[held].sum(axis=1) + merit))
            gain = float(value[held[best]].sum())
            if gain + merit[best] <= 0:
                break
            found.append(best)
            gains.append(gain)
            merit[best] = -np.inf
            value[held[best]] *= again
        return found, gains

    def too_cheap(price: float) -> bool:
        return 1.5 * math.sqrt(float(y[chosen(price)[0]].sum()) / (2 * rho)) > price

    low, high = 0.0, 1.0
    while too_cheap(high):
        low, high = high, 4 * high
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if too_cheap(middle) else (low, middle)
    found, gains = chosen(low)
    net = np.cumsum([0.0, *gains]) - np.cumsum([0.0, *y[found]]) ** 1.5 / math.sqrt(2 * rho)
    return [candidates[i] for i in found[: int(net.argmax())]]


def fit_and_finish(
    tree: JunctionTree,
    known: Sequence[NoisyMarginal],
    noisy: Sequence[NoisyMarginal],
    rng: np.random.Generator,
    listener: Listener = ignore_event,
    total: float | None = None,
) -> MrfModel:
    """Fit `known` and the marginals of `noisy` inside the tree; sampled records are adjusted to the others."""
    inside = [m for m in noisy if tree.home(m.clique) is not None]
    outside = [m for m in noisy if tree.home(m.clique) is None]
    model = fit_mrf(tree.domain, [*known, *inside], total=total, tree=tree, probe=rng, listener=listener)
    if not outside:
        # Adjusting records to the model's own marginals removes rounding errors of sampling.
        return replace(model, targets=tuple(Marginal(m.clique, model.marginal(m.clique)) for m in inside))
    # The fitted marginals use all measurements, so they are closer to the data than the noisy ones.
    own = [NoisyMarginal(m.clique, model.marginal(m.clique), m.sigma / 2) for m in inside]
    agreed = reconcile([*own, *outside], total=model.total, rounds=60, tolerance=1e-4)
    return replace(model, targets=tuple(agreed.tables))
