"""Assign synthetic rows to persons with several rows.

The number of rows per person was measured on the private rows; which rows belong together was not. Synthetic rows are
sorted by the columns that are constant for a person (`per_unit`), and consecutive rows are assigned to persons with
the measured numbers of rows. Dependent columns are then recomputed, and every rule is enforced on the result.

Privacy: this is post-processing; only synthetic rows and a released table are read.
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

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ROUNDS = 40  # maximum number of rounds of exchanging rows, and of copying rows
_DENSE = 16  # maximum number of distinct keys per row for which counts are kept in a dense array
NEAREST = 16  # rows on each side, in the order by similarity, that are candidates in the first round of exchange


@dataclass(frozen=True)
class Deal:
    """Assignment of rows to persons."""

    person: Ints
    source: Ints  # row from which each row takes its values: itself, or the row that it copies


def find_repeats(keys: Sequence[Ints]) -> tuple[Mask, Mask]:
    """Return masks of the rows with a repeated combination of keys: without the first of each, and with it.

    >>> [mask.tolist() for mask in find_repeats([np.array([1, 2, 1, 1]), np.array([5, 5, 5, 6])])]
    [[False, False, True, False], [True, False, True, False]]
    """
    joint, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        values, places = np.unique(key, return_inverse=True)
        joint, size = joint * max(len(values), 1) + places, size * max(len(values), 1)
        if size > _DENSE * len(joint):  # renumber, so that the product fits 64 bits
            values, joint = np.unique(joint, return_inverse=True)
            size = len(values)
    return _mark_repeats(joint, size)


def _mark_repeats(numbers: Ints, size: int) -> tuple[Mask, Mask]:
    """Return masks of the rows with a repeated number below `size`: without the first of each, and with it."""
    if size > _DENSE * len(numbers):
        numbers = np.unique(numbers, return_inverse=True)[1]
        size = len(numbers)
    rows = np.arange(len(numbers))
    first = np.zeros(size, np.int64)
    first[numbers[::-1]] = rows[::-1]  # written in reverse, so that the first row prevails
    return rows != first[numbers], np.bincount(numbers, minlength=size)[numbers] > 1


def deal_without_repeats(person: Ints, order: Ints, keys: Sequence[Ints], copy: bool, rng: np.random.Generator) -> Deal:
    """Reassign rows so that hardly any person has two rows with the same key.

    `order` sorts the rows so that similar persons are adjacent; partners are taken from a neighbourhood that grows
    with each round. Each of `keys` numbers the rows by the columns of one rule, without the person. With `copy`, rows
    for which no partner is found become copies of rows with another key.
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
    """Return the position of each row in an order of rows."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def find_clashes(person: Ints, source: Ints, keys: Sequence[Ints]) -> tuple[Ints, Mask]:
    """Return the rows that repeat a key within their person, and a mask of all rows that share such a key."""
    later, every = np.zeros(len(person), bool), np.zeros(len(person), bool)
    for key in keys:
        size = int(key.max(initial=0)) + 1
        more, both = _mark_repeats(person * size + key[source], (int(person.max(initial=0)) + 1) * size)
        later, every = later | more, every | both
    return np.flatnonzero(later), every


def find_neighbours(rows: Ints, order: Ints, rank: Ints, attempt: int, rng: np.random.Generator) -> Ints:
    """Return a random neighbour of each row; the neighbourhood grows with every attempt."""
    reach = min(int(NEAREST * 1.5**attempt), len(order))
    places = np.clip(rank[rows] + rng.integers(-reach, reach + 1, len(rows)), 0, len(order) - 1)
    return np.asarray(order[places])


def find_partners(rows: Ints, order: Ints, rank: Ints, attempt: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return pairs of rows to exchange; each row is in at most one pair."""
    partners = find_neighbours(rows, order, rank, attempt, rng)
    _, first = np.unique(partners, return_index=True)
    first = first[~np.isin(partners[first], rows)]
    return rows[first], partners[first]


Meets = Callable[[pa.Table], NDArray[np.bool_]]  # returns a mask of the rows that meet the conditions of a sample


