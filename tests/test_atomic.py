import contextlib
import errno
import json
import os
from pathlib import Path

import pytest

from weft.errors import OutputError
from weft.io import atomic_files as atomic
from weft.io.atomic_files import check_writable, recover_files, stage_files


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_targets_appear_together(tmp_path):
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    with stage_files(a, b) as (draft_a, draft_b):
        draft_a.write_text("one")
        draft_b.write_text("two")
        assert leftovers(tmp_path) == sorted([draft_a.name, draft_b.name])
    assert (a.read_text(), b.read_text()) == ("one", "two")
    assert leftovers(tmp_path) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(failure), stage_files(target) as (draft,):
        draft.write_text("half")
        raise failure
    assert target.read_text() == "old"
    assert leftovers(tmp_path) == ["a.txt"]


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"), stage_files(tmp_path / "a.txt") as (draft,):
        draft.write_text("data")
    assert leftovers(tmp_path) == []


def test_unwritable_targets_are_refused_beforehand(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(tmp_path / "missing" / "a.txt")
    with pytest.raises(OutputError, match="is a folder"):
        check_writable(tmp_path)
    check_writable(tmp_path / "fine.txt")


OLD, NEW = ("old rows", "old page", "old card"), ("new rows", "new page", "new card")


def names(folder):
    return [folder / name for name in ("out.csv", "out.card.md", "out.card.json")]


def put(folder, texts):
    with stage_files(*names(folder)) as drafts:
        for draft, text in zip(drafts, texts, strict=True):
            draft.write_text(text)


def seen(folder):
    """What a reader finds: the text of each file, None where there is none."""
    return tuple(path.read_text() if path.exists() else None for path in names(folder))


def killed(folder, step):
    """Put a release in another process that dies, as by kill -9, before the step-th change of the folder."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = step

    def dying(own):
        def call(*given, **named):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return own(*given, **named)

        return call

    try:
        for owner, name in (
            (os, "fsync"),
            (Path, "replace"),
            (Path, "unlink"),
            (atomic, "_flush_file"),
            (json, "dump"),
        ):
            setattr(owner, name, dying(getattr(owner, name)))
        put(folder, NEW)
        os._exit(0)
    finally:  # a child that fails must not go on as a second runner of tests
        os._exit(70)


def test_a_kill_at_any_step_leaves_no_mixture_and_nothing_behind(tmp_path):
    step, states = 0, []
    while True:
        folder = tmp_path / str(step)
        folder.mkdir()
        put(folder, OLD)
        code = killed(folder, step)
        rows, page, card = seen(folder)
        states.append((rows, card))
        assert card is None or (rows, page, card) in (OLD, NEW)
        recover_files(folder)
        assert seen(folder) in (OLD, NEW)
        assert leftovers(folder) == sorted(path.name for path in names(folder))
        if code == 0:
            break
        step += 1
    assert ("old rows", "old card") in states and ("new rows", "new card") in states
    assert ("new rows", None) in states  # killed between the moves
    assert step > 10


def test_the_next_writer_finishes_what_was_cut_short(tmp_path):
    put(tmp_path, OLD)
    moves = 0

    def stuck(own):
        def replace(self, target):
            nonlocal moves
            moves += 1
            if moves == 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return own(self, target)

        return replace

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", stuck(Path.replace))
        with pytest.raises(OutputError, match="the next command"):
            put(tmp_path, NEW)
    assert seen(tmp_path) == ("new rows", None, None)
    with pytest.raises(ZeroDivisionError), stage_files(*names(tmp_path)):
        assert seen(tmp_path) == NEW
        1 / 0  # noqa: B018
    assert seen(tmp_path) == NEW
    assert leftovers(tmp_path) == ["out.card.json", "out.card.md", "out.csv"]


def interrupting(patch, step):
    """Raise as Ctrl-C does, once, before the step-th change of the folder."""
    left = step

    def stopping(own):
        def call(*given, **named):
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
            return own(*given, **named)

        return call

    for owner, name in ((os, "fsync"), (Path, "replace"), (atomic, "_flush_file"), (json, "dump")):
        patch.setattr(owner, name, stopping(getattr(owner, name)))


def test_ctrl_c_at_any_step_leaves_old_files_or_new_ones_and_nothing_behind(tmp_path):
    found = []
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        put(folder, OLD)
        with pytest.MonkeyPatch.context() as patch:
            interrupting(patch, step)
            try:
                put(folder, NEW)
            except KeyboardInterrupt:
                found.append(seen(folder))
            else:
                break
        assert leftovers(folder) == sorted(path.name for path in names(folder))
    assert set(found) == {OLD, NEW}


def test_a_draft_that_somebody_works_on_is_left_alone(tmp_path):
    target = tmp_path / "a.txt"
    dead = tmp_path / ".a.txt.0123abcd.part"
    dead.write_text("half")
    foreign = tmp_path / ".b.txt.0123abcd.part"
    foreign.write_text("half")
    with stage_files(target) as (draft,):
        assert not dead.exists()
        draft.write_text("one")
        assert recover_files(tmp_path, ["a.txt"]) == []
        with stage_files(target) as (other,):
            assert draft.exists() and other != draft
            other.write_text("two")
        assert target.read_text() == "two"
    assert target.read_text() == "one"
    assert leftovers(tmp_path) == [".b.txt.0123abcd.part", "a.txt"]  # of another file: not ours to judge


@pytest.mark.parametrize("target", ["../escaped.txt", "a/b.txt", "..", ""])
def test_a_record_moves_nothing_out_of_its_folder(tmp_path, target):
    home = tmp_path / "home"
    home.mkdir()
    draft = home / f".{target}.0123abcd.part"
    with contextlib.suppress(OSError):
        draft.write_text("text")
    record = home / ".x.json.0123abcd.commit"
    record.write_text(json.dumps({"files": [{"target": target, "draft": draft.name, "sha256": "0"}]}))
    recover_files(home)
    assert leftovers(tmp_path) == ["home"]


def test_a_record_whose_files_changed_is_dropped(tmp_path):
    record = tmp_path / ".b.0123abcd.commit"
    (tmp_path / ".a.0123abcd.part").write_text("one")
    (tmp_path / ".b.0123abcd.part").write_text("two")
    files = [{"target": name, "sha256": "0" * 64} for name in "ab"]
    record.write_text(json.dumps({"commit": 1, "files": files}))
    recover_files(tmp_path)
    assert leftovers(tmp_path) == []


def test_writers_take_turns(tmp_path):
    """Two processes that release to the same files again and again never mix them."""
    texts = [tuple(f"{word} {k}" for word in ("rows", "page", "card")) for k in range(2)]
    children = []
    for text in texts:
        child = os.fork()
        if not child:
            for _ in range(60):
                put(tmp_path, text)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0, 0]
    assert seen(tmp_path) in texts
    assert leftovers(tmp_path) == ["out.card.json", "out.card.md", "out.csv"]
