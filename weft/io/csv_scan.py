"""The check that every line of a CSV file keeps to its dialect (`weft.io.dialect`).

- Lines end with LF or CRLF; the first one names the columns, unless the dialect says otherwise.
- A field that holds the separator, a quote or a line break is put in quotes, and a quote inside it is written twice.
- A quote stands nowhere else: not inside a field without quotes, and nothing follows the closing one but the separator
  or the end of the line.
- Every line has as many fields as the first, and at most `MAX_LINE_LENGTH` bytes; blank lines are none.
- A line break inside a value is taken only in a column whose schema lists a value with one.

Readers elsewhere are lenient, and that is a leak: a quote that one row leaves open swallows the rows after it, so that
one row decides how others are read. Under these rules it cannot. A file that passes has an even number of quotes in
each record, so one record more is read as itself wherever it stands; and a record with an odd number of them leaves the
file with an odd number in all, which is a quote left open at the end. That file is refused as a whole, before anything
is asked of it. Where nothing quotes, a line is a record, and there is nothing to leave open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from weft.errors import DataError
from weft.schema import Column

MAX_LINE_LENGTH = 1 << 20
"""Bytes of one record: a limit that does not hang on where the record stands, as that of a reader's blocks would."""

_LF, _CR = ord("\n"), ord("\r")

# Where the scan stands: at the start of a field, in a plain one, in a quoted one, or behind a quote in a quoted one.
_START, _PLAIN, _QUOTED, _CLOSING = range(4)
# What it remembers between blocks.
_STATE, _LINE, _FIELD, _BYTES, _AFTER_CR, _RECORD, _FIRST_LINE, _END, _HEADER_END, _MEMORY = range(10)
# What can be wrong.
_FINE, _STRAY, _BEHIND, _BREAK, _FIELDS, _LONG, _LONE_CR, _OPEN = range(8)

_FAULTS = {
    _STRAY: "a quote stands inside a field that is not quoted. Put quotes around the field and write those in it twice",
    _BEHIND: "something follows a closing quote. Put a separator there, or write quotes inside a field twice",
    _BREAK: "a value holds a line break that the schema does not list, or a quote is left open. Take the line break "
    "out, or close the quote",
    _FIELDS: "it has more or fewer fields than the first line names. Mend it, or put quotes around the field that "
    "holds a separator",
    _LONG: f"it is longer than {MAX_LINE_LENGTH >> 20} MiB. Take the long column out of the file",
    _LONE_CR: "a carriage return stands alone. Let lines end with LF or CRLF, and take it out of values",
    _OPEN: "a quote is left open at the end of the file. Close it",
}


@njit(cache=True, nogil=True)
def scan_block(block, memory, separator, quote, breaks):  # type: ignore[no-untyped-def]
    """Go through a block of a file and return what is wrong first (0: nothing); `memory` is carried between blocks.

    `breaks` says of each field of a record whether it may hold line breaks. Noted are also where the last record of the
    block ends, and the first record of the file if it ends here.
    """
    width = len(breaks)
    memory[_END] = memory[_HEADER_END] = 0
    state, line, field = memory[_STATE], memory[_LINE], memory[_FIELD]
    length, after_cr, record, first = memory[_BYTES], memory[_AFTER_CR], memory[_RECORD], memory[_FIRST_LINE]
    fault = _FINE
    for i in range(len(block)):
        sign = block[i]
        if after_cr and sign != _LF:
            fault = _LONE_CR
            break
        if state == _QUOTED:
            length += 1
            if sign == quote:
                state = _CLOSING
            elif sign in (_LF, _CR):
                # The names of columns are public, and may be broken as they like.
                if record and not (field < width and breaks[field]):
                    fault = _BREAK
                    break
                line += sign == _LF
        elif sign == _LF:
            if length > 0 and field + 1 != width:
                fault = _FIELDS
                break
            if length > 0:
                record += 1
                if record == 1:
                    memory[_HEADER_END] = i + 1
            memory[_END] = i + 1
            line += 1
            state, field, length, after_cr, first = _START, 0, 0, 0, line
        elif sign == _CR:
            after_cr = 1
        elif sign == separator:
            length += 1
            field += 1
            state = _START
        elif sign == quote:
            length += 1
            if state == _PLAIN:
                fault = _STRAY
                break
            state = _QUOTED
        else:
            length += 1
            if state == _CLOSING:
                fault = _BEHIND
                break
            state = _PLAIN
        if length > MAX_LINE_LENGTH - 2:  # room for the line's end
            fault = _LONG
            break
    memory[_STATE], memory[_LINE], memory[_FIELD] = state, line, field
    memory[_BYTES], memory[_AFTER_CR], memory[_RECORD], memory[_FIRST_LINE] = length, after_cr, record, first
    return fault


