"""Counts with their errors, as they are handed out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weft.display import format_count as number
from weft.display import render_table_html
from weft.encoding import Codec
from weft.encoding.column_groups import ColumnGroup
from weft.marginals.domain import Clique
from weft.marginals.marginal import Array
from weft.schema.kinds.kind import Label
from weft.synthesis.fitted import Fitted
from weft.synthesis.statement import is_void

Source = Literal["measured", "model", "rows"]
"""Where counts come from: released tables, the model's expectation, or synthetic rows that were counted."""

WITHIN = 1.96
"""Standard errors to both sides that hold 95% of a normal law."""


@dataclass(frozen=True)
class CountedCell:
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

    def __iter__(self) -> Iterator[CountedCell]:
        numbers = zip(
            *(part.ravel().tolist() for part in (self.count, self.standard_error, self.low, self.high)), strict=True
        )
        for values, cell in zip(itertools.product(*self.labels), numbers, strict=True):
            yield CountedCell(values, *cell)

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
            "releasable": not is_void(self.stamps),
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
        return render_table_html(told, [*self.columns, "rows", "range"], rows, self.meaning)

    def __str__(self) -> str:
        lines = [
            f"{' x '.join(cell.values) or 'rows'}: {cell.count:,.0f} ± {cell.standard_error:,.0f}" for cell in self
        ]
        return "\n".join([*self.stamps, *lines, self.meaning])


# What a range of counts covers, and what it does not, in words.

FREE = "These counts may be released: they follow from what was released before, and cost no budget."


def explain_measured_range(fitted: Fitted) -> str:
    """Say what a range of combined tables means."""
    return (
        "Measured: these columns were counted together, with noise, and every released table that tells of them takes "
        f"part. The range holds the exact count of {_describe_counted_rows(fitted)} in about 95 of 100 cells."
    )


def explain_expected_range(fitted: Fitted, records: int, missing: Sequence[Clique]) -> str:
    """Say what a range around a model's expectation means."""
    if fitted.model.fixed_records:
        return (
            "These are counts of the records that were released, as many as were asked for: they are not scaled to the "
            "private table, and no range is known for it."
        )
    drawn = f", and of the {number(records, 'synthetic row')} that were counted" if records else ""
    if not fitted.released:
        return (
            "From the model: its file does not keep the tables that were released, so that no range can be given for "
            "the noise in them. Fit the model again with this version."
        )
    single = [name for term in missing if len(term) == 1 for name in term]
    alone = f" Nothing that was measured tells of {', '.join(single)} in this form." if single else ""
    together = max((len(term) for term in missing), default=0) > 1
    what = (
        "these columns were not counted together"
        if together
        else "what is asked lies across the bins in which these columns were counted"
    )
    return (
        f"From the model: {what}. The range covers the noise of what was measured of them{drawn}. It does not cover "
        f"what the model assumes where nothing was measured, so the exact count may well lie outside.{alone}"
    )


def explain_counted_range(fitted: Fitted, made: int) -> str:
    """Say what a range of counted rows means."""
    if fitted.model.fixed_records:
        return explain_expected_range(fitted, made, ())
    return (
        f"From {number(made, 'synthetic row')}, counted and scaled to the noisy number of rows: what is asked is not "
        "told by the codes that were measured. The range covers the chance of drawing these rows, and neither the "
        "noise in the model nor what it assumes: the exact count may well lie outside."
    )


def explain_random_counts(columns: Sequence[str]) -> str:
    """Say what counts by columns mean that nothing was asked about."""
    verb = "was" if len(columns) == 1 else "were"
    return (
        f"{', '.join(columns)} {verb} made at random, as the plan of marginals says: these counts tell nothing of the "
        "private table, and the range is as wide as it."
    )


def _describe_counted_rows(fitted: Fitted) -> str:
    """Say of which rows a count is."""
    if fitted.schema.unit is None:
        return "the private table"
    most = number(fitted.schema.rows_per_unit, "row")
    return f'the private rows that were used (at most {most} for each "{fitted.schema.unit}")'


# What a person reads of a column: its values as the schema names them, or bins with round ends of what is too fine.

MAX_NAMED_VALUES = 3
"""Values that are named one by one where they were merged."""


@dataclass(frozen=True)
class Shown:
    """A column that is asked for, as codes of an attribute."""

    column: str
    attribute: str
    values: Array
    """The column's own code for each code of the attribute: the same, but for columns that are counted as a group."""
    labels: tuple[Label, ...]
    """The name of each of the column's own codes."""
    ordered: bool
    apart: frozenset[int]


