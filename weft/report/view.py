"""The codes in which a report compares tables: few enough to be looked at, and fixed by public facts.

Numbers and dates have a code for each value or nearly so. A report sees them in groups of neighbours that hold about
equal numbers of synthetic rows: the synthetic table is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.codec import Codec
from weft.marginals.counting import count
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.recode import coarse_groups, summed_codes
from weft.marginals.records import Records
from weft.report.labels import labels
from weft.schema.kinds.labels import Label

MOST_CODES = 60
"""Ordered attributes with more codes than this are compared in groups of neighbours."""

GROUPS = 40


@dataclass(frozen=True)
class View:
    """How the records of a codec are looked at."""

    codec: Codec
    groups: Mapping[str, Array]
    """Group of each code, for the attributes that have very many."""

    @classmethod
    def of(cls, codec: Codec, synth: Records) -> View:
        """Choose the groups by the synthetic rows."""
        domain = codec.domain
        orders = {name: domain.order(name) for name in domain}
        wide = [n for n in domain if orders[n].ordered and domain.size(n) - len(orders[n].apart) > MOST_CODES]
        made = count(synth, [(name,) for name in wide])
        return cls(codec, {n: coarse_groups(t, orders[n].apart, GROUPS) for n, t in zip(wide, made, strict=True)})

    @cached_property
    def domain(self) -> Domain:
        """The attributes in these codes."""
        source = self.codec.domain
        sizes = [int(self.groups[n].max()) + 1 if n in self.groups else source.size(n) for n in source]
        orders = [
            source.order(n).grouped(self.groups[n].tolist()) if n in self.groups else source.order(n) for n in source
        ]
        return Domain(source.names, tuple(sizes), tuple(orders))

    def records(self, table: Records) -> Records:
        """Put records into these codes."""
        columns = [
            self.groups[name][codes] if name in self.groups else codes
            for name, codes in zip(table.domain, table.columns, strict=True)
        ]
        return Records.of(self.domain, columns)

    def fold(self, name: str, table: Array) -> Array:
        """Put a table of one attribute into these codes."""
        if name not in self.groups:
            return table
        return summed_codes(np.asarray(table), self.groups[name], self.domain.size(name))

    def labels(self, name: str) -> tuple[Label, ...]:
        """Name the codes of an attribute."""
        named = labels(self.codec, name)
        if name not in self.groups:
            return named
        codes, first = np.unique(self.groups[name], return_index=True)
        last = len(self.groups[name]) - 1 - np.unique(self.groups[name][::-1], return_index=True)[1]
        return tuple(named[first[code]].joined(named[last[code]]) for code in codes)
