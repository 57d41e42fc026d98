"""What becomes of missing values and of values that the schema does not know: the policies, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import DataError
from weft.schema.kinds.base import Column

Mask = NDArray[np.bool_]


class Policies:
    """The codes of a column: `known` ones for values, then one for missing if the schema allows it."""

    def __init__(self, column: Column, known: int, other: int | None = None) -> None:
        self._column, self._other = column, other
        self._missing = known if column.missing else None
        self._middle = known // 2
        """Where values go that cannot be read, under a policy that never fails, if they may not be missing."""
        self.size = known + (1 if column.missing else 0)

    def settle(self, codes: NDArray[np.int64], missing: Mask) -> NDArray[np.int64]:
        """Give every row exactly one code: `codes` holds -1 where a value is unknown, anything where missing.

        A DataError tells the curator which column to mend. It holds no value and no count, and it is raised
        under the refuse policy only: what a row holds cannot make a run under clip or other fail.
        """
        place = self._other if self._missing is None else self._missing
        if place is None and self._column.outside == "clip":
            place = self._middle
        if missing.any():
            if place is None:
                raise DataError(f'column "{self._column.name}": a value is missing. Set missing = true')
            codes[missing] = place
        unknown = codes < 0
        if unknown.any():
            if self._column.outside == "refuse":
                raise DataError(f'column "{self._column.name}": {self._column.outside_remedy}')
            # Only a category (to its other) and a boolean (to missing) come here: bins clip by themselves.
            fallback = place if self._other is None else self._other
            assert fallback is not None
            codes[unknown] = fallback
        return codes

    def is_missing(self, codes: NDArray[Any]) -> Mask:
        """Mask of the codes that stand for missing."""
        if self._missing is None:
            return np.zeros(len(codes), dtype=bool)
        mask: Mask = codes == self._missing
        return mask
