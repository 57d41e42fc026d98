"""The bytes of a text file, from wherever they are: unpacked, in UTF-8, with their beginning to look at first."""

from __future__ import annotations

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

STDIN = "-"
"""What standard input is called where a file may be named."""

HEAD = 1 << 20
"""Bytes of the beginning that are kept to look at: as many as the longest line has."""

DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What a library raises on a damaged or locked archive, beside errors of the system and of Arrow."""

_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_BLOCK = 1 << 20


class Source(Protocol):
    """Anything with bytes to read."""

    def read(self, size: int, /) -> Any:
        """Return the next bytes, at most so many; none at the end."""
        ...


class Stream:
    """The bytes of a text file, in UTF-8 and without a byte order mark; messages call it by its name."""

    def __init__(self, source: Source, name: str, kind: str = ".csv", tell: Callable[[], int] | None = None) -> None:
        self._source, self._head, self._rest = source, b"", b""
        self.name, self.kind = name, kind
        self.tell = tell or (lambda: 0)
        """Says how many bytes of the file itself have been read."""
        self._begun = False

    def head(self) -> bytes:
        """Return the first bytes, as many as the longest line may have, or all; they are read again afterwards."""
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
    """Bytes in another encoding as UTF-8, decoded strictly: what is no text refuses the file."""

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
        raise DataError(
            f"{self._name} is not {self._encoding} text. Give its encoding, or convert it with `iconv -t UTF-8`"
        )


@contextmanager
def open_text_stream(path: Location, dialect: Dialect) -> Iterator[Stream]:
    """Open a text file, or standard input for "-": unpacked as its name says, and decoded as the dialect does."""
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
    """Return the bytes of a file as they were before it was compressed by gzip or zstd."""
    packed = {".gz": "gzip", ".zst": "zstd"}.get(get_compression(path))
    return raw if packed is None else pa.CompressedInputStream(raw, packed)


def _make_stream(source: Source, name: str, kind: str, dialect: Dialect, tell: Callable[[], int] | None) -> Stream:
    plain = dialect.encoding in ("utf-8", "ascii")
    return Stream(source if plain else Transcoded(source, dialect.encoding, name), name, kind, tell)


def _open_standard_input(pipe: Any) -> Source:
    """Return the bytes of standard input, unpacked if they begin as those of gzip or zstd do."""
    first = pipe.read(4) or b""
    raw = pa.PythonFile(_Joined(first, pipe), mode="r")
    packed = next((end for magic, end in _MAGIC.items() if first.startswith(magic)), "")
    return decompress(raw, f"stdin{packed}")  # type: ignore[no-any-return]


class _Joined:
    """Bytes that were read already, and those that follow."""

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
    """Return the one file of an archive; DataError if there are several, for nobody said which."""
    members = [each for each in archive.infolist() if not each.is_dir() and not each.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        many = "holds no file" if not members else "holds several files"
        raise DataError(f"{path} {many}; unpack it, and name the file or files to read")
    return members[0]
