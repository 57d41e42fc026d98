"""Validate that every line of a CSV file conforms to its dialect (`weft.io.dialect`).

- Lines end with LF or CRLF; the first one names the columns, unless the dialect declares otherwise.
- A field that contains the separator, a quote or a line break is quoted, and quotes inside it are doubled.
- Quotes occur nowhere else: not inside an unquoted field, and a closing quote is followed by the separator or the end
  of the line.
- Every line has as many fields as the first, and at most `MAX_LINE_LENGTH` bytes; blank lines are skipped.
- A line break inside a value is allowed only in a column whose schema lists a value with one.

Privacy: other CSV readers are lenient, which leaks: an unclosed quote in one row absorbs the rows after it, so one row
determines how others are read. These rules prevent that. A valid file has an even number of quotes in each record, so
an additional record is parsed on its own, wherever it is inserted. A record with an odd number of quotes makes the
total odd, so that a quote is still open at the end; the whole file is then refused, before any query. Without a quote
character, each line is a record, and no quote can be left open.
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.errors import DataError
from weft.kernels import kernel
from weft.schema import Column

MAX_LINE_LENGTH = 1 << 20
"""Maximum bytes of a record: unlike the block size of a reader, this limit does not depend on the record's position."""

_LF, _CR = ord("\n"), ord("\r")

# States: at the start of a field, in an unquoted field, in a quoted field, after a quote in a quoted field.
_START, _PLAIN, _QUOTED, _CLOSING = range(4)
_STATE, _LINE, _FIELD, _BYTES, _AFTER_CR, _RECORD, _FIRST_LINE, _END, _HEADER_END, _MEMORY = range(10)
_FINE, _STRAY, _BEHIND, _BREAK, _FIELDS, _LONG, _LONE_CR, _OPEN = range(8)

_FAULTS = {
    _STRAY: "a quote occurs inside a field that is not quoted. Put quotes around the field and double those inside it",
    _BEHIND: "something follows a closing quote. Insert a separator, or double the quotes inside a field",
    _BREAK: "a value has a line break that the schema does not list, or a quote is left open. Remove the line break, "
    "or close the quote",
    _FIELDS: "it has more or fewer fields than the first line names. Correct it, or put quotes around a field that "
    "contains a separator",
    _LONG: f"it is longer than {MAX_LINE_LENGTH >> 20} MiB. Remove the long column from the file",
    _LONE_CR: "a carriage return is not followed by a line feed. End lines with LF or CRLF, and remove it from values",
    _OPEN: "a quote is left open at the end of the file. Close it",
}


@kernel(cache=True, nogil=True)
def scan_block(block, memory, separator, quote, breaks):  # type: ignore[no-untyped-def]
    """Scan a block of a file and return the first fault (0: none); `memory` is carried between blocks.

    `breaks` states for each field whether it may contain line breaks. The end of the last record in the block, and the
    end of the file's first record if it is in this block, are stored in `memory`.
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
                # Column names are public, and may contain line breaks.
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
        if length > MAX_LINE_LENGTH - 2:  # leaves two bytes for the line ending
            fault = _LONG
            break
    memory[_STATE], memory[_LINE], memory[_FIELD] = state, line, field
    memory[_BYTES], memory[_AFTER_CR], memory[_RECORD], memory[_FIRST_LINE] = length, after_cr, record, first
    return fault


def holds_break(text: object) -> bool:
    """Whether a value is text with a line break."""
    return isinstance(text, str) and ("\n" in text or "\r" in text)


def lists_breaks(column: Column) -> bool:
    """Whether a column's schema lists a value with a line break, so that the file may contain one."""
    return any(map(holds_break, column.listed or ()))


def require_listed_breaks(values: pa.Array, column: Column) -> None:
    """Refuse values with a line break that the column's schema does not list, regardless of `outside`."""
    listed = pa.array([value for value in column.listed or () if holds_break(value)], values.type)
    octets = values.cast(pa.binary())  # may be invalid UTF-8
    broken = pc.or_(pc.match_substring(octets, "\n"), pc.match_substring(octets, "\r"))
    if pc.any(pc.and_(broken, pc.invert(pc.is_in(octets, listed.cast(pa.binary()))))).as_py():
        raise DataError(f'column "{column.name}": a value holds a line break that is not listed. Remove the line break')


BLOCK = 4 << 20
"""Bytes of a file that are validated at a time, for each `BLOCK_COLUMNS` columns."""

BLOCK_COLUMNS = 64


class Checked:
    """Validated bytes of a CSV file; DataError with the line that violates the dialect.

    An invalid file is refused in the pass that reads it: the first one, before anything is charged.
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
        """`breaks` states for each column of the file whether a value may contain a line break."""
        self._named = not header
        self._source, self._path = source, path
        self._separator, self._quote = ord(separator), ord(quote) if quote else -1
        self._breaks: NDArray[np.bool_] = np.array(breaks, np.bool_)
        self._memory = np.zeros(_MEMORY, np.int64)
        self._memory[_LINE] = self._memory[_FIRST_LINE] = 1
        self._memory[_RECORD] = not header

    def records(self, size: int | None = None) -> Iterator[bytes]:
        """Yield blocks of whole records, without the header."""
        # Each column of a block is processed separately, so blocks grow with the number of columns.
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
                continue  # still inside the header
            start, named = (header if not named else 0), True
            if end > start or (end and held):
                yield held + block[start:end]
                held, start = b"", end
            held += block[max(start, end) :]
        if self._memory[_STATE] == _QUOTED:
            self._check(_OPEN)
        if self._memory[_AFTER_CR]:
            self._check(_LONE_CR)
        if self._memory[_BYTES] and self._memory[_FIELD] + 1 != len(self._breaks):
            self._check(_FIELDS)
        if held:
            yield held

    def check(self) -> None:
        """Validate the whole file."""
        for _ in self.records():
            pass

    def _check(self, fault: int) -> None:
        if fault != _FINE:
            line = self._memory[_LINE if fault == _LONE_CR else _FIRST_LINE]
            text = _FAULTS[fault]
            text = text.replace("the first line names", "the schema has columns") if self._named else text
            raise DataError(f"{self._path}, line {line}: {text}")
