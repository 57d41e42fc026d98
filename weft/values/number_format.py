"""Numbers as people write them in text: "$1,234.50", "57%", "1.234,50", "(12.00)" for minus twelve.

How a column writes its numbers is declared, and each text is read by itself: what is not so written cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.values.text import readable

_GROUPS = 6  # groups of three digits in the largest number of 64 bits
_NO_NUMBER = "?"


@dataclass(frozen=True)
class NumberFormat:
    """What stands around and inside a number."""

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    """Between groups of three digits."""
    decimal: str = "."
    """Before the digits of the fraction."""
    accounting: bool = False
    """Whether a negative number stands in parentheses."""
    digits: int = 0
    """Digits to which a fraction is filled up when it is written: 12.50, not 12.5."""

    @property
    def _pattern(self) -> str:
        prefix, suffix, mark = (re.escape(sign.strip()) for sign in (self.prefix, self.suffix, self.decimal))
        around = r"[\s\x{a0}]*"
        groups = rf"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|" if self.thousands else ""
        number = rf"(?P<whole>{groups}[0-9]*)(?:{mark}(?P<fraction>[0-9]*))?(?P<power>[eE][+-]?[0-9]{{1,9}})?"
        signed = rf"(?P<sign>[+-]?){around}(?:{prefix})?{around}(?P<inner>[+-]?){number}"
        opened, closed = (r"(?P<open>\(?)", r"(?P<close>\)?)") if self.accounting else ("(?P<open>)", "(?P<close>)")
        return rf"^{around}{opened}{around}{signed}{around}(?:{suffix})?{around}{closed}{around}$"

    def plain(self, words: pa.Array) -> pa.Array:
        """Return each number in plain digits; a text that is none so written becomes one that nobody can read.

        >>> NumberFormat("$", thousands=",", accounting=True).plain(pa.array(["$1,234.5", "(12)", "1,23"])).to_pylist()
        ['1234.5', '-12', '?']
        """
        words = readable(words)
        found = pc.extract_regex(words, self._pattern)
        part = {name: pc.struct_field(found, name) for name in _PARTS}
        whole = pc.replace_substring(part["whole"], self.thousands, "") if self.thousands else part["whole"]
        point = pc.if_else(pc.equal(part["fraction"], ""), "", ".")
        negative = pc.or_(pc.equal(part["open"], "("), pc.is_in(_joined(part["sign"], part["inner"]), pa.array(["-"])))
        made = _joined(pc.if_else(negative, "-", ""), whole, point, part["fraction"], part["power"])
        paired = pc.equal(pc.equal(part["open"], "("), pc.equal(part["close"], ")"))
        single = pc.less_equal(pc.binary_length(_joined(part["open"], part["sign"], part["inner"])), 1)
        digits = pc.not_equal(_joined(whole, part["fraction"]), "")
        sound = pc.and_(pc.and_(paired, single), digits).fill_null(False)
        special = pc.match_substring_regex(words, r"(?i)^\s*(nan|[+-]?inf(inity)?|true|false|)\s*$")
        made = pc.if_else(sound, made.cast(pa.large_string()), pc.if_else(special, words, _NO_NUMBER))
        return pc.if_else(pc.is_valid(words), made, None)

    def dressed(self, words: pa.Array) -> pa.Array:
        """Return plain numbers as people write them.

        >>> NumberFormat(suffix=" %", thousands=".", decimal=",").dressed(pa.array(["-1234567.5", None])).to_pylist()
        ['-1.234.567,5 %', None]
        """
        words = words.cast(pa.large_string())
        found = pc.extract_regex(words, r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]*))?$")
        sign, whole, fraction = (pc.struct_field(found, name) for name in ("sign", "whole", "fraction"))
        fraction = pc.utf8_rpad(fraction, width=self.digits, padding="0") if self.digits else fraction
        if self.thousands:
            mark = re.escape(self.thousands)
            for _ in range(_GROUPS):
                whole = pc.replace_substring_regex(
                    whole, rf"^([0-9]+)([0-9]{{3}})((?:{mark}[0-9]{{3}})*)$", rf"\1{_literal(self.thousands)}\2\3"
                )
        negative = pc.equal(sign, "-")
        before, after = ("(", ")") if self.accounting else ("-", "")
        point = pc.if_else(pc.equal(fraction, ""), "", self.decimal)
        made = _joined(
            pc.if_else(negative, before, ""),
            pa.scalar(self.prefix, pa.large_string()),
            whole,
            point,
            fraction,
            pa.scalar(self.suffix, pa.large_string()),
            pc.if_else(negative, after, ""),
        )
        # A number that is written with a power of ten stays as it is: no reader would know it otherwise.
        return pc.if_else(pc.is_valid(found), made, words)


_PARTS = ("open", "sign", "inner", "whole", "fraction", "power", "close")


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        *(part.cast(pa.large_string()) for part in parts), pa.scalar("", pa.large_string())
    )


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\")
