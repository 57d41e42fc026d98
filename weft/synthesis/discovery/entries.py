"""Discovered schema entries, under which no row is refused, and public lists that complete lists of values.

If all common values of a column that discovery found are on one public list (`public_lists.toml`: states, countries,
currencies, weekdays, answers, test results), the column gets the whole list: rare values need not exceed a release
threshold, because a public list does not depend on the rows.

Privacy: post-processing of released values.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import pyarrow as pa

from weft.curator import Curator, ValueCurator
from weft.marginals.marginal import Array
from weft.progress import Listener, ignore_event
from weft.schema import Schema
from weft.synthesis.discovery.kind_inference import without_inexact_type

OTHER = "other"  # value that replaces all values below the release threshold


@dataclass(frozen=True)
class Discovered:
    """A complete schema, and a description of the finding for each column."""

    schema: Schema
    found: dict[str, str] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)  # upper bound of the cost: epsilon and delta
    stamps: tuple[str, ...] = ()  # warnings stamped on everything that the run releases
    unit_sizes: Array | None = None  # estimated numbers of persons with 1, 2, ... rows, if the bound was chosen by them


@dataclass(frozen=True)
class Counted:
    """Noisy number of rows with a value, and its standard deviation."""

    count: int
    sigma: float


@dataclass(frozen=True)
class Doors:
    """Ways to open the table: for its types, for probes, or to list values; the last two return a curator."""

    types: Callable[[Schema], pa.Schema]
    look: Callable[[Schema], Curator]
    values: Callable[[Schema], ValueCurator]


@dataclass(frozen=True)
class Settings:
    """Terms of a discovery."""

    share: float  # of the budget
    slack: float  # of its delta
    listener: Listener = ignore_event
    chooses_bound: bool = False  # whether to choose the contribution bound privately
    time: str | None = None  # column that orders rows in time: numbers or dates, even if noise hides its kind


RANGED = {"integer": "whole numbers", "real": "numbers", "datetime": "dates", "duration": "lengths of time"}
"""Kinds with a range, and the name of their values."""

PAID = (
    *("kind", "values", "range", "special", "missing", "decimals", "step", "format", "other_formats", "pattern"),
    *("type", "prefix", "lost_share"),
)

MIN_FOUND = {6: 1, 12: 2, 400: 3}
"""Minimum number of values that were found, all on the list, by the largest length of a list."""


def settle_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry under which no row is refused."""
    kind = entry["kind"]
    if kind == "id":
        return {key: value for key, value in entry.items() if key in ("kind", "pattern")}
    if kind == "integer":
        return {**without_inexact_type(entry), "outside": "clip"}
    if kind == "category" and "other" not in entry:
        return {**entry, "other": choose_other_word(entry["values"])}
    return dict(entry) if kind == "category" else {**entry, "outside": "clip"}


def choose_other_word(values: Iterable[str]) -> str:
    """Return the word that represents every value that is not listed.

    >>> choose_other_word(["a", "other"])
    '(other)'
    """
    listed = set(values)
    return next(word for depth in range(len(listed) + 1) if (word := "(" * depth + OTHER + ")" * depth) not in listed)


def merge_missing(*entries: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the markers of missing values of several entries."""
    told = [entry["missing"] for entry in entries if entry.get("missing")]
    markers = [marker for each in told if isinstance(each, list | tuple) for marker in each]
    return {"missing": list(dict.fromkeys(markers)) or True} if told else {}


@lru_cache
def _collect_lists() -> tuple[frozenset[str], ...]:
    """Return all lists in the usual spellings, shortest first."""
    text = (files(__package__) / "public_lists.toml").read_text(encoding="utf-8")
    made = {each for words in tomllib.loads(text).values() for each in _spell(words)}
    return tuple(sorted(made, key=lambda each: (len(each), sorted(each))))


def _spell(words: Collection[str]) -> Iterator[frozenset[str]]:
    yield frozenset(words)
    yield frozenset(word.upper() for word in words)
    yield frozenset(word.lower() for word in words)
    yield frozenset(word[:1].upper() + word[1:] for word in words)


def find_public_list(found: Collection[str]) -> frozenset[str]:
    """Return the shortest public list that contains all values that were found; empty if there is none.

    >>> sorted(find_public_list(["Mon", "Tue"]))
    ['Fri', 'Mon', 'Sat', 'Sun', 'Thu', 'Tue', 'Wed']
    >>> find_public_list(["Mon", "Holiday"])
    frozenset()
    """
    values = set(found)
    for listed in _collect_lists():
        least = next((few for most, few in MIN_FOUND.items() if len(listed) <= most), len(listed))
        if len(values) >= least and values <= listed:
            return listed
    return frozenset()
