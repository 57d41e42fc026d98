"""What a DuckDB query may be: one that reads each row by itself.

The contract of every source is that the codes of a row depend on that row and on public facts alone. A query keeps it
if every row of its result is made of one row of one table, by expressions that look at nothing else. So it may choose
and compute columns, filter and order; what relates rows (joins, unions, groups, windows, DISTINCT, LIMIT, samples,
subqueries) is refused. DuckDB's own plan tells, in which views and macros are opened up; with its optimizer off, for
what that makes of a query depends on statistics of the rows.

Tables of a database and Parquet files have declared types. A CSV or JSON file has none, and DuckDB sniffs dialect, date
formats and types from its rows: one row can flip how all others are read. Such a file is taken only if the query itself
says everything (`auto_detect = false`, `columns`), and a CSV file only if it also passes the check of
`weft.reading.dialect`, since DuckDB is lenient about quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.reading.scan import Checked
from weft.reading.stream import unpacked

_ROWWISE = {"PROJECTION", "FILTER", "ORDER_BY", "CTE", "CTE_SCAN"}
_CONSTANT = {"COLUMN_DATA_SCAN", "EXPRESSION_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"}
_DECLARED = {"SEQ_SCAN", "TABLE_SCAN", "PARQUET_SCAN", "READ_PARQUET"}
_WRITTEN = {"READ_CSV", "READ_JSON", "READ_NDJSON"}
_POSITIONS = ("rowid", "file_row_number")

_OPTIONS = {
    "read_csv": {
        *("auto_detect", "columns", "header", "delim", "sep", "quote", "escape", "dateformat", "timestampformat"),
        *("nullstr", "decimal_separator", "strict_mode", "parallel", "buffer_size", "max_line_size"),
    },
    "read_json": {"auto_detect", "columns", "format", "dateformat", "timestampformat", "records"},
}
_OPTIONS["read_ndjson"] = _OPTIONS["read_json"]

_SNIFFED = (
    "DuckDB would guess types, dates or dialect of a {kind} file from its rows. Say all in the query, as in {example}; "
    "or {otherwise}"
)
_EXAMPLES = {
    "CSV": (
        "read_csv('f.csv', auto_detect = false, header = true, columns = {'a': 'INTEGER', 'day': 'DATE'}, dateformat = "
        "'%Y-%m-%d')",
        "name the CSV file itself as the input of Weft",
    ),
    "JSON": (
        "read_json('f.json', auto_detect = false, format = 'newline_delimited', columns = {'a': 'INTEGER'})",
        "make a table of it with declared types",
    ),
}


def check_query(connection: Any, name: str, query: str) -> None:
    """Refuse a query that does not read each row by itself, or that guesses types; DataError with the remedy."""
    cursor = connection.cursor()
    tree = json.loads(cursor.execute("SELECT json_serialize_sql(?)", [query]).fetchone()[0])
    if tree.get("error") or len(tree["statements"]) != 1:
        raise DataError(f"{name}: DuckDB does not understand the query as a single SELECT; try it in DuckDB first")
    cursor.execute("PRAGMA disable_optimizer")
    ((_, plan),) = cursor.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
    scans = [
        operator
        for root in json.loads(plan)
        for node in _nodes(root)
        if (operator := str(node["name"]).strip()) not in _ROWWISE | _CONSTANT
    ]
    _check_rowwise(name, scans)
    _check_repeatable(name, cursor, _opened(cursor, query))
    calls = [call for call in map(_call, _dictionaries(tree)) if call is not None]
    for scan in scans:
        kind = "CSV" if "CSV" in scan else "JSON" if "JSON" in scan else None
        if kind is not None:
            _check_written(name, kind, scan, calls, cursor)
    for function, files, options in calls:
        if function in ("read_parquet", "parquet_scan", *_OPTIONS):
            _check_files(name, cursor, files, options)
    _check_files(name, cursor, [table for table in map(_file_name, _dictionaries(tree)) if table], {})


def require_once(name: str, files: Sequence[str | Path]) -> None:
    """Refuse files that are named twice, by whatever names: their rows would count twice."""
    found = [_identity(Path(file)) for file in files]
    if len(set(found)) < len(found):
        raise DataError(f"{name}: a file is named twice, so that its rows would count twice. Name each once")


def _identity(path: Path) -> tuple[int, int] | Path:
    try:
        status = path.stat()
    except OSError:
        return path.resolve()
    return status.st_dev, status.st_ino


def _check_files(name: str, cursor: Any, patterns: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse a file that is read twice, and folders such as `year=2020` whose names DuckDB would guess types from."""
    paths = _matching(cursor, patterns)
    require_once(name, paths)
    parted = any("=" in folder for path in paths for folder in path.parent.parts)
    if parted and str(options.get("hive_partitioning")).lower() not in ("false", "f", "0"):
        raise DataError(
            f"{name}: the names of folders such as year=2020 hold values of rows, from which DuckDB guesses types. "
            "Read with hive_partitioning = false, or make a table with declared types"
        )


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def _dictionaries(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, Mapping):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _dictionaries(each)


def _check_rowwise(name: str, scans: Sequence[str]) -> None:
    if len(scans) > 1 or not set(scans) <= _DECLARED | _WRITTEN | {f"{scan}_AUTO" for scan in _WRITTEN}:
        raise DataError(
            f"{name}: a row of the result must come from one row of one table, so that nothing about one row decides "
            "about another. Choose, compute and filter columns only; for joins, unions, groups, windows, DISTINCT, "
            "LIMIT or samples make a table first and name that: its rows are then what is protected"
        )


