"""Verify the files of a release against its card, without the private table.

A card is the manifest of its release. Everything that can be derived is recomputed and compared: the hash of the table,
the Markdown page from the JSON card, the cost of every ledger entry, the guarantee from the ledger, the required
warnings, and every rule of the schema on the rows. This detects mixed-up files of different releases, damage and
careless editing. It does not detect forgery, since a forger can write a consistent card: a card proves nothing about
the private rows, which only the curator has seen.
"""

import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.display import format_count
from weft.encoding import Codec
from weft.errors import DataError, WeftError
from weft.file_names import JOURNAL_ENDING
from weft.io.adbc import digest_batches, in_order, list_setup_statements
from weft.io.addresses import kind_of_address
from weft.io.atomic_files import hash_file, recover_files
from weft.io.file_faults import readable_file
from weft.io.formats import find_format, format_of, get_ending, list_writable_endings, replace_ending
from weft.io.formats.csv_files import CSV, SIGNS, escape_name
from weft.io.formats.format import FileLayout, Format
from weft.io.output_tables import DatabaseTable, Dataset
from weft.io.postgres import begin_postgres, postgres_columns
from weft.io.sqlite import begin_sqlite, sqlite_columns
from weft.io.table_addresses import SqliteAddress
from weft.io.table_files import open_files
from weft.privacy import Ledger, Lifetime
from weft.privacy.second_accountant import recount
from weft.release.card import CARD, card_json, render_card
from weft.release.database_release import describe_release, verify_database, verify_database_guarantee
from weft.release.evidence import PACK, check_evidence
from weft.release.row_checks import RowStatement, TableChecks
from weft.release.spark_release import PARTS, dataset_sha256, parts_of
from weft.schema import Column, Schema
from weft.schema.kinds.unknown import Unknown
from weft.schema.type_conversion import convert_type, interpret_values
from weft.synthesis import model_file as modelfile
from weft.synthesis.database_model import FittedDatabase
from weft.synthesis.model_file import warns_of_facts
from weft.synthesis.statement import compute_cost_shares, default_rows, explain_ledger_guarantee
from weft.values.text_numbers import blank_marked_values, is_text


@dataclass(frozen=True)
class Check:
    """Result of one check of `weft verify`."""

    file: str
    what: str
    wrong: str | None = None
    """Why the check failed; None if it did not."""
    skipped: str | None = None
    """Why it was not checked; None if it was."""


@dataclass(frozen=True)
class Findings:
    """Results of all checks of a folder or of one release."""

    checks: tuple[Check, ...]
    recovered: tuple[str, ...] = ()
    """Leftovers of interrupted runs, and how they were resolved."""
    unchecked: tuple[str, ...] = ()
    """Tables without a card."""

    @property
    def wrong(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if check.wrong is not None]

    @property
    def skipped(self) -> list[Check]:
        """The checks that were not made."""
        return [check for check in self.checks if check.skipped is not None]


_BATCH = 1 << 17

Reread = tuple[pa.Table, dict[str, int]]
"""A block of rows, and by column the number of values that do not fit its type."""


def reread_release(file: Path, codec: Codec, escaped: bool) -> Iterator[Reread]:
    """Yield the rows of a released file or folder, in the types before writing; WeftError if they cannot be read."""
    files = parts_of(file) if file.is_dir() else [file]
    typed = _find_release_format(file).is_typed
    names = {escape_name(name) if escaped else name: name for name in codec.arrow_schema.names}
    # Untyped formats are read as text, so that no policy of the schema changes a value.
    schema = codec.schema if typed else Schema(tuple(Unknown(name) for name in names))
    reader = open_files(files, schema, _BATCH)
    if [names.get(name) for name in reader.schema.names] != codec.arrow_schema.names:
        raise WeftError("the columns of the table differ from those of the card")
    for batch, _ in reader.start(reader.schema.names):
        table = pa.Table.from_batches([batch]).rename_columns([names[name] for name in batch.schema.names])
        yield _in_own_types(table, codec) if typed else _in_types(table, codec, escaped)


