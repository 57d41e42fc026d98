"""The released files: the synthetic table and its card (`weft.release.card`), written together or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.drafting.exchange import EXPORTS
from weft.errors import OutputError
from weft.io.atomic_files import hash_file, stage_files
from weft.io.formats import format_of, get_ending, list_writable_endings, replace_ending
from weft.io.formats.format import Formulas
from weft.io.output_tables import DatabaseTable
from weft.io.table_files import write_table
from weft.progress import Listener, ignore_event
from weft.release.card import card_json, render_card
from weft.release.row_checks import TableChecks
from weft.synthesis.fitted import Fitted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Files:
    """The files of one release, which stand or fall together."""

    data: Path
    card: Path
    card_json: Path
    table: DatabaseTable | None = None
    """Where the rows go, if that is no file."""

    @classmethod
    def of(cls, data: Path | DatabaseTable) -> Files:
        """Name the files of a release after its table; OutputError if its suffix names no format."""
        if isinstance(data, DatabaseTable):
            return cls(
                data.place, replace_ending(data.place, ".card.md"), replace_ending(data.place, ".card.json"), data
            )
        if get_ending(data) not in list_writable_endings():
            raise OutputError(
                f"cannot tell the format of {data}: name it .csv or .parquet, or - for CSV on stdout. "
                f"Others are {', '.join(list_writable_endings()[2:])}."
            )
        return cls(data, replace_ending(data, ".card.md"), replace_ending(data, ".card.json"))

    def __iter__(self) -> Iterator[Path]:
        return iter((*([] if self.table else [self.data]), self.card, self.card_json))


def metadata_files(data: Path | DatabaseTable, formats: Sequence[str]) -> dict[str, Path]:
    """Name the files of metadata beside a table, by format; OutputError for a format that nobody knows."""
    for form in formats:
        if form not in EXPORTS:
            raise OutputError(f"{form} is no format of metadata; known are {', '.join(EXPORTS)}")
    if isinstance(data, DatabaseTable):
        if formats:
            raise OutputError("metadata describes a file, and the rows go into a database; leave it out")
        return {}
    return {form: replace_ending(data, f".{form}.json") for form in formats}


def publish(
    fitted: Fitted,
    tables: Iterable[pa.Table],
    files: Files,
    *,
    formulas: Formulas = "keep",
    conditions: Sequence[str] = (),
    metadata: Sequence[str] = (),
    listener: Listener = ignore_event,
) -> dict[str, Any]:
    """Write a table, block by block, its metadata in these formats, and its cards: all or none. Return the card.

    `conditions` are those that every row was asked to meet, if any: the card tells them.
    """
    if files.table is not None:
        return _publish_table(fitted, tables, files, files.table, conditions, listener)
    suffix, checks = get_ending(files.data), TableChecks(fitted.codec)
    beside_it = metadata_files(files.data, metadata)
    with stage_files(files.data, *beside_it.values(), files.card, files.card_json) as (
        data,
        *described,
        card,
        card_as_json,
    ):
        watched = checks.watch(tables)
        rows = write_table(watched, data, suffix, formulas=formulas, schema=fitted.schema, listener=listener)
        for file, form in zip(described, beside_it, strict=True):
            made = EXPORTS[form](fitted.schema, files.data.name)
            file.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written = format_of(files.data)
        done = formulas if written is not None and written.escapes_formulas else None
        facts = card_json(
            fitted,
            rows,
            name=files.data.name,
            sha256=hash_file(data),
            formulas=done,
            conditions=conditions,
            statements=checks.statements(),
        )
        _write_cards(facts, card, card_as_json)
    return facts


def _publish_table(
    fitted: Fitted,
    tables: Iterable[pa.Table],
    files: Files,
    table: DatabaseTable,
    conditions: Sequence[str],
    listener: Listener,
) -> dict[str, Any]:
    """Write a table into a database, and its cards: the rows are there before the cards are, or neither is."""
    checks = TableChecks(fitted.codec)
    watched = checks.watch(tables)
    with (
        stage_files(files.card, files.card_json) as (card, card_as_json),
        table.written(watched, listener) as (rows, found),
    ):
        made = checks.statements()
        facts = card_json(fitted, rows, name=table.name, sha256=found, conditions=conditions, statements=made)
        _write_cards(facts, card, card_as_json)
    return facts


def _write_cards(facts: dict[str, Any], card: Path, card_as_json: Path) -> None:
    card.write_text(render_card(facts), encoding="utf-8")
    card_as_json.write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
