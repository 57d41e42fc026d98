"""What a person at the terminal sees: progress, warnings, results. Data owns stdout when it is asked for there."""

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


# Text that a terminal may show: names of columns and files may hold what a terminal would obey.

MARK = "\ufffd"
"""What stands for a character that is not shown."""

_UsageError: Any = typer.BadParameter.__mro__[1]  # which typer does not export

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls other than tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of text
    "\u2028\u2029"  # line breaks of their own kind
    "\ud800-\udfff"  # bytes of a file name that are no text
    "\U000e0000-\U000e007f]"  # tags, which nobody sees
)


def make_printable(text: str) -> str:
    r"""Replace every character that a terminal would obey.

    >>> make_printable("age\x1b[2J"), make_printable("a\tb\n")
    ('age\ufffd[2J', 'a\tb\n')
    """
    return _HIDDEN.sub(MARK, text)


class PrintableGroup(TyperGroup):
    """Commands whose usage errors quote arguments in printable form."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Read the arguments."""
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
    """Where a command's words go."""

    json: bool = False
    """One JSON object is the only answer."""
    quiet: bool = False
    """No progress and no summary."""
    debug: bool = False
    """Show tracebacks, which may quote private values."""
    data_on_stdout: bool = False
    """The synthetic rows go to stdout, hence everything else to stderr."""

    @cached_property
    def err(self) -> Console:
        """The console on stderr."""
        return _make_console(stderr=True)

    @cached_property
    def out(self) -> Console:
        """The console for results: stdout, unless the data is there."""
        return self.err if self.data_on_stdout else _make_console(stderr=False)

    def show(self, *parts: RenderableType) -> None:
        """Show a result to a person."""
        from rich.text import Text

        if not (self.json or self.quiet):
            for part in parts:
                # Plain text is left unbroken, so that a command can be copied.
                self.out.print(part, soft_wrap=isinstance(part, Text))

    def answer(self, values: Mapping[str, Any]) -> None:
        """Give a machine its one JSON object."""
        if self.json:
            stream = sys.stderr if self.data_on_stdout else sys.stdout
            try:
                stream.write(json.dumps(values, indent=1, allow_nan=False) + "\n")
                stream.flush()
            except BrokenPipeError:
                hang_up(stream)

    def warn(self, text: str) -> None:
        """Say what a person should think about, also when quiet."""
        self._say("warning", "bold yellow", text)

    def warn_stamps(self, stamps: Iterable[str], *, always: bool = False) -> None:
        """Say the stamps of a release where no summary will show them, or always."""
        if self.json or self.quiet or always:
            for stamp in stamps:
                self.warn(stamp)

    def warn_quietly(self, texts: Iterable[str]) -> None:
        """Say warnings where neither a summary nor a JSON object carries them."""
        if self.quiet and not self.json:
            for text in texts:
                self.warn(text)

    @property
    def asks(self) -> bool:
        """Whether somebody sits there who can be asked."""
        return not (self.json or self.quiet) and sys.stdin.isatty() and self.err.is_terminal

    def say(self, text: str) -> None:
        """Say something before a question."""
        self.err.print(text, soft_wrap=True, markup=False)

    def confirm(self, question: str) -> bool:
        """Ask a question that is answered by yes or no."""
        return typer.confirm(make_printable(question), err=True)

    def prompt(self, question: str) -> str:
        """Ask for a word; an empty one is an answer too."""
        said: str = typer.prompt(make_printable(question), "", err=True)
        return said.strip()

    def fail(self, text: str) -> None:
        """Say what went wrong."""
        self._say("weft", "bold red", text)

    def _say(self, head: str, style: str, text: str) -> None:
        from rich.text import Text

        # Not wrapped: a message stays one line for whoever searches a log for it.
        self.err.print(Text.assemble((f"{head}: ", style), text), soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Listener]:
        """Lend a listener that draws a bar for each stage; one that stays silent where nobody would see it.

        `WEFT_EVENTS` may name a file for another program that shows them: an event a line, as JSON.
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
    """Turns progress events into one line a stage."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        if event.stage not in self._tasks:
            self._tasks[event.stage] = self._bars.add_task(event.stage, total=event.total, note="")
            self._bars.start()  # not before the first bar: an empty display would scroll the screen
        task = self._tasks[event.stage]
        if event.finished:
            # A stage of unknown length has no end to reach: give it one, so that its bar comes to rest.
            steps = event.total or max(event.done, 1)
            self._bars.update(task, total=steps, completed=steps, note="")
        else:
            self._bars.update(task, total=event.total, completed=event.done, note=event.note)


def hang_up(stream: IO[str]) -> None:
    """Send the rest of a stream nowhere: its reader has gone away, as `head` does, which is not an error.

    Python would complain when it flushes the stream at exit, unless there is somewhere to flush to.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _make_console(*, stderr: bool) -> Console:
    from rich.console import Console

    class SafeConsole(Console):
        """A console that sends no control character of a text, and goes on when its reader has gone away.

        What a command did is done, whoever reads its summary.
        """

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
