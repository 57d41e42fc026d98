"""A made-up table of a schema: rows that nobody has, for seeing what a recipe does with tables of this shape.

What a recipe spends on pairs depends on whether there are relations to be found, and what is lost of a column on how
its values are spread. A table has both, so the made-up one has both: rows belong to a few hidden classes, in each of
which the columns are spread in their own way. Values of a list fall off as in most lists, from the common to the rare;
numbers and dates have a hump. None of it is read from data: the schema's codes and a seed are all that goes in.
"""

from __future__ import annotations

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records

CLASSES = 6
"""Hidden classes of rows."""

TIE = 0.6
"""How much of a column's spread is its class's own: 0 would make all columns independent."""

SHUFFLED = 4
"""Places by which a class may move the most common values."""

APART = 0.1
"""Share of the rows whose value stands apart: missing, special."""


def made_up(domain: Domain, rows: int, rng: np.random.Generator) -> Records:
    """Draw the records of a made-up table."""
    sizes = 1 / np.arange(1.0, CLASSES + 1)
    hidden = rng.choice(CLASSES, rows, p=sizes / sizes.sum())
    columns = []
    for name in domain:
        cumulative = np.cumsum(_spread(domain, name, rng), axis=1)
        points = rng.random(rows)
        # One running sum over all classes: class c lies between c and c + 1.
        steps = (cumulative / cumulative[:, -1:] + np.arange(CLASSES)[:, None]).ravel()
        found = np.searchsorted(steps, points + hidden, side="right") - hidden * domain.size(name)
        columns.append(np.clip(found, 0, domain.size(name) - 1))
    return Records.of(domain, columns)


def _spread(domain: Domain, name: str, rng: np.random.Generator) -> Array:
    """Return the distribution of an attribute in each class."""
    order, size = domain.order(name), domain.size(name)
    inside = np.setdiff1d(np.arange(size), list(order.apart))
    made = np.zeros((CLASSES, size))
    if len(inside):
        common, own = _humps(len(inside), rng) if order.ordered else _falling(len(inside), rng)
        shares = (1 - TIE) * common / common.sum() + TIE * own / own.sum(axis=1, keepdims=True)
        made[:, inside] = shares
    if order.apart:
        made *= 1 - APART
        made[:, list(order.apart)] = APART / len(order.apart)
    return made


def _humps(codes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a hump for all rows, and one for each class."""
    at = (np.arange(codes) + 0.5) / codes
    middles = rng.uniform(0.1, 0.6, (CLASSES, 1))
    return np.exp(-0.5 * ((at - 0.35) / 0.2) ** 2), np.exp(-0.5 * ((at - middles) / 0.12) ** 2)


def _falling(codes: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return shares that fall off, and for each class some that fall faster, from another of the most common values.

    As fast as the common ones they would tie columns of two values by next to nothing (a correlation of .04), and a
    recipe that finds no pair worth its price spends more on columns than it will on a real table.
    """
    ranks = np.arange(1.0, codes + 1)
    shift = rng.integers(0, min(codes, SHUFFLED), CLASSES)
    return 1 / ranks, np.stack([np.roll(1 / ranks**2, by) for by in shift])
