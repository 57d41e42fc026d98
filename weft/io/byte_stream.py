"""Byte streams of text files: decompressed, transcoded to UTF-8, with a first part that can be inspected."""

import codecs
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from weft.errors import DataError
from weft.io.dialect import Dialect
from weft.io.formats import get_compression, get_ending

Location = str | PathLike[str]

STDIN = "-"  # names standard input where a file name is expected

HEAD = 1 << 20
"""Bytes kept for inspection from the start of a file: the maximum length of a line."""

DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Exceptions of a damaged or locked archive, in addition to OSError and Arrow's exceptions."""

PACKERS = {".gz": "gzip", ".zst": "zstd"}
"""Arrow's names of compressions, by ending."""

_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_BLOCK = 1 << 20


class Source(Protocol):
    """Object with bytes to read."""

    def read(self, size: int, /) -> Any:
        """Return the next bytes, at most `size`; none at the end."""
        ...


class Stream:
    """Bytes of a text file, in UTF-8 and without a byte order mark; messages use `name`."""

    def __init__(self, source: Source, name: str, kind: str = ".csv", tell: Callable[[], int] | None = None) -> None:
        self._source, self._head, self._rest = source, b"", b""
        self.name, self.kind = name, kind
        self.tell = tell or (lambda: 0)
        """Return the number of bytes read from the file itself."""
        self._begun = False

    def head(self) -> bytes:
        """Return about the first `HEAD` bytes, or all if there are fewer, without consuming them."""
        if not self._begun:
            self._begun = True
            pieces: list[bytes] = []
            while sum(map(len, pieces)) < HEAD and (block := bytes(self._source.read(_BLOCK))):
                pieces.append(block)
            self._head = self._rest = b"".join(pieces).removeprefix(codecs.BOM_UTF8)
        return self._head

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""
        self.head()
        if self._rest:
            block, self._rest = self._rest[:size], self._rest[size:]
            return block
        return bytes(self._source.read(size))


class Transcoded:
    """Bytes of another encoding as UTF-8, decoded strictly: a file with invalid bytes is refused."""

    def __init__(self, source: Source, encoding: str, name: str) -> None:
        self._source, self._name, self._encoding = source, name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="strict")

    def read(self, size: int, /) -> bytes:
        """Return the next bytes in UTF-8; none at the end."""
        while block := bytes(self._source.read(size)):
            if made := self._text(block, False):
                return made
        return self._text(b"", True)

    def _text(self, block: bytes, final: bool) -> bytes:
        try:
            return self._decoder.decode(block, final).encode()
        except (UnicodeError, ValueError):
            pass
        raise DataError(f"{self._name} is not {self._encoding} text. Set its encoding, or run `iconv -t UTF-8`")


@contextmanager
def open_text_stream(path: Location, dialect: Dialect) -> Iterator[Stream]:
    """Open a text file, or standard input for "-": decompressed by its ending, and decoded by the dialect."""
    if str(path) == STDIN:
        yield _make_stream(_open_standard_input(sys.stdin.buffer), "stdin", ".csv", dialect, None)
        return
    packed = get_compression(path)
    if packed == ".zip":
        with zipfile.ZipFile(path) as archive:
            member = _open_single_member(archive, path)
            with Path(path).open("rb") as raw, archive.open(member) as source:
                kind = get_ending(member.filename) if get_ending(path) == ".zip" else get_ending(path)
                yield _make_stream(source, str(path), kind, dialect, raw.tell)
        return
    with pa.OSFile(str(path), "rb") as raw:
        yield _make_stream(decompress(raw, path), str(path), get_ending(path), dialect, raw.tell)


def decompress(raw: pa.NativeFile, path: Location) -> pa.NativeFile:
    """Return the decompressed bytes of a file, if its ending is that of gzip or zstd."""
    packed = PACKERS.get(get_compression(path))
    return raw if packed is None else pa.CompressedInputStream(raw, packed)


def _make_stream(source: Source, name: str, kind: str, dialect: Dialect, tell: Callable[[], int] | None) -> Stream:
    plain = dialect.encoding in ("utf-8", "ascii")
    return Stream(source if plain else Transcoded(source, dialect.encoding, name), name, kind, tell)


def _open_standard_input(pipe: Any) -> Source:
    """Return the bytes of standard input, decompressed if they begin like gzip or zstd."""
    first = pipe.read(4) or b""
    raw = pa.PythonFile(_Joined(first, pipe), mode="r")
    packed = next((end for magic, end in _MAGIC.items() if first.startswith(magic)), "")
    return decompress(raw, f"stdin{packed}")  # type: ignore[no-any-return]


class _Joined:
    """Bytes that were already read, followed by the rest of a pipe."""

    closed = False

    def __init__(self, first: bytes, pipe: Any) -> None:
        self._first, self._pipe = first, pipe

    def read(self, size: int = -1, /) -> bytes:
        if self._first:
            block, self._first = self._first, b""
            return block
        return bytes(self._pipe.read(size) or b"")

    def close(self) -> None:
        self.closed = True


def _open_single_member(archive: zipfile.ZipFile, path: Location) -> zipfile.ZipInfo:
    """Return the only file in an archive; DataError if it has none or several."""
    members = [each for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        many = "holds no file" if not members else "holds several files"
        raise DataError(f"{path} {many}; decompress it, and name the file or files to read")
    return members[0]