def _in_own_types(table: pa.Table, codec: Codec) -> Reread:
    """Cast typed rows to the codec's types; some formats store times and durations as text."""
    unreadable: dict[str, int] = {}
    for place, field in enumerate(codec.arrow_schema):
        timed = pa.types.is_time(field.type) or pa.types.is_duration(field.type)
        if timed and is_text(table.schema.field(place).type):
            words = table.column(place).combine_chunks()
            array, unreadable[field.name] = _in_type(words, codec.schema.column(field.name), field.type, escaped=False)
            table = table.set_column(place, field, array)
    return table.cast(codec.arrow_schema), unreadable


def _in_types(table: pa.Table, codec: Codec, escaped: bool) -> Reread:
    arrays, unreadable = [], {}
    for field in codec.arrow_schema:
        column = codec.schema.column(field.name)
        words = table.column(field.name).combine_chunks().cast(pa.string())
        wanted = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array, lost = _in_type(words, column, wanted, escaped)
        unreadable[field.name] = lost
        arrays.append(array)
    types = [pa.field(field.name, array.type) for field, array in zip(codec.arrow_schema, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(types)), unreadable


def _in_type(words: pa.Array, column: Column, wanted: pa.DataType, escaped: bool) -> tuple[pa.Array, int]:
    """Convert a column of text to its type, and count the values that do not fit."""
    if is_text(wanted):
        if escaped:
            words = pc.replace_substring_regex(words, f"^'([{''.join(SIGNS[:2])}\\-{''.join(SIGNS[3:])}])", r"\1")
        gone = column.missing or not (column.modelled or column.kind == "id")
        return (pc.if_else(pc.equal(words, ""), None, words) if gone else words).cast(wanted), 0
    words = pc.if_else(pc.equal(words, ""), None, words)
    number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
    words = interpret_values(words, column) if number else blank_marked_values(words, column.markers)
    strict = replace(column, outside="refuse") if column.outside == "clip" else column
    made, unreadable = convert_type(words, wanted, strict)
    return made, int(unreadable.sum())


WHAT = "content of the rows"


def check_rows(facts: dict[str, Any], name: str, table: Path | None) -> Iterator[Check]:
    """Yield a check for each statement of a card about its rows: values, formulas, per-person constants and rules.

    `name` is the file name of the card, `table` the file that it describes.
    """
    schema = facts["schema"]
    if "codec" not in schema:
        yield Check(name, WHAT, skipped="the card was written by an earlier version of Weft, without the schema")
        return
    if schema["codec"] is None:
        yield Check(name, WHAT, skipped="the card omits the schema, because facts in it were read from the data")
        return
    codec = Codec.from_dict(schema["codec"])
    if [str(rule) for rule in codec.schema.rules] != [rule["rule"] for rule in schema["rules"]]:
        yield Check(name, WHAT, "the rules on the card differ from those of its schema")
        return
    if kind_of_address(str(facts["table"]["file"])) is not None:
        yield Check(name, WHAT, skipped="rows in databases are not checked; export the table to a file to check them")
        return
    if table is None or not table.exists():
        yield Check(name, WHAT, skipped="the table is not a file in the card's folder")
        return
    checks = TableChecks(codec)
    try:
        for rows, unreadable in reread_release(table, codec, facts["table"]["formulas"] == "escape"):
            checks.add(rows, unreadable)
    except WeftError as fault:
        yield Check(name, WHAT, f"the rows cannot be read: {fault}")
        return
    stated = {check["what"]: check["broken_rows"] for check in facts["checks"]}
    for statement in checks.statements():
        yield _compare_statement(name, statement, stated.get(statement.what))
    if facts["table"]["conditions"]:
        yield Check(name, "conditions of the sample", skipped="the card states them as text only")


def _compare_statement(name: str, statement: RowStatement, stated: int | None) -> Check:
    """Compare the result on the rows with that on the card, which may state that some rows break a rule."""
    if statement.broken_rows is None:
        return Check(name, statement.what, skipped=statement.reason)
    if statement.broken_rows == (stated or 0):
        return Check(name, statement.what)
    told = f"{statement.reason}: " if statement.reason else ""
    return Check(
        name, statement.what, f"{told}violated in {format_count(statement.broken_rows, 'row')} ({statement.what})"
    )


_LINES = 1 << 16  # rows per batch


@dataclass(frozen=True)
class Stored:
    """A table as read back from a database."""

    columns: list[str]
    rows: int
    sha256: str


def find_stored_table(name: str) -> DatabaseTable | None:
    """Return the database table that a card names; None for a file. OutputError if the address is invalid."""
    return None if kind_of_address(name) is None else DatabaseTable.of(name)


def may_be_opened(table: DatabaseTable, folder: Path) -> bool:
    """Return whether the table may be opened because a card names it: only a file in the card's folder may.

    A card is untrusted input: connecting to a server that it names would send the user's name and password there.
    """
    if not isinstance(table.address, SqliteAddress):
        return False
    return (folder / table.address.path).resolve().is_relative_to(folder.resolve())


def read_back(table: DatabaseTable, folder: Path) -> Stored:
    """Read a table in one transaction, with paths relative to `folder`; DataError if it cannot be read."""
    address = table.address
    if isinstance(address, SqliteAddress):
        address = replace(address, path=str(folder / address.path))
        snapshot = begin_sqlite(address)
        columns = sqlite_columns(snapshot, address)
    else:
        snapshot = begin_postgres(address)
        columns = postgres_columns(snapshot, address)
    try:
        for statement in list_setup_statements(address):
            snapshot.run(statement)
        return Stored(columns, *digest_batches(snapshot.batches(in_order(address, columns), _LINES)))
    finally:
        snapshot.close()


def card_of_table(table: DatabaseTable, ending: str) -> Path:
    """Return the card of a table, expected in the current folder; WeftError if it does not exist."""
    card = replace_ending(table.place, ending)
    if not card.is_file():
        raise WeftError(
            f"{table.name}: no card ({card.name}) in the current folder. The card of a database table is written to "
            "the folder in which the command was run: change to that folder, or name the card"
        )
    return card


CARD_ENDING = ".card.json"
MAX_CARD = 64 << 20

_NEAR = 1e-9  # relative difference attributed to rounding

_DAMAGED = "cannot be checked: the card is damaged"
_DAMAGE = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, WeftError)

