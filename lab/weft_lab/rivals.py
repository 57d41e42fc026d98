"""Figures of other software on the same tables, kept in rivals.toml with where they come from."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

ORDERS = 5
"""Errors are of marginals of order 1 to this."""


@dataclass(frozen=True, kw_only=True)
class Software:
    """A program, as it was run."""

    label: str
    version: str
    """A release or commit; "not recorded" where nobody wrote it down."""
    source: str
    run: str
    """The call or the settings."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """One run of one program on one table; without errors if it did not end well."""

    rival: str
    table: str
    epsilon: float
    errors: tuple[float, ...] = ()
    """Mean total variation of marginals of order 1, 2, ..."""
    range_error: float | None = None
    nist_range: float | None = None
    svm: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    megabytes: float | None = None
    status: str = ""
    """How it ended, or what disturbed it."""

    @property
    def label(self) -> str:
        """The program's name."""
        return software()[self.rival].label

    def error(self, order: int) -> float | None:
        """Return the error of one order, if it was measured."""
        return self.errors[order - 1] if order <= len(self.errors) else None


@cache
def software() -> Mapping[str, Software]:
    """Return every program by the name that runs refer to it by."""
    return {name: Software(**found) for name, found in _file()["software"].items()}


@cache
def runs() -> tuple[RivalRun, ...]:
    """Return every run there is."""
    return tuple(RivalRun(**{**found, "errors": tuple(found.get("errors", ()))}) for found in _file()["runs"])


def rivals(table: str, epsilon: float) -> list[RivalRun]:
    """Return the runs on a table and budget that gave figures."""
    return [run for run in runs() if (run.table, run.epsilon) == (table, epsilon) and run.errors]


def best(table: str, epsilon: float) -> tuple[float, ...]:
    """Return the least error of each order that any program reached; nan where none was measured."""
    found = rivals(table, epsilon)
    return tuple(
        min((error for run in found if (error := run.error(order)) is not None), default=math.nan)
        for order in range(1, ORDERS + 1)
    )


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(files("weft_lab").joinpath("rivals.toml").read_text(encoding="utf-8"))
