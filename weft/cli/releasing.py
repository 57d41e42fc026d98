"""What `synth`, `sample` and `demo` share: writing the synthetic rows, and telling about it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.cli.failure import ledger_of
from weft.cli.finding import shown
from weft.cli.terminal import Terminal
from weft.errors import OutputError, WeftError
from weft.progress import Listener, silence
from weft.release.paths import JOURNAL_ENDING, same_file
from weft.release.tables import DatabaseTable, Dataset
from weft.words import counted

if TYPE_CHECKING:
    from weft.release.modelfile import Fitted
    from weft.synthesizer import Synthesizer


ROLES = ("the synthetic table", "its card", "its card for machines")
"""What the files of a release are, in their order."""

Destination = Path | DatabaseTable | Dataset | None
"""Where a release goes: a file, a table of a database, a folder that Spark fills, or stdout."""


def destination(output: str) -> Path | DatabaseTable | None:
    """Return where rows are to be written; OutputError if an address leads nowhere."""
    return None if output == "-" else DatabaseTable.of(output) or Path(output)


def place_of(out: Destination) -> Path | None:
    """Return the name after which the files beside a release are called."""
    return out.place if isinstance(out, DatabaseTable) else out.folder if isinstance(out, Dataset) else out


def release_files(out: Destination, metadata: Sequence[str] = ()) -> dict[str, Path]:
    """Name what a release to `out` will write (nothing, for stdout); OutputError if that cannot be told."""
    from weft.release.publish import Files, metadata_files

    if isinstance(out, Dataset):
        return dict(zip(ROLES, out, strict=True))
    if out is None:
        if metadata:
            raise OutputError("--metadata stands beside a table: name one with -o FILE")
        return {}
    named = {f"its metadata ({form})": path for form, path in metadata_files(out, metadata).items()}
    files = list(Files.of(out))
    return dict(zip(ROLES[-len(files) :], files, strict=True)) | named


def check_table(out: Destination, *files: Path | None) -> None:
    """Refuse a table of a database that cannot be made beside these files, before anything is spent on it."""
    if isinstance(out, DatabaseTable):
        out.check([file for file in (*files, *release_files(out).values()) if file])


def release(
    synthesizer: Synthesizer,
    out: Path | DatabaseTable | None,
    rows: int | None,
    seed: int | None,
    formulas: Literal["keep", "escape"] = "keep",
    listener: Listener = silence,
    where: list[str] | None = None,
    metadata: Sequence[str] = (),
) -> dict[str, Any]:
    """Make the rows and write them, with their card, or to stdout; return the card."""
    from weft.release.card import card_json
    from weft.release.conditioned import Conditioned
    from weft.release.publish import Files, publish
    from weft.release.statement import default_rows
    from weft.release.writing import write_table

    fitted = synthesizer.fitted_
    conditions = Conditioned(fitted, where).written if where else []
    wanted = default_rows(fitted) if rows is None and not where else rows
    tables = synthesizer.tables(wanted, where=where or None, seed=seed, listener=listener)
    if out is not None:
        return publish(
            fitted,
            tables,
            Files.of(out),
            formulas=formulas,
            conditions=conditions,
            metadata=metadata,
            listener=listener,
        )
    # Before the first row: whoever reads a few and hangs up, as `head` does, ends the command there.
    for stamp in fitted.ledger.stamps:
        Terminal(data_on_stdout=True).warn(stamp)
    try:
        made = write_table(tables, sys.stdout.buffer, formulas=formulas, schema=fitted.schema)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to stdout: {error.strerror or type(error).__name__}.") from None
    return card_json(fitted, made, name="stdout", formulas=formulas, conditions=conditions)


def report(
    terminal: Terminal,
    synthesizer: Synthesizer,
    card: dict[str, Any],
    out: Destination,
    *,
    journal: Path | None = None,
    model: Path | None = None,
    found: Path | None = None,
    verbose: bool = False,
    metadata: Sequence[str] = (),
) -> None:
    """Tell what was made, what it cost and where it is."""
    fitted = synthesizer.fitted_
    rows_in: list[Path | str] = [out.name] if isinstance(out, DatabaseTable) else []
    files = (*release_files(out, metadata).values(), journal, model, found)
    written = [str(path) for path in (*rows_in, *files) if path]
    warned = warnings(fitted, journal)
    terminal.answer(card | {"warnings": warned, "files": written})
    if out is not None:  # with the rows on stdout, the stamps came before them
        terminal.warn_stamps(card["stamps"])
    terminal.warn_quietly(warned)
    if terminal.json or terminal.quiet:
        return
    from weft.cli import summary

    rows, columns = counted(card["table"]["rows"], "synthetic row"), counted(len(card["columns"]), "column")
    asked = f", where {' and '.join(card['table']['conditions'])}" if card["table"]["conditions"] else ""
    terminal.show(
        summary.headline(f"{rows}, {columns}, method {fitted.method}{asked}"),
        *summary.stamps(card["stamps"]),
        summary.facts(summary.spending(fitted)),
        *([shown(synthesizer.discovered_)] if hasattr(synthesizer, "discovered_") else []),
        *([summary.entries(fitted.ledger)] if verbose else []),
        *summary.points(fitted),
        *summary.warnings(warned),
        *summary.relations(fitted),
        *summary.files(dict.fromkeys(rows_in, ROLES[0]) | file_purposes(out, journal, model, found)),
    )


def warnings(fitted: Fitted, journal: Path | None) -> list[str]:
    """Say what whoever ran a fit should think about: that it learned little, and what its journal adds up to."""
    from weft.release.statement import FAINT, faint

    remedy = "Raise epsilon; with --rows you decide how many rows are made."
    return [*([f"{FAINT} {remedy}"] if faint(fitted) else []), *_on_record(journal)]


def _on_record(journal: Path | None) -> list[str]:
    """Say what runs on the same table cost together, as far as the journals of this folder know of them."""
    from weft.privacy import read_journal
    from weft.release.statement import together

    if journal is None or not journal.is_file():
        return []
    try:
        own = read_journal(journal)
    except WeftError:  # an old part of the file is damaged, which is no fault of this run
        return [f"{journal} cannot be read as a whole: what earlier runs spent is not known."]
    table = own[-1].header.get("fingerprint") if own else None
    runs = [run for run in own if run.header.get("fingerprint") in (None, table)]
    for path in sorted(journal.parent.glob(f"*{JOURNAL_ENDING}")) if table else ():
        if not same_file(path, journal):
            with suppress(WeftError):  # what another journal tells is told as far as it can be read
                runs += [run for run in read_journal(path) if run.header.get("fingerprint") == table]
    spent = together(map(ledger_of, runs))
    return [] if spent is None else [f"Journals in this folder now hold {spent}."]


def file_purposes(
    out: Destination, journal: Path | None, model: Path | None, found: Path | None = None
) -> dict[Path, str]:
    """Say what each file of a release is for."""
    named = {}
    if out is not None:
        told = ("the synthetic table", "its card: guarantee, method, limits", "the same, for machines")
        files = list(release_files(out).values())
        named = dict(zip(files, told[-len(files) :], strict=True))
    if model is not None:
        named[model] = "the model, to sample from at no further cost"
    if found is not None:
        named[found] = "what was found about the columns, for later runs at no further cost"
    if journal is not None:
        named[journal] = "what was spent: keep it"
    return named
