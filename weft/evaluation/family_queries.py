"""Answer counting queries to a model of related tables: rows of a table, by its columns and those of tables above it.

The rows of a child table were measured with weights, so that all rows of a unit weigh the same together. The number of
rows is a sum of these counts over the sizes of families, each times the size: a linear function of released marginals,
whose noise is known (`pool_released_counts`). What was not measured together is estimated by the model. Tables below
the children of the root by their own columns, columns of further ancestors and computed columns are counted in sampled
families.

Privacy: post-processing of released measurements, at no further cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.display import format_count
from weft.encoding.condition_codes import select_condition_codes
from weft.errors import ConditionError, MethodError
from weft.evaluation.query_answers import DEFAULT_BINS, Question, by_values, check_answer_size
from weft.evaluation.query_counts import CodeBins, Counts, Shown, bins_of, view_column_codes
from weft.marginals.domain import Clique, make_clique
from weft.marginals.marginal import Array
from weft.marginals.pooling import complete_counts
from weft.schema.kinds.kind import Column, suggest_known_word
from weft.schema.rules.conditions import Conditions, Where, read_where
from weft.synthesis.database_model import ROWS, FittedDatabase, SizeWeights

MIN_COUNTED_UNITS, MAX_COUNTED_UNITS = 2_000, 20_000
"""Numbers of families that are sampled and counted: that of the private table, within these limits."""


def answer_family_query(
    related: FittedDatabase,
    columns: Sequence[str],
    table: str | None = None,
    where: Where | None = None,
    bins: int = DEFAULT_BINS,
) -> Counts:
    """Count the rows of a table (default: the root) by columns of it and of tables above it, such as patients.sex."""
    database = related.database
    if related.joined and table is not None:
        raise MethodError("table names one of several related tables, but this model is of one: leave it out")
    name = table or (ROWS if related.joined else database.root)
    if name not in related.codecs:
        near = suggest_known_word(name, related.codecs) or f" Its tables are {', '.join(related.codecs)}."
        raise MethodError(f'the model has no private table "{name}".{near}')
    places, columns = _name_columns(related, name), [each.removeprefix(f"{name}.") for each in columns]
    readers = {n: related.codecs[owner].readers.get(column) for n, (owner, column) in places.items()}
    known = {n: reader for n, reader in readers.items() if reader is not None}
    conditions = () if where is None else read_where(where, known)
    owners = {places[n][0] for n in (*columns, *(n for n, _ in conditions)) if n in places}
    parent = database.table(name).parent
    # The counts of parents are less noisy than those of their children, and have the numbers of their children.
    base = parent if parent is not None and owners <= {parent, database.table(parent).parent} else name
    fitted = replace(related.view(base), released=complete_counts(related.released.get(base, ())))
    if not fitted.released:
        raise MethodError("the model file has no released measurements: fit the model again with this version")
    question = FamilyQuestion(fitted, tuple(columns), where, bins, related, name, base, places, conditions)
    found = question.measured() or question.expected() or question.counted()
    return found if related.joined else replace(found, counted=name)


def _name_columns(related: FittedDatabase, table: str) -> dict[str, tuple[str, str]]:
    """Return the table and the column of each name: those of the table itself also without its name."""
    made: dict[str, tuple[str, str]] = {}
    for each in (*reversed(related.database.path(table)), related.database.table(related.database.root)):
        own = {column.name: (each.name, column.name) for column in each.schema.columns}
        made = ({} if made and not related.joined else own) | made | {f"{each.name}.{n}": own[n] for n in own}
    return {n: place for n, place in made.items() if n in related.joined} if related.joined else made


@dataclass(frozen=True)
class FamilyQuestion(Question):
    """A counting query to a model of related tables; `fitted` is the model of the rows of `base`."""

    related: FittedDatabase
    table: str
    base: str
    places: Mapping[str, tuple[str, str]]
    """Table and column of each name that the query may use."""
    conditions: Conditions
    rows_above: float | None = None
    """Mean product of the family sizes above the family of a row, for tables below the children of the root."""

    def _find_column(self, name: str) -> Column:
        if name not in self.places:
            owners = ", ".join(dict.fromkeys(owner for owner, _ in self.places.values()))
            near = suggest_known_word(next((n for n in self.places if n.endswith(f".{name}")), name), self.places)
            below = [table.name for table in self.related.database.private if name.split(".")[-1] in table.schema]
            hint = near or (f" Pass --table {below[0]} (table=) to count its rows." if below else "")
            raise MethodError(f'rows of {self.table} cannot be counted by "{name}", but by columns of {owners}.{hint}')
        owner, column = self.places[name]
        modelled = self.related.codecs[owner].schema  # keys of public tables are values there
        return (modelled if column in modelled else self.related.database.table(owner).schema).column(column)

    @cached_property
    def _conditions(self) -> Conditions:
        return self.conditions

    @property
    def _random(self) -> list[str]:
        return []

    @cached_property
    def _weights(self) -> Mapping[str, SizeWeights] | None:
        return self.related.weigh_sizes(self.table, self.base, self.rows_above)

    def _name_attribute(self, owner: str, attribute: str) -> str | None:
        """Return the name of an attribute in the model of the base's rows; None if that model does not have it."""
        name = self.related.name_attribute_in_view(self.base, owner, attribute)
        return name if name in self.fitted.model.domain else None

    @cached_property
    def _shown(self) -> list[Shown] | None:
        made = []
        for owner, column in (self.places[name] for name in self.columns):
            found = view_column_codes(self.related.codecs[owner], column)
            name = None if found is None else self._name_attribute(owner, found.attribute)
            if found is None or name is None:
                return None
            made.append(replace(found, attribute=name))
        return made

    @cached_property
    def _allowed(self) -> Mapping[str, Array] | None:
        made: dict[str, Array] = {}
        for shown, condition in self._conditions:
            owner, column = self.places[shown]
            found = select_condition_codes(((column, condition),), self.related.codecs[owner])
            for attribute, met in (found or {"": np.ones(0, bool)}).items():
                name = self._name_attribute(owner, attribute)
                if name is None:
                    return None
                made[name] = made.get(name, np.ones(len(met), bool)) & met
                if not made[name].any():
                    raise ConditionError(f"no value of {shown} satisfies the conditions. Relax a condition")
        return made

    @property
    def _attributes(self) -> Clique | None:
        found = super()._attributes
        return None if found is None or self._weights is None else make_clique([*found, *self._weights])

    def _explain_measured(self) -> str:
        return (
            "Measured: these columns and the sizes of families were measured together, with noise, and the estimate "
            f"combines all released measurements of them. The range contains the exact number of {self._rows} in about "
            "95 of 100 cells."
        )

    def _explain_expected(self, records: int, missing: Sequence[Clique]) -> str:
        drawn = f", the sampling error of the {format_count(records, 'synthetic row')} that were counted" * bool(
            records
        )
        return (
            "From the model: these columns and the sizes of families were not all measured together. The range of the "
            f"number of {self._rows} covers the noise of their measurements{drawn} and relations as large as the noise "
            "of a pair of columns, but not larger errors of the model."
        )

    @property
    def _rows(self) -> str:
        return f"private rows of {self.table}" + (" within the contribution bounds" if self._above else "")

    @property
    def _above(self) -> str | None:
        return self.related.database.table(self.table).parent

    def _estimate_unmeasured_variance(self) -> float:
        """Return the noise that a pair of attributes has in rows: larger relations would have been measured."""
        pairs = [held.noisy.sigma for held in self.fitted.released if len(held.clique) == 2]
        variance = float(np.median(pairs or [held.noisy.sigma for held in self.fitted.released])) ** 2
        for sizes in (self._weights or {}).values():
            used = sizes.rows[(sizes.rows > 0) & (sizes.counts > 1e-6 * sizes.counts.sum())]
            variance *= max(float(((used - used.mean()) ** 2).sum()), float((used**2).mean()))
        return variance

    def counted(self) -> Counts:
        """Count the rows of sampled families, scaled to the noisy number of units."""
        related, root = self.related, self.related.database.root
        units = int(np.clip(related.total, MIN_COUNTED_UNITS, MAX_COUNTED_UNITS))
        tables = related.sample(units, np.random.default_rng(0))
        places = self._lead_up(tables)
        keep = np.ones(len(tables[self.table]), bool)
        for shown, condition in self._conditions:
            owner, column = self.places[shown]
            keep &= condition.holds(related.codecs[owner].block(tables[owner])[column])[places[owner]]
        bins = [self._bin_rows(*self.places[name], tables) for name in self.columns]
        shape = tuple(len(found.labels) for found in bins)
        check_answer_size(shape)
        owners = [places[self.places[name][0]][keep] for name in self.columns]
        codes = [found.codes[rows] for found, rows in zip(bins, owners, strict=True)]
        cell = np.ravel_multi_index(codes, shape) if codes else np.zeros(int(keep.sum()), np.int64)
        counts = np.bincount(cell, minlength=int(np.prod(shape))).astype(np.float64)
        same, rows = np.unique(cell * units + places[root][keep], return_counts=True)
        squares = np.bincount(same // units, rows.astype(np.float64) ** 2, len(counts))  # a family is drawn as a whole
        scale = related.total / units
        sampling = np.maximum(squares - counts**2 / units, 1.0) * scale**2
        noise = (self._estimate_size_error() * counts * scale) ** 2 + self._estimate_sampled_variance(
            tables, places[root]
        )
        meaning = (
            f"From {format_count(units, 'sampled family', 'sampled families')}, scaled to the noisy number of {root}, "
            "since the measurements do not determine this answer. The range of the number of "
            f"{self._rows} covers the sampling error, the noise of family sizes and relations as large as the noise of "
            "two pairs of columns, but not larger errors of the model."
        )
        error = np.sqrt(sampling + noise).reshape(shape)
        return self._counts(
            tuple(found.labels for found in bins), counts.reshape(shape) * scale, error, "rows", meaning
        )

    def _bin_rows(self, owner: str, column: str, tables: Mapping[str, pa.Table]) -> CodeBins:
        """Return the bin of each row of the table that owns a column."""
        codec = self.related.codecs[owner]
        shown = view_column_codes(codec, column)
        own = None if shown is None else bins_of(shown, np.arange(len(shown.values)), self.most)
        if shown is None or own is None:
            return by_values(tables[owner].column(column), self.most)
        return CodeBins(own.codes[codec.encode(tables[owner]).column(shown.attribute)], own.labels)

    def _estimate_size_error(self) -> float:
        """Return the relative error of the number of rows of the table, or of the table above it that is measured."""
        path = self.related.database.path(self.table)[:2]
        whole = answer_family_query(self.related, (), path[-1].name if path else None)
        return float(whole.standard_error / max(float(whole.estimate), 1.0))

    def _estimate_sampled_variance(self, tables: Mapping[str, pa.Table], units: Array) -> float:
        """Return the variance of two pairs of columns of the table: for what was measured of them, and what was not."""
        above = 1 if self._above is None else len(tables[self._above]) / max(len(np.unique(units)), 1)
        fitted = replace(self.fitted, released=self.related.released[self.table])
        own = replace(self, fitted=fitted, base=self.table, rows_above=max(above, 1.0))
        return 2 * FamilyQuestion._estimate_unmeasured_variance(own)

    def _lead_up(self, tables: Mapping[str, pa.Table]) -> dict[str, Array]:
        """Return, for each table above the table, the row that each of its rows leads to by the keys."""
        made = {self.table: np.arange(len(tables[self.table]))}
        for each in reversed(self.related.database.path(self.table)):
            own = tables[each.name].column(each.link.column).combine_chunks().cast(pa.string())
            keys = tables[each.link.table].column(each.link.key).combine_chunks().cast(pa.string())
            made[each.link.table] = pc.index_in(own, value_set=keys).to_numpy(zero_copy_only=False)[made[each.name]]
        return made
