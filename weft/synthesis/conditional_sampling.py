"""Rows under conditions: those that somebody asks a model for who wants women above 65, and no others.

Conditioning is post-processing: only the model is asked, so that it costs nothing. Conditions are turned into evidence
on attributes as far as codes tell (`weft.encoding.condition_codes`), records are drawn by that evidence as exactly as
the model can (`weft.models.conditional`), and the rows made of them are looked at: those that meet the conditions are
kept, and more are drawn in rounds until there are enough. So what evidence cannot say (a formula, a difference, a day
inside a coarse code, a repair by a rule) costs time and never exactness. The work is bounded; where it ends first, the
error says how many rows there were.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.display import format_count
from weft.encoding.condition_codes import evidence_of
from weft.errors import ConditionError
from weft.models.conditional import ImpossibleEvidenceError, Sampler, condition_model, select_possible_records
from weft.progress import Listener, ignore_event, report_stage
from weft.schema.rules.conditions import Where, all_hold, format_conditions, read_where, write_conditions
from weft.synthesis.fitted import Fitted

BLOCK_ROWS = 1_000_000
"""Rows decoded and handed on at a time."""

MIN_ROUND = 1_000
"""Records drawn in a round, at least."""

MAX_VAIN_DRAWS = 500_000
"""Records after which nobody looks on, if none was as it should be."""

MAX_DRAWN = 4_000_000
MAX_DRAWN_PER_ROW = 20
"""Records drawn for a block of rows, at most: so many, or so many for each row."""

FIXED = (
    "this model holds records that were released as they are, and can make no others: sample them, and keep those that "
    "you want. Leave out omega when fitting, and conditions can be asked for"
)


class Conditioned:
    """A fitted model, asked for rows that meet conditions."""

    def __init__(self, fitted: Fitted, where: Where) -> None:
        """Read the conditions; ConditionError if they are none, or if the schema or the model allows no such row."""
        self._fitted, self._codec = fitted, fitted.codec
        self._conditions = read_where(where, self._codec.readers)
        if fitted.model.fixed_records:
            raise ConditionError(FIXED)
        self._evidence = evidence_of(self._conditions, self._codec)
        for name, weights in self._evidence.items():
            if not weights.any():
                raise ConditionError(f"no row can meet {self.shown}: the rules on {name} leave none; relax a condition")
        self._sampler: Sampler | None = None
        self._numbered = 0  # rows that were given an id, whether or not they were kept

    @property
    def shown(self) -> str:
        """The conditions, for a message."""
        return format_conditions(self._conditions)

    @property
    def written(self) -> list[str]:
        """The conditions, for a card: every one whole."""
        return write_conditions(self._conditions)

    def holds(self, table: pa.Table) -> NDArray[np.bool_]:
        """Say which rows of a synthetic table meet the conditions."""
        return all_hold(self._conditions, self._codec.block(table))

    def among(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Iterator[pa.Table]:
        """Make a whole table of n rows, and hand on those of them that meet the conditions."""
        start = found = 0
        while start < n or not start:
            block = min(BLOCK_ROWS, n - start)
            table = self._fitted.rows(self._fitted.model.sample(block, rng, listener), rng, start)
            table = table.filter(pa.array(self.holds(table)))
            found += len(table)
            yield table
            start += max(block, 1)
        if not found:
            raise ConditionError(
                f"of {format_count(n, 'row')}, as many as the table has by the noisy count, none meets "
                f"{self.shown}: say "
                "how many such rows you want (-n), or relax a condition"
            )

    def tables(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Iterator[pa.Table]:
        """Make n rows that meet the conditions, block by block."""
        start = 0
        while start < n or not start:
            block = min(BLOCK_ROWS, n - start)
            yield self._fitted.assign_people(self._rows(block, rng, listener), rng, start, self.holds)
            start += max(block, 1)

    def _rows(self, n: int, rng: np.random.Generator, listener: Listener) -> pa.Table:
        """Draw rounds of records until n rows meet the conditions."""
        most = max(MAX_DRAWN, MAX_DRAWN_PER_ROW * n)
        drawn, ask = 0, n
        made = self._round(0, rng, listener)
        with report_stage(listener, "draw under conditions", n) as work:
            while len(made) < n:
                room = (most if len(made) else MAX_VAIN_DRAWS) - drawn
                if room <= 0:
                    raise self._too_rare(n, len(made), drawn)
                ask = min(ask, room)
                more = self._round(ask, rng, listener)
                drawn += ask
                made, before = self._distinct(pa.concat_tables([made, more])), len(made)
                work.advance(len(made) - before, format_count(drawn, "row") + " drawn")
                # A little more than the rows so far promise, so that one more round is as a rule the last.
                wanted = 1.1 * (n - len(made)) * drawn / max(len(made), 1)
                ask = int(min(max(wanted, MIN_ROUND), BLOCK_ROWS))
        return made.slice(0, n)

    def _round(self, n: int, rng: np.random.Generator, listener: Listener) -> pa.Table:
        records = self._source().sample(n, rng, listener)
        records = records.take(np.flatnonzero(select_possible_records(records, self._evidence)))
        table = self._codec.decode(records, rng, self._numbered)
        self._numbered += len(records)
        return table.filter(pa.array(self.holds(table)))

    def _source(self) -> Sampler:
        """Return the model under the evidence, or the model itself."""
        if self._sampler is None:
            try:
                model = self._fitted.model
                self._sampler = (condition_model(model, self._evidence) if self._evidence else None) or model
            except ImpossibleEvidenceError:
                raise ConditionError(
                    f"this model gives no chance at all to rows that meet {self.shown}; relax a condition"
                ) from None
        return self._sampler

    def _distinct(self, table: pa.Table) -> pa.Table:
        """Leave out rows that repeat a key of another round; inside a round keys differ already."""
        if all(rule.alone for rule in self._fitted.schema.rules):
            return table
        return table.filter(pa.array(~self._codec.broken(table)))

    def _too_rare(self, n: int, made: int, drawn: int) -> ConditionError:
        if not made:
            return ConditionError(
                f"none of {drawn:,} rows that were drawn meets {self.shown}: that is too rare for this model, or rules "
                "of the schema leave no such row. Relax a condition"
            )
        return ConditionError(
            f"only {format_count(made, 'row')} of {n:,} could be made: about 1 in {max(round(drawn / made), 1):,} "
            f"of what "
            f"is drawn meets {self.shown}. Ask for fewer rows (-n), or relax a condition"
        )
