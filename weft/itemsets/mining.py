"""The most frequent item sets of private baskets, with standard errors, in the manner of PrivBasis (PVLDB 2012).

Four questions: how many baskets there are, in how many each item is, in how many each two of the commonest items are,
and tables over the bases: sets of items that hold every clique of frequent pairs. The frequency of a set then follows
from every answer that tells of it, weighted by its noise.

Where this differs from the paper: items and pairs are not drawn one by one by the exponential mechanism with a
sensitivity of 1. All are counted at once with Gaussian noise, for which at most so many items of a basket count, and
the counts are used again for the answer; the tables over the bases need no such bound. What follows the four answers is
post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.curator.baskets import BasketCurator
from weft.itemsets.basis import bases
from weft.marginals.marginal import Array
from weft.privacy import Ledger
from weft.progress import Listener, silence, stage

SHARE_TOTAL, SHARE_DISCOVERY, SHARE_ITEMS, SHARE_PAIRS = 0.02, 0.15, 0.23, 0.4
"""Shares of the budget; the tables over the bases get the rest, and without discovery so do the items."""

PART_OF_DELTA = 0.25
"""Part of delta that pays for a list of items that nobody has stated."""

MOST_BASES = 60
LARGEST_SET = 6
"""Items of a set that is looked for."""


@dataclass(frozen=True)
class ItemSet:
    """A set of items, and about how many baskets hold all of them."""

    items: tuple[str, ...]
    count: float
    standard_error: float


@dataclass(frozen=True)
class Found:
    """The most frequent sets, the most frequent first."""

    sets: tuple[ItemSet, ...]
    baskets: float
    baskets_error: float
    ledger: Ledger

    def __iter__(self) -> Iterator[ItemSet]:
        return iter(self.sets)

    def __len__(self) -> int:
        return len(self.sets)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        total = max(self.baskets, 1.0)
        return {
            "baskets": self.baskets,
            "baskets_error": self.baskets_error,
            "stamps": list(self.ledger.stamps),
            "sets": [
                {
                    "items": list(one.items),
                    "count": one.count,
                    "standard_error": one.standard_error,
                    "share": min(max(one.count, 0.0) / total, 1.0),
                }
                for one in self.sets
            ],
        }


@dataclass(frozen=True)
class Mining:
    """What is looked for, and how much of a basket counts."""

    top: int = 100
    most_items: int = 20
    """Items of a basket that count among single items and pairs."""
    items: tuple[str, ...] | None = None
    """The items that there may be, where that is publicly known; None: they are found privately."""

    def run(
        self, curator: BasketCurator, ledger: Ledger, slack: float = math.inf, listener: Listener = silence
    ) -> Found:
        """Ask the four questions, and work out the sets; `slack` bounds what a list of items may take of delta."""
        total, total_error = curator.baskets(SHARE_TOTAL)
        share = SHARE_ITEMS
        if self.items is None:
            with stage(listener, "find items"):
                known = self._find(curator, slack)
        else:
            known, share = list(self.items), SHARE_ITEMS + SHARE_DISCOVERY
        if not known:
            return Found((), float(total), total_error, ledger)
        with stage(listener, "count items and pairs"):
            single, sigma = curator.items(known, self.most_items, share)
            # Only so many items can be in that many sets; the order follows from released counts.
            ranked = np.argsort(-single, kind="stable")[: max(self.top, 2)]
            names, counts = [known[i] for i in ranked], single[ranked].astype(np.float64)
            told = Told(names)
            told.add_items(counts, sigma)
            if len(names) > 1:
                pairs, pair_sigma = curator.pairs(names, self.most_items, SHARE_PAIRS)
                told.add_pairs(pairs, pair_sigma)
        with stage(listener, "count over bases"):
            chosen = bases(told.pairs, told.kth(self.top), MOST_BASES, np.random.default_rng(0)) if told.several else []
            if chosen:
                tables, noise = curator.bases([[names[i] for i in basis] for basis in chosen], curator.left)
                told.add_bases(chosen, tables, noise)
        return Found(tuple(told.best(self.top)), float(total), total_error, ledger)

    def _find(self, curator: BasketCurator, slack: float) -> list[str]:
        return curator.common_items(SHARE_DISCOVERY, min(curator.slack(PART_OF_DELTA), slack), self.most_items)


class Told:
    """What released answers tell of sets of items: a weighted mean for each set."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums: dict[tuple[int, ...], tuple[float, float]] = {}
        self.pairs: Array = np.zeros((len(names), len(names)))

    @property
    def several(self) -> bool:
        """Whether there are items enough for a set of three."""
        return len(self._names) > 2

    def _add(self, items: tuple[int, ...], count: float, variance: float) -> None:
        weight, mean = self._sums.get(items, (0.0, 0.0))
        now = weight + 1 / variance
        self._sums[items] = (now, mean + (count - mean) / variance / now)

    def add_items(self, counts: Array, sigma: float) -> None:
        """Enter the counts of single items."""
        for i, count in enumerate(counts.tolist()):
            self._add((i,), count, sigma**2)

    def add_pairs(self, counts: Array, sigma: float) -> None:
        """Enter the counts of pairs."""
        self.pairs = counts
        for i, j in itertools.combinations(range(len(self._names)), 2):
            self._add((i, j), float(counts[i, j]), sigma**2)

    def add_bases(self, chosen: Sequence[tuple[int, ...]], tables: Sequence[Array], sigma: float) -> None:
        """Enter every set of items inside a basis: the sum of the cells that have them all."""
        for basis, table in zip(chosen, tables, strict=True):
            for few in range(1, min(len(basis), LARGEST_SET) + 1):
                for places in itertools.combinations(range(len(basis)), few):
                    held = table[tuple(1 if i in places else slice(None) for i in range(len(basis)))]
                    items = tuple(sorted(basis[i] for i in places))
                    self._add(items, float(held.sum()), sigma**2 * held.size)

    def kth(self, top: int) -> float:
        """Return the count that a set needs to be among so many, as far as is known yet."""
        known = sorted((mean for _, mean in self._sums.values()), reverse=True)
        return max(known[min(top, len(known)) - 1], 1.0)

    def best(self, top: int) -> Iterator[ItemSet]:
        """Give the most frequent sets; ties by name. A set is no more frequent than any part of it."""
        ranked: dict[tuple[int, ...], float] = {}
        for items in sorted(self._sums, key=len):
            parts = (ranked.get(items[:i] + items[i + 1 :], math.inf) for i in range(len(items)))
            ranked[items] = min(self._sums[items][1], *parts) if len(items) > 1 else self._sums[items][1]
        for items in sorted(ranked, key=lambda each: (-ranked[each], each))[:top]:
            weight, mean = self._sums[items]
            yield ItemSet(tuple(self._names[i] for i in items), max(mean, 0.0), weight**-0.5)
