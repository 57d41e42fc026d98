"""Counts with their errors, as they are handed out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weft.marginals.marginal import Array
from weft.notebook import sheet
from weft.release.statement import void

Source = Literal["measured", "model", "rows"]
"""Where counts come from: released tables, the model's expectation, or synthetic rows that were counted."""

WITHIN = 1.96
"""Standard errors to both sides that hold 95% of a normal law."""


@dataclass(frozen=True)
class Cell:
    """One count."""

    values: tuple[str, ...]
    """What each column is in it."""
    count: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Counts:
    """How many rows there are of each combination of values, and how far that may be off."""

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """The values or bins of each column."""
    estimate: Array
    """The counts as they were worked out, an axis for each column; where noise is large some are below 0."""
    standard_error: Array
    source: Source
    meaning: str
    """What the range covers and what not, in words."""
    where: tuple[str, ...] = ()
    """The conditions that the rows meet."""
    stamps: tuple[str, ...] = ()
    """Warnings that go with everything this model releases: a last column of `table`, so that no file loses them."""

    @property
    def count(self) -> Array:
        """The counts, with 0 for what noise put below it."""
        return np.maximum(self.estimate, 0.0)

    @property
    def low(self) -> Array:
        """Lower end of the range of 95%."""
        return np.maximum(self.estimate - WITHIN * self.standard_error, 0.0)

    @property
    def high(self) -> Array:
        """Upper end of the range of 95%."""
        return np.maximum(self.estimate + WITHIN * self.standard_error, 0.0)

    def __len__(self) -> int:
        return int(self.estimate.size)

    def __iter__(self) -> Iterator[Cell]:
        numbers = zip(
            *(part.ravel().tolist() for part in (self.count, self.standard_error, self.low, self.high)), strict=True
        )
        for values, cell in zip(itertools.product(*self.labels), numbers, strict=True):
            yield Cell(values, *cell)

    @property
    def table(self) -> pa.Table:
        """The counts as a table: a row for each combination of values."""
        cells = list(itertools.product(*self.labels))
        made = {name: pa.array([cell[i] for cell in cells], pa.string()) for i, name in enumerate(self.columns)}
        taken = {"count": self.count, "standard_error": self.standard_error, "low": self.low, "high": self.high}
        for name, numbers in taken.items():
            made[name if name not in made else f"{name} (of rows)"] = pa.array(numbers.ravel())
        if self.stamps:
            own = "stamps" if "stamps" not in made else "stamps (of the release)"
            made[own] = pa.array(["; ".join(self.stamps)] * len(cells), pa.string())
        return pa.table(made)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "columns": list(self.columns),
            "where": list(self.where),
            "source": self.source,
            "meaning": self.meaning,
            "releasable": not void(self.stamps),
            "stamps": list(self.stamps),
            "cells": [
                {
                    "values": list(cell.values),
                    "count": cell.count,
                    "standard_error": cell.standard_error,
                    "low": cell.low,
                    "high": cell.high,
                }
                for cell in self
            ],
        }

    def _repr_html_(self) -> str:
        rows = [(*cell.values, f"{cell.count:,.0f}", f"{cell.low:,.0f} to {cell.high:,.0f}") for cell in self]
        told = ". ".join([*self.stamps, " x ".join(self.columns) or "all rows"])
        return sheet(told, [*self.columns, "rows", "range"], rows, self.meaning)

    def __str__(self) -> str:
        lines = [
            f"{' x '.join(cell.values) or 'rows'}: {cell.count:,.0f} ± {cell.standard_error:,.0f}" for cell in self
        ]
        return "\n".join([*self.stamps, *lines, self.meaning])
