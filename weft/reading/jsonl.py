"""JSON lines: one object a line, each read by itself, its values in the types that the schema declares.

A line is what stands between two line breaks, which JSON has only in escaped form inside a value, so that no line can
reach into another. Numbers are kept as they are written until the schema's type is known. A key that a row lacks is a
missing value there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.reading.dialect import PLAIN
from weft.reading.objects import text_batch, typed_batch
from weft.reading.scan import LONGEST_LINE
from weft.reading.stream import Stream, opened
from weft.schema import Schema

_BLOCK = 4 << 20
_decode = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).decode


def jsonl_batches(stream: Stream, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of a file batch by batch, in the schema's types."""
    names = [column.name for column in schema.columns if column.in_table]
    known = set(names)
    for line, rows in _rows(stream):
        if schema.extra_columns == "refuse" and not set().union(*rows) <= known:
            place = next(at for at, row in enumerate(rows) if not row.keys() <= known)
            raise DataError(
                f"{stream.name}, line {line + place}: it has a key that the schema does not describe. Add a column "
                'for it, or set extra_columns = "ignore"'
            )
        yield typed_batch(_columns(rows, names), stream.name, schema)


def jsonl_text(stream: Stream) -> pa.Table:
    """Read a whole file as text, in the order in which keys come; for drafts, which guess what they hold."""
    rows = list(chain.from_iterable(rows for _, rows in _rows(stream)))
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    if not names:
        raise DataError(f"{stream.name} has no rows; a draft needs some")
    return pa.Table.from_batches([text_batch(_columns(rows, names), stream.name)])


def jsonl_names(path: Path) -> list[str] | None:
    """Return the keys of a file's first row; None if it has none."""
    with opened(path, PLAIN) as stream:
        return next((list(rows[0]) for _, rows in _rows(stream)), None)


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: list(map(methodcaller("get", name), rows)) for name in names}


def _rows(stream: Stream) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the objects of a file, many at a time, with the number of the first one's line; blank lines are none."""
    held, at = b"", 1
    while block := stream.read(_BLOCK):
        lines = (held + block).split(b"\n")
        held = lines.pop()
        if len(held) > LONGEST_LINE or max(map(len, lines), default=0) > LONGEST_LINE:
            raise DataError(f"{stream.name}: a line is longer than {LONGEST_LINE >> 20} MiB. Take the long column out")
        yield from _parsed(lines, at, stream.name)
        at += len(lines)
    yield from _parsed([held], at, stream.name)


def _parsed(lines: Sequence[bytes], at: int, name: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    filled = list(filter(bytes.strip, lines))
    if not filled:
        return
    try:
        rows = list(map(_object, filled))
    except (ValueError, RecursionError):
        rows = []
    if not rows:
        place = next(at + number for number, line in enumerate(lines) if line.strip() and not _sound(line))
        raise DataError(
            f'{name}, line {place}: it is no JSON object of its own in UTF-8, such as {{"age": 41}}. Mend it'
        )
    yield at, rows


def _object(line: bytes) -> dict[str, Any]:
    made = _decode(line.decode("utf-8"))
    if not isinstance(made, dict):
        raise ValueError
    return made


def _sound(line: bytes) -> bool:
    try:
        _object(line)
    except (ValueError, RecursionError):
        return False
    return True