def _opened(cursor: Any, query: str) -> str:
    """Return a query with the definitions of all views and macros that it can lead to."""
    definitions = cursor.execute(
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal UNION ALL "
        "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal"
    ).fetchall()  # several schemas may have one of the same name: all of them count
    text, left = query, definitions
    while named := [each for each in left if _mentions(text, each[0])]:
        left = [each for each in left if each not in named]
        text = "\n".join([text, *(str(sql) for _, sql in named)])
    return text


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _check_repeatable(name: str, cursor: Any, text: str) -> None:
    # Quotes and comments hide a call from a plain look, and taking them away may hide another: both are looked at.
    bare = re.sub(r"/\*.*?\*/|--[^\n]*", " ", text, flags=re.DOTALL).replace('"', "")
    text = f"{text}\n{bare}"
    volatile = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    for (function,) in cursor.execute(volatile).fetchall():
        if re.search(rf"(?<!\w){re.escape(function)}\s*\(", text, re.IGNORECASE):
            raise DataError(f"{name}: the query must say the same at every pass; take {function}() out of it")
    for position in _POSITIONS:
        if _mentions(text, position):
            raise DataError(f"{name}: the position of a row depends on others; take {position} out of the query")


Call = tuple[str, list[str], dict[str, Any]]
"""A table function of a query: its name, the files it reads and its options, as far as these are constants."""


def _call(node: Mapping[str, Any]) -> Call | None:
    if node.get("type") != "TABLE_FUNCTION":
        return None
    function = node["function"]
    files: list[str] = []
    options: dict[str, Any] = {}
    for argument in _arguments(function):
        option, value = argument
        if option:
            options[option] = value
        else:
            files += [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
    return str(function["function_name"]).lower(), files, options


def _arguments(function: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return names and values of a function's arguments; DuckDB's syntax trees have had several forms for them."""
    for child in function.get("arguments", function.get("children", ())):
        name, expression = child.get("name", "") or child.get("alias", ""), child.get("expression", child)
        if expression.get("type") == "COMPARE_EQUAL":
            name, expression = expression["left"]["column_names"][-1], expression["right"]
        yield str(name).lower(), _constant(expression)


def _constant(expression: Mapping[str, Any]) -> Any:
    """Return a constant as text or as a list of its parts; the parts of anything else that was written out."""
    if expression.get("class") == "CONSTANT":
        literal = expression.get("literal")
        if literal is not None:
            return str(literal.get("text"))
        value = expression["value"].get("value")
        return str(value).lower() if isinstance(value, bool) else value
    if expression.get("class") == "CAST":
        return _constant(expression["child"])
    if expression.get("class") in ("FUNCTION", "OPERATOR"):
        return [
            _constant(child.get("expression", child))
            for child in expression.get("arguments", expression.get("children", ()))
        ]
    return None


def _file_name(node: Mapping[str, Any]) -> str | None:
    """Return the file that a query names as it would a table; None for a table."""
    table = node.get("table_name") if node.get("type") == "BASE_TABLE" else None
    return str(table) if table and ("." in table or "/" in table) and not node.get("schema_name") else None


def _check_written(name: str, kind: str, scan: str, calls: Sequence[Call], cursor: Any) -> None:
    """Refuse a scan of a CSV or JSON file unless the query says how each value of it is read."""
    example, otherwise = _EXAMPLES[kind]
    sniffed = DataError(f"{name}: " + _SNIFFED.format(kind=kind, example=example, otherwise=otherwise))
    said = [call for call in calls if call[0].upper() == scan]
    if len(said) != 1:  # a bare file name, or hidden in a view or a macro
        raise sniffed
    ((function, files, options),) = said
    explicit = str(options.get("auto_detect")).lower() in ("false", "f", "0") and bool(options.get("columns"))
    if kind == "JSON":
        lines = function == "read_ndjson" or options.get("format") in ("newline_delimited", "nd")
        explicit = explicit and lines
    if not explicit or not files:
        raise sniffed
    unknown = set(options) - _OPTIONS[function]
    if unknown or str(options.get("strict_mode", "true")).lower() in ("false", "f", "0"):
        option = min(unknown, default="strict_mode")
        raise DataError(f"{name}: {option} lets one row of the file decide about others; leave it out of {function}")
    if kind == "CSV":
        _check_dialect(name, _matching(cursor, files), options)


def _check_dialect(name: str, paths: Sequence[Path], options: Mapping[str, Any]) -> None:
    separator = str(options.get("delim", options.get("sep", ",")))
    quote, escape = str(options.get("quote", '"')), options.get("escape")
    if len(separator.encode()) != 1 or len(quote.encode()) > 1 or (escape or quote) != quote:
        raise DataError(
            f"{name}: take one sign as delim, one as quote, and write quotes inside a field twice; or name the CSV "
            "file itself as the input of Weft"
        )
    for path in paths:
        if path.suffix.lower() in (".zst", ".bz2", ".xz", ".lz4"):
            raise DataError(f"{path} cannot be checked as it is packed; unpack it, or pack it with gzip")
        with pa.OSFile(str(path), "rb") as raw:
            breaks = [False] * len(options["columns"])
            Checked(unpacked(raw, path), path, breaks, separator=separator, quote=quote).check()


def _matching(cursor: Any, patterns: Sequence[str]) -> list[Path]:
    """Return the files that DuckDB itself finds, hidden ones among them."""
    found = [row[0] for pattern in patterns for row in cursor.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]
    return [Path(file) for file in found]
