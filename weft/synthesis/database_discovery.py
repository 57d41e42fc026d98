"""Discovery of related tables whose schema is incomplete, table by table, each with a share of the discovery budget.

The privacy unit of a table's rows is the value of the root's key that they lead to. The root and its children name it
themselves; the rows of deeper tables are given the key of their unit in place of their parent's
(`weft.engines.family_rows.attach_units`). A table is opened with the contribution bound of its path, or with one
that is chosen privately, and its queries have the sensitivity of this bound (`QueryBase.of_bound`).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.curator import PrivateTable
from weft.engines.family_rows import attach_units
from weft.engines.frames import make_repeatable
from weft.errors import SchemaError
from weft.io.dialect import Dialect
from weft.marginals.marginal import Array
from weft.methods import Method
from weft.privacy import Budget, Ledger
from weft.privacy.mechanisms import Release
from weft.progress import Listener
from weft.schema.database import MAX_CHILDREN, Database, RelatedTable, check_time
from weft.synthesis.discovery import Discovered
from weft.synthesis.discovery.search import MAX_ROWS_PER_UNIT, Search, collect_stated_facts

KEPT_UNITS = 0.995
"""Share of units all of whose rows are used, if no contribution bound is stated: it costs little at unit mass."""


def choose_bound(stated: int, sizes: Array | None) -> int:
    """Return a contribution bound: the stated one, or the least that keeps nearly all units whole."""
    if sizes is None:
        return min(stated, MAX_CHILDREN)
    reached = np.cumsum(sizes) / max(float(sizes.sum()), 1e-9)
    return min(max(int(np.searchsorted(reached, KEPT_UNITS)) + 1, 2), max(len(sizes), 2), MAX_CHILDREN)


def widen_bounds(database: Database, bound: int = MAX_ROWS_PER_UNIT) -> Database:
    """Return a database with another bound where discovery chooses it: by default, the largest that it may choose."""
    chosen = {each.name for each in database.incomplete if each.parent == database.root and not each.states_bound}
    tables = (replace(each, max_children=bound) if each.name in chosen else each for each in database.tables)
    return replace(database, tables=tuple(tables))


def prepare_searches(
    database: Database,
    sources: Mapping[str, Any],
    terms: tuple[Budget, Method, float, float],
    dialect: Dialect,
    listener: Listener,
) -> dict[str, Search]:
    """Validate the discovery of each incomplete table; `terms` has the budget, method, share and remaining slack."""
    budget, method, share, slack = terms
    incomplete, made = database.incomplete, {}
    for table in incomplete:
        if not share:
            raise SchemaError(f'table "{table.name}": its schema is incomplete, and discovery is disabled')
        source, unit = make_repeatable(sources[table.name]), str(table.key)
        path = database.path(table.name)
        private = PrivateTable(source, "memory", dialect, listener, name=table.name)
        if table.parent is not None:
            unit = table.link.column
            if table.parent != database.root:
                private = _attach_units(database, table, sources, private)
        bound = math.prod(min(each.max_children, MAX_ROWS_PER_UNIT) for each in path)
        known = collect_stated_facts(private, replace(table.schema, extra_columns="discover"), None, 1)
        # Links to public tables keep their keys as values, which the plan knows.
        searched = replace(known, unit=unit, rows_per_unit=bound, per_unit=())
        part = Search.prepare(private, searched, share / len(incomplete), budget, method.accounting, slack)
        if part is not None:
            made[table.name] = replace(
                part,
                slack=part.slack / len(incomplete),
                chooses_bound=bound > 1 and not table.states_bound,
                time=table.time,
            )
    return made


def _attach_units(
    database: Database, table: RelatedTable, sources: Mapping[str, Any], private: PrivateTable
) -> PrivateTable:
    """Return a deeper table with the keys of its units; refuse types that a data frame inferred from all rows."""
    inferred = [name for name in private.ambiguous_types() if name not in table.schema]
    if inferred:
        error = SchemaError(
            f'table "{table.name}": describe column "{inferred[0]}" in the schema, or pass the path of a file: a data '
            "frame does not record how dates, times and booleans were written"
        )
        error.private = True  # a single row may have determined the type
        raise error
    names = {table.name: private.column_names()}
    return replace(private, source=attach_units(database, table.name, sources, names, private.dialect))


def check_complete_tables(database: Database, sources: Mapping[str, Any], dialect: Dialect) -> None:
    """Refuse what the complete tables of a partly discovered database refuse, and shared keys, before any charge."""
    for table in database.private:
        private = PrivateTable(sources[table.name], "memory", dialect)
        if not table.schema.incomplete and table.schema.modelled:
            private.open(dialect.marking(replace(table.schema, extra_columns="ignore")))
        if len(database.path(table.name)) > 1:
            attach_units(database, table.name, sources, {table.name: private.column_names()}, dialect)


def complete_database(
    database: Database, searches: Mapping[str, Search], ledger: Ledger, release: Release
) -> tuple[Database, dict[str, Discovered]]:
    """Run all discoveries; return the complete schema, and what was found in each table."""
    for search in searches.values():
        search.check(ledger, release)  # whatever a table refuses is refused before the first charge
    found = {name: search.run(ledger, release)[0] for name, search in searches.items()}
    tables = tuple(_complete(table, found.get(table.name), database) for table in database.tables)
    return replace(database, tables=tables), found


def _complete(table: RelatedTable, found: Discovered | None, database: Database) -> RelatedTable:
    if found is None:
        return table
    schema = replace(found.schema, unit=None, rows_per_unit=1, extra_columns="ignore")
    if not any(column.modelled for column in schema.columns):
        raise SchemaError(f'table "{table.name}": it has no column to model besides keys: all columns are ids')
    check_time(table.name, table.time, schema)
    direct = table.parent == database.root and found.unit_sizes is not None
    bound = choose_bound(table.max_children, found.unit_sizes) if direct else table.max_children
    stated = {column.name: column for column in table.schema.columns if column.kind != "unknown"}  # keys are ids
    columns = tuple(stated.get(column.name, column) for column in schema.columns)
    return replace(table, schema=replace(schema, columns=columns), max_children=bound)
