"""Dates stored in pieces: year, month and day columns of a table are modelled as one date.

The date is not a column of the table. It is assembled from the pieces of each row during encoding, and the pieces are
computed from the date during decoding. Synthetic dates are therefore valid, and weekday patterns are modelled.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import SchemaError
from weft.schema.kinds import Column, ColumnError
from weft.schema.kinds.attributes import Arrays, AttributePart, ComputedPart, cast_to_stored_type, coder_of
from weft.schema.kinds.date_parts import PIECES
from weft.schema.kinds.datetime import Datetime
from weft.schema.kinds.difference import Difference
from weft.schema.kinds.kind import Label
from weft.schema.rules import ColumnReader
from weft.values.storage import decode_dictionary

_FAR = 1e6  # exceeds every year, month and day; larger numbers and infinities count as missing
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class Pieces:
    """A date assembled from pieces, as attributes; the pieces themselves have no attributes (`Piece`)."""

    def __init__(self, column: Datetime, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]) -> None:
        self._column = column
        held = dict(column.pieces or ())
        self.readers = {piece: _make_piece_reader(column, piece, name, fields, columns) for piece, name in held.items()}
        self._names = held
        strict = [piece for piece, name in held.items() if columns[name].outside == "refuse"]
        self._strict = {piece: coder_of(columns[held[piece]], fields[held[piece]]) for piece in strict}
        self._inner: AttributePart = column.part(fields, columns)
        self.columns, self.needs, self.domain = self._inner.columns, self._inner.needs, self._inner.domain
        self.reads = (column.name,)

    def labels(self) -> list[tuple[Label, ...]]:
        """Return the labels of the date's codes."""
        return self._inner.labels()

    def encode(self, arrays: Arrays) -> Sequence[NDArray[np.int64]]:
        """Return the codes of the date, which `assembled` has added to the arrays."""
        return self._inner.encode(arrays)

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the date."""
        return self._inner.decode(codes, made, rng)

    def move(self, before: Arrays, after: Arrays) -> pa.Array:
        """Shift the date with the column that it is measured from, if any, so that their difference is unchanged."""
        name = self._column.name
        return self._inner.move(before, after) if isinstance(self._inner, Difference) else after[name]

    def fits(self, arrays: Arrays) -> NDArray[np.bool_]:
        """Return a mask of rows whose date is within the range of differences; all rows if it has no base column."""
        if isinstance(self._inner, Difference):
            return self._inner.fits(arrays)
        return np.ones(len(arrays[self._column.name]), bool)

    def assembled(self, arrays: Arrays) -> pa.Array:
        """Return the date of each row from its pieces; days past the end of a month become its last day."""
        for piece, coder in self._strict.items():
            coder.encode(arrays[self._names[piece]])  # raises DataError for values outside the column's range
        values = {p: reader.read(arrays[self._names[p]]) for p, reader in self.readers.items() if p in _DATE}
        far = [~(np.abs(part.numbers.astype(np.float64)) < _FAR) for part in values.values()]
        missing = np.logical_or.reduce([*(part.missing for part in values.values()), *far])
        year, month, day = (np.where(missing, 1, values[piece].numbers).astype(np.int64) for piece in _DATE)
        if self.readers["month"].column.listed is not None and isinstance(self.readers["month"].column.listed[0], str):
            month = np.array(_parse_month_names(self.readers["month"].column))[np.where(missing, 0, month)] + 1
        wrong = missing | (month < 1) | (month > 12) | (year < 1) | (year > 9999) | (day < 1)
        first = (np.where(wrong, 0, year - 1970) * 12 + np.where(wrong, 0, month - 1)).astype("datetime64[M]")
        start, end = first.astype("datetime64[D]"), (first + 1).astype("datetime64[D]")
        days = np.minimum(start + (np.where(wrong, 1, day) - 1), end - 1)
        return pa.array(days.astype(np.int32), mask=wrong).cast(pa.date32())


_DATE = ("year", "month", "day")


class Piece(ComputedPart):
    """A column that is a piece of a date: computed from the date, never measured."""

    def __init__(self, date: str, piece: str, reader: ColumnReader) -> None:
        super().__init__(reader.column.name, (date,))
        self._piece, self._reader = piece, reader

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the piece of each date."""
        dates = decode_dictionary(made[self.needs[0]])
        missing = pc.is_null(dates).to_numpy(zero_copy_only=False)
        numbers = piece_of(dates, self._piece)
        column = self._reader.column
        if self._piece == "month" and column.listed is not None and isinstance(column.listed[0], str):
            place = np.argsort(_parse_month_names(column))
            numbers = place[np.where(missing, 0, numbers - 1)]
        array = self._reader.make(np.where(missing, self._reader.ends[0], numbers).astype(np.int64))
        if missing.any():
            array = pc.if_else(pa.array(missing), self._reader.null, array)
        return {self.columns[0]: cast_to_stored_type(array, self._reader.field.type)}


