"""Find the most frequent item sets of private baskets, with standard errors, after PrivBasis (PVLDB 2012).

Four queries: the number of baskets; the count of each item; the count of each pair of the most frequent items; and the
marginals over the bases, which are sets of items that contain every clique of frequent pairs. The frequency of a set is
estimated from all measurements that contain it, weighted by inverse variance.

Differences from the paper: items and pairs are not selected one by one by the exponential mechanism with sensitivity 1.
All of them are counted at once with Gaussian noise, with a bound on the items per basket that are counted, and the
counts are reused for the estimates. The marginals over the bases need no such bound. Everything after the four
measurements is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.curator import PrivateTable
from weft.errors import BudgetError, MethodError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.privacy import Adjacency, Budget, Ledger, Lifetime, Noise
from weft.privacy.ledger import Terms, open_run_ledger
from weft.privacy.mechanisms import Mechanisms, Release
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.baskets.basket_queries import BasketCurator, BasketForm, BasketTable, list_columns
from weft_lab.methods.covering_views import find_covering_views

# Basis set (PrivBasis; Li, Qardaji, Su, Cao; PVLDB 2012): a few sets of items that contain all item sets of interest.

MAX_BASIS_ITEMS = 8  # maximum number of items of a basis; its marginal has 2 to that power cells
MAX_CLIQUES = 20_000  # maximum number of cliques to enumerate


def maximal_cliques(neighbours: Mapping[int, frozenset[int]], most: int = MAX_CLIQUES) -> list[frozenset[int]]:
    """Return the maximal cliques of a graph, at most `most` (Bron and Kerbosch, with pivots).

    >>> graph = {0: frozenset({1, 2}), 1: frozenset({0, 2}), 2: frozenset({0, 1, 3}), 3: frozenset({2})}
    >>> sorted(map(sorted, maximal_cliques(graph)))
    [[0, 1, 2], [2, 3]]
    """
    found: list[frozenset[int]] = []
    waiting = [(frozenset[int](), frozenset(neighbours), frozenset[int]())]
    while waiting and len(found) < most:
        clique, possible, done = waiting.pop()
        if not possible and not done:
            found.append(clique)
            continue
        if not possible:
            continue
        pivot = max(possible | done, key=lambda node: len(neighbours[node] & possible))
        for node in sorted(possible - neighbours[pivot]):
            waiting.append((clique | {node}, possible & neighbours[node], done & neighbours[node]))
            possible -= {node}
            done |= {node}
    return found


def choose_bases(pairs: np.ndarray, least: float, most: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return at most `most` bases of three or more items that contain every clique of pairs counted at least `least`.

    `pairs` holds the noisy counts of pairs in the upper triangle of a matrix. If there are too many bases, those with
    the largest third-largest pair count are kept.
    """
    n = len(pairs)
    both = pairs + pairs.T
    neighbours = {i: frozenset(j for j in range(n) if j != i and both[i, j] >= least) for i in range(n)}
    cliques = [sorted(c) for c in maximal_cliques(neighbours) if len(c) > 2]
    made: dict[tuple[int, ...], float] = {}
    for clique in cliques:
        for basis in _split_clique(clique, rng):
            inside = both[np.ix_(basis, basis)][np.triu_indices(len(basis), 1)]
            made[tuple(basis)] = float(np.sort(inside)[-3:].min())
    ranked = sorted(made, key=lambda basis: (-made[basis], basis))
    return ranked[:most]


def _split_clique(clique: Sequence[int], rng: np.random.Generator) -> list[list[int]]:
    if len(clique) <= MAX_BASIS_ITEMS:
        return [list(clique)]
    names = {f"{node:06}": node for node in clique}
    views = find_covering_views(Domain(tuple(names), (2,) * len(names)), 3, 1 << MAX_BASIS_ITEMS, rng, restarts=1)
    return [[names[name] for name in view] for view in views]


SHARE_TOTAL, SHARE_DISCOVERY, SHARE_ITEMS, SHARE_PAIRS = 0.02, 0.15, 0.23, 0.4
"""Shares of the budget; the bases get the rest. Without discovery, its share is added to that of the items."""

PART_OF_DELTA = 0.25  # share of delta for the discovery of items
MAX_BASES = 60
MAX_SET_ITEMS = 6  # maximum number of items of a reported set


@dataclass(frozen=True)
class ItemSet:
    """A set of items, and the estimated number of baskets that contain all of them."""

    items: tuple[str, ...]
    count: float
    standard_error: float


