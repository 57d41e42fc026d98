"""Reports on related tables, for the curator: one page per table and per kind of family tie.

Families are described as tables of their own, which a page compares as it compares any table: rows of a parent with the
numbers of their children, children with the columns of their parent, and pairs of siblings.

Privacy: none. Every page compares with the private tables and is PRIVATE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.encoding import Codec
from weft.errors import DataError, WeftError
from weft.evaluation.report.editions import read_coded
from weft.evaluation.report.measure_report import SEED, measure_private
from weft.evaluation.report.report_figures import Report
from weft.progress import Listener, ignore_event, report_stage
from weft.release.database_release import count_broken_families
from weft.schema import Schema
from weft.schema.database import Database, RelatedTable
from weft.schema.kinds import Column, column_from_dict
from weft.values.storage import decode_dictionary

Tables = Mapping[str, pa.Table]


def related_reports(
    database: Database, real: Mapping[str, Path], released: Mapping[str, Path], listener: Listener = ignore_event
) -> Iterator[tuple[str, Report]]:
    """Yield the name and the report of each private table, with its parent's columns, and of pairs of siblings."""
    if database.incomplete:
        raise WeftError("the schema leaves columns to discovery: pass the discovered schema beside the release")
    with report_stage(listener, "read"):
        sides = [_read(database, files) for files in (real, released)]
    for table in database.private:
        real_rows, made_rows = (describe_rows(database, table, side) for side in sides)
        yield table.name, _compare(real_rows, made_rows, listener)
        if table.parent is not None and table.max_children > 1:
            real_rows, made_rows = (describe_siblings(table, side) for side in sides)
            if len(real_rows[1]) and len(made_rows[1]):
                yield f"{table.name}, siblings", _compare(real_rows, made_rows, listener)


def render_index(database: Database, released: Mapping[str, Path], pages: Mapping[str, Path]) -> str:
    """Return a page that links to the reports and states how many families break a rule."""
    checks = count_broken_families(database, _read(database, released, public=True))
    links = "".join(f'<li><a href="{escape(path.name)}">{escape(name)}</a></li>' for name, path in pages.items())
    kept = "".join(f"<li>{escape(what)}: {broken or 'none'} broken</li>" for what, broken in checks.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width"><title>Related tables</title>'
        '<body style="font-family: system-ui; max-width: 45rem; margin: 2rem auto; padding: 0 1rem">'
        "<h1>Related tables</h1><p><strong>PRIVATE: computed from real rows.</strong></p>"
        f"<h2>Pages</h2><ul>{links}</ul><h2>Keys and families in the release</h2><ul>{kept}</ul></body></html>\n"
    )


def _read(database: Database, files: Mapping[str, Path], public: bool = False) -> dict[str, pa.Table]:
    wanted = database.tables if public else database.private
    missing = [table.name for table in wanted if table.name not in files]
    if missing:
        raise DataError(f'there is no file of table "{missing[0]}": pass a file or a folder that has it')
    return {table.name: read_coded(files[table.name], table.schema).table for table in wanted}


def _compare(real: tuple[Schema, pa.Table], made: tuple[Schema, pa.Table], listener: Listener) -> Report:
    schema, rows = real
    codec = Codec(schema, rows.schema)
    new = made[1].cast(rows.schema)
    return measure_private(codec.encode(rows), codec.encode(new), codec, tables=(rows, new), listener=listener)


def describe_rows(database: Database, table: RelatedTable, tables: Tables) -> tuple[Schema, pa.Table]:
    """Return a table with the columns of its parent, and the numbers of its children."""
    rows, columns, arrays = tables[table.name], [], {}
    if table.parent is not None:
        parent = find_parents(table, tables)
        rows, parent = rows.filter(pa.array(parent >= 0)), parent[parent >= 0]
        for column in _plain_columns(database.table(table.parent).schema, f"{table.parent}."):
            columns.append(column)
            arrays[column.name] = tables[table.parent].column(column.name.removeprefix(f"{table.parent}.")).take(parent)
    for column in _plain_columns(table.schema):
        columns.append(column)
        arrays[column.name] = rows.column(column.name)
    for child in database.children(table.name):
        counts = np.bincount(find_parents(child, tables) + 1, minlength=len(tables[table.name]) + 1)
        numbers = np.minimum(counts[1:], child.max_children)
        if table.parent is not None:
            numbers = numbers[find_parents(table, tables) >= 0]
        name = f"rows of {child.name}"
        columns.append(column_from_dict(name, {"kind": "integer", "range": [0, child.max_children]}))
        arrays[name] = pa.array(numbers)
    return Schema(tuple(columns), extra_columns="ignore"), pa.table(arrays)


def describe_siblings(table: RelatedTable, tables: Tables) -> tuple[Schema, pa.Table]:
    """Return one random pair of siblings of each family: the columns of both."""
    parent, rng = find_parents(table, tables), np.random.default_rng(SEED)
    order = np.lexsort((rng.random(len(parent)), parent))
    order = order[parent[order] >= 0]
    first = np.flatnonzero(np.diff(parent[order], prepend=-1) != 0)
    first = first[np.diff(np.append(first, len(order))) > 1]
    columns, arrays = [], {}
    for prefix, places in (("", order[first]), ("sibling's ", order[np.minimum(first + 1, max(len(order) - 1, 0))])):
        for column in _plain_columns(table.schema, prefix):
            columns.append(column)
            arrays[column.name] = tables[table.name].column(column.name.removeprefix(prefix)).take(pa.array(places))
    return Schema(tuple(columns), extra_columns="ignore"), pa.table(arrays)


def find_parents(table: RelatedTable, tables: Tables) -> NDArray[np.int64]:
    """Return the place of each row's parent; -1 for none."""
    link = table.link
    keys, own = (
        decode_dictionary(tables[name].column(column).combine_chunks()).cast(pa.string())
        for name, column in ((link.table, link.key), (table.name, link.column))
    )
    found = pc.index_in(own, value_set=keys, skip_nulls=True).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _plain_columns(schema: Schema, prefix: str = "") -> list[Column]:
    """Return the columns that are modelled, under other names; what refers to other columns is left out."""
    made = []
    for column in schema.modelled:
        entry: dict[str, Any] = column.to_dict()
        if entry["kind"] == "derived":
            continue
        if "after" in entry:
            column = replace(column, after=None)  # type: ignore[call-arg]
        made.append(replace(column, name=prefix + column.name))
    return made
