"""Complete a list of values from public lists: states, countries, currencies, weekdays, answers, test results.

If all common values of a column that discovery found are on one of these lists (`public_lists.toml`), the column gets
the whole list: rare values need not exceed a release threshold, because a public list does not depend on the rows.

Privacy: post-processing of released values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib.resources import files

MIN_FOUND = {6: 1, 12: 2, 400: 3}
"""Minimum number of values that were found, all on the list, by the largest length of a list."""


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
