"""JSON lines: one object per line, each parsed independently, with values in the schema's types.

JSON values contain line breaks only in escaped form, so no line can extend into the next. Numbers are kept as written
until they are converted to the schema's type. A key that a row lacks is a missing value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import DataError
from weft.io.byte_stream import Stream, open_text_stream
from weft.io.csv_scan import MAX_LINE_LENGTH
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.io.file_faults import readable_file
from weft.io.formats.format import FileLayout, Opening, Sink, TextFormat, Write, WriteOptions
from weft.io.frame_values import make_typed_batch, text_batch
from weft.io.reader import Reader
from weft.io.text_to_types import csv_arrow_schema
from weft.schema import Schema
from weft.schema.kinds import Unknown

_BLOCK = 4 << 20
_decode = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).decode


class Jsonl(TextFormat):
    """One JSON object per line."""

    name = "jsonl"
    endings = (".jsonl", ".ndjson")
    written_endings = (".jsonl", ".jsonl.gz", ".jsonl.zst")
    dialect_options = ("encoding",)

    def open(self, paths: Sequence[Path], opening: Opening) -> Reader:
        """Open files; without a schema, the keys that all rows share are the column names."""
        if not opening.schema.columns:
            with readable_file(paths[0]):
                columns = tuple(Unknown(name, missing=True) for name in find_shared_keys(paths))
            opening = replace(opening, schema=Schema(columns, extra_columns="ignore"))
        return self.open_as(paths, opening, csv_arrow_schema(opening.schema))

    def batches(self, stream: Stream, schema: Schema, dialect: Dialect) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file batch by batch, in the schema's types."""
        names = [column.name for column in schema.columns if column.in_table]
        known = set(names)
        for line, rows in _iterate_objects(stream):
            if schema.extra_columns == "refuse" and not set().union(*rows) <= known:
                place = next(at for at, row in enumerate(rows) if not row.keys() <= known)
                raise DataError(
                    f"{stream.name}, line {line + place}: it has a key that the schema does not describe. Add a column "
                    'for it, or set extra_columns = "ignore"'
                )
            yield make_typed_batch(_transpose_rows(rows, names), stream.name, schema)

    def read_whole(self, path: Path, dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
        """Read a whole file as text, with keys in order of appearance; for drafts, which infer the kinds of columns."""
        with readable_file(path), open_text_stream(path, dialect) as stream:
            rows = list(chain.from_iterable(rows for _, rows in _iterate_objects(stream)))
            names = list(dict.fromkeys(chain.from_iterable(rows)))
            if not names:
                raise DataError(f"{stream.name} has no rows; a draft needs some")
            return pa.Table.from_batches([text_batch(_transpose_rows(rows, names), stream.name)])

    def read_columns(self, path: Path, schema: Schema, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
        """Return the schema's columns and types: a key that a row lacks is a missing value."""
        return csv_arrow_schema(schema)

    def read_layout(self, path: Path) -> FileLayout:
        """Return the keys of the first row; None as names for a file without rows."""
        with open_text_stream(path, DEFAULT_DIALECT) as stream:
            return FileLayout(next((list(rows[0]) for _, rows in _iterate_objects(stream)), None))

    @contextmanager
    def writer(self, sink: Sink, arrow: pa.Schema, options: WriteOptions) -> Iterator[Write]:
        """Begin a file in UTF-8."""
        dumps = partial(json.dumps, ensure_ascii=False, default=_convert_to_json, allow_nan=False)
        with nullcontext(sink) if hasattr(sink, "write") else Path(str(sink)).open("wb") as file:

            def write(table: pa.Table) -> None:
                for batch in table.to_batches(max_chunksize=1 << 16):
                    file.write("".join(f"{line}\n" for line in map(dumps, finite_rows(batch).to_pylist())).encode())

            yield write


JSONL = Jsonl()


def find_shared_keys(paths: Sequence[Path]) -> list[str]:
    """Return the keys of the rows; DataError unless all rows have the same keys in the same order.

    Privacy: with the same keys in every row, no single row determines the columns of the table or their order.
    """
    names: list[str] | None = None
    for path in paths:
        with open_text_stream(path, DEFAULT_DIALECT) as stream:
            for line, rows in _iterate_objects(stream):
                names = list(rows[0]) if names is None else names
                if any(list(row) != names for row in rows):
                    place = next(at for at, row in enumerate(rows) if list(row) != names)
                    raise DataError(
                        f"{path}, line {line + place}: it has other keys than the first row, or another order, so they "
                        'cannot name the columns. List them in a schema, with kind = "unknown" for those to discover'
                    )
    if names is None:
        raise DataError(f"{paths[0]}: the file is empty, and no schema states its columns. Name another file")
    return names


def _transpose_rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(map(methodcaller("get", name), rows)) for name in names}


def _iterate_objects(stream: Stream) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield blocks of objects, each with the line number of its start; blank lines are skipped."""
    held, at = b"", 1
    while block := stream.read(_BLOCK):
        lines = (held + block).split(b"\n")
        held = lines.pop()
        if len(held) > MAX_LINE_LENGTH or max(map(len, lines), default=0) > MAX_LINE_LENGTH:
            raise DataError(f"{stream.name}: a line is longer than {MAX_LINE_LENGTH >> 20} MiB. Remove the long column")
        yield from _parse_lines(lines, at, stream.name)
        at += len(lines)
    yield from _parse_lines([held], at, stream.name)


def _parse_lines(lines: Sequence[bytes], at: int, name: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    filled = list(filter(bytes.strip, lines))
    if not filled:
        return
    try:
        rows = list(map(_parse_object, filled))
    except (ValueError, RecursionError):
        rows = []
    if not rows:
        place = next(at + number for number, line in enumerate(lines) if line.strip() and not _is_valid_line(line))
        raise DataError(f'{name}, line {place}: it is no JSON object in UTF-8, such as {{"age": 41}}. Correct it')
    yield at, rows


def _parse_object(line: bytes) -> dict[str, Any]:
    made = _decode(line.decode("utf-8"))
    if not isinstance(made, dict):
        raise ValueError
    return made


def _is_valid_line(line: bytes) -> bool:
    try:
        _parse_object(line)
    except (ValueError, RecursionError):
        return False
    return True


def finite_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in which infinities and NaN, which JSON cannot represent, are missing."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_floating(field.type):
            column = batch.column(place)
            batch = batch.set_column(place, field.name, pc.if_else(pc.is_finite(column), column, None))
    return batch


def _convert_to_json(value: Any) -> Any:
    """Return decimals as numbers, and values of types that JSON lacks as text."""
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)
