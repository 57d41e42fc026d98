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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.curator import PrivateTable
from weft.curator.basket_queries import BasketCurator, BasketForm, BasketTable, list_columns
from weft.errors import BudgetError, MethodError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.methods.common.view_cover import find_covering_views
from weft.privacy import Adjacency, Budget, Ledger, Lifetime, Noise
from weft.privacy.ledger import Terms, open_run_ledger
from weft.privacy.mechanisms import Mechanisms, Release
from weft.privacy.noise import MAX_NOISE_SCALE
from weft.progress import Listener, ignore_event, report_stage

# A basis set (PrivBasis; Li, Qardaji, Su, Cao; PVLDB 2012): few sets of items that hold all item sets of interest.

MAX_BASIS_ITEMS = 8
"""Items of a basis: its table has 2 to that power cells."""

MAX_CLIQUES = 20_000
"""Cliques after which no more are looked for."""


def maximal_cliques(neighbours: Mapping[int, frozenset[int]], most: int = MAX_CLIQUES) -> list[frozenset[int]]:
    """Return the largest sets of nodes that are all neighbours of each other (Bron and Kerbosch, with pivots).

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
    """Return sets of three items or more that hold every clique of pairs that are frequent enough, at most so many.

    `pairs` are noisy counts of pairs of items, in the upper part of a matrix. Where there are too many, those are kept
    whose rarest pairs are the most frequent.
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
"""Shares of the budget; the tables over the bases get the rest, and without discovery so do the items."""

PART_OF_DELTA = 0.25
"""Part of delta that pays for a list of items that nobody has stated."""

MAX_BASES = 60
MAX_SET_ITEMS = 6
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
        self, curator: BasketCurator, ledger: Ledger, slack: float = math.inf, listener: Listener = ignore_event
    ) -> Found:
        """Ask the four questions, and work out the sets; `slack` bounds what a list of items may take of delta."""
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
            # Only so many items can be in that many sets; the order follows from released counts.
            ranked = np.argsort(-single, kind="stable")[: max(self.top, 2)]
            names, counts = [known[i] for i in ranked], single[ranked].astype(np.float64)
            told = Told(names)
            told.add_items(counts, sigma)
            if len(names) > 1:
                pairs, pair_sigma = curator.pairs(names, self.most_items, SHARE_PAIRS)
                told.add_pairs(pairs, pair_sigma)
        with report_stage(listener, "count over bases"):
            chosen = (
                choose_bases(told.pairs, told.kth(self.top), MAX_BASES, np.random.default_rng(0))
                if told.several
                else []
            )
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
            for few in range(1, min(len(basis), MAX_SET_ITEMS) + 1):
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


# One run: what can be refused is refused before anything is charged, and the books are open while it asks.

PART_OF_LIFETIME = 0.2
"""Part of what a lifetime budget has left for lists of items that one run may take."""

MIN_SLACK = 1e-200
"""Below this, chances are no longer told apart from nothing."""

MAX_TOP, MAX_ITEMS, MAX_LISTED = 1_000, 1_000, 1_000_000

SEEDED = "NOT PRIVATE: the noise follows from a seed and can be recomputed by anyone who knows it"

HOW = (
    "say how the table holds baskets: --column NAME for a column of lists, --basket NAME --item NAME for a row for "
    "each item, --columns a,b,c (or all) for a yes/no column for each item"
)


def form_of(
    source: Any,
    column: str | None = None,
    basket: str | None = None,
    item: str | None = None,
    columns: Sequence[str] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
) -> BasketForm:
    """Return how a table holds baskets, by what is said and by the declared types of its columns; no row is read."""
    given = [column is not None, basket is not None or item is not None, columns is not None]
    if sum(given) > 1:
        raise MethodError(f"baskets are held in one way: {HOW}")
    if (basket is None) != (item is None):
        raise MethodError("--basket and --item go together: name the column of baskets and that of items")
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
        raise MethodError(f'column "{form.lists}" holds no lists: {HOW}')
    if form.basket is not None and form.basket == form.item:
        raise MethodError("--basket and --item name the same column: a basket is not its item")
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
    journal: str | PathLike[str] | None = None,
    budget_file: str | PathLike[str] | None = None,
    noise_seed: int | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    listener: Listener = ignore_event,
    release: Release | None = None,
) -> Found:
    """Return the `top` most frequent sets of items of private baskets, within a budget.

    A basket is what is protected. `items` are those that there may be, where that is public; otherwise they are found
    privately. Of a basket, `most_items` count among single items and pairs. `release` replaces the mechanisms, for
    audits.
    """
    mining = Mining(top, most_items, _get_known_items(form, items))
    _validate_mining(mining)
    release = release or Mechanisms(None if noise_seed is None else Noise.seeded(noise_seed))
    budget = Budget(epsilon=epsilon, delta=delta)
    # Quoted, so that a column called row is not taken for rows; runs on other baskets do not add up.
    whose = "row" if form.basket is None else f'"{form.basket}"'
    terms: Terms = (Adjacency(row="basket"), whose, budget, "gaussian")
    _check_noise(mining, budget)
    lifetime = None if budget_file is None else Lifetime(budget_file)
    slack = math.inf
    if lifetime is not None:
        lifetime.check(*terms)
        if not release.private:
            raise MethodError("noise that follows from a seed has no lifetime budget: leave noise_seed out")
        slack = PART_OF_LIFETIME * lifetime.slack_left()
        if mining.items is None and not slack > MIN_SLACK:
            raise BudgetError(
                "the lifetime budget has nothing left for a list of items that nobody has stated: list them (--items)"
            )
    table = BasketTable(source, form, dialect, listener)
    read = table.read()
    stamps = () if release.private else (SEEDED,)
    kept = None if journal is None else Path(journal)
    with open_run_ledger(terms, lifetime, journal=kept, stamps=stamps, facts=table.facts) as ledger:
        return mining.run(BasketCurator(read, ledger, release), ledger, slack, listener)


def _get_known_items(form: BasketForm, items: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the items that are publicly known: those listed, or the names of yes/no columns."""
    if form.columns:
        if items is not None:
            raise MethodError("the columns are the items: leave the list of items out")
        return form.columns
    if items is None:
        return None
    listed = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not listed or len(listed) > MAX_LISTED:
        raise MethodError(f"the list of items needs one to {MAX_LISTED:,} of them, one a line")
    return listed


def _validate_mining(mining: Mining) -> None:
    if not 1 <= mining.top <= MAX_TOP:
        raise MethodError(f"--top must lie from 1 to {MAX_TOP:,}; not {mining.top}")
    if not 2 <= mining.most_items <= MAX_ITEMS:
        raise MethodError(f"--most-items must lie from 2 to {MAX_ITEMS:,}; not {mining.most_items}")


def _check_noise(mining: Mining, budget: Budget) -> None:
    """Refuse a budget whose noise could not be drawn, before anything is read."""
    capacity = budget.capacity("gaussian")
    widest = Adjacency().pairs_l2(mining.most_items) / np.sqrt(2 * 0.02 * capacity)
    if not widest <= MAX_NOISE_SCALE:
        raise MethodError("the budget is too small: its noise could not be drawn. Raise epsilon.")