_Back = Callable[[], Stored | str | None]


def verify(place: Path | str, budget: Path | None = None, second_accountant: bool = False) -> Findings:
    """Verify the release of a table or card, or all releases, models and evidence in a folder.

    A database table is named by its address, with its card in the current folder, or by its card, and is read back.

    Given the file of the lifetime budget, also check that it contains the entry of each release: a file that was
    truncated, recreated or replaced by an old copy does not. With `second_accountant`, recompute the epsilon of each
    ledger with dp-accounting.

    Releases that were interrupted while their files were moved are completed first (`weft.io.atomic_files`).
    """
    place, table = _locate(place)
    one = not place.is_dir() or Dataset(place.resolve()).card_json.is_file()
    folder = place.resolve().parent if one and place.is_dir() else place.parent if one else place
    recovered = tuple(recover_files(folder))
    if one:
        card = _only_card(place)
        checks = [*_verify_release(card, table), *_verify_lifetime_entries([card], budget)]
        return Findings((*checks, *(_recount(card) if second_accountant else ())), recovered)
    cards = sorted(folder.glob(f"*{CARD_ENDING}"))
    models = sorted(folder.glob("*.weft"))
    pages = [page for page in sorted(folder.glob("*.card.md")) if page.with_suffix(".json") not in cards]
    packed = (folder / PACK).is_file()
    if not (cards or models or pages or packed):
        raise WeftError(
            f"{place}: no release found. Name a folder with a card ({CARD_ENDING}), a model (.weft) or evidence."
        )
    checks = [check for card in cards for check in _verify_release(card)]
    checks += [Check(page.name, "card", f"its card ({page.with_suffix('.json').name}) is missing") for page in pages]
    checks += [_verify_model(model, cards) for model in models]
    checks += _verify_lifetime_entries(cards, budget)
    checks += [check for card in cards if second_accountant for check in _recount(card)]
    checks += _verify_evidence(folder) if packed else []
    named = {path for card in cards for path in _list_released_tables(_read_card(card), card)}
    tables = [
        path.name
        for path in sorted(folder.iterdir())
        if get_ending(path) in list_writable_endings() and path not in named and not path.name.endswith(JOURNAL_ENDING)
    ]
    return Findings(tuple(checks), recovered, tuple(tables))


