"""How the codes of attributes become the cells of an answer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from weft.answers.bins import Bins, Shown
from weft.answers.pooled import Axis
from weft.marginals.marginal import Array


@dataclass(frozen=True)
class Layout:
    """How codes of attributes become cells of the answer."""

    shown: tuple[Shown, ...]
    columns: tuple[Bins, ...]
    allowed: Mapping[str, Array]

    def attribute_bins(self, name: str) -> tuple[Array, int]:
        """Return the cell of each code of an attribute, -1 for what conditions rule out, and the number of cells."""
        own = [found for one, found in zip(self.shown, self.columns, strict=True) if one.attribute == name]
        shape = tuple(len(found.labels) for found in own)
        met = self.allowed.get(name)
        size = len(own[0].codes) if own else len(met if met is not None else ())
        cells = np.ravel_multi_index([found.codes for found in own], shape) if own else np.zeros(size, np.int64)
        return np.where(met, cells, -1) if met is not None else cells, int(np.prod(shape))

    def axes(self, coding: Mapping[str, Array], shares: Mapping[str, Array] | None = None) -> dict[str, Axis]:
        """Return the attributes in working codes; `shares` divide a working code where bins cut it."""
        made = {}
        for name, codes in coding.items():
            cells, size = self.attribute_bins(name)
            many = int(codes.max()) + 1
            each = 1.0 / np.bincount(codes, minlength=many)[codes]
            parts = (shares or {}).get(name, each)
            kept = cells >= 0
            bins = sparse.coo_array((parts[kept], (cells[kept], codes[kept])), shape=(size, many))
            made[name] = Axis(codes, many, bins.tocsr())
        return made

    def shape_of(self, table: Array) -> Array:
        """Put the axes of attributes into those of columns, in the order asked for."""
        names = sorted({*(one.attribute for one in self.shown), *self.allowed})
        at = {name: [i for i, one in enumerate(self.shown) if one.attribute == name] for name in names}
        order = list(itertools.chain.from_iterable(at.values()))
        whole = table.reshape([len(self.columns[i].labels) for i in order])
        return np.transpose(whole, np.argsort(order))
