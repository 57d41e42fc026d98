"""Rules over families: public facts about a parent and its children, which hold in every released family.

A rule either limits the roles of children (`exactly_one`, `at_most_one`), or defines a column: the position of a child
(`number`), or a function of the children (`count`, `any`, `sum`) in their parent. Defined columns are computed, never
measured. `within` keeps dates of a child between two dates of its parent. In tables with a time column, `increasing`
excludes equal times, `nondecreasing` keeps a column from falling, `advances` adds the years (or the steps of a time
that is a number) since a person's first row, as for an age, and `final` rows have no row after them. None of them
reads a private row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import SchemaError
from weft.schema.kinds.kind import suggest_known_word
from weft.schema.rules import plain_readers
from weft.schema.rules.conditions import Conditions, entry_of, format_conditions, read_conditions

if TYPE_CHECKING:
    from weft.schema.database import Database, RelatedTable

KEYS = {
    "exactly_one": ("where",),
    "at_most_one": ("where",),
    "number": (),
    "count": ("column", "where", "max"),
    "any": ("column", "where", "values"),
    "sum": ("column",),
    "within": ("after", "before"),
    "increasing": (),
    "nondecreasing": (),
    "advances": (),
    "final": ("where",),
}
"""The kinds of rules, by the key that identifies each in a schema file, and their further keys."""


@dataclass(frozen=True)
class FamilyRule:
    """One rule over the families of a link."""

    kind: str
    child: str
    """The child table."""
    column: str | None = None
    """The column of the child that is numbered, summed or kept within dates."""
    target: str | None = None
    """The column of the parent that the rule defines."""
    where: Conditions = ()
    """Conditions on the children that count."""
    largest: int | None = None
    """Largest count; larger families have this value (4 stands for "4 or more")."""
    values: tuple[Any, ...] = (False, True)
    """Values of `any`: no child meets the conditions, or at least one does."""
    bounds: tuple[str | None, str | None] = (None, None)
    """Columns of the parent with the first and the last date of `within`."""

    def __str__(self) -> str:
        told = f" with {format_conditions(self.where)}" if self.where else ""
        most = f", at most {self.largest}" if self.largest is not None else ""
        column = f"{self.child}.{self.column}"
        shown = {
            "increasing": f"{column} differs between the rows of a family",
            "nondecreasing": f"{column} never decreases in time",
            "advances": f"{column} advances with time",
            "final": f"no row of {self.child} after one{told}",
            "number": f"{column} numbers the rows of a family",
            "within": f"{column} lies within {' and '.join(end for end in self.bounds if end)} of its parent",
            "sum": f"{self.target} = sum of {column}",
        } | dict.fromkeys(("exactly_one", "at_most_one"), f"{self.kind.replace('_', ' ')} row of {self.child}{told}")
        return shown.get(self.kind, f"{self.target} = {self.kind} of {self.child}{told}{most}")

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as a table of a schema file."""
        named = self.child if self.column is None else f"{self.child}.{self.column}"
        made: dict[str, Any] = {self.kind: named}
        if self.target is not None:
            made["column"] = self.target
        if self.where:
            made["where"] = entry_of(self.where)
        if self.largest is not None:
            made["max"] = self.largest
        if self.kind == "any":
            made["values"] = list(self.values)
        return made | {key: end for key, end in zip(("after", "before"), self.bounds, strict=True) if end}


_COLUMNS_IN_TIME = ("increasing", "nondecreasing", "advances")


def read_family_rules(entries: Any, database: Database) -> tuple[FamilyRule, ...]:
    """Make the rules of a schema file; SchemaError if one does not fit the tables."""
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise SchemaError("family_rules must be tables, each with the header [[family_rules]]")
    made: list[FamilyRule] = []
    for number, entry in enumerate(entries, 1):
        try:
            made.append(_read_rule(entry, database))
        except SchemaError as error:
            raise SchemaError(f"family rule {number}: {error}") from None
    defined = [(rule.child if rule.kind == "number" else "", defined_column(rule)) for rule in made]
    for place, pair in enumerate(defined):
        if pair[1] is not None and pair in defined[:place]:
            raise SchemaError(f"family rule {place + 1}: another rule defines {pair[1]} already; leave one out")
    _check_roles(made, database)
    return tuple(made)


