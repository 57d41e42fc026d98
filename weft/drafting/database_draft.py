"""Draft a schema of related tables, for review: one file with keys and links, and one draft of columns per table.

Keys and links come from the constraints that a database declares, or else from names. Where names say nothing, a column
that several tables share and whose values never repeat in one of them is proposed as a key; this was read from private
rows, so it is marked in `from_data` and refused until it is reviewed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.drafting.draft import Draft, sketch_source
from weft.io.addresses import QUERY, kind_of_address
from weft.io.declared_keys import DeclaredKeys, list_declared_keys
from weft.io.dialect import Dialect
from weft.schema.schema_file import write_entry, write_key

_HEAD = """\
# Schema of related tables, drafted from them. Review it before use: keys and links below, and the columns of each
# table in the files that are named (`weft schema review` steps through all of them).
#
# The values of the root's key are the privacy units: one budget protects all rows, in all tables, that lead to one.
# max_children limits the rows used for one row of the parent (8 unless stated): choose it without looking at the rows.
"""
_SUFFIXES = ("id", "key", "code", "no", "nr", "number")


@dataclass
class TableDraft:
    """What is proposed for one table."""

    source: Any
    columns: Draft
    key: str | None = None
    links: dict[str, str] = field(default_factory=dict)
    """Foreign keys: the table that a column refers to."""
    public: bool = False
    reasons: dict[str, str] = field(default_factory=dict)
    """Where the key and each link come from."""
    marks: list[str] = field(default_factory=list)
    """What was read from the rows: `key` or `public`."""


def find_tables(source: Sequence[str]) -> dict[str, Any]:
    """Return the tables of several files, of a folder, or of a database; none if there is one table only."""
    if len(source) == 1 and (found := kind_of_address(source[0])):
        if "?" in source[0] or (found[0].queries and QUERY.match(found[1])):
            return {}
        return {name: f"{source[0]}?table={name}" for name in list_declared_keys(source[0])}
    if any(kind_of_address(each) for each in source):
        return {}
    paths = [Path(each) for each in source]
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(path for path in paths[0].iterdir() if path.is_file())
    named = {path.name.partition(".")[0]: str(path) for path in paths}
    return named if len(named) == len(paths) > 1 else {}


def sketch_tables(tables: Mapping[str, Any], dialect: Dialect, address: str | None = None) -> dict[str, TableDraft]:
    """Draft the columns of each table, and propose keys, links, and public tables.

    The result is empty if all files have the same columns: they are parts of one table.
    """
    made = {name: TableDraft(source, sketch_source(source, dialect)) for name, source in tables.items()}
    if address is None and len({tuple(name for _, name, _ in table.columns.columns) for table in made.values()}) == 1:
        return {}
    _take_declared(made, {} if address is None else list_declared_keys(address))
    _take_names(made)
    _take_shared_columns(made)
    for name, table in made.items():  # a link needs the key of its table
        table.links = {column: above for column, above in table.links.items() if made[above].key and above != name}
    root = find_root(made)
    for table in made.values():
        table.columns = _mark_ids(table)
    for name, table in made.items():
        if name != root and not _leads_to(made, name, root):
            table.public, table.links = True, {}
            table.marks.append("public")
    return made


def _mark_ids(table: TableDraft) -> Draft:
    """Describe keys as ids, whatever their values look like."""
    keys = {table.key, *table.links}
    kept = tuple(
        ("# A key: its values are generated.\n", name, {"kind": "id"}) if name in keys else (told, name, entry)
        for told, name, entry in table.columns.columns
    )
    head = table.columns.head.partition("\n# If one person can have")[0] + "\n"
    return Draft(head + write_entry("extra_columns", "ignore"), kept, table.columns.distinct)


def _columns_of(table: TableDraft) -> list[str]:
    return [name for _, name, entry in table.columns.columns if entry is not None]


def _take_declared(made: dict[str, TableDraft], declared: Mapping[str, DeclaredKeys]) -> None:
    for name, keys in declared.items():
        table = made[name]
        if keys.key in _columns_of(table):
            table.key, table.reasons["key"] = keys.key, "declared in the database"
        for column, (above, _) in keys.links.items():
            if above in made:
                table.links[column], table.reasons[column] = above, "declared in the database"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _call(table: str) -> set[str]:
    """Return what columns may call a table: patients, patient; companies, company."""
    whole = _plain(table)
    return {whole, re.sub(r"s$", "", whole), re.sub(r"ies$", "y", whole), re.sub(r"(ss|x|ch)es$", r"\1", whole)}


def _take_names(made: dict[str, TableDraft]) -> None:
    """Propose keys such as `id` or `patient_id` in patients, and columns of other tables that refer to them."""
    for name, table in made.items():
        wanted = {"id"} | {each + suffix for each in _call(name) for suffix in ("", *_SUFFIXES)}
        found = [column for column in _columns_of(table) if _plain(column) in wanted]
        # The name of the table alone may be that of a quantity: a salary in salaries.
        found = [column for column in found if _plain(column) not in _call(name) or column in table.columns.distinct]
        if table.key is None and found:
            table.key, table.reasons["key"] = found[0], "proposed from its name"
    for name, table in made.items():
        for above, other in made.items():
            if above == name or above in table.links.values() or other.key is None:
                continue
            wanted = {each + suffix for each in _call(above) for suffix in ("", *_SUFFIXES)}
            wanted |= {_plain(other.key)} - set(_SUFFIXES)
            found = [c for c in _columns_of(table) if _plain(c) in wanted and c != table.key and c not in table.links]
            if found:
                table.links[found[0]], table.reasons[found[0]] = above, "proposed from its name"


def _take_shared_columns(made: dict[str, TableDraft]) -> None:
    """Propose, for tables without links, a column of the same name whose values never repeat in another table."""
    for name, table in made.items():
        for above, other in made.items():
            distinct = other.columns.distinct - table.columns.distinct
            shared = [c for c in _columns_of(table) if c in distinct and other.key in (None, c)]
            if table.links or above == name or not shared:
                continue
            other.key, table.links[shared[0]] = shared[0], above
            other.reasons["key"] = table.reasons[shared[0]] = "proposed from the rows: no value repeats"
            other.marks = ["key"]


def find_root(made: Mapping[str, TableDraft]) -> str:
    """Return the table that most others lead to, the first of several."""
    tops = [name for name, table in made.items() if table.key is not None and not table.links] or list(made)
    return max(tops, key=lambda top: sum(_leads_to(made, name, top) for name in made))


def _leads_to(made: Mapping[str, TableDraft], name: str, root: str, seen: tuple[str, ...] = ()) -> bool:
    if name == root:
        return True
    return any(_leads_to(made, above, root, (*seen, name)) for above in made[name].links.values() if above not in seen)


def write_database_draft(made: Mapping[str, TableDraft], folder: str) -> str:
    """Return the schema as TOML, whose tables take their columns from files of a folder."""
    root = find_root(made)
    others = sorted({above for table in made.values() for above in table.links.values()} - {root})
    told = f"; it could also be {', '.join(others)}, if {root} is public" if others else ""
    lines = [_HEAD, _remark(write_entry("root", root), f"the table whose key identifies the person to protect{told}")]
    for name, table in made.items():
        if made[name].public and not any(name in table.links.values() for table in made.values()):
            lines.append(f"\n# {name} is left out: no foreign key leads from it to {root}, or to it\n")
            continue
        lines.append(f"\n[tables.{write_key(name)}]\n" + write_entry("schema", f"{folder}/{name}.toml"))
        if table.key is not None:
            lines.append(_remark(write_entry("key", table.key), table.reasons["key"]))
        owned = [column for column, above in table.links.items() if not made[above].public]
        kept = {column: above for column, above in table.links.items() if column in owned[:1] or made[above].public}
        if kept and not table.public:
            why = "; ".join(f"{column}: {table.reasons[column]}" for column in kept)
            keys = {column: f"{above}.{made[above].key}" for column, above in kept.items()}
            lines.append(_remark(write_entry("foreign_keys", keys), why))
        for column in owned[1:]:
            lines.append(f"# {column} refers to {table.links[column]}, too: a row has one private parent\n")
        if table.public:
            lines.append(_remark(write_entry("public", True), "proposed: no foreign key leads from it to the root"))
        if table.marks:
            lines.append(_remark(write_entry("from_data", table.marks), "remove what you know without the rows"))
    return "".join(lines)


def _remark(line: str, told: str) -> str:
    return f"# {told}\n{line}"
