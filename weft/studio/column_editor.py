"""How the columns page shows a schema file, and edits it in place, line by line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import tomli_w

from weft.drafting.review import FOUND, MEANINGS, Review, set_keys, set_top
from weft.errors import SchemaError, WeftError
from weft.schema import Schema
from weft.schema.database import OWN_KEYS, Database
from weft.schema.kinds.formula import list_formula_names, parse_formula
from weft.schema.schema_file import read_toml, write_column, write_rule
from weft.schema.value_lists import with_lists
from weft.studio.workspace import SCHEMA

Origin = Literal["public", "read", "paid", "found", "set"]
Forms = Mapping[str, Mapping[str, str]]
"""The contents of the form of each column."""
CHANGED = "this column was changed elsewhere since the page was loaded: compare, and save it again"

KINDS_SHOWN = {
    "unknown": "to be found privately",
    "category": "one of several values",
    "integer": "whole number",
    "real": "number",
    "datetime": "date, or date and time",
    "boolean": "yes or no",
    "time": "time of day",
    "duration": "length of time",
    "id": "an id, newly generated",
    "derived": "computed from other columns",
}

OUTSIDE = {
    "refuse": "the run stops with an error",
    "clip": "it is moved to the nearer end of the range",
    "other": "it is counted as the value for all others",
}
"""Descriptions of the policies for values outside the schema."""

_SETTINGS = ("outside", "other")
_NUMBERS = ("integer", "real", "datetime", "time", "duration")
FIELDS = {
    **dict.fromkeys(("low", "high"), _NUMBERS),
    "after": ("integer", "real", "datetime", "duration"),
    "decimals": ("real",),
    "values": ("category",),
    "pattern": ("id",),
    "formula": ("derived",),
    "missing": (*_NUMBERS, "category", "boolean", "id"),
    "markers": (*_NUMBERS, "category", "boolean"),
    "outside": (*_NUMBERS, "category"),
}
"""Fields of a column's form, with the kinds that have them."""
_UNSHOWN = ("kind", "from_data", "paid")
_SHORT = 160


@dataclass(frozen=True)
class FactShown:
    """A fact about a column in the schema, with its origin."""

    name: str
    value: str
    origin: Origin
    meaning: str = ""
    private: bool = False
    """Whether discovery can find it."""


@dataclass(frozen=True)
class ColumnShown:
    """A column as shown on the page."""

    name: str
    kind: str
    said: str
    facts: list[FactShown]
    form: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""
    """Mark of the form as it is in the file (`mark_form`)."""
    wrong: str | None = None
    """Why what was typed could not be saved; None if the form is that of the file."""

    @property
    def open(self) -> bool:
        """Whether a fact read from the rows still needs review."""
        return any(fact.origin == "read" for fact in self.facts)


def first_schema(columns: Sequence[str]) -> str:
    """Return the initial schema of a table, with all columns of unknown kind."""
    head = (
        "# Public facts about each column. Discovery finds what is left open privately, for a share of the budget.\n\n"
    )
    return head + "\n".join(write_column(name, {"kind": "unknown"}) for name in columns)


def list_shown_columns(
    text: str, folder: Path | None = None, forms: Forms = MappingProxyType({}), errors: Mapping[str, str] | None = None
) -> list[ColumnShown]:
    """Return the columns of a schema file; those with errors have the contents of their forms, which are not saved."""
    document, wrong = _parse_document(text), errors or {}
    with suppress(SchemaError):  # shown as the fault of the schema
        document = with_lists(document, folder)
    every = [_make_shown_column(name, entry) for name, entry in document.get("columns", {}).items()]
    for place, each in enumerate(every):
        if each.name in wrong:
            typed = {name: forms[each.name].get(name, "") for name in ("kind", "was", *FIELDS)}
            mark = typed["was"] or each.mark
            every[place] = replace(each, kind=typed["kind"], form=typed, mark=mark, wrong=wrong[each.name])
    return every


