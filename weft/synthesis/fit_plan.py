"""Validate and price a fit request, before a row is counted or a charge is made."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from typing import Any, get_args

import numpy as np

from weft.curator import PrivateTable
from weft.encoding import Codec
from weft.engines import Engine, Opened
from weft.engines.frames import make_repeatable
from weft.engines.sources import source_name, table_identity
from weft.errors import BudgetError, DataError, MethodError, SchemaError, WeftError
from weft.io.addresses import kind_of_address
from weft.io.byte_stream import STDIN
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.formats import format_of
from weft.io.frame_values import collect_lazy_frame
from weft.io.output_paths import check_apart, share_files
from weft.marginals.domain import Domain
from weft.memory_plan import MemoryPlan
from weft.methods import AUTO, Method, check_effects, resolve_method_name, takes_option
from weft.methods import make_method as recipe
from weft.methods.common.discretisation import Arrangement, PublishedBins, coarse_domain
from weft.methods.common.options import convert_to_plain
from weft.privacy import Adjacency, Budget, Lifetime, Noise, Relation
from weft.privacy.accounting import PURE
from weft.privacy.ledger import Terms
from weft.privacy.mechanisms import Mechanisms, Release
from weft.progress import Listener, report_stage
from weft.schema import Schema
from weft.synthesis.arguments import check_data, check_seed
from weft.synthesis.discovery import MAX_ROWS_PER_UNIT, Search, collect_stated_facts, states_person
from weft.synthesis.fit_request import FitRequest
from weft.synthesis.marginal_plan import CompiledPlan, MarginalPlan, PlanError, compile_plan, extend_schema, with_maps
from weft.synthesis.marginal_plan.compiled_plan import accounting_of, extract_plan, refuse_for
from weft.synthesis.statement import FROM_DATA, NO_PRICE, NOT_PRIVATE


def open_public(plan: FitPlan, opened: Opened) -> Engine | None:
    """Open the public table named in the options, with the schema of the private table; None if there is none."""
    named = plan.request.options.get("public")
    if not named:
        return None
    # A public table needs no privacy unit, and ids are not modelled. A delimited public file has the private dialect.
    columns = tuple(column for column in plan.schema.columns if column.kind != "id")
    schema = replace(plan.schema, columns=columns, unit=None, rows_per_unit=1, per_unit=(), extra_columns="ignore")
    form = None if kind_of_address(named) else format_of(Path(named))
    separated = form is not None and "separator" in form.dialect_options
    table = replace(plan.table, source=named, dialect=plan.table.dialect if separated else DEFAULT_DIALECT)
    try:
        with report_stage(plan.table.listener, "read the public table"):
            found = table.open(schema)
    except WeftError as error:
        raise DataError(f"the public table, {source_name(named)}, does not fit the private schema: {error}") from None
    if found.codec.domain != opened.codec.domain:
        raise DataError(
            f"the public table, {source_name(named)}, is not encoded like the private one: store columns alike."
        )
    if not int(np.sum(found.engine.count([()])[0])):
        raise DataError(f"the public table, {source_name(named)}, has no rows: leave it out.")
    return found.engine


def name_public_table(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options with the path of the public table as text, or without it if it is None."""
    public = options.get("public")
    if public is None:
        return {name: value for name, value in options.items() if name != "public"}
    return {**options, "public": fspath(public) if isinstance(public, PathLike) else public}


def check_public(named: Any, source: Any, found: bool) -> None:
    """Refuse a public table that is the private one, or that could only be encoded after discovery was charged."""
    if not named:
        return
    name = source_name(named)
    if named == STDIN:
        raise DataError("the public table cannot come from standard input: name a file")
    if not found:
        raise SchemaError(
            f"the public table, {name}, is read with the private schema, which does not state all columns. Run "
            "`weft schema draft TABLE --private --epsilon 0.1 -o found.toml` first to find them"
        )
    place = table_identity(source)  # None for an object in memory
    if place is not None and (place == table_identity(named) or share_files(named, source)):
        raise DataError(
            f"the public table, {name}, is read from a file of the private table, whose rows would be used without "
            "noise. Write public rows to a separate file."
        )


def require_accepted_facts(schema: Schema, trusted: bool) -> list[str]:
    """Return the schema facts that were read from the data; raise SchemaError unless the caller accepts the leak."""
    facts = schema.from_data_facts()
    if facts and not trusted:
        raise SchemaError(
            f"the schema still contains facts read from the data ({_shorten_facts(facts)}). Review them and remove "
            "their from_data marks, or pass trust_data_for_schema (--trust-data-for-schema) to accept the leak."
        )
    return facts


