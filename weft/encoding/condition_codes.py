"""Translate conditions on columns into evidence on attributes: the codes of rows that can meet the conditions.

Every code that such a row can have is kept, so that sampling with the evidence and then rejecting rows by value is
exact; as few other codes as possible are kept. If a code represents one value, or one combination of a column group,
the codes that meet a condition are known exactly. Bins and calendar weeks are ordered by value: those that overlap a
range are found from values decoded from neighbouring codes. Columns computed from other columns (differences,
formulas, pieces of dates) are only checked on the rows.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from weft.encoding.codec import Codec
from weft.encoding.column_groups import ColumnGroup
from weft.schema.kinds.attributes import AttributePart
from weft.schema.rules import ColumnReader
from weft.schema.rules.column_values import Mask, Values
from weft.schema.rules.conditions import Condition, Conditions

DRAWS = 8  # values decoded per code to locate it
CERTAIN = 64  # values decoded per code to decide whether all of its values meet a condition

Evidence = Mapping[str, NDArray[np.float64]]  # per attribute with evidence: 1 for each possible code, 0 for the others


def evidence_of(conditions: Conditions, codec: Codec) -> Evidence:
    """Return the evidence that conditions give on single attributes."""
    found: dict[str, Mask] = {}
    for attribute, met in _iterate_codes(conditions, codec, _meets_possibly):
        if met is not None and not met.all():
            found[attribute] = found.get(attribute, np.ones(len(met), bool)) & met
    return {attribute: met.astype(np.float64) for attribute, met in found.items()}


def select_condition_codes(conditions: Conditions, codec: Codec) -> dict[str, Mask] | None:
    """Return masks of the codes that meet the conditions; None if codes alone do not determine this.

    A code is classified by values sampled from it; codes that meet a condition only in part are not determined.
    """
    found: dict[str, Mask] = {}
    for attribute, met in _iterate_codes(conditions, codec, _meets_certainly):
        if met is None:
            return None
        found[attribute] = found.get(attribute, np.ones(len(met), bool)) & met
    return found


Classify = Callable[[AttributePart, Condition, ColumnReader, int], Mask | None]
"""Function that returns a mask of codes, of this number, by values sampled from them; None if it cannot decide."""


def _iterate_codes(conditions: Conditions, codec: Codec, classify: Classify) -> Iterator[tuple[str, Mask | None]]:
    """Yield for each condition an attribute and its codes that meet it; None if they cannot be determined."""
    for name, condition in conditions:
        part = codec.part_of(name)
        if part is None or part.needs or not len(part.domain):
            yield name, None
        else:
            yield part.domain.names[0], _find_codes(part, name, condition, codec.readers[name], classify)


def _find_codes(
    part: AttributePart, name: str, condition: Condition, reader: ColumnReader, classify: Classify
) -> Mask | None:
    """Return a mask of the first attribute's codes that meet a condition; codes of several values need `classify`."""
    if isinstance(part, ColumnGroup):
        at = part.columns.index(name)
        own = _find_codes(part.members[at], name, condition, reader, classify)
        return None if own is None else own[part.combinations[:, at]]
    size = part.domain.shape[0]
    if reader.codes is not None and len(part.domain) == 1 and len(reader.codes) == size:
        return condition.holds(reader.codes)
    return classify(part, condition, reader, size)


def _meets_certainly(part: AttributePart, condition: Condition, reader: ColumnReader, size: int) -> Mask | None:
    """Decide which codes meet a condition; None if a code meets it only in part."""
    held = condition.holds(_draw_code_values(part, reader, size, CERTAIN)).reshape(size, CERTAIN)
    met: Mask = np.logical_and.reduce(held, axis=1)
    return met if np.array_equal(met, held.any(axis=1)) else None


def _meets_possibly(part: AttributePart, condition: Condition, reader: ColumnReader, size: int) -> Mask | None:
    """Decide which codes may meet a condition; a bin extends at most to the values of its neighbours."""
    order = part.domain.order(part.domain.names[0])
    if not order.ordered:
        return None
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
    """Sample `draws` values of each code of a part's first attribute."""
    rng = np.random.default_rng(0)  # fixed seed: these values are never released
    codes = np.repeat(np.arange(size), draws)
    others = [rng.integers(0, other, len(codes)) for other in part.domain.shape[1:]]
    return reader.read(part.decode([codes, *others], {}, rng)[reader.column.name])
