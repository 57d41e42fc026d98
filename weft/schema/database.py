"""Schema of related tables: keys, links, the root table that identifies the privacy unit, and contribution bounds.

Everything here is declared and public. A schema of several tables is validated as a whole before a row is read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.errors import ManySchemaError, SchemaError
from weft.schema.family_rules import FamilyRule, defined_column, read_family_rules
from weft.schema.kinds import ColumnError, Id, suggest_known_word
from weft.schema.rules import RuleError
from weft.schema.schema import Schema, read_schema_text
from weft.schema.schema_file import line_of, write_entry, write_key

MAX_CHILDREN = 1000
"""Largest contribution bound of a link."""

DEFAULT_MAX_CHILDREN = 8

OWN_KEYS = ("source", "key", "foreign_keys", "max_children", "time", "public", "schema", "from_data")
"""Keys of a table besides those of its columns and rules."""
_TABLE_KEYS = (*OWN_KEYS, "extra_columns", "columns", "rules", "groups", "lists")


class TableError(SchemaError):
    """A schema error with the table and key that it concerns."""

    def __init__(self, table: str, text: str, key: str | None = None, column: str | None = None) -> None:
        super().__init__(f'table "{table}": {text}')
        self.place = ("tables", table, *(("columns", column) if column else ()))
        self.key = key


@dataclass(frozen=True)
class Link:
    """A foreign key: rows of a table refer to rows of another by its key."""

    column: str
    table: str
    """The table that is referred to."""
    key: str
    """The key of that table."""

    def __str__(self) -> str:
        return f"{self.column} -> {self.table}.{self.key}"


@dataclass(frozen=True)
class RelatedTable:
    """One table of a database: its columns and rules, its keys, and the contribution bound of its link."""

    name: str
    schema: Schema
    key: str | None = None
    links: tuple[Link, ...] = ()
    max_children: int = DEFAULT_MAX_CHILDREN
    """Contribution bound: maximum rows of this table that are used for one row of its parent."""
    states_bound: bool = field(default=True, compare=False)
    """Whether the schema states it; if not, discovery chooses it for the children of the root."""
    time: str | None = None
    """Column that orders the rows of a family in the output."""
    public: bool = False
    """Whether the rows are public: copied to the output, and free to be referred to."""
    source: str | None = None
    """File or address of the table, relative to the folder of the schema; None: given when it is read."""
    from_data: tuple[str, ...] = ()
    """What a draft read from private rows, to be reviewed: `key`, `public`."""
    parent: str | None = None
    """The private table that the rows belong to; None for the root and for public tables."""

    @property
    def link(self) -> Link:
        """The foreign key to the parent."""
        return next(link for link in self.links if link.table == self.parent)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as a table of a schema file."""
        facts = {
            "source": self.source,
            "key": self.key,
            "time": self.time,
            "foreign_keys": {link.column: f"{link.table}.{link.key}" for link in self.links},
            "max_children": None if self.parent is None else self.max_children,
            "public": self.public,
            "from_data": list(self.from_data),
        }
        return {key: fact for key, fact in facts.items() if fact} | self.schema.to_dict()


