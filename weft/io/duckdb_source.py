"""DuckDB reader: a table of a database file, or a query over files. Privacy applies to rows of the result.

Privacy: the codes of a row must depend only on that row and on public facts (the contract of every source, decision
011). A query satisfies this if every row of its result is computed from one row of one table, by expressions that use
nothing else. So it may select, compute, filter and order; operators that relate rows (joins, unions, groups, windows,
DISTINCT, LIMIT, samples, subqueries) are refused. This is checked on DuckDB's own plan, in which views and macros are
expanded; its optimizer is off, because its rewrites depend on statistics of the rows.

Tables of a database and Parquet files have declared types. For CSV and JSON files, DuckDB infers dialect, date formats
and types from the rows, so that one row can change how all others are read. Such a file is accepted only if the query
declares everything (`auto_detect = false`, `columns`), and a CSV file only if it also passes the check of
`weft.io.csv_scan`, because DuckDB is lenient about quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.io.addresses import QUERY
from weft.io.byte_stream import decompress
from weft.io.csv_scan import Checked
from weft.io.reader import Batches, Reader
from weft.io.table_addresses import quote_name
from weft.schema import Schema

# Operators that are allowed in a query plan: each row must be computed from one row.
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
    "DuckDB would guess types, dates or dialect of a {kind} file from its rows. Declare them in the query, as in "
    "{example}; or {otherwise}"
)
_EXAMPLES = {
    "CSV": (
        "read_csv('f.csv', auto_detect = false, header = true, columns = {'a': 'INTEGER', 'day': 'DATE'}, dateformat = "
        "'%Y-%m-%d')",
        "name the CSV file itself as the input of Weft",
    ),
    "JSON": (
        "read_json('f.json', auto_detect = false, format = 'newline_delimited', columns = {'a': 'INTEGER'})",
        "create a table from it with declared types",
    ),
}


def check_query(connection: Any, name: str, query: str) -> None:
    """Raise DataError, with the remedy, for a query that does not read each row independently or that infers types."""
    cursor = connection.cursor()
    tree = json.loads(cursor.execute("SELECT json_serialize_sql(?)", [query]).fetchone()[0])
    if tree.get("error") or len(tree["statements"]) != 1:
        raise DataError(f"{name}: DuckDB does not understand the query as a single SELECT; try it in DuckDB first")
    cursor.execute("PRAGMA disable_optimizer")
    ((_, plan),) = cursor.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
    scans = [
        operator
        for root in json.loads(plan)
        for node in _iterate_nodes(root)
        if (operator := str(node["name"]).strip()) not in _ROWWISE | _CONSTANT
    ]
    if len(scans) > 1 or not set(scans) <= _DECLARED | _WRITTEN | {f"{scan}_AUTO" for scan in _WRITTEN}:
        raise DataError(
            f"{name}: each row of the result must come from one row of one table, so that no row affects another. "
            "Only select, compute and filter columns; for joins, unions, groups, windows, DISTINCT, LIMIT or samples "
            "create a table first and name that: its rows are then what is protected"
        )
    _check_repeatable(name, cursor, _expand_views(cursor, query))
    calls = [call for call in map(_parse_table_function, _iterate_mappings(tree)) if call is not None]
    for scan in scans:
        kind = "CSV" if "CSV" in scan else "JSON" if "JSON" in scan else None
        if kind is not None:
            _check_written(name, kind, scan, calls, cursor)
    for function, files, options in calls:
        if function in ("read_parquet", "parquet_scan", *_OPTIONS):
            _check_files(name, cursor, files, options)
    _check_files(name, cursor, [table for table in map(_file_name, _iterate_mappings(tree)) if table], {})


def require_once(name: str, files: Sequence[str | Path]) -> None:
    """Refuse a file that is named twice, even under different names: its rows would count twice."""
    found = [_identify_file(Path(file)) for file in files]
    if len(set(found)) < len(found):
        raise DataError(f"{name}: a file is named twice, so its rows would count twice. Name each file once")


def _identify_file(path: Path) -> tuple[int, int] | Path:
    try:
        status = path.stat()
    except OSError:
        return path.resolve()
    return status.st_dev, status.st_ino


def _check_files(name: str, cursor: Any, patterns: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse files that are read twice, and folders such as `year=2020`, from whose names DuckDB infers types."""
    paths = _list_matching_files(cursor, patterns)
    require_once(name, paths)
    parted = any("=" in folder for path in paths for folder in path.parent.parts)
    if parted and str(options.get("hive_partitioning")).lower() not in ("false", "f", "0"):
        raise DataError(
            f"{name}: the names of folders such as year=2020 hold values of rows, from which DuckDB guesses types. "
            "Read with hive_partitioning = false, or create a table with declared types"
        )


