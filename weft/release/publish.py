"""The released files: the synthetic table and its card (`weft.release.card`), written together or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from weft.errors import OutputError
from weft.progress import Listener, silence, stage
from weft.release.atomic import sha256, staged
from weft.release.card import card_json, markdown
from weft.release.modelfile import Fitted
from weft.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

Formulas = Literal["keep", "escape"]
"""What to do with text that spreadsheets take for formulas. It is kept by default: a release has the values that the
schema says it has, and whoever reads it by a program finds them; to escape them is to release other values."""

SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet may run."""

FORMATS = (".csv", ".parquet")
"""Kinds of file that a table can be released as, by suffix."""


@dataclass(frozen=True)
class Files:
    """The files of one release, which stand or fall together."""

    data: Path
    card: Path
    card_json: Path

    @classmethod
    def of(cls, data: Path) -> Files:
        """Name the files of a release after its table; OutputError if its suffix names no format."""
        if data.suffix.lower() not in FORMATS:
            raise OutputError(f"cannot tell the format of {data}: name it .csv or .parquet, or - for CSV on stdout.")
        return cls(data, data.with_suffix(".card.md"), data.with_suffix(".card.json"))

    def __iter__(self) -> Iterator[Path]:
        return iter((self.data, self.card, self.card_json))


def publish(
    fitted: Fitted,
    tables: Iterable[pa.Table],
    files: Files,
    *,
    formulas: Formulas = "keep",
    listener: Listener = silence,
) -> dict[str, Any]:
    """Write a table, block by block, and its cards: all of them or none. Return the card."""
    suffix = files.data.suffix
    with staged(*files) as (data, card, card_as_json):
        rows = write_table(tables, data, suffix, formulas=formulas, listener=listener)
        done = formulas if suffix.lower() == ".csv" else None
        facts = card_json(fitted, rows, name=files.data.name, sha256=sha256(data), formulas=done)
        card.write_text(markdown(facts), encoding="utf-8")
        card_as_json.write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return facts


def write_table(
    tables: Iterable[pa.Table],
    sink: Path | IO[bytes],
    suffix: str = ".csv",
    *,
    formulas: Formulas = "keep",
    listener: Listener = silence,
) -> int:
    """Write blocks of rows as they come, as CSV or Parquet; return how many rows there were.

    With `formulas="escape"`, text cells of CSV that a spreadsheet would run are written with an apostrophe before them.
    """
    rows = 0
    blocks = iter(tables)
    first = next(blocks)
    opened = _parquet(sink, first.schema) if suffix.lower() == ".parquet" else _csv(sink, first.schema, formulas)
    with opened as write, stage(listener, "write") as work:
        block: pa.Table | None = first
        while block is not None:
            write(block)
            rows += block.num_rows
            work.advance(note=counted(rows, "row"))
            block = next(blocks, None)
    return rows


@contextmanager
def _csv(sink: Path | IO[bytes], schema: pa.Schema, formulas: Formulas) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv

    plain = pa.schema([field.with_type(_csv_type(field.type)) for field in schema])
    if formulas == "keep":
        with pyarrow.csv.CSVWriter(sink, plain) as writer:
            yield lambda table: writer.write_table(table.cast(plain))
        return
    names = [escaped_name(name) for name in plain.names]
    with pyarrow.csv.CSVWriter(sink, pa.schema(zip(names, plain.types, strict=True))) as writer:
        yield lambda table: writer.write_table(_escaped(table.cast(plain)).rename_columns(names))


def escaped_name(name: str) -> str:
    """Return a column's name as the first line of an escaped CSV file has it."""
    return f"'{name}" if name.startswith(SIGNS) else name


def _escaped(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text that begins as a formula does; numbers and dates are what they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            cells = table.column(place)
            marked = pc.binary_join_element_wise(pa.scalar("'", field.type), cells, pa.scalar("", field.type))
            formula = pc.match_substring_regex(cells, f"^[{re.escape(''.join(SIGNS))}]")
            table = table.set_column(place, field, pc.if_else(formula, marked, cells))
    return table


def _csv_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type whose values are written in place of these, which Arrow's CSV writer does not know."""
    import pyarrow as pa

    if pa.types.is_dictionary(arrow_type):
        return _csv_type(arrow_type.value_type)
    return pa.string() if pa.types.is_string_view(arrow_type) else arrow_type


@contextmanager
def _parquet(sink: Path | IO[bytes], schema: pa.Schema) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        yield writer.write_table
