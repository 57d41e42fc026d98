"""Reports on related tables, for the curator: one page per table and per kind of family tie.

Families are described as tables of their own, which a page compares as it compares any table: rows of a parent with the
numbers of their children, children with the columns of their parent, and pairs of siblings or of consecutive rows.

Privacy: none. Every page compares with the private tables and is PRIVATE.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.display import load_template, wrap_svg
from weft.encoding import Codec
from weft.errors import DataError, WeftError
from weft.evaluation.report.editions import read_coded
from weft.evaluation.report.measure_report import SEED, measure_private
from weft.evaluation.report.report_figures import Report
from weft.progress import Listener, ignore_event
from weft.release.database_release import count_broken_families
from weft.schema import Schema
from weft.schema.database import Database, RelatedTable
from weft.schema.kinds import Column, column_from_dict
from weft.synthesis.database_model import FittedDatabase, joined_schema, split_joined
from weft.values.storage import decode_dictionary

Tables = Mapping[str, pa.Table]
Array = NDArray[Any]


PAIRS = ("consecutive rows", "siblings")
"""Pairs of rows of a family that a page compares: of a table with a time column, or without."""

MAX_LINES, MAX_LINE_CHARTS = 20, 4
"""Histories in a chart, and charts of a table."""


def related_reports(
    database: Database, real: Tables, made: Tables, listener: Listener = ignore_event
) -> Iterator[tuple[str, Report]]:
    """Yield the name and the report of each private table, with its parent's columns, and of pairs of its rows."""
    if database.incomplete:
        raise WeftError("the schema leaves columns to discovery: pass the discovered schema beside the release")
    for table in database.private:
        real_rows, made_rows = (describe_rows(database, table, side) for side in (real, made))
        yield table.name, _compare(real_rows, made_rows, listener)
        if table.parent is not None and table.max_children > 1:
            describe = describe_siblings if table.time is None else describe_consecutive_rows
            real_rows, made_rows = (describe(table, side) for side in (real, made))
            if len(real_rows[1]) and len(made_rows[1]):
                yield name_pairs(table), _compare(real_rows, made_rows, listener)


def name_pairs(table: RelatedTable) -> str:
    """Return the name of the page on pairs of rows of a family."""
    return f"{table.name}, {PAIRS[table.time is None]}"


def render_index(database: Database, real: Tables, made: Tables, pages: Mapping[str, Path]) -> str:
    """Return a page that links to the reports, states how many families break a rule, and draws some histories."""
    checks = count_broken_families(database, made)
    charts = "".join(draw_histories(table, real, made) for table in database.private if table.time is not None)
    template = load_template("weft.evaluation.report", "database_report.html.j2", "report")
    rows = [(table, len(real[table.name]), len(made[table.name])) for table in database.private]
    return str(template.render(pages=pages, checks=checks, rows=rows, charts=charts)) + "\n"


def draw_histories(table: RelatedTable, real: Tables, made: Tables) -> str:
    """Draw numbers over time for some real and some synthetic histories, side by side on common scales."""
    numbers = [column.name for column in _plain_columns(table.schema) if column.kind in ("integer", "real")]
    drawn = []
    for name in [name for name in numbers if name != table.time][:MAX_LINE_CHARTS]:
        sides = [_read_lines(table, side, name) for side in (real, made)]
        if all(len(values) for _, _, values in sides):
            low, high = np.quantile(np.concatenate([values for _, _, values in sides]), (0.01, 0.99))
            begin, end = (pick([float(pick(times)) for _, times, _ in sides]) for pick in (np.min, np.max))
            body = "".join(_draw_lines(side, (begin, end), (low, high), 320 * i) for i, side in enumerate(sides))
            title = f"{name} over {table.time}: {MAX_LINES} real histories (left), {MAX_LINES} synthetic (right)"
            scale = f"{low:g} to {high:g}; left: real, right: synthetic"
            drawn.append(f"<h3>{escape(name)}</h3><p>{scale}</p>{wrap_svg(630, 170, title, body, fixed=False)}")
    return f"<h2>Histories of {escape(table.name)}</h2>{''.join(drawn)}" if drawn else ""


def _read_lines(table: RelatedTable, tables: Tables, name: str) -> tuple[Array, Array, Array]:
    """Return the family, the time and the value of the rows of some families, in the order of time."""
    parent, times, values = find_parents(table, tables), *(_read(table, tables, each) for each in (table.time, name))
    known = (parent >= 0) & ~np.isnan(times) & ~np.isnan(values)
    several = np.flatnonzero(np.bincount(parent[known]) > 1) if known.any() else np.zeros(0, np.int64)
    chosen = np.random.default_rng(SEED).permutation(several)[:MAX_LINES]
    rows = np.flatnonzero(known & np.isin(parent, chosen))
    rows = rows[np.lexsort((times[rows], parent[rows]))]
    return parent[rows], times[rows], values[rows]


def _draw_lines(
    side: tuple[Array, Array, Array], across: tuple[float, float], up: tuple[float, float], left: float
) -> str:
    family, times, values = side
    x = left + 5 + 300 * (times - across[0]) / max(across[1] - across[0], 1e-9)
    y = 160 - 150 * np.clip((values - up[0]) / max(up[1] - up[0], 1e-9), 0, 1)
    lines = (np.column_stack([x, y])[family == each].round(1).tolist() for each in np.unique(family))
    return "".join(
        f'<polyline fill="none" stroke="currentColor" opacity=".5" points="{" ".join(f"{a},{b}" for a, b in line)}"/>'
        for line in lines
    )


def _read(table: RelatedTable, tables: Tables, name: str | None) -> Array:
    """Return a column as numbers; nan for missing values."""
    rows = tables[table.name]
    codec = Codec(table.schema, rows.schema)
    values = codec.readers[str(name)].read(codec.arrays(rows.select([str(name)]))[str(name)])
    return np.where(values.missing, np.nan, values.numbers)


def read_tables(tables: Sequence[RelatedTable], files: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Read one file for each table."""
    missing = [table.name for table in tables if table.name not in files]
    if missing:
        raise DataError(f'there is no file of table "{missing[0]}": pass a file or a folder that has it')
    return {table.name: read_coded(files[table.name], table.schema).table for table in tables}


def read_histories(fitted: FittedDatabase, path: Path) -> dict[str, pa.Table]:
    """Read a single table of histories as persons and their rows."""
    return split_joined(fitted.database, read_coded(path, joined_schema(fitted)).table)


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
    return _pair_rows(table, tables, (order[first], order[first + 1]), "sibling's ")


def describe_consecutive_rows(table: RelatedTable, tables: Tables) -> tuple[Schema, pa.Table]:
    """Return one random pair of consecutive rows of each history: the columns of both."""
    parent = find_parents(table, tables)
    order = np.lexsort((_read(table, tables, table.time), parent))
    order = order[parent[order] >= 0]
    first = np.random.default_rng(SEED).permutation(np.flatnonzero(np.diff(parent[order]) == 0))
    first = first[np.unique(parent[order][first], return_index=True)[1]]
    return _pair_rows(table, tables, (order[first], order[first + 1]), "next ")


def _pair_rows(table: RelatedTable, tables: Tables, pairs: tuple[Array, Array], prefix: str) -> tuple[Schema, pa.Table]:
    columns, arrays = [], {}
    for before, places in zip(("", prefix), pairs, strict=True):
        for column in _plain_columns(table.schema, before):
            columns.append(column)
            arrays[column.name] = tables[table.name].column(column.name.removeprefix(before)).take(pa.array(places))
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