def _locate(place: Path | str) -> tuple[Path, DatabaseTable | None]:
    """Return the path of a release, and its database table if it was named by an address."""
    table = find_stored_table(place) if isinstance(place, str) else None
    place = Path(place) if table is None else card_of_table(table, CARD_ENDING)
    if table is not None and _get_nested(_read_card(place), "table", "file") != table.name:
        raise WeftError(f"{place}: this card in the current folder is for another table than {table.name}.")
    if not place.exists():
        raise DataError(f"{place}: no such file or folder")
    return (place.parent if place.name == PACK else place), table


def _only_card(place: Path) -> Path:
    card = Dataset(place.resolve()).card_json if place.is_dir() else _card_of(place)
    if not card.is_file():
        raise WeftError(
            f"{place}: no card ({card.name}) in its folder, so it cannot be verified. Name a table with its card, "
            "a card, or a folder of releases."
        )
    return card


def read_verified_card(place: Path | str) -> dict[str, Any]:
    """Return the card of a table, card, model or folder with one release; WeftError if it fails verification."""
    path, table = _locate(place)
    if path.is_dir() and not Dataset(path.resolve()).card_json.is_file():
        found = sorted(path.glob(f"*{CARD_ENDING}")) or sorted(path.glob("*.weft"))
        if len(found) != 1:
            listed = ", ".join(each.name for each in found) or "none"
            raise WeftError(f"{path}: a folder with one release is needed, and this one has: {listed}. Name its card.")
        path = found[0]
    if path.suffix == ".weft":
        fitted = modelfile.load_any_model(path)
        if isinstance(fitted, FittedDatabase):
            entry = {"file": path.name, "rows": 0, "sha256": hash_file(path), "public": False}
            return _as_read(describe_release(fitted, {"model": entry}, {}))
        return _as_read(card_json(fitted, default_rows(fitted), name=path.name, sha256=hash_file(path)))
    if wrong := verify(path if table is None else place).wrong:
        raise WeftError(
            f"{place}: refused, because the release fails verification ({wrong[0].file}: {wrong[0].wrong}). Restore "
            "the files as they were released; `weft verify` lists all checks."
        )
    return read_card_beside(path)


def _as_read(card: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(card))
    return values


def read_card_beside(place: Path) -> dict[str, Any]:
    """Return the card of a released table; WeftError if it has none."""
    return _read_card(_only_card(place))


def _recount(card: Path) -> Iterator[Check]:
    """Recompute the epsilon of a card's ledger by a second accountant."""
    try:
        for each in recount(Ledger.from_dict(_read_card(card)["ledger"])):
            wrong = f"dp-accounting finds epsilon {each.dp_accounting:.5g}, Weft {each.weft:.5g}, of {each.stated:.5g}"
            part = f" for {each.part}" if each.part else ""
            yield Check(card.name, f"second accountant agrees{part}", None if each.agrees else wrong)
    except KeyError:
        yield Check(card.name, "second accountant agrees", _DAMAGED)


def _verify_evidence(folder: Path) -> Iterator[Check]:
    """Verify an evidence pack, and the card in it."""
    try:
        facts = json.loads((folder / PACK).read_bytes())["card"]
        steps = (
            (_verify_ledger, _verify_guarantee, _verify_stamps) if "table" in facts else (verify_database_guarantee,)
        )
        for step in steps:
            yield Check(PACK, f"{step.__name__.removeprefix('_verify_')} of the card", step(facts, folder))
        yield from (Check(*found) for found in check_evidence(folder))
    except _DAMAGE as error:
        told = str(error) if isinstance(error, WeftError) else "cannot be checked: the evidence is damaged"
        yield Check(PACK, "evidence", told)


