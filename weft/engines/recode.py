"""Recoding: merge codes of an attribute by a map that was fixed without looking at the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.marginals.records import Codes, Records, code_dtype

Maps = Mapping[str, tuple[NDArray[Any], int]]
"""For some attributes: the new code of each old code, and the number of new codes."""


@dataclass(frozen=True)
class Recoding:
    """Value-level maps of some attributes: each row keeps exactly one code an attribute, hence one cell a table.

    A map comes from noisy output, so applying it is no question to the rows, and one row more or less still
    changes one cell of any recoded table by one.
    """

    source: Domain
    tables: Mapping[str, Codes] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def domain(self) -> Domain:
        """The domain after recoding."""
        return self._recoded(self.source)

    def _recoded(self, domain: Domain) -> Domain:
        sizes = tuple(self.sizes.get(name, domain.size(name)) for name in domain)
        orders = tuple(
            self.source.order(name).grouped(self.tables[name].tolist()) if name in self.tables else domain.order(name)
            for name in domain
        )
        impossible = tuple(known.grouped(self.tables, self.sizes) for known in domain.impossible)
        return Domain(domain.names, sizes, orders, tuple(known for known in impossible if known.cells.any()))

    def then(self, maps: Maps) -> Recoding:
        """Recode what this recoding gives."""
        domain = self.domain
        tables, sizes = dict(self.tables), dict(self.sizes)
        for name, (codes, size) in maps.items():
            table = _table(domain, name, codes, size)
            tables[name] = table[tables[name]] if name in tables else table
            sizes[name] = size
        return Recoding(self.source, tables, sizes)

    def apply(self, records: Records) -> Records:
        """Recode records over attributes of the source. Columns without a map are shared, not copied."""
        columns = (
            self.tables[name][column] if name in self.tables else column
            for name, column in zip(records.domain.names, records.columns, strict=True)
        )
        return Records(self._recoded(records.domain), tuple(columns))


def _table(domain: Domain, name: str, codes: NDArray[Any], size: int) -> Codes:
    if name not in domain:
        raise ValueError(f"{name!r} is not an attribute of the table")
    codes = np.asarray(codes)
    if codes.shape != (domain.size(name),) or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"the map of {name!r} needs one whole number for each of its {domain.size(name)} codes")
    if codes.min() < 0 or codes.max() >= size:
        raise ValueError(f"the map of {name!r} leads outside its {size} new codes")
    return codes.astype(code_dtype(size))
