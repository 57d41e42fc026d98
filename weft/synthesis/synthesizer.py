"""The main Python interface: fit a model to a private table, and sample synthetic tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from weft.display import format_as_code
from weft.engines.frames import as_is, frame_maker
from weft.errors import MethodError, WeftError
from weft.io.adbc import hold_snapshots
from weft.io.dialect import Dialect
from weft.memory_plan import MemoryPlan
from weft.methods import AUTO
from weft.privacy import Budget, Ledger, Relation
from weft.privacy.mechanisms import Release
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.schema.database import Database, is_database_document
from weft.schema.rules.conditions import Where
from weft.synthesis import model_file as modelfile
from weft.synthesis.arguments import SklearnChecks, as_text, check_rows, check_seed, column_names
from weft.synthesis.conditional_sampling import BLOCK_ROWS, Conditioned
from weft.synthesis.database_fit import fit_database
from weft.synthesis.database_model import FittedDatabase, join_history, joined_schema
from weft.synthesis.database_plan import describes_database, plan_database
from weft.synthesis.discovery import SHARE, with_cost
from weft.synthesis.fit_plan import check_settings, name_public_table, plan_fit, warn_without_person
from weft.synthesis.fit_request import FitRequest
from weft.synthesis.fitted import Fitted
from weft.synthesis.history_fit import describes_history, fit_history, plan_history
from weft.synthesis.pipeline import FitState, find_schema, run_stages
from weft.synthesis.statement import default_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.evaluation.query_counts import Counts

MAX_QUERY_BINS = 20  # default maximum number of bins of an ordered column in a query
JOURNAL = "weft.ledger.jsonl"  # default journal file, in the working directory


class Synthesizer(SklearnChecks):
    """Fits a model to a private table within a budget, and samples synthetic tables.

    >>> synthesizer = Synthesizer(epsilon=1.0, delta=1e-6, method="independent")
    >>> synthesizer.get_params()["epsilon"]
    1.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        method: str = AUTO,
        budget: Budget | None = None,
        neighbours: Relation = "add-remove",
        engine: Literal["auto", "memory", "stream"] = "auto",
        journal: str | PathLike[str] | None = JOURNAL,
        budget_file: str | PathLike[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        memory: str | int | None = None,
        trust_data_for_schema: bool = False,
        discover: float = SHARE,
        seed: int | None = None,
        noise_seed: int | None = None,
        dialect: Dialect | None = None,
        **options: Any,
    ) -> None:
        """Validate and store the settings; nothing is read or spent until `fit`.

        Args:
            epsilon: maximum privacy loss of the whole fit.
            delta: delta of the guarantee; 0 requests pure epsilon.
            method: name of the method (see `weft.methods.METHODS`); "auto" is the best (`weft.methods.BEST`).
            budget: a `Budget` in other units (rho, mu); replaces epsilon and delta.
            neighbours: "add-remove" (one privacy unit more or less) or "replace-one".
            engine: where the rows are kept while they are counted: "auto", "memory" or "stream".
            journal: write-ahead log of every charge, appended to before the query; None for no journal.
            budget_file: lifetime budget of the table (`weft budget create`), charged by all runs on it.
            checkpoint: file of noisy answers, from which `weft resume` finishes an interrupted run (`checkpoint_`).
            memory: memory limit, such as "4GB"; a fit that would exceed it is refused before anything is spent.
            trust_data_for_schema: accept a schema with facts read from the data; releases are stamped with a warning.
            discover: share of the budget for discovery of what the schema does not state; 0 disables discovery.
            seed: seed for post-processing (model initialisation, sampling); does not affect privacy.
            noise_seed: seed for the noise itself, for tests; releases are stamped NOT PRIVATE.
            dialect: format of a text file (`weft.Dialect`) that is not plain CSV.
            options: options of the method; `preset="paper"` selects the published defaults; `marginals` may be a
                marginal plan: a path, TOML text or `weft.MarginalPlan` (docs/marginals.md); `public` names a public
                table with the same columns (docs/public.md).
        """
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.budget = budget
        self.neighbours = neighbours
        self.engine = engine
        self.journal = journal
        self.budget_file = budget_file
        self.checkpoint = checkpoint
        self.memory = memory
        self.trust_data_for_schema = trust_data_for_schema
        self.discover = discover
        self.seed = seed
        self.noise_seed = noise_seed
        self.dialect = dialect
        self.options = name_public_table(options)
        check_settings({name: getattr(self, name) for name in _list_setting_names()}, self.options)

    @classmethod
    def of_request(cls, request: FitRequest) -> Self:
        """Return an unfitted synthesizer with the settings of a request."""
        settings = {name: getattr(request, name) for name in _list_setting_names()}
        if request.insecure:
            settings["budget"] = request.read_budget()
        return cls(**settings, **request.options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn's estimators do."""
        return {name: getattr(self, name) for name in _list_setting_names()} | self.options

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, all or none; raise MethodError for an unknown setting or option."""
        settings = {name: value for name, value in params.items() if name in _list_setting_names()}
        options = name_public_table(self.options | {k: value for k, value in params.items() if k not in settings})
        check_settings({name: getattr(self, name) for name in _list_setting_names()} | settings, options)
        for name, value in settings.items():
            setattr(self, name, value)
        self.options = options
        return self

    def __repr__(self) -> str:
        return as_text(self.get_params(), type(self).__init__, getattr(self, "fitted_", None))

    def _repr_html_(self) -> str:
        """Return the notebook representation; of a fitted synthesizer, with its guarantee and charges."""
        return format_as_code(self) + (self.ledger_._repr_html_() if hasattr(self, "fitted_") else "")

    def fit(
        self,
        data: Any,
        schema: Schema | Database | str | PathLike[str] | Mapping[str, Any] | None = None,
        *,
        unit: str | Literal[False] | None = None,
        rows_per_unit: int | None = None,
        time: str | None = None,
        listener: Listener = ignore_event,
        release: Release | None = None,
    ) -> Self:
        """Fit a model to the table within the budget. Everything that can be refused is refused before any charge.

        Args:
            data: a data frame (anything with the Arrow stream interface), a path, or the address of a database table.
                For related tables, a dict of them by name, with a schema of several tables (`weft.Database`).
            schema: a schema, its path, or a mapping of some columns to kinds, such as {"seen": "datetime"}. Discovery
                finds what it does not state (`discover`); by default, everything.
            unit: privacy unit if no schema states it: the column that identifies the person, or False if every row is
                another person's. Omitting it raises a warning, and will be an error.
            rows_per_unit: contribution bound: maximum rows per person that are used (default: chosen privately, from a
                noisy distribution of rows per person).
            time: column that orders the rows of a person in time, such as a year or a date; the rows are then released
                as histories.
            release: replaces the mechanisms, for audits.
        """
        request = replace(self._request(data, schema, unit, rows_per_unit), time=time)
        if not describes_database(request):
            warn_without_person(request, stacklevel=3)
        return self.fit_request(request, listener=listener, release=release)

    @hold_snapshots()
    def fit_request(
        self, request: FitRequest, *, listener: Listener = ignore_event, release: Release | None = None
    ) -> Self:
        """Fit a model by a request, whose settings replace those of the synthesizer."""
        if describes_database(request):
            related = plan_database(request, release, listener)
            self.related_, self.discovered_tables_ = fit_database(related)
            schemas = {table.name: table.schema for table in self.related_.database.tables}
            self._frames = {name: frame_maker(source, schemas[name]) for name, source in related.sources.items()}
            return self
        if describes_history(request):
            history = plan_history(request, release, listener)
            self.related_, found = fit_history(history)
            if found is not None:
                self.discovered_ = found
            self._frame = frame_maker(history.table.source, joined_schema(self.related_))
            return self
        plan = plan_fit(request, release, listener)
        state = FitState()
        try:
            self.fitted_ = run_stages(plan, state)
        finally:  # keep what was paid for, even if a later stage fails
            if state.discovered is not None:
                self.discovered_ = state.discovered
            self.checkpoint_ = state.checkpoint
        self._frame = frame_maker(plan.table.source, self.fitted_.schema)
        return self

    @hold_snapshots()
    def find_schema(
        self,
        data: Any,
        schema: Schema | str | PathLike[str] | Mapping[str, Any] | None = None,
        *,
        unit: str | Literal[False] | None = None,
        rows_per_unit: int | None = None,
        listener: Listener = ignore_event,
        release: Release | None = None,
    ) -> Schema:
        """Spend the whole budget on discovery of what the schema does not state, without fitting a model.

        The returned schema records its cost. Later runs can use it at no further cost; their own cost adds to it.
        """
        request = self._request(data, schema, unit, rows_per_unit)
        warn_without_person(request, stacklevel=4)  # past the decorator
        plan = plan_fit(request, release, listener)
        if plan.search is None:
            return plan.schema
        self.discovered_ = find_schema(plan)
        return with_cost(self.discovered_)

    def _request(
        self, data: Any, schema: Any, unit: str | Literal[False] | None, rows_per_unit: int | None
    ) -> FitRequest:
        settings = {name: getattr(self, name) for name in _list_setting_names()}
        return FitRequest(
            source=data, schema=schema, unit=unit, rows_per_unit=rows_per_unit, options=self.options, **settings
        )

    @property
    def ledger_(self) -> Ledger:
        """The ledger of all charges."""
        return self.related_.ledger if hasattr(self, "related_") else self._fitted().ledger

    @property
    def model_(self) -> Any:
        """The fitted model."""
        return self._fitted().model

    def sample(
        self,
        n: int | None = None,
        *,
        where: Where | None = None,
        seed: int | None = None,
        listener: Listener = ignore_event,
    ) -> Any:
        """Sample a synthetic table of n rows (default: the noisy number of rows). Sampling costs no budget.

        The result has the input's column names, order and types. It is a data frame of the type passed to `fit`, or a
        pyarrow Table if `fit` read a file or the model was loaded from a file (`weft.load`).

        `where` restricts the rows by conditions: a text such as "age >= 65", a mapping such as {"sex": "F", "age":
        {"min": 65}}, or a list of both, all of which hold in every row. Without n, a whole table is sampled and the
        rows that meet the conditions are returned. Raises ConditionError if no such row can be made, or not n of them
        within bounded work.

        For related tables, n is the number of rows of the root, whose columns conditions are about; the result is a
        dict of all tables. For histories, n is the number of persons, and conditions are about what never changes.
        """
        import pyarrow as pa

        if hasattr(self, "related_"):
            frames = getattr(self, "_frames", {})
            made = self.sample_tables(n, where=where, seed=seed, listener=listener)
            if self.related_.joined:
                return getattr(self, "_frame", as_is)(join_history(self.related_, made))
            return {name: frames.get(name, as_is)(table) for name, table in made.items()}
        tables = list(self.tables(n, where=where, seed=seed, listener=listener))
        return getattr(self, "_frame", as_is)(pa.concat_tables(tables))

    def sample_tables(
        self,
        n: int | None = None,
        *,
        where: Where | None = None,
        seed: int | None = None,
        listener: Listener = ignore_event,
    ) -> dict[str, pa.Table]:
        """Sample related tables as pyarrow Tables: n rows of the root (default: their noisy number), and families."""
        check_rows(n)
        check_seed("seed", seed)
        if where is not None:
            return self.related_.sample_where(n, where, np.random.default_rng(seed), listener)
        rows = self.related_.default_rows() if n is None else int(n)
        return self.related_.sample(rows, np.random.default_rng(seed), listener)

    def tables(
        self,
        n: int | None = None,
        *,
        where: Where | None = None,
        seed: int | None = None,
        listener: Listener = ignore_event,
    ) -> Iterator[pa.Table]:
        """Yield the rows of `sample` block by block as pyarrow Tables, for tables larger than memory."""
        fitted = self._fitted()
        check_rows(n)
        check_seed("seed", seed)
        rows = default_rows(fitted) if n is None else int(n)
        rng = np.random.default_rng(seed)
        if where is not None:
            asked = Conditioned(fitted, where)
            yield from asked.among(rows, rng, listener) if n is None else asked.tables(rows, rng, listener)
            return
        start, most = 0, MemoryPlan.of(self.memory).rows_at_once(len(fitted.schema.columns), BLOCK_ROWS)
        while True:
            block = min(most, rows - start)
            records = fitted.model.sample(block, rng, listener)
            yield fitted.rows(records, rng, start)
            start += block
            if start >= rows:
                return

    def plan(
        self,
        schema: Schema | Database | str | PathLike[str],
        rows: int,
        *,
        target_error: float | None = None,
        listener: Listener = ignore_event,
    ) -> Any:
        """Forecast errors for a table with this schema and size (`weft.evaluation.forecast.Plan`); no row is read.

        For related tables, `rows` is the number of rows of the root (`weft.evaluation.database_forecast`).
        """
        budget = self.budget or Budget(epsilon=self.epsilon, delta=self.delta)
        settings = {"method": self.method, "neighbours": self.neighbours, "options": self.options}
        if isinstance(schema, Database) or (isinstance(schema, str | PathLike) and is_database_document(Path(schema))):
            if target_error is not None or self.options or self.method not in (AUTO, "weave") or not budget.epsilon:
                raise MethodError(
                    "a plan of related tables supports the method weave and a budget in epsilon, but no options, "
                    "plan of marginals or target error: leave them out"
                )
            forecast = import_module("weft.evaluation.database_forecast").forecast_database
            return forecast(schema, rows, budget.epsilon, budget.delta, self.neighbours, listener)
        plan = import_module("weft.evaluation.forecast").plan
        return plan(
            schema, rows, budget.epsilon, budget.delta, target_error=target_error, listener=listener, **settings
        )

    def query(
        self,
        *columns: str | list[str],
        where: Where | None = None,
        bins: int = MAX_QUERY_BINS,
        table: str | None = None,
    ) -> Counts:
        """Estimate counts of rows by columns, with standard errors, at no budget cost.

        Estimates come from the released marginals if these determine the answer, otherwise from the model. Columns are
        separate arguments, `query("sex", "age")`, or one list, `query(["sex", "age"])`. The result is iterable and
        convertible to a table (`.table`); `.meaning` states what its ranges cover. `where` is as in `sample`; `bins` is
        the maximum number of bins for columns with many ordered values.

        Of related tables, the rows of one are counted: `table`, or else the root. Columns of the tables above it are
        named with their table, `query("ward", "patients.sex", table="stays")`.
        """
        if hasattr(self, "related_"):
            family = import_module("weft.evaluation.family_queries").answer_family_query
            rows: Counts = family(self.related_, column_names(columns), table, where, bins)
            return rows
        if table is not None:
            raise MethodError("table names one of several related tables, but this model is of one: leave it out")
        answer = import_module("weft.evaluation.query_answers").answer_query
        counts: Counts = answer(self._fitted(), column_names(columns), where, bins)
        return counts

    def replicates(
        self,
        n: int = 20,
        *,
        folder: str | PathLike[str] | None = None,
        seed: int = 0,
        processes: int = 2,
        listener: Listener = ignore_event,
    ) -> Any:
        """Repeat the release n times on tables drawn from it, at no budget cost, for `weft.analyse`.

        Each replicate is fitted with the same method and budget to a table of the noisy size that is drawn from this
        model. The result (`weft.synthesis.replicates.Replicates`) has pairs of these tables. A `folder` keeps them, and
        an interrupted run continues in it; it can be published with the release.
        """
        make = import_module("weft.synthesis.replicates").make_for
        return make(self._fitted(), None if folder is None else Path(folder), n, seed, processes, listener)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, its schema and its ledger to one file."""
        if hasattr(self, "related_"):
            modelfile.save_database(self.related_, Path(path))
        else:
            modelfile.save_model(self._fitted(), Path(path))

    def _fitted(self) -> Fitted:
        if hasattr(self, "related_"):
            raise WeftError("this is not supported for related tables: use sample, query, save or ledger_")
        if not hasattr(self, "fitted_"):
            raise WeftError("this synthesizer is not fitted: call fit(data, schema) first")
        return self.fitted_


def _list_setting_names() -> list[str]:
    return list(inspect.signature(Synthesizer.__init__).parameters)[1:-1]


def load(path: str | PathLike[str]) -> Synthesizer:
    """Load a saved model; the result can sample, query, save and show its ledger.

    Its `sample` returns a pyarrow Table with the types of the private table; convert it with `.to_pandas()` or
    `polars.from_arrow`.
    """
    fitted = modelfile.load_any_model(Path(path))
    if isinstance(fitted, FittedDatabase):
        ledger = fitted.ledger
        related = Synthesizer(budget=ledger.budget, neighbours=ledger.adjacency.relation)
        related.related_ = fitted
        return related
    budget = fitted.ledger.budget
    synthesizer = Synthesizer(
        method=fitted.method, budget=budget, neighbours=fitted.ledger.adjacency.relation, **fitted.options
    )
    synthesizer.fitted_ = fitted
    return synthesizer
