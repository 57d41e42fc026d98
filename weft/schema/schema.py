"""Schema: the ordered columns of a table, its rules and its privacy unit."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from weft.display import render_table_html
from weft.errors import SchemaError, raise_together
from weft.schema.kinds import Category, Column, Id, Unknown, add_markers, column_from_dict, suggest_known_word
from weft.schema.rules import Rule, check_rules, plain_readers, rules_from_list
from weft.schema.value_lists import with_lists
from weft.values.bins import MAX_CODES
from weft.values.text_numbers import Marker

BEYOND = "invalid schema: nested too deeply, or a number with too many digits. Check where the file comes from"
"""Error message for text that exceeds the limits of the JSON or TOML parser."""

_KEYS = ("unit", "rows_per_unit", "per_unit", "time", "extra_columns", "groups", "discovery", "columns", "rules")


@dataclass(frozen=True)
class Schema:
    """Public facts about a table.

    >>> schema = Schema.from_toml('''
    ... [columns.age]
    ... kind = "integer"
    ... range = [0, 120]
    ... ''')
    >>> schema.column("age").ends
    (0, 120)
    """

    columns: tuple[Column, ...]
    unit: str | None = None
    """Id column that identifies the privacy unit (default: every row). Rows with a missing or empty id are dropped."""
    rows_per_unit: int = 1
    """Contribution bound: maximum number of rows kept per unit; the others are dropped at random."""
    extra_columns: Literal["refuse", "ignore", "discover"] = "refuse"
    """Treatment of columns that the schema does not name: "discover" finds their kinds and values privately."""
    per_unit: tuple[str, ...] = ()
    """Columns that are constant within a unit, such as sex and year of birth; enforced in synthetic rows."""
    time: str | None = None
    """Column that orders the rows of a unit in time, such as year; they are then released as histories."""
    rules: tuple[Rule, ...] = ()
    """Public facts about every row."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Columns that are encoded together as one attribute."""
    discovery: Mapping[str, float] | None = None
    """Privacy cost of the discovery of all facts marked as paid: epsilon and delta."""
    source: str = field(default="", compare=False)
    """Origin of the schema, for error messages."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise SchemaError("columns of a schema must have different names")
        if not names:
            raise SchemaError("a schema needs at least one column: add a table such as [columns.age]")
        whole = isinstance(self.rows_per_unit, int) and not isinstance(self.rows_per_unit, bool)
        if not whole or self.rows_per_unit < 1:
            raise SchemaError("rows_per_unit must be a whole number, at least 1")
        if self.extra_columns not in ("refuse", "ignore", "discover"):
            raise SchemaError('extra_columns must be "refuse", "ignore" or "discover"')
        if self.unit is not None and not any(c.name == self.unit and isinstance(c, Id) for c in self.columns):
            raise SchemaError(f'unit must name a column of kind "id"; "{self.unit}" is not one')
        if self.unit is None and self.rows_per_unit != 1:
            raise SchemaError("rows_per_unit needs a unit: name the id column that identifies the person")
        known = [column.name for column in self.columns if column.modelled]
        for name in self.per_unit:
            if name not in known:
                raise SchemaError(f'per_unit: "{name}" is not a modelled column.{suggest_known_word(name, known)}')
        if self.per_unit and self.rows_per_unit == 1:
            raise SchemaError("per_unit needs a unit with several rows: set unit and rows_per_unit above 1")
        if self.time is not None and (self.time not in known or self.time in self.per_unit or self.unit is None):
            raise SchemaError(
                f'time: "{self.time}" must be a modelled column that is not in per_unit, in a schema with a unit'
            )
        self._check_groups()
        self._check_discovery()
        if self.rules:
            check_rules(self.rules, plain_readers(self.columns))

    def _check_groups(self) -> None:
        seen: set[str] = set()
        for group in self.groups:
            if not isinstance(group, tuple) or len(group) < 2:
                raise SchemaError('groups must be lists of at least two columns, such as [["city", "district"]]')
            for name in group:
                if name not in self._by_name:
                    raise SchemaError(f'groups: no column "{name}".{suggest_known_word(str(name), self._by_name)}')
                if isinstance(self._by_name[name], Id):
                    raise SchemaError(f'groups: column "{name}" is an id, which is not modelled; leave it out')
                if name in seen:
                    raise SchemaError(f'groups: column "{name}" is listed twice; list it once')
                seen.add(name)

    def _check_discovery(self) -> None:
        cost = self.discovery
        if cost is None:
            return
        numbers = isinstance(cost, Mapping) and set(cost) == {"epsilon", "delta"}
        if not numbers or not all(isinstance(x, int | float) and 0 <= x < math.inf for x in cost.values()):
            raise SchemaError("discovery must state its privacy cost: an epsilon and a delta")

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """Return the column with this name."""
        if name not in self._by_name:
            raise SchemaError(f'the schema has no column "{name}".{suggest_known_word(name, self._by_name)}')
        return self._by_name[name]

    @property
    def modelled(self) -> list[Column]:
        """Columns that are encoded as attributes; ids are generated and derived columns computed instead."""
        return [column for column in self.columns if column.modelled]

    @property
    def entangled(self) -> set[str]:
        """Columns in rules, groups and differences, and those that formulas use."""
        used = {name for rule in self.rules for name in rule.columns} | {
            name for group in self.groups for name in group
        }
        used |= {name for column in self.columns if column.kind == "derived" for name in column.made_from}
        ties = [(column.name, getattr(column, "after", None)) for column in self.columns]
        return used | {str(name) for tie in ties if tie[1] is not None for name in tie}

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def unknown(self) -> list[Unknown]:
        """Columns whose description is incomplete."""
        return [column for column in self.columns if isinstance(column, Unknown)]

    def _repr_html_(self) -> str:
        told = f"schema of {len(self.columns)} columns" + (f", protecting every {self.unit}" if self.unit else "")
        entries = [(column.name, column.to_dict()) for column in self.columns]
        rows = [
            (name, entry.pop("kind", "unknown"), ", ".join(f"{k} = {v}" for k, v in entry.items())[:200])
            for name, entry in entries
        ]
        return render_table_html(told, ["column", "kind", "publicly known facts"], rows)

    @property
    def incomplete(self) -> bool:
        """Whether discovery is needed before the schema can be used."""
        return bool(self.unknown) or self.extra_columns == "discover"

    @property
    def stated(self) -> Schema:
        """The schema without incomplete columns, and without the rules and groups that refer to them."""
        left = {column.name for column in self.unknown}
        kept = tuple(column for column in self.columns if column.name not in left)
        if not kept:
            raise SchemaError("the schema describes no column completely; all of them need private discovery")
        return replace(
            self,
            columns=kept,
            extra_columns="ignore",
            per_unit=tuple(name for name in self.per_unit if name not in left),
            time=None if self.time in left else self.time,
            rules=tuple(rule for rule in self.rules if not left & set(rule.columns)),
            groups=tuple(group for group in self.groups if not left & set(group)),
        )

    def marking(self, markers: Iterable[Marker]) -> Schema:
        """Return the schema with further markers of missing values, except where a column lists them as values."""
        return replace(self, columns=tuple(add_markers(column, tuple(markers)) for column in self.columns))

    def from_data_facts(self) -> list[str]:
        """Return the facts that were read from private rows and not yet reviewed, as "column: field"."""
        return [f"{column.name}: {fact}" for column in self.columns for fact in column.from_data]

    def paid_facts(self) -> list[str]:
        """Return the facts that private discovery found, as "column: field"."""
        return [f"{column.name}: {fact}" for column in self.columns for fact in column.paid]

    @classmethod
    def stating(cls, columns: Mapping[str, Any]) -> Schema:
        """Return a schema that describes some columns, by kind or as a schema file does, and discovers the others.

        >>> Schema.stating({"seen": "datetime", "age": {"kind": "integer", "range": [0, 110]}}).extra_columns
        'discover'
        """
        entries = {name: {"kind": entry} if isinstance(entry, str) else entry for name, entry in columns.items()}
        return cls.from_dict({"extra_columns": "discover", "columns": entries})

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file: TOML, the JSON of `to_dict`, or a domain file of mbi or PrivMRF."""
        path = Path(path)
        text = read_schema_text(path)
        if path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
            return cls._from_json(text, str(path))
        return cls.from_toml(text, str(path))

    @classmethod
    def _from_json(cls, text: str, source: str) -> Schema:
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise SchemaError(f"{source}, line {error.lineno}: not JSON: {error.msg}") from None
        except (ValueError, RecursionError):
            raise SchemaError(f"{source}: {BEYOND}") from None
        columns = document.get("columns") if isinstance(document, dict) else None
        try:
            if isinstance(columns, dict) and "domain" not in columns:
                return cls.from_dict(document, source, Path(source).parent)
            return cls.from_domain(document, source)
        except SchemaError as error:
            raise SchemaError(f"{source}: {error}") from None

    @classmethod
    def from_toml(cls, text: str | PathLike[str], source: str = "schema") -> Schema:
        """Read a schema from TOML text or from a file; `source` names the text in error messages."""
        from weft.schema.schema_file import read_toml

        if not isinstance(text, str) or (text.endswith(".toml") and "\n" not in text):
            return cls.load(Path(text))
        return read_toml(text, source)

    @staticmethod
    def draft(source: Any, dialect: Any = None) -> str:
        """Draft a schema as TOML; it contains facts from private rows and must be reviewed.

        `source` is files, a database table or a data frame; the optional `dialect` is a `weft.Dialect`.
        """
        given = {} if dialect is None else {"dialect": dialect}
        return str(import_module("weft.drafting").draft_source(source, **given))

    def to_toml(self) -> str:
        """Return the schema as TOML; `from_toml` reads it back to an equal schema."""
        from weft.schema.schema_file import write_toml

        return write_toml(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as values that JSON and TOML support, in the structure of the TOML file."""
        document: dict[str, Any] = {}
        if self.unit is not None:
            document |= {"unit": self.unit, "rows_per_unit": self.rows_per_unit}
        facts = {
            "per_unit": list(self.per_unit),
            "time": self.time,
            "extra_columns": None if self.extra_columns == "refuse" else self.extra_columns,
            "discovery": dict(self.discovery or {}),
            "groups": [list(group) for group in self.groups],
        }
        document |= {key: fact for key, fact in facts.items() if fact}
        document["columns"] = {column.name: column.to_dict() for column in self.columns}
        if self.rules:
            document["rules"] = [rule.to_dict() for rule in self.rules]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], source: str = "", folder: Path | None = None) -> Schema:
        """Make a schema from the result of `to_dict`; files of lists and rules are read from `folder` only."""
        document = with_lists(document, folder)
        if "tables" in document:
            raise SchemaError(
                "tables: a schema of several tables, which only `weft synth`, `weft fit`, `weft sample`, `weft plan` "
                "and `weft verify` support, and weft.Database in Python"
            )
        for key in document:
            if key not in _KEYS:
                near = suggest_known_word(key, _KEYS) or f" Known keys are {', '.join(_KEYS)}."
                raise SchemaError(f'unknown key "{key}".{near}')
        columns = document.get("columns", {})
        if not isinstance(columns, Mapping):
            raise SchemaError("columns must be tables such as [columns.age]")
        facts = {key: document[key] for key in _KEYS if key not in ("columns", "rules", "groups") and key in document}
        if "per_unit" in facts:
            same = facts["per_unit"]
            if not isinstance(same, list | tuple) or not all(isinstance(name, str) for name in same):
                raise SchemaError('per_unit must be a list of columns, such as ["sex", "birth_year"]')
            facts["per_unit"] = tuple(same)
        made = _make_columns(columns)
        groups = document.get("groups", [])
        if not isinstance(groups, list | tuple) or not all(isinstance(group, list | tuple) for group in groups):
            raise SchemaError('groups must be lists of columns, such as [["city", "district"]]')
        rules = rules_from_list(document.get("rules", []), made, folder)
        return cls(made, **facts, rules=rules, groups=tuple(map(tuple, groups)), source=source)

    @classmethod
    def from_domain(cls, domain: Mapping[str, Any], source: str = "domain") -> Schema:
        """Make a schema of integer-coded columns from {name: size} or {name: {"domain": size}}.

        Codes are 0 to size - 1 and have no numeric meaning. Columns that the domain does not name are ignored, as in
        other programs that use this format. Mark sizes that were read from private rows: `"from_data": true` as a
        further entry marks all columns, and {"domain": size, "from_data": true} marks one.

        >>> Schema.from_domain({"sex": 2}).column("sex").values
        (0, 1)
        >>> Schema.from_domain({"age": 85, "sex": 2, "from_data": True}).from_data_facts()
        ['age: values', 'sex: values']
        """
        if not isinstance(domain, Mapping) or not domain:
            raise SchemaError('a domain must be a mapping such as {"age": 85, "sex": 2}')
        entries = dict(domain)
        # A size is never true or false, so a column named from_data is not mistaken for the mark.
        every = entries.pop("from_data") if isinstance(entries.get("from_data"), bool) else False
        columns = []
        for name, entry in entries.items():
            size, marked = (
                (entry.get("domain"), entry.get("from_data", every)) if isinstance(entry, Mapping) else (entry, every)
            )
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise SchemaError(f'column "{name}": the domain must be a number of codes, at least 1')
            if size > MAX_CODES:  # before the list of codes is allocated
                raise SchemaError(f'column "{name}": the domain must be at most {MAX_CODES:,} codes')
            if not isinstance(marked, bool):
                raise SchemaError(f'column "{name}": from_data must be true or false')
            columns.append(Category(name, tuple(range(size)), from_data=("values",) if marked else ()))
        return cls(tuple(columns), extra_columns="ignore", source=source)


def _make_columns(entries: Mapping[str, Any]) -> tuple[Column, ...]:
    """Make all columns; report the errors of all invalid ones together."""
    made: list[Column] = []
    faults: list[SchemaError] = []
    for name, entry in entries.items():
        try:
            made.append(column_from_dict(name, entry))
        except SchemaError as fault:
            faults.append(fault)
    raise_together(faults)
    return tuple(made)


def read_schema_text(path: str | Path) -> str:
    """Return the text of a schema file; SchemaError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SchemaError(f"{path}: cannot read the schema: {reason}") from None


def check_names(schema: Schema, names: list[str]) -> None:
    """Validate that a table has every column of the schema, and no others if `extra_columns` is "refuse"."""
    for name in names:
        if names.count(name) > 1 and name in schema:
            raise SchemaError(f'column "{name}": the table has several columns of this name; rename them')
    for column in schema.columns:
        if column.in_table and column.name not in names:
            near = suggest_known_word(column.name, names)
            raise SchemaError(f'column "{column.name}": the table has no such column.{near} Remove it from the schema')
    extra = [name for name in names if name not in schema]
    if extra and schema.extra_columns == "refuse":
        listed = ", ".join(f'"{name}"' for name in extra[:5]) + (", ..." if len(extra) > 5 else "")
        raise SchemaError(
            f'the schema does not describe {listed}. Add a table for each, or set extra_columns = "ignore"'
        )
