"""One run of a synthesizer, as far as it is known before anything is spent: whatever can be refused is refused here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from weft.codec import Codec
from weft.curator import PrivateTable
from weft.discovery import Search, stated
from weft.engines.frames import repeatable
from weft.errors import BudgetError, DataError, MethodError
from weft.marginals.domain import Domain
from weft.methods import Method, check_effects, known, takes
from weft.methods import method as recipe
from weft.methods.steps.arranging import Arrangement
from weft.methods.steps.options import plain
from weft.methods.steps.resolution import coarse_domain
from weft.privacy import Adjacency, Budget, Lifetime, Relation
from weft.privacy.books import Terms
from weft.privacy.mechanisms import Release
from weft.progress import Listener
from weft.reading.dialect import PLAIN
from weft.reading.frames import collected
from weft.release.paths import check_apart
from weft.release.stamps import accepted_facts, check_unbounded, stamps_of
from weft.room import Room
from weft.schema import Schema
from weft.synthesizer.public import check_public
from weft.workload import Compiled, MarginalPlan, PlanError, compile_plan, extended, with_maps
from weft.workload.compiled import accounting_of, planned, refuse_for

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer


@dataclass(frozen=True)
class Asked:
    """The table that is to be learned, and what is said of it."""

    data: Any
    schema: Schema | str | PathLike[str] | None
    unit: str | Literal[False] | None
    rows_per_unit: int


@dataclass(frozen=True)
class Recipe:
    """A method with its options at one budget, and what a plan of marginals among them makes of both."""

    name: str
    """The method's."""
    given: frozenset[str]
    """Options that the user set, which a plan does not change."""
    chosen: Method
    schema: Schema
    """What is stated of the columns, by the plan too."""
    plan: MarginalPlan | None = None
    """The marginals that somebody planned, for this budget."""

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any], schema: Schema, budget: Budget) -> Recipe:
        """Read the options; PlanError for a plan that does not fit the schema, MethodError for what is no option."""
        plan, own = planned(name, options)
        usual: dict[str, Any] = {}
        if plan is not None:
            plan = with_maps(plan.at(budget.nominal()))
            if schema.incomplete:
                raise PlanError(
                    f"{plan.source or 'a plan of marginals'} needs to know all columns: a schema must state them, or "
                    "`weft schema draft TABLE --private --epsilon 0.1 -o found.toml` finds them first"
                )
            schema = extended(schema, plan)
            usual = {"accounting": accounting_of(plan, schema, budget.nominal(), budget.delta)}
        # delta = 0 asks for pure epsilon, which a recipe that can do without Gaussian noise offers as an option.
        usual |= {"accounting": "pure"} if budget.delta == 0 else {}
        return cls(name, frozenset(own), recipe(name, **(usual | plain(own))), schema, plan)

    @property
    def kept(self) -> dict[str, Any]:
        """The plan as an option that a file can hold."""
        return {} if self.plan is None else {"marginals": self.plan.to_dict()}

    def compiled(self, codec: Codec) -> tuple[Method, Arrangement]:
        """Return the recipe with what the plan gives it, and what it sees of the table; all of it is checked here."""
        made = Compiled() if self.plan is None else compile_plan(self.plan, codec)
        chosen = self.chosen
        if self.plan is not None:
            accepted = {each.name for each in fields(chosen)}  # type: ignore[arg-type]
            refuse_for(self.name, made.options, self.plan, accepted)
            given = {name: value for name, value in made.options.items() if name in accepted - self.given}
            chosen = replace(chosen, **given)  # type: ignore[type-var]
            check_effects(chosen, {name: {} for name in self.given & accepted})  # members were looked at before
        chosen.check(coarse_domain(made.arrangement.domain(codec.domain), made.arrangement.bins))
        return chosen, made.arrangement