def _card_of(place: Path) -> Path:
    if place.name.endswith(CARD_ENDING):
        return place
    return place.with_suffix(".json") if place.name.endswith(".card.md") else replace_ending(place, CARD_ENDING)


def _read_card(card: Path) -> dict[str, Any]:
    """Read a JSON card; an empty dictionary if it is invalid."""
    try:
        if card.stat().st_size > MAX_CARD:
            return {}
        facts = json.loads(card.read_bytes())
        return facts if isinstance(facts, dict) else {}
    except _DAMAGE:
        return {}


def _get_nested(facts: Any, *keys: str) -> Any:
    """Return the value under nested keys; None if it is absent or a level is not a dictionary."""
    for key in keys:
        facts = facts.get(key) if isinstance(facts, dict) else None
    return facts


def _find_released_table(facts: dict[str, Any], card: Path) -> Path | None:
    """Return the file that a card names, in the card's folder; None if the name is invalid or leads elsewhere."""
    try:
        name = str(facts["table"]["file"])
        return card.with_name(name) if name == Path(name).name and name != ".." else None
    except _DAMAGE:
        return None


def _list_released_tables(facts: dict[str, Any], card: Path) -> list[Path | None]:
    """Return the files that a card names: one table, or related tables."""
    tables = facts.get("tables")
    if isinstance(tables, dict):
        return [_find_released_table({"table": entry}, card) for entry in tables.values()]
    return [_find_released_table(facts, card)]


def _verify_release(card: Path, named: DatabaseTable | None = None) -> Iterator[Check]:
    """Check one card and its files; `named` is its database table, if the user named it."""
    facts = _read_card(card)
    if facts.get("card") != CARD:
        newer = isinstance(facts.get("card"), int) and facts["card"] > CARD
        told = "written by a newer Weft. Update weft to check it" if newer else "not a card of this version, or damaged"
        yield Check(card.name, "card", told)
        return
    if "tables" in facts:  # related tables
        try:
            yield from (Check(*found) for found in verify_database(facts, card))
        except _DAMAGE:
            yield Check(card.name, "card of related tables", _DAMAGED)
        return
    back = cache(partial(_read_back, facts, card, named))
    steps: list[tuple[str, str, Callable[[dict[str, Any], Path], str | None]]] = [
        (_page_of(card).name, "page matches the JSON card", _verify_page),
        (card.name, "table matches the card", partial(_verify_hash, back=back)),
        (card.name, "columns and types", partial(_verify_columns, back=back)),
        (card.name, "ledger, with recomputed costs", _verify_ledger),
        (card.name, "guarantee follows from the ledger", _verify_guarantee),
        (card.name, "warnings that are required", _verify_stamps),
    ]
    for file, what, step in steps:
        try:
            yield Check(file, what, step(facts, card))
        except _DAMAGE:
            yield Check(file, what, _DAMAGED)
    try:
        yield from check_rows(facts, card.name, _find_released_table(facts, card))
    except _DAMAGE:
        yield Check(card.name, "content of the rows", _DAMAGED)


def _verify_lifetime_entries(cards: list[Path], budget: Path | None) -> Iterator[Check]:
    """Check that the file of a lifetime budget contains the entry of each release."""
    if budget is None:
        return
    known = Lifetime(budget).state().hashes
    for card in cards:
        privacy = _get_nested(_read_card(card), "privacy")
        said = _get_nested(privacy, "lifetime")
        wrong: str | None = None
        if not isinstance(privacy, dict) or not isinstance(said, dict | None):
            wrong = _DAMAGED
        elif said is None:
            wrong = "the release did not draw from a lifetime budget"
        elif _get_nested(said, "head") not in known:
            wrong = f"{budget} does not contain the entry of this release: it is another file, or was truncated"
        yield Check(card.name, "entry in the lifetime budget", wrong)


