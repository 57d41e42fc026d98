"""Private discovery of common values: noisy counts of a column's values, released above a threshold.

The distinct values of a column are counted, each count gets Gaussian noise, and values at or above a threshold are
released with their noisy counts. Values without a row get no noise: the set of counted values depends on the rows.

Privacy: let D and D' be neighbours, and V all values of either. The mechanism M* that counts every value of V
(including those without a row) with the same noise and threshold is post-processing of Gaussian noise on a table over
V, a set that is the same for both: mu-GDP for the L2 sensitivity of a marginal. M differs from M* on D only if M*
releases a value that no row of D has. Such a value belongs to the one unit that D lacks, which has at most k rows. If
it has j different such values, each has at most k - j + 1 rows on D', and none on D; so the probability is at most the
largest j P(Z >= T - (k - j + 1)), a bound for D' as well as for D. M is therefore within this total-variation distance
t of M*, on both tables, for each column: P(M(D) in S) <= P(M*(D) in S) + t <= e^eps P(M*(D') in S) + delta + t <= e^eps
P(M(D') in S) + delta + (1 + e^eps) t. The ledger pays t from delta as slack.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from weft.marginals.marginal import Array

MAX_PARTITION_VALUES = 1 << 40
"""Bound on the number of counted values: their true number is private, so a charge must not contain it."""

ARRAYS = 3
"""Arrays that represent the values of a column: counts, lengths in bytes, and the concatenated bytes."""


def release_chance(threshold: int, sigma: float, rows: int) -> float:
    """Bound the probability that a value is released that only one unit has, with at most `rows` rows.

    >>> release_chance(10, 1.0, 1) < 1e-15
    True
    """
    different = np.arange(1, rows + 1, dtype=np.float64)
    largest = rows - different + 1
    return float(min(1.0, (different * ndtr(-(threshold - largest - 0.5) / sigma)).max()))


def find_release_threshold(slack: float, sigma: float, rows: int) -> int:
    """Return the smallest threshold at which `release_chance` is at most the slack.

    >>> release_chance(find_release_threshold(1e-9, 20.0, 3), 20.0, 3) <= 1e-9
    True
    """
    if not 0 < slack < 1:
        raise ValueError("the slack of a threshold must be above 0 and below 1")
    low, high = rows, rows + math.ceil(40 * sigma) + 1  # P(Z >= 40 sigma) is below any slack that a float can hold
    while low < high:
        middle = (low + high) // 2
        if release_chance(middle, sigma, rows) <= slack * (1 - 1e-9):
            high = middle
        else:
            low = middle + 1
    return low


def unpack_value_counts(arrays: Sequence[Array]) -> dict[str, int]:
    """Return texts with their counts; bytes that are not valid UTF-8 are dropped.

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