@dataclass(frozen=True)
class Run:
    """A run that may begin."""

    table: PrivateTable
    recipe: Recipe
    release: Release
    terms: Terms
    lifetime: Lifetime | None
    stamps: tuple[str, ...]
    search: Search | None
    """What has to be found out first; None if everything is stated."""

    @property
    def schema(self) -> Schema:
        """What is stated of the columns."""
        return self.recipe.schema


def check_settings(settings: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse settings that cannot be right, and options that the method has not; the columns are not known yet."""
    for name in options:
        if not takes(settings["method"], name) and (close := get_close_matches(name, settings, n=1)):
            raise MethodError(f"there is no setting {name!r}. Did you mean {close[0]!r}?")
    _, own = planned(known(settings["method"]), options)
    recipe(known(settings["method"]), **plain(own))
    if settings["budget"] is None:
        Budget(epsilon=settings["epsilon"], delta=settings["delta"])
    discover, relation, engine = settings["discover"], settings["neighbours"], settings["engine"]
    if isinstance(discover, bool) or not isinstance(discover, int | float) or not 0 <= discover < 1:
        raise BudgetError("the share for discovery must be above 0 and below 1, such as 0.1; 0 refuses to look")
    if relation not in get_args(Relation):
        raise BudgetError(f"neighbours must be one of {', '.join(get_args(Relation))}; not {relation!r}")
    Room.of(settings["memory"])
    if engine not in ("auto", "memory", "stream"):
        raise DataError(f"engine must be auto, memory or stream; not {engine!r}")


def prepare(settings: Synthesizer, asked: Asked, release: Release, listener: Listener) -> Run:
    """Refuse whatever can be refused before a row is counted."""
    schema = asked.schema
    if schema is not None and not isinstance(schema, Schema):
        schema = Schema.load(Path(schema))
    data, dialect = collected(asked.data), settings.dialect or PLAIN
    source = repeatable(data) if schema is None or schema.incomplete else data
    table = PrivateTable(source, settings.engine, dialect, listener, Room.of(settings.memory))
    public = dialect.marking(stated(table, schema, asked.unit, asked.rows_per_unit))
    facts = accepted_facts(public, settings.trust_data_for_schema)
    budget = settings.budget or Budget(epsilon=settings.epsilon, delta=settings.delta)
    name = known(settings.method)
    made = Recipe.of(name, settings.options, public, budget)
    public, chosen = made.schema, made.chosen
    budget.capacity(chosen.accounting)  # a budget that this accounting cannot count is refused here
    adjacency = Adjacency(settings.neighbours, public.rows_per_unit if public.unit else 1)
    # Quoted, so that a column called row is not taken for rows.
    whose = "row" if public.unit is None else f'"{public.unit}"'
    terms = (adjacency, whose, budget, chosen.accounting)
    _check_files(settings, source)
    lifetime = None if settings.budget_file is None else Lifetime(settings.budget_file)
    if lifetime is not None:  # before anything is read
        lifetime.check(*terms)
        check_unbounded(getattr(chosen, "deniable", False), facts, release.private)
    most = math.inf if lifetime is None else lifetime.slack_left()
    search = Search.prepare(table, public, settings.discover, budget, chosen.accounting, most)
    # What the number of columns rules out is known before any of them is found; what names of attributes do, is not.
    if search is not None and not (takes(name, "marginals") and plain(settings.options).get("marginals")):
        chosen.check(Domain.of({column.name: 2 for column in public.columns if column.kind != "id"}))
    check_public(settings.options.get("public"), source, search is None)
    stamps = stamps_of(release.private, facts)
    return Run(table, made, release, terms, lifetime, stamps, search)


def _check_files(settings: Synthesizer, data: Any) -> None:
    """Refuse a journal that is the private table, or a budget, before anything is read."""
    if settings.journal is not None:
        named = isinstance(data, str | PathLike | list | tuple)
        budget = None if settings.budget_file is None else Path(settings.budget_file)
        public = settings.options.get("public") or None
        inputs = {
            "the private table": data if named else None,
            "the lifetime budget": budget,
            "the public table": public,
        }
        check_apart(inputs, {}, {"the journal": Path(settings.journal)})
