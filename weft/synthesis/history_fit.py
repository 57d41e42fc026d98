"""Fit of a single table whose rows are histories: a person's rows, ordered in time.

The table is described as two related tables: `persons`, with the columns that never change for a person, and `rows`,
with all others. Which columns never change is declared (`per_unit`), or found from one record per person. Both are read
from the same source, and the released tables are joined again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft.curator import Curator, PrivateTable
from weft.engines.family_rows import open_changes
from weft.engines.frames import make_repeatable
from weft.engines.sources import source_name, table_identity
from weft.errors import SchemaError
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.frame_values import collect_lazy_frame
from weft.marginals.marginal import Array
from weft.privacy import Adjacency, Lifetime
from weft.privacy.ledger import open_run_ledger
from weft.privacy.mechanisms import Mechanisms, Release
from weft.privacy.noise import Noise
from weft.progress import Listener, report_stage
from weft.schema import Schema
from weft.schema.database import MAX_CHILDREN, Database, Link, RelatedTable, check_time
from weft.schema.family_rules import FamilyRule
from weft.synthesis.arguments import check_data
from weft.synthesis.database_discovery import choose_bound
from weft.synthesis.database_fit import check_budget, check_stages, fit_stages
from weft.synthesis.database_model import PERSONS, ROWS, FittedDatabase
from weft.synthesis.database_plan import DatabasePlan, choose_weave
from weft.synthesis.discovery import Discovered
from weft.synthesis.discovery.search import MAX_ROWS_PER_UNIT, Search, collect_stated_facts
from weft.synthesis.fit_plan import check_file_roles, check_unbounded, require_accepted_facts, stamps_of
from weft.synthesis.fit_request import FitRequest

SHARE_CHANGES = 0.04
"""Part of the budget for finding the columns that never change for a person."""

MAX_CHANGING = 0.01
"""Share of persons with several rows in which a column that is taken as constant may change, as by mistakes."""


def describes_history(request: FitRequest) -> bool:
    """Return whether a request is about histories in a single table: by its time column, or by its schema's."""
    if request.time is not None:
        return True
    if isinstance(request.schema, Mapping) or request.schema is None:
        return False
    schema = request.read_schema()
    return schema is not None and schema.time is not None


@dataclass(frozen=True)
class HistoryPlan:
    """A validated fit of histories."""

    request: FitRequest
    table: PrivateTable
    schema: Schema
    search: Search | None
    related: DatabasePlan
    """The plan of the related tables; its schema is known after discovery."""


def plan_history(request: FitRequest, release: Release | None, listener: Listener) -> HistoryPlan:
    """Validate a fit of histories; everything that can be refused without private rows is refused here."""
    check_data(request.source)
    schema, dialect = request.read_schema(), request.dialect or DEFAULT_DIALECT
    release = release or Mechanisms(None if request.noise_seed is None else Noise.seeded(request.noise_seed))
    source = make_repeatable(collect_lazy_frame(request.source))
    table = PrivateTable(source, "memory", dialect, listener, name=ROWS)
    bound = MAX_ROWS_PER_UNIT if request.rows_per_unit is None else request.rows_per_unit
    public = dialect.marking(collect_stated_facts(table, schema, request.unit, bound))
    time = request.time or public.time
    if public.unit is None:
        raise SchemaError(
            "a time column orders the rows of a person: name the column that identifies the person with --unit COLUMN "
            "(unit=), or unit in the schema"
        )
    if time not in public or time == public.unit:
        raise SchemaError(f'time: the table has no column "{time}" besides its unit')
    public = public if public.unknown else replace(public, time=time)
    if public.rows_per_unit == 1:
        raise SchemaError("a history has several rows per person: set rows_per_unit above 1, or leave out the time")
    for rule in public.rules:
        raise SchemaError(f'the rule "{rule}" is not supported for histories yet: leave it out, or leave out the time')
    if any(column.kind == "derived" or not column.in_table for column in public.columns):
        raise SchemaError("computed columns are not supported for histories yet: leave them out, or the time column")
    facts = require_accepted_facts(public, request.trust_data_for_schema)
    budget, method = choose_weave(request)
    terms = (Adjacency(request.neighbours, public.rows_per_unit), f'"{public.unit}"', budget, method.accounting)
    check_file_roles(request, source)
    lifetime = None if request.budget_file is None else Lifetime(request.budget_file)
    if lifetime is not None:
        lifetime.check(*terms)
        check_unbounded(False, facts, release.private)
    most = math.inf if lifetime is None else lifetime.slack_left()
    search = Search.prepare(table, public, request.discover, budget, method.accounting, most)
    search = search and replace(search, time=time)
    if search is not None and request.rows_per_unit is None and not (schema is not None and schema.unit):
        search = replace(search, chooses_bound=True)
    empty = Database((), PERSONS)
    stamps = stamps_of(release.private, facts)
    sources = {PERSONS: source, ROWS: source}
    related = DatabasePlan(request, empty, sources, {}, {}, method, release, terms, lifetime, stamps, dialect, listener)
    return HistoryPlan(request, table, replace(public, time=None) if search else public, search, related)


