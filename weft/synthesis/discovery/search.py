"""A discovery from its beginning: what is stated, who is protected, what may be spent, all checked before a charge."""

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
from weft.synthesis.discovery.discover import FIRST_LIST, KINDS, REPEATS, discover, needs_slack
from weft.synthesis.discovery.entries import Discovered, Doors
from weft.synthesis.discovery.probes import get_declared_kind

SHARE = 0.1
"""Share of the budget that discovery gets by default."""

PART_OF_DELTA = 0.25
"""Part of delta that pays for lists of values."""

PART_OF_LIFETIME = 0.2
"""Part of what a lifetime budget has left for such lists that one discovery may take."""

MIN_DISCOVERY_SLACK = 1e-200
"""Below this, chances are no longer told apart from nothing."""

ROWS_PER_UNIT = 5
"""Rows of a person that are used, where nobody has said how many: chosen without looking."""


def collect_stated_facts(
    table: PrivateTable,
    schema: Schema | None,
    unit: str | Literal[False] | None,
    rows_per_unit: int,
) -> Schema:
    """Return what is stated of a table: the schema, with columns of which nothing is known where it asks for them.

    Who is protected is stated by the schema or by `unit`, never found in the rows: None is one row per person.
    """
    if schema is not None and schema.extra_columns != "discover" and unit not in (None, False, schema.unit):
        raise SchemaError("the schema states who is protected: set unit there, or leave the schema out")
    if schema is not None and schema.unit is not None and unit not in (None, schema.unit):
        raise SchemaError("the schema states who is protected: leave unit out")
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
    extra: Literal["refuse", "ignore"] = "refuse" if all(names) else "ignore"  # a column without a name is not read
    made = (
        Schema((*columns, *new), extra_columns=extra) if schema is None else replace(schema, columns=(*columns, *new))
    )
    if not unit or made.unit is not None:
        return made
    if unit not in names:
        raise SchemaError(f'the table has no column "{unit}", which unit names to identify the person')
    persons = tuple(Id(unit, "{}") if column.name == unit else column for column in made.columns)
    return replace(made, columns=persons, unit=unit, rows_per_unit=rows_per_unit)


def _require_repeatable(table: PrivateTable, schema: Schema | None) -> None:
    named = table.source if isinstance(table.source, list | tuple) else [table.source]
    once = any(isinstance(each, str) and each == STDIN for each in named)
    if once and (schema is None or schema.incomplete):
        raise SourceError(
            "standard input can be read once, and finding out about columns reads a table several times: save it to a "
            "file, or give a schema that states everything"
        )


def states_person(schema: Schema | None) -> bool:
    """Tell whether a schema states who is protected: by its unit, or by describing all columns without one."""
    return schema is not None and (schema.unit is not None or schema.extra_columns != "discover")


def possible_units(source: Any, dialect: Dialect = DEFAULT_DIALECT) -> list[str]:
    """Return the columns that may identify a person. PRIVATE: they are read from the rows, as a hint to the curator."""
    table = PrivateTable(source, dialect=dialect)
    return table.possible_units(table.column_names())


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
        accounting: AccountingLike,
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
                f"{_list_some_names(names)}: not everything is stated, and no share of the budget is there for "
                f"finding it "
                "out. Complete the schema, or give --discover 0.1 (discover=0.1)"
            )
        types = {field.name: field.type for field in table.columns()}
        # Whether days, seconds or nanoseconds, a single row may have decided: one type for all of them.
        types |= {n: _FRAME_TYPES[kind] for n, kind in _temporal_kinds(table).items() if n in types}
        _require_stated_kinds(table, {c.name: str(dict(c.stated).get("kind", "")) for c in schema.unknown})
        for name in names:
            if name not in types:
                raise SchemaError(f'column "{name}": the table has no such column. Remove it from the schema')
        slack = 0.0
        if needs_slack(schema, types):
            if find_accounting(accounting).is_pure or budget.unit != "epsilon" or budget.delta == 0:
                raise BudgetError(
                    "values of text columns can be found only with a budget in epsilon and a delta above 0: state "
                    "their values in a schema, or give such a budget"
                )
            slack = PART_OF_DELTA * budget.delta / (1 + math.exp(budget.epsilon or 0.0))
            slack = min(slack, PART_OF_LIFETIME * most_slack)
            if slack <= MIN_DISCOVERY_SLACK:
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
        return {"epsilon": ledger.accounting.find_epsilon(self.share * ledger.left, left), "delta": delta}


_FRAME_TYPES = {"datetime": pa.timestamp("us"), "duration": pa.duration("us")}


def _temporal_kinds(table: PrivateTable) -> dict[str, str]:
    kinds = {name: str(get_declared_kind(each)["kind"]) for name, each in table.ambiguous_types().items()}
    return {name: kind for name, kind in kinds.items() if kind in _FRAME_TYPES}


def _require_stated_kinds(table: PrivateTable, stated: Mapping[str, str]) -> None:
    """Refuse columns of a data frame that hold dates, times or truth values and whose kind is not stated.

    Nothing in a frame records how such values were written. Where one row is no date, its library leaves the text of
    all rows: without a stated kind, that row would decide how all others are read.
    """
    every = {name: str(get_declared_kind(each)["kind"]) for name, each in table.ambiguous_types().items()}
    kinds = {name: kind for name, kind in every.items() if name in stated and stated[name] != kind}
    if not kinds:
        return
    error = SchemaError(
        f"{_list_some_names(list(kinds))}: a data frame does not record how dates, times and truth values were "
        f"written. State "
        f"the kinds of these columns, fit(frame, {json.dumps(kinds, ensure_ascii=False)}, unit=...), and the rest is "
        "found privately; or give the path of the file; or read them as text (dtype=str)"
    )
    error.private = True  # a single row may have decided the type
    raise error


def with_cost(found: Discovered) -> Schema:
    """Return a schema that says what finding it cost, and what finding parts of it in earlier runs did.

    Both together cost no more than the sum of their epsilons at the sum of their deltas.
    """
    before = found.schema.discovery or {"epsilon": 0.0, "delta": 0.0}
    return replace(found.schema, discovery={key: before[key] + found.cost[key] for key in ("epsilon", "delta")})


def _list_some_names(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# How many rows discovery needs at a budget: public arithmetic, before anything is read or spent.

COMMON_SHARE = 0.5
"""Share of the rows that have a value which must be found, or the release would hold next to nothing."""


def rows_needed(columns: int, budget: Budget, adjacency: Adjacency, share: float) -> int:
    """Return the number of rows from which a value that half of them have is listed.

    Below it, columns of words come out as "other" alone. All columns are taken to be of words, the largest need.

    >>> rows_needed(15, Budget(epsilon=1.0, delta=1e-5), Adjacency("add-remove", 1), 0.1) > 100
    True
    """
    rho = share * budget.capacity("gaussian") * (1 - KINDS - REPEATS) * FIRST_LIST / columns
    sigma = adjacency.marginal_l2() / math.sqrt(2 * rho)
    slack = PART_OF_DELTA * budget.delta / (1 + math.exp(budget.epsilon or 0.0)) / 2 / columns
    return math.ceil(find_release_threshold(slack, sigma, adjacency.rows_per_unit) / COMMON_SHARE)
