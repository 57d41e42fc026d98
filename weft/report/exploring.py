"""What a planner looks at on a public sample: each column alone, and how far each pair is from independence.

Computed from the rows themselves, exactly: for public tables and nothing else. Columns with many values are looked at
in groups of neighbours, since a pair of them would have more cells than rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from weft.codec import Codec
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.report.grouping import Grouping, group
from weft.report.labels import labels

ONLY_PUBLIC = (
    "FOR PUBLIC DATA ONLY. These figures are exact: they are not private, and neither is a choice that was made by "
    "looking at them, unless the rows are public."
)

BINS, VALUES = 16, 30
"""Most bins, and most values, in which a column is looked at together with others."""

_CHANCE = np.sqrt(2 / np.pi)


@dataclass(frozen=True)
class ColumnTable:
    """A column alone: the share of the rows that each value or bin has."""

    name: str
    codes: int
    """Values or bins that it has by its schema."""
    labels: tuple[str, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class PairDistance:
    """How far two columns are from independence."""

    columns: tuple[str, str]
    indif: float
    """InDif (PrivSyn) as a share of the rows, sum of |n_ij - n_i n_j / n| over 2 n: so many would have to move."""
    chance: float
    """About what two independent columns would show in as many rows."""
    cells: int


@dataclass(frozen=True)
class Exploration:
    """A public table as a planner sees it."""

    rows: int
    columns: tuple[ColumnTable, ...]
    pairs: tuple[PairDistance, ...]
    """The farthest from independence first."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "warning": ONLY_PUBLIC,
            "rows": self.rows,
            "columns": [
                {"name": c.name, "codes": c.codes, "shares": dict(zip(c.labels, c.shares, strict=True))}
                for c in self.columns
            ],
            "pairs": [
                {"columns": list(p.columns), "indif": p.indif, "chance": p.chance, "cells": p.cells} for p in self.pairs
            ],
        }


def explore(codec: Codec, records: Records) -> Exploration:
    """Look at every column, and at every pair."""
    domain = records.domain
    groupings = {}
    for name in domain:
        counts = np.bincount(records.column(name), minlength=domain.size(name)).astype(np.float64)
        groupings[name] = group(labels(codec, name), counts, VALUES, BINS)
    coded = {name: groupings[name].groups[records.column(name)] for name in domain}
    n = max(len(records), 1)
    columns = []
    for name, made in groupings.items():
        shares = np.bincount(coded[name], minlength=len(made.labels)) / n
        columns.append(ColumnTable(name, domain.size(name), tuple(map(str, made.labels)), tuple(shares.tolist())))
    pairs = [_pair((a, b), coded, groupings) for a, b in combinations(domain.names, 2)]
    return Exploration(len(records), tuple(columns), tuple(sorted(pairs, key=lambda pair: -(pair.indif - pair.chance))))


def _pair(names: tuple[str, str], coded: dict[str, Array], groupings: dict[str, Grouping]) -> PairDistance:
    across = len(groupings[names[1]].labels)
    shape = (len(groupings[names[0]].labels), across)
    cell = coded[names[0]] * across + coded[names[1]]
    table = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    n = max(table.sum(), 1.0)
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    expected = rows @ columns / n
    # A cell of two independent columns varies as a count does that knows its row's and its column's sum.
    spread = np.sqrt(expected * (1 - rows / n) * (1 - columns / n))
    chance = np.minimum(_CHANCE * spread, 2 * expected).sum()
    return PairDistance(names, float(np.abs(table - expected).sum() / (2 * n)), float(chance / (2 * n)), table.size)
