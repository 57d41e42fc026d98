"""What each code of an attribute is called: category names, ranges of numbers, weeks, special values, missing."""

from __future__ import annotations

from weft.codec import Codec
from weft.schema.kinds.labels import Label


def labels(codec: Codec, name: str) -> tuple[Label, ...]:
    """Name every code of an attribute, in the order of the codes."""
    part = codec.part(name)
    return part.labels()[part.domain.index(name)]