def _page_of(card: Path) -> Path:
    return card.with_suffix(".md")


def _verify_page(facts: dict[str, Any], card: Path) -> str | None:
    page = _page_of(card)
    if not page.is_file():
        return "the page is missing"
    return (
        None if page.read_bytes() == render_card(facts).encode() else "the page is of another release, or was modified"
    )


def _verify_hash(facts: dict[str, Any], card: Path, back: _Back) -> str | None:
    if (found := back()) is not None:
        if isinstance(found, str):
            return found
        if found.rows != facts["table"]["rows"]:
            return f"the card states {facts['table']['rows']} rows, but the table has {found.rows}"
        return None if found.sha256 == facts["table"]["sha256"] else _describe_change(facts["table"]["file"])
    table = _find_released_table(facts, card)
    if table is None or not table.exists():
        return f"the table {facts['table']['file']} is not in the card's folder"
    same = (dataset_sha256(table) if table.is_dir() else hash_file(table)) == facts["table"]["sha256"]
    return None if same else _describe_change(table.name)


def _describe_change(name: str) -> str:
    return f"{name} does not match the card: it is another table, or was modified"


def _read_back(facts: dict[str, Any], card: Path, named: DatabaseTable | None) -> Stored | str | None:
    """Read a card's table back from its database, or return why it was not read; None if the table is a file."""
    table = find_stored_table(str(facts["table"]["file"]))
    if table is None:
        return None
    folder = card.resolve().parent
    if named is None and not may_be_opened(table, folder):
        command = f"weft verify {shlex.quote(table.name)}"  # users paste it, and the name in the card is untrusted
        return f"not read back: a card may not choose which database is opened. Name the table yourself: {command}"
    try:
        return read_back(named or table, folder)
    except DataError as unread:
        return f"cannot be read back: {unread}"


def _verify_columns(facts: dict[str, Any], card: Path, back: _Back) -> str | None:
    if (stored := back()) is not None:  # databases have their own types: only names are compared
        if isinstance(stored, str):
            return "not checked: the table was not read back"
        same = stored.columns == [column["name"] for column in facts["columns"]]
        return None if same else "the columns of the table differ from those of the card"
    table = _find_released_table(facts, card)
    if table is None or not table.exists():
        return "there is no table to compare with"
    said = [(column["name"], column["type"]) for column in facts["columns"]]
    form = _find_release_format(table)
    layouts = [_read_file_layout(form, path) for path in (parts_of(table) if table.is_dir() else [table])]
    counts = [each.rows for each in layouts if each.rows is not None]
    if len(counts) == len(layouts) and sum(counts) != facts["table"]["rows"]:
        return f"the card states {facts['table']['rows']} rows, but the table has {sum(counts)}"
    if form.is_typed:
        wanted = _list_expected_columns(form, facts, said)
        typed = any(kind for _, kind in wanted)
        declared = ([(f.name, str(f.type) if typed else "") for f in each.types or ()] for each in layouts)
        same = all(columns == wanted for columns in declared)
        return None if same else "the columns or types of the table differ from those of the card"
    shown = escape_name if facts["table"]["formulas"] == "escape" else str
    names = [shown(name) for name, _ in said]
    same = all(each.names in (names, None) for each in layouts)
    return None if same else "the columns of the table differ from those of the card"


def _find_release_format(table: Path) -> Format:
    """Return the format of a released table; a folder contains parts written by Spark."""
    return (find_format(PARTS) if table.is_dir() else format_of(table)) or CSV


def _read_file_layout(form: Format, path: Path) -> FileLayout:
    with readable_file(path):
        return form.read_layout(path)


