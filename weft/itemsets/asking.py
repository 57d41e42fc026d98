"""One run: what can be refused is refused before anything is charged, and the books are open while it asks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from weft.curator import PrivateTable
from weft.curator.baskets import BasketCurator, BasketTable, Form, list_columns
from weft.errors import BudgetError, MethodError
from weft.itemsets.mining import Found, Mining
from weft.privacy import Adjacency, Budget, Lifetime, Noise
from weft.privacy.books import Terms, open_books
from weft.privacy.mechanisms import Mechanisms, Release
from weft.privacy.noise import LARGEST_SCALE
from weft.progress import Listener, silence
from weft.reading.dialect import PLAIN, Dialect

PART_OF_LIFETIME = 0.2
"""Part of what a lifetime budget has left for lists of items that one run may take."""

LEAST_SLACK = 1e-200
"""Below this, chances are no longer told apart from nothing."""

MOST_TOP, MOST_ITEMS, MOST_LISTED = 1_000, 1_000, 1_000_000

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
    dialect: Dialect = PLAIN,
) -> Form:
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
        form = Form(columns=tuple(dict.fromkeys(named)))
    elif basket is not None:
        form = Form(basket=basket, item=item)
    elif column is not None or len(lists) == 1:
        form = Form(lists=column or lists[0])
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
    form: Form,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    top: int = 100,
    items: Sequence[str] | None = None,
    most_items: int = 20,
    journal: str | PathLike[str] | None = None,
    budget_file: str | PathLike[str] | None = None,
    noise_seed: int | None = None,
    dialect: Dialect = PLAIN,
    listener: Listener = silence,
    release: Release | None = None,
) -> Found:
    """Return the `top` most frequent sets of items of private baskets, within a budget.

    A basket is what is protected. `items` are those that there may be, where that is public; otherwise they are found
    privately. Of a basket, `most_items` count among single items and pairs. `release` replaces the mechanisms, for
    audits.
    """
    mining = Mining(top, most_items, _known(form, items))
    _check(mining)
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
        if mining.items is None and not slack > LEAST_SLACK:
            raise BudgetError(
                "the lifetime budget has nothing left for a list of items that nobody has stated: list them (--items)"
            )
    table = BasketTable(source, form, dialect, listener)
    read = table.read()
    stamps = () if release.private else (SEEDED,)
    kept = None if journal is None else Path(journal)
    with open_books(terms, lifetime, journal=kept, stamps=stamps, facts=table.facts) as ledger:
        return mining.run(BasketCurator(read, ledger, release), ledger, slack, listener)


def _known(form: Form, items: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the items that are publicly known: those listed, or the names of yes/no columns."""
    if form.columns:
        if items is not None:
            raise MethodError("the columns are the items: leave the list of items out")
        return form.columns
    if items is None:
        return None
    listed = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not listed or len(listed) > MOST_LISTED:
        raise MethodError(f"the list of items needs one to {MOST_LISTED:,} of them, one a line")
    return listed


def _check(mining: Mining) -> None:
    if not 1 <= mining.top <= MOST_TOP:
        raise MethodError(f"--top must lie from 1 to {MOST_TOP:,}; not {mining.top}")
    if not 2 <= mining.most_items <= MOST_ITEMS:
        raise MethodError(f"--most-items must lie from 2 to {MOST_ITEMS:,}; not {mining.most_items}")


def _check_noise(mining: Mining, budget: Budget) -> None:
    """Refuse a budget whose noise could not be drawn, before anything is read."""
    capacity = budget.capacity("gaussian")
    widest = Adjacency().pairs_l2(mining.most_items) / np.sqrt(2 * 0.02 * capacity)
    if not widest <= LARGEST_SCALE:
        raise MethodError("the budget is too small: its noise could not be drawn. Raise epsilon.")
