"""Whether the files of a release are what its card says: what a stranger can check without the private table.

A card is the manifest of its release. Everything that follows from something else in it is computed anew and compared:
the hash of the table, the page from the card's own JSON, the guarantee from the ledger, whose entries are priced
again, and the warnings that facts of the card demand. That finds files of different releases beside each other,
damage, and careless editing. It does not find a forger, who can write a card that agrees with itself: a card
proves nothing about rows that nobody but the curator has seen.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from weft.errors import DataError, WeftError
from weft.files import beside, ending, format_of
from weft.privacy import Ledger, Lifetime
from weft.release import modelfile
from weft.release.atomic import recover, sha256
from weft.release.card import CARD, markdown
from weft.release.dataset import dataset_sha256, parts_of
from weft.release.modelfile import warns_of_facts
from weft.release.statement import costs, meaning_of
from weft.release.stored import Stored, card_of_table, may_be_opened, read_back, stored_table
from weft.release.tables import DatabaseTable, Dataset
from weft.release.writing import FORMATS, escaped_name

CARD_ENDING = ".card.json"
MAX_CARD = 64 << 20
"""Bytes past which a file is no card."""

_NEAR = 1e-9
"""Relative difference that is the rounding of another machine."""

_DAMAGED = "cannot be checked: the card is damaged"
_DAMAGE = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, WeftError)

_Back = Callable[[], Stored | str | None]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    file: str
    what: str
    wrong: str | None = None
    """What does not hold; None if all is well."""


@dataclass(frozen=True)
class Findings:
    """What was found in a folder, or about one release."""

    checks: tuple[Check, ...]
    recovered: tuple[str, ...] = ()
    """What an interrupted run had left, and what was done about it."""
    unchecked: tuple[str, ...] = ()
    """Tables without a card, of which nothing is claimed."""

    @property
    def wrong(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if check.wrong is not None]


def verify(place: Path | str, budget: Path | None = None) -> Findings:
    """Check the release that a table or a card belongs to, or all releases and models in a folder.

    A table of a database is named by its address, or by its card in this folder, and read back from there.

    With the lifetime budget of the table, also that its file still has the entry at which each release was made: a file
    that was cut, made anew or replaced by an old copy has not.

    Releases that were interrupted while their files were moved are finished first (`weft.release.atomic`).
    """
    table = stored_table(place) if isinstance(place, str) else None
    place = Path(place) if table is None else card_of_table(table, CARD_ENDING)
    if table is not None and _said(_facts(place), "table", "file") != table.name:
        raise WeftError(f"{place}, the card of that name in this folder, is for another table than {table.name}.")
    if not place.exists():
        raise DataError(f"{place}: no such file or folder")
    one = not place.is_dir() or Dataset(place.resolve()).card_json.is_file()
    folder = place.resolve().parent if one and place.is_dir() else place.parent if one else place
    recovered = tuple(recover(folder))
    if one:
        card = Dataset(place.resolve()).card_json if place.is_dir() else _card_of(place)
        if not card.is_file():
            raise WeftError(f"{place}: there is no card ({card.name}) beside it: it is no release, or a part of one.")
        return Findings((*_release(card, table), *_entries([card], budget)), recovered)
    cards = sorted(folder.glob(f"*{CARD_ENDING}"))
    models = sorted(folder.glob("*.weft"))
    pages = [page for page in sorted(folder.glob("*.card.md")) if page.with_suffix(".json") not in cards]
    if not (cards or models or pages):
        raise WeftError(f"{place}: no release is here: no card ({CARD_ENDING}) and no model (.weft).")
    checks = [check for card in cards for check in _release(card)]
    checks += [Check(page.name, "card", f"its card ({page.with_suffix('.json').name}) is missing") for page in pages]
    checks += [_model(model, cards) for model in models]
    checks += _entries(cards, budget)
    named = {_table(_facts(card), card) for card in cards}
    tables = [path for path in sorted(folder.iterdir()) if ending(path) in FORMATS and path not in named]
    return Findings(tuple(checks), recovered, tuple(path.name for path in tables))


def _card_of(place: Path) -> Path:
    if place.name.endswith(CARD_ENDING):
        return place
    return place.with_suffix(".json") if place.name.endswith(".card.md") else beside(place, CARD_ENDING)


def _facts(card: Path) -> dict[str, Any]:
    """Return what a card says; an empty mapping if it is none."""
    try:
        if card.stat().st_size > MAX_CARD:
            return {}
        facts = json.loads(card.read_bytes())
        return facts if isinstance(facts, dict) else {}
    except _DAMAGE:
        return {}


def _said(facts: Any, *keys: str) -> Any:
    """Return what stands under a key of a key; None where there is none, whatever shape a card has."""
    for key in keys:
        facts = facts.get(key) if isinstance(facts, dict) else None
    return facts


def _table(facts: dict[str, Any], card: Path) -> Path | None:
    """Return the table that a card is for, which lies beside it."""
    try:
        name = str(facts["table"]["file"])
        return card.with_name(name) if name == Path(name).name and name != ".." else None
    except _DAMAGE:
        return None


def _release(card: Path, named: DatabaseTable | None = None) -> Iterator[Check]:
    """Check one card, and what it speaks of; `named` is its table of a database, if the user named it."""
    facts = _facts(card)
    if facts.get("card") != CARD:
        newer = isinstance(facts.get("card"), int) and facts["card"] > CARD
        told = "written by a newer Weft: update weft to check it" if newer else "not a card of this version, or damaged"
        yield Check(card.name, "card", told)
        return
    back = cache(partial(_read_back, facts, card, named))
    steps: list[tuple[str, str, Callable[[dict[str, Any], Path], str | None]]] = [
        (_page_of(card).name, "page says what the card says", _page),
        (card.name, "table is the one that the card is for", partial(_hash, back=back)),
        (card.name, "columns and types", partial(_columns, back=back)),
        (card.name, "ledger, priced again", _ledger),
        (card.name, "guarantee follows from the ledger", _guarantee),
        (card.name, "warnings that must be there", _stamps),
    ]
    for file, what, step in steps:
        try:
            yield Check(file, what, step(facts, card))
        except _DAMAGE:
            yield Check(file, what, _DAMAGED)


def _entries(cards: list[Path], budget: Path | None) -> Iterator[Check]:
    """Look for the entries of releases in a lifetime budget."""
    if budget is None:
        return
    known = Lifetime(budget).state().hashes
    for card in cards:
        privacy = _said(_facts(card), "privacy")
        said = _said(privacy, "lifetime")
        wrong: str | None = None
        if not isinstance(privacy, dict) or not isinstance(said, dict | None):
            wrong = _DAMAGED
        elif said is None:
            wrong = "the release did not draw from a lifetime budget"
        elif _said(said, "head") not in known:
            wrong = f"{budget} has no such entry: it is another file, or was cut"
        yield Check(card.name, "entry of the lifetime budget", wrong)


def _page_of(card: Path) -> Path:
    return card.with_suffix(".md")


def _page(facts: dict[str, Any], card: Path) -> str | None:
    page = _page_of(card)
    if not page.is_file():
        return "the page is missing"
    return None if page.read_bytes() == markdown(facts).encode() else "the page is of another release, or was changed"


def _hash(facts: dict[str, Any], card: Path, back: _Back) -> str | None:
    if (found := back()) is not None:
        if isinstance(found, str):
            return found
        if found.rows != facts["table"]["rows"]:
            return f"the card says {facts['table']['rows']} rows, the table has {found.rows}"
        return None if found.sha256 == facts["table"]["sha256"] else _changed(facts["table"]["file"])
    table = _table(facts, card)
    if table is None or not table.exists():
        return f"the table {facts['table']['file']} is not beside the card"
    same = (dataset_sha256(table) if table.is_dir() else sha256(table)) == facts["table"]["sha256"]
    return None if same else _changed(table.name)


def _changed(name: str) -> str:
    return f"{name} is another table, or was changed since it was made"


def _read_back(facts: dict[str, Any], card: Path, named: DatabaseTable | None) -> Stored | str | None:
    """Return what a database holds of a card's table, or why it was not read; None if the table is a file."""
    table = stored_table(str(facts["table"]["file"]))
    if table is None:
        return None
    folder = card.resolve().parent
    if named is None and not may_be_opened(table, folder):
        command = f"weft verify {shlex.quote(table.name)}"  # to be pasted, and the name is whoever wrote the card's
        return f"not read back: no card decides which database is opened. Name the table: {command}"
    try:
        return read_back(named or table, folder)
    except DataError as unread:
        return f"cannot be read back: {unread}"


