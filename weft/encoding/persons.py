"""People with several rows: which synthetic rows belong to one person.

How many rows a person has was measured on the private rows; which synthetic rows are whose was not, and is made up:
rows that are alike in what stays the same for a person (`per_unit`) are neighbours, and are dealt out to people in the
measured numbers. Columns that follow from others are computed after that, and every rule is enforced on the result.
Only synthetic rows and a released table are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.marginal import Array
from weft.schema.kinds import Id
from weft.schema.rules import Block, Rule
from weft.schema.rules.column_values import joint_keys

if TYPE_CHECKING:
    from weft.encoding.codec import Codec


# Keys inside a person's rows, such as one row for each patient and year: rows are dealt out so that none repeats.

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ROUNDS = 40
"""Times that rows are exchanged, and that copies are tried."""

_DENSE = 16
"""Numbers for each row, up to which all of them are counted in an array."""

NEAREST = 16
"""Rows on each side, in the order in which persons are alike, that take part in the first exchange."""


@dataclass(frozen=True)
class Deal:
    """Rows dealt out to persons."""

    person: Ints
    """Number of each row's person."""
    source: Ints
    """Row whose values each row has: itself, or the one that it copies."""


def find_repeats(keys: Sequence[Ints]) -> tuple[Mask, Mask]:
    """Return which rows repeat a combination of these numbers: those after the first of each, and all of them.

    >>> [mask.tolist() for mask in find_repeats([np.array([1, 2, 1, 1]), np.array([5, 5, 5, 6])])]
    [[False, False, True, False], [True, False, True, False]]
    """
    joint, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        values, places = np.unique(key, return_inverse=True)
        joint, size = joint * max(len(values), 1) + places, size * max(len(values), 1)
        if size > _DENSE * len(joint):  # numbers stay small enough to be multiplied
            values, joint = np.unique(joint, return_inverse=True)
            size = len(values)
    return _mark_repeats(joint, size)


def _mark_repeats(numbers: Ints, size: int) -> tuple[Mask, Mask]:
    """Return which rows repeat a number below `size`: those after the first of each, and all of them."""
    if size > _DENSE * len(numbers):
        numbers = np.unique(numbers, return_inverse=True)[1]
        size = len(numbers)
    rows = np.arange(len(numbers))
    first = np.zeros(size, np.int64)
    first[numbers[::-1]] = rows[::-1]  # the last one that is written is the first row
    return rows != first[numbers], np.bincount(numbers, minlength=size)[numbers] > 1


def deal_without_repeats(person: Ints, order: Ints, keys: Sequence[Ints], copy: bool, rng: np.random.Generator) -> Deal:
    """Return rows dealt out anew, so that hardly any person has two rows with the same key.

    `order` lists the rows so that alike persons are neighbours; partners are taken from an ever wider neighbourhood.
    Each of `keys` numbers the rows by the columns of one rule, without the person. With `copy`, rows for which no
    partner is found become copies of rows with another key.
    """
    person, source = person.copy(), np.arange(len(person))
    rank = invert_order(order)
    for attempt in range(ROUNDS):
        rows, _ = find_clashes(person, source, keys)
        if not len(rows):
            break
        rows, partners = find_partners(rows, order, rank, attempt, rng)
        trial = person.copy()
        trial[rows], trial[partners] = person[partners], person[rows]
        _, clashing = find_clashes(trial, source, keys)
        kept = ~(clashing[rows] | clashing[partners])
        person[rows[kept]], person[partners[kept]] = person[partners[kept]], person[rows[kept]]
    for attempt in range(ROUNDS if copy else 0):
        rows, _ = find_clashes(person, source, keys)
        if not len(rows):
            break
        copies = source.copy()
        copies[rows] = source[find_neighbours(rows, order, rank, attempt, rng)]
        _, clashing = find_clashes(person, copies, keys)
        kept = ~clashing[rows]
        source[rows[kept]] = copies[rows[kept]]
    return Deal(person, source)


