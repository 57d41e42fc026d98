"""Output of `synth`, `sample` and `demo`: write the synthetic rows, and summarise the run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from weft.cli import shared_options as o
from weft.cli.discovered_schema import JOURNAL_PURPOSE, keep_found, show_discovered_columns
from weft.cli.failure import Rescue
from weft.cli.terminal import Terminal
from weft.display import format_count
from weft.errors import OutputError, WeftError
from weft.io.output_paths import JOURNAL_ENDING, same_file
from weft.io.output_tables import DatabaseTable, Dataset
from weft.progress import Listener, ignore_event

if TYPE_CHECKING:
    from weft.synthesis.fitted import Fitted
    from weft.synthesis.synthesizer import Synthesizer


PURPOSES = {
    "the synthetic table": "the synthetic table",
    "its card": "its card: guarantee, method, limitations",
    "its card as JSON": "the card as JSON",
    "the model": "the model; sampling from it has no further privacy cost",
    "the discovered schema": "the discovered schema; reusing it has no further privacy cost",
    "the journal": JOURNAL_PURPOSE,
}
"""Purposes of the files of a run, by role."""
ROLES = tuple(PURPOSES)[:3]
"""Names of the files of a release, in order."""

Destination = Path | DatabaseTable | Dataset | None
"""Destination of a release: a file, a database table, a folder for Spark, or stdout (None)."""


def resolve_destination(output: str) -> Path | DatabaseTable | None:
    """Return where rows are written; raise OutputError for an invalid address."""
    return None if output == "-" else DatabaseTable.of(output) or Path(output)


def place_of(out: Destination) -> Path | None:
    """Return the path from which the names of accompanying files are derived."""
    return out.place if isinstance(out, DatabaseTable) else out.folder if isinstance(out, Dataset) else out


def release_files(out: Destination, metadata: Sequence[str] = ()) -> dict[str, Path]:
    """Return the files that a release to `out` writes, by role (none for stdout); OutputError for invalid names."""
    from weft.release.publish import Files, metadata_files

    if isinstance(out, Dataset):
        return dict(zip(ROLES, out, strict=True))
    if out is None:
        if metadata:
            raise OutputError("--metadata requires an output file: name one with -o FILE")
        return {}
    named = {f"its metadata ({form})": path for form, path in metadata_files(out, metadata).items()}
    files = list(Files.of(out))
    return dict(zip(ROLES[-len(files) :], files, strict=True)) | named


def check_table(out: Destination, *files: Path | None) -> None:
    """Raise OutputError if a database table cannot be created next to these files, before anything is spent."""
    if isinstance(out, DatabaseTable):
        out.check([file for file in (*files, *release_files(out).values()) if file])


def release_rows(
    synthesizer: Synthesizer,
    out: Path | DatabaseTable | None,
    rows: int | None,
    seed: int | None,
    formulas: Literal["keep", "escape"] = "keep",
    listener: Listener = ignore_event,
    where: list[str] | None = None,
    metadata: Sequence[str] = (),
) -> dict[str, Any]:
    """Generate the rows and write them to stdout or to files with a card; return the card."""
    from weft.io.table_files import write_table
    from weft.release.card import card_json
    from weft.release.publish import Files, publish
    from weft.synthesis.conditional_sampling import Conditioned
    from weft.synthesis.statement import default_rows

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
    # Before the first row: a reader that closes the pipe early, such as `head`, ends the command.
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


def print_summary(
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
    """Summarise a run: what was released, its privacy cost, and the files."""
    fitted = synthesizer.fitted_
    rows_in: list[Path | str] = [out.name] if isinstance(out, DatabaseTable) else []
    files = (*release_files(out, metadata).values(), journal, model, found)
    written = [str(path) for path in (*rows_in, *files) if path]
    warned = collect_warnings(fitted, journal)
    terminal.answer(card | {"warnings": warned, "files": written})
    if out is not None:  # on stdout, stamps were shown before the rows
        terminal.warn_stamps(card["stamps"])
    terminal.warn_quietly(warned)
    if terminal.json or terminal.quiet:
        return
    from weft.cli import summary

    rows, columns = format_count(card["table"]["rows"], "synthetic row"), format_count(len(card["columns"]), "column")
    asked = f", where {' and '.join(card['table']['conditions'])}" if card["table"]["conditions"] else ""
    terminal.show(
        summary.render_headline(f"{rows}, {columns}, method {fitted.method}{asked}"),
        *summary.render_stamps(card["stamps"]),
        summary.render_facts(summary.describe_spending(fitted)),
        *([show_discovered_columns(synthesizer.discovered_)] if hasattr(synthesizer, "discovered_") else []),
        *([summary.render_ledger_entries(fitted.ledger)] if verbose else []),
        *summary.render_noise_points(fitted),
        *summary.render_warnings(warned),
        *summary.describe_learned_relations(fitted),
        *summary.render_files(dict.fromkeys(rows_in, ROLES[0]) | file_purposes(out, journal, model, found)),
    )


def collect_warnings(fitted: Fitted, journal: Path | None) -> list[str]:
    """Return the warnings of a run: too much noise, and the total cost of runs on the same table."""
    from weft.synthesis.statement import FAINT, is_row_count_faint

    remedy = "Increase epsilon. The number of synthetic rows can be set with --rows."
    return [*([f"{FAINT} {remedy}"] if is_row_count_faint(fitted) else []), *_on_record(journal)]


def _on_record(journal: Path | None) -> list[str]:
    """State the total cost of all runs on the same table that the journals of this folder record."""
    from weft.privacy import Ledger, read_journal
    from weft.synthesis.statement import describe_joint_cost

    if journal is None or not journal.is_file():
        return []
    try:
        own = read_journal(journal)
    except WeftError:  # an earlier entry of the file is damaged
        return [f"{journal} cannot be read completely: the cost of earlier runs is unknown."]
    table = own[-1].header.get("fingerprint") if own else None
    runs = [run for run in own if run.header.get("fingerprint") in (None, table)]
    for path in sorted(journal.parent.glob(f"*{JOURNAL_ENDING}")) if table else ():
        if not same_file(path, journal):
            with suppress(WeftError):  # other journals are included as far as they can be read
                runs += [run for run in read_journal(path) if run.header.get("fingerprint") == table]
    spent = describe_joint_cost(map(Ledger.of_run, runs))
    return [] if spent is None else [f"Journals in this folder record {spent}."]


def file_purposes(
    out: Destination, journal: Path | None, model: Path | None, found: Path | None = None
) -> dict[Path, str]:
    """Return the purpose of each file of a release."""
    files = release_files(out) | {"the model": model, "the discovered schema": found, "the journal": journal}
    return {path: PURPOSES[role] for role, path in files.items() if path is not None}


Overwrite = Annotated[bool, o.panel_option(o.OUTPUT, "Replace existing files.", "--overwrite", metavar="")]


def confirm_overwrite(terminal: Terminal, targets: Mapping[str, Path], overwrite: bool) -> None:
    """Ask before existing, non-empty files are replaced; called before anything is read or spent.

    Raises OutputError if the user declines, or the terminal is not interactive.
    """
    found = [path for path in targets.values() if path.is_file() and path.stat().st_size]
    if overwrite or not found:
        return
    others = f" (and {format_count(len(found) - 1, 'more file')})" if len(found) > 1 else ""
    exist = f"{found[0]}{others} already {'exist' if others else 'exists'}"
    if not terminal.asks:
        raise OutputError(f"{exist} and would be replaced: choose another name, or pass --overwrite")
    terminal.say(f"{exist}.")
    if not terminal.confirm("Replace?"):
        raise OutputError(f"{found[0]} was not replaced: choose another name, or pass --overwrite")


@dataclass(frozen=True)
class OutputSpec:
    """Output files of a run, recorded in its checkpoint so that `weft resume` can write them."""

    output: str
    rows: int | None
    seed: int | None
    formulas: Literal["keep", "escape"]
    model: str | None
    metadata: list[str]
    journal: str
    found: str | None
    overwrite: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with absolute paths."""
        named = {name: str(Path(at).resolve()) for name in ("model", "journal", "found") if (at := getattr(self, name))}
        output = (
            self.output if self.output == "-" or DatabaseTable.of(self.output) else str(Path(self.output).resolve())
        )
        return asdict(self) | named | {"output": output}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OutputSpec:
        """Rebuild from the result of `to_dict`."""
        return cls(**values)

    @property
    def kept(self) -> Path | None:
        """Path of the model file."""
        return None if self.model is None else Path(self.model)

    def files(self, out: Path | DatabaseTable | None) -> dict[str, Path]:
        """Return all files to be written, by role."""
        named = {"the model": self.model, "the discovered schema": self.found}
        return release_files(out, self.metadata) | {what: Path(path) for what, path in named.items() if path}

    def check(self, out: Path | DatabaseTable | None) -> None:
        """Raise OutputError if a database table cannot be created."""
        check_table(out, *self.files(out).values(), Path(self.journal))

    def make(
        self,
        synthesizer: Synthesizer,
        out: Path | DatabaseTable | None,
        source: str | list[str],
        listener: Listener,
        rescue: Rescue,
    ) -> dict[str, Any] | None:
        """Write the model, the discovered schema, and the table with its card; return the card, None for stdout."""
        if self.kept is not None:
            # Before the rows, so that the paid model is safe if they fail.
            synthesizer.save(self.kept)
            rescue.safe()
        keep_found(synthesizer, None if self.found is None else Path(self.found), source)
        if out is None:
            return None
        return release_rows(synthesizer, out, self.rows, self.seed, self.formulas, listener, metadata=self.metadata)

    def tell(
        self,
        terminal: Terminal,
        synthesizer: Synthesizer,
        card: dict[str, Any] | None,
        out: Path | DatabaseTable | None,
        rescue: Rescue,
        verbose: bool,
    ) -> None:
        """Write the rows if they go to stdout, and print the summary."""
        card = card or release_rows(synthesizer, None, self.rows, self.seed, self.formulas, ignore_event)
        rescue.safe()
        found = Path(self.found) if self.found and hasattr(synthesizer, "discovered_") else None
        journal, metadata = Path(self.journal), self.metadata
        print_summary(
            terminal, synthesizer, card, out, journal=journal, model=self.kept, found=found, verbose=verbose,
            metadata=metadata,
        )  # fmt: skip
