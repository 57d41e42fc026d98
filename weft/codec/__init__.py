"""Between values and codes: a table's rows as small integers, and back in the table's own types."""

from weft.codec.codec import Codec as Codec
from weft.codec.codec import broken as broken