def holds_break(text: object) -> bool:
    """Whether a text has more than one line."""
    return isinstance(text, str) and ("\n" in text or "\r" in text)


def lists_breaks(column: Column) -> bool:
    """Whether a column's schema lists a value with a line break, so that the file may hold one there."""
    return any(map(holds_break, column.listed or ()))


def require_listed_breaks(values: pa.Array, column: Column) -> None:
    """Refuse values with a line break that a column's schema does not list, whatever its policy for others."""
    listed = pa.array([value for value in column.listed or () if holds_break(value)], values.type)
    octets = values.cast(pa.binary())  # which may be no text
    broken = pc.or_(pc.match_substring(octets, "\n"), pc.match_substring(octets, "\r"))
    if pc.any(pc.and_(broken, pc.invert(pc.is_in(octets, listed.cast(pa.binary()))))).as_py():
        raise DataError(f'column "{column.name}": a value holds a line break that is not listed. Take it out')


BLOCK = 4 << 20
"""Bytes of a file that are checked and handed on at a time, for each `BLOCK_COLUMNS` columns."""

BLOCK_COLUMNS = 64


class Checked:
    """The bytes of a CSV file, with a DataError that tells the line where they leave the dialect.

    Read through it, a file is refused in the same pass that reads it: the first one, when nothing is charged yet.
    """

    def __init__(
        self,
        source: Any,
        path: str | PathLike[str],
        breaks: Sequence[bool],
        *,
        separator: str = ",",
        quote: str = '"',
        header: bool = True,
    ) -> None:
        """`breaks` has an entry for each column of the file: whether a value may hold a line break."""
        self._named = not header
        self._source, self._path = source, path
        self._separator, self._quote = ord(separator), ord(quote) if quote else -1
        self._breaks: NDArray[np.bool_] = np.array(breaks, np.bool_)
        self._memory = np.zeros(_MEMORY, np.int64)
        self._memory[_LINE] = self._memory[_FIRST_LINE] = 1
        self._memory[_RECORD] = not header

    def records(self, size: int | None = None) -> Iterator[bytes]:
        """Yield the file's records but for one that names the columns: many at a time, none of them cut."""
        # Rows of very many columns are long, and each column of a block is looked at by itself: blocks grow with them.
        size = size or BLOCK * min(max(len(self._breaks) // BLOCK_COLUMNS, 1), 16)
        held, named, begun = b"", self._named, False
        while block := bytes(self._source.read(size)):
            block = block if begun else block.removeprefix(b"\xef\xbb\xbf")
            begun = True
            self._check(
                scan_block(np.frombuffer(block, np.uint8), self._memory, self._separator, self._quote, self._breaks)
            )
            end, header = int(self._memory[_END]), int(self._memory[_HEADER_END])
            if not named and not header:
                continue  # the names of the columns go on
            start, named = (header if not named else 0), True
            if end > start or (end and held):
                yield held + block[start:end]
                held, start = b"", end
            held += block[max(start, end) :]
        self._end()
        if held:
            yield held

    def check(self) -> None:
        """Go through the whole file."""
        for _ in self.records():
            pass

    def _end(self) -> None:
        if self._memory[_STATE] == _QUOTED:
            self._check(_OPEN)
        if self._memory[_AFTER_CR]:
            self._check(_LONE_CR)
        if self._memory[_BYTES] and self._memory[_FIELD] + 1 != len(self._breaks):
            self._check(_FIELDS)

    def _check(self, fault: int) -> None:
        if fault != _FINE:
            line = self._memory[_LINE if fault == _LONE_CR else _FIRST_LINE]
            text = (
                _FAULTS[fault].replace("the first line names", "the schema has columns")
                if self._named
                else _FAULTS[fault]
            )
            raise DataError(f"{self._path}, line {line}: {text}")
