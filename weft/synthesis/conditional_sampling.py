"""Sample rows that meet conditions, such as women above 65.

Privacy: conditioning uses only the model; it is post-processing and costs no budget.

Conditions are translated into evidence on attributes as far as codes allow (`weft.encoding.condition_codes`). Records
are sampled given the evidence, as exactly as the model supports (`weft.models.conditional`), and decoded. Rows that
meet the conditions are kept, and sampling is repeated until there are enough. Conditions that evidence cannot express
(formulas, differences, a day within a coarse code, repair by a rule) cost time, not exactness. The work is bounded.
"""

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

BLOCK_ROWS = 1_000_000  # rows per decoded block
MIN_ROUND = 1_000  # minimum number of records sampled per round
MAX_VAIN_DRAWS = 500_000  # maximum number of records sampled while no row meets the conditions
MAX_DRAWN = 4_000_000  # maximum number of records sampled for a block of rows, or a multiple of the rows if larger
MAX_DRAWN_PER_ROW = 20  # that multiple

FIXED = (
    "this model consists of fixed released records and cannot sample under conditions: sample all of them and filter "
    "the rows, or fit without omega"
)


class Conditioned:
    """A fitted model that samples rows under conditions."""

    def __init__(self, fitted: Fitted, where: Where) -> None:
        """Parse the conditions; raise ConditionError if they are invalid or no row can meet them."""
        self._fitted, self._codec = fitted, fitted.codec
        self._conditions = read_where(where, self._codec.readers)
        if fitted.model.fixed_records:
            raise ConditionError(FIXED)
        self._evidence = evidence_of(self._conditions, self._codec)
        for name, weights in self._evidence.items():
            if not weights.any():
                raise ConditionError(f"no row can meet {self.shown}: the rules on {name} exclude it; relax a condition")
        self._sampler: Sampler | None = None
        self._numbered = 0  # ids assigned so far, including those of rejected rows

    @property
    def shown(self) -> str:
        """The conditions, for a message."""
        return format_conditions(self._conditions)

    @property
    def written(self) -> list[str]:
        """The conditions in full, for a card."""
        return write_conditions(self._conditions)

    def holds(self, table: pa.Table) -> NDArray[np.bool_]:
        """Return a mask of the rows of a synthetic table that meet the conditions."""
        return all_hold(self._conditions, self._codec.block(table))

    def among(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Iterator[pa.Table]:
        """Sample n rows, and yield those that meet the conditions."""
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
                f"none of {format_count(n, 'row')} (the noisy number of rows of the table) meets {self.shown}: "
                "state how many such rows to make (-n), or relax a condition"
            )

    def tables(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Iterator[pa.Table]:
        """Sample n rows that meet the conditions, block by block."""
        start = 0
        while start < n or not start:
            block = min(BLOCK_ROWS, n - start)
            yield self._fitted.assign_people(self._rows(block, rng, listener), rng, start, self.holds)
            start += max(block, 1)

    def _rows(self, n: int, rng: np.random.Generator, listener: Listener) -> pa.Table:
        """Sample records in rounds until n rows meet the conditions."""
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
                # Oversample by 10%, so that one more round usually suffices.
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
        """Return the model conditioned on the evidence, or the model itself if it cannot be conditioned."""
        if self._sampler is None:
            try:
                model = self._fitted.model
                self._sampler = (condition_model(model, self._evidence) if self._evidence else None) or model
            except ImpossibleEvidenceError:
                raise ConditionError(
                    f"rows that meet {self.shown} have probability 0 in this model; relax a condition"
                ) from None
        return self._sampler

    def _distinct(self, table: pa.Table) -> pa.Table:
        """Remove rows that repeat a key of an earlier round; within a round keys are distinct."""
        if all(rule.alone for rule in self._fitted.schema.rules):
            return table
        return table.filter(pa.array(~self._codec.broken(table)))

    def _too_rare(self, n: int, made: int, drawn: int) -> ConditionError:
        if not made:
            return ConditionError(
                f"none of {drawn:,} sampled rows meets {self.shown}: such rows are too rare in this model, or rules of "
                "the schema exclude them. Relax a condition"
            )
        return ConditionError(
            f"only {format_count(made, 'row')} of {n:,} could be made: about 1 in {max(round(drawn / made), 1):,} "
            f"sampled rows meets {self.shown}. Request fewer rows (-n), or relax a condition"
        )
