"""The result of a fit, and the conversion of its records to rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from weft.encoding import Codec
from weft.encoding.persons import Meets, People
from weft.marginals.marginal import Measured
from weft.marginals.pooling import Released
from weft.marginals.records import Records
from weft.models import Model
from weft.privacy import Ledger
from weft.schema import Schema


@dataclass(frozen=True)
class Fitted:
    """Result of a fit: everything needed to sample, explain and validate it, and nothing private."""

    method: str
    options: dict[str, Any]
    schema: Schema
    codec: Codec
    model: Model
    ledger: Ledger
    measured: tuple[Measured, ...] = ()
    """The measured marginals, with their noise."""
    people: People | None = None
    """Distribution of rows per person, if a person may have several."""
    released: tuple[Released, ...] = ()
    """The noisy marginals themselves, for queries; empty in files of older versions."""
    limits: tuple[tuple[str, str], ...] = ()
    """What else limits the use of columns: a column and the reason."""

    def rows(self, records: Records, rng: np.random.Generator, start: int = 0) -> pa.Table:
        """Decode records into rows, assigned to persons; `start` is the number of rows decoded before."""
        return self.assign_people(self.codec.decode(records, rng, start=start), rng, start)

    def assign_people(
        self, table: pa.Table, rng: np.random.Generator, start: int = 0, meets: Meets | None = None
    ) -> pa.Table:
        """Assign rows to persons if these may have several; every row still meets the conditions of `meets`."""
        unit = self.schema.unit
        if self.people is None or unit is None:
            return table
        made, person = self.people.assign(table, self.codec, rng, meets)
        at = made.schema.get_field_index(unit)
        return made.set_column(at, made.schema.field(at), self.codec.ids(unit, person + start, rng))
