import errno
import os

import pytest

from weft.atomic import check_writable, staged
from weft.errors import OutputError


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_targets_appear_together(tmp_path):
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    with staged(a, b) as (draft_a, draft_b):
        draft_a.write_text("one")
        draft_b.write_text("two")
        assert leftovers(tmp_path) == sorted([draft_a.name, draft_b.name])
    assert (a.read_text(), b.read_text()) == ("one", "two")
    assert leftovers(tmp_path) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(failure), staged(target) as (draft,):
        draft.write_text("half")
        raise failure
    assert target.read_text() == "old"
    assert leftovers(tmp_path) == ["a.txt"]


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"), staged(tmp_path / "a.txt") as (draft,):
        draft.write_text("data")
    assert leftovers(tmp_path) == []


def test_unwritable_targets_are_refused_beforehand(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(tmp_path / "missing" / "a.txt")
    with pytest.raises(OutputError, match="is a folder"):
        check_writable(tmp_path)
    check_writable(tmp_path / "fine.txt")
