"""What discovery finds, as entries of a schema file under which no row can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weft.curator import Curator, ValueCurator
from weft.schema import Schema
from weft.synthesis.discovery.kind_inference import without_inexact_type

OTHER = "other"
"""What stands for values that too few rows share."""


@dataclass(frozen=True)
class Discovered:
    """A whole schema, and in words what was found of each column."""

    schema: Schema
    found: dict[str, str] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    """What it may have cost: epsilon and delta."""
    stamps: tuple[str, ...] = ()
    """Warnings that go with everything that its run releases."""


@dataclass(frozen=True)
class Counted:
    """How many rows have a value, and the noise of that."""

    count: int
    sigma: float


@dataclass(frozen=True)
class Doors:
    """How the recipe opens the table: with looks, or to list values, each a curator; or for its types alone."""

    types: Callable[[Schema], pa.Schema]
    look: Callable[[Schema], Curator]
    values: Callable[[Schema], ValueCurator]


RANGED = {"integer": "whole numbers", "real": "numbers", "datetime": "dates", "duration": "lengths of time"}
"""Kinds that have a range, and what their values are called."""

PAID = (
    *("kind", "values", "range", "special", "missing", "decimals", "step", "format", "other_formats", "pattern"),
    *("type", "prefix", "lost_share"),
)


def settle_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry under which no row can fail."""
    kind = entry["kind"]
    if kind == "id":
        return {key: value for key, value in entry.items() if key in ("kind", "pattern")}
    if kind == "integer":
        return {**without_inexact_type(entry), "outside": "clip"}
    if kind == "category" and "other" not in entry:
        return {**entry, "other": choose_other_word(entry["values"])}
    return dict(entry) if kind == "category" else {**entry, "outside": "clip"}


def choose_other_word(values: Iterable[str]) -> str:
    """Return the word that stands for every value that is not listed.

    >>> choose_other_word(["a", "other"])
    '(other)'
    """
    listed = set(values)
    return next(word for depth in range(len(listed) + 1) if (word := "(" * depth + OTHER + ")" * depth) not in listed)


def round_share(share: float) -> float:
    """Return a noisy share as a schema file states it: between 0 and 1, to a thousandth."""
    return round(min(max(share, 0.0), 1.0), 3)


def merge_missing(*entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return what both say of missing values: the markers of either."""
    told = [entry["missing"] for entry in entries if entry.get("missing")]
    markers = [marker for each in told if isinstance(each, list | tuple) for marker in each]
    return {"missing": list(dict.fromkeys(markers)) or True} if told else {}
