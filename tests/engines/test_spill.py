"""What is known of each row is kept in files where it is much, with the same answers, and nothing is left of them."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.engines import open_engine, spill
from weft.engines.memory_engine import MemoryEngine
from weft.engines.privacy_units import Units, keep_rows, sizes_of, unit_codes
from weft.engines.recoding import divide_rows, iterate_divided_rows
from weft.memory_plan import MemoryPlan

from .test_units import schema, visits


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Keep temporary files in a folder of the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(spill.tempfile, "tempdir", str(folder))
    return folder


def test_arrays_in_files_hold_what_is_put_there(temporary):
    for most in (0, 1 << 20):
        grown = spill.Growing(np.uint64, most)
        pieces = [np.arange(n, dtype=np.uint64) * 7 for n in (5, 0, 3000, 1)]
        for piece in pieces:
            grown.add(piece)
        assert (grown.whole() == np.concatenate(pieces)).all()
        made = spill.allocate_zeros(10_000, np.int64, most)
        made[77] = 5
        assert made.sum() == 5 and list(temporary.iterdir()) == []  # a file without a name


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot set room on a disk aside")
def test_the_disk_has_room_for_a_file_before_it_is_used(temporary, monkeypatch):
    made = []
    nameless = spill._open_nameless_file
    monkeypatch.setattr(spill, "_open_nameless_file", lambda: made.append(nameless()) or made[-1])
    spill.allocate_zeros(1 << 17, np.int64, 0)
    assert os.fstat(made[0].fileno()).st_blocks * 512 >= 1 << 20


@pytest.mark.parametrize("kind", ["text", "numbers", "floats"])
def test_units_in_files_keep_as_many_rows_of_each_person(kind, temporary):
    rng = np.random.default_rng(0)
    who = rng.integers(0, 200, 3000)
    ids = {"text": [f"p{i}" if i else "" for i in who], "numbers": who.tolist(), "floats": (who / 4).tolist()}[kind]
    column = pa.array([None if i % 97 == 5 else each for i, each in enumerate(ids)])
    units = Units("who", 3, spill=0)
    for at in range(0, 3000, 700):
        units.see(pa.record_batch([column.slice(at, 700)], ["who"]))
    keep, owners = units.keep(np.random.default_rng(1))
    known = unit_codes([column])
    assert not keep[known < 0].any()
    own = pa.array(column).to_pylist()
    for person in {own[i] for i in np.flatnonzero(known >= 0)}:
        rows = [i for i in np.flatnonzero(known >= 0) if own[i] == person]
        assert keep[rows].sum() == min(3, len(rows)) and len(set(owners[rows].tolist())) == 1
    assert len(np.unique(owners[keep])) == len(np.unique(known[known >= 0]))
    assert (sizes_of(owners, 3, keep) == sizes_of(known[keep_rows(known, 3, rng)], 3)).all()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("whose", ["rows", "units"])
def test_parts_are_made_piece_by_piece_as_all_at_once(whose, monkeypatch, temporary):
    monkeypatch.setattr(spill, "CHUNK", 64)
    rng = np.random.default_rng(0)
    names = rng.integers(0, 50, 1000).astype(np.uint64)
    keep = rng.random(1000) < 0.8
    owners = np.unique(rng.integers(0, 90, 1000), return_inverse=True)[1] if whose == "units" else None

    def deal(given):
        return given * np.uint64(0x9E3779B97F4A7C15)

    kept = np.flatnonzero(keep)
    part = divide_rows(names[kept], None if owners is None else owners[kept], [0.5, 0.3], deal)
    masks = iterate_divided_rows(names, keep, owners, [0.5, 0.3], deal, spill=0)
    for number, mask in enumerate(masks):
        assert np.flatnonzero(mask).tolist() == kept[part == number].tolist()


def test_a_streamed_table_with_units_and_parts_in_files(tmp_path, temporary):
    pq.write_table(visits(), tmp_path / "v.parquet", row_group_size=100)
    cliques = [("who",), ("visit",)]
    small = open_engine(
        tmp_path / "v.parquet", schema(1000), engine="stream", batch_rows=64, room=MemoryPlan(spill=0)
    ).engine
    here = open_engine(tmp_path / "v.parquet", schema(1000), engine="memory").engine
    assert isinstance(here, MemoryEngine)
    assert all((a == b).all() for a, b in zip(small.count(cliques), here.count(cliques), strict=True))
    assert (small.unit_sizes(50) == here.unit_sizes(50)).all()
    words = np.random.default_rng(2)
    parts = small.split([0.5, 0.5], lambda names: words.integers(0, 1 << 63, len(names)).astype(np.uint64) * 2)
    counted = [part.count([("who",)])[0] for part in parts]
    assert (sum(counted) == here.count([("who",)])[0]).all()
    assert not (np.minimum(*counted) > 0).any()  # nobody is in two parts
    assert list(temporary.iterdir()) == []
