"""Baskets: one set of items per privacy unit, read from lists, basket-item pairs, or yes/no columns.

An item is trimmed text; blank and missing items are dropped, and repeated items of a basket count once.

Privacy: what a row adds to its basket depends on that row only. Where at most `most` items of a basket count, they are
chosen at random, independently for each query, as in `weft.engines.privacy_units`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array

from weft.engines.privacy_units import keep_rows, unit_codes
from weft.engines.sources import open_reader
from weft.engines.value_listing import pack_value_counts
from weft.errors import DataError
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.marginals.counting import Counts
from weft.marginals.domain import Domain
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.schema.kinds import Unknown
from weft.values.storage import decode_dictionary
from weft.values.text_numbers import repair_text

_TEXT = pa.large_string()
_YES = ("1", "true", "yes", "y", "t", "1.0")


@dataclass(frozen=True)
class BasketForm:
    """Layout of baskets in a table: a column of lists, or columns of baskets and items, or one column per item."""

    lists: str | None = None
    basket: str | None = None
    item: str | None = None
    columns: tuple[str, ...] = ()

    @property
    def reads(self) -> list[str]:
        """The columns to read."""
        named = [name for name in (self.lists, self.basket, self.item) if name is not None]
        return named or list(self.columns)


@dataclass(frozen=True)
class Baskets:
    """Distinct pairs of basket and item."""

    baskets: int
    """Number of baskets. Private, like everything here."""
    owner: np.ndarray[Any, np.dtype[np.int64]]
    item: np.ndarray[Any, np.dtype[np.int64]]
    names: pa.Array
    rng: np.random.Generator

    @property
    def domain(self) -> Domain:
        """Empty domain: baskets are not encoded."""
        return Domain((), ())

    def listed(self, most: int) -> list[Counts]:
        """Return the number of baskets with each item, and the packed items; at most `most` items per basket count."""
        kept = self.item[keep_rows(self.owner, most, self.rng)]
        counts = np.bincount(kept, minlength=len(self.names))
        there = np.flatnonzero(counts)
        return pack_value_counts(self.names.take(pa.array(there)), counts[there].astype(np.int64))

    def counts(self, items: Sequence[str], most: int) -> Counts:
        """Return the number of baskets with each of these items; at most `most` of them per basket count."""
        owner, place = self._among(items)
        return np.bincount(place[keep_rows(owner, most, self.rng)], minlength=len(items)).astype(np.int64)

    def pairs(self, items: Sequence[str], most: int) -> Counts:
        """Return the number of baskets with each pair of these items, as a strictly upper triangular matrix."""
        owner, place = self._among(items)
        kept = keep_rows(owner, most, self.rng)
        held = csr_array(
            (np.ones(int(kept.sum()), np.int64), (owner[kept], place[kept])), shape=(max(self.baskets, 1), len(items))
        )
        together: Counts = np.triu((held.T @ held).toarray(), 1).astype(np.int64)
        return together

    def table(self, items: Sequence[str]) -> Counts:
        """Return the marginal of the presence of these items: every basket adds one to one cell."""
        owner, place = self._among(items)
        weights = 1 << np.arange(len(items))[::-1]
        cell = np.bincount(owner, weights=weights[place], minlength=self.baskets).astype(np.int64)
        counts = np.bincount(cell, minlength=1 << len(items)).astype(np.int64)
        return np.asarray(counts.reshape((2,) * len(items)))

    def _among(self, items: Sequence[str]) -> tuple[Any, Any]:
        """Return the pairs of baskets and these items, with items by their index."""
        found = pc.index_in(self.names, pa.array(items, _TEXT)).fill_null(-1).to_numpy(zero_copy_only=False)
        place = found.astype(np.int64)[self.item] if len(self.names) else self.item
        there = place >= 0
        return self.owner[there], place[there]


def list_columns(types: pa.Schema) -> list[str]:
    """Return the columns whose declared type is a list."""
    return [field.name for field in types if pa.types.is_list(field.type) or pa.types.is_large_list(field.type)]


def open_baskets(
    source: Any,
    form: BasketForm,
    batch_rows: int,
    dialect: Dialect = DEFAULT_DIALECT,
    listener: Listener = ignore_event,
) -> Baskets:
    """Read the baskets of a table."""
    schema = Schema(tuple(Unknown(name, missing=True) for name in form.reads), extra_columns="ignore")
    reader = open_reader(source, schema, batch_rows, dialect)
    owners: list[Any] = []
    texts: list[pa.Array] = []
    names: list[pa.Array] = []
    rows = 0
    for batch, _ in reader.read(form.reads, lambda batch: None, listener, "read"):
        if form.lists is not None:
            flat, of = _flatten_lists(batch.column(form.lists), form.lists)
            owners.append(of + rows)
            texts.append(flat)
        elif form.item is not None:
            texts.append(_read_item_texts(batch.column(form.item)))
            names.append(batch.column(form.basket))
        else:
            for name in form.columns:
                of = np.flatnonzero(_read_item_flags(batch.column(name)))
                owners.append(of + rows)
                texts.append(pa.array([name], _TEXT).take(pa.array(np.zeros(len(of), np.int64))))
        rows += len(batch)
    owner = unit_codes(names) if form.item is not None else np.concatenate([np.zeros(0, np.int64), *owners])
    return _drop_repeated_items(owner, pa.chunked_array(texts, _TEXT), rows if form.item is None else None)


def _drop_repeated_items(owner: Any, items: pa.ChunkedArray, baskets: int | None) -> Baskets:
    """Keep each item of a basket once; drop blank items, and items without a basket."""
    coded = items.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    if baskets is None:
        baskets = int(owner.max(initial=-1)) + 1
    there = (codes >= 0) & (owner >= 0)
    width = max(len(coded.dictionary), 1)
    pairs = np.unique(owner[there] * width + codes[there])
    rng = np.random.default_rng()  # system entropy: which items of a basket count must stay secret
    return Baskets(baskets, pairs // width, pairs % width, coded.dictionary.cast(_TEXT), rng)


def _read_item_texts(array: pa.Array) -> pa.Array:
    """Return items as trimmed text, null if blank."""
    array = decode_dictionary(array)
    if pa.types.is_nested(array.type):
        raise DataError(f"items must be words or numbers, but their type is {array.type}: extract one of its fields")
    array = pa.nulls(len(array), _TEXT) if pa.types.is_null(array.type) else array
    words = pc.utf8_trim_whitespace(repair_text(array.cast(_TEXT)))
    return pc.if_else(pc.equal(words, ""), None, words)


def _flatten_lists(array: pa.Array, name: str) -> tuple[pa.Array, Any]:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise DataError(f'column "{name}" holds no lists; name columns of baskets and items (--basket, --item)')
    # A missing list may have hidden members, which do not count.
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _read_item_texts(pc.list_flatten(array)), np.repeat(np.arange(len(array)), lengths)


def _read_item_flags(array: pa.Array) -> Any:
    words = pc.utf8_lower(_read_item_texts(array))
    return pc.is_in(words, pa.array(_YES, _TEXT)).fill_null(False).to_numpy(zero_copy_only=False)
