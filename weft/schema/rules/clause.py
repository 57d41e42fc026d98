"""When some conditions hold, others must: what implications, forbidden combinations and blanks have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.schema.rules.base import Readers, Rows, RuleError
from weft.schema.rules.block import Block
from weft.schema.rules.condition import Condition, Conditions, all_hold
from weft.schema.rules.values import Mask, Values


@dataclass(frozen=True)
class Clause:
    """Rows that meet `when` must meet `then`; with `negate`, they must not."""

    when: Conditions
    then: Conditions
    negate: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it speaks of, those that decide first."""
        return tuple(dict.fromkeys(name for name, _ in (*self.when, *self.then)))

    def applies(self, values: Mapping[str, Values]) -> Mask:
        """Say which rows it speaks of."""
        return all_hold(self.when, values) if self.when else np.ones(len(values[self.then[0][0]]), bool)

    def holds(self, values: Mapping[str, Values]) -> Mask:
        """Say which rows keep it."""
        return np.asarray(~self.applies(values) | (all_hold(self.then, values) != self.negate))

    def check(self, readers: Readers, key: str) -> None:
        """Refuse what no row could keep."""
        name, condition = self.then[-1]
        if self.negate and not condition.possible(readers[name], negate=True):
            raise RuleError(f'it leaves column "{name}" no value at all; mend the last condition', key)

    def mend(self, block: Block, rows: Rows, rng: np.random.Generator) -> None:
        """Give rows that break it what stands in rows to which it applies too, or else any value that it allows."""
        rows = rows[~self.holds({name: block[name].take(rows) for name in self.columns})]
        names = [name for name, _ in self.then]
        if not len(rows):
            return
        good = np.flatnonzero(self.applies(block) & (all_hold(self.then, block) != self.negate))
        if not self._blanks:
            # A donor that agrees in what decides keeps what hangs together, where there is one.
            for kept in ([name for name, _ in self.when], []):
                donors = block.matching(kept, rows, good, rng)
                block.copy(names, rows[donors >= 0], donors[donors >= 0])
                rows = rows[donors < 0]
        for name, condition in self.then:
            self._redraw(block, name, condition, rows, rng)

    @property
    def _blanks(self) -> bool:
        """Whether values are only made missing, for which nobody else has to be asked."""
        return not self.negate and all(condition == Condition(missing=True) for _, condition in self.then)

    def _redraw(self, block: Block, name: str, condition: Condition, rows: Rows, rng: np.random.Generator) -> None:
        rows = rows[condition.holds(block[name].take(rows)) == self.negate]
        held = np.flatnonzero((condition.holds(block[name]) != self.negate) & ~block[name].missing)
        if not len(rows):
            return
        if len(held):
            block.copy([name], rows, held[rng.integers(0, len(held), len(rows))])
            return
        drawn = condition.draw(block.readers[name], len(rows), rng, self.negate)
        if len(drawn):
            block.set_numbers(name, rows, drawn)
        elif block.readers[name].column.missing:
            block.blank(name, rows)