@dataclass(frozen=True)
class CodeBins:
    """Groups of the codes of an attribute, and what each is called."""

    codes: Array
    """The bin of each code of the attribute."""
    labels: tuple[str, ...]

    def only(self, met: Array | None) -> CodeBins:
        """Return the bins that hold a code which conditions allow; all if there are none."""
        if met is None:
            return self
        kept = np.unique(self.codes[met])
        place = np.zeros(len(self.labels), np.int64)  # what is ruled out falls anywhere: it is not counted
        place[kept] = np.arange(len(kept))
        return CodeBins(place[self.codes], tuple(self.labels[i] for i in kept.tolist()))


def view_column_codes(codec: Codec, column: str) -> Shown | None:
    """Return a column as codes; None where no code tells it: it is made of other columns."""
    part = codec.part_of(column)
    if isinstance(part, ColumnGroup):
        at = part.columns.index(column)
        member = part.members[at]
        order = member.domain.order(member.domain.names[0])
        attribute, values, labels = part.domain.names[0], part.combinations[:, at], member.labels()[0]
        return Shown(column, attribute, values, labels, order.ordered, order.apart)
    if part is None or part.needs or column not in part.domain:
        return None
    order = part.domain.order(column)
    labels = part.labels()[part.domain.index(column)]
    return Shown(column, column, np.arange(len(labels)), labels, order.ordered, order.apart)


def bins_of(asked: Shown, coding: Array, most: int) -> CodeBins | None:
    """Return bins of a column, none of which cuts a code of `coding` (of each code of the attribute); None: they must.

    Merged codes of a column of its own are bins themselves, and neighbours are joined where there are more than `most`.
    """
    atoms = asked.values
    if not _refines_values(coding, atoms):
        if len(atoms) != len(asked.labels):  # a group's column: its values are in other codes together with others
            return None
        atoms = coding
    atoms = _in_order(atoms)
    held = np.split(asked.values[np.argsort(atoms, kind="stable")], np.cumsum(np.bincount(atoms))[:-1])
    members = [np.unique(values) if len(values) > 1 else values for values in held]
    joined = _join_neighbours(asked, members, most)
    of = np.empty(len(members), np.int64)
    labels = []
    for place, group in enumerate(joined):
        of[group] = place
        labels.append(_name_codes(asked, np.unique(np.concatenate([members[atom] for atom in group]))))
    return CodeBins(of[atoms], tuple(labels))


def _refines_values(coding: Array, values: Array) -> bool:
    """Whether every code of a coding stands for one value."""
    found = np.zeros(int(coding.max()) + 1, values.dtype)
    found[coding] = values
    return bool(np.array_equal(found[coding], values))


def _in_order(groups: Array) -> Array:
    """Number groups by their first code."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[inverse])


def _join_neighbours(asked: Shown, members: Sequence[Array], most: int) -> list[list[int]]:
    """Join neighbours of an ordered column until there are at most so many, beside codes that stand apart."""
    inside = [i for i, held in enumerate(members) if not asked.apart.intersection(held.tolist())]
    if not asked.ordered or len(inside) <= most:
        return [[i] for i in range(len(members))]
    numbers = [_parse_number(asked.labels[int(members[i][0])].low) for i in inside]
    if any(number is None for number in numbers):
        each = -(-len(inside) // most)
        keys = [place // each for place in range(len(inside))]
    else:
        lows = [float(number or 0) for number in numbers]
        width = round_width(lows[0], lows[-1], most)
        keys = [find_bin_start(number, width) for number in lows]
    groups: dict[int, list[int]] = {}
    for i, key in zip(inside, keys, strict=True):
        groups.setdefault(key, []).append(i)
    return [*groups.values(), *([int(i)] for i in np.setdiff1d(np.arange(len(members)), inside))]


def round_width(low: float, high: float, most: int) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... (or .1, .2, ...) whose multiples cut a range into at most so many.

    >>> round_width(0, 99, 20), round_width(0, 110, 20), round_width(0, 0.9, 10)
    (5.0, 10.0, 0.1)
    """
    power = 10.0 ** math.floor(math.log10(max((high - low) / most, 1e-300)))
    widths = [step * power for power in (power, 10 * power) for step in (1.0, 2.0, 5.0)]
    return next((w for w in widths if find_bin_start(high, w) - find_bin_start(low, w) < most), 100 * power)


def find_bin_start(number: float, width: float) -> int:
    """Return the multiple of a width at which a number's bin begins."""
    return math.floor(number / width + 1e-9)


def _parse_number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _name_codes(asked: Shown, codes: Array) -> str:
    labels = [asked.labels[int(code)] for code in codes]
    if len(labels) == 1:
        return str(labels[0])
    if asked.ordered and not asked.apart.intersection(codes.tolist()) and int(np.ptp(codes)) == len(codes) - 1:
        return str(labels[0].joined(labels[-1]))
    if len(labels) <= MAX_NAMED_VALUES:
        return ", ".join(map(str, labels))
    return f"{len(labels):,} rarer values together"
