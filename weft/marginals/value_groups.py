"""Merge rare values of an attribute into groups before measurement, and split the groups again in the output.

PrivSyn, section 5.3: values whose noisy count is below a threshold (3 sigma in the paper) are merged before pairs are
measured. Special codes are never merged. Ordered attributes merge adjacent codes only: a group of ages is a range.

Privacy: the map depends on a noisy table only and is applied to each record separately, so a recoded record still
contributes to one cell of every table and sensitivities are unchanged.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from weft.marginals.domain import Order
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.records import Codes, code_dtype

_TINY = 1e-300

MAX_COMPARED = 128
"""Maximum codes whose relations are compared to form groups; of more, the rare ones are one code."""


@dataclass(frozen=True)
class ValueMap:
    """Recoding of one attribute: the group of each code."""

    codes: Array  # new code of each old code
    size: int  # number of new codes
    counts: Array
    """Noisy counts of the old codes, truncated at zero: weights for splitting groups again."""

    @property
    def merged(self) -> Array:
        """Old codes that share their new code with others."""
        return np.flatnonzero(np.bincount(self.codes, minlength=self.size)[self.codes] > 1)

    def fold(self, marginal: NoisyMarginal) -> NoisyMarginal:
        """Recode a released one-way marginal by summing merged values; makes no new query.

        A cell of k merged values has sqrt(k) times the noise of one value, but a `NoisyMarginal` has a single sigma. It
        is set to the root mean square of the cells' sigmas, which keeps the variance of the total, and so the table's
        weight in the common total, exact.
        """
        sigma = marginal.sigma * float(np.sqrt(self.codes.size / self.size))
        return replace(marginal, table=sum_by_codes(marginal.table, self.codes, self.size), sigma=sigma)

    def then(self, further: ValueMap) -> ValueMap:
        """Return the composition of two maps; counts of groups are split by this map's shares."""
        return ValueMap(further.codes[self.codes], further.size, self.shares() * further.counts[self.codes])

    def shares(self) -> Array:
        """Return each old code's share of its new code: 1 for values that were not merged."""
        members = np.bincount(self.codes, minlength=self.size)
        weights = np.where(members[self.codes] > 1, self.counts, 1.0)
        total = np.bincount(self.codes, weights=weights, minlength=self.size)
        even = 1 / np.maximum(members, 1)
        return np.where(total[self.codes] > 1e-300, weights / np.maximum(total, 1e-300)[self.codes], even[self.codes])

    def unfold(self, codes: Array, rng: np.random.Generator) -> Codes:
        """Split the records of each group among its values by noisy counts (evenly if all are 0), in random order."""
        codes = np.asarray(codes)
        members = np.bincount(self.codes, minlength=self.size)
        by_group = np.argsort(self.codes, kind="stable")  # old codes, group by group
        first = np.concatenate([[0], np.cumsum(members)[:-1]])
        records: Codes = by_group[first[codes]].astype(code_dtype(self.codes.size))
        drawn = np.flatnonzero(members[codes] > 1)
        if drawn.size:
            # Inverse-CDF lookup in one cumulative sum over all groups.
            ends = np.cumsum(self.shares()[by_group])
            begin = np.concatenate([[0.0], ends])[first]
            last = first + members - 1
            groups = codes[drawn]
            points = begin[groups] + _spread_evenly(groups, rng) * (ends[last[groups]] - begin[groups])
            places = np.clip(np.searchsorted(ends, points, side="right"), first[groups], last[groups])
            records[drawn] = by_group[places]
        return records


def _spread_evenly(groups: Array, rng: np.random.Generator) -> Array:
    """Return a point in [0, 1) for each record; the points of a group are spread evenly, in random order.

    >>> sorted((4 * _spread_evenly(np.array([7, 7, 7, 7]), np.random.default_rng(0))).astype(int).tolist())
    [0, 1, 2, 3]
    """
    shuffled = rng.permutation(len(groups))
    by_group = shuffled[np.argsort(groups[shuffled], kind="stable")]
    number = np.bincount(groups)
    rank = np.empty(len(groups), np.int64)
    rank[by_group] = np.arange(len(groups)) - (np.cumsum(number) - number)[groups[by_group]]
    return np.asarray((rank + rng.random(len(groups))) / number[groups])


def coarse_groups(counts: Array, apart: Collection[int], groups: int, least: float = 0.0) -> Array:
    """Divide the codes of an ordered attribute into about `groups` groups of adjacent codes with about equal counts.

    A code that holds at least half of a group's count is a group of its own, and so is a special code. The remaining
    codes are then divided into groups of at least about `least` counts, so that values next to a spike stay resolved.

    >>> coarse_groups(np.array([1, 1, 9, 1, 1, 2, 0, 7]), {7}, 2).tolist()
    [0, 0, 1, 2, 2, 2, 2, 3]
    """
    counts = np.maximum(np.asarray(counts, np.float64), 0)
    kept = np.ones(len(counts), bool)
    kept[list(apart)] = False
    each = max(counts[kept].sum() / max(groups, 1), _TINY)
    single = (counts >= 0.5 * each) | ~kept
    each = max(counts[~single].sum() / max(groups, 1), least, _TINY)
    runs = np.cumsum(
        single | np.concatenate([[False], single[:-1]])
    )  # a new run starts at each single code and after it
    total = np.bincount(runs, weights=counts)
    parts = np.maximum(np.rint(total / each), 1)
    middle = np.cumsum(counts) - counts / 2 - (np.cumsum(total) - total)[runs]
    inside = np.minimum(np.floor(middle / np.maximum(total, _TINY)[runs] * parts[runs]), parts[runs] - 1)
    inside = np.where(single, 0, np.maximum(inside, 0))
    return np.asarray(np.unique(runs * (parts.max() + 1.0) + inside, return_inverse=True)[1])


