"""The contract of every source: the codes of a row depend on that row and on public facts alone.

For each kind of source, a table D and a row, drawn to be nasty: the counts of D with the row, less those of D, are one
cell, or nothing; or the table is refused before anything could be charged.
"""

import datetime as dt
import gzip
import re
import sqlite3
import zipfile
from contextlib import closing, suppress
from dataclasses import replace
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyreadstat
import pytest
from databases import fill_postgres, fill_sqlite
from sparks import fill_spark

from weft.engines import open_engine
from weft.errors import WeftError
from weft.io.dialect import Dialect
from weft.schema import Schema

COLUMNS = """
[columns.who]
kind = "id"

[columns.n]
kind = "integer"
range = [0, 9]
missing = true
outside = "clip"

[columns.x]
kind = "real"
range = [0.0, 5.0]
bins = 4
missing = true
outside = "clip"

[columns.w]
kind = "category"
values = ["a", "b", ""]
other = "o"
missing = true

[columns.big]
kind = "category"
values = [9007199254740992, 9007199254740993, 1]
other = 1
missing = true

[columns.f]
kind = "boolean"
missing = true
outside = "clip"

[columns.d]
kind = "datetime"
range = ["2020-01-01", "2020-12-31"]
bins = 4
missing = true
outside = "clip"
"""
PLAIN = Schema.from_toml(COLUMNS)
UNITS = Schema.from_toml('unit = "who"\nrows_per_unit = 3\n' + COLUMNS)
FRAMES = {
    schema.unit: replace(
        schema, columns=tuple(replace(c, format="%Y-%m-%d") if c.name == "d" else c for c in schema.columns)
    )
    for schema in (PLAIN, UNITS)
}
"""The same for data frames, by unit: a column of text holds dates only where its format is stated."""

NAMES = ["who", "n", "x", "w", "big", "f", "d"]
CELLS = [("n", "w"), ("x", "big"), ("f", "d"), ()]

ROWS = [[f"p{i}", str(i % 10), f"{i % 5}.5", "ab"[i % 2], "9007199254740993", "true", "2020-03-05"] for i in range(60)]

WORDS = [
    *("", " ", '"', '""', 'x"y', 'a"', '"a', "a,b", "a\nb", "a\r\nb", "a\rb", "\x00", "\ufeffa", "'", "\\", "\\n"),
    *("9007199254740993", "9007199254740994.0", "1e400", "-1e400", "inf", "nan", "NA", "n/a", "NULL", "None", "?"),
    *("3.0", "3.5", " 3", "+3", "0x3", "1_000", "1,000", "03", "٣", "18446744073709551616", "9" * 400),
    *("03/25/2020", "25/03/2020", "2020-02-30", "2020-03-05T10:00:00Z", "2020-03-05 10:00:00+05:00", "0001-01-01"),
    *("true", "TRUE", "yes", "1", "p1", "é", "a" * 5000, "=1+1", "#", "--", "a;b", "a\tb"),
]
BYTES = [b"\xff", b"\xed\xa0\x80", b"a\xc3", b"\xf0\x9f\x98\x80"]


def odd_rows():
    """Rows with one odd word, in each column in turn; and rows that are odd as a whole."""
    for word, place in product(WORDS, range(len(NAMES))):
        row = list(ROWS[0])
        row[place] = word
        yield row
    yield [""] * len(NAMES)
    yield ['"'] * len(NAMES)


def encoded(row):
    """Write a row as careful people do: quoted where it must be."""
    return b",".join(
        b'"' + word.encode().replace(b'"', b'""') + b'"' if any(sign in word for sign in ',"\r\n') else word.encode()
        for word in row
    )


def careless(row):
    """Write a row as it stands, whatever is in it."""
    return ",".join(row).encode()


def csv_source(lines, path, packed=False):
    text = b"\n".join([",".join(NAMES).encode(), *lines]) + b"\n"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    return path


def objects(rows):
    return pd.DataFrame([[None if word == "" else word for word in row] for row in rows], columns=NAMES, dtype=object)


def parsed(rows, **options):
    """What pandas makes of a CSV: every dtype a guess from all rows."""
    import io

    text = b"\n".join([",".join(NAMES).encode(), *map(encoded, rows)]).decode()
    return pd.read_csv(io.StringIO(text), **options)


TYPED = pa.schema(
    {"who": pa.string(), "n": pa.string(), "x": pa.string(), "w": pa.string(), "big": pa.int64(), "f": pa.string()}
    | {"d": pa.string()}
)


def arrow(rows):
    """A table of declared types: text, and one column of whole numbers, null where a word is none."""
    columns = list(zip(*rows, strict=True))
    whole = [int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None for word in columns[4]]
    return pa.table(
        [*map(pa.array, columns[:4]), pa.array(whole, pa.int64()), *map(pa.array, columns[5:])], schema=TYPED
    )


def dictionaries(rows):
    table = arrow(rows)
    for place in (1, 3, 6):
        table = table.set_column(place, NAMES[place], table.column(place).dictionary_encode())
    return table


def database(rows, path):
    table = arrow(rows)
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.register("table_of_rows", table)
        connection.execute("CREATE TABLE rows AS FROM table_of_rows")
    return path


