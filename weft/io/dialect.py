"""The dialect in which files are read: declared by whoever reads them, never sniffed from rows.

What is not declared is the plain dialect: UTF-8, commas (tabs in a .tsv file), double quotes, a first line that names
the columns. Whatever is declared, a row is read by itself:

- Separator and quote are single signs of ASCII, which are single bytes in UTF-8: the argument of `weft.io.csv_scan`
  holds for each pair of them, and for no quote at all, where a line is a row.
- Encodings are those in which a line is decoded by itself: single bytes, and those of several bytes that no state
  carries from one character to the next, and of which none holds a line break (`ENCODINGS`). An odd number of bytes in
  a row of UTF-16 would shift all that follow; it also leaves the file with an odd number of them, which is refused.
- The decimal mark and the markers of missing values are looked for in each field alone.

Which sheet of a workbook is read is declared as well; the first, if nothing is said.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

from weft.errors import SourceError
from weft.schema import Schema
from weft.values.text_numbers import Marker, NumberFormat

ENCODINGS = (
    *("utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be"),
    *("iso8859-1", *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16))),
    *(f"cp{page}" for page in (1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
    *(f"cp{page}" for page in (437, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869)),
    *("koi8-r", "koi8-u", "mac-roman", "mac-latin2", "mac-cyrillic", "mac-greek", "mac-turkish"),
    *("gbk", "gb2312", "gb18030", "big5", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949"),
)
"""Encodings in which each line is decoded by itself."""

_TWICE = 'a comma cannot both be the decimal mark and separate fields: give a separator such as ";"'
NOT_UTF8 = 'is not UTF-8 text; say what it is, as in --encoding latin-1 or utf-16 (Dialect(encoding="latin-1"))'
"""What to do about a file in another encoding."""

_LETTERS = "a letter, a digit, a sign of a number or a line break"


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a file is written.

    >>> Dialect(separator=";", decimal=",", encoding="latin-1").encoding
    'iso8859-1'
    """

    separator: str | None = None
    """What stands between fields (None: commas, or tabs in a .tsv file)."""
    quote: str = '"'
    """What stands around a field that holds a separator; nothing, if no field is ever quoted."""
    encoding: str = "utf-8"
    """In which encoding the file is: UTF-8, UTF-16, Latin-1, Windows code pages and others."""
    decimal: str = "."
    """What stands before the digits of a fraction: a point or a comma."""
    header: bool | None = None
    """Whether the first line of a text file or sheet names the columns; if not, they are those of the schema in their
    order. (None: it does, but a first line that looks like a row is refused.)"""
    missing: tuple[Marker, ...] = ()
    """What stands for a missing value in every column that may be missing."""
    sheet: str | int | None = None
    """Which sheet of a workbook: its name, or its place counted from 1 (None: the first)."""

    def __post_init__(self) -> None:
        _check_sign("separator", self.separator)
        _check_sign("quote", self.quote or None)
        if self.quote and self.quote == self.separator:
            raise SourceError("separator and quote must differ")
        if self.decimal not in (".", ","):
            raise SourceError('decimal must be "." or ","')
        if self.decimal == self.separator:
            raise SourceError(_TWICE)
        _check_sheet(self.sheet)
        object.__setattr__(self, "encoding", _normalise_encoding(self.encoding))

    @property
    def named(self) -> bool:
        """Whether the first line names the columns."""
        return self.header is not False

    @property
    def plain(self) -> bool:
        """Whether nothing was declared but markers of missing values."""
        return self == Dialect(missing=self.missing)

    def check(self, options: Collection[str], name: str) -> None:
        """Refuse what is declared beyond these options, the only ones with an effect on a table besides `missing`."""
        known = ("missing", *options)
        idle = [
            each.name for each in fields(self) if each.name not in known and getattr(self, each.name) != each.default
        ]
        if idle:
            raise SourceError(f"{name}: {', '.join(idle)} would change nothing here; leave it out")

    @property
    def number_format(self) -> NumberFormat | None:
        """How the file writes numbers, if not with a point."""
        return None if self.decimal == "." else NumberFormat(decimal=self.decimal)

    def marking(self, schema: Schema) -> Schema:
        """Return a schema with the dialect's markers of missing values."""
        return schema.marking(self.missing) if self.missing else schema

    def separator_in(self, ending: str) -> str:
        """Return what separates the fields of a file with this ending."""
        found = self.separator or ("\t" if ending.startswith((".tsv", ".tab")) else ",")
        if found == self.decimal:
            raise SourceError(_TWICE)
        return found


def _normalise_encoding(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        known = ""
    known = "utf-8" if known == "utf-8-sig" else known
    if known not in ENCODINGS:
        raise SourceError(
            f'encoding {name!r} is not known, or its lines cannot be read one by one: give one such as "utf-8", '
            '"utf-16", "latin-1" or "cp1252", or convert the file with `iconv -t UTF-8`'
        )
    return known


def _check_sign(what: str, sign: str | None) -> None:
    if sign is None:
        return
    if not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in "\r\n\0.+-_":
        raise SourceError(f"{what} must be one sign such as a semicolon or a tab, and not {_LETTERS}")


def _check_sheet(sheet: str | int | None) -> None:
    counted = isinstance(sheet, int) and not isinstance(sheet, bool) and sheet >= 1
    if not (sheet is None or counted or (isinstance(sheet, str) and sheet.strip())):
        raise SourceError("sheet must be the name of a sheet of the workbook, or its place, counted from 1")


def markers_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return markers of missing values given one by one, or several with commas between them.

    >>> markers_of(["?", "NA,-9"])
    ('?', 'NA', '-9')
    """
    return tuple(dict.fromkeys(word.strip() for each in given or () for word in each.split(",") if word.strip()))


DEFAULT_DIALECT = Dialect()
"""What is read where nothing is declared."""
