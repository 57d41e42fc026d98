"""Between values and codes: a table's rows as small integers, and back in the table's own types."""

from weft.encoding.codec import Codec as Codec
from weft.encoding.codec import count_broken_rows as count_broken_rows