def parquet(rows, path):
    pq.write_table(arrow(rows), path)
    return path


def orc(rows, path):
    """Stripes of a few rows each, whose texts are in dictionaries where they repeat."""
    pa.orc.write_table(arrow(rows), path, stripe_size=2000, batch_size=10, dictionary_key_size_threshold=0.5)
    return path


def packed_zip(lines, path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rows.csv", b"\n".join([",".join(NAMES).encode(), *lines]) + b"\n")
    return path


def packed_zst(lines, path):
    text = b"\n".join([",".join(NAMES).encode(), *lines]) + b"\n"
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(text)
    return path


def spelled(rows, path, dialect, names=True):
    """A text file in a dialect of its own, quoted where the dialect can."""
    separator, quote = dialect.separator or ",", dialect.quote
    lines = [*([NAMES] if names else []), *rows]
    text = "\n".join(separator.join(field(word, separator, quote) for word in row) for row in lines) + "\n"
    path.write_bytes(text.encode(dialect.encoding, "replace"))
    return path, dialect


def field(word, separator, quote):
    if quote and any(sign in word for sign in (separator, quote, "\r", "\n")):
        return quote + word.replace(quote, quote * 2) + quote
    return word


def jsonl(rows, path, number=False):
    """Rows as objects: a word as text, and where it spells a number, a truth value or nothing, as that."""
    import json

    lines = [json.dumps({name: meant(word) for name, word in zip(NAMES, row, strict=True)}) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def meant(word):
    import json

    with suppress(ValueError):
        return None if word == "" else json.loads(word)
    return word


def arrow_file(rows, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, TYPED) as writer:
        writer.write_table(arrow(rows), max_chunksize=25)
    return path


def workbook(rows, path):
    """Cells of every type: numbers, truth values and dates where a word spells one."""
    import xlsxwriter

    with xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False}) as book:
        sheet = book.add_worksheet()
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        for at, row in enumerate([NAMES, *rows]):
            for place, word in enumerate(row):
                cell(sheet, at, place, word, day)
    return path


def cell(sheet, at, place, word, day):
    value = meant(word) if at else word
    if isinstance(value, int | float) and abs(value) < 1e15:
        sheet.write(at, place, value)
    elif at and re.fullmatch("2020-[01][0-9]-[0-2][0-9]", word):
        sheet.write_datetime(at, place, dt.datetime.fromisoformat(word), day)
    else:
        sheet.write_string(at, place, "".join(sign for sign in word if sign >= " ")[:30_000])


def statistics(rows, path):
    """Numbers where the table of declared types has them, text elsewhere."""
    frame = pd.DataFrame(
        {name: [word[:200] for word in column] for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}
    )
    for name in ("n", "x", "big"):
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float).where(lambda x: x.abs() < 1e300)
    getattr(pyreadstat, "write_" + path.suffix[1:])(frame, str(path))
    return path