def _columns(facts: dict[str, Any], card: Path, back: _Back) -> str | None:
    if (stored := back()) is not None:  # the types are the database's own
        if isinstance(stored, str):
            return "not checked: the table was not read back"
        same = stored.columns == [column["name"] for column in facts["columns"]]
        return None if same else "the table's columns differ from the card's"
    table = _table(facts, card)
    if table is None or not table.exists():
        return "there is no table to compare with"
    said = [(column["name"], column["type"]) for column in facts["columns"]]
    if table.is_dir():
        return _columns_of_parts(table, facts, said)
    kind = format_of(table)
    if kind in ("parquet", "arrow"):
        from weft.reading.typed import arrow_schema, parquet_schema

        schema, rows = parquet_schema(table) if kind == "parquet" else (arrow_schema(table), facts["table"]["rows"])
        if rows != facts["table"]["rows"]:
            return f"the card says {facts['table']['rows']} rows, the table has {rows}"
        found = [(field.name, str(field.type)) for field in schema]
        return None if found == said else "the table's columns or types differ from the card's"
    shown = escaped_name if facts["table"]["formulas"] == "escape" else str
    names = [shown(name) for name, _ in said]
    return None if _names(table, kind) in (names, None) else "the table's columns differ from the card's"


def _columns_of_parts(folder: Path, facts: dict[str, Any], said: list[tuple[str, str]]) -> str | None:
    from weft.reading.typed import parquet_schema

    found = [parquet_schema(path) for path in parts_of(folder)]
    rows = sum(each for _, each in found)
    if rows != facts["table"]["rows"]:
        return f"the card says {facts['table']['rows']} rows, the table has {rows}"
    same = all([(field.name, str(field.type)) for field in schema] == said for schema, _ in found)
    return None if same else "the table's columns or types differ from the card's"


