"""Validate output paths before anything is read: no command may overwrite its inputs or a record.

Two names are the same file if they resolve to the same path (links are followed) or to the same inode (hard links, and
names that differ in case on a case-insensitive file system). A source may be more than one file: a folder or a pattern
also matches files written into it later, so a release there would be read as private rows by the next run. In a DuckDB
query, every word that names a file counts as read: an output refused by mistake can be written elsewhere, whereas an
input overwritten by mistake is lost.
"""

import fnmatch
import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from weft.errors import OutputError
from weft.file_names import JOURNAL_ENDING as JOURNAL_ENDING
from weft.io.addresses import kind_of_address
from weft.io.formats import replace_ending, table_endings

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""An input. A string is what engines open: a file, a folder, a pattern or an address such as `duckdb:...`; a path is
one file; a list stands for all its members."""

_JOURNAL = b'{"run"'
_SQLITE = b"SQLite format 3"


def check_apart(
    inputs: Mapping[str, Source | None], outputs: Mapping[str, Path], records: Mapping[str, Path] | None = None
) -> None:
    """Raise OutputError for outputs that are inputs or records, that an input would match, or that coincide.

    Keys name the role of a file, as in "the private table" or "the journal". `records` are appended to, never replaced:
    such a file must be new, empty, or a record already.
    """
    written = [*outputs.items(), *(records or {}).items()]
    for role, target in written:
        for what, source in inputs.items():
            if source is not None:
                _check_read(role, target, what, source)
    for place, (role, target) in enumerate(written):
        for other, earlier in written[:place]:
            if same_file(target, earlier):
                raise OutputError(f"cannot write {target}: it would be {other} and {role}. Give them different names.")
    for role, target in outputs.items():
        if (_read_head(target) or b"").startswith(_SQLITE):
            raise OutputError(
                f"cannot write {role} to {target}: it is a database, perhaps a lifetime budget. Choose another name."
            )
        if any(found[0].queries for source in inputs.values() if (found := kind_of_address(source))):
            _check_known(role, target)
        if is_journal(target):
            raise OutputError(
                f"cannot write {role} to {target}: it is a budget journal, which must be kept. Choose another name."
            )
    for role, target in (records or {}).items():
        if _is_nonempty_file(target) and not is_journal(target):
            raise OutputError(f"cannot keep {role} in {target}: the file holds something else. Choose another name.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two names lead to the same file, or would once it is written."""
    return not _identify_path(one).isdisjoint(_identify_path(other))


def share_files(one: Source, other: Source) -> bool:
    """Whether two sources have a file in common, compared as files: folders, patterns, lists, links, databases."""
    keys = [
        set().union(
            *(_identify_path(path) for each in _iterate_plain_sources(source) for path in _list_source_files(each))
        )
        for source in (one, other)
    ]
    return not keys[0].isdisjoint(keys[1])


def is_journal(path: Path) -> bool:
    """Whether a file has the name of a budget journal, even a damaged one, or begins like one."""
    head = _read_head(path)
    return head is not None and (path.name.endswith(JOURNAL_ENDING) or head.lstrip(b"\n").startswith(_JOURNAL))


def _read_head(path: Path) -> bytes | None:
    """Return the first bytes of a file; None if it cannot be read."""
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(64)
    return None


def _check_known(role: str, target: Path) -> None:
    """Refuse to replace a file that Weft did not write: the query may read it through a view or a computed name."""
    if not _is_nonempty_file(target) or target.name.endswith((".card.md", ".card.json", ".weft", ".html", ".json")):
        return
    if not replace_ending(target, ".card.json").is_file():
        raise OutputError(f"cannot write {role} to {target}: the query may read this file. Choose another name.")


def _is_nonempty_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file() and path.stat().st_size > 0
    return False


def _check_read(role: str, target: Path, what: str, source: Source) -> None:
    """Refuse a target that is an input, or that a folder or pattern would match in the next run."""
    keys = _identify_path(target)
    for each in _iterate_plain_sources(source):
        if any(not keys.isdisjoint(_identify_path(path)) for path in _list_source_files(each)):
            raise OutputError(f"cannot write {target}: it is an input of this command ({what}). Choose another name.")
        if _would_read(each, target):
            raise OutputError(
                f"cannot write {role} to {target}: it would be among the files of {each}, and the next run would read "
                f"it as {what}. Write it to another folder."
            )


def _identify_path(path: Path) -> set[tuple[object, ...]]:
    """Return the keys that identify a file: its resolved path, and its inode if it exists."""
    keys: set[tuple[object, ...]] = set()
    with suppress(OSError, RuntimeError, ValueError):  # a loop of links, an invalid name
        place = path.resolve()
        name = place.name.casefold() if _folds_case(place.parent) else place.name
        keys.add((os.path.normcase(place.parent), os.path.normcase(name)))
    with suppress(OSError, ValueError):
        status = path.stat()
        keys.add((status.st_dev, status.st_ino))
    return keys


def _folds_case(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        other = folder.with_name(folder.name.swapcase())
        return other.name != folder.name and other.samefile(folder)
    return False


def _iterate_plain_sources(source: Source) -> Iterator[str | Path]:
    """Yield the plain sources in a source: paths, and strings that may be folders or patterns."""
    if isinstance(source, str):
        if found := kind_of_address(source):
            kind, address = found
            kind.name(address)  # refuses an invalid address, and one with a password
            yield from kind.reads(address)
        else:
            yield source
    elif isinstance(source, os.PathLike):
        yield Path(source)
    else:
        for each in source:
            yield from _iterate_plain_sources(str(each))


def _list_source_files(source: str | Path) -> Iterable[Path]:
    with suppress(OSError, ValueError):
        path = Path(source)
        if isinstance(source, Path) or path.is_file():
            return [path]
        if path.is_dir():
            return [each for each in path.rglob("*") if each.name.lower().endswith(table_endings())]
        return [Path(each) for each in glob.glob(source, recursive=True)]  # noqa: PTH207 (absolute patterns too)
    return []


def _would_read(source: str | Path, target: Path) -> bool:
    """Whether a folder or pattern matches a target, which need not exist yet."""
    if isinstance(source, Path):
        return False
    with suppress(OSError, RuntimeError, ValueError):
        path, place = Path(source), target.resolve()
        if path.is_dir():
            return place.is_relative_to(path.resolve()) and place.name.lower().endswith(table_endings())
        if not path.exists() and glob.has_magic(source):
            magic = next(i for i, part in enumerate(path.parts) if glob.has_magic(part))
            base = Path(*path.parts[:magic]).resolve()
            return place.is_relative_to(base) and _matches_pattern(place.relative_to(base).parts, path.parts[magic:])
    return False


def _matches_pattern(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether path components match a pattern, in which `**` stands for any number of components."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return _matches_pattern(parts, pattern[1:]) or (bool(parts) and _matches_pattern(parts[1:], pattern))
    return bool(parts) and fnmatch.fnmatch(parts[0], pattern[0]) and _matches_pattern(parts[1:], pattern[1:])
