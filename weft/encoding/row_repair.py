"""Repair synthetic rows that break a rule: the last safeguard, and for some rules the only one.

Privacy: repair reads only synthetic rows. It is post-processing, costs no budget, and no guarantee depends on it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from weft.errors import SchemaError
from weft.schema.kinds.attributes import Arrays, AttributePart
from weft.schema.kinds.identifier import Id
from weft.schema.rules import Block, Readers, Rule
from weft.schema.rules.clusters import MAX_CLUSTER_CELLS
from weft.schema.rules.column_values import Mask, concatenate_values, joint_keys
from weft.schema.rules.rule import Rows
from weft.values.storage import decode_dictionary

ROUNDS = 10  # maximum number of passes over all rules, before rows that still break a rule are replaced
TRIES = 40  # maximum number of attempts to resample repeated keys
SPARES = 1024  # number of random rows generated if no row of a block satisfies all rules

Spare = Callable[[int, np.random.Generator], Arrays]  # generates rows of random codes from public facts only


class Repair:
    """Repairs blocks of synthetic rows so that all rules of a schema hold."""

    def __init__(self, rules: Sequence[Rule], readers: Readers, parts: Sequence[AttributePart], spare: Spare) -> None:
        self._readers, self._spare = readers, spare
        self._alone = [rule for rule in rules if rule.alone]
        self._keys = [rule for rule in rules if not rule.alone]
        self._computed = [part for part in parts if not len(part.domain)]
        self._tied = _group_tied_columns([part for part in parts if part.needs and len(part.domain)])
        made = {name for part in self._computed for name in part.columns}
        self._free = [n for n, reader in readers.items() if n not in made and not isinstance(reader.column, Id)]

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return columns that satisfy all rules; raise SchemaError if this fails. Types and ids are unchanged."""
        block = Block(arrays, self._readers, self._tied)
        if not block.rows:
            return block.arrays
        self._mend(block, rng)
        self._replace(block, rng)
        for _ in self._keys:  # repairing a later key may break an earlier one
            for rule in self._keys:
                self._tell_apart(block, rule, rng)
        for rule in self._keys:
            if not rule.holds(block).all():
                raise _too_many(rule)
        return block.arrays

    def _mend(self, block: Block, rng: np.random.Generator) -> None:
        for _ in range(ROUNDS):
            mended = False
            for rule in self._alone:
                rows = np.flatnonzero(~rule.holds(block))
                if len(rows):
                    rule.mend(block, rows, rng)
                    mended = True
            if not mended:
                return
            self._compute(block, rng)

    def _compute(self, block: Block, rng: np.random.Generator) -> None:
        for part in self._computed:
            block.update(part.decode([], block.arrays, rng))

    def _keeps(self, block: Block) -> Mask:
        kept = np.ones(block.rows, bool)
        for rule in self._alone:
            kept &= rule.holds(block)
        return kept

    def _replace(self, block: Block, rng: np.random.Generator) -> None:
        """Replace rows that still break a rule, except their ids, by rows that satisfy every rule."""
        kept = self._keeps(block)
        good, bad = np.flatnonzero(kept), np.flatnonzero(~kept)
        if not len(bad):
            return
        columns = [name for name, reader in self._readers.items() if not isinstance(reader.column, Id)]
        if len(good):
            block.copy(columns, bad, good[rng.integers(0, len(good), len(bad))])
            return
        # A small block may have no such row: use rows of random codes, which are independent of the data.
        spare = Block(self._spare(SPARES, rng), self._readers, self._tied)
        self._mend(spare, rng)
        good = np.flatnonzero(self._keeps(spare))
        if not len(good):
            worst = min(self._alone, key=lambda rule: int(rule.holds(spare).sum()))
            raise SchemaError(
                f"no synthetic row satisfies all rules, and repair failed; check the rule: {worst}. "
                "Rules may contradict each other: remove them one by one"
            )
        places = pa.array(good[rng.integers(0, len(good), len(bad))])
        for name in columns:
            block.put(name, bad, decode_dictionary(spare.arrays[name]).take(places))

    def _tell_apart(self, block: Block, rule: Rule, rng: np.random.Generator) -> None:
        """Resample repeated keys from other rows or all possible values; accept those that satisfy the other rules."""
        own = [name for name in rule.columns if name in self._free]
        for attempt in range(TRIES):
            rows = np.flatnonzero(~rule.holds(block))
            if not len(rows) or not own:
                return
            trial = block.branch()
            self._propose(trial, rule, own, rows, attempt, rng)
            self._compute(trial, rng)
            accepted = rows[self._keeps(trial)[rows]]
            block.adopt(trial, accepted)

    def _propose(
        self, trial: Block, rule: Rule, own: Sequence[str], rows: Rows, attempt: int, rng: np.random.Generator
    ) -> None:
        """Change one column of these rows; in later attempts, assign unused keys."""
        if attempt >= TRIES // 2 and _assign_unused_keys(trial, rule, rows, rng):
            return
        name = own[int(rng.integers(0, len(own)))]
        if attempt % 2:
            drawn = self._readers[name].uniform(len(rows), rng)
            if len(drawn):
                trial.set_numbers(name, rows, drawn)
                return
        trial.copy([name], rows, rng.integers(0, trial.rows, len(rows)))


def _group_tied_columns(parts: Sequence[AttributePart]) -> dict[str, tuple[str, ...]]:
    """Return for each column with dependencies all columns that must change together."""
    sets = [{*part.columns, *part.needs} for part in parts]
    made: dict[str, tuple[str, ...]] = {}
    for name in sorted({name for names in sets for name in names}):
        found = {name}
        for _ in sets:
            found = found.union(*(names for names in sets if names & found))
        made[name] = tuple(sorted(found))
    return made


def _assign_unused_keys(trial: Block, rule: Rule, rows: Rows, rng: np.random.Generator) -> bool:
    """Assign unused keys if all possible keys can be enumerated; return whether they can."""
    known = [trial.readers[name].codes for name in rule.columns]
    sizes = [0 if values is None else len(values) for values in known]
    total = int(np.prod(sizes, dtype=np.float64))
    if not 0 < total <= MAX_CLUSTER_CELLS:
        return False
    held = np.zeros(trial.rows, np.int64)
    for name, values, size in zip(rule.columns, known, sizes, strict=True):
        assert values is not None
        both = joint_keys([concatenate_values(values, trial[name])])
        codes = np.zeros(int(both.max()) + 1, np.int64)
        codes[both[:size][::-1]] = np.arange(size)[::-1]
        held = held * size + codes[both[size:]]
    free = np.setdiff1d(np.arange(total), held)
    if total < trial.rows:
        raise _too_many(rule)
    chosen = rng.choice(free, min(len(rows), len(free)), replace=False)
    for name, values, code in zip(rule.columns, known, np.unravel_index(chosen, sizes), strict=True):
        assert values is not None
        picked = values.take(code)
        trial.set_numbers(name, rows[: len(chosen)][~picked.missing], picked.numbers[~picked.missing])
        if picked.missing.any():
            trial.blank(name, rows[: len(chosen)][picked.missing])
    return True


def _too_many(rule: Rule) -> SchemaError:
    return SchemaError(
        f"rule {rule}: the keys of this many rows cannot all differ. Make fewer rows, add columns, or remove the rule"
    )