def _names(table: Path, kind: str | None) -> list[str] | None:
    """Return the names of a table's columns; None for an empty file of JSON lines, which has none."""
    from weft.reading.csv import csv_names
    from weft.reading.excel import excel_names
    from weft.reading.jsonl import jsonl_names

    if kind == "jsonl":
        return jsonl_names(table)
    return excel_names(table) if kind == "excel" else csv_names(table)


def _ledger(facts: dict[str, Any], _card: Path) -> str | None:
    stated = facts["ledger"]
    ledger = Ledger.from_dict(stated)  # prices every entry again, and refuses an overspent one
    priced = ledger.to_dict()
    if not math.isclose(priced["capacity"], stated["capacity"], rel_tol=_NEAR):
        return "its budget is not what it says that may be spent"
    pairs = zip(priced["entries"], stated["entries"], strict=True)
    if not all(math.isclose(own["cost"], said["cost"], rel_tol=_NEAR, abs_tol=1e-300) for own, said in pairs):
        return "an entry does not cost what it says"
    if not _near(costs(ledger), facts["costs"]):
        return "the shares of the budget do not add up to what the card says"
    return None


def _guarantee(facts: dict[str, Any], _card: Path) -> str | None:
    privacy, ledger = facts["privacy"], Ledger.from_dict(facts["ledger"])
    statement = ledger.spend_statement()
    follows = {
        "epsilon": None if ledger.deniable else statement.epsilon,
        "delta": None if ledger.deniable else statement.delta,
        "neighbours": str(ledger.adjacency),
        "relation": ledger.adjacency.relation,
        "rows_per_unit": ledger.adjacency.rows_per_unit,
        "accounting": ledger.accounting,
        "budget_used": min(ledger.used, 1.0),
    }
    for name, value in follows.items():
        if not _near(value, privacy[name]):
            return f"{name} is not what the ledger gives"
    # A table whose unit column is called "row" is told like one that has none.
    if privacy["meaning"] not in {meaning_of(ledger, unit) for unit in (None, privacy["unit"])}:
        return "what it promises to people is not what the ledger gives"
    return None


def _stamps(facts: dict[str, Any], _card: Path) -> str | None:
    ledger = Ledger.from_dict(facts["ledger"])  # adds what follows from its budget and its entries
    stamps = facts["stamps"]
    if list(ledger.stamps) != stamps:
        return "a warning of the ledger is missing"
    marked = [fact for column in facts["columns"] for fact in column["from_data"]]
    if (marked or facts["schema"]["facts_read_from_the_data"]) and not warns_of_facts(stamps):
        return "facts were read from the private table, and nothing warns of it"
    return None


def _near(own: Any, said: Any) -> bool:
    """Whether two plain values agree, numbers up to rounding."""
    if isinstance(own, dict):
        return isinstance(said, dict) and own.keys() == said.keys() and all(_near(own[k], said[k]) for k in own)
    if isinstance(own, float):
        return isinstance(said, int | float) and math.isclose(own, said, rel_tol=_NEAR, abs_tol=1e-300)
    return bool(own == said)


def _model(model: Path, cards: list[Path]) -> Check:
    """Check that a model file loads; say which of the tables it made."""
    try:
        fitted = modelfile.load(model)
    except WeftError as error:
        return Check(model.name, "model file", str(error))
    own = json.loads(json.dumps([fitted.method, fitted.options, fitted.ledger.to_dict()]))
    made = [card.name for card in cards if _made(_facts(card)) == own]
    return Check(model.name, f"model file, which made {', '.join(made)}" if made else "model file")


def _made(facts: dict[str, Any]) -> Any:
    try:
        return [facts["method"]["name"], facts["method"]["options"], facts["ledger"]]
    except _DAMAGE:
        return None
