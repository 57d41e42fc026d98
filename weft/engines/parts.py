"""Rows divided into disjoint parts, each privacy unit by one secret coin of its own.

The argument. Every unit gets a word that is uniform, independent of all others and of what the rows say; the part that
its rows go to depends on that word and on nothing else. Let D' be D with one unit more, or with one unit's rows
exchanged. Pair the runs in which all shared units have the same word, and an exchanged unit the one of the unit that
it stands for: the words have the same law on both tables, so this pairs all runs. In each pair the parts of D and D'
are the same but for one of them, which differs by that unit: added, removed or exchanged. So what is asked of different
parts does not add up for anybody, and averaging over the pairs keeps the guarantee.

This rests on words that nobody knows: they are drawn anew for each division, from the operating system's entropy, and
never released. Dealt from a known seed by position they would be worthless: a row put in front passes every word on to
the next row, and so moves many rows to another part.

Words are dealt by a function that is given a *name* for each unit, a fingerprint of its rows. A mechanism must not look
at it. It is for the audit, which runs a program on neighbouring tables and has to deal the same word to the same unit
on both, as the argument does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.engines.spill import chunks, zeros
from weft.engines.units import Owners
from weft.marginals.marginal import Array
from weft.marginals.records import Records

Deal = Callable[[Array], Array]
"""Returns a secret uniform 64-bit word for each name, of which it may not make any use."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def names_of(records: Records) -> Array:
    """Return a fingerprint of each row: equal for equal rows."""
    names = np.zeros(len(records), np.uint64)
    for column in records.columns:
        names = (names ^ column.astype(np.uint64)) * _ODD
        names ^= names >> _SHIFT
    return names


def divide(names: Array, owners: Owners | None, shares: Sequence[float], deal: Deal) -> Array:
    """Return the part of each row; `len(shares)` for rows that are in none, where the shares leave some over.

    With `owners`, the rows of a unit share a coin: the unit's name is the sum of its rows' names, whatever their order.
    """
    if owners is not None:
        _, owners = np.unique(owners, return_inverse=True)
        summed = np.zeros(int(owners.max(initial=-1)) + 1, np.uint64)
        np.add.at(summed, owners, names)
        names = summed
    part = part_of(deal(names), shares)
    return np.asarray(part if owners is None else part[owners])


def part_of(words: Array, shares: Sequence[float]) -> Array:
    """Return the part that each word leads to; `len(shares)` for none, where the shares leave some over."""
    ends = np.cumsum(shares)
    part = np.searchsorted(ends, (words >> np.uint64(11)) * 2.0**-53, side="right")
    # Rounding of the sum must not leave out rows where the shares are meant to be all of them.
    return np.minimum(part, len(shares) - 1) if ends[-1] > 1 - 1e-9 else part


def divided(
    names: Array, keep: Array | None, owners: Owners | None, shares: Sequence[float], deal: Deal, spill: int
) -> list[Array]:
    """Return which of many rows each part has, some rows at a time; those that are not kept are in none.

    The coins are those of `divide`: one for each kept row, or one for each unit, which has its own number.
    """
    masks = [zeros(len(names), np.bool_, spill) for _ in shares]
    coins = np.empty(0) if owners is None else _coins_of_units(names, keep, owners, shares, deal, spill)
    for cut in chunks(len(names)):
        kept = np.arange(cut.stop - cut.start) if keep is None else np.flatnonzero(keep[cut])
        part = part_of(deal(names[cut][kept]), shares) if owners is None else coins[owners[cut][kept]]
        for number, mask in enumerate(masks):
            mask[cut.start + kept[part == number]] = True
    return masks


def _coins_of_units(
    names: Array, keep: Array | None, owners: Owners, shares: Sequence[float], deal: Deal, spill: int
) -> Array:
    """Return the part of each unit, by its number. A unit's name is the sum of its kept rows' names."""
    last = max((int(owners[cut].max(initial=-1)) for cut in chunks(len(owners))), default=-1)
    summed, coins = zeros(last + 1, np.uint64, spill), zeros(last + 1, np.uint8, spill)
    for cut in chunks(len(names)):
        kept = slice(None) if keep is None else np.flatnonzero(keep[cut])
        np.add.at(summed, owners[cut][kept], names[cut][kept])
    for cut in chunks(len(summed)):
        coins[cut] = part_of(deal(summed[cut]), shares)
    return coins