def _iterate_nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from _iterate_nodes(child)


def _iterate_mappings(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, Mapping):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _iterate_mappings(each)


def _expand_views(cursor: Any, query: str) -> str:
    """Return a query followed by the definitions of all views and macros that it may refer to."""
    definitions = cursor.execute(
        "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal UNION ALL "
        "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal"
    ).fetchall()  # several schemas may define the same name: include all of them
    text, left = query, definitions
    while named := [each for each in left if _contains_word(text, each[0])]:
        left = [each for each in left if each not in named]
        text = "\n".join([text, *(str(sql) for _, sql in named)])
    return text


def _contains_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _check_repeatable(name: str, cursor: Any, text: str) -> None:
    # Quotes and comments can hide a call from a search, and removing them can hide another: search both texts.
    bare = re.sub(r"/\*.*?\*/|--[^\n]*", " ", text, flags=re.DOTALL).replace('"', "")
    text = f"{text}\n{bare}"
    volatile = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    for (function,) in cursor.execute(volatile).fetchall():
        if re.search(rf"(?<!\w){re.escape(function)}\s*\(", text, re.IGNORECASE):
            raise DataError(f"{name}: the query must return the same rows in every pass; remove {function}() from it")
    for position in _POSITIONS:
        if _contains_word(text, position):
            raise DataError(f"{name}: the position of a row depends on other rows; remove {position} from the query")


Call = tuple[str, list[str], dict[str, Any]]
"""A table function of a query: its name, its files and its options, as far as these are constants."""


