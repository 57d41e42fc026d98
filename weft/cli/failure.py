"""How a command ends when it cannot go on: one clear message, what is on record as spent, and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from weft.cli.terminal import Terminal, hang_up
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.privacy import Ledger, Run

BUG = 70
INTERRUPTED = 130


@contextmanager
def guard(terminal: Terminal, journal: Path | None = None, model: Path | None = None) -> Iterator[None]:
    """Turn every failure into a message without private values and a documented exit code.

    With a journal, the message says how much of the budget the failed run has spent; with a model, whether what was
    paid for is safe in it.
    """
    record = _Record(journal, model)
    left = "part of the rows may have gone to stdout" if terminal.data_on_stdout else "no half-written file is left"
    try:
        yield
    except WeftError as error:
        _end(terminal, type(error).__name__, str(error), error.exit_code, record)
    except KeyboardInterrupt:
        _end(terminal, "Interrupted", f"interrupted; {left}.", INTERRUPTED, record)
    except BrokenPipeError:
        hang_up(sys.stdout)  # whoever read the rows has seen enough
        raise typer.Exit from None
    except MemoryError:
        text = f"out of memory; {left}. Try --engine stream, fewer rows, or coarser bins."
        _end(terminal, "MemoryError", text, WeftError.exit_code, record)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001 (the last door: nothing may pass it with its text)
        if terminal.debug:
            traceback.print_exc()
        # Other people's exceptions may quote a value of the table: only their type is safe to show.
        text = (
            f"a bug in Weft ({type(error).__name__}); {left}. Its text is withheld, since it could quote private "
            "values; --debug shows it to the curator."
        )
        _end(terminal, type(error).__name__, text, BUG, record)


def _end(terminal: Terminal, kind: str, text: str, code: int, record: _Record) -> None:
    spent = record.spent()
    terminal.fail("\n".join([text, *filter(None, [spent, record.kept()])]))
    terminal.answer({"error": {"type": kind, "message": text, "exit_code": code, "spent": spent}})
    raise typer.Exit(code) from None


class _Record:
    """What a run has put on the disk that outlives its failure: entries of the journal, the model."""

    def __init__(self, journal: Path | None, model: Path | None) -> None:
        self._journal, self._journal_before = journal, _mark(journal)
        self._model, self._model_before = model, _mark(model)

    def kept(self) -> str | None:
        """Say that the model is there."""
        if self._model is None or _mark(self._model) == self._model_before:
            return None
        return f"The model is safe in {self._model}: `weft sample {self._model}` costs nothing more."

    def spent(self) -> str | None:
        """Say what this run has spent."""
        if self._journal is None:
            return None
        if _mark(self._journal) == self._journal_before:
            return "Nothing was spent."
        from weft.privacy import at_most, read_journal

        added = self._journal.read_bytes()[self._journal_before[0] :].decode(errors="replace")
        try:
            runs = [ledger_of(run) for run in read_journal(self._journal) if run.run in added]
        except WeftError:
            return f"What was spent is on record in {self._journal}."
        if not any(ledger.entries for ledger in runs):
            return "Nothing was spent."
        if any(ledger.deniable for ledger in runs):
            from weft.cli import summary

            spent = "; ".join(summary.spent(ledger) for ledger in runs if ledger.entries)
        else:
            epsilon = sum(ledger.spent_epsilon() for ledger in runs)
            share = max(ledger.used for ledger in runs)
            spent = f"epsilon {at_most(epsilon)} at delta {runs[0].budget.delta:g} ({share:.0%} of the budget)"
        stamps = dict.fromkeys(stamp for ledger in runs for stamp in ledger.stamps)
        told = f"On record as spent: {spent}, in {self._journal}. It stays spent: the rows may have been asked."
        return "\n".join([told, *stamps])


def _mark(path: Path | None) -> tuple[int, int]:
    """Size and time of a file: they tell whether it was written to."""
    with suppress(OSError, ValueError):  # a name that cannot be is refused later, in better words
        if path is not None and path.is_file():
            status = path.stat()
            return status.st_size, status.st_mtime_ns
    return 0, 0


def ledger_of(run: Run) -> Ledger:
    """Rebuild the ledger of a run from its journal."""
    from weft.privacy import Ledger

    return Ledger.from_dict({**run.header, "stamps": run.stamps, "entries": run.charges})