def fit_history(plan: HistoryPlan) -> tuple[FittedDatabase, Discovered | None]:
    """Run all stages: discovery, columns that never change, then the fit of persons and their rows."""
    request, related = plan.request, plan.related
    time, source = str(request.time or plan.schema.time), plan.table.source
    facts = {"source": source_name(source), "identity": table_identity(source), "method": "weave"}
    journal = None if request.journal is None else Path(request.journal)
    terms, lifetime = related.terms, related.lifetime
    if plan.search is None:
        plan.table.open(plan.schema)  # whatever it refuses is refused before the first charge
        changing = {c.name: np.array([0.0, 0.0, 0.0, 1.0]) for c in plan.schema.columns if c.modelled}
        whole = split_history(plan.schema, time, changing, 0.0, choose_bound(plan.schema.rows_per_unit, None))
        check_stages(replace(related, database=whole, left=1 - SHARE_CHANGES))
    with open_run_ledger(terms, lifetime, journal=journal, stamps=related.stamps, facts=facts) as ledger:
        schema, left, found = plan.schema, 1.0, None
        if plan.search is not None:
            check_budget(replace(related, database=_least_database(plan), left=1 - request.discover), ledger)
            found, left = plan.search.run(ledger, related.release)
            schema = found.schema
        changes = open_changes(source, schema, time, related.dialect, related.listener)
        curator = Curator(changes, ledger, related.release, left * SHARE_CHANGES)
        with report_stage(related.listener, "find columns that never change"):
            noisy = curator.look([(name,) for name in changes.domain], 1.0, "columns that never change for a person")
            sigma = curator.sigma(1.0 / max(len(noisy), 1))
        counts = {m.clique[0]: np.asarray(m.table, np.float64) for m in noisy}
        sizes = None if found is None else found.unit_sizes
        bound = choose_bound(schema.rows_per_unit, sizes)
        ledger.bound_contributions(bound)
        database = split_history(schema, time, counts, sigma, bound)
        found = found and replace(found, schema=replace(schema, time=time, rows_per_unit=bound))
        fitted = fit_stages(replace(related, database=database, left=left * (1 - SHARE_CHANGES)), ledger)
        columns = [name for name in plan.table.columns(schema).names if name in schema]
    return replace(fitted, options=fitted.options | {"joined": columns}), found


def _least_database(plan: HistoryPlan) -> Database:
    """Return persons and rows without columns, with the least contribution bound that discovery may choose."""
    most = 2 if plan.search is not None and plan.search.chooses_bound else min(plan.schema.rows_per_unit, MAX_CHILDREN)
    unit = str(plan.schema.unit)
    persons = RelatedTable(PERSONS, plan.schema, unit)
    link = Link(unit, PERSONS, unit)
    return Database((persons, RelatedTable(ROWS, plan.schema, None, (link,), most, parent=PERSONS)), PERSONS)


def split_history(schema: Schema, time: str, changes: Mapping[str, Array], sigma: float, most: int) -> Database:
    """Describe persons and their rows as related tables.

    `changes` has, for each column, the noisy numbers of persons with one row, with equal values, with values that
    advance with time, and with others.
    """
    check_time(ROWS, time, schema)
    shares = {name: _share_of_changes(table, sigma) for name, table in changes.items() if name != time}
    constant = list(schema.per_unit) or [name for name, (changing, _) in shares.items() if changing <= MAX_CHANGING]
    stepped = {column.name for column in schema.columns if getattr(column, "step", 1) != 1}
    advancing = [name for name, (_, other) in shares.items() if name not in constant and other <= MAX_CHANGING]
    advancing = [name for name in advancing if name not in stepped]
    # Persons need an attribute: without a constant, that of the column that changes least, in one of their rows.
    above = constant or [min(shares, key=lambda name: shares[name][0], default=time)]
    unit = schema.column(str(schema.unit))
    persons = Schema((unit, *(schema.column(name) for name in above)), extra_columns="ignore")
    below = [column for column in schema.columns if column.name not in (*constant, unit.name)]
    rows = Schema((unit, *below), extra_columns="ignore")
    link = Link(unit.name, PERSONS, unit.name)
    tables = (
        RelatedTable(PERSONS, persons, unit.name),
        RelatedTable(ROWS, rows, None, (link,), min(most, MAX_CHILDREN), time=time, parent=PERSONS),
    )
    rules = [FamilyRule("advances", ROWS, name) for name in advancing]
    once = FamilyRule("increasing", ROWS, time)
    return Database(tables, PERSONS, (*([once] if _has_distinct_times(changes[time], sigma) else []), *rules))


def _has_distinct_times(counts: Array, sigma: float) -> bool:
    """Return whether persons hardly ever have two rows of one time: those who have are counted in the last cell."""
    return bool(counts[3] - 3 * sigma <= MAX_CHANGING * max(float(counts[1:].sum()), 1.0))


def _share_of_changes(counts: Array, sigma: float) -> tuple[float, float]:
    """Return the shares of persons with several rows whose values differ, and whose values do not advance either.

    Noise of up to three standard deviations counts as no change.
    """
    several = max(float(counts[1:].sum()), 1.0)
    advancing, other = (max(float(counts[i]) - 3 * sigma, 0.0) / several for i in (2, 3))
    return advancing + other, other + max(float(counts[1]), 0.0) / several * (advancing < 0.5)
