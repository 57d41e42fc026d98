"""Tables with a known structure, made from chance: a kind is made once for choosing settings, once for reporting."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.marginals.records import Records, code_dtype
from weft_lab.generated import latent_class

Make = Callable[[np.random.Generator, float], Records]
"""Makes a table from chance; the number says how large it is, about 1."""

Codes = NDArray[np.int64]


def records_of(columns: list[Codes], sizes: list[int]) -> Records:
    """Return columns of codes as records."""
    names = tuple(f"c{place:03}" for place in range(len(columns)))
    stored = [column.astype(code_dtype(size)) for column, size in zip(columns, sizes, strict=True)]
    return Records.of(Domain(names, tuple(sizes)), stored)


def drawn(chances: NDArray[np.float64], given: Codes, rng: np.random.Generator) -> Codes:
    """Draw a value for each row from the line of chances that its given code names."""
    edges = np.cumsum(chances, axis=1)
    found: Codes = (rng.random(len(given))[:, None] > edges[given]).sum(axis=1)
    return np.asarray(np.minimum(found, chances.shape[1] - 1))


def tree(rng: np.random.Generator, scale: float) -> Records:
    """Each column follows one before it."""
    n, d = int(20_000 * scale), int(16 * scale)
    sizes = [int(size) for size in rng.integers(2, 13, d)]
    columns: list[Codes] = [rng.integers(0, sizes[0], n)]
    for place in range(1, d):
        parent = int(rng.integers(0, place))
        columns.append(drawn(rng.dirichlet(np.full(sizes[place], 0.4), sizes[parent]), columns[parent], rng))
    return records_of(columns, sizes)


def dense(rng: np.random.Generator, scale: float) -> Records:
    """All columns depend on each other, through a few hidden classes."""
    return latent_class(int(30_000 * scale), int(14 * scale), rng, classes=6, sizes=(2, 12))


def mixture(rng: np.random.Generator, scale: float) -> Records:
    """Many hidden classes, columns of many sizes, most of them weakly related."""
    return latent_class(int(40_000 * scale), int(20 * scale), rng, classes=30, weakest=1e3)


def wide_values(rng: np.random.Generator, scale: float) -> Records:
    """Many values a column, and few rows for them."""
    return latent_class(int(20_000 * scale), int(24 * scale), rng, sizes=(80, 100), scatter=0.05)


def many_columns(rng: np.random.Generator, scale: float) -> Records:
    """Many columns, and few rows for them."""
    return latent_class(int(9_000 * scale), int(60 * scale), rng, sizes=(2, 12))


def few_rows(rng: np.random.Generator, scale: float) -> Records:
    """A survey of some hundred people."""
    return latent_class(int(1_300 * scale), int(12 * scale), rng, sizes=(2, 8))


def near_copies(rng: np.random.Generator, scale: float) -> Records:
    """Pairs of columns that are nearly the same: a code and its general form, a flag and its twin."""
    base = dense(rng, scale)
    columns, sizes = [], []
    for place, name in enumerate(base.domain.names[: int(8 * scale)]):
        own, size = base.column(name).astype(np.int64), base.domain.size(name)
        general = max(size // 2, 2) if place % 2 else size
        copy = np.where(rng.random(len(own)) < 0.99, own % general, rng.integers(0, general, len(own)))
        columns += [own, copy]
        sizes += [size, general]
    return records_of(columns, sizes)


def high_order(rng: np.random.Generator, scale: float) -> Records:
    """Triples in which each pair is independent and the third value follows from the other two."""
    n = int(30_000 * scale)
    columns, sizes = [], []
    for _ in range(int(4 * scale)):
        size = int(rng.integers(2, 5))
        first, second = rng.integers(0, size, (2, n))
        third = np.where(rng.random(n) < 0.9, (first + second) % size, rng.integers(0, size, n))
        columns += [first, second, third]
        sizes += [size] * 3
    return records_of(columns, sizes)


KINDS: Mapping[str, Make] = {
    "tree": tree,
    "dense": dense,
    "mixture": mixture,
    "wide values": wide_values,
    "many columns": many_columns,
    "few rows": few_rows,
    "near copies": near_copies,
    "high order": high_order,
}
