"""Recoding: merge codes of attributes, or join several into one, by maps that were fixed without looking at rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Domain, Order
from weft.marginals.records import Codes, Records, code_dtype

Maps = Mapping[str, tuple[NDArray[Any], int]]
"""For some attributes: the new code of each old code, and the number of new codes."""

Joined = Mapping[str, Mapping[str, tuple[NDArray[Any], int]]]
"""For each new attribute: those that it joins, and how their codes are recoded for it."""


@dataclass(frozen=True)
class Recoding:
    """Value-level maps of some attributes: each row keeps exactly one code an attribute, hence one cell a table.

    A map comes from noisy output, so applying it is no question to the rows, and one row more or less still
    changes one cell of any recoded table by one.
    """

    source: Domain
    tables: Mapping[str, Codes] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    joined: Joined = field(default_factory=dict)
    """New attributes, each a combination of codes of the source: one code a row, by the row alone."""
    kept: tuple[str, ...] | None = None
    """Attributes that can be counted, new ones among them; None: all of the source."""

    @property
    def domain(self) -> Domain:
        """The domain after recoding."""
        return self._recoded(self.source.names if self.kept is None else self.kept)

    def _recoded(self, names: Sequence[str]) -> Domain:
        sizes = tuple(self.sizes.get(name, self._size(name)) for name in names)
        known = (one for one in self.source.impossible if set(one.clique) <= set(names))
        impossible = tuple(one.grouped(self.tables, self.sizes) for one in known)
        orders = tuple(self._order(name) for name in names)
        return Domain(tuple(names), sizes, orders, tuple(one for one in impossible if one.cells.any()))

    def _size(self, name: str) -> int:
        if name in self.joined:
            return math.prod(size for _, size in self.joined[name].values())
        return self.source.size(name)

    def _order(self, name: str) -> Order:
        order = Order() if name in self.joined else self.source.order(name)
        return order.grouped(self.tables[name].tolist()) if name in self.tables else order

    def sources(self, names: Collection[str]) -> list[str]:
        """Return the attributes of the source that these are made from."""
        made = {member for name in names if name in self.joined for member in self.joined[name]}
        return [name for name in self.source if name in made or name in names]

    def arranged(self, joined: Joined, kept: Sequence[str]) -> Recoding:
        """Join attributes of the source, where no code is merged yet, and leave some out."""
        if self.tables or self.kept is not None:
            raise ValueError("attributes are joined before their codes are merged")
        for maps in joined.values():
            for name, (codes, size) in maps.items():
                _table(self.source, name, codes, size)
        return replace(self, joined=joined, kept=tuple(kept))

    def then(self, maps: Maps) -> Recoding:
        """Recode what this recoding gives."""
        domain = self.domain
        tables, sizes = dict(self.tables), dict(self.sizes)
        for name, (codes, size) in maps.items():
            table = _table(domain, name, codes, size)
            tables[name] = table[tables[name]] if name in tables else table
            sizes[name] = size
        return replace(self, tables=tables, sizes=sizes)

    def apply(self, records: Records, names: Sequence[str] | None = None) -> Records:
        """Recode records over attributes of the source, to these attributes, or to all that there are.

        Columns without a map are shared, not copied.
        """
        if names is None:
            names = records.domain.names if self.kept is None else self.kept
        columns = (self._column(records, name) for name in names)
        return Records(self._recoded(names), tuple(columns))

    def _column(self, records: Records, name: str) -> Codes:
        column = self._joined(records, name) if name in self.joined else records.column(name)
        return self.tables[name][column] if name in self.tables else column

    def _joined(self, records: Records, name: str) -> Codes:
        """Number the combinations of a row's codes, the last attribute's fastest."""
        made = np.zeros(len(records), np.int64)
        for member, (codes, size) in self.joined[name].items():
            made = made * size + np.asarray(codes)[records.column(member)]
        return made.astype(code_dtype(self._size(name)))


def _table(domain: Domain, name: str, codes: NDArray[Any], size: int) -> Codes:
    if name not in domain:
        raise ValueError(f"{name!r} is not an attribute of the table")
    codes = np.asarray(codes)
    if codes.shape != (domain.size(name),) or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"the map of {name!r} needs one whole number for each of its {domain.size(name)} codes")
    if codes.min() < 0 or codes.max() >= size:
        raise ValueError(f"the map of {name!r} leads outside its {size} new codes")
    return codes.astype(code_dtype(size))
