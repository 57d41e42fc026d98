"""What a person reads of a column: its values as the schema names them, or bins with round ends of what is too fine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.codec import Codec
from weft.codec.group import Group
from weft.marginals.marginal import Array
from weft.schema.kinds.labels import Label

MOST_NAMED = 3
"""Values that are named one by one where they were merged."""


@dataclass(frozen=True)
class Shown:
    """A column that is asked for, as codes of an attribute."""

    column: str
    attribute: str
    values: Array
    """The column's own code for each code of the attribute: the same, but for columns that are counted as a group."""
    labels: tuple[Label, ...]
    """The name of each of the column's own codes."""
    ordered: bool
    apart: frozenset[int]


@dataclass(frozen=True)
class Bins:
    """Groups of the codes of an attribute, and what each is called."""

    codes: Array
    """The bin of each code of the attribute."""
    labels: tuple[str, ...]

    def only(self, met: Array | None) -> Bins:
        """Return the bins that hold a code which conditions allow; all if there are none."""
        if met is None:
            return self
        kept = np.unique(self.codes[met])
        place = np.zeros(len(self.labels), np.int64)  # what is ruled out falls anywhere: it is not counted
        place[kept] = np.arange(len(kept))
        return Bins(place[self.codes], tuple(self.labels[i] for i in kept.tolist()))


def shown(codec: Codec, column: str) -> Shown | None:
    """Return a column as codes; None where no code tells it: it is made of other columns."""
    part = codec.part_of(column)
    if isinstance(part, Group):
        at = part.columns.index(column)
        member = part.members[at]
        order = member.domain.order(member.domain.names[0])
        attribute, values, labels = part.domain.names[0], part.combinations[:, at], member.labels()[0]
        return Shown(column, attribute, values, labels, order.ordered, order.apart)
    if part is None or part.needs or column not in part.domain:
        return None
    order = part.domain.order(column)
    labels = part.labels()[part.domain.index(column)]
    return Shown(column, column, np.arange(len(labels)), labels, order.ordered, order.apart)


def bins_of(asked: Shown, coding: Array, most: int) -> Bins | None:
    """Return bins of a column, none of which cuts a code of `coding` (of each code of the attribute); None: they must.

    Merged codes of a column of its own are bins themselves, and neighbours are joined where there are more than `most`.
    """
    atoms = asked.values
    if not _refines(coding, atoms):
        if len(atoms) != len(asked.labels):  # a group's column: its values are in other codes together with others
            return None
        atoms = coding
    atoms = _in_order(atoms)
    held = np.split(asked.values[np.argsort(atoms, kind="stable")], np.cumsum(np.bincount(atoms))[:-1])
    members = [np.unique(values) if len(values) > 1 else values for values in held]
    joined = _joined(asked, members, most)
    of = np.empty(len(members), np.int64)
    labels = []
    for place, group in enumerate(joined):
        of[group] = place
        labels.append(_named(asked, np.unique(np.concatenate([members[atom] for atom in group]))))
    return Bins(of[atoms], tuple(labels))


def _refines(coding: Array, values: Array) -> bool:
    """Whether every code of a coding stands for one value."""
    found = np.zeros(int(coding.max()) + 1, values.dtype)
    found[coding] = values
    return bool(np.array_equal(found[coding], values))


def _in_order(groups: Array) -> Array:
    """Number groups by their first code."""
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[inverse])


def _joined(asked: Shown, members: Sequence[Array], most: int) -> list[list[int]]:
    """Join neighbours of an ordered column until there are at most so many, beside codes that stand apart."""
    inside = [i for i, held in enumerate(members) if not asked.apart.intersection(held.tolist())]
    if not asked.ordered or len(inside) <= most:
        return [[i] for i in range(len(members))]
    numbers = [_number(asked.labels[int(members[i][0])].low) for i in inside]
    if any(number is None for number in numbers):
        each = -(-len(inside) // most)
        keys = [place // each for place in range(len(inside))]
    else:
        lows = [float(number or 0) for number in numbers]
        width = round_width(lows[0], lows[-1], most)
        keys = [cut(number, width) for number in lows]
    groups: dict[int, list[int]] = {}
    for i, key in zip(inside, keys, strict=True):
        groups.setdefault(key, []).append(i)
    return [*groups.values(), *([int(i)] for i in np.setdiff1d(np.arange(len(members)), inside))]


def round_width(low: float, high: float, most: int) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... (or .1, .2, ...) whose multiples cut a range into at most so many.

    >>> round_width(0, 99, 20), round_width(0, 110, 20), round_width(0, 0.9, 10)
    (5.0, 10.0, 0.1)
    """
    power = 10.0 ** math.floor(math.log10(max((high - low) / most, 1e-300)))
    widths = [step * power for power in (power, 10 * power) for step in (1.0, 2.0, 5.0)]
    return next((w for w in widths if cut(high, w) - cut(low, w) < most), 100 * power)


def cut(number: float, width: float) -> int:
    """Return the multiple of a width at which a number's bin begins."""
    return math.floor(number / width + 1e-9)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _named(asked: Shown, codes: Array) -> str:
    labels = [asked.labels[int(code)] for code in codes]
    if len(labels) == 1:
        return str(labels[0])
    if asked.ordered and not asked.apart.intersection(codes.tolist()) and int(np.ptp(codes)) == len(codes) - 1:
        return str(labels[0].joined(labels[-1]))
    if len(labels) <= MOST_NAMED:
        return ", ".join(map(str, labels))
    return f"{len(labels):,} rarer values together"
