"""How a command ends when it cannot go on: one clear message, what is on record as spent, and an exit code."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from weft.cli.discovered_schema import ENDING as FOUND
from weft.cli.discovered_schema import keep_found
from weft.cli.terminal import Terminal, hang_up, make_printable
from weft.errors import MemoryLimitError, WeftError
from weft.io.output_paths import JOURNAL_ENDING

if TYPE_CHECKING:
    from weft.privacy import Ledger, Run
    from weft.synthesis.synthesizer import Synthesizer


# How a command recognises that memory is short: before it begins, and by the errors of libraries.

MIN_ADDRESS_SPACE = 1 << 30
"""Octets of address space that the program and its libraries need, apart from what each thread takes."""

_PER_THREAD = 16 << 20
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "could not find/load shared object", "new thread")


def require_address_space() -> None:
    """Refuse a limit of the address space (`ulimit -v`) that is too low: libraries then fail, or end the process.

    Raises
    ------
    MemoryLimitError
        If there is less than the program needs before it reads anything.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    # Arrow's own allocator reserves a gigabyte at a time, and tries for ever where it cannot.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    needed = MIN_ADDRESS_SPACE + _PER_THREAD * (os.cpu_count() or 1)
    if limit < needed:
        raise MemoryLimitError(
            f"out of memory: the address space of this process is limited to {limit >> 20} MiB, and Weft needs at "
            f"least {needed >> 20} MiB. Raise the limit, as by `ulimit -v {2 * needed >> 10}`; --memory 2GB bounds "
            "what Weft takes of it"
        )


