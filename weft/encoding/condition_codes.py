"""Conditions on columns as evidence on attributes: which codes a row that meets them may have.

Every code that such a row could have is kept, so that drawing by the evidence and then looking at the rows themselves
is exact; the other way round, as few codes as can be told are kept in vain. Where a code stands for one value, or a
group of columns for one combination, it is known which codes meet a condition. Bins, and the weeks of a calendar, lie
in the order of their values, and those that reach into a range are known by the values that neighbours give back. What
is made of other columns (a difference, a formula, a piece of a date) is left to the rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weft.encoding.codec import Codec
from weft.encoding.column_groups import ColumnGroup
from weft.marginals.domain import Order
from weft.schema.kinds.attributes import AttributePart
from weft.schema.rules import ColumnReader
from weft.schema.rules.column_values import Mask, Values
from weft.schema.rules.conditions import Condition, Conditions

DRAWS = 8
"""Values that each code is asked for, to see where it lies."""

CERTAIN = 64
"""Values that each code is asked for, to see whether it lies wholly on one side."""

Evidence = Mapping[str, NDArray[np.float64]]
"""For some attributes: 1 for each code that is possible, 0 for the others."""


def evidence_of(conditions: Conditions, codec: Codec) -> Evidence:
    """Return what conditions say of attributes, of one at a time."""
    found: dict[str, Mask] = {}
    for name, condition in conditions:
        part = codec.part_of(name)
        if part is None or part.needs or not len(part.domain):
            continue
        attribute = part.domain.names[0]
        met = _find_possible_codes(part, name, condition, codec.readers[name])
        if met is not None and not met.all():
            found[attribute] = found.get(attribute, np.ones(len(met), bool)) & met
    return {attribute: met.astype(np.float64) for attribute, met in found.items()}


def select_condition_codes(conditions: Conditions, codec: Codec) -> dict[str, Mask] | None:
    """Return which codes of attributes meet conditions, where codes alone tell that; None where they do not.

    A code is decided by values drawn of it: one that a condition cuts in two is not.
    """
    found: dict[str, Mask] = {}
    for name, condition in conditions:
        part = codec.part_of(name)
        if part is None or part.needs or not len(part.domain):
            return None
        met = _find_certain_codes(part, name, condition, codec.readers[name])
        if met is None:
            return None
        attribute = part.domain.names[0]
        found[attribute] = found.get(attribute, np.ones(len(met), bool)) & met
    return found


def _find_certain_codes(part: AttributePart, name: str, condition: Condition, reader: ColumnReader) -> Mask | None:
    """Return which codes of a part's first attribute meet a condition; None where one may or may not."""
    if isinstance(part, ColumnGroup):
        at = part.columns.index(name)
        own = _find_certain_codes(part.members[at], name, condition, reader)
        return None if own is None else own[part.combinations[:, at]]
    size = part.domain.shape[0]
    if reader.codes is not None and len(part.domain) == 1 and len(reader.codes) == size:
        return condition.holds(reader.codes)
    held = condition.holds(_draw_code_values(part, reader, size, CERTAIN)).reshape(size, CERTAIN)
    met: Mask = np.logical_and.reduce(held, axis=1)
    return met if np.array_equal(met, held.any(axis=1)) else None


def _find_possible_codes(part: AttributePart, name: str, condition: Condition, reader: ColumnReader) -> Mask | None:
    """Return which codes of a part's first attribute may meet a condition; None where codes do not tell."""
    if isinstance(part, ColumnGroup):
        at = part.columns.index(name)
        own = _find_possible_codes(part.members[at], name, condition, reader)
        return None if own is None else own[part.combinations[:, at]]
    size = part.domain.shape[0]
    known = reader.codes
    if known is not None and len(part.domain) == 1 and len(known) == size:
        return condition.holds(known)
    order = part.domain.order(part.domain.names[0])
    return _by_values(part, condition, reader, order, size) if order.ordered else None


def _by_values(part: AttributePart, condition: Condition, reader: ColumnReader, order: Order, size: int) -> Mask:
    """Look at values of each code. A bin reaches no further than the values of its neighbours."""
    values = _draw_code_values(part, reader, size, DRAWS)
    met: Mask = np.logical_or.reduce(condition.holds(values).reshape(size, DRAWS), axis=1)
    inside = np.setdiff1d(np.arange(size), list(order.apart))
    if len(inside):
        numbers = np.asarray(values.numbers, np.float64).reshape(size, DRAWS)[inside]
        low = np.concatenate([[-np.inf], numbers.max(axis=1)[:-1]])
        high = np.concatenate([numbers.min(axis=1)[1:], [np.inf]])
        met[inside] |= condition.overlaps(reader, low, high)
    return met


def _draw_code_values(part: AttributePart, reader: ColumnReader, size: int, draws: int) -> Values:
    """Return so many values of each code of a part's first attribute."""
    rng = np.random.default_rng(0)  # what is drawn here is thrown away
    codes = np.repeat(np.arange(size), draws)
    others = [rng.integers(0, other, len(codes)) for other in part.domain.shape[1:]]
    return reader.read(part.decode([codes, *others], {}, rng)[reader.column.name])
