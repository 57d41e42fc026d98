"""Fewer, larger groups of codes, so that a chart can be read: neighbours of bins, the rare ones of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.marginals.marginal import Array
from weft.marginals.recode import summed_codes
from weft.report.figures import Bar
from weft.schema.kinds.labels import Label

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_VALUES = 30
"""Categories that a column's chart shows; the rest share one bar."""
MOST_BINS = 60
"""Bins that a column's chart shows; more are joined with their neighbours."""
MOST_SPECIAL = 6


@dataclass(frozen=True)
class Grouping:
    """A group for each code."""

    groups: Ints
    labels: tuple[Label, ...]

    def fold(self, table: Array, axis: int = 0) -> Floats:
        """Add up a table's cells by group along one axis."""
        return summed_codes(np.asarray(table, np.float64), self.groups, len(self.labels), axis)


def group(labels: Sequence[Label], weights: Floats, values: int = MOST_VALUES, bins: int = MOST_BINS) -> Grouping:
    """Group the codes of a column: at most so many values, or bins, beside special values and missing ones.

    Of values the ones with the largest weights keep a group of their own; the schema's order stays.

    >>> group([Label(str(i), str(i), "bin") for i in range(10)], np.ones(10), bins=5).labels[0]
    Label(low='0', high='1', sort='bin')
    """
    groups = np.zeros(len(labels), np.int64)
    made: list[Label] = []
    by_sort = {sort: [i for i, label in enumerate(labels) if label.sort == sort] for sort in ("value", "bin")}
    width = -(-len(by_sort["bin"]) // bins) or 1
    for start in range(0, len(by_sort["bin"]), width):
        members = by_sort["bin"][start : start + width]
        groups[members] = len(made)
        made.append(labels[members[0]].joined(labels[members[-1]]))
    _keep_largest(labels, by_sort["value"], weights, values, "others", groups, made)
    special = [i for i, label in enumerate(labels) if label.sort == "special"]
    _keep_largest(labels, special, weights, MOST_SPECIAL, "other special values", groups, made)
    for i, label in enumerate(labels):
        if label.sort == "missing":
            groups[i] = len(made)
            made.append(label)
    return Grouping(groups, tuple(made))


def _keep_largest(
    labels: Sequence[Label],
    members: list[int],
    weights: Floats,
    most: int,
    rest: str,
    groups: Ints,
    made: list[Label],
) -> None:
    kept = set(members)
    if len(members) > most:
        kept = set(sorted(members, key=lambda i: -weights[i])[: most - 1])
    for i in members:
        if i in kept:
            groups[i] = len(made)
            made.append(labels[i])
    left = [i for i in members if i not in kept]
    if left:
        groups[left] = len(made)
        text = f"{len(left)} {rest}"
        made.append(Label(text, text, "rest"))


def bars(labels: Sequence[Label], reference: Floats, synth: Floats, noise: float | None = None) -> tuple[Bar, ...]:
    """Set the shares of both tables side by side, group by group; `noise` is the sigma of one code's share."""
    grouping = group(labels, reference + synth)
    shares = zip(grouping.labels, grouping.fold(reference).tolist(), grouping.fold(synth).tolist(), strict=True)
    spread = np.sqrt(np.bincount(grouping.groups, minlength=len(grouping.labels))).tolist()
    return tuple(
        Bar(str(label), label.low, label.sort, a, b, None if noise is None else noise * wider)
        for (label, a, b), wider in zip(shares, spread, strict=True)
    )


def shares_of(table: Array) -> Floats:
    """Divide a table of counts by its sum; zeros stay zeros."""
    total = float(table.sum())
    shares: Floats = table / total if total > 0 else np.zeros(table.shape)
    return shares
