"""The dialect of an input file: declared by the user, never inferred from rows.

The default dialect is UTF-8 text with commas (tabs in a .tsv file), double quotes and a first line that names the
columns. The default sheet of a workbook is the first one.

Privacy: under every dialect, each row is parsed independently of all other rows.

- Separator and quote are single ASCII characters, hence single bytes in UTF-8: the argument of `weft.io.csv_scan`
  holds for every pair of them, and also without a quote, where each line is one row.
- Only encodings in which each line can be decoded on its own are accepted (`ENCODINGS`): single-byte encodings,
  stateless multi-byte encodings in which no multi-byte character contains a line break, and UTF-16. An odd number of
  bytes in one row of UTF-16 would shift all rows after it; the file then has an odd number of bytes, and is refused.
- The decimal mark and the markers of missing values are applied to each field separately.
"""

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
"""Encodings in which each line can be decoded on its own."""

_TWICE = 'a comma cannot be both the decimal mark and the separator: set a separator such as ";"'
NOT_UTF8 = 'is not UTF-8 text; set its encoding, as in --encoding latin-1 or utf-16 (Dialect(encoding="latin-1"))'

_LETTERS = "a letter, a digit, a line break or one of . + - _"


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """Dialect of a text file or workbook.

    >>> Dialect(separator=";", decimal=",", encoding="latin-1").encoding
    'iso8859-1'
    """

    separator: str | None = None
    """Field separator (None: a comma, or a tab in a .tsv file)."""
    quote: str = '"'
    """Quote character around fields that contain a separator; an empty string if no field is ever quoted."""
    encoding: str = "utf-8"
    """Encoding of the file: UTF-8, UTF-16, Latin-1, a Windows code page or another of `ENCODINGS`."""
    decimal: str = "."
    """Decimal mark: a point or a comma."""
    header: bool | None = None
    """Whether the first line of a text file or sheet names the columns. If False, the columns are those of the schema,
    in its order. If None, the first line names the columns, and is refused if it looks like a row."""
    missing: tuple[Marker, ...] = ()
    """Markers of missing values, in every column that allows missing values."""
    sheet: str | int | None = None
    """Sheet of a workbook: its name, or its position counted from 1 (None: the first)."""

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
        """Whether every option but `missing` has its default value."""
        return self == Dialect(missing=self.missing)

    def check(self, options: Collection[str], name: str) -> None:
        """Refuse declared options without effect: all but `missing` and these."""
        known = ("missing", *options)
        idle = [
            each.name for each in fields(self) if each.name not in known and getattr(self, each.name) != each.default
        ]
        if idle:
            raise SourceError(f"{name}: {', '.join(idle)} would change nothing here; leave it out")

    @property
    def number_format(self) -> NumberFormat | None:
        """Number format of the file; None for a decimal point."""
        return None if self.decimal == "." else NumberFormat(decimal=self.decimal)

    def marking(self, schema: Schema) -> Schema:
        """Return the schema with the dialect's markers of missing values added."""
        return schema.marking(self.missing) if self.missing else schema

    def separator_in(self, ending: str) -> str:
        """Return the field separator of a file with this ending."""
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
            f'encoding {name!r} is unknown, or its lines cannot be read one by one: use one such as "utf-8", '
            '"utf-16", "latin-1" or "cp1252", or convert the file with `iconv -t UTF-8`'
        )
    return known


def _check_sign(what: str, sign: str | None) -> None:
    if sign is None:
        return
    if not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in "\r\n\0.+-_":
        raise SourceError(f"{what} must be a single character such as a semicolon or a tab, and not {_LETTERS}")


def _check_sheet(sheet: str | int | None) -> None:
    counted = isinstance(sheet, int) and not isinstance(sheet, bool) and sheet >= 1
    if not (sheet is None or counted or (isinstance(sheet, str) and sheet.strip())):
        raise SourceError("sheet must be the name of a sheet of the workbook, or its position counted from 1")


def markers_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the markers of missing values, given one by one or as comma-separated lists.

    >>> markers_of(["?", "NA,-9"])
    ('?', 'NA', '-9')
    """
    return tuple(dict.fromkeys(word.strip() for each in given or () for word in each.split(",") if word.strip()))


DEFAULT_DIALECT = Dialect()