@dataclass(frozen=True)
class People:
    """Distribution of rows per person, used to assign rows to persons."""

    sizes: Array  # weights of persons with 1, 2, ... rows
    same: tuple[str, ...] = ()  # columns that are constant for a person

    @classmethod
    def of(cls, noisy: Array, same: tuple[str, ...]) -> People:
        """Build from noisy counts of persons with 1, 2, ... rows; if none is positive, every person has one row."""
        counts = np.maximum(np.asarray(noisy, np.float64), 0)
        return cls(counts if counts.sum() > 0 else np.eye(1, len(counts))[0], same)

    def ratio_of_all_rows(self, bound: int) -> float:
        """Return the number of rows of all persons divided by those within the contribution bound."""
        rows = np.arange(1, len(self.sizes) + 1)
        return float(self.sizes @ rows) / max(float(self.sizes @ np.minimum(rows, bound)), 1e-300)

    def assign(
        self, table: pa.Table, codec: Codec, rng: np.random.Generator, meets: Meets | None = None
    ) -> tuple[pa.Table, Ints]:
        """Return the table with each person's constants in all of their rows, and the person number of each row.

        Every rule of the schema, including key rules, and the conditions of `meets` hold in the result. A row that
        fits no person keeps its own values and becomes a person with one row.
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
        """Sample the number of rows of each person until all rows are assigned; return where each person's rows end."""
        if not rows:
            return np.zeros(0, np.int64)
        drawn = 1 + rng.choice(len(self.sizes), rows, p=self.sizes / self.sizes.sum())
        ends = np.cumsum(drawn)
        return np.append(ends[ends < rows], rows).astype(np.int64)


class _Rows:
    """Synthetic rows assigned to persons; some rows may become persons with one row."""

    def __init__(
        self, table: pa.Table, codec: Codec, same: Sequence[str], deal: Deal, first: Ints, rng: np.random.Generator
    ) -> None:
        """Store the sampled rows; `first` is the row that provides each person's constants."""
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
        """Return the person of each row; each row in `alone` has its own."""
        return np.where(alone, len(self._first) + np.arange(len(alone)), self._deal.person)

    def build(self, alone: Mask) -> pa.Table:
        """Return the rows with the constants of their persons, and dependent columns recomputed."""
        origin = np.where(alone, self._deal.source, self._first[self._deal.person])
        return self._with_constants(self._copied, origin) if self._same else self._copied

    def _with_constants(self, rows: pa.Table, origin: Ints) -> pa.Table:
        places = pa.array(origin)
        constants = {name: self._table.column(name).take(places) for name in self._same}
        return self._codec.replace_columns(rows, constants, self._rng)

    def exchange(self, wrong: Mask, order: Ints, keys: Sequence[Ints], meets: Meets | None) -> Mask:
        """Exchange rows that break a rule with rows of other persons if both then satisfy all rules.

        The number of rows per person is unchanged. Return a mask of the rows that still break a rule.
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
        """Return a mask of the rows to remove from their persons because a key repeats.

        If the key includes the person, these are all but the first row. A key without the person was unique before
        the constants were set, and is unique again when all rows that share it have their own values.
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
    """Number the rows by each key that includes the person, without the person; return whether rows may be copied."""
    rules, unit = _find_keys(codec), codec.unit_column
    held = [rule for rule in rules if unit in rule.columns]
    own = [[name for name in rule.columns if name != unit and name not in codec.schema.per_unit] for rule in held]
    return [_number_rows(block, names) for names in own], len(held) == len(rules)


def _find_wrong(table: pa.Table, codec: Codec, meets: Meets | None) -> Mask:
    """Return a mask of rows that break a single-row rule or do not meet the conditions."""
    broken = codec.find_broken(table)
    return broken if meets is None else broken | ~meets(table)


def _find_keys(codec: Codec) -> list[Rule]:
    """Return the key rules that can be broken; a key that includes a row id is always unique."""
    unit = codec.unit_column
    ids = {column.name for column in codec.schema.columns if isinstance(column, Id) and column.name != unit}
    return [rule for rule in codec.schema.rules if not rule.alone and not ids & set(rule.columns)]


def _number_rows(block: Block, names: Sequence[str]) -> Ints:
    """Number the rows so that rows with equal values in these columns share a number."""
    return joint_keys([block[name] for name in names]) if names else np.zeros(block.rows, np.int64)


def _sort_alike(block: Block, names: Sequence[str], rng: np.random.Generator) -> Ints:
    """Return the rows sorted by these columns, in random order within ties."""
    keys: list[NDArray[Any]] = [rng.random(block.rows)]
    for name in names:
        values = block[name]
        keys += [np.where(values.missing, 0, values.numbers), values.missing]
    return np.lexsort(keys)