def _list_expected_columns(form: Format, facts: dict[str, Any], said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the columns on a card with the types that the format declares for them; empty if unknown."""
    if form.keeps_types:
        return said
    codec = facts["schema"].get("codec")
    if codec is None:  # the card has names of types, not the types themselves
        return [(name, "") for name, _ in said]
    arrow = Codec.from_dict(codec).arrow_schema
    same = [(field.name, str(field.type)) for field in arrow] == said
    return [(field.name, str(form.stored_type(field.type))) for field in arrow] if same else said


def _verify_ledger(facts: dict[str, Any], _card: Path) -> str | None:
    stated = facts["ledger"]
    ledger = Ledger.from_dict(stated)  # recomputes every cost, and refuses an overspent ledger
    priced = ledger.to_dict()
    if not math.isclose(priced["capacity"], stated["capacity"], rel_tol=_NEAR):
        return "the stated capacity of the ledger does not follow from its budget"
    pairs = zip(priced["entries"], stated["entries"], strict=True)
    if not all(math.isclose(own["cost"], said["cost"], rel_tol=_NEAR, abs_tol=1e-300) for own, said in pairs):
        return "the stated cost of a ledger entry differs from the recomputed cost"
    if not _agree_closely(compute_cost_shares(ledger), facts["costs"]):
        return "the stated shares of the budget do not follow from the ledger"
    return None


def _verify_guarantee(facts: dict[str, Any], _card: Path) -> str | None:
    privacy, ledger = facts["privacy"], Ledger.from_dict(facts["ledger"])
    statement = ledger.spend_statement()
    follows = {
        "epsilon": None if ledger.deniable else statement.epsilon,
        "delta": None if ledger.deniable else statement.delta,
        "neighbours": str(ledger.adjacency),
        "relation": ledger.adjacency.relation,
        "rows_per_unit": ledger.adjacency.rows_per_unit,
        "accounting": ledger.accounting.name,
        "budget_used": min(ledger.used, 1.0),
    }
    for name, value in follows.items():
        if not _agree_closely(value, privacy[name]):
            return f"the stated {name} does not follow from the ledger"
    # A table whose unit column is called "row" has the same card entry as one without a unit.
    if privacy["meaning"] not in {explain_ledger_guarantee(ledger, unit) for unit in (None, privacy["unit"])}:
        return "the explanation of the guarantee does not follow from the ledger"
    return None


def _verify_stamps(facts: dict[str, Any], _card: Path) -> str | None:
    ledger = Ledger.from_dict(facts["ledger"])  # adds the warnings that its budget and entries require
    stamps = facts["stamps"]
    if list(ledger.stamps) != stamps:
        return "the warnings on the card differ from those of the ledger"
    marked = [fact for column in facts["columns"] for fact in column["from_data"]]
    if (marked or facts["schema"]["facts_read_from_the_data"]) and not warns_of_facts(stamps):
        return "schema facts were read from the private table, but the warning about them is missing"
    return None


def _agree_closely(own: Any, said: Any) -> bool:
    """Return whether two plain values agree, floats up to rounding."""
    if isinstance(own, dict):
        return (
            isinstance(said, dict) and own.keys() == said.keys() and all(_agree_closely(own[k], said[k]) for k in own)
        )
    if isinstance(own, float):
        return isinstance(said, int | float) and math.isclose(own, said, rel_tol=_NEAR, abs_tol=1e-300)
    return bool(own == said)


def _verify_model(model: Path, cards: list[Path]) -> Check:
    """Check that a model file loads, and name the cards of tables sampled from it."""
    try:
        fitted = modelfile.load_any_model(model)
    except WeftError as error:
        return Check(model.name, "model file", str(error))
    if isinstance(fitted, FittedDatabase):
        ledger = json.loads(json.dumps(fitted.ledger.to_dict()))
        own = [card.name for card in cards if _get_nested(_read_card(card), "ledger") == ledger]
        return Check(model.name, f"model file, the source of {', '.join(own)}" if own else "model file")
    own = json.loads(json.dumps([fitted.method, fitted.options, fitted.ledger.to_dict()]))
    made = [card.name for card in cards if _get_fit_identity(_read_card(card)) == own]
    return Check(model.name, f"model file, the source of {', '.join(made)}" if made else "model file")


def _get_fit_identity(facts: dict[str, Any]) -> Any:
    try:
        return [facts["method"]["name"], facts["method"]["options"], facts["ledger"]]
    except _DAMAGE:
        return None
