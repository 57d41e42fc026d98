"""`weft synth` and `weft sample` for related tables: several files in, a folder of files and one card out."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.discovered_schema import found_beside, keep_found, show_discovered_columns
from weft.cli.failure import guard_command
from weft.cli.fit_options import (
    FitOptions,
    check_files,
    check_request,
    check_size,
    fit_table,
    is_incomplete,
    journal_beside,
)
from weft.cli.output_files import PURPOSES, confirm_overwrite
from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.errors import OutputError
from weft.io.addresses import kind_of_address
from weft.io.atomic_files import stage_files
from weft.io.formats import get_ending, list_writable_endings

if TYPE_CHECKING:
    from weft.schema.database import Database
    from weft.synthesis.fit_request import FitRequest
    from weft.synthesis.synthesizer import Synthesizer


def describes_several_tables(schema: str | None) -> bool:
    """Return whether a schema file describes related tables."""
    if schema is None:
        return False
    from weft.schema.database import is_database_document

    return is_database_document(schema)


def is_related_model(path: Path) -> bool:
    """Return whether a model file is of related tables."""
    try:
        with zipfile.ZipFile(path) as file:
            return "database.json" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def list_outputs(database: Database, folder: Path, ending: str) -> dict[str, Path]:
    """Return the files that a release writes to a folder, by role."""
    tables = {f"the table {table.name}": folder / f"{table.name}{ending}" for table in database.tables}
    return tables | {"its card": folder / "database.card.md", "its card as JSON": folder / "database.card.json"}


def find_ending(database: Database, sources: dict[str, Any]) -> str:
    """Return the file ending of the output: that of the root's file, or .csv."""
    source = sources[database.root]
    ending = "" if kind_of_address(str(source)) else get_ending(Path(str(source)))
    return ending if ending in list_writable_endings() else ".csv"


def synth_database(
    options: FitOptions, output: str, terminal: Terminal, rows: int | None, model: str | None, overwrite: bool
) -> None:
    """Make synthetic copies of related tables in a folder."""
    folder = Path(output)
    with guard_command(terminal):
        _check_folder(output)
        request = options.request(journal_beside(folder, options.journal))
    synth_tables(request, folder, terminal, rows, None if model is None else Path(model), overwrite)


def _check_folder(output: str) -> None:
    if output == "-" or kind_of_address(output) or Path(output).is_file():
        raise OutputError("related tables are written to a folder, as one file each: name one with -o FOLDER")


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder for the output, and remove it again if nothing was written to it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # it has files
            for each in missing:
                each.rmdir()


def synth_tables(
    request: FitRequest, folder: Path, terminal: Terminal, rows: int | None, kept: Path | None, overwrite: bool
) -> None:
    """Make synthetic copies of related tables by a request whose journal is named."""
    from weft.release.database_release import publish_database
    from weft.synthesis.database_plan import name_sources, read_database

    spending = Path(str(request.journal))
    with guard_command(terminal, spending, kept) as rescue, new_folder(folder):
        database = read_database(request.schema)
        sources = name_sources(database, request.source, request.schema)
        ending = find_ending(database, sources)
        targets = list_outputs(database, folder, ending) | ({"the model": kept} if kept else {})
        if database.incomplete:
            targets["the discovered schema"] = folder / "database.schema.toml"
        check_request(replace(request, source=None), terminal, targets)
        check_files({f"the table {name}": str(path) for name, path in sources.items()}, targets)
        confirm_overwrite(terminal, targets, overwrite)
        with terminal.progress() as listener:
            synthesizer = fit_table(request, None, listener, rescue.hold)
            if kept is not None:
                synthesizer.save(kept)
                rescue.safe()
            tables = synthesizer.sample_tables(rows, seed=request.seed, listener=listener)
            card = publish_database(synthesizer.related_, tables, folder, ending)
        rescue.safe()
        if database.incomplete:
            with stage_files(targets["the discovered schema"]) as (file,):
                file.write_text(synthesizer.related_.database.to_toml(), encoding="utf-8")
        _tell(terminal, synthesizer, card, targets | {"the journal": spending}, f"weft verify {folder}")


def states_time(schema: str | None) -> bool:
    """Return whether a schema file of one table states a time column, so that its rows are histories."""
    from weft.errors import SchemaError
    from weft.schema import Schema

    try:
        return schema is not None and Schema.load(schema).time is not None
    except SchemaError:  # reported where the schema is read
        return False


def list_history_outputs(out: Path) -> dict[str, Path]:
    """Return the files that a release of histories writes, by role."""
    cards = {"its card": out.with_suffix(".card.md"), "its card as JSON": out.with_suffix(".card.json")}
    return {"the table": out} | cards


def synth_history(
    options: FitOptions, output: str, terminal: Terminal, rows: int | None, model: str | None, overwrite: bool
) -> None:
    """Make a synthetic copy of a table whose rows are histories."""
    from weft.release.database_release import publish_history

    out, kept = Path(output), None if model is None else Path(model)
    spending = journal_beside(out, options.journal)
    with guard_command(terminal, spending, kept) as rescue:
        _check_history_output(output)
        request = options.request(spending)
        found = found_beside(out) if is_incomplete(request) else None
        targets = list_history_outputs(out) | ({"the model": kept} if kept else {})
        targets |= {"the discovered schema": found} if found else {}
        check_request(request, terminal, targets)
        confirm_overwrite(terminal, targets, overwrite)
        check_size(request, terminal, few_rows=options.few_rows)
        with terminal.progress() as listener:
            synthesizer = fit_table(request, None, listener, rescue.hold)
            if kept is not None:
                synthesizer.save(kept)
                rescue.safe()
            tables = synthesizer.sample_tables(rows, seed=request.seed, listener=listener)
            card = publish_history(synthesizer.related_, tables, out)
        rescue.safe()
        keep_found(synthesizer, found, request.source)
        _tell(terminal, synthesizer, card, targets | {"the journal": spending}, f"weft verify {out}")


