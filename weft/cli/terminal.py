"""What a person at the terminal sees: progress, warnings, results. Data owns stdout when it is asked for there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from weft.progress import Event, Listener, silence

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID


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
        return _console(stderr=True)

    @cached_property
    def out(self) -> Console:
        """The console for results: stdout, unless the data is there."""
        return self.err if self.data_on_stdout else _console(stderr=False)

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
            yield silence
            return
        bars = _bars(self.err)
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


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    class Unheard(Console):
        """A console that talks on when nobody listens: what a command did is done, whoever reads its summary."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            hang_up(self.file)

    return Unheard(stderr=stderr, highlight=False)


def _bars(console: Console) -> Progress:
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
