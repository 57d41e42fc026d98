"""What whole numbers and those with a fraction share: how a text file writes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.schema.kinds.binned import Binned
from weft.values.number_format import NumberFormat

_MARKS = (".", ",", " ", "'", "\u2019", "\u00a0", "\u202f", "_")


@dataclass(frozen=True)
class Number(Binned):
    """A number, and what stands around and inside it where it is text. Typed columns do without."""

    prefix: str = field(default="", kw_only=True)
    """Text before a number, such as "$"; read with or without it, and written with it."""
    suffix: str = field(default="", kw_only=True)
    """Text behind a number, such as "%" or " EUR"."""
    thousands: str = field(default="", kw_only=True)
    """What stands between groups of three digits, such as ","."""
    decimal: str = field(default=".", kw_only=True)
    """What stands before the digits of a fraction."""
    accounting: bool = field(default=False, kw_only=True)
    """Whether a negative number is written in parentheses."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("prefix", "suffix"):
            text = getattr(self, key)
            fits = isinstance(text, str) and not any(sign.isdigit() or sign in "+-()\r\n" for sign in text)
            self._need(fits, f'{key} must be text without digits or signs, such as "$" or "%"', key)
        self._need(self.thousands in ("", *_MARKS), 'thousands must be a mark such as "," or "."', "thousands")
        self._need(self.decimal in (".", ","), 'decimal must be "." or ","', "decimal")
        self._need(self.decimal != self.thousands, "thousands and decimal must differ", "thousands")
        self._need(isinstance(self.accounting, bool), "accounting must be true or false", "accounting")

    @property
    def number_format(self) -> NumberFormat | None:
        """How text writes the numbers, if the schema says so."""
        made = NumberFormat(self.prefix, self.suffix, self.thousands, self.decimal, self.accounting)
        return None if made == NumberFormat() else replace(made, digits=self.fraction)

    @property
    def fraction(self) -> int:
        """Digits after the point that every number is written with, where it is written in a way of its own."""
        return 0