@dataclass(frozen=True)
class Found:
    """The most frequent item sets, in descending order."""

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
    """Parameters of the search, and the contribution bound of a basket."""

    top: int = 100
    most_items: int = 20  # maximum number of items per basket that are counted as single items and in pairs
    items: tuple[str, ...] | None = None  # the possible items, if publicly known; None for discovery
    threshold: float | None = None  # share of the baskets that a set must be in; None: the `top` most frequent sets

    def run(
        self, curator: BasketCurator, ledger: Ledger, slack: float = math.inf, listener: Listener = ignore_event
    ) -> Found:
        """Measure the four queries and estimate the item sets; `slack` bounds the delta spent on item discovery."""
        total, total_error = curator.baskets(SHARE_TOTAL)
        share = SHARE_ITEMS
        if self.items is None:
            with report_stage(listener, "find items"):
                known = self._find(curator, slack)
        else:
            known, share = list(self.items), SHARE_ITEMS + SHARE_DISCOVERY
        if not known:
            return Found((), float(total), total_error, ledger)
        with report_stage(listener, "count items and pairs"):
            single, sigma = curator.items(known, self.most_items, share)
            # The `top` sets need at most that many items; the ranking uses released counts only.
            ranked = np.argsort(-single, kind="stable")[: max(self.top, 2)]
            names, counts = [known[i] for i in ranked], single[ranked].astype(np.float64)
            told = Told(names)
            told.add_items(counts, sigma)
            if len(names) > 1:
                pairs, pair_sigma = curator.pairs(names, self.most_items, SHARE_PAIRS)
                told.add_pairs(pairs, pair_sigma)
        with report_stage(listener, "count over bases"):
            chosen = (
                choose_bases(told.pairs, self._least(told, float(total)), MAX_BASES, np.random.default_rng(0))
                if told.several
                else []
            )
            if chosen:
                tables, noise = curator.bases([[names[i] for i in basis] for basis in chosen], curator.left)
                told.add_bases(chosen, tables, noise)
        best = told.best(self.top)
        if self.threshold is not None:
            best = (one for one in best if one.count >= self._least(told, float(total)))
        return Found(tuple(best), float(total), total_error, ledger)

    def _least(self, told: Told, total: float) -> float:
        """Return the count from which a set is of interest: post-processing of released counts."""
        return told.kth(self.top) if self.threshold is None else max(self.threshold * total, 1.0)

    def _find(self, curator: BasketCurator, slack: float) -> list[str]:
        return curator.common_items(SHARE_DISCOVERY, min(curator.slack(PART_OF_DELTA), slack), self.most_items)