def _check_roles(rules: list[FamilyRule], database: Database) -> None:
    """Refuse roles of a table on several columns, which one row could combine, and more roles than rows."""
    for child in {rule.child for rule in rules}:
        roles = [rule for rule in rules if rule.child == child and rule.kind in ("exactly_one", "at_most_one")]
        if len({tuple(name for name, _ in rule.where) for rule in roles}) > 1:
            raise SchemaError(f'the roles of "{child}" must be values of one column: state where with the same column')
        if sum(rule.kind == "exactly_one" for rule in roles) > database.table(child).max_children:
            raise SchemaError(f'exactly_one: "{child}" has more such roles than max_children allows; raise it')


def defined_column(rule: FamilyRule) -> str | None:
    """Return the column that a rule computes; None if it computes none."""
    return rule.column if rule.kind == "number" else rule.target


def _read_rule(entry: Mapping[str, Any], database: Database) -> FamilyRule:
    kinds = [key for key in entry if key in KEYS]
    if len(kinds) != 1:
        raise SchemaError(f"expected exactly one of {', '.join(KEYS)}")
    (kind,) = kinds
    for key in entry:
        if key not in (kind, *KEYS[kind]):
            raise SchemaError(f'unknown key "{key}".{suggest_known_word(key, KEYS[kind])}')
    child, column = _split_name(entry[kind], kind, with_column=kind in ("number", "sum", "within", *_COLUMNS_IN_TIME))
    table = database.table(child)
    if table.parent is None:
        raise SchemaError(f'{kind}: "{child}" is no child table; name a table with foreign_keys')
    if column is not None:
        table.schema.column(column)
    where: Conditions = ()
    if "where" in entry:
        where = read_conditions(entry["where"], plain_readers(table.schema.columns), "where")
    elif kind in ("exactly_one", "at_most_one", "any", "final"):
        raise SchemaError(f"{kind} needs conditions: where = {{role = 1}}")
    _check_time(kind, table, column)
    parent = database.table(table.parent)
    target = _read_target(entry, kind, parent) if "column" in KEYS[kind] else None
    largest = entry.get("max")
    if largest is not None and (not isinstance(largest, int) or isinstance(largest, bool) or largest < 1):
        raise SchemaError("max must be a whole number of at least 1")
    values = tuple(entry.get("values", (False, True)))
    if len(values) != 2:
        raise SchemaError("values must be two: for no such row, and for at least one")
    ends = (entry.get("after"), entry.get("before"))
    if kind == "within":
        _check_bounds(ends, parent.schema, table.schema.column(str(column)))
        if column in table.schema.entangled:  # its dates are moved after what depends on them was made
            raise SchemaError(
                f'within: column "{column}" also has rules, differences or formulas: leave out one of them'
            )
    return FamilyRule(kind, child, column, target, where, largest, values, ends)


def _check_time(kind: str, table: RelatedTable, column: str | None) -> None:
    """Refuse a rule in time for a table without a time column, or for the wrong column."""
    if kind in (*_COLUMNS_IN_TIME, "final") and table.time is None:
        raise SchemaError(f'{kind}: "{table.name}" has no time column; set time = "COLUMN" in [tables.{table.name}]')
    if kind == "advances" and getattr(table.schema.column(str(column)), "step", 1) != 1:
        raise SchemaError(f"advances: {table.name}.{column} has a step, which years do not keep; leave step out")
    if kind in _COLUMNS_IN_TIME and (kind == "increasing") != (column == table.time):
        told = f"increasing is for the time column {table.name}.{table.time}"
        raise SchemaError(f"{told}; nondecreasing and advances are for others")


def _read_target(entry: Mapping[str, Any], kind: str, parent: RelatedTable) -> str:
    """Return the column of the parent that a rule computes."""
    target = entry.get("column")
    if not isinstance(target, str) or target not in parent.schema:
        raise SchemaError(f'{kind} needs a column of the parent table "{parent.name}": column = "size"')
    if target == parent.key or any(link.column == target for link in parent.links):
        raise SchemaError(f'column "{target}" is a key and cannot be computed')
    return target


def _check_bounds(ends: tuple[Any, Any], parent: Any, column: Any) -> None:
    if not any(ends):
        raise SchemaError("within needs after, before or both: columns of the parent")
    for end in ends:
        if end is not None:
            other = parent.column(end)
            if other.kind != column.kind or other.text_format != column.text_format:
                raise SchemaError(f'columns "{column.name}" and "{end}" need the same kind and format')


def _split_name(given: Any, kind: str, with_column: bool) -> tuple[str, str | None]:
    if not isinstance(given, str) or not given:
        raise SchemaError(f'{kind} must name a table: {kind} = "persons"')
    if not with_column:
        return given, None
    table, dot, column = given.partition(".")
    if not dot or not column:
        raise SchemaError(f'{kind} must name a table and a column: {kind} = "persons.age"')
    return table, column