def keep_frequent(counts: Array, most: int) -> Array:
    """Return groups in which the most frequent codes are alone, and all others together."""
    groups = np.full(len(counts), most - 1)
    groups[np.argsort(-counts, kind="stable")[: most - 1]] = np.arange(most - 1)
    return groups


def merge_similar(counts: Array, tables: Array, most: int) -> Array:
    """Divide codes into `most` groups with similar rows in `tables`; of very many codes, the rare ones are one group.

    The two groups whose union adds least to the squared distances inside groups are merged first (Ward).

    >>> merge_similar(np.array([90, 9, 10, 80, 1]), np.array([[90, 0], [9, 0], [1, 9], [8, 72], [1, 0]]), 2).tolist()
    [0, 0, 1, 1, 0]
    """
    groups = keep_frequent(counts, MAX_COMPARED) if len(counts) > MAX_COMPARED else np.arange(len(counts))
    sums = sum_by_codes(tables, groups, int(groups.max()) + 1)
    rows = np.maximum(sum_by_codes(counts[:, None], groups, len(sums))[:, 0], 1e-9)
    places = np.arange(len(sums))
    for _ in range(len(sums) - most):
        live = np.unique(places)
        shares = sums[live] / rows[live, None]
        square = (shares**2).sum(axis=1)
        far = np.maximum(square[:, None] + square[None, :] - 2 * shares @ shares.T, 0)
        cost = far * rows[live, None] * rows[None, live] / (rows[live, None] + rows[None, live])
        np.fill_diagonal(cost, np.inf)
        first, second = (int(live[i]) for i in np.unravel_index(int(np.argmin(cost)), cost.shape))
        sums[first] += sums[second]
        rows[first] += rows[second]
        places[places == second] = first
    return np.asarray(np.unique(places[groups], return_inverse=True)[1])


def divide_groups(codes: Array, breaks: Array) -> Array:
    """Split groups of adjacent codes at each of the `breaks`.

    >>> divide_groups(np.array([0, 0, 0, 1, 2]), np.array([2])).tolist()
    [0, 0, 1, 2, 3]
    """
    side = np.searchsorted(breaks, np.arange(len(codes)), side="right")
    return np.asarray(np.unique(codes * (len(breaks) + 1) + side, return_inverse=True)[1])


def sum_by_codes(table: Array, codes: Array, size: int, axis: int = 0) -> Array:
    """Sum the cells of a table along one axis by their new codes.

    >>> sum_by_codes(np.array([[1, 2, 3]]), np.array([0, 1, 0]), 2, axis=1)
    array([[4, 2]])
    """
    summed = np.zeros((size, *np.delete(table.shape, axis)), table.dtype)
    order = np.argsort(codes, kind="stable")
    present, first = np.unique(np.asarray(codes)[order], return_index=True)
    summed[present] = np.add.reduceat(np.moveaxis(table, axis, 0)[order], first, axis=0)
    return np.moveaxis(summed, 0, axis)


def merge_rare(
    marginal: NoisyMarginal, threshold: float, order: Order | None = None, *, one_code: bool = False
) -> ValueMap:
    """Return the map that keeps values with a noisy count of at least `threshold` and merges rarer ones.

    Rare unordered values become one group, the last. Rare ordered values are merged with adjacent ones until the sum of
    k values reaches sqrt(k) `threshold` (its noise is sqrt(k) times as large). Fewer than two rare values, or no two
    adjacent ones of an ordered attribute, are left unmerged. With `one_code`, all rare values are that last group,
    ordered or not, and even if there is only one.
    """
    if marginal.table.ndim != 1:
        raise ValueError(f"merging values needs a one-way marginal, not one over {marginal.clique}")
    order = order or Order()
    counts = np.maximum(marginal.table, 0).astype(np.float64)
    rare = marginal.table < threshold
    rare[list(order.apart)] = False
    if np.count_nonzero(rare) < (1 if one_code else 2):
        return ValueMap(np.arange(counts.size), counts.size, counts)
    if order.ordered and not one_code:
        groups = _group_neighbours(np.asarray(marginal.table, np.float64), rare, threshold)
        return ValueMap(groups, int(groups.max()) + 1, counts)
    kept = int(counts.size - np.count_nonzero(rare))
    codes = np.where(rare, kept, np.cumsum(~rare) - 1)
    return ValueMap(codes, kept + 1, counts)


def _group_neighbours(table: Array, rare: Array, threshold: float) -> Array:
    """Group runs of adjacent rare codes; a run ends at sqrt(k) `threshold` counts or at a special (never rare) code."""
    groups = np.zeros(len(table), np.int64)
    group, held, members = -1, 0.0, 0
    for code in range(len(table)):
        if not rare[code] or members == 0 or held >= threshold * np.sqrt(members):
            group, held, members = group + 1, 0.0, 0
        groups[code] = group
        if rare[code]:
            held, members = held + table[code], members + 1
    return groups