def is_memory_error(error: BaseException) -> bool:
    """Whether an error, or one that led to it, says that there is no memory left."""
    return any(_says_so(each) for each in _iterate_causes(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    told = str(error).lower()  # compared, and never shown
    return isinstance(error, ImportError | OSError | RuntimeError) and any(words in told for words in _NO_MEMORY)


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__ or error


# What was paid for is kept, whatever happens to the place where it was asked for.


class Rescue:
    """Holds what is being fitted until it is safe."""

    def __init__(self, journal: Path | None = None) -> None:
        self._journal = journal
        self._held: Synthesizer | None = None

    def hold(self, synthesizer: Synthesizer) -> None:
        """Take charge of a synthesizer, before it is fitted: from its last charge on it is worth saving."""
        self._held = synthesizer

    def safe(self) -> None:
        """Let go: it has been saved, or everything that was asked for is made. Its checkpoint is needed no more."""
        self.forget()
        self._held = None

    def forget(self) -> None:
        """Remove the checkpoint of a run that is finished, or must not be."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        if path is not None:
            path.unlink(missing_ok=True)

    @property
    def checkpoint(self) -> Path | None:
        """The noisy answers of a run that was not finished, if it has any."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        return path if path is not None and path.is_file() else None

    @property
    def needed(self) -> bool:
        """Whether there is a model that would be lost, or a schema that was found."""
        return self.whole or hasattr(self._held, "discovered_")

    @property
    def whole(self) -> bool:
        """Whether there is a model, and not only what was found before it was learned."""
        return self._held is not None and hasattr(self._held, "fitted_")

    def save(self) -> Path | None:
        """Save the model, or the schema, in the first place that takes it; None if none does."""
        assert self._held is not None
        ending = ".weft" if self.whole else FOUND
        for folder in self._places():
            path = folder / f"{self._stem()}-{secrets.token_hex(4)}{ending}"
            with suppress(Exception):  # whatever is wrong with this place, there is the next
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self.whole:
                    self._held.save(path)
                else:
                    keep_found(self._held, path, "a table")
                self.safe()
                return path
        return None

    def _stem(self) -> str:
        return "model" if self._journal is None else self._journal.name.removesuffix(JOURNAL_ENDING) or "model"

    def _places(self) -> Iterator[Path]:
        """Yield beside the journal, the user's folder for what programs keep, and the temporary folder."""
        if self._journal is not None and self._journal.is_file():
            yield self._journal.parent
        yield state_folder()
        yield Path(tempfile.gettempdir())


def state_folder() -> Path:
    """Return the user's own folder for what Weft has to keep."""
    if os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "weft"
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "weft"


BUG = 70
SIGNALLED = 128
"""Exit code of a command that a signal ended, less the signal's number: 130 after Ctrl-C, 143 after SIGTERM."""

PRIVATE = "PRIVATE"
KEEP_PRIVATE = "This refusal may depend on the table's rows, which the guarantee does not cover: keep it to yourself."
"""What goes with a message that may tell of a row."""

_LAST = 0.999  # share of a budget that is spent when the last question is asked


class Stopped(KeyboardInterrupt):
    """Another signal than Ctrl-C asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def guard_command(terminal: Terminal, journal: Path | None = None, model: Path | None = None) -> Iterator[Rescue]:
    """Turn every failure into a message without private values and a documented exit code.

    With a journal, the message says how much of the budget the failed run has spent; with a model, whether what was
    paid for is safe in it. A model that the command lets the rescue hold is saved elsewhere if need be.
    """
    record = _Record(journal, model)
    rescue = record.rescue
    left = "part of the rows may have gone to stdout" if terminal.data_on_stdout else "no half-written file is left"
    with _handle_signals() as deaf:
        try:
            require_address_space()
            yield rescue
        except WeftError as error:
            text = f"{PRIVATE}: {error}\n{KEEP_PRIVATE}" if error.private else str(error)
            _end_command(terminal, type(error).__name__, text, error.exit_code, record)
        except KeyboardInterrupt as stop:
            deaf()  # what follows takes an instant, and saves what was paid for
            number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
            said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            _end_command(terminal, "Interrupted", f"{said}; {left}.", SIGNALLED + number, record)
        except BrokenPipeError:
            hang_up(sys.stdout)  # whoever read the rows has seen enough
            if rescue.needed:
                terminal.warn(record.rescued())
            raise typer.Exit from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 (the last door: nothing may pass it with its text)
            _end_command(terminal, *_describe_error(terminal, error, left), record)


def _describe_error(terminal: Terminal, error: Exception, left: str) -> tuple[str, str, int]:
    """Return the kind of an error that is none of Weft's, what is said of it, and the exit code."""
    if is_memory_error(error):
        remedy = "Try --engine stream, --memory 2GB, fewer rows, or coarser bins."
        return "MemoryError", f"out of memory; {left}. {remedy}", WeftError.exit_code
    if isinstance(error, OSError) and error.errno:
        named = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return "OSError", f"{named}{os.strerror(error.errno)}; {left}.", WeftError.exit_code
    # Without a number it is another library's, whose words may quote a value.
    return type(error).__name__, _describe_bug(terminal, error, left), BUG


def _describe_bug(terminal: Terminal, error: Exception, left: str) -> str:
    if terminal.debug:
        traceback.print_exc()
    # Other people's exceptions may quote a value of the table: only their type is safe to show.
    return (
        f"a bug in Weft ({type(error).__name__}); {left}. Its text is withheld, since it could quote private "
        "values; --debug shows it to the curator."
    )


@contextmanager
def _handle_signals() -> Iterator[Callable[[], None]]:
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


def _end_command(terminal: Terminal, kind: str, text: str, code: int, record: _Record) -> None:
    spent = record.spent()
    unfinished = record.unfinished()
    kept = record.rescued() if record.rescue.needed else record.kept()
    told = "\n".join([text, *filter(None, [spent, kept, unfinished])])
    try:
        terminal.fail(told)
    except (MemoryError, ImportError):  # too little is left to load what draws messages
        sys.stderr.write(f"weft: {make_printable(told)}\n")
    model = None if record.saved is None else str(record.saved)
    terminal.answer({"error": {"type": kind, "message": text, "exit_code": code, "spent": spent, "model": model}})
    raise typer.Exit(code) from None


class _Record:
    """What a run has put on the disk that outlives its failure: entries of the journal, the model."""

    def __init__(self, journal: Path | None, model: Path | None) -> None:
        self._journal, self._journal_before = journal, _fingerprint_file(journal)
        self._model, self._model_before = model, _fingerprint_file(model)
        self.rescue = Rescue(journal)
        self.saved: Path | None = None
        """Where the model is that was paid for."""

    def kept(self) -> str | None:
        """Say that the model is there."""
        if self._model is None or _fingerprint_file(self._model) == self._model_before:
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

        if self._journal is not None and _fingerprint_file(self._journal) == self._journal_before:
            return 0.0
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
        if _fingerprint_file(self._journal) == self._journal_before:
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

            spent = "; ".join(summary.describe_spent(ledger) for ledger in runs if ledger.entries)
        else:
            epsilon = sum(ledger.spent_epsilon() for ledger in runs)
            share = max(ledger.used for ledger in runs)
            spent = f"epsilon {at_most(epsilon)} at delta {runs[0].budget.delta:g} ({share:.0%} of the budget)"
        stamps = dict.fromkeys(stamp for ledger in runs for stamp in ledger.stamps)
        told = f"On record as spent: {spent}, in {self._journal}. It stays spent: the rows may have been asked."
        return "\n".join([told, *stamps])


def _fingerprint_file(path: Path | None) -> tuple[int, int]:
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
