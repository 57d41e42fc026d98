"""How a command ends when it cannot go on: one clear message, what is on record as spent, and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from weft.cli.rescue import Rescue
from weft.cli.terminal import Terminal, hang_up
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.privacy import Ledger, Run

BUG = 70
SIGNALLED = 128
"""Exit code of a command that a signal ended, less the signal's number: 130 after Ctrl-C, 143 after SIGTERM."""

_LAST = 0.999  # share of a budget that is spent when the last question is asked


class Stopped(KeyboardInterrupt):
    """Another signal than Ctrl-C asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def guard(terminal: Terminal, journal: Path | None = None, model: Path | None = None) -> Iterator[Rescue]:
    """Turn every failure into a message without private values and a documented exit code.

    With a journal, the message says how much of the budget the failed run has spent; with a model, whether what was
    paid for is safe in it. A model that the command lets the rescue hold is saved elsewhere if need be.
    """
    record = _Record(journal, model)
    rescue = record.rescue
    left = "part of the rows may have gone to stdout" if terminal.data_on_stdout else "no half-written file is left"
    with _stoppable() as deaf:
        try:
            yield rescue
        except WeftError as error:
            _end(terminal, type(error).__name__, str(error), error.exit_code, record)
        except KeyboardInterrupt as stop:
            deaf()  # what follows takes an instant, and saves what was paid for
            number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
            said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            _end(terminal, "Interrupted", f"{said}; {left}.", SIGNALLED + number, record)
        except BrokenPipeError:
            hang_up(sys.stdout)  # whoever read the rows has seen enough
            if rescue.needed:
                terminal.warn(record.rescued())
            raise typer.Exit from None
        except OSError as error:
            named = f"{error.filename}: " if isinstance(error.filename, str) else ""
            # Without a number it is another library's, whose words may quote a value.
            text = f"{named}{os.strerror(error.errno)}; {left}." if error.errno else _bug(terminal, error, left)
            _end(terminal, "OSError", text, WeftError.exit_code if error.errno else BUG, record)
        except (typer.Exit, typer.Abort):
            raise
        except MemoryError:
            text = f"out of memory; {left}. Try --engine stream, fewer rows, or coarser bins."
            _end(terminal, "MemoryError", text, WeftError.exit_code, record)
        except Exception as error:  # noqa: BLE001 (the last door: nothing may pass it with its text)
            _end(terminal, type(error).__name__, _bug(terminal, error, left), BUG, record)


def _bug(terminal: Terminal, error: Exception, left: str) -> str:
    if terminal.debug:
        traceback.print_exc()
    # Other people's exceptions may quote a value of the table: only their type is safe to show.
    return (
        f"a bug in Weft ({type(error).__name__}); {left}. Its text is withheld, since it could quote private "
        "values; --debug shows it to the curator."
    )


@contextmanager
def _stoppable() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does; lend a way to hear no signal any more.

    A signal that whoever started the command had ignored, as `nohup` does, stays ignored.
    """
    before: dict[int, Any] = {}

    def deaf() -> None:
        for number in (*before, signal.SIGINT):
            before.setdefault(number, signal.getsignal(number))
            with suppress(ValueError):  # not the main thread, which alone hears signals
                signal.signal(number, signal.SIG_IGN)

    def stop(number: int, _frame: object) -> None:
        deaf()
        raise Stopped(number)

    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, stop)
    try:
        yield deaf
    finally:
        for number, handler in before.items():
            with suppress(ValueError):
                signal.signal(number, handler)


def _end(terminal: Terminal, kind: str, text: str, code: int, record: _Record) -> None:
    spent = record.spent()
    unfinished = record.unfinished()
    kept = record.rescued() if record.rescue.needed else record.kept()
    terminal.fail("\n".join([text, *filter(None, [spent, kept, unfinished])]))
    model = None if record.saved is None else str(record.saved)
    terminal.answer({"error": {"type": kind, "message": text, "exit_code": code, "spent": spent, "model": model}})
    raise typer.Exit(code) from None


class _Record:
    """What a run has put on the disk that outlives its failure: entries of the journal, the model."""

    def __init__(self, journal: Path | None, model: Path | None) -> None:
        self._journal, self._journal_before = journal, _mark(journal)
        self._model, self._model_before = model, _mark(model)
        self.rescue = Rescue(journal)
        self.saved: Path | None = None
        """Where the model is that was paid for."""

    def kept(self) -> str | None:
        """Say that the model is there."""
        if self._model is None or _mark(self._model) == self._model_before:
            return None
        self.saved = self._model
        return f"The model is safe in {self._model}: `weft sample {self._model}` costs nothing more."

    def unfinished(self) -> str | None:
        """Say how the run may be finished, if it was cut short while it learned; else its answers lead nowhere."""
        path = self.rescue.checkpoint
        if path is None or self.rescue.whole:
            return None
        if self._used() < _LAST:
            self.rescue.forget()
            return None
        return f"`weft resume {path}` finishes it from the answers that it had, without asking again."

    def _used(self) -> float:
        """Return the share of its budget that this run has spent; all, where nobody knows."""
        from weft.privacy import read_journal

        with suppress(WeftError, OSError, IndexError, TypeError):
            assert self._journal is not None
            return ledger_of(read_journal(self._journal)[-1]).used
        return 1.0

    def rescued(self) -> str:
        """Save the model, or the schema, that would be lost, and say where it is."""
        whole = self.rescue.whole
        self.saved = self.rescue.save()
        if self.saved is None:
            told = f"The {'model' if whole else 'schema'} that was paid for could not be saved anywhere"
            answers = self.rescue.checkpoint
            return f"{told}: it is lost." if answers is None else f"{told}; `weft resume {answers}` makes it again."
        if not whole:
            return (
                f"What was found about the columns is safe in {self.saved}: pass it with --schema at no further cost."
            )
        return (
            f"The model that was paid for is safe in {self.saved}: `weft sample {self.saved} -o FILE` makes rows of it "
            "at no further cost."
        )

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