def _check_history_output(output: str) -> None:
    if output == "-" or kind_of_address(output) or get_ending(Path(output)) not in list_writable_endings():
        raise OutputError(f"histories are written to a file: name one with -o, ending in {list_writable_endings()[0]}")


def fit_related_tables(options: FitOptions, model: Path, terminal: Terminal, overwrite: bool) -> None:
    """Fit a model to related tables, or to histories, and save it."""
    from weft.synthesis.database_plan import name_sources, read_database

    spending = journal_beside(model, options.journal)
    with guard_command(terminal, spending, model) as rescue:
        request = options.request(spending)
        several = options.keys.root is not None or describes_several_tables(options.schema)
        if several:
            sources = name_sources(read_database(request.schema), request.source, request.schema)
            check_files({f"the table {name}": str(path) for name, path in sources.items()}, {"the model": model})
        check_request(replace(request, source=None) if several else request, terminal, {"the model": model})
        confirm_overwrite(terminal, {"the model": model}, overwrite)
        with terminal.progress() as listener:
            synthesizer = fit_table(request, None, listener, rescue.hold)
            synthesizer.save(model)
        rescue.safe()
        ledger = synthesizer.ledger_
        terminal.answer({"ledger": ledger.to_dict(), "files": [str(model), str(spending)]})
        terminal.warn_stamps(ledger.stamps)
        terminal.show(str(ledger.spend_statement()), str(model), str(spending))


def sample_database(
    synthesizer: Synthesizer,
    output: str,
    terminal: Terminal,
    wanted: tuple[int | None, list[str] | None, int | None],
    overwrite: bool,
) -> None:
    """Sample related tables from a model into a folder, or histories into a file.

    `wanted`: the number of rows of the root, conditions on them, and a seed.
    """
    from weft.release.database_release import publish_database, publish_history
    from weft.schema.rules.conditions import read_where, write_conditions

    folder, related = Path(output), synthesizer.related_
    if related.joined:
        _check_history_output(output)
        targets = list_history_outputs(folder)
    else:
        _check_folder(output)
        targets = list_outputs(related.database, folder, ".csv")
    rows, where, seed = wanted
    part = write_conditions(read_where(where, related.codecs[related.database.root].readers)) if where else ()
    with new_folder(folder.parent if related.joined else folder), terminal.progress() as listener:
        check_files({}, targets)
        confirm_overwrite(terminal, targets, overwrite)
        tables = synthesizer.sample_tables(rows, where=where or None, seed=seed, listener=listener)
        if related.joined:
            card = publish_history(related, tables, folder, part)
        else:
            card = publish_database(related, tables, folder, ".csv", part=part)
    _tell(terminal, synthesizer, card, targets, f"weft verify {folder}")


def _tell(
    terminal: Terminal, synthesizer: Synthesizer, card: dict[str, Any], files: dict[str, Path], following: str
) -> None:
    """Summarise a release: tables, guarantee, what was found and what to rely on, checks and files."""
    from weft.cli import summary
    from weft.synthesis.database_model import PERSONS, ROWS
    from weft.synthesis.statement import describe_lifetime

    terminal.answer(card | {"files": [str(path) for path in files.values()]})
    terminal.warn_stamps(card["stamps"])
    if terminal.json or terminal.quiet:
        return
    related, ledger = synthesizer.related_, synthesizer.ledger_
    told = ", ".join(f"{name} {entry['rows']:,}" for name, entry in card["tables"].items())
    broken = sum(card["checks"].values())
    facts = {
        "protected": summary.describe_protection(ledger, card["privacy"]["unit"]),
        "spent": f"{summary.describe_spent(ledger)}: {summary.describe_purposes(ledger)}",
        "meaning": card["privacy"]["meaning"],
        "lifetime": describe_lifetime(ledger.lifetime),
        "families": f"{format_count(len(card['checks']), 'check')} of keys and families: {broken or 'none'} broken",
    }
    found = getattr(synthesizer, "discovered_tables_", {})
    if hasattr(synthesizer, "discovered_"):
        found = {"columns": synthesizer.discovered_}
    # Histories are one table, which is described as two.
    named = {PERSONS: "what never changes for a person", ROWS: "what may change"} if related.joined else {}
    terminal.show(
        summary.render_headline(f"{format_count(len(card['tables']), 'table')}: {told} rows"),
        *summary.render_stamps(card["stamps"]),
        summary.render_facts(facts),
        *(
            part
            for name, each in found.items()
            for part in (summary.render_heading(name), show_discovered_columns(each))
        ),
        *(
            part
            for name in (table.name for table in related.database.private)
            for part in summary.render_noise_points(related.view(name), f" of {named.get(name, name)}")
        ),
        *summary.render_files({path: PURPOSES.get(role, "synthetic table") for role, path in files.items()}),
        summary.render_heading("Try next"),
        summary.render_commands(following),
    )
