"""A discovery from its beginning: what is stated, who is protected, what may be spent, all checked before a charge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from weft.curator import PrivateTable
from weft.discovery.discover import Discovered, Doors, discover, needs_slack
from weft.errors import BudgetError, DataError, SchemaError
from weft.privacy import Accounting, Budget, Ledger
from weft.privacy.guarantee import epsilon_of
from weft.privacy.mechanisms import Release
from weft.reading.dialect import PLAIN, Dialect
from weft.reading.stream import STDIN
from weft.schema import Schema
from weft.schema.kinds import Id, Unknown

SHARE = 0.1
"""Share of the budget that discovery gets by default."""

PART_OF_DELTA = 0.25
"""Part of delta that pays for lists of values."""

PART_OF_LIFETIME = 0.2
"""Part of what a lifetime budget has left for such lists that one discovery may take."""

LEAST_SLACK = 1e-200
"""Below this, chances are no longer told apart from nothing."""

ROWS_PER_UNIT = 5
"""Rows of a person that are used, where nobody has said how many: chosen without looking."""


def stated(
    table: PrivateTable,
    schema: Schema | None,
    unit: str | Literal[False] | None,
    rows_per_unit: int,
) -> Schema:
    """Return what is stated of a table: the schema, with columns of which nothing is known where it asks for them."""
    named = table.source if isinstance(table.source, list | tuple) else [table.source]
    once = any(isinstance(each, str) and each == STDIN for each in named)
    if once and (schema is None or schema.incomplete):
        raise DataError(
            "standard input can be read once, and finding out about columns reads a table several times: save it to a "
            "file, or give a schema that states everything"
        )
    if schema is not None:
        if unit not in (None, False, schema.unit):
            raise SchemaError("the schema says whose rows are protected: set unit there, or leave the schema out")
        if schema.extra_columns != "discover":
            return schema
        names = [name for name in table.columns().names if name and name not in schema]
        return replace(schema, columns=(*schema.columns, *(Unknown(name) for name in names)))
    names = table.columns().names
    if not any(names):
        raise SchemaError(
            "the table does not name its columns before its rows, as JSON lines do not: name them in a schema, those "
            'that are to be found out about with kind = "unknown"'
        )
    if unit:
        if unit not in names:
            raise SchemaError(f'the table has no column "{unit}" to tell whose row it is')
        columns = tuple(Id(name, "{}") if name == unit else Unknown(name) for name in names if name)
        return Schema(columns, unit=unit, rows_per_unit=rows_per_unit)
    if unit is None and (likely := table.possible_units(names)):
        told = " or ".join(f'"{name}"' for name in likely)
        raise WhoError(f"{told} comes back in several rows, so that one person may have several of them", likely)
    extra: Literal["refuse", "ignore"] = "refuse" if all(names) else "ignore"  # a column without a name is nobody's
    return Schema(tuple(Unknown(name) for name in names if name), extra_columns=extra)


def possible_units(source: Any, dialect: Dialect = PLAIN) -> list[str]:
    """Return the columns that may tell whose row it is, for the eyes of whoever runs the program."""
    table = PrivateTable(source, dialect=dialect)
    return table.possible_units(table.columns().names)


class WhoError(SchemaError):
    """Nobody has said whether a person may have several rows; `columns` may tell."""

    def __init__(self, why: str, columns: list[str]) -> None:
        super().__init__(
            f'{why}. Say who is protected: --unit "{columns[0]}" (unit="{columns[0]}" in Python), or, if every row is '
            "another person's, --one-row-per-person (unit=False)"
        )
        self.columns = columns


@dataclass(frozen=True)
class Search:
    """A discovery that may begin: everything that can be refused has been."""

    table: PrivateTable
    schema: Schema
    types: Mapping[str, pa.DataType]
    share: float
    slack: float

    @classmethod
    def prepare(
        cls,
        table: PrivateTable,
        schema: Schema,
        share: float,
        budget: Budget,
        accounting: Accounting,
        most_slack: float = math.inf,
    ) -> Search | None:
        """Return the discovery that a schema needs, None if it states everything; BudgetError if it cannot be paid.

        `most_slack` is what a lifetime budget has left of its own; a discovery takes a part of it.
        """
        if not schema.unknown:
            return None
        names = [column.name for column in schema.unknown]
        if not share:
            raise SchemaError(
                f"{_listed(names)}: not everything is stated, and no share of the budget is there for finding it "
                "out. Complete the schema, or give --discover 0.1 (discover=0.1)"
            )
        types = {field.name: field.type for field in table.columns()}
        open_ = [column.name for column in schema.unknown if "kind" not in dict(column.stated)]
        if spans := [name for name in open_ if name in table.spans()]:
            raise BudgetError(
                f'column "{spans[0]}": lengths of time in a data frame are told from times of day by nobody but you; '
                'say kind = "duration" of it in a schema with extra_columns = "discover", and its range is found'
            )
        for name in names:
            if name not in types:
                raise SchemaError(f'column "{name}": the table has no such column. Remove it from the schema')
        slack = 0.0
        if needs_slack(schema, types):
            if accounting == "pure" or budget.unit != "epsilon" or budget.delta == 0:
                raise BudgetError(
                    "values of text columns can be found only with a budget in epsilon and a delta above 0: state "
                    "their values in a schema, or give such a budget"
                )
            slack = PART_OF_DELTA * budget.delta / (1 + math.exp(budget.epsilon or 0.0))
            slack = min(slack, PART_OF_LIFETIME * most_slack)
            if slack <= LEAST_SLACK:
                raise BudgetError(
                    "the lifetime budget has too little of its delta left for finding values of text columns: state "
                    "them in a schema"
                )
        return cls(table, schema, types, share, slack)

    def run(self, ledger: Ledger, release: Release) -> tuple[Discovered, float]:
        """Find out; return what was found, and the part of the budget that is left for learning.

        Whether lists of values are asked for follows from noisy answers, so the slack that they may need is set aside
        from the start, and stays so if they are not (`Ledger.set_aside`): nothing that is learned later may have it.
        """
        ledger.set_aside(self.slack)
        whole, cost = ledger.left / ledger.capacity, self._cost(ledger)
        doors = Doors(
            self.table.columns,
            partial(self.table.look, ledger=ledger, release=release, whole=whole),
            partial(self.table.values, ledger=ledger, release=release, whole=whole),
        )
        found = discover(self.schema, self.types, doors, self.share, self.slack, self.table.listener)
        return replace(found, cost=cost, stamps=ledger.stamps), ledger.left / ledger.capacity

    def _cost(self, ledger: Ledger) -> dict[str, float]:
        """Return what may be spent as an epsilon at the budget's delta: known before the first answer.

        What is spent in the end may be less, as noisy answers say; a guarantee stated for that afterwards would need
        an odometer's accounting (`Ledger.spend_statement`). Slack is paid from delta at the budget's epsilon, which is
        no smaller than what is stated here.
        """
        delta = ledger.budget.delta
        left = delta - self.slack * (1 + math.exp(min(ledger.budget.epsilon or 0.0, 700.0)))
        return {"epsilon": epsilon_of(ledger.accounting, self.share * ledger.left, left), "delta": delta}


def with_cost(found: Discovered) -> Schema:
    """Return a schema that says what finding it cost, and what finding parts of it in earlier runs did.

    Both together cost no more than the sum of their epsilons at the sum of their deltas.
    """
    before = found.schema.discovery or {"epsilon": 0.0, "delta": 0.0}
    return replace(found.schema, discovery={key: before[key] + found.cost[key] for key in ("epsilon", "delta")})


def _listed(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