def invert_order(order: Ints) -> Ints:
    """Return the place of each row in an order of rows."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def find_clashes(person: Ints, source: Ints, keys: Sequence[Ints]) -> tuple[Ints, Mask]:
    """Return the rows that repeat a key of their person, and a mask of these and the rows that they repeat."""
    later, every = np.zeros(len(person), bool), np.zeros(len(person), bool)
    for key in keys:
        size = int(key.max(initial=0)) + 1
        more, both = _mark_repeats(person * size + key[source], (int(person.max(initial=0)) + 1) * size)
        later, every = later | more, every | both
    return np.flatnonzero(later), every


def find_neighbours(rows: Ints, order: Ints, rank: Ints, attempt: int, rng: np.random.Generator) -> Ints:
    """Return for each row a random one near it, in a neighbourhood that grows with every attempt."""
    reach = min(int(NEAREST * 1.5**attempt), len(order))
    places = np.clip(rank[rows] + rng.integers(-reach, reach + 1, len(rows)), 0, len(order) - 1)
    return np.asarray(order[places])


def find_partners(rows: Ints, order: Ints, rank: Ints, attempt: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return pairs of rows to exchange, each row in one pair at most."""
    partners = find_neighbours(rows, order, rank, attempt, rng)
    _, first = np.unique(partners, return_index=True)
    first = first[~np.isin(partners[first], rows)]
    return rows[first], partners[first]


Meets = Callable[[pa.Table], NDArray[np.bool_]]
"""Says which rows of a table meet the conditions of a sample."""


@dataclass(frozen=True)
class People:
    """How rows are dealt out."""

    sizes: Array
    """Share of the people with 1, 2, ... rows."""
    same: tuple[str, ...] = ()
    """Columns that stay the same for a person."""

    @classmethod
    def of(cls, noisy: Array, same: tuple[str, ...]) -> People:
        """Take noisy numbers of people with 1, 2, ... rows; if noise left none of them, all have one row."""
        counts = np.maximum(np.asarray(noisy, np.float64), 0)
        return cls(counts if counts.sum() > 0 else np.eye(1, len(counts))[0], same)

    def assign(
        self, table: pa.Table, codec: Codec, rng: np.random.Generator, meets: Meets | None = None
    ) -> tuple[pa.Table, Ints]:
        """Return the table with each person's constants in all of their rows, and the number of each row's person.

        Every rule of the schema holds in the result, keys of a person's rows included, and so do the conditions of
        `meets`. A row for which no other way is found keeps its own values, and has a person of its own.
        """
        same = codec.table_columns(self.same)
        block = codec.block(table)
        order = _sort_alike(block, same, rng)
        ends = self._ends(len(order), rng)
        person = np.empty(len(order), np.int64)
        person[order] = np.searchsorted(ends, np.arange(len(order)), side="right")
        first = order[np.concatenate([[0], ends[:-1]]).astype(np.int64)] if len(order) else order
        keys, copy = _person_keys(block, codec)
        deal = Deal(person, np.arange(len(person)))
        deal = deal_without_repeats(person, order, keys, copy, rng) if keys and len(person) else deal
        rows = _Rows(table, codec, same, deal, first, rng)
        alone = np.zeros(len(order), bool)
        made = rows.build(alone)
        if same and (wrong := _find_wrong(made, codec, meets)).any():
            alone = rows.exchange(wrong, order, keys, meets)
            made = rows.build(alone)
        while (more := rows.find_clashes(made, alone) & ~alone).any():
            alone |= more
            made = rows.build(alone)
        return made, np.unique(rows.people(alone), return_inverse=True)[1].astype(np.int64)

    def _ends(self, rows: int, rng: np.random.Generator) -> Ints:
        """Return where each person's rows end, for people drawn until the rows are dealt out."""
        if not rows:
            return np.zeros(0, np.int64)
        drawn = 1 + rng.choice(len(self.sizes), rows, p=self.sizes / self.sizes.sum())
        ends = np.cumsum(drawn)
        return np.append(ends[ends < rows], rows).astype(np.int64)