def any_type(rows, path):
    """Cells of SQLite in the types that their words spell, in columns that declare none."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(NAMES)})")
        cells = [[held(meant(word)) for word in row] for row in rows]
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", cells)
        connection.commit()
    return f"sqlite:{path}?table=rows"


def held(value):
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def without_nulls(rows):
    """Text of PostgreSQL holds no null character."""
    return arrow([[word.replace("\0", "") for word in row] for row in rows])


SEMICOLONS = Dialect(separator=";", quote="'", decimal=",", encoding="latin-1", missing=("?", "NA"))

EXPLICIT = "auto_detect = false, header = true, columns = {" + ", ".join(f"'{name}': 'VARCHAR'" for name in NAMES) + "}"

SOURCES = {
    "csv": lambda rows, path: csv_source(map(encoded, rows), path / "rows.csv"),
    "csv, careless": lambda rows, path: csv_source(map(careless, rows), path / "rows.csv"),
    "csv.gz": lambda rows, path: csv_source(map(careless, rows), path / "rows.csv.gz", packed=True),
    "csv.zst": lambda rows, path: packed_zst(map(careless, rows), path / "rows.csv.zst"),
    "csv.zip": lambda rows, path: packed_zip(map(careless, rows), path / "rows.zip"),
    "semicolons, latin-1": lambda rows, path: spelled(rows, path / "rows.csv", SEMICOLONS),
    "tabs, no quotes": lambda rows, path: spelled(rows, path / "rows.txt", Dialect(separator="\t", quote="")),
    "utf-16": lambda rows, path: spelled(rows, path / "rows.csv", Dialect(encoding="utf-16-le")),
    "no header": lambda rows, path: spelled(rows, path / "rows.csv", Dialect(header=False), names=False),
    "json lines": lambda rows, path: jsonl(rows, path / "rows.jsonl"),
    "arrow file": lambda rows, path: arrow_file(rows, path / "rows.feather"),
    "excel": lambda rows, path: workbook(rows, path / "rows.xlsx"),
    "spss": lambda rows, path: statistics(rows, path / "rows.sav"),
    "stata": lambda rows, path: statistics(rows, path / "rows.dta"),
    "parquet": lambda rows, path: parquet(rows, path / "rows.parquet"),
    "orc": lambda rows, path: orc(rows, path / "rows.orc"),
    "pandas objects": lambda rows, path: objects(rows),
    "pandas read_csv": lambda rows, path: parsed(rows),
    "pandas nullable": lambda rows, path: parsed(rows, dtype_backend="numpy_nullable"),
    "pandas categories": lambda rows, path: objects(rows).astype("category"),
    "polars": lambda rows, path: pl.DataFrame(arrow(rows)),
    "arrow": lambda rows, path: arrow(rows),
    "arrow dictionaries": lambda rows, path: dictionaries(rows),
    "duckdb table": lambda rows, path: f"duckdb:{database(rows, path / 'rows.db')}?table=rows",
    "duckdb parquet": lambda rows, path: f"duckdb:FROM '{parquet(rows, path / 'rows.parquet')}'",
    "duckdb csv": lambda rows, path: (
        f"duckdb:SELECT * FROM read_csv('{csv_source(map(careless, rows), path / 'rows.csv')}', {EXPLICIT})"
    ),
}
SOURCES |= {
    "sqlite": lambda rows, path: fill_sqlite(arrow(rows), path / "rows.sqlite"),
    "sqlite, any type": lambda rows, path: any_type(rows, path / "rows.sqlite"),
    "postgres": lambda rows, path: fill_postgres(without_nulls(rows)),
}
FAR = {"spark": lambda rows, path: fill_spark(arrow(rows), path / "rows")}
"""Sources of which each table takes seconds: `test_spark.py` tries fewer rows with them."""

TEXT_FRAMES = {
    kind for kind in SOURCES if kind.startswith(("pandas", "polars")) or kind in ("arrow", "arrow dictionaries")
}
"""Data frames whose dates are text: their schema states how they are written."""

WHOLE = {"pandas", "polars", "arrow", "arrow dictionaries"}
STREAMED = {kind for kind in SOURCES if kind not in WHOLE and not kind.startswith("pandas")}


def counts(source, schema, engine):
    """Return the tables of a source, or None if it was refused, which is before any charge."""
    source, dialect = source if isinstance(source, tuple) else (source, Dialect())
    try:
        return open_engine(source, schema, engine=engine, dialect=dialect).engine.count(CELLS)
    except WeftError:
        return None


def moved(before, after):
    return [int(np.abs(a.astype(np.int64) - b.astype(np.int64)).sum()) for a, b in zip(after, before, strict=True)]


def check(kind, row, place, schema, engine, folder):
    source, schema = (SOURCES | FAR)[kind], FRAMES[schema.unit] if kind in TEXT_FRAMES else schema
    before = counts(source(ROWS, folder), schema, engine)
    assert before is not None and before[-1] == len(ROWS)
    after = counts(source([*ROWS[:place], row, *ROWS[place:]], folder), schema, engine)
    if after is None:
        return 0
    distances = moved(before, after)
    assert max(distances) <= 1, (kind, row, place, distances)
    return 1


def cases(kind, most, seed):
    """Draw odd rows, places and engines for a kind of source, the same each time."""
    rng = np.random.default_rng(seed)
    rows = list(odd_rows())
    for number in rng.permutation(len(rows))[:most]:
        engines = ("memory", "stream") if kind in STREAMED else ("memory",)
        yield rows[number], int(rng.choice([0, 30, len(ROWS)])), engines[int(rng.integers(len(engines)))]


@pytest.mark.parametrize("schema", [PLAIN, UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("kind", SOURCES)
def test_one_row_moves_one_cell_or_the_table_is_refused(kind, schema, tmp_path):
    read = [check(kind, row, place, schema, engine, tmp_path) for row, place, engine in cases(kind, 3, 1)]
    assert sum(read) > 0


@pytest.mark.slow
@pytest.mark.parametrize("schema", [PLAIN, UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_odd_row_in_every_source(kind, schema, tmp_path):
    read = [check(kind, row, place, schema, engine, tmp_path) for row, place, engine in cases(kind, 10_000, 2)]
    assert sum(read) > 0


@pytest.mark.parametrize("octets", BYTES)
@pytest.mark.parametrize("place", range(len(NAMES)))
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_that_are_no_text_move_one_cell(octets, place, packed, tmp_path):
    odd = [word.encode() for word in ROWS[0]]
    odd[place] = octets
    path = tmp_path / ("rows.csv.gz" if packed else "rows.csv")
    lines = list(map(encoded, ROWS))
    before = counts(csv_source(lines, path, packed), PLAIN, "memory")
    after = counts(csv_source([b",".join(odd), *lines], path, packed), PLAIN, "memory")
    assert before is not None and (after is None or max(moved(before, after)) <= 1)


def test_a_line_too_long_for_a_block_is_refused_wherever_it_stands(tmp_path):
    long = encoded(["p", "1", "1.5", "a" * (1 << 20), "1", "true", "2020-03-05"])
    for place in (0, 30, 60):
        lines = list(map(encoded, ROWS))
        lines.insert(place, long)
        assert counts(csv_source(lines, tmp_path / "rows.csv"), PLAIN, "stream") is None
