"""How a command fails: one message without private values, the recorded charges, and an exit code."""

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
    from weft.synthesis.synthesizer import Synthesizer


MIN_ADDRESS_SPACE = 1 << 30
"""Bytes of address space that the program and its libraries need, excluding threads."""

_PER_THREAD = 16 << 20
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "could not find/load shared object", "new thread")


def require_address_space() -> None:
    """Raise MemoryLimitError if the address space limit (`ulimit -v`) is too low.

    Below it, libraries fail at import or abort the process.
    """
    try:
        import resource
    except ImportError:  # systems without such limits
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    # Arrow's default allocator reserves a gigabyte at a time, and retries forever if it fails.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    needed = MIN_ADDRESS_SPACE + _PER_THREAD * (os.cpu_count() or 1)
    if limit < needed:
        raise MemoryLimitError(
            f"out of memory: the address space of this process is limited to {limit >> 20} MiB, and Weft needs at "
            f"least {needed >> 20} MiB. Raise the limit, for example with `ulimit -v {2 * needed >> 10}`; --memory 2GB "
            "limits how much of it Weft uses"
        )


def is_memory_error(error: BaseException) -> bool:
    """Whether an error or one of its causes indicates that memory is exhausted."""
    return any(_says_so(each) for each in _iterate_causes(error))


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    told = str(error).lower()  # compared, never shown
    return isinstance(error, ImportError | OSError | RuntimeError) and any(words in told for words in _NO_MEMORY)


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__ or error


class Rescue:
    """Holds a synthesizer during the fit, to save its paid results if the command fails."""

    def __init__(self, journal: Path | None = None) -> None:
        self._journal = journal
        self._held: Synthesizer | None = None

    def hold(self, synthesizer: Synthesizer) -> None:
        """Register a synthesizer before it is fitted."""
        self._held = synthesizer

    def safe(self) -> None:
        """Release the synthesizer, whose results are saved, and remove its checkpoint."""
        self.forget()
        self._held = None

    def forget(self) -> None:
        """Remove the checkpoint of a run that is finished, or must not be resumed."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        if path is not None:
            path.unlink(missing_ok=True)

    @property
    def checkpoint(self) -> Path | None:
        """Checkpoint file with the measurements of an unfinished run, if there is one."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        return path if path is not None and path.is_file() else None

    @property
    def needed(self) -> bool:
        """Whether a model or a discovered schema would be lost."""
        return self.whole or hasattr(self._held, "discovered_")

    @property
    def whole(self) -> bool:
        """Whether the model is fitted, so that more than a discovered schema can be saved."""
        return hasattr(self._held, "fitted_") or hasattr(self._held, "related_")

    def save(self) -> Path | None:
        """Save the model or the schema in the first writable folder and return its path; None if there is none."""
        assert self._held is not None
        ending = ".weft" if self.whole else FOUND
        stem = "model" if self._journal is None else self._journal.name.removesuffix(JOURNAL_ENDING) or "model"
        for folder in self._places():
            path = folder / f"{stem}-{secrets.token_hex(4)}{ending}"
            with suppress(Exception):  # on any failure, try the next folder
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self.whole:
                    self._held.save(path)
                else:
                    keep_found(self._held, path, "a table")
                self.safe()
                return path
        return None

    def _places(self) -> Iterator[Path]:
        """Yield the journal's folder, the user's state folder and the temporary folder."""
        if self._journal is not None and self._journal.is_file():
            yield self._journal.parent
        yield state_folder()
        yield Path(tempfile.gettempdir())


def state_folder() -> Path:
    """Return the user's state folder for Weft."""
    if os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "weft"
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "weft"


BUG = 70
SIGNALLED = 128
"""Exit code of a command ended by a signal, minus the signal's number: 130 after Ctrl-C, 143 after SIGTERM."""

PRIVATE = "PRIVATE"
KEEP_PRIVATE = "This refusal may depend on private rows, and the guarantee does not cover it: do not share it."
"""Appended to messages that may depend on a row."""

_LAST = 0.999  # share of the budget from which on the last query counts as charged


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C asks the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def guard_command(terminal: Terminal, journal: Path | None = None, model: Path | None = None) -> Iterator[Rescue]:
    """Turn every failure into a message without private values and a documented exit code.

    With a journal, the message states how much of the budget the failed run has spent; with a model path, whether the
    model was saved there. A synthesizer that the command registers with the rescue is saved elsewhere if necessary.
    """
    record = _Record(journal, model)
    rescue = record.rescue
    left = "some rows may have been written to stdout" if terminal.data_on_stdout else "no partial file was left behind"
    with _handle_signals() as deaf:
        try:
            require_address_space()
            yield rescue
        except WeftError as error:
            text = f"{PRIVATE}: {error}\n{KEEP_PRIVATE}" if error.private else str(error)
            _end_command(terminal, type(error).__name__, text, error.exit_code, record)
        except KeyboardInterrupt as stop:
            deaf()  # saving the paid results takes an instant and must not be interrupted
            number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
            said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
            _end_command(terminal, "Interrupted", f"{said}; {left}.", SIGNALLED + number, record)
        except BrokenPipeError:
            hang_up(sys.stdout)  # the reader of stdout has closed the pipe
            if rescue.needed:
                terminal.warn(record.rescued())
            raise typer.Exit from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # noqa: BLE001 (the last handler: no foreign error text may pass)
            _end_command(terminal, *_describe_error(terminal, error, left), record)


