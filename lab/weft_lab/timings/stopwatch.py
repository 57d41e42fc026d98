"""Seconds by stage of a run, peak memory, and the shortest of several calls."""

from __future__ import annotations

import resource
from collections.abc import Callable
from time import perf_counter

from weft.progress import Event


class Stopwatch:
    """A listener that adds up the seconds of every stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Start or stop a stage."""
        if event.finished:
            taken = perf_counter() - self._started[event.stage]
            self.seconds[event.stage] = self.seconds.get(event.stage, 0.0) + taken
        elif event.done == 0:
            self._started[event.stage] = perf_counter()


def peak() -> int:
    """Return the most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shortest(work: Callable[[], object], least: float = 0.5) -> float:
    """Return the shortest time of a call, in seconds, over so many seconds of calls."""
    times: list[float] = []
    while sum(times) < least:
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)