class _Rows:
    """Synthetic rows dealt out to persons, some of which may be persons of their own."""

    def __init__(
        self, table: pa.Table, codec: Codec, same: Sequence[str], deal: Deal, first: Ints, rng: np.random.Generator
    ) -> None:
        """Take rows as they were drawn, and for each person the row that has their constants."""
        self._table, self._codec, self._same, self._deal, self._rng = table, codec, same, deal, rng
        self._first = first
        self._copied = table
        if (deal.source != np.arange(len(table))).any():
            ids = [name for name in table.column_names if isinstance(codec.schema.column(name), Id)]
            self._copied = table.take(pa.array(deal.source))
            for name in ids:
                place = table.schema.get_field_index(name)
                self._copied = self._copied.set_column(place, table.schema.field(place), table.column(name))

    def people(self, alone: Mask) -> Ints:
        """Return the person of each row; rows in `alone` have one each."""
        return np.where(alone, len(self._first) + np.arange(len(alone)), self._deal.person)

    def build(self, alone: Mask) -> pa.Table:
        """Return the rows with the constants of their persons, and all that follows from them."""
        origin = np.where(alone, self._deal.source, self._first[self._deal.person])
        return self._with_constants(self._copied, origin) if self._same else self._copied

    def _with_constants(self, rows: pa.Table, origin: Ints) -> pa.Table:
        places = pa.array(origin)
        constants = {name: self._table.column(name).take(places) for name in self._same}
        return self._codec.replace_columns(rows, constants, self._rng)

    def exchange(self, wrong: Mask, order: Ints, keys: Sequence[Ints], meets: Meets | None) -> Mask:
        """Exchange rows that break a rule for rows of other persons, where both keep all rules then.

        Persons keep their numbers of rows. Return the rows that are left.
        """
        person, rank, left = self._deal.person.copy(), invert_order(order), np.flatnonzero(wrong)
        for attempt in range(ROUNDS):
            rows, partners = find_partners(left, order, rank, attempt, self._rng)
            both, trial = np.concatenate([rows, partners]), person.copy()
            trial[rows], trial[partners] = person[partners], person[rows]
            made = self._with_constants(self._copied.take(pa.array(both)), self._first[trial[both]])
            bad = _find_wrong(made, self._codec, meets) | find_clashes(trial, self._deal.source, keys)[1][both]
            kept = ~bad.reshape(2, -1).any(axis=0)
            person[rows[kept]], person[partners[kept]] = trial[rows[kept]], trial[partners[kept]]
            left = np.setdiff1d(left, rows[kept])
            if not len(left):
                break
        self._deal = Deal(person, self._deal.source)
        return np.isin(np.arange(len(wrong)), left)

    def find_clashes(self, made: pa.Table, alone: Mask) -> Mask:
        """Return the rows to be taken from their persons, because a key repeats.

        Of rows of one person these are all but the first. A key that does not name the person was unique before the
        constants were set, and is so again when all rows that share it have their own values.
        """
        found = np.zeros(len(alone), bool)
        rules = _find_keys(self._codec)
        if not rules:
            return found
        block, unit = self._codec.block(made), self._codec.unit_column
        for rule in rules:
            own = _number_rows(block, [name for name in rule.columns if name != unit])
            if unit in rule.columns:
                found |= find_repeats([self.people(alone), own])[0]
            else:
                found |= find_repeats([own])[1]
        return found


def _person_keys(block: Block, codec: Codec) -> tuple[list[Ints], bool]:
    """Number the rows by each key that names the person, without the person; and say whether rows may be copied."""
    rules, unit = _find_keys(codec), codec.unit_column
    held = [rule for rule in rules if unit in rule.columns]
    own = [[name for name in rule.columns if name != unit and name not in codec.schema.per_unit] for rule in held]
    return [_number_rows(block, names) for names in own], len(held) == len(rules)


def _find_wrong(table: pa.Table, codec: Codec, meets: Meets | None) -> Mask:
    """Return the rows that break a rule by themselves, or do not meet the conditions."""
    broken = codec.find_broken(table)
    return broken if meets is None else broken | ~meets(table)


def _find_keys(codec: Codec) -> list[Rule]:
    """Return the rules that compare rows and could be broken: an id of each row makes any key unique."""
    unit = codec.unit_column
    ids = {column.name for column in codec.schema.columns if isinstance(column, Id) and column.name != unit}
    return [rule for rule in codec.schema.rules if not rule.alone and not ids & set(rule.columns)]


def _number_rows(block: Block, names: Sequence[str]) -> Ints:
    """Return a number for each row, the same for rows that agree in these columns."""
    return joint_keys([block[name] for name in names]) if names else np.zeros(block.rows, np.int64)


def _sort_alike(block: Block, names: Sequence[str], rng: np.random.Generator) -> Ints:
    """Return the rows in an order in which those that are alike in some columns are neighbours, otherwise random."""
    keys: list[NDArray[Any]] = [rng.random(block.rows)]
    for name in names:
        values = block[name]
        keys += [np.where(values.missing, 0, values.numbers), values.missing]
    return np.lexsort(keys)