def stamps_of(private: bool, facts: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings stamped on a release: for seeded noise, and for schema facts read from the data."""
    seeded = [] if private else [NOT_PRIVATE]
    return (*seeded, *([FROM_DATA.format(facts=_shorten_facts(facts))] if facts else []))


def check_unbounded(deniable: bool, facts: Sequence[str], private: bool) -> None:
    """Refuse runs whose privacy cost no lifetime budget can bound."""
    if deniable:
        raise BudgetError(NO_PRICE)
    if facts:
        raise BudgetError(
            "schema facts read from the data are not covered by the guarantee, so no lifetime budget bounds them "
            f"({_shorten_facts(facts)}): review them and remove their from_data marks"
        )
    if not private:
        raise BudgetError(
            "seeded noise can be recomputed and removed, so no lifetime budget bounds it: leave noise_seed out"
        )


def _shorten_facts(facts: Sequence[str], most: int = 8) -> str:
    """Join facts such as "age: range", shortened after `most` of them."""
    more = f" and {len(facts) - most} more; `weft schema check` lists them" if len(facts) > most else ""
    return ", ".join(facts[:most]) + more


@dataclass(frozen=True)
class MethodPlan:
    """A method with its options, and its marginal plan, at one budget."""

    name: str
    given: frozenset[str]  # options set by the user, which a marginal plan does not override
    chosen: Method
    schema: Schema  # the schema, extended by the marginal plan
    plan: MarginalPlan | None = None  # the marginal plan at this budget; None if there is none
    published: bool = False  # whether the settings are those of the paper (preset)

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any], schema: Schema, budget: Budget) -> MethodPlan:
        """Parse the options; raise PlanError if the plan does not fit the schema, MethodError for an unknown option."""
        plan, own = extract_plan(name, options)
        usual: dict[str, Any] = {}
        if plan is not None:
            plan = with_maps(plan.at(budget.nominal()))
            if schema.incomplete:
                raise PlanError(
                    f"{plan.source or 'a plan of marginals'} requires a schema that states all columns. Run "
                    "`weft schema draft TABLE --private --epsilon 0.1 -o found.toml` first to find them"
                )
            schema = extend_schema(schema, plan)
            usual = {"accounting": accounting_of(plan, schema, budget.nominal(), budget.delta)}
        # delta = 0 requests pure epsilon, an option of methods that can do without Gaussian noise.
        usual |= {"accounting": PURE.name} if budget.delta == 0 else {}
        made = recipe(name, **(usual | convert_to_plain(own)))
        return cls(name, frozenset(own), made, schema, plan, own.get("preset") is not None)

    @property
    def kept(self) -> dict[str, Any]:
        """The marginal plan as an option that can be stored in a file."""
        return {} if self.plan is None else {"marginals": self.plan.to_dict()}

    def compiled(self, codec: Codec) -> tuple[Method, Arrangement]:
        """Return the method with the options of the marginal plan, and its arrangement of attributes; validate both."""
        made = CompiledPlan() if self.plan is None else compile_plan(self.plan, codec)
        chosen = self.chosen
        if self.plan is not None:
            accepted = {each.name for each in fields(chosen)}  # type: ignore[arg-type]
            refuse_for(self.name, made.options, self.plan, accepted)
            given = {name: value for name, value in made.options.items() if name in accepted - self.given}
            chosen = replace(chosen, **given)  # type: ignore[type-var]
            check_effects(chosen, {name: {} for name in self.given & accepted})  # their members were validated before
        arrangement = made.arrangement
        if self.published:
            arrangement = replace(arrangement, bins=PublishedBins(arrangement.bins))
        chosen.check(coarse_domain(arrangement.domain(codec.domain), arrangement.bins))
        return chosen, arrangement


@dataclass(frozen=True)
class FitPlan:
    """A validated and priced fit."""

    request: FitRequest
    table: PrivateTable
    method: MethodPlan
    release: Release
    terms: Terms
    lifetime: Lifetime | None
    stamps: tuple[str, ...]
    search: Search | None  # discovery to run first; None if the schema states everything

    @property
    def schema(self) -> Schema:
        """The schema, extended by the marginal plan; incomplete before discovery."""
        return self.method.schema


def check_settings(settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Validate settings and options as far as possible without knowing the columns."""
    if not isinstance(settings["method"], str):
        raise MethodError(f"method must be the name of a method, such as {AUTO!r}; `weft methods` lists them")
    for name in ("seed", "noise_seed"):
        check_seed(name, settings[name])
    for name in options:
        if not takes_option(settings["method"], name) and (close := get_close_matches(name, settings, n=1)):
            raise MethodError(f"there is no setting {name!r}. Did you mean {close[0]!r}?")
    _, own = extract_plan(resolve_method_name(settings["method"]), options)
    recipe(resolve_method_name(settings["method"]), **convert_to_plain(own))
    if settings["budget"] is None:
        Budget(epsilon=settings["epsilon"], delta=settings["delta"])
    discover, relation, engine = settings["discover"], settings["neighbours"], settings["engine"]
    if isinstance(discover, bool) or not isinstance(discover, int | float) or not 0 <= discover < 1:
        raise BudgetError("the share for discovery must be above 0 and below 1, such as 0.1; 0 disables discovery")
    if relation not in get_args(Relation):
        raise BudgetError(f"neighbours must be one of {', '.join(get_args(Relation))}; not {relation!r}")
    MemoryPlan.of(settings["memory"])
    if engine not in ("auto", "memory", "stream"):
        raise DataError(f"engine must be auto, memory or stream; not {engine!r}")


def plan_fit(request: FitRequest, release: Release | None, listener: Listener) -> FitPlan:
    """Validate and price a request. Everything that can be refused is refused here, before a row is counted.

    `release` replaces the mechanisms, for audits and for resuming.
    """
    check_data(request.source)
    schema = request.read_schema()
    release = release or Mechanisms(None if request.noise_seed is None else Noise.seeded(request.noise_seed))
    data, dialect = collect_lazy_frame(request.source), request.dialect or DEFAULT_DIALECT
    source = make_repeatable(data) if schema is None or schema.incomplete else data
    table = PrivateTable(source, request.engine, dialect, listener, MemoryPlan.of(request.memory))
    bound = MAX_ROWS_PER_UNIT if request.rows_per_unit is None else request.rows_per_unit
    public = dialect.marking(collect_stated_facts(table, schema, request.unit, bound))
    facts = require_accepted_facts(public, request.trust_data_for_schema)
    budget = request.read_budget()
    name = resolve_method_name(request.method)
    made = MethodPlan.of(name, request.options, public, budget)
    public, chosen = made.schema, made.chosen
    budget.capacity(chosen.accounting)  # refuses a budget that this accounting does not support
    adjacency = Adjacency(request.neighbours, public.rows_per_unit if public.unit else 1)
    # Quoted, so that a column named "row" is not confused with rows.
    whose = "row" if public.unit is None else f'"{public.unit}"'
    terms = (adjacency, whose, budget, chosen.accounting)
    check_file_roles(request, source)
    lifetime = None if request.budget_file is None else Lifetime(request.budget_file)
    if lifetime is not None:  # before anything is read
        lifetime.check(*terms)
        check_unbounded(getattr(chosen, "deniable", False), facts, release.private)
    most = math.inf if lifetime is None else lifetime.slack_left()
    search = Search.prepare(table, public, request.discover, budget, chosen.accounting, most)
    if search is not None and request.rows_per_unit is None and not (schema is not None and schema.unit):
        search = replace(search, chooses_bound=public.unit is not None)
    # Before discovery the number of columns can be checked, but not options that name attributes.
    if search is not None and not (
        takes_option(name, "marginals") and convert_to_plain(request.options).get("marginals")
    ):
        chosen.check(Domain.of({column.name: 2 for column in public.columns if column.kind != "id"}))
    check_public(request.options.get("public"), source, search is None)
    return FitPlan(request, table, made, release, terms, lifetime, stamps_of(release.private, facts), search)


WITHOUT_PERSON = (
    "no privacy unit was specified, so every row is assumed to belong to a different person. Pass unit='COLUMN' if a "
    "column identifies the person, who may have several rows, or unit=False if every row is another person's. "
    "Omitting unit will be an error in version 0.4"
)


def warn_without_person(request: FitRequest, stacklevel: int) -> None:
    """Warn once per process if no privacy unit is stated; `stacklevel` points to the caller of the synthesizer."""
    if request.unit is None and not states_person(request.read_schema()) and not _WARNED:
        _WARNED.add("person")
        warnings.warn(WITHOUT_PERSON, FutureWarning, stacklevel=stacklevel)


_WARNED: set[str] = set()


def check_file_roles(request: FitRequest, data: Any) -> None:
    """Refuse a journal that is also the private table, the lifetime budget or the public table."""
    if request.journal is not None:
        named = isinstance(data, str | PathLike | list | tuple)
        budget = None if request.budget_file is None else Path(request.budget_file)
        public = request.options.get("public") or None
        inputs = {
            "the private table": data if named else None,
            "the lifetime budget": budget,
            "the public table": public,
        }
        check_apart(inputs, {}, {"the journal": Path(request.journal)})
