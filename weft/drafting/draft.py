"""Draft a schema from a table, for review by a person.

Its facts are read from private rows. Each one is marked in `from_data`, and a schema that still has marks is refused
wherever the guarantee depends on it. Text is read as written, other formats in their own types.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.drafting.guesses import accepts_rows, guess_column, guess_frame, guess_written
from weft.errors import DataError
from weft.io.addresses import kind_of_address
from weft.io.byte_stream import STDIN
from weft.io.dialect import DEFAULT_DIALECT, NOT_UTF8, Dialect
from weft.io.file_faults import NO_HEADER, looks_like_a_row
from weft.io.formats.csv_files import CSV
from weft.io.frame_values import collect_lazy_frame, in_words, is_pandas, is_spark, write_value
from weft.io.table_files import Paths, find_files, require_known_format
from weft.schema import Schema
from weft.schema.column_names import likely_units, require_distinct
from weft.schema.kinds.draft_facts import COMMON, Guess
from weft.schema.schema_file import write_column, write_entry, write_key
from weft.values.text_numbers import is_utf8

_HEADER = """\
# Schema of {name}, drafted from the table itself. Review it before use: `weft schema review` steps through it.
#
# A schema states what is publicly known about each column. The facts below were read from private rows, so
# releasing anything made with them could reveal, for example, the highest age of a person. They are listed in
# from_data of each column. For each fact: replace it by what you know without looking at the rows (a code book, a
# law, common sense: range = [0, 120]), then remove its name from from_data. Once no from_data is left, the schema
# is public, and so is everything that depends only on it.
#
# If one person can have several rows, set unit to the id column that identifies the person (rows without an id are
# dropped), and rows_per_unit to the maximum rows per person. Choose it without looking: a larger bound adds noise.
"""
_REPEATS = "# This may be {names}: the same id occurs in several rows. If so, remove the # from both lines.\n"


@dataclass(frozen=True)
class Draft:
    """A drafted schema: its heading, and a comment and an entry per column (None if the column is left out)."""

    head: str
    columns: tuple[tuple[str, str, Mapping[str, Any] | None], ...]
    distinct: frozenset[str] = frozenset()
    """Columns of whole numbers or text whose values never repeat."""

    def inline(self) -> str:
        """Return the schema as one TOML text."""
        return self._text({}, {})

    def apart(self, folder: str) -> tuple[str, dict[str, list[str]]]:
        """Return the schema with long value lists moved to files of a folder: the text, and the lines of each file."""
        files: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for _, name, entry in self.columns:
            values = [] if entry is None else entry.get("values", [])
            if len(values) <= COMMON or not all(map(_one_in_a_line, values)):
                continue
            stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "values"
            taken = {file.lower() for file in files}
            number = next(n for n in range(1, len(files) + 3) if _number_file_name(stem, n).lower() not in taken)
            names[name] = _number_file_name(stem, number).removesuffix(".txt")
            files[_number_file_name(stem, number)] = values
        return self._text(names, {name: f"{folder}/{name}.txt" for name in names.values()}), files

    def _text(self, names: Mapping[str, str], lists: Mapping[str, str]) -> str:
        parts = [self.head]
        if lists:
            told = "# Lists of values, one per line, in separate files: review them too.\n"
            parts.append(told + "[lists]\n" + "".join(write_entry(write_key(key), file) for key, file in lists.items()))
        for comment, name, entry in self.columns:
            if entry is None:
                parts.append(comment)
                continue
            shown = {**entry, "values": names[name]} if name in names else entry
            parts.append(comment + write_column(name, shown))
        return "\n".join(parts)


def draft(data: pa.Table, name: str, dialect: Dialect | None = None) -> str:
    """Return a valid, commented TOML schema that can encode this table; `name` is used in the heading.

    With a dialect, the columns are text as stored in a file, and their types are guessed from the rows.
    """
    return sketch_schema(data, name, dialect).inline()


def sketch_schema(data: pa.Table, name: str, dialect: Dialect | None = None, *, frame: bool = False) -> Draft:
    """Draft the schema of a table; `frame` is true if the table was a data frame."""
    require_distinct(data.column_names)
    columns: list[tuple[str, str, Mapping[str, Any] | None]] = []
    people = []
    for field, column in zip(data.schema, data.columns, strict=True):
        found = _guess_column(field.name, column, dialect, frame) if field.name else None
        if found is not None:
            columns.append((f"# {found.reason}\n", field.name, found.entry))
            people += [field.name] if found.repeats else []
            continue
        why = f"{_one_line(field.name)}, no kind supports {field.type}" if field.name else "a column without a name"
        columns.append((f"# Left out: {why}.\n", field.name, None))
    skipped = any(entry is None for _, _, entry in columns)
    head = (
        _HEADER.format(name=name)
        + _suggest_privacy_unit(people)
        + ("\n" + write_entry("extra_columns", "ignore") if skipped else "")
    )
    names = [name for _, name, entry in columns if entry is not None]
    return Draft(head, tuple(columns), frozenset(name for name in names if _is_distinct(data.column(name))))


def _is_distinct(column: pa.ChunkedArray) -> bool:
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return plain and bool(pc.count_distinct(column, mode="all").as_py() == len(column))


def _guess_column(name: str, column: pa.ChunkedArray, dialect: Dialect | None, frame: bool) -> Guess | None:
    if dialect is not None:
        return guess_written(column, name, dialect)
    if frame:
        return guess_frame(column, name)
    found = guess_column(column, name)
    return found if found is not None and accepts_rows(name, found.entry, column, None) else None


def _suggest_privacy_unit(people: Sequence[str]) -> str:
    """Suggest the privacy unit, in comments: rows do not show whether an id identifies a person."""
    likely = likely_units(people)
    told = _REPEATS.format(names=" or ".join(map(_one_line, likely))) if likely else ""
    unit = write_entry("unit", likely[0] if likely else "person_id")
    return f"{told}# {unit}# {write_entry('rows_per_unit', 5)}"


def _one_in_a_line(value: Any) -> bool:
    """Return whether a value can be stored in one line and read back unchanged."""
    return isinstance(value, str) and bool(value) and value.splitlines() == [value] and not value.startswith("\ufeff")


def _number_file_name(stem: str, number: int) -> str:
    return f"{stem}.txt" if number == 1 else f"{stem}_{number}.txt"


def _one_line(text: str) -> str:
    return " ".join(text.split())


_ONLY_BREAKS = r"^\s*[\r\n]\s*$"


def csv_text(path: str | PathLike[str], dialect: Dialect = DEFAULT_DIALECT) -> pa.Table:
    """Read a whole CSV file as text; raise DataError or SchemaError, without any value, if it cannot be drafted."""
    text = CSV.read_whole(path, dialect)
    if dialect.header is None:
        require_header(text, str(path))
    return fit_for_draft(text, str(path))


def require_header(text: pa.Table, name: str) -> None:
    """Refuse a file whose first line is a row: names look like values, or occur as values of their own columns."""
    pairs = zip(text.column_names, text.columns, strict=True)
    again = any(name and pc.any(pc.equal(column, name)).as_py() for name, column in pairs)
    if again or looks_like_a_row(text.column_names):
        raise DataError(f"{name}: {NO_HEADER}")


def fit_for_draft(text: pa.Table, name: str) -> pa.Table:
    """Validate that a text table has rows, distinct names and valid UTF-8; `name` is used in messages."""
    require_distinct(text.column_names)
    if not text.num_rows:
        raise DataError(f"{name} has no rows, only column names; a draft needs some rows")
    for each, column in zip(text.column_names, text.columns, strict=True):
        if not all(map(is_utf8, column.chunks)):
            raise DataError(f'{name}, column "{each}": a value {NOT_UTF8}')
        if pc.any(pc.match_substring_regex(column, _ONLY_BREAKS)).as_py():
            raise DataError(f'{name}, column "{each}": a value consists only of a line break; remove it from the file')
    return text


def frame_table(source: Any) -> pa.Table:
    """Convert a pandas, polars, Spark or Arrow table to Arrow; object columns become text, as in a CSV file."""
    name = f"the {type(source).__name__}"
    try:
        source = collect_lazy_frame(source)
        if is_pandas(source):
            series = [source.iloc[:, place] for place in range(source.shape[1])]
            columns = [
                in_words(write_value, each.to_numpy(object), str(each.name))
                if each.dtype == object
                else pa.array(each, from_pandas=True)
                for each in series
            ]
            return pa.Table.from_arrays(columns, [str(each) for each in source.columns])
        if is_spark(source):
            source = source.toArrow()
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):  # their messages may quote a value
        pass
    raise DataError(f"{name} is not a supported table; pass a pandas, polars, Spark or Arrow table, or a file")


_BATCH = 1 << 17


def draft_source(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> str:
    """Draft a schema from files, standard input, a database table or a data frame, as TOML text."""
    return sketch_source(source, dialect).inline()


def sketch_source(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> Draft:
    """Draft a schema from files, standard input, a database table or a data frame."""
    if not isinstance(source, str | os.PathLike | list | tuple):
        dialect.check((), "a table in memory")
        return sketch_schema(frame_table(source), f"the {type(source).__name__}", frame=True)
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check((), database.name(address))
        reader = database.open(address, None, _BATCH)
        table = pa.Table.from_batches((batch for batch, _ in reader.start(reader.schema.names)), reader.schema)
        return (
            sketch_schema(fit_for_draft(table, reader.name), reader.name, DEFAULT_DIALECT)
            if database.written
            else sketch_schema(table, reader.name)
        )
    if str(source) == STDIN:
        dialect.check(CSV.dialect_options, "stdin")
        return sketch_schema(csv_text(STDIN, dialect), "stdin", dialect)
    paths = find_files(source)
    form = require_known_format(paths[0])
    dialect.check(form.dialect_options, str(paths[0]))
    name = paths[0].name.partition(".")[0]
    table = _concatenate_files([form.read_whole(path, dialect) for path in paths], paths)
    if form.is_typed:
        return sketch_schema(table, name)
    if form.names_in_first_line and dialect.header is None:
        require_header(table, str(paths[0]))
    return sketch_schema(fit_for_draft(table, str(paths[0])), name, dialect)


def source_schema(schema: Schema, source: Paths, dialect: Dialect = DEFAULT_DIALECT) -> pa.Schema:
    """Return the Arrow schema of a table as a codec expects it; no row is read."""
    if addressed := kind_of_address(source):
        database, address = addressed
        dialect.check((), database.name(address))
        return database.open(address, schema, _BATCH).schema
    path = find_files(source)[0]
    form = require_known_format(path)
    dialect.check(form.dialect_options, str(path))
    return form.read_columns(path, schema, dialect)


def _concatenate_files(tables: Sequence[pa.Table], paths: Sequence[os.PathLike[str]]) -> pa.Table:
    for path, table in zip(paths, tables, strict=True):
        if table.schema.names != tables[0].schema.names:
            raise DataError(f"{path} and {paths[0]} have different columns; pass files of one layout")
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException:
        raise DataError(f"{paths[0]} and other files have different column types; pass files of one layout") from None
