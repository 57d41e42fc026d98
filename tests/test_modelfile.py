import contextlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest

import weft
from weft.errors import ModelFileError


@pytest.fixture
def saved(tmp_path, table, schema):
    path = tmp_path / "model.weft"
    weft.Synthesizer(epsilon=1.0, method="independent", seed=1).fit(table, schema).save(path)
    return path


def rewrite(path, changes):
    """Copy a model file with some members replaced (None: left out)."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members |= changes
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            if content is not None:
                file.writestr(name, content)


def test_a_loaded_model_samples_the_same_rows(saved, table, schema):
    loaded = weft.load(saved)
    again = weft.load(saved)
    assert loaded.sample(50, seed=3).equals(again.sample(50, seed=3))
    assert loaded.sample(50, seed=3).schema.types == table.schema.types
    assert loaded.ledger_.to_dict() == again.ledger_.to_dict()


def test_nothing_of_the_rows_is_inside(tmp_path, schema):
    from conftest import make_table

    canary = make_table(50).set_column(3, "cost", [np.full(50, 123.45, np.float32)])
    path = tmp_path / "canary.weft"
    weft.Synthesizer(method="independent").fit(canary, schema).save(path)
    with zipfile.ZipFile(path) as file:
        assert all(b"123.45" not in file.read(name) for name in file.namelist())


def test_the_file_does_not_tell_the_time(saved, tmp_path):
    """How long a fit took follows the number of rows; and equal models make equal files."""
    with zipfile.ZipFile(saved) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {member.compress_type for member in file.infolist()} == {zipfile.ZIP_DEFLATED}
    weft.load(saved).save(tmp_path / "again.weft")
    assert (tmp_path / "again.weft").read_bytes() == saved.read_bytes()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


HUGE = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }".ljust(118)
"""An array file whose header claims 800 GB."""


@pytest.mark.parametrize(
    "changes",
    [
        {"weft.json": b"not json"},
        {"weft.json": b"[]"},
        {"weft.json": json.dumps({"format": 99, "method": "independent", "options": {}}).encode()},
        {"weft.json": None},
        {"schema.json": b"{}"},
        {"model.json": json.dumps({"kind": "nope", "arrays": [], "values": {}}).encode()},
        {"model.json": json.dumps({"kind": "independent", "arrays": ["tables"], "values": {}}).encode()},
        {"arrays/tables.npy": HUGE},
        {"arrays/tables.npy": npy(np.zeros(3))},
        {"arrays/tables.npy": npy(np.array([None, "x"], dtype=object))},
        {"arrays/tables.npy": pickle.dumps([1, 2, 3])},
        {"arrays/tables.npy": None},
        {"ledger.json": b"{}"},
        {"ledger.json": b"[" * 100_000},
    ],
)  # fmt: skip
def test_a_hostile_file_gets_a_clear_error(saved, changes):
    rewrite(saved, changes)
    with pytest.raises(ModelFileError, match=r"model\.weft"):
        weft.load(saved)


@pytest.mark.parametrize("content", [b"", b"random bytes", b"PK\x03\x04 truncated"])
def test_what_is_no_zip_is_refused(tmp_path, content):
    path = tmp_path / "model.weft"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        weft.load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        weft.load(tmp_path / "absent.weft")


def test_any_flipped_byte_loads_or_is_refused(saved):
    """Damage anywhere ends in a model or a ModelFileError, never in another exception."""
    original = saved.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(original), 150):
        damaged = bytearray(original)
        damaged[position] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        with contextlib.suppress(ModelFileError):
            weft.load(saved)