def mark_form(form: Mapping[str, str]) -> str:
    """Return a mark of a form's contents, which differs once a field is changed."""
    kind = form.get("kind", "")
    held = [form.get(name, "").replace("\r\n", "\n").strip() for name, kinds in FIELDS.items() if kind in kinds]
    return hashlib.sha256(repr((kind, held)).encode()).hexdigest()[:12]


def change_columns(text: str, forms: Forms, folder: Path | None = None) -> tuple[str, dict[str, str]]:
    """Return the schema with all columns changed whose forms were, and the error of each that could not be saved.

    A column may need another that is changed with it, such as the one that it is never before: it is tried again.
    """
    marks = {each.name: each.mark for each in list_shown_columns(text, folder)}
    left = {name: form for name, form in forms.items() if mark_form(form) not in (form.get("was"), marks.get(name))}
    errors = {name: CHANGED for name, form in left.items() if form.get("was", marks.get(name)) != marks.get(name)}
    waiting = [name for name in left if name not in errors]
    while waiting:
        for name in waiting:
            try:
                text = change_column(text, name, left[name], folder)
                errors.pop(name, None)
            except WeftError as error:
                errors[name] = describe_form_error(error)
        waiting, before = [name for name in waiting if name in errors], waiting
        if waiting == before:
            break
    return text, errors


def describe_form_error(error: WeftError) -> str:
    """Return the message of an error in a form, which has no lines."""
    told = re.sub(r"^line \d+: ", "", str(error))
    return told.replace("range must be [lowest, highest]", "the smallest possible value must be below the largest")


def extract_table(text: str, name: str, columns: Sequence[str]) -> str:
    """Return the schema of one of several tables as that of a single one, with unknown columns where it states none."""
    entry = tomllib.loads(text)["tables"].get(name, {})
    if "schema" in entry:
        raise SchemaError(f'the columns of {name} are stated in the file "{entry["schema"]}": edit it there')
    ids = {entry.get("key"), *list_foreign_keys(entry)}
    named = {each: {"kind": "id" if each in ids else "unknown"} for each in columns} | entry.get("columns", {})
    return tomli_w.dumps({key: entry[key] for key in entry if key not in OWN_KEYS} | {"columns": named})


def insert_table(text: str, name: str, made: str) -> str:
    """Return the schema of several tables with the columns and rules of one of them as in a schema of its own."""
    document = tomllib.loads(text)
    kept = {key: value for key, value in document["tables"][name].items() if key in OWN_KEYS}
    document["tables"][name] = kept | tomllib.loads(made)
    return tomli_w.dumps(document)