def _parse_table_function(node: Mapping[str, Any]) -> Call | None:
    if node.get("type") != "TABLE_FUNCTION":
        return None
    function = node["function"]
    files: list[str] = []
    options: dict[str, Any] = {}
    for argument in _parse_arguments(function):
        option, value = argument
        if option:
            options[option] = value
        else:
            files += [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
    return str(function["function_name"]).lower(), files, options


def _parse_arguments(function: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a function's arguments, in all forms of DuckDB's syntax trees so far."""
    for child in function.get("arguments", function.get("children", ())):
        name, expression = child.get("name", "") or child.get("alias", ""), child.get("expression", child)
        if expression.get("type") == "COMPARE_EQUAL":
            name, expression = expression["left"]["column_names"][-1], expression["right"]
        yield str(name).lower(), _parse_constant(expression)


def _parse_constant(expression: Mapping[str, Any]) -> Any:
    """Return a constant as text, or the list of constants in a function or operator call; else None."""
    if expression.get("class") == "CONSTANT":
        literal = expression.get("literal")
        if literal is not None:
            return str(literal.get("text"))
        value = expression["value"].get("value")
        return str(value).lower() if isinstance(value, bool) else value
    if expression.get("class") == "CAST":
        return _parse_constant(expression["child"])
    if expression.get("class") in ("FUNCTION", "OPERATOR"):
        return [
            _parse_constant(child.get("expression", child))
            for child in expression.get("arguments", expression.get("children", ()))
        ]
    return None


def _file_name(node: Mapping[str, Any]) -> str | None:
    """Return the file that a query names in place of a table; None for a table."""
    table = node.get("table_name") if node.get("type") == "BASE_TABLE" else None
    return str(table) if table and ("." in table or "/" in table) and not node.get("schema_name") else None


def _check_written(name: str, kind: str, scan: str, calls: Sequence[Call], cursor: Any) -> None:
    """Refuse a scan of a CSV or JSON file unless the query declares how each value is read."""
    example, otherwise = _EXAMPLES[kind]
    sniffed = DataError(f"{name}: " + _SNIFFED.format(kind=kind, example=example, otherwise=otherwise))
    said = [call for call in calls if call[0].upper() == scan]
    if len(said) != 1:  # a bare file name, or a call inside a view or macro
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
        raise DataError(f"{name}: {option} lets one row of the file affect others; leave it out of {function}")
    if kind == "CSV":
        _check_dialect(name, _list_matching_files(cursor, files), options)


def _check_dialect(name: str, paths: Sequence[Path], options: Mapping[str, Any]) -> None:
    separator = str(options.get("delim", options.get("sep", ",")))
    quote, escape = str(options.get("quote", '"')), options.get("escape")
    if len(separator.encode()) != 1 or len(quote.encode()) > 1 or (escape or quote) != quote:
        raise DataError(
            f"{name}: delim and quote must be single characters, and quotes inside a field must be doubled (escape); "
            "set them so, or name the CSV file itself as the input of Weft"
        )
    for path in paths:
        if path.suffix.lower() in (".zst", ".bz2", ".xz", ".lz4"):
            raise DataError(f"{path} cannot be checked while compressed; decompress it, or compress it with gzip")
        with pa.OSFile(str(path), "rb") as raw:
            breaks = [False] * len(options["columns"])
            Checked(decompress(raw, path), path, breaks, separator=separator, quote=quote).check()


def _list_matching_files(cursor: Any, patterns: Sequence[str]) -> list[Path]:
    """Return the files that DuckDB finds, including hidden ones."""
    found = [row[0] for pattern in patterns for row in cursor.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]
    return [Path(file) for file in found]


def open_duckdb(address: str, _schema: Schema | None, batch_rows: int) -> Reader:
    """Open `path.db?table=name`, `path.db?query=SELECT ...`, or a bare `SELECT ... FROM 'files*.parquet'`.

    A database file is opened read-only and stays open, so its rows cannot change between passes. A query must read each
    row independently (`check_query`), from files that do not change.
    """
    path, query, whole = _parse_address(address)
    name = f"duckdb:{path or 'query'}"
    try:
        import duckdb
    except ImportError:
        raise DataError("a duckdb: source needs the duckdb package: pip install 'weft[duckdb]'") from None

    with _explain_duckdb_errors(name, duckdb):
        connection = duckdb.connect(path, read_only=True) if path else duckdb.connect()
        connection.execute("SET python_enable_replacements = false")  # names never refer to Python variables
        check_query(connection, name, query)
        arrow = connection.cursor().sql(query).limit(0).to_arrow_table().schema
        # A table stores its number of rows; a query would have to be run to count its rows.
        found = connection.cursor().execute(f"SELECT count(*) {query}").fetchone() if whole else None
        rows = None if found is None else int(found[0])

    def start(columns: Sequence[str]) -> Batches:
        seen = 0
        with _explain_duckdb_errors(name, duckdb):
            asked = connection.cursor().sql(query).select(*map(quote_name, columns))
            for batch in asked.to_arrow_reader(batch_rows):
                seen += batch.num_rows
                yield batch, seen / rows if rows else None

    return Reader(name, arrow, start, rows=rows, ordered=False)


def _parse_address(address: str) -> tuple[str, str, bool]:
    """Return the database, the query, and whether it selects a whole table."""
    if QUERY.match(address):
        return "", address.strip().rstrip(";"), False
    path, _, question = address.partition("?")
    key, _, value = question.partition("=")
    if key == "table" and value:
        return path, "FROM " + ".".join(map(quote_name, value.split("."))), True
    if key == "query" and value:
        return path, value.strip().rstrip(";"), False
    raise DataError(f"duckdb:{path} names no table or query; add ?table=NAME or ?query=SELECT ...")


@contextmanager
def _explain_duckdb_errors(name: str, duckdb: Any) -> Iterator[None]:
    """Translate DuckDB's errors. DuckDB's own text is dropped: it quotes values and rows."""
    try:
        yield
    except duckdb.IOException:
        raise DataError(f"{name}: the database or a file of the query cannot be opened; check the path") from None
    except duckdb.CatalogException:
        raise DataError(f"{name}: no such table, view or function; check its name") from None
    except (duckdb.ParserException, duckdb.BinderException):
        raise DataError(f"{name}: DuckDB does not understand the query; try it in DuckDB first") from None
    except (duckdb.Error, pa.ArrowException):
        raise DataError(f"{name}: DuckDB could not finish reading; try the query in DuckDB") from None
