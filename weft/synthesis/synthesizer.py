"""Fit a private table, sample a public one: what most people import."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from weft.display import format_as_code
from weft.engines.frames import as_is, frame_maker
from weft.errors import WeftError
from weft.io.adbc import hold_snapshots
from weft.io.dialect import Dialect
from weft.memory_plan import MemoryPlan
from weft.methods import AUTO
from weft.privacy import Budget, Ledger, Relation
from weft.privacy.mechanisms import Release
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.schema.rules.conditions import Where
from weft.synthesis import model_file as modelfile
from weft.synthesis.arguments import SklearnChecks, as_text, check_rows, check_seed, column_names
from weft.synthesis.conditional_sampling import BLOCK_ROWS, Conditioned
from weft.synthesis.discovery import ROWS_PER_UNIT, SHARE, with_cost
from weft.synthesis.fit_plan import check_settings, name_public_table, plan_fit, warn_without_person
from weft.synthesis.fit_request import FitRequest
from weft.synthesis.fitted import Fitted
from weft.synthesis.pipeline import FitState, find_schema, run_stages
from weft.synthesis.statement import default_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.evaluation.query_counts import Counts

MAX_QUERY_BINS = 20
"""Bins in which a query counts an ordered column, unless another number is given."""

JOURNAL = "weft.ledger.jsonl"
"""Where a run writes down its charges unless told otherwise: in the working directory."""


class Synthesizer(SklearnChecks):
    """Learns a private table within a budget and makes synthetic ones.

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
        """Store the settings; nothing is read or spent until `fit`. What cannot be right is refused here.

        Args:
            epsilon: privacy loss that the whole fit may cost.
            delta: probability left to the guarantee; 0 asks for pure epsilon.
            method: name of the recipe (see `weft.methods.METHODS`); "auto" is the best (`weft.methods.BEST`).
            budget: a `Budget` in other units (rho, mu); replaces epsilon and delta.
            neighbours: "add-remove" (one privacy unit more or less) or "replace-one".
            engine: "auto", "memory" or "stream": where the rows are held while they are counted.
            journal: a file to which every charge is appended before the rows are asked; None keeps no such record.
            budget_file: the lifetime budget of the table (`weft budget create`), which all runs on it draw from.
            checkpoint: a file for the noisy answers, from which `weft resume` finishes a run that died (`checkpoint_`).
            memory: how much may be taken, such as "4GB"; what cannot keep to it is refused before anything is spent.
            trust_data_for_schema: accept a schema with facts read from the data; stamped on everything released.
            discover: share of the budget for finding privately what the schema does not state; 0 refuses to look.
            seed: makes what follows the noise reproducible (a model's start, sampling); harmless.
            noise_seed: makes the noise itself reproducible, for tests; stamped NOT PRIVATE.
            dialect: how a text file is written (`weft.Dialect`), where it is not plain CSV.
            options: the recipe's own options, before them `preset="paper"` for the published ones; `marginals` may be
                a plan of marginals: a path, TOML text or `weft.MarginalPlan` (docs/marginals.md); `public` names a
                table of the same columns that anybody may see (docs/public.md).
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
        """Return an empty synthesizer with the settings of a request."""
        settings = {name: getattr(request, name) for name in _list_setting_names()}
        if request.insecure:
            settings["budget"] = request.read_budget()
        return cls(**settings, **request.options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as scikit-learn's estimators do."""
        return {name: getattr(self, name) for name in _list_setting_names()} | self.options

    def set_params(self, **params: Any) -> Self:
        """Change settings by name, all or none; MethodError for what is no setting, and no option of the method."""
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
        """Show a fitted synthesizer in a notebook: its guarantee, and what was asked."""
        return format_as_code(self) + (self.ledger_._repr_html_() if hasattr(self, "fitted_") else "")

    def fit(
        self,
        data: Any,
        schema: Schema | str | PathLike[str] | Mapping[str, Any] | None = None,
        *,
        unit: str | Literal[False] | None = None,
        rows_per_unit: int = ROWS_PER_UNIT,
        listener: Listener = ignore_event,
        release: Release | None = None,
    ) -> Self:
        """Learn a model of the table within the budget.

        `data` is a data frame (anything with the Arrow stream interface), a path, or an address of a database's table.
        `schema` is a schema, its path, or a mapping of some columns to their kinds, such as {"seen": "datetime"}.
        What it does not state is found privately (`discover`); without one, that is everything. `unit` states
        who is protected where no schema does: the column that identifies the person, of whom at most `rows_per_unit`
        rows are used, or False where every row is another person's. Leaving it out warns, and will be an error. All
        that can be refused is refused before the first charge. `release` replaces the mechanisms, for audits.
        """
        request = self._request(data, schema, unit, rows_per_unit)
        warn_without_person(request, stacklevel=3)
        return self.fit_request(request, listener=listener, release=release)

    @hold_snapshots()
    def fit_request(
        self, request: FitRequest, *, listener: Listener = ignore_event, release: Release | None = None
    ) -> Self:
        """Learn a model as a request says, whose settings are taken instead of the synthesizer's own."""
        plan = plan_fit(request, release, listener)
        state = FitState()
        try:
            self.fitted_ = run_stages(plan, state)
        finally:  # what was paid for is kept, whatever a later stage did
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
        rows_per_unit: int = ROWS_PER_UNIT,
        listener: Listener = ignore_event,
        release: Release | None = None,
    ) -> Schema:
        """Spend the whole budget on finding privately what a schema does not state, and learn nothing else.

        The schema that comes back says what it cost. Later runs use it at no further cost; their own adds to it.
        """
        request = self._request(data, schema, unit, rows_per_unit)
        warn_without_person(request, stacklevel=4)  # past the decorator
        plan = plan_fit(request, release, listener)
        if plan.search is None:
            return plan.schema
        self.discovered_ = find_schema(plan)
        return with_cost(self.discovered_)

    def _request(self, data: Any, schema: Any, unit: str | Literal[False] | None, rows_per_unit: int) -> FitRequest:
        settings = {name: getattr(self, name) for name in _list_setting_names()}
        return FitRequest(
            source=data, schema=schema, unit=unit, rows_per_unit=rows_per_unit, options=self.options, **settings
        )

    @property
    def ledger_(self) -> Ledger:
        """What was paid, for which question."""
        return self._fitted().ledger

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
        """Make a synthetic table of n rows (default: as many as the noisy total says).

        The result is a data frame of the kind that `fit` was given, else a pyarrow Table, with the input's column
        names, order and types; a model that was loaded from a file (`weft.load`) has seen no frame and makes a pyarrow
        Table. Sampling costs no budget, however often it is done.

        `where` asks for rows that meet conditions: a text such as "age >= 65", a mapping such as {"sex": "F", "age":
        {"min": 65}}, or a list of both, all of which hold in every row. Without n these are the rows of a whole table
        that meet them, as many as there are. That costs no budget either: only the model is asked. ConditionError
        where no row can be made so, or not n of them within bounded work.
        """
        import pyarrow as pa

        tables = list(self.tables(n, where=where, seed=seed, listener=listener))
        return getattr(self, "_frame", as_is)(pa.concat_tables(tables))

    def tables(
        self,
        n: int | None = None,
        *,
        where: Where | None = None,
        seed: int | None = None,
        listener: Listener = ignore_event,
    ) -> Iterator[pa.Table]:
        """Make the same rows as `sample`, block by block, as pyarrow Tables: for tables larger than memory."""
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

    def plan(self, schema: Schema | str | PathLike[str], rows: int, *, target_error: float | None = None) -> Any:
        """Forecast the errors for a table of this schema and size (`weft.evaluation.forecast.Plan`); no row is read."""
        budget = self.budget or Budget(epsilon=self.epsilon, delta=self.delta)
        settings = {"method": self.method, "neighbours": self.neighbours, "options": self.options}
        plan = import_module("weft.evaluation.forecast").plan
        return plan(schema, rows, budget.epsilon, budget.delta, target_error=target_error, **settings)

    def query(self, *columns: str | list[str], where: Where | None = None, bins: int = MAX_QUERY_BINS) -> Counts:
        """Count rows by some columns, with standard errors: from the released tables where they tell, else the model.

        Columns are named one by one, `query("sex", "age")`, or as one list, `query(["sex", "age"])`.
        The result can be looped over, or taken as a table (`.table`); `.meaning` says what its ranges cover. `where` is
        as in `sample`; columns with many ordered values are counted in at most so many bins. It costs no budget.
        """
        answer = import_module("weft.evaluation.query_answers").answer_query
        counts: Counts = answer(self._fitted(), column_names(columns), where, bins)
        return counts

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, its schema and its ledger to one file."""
        modelfile.save_model(self._fitted(), Path(path))

    def _fitted(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise WeftError("this synthesizer has learned nothing yet: call fit(data, schema) first")
        return self.fitted_


def _list_setting_names() -> list[str]:
    """Return the names of the settings that every method has."""
    return list(inspect.signature(Synthesizer.__init__).parameters)[1:-1]


def load(path: str | PathLike[str]) -> Synthesizer:
    """Read a saved model; the result can sample, query, save and show its ledger.

    Its `sample` returns a pyarrow Table, in the types of the table that the model was fitted to: take
    `.to_pandas()`, or `polars.from_arrow`, of it.
    """
    fitted = modelfile.load_model(Path(path))
    budget = fitted.ledger.budget
    synthesizer = Synthesizer(
        method=fitted.method, budget=budget, neighbours=fitted.ledger.adjacency.relation, **fitted.options
    )
    synthesizer.fitted_ = fitted
    return synthesizer
