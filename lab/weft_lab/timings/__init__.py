"""How fast and how large: each timing in a process of its own, so that peak memory is its own.

A module here has `figures(large)`: what was measured, and the figure with its target in words. Where there is a
reference for the same work (numpy, OpenDP, mirror descent), it is timed in the same run.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.errors import MethodError, WeftError
from weft.methods.common.options import suggest_word
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.sheet import Sheet

Figures = list[tuple[str, str]]
"""What was measured, and the figure."""

TIMINGS: tuple[str, ...] = tuple(
    sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name not in ("__main__", "stopwatch"))
)
"""Every timing by name."""


def timings(
    names: Sequence[str] = (),
    *,
    large: bool = False,
    folder: str | Path | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Yield one sheet for each timing; `large` adds the sizes that take minutes."""
    for name in names:
        if name not in TIMINGS:
            raise MethodError(f"there is no timing {name!r}. {suggest_word(name, TIMINGS)}")
    chosen = names or TIMINGS
    failed = []
    with report_stage(listener, "measure", len(chosen)) as work:
        for name in chosen:
            found = _apart(name, large, folder)
            if found is None:
                failed.append(name)
            else:
                yield Sheet(name, ("what", "figure"), found)
            work.advance(note=name)
    if failed:
        raise WeftError(f"these timings failed: {', '.join(failed)}. What they said stands above.")


def _apart(name: str, large: bool, folder: str | Path | None) -> Figures | None:
    """Run one timing in a new process; what it writes last is its figures. None: it failed."""
    command = [sys.executable, "-m", "weft_lab.timings", name, *(["large"] if large else [])]
    environment = os.environ | ({"WEFT_DATA": str(folder)} if folder is not None else {})
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603 a name of ours
    if done.returncode:
        return None
    return [(what, figure) for what, figure in json.loads(done.stdout.splitlines()[-1])]