def piece_of(dates: pa.Array, piece: str) -> NDArray[np.int64]:
    """Return a piece of each date; undefined where the date is missing.

    >>> import datetime
    >>> dates = pa.array([datetime.date(2016, 1, 1), datetime.date(2016, 1, 3)])
    >>> piece_of(dates, "week").tolist(), piece_of(dates, "week_from_sunday").tolist()
    ([53, 53], [1, 2])
    """
    if piece == "week_from_sunday":  # week 1 contains January 1; weeks start on Sunday
        first = pc.day_of_week(pc.floor_temporal(dates, unit="year"), week_start=7)
        found = pc.add(pc.divide(pc.add(pc.subtract(pc.day_of_year(dates), 1), first), 7), 1)
    else:
        found = {"year": pc.year, "month": pc.month, "day": pc.day, "week": pc.iso_week}[piece](dates)
    return np.asarray(found.cast(pa.int64()).fill_null(1).to_numpy(zero_copy_only=False))


def _parse_month_names(column: Column) -> list[int]:
    """Return the month, counted from 0, that each listed value names."""
    named = [str(value)[:3].lower() for value in column.listed or ()]
    if sorted(named) != sorted(_MONTHS):
        raise ColumnError(column.name, "its values must name the twelve months, or be 1 to 12", "values")
    return [_MONTHS.index(name) for name in named]


def _make_piece_reader(
    date: Datetime, piece: str, name: str, fields: Mapping[str, pa.Field], columns: Mapping[str, Column]
) -> ColumnReader:
    column = columns.get(name)
    if column is None or name not in fields or not column.modelled or name == date.name:
        raise ColumnError(date.name, f'pieces names "{name}", which is not a column of the table', "pieces")
    reader = ColumnReader(column, fields[name])
    spelled = column.listed is not None and isinstance(column.listed[0], str)
    if spelled and piece == "month":
        _parse_month_names(column)
    elif spelled or not reader.whole:
        raise ColumnError(name, f"it is the {piece} of a date: it must hold whole numbers", "kind")
    if column.missing != date.missing:
        raise ColumnError(date.name, f'"{name}" is missing where the date is: give both the same missing', "missing")
    low, high = reader.ends
    first, last = date.ends
    years = int(first[:4]), int(last[:4])
    least, most = years if piece == "year" else PIECES[piece]
    if not spelled and not (low <= least and most <= high):
        raise ColumnError(name, f"it is the {piece} of a date: its range must reach from {least} to {most}", "range")
    return reader


def order_parts(parts: Sequence[AttributePart], made: Collection[str]) -> Iterator[AttributePart]:
    """Yield the parts in order of dependency; `made` names the columns that exist already."""
    done, waiting = set(made), list(parts)
    while waiting:
        ready = [part for part in waiting if set(part.needs) <= done]
        if not ready:
            listed = ", ".join(f'"{part.columns[0]}"' for part in waiting)
            raise SchemaError(f"columns {listed} depend on each other in a circle; remove one of the dependencies")
        yield from ready
        done |= {name for part in ready for name in part.columns}
        waiting = [part for part in waiting if part not in ready]


def recompute_columns(
    parts: Sequence[AttributePart], before: Arrays, after: Arrays, changed: Collection[str], rng: np.random.Generator
) -> dict[str, pa.Array]:
    """Recompute the columns that depend on `changed` ones.

    These are derived columns, pieces of dates, and dates or numbers with a base column, which keep their difference
    from it. `before` and `after` hold all columns of the same rows, before and after the change. `parts` are in order
    of dependency. Columns in `changed` keep their new values.
    """
    made, moved = dict(after), set(changed)
    for part in parts:
        if not moved & set(part.needs):
            continue
        name = part.columns[0]
        if not len(part.domain):
            made |= part.decode([], made, rng)
        elif name not in changed and isinstance(part, Difference | Pieces):
            made[name] = part.move(before, made)
        moved |= set(part.columns)
    return {name: array for name, array in made.items() if name in moved}


def find_misfits(
    parts: Sequence[AttributePart], arrays: Arrays, readers: Mapping[str, ColumnReader]
) -> NDArray[np.bool_]:
    """Return a mask of rows with an assembled date or a difference outside its range."""
    found = np.zeros(len(next(iter(arrays.values()))), bool)
    for part in parts:
        if isinstance(part, Difference):
            found |= ~part.fits(arrays)
        elif isinstance(part, Pieces):
            values = readers[part.columns[0]].read(arrays[part.columns[0]])
            found |= ~part.fits(arrays) | ~(values.missing | values.reader.fits(values.numbers))
    return found
