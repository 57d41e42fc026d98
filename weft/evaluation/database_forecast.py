"""Forecast the errors of a release of related tables before budget is spent, from a schema and a number of units.

The rows of a unit weigh as much as one row in every table, so a table is forecast as a single table with one row per
unit, with its own attributes and those of its parent, and with the part of the budget that it gets. The error of tables
of siblings is that of their noise, if all pairs of attributes are measured. Errors are shares of this weight. No row is
read.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weft.errors import SchemaError, WeftError
from weft.evaluation.forecast_simulation import plain_codec, simulate_run
from weft.marginals.noise_error import compute_projected_error, group_cells_by_size
from weft.privacy import Adjacency, Budget, Relation, find_accounting
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.schema.database import Database, RelatedTable
from weft.schema.kinds import Id
from weft.synthesis.database_fit import PART_SCORES, limit_groups
from weft.synthesis.database_plan import choose_weave, read_database, share_budget
from weft.synthesis.fit_request import FitRequest


@dataclass(frozen=True)
class TableForecast:
    """Expected errors of one table, as shares of its weight that would have to change."""

    share: float
    """Share of the budget for its rows."""
    share_siblings: float
    columns: dict[str, float]
    """Error of each of its columns; references to public tables and computed columns are left out."""
    pairs: float
    """Mean error of pairs of attributes, of a row and of its parent."""
    siblings: float | None
    """Mean error of tables of two rows of a family, if all are measured; None without siblings."""

    @property
    def mean(self) -> float:
        """Mean error of the columns."""
        return float(np.mean(list(self.columns.values()))) if self.columns else 0.0


@dataclass(frozen=True)
class DatabaseForecast:
    """Expected errors of a release of related tables."""

    rows: int
    """Number of rows of the root."""
    budget: Budget
    tables: dict[str, TableForecast]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        tables = {name: asdict(each) | {"mean_error_of_columns": each.mean} for name, each in self.tables.items()}
        head = {"method": "weave", "rows": self.rows, "budget": self.budget.to_dict()}
        return head | {"tables": tables, "meaning": MEANING}


MEANING = (
    "An error is the share of a table that would have to change for an attribute, or a pair of attributes of a row, of "
    "a row and its parent, or of two siblings, to have the distribution of the private table; all rows of a unit "
    "weigh as much as one. Errors of siblings are those of the noise if all their tables are measured; weave measures "
    "the most informative ones. Only the schema was read: the method was run on simulated rows, and tables differ. "
    "Keys, references to public tables and computed columns are left out."
)


def forecast_database(
    schema: Any,
    rows: int,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    neighbours: Relation = "add-remove",
    listener: Listener = ignore_event,
) -> DatabaseForecast:
    """Forecast a release of related tables with `rows` rows of the root; no table is read."""
    database = read_database(schema)
    if not isinstance(rows, int) or rows < 1:
        raise WeftError("invalid number of rows: give the approximate number of rows of the root, at least 1")
    for table in database.incomplete:
        raise SchemaError(f'table "{table.name}": a plan requires a complete schema. Describe all of its columns')
    budget, method = choose_weave(FitRequest(source=None, epsilon=epsilon, delta=delta, neighbours=neighbours))
    capacity, shares, made = budget.capacity(method.accounting), share_budget(database), dict[str, TableForecast]()
    with report_stage(listener, "run on simulated rows", len(database.private)) as work:
        for table in database.private:
            share, pairs = shares[table.name, "rows"], shares.get((table.name, "siblings"), 0.0)
            part = (
                Budget(epsilon=share * capacity, delta=0) if delta == 0 else Budget(rho=share * capacity, delta=delta)
            )
            own, view = _list_columns(database, table), _describe_view(database, table)
            settings = {"method": "weave", "neighbours": neighbours}
            found = simulate_run(Schema.from_dict({"columns": view}), rows, part, settings)
            rho = find_accounting(method.accounting).find_gaussian_rho(pairs * capacity)
            sigma = Adjacency(neighbours, 1).marginal(find_accounting(method.accounting).counts.norm)
            siblings = _estimate_siblings(table, own, rows, sigma / math.sqrt(2 * rho)) if pairs else None
            errors = {name: found.columns[name] for name in own if name in found.columns}
            made[table.name] = TableForecast(share, pairs, errors, found.pairs, siblings)
            work.advance(note=table.name)
    return DatabaseForecast(rows, budget, made)


def _list_columns(database: Database, table: RelatedTable) -> dict[str, Any]:
    """Return the descriptions of the columns that are modelled; keys and computed columns are not."""
    defined = database.defined(table.name)
    columns = [c for c in table.schema.modelled if c.in_table and not isinstance(c, Id) and c.name not in defined]
    return {column.name: column.to_dict() for column in columns}


def _describe_view(database: Database, table: RelatedTable) -> dict[str, Any]:
    """Return the columns of a table, of its parent, and the numbers of children: what its model relates."""
    view = _list_columns(database, table)
    counted = list(database.children(table.name))
    if table.parent is not None:
        above = _list_columns(database, database.table(table.parent))
        view |= {f"{table.parent}: {name}": column for name, column in above.items()}
        counted.append(table)
    sizes = {f"number of {each.name}": {"kind": "integer", "range": [0, each.max_children]} for each in counted}
    return view | sizes


def _estimate_siblings(table: RelatedTable, columns: dict[str, Any], rows: int, sigma: float) -> float | None:
    """Return the mean error of all tables of two siblings, each with an equal part of the budget for them."""
    if not columns:
        return None
    sizes = np.array(plain_codec(Schema.from_dict({"columns": columns})).domain.shape)
    alone = sigma * math.sqrt(len(sizes) / (1 - PART_SCORES))
    groups = np.minimum(sizes, limit_groups(table, rows, alone))
    first, second = np.triu_indices(len(groups))
    shares = [1 / np.arange(1.0, size + 1) for size in groups]  # as unevenly distributed as in most tables
    tables = [np.outer(shares[a], shares[b]) for a, b in zip(first, second, strict=True)]
    each = np.array([sigma * math.sqrt(len(tables) / (1 - PART_SCORES))])
    errors = compute_projected_error(group_cells_by_size([rows * table / table.sum() for table in tables]), each)
    return float(np.mean(errors)) / (2 * rows)
