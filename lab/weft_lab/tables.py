"""The tables that experiments run on: coded ones with a domain file beside them, or anybody's with a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weft.drafting.draft import draft
from weft.encoding import Codec
from weft.errors import DataError
from weft.io.formats.csv_files import read_csv
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.schema import Schema
from weft_lab import acs
from weft_lab.datasets import datasets, locate
from weft_lab.generated import GENERATED

HELD_OUT = 0.2
"""Largest share of the rows that is kept from a method to test classifiers on."""
HELD_OUT_ROWS = 4000
"""And most rows: the classifiers are tested on no more."""
ORDERED_KINDS = ("datetime", "time", "duration", "integer", "real")
ORDERED_WORDS: Mapping[str, Sequence[str]] = {"fire": ("DtTm", "Date", "Location", "Number", "sequence")}
"""Of a table of codes alone: words in the names of columns whose codes lie in an order."""


@dataclass(frozen=True)
class BenchTable:
    """A real table, as values and as codes."""

    name: str
    rows: pa.Table
    schema: Schema
    records: Records
    copies: int = 1
    """How often a method is given every row: experiments on as many rows as a paper had."""

    @classmethod
    def of(cls, name: str, rows: pa.Table, schema: Schema) -> BenchTable:
        """Encode a table."""
        rows = rows.select([column.name for column in schema.columns if column.name in rows.column_names])
        return cls(name, rows, schema, Codec(schema, rows.schema).encode(rows))

    def split(self, seed: int, folds: int | None = None) -> tuple[BenchTable, Records]:
        """Hold some rows back at random: return the table without them, and them.

        With folds, as many seeds share one order of the rows, and each holds back another part of it.
        """
        n = len(self.records)
        if folds is None:
            order = np.random.default_rng([seed, 7]).permutation(n)
            held = order[: min(int(HELD_OUT * n), HELD_OUT_ROWS)]
        else:
            order = np.random.default_rng([seed // folds, 8]).permutation(n)
            held = order[seed % folds :: folds]
        seen = np.setdiff1d(order, held)
        return self.take(seen).copied(), self.records.take(held)

    def take(self, rows: Array) -> BenchTable:
        """Return the table with these rows."""
        return replace(self, rows=self.rows.take(rows), records=self.records.take(rows))

    def copied(self) -> BenchTable:
        """Return the table with its copies; rows that are held back are held back before."""
        return self if self.copies == 1 else self.take(np.tile(np.arange(len(self.records)), self.copies))

    @property
    def ordered(self) -> tuple[str, ...]:
        """Attributes whose codes lie in an order, as far as the schema says so."""
        kinds = {column.name: column.kind for column in self.schema.columns}
        words = ORDERED_WORDS.get(self.name.partition(", ")[0], ())
        return tuple(
            name
            for name in self.records.domain
            if kinds.get(name) in ORDERED_KINDS or any(word in name for word in words)
        )


def open_table(
    source: str,
    schema: str | None = None,
    *,
    rows: int | None = None,
    columns: int | None = None,
    folder: str | Path | None = None,
) -> BenchTable:
    """Open a table by path or by name; `folder` is where names are looked for first.

    Its schema is the one given, else NAME.domain.json or NAME.toml beside it, else drafted from the rows: experiments
    release nothing, so that the draft's facts stay with the curator. `columns` takes the first ones, `rows` takes so
    many at random (the same every time). "NAME x13" has every row 13 times.
    """
    if found := re.fullmatch(r"(.+) x(\d+)", source):
        once = open_table(found[1], schema, rows=rows, columns=columns, folder=folder)
        return replace(once, name=f"{once.name}, {found[2]} copies", copies=int(found[2]))
    if source in acs.CODED:
        records, name = acs.CODED[source](read(find(acs.SOURCE, folder))), source
        table = pa.table(dict(zip(records.domain.names, records.columns, strict=True)))
        known: Schema | None = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
    else:
        path = find(source, folder)
        known = _schema(path, schema)
        table, name = read(path, known), path.name.removesuffix(path.suffix)
    if known is not None:
        table = table.select([column.name for column in known.columns if column.name in table.column_names])
    if columns is not None and columns < table.num_columns:
        table = table.select(table.column_names[:columns])
        known = known and replace(known, columns=known.columns[:columns])
        name += f", {columns} columns"
    if rows is not None and rows < len(table):
        table = table.take(np.sort(np.random.default_rng(0).permutation(len(table))[:rows]))
        name += f", {rows} rows"
    return BenchTable.of(name, table, known or Schema.from_toml(draft(table, name)))


def find(source: str, folder: str | Path | None = None) -> Path:
    """Return the file of a table by path or by name."""
    given = Path(source)
    if given.is_file():
        return given
    found = locate(source, folder)
    if found is not None:
        return found
    if source in GENERATED:
        raise DataError(f"{source} has not been generated yet: weft bench data make {source}")
    if source in datasets():
        known = datasets()[source]
        remedy = f"weft bench data fetch {source}" if known.fetched else f"get it from {known.source}"
        raise DataError(f"{source} is not here yet: {remedy}, or set WEFT_DATA to the folder that has it.")
    raise DataError(
        f"{source}: no such file, and no table of this name here or in data/. Give its path, or set WEFT_DATA to the "
        "folder that has it."
    )


def _schema(path: Path, schema: str | None) -> Schema | None:
    if schema is not None:
        return Schema.load(schema)
    beside = [path.with_suffix(ending) for ending in (".domain.json", ".toml")]
    return next((Schema.load(file) for file in beside if file.is_file()), None)


def read(path: Path, schema: Schema | None = None) -> pa.Table:
    """Read a file as it is, or as a schema tells."""
    if path.suffix.lower() not in (".parquet", ".pq") and schema is not None:
        return read_csv(path, schema)
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pq.read_table(path).replace_schema_metadata(None)
        return pyarrow.csv.read_csv(path)
    except (pa.ArrowException, OSError):
        # Arrow's own text may quote the file.
        raise DataError(f"{path}: the file is damaged, or neither Parquet nor CSV") from None
