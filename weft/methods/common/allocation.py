"""Divide a budget among marginals, and select the marginals whose gain exceeds their noise.

A Gaussian measurement with share rho_i has noise of standard deviation 1 / sqrt(2 rho_i) on each of c_i cells, so its
expected L1 error is c_i / sqrt(pi rho_i) counts. For a given sum of the rho_i, the total error is smallest when rho_i
is proportional to c_i^(2/3) (PrivSyn, equation 1), and is then (sum c_i^(2/3))^1.5 / sqrt(pi rho).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from weft.marginals.domain import Clique, Domain
from weft.marginals.marginal import Array
from weft.marginals.noise_error import MEAN_ABS_NORMAL, compute_expected_noise
from weft.privacy import AccountingLike, find_accounting


def allocate(cells: Sequence[int] | Array, rho: float, exponent: float = 2 / 3) -> Array:
    """Return each marginal's share of `rho`, proportional to its cells to the power `exponent`.

    >>> allocate([8, 27, 64], 29.0)
    array([ 4.,  9., 16.])
    """
    power = np.asarray(cells, dtype=np.float64) ** exponent
    return np.asarray(rho * power / power.sum())


def allocate_equally(count: int, rho: float) -> Array:
    """Return `count` equal shares of `rho`."""
    return np.full(count, rho / count) if count else np.empty(0)


def noise_error(weight: float | Array, rho: float) -> Array:
    """Return the minimum expected L1 noise (counts) of marginals measured with `rho`; `weight` is sum cells^(2/3)."""
    return np.asarray(MEAN_ABS_NORMAL * np.asarray(weight, dtype=np.float64) ** 1.5 / math.sqrt(2 * rho))


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


def by_size(cells: Sequence[int], accounting: AccountingLike) -> list[float]:
    """Return the budget parts that minimise the summed expected error of tables with these numbers of cells.

    The error of a table of c cells measured with part p is proportional to c / sqrt(p) for Gaussian noise and to c / p
    for geometric noise, so the optimal p is proportional to c^(2/3) or c^(1/2) (`CountNoise.allocation_exponent`).

    >>> [round(part, 2) for part in by_size([1, 64], "gaussian")], [round(part, 2) for part in by_size([1, 64], "pure")]
    ([0.06, 0.94], [0.11, 0.89])
    """
    exponent = find_accounting(accounting).counts.allocation_exponent
    return [float(part) for part in allocate(cells, 1.0, exponent)]