def _describe_error(terminal: Terminal, error: Exception, left: str) -> tuple[str, str, int]:
    """Return the type, message and exit code for an error that Weft did not raise."""
    if is_memory_error(error):
        remedy = "Try --engine stream, --memory 2GB, fewer rows, or coarser bins."
        return "MemoryError", f"out of memory; {left}. {remedy}", WeftError.exit_code
    if isinstance(error, OSError) and error.errno:
        named = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return "OSError", f"{named}{os.strerror(error.errno)}; {left}.", WeftError.exit_code
    # An OSError without errno comes from a library, whose text may quote a value.
    return type(error).__name__, _describe_bug(terminal, error, left), BUG


def _describe_bug(terminal: Terminal, error: Exception, left: str) -> str:
    if terminal.debug:
        traceback.print_exc()
    # Foreign exceptions may quote a value of the table: only their type is safe to show.
    return (
        f"a bug in Weft ({type(error).__name__}); {left}. Its text is withheld, since it could contain private "
        "values; --debug shows it to the data curator."
    )


@contextmanager
def _handle_signals() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP end a command like Ctrl-C; yield a function that makes it ignore all further signals.

    A signal that the parent process ignores, as `nohup` does, stays ignored.
    """
    before: dict[int, Any] = {}

    def deaf() -> None:
        for number in (*before, signal.SIGINT):
            before.setdefault(number, signal.getsignal(number))
            with suppress(ValueError):  # only the main thread may set handlers
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
    except (MemoryError, ImportError):  # too little memory to load the rendering library
        sys.stderr.write(f"weft: {make_printable(told)}\n")
    model = None if record.saved is None else str(record.saved)
    terminal.answer({"error": {"type": kind, "message": text, "exit_code": code, "spent": spent, "model": model}})
    raise typer.Exit(code) from None


class _Record:
    """Journal entries and model file of a run, which outlive its failure."""

    def __init__(self, journal: Path | None, model: Path | None) -> None:
        self._journal, self._journal_before = journal, _fingerprint_file(journal)
        self._model, self._model_before = model, _fingerprint_file(model)
        self.rescue = Rescue(journal)
        self.saved: Path | None = None
        """Path of the saved model or schema."""

    def kept(self) -> str | None:
        """Return a message if the model was saved where requested."""
        if self._model is None or _fingerprint_file(self._model) == self._model_before:
            return None
        self.saved = self._model
        return f"The model is saved in {self._model}: `weft sample {self._model}` has no further privacy cost."

    def unfinished(self) -> str | None:
        """Return how to resume a run that was interrupted after its last query; else remove its checkpoint."""
        path = self.rescue.checkpoint
        if path is None or self.rescue.whole:
            return None
        if self._used() < _LAST:
            self.rescue.forget()
            return None
        return f"`weft resume {path}` finishes it from the recorded measurements, without querying private rows again."

    def _used(self) -> float:
        """Return the share of its budget that this run has spent; 1 if unknown."""
        from weft.privacy import Ledger, read_journal

        if self._journal is not None and _fingerprint_file(self._journal) == self._journal_before:
            return 0.0
        with suppress(WeftError, OSError, IndexError, TypeError):
            assert self._journal is not None
            return Ledger.of_run(read_journal(self._journal)[-1]).used
        return 1.0

    def rescued(self) -> str:
        """Save the model or schema that would be lost, and return a message that names the file."""
        whole = self.rescue.whole
        self.saved = self.rescue.save()
        if self.saved is None:
            told = f"The {'model' if whole else 'schema'} could not be saved anywhere, although its budget is spent"
            answers = self.rescue.checkpoint
            return f"{told}: it is lost." if answers is None else f"{told}; `weft resume {answers}` restores it."
        if not whole:
            return (
                f"The discovered schema is saved in {self.saved}: reuse it with --schema, at no further privacy cost."
            )
        return (
            f"The model is saved in {self.saved}: `weft sample {self.saved} -o FILE` generates rows from it, at no "
            "further privacy cost."
        )

    def spent(self) -> str | None:
        """Return a message on what this run has spent."""
        if self._journal is None:
            return None
        if _fingerprint_file(self._journal) == self._journal_before:
            return "Nothing was spent."
        from weft.privacy import Ledger, at_most, read_journal

        added = self._journal.read_bytes()[self._journal_before[0] :].decode(errors="replace")
        try:
            runs = [Ledger.of_run(run) for run in read_journal(self._journal) if run.run in added]
        except WeftError:
            return f"The budget spent is recorded in {self._journal}."
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
        told = (
            f"Recorded as spent: {spent}, in {self._journal}. It stays spent, since private rows may have been queried."
        )
        return "\n".join([told, *stamps])


def _fingerprint_file(path: Path | None) -> tuple[int, int]:
    """Return size and modification time of a file, to detect writes."""
    with suppress(OSError, ValueError):  # an invalid name is refused later, with a clearer message
        if path is not None and path.is_file():
            status = path.stat()
            return status.st_size, status.st_mtime_ns
    return 0, 0
