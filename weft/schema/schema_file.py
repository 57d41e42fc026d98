"""Read and write schema files in TOML; errors name the line."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from weft.errors import ManySchemaError, SchemaError
from weft.schema.kinds import ColumnError
from weft.schema.rules import RuleError
from weft.schema.schema import BEYOND, Schema
from weft.schema.value_lists import ListError

_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")
_WIDTH = 100


def read_toml(text: str, source: str, folder: Path | None = None) -> Schema:
    """Read a schema; a SchemaError names the source, the line, the column and the remedy.

    A top-level error is located by the first key of the document that its message mentions. Files of values are in
    `folder`, by default that of the source.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", str(error))
        end = place[1] if place and place[1] else str(text.count("\n") + 1)
        reason = str(error)[: place.start()] if place else str(error)
        raise SchemaError(f"{source}, line {end}: not TOML: {reason}") from None
    except (ValueError, RecursionError):
        raise SchemaError(f"{source}: {BEYOND}") from None
    try:
        folder = folder or (Path(source).parent if Path(source).is_file() else Path())
        return Schema.from_dict(document, source, folder)
    except (ColumnError, ManySchemaError) as error:
        faults = error.faults if isinstance(error, ManySchemaError) else (error,)
        told = []
        for fault in faults:
            line = line_of(text, ("columns", fault.column), fault.key) if isinstance(fault, ColumnError) else 1
            told.append(f"{source}, line {line}: {fault}")
        raise SchemaError("\n".join(told)) from None
    except ListError as error:
        raise SchemaError(f"{source}, line {line_of(text, ('lists',), error.name)}: {error}") from None
    except RuleError as error:
        line_number = line_of_item(text, "rules", error.index or 0, error.key)
        raise SchemaError(f"{source}, line {line_number}: {error}") from None
    except SchemaError as error:
        key = next((key for key in document if re.search(rf"\b{re.escape(key)}\b", str(error))), None)
        raise SchemaError(f"{source}, line {line_of(text, (), key)}: {error}") from None


def write_toml(document: Mapping[str, Any]) -> str:
    """Return the TOML of `Schema.to_dict`, with one table per column and per rule."""
    top = [write_entry(key, value) for key, value in document.items() if key not in ("columns", "rules")]
    tables = [write_column(name, entry) for name, entry in document["columns"].items()]
    tables += [write_rule(entry) for entry in document.get("rules", ())]
    return "\n".join(["".join(top), *tables] if top else tables)


def write_column(name: str, entry: Mapping[str, Any]) -> str:
    """Return the TOML table of one column."""
    return f"[columns.{write_key(name)}]\n" + "".join(write_entry(key, value) for key, value in entry.items())


def write_rule(entry: Mapping[str, Any]) -> str:
    """Return the TOML table of one rule."""
    return "[[rules]]\n" + "".join(write_entry(key, value) for key, value in entry.items())


def write_entry(key: str, value: Any) -> str:
    """Return the line `key = value`; a long list takes several lines."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{write_key(name)} = {_write_scalar(each)}" for name, each in value.items())
        return f"{key} = {{{pairs}}}\n"
    if not isinstance(value, list):
        return f"{key} = {_write_scalar(value)}\n"
    items = [_write_scalar(item) for item in value]
    line = f"{key} = [{', '.join(items)}]\n"
    if len(line) <= _WIDTH:
        return line
    rows = [""]
    for item in items:
        if rows[-1] and len(rows[-1]) + len(item) > _WIDTH - 4:
            rows.append("")
        rows[-1] += f"{item}, "
    return f"{key} = [\n" + "".join(f"  {row.rstrip()}\n" for row in rows) + "]\n"


def write_key(name: str) -> str:
    """Return a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _write_scalar(name)


def _write_scalar(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{write_key(key)} = {_write_scalar(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(_write_scalar(part) for part in value)}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").removesuffix("\n")


def line_of(text: str, table: tuple[str, ...], key: str | None) -> int:
    """Return the line of a key in a table, of the table's header if there is no such key, or 1 by default."""
    current: tuple[str, ...] = ()
    found = 1
    for number, line in enumerate(text.splitlines(), start=1):
        header = header_of(line)
        if header is not None:
            current = header
            if current == table:
                found = number
        elif (name := key_of(line)) is not None:
            if current == table and name == key:
                return number
            if (*current, name) == table:  # an inline table or a dotted key
                found = number
    return found


def line_of_item(text: str, name: str, index: int, key: str | None) -> int:
    """Return the line of a key in one of the tables [[name]], of its header, or by default of the list's key."""
    seen, inside, found = -1, False, 0
    for number, line in enumerate(text.splitlines(), start=1):
        header = header_of(line)
        if header is not None:
            inside = header[:1] == (name,)
            seen += header == (name,)
            if seen == index and header == (name,):
                found = number
        elif inside and seen == index and key is not None and key_of(line) == key:
            return number
    return found or line_of(text, (), name)


def header_of(line: str) -> tuple[str, ...] | None:
    """Return the path of a table header; None for any other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        node = tomllib.loads(line)
    except (ValueError, RecursionError):
        return None
    path = []
    while isinstance(node, dict) and node:
        name, node = next(iter(node.items()))
        path.append(name)
    return tuple(path)


def key_of(line: str) -> str | None:
    """Return the key that a line assigns; None if there is none."""
    found = _KEY.match(line)
    return next(iter(tomllib.loads(f"{found[1]} = 0"))) if found else None
