"""Numbers that are codes and no amounts: -9, 99 or 999 for "not asked", far from all that is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEGATIVE = (-1, -7, -8, -9, -77, -88, -97, -98, -99, -777, -888, -997, -998, -999, -9998, -9999, -99999)
_POSITIVE = (77, 88, 96, 97, 98, 99, 777, 888, 996, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99998, 99999)
_LONG = (999998, 999999, 9999998, 9999999, 99999999, 999999999, -999999)
_CODES = np.array(sorted({*_NEGATIVE, *_POSITIVE, *_LONG}), dtype=np.float64)
_MOST = 4  # such codes in one column
_FAR = 10  # steps beyond the highest amount, at least


def sentinels(different: NDArray[Any]) -> list[Any]:
    """Return the codes at either end of rising numbers that stretch their range; none if too little would be left.

    Below nought they stand out if all else is nought or more; above, if they are as far away as the rest is wide.

    >>> sentinels(np.array([-9, 0, 1, 40, 999])), sentinels(np.array([-9, -3, 0, 5])), sentinels(np.arange(100))
    ([-9, 999], [], [])
    """
    known = np.isin(different.astype(np.float64), _CODES)
    amounts = different[~known]
    if len(amounts) < 2:
        return []
    below = [value for value in different[known] if value < 0]
    gap = 0.0 if amounts[0] >= 0 else max(float(amounts[-1]) - float(amounts[0]), _FAR)
    found = [value for value in below if float(amounts[0]) - float(value) > gap]
    top = float(amounts[-1])
    floor = max(float(amounts[0]), 0.0)
    far = max(top - floor, float(_FAR))
    found += [value for value in different[known] if float(value) - top > far]
    return [value.item() for value in found] if len(found) <= _MOST else []
