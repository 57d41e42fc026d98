"""Answers to counting queries: counts with standard errors, their explanation, and the bins of each column."""

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
"""Source of the counts: released marginals, expected counts of the model, or counted synthetic rows."""

WITHIN = 1.96
"""Half-width of a 95% interval of a normal distribution, in standard errors."""


@dataclass(frozen=True)
class CountedCell:
    """Count of one combination of values or bins."""

    values: tuple[str, ...]
    count: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Counts:
    """Answer to a counting query: the number of rows for each combination of values, with standard errors."""

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """The values or bins of each column."""
    estimate: Array
    """Estimated counts, one axis per column; noise may make them negative."""
    standard_error: Array
    source: Source
    meaning: str
    """Explanation of what the 95% range covers and what it does not."""
    where: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()
    """Warnings that apply to all output of the model; also the last column of `table`, so that files keep them."""
    counted: str | None = None
    """Of related tables, the table whose rows are counted."""

    @property
    def count(self) -> Array:
        """The estimates, with 0 in place of negative ones."""
        return np.maximum(self.estimate, 0.0)

    @property
    def low(self) -> Array:
        """Lower end of the 95% range."""
        return np.maximum(self.estimate - WITHIN * self.standard_error, 0.0)

    @property
    def high(self) -> Array:
        """Upper end of the 95% range."""
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
        """The counts as a table, one row per combination of values."""
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
            **({} if self.counted is None else {"table": self.counted}),
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


FREE = "These counts may be released: they are computed from released measurements and cost no budget."


def explain_measured_range(fitted: Fitted) -> str:
    """Explain the range of pooled marginals."""
    return (
        "Measured: these columns were measured together, with noise, and the estimate combines all released "
        f"measurements of them. The range contains the exact count of {_describe_counted_rows(fitted)} in about 95 of "
        "100 cells."
    )


def explain_expected_range(fitted: Fitted, records: int, missing: Sequence[Clique]) -> str:
    """Explain the range around the expected counts of a model."""
    if fitted.model.fixed_records:
        return (
            "These are counts of the released records, whose number was chosen by the user: they are not scaled to the "
            "private table, and the range does not refer to it."
        )
    drawn = f", and the sampling error of the {number(records, 'synthetic row')} that were counted" if records else ""
    if not fitted.released:
        return (
            "From the model: its file does not contain the released measurements, so the range does not cover their "
            "noise. Fit the model again with this version."
        )
    single = [name for term in missing if len(term) == 1 for name in term]
    alone = f" No measurement of {', '.join(single)} has these values or bins." if single else ""
    together = max((len(term) for term in missing), default=0) > 1
    what = (
        "these columns were not measured together"
        if together
        else "the values or conditions of this query split the bins in which these columns were measured"
    )
    return (
        f"From the model: {what}. The range covers the noise of the measurements of these columns{drawn}. It does not "
        f"cover errors of the model where nothing was measured, so the exact count may well lie outside.{alone}"
    )


def explain_counted_range(fitted: Fitted, made: int) -> str:
    """Explain the range of counted synthetic rows."""
    if fitted.model.fixed_records:
        return explain_expected_range(fitted, made, ())
    return (
        f"From {number(made, 'synthetic row')}, counted and scaled to the noisy number of rows, since the measurements "
        "do not have the values of this query. The range covers the sampling error of these rows, but neither the "
        "noise nor the errors of the model: the exact count may well lie outside."
    )


def explain_random_counts(columns: Sequence[str]) -> str:
    """Explain counts by columns that were generated at random."""
    verb = "was" if len(columns) == 1 else "were"
    return (
        f"{', '.join(columns)} {verb} generated at random, as the marginal plan specifies: these counts carry no "
        "information about the private table, and the range spans the whole table."
    )


def _describe_counted_rows(fitted: Fitted) -> str:
    if fitted.schema.unit is None:
        return "the private table"
    most = number(fitted.schema.rows_per_unit, "row")
    return f'the private rows within the contribution bound (at most {most} for each "{fitted.schema.unit}")'


MAX_NAMED_VALUES = 3
"""Maximum number of merged values that a label lists individually."""


@dataclass(frozen=True)
class Shown:
    """A column of a query as codes of an attribute, with the labels of its own codes."""

    column: str
    attribute: str
    values: Array
    """The column's code for each attribute code; they differ only if several columns are encoded as one attribute."""
    labels: tuple[Label, ...]
    ordered: bool
    apart: frozenset[int]


@dataclass(frozen=True)
class CodeBins:
    """Bins of the codes of an attribute, with their labels."""

    codes: Array
    """The bin of each code of the attribute."""
    labels: tuple[str, ...]

    def only(self, met: Array | None) -> CodeBins:
        """Return the bins with at least one code that satisfies the conditions; all bins if `met` is None."""
        if met is None:
            return self
        kept = np.unique(self.codes[met])
        place = np.zeros(len(self.labels), np.int64)  # excluded codes may lie in any bin: they are not counted
        place[kept] = np.arange(len(kept))
        return CodeBins(place[self.codes], tuple(self.labels[i] for i in kept.tolist()))


def view_column_codes(codec: Codec, column: str) -> Shown | None:
    """Return a column as codes; None if it is derived from other columns and has no codes of its own."""
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
    """Return bins of a column that do not split a code of `coding`; None if its values split one.

    Merged codes of an attribute with a single column form bins; adjacent bins are joined beyond `most`.
    """
    atoms = asked.values
    if not _refines_values(coding, atoms):
        if len(atoms) != len(asked.labels):  # a column of a group: a merged code contains several of its values
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
    """Return whether every code of a coding contains one value only."""
    found = np.zeros(int(coding.max()) + 1, values.dtype)
    found[coding] = values
    return bool(np.array_equal(found[coding], values))


def _in_order(groups: Array) -> Array:
    """Number groups by their first code."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[inverse])


def _join_neighbours(asked: Shown, members: Sequence[Array], most: int) -> list[list[int]]:
    """Join adjacent bins of an ordered column until at most `most` remain; codes outside the order stay separate."""
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
    """Return the smallest width of 1, 2, 5, 10, 20, ... (or .1, .2, ...) that gives at most `most` bins.

    >>> round_width(0, 99, 20), round_width(0, 110, 20), round_width(0, 0.9, 10)
    (5.0, 10.0, 0.1)
    """
    power = 10.0 ** math.floor(math.log10(max((high - low) / most, 1e-300)))
    widths = [step * power for power in (power, 10 * power) for step in (1.0, 2.0, 5.0)]
    return next((w for w in widths if find_bin_start(high, w) - find_bin_start(low, w) < most), 100 * power)


def find_bin_start(number: float, width: float) -> int:
    """Return the index of the bin that contains a number: the multiple of `width` at which the bin starts."""
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
