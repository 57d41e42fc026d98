"""What each code of a column is called: category names, bin ranges, dates, special values, missing."""

from __future__ import annotations

from weft.codec import Codec
from weft.schema.kinds.labels import Label, one


def labels(codec: Codec, name: str) -> tuple[Label, ...]:
    """Name every code of a column, in the order of the codes.

    The bins are those of the schema. A bin that holds no value (all of them special, or none on the grid of steps)
    has no code.
    """
    column, size = codec.schema.column(name), codec.domain.size(name)
    made = column.labels(codec.arrow_schema.field(name).type, size)
    if column.missing:
        made.append(one("missing", "missing"))
    if len(made) > size:  # Arrow's null type has no code but that of missing
        made = made[len(made) - size :]
    # What a type cannot tell apart the codec merges; a number is then better than a wrong name.
    return tuple(made) if len(made) == size else tuple(one(f"code {code}", "value") for code in range(size))
