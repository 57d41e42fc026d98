"""Between columns and attributes: what a person sees, and what is counted.

A part stands for one column or several. It turns their values into the codes of its attributes (none, one or more), and
such codes back into values. It acts on each row alone and on public facts alone, so that a row still adds one to one
cell of every table, whatever the part makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.marginals.domain import Domain
from weft.schema.kinds.base import Column
from weft.schema.kinds.labels import Label, one
from weft.schema.kinds.stored import coder_of, plain_coder

Arrays = Mapping[str, pa.Array]
"""Values by column, in the types that the codec declares."""


class Part(Protocol):
    """Some columns as attributes, and back."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it makes."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that it looks at when rows are coded."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of other parts that must be made before its own."""
        ...

    @property
    def domain(self) -> Domain:
        """Its attributes; the first one has the name of its column."""
        ...

    def labels(self) -> list[tuple[Label, ...]]:
        """Name every code of each attribute."""
        ...

    def encode(self, arrays: Arrays) -> Sequence[NDArray[np.int64]]:
        """Return the codes of each attribute; DataError under the refuse policy only."""
        ...

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return the columns for these codes, given what was made of the columns that it needs."""
        ...


class Single:
    """A column whose values are the codes of one attribute."""

    def __init__(self, column: Column, field: pa.Field) -> None:
        self._column, self._type = column, field.type
        self.coder = coder_of(column, field)
        self.columns = self.reads = (column.name,)
        self.needs: tuple[str, ...] = ()
        self.domain = Domain((column.name,), (self.coder.size,), (column.order(plain_coder(self.coder)),))

    def labels(self) -> list[tuple[Label, ...]]:
        """Name every code, as its kind does: a bin that holds no value has no code."""
        return [named(self._column, self._type, self.coder.size)]

    def encode(self, arrays: Arrays) -> list[NDArray[np.int64]]:
        """Return the code of each value."""
        return [self.coder.encode(arrays[self.columns[0]])]

    def decode(self, codes: Sequence[NDArray[Any]], made: Arrays, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Return a value for each code."""
        return {self.columns[0]: self.coder.decode(codes[0], rng)}


def named(column: Column, arrow_type: pa.DataType, size: int) -> tuple[Label, ...]:
    """Name the codes of a column, `size` in all, as its kind does."""
    made = column.labels(arrow_type, size)
    if column.missing:
        made.append(one("missing", "missing"))
    if len(made) > size:  # Arrow's null type has no code but that of missing
        made = made[len(made) - size :]
    # What a type cannot tell apart the codec merges; a number is then better than a wrong name.
    return tuple(made) if len(made) == size else tuple(one(f"code {code}", "value") for code in range(size))
