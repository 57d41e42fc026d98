"""Write the files of a release: the synthetic table and its card (`weft.release.card`), all or none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """The files of one release, written all or none."""

    data: Path
    card: Path
    card_json: Path
    table: DatabaseTable | None = None
    """The database table that receives the rows; None if they are written to a file."""

    @classmethod
    def of(cls, data: Path | DatabaseTable) -> Files:
        """Name the files of a release after its table; OutputError if the suffix is not that of a known format."""
        if isinstance(data, DatabaseTable):
            return cls(
                data.place, replace_ending(data.place, ".card.md"), replace_ending(data.place, ".card.json"), data
            )
        if get_ending(data) not in list_writable_endings():
            raise OutputError(
                f"cannot determine the output format of {data}. Use .csv or .parquet, or - for CSV on stdout; also "
                f"supported: {', '.join(list_writable_endings()[2:])}."
            )
        return cls(data, replace_ending(data, ".card.md"), replace_ending(data, ".card.json"))

    def __iter__(self) -> Iterator[Path]:
        return iter((*([] if self.table else [self.data]), self.card, self.card_json))


def metadata_files(data: Path | DatabaseTable, formats: Sequence[str]) -> dict[str, Path]:
    """Name the metadata files of a table by format; OutputError for an unknown format."""
    if formats:
        from weft.drafting.exchange import EXPORTS  # drafting takes long to load, and few releases have metadata
    for form in formats:
        if form not in EXPORTS:
            raise OutputError(f"unknown metadata format: {form}. Choose from {', '.join(EXPORTS)}")
    if isinstance(data, DatabaseTable):
        if formats:
            raise OutputError("metadata is not available for tables in databases. Omit it (--metadata)")
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
    """Write a table block by block, its metadata and its cards, all or none, and return the JSON card.

    `conditions` are the conditions that every row was drawn to satisfy; the card states them.
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
            from weft.drafting.exchange import EXPORTS

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
        write_cards(facts, card, card_as_json)
    return facts


def _publish_table(
    fitted: Fitted,
    tables: Iterable[pa.Table],
    files: Files,
    table: DatabaseTable,
    conditions: Sequence[str],
    listener: Listener,
) -> dict[str, Any]:
    """Write a table to a database, and its cards; the rows are committed before the cards appear, or neither is."""
    checks = TableChecks(fitted.codec)
    watched = checks.watch(tables)
    with (
        stage_files(files.card, files.card_json) as (card, card_as_json),
        table.written(watched, listener) as (rows, found),
    ):
        made = checks.statements()
        facts = card_json(fitted, rows, name=table.name, sha256=found, conditions=conditions, statements=made)
        write_cards(facts, card, card_as_json)
    return facts


def write_cards(facts: dict[str, Any], card: Path, card_as_json: Path) -> None:
    """Write the card of a table as Markdown and as JSON."""
    card.write_text(render_card(facts), encoding="utf-8")
    card_as_json.write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
