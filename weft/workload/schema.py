"""What of a plan the schema can say: groups of columns, and columns that follow from others by a public map."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.codec import Codec
from weft.errors import SchemaError
from weft.reading.csv import csv_arrow_schema
from weft.schema import Schema
from weft.schema.kinds import Column
from weft.schema.kinds.base import Scalar, suggestion
from weft.schema.kinds.derived import Derived
from weft.schema.kinds.listed import written
from weft.workload.items import Grouped, Item, PublicMap
from weft.workload.plan import MarginalPlan


def extended(schema: Schema, plan: MarginalPlan) -> Schema:
    """Return the schema with the plan's groups and maps in it, as if its writer had put them there."""
    groups = list(schema.groups)
    taken = {name: "the schema" for group in groups for name in group}
    for item in plan.of(Grouped):
        for name in item.columns:
            known_column(schema, name, item, "columns")
            if name in taken:
                raise item.place.fault(
                    f'"{name}" stands in a group of {taken[name]} already; groups may not overlap: leave it in one',
                    "columns",
                )
            taken[name] = "this plan"
        groups.append(item.columns)
    columns = {column.name: column for column in schema.columns}
    for found in plan.of(PublicMap):
        columns[found.gives] = _derived(schema, columns, found, taken)
        try:
            known = replace(schema, columns=tuple(columns.values()))
            Codec(known, csv_arrow_schema(known))
        except SchemaError as error:  # values without an answer, columns that follow from one another
            raise found.place.fault(str(error), "map") from None
    try:
        return replace(schema, columns=tuple(columns.values()), groups=tuple(groups))
    except SchemaError as error:
        raise SchemaError(f"{plan.source or 'plan of marginals'} with the schema: {error}") from None


def with_maps(plan: MarginalPlan) -> MarginalPlan:
    """Return the plan with the code books of its maps inside: it can be kept, and read elsewhere, without them."""
    items = (
        replace(item, map=tuple(_pairs(item))) if isinstance(item, PublicMap) and isinstance(item.map, str) else item
        for item in plan.items
    )
    return replace(plan, items=tuple(items))


def known_column(schema: Schema, name: str, item: Item, key: str) -> Column:
    """Return a column; the plan's fault if there is none, or if it is an id."""
    if name not in schema:
        near = suggestion(name, [column.name for column in schema.columns])
        raise item.place.fault(f'there is no column "{name}" in the schema.{near or " Check its spelling."}', key)
    return schema.column(name)


def _derived(schema: Schema, columns: Mapping[str, Column], item: PublicMap, grouped: Mapping[str, str]) -> Derived:
    source = known_column(schema, item.of, item, "of")
    general = known_column(schema, item.gives, item, "gives")
    if item.of == item.gives or isinstance(columns[item.gives], Derived):
        raise item.place.fault(f'"{item.gives}" cannot be filled in twice, or from itself; leave one map', "gives")
    if item.gives in grouped:
        raise item.place.fault(f'"{item.gives}" is computed, so that it cannot stand in a group; leave it out', "gives")
    pairs = _pairs(item)
    answers: dict[str, Scalar] = {}
    for detail, value in pairs:
        if written(detail) in answers:
            raise item.place.fault(
                f'it is no function: "{written(detail)}" of "{item.of}" has two answers; leave one of them', "map"
            )
        answers[written(detail)] = _typed(general, value, item)
    for value in (source.listed or ()) if item.otherwise is None else ():
        if written(value) not in answers:
            raise item.place.fault(f'there is no answer for "{written(value)}" of "{item.of}"; add one', "map")
    try:
        return Derived(
            item.gives,
            of=item.of,
            map=tuple(answers.items()),
            otherwise=None if item.otherwise is None else _typed(general, item.otherwise, item, "else"),
            missing=general.missing,
            type=general.type or str(general.arrow_type()),
        )
    except SchemaError as error:
        raise item.place.fault(str(error), "map") from None


def _pairs(item: PublicMap) -> list[tuple[Any, Any]]:
    if isinstance(item.map, Mapping):
        return list(item.map.items())
    if isinstance(item.map, tuple):
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in item.map):
            raise item.place.fault('map must be pairs such as [["1.1", "1"], ["1.2", "1"]]', "map")
        return list(item.map)
    path = Path(item.place.source).parent / item.map if item.place.source else Path(item.map)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise item.place.fault(f'the file "{item.map}" cannot be read; put it beside the plan', "map") from None
    if item.of not in header or item.gives not in header or any(len(row) != len(header) for row in rows):
        raise item.place.fault(f'the file "{item.map}" must have columns "{item.of}" and "{item.gives}"', "map")
    of, gives = header.index(item.of), header.index(item.gives)
    return list(dict.fromkeys((row[of], row[gives]) for row in rows))


def _typed(column: Column, value: Any, item: PublicMap, key: str = "map") -> Scalar:
    """Return an answer as its column lists it."""
    if column.listed is None:
        made: Scalar = value
        return made
    known = {written(each): each for each in column.listed}
    if written(value) not in known:
        raise item.place.fault(f'"{value}" is no value of "{column.name}"; the schema lists them', key)
    return known[written(value)]
