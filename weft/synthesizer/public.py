"""A table that anybody may see, beside the private one: named among the options, refused or opened before a charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engines import Engine, Opened
from weft.engines.sources import fingerprint, source_name
from weft.errors import DataError, SchemaError, WeftError
from weft.files import format_of
from weft.progress import stage
from weft.reading.addresses import kind_of_address
from weft.reading.dialect import PLAIN
from weft.reading.stream import STDIN
from weft.release.paths import share_files

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer
    from weft.synthesizer.run import Run


def open_public(settings: Synthesizer, run: Run, opened: Opened) -> Engine | None:
    """Open the public table that is named among the options, with the private one's schema; None if none is."""
    named = settings.options.get("public")
    if not named:
        return None
    # Whose rows they are does not matter there, and ids are not modelled. What is said of text is said of both.
    columns = tuple(column for column in run.schema.columns if column.kind != "id")
    schema = replace(run.schema, columns=columns, unit=None, rows_per_unit=1, per_unit=(), extra_columns="ignore")
    text = not kind_of_address(named) and format_of(Path(named)) == "csv"
    table = replace(run.table, source=named, dialect=run.table.dialect if text else PLAIN)
    try:
        with stage(run.table.listener, "read the public table"):
            found = table.open(schema)
    except WeftError as error:
        raise DataError(f"the public table, {source_name(named)}, does not fit the private one's: {error}") from None
    if found.codec.domain != opened.codec.domain:
        raise DataError(f"the columns of the public table, {source_name(named)}, do not come out as the private ones.")
    if not int(np.sum(found.engine.count([()])[0])):
        raise DataError(f"the public table, {source_name(named)}, has no row to learn from: leave it out.")
    return found.engine


def named_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options with a public table by its name, if there is one."""
    public = options.get("public")
    if public is None:
        return {name: value for name, value in options.items() if name != "public"}
    return {**options, "public": fspath(public) if isinstance(public, PathLike) else public}


def check_public(named: Any, source: Any, found: bool) -> None:
    """Refuse a public table that is the private one, or whose codes would be known only after something was spent."""
    if not named:
        return
    name = source_name(named)
    if named == STDIN:
        raise DataError("the public table cannot come from standard input: name a file")
    if not found:
        raise SchemaError(
            f"the public table, {name}, is read with the private one's schema, and that does not state all columns. "
            "`weft schema draft TABLE --private --epsilon 0.1 -o found.toml` finds them first"
        )
    place = fingerprint(source)  # of an object in memory there is none
    if place is not None and (place == fingerprint(named) or share_files(named, source)):
        raise DataError(
            f"the public table, {name}, is read from a file of the private table, whose rows cannot be public too: "
            "they would be used as they are. Write public rows to a file of their own."
        )
