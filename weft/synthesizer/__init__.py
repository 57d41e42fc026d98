"""Fit a private table, sample a public one: what most people import."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from weft.answers import MOST_BINS, Counts, ask
from weft.codec.people import People
from weft.curator import Curator, Rehearsal
from weft.discovery import ROWS_PER_UNIT, SHARE, with_cost
from weft.engines import Opened
from weft.engines.returned import as_is, frame_maker
from weft.engines.sources import fingerprint, source_name
from weft.errors import WeftError
from weft.methods import AUTO
from weft.methods.steps.learning import learn
from weft.methods.steps.options import plain
from weft.methods.steps.resolution import coarse_domain
from weft.notebook import said
from weft.privacy import Budget, Ledger, Noise, Relation
from weft.privacy.books import open_books
from weft.privacy.mechanisms import Mechanisms, Release
from weft.progress import Listener, silence, stage
from weft.reading.dialect import Dialect
from weft.reading.snapshot import held_snapshots
from weft.release import modelfile
from weft.release.conditioned import BLOCK_ROWS, Conditioned
from weft.release.modelfile import Fitted
from weft.release.statement import default_rows
from weft.room import Room
from weft.schema import Schema
from weft.schema.rules.where import Where
from weft.synthesizer.public import named_options, open_public
from weft.synthesizer.resume import recorded
from weft.synthesizer.run import Asked, Run, check_settings, prepare
from weft.synthesizer.shown import as_text

if TYPE_CHECKING:
    import pyarrow as pa

JOURNAL = "weft.ledger.jsonl"
"""Where a run writes down its charges unless told otherwise: in the working directory."""


class Synthesizer:
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
        self.wanted: dict[str, Any] = {}  # what a command was to write, for its checkpoint
        self.trust_data_for_schema = trust_data_for_schema
        self.discover = discover
        self.seed = seed
        self.noise_seed = noise_seed
        self.dialect = dialect
        self.options = named_options(options)
        check_settings({name: getattr(self, name) for name in _settings()}, self.options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name, as scikit-learn's estimators do."""
        return {name: getattr(self, name) for name in _settings()} | self.options

    def set_params(self, **params: Any) -> Self:
        """Change settings by name, all or none; MethodError for what is no setting, and no option of the method."""
        settings = {name: value for name, value in params.items() if name in _settings()}
        options = named_options(self.options | {k: value for k, value in params.items() if k not in settings})
        check_settings({name: getattr(self, name) for name in _settings()} | settings, options)
        for name, value in settings.items():
            setattr(self, name, value)
        self.options = options
        return self

    def __repr__(self) -> str:
        return as_text(self.get_params(), type(self).__init__, getattr(self, "fitted_", None))

    def _repr_html_(self) -> str:
        """Show a fitted synthesizer in a notebook: its guarantee, and what was asked."""
        return said(self) + (self.ledger_._repr_html_() if hasattr(self, "fitted_") else "")

    @held_snapshots()
    def fit(
        self,
        data: Any,
        schema: Schema | str | PathLike[str] | None = None,
        *,
        unit: str | Literal[False] | None = None,
        rows_per_unit: int = ROWS_PER_UNIT,
        listener: Listener = silence,
        release: Release | None = None,
    ) -> Self:
        """Learn a model of the table within the budget.

        `data` is a data frame (anything with the Arrow stream interface), a path, or an address of a database's table.
        What the schema does not state is found privately (`discover`); without one, that is everything, and `unit`
        names the column that tells whose row it is, of whom at most `rows_per_unit` rows are used; `unit=False`: one
        each. All that can be refused is refused before the first charge. `release` replaces the mechanisms, for audits.
        """
        asked = Asked(data, schema, unit, rows_per_unit)
        run = self._prepare(asked, release, listener)
        seed = secrets.randbits(64) if self.seed is None else self.seed
        schema, rng = run.schema, np.random.default_rng(seed)
        opened = None if run.search is not None else self._open(run, schema)
        public = None if opened is None else open_public(self, run, opened)
        with self._books(run) as ledger:
            run, self.checkpoint_ = recorded(self, run, asked, ledger, seed)
            whole = 1.0
            if run.search is not None:
                self.discovered_, whole = run.search.run(ledger, run.release)
                schema = self.discovered_.schema
                opened = self._open(run, schema)
            assert opened is not None
            curator = Curator(opened.engine, ledger, run.release, whole, run.table.room.cells, public)
            chosen, arrangement = run.recipe.compiled(opened.codec)
            coarse = coarse_domain(arrangement.domain(opened.codec.domain), arrangement.bins)
            stand_in = partial(Rehearsal, opened.engine, ledger, run.release, coarse, whole, public)
            several = schema.rows_per_unit > 1
            model, people = learn(chosen, curator, several, stand_in, rng, listener, arrangement)
            options = plain(self.options) | run.recipe.kept
            if public is not None:
                options["public"] = source_name(self.options["public"])
            # A pattern of what is missing is no attribute of the table: what was measured of it shows in the ledger.
            domain = opened.codec.domain
            measured = tuple(m for m in curator.measured if all(name in domain for name in m.clique))
            released = tuple(held for held in curator.released if held.fits(domain))
            kept = (measured, _people(people, schema), released)
            self.fitted_ = Fitted(run.recipe.name, options, schema, opened.codec, model, ledger, *kept)
            self._frame = frame_maker(run.table.source, schema)
        return self

    @held_snapshots()
    def find_schema(
        self,
        data: Any,
        schema: Schema | str | PathLike[str] | None = None,
        *,
        unit: str | Literal[False] | None = None,
        rows_per_unit: int = ROWS_PER_UNIT,
        listener: Listener = silence,
        release: Release | None = None,
    ) -> Schema:
        """Spend the whole budget on finding privately what a schema does not state, and learn nothing else.

        The schema that comes back says what it cost. Later runs use it at no further cost; their own adds to it.
        """
        run = self._prepare(Asked(data, schema, unit, rows_per_unit), release, listener)
        if run.search is None:
            return run.schema
        with self._books(run) as ledger:
            self.discovered_, _ = replace(run.search, share=1.0).run(ledger, run.release)
        return with_cost(self.discovered_)

    def _prepare(self, asked: Asked, release: Release | None, listener: Listener) -> Run:
        """Refuse whatever can be refused before a row is counted."""
        seeded = None if self.noise_seed is None else Noise.seeded(self.noise_seed)
        return prepare(self, asked, release or Mechanisms(seeded), listener)

    def _open(self, run: Run, schema: Schema) -> Opened:
        listener = run.table.listener
        with stage(listener, "read"):
            opened = run.table.open(schema)
        run.recipe.compiled(opened.codec)  # whatever does not fit the columns is refused here
        return opened

    def _books(self, run: Run) -> AbstractContextManager[Ledger]:
        source = run.table.source
        return open_books(
            run.terms,
            run.lifetime,
            journal=None if self.journal is None else Path(self.journal),
            stamps=run.stamps,
            facts={"source": source_name(source), "fingerprint": fingerprint(source), "method": run.recipe.name}
            | ({"public": source_name(self.options["public"])} if self.options.get("public") else {}),
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
        listener: Listener = silence,
    ) -> Any:
        """Make a synthetic table of n rows (default: as many as the noisy total says).

        The result is a data frame of the kind that `fit` was given, else a pyarrow Table, with the input's column
        names, order and types. Sampling costs no budget, however often it is done.

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
        listener: Listener = silence,
    ) -> Iterator[pa.Table]:
        """Make the same rows as `sample`, block by block, as pyarrow Tables: for tables larger than memory."""
        fitted = self._fitted()
        rows = default_rows(fitted) if n is None else n
        if rows < 0:
            raise WeftError(f"cannot make {rows} rows: ask for 0 or more")
        rng = np.random.default_rng(seed)
        if where is not None:
            asked = Conditioned(fitted, where)
            yield from asked.among(rows, rng, listener) if n is None else asked.tables(rows, rng, listener)
            return
        start, most = 0, Room.of(self.memory).rows_at_once(len(fitted.schema.columns), BLOCK_ROWS)
        while True:
            block = min(most, rows - start)
            records = fitted.model.sample(block, rng, listener)
            yield fitted.rows(records, rng, start)
            start += block
            if start >= rows:
                return

    def plan(self, schema: Schema | str | PathLike[str], rows: int, *, target_error: float | None = None) -> Any:
        """Return a `weft.planning.Plan`: what to expect of a table of so many rows; only the schema is looked at."""
        budget = self.budget or Budget(epsilon=self.epsilon, delta=self.delta)
        settings = {"method": self.method, "neighbours": self.neighbours, "options": self.options}
        plan = import_module("weft.planning").plan
        return plan(schema, rows, budget.epsilon, budget.delta, target_error=target_error, **settings)

    def query(self, *columns: str, where: Where | None = None, bins: int = MOST_BINS) -> Counts:
        """Count rows by some columns, with standard errors: from the released tables where they tell, else the model.

        The result can be looped over, or taken as a table (`.table`); `.meaning` says what its ranges cover. `where` is
        as in `sample`; columns with many ordered values are counted in at most so many bins. It costs no budget.
        """
        return ask(self._fitted(), columns, where, bins)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, its schema and its ledger to one file."""
        modelfile.save(self._fitted(), Path(path))

    def _fitted(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise WeftError("this synthesizer has learned nothing yet: call fit(data, schema) first")
        return self.fitted_


def _settings() -> list[str]:
    """Return the names of the settings that every method has."""
    return list(inspect.signature(Synthesizer.__init__).parameters)[1:-1]


def load(path: str | PathLike[str]) -> Synthesizer:
    """Read a saved model; the result can sample, save and show its ledger."""
    fitted = modelfile.load(Path(path))
    budget = fitted.ledger.budget
    synthesizer = Synthesizer(
        method=fitted.method, budget=budget, neighbours=fitted.ledger.adjacency.relation, **fitted.options
    )
    synthesizer.fitted_ = fitted
    return synthesizer


def _people(noisy: Any, schema: Schema) -> People | None:
    return None if noisy is None else People.of(noisy, schema.per_unit)
