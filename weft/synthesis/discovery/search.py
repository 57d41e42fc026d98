"""Prepare and run discovery: validate the stated facts, the privacy unit and the budget before any charge."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from weft.curator import PrivateTable
from weft.errors import BudgetError, SchemaError, SourceError
from weft.io.byte_stream import STDIN
from weft.io.dialect import DEFAULT_DIALECT, Dialect
from weft.privacy import AccountingLike, Adjacency, Budget, Ledger, find_accounting
from weft.privacy.mechanisms import Release
from weft.privacy.partitions import find_release_threshold
from weft.schema import Schema
from weft.schema.kinds import Column, Id, Unknown
from weft.synthesis.discovery.discover import FIRST_LIST, KINDS, REPEATS, Discovery
from weft.synthesis.discovery.entries import Discovered, Doors, Settings
from weft.synthesis.discovery.probes import get_declared_kind, holds_text

SHARE = 0.1  # default share of the budget for discovery
PART_OF_DELTA = 0.25  # share of delta for lists of values
PART_OF_LIFETIME = 0.2  # share of the remaining discovery delta of a lifetime budget that one discovery may spend
MIN_DISCOVERY_SLACK = 1e-200  # smaller probabilities are treated as zero
MAX_ROWS_PER_UNIT = 64  # bound under which rows per person are counted, if no contribution bound is stated


def collect_stated_facts(
    table: PrivateTable, schema: Schema | None, unit: str | Literal[False] | None, rows_per_unit: int
) -> Schema:
    """Return the schema with an unknown column for each column left to discovery; `rows_per_unit` is for `unit`.

    The privacy unit is stated by the schema or by `unit`, never inferred from the rows. None means one row per person.
    """
    if schema is not None and schema.extra_columns != "discover" and unit not in (None, False, schema.unit):
        raise SchemaError("the schema states the privacy unit: set unit there, or omit the schema")
    if schema is not None and schema.unit is not None and unit not in (None, schema.unit):
        raise SchemaError("the schema states the privacy unit: omit the argument unit")
    _require_repeatable(table, schema)
    if schema is not None and schema.extra_columns != "discover":
        return schema
    names = table.column_names()
    if not any(names):
        raise SchemaError(
            "the table does not name its columns before its rows. Name them in a schema, those that are to be found "
            'with kind = "unknown"'
        )
    columns = () if schema is None else schema.columns
    known = {column.name for column in columns}
    new: list[Column] = [Unknown(name) for name in names if name and name not in known]
    extra: Literal["refuse", "ignore"] = "refuse" if all(names) else "ignore"  # columns without a name are not read
    made = (
        Schema((*columns, *new), extra_columns=extra) if schema is None else replace(schema, columns=(*columns, *new))
    )
    if not unit or made.unit is not None:
        return made
    if unit not in names:
        raise SchemaError(f'the table has no column "{unit}", which unit names as the privacy unit')
    persons = tuple(Id(unit, "{}") if column.name == unit else column for column in made.columns)
    return replace(made, columns=persons, unit=unit, rows_per_unit=rows_per_unit)


def _require_repeatable(table: PrivateTable, schema: Schema | None) -> None:
    named = table.source if isinstance(table.source, list | tuple) else [table.source]
    once = any(isinstance(each, str) and each == STDIN for each in named)
    if once and (schema is None or schema.incomplete):
        raise SourceError(
            "standard input can be read only once, but discovery reads a table several times: save it to a file, or "
            "pass a schema that states everything"
        )


def states_person(schema: Schema | None) -> bool:
    """Return whether a schema states the privacy unit: by `unit`, or by describing all columns without one."""
    return schema is not None and (schema.unit is not None or schema.extra_columns != "discover")


def possible_units(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> list[str]:
    """Return columns that may identify a person. PRIVATE: read from the rows, as a hint for the data owner only."""
    table = PrivateTable(source, dialect=dialect)
    return table.possible_units(table.column_names())


@dataclass(frozen=True)
class Search:
    """A validated discovery."""

    table: PrivateTable
    schema: Schema
    types: Mapping[str, pa.DataType]
    share: float
    slack: float
    chooses_bound: bool = False
    """Whether the contribution bound is not stated, and chosen from the noisy distribution of rows per person."""
    time: str | None = None
    """Column that orders the rows in time."""

    @classmethod
    def prepare(
        cls,
        table: PrivateTable,
        schema: Schema,
        share: float,
        budget: Budget,
        accounting: AccountingLike,
        most_slack: float = math.inf,
    ) -> Search | None:
        """Return the discovery for a schema; None if it states everything. Raise BudgetError if it cannot be paid.

        `most_slack` is the remaining slack of a lifetime budget; a discovery may spend a share of it.
        """
        if not schema.unknown:
            return None
        names = [column.name for column in schema.unknown]
        if not share:
            raise SchemaError(
                f"{_list_some_names(names)}: the schema does not state everything, and discovery is disabled. Complete "
                "the schema, or pass --discover 0.1 (discover=0.1)"
            )
        types = {field.name: field.type for field in table.columns()}
        # A single row may have determined the unit (days, seconds, nanoseconds): use one type for all.
        kinds = {name: str(get_declared_kind(each)["kind"]) for name, each in table.ambiguous_types().items()}
        types |= {n: _FRAME_TYPES[kind] for n, kind in kinds.items() if n in types and kind in _FRAME_TYPES}
        _require_stated_kinds(kinds, {c.name: str(dict(c.stated).get("kind", "")) for c in schema.unknown})
        for name in names:
            if name not in types:
                raise SchemaError(f'column "{name}": the table has no such column. Remove it from the schema')
        slack = 0.0
        if any(holds_text(types[column.name]) for column in schema.unknown):  # listing values is charged to delta
            if find_accounting(accounting).is_pure or budget.unit != "epsilon" or budget.delta == 0:
                raise BudgetError(
                    "discovery of text values requires a budget in epsilon with delta above 0: state the values in a "
                    "schema, or pass such a budget"
                )
            slack = PART_OF_DELTA * budget.delta / (1 + math.exp(budget.epsilon or 0.0))
            slack = min(slack, PART_OF_LIFETIME * most_slack)
            if slack <= MIN_DISCOVERY_SLACK:
                raise BudgetError(
                    "the lifetime budget has too little delta left for discovery of text values: state the values in "
                    "a schema"
                )
        return cls(table, schema, types, share, slack)

    def run(self, ledger: Ledger, release: Release) -> tuple[Discovered, float]:
        """Run the discovery; return the result, and the share of the budget that is left for fitting.

        Privacy: whether values are listed depends on noisy answers. The slack for them is therefore reserved from the
        start, and stays reserved if it is not needed (`Ledger.set_aside`): no later step may spend it.
        """
        ledger.set_aside(self.slack)
        cost = self._cost(ledger)
        found = Discovery(self.schema, self.types, *self._terms(ledger, release)).run()
        return replace(found, cost=cost, stamps=ledger.stamps), ledger.left / ledger.capacity

    def check(self, ledger: Ledger, release: Release) -> None:
        """Open the table with everything that may refuse its rows; nothing is charged."""
        Discovery(self.schema, self.types, *self._terms(ledger, release)).open_whole()

    def _terms(self, ledger: Ledger, release: Release) -> tuple[Doors, Settings]:
        whole = ledger.left / ledger.capacity
        doors = Doors(
            self.table.columns,
            partial(self.table.look, ledger=ledger, release=release, whole=whole),
            partial(self.table.values, ledger=ledger, release=release, whole=whole),
        )
        return doors, Settings(self.share, self.slack, self.table.listener, self.chooses_bound, self.time)

    def _cost(self, ledger: Ledger) -> dict[str, float]:
        """Return the maximum cost as an epsilon at the budget's delta, known before the first answer.

        Privacy: the actual cost may be lower, depending on noisy answers; a guarantee stated for it afterwards would
        need a privacy odometer (`Ledger.spend_statement`). Slack is paid from delta at the budget's epsilon, which is
        no smaller than the epsilon stated here.
        """
        delta = ledger.budget.delta
        left = delta - self.slack * (1 + math.exp(min(ledger.budget.epsilon or 0.0, 700.0)))
        return {"epsilon": ledger.accounting.find_epsilon(self.share * ledger.left, left), "delta": delta}


_FRAME_TYPES = {"datetime": pa.timestamp("us"), "duration": pa.duration("us")}


def _require_stated_kinds(every: Mapping[str, str], stated: Mapping[str, str]) -> None:
    """Refuse data frame columns of dates, times or booleans whose kind is not stated.

    Privacy: a frame does not record how such values were written. If one row is not a date, the library keeps all rows
    as text; without a stated kind, that row would decide how all others are read.
    """
    kinds = {name: kind for name, kind in every.items() if name in stated and stated[name] != kind}
    if not kinds:
        return
    error = SchemaError(
        f"{_list_some_names(list(kinds))}: a data frame does not record how dates, times and booleans were written. "
        f"State the kinds of these columns, fit(frame, {json.dumps(kinds, ensure_ascii=False)}, unit=...), and leave "
        "the rest to discovery; or pass the path of the file; or read them as text (dtype=str)"
    )
    error.private = True  # a single row may have determined the type
    raise error


def with_cost(found: Discovered) -> Schema:
    """Return the schema with its total discovery cost, including that of earlier runs.

    Privacy: by basic composition, the total is at most the sum of the epsilons at the sum of the deltas.
    """
    before = found.schema.discovery or {"epsilon": 0.0, "delta": 0.0}
    return replace(found.schema, discovery={key: before[key] + found.cost[key] for key in ("epsilon", "delta")})


def _list_some_names(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


COMMON_SHARE = 0.5  # a value with this share of the rows must be found, or the release would be almost empty


def rows_needed(columns: int, budget: Budget, adjacency: Adjacency, share: float) -> int:
    """Return the minimum number of rows at which a value with half of the rows is listed; no row is read.

    With fewer rows, text columns contain only "other". All columns are assumed to be text, the most demanding case.

    >>> rows_needed(15, Budget(epsilon=1.0, delta=1e-5), Adjacency("add-remove", 1), 0.1) > 100
    True
    """
    rho = share * budget.capacity("gaussian") * (1 - KINDS - REPEATS) * FIRST_LIST / columns
    sigma = adjacency.marginal_l2() / math.sqrt(2 * rho)
    slack = PART_OF_DELTA * budget.delta / (1 + math.exp(budget.epsilon or 0.0)) / 2 / columns
    return math.ceil(find_release_threshold(slack, sigma, adjacency.rows_per_unit) / COMMON_SHARE)