def list_foreign_keys(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a table that refer to keys, with these keys."""
    given = entry.get("foreign_keys", {})
    if isinstance(given, Mapping):
        return dict(given)
    pairs = (str(each).partition("->") for each in given)
    return {column.strip(): target.strip() for column, _, target in pairs}


def list_rules(text: str) -> list[str]:
    """Return the rules of a schema file as TOML."""
    return [write_rule(each).removeprefix("[[rules]]\n").strip() for each in _parse_document(text).get("rules", [])]


def find_schema_fault(text: str, folder: Path | None = None) -> str:
    """Return the error message of an invalid schema; empty if it is valid. Its lists of values are in `folder`."""
    try:
        read_schema(text, folder)
    except WeftError as error:
        return str(error).replace("schema, ", "").replace(f"{folder}{os.sep}{SCHEMA}, ", "")
    return ""


def read_schema(text: str, folder: Path | None = None) -> Schema | Database:
    """Return the schema of a text, of one table or of several, whose files of values are in a folder."""
    if "tables" in _parse_document(text):
        return Database.from_toml(text, "schema" if folder is None else str(folder / SCHEMA))
    return read_toml(text, "schema", folder)


def change_column(text: str, column: str, form: Mapping[str, str], folder: Path | None = None) -> str:
    """Return the schema with a column changed according to a form."""
    kind = form.get("kind", "")
    if kind not in KINDS_SHOWN:
        raise SchemaError("choose the kind of the column")
    entry = Review(text).entry(column)
    if kind == "unknown":
        return set_keys(text, column, dict.fromkeys(entry) | {"kind": "unknown"})
    read = with_lists(_parse_document(text), folder)["columns"][column]
    facts = _parse_form(kind, form, read)
    if isinstance(entry.get("values"), str) and _make_form(facts)["values"] == _make_form(read)["values"]:
        del facts["values"]  # the list stays in its file
    if facts.get("after") and facts["after"] not in _parse_document(text)["columns"]:
        raise SchemaError(f'the table has no column "{facts["after"]}": choose another one for "never before column"')
    _require_sources(str(facts.get("formula") or ""), _parse_document(text)["columns"])
    kept = {key: value for key, value in facts.items() if value is not None or key in entry}
    if entry.get("kind") == "unknown":  # the initial entry states nothing and is replaced
        text = set_keys(text, column, dict.fromkeys(entry) | kept)
    else:
        plain = set_keys(text, column, {key: None for key in _SETTINGS if key in entry and key in facts})
        review = Review(plain, folder=folder)
        review.edit(column, **{key: value for key, value in kept.items() if key not in _SETTINGS})
        paid = [key for key in entry.get("paid", ()) if facts.get(key, entry.get(key)) == entry.get(key)]
        settings = {key: value for key, value in kept.items() if key in _SETTINGS}
        text = set_keys(review.text, column, settings | ({"paid": paid or None} if "paid" in entry else {}))
    _require_sound_schema(text, folder)
    return text


def settle_fact(text: str, column: str, name: str, how: Literal["public", "private"]) -> str:
    """Return the schema with facts read from the rows declared public, or removed to be discovered privately."""
    review = Review(text)
    for fact in review.facts([name] if name else (), [column] if column else ()):
        marked = review.entry(fact.column).get("from_data", ())  # removing a kind removes the column's other facts
        if how == "public":
            review.accept(fact)
        elif fact.private and fact.name in marked:
            review.make_private(fact)
    return review.text


def set_protected_column(text: str, unit: str | bool | None, rows: int) -> str:
    """Return the schema with the privacy unit set."""
    if not isinstance(unit, str):
        return set_top(text, {"unit": None, "rows_per_unit": None})
    entry = Review(text).entry(unit)
    if entry.get("kind") != "id":
        text = set_keys(text, unit, dict.fromkeys(entry) | {"kind": "id", "pattern": "{}"})
    return set_top(text, {"unit": unit, "rows_per_unit": rows if rows > 1 else None})


def get_protected_column(text: str) -> str | None:
    """Return the column that identifies the person; None if the privacy unit is a row."""
    unit = _parse_document(text).get("unit")
    return unit if isinstance(unit, str) else None


def with_rule(text: str, rule: str, folder: Path | None = None) -> str:
    """Return the schema with a rule added."""
    written = rule.strip().removeprefix("[[rules]]").strip()
    if not written:
        raise SchemaError("enter a rule, as in the examples")
    try:
        tomllib.loads(written)
    except (ValueError, RecursionError):
        raise SchemaError(
            "the rule cannot be read: press one of the examples, and insert the names of your columns"
        ) from None
    longer = f"{text.rstrip()}\n\n[[rules]]\n{written}\n"
    _require_sound_schema(longer, folder)
    return longer


def with_guided_rule(text: str, kind: str, columns: Sequence[str], result: str = "", folder: Path | None = None) -> str:
    """Return the schema with a rule from a form: `order`, `unique` or `sum`; or with the constants of a person."""
    if not columns or (kind == "sum" and not result):
        raise SchemaError("select the columns of the rule")
    if kind == "per_unit":
        changed = set_top(text, {"per_unit": list(columns)})
        _require_sound_schema(changed, folder)
        return changed
    written = f"{kind} = {json.dumps(list(columns), ensure_ascii=False)}"
    return with_rule(text, written + (f"\nis = {json.dumps(result, ensure_ascii=False)}" if result else ""), folder)


def _require_sound_schema(text: str, folder: Path | None) -> None:
    if wrong := find_schema_fault(text, folder):
        raise SchemaError(wrong)


def _require_sources(formula: str, columns: Mapping[str, Any]) -> None:
    """Raise SchemaError if a formula uses unknown columns; other errors are found with the schema."""
    try:
        sources = {name.column for name in list_formula_names(parse_formula(formula))} if formula else set()
    except ValueError:
        return
    if strange := sorted(sources - set(columns)):
        raise SchemaError(f'the formula uses "{strange[0]}", which is not a column of the table')


def _parse_document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _make_shown_column(name: str, entry: Mapping[str, Any]) -> ColumnShown:
    kind = str(entry.get("kind", "unknown"))
    read, paid = entry.get("from_data", ()), entry.get("paid", ())

    def origin(key: str) -> Origin:
        return "read" if key in read else "paid" if key in paid else "set" if key in _SETTINGS else "public"

    facts = [
        FactShown(key, _describe_fact(key, value), origin(key), MEANINGS.get(key, ""), key in FOUND.get(kind, ()))
        for key, value in entry.items()
        if key not in _UNSHOWN
    ]
    facts += [FactShown(key, "nothing", "read", MEANINGS.get(key, "")) for key in read if key not in (*entry, "kind")]
    if kind != "unknown" and {"kind"} & {*read, *paid}:
        facts.insert(0, FactShown("kind", KINDS_SHOWN.get(kind, kind), origin("kind"), MEANINGS["kind"], kind in FOUND))
    left = [] if kind == "unknown" else [key for key in FOUND.get(kind, ())[1:] if key not in entry and key not in read]
    if not any(key in entry for key in ("edges", "after", "pieces")):
        facts += [FactShown(key, "found privately", "found") for key in left]
    form = _make_form(entry)
    return ColumnShown(name, kind, KINDS_SHOWN.get(kind, kind), facts, form, mark_form(form | {"kind": kind}))


def _make_form(entry: Mapping[str, Any]) -> dict[str, str]:
    ends = entry.get("range") or ["", ""]
    missing = entry.get("missing", False)
    values = entry.get("values", [])
    return {
        "low": _format_scalar(ends[0]),
        "high": _format_scalar(ends[1]),
        "values": "\n".join(map(_format_scalar, values)) if isinstance(values, list) else str(values),
        "missing": "on" if missing else "",
        "markers": ", ".join(map(_format_scalar, missing)) if isinstance(missing, list) else "",
        "after": str(entry.get("after", "")),
        "decimals": _format_scalar(entry.get("decimals", "")),
        "formula": str(entry.get("formula", "")),
        "pattern": str(entry.get("pattern", "")),
        "outside": "on" if entry.get("outside", "refuse") != "refuse" else "",
    }


def _parse_form(kind: str, form: Mapping[str, str], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a form for a column of this kind; None removes a fact."""
    facts: dict[str, Any] = {"kind": kind}

    def field_of(name: str) -> str:
        return form.get(name, "").strip()

    if kind in _NUMBERS:
        low, high = field_of("low"), field_of("high")
        if bool(low) != bool(high):
            raise SchemaError("a range requires both the smallest and the largest possible value")
        after = field_of("after")
        ends = [_parse_range_end(low, kind, bool(after)), _parse_range_end(high, kind, bool(after))] if low else None
        clips = form.get("outside") and (ends or "edges" in entry)
        facts |= {"range": ends, "after": after or None, "outside": "clip" if clips else None}
    if kind == "real":
        facts["decimals"] = int(field_of("decimals")) if field_of("decimals").isdigit() else None
    if kind == "category":
        lines = [line.strip() for line in form.get("values", "").splitlines() if line.strip()]
        if len(lines) == 1 and "," in lines[0]:
            raise SchemaError("write each value on a separate line, without commas")
        other = str(entry.get("other", "other")) if form.get("outside") and lines else None
        lines += [other] if other and other not in lines else []
        values = _parse_lines_as_values(lines) or None
        facts |= {"values": values, "outside": "other" if other else None, "other": other}
    if kind == "id":
        facts["pattern"] = field_of("pattern") or "{}"
    if kind == "derived":
        facts["formula"] = field_of("formula") or None
    else:
        markers = [each.strip() for each in field_of("markers").split(",") if each.strip()]
        facts["missing"] = (markers or True) if form.get("missing") or markers else None
    return facts


def _parse_range_end(word: str, kind: str, gap: bool) -> Any:
    if kind in ("integer", "real"):
        try:
            return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
        except ValueError:
            raise SchemaError(
                "the ends of a range must be numbers, for example 0 and 1200.50, without units or commas"
            ) from None
    return int(word) if gap and re.fullmatch(r"-?\d+", word) else word


def _parse_lines_as_values(lines: Sequence[str]) -> list[Any]:
    if lines and all(re.fullmatch(r"0|-?[1-9]\d{0,17}", line) for line in lines):
        return [int(line) for line in lines]
    return list(dict.fromkeys(lines))


def _describe_fact(key: str, value: Any) -> str:
    if key == "outside":
        return OUTSIDE.get(str(value), str(value))
    if key == "range" and isinstance(value, list):
        return " to ".join(map(_format_scalar, value))
    if isinstance(value, list):
        text = ", ".join(map(_format_scalar, value))
        if len(text) > _SHORT:
            return f"{len(value)} values: {text[:_SHORT].rpartition(',')[0]}, ..."
        return text
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else _format_scalar(value)


def _format_scalar(value: Any) -> str:
    return (
        value.isoformat(" ")
        if isinstance(value, datetime)
        else value.isoformat()
        if isinstance(value, date)
        else str(value)
    )


_WITH = {"values": ("values", "other", "outside"), "range": ("range", "outside")}
"""Keys taken over with a discovered fact, including the policy for values outside it."""


def fill_open_columns(text: str, found: str) -> str:
    """Return the schema with discovered facts of its open columns; everything stated by the user stays.

    The cost of discovery is recorded with it; costs of several searches add up.
    """
    mine, theirs = tomllib.loads(text), tomllib.loads(found)
    changes = _collect_changes(mine, theirs)
    for column, keys in changes.items():
        text = set_keys(text, column, keys)
    if changes and "discovery" in theirs:
        before = mine.get("discovery", {"epsilon": 0.0, "delta": 0.0})
        text = set_top(text, {"discovery": {key: before[key] + theirs["discovery"][key] for key in before}})
    return text


def list_fillable_columns(text: str, found: str) -> list[str]:
    """Return the open columns of a schema for which discovery found facts."""
    try:
        return list(_collect_changes(tomllib.loads(text), tomllib.loads(found)))
    except (ValueError, SchemaError):
        return []


def _collect_changes(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    columns, known = mine.get("columns", {}), theirs.get("columns", {})
    every = {name: _find_filling_keys(entry, known[name]) for name, entry in columns.items() if name in known}
    return {name: keys for name, keys in every.items() if keys}


def _find_filling_keys(entry: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry.get("kind")
    if found.get("kind") == "unknown":
        return {}
    if kind == "unknown":
        return dict.fromkeys(entry) | dict(found)
    if kind != found.get("kind") or any(key in entry for key in ("edges", "after", "pieces")):
        return {}
    paid = [key for key in FOUND.get(str(kind), ())[1:] if key not in entry and key in found.get("paid", ())]
    keys = {key: found[key] for fact in paid for key in _WITH[fact] if key in found and key not in entry}
    return keys | {"paid": [*entry.get("paid", ()), *paid]} if paid else {}
