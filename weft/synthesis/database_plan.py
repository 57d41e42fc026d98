"""Validate a fit of related tables before a private row is read: schema, sources, settings and budget shares."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.engines.family_rows import are_whole_numbers
from weft.engines.sources import open_reader
from weft.errors import DataError, MethodError, SchemaError, SourceError
from weft.io.addresses import kind_of_address
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.methods import AUTO, Method, make_method
from weft.privacy import Adjacency, Budget, Lifetime, Noise
from weft.privacy.accounting import PURE
from weft.privacy.ledger import Terms
from weft.privacy.mechanisms import Mechanisms, Release
from weft.progress import Listener
from weft.schema.database import Database, RelatedTable, is_database_document
from weft.synthesis.database_discovery import prepare_searches, widen_bounds
from weft.synthesis.discovery.search import Search
from weft.synthesis.fit_plan import check_file_roles, check_public, check_unbounded, require_accepted_facts, stamps_of
from weft.synthesis.fit_request import FitRequest

SHARE_ROOT = 1.0
SHARE_CHILD = 2.2
SHARE_SIBLINGS = 1.5
"""Parts of the budget for the root, for each child table, and for the siblings of each, relative to each other."""


@dataclass(frozen=True)
class DatabasePlan:
    """A validated fit of related tables."""

    request: FitRequest
    database: Database
    sources: Mapping[str, Any]
    public: Mapping[str, pa.Table]
    references: Mapping[str, Sequence[str]]
    method: Method
    release: Release
    terms: Terms
    lifetime: Lifetime | None
    stamps: tuple[str, ...]
    dialect: Dialect
    listener: Listener
    left: float = 1.0
    """Share of the budget that earlier stages have left."""
    searches: Mapping[str, Search] = field(default_factory=dict)
    """Discovery of each table whose schema is incomplete."""

    @property
    def shares(self) -> dict[tuple[str, str], float]:
        """Share of the budget of each stage, by table and stage, in the order in which they are spent."""
        return share_budget(self.database, self.left)


def share_budget(database: Database, left: float = 1.0) -> dict[tuple[str, str], float]:
    """Divide what is left of a budget between the stages, by table and stage."""
    parts: dict[tuple[str, str], float] = {}
    for table in database.private:
        parts[table.name, "rows"] = SHARE_ROOT if table.parent is None else SHARE_CHILD
        if table.parent is not None and table.max_children > 1:
            parts[table.name, "siblings"] = SHARE_SIBLINGS
    whole = math.fsum(parts.values())
    return {stage: left * part / whole for stage, part in parts.items()}


def plan_database(request: FitRequest, release: Release | None, listener: Listener) -> DatabasePlan:
    """Validate a fit of related tables; everything that can be refused without private rows is refused here."""
    database = widen_bounds(read_database(request.schema))
    if request.unit not in (None, False):
        raise SchemaError("the key of the root table identifies the privacy unit; leave out the unit")
    sources = name_sources(database, request.source, request.schema)
    release = release or Mechanisms(None if request.noise_seed is None else Noise.seeded(request.noise_seed))
    facts = require_accepted_facts(database, request.trust_data_for_schema)  # type: ignore[arg-type]
    dialect = request.dialect or DEFAULT_DIALECT
    _check_sources(request, database, sources)
    public = {table.name: _read_public(table, sources[table.name], dialect) for table in database.public}
    references = {
        table.name: _list_keys(table, public[table.name]) for table in database.public if table.key is not None
    }
    budget, method = choose_weave(request)
    adjacency = Adjacency(request.neighbours, database.rows_per_unit)
    terms: Terms = (adjacency, f'"{database.unit}"', budget, method.accounting)
    lifetime = None if request.budget_file is None else Lifetime(request.budget_file)
    if lifetime is not None:
        lifetime.check(*terms)
        check_unbounded(False, facts, release.private)
    stamps = stamps_of(release.private, facts)
    slack = math.inf if lifetime is None else lifetime.slack_left()
    searches = prepare_searches(database, sources, (budget, method, request.discover, slack), dialect, listener)
    return DatabasePlan(
        request, database, sources, public, references, method, release, terms, lifetime, stamps, dialect, listener,
        searches=searches,
    )  # fmt: skip


def choose_weave(request: FitRequest) -> tuple[Budget, Method]:
    """Return the budget and the method of related tables; refuse settings that they do not support."""
    _check_settings(request)
    budget = request.read_budget()
    options: dict[str, Any] = dict(request.options)
    if budget.delta == 0:
        options = {"accounting": PURE.name} | options
    options["tuning"] = {"max_tree": 0, **options.get("tuning", {})}  # parents are given to chains, row by row
    method = make_method("weave", **options)
    budget.capacity(method.accounting)
    return budget, method


def _check_sources(request: FitRequest, database: Database, sources: Mapping[str, Any]) -> None:
    """Refuse a public table that is a private one, and a journal or budget that is any table."""
    for table in database.public:
        for other in database.private:
            named, private = sources[table.name], sources[other.name]
            if isinstance(named, str | PathLike):
                check_public(named, private, found=True)
            elif named is private:
                raise DataError(f'table "{table.name}" is public, but has the rows of "{other.name}", which is private')
    check_file_roles(request, [source for source in sources.values() if isinstance(source, str | PathLike)])


def describes_database(request: FitRequest) -> bool:
    """Return whether a request is about related tables: by its schema, or by a mapping of tables."""
    schema = request.schema
    if isinstance(schema, Database) or (isinstance(schema, Mapping) and "tables" in schema):
        return True
    if isinstance(schema, str | PathLike) and is_database_document(Path(schema)):
        return True
    return isinstance(request.source, Mapping)


def read_database(given: Any) -> Database:
    """Return the schema of several tables from an object, a file or a mapping."""
    if isinstance(given, Database):
        return given
    if isinstance(given, str | PathLike):
        return Database.load(Path(given))
    if isinstance(given, Mapping):
        return Database.from_dict(given)
    raise SchemaError("related tables need a schema of several tables: weft.Database, its file, or a dict like it")


def name_sources(database: Database, given: Any, schema: Any) -> dict[str, Any]:
    """Return the source of each table: from a mapping, from files named like the tables, or from the schema."""
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        listed: list[Any] = [] if given is None else [given] if isinstance(given, str | PathLike) else list(given)
        if len(listed) == 1 and kind_of_address(listed[0]) and "?" not in str(listed[0]):  # a database, and its tables
            given = {table.name: f"{listed[0]}?table={table.name}" for table in database.tables if table.source is None}
            return name_sources(database, given, schema)
        if len(listed) == 1 and Path(listed[0]).is_dir():
            files = sorted(path for path in Path(listed[0]).iterdir() if path.is_file())
            listed = [path for path in files if path.name.split(".")[0] in database]
        named = {Path(path).name.split(".")[0]: path for path in listed}
        if len(named) < len(listed):
            raise SourceError("two files have the name of one table: pass one file for each table")
    for name in named:
        database.table(name)
    folder = Path(schema).parent if isinstance(schema, str | PathLike) else Path()
    for table in database.tables:
        if table.name not in named and table.source is not None:
            named[table.name] = str(folder / table.source)
    missing = [table.name for table in database.tables if table.name not in named]
    if missing:
        raise SourceError(
            f'there is no source for table "{missing[0]}": pass a file with this name, such as {missing[0]}.csv, or '
            f"set source in [tables.{missing[0]}]"
        )
    return named


def _check_settings(request: FitRequest) -> None:
    """Refuse settings that related tables do not support."""
    if request.method not in (AUTO, "weave"):
        raise MethodError(f"related tables are fitted by weave only; leave out the method {request.method}")
    if request.engine == "stream":
        raise MethodError("related tables are held in memory; leave out the engine stream")
    for name in ("public", "marginals", "emphasis"):
        if request.options.get(name):
            raise MethodError(f"option {name} is not supported for related tables and histories; leave it out")


def _read_public(table: RelatedTable, source: Any, dialect: Dialect) -> pa.Table:
    reader = open_reader(source, dialect.marking(table.schema), 1 << 17, dialect)
    names = [name for name in reader.schema.names if name in table.schema]
    batches = [batch.select(names) for batch, _ in reader.start(names)]
    rows = pa.Table.from_batches(batches, pa.schema([reader.schema.field(name) for name in names]))
    keys = rows.column(str(table.key)).cast(pa.string())
    if are_whole_numbers(keys.to_pylist()):  # in the type of the columns that refer to them
        rows = rows.set_column(rows.schema.get_field_index(table.key), str(table.key), keys.cast(pa.int64()))
    return rows


def _list_keys(table: RelatedTable, rows: pa.Table) -> list[str]:
    keys: list[str] = rows.column(str(table.key)).cast(pa.string()).to_pylist()
    if None in keys or len(set(keys)) != len(keys) or not keys:
        raise SourceError(f'public table "{table.name}": the key "{table.key}" is missing or repeats in some rows')
    return keys
