"""Progress events of a run, for a terminal bar, a log or a page.

Privacy: events contain stage names, step numbers and notes from noisy or public figures only. A pass over private rows
reports on a fixed grid of shares, so that neither the events nor their number depend on the number of rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Progress of a stage: `done` of `total` steps (total None: unknown)."""

    stage: str
    done: int
    total: int | None
    note: str = ""
    finished: bool = False


GRID = 10
"""Number of events of a stage that reports shares of its work."""


Listener = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore the event: the default listener."""


@dataclass
class Stage:
    """An active stage; call `advance` after each step."""

    name: str
    total: int | None
    listener: Listener
    done: int = 0

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Report completed steps."""
        self.done += steps
        self.listener(Event(self.name, self.done, self.total, note))

    def reach(self, share: float) -> None:
        """Report a completed share of the work, from 0 to 1, as events on a fixed grid, each once.

        >>> seen = []
        >>> Stage("read", 100, seen.append).reach(0.35)
        >>> [event.done for event in seen]
        [10, 20, 30]
        """
        assert self.total is not None
        while self.done < self.total and self.done + self.total // GRID <= share * self.total:
            self.advance(self.total // GRID)


@contextmanager
def report_stage(listener: Listener, name: str, total: int | None = None) -> Iterator[Stage]:
    """Report the start of a stage, yield it to be advanced, and report its end.

    >>> seen = []
    >>> with report_stage(seen.append, "count", total=2) as work:
    ...     work.advance()
    >>> [(e.done, e.finished) for e in seen]
    [(0, False), (1, False), (1, True)]
    """
    work = Stage(name, total, listener)
    listener(Event(name, 0, total))
    yield work
    listener(Event(name, work.done, total, finished=True))
