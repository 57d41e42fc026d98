"""Values that nobody has listed: those that so many rows share that noise cannot hide them.

A column's different values are counted, each count gets Gaussian noise, and those at or above a threshold leave with
it. Nothing is drawn for values that no row has, so the list of what is counted depends on the rows. That is
paid for thus:

Let D and D' be neighbours, and V all values that either has. The mechanism M* that counts every value of V (those
without a row too) with the same noise and threshold is post-processing of Gaussian noise on a table over V, a set that
is the same for both: mu-GDP for the sensitivity of a marginal. M differs from M* on D only if M* releases a value that
no row of D has. Such a value belongs to the one unit that D lacks, which has at most k rows. If it has j different
such values, each has at most k - j + 1 rows on D', and on D none at all; so the chance is at most the largest
j P(Z >= T - (k - j + 1)), a bound for D' as well as for D. M is therefore within this total-variation distance t of
M*, on both tables, for each column: P(M(D) in S) <= P(M*(D) in S) + t <= e^eps P(M*(D') in S) + delta + t <= e^eps
P(M(D') in S) + delta + (1 + e^eps) t. The ledger pays t from delta as slack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from weft.marginals.marginal import Array

MAX_PARTITION_VALUES = 1 << 40
"""Bound on the values that are counted: how many there are is private, so that no charge can tell their number."""

ARRAYS = 3
"""Arrays that hold the values of a column: their counts, their lengths in bytes, and their bytes one after another."""


def release_chance(threshold: int, sigma: float, rows: int) -> float:
    """Bound the chance that a value is released that only one unit has, of at most so many rows.

    >>> release_chance(10, 1.0, 1) < 1e-15
    True
    """
    different = np.arange(1, rows + 1, dtype=np.float64)
    largest = rows - different + 1
    return float(min(1.0, (different * ndtr(-(threshold - largest - 0.5) / sigma)).max()))


def find_release_threshold(slack: float, sigma: float, rows: int) -> int:
    """Return the least threshold at which `release_chance` is at most the slack.

    >>> release_chance(find_release_threshold(1e-9, 20.0, 3), 20.0, 3) <= 1e-9
    True
    """
    if not 0 < slack < 1:
        raise ValueError("a threshold needs a chance above 0 and below 1")
    low, high = rows, rows + math.ceil(40 * sigma) + 1  # P(Z >= 40 sigma) is below any slack that a float can tell
    while low < high:
        middle = (low + high) // 2
        if release_chance(middle, sigma, rows) <= slack * (1 - 1e-9):
            high = middle
        else:
            low = middle + 1
    return low


def unpack_value_counts(arrays: Sequence[Array]) -> dict[str, int]:
    """Return texts with their counts; bytes that are no text are dropped.

    >>> unpack_value_counts([np.array([5, 3]), np.array([1, 2]), np.frombuffer(b"abc", np.uint8)])
    {'a': 5, 'bc': 3}
    """
    counts, lengths, octets = arrays
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    held = octets.astype(np.uint8).tobytes()
    texts = [held[a:b] for a, b in pairwise(ends)]
    pairs = zip(texts, counts.tolist(), strict=True)
    return {text.decode(): count for text, count in pairs if _is_valid_utf8(text)}


def _is_valid_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
