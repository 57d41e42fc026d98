"""Encode table rows as small integer codes, and decode them into the table's own types."""

from weft.encoding.codec import Codec as Codec
from weft.encoding.codec import count_broken_rows as count_broken_rows