class Told:
    """Estimates of item set counts: the inverse-variance weighted mean of the measurements of each set."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums: dict[tuple[int, ...], tuple[float, float]] = {}
        self.pairs: Array = np.zeros((len(names), len(names)))

    @property
    def several(self) -> bool:
        """Whether there are enough items for a set of three."""
        return len(self._names) > 2

    def _add(self, items: tuple[int, ...], count: float, variance: float) -> None:
        weight, mean = self._sums.get(items, (0.0, 0.0))
        now = weight + 1 / variance
        self._sums[items] = (now, mean + (count - mean) / variance / now)

    def add_items(self, counts: Array, sigma: float) -> None:
        """Add the noisy counts of single items."""
        for i, count in enumerate(counts.tolist()):
            self._add((i,), count, sigma**2)

    def add_pairs(self, counts: Array, sigma: float) -> None:
        """Add the noisy counts of pairs."""
        self.pairs = counts
        for i, j in itertools.combinations(range(len(self._names)), 2):
            self._add((i, j), float(counts[i, j]), sigma**2)

    def add_bases(self, chosen: Sequence[tuple[int, ...]], tables: Sequence[Array], sigma: float) -> None:
        """Add every subset of a basis: the sum of the cells that contain all of its items."""
        for basis, table in zip(chosen, tables, strict=True):
            for few in range(1, min(len(basis), MAX_SET_ITEMS) + 1):
                for places in itertools.combinations(range(len(basis)), few):
                    held = table[tuple(1 if i in places else slice(None) for i in range(len(basis)))]
                    items = tuple(sorted(basis[i] for i in places))
                    self._add(items, float(held.sum()), sigma**2 * held.size)

    def kth(self, top: int) -> float:
        """Return the current estimate of the count threshold for the `top` sets."""
        known = sorted((mean for _, mean in self._sums.values()), reverse=True)
        return max(known[min(top, len(known)) - 1], 1.0)

    def best(self, top: int) -> Iterator[ItemSet]:
        """Yield the most frequent sets; in the ranking, a count is at most that of any subset. Ties: by item rank."""
        ranked: dict[tuple[int, ...], float] = {}
        for items in sorted(self._sums, key=len):
            parts = (ranked.get(items[:i] + items[i + 1 :], math.inf) for i in range(len(items)))
            ranked[items] = min(self._sums[items][1], *parts) if len(items) > 1 else self._sums[items][1]
        for items in sorted(ranked, key=lambda each: (-ranked[each], each))[:top]:
            weight, mean = self._sums[items]
            yield ItemSet(tuple(self._names[i] for i in items), max(mean, 0.0), weight**-0.5)


PART_OF_LIFETIME = 0.2  # share of the remaining discovery delta of a lifetime budget that one run may spend
MIN_SLACK = 1e-200  # smaller probabilities are treated as zero
MAX_TOP, MAX_ITEMS, MAX_LISTED = 1_000, 1_000, 1_000_000

SEEDED = "NOT PRIVATE: the noise follows from a seed and can be recomputed by anyone who knows it"

HOW = (
    "state how the table stores baskets: --column NAME for a column of lists, --basket NAME --item NAME for one row "
    "per item, --columns a,b,c (or all) for one yes/no column per item"
)


def form_of(
    source: Any,
    column: str | None = None,
    basket: str | None = None,
    item: str | None = None,
    columns: Sequence[str] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> BasketForm:
    """Return how a table stores baskets, from the arguments and the declared column types; no row is read."""
    given = [column is not None, basket is not None or item is not None, columns is not None]
    if sum(given) > 1:
        raise MethodError(f"several forms of baskets were given: {HOW}")
    if (basket is None) != (item is None):
        raise MethodError("--basket and --item must be given together: name the basket column and the item column")
    types = PrivateTable(source, dialect=dialect).columns()
    lists = list_columns(types)
    if columns is not None:
        named = [name for name in types.names if name] if list(columns) == ["all"] else list(columns)
        form = BasketForm(columns=tuple(dict.fromkeys(named)))
    elif basket is not None:
        form = BasketForm(basket=basket, item=item)
    elif column is not None or len(lists) == 1:
        form = BasketForm(lists=column or lists[0])
    else:
        raise MethodError(HOW)
    for name in form.reads:
        if name not in types.names:
            raise MethodError(f'the table has no column "{name}". {HOW}')
    if form.lists is not None and form.lists not in lists:
        raise MethodError(f'column "{form.lists}" does not contain lists: {HOW}')
    if form.basket is not None and form.basket == form.item:
        raise MethodError("--basket and --item name the same column: name two different columns")
    return form


def find_itemsets(
    source: Any,
    form: BasketForm,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    top: int = 100,
    items: Sequence[str] | None = None,
    most_items: int = 20,
    threshold: float | None = None,
    journal: str | PathLike[str] | None = None,
    budget_file: str | PathLike[str] | None = None,
    noise_seed: int | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    listener: Listener = ignore_event,
    release: Release | None = None,
) -> Found:
    """Return the `top` most frequent sets of items of private baskets, within a budget.

    The privacy unit is a basket. `items` lists the possible items if they are public; by default they are found by
    discovery. With a `threshold`, these are the at most `top` sets in this share of the baskets. `most_items` is the
    maximum number of items per basket that are counted as single items and in pairs.
    `release` replaces the mechanisms, for audits.
    """
    mining = Mining(top, most_items, _get_known_items(form, items), threshold)
    _validate_mining(mining)
    release = release or Mechanisms(None if noise_seed is None else Noise.seeded(noise_seed))
    budget = Budget(epsilon=epsilon, delta=delta)
    # Quoted, so that a column named "row" is not confused with rows; costs of runs on other baskets do not add up.
    whose = "row" if form.basket is None else f'"{form.basket}"'
    terms: Terms = (Adjacency(row="basket"), whose, budget, "gaussian")
    _check_noise(mining, budget)
    lifetime = None if budget_file is None else Lifetime(budget_file)
    slack = math.inf
    if lifetime is not None:
        lifetime.check(*terms)
        if not release.private:
            raise MethodError("seeded noise cannot be charged to a lifetime budget: leave noise_seed out")
        slack = PART_OF_LIFETIME * lifetime.slack_left()
        if mining.items is None and not slack > MIN_SLACK:
            raise BudgetError(
                "the lifetime budget has no delta left for the discovery of items: list the items (--items)"
            )
    table = BasketTable(source, form, dialect, listener)
    read = table.read()
    stamps = () if release.private else (SEEDED,)
    kept = None if journal is None else Path(journal)
    with open_run_ledger(terms, lifetime, journal=kept, stamps=stamps, facts=table.facts) as ledger:
        return mining.run(BasketCurator(read, ledger, release), ledger, slack, listener)


def _get_known_items(form: BasketForm, items: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the public items: those listed, or the names of yes/no columns; None for discovery."""
    if form.columns:
        if items is not None:
            raise MethodError("the columns are the items: omit the list of items")
        return form.columns
    if items is None:
        return None
    listed = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not listed or len(listed) > MAX_LISTED:
        raise MethodError(f"the list of items must have 1 to {MAX_LISTED:,} items, one per line")
    return listed


def _validate_mining(mining: Mining) -> None:
    if not 1 <= mining.top <= MAX_TOP:
        raise MethodError(f"--top must be between 1 and {MAX_TOP:,}; not {mining.top}")
    if mining.threshold is not None and not 0 < mining.threshold < 1:
        raise MethodError(f"--threshold must be a share of the baskets between 0 and 1; not {mining.threshold}")
    if not 2 <= mining.most_items <= MAX_ITEMS:
        raise MethodError(f"--most-items must be between 2 and {MAX_ITEMS:,}; not {mining.most_items}")


def _check_noise(mining: Mining, budget: Budget) -> None:
    """Refuse a budget whose noise scale exceeds the maximum of the sampler, before anything is read."""
    capacity = budget.capacity("gaussian")
    widest = Adjacency().pairs_l2(mining.most_items) / np.sqrt(2 * 0.02 * capacity)
    if not widest <= MAX_NOISE_SCALE:
        raise MethodError("the budget is too small: its noise scale exceeds the maximum. Increase epsilon.")
