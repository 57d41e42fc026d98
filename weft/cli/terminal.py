"""Terminal output: progress, warnings and results. If rows are written to stdout, everything else goes to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from weft.progress import Event, Listener, ignore_event

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress, TaskID
    from rich.segment import Segment


MARK = "\ufffd"
"""Replacement for characters that are not shown."""

_UsageError: Any = typer.BadParameter.__mro__[1]  # not exported by typer

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls other than tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    "\u2028\u2029"  # Unicode line separators
    "\ud800-\udfff"  # undecodable bytes of a file name
    "\U000e0000-\U000e007f]"  # invisible tags
)


def make_printable(text: str) -> str:
    r"""Replace control characters: names of columns and files may contain terminal commands.

    >>> make_printable("age\x1b[2J"), make_printable("a\tb\n")
    ('age\ufffd[2J', 'a\tb\n')
    """
    return _HIDDEN.sub(MARK, text)


class PrintableGroup(TyperGroup):
    """Commands whose usage errors quote arguments in printable form."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the arguments."""
        with _printable_errors():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if (text := make_printable(error.format_message())) == error.format_message():
            raise
        raise _UsageError(text, ctx=error.ctx) from None


@dataclass(frozen=True)
class Terminal:
    """Output channels of a command."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
    """Show tracebacks, which may quote private values."""
    data_on_stdout: bool = False
    """Synthetic rows go to stdout, everything else to stderr."""

    @cached_property
    def err(self) -> Console:
        """The console on stderr."""
        return _make_console(stderr=True)

    @cached_property
    def out(self) -> Console:
        """The console for results: stdout, unless rows are written there."""
        return self.err if self.data_on_stdout else _make_console(stderr=False)

    def show(self, *parts: RenderableType) -> None:
        """Show a result, unless quiet or JSON."""
        from rich.text import Text

        if not (self.json or self.quiet):
            for part in parts:
                # Plain text is not wrapped, so that a command can be copied.
                self.out.print(part, soft_wrap=isinstance(part, Text))

    def answer(self, values: Mapping[str, Any]) -> None:
        """Print the JSON object, with --json."""
        if self.json:
            stream = sys.stderr if self.data_on_stdout else sys.stdout
            try:
                stream.write(json.dumps(values, indent=1, allow_nan=False) + "\n")
                stream.flush()
            except BrokenPipeError:
                hang_up(stream)

    def warn(self, text: str) -> None:
        """Show a warning, also when quiet."""
        self._say("warning", "bold yellow", text)

    def warn_stamps(self, stamps: Iterable[str], *, always: bool = False) -> None:
        """Show the stamps of a release if no summary will, or always."""
        if self.json or self.quiet or always:
            for stamp in stamps:
                self.warn(stamp)

    def warn_quietly(self, texts: Iterable[str]) -> None:
        """Show warnings that appear neither in a summary nor in a JSON object."""
        if self.quiet and not self.json:
            for text in texts:
                self.warn(text)

    @property
    def asks(self) -> bool:
        """Whether the session is interactive."""
        return not (self.json or self.quiet) and sys.stdin.isatty() and self.err.is_terminal

    def say(self, text: str) -> None:
        """Print a line before a prompt."""
        self.err.print(text, soft_wrap=True, markup=False)

    def confirm(self, question: str) -> bool:
        """Ask a yes/no question."""
        return typer.confirm(make_printable(question), err=True)

    def prompt(self, question: str) -> str:
        """Ask for a text, which may be empty."""
        said: str = typer.prompt(make_printable(question), "", err=True)
        return said.strip()

    def fail(self, text: str) -> None:
        """Show an error message."""
        self._say("weft", "bold red", text)

    def _say(self, head: str, style: str, text: str) -> None:
        from rich.text import Text

        # Not wrapped, so that a message stays one line in a log.
        self.err.print(Text.assemble((f"{head}: ", style), text), soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Listener]:
        """Yield a listener that draws a progress bar for each stage, or a silent one if the output is not interactive.

        If `WEFT_EVENTS` names a file, events are appended to it instead, one JSON object per line.
        """
        if events := os.environ.get("WEFT_EVENTS"):
            with Path(events).open("a", encoding="utf-8") as stream:
                yield EventFile(stream)
            return
        if self.json or self.quiet or not self.err.is_terminal:
            yield ignore_event
            return
        bars = _make_progress_bars(self.err)
        try:
            yield Bars(bars)
        finally:
            bars.stop()


class EventFile:
    """Writes progress events as lines of JSON."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Write an event."""
        self._stream.write(json.dumps(asdict(event)) + "\n")
        self._stream.flush()


class Bars:
    """Shows progress events as one bar per stage."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        if event.stage not in self._tasks:
            self._tasks[event.stage] = self._bars.add_task(event.stage, total=event.total, note="")
            self._bars.start()  # only with the first bar: an empty display would scroll the screen
        task = self._tasks[event.stage]
        if event.finished:
            # A stage of unknown length gets a total, so that its bar stops moving.
            steps = event.total or max(event.done, 1)
            self._bars.update(task, total=steps, completed=steps, note="")
        else:
            self._bars.update(task, total=event.total, completed=event.done, note=event.note)


def hang_up(stream: IO[str]) -> None:
    """Discard the rest of a stream whose reader has closed it, as `head` does, which is not an error.

    Otherwise Python would report a broken pipe when it flushes the stream at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _make_console(*, stderr: bool) -> Console:
    from rich.console import Console

    class SafeConsole(Console):
        """A console that replaces control characters in text and ignores a closed pipe."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                # The console's own controls, such as those of a progress bar, are not text.
                yield segment if segment.control else segment._replace(text=make_printable(segment.text))

        def on_broken_pipe(self) -> None:
            self.quiet = True
            hang_up(self.file)

    return SafeConsole(stderr=stderr, highlight=False)


def _make_progress_bars(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
        console=console,
        transient=True,
    )
