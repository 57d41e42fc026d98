"""Group codes for charts: adjacent bins are joined, and rare values of a list are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.encoding import Codec
from weft.evaluation.report.report_figures import Bar
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.marginals.marginal import Array
from weft.marginals.records import Records
from weft.marginals.value_groups import coarse_groups, sum_by_codes
from weft.schema.kinds.kind import Label, make_single_label

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_CHART_VALUES = 30
"""Maximum number of values in a chart; the rest share one bar."""
MAX_CHART_BINS = 60
"""Maximum number of bins in a chart; adjacent ones are joined."""
MAX_SPECIAL_VALUES = 6
OTHER, UNLISTED = "other", "unlisted values"
"""The usual word for values that are not listed, and their name in charts where a listed value is called so."""


@dataclass(frozen=True)
class Grouping:
    """The group of each code, and the labels of the groups."""

    groups: Ints
    labels: tuple[Label, ...]

    def fold(self, table: Array, axis: int = 0) -> Floats:
        """Sum the cells of a table by group along one axis."""
        return sum_by_codes(np.asarray(table, np.float64), self.groups, len(self.labels), axis)


def group_codes(
    labels: Sequence[Label], weights: Floats, values: int = MAX_CHART_VALUES, bins: int = MAX_CHART_BINS
) -> Grouping:
    """Group the codes of an attribute into at most `values` values or `bins` bins, plus special and missing values.

    The values with the largest weights keep their own groups, in the order of the schema.

    >>> group_codes([Label(str(i), str(i), "bin") for i in range(10)], np.ones(10), bins=5).labels[0]
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
    _keep_largest(labels, special, weights, MAX_SPECIAL_VALUES, "other special values", groups, made)
    for i, label in enumerate(labels):
        if label.sort == "missing":
            groups[i] = len(made)
            made.append(label)
    return Grouping(groups, tuple(made))


def _keep_largest(
    labels: Sequence[Label], members: list[int], weights: Floats, most: int, rest: str, groups: Ints, made: list[Label]
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


def make_bars(labels: Sequence[Label], reference: Floats, synth: Floats, noise: float | None = None) -> tuple[Bar, ...]:
    """Return the shares of both tables by group; `noise` is the standard deviation of the share of one code."""
    grouping = group_codes(labels, reference + synth)
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


def label_codes(codec: Codec, name: str) -> tuple[Label, ...]:
    """Return the label of every code of an attribute, in the order of the codes.

    Unlisted values are named as such beside a value that is itself called "other".
    """
    part = codec.part(name)
    labels = part.labels()[part.domain.index(name)]
    other = getattr(codec.schema.column(name), "other", None) if name in codec.schema else None
    if other is None or sum(label.low.strip("()").casefold() == OTHER for label in labels) < 2:
        return tuple(labels)
    return tuple(make_single_label(UNLISTED, label.sort) if label.low == str(other) else label for label in labels)


MAX_CHART_CODES = 60
"""Ordered attributes with more codes than this are compared in groups of adjacent codes."""

GROUPS = 40


@dataclass(frozen=True)
class View:
    """The codes in which a report compares tables, chosen without the private rows."""

    codec: Codec
    groups: Mapping[str, Array]
    """Group of each code, for the attributes with many codes."""

    @classmethod
    def of(cls, codec: Codec, synth: Records) -> View:
        """Choose the groups from the synthetic rows."""
        domain = codec.domain
        orders = {name: domain.order(name) for name in domain}
        wide = [n for n in domain if orders[n].ordered and domain.size(n) - len(orders[n].apart) > MAX_CHART_CODES]
        made = count_marginals(synth, [(name,) for name in wide])
        return cls(codec, {n: coarse_groups(t, orders[n].apart, GROUPS) for n, t in zip(wide, made, strict=True)})

    @cached_property
    def domain(self) -> Domain:
        """The attributes in these codes."""
        source = self.codec.domain
        sizes = [int(self.groups[n].max()) + 1 if n in self.groups else source.size(n) for n in source]
        orders = [
            source.order(n).grouped(self.groups[n].tolist()) if n in self.groups else source.order(n) for n in source
        ]
        return Domain(source.names, tuple(sizes), tuple(orders))

    def records(self, table: Records) -> Records:
        """Convert records to these codes."""
        columns = [
            self.groups[name][codes] if name in self.groups else codes
            for name, codes in zip(table.domain, table.columns, strict=True)
        ]
        return Records.of(self.domain, columns)

    def fold(self, name: str, table: Array) -> Array:
        """Convert a one-way table to these codes."""
        if name not in self.groups:
            return table
        return sum_by_codes(np.asarray(table), self.groups[name], self.domain.size(name))

    def labels(self, name: str) -> tuple[Label, ...]:
        """Return the labels of an attribute's codes."""
        named = label_codes(self.codec, name)
        if name not in self.groups:
            return named
        codes, first = np.unique(self.groups[name], return_index=True)
        last = len(self.groups[name]) - 1 - np.unique(self.groups[name][::-1], return_index=True)[1]
        return tuple(named[first[code]].joined(named[last[code]]) for code in codes)