@dataclass(frozen=True)
class Database:
    """Related tables with one root, whose key identifies the privacy unit.

    >>> schema = Database.from_toml('''
    ... root = "patients"
    ... [tables.patients]
    ... key = "id"
    ... columns.sex = {kind = "category", values = ["f", "m"]}
    ... [tables.stays]
    ... foreign_keys = {patient = "patients.id"}
    ... max_children = 5
    ... columns.days = {kind = "integer", range = [0, 60]}
    ... ''')
    >>> [table.name for table in schema.private], schema.rows_per_unit
    (['patients', 'stays'], 6)
    """

    tables: tuple[RelatedTable, ...]
    root: str
    rules: tuple[FamilyRule, ...] = ()
    source: str = field(default="", compare=False)
    """Origin of the schema, for error messages."""

    @cached_property
    def _by_name(self) -> dict[str, RelatedTable]:
        return {table.name: table for table in self.tables}

    def table(self, name: str) -> RelatedTable:
        """Return the table with this name."""
        if name not in self._by_name:
            raise SchemaError(f'there is no table "{name}".{suggest_known_word(name, self._by_name)}')
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def private(self) -> tuple[RelatedTable, ...]:
        """The private tables, each after its parent; the root is first."""
        made = [self.table(self.root)]
        for table in made:  # grows while it is read
            made += [child for child in self.tables if child.parent == table.name]
        return tuple(made)

    @property
    def public(self) -> tuple[RelatedTable, ...]:
        """The reference tables, whose rows are public."""
        return tuple(table for table in self.tables if table.public)

    def children(self, name: str) -> tuple[RelatedTable, ...]:
        """Return the child tables of a table."""
        return tuple(table for table in self.private if table.parent == name)

    def path(self, name: str) -> tuple[RelatedTable, ...]:
        """Return the tables from below the root down to this one."""
        table = self.table(name)
        return () if table.parent is None else (*self.path(table.parent), table)

    @property
    def rows_per_unit(self) -> int:
        """Maximum number of rows of a privacy unit in all private tables together."""
        most = {self.root: 1}
        for table in self.private[1:]:
            most[table.name] = most[str(table.parent)] * table.max_children
        return sum(most.values())

    @property
    def unit(self) -> str:
        """The column that identifies the privacy unit."""
        return f"{self.root}.{self.table(self.root).key}"

    def defined(self, name: str) -> dict[str, FamilyRule]:
        """Return the columns of a table that family rules compute, with their rules."""
        made = {}
        for rule in self.rules:
            owner = rule.child if rule.kind == "number" else self.table(rule.child).parent
            column = defined_column(rule)
            if owner == name and column is not None:
                made[column] = rule
        return made

    def roles(self, name: str) -> tuple[FamilyRule, ...]:
        """Return the rules on the roles of a child table's rows."""
        return tuple(r for r in self.rules if r.child == name and r.kind in ("exactly_one", "at_most_one"))

    @property
    def incomplete(self) -> tuple[RelatedTable, ...]:
        """The private tables that need discovery."""
        return tuple(table for table in self.private if table.schema.incomplete)

    def from_data_facts(self) -> list[str]:
        """Return the facts that were read from private rows and not yet reviewed."""
        keys = [f"{table.name}.{fact}" for table in self.tables for fact in table.from_data]
        return keys + [f"{table.name}.{fact}" for table in self.private for fact in table.schema.from_data_facts()]

    @classmethod
    def load(cls, path: str | Path) -> Database:
        """Read a schema file of several tables."""
        return cls.from_toml(read_schema_text(path), str(path))

    @classmethod
    def from_toml(cls, text: str, source: str = "schema") -> Database:
        """Read a schema of several tables; a SchemaError names the source, the line and the remedy."""
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{source}: not TOML: {error}") from None
        folder = Path(source).parent if Path(source).is_file() else None
        try:
            return cls.from_dict(document, source, folder)
        except TableError as error:
            raise SchemaError(f"{source}, line {line_of(text, error.place, error.key)}: {error}") from None
        except SchemaError as error:
            key = next((key for key in document if re.search(rf"\b{re.escape(key)}\b", str(error))), None)
            raise SchemaError(f"{source}, line {line_of(text, (), key)}: {error}") from None

    def to_toml(self) -> str:
        """Return the schema as TOML; `from_toml` reads it back to an equal schema."""
        document = self.to_dict()
        lines = [write_entry("root", self.root)]
        for name, entry in document["tables"].items():
            head = f"tables.{write_key(name)}"
            lines.append(f"\n[{head}]\n")
            lines += [write_entry(key, value) for key, value in entry.items() if key not in ("columns", "rules")]
            for column, facts in entry["columns"].items():
                lines.append(f"\n[{head}.columns.{write_key(column)}]\n")
                lines += [write_entry(key, value) for key, value in facts.items()]
            for rule in entry.get("rules", ()):
                lines.append(f"\n[[{head}.rules]]\n")
                lines += [write_entry(key, value) for key, value in rule.items()]
        for rule in document.get("family_rules", ()):
            lines.append("\n[[family_rules]]\n")
            lines += [write_entry(key, value) for key, value in rule.items()]
        return "".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as values that JSON and TOML support."""
        rules = [rule.to_dict() for rule in self.rules]
        tables = {table.name: table.to_dict() for table in self.tables}
        return {"root": self.root, "tables": tables, **({"family_rules": rules} if rules else {})}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "", folder: Path | None = None) -> Database:
        """Make and validate a schema of several tables from the result of `to_dict`."""
        known = ("root", "tables", "family_rules")
        for key in document:
            if key not in known:
                raise SchemaError(f'unknown key "{key}".{suggest_known_word(key, known)} Known: {", ".join(known)}.')
        entries = document.get("tables")
        if not isinstance(entries, Mapping) or not entries:
            raise SchemaError("a schema of several tables needs sections such as [tables.patients]")
        tables = tuple(_read_table(name, entry, folder) for name, entry in entries.items())
        root = document.get("root")
        made = cls(_find_parents(tables), _find_root(root, tables), source=source)
        _check_database(made)
        return replace(made, rules=read_family_rules(document.get("family_rules", []), made))


def is_database_document(path: str | Path) -> bool:
    """Return whether a schema file describes several tables: it has sections [tables.NAME]."""
    try:
        return "tables" in tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False


def _read_table(name: str, entry: Any, folder: Path | None) -> RelatedTable:
    if not isinstance(entry, Mapping):
        raise TableError(name, "expected a section such as [tables.patients]")
    for key in entry:
        if key not in _TABLE_KEYS:
            hint = " The key of the root identifies the privacy unit." if key in ("unit", "rows_per_unit") else ""
            raise TableError(name, f'unknown key "{key}".{suggest_known_word(key, _TABLE_KEYS)}{hint}', key)
    links = _read_links(name, entry.get("foreign_keys", {}))
    key = entry.get("key")
    if isinstance(key, list | tuple):
        raise TableError(name, "composite keys are not supported: name one id column, or leave key out", "key")
    for what, given in (("key", key), ("time", entry.get("time")), ("source", entry.get("source"))):
        if given is not None and (not isinstance(given, str) or not given):
            raise TableError(name, f"{what} must be the name of one column or file", what)
    most = entry.get("max_children", DEFAULT_MAX_CHILDREN)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MAX_CHILDREN:
        raise TableError(
            name,
            f"max_children must be a whole number from 1 to {MAX_CHILDREN:,}: rows used per parent",
            "max_children",
        )
    if "max_children" in entry and not links:
        raise TableError(name, "max_children has no effect without foreign_keys: leave it out", "max_children")
    marks = entry.get("from_data", [])
    if not isinstance(marks, list | tuple) or not set(marks) <= {"key", "public"}:
        raise TableError(name, 'from_data lists facts of the table to review: "key", "public"', "from_data")
    if not isinstance(entry.get("public", False), bool):
        raise TableError(name, "public must be true or false", "public")
    schema = _read_columns(name, entry, [key, *(link.column for link in links)], folder)
    time = entry.get("time")
    if not schema.incomplete:
        check_time(name, time, schema)
    public, stated = entry.get("public", False), "max_children" in entry
    if public and schema.incomplete:
        raise TableError(name, "a public table needs a complete schema: it is copied, not discovered", "columns")
    return RelatedTable(name, schema, key, links, most, stated, time, public, entry.get("source"), tuple(marks))


def check_time(name: str, time: str | None, schema: Schema) -> None:
    """Refuse a time column that is missing, or whose values are not ordered."""
    if time is not None and (time not in schema or schema.column(time).kind not in ("integer", "real", "datetime")):
        raise TableError(name, f'time: "{time}" is not a modelled column of numbers or dates', "time")
    if time is None:
        return
    if getattr(schema.column(time), "pieces", None):
        raise TableError(name, f'time: "{time}" is stored in pieces, which is not supported for times', "time")
    if time in schema.entangled:
        raise TableError(
            name,
            f'time: rules, groups, differences and formulas with the time column "{time}" are not supported: leave '
            "them out",
            "time",
        )


def _read_columns(name: str, entry: Mapping[str, Any], ids: Iterable[str | None], folder: Path | None) -> Schema:
    """Read the columns of a table, or of the file that it names; key columns that they do not describe are ids."""
    if (named := entry.get("schema")) is not None:
        if "columns" in entry or not isinstance(named, str):
            raise TableError(
                name, 'schema names a file with the columns, which are then not here: "stays.toml"', "schema"
            )
        schema = Schema.load((folder or Path()) / named)
        if schema.unit is not None or schema.time is not None:
            raise TableError(name, f"{named} states a unit or a time: state the keys and the time here", "schema")
        return _require_ids(name, schema, ids)
    columns = entry.get("columns", {})
    if isinstance(columns, Mapping):
        columns = {each: {"kind": "id"} for each in ids if each and each not in columns} | dict(columns)
    document = {key: entry[key] for key in entry if key not in OWN_KEYS}
    if isinstance(columns, Mapping) and not entry.get("columns"):
        document = {"extra_columns": "discover"} | document
        if not columns:
            raise TableError(name, "it has neither columns nor keys: link it to its parent with foreign_keys")
    try:
        schema = Schema.from_dict({**document, "columns": columns}, folder=folder)
    except ManySchemaError as error:
        raise TableError(name, str(error)) from None
    except ColumnError as error:
        raise TableError(name, str(error), error.key, error.column) from None
    except (RuleError, SchemaError) as error:
        raise TableError(name, str(error), "rules" if isinstance(error, RuleError) else None) from None
    return _require_ids(name, schema, ids)


def _require_ids(name: str, schema: Schema, ids: Iterable[str | None]) -> Schema:
    for each in ids:
        if each and not isinstance(schema.column(each), Id):
            raise TableError(name, f'column "{each}" is a key and must be of kind "id"', "kind", each)
    return schema


def _read_links(name: str, given: Any) -> tuple[Link, ...]:
    """Read foreign keys: {patient = "patients.id"} or ["patient -> patients.id"]."""
    if isinstance(given, list | tuple):
        pairs = [tuple(part.strip() for part in str(each).split("->")) for each in given]
        if any(len(pair) != 2 for pair in pairs):
            raise TableError(name, 'foreign_keys must be such as ["patient -> patients.id"]', "foreign_keys")
        given = {column.removeprefix(f"{name}."): target for column, target in pairs}
    if not isinstance(given, Mapping):
        raise TableError(name, 'foreign_keys must be such as {patient = "patients.id"}', "foreign_keys")
    made = []
    for column, target in given.items():
        table, dot, key = str(target).partition(".")
        if not dot or not key or not isinstance(target, str):
            raise TableError(
                name, f'foreign key "{column}" must name a table and its key: "patients.id"', "foreign_keys"
            )
        made.append(Link(column, table, key))
    return tuple(made)


def _find_parents(tables: tuple[RelatedTable, ...]) -> tuple[RelatedTable, ...]:
    """Find the parent of each private table; refuse links to missing tables, and several private parents."""
    known = {table.name: table for table in tables}
    made = []
    for table in tables:
        for link in table.links:
            if link.table not in known:
                near = suggest_known_word(link.table, known)
                raise TableError(table.name, f'{link}: there is no table "{link.table}".{near}', "foreign_keys")
            if known[link.table].key != link.key:
                told = f'"{link.key}" is not the key of "{link.table}"; set key = "{link.key}" there'
                raise TableError(table.name, f"{link}: {told}", "foreign_keys")
        private = [link for link in table.links if not known[link.table].public]
        if table.public and private:
            raise TableError(table.name, "a public table cannot refer to a private one", "foreign_keys")
        if len(private) > 1:
            listed = ", ".join(map(str, private))
            raise TableError(
                table.name,
                f"several private parents ({listed}) are not supported: keep the foreign key of the parent that owns "
                'the rows, and declare the others as columns of kind "id", or their tables as public',
                "foreign_keys",
            )
        made.append(replace(table, parent=private[0].table if private else None))
    return tuple(made)


def _find_root(given: Any, tables: tuple[RelatedTable, ...]) -> str:
    tops = [table.name for table in _find_parents(tables) if table.parent is None and not table.public]
    if given is None and len(tops) == 1:
        return tops[0]
    if given is None and not tops:
        raise SchemaError("the foreign keys form a cycle: every private table refers to another. Remove one of them")
    if given is None:
        raise SchemaError(
            f"the tables {', '.join(tops)} refer to no other private table. State the one whose key identifies the "
            'person, such as root = "patients", and link the others to it with foreign_keys'
        )
    if not isinstance(given, str) or given not in {table.name for table in tables}:
        raise SchemaError(f"root must name a table.{suggest_known_word(str(given), [t.name for t in tables])}")
    return given


def _check_database(database: Database) -> None:
    root = database.table(database.root)
    if root.public:
        raise TableError(root.name, "the root cannot be public: its key identifies the privacy unit", "public")
    if root.key is None:
        raise TableError(root.name, 'the root needs a key, which identifies the privacy unit: key = "id"', "key")
    if root.parent is not None:
        raise TableError(root.name, f"the root cannot refer to the private table {root.parent}", "foreign_keys")
    reached = {table.name for table in database.private}
    for table in database.tables:
        if table.public and table.key is None:
            raise TableError(table.name, "a public table needs a key to be referred to", "key")
        if table.public or table.name in reached:
            continue
        if table.parent is None:
            raise TableError(
                table.name,
                f'there are two roots, "{root.name}" and this one. Link it to a private table with foreign_keys, or '
                "declare it public",
            )
        raise TableError(table.name, f"it does not lead to the root: {table.link} is part of a cycle", "foreign_keys")
    for table in database.private:
        if not table.schema.incomplete and not any(c.modelled for c in table.schema.columns):
            raise TableError(table.name, "it has no column to model: every column is an id", "columns")
